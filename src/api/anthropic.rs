//! The Messages layer: deltas in; Anthropic's server-sent events, or one message, out.
//!
//! In: the deltas of a [`Chat`](crate::Chat). Out: a block of thinking, text or tool use for each run of deltas of one
//! kind, begun, continued and stopped as the Messages API does it. Held: the head of the message, and which block is open.
//! The `input` of a tool use is always an object that clients read, whatever the arguments are: `input.rs`.

use bytes::{BufMut, BytesMut};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::api::delta::Delta;
use crate::api::input::Input;
use crate::api::sse::json;
use crate::api::usage::Usage;
use crate::finish::FinishReason;
use crate::message::{Message, MessagePart};
use crate::object::Object;

/// The events of one message.
///
/// Call order: [`start`](AnthropicMessages::start), [`delta`](AnthropicMessages::delta) for each delta, and
/// [`end`](AnthropicMessages::end) or [`error`](AnthropicMessages::error): after either nothing more is written.
///
/// ```
/// use bytes::BytesMut;
/// use kimi_xtml::{Delta, AnthropicMessages, Usage};
///
/// let mut events = AnthropicMessages::new("msg_1", "kimi-k3");
/// let mut out = BytesMut::new();
/// events.start(&Usage::default(), &mut out);
/// out.clear();
/// events.delta(Delta::Content("Hi"), &mut out);
/// assert_eq!(
///     out,
///     "event: content_block_start\n\
///      data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
///      event: content_block_delta\n\
///      data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n"
/// );
/// ```
#[derive(Clone, Debug)]
pub struct AnthropicMessages {
    id: String,
    model: String,
    /// The block that is open.
    open: Option<Block>,
    /// Blocks that are stopped.
    stopped: usize,
    /// The arguments of the tool use that is open, and what goes out of them.
    input: Input,
    json: String,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    ToolUse,
}

impl AnthropicMessages {
    /// Events of the message `id`, by this model.
    ///
    /// ```
    /// use kimi_xtml::{AnthropicMessages, Message, Usage};
    ///
    /// let events = AnthropicMessages::new("msg_1", "kimi-k3");
    /// let body = events.message(&Message::default(), "stop", None, &Usage::default());
    /// assert!(body.get().starts_with(r#"{"id":"msg_1","type":"message","role":"assistant","model":"kimi-k3","#));
    /// ```
    pub fn new(id: &str, model: &str) -> Self {
        AnthropicMessages {
            id: id.into(),
            model: model.into(),
            open: None,
            stopped: 0,
            input: Input::default(),
            json: String::new(),
            ended: false,
        }
    }

    /// The first event, with the usage of the prompt.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use kimi_xtml::{AnthropicMessages, Usage};
    ///
    /// let mut out = BytesMut::new();
    /// AnthropicMessages::new("msg_1", "kimi-k3").start(&Usage::new(10, 0), &mut out);
    /// assert!(out.starts_with(b"event: message_start\ndata: {"));
    /// ```
    pub fn start(&self, usage: &Usage, out: &mut BytesMut) {
        let nothing: [(); 0] = [];
        let message = self.message_object(nothing, None, None, usage);
        event("message_start", ("message", message), out);
    }

    /// The events of one delta.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use kimi_xtml::{AnthropicMessages, Delta};
    ///
    /// let (mut events, mut out) = (AnthropicMessages::new("msg_1", "kimi-k3"), BytesMut::new());
    /// events.delta(Delta::CallStart { index: 0, id: "toolu_1", name: "ls" }, &mut out);
    /// events.delta(Delta::Arguments { index: 0, json: "{\"path\":" }, &mut out);
    /// let text = String::from_utf8_lossy(&out);
    /// assert!(text.contains(r#""delta":{"type":"input_json_delta","partial_json":"{\"path\":"}"#));
    /// ```
    pub fn delta(&mut self, delta: Delta<'_>, out: &mut BytesMut) {
        match delta {
            _ if self.ended => {}
            Delta::Reasoning("") => {}
            Delta::Reasoning(text) => {
                self.open(Block::Thinking, out);
                self.part(Object((("type", "thinking_delta"), ("thinking", text))), out);
            }
            Delta::Content(text) => {
                self.open(Block::Text, out);
                self.part(Object((("type", "text_delta"), ("text", text))), out);
            }
            Delta::CallStart { id, name, .. } => {
                self.stop(out);
                self.input = Input::default();
                self.begin(
                    Block::ToolUse,
                    Object((("type", "tool_use"), ("id", id), ("name", name), ("input", Object(())))),
                    out,
                );
            }
            Delta::Arguments { json, .. } => {
                self.input.push(json, &mut self.json);
                self.input_part(out);
            }
            Delta::CallEnd { complete, .. } => {
                self.input.end(complete, &mut self.json);
                self.input_part(out);
                self.stop(out);
            }
        }
    }

    /// The last events: the finish reason in the API's words, and the usage. `stop_sequence` is the stop string that was
    /// met, if one was.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use kimi_xtml::{AnthropicMessages, Usage};
    ///
    /// let mut out = BytesMut::new();
    /// AnthropicMessages::new("msg_1", "kimi-k3").end("stop", Some("END"), &Usage::new(10, 2), &mut out);
    /// let text = String::from_utf8_lossy(&out);
    /// assert!(text.contains(r#""delta":{"stop_reason":"stop_sequence","stop_sequence":"END"}"#));
    /// assert!(text.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
    /// ```
    pub fn end(&mut self, reason: &str, stop_sequence: Option<&str>, usage: &Usage, out: &mut BytesMut) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.stop(out);
        let delta = Object((("stop_reason", stop_reason(reason, stop_sequence)), ("stop_sequence", stop_sequence)));
        event2("message_delta", ("delta", delta), ("usage", Tokens(usage)), out);
        out.put_slice(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    }

    /// The event that ends a stream that failed: a client raises it. `kind` is one of the API's words, such as `api_error` or
    /// `overloaded_error`.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use kimi_xtml::AnthropicMessages;
    ///
    /// let mut out = BytesMut::new();
    /// AnthropicMessages::new("msg_1", "kimi-k3").error("api_error", "the engine is gone", &mut out);
    /// let error = r#"{"type":"error","error":{"type":"api_error","message":"the engine is gone"}}"#;
    /// assert_eq!(out, format!("event: error\ndata: {error}\n\n"));
    /// ```
    pub fn error(&mut self, kind: &str, message: &str, out: &mut BytesMut) {
        if !std::mem::replace(&mut self.ended, true) {
            event("error", ("error", Object((("type", kind), ("message", message)))), out);
        }
    }

    /// The whole message, as a request without a stream gets it: the blocks that the stream has, in the same order. The input
    /// of a call that was cut has the members that are whole.
    ///
    /// ```
    /// use kimi_xtml::{AnthropicMessages, Message, ToolCall, Usage};
    ///
    /// let cut = Message::new().with_tool_call(ToolCall::new("ls", r#"{"all":true,"path":"/t"#).incomplete());
    /// let body = AnthropicMessages::new("msg_1", "kimi-k3").message(&cut, "length", None, &Usage::default());
    /// assert!(body.get().contains(r#""name":"ls","input":{"all":true}}"#));
    /// ```
    pub fn message(
        &self,
        message: &Message,
        reason: &str,
        stop_sequence: Option<&str>,
        usage: &Usage,
    ) -> Box<RawValue> {
        let reason = stop_reason(reason, stop_sequence);
        let message = self.message_object(blocks(message), Some(reason), stop_sequence, usage);
        serde_json::value::to_raw_value(&message).expect("keys are strings")
    }

    fn message_object(
        &self,
        content: impl Serialize,
        reason: Option<&str>,
        stop_sequence: Option<&str>,
        usage: &Usage,
    ) -> impl Serialize {
        Object((
            ("id", &self.id),
            ("type", "message"),
            ("role", "assistant"),
            ("model", &self.model),
            ("content", content),
            ("stop_reason", reason),
            ("stop_sequence", stop_sequence),
            ("usage", Tokens(usage)),
        ))
    }

    /// Opens a block of this kind, unless one is open.
    fn open(&mut self, block: Block, out: &mut BytesMut) {
        if self.open == Some(block) {
            return;
        }
        self.stop(out);
        match block {
            Block::Thinking => {
                self.begin(block, Object((("type", "thinking"), ("thinking", ""), ("signature", ""))), out)
            }
            _ => self.begin(block, Object((("type", "text"), ("text", ""))), out),
        }
    }

    fn begin(&mut self, block: Block, content: impl Serialize, out: &mut BytesMut) {
        self.open = Some(block);
        event2("content_block_start", ("index", self.stopped), ("content_block", content), out);
    }

    fn part(&self, delta: impl Serialize, out: &mut BytesMut) {
        event2("content_block_delta", ("index", self.stopped), ("delta", delta), out);
    }

    /// What there is to send of the open tool use's input.
    fn input_part(&mut self, out: &mut BytesMut) {
        if !self.json.is_empty() && self.open == Some(Block::ToolUse) {
            self.part(Object((("type", "input_json_delta"), ("partial_json", &self.json))), out);
        }
        self.json.clear();
    }

    fn stop(&mut self, out: &mut BytesMut) {
        if self.open.take().is_some() {
            event("content_block_stop", ("index", self.stopped), out);
            self.stopped += 1;
        }
    }
}

fn event<V: Serialize>(kind: &str, member: (&'static str, V), out: &mut BytesMut) {
    frame(kind, &Object((("type", kind), member)), out);
}

fn event2<V: Serialize, W: Serialize>(
    kind: &str,
    first: (&'static str, V),
    second: (&'static str, W),
    out: &mut BytesMut,
) {
    frame(kind, &Object((("type", kind), first, second)), out);
}

fn frame(kind: &str, data: &impl Serialize, out: &mut BytesMut) {
    for part in ["event: ", kind, "\ndata: "] {
        out.put_slice(part.as_bytes());
    }
    json(out, data);
    out.put_slice(b"\n\n");
}

/// A finish reason in the API's words.
fn stop_reason(reason: &str, stop_sequence: Option<&str>) -> &'static str {
    match FinishReason::from_engine(reason) {
        _ if stop_sequence.is_some() => "stop_sequence",
        Some(FinishReason::Stop) => "end_turn",
        Some(FinishReason::ToolCalls) => "tool_use",
        Some(FinishReason::ContentFilter) => "refusal",
        _ => "max_tokens",
    }
}

/// The usage in the API's words: its input tokens are those that did not come from a cache.
struct Tokens<'a>(&'a Usage);

impl Serialize for Tokens<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Object((
            ("input_tokens", self.0.prompt_tokens - self.0.cached_tokens.min(self.0.prompt_tokens)),
            ("cache_creation_input_tokens", 0),
            ("cache_read_input_tokens", self.0.cached_tokens),
            ("output_tokens", self.0.completion_tokens),
        ))
        .serialize(serializer)
    }
}

/// A block of a whole message.
#[derive(Debug)]
enum Content<'a> {
    Thinking(String),
    Text(String),
    ToolUse { id: &'a str, name: &'a str, input: Box<RawValue> },
}

/// The blocks of a whole message, each of a run of parts of one kind.
fn blocks(message: &Message) -> Vec<Content<'_>> {
    let mut blocks = Vec::new();
    for part in message.parts() {
        match (part, blocks.last_mut()) {
            (MessagePart::Reasoning(""), _) => {}
            (MessagePart::Reasoning(more), Some(Content::Thinking(text)))
            | (MessagePart::Content(more), Some(Content::Text(text))) => text.push_str(more),
            (MessagePart::Reasoning(text), _) => blocks.push(Content::Thinking(text.into())),
            (MessagePart::Content(text), _) => blocks.push(Content::Text(text.into())),
            (MessagePart::ToolCall(call), _) => {
                let input = RawValue::from_string(Input::whole(&call.arguments, call.complete));
                blocks.push(Content::ToolUse { id: &call.id, name: &call.name, input: input.unwrap_or_default() });
            }
        }
    }
    blocks
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Content::Thinking(text) => {
                Object((("type", "thinking"), ("thinking", text), ("signature", ""))).serialize(serializer)
            }
            Content::Text(text) => Object((("type", "text"), ("text", text))).serialize(serializer),
            Content::ToolUse { id, name, input } => {
                Object((("type", "tool_use"), ("id", id), ("name", name), ("input", input))).serialize(serializer)
            }
        }
    }
}
