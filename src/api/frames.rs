//! Chat Completions frames: deltas in, server-sent events out.
//!
//! [`Frames`] holds the head that all frames of a response share, [`Choice`] that of a choice, and how far it has come. A
//! key that has nothing to say is absent, never null; a frame carries reasoning, content or a call, never two of them.

use bytes::{BufMut, Bytes, BytesMut};
use serde::ser::Serialize;

use crate::api::chat::Chat;
use crate::api::delta::{Delta, Increment};
use crate::api::logprob::{Logprob, Logprobs};
use crate::api::sse::json;
use crate::api::usage::Usage;
use crate::object::Object;

/// The server-sent frames of one request: `data: {json}` and a blank line each, written after what the buffer has.
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
///     parser.push(chunk, &mut chat);
///     choice.write(&mut chat, &mut out);
///     // Send what is in `out`: out.split().freeze()
/// }
/// let reason = parser.finish("stop", &mut chat);
/// choice.write(&mut chat, &mut out);
/// choice.end(reason, Some(&Usage::default()), &mut out);
/// frames.done(&mut out);
/// assert!(out.ends_with(b"data: [DONE]\n\n"));
/// ```
#[derive(Clone, Debug)]
pub struct Frames {
    /// A frame up to its choices: the same bytes in every frame.
    head: Bytes,
}

impl Frames {
    /// Frames of the completion `id`, created at this Unix time (seconds), by this model.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use kimi_xtml::{Frames, Usage};
    ///
    /// let mut out = BytesMut::new();
    /// Frames::new("chatcmpl-1", 1_790_000_000, "kimi-k3").usage(&Usage::default(), &mut out);
    /// let head = r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"kimi-k3","#;
    /// assert!(out.starts_with(head.as_bytes()));
    /// ```
    pub fn new(id: &str, created: u64, model: &str) -> Self {
        let mut head = BytesMut::new();
        head.put_slice(b"data: ");
        let members = (("id", id), ("object", "chat.completion.chunk"), ("created", created), ("model", model));
        json(&mut head, &Object(members));
        head.truncate(head.len() - 1); // its `}` comes after the choices
        head.put_slice(b",\"choices\":[");
        Frames { head: head.freeze() }
    }

    /// The frames of the choice with this index. Frames of several choices may interleave.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use kimi_xtml::Frames;
    ///
    /// let frames = Frames::new("chatcmpl-1", 1_790_000_000, "kimi-k3");
    /// let mut out = BytesMut::new();
    /// [0, 1].map(|index| frames.choice(index).start(&mut out));
    /// assert!(String::from_utf8_lossy(&out).contains(r#""choices":[{"index":1,"delta":{"role":"assistant","content":""}"#));
    /// ```
    pub fn choice(&self, index: usize) -> Choice {
        let head = [&self.head[..], format!("{{\"index\":{index},\"delta\":").as_bytes()].concat().into();
        Choice { head, phase: Phase::New, usage: None }
    }

    /// The frame that `stream_options.include_usage` asks for, with the usage of the request and no choices.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use kimi_xtml::{Frames, Usage};
    ///
    /// let mut out = BytesMut::new();
    /// Frames::new("chatcmpl-1", 1_790_000_000, "kimi-k3").usage(&Usage::new(10, 5), &mut out);
    /// assert!(String::from_utf8_lossy(&out).contains(r#""choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"#));
    /// ```
    pub fn usage(&self, usage: &Usage, out: &mut BytesMut) {
        out.put_slice(&self.head);
        Self::tail(Some(usage), out);
    }

    /// `[DONE]`, which ends a stream that met no error.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use kimi_xtml::Frames;
    ///
    /// let mut out = BytesMut::new();
    /// Frames::new("chatcmpl-1", 1_790_000_000, "kimi-k3").done(&mut out);
    /// assert_eq!(out, "data: [DONE]\n\n");
    /// ```
    pub fn done(&self, out: &mut BytesMut) {
        out.put_slice(b"data: [DONE]\n\n");
    }

    /// The frame that ends a stream that met an error, in place of [`done`](Frames::done): an OpenAI client raises it. `kind`
    /// and `code` are words that programs may test for, such as `server_error` and `engine_failed`.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use kimi_xtml::Frames;
    ///
    /// let mut out = BytesMut::new();
    /// Frames::new("chatcmpl-1", 0, "kimi-k3").error("server_error", None, "the engine is gone", &mut out);
    /// let error = r#"{"error":{"message":"the engine is gone","type":"server_error","code":null,"param":null}}"#;
    /// assert_eq!(out, format!("data: {error}\n\n"));
    /// ```
    pub fn error(&self, kind: &str, code: Option<&str>, message: &str, out: &mut BytesMut) {
        out.put_slice(b"data: ");
        json(out, &error(kind, code, message));
        out.put_slice(b"\n\n");
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

/// An error as OpenAI's APIs write it.
pub(crate) fn error(kind: &str, code: Option<&str>, message: &str) -> impl Serialize {
    let param: Option<()> = None;
    Object((("error", Object((("message", message), ("type", kind), ("code", code), ("param", param)))),))
}

/// The frames of one choice.
///
/// The first frame carries the role, and goes out by itself before any other. Once reasoning has gone out, one frame
/// with an empty `reasoning_content` stands before the next content, call or end. (Reasoning that comes after that,
/// from a second think channel, goes out without another.)
///
/// ```
/// use bytes::BytesMut;
/// use kimi_xtml::{Delta, Extras, Frames};
///
/// let mut choice = Frames::new("chatcmpl-1", 1_790_000_000, "kimi-k3").choice(0);
/// let mut out = BytesMut::new();
/// choice.delta(Delta::Reasoning("Hm."), Extras::new(), &mut out);
/// choice.delta(Delta::Content("Hi"), Extras::new(), &mut out);
/// choice.end("stop", None, &mut out);
/// // The role, the reasoning, its end, the answer, the end.
/// assert_eq!(String::from_utf8_lossy(&out).matches("data: ").count(), 5);
/// ```
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
    /// The end frame has.
    Ended,
}

/// What a frame carries beside its delta, where the request asks for it.
///
/// ```
/// use kimi_xtml::{Extras, Logprob};
///
/// let logprobs = [Some(Logprob::new("Hi", -0.1))];
/// let extras = Extras::new().with_token_ids(&[18_699]).with_logprobs(&logprobs);
/// assert_eq!(extras.token_ids, Some(&[18_699][..]));
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Extras<'a> {
    /// The tokens that made the delta, for `internal_content.token_ids`.
    pub token_ids: Option<&'a [u32]>,
    /// The log-probabilities of the tokens that made the delta; none for a token whose own is not known. They go out with
    /// content only, and not if there are none.
    pub logprobs: Option<&'a [Option<Logprob>]>,
}

impl<'a> Extras<'a> {
    /// Nothing.
    ///
    /// ```
    /// use kimi_xtml::Extras;
    ///
    /// assert_eq!(Extras::new().token_ids, None);
    /// ```
    pub const fn new() -> Self {
        Extras { token_ids: None, logprobs: None }
    }

    /// With the tokens that made the delta.
    ///
    /// ```
    /// use kimi_xtml::{Delta, Extras, Frames};
    ///
    /// let mut out = bytes::BytesMut::new();
    /// let mut choice = Frames::new("chatcmpl-1", 0, "kimi-k3").choice(0);
    /// choice.delta(Delta::Content("Hi"), Extras::new().with_token_ids(&[19_180]), &mut out);
    /// assert!(String::from_utf8_lossy(&out).contains(r#""internal_content":{"token_ids":[19180]}"#));
    /// ```
    #[must_use]
    pub const fn with_token_ids(mut self, ids: &'a [u32]) -> Self {
        self.token_ids = Some(ids);
        self
    }

    /// With the log-probabilities of the tokens that made the delta.
    ///
    /// ```
    /// use kimi_xtml::{Delta, Extras, Frames, Logprob};
    ///
    /// let mut out = bytes::BytesMut::new();
    /// let mut choice = Frames::new("chatcmpl-1", 0, "kimi-k3").choice(0);
    /// let logprobs = [Some(Logprob::new("Hi", -0.5))];
    /// choice.delta(Delta::Content("Hi"), Extras::new().with_logprobs(&logprobs), &mut out);
    /// assert!(String::from_utf8_lossy(&out).contains(r#""logprobs":{"content":[{"token":"Hi","logprob":-0.5,"#));
    /// ```
    #[must_use]
    pub const fn with_logprobs(mut self, logprobs: &'a [Option<Logprob>]) -> Self {
        self.logprobs = Some(logprobs);
        self
    }

    /// The log-probabilities that go out with a delta.
    pub(crate) fn logprobs_of(&self, delta: Delta<'_>) -> Option<Logprobs<'a>> {
        let known = self.logprobs.filter(|known| known.iter().any(Option::is_some));
        known.filter(|_| matches!(delta, Delta::Content(_))).map(Logprobs)
    }
}

impl Choice {
    /// From now on every frame carries this usage (`stream_options.continuous_usage_stats`).
    ///
    /// ```
    /// use kimi_xtml::{Frames, Usage};
    ///
    /// let mut out = bytes::BytesMut::new();
    /// let mut choice = Frames::new("chatcmpl-1", 0, "kimi-k3").choice(0);
    /// choice.set_usage(Some(Usage::new(10, 0)));
    /// choice.start(&mut out);
    /// assert!(String::from_utf8_lossy(&out).contains(r#"}],"usage":{"prompt_tokens":10,"#));
    /// ```
    pub fn set_usage(&mut self, usage: Option<Usage>) {
        self.usage = usage;
    }

    /// The first frame, unless it has gone out.
    ///
    /// ```
    /// use kimi_xtml::Frames;
    ///
    /// let mut out = bytes::BytesMut::new();
    /// let mut choice = Frames::new("chatcmpl-1", 0, "kimi-k3").choice(0);
    /// choice.start(&mut out);
    /// choice.start(&mut out);
    /// assert_eq!(String::from_utf8_lossy(&out).matches(r#""role":"assistant""#).count(), 1);
    /// ```
    pub fn start(&mut self, out: &mut BytesMut) {
        if self.phase == Phase::New {
            self.phase = Phase::Started;
            let delta = Object((("role", "assistant"), ("content", "")));
            self.frame(delta, None, None, None, out);
        }
    }

    /// A frame for each delta that `chat` has; clears `chat`.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Frames, Parser, Request};
    ///
    /// let mut out = bytes::BytesMut::new();
    /// let mut choice = Frames::new("chatcmpl-1", 0, "kimi-k3").choice(0);
    /// let (mut parser, mut chat) = (Parser::new(Request::new()), Chat::default());
    /// parser.push("Hi", &mut chat);
    /// choice.write(&mut chat, &mut out);
    /// assert!(String::from_utf8_lossy(&out).contains(r#""delta":{"content":"Hi"}"#));
    /// assert_eq!(chat.deltas().count(), 0);
    /// ```
    pub fn write(&mut self, chat: &mut Chat, out: &mut BytesMut) {
        for delta in chat.deltas() {
            self.delta(delta, Extras::default(), out);
        }
        chat.clear();
    }

    /// The frame of one delta. The end of a call makes none, and nothing does after the end.
    ///
    /// ```
    /// use kimi_xtml::{Delta, Extras, Frames};
    ///
    /// let mut out = bytes::BytesMut::new();
    /// let mut choice = Frames::new("chatcmpl-1", 0, "kimi-k3").choice(0);
    /// choice.start(&mut out);
    /// out.clear();
    /// choice.delta(Delta::CallEnd { index: 0, complete: true }, Extras::new(), &mut out);
    /// assert!(out.is_empty());
    /// choice.delta(Delta::Content("Hi"), Extras::new(), &mut out);
    /// assert!(String::from_utf8_lossy(&out).contains(r#""delta":{"content":"Hi"}"#));
    /// ```
    pub fn delta(&mut self, delta: Delta<'_>, extras: Extras<'_>, out: &mut BytesMut) {
        self.start(out);
        match (delta, self.phase) {
            (Delta::CallEnd { .. }, _) | (_, Phase::Ended) => return,
            (Delta::Reasoning(_), Phase::Reasoned) => {}
            (Delta::Reasoning(_), _) => self.phase = Phase::Reasoning,
            _ => self.end_reasoning(out),
        }
        // The empty one goes out as the end of the reasoning.
        if delta != Delta::Reasoning("") {
            self.frame(Increment(delta, extras.token_ids), extras.logprobs_of(delta), None, None, out);
        }
    }

    /// The end frame: the finish reason, and the usage inside the choice. Nothing follows it, not even a second one.
    ///
    /// ```
    /// use kimi_xtml::{Frames, Usage};
    ///
    /// let mut out = bytes::BytesMut::new();
    /// let mut choice = Frames::new("chatcmpl-1", 0, "kimi-k3").choice(0);
    /// choice.end("stop", Some(&Usage::new(10, 5)), &mut out);
    /// assert!(String::from_utf8_lossy(&out).contains(r#""delta":{},"finish_reason":"stop","usage":{"prompt_tokens":10,"#));
    /// ```
    pub fn end(&mut self, reason: &str, usage: Option<&Usage>, out: &mut BytesMut) {
        if self.phase == Phase::Ended {
            return;
        }
        self.start(out);
        self.end_reasoning(out);
        self.phase = Phase::Ended;
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
        logprobs: Option<Logprobs<'_>>,
        reason: Option<&str>,
        usage: Option<&Usage>,
        out: &mut BytesMut,
    ) {
        out.put_slice(&self.head);
        json(out, &delta);
        if let Some(logprobs) = logprobs {
            out.put_slice(b",\"logprobs\":");
            json(out, &Object((("content", logprobs),)));
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
