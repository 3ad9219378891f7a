//! One choice of one request: what an embedding holds of it.
//!
//! In: the engine's steps. Out: deltas, with the tokens that made each, and the finish reason. Held: the parser, the
//! deltas of one step, and, where the request asks for them, ids and log-probabilities of tokens that are not out yet.
//! Nothing here knows of HTTP, or of how a delta is written.

use kimi_xtml::{
    Channel, Chat, Delta, Event, IdPolicy, Logprob, Marker, Message, Parser, Sink, Span, Stop, Tokens, Usage,
};

use crate::admit::Spec;
use crate::engine::{Chunk, Generation, Step, Steps};
use crate::notice;
use crate::operate::watch::Watch;

/// A token's id, and its log-probability if it is known.
type Token = (u32, Option<Logprob>);
/// A choice that is being generated.
#[derive(Debug)]
pub struct Turn {
    parser: Parser,
    sink: Calls,
    tokens: Option<Tokens<Token>>,
    usage: Usage,
    counted: bool,
    opened: Option<Channel>,
    end: Option<&'static str>,
    watch: Watch,
}

impl Turn {
    /// The turn of a generation that has begun, and its steps.
    pub fn new(spec: &Spec, generation: Generation, ids: IdPolicy, keep_tokens: bool) -> (Turn, Steps) {
        let stop = Stop::new(Chat::new(ids), &spec.stops);
        let (watch, steps) = Watch::new(generation.steps);
        let turn = Turn {
            parser: Parser::new(spec.request(generation.opened)),
            sink: Calls { stop, several: spec.parallel, done: None },
            tokens: keep_tokens.then(Tokens::new),
            usage: Usage::new(generation.prompt_tokens, 0).with_cached_tokens(generation.cached_tokens),
            counted: generation.counted,
            opened: generation.opened,
            end: None,
            watch,
        };
        (turn, steps)
    }

    /// Without the message: memory then does not grow with the stream.
    #[must_use]
    pub fn without_message(mut self) -> Self {
        *self.sink.stop.inner_mut() = std::mem::take(self.sink.stop.inner_mut()).without_message();
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
        if let (None, Some(counted)) = (self.end, step.usage) {
            self.usage.prompt_tokens = counted.prompt_tokens.unwrap_or(self.usage.prompt_tokens);
            self.usage.cached_tokens = counted.cached_tokens.unwrap_or(self.usage.cached_tokens);
            self.usage.completion_tokens = counted.completion_tokens.unwrap_or(self.usage.completion_tokens);
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
        let engine = reason;
        let reason = self.parser.finish(reason, &mut self.sink);
        self.sink.stop.flush();
        notice::about(self.opened, engine, &self.parser.report());
        self.end = Some(match (reason, self.sink.stop.met()) {
            (_, Some(_)) | ("stop", _) => "stop",
            ("tool_calls", _) => "tool_calls",
            ("content_filter", _) => "content_filter",
            // `length`, and what clients have no word for, such as an abort: not all was said.
            _ => "length",
        });
        let said = if reason == "abort" { "abort" } else { self.end.unwrap_or_default() };
        self.watch.end(said, &self.usage(), &self.parser.report());
    }

    /// Whether the tokens of the prompt were counted for good when the generation began.
    pub fn counted(&self) -> bool {
        self.counted
    }

    /// The finish reason, once there is one.
    pub fn end(&self) -> Option<&'static str> {
        self.end
    }

    /// The stop string that was met.
    pub fn stopped_by(&self) -> Option<&str> {
        self.sink.stop.met()
    }

    /// The message so far, if it is kept.
    pub fn message(&self) -> Option<&Message> {
        self.sink.stop.inner().message()
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
        self.sink
            .stop
            .inner()
            .deltas_with_spans()
            .map(|(delta, span)| (delta, Made { tokens: self.tokens.as_ref(), span }))
    }

    /// Forgets the deltas, and the tokens that made them.
    pub fn clear(&mut self) {
        if let Some(tokens) = &mut self.tokens {
            let out = self.sink.stop.inner().deltas_with_spans().last().map_or(0, |(_, span)| span.bytes.end);
            tokens.forget_before(self.sink.stop.held_from().map_or(out, |held| held.min(out)));
        }
        self.sink.stop.inner_mut().clear();
    }

    /// The whole message, if it was kept.
    pub fn into_message(self) -> Option<Message> {
        self.sink.stop.into_inner().into_message()
    }

    fn push(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::Tokens { text, ids, logprobs } => {
                self.usage.completion_tokens += ids.len() as u64;
                if let Some(tokens) = &mut self.tokens {
                    keep(tokens, &text, &ids, logprobs);
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
        if let Some(cut) = self.sink.stop.cut() {
            // What the stop string cut off is in neither text nor usage.
            if let Some(begun) = &cut.tokens {
                let exact = self.tokens.as_ref().map(|tokens| tokens.begun_before(cut.bytes.start));
                self.usage.completion_tokens = exact.unwrap_or(begun.start);
            }
            self.end = Some("stop");
        } else if let Some(end) = &self.sink.done {
            // What came after the call is in neither text nor usage.
            if let Some(tokens) = &end.tokens {
                self.usage.completion_tokens = self.usage.completion_tokens.min(tokens.end);
            }
            self.end = Some("tool_calls");
        }
        if let Some(end) = self.end {
            self.watch.end(end, &self.usage(), &self.parser.report());
        }
    }
}

/// Keeps the tokens of a delta, each with its own bytes. Where only the text of all is known, what stands between two
/// control tokens is the first's.
fn keep(tokens: &mut Tokens<Token>, text: &str, ids: &[u32], logprobs: Vec<Logprob>) {
    let mut logprobs = logprobs.into_iter();
    let mut rest = text.as_bytes();
    for (at, &id) in ids.iter().enumerate() {
        let logprob = logprobs.next();
        let bytes = match (Marker::from_id(id), &logprob) {
            (Some(marker), _) => marker.spelling().as_bytes().to_vec(),
            (None, Some(known)) => known.bytes.clone(),
            (None, None) => until(rest, ids[at + 1..].iter().find_map(|&id| Marker::from_id(id))).to_vec(),
        };
        rest = rest.strip_prefix(&*bytes).unwrap_or(rest);
        tokens.push(bytes, (id, logprob));
    }
}

/// What stands before a control token, or all if it is not spelled here.
fn until(text: &[u8], control: Option<Marker>) -> &[u8] {
    let spelled = |spelling: &str| text.windows(spelling.len()).position(|part| part == spelling.as_bytes());
    &text[..control.and_then(|control| spelled(control.spelling())).unwrap_or(text.len())]
}

/// Events up to the end of the first complete call, where the client takes no more than one.
#[derive(Debug)]
struct Calls {
    stop: Stop<Chat>,
    several: bool,
    done: Option<Span>,
}

impl Sink for Calls {
    fn event(&mut self, event: Event<'_>, span: Span) {
        if self.done.is_none() {
            let last = !self.several && matches!(event, Event::CallEnd { complete: true, .. });
            self.done = last.then(|| span.clone());
            self.stop.event(event, span);
        }
    }

    fn call_name(&mut self, span: Span) {
        if self.done.is_none() {
            self.stop.call_name(span);
        }
    }
}

/// The tokens that made a delta, where their ids are known and kept.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    tokens: Option<&'a Tokens<Token>>,
    span: &'a Span,
}

impl<'a> Made<'a> {
    /// Their ids.
    pub fn ids(self) -> Option<Vec<u32>> {
        self.span.tokens.as_ref()?;
        Some(self.tokens?.of(self.span).iter().map(|(id, _)| *id).collect())
    }

    /// Their log-probabilities.
    pub fn known(self) -> Vec<Option<Logprob>> {
        self.logprobs().cloned().map(Some).collect()
    }

    /// The same, those that are known.
    pub fn logprobs(self) -> impl Iterator<Item = &'a Logprob> {
        let made = self.tokens.map_or(&[][..], |tokens| tokens.of(self.span));
        made.iter().filter_map(|(_, logprob)| logprob.as_ref())
    }
}
