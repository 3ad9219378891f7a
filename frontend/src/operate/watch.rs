//! The recorder of a choice that is generated.
//!
//! In: the steps of an engine, as a turn takes them, and how the turn ended. Out: metrics, and what the record of the
//! request tells. Held: when the last step came.

use std::future::ready;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::once;
use kimi_xtml::{Report, Usage};
use metrics::{Counter, Histogram, counter, histogram};

use super::metrics::{BETWEEN_TOKENS_SECONDS, COMPLETION_TOKENS, DIAGNOSTICS, FIRST_TOKEN_SECONDS, GENERATIONS};
use super::record::Record;
use crate::engine::{Chunk, EngineError, Step, Steps};
use crate::error::ApiError;

/// A choice that is watched: a turn holds it, and says when it ends.
#[derive(Debug, Default)]
pub struct Watch {
    record: Option<Arc<Record>>,
    ended: bool,
}

impl Watch {
    /// Watches these steps, which belong to the request that is answered now.
    pub fn new(steps: Steps) -> (Watch, Steps) {
        let record = Record::current();
        let mut seen = Seen {
            record: record.clone(),
            last: None,
            ended: false,
            tokens: counter!(COMPLETION_TOKENS),
            between: histogram!(BETWEEN_TOKENS_SECONDS),
        };
        let steps = steps.map(Some).chain(once(ready(None))).filter_map(move |step| {
            seen.see(step.as_ref());
            ready(step)
        });
        (Watch { record, ended: false }, Box::pin(steps))
    }

    /// The turn has ended.
    pub fn end(&mut self, reason: &'static str, usage: &Usage, report: &Report) {
        self.ended = true;
        counter!(GENERATIONS, "finish_reason" => reason).increment(1);
        for noted in &report.diagnostics {
            counter!(DIAGNOSTICS, "code" => noted.code.as_str()).increment(noted.count);
        }
        if let Some(record) = &self.record {
            record.ended(reason, usage);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.ended {
            counter!(GENERATIONS, "finish_reason" => "left").increment(1);
        }
    }
}

/// What is seen of the steps.
struct Seen {
    record: Option<Arc<Record>>,
    last: Option<Instant>,
    ended: bool,
    tokens: Counter,
    between: Histogram,
}

impl Seen {
    /// A step, an error, or the end.
    fn see(&mut self, step: Option<&Result<Step, EngineError>>) {
        match step {
            Some(Ok(step)) => {
                self.ended |= step.end.is_some();
                let tokens: usize = step.chunks.iter().map(tokens).sum();
                if tokens > 0 {
                    self.tokens.increment(tokens as u64);
                    self.time();
                }
            }
            Some(Err(error)) => {
                self.ended = true;
                self.failed(ApiError::from(error.clone()).kind());
            }
            None if !self.ended => self.failed("engine_failed"),
            None => {}
        }
    }

    fn time(&mut self) {
        let now = Instant::now();
        if let Some(last) = self.last.replace(now) {
            self.between.record(now - last);
        } else if let Some(first) = self.record.as_ref().and_then(|record| record.first()) {
            histogram!(FIRST_TOKEN_SECONDS).record(first);
        }
    }

    fn failed(&self, kind: &'static str) {
        if let Some(record) = &self.record {
            record.failed(kind);
        }
    }
}

fn tokens(chunk: &Chunk) -> usize {
    match chunk {
        Chunk::Tokens { ids, .. } => ids.len(),
        Chunk::Text(_) | Chunk::Bytes(_) => 1,
    }
}
