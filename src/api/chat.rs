//! The Chat Completions layer: events in; deltas, the assembled message and server-sent frames out.
//!
//! [`Chat`] holds the deltas of one push, in one reused buffer, until they are taken, and the [`Message`] unless told
//! not to. [`Frames`] and [`Choice`] hold the head of a frame, and how far the choice has come. A key that has
//! nothing to say is absent, never null; a delta carries reasoning, content or a call, never two of them.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use std::{fmt, process};

use bytes::{BufMut, Bytes, BytesMut};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use crate::event::{Event, Sink, Span};

/// How a call gets its id. The wire carries none; an id is minted once, when the call opens.
///
/// Ids that repeat in a conversation have frozen agents. The default, [`IdPolicy::random`], never repeats.
#[derive(Default)]
pub struct IdPolicy(Policy);

#[derive(Default)]
enum Policy {
    #[default]
    Random,
    Numbered(usize),
    With(Box<Mint>),
}

type Mint = dyn FnMut(&str, usize) -> String + Send + Sync;

impl IdPolicy {
    /// `call_` and 24 random letters and digits.
    pub fn random() -> Self {
        Self::default()
    }

    /// `{name}_{index}`, the index counted over the conversation: `start` is the number of calls made in it so far.
    pub fn numbered(start: usize) -> Self {
        IdPolicy(Policy::Numbered(start))
    }

    /// What `mint` gives for the tool's name and the call's ordinal in this message.
    pub fn with(mint: impl FnMut(&str, usize) -> String + Send + Sync + 'static) -> Self {
        IdPolicy(Policy::With(Box::new(mint)))
    }

    fn mint(&mut self, name: &str, call: usize) -> String {
        match &mut self.0 {
            Policy::Random => random_id(),
            Policy::Numbered(start) => format!("{name}_{}", *start + call),
            Policy::With(mint) => mint(name, call),
        }
    }
}

impl fmt::Debug for IdPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Policy::Random => f.write_str("IdPolicy::random()"),
            Policy::Numbered(start) => write!(f, "IdPolicy::numbered({start})"),
            Policy::With(_) => f.write_str("IdPolicy::with(..)"),
        }
    }
}

/// 142 bits of SipHash under the thread's keys, which came from the system. A forked process has the keys of its
/// parent, so what tells the two apart is hashed.
fn random_id() -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    static MINTED: AtomicU64 = AtomicU64::new(0);
    let minted = MINTED.fetch_add(1, Ordering::Relaxed);
    let seed = (process::id(), SystemTime::now(), minted);
    let keys = RandomState::new();
    let mut id = String::from("call_");
    for word in 0..3u8 {
        let mut bits = keys.hash_one((seed, word));
        for _ in 0..8 {
            id.push(char::from(ALPHABET[(bits % 62) as usize]));
            bits /= 62;
        }
    }
    id
}

/// What one frame adds to the message. Serializes as the `delta` of a Chat Completions choice.
///
/// ```
/// use kimi_xtml::Delta;
///
/// let delta = Delta::CallStart { index: 0, id: "call_1", name: "get_weather" };
/// assert_eq!(
///     serde_json::to_string(&delta)?,
///     r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"get_weather","arguments":""}}]}"#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delta<'a> {
    /// More of the reasoning. Never empty.
    Reasoning(&'a str),
    /// More of the answer. Never empty.
    Content(&'a str),
    /// A call opens.
    CallStart {
        /// The call's ordinal in the message, from 0 on.
        index: usize,
        /// The id that was minted for it.
        id: &'a str,
        /// The tool's name, whole.
        name: &'a str,
    },
    /// More of a call's arguments. Never empty.
    Arguments {
        /// The call's ordinal.
        index: usize,
        /// JSON, continuing what was given before.
        json: &'a str,
    },
}

impl Serialize for Delta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Increment(*self, None).serialize(serializer)
    }
}

/// A delta and the tokens that made it.
struct Increment<'a>(Delta<'a>, Option<&'a [u32]>);

impl Serialize for Increment<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ids = self.1.map(|ids| ("internal_content", Object((("token_ids", ids),))));
        match self.0 {
            Delta::Reasoning(text) => Object((("reasoning_content", text), ids)).serialize(serializer),
            Delta::Content(text) => Object((("content", text), ids)).serialize(serializer),
            Delta::CallStart { index, id, name } => {
                let function = Object((("name", name), ("arguments", "")));
                let call = (("index", index), ("id", id), ("type", "function"), ("function", function));
                Object((("tool_calls", [Object(call)]), ids)).serialize(serializer)
            }
            Delta::Arguments { index, json } => {
                let call = (("index", index), ("function", Object((("arguments", json),))));
                Object((("tool_calls", [Object(call)]), ids)).serialize(serializer)
            }
        }
    }
}

/// An assembled message. Serializes as the `message` of a Chat Completions choice: `reasoning_content` and
/// `tool_calls` are absent when there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The reasoning; empty if there was none.
    pub reasoning: String,
    /// The answer; empty if there was none.
    pub content: String,
    /// The calls, in order, incomplete ones too.
    pub tool_calls: Vec<ToolCall>,
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let reasoning = (!self.reasoning.is_empty()).then_some(("reasoning_content", &self.reasoning));
        let calls = (!self.tool_calls.is_empty()).then_some(("tool_calls", &self.tool_calls));
        Object((("role", "assistant"), ("content", &self.content), reasoning, calls)).serialize(serializer)
    }
}

/// A call of an assembled message. Serializes with `"complete": false` if it is not complete, else without that key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The id that was minted for it.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, JSON as text; of a call that is not complete an unterminated prefix.
    pub arguments: String,
    /// Whether the call is whole. One that is not must not be run.
    pub complete: bool,
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let function = Object((("name", &self.name), ("arguments", &self.arguments)));
        let complete = (!self.complete).then_some(("complete", false));
        Object((("id", &self.id), ("type", "function"), ("function", function), complete)).serialize(serializer)
    }
}

/// Events in, deltas and the message out.
///
/// Push, take the deltas, [`clear`](Chat::clear); [`Choice::write`] does the last two. Pieces of one text that
/// came in one push are one delta.
///
/// ```
/// use kimi_xtml::{Channel, Chat, Delta, IdPolicy, Parser, Request};
///
/// let mut parser = Parser::new(Request::new().opened(Channel::Think).tools(["get_weather"]));
/// let mut chat = Chat::new(IdPolicy::numbered(0));
/// parser.push("Look it up.<|close|>think<|sep|><|open|>tools<|sep|>", &mut chat)?;
/// assert_eq!(chat.deltas().collect::<Vec<_>>(), [Delta::Reasoning("Look it up.")]);
/// chat.clear();
///
/// parser.push(r#"<|open|>call tool="get_weather" index="1"<|sep|>"#, &mut chat)?;
/// parser.push(r#"<|open|>argument key="city" type="string"<|sep|>Par"#, &mut chat)?;
/// assert_eq!(
///     chat.deltas().collect::<Vec<_>>(),
///     [
///         Delta::CallStart { index: 0, id: "get_weather_0", name: "get_weather" },
///         Delta::Arguments { index: 0, json: r#"{"city":"Par"# },
///     ]
/// );
/// # Ok::<(), kimi_xtml::StateError>(())
/// ```
#[derive(Debug)]
pub struct Chat {
    ids: IdPolicy,
    message: Option<Message>,
    /// The texts of `parts`, one behind the other.
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    kind: PartKind,
    /// Where the part's text ends; it begins where the part before ends.
    end: usize,
    span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartKind {
    Reasoning,
    Content,
    /// The text is the id, `id` bytes of it, and the name.
    CallStart {
        index: usize,
        id: usize,
    },
    Arguments {
        index: usize,
    },
}

impl Default for Chat {
    fn default() -> Self {
        Chat::new(IdPolicy::default())
    }
}

impl Chat {
    /// Nothing taken yet; the message is assembled.
    pub fn new(ids: IdPolicy) -> Self {
        Chat { ids, message: Some(Message::default()), text: String::new(), parts: Vec::new() }
    }

    /// Without the message: memory then does not grow with the stream.
    #[must_use]
    pub fn without_message(mut self) -> Self {
        self.message = None;
        self
    }

    /// The deltas since the last [`clear`](Chat::clear).
    pub fn deltas(&self) -> impl Iterator<Item = Delta<'_>> {
        self.deltas_with_spans().map(|(delta, _)| delta)
    }

    /// The deltas, each with the span of the input that it came from, markup within it included.
    pub fn deltas_with_spans(&self) -> impl Iterator<Item = (Delta<'_>, &Span)> {
        let mut start = 0;
        self.parts.iter().map(move |part| {
            let text = &self.text[start..part.end];
            start = part.end;
            let delta = match part.kind {
                PartKind::Reasoning => Delta::Reasoning(text),
                PartKind::Content => Delta::Content(text),
                PartKind::CallStart { index, id } => Delta::CallStart { index, id: &text[..id], name: &text[id..] },
                PartKind::Arguments { index } => Delta::Arguments { index, json: text },
            };
            (delta, &part.span)
        })
    }

    /// Forgets the deltas; keeps the message and the allocations.
    pub fn clear(&mut self) {
        self.text.clear();
        self.parts.clear();
    }

    /// The message so far, if it is assembled. It is final after the parser's finish.
    pub fn message(&self) -> Option<&Message> {
        self.message.as_ref()
    }

    /// The message, if it was assembled.
    pub fn into_message(self) -> Option<Message> {
        self.message
    }

    fn part(&mut self, kind: PartKind, text: &str, span: Span) {
        self.text.push_str(text);
        let end = self.text.len();
        match self.parts.last_mut() {
            Some(last) if last.kind == kind => {
                last.end = end;
                last.span.extend(&span);
            }
            _ => self.parts.push(Part { kind, end, span }),
        }
    }
}

impl Sink for Chat {
    fn event(&mut self, event: Event<'_>, span: Span) {
        match event {
            Event::Reasoning(text) => {
                self.part(PartKind::Reasoning, text, span);
                if let Some(message) = &mut self.message {
                    message.reasoning.push_str(text);
                }
            }
            Event::Content(text) => {
                self.part(PartKind::Content, text, span);
                if let Some(message) = &mut self.message {
                    message.content.push_str(text);
                }
            }
            Event::CallStart { call, name } => {
                let id = self.ids.mint(name, call);
                self.text.push_str(&id);
                self.part(PartKind::CallStart { index: call, id: id.len() }, name, span);
                if let Some(message) = &mut self.message {
                    message.tool_calls.push(ToolCall { id, name: name.into(), ..ToolCall::default() });
                }
            }
            _ => {
                let Some((call, json)) = event.json() else {
                    return;
                };
                if !json.is_empty() {
                    self.part(PartKind::Arguments { index: call }, json, span);
                }
                let message = self.message.as_mut();
                if let Some(tool_call) = message.and_then(|message| message.tool_calls.get_mut(call)) {
                    tool_call.arguments.push_str(json);
                    tool_call.complete = matches!(event, Event::CallEnd { complete: true, .. });
                }
            }
        }
    }
}

/// The tokens that a request cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens that were generated.
    pub completion_tokens: u64,
    /// Those of them that were reasoning.
    pub reasoning_tokens: u64,
    /// Tokens of the prompt that came from a cache.
    pub cached_tokens: u64,
}

impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Object((
            ("prompt_tokens", self.prompt_tokens),
            ("completion_tokens", self.completion_tokens),
            ("total_tokens", self.prompt_tokens + self.completion_tokens),
            ("completion_tokens_details", Object((("reasoning_tokens", self.reasoning_tokens),))),
            ("prompt_tokens_details", Object((("cached_tokens", self.cached_tokens),))),
        ))
        .serialize(serializer)
    }
}

/// The server-sent frames of one request: `data: {json}` and a blank line each, written behind what the buffer has.
///
/// Call order: [`choice`](Frames::choice) for each choice and its frames until [`Choice::end`];
/// [`usage`](Frames::usage) if the request asked for it; [`done`](Frames::done).
///
/// ```
/// use bytes::BytesMut;
/// use kimi_xtml::{Channel, Chat, Frames, Parser, Request, Usage};
///
/// let mut parser = Parser::new(Request::new().opened(Channel::Response));
/// let mut chat = Chat::default().without_message();
/// let frames = Frames::new("chatcmpl-1", 1_700_000_000, "kimi-k3");
/// let mut choice = frames.choice(0);
/// let mut out = BytesMut::new();
/// for chunk in ["Hel", "lo<|close|>respo", "nse<|sep|><|close|>message<|sep|><|end_of_msg|>"] {
///     parser.push(chunk, &mut chat)?;
///     choice.write(&mut chat, &mut out);
///     // Send what is in `out`: out.split().freeze()
/// }
/// let reason = parser.finish("stop", &mut chat)?;
/// choice.write(&mut chat, &mut out);
/// choice.end(reason, Some(&Usage::default()), &mut out);
/// frames.done(&mut out);
/// assert!(out.ends_with(b"data: [DONE]\n\n"));
/// # Ok::<(), kimi_xtml::StateError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Frames {
    /// A frame up to its choices: the same bytes in every frame.
    head: Bytes,
}

impl Frames {
    /// Frames of the completion `id`, created at this Unix time (seconds), by this model.
    pub fn new(id: &str, created: u64, model: &str) -> Self {
        let mut head = BytesMut::new();
        head.put_slice(b"data: ");
        let members = (("id", id), ("object", "chat.completion.chunk"), ("created", created), ("model", model));
        json(&mut head, &Object(members));
        head.truncate(head.len() - 1); // its `}` comes behind the choices
        head.put_slice(b",\"choices\":[");
        Frames { head: head.freeze() }
    }

    /// The frames of the choice with this index. Frames of several choices may interleave.
    pub fn choice(&self, index: usize) -> Choice {
        let head = [&self.head[..], format!("{{\"index\":{index},\"delta\":").as_bytes()].concat().into();
        Choice { head, phase: Phase::New, usage: None }
    }

    /// The frame that `stream_options.include_usage` asks for, with the usage of the request and no choices.
    pub fn usage(&self, usage: &Usage, out: &mut BytesMut) {
        out.put_slice(&self.head);
        Self::tail(Some(usage), out);
    }

    /// `[DONE]`, which ends a stream that met no error.
    pub fn done(&self, out: &mut BytesMut) {
        out.put_slice(b"data: [DONE]\n\n");
    }

    fn tail(usage: Option<&Usage>, out: &mut BytesMut) {
        out.put_slice(b"]");
        if let Some(usage) = usage {
            out.put_slice(b",\"usage\":");
            json(out, usage);
        }
        out.put_slice(b"}\n\n");
    }
}

/// The frames of one choice.
///
/// The first frame carries the role, and goes out by itself before any other. Once reasoning has gone out, one frame
/// with an empty `reasoning_content` stands before the next content, call or end. (Reasoning that comes after that,
/// from a second think channel, goes out without another.)
#[derive(Debug)]
pub struct Choice {
    /// A frame up to its delta: the same bytes in every frame.
    head: Bytes,
    phase: Phase,
    usage: Option<Usage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing has gone out.
    New,
    /// The role has.
    Started,
    /// Reasoning has, and its end has not.
    Reasoning,
    /// The end of reasoning has.
    Reasoned,
}

/// What a frame carries beside its delta, where the request asks for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras<'a> {
    /// The tokens that made the delta, for `internal_content.token_ids`: see [`Chat::deltas_with_spans`].
    pub token_ids: Option<&'a [u32]>,
    /// The choice's `logprobs` object, as JSON: for content, the tokens of just its text.
    pub logprobs: Option<&'a RawValue>,
}

impl Choice {
    /// From now on every frame carries this usage (`stream_options.continuous_usage_stats`).
    pub fn set_usage(&mut self, usage: Option<Usage>) {
        self.usage = usage;
    }

    /// The first frame, unless it has gone out.
    pub fn start(&mut self, out: &mut BytesMut) {
        if self.phase == Phase::New {
            self.phase = Phase::Started;
            let delta = Object((("role", "assistant"), ("content", "")));
            self.frame(delta, None, None, None, out);
        }
    }

    /// A frame for each delta that `chat` has; clears `chat`.
    pub fn write(&mut self, chat: &mut Chat, out: &mut BytesMut) {
        for delta in chat.deltas() {
            self.delta(delta, Extras::default(), out);
        }
        chat.clear();
    }

    /// The frame of one delta.
    pub fn delta(&mut self, delta: Delta<'_>, extras: Extras<'_>, out: &mut BytesMut) {
        self.start(out);
        match (delta, self.phase) {
            (Delta::Reasoning(_), Phase::Reasoned) => {}
            (Delta::Reasoning(_), _) => self.phase = Phase::Reasoning,
            _ => self.end_reasoning(out),
        }
        self.frame(Increment(delta, extras.token_ids), extras.logprobs, None, None, out);
    }

    /// The end frame: the finish reason, and the usage inside the choice.
    pub fn end(mut self, reason: &str, usage: Option<&Usage>, out: &mut BytesMut) {
        self.start(out);
        self.end_reasoning(out);
        self.frame(Object(()), None, Some(reason), usage, out);
    }

    fn end_reasoning(&mut self, out: &mut BytesMut) {
        if self.phase == Phase::Reasoning {
            self.phase = Phase::Reasoned;
            self.frame(Delta::Reasoning(""), None, None, None, out);
        }
    }

    fn frame(
        &self,
        delta: impl Serialize,
        logprobs: Option<&RawValue>,
        reason: Option<&str>,
        usage: Option<&Usage>,
        out: &mut BytesMut,
    ) {
        out.put_slice(&self.head);
        json(out, &delta);
        if let Some(logprobs) = logprobs {
            out.put_slice(b",\"logprobs\":");
            out.put_slice(logprobs.get().as_bytes());
        }
        out.put_slice(b",\"finish_reason\":");
        json(out, &reason);
        if let Some(usage) = usage {
            out.put_slice(b",\"usage\":");
            json(out, usage);
        }
        out.put_slice(b"}");
        Frames::tail(self.usage.as_ref(), out);
    }
}

pub(crate) fn json(out: &mut BytesMut, value: &impl Serialize) {
    serde_json::to_writer(out.writer(), value).expect("keys are strings, and memory takes what is written");
}

/// A JSON object: a tuple of (key, value) pairs, in this order. A pair that is `None` is absent.
pub(crate) struct Object<T>(pub(crate) T);

pub(crate) trait Member {
    fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

impl<V: Serialize> Member for (&'static str, V) {
    fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(self.0, &self.1)
    }
}

impl<T: Member> Member for Option<T> {
    fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.as_ref().map_or(Ok(()), |member| member.put(map))
    }
}

macro_rules! object {
    ($($member:ident)*) => {
        impl<$($member: Member),*> Serialize for Object<($($member,)*)> {
            #[allow(non_snake_case, unused_mut)]
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let Object(($($member,)*)) = self;
                let mut map = serializer.serialize_map(None)?;
                $($member.put(&mut map)?;)*
                map.end()
            }
        }
    };
}

object!();
object!(A);
object!(A B);
object!(A B C);
object!(A B C D);
object!(A B C D E);
object!(A B C D E F G H);
