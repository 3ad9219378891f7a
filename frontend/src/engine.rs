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

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use axum::http::HeaderMap;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use kimi_xtml::{Channel, Logprob, ToolChoice};
use serde_json::value::RawValue;

use prompt::{Prompt, Takes};

/// An engine.
pub trait Engine: Send + Sync + 'static {
    /// Starts to generate so many choices. An error here is answered before any stream.
    fn start(&self, job: Job, choices: usize) -> BoxFuture<'_, Result<Vec<Generation>, EngineError>>;

    /// In which form it takes prompts.
    fn takes(&self) -> Takes {
        Takes::Nothing
    }

    /// The most tokens of a prompt and its answer together, where it is known.
    fn context(&self) -> Option<u64> {
        None
    }

    /// Whether it would generate now, or why not.
    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// What a request asks an engine for, whichever API it came through.
#[derive(Debug, Default)]
pub struct Job {
    /// The prompt.
    pub prompt: Prompt,
    /// What was said since the assistant's last turn.
    pub said: Said,
    /// The tools that may be called.
    pub tools: Vec<Tool>,
    /// Which of them must be.
    pub tool_choice: ToolChoice,
    /// Whether a turn may have more than one call.
    pub parallel: bool,
    /// Whether the model thinks.
    pub thinking: bool,
    /// The most tokens to generate.
    pub max_tokens: Option<u64>,
    /// Whether each token has its log-probability, and how many alternatives with it.
    pub logprobs: Option<usize>,
    /// The JSON schema of the answer, if it shall be JSON.
    pub schema: Option<Box<RawValue>>,
    /// Sampling parameters, as they were spelled.
    pub sampling: BTreeMap<String, Box<RawValue>>,
    /// Headers that an engine behind HTTP gets too: the request's id and its trace.
    pub headers: HeaderMap,
}

/// What was said since the assistant's last turn.
#[derive(Debug, Default)]
pub struct Said {
    /// The user's texts, part by part, over all messages.
    pub user: Vec<String>,
    /// The last result of a tool.
    pub result: Option<String>,
}

/// A declared tool.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The JSON schema of its arguments.
    pub parameters: Option<Box<RawValue>>,
    /// Whether its arguments must satisfy the schema.
    pub strict: bool,
    /// The namespace and the name that the client knows it by, where it has both.
    pub space: Option<(String, String)>,
}

/// A generation that has begun.
pub struct Generation {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Those of them that came from a cache.
    pub cached_tokens: u64,
    /// Whether both are the engine's last word: it has begun to generate.
    pub counted: bool,
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
    /// What the engine counted so far.
    pub usage: Option<Counted>,
}

/// Tokens, as far as the engine counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Those of the prompt that are billed.
    pub prompt_tokens: Option<u64>,
    /// Those of them that came from a cache.
    pub cached_tokens: Option<u64>,
    /// Those that were generated.
    pub completion_tokens: Option<u64>,
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
    /// The prompt and the answer are longer than the engine's context.
    #[error("{0}")]
    TooLong(String),
    /// The engine takes nothing more now.
    #[error("{said}")]
    Busy {
        /// What it says.
        said: String,
        /// Whether it is this client that asks for too much, and not all of them together.
        of_client: bool,
        /// When it may take more, in seconds, as it says.
        retry_after: Option<String>,
    },
    /// The engine was not done in time.
    #[error("{said}")]
    Late {
        /// What it was late with.
        said: String,
        /// How long it had.
        after: Duration,
    },
    /// The engine cannot be reached, or does not speak as expected.
    #[error("{0}")]
    Failed(String),
}
