//! The Messages layer: deltas in; Anthropic's server-sent events, or one message, out.
//!
//! In: the deltas of a [`Chat`](crate::Chat). Out: a block of thinking, text or tool use for each run of deltas of one
//! kind, begun, continued and stopped as the Messages API does it. Held: the head of the message, and which block is open.

use bytes::{BufMut, BytesMut};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::value::RawValue;

use crate::api::delta::Delta;
use crate::api::sse::json;
use crate::api::usage::Usage;
use crate::message::Message;
use crate::object::Object;

/// The events of one message.
///
/// Call order: [`start`](AnthropicMessages::start), [`delta`](AnthropicMessages::delta) for each delta, [`end`](AnthropicMessages::end).
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    ToolUse,
}

impl AnthropicMessages {
    /// Events of the message `id`, by this model.
    pub fn new(id: &str, model: &str) -> Self {
        AnthropicMessages { id: id.into(), model: model.into(), open: None, stopped: 0 }
    }

    /// The first event, with the usage of the prompt.
    pub fn start(&self, usage: &Usage, out: &mut BytesMut) {
        let nothing: [(); 0] = [];
        let message = self.message_object(nothing, None, None, usage);
        event("message_start", ("message", message), out);
    }

    /// The events of one delta.
    pub fn delta(&mut self, delta: Delta<'_>, out: &mut BytesMut) {
        match delta {
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
                self.begin(
                    Block::ToolUse,
                    Object((("type", "tool_use"), ("id", id), ("name", name), ("input", Object(())))),
                    out,
                );
            }
            Delta::Arguments { json, .. } => {
                self.part(Object((("type", "input_json_delta"), ("partial_json", json))), out);
            }
            Delta::CallEnd { .. } => self.stop(out),
        }
    }

    /// The last events: the finish reason in the API's words, and the usage. `stop_sequence` is the stop string that was
    /// met, if one was.
    pub fn end(&mut self, reason: &str, stop_sequence: Option<&str>, usage: &Usage, out: &mut BytesMut) {
        self.stop(out);
        let delta = Object((("stop_reason", stop_reason(reason, stop_sequence)), ("stop_sequence", stop_sequence)));
        event2("message_delta", ("delta", delta), ("usage", Tokens(usage)), out);
        out.put_slice(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    }

    /// The whole message, as a request without a stream gets it. The arguments of a call that is not complete, or that are
    /// no JSON, are a string.
    pub fn message(
        &self,
        message: &Message,
        reason: &str,
        stop_sequence: Option<&str>,
        usage: &Usage,
    ) -> Box<RawValue> {
        let reason = stop_reason(reason, stop_sequence);
        let message = self.message_object(Blocks(message), Some(reason), stop_sequence, usage);
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
    match reason {
        _ if stop_sequence.is_some() => "stop_sequence",
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "content_filter" => "refusal",
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

/// The blocks of a whole message.
struct Blocks<'a>(&'a Message);

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Message { reasoning, content, tool_calls, .. } = self.0;
        let mut blocks = serializer.serialize_seq(None)?;
        if !reasoning.is_empty() {
            blocks.serialize_element(&Object((("type", "thinking"), ("thinking", reasoning), ("signature", ""))))?;
        }
        if !content.is_empty() {
            blocks.serialize_element(&Object((("type", "text"), ("text", content))))?;
        }
        for call in tool_calls {
            let head = (("type", "tool_use"), ("id", &call.id), ("name", &call.name));
            match serde_json::from_str::<&RawValue>(&call.arguments) {
                Ok(input) if call.complete => {
                    blocks.serialize_element(&Object((head.0, head.1, head.2, ("input", input))))?;
                }
                _ => blocks.serialize_element(&Object((head.0, head.1, head.2, ("input", &call.arguments))))?,
            }
        }
        blocks.end()
    }
}
