#![doc = include_str!("../README.md")]
//!
//! # The byte's way
//! chunk -> `scan` (pieces) -> `reader` (tags that are real) -> `machine` (events) -> [`Sink`], such as [`Chat`] -> frames. One
//! straight line: nothing calls back upward, nothing is parsed twice, and [`parse`] is push and finish.
#![forbid(unsafe_code)]

mod api;
mod diagnostic;
mod encode;
mod event;
mod label;
mod marker;
mod message;
mod object;
mod parse;
mod report;
mod request;
mod steps;

pub use api::{Chat, Choice, Delta, Extras, Frames, IdPolicy, Messages, Responses, Usage};
pub use diagnostic::Code;
pub use encode::{
    Arguments, Conversation, Effort, EncodeError, Fault, Json, JsonError, Part, Piece, Place, Prompt, PromptCall,
    PromptMessage, RenderError, ResponseFormat, Role, encode, render, render_pieces,
};
pub use event::{Channel, Event, Kind, OwnedEvent, Sink, Span, ValueKind, coalesce};
pub use label::{Label, Labels, labels};
pub use marker::Marker;
pub use message::{Message, ToolCall};
pub use parse::{Parser, StateError, parse};
pub use report::{Counts, Noted, Report};
pub use request::{Request, ToolChoice, Undeclared, opened_by_prompt, opened_by_prompt_ids};
