//! The body of a Chat Completions request.
//!
//! In: bytes. Out: what the handler and the engine must know, or an error that names the member at fault. Nothing is
//! held. Members that this server has no use for are passed over; sampling parameters go to the engine as they came.

use kimi_xtml::{ToolCall, ToolChoice};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::engine::{Job, Message, Tool};
use crate::error::ApiError;

/// The most choices of a request.
const MAX_CHOICES: usize = 128;
/// The most alternatives of a token.
const MAX_TOP: usize = 20;

/// A Chat Completions request.
#[derive(Debug, Deserialize)]
pub struct ChatRequest {
    /// The model's name.
    pub model: String,
    messages: Vec<ChatMessage>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<usize>,
    stop: Option<Strings>,
    tools: Option<Vec<ChatTool>>,
    tool_choice: Option<Choice>,
    parallel_tool_calls: Option<bool>,
    thinking: Option<Thinking>,
    logprobs: Option<bool>,
    top_logprobs: Option<usize>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    response_format: Option<Format>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    seed: Option<i64>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
}

/// What a stream carries beside its deltas.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StreamOptions {
    /// One frame with the usage of the request, at the end.
    pub include_usage: bool,
    /// Usage on every frame.
    pub continuous_usage_stats: bool,
    /// The token ids of each increment.
    pub include_internal_content: bool,
}

#[derive(Debug, Deserialize)]
struct ChatMessage {
    role: Role,
    content: Option<Content>,
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<ChatCall>>,
    tool_call_id: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    System,
    Developer,
    User,
    Assistant,
    Tool,
    Function,
}

/// Text, or parts of text.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "content is a string, or a list of parts with a type")]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
pub(crate) struct Part {
    #[serde(rename = "type")]
    _kind: String,
    text: Option<String>,
}

impl Content {
    pub(crate) fn text(self) -> String {
        match self {
            Content::Text(text) => text,
            Content::Parts(parts) => parts.into_iter().filter_map(|part| part.text).collect::<Vec<_>>().join("\n"),
        }
    }
}

#[derive(Debug, Deserialize)]
struct ChatCall {
    id: Option<String>,
    function: CalledFunction,
}

#[derive(Debug, Deserialize)]
struct CalledFunction {
    name: String,
    #[serde(default)]
    arguments: String,
}

#[derive(Debug, Deserialize)]
struct ChatTool {
    #[serde(rename = "type")]
    _kind: Option<String>,
    function: Function,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    description: Option<String>,
    parameters: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "tool_choice is auto, none, required, or an object with function.name")]
enum Choice {
    Word(String),
    Named { function: Named },
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: Switch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Switch {
    Enabled,
    Disabled,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "stop is a string or a list of strings")]
pub(crate) enum Strings {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Deserialize)]
struct Format {
    #[serde(rename = "type")]
    kind: String,
    json_schema: Option<NamedSchema>,
}

#[derive(Debug, Deserialize)]
struct NamedSchema {
    schema: Option<Value>,
}

/// A request that is sound.
#[derive(Debug)]
pub struct Accepted {
    /// What the engine is asked for.
    pub job: Job,
    /// Whether frames are asked for, and not one body.
    pub stream: bool,
    /// What frames carry beside their deltas.
    pub options: StreamOptions,
    /// How many choices.
    pub choices: usize,
    /// What ends the answer.
    pub stops: Vec<String>,
}

/// Reads a body.
///
/// # Errors
/// If it is no JSON, or a member is missing or of the wrong type.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let known = path.trim_end_matches(['?', '.']);
        let message = format!("the body is no request: {}", error.inner());
        ApiError::param(if known.is_empty() { "body" } else { known }, message)
    })?;
    json.end().map_err(|error| ApiError::param("body", format!("the body is no request: {error}")))?;
    Ok(value)
}

impl ChatRequest {
    /// Checks what the members say together.
    ///
    /// # Errors
    /// For the first member that cannot be served.
    pub fn accept(self) -> Result<Accepted, ApiError> {
        if self.messages.is_empty() {
            return Err(ApiError::param("messages", "there must be a message"));
        }
        let choices = self.n.unwrap_or(1);
        if !(1..=MAX_CHOICES).contains(&choices) {
            return Err(ApiError::param("n", format!("n must be 1 to {MAX_CHOICES}")));
        }
        let top = self.top_logprobs.unwrap_or(0);
        let logprobs = self.logprobs.unwrap_or(false);
        if top > MAX_TOP {
            return Err(ApiError::param("top_logprobs", format!("top_logprobs must be at most {MAX_TOP}")));
        }
        if self.top_logprobs.is_some() && !logprobs {
            return Err(ApiError::param("top_logprobs", "top_logprobs asks for logprobs to be true"));
        }
        let max_tokens = self.max_completion_tokens.or(self.max_tokens);
        if max_tokens == Some(0) {
            return Err(ApiError::param("max_tokens", "max_tokens must be at least 1"));
        }
        let tools: Vec<Tool> = self.tools.into_iter().flatten().map(ChatTool::tool).collect();
        let choice = match self.tool_choice {
            None => ToolChoice::Auto,
            Some(Choice::Named { function }) => ToolChoice::Named(function.name),
            Some(Choice::Word(word)) => match &*word {
                "auto" => ToolChoice::Auto,
                "none" => ToolChoice::None,
                "required" => ToolChoice::Required,
                _ => {
                    return Err(ApiError::param("tool_choice", "tool_choice is auto, none, required, or names a tool"));
                }
            },
        };
        let schema = match self.response_format {
            Some(Format { kind, json_schema }) if kind == "json_schema" => {
                Some(json_schema.and_then(|named| named.schema).unwrap_or_else(|| json!({"type": "object"})))
            }
            Some(Format { kind, .. }) if kind == "json_object" => Some(json!({"type": "object"})),
            _ => None,
        };
        let sampling = [
            ("temperature", self.temperature.map(Value::from)),
            ("top_p", self.top_p.map(Value::from)),
            ("seed", self.seed.map(Value::from)),
            ("presence_penalty", self.presence_penalty.map(Value::from)),
            ("frequency_penalty", self.frequency_penalty.map(Value::from)),
        ];
        let job = Job {
            messages: self.messages.into_iter().map(ChatMessage::message).collect(),
            tool_choice: checked(choice, &tools)?,
            tools,
            parallel: self.parallel_tool_calls.unwrap_or(true),
            thinking: self.thinking.is_none_or(|thinking| thinking.kind == Switch::Enabled),
            max_tokens,
            logprobs: logprobs.then_some(top),
            schema,
            sampling: sampling.into_iter().filter_map(|(key, value)| Some((key.into(), value?))).collect::<Map<_, _>>(),
        };
        Ok(Accepted {
            job,
            stream: self.stream.unwrap_or(false),
            options: self.stream_options.unwrap_or_default(),
            choices,
            stops: self.stop.map(Strings::list).unwrap_or_default(),
        })
    }
}

/// A tool choice that the tools allow.
pub(crate) fn checked(choice: ToolChoice, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    match &choice {
        ToolChoice::Required if tools.is_empty() => {
            Err(ApiError::param("tool_choice", "tool_choice is required, but no tools are declared"))
        }
        ToolChoice::Named(name) if tools.iter().all(|tool| tool.name != *name) => {
            Err(ApiError::param("tool_choice", format!("tool_choice names `{name}`, which is not declared")))
        }
        _ => Ok(choice),
    }
}

impl Strings {
    pub(crate) fn list(self) -> Vec<String> {
        match self {
            Strings::One(one) => vec![one],
            Strings::Several(several) => several,
        }
    }
}

impl ChatTool {
    fn tool(self) -> Tool {
        let Function { name, description, parameters } = self.function;
        Tool {
            name,
            description: description.unwrap_or_default(),
            parameters: parameters.unwrap_or_else(|| json!({"type": "object", "additionalProperties": false})),
        }
    }
}

impl ChatMessage {
    fn message(self) -> Message {
        let role = match self.role {
            Role::System | Role::Developer => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool | Role::Function => "tool",
        };
        let calls = self.tool_calls.into_iter().flatten().map(|call| {
            ToolCall::new(call.function.name, call.function.arguments).with_id(call.id.unwrap_or_default())
        });
        Message {
            role: role.into(),
            text: self.content.map(Content::text).unwrap_or_default(),
            reasoning: self.reasoning_content.unwrap_or_default(),
            calls: calls.collect(),
            answers: self.tool_call_id,
        }
    }
}
