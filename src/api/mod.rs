//! Events -> what an API's client gets: deltas, messages, frames. One floor above the parser, which knows none of it.

mod chat;
mod messages;
mod responses;

pub use chat::{Chat, Choice, Delta, Extras, Frames, IdPolicy, Message, ToolCall, Usage};
pub use messages::Messages;
pub use responses::Responses;
