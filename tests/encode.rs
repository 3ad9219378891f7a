//! The encoder: conversations become the prompts that Moonshot's encoder makes of them.
//!
//! In: the requests of `corpora/prompts` and, where `KIMI_XTML_DATA` is set, of its `cases/render`; conversations of any
//! text; requests that are long or deep. Out: pieces, labels, places, errors; what is encoded for an assistant parses back.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use allocation_counter::measure;
use expect_test::expect;
use kimi_xtml::{
    Arguments, Channel, Chat, Conversation, Effort, EncodeError, Fault, Json, Label, Marker, Message, Parser, Part,
    Piece, Place, Prompt, PromptCall, PromptMessage, Request, ResponseFormat, Role, ToolCall, ToolChoice, encode,
    opened_by_prompt,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

mod messages;
mod support;

use messages::{Parts, any_text, parts};
use support::config;

// ---- recorded requests -------------------------------------------------------------------------------------------

#[derive(Deserialize)]
struct Case<'a> {
    id: String,
    /// As it is spelled.
    #[serde(borrow)]
    request: &'a RawValue,
    partial_mode: Option<bool>,
    prompt: Option<Vec<Expected>>,
    prompt_text: Option<String>,
    ids: Option<Vec<u32>>,
    billed: Option<usize>,
    #[serde(default)]
    error: bool,
}

#[derive(Debug, Deserialize, PartialEq)]
enum Expected {
    #[serde(rename = "c")]
    Control(String),
    #[serde(rename = "t")]
    Plain(String),
}

impl From<&Piece<'_>> for Expected {
    fn from(piece: &Piece<'_>) -> Self {
        let spelling = piece.spelling().to_owned();
        if piece.is_control() { Expected::Control(spelling) } else { Expected::Plain(spelling) }
    }
}

/// The files of cases, and whether they are for Partial Mode.
fn files() -> Vec<(PathBuf, bool)> {
    let mut files = vec![(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora/prompts/prompts.jsonl"), true)];
    if let Some(data) = std::env::var_os("KIMI_XTML_DATA") {
        for name in ["render", "render_ref", "render_partial"] {
            let file = PathBuf::from(&data).join("cases/render").join(name).with_extension("jsonl");
            files.push((file, name == "render_partial"));
        }
    }
    files.retain(|(file, _)| file.exists());
    files
}

/// The corpora are not in the package.
#[test]
fn recorded_requests_become_their_prompts() {
    for (file, partial_mode) in files() {
        let text = fs::read_to_string(&file).unwrap();
        for line in text.lines() {
            let case: Case<'_> = serde_json::from_str(line).unwrap();
            let id = &case.id;
            let read = Conversation::from_json(case.request.get());
            let conversation = read.map(|mut conversation| {
                conversation.partial_mode = case.partial_mode.unwrap_or(partial_mode);
                conversation
            });
            let prompt = conversation.as_ref().map_err(EncodeError::clone).and_then(encode);
            if case.error {
                assert!(prompt.is_err(), "{id} has a prompt");
                continue;
            }
            let prompt = prompt.unwrap_or_else(|error| panic!("{id}: {error}"));
            let pieces: Vec<Expected> = prompt.pieces.iter().map(Expected::from).collect();
            assert_eq!(Some(&pieces), case.prompt.as_ref(), "{id}");
            assert_eq!(prompt.text(), case.prompt_text.unwrap_or(prompt.text()), "{id}");
            if let (Some(ids), Some(billed)) = (&case.ids, case.billed) {
                assert_eq!(ids.len() - prompt.unbilled, billed, "{id}");
            }
            holds(conversation.as_ref().unwrap(), &prompt);
        }
    }
}

/// What holds of every prompt.
fn holds(conversation: &Conversation<'_>, prompt: &Prompt<'_>) {
    assert_eq!(prompt.labels.len(), prompt.pieces.len());
    assert_eq!(prompt.messages.len(), conversation.messages.len());
    assert!(prompt.pieces.iter().all(|piece| !piece.spelling().is_empty()));
    assert!(prompt.unbilled == 0 || prompt.pieces[prompt.pieces.len() - 3] == Piece::Marker(Marker::Open));
    let opened: Vec<&str> = prompt.opened.iter().map(|channel| channel.name()).collect();
    let openers = prompt.pieces.iter().enumerate().rev();
    let mut openers = openers.filter(|(_, piece)| **piece == Piece::Marker(Marker::Open));
    let last = openers.next().map(|(at, _)| prompt.pieces[at + 1].spelling());
    assert!(opened.is_empty() || last == opened.first().copied());
    for (pieces, message) in prompt.messages.iter().zip(&conversation.messages) {
        let pieces = &prompt.pieces[pieces.clone()];
        assert_eq!(pieces[..2], [Piece::Marker(Marker::Open), Piece::Text("message".into())]);
        let is_partial = message.partial && conversation.partial_mode;
        assert!(is_partial || pieces.ends_with(&[Piece::Marker(Marker::Sep), Piece::Marker(Marker::EndOfMsg)]));
    }
}

// ---- conversations in Rust ---------------------------------------------------------------------------------------

/// A conversation of such texts, each with its number before it; the choices alone decide what it is made of.
fn conversation(texts: &[String], choices: &[u8]) -> Conversation<'static> {
    let mut texts = texts.iter().cycle().zip(0..);
    let mut text = move || texts.next().map_or_else(String::new, |(text, number)| format!("{number}{text}"));
    let mut messages = Vec::new();
    for (number, choice) in choices.iter().enumerate() {
        let mut message = match choice % 4 {
            0 => PromptMessage::system(text()),
            1 => PromptMessage::user(text()),
            2 => PromptMessage::tool(if choice & 4 == 0 { "c".into() } else { text() }, text()),
            _ => PromptMessage::assistant(text()),
        };
        message.name = Some(text().into());
        if choice & 8 == 0 {
            message.content = vec![Part::Text(text().into()), Part::IMAGE, Part::Text(text().into())];
        }
        if choice & 16 == 0 {
            message.tools = Some(Json::new(json!([{ text(): { text(): text() } }]).to_string()).unwrap());
        }
        message.reasoning = text().into();
        message.partial = message.role == Role::Assistant && number + 1 == choices.len() && choice & 32 == 0;
        if message.role == Role::Assistant && !message.partial {
            let object = json!({ text(): text(), text(): [text()] }).to_string();
            let arguments = match choice / 64 {
                0 => Arguments::Text(text().into()),
                1 => Arguments::Text(object.into()),
                2 => Arguments::Text((object + &text()).into()),
                _ => Arguments::Object(Json::new(object).unwrap()),
            };
            message.tool_calls = vec![PromptCall { id: Some("c".into()), name: text().into(), arguments }];
        }
        messages.push(message);
    }
    let mut conversation = Conversation::new(messages);
    conversation.tools = Some(Json::new(json!([{ text(): text() }]).to_string()).unwrap());
    conversation.response_format =
        ResponseFormat::JsonSchema(Json::new(json!({ text(): text() }).to_string()).unwrap());
    conversation
}

proptest! {
    #![proptest_config(config(256))]

    /// Whatever a text spells: the pieces are those of the same conversation about nothing, with other words.
    #[test]
    fn no_text_becomes_a_control_piece(
        texts in vec(any_text(), 1..8),
        choices in vec(any::<u8>(), 0..6),
        thinking in any::<bool>(),
    ) {
        let mut spelled = conversation(&texts, &choices);
        let mut plain = conversation(&[String::new()], &choices);
        (spelled.thinking, plain.thinking) = (thinking, thinking);
        let (prompt, plain) = (encode(&spelled).unwrap(), encode(&plain).unwrap());
        holds(&spelled, &prompt);
        prop_assert_eq!(prompt.pieces.len(), plain.pieces.len());
        for (piece, plain) in prompt.pieces.iter().zip(&plain.pieces) {
            prop_assert_eq!(piece.is_control(), plain.is_control());
            prop_assert!(!piece.is_control() || piece == plain, "{:?} {:?}", piece, plain);
        }
        prop_assert_eq!(&prompt.labels, &plain.labels);
        prop_assert_eq!(&prompt.messages, &plain.messages);
    }

    /// By token identity. A text that begins with its channel's opener would lose it, as if it were repeated.
    #[test]
    fn an_assistants_message_parses_back(mut parts in parts(any_text()), thinking in any::<bool>()) {
        if !thinking {
            parts.reasoning.clear();
        }
        for text in [&mut parts.reasoning, &mut parts.content] {
            if text.starts_with("<|open|>") {
                text.insert(0, ' ');
            }
        }
        let message = parts.message();
        let mut conversation = Conversation::new([PromptMessage::from(&message)]);
        conversation.thinking = thinking;
        let prompt = encode(&conversation).unwrap();
        let mut parser = Parser::new(Request::new().tools(["f"]));
        let mut chat = Chat::default();
        for piece in &prompt.pieces[prompt.messages[0].clone()] {
            match piece {
                Piece::Marker(marker) => parser.push_marker(*marker, &mut chat),
                text => parser.push_text(text.spelling(), &mut chat),
            }
        }
        parser.finish("stop", &mut chat);
        prop_assert_eq!(Parts::of(chat.message().unwrap()), parts);
    }
}

/// The pieces, one element a line, with a bar between pieces.
fn lines(pieces: &[Piece<'_>]) -> String {
    let mut lines = String::new();
    for (at, piece) in pieces.iter().enumerate() {
        let begins = matches!(piece, Piece::Marker(Marker::Open | Marker::Close));
        lines += if at == 0 {
            ""
        } else if begins {
            "\n"
        } else {
            "|"
        };
        lines += piece.spelling();
    }
    lines
}

#[test]
fn a_conversation_put_together_is_one_that_was_read() {
    let call = PromptCall {
        id: Some("a".into()),
        name: "tide".into(),
        arguments: Arguments::Object(Json::new(r#"{"bay": "F"}"#).unwrap()),
    };
    let mut asks = PromptMessage::assistant("Let me look.");
    asks.reasoning = "One bay.".into();
    asks.tool_calls = vec![call];
    let mut user = PromptMessage::user("When is high tide?");
    user.name = Some("Ana".into());
    let mut photo = PromptMessage::user("This bay:");
    photo.content.push(Part::IMAGE);
    let messages = [PromptMessage::system("Be brief."), user, photo, asks, PromptMessage::tool("a", "At 4.")];
    let mut made = Conversation::new(messages);
    made.tools = Some(Json::new(r#"[{"name": "tide"}]"#).unwrap());
    made.tool_choice = ToolChoice::Required;
    made.response_format = ResponseFormat::JsonObject;
    made.effort = Some(Effort::High);
    let body = r#"{"tools": [{"name": "tide"}], "tool_choice": "required", "response_format": {"type": "json_object"},
        "thinking_effort": "high", "messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "name": "Ana", "content": "When is high tide?"},
        {"role": "user", "content": [{"type": "text", "text": "This bay:"}, {"type": "image_url"}]},
        {"role": "assistant", "content": "Let me look.", "reasoning_content": "One bay.",
         "tool_calls": [{"id": "a", "type": "function", "function": {"name": "tide", "arguments": {"bay": "F"}}}]},
        {"role": "tool", "tool_call_id": "a", "content": "At 4."}]}"#;
    assert_eq!(Conversation::from_json(body).unwrap(), made);

    let prompt = encode(&made).unwrap();
    assert_eq!((prompt.opened, prompt.prefilled, prompt.unbilled), (Some(Channel::Think), false, 3));
    assert_eq!(opened_by_prompt(&prompt.text()), prompt.opened);
    assert_eq!(prompt.clone().into_owned(), prompt);
    let labels = [Label::Reasoning, Label::Content, Label::CallName, Label::Argument];
    let of = |label| -> Vec<&str> {
        let labelled = prompt.pieces.iter().zip(&prompt.labels);
        labelled.filter(|(_, of)| **of == label).map(|(piece, _)| piece.spelling()).collect()
    };
    assert_eq!(labels.map(of), [vec!["One bay."], vec!["Let me look."], vec!["tide"], vec!["F"]]);
    let generated = prompt.messages[3].clone().find(|&at| prompt.labels[at] != Label::Prompt).unwrap();
    assert_eq!(prompt.pieces[generated], Piece::Text("One bay.".into()));
    assert!(prompt.labels[generated..prompt.messages[3].end].iter().all(|&label| label != Label::Prompt));
    assert_eq!(prompt.labels[generated - 1], Label::Prompt);
    assert_eq!(prompt.labels[prompt.messages[3].end], Label::Prompt);
    expect![[r#"
        <|open|>|message| role|="|assistant|"|<|sep|>
        <|open|>|think|<|sep|>|One bay.
        <|close|>|think|<|sep|>
        <|open|>|response|<|sep|>|Let me look.
        <|close|>|response|<|sep|>
        <|open|>|tools|<|sep|>
        <|open|>|call| tool|="|tide|"| index|="|1|"|<|sep|>
        <|open|>|argument| key|="|bay|"| type|="|string|"|<|sep|>|F
        <|close|>|argument|<|sep|>
        <|close|>|call|<|sep|>
        <|close|>|tools|<|sep|>
        <|close|>|message|<|sep|>|<|end_of_msg|>"#]]
    .assert_eq(&lines(&prompt.pieces[prompt.messages[3].clone()]));
}

#[test]
fn a_generated_message_goes_back_as_history() {
    let call = ToolCall::new("f", r#"{"n":1e2}"#).with_id("c");
    let said = Message::of("r", "c", vec![call]);
    let body = r#"{"messages": [{"role": "assistant", "reasoning": "r", "content": "c",
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{\"n\":1e2}"}}]}]}"#;
    assert_eq!(Conversation::new([PromptMessage::from(&said)]), Conversation::from_json(body).unwrap());
}

/// As a server does that takes `developer`, and one that writes an image's size.
#[test]
fn a_conversation_can_be_changed_after_it_was_read() {
    let body = r#"{"thinking": false, "messages": [{"role": "developer", "content": [{"type": "image"}]}]}"#;
    let mut conversation = Conversation::from_json(body).unwrap();
    assert_eq!(conversation.messages[0].role, Role::Other("developer".into()));
    for message in &mut conversation.messages {
        message.role = Role::System;
        for part in &mut message.content {
            *part = Part::sized_image(640, 480);
        }
    }
    conversation.add_generation_prompt = false;
    let prompt = encode(&conversation).unwrap();
    assert_eq!((prompt.opened, prompt.unbilled), (None, 0));
    expect![[r#"
        <|open|>|message| role|="|system|"|<|sep|>|<|media_begin|>image 640x480<|media_content|><|media_pad|><|media_end|>
        <|close|>|message|<|sep|>|<|end_of_msg|>"#]]
    .assert_eq(&lines(&prompt.pieces));
}

#[test]
fn partial_mode_tells_where_the_generation_goes_on() {
    let opens = |message: &str| {
        let body = format!(r#"{{"messages": [{{"role": "assistant", "partial": true{message}}}]}}"#);
        let conversation = Conversation::from_json(&body).unwrap();
        let prompt = encode(&conversation).unwrap();
        assert!(prompt.labels.iter().all(|&label| label == Label::Prompt));
        (prompt.opened.unwrap(), prompt.prefilled, prompt.unbilled)
    };
    assert_eq!(opens(r#", "content": "x""#), (Channel::Response, true, 0));
    assert_eq!(opens(r#", "content": "x", "reasoning": "r""#), (Channel::Response, true, 0));
    assert_eq!(opens(r#", "reasoning": "r", "content": """#), (Channel::Think, true, 0));
    assert_eq!(opens(""), (Channel::Response, false, 0));
}

// ---- requests as they are spelled --------------------------------------------------------------------------------

#[test]
fn thinking_has_several_names() {
    let read = |members: &str| {
        let body = format!(r#"{{"messages": [], {members}}}"#);
        Conversation::from_json(&body).map(|conversation| (conversation.thinking, conversation.effort))
    };
    let (max, low) = (Some(Effort::Max), Some(Effort::Low));
    for (members, expected) in [
        (r#""model": "k3""#, (true, max)),
        (r#""thinking": null"#, (true, max)),
        (r#""thinking": {"type": "enabled"}"#, (true, max)),
        (r#""thinking": {"type": "enabled", "effort": "low", "keep": "all"}"#, (true, low)),
        (r#""thinking": {"type": "disabled", "effort": "enormous"}"#, (false, max)),
        (r#""thinking": {"effort": null}"#, (true, max)),
        (r#""enable_thinking": false"#, (false, max)),
        (r#""enable_thinking": false, "thinking": true"#, (true, max)),
        (r#""reasoning_effort": "low""#, (true, low)),
        (r#""reasoning_effort": null"#, (true, max)),
        (r#""reasoning_effort": "none""#, (false, max)),
        (r#""reasoning_effort": "low", "thinking": {"type": "enabled", "effort": "high"}"#, (true, Some(Effort::High))),
        (r#""reasoning_effort": "low", "thinking_effort": null"#, (true, None)),
        (r#""chat_template_kwargs": {"thinking": false}"#, (false, max)),
        (r#""chat_template_kwargs": {"thinking_effort": "low", "enable_thinking": true, "x": 1}"#, (true, low)),
        (r#""thinking": true, "chat_template_kwargs": {"thinking": false, "thinking_effort": "low"}"#, (true, low)),
    ] {
        assert_eq!(read(members).unwrap(), expected, "{members}");
    }
    let error = |members: &str| read(members).unwrap_err().to_string();
    expect![[r#"thinking: must be true or false"#]].assert_eq(&error(r#""thinking": "yes""#));
    expect![[r#"thinking.type: must be "enabled" or "disabled""#]].assert_eq(&error(r#""thinking": {"type": "auto"}"#));
    expect![[r#"thinking.effort: must be "low", "high" or "max" (null for no notice), not "enormous""#]]
        .assert_eq(&error(r#""thinking": {"type": "enabled", "effort": "enormous"}"#));
    expect![[r#"reasoning_effort: must be "low", "high" or "max" (null for no notice), not 5"#]]
        .assert_eq(&error(r#""reasoning_effort": 5"#));
}

/// The place and the words, for each kind of fault.
#[test]
fn errors_say_where_and_what_to_do() {
    let mut told = String::new();
    for body in [
        "",
        "[]",
        "{\n  \"messages\": [,]}",
        r#"{"messages": [{"role": "user", "content": "a"#,
        r#"{"messages": []} x"#,
        r#"{}"#,
        r#"{"messages": {}}"#,
        r#"{"messages": [{"role": "user"}, 5]}"#,
        r#"{"messages": [{"content": "x"}]}"#,
        r#"{"messages": [{"role": "developer"}]}"#,
        r#"{"messages": [{"role": "a role with a name that is far too long to be repeated in a message"}]}"#,
        r#"{"messages": [{"role": 5}]}"#,
        r#"{"messages": [{"role": "user", "content": 5}]}"#,
        r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}]}"#,
        r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": null}]}]}"#,
        r#"{"messages": [{"role": "user", "content": [{"text": "a"}]}]}"#,
        r#"{"messages": [{"role": "user", "name": {"first": "Ana"}}]}"#,
        r#"{"messages": [{"role": "assistant", "reasoning": ["r"]}]}"#,
        r#"{"messages": [{"role": "assistant", "tool_calls": {"id": "a"}}]}"#,
        r#"{"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}, "g"]}]}"#,
        r#"{"messages": [{"role": "assistant", "tool_calls": [{"function": null}]}]}"#,
        r#"{"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]}"#,
        r#"{"messages": [{"role": "assistant", "tool_calls": [{"arguments": "{}"}]}]}"#,
        r#"{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}]}"#,
        r#"{"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "id": [1]}]}]}"#,
        r#"{"messages": [{"role": "tool", "content": "r"}]}"#,
        r#"{"messages": [{"role": "tool", "tool": {}, "content": "r"}]}"#,
        r#"{"messages": [{"role": "system", "tools": {"a": 1}}]}"#,
        r#"{"messages": [], "tools": "f"}"#,
        r#"{"messages": [], "thinking_effort": "medium"}"#,
        r#"{"messages": [], "add_generation_prompt": "no"}"#,
        r#"{"messages": [], "response_format": {"type": "json_schema", "json_schema": "x"}}"#,
        r#"{"messages": [], "image_prompts": "x"}"#,
        r#"{"messages": [], "image_prompts": ["x"]}"#,
        r#"{"messages": [{"role": "assistant", "partial": true}, {"role": "user"}]}"#,
        r#"{"messages": [{"role": "user", "partial": true}]}"#,
        r#"{"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}], "partial": true}]}"#,
        r#"{"messages": [{"role": "assistant", "partial": 1}]}"#,
    ] {
        let error = Conversation::from_json(body).and_then(|conversation| encode(&conversation).map(|_| ()));
        told += &format!("{}\n", error.unwrap_err());
    }
    expect![[r#"
        the request cannot be read: line 1, column 1: an object is expected
        the request cannot be read: line 1, column 1: an object is expected
        the request cannot be read: line 2, column 16: a JSON value is expected
        the request cannot be read: line 1, column 45: the `"` that ends the string is expected
        the request cannot be read: line 1, column 18: the end is expected
        messages: is missing
        messages: must be a list of messages
        messages[1]: must be an object
        messages[0].role: is missing
        messages[0].role: must be system, user, assistant or tool, not "developer"; send it as system
        messages[0].role: must be system, user, assistant or tool, not "a role with a name that is far too long "
        messages[0].role: must be system, user, assistant or tool, not "5"
        messages[0].content: must be a string or a list of parts
        messages[0].content[1]: must be an object
        messages[0].content[0].text: must be a string
        messages[0].content[0].type: is missing
        messages[0].name: must be a string
        messages[0].reasoning: must be a string
        messages[0].tool_calls: must be a list of calls
        messages[0].tool_calls[1]: must be an object
        messages[0].tool_calls[0].function: must be an object
        messages[0].tool_calls[0].function.name: is missing
        messages[0].tool_calls[0].name: is missing
        messages[0].tool_calls[0].function.arguments: must be an object, or text
        messages[0].tool_calls[0].id: must be a string
        messages[0]: the tool is not known: send a tool_call_id of the assistant's last tool_calls, or the tool's name
        messages[0].tool: must be a string
        messages[0].tools: must be a list of tools
        tools: must be a list of tools
        thinking_effort: must be "low", "high" or "max" (null for no notice), not "medium"
        add_generation_prompt: must be true or false
        response_format.json_schema: must be an object
        image_prompts: must be a list of strings
        image_prompts: must have a text for each image of the prompt: 0, not 1
        messages[0].partial: only the last message can be continued
        messages[0].partial: only a message of the assistant can be continued
        messages[0].partial: a message with tool_calls cannot be continued
        messages[0].partial: must be true or false
    "#]]
    .assert_eq(&told);
}

#[test]
fn errors_have_a_place() {
    let body = r#"{"messages": [{"role": "user"}, {"role": "assistant", "tool_calls": [{"name": "f"}, {"name": "g", "arguments": 5}]}]}"#;
    let error = Conversation::from_json(body).unwrap_err();
    assert_eq!(error.place, Place { message: Some(1), call: Some(1), member: "arguments", ..Place::default() });
    let mut message = PromptMessage::assistant("");
    let list = Arguments::Object(Json::new("[1]").unwrap());
    message.tool_calls.push(PromptCall { name: "f".into(), arguments: list, ..PromptCall::default() });
    let conversation = Conversation::new([message]);
    let error = encode(&conversation).unwrap_err();
    assert_eq!(error.fault, Fault::Kind("an object, or text"));
    assert_eq!(error.to_string(), "messages[0].tool_calls[0].arguments: must be an object, or text");
}

#[test]
fn json_is_what_python_takes() {
    for good in [
        "0",
        "-0",
        "-1.5e+10",
        "1E5",
        "NaN",
        "-Infinity",
        "\"\\ud800\"",
        " [ ] ",
        "{\"a\":1,\"a\":2}",
        "1e400",
        "\"\u{7f}\"",
    ] {
        assert_eq!(Json::new(good).unwrap().as_str(), good);
    }
    for bad in [
        "",
        " ",
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "nan",
        "tru",
        "[1,]",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "\"\n\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"",
        "[",
        "{",
        "1 2",
        "\u{a0}1",
        "'a'",
        "[1}",
        "{\"a\":1]",
        "\u{feff}1",
        "\"\t0123456789012345678901234567890123456789\"",
        "\"0123456789012345678901234567890123456789\t\"",
    ] {
        assert!(Json::new(bad).is_err(), "{bad}");
    }
    let error = Json::new("[1,\n \"\u{1}\"]").unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 3));
    let raw: &RawValue = serde_json::from_str(" {\"a\" : 1e2} ").unwrap();
    assert_eq!(Json::from(raw), Json::new("{\"a\" : 1e2}").unwrap());
}

// ---- long and deep -----------------------------------------------------------------------------------------------

/// What a request may take: some twenty times what the slowest takes without optimisation.
const LIMIT: Duration = Duration::from_secs(20);
const MEGABYTE: usize = 1 << 20;

/// The prompt's text, made in linear time and memory.
fn linear(name: &str, body: &str) -> String {
    let started = Instant::now();
    let mut text = String::new();
    let spent = measure(|| {
        let conversation = Conversation::from_json(body).unwrap_or_else(|error| panic!("{name}: {error}"));
        text = encode(&conversation).unwrap_or_else(|error| panic!("{name}: {error}")).text();
    });
    assert!(started.elapsed() < LIMIT, "{name} took {:?}", started.elapsed());
    assert!(spent.bytes_max < 100 * (body.len() as u64 + 10_000), "{name} held {} bytes", spent.bytes_max);
    text
}

#[test]
fn long_texts_are_linear() {
    for unit in ["a", " ", "<|open|>"] {
        let long = unit.repeat(10 * MEGABYTE / unit.len());
        let text = linear(unit, &format!(r#"{{"messages": [{{"role": "user", "content": "{long}"}}]}}"#));
        assert!(text.contains(&long), "{unit}");
    }
    for unit in ["\\n", "\\ud83d\\ude00", "\\ud800", "é", "\\\"", "&"] {
        let long = unit.repeat(2 * MEGABYTE / unit.len());
        linear(unit, &format!(r#"{{"messages": [{{"role": "user", "name": "{long}", "content": "{long}"}}]}}"#));
    }
}

#[test]
fn long_lists_are_linear() {
    let many = |unit: &str| vec![unit; 100_000].join(",");
    let numbered = |unit: &str| (0..100_000).map(|at| unit.replace('#', &at.to_string())).collect::<Vec<_>>().join(",");
    let calls = numbered(r##"{"id": "#", "function": {"name": "f", "arguments": "{\"a\":1}"}}"##);
    let results = |unit: &str| format!(r#"{{"role": "assistant", "tool_calls": [{calls}]}}, {}"#, numbered(unit));
    for (name, messages) in [
        ("messages", many(r#"{"role": "user", "content": "x"}"#)),
        ("parts", format!(r#"{{"role": "user", "content": [{}]}}"#, many(r#"{"type": "text", "text": "x"}"#))),
        ("images", format!(r#"{{"role": "user", "content": [{}]}}"#, many(r#"{"type": "image"}"#))),
        ("results", results(r##"{"role": "tool", "tool_call_id": "#", "content": "x"}"##)),
        ("results of one call", results(r##"{"role": "tool", "tool_call_id": "7", "content": "#"}"##)),
        ("unknown results", results(r##"{"role": "tool", "tool_call_id": "x#", "name": "f"}"##)),
        ("runs", results(r##"{"role": "tool", "tool_call_id": "#"}, {"role": "user", "content": "#"}"##)),
        ("members", format!(r#"{{"role": "user", {}, "content": "x"}}"#, numbered(r##""k#": 1"##))),
        ("roles", format!(r#"{{{}}}"#, many(r#""role": "user""#))),
    ] {
        linear(name, &format!(r#"{{"messages": [{messages}]}}"#));
    }
    for (name, members) in [
        ("keys", numbered(r##""k#": #"##)),
        ("equal keys", many(r#""k": [1]"#)),
        ("values", numbered(r##""a": {"#": 1e2}"##)),
    ] {
        let object = format!("{{{members}}}");
        let text = linear(
            name,
            &format!(
                r#"{{"tools": [{object}], "messages": [{{"role": "assistant", "tool_calls": [{{"name": "f", "arguments": {object}}}]}}]}}"#
            ),
        );
        assert!(name == "values" || text.contains("k"), "{name}");
        let quoted = serde_json::to_string(&object).unwrap();
        linear(
            name,
            &format!(
                r#"{{"messages": [{{"role": "assistant", "tool_calls": [{{"name": "f", "arguments": {quoted}}}]}}]}}"#
            ),
        );
    }
}

#[test]
fn depth_has_no_limit() {
    const DEEP: usize = 100_000;
    let lists = "[".repeat(DEEP) + &"]".repeat(DEEP);
    let objects = r#"{"b":1,"a":"#.repeat(DEEP) + "2" + &"}".repeat(DEEP);
    let sorted = r#"{"a":"#.repeat(DEEP) + "2" + &r#","b":1}"#.repeat(DEEP);
    let text = linear("tools", &format!(r#"{{"tools": [{objects}], "messages": []}}"#));
    assert!(text.contains(&sorted));
    let text = linear(
        "schema",
        &format!(
            r#"{{"response_format": {{"type": "json_schema", "json_schema": {{"schema": {objects}}}}}, "messages": []}}"#
        ),
    );
    assert!(text.contains(&sorted));
    let spaced = r#"{"b": 1, "a": "#.repeat(DEEP - 1) + r#"{"b": 1, "a": 2"# + &"}".repeat(DEEP);
    let call = |arguments: &str| {
        format!(
            r#"{{"messages": [{{"role": "assistant", "tool_calls": [{{"name": "f", "arguments": {arguments}}}]}}]}}"#
        )
    };
    assert!(linear("object", &call(&format!(r#"{{"k": {objects}}}"#))).contains(&spaced));
    assert!(linear("list", &call(&format!(r#"{{"k": {lists}}}"#))).contains(&lists));
    let quoted = serde_json::to_string(&format!(r#"{{"k": {objects}, "l": {lists}}}"#)).unwrap();
    let text = linear("text", &call(&quoted));
    assert!(text.contains(&objects) && text.contains(&lists));
    linear("unread", &format!(r#"{{"x": {lists}, "messages": [{{"role": "user", "x": {objects}}}]}}"#));
    let cut = "[".repeat(DEEP);
    assert!(Conversation::from_json(&format!(r#"{{"x": {cut}"#)).is_err());
}
