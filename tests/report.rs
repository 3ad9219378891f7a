//! The report: how much of the input went where, what deviated, and where first.
//!
//! In: streams with deviations, bytes that are no text, and tokens. Checked: counts and offsets to the number.

use kimi_xtml::{Channel, Code, Counts, Event, Noted, OwnedEvent, Parser, Request, sink_fn};
use serde_json::json;

mod support;

use support::spell;

/// Reasoning, content, arguments, markup, withheld, dropped.
fn all(counts: Counts) -> [u64; 6] {
    let sum = [counts.reasoning, counts.content, counts.arguments, counts.markup, counts.withheld, counts.dropped];
    assert_eq!(sum.iter().sum::<u64>(), counts.input);
    sum
}

fn noted(parser: &Parser) -> Vec<(Code, u64, u64)> {
    parser.report().diagnostics.iter().map(|&Noted { code, count, first }| (code, count, first)).collect()
}

/// Each code with how often it was told of, and where first; offsets count the bytes that came in.
#[test]
fn deviations_are_counted_and_found() {
    let mut parser = Parser::new(Request::new().tools(["ls"]));
    let mut events = Vec::new();
    let section = spell("{tools}{call tool=\"rm\"}{call tool=\"rm\"}{/call}y{/tools}");
    parser.push_bytes(b"a\xffb\xe4\xb8c", &mut events);
    parser.push_bytes(section.as_bytes(), &mut events);
    parser.push_bytes(b"d\xf0\x9f\x98\xffe\xc3", &mut events);
    parser.finish("stop", &mut events);

    let at = |code| {
        let places: Vec<u64> = events
            .iter()
            .filter(|(event, _)| *event == OwnedEvent::Diagnostic(code))
            .map(|(_, span)| span.bytes.start)
            .collect();
        (code, places.len() as u64, places[0])
    };
    let len = section.len() as u64;
    assert_eq!(
        noted(&parser),
        [
            at(Code::UnclosedCall),
            (Code::TextOutside, 1, 6 + len),
            (Code::TextInTools, 1, 6 + section.find('y').unwrap() as u64),
            (Code::UndeclaredTool, 2, 6 + 20),
            (Code::CutCharacter, 1, 6 + len + 6),
            (Code::InvalidUtf8, 4, 1),
        ]
    );
    assert_eq!((at(Code::TextOutside).2, at(Code::UndeclaredTool).1), (6 + len, 2));
    let bytes = parser.report().bytes;
    assert_eq!((bytes.input, bytes.content, bytes.dropped), (6 + len + 7, 12, 2));
    assert_eq!(bytes.markup, len - 1);
}

#[test]
fn each_kind_of_byte_and_token_is_counted() {
    let deltas: &[(&str, &[u32])] = &[
        ("why", &[1, 2]),
        ("<|close|>", &[163_588]),
        ("think", &[3]),
        ("<|sep|>", &[163_589]),
        ("<|open|>response<|sep|>so", &[163_587, 4, 163_589, 5]),
        ("", &[6, 7]),
        (" it", &[]),
        ("<|close|>response<|sep|>", &[163_588, 8, 163_589]),
        ("<|open|>tools<|sep|><|open|>call tool=\"ls\"<|sep|>", &[163_587, 9, 163_589, 163_587, 10, 11, 163_589]),
        ("<|open|>argument key=\"k\" type=\"number\"<|sep|>12", &[163_587, 12, 163_589, 13, 14]),
        ("<|close|>argument<|sep|>xy", &[163_588, 15, 163_589, 16, 17, 18]),
        ("<|close|>call<|sep|><|close|>tools<|sep|>", &[163_588, 19, 163_589, 163_588, 20, 163_589]),
        ("<|end_of_msg|>", &[163_586, 21]),
        ("zz", &[]),
    ];
    let mut parser = Parser::new(Request::new().opened(Channel::Think).tools(["ls"]));
    let mut events = Vec::new();
    for (text, ids) in deltas {
        parser.push_with_ids(text, ids, &mut events);
    }
    parser.finish("stop", &mut events);
    let report = parser.report();
    let input: usize = deltas.iter().map(|(text, _)| text.len()).sum();
    assert_eq!(all(report.bytes), [3, 5, 2, input as u64 - 14, 0, 4]);
    assert_eq!(report.tokens.map(all), Some([2, 3, 2, 29, 0, 4]));
    let values = events.iter().filter_map(|(event, span)| Some((event.as_event().json()?.1.to_owned(), span.clone())));
    let twelve = values.filter(|(json, _)| json == "12").map(|(_, span)| span.tokens).next();
    assert_eq!(twelve, Some(Some(24..26)));
}

/// Tokens whose text is cut between two events belong to both.
#[test]
fn events_share_the_tokens_of_their_text() {
    let mut parser = Parser::new(Request::new().opened(Channel::Tools).tools(["f"]));
    let mut events = Vec::new();
    for (header, id) in [("call tool=\"f\"", 1), ("argument key=\"k\"", 2)] {
        parser.push_with_ids(&format!("<|open|>{header}<|sep|>"), &[163_587, id, 163_589], &mut events);
    }
    // The ids come first, and what they begin turns out to be no tag: the value goes on.
    parser.push_with_ids("<|open|>to", &[163_587, 3, 4], &mut events);
    parser.push_with_ids("xx", &[], &mut events);
    parser.push_with_ids("y", &[5], &mut events);
    parser.finish("stop", &mut events);
    let of = |text: &str| {
        let found = events.iter().find(|(event, _)| *event == OwnedEvent::Arguments { call: 0, json: text.into() });
        found.and_then(|(_, span)| span.tokens.clone()).unwrap()
    };
    assert_eq!([of("<|open|>to"), of("xx"), of("y")], [6..9, 7..9, 9..10]);
    assert_eq!(parser.report().tokens.map(|tokens| (tokens.input, tokens.arguments)), Some((10, 4)));
}

/// Text that might have become a marker counts where it ends, though it came before.
#[test]
fn held_beginnings_of_markers_keep_their_tokens() {
    let mut parser = Parser::new(Request::new().opened(Channel::Response));
    let mut texts = Vec::new();
    let mut sink = sink_fn(|event, span| {
        if let Event::Content(text) = event {
            texts.push((text.to_owned(), span.tokens.unwrap()));
        }
    });
    for (text, ids) in [("a<", &[1, 2][..]), ("b", &[3]), ("c", &[4])] {
        parser.push_with_ids(text, ids, &mut sink);
    }
    parser.finish("stop", &mut sink);
    let expected = [("a", 0..2), ("<", 2..3), ("b", 3..3), ("c", 3..4)];
    assert_eq!(texts, expected.map(|(text, tokens)| (text.to_owned(), tokens)));
}

/// A token that came without text counts as markup in the end; a control token whose text never came is told of.
#[test]
fn tokens_that_never_had_a_text_are_markup() {
    let mut parser = Parser::new(Request::new().opened(Channel::Response));
    let mut ignored = sink_fn(|_, _| {});
    assert_eq!(parser.report().tokens, None);
    parser.push_with_ids("ab", &[1, 2], &mut ignored);
    parser.push_with_ids("", &[163_588, 3, 163_589, 4], &mut ignored);
    parser.finish("stop", &mut ignored);
    let report = parser.report();
    assert_eq!(report.tokens.map(all), Some([0, 2, 0, 4, 0, 0]));
    let bytes =
        json!({"input": 2, "reasoning": 0, "content": 2, "arguments": 0, "markup": 0, "withheld": 0, "dropped": 0});
    let tokens =
        json!({"input": 6, "reasoning": 0, "content": 2, "arguments": 0, "markup": 4, "withheld": 0, "dropped": 0});
    let diagnostics = json!([
        {"code": "unclosed-response", "count": 1, "first": 2},
        {"code": "id-without-text", "count": 2, "first": 2},
    ]);
    let written = json!({"bytes": bytes, "tokens": tokens, "examined": 2, "diagnostics": diagnostics});
    assert_eq!(json!(report), written);
    assert_eq!(noted(&parser), [(Code::UnclosedResponse, 1, 2), (Code::IdWithoutText, 2, 2)]);
}
