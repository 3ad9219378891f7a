//! The commands: one file each.

pub(crate) mod check;
pub(crate) mod inspect;
pub(crate) mod parse;
pub(crate) mod parse_batch;
pub(crate) mod prompt;
pub(crate) mod record;
pub(crate) mod replay;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::Context;
use kimi_xtml_cli::cases::{self, Case};

use crate::args::Chunk;

/// Raw text, a chunk at a time.
struct Input {
    reader: Box<dyn Read>,
    name: String,
    chunk: Chunk,
    ended: bool,
}

impl Input {
    fn open(file: &Path, chunk: Chunk) -> anyhow::Result<Self> {
        let name = cases::name(file);
        let reader: Box<dyn Read> = if cases::is_stdin(file) {
            Box::new(io::stdin().lock())
        } else {
            Box::new(io::BufReader::new(File::open(file).with_context(|| format!("cannot read {name}"))?))
        };
        Ok(Input { reader, name, chunk, ended: false })
    }

    fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        if self.ended {
            return Ok(None);
        }
        let limit = if let Chunk::Bytes(bytes) = self.chunk { bytes.get() as u64 } else { u64::MAX };
        let mut chunk = Vec::new();
        let read = (&mut self.reader).take(limit).read_to_end(&mut chunk);
        read.with_context(|| format!("cannot read {}", self.name))?;
        self.ended = (chunk.len() as u64) < limit;
        Ok((!chunk.is_empty()).then_some(chunk))
    }
}

/// A whole text.
fn text(file: &Path) -> anyhow::Result<String> {
    let mut input = Input::open(file, Chunk::Whole)?;
    let text = String::from_utf8(input.next()?.unwrap_or_default());
    text.with_context(|| format!("{} is no UTF-8", input.name))
}

/// The records of a case file, or the one with this id.
fn records(file: &Path, id: Option<&str>) -> anyhow::Result<Vec<Case>> {
    let mut cases = cases::read(file)?;
    anyhow::ensure!(!cases.is_empty(), "no case in {}", cases::name(file));
    if let Some(id) = id {
        cases.retain(|case| case.id == id);
        anyhow::ensure!(!cases.is_empty(), "{}: no record has the id {id}", cases::name(file));
    }
    Ok(cases)
}

/// The standard output, buffered; colours are left away where none can be shown.
fn stdout() -> impl Write {
    io::BufWriter::new(anstream::stdout().lock())
}
