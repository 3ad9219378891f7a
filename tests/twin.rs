//! The twin and the parser, on inputs small enough to know the answer, then on any.
//!
//! In: a text or pieces. Out: the events of both, one a line: the span, the event. `-` stands for an empty text.

mod support;

use expect_test::{Expect, expect};
use kimi_xtml::{Channel, Code, Marker, OwnedEvent, Parser, Request, Span, Undeclared, coalesce};
use kimi_xtml_oracle::invariants::ways_of_bytes;
use kimi_xtml_oracle::twin::Piece::{self, Spelled, Text};
use kimi_xtml_oracle::twin::{could_be_json, is_json, parse_pieces, parse_text};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::*;
use support::{Push, Random, bytes, chunks, config, mixed, parts, pieces, requests, run, spell, split_at_marker};

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

/// Both give these events for pieces.
fn check_pieces(pieces: &[Piece<'_>], request: &Request, expected: Expect) {
    let twin = parse_pieces(pieces, request);
    expected.assert_eq(&show(&twin));
    same(&format!("{pieces:?}"), request, parse_each(pieces, request), &twin);
}

/// Both give these events where every marker is a control token.
fn check_told(short: &str, request: &Request, expected: Expect) {
    check_pieces(&told(&spell(short)), request, expected);
}

// ---- control tokens in the channels ----

#[test]
fn control_tokens_in_a_response_do_what_they_mean() {
    check_told(
        "a{think}b{/think}{response}c",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..1 Content("a")
        1..1 Diagnostic(UnclosedResponse)
        1..1 End(Response)
        1..21 Start(Think)
        21..22 Reasoning("b")
        22..43 End(Think)
        43..66 Start(Response)
        66..67 Content("c")
        67..67 Diagnostic(UnclosedResponse)
        67..67 End(Response)
    "#]],
    );
    check_told(
        "a{response}b{message role=\"x\"}c{/think}d{/call}{/tools}e{/message}$",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..1 Content("a")
        1..1 Diagnostic(MisplacedOpener)
        1..24 Dropped("<|open|>response<|sep|>")
        24..25 Content("b")
        25..25 Diagnostic(MisplacedOpener)
        25..56 Dropped("<|open|>message role=\"x\"<|sep|>")
        56..57 Content("c")
        57..57 Diagnostic(OrphanClose)
        57..78 Dropped("<|close|>think<|sep|>")
        78..79 Content("d")
        79..79 Diagnostic(OrphanClose)
        79..99 Dropped("<|close|>call<|sep|>")
        99..99 Diagnostic(OrphanClose)
        99..120 Dropped("<|close|>tools<|sep|>")
        120..121 Content("e")
        121..121 Diagnostic(UnclosedResponse)
        121..121 End(Response)
        121..158 Markup("<|close|>message<|sep|><|end_of_msg|>")
    "#]],
    );
    check_told(
        "a{tools}{/tools}",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..1 Content("a")
        1..1 Diagnostic(UnclosedResponse)
        1..1 End(Response)
        1..21 Start(Tools)
        21..42 End(Tools)
    "#]],
    );
    // Not engaged.
    check_told(
        "a{tools}b{/tools}c",
        &Request::new().opened(Channel::Response),
        expect![[r#"
        0..0 Start(Response)
        0..1 Content("a")
        1..1 Diagnostic(UnclosedResponse)
        1..1 End(Response)
        1..1 Diagnostic(ToolsWithheld)
        1..43 Withheld("<|open|>tools<|sep|>b<|close|>tools<|sep|>")
        43..43 Diagnostic(TextOutside)
        43..44 Content("c")
    "#]],
    );
}

#[test]
fn control_tokens_in_reasoning_do_what_they_mean() {
    check_told(
        "a{think}b{/response}c{message}d{/argument}{/json}{response}e",
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(MisplacedOpener)
        1..21 Dropped("<|open|>think<|sep|>")
        21..22 Reasoning("b")
        22..22 Diagnostic(OrphanClose)
        22..46 Dropped("<|close|>response<|sep|>")
        46..47 Reasoning("c")
        47..47 Diagnostic(MisplacedOpener)
        47..69 Dropped("<|open|>message<|sep|>")
        69..70 Reasoning("d")
        70..70 Diagnostic(OrphanClose)
        70..94 Dropped("<|close|>argument<|sep|>")
        94..94 Diagnostic(OrphanClose)
        94..114 Dropped("<|close|>json<|sep|>")
        114..114 Diagnostic(UnclosedThink)
        114..114 End(Think)
        114..137 Start(Response)
        137..138 Content("e")
        138..138 Diagnostic(UnclosedResponse)
        138..138 End(Response)
    "#]],
    );
    check_told(
        "{think}a{tools}",
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..0 Diagnostic(RepeatedOpener)
        0..20 Dropped("<|open|>think<|sep|>")
        20..21 Reasoning("a")
        21..21 Diagnostic(UnclosedThink)
        21..21 End(Think)
        21..41 Start(Tools)
        41..41 Diagnostic(UnclosedTools)
        41..41 End(Tools)
    "#]],
    );
    check_told(
        "a{message x",
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(CutTag)
        1..18 Dropped("<|open|>message x")
        18..18 Diagnostic(UnclosedThink)
        18..18 End(Think)
    "#]],
    );
}

/// As text only, reasoning opens in an answer that has no byte yet.
#[test]
fn reasoning_that_is_spelled_in_an_answer() {
    check(
        "{think}a",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..0 Diagnostic(UnclosedResponse)
        0..0 End(Response)
        0..20 Start(Think)
        20..21 Reasoning("a")
        21..21 Diagnostic(UnclosedThink)
        21..21 End(Think)
    "#]],
    );
    check(
        "a{think}b",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..22 Content("a<|open|>think<|sep|>b")
        22..22 Diagnostic(UnclosedResponse)
        22..22 End(Response)
    "#]],
    );
    check(
        "{response}{think}b",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..0 Diagnostic(RepeatedOpener)
        0..23 Dropped("<|open|>response<|sep|>")
        23..44 Content("<|open|>think<|sep|>b")
        44..44 Diagnostic(UnclosedResponse)
        44..44 End(Response)
    "#]],
    );
    check(
        "{think{think}b",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..0 Diagnostic(MissingSeparator)
        0..0 Diagnostic(UnclosedResponse)
        0..0 End(Response)
        0..13 Start(Think)
        13..13 Diagnostic(RepeatedOpener)
        13..33 Dropped("<|open|>think<|sep|>")
        33..34 Reasoning("b")
        34..34 Diagnostic(UnclosedThink)
        34..34 End(Think)
    "#]],
    );
    check_pieces(
        &[Text("<|open|>think<|sep|>a")],
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..21 Content("<|open|>think<|sep|>a")
        21..21 Diagnostic(UnclosedResponse)
        21..21 End(Response)
    "#]],
    );
}

#[test]
fn unknown_tags() {
    check_told(
        "Done.{note}Careful.{/note} Bye.",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..5 Content("Done.")
        5..5 Diagnostic(UnknownTag)
        5..24 Dropped("<|open|>note<|sep|>")
        24..32 Content("Careful.")
        32..32 Diagnostic(UnknownTag)
        32..52 Dropped("<|close|>note<|sep|>")
        52..57 Content(" Bye.")
        57..57 Diagnostic(UnclosedResponse)
        57..57 End(Response)
    "#]],
    );
    check_told(
        "{ note\n}a{thin}b{think x=\"1\"}c{/call a = \"b\" }d{-1é}",
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..0 Diagnostic(UnknownTag)
        0..21 Dropped("<|open|> note\n<|sep|>")
        21..22 Reasoning("a")
        22..22 Diagnostic(UnknownTag)
        22..41 Dropped("<|open|>thin<|sep|>")
        41..42 Reasoning("b")
        42..42 Diagnostic(UnknownTag)
        42..68 Dropped("<|open|>think x=\"1\"<|sep|>")
        68..69 Reasoning("c")
        69..69 Diagnostic(UnknownTag)
        69..98 Dropped("<|close|>call a = \"b\" <|sep|>")
        98..99 Reasoning("d")
        99..99 Diagnostic(UnknownTag)
        99..118 Dropped("<|open|>-1é<|sep|>")
        118..118 Diagnostic(UnclosedThink)
        118..118 End(Think)
    "#]],
    );
    check_told(
        " {note} a{note}\n{/note}b",
        &response().opened(None),
        expect![[r#"
        0..1 Markup(" ")
        1..1 Diagnostic(UnknownTag)
        1..20 Dropped("<|open|>note<|sep|>")
        20..21 Markup(" ")
        21..22 Content("a")
        22..22 Diagnostic(UnknownTag)
        22..41 Dropped("<|open|>note<|sep|>")
        41..42 Content("\n")
        42..42 Diagnostic(UnknownTag)
        42..62 Dropped("<|close|>note<|sep|>")
        62..63 Content("b")
    "#]],
    );
    check_told(
        "{tools}{note}{call tool=\"f\"}{/note}{/call}{call tool=\"f\"}{note}{/call}",
        &response().opened(None),
        expect![[r#"
            0..20 Start(Tools)
            20..20 Diagnostic(UnknownTag)
            20..39 Dropped("<|open|>note<|sep|>")
            39..67 CallStart { call: 0, name: "f" }
            67..67 Diagnostic(UnknownTag)
            67..87 Dropped("<|close|>note<|sep|>")
            87..107 CallEnd { call: 0, json: "{}", complete: true }
            107..135 CallStart { call: 1, name: "f" }
            135..135 Diagnostic(UnknownTag)
            135..154 Dropped("<|open|>note<|sep|>")
            154..174 CallEnd { call: 1, json: "", complete: false }
            174..174 Diagnostic(UnclosedTools)
            174..174 End(Tools)
        "#]],
    );
    // In a value they are text.
    check_told(
        "{tools}{call tool=\"f\"}{argument key=\"k\"}{note}a{/note}|{/argument}{/call}",
        &response().opened(None),
        expect![[r#"
            0..20 Start(Tools)
            20..48 CallStart { call: 0, name: "f" }
            48..79 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
            79..126 Arguments { call: 0, json: "<|open|>note<|sep|>a<|close|>note<|sep|><|sep|>" }
            126..150 ArgumentEnd { call: 0, json: "\"", closed: true }
            150..170 CallEnd { call: 0, json: "}", complete: true }
            170..170 Diagnostic(UnclosedTools)
            170..170 End(Tools)
        "#]],
    );
    // Spelled they are text everywhere.
    check(
        "a{note}b{/note}|",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..48 Content("a<|open|>note<|sep|>b<|close|>note<|sep|><|sep|>")
        48..48 Diagnostic(UnclosedResponse)
        48..48 End(Response)
    "#]],
    );
}

#[test]
fn lone_control_tokens() {
    check_told(
        "a b~ c d|e^",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..3 Content("a b")
        3..3 Diagnostic(StrayMarker)
        3..11 Dropped("<|open|>")
        11..15 Content(" c d")
        15..15 Diagnostic(StraySeparator)
        15..22 Dropped("<|sep|>")
        22..23 Content("e")
        23..23 Diagnostic(CutTag)
        23..32 Dropped("<|close|>")
        32..32 Diagnostic(UnclosedResponse)
        32..32 End(Response)
    "#]],
    );
    check_told(
        "a~note^x y{/response~<|note\"",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..1 Content("a")
        1..1 Diagnostic(StrayMarker)
        1..9 Dropped("<|open|>")
        9..13 Content("note")
        13..13 Diagnostic(StrayMarker)
        13..22 Dropped("<|close|>")
        22..25 Content("x y")
        25..25 Diagnostic(MissingSeparator)
        25..42 End(Response)
        42..42 Diagnostic(StrayMarker)
        42..50 Dropped("<|open|>")
        50..50 Diagnostic(TextOutside)
        50..51 Content("<")
        51..51 Diagnostic(StraySeparator)
        51..58 Dropped("<|sep|>")
        58..63 Content("note\"")
    "#]],
    );
    check_told(
        "a{}b{=}{a b}{/}",
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(StrayMarker)
        1..9 Dropped("<|open|>")
        9..9 Diagnostic(StraySeparator)
        9..16 Dropped("<|sep|>")
        16..17 Reasoning("b")
        17..17 Diagnostic(StrayMarker)
        17..25 Dropped("<|open|>")
        25..26 Reasoning("=")
        26..26 Diagnostic(StraySeparator)
        26..33 Dropped("<|sep|>")
        33..33 Diagnostic(StrayMarker)
        33..41 Dropped("<|open|>")
        41..44 Reasoning("a b")
        44..44 Diagnostic(StraySeparator)
        44..51 Dropped("<|sep|>")
        51..51 Diagnostic(StrayMarker)
        51..60 Dropped("<|close|>")
        60..60 Diagnostic(StraySeparator)
        60..67 Dropped("<|sep|>")
        67..67 Diagnostic(UnclosedThink)
        67..67 End(Think)
    "#]],
    );
    check_told(
        " ~ \nx~ {think}",
        &response().opened(None),
        expect![[r#"
        0..1 Markup(" ")
        1..1 Diagnostic(StrayMarker)
        1..9 Dropped("<|open|>")
        9..11 Markup(" \n")
        11..12 Content("x")
        12..12 Diagnostic(StrayMarker)
        12..20 Dropped("<|open|>")
        20..21 Content(" ")
        21..41 Start(Think)
        41..41 Diagnostic(UnclosedThink)
        41..41 End(Think)
    "#]],
    );
    check_told(
        "{tools}^ {call tool=\"f\"}^note{/call}{call tool=\"f\"} ~ x {/call}",
        &response().opened(None),
        expect![[r#"
            0..20 Start(Tools)
            20..20 Diagnostic(StrayMarker)
            20..29 Dropped("<|close|>")
            29..30 Markup(" ")
            30..58 CallStart { call: 0, name: "f" }
            58..58 Diagnostic(StrayMarker)
            58..67 Dropped("<|close|>")
            67..67 Diagnostic(TextInTools)
            67..71 Dropped("note")
            71..91 CallEnd { call: 0, json: "{}", complete: true }
            91..119 CallStart { call: 1, name: "f" }
            119..120 Markup(" ")
            120..120 Diagnostic(StrayMarker)
            120..128 Dropped("<|open|>")
            128..129 Markup(" ")
            129..129 Diagnostic(TextInTools)
            129..131 Dropped("x ")
            131..151 CallEnd { call: 1, json: "", complete: false }
            151..151 Diagnostic(UnclosedTools)
            151..151 End(Tools)
        "#]],
    );
}

#[test]
fn unknown_tags_have_at_most_256_bytes() {
    for (len, code) in [(256, Code::UnknownTag), (257, Code::StrayMarker)] {
        let text = format!("a{{{}}}b", "n".repeat(len));
        let pieces = spell(&text);
        let events = parse_pieces(&told(&pieces), &response());
        same(&text, &response(), parse_each(&told(&pieces), &response()), &events);
        assert!(events.iter().any(|(event, _)| *event == OwnedEvent::Diagnostic(code)), "{}", show(&events));
    }
}

#[test]
fn headers_that_do_not_lex() {
    check_told(
        "a{call x}b{argument key}c{/response}{json =}d",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..1 Content("a")
        1..1 Diagnostic(UnreadableHeader)
        1..22 Dropped("<|open|>call x<|sep|>")
        22..23 Content("b")
        23..23 Diagnostic(UnreadableHeader)
        23..50 Dropped("<|open|>argument key<|sep|>")
        50..51 Content("c")
        51..75 End(Response)
        75..75 Diagnostic(UnreadableHeader)
        75..96 Dropped("<|open|>json =<|sep|>")
        96..96 Diagnostic(TextOutside)
        96..97 Content("d")
    "#]],
    );
    check_told(
        "a{call x~call y^",
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(UnreadableHeader)
        1..15 Dropped("<|open|>call x")
        15..15 Diagnostic(UnreadableHeader)
        15..29 Dropped("<|open|>call y")
        29..29 Diagnostic(CutTag)
        29..38 Dropped("<|close|>")
        38..38 Diagnostic(UnclosedThink)
        38..38 End(Think)
    "#]],
    );
    check(
        "{call x}",
        &response().opened(None),
        expect![[r#"
        0..21 Content("<|open|>call x<|sep|>")
    "#]],
    );
}

#[test]
fn control_tokens_that_the_end_cuts() {
    for text in ["a~", "a~thin", "a~think ", "a~call x=y", "a~argument key=\"k", "a^ /", "a^respon", "a~ ", "a~messa"] {
        let pieces = spell(text);
        let events = parse_pieces(&told(&pieces), &think());
        same(text, &think(), parse_each(&told(&pieces), &think()), &events);
        let is_cut = events.iter().any(|(event, _)| *event == OwnedEvent::Diagnostic(Code::CutTag));
        assert_eq!(is_cut, text != "a^ /", "{text}");
    }
    check_told(
        "a~note",
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(StrayMarker)
        1..9 Dropped("<|open|>")
        9..13 Reasoning("note")
        13..13 Diagnostic(UnclosedThink)
        13..13 End(Think)
    "#]],
    );
    check_told(
        "a~think x",
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(StrayMarker)
        1..9 Dropped("<|open|>")
        9..16 Reasoning("think x")
        16..16 Diagnostic(UnclosedThink)
        16..16 End(Think)
    "#]],
    );
    check_told(
        "{tools}{call tool=\"f\"}{argument key=\"k\"}a~call x=y",
        &response().opened(None),
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..79 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
        79..96 Arguments { call: 0, json: "a<|open|>call x=y" }
        96..96 Diagnostic(UnclosedValue)
        96..96 ArgumentEnd { call: 0, json: "", closed: false }
        96..96 Diagnostic(UnclosedCall)
        96..96 CallEnd { call: 0, json: "", complete: false }
        96..96 Diagnostic(UnclosedTools)
        96..96 End(Tools)
    "#]],
    );
    check_told(
        "{tools}{call tool=\"f\"}{argument key=\"k\"}a~jso",
        &response().opened(None),
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..79 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
        79..91 Arguments { call: 0, json: "a<|open|>jso" }
        91..91 Diagnostic(UnclosedValue)
        91..91 ArgumentEnd { call: 0, json: "", closed: false }
        91..91 Diagnostic(UnclosedCall)
        91..91 CallEnd { call: 0, json: "", complete: false }
        91..91 Diagnostic(UnclosedTools)
        91..91 End(Tools)
    "#]],
    );
    check_told(
        "{tools}{call tool=\"f\"}{argument key=\"k\"}a~cal",
        &response().opened(None),
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..79 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
        79..80 Arguments { call: 0, json: "a" }
        80..80 Diagnostic(CutTag)
        80..91 Dropped("<|open|>cal")
        91..91 Diagnostic(UnclosedValue)
        91..91 ArgumentEnd { call: 0, json: "", closed: false }
        91..91 Diagnostic(UnclosedCall)
        91..91 CallEnd { call: 0, json: "", complete: false }
        91..91 Diagnostic(UnclosedTools)
        91..91 End(Tools)
    "#]],
    );
}

// ---- calls outside the tools channel ----

#[test]
fn bare_calls() {
    let call = "{call tool=\"f\"}{argument key=\"k\"}v{/argument}{/call}";
    check(
        &format!("a{{/response}} {call}{call}{{/tools}}{{/message}}$"),
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..1 Content("a")
        1..25 End(Response)
        25..26 Markup(" ")
        26..26 Diagnostic(ImpliedTools)
        26..26 Start(Tools)
        26..54 CallStart { call: 0, name: "f" }
        54..85 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
        85..86 Arguments { call: 0, json: "v" }
        86..110 ArgumentEnd { call: 0, json: "\"", closed: true }
        110..130 CallEnd { call: 0, json: "}", complete: true }
        130..158 CallStart { call: 1, name: "f" }
        158..189 ArgumentStart { call: 1, key: Some("k"), kind: String, json: "{\"k\":\"" }
        189..190 Arguments { call: 1, json: "v" }
        190..214 ArgumentEnd { call: 1, json: "\"", closed: true }
        214..234 CallEnd { call: 1, json: "}", complete: true }
        234..255 End(Tools)
        255..292 Markup("<|close|>message<|sep|><|end_of_msg|>")
    "#]],
    );
    check(
        &format!("a{{/think}}{call} {{response}}b"),
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..22 End(Think)
        22..22 Diagnostic(ImpliedTools)
        22..22 Start(Tools)
        22..50 CallStart { call: 0, name: "f" }
        50..81 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
        81..82 Arguments { call: 0, json: "v" }
        82..106 ArgumentEnd { call: 0, json: "\"", closed: true }
        106..126 CallEnd { call: 0, json: "}", complete: true }
        126..127 Markup(" ")
        127..127 Diagnostic(UnclosedTools)
        127..127 End(Tools)
        127..150 Start(Response)
        150..151 Content("b")
        151..151 Diagnostic(UnclosedResponse)
        151..151 End(Response)
    "#]],
    );
    // One section came, spelled or not, or opened by the prompt.
    check(
        &format!("{call}{{/tools}}{call} b"),
        &response().opened(None),
        expect![[r#"
        0..0 Diagnostic(ImpliedTools)
        0..0 Start(Tools)
        0..28 CallStart { call: 0, name: "f" }
        28..59 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
        59..60 Arguments { call: 0, json: "v" }
        60..84 ArgumentEnd { call: 0, json: "\"", closed: true }
        84..104 CallEnd { call: 0, json: "}", complete: true }
        104..125 End(Tools)
        125..125 Diagnostic(ToolsWithheld)
        125..229 Withheld("<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\"<|sep|>v<|close|>argument<|sep|><|close|>call<|sep|>")
        229..230 Markup(" ")
        230..230 Diagnostic(TextOutside)
        230..231 Content("b")
    "#]],
    );
    check(
        &format!("{{/tools}}{call}"),
        &response().opened(Channel::Tools),
        expect![[r#"
        0..0 Start(Tools)
        0..21 End(Tools)
        21..21 Diagnostic(ToolsWithheld)
        21..125 Withheld("<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\"<|sep|>v<|close|>argument<|sep|><|close|>call<|sep|>")
    "#]],
    );
    check(
        "{call}{/call}",
        &response().opened(None),
        expect![[r#"
        0..0 Diagnostic(ImpliedTools)
        0..0 Start(Tools)
        0..0 Diagnostic(NamelessCall)
        0..39 Dropped("<|open|>call<|sep|><|close|>call<|sep|>")
        39..39 Diagnostic(UnclosedTools)
        39..39 End(Tools)
    "#]],
    );
}

#[test]
fn bare_calls_in_channels() {
    let call = "{call tool=\"f\"}{argument key=\"k\"}v{/argument}{/call}";
    check_told(
        &format!("a{call}b{{/message}}$"),
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..1 Content("a")
        1..1 Diagnostic(UnclosedResponse)
        1..1 End(Response)
        1..1 Diagnostic(ImpliedTools)
        1..1 Start(Tools)
        1..29 CallStart { call: 0, name: "f" }
        29..60 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
        60..61 Arguments { call: 0, json: "v" }
        61..85 ArgumentEnd { call: 0, json: "\"", closed: true }
        85..105 CallEnd { call: 0, json: "}", complete: true }
        105..105 Diagnostic(TextInTools)
        105..106 Dropped("b")
        106..106 Diagnostic(UnclosedTools)
        106..106 End(Tools)
        106..143 Markup("<|close|>message<|sep|><|end_of_msg|>")
    "#]],
    );
    check_told(
        "a{call tool=\"f\"~call tool=\"f\"~",
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(MissingSeparator)
        1..1 Diagnostic(UnclosedThink)
        1..1 End(Think)
        1..1 Diagnostic(ImpliedTools)
        1..1 Start(Tools)
        1..22 CallStart { call: 0, name: "f" }
        22..22 Diagnostic(MissingSeparator)
        22..22 Diagnostic(UnclosedCall)
        22..22 CallEnd { call: 0, json: "", complete: false }
        22..43 CallStart { call: 1, name: "f" }
        43..43 Diagnostic(CutTag)
        43..51 Dropped("<|open|>")
        51..51 Diagnostic(UnclosedCall)
        51..51 CallEnd { call: 1, json: "", complete: false }
        51..51 Diagnostic(UnclosedTools)
        51..51 End(Tools)
    "#]],
    );
    check_told(
        &format!("{{tools}}{{/tools}}{{response}}a{call}b"),
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..0 Diagnostic(UnclosedThink)
        0..0 End(Think)
        0..20 Start(Tools)
        20..41 End(Tools)
        41..64 Start(Response)
        64..65 Content("a")
        65..65 Diagnostic(ToolsWithheld)
        65..169 Withheld("<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\"<|sep|>v<|close|>argument<|sep|><|close|>call<|sep|>")
        169..170 Content("b")
        170..170 Diagnostic(UnclosedResponse)
        170..170 End(Response)
    "#]],
    );
    // As text it is a quotation.
    check(
        "a{call tool=\"f\"}{/call}b",
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..50 Content("a<|open|>call tool=\"f\"<|sep|><|close|>call<|sep|>b")
        50..50 Diagnostic(UnclosedResponse)
        50..50 End(Response)
    "#]],
    );
}

#[test]
fn withheld_elements() {
    let off = Request::new().opened(Channel::Think);
    check_told(
        "a{call tool=\"f\"}{argument key=\"k\"}{json}v{/argument}{/call} b{/think} c",
        &off,
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(ToolsWithheld)
        1..124 Withheld("<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\"<|sep|><|open|>json<|sep|>v<|close|>argument<|sep|><|close|>call<|sep|>")
        124..126 Reasoning(" b")
        126..147 End(Think)
        147..148 Markup(" ")
        148..148 Diagnostic(TextOutside)
        148..149 Content("c")
    "#]],
    );
    check_told(
        "a{argument key=\"k\"}v{/argument} b{json}{}{/json}c{argument}d{/argument}e",
        &off,
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(ToolsWithheld)
        1..57 Withheld("<|open|>argument key=\"k\"<|sep|>v<|close|>argument<|sep|>")
        57..59 Reasoning(" b")
        59..59 Diagnostic(ToolsWithheld)
        59..113 Withheld("<|open|>json<|sep|><|open|><|sep|><|close|>json<|sep|>")
        113..114 Reasoning("c")
        114..114 Diagnostic(ToolsWithheld)
        114..162 Withheld("<|open|>argument<|sep|>d<|close|>argument<|sep|>")
        162..163 Reasoning("e")
        163..163 Diagnostic(UnclosedThink)
        163..163 End(Think)
    "#]],
    );
    check_told(
        "a{argument key=\"k\"}v{/argument} b{json}{}{/json}c",
        &off.clone().undeclared(Undeclared::Content),
        expect![[r#"
            0..0 Start(Think)
            0..1 Reasoning("a")
            1..1 Diagnostic(ToolsWithheld)
            1..59 Reasoning("<|open|>argument key=\"k\"<|sep|>v<|close|>argument<|sep|> b")
            59..59 Diagnostic(ToolsWithheld)
            59..114 Reasoning("<|open|>json<|sep|><|open|><|sep|><|close|>json<|sep|>c")
            114..114 Diagnostic(UnclosedThink)
            114..114 End(Think)
        "#]],
    );
    // What never closes hides no answer.
    check_told(
        "a{call tool=\"f\"}{argument key=\"k\"}v{response}b{argument key=\"k\"}{/think}c{/response}",
        &off,
        expect![[r#"
            0..0 Start(Think)
            0..1 Reasoning("a")
            1..1 Diagnostic(ToolsWithheld)
            1..61 Withheld("<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\"<|sep|>v")
            61..61 Diagnostic(UnclosedThink)
            61..61 End(Think)
            61..84 Start(Response)
            84..85 Content("b")
            85..85 Diagnostic(ToolsWithheld)
            85..116 Withheld("<|open|>argument key=\"k\"<|sep|>")
            116..116 Diagnostic(OrphanClose)
            116..137 Dropped("<|close|>think<|sep|>")
            137..138 Content("c")
            138..162 End(Response)
        "#]],
    );
    check_told(
        "a{json}v{call tool=\"f\"}{/json}w{/tools}b",
        &off,
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(ToolsWithheld)
        1..21 Withheld("<|open|>json<|sep|>v")
        21..21 Diagnostic(ToolsWithheld)
        21..70 Withheld("<|open|>call tool=\"f\"<|sep|><|close|>json<|sep|>w")
        70..70 Diagnostic(OrphanClose)
        70..91 Dropped("<|close|>tools<|sep|>")
        91..92 Reasoning("b")
        92..92 Diagnostic(UnclosedThink)
        92..92 End(Think)
    "#]],
    );
    check_told(
        "a{call tool=\"f\"~call{call tool=\"f\"}{/message~",
        &off,
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(MissingSeparator)
        1..1 Diagnostic(ToolsWithheld)
        1..22 Withheld("<|open|>call tool=\"f\"")
        22..22 Diagnostic(MissingSeparator)
        22..22 Diagnostic(ToolsWithheld)
        22..34 Withheld("<|open|>call")
        34..34 Diagnostic(ToolsWithheld)
        34..62 Withheld("<|open|>call tool=\"f\"<|sep|>")
        62..62 Diagnostic(MissingSeparator)
        62..62 Diagnostic(UnclosedThink)
        62..62 End(Think)
        62..78 Markup("<|close|>message")
        78..78 Diagnostic(CutTag)
        78..86 Dropped("<|open|>")
    "#]],
    );
    let outside = off.opened(None);
    check(
        " {call tool=\"f\"}{argument key=\"k\"}v{/argument}{/call} b",
        &outside,
        expect![[r#"
        0..1 Content(" ")
        1..1 Diagnostic(ToolsWithheld)
        1..105 Withheld("<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\"<|sep|>v<|close|>argument<|sep|><|close|>call<|sep|>")
        105..106 Markup(" ")
        106..106 Diagnostic(TextOutside)
        106..107 Content("b")
    "#]],
    );
    check(
        "{call tool=\"f\"}x{/think}b{argument key=\"k\"}{/argument} c{/argument}{/call}",
        &outside,
        expect![[r#"
        0..0 Diagnostic(ToolsWithheld)
        0..29 Withheld("<|open|>call tool=\"f\"<|sep|>x")
        29..29 Diagnostic(OrphanClose)
        29..50 Dropped("<|close|>think<|sep|>")
        50..50 Diagnostic(TextOutside)
        50..51 Content("b")
        51..51 Diagnostic(ToolsWithheld)
        51..132 Withheld("<|open|>argument key=\"k\"<|sep|><|close|>argument<|sep|> c<|close|>argument<|sep|>")
        132..132 Diagnostic(OrphanClose)
        132..152 Dropped("<|close|>call<|sep|>")
    "#]],
    );
    check(
        "{call tool=\"f\"}{argument key=\"k\"}{response}x{/argument}{response}b",
        &outside,
        expect![[r#"
        0..0 Diagnostic(ToolsWithheld)
        0..107 Withheld("<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\"<|sep|><|open|>response<|sep|>x<|close|>argument<|sep|>")
        107..130 Start(Response)
        130..131 Content("b")
        131..131 Diagnostic(UnclosedResponse)
        131..131 End(Response)
    "#]],
    );
    check(
        "{argument key=\"k\"}{/argument",
        &outside,
        expect![[r#"
        0..0 Diagnostic(ToolsWithheld)
        0..48 Withheld("<|open|>argument key=\"k\"<|sep|><|close|>argument")
    "#]],
    );
}

// ---- values ----

#[test]
fn typed_values_close_where_their_json_is_whole() {
    let request = response().opened(None);
    check_tools(
        "{call tool=\"f\"}{argument key=\"k\" type=\"number\"} 1 {/argument} x {argument key=\"l\" type=\"object\"}[1{/argument}]{/argument}y{/call}",
        &request,
        expect![[r#"
            0..20 Start(Tools)
            20..48 CallStart { call: 0, name: "f" }
            48..93 ArgumentStart { call: 0, key: Some("k"), kind: Number, json: "{\"k\":" }
            93..96 Arguments { call: 0, json: " 1 " }
            96..120 ArgumentEnd { call: 0, json: "", closed: true }
            120..121 Markup(" ")
            121..121 Diagnostic(TextInTools)
            121..123 Dropped("x ")
            123..168 ArgumentStart { call: 0, key: Some("l"), kind: Object, json: ",\"l\":" }
            168..170 Arguments { call: 0, json: "[1" }
            170..170 Diagnostic(NotJson)
            170..240 Dropped("<|close|>argument<|sep|>]<|close|>argument<|sep|>y<|close|>call<|sep|>")
            240..240 Diagnostic(UnclosedValue)
            240..240 ArgumentEnd { call: 0, json: "", closed: false }
            240..240 Diagnostic(UnclosedCall)
            240..240 CallEnd { call: 0, json: "", complete: false }
            240..240 Diagnostic(UnclosedTools)
            240..240 End(Tools)
        "#]],
    );
    check_tools(
        "{call tool=\"f\"}{argument key=\"k\"}1{/argument} x{/argument}{/call}",
        &request,
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..79 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
        79..106 Arguments { call: 0, json: "1<|close|>argument<|sep|> x" }
        106..130 ArgumentEnd { call: 0, json: "\"", closed: true }
        130..150 CallEnd { call: 0, json: "}", complete: true }
        150..150 Diagnostic(UnclosedTools)
        150..150 End(Tools)
    "#]],
    );
    check_tools(
        "{call tool=\"f\"}{json}[]{/json} x {json}[{/json} x ]{/json} x{/call}",
        &request,
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..67 ArgumentStart { call: 0, key: None, kind: Block, json: "" }
        67..69 Arguments { call: 0, json: "[]" }
        69..89 ArgumentEnd { call: 0, json: "", closed: true }
        89..90 Markup(" ")
        90..90 Diagnostic(TextInTools)
        90..92 Dropped("x ")
        92..92 Diagnostic(MixedForms)
        92..178 Dropped("<|open|>json<|sep|>[<|close|>json<|sep|> x ]<|close|>json<|sep|> x<|close|>call<|sep|>")
        178..178 Diagnostic(UnclosedCall)
        178..178 CallEnd { call: 0, json: "", complete: false }
        178..178 Diagnostic(UnclosedTools)
        178..178 End(Tools)
    "#]],
    );
    // A longer one than the limit is not, unless it is streamed.
    check_tools(
        "{call tool=\"f\"}{argument key=\"k\" type=\"number\"}1234{/argument} x{/argument}{/call}",
        &request.clone().value_limit(3),
        expect![[r#"
            0..20 Start(Tools)
            20..48 CallStart { call: 0, name: "f" }
            48..93 ArgumentStart { call: 0, key: Some("k"), kind: Number, json: "{\"k\":" }
            93..93 Diagnostic(ValueTooLong)
            93..123 Arguments { call: 0, json: "\"1234<|close|>argument<|sep|> x" }
            123..147 ArgumentEnd { call: 0, json: "\"", closed: true }
            147..167 CallEnd { call: 0, json: "}", complete: true }
            167..167 Diagnostic(UnclosedTools)
            167..167 End(Tools)
        "#]],
    );
    check_tools(
        "{call tool=\"f\"}{argument key=\"k\" type=\"array\"}[234{/argument}]{/argument} x{/call}",
        &request.value_limit(3).stream_json(true),
        expect![[r#"
            0..20 Start(Tools)
            20..48 CallStart { call: 0, name: "f" }
            48..92 ArgumentStart { call: 0, key: Some("k"), kind: Array, json: "{\"k\":" }
            92..96 Arguments { call: 0, json: "[234" }
            96..96 Diagnostic(NotJson)
            96..167 Dropped("<|close|>argument<|sep|>]<|close|>argument<|sep|> x<|close|>call<|sep|>")
            167..167 Diagnostic(UnclosedValue)
            167..167 ArgumentEnd { call: 0, json: "", closed: false }
            167..167 Diagnostic(UnclosedCall)
            167..167 CallEnd { call: 0, json: "", complete: false }
            167..167 Diagnostic(UnclosedTools)
            167..167 End(Tools)
        "#]],
    );
    // What is muted is read alike.
    check(
        "{argument key=\"k\" type=\"null\"}null{/argument} x",
        &Request::new(),
        expect![[r#"
        0..0 Diagnostic(ToolsWithheld)
        0..71 Withheld("<|open|>argument key=\"k\" type=\"null\"<|sep|>null<|close|>argument<|sep|>")
        71..72 Markup(" ")
        72..72 Diagnostic(TextOutside)
        72..73 Content("x")
    "#]],
    );
    check_tools(
        "{call}{argument key=\"k\" type=\"null\"}null{/argument} x{/call}{/tools}",
        &response().opened(None),
        expect![[r#"
            0..20 Start(Tools)
            20..20 Diagnostic(NamelessCall)
            20..132 Dropped("<|open|>call<|sep|><|open|>argument key=\"k\" type=\"null\"<|sep|>null<|close|>argument<|sep|> x<|close|>call<|sep|>")
            132..153 End(Tools)
        "#]],
    );
}

/// By ids a value goes on to its real close, and ends there.
#[test]
fn whole_json_ends_no_told_value() {
    let pieces = [
        told("<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\" type=\"number\"<|sep|>1"),
        vec![Text("<|close|>argument<|sep|>")],
        told("<|close|>argument<|sep|> x <|close|>call<|sep|>"),
    ];
    check_pieces(
        &pieces.concat(),
        &response().opened(None),
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..93 ArgumentStart { call: 0, key: Some("k"), kind: Number, json: "{\"k\":" }
        93..93 Diagnostic(NotJson)
        93..118 Arguments { call: 0, json: "\"1<|close|>argument<|sep|>" }
        118..142 ArgumentEnd { call: 0, json: "\"", closed: true }
        142..143 Markup(" ")
        143..143 Diagnostic(TextInTools)
        143..145 Dropped("x ")
        145..165 CallEnd { call: 0, json: "}", complete: true }
        165..165 Diagnostic(UnclosedTools)
        165..165 End(Tools)
    "#]],
    );
}

#[test]
fn what_may_follow_a_value() {
    for follower in [
        "{think}",
        "{response}",
        "{tools}",
        "{/think}",
        "{/response}",
        "{/tools}",
        "{/call}",
        "{json}",
        "{argument key=\"l\"}",
        "",
    ] {
        let text = in_tools(&format!("{{call tool=\"f\"}}{{argument key=\"k\"}}v{{/argument}} {follower}"));
        let events = parse_text(&text, &response().opened(None));
        same(&text, &response().opened(None), kimi_xtml::parse(&text, response().opened(None)), &events);
        let closed = |(event, _): &(OwnedEvent, Span)| matches!(event, OwnedEvent::ArgumentEnd { closed: true, .. });
        assert!(events.iter().any(closed), "{follower}");
    }
    for other in ["{/argument}x{/call}", "{/json}x", "{message}x", "{note}x", "x{/call}", "|x"] {
        let text = in_tools(&format!("{{call tool=\"f\"}}{{argument key=\"k\"}}v{{/argument}}{other}"));
        let events = parse_text(&text, &response().opened(None));
        same(&text, &response().opened(None), kimi_xtml::parse(&text, response().opened(None)), &events);
        let closed = |(event, _): &(OwnedEvent, Span)| matches!(event, OwnedEvent::ArgumentEnd { closed: true, .. });
        assert!(!events.iter().any(closed), "{other}");
    }
}

#[test]
fn a_lost_opener() {
    let request = response().opened(None);
    check_tools(
        "{call tool=\"f\"}{argument key=\"k\"}1{/argument}second{/argument}{/call}",
        &request,
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..79 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
        79..110 Arguments { call: 0, json: "1<|close|>argument<|sep|>second" }
        110..134 ArgumentEnd { call: 0, json: "\"", closed: true }
        134..154 CallEnd { call: 0, json: "}", complete: true }
        154..154 Diagnostic(UnclosedTools)
        154..154 End(Tools)
    "#]],
    );
    check_told(
        "{tools}{call tool=\"f\"}{argument key=\"k\"}1{/argument}second{/argument}{/call}",
        &request,
        expect![[r#"
            0..20 Start(Tools)
            20..48 CallStart { call: 0, name: "f" }
            48..79 ArgumentStart { call: 0, key: Some("k"), kind: String, json: "{\"k\":\"" }
            79..80 Arguments { call: 0, json: "1" }
            80..104 ArgumentEnd { call: 0, json: "\"", closed: true }
            104..104 Diagnostic(TextInTools)
            104..110 Dropped("second")
            110..110 Diagnostic(OrphanClose)
            110..134 Dropped("<|close|>argument<|sep|>")
            134..154 CallEnd { call: 0, json: "", complete: false }
            154..154 Diagnostic(UnclosedTools)
            154..154 End(Tools)
        "#]],
    );
    check_told(
        "{tools}{call tool=\"f\"}x{/json}{/call}",
        &request,
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..48 Diagnostic(TextInTools)
        48..49 Dropped("x")
        49..49 Diagnostic(OrphanClose)
        49..69 Dropped("<|close|>json<|sep|>")
        69..89 CallEnd { call: 0, json: "", complete: false }
        89..89 Diagnostic(UnclosedTools)
        89..89 End(Tools)
    "#]],
    );
    check_told(
        "{tools}{call tool=\"f\"} {/json}x{/think}{/argument}{/call}",
        &request,
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..49 Markup(" ")
        49..49 Diagnostic(OrphanClose)
        49..69 Dropped("<|close|>json<|sep|>")
        69..69 Diagnostic(TextInTools)
        69..70 Dropped("x")
        70..70 Diagnostic(OrphanClose)
        70..91 Dropped("<|close|>think<|sep|>")
        91..91 Diagnostic(OrphanClose)
        91..115 Dropped("<|close|>argument<|sep|>")
        115..135 CallEnd { call: 0, json: "{}", complete: true }
        135..135 Diagnostic(UnclosedTools)
        135..135 End(Tools)
    "#]],
    );
}

#[test]
fn a_held_value_that_is_cut() {
    let request = response().opened(None);
    let value = |text: &str| format!("{{call tool=\"f\"}}{{argument key=\"k\" type=\"number\"}}{text}");
    check_text(
        &(in_tools(&value("")) + "1}"),
        &request,
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..93 ArgumentStart { call: 0, key: Some("k"), kind: Number, json: "{\"k\":" }
        93..94 Arguments { call: 0, json: "1" }
        94..94 Diagnostic(NotJson)
        94..95 Dropped("}")
        95..95 Diagnostic(UnclosedValue)
        95..95 ArgumentEnd { call: 0, json: "", closed: false }
        95..95 Diagnostic(UnclosedCall)
        95..95 CallEnd { call: 0, json: "", complete: false }
        95..95 Diagnostic(UnclosedTools)
        95..95 End(Tools)
    "#]],
    );
    check_text(
        &(in_tools(&value("")) + "{\"k\":1}}<|close|>argum"),
        &request,
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..93 ArgumentStart { call: 0, key: Some("k"), kind: Number, json: "{\"k\":" }
        93..100 Arguments { call: 0, json: "{\"k\":1}" }
        100..100 Diagnostic(NotJson)
        100..101 Dropped("}")
        101..101 Diagnostic(CutTag)
        101..115 Dropped("<|close|>argum")
        115..115 Diagnostic(UnclosedValue)
        115..115 ArgumentEnd { call: 0, json: "", closed: false }
        115..115 Diagnostic(UnclosedCall)
        115..115 CallEnd { call: 0, json: "", complete: false }
        115..115 Diagnostic(UnclosedTools)
        115..115 End(Tools)
    "#]],
    );
    check_tools(
        &value("x,{/message~"),
        &request,
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..93 ArgumentStart { call: 0, key: Some("k"), kind: Number, json: "{\"k\":" }
        93..93 Diagnostic(NotJson)
        93..111 Dropped("x,<|close|>message")
        111..111 Diagnostic(CutTag)
        111..119 Dropped("<|open|>")
        119..119 Diagnostic(UnclosedValue)
        119..119 ArgumentEnd { call: 0, json: "", closed: false }
        119..119 Diagnostic(UnclosedCall)
        119..119 CallEnd { call: 0, json: "", complete: false }
        119..119 Diagnostic(UnclosedTools)
        119..119 End(Tools)
    "#]],
    );
    check_told(
        &format!("{{tools}}{}", value("1,\"a\":2{/call}{/tools}")),
        &request,
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..93 ArgumentStart { call: 0, key: Some("k"), kind: Number, json: "{\"k\":" }
        93..94 Arguments { call: 0, json: "1" }
        94..94 Diagnostic(NotJson)
        94..100 Dropped(",\"a\":2")
        100..100 Diagnostic(UnclosedValue)
        100..100 ArgumentEnd { call: 0, json: "", closed: false }
        100..120 CallEnd { call: 0, json: "", complete: false }
        120..141 End(Tools)
    "#]],
    );
    check_told(
        &format!("{{tools}}{}", value("[1]]{argument key=\"l\"}{call tool=\"f\"}")),
        &request,
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..93 ArgumentStart { call: 0, key: Some("k"), kind: Number, json: "{\"k\":" }
        93..93 Diagnostic(NotJson)
        93..97 Arguments { call: 0, json: "\"[1]]" }
        97..97 Diagnostic(UnclosedValue)
        97..97 ArgumentEnd { call: 0, json: "\"", closed: false }
        97..128 ArgumentStart { call: 0, key: Some("l"), kind: String, json: ",\"l\":\"" }
        128..128 Diagnostic(UnclosedValue)
        128..128 ArgumentEnd { call: 0, json: "", closed: false }
        128..128 Diagnostic(UnclosedCall)
        128..128 CallEnd { call: 0, json: "", complete: false }
        128..156 CallStart { call: 1, name: "f" }
        156..156 Diagnostic(UnclosedCall)
        156..156 CallEnd { call: 1, json: "", complete: false }
        156..156 Diagnostic(UnclosedTools)
        156..156 End(Tools)
    "#]],
    );
    check_told(
        &format!("{{tools}}{}", value("12]")),
        &request.value_limit(2),
        expect![[r#"
        0..20 Start(Tools)
        20..48 CallStart { call: 0, name: "f" }
        48..93 ArgumentStart { call: 0, key: Some("k"), kind: Number, json: "{\"k\":" }
        93..93 Diagnostic(ValueTooLong)
        93..96 Arguments { call: 0, json: "\"12]" }
        96..96 Diagnostic(UnclosedValue)
        96..96 ArgumentEnd { call: 0, json: "", closed: false }
        96..96 Diagnostic(UnclosedCall)
        96..96 CallEnd { call: 0, json: "", complete: false }
        96..96 Diagnostic(UnclosedTools)
        96..96 End(Tools)
    "#]],
    );
}

// ---- the end ----

#[test]
fn a_character_that_the_end_cuts() {
    let bytes = |text: &str| [spell(text).as_bytes(), b"\xe4\xb8"].concat();
    let request = think();
    check_pieces(
        &[Spelled(&bytes("a"))],
        &request,
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(CutCharacter)
        1..3 Dropped("�")
        3..3 Diagnostic(UnclosedThink)
        3..3 End(Think)
    "#]],
    );
    check_pieces(
        &[Spelled(&bytes("a{/think"))],
        &request,
        expect![[r#"
        0..0 Start(Think)
        0..1 Reasoning("a")
        1..1 Diagnostic(CutTag)
        1..15 Dropped("<|close|>think")
        15..15 Diagnostic(CutCharacter)
        15..17 Dropped("�")
        17..17 Diagnostic(UnclosedThink)
        17..17 End(Think)
    "#]],
    );
    check_pieces(
        &[Spelled(&bytes("{/think}$"))],
        &request,
        expect![[r#"
        0..0 Start(Think)
        0..21 End(Think)
        21..35 Markup("<|end_of_msg|>")
        35..35 Diagnostic(CutCharacter)
        35..37 Dropped("�")
    "#]],
    );
    check_pieces(
        &[Spelled(&bytes("{/think}{tools}{call tool=\"f\"}{argument key=\"k\" type=\"null\"}nu"))],
        &request,
        expect![[r#"
            0..0 Start(Think)
            0..21 End(Think)
            21..41 Start(Tools)
            41..69 CallStart { call: 0, name: "f" }
            69..112 ArgumentStart { call: 0, key: Some("k"), kind: Null, json: "{\"k\":" }
            112..114 Arguments { call: 0, json: "nu" }
            114..114 Diagnostic(CutCharacter)
            114..116 Dropped("�")
            116..116 Diagnostic(UnclosedValue)
            116..116 ArgumentEnd { call: 0, json: "", closed: false }
            116..116 Diagnostic(UnclosedCall)
            116..116 CallEnd { call: 0, json: "", complete: false }
            116..116 Diagnostic(UnclosedTools)
            116..116 End(Tools)
        "#]],
    );
    check_pieces(
        &[Spelled(&bytes("{/think}{argument key=\"k\"}nu"))],
        &request,
        expect![[r#"
        0..0 Start(Think)
        0..21 End(Think)
        21..21 Diagnostic(ToolsWithheld)
        21..54 Withheld("<|open|>argument key=\"k\"<|sep|>nu")
        54..54 Diagnostic(CutCharacter)
        54..56 Dropped("�")
    "#]],
    );
    check_pieces(
        &[Spelled(&bytes("{/think}{tools}{call}x"))],
        &request,
        expect![[r#"
        0..0 Start(Think)
        0..21 End(Think)
        21..41 Start(Tools)
        41..41 Diagnostic(NamelessCall)
        41..61 Dropped("<|open|>call<|sep|>x")
        61..61 Diagnostic(CutCharacter)
        61..63 Dropped("�")
        63..63 Diagnostic(UnclosedTools)
        63..63 End(Tools)
    "#]],
    );
    // Invalid in its midst, and before another input.
    check_pieces(
        &[Spelled(b"a\xffb\xe4\xb8"), Text("c"), Spelled(b"\xf0\x9f\x98d")],
        &request,
        expect![[r#"
        0..0 Start(Think)
        0..10 Reasoning("a�b�c�d")
        10..10 Diagnostic(UnclosedThink)
        10..10 End(Think)
    "#]],
    );
}

#[test]
fn inputs_that_change() {
    check_pieces(
        &[
            Spelled(b"a<|clo"),
            Text("se|>"),
            OPEN,
            Spelled(b"think<|sep|>b"),
            CLOSE,
            Text("think"),
            Spelled(b"<|sep|>c"),
        ],
        &think(),
        expect![[r#"
            0..0 Start(Think)
            0..10 Reasoning("a<|close|>")
            10..10 Diagnostic(MisplacedOpener)
            10..30 Dropped("<|open|>think<|sep|>")
            30..31 Reasoning("b")
            31..52 End(Think)
            52..52 Diagnostic(TextOutside)
            52..53 Content("c")
        "#]],
    );
    check_pieces(
        &[Spelled(b"a<|close|>response<|sep|>"), CLOSE, Text("thi"), Piece::Turn, Text("nk"), SEP],
        &think(),
        expect![[r#"
            0..0 Start(Think)
            0..1 Reasoning("a")
            1..1 Diagnostic(OrphanClose)
            1..25 Dropped("<|close|>response<|sep|>")
            25..46 End(Think)
        "#]],
    );
    check_pieces(
        &[Text("a"), Piece::End, Text("b")],
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..1 Content("a")
        1..1 Diagnostic(UnclosedResponse)
        1..1 End(Response)
        1..1 Diagnostic(AfterEnd)
        1..2 Dropped("b")
    "#]],
    );
    check_pieces(
        &[Spelled(b"a"), OPEN, Text("note"), Spelled(b"<|sep|>b")],
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..1 Content("a")
        1..1 Diagnostic(StrayMarker)
        1..9 Dropped("<|open|>")
        9..21 Content("note<|sep|>b")
        21..21 Diagnostic(UnclosedResponse)
        21..21 End(Response)
    "#]],
    );
    check_pieces(
        &[Text("<|open|>res"), Piece::Turn, Text("ponse<|sep|>b")],
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..0 Diagnostic(RepeatedOpener)
        0..23 Dropped("<|open|>response<|sep|>")
        23..24 Content("b")
        24..24 Diagnostic(UnclosedResponse)
        24..24 End(Response)
    "#]],
    );
    check_pieces(
        &[Text("<|open|"), Piece::Turn, Text(">response<|sep|>b")],
        &response(),
        expect![[r#"
        0..0 Start(Response)
        0..24 Content("<|open|>response<|sep|>b")
        24..24 Diagnostic(UnclosedResponse)
        24..24 End(Response)
    "#]],
    );
}

/// Quoted text follows nothing, and no other marker ends a tag that is quoted, unless it repeats its channel's opener.
#[test]
fn quotations_beside_other_markers() {
    check_pieces(
        &[Spelled(b"<|close|>response<|sep|>"), Text("<|open|>think<|sep|>")],
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..44 Reasoning("<|close|>response<|sep|><|open|>think<|sep|>")
        44..44 Diagnostic(UnclosedThink)
        44..44 End(Think)
    "#]],
    );
    check_pieces(
        &[Text("<|open|>response"), SEP, Text("a")],
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..16 Reasoning("<|open|>response")
        16..16 Diagnostic(StraySeparator)
        16..23 Dropped("<|sep|>")
        23..24 Reasoning("a")
        24..24 Diagnostic(UnclosedThink)
        24..24 End(Think)
    "#]],
    );
    check_pieces(
        &[Text("<|open|>think"), SEP, Text("a")],
        &think(),
        expect![[r#"
        0..0 Start(Think)
        0..0 Diagnostic(RepeatedOpener)
        0..20 Dropped("<|open|>think<|sep|>")
        20..21 Reasoning("a")
        21..21 Diagnostic(UnclosedThink)
        21..21 End(Think)
    "#]],
    );
    check_pieces(
        &[Spelled(b"<|open|>tools<|sep|>"), Text("<|open|>call x=\"\""), Spelled(b"<|sep|>")],
        &think().opened(None),
        expect![[r#"
            0..20 Start(Tools)
            20..20 Diagnostic(TextInTools)
            20..37 Dropped("<|open|>call x=\"\"")
            37..37 Diagnostic(StraySeparator)
            37..44 Dropped("<|sep|>")
            44..44 Diagnostic(UnclosedTools)
            44..44 End(Tools)
        "#]],
    );
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
        let push = match *piece {
            Text(text) => Push::Quoted(text),
            Spelled(bytes) => Push::Bytes(bytes),
            Piece::Marker(marker) => Push::Marker(marker),
            Piece::End => Push::WithIds("", &[163_586]),
            Piece::Turn => Push::WithIds("", &[]),
        };
        push.to(&mut parser, &mut events);
    }
    parser.finish("stop", &mut events);
    events.iter_mut().for_each(|(_, span)| span.tokens = None);
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
        let mut pieces = pieces(&parts);
        if eos {
            pieces.push(Piece::Marker(Marker::Eos));
        }
        let twin = parse_pieces(&pieces, &request);
        same(&format!("{pieces:?}"), &request, parse_each(&pieces, &request), &twin);

        let cut = pieces.iter().flat_map(|piece| match *piece {
            Text(text) => chunks(text, cuts(text.len(), &numbers)).into_iter().map(Text).collect(),
            piece => vec![piece],
        });
        same(&format!("{pieces:?}"), &request, parse_each(&cut.collect::<Vec<_>>(), &request), &twin);
    }

    #[test]
    fn i9_bytes(bytes in bytes(), request in requests(), seed: u64) {
        let twin = parse_pieces(&[Spelled(&bytes)], &request);
        for way in ways_of_bytes(&bytes, &mut Random(seed)) {
            same(&format!("{way:?}"), &request, run(&mut Parser::new(request.clone()), &way).events, &twin);
        }
    }

    #[test]
    fn i9_mixed(mixed in mixed(), seed: u64) {
        let (pieces, way) = (mixed.pieces(), mixed.way(&mut Random(seed)));
        let mut events = run(&mut Parser::new(mixed.request.clone()), &way).events;
        events.iter_mut().for_each(|(_, span)| span.tokens = None);
        same(&format!("{pieces:?}"), &mixed.request, events, &parse_pieces(&pieces, &mixed.request));
    }
}

/// A text, its markers told.
fn told(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, marker, after)) = split_at_marker(rest) {
        pieces.extend([Text(before), Piece::Marker(marker)]);
        rest = after;
    }
    pieces.push(Text(rest));
    pieces
}
