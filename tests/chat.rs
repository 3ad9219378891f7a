//! The Chat Completions layer through the public API: exact deltas, messages and frames.

use std::collections::BTreeSet;

use bytes::BytesMut;
use expect_test::{Expect, expect};
use kimi_xtml::{
    Channel, Chat, Choice, Delta, Extras, Frames, IdPolicy, Logprob, Marker, Parser, Request, Usage, render,
};
use proptest::prelude::*;
use serde_json::Value;

mod messages;

fn thinking() -> Request {
    Request::new().opened(Channel::Think).tools(["ls", "cat"])
}

/// The deltas of each push, a line each, and of the finish.
fn deltas(chunks: &[&str]) -> String {
    let mut parser = Parser::new(thinking());
    let mut chat = Chat::new(IdPolicy::numbered(3)).without_message();
    let mut lines = String::new();
    let mut take = |chat: &mut Chat, what: &str| {
        lines += &format!("{what}\n");
        for delta in chat.deltas() {
            lines += &format!("  {}\n", serde_json::to_string(&delta).unwrap());
        }
        chat.clear();
    };
    for chunk in chunks {
        parser.push(chunk, &mut chat);
        take(&mut chat, &format!("push {chunk:?}"));
    }
    let reason = parser.finish("stop", &mut chat);
    take(&mut chat, &format!("finish {reason:?}"));
    lines
}

/// The frames of a stream, finished for this reason.
fn frames(request: Request, chunks: &[&str], reason: &str) -> String {
    let mut parser = Parser::new(request);
    let mut chat = Chat::new(IdPolicy::numbered(0));
    let frames = Frames::new("chatcmpl-1", 7, "k3");
    let mut choice = frames.choice(0);
    let mut out = BytesMut::new();
    choice.start(&mut out);
    for chunk in chunks {
        parser.push(chunk, &mut chat);
        choice.write(&mut chat, &mut out);
    }
    let reason = parser.finish(reason, &mut chat);
    choice.write(&mut chat, &mut out);
    choice.end(reason, Some(&USAGE), &mut out);
    frames.usage(&USAGE, &mut out);
    frames.done(&mut out);
    String::from_utf8(out.into()).unwrap()
}

const USAGE: Usage = Usage::new(10, 5).with_reasoning_tokens(2).with_cached_tokens(8);

/// Compares frames without the part that all of them have in common.
fn check_frames(frames: &str, expect: &Expect) {
    let head = r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"k3","#;
    for frame in frames.split_terminator("\n\n") {
        let data = frame.strip_prefix("data: ").unwrap();
        assert!(data.starts_with(head) || data == "[DONE]", "{data}");
    }
    expect.assert_eq(&frames.replace(head, "{.. ").replace("\n\n", "\n"));
}

const CALLS: &str = concat!(
    "Let me see.<|close|>think<|sep|><|open|>response<|sep|>One moment.<|close|>response<|sep|>",
    r#"<|open|>tools<|sep|><|open|>call tool="ls" index="1"<|sep|>"#,
    r#"<|open|>argument key="path" type="string"<|sep|>/"tmp"<|close|>argument<|sep|>"#,
    r#"<|open|>argument key="depth" type="number"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|>"#,
    r#"<|open|>call tool="cat" index="2"<|sep|><|close|>call<|sep|>"#,
    "<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>",
);

#[test]
fn one_push_gives_one_delta_for_each_text() {
    expect![[r#"
        push "Let me see.<|close|>think<|sep|><|open|>response<|sep|>One moment.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"ls\" index=\"1\"<|sep|><|open|>argument key=\"path\" type=\"string\"<|sep|>/\"tmp\"<|close|>argument<|sep|><|open|>argument key=\"depth\" type=\"number\"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|><|open|>call tool=\"cat\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>"
          {"reasoning_content":"Let me see."}
          {"content":"One moment."}
          {"tool_calls":[{"index":0,"id":"ls_3","type":"function","function":{"name":"ls","arguments":""}}]}
          {"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"/\\\"tmp\\\"\",\"depth\":2}"}}]}
          {}
          {"tool_calls":[{"index":1,"id":"cat_4","type":"function","function":{"name":"cat","arguments":""}}]}
          {"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}
          {}
        finish "tool_calls"
    "#]].assert_eq(&deltas(&[CALLS]));
}

#[test]
fn deltas_leave_as_the_text_arrives() {
    let chunks = [
        "Let me",
        " see.<|cl",
        "ose|>think<|sep|><|open|>response",
        "<|sep|>One",
        " moment.<|close|>response<|sep|><|open|>tools<|sep|>",
        r#"<|open|>call tool="ls" index="1"<|sep|><|open|>argument key="path" "#,
        r#"type="string"<|sep|>"#,
        "/\"t",
        "mp\"<|close|>argument<|sep|>",
        r#"<|open|>argument key="depth" type="number"<|sep|>"#,
        "2",
        "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
        "<|close|>message<|sep|><|end_of_msg|>",
    ];
    expect![[r#"
        push "Let me"
          {"reasoning_content":"Let me"}
        push " see.<|cl"
          {"reasoning_content":" see."}
        push "ose|>think<|sep|><|open|>response"
        push "<|sep|>One"
          {"content":"One"}
        push " moment.<|close|>response<|sep|><|open|>tools<|sep|>"
          {"content":" moment."}
        push "<|open|>call tool=\"ls\" index=\"1\"<|sep|><|open|>argument key=\"path\" "
          {"tool_calls":[{"index":0,"id":"ls_3","type":"function","function":{"name":"ls","arguments":""}}]}
        push "type=\"string\"<|sep|>"
          {"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\""}}]}
        push "/\"t"
          {"tool_calls":[{"index":0,"function":{"arguments":"/\\\"t"}}]}
        push "mp\"<|close|>argument<|sep|>"
          {"tool_calls":[{"index":0,"function":{"arguments":"mp\\\""}}]}
        push "<|open|>argument key=\"depth\" type=\"number\"<|sep|>"
          {"tool_calls":[{"index":0,"function":{"arguments":"\",\"depth\":"}}]}
        push "2"
        push "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"
          {"tool_calls":[{"index":0,"function":{"arguments":"2}"}}]}
          {}
        push "<|close|>message<|sep|><|end_of_msg|>"
        finish "tool_calls"
    "#]]
    .assert_eq(&deltas(&chunks));
}

#[test]
fn frames_of_reasoning_content_and_calls() {
    check_frames(
        &frames(thinking(), &[CALLS], "stop"),
        &expect![[r#"
        data: {.. "choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"reasoning_content":"Let me see."},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"reasoning_content":""},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"content":"One moment."},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"ls_0","type":"function","function":{"name":"ls","arguments":""}}]},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"/\\\"tmp\\\"\",\"depth\":2}"}}]},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"cat_1","type":"function","function":{"name":"cat","arguments":""}}]},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{},"finish_reason":"tool_calls","usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}]}
        data: {.. "choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}
        data: [DONE]
    "#]],
    );
}

#[test]
fn frames_escape_as_json_does() {
    let request = Request::new().opened(Channel::Response);
    check_frames(
        &frames(request, &["é\u{1}\n\"\\</"], "length"),
        &expect![[r#"
            data: {.. "choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
            data: {.. "choices":[{"index":0,"delta":{"content":"é\u0001\n\"\\</"},"finish_reason":null}]}
            data: {.. "choices":[{"index":0,"delta":{},"finish_reason":"length","usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}]}
            data: {.. "choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}
            data: [DONE]
        "#]],
    );
}

#[test]
fn reasoning_without_an_answer_ends_too() {
    check_frames(
        &frames(thinking(), &["Hm", "m"], "length"),
        &expect![[r#"
        data: {.. "choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"reasoning_content":"Hm"},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"reasoning_content":"m"},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"reasoning_content":""},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{},"finish_reason":"length","usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}]}
        data: {.. "choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}
        data: [DONE]
    "#]],
    );
}

#[test]
fn an_empty_stream_has_a_first_and_an_end_frame() {
    check_frames(
        &frames(thinking(), &[""], "stop"),
        &expect![[r#"
            data: {.. "choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
            data: {.. "choices":[{"index":0,"delta":{"reasoning_content":""},"finish_reason":null}]}
            data: {.. "choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}]}
            data: {.. "choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}
            data: [DONE]
        "#]],
    );
}

#[test]
fn the_message_keeps_what_was_cut_off() {
    let (head, _) = CALLS.split_once("tmp").unwrap();
    let mut parser = Parser::new(thinking());
    let mut chat = Chat::new(IdPolicy::numbered(0));
    parser.push(head, &mut chat);
    parser.finish("length", &mut chat);
    expect![[r#"
        {
          "role": "assistant",
          "content": "One moment.",
          "reasoning_content": "Let me see.",
          "tool_calls": [
            {
              "id": "ls_0",
              "type": "function",
              "function": {
                "name": "ls",
                "arguments": "{\"path\":\"/\\\""
              },
              "complete": false
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(chat.message().unwrap()).unwrap());

    let mut parser = Parser::new(thinking());
    let mut chat = Chat::new(IdPolicy::numbered(0));
    parser.push(CALLS, &mut chat);
    parser.finish("stop", &mut chat);
    expect![[r#"
        {
          "role": "assistant",
          "content": "One moment.",
          "reasoning_content": "Let me see.",
          "tool_calls": [
            {
              "id": "ls_0",
              "type": "function",
              "function": {
                "name": "ls",
                "arguments": "{\"path\":\"/\\\"tmp\\\"\",\"depth\":2}"
              }
            },
            {
              "id": "cat_1",
              "type": "function",
              "function": {
                "name": "cat",
                "arguments": "{}"
              }
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&chat.into_message()).unwrap());
}

#[test]
fn without_the_message_none_is_there() {
    let mut chat = Chat::default().without_message();
    let mut parser = Parser::new(thinking());
    parser.push(CALLS, &mut chat);
    assert_eq!(chat.message(), None);
    assert_eq!(chat.into_message(), None);
}

#[test]
fn ids_are_minted_once_a_call() {
    let ids = |policy: IdPolicy| {
        let mut parser = Parser::new(thinking());
        let mut chat = Chat::new(policy);
        let mut started = Vec::new();
        for at in 0..CALLS.len() {
            parser.push(&CALLS[at..=at], &mut chat);
            for delta in chat.deltas() {
                if let Delta::CallStart { id, .. } = delta {
                    started.push(id.to_owned());
                }
            }
            chat.clear();
        }
        let message = chat.into_message().unwrap();
        assert!(message.tool_calls.iter().map(|call| &call.id).eq(&started));
        started
    };
    assert_eq!(ids(IdPolicy::numbered(4)), ["ls_4", "cat_5"]);
    let mut minted = 0;
    let mint = move |name: &str, call: usize| {
        minted += 1;
        format!("{name}:{call}:{minted}")
    };
    assert_eq!(ids(IdPolicy::with(mint)), ["ls:0:1", "cat:1:2"]);
    let mut random: Vec<String> = (0..500).flat_map(|_| ids(IdPolicy::random())).collect();
    for id in &random {
        let id = id.strip_prefix("call_").unwrap();
        assert!(id.len() == 24 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        let different: BTreeSet<u8> = id.bytes().collect();
        assert!(different.len() > 8, "{id} is hardly random");
    }
    random.sort();
    random.dedup();
    assert_eq!(random.len(), 1000);
}

#[test]
fn policies_show_themselves() {
    let shown = [IdPolicy::random(), IdPolicy::numbered(3), IdPolicy::with(|name, _| name.into())];
    let shown = shown.map(|policy| format!("{policy:?}"));
    assert_eq!(shown, ["IdPolicy::random()", "IdPolicy::numbered(3)", "IdPolicy::with(..)"]);
}

#[test]
fn choices_interleave() {
    let frames = Frames::new("chatcmpl-1", 7, "k3");
    let (mut first, mut second) = (frames.choice(0), frames.choice(1));
    let mut out = BytesMut::new();
    second.delta(Delta::Reasoning("b"), Extras::default(), &mut out);
    first.delta(Delta::Content("a"), Extras::default(), &mut out);
    second.end("length", None, &mut out);
    first.end("stop", None, &mut out);
    check_frames(
        std::str::from_utf8(&out).unwrap(),
        &expect![[r#"
        data: {.. "choices":[{"index":1,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
        data: {.. "choices":[{"index":1,"delta":{"reasoning_content":"b"},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}
        data: {.. "choices":[{"index":1,"delta":{"reasoning_content":""},"finish_reason":null}]}
        data: {.. "choices":[{"index":1,"delta":{},"finish_reason":"length"}]}
        data: {.. "choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}
    "#]],
    );
}

#[test]
fn reasoning_that_comes_again_has_no_second_end() {
    let mut choice = Frames::new("chatcmpl-1", 7, "k3").choice(0);
    let mut out = BytesMut::new();
    for delta in ["a", "b"].map(Delta::Reasoning).into_iter().chain([
        Delta::Content("c"),
        Delta::Reasoning("d"),
        Delta::Content("e"),
    ]) {
        choice.delta(delta, Extras::default(), &mut out);
    }
    choice.end("stop", None, &mut out);
    check_frames(
        std::str::from_utf8(&out).unwrap(),
        &expect![[r#"
        data: {.. "choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"reasoning_content":"a"},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"reasoning_content":"b"},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"reasoning_content":""},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"content":"c"},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"reasoning_content":"d"},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{"content":"e"},"finish_reason":null}]}
        data: {.. "choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}
    "#]],
    );
}

#[test]
fn frames_carry_usage_tokens_and_logprobs_on_request() {
    let mut parser = Parser::new(thinking());
    let mut chat = Chat::default();
    let mut choice = Frames::new("chatcmpl-1", 7, "k3").choice(0);
    let mut out = BytesMut::new();
    let tokens: [(u32, &str); 8] = [
        (11, "Hm"),
        (12, "."),
        (Marker::Close.id(), ""),
        (39964, "think"),
        (Marker::Sep.id(), ""),
        (Marker::Open.id(), ""),
        (12092, "response"),
        (Marker::Sep.id(), ""),
    ];
    for (id, text) in tokens.into_iter().chain([(13, "Yes"), (14, "!")]) {
        parser.push_token(text, id, &mut chat);
    }
    let ids: Vec<u32> = tokens.iter().map(|token| token.0).chain([13, 14]).collect();
    let mut logprobs = vec![None; ids.len() - 1];
    // Of the last token the engine said nothing.
    logprobs[8] =
        Some(Logprob::new("Yes", -0.5).with_top(vec![(b"Yes".to_vec(), -0.5), (vec![0xe2, 0x80], f64::NEG_INFINITY)]));
    logprobs.push(None);
    choice.set_usage(Some(USAGE.with_completion_tokens(10)));
    for (delta, span) in chat.deltas_with_spans() {
        let tokens = span.tokens.clone().unwrap();
        let tokens = tokens.start as usize..tokens.end as usize;
        let extras = Extras::new().with_token_ids(&ids[tokens.clone()]).with_logprobs(&logprobs[tokens]);
        choice.delta(delta, extras, &mut out);
    }
    choice.set_usage(None);
    choice.end("stop", Some(&USAGE), &mut out);
    check_frames(
        std::str::from_utf8(&out).unwrap(),
        &expect![[r#"
            data: {.. "choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}
            data: {.. "choices":[{"index":0,"delta":{"reasoning_content":"Hm.","internal_content":{"token_ids":[11,12]}},"finish_reason":null}],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}
            data: {.. "choices":[{"index":0,"delta":{"reasoning_content":""},"finish_reason":null}],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}
            data: {.. "choices":[{"index":0,"delta":{"content":"Yes!","internal_content":{"token_ids":[13,14]}},"logprobs":{"content":[{"token":"Yes","logprob":-0.5,"bytes":[89,101,115],"top_logprobs":[{"token":"Yes","logprob":-0.5,"bytes":[89,101,115]},{"token":"bytes:\\xe2\\x80","logprob":-9999.0,"bytes":[226,128]}]}]},"finish_reason":null}],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}
            data: {.. "choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":8}}}]}
        "#]],
    );
}

/// Puts the frames of one choice together again, and checks their rules on the way.
fn reassemble(frames: &str) -> Result<messages::Parts, TestCaseError> {
    let mut parts = messages::Parts::default();
    let frames: Vec<Value> = frames
        .split_terminator("\n\n")
        .map(|frame| serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap())
        .collect();
    let mut reasoning_ends = 0;
    for (at, frame) in frames.iter().enumerate() {
        prop_assert_eq!(&frame["id"], "chatcmpl-1");
        let choice = &frame["choices"][0];
        prop_assert_eq!(&choice["index"], 0);
        let reason = choice.get("finish_reason").unwrap();
        prop_assert_eq!(reason.is_string(), at + 1 == frames.len());
        prop_assert_eq!(choice.get("usage").is_some(), at + 1 == frames.len());
        let delta = choice["delta"].as_object().unwrap();
        let keys: Vec<&str> = delta.keys().map(String::as_str).collect();
        match keys[..] {
            ["content", "role"] | ["role", "content"] => prop_assert_eq!(at, 0),
            [] => prop_assert_eq!(at + 1, frames.len()),
            ["content"] => {
                let text = delta["content"].as_str().unwrap();
                prop_assert_ne!(text, "");
                prop_assert_eq!(reasoning_ends, 1);
                parts.content += text;
            }
            ["reasoning_content"] => {
                let text = delta["reasoning_content"].as_str().unwrap();
                prop_assert_eq!(reasoning_ends, 0);
                reasoning_ends += usize::from(text.is_empty());
                parts.reasoning += text;
            }
            ["tool_calls"] => {
                prop_assert_eq!(reasoning_ends, 1);
                let call = &delta["tool_calls"][0];
                let arguments = call["function"]["arguments"].as_str().unwrap();
                if call.get("id").is_some() {
                    prop_assert_eq!(&call["index"], parts.calls.len());
                    prop_assert_eq!(arguments, "");
                    let name = call["function"]["name"].as_str().unwrap();
                    parts.calls.push((name.into(), String::new()));
                } else {
                    prop_assert_eq!(&call["index"], parts.calls.len() - 1);
                    prop_assert_ne!(arguments, "");
                    parts.calls.last_mut().unwrap().1 += arguments;
                }
            }
            _ => prop_assert!(false, "{:?}", keys),
        }
        prop_assert_eq!(at == 0, delta.contains_key("role"));
    }
    prop_assert_eq!(reasoning_ends, 1);
    Ok(parts)
}

fn write_all(parser: &mut Parser, chat: &mut Chat, mut choice: Choice, chunks: &[&str]) -> BytesMut {
    let mut out = BytesMut::new();
    for chunk in chunks {
        parser.push(chunk, chat);
        choice.write(chat, &mut out);
    }
    let reason = parser.finish("stop", chat);
    choice.write(chat, &mut out);
    choice.end(reason, Some(&USAGE), &mut out);
    out
}

proptest! {
    #[test]
    fn frames_add_up_to_the_message(
        parts in messages::parts(messages::plain_text()),
        cuts in messages::cuts(),
    ) {
        let text = render(&parts.message(), Some(Channel::Think)).unwrap();
        let mut parser = Parser::new(thinking());
        let mut chat = Chat::default();
        let choice = Frames::new("chatcmpl-1", 7, "k3").choice(0);
        let out = write_all(&mut parser, &mut chat, choice, &messages::cut(&text, &cuts));
        prop_assert_eq!(&reassemble(std::str::from_utf8(&out).unwrap())?, &parts);
        prop_assert_eq!(messages::Parts::of(chat.message().unwrap()), parts);
    }
}
