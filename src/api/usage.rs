//! What a request cost, in tokens.
//!
//! In: counts. Out: the `usage` of Chat Completions. The other APIs' words for it stand in their own files.

use serde::ser::{Serialize, Serializer};

use crate::object::Object;

/// The tokens that a request cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens that were generated.
    pub completion_tokens: u64,
    /// Those of them that were reasoning.
    pub reasoning_tokens: u64,
    /// Tokens of the prompt that came from a cache.
    pub cached_tokens: u64,
}

impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Object((
            ("prompt_tokens", self.prompt_tokens),
            ("completion_tokens", self.completion_tokens),
            ("total_tokens", self.prompt_tokens + self.completion_tokens),
            ("completion_tokens_details", Object((("reasoning_tokens", self.reasoning_tokens),))),
            ("prompt_tokens_details", Object((("cached_tokens", self.cached_tokens),))),
        ))
        .serialize(serializer)
    }
}
