//! What a parser said of a stream, in its order, and in which chunk.
//!
//! In: a parser's deltas, one by one. Out: the whole [`Outcome`], and when each call's first argument bytes came.

use std::hint::black_box;

use serde::{Deserialize, Serialize};

use crate::stream::{Call, Outcome};

/// A kind of delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Reasoning,
    Content,
    /// A call's name: the call begins.
    Name,
    Arguments,
}

/// A delta: the chunk that brought it, its kind, its call, its text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Said(pub(crate) usize, pub(crate) Kind, pub(crate) usize, pub(crate) String);

/// All that a parser said of one stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Heard {
    pub(crate) said: Vec<Said>,
    /// Why it gave up, if it did.
    #[serde(default)]
    pub(crate) error: Option<String>,
    /// Whether what is said is looked at and forgotten: where only time and memory count.
    #[serde(skip)]
    pub(crate) forgetful: bool,
}

impl Heard {
    pub(crate) fn failed(error: impl ToString) -> Heard {
        Heard { error: Some(error.to_string()), ..Heard::default() }
    }

    pub(crate) fn forgetful() -> Heard {
        Heard { forgetful: true, ..Heard::default() }
    }

    pub(crate) fn say(&mut self, chunk: usize, kind: Kind, call: usize, text: impl Into<String>) {
        if self.forgetful {
            black_box((chunk, kind, call, &text));
            return;
        }
        let text = text.into();
        if !text.is_empty() {
            self.said.push(Said(chunk, kind, call, text));
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let mut numbers = Vec::new();
        for Said(_, kind, number, text) in &self.said {
            match kind {
                Kind::Reasoning => outcome.reasoning += text,
                Kind::Content => outcome.content += text,
                Kind::Name | Kind::Arguments => {
                    let at = numbers.iter().rposition(|known| known == number);
                    let at = at.unwrap_or_else(|| {
                        numbers.push(*number);
                        outcome.calls.push(Call { name: String::new(), arguments: String::new(), complete: true });
                        numbers.len() - 1
                    });
                    let call = &mut outcome.calls[at];
                    *(if *kind == Kind::Name { &mut call.name } else { &mut call.arguments }) += text;
                }
            }
        }
        outcome
    }

    /// The chunks that brought the first argument bytes of each call.
    pub(crate) fn first_arguments(&self) -> Vec<Option<usize>> {
        let mut numbers: Vec<usize> = Vec::new();
        let mut firsts = Vec::new();
        for Said(chunk, kind, number, _) in &self.said {
            let at = match numbers.iter().rposition(|known| known == number) {
                Some(at) => at,
                None if matches!(kind, Kind::Name | Kind::Arguments) => {
                    numbers.push(*number);
                    firsts.push(None);
                    numbers.len() - 1
                }
                None => continue,
            };
            if *kind == Kind::Arguments && firsts[at].is_none() {
                firsts[at] = Some(*chunk);
            }
        }
        firsts
    }
}
