//! The common case whole: one choice of a Chat Completions request, from its body to the last byte for the client.
//!
//! In: a request; then what the engine generates, and why it ended. Out: server-sent frames as they can go out, or the one
//! body of a request that wants no stream. Held: the parser, and the layers over it, each of which can be had by itself:
//! [`Parser`], [`Stop`], [`Chat`], [`Frames`].

use std::time::SystemTime;

use bytes::{Bytes, BytesMut};

use crate::api::body::{Body, BodyError};
use crate::api::chat::Chat;
use crate::api::frames::{Choice, Frames, error};
use crate::api::ids::{IdPolicy, random_id};
use crate::api::sse::json;
use crate::api::stop::Stop;
use crate::api::usage::Usage;
use crate::event::Channel;
use crate::finish::FinishReason;
use crate::marker::Marker;
use crate::message::Message;
use crate::object::Object;
use crate::parse::Parser;
use crate::report::Report;
use crate::request::Request;

/// One choice of a Chat Completions request: request in, what the engine generates in, bytes for the client out.
///
/// Call order: [`from_json`](ChatStream::from_json) or [`new`](ChatStream::new), a push for each step of the engine, and
/// [`end`](ChatStream::end) once, however the engine ended. Each gives the bytes that can go out, often none. A request that
/// wants no stream gets them all from the last call.
///
/// ```
/// use kimi_xtml::ChatStream;
///
/// let body = r#"{"model": "kimi-k3", "messages": [{"role": "user", "content": "Hi"}], "stream": true, "stop": "END"}"#;
/// let mut stream = ChatStream::from_json(body)?;
/// let mut sent = Vec::new();
/// for (text, ids) in [("Hm", [39_964]), ("<|close|>", [163_588]), ("think", [39_964]), ("<|sep|>", [163_589])] {
///     sent.extend(stream.push_with_ids(text, &ids));
/// }
/// sent.extend(stream.push("<|open|>response<|sep|>Hello. END"));
/// assert!(stream.is_ended()); // by the stop string: the engine need not go on
/// sent.extend(stream.end("stop")); // nothing more
/// assert!(sent.ends_with(b"data: [DONE]\n\n"));
/// assert_eq!(stream.message().unwrap().content, "Hello. ");
/// # Ok::<(), kimi_xtml::BodyError>(())
/// ```
#[derive(Debug)]
pub struct ChatStream {
    parser: Parser,
    sink: Stop<Chat>,
    head: Head,
    writer: Option<(Frames, Choice)>,
    streams: bool,
    includes_usage: bool,
    prompt: Usage,
    end: Option<End>,
    out: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished(FinishReason),
    /// The engine broke off.
    Failed,
}

/// What all frames of a response say.
#[derive(Debug)]
struct Head {
    id: String,
    created: u64,
    model: String,
}

impl ChatStream {
    /// A stream of frames for this request. Call ids and the response's id are random, the model is `kimi-k3`.
    ///
    /// ```
    /// use kimi_xtml::{Channel, ChatStream, Request};
    ///
    /// let request = Request::new().opened(Channel::Think).tools(["ls"]);
    /// let mut stream = ChatStream::new(request).with_head("chatcmpl-1", 1_790_000_000, "my-model");
    /// let frames = stream.push("Hm.");
    /// assert!(frames.starts_with(b"data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,"));
    /// ```
    pub fn new(request: Request) -> Self {
        let created = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        ChatStream {
            parser: Parser::new(request),
            sink: Stop::new(Chat::default(), [""; 0]),
            head: Head { id: random_id("chatcmpl-"), created, model: "kimi-k3".into() },
            writer: None,
            streams: true,
            includes_usage: false,
            prompt: Usage::default(),
            end: None,
            out: BytesMut::new(),
        }
    }

    /// A stream for the body of a Chat Completions request: its `model`, `tools`, `tool_choice`, `stop`, `stream`,
    /// `stream_options.include_usage`, and whether it asks for thinking, from which follows what the prompt leaves open. Where the
    /// prompt leaves open something else, such as in Partial Mode, [`opened`](ChatStream::opened) says so.
    ///
    /// ```
    /// use kimi_xtml::ChatStream;
    ///
    /// let body = r#"{"model": "kimi-k3", "messages": [], "thinking": {"type": "disabled"}}"#;
    /// let mut stream = ChatStream::from_json(body)?;
    /// assert!(stream.push("Hello.").is_empty()); // no stream was asked for
    /// let body = stream.end("stop");
    /// assert!(body.starts_with(b"{\"id\":\"chatcmpl-"));
    /// assert_eq!(stream.message().unwrap().content, "Hello.");
    /// # Ok::<(), kimi_xtml::BodyError>(())
    /// ```
    ///
    /// # Errors
    /// If the body is no JSON object, or one of these members has no meaning: the error names it.
    pub fn from_json(body: &str) -> Result<Self, BodyError> {
        let Body { request, model, stops, streams, includes_usage } = Body::read(body)?;
        let mut stream = ChatStream::new(request).with_stop(stops);
        (stream.streams, stream.includes_usage) = (streams, includes_usage);
        if let Some(model) = model {
            stream.head.model = model;
        }
        Ok(stream)
    }

    /// Says what the prompt left open, if it is not what the request's body lets expect.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, opened_by_prompt};
    ///
    /// let prompt = "<|open|>message role=\"assistant\"<|sep|><|open|>response<|sep|>Once upon";
    /// let mut stream = ChatStream::from_json("{}")?.opened(opened_by_prompt(prompt));
    /// stream.push(" a time");
    /// assert_eq!(stream.message().unwrap().content, " a time");
    /// # Ok::<(), kimi_xtml::BodyError>(())
    /// ```
    #[must_use]
    pub fn opened(mut self, channel: impl Into<Option<Channel>>) -> Self {
        let request = self.parser.request().clone().opened(channel);
        self.parser.reset(request);
        self
    }

    /// With this id of the response, this Unix time (seconds), and this model's name.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new()).with_head("chatcmpl-1", 1_790_000_000, "kimi-k3");
    /// assert!(stream.push("Hi").starts_with(br#"data: {"id":"chatcmpl-1","#));
    /// ```
    #[must_use]
    pub fn with_head(mut self, id: impl Into<String>, created: u64, model: impl Into<String>) -> Self {
        self.head = Head { id: id.into(), created, model: model.into() };
        self
    }

    /// With ids of calls by this policy.
    ///
    /// ```
    /// use kimi_xtml::{Channel, ChatStream, IdPolicy, Request};
    ///
    /// let request = Request::new().opened(Channel::Tools).tools(["ls"]);
    /// let mut stream = ChatStream::new(request).with_call_ids(IdPolicy::numbered(3));
    /// stream.push("<|open|>call tool=\"ls\" index=\"1\"<|sep|>");
    /// assert_eq!(stream.message().unwrap().tool_calls[0].id, "ls_3");
    /// ```
    #[must_use]
    pub fn with_call_ids(mut self, ids: IdPolicy) -> Self {
        self.sink.inner_mut().set_ids(ids);
        self
    }

    /// With these stop strings instead of the request's.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new()).with_stop(["END"]);
    /// stream.push("one END two");
    /// assert_eq!((stream.stopped_by(), &*stream.message().unwrap().content), (Some("END"), "one "));
    /// ```
    #[must_use]
    pub fn with_stop<T: Into<String>>(mut self, stops: impl IntoIterator<Item = T>) -> Self {
        self.sink = Stop::new(self.sink.into_inner(), stops);
        self
    }

    /// With what the prompt cost, for the usage.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Usage};
    ///
    /// let mut stream = ChatStream::from_json("{}")?.with_prompt_usage(Usage::new(10, 0).with_cached_tokens(4));
    /// stream.push_with_ids("Hm", &[39_964]);
    /// let usage = stream.usage().unwrap();
    /// assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens), (10, 1, 4));
    /// # Ok::<(), kimi_xtml::BodyError>(())
    /// ```
    #[must_use]
    pub fn with_prompt_usage(mut self, usage: Usage) -> Self {
        self.prompt = usage;
        self
    }

    /// Without the message: memory then does not grow with the stream. For streams only: the one body of a request that
    /// wants none is the message.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Request};
    ///
    /// assert_eq!(ChatStream::new(Request::new()).without_message().message(), None);
    /// ```
    #[must_use]
    pub fn without_message(mut self) -> Self {
        let chat = self.sink.inner_mut();
        *chat = std::mem::take(chat).without_message();
        self
    }

    /// Takes text that may contain markers, cut anywhere.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// stream.push("Hi <");
    /// assert_eq!(stream.message().unwrap().content, "Hi "); // the rest may begin a tag
    /// ```
    pub fn push(&mut self, text: &str) -> Bytes {
        self.step(|parser, sink| parser.push(text, sink))
    }

    /// Takes what [`push`](ChatStream::push) takes as bytes, UTF-8 cut anywhere.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// for byte in "é".bytes() {
    ///     stream.push_bytes(&[byte]);
    /// }
    /// assert_eq!(stream.message().unwrap().content, "é");
    /// ```
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Bytes {
        self.step(|parser, sink| parser.push_bytes(bytes, sink))
    }

    /// Takes the text of one delta and its token ids, which tell which spelled markers are real
    /// ([`Parser::push_with_ids`]). The best way in where the engine gives ids.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// let frames = stream.push_with_ids("Hi", &[19_180]);
    /// assert!(String::from_utf8_lossy(&frames).contains(r#""delta":{"content":"Hi"}"#));
    /// ```
    pub fn push_with_ids(&mut self, text: &str, ids: &[u32]) -> Bytes {
        self.step(|parser, sink| parser.push_with_ids(text, ids, sink))
    }

    /// Takes text that is never structure, whatever it spells.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// stream.push_text("<|close|>response<|sep|>");
    /// assert_eq!(stream.message().unwrap().content, "<|close|>response<|sep|>");
    /// ```
    pub fn push_text(&mut self, text: &str) -> Bytes {
        self.step(|parser, sink| parser.push_text(text, sink))
    }

    /// Takes a control token.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Marker, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// stream.push_marker(Marker::EndOfMsg);
    /// assert_eq!(stream.channel(), None);
    /// ```
    pub fn push_marker(&mut self, marker: Marker) -> Bytes {
        self.step(|parser, sink| parser.push_marker(marker, sink))
    }

    /// Takes one token ([`Parser::push_token`]).
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// stream.push_token("Hi", 19_180);
    /// assert_eq!(stream.usage().unwrap().completion_tokens, 1);
    /// ```
    pub fn push_token(&mut self, text: &str, id: u32) -> Bytes {
        self.step(|parser, sink| parser.push_token(text, id, sink))
    }

    /// The stream ends, for the engine's own reason: held text goes out, then the finish reason, the usage, and `[DONE]`;
    /// or the whole body. A word that says the engine broke off, such as `abort` ([`FinishReason::from_engine`]), gives what
    /// [`error`](ChatStream::error) gives. What is pushed after it, and a second end, give nothing.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// stream.push("Hi");
    /// let last = String::from_utf8_lossy(&stream.end("eos")).into_owned();
    /// assert!(last.contains(r#""finish_reason":"stop""#) && last.ends_with("data: [DONE]\n\n"));
    /// assert!(stream.end("eos").is_empty());
    /// ```
    #[doc(alias = "finish")]
    pub fn end(&mut self, reason: &str) -> Bytes {
        if self.end.is_some() {
            return Bytes::new();
        }
        let reason = self.parser.finish(reason, &mut self.sink);
        match FinishReason::from_engine(reason) {
            Some(reason) => self.close(reason),
            None => {
                let message = format!("the engine broke the generation off: {reason}");
                self.error(&message)
            }
        }
    }

    /// The stream ends because something failed: held text goes out, calls that are open stay incomplete, and an error takes
    /// the place of finish reason and `[DONE]`, or of the body.
    ///
    /// ```
    /// use kimi_xtml::{Channel, ChatStream, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// stream.push("Hel");
    /// let last = stream.error("the engine is gone");
    /// assert_eq!(
    ///     last,
    ///     "data: {\"error\":{\"message\":\"the engine is gone\",\"type\":\"server_error\",\"code\":\"engine_failed\",\"param\":null}}\n\n"
    /// );
    /// assert_eq!((stream.is_ended(), stream.finish_reason()), (true, None));
    /// assert!(stream.end("stop").is_empty());
    /// ```
    pub fn error(&mut self, message: &str) -> Bytes {
        if self.end.is_some() {
            return Bytes::new();
        }
        self.parser.finish("error", &mut self.sink);
        self.sink.flush();
        self.end = Some(End::Failed);
        self.write();
        let (kind, code) = ("server_error", Some("engine_failed"));
        if self.streams {
            let (frames, _) = self.writer.get_or_insert_with(|| self.head.writer());
            frames.error(kind, code, message, &mut self.out);
        } else {
            json(&mut self.out, &error(kind, code, message));
        }
        self.out.split().freeze()
    }

    /// Whether it has ended: by [`end`](ChatStream::end), by an error, or by a stop string. Then the engine need not go on.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// assert!(!stream.is_ended());
    /// stream.end("stop");
    /// assert!(stream.is_ended());
    /// ```
    pub fn is_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Why it ended; none while it goes on, and where it failed.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, FinishReason, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// stream.end("max_tokens");
    /// assert_eq!(stream.finish_reason(), Some(FinishReason::Length));
    /// ```
    pub fn finish_reason(&self) -> Option<FinishReason> {
        match self.end {
            Some(End::Finished(reason)) => Some(reason),
            Some(End::Failed) | None => None,
        }
    }

    /// The stop string that ended it.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// stream.end("stop");
    /// assert_eq!(stream.stopped_by(), None);
    /// ```
    pub fn stopped_by(&self) -> Option<&str> {
        self.sink.met()
    }

    /// The message so far, if it is kept. It is final once the stream has ended.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// stream.push("Hi");
    /// assert_eq!(stream.message().unwrap().content, "Hi");
    /// ```
    pub fn message(&self) -> Option<&Message> {
        self.sink.inner().message()
    }

    /// The message, if it was kept.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// stream.push("Hi");
    /// stream.end("stop");
    /// assert_eq!(stream.into_message().unwrap().content, "Hi");
    /// ```
    pub fn into_message(self) -> Option<Message> {
        self.sink.into_inner().into_message()
    }

    /// What it cost so far; none if the engine gave no ids, so that nobody knows.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// assert_eq!(stream.usage(), None);
    /// stream.push_with_ids("Hi you", &[19_180, 498]);
    /// assert_eq!(stream.usage().unwrap().completion_tokens, 2);
    /// ```
    pub fn usage(&self) -> Option<Usage> {
        let usage = self.sink.usage(&self.parser.report())?;
        Some(usage + Usage { completion_tokens: 0, reasoning_tokens: 0, ..self.prompt })
    }

    /// What the parser did so far: where each byte and token went, and what deviated from the format.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// stream.push("Hi");
    /// assert_eq!(stream.report().bytes.content, 2);
    /// ```
    pub fn report(&self) -> Report {
        self.parser.report()
    }

    /// The channel that is open now.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// assert_eq!(stream.channel(), Some(Channel::Response));
    /// stream.push("<|close|>response<|sep|><|close|>message<|sep|>");
    /// assert_eq!(stream.channel(), None);
    /// ```
    pub fn channel(&self) -> Option<Channel> {
        self.parser.channel()
    }

    /// The text that the parser holds. For debugging; it is copied.
    ///
    /// ```
    /// use kimi_xtml::{ChatStream, Channel, Request};
    ///
    /// let mut stream = ChatStream::new(Request::new().opened(Channel::Response));
    /// stream.push("Hi <|cl");
    /// assert_eq!(stream.held(), "<|cl");
    /// ```
    pub fn held(&self) -> String {
        self.parser.held()
    }

    fn step(&mut self, push: impl FnOnce(&mut Parser, &mut Stop<Chat>)) -> Bytes {
        if self.end.is_some() {
            return Bytes::new();
        }
        push(&mut self.parser, &mut self.sink);
        if self.sink.met().is_some() {
            self.parser.finish("stop", &mut self.sink);
            return self.close(FinishReason::Stop);
        }
        self.write();
        self.out.split().freeze()
    }

    fn write(&mut self) {
        if self.streams {
            let (_, choice) = self.writer.get_or_insert_with(|| self.head.writer());
            choice.write(self.sink.inner_mut(), &mut self.out);
        } else {
            self.sink.inner_mut().clear();
        }
    }

    /// The last bytes of a stream that met no error.
    fn close(&mut self, reason: FinishReason) -> Bytes {
        self.sink.flush();
        let reason = if self.sink.met().is_some() { FinishReason::Stop } else { reason };
        self.end = Some(End::Finished(reason));
        self.write();
        let usage = self.usage();
        if !self.streams {
            let message = self.sink.inner().message();
            let choice = (("index", 0), ("message", message), ("logprobs", ()), ("finish_reason", reason.as_str()));
            let Head { id, created, model } = &self.head;
            let body = Object((
                ("id", id),
                ("object", "chat.completion"),
                ("created", created),
                ("model", model),
                ("choices", [Object(choice)]),
                usage.map(|usage| ("usage", usage)),
            ));
            json(&mut self.out, &body);
            return self.out.split().freeze();
        }
        let (frames, choice) = self.writer.get_or_insert_with(|| self.head.writer());
        choice.end(reason.as_str(), usage.as_ref(), &mut self.out);
        if let Some(usage) = usage.filter(|_| self.includes_usage) {
            frames.usage(&usage, &mut self.out);
        }
        frames.done(&mut self.out);
        self.out.split().freeze()
    }
}

impl Head {
    fn writer(&self) -> (Frames, Choice) {
        let frames = Frames::new(&self.id, self.created, &self.model);
        let choice = frames.choice(0);
        (frames, choice)
    }
}
