//! The Responses layer: deltas in; OpenAI's Responses events, or one response, out.
//!
//! In: the deltas of a [`Chat`](crate::Chat). Out: an item (reasoning, message, function call) for each run of deltas of one
//! kind, with the events that add, continue and finish it. Held: the response so far: its last event repeats it whole.

use bytes::{BufMut, BytesMut};
use serde_json::{Map, Value, json};

use crate::api::delta::Delta;
use crate::api::usage::Usage;
use crate::message::Message;

/// The events of one response.
///
/// Call order: [`start`](Responses::start), [`delta`](Responses::delta) for each delta, [`end`](Responses::end).
///
/// ```
/// use bytes::BytesMut;
/// use kimi_xtml::{Delta, Responses, Usage};
/// use serde_json::json;
///
/// let request = json!({"tools": [], "tool_choice": "auto", "parallel_tool_calls": true});
/// let mut events = Responses::new("resp_1", 1_790_000_000, "kimi-k3", request.as_object().unwrap().clone());
/// let mut out = BytesMut::new();
/// events.start(&mut out);
/// events.delta(Delta::Content("Hi"), &mut out);
/// events.end("stop", &Usage::default(), &mut out);
/// let text = String::from_utf8_lossy(&out);
/// assert!(text.starts_with("event: response.created\ndata: {"));
/// assert_eq!(text.matches("event: response.output_text.delta\n").count(), 1);
/// assert_eq!(text.matches("event: response.completed\n").count(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Responses {
    id: String,
    /// The response's members but for status, output and usage.
    head: Map<String, Value>,
    sequence: u64,
    output: Vec<Value>,
    open: Option<Item>,
}

/// The item that is open.
#[derive(Clone, Debug)]
struct Item {
    kind: Kind,
    id: String,
    /// Its text or arguments so far.
    text: String,
    /// The item as it was added.
    added: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
    Call,
}

impl Responses {
    /// Events of the response `id`, created at this Unix time (seconds), by this model. `request` has the members of the
    /// request that a response repeats: `tools`, `tool_choice`, `parallel_tool_calls` and so on.
    pub fn new(id: &str, created: u64, model: &str, request: Map<String, Value>) -> Self {
        let mut head = request;
        for (key, value) in
            [("id", json!(id)), ("object", json!("response")), ("created_at", json!(created)), ("model", json!(model))]
        {
            head.insert(key.into(), value);
        }
        Responses { id: id.into(), head, sequence: 0, output: Vec::new(), open: None }
    }

    /// The first events.
    pub fn start(&mut self, out: &mut BytesMut) {
        for kind in ["response.created", "response.in_progress"] {
            let response = self.response("in_progress", Value::Null, None);
            self.event(kind, json!({"response": response}), out);
        }
    }

    /// The events of one delta.
    pub fn delta(&mut self, delta: Delta<'_>, out: &mut BytesMut) {
        match delta {
            Delta::Reasoning("") => {}
            Delta::Reasoning(text) => self.text(Kind::Reasoning, text, out),
            Delta::Content(text) => self.text(Kind::Message, text, out),
            Delta::CallStart { id, name, .. } => {
                let item = json!({"type": "function_call", "status": "in_progress", "call_id": id, "name": name, "arguments": ""});
                self.add(Kind::Call, item, out);
            }
            Delta::Arguments { json, .. } => self.text(Kind::Call, json, out),
            Delta::CallEnd { complete, .. } => self.finish(complete, out),
        }
    }

    /// The last events: the open item is finished, the response completed, or incomplete.
    pub fn end(&mut self, reason: &str, usage: &Usage, out: &mut BytesMut) {
        self.finish(true, out);
        let (status, details) = status(reason);
        let response = self.response(status, details, Some(usage));
        let kind = if status == "completed" { "response.completed" } else { "response.incomplete" };
        self.event(kind, json!({"response": response}), out);
    }

    /// The last events of a response that the engine broke off: the open item is finished, the response failed.
    pub fn failed(&mut self, code: &str, message: &str, usage: &Usage, out: &mut BytesMut) {
        self.finish(true, out);
        let mut response = self.response("failed", Value::Null, Some(usage));
        response["error"] = json!({"code": code, "message": message});
        self.event("response.failed", json!({"response": response}), out);
    }

    /// The whole response, as a request without a stream gets it.
    pub fn whole(mut self, message: &Message, reason: &str, usage: &Usage) -> Value {
        let mut unsent = BytesMut::new();
        for delta in [Delta::Reasoning(&message.reasoning), Delta::Content(&message.content)] {
            if !matches!(delta, Delta::Reasoning("") | Delta::Content("")) {
                self.delta(delta, &mut unsent);
            }
        }
        for (index, call) in message.tool_calls.iter().enumerate() {
            self.delta(Delta::CallStart { index, id: &call.id, name: &call.name }, &mut unsent);
            self.delta(Delta::Arguments { index, json: &call.arguments }, &mut unsent);
            self.finish(call.complete, &mut unsent);
            unsent.clear();
        }
        self.finish(true, &mut unsent);
        let (status, details) = status(reason);
        self.response(status, details, Some(usage))
    }

    /// More text of an item of this kind.
    fn text(&mut self, kind: Kind, text: &str, out: &mut BytesMut) {
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            let item = match kind {
                Kind::Reasoning => json!({"type": "reasoning", "status": "in_progress", "summary": [], "content": []}),
                _ => json!({"type": "message", "status": "in_progress", "role": "assistant", "content": []}),
            };
            self.add(kind, item, out);
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(text);
        }
        let mut data = json!({"delta": text});
        if kind == Kind::Message {
            data["logprobs"] = json!([]);
        }
        self.item_event(&format!("{}.delta", kind.events()), data, out);
    }

    fn add(&mut self, kind: Kind, mut item: Value, out: &mut BytesMut) {
        self.finish(true, out);
        let id = format!("{}_{}_{}", kind.prefix(), self.id, self.output.len());
        item["id"] = json!(id);
        self.event("response.output_item.added", json!({"output_index": self.output.len(), "item": item}), out);
        self.open = Some(Item { kind, id, text: String::new(), added: item });
        if let Some(part) = kind.part("") {
            self.item_event("response.content_part.added", json!({"part": part}), out);
        }
    }

    /// Finishes the item that is open.
    fn finish(&mut self, complete: bool, out: &mut BytesMut) {
        let Some(Item { kind, text, .. }) = self.open.clone() else {
            return;
        };
        let member = if kind == Kind::Call { "arguments" } else { "text" };
        self.item_event(&format!("{}.done", kind.events()), kind.done(member, &text), out);
        if let Some(part) = kind.part(&text) {
            self.item_event("response.content_part.done", json!({"part": part}), out);
        }
        let Some(Item { added: mut item, .. }) = self.open.take() else {
            return;
        };
        item["status"] = json!(if complete { "completed" } else { "incomplete" });
        match kind.part(&text) {
            Some(part) => item["content"] = json!([part]),
            None => item["arguments"] = json!(text),
        }
        self.event("response.output_item.done", json!({"output_index": self.output.len(), "item": item}), out);
        self.output.push(item);
    }

    /// An event of the open item.
    fn item_event(&mut self, kind: &str, mut data: Value, out: &mut BytesMut) {
        let Some(open) = &self.open else { return };
        data["item_id"] = json!(open.id);
        data["output_index"] = json!(self.output.len());
        if open.kind != Kind::Call {
            data["content_index"] = json!(0);
        }
        self.event(kind, data, out);
    }

    fn event(&mut self, kind: &str, mut data: Value, out: &mut BytesMut) {
        data["type"] = json!(kind);
        data["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        out.put_slice(format!("event: {kind}\ndata: {data}\n\n").as_bytes());
    }

    fn response(&self, status: &str, details: Value, usage: Option<&Usage>) -> Value {
        let mut response = self.head.clone();
        let usage = usage.map(|usage| {
            json!({
                "input_tokens": usage.prompt_tokens,
                "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
                "output_tokens": usage.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
                "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            })
        });
        let members = [
            ("status", json!(status)),
            ("error", Value::Null),
            ("incomplete_details", details),
            ("output", json!(self.output)),
            ("usage", json!(usage)),
        ];
        response.extend(members.map(|(key, value)| (key.to_owned(), value)));
        Value::Object(response)
    }
}

impl Kind {
    const fn prefix(self) -> &'static str {
        match self {
            Kind::Reasoning => "rs",
            Kind::Message => "msg",
            Kind::Call => "fc",
        }
    }

    const fn events(self) -> &'static str {
        match self {
            Kind::Reasoning => "response.reasoning_text",
            Kind::Message => "response.output_text",
            Kind::Call => "response.function_call_arguments",
        }
    }

    fn done(self, member: &str, text: &str) -> Value {
        match self {
            Kind::Message => json!({member: text, "logprobs": []}),
            _ => json!({member: text}),
        }
    }

    /// The item's content part; a call has none.
    fn part(self, text: &str) -> Option<Value> {
        match self {
            Kind::Reasoning => Some(json!({"type": "reasoning_text", "text": text})),
            Kind::Message => Some(json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})),
            Kind::Call => None,
        }
    }
}

/// A finish reason as a status and its details.
fn status(reason: &str) -> (&'static str, Value) {
    match reason {
        "stop" | "tool_calls" => ("completed", Value::Null),
        "content_filter" => ("incomplete", json!({"reason": "content_filter"})),
        _ => ("incomplete", json!({"reason": "max_output_tokens"})),
    }
}
