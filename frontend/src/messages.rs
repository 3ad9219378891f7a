//! `/v1/messages`: Anthropic's Messages API.
//!
//! In: a request. Out: one message, or its events, through the crate's `Messages`. Held: what [`one`] holds.
//! Thinking is off unless the request asks for it, as clients of this API expect.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use kimi_xtml::{AnthropicMessages, Delta, IdPolicy, Message as Said, ToolCall, ToolChoice};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::chat::usage_headers;
use crate::engine::{EngineError, Job, Message, Tool};
use crate::error::{ApiError, json_response};
use crate::one::{self, Events};
use crate::request::{checked, read};
use crate::turn::Turn;
use crate::{App, ids};

#[derive(Debug, Deserialize)]
struct MessagesRequest {
    model: String,
    max_tokens: u64,
    messages: Vec<Turned>,
    system: Option<Blocks>,
    stream: Option<bool>,
    stop_sequences: Option<Vec<String>>,
    tools: Option<Vec<Declared>>,
    tool_choice: Option<Choice>,
    thinking: Option<Kind>,
    temperature: Option<f64>,
    top_p: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Turned {
    role: Role,
    content: Blocks,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "content is a string, or a list of blocks with a type")]
enum Blocks {
    Text(String),
    Blocks(Vec<Block>),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        content: Option<Blocks>,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Declared {
    name: String,
    description: Option<String>,
    input_schema: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

/// Answers a request.
pub async fn messages(State(app): State<Arc<App>>, request: Request) -> Response {
    answer(&app, request).await.unwrap_or_else(|error| json_response(error.status, &error.anthropic()))
}

async fn answer(app: &App, request: Request) -> Result<Response, ApiError> {
    let body = app.body(request).await?;
    let mut request: MessagesRequest = read(&body)?;
    app.knows(&request.model)?;
    let stream = request.stream.unwrap_or(false);
    let stops = request.stop_sequences.take().unwrap_or_default();
    let call_ids = IdPolicy::with(|_, _| format!("toolu_{}", ids::object_id()));
    let (turn, steps) = one::begin(app, request.job()?, &stops, call_ids).await?;
    let events = AnthropicMessages::new(&format!("msg_{}", ids::object_id()), &app.model);
    if stream {
        return Ok(one::stream(turn, steps, events));
    }
    let (turn, reason) = one::whole(turn, steps).await;
    let usage = turn.usage();
    let nothing = Said::default();
    let message = events.message(turn.message().unwrap_or(&nothing), reason, turn.stopped_by(), &usage);
    let body = ([("content-type", "application/json")], message.get().to_owned());
    Ok((StatusCode::OK, usage_headers(&usage), body).into_response())
}

impl Events for AnthropicMessages {
    fn start(&mut self, turn: &Turn, out: &mut BytesMut) {
        AnthropicMessages::start(self, &turn.usage(), out);
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut BytesMut) {
        AnthropicMessages::delta(self, delta, out);
    }

    fn end(&mut self, turn: &Turn, reason: &str, out: &mut BytesMut) {
        AnthropicMessages::end(self, reason, turn.stopped_by(), &turn.usage(), out);
    }

    fn fail(&mut self, _: &Turn, error: EngineError, out: &mut BytesMut) {
        let data = ApiError::from(error).anthropic();
        out.extend_from_slice(format!("event: error\ndata: {data}\n\n").as_bytes());
    }
}

impl MessagesRequest {
    fn job(self) -> Result<Job, ApiError> {
        if self.messages.is_empty() {
            return Err(ApiError::param("messages", "there must be a message"));
        }
        if self.max_tokens == 0 {
            return Err(ApiError::param("max_tokens", "max_tokens must be at least 1"));
        }
        let tools: Vec<Tool> = self.tools.into_iter().flatten().map(Declared::tool).collect();
        let parallel = !self.tool_choice.as_ref().and_then(|choice| choice.disable_parallel_tool_use).unwrap_or(false);
        let choice = match self.tool_choice.map(|choice| (choice.kind, choice.name)) {
            None => ToolChoice::Auto,
            Some((kind, name)) => match (&*kind, name) {
                ("auto", _) => ToolChoice::Auto,
                ("any", _) => ToolChoice::Required,
                ("none", _) => ToolChoice::None,
                ("tool", Some(name)) => ToolChoice::Named(name),
                _ => return Err(ApiError::param("tool_choice", "tool_choice is auto, any, none, or tool with a name")),
            },
        };
        let mut messages = Vec::new();
        let system = self.system.map(Blocks::text);
        messages.extend(system.map(|text| Message { role: "system".into(), text, ..Message::default() }));
        self.messages.into_iter().for_each(|turned| turned.add(&mut messages));
        let sampling = [("temperature", self.temperature), ("top_p", self.top_p)];
        Ok(Job {
            messages,
            tool_choice: checked(choice, &tools)?,
            tools,
            parallel,
            thinking: self.thinking.is_some_and(|thinking| thinking.kind != "disabled"),
            max_tokens: Some(self.max_tokens),
            sampling: sampling
                .into_iter()
                .filter_map(|(key, value)| Some((key.into(), value?.into())))
                .collect::<Map<_, _>>(),
            ..Job::default()
        })
    }
}

impl Declared {
    fn tool(self) -> Tool {
        Tool {
            name: self.name,
            description: self.description.unwrap_or_default(),
            parameters: self.input_schema.unwrap_or_else(|| json!({"type": "object"})),
        }
    }
}

impl Blocks {
    fn list(self) -> Vec<Block> {
        match self {
            Blocks::Text(text) => vec![Block::Text { text }],
            Blocks::Blocks(blocks) => blocks,
        }
    }

    fn text(self) -> String {
        let texts = self
            .list()
            .into_iter()
            .filter_map(|block| if let Block::Text { text } = block { Some(text) } else { None });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl Turned {
    /// One message, and one before it for each result of a tool.
    fn add(self, messages: &mut Vec<Message>) {
        let role = if let Role::User = self.role { "user" } else { "assistant" };
        let mut message = Message { role: role.into(), ..Message::default() };
        let mut texts = Vec::new();
        let mut results = 0;
        for block in self.content.list() {
            match block {
                Block::Text { text } => texts.push(text),
                Block::Thinking { thinking } => message.reasoning.push_str(&thinking),
                Block::ToolUse { id, name, input } => {
                    message.calls.push(ToolCall::new(name, input.to_string()).with_id(id));
                }
                Block::ToolResult { tool_use_id, content } => {
                    results += 1;
                    let text = content.map(Blocks::text).unwrap_or_default();
                    messages.push(Message {
                        role: "tool".into(),
                        text,
                        answers: Some(tool_use_id),
                        ..Message::default()
                    });
                }
                Block::Other => {}
            }
        }
        message.text = texts.join("\n");
        if results == 0 || !message.text.is_empty() {
            messages.push(message);
        }
    }
}
