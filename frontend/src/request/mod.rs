//! The requests of the three APIs -> one shape.
//!
//! In: the bytes of a body, and what the operator allows. Out: a [`Request`], or an error that names the member at fault.
//! Nothing is held. `chat`, `messages` and `responses` know an API each; `tools`, `thinking`, `format`, `sampling`, `content`
//! and `history` know what they have in common. A member is served, or refused by its name; one that nobody knows
//! is passed over, and the answer's header `x-ignored-members` names it.

pub mod chat;
mod content;
mod format;
mod history;
mod members;
pub mod messages;
pub mod responses;
mod sampling;
mod thinking;
mod tools;

use std::collections::{BTreeMap, BTreeSet};

use kimi_xtml::{Conversation, PromptMessage, ToolChoice};
use serde_json::value::RawValue;

use crate::engine::Tool;
use crate::error::ApiError;
use members::Members;

pub(crate) use history::located;

/// What the operator allows.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Whether sampling parameters must be those that Moonshot's hosted API fixes.
    pub vendor_strict: bool,
    /// The largest body, in bytes. The choices of a request together cost no more than a request of this size.
    pub max_body: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { vendor_strict: false, max_body: 32 << 20 }
    }
}

/// A request that is sound, whichever API it came through.
#[derive(Debug)]
pub struct Request {
    /// The model's name.
    pub model: String,
    /// What the prompt is made of.
    pub conversation: Conversation<'static>,
    /// Where each message of the conversation stood in the request.
    pub paths: Vec<String>,
    /// The tools that may be called.
    pub tools: Vec<Tool>,
    /// Whether a turn may have more than one call.
    pub parallel: bool,
    /// The number that counted ids of calls go on from.
    pub next_call: usize,
    /// The JSON schema of the answer, if it shall be JSON.
    pub schema: Option<Box<RawValue>>,
    /// The most tokens to generate.
    pub max_tokens: Option<u64>,
    /// Whether each token has its log-probability, and how many alternatives with it.
    pub logprobs: Option<usize>,
    /// How many choices.
    pub choices: usize,
    /// What ends the answer.
    pub stops: Vec<String>,
    /// Sampling parameters, as they were spelled.
    pub sampling: BTreeMap<String, Box<RawValue>>,
    /// Whether frames are asked for, and not one body.
    pub stream: bool,
    /// What frames carry beside their deltas.
    pub options: StreamOptions,
    /// Members that say nothing to this server.
    pub ignored: Ignored,
}

impl Request {
    fn new(model: String, messages: Vec<PromptMessage<'static>>, paths: Vec<String>) -> Self {
        Request {
            model,
            conversation: Conversation::new(messages),
            paths,
            tools: Vec::new(),
            parallel: true,
            next_call: 0,
            schema: None,
            max_tokens: None,
            logprobs: None,
            choices: 1,
            stops: Vec::new(),
            sampling: BTreeMap::new(),
            stream: false,
            options: StreamOptions::default(),
            ignored: Ignored::default(),
        }
    }

    fn choose(&mut self, tools: tools::Tools, chosen: tools::Chosen) -> Result<(), ApiError> {
        (self.tools, self.conversation.tool_choice) = tools.choose(chosen)?;
        Ok(())
    }

    fn think(&mut self, thinking: thinking::Thinking) {
        (self.conversation.thinking, self.conversation.effort) = (thinking.on, thinking.effort);
    }

    fn answer_as(&mut self, format: format::Format) {
        (self.conversation.response_format, self.schema) = (format.told, format.schema);
    }

    /// Which tools may be called.
    pub fn tool_choice(&self) -> &ToolChoice {
        &self.conversation.tool_choice
    }
}

/// What a stream carries beside its deltas.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamOptions {
    /// One frame with the usage of the request, at the end.
    pub include_usage: bool,
    /// Usage on every frame.
    pub continuous_usage_stats: bool,
    /// The token ids of each increment.
    pub include_internal_content: bool,
}

/// The names of members that say nothing to this server: `messages[].weight`.
#[derive(Debug, Default)]
pub struct Ignored(BTreeSet<String>);

impl Ignored {
    /// The most names that are kept, and the longest of them, in bytes.
    const MOST: usize = 16;
    const LONGEST: usize = 64;

    /// Adds what is left of an object.
    pub(crate) fn add(&mut self, members: Members<'_>) {
        for path in members.left() {
            // One name for all items of a list; names that no header can hold are not told.
            let mut name = String::new();
            let mut within = false;
            for char in path.chars() {
                within = char == '[' || within && char != ']';
                if !within || char == '[' {
                    name.push(char);
                }
            }
            let plain = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
            if plain && name.len() <= Self::LONGEST && self.0.len() < Self::MOST {
                self.0.insert(name);
            }
        }
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The names as a header's value, if there are some.
    pub fn header(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.names().collect::<Vec<_>>().join(", "))
    }
}

/// The error that a member is at fault.
fn wrong(path: &str, why: &str) -> ApiError {
    ApiError::param(path, format!("{path}: {why}"))
}
