//! The formats that `parse` and `replay` print.
//!
//! In: events, through a sink. Out: lines, as they arrive (`events`, `chat`, `sse`) or at the end (`message`). Held: what
//! was not written yet; for `message`, the message.

use std::io::{self, Write};

use bytes::BytesMut;
use kimi_xtml::{Chat, Choice, Code, Delta, Event, Frames, IdPolicy, Parser, Report, Sink, Span};
use serde::Serialize;

/// A format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object: the message, what deviated, and where each byte went.
    #[default]
    Message,
    /// A JSON object for each event.
    Events,
    /// A Chat Completions delta a line.
    Chat,
    /// Server-sent frames.
    Sse,
}

impl Format {
    /// Writes what ends the streams of a request, after all of them.
    ///
    /// # Errors
    /// What `out` gives.
    pub fn end(self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        if self == Format::Sse {
            frames().done(&mut bytes);
        }
        out.write_all(&bytes)
    }
}

fn frames() -> Frames {
    Frames::new("chatcmpl-0", 0, "kimi-k3")
}

/// Takes the events of one stream, and writes them in a format.
#[derive(Debug)]
pub struct Output {
    form: Form,
    record: Option<String>,
}

#[derive(Debug)]
enum Form {
    Message(Chat, Vec<Noted>),
    Events(Vec<u8>),
    Chat(Chat),
    Sse(Chat, Choice, BytesMut),
}

impl Output {
    /// An output in this format; frames are those of choice `index`. They carry a fixed id and time, so that outputs
    /// compare.
    pub fn new(format: Format, ids: IdPolicy, index: usize) -> Self {
        let form = match format {
            Format::Message => Form::Message(Chat::new(ids), Vec::new()),
            Format::Events => Form::Events(Vec::new()),
            Format::Chat => Form::Chat(Chat::new(ids).without_message()),
            Format::Sse => Form::Sse(Chat::new(ids).without_message(), frames().choice(index), BytesMut::new()),
        };
        Output { form, record: None }
    }

    /// Names the record that the stream is of, in the formats that have a place for it.
    #[must_use]
    pub fn record(mut self, id: &str) -> Self {
        self.record = Some(id.to_owned());
        self
    }

    /// Writes what came since the last time.
    ///
    /// # Errors
    /// What `out` gives.
    pub fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        match &mut self.form {
            Form::Message(chat, _) => chat.clear(),
            Form::Events(lines) => {
                out.write_all(lines)?;
                lines.clear();
            }
            Form::Chat(chat) => {
                for delta in chat.deltas().filter(|delta| !matches!(delta, Delta::CallEnd { .. })) {
                    line(out, &delta)?;
                }
                chat.clear();
            }
            Form::Sse(chat, choice, frames) => {
                choice.write(chat, frames);
                out.write_all(frames)?;
                frames.clear();
            }
        }
        Ok(())
    }

    /// Writes the rest, after the parser's finish gave `reason`.
    ///
    /// # Errors
    /// What `out` gives.
    pub fn finish(mut self, parser: &Parser, reason: &str, out: &mut impl Write) -> io::Result<()> {
        self.write(out)?;
        let report = parser.report();
        match self.form {
            Form::Message(chat, noted) => {
                line(out, &MessageLine::new(self.record.as_deref(), chat, noted, reason, &report))
            }
            Form::Events(_) => {
                let end = report.bytes.input;
                line(out, &EventLine { event: Line::Finish { finish_reason: reason }, span: [end, end], tokens: None })
            }
            Form::Chat(_) => Ok(()),
            Form::Sse(_, mut choice, mut bytes) => {
                choice.end(reason, None, &mut bytes);
                out.write_all(&bytes)
            }
        }
    }
}

impl Sink for Output {
    fn event(&mut self, event: Event<'_>, span: Span) {
        match &mut self.form {
            Form::Message(chat, noted) => {
                if let Event::Diagnostic(code) = event {
                    noted.push(Noted { code: code.as_str(), at: span.bytes.start });
                }
                chat.event(event, span);
            }
            Form::Events(lines) => {
                let line_of = EventLine {
                    event: Line::from(event),
                    span: [span.bytes.start, span.bytes.end],
                    tokens: span.tokens.map(|tokens| [tokens.start, tokens.end]),
                };
                line(lines, &line_of).expect("memory takes what is written");
            }
            Form::Chat(chat) | Form::Sse(chat, ..) => chat.event(event, span),
        }
    }
}

fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

#[derive(Debug, Serialize)]
struct Noted {
    code: &'static str,
    at: u64,
}

#[derive(Serialize)]
struct MessageLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<&'a str>,
    reasoning: String,
    content: String,
    tool_calls: Vec<CallLine>,
    finish_reason: &'a str,
    diagnostics: Vec<Noted>,
    bytes: Bytes,
}

#[derive(Serialize)]
struct CallLine {
    id: String,
    name: String,
    arguments: String,
    complete: bool,
}

#[derive(Serialize)]
struct Bytes {
    input: u64,
    reasoning: u64,
    content: u64,
    arguments: u64,
    markup: u64,
    withheld: u64,
    dropped: u64,
}

impl<'a> MessageLine<'a> {
    fn new(record: Option<&'a str>, chat: Chat, mut noted: Vec<Noted>, reason: &'a str, report: &Report) -> Self {
        // These two have no event.
        let silent =
            report.diagnostics.iter().filter(|met| matches!(met.code, Code::InvalidUtf8 | Code::IdWithoutText));
        noted.extend(silent.map(|met| Noted { code: met.code.as_str(), at: met.first }));
        noted.sort_by_key(|met| met.at);

        let message = chat.into_message().unwrap_or_default();
        let call = |call: kimi_xtml::ToolCall| CallLine {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
            complete: call.complete,
        };
        let bytes = report.bytes;
        MessageLine {
            record,
            reasoning: message.reasoning,
            content: message.content,
            tool_calls: message.tool_calls.into_iter().map(call).collect(),
            finish_reason: reason,
            diagnostics: noted,
            bytes: Bytes {
                input: bytes.input,
                reasoning: bytes.reasoning,
                content: bytes.content,
                arguments: bytes.arguments,
                markup: bytes.markup,
                withheld: bytes.withheld,
                dropped: bytes.dropped,
            },
        }
    }
}

#[derive(Serialize)]
struct EventLine<'a> {
    #[serde(flatten)]
    event: Line<'a>,
    span: [u64; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<[u64; 2]>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Line<'a> {
    Start { channel: &'a str },
    Reasoning { text: &'a str },
    Content { text: &'a str },
    CallStart { call: usize, name: &'a str },
    ArgumentStart { call: usize, key: Option<&'a str>, kind: &'a str, json: &'a str },
    Arguments { call: usize, json: &'a str },
    ArgumentEnd { call: usize, json: &'a str, closed: bool },
    CallEnd { call: usize, json: &'a str, complete: bool },
    End { channel: &'a str },
    Withheld { text: &'a str },
    Markup { text: &'a str },
    Dropped { text: &'a str },
    Diagnostic { code: &'a str },
    Finish { finish_reason: &'a str },
}

impl<'a> From<Event<'a>> for Line<'a> {
    fn from(event: Event<'a>) -> Self {
        match event {
            Event::Start(channel) => Line::Start { channel: channel.name() },
            Event::Reasoning(text) => Line::Reasoning { text },
            Event::Content(text) => Line::Content { text },
            Event::CallStart { call, name } => Line::CallStart { call, name },
            Event::ArgumentStart { call, key, kind, json } => {
                Line::ArgumentStart { call, key, kind: kind.name(), json }
            }
            Event::Arguments { call, json } => Line::Arguments { call, json },
            Event::ArgumentEnd { call, json, closed } => Line::ArgumentEnd { call, json, closed },
            Event::CallEnd { call, json, complete } => Line::CallEnd { call, json, complete },
            Event::End(channel) => Line::End { channel: channel.name() },
            Event::Withheld(text) => Line::Withheld { text },
            Event::Markup(text) => Line::Markup { text },
            Event::Dropped(text) => Line::Dropped { text },
            Event::Diagnostic(code) => Line::Diagnostic { code: code.as_str() },
            // This program is built with the library: one that has more has a line for it.
            other => unreachable!("no line for {other:?}"),
        }
    }
}
