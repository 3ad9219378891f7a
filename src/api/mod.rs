//! Events -> what an API's client gets: deltas, messages, frames. One floor above the parser, which knows none of it.

mod chat;
mod delta;
mod frames;
mod ids;
mod messages;
mod responses;
mod usage;

pub use chat::Chat;
pub use delta::Delta;
pub use frames::{Choice, Extras, Frames};
pub use ids::IdPolicy;
pub use messages::Messages;
pub use responses::Responses;
pub use usage::Usage;
