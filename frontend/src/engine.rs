//! What stands behind the frontend: an engine gives raw token deltas for a request, one stream a choice.
//!
//! In: a [`Job`], what the request asks for. Out: what its prompt cost and left open, then [`Step`]s as they are
//! generated, until one has an end. Dropping the steps stops the generation; a step is made when it is asked for.

pub mod prompt;
pub mod replay;
pub mod schema;
pub mod scripted;
pub mod tokens;
pub mod upstream;

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::future::BoxFuture;
use kimi_xtml::{Channel, Logprob, Request, ToolCall, ToolChoice};
use serde_json::{Map, Value};

/// An engine.
pub trait Engine: Send + Sync + 'static {
    /// Starts to generate the choice with this index. An error here is answered before any stream.
    fn start(&self, job: Arc<Job>, choice: usize) -> BoxFuture<'_, Result<Generation, EngineError>>;

    /// Whether it would generate now, or why not.
    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// What a request asks an engine for, whichever API it came through.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The conversation.
    pub messages: Vec<Message>,
    /// The declared tools.
    pub tools: Vec<Tool>,
    /// Which of them may be called.
    pub tool_choice: ToolChoice,
    /// Whether a turn may have more than one call.
    pub parallel: bool,
    /// Whether the prompt opens the think channel, and not the response channel.
    pub thinking: bool,
    /// The most tokens to generate.
    pub max_tokens: Option<u64>,
    /// Whether each token has its log-probability, and how many alternatives with it.
    pub logprobs: Option<usize>,
    /// The JSON schema of the answer, if it shall be JSON.
    pub schema: Option<Value>,
    /// Sampling parameters, as they came.
    pub sampling: Map<String, Value>,
}

/// A message of the conversation.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// Its text.
    pub text: String,
    /// Its reasoning, of an assistant's message.
    pub reasoning: String,
    /// Its calls, of an assistant's message.
    pub calls: Vec<ToolCall>,
    /// The id of the call that it answers, of a tool's message.
    pub answers: Option<String>,
}

/// A declared tool.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

impl Job {
    /// What a parser must know of the request, given what the prompt left open.
    pub fn request(&self, opened: Option<Channel>) -> Request {
        Request::new()
            .opened(opened)
            .tools(self.tools.iter().map(|tool| tool.name.clone()))
            .tool_choice(self.tool_choice.clone())
    }

    /// The channel that the prompt opens.
    pub const fn opens(&self) -> Channel {
        if self.thinking { Channel::Think } else { Channel::Response }
    }

    /// The calls that the conversation has so far.
    pub fn calls(&self) -> usize {
        self.messages.iter().map(|message| message.calls.len()).sum()
    }

    /// The text of the last message of the user.
    pub fn last_user(&self) -> &str {
        self.messages.iter().rfind(|message| message.role == "user").map_or("", |message| &message.text)
    }
}

/// A generation that has begun.
pub struct Generation {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Those of them that came from a cache.
    pub cached_tokens: u64,
    /// The channel that the prompt left open.
    pub opened: Option<Channel>,
    /// What is generated.
    pub steps: Steps,
}

/// What is generated, as it is generated. A stream that ends without an end, or with an error, was broken off.
pub type Steps = Pin<Box<dyn Stream<Item = Result<Step, EngineError>> + Send>>;

/// What one step of an engine generated.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Token deltas, in order.
    pub chunks: Vec<Chunk>,
    /// The engine's finish reason, with the last step.
    pub end: Option<String>,
}

/// A token delta.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Tokens and their text. The text may lag behind the ids.
    Tokens {
        /// The text.
        text: String,
        /// The ids.
        ids: Vec<u32>,
        /// One for each id, if they were asked for.
        logprobs: Vec<Logprob>,
    },
    /// Text whose ids are not known.
    Text(String),
    /// The same, cut anywhere.
    Bytes(Vec<u8>),
}

/// Why an engine gives nothing, or nothing more.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// The request asks for what the engine cannot do.
    #[error("{0}")]
    Refused(String),
    /// The engine cannot be reached, or does not speak as expected.
    #[error("{0}")]
    Failed(String),
}
