//! `ChatStream`, the common case whole.
//!
//! In: a request's body and a generation. Out: the bytes that a client gets, the same as the layers below give.

use kimi_xtml::{BodyError, Channel, ChatStream, FinishReason, IdPolicy, Marker, Request, Usage};
use serde_json::{Value, json};

const CALL: &str = "Hm.<|close|>think<|sep|><|open|>tools<|sep|><|open|>call tool=\"ls\" index=\"1\"<|sep|>\
                    <|open|>argument key=\"path\" type=\"string\"<|sep|>/tmp<|close|>argument<|sep|><|close|>call<|sep|>\
                    <|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>";

fn stream(body: &Value) -> ChatStream {
    let stream = ChatStream::from_json(&body.to_string()).unwrap();
    stream.with_head("c", 7, "k3").with_call_ids(IdPolicy::numbered(0))
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8(bytes.as_ref().to_vec()).unwrap()
}

/// The `data` of frames.
fn data(frames: &str) -> Vec<&str> {
    frames.split_terminator("\n\n").map(|frame| frame.strip_prefix("data: ").unwrap()).collect()
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "ls"}}])
}

#[test]
fn frames_come_as_they_can_and_end_once() {
    let mut stream = stream(&json!({"stream": true, "tools": tools(), "stream_options": {"include_usage": true}}));
    let mut sent = String::new();
    for (at, _) in CALL.char_indices() {
        sent += &text(stream.push(&CALL[at..=at]));
    }
    sent += &text(stream.end("stop"));
    assert_eq!(text(stream.end("stop")) + &text(stream.push("more")) + &text(stream.error("late")), "");
    let frames = data(&sent);
    assert!(frames[0].contains(r#""delta":{"role":"assistant","content":""}"#));
    assert_eq!(frames.iter().filter(|frame| frame.contains(r#""finish_reason":"tool_calls""#)).count(), 1);
    assert_eq!(frames.last(), Some(&"[DONE]"));
    assert_eq!(stream.finish_reason(), Some(FinishReason::ToolCalls));
    let message = stream.into_message().unwrap();
    assert_eq!((&*message.reasoning, &*message.tool_calls[0].arguments), ("Hm.", r#"{"path":"/tmp"}"#));
}

#[test]
fn a_request_without_a_stream_gets_one_body() {
    let mut stream = stream(&json!({"tools": tools()})).with_prompt_usage(Usage::new(9, 0));
    assert!(stream.push_with_ids("Hm.", &[1, 2]).is_empty());
    assert!(stream.push(CALL.strip_prefix("Hm.").unwrap()).is_empty());
    let body: Value = serde_json::from_slice(&stream.end("eos")).unwrap();
    let call =
        json!({"id": "ls_0", "type": "function", "function": {"name": "ls", "arguments": "{\"path\":\"/tmp\"}"}});
    let message = json!({"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [call]});
    assert_eq!(
        body["choices"],
        json!([{"index": 0, "message": message, "logprobs": null, "finish_reason": "tool_calls"}])
    );
    assert_eq!(
        (&body["id"], &body["object"], &body["created"], &body["model"]),
        (&json!("c"), &json!("chat.completion"), &json!(7), &json!("k3"))
    );
    assert_eq!((&body["usage"]["prompt_tokens"], &body["usage"]["completion_tokens"]), (&json!(9), &json!(2)));
}

#[test]
fn a_stop_string_ends_the_stream_and_what_is_after_it_costs_nothing() {
    let mut stream = stream(&json!({"stream": true, "thinking": {"type": "disabled"}, "stop": ["END", "x"]}));
    let mut sent = String::new();
    for (text_of, id) in [("one", 1), (" E", 2), ("ND x", 3), (" never", 4)] {
        sent += &text(stream.push_token(text_of, id));
    }
    assert!(stream.is_ended());
    assert_eq!((stream.stopped_by(), stream.finish_reason()), (Some("END"), Some(FinishReason::Stop)));
    assert_eq!((stream.message().unwrap().content.as_str(), stream.usage().unwrap().completion_tokens), ("one ", 2));
    assert!(sent.contains("\"finish_reason\":\"stop\"") && sent.ends_with("data: [DONE]\n\n"));
    assert!(!sent.contains('E') || sent.matches('E').count() == 1, "but for [DONE]: {sent}");
}

#[test]
fn a_stop_string_that_only_begins_goes_out_at_the_end() {
    let mut stream = stream(&json!({"stop": "END", "enable_thinking": false}));
    stream.push("one EN");
    stream.end("length");
    assert_eq!((stream.message().unwrap().content.as_str(), stream.stopped_by()), ("one EN", None));
    assert_eq!(stream.finish_reason(), Some(FinishReason::Length));
}

#[test]
fn an_engine_that_breaks_off_is_an_error_and_no_end() {
    for (streams, prefix) in [(true, "data: {\"error\":"), (false, "{\"error\":")] {
        let mut stream = stream(&json!({"stream": streams, "tools": tools()}));
        stream.push(&CALL[..CALL.find("/tmp").unwrap()]);
        let last = text(stream.end("abort"));
        assert!(last.contains(prefix) && !last.contains("[DONE]") && !last.contains("finish_reason\":\""), "{last}");
        assert_eq!((stream.is_ended(), stream.finish_reason()), (true, None));
        assert!(!stream.message().unwrap().tool_calls[0].complete);
    }
}

#[test]
fn every_kind_of_input_is_taken() {
    let mut stream = ChatStream::new(Request::new().opened(Channel::Response)).without_message();
    let mut sent = text(stream.push_bytes("é".as_bytes()));
    sent += &text(stream.push_text("<|close|>"));
    sent += &text(stream.push_marker(Marker::EndOfMsg));
    assert!(sent.contains("é") && sent.contains("<|close|>"), "{sent}");
    assert_eq!((stream.message(), stream.channel(), stream.held().as_str()), (None, None, ""));
    assert_eq!(stream.report().bytes.content, 11);
}

#[test]
fn what_is_asked_for_is_read_under_each_of_its_names() {
    for (body, opened) in [
        (json!({}), "think"),
        (json!({"thinking": null}), "think"),
        (json!({"thinking": false}), "response"),
        (json!({"thinking": {"type": "disabled"}}), "response"),
        (json!({"thinking": {"type": "enabled", "effort": "none"}}), "think"),
        (json!({"enable_thinking": false}), "response"),
        (json!({"reasoning_effort": "none"}), "response"),
        (json!({"reasoning_effort": "low"}), "think"),
        (json!({"chat_template_kwargs": {"thinking": false}}), "response"),
        (json!({"thinking": true, "chat_template_kwargs": {"thinking": false}}), "think"),
    ] {
        assert_eq!(stream(&body).channel().map(Channel::name), Some(opened), "{body}");
    }
}

#[test]
fn what_has_no_meaning_is_named() {
    for (body, path) in [
        (json!({"tools": 5}), "tools"),
        (json!({"tools": [{}]}), "tools[0].function.name"),
        (
            json!({"messages": [{"role": "user"}, {"role": "system", "tools": [5]}]}),
            "messages[1].tools[0].function.name",
        ),
        (json!({"tool_choice": "maybe"}), "tool_choice"),
        (json!({"tool_choice": {"type": "function"}}), "tool_choice.function.name"),
        (json!({"stop": 5}), "stop"),
        (json!({"stop": ["a", 5]}), "stop[1]"),
        (json!({"stream": 1}), "stream"),
        (json!({"stream_options": {"include_usage": "yes"}}), "stream_options.include_usage"),
        (json!({"model": 5}), "model"),
        (json!({"n": 2}), "n"),
    ] {
        match ChatStream::from_json(&body.to_string()).unwrap_err() {
            BodyError::Member { path: named, .. } => assert_eq!(named, path),
            other => panic!("{body}: {other}"),
        }
    }
    for body in ["", "5", "{\"messages\": 5}"] {
        assert!(matches!(ChatStream::from_json(body), Err(BodyError::Json(_))), "{body}");
    }
}
