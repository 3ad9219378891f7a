//! Shapes of streams: what a model generates, as long as one likes, and the message that must come of it.
//!
//! In: a shape, a length in bytes, the number of a variant. Out: the text, where its control tokens stand, and the
//! answer that it was made from. The token that ends the generation is left away, as engines do.

use fastrand::Rng;
use kimi_xtml::{Channel, Event, Marker, Request, Sink, Span};
use serde_json::Value;

use crate::text;

/// What a parser must make of a stream.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The reasoning.
    pub reasoning: String,
    /// The answer proper.
    pub content: String,
    /// Each call's name and arguments.
    pub calls: Vec<(String, String)>,
}

impl PartialEq for Answer {
    /// Arguments are equal if they are the same JSON value.
    fn eq(&self, other: &Answer) -> bool {
        let value = |json: &str| serde_json::from_str::<Value>(json).ok();
        let same = |a: &str, b: &str| a == b || value(a).is_some_and(|a| Some(a) == value(b));
        (&self.reasoning, &self.content, self.calls.len()) == (&other.reasoning, &other.content, other.calls.len())
            && self.calls.iter().zip(&other.calls).all(|(a, b)| a.0 == b.0 && same(&a.1, &b.1))
    }
}

impl Sink for Answer {
    fn event(&mut self, event: Event<'_>, _: Span) {
        match event {
            Event::Reasoning(text) => self.reasoning += text,
            Event::Content(text) => self.content += text,
            Event::CallStart { name, .. } => self.calls.push((name.to_owned(), String::new())),
            event => {
                if let Some((call, json)) = event.json() {
                    self.calls[call].1 += json;
                }
            }
        }
    }
}

/// How a stream is cut into deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// So many bytes, and those that complete the last character.
    Bytes(usize),
    /// Tokens: control tokens, words with the blank before them, three digits, and the like.
    Tokens,
    /// Not at all.
    Whole,
}

impl Cut {
    /// The cuts that are measured.
    pub const ALL: [Cut; 5] = [Cut::Bytes(4), Cut::Tokens, Cut::Bytes(64), Cut::Bytes(1024), Cut::Whole];

    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Cut::Bytes(1024) => "1 KB".into(),
            Cut::Bytes(bytes) => format!("{bytes} B"),
            Cut::Tokens => "token".into(),
            Cut::Whole => "whole".into(),
        }
    }
}

/// A token: its id and its text. Ids that parsers look for are real, others are made up.
pub type Token<'a> = (u32, &'a str);

/// A stream, and what it was made from.
#[derive(Clone, Debug)]
pub struct Stream {
    /// What the parser is told of the request.
    pub request: Request,
    /// All that is generated.
    pub text: String,
    /// What must come of it.
    pub answer: Answer,
    /// The control tokens and where they stand; whatever else spells one is text.
    markers: Vec<(usize, Marker)>,
}

impl Stream {
    /// The text in deltas.
    pub fn cut(&self, cut: Cut) -> Vec<&str> {
        let bytes = match cut {
            Cut::Bytes(bytes) => bytes,
            Cut::Tokens => return self.tokens().into_iter().map(|(_, text)| text).collect(),
            Cut::Whole => self.text.len(),
        };
        let mut rest = &self.text[..];
        let mut deltas = Vec::new();
        while !rest.is_empty() {
            let delta;
            (delta, rest) = rest.split_at(rest.ceil_char_boundary(bytes));
            deltas.push(delta);
        }
        deltas
    }

    /// The text in tokens.
    pub fn tokens(&self) -> Vec<Token<'_>> {
        let mut tokens = Vec::new();
        let mut at = 0;
        for &(start, marker) in &self.markers {
            words(&self.text[at..start], &mut tokens);
            at = start + marker.spelling().len();
            tokens.push((marker.id(), &self.text[start..at]));
        }
        words(&self.text[at..], &mut tokens);
        tokens
    }
}

/// Tokens whose ids parsers look for: the tags' names, and those that a quoted marker is written in.
const KNOWN: [Token<'static>; 13] = [
    (39_964, "think"),
    (12_092, "response"),
    (25_385, "tools"),
    (10_257, "call"),
    (47_185, "argument"),
    (5_534, "json"),
    (2_778, "message"),
    (27, "<"),
    (91, "|"),
    (29, ">"),
    (4_454, "open"),
    (10_794, "close"),
    (40_433, "sep"),
];

/// The characters of a token are of one class. The first part is how many there may be.
fn class(c: char) -> (usize, bool) {
    match c {
        '<' | '|' | '>' => (1, false),
        _ if c.is_alphabetic() => (8, false),
        _ if c.is_ascii_digit() => (3, true),
        _ if c.is_whitespace() => (16, false),
        _ => (3, false),
    }
}

/// Text in what resembles tokens.
fn words<'a>(mut text: &'a str, tokens: &mut Vec<Token<'a>>) {
    while !text.is_empty() {
        let blank = usize::from(text.starts_with(' ') && text[1..].starts_with(char::is_alphabetic));
        let first = text[blank..].chars().next().map(class);
        let most = first.map_or(1, |(most, _)| most);
        let mut run = text[blank..].char_indices().skip(1);
        let end = run.find(|&(at, c)| at >= most || Some(class(c)) != first).map_or(text.len(), |(at, _)| blank + at);
        let token;
        (token, text) = text.split_at(end);
        let known = KNOWN.iter().find(|(_, known)| *known == token);
        let hash = token.bytes().fold(7, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        tokens.push(known.copied().unwrap_or((1_000 + hash % 4_000, token)));
    }
}

/// A stream in the making.
#[derive(Default)]
struct Wire {
    text: String,
    markers: Vec<(usize, Marker)>,
    answer: Answer,
}

impl Wire {
    fn marker(&mut self, marker: Marker) {
        self.markers.push((self.text.len(), marker));
        self.text += marker.spelling();
    }

    fn open(&mut self, header: &str) {
        self.marker(Marker::Open);
        self.text += header;
        self.marker(Marker::Sep);
    }

    fn close(&mut self, name: &str) {
        self.marker(Marker::Close);
        self.text += name;
        self.marker(Marker::Sep);
    }

    /// The reasoning, whose channel the prompt opened.
    fn think(mut self, text: &str) -> Wire {
        self.text += text;
        self.answer.reasoning += text;
        self.close("think");
        self
    }

    fn response(mut self, text: &str) -> Wire {
        self.open("response");
        self.text += text;
        self.answer.content += text;
        self.close("response");
        self
    }

    /// A section of calls, each with its name and its arguments: key, type, value.
    fn tools<'t>(mut self, calls: impl IntoIterator<Item = (&'t str, Vec<(&'t str, &'t str, String)>)>) -> Wire {
        self.open("tools");
        for (index, (name, arguments)) in calls.into_iter().enumerate() {
            self.open(&format!("call tool=\"{name}\" index=\"{}\"", index + 1));
            let mut json = String::new();
            for (key, kind, value) in arguments {
                self.open(&format!("argument key=\"{key}\" type=\"{kind}\""));
                self.text += &value;
                self.close("argument");
                let value = if kind == "string" { Value::from(value).to_string() } else { value };
                json += &format!("{}\"{key}\":{value}", if json.is_empty() { "{" } else { "," });
            }
            self.close("call");
            self.answer.calls.push((name.into(), if json.is_empty() { "{}".into() } else { json + "}" }));
        }
        self.close("tools");
        self
    }

    fn end(mut self) -> Stream {
        self.close("message");
        let request = Request::new().opened(Channel::Think).tools(["read_file", "write_file", "search"]);
        Stream { request, text: self.text, answer: self.answer, markers: self.markers }
    }
}

/// A kind of stream.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name in tables and options.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its usual length in bytes.
    pub len: usize,
    /// Whether no model means to write it.
    pub hostile: bool,
    make: fn(&mut Rng, usize) -> Stream,
}

impl Shape {
    /// The stream of about `len` bytes with this number: another text for another number.
    pub fn stream(&self, len: usize, number: u64) -> Stream {
        (self.make)(&mut Rng::with_seed(number), len)
    }

    /// As many streams of the usual length as keep a branch predictor from learning them.
    pub fn variants(&self) -> Vec<Stream> {
        let count = ((256 << 10) / self.len as u64).clamp(2, 32);
        (0..count).map(|number| self.stream(self.len, number)).collect()
    }
}

/// The shape with this name.
pub fn shape(name: &str) -> Option<&'static Shape> {
    SHAPES.iter().find(|shape| shape.name == name)
}

const K: usize = 1 << 10;

/// All shapes.
pub const SHAPES: &[Shape] = &[
    usual("turn", 800, "a word problem solved: reasoning and answer", turn),
    usual("agent", 2 * K, "a turn of an agent: reasoning, three calls with three arguments each", agent),
    usual("reasoning", K * K, "reasoning", |rng, len| Wire::default().think(&text::prose(rng, len)).end()),
    usual("content", 64 * K, "an answer", |rng, len| brief(rng).response(&text::prose(rng, len)).end()),
    usual("prose", 64 * K, "one call that writes prose", |rng, len| one_string(rng, text::prose, len)),
    usual("code", K * K, "one call that writes source code", |rng, len| one_string(rng, text::code, len)),
    usual("object", K * K, "one call with an object", object),
    usual("calls", 200 * CALL, "200 calls in a section", calls),
    usual("arguments", 200 * CALL, "one call with 400 arguments", arguments),
    hostile("less", "`<` and nothing else, in an answer", |rng, len| in_answer(rng, "<", len)),
    hostile("opens", "`<|open|>` and nothing else, in an answer", |rng, len| in_answer(rng, "<|open|>", len)),
    hostile("closes", "`<|close|>` and nothing else, in an answer", |rng, len| in_answer(rng, "<|close|>", len)),
    hostile("unfinished", "markers that are not finished, in an answer", |rng, len| {
        in_answer(rng, "<|ope<|clos<|end_of_ms", len)
    }),
    hostile("headers", "headers of calls that never end", headers),
    hostile("nameless", "calls without a name", nameless),
    hostile("quoted", "closes of the argument, quoted in it", |rng, len| {
        let written = "<|close|>argument<|sep|> x ".repeat(len / 27);
        brief(rng).tools([("write_file", vec![("text", "string", written)])]).end()
    }),
];

/// Bytes that a call of the shape `calls` has, about.
const CALL: usize = 180;

const fn usual(name: &'static str, len: usize, about: &'static str, make: fn(&mut Rng, usize) -> Stream) -> Shape {
    Shape { name, about, len, hostile: false, make }
}

const fn hostile(name: &'static str, about: &'static str, make: fn(&mut Rng, usize) -> Stream) -> Shape {
    Shape { name, about, len: 64 * K, hostile: true, make }
}

/// One sentence of reasoning.
fn brief(rng: &mut Rng) -> Wire {
    Wire::default().think(&text::prose(rng, 1))
}

fn turn(rng: &mut Rng, len: usize) -> Stream {
    let reasoning = text::prose(rng, len / 2);
    let answer = text::prose(rng, len / 3) + "#### 42";
    Wire::default().think(&reasoning).response(&answer).end()
}

fn agent(rng: &mut Rng, len: usize) -> Stream {
    let third = len / 10;
    let calls = [
        (
            "read_file",
            vec![
                ("path", "string", format!("src/part_{}.rs", rng.u8(..))),
                ("first", "number", rng.u16(..).to_string()),
                ("options", "object", r#"{"numbers": true, "tail": null}"#.into()),
            ],
        ),
        (
            "search",
            vec![
                ("pattern", "string", r#""\w+" <= \d"#.into()),
                ("folders", "array", format!(r#"["src", "tests/{}"]"#, rng.u8(..))),
                ("hidden", "boolean", "false".into()),
            ],
        ),
        (
            "write_file",
            vec![
                ("path", "string", "notes.md".into()),
                ("text", "string", text::code(rng, third)),
                ("summary", "string", text::prose(rng, third)),
            ],
        ),
    ];
    Wire::default().think(&text::prose(rng, len / 3)).tools(calls).end()
}

fn one_string(rng: &mut Rng, text: fn(&mut Rng, usize) -> String, len: usize) -> Stream {
    let written = text(rng, len);
    brief(rng)
        .tools([("write_file", vec![("path", "string", "src/main.rs".into()), ("text", "string", written)])])
        .end()
}

fn object(rng: &mut Rng, len: usize) -> Stream {
    let value = text::object(rng, len);
    brief(rng).tools([("search", vec![("query", "object", value)])]).end()
}

fn calls(rng: &mut Rng, len: usize) -> Stream {
    let path = |number| ("path", "string", format!("src/file_{number}.rs"));
    let calls: Vec<_> = (0..len / CALL).map(|_| ("read_file", vec![path(rng.u16(..))])).collect();
    brief(rng).tools(calls).end()
}

fn arguments(rng: &mut Rng, len: usize) -> Stream {
    let keys: Vec<String> = (0..2 * len / CALL).map(|number| format!("key_{number}")).collect();
    let kinds = |number: u16| {
        if number.is_multiple_of(2) { ("number", number.to_string()) } else { ("string", format!("file {number}")) }
    };
    let argument = |key| {
        let (kind, value) = kinds(rng.u16(..));
        (key, kind, value)
    };
    let arguments: Vec<_> = keys.iter().map(String::as_str).map(argument).collect();
    brief(&mut Rng::with_seed(0)).tools([("search", arguments)]).end()
}

fn in_answer(rng: &mut Rng, unit: &str, len: usize) -> Stream {
    brief(rng).response(&unit.repeat(len / unit.len())).end()
}

fn headers(rng: &mut Rng, len: usize) -> Stream {
    let mut wire = brief(rng);
    wire.open("tools");
    for _ in 0..len.div_ceil(20 * K) {
        wire.marker(Marker::Open);
        wire.text += "call tool=\"";
        wire.text += &"name ".repeat(4 * K);
    }
    wire.close("tools");
    wire.end()
}

fn nameless(rng: &mut Rng, len: usize) -> Stream {
    let mut wire = brief(rng);
    wire.open("tools");
    for number in 0..len / CALL {
        wire.open(&format!("call index=\"{number}\""));
        wire.open("argument key=\"path\" type=\"string\"");
        wire.text += "src/file.rs";
        wire.close("argument");
        wire.close("call");
    }
    wire.close("tools");
    wire.end()
}
