//! The twin and the parser, on inputs small enough to know the answer, then on any.
//!
//! In: a text or pieces. Out: the events of both, one a line: the span, the event. `-` stands for an empty text.

mod support;

use expect_test::{Expect, expect};
use kimi_xtml::{Channel, Marker, OwnedEvent, Parser, Request, Span, Undeclared, coalesce};
use kimi_xtml_oracle::twin::Piece::{self, Text};
use kimi_xtml_oracle::twin::{could_be_json, is_json, parse_pieces, parse_text};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::*;
use support::{config, parts, requests, spell, split_at_marker};

const OPEN: Piece<'_> = Piece::Marker(Marker::Open);
const CLOSE: Piece<'_> = Piece::Marker(Marker::Close);
const SEP: Piece<'_> = Piece::Marker(Marker::Sep);
const END: Piece<'_> = Piece::Marker(Marker::EndOfMsg);

fn show(events: &[(OwnedEvent, Span)]) -> String {
    let line = |(event, span): &(OwnedEvent, Span)| format!("{}..{} {event:?}\n", span.bytes.start, span.bytes.end);
    events.iter().map(line).collect()
}

fn think() -> Request {
    Request::new().opened(Channel::Think).tools(["f"])
}

fn response() -> Request {
    Request::new().opened(Channel::Response).tools(["f"])
}

/// A text as it is seen from inside an open tools channel.
fn in_tools(short: &str) -> String {
    spell(&format!("{{tools}}{short}"))
}

/// Both give these events for a text.
fn check_text(text: &str, request: &Request, expected: Expect) {
    let twin = parse_text(text, request);
    expected.assert_eq(&show(&twin));
    same(text, request, kimi_xtml::parse(text, request.clone()), &twin);
}

fn check(short: &str, request: &Request, expected: Expect) {
    check_text(&spell(short), request, expected);
}

fn check_tools(short: &str, request: &Request, expected: Expect) {
    check_text(&in_tools(short), request, expected);
}

#[test]
fn whole_message() {
    check(
        "why{/think}{response}so{/response}{tools}{call tool=\"f\" index=\"1\"}\
         {argument key=\"a\" type=\"string\"}x\"y{/argument}{argument key=\"b\" type=\"number\"}1{/argument}\
         {/call}{/tools}{/message}$",
        &think(),
        expect![[r#"
            0..0 Start(Think)
            0..3 Reasoning("why")
            3..24 End(Think)
            24..47 Start(Response)
            47..49 Content("so")
            49..73 End(Response)
            73..93 Start(Tools)
            93..131 CallStart { call: 0, name: "f" }
            131..176 ArgumentStart { call: 0, key: Some("a"), kind: String, json: "{\"a\":\"" }
            176..179 Arguments { call: 0, json: "x\\\"y" }
            179..203 ArgumentEnd { call: 0, json: "\"", closed: true }
            203..248 ArgumentStart { call: 0, key: Some("b"), kind: Number, json: ",\"b\":" }
            248..249 Arguments { call: 0, json: "1" }
            249..273 ArgumentEnd { call: 0, json: "", closed: true }
            273..293 CallEnd { call: 0, json: "}", complete: true }
            293..314 End(Tools)
            314..351 Markup("<|close|>message<|sep|><|end_of_msg|>")
        "#]],
    );
}

#[test]
fn reasoning_that_is_never_closed() {
    check(
        "a{response}b{/message}$",
        &think(),
        expect![[r#"
            0..0 Start(Think)
            0..1 Reasoning("a")
            1..1 Diagnostic(UnclosedThink)
            1..1 End(Think)
            1..24 Start(Response)
            24..25 Content("b")
            25..25 Diagnostic(UnclosedResponse)
            25..25 End(Response)
            25..62 Markup("<|close|>message<|sep|><|end_of_msg|>")
        "#]],
    );
}

#[test]
fn orphan_close_in_reasoning() {
    check(
        "a{/response}b{/response}{tools}{/tools}",
        &think(),
        expect![[r#"
            0..0 Start(Think)
            0..26 Reasoning("a<|close|>response<|sep|>b")
            26..26 Diagnostic(OrphanClose)
            26..50 Dropped("<|close|>response<|sep|>")
            50..50 Diagnostic(UnclosedThink)
            50..50 End(Think)
            50..70 Start(Tools)
            70..91 End(Tools)
        "#]],
    );
}

#[test]
fn quoted_closes_are_text() {
    check(
        "a {/response} b{/message}{/tools}$.",
        &response(),
        expect![[r#"
            0..0 Start(Response)
            0..87 Content("a <|close|>response<|sep|> b<|close|>message<|sep|><|close|>tools<|sep|><|end_of_msg|>.")
            87..87 Diagnostic(UnclosedResponse)
            87..87 End(Response)
        "#]],
    );
}

#[test]
fn tools_not_engaged() {
    let request = Request::new().opened(Channel::Response);
    check(
        "a{tools}{/tools}{/response}{tools}{call tool=\"f\"}{/tools} z",
        &request,
        expect![[r#"
            0..0 Start(Response)
            0..42 Content("a<|open|>tools<|sep|><|close|>tools<|sep|>")
            42..66 End(Response)
            66..66 Diagnostic(ToolsWithheld)
            66..135 Withheld("<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|close|>tools<|sep|>")
            135..136 Markup(" ")
            136..136 Diagnostic(TextOutside)
            136..137 Content("z")
        "#]],
    );
    check(
        "{call tool=\"f\"}{/call}{response}a",
        &request.opened(None).undeclared(Undeclared::Content),
        expect![[r#"
            0..0 Diagnostic(ToolsWithheld)
            0..48 Content("<|open|>call tool=\"f\"<|sep|><|close|>call<|sep|>")
            48..71 Start(Response)
            71..72 Content("a")
            72..72 Diagnostic(UnclosedResponse)
            72..72 End(Response)
        "#]],
    );
}

#[test]
fn cut_inside_tags() {
    check(
        "a{/think",
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(CutTag)
        1..15 Dropped("<|close|>think")
        15..15 Diagnostic(UnclosedThink)
        15..15 End(Think)
    "#]],
    );
    check(
        "a^",
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(CutTag)
        1..10 Dropped("<|close|>")
        10..10 Diagnostic(UnclosedThink)
        10..10 End(Think)
    "#]],
    );
    check(
        "a{argum",
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..14 Reasoning("a<|open|>argum")
        14..14 Diagnostic(UnclosedThink)
        14..14 End(Think)
    "#]],
    );
    check(
        "a<!clo",
        &think(),
        expect![[r#"
            0..0 Start(Think)
            0..6 Reasoning("a<|clo")
            6..6 Diagnostic(UnclosedThink)
            6..6 End(Think)
        "#]],
    );
    check_tools(
        "{call tool=\"f\" x = ",
        &think().opened(None),
        expect![[r#"
            0..20 Start(Tools)
            20..20 Diagnostic(CutTag)
            20..46 Dropped("<|open|>call tool=\"f\" x = ")
            46..46 Diagnostic(UnclosedTools)
            46..46 End(Tools)
        "#]],
    );
    check_tools(
        "{call tool=\"f\" x = y",
        &think().opened(None),
        expect![[r#"
            0..20 Start(Tools)
            20..20 Diagnostic(TextInTools)
            20..47 Dropped("<|open|>call tool=\"f\" x = y")
            47..47 Diagnostic(UnclosedTools)
            47..47 End(Tools)
        "#]],
    );
}

#[test]
fn cut_inside_a_value() {
    let request = response().opened(None);
    check_tools(
        "{call tool=\"f\"}{argument key=\"k\"}a\n{/argument",
        &request,
        expect![[r#"
            0..20 Start(Tools)
            20..48 CallStart { call: 0, name: "f" }
            48..79 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
            79..81 Arguments { call: 0, json: "a\\n" }
            81..81 Diagnostic(CutTag)
            81..98 Dropped("<|close|>argument")
            98..98 Diagnostic(UnclosedValue)
            98..98 ArgumentEnd { call: 0, json: "", closed: false }
            98..98 Diagnostic(UnclosedCall)
            98..98 CallEnd { call: 0, json: "", complete: false }
            98..98 Diagnostic(UnclosedTools)
            98..98 End(Tools)
        "#]],
    );
    check_tools(
        "{call tool=\"f\"}{argument key=\"k\" type=\"object\"}[1,",
        &request,
        expect![[r#"
            0..20 Start(Tools)
            20..48 CallStart { call: 0, name: "f" }
            48..93 ArgumentStart { call: 0, key: Some("k"), kind: Object, json: "{\"k\":" }
            93..96 Arguments { call: 0, json: "[1," }
            96..96 Diagnostic(UnclosedValue)
            96..96 ArgumentEnd { call: 0, json: "", closed: false }
            96..96 Diagnostic(UnclosedCall)
            96..96 CallEnd { call: 0, json: "", complete: false }
            96..96 Diagnostic(UnclosedTools)
            96..96 End(Tools)
        "#]],
    );
}

#[test]
fn missing_separators() {
    check(
        "a{/think~response~response{/response$",
        &think(),
        expect![[r#"
            0..0 Start(Think)
            0..1 Reasoning("a")
            1..1 Diagnostic(MissingSeparator)
            1..15 End(Think)
            15..15 Diagnostic(MissingSeparator)
            15..31 Start(Response)
            31..31 Diagnostic(MissingSeparator)
            31..31 Diagnostic(RepeatedOpener)
            31..47 Dropped("<|open|>response")
            47..47 Diagnostic(MissingSeparator)
            47..64 End(Response)
            64..78 Markup("<|end_of_msg|>")
        "#]],
    );
}

#[test]
fn values_that_are_no_json() {
    check_tools(
        "{call tool=\"f\"}{argument key=\"k\" type=\"number\"}NaN{/argument}\
         {argument key=\"k\" type=\"object\"}{/argument}{/call}",
        &response().opened(None),
        expect![[r#"
            0..20 Start(Tools)
            20..48 CallStart { call: 0, name: "f" }
            48..93 ArgumentStart { call: 0, key: Some("k"), kind: Number, json: "{\"k\":" }
            93..93 Diagnostic(NotJson)
            93..96 Arguments { call: 0, json: "\"NaN" }
            96..120 ArgumentEnd { call: 0, json: "\"", closed: true }
            120..120 Diagnostic(DuplicateKey)
            120..165 ArgumentStart { call: 0, key: Some("k"), kind: Object, json: ",\"k\":" }
            165..165 Diagnostic(NotJson)
            165..189 ArgumentEnd { call: 0, json: "\"\"", closed: true }
            189..209 CallEnd { call: 0, json: "}", complete: true }
            209..209 Diagnostic(UnclosedTools)
            209..209 End(Tools)
        "#]],
    );
}

#[test]
fn value_beyond_the_limit() {
    check_tools(
        "{call tool=\"f\"}{argument key=\"k\" type=\"number\"}1234{/argument}\
         {argument key=\"l\" type=\"number\"}123{/argument}{/call}",
        &response().opened(None).value_limit(3),
        expect![[r#"
            0..20 Start(Tools)
            20..48 CallStart { call: 0, name: "f" }
            48..93 ArgumentStart { call: 0, key: Some("k"), kind: Number, json: "{\"k\":" }
            93..93 Diagnostic(ValueTooLong)
            93..97 Arguments { call: 0, json: "\"1234" }
            97..121 ArgumentEnd { call: 0, json: "\"", closed: true }
            121..166 ArgumentStart { call: 0, key: Some("l"), kind: Number, json: ",\"l\":" }
            166..169 Arguments { call: 0, json: "123" }
            169..193 ArgumentEnd { call: 0, json: "", closed: true }
            193..213 CallEnd { call: 0, json: "}", complete: true }
            213..213 Diagnostic(UnclosedTools)
            213..213 End(Tools)
        "#]],
    );
}

#[test]
fn streamed_value_that_is_no_json() {
    check_tools(
        "{call tool=\"f\"}{argument key=\"k\" type=\"object\"}[1,x]{/argument}\
         {argument key=\"l\"}y{/argument}{/call}",
        &response().opened(None).stream_json(true),
        expect![[r#"
            0..20 Start(Tools)
            20..48 CallStart { call: 0, name: "f" }
            48..93 ArgumentStart { call: 0, key: Some("k"), kind: Object, json: "{\"k\":" }
            93..96 Arguments { call: 0, json: "[1," }
            96..96 Diagnostic(NotJson)
            96..98 Dropped("x]")
            98..122 ArgumentEnd { call: 0, json: "", closed: true }
            122..153 ArgumentStart { call: 0, key: Some("l"), kind: String, json: "" }
            153..154 Dropped("y")
            154..178 ArgumentEnd { call: 0, json: "", closed: true }
            178..198 CallEnd { call: 0, json: "", complete: false }
            198..198 Diagnostic(UnclosedTools)
            198..198 End(Tools)
        "#]],
    );
}

#[test]
fn calls_that_are_cut_or_unnamed() {
    check_tools(
        "{call tool=\"f\"}{argument key=\"k\"}v{/argument}{call}{argument}{/call}{call tool=\"g\"}{/call}\
         {call tool=\"f\"}{/tools}",
        &response().opened(None),
        expect![[r#"
            0..20 Start(Tools)
            20..48 CallStart { call: 0, name: "f" }
            48..79 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
            79..80 Arguments { call: 0, json: "v" }
            80..104 ArgumentEnd { call: 0, json: "\"", closed: true }
            104..104 Diagnostic(UnclosedCall)
            104..104 CallEnd { call: 0, json: "}", complete: true }
            104..104 Diagnostic(NamelessCall)
            104..166 Dropped("<|open|>call<|sep|><|open|>argument<|sep|><|close|>call<|sep|>")
            166..166 Diagnostic(UndeclaredTool)
            166..194 CallStart { call: 1, name: "g" }
            194..214 CallEnd { call: 1, json: "{}", complete: true }
            214..242 CallStart { call: 2, name: "f" }
            242..242 Diagnostic(UnclosedCall)
            242..242 CallEnd { call: 2, json: "", complete: false }
            242..263 End(Tools)
        "#]],
    );
}

#[test]
fn blocks_and_mixed_forms() {
    check_tools(
        "{call tool=\"f\"}{json type=\"object\"}[]{/json}{argument key=\"k\"}v{/argument}{/call}",
        &response().opened(None),
        expect![[r#"
            0..20 Start(Tools)
            20..48 CallStart { call: 0, name: "f" }
            48..81 ArgumentStart { call: 0, key: None, kind: Block, json: "" }
            81..83 Arguments { call: 0, json: "[]" }
            83..103 ArgumentEnd { call: 0, json: "", closed: true }
            103..103 Diagnostic(MixedForms)
            103..159 Dropped("<|open|>argument key=\"k\"<|sep|>v<|close|>argument<|sep|>")
            159..179 CallEnd { call: 0, json: "", complete: true }
            179..179 Diagnostic(UnclosedTools)
            179..179 End(Tools)
        "#]],
    );
}

#[test]
fn text_between_elements() {
    check(
        " {tools} \n{call tool=\"f\"}x{call y}{/call} y |{/call} z{/tools} w {response",
        &response().opened(None),
        expect![[r#"
            0..1 Markup(" ")
            1..21 Start(Tools)
            21..23 Markup(" \n")
            23..51 CallStart { call: 0, name: "f" }
            51..51 Diagnostic(TextInTools)
            51..52 Dropped("x")
            52..52 Diagnostic(UnreadableHeader)
            52..73 Dropped("<|open|>call y<|sep|>")
            73..93 CallEnd { call: 0, json: "", complete: false }
            93..94 Markup(" ")
            94..94 Diagnostic(TextInTools)
            94..96 Dropped("y ")
            96..96 Diagnostic(StraySeparator)
            96..103 Dropped("<|sep|>")
            103..103 Diagnostic(OrphanClose)
            103..123 Dropped("<|close|>call<|sep|>")
            123..124 Markup(" ")
            124..124 Diagnostic(TextInTools)
            124..125 Dropped("z")
            125..146 End(Tools)
            146..147 Markup(" ")
            147..147 Diagnostic(TextOutside)
            147..149 Content("w ")
            149..149 Diagnostic(CutTag)
            149..165 Dropped("<|open|>response")
        "#]],
    );
    check(
        " a{message role=\"assistant\"} b",
        &Request::new(),
        expect![[r#"
            0..2 Content(" a")
            2..41 Markup("<|open|>message role=\"assistant\"<|sep|>")
            41..43 Content(" b")
        "#]],
    );
}

#[test]
fn after_the_end() {
    check(
        "a$ $",
        &response(),
        expect![[r#"
            0..0 Start(Response)
            0..1 Content("a")
            1..1 Diagnostic(UnclosedResponse)
            1..1 End(Response)
            1..15 Markup("<|end_of_msg|>")
            15..15 Diagnostic(AfterEnd)
            15..30 Dropped(" <|end_of_msg|>")
        "#]],
    );
    check(
        "a$$",
        &response(),
        expect![[r#"
            0..0 Start(Response)
            0..1 Content("a")
            1..1 Diagnostic(UnclosedResponse)
            1..1 End(Response)
            1..15 Markup("<|end_of_msg|>")
            15..15 Diagnostic(AfterEnd)
            15..29 Dropped("<|end_of_msg|>")
        "#]],
    );
}

#[test]
fn told_markers() {
    let pieces = [
        Text("<|open|>response<|sep|>a<|close|>response<|sep|>"),
        OPEN,
        Text("tools"),
        SEP,
        OPEN,
        Text("call tool=\"f\""),
        SEP,
        OPEN,
        Text("argument key=\"&amp;quot;\" type=\"string\""),
        SEP,
        Text("<|close|>"),
        CLOSE,
        Text("response"),
        SEP,
        OPEN,
        Text("argument key=\"b\""),
        SEP,
        CLOSE,
        Text("argument"),
        SEP,
        CLOSE,
        Text("call"),
        END,
    ];
    expect![[r#"
        0..0 Start(Response)
        0..0 Diagnostic(RepeatedOpener)
        0..23 Dropped("<|open|>response<|sep|>")
        23..48 Content("a<|close|>response<|sep|>")
        48..48 Diagnostic(UnclosedResponse)
        48..48 End(Response)
        48..68 Start(Tools)
        68..96 CallStart { call: 0, name: "f" }
        96..150 ArgumentStart { call: 0, key: Some("&quot;"), kind: String, json: "{\"&quot;\":\"" }
        150..183 Arguments { call: 0, json: "<|close|><|close|>response<|sep|>" }
        183..183 Diagnostic(UnclosedValue)
        183..183 ArgumentEnd { call: 0, json: "\"", closed: false }
        183..214 ArgumentStart { call: 0, key: Some("b"), kind: String, json: ",\"b\":\"" }
        214..238 ArgumentEnd { call: 0, json: "\"", closed: true }
        238..238 Diagnostic(MissingSeparator)
        238..251 CallEnd { call: 0, json: "}", complete: true }
        251..251 Diagnostic(UnclosedTools)
        251..251 End(Tools)
        251..265 Markup("<|end_of_msg|>")
    "#]]
    .assert_eq(&show(&parse_pieces(&pieces, &response())));
    same("", &response(), parse_each(&pieces, &response()), &parse_pieces(&pieces, &response()));
}

#[test]
fn json_is_rfc_8259() {
    for text in
        ["0", "-0.1e+9", " [1 , {\"a\":null}]\r\n", "\"\\ud800\\n\u{7f}é\"", "123456789012345678901234567890", "1e999"]
    {
        assert!(is_json(text), "{text}");
        assert_eq!(could_be_json(text), text.len(), "{text}");
    }
    for text in [
        "", " ", "01", "1.", ".5", "+1", "NaN", "\"\n\"", "\"\\x\"", "[1,]", "{\"a\"}", "{1:2}", "1 2", "\u{a0}1",
        "nul",
    ] {
        assert!(!is_json(text), "{text}");
    }
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    assert!(is_json(&deep));
    assert!(!is_json(&deep[1..]));
}

#[test]
fn beginnings_of_json() {
    for (text, could) in [
        ("{\"a\\u12", 7),
        ("{\"a\" : -", 8),
        ("[tru", 4),
        ("[trux", 4),
        ("[1.e", 3),
        ("[1 2", 3),
        ("[01", 2),
        ("{,", 1),
        ("{\"a\":1,}", 7),
        ("{\"a\":[}", 6),
        ("[]]", 2),
        ("\u{a0}", 0),
        ("[\"é\\", 5),
        ("[\"é\u{1}", 4),
        (" ", 1),
        ("", 0),
    ] {
        assert_eq!(could_be_json(text), could, "{text}");
    }
}

// ---- I9: the machine gives what the twin gives -------------------------------------------------------------------

/// Where an input of `length` is cut, from numbers that know nothing of it.
fn cuts(length: usize, cuts: &[usize]) -> Vec<usize> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (length + 1)).collect();
    places.extend([0, length]);
    places.sort_unstable();
    places
}

fn same(input: &str, request: &Request, machine: Vec<(OwnedEvent, Span)>, twin: &[(OwnedEvent, Span)]) {
    let machine = coalesce(machine);
    assert!(machine == twin, "{input:?}\n{request:?}\nmachine:\n{}twin:\n{}", show(&machine), show(twin));
}

/// What the machine gives for the pieces, each pushed whole.
fn parse_each(pieces: &[Piece<'_>], request: &Request) -> Vec<(OwnedEvent, Span)> {
    let mut events = Vec::new();
    let mut parser = Parser::new(request.clone());
    for piece in pieces {
        match *piece {
            Text(text) => parser.push_text(text, &mut events),
            Piece::Marker(marker) => parser.push_marker(marker, &mut events),
        }
    }
    parser.finish("stop", &mut events);
    events
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn i9_text(parts in parts(), request in requests(), numbers in vec(any::<usize>(), 0..12)) {
        let input: String = parts.into_iter().map(|(text, _)| text).collect();
        let twin = parse_text(&input, &request);

        let mut events = Vec::new();
        let mut parser = Parser::new(request.clone());
        parser.push(&input, &mut events);
        parser.finish("stop", &mut events);
        same(&input, &request, events, &twin);

        let mut events = Vec::new();
        let mut parser = Parser::new(request.clone());
        for cut in cuts(input.len(), &numbers).windows(2) {
            parser.push_bytes(&input.as_bytes()[cut[0]..cut[1]], &mut events);
        }
        parser.finish("stop", &mut events);
        same(&input, &request, events, &twin);

        let mut events = Vec::new();
        let mut parser = Parser::new(request.clone());
        for c in input.chars() {
            parser.push(c.encode_utf8(&mut [0; 4]), &mut events);
        }
        parser.finish("stop", &mut events);
        same(&input, &request, events, &twin);
    }

    #[test]
    fn i9_pieces(parts in parts(), request in requests(), eos in weighted(0.1), numbers in vec(any::<usize>(), 0..4)) {
        let mut pieces = Vec::new();
        for (text, is_quoted) in &parts {
            if *is_quoted {
                pieces.push(Text(text));
            } else {
                pieces.extend(told(text));
            }
        }
        if eos {
            pieces.push(Piece::Marker(Marker::Eos));
        }
        let twin = parse_pieces(&pieces, &request);

        same(&format!("{pieces:?}"), &request, parse_each(&pieces, &request), &twin);

        let mut events = Vec::new();
        let mut parser = Parser::new(request.clone());
        for piece in &pieces {
            match *piece {
                Text(text) => {
                    let places = cuts(text.len(), &numbers);
                    let places: Vec<usize> = places.into_iter().filter(|&at| text.is_char_boundary(at)).collect();
                    for cut in places.windows(2) {
                        parser.push_text(&text[cut[0]..cut[1]], &mut events);
                    }
                }
                Piece::Marker(marker) => parser.push_marker(marker, &mut events),
            }
        }
        parser.finish("stop", &mut events);
        same(&format!("{pieces:?}"), &request, events, &twin);
    }
}

/// A text, its markers told.
fn told(mut text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    while let Some((before, marker, after)) = split_at_marker(text) {
        pieces.extend([Text(before), Piece::Marker(marker)]);
        text = after;
    }
    pieces.push(Text(text));
    pieces
}
