//! Recorded streams, found by what the user says.
//!
//! In: case files (`corpora/README.md` describes them). Out: for a request, the record whose `user` or `id` the user has said
//! since the assistant's last turn, as a message, a part or a line of one, else the next one in turn. Held: the records.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use kimi_xtml::{Channel, Logprob};
use kimi_xtml_cli::cases::{self, Case};
use kimi_xtml_cli::play::Delta;
use serde::Deserialize;

use super::{Chunk, Said};

/// The records of some files.
#[derive(Debug, Default)]
pub struct Replay {
    cases: Vec<Arc<Case>>,
    by_words: HashMap<String, usize>,
    next: AtomicUsize,
}

/// What a record says beside its case.
#[derive(Deserialize)]
struct Asked {
    user: Option<String>,
}

impl Replay {
    /// Adds the records of a file.
    ///
    /// # Errors
    /// If the file cannot be read, a line is no record, or there is none.
    pub fn read(&mut self, file: &Path) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        self.add(&text, &file.display().to_string())
    }

    /// Adds the records of a text, one a line; errors call it `name`.
    ///
    /// # Errors
    /// If a line is no record, or there is none.
    pub fn add(&mut self, text: &str, name: &str) -> anyhow::Result<()> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let cases = cases::read_from(text.as_bytes(), name)?;
        anyhow::ensure!(!cases.is_empty(), "{name} has no records: there is nothing to replay");
        for (case, line) in cases.into_iter().zip(lines) {
            let asked: Asked = serde_json::from_str(line)?;
            for words in asked.user.into_iter().chain([case.id.clone()]) {
                self.by_words.entry(words).or_insert(self.cases.len());
            }
            self.cases.push(Arc::new(case));
        }
        Ok(())
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// The record for what the user says. What was said last counts first.
    pub fn find(&self, said: &Said) -> Arc<Case> {
        let known = |words: &str| self.by_words.get(words).copied();
        let lines = || said.user.iter().rev().flat_map(|words| words.lines()).find_map(|line| known(line.trim()));
        let found = said.user.iter().rev().find_map(|words| known(words)).or_else(lines);
        let turn = || self.next.fetch_add(1, Ordering::Relaxed) % self.cases.len();
        self.cases[found.unwrap_or_else(turn)].clone()
    }
}

/// What a record's prompt left open.
pub fn opened(case: &Case) -> Option<Channel> {
    case.context.initial_channel.channel()
}

/// The token deltas of a choice. All choices say the same, unless the record has several.
pub fn chunks(case: &Case, choice: usize, logprobs: Option<usize>) -> impl Iterator<Item = Chunk> {
    let several = case.interleaved_choices.is_some();
    let deltas = case.deltas().into_iter().filter(move |(index, _)| !several || *index == choice);
    deltas.map(move |(_, delta)| chunk(delta, logprobs))
}

fn chunk(delta: Delta<'_>, logprobs: Option<usize>) -> Chunk {
    match delta {
        Delta::Text(text) => Chunk::Text(text.into()),
        Delta::Bytes(bytes) => Chunk::Bytes(bytes.into()),
        Delta::Token(id, text) => chunk(Delta::Ids(text, &[id]), logprobs),
        // A record does not say which of several tokens made which part of the text: the last one counts for it all.
        Delta::Ids(text, ids) => {
            let bytes = |n: usize| if n + 1 == ids.len() { text.as_bytes() } else { b"" };
            let made_up = |top| ids.iter().enumerate().map(|(n, &id)| logprob(id, bytes(n), top)).collect();
            Chunk::Tokens { text: text.into(), ids: ids.into(), logprobs: logprobs.map(made_up).unwrap_or_default() }
        }
    }
}

/// A made-up log-probability, the same for the same token, with as many alternatives as were asked for.
pub(crate) fn logprob(id: u32, bytes: &[u8], top: usize) -> Logprob {
    let logprob = -f64::from(id % 512) / 1024.0;
    let alternative = |n: usize| match n {
        0 => (bytes.to_vec(), logprob),
        _ => (format!("alt{n}").into_bytes(), logprob - n as f64),
    };
    Logprob::new(bytes, logprob).with_top((0..top).map(alternative).collect())
}
