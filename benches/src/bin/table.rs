//! Measures this parser and the floors, and prints a table.
//!
//! In: milliseconds to spend on each row (100). Out: nanoseconds a delta and gigabytes a second, of the best round.

use std::process::ExitCode;
use std::time::Duration;

use kimi_xtml_benches::{once, rows};

fn main() -> ExitCode {
    let budget = match std::env::args().nth(1).map(|argument| argument.parse()) {
        None => 100,
        Some(Ok(milliseconds)) => milliseconds,
        Some(Err(_)) => {
            eprintln!("usage: table [MILLISECONDS], to spend on each row");
            return ExitCode::from(2);
        }
    };
    let budget = Duration::from_millis(budget);
    match rows(budget) {
        Ok(rows) => {
            println!("{:10}  {:16}  {:32} {:>9} {:>8}", "stream", "in", "out, or floor", "ns/delta", "GB/s");
            for row in rows {
                let (nanoseconds, gigabytes) = (row.per_delta(), row.gigabytes());
                println!("{:10}  {:16}  {:32} {nanoseconds:9.1} {gigabytes:8.3}", row.shape, row.input, row.sink);
            }
        }
        Err(wrong) => {
            eprintln!("{wrong}");
            return ExitCode::FAILURE;
        }
    }
    for (name, nanoseconds) in once(budget) {
        println!("{name}: {nanoseconds:.0} ns");
    }
    ExitCode::SUCCESS
}
