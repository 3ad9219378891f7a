//! The Responses layer: deltas in; OpenAI's Responses events, or one response, out.
//!
//! In: the deltas of a [`Chat`](crate::Chat), with the log-probabilities of their tokens where they are asked for. Out: an
//! item (reasoning, message, function call) for each run of deltas of one kind, with the events that add, continue and finish
//! it. Held: the response so far, as JSON: its last event repeats it whole.

use std::collections::HashMap;

use bytes::{BufMut, BytesMut};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::api::delta::Delta;
use crate::api::frames::Extras;
use crate::api::sse::json;
use crate::api::usage::Usage;
use crate::finish::FinishReason;
use crate::message::{Message, MessagePart};
use crate::object::Object;

/// The events of one response.
///
/// Call order: [`start`](Responses::start), [`delta`](Responses::delta) for each delta, and [`end`](Responses::end) or
/// [`failed`](Responses::failed): after either nothing more is written.
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
    /// Namespace and own name of the tools that have them, by the name that the model knows.
    namespaces: HashMap<String, (String, String)>,
    sequence: u64,
    /// The items that are finished, as JSON, with commas between them.
    output: BytesMut,
    /// How many these are.
    items: usize,
    open: Option<Item>,
    status: Status,
}

/// The item that is open.
#[derive(Clone, Debug)]
struct Item {
    kind: Kind,
    /// Its members but for status and content: `"type":...`.
    head: BytesMut,
    /// What tells an event of it from other events: `,"item_id":...`.
    place: BytesMut,
    /// The event of a delta up to its number.
    delta: BytesMut,
    /// Its text or arguments so far.
    text: String,
    /// Its log-probabilities so far, with commas between them.
    logprobs: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
    Call,
}

/// How the response stands.
#[derive(Clone, Debug)]
struct Status {
    word: &'static str,
    error: Option<Value>,
    details: Option<Value>,
    usage: Option<Usage>,
}

impl Responses {
    /// Events of the response `id`, created at this Unix time (seconds), by this model. `request` has the members of the
    /// request that a response repeats: `tools`, `tool_choice`, `parallel_tool_calls` and so on. Clients need these three:
    /// they are none, `auto` and true unless it says otherwise.
    ///
    /// ```
    /// use kimi_xtml::Responses;
    ///
    /// let response = Responses::new("resp_1", 1_790_000_000, "kimi-k3", Default::default()).response();
    /// assert_eq!((&response["id"], &response["tool_choice"]), (&"resp_1".into(), &"auto".into()));
    /// ```
    pub fn new(id: &str, created: u64, model: &str, request: Map<String, Value>) -> Self {
        let mut head = request;
        for (key, value) in
            [("id", json!(id)), ("object", json!("response")), ("created_at", json!(created)), ("model", json!(model))]
        {
            head.insert(key.into(), value);
        }
        let defaults = [("tools", json!([])), ("tool_choice", json!("auto")), ("parallel_tool_calls", json!(true))];
        for (key, value) in defaults {
            if head.get(key).is_none_or(Value::is_null) {
                head.insert(key.into(), value);
            }
        }
        for said in ["status", "error", "incomplete_details", "output", "usage"] {
            head.remove(said);
        }
        let status = Status { word: "in_progress", error: None, details: None, usage: None };
        Responses {
            id: id.into(),
            head,
            namespaces: HashMap::new(),
            sequence: 0,
            output: BytesMut::new(),
            items: 0,
            open: None,
            status,
        }
    }

    /// Says which tools the client declared within a `namespace`: for each the name that the model knows it by, its
    /// namespace and its own name. Calls of it have `namespace` and the own name.
    ///
    /// ```
    /// use kimi_xtml::{Delta, Responses};
    ///
    /// let events = Responses::new("resp_1", 1_790_000_000, "kimi-k3", Default::default());
    /// let mut events = events.with_namespaces([("files__read".into(), "files".into(), "read".into())]);
    /// let mut out = bytes::BytesMut::new();
    /// events.delta(Delta::CallStart { index: 0, id: "call_1", name: "files__read" }, &mut out);
    /// assert!(String::from_utf8_lossy(&out).contains(r#""namespace":"files","name":"read""#));
    /// ```
    #[must_use]
    pub fn with_namespaces(mut self, tools: impl IntoIterator<Item = (String, String, String)>) -> Self {
        self.namespaces = tools.into_iter().map(|(tool, space, own)| (tool, (space, own))).collect();
        self
    }

    /// The first events.
    ///
    /// ```
    /// use kimi_xtml::Responses;
    ///
    /// let mut out = bytes::BytesMut::new();
    /// Responses::new("resp_1", 1_790_000_000, "kimi-k3", Default::default()).start(&mut out);
    /// assert_eq!(String::from_utf8_lossy(&out).matches("\"status\":\"in_progress\"").count(), 2);
    /// ```
    pub fn start(&mut self, out: &mut BytesMut) {
        if self.sequence == 0 {
            self.response_event("response.created", out);
            self.response_event("response.in_progress", out);
        }
    }

    /// The events of one delta.
    ///
    /// ```
    /// use kimi_xtml::{Delta, Responses};
    ///
    /// let mut out = bytes::BytesMut::new();
    /// let mut events = Responses::new("resp_1", 1_790_000_000, "kimi-k3", Default::default());
    /// events.delta(Delta::Content("Hi"), &mut out);
    /// assert!(String::from_utf8_lossy(&out).contains("event: response.output_text.delta\n"));
    /// ```
    pub fn delta(&mut self, delta: Delta<'_>, out: &mut BytesMut) {
        self.delta_with(delta, Extras::new(), out);
    }

    /// The events of one delta, with the log-probabilities of the tokens that made it. They go out with content only.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use kimi_xtml::{Delta, Extras, Logprob, Responses, Usage};
    ///
    /// let mut events = Responses::new("resp_1", 0, "kimi-k3", Default::default());
    /// let logprobs = [Some(Logprob::new("Hi", -0.5))];
    /// events.delta_with(Delta::Content("Hi"), Extras::new().with_logprobs(&logprobs), &mut BytesMut::new());
    /// events.end("stop", &Usage::default(), &mut BytesMut::new());
    /// let response = events.response(); // what a request without a stream gets
    /// assert_eq!(response["output"][0]["content"][0]["logprobs"][0]["logprob"], -0.5);
    /// ```
    pub fn delta_with(&mut self, delta: Delta<'_>, extras: Extras<'_>, out: &mut BytesMut) {
        match delta {
            _ if self.has_ended() => {}
            Delta::Reasoning("") => {}
            Delta::Reasoning(text) => self.text(Kind::Reasoning, text, extras, out),
            Delta::Content(text) => self.text(Kind::Message, text, extras, out),
            Delta::CallStart { id, name, .. } => self.add(Kind::Call, Some((id, name)), out),
            Delta::Arguments { json, .. } => {
                if self.open.as_ref().is_some_and(|open| open.kind == Kind::Call) {
                    self.text(Kind::Call, json, extras, out);
                }
            }
            Delta::CallEnd { complete, .. } => self.finish(complete, out),
        }
    }

    /// The last events: the open item is finished, the response completed, or incomplete. So is text that was still being
    /// said when a limit or a filter ended it.
    ///
    /// ```
    /// use kimi_xtml::{Delta, Responses, Usage};
    ///
    /// let mut out = bytes::BytesMut::new();
    /// let mut events = Responses::new("resp_1", 1_790_000_000, "kimi-k3", Default::default());
    /// events.delta(Delta::Content("Hi"), &mut out);
    /// events.end("length", &Usage::default(), &mut out);
    /// assert_eq!(events.response()["status"], "incomplete");
    /// assert_eq!(events.response()["output"][0]["status"], "incomplete");
    /// ```
    pub fn end(&mut self, reason: &str, usage: &Usage, out: &mut BytesMut) {
        if self.has_ended() {
            return;
        }
        let (word, why) = match FinishReason::from_engine(reason) {
            Some(FinishReason::Stop | FinishReason::ToolCalls) => ("completed", None),
            Some(FinishReason::ContentFilter) => ("incomplete", Some("content_filter")),
            _ => ("incomplete", Some("max_output_tokens")),
        };
        self.finish_last(word == "completed", out);
        let details = why.map(|why| json!({"reason": why}));
        self.status = Status { word, error: None, details, usage: Some(*usage) };
        self.response_event(if why.is_none() { "response.completed" } else { "response.incomplete" }, out);
    }

    /// The last events of a response that the engine broke off: the open item is finished as incomplete, the response failed.
    /// `code` is one of the API's words, such as `server_error`.
    ///
    /// ```
    /// use kimi_xtml::{Responses, Usage};
    ///
    /// let mut out = bytes::BytesMut::new();
    /// let mut events = Responses::new("resp_1", 1_790_000_000, "kimi-k3", Default::default());
    /// events.failed("server_error", "the engine is gone", &Usage::default(), &mut out);
    /// assert_eq!(events.response()["error"]["message"], "the engine is gone");
    /// ```
    pub fn failed(&mut self, code: &str, message: &str, usage: &Usage, out: &mut BytesMut) {
        if self.has_ended() {
            return;
        }
        self.finish_last(false, out);
        let error = Some(json!({"code": code, "message": message}));
        self.status = Status { word: "failed", error, details: None, usage: Some(*usage) };
        self.response_event("response.failed", out);
    }

    /// The response as the last event that had it told it: after the end what a request without a stream gets.
    ///
    /// ```
    /// use kimi_xtml::{Delta, Responses, Usage};
    ///
    /// let mut out = bytes::BytesMut::new();
    /// let mut events = Responses::new("resp_1", 1_790_000_000, "kimi-k3", Default::default());
    /// events.delta(Delta::Content("Hi"), &mut out);
    /// events.end("stop", &Usage::default(), &mut out);
    /// assert_eq!(events.response()["output"][0]["content"][0]["text"], "Hi");
    /// ```
    pub fn response(&self) -> Value {
        let mut said = BytesMut::new();
        self.write_said(&mut said);
        said[0] = b'{'; // in place of the comma after the head
        let said: Map<String, Value> = serde_json::from_slice(&said).expect("what was written is JSON");
        let mut response = self.head.clone();
        response.extend(said);
        Value::Object(response)
    }

    /// The whole response to a message, as a request without a stream gets it: the items that the stream has, in the same
    /// order. Where log-probabilities are asked for, give the deltas to [`delta_with`](Responses::delta_with) instead, and
    /// take the [`response`](Responses::response).
    ///
    /// ```
    /// use kimi_xtml::{Message, Responses, Usage};
    ///
    /// let message = Message::new().with_reasoning("Hm.").with_content("Hi");
    /// let events = Responses::new("resp_1", 1_790_000_000, "kimi-k3", Default::default());
    /// let response = events.whole(&message, "stop", &Usage::default());
    /// assert_eq!(response["output"][1]["content"][0]["text"], "Hi");
    /// ```
    pub fn whole(mut self, message: &Message, reason: &str, usage: &Usage) -> Value {
        let mut unsent = BytesMut::new();
        for part in message.parts() {
            match part {
                MessagePart::Reasoning(text) => self.delta(Delta::Reasoning(text), &mut unsent),
                MessagePart::Content(text) => self.delta(Delta::Content(text), &mut unsent),
                MessagePart::ToolCall(call) => {
                    let (index, json) = (self.items, &*call.arguments);
                    self.delta(Delta::CallStart { index, id: &call.id, name: &call.name }, &mut unsent);
                    if !json.is_empty() {
                        self.delta(Delta::Arguments { index, json }, &mut unsent);
                    }
                    self.delta(Delta::CallEnd { index, complete: call.complete }, &mut unsent);
                }
            }
            unsent.clear();
        }
        self.end(reason, usage, &mut unsent);
        self.response()
    }

    fn has_ended(&self) -> bool {
        self.status.word != "in_progress"
    }

    /// More text of an item of this kind.
    fn text(&mut self, kind: Kind, text: &str, extras: Extras<'_>, out: &mut BytesMut) {
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.add(kind, None, out);
        }
        let Some(open) = &mut self.open else { return };
        open.text.push_str(text);
        out.put_slice(&open.delta);
        json(out, &self.sequence);
        self.sequence += 1;
        member("delta", text, out);
        if kind == Kind::Message {
            out.put_slice(b",\"logprobs\":[");
            let before = out.len();
            for logprob in extras.logprobs.into_iter().flatten().flatten() {
                if out.len() > before {
                    out.put_u8(b',');
                }
                json(out, logprob);
            }
            if out.len() > before {
                if !open.logprobs.is_empty() {
                    open.logprobs.put_u8(b',');
                }
                open.logprobs.put_slice(&out[before..]);
            }
            out.put_u8(b']');
        }
        out.put_slice(b"}\n\n");
    }

    /// Opens an item of this kind; a call has an id and a name.
    fn add(&mut self, kind: Kind, call: Option<(&str, &str)>, out: &mut BytesMut) {
        self.finish_last(true, out);
        let id = format!("{}_{}_{}", kind.prefix(), self.id, self.items);
        let mut head = BytesMut::new();
        json(&mut head, &Object((("type", kind.name()), ("id", &id))));
        head.truncate(head.len() - 1); // its `}` comes after the status and the content
        head.put_slice(kind.constant());
        if let Some((id, name)) = call {
            member("call_id", id, &mut head);
            if let Some((space, own)) = self.namespaces.get(name) {
                member("namespace", space, &mut head);
                member("name", own, &mut head);
            } else {
                member("name", name, &mut head);
            }
        }

        let mut place = BytesMut::new();
        member("item_id", &id, &mut place);
        member("output_index", &self.items, &mut place);
        if kind != Kind::Call {
            member("content_index", &0, &mut place);
        }
        let mut delta = BytesMut::new();
        begin(&format!("{}.delta", kind.events()), &mut delta);
        delta.put_slice(&place);
        delta.put_slice(b",\"sequence_number\":");
        let (text, logprobs) = (String::new(), BytesMut::new());
        let item = Item { kind, head, place, delta, text, logprobs };

        let sequence = self.next();
        begin("response.output_item.added", out);
        member("sequence_number", &sequence, out);
        member("output_index", &self.items, out);
        out.put_slice(b",\"item\":");
        item.write("in_progress", out);
        out.put_slice(b"}\n\n");
        if kind != Kind::Call {
            item.event("response.content_part.added", self.next(), out, |item, out| {
                out.put_slice(b",\"part\":");
                item.part(out);
            });
        }
        self.open = Some(item);
    }

    /// Finishes the item that is open; a call that no delta ended is incomplete.
    fn finish_last(&mut self, complete: bool, out: &mut BytesMut) {
        let is_call = self.open.as_ref().is_some_and(|open| open.kind == Kind::Call);
        self.finish(complete && !is_call, out);
    }

    /// Finishes the item that is open.
    fn finish(&mut self, complete: bool, out: &mut BytesMut) {
        let Some(item) = self.open.take() else { return };
        item.event(&format!("{}.done", item.kind.events()), self.next(), out, Item::done);
        if item.kind != Kind::Call {
            item.event("response.content_part.done", self.next(), out, |item, out| {
                out.put_slice(b",\"part\":");
                item.part(out);
            });
        }
        let sequence = self.next();
        if self.items > 0 {
            self.output.put_u8(b',');
        }
        let start = self.output.len();
        item.write(if complete { "completed" } else { "incomplete" }, &mut self.output);
        begin("response.output_item.done", out);
        member("sequence_number", &sequence, out);
        member("output_index", &self.items, out);
        out.put_slice(b",\"item\":");
        out.put_slice(&self.output[start..]);
        out.put_slice(b"}\n\n");
        self.items += 1;
    }

    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    /// An event that has the response so far.
    fn response_event(&mut self, kind: &str, out: &mut BytesMut) {
        let sequence = self.next();
        begin(kind, out);
        member("sequence_number", &sequence, out);
        out.put_slice(b",\"response\":");
        self.write_response(out);
        out.put_slice(b"}\n\n");
    }

    fn write_response(&self, out: &mut BytesMut) {
        json(out, &self.head);
        out.truncate(out.len() - 1);
        self.write_said(out);
    }

    /// What comes after the head.
    fn write_said(&self, out: &mut BytesMut) {
        let Status { word, error, details, usage } = &self.status;
        member("status", word, out);
        member("error", error, out);
        member("incomplete_details", details, out);
        out.put_slice(b",\"output\":[");
        out.put_slice(&self.output);
        out.put_u8(b']');
        let usage = usage.map(|usage| {
            let of_input = Object((("cached_tokens", usage.cached_tokens), ("cache_write_tokens", 0)));
            let of_output = Object((("reasoning_tokens", usage.reasoning_tokens),));
            Object((
                ("input_tokens", usage.prompt_tokens),
                ("input_tokens_details", of_input),
                ("output_tokens", usage.completion_tokens),
                ("output_tokens_details", of_output),
                ("total_tokens", usage.total_tokens()),
            ))
        });
        member("usage", &usage, out);
        out.put_u8(b'}');
    }
}

impl Item {
    /// The item with this status.
    fn write(&self, status: &str, out: &mut BytesMut) {
        out.put_slice(&self.head);
        member("status", status, out);
        match self.kind {
            Kind::Call => member("arguments", &self.text, out),
            _ if status == "in_progress" => out.put_slice(b",\"content\":[]"),
            _ => {
                out.put_slice(b",\"content\":[");
                self.part(out);
                out.put_u8(b']');
            }
        }
        out.put_u8(b'}');
    }

    /// The content part of an item that has one.
    fn part(&self, out: &mut BytesMut) {
        let is_message = self.kind == Kind::Message;
        json(out, &Object((("type", if is_message { "output_text" } else { "reasoning_text" }), ("text", &self.text))));
        if is_message {
            out.truncate(out.len() - 1);
            out.put_slice(b",\"annotations\":[]");
            self.logprobs(out);
            out.put_u8(b'}');
        }
    }

    fn logprobs(&self, out: &mut BytesMut) {
        out.put_slice(b",\"logprobs\":[");
        out.put_slice(&self.logprobs);
        out.put_u8(b']');
    }

    /// What an event says that ends the item's text.
    fn done(&self, out: &mut BytesMut) {
        member(if self.kind == Kind::Call { "arguments" } else { "text" }, &self.text, out);
        if self.kind == Kind::Message {
            self.logprobs(out);
        }
    }

    /// An event of the item.
    fn event(&self, kind: &str, sequence: u64, out: &mut BytesMut, more: impl FnOnce(&Item, &mut BytesMut)) {
        begin(kind, out);
        member("sequence_number", &sequence, out);
        out.put_slice(&self.place);
        more(self, out);
        out.put_slice(b"}\n\n");
    }
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Reasoning => "reasoning",
            Kind::Message => "message",
            Kind::Call => "function_call",
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Kind::Reasoning => "rs",
            Kind::Message => "msg",
            Kind::Call => "fc",
        }
    }

    /// The members that an item of this kind always has.
    const fn constant(self) -> &'static [u8] {
        match self {
            Kind::Reasoning => b",\"summary\":[]",
            Kind::Message => b",\"role\":\"assistant\"",
            Kind::Call => b"",
        }
    }

    const fn events(self) -> &'static str {
        match self {
            Kind::Reasoning => "response.reasoning_text",
            Kind::Message => "response.output_text",
            Kind::Call => "response.function_call_arguments",
        }
    }
}

/// An event up to its second member.
fn begin(kind: &str, out: &mut BytesMut) {
    for part in ["event: ", kind, "\ndata: {\"type\":\"", kind, "\""] {
        out.put_slice(part.as_bytes());
    }
}

/// A member after others.
fn member(key: &str, value: &(impl Serialize + ?Sized), out: &mut BytesMut) {
    for part in [",\"", key, "\":"] {
        out.put_slice(part.as_bytes());
    }
    json(out, value);
}
