//! I8: every kind of input, in every place, of every malformed shape: linear, and bounded in memory.
//!
//! In: a table of streams, each in two sizes. Counted: the bytes that lexing looked at, at most twice the input, and the
//! most memory that the parser held at a time, beside what the place may hold. `linear.rs` and `memory.rs` go on to large sizes in a
//! few of these.

use allocation_counter::measure;
use kimi_xtml::{Channel, Kind, Marker, Parser, Request, sink_fn};

mod support;

use support::{MARKERS, Push, spell};

/// A token that is no control token.
const WORD: u32 = 1_000;
/// Ids that come before the text.
const AHEAD: usize = 4;
/// In place of what is no UTF-8, and of a character that is cut, where bytes are pushed.
const INVALID: &str = "\u{e000}";
const CUT: &str = "\u{e001}";

/// A place, what opens it, short as in [`spell`], and what text counts as there, unless it is held.
struct Place {
    name: &'static str,
    begin: &'static str,
    request: fn() -> Request,
    text: Option<Kind>,
}

fn on() -> Request {
    Request::new().tools(["f"])
}

fn off() -> Request {
    Request::new()
}

fn think() -> Request {
    Request::new().opened(Channel::Think)
}

fn streamed() -> Request {
    on().stream_json(true)
}

const fn place(name: &'static str, begin: &'static str, request: fn() -> Request, text: Option<Kind>) -> Place {
    Place { name, begin, request, text }
}

const ARRAY: &str = "{tools}{call tool=\"f\"}{argument key=\"k\" type=\"array\"}";

#[rustfmt::skip]
const PLACES: &[Place] = &[
    place("outside", "", on, Some(Kind::Content)),
    place("outside, tools off", "", off, Some(Kind::Content)),
    place("think", "{think}a", on, Some(Kind::Reasoning)),
    place("response", "{response}a", on, Some(Kind::Content)),
    place("fresh response", "{response}", on, Some(Kind::Content)),
    place("tools", "{tools}", on, Some(Kind::Dropped)),
    place("call", "{tools}{call tool=\"f\"}", on, Some(Kind::Dropped)),
    place("string", "{tools}{call tool=\"f\"}{argument key=\"k\"}", on, Some(Kind::Arguments)),
    place("typed", ARRAY, on, None),
    place("typed, streamed", ARRAY, streamed, Some(Kind::Arguments)),
    place("block", "{tools}{call tool=\"f\"}{json}", on, Some(Kind::Arguments)),
    place("dropped block", "{tools}{call tool=\"f\"}{argument key=\"k\"}v{/argument}{json}", on, Some(Kind::Dropped)),
    place("nameless call", "{tools}{call}", on, Some(Kind::Dropped)),
    place("withheld section", "{tools}", off, Some(Kind::Withheld)),
    place("withheld call", "{call tool=\"f\"}", off, Some(Kind::Withheld)),
    place("withheld value", "{argument key=\"k\" type=\"array\"}", off, Some(Kind::Withheld)),
    place("withheld value in think", "{argument key=\"k\"}", think, Some(Kind::Withheld)),
    place("after the end", "$", on, Some(Kind::Dropped)),
];

/// A shape: how it begins, and what is repeated, with `#` the number of the repetition.
struct Shape {
    name: &'static str,
    begin: &'static str,
    unit: &'static str,
}

const fn shape(name: &'static str, begin: &'static str, unit: &'static str) -> Shape {
    Shape { name, begin, unit }
}

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    shape("plain", "", "text, é "),
    shape("less", "", "<"),
    shape("less bar", "", "<!"),
    shape("half a marker", "", "<!op"),
    shape("open", "", "~"),
    shape("close", "", "^"),
    shape("sep", "", "|"),
    shape("end", "", "$"),
    shape("quoted ends", "", "$ x"),
    shape("quoted close", "", "{/argument} x {/json} x {/response} x"),
    shape("close and blanks", "", "{/argument}                        {/response}       "),
    shape("close and a tag", "", "{/argument}      {/   argument   "),
    shape("header of a close and blanks", "{/argument}", " "),
    shape("tools and blanks", "", "{tools} \n ~ \n"),
    shape("one header", "~call tool=\"", "y"),
    shape("header of attributes", "~argument", " key=\"v\""),
    shape("header of blanks", "~call", " "),
    shape("headers", "", "~call tool=\"yyyyyyyyyyyyyyy"),
    shape("unreadable headers", "", "{argument k k=\"v\" =}"),
    shape("unknown tags", "", "{note}{/note a=\"b\"}"),
    shape("unknown header", "~note", " a=\"b\""),
    shape("unknown headers", "", "~note a=\"b"),
    shape("blanks in a tag", "", "^                "),
    shape("orphan closes", "", "{/think}{/call}{/argument}"),
    shape("nameless calls", "", "{call}{argument key=\"k\"}v{/argument}{/call}"),
    shape("calls", "", "{call tool=\"f\"}{argument key=\"k\"}v{/argument}{/call}"),
    shape("arguments", "{call tool=\"f\"}", "{argument key=\"k#\" type=\"number\"}#{/argument}"),
    shape("unclosed arguments", "{call tool=\"f\"}", "{argument key=\"k\" type=\"number\"}1}"),
    shape("channels", "", "{think}a{/think}{response}b{tools}"),
    shape("brackets", "", "["),
    shape("surplus brackets", "", "]"),
    shape("quotes", "[", "\""),
    shape("surrogates", "[\"", "\\ud800"),
    shape("blanks", "", " "),
    shape("control characters", "", "\u{1}"),
    shape("replacements", "", "\u{fffd}"),
    shape("no UTF-8", "", INVALID),
    shape("cut characters", "", CUT),
    shape("header of no UTF-8", "~call tool=\"", INVALID),
];

/// A shape at some size, in every form that an input needs.
struct Stream {
    text: String,
    bytes: Vec<u8>,
    ids: Vec<u32>,
    /// Where each token's text ends.
    ends: Vec<usize>,
    /// The text without its markers.
    stripped: String,
}

impl Stream {
    fn new(text: String) -> Self {
        let mut stream = Stream { bytes: Vec::new(), ids: Vec::new(), ends: Vec::new(), stripped: String::new(), text };
        let mut at = 0;
        while let Some(first) = stream.text[at..].chars().next() {
            let rest = &stream.text[at..];
            let marker = MARKERS.iter().find(|marker| rest.starts_with(marker.spelling()));
            let (id, len) = marker.map_or((WORD, first.len_utf8()), |marker| (marker.id(), marker.spelling().len()));
            let token = &rest[..len];
            if marker.is_none() {
                stream.stripped.push_str(token);
            }
            match token {
                INVALID => stream.bytes.push(0xff),
                CUT => stream.bytes.extend(b"\xf0\x9f"),
                token => stream.bytes.extend(token.as_bytes()),
            }
            at += len;
            stream.ids.push(id);
            stream.ends.push(at);
        }
        stream
    }

    fn tokens(&self) -> impl Iterator<Item = (u32, &str)> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        self.ids.iter().zip(starts.zip(&self.ends)).map(|(&id, (start, &end))| (id, &self.text[start..end]))
    }

    /// Pushes all of it.
    fn push(&self, input: Input, parser: &mut Parser) {
        let mut push = |push: Push<'_>| push.to(parser, &mut ());
        match input {
            Input::Text => push(Push::Text(&self.text)),
            Input::Characters => self.text.split_inclusive(|_| true).for_each(|c| push(Push::Text(c))),
            Input::Bytes => push(Push::Bytes(&self.bytes)),
            Input::SingleBytes => self.bytes.chunks(1).for_each(|byte| push(Push::Bytes(byte))),
            Input::Quoted => push(Push::Quoted(&self.text)),
            Input::QuotedCharacters => self.text.split_inclusive(|_| true).for_each(|c| push(Push::Quoted(c))),
            Input::Pieces => self.tokens().for_each(|(id, text)| match Marker::from_id(id) {
                Some(marker) => push(Push::Marker(marker)),
                None => push(Push::Quoted(text)),
            }),
            Input::Tokens => self.tokens().for_each(|(id, text)| push(Push::Token(id, text))),
            Input::IdsOneADelta => self.tokens().for_each(|(id, text)| push(Push::WithIds(text, &[id]))),
            Input::IdsInOneDelta => push(Push::WithIds(&self.text, &self.ids)),
            Input::IdsAhead => {
                push(Push::WithIds("", &self.ids[..self.ids.len().min(AHEAD)]));
                let ids = self.ids.chunks(1).skip(AHEAD).chain(std::iter::repeat(&[][..]));
                self.tokens().zip(ids).for_each(|((_, text), id)| push(Push::WithIds(text, id)));
            }
            Input::IdsWithoutText => {
                let mut texts = self.stripped.split_inclusive(|_| true);
                self.ids.iter().for_each(|&id| push(Push::WithIds(texts.next().unwrap_or_default(), &[id])));
            }
            Input::TextWithoutIds => push(Push::WithIds(&self.text, &[])),
        }
    }
}

impl Shape {
    /// About `len` bytes.
    fn stream(&self, len: usize) -> Stream {
        let (mut text, unit) = (spell(self.begin), spell(self.unit));
        for number in 0..(len - text.len()) / unit.len() {
            text += &unit.replace('#', &number.to_string());
        }
        Stream::new(text)
    }

    /// Whether an open header is held.
    fn is_header(&self) -> bool {
        self.name.starts_with("header of") || self.name.starts_with("one header")
    }
}

/// What comes of a cell.
struct Cell {
    /// Bytes of the text, as decoded.
    len: u64,
    /// Bytes that lexing looked at.
    examined: u64,
    /// The most memory.
    heap: u64,
}

fn run(place: &Place, begin: &Stream, stream: &Stream, input: Input) -> Cell {
    // What is only quoted opens nothing.
    let before = if matches!(input, Input::Quoted | Input::QuotedCharacters) { Input::Pieces } else { input };
    let before = match before {
        Input::IdsWithoutText | Input::TextWithoutIds => Input::IdsOneADelta,
        before => before,
    };
    let request = (place.request)();
    let mut examined = 0;
    let heap = measure(|| {
        let mut parser = Parser::new(request);
        begin.push(before, &mut parser);
        stream.push(input, &mut parser);
        parser.finish("stop", &mut ());
        examined = parser.report().examined;
    });
    let text = match input {
        Input::Bytes | Input::SingleBytes => String::from_utf8_lossy(&stream.bytes).len(),
        Input::IdsWithoutText => stream.stripped.len(),
        _ => stream.text.len(),
    };
    Cell { len: (begin.text.len() + text) as u64, examined, heap: heap.bytes_max }
}

/// What every stream may hold.
const BASE: u64 = 4 << 10;
/// What grows up to a limit: the hashes of a call's keys, and here the bits of its brackets.
const GROWTH: u64 = 1_536;
/// An open header, its tokens and its bytes that are no UTF-8, as they grow by doubling.
const HEADER: u64 = 3 * (16 << 10);
/// The ids whose text may still come, of which there are a thousand.
const WAITING: u64 = 48 << 10;

/// What a cell may hold beside the base.
fn room(place: &Place, shape: &Shape, input: Input, stream: &Stream) -> u64 {
    let len = stream.text.len() as u64;
    // A sixteenth more, or a block; a bit a bracket.
    let value =
        if place.name == "typed" || shape.name == "unclosed arguments" { len + len / 16 + len / 8 + BASE } else { 0 };
    let header = if shape.is_header() { HEADER } else { 0 };
    let ids = match input {
        // All ids of a delta come before its text.
        Input::IdsInOneDelta => 96 * stream.ids.iter().filter(|&&id| id != WORD).count() as u64,
        Input::IdsWithoutText => WAITING,
        _ => 0,
    };
    value + header + ids
}

fn table(inputs: &[Input]) {
    for (place, shape) in PLACES.iter().flat_map(|place| SHAPES.iter().map(move |shape| (place, shape))) {
        let begin = Stream::new(spell(place.begin));
        let sizes = if shape.is_header() { [17 << 10, 24 << 10] } else { [1 << 10, 6 << 10] };
        let streams = sizes.map(|size| shape.stream(size));
        for &input in inputs {
            let cell = format!("{input:?}, {}, {}", place.name, shape.name);
            let mut before = None;
            for stream in &streams {
                let Cell { len, examined, heap } = run(place, &begin, stream, input);
                assert!(examined <= 2 * len, "{cell}: {examined} bytes looked at, {len} came");
                let room = room(place, shape, input, stream);
                assert!(heap <= BASE + room, "{cell}: {heap} bytes held, of {len}, room for {room}");
                let grown = before.replace(heap).map_or(0, |before| heap.saturating_sub(before));
                assert!(room > 0 || grown <= GROWTH, "{cell}: {grown} bytes more held");
            }
        }
    }
}

/// The places are what their names say.
#[test]
fn i8_bounds_are_of_these_places() {
    for place in PLACES {
        let mut parser = Parser::new((place.request)());
        Stream::new(spell(place.begin)).push(Input::Pieces, &mut parser);
        let mut kind = None;
        parser.push_text("[", &mut sink_fn(|event, span| kind = (!span.bytes.is_empty()).then_some(event.kind())));
        assert_eq!(kind, place.text, "{}", place.name);
    }
}

#[test]
fn i8_bounds_of_text() {
    table(&[Input::Text, Input::Characters]);
}

#[test]
fn i8_bounds_of_bytes() {
    table(&[Input::Bytes, Input::SingleBytes]);
}

#[test]
fn i8_bounds_of_pieces() {
    table(&[Input::Pieces, Input::Quoted, Input::QuotedCharacters]);
}

#[test]
fn i8_bounds_of_tokens() {
    table(&[Input::Tokens]);
}

#[test]
fn i8_bounds_of_ids() {
    table(&[Input::IdsOneADelta, Input::IdsInOneDelta, Input::IdsAhead]);
}

#[test]
fn i8_bounds_of_ids_that_stray() {
    table(&[Input::IdsWithoutText, Input::TextWithoutIds]);
}

/// A kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Text,
    Characters,
    Bytes,
    SingleBytes,
    Pieces,
    Quoted,
    QuotedCharacters,
    Tokens,
    IdsOneADelta,
    IdsInOneDelta,
    IdsAhead,
    IdsWithoutText,
    TextWithoutIds,
}
