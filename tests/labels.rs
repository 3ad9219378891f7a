//! Labels: each token has one, and it is that of its first byte.
//!
//! In: hostile streams and recorded ones, pushed in every way that has ids. Checked: labels against the report's sums, against
//! what the events' spans say of each token's first byte, and against each other.

use kimi_xtml::{Channel, Counts, Kind, Label, Labels, Marker, OwnedEvent, Parser, Request, Span, labels};
use proptest::prelude::*;

mod support;

use support::{Random, Stream, Way, config, recorded, streams};

type Events = Vec<(OwnedEvent, Span)>;

/// Pushes all of it.
fn run(request: &Request, way: &Way<'_>) -> (Events, Vec<Label>, Option<Counts>) {
    let mut parser = Parser::new(request.clone());
    let mut sink = (Events::new(), Labels::default());
    for push in &way.pushes {
        push.to(&mut parser, &mut sink);
    }
    parser.finish("stop", &mut sink);
    (sink.0, sink.1.finish(way.tokens()), parser.report().tokens)
}

fn sums(labels: &[Label]) -> Counts {
    let count = |wanted| labels.iter().filter(|&&label| label == wanted).count() as u64;
    assert_eq!(count(Label::Prompt), 0);
    let mut sums = Counts::default();
    sums.input = labels.len() as u64;
    sums.reasoning = count(Label::Reasoning);
    sums.content = count(Label::Content);
    sums.arguments = count(Label::Argument);
    sums.markup = count(Label::Markup) + count(Label::CallName);
    sums.withheld = count(Label::Withheld);
    sums.dropped = count(Label::Dropped);
    sums
}

/// Where the value of `tool` stands in a header, which lexes.
fn name(header: &str) -> std::ops::Range<usize> {
    let mut start = 0;
    let parts: Vec<&str> = header.split('"').collect();
    for pair in parts.chunks(2) {
        let key = pair[0].trim_end().trim_end_matches('=').trim_end();
        let value = start + pair[0].len() + 1;
        if key.ends_with("tool") && key.trim_end_matches("tool").ends_with([' ', '\t', '\r', '\n']) {
            return value..value + pair[1].len();
        }
        start = value + pair.get(1).map_or(0, |value| value.len() + 1);
    }
    panic!("no tool in {header}");
}

/// The label of each byte of the input.
fn of_bytes(input: &str, events: &Events) -> Vec<Label> {
    let mut bytes = Vec::new();
    for (event, span) in events {
        let at = span.bytes.start as usize..span.bytes.end as usize;
        let label = match event.as_event().kind() {
            Kind::Reasoning => Label::Reasoning,
            Kind::Content => Label::Content,
            Kind::Arguments => Label::Argument,
            Kind::Markup => Label::Markup,
            Kind::Withheld => Label::Withheld,
            Kind::Dropped => Label::Dropped,
            kind => panic!("{kind:?}"),
        };
        bytes.resize(at.end, label);
        if let OwnedEvent::CallStart { .. } = event {
            let name = name(&input[at.clone()]);
            bytes[at.start + name.start..at.start + name.end].fill(Label::CallName);
        }
    }
    bytes
}

fn check(stream: &Stream, seed: u64) {
    for way in stream.by_ids(&mut Random(seed)).iter().filter(|way| way.tokens() > 0) {
        let (_, labels, counts) = run(&stream.request, way);
        assert_eq!(Some(sums(&labels)), counts, "{} {}", stream.name, way.name);
        assert_eq!(labels.len(), way.tokens(), "{} {}", stream.name, way.name);
    }
    let Some(tokens) = stream.tokens().filter(|tokens| !tokens.is_empty()) else { return };
    let way = Way { name: "tokens", pushes: tokens.iter().map(|&(id, text)| support::Push::Token(id, text)).collect() };
    let (events, told, _) = run(&stream.request, &way);
    let texts: Vec<(&str, u32)> = tokens.iter().map(|&(id, text)| (text, id)).collect();
    assert_eq!(told, labels(stream.request.clone(), &texts), "{}", stream.name);

    let texts: Vec<&str> =
        tokens.iter().map(|&(id, text)| Marker::from_id(id).map_or(text, |marker| marker.spelling())).collect();
    let input = texts.concat();
    let bytes = of_bytes(&input, &events);
    let mut start = 0;
    for (at, text) in texts.iter().enumerate() {
        // Without text, it is part of what the next byte begins.
        let expected = bytes.get(start).copied().unwrap_or(Label::Markup);
        assert_eq!(told[at], expected, "{}, token {at}: {text:?} of {input}", stream.name);
        start += text.len();
    }
}

#[test]
fn labels_of_recorded() {
    recorded().iter().for_each(|stream| check(stream, 1));
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn labels_of_any_stream(stream in streams(), seed: u64) {
        check(&stream, seed);
    }
}

#[test]
fn a_call_is_labelled_part_by_part() {
    let request = Request::new().opened(Channel::Think).tools(["get_weather"]);
    let (open, close, sep) = (Marker::Open.id(), Marker::Close.id(), Marker::Sep.id());
    let tokens = [
        (1, "h", Label::Reasoning),
        (close, "", Label::Markup),
        (1, "think", Label::Markup),
        (sep, "", Label::Markup),
        (open, "", Label::Markup),
        (1, "tools", Label::Markup),
        (sep, "", Label::Markup),
        (open, "", Label::Markup),
        (1, "call", Label::Markup),
        (1, " tool", Label::Markup),
        // Begins before the name.
        (1, "=\"get", Label::Markup),
        (1, "_", Label::CallName),
        (1, "wea", Label::CallName),
        // Ends after it.
        (1, "ther\"", Label::CallName),
        (1, " index", Label::Markup),
        (1, "=\"1\"", Label::Markup),
        (sep, "", Label::Markup),
        (open, "", Label::Markup),
        (1, "argument key=\"city\" type=\"string\"", Label::Markup),
        (sep, "", Label::Markup),
        (1, "Lis", Label::Argument),
        (1, "bon", Label::Argument),
        (close, "", Label::Markup),
        (1, "argument", Label::Markup),
        (sep, "", Label::Markup),
        (1, " ", Label::Markup),
        (1, "x", Label::Dropped),
        // A token whose text never came.
        (1, "", Label::Markup),
    ];
    let texts: Vec<(&str, u32)> = tokens.iter().map(|&(id, text, _)| (text, id)).collect();
    let expected: Vec<Label> = tokens.iter().map(|&(.., label)| label).collect();
    assert_eq!(labels(request, &texts), expected);
}

#[test]
fn a_name_within_one_token_has_none_of_its_own() {
    let request = Request::new().opened(Channel::Tools).tools(["f"]);
    let tokens = [("", Marker::Open.id()), ("call tool=\"f\" index=\"1\"", 1), ("", Marker::Sep.id())];
    assert_eq!(labels(request, &tokens), [Label::Markup; 3]);
}
