//! The oracle of the files that the tool reads. It is built for the tests and for the fuzzer alone.
//!
//! In: bytes; a first byte below [`READERS`] names a reader of `record`, any other begins a case file. Out: nothing, or a
//! panic: where a reader panics, or tells of an error without the file and its line, or gives what cannot be written and
//! read again.

use std::num::NonZeroUsize;

use crate::cases::{self, Case, Context, Opened};
use crate::check::check;
use crate::chunking::Chunking;
use crate::record::{Cutter, Grouping, Recorder, Setting, Turn, Variation, capture, chat, gsm8k, toolcalls};

/// Readers of `record` that a first byte names: captures, messages, word problems, calls of one and of several turns,
/// schemas, ranks.
pub const READERS: u8 = 7;

/// Ends the first of two files.
pub const CUT: u8 = 0xff;

const NAME: &str = "fuzzed";

/// A case file, or another file that becomes cases.
pub fn cases(data: &[u8]) {
    match data {
        [reader, file @ ..] if *reader < READERS => match recorded(*reader, file) {
            Ok(read) => read.iter().for_each(comes_back),
            Err(error) => names_its_place(&format!("{error:#}")),
        },
        _ => match cases::read_from(data, NAME) {
            Ok(read) => read.iter().for_each(comes_back),
            Err(error) => names_its_place(&error.to_string()),
        },
    }
}

/// An error names the line, or says what the whole file is or has not.
fn names_its_place(told: &str) {
    let after = told.strip_prefix(NAME).unwrap_or_default();
    let of_all = [" is compressed", ": no text deltas", ": no assistant message", ": no token for the byte"];
    assert!(after.starts_with(", line ") || of_all.iter().any(|reason| after.starts_with(reason)), "{told}");
}

/// A case is written and read again as it is, and checked without a panic.
fn comes_back(case: &Case) {
    let line = serde_json::to_string(case).unwrap();
    let again = cases::read_from(line.as_bytes(), "written").unwrap();
    assert_eq!(again.iter().map(|case| serde_json::to_string(case).unwrap()).collect::<Vec<_>>(), [line]);
    if case.scale.iter().flat_map(|scale| &scale.times).sum::<usize>() < 1_000 {
        check(case, &[Chunking::AsGiven, Chunking::Chars]);
    }
}

fn recorded(reader: u8, file: &[u8]) -> anyhow::Result<Vec<Case>> {
    let recorder = Recorder { cutter: Cutter::Schedule, seed: 1 };
    let cut = file.iter().position(|&byte| byte == CUT).unwrap_or(file.len());
    let (first, second) = (&file[..cut], file.get(cut + 1..).unwrap_or_default());
    let lines = |bytes| gsm8k::lines_from(bytes, NAME);
    let turns = match reader {
        0 => return capture::read_from(file, NAME, NAME, &Context::default()),
        1 => chat::read_from(file, NAME, NAME)?,
        2 => gsm8k::turns(lines(first)?, NAME, &lines(second)?)?,
        3 => toolcalls::turns_of("simple", &lines(first)?, &lines(second)?),
        4 => toolcalls::turns_of("multi-turn", &lines(first)?, &lines(second)?),
        5 => toolcalls::turns_of_schemas(NAME, &lines(first)?, &recorder),
        _ => {
            Cutter::read_from(file, NAME)?;
            Vec::new()
        }
    };
    Ok(turns.iter().filter_map(|turn| recorder.record(turn, setting(turn)).ok()).collect())
}

/// A setting that the turn's id chooses.
fn setting(turn: &Turn) -> Setting {
    let variation = Variation::ALL[turn.id.len() % Variation::ALL.len()];
    let limit = NonZeroUsize::new(turn.id.len() % 3 * 20);
    Setting { opened: Opened::None, declared: true, grouping: Grouping::Random, variation, limit }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_oracle_passes_on_its_seeds() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/cases");
        let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(files.len() >= 60);
        for file in files {
            let seed = fs::read(&file).unwrap();
            super::cases(&seed);
            super::cases(&seed[..seed.len() / 2]);
        }
    }
}
