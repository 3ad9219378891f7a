#![doc = include_str!("../README.md")]
//!
//! # The byte's way
//! chunk -> `scan` (pieces) -> `reader` (tags that are real) -> `machine` (events) -> [`Sink`], such as [`Chat`] -> frames. One
//! straight line: nothing calls back upward, nothing is parsed twice, and [`parse`] is push and finish.
#![forbid(unsafe_code)]

#[cfg(any(test, fuzzing))]
extern crate self as kimi_xtml;

mod anthropic;
mod call;
mod chat;
mod diagnostic;
mod escape;
mod event;
mod header;
mod held;
mod ids;
mod json;
mod machine;
mod marker;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod oracle;
mod parser;
mod reader;
mod render;
mod report;
mod request;
mod responses;
mod scan;
mod table;
mod tag;
mod utf8;

pub use anthropic::Messages;
pub use chat::{Chat, Choice, Delta, Extras, Frames, IdPolicy, Message, ToolCall, Usage};
pub use diagnostic::Code;
pub use event::{Channel, Event, Kind, OwnedEvent, Sink, Span, ValueKind, coalesce};
pub use marker::Marker;
pub use parser::{Parser, StateError, parse};
pub use render::{Piece, RenderError, render, render_pieces};
pub use report::{Counts, Noted, Report};
pub use request::{Request, ToolChoice, Undeclared, opened_by_prompt, opened_by_prompt_ids};
pub use responses::Responses;
