//! The invariants I1 to I5, I7 and I10: each a function of what came out of a way to push a stream, or of what stands
//! after each push.
//!
//! In: a stream, a way, and what came of it. Out: nothing, or a panic that shows both. The tests call them on recorded
//! and hostile streams, the oracles on fuzzed ones.

use std::ops::Range;

use kimi_xtml::{
    Channel, Code, Event, Kind, Marker, OwnedEvent, Parser, Request, Span, Undeclared, ValueKind, sink_fn,
};
use serde_json::value::RawValue;

use super::stream::{Push, Random, Run, Stream, TOKENS, Way, cut, show};

/// A text of the input, as events have it.
fn lossy(input: &[u8], span: &Span) -> String {
    String::from_utf8_lossy(&input[span.bytes.start as usize..span.bytes.end as usize]).into_owned()
}

/// The inside of a JSON string.
pub fn escaped(text: &str) -> String {
    let json = serde_json::to_string(text).unwrap();
    json[1..json.len() - 1].to_owned()
}

pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Bytes, pushed whole, singly and in two random ways.
pub fn ways_of_bytes<'a>(bytes: &'a [u8], random: &mut Random) -> [Way<'a>; 4] {
    let single: Vec<usize> = if bytes.len() < 2_000 { (1..=bytes.len()).collect() } else { random.ends(bytes.len()) };
    [
        Way::bytes("bytes, whole", bytes, [bytes.len()]),
        Way::bytes("bytes, single", bytes, single),
        Way::bytes("bytes, random", bytes, random.ends(bytes.len())),
        Way::bytes("bytes, random again", bytes, random.ends(bytes.len())),
    ]
}

/// What the report must say of bytes that are no UTF-8: how often they were replaced, and where first. The character that
/// the end cuts is not.
pub fn replacements(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut chunks = bytes.utf8_chunks().peekable();
    let (mut count, mut first, mut at) = (0, 0, 0);
    while let Some(chunk) = chunks.next() {
        at += chunk.valid().len() as u64;
        let is_cut = std::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
        let ends_cut = is_cut && chunks.peek().is_none();
        if !chunk.invalid().is_empty() && !ends_cut {
            first = if count == 0 { at } else { first };
            count += 1;
        }
        at += chunk.invalid().len() as u64;
    }
    (count > 0).then_some((count, first))
}

/// The report says it.
pub fn replaces(bytes: &[u8], way: &Way<'_>, run: &Run) {
    let noted = run.report.diagnostics.iter().find(|noted| noted.code == Code::InvalidUtf8);
    assert_eq!(noted.map(|noted| (noted.count, noted.first)), replacements(bytes), "{}", cut(way));
}

// ---- I1 ----------------------------------------------------------------------------------------------------------

pub fn same(stream: &Stream, way: &Way<'_>, got: &Run, expected: &Run) {
    assert!(
        got == expected,
        "{} {}\n{}\n{}\n{}expected:\n{}{}\n{}",
        stream.name,
        way.name,
        cut(&stream.request),
        cut(&stream.text),
        show(&got.events),
        show(&expected.events),
        cut(&got.report),
        cut(&expected.report),
    );
}

// ---- I2 ----------------------------------------------------------------------------------------------------------

/// Adds to the count of a kind.
fn count(counts: &mut kimi_xtml::Counts, kind: Kind, amount: u64) {
    counts.input += amount;
    match kind {
        Kind::Reasoning => counts.reasoning += amount,
        Kind::Content => counts.content += amount,
        Kind::Arguments => counts.arguments += amount,
        Kind::Markup => counts.markup += amount,
        Kind::Withheld => counts.withheld += amount,
        Kind::Dropped => counts.dropped += amount,
        _ => panic!("a kind that is not known here: {kind:?}"),
    }
}

/// The spans follow each other and cover the input; the report counts what they do.
pub fn conserves(way: &Way<'_>, run: &Run) {
    let fail = |what: &str| panic!("{what}: {}\n{}\n{}{:?}", way.name, cut(way), show(&run.events), run.report);
    let mut bytes = kimi_xtml::Counts::default();
    let (mut end, mut first, mut token) = (0, 0, 0);
    for (event, span) in &run.events {
        if span.bytes.start != end || span.bytes.end < end {
            fail("a gap");
        }
        end = span.bytes.end;
        count(&mut bytes, event.as_event().kind(), span.bytes.end - span.bytes.start);
        if let Some(tokens) = &span.tokens {
            // Two events share the tokens whose text they share.
            if tokens.start > tokens.end || tokens.start < first || tokens.start > token {
                fail("a gap of tokens");
            }
            (first, token) = (tokens.start, tokens.end.max(token));
        }
    }
    let pushed = way.tokens() as u64;
    if end != way.input().len() as u64 {
        fail("not all of the input");
    }
    if bytes != run.report.bytes {
        fail("bytes by kind");
    }
    if token > pushed || run.report.tokens.map_or(0, |tokens| tokens.input) != pushed {
        fail("the tokens");
    }
    if let Some(tokens) = run.report.tokens {
        let kinds =
            [tokens.reasoning, tokens.content, tokens.arguments, tokens.markup, tokens.withheld, tokens.dropped];
        if kinds.iter().sum::<u64>() != pushed {
            fail("tokens by kind");
        }
    }
    if way.name == TOKENS {
        exact_tokens(way, run);
    }
}

/// Where each token came alone, an event has the tokens whose text its own is, and each token counts as what its
/// first byte is. A token without text goes with the next that has some.
fn exact_tokens(way: &Way<'_>, run: &Run) {
    let (mut texts, mut tokens): (Vec<Range<u64>>, Vec<Range<u64>>) = Default::default();
    let (mut end, mut first) = (0, 0);
    for (number, push) in (0..).zip(&way.pushes) {
        let len = push.input().len() as u64;
        if len > 0 {
            texts.push(end..end + len);
            tokens.push(first..number + 1);
            (end, first) = (end + len, number + 1);
        }
    }
    let mut counts = kimi_xtml::Counts::default();
    for (event, span) in &run.events {
        let bytes = &span.bytes;
        let shown = || format!("{}\n{}", cut(way), show(&run.events));
        if bytes.is_empty() {
            assert!(span.tokens.as_ref().is_none_or(Range::is_empty), "{}", shown());
            continue;
        }
        let (from, to) = (
            texts.partition_point(|text| text.end <= bytes.start),
            texts.partition_point(|text| text.start < bytes.end),
        );
        let expected = tokens[from].start..tokens[to - 1].end;
        assert_eq!(span.tokens, Some(expected), "{bytes:?} {}", shown());
        for (text, tokens) in texts[from..to].iter().zip(&tokens[from..to]) {
            if text.start >= bytes.start {
                count(&mut counts, event.as_event().kind(), tokens.end - tokens.start);
            }
        }
    }
    count(&mut counts, Kind::Markup, way.pushes.len() as u64 - first);
    assert_eq!(run.report.tokens.unwrap_or_default(), counts, "{}\n{}", cut(way), show(&run.events));
}

// ---- I3 ----------------------------------------------------------------------------------------------------------

/// Text is the text of its span; a value's JSON says the text of its span; a tag is a tag.
pub fn no_leak(way: &Way<'_>, run: &Run) {
    let input = way.input();
    let mut kind = ValueKind::String;
    for (event, span) in &run.events {
        let raw = lossy(&input, span);
        let is_right = match event.as_event() {
            Event::Reasoning(text)
            | Event::Content(text)
            | Event::Withheld(text)
            | Event::Markup(text)
            | Event::Dropped(text) => text == raw && !text.is_empty(),
            Event::Arguments { json, .. } if kind == ValueKind::String => json == escaped(&raw),
            Event::Arguments { json, .. } if kind == ValueKind::Block => json == raw,
            Event::Arguments { json, .. } => {
                json == raw || json.strip_prefix('"').is_some_and(|json| json == escaped(&raw))
            }
            Event::ArgumentStart { kind: opened, .. } => {
                kind = opened;
                is_tag(&raw, Marker::Open, &["argument", "json"])
            }
            Event::Start(channel) => raw.is_empty() || is_tag(&raw, Marker::Open, &[channel.name()]),
            Event::CallStart { .. } => is_tag(&raw, Marker::Open, &["call"]),
            Event::End(channel) => raw.is_empty() || is_tag(&raw, Marker::Close, &[channel.name()]),
            Event::ArgumentEnd { closed, .. } => {
                raw.is_empty() != closed && (!closed || is_tag(&raw, Marker::Close, &["argument", "json"]))
            }
            Event::CallEnd { .. } => raw.is_empty() || is_tag(&raw, Marker::Close, &["call"]),
            Event::Diagnostic(_) => raw.is_empty(),
            _ => false,
        };
        assert!(is_right, "{} {} is not {}\n{}\n{}", way.name, cut(event), cut(&raw), cut(way), show(&run.events));
    }
}

/// A tag of one of these names, with its `<|sep|>` or without, and with what it may have before and after its name.
fn is_tag(raw: &str, marker: Marker, names: &[&str]) -> bool {
    let Some(inside) = raw.strip_prefix(marker.spelling()) else { return false };
    let inside = inside.strip_suffix(Marker::Sep.spelling()).unwrap_or(inside).trim_matches([' ', '\t', '\r', '\n']);
    names.iter().filter_map(|name| inside.strip_prefix(name)).any(|rest| rest.is_empty() || marker == Marker::Open)
}

// ---- I4 ----------------------------------------------------------------------------------------------------------

/// What is open, from the events alone.
#[derive(Debug, Default)]
struct Open {
    channel: Option<Channel>,
    call: Option<usize>,
    value: Option<ValueKind>,
    /// Calls so far.
    calls: usize,
}

impl Open {
    /// Takes an event. Gives whether it may stand here.
    fn take(&mut self, event: &Event<'_>, request: &Request) -> bool {
        let outside = self.channel.is_none();
        let in_tools = self.channel == Some(Channel::Tools);
        let in_call = |call| self.call == Some(call);
        match *event {
            Event::Start(channel) => self.channel.replace(channel).is_none(),
            Event::End(channel) => self.call.is_none() && self.channel.take() == Some(channel),
            Event::CallStart { call, .. } => {
                let fits = in_tools && self.calls == call && self.call.replace(call).is_none();
                self.calls += 1;
                fits
            }
            Event::ArgumentStart { call, kind, key, .. } => {
                in_call(call) && self.value.replace(kind).is_none() && key.is_some() == (kind != ValueKind::Block)
            }
            Event::Arguments { call, json } => in_call(call) && self.value.is_some() && !json.is_empty(),
            Event::ArgumentEnd { call, .. } => in_call(call) && self.value.take().is_some(),
            Event::CallEnd { call, .. } => self.value.is_none() && self.call.take() == Some(call),
            Event::Reasoning(_) => self.channel == Some(Channel::Think) && request.separate_reasoning,
            Event::Content(_) => match self.channel {
                Some(Channel::Think) => !request.separate_reasoning,
                Some(Channel::Tools) => false,
                None | Some(Channel::Response) => true,
                Some(_) => false,
            },
            Event::Withheld(_) => self.channel != Some(Channel::Tools) && request.undeclared == Undeclared::Withhold,
            Event::Markup(_) => outside || in_tools && self.value.is_none(),
            Event::Dropped(_) | Event::Diagnostic(_) => true,
            _ => false,
        }
    }
}

/// Everything is opened and closed in its place, and all is closed at the end.
pub fn nests(request: &Request, way: &Way<'_>, run: &Run) {
    let mut open = Open::default();
    for (event, _) in &run.events {
        let fits = open.take(&event.as_event(), request);
        assert!(fits, "{} {} {open:?}\n{}\n{}", way.name, cut(event), cut(way), show(&run.events));
    }
    let closed = open.channel.is_none() && open.call.is_none() && open.value.is_none();
    assert!(closed, "{} {open:?}\n{}\n{}", way.name, cut(way), show(&run.events));
}

// ---- I5 ----------------------------------------------------------------------------------------------------------

/// White space of one run in a tag, in bytes.
pub const BLANKS: usize = 256;
/// White space that is looked past for what follows a tag, in bytes.
pub const GAP: usize = 16 << 10;
/// What a data context holds at most where tags are only spelled: a tag, blanks, a tag that has begun.
const DATA: usize = GAP + 1_280;
/// What is held at most elsewhere: a header, and the beginning of the marker that would end it.
const HEADER: usize = (16 << 10) + 13;
/// The header of a tag whose name the format does not have.
pub const UNKNOWN: usize = 256;

const NAMES: &[&str] = &["think", "response", "tools", "call", "argument", "json", "message"];
/// The names whose openers have attributes.
const ATTRIBUTED: &[&str] = &["call", "argument", "json", "message"];
const CHANNELS: &[&str] = &["think", "response", "tools"];

/// A tag that waits for what follows: marker, name, and the openers and closers that may follow.
type Waiting = (Marker, &'static str, &'static [&'static str], &'static [&'static str]);

/// What may be held where.
struct Place {
    /// Openers that a tag may become.
    openers: &'static [&'static str],
    /// Whether a tag may have a name that the format does not have.
    unknown: bool,
    waiting: Vec<Waiting>,
    /// Bytes.
    most: usize,
}

/// The place that is open. Where events do not tell it (in what is withheld or dropped), all may be held. `told`: whether
/// markers are known; `whole`: whether the open value is one JSON value so far, so that its close waits for nothing.
fn place(parser: &Parser, open: &Open, told: bool, whole: bool) -> Place {
    use Marker::{Close, EndOfMsg, Eos, Open};
    const AFTER: &[&str] = &["argument", "json", "call", "think", "response", "tools"];
    const AFTER_CLOSE: &[&str] = &["call", "tools", "message", "think", "response"];
    const CLOSES: &[Waiting] = &[(Close, "argument", AFTER, AFTER_CLOSE), (Close, "json", AFTER, AFTER_CLOSE)];
    const ENDS: &[Waiting] = &[(Close, "message", &[], &[]), (EndOfMsg, "", &[], &[])];
    const TEXT: &[Waiting] = &[(Close, "response", NAMES, NAMES), (Open, "tools", &["call"], &["tools"])];
    // In a value, `[EOS]` by its id.
    let eos: &[Waiting] = if told { &[(Eos, "", &[], &[])] } else { &[] };
    let value = [if whole { &[] } else { CLOSES }, ENDS, eos].concat();
    let (openers, waiting) = match (parser.channel(), open.value) {
        (Some(Channel::Think | Channel::Response), _) => (CHANNELS, [TEXT, ENDS].concat()),
        (Some(Channel::Tools), Some(_)) => (CHANNELS, value),
        (Some(Channel::Tools), None) => (NAMES, value),
        _ => (NAMES, Vec::new()),
    };
    let (openers, most) = if told || openers == NAMES { (NAMES, HEADER) } else { (openers, DATA) };
    Place { openers, unknown: told && open.value.is_none(), waiting, most }
}

/// Whether `held` is nothing but: a tag that waits for what follows, with its blanks and what may become that; or a
/// tag that has begun; or the beginning of a marker.
fn is_undecided(held: &str, place: &Place) -> bool {
    if held.len() > place.most {
        return false;
    }
    let waits = |&(marker, name, open, close): &Waiting| {
        let Some(tag) = held.strip_prefix(marker.spelling()) else { return false };
        let Some(tag) = tag.trim_start_matches(blank).strip_prefix(name) else { return false };
        let after = if name.is_empty() { tag } else { tag.trim_start_matches(blank) };
        let rest = after.strip_prefix(Marker::Sep.spelling()).unwrap_or(after);
        let follower = rest.trim_start_matches(blank);
        let whole = name.is_empty() || rest.len() < after.len() || starts_with_marker(after);
        let decided = open.iter().any(|name| opens(follower, name));
        whole && !decided && rest.len() - follower.len() <= GAP && has_begun(follower, open, close, false)
    };
    has_begun(held, place.openers, NAMES, place.unknown) || place.waiting.iter().any(waits)
}

fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn starts_with_marker(text: &str) -> bool {
    [Marker::Open, Marker::Close].iter().any(|marker| text.starts_with(marker.spelling()))
}

/// Whether an opener's name is whole here.
fn opens(text: &str, name: &str) -> bool {
    let tag = text.strip_prefix(Marker::Open.spelling()).map(|tag| tag.trim_start_matches(blank));
    tag.and_then(|tag| tag.strip_prefix(name)).is_some_and(|rest| rest.starts_with(blank))
}

/// Whether `text` is at most a tag with one of these names, or with any, that has begun, and after it a marker that has
/// begun.
fn has_begun(text: &str, open: &[&str], close: &[&str], unknown: bool) -> bool {
    let marker_begins = |text: &str| {
        let spellings = [Marker::Open, Marker::Close, Marker::Sep, Marker::EndOfMsg].map(Marker::spelling);
        spellings.iter().any(|spelling| spelling.starts_with(text) && *spelling != text)
    };
    let tag_begins = |text: &str, marker: Marker, names: &[&str]| {
        let Some(header) = text.strip_prefix(marker.spelling()) else { return false };
        let tag = header.trim_start_matches(blank);
        unknown && header.len() <= UNKNOWN
            || names.iter().any(|name| match tag.strip_prefix(name) {
                None => name.starts_with(tag),
                Some("") => true,
                Some(rest) if marker == Marker::Open && ATTRIBUTED.contains(name) => rest.starts_with(blank),
                Some(rest) => rest.trim_start_matches(blank).is_empty(),
            })
    };
    let mut ends = text.char_indices().map(|(at, _)| at).rev().take(13).chain([text.len()]);
    ends.any(|end| {
        let (tag, marker) = text.split_at(end);
        let begins = tag.is_empty() || tag_begins(tag, Marker::Open, open) || tag_begins(tag, Marker::Close, close);
        begins && marker_begins(marker)
    })
}

/// After each push, all of the input but what is held has gone out; what is held is undecided, or the value that is
/// open and no string.
pub fn prompt(stream: &Stream, way: &Way<'_>) {
    let mut parser = Parser::new(stream.request.clone());
    let mut open = Open::default();
    let (mut pushed, mut input, mut told) = (0, Vec::new(), false);
    // Where the text of the last value begins.
    let mut value_start = 0;
    for push in &way.pushes {
        let mut end = 0;
        let mut take = sink_fn(|event, span| {
            open.take(&event, &stream.request);
            end = span.bytes.end;
            if let Event::ArgumentStart { .. } = event {
                value_start = end as usize;
            }
        });
        push.to(&mut parser, &mut take);
        input.extend(push.input());
        pushed += push.input().len();
        told |= !matches!(push, Push::Text(_) | Push::Bytes(_));

        let (held, decided) = (parser.held(), parser.report().bytes.input as usize);
        let partial = partial_character(&input);
        let undecided = pushed - decided - partial;
        let fail = |what: &str| {
            let tail = &held[held.floor_char_boundary(held.len().saturating_sub(200))..];
            panic!(
                "{what}: {} {} {open:?} after {pushed}\n{}\n{held:.200}\n{tail}",
                stream.name,
                way.name,
                cut(&stream.text)
            )
        };
        let Some(value_len) = held.len().checked_sub(undecided) else { fail("not all is there") };
        let (value, undecided) = held.split_at(value_len);
        let tag_start = pushed - partial - undecided.len();
        let whole = !told
            && undecided.starts_with(Marker::Close.spelling())
            && open.value.is_some_and(|kind| is_whole(kind, &input[value_start..tag_start], &stream.request));
        if !is_undecided(undecided, &place(&parser, &open, told, whole)) {
            fail("held without need");
        }
        if !value.is_empty() {
            let is_string = matches!(open.value, None | Some(ValueKind::String | ValueKind::Block));
            if is_string || value.len() > stream.request.value_limit || !input[..decided].ends_with(value.as_bytes()) {
                fail("a value held");
            }
        }
        if end > 0 && end as usize + held.len() + partial != pushed {
            fail("what went out and what is held");
        }
    }
}

/// Whether a value so far is one JSON value, where its kind is JSON.
fn is_whole(kind: ValueKind, value: &[u8], request: &Request) -> bool {
    let streamed = request.stream_json && matches!(kind, ValueKind::Object | ValueKind::Array);
    let fits = value.len() <= request.value_limit || streamed;
    kind != ValueKind::String && fits && std::str::from_utf8(value).is_ok_and(is_json)
}

/// The bytes of a character that is cut at the end.
fn partial_character(input: &[u8]) -> usize {
    let tail = &input[input.len().saturating_sub(3)..];
    let start = tail.iter().rposition(|&byte| byte >= 0xc0).map_or(&tail[..0], |at| &tail[at..]);
    std::str::from_utf8(start).map_or(start.len(), |_| 0)
}

// ---- I7 ----------------------------------------------------------------------------------------------------------

/// The arguments of a call are JSON exactly when it is complete, unless they came as a block.
pub fn completes(way: &Way<'_>, run: &Run) {
    let mut arguments = String::new();
    let mut block = false;
    for (event, _) in &run.events {
        let event = event.as_event();
        if let Event::CallStart { .. } = event {
            arguments.clear();
            block = false;
        }
        block |= matches!(event, Event::ArgumentStart { kind: ValueKind::Block, .. });
        arguments.push_str(event.json().map_or("", |(_, json)| json));
        if let Event::CallEnd { complete, .. } = event {
            let is_object = arguments.starts_with('{') && is_json(&arguments);
            assert!(
                block || is_object == complete,
                "{} {arguments:.500}\n{}\n{}",
                way.name,
                cut(way),
                show(&run.events)
            );
        }
    }
    let is_complete = |(event, _): &(OwnedEvent, Span)| matches!(event, OwnedEvent::CallEnd { complete: true, .. });
    let reason = if run.events.iter().any(is_complete) { "tool_calls" } else { "stop" };
    assert_eq!(run.reason, reason, "{}\n{}", cut(way), show(&run.events));
}

// ---- I10 ---------------------------------------------------------------------------------------------------------

/// Where tokens tell what is a marker, no marker's bytes lie in reasoning or content. `markers` are their places, in order.
pub fn tells(request: &Request, markers: &[Range<u64>], way: &Way<'_>, run: &Run) {
    if request.undeclared == Undeclared::Content {
        return;
    }
    for (event, span) in &run.events {
        if !matches!(event, OwnedEvent::Reasoning(_) | OwnedEvent::Content(_)) {
            continue;
        }
        let next = markers.partition_point(|marker| marker.end <= span.bytes.start);
        let is_clean = markers.get(next).is_none_or(|marker| marker.start >= span.bytes.end);
        assert!(is_clean, "{} {}\n{}\n{}", way.name, cut(event), cut(way), show(&run.events));
    }
}
