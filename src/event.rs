//! What comes out: events that borrow from the input, and their spans.
//!
//! Every event carries the span of the input that it came from. The spans of all events follow each other without
//! a gap and cover the whole input; an event that stands for no input (an implied end, a diagnostic) has an empty one.

use std::ops::Range;

use crate::diagnostic::Code;

/// A channel of the message.
///
/// ```
/// use kimi_xtml::{Channel, Parser, Request};
///
/// let mut parser = Parser::new(Request::new().opened(Channel::Think));
/// parser.push("Hm.<|close|>think<|sep|><|open|>response<|sep|>", &mut ());
/// assert_eq!(parser.channel(), Some(Channel::Response));
/// assert_eq!(Channel::Response.name(), "response");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Channel {
    /// The reasoning.
    Think,
    /// The answer.
    Response,
    /// A section of tool calls.
    Tools,
}

impl Channel {
    /// The channel's name on the wire: `think`, `response` or `tools`.
    ///
    /// ```
    /// use kimi_xtml::Channel;
    ///
    /// assert_eq!(Channel::Think.name(), "think");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Channel::Think => "think",
            Channel::Response => "response",
            Channel::Tools => "tools",
        }
    }
}

/// The form of a call's argument, from the `type` attribute.
///
/// ```
/// use kimi_xtml::ValueKind;
///
/// assert_eq!(ValueKind::from_type(Some("object")), ValueKind::Object);
/// assert_eq!(ValueKind::from_type(None), ValueKind::String);
/// assert_eq!(ValueKind::from_type(Some("date")).name(), "unknown");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueKind {
    /// The body is the string itself. Also what a missing type means.
    String,
    /// A JSON number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// `null`.
    Null,
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A type that the format does not know: JSON if it is JSON, else a string.
    Unknown,
    /// A `json` block: the whole arguments, passed on verbatim.
    Block,
}

impl ValueKind {
    /// The kind that a `type` attribute names.
    ///
    /// ```
    /// use kimi_xtml::ValueKind;
    ///
    /// assert_eq!(ValueKind::from_type(Some("number")), ValueKind::Number);
    /// ```
    pub fn from_type(name: Option<&str>) -> ValueKind {
        match name {
            None | Some("string") => ValueKind::String,
            Some("number") => ValueKind::Number,
            Some("boolean") => ValueKind::Boolean,
            Some("null") => ValueKind::Null,
            Some("object") => ValueKind::Object,
            Some("array") => ValueKind::Array,
            Some(_) => ValueKind::Unknown,
        }
    }

    /// The kind's name: a `type` of the wire, `unknown`, or `block`.
    ///
    /// ```
    /// use kimi_xtml::ValueKind;
    ///
    /// assert_eq!(ValueKind::Block.name(), "block");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            ValueKind::String => "string",
            ValueKind::Number => "number",
            ValueKind::Boolean => "boolean",
            ValueKind::Null => "null",
            ValueKind::Object => "object",
            ValueKind::Array => "array",
            ValueKind::Unknown => "unknown",
            ValueKind::Block => "block",
        }
    }
}

/// Where an event came from.
///
/// ```
/// use kimi_xtml::{Channel, Parser, Request};
///
/// let mut parser = Parser::new(Request::new().opened(Channel::Response));
/// let mut events = Vec::new();
/// parser.push_token("Hi", 19_180, &mut events);
/// parser.push_token(" you", 498, &mut events);
/// let (_, span) = events.last().unwrap();
/// assert_eq!((span.bytes.clone(), span.tokens.clone()), (2..6, Some(1..2)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Bytes of the input, from the first push on. A marker that came as a token counts as its spelling.
    pub bytes: Range<u64>,
    /// Tokens of the input, where ids were given. Two events share a token whose text they share.
    pub tokens: Option<Range<u64>>,
}

impl Span {
    /// The empty span at its start.
    pub(crate) fn start(&self) -> Span {
        Span {
            bytes: self.bytes.start..self.bytes.start,
            tokens: self.tokens.as_ref().map(|tokens| tokens.start..tokens.start),
        }
    }

    /// The empty span at its end.
    pub(crate) fn end(&self) -> Span {
        Span {
            bytes: self.bytes.end..self.bytes.end,
            tokens: self.tokens.as_ref().map(|tokens| tokens.end..tokens.end),
        }
    }

    /// Takes in the span that follows.
    pub(crate) fn extend(&mut self, next: &Span) {
        self.bytes.end = next.bytes.end;
        match (&mut self.tokens, &next.tokens) {
            (Some(tokens), Some(next)) => tokens.end = next.end,
            (tokens, _) => tokens.clone_from(&next.tokens),
        }
    }
}

/// What the parser found. The `json` fragments of one call, concatenated in order, are its arguments; bytes once
/// given are never revised.
///
/// ```
/// use kimi_xtml::{Channel, Event, Parser, Request, sink_fn};
///
/// let mut arguments = String::new();
/// let mut parser = Parser::new(Request::new().opened(Channel::Tools).tools(["ls"]));
/// let mut sink = sink_fn(|event, _| match event {
///     Event::CallStart { name, .. } => assert_eq!(name, "ls"),
///     Event::CallEnd { complete, json, .. } => {
///         arguments += json;
///         assert!(complete);
///     }
///     _ => arguments += event.json().map_or("", |(_, json)| json),
/// });
/// parser.push("<|open|>call tool=\"ls\" index=\"1\"<|sep|>", &mut sink);
/// parser.push("<|open|>argument key=\"all\" type=\"boolean\"<|sep|>true<|close|>argument<|sep|>", &mut sink);
/// parser.push("<|close|>call<|sep|><|close|>tools<|sep|>", &mut sink);
/// assert_eq!(parser.finish("stop", &mut sink), "tool_calls");
/// assert_eq!(arguments, r#"{"all":true}"#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A channel opens: by its tag, or (first event, empty span) because the prompt left it open.
    Start(Channel),
    /// Text of the reasoning. Never empty.
    Reasoning(&'a str),
    /// Text of the answer. Never empty.
    Content(&'a str),
    /// A call opens; its header is complete.
    CallStart {
        /// The call's ordinal in the message, from 0 on, without gaps.
        call: usize,
        /// The tool's name, entities decoded.
        name: &'a str,
    },
    /// An argument opens.
    ArgumentStart {
        /// The call's ordinal.
        call: usize,
        /// The argument's name, entities decoded; none for a `json` block.
        key: Option<&'a str>,
        /// What the value is said to be.
        kind: ValueKind,
        /// The JSON before the value, such as `{"path":"`.
        json: &'a str,
    },
    /// A part of an argument's value. Never empty.
    Arguments {
        /// The call's ordinal.
        call: usize,
        /// JSON, continuing what was given before.
        json: &'a str,
    },
    /// An argument ends.
    ArgumentEnd {
        /// The call's ordinal.
        call: usize,
        /// The JSON after the value: `"` for a string, else empty.
        json: &'a str,
        /// Whether its own close ended it.
        closed: bool,
    },
    /// A call ends.
    CallEnd {
        /// The call's ordinal.
        call: usize,
        /// The JSON that ends the arguments: `}`, `{}` or empty.
        json: &'a str,
        /// Whether the call is whole. The arguments of one that is not are an unterminated prefix: not to be run.
        complete: bool,
    },
    /// A channel ends.
    End(Channel),
    /// Raw text of a tools section that the request did not ask for (see
    /// [`Undeclared`](crate::Undeclared)).
    Withheld(&'a str),
    /// Raw markup that opens and closes nothing: message tags, white space between elements.
    Markup(&'a str),
    /// Raw input that is no part of the message: orphan tags, text between calls, what follows the end.
    Dropped(&'a str),
    /// The stream deviates from the format here. Holds no text of the model's.
    Diagnostic(Code),
}

/// What a byte of the input was counted as.
///
/// ```
/// use kimi_xtml::{Channel, Event, Kind};
///
/// assert_eq!(Event::Content("Hi").kind(), Kind::Content);
/// assert_eq!(Event::End(Channel::Think).kind(), Kind::Markup);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Text of the reasoning.
    Reasoning,
    /// Text of the answer.
    Content,
    /// Values of arguments.
    Arguments,
    /// Tags, and white space between elements.
    Markup,
    /// A tools section that was not asked for.
    Withheld,
    /// No part of the message.
    Dropped,
}

impl<'a> Event<'a> {
    /// What the bytes of the event's span count as.
    ///
    /// ```
    /// use kimi_xtml::{Event, Kind};
    ///
    /// assert_eq!(Event::Dropped("x").kind(), Kind::Dropped);
    /// ```
    pub const fn kind(&self) -> Kind {
        match self {
            Event::Reasoning(_) => Kind::Reasoning,
            Event::Content(_) => Kind::Content,
            Event::Arguments { .. } => Kind::Arguments,
            Event::Withheld(_) => Kind::Withheld,
            Event::Dropped(_) => Kind::Dropped,
            Event::Start(_)
            | Event::End(_)
            | Event::CallStart { .. }
            | Event::ArgumentStart { .. }
            | Event::ArgumentEnd { .. }
            | Event::CallEnd { .. }
            | Event::Markup(_)
            | Event::Diagnostic(_) => Kind::Markup,
        }
    }

    /// The event's fragment of a call's arguments, with the call's ordinal. It may be empty.
    ///
    /// ```
    /// use kimi_xtml::Event;
    ///
    /// assert_eq!(Event::Arguments { call: 1, json: "{}" }.json(), Some((1, "{}")));
    /// assert_eq!(Event::Content("{}").json(), None);
    /// ```
    pub const fn json(&self) -> Option<(usize, &'a str)> {
        match *self {
            Event::ArgumentStart { call, json, .. }
            | Event::Arguments { call, json }
            | Event::ArgumentEnd { call, json, .. }
            | Event::CallEnd { call, json, .. } => Some((call, json)),
            _ => None,
        }
    }

    /// The same event with its own text.
    ///
    /// ```
    /// use kimi_xtml::{Event, OwnedEvent};
    ///
    /// assert_eq!(Event::Content("Hi").to_owned(), OwnedEvent::Content("Hi".into()));
    /// ```
    pub fn to_owned(&self) -> OwnedEvent {
        match *self {
            Event::Start(channel) => OwnedEvent::Start(channel),
            Event::Reasoning(text) => OwnedEvent::Reasoning(text.into()),
            Event::Content(text) => OwnedEvent::Content(text.into()),
            Event::CallStart { call, name } => OwnedEvent::CallStart { call, name: name.into() },
            Event::ArgumentStart { call, key, kind, json } => {
                OwnedEvent::ArgumentStart { call, key: key.map(Into::into), kind, json: json.into() }
            }
            Event::Arguments { call, json } => OwnedEvent::Arguments { call, json: json.into() },
            Event::ArgumentEnd { call, json, closed } => OwnedEvent::ArgumentEnd { call, json: json.into(), closed },
            Event::CallEnd { call, json, complete } => OwnedEvent::CallEnd { call, json: json.into(), complete },
            Event::End(channel) => OwnedEvent::End(channel),
            Event::Withheld(text) => OwnedEvent::Withheld(text.into()),
            Event::Markup(text) => OwnedEvent::Markup(text.into()),
            Event::Dropped(text) => OwnedEvent::Dropped(text.into()),
            Event::Diagnostic(code) => OwnedEvent::Diagnostic(code),
        }
    }
}

/// An [`Event`] that owns its text.
///
/// ```
/// use kimi_xtml::{Event, OwnedEvent};
///
/// let kept = Event::Content("Hi").to_owned();
/// assert_eq!(kept, OwnedEvent::Content("Hi".into()));
/// assert_eq!(kept.as_event(), Event::Content("Hi"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "variants and fields are those of Event")]
pub enum OwnedEvent {
    Start(Channel),
    Reasoning(String),
    Content(String),
    CallStart { call: usize, name: String },
    ArgumentStart { call: usize, key: Option<String>, kind: ValueKind, json: String },
    Arguments { call: usize, json: String },
    ArgumentEnd { call: usize, json: String, closed: bool },
    CallEnd { call: usize, json: String, complete: bool },
    End(Channel),
    Withheld(String),
    Markup(String),
    Dropped(String),
    Diagnostic(Code),
}

impl OwnedEvent {
    /// The event, borrowed.
    ///
    /// ```
    /// use kimi_xtml::{Event, OwnedEvent};
    ///
    /// assert_eq!(OwnedEvent::Content("Hi".into()).as_event(), Event::Content("Hi"));
    /// ```
    pub fn as_event(&self) -> Event<'_> {
        match self {
            OwnedEvent::Start(channel) => Event::Start(*channel),
            OwnedEvent::Reasoning(text) => Event::Reasoning(text),
            OwnedEvent::Content(text) => Event::Content(text),
            OwnedEvent::CallStart { call, name } => Event::CallStart { call: *call, name },
            OwnedEvent::ArgumentStart { call, key, kind, json } => {
                Event::ArgumentStart { call: *call, key: key.as_deref(), kind: *kind, json }
            }
            OwnedEvent::Arguments { call, json } => Event::Arguments { call: *call, json },
            OwnedEvent::ArgumentEnd { call, json, closed } => Event::ArgumentEnd { call: *call, json, closed: *closed },
            OwnedEvent::CallEnd { call, json, complete } => Event::CallEnd { call: *call, json, complete: *complete },
            OwnedEvent::End(channel) => Event::End(*channel),
            OwnedEvent::Withheld(text) => Event::Withheld(text),
            OwnedEvent::Markup(text) => Event::Markup(text),
            OwnedEvent::Dropped(text) => Event::Dropped(text),
            OwnedEvent::Diagnostic(code) => Event::Diagnostic(*code),
        }
    }

    /// Appends `next` if both are parts of one text; gives it back otherwise.
    fn append(&mut self, next: OwnedEvent) -> Result<(), OwnedEvent> {
        match (self, next) {
            (OwnedEvent::Reasoning(a), OwnedEvent::Reasoning(b))
            | (OwnedEvent::Content(a), OwnedEvent::Content(b))
            | (OwnedEvent::Withheld(a), OwnedEvent::Withheld(b))
            | (OwnedEvent::Markup(a), OwnedEvent::Markup(b))
            | (OwnedEvent::Dropped(a), OwnedEvent::Dropped(b)) => a.push_str(&b),
            (OwnedEvent::Arguments { json: a, .. }, OwnedEvent::Arguments { json: b, .. }) => a.push_str(&b),
            (_, next) => return Err(next),
        }
        Ok(())
    }
}

/// Events as one whole: parts of one text that follow each other are joined, so that the result no longer depends
/// on how the stream was cut.
///
/// ```
/// use kimi_xtml::{OwnedEvent, Parser, Request, coalesce};
///
/// let mut events = Vec::new();
/// let mut parser = Parser::new(Request::new());
/// ["Hel", "lo"].iter().for_each(|delta| parser.push(delta, &mut events));
/// assert_eq!(coalesce(events).last().unwrap().0, OwnedEvent::Content("Hello".into()));
/// ```
pub fn coalesce(events: impl IntoIterator<Item = (OwnedEvent, Span)>) -> Vec<(OwnedEvent, Span)> {
    let mut whole: Vec<(OwnedEvent, Span)> = Vec::new();
    for (event, span) in events {
        let Some((last, reach)) = whole.last_mut() else {
            whole.push((event, span));
            continue;
        };
        match last.append(event) {
            Ok(()) => reach.extend(&span),
            Err(event) => whole.push((event, span)),
        }
    }
    whole
}
