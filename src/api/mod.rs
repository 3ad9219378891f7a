//! Events -> what an API's client gets: deltas, messages, frames. One floor above the parser, which knows none of it.

mod anthropic;
mod body;
mod chat;
mod delta;
mod frames;
mod ids;
mod input;
mod logprob;
mod responses;
mod sse;
mod stop;
mod stream;
mod tokens;
mod usage;

pub use anthropic::AnthropicMessages;
pub use body::BodyError;
pub use chat::Chat;
pub use delta::Delta;
pub use frames::{Choice, Extras, Frames};
pub use ids::IdPolicy;
pub use logprob::Logprob;
pub use responses::Responses;
pub use stop::Stop;
pub use stream::ChatStream;
pub use tokens::Tokens;
pub use usage::Usage;
