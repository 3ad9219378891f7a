//! A stream as it is looked at: delta by delta, what became of each byte.
//!
//! In: a case, and how it is cut. Out: a [`Step`] for each delta and one for the end, as JSON; the page that draws them is
//! [`JS`] and [`CSS`]. Held: the parser, the input that is undecided, the message.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, Write};
use std::iter;

use bytes::BytesMut;
use kimi_xtml::{
    Chat, Choice, Event, Frames, IdPolicy, Label, Message, OwnedEvent, Parser, Report, Request, Sink, Span, ToolCall,
    coalesce,
};
use serde::Serialize;

use crate::cases::{Case, Expected, ExpectedCall};
use crate::chunking::Chunking;
use crate::play::Delta;

/// The module that draws steps: `export function show(root, lines)`, and what goes with it.
pub const JS: &str = include_str!("view/view.js");
/// The styles of what it draws.
pub const CSS: &str = include_str!("view/view.css");

/// What one delta brought; of the last, what the end brought.
#[derive(Debug, Serialize)]
pub struct Step {
    /// Counts from 0.
    pub delta: usize,
    /// The delta's text; U+FFFD stands for what is none.
    pub text: String,
    /// The ids of its tokens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<u32>,
    /// What it decided.
    pub events: Vec<Seen>,
    /// The channel that is open after it.
    pub channel: Option<&'static str>,
    /// The text that is held back after it.
    pub held: String,
    /// The frames that a client of Chat Completions gets.
    pub frames: String,
    /// What there is only at the end.
    #[serde(flatten)]
    pub end: Option<End>,
}

/// An event with the bytes that it came from.
#[derive(Debug, Serialize)]
pub struct Seen {
    /// The event's name, with hyphens.
    pub event: &'static str,
    /// What its bytes are: the name of a label.
    pub part: &'static str,
    /// Its bytes: from, to.
    pub bytes: [u64; 2],
    /// Of a call's header: the bytes of the tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<[u64; 2]>,
    /// Its tokens, if ids are known: from, to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<[u64; 2]>,
    /// Its bytes themselves; U+FFFD stands for what is no text.
    pub raw: String,
    /// The text that it gives, if it is not the raw one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<usize>,
    /// Of an argument or call that ends: whether it is whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete: Option<bool>,
    /// Of a deviation: what it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<&'static str>,
}

/// The end of a stream.
#[derive(Debug, Serialize)]
pub struct End {
    /// The message, as the corpora write it.
    pub result: Expected,
    /// Where the bytes and tokens went.
    pub report: Report,
}

/// A parser that is watched, for one choice.
#[derive(Debug)]
pub struct Viewer {
    parser: Parser,
    watch: Watch,
    frames: Choice,
    deltas: usize,
    /// The input from the first undecided byte on, and its offset.
    input: Vec<u8>,
    start: u64,
}

#[derive(Debug)]
struct Watch {
    events: Vec<(OwnedEvent, Span)>,
    /// The spans of tools' names, in the order of their calls.
    names: VecDeque<Span>,
    chat: Chat,
    message: Chat,
}

impl Sink for Watch {
    fn event(&mut self, event: Event<'_>, span: Span) {
        self.chat.event(event, span.clone());
        self.message.event(event, span.clone());
        self.events.event(event, span);
    }

    fn call_name(&mut self, span: Span) {
        self.names.push_back(span);
    }
}

impl Viewer {
    /// Of one stream of this request.
    pub fn new(request: Request) -> Self {
        let chat = || Chat::new(IdPolicy::numbered(0));
        Viewer {
            parser: Parser::new(request),
            watch: Watch {
                events: Vec::new(),
                names: VecDeque::new(),
                chat: chat().without_message(),
                message: chat(),
            },
            frames: Frames::new("chatcmpl-0", 0, "kimi-k3").choice(0),
            deltas: 0,
            input: Vec::new(),
            start: 0,
        }
    }

    /// What a delta brings.
    pub fn push(&mut self, delta: Delta<'_>) -> Step {
        self.input.extend_from_slice(delta.input());
        delta.push(&mut self.parser, &mut self.watch);
        let ids = delta.ids().to_vec();
        let mut out = BytesMut::new();
        self.frames.write(&mut self.watch.chat, &mut out);
        self.step(delta.text().into_owned(), ids, &out)
    }

    /// What the end brings, with the engine's reason for it.
    pub fn finish(mut self, reason: &str) -> Step {
        let reason = self.parser.finish(reason, &mut self.watch).to_owned();
        let mut out = BytesMut::new();
        self.frames.write(&mut self.watch.chat, &mut out);
        self.frames.end(&reason, None, &mut out);
        let mut step = self.step(String::new(), Vec::new(), &out);
        let result = expected(self.watch.message.into_message().unwrap_or_default(), reason);
        step.end = Some(End { result, report: self.parser.report() });
        step
    }

    fn step(&mut self, text: String, ids: Vec<u32>, frames: &[u8]) -> Step {
        let events = coalesce(self.watch.events.drain(..));
        let mut decided = 0;
        let seen = events.into_iter().map(|(event, span)| {
            let [from, to] = [span.bytes.start, span.bytes.end].map(|at| (at - self.start) as usize);
            decided = decided.max(to);
            let raw = self.input.get(from..to).unwrap_or_default();
            let is_call = matches!(event, OwnedEvent::CallStart { .. });
            let name = if is_call { self.watch.names.pop_front() } else { None };
            Seen::of(&event, &span, String::from_utf8_lossy(raw).into_owned(), name)
        });
        let events = seen.collect();
        self.input.drain(..decided.min(self.input.len()));
        self.start += decided as u64;
        self.deltas += 1;
        Step {
            delta: self.deltas - 1,
            text,
            ids,
            events,
            channel: self.parser.channel().map(|channel| channel.name()),
            held: String::from_utf8_lossy(&self.input).into_owned(),
            frames: String::from_utf8_lossy(frames).into_owned(),
            end: None,
        }
    }
}

impl Seen {
    fn of(event: &OwnedEvent, span: &Span, raw: String, name: Option<Span>) -> Seen {
        let said = |text: &str| Some(text.to_owned());
        let (word, text, call, complete) = match event {
            OwnedEvent::Start(channel) => ("start", said(channel.name()), None, None),
            OwnedEvent::End(channel) => ("end", said(channel.name()), None, None),
            OwnedEvent::Reasoning(text) => ("reasoning", said(text), None, None),
            OwnedEvent::Content(text) => ("content", said(text), None, None),
            OwnedEvent::CallStart { call, name } => ("call-start", said(name), Some(*call), None),
            OwnedEvent::ArgumentStart { call, json, .. } => ("argument-start", said(json), Some(*call), None),
            OwnedEvent::Arguments { call, json } => ("arguments", said(json), Some(*call), None),
            OwnedEvent::ArgumentEnd { call, json, closed } => ("argument-end", said(json), Some(*call), Some(*closed)),
            OwnedEvent::CallEnd { call, json, complete } => ("call-end", said(json), Some(*call), Some(*complete)),
            OwnedEvent::Withheld(_) => ("withheld", None, None, None),
            OwnedEvent::Dropped(_) => ("dropped", None, None, None),
            OwnedEvent::Diagnostic(code) => ("diagnostic", said(code.as_str()), None, None),
            _ => ("markup", None, None, None),
        };
        Seen {
            event: word,
            part: Label::from(event.as_event().kind()).name(),
            bytes: [span.bytes.start, span.bytes.end],
            name: name.map(|name| [name.bytes.start, name.bytes.end]),
            tokens: span.tokens.as_ref().map(|tokens| [tokens.start, tokens.end]),
            text: text.filter(|text| *text != raw),
            raw,
            call,
            complete,
            meaning: if let OwnedEvent::Diagnostic(code) = event { Some(code.meaning()) } else { None },
        }
    }
}

/// Plays a case under a chunking, and gives its steps; of several choices, the first.
///
/// # Errors
/// The first that `each` gives.
pub fn play<E>(case: &Case, chunking: Chunking, mut each: impl FnMut(Step) -> Result<(), E>) -> Result<(), E> {
    let mut viewer = Viewer::new(case.context.request());
    deltas(case, chunking, |delta| each(viewer.push(delta)))?;
    each(viewer.finish(&case.context.engine_finish_reason))
}

/// What comes of a case under a chunking, without its steps.
pub fn result(case: &Case, chunking: Chunking) -> Expected {
    let (mut parser, mut chat) = (Parser::new(case.context.request()), Chat::new(IdPolicy::numbered(0)));
    let played = deltas(case, chunking, |delta| {
        delta.push(&mut parser, &mut chat);
        chat.clear();
        Ok::<_, Infallible>(())
    });
    let Ok(()) = played;
    let reason = parser.finish(&case.context.engine_finish_reason, &mut chat).to_owned();
    expected(chat.into_message().unwrap_or_default(), reason)
}

fn expected(message: Message, reason: String) -> Expected {
    let call =
        |call: ToolCall| ExpectedCall { name: call.name, arguments_json: call.arguments, complete: call.complete };
    Expected {
        reasoning: message.reasoning,
        content: message.content,
        tool_calls: message.tool_calls.into_iter().map(call).collect(),
        finish_reason: Some(reason),
    }
}

/// Writes the view of a case as it was recorded: one file of HTML that needs nothing else.
///
/// # Errors
/// What the writer says.
pub fn html(case: &Case, mut out: impl Write) -> io::Result<()> {
    let mut rest = include_str!("view/standalone.html");
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        out.write_all(before.as_bytes())?;
        match name {
            "title" => out.write_all(escaped(&case.id).as_bytes())?,
            "css" => out.write_all(CSS.as_bytes())?,
            "js" => out.write_all(JS.as_bytes())?,
            _ => {
                let mut comma = "";
                play(case, Chunking::AsGiven, |step| {
                    // In a script no text may end it or begin a comment.
                    let json = serde_json::to_string(&step).map_err(io::Error::from)?.replace('<', "\\u003c");
                    write!(out, "{comma}{json}")?;
                    comma = ",\n";
                    Ok::<_, io::Error>(())
                })?;
            }
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

/// Text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The deltas of a case, cut otherwise; of several choices, the first's. Where ids are known, deltas are joined and not cut,
/// since which text is whose is not known.
fn deltas<E>(case: &Case, chunking: Chunking, mut each: impl FnMut(Delta<'_>) -> Result<(), E>) -> Result<(), E> {
    let given: Vec<Delta<'_>> =
        case.deltas().into_iter().filter(|(choice, _)| *choice == 0).map(|(_, one)| one).collect();
    if chunking == Chunking::AsGiven {
        return given.into_iter().try_for_each(each);
    }
    let cut = |lens: &mut dyn Iterator<Item = usize>, boundary: &dyn Fn(usize) -> bool| {
        let given: Vec<usize> = lens
            .scan(0, |end, len| {
                *end += len;
                Some(*end)
            })
            .collect();
        let ends = chunking.ends(&given, boundary);
        iter::once(0).chain(ends.clone()).zip(ends)
    };
    match given.first() {
        Some(Delta::Ids(..)) => {
            for (from, to) in cut(&mut given.iter().map(|_| 1), &|_| true) {
                let text: String = given[from..to].iter().map(|delta| delta.text()).collect();
                let ids: Vec<u32> = given[from..to].iter().flat_map(|delta| delta.ids()).copied().collect();
                each(Delta::Ids(&text, &ids))?;
            }
        }
        Some(Delta::Bytes(_)) => {
            let bytes: Vec<u8> = given.iter().flat_map(|delta| delta.input()).copied().collect();
            for (from, to) in cut(&mut given.iter().map(|delta| delta.input().len()), &|_| true) {
                each(Delta::Bytes(&bytes[from..to]))?;
            }
        }
        _ => {
            let text: String = given.iter().map(|delta| delta.text()).collect();
            for (from, to) in cut(&mut given.iter().map(|delta| delta.input().len()), &|at| text.is_char_boundary(at)) {
                each(Delta::Text(&text[from..to]))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    const STREAM: &str = r#"{"id":"V1","context":{"tools":["ls"],"initial_channel":"think"},"chunks":["Hm.<|close|>th",
"ink<|sep|><|open|>response<|sep|>Hé<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"ls\" index=\"1\"",
"<|sep|><|open|>argument key=\"p\" type=\"string\"<|sep|>a\"b<|close|>argument<|sep|><|close|>call<|sep|>?<|close|>tools<|sep|>"]}"#;

    fn case() -> Case {
        cases::read_from(STREAM.replace('\n', "").as_bytes(), "test").unwrap().remove(0)
    }

    fn steps(case: &Case, chunking: Chunking) -> Vec<Step> {
        let mut steps = Vec::new();
        play(case, chunking, |step| {
            steps.push(step);
            Ok::<_, ()>(())
        })
        .unwrap();
        steps
    }

    #[test]
    fn every_byte_is_shown_once_under_every_chunking() {
        let text = case().chunks.unwrap().concat();
        let whole = steps(&case(), Chunking::Whole);
        for chunking in Chunking::all() {
            let steps = steps(&case(), chunking);
            let mut shown = String::new();
            let mut given = String::new();
            for step in &steps {
                step.events.iter().for_each(|seen| shown += &seen.raw);
                given += &step.text;
                assert_eq!(shown.clone() + &step.held, given, "{chunking}");
            }
            assert_eq!(shown, text, "{chunking}");
            let result =
                |steps: &[Step]| serde_json::to_string(&steps.last().unwrap().end.as_ref().unwrap().result).unwrap();
            assert_eq!(result(&steps), result(&whole), "{chunking}");
            assert_eq!(serde_json::to_string(&super::result(&case(), chunking)).unwrap(), result(&whole), "{chunking}");
        }
    }

    #[test]
    fn a_file_of_html_needs_nothing_else_and_runs_nothing_of_the_stream() {
        let mut case = case();
        case.id = "<b>".into();
        case.chunks = Some(vec!["</script><script>alert(1)</script><!--".into()]);
        let mut page = Vec::new();
        html(&case, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("<title>&lt;b&gt;</title>") && !page.contains("{{"));
        assert!(!page.contains("</script><script>") && !page.contains("<!--"));
        let json = page.split_once("id=\"steps\">").unwrap().1.split_once("</script>").unwrap().0;
        let steps: Vec<serde_json::Value> = serde_json::from_str(json).unwrap();
        assert_eq!(steps[0]["text"], "</script><script>alert(1)</script><!--");
        assert!(steps.last().unwrap()["result"].is_object());
    }

    #[test]
    fn parts_names_and_deviations_are_told() {
        let steps = steps(&case(), Chunking::AsGiven);
        assert_eq!(steps[0].held, "<|close|>th");
        assert_eq!(steps[0].channel, Some("think"));
        let seen: Vec<&Seen> = steps.iter().flat_map(|step| &step.events).collect();
        let of = |word: &str| *seen.iter().find(|seen| seen.event == word).unwrap();
        assert_eq!(of("reasoning").part, "reasoning");
        let call = of("call-start");
        let [from, to] = call.name.unwrap().map(|at| (at - call.bytes[0]) as usize);
        assert_eq!(&call.raw[from..to], "ls");
        let value = of("arguments");
        assert_eq!((&*value.raw, value.text.as_deref()), ("a\"b", Some("a\\\"b")));
        assert_eq!(of("call-end").complete, Some(true));
        assert!(of("diagnostic").meaning.unwrap().contains("dropped"));
        assert!(steps[1].frames.contains(r#""content":"Hé""#), "{}", steps[1].frames);
        let result = &steps.last().unwrap().end.as_ref().unwrap().result;
        assert_eq!(result.finish_reason.as_deref(), Some("tool_calls"));
    }
}
