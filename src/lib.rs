//! Streaming parser for what Moonshot's Kimi K3 generates.
#![doc = ""]

mod diagnostic;
mod event;
mod marker;
mod parser;
mod request;

pub use diagnostic::Code;
pub use event::{Channel, Event, Kind, OwnedEvent, Sink, Span, ValueKind, coalesce};
pub use marker::Marker;
pub use parser::{Bytes, Parser, Report, StateError, parse};
pub use request::{Request, ToolChoice, Undeclared, opened_by_prompt, opened_by_prompt_ids};
