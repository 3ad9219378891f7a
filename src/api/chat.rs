//! Events in; deltas, and the assembled message, out.
//!
//! [`Chat`] holds the deltas of one push, in one reused buffer, until they are taken, and the [`Message`] unless told
//! not to.

use crate::api::delta::Delta;
use crate::api::ids::IdPolicy;
use crate::event::{Channel, Event, Span};
use crate::message::{Message, ToolCall};
use crate::sink::Sink;

/// Events in, deltas and the message out.
///
/// Push, take the deltas, [`clear`](Chat::clear); [`Choice::write`](crate::Choice::write) does the last two. Pieces of one text that
/// came in one push, with nothing between them, are one delta.
///
/// ```
/// use kimi_xtml::{Channel, Chat, Delta, IdPolicy, Parser, Request};
///
/// let mut parser = Parser::new(Request::new().opened(Channel::Think).tools(["get_weather"]));
/// let mut chat = Chat::new(IdPolicy::numbered(0));
/// parser.push("Look it up.<|close|>think<|sep|><|open|>tools<|sep|>", &mut chat);
/// assert_eq!(chat.deltas().collect::<Vec<_>>(), [Delta::Reasoning("Look it up.")]);
/// chat.clear();
///
/// parser.push(r#"<|open|>call tool="get_weather" index="1"<|sep|>"#, &mut chat);
/// parser.push(r#"<|open|>argument key="city" type="string"<|sep|>Par"#, &mut chat);
/// assert_eq!(
///     chat.deltas().collect::<Vec<_>>(),
///     [
///         Delta::CallStart { index: 0, id: "get_weather_0", name: "get_weather" },
///         Delta::Arguments { index: 0, json: r#"{"city":"Par"# },
///     ]
/// );
/// ```
#[derive(Debug)]
pub struct Chat {
    ids: IdPolicy,
    message: Option<Message>,
    /// The texts of `parts`, one after the other.
    text: String,
    parts: Vec<Part>,
    /// Whether there was a think channel.
    thinks: bool,
    /// Whether the first one is open and has said nothing.
    silent: bool,
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
    CallEnd {
        index: usize,
        complete: bool,
    },
}

impl PartKind {
    fn is_call(self) -> bool {
        !matches!(self, PartKind::Reasoning | PartKind::Content)
    }
}

impl Default for Chat {
    fn default() -> Self {
        Chat::new(IdPolicy::default())
    }
}

impl Chat {
    /// Nothing taken yet; the message is assembled.
    ///
    /// ```
    /// use kimi_xtml::{Chat, IdPolicy, Sink, Span};
    ///
    /// let mut chat = Chat::new(IdPolicy::numbered(2));
    /// chat.call_start(0, "ls", Span::default());
    /// assert_eq!(chat.message().unwrap().tool_calls[0].id, "ls_2");
    /// ```
    pub fn new(ids: IdPolicy) -> Self {
        Chat {
            ids,
            message: Some(Message::default()),
            text: String::new(),
            parts: Vec::new(),
            thinks: false,
            silent: false,
        }
    }

    /// Without the message: memory then does not grow with the stream.
    ///
    /// ```
    /// use kimi_xtml::Chat;
    ///
    /// assert_eq!(Chat::default().without_message().message(), None);
    /// ```
    #[must_use]
    pub fn without_message(mut self) -> Self {
        self.message = None;
        self
    }

    /// The deltas since the last [`clear`](Chat::clear).
    ///
    /// ```
    /// use kimi_xtml::{Chat, Delta, Parser, Request};
    ///
    /// let (mut parser, mut chat) = (Parser::new(Request::new()), Chat::default());
    /// parser.push("Hi", &mut chat);
    /// assert_eq!(chat.deltas().collect::<Vec<_>>(), [Delta::Content("Hi")]);
    /// ```
    pub fn deltas(&self) -> impl Iterator<Item = Delta<'_>> {
        self.deltas_with_spans().map(|(delta, _)| delta)
    }

    /// The deltas, each with the span of the input that it came from; that of arguments has the tags between them too.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Parser, Request};
    ///
    /// let (mut parser, mut chat) = (Parser::new(Request::new()), Chat::default());
    /// parser.push_token("Hi", 19_180, &mut chat);
    /// let (_, span) = chat.deltas_with_spans().next().unwrap();
    /// assert_eq!((span.bytes.clone(), span.tokens.clone()), (0..2, Some(0..1)));
    /// ```
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
                PartKind::CallEnd { index, complete } => Delta::CallEnd { index, complete },
            };
            (delta, &part.span)
        })
    }

    /// Forgets the deltas; keeps the message and the allocations.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Parser, Request};
    ///
    /// let (mut parser, mut chat) = (Parser::new(Request::new()), Chat::default());
    /// parser.push("Hi", &mut chat);
    /// chat.clear();
    /// assert_eq!((chat.deltas().count(), &*chat.message().unwrap().content), (0, "Hi"));
    /// ```
    pub fn clear(&mut self) {
        self.text.clear();
        self.parts.clear();
    }

    /// The message so far, if it is assembled. It is final after the parser's finish.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Parser, Request};
    ///
    /// let (mut parser, mut chat) = (Parser::new(Request::new()), Chat::default());
    /// parser.push("Hi", &mut chat);
    /// assert_eq!(chat.message().unwrap().content, "Hi");
    /// ```
    pub fn message(&self) -> Option<&Message> {
        self.message.as_ref()
    }

    /// The message, if it was assembled.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Message};
    ///
    /// assert_eq!(Chat::default().into_message(), Some(Message::new()));
    /// ```
    pub fn into_message(self) -> Option<Message> {
        self.message
    }

    pub(crate) fn set_ids(&mut self, ids: IdPolicy) {
        self.ids = ids;
    }

    fn part(&mut self, kind: PartKind, text: &str, span: Span) {
        self.text.push_str(text);
        let end = self.text.len();
        match self.parts.last_mut() {
            // What is between two parts of an answer made neither of them; what is between two arguments made both.
            Some(last) if last.kind == kind && (kind.is_call() || last.span.bytes.end == span.bytes.start) => {
                last.end = end;
                last.span.extend(&span);
            }
            _ => self.parts.push(Part { kind, end, span }),
        }
    }
}

impl Sink for Chat {
    #[inline]
    fn event(&mut self, event: Event<'_>, span: Span) {
        match event {
            Event::Reasoning(text) => self.reasoning(text, span),
            Event::Content(text) => self.content(text, span),
            Event::CallStart { call, name } => self.call_start(call, name, span),
            Event::CallEnd { call, json, complete } => {
                let end = span.end();
                self.arguments(call, json, span);
                self.call_end(call, complete, end);
            }
            Event::Start(Channel::Think) => self.silent = !self.thinks,
            // Only here is it sure: where reasoning is not told from content, the channel's text is content.
            Event::End(Channel::Think) if self.silent => self.reasoning("", span.start()),
            _ => {
                if let Some((call, json)) = event.json() {
                    self.arguments(call, json, span);
                }
            }
        }
    }

    fn reasoning(&mut self, text: &str, span: Span) {
        (self.silent, self.thinks) = (false, true);
        self.part(PartKind::Reasoning, text, span);
        if let Some(message) = &mut self.message {
            message.push_reasoning(text);
        }
    }

    fn content(&mut self, text: &str, span: Span) {
        self.silent = false;
        self.part(PartKind::Content, text, span);
        if let Some(message) = &mut self.message {
            message.push_content(text);
        }
    }

    fn call_start(&mut self, call: usize, name: &str, span: Span) {
        let id = self.ids.mint(name, call);
        self.text.push_str(&id);
        self.part(PartKind::CallStart { index: call, id: id.len() }, name, span);
        if let Some(message) = &mut self.message {
            message.push_tool_call(ToolCall { id, name: name.into(), ..ToolCall::default() });
        }
    }

    fn arguments(&mut self, call: usize, json: &str, span: Span) {
        if json.is_empty() {
            return;
        }
        self.part(PartKind::Arguments { index: call }, json, span);
        if let Some(tool_call) = self.message.as_mut().and_then(|message| message.tool_calls.get_mut(call)) {
            tool_call.arguments.push_str(json);
        }
    }

    fn call_end(&mut self, call: usize, complete: bool, span: Span) {
        self.part(PartKind::CallEnd { index: call, complete }, "", span);
        if let Some(tool_call) = self.message.as_mut().and_then(|message| message.tool_calls.get_mut(call)) {
            tool_call.complete = complete;
        }
    }
}
