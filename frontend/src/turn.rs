//! One choice of one request: what an embedding holds of it.
//!
//! In: the engine's steps. Out: deltas, with the tokens that made each, and the finish reason. Held: the parser, the
//! deltas of one step, and, where the request asks for them, ids and log-probabilities of tokens that are not out yet.
//! Nothing here knows of HTTP, or of how a delta is written.

use std::collections::VecDeque;
use std::ops::Range;

use kimi_xtml::{Chat, Delta, IdPolicy, Logprob, Message, Parser, Span, Usage};

use crate::engine::{Chunk, Generation, Job, Step, Steps};
use crate::operate::watch::Watch;
use crate::stop::Stop;

/// A choice that is being generated.
#[derive(Debug)]
pub struct Turn {
    parser: Parser,
    sink: Stop,
    tokens: Option<Tokens>,
    usage: Usage,
    end: Option<&'static str>,
    watch: Watch,
}

impl Turn {
    /// The turn of a generation that has begun, and its steps.
    pub fn new(job: &Job, generation: Generation, ids: IdPolicy, stops: &[String], keep_tokens: bool) -> (Turn, Steps) {
        let (watch, steps) = Watch::new(generation.steps);
        let turn = Turn {
            parser: Parser::new(job.request(generation.opened)),
            sink: Stop::new(Chat::new(ids), stops.to_vec()),
            tokens: keep_tokens.then(Tokens::default),
            usage: Usage::new(generation.prompt_tokens, 0).with_cached_tokens(generation.cached_tokens),
            end: None,
            watch,
        };
        (turn, steps)
    }

    /// Without the message: memory then does not grow with the stream.
    #[must_use]
    pub fn without_message(mut self) -> Self {
        self.sink.chat = self.sink.chat.without_message();
        self
    }

    /// Takes what the engine generated.
    pub fn take(&mut self, step: Step) {
        for chunk in step.chunks {
            if self.end.is_some() {
                return; // after a stop string
            }
            self.push(chunk);
        }
        if let Some(reason) = step.end {
            self.finish(&reason);
        }
    }

    /// Ends the turn, if it has not ended: held text goes out, open calls stay incomplete.
    pub fn finish(&mut self, reason: &str) {
        if self.end.is_some() {
            return;
        }
        let reason = self.parser.finish(reason, &mut self.sink);
        self.sink.flush();
        self.end = Some(match (reason, self.sink.hit()) {
            (_, Some(_)) | ("stop", _) => "stop",
            ("tool_calls", _) => "tool_calls",
            ("content_filter", _) => "content_filter",
            // `length`, and what clients have no word for, such as an abort: not all was said.
            _ => "length",
        });
        let said = if reason == "abort" { "abort" } else { self.end.unwrap_or_default() };
        self.watch.end(said, &self.usage(), &self.parser.report());
    }

    /// The finish reason, once there is one.
    pub fn end(&self) -> Option<&'static str> {
        self.end
    }

    /// The stop string that was met.
    pub fn stopped_by(&self) -> Option<&str> {
        self.sink.hit().map(|(stop, _)| stop)
    }

    /// The message so far, if it is kept.
    pub fn message(&self) -> Option<&Message> {
        self.sink.chat.message()
    }

    /// The tokens so far. The reasoning ones are those whose text the parser gave out as reasoning.
    pub fn usage(&self) -> Usage {
        let report = self.parser.report();
        let reasoning_tokens = match report.tokens {
            Some(tokens) => tokens.reasoning,
            // Without ids there are no tokens to count: the share of the text stands for the share of the deltas.
            None => (self.usage.completion_tokens * report.bytes.reasoning).div_ceil(report.bytes.input.max(1)),
        };
        self.usage.with_reasoning_tokens(reasoning_tokens)
    }

    /// What came of the last step, each delta with the tokens that made it.
    pub fn deltas(&self) -> impl Iterator<Item = (Delta<'_>, Made<'_>)> {
        self.sink.chat.deltas_with_spans().map(|(delta, span)| (delta, Made { tokens: self.tokens.as_ref(), span }))
    }

    /// Forgets the deltas, and the tokens that made them.
    pub fn clear(&mut self) {
        if let Some(tokens) = &mut self.tokens {
            let out = self.sink.chat.deltas_with_spans().filter_map(|(_, span)| span.tokens.as_ref()).last();
            // The last token may go on: two deltas share one whose text they share.
            let done = out.map_or(0, |out| out.end.saturating_sub(1));
            tokens.forget(self.sink.first_held().map_or(done, |held| held.min(done)));
        }
        self.sink.chat.clear();
    }

    /// The whole message, if it was kept.
    pub fn into_message(self) -> Option<Message> {
        self.sink.chat.into_message()
    }

    fn push(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::Tokens { text, ids, logprobs } => {
                self.usage.completion_tokens += ids.len() as u64;
                if let Some(tokens) = &mut self.tokens {
                    let logprobs = logprobs.into_iter().map(Some).chain(std::iter::repeat(None));
                    tokens.kept.extend(ids.iter().copied().zip(logprobs));
                }
                self.parser.push_with_ids(&text, &ids, &mut self.sink);
            }
            Chunk::Text(text) => {
                self.usage.completion_tokens += 1;
                self.parser.push(&text, &mut self.sink);
            }
            Chunk::Bytes(bytes) => {
                self.usage.completion_tokens += 1;
                self.parser.push_bytes(&bytes, &mut self.sink);
            }
        }
        if let Some((_, hit)) = self.sink.hit() {
            if let Some(tokens) = &hit.tokens {
                self.usage.completion_tokens = tokens.end;
            }
            self.end = Some("stop");
            self.watch.end("stop", &self.usage(), &self.parser.report());
        }
    }
}

/// Tokens by their number in the stream.
#[derive(Debug, Default)]
struct Tokens {
    /// The number of the first that is kept.
    first: u64,
    kept: VecDeque<(u32, Option<Logprob>)>,
}

impl Tokens {
    fn get(&self, span: &Range<u64>) -> impl Iterator<Item = &(u32, Option<Logprob>)> {
        let at = |number: u64| (number.saturating_sub(self.first) as usize).min(self.kept.len());
        self.kept.range(at(span.start)..at(span.end))
    }

    fn forget(&mut self, before: u64) {
        let gone = (before.saturating_sub(self.first) as usize).min(self.kept.len());
        self.kept.drain(..gone);
        self.first += gone as u64;
    }
}

/// The tokens that made a delta, where their ids are known and kept.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    tokens: Option<&'a Tokens>,
    span: &'a Span,
}

impl<'a> Made<'a> {
    /// Their ids.
    pub fn ids(self) -> Option<Vec<u32>> {
        Some(self.tokens?.get(self.span.tokens.as_ref()?).map(|(id, _)| *id).collect())
    }

    /// Their log-probabilities.
    pub fn known(self) -> Vec<Option<Logprob>> {
        self.logprobs().cloned().map(Some).collect()
    }

    /// The same, those that are known.
    pub fn logprobs(self) -> impl Iterator<Item = &'a Logprob> {
        let tokens = self.tokens.zip(self.span.tokens.as_ref());
        tokens.into_iter().flat_map(|(tokens, span)| tokens.get(span)).filter_map(|(_, logprob)| logprob.as_ref())
    }
}
