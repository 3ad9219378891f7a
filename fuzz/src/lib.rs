//! Oracles: what must hold for any input at all.
//!
//! In: bytes, read as README.md says. Out: nothing, or a panic that shows the fault. The invariants and the twin are
//! those of `../tests`.

#[allow(dead_code, unused_imports)]
mod support {
    include!(concat!(env!("OUT_DIR"), "/support.rs"));
}
#[allow(dead_code, unused_imports)]
mod invariants {
    include!(concat!(env!("OUT_DIR"), "/invariants.rs"));
}
#[path = "../../tests/twin/mod.rs"]
mod twin;

use bytes::BytesMut;
use invariants::{completes, conserves, escaped, is_json, nests, no_leak, prompt, same, ways, ways_of_bytes};
use kimi_xtml::{
    Channel, Chat, Code, Frames, IdPolicy, Marker, Message, OwnedEvent, Parser, Piece, RenderError, Request, Span,
    ToolCall, ToolChoice, Undeclared, Usage, ValueKind, parse, render_pieces,
};
use kimi_xtml_cli::cases;
use serde_json::Value;
use support::{Random, Run, Stream, Way, run, tokenized};

/// An oracle, and its name.
pub type Oracle = (&'static str, fn(&[u8]));

/// All of them.
pub const ORACLES: [Oracle; 7] = [
    ("chunks", chunks),
    ("pieces", pieces),
    ("bytes", bytes),
    ("roundtrip", roundtrip),
    ("chat", chat),
    ("json", json),
    ("cases", cases),
];

// ---- inputs ------------------------------------------------------------------------------------------------------

/// In the inputs of most oracles this byte, which no text has, cuts.
pub const CUT: u8 = 0xff;

/// In the input of [`pieces`] these bytes are control tokens; one that is spelled is text.
pub const TOLD: [(u8, Marker); 4] =
    [(0xf8, Marker::Open), (0xf9, Marker::Close), (0xfa, Marker::Sep), (0xfb, Marker::EndOfMsg)];

const OPENED: [Option<Channel>; 4] = [None, Some(Channel::Think), Some(Channel::Response), Some(Channel::Tools)];

/// The bits of the first byte, beside the two for the channel that is open.
pub const TOOLS: u8 = 4;
const NO_CHOICE: u8 = 8;
const ONE_TEXT: u8 = 16;
const AS_CONTENT: u8 = 32;
const STREAM_JSON: u8 = 64;

/// The first two bytes as a request, the third as a seed, and what is behind them.
fn context(data: &[u8]) -> Option<(Request, u64, &[u8])> {
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
        .value_limit([8 << 20, 8 << 20, 0, 3][usize::from(limit % 4)]);
    Some((request, u64::from(seed), rest))
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
fn holds(request: &Request, way: &Way<'_>, run: &Run) {
    conserves(way, run);
    no_leak(way, run);
    nests(request, way, run);
    completes(way, run);
}

/// All ways give one result, the twin's. The twin does not know a tools channel that opens unasked for.
fn agree(stream: &Stream, ways: &[Way<'_>], twin: Vec<(OwnedEvent, Span)>) {
    let mut expected: Option<Run> = None;
    for way in ways {
        // It looks after each push: often enough in these.
        if ["text, deltas", "text, characters", "ids, ahead", "pieces, characters"].contains(&way.name) {
            prompt(stream, way);
        }
        let run = run(&mut Parser::new(stream.request.clone()), way);
        holds(&stream.request, way, &run);
        assert!(run.report.examined <= 2 * stream.text.len() as u64, "{} looked too often", way.name);
        let run = run.without_tokens();
        let has_twin = stream.request.opened != Some(Channel::Tools) || stream.request.engages_tools();
        let expected = expected.get_or_insert_with(|| match has_twin {
            true => Run { events: twin.clone(), ..run.clone() },
            false => run.clone(),
        });
        same(stream, way, &run, expected);
    }
}

/// Text, cut anywhere.
pub fn chunks(data: &[u8]) {
    let Some((request, seed, rest)) = context(data) else { return };
    let (text, ends) = cut(rest);
    let ends = ends.into_iter().map(|end| (end, 0)).collect();
    let stream = Stream { name: "fuzzed".into(), request: request.clone(), text, ids: Vec::new(), ends };
    agree(&stream, &stream.by_text(&mut Random(seed)), twin::parse_text(&stream.text, &request));

    let whole = run(&mut Parser::new(request.clone()), &stream.by_text(&mut Random(seed))[0]);
    assert_eq!(parse(&stream.text, request), whole.events);
}

/// Text and control tokens that are told: as pieces, as tokens, as text whose ids lead it.
pub fn pieces(data: &[u8]) {
    let Some((request, seed, rest)) = context(data) else { return };
    let told = |byte: &u8| TOLD.iter().find(|(told, _)| told == byte).map(|&(_, marker)| marker);
    let mut parts: Vec<(String, bool)> = Vec::new();
    for part in rest.split_inclusive(|byte| told(byte).is_some()) {
        let marker = part.last().and_then(told);
        let text = &part[..part.len() - usize::from(marker.is_some())];
        parts.push((String::from_utf8_lossy(text).into_owned(), true));
        parts.extend(marker.map(|marker| (marker.spelling().to_owned(), false)));
    }
    let pieces: Vec<twin::Piece<'_>> = parts
        .iter()
        .map(|(text, is_text)| match TOLD.iter().find(|(_, told)| told.spelling() == text) {
            Some(&(_, marker)) if !is_text => twin::Piece::Marker(marker),
            _ => twin::Piece::Text(text),
        })
        .collect();
    let stream = tokenized(&parts, request.clone(), seed);
    let random = &mut Random(seed);
    agree(&stream, &stream.by_ids(random), twin::parse_pieces(&pieces, &request));
    for way in ways(&stream, random) {
        holds(&request, &way, &run(&mut Parser::new(request.clone()), &way));
    }
}

/// Bytes that need be no UTF-8, cut anywhere: what the text with U+FFFD gives.
pub fn bytes(data: &[u8]) {
    let Some((request, seed, rest)) = context(data) else { return };
    let text = String::from_utf8_lossy(rest);
    let as_text: Vec<_> = parse(&text, request.clone()).into_iter().map(|(event, _)| event).collect();
    let replaced = text.matches('\u{fffd}').count() - rest.windows(3).filter(|three| three == b"\xef\xbf\xbd").count();
    let first = std::str::from_utf8(rest).err().map(|error| error.valid_up_to() as u64);
    let mut expected: Option<Run> = None;
    for way in ways_of_bytes(rest, &mut Random(seed)) {
        let mut run = run(&mut Parser::new(request.clone()), &way);
        holds(&request, &way, &run);
        run.report.examined = 0;
        let noted = run.report.diagnostics.iter().find(|noted| noted.code == Code::InvalidUtf8);
        assert_eq!(noted.map_or(0, |noted| noted.count), replaced as u64);
        assert_eq!(noted.map(|noted| noted.first), first);
        assert!(run.events.iter().map(|(event, _)| event).eq(&as_text), "{}: {way:?}", way.name);
        assert_eq!(run, *expected.get_or_insert_with(|| run.clone()), "{}", way.name);
    }
}

// ---- messages ----------------------------------------------------------------------------------------------------

/// Messages, their fields cut: what opened, reasoning, content, and name and arguments of each call.
pub fn roundtrip(data: &[u8]) {
    let Some((&opened, rest)) = data.split_first() else { return };
    let opened = OPENED[usize::from(opened % 4)];
    let mut fields = rest.split(|&byte| byte == CUT).map(|field| String::from_utf8_lossy(field).into_owned());
    let (reasoning, content) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
    let mut message = Message { reasoning, content, ..Message::default() };
    while let (Some(name), Some(arguments)) = (fields.next(), fields.next()) {
        message.tool_calls.push(ToolCall { name, arguments, complete: true, ..ToolCall::default() });
    }
    comes_back(&message, opened);
}

/// A rendered message parses to itself: JSON in the arguments as the same JSON, all else byte for byte, and the second
/// time that too.
fn comes_back(message: &Message, opened: Option<Channel>) {
    let again = match rendered_and_parsed(message, opened) {
        Ok(again) => again,
        Err(RenderError::CallName { call }) => {
            let name = &message.tool_calls[call].name;
            return assert!(name.is_empty() || name.len() > 2_000, "{name:?}");
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

fn alike(old: &str, new: &str) -> bool {
    let is_object = old.trim_start().starts_with('{') && is_json(old);
    match (serde_json::from_str::<Value>(old), serde_json::from_str::<Value>(new)) {
        _ if !is_object => old == new,
        (Ok(old), Ok(new)) => old == new,
        // What a `Value` can not hold: numbers out of its range, lone surrogates, depth.
        (Err(_), Err(_)) => is_json(new),
        _ => false,
    }
}

fn rendered_and_parsed(message: &Message, opened: Option<Channel>) -> Result<Message, RenderError> {
    let mut parser = Parser::new(Request::new().opened(opened).tools(["f"]));
    let mut chat = Chat::new(IdPolicy::with(|_, _| String::new()));
    for piece in render_pieces(message, opened)? {
        match piece {
            Piece::Text(text) => parser.push_text(&text, &mut chat),
            Piece::Marker(marker) => parser.push_marker(marker, &mut chat),
        }
        .unwrap();
    }
    parser.finish("stop", &mut chat).unwrap();
    // What a message may bring about: names that are not declared, keys and openers that stand twice.
    let harmless = [Code::UndeclaredTool, Code::DuplicateKey, Code::RepeatedOpener];
    let noted = parser.report().diagnostics;
    assert!(noted.iter().all(|noted| harmless.contains(&noted.code)), "{noted:?}");
    Ok(chat.into_message().unwrap())
}

/// Frames of a stream of text: JSON each, in their order, together the message; which comes back when rendered.
pub fn chat(data: &[u8]) {
    let Some((request, _, rest)) = context(data) else { return };
    let (text, ends) = cut(rest);
    let mut parser = Parser::new(request);
    let mut chat = Chat::new(IdPolicy::numbered(0));
    let mut choice = Frames::new("\"1\"", 7, "k3").choice(3);
    let mut out = BytesMut::new();
    for chunk in support::chunks(&text, ends) {
        parser.push(chunk, &mut chat).unwrap();
        choice.write(&mut chat, &mut out);
    }
    let reason = parser.finish("stop", &mut chat).unwrap();
    choice.write(&mut chat, &mut out);
    choice.end(reason, Some(&Usage::default()), &mut out);

    let message = chat.into_message().unwrap();
    let mut sum = sum(std::str::from_utf8(&out).unwrap(), reason);
    for (call, whole) in sum.tool_calls.iter_mut().zip(&message.tool_calls) {
        call.complete = whole.complete;
    }
    assert_eq!(sum, message);
    comes_back(&message, None);
}

/// What frames add up to.
fn sum(frames: &str, reason: &str) -> Message {
    let mut message = Message::default();
    let (mut reasoning_ends, mut reasons) = (0, 0);
    for (at, frame) in frames.strip_suffix("\n\n").unwrap().split("\n\n").enumerate() {
        let frame: Value = serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!((&frame["id"], &frame["choices"][0]["index"]), (&"\"1\"".into(), &3.into()));
        assert_eq!(reasons, 0, "a frame behind the end");
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
            assert_eq!(reasoning_ends, usize::from(!message.reasoning.is_empty()), "reasoning that has no end");
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
                let name = of("name").unwrap().into();
                message.tool_calls.push(ToolCall { id: id.into(), name, ..ToolCall::default() });
            }
            assert_eq!(call["index"], message.tool_calls.len() - 1);
            message.tool_calls.last_mut().unwrap().arguments += arguments;
        }
    }
    assert_eq!(reasons, 1);
    message
}

// ---- JSON --------------------------------------------------------------------------------------------------------

const TYPES: [&str; 8] = ["object", "array", "number", "boolean", "null", "string", "?", ""];

/// A value, its type from the first byte: verbatim if it is JSON, else a string, or, streamed, what can become JSON.
pub fn json(data: &[u8]) {
    let Some((&flags, rest)) = data.split_first() else { return };
    let kind = TYPES[usize::from(flags % 8)];
    let streams = flags & STREAM_JSON != 0;
    let (text, ends) = cut(rest);

    let mut parser = Parser::new(Request::new().opened(Channel::Tools).tools(["f"]).stream_json(streams));
    let mut events = Vec::new();
    let argument = format!("argument key=\"k\" type=\"{kind}\"");
    tag(&mut parser, Marker::Open, "call tool=\"f\"", &mut events);
    tag(&mut parser, Marker::Open, &argument, &mut events);
    support::chunks(&text, ends).iter().for_each(|chunk| parser.push_text(chunk, &mut events).unwrap());
    for name in ["argument", "call", "tools"] {
        tag(&mut parser, Marker::Close, name, &mut events);
    }
    parser.finish("stop", &mut events).unwrap();

    let arguments: String =
        events.iter().filter_map(|(event, _)| Some(event.as_event().json()?.1.to_owned())).collect();
    let is_complete = events.iter().any(|(event, _)| matches!(event, OwnedEvent::CallEnd { complete: true, .. }));
    let value = match ValueKind::from_type(Some(kind)) {
        ValueKind::String => format!("\"{}\"", escaped(&text)),
        _ if is_json(&text) => text.clone(),
        ValueKind::Object | ValueKind::Array if streams => {
            assert_eq!(
                (is_complete, &*arguments),
                (false, &*format!("{{\"k\":{}", &text[..twin::could_be_json(&text)]))
            );
            return;
        }
        _ => format!("\"{}\"", escaped(&text)),
    };
    assert_eq!((is_complete, arguments), (true, format!("{{\"k\":{value}}}")), "{kind} {text:?}");
}

fn tag(parser: &mut Parser, marker: Marker, header: &str, events: &mut Vec<(OwnedEvent, Span)>) {
    parser.push_marker(marker, events).unwrap();
    parser.push_text(header, events).unwrap();
    parser.push_marker(Marker::Sep, events).unwrap();
}

// ---- case files --------------------------------------------------------------------------------------------------

/// A case file: an error, or cases that are written and read again as they are.
pub fn cases(data: &[u8]) {
    let read = match cases::read_from(data, "fuzzed") {
        Ok(read) => read,
        Err(error) => return assert!(error.to_string().starts_with("fuzzed, line ")),
    };
    for case in read {
        let line = serde_json::to_string(&case).unwrap();
        let again = cases::read_from(line.as_bytes(), "written").unwrap();
        assert_eq!(again.iter().map(|case| serde_json::to_string(case).unwrap()).collect::<Vec<_>>(), [line]);
        case.context.request();
        case.deltas();
        if case.scale.iter().flat_map(|scale| &scale.times).all(|&times| times < 1_000) {
            assert!(case.sizes().iter().all(|(_, case)| case.scale.is_none()));
        }
    }
}
