//! A stream played through a parser, and watched.
//!
//! In: deltas of every kind that a parser takes. Out: the message, and each rule that was broken on the way: spans that do
//! not cover the input in order, text that is not its span's, counts that do not add up, frames that are no JSON or do
//! not give the message. Held: the input, the message and its twin from the frames.

use std::borrow::Cow;

use bytes::BytesMut;
use kimi_xtml::{Chat, Choice, Counts, Event, Frames, IdPolicy, Kind, Marker, Message, Parser, Request, Sink, Span};
use serde::Deserialize;

/// A part of a stream.
#[derive(Clone, Copy, Debug)]
pub enum Delta<'a> {
    /// Text.
    Text(&'a str),
    /// Text, as bytes.
    Bytes(&'a [u8]),
    /// Text and ids of tokens.
    Ids(&'a str, &'a [u32]),
    /// One token.
    Token(u32, &'a str),
}

impl<'a> Delta<'a> {
    /// Pushes the delta into a parser.
    pub fn push(self, parser: &mut Parser, sink: &mut impl Sink) {
        match self {
            Delta::Text(text) => parser.push(text, sink),
            Delta::Bytes(bytes) => parser.push_bytes(bytes, sink),
            Delta::Ids(text, ids) => parser.push_with_ids(text, ids, sink),
            Delta::Token(id, text) => parser.push_token(text, id, sink),
        }
    }

    /// The ids of its tokens, where they are known.
    pub fn ids(&self) -> &[u32] {
        match self {
            Delta::Ids(_, ids) => ids,
            Delta::Token(id, _) => std::slice::from_ref(id),
            Delta::Text(_) | Delta::Bytes(_) => &[],
        }
    }

    /// The delta's text; U+FFFD stands for what is none.
    pub fn text(self) -> Cow<'a, str> {
        match self {
            Delta::Text(text) | Delta::Ids(text, _) | Delta::Token(_, text) => Cow::Borrowed(text),
            Delta::Bytes(bytes) => String::from_utf8_lossy(bytes),
        }
    }

    /// The bytes that the parser counts for it.
    pub fn input(self) -> &'a [u8] {
        match self {
            Delta::Text(text) | Delta::Ids(text, _) => text.as_bytes(),
            Delta::Bytes(bytes) => bytes,
            Delta::Token(id, text) => Marker::from_id(id).map_or(text, |marker| marker.spelling()).as_bytes(),
        }
    }

    /// The tokens that are known of the delta; without ids it counts as one.
    pub fn tokens(self) -> usize {
        if let Delta::Ids(_, ids) = self { ids.len() } else { 1 }
    }
}

/// What came of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The reasoning.
    pub reasoning: String,
    /// The answer.
    pub content: String,
    /// The calls.
    pub tool_calls: Vec<Call>,
    /// The finish reason.
    pub finish_reason: String,
}

/// A call that came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub arguments: String,
    /// Whether the call is whole.
    pub complete: bool,
}

impl Outcome {
    /// A message and the reason for which it ended.
    pub fn new(message: Message, reason: &str) -> Self {
        let call =
            |call: kimi_xtml::ToolCall| Call { name: call.name, arguments: call.arguments, complete: call.complete };
        Outcome {
            reasoning: message.reasoning,
            content: message.content,
            tool_calls: message.tool_calls.into_iter().map(call).collect(),
            finish_reason: reason.to_owned(),
        }
    }
}

/// A parser at work on one stream, and watched.
#[derive(Debug)]
pub struct Player {
    parser: Parser,
    watch: Watch,
    choice: Choice,
    frames: BytesMut,
    heard: Heard,
}

impl Player {
    /// A player of one stream of this request.
    pub fn new(request: Request) -> Self {
        Player {
            parser: Parser::new(request),
            watch: Watch::default(),
            choice: Frames::new("chatcmpl-0", 0, "kimi-k3").choice(0),
            frames: BytesMut::new(),
            heard: Heard::default(),
        }
    }

    /// Plays a delta.
    pub fn push(&mut self, delta: Delta<'_>) {
        self.watch.compares &= !matches!(delta, Delta::Bytes(_));
        self.watch.input.extend_from_slice(delta.input());
        self.watch.tokens += if let Delta::Text(_) | Delta::Bytes(_) = delta { 0 } else { delta.tokens() as u64 };
        delta.push(&mut self.parser, &mut self.watch);
        self.choice.write(&mut self.watch.chat, &mut self.frames);
        self.heard.hear(&self.frames);
        self.frames.clear();
    }

    /// Ends the stream. Gives what came of it, and each rule that was broken.
    pub fn finish(mut self, reason: &str) -> (Outcome, Vec<String>) {
        let reason = self.parser.finish(reason, &mut self.watch);
        self.choice.write(&mut self.watch.chat, &mut self.frames);
        self.choice.end(reason, None, &mut self.frames);
        self.heard.hear(&self.frames);

        let mut faults = std::mem::take(&mut self.watch.faults);
        faults.extend(self.watch.accounts(&self.parser));
        let message = self.watch.chat.into_message().unwrap_or_default();
        let outcome = Outcome::new(message, reason);
        faults.extend(self.heard.faults(&outcome));
        (outcome, faults)
    }
}

/// Follows the events.
#[derive(Debug)]
struct Watch {
    chat: Chat,
    input: Vec<u8>,
    /// Whether the input is text, and texts are compared with it.
    compares: bool,
    /// Where the next span begins.
    next: u64,
    counts: Counts,
    /// Tokens that came in.
    tokens: u64,
    faults: Vec<String>,
}

impl Default for Watch {
    fn default() -> Self {
        Watch {
            chat: Chat::new(IdPolicy::numbered(0)),
            input: Vec::new(),
            compares: true,
            next: 0,
            counts: Counts::default(),
            tokens: 0,
            faults: Vec::new(),
        }
    }
}

impl Sink for Watch {
    fn event(&mut self, event: Event<'_>, span: Span) {
        let (start, end) = (span.bytes.start, span.bytes.end);
        if start != self.next || end < start || end > self.input.len() as u64 {
            self.faults.push(format!("the span {start}..{end} does not follow {} in {}", self.next, self.input.len()));
        } else if self.compares
            && let Some(text) = raw(&event)
            && text.as_bytes() != &self.input[start as usize..end as usize]
        {
            self.faults.push(format!("the text at {start}..{end} is not what came in there"));
        }
        self.next = end;
        self.count(event.kind(), end.saturating_sub(start));
        self.chat.event(event, span);
    }
}

impl Watch {
    fn count(&mut self, kind: Kind, bytes: u64) {
        self.counts.input += bytes;
        *match kind {
            Kind::Reasoning => &mut self.counts.reasoning,
            Kind::Content => &mut self.counts.content,
            Kind::Arguments => &mut self.counts.arguments,
            Kind::Markup => &mut self.counts.markup,
            Kind::Withheld => &mut self.counts.withheld,
            Kind::Dropped => &mut self.counts.dropped,
            // What is of no known kind shows as a difference of the sums.
            _ => return,
        } += bytes;
    }

    /// What is not right in the parser's report.
    fn accounts(&self, parser: &Parser) -> Vec<String> {
        let (report, len) = (parser.report(), self.input.len() as u64);
        let mut faults = Vec::new();
        if report.bytes != self.counts || report.bytes.input != len || self.next != len {
            let spans = self.counts;
            faults
                .push(format!("the input of {len} bytes is counted as {:?}, and its spans as {spans:?}", report.bytes));
        }
        if report.tokens.is_some_and(|tokens| tokens.input != self.tokens || sum(&tokens) != self.tokens) {
            faults.push(format!("the input of {} tokens is counted as {:?}", self.tokens, report.tokens));
        }
        if report.examined > 2 * len {
            faults.push(format!("lexing looked at {} bytes, more than twice the input of {len}", report.examined));
        }
        faults
    }
}

fn sum(counts: &Counts) -> u64 {
    counts.reasoning + counts.content + counts.arguments + counts.markup + counts.withheld + counts.dropped
}

/// The text of an event that stands in the input as it is.
fn raw<'a>(event: &Event<'a>) -> Option<&'a str> {
    match *event {
        Event::Reasoning(text)
        | Event::Content(text)
        | Event::Withheld(text)
        | Event::Markup(text)
        | Event::Dropped(text) => Some(text),
        _ => None,
    }
}

/// What a client makes of the frames.
#[derive(Debug, Default)]
struct Heard {
    message: Message,
    reason: Option<String>,
    /// The first.
    fault: Option<String>,
}

#[derive(Deserialize)]
struct Frame {
    choices: Vec<FrameChoice>,
}

#[derive(Deserialize)]
struct FrameChoice {
    delta: FrameDelta,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FrameDelta {
    reasoning_content: String,
    content: String,
    tool_calls: Vec<FrameCall>,
}

#[derive(Deserialize)]
struct FrameCall {
    index: usize,
    id: Option<String>,
    function: FrameFunction,
}

#[derive(Deserialize)]
struct FrameFunction {
    name: Option<String>,
    arguments: String,
}

impl Heard {
    /// Takes frames, and keeps the first fault.
    fn hear(&mut self, frames: &[u8]) {
        for frame in frames.split_inclusive(|&byte| byte == b'\n').filter(|line| *line != b"\n") {
            let json = frame.strip_prefix(b"data: ").unwrap_or(frame);
            match serde_json::from_slice::<Frame>(json) {
                Ok(frame) => frame.choices.into_iter().for_each(|choice| self.choice(choice)),
                Err(error) => {
                    let text = String::from_utf8_lossy(frame);
                    self.fault.get_or_insert_with(|| format!("a frame is no JSON: {error}: {text}"));
                }
            }
        }
    }

    fn choice(&mut self, choice: FrameChoice) {
        self.reason = choice.finish_reason.or(self.reason.take());
        self.message.reasoning += &choice.delta.reasoning_content;
        self.message.content += &choice.delta.content;
        for call in choice.delta.tool_calls {
            let calls = &mut self.message.tool_calls;
            if let (Some(id), Some(name)) = (call.id, call.function.name) {
                calls.push(kimi_xtml::ToolCall::new(name, "").with_id(id));
            }
            match calls.get_mut(call.index) {
                Some(known) => known.arguments += &call.function.arguments,
                None => self.fault = Some(format!("a frame continues call {}, which none began", call.index)),
            }
        }
    }

    /// What the frames did not tell of the outcome. They do not tell whether a call is whole.
    fn faults(mut self, outcome: &Outcome) -> Option<String> {
        for (call, known) in self.message.tool_calls.iter_mut().zip(&outcome.tool_calls) {
            call.complete = known.complete;
        }
        let heard = Outcome::new(self.message, &self.reason.unwrap_or_default());
        self.fault.or_else(|| (heard != *outcome).then(|| format!("the frames give another message: {heard:?}")))
    }
}
