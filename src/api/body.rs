//! The body of a Chat Completions request -> what its stream must know of it.
//!
//! In: JSON. Out: the tools and the choice of one, what the prompt leaves open, stop strings, and what the answer shall look
//! like. Nothing is held. The messages are passed over, but for the tools that they declare.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::event::Channel;
use crate::request::{Request, ToolChoice};

/// A body that says nothing a stream can be made of: where, and what must be there instead.
///
/// ```
/// use kimi_xtml::{BodyError, ChatStream};
///
/// let error = ChatStream::from_json(r#"{"tools": [{"type": "function"}]}"#).unwrap_err();
/// assert_eq!(error.to_string(), "tools[0].function.name: must be a string");
/// let BodyError::Json(error) = ChatStream::from_json("{").unwrap_err() else { panic!() };
/// assert_eq!(error.line(), 1);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is no JSON object, or `messages` no list: the error names the line.
    Json(serde_json::Error),
    /// A member has another value than it must have.
    Member {
        /// The member, as a path: `tools[0].function.name`.
        path: String,
        /// What it must be.
        expected: &'static str,
    },
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::Json(error) => write!(f, "the body of a Chat Completions request: {error}"),
            BodyError::Member { path, expected } => write!(f, "{path}: must be {expected}"),
        }
    }
}

impl std::error::Error for BodyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BodyError::Json(error) => Some(error),
            BodyError::Member { .. } => None,
        }
    }
}

/// What a body says of its stream.
pub(crate) struct Body {
    pub(crate) request: Request,
    pub(crate) model: Option<String>,
    pub(crate) stops: Vec<String>,
    pub(crate) streams: bool,
    pub(crate) includes_usage: bool,
}

/// The members that count, of any type.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Members {
    messages: Option<Vec<Declaring>>,
    model: Option<Value>,
    tools: Option<Value>,
    tool_choice: Option<Value>,
    stop: Option<Value>,
    stream: Option<Value>,
    stream_options: Option<Value>,
    n: Option<Value>,
    thinking: Option<Value>,
    enable_thinking: Option<Value>,
    thinking_effort: Option<Value>,
    reasoning_effort: Option<Value>,
    chat_template_kwargs: Option<Thinking>,
}

/// A message, of which only the tools count that a system message declares.
#[derive(Deserialize)]
#[serde(expecting = "a message")]
struct Declaring {
    role: Option<Value>,
    tools: Option<Value>,
}

/// What says whether the model thinks.
#[derive(Default, Deserialize)]
struct Thinking {
    thinking: Option<Value>,
    enable_thinking: Option<Value>,
    thinking_effort: Option<Value>,
    reasoning_effort: Option<Value>,
}

impl Thinking {
    /// Whether it does, if that is said.
    fn thinks(&self) -> Option<bool> {
        let of_object = |value: &Value| value["type"].as_str().map(|kind| kind != "disabled");
        let said = self.thinking.as_ref().filter(|value| !value.is_null()).or(self.enable_thinking.as_ref());
        let said = said.and_then(|value| value.as_bool().or_else(|| of_object(value)));
        let efforts = [self.thinking.as_ref().map(|value| &value["effort"]), self.thinking_effort.as_ref()];
        let effort = efforts.into_iter().flatten().chain(&self.reasoning_effort).find_map(Value::as_str);
        said.or(effort.map(|effort| effort != "none"))
    }
}

impl Body {
    pub(crate) fn read(body: &str) -> Result<Body, BodyError> {
        let members: Members = serde_json::from_str(body).map_err(BodyError::Json)?;
        let Members { thinking, enable_thinking, thinking_effort, reasoning_effort, .. } = members;
        let of_body = Thinking { thinking, enable_thinking, thinking_effort, reasoning_effort };
        let Members { messages, model, tools, tool_choice: choice, stop, stream, stream_options, n, .. } = members;
        if n.as_ref().is_some_and(|n| !n.is_null() && n.as_u64() != Some(1)) {
            return Err(must("n", "1: a ChatStream has one choice, Frames has several"));
        }
        let of_template = members.chat_template_kwargs.as_ref().and_then(Thinking::thinks);
        let thinks = of_body.thinks().or(of_template).unwrap_or(true);
        let mut tools = names("tools", tools.as_ref())?;
        for (at, message) in messages.iter().flatten().enumerate() {
            if message.role.as_ref().is_some_and(|role| role == "system") {
                tools.extend(names(&format!("messages[{at}].tools"), message.tools.as_ref())?);
            }
        }
        let includes_usage = stream_options.as_ref().map(|options| &options["include_usage"]);
        Ok(Body {
            request: Request::new()
                .opened(if thinks { Channel::Think } else { Channel::Response })
                .tools(tools)
                .tool_choice(tool_choice(choice.as_ref())?),
            model: model.as_ref().map(|model| text("model", model)).transpose()?.map(Into::into),
            stops: stops(stop.as_ref())?,
            streams: boolean("stream", stream.as_ref())?,
            includes_usage: boolean("stream_options.include_usage", includes_usage)?,
        })
    }
}

fn must(path: impl Into<String>, expected: &'static str) -> BodyError {
    BodyError::Member { path: path.into(), expected }
}

fn text<'v>(path: &str, value: &'v Value) -> Result<&'v str, BodyError> {
    value.as_str().ok_or_else(|| must(path, "a string"))
}

fn boolean(path: &str, value: Option<&Value>) -> Result<bool, BodyError> {
    match value {
        None | Some(Value::Null) => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| must(path, "true or false")),
    }
}

/// The names of declared tools.
fn names(path: &str, tools: Option<&Value>) -> Result<Vec<String>, BodyError> {
    let tools = match tools {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(tools) => tools.as_array().ok_or_else(|| must(path, "a list of tools"))?,
    };
    let name = |(at, tool): (usize, &Value)| {
        let name = text(&format!("{path}[{at}].function.name"), &tool["function"]["name"])?;
        Ok(name.to_owned())
    };
    tools.iter().enumerate().map(name).collect()
}

fn tool_choice(choice: Option<&Value>) -> Result<ToolChoice, BodyError> {
    match choice {
        None | Some(Value::Null) => Ok(ToolChoice::Auto),
        Some(Value::String(word)) => match &**word {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" => Ok(ToolChoice::Required),
            _ => Err(must("tool_choice", "auto, none, required, or an object that names a function")),
        },
        Some(named) => Ok(ToolChoice::Named(text("tool_choice.function.name", &named["function"]["name"])?.to_owned())),
    }
}

fn stops(stop: Option<&Value>) -> Result<Vec<String>, BodyError> {
    match stop {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(stop)) => Ok(vec![stop.clone()]),
        Some(stops) => {
            let stops = stops.as_array().ok_or_else(|| must("stop", "a string or a list of strings"))?;
            let stop = |(at, stop)| text(&format!("stop[{at}]"), stop).map(Into::into);
            stops.iter().enumerate().map(stop).collect()
        }
    }
}
