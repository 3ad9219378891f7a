//! The invariants I1 to I5 and I7, each over the recorded streams and over hostile ones.
//!
//! In: a stream, in every way to push it. The invariants are those of `oracle/src/invariants.rs`; I6 is in `render.rs`, I8 in
//! `linear.rs` and `memory.rs`, I9 in `twin.rs`. `KIMI_XTML_DATA` adds the field cases. To see one fail, break a line of the source that it watches.

use kimi_xtml::{Channel, Code, Marker, OwnedEvent, Parser, Report, Request, coalesce, sink_fn};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

mod support;

use kimi_xtml_oracle::invariants::{BLANKS, completes, conserves, nests, no_leak, prompt, same, ways_of_bytes};
use support::{Push, Random, Run, Stream, Way, config, cut, recorded, requests, run, show, spell, streams};

/// Every way to push a stream.
fn ways<'a>(stream: &'a Stream, random: &mut Random) -> Vec<Way<'a>> {
    let mut ways = stream.by_text(random);
    ways.extend(stream.by_ids(random));
    ways.push(stream.mixed(random));
    ways
}

/// Checks what comes of every way to push a stream.
fn each_run(stream: &Stream, seed: u64, check: impl Fn(&Way<'_>, &Run)) {
    for way in ways(stream, &mut Random(seed)) {
        let run = run(&mut Parser::new(stream.request.clone()), &way);
        check(&way, &run);
    }
}

// ---- I1 ----------------------------------------------------------------------------------------------------------

/// Text in every chunking is one thing, tokens in every grouping one other.
fn split(stream: &Stream, seed: u64) {
    let random = &mut Random(seed);
    for ways in [stream.by_text(random), stream.by_ids(random)] {
        let mut expected = None;
        for way in &ways {
            let run = run(&mut Parser::new(stream.request.clone()), way).without_tokens();
            same(stream, way, &run, expected.get_or_insert_with(|| run.clone()));
        }
    }
}

#[test]
fn i1_split_of_recorded() {
    recorded().iter().for_each(|stream| split(stream, 1));
}

/// A reused parser gives what a new one gives, token ranges and work too, wherever its last stream was left.
#[test]
fn i1_split_after_reset() {
    let random = &mut Random(2);
    let mut reused = Parser::default();
    for stream in recorded() {
        for way in ways(&stream, random) {
            reused.reset(stream.request.clone());
            let new = run(&mut Parser::new(stream.request.clone()), &way);
            same(&stream, &way, &run(&mut reused, &way), &new);

            reused.reset(stream.request.clone());
            let left = random.below(way.pushes.len() + 1);
            let mut ignored = sink_fn(|_, _| {});
            way.pushes[..left].iter().for_each(|push| push.to(&mut reused, &mut ignored));
        }
    }
}

/// Text, and bytes that are no UTF-8 between it.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let invalid = select(vec![
        &b"\xff"[..],
        b"\xc3",
        b"\xe4\xb8",
        b"\xf0\x9f\x98",
        b"\xed\xa0\x80",
        b"\x80",
        b"\xc0\xaf",
        b"\xf5\x80\x80\x80",
    ]);
    (support::parts(), vec((any::<usize>(), invalid), 0..6)).prop_map(|(parts, invalid)| {
        let mut bytes: Vec<u8> = parts.into_iter().flat_map(|(text, _)| text.into_bytes()).collect();
        for (at, invalid) in invalid {
            let at = at % (bytes.len() + 1);
            bytes.splice(at..at, invalid.iter().copied());
        }
        bytes
    })
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn i1_split(stream in streams(), seed: u64) {
        split(&stream, seed);
    }

    #[test]
    fn i1_split_of_any_bytes(bytes in bytes(), request in requests(), seed: u64) {
        let text = String::from_utf8_lossy(&bytes);
        let mut as_text = Vec::new();
        let mut parser = Parser::new(request.clone());
        parser.push(&text, &mut as_text);
        parser.finish("stop", &mut as_text);
        let as_text: Vec<_> = coalesce(as_text).into_iter().map(|(event, _)| event).collect();

        let mut expected = None;
        for way in ways_of_bytes(&bytes, &mut Random(seed)) {
            let mut run = run(&mut Parser::new(request.clone()), &way);
            run.report.examined = 0;
            let expected = expected.get_or_insert_with(|| run.clone());
            prop_assert!(run == *expected, "{} {}\n{}", way.name, cut(&bytes), show(&run.events));
            let events: Vec<_> = run.events.iter().map(|(event, _)| event.clone()).collect();
            prop_assert!(events == as_text, "{} {}\n{}", way.name, cut(&bytes), show(&run.events));
        }
    }
}

// ---- I2 ----------------------------------------------------------------------------------------------------------

#[test]
fn i2_conservation_of_recorded() {
    recorded().iter().for_each(|stream| each_run(stream, 3, conserves));
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn i2_conservation(stream in streams(), seed: u64) {
        each_run(&stream, seed, conserves);
    }

    #[test]
    fn i2_conservation_of_any_bytes(bytes in bytes(), request in requests(), seed: u64) {
        for way in ways_of_bytes(&bytes, &mut Random(seed)) {
            let run = run(&mut Parser::new(request.clone()), &way);
            conserves(&way, &run);
            no_leak(&way, &run);
            let replaced = String::from_utf8_lossy(&bytes).matches('\u{fffd}').count() as u64;
            let counted = run.report.diagnostics.iter().find(|noted| noted.code == Code::InvalidUtf8);
            prop_assert_eq!(counted.map_or(0, |noted| noted.count), replaced);
            if let Some(noted) = counted {
                prop_assert_eq!(noted.first, std::str::from_utf8(&bytes).unwrap_err().valid_up_to() as u64);
            }
        }
    }
}

// ---- I3 ----------------------------------------------------------------------------------------------------------

#[test]
fn i3_no_leak_of_recorded() {
    recorded().iter().for_each(|stream| each_run(stream, 4, no_leak));
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn i3_no_leak(stream in streams(), seed: u64) {
        each_run(&stream, seed, no_leak);
    }
}

// ---- I4 ----------------------------------------------------------------------------------------------------------

#[test]
fn i4_nesting_of_recorded() {
    for stream in recorded() {
        each_run(&stream, 5, |way, run| nests(&stream.request, way, run));
    }
}

#[test]
fn i4_what_comes_after_the_finish_is_dropped_and_told_of() {
    for stream in recorded() {
        let mut parser = Parser::new(stream.request.clone());
        let way = stream.mixed(&mut Random(6));
        let reason = run(&mut parser, &way).reason;
        let (report, held, channel) = (parser.report(), parser.held(), parser.channel());
        assert_eq!((held.as_str(), channel), ("", None), "{}", stream.name);
        let mut events = Vec::new();
        for push in [
            Push::Text("a"),
            Push::Text(""),
            Push::Bytes(b"a"),
            Push::Bytes(b"\xff"),
            Push::Quoted("a"),
            Push::Marker(Marker::Open),
            Push::Token(1, "a"),
            Push::WithIds("a", &[1]),
        ] {
            push.to(&mut parser, &mut events);
        }
        assert_eq!(parser.finish("stop", &mut events), reason);
        let mut end = report.bytes.input;
        assert_eq!(events.remove(0).0, OwnedEvent::Diagnostic(Code::AfterEnd));
        for (event, span) in events {
            assert!(matches!(event, OwnedEvent::Dropped(_)) && span.bytes.start == end, "{event:?}");
            end = span.bytes.end;
        }
        let after = parser.report();
        assert_eq!((end, after.bytes.input), (report.bytes.input + 14, end));
        assert_eq!(after.bytes.dropped, report.bytes.dropped + 14);
        let noted = |report: &Report| {
            report.diagnostics.iter().find(|noted| noted.code == Code::AfterEnd).map_or(0, |noted| noted.count)
        };
        assert_eq!(noted(&after), noted(&report) + 1);
        assert_eq!((parser.held(), parser.channel()), (String::new(), None));
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn i4_nesting(stream in streams(), seed: u64) {
        each_run(&stream, seed, |way, run| nests(&stream.request, way, run));
    }
}

// ---- I5 ----------------------------------------------------------------------------------------------------------

fn prompt_in_every_way(stream: &Stream, seed: u64) {
    let random = &mut Random(seed);
    for way in stream.by_text(random).iter().chain(&stream.by_ids(random)) {
        prompt(stream, way);
    }
}

#[test]
fn i5_promptness_of_recorded() {
    recorded().iter().for_each(|stream| prompt_in_every_way(stream, 7));
}

/// Text without a `<` leaves as it comes.
#[test]
fn i5_promptness_of_plain_text() {
    for beginning in [
        "",
        "{/think}{response}",
        "{/think}{tools}{call tool=\"f\"}{argument key=\"k\"}",
        "{/think}{tools}{call tool=\"f\"}{json}",
        "{/think}{tools}",
        "{/think}{tools}{call tool=\"f\"}",
        "{/think}",
        "$",
    ] {
        let mut parser = Parser::new(Request::new().opened(Channel::Think).tools(["f"]));
        let mut pushed = spell(beginning).len() as u64;
        let mut ignored = sink_fn(|_, _| {});
        parser.push(&spell(beginning), &mut ignored);
        for text in ["|", ">", "open|>", " ", "\n\n", "a", "sep", "[EOS]", "é", "|>", "\"", "\\", &" ".repeat(300)] {
            let mut end = 0;
            parser.push(text, &mut sink_fn(|_, span| end = span.bytes.end));
            pushed += text.len() as u64;
            assert_eq!((parser.held().as_str(), end), ("", pushed), "{beginning} {text:?}");
        }
    }
}

/// What is held goes out with the first byte that is too much.
#[test]
fn i5_promptness_at_the_limits() {
    let end = |text: &str| spell(text).len();
    for (beginning, filler, most) in [
        ("{/think}{response}a{/response}", " ", end("{/response}") + BLANKS),
        ("{/think}{response}a{tools}", "\n", end("{tools}") + BLANKS),
        ("{/think}{response}a{/message}", "\r", end("{/message}") + BLANKS),
        ("{/think}{response}a$", "\t", end("$") + BLANKS),
        ("{/think}{response}a^", " ", end("^") + BLANKS),
        ("{/think}{response}a~tools", " ", end("~tools") + BLANKS),
        ("{/think}{response}a{tools}^", " ", end("{tools}^") + BLANKS),
        ("{/think}{tools}{call tool=\"f\"}{argument key=\"k\"}{/argument}", " ", end("{/argument}") + BLANKS),
        (
            "{/think}{tools}{call tool=\"f\"}{argument key=\"k\"}{/argument}{/call",
            " ",
            end("{/argument}{/call") + BLANKS,
        ),
        ("{/think}{tools}~call x=\"", "y", 16 << 10),
        ("{/think}~message ", "y", 16 << 10),
    ] {
        let mut parser = Parser::new(Request::new().opened(Channel::Think).tools(["f"]));
        let mut ignored = sink_fn(|_, _| {});
        parser.push(&spell(beginning), &mut ignored);
        let mut held = parser.held().len();
        while held < most {
            parser.push(filler, &mut ignored);
            held += 1;
            assert_eq!(parser.held().len(), held, "{beginning}");
        }
        parser.push(filler, &mut ignored);
        assert_eq!(parser.held(), "", "{beginning}");
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn i5_promptness(stream in streams(), seed: u64) {
        prompt_in_every_way(&stream, seed);
    }
}

// ---- I7 ----------------------------------------------------------------------------------------------------------

#[test]
fn i7_arguments_of_recorded() {
    recorded().iter().for_each(|stream| each_run(stream, 8, completes));
}

/// Streams within a call.
fn calls() -> impl Strategy<Value = Stream> {
    streams().prop_map(|mut stream| {
        let tools = spell("{tools}{call tool=\"f\"}");
        stream.text.insert_str(0, &tools);
        stream.ends.iter_mut().for_each(|end| end.0 += tools.len());
        stream.ids.clear();
        stream.ends.iter_mut().for_each(|end| end.1 = 0);
        stream.request.opened = None;
        stream.request.tools = vec!["f".into()];
        stream
    })
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn i7_arguments(stream in streams(), seed: u64) {
        each_run(&stream, seed, completes);
    }

    #[test]
    fn i7_arguments_in_a_call(stream in calls(), seed: u64) {
        each_run(&stream, seed, completes);
    }
}

/// `[EOS]` ends the message where its id says so, spelled or not, and is text elsewhere.
#[test]
fn eos_ends_the_message_by_its_id() {
    let parse = |deltas: &[(&str, &[u32])]| {
        let mut parser = Parser::new(Request::new().opened(Channel::Response));
        let mut events = Vec::new();
        for (text, ids) in deltas {
            parser.push_with_ids(text, ids, &mut events);
        }
        parser.finish("stop", &mut events);
        let content = events.iter().filter_map(|(event, _)| match event {
            OwnedEvent::Content(text) => Some(text.as_str()),
            _ => None,
        });
        (content.collect::<String>(), parser.report().bytes)
    };
    let (content, bytes) = parse(&[("so", &[1]), ("[EOS]", &[163_585])]);
    assert_eq!((content.as_str(), bytes.markup, bytes.dropped), ("so", 5, 0));
    let (content, bytes) = parse(&[("so", &[1, 163_585])]);
    assert_eq!((content.as_str(), bytes.markup), ("so", 0));
    let (content, _) = parse(&[("so [EOS]", &[1, 58, 85_521, 60]), (" it", &[2])]);
    assert_eq!(content, "so [EOS] it");
    // Its id runs ahead of it; text comes behind it; another one is quoted.
    let (content, bytes) = parse(&[("so", &[1, 163_585]), ("[EOS]", &[])]);
    assert_eq!((content.as_str(), bytes.markup, bytes.dropped), ("so", 5, 0));
    let (content, bytes) = parse(&[("so[EOS] x", &[1, 163_585, 2])]);
    assert_eq!((content.as_str(), bytes.markup, bytes.dropped), ("so", 5, 2));
    let (content, bytes) = parse(&[("so [EOS][EOS]", &[1, 58, 85_521, 60, 163_585])]);
    assert_eq!((content.as_str(), bytes.markup, bytes.dropped), ("so [EOS]", 5, 0));
}

/// A tools section that the prompt opened, while tools are off, is withheld as one that the output opens.
#[test]
fn an_opened_tools_section_is_withheld_while_tools_are_off() {
    let events = kimi_xtml::parse("a<|close|>tools<|sep|> b", Request::new().opened(Channel::Tools));
    let expected = [
        OwnedEvent::Diagnostic(Code::ToolsWithheld),
        OwnedEvent::Withheld("a<|close|>tools<|sep|>".into()),
        OwnedEvent::Markup(" ".into()),
        OwnedEvent::Diagnostic(Code::TextOutside),
        OwnedEvent::Content("b".into()),
    ];
    assert!(events.iter().map(|(event, _)| event).eq(&expected), "{}", show(&events));
    // The opener of what was just opened is no second section.
    let events = kimi_xtml::parse("<|open|>tools<|sep|>a", Request::new().opened(Channel::Tools));
    let withheld = events.iter().filter(|(event, _)| *event == OwnedEvent::Diagnostic(Code::ToolsWithheld));
    assert_eq!(withheld.count(), 1, "{}", show(&events));
}
