//! Skeleton; being written.
#![expect(missing_docs, unused_variables, clippy::unimplemented)]

use crate::diagnostic::Code;
use crate::event::{Channel, OwnedEvent, Sink, Span};
use crate::marker::Marker;
use crate::request::Request;

/// The parser was used in a way that the caller must mend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Input or a second finish after `finish`.
    #[error("the stream is finished: reset the parser before it takes another")]
    Finished,
}

/// How many bytes (or tokens) of the input went where. `input` is the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub input: u64,
    pub reasoning: u64,
    pub content: u64,
    pub arguments: u64,
    pub markup: u64,
    pub withheld: u64,
    pub dropped: u64,
}

/// What the parser did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Input bytes whose fate is decided, by kind.
    pub bytes: Bytes,
    /// The same for tokens, where ids were given.
    pub tokens: Option<Bytes>,
    /// Invalid UTF-8 sequences that became U+FFFD.
    pub replaced: u64,
    /// Bytes that lexing looked at: at most twice the input.
    pub examined: u64,
    /// (code, how often, byte offset of the first) for each code that occurred.
    pub diagnostics: Vec<(Code, u64, u64)>,
}

pub struct Parser {}

impl Parser {
    pub fn new(request: Request) -> Self {
        unimplemented!()
    }
    /// Text that may contain markers.
    pub fn push(&mut self, text: &str, sink: &mut impl Sink) -> Result<(), StateError> {
        unimplemented!()
    }
    /// The same, UTF-8 cut anywhere; invalid sequences become U+FFFD.
    pub fn push_bytes(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<(), StateError> {
        unimplemented!()
    }
    /// Text that is never structure.
    pub fn push_text(&mut self, text: &str, sink: &mut impl Sink) -> Result<(), StateError> {
        unimplemented!()
    }
    /// A control token.
    pub fn push_marker(&mut self, marker: Marker, sink: &mut impl Sink) -> Result<(), StateError> {
        unimplemented!()
    }
    /// One token: a control id is a marker, any other token's text is never structure.
    pub fn push_token(&mut self, id: u32, text: &str, sink: &mut impl Sink) -> Result<(), StateError> {
        unimplemented!()
    }
    /// One delta's text and the ids; ids may run ahead of the text.
    pub fn push_with_ids(&mut self, text: &str, ids: &[u32], sink: &mut impl Sink) -> Result<(), StateError> {
        unimplemented!()
    }
    /// Ends the stream. Gives the finish reason: the engine's unchanged, but `stop` becomes `tool_calls` if a
    /// complete call exists.
    pub fn finish<'r>(&mut self, reason: &'r str, sink: &mut impl Sink) -> Result<&'r str, StateError> {
        unimplemented!()
    }
    /// Makes the parser new for another stream; keeps its allocations.
    pub fn reset(&mut self, request: Request) {
        unimplemented!()
    }
    pub fn report(&self) -> Report {
        unimplemented!()
    }
    /// The text that was pushed and is not decided yet (for inspection), at most 16 KiB and a value.
    pub fn held(&self) -> String {
        unimplemented!()
    }
    /// Where the stream stands: none outside the channels.
    pub fn channel(&self) -> Option<Channel> {
        unimplemented!()
    }
}

/// Parses a whole text: push + finish("stop").
pub fn parse(text: &str, request: Request) -> Vec<(OwnedEvent, Span)> {
    let mut events = Vec::new();
    let mut parser = Parser::new(request);
    let _ = parser.push(text, &mut events);
    let _ = parser.finish("stop", &mut events);
    events
}
