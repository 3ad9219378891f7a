//! What closes a generation that was cut.
//!
//! In: generations cut at every token, well-formed and hostile ones. Checked: what is written, that the whole is a message that
//! ends and says what the generation said, and that of a well-formed one it is what the encoder writes for that message.

#![allow(clippy::incompatible_msrv, reason = "the oldest toolchain has to compile the crate, not its tests")]

use kimi_xtml::{
    Channel, Chat, Code, Conversation, Marker, Message, Parser, Piece, PromptMessage, Request, ToolCall, Undeclared,
    closing, encode, render_pieces,
};
use proptest::collection::vec;
use proptest::prelude::*;

mod support;

use support::{Random, config, spell, streams};

type Token = (String, u32);

/// Tokens, short as in [`spell`].
fn tokens(short: &str) -> Vec<Token> {
    let text = spell(short);
    let mut tokens = Vec::new();
    let mut rest = text.as_str();
    while let Some((before, marker, after)) = support::split_at_marker(rest) {
        tokens.extend((!before.is_empty()).then(|| (before.to_owned(), 1)));
        tokens.push((String::new(), marker.id()));
        rest = after;
    }
    tokens.extend((!rest.is_empty()).then(|| (rest.to_owned(), 1)));
    tokens
}

fn pushed(parser: &mut Parser, chat: &mut Chat, tokens: &[Token], pieces: &[Piece<'_>]) {
    for (text, id) in tokens {
        parser.push_token(text, *id, chat);
    }
    for piece in pieces {
        match piece {
            Piece::Marker(marker) => parser.push_marker(*marker, chat),
            piece => parser.push_text(piece.spelling(), chat),
        }
    }
}

/// The message of tokens and pieces after them, and what was told of.
fn parsed(request: &Request, tokens: &[Token], pieces: &[Piece<'_>]) -> (Message, Vec<Code>) {
    let (mut parser, mut chat) = (Parser::new(request.clone()), Chat::default());
    pushed(&mut parser, &mut chat, tokens, pieces);
    parser.finish("length", &mut chat);
    let codes = parser.report().diagnostics.iter().map(|noted| noted.code).collect();
    (chat.into_message().unwrap(), codes)
}

fn text(pieces: &[Piece<'_>]) -> String {
    pieces.iter().map(Piece::spelling).collect()
}

/// What closes `short`, after a prompt that opened think.
fn closed(short: &str) -> String {
    let request = Request::new().opened(Channel::Think).tools(["f"]);
    let mut spelled = text(&closing(request, &tokens(short)).unwrap());
    for (marker, short) in [("<|open|>", "{"), ("<|close|>", "{/"), ("<|sep|>", "}"), ("<|end_of_msg|>", "$")] {
        spelled = spelled.replace(marker, short);
    }
    spelled
}

#[test]
fn what_is_open_is_closed() {
    const ANSWER: &str = "{response}{/response}{/message}$";
    assert_eq!(closed(""), format!("{{/think}}{ANSWER}"));
    assert_eq!(closed("hm"), format!("{{/think}}{ANSWER}"));
    assert_eq!(closed("{/think}"), ANSWER);
    assert_eq!(closed("{/think}{response}"), "{/response}{/message}$");
    assert_eq!(closed("{response}so"), "{/response}{/message}$");
    assert_eq!(closed("{/think}{response}so{/response}"), "{/message}$");
    assert_eq!(closed("{/think}{response}so{/response}{tools}"), "{/tools}{/message}$");
    let call = "{/think}{tools}{call tool=\"f\" index=\"1\"}";
    assert_eq!(closed(call), "{/call}{/tools}{/message}$");
    for (value, name) in [("{argument key=\"k\" type=\"string\"}v", "argument"), ("{json type=\"object\"}[", "json")] {
        assert_eq!(closed(&format!("{call}{value}")), format!("{{/{name}}}{{/call}}{{/tools}}{{/message}}$"));
    }
    assert_eq!(closed(&format!("{call}{{/call}}")), "{/tools}{/message}$");
    assert_eq!(closed(&format!("{call}{{/call}}{{/tools}}")), "{/message}$");
    assert_eq!(closed("{/think}{response}{/response}{/message}"), "$");
    assert_eq!(closed("{/think}{response}{/response}{/message}\n"), "$");
    assert_eq!(closed("{/think}{response}{/response}{/message}$"), "");
    assert_eq!(closed("hm{/message}"), "$");
    assert_eq!(closed("hm$"), "");
    // What the model left unclosed stays so.
    assert_eq!(closed("hm{tools}{call tool=\"f\"}"), "{/call}{/tools}{/message}$");
    // A call without a name, and one that no section surrounds.
    assert_eq!(closed("{/think}{tools}{call}{argument key=\"k\"}v"), "{/argument}{/call}{/tools}{/message}$");
    assert_eq!(closed("{/think}{call tool=\"f\"}"), "{/call}{/tools}{/message}$");
}

#[test]
fn a_tag_that_was_cut_is_completed() {
    const ANSWER: &str = "{/response}{/message}$";
    assert_eq!(closed("hm{/"), "think}{response}{/response}{/message}$");
    assert_eq!(closed("hm{/thi"), "nk}{response}{/response}{/message}$");
    assert_eq!(closed("hm{/think"), "}{response}{/response}{/message}$");
    assert_eq!(closed("hm{/ think "), "}{response}{/response}{/message}$");
    assert_eq!(closed("hm{/mess"), "age}$");
    // A close that closes nothing is dropped whole too.
    assert_eq!(closed("hm{/resp"), "onse}{/think}{response}{/response}{/message}$");
    assert_eq!(closed("hm~"), format!("response}}{ANSWER}"));
    assert_eq!(closed("{/think}~"), format!("response}}{ANSWER}"));
    assert_eq!(closed("{/think}~res"), format!("ponse}}{ANSWER}"));
    assert_eq!(closed("{/think}~t"), "ools}{/tools}{/message}$");
    assert_eq!(closed("{response}a~"), "tools}{/tools}{/message}$");
    assert_eq!(closed("{response}a{/response}{/"), "message}$");

    let tools = "{/think}{tools}";
    let call = "{/call}{/tools}{/message}$";
    assert_eq!(closed(&format!("{tools}{{/")), "tools}{/message}$");
    assert_eq!(closed(&format!("{tools}~")), format!("call tool=\"\" index=\"1\"}}{call}"));
    for (cut, rest) in [
        ("ca", "ll tool=\"\" index=\"1\"}"),
        ("call", " tool=\"\" index=\"1\"}"),
        ("call ", "tool=\"\" index=\"1\"}"),
        ("call to", "ol=\"\" index=\"1\"}"),
        ("call tool", "=\"\" index=\"1\"}"),
        ("call tool ", "=\"\" index=\"1\"}"),
        ("call tool=", "\"\" index=\"1\"}"),
        ("call tool=\"", "\" index=\"1\"}"),
        ("call tool=\"f", "\" index=\"1\"}"),
        ("call tool=\"f\"", " index=\"1\"}"),
        ("call tool=\"f\" ", "index=\"1\"}"),
        ("call tool=\"f\" index=\"", "1\"}"),
        ("call tool=\"f\" index=\"1", "\"}"),
        ("call tool=\"f\" index=\"1\"", "}"),
        ("call tool=\"f\" index=\"1\" ", "}"),
        ("call index=\"1\" t", "ool=\"\"}"),
        ("call x=\"y\" z", "=\"\" tool=\"\" index=\"1\"}"),
    ] {
        assert_eq!(closed(&format!("{tools}~{cut}")), format!("{rest}{call}"), "{cut}");
    }

    let second = "{/think}{tools}{call tool=\"f\"}{/call}{call tool=\"f\"}";
    assert_eq!(closed("{/think}{tools}{call tool=\"f\"}{/call}~call tool=\"f"), format!("\" index=\"2\"}}{call}"));
    let value = format!("{{/argument}}{call}");
    for (cut, rest) in [
        ("", "argument key=\"\" type=\"string\"}"),
        ("argument key=\"pa", "\" type=\"string\"}"),
        ("argument key=\"a\" type=\"", "string\"}"),
        ("argument key=\"a\" type=\"str", "ing\"}"),
        ("argument key=\"a\" type=\"o", "bject\"}"),
        ("argument key=\"a\" type=\"?", "\"}"),
    ] {
        assert_eq!(closed(&format!("{second}~{cut}")), format!("{rest}{value}"), "{cut}");
    }
    assert_eq!(closed(&format!("{second}~js")), format!("on type=\"object\"}}{{/json}}{call}"));
    let text = format!("{second}{{argument key=\"a\" type=\"string\"}}v");
    assert_eq!(closed(&format!("{text}{{/")), format!("argument}}{call}"));
    assert_eq!(closed(&format!("{text}{{/ca")), "ll}{/tools}{/message}$");
    assert_eq!(closed(&format!("{text}~arg")), format!("ument key=\"\" type=\"string\"}}{value}"));
}

#[test]
fn what_can_become_no_tag_is_left() {
    assert_eq!(closed("hm~note"), "{/think}{response}{/response}{/message}$");
    assert_eq!(closed("hm~think x="), "{/think}{response}{/response}{/message}$");
    assert_eq!(closed("{/think}{tools}~call tool=f"), "}{/tools}{/message}$");
}

#[test]
fn what_goes_on_after_its_end_has_no_close() {
    let request = || Request::new().opened(Channel::Response);
    let eos = (String::new(), Marker::Eos.id());
    for (short, expected) in
        [("a$", Some("")), ("a", Some("<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>"))]
    {
        let mut tokens = tokens(short);
        tokens.push(eos.clone());
        assert_eq!(closing(request(), &tokens).map(|pieces| text(&pieces)).as_deref(), expected);
        tokens.push(("b".into(), 1));
        assert_eq!(closing(request(), &tokens), None);
    }
    assert_eq!(closing(request(), &tokens("a$b")), None);
}

// ---- well-formed generations, cut --------------------------------------------------------------------------------

fn name() -> impl Strategy<Value = String> {
    "[a-z_\"&<|]{1,6}"
}

/// Arguments that are written as they come back: strings, and what no object is.
fn arguments() -> impl Strategy<Value = String> {
    let pairs = vec((name(), "[a-z\"\\\\<|é\n]{0,6}"), 0..3);
    let object = pairs.prop_map(|pairs| {
        let pair = |(key, value)| format!("{}:{}", serde_json::json!(key), serde_json::json!(value));
        format!("{{{}}}", pairs.into_iter().map(pair).collect::<Vec<_>>().join(","))
    });
    prop_oneof![4 => object, 1 => "\\[[a-z0-9 ]{0,6}"]
}

fn message() -> impl Strategy<Value = Message> {
    let call = (name(), arguments()).prop_map(|(name, arguments)| ToolCall::new(name, arguments));
    let text = "[a-z .\n<|>é]{0,12}";
    (text, text, vec(call, 0..3)).prop_map(|(reasoning, content, calls)| Message::of(reasoning, content, calls))
}

/// Pieces as tokens: text is cut anywhere.
fn cut_up(pieces: &[Piece<'_>], random: &mut Random) -> Vec<Token> {
    let mut tokens = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Marker(marker) => tokens.push((String::new(), marker.id())),
            piece => {
                let text = piece.spelling();
                let ends = random.ends(text.len()).into_iter().map(|end| text.floor_char_boundary(end));
                tokens.extend(support::chunks(text, ends).into_iter().map(|text| (text.to_owned(), 1)));
            }
        }
    }
    tokens
}

fn spelled(tokens: &[Token]) -> String {
    tokens.iter().map(|(text, id)| Marker::from_id(*id).map_or(text.as_str(), |marker| marker.spelling())).collect()
}

proptest! {
    #![proptest_config(config(128))]

    /// Wherever it is cut: the generation and what closes it are what the encoder writes for the message that they are.
    #[test]
    fn a_cut_generation_is_closed_as_the_encoder_does(message in message(), thinking: bool, seed: u64) {
        let opened = if thinking { Channel::Think } else { Channel::Response };
        let reasoning = if thinking { message.reasoning } else { String::new() };
        let message = Message::of(reasoning, message.content, message.tool_calls);
        let request = Request::new().opened(opened).tools(["f"]);
        let pieces = render_pieces(&message, Some(opened)).unwrap();
        let tokens = cut_up(&pieces, &mut Random(seed));
        for end in 0..=tokens.len() {
            let generated = &tokens[..end];
            let closing = closing(request.clone(), generated).unwrap();
            prop_assert!(end < tokens.len() || closing.is_empty());

            let (whole, codes) = parsed(&request, generated, &closing);
            prop_assert!(codes.iter().all(|code| {
                matches!(code, Code::UndeclaredTool | Code::DuplicateKey | Code::NamelessCall)
            }), "{codes:?}");
            // No encoder writes a section without calls, an empty block, or a call without a name.
            let sequence = spelled(generated) + &text(&closing);
            let is_empty = |name| sequence.contains(&format!("{name}<|sep|><|close|>"));
            if is_empty("tools") || is_empty("type=\"object\"") || codes.contains(&Code::NamelessCall) {
                continue;
            }
            let mut history = Conversation::new([PromptMessage::from(&whole)]);
            (history.thinking, history.effort, history.add_generation_prompt) = (thinking, None, false);
            let written = encode(&history).unwrap().text();
            let header = format!("<|open|>message role=\"assistant\"<|sep|><|open|>{}<|sep|>", opened.name());
            prop_assert_eq!(header + &sequence, written);
        }
    }

}

proptest! {
    #![proptest_config(config(512))]

    /// Whatever was generated: what closes it ends the message, and changes nothing of its texts.
    #[test]
    fn any_generation_is_closed(stream in streams(), end: prop::sample::Index) {
        let tokens: Vec<Token> =
            stream.tokens().unwrap_or_default().into_iter().map(|(id, text)| (text.to_owned(), id)).collect();
        let mut tokens = &tokens[..end.index(tokens.len() + 1)];
        while let [before @ .., (_, id)] = tokens
            && *id == Marker::Eos.id()
        {
            tokens = before;
        }
        let request = stream.request;
        let Some(closing) = closing(request.clone(), tokens) else { return Ok(()) };

        let (cut, codes_of_cut) = parsed(&request, tokens, &[]);
        let (whole, codes) = parsed(&request, tokens, &closing);
        // The open channel's opener in ordinary tokens is dropped once a tag follows; where it was cut it is text.
        let repeats = |codes: &[Code]| codes.contains(&Code::RepeatedOpener);
        prop_assume!(repeats(&codes) == repeats(&codes_of_cut));
        prop_assert!(!codes.contains(&Code::CutTag), "{codes:?}");
        prop_assert!(!codes.contains(&Code::AfterEnd), "{codes:?}");
        if request.undeclared == Undeclared::Withhold {
            prop_assert_eq!(&whole.reasoning, &cut.reasoning);
            prop_assert_eq!(&whole.content, &cut.content);
        }
        prop_assert!(whole.tool_calls.len() <= cut.tool_calls.len() + 1);
        for (whole, cut) in whole.tool_calls.iter().zip(&cut.tool_calls) {
            prop_assert_eq!(&whole.name, &cut.name);
        }

        let more = [Piece::Text("more".into())];
        let (_, codes) = parsed(&request, tokens, &[&closing[..], &more].concat());
        prop_assert!(codes.contains(&Code::AfterEnd), "{}", text(&closing));
    }
}
