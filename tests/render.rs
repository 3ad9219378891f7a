//! I6: what is rendered parses to what was rendered.

use expect_test::expect;
use kimi_xtml::{Channel, Chat, Message, Parser, Piece, RenderError, Request, ToolCall, render, render_pieces};
use proptest::prelude::*;

mod messages;

use messages::{Parts, any_text, cut, cuts, parts, plain_text};

const OPENED: [Option<Channel>; 4] = [None, Some(Channel::Think), Some(Channel::Response), Some(Channel::Tools)];

/// What the parser makes of what `push` gives it.
fn parsed(opened: Option<Channel>, push: impl FnOnce(&mut Parser, &mut Chat)) -> Parts {
    let mut parser = Parser::new(Request::new().opened(opened).tools(["f"]));
    let mut chat = Chat::default();
    push(&mut parser, &mut chat);
    parser.finish("stop", &mut chat);
    assert_eq!(parser.held(), "");
    Parts::of(chat.message().unwrap())
}

/// Without what comes before the opened channel.
fn reachable(mut parts: Parts, opened: Option<Channel>) -> Parts {
    if matches!(opened, Some(Channel::Response | Channel::Tools)) {
        parts.reasoning.clear();
    }
    if opened == Some(Channel::Tools) {
        parts.content.clear();
    }
    parts
}

proptest! {
    #[test]
    fn i6_roundtrip_of_plain_text_through_push(parts in parts(plain_text()), cuts in cuts()) {
        for opened in OPENED {
            let parts = reachable(parts.clone(), opened);
            let text = render(&parts.message(), opened).unwrap();
            let back = parsed(opened, |parser, chat| {
                cut(&text, &cuts).into_iter().for_each(|chunk| parser.push(chunk, chat))
            });
            prop_assert_eq!(&back, &parts, "{:?} {}", opened, text);
        }
    }

    #[test]
    fn i6_roundtrip_of_any_text_through_pieces(parts in parts(any_text()), cuts in cuts()) {
        for opened in OPENED {
            let parts = reachable(parts.clone(), opened);
            let message = parts.message();
            let pieces = render_pieces(&message, opened).unwrap();
            let back = parsed(opened, |parser, chat| {
                pieces.iter().for_each(|piece| match piece {
                    Piece::Marker(marker) => parser.push_marker(*marker, chat),
                    text => {
                        cut(text.spelling(), &cuts).into_iter().for_each(|chunk| parser.push_text(chunk, chat))
                    }
                })
            });
            prop_assert_eq!(&back, &parts, "{:?} {:?}", opened, pieces);
        }
    }

    #[test]
    fn i6_roundtrip_of_any_text_through_tokens(parts in parts(any_text()), cuts in cuts()) {
        const ORDINARY: u32 = 220;
        for opened in OPENED {
            let parts = reachable(parts.clone(), opened);
            let message = parts.message();
            let pieces = render_pieces(&message, opened).unwrap();
            let back = parsed(opened, |parser, chat| {
                pieces.iter().for_each(|piece| match piece {
                    Piece::Marker(marker) => parser.push_token(marker.spelling(), marker.id(), chat),
                    text => cut(text.spelling(), &cuts)
                        .into_iter()
                        .for_each(|chunk| parser.push_token(chunk, ORDINARY, chat)),
                })
            });
            prop_assert_eq!(&back, &parts, "{:?} {:?}", opened, pieces);
        }
    }
}

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall::new(name, arguments)
}

/// One element a line.
fn lines(message: &Message, opened: Option<Channel>) -> String {
    let text = render(message, opened).unwrap();
    text.replace("<|open|>", "\n<|open|>").replace("<|close|>", "\n<|close|>")
}

#[test]
fn renders_what_is_generated_behind_each_prompt() {
    let calls = vec![
        call("f", "{}"),
        call("a & \"b\"", r#"{ "s": "x\n\u00e9", "o": {"k":[1,2.50]}, "s": null, "t": true }"#),
        call("g", "{\"cut\":"),
    ];
    let whole = Message::of("why", "what", calls);
    expect![[r#"

        <|open|>think<|sep|>why
        <|close|>think<|sep|>
        <|open|>response<|sep|>what
        <|close|>response<|sep|>
        <|open|>tools<|sep|>
        <|open|>call tool="f" index="1"<|sep|>
        <|close|>call<|sep|>
        <|open|>call tool="a &amp; &quot;b&quot;" index="2"<|sep|>
        <|open|>argument key="s" type="string"<|sep|>x
        é
        <|close|>argument<|sep|>
        <|open|>argument key="o" type="object"<|sep|>{"k":[1,2.50]}
        <|close|>argument<|sep|>
        <|open|>argument key="s" type="null"<|sep|>null
        <|close|>argument<|sep|>
        <|open|>argument key="t" type="boolean"<|sep|>true
        <|close|>argument<|sep|>
        <|close|>call<|sep|>
        <|open|>call tool="g" index="3"<|sep|>
        <|open|>json type="object"<|sep|>{"cut":
        <|close|>json<|sep|>
        <|close|>call<|sep|>
        <|close|>tools<|sep|>
        <|close|>message<|sep|><|end_of_msg|>"#]]
    .assert_eq(&lines(&whole, None));
    expect![[r#"
        why
        <|close|>think<|sep|>
        <|open|>response<|sep|>what
        <|close|>response<|sep|>
        <|open|>tools<|sep|>
        <|open|>call tool="f" index="1"<|sep|>
        <|close|>call<|sep|>
        <|open|>call tool="a &amp; &quot;b&quot;" index="2"<|sep|>
        <|open|>argument key="s" type="string"<|sep|>x
        é
        <|close|>argument<|sep|>
        <|open|>argument key="o" type="object"<|sep|>{"k":[1,2.50]}
        <|close|>argument<|sep|>
        <|open|>argument key="s" type="null"<|sep|>null
        <|close|>argument<|sep|>
        <|open|>argument key="t" type="boolean"<|sep|>true
        <|close|>argument<|sep|>
        <|close|>call<|sep|>
        <|open|>call tool="g" index="3"<|sep|>
        <|open|>json type="object"<|sep|>{"cut":
        <|close|>json<|sep|>
        <|close|>call<|sep|>
        <|close|>tools<|sep|>
        <|close|>message<|sep|><|end_of_msg|>"#]]
    .assert_eq(&lines(&whole, Some(Channel::Think)));
    let answer = Message::new().with_content("what");
    expect![[r#"
        what
        <|close|>response<|sep|>
        <|close|>message<|sep|><|end_of_msg|>"#]]
    .assert_eq(&lines(&answer, Some(Channel::Response)));
    expect![[r#"

        <|open|>think<|sep|>
        <|close|>think<|sep|>
        <|open|>response<|sep|>
        <|close|>response<|sep|>
        <|close|>message<|sep|><|end_of_msg|>"#]]
    .assert_eq(&lines(&Message::default(), None));
    let calls = Message::new().with_tool_call(call("f", "{}"));
    expect![[r#"

        <|open|>think<|sep|>
        <|close|>think<|sep|>
        <|open|>response<|sep|>
        <|close|>response<|sep|>
        <|open|>tools<|sep|>
        <|open|>call tool="f" index="1"<|sep|>
        <|close|>call<|sep|>
        <|close|>tools<|sep|>
        <|close|>message<|sep|><|end_of_msg|>
        --
        <|close|>think<|sep|>
        <|open|>response<|sep|>
        <|close|>response<|sep|>
        <|open|>tools<|sep|>
        <|open|>call tool="f" index="1"<|sep|>
        <|close|>call<|sep|>
        <|close|>tools<|sep|>
        <|close|>message<|sep|><|end_of_msg|>
        --
        <|close|>response<|sep|>
        <|open|>tools<|sep|>
        <|open|>call tool="f" index="1"<|sep|>
        <|close|>call<|sep|>
        <|close|>tools<|sep|>
        <|close|>message<|sep|><|end_of_msg|>
        --
        <|open|>call tool="f" index="1"<|sep|>
        <|close|>call<|sep|>
        <|close|>tools<|sep|>
        <|close|>message<|sep|><|end_of_msg|>"#]]
    .assert_eq(&OPENED.map(|opened| lines(&calls, opened)).join("\n--"));
}

/// The parser drops a repeated opener, so that a text that begins with one has it twice.
#[test]
fn a_text_that_begins_with_its_opener_comes_back() {
    for name in ["think", " \nthink", "thinks", "response", "response "] {
        let text = format!("<|open|>{name}<|sep|>x");
        let message = Message::new().with_reasoning(&text).with_content(&text);
        for opened in [None, Some(Channel::Think)] {
            let mut parser = Parser::new(Request::new().opened(opened));
            let mut chat = Chat::default();
            for piece in render_pieces(&message, opened).unwrap() {
                match piece {
                    Piece::Marker(marker) => parser.push_marker(marker, &mut chat),
                    text => parser.push_text(text.spelling(), &mut chat),
                }
            }
            parser.finish("stop", &mut chat);
            assert_eq!(chat.into_message().unwrap(), message, "{name}");
        }
    }
}

#[test]
fn what_has_no_form_is_an_error() {
    let message = Message::new().with_reasoning("why");
    let before = RenderError::BeforeOpened { channel: Channel::Think, opened: Channel::Response };
    assert_eq!(render(&message, Some(Channel::Response)), Err(before));
    expect!["the message has text for the think channel, which comes before the open response channel"]
        .assert_eq(&before.to_string());
    for name in ["", &"n".repeat(20_000)] {
        let message = Message::new().with_tool_call(call("f", "{}")).with_tool_call(call(name, "{}"));
        assert_eq!(render(&message, None), Err(RenderError::CallName { call: 1 }));
    }
}

#[test]
fn arguments_come_back_in_the_parsers_spelling() {
    let arguments = r#" { "s" : "\u00e9\/" , "o" : {"k":[1 ,2.50]} , "s" : 1e2 } "#;
    let message = Message::new().with_tool_call(call("f", arguments));
    let text = render(&message, None).unwrap();
    let back = parsed(None, |parser, chat| parser.push(&text, chat));
    assert_eq!(back.calls, [("f".into(), r#"{"s":"é/","o":{"k":[1 ,2.50]},"s":1e2}"#.into())]);
}

#[test]
fn headers_as_long_as_the_parser_reads_come_back() {
    let name_of = |len: usize| Parts { calls: vec![("n".repeat(len), r#"{"a":1}"#.into())], ..Parts::default() };
    let longest = (1..20_000).rfind(|&len| render(&name_of(len).message(), None).is_ok()).unwrap();
    assert_eq!("<|open|>call tool=\"\" index=\"1\"".len() + longest, 16 << 10);
    let key_of =
        |len: usize| Parts { calls: vec![("f".into(), format!(r#"{{"{}":1}}"#, "k".repeat(len)))], ..Parts::default() };
    let longest_key = (1..20_000).rfind(|&len| render(&key_of(len).message(), None).is_ok()).unwrap();
    assert_eq!("<|open|>argument key=\"\" type=\"number\"".len() + longest_key, 16 << 10);
    for parts in [name_of(longest), key_of(longest_key)] {
        let text = render(&parts.message(), None).unwrap();
        assert_eq!(parsed(None, |parser, chat| parser.push(&text, chat)), parts);
    }
    assert_eq!(render(&key_of(longest_key + 1).message(), None), Err(RenderError::CallName { call: 0 }));
}
