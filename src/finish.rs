//! Why a generation ended, in the words of engines and of clients.
//!
//! In: the word of an engine. Out: what it means, if clients have a word for that. Nothing is held.

/// Why a generation ended, where it came to an end that a client has a word for.
///
/// ```
/// use kimi_xtml::{FinishReason, Parser, Request};
///
/// let mut parser = Parser::new(Request::new());
/// let reason = parser.finish("max_tokens", &mut ());
/// assert_eq!(FinishReason::from_engine(reason), Some(FinishReason::Length));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FinishReason {
    /// The model ended its message, or a stop string did.
    Stop,
    /// The same, and a call is complete.
    ToolCalls,
    /// A limit of tokens was met: not all was said.
    Length,
    /// A filter ended it.
    ContentFilter,
}

/// Engines' words for an end by the model itself, its stop tokens or stop strings.
const NATURAL: [&str; 6] = [
    "stop",          // OpenAI's APIs, vLLM, SGLang, TensorRT-LLM, Ollama
    "eos",           // Dynamo, llama.cpp, and in capitals elsewhere
    "eos_token",     // Text Generation Inference
    "stop_sequence", // Text Generation Inference, Anthropic's API
    "end_turn",      // Anthropic's API
    "end_id",        // TensorRT-LLM's executor
];

/// Engines' words for a limit of tokens.
const LIMITED: [&str; 4] = [
    "length",     // OpenAI's APIs and most engines
    "max_tokens", // Anthropic's and Google's APIs
    "max_length", // TensorRT-LLM's wrappers
    "limit",      // llama.cpp
];

impl FinishReason {
    /// What an engine's word means; letters count in either case. None for an end that no client has a word for: the engine
    /// broke off (`abort`, `cancelled`, `error`), or says what is not known here. That is no `length`, which promises that
    /// more tokens would have gone on; a client is told of an error.
    ///
    /// ```
    /// use kimi_xtml::FinishReason;
    ///
    /// assert_eq!(FinishReason::from_engine("eos_token"), Some(FinishReason::Stop));
    /// assert_eq!(FinishReason::from_engine("abort"), None);
    /// ```
    pub fn from_engine(word: &str) -> Option<FinishReason> {
        let is_one_of = |words: &[&str]| words.iter().any(|one| one.eq_ignore_ascii_case(word));
        if is_one_of(&NATURAL) {
            Some(FinishReason::Stop)
        } else if is_one_of(&LIMITED) {
            Some(FinishReason::Length)
        } else if is_one_of(&["tool_calls", "tool_use"]) {
            Some(FinishReason::ToolCalls)
        } else if is_one_of(&["content_filter"]) {
            Some(FinishReason::ContentFilter)
        } else {
            None
        }
    }

    /// The reason as Chat Completions writes it: `stop`, `tool_calls`, `length` or `content_filter`.
    ///
    /// ```
    /// use kimi_xtml::FinishReason;
    ///
    /// assert_eq!(FinishReason::ToolCalls.as_str(), "tool_calls");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::Length => "length",
            FinishReason::ContentFilter => "content_filter",
        }
    }
}

impl std::fmt::Display for FinishReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
