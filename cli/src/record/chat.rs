//! Chat Completions messages -> turns.
//!
//! In: a file with a JSON array, or JSON objects one a line; each is a message, or a request with `messages`, `tools` and
//! `tool_choice`. Out: a turn for each assistant message, with the user's message before it and the declared tools.

use std::path::Path;

use anyhow::anyhow;
use kimi_xtml::{Marker, Message, ToolCall};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cases::{Choice, json_reason};
use crate::record::{self, Turn, python};

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Request(ChatRequest),
    Message(ChatMessage),
}

#[derive(Deserialize)]
struct ChatRequest {
    messages: Vec<ChatMessage>,
    #[serde(default)]
    tools: Vec<Tool>,
    tool_choice: Option<Choice>,
}

#[derive(Deserialize)]
struct Tool {
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: String,
}

#[derive(Deserialize)]
struct ChatMessage {
    role: String,
    content: Option<Content>,
    #[serde(alias = "reasoning")]
    reasoning_content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    function: Function,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

impl Content {
    fn text(self) -> String {
        match self {
            Content::Text(text) => text,
            Content::Parts(parts) => parts.into_iter().map(|part| part.text).collect(),
        }
    }
}

/// Reads a file of messages or requests.
///
/// # Errors
/// If the file cannot be read, or holds something else.
pub fn read(file: &Path) -> anyhow::Result<Vec<Turn>> {
    read_from(&record::bytes(file)?, &crate::cases::name(file), &record::stem(file, "chat"))
}

/// Reads the messages or requests in `bytes`, which messages call `name`; the turns' ids begin with `stem`.
pub(crate) fn read_from(bytes: &[u8], name: &str, stem: &str) -> anyhow::Result<Vec<Turn>> {
    let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter();
    let entries: serde_json::Result<Vec<Entry>> = match bytes.trim_ascii_start() {
        [b'[', ..] => serde_json::from_slice(bytes),
        _ => stream.by_ref().collect(),
    };
    let entries = entries.map_err(|error| {
        // An object that has the wrong members has no place: it begins after those that were read.
        let begin = bytes.len() - bytes[stream.byte_offset()..].trim_ascii_start().len();
        let begins = 1 + bytes[..begin].iter().filter(|&&byte| byte == b'\n').count();
        let line = error.line().max(begins);
        anyhow!("{name}, line {line}: no Chat Completions messages: {}", json_reason(&error))
    })?;
    let mut turns = Vec::new();
    let mut user = None;
    for entry in entries {
        let (messages, tools, tool_choice) = match entry {
            Entry::Request(request) => (request.messages, request.tools, request.tool_choice),
            Entry::Message(message) => (vec![message], Vec::new(), None),
        };
        for message in messages {
            match &*message.role {
                "user" => user = message.content.map(Content::text),
                "assistant" => {
                    let id = format!("{stem}-{}", turns.len() + 1);
                    turns.push(turn(id, user.clone(), message, &tools, tool_choice.clone()));
                }
                _ => {}
            }
        }
    }
    anyhow::ensure!(!turns.is_empty(), "{name}: no assistant message");
    Ok(turns)
}

fn turn(id: String, user: Option<String>, message: ChatMessage, tools: &[Tool], tool_choice: Option<Choice>) -> Turn {
    let mut declared: Vec<String> = tools.iter().map(|tool| tool.function.name.clone()).collect();
    let calls = message.tool_calls.unwrap_or_default().into_iter().map(|call| {
        let arguments = respelled(&call.function.arguments);
        ToolCall::new(call.function.name, arguments)
    });
    let content = message.content.map(Content::text).unwrap_or_default();
    let message = Message::of(message.reasoning_content.unwrap_or_default(), content, calls.collect());
    for call in &message.tool_calls {
        if !declared.contains(&call.name) {
            declared.push(call.name.clone());
        }
    }
    let quotes = |text: &str| {
        [Marker::Open, Marker::Close, Marker::Sep, Marker::EndOfMsg]
            .iter()
            .any(|marker| text.contains(marker.spelling()))
    };
    let texts = message.tool_calls.iter().map(|call| &call.arguments).chain([&message.reasoning, &message.content]);
    let identity = texts.into_iter().any(|text| quotes(text));
    let kind = if message.tool_calls.is_empty() { "chat-reply" } else { "chat-calls" };
    Turn { id, kind: kind.into(), user, message, tools: declared, tool_choice, identity }
}

/// Arguments in the spelling in which the parser gives them, if they were generated in Python's; what is no JSON object
/// stays as it is.
pub fn respelled(arguments: &str) -> String {
    let members = |json: &str| -> Option<String> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let members: Vec<(String, &RawValue)> = deserializer.deserialize_map(Members).ok()?;
        deserializer.end().ok()?;
        let mut spelled = String::from("{");
        for (key, value) in members {
            if spelled.len() > 1 {
                spelled.push(',');
            }
            spelled += &python::dumps(&key);
            spelled.push(':');
            spelled += &match value.get().as_bytes().first()? {
                b'{' | b'[' | b'"' => python::dumps(&serde_json::from_str::<Value>(value.get()).ok()?),
                // A number keeps its spelling.
                _ => value.get().to_owned(),
            };
        }
        spelled.push('}');
        Some(spelled)
    };
    members(arguments).unwrap_or_else(|| arguments.to_owned())
}

/// The members of an object in their order, repeated keys too.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}
