//! Turns what Moonshot's Kimi K3 generates ("XTML": text built from `<|open|>`, `<|close|>`, `<|sep|>`, `<|end_of_msg|>`) into
//! reasoning, content and tool calls, while it is being generated, and loses nothing; and writes what K3 reads.
//!
//! # The types
//! | what you have or want | type |
//! |---|---|
//! | what the prompt left open, and which tools it declared | [`Request`]; [`opened_by_prompt`], [`opened_by_prompt_ids`] read the first from a prompt |
//! | a stream | [`Parser`], one for each choice; [`parse`] for a text that is whole |
//! | what the parser found, and where | [`Event`] with a [`Span`]; [`OwnedEvent`] to keep |
//! | something that takes events | [`Sink`]: your own, a closure in [`sink_fn`], a `Vec`, a pair of sinks, or one of the next three |
//! | one choice of a Chat Completions request, from its body to the last byte for the client | `ChatStream`, which does all of the following |
//! | deltas, and the message at the end | `Chat`, which gives `Delta`s and a `Message` |
//! | an answer that a stop string ends | `Stop`, a sink before another |
//! | ids or log-probabilities of a delta's tokens | `Tokens`, by the delta's span |
//! | what each token is for, such as for a loss mask | [`Labels`], [`labels`] |
//! | bytes for a client | `Frames` (Chat Completions), `AnthropicMessages`, `Responses` |
//! | what deviated, and how many bytes and tokens went where | [`Report`], by [`Code`] and [`Counts`] |
//! | a prompt, from a request's JSON or put together | `Conversation` into `encode`, which gives `Piece`s to tokenize |
//! | the text of a message, as the model would have generated it | `Message` into `render` or `render_pieces` |
//!
//! # The order of calls
//! [`Parser::new`], then a push for each step of the engine, then [`Parser::finish`] once, however the stream ended. Which push:
//!
//! | what came in | use | quoted tags are told from real ones |
//! |---|---|---|
//! | tokens, one by one | [`push_token`](Parser::push_token) | exactly |
//! | deltas with their ids | [`push_with_ids`](Parser::push_with_ids) | exactly, if Kimi's tokenizer would write the quotation so, or each delta is the text of one token |
//! | pieces that you cut yourself | [`push_text`](Parser::push_text), [`push_marker`](Parser::push_marker) | exactly |
//! | text, or bytes, cut anywhere | [`push`](Parser::push), [`push_bytes`](Parser::push_bytes) | by what follows them, as SPEC.md states |
//!
//! # Run it
//! ```
//! use kimi_xtml::{Channel, Parser, Request, Sink, Span};
//!
//! /// What was said, and the calls that may be run.
//! #[derive(Default)]
//! struct Answer {
//!     text: String,
//!     calls: Vec<(String, String)>,
//! }
//!
//! impl Sink for Answer {
//!     fn content(&mut self, text: &str, _: Span) {
//!         self.text += text;
//!     }
//!
//!     fn call_start(&mut self, _: usize, name: &str, _: Span) {
//!         self.calls.push((name.to_owned(), String::new()));
//!     }
//!
//!     fn arguments(&mut self, call: usize, json: &str, _: Span) {
//!         self.calls[call].1 += json;
//!     }
//!
//!     fn call_end(&mut self, _: usize, complete: bool, _: Span) {
//!         if !complete {
//!             self.calls.pop(); // the stream was cut inside it: it must not be run
//!         }
//!     }
//! }
//!
//! let request = Request::new().opened(Channel::Response).tools(["get_weather"]);
//! let mut parser = Parser::new(request);
//! let mut answer = Answer::default();
//! for delta in [
//!     "Look.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"get_weather\" index=\"1\"<|sep|>",
//!     "<|open|>argument key=\"city\" type=\"string\"<|sep|>Lisbon<|close|>argument<|sep|><|close|>call<|sep|>",
//!     "<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>",
//! ] {
//!     parser.push(delta, &mut answer);
//! }
//! assert_eq!(parser.finish("stop", &mut answer), "tool_calls");
//! assert_eq!(answer.text, "Look.");
//! assert_eq!(answer.calls, [("get_weather".into(), r#"{"city":"Lisbon"}"#.into())]);
//! ```
//!
//! # Features
//! Without features there are the parser, its events and labels, on `memchr` and `nom` alone.
//! - `chat` (default): messages, deltas, and frames of three APIs.
//! - `encode` (default): prompts of conversations, and the text of messages.
//! - `serde`: reports as JSON; the other two bring it.
//!
//! # The byte's way
//! chunk -> `scan` (pieces) -> `reader` (tags that are real) -> `machine` (events) -> [`Sink`], such as `Chat` -> frames. One
//! straight line: nothing calls back upward, nothing is parsed twice, and [`parse`] is push and finish.
#![forbid(unsafe_code)]

#[cfg(feature = "chat")]
mod api;
mod diagnostic;
#[cfg(feature = "encode")]
mod encode;
mod event;
mod finish;
mod label;
mod marker;
#[cfg(any(feature = "chat", feature = "encode"))]
mod message;
#[cfg(any(feature = "chat", feature = "encode"))]
mod object;
mod parse;
mod report;
mod request;
mod sink;
mod steps;

#[cfg(feature = "chat")]
pub use api::{
    AnthropicMessages, BodyError, Chat, ChatStream, Choice, Delta, Extras, Frames, IdPolicy, Logprob, Responses, Stop,
    Tokens, Usage,
};
pub use diagnostic::Code;
#[cfg(feature = "encode")]
pub use encode::{
    Arguments, Conversation, Effort, EncodeError, Fault, Json, JsonError, Part, Piece, Place, Prompt, PromptCall,
    PromptMessage, RenderError, ResponseFormat, Role, closing, encode, render, render_pieces,
};
pub use event::{Channel, Event, Kind, OwnedEvent, Span, ValueKind, coalesce};
pub use finish::FinishReason;
pub use label::{Label, Labels, labels};
pub use marker::Marker;
#[cfg(any(feature = "chat", feature = "encode"))]
pub use message::{Message, MessagePart, ToolCall};
pub use parse::{Parser, parse};
pub use report::{Counts, Noted, Report};
pub use request::{Request, ToolChoice, Undeclared, opened_by_prompt, opened_by_prompt_ids};
pub use sink::{Sink, SinkFn, sink_fn};

/// The examples of README.md run.
#[cfg(all(doctest, feature = "chat"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// So do those of docs/embedding.md.
#[cfg(all(doctest, feature = "chat"))]
#[doc = include_str!("../docs/embedding.md")]
struct Embedding;
