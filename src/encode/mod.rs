//! What the parser reads, written: a conversation as its prompt, a message as what is generated for it.
//!
//! In: a [`Conversation`], put together or read from JSON. Out: [`Piece`]s. One straight line: `chat` reads, `prompt` orders,
//! `notices` and `message` write; `json` and `python` know how Python reads JSON and prints it.

mod chat;
mod closing;
mod conversation;
mod declared;
mod error;
mod json;
mod message;
mod notices;
mod piece;
mod prompt;
mod python;
mod render;
mod results;

pub use closing::closing;
pub use conversation::{Arguments, Conversation, Effort, Part, PromptCall, PromptMessage, ResponseFormat, Role};
pub use error::{EncodeError, Fault, Place};
pub use json::{Json, JsonError};
pub use piece::Piece;
pub use prompt::{Prompt, encode};
pub use render::{RenderError, render, render_pieces};
