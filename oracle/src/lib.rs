//! Oracles: what must hold for any input at all. The tests and the fuzzer call them; no user of the parser needs them.
//!
//! In: bytes, read as `fuzz/README.md` says. Out: nothing, or a panic that shows the fault. Each stream is checked by the
//! invariants and by the twin, and pushed whole and in two other ways that a byte of the input chooses.

pub mod encode;
pub mod invariants;
pub mod mixed;
pub mod stream;
pub mod twin;

use std::borrow::Cow;

use arbitrary::{Arbitrary, Unstructured};
use bytes::BytesMut;
use kimi_xtml::{
    Channel, Chat, Code, Frames, IdPolicy, Marker, Message, OwnedEvent, Parser, Piece, RenderError, Request, Span,
    ToolCall, ToolChoice, Undeclared, Usage, ValueKind, parse, render_pieces,
};
use serde_json::Value;

use self::invariants::{
    completes, conserves, escaped, is_json, nests, no_leak, prompt, replaces, same, tells, ways_of_bytes,
};
use self::mixed::{Mixed, Segment, Told};
use self::stream::{Part, Random, Run, Stream, Way, run, show, tokenized};

// ---- inputs ------------------------------------------------------------------------------------------------------

/// In an input this byte, which no text has, cuts, and ends a field.
pub const CUT: u8 = 0xff;

/// This one repeats the character before it, 64 times for each unit of the byte after it.
pub const REPEAT: u8 = 0xfe;

/// In the input of [`pieces`] these bytes are control tokens; one that is spelled is text.
pub const TOLD: [(u8, Marker); 5] =
    [(0xf8, Marker::Open), (0xf9, Marker::Close), (0xfa, Marker::Sep), (0xfb, Marker::EndOfMsg), (0xfc, Marker::Eos)];

/// In the input of [`mixed()`] these bytes end a segment, and say by which kind of input it comes: as text, as bytes, as pieces,
/// with ids.
pub const KINDS: [u8; 4] = [TEXT, BYTES, PIECES, IDS];
const TEXT: u8 = 0xf5;
const BYTES: u8 = 0xf6;
const PIECES: u8 = 0xf7;
const IDS: u8 = 0xc0;
/// There the ids after this one never get their text.
pub const UNSPELLED: u8 = 0xc1;

/// What repetition makes of an input is no longer: beyond the limit of a header, so that it is reached.
const LONGEST: usize = 20_000;

const OPENED: [Option<Channel>; 4] = [None, Some(Channel::Think), Some(Channel::Response), Some(Channel::Tools)];

/// The bits of the first byte, beside the two for the channel that is open.
pub const TOOLS: u8 = 4;
const NO_CHOICE: u8 = 8;
const ONE_TEXT: u8 = 16;
const AS_CONTENT: u8 = 32;
const STREAM_JSON: u8 = 64;

const VALUE_LIMITS: [usize; 4] = [8 << 20, 4_096, 0, 3];

/// The first two bytes as a request, the third as a seed, and what is after them.
fn context(data: &[u8]) -> Option<(Request, u8, Cow<'_, [u8]>)> {
    let (&[flags, limit, seed], rest) = data.split_first_chunk()?;
    let is = |bit| flags & bit != 0;
    let tools = if is(TOOLS) { &["f"][..] } else { &[] };
    let request = Request::new()
        .opened(OPENED[usize::from(flags % 4)])
        .tools(tools.iter().copied())
        .tool_choice(if is(NO_CHOICE) { ToolChoice::None } else { ToolChoice::Auto })
        .separate_reasoning(!is(ONE_TEXT))
        .undeclared(if is(AS_CONTENT) { Undeclared::Content } else { Undeclared::Withhold })
        .stream_json(is(STREAM_JSON))
        .value_limit(VALUE_LIMITS[usize::from(limit % 4)]);
    Some((request, seed, repeated(rest)))
}

/// An input with its repetitions.
fn repeated(data: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(REPEAT, data) else { return Cow::Borrowed(data) };
    let mut whole = data[..first].to_vec();
    let mut rest = &data[first..];
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, after) {
            (&REPEAT, [units, after @ ..]) => {
                rest = after;
                let start = whole.iter().rposition(|byte| byte & 0xc0 != 0x80).unwrap_or(whole.len());
                let character = whole[start..].to_vec();
                let fit = LONGEST.saturating_sub(whole.len()) / character.len().max(1);
                whole.extend(character.repeat(fit.min(64 * usize::from(*units))));
            }
            _ => whole.push(*byte),
        }
    }
    Cow::Owned(whole)
}

/// A text, and where its chunks end.
fn cut(data: &[u8]) -> (String, Vec<usize>) {
    let (mut text, mut ends) = (String::new(), Vec::new());
    for part in data.split(|&byte| byte == CUT) {
        text.push_str(&String::from_utf8_lossy(part));
        ends.push(text.len());
    }
    (text, ends)
}

// ---- the parser --------------------------------------------------------------------------------------------------

/// What holds for every way to push a stream.
fn holds(request: &Request, way: &Way<'_>) -> Run {
    let run = run(&mut Parser::new(request.clone()), way);
    conserves(way, &run);
    no_leak(way, &run);
    nests(request, way, &run);
    completes(way, &run);
    run
}

/// What is held is looked at after so many pushes at most: each copies it.
const LOOKS: usize = 2_000;

/// The first way and two others give one result, the twin's. The halves of the byte choose the others; the last one is looked
/// at after each push.
fn agree(stream: &Stream, ways: &[Way<'_>], byte: u8, twin: Vec<(OwnedEvent, Span)>) {
    let Some((first, others)) = ways.split_first() else { return };
    let [other, watched] = [byte >> 4, byte & 15].map(|half| &others[usize::from(half) % others.len()]);
    if watched.pushes.len() <= LOOKS {
        prompt(stream, watched);
    }
    let mut expected: Option<Run> = None;
    for way in [first, other, watched] {
        let run = holds(&stream.request, way);
        if let Some(markers) = stream.markers().filter(|_| way.tokens() > 0 || way.name.starts_with("pieces")) {
            tells(&stream.request, &markers, way, &run);
        }
        assert!(run.report.examined <= 2 * stream.text.len() as u64, "{} looked too often", way.name);
        let run = run.without_tokens();
        let expected = expected.get_or_insert_with(|| Run { events: twin.clone(), ..run.clone() });
        same(stream, way, &run, expected);
    }
}

/// Text, cut anywhere.
pub fn chunks(data: &[u8]) {
    let Some((request, seed, rest)) = context(data) else { return };
    let (text, ends) = cut(&rest);
    let ends = ends.into_iter().map(|end| (end, 0)).collect();
    let stream = Stream { name: "fuzzed".into(), request: request.clone(), text, ids: Vec::new(), ends };
    let twin = twin::parse_text(&stream.text, &request);
    assert_eq!(parse(&stream.text, request), twin);
    agree(&stream, &stream.by_text(&mut Random(seed.into())), seed, twin);
}

/// The control token that a byte is where they are told.
fn told(byte: u8) -> Option<Marker> {
    TOLD.iter().find(|(told, _)| *told == byte).map(|&(_, marker)| marker)
}

/// Text, and control tokens that are told.
fn parts(data: &[u8]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for part in data.split_inclusive(|&byte| told(byte).is_some()) {
        let marker = part.last().and_then(|&byte| told(byte));
        let text = &part[..part.len() - usize::from(marker.is_some())];
        parts.push((String::from_utf8_lossy(text).into_owned(), true));
        parts.extend(marker.map(|marker| (marker.spelling().to_owned(), false)));
    }
    parts
}

/// Text and control tokens that are told: as pieces, as tokens, as text whose ids lead it; and with ids that do not fit it.
pub fn pieces(data: &[u8]) {
    let Some((request, seed, rest)) = context(data) else { return };
    let parts = parts(&rest);
    let stream = tokenized(&parts, request.clone(), seed.into());
    let random = &mut Random(seed.into());
    agree(&stream, &stream.by_ids(random), seed, twin::parse_pieces(&stream::pieces(&parts), &request));
    holds(&request, &stream.mixed(random));
    holds(&request, &stream.astray(random));
}

/// Inputs of every kind, one after another: what the twin gives.
pub fn mixed(data: &[u8]) {
    let Some((request, seed, rest)) = context(data) else { return };
    let mut segments = Vec::new();
    for segment in rest.split_inclusive(|byte| KINDS.contains(byte)) {
        let (data, kind) = match segment {
            [data @ .., kind] if KINDS.contains(kind) => (data, *kind),
            data => (data, KINDS[0]),
        };
        segments.push(match kind {
            TEXT => Segment::Text(String::from_utf8_lossy(data).into_owned()),
            BYTES => Segment::Bytes(data.to_vec()),
            PIECES => Segment::Pieces(Told::new(parts(data), seed.into())),
            _ => {
                // What comes after the first of these never gets its text; a thousand are waited for.
                let (data, unspelled) = data.split_at(memchr::memchr(UNSPELLED, data).unwrap_or(data.len()));
                let markers = unspelled.iter().filter_map(|&byte| told(byte)).take(1_000).collect();
                Segment::Ids(Told::new(parts(data), seed.into()), markers)
            }
        });
    }
    let mixed = Mixed::new(request, segments);
    let twin = twin::parse_pieces(&mixed.pieces(), &mixed.request);
    for seed in [seed, !seed] {
        let way = mixed.way(&mut Random(seed.into()));
        let run = holds(&mixed.request, &way).without_tokens();
        assert!(run.events == twin, "{mixed:?}\n{}\n{}", show(&run.events), show(&twin));
    }
}

/// Bytes that need be no UTF-8, cut anywhere: what the twin gives.
pub fn bytes(data: &[u8]) {
    let Some((request, seed, rest)) = context(data) else { return };
    let twin = twin::parse_pieces(&[twin::Piece::Spelled(&rest)], &request);
    let mut expected: Option<Run> = None;
    for way in ways_of_bytes(&rest, &mut Random(seed.into())) {
        let mut run = holds(&request, &way);
        run.report.examined = 0;
        replaces(&rest, &way, &run);
        assert!(run.events == twin, "{way:?}\n{}\n{}", show(&run.events), show(&twin));
        assert_eq!(run, *expected.get_or_insert_with(|| run.clone()), "{}", way.name);
    }
}

// ---- messages ----------------------------------------------------------------------------------------------------

/// A message, and what the prompt left open.
#[derive(Debug)]
struct Said {
    opened: Option<Channel>,
    message: Message,
}

impl<'a> Arbitrary<'a> for Said {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let opened = *u.choose(&OPENED)?;
        let mut message = Message::of(field(u)?, field(u)?, Vec::new());
        while !u.is_empty() {
            let name = field(u)?;
            let mut arguments = String::new();
            match u.int_in_range(0..=1)? {
                0 => arguments = field(u)?,
                _ => members(u, DEEPEST, &mut arguments)?,
            }
            message.tool_calls.push(ToolCall::new(name, arguments));
        }
        Ok(Said { opened, message })
    }
}

/// Structured arguments are no deeper; raw ones may be.
const DEEPEST: usize = 6;

/// A text, up to a [`CUT`].
fn field(u: &mut Unstructured<'_>) -> arbitrary::Result<String> {
    let rest = u.peek_bytes(u.len()).unwrap_or_default();
    let text = u.bytes(memchr::memchr(CUT, rest).unwrap_or(rest.len()))?;
    u.bytes(usize::from(!u.is_empty()))?;
    Ok(String::from_utf8_lossy(&repeated(text)).into_owned())
}

/// A JSON value of any kind: its kind, and what that needs; [`CUT`] has the lists' ends.
fn value(u: &mut Unstructured<'_>, deepest: usize, json: &mut String) -> arbitrary::Result<()> {
    match u.int_in_range(0..=7)? {
        0 => *json += "null",
        1 => *json += "true",
        2 => *json += "false",
        3 => *json += &i64::arbitrary(u)?.to_string(),
        4 => *json += &Value::from(f64::arbitrary(u)?).to_string(),
        6 if deepest > 0 => {
            json.push('[');
            while more(u, json)? {
                value(u, deepest - 1, json)?;
            }
            json.push(']');
        }
        7 if deepest > 0 => members(u, deepest, json)?,
        _ => *json += &Value::from(field(u)?).to_string(),
    }
    Ok(())
}

fn members(u: &mut Unstructured<'_>, deepest: usize, json: &mut String) -> arbitrary::Result<()> {
    json.push('{');
    while more(u, json)? {
        *json += &Value::from(field(u)?).to_string();
        json.push(':');
        value(u, deepest - 1, json)?;
    }
    json.push('}');
    Ok(())
}

/// Whether a list goes on; a comma then, unless it begins.
fn more(u: &mut Unstructured<'_>, json: &mut String) -> arbitrary::Result<bool> {
    let is_over = u.is_empty() || u.peek_bytes(1) == Some(&[CUT]);
    if is_over {
        u.bytes(usize::from(!u.is_empty()))?;
    } else if !json.ends_with(['{', '[']) {
        json.push(',');
    }
    Ok(!is_over)
}

/// Messages, with any text and any arguments, rendered and parsed.
pub fn roundtrip(data: &[u8]) {
    // An input that ends too early is none.
    if let Ok(Said { opened, message }) = Unstructured::new(data).arbitrary() {
        comes_back(&message, opened);
    }
}

/// A rendered message parses to itself: JSON in the arguments as the same JSON, all else byte for byte, and the second
/// time that too.
fn comes_back(message: &Message, opened: Option<Channel>) {
    let again = match rendered_and_parsed(message, opened) {
        Ok(again) => again,
        Err(RenderError::CallName { call }) => {
            let ToolCall { name, arguments, .. } = &message.tool_calls[call];
            return assert!(name.is_empty() || name.len() + arguments.len() > 2_000, "{name:?} {arguments:?}");
        }
        Err(RenderError::BeforeOpened { .. }) => {
            return assert!(matches!(opened, Some(Channel::Response | Channel::Tools)));
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!((&again.reasoning, &again.content), (&message.reasoning, &message.content));
    assert_eq!(again.tool_calls.len(), message.tool_calls.len());
    for (new, old) in again.tool_calls.iter().zip(&message.tool_calls) {
        assert_eq!((&new.name, new.complete), (&old.name, true));
        assert!(alike(&old.arguments, &new.arguments), "{:?}\n{:?}", old.arguments, new.arguments);
    }
    assert_eq!(rendered_and_parsed(&again, opened).as_ref(), Ok(&again));
}

pub(crate) fn alike(old: &str, new: &str) -> bool {
    let begins = old.trim_start().starts_with('{');
    let new_is_json = new.starts_with('{') && is_json(new);
    match (serde_json::from_str::<Value>(old), serde_json::from_str::<Value>(new)) {
        _ if old.is_empty() => new == "{}",
        // A block, or an object only for who reads as Python does: with text after it, NaN, control characters.
        _ if !begins || !is_json(old) => old == new || begins && new_is_json,
        (Ok(old), Ok(new)) => old == new,
        // What a `Value` can not hold: numbers out of its range, lone surrogates, depth.
        (old, _) => old.is_err() && new_is_json,
    }
}

fn rendered_and_parsed(message: &Message, opened: Option<Channel>) -> Result<Message, RenderError> {
    let mut parser = Parser::new(Request::new().opened(opened).tools(["f"]));
    let mut chat = Chat::new(IdPolicy::with(|_, _| String::new()));
    for piece in render_pieces(message, opened)? {
        match piece {
            Piece::Marker(marker) => parser.push_marker(marker, &mut chat),
            text => parser.push_text(text.spelling(), &mut chat),
        }
    }
    parser.finish("stop", &mut chat);
    // What a message may bring about: names that are not declared, keys and openers that stand twice.
    let harmless = [Code::UndeclaredTool, Code::DuplicateKey, Code::RepeatedOpener];
    let noted = parser.report().diagnostics;
    assert!(noted.iter().all(|noted| harmless.contains(&noted.code)), "{noted:?}");
    Ok(chat.into_message().unwrap())
}

/// Frames of a stream of text: JSON each, in their order, together the message; which comes back when rendered.
pub fn chat(data: &[u8]) {
    let Some((request, _, rest)) = context(data) else { return };
    let (text, ends) = cut(&rest);
    let mut parser = Parser::new(request);
    let mut chat = Chat::new(IdPolicy::numbered(0));
    let mut choice = Frames::new("\"1\"", 7, "k3").choice(3);
    let mut out = BytesMut::new();
    for chunk in stream::chunks(&text, ends) {
        parser.push(chunk, &mut chat);
        choice.write(&mut chat, &mut out);
    }
    let reason = parser.finish("stop", &mut chat);
    choice.write(&mut chat, &mut out);
    choice.end(reason, Some(&Usage::default()), &mut out);

    let message = chat.into_message().unwrap();
    let mut sum = sum(std::str::from_utf8(&out).unwrap(), reason, message.thinks());
    for (call, whole) in sum.tool_calls.iter_mut().zip(&message.tool_calls) {
        call.complete = whole.complete;
    }
    assert_eq!((sum.reasoning, sum.content, sum.tool_calls), fields(&message));
    comes_back(&message, None);
}

/// The message without the order of its parts, which frames do not have.
fn fields(message: &Message) -> (String, String, Vec<ToolCall>) {
    (message.reasoning.clone(), message.content.clone(), message.tool_calls.clone())
}

/// What frames add up to.
fn sum(frames: &str, reason: &str, thinks: bool) -> Message {
    let mut message = Message::default();
    let (mut reasoning_ends, mut reasons) = (0, 0);
    for (at, frame) in frames.strip_suffix("\n\n").unwrap().split("\n\n").enumerate() {
        let frame: Value = serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!((&frame["id"], &frame["choices"][0]["index"]), (&"\"1\"".into(), &3.into()));
        assert_eq!(reasons, 0, "a frame after the end");
        reasons += usize::from(frame["choices"][0]["finish_reason"] == reason);
        let delta = frame["choices"][0]["delta"].as_object().unwrap();
        let text = |key: &str| delta.get(key).and_then(Value::as_str);
        assert_eq!(at == 0, text("role").is_some());
        assert_eq!(delta.is_empty(), reasons == 1);
        if let Some(text) = text("reasoning_content") {
            reasoning_ends += usize::from(text.is_empty());
            message.reasoning += text;
        }
        if at > 0 && !delta.contains_key("reasoning_content") {
            assert!(reasoning_ends == 1 || message.reasoning.is_empty(), "reasoning that has no end");
        }
        if let Some(text) = text("content") {
            assert_eq!(at == 0, text.is_empty());
            message.content += text;
        }
        if let Some(call) = delta.get("tool_calls").map(|calls| &calls[0]) {
            let of = |key: &str| call["function"][key].as_str();
            let arguments = of("arguments").unwrap();
            assert_eq!(call["id"].is_string(), arguments.is_empty());
            if let Some(id) = call["id"].as_str() {
                message.tool_calls.push(ToolCall::new(of("name").unwrap(), "").with_id(id));
            }
            assert_eq!(call["index"], message.tool_calls.len() - 1);
            message.tool_calls.last_mut().unwrap().arguments += arguments;
        }
    }
    assert_eq!((reasons, reasoning_ends), (1, usize::from(thinks)));
    message
}

// ---- JSON --------------------------------------------------------------------------------------------------------

const TYPES: [&str; 8] = ["object", "array", "number", "boolean", "null", "string", "?", ""];

/// A value: verbatim if it is JSON and within the limit, else a string; or, streamed, what can become JSON. The first byte
/// has its type, the limit, and whether it is streamed; each is streamed as an object as well.
pub fn json(data: &[u8]) {
    let Some((&flags, rest)) = data.split_first() else { return };
    let limit = VALUE_LIMITS[usize::from(flags / 8 % 4)];
    let (text, ends) = cut(&repeated(rest));
    argument(&text, &ends, TYPES[usize::from(flags % 8)], limit, flags & STREAM_JSON != 0);
    argument(&text, &ends, "object", limit, true);
}

fn argument(text: &str, ends: &[usize], kind: &str, limit: usize, streams: bool) {
    let request = Request::new().opened(Channel::Tools).tools(["f"]).stream_json(streams).value_limit(limit);
    let mut parser = Parser::new(request);
    let mut events = Vec::new();
    let argument = format!("argument key=\"k\" type=\"{kind}\"");
    tag(&mut parser, Marker::Open, "call tool=\"f\"", &mut events);
    tag(&mut parser, Marker::Open, &argument, &mut events);
    stream::chunks(text, ends.iter().copied()).iter().for_each(|chunk| parser.push_text(chunk, &mut events));
    for name in ["argument", "call", "tools"] {
        tag(&mut parser, Marker::Close, name, &mut events);
    }
    parser.finish("stop", &mut events);

    let arguments: String =
        events.iter().filter_map(|(event, _)| Some(event.as_event().json()?.1.to_owned())).collect();
    let is_complete = events.iter().any(|(event, _)| matches!(event, OwnedEvent::CallEnd { complete: true, .. }));
    let (verbatim, string) = (format!("{{\"k\":{text}}}"), format!("{{\"k\":\"{}\"}}", escaped(text)));
    let expected = match ValueKind::from_type(Some(kind)) {
        ValueKind::String => (true, string),
        ValueKind::Object | ValueKind::Array if streams && is_json(text) => (true, verbatim),
        ValueKind::Object | ValueKind::Array if streams => {
            (false, format!("{{\"k\":{}", &text[..twin::could_be_json(text)]))
        }
        _ if is_json(text) && text.len() <= limit => (true, verbatim),
        _ => (true, string),
    };
    assert_eq!((is_complete, arguments), expected, "{kind} {text:?}");
}

fn tag(parser: &mut Parser, marker: Marker, header: &str, events: &mut Vec<(OwnedEvent, Span)>) {
    parser.push_marker(marker, events);
    parser.push_text(header, events);
    parser.push_marker(Marker::Sep, events);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    type Oracle = (&'static str, fn(&[u8]));
    const STREAMS: [Oracle; 2] = [("chunks", chunks), ("pieces", pieces)];
    const OTHERS: [Oracle; 5] =
        [("bytes", bytes), ("mixed", mixed), ("roundtrip", roundtrip), ("chat", chat), ("json", json)];

    /// The committed seeds of an oracle, findings among them, and what a cut leaves of each.
    fn seeds(name: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(name);
        let files = fs::read_dir(&folder).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
        let seeds: Vec<_> = files.flat_map(|seed| [seed[..seed.len() / 2].to_vec(), seed]).collect();
        assert!(seeds.len() >= 20, "{name} has few seeds");
        seeds
    }

    #[test]
    fn oracles_pass_on_their_seeds() {
        for (name, oracle) in OTHERS {
            seeds(name).iter().for_each(|seed| oracle(seed));
        }
    }

    #[test]
    fn the_encoders_oracle_passes_on_its_seeds() {
        seeds("encode").iter().for_each(|seed| encode::encode(seed));
    }

    /// In every way, each of them watched: the third byte chooses among seven at most.
    #[test]
    fn oracles_of_streams_pass_on_their_seeds_in_every_way() {
        for (name, oracle) in STREAMS {
            for mut seed in seeds(name) {
                for byte in [0x01, 0x12, 0x23, 0x34, 0x45, 0x56, 0x60] {
                    if let Some(chosen) = seed.get_mut(2) {
                        *chosen = byte;
                    }
                    oracle(&seed);
                }
            }
        }
    }
}
