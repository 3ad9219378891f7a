//! The invariants I1 to I5, I7 and I10, each over the recorded streams and over hostile ones.
//!
//! In: a stream, in every way to push it. The invariants are those of `oracle/src/invariants.rs`; I6 is in `render.rs`, I8 in
//! `linear.rs` and `memory.rs`, I9 in `twin.rs`. `KIMI_XTML_DATA` adds the field cases. To see one fail, break a line of the source that it watches.

use kimi_xtml::{Channel, Code, Event, Marker, OwnedEvent, Parser, Report, Request, Span, sink_fn};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::*;

mod support;

use kimi_xtml_oracle::invariants::{
    BLANKS, GAP, UNKNOWN, completes, conserves, nests, no_leak, prompt, replaces, same, tells, ways_of_bytes,
};
use kimi_xtml_oracle::twin::could_be_json;
use support::{
    HELD, MARKERS, Push, Random, Run, Stream, VALUES, Way, bytes, config, cut, recorded, requests, run, show, spell,
    streams, tokenized,
};

/// Every way to push a stream.
fn ways<'a>(stream: &'a Stream, random: &mut Random) -> Vec<Way<'a>> {
    let mut ways = stream.by_text(random);
    ways.extend(stream.by_ids(random));
    ways.push(stream.mixed(random));
    ways.push(stream.astray(random));
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

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn i1_split(stream in streams(), seed: u64) {
        split(&stream, seed);
    }

    #[test]
    fn i1_split_of_any_bytes(bytes in bytes(), request in requests(), seed: u64) {
        let mut expected = None;
        for way in ways_of_bytes(&bytes, &mut Random(seed)) {
            let mut run = run(&mut Parser::new(request.clone()), &way);
            run.report.examined = 0;
            let expected = expected.get_or_insert_with(|| run.clone());
            prop_assert!(run == *expected, "{} {}\n{}", way.name, cut(&bytes), show(&run.events));
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
            replaces(&bytes, &way, &run);
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

/// What is held of tags that are control tokens goes out with the first byte that is too much, and so does a close of a
/// whole value at once.
#[test]
fn i5_promptness_of_control_tokens() {
    for (opened, begin, filler, most) in [
        (Channel::Response, "~note", "x", end("~") + UNKNOWN),
        (Channel::Think, "~note a=\"", "x", end("~") + UNKNOWN),
        (Channel::Think, "^", "n", end("^") + UNKNOWN),
        (Channel::Response, "~think ", "n", end("~") + UNKNOWN),
        (Channel::Response, "~think", " ", end("~think") + BLANKS),
        (Channel::Response, "~call tool=\"", "x", 16 << 10),
        (Channel::Think, "~argument key=\"", "x", 16 << 10),
    ] {
        let mut parser = Parser::new(Request::new().opened(opened).tools(["f"]));
        let mut ignored = ();
        parser.push_text("a", &mut ignored);
        let marker = if begin.starts_with('~') { Marker::Open } else { Marker::Close };
        parser.push_marker(marker, &mut ignored);
        parser.push_text(&begin[1..], &mut ignored);
        while parser.held().len() < most {
            let held = parser.held().len();
            parser.push_text(filler, &mut ignored);
            assert_eq!(parser.held().len(), held + 1, "{begin}");
        }
        parser.push_text(filler, &mut ignored);
        assert_eq!(parser.held(), "", "{begin}");
    }
    let mut parser = Parser::new(Request::new().tools(["f"]));
    let mut ignored = ();
    let value = spell("{tools}{call tool=\"f\"}{argument key=\"k\" type=\"array\"}");
    parser.push(&(value + "[\"<|\"]" + &spell("{/argument}")), &mut ignored);
    assert_eq!(parser.held(), "");
}

fn end(text: &str) -> usize {
    spell(text).len()
}

/// What is held goes out with the first byte that is too much.
#[test]
fn i5_promptness_at_the_limits() {
    for (beginning, filler, most) in [
        ("{/think}{response}a{/response}", " ", end("{/response}") + GAP),
        ("{/think}{response}a{tools}", "\n", end("{tools}") + GAP),
        ("{/think}{response}a{/message}", "\r", end("{/message}") + GAP),
        ("{/think}{response}a$", "\t", end("$") + GAP),
        ("{/think}{response}a^", " ", end("^") + BLANKS),
        ("{/think}{response}a~tools", " ", end("~tools") + BLANKS),
        ("{/think}{response}a{tools}^", " ", end("{tools}^") + BLANKS),
        ("{/think}{tools}{call tool=\"f\"}{argument key=\"k\"}{/argument}", " ", end("{/argument}") + GAP),
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

/// What cuts a value, short as in [`spell`]: the stream's end, a tag that this cuts, tags.
const CUTS: [&str; 7] = ["", "{/arg", "{call tool=\"f\"}", "{/call}", "{/tools}", "{/message}", "$"];

/// Every held kind in every cut, by text and by control tokens: of what would close the arguments, or add to them,
/// nothing goes out.
#[test]
fn i7_a_value_that_is_cut_never_parses() {
    let mut pairs = 0;
    for (kind, cut) in HELD.iter().flat_map(|kind| CUTS.map(|cut| (kind, cut))) {
        pairs += 1;
        for (value, prefix) in VALUES.iter().map(|value| value.replace('!', "|")).map(|value| {
            let prefix = could_be_json(&value);
            (value, prefix)
        }) {
            let opener = spell(&format!("{{tools}}{{call tool=\"f\"}}{{argument key=\"k\" type=\"{kind}\"}}"));
            let quoted = value.contains("<|");
            let parts = [(opener, false), (value.clone(), true), (spell(cut), false)];
            let stream = tokenized(&parts, Request::new().tools(["f"]), 7);
            let random = &mut Random(7);
            // As text these tags are real only before the end.
            let is_real_as_text = ["", "{/arg", "{/message}", "$"].contains(&cut) && !quoted;
            let by_text = if is_real_as_text { stream.by_text(random) } else { Vec::new() };
            for way in stream.by_ids(random).iter().chain(&by_text) {
                let run = run(&mut Parser::new(stream.request.clone()), way);
                completes(way, &run);
                conserves(way, &run);
                let json = |(event, _): &(OwnedEvent, Span)| match event.as_event().json() {
                    Some((0, json)) => json.to_owned(),
                    _ => String::new(),
                };
                let arguments: String = run.events.iter().map(json).collect();
                assert_eq!(arguments, format!("{{\"k\":{}", &value[..prefix]), "{kind} {value} {cut} {}", way.name);
                let rest = (prefix < value.len()).then(|| OwnedEvent::Dropped(value[prefix..].to_owned()));
                assert!(rest.is_none_or(|rest| run.events.iter().any(|(event, _)| *event == rest)), "{value} {cut}");
            }
        }
    }
    assert_eq!(pairs, 42);
}

// ---- I10 ---------------------------------------------------------------------------------------------------------

fn told(stream: &Stream, seed: u64) {
    let Some(markers) = stream.markers() else { return };
    for way in stream.by_ids(&mut Random(seed)) {
        tells(&stream.request, &markers, &way, &run(&mut Parser::new(stream.request.clone()), &way));
    }
}

#[test]
fn i10_no_control_token_in_text_of_recorded() {
    let streams = recorded();
    assert!(streams.iter().filter(|stream| !stream.ids.is_empty() && stream.markers().is_some()).count() >= 100);
    streams.iter().for_each(|stream| told(stream, 9));
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn i10_no_control_token_in_text(stream in streams(), seed: u64) {
        told(&stream, seed);
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
    // Its id runs ahead of it; text comes after it; another one is quoted.
    let (content, bytes) = parse(&[("so", &[1, 163_585]), ("[EOS]", &[])]);
    assert_eq!((content.as_str(), bytes.markup, bytes.dropped), ("so", 5, 0));
    let (content, bytes) = parse(&[("so[EOS] x", &[1, 163_585, 2])]);
    assert_eq!((content.as_str(), bytes.markup, bytes.dropped), ("so", 5, 2));
    let (content, bytes) = parse(&[("so [EOS][EOS]", &[1, 58, 85_521, 60, 163_585])]);
    assert_eq!((content.as_str(), bytes.markup, bytes.dropped), ("so [EOS]", 5, 0));
}

/// In a value it ends the message only if nothing of a value comes after it: an engine that was told to ignore it goes on, and
/// the call is not lost.
#[test]
fn eos_in_a_value_waits_for_what_follows() {
    let parse = |kind: &str, after: &str| {
        let mut parser = Parser::new(Request::new().opened(Channel::Tools).tools(["f"]));
        let mut events = Vec::new();
        let text = spell(&format!("{{call tool=\"f\"}}{{argument key=\"k\" type=\"{kind}\"}}[1[EOS]{after}"));
        let mut rest = &*text;
        while let Some(first) = rest.chars().next() {
            let marker = MARKERS.into_iter().chain([Marker::Eos]).find(|marker| rest.starts_with(marker.spelling()));
            let (token, after) = rest.split_at(marker.map_or(first.len_utf8(), |marker| marker.spelling().len()));
            match marker {
                Some(marker) => parser.push_marker(marker, &mut events),
                None => parser.push_text(token, &mut events),
            }
            rest = after;
        }
        let reason = parser.finish("stop", &mut events);
        let json = events.iter().filter_map(|(event, _)| event.as_event().json().map(|(_, json)| json.to_owned()));
        (json.collect::<String>(), reason)
    };
    let whole = |json: &str| (json.to_owned(), "tool_calls");
    assert_eq!(parse("string", "{/argument}{/call}"), whole(r#"{"k":"[1[EOS]"}"#));
    assert_eq!(parse("string", "2]{/argument}{/call}"), whole(r#"{"k":"[1[EOS]2]"}"#));
    assert_eq!(parse("array", " 2]{/argument}{/call}"), whole(r#"{"k":"[1[EOS] 2]"}"#));
    for after in ["", " \n", "$", "[EOS]"] {
        assert_eq!(parse("string", after), (r#"{"k":"[1"#.to_owned(), "stop"), "{after:?}");
    }
}

proptest! {
    #![proptest_config(config(512))]

    /// A real `[EOS]` whose text comes or is stripped, after others that are quoted, in any deltas: no other text is lost.
    #[test]
    fn eos_by_its_id_takes_no_quotation(
        parts in vec((weighted(0.5), any::<bool>()), 0..7),
        split in any::<bool>(),
        spelled in any::<bool>(),
        alone in any::<bool>(),
    ) {
        let mut deltas: Vec<(String, Vec<u32>)> = vec![Default::default()];
        let mut add = |text: &str, ids: &[u32], cut: bool| {
            let (last, last_ids) = deltas.last_mut().unwrap();
            last.push_str(text);
            last_ids.extend(ids);
            if cut {
                deltas.push(Default::default());
            }
        };
        let mut content = String::new();
        for (is_quoted, cut) in parts {
            let text = if is_quoted { "[EOS]" } else { " so" };
            match is_quoted {
                true if split => {
                    [("[", 58), ("EOS", 85_521), ("]", 60)].into_iter().for_each(|(text, id)| add(text, &[id], cut));
                }
                true => add(text, &[58, 85_521, 60], cut),
                false => add(text, &[1_000], cut),
            }
            content += text;
        }
        add("", &[], alone);
        add(if spelled { "[EOS]" } else { "" }, &[163_585], false);

        let mut parser = Parser::new(Request::new().opened(Channel::Response));
        let mut said = String::new();
        let mut sink = sink_fn(|event, _| {
            if let Event::Content(text) = event {
                said += text;
            }
        });
        deltas.iter().for_each(|(text, ids)| parser.push_with_ids(text, ids, &mut sink));
        parser.finish("stop", &mut sink);
        prop_assert_eq!(said, content);
        prop_assert_eq!(parser.report().bytes.markup, if spelled { 5 } else { 0 });
    }
}

/// What one kind of input left undone does not reach into the next, nor one stream into another.
#[test]
fn a_change_of_the_input_forgets_ids() {
    let content = |parser: &mut Parser, pushes: &[Push<'_>]| {
        let mut said = String::new();
        let mut sink = sink_fn(|event, _| {
            if let Event::Content(text) = event {
                said += text;
            }
        });
        pushes.iter().for_each(|push| push.to(parser, &mut sink));
        parser.finish("stop", &mut sink);
        said
    };
    let request = || Request::new().opened(Channel::Response);
    // An end whose text did not come ends the message.
    for end in [163_585, 163_586] {
        for next in [Push::Text("more"), Push::Bytes(b"more"), Push::Quoted("more"), Push::Token(7, "more")] {
            let mut parser = Parser::new(request());
            assert_eq!(content(&mut parser, &[Push::WithIds("bye", &[1, end]), next]), "bye", "{next:?}");
            let noted: Vec<_> = parser.report().diagnostics.iter().map(|noted| noted.code).collect();
            assert_eq!(noted, [Code::UnclosedResponse, Code::AfterEnd]);
        }
    }
    // Other ids are told of, and mean nothing later.
    let close = [Push::WithIds("<|close|>response<|sep|> on", &[1])];
    for next in [Push::Text("a"), Push::Quoted("a"), Push::Marker(Marker::Sep)] {
        let mut parser = Parser::new(request());
        let pushes = [&[Push::WithIds("so ", &[1, 163_588, 163_589]), next][..], &close].concat();
        let text = if let Push::Marker(_) = next { "" } else { "a" };
        assert_eq!(content(&mut parser, &pushes), format!("so {text}<|close|>response<|sep|> on"), "{next:?}");
        let noted = parser.report().diagnostics.into_iter().find(|noted| noted.code == Code::IdWithoutText);
        assert_eq!(noted.map(|noted| noted.count), Some(2));
    }
    // A quotation that the ids begin is none that others end: `>` quotes nothing, and the marker is real.
    let begun = Push::WithIds("so <|close|", &[1, 27, 91, 10_794, 91]);
    let real = Push::WithIds("><|close|>response<|sep|>", &[29, 163_588, 12_092, 163_589]);
    let mut parser = Parser::new(request());
    assert_eq!(content(&mut parser, &[begun, Push::Quoted(" "), real]), "so <|close| >");
    let mut parser = Parser::new(request());
    content(&mut parser, &[begun]);
    parser.reset(request());
    assert_eq!(content(&mut parser, &[real]), ">");
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
