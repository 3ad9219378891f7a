//! The bridge, on random conversations of several turns.
//!
//! In: generations in the encoder's tokens and in others, whole and cut anywhere, with tags and attributes as a model may write
//! them. Checked: the next prompt begins with the last one and the generation, token for token, and what follows is what
//! closes it and what the encoder writes; what is no continuation is an error.

#![allow(clippy::incompatible_msrv, reason = "the oldest toolchain has to compile the crate, not its tests")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use kimi_xtml::{
    Arguments, Channel, Chat, Conversation, Effort, Json, Label, Marker, Message, Parser, Part, Piece, PromptCall,
    PromptMessage, Request, ResponseFormat, Role, ToolCall, ToolChoice, closing, encode, labels, render_pieces,
};
use kimi_xtml_tokenizer::{BridgeError, Mode, Tokenizer, Turn};
use support::PAIRS;

const TOOLS: &str = r#"[{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "read_file"}}]"#;

const WORDS: &[&str] = &[
    "Let",
    " me",
    " look",
    ".",
    "\n",
    "  ",
    "the file",
    " is",
    " 12",
    "é",
    "漢字",
    "🚀",
    "<|open|>",
    "<|close|>think",
    "<",
    "|>",
    "{\"a\": 1}",
    "\"",
    "&amp;",
    "[EOS]",
    "<|sep|>",
];

fn words(random: &mut Rng, most: usize) -> String {
    (0..random.usize(0..=most)).map(|_| WORDS[random.usize(0..WORDS.len())]).collect()
}

fn arguments(random: &mut Rng) -> String {
    let value = |random: &mut Rng| match random.usize(0..8) {
        0 => "1e2".to_owned(),
        1 => "-0".to_owned(),
        2 => "[1,  {\"b\": null}]".to_owned(),
        3 => "true".to_owned(),
        4 => "123456789012345678901234567890".to_owned(),
        _ => serde_json::Value::from(words(random, 4)).to_string(),
    };
    match random.usize(0..12) {
        0 => "[1, 2]".to_owned(),
        1 => "no json".to_owned(),
        _ => {
            let pairs: Vec<String> = (0..random.usize(0..4)).map(|k| format!("\"k{k}\":{}", value(random))).collect();
            format!("{{{}}}", pairs.join(","))
        }
    }
}

fn message(random: &mut Rng, opened: Channel, has_tools: bool) -> Message {
    let call = |random: &mut Rng| {
        let name = ["ls", "read_file", "a&\"b"][random.usize(0..3)];
        ToolCall::new(name, arguments(random))
    };
    let calls = if has_tools { random.usize(0..4) } else { 0 };
    let reasoning = if opened == Channel::Think { words(random, 8) } else { String::new() };
    Message::of(reasoning, words(random, 8), (0..calls).map(|_| call(random)).collect())
}

/// What a model generates for a message: the encoder's tokens, or others of the same text, tags as it likes.
fn generate(random: &mut Rng, tokenizer: &Tokenizer, message: &Message, opened: Channel) -> Vec<u32> {
    let pieces = render_pieces(message, Some(opened)).unwrap();
    let otherwise = random.bool();
    let mut ids = Vec::new();
    for piece in &pieces {
        match piece {
            Piece::Text(text) if otherwise => {
                let respelled = match &**text {
                    " index" => "  index",
                    "think" if random.usize(0..8) == 0 => " think ",
                    text => text,
                };
                let middle = respelled.floor_char_boundary(random.usize(0..=respelled.len()));
                ids.extend(tokenizer.encode(&respelled[..middle]));
                ids.extend(tokenizer.encode(&respelled[middle..]));
            }
            piece => ids.extend(tokenizer.encode_pieces([piece])),
        }
    }
    // A tag left out or written twice, text where none belongs.
    if otherwise && random.usize(0..4) == 0 {
        let at = random.usize(0..=ids.len());
        match random.usize(0..3) {
            0 => drop(ids.splice(at..(at + 3).min(ids.len()), [])),
            1 => drop(ids.splice(at..at, tokenizer.encode("stray"))),
            _ => drop(ids.splice(at..at, [Marker::Sep.id()])),
        }
    }
    ids
}

/// What the engine gives of a generation.
fn stopped(random: &mut Rng, mut ids: Vec<u32>) -> Vec<u32> {
    match random.usize(0..4) {
        0 => {}
        // Many engines keep the token to themselves that ends a generation.
        1 if ids.last() == Some(&Marker::EndOfMsg.id()) => drop(ids.pop()),
        1 => {}
        _ => ids.truncate(random.usize(0..=ids.len())),
    }
    ids
}

/// What the server's parser makes of a generation, and so what the client has.
fn received(tokenizer: &Tokenizer, request: &Request, generated: &[u32]) -> Message {
    let (mut parser, mut chat) = (Parser::new(request.clone()), Chat::default());
    for (text, id) in tokenizer.texts(generated).unwrap() {
        parser.push_token(&text, id, &mut chat);
    }
    parser.finish("length", &mut chat);
    chat.into_message().unwrap()
}

/// A message as the client sends it back.
fn sent_back(random: &mut Rng, message: &Message) -> PromptMessage<'static> {
    let mut answer = PromptMessage::assistant(message.content.clone());
    answer.reasoning = message.reasoning.clone().into();
    let without_cut = random.bool();
    for call in message.tool_calls.iter().filter(|call| call.complete || !without_cut) {
        let mut arguments = Arguments::Text(call.arguments.clone().into());
        if random.bool()
            && let Ok(json) = Json::new(call.arguments.clone())
            && call.arguments.starts_with('{')
        {
            arguments = Arguments::Object(json);
        }
        answer.tool_calls.push(PromptCall {
            id: Some(call.id.clone().into()),
            name: call.name.clone().into(),
            arguments,
        });
    }
    if random.usize(0..4) == 0 && !message.content.is_empty() {
        let (first, second) = message.content.split_at(message.content.floor_char_boundary(message.content.len() / 2));
        answer.content = vec![Part::Text(first.to_owned().into()), Part::Text(second.to_owned().into())];
    }
    answer
}

/// The messages after an answer: results in any order, or a question.
fn follow_up(random: &mut Rng, answer: &PromptMessage<'_>) -> Vec<PromptMessage<'static>> {
    let mut results: Vec<PromptMessage<'static>> = answer
        .tool_calls
        .iter()
        .map(|call| PromptMessage::tool(call.id.clone().unwrap().into_owned(), words(random, 3)))
        .collect();
    random.shuffle(&mut results);
    if results.is_empty() || random.usize(0..4) == 0 {
        results.push(PromptMessage::user(words(random, 4)));
    }
    results
}

fn conversation(random: &mut Rng) -> Conversation<'static> {
    let mut conversation = Conversation::new([PromptMessage::user(words(random, 6))]);
    if random.bool() {
        conversation.messages.insert(0, PromptMessage::system(words(random, 4)));
    }
    conversation.thinking = random.bool();
    conversation.effort = [None, Some(Effort::Low), Some(Effort::Max)][random.usize(0..3)];
    conversation.tools = random.bool().then(|| Json::new(TOOLS).unwrap());
    conversation
}

/// The sequence without the notices of the tool choice and of the response format.
fn without_notices(text: &str) -> String {
    let mut kept = String::new();
    for message in text.split_inclusive("<|end_of_msg|>") {
        if !message.contains("type=\"tool-choice\"") && !message.contains("type=\"response-format\"") {
            kept.push_str(message);
        }
    }
    kept
}

fn texts(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    String::from_utf8_lossy(&tokenizer.decode(ids).unwrap()).into_owned()
}

/// One conversation of some turns; how many generations were in the encoder's own words.
fn converse(random: &mut Rng, tokenizer: &Tokenizer) -> usize {
    let mut conversation = conversation(random);
    let mut turn = Turn::new(tokenizer, &conversation).unwrap();
    assert_eq!(turn.ids(), tokenizer.encode_pieces(&encode(&conversation).unwrap().pieces));
    let mut as_encoded = 0;
    let mut all_as_encoded = true;
    for _ in 0..random.usize(1..4) {
        let opened = turn.request().opened.unwrap();
        let said = message(random, opened, conversation.tools.is_some());
        let whole = generate(random, tokenizer, &said, opened);
        let generated = stopped(random, whole);
        let received = received(tokenizer, turn.request(), &generated);
        let answer = sent_back(random, &received);
        let more = follow_up(random, &answer);
        let at = conversation.messages.len();
        conversation.messages.push(answer);
        conversation.messages.extend(more);
        // These hold for one prompt.
        conversation.tool_choice = [ToolChoice::Auto, ToolChoice::Required][random.usize(0..2)].clone();
        if random.usize(0..4) == 0 {
            conversation.response_format = ResponseFormat::JsonObject;
        }

        let next = match turn.next(tokenizer, &generated, &conversation) {
            Ok(next) => next,
            // A generation may be so mixed up that it goes on after its end.
            Err(BridgeError::AfterEnd) => return as_encoded,
            Err(error) => panic!("{error}\n{}", texts(tokenizer, &generated)),
        };
        let tokens = tokenizer.texts(&generated).unwrap();
        let closing = closing(turn.request().clone(), &tokens).unwrap();
        let encoded = encode(&conversation).unwrap();

        // Token for token.
        let seen = [turn.ids(), &generated].concat();
        assert!(next.ids().starts_with(&seen));
        // What is added is what closes it and what the encoder adds.
        let added =
            [tokenizer.encode_pieces(&closing), tokenizer.encode_pieces(&encoded.pieces[encoded.messages[at].end..])];
        assert_eq!(&next.ids()[seen.len()..], added.concat());

        let place = turn.ids().len()..seen.len();
        assert_eq!(next.generated().last(), Some(&place));
        assert_eq!(next.labels().len(), next.ids().len());
        assert_eq!(next.labels()[..turn.ids().len()], *turn.labels());
        assert_eq!(next.labels()[place.clone()], labels(turn.request().clone(), &tokens));
        assert!(next.labels()[place.end..place.end + added[0].len()].iter().all(|&label| label == Label::Prompt));

        // If all generations and what closes them are in the encoder's words, so is the prompt, but for the notices.
        let own = render_pieces(&received, Some(opened))
            .is_ok_and(|pieces| tokenizer.encode_pieces(&pieces) == [&generated[..], &added[0]].concat());
        let answer = &conversation.messages[at];
        let is_object = |call: &PromptCall<'_>| matches!(call.arguments, Arguments::Object(_));
        let sent_as_text = answer.content.len() < 2 && !answer.tool_calls.iter().any(is_object);
        all_as_encoded &= own && sent_as_text && answer.tool_calls.len() == received.tool_calls.len();
        if all_as_encoded {
            let encoded = texts(tokenizer, &tokenizer.encode_pieces(&encoded.pieces));
            assert_eq!(without_notices(&texts(tokenizer, next.ids())), without_notices(&encoded));
            as_encoded += 1;
        }
        refuses(random, tokenizer, &turn, &generated, &conversation, at);
        turn = next;
    }
    as_encoded
}

/// What is no continuation is told as such.
fn refuses(
    random: &mut Rng,
    tokenizer: &Tokenizer,
    turn: &Turn,
    generated: &[u32],
    conversation: &Conversation<'static>,
    at: usize,
) {
    let mut other = conversation.clone();
    let expected = match random.usize(0..9) {
        0 => {
            other.thinking = !other.thinking;
            BridgeError::Mode(Mode::Thinking)
        }
        1 if other.thinking => {
            other.effort = Some(Effort::High);
            BridgeError::Mode(Mode::Effort)
        }
        2 => {
            let tools = r#"[{"type": "function", "function": {"name": "other"}}]"#;
            other.tools = Some(Json::new(tools).unwrap());
            BridgeError::Mode(Mode::Tools)
        }
        3 => {
            let message = random.usize(0..at);
            other.messages[message].content.push(Part::Text("!".into()));
            BridgeError::Edited { message }
        }
        4 => {
            other.messages[at].content.push(Part::Text("!".into()));
            BridgeError::Edited { message: at }
        }
        5 => {
            other.messages[at].name = Some("me".into());
            BridgeError::Edited { message: at }
        }
        6 => {
            other.messages.truncate(at);
            BridgeError::NoAnswer { message: at }
        }
        7 => {
            other.messages.remove(at);
            if matches!(other.messages[at].role, Role::Tool) {
                return;
            }
            BridgeError::NoAnswer { message: at }
        }
        _ => {
            other.messages[at].tool_calls.push(PromptCall { name: "other".into(), ..PromptCall::default() });
            BridgeError::Edited { message: at }
        }
    };
    assert_eq!(turn.next(tokenizer, generated, &other).err(), Some(expected));
}

/// 10,000 of them, or as many as `KIMI_XTML_CONVERSATIONS` says.
#[test]
fn ten_thousand_conversations() {
    let count = std::env::var("KIMI_XTML_CONVERSATIONS").map_or(10_000, |count| count.parse().unwrap());
    let as_encoded: usize = (0..count)
        .map(|seed| {
            let pair = &PAIRS[seed as usize % PAIRS.len()];
            let converse = || converse(&mut Rng::with_seed(seed), &pair.ours);
            catch_unwind(AssertUnwindSafe(converse)).unwrap_or_else(|_| panic!("the conversation of seed {seed}"))
        })
        .sum();
    // Not by the way: many of them, in full.
    assert!(as_encoded as u64 > count / 5, "{as_encoded}");
}

// ---- one by one --------------------------------------------------------------------------------------------------

fn tokenizer() -> &'static Tokenizer {
    &PAIRS[0].ours
}

fn user() -> Conversation<'static> {
    Conversation::new([PromptMessage::user("Why?")])
}

/// The conversation, gone on with.
fn then<'a>(conversation: &Conversation<'a>, more: impl IntoIterator<Item = PromptMessage<'a>>) -> Conversation<'a> {
    let mut next = conversation.clone();
    next.messages.extend(more);
    next
}

/// What comes between the first prompt and the last message of the next one, as text.
fn between(turn: &Turn, next: &Turn) -> String {
    let added = texts(tokenizer(), &next.ids()[turn.ids().len()..]);
    added.split_once("<|open|>message role=\"user\"").unwrap().0.to_owned()
}

#[test]
fn an_answer_that_was_cut_is_closed() {
    let turn = Turn::new(tokenizer(), &user()).unwrap();
    let mut answer = PromptMessage::assistant("");
    answer.reasoning = "hm".into();
    let next = then(&user(), [answer, PromptMessage::user("And?")]);
    let next = turn.next(tokenizer(), &tokenizer().encode("hm"), &next).unwrap();
    assert_eq!(
        between(&turn, &next),
        "hm<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>"
    );
    let generated = next.generated()[0].clone();
    assert_eq!(next.labels()[generated.clone()], vec![Label::Reasoning; generated.len()]);
    assert_eq!(next.request().opened, Some(Channel::Think));
    assert_eq!(next.unbilled(), 3);
}

#[test]
fn reasoning_that_does_not_come_back_may_be_forgiven() {
    let turn = Turn::new(tokenizer(), &user()).unwrap();
    let generated = tokenizer().encode("hm");
    let next = then(&user(), [PromptMessage::assistant("")]);
    assert_eq!(turn.next(tokenizer(), &generated, &next).err(), Some(BridgeError::Edited { message: 1 }));
    let turn = turn.forgive_missing_reasoning(true);
    let next = turn.next(tokenizer(), &generated, &next).unwrap();
    assert!(next.ids().starts_with(&[turn.ids(), &generated].concat()));

    // It stays forgiven.
    let third = then(&user(), [PromptMessage::assistant(""), PromptMessage::assistant("")]);
    assert!(next.next(tokenizer(), &generated, &third).is_ok());
    let mut other = PromptMessage::assistant("");
    other.reasoning = "no".into();
    let edited = then(&user(), [other]);
    assert_eq!(turn.next(tokenizer(), &generated, &edited).err(), Some(BridgeError::Edited { message: 1 }));
}

#[test]
fn notices_stay_where_they_were_read() {
    let mut first = user();
    first.thinking = false;
    first.tool_choice = ToolChoice::Required;
    first.response_format = ResponseFormat::JsonObject;
    let turn = Turn::new(tokenizer(), &first).unwrap();
    let generated = tokenizer().encode("{}");
    let mut second = then(&first, [PromptMessage::assistant("{}"), PromptMessage::user("And?")]);
    second.tool_choice = ToolChoice::Auto;
    let next = turn.next(tokenizer(), &generated, &second).unwrap();
    let text = texts(tokenizer(), next.ids());
    assert_eq!(text.matches("tool_choice=required").count(), 1);
    assert_eq!(text.matches("response_format=json_object").count(), 2);

    second.response_format = ResponseFormat::Text;
    assert_eq!(turn.next(tokenizer(), &generated, &second).err(), Some(BridgeError::Mode(Mode::ResponseFormat)),);
    // One that is new may come.
    first.response_format = ResponseFormat::Text;
    second.response_format = ResponseFormat::JsonObject;
    let turn = Turn::new(tokenizer(), &first).unwrap();
    assert!(turn.next(tokenizer(), &generated, &second).is_ok());
}

#[test]
fn a_continued_answer_is_one_message() {
    let mut begun = PromptMessage::assistant("The answer ");
    begun.reasoning = "hm".into();
    begun.partial = true;
    let turn = Turn::new(tokenizer(), &then(&user(), [begun.clone()])).unwrap();
    let generated = tokenizer().encode("is 4");
    begun.partial = false;
    begun.content = vec![Part::Text("The answer is 4".into())];
    let next = then(&user(), [begun.clone(), PromptMessage::user("And?")]);
    let next = turn.next(tokenizer(), &generated, &next).unwrap();
    assert_eq!(between(&turn, &next), "is 4<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>");

    begun.content = vec![Part::Text("is 4".into())];
    let next = then(&user(), [begun.clone()]);
    assert_eq!(turn.next(tokenizer(), &generated, &next).err(), Some(BridgeError::Edited { message: 1 }));

    // A generated answer that shall go on cannot be closed.
    let turn = Turn::new(tokenizer(), &user()).unwrap();
    begun.partial = true;
    let next = then(&user(), [begun]);
    assert_eq!(turn.next(tokenizer(), &generated, &next).err(), Some(BridgeError::Continued { message: 1 }));
}

#[test]
fn what_cannot_be_gone_on_from_says_so() {
    let mut first = user();
    first.thinking = false;
    let next = then(&first, [PromptMessage::assistant("a")]);
    let turn = Turn::new(tokenizer(), &first).unwrap();
    let bridge = |generated: &[u32]| turn.next(tokenizer(), generated, &next).map(|_| ());
    assert_eq!(bridge(&[97]), Ok(()));
    assert_eq!(bridge(&[97, Marker::Eos.id()]), Ok(()));
    assert_eq!(bridge(&[97, Marker::EndOfMsg.id(), 97]), Err(BridgeError::AfterEnd));
    assert!(matches!(bridge(&[97, 200_000]), Err(BridgeError::UnknownId(error)) if error.id == 200_000));
    assert!(matches!(
        turn.next(tokenizer(), &[97], &then(&next, [PromptMessage::tool("x", "1")])),
        Err(BridgeError::Encode(_))
    ));

    first.add_generation_prompt = false;
    let turn = Turn::new(tokenizer(), &first).unwrap();
    assert_eq!(turn.next(tokenizer(), &[97], &next).err(), Some(BridgeError::NothingOpened));
}

#[test]
fn a_conversation_without_messages_has_a_next() {
    let mut first = Conversation::new([]);
    first.response_format = ResponseFormat::JsonObject;
    let turn = Turn::new(tokenizer(), &first).unwrap();
    let generated = [Marker::EndOfMsg.id()];
    let next = then(&first, [PromptMessage::assistant(""), PromptMessage::user("Hi")]);
    assert!(turn.next(tokenizer(), &generated, &next).is_ok());
    let mut other = next.clone();
    other.tools = Some(Json::new(TOOLS).unwrap());
    assert_eq!(turn.next(tokenizer(), &generated, &other).err(), Some(BridgeError::Mode(Mode::Tools)));
    let other = then(&first, [PromptMessage::user("Hi"), PromptMessage::assistant("")]);
    assert_eq!(turn.next(tokenizer(), &generated, &other).err(), Some(BridgeError::NoAnswer { message: 0 }));
}
