//! Plays one stream, for callgrind to count the instructions of `run`.
//!
//! In: the name of a count; none lists the names. Out: how many deltas `run` takes. `benches/guard` divides the two.

use std::process::ExitCode;

use kimi_xtml_benches::{Case, Cut, Input, Sinks, shape};

const K: usize = 1 << 10;
const FOUR: Input = Input::Text(Cut::Bytes(4));
const KILO: Input = Input::Text(Cut::Bytes(K));

/// What is counted: name, shape, length, input, sink.
const COUNTS: &[(&str, &str, usize, Input, Sinks)] = &[
    ("reasoning, 4 B", "reasoning", 16 * K, FOUR, Sinks::Events),
    ("content, 4 B", "content", 16 * K, FOUR, Sinks::Events),
    ("string argument of prose, 4 B", "prose", 16 * K, FOUR, Sinks::Events),
    ("string argument of code, 4 B", "code", 16 * K, FOUR, Sinks::Events),
    ("object argument, 4 B", "object", 16 * K, FOUR, Sinks::Events),
    ("200 calls, 4 B", "calls", 200 * 180, FOUR, Sinks::Events),
    ("a short turn, 4 B, and reset", "turn", 800, FOUR, Sinks::Events),
    ("an agent's turn, tokens by push_token", "agent", 2 * K, Input::Tokens, Sinks::Events),
    ("content, tokens by push_token", "content", 16 * K, Input::Tokens, Sinks::Events),
    ("content, tokens by push_with_ids", "content", 16 * K, Input::WithIds(1), Sinks::Events),
    ("content, pieces", "content", 16 * K, Input::Pieces, Sinks::Events),
    ("content, 4 B, chat deltas", "content", 16 * K, FOUR, Sinks::Chat),
    ("string argument of code, 4 B, chat deltas", "code", 16 * K, FOUR, Sinks::Chat),
    ("content, 4 B, frames", "content", 16 * K, FOUR, Sinks::Frames),
    ("content, 1 KB", "content", 64 * K, KILO, Sinks::Events),
    ("string argument of prose, 1 KB", "prose", 64 * K, KILO, Sinks::Events),
    ("string argument of code, 1 KB", "code", 64 * K, KILO, Sinks::Events),
    ("object argument, 1 KB", "object", 64 * K, KILO, Sinks::Events),
    ("200 calls, 1 KB", "calls", 200 * 180, KILO, Sinks::Events),
    ("400 arguments, 1 KB", "arguments", 200 * 180, KILO, Sinks::Events),
    ("flood of <, 4 B", "less", 16 * K, FOUR, Sinks::Events),
    ("flood of <|open|>, 4 B", "opens", 16 * K, FOUR, Sinks::Events),
    ("quoted closes, 4 B", "quoted", 16 * K, FOUR, Sinks::Events),
];

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        COUNTS.iter().for_each(|(name, ..)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    let Some(&(_, shape_name, len, input, sink)) = COUNTS.iter().find(|count| count.0 == name) else {
        eprintln!("no such count: {name} (without an argument they are listed)");
        return ExitCode::from(2);
    };
    let shape = shape(shape_name).expect("the table names shapes");
    let streams = [shape.stream(len, 1)];
    match Case::new(&streams, input, sink) {
        Ok(mut case) => {
            run(&mut case);
            println!("{}", case.deltas());
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("{name}: {wrong}");
            ExitCode::FAILURE
        }
    }
}

/// What is counted.
#[inline(never)]
fn run(case: &mut Case<'_>) {
    case.play();
}
