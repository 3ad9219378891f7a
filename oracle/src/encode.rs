//! What must hold of the encoder, for any text as a request.
//!
//! In: bytes, read as text. Out: nothing, or a panic that shows the fault. JSON is what `serde_json` takes for JSON; control
//! pieces nest, and are those of the same request without a control token in its texts; an assistant's message parses back;
//! the declared tools say what the request's say.

use kimi_xtml::{
    Arguments, Channel, Chat, Conversation, IdPolicy, Json, Label, Marker, Parser, Part, Piece, Prompt, PromptMessage,
    Request, Role, encode as prompt_of,
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{alike, repeated};

/// Any text as a request.
pub fn encode(data: &[u8]) {
    let data = repeated(data);
    let body = String::from_utf8_lossy(&data);
    json(&body);
    let Ok(conversation) = Conversation::from_json(&body) else { return };
    let prompt = prompt_of(&conversation);
    let Ok(prompt) = prompt else { return };
    nests(&conversation, &prompt);
    says_the_tools(&conversation, &prompt);
    for (message, pieces) in conversation.messages.iter().zip(&prompt.messages) {
        let is_partial = message.partial && conversation.partial_mode;
        if message.role == Role::Assistant && !is_partial {
            comes_back(message, conversation.thinking, &prompt.pieces[pieces.clone()]);
        }
    }
    // Escapes may spell one key in two ways, of which one would be replaced.
    if !body.contains("\\u00") {
        is_without_markers(&body.replace("<|", "<\u{10fffe}"), &prompt);
    }
}

/// The same request with a character in its texts that no text has makes the same pieces.
fn is_without_markers(body: &str, prompt: &Prompt<'_>) {
    let conversation = Conversation::from_json(body).expect("the same members");
    let without = prompt_of(&conversation).expect("the same request");
    let kinds = |prompt: &Prompt<'_>| prompt.pieces.iter().map(kind).collect::<Vec<_>>();
    assert_eq!(kinds(prompt), kinds(&without), "a text became a control piece");
    assert_eq!(prompt.labels, without.labels);
}

/// What a piece is, apart from its text.
fn kind(piece: &Piece<'_>) -> Option<Option<Marker>> {
    match piece {
        Piece::Marker(marker) => Some(Some(*marker)),
        piece => piece.is_control().then_some(None),
    }
}

/// Python's JSON has three words more.
fn json(text: &str) {
    let ours = Json::new(text);
    if !text.contains("NaN") && !text.contains("Infinity") {
        let theirs = serde_json::from_str::<&RawValue>(text);
        assert_eq!(ours.is_ok(), theirs.is_ok(), "{ours:?} {theirs:?}");
    }
}

/// Pieces are elements in elements, each with its labels; what is left open is what the prompt says.
fn nests(conversation: &Conversation<'_>, prompt: &Prompt<'_>) {
    assert_eq!(prompt.pieces.len(), prompt.labels.len());
    let mut open: Vec<&str> = Vec::new();
    let mut pieces = prompt.pieces.iter().peekable();
    while let Some(piece) = pieces.next() {
        match piece {
            Piece::Marker(Marker::Open) => {
                let name = pieces.next().expect("a name").spelling();
                let inside: &[&str] = match open.last() {
                    None => &["message"],
                    Some(&"message") => &["think", "response", "tools"],
                    Some(&"tools") => &["call"],
                    Some(&"call") => &["argument", "json"],
                    Some(other) => panic!("{name} in {other}"),
                };
                assert!(inside.contains(&name), "{name} in {open:?}");
                while pieces.next_if(|piece| **piece != Piece::Marker(Marker::Sep)).is_some() {}
                assert!(pieces.next().is_some(), "an opening tag has no end");
                open.push(name);
            }
            Piece::Marker(Marker::Close) => {
                assert_eq!(pieces.next().map(Piece::spelling), open.pop());
                assert_eq!(pieces.next(), Some(&Piece::Marker(Marker::Sep)));
                if open.is_empty() {
                    assert_eq!(pieces.next(), Some(&Piece::Marker(Marker::EndOfMsg)));
                }
            }
            Piece::Marker(marker) => panic!("a lone {marker:?}"),
            piece => {
                assert!(!piece.spelling().is_empty());
                assert!(!open.is_empty(), "text outside");
            }
        }
    }
    let left: Vec<&str> = prompt.opened.iter().flat_map(|channel| ["message", channel.name()]).collect();
    assert_eq!(open, left);
    assert_eq!(prompt.unbilled, if prompt.opened.is_some() && !is_continued(conversation) { 3 } else { 0 });
    for (pieces, message) in prompt.messages.iter().zip(&conversation.messages) {
        let generated = prompt.labels[pieces.clone()].iter().any(|&label| label != Label::Prompt);
        assert_eq!(generated, message.role == Role::Assistant && !(message.partial && conversation.partial_mode));
    }
}

fn is_continued(conversation: &Conversation<'_>) -> bool {
    conversation.partial_mode && conversation.messages.last().is_some_and(|message| message.partial)
}

/// The first notice has the tools, and printed once more they stay as they are.
fn says_the_tools(conversation: &Conversation<'_>, prompt: &Prompt<'_>) {
    let Some(tools) = &conversation.tools else { return };
    let bodies = prompt.pieces.iter().map(Piece::spelling);
    let Some(printed) = bodies
        .take(16)
        .find_map(|body| body.strip_prefix("# Tools\n")?.split_once("```json\n")?.1.strip_suffix("\n```"))
    else {
        return;
    };
    if let (Ok(given), Ok(said)) = (serde_json::from_str(tools.as_str()), serde_json::from_str(printed)) {
        assert!(same(&given, &said), "{given} {said}");
    }
    // A key with half a surrogate pair is sorted by that half, and printed with U+FFFD, which is sorted elsewhere.
    if printed.contains('\u{fffd}') {
        return;
    }
    let mut again = Conversation::new([]);
    again.tools = Some(Json::new(printed).expect("JSON"));
    let again = prompt_of(&again).expect("a prompt");
    assert!(again.pieces.iter().any(|piece| piece.spelling().contains(printed)));
}

/// Numbers that are equal may be spelled otherwise.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((a, x), (b, y))| a == b && same(x, y))
        }
        (a, b) => a == b,
    }
}

/// Longer headers are not read.
const LONG: usize = 2_000;

/// By token identity, what is written for an assistant is what it said.
fn comes_back(message: &PromptMessage<'_>, thinking: bool, pieces: &[Piece<'_>]) {
    let content: Option<String> = message
        .content
        .iter()
        .map(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        })
        .collect();
    let reasoning = if thinking { &*message.reasoning } else { "" };
    let is_named = |call: &kimi_xtml::PromptCall<'_>| !call.name.is_empty() && call.name.len() < LONG;
    let short_keys = pieces.iter().map(|piece| piece.spelling().len()).sum::<usize>() < 8 * LONG;
    let Some(content) = content.filter(|_| short_keys && message.tool_calls.iter().all(is_named)) else { return };
    let mut parser = Parser::new(Request::new().tools(["f"]));
    let mut chat = Chat::new(IdPolicy::with(|_, _| String::new()));
    for piece in pieces {
        match piece {
            Piece::Marker(marker) => parser.push_marker(*marker, &mut chat),
            text => parser.push_text(text.spelling(), &mut chat),
        }
    }
    parser.finish("stop", &mut chat);
    let back = chat.into_message().expect("it is assembled");
    for (text, back, channel) in
        [(reasoning, back.reasoning, Channel::Think), (&content, back.content, Channel::Response)]
    {
        // An opener that the text begins with is taken for a repeated one.
        let repeats = text.starts_with("<|open|>") && text.contains(channel.name()) && text.ends_with(&back);
        assert!(text == back || repeats, "{text:?} {back:?}");
    }
    assert_eq!(back.tool_calls.len(), message.tool_calls.len());
    for (call, back) in message.tool_calls.iter().zip(&back.tool_calls) {
        assert_eq!((&*call.name, true), (&*back.name, back.complete));
        match &call.arguments {
            Arguments::Text(text) => assert!(alike(text, &back.arguments), "{text:?} {:?}", back.arguments),
            Arguments::Object(object) => {
                let values = (serde_json::from_str(object.as_str()), serde_json::from_str(&back.arguments));
                if let (Ok(given), Ok(back)) = values {
                    assert!(same(&given, &back), "{given} {back}");
                }
            }
        }
    }
}
