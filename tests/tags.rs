//! What is a tag and what is none, at the edges that streams seldom come to.
//!
//! In: text, pushed whole and in every pair of chunks. Checked: what it is, and how often lexing looked at it. A text in braces
//! is a tag, as `spell` says.

use kimi_xtml::{Channel, Chat, Code, IdPolicy, Message, Parser, Piece, Report, Request, render_pieces, sink_fn};

mod support;

use support::spell;

fn request() -> Request {
    Request::new().opened(Channel::Response).tools(["ls"])
}

fn parse<'t>(chunks: impl IntoIterator<Item = &'t str>) -> (Message, Report) {
    let mut parser = Parser::new(request());
    let mut chat = Chat::new(IdPolicy::numbered(0));
    chunks.into_iter().for_each(|chunk| parser.push(chunk, &mut chat));
    parser.finish("stop", &mut chat);
    (chat.into_message().unwrap(), parser.report())
}

/// The content of an answer.
fn content(text: &str) -> String {
    parse([spell(text).as_str()]).0.content
}

#[test]
fn a_name_is_whole() {
    for text in [
        "{/respons }$",
        "{/response x}$",
        "{/re sponse}$",
        "{/responses}$",
        "{/}$",
        "{/ }$",
        "~tools",
        "{tool }{/tools}",
    ] {
        let spelled = spell(text);
        let expected = spelled.strip_suffix("<|end_of_msg|>").unwrap_or(&spelled);
        assert_eq!(content(text), if text == "~tools" { "" } else { expected }, "{text}");
    }
    assert_eq!(content("a{/ \n response \t}$"), "a");
}

/// What may follow a tag that is only spelled: not every control token, but for the answer's close.
#[test]
fn the_right_thing_follows() {
    assert_eq!(content("a{tools}$"), spell("a{tools}"));
    assert_eq!(content("a{tools}{/tools}$"), "a");
    assert_eq!(content("a{tools}|b"), spell("a{tools}|b"));
    let (message, report) = parse([spell("a{/response}|").as_str()]);
    assert_eq!((message.content.as_str(), report.bytes.dropped), ("a", 7));
}

/// Quoted, a separator is text like any other, also where a channel was just opened.
#[test]
fn a_quoted_separator_is_text() {
    let mut parser = Parser::new(request().opened(Channel::Tools));
    let mut ignored = sink_fn(|_, _| {});
    parser.push_text("<|sep|>", &mut ignored);
    let told: Vec<Code> = parser.report().diagnostics.iter().map(|noted| noted.code).collect();
    assert_eq!(told, [Code::TextInTools]);
}

/// A call's opener as long as no tag can be settles the close before it, and is text itself, however it comes.
#[test]
fn what_follows_is_told_before_it_is_too_long() {
    // At 2 KiB and at 16 KiB, less the marker, headers and chunks have their limits.
    for len in (1..1_100).chain(2_000..2_100).chain(16_300..16_400).chain([17_000, 40_000]) {
        let close = spell("{/response}{tools}{call tool=\"ls\"}{argument key=\"k\"}v{/argument}~");
        let header = format!("call tool=\"{}\"", "x".repeat(len));
        let text = [close.as_str(), &header].concat();
        let (whole, report) = parse([text.as_str(), &spell("|{/call}")]);
        // An opener that cannot be read may have been an argument's: the call is not complete.
        let (arguments, calls) =
            if "<|open|>".len() + header.len() <= 16 << 10 { ("{\"k\":\"v\"}", 2) } else { ("{\"k\":\"v\"", 1) };
        assert_eq!((whole.tool_calls[0].arguments.as_str(), whole.tool_calls.len()), (arguments, calls), "{len}");
        let (cut, cut_report) = parse([close.as_str(), &header, &spell("|{/call}")]);
        assert_eq!((&cut, cut_report.bytes), (&whole, report.bytes), "{len}");
    }
}

/// Lexing looks at the bytes after a marker once more, and no further than they can be a tag.
#[test]
fn lexing_looks_no_further_than_it_must() {
    let examined = |text: &str| {
        let (_, report) = parse([spell(text).as_str()]);
        report.examined - report.bytes.input
    };
    assert_eq!(examined("plain"), 0);
    assert_eq!(examined("~xxxxxxxxx"), 1);
    assert_eq!(examined("~thinxxxx"), 5);
    assert_eq!(examined("{/response}"), 8);
    assert_eq!(examined("^   x"), 4);
    assert_eq!(examined("{/response}   x"), 8 + 3);
    assert_eq!(examined(&format!("{{/response}}{}", " ".repeat(20_000))), 8 + (16 << 10) + 1);
}

/// An answer or reasoning that quotes its own channel's opener comes back, with each kind of white space in the quotation.
#[test]
fn quoted_openers_come_back() {
    for (channel, blank) in [Channel::Think, Channel::Response]
        .into_iter()
        .flat_map(|channel| ["", " ", "\t", "\n", "\r"].map(|blank| (channel, blank)))
    {
        let text = format!("<|open|>{blank}{}{blank}<|sep|>x", channel.name());
        let message = match channel {
            Channel::Think => Message::new().with_reasoning(&text),
            _ => Message::new().with_content(&text),
        };
        for opened in [None, Some(channel)] {
            let mut parser = Parser::new(Request::new().opened(opened));
            let mut chat = Chat::new(IdPolicy::numbered(0));
            for piece in render_pieces(&message, opened).unwrap() {
                match piece {
                    Piece::Text(text) => parser.push_text(&text, &mut chat),
                    Piece::Marker(marker) => parser.push_marker(marker, &mut chat),
                    piece => panic!("{piece:?}"),
                }
            }
            parser.finish("stop", &mut chat);
            let back = chat.into_message().unwrap();
            assert_eq!(
                (back.reasoning, back.content),
                (message.reasoning.clone(), message.content.clone()),
                "{blank:?} {opened:?}"
            );
        }
    }
}
