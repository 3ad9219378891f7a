//! An assembled message, which the parser's wing gives and the encoder's takes.
//!
//! In: what a stream added up to, what a program says, or the `message` of a Chat Completions choice. Out: the same, and the
//! parts in the order in which they were said. Held: each kind of text joined, and how its parts alternate.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use crate::object::Object;

/// An assembled message. Serializes as the `message` of a Chat Completions choice, and is read from one:
/// `reasoning_content` (or `reasoning`) and `tool_calls` are absent when there are none.
///
/// ```
/// use kimi_xtml::{Message, MessagePart, ToolCall};
///
/// let message = Message::new()
///     .with_reasoning("Look.")
///     .with_content("One moment.")
///     .with_tool_call(ToolCall::new("ls", r#"{"path":"/tmp"}"#).with_id("ls_0"));
/// assert_eq!((&*message.content, message.parts().count()), ("One moment.", 3));
/// assert_eq!(message.parts().next(), Some(MessagePart::Reasoning("Look.")));
///
/// let json = serde_json::to_string(&message)?;
/// assert_eq!(serde_json::from_str::<Message>(&json)?, message);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Message {
    /// The reasoning, joined; empty if there was none.
    pub reasoning: String,
    /// The answer, joined; empty if there was none.
    pub content: String,
    /// The calls, in order, incomplete ones too.
    pub tool_calls: Vec<ToolCall>,
    /// How the parts follow each other. What it does not speak of follows in the order of the fields.
    runs: Vec<Run>,
}

/// So many bytes of reasoning or content, or one call.
#[derive(Clone, Copy, Debug)]
enum Run {
    Reasoning(usize),
    Content(usize),
    ToolCall,
}

/// A part of a message.
///
/// ```
/// use kimi_xtml::{Message, MessagePart};
///
/// let message = Message::new().with_content("a").with_reasoning("b").with_content("c");
/// let parts: Vec<_> = message.parts().collect();
/// assert_eq!(parts, [MessagePart::Content("a"), MessagePart::Reasoning("b"), MessagePart::Content("c")]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessagePart<'a> {
    /// Reasoning; empty for a think channel that said nothing, if the message has no other reasoning.
    Reasoning(&'a str),
    /// A part of the answer. Never empty.
    Content(&'a str),
    /// A call.
    ToolCall(&'a ToolCall),
}

impl Message {
    /// A message that says nothing.
    ///
    /// ```
    /// use kimi_xtml::Message;
    ///
    /// assert_eq!(Message::new().parts().count(), 0);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// A message in the order of its fields; what is empty is not there.
    ///
    /// ```
    /// use kimi_xtml::Message;
    ///
    /// let message = Message::of("Hm.", "Hi", Vec::new());
    /// assert_eq!((&*message.reasoning, &*message.content), ("Hm.", "Hi"));
    /// ```
    pub fn of(reasoning: impl Into<String>, content: impl Into<String>, tool_calls: Vec<ToolCall>) -> Self {
        Message { reasoning: reasoning.into(), content: content.into(), tool_calls, runs: Vec::new() }
    }

    /// Appends reasoning. Empty reasoning is that of a think channel that says nothing.
    ///
    /// ```
    /// use kimi_xtml::Message;
    ///
    /// assert!(Message::new().with_reasoning("").thinks());
    /// ```
    #[must_use]
    pub fn with_reasoning(mut self, text: &str) -> Self {
        self.push_reasoning(text);
        self
    }

    /// Appends to the answer.
    ///
    /// ```
    /// use kimi_xtml::Message;
    ///
    /// assert_eq!(Message::new().with_content("a").with_content("b").content, "ab");
    /// ```
    #[must_use]
    pub fn with_content(mut self, text: &str) -> Self {
        self.push_content(text);
        self
    }

    /// Appends a call.
    ///
    /// ```
    /// use kimi_xtml::{Message, ToolCall};
    ///
    /// let message = Message::new().with_tool_call(ToolCall::new("ls", "{}"));
    /// assert_eq!(message.tool_calls[0].name, "ls");
    /// ```
    #[must_use]
    pub fn with_tool_call(mut self, call: ToolCall) -> Self {
        self.push_tool_call(call);
        self
    }

    pub(crate) fn push_reasoning(&mut self, text: &str) {
        self.reasoning.push_str(text);
        match self.runs.last_mut() {
            Some(Run::Reasoning(len)) => *len += text.len(),
            _ => self.runs.push(Run::Reasoning(text.len())),
        }
    }

    pub(crate) fn push_content(&mut self, text: &str) {
        self.content.push_str(text);
        match self.runs.last_mut() {
            Some(Run::Content(len)) => *len += text.len(),
            _ => self.runs.push(Run::Content(text.len())),
        }
    }

    pub(crate) fn push_tool_call(&mut self, call: ToolCall) {
        self.tool_calls.push(call);
        self.runs.push(Run::ToolCall);
    }

    /// Whether there was a think channel, even if it said nothing.
    ///
    /// ```
    /// use kimi_xtml::Message;
    ///
    /// assert!(!Message::new().with_content("Hi").thinks());
    /// ```
    pub fn thinks(&self) -> bool {
        !self.reasoning.is_empty() || self.runs.iter().any(|run| matches!(run, Run::Reasoning(_)))
    }

    /// The parts in the order in which they were said; parts of one kind that follow each other are one. Fields that were
    /// set by themselves follow in their order.
    ///
    /// ```
    /// use kimi_xtml::{Message, MessagePart};
    ///
    /// let message = Message::of("", "Hi", Vec::new());
    /// assert!(message.parts().eq([MessagePart::Content("Hi")]));
    /// ```
    pub fn parts(&self) -> impl Iterator<Item = MessagePart<'_>> {
        let (mut reasoning, mut content) = (&*self.reasoning, &*self.content);
        let mut calls = self.tool_calls.iter();
        let silent = self.thinks() && reasoning.is_empty();
        let rest = [Run::Reasoning(usize::MAX), Run::Content(usize::MAX)];
        let rest = rest.into_iter().chain(std::iter::repeat_n(Run::ToolCall, self.tool_calls.len()));
        let take = move |run: Run| match run {
            Run::Reasoning(len) => {
                let part = MessagePart::Reasoning(take_bytes(&mut reasoning, len));
                (part != MessagePart::Reasoning("") || silent && len == 0).then_some(part)
            }
            Run::Content(len) => Some(MessagePart::Content(take_bytes(&mut content, len))),
            Run::ToolCall => calls.next().map(MessagePart::ToolCall),
        };
        let parts = self.runs.iter().copied().chain(rest).filter_map(take);
        parts.filter(|part| *part != MessagePart::Content(""))
    }
}

/// The first `len` bytes of a text, or all of it if it is shorter, or changed since its parts were counted.
fn take_bytes<'a>(text: &mut &'a str, len: usize) -> &'a str {
    let (part, rest) = text.split_at_checked(len).unwrap_or((text, ""));
    *text = rest;
    part
}

/// Messages are equal if they say the same in the same order.
impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.parts().eq(other.parts())
    }
}

impl Eq for Message {}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let reasoning = self.thinks().then_some(("reasoning_content", &self.reasoning));
        let calls = (!self.tool_calls.is_empty()).then_some(("tool_calls", &self.tool_calls));
        Object((("role", "assistant"), ("content", &self.content), reasoning, calls)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = ReadMessage::deserialize(deserializer)?;
        let mut message = Message::new();
        if let Some(reasoning) = read.reasoning_content.or(read.reasoning) {
            message.push_reasoning(&reasoning);
        }
        if let Some(content) = read.content {
            message.push_content(&content);
        }
        read.tool_calls.into_iter().flatten().for_each(|call| message.push_tool_call(call));
        Ok(message)
    }
}

#[derive(serde::Deserialize)]
struct ReadMessage {
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
}

/// A call of an assembled message. Serializes with `"complete": false` if it is not complete, else without that key.
///
/// ```
/// use kimi_xtml::ToolCall;
///
/// let call = ToolCall::new("ls", r#"{"path":"/t"#).incomplete();
/// assert_eq!((&*call.name, &*call.id, call.complete), ("ls", "", false));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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

impl ToolCall {
    /// A whole call without an id.
    ///
    /// ```
    /// use kimi_xtml::ToolCall;
    ///
    /// assert!(ToolCall::new("ls", "{}").complete);
    /// ```
    pub fn new(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        ToolCall { id: String::new(), name: name.into(), arguments: arguments.into(), complete: true }
    }

    /// With this id.
    ///
    /// ```
    /// use kimi_xtml::ToolCall;
    ///
    /// assert_eq!(ToolCall::new("ls", "{}").with_id("ls_0").id, "ls_0");
    /// ```
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// As a call that was cut.
    ///
    /// ```
    /// use kimi_xtml::ToolCall;
    ///
    /// assert!(!ToolCall::new("ls", "{").incomplete().complete);
    /// ```
    #[must_use]
    pub fn incomplete(mut self) -> Self {
        self.complete = false;
        self
    }
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let function = Object((("name", &self.name), ("arguments", &self.arguments)));
        let complete = (!self.complete).then_some(("complete", false));
        Object((("id", &self.id), ("type", "function"), ("function", function), complete)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ReadCall { id, function, complete } = ReadCall::deserialize(deserializer)?;
        Ok(ToolCall {
            id: id.unwrap_or_default(),
            name: function.name,
            arguments: function.arguments.unwrap_or_default(),
            complete: complete.unwrap_or(true),
        })
    }
}

#[derive(serde::Deserialize)]
struct ReadCall {
    id: Option<String>,
    function: ReadFunction,
    complete: Option<bool>,
}

#[derive(serde::Deserialize)]
struct ReadFunction {
    name: String,
    arguments: Option<String>,
}
