//! One input: `cargo run --example one -- ORACLE FILE`. In: a file. Out: a panic if the oracle finds a fault in it.

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (name, file) = (arguments.next().unwrap(), arguments.next().unwrap());
    let oracle = kimi_xtml_fuzz::ORACLES.iter().find(|oracle| oracle.0 == name).unwrap();
    oracle.1(&std::fs::read(file).unwrap());
}
