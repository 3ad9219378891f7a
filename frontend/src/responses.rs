//! `/v1/responses`: OpenAI's Responses API.
//!
//! In: a request. Out: one response, or its events, through the crate's `Responses`. Held: what [`one`] holds, and the
//! response so far, which its last event repeats. No response is kept when it has gone out.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use kimi_xtml::{Delta, IdPolicy, Message as Said, Responses, ToolCall, ToolChoice};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::chat::usage_headers;
use crate::engine::{EngineError, Job, Message, Tool};
use crate::error::{ApiError, json_response};
use crate::one::{self, Events};
use crate::request::{Content, checked, read};
use crate::turn::Turn;
use crate::{App, ids, now};

#[derive(Debug, Deserialize)]
struct ResponsesRequest {
    model: String,
    input: Input,
    instructions: Option<String>,
    stream: Option<bool>,
    tools: Option<Vec<Declared>>,
    tool_choice: Option<Choice>,
    parallel_tool_calls: Option<bool>,
    max_output_tokens: Option<u64>,
    reasoning: Option<Reasoning>,
    text: Option<Text>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    previous_response_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "input is a string, or a list of items")]
enum Input {
    Text(String),
    Items(Vec<Item>),
}

/// An item of any type: which members it has depends on it.
#[derive(Debug, Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    content: Option<Content>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Option<Content>,
}

#[derive(Debug, Deserialize)]
struct Declared {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    description: Option<String>,
    parameters: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "tool_choice is auto, none, required, or an object with a name")]
enum Choice {
    Word(String),
    Named { name: String },
}

#[derive(Debug, Deserialize)]
struct Reasoning {
    effort: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Text {
    format: Option<Format>,
}

#[derive(Debug, Deserialize)]
struct Format {
    #[serde(rename = "type")]
    kind: String,
    schema: Option<Value>,
}

/// Answers a request.
///
/// # Errors
/// If the request cannot be served.
pub async fn responses(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let body = app.body(request).await?;
    let request: ResponsesRequest = read(&body)?;
    app.knows(&request.model)?;
    let repeated = repeated(read(&body)?);
    let stream = request.stream.unwrap_or(false);
    let (turn, steps) = one::begin(&app, request.job()?, &[], IdPolicy::random()).await?;
    let events = Responses::new(&format!("resp_{}", ids::object_id()), now(), &app.model, repeated);
    if stream {
        return Ok(one::stream(turn, steps, events));
    }
    let (turn, reason) = one::whole(turn, steps).await;
    let usage = turn.usage();
    let nothing = Said::default();
    let whole = events.whole(turn.message().unwrap_or(&nothing), reason, &usage);
    Ok((usage_headers(&usage), json_response(StatusCode::OK, &whole)).into_response())
}

/// The members of a request that its response repeats.
fn repeated(mut request: Map<String, Value>) -> Map<String, Value> {
    let mut repeated = Map::new();
    for (key, default) in [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", json!(true)),
        ("previous_response_id", Value::Null),
        ("temperature", json!(1.0)),
        ("text", json!({"format": {"type": "text"}})),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("top_p", json!(1.0)),
    ] {
        let value = request.remove(key).filter(|value| !value.is_null());
        repeated.insert(key.into(), value.unwrap_or(default));
    }
    repeated
}

impl Events for Responses {
    fn start(&mut self, _: &Turn, out: &mut BytesMut) {
        Responses::start(self, out);
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut BytesMut) {
        Responses::delta(self, delta, out);
    }

    fn end(&mut self, turn: &Turn, reason: &str, out: &mut BytesMut) {
        Responses::end(self, reason, &turn.usage(), out);
    }

    fn fail(&mut self, turn: &Turn, error: EngineError, out: &mut BytesMut) {
        Responses::failed(self, "server_error", &error.to_string(), &turn.usage(), out);
    }
}

impl ResponsesRequest {
    fn job(self) -> Result<Job, ApiError> {
        if self.previous_response_id.is_some() {
            return Err(ApiError::param(
                "previous_response_id",
                "this server keeps no responses: send the conversation",
            ));
        }
        if self.max_output_tokens == Some(0) {
            return Err(ApiError::param("max_output_tokens", "max_output_tokens must be at least 1"));
        }
        let functions = self.tools.into_iter().flatten().filter(|tool| tool.kind == "function");
        let tools: Vec<Tool> = functions.filter_map(Declared::tool).collect();
        let choice = match self.tool_choice {
            None => ToolChoice::Auto,
            Some(Choice::Named { name }) => ToolChoice::Named(name),
            Some(Choice::Word(word)) => match &*word {
                "auto" => ToolChoice::Auto,
                "none" => ToolChoice::None,
                "required" => ToolChoice::Required,
                _ => {
                    return Err(ApiError::param("tool_choice", "tool_choice is auto, none, required, or names a tool"));
                }
            },
        };
        let said = |role: &str, text: String| Message { role: role.into(), text, ..Message::default() };
        let mut messages: Vec<Message> = self.instructions.into_iter().map(|text| said("system", text)).collect();
        match self.input {
            Input::Text(text) => messages.push(said("user", text)),
            Input::Items(items) => messages.extend(items.into_iter().filter_map(Item::message)),
        }
        if messages.is_empty() {
            return Err(ApiError::param("input", "there must be an input"));
        }
        let format = self.text.and_then(|text| text.format).filter(|format| format.kind.starts_with("json"));
        let sampling = [("temperature", self.temperature), ("top_p", self.top_p)];
        Ok(Job {
            messages,
            tool_choice: checked(choice, &tools)?,
            tools,
            parallel: self.parallel_tool_calls.unwrap_or(true),
            thinking: self.reasoning.and_then(|reasoning| reasoning.effort).is_none_or(|effort| effort != "none"),
            max_tokens: self.max_output_tokens,
            schema: format.map(|format| format.schema.unwrap_or_else(|| json!({"type": "object"}))),
            sampling: sampling
                .into_iter()
                .filter_map(|(key, value)| Some((key.into(), value?.into())))
                .collect::<Map<_, _>>(),
            ..Job::default()
        })
    }
}

impl Declared {
    fn tool(self) -> Option<Tool> {
        let parameters = self.parameters.unwrap_or_else(|| json!({"type": "object"}));
        Some(Tool { name: self.name?, description: self.description.unwrap_or_default(), parameters })
    }
}

impl Item {
    /// The message that the item is, or is a part of; none for an item that says nothing to the model.
    fn message(self) -> Option<Message> {
        let text = |content: Option<Content>| content.map(Content::text).unwrap_or_default();
        match self.kind.as_deref() {
            None | Some("message") => {
                let role = match self.role.as_deref()? {
                    "developer" => "system",
                    role => role,
                };
                Some(Message { role: role.into(), text: text(self.content), ..Message::default() })
            }
            Some("function_call") => {
                let arguments = self.arguments.unwrap_or_default();
                let call = ToolCall::new(self.name?, arguments).with_id(self.call_id.unwrap_or_default());
                Some(Message { role: "assistant".into(), calls: vec![call], ..Message::default() })
            }
            Some("function_call_output") => Some(Message {
                role: "tool".into(),
                text: text(self.output),
                answers: self.call_id,
                ..Message::default()
            }),
            Some("reasoning") => {
                Some(Message { role: "assistant".into(), reasoning: text(self.content), ..Message::default() })
            }
            _ => None,
        }
    }
}
