//! The words of two more APIs: Anthropic's Messages and OpenAI's Responses.
//!
//! In: a stream with reasoning, an answer and two calls, one of them cut. Out: the events that `Messages` and `Responses`
//! write for its deltas, and what they say of its message.

use bytes::BytesMut;
use expect_test::expect;
use kimi_xtml::{AnthropicMessages, Channel, Chat, Delta, IdPolicy, Message, Parser, Request, Responses, Usage};
use serde_json::{Map, Value, json};

mod support;

use support::spell;

const STREAM: &str = "Hm{/think}{response}See \"it\".{/response}{tools}{call tool=\"ls\"}{argument key=\"k\"}v{/argument}{/call}\
                      {call tool=\"cat\"}{argument key=\"n\"}wh";
const USAGE: Usage = Usage::new(10, 7).with_reasoning_tokens(2).with_cached_tokens(4);

fn chat() -> Chat {
    let mut parser = Parser::new(Request::new().opened(Channel::Think).tools(["ls", "cat"]));
    let mut chat = Chat::new(IdPolicy::numbered(0));
    parser.push(&spell(STREAM), &mut chat);
    parser.finish("length", &mut chat);
    chat
}

fn message() -> Message {
    chat().into_message().unwrap()
}

fn shown(out: &BytesMut) -> String {
    String::from_utf8(out.to_vec()).unwrap().replace("\n\n", "\n")
}

fn responses() -> Responses {
    let request = json!({"tools": [], "id": "not this"});
    Responses::new("r", 7, "k3", request.as_object().unwrap().clone())
}

#[test]
fn messages_are_blocks() {
    let mut out = BytesMut::new();
    let mut events = AnthropicMessages::new("m", "k3");
    events.start(&USAGE, &mut out);
    chat().deltas().for_each(|delta| events.delta(delta, &mut out));
    events.end("length", None, &USAGE, &mut out);
    expect![[r#"
        event: message_start
        data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"k3","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":7}}}
        event: content_block_start
        data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}
        event: content_block_stop
        data: {"type":"content_block_stop","index":0}
        event: content_block_start
        data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
        event: content_block_delta
        data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"See \"it\"."}}
        event: content_block_stop
        data: {"type":"content_block_stop","index":1}
        event: content_block_start
        data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"ls_0","name":"ls","input":{}}}
        event: content_block_delta
        data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"k\":\"v\"}"}}
        event: content_block_stop
        data: {"type":"content_block_stop","index":2}
        event: content_block_start
        data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"cat_1","name":"cat","input":{}}}
        event: content_block_delta
        data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"n\":\"wh"}}
        event: content_block_stop
        data: {"type":"content_block_stop","index":3}
        event: message_delta
        data: {"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":7}}
        event: message_stop
        data: {"type":"message_stop"}
    "#]].assert_eq(&shown(&out));
}

#[test]
fn a_run_of_one_kind_is_one_block() {
    let mut out = BytesMut::new();
    let mut events = AnthropicMessages::new("m", "k3");
    for delta in [Delta::Content("a"), Delta::Content("b"), Delta::Reasoning("c"), Delta::Reasoning("d")] {
        events.delta(delta, &mut out);
    }
    expect![[r#"
        event: content_block_start
        data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}
        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}
        event: content_block_stop
        data: {"type":"content_block_stop","index":0}
        event: content_block_start
        data: {"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"","signature":""}}
        event: content_block_delta
        data: {"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"c"}}
        event: content_block_delta
        data: {"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"d"}}
    "#]]
    .assert_eq(&shown(&out));
}

#[test]
fn a_whole_message_has_its_blocks() {
    let messages = AnthropicMessages::new("m", "k3");
    expect![[r#"{"id":"m","type":"message","role":"assistant","model":"k3","content":[{"type":"thinking","thinking":"Hm","signature":""},{"type":"text","text":"See \"it\"."},{"type":"tool_use","id":"ls_0","name":"ls","input":{"k":"v"}},{"type":"tool_use","id":"cat_1","name":"cat","input":"{\"n\":\"wh"}],"stop_reason":"max_tokens","stop_sequence":null,"usage":{"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":7}}"#]].assert_eq(messages.message(&message(), "length", None, &USAGE).get());
    let empty = messages.message(&Message::default(), "stop", Some("END"), &Usage::default());
    expect![[r#"{"id":"m","type":"message","role":"assistant","model":"k3","content":[],"stop_reason":"stop_sequence","stop_sequence":"END","usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}"#]].assert_eq(empty.get());
}

#[test]
fn finish_reasons_in_the_words_of_messages() {
    for (reason, stop, said) in [
        ("stop", None, "end_turn"),
        ("stop", Some("x"), "stop_sequence"),
        ("length", Some("x"), "stop_sequence"),
        ("tool_calls", None, "tool_use"),
        ("content_filter", None, "refusal"),
        ("length", None, "max_tokens"),
        ("abort", None, "max_tokens"),
    ] {
        let whole = AnthropicMessages::new("m", "k3").message(&Message::default(), reason, stop, &USAGE);
        let whole: Value = serde_json::from_str(whole.get()).unwrap();
        assert_eq!((&whole["stop_reason"], &whole["stop_sequence"]), (&json!(said), &json!(stop)), "{reason}");
    }
}

#[test]
fn responses_are_items() {
    let mut out = BytesMut::new();
    let mut events = responses();
    events.start(&mut out);
    chat().deltas().for_each(|delta| events.delta(delta, &mut out));
    events.end("length", &USAGE, &mut out);
    expect![[r#"
        event: response.created
        data: {"response":{"created_at":7,"error":null,"id":"r","incomplete_details":null,"model":"k3","object":"response","output":[],"status":"in_progress","tools":[],"usage":null},"sequence_number":0,"type":"response.created"}
        event: response.in_progress
        data: {"response":{"created_at":7,"error":null,"id":"r","incomplete_details":null,"model":"k3","object":"response","output":[],"status":"in_progress","tools":[],"usage":null},"sequence_number":1,"type":"response.in_progress"}
        event: response.output_item.added
        data: {"item":{"content":[],"id":"rs_r_0","status":"in_progress","summary":[],"type":"reasoning"},"output_index":0,"sequence_number":2,"type":"response.output_item.added"}
        event: response.content_part.added
        data: {"content_index":0,"item_id":"rs_r_0","output_index":0,"part":{"text":"","type":"reasoning_text"},"sequence_number":3,"type":"response.content_part.added"}
        event: response.reasoning_text.delta
        data: {"content_index":0,"delta":"Hm","item_id":"rs_r_0","output_index":0,"sequence_number":4,"type":"response.reasoning_text.delta"}
        event: response.reasoning_text.done
        data: {"content_index":0,"item_id":"rs_r_0","output_index":0,"sequence_number":5,"text":"Hm","type":"response.reasoning_text.done"}
        event: response.content_part.done
        data: {"content_index":0,"item_id":"rs_r_0","output_index":0,"part":{"text":"Hm","type":"reasoning_text"},"sequence_number":6,"type":"response.content_part.done"}
        event: response.output_item.done
        data: {"item":{"content":[{"text":"Hm","type":"reasoning_text"}],"id":"rs_r_0","status":"completed","summary":[],"type":"reasoning"},"output_index":0,"sequence_number":7,"type":"response.output_item.done"}
        event: response.output_item.added
        data: {"item":{"content":[],"id":"msg_r_1","role":"assistant","status":"in_progress","type":"message"},"output_index":1,"sequence_number":8,"type":"response.output_item.added"}
        event: response.content_part.added
        data: {"content_index":0,"item_id":"msg_r_1","output_index":1,"part":{"annotations":[],"logprobs":[],"text":"","type":"output_text"},"sequence_number":9,"type":"response.content_part.added"}
        event: response.output_text.delta
        data: {"content_index":0,"delta":"See \"it\".","item_id":"msg_r_1","logprobs":[],"output_index":1,"sequence_number":10,"type":"response.output_text.delta"}
        event: response.output_text.done
        data: {"content_index":0,"item_id":"msg_r_1","logprobs":[],"output_index":1,"sequence_number":11,"text":"See \"it\".","type":"response.output_text.done"}
        event: response.content_part.done
        data: {"content_index":0,"item_id":"msg_r_1","output_index":1,"part":{"annotations":[],"logprobs":[],"text":"See \"it\".","type":"output_text"},"sequence_number":12,"type":"response.content_part.done"}
        event: response.output_item.done
        data: {"item":{"content":[{"annotations":[],"logprobs":[],"text":"See \"it\".","type":"output_text"}],"id":"msg_r_1","role":"assistant","status":"completed","type":"message"},"output_index":1,"sequence_number":13,"type":"response.output_item.done"}
        event: response.output_item.added
        data: {"item":{"arguments":"","call_id":"ls_0","id":"fc_r_2","name":"ls","status":"in_progress","type":"function_call"},"output_index":2,"sequence_number":14,"type":"response.output_item.added"}
        event: response.function_call_arguments.delta
        data: {"delta":"{\"k\":\"v\"}","item_id":"fc_r_2","output_index":2,"sequence_number":15,"type":"response.function_call_arguments.delta"}
        event: response.function_call_arguments.done
        data: {"arguments":"{\"k\":\"v\"}","item_id":"fc_r_2","output_index":2,"sequence_number":16,"type":"response.function_call_arguments.done"}
        event: response.output_item.done
        data: {"item":{"arguments":"{\"k\":\"v\"}","call_id":"ls_0","id":"fc_r_2","name":"ls","status":"completed","type":"function_call"},"output_index":2,"sequence_number":17,"type":"response.output_item.done"}
        event: response.output_item.added
        data: {"item":{"arguments":"","call_id":"cat_1","id":"fc_r_3","name":"cat","status":"in_progress","type":"function_call"},"output_index":3,"sequence_number":18,"type":"response.output_item.added"}
        event: response.function_call_arguments.delta
        data: {"delta":"{\"n\":\"wh","item_id":"fc_r_3","output_index":3,"sequence_number":19,"type":"response.function_call_arguments.delta"}
        event: response.function_call_arguments.done
        data: {"arguments":"{\"n\":\"wh","item_id":"fc_r_3","output_index":3,"sequence_number":20,"type":"response.function_call_arguments.done"}
        event: response.output_item.done
        data: {"item":{"arguments":"{\"n\":\"wh","call_id":"cat_1","id":"fc_r_3","name":"cat","status":"incomplete","type":"function_call"},"output_index":3,"sequence_number":21,"type":"response.output_item.done"}
        event: response.incomplete
        data: {"response":{"created_at":7,"error":null,"id":"r","incomplete_details":{"reason":"max_output_tokens"},"model":"k3","object":"response","output":[{"content":[{"text":"Hm","type":"reasoning_text"}],"id":"rs_r_0","status":"completed","summary":[],"type":"reasoning"},{"content":[{"annotations":[],"logprobs":[],"text":"See \"it\".","type":"output_text"}],"id":"msg_r_1","role":"assistant","status":"completed","type":"message"},{"arguments":"{\"k\":\"v\"}","call_id":"ls_0","id":"fc_r_2","name":"ls","status":"completed","type":"function_call"},{"arguments":"{\"n\":\"wh","call_id":"cat_1","id":"fc_r_3","name":"cat","status":"incomplete","type":"function_call"}],"status":"incomplete","tools":[],"usage":{"input_tokens":10,"input_tokens_details":{"cache_write_tokens":0,"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":17}},"sequence_number":22,"type":"response.incomplete"}
    "#]].assert_eq(&shown(&out));
}

#[test]
fn a_response_that_fails_says_why() {
    let mut out = BytesMut::new();
    let mut events = Responses::new("r", 7, "k3", Map::new());
    events.delta(Delta::Content("a"), &mut out);
    events.delta(Delta::Content("b"), &mut out);
    out.clear();
    events.failed("server_error", "it broke", &USAGE, &mut out);
    expect![[r#"
        event: response.output_text.done
        data: {"content_index":0,"item_id":"msg_r_0","logprobs":[],"output_index":0,"sequence_number":4,"text":"ab","type":"response.output_text.done"}
        event: response.content_part.done
        data: {"content_index":0,"item_id":"msg_r_0","output_index":0,"part":{"annotations":[],"logprobs":[],"text":"ab","type":"output_text"},"sequence_number":5,"type":"response.content_part.done"}
        event: response.output_item.done
        data: {"item":{"content":[{"annotations":[],"logprobs":[],"text":"ab","type":"output_text"}],"id":"msg_r_0","role":"assistant","status":"completed","type":"message"},"output_index":0,"sequence_number":6,"type":"response.output_item.done"}
        event: response.failed
        data: {"response":{"created_at":7,"error":{"code":"server_error","message":"it broke"},"id":"r","incomplete_details":null,"model":"k3","object":"response","output":[{"content":[{"annotations":[],"logprobs":[],"text":"ab","type":"output_text"}],"id":"msg_r_0","role":"assistant","status":"completed","type":"message"}],"status":"failed","usage":{"input_tokens":10,"input_tokens_details":{"cache_write_tokens":0,"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":17}},"sequence_number":7,"type":"response.failed"}
    "#]].assert_eq(&shown(&out));
}

/// A response that is not streamed is what the stream's last event says.
#[test]
fn a_whole_response_is_that_of_the_last_event() {
    for (reason, kind, status, why) in [
        ("stop", "completed", "completed", None),
        ("tool_calls", "completed", "completed", None),
        ("length", "incomplete", "incomplete", Some("max_output_tokens")),
        ("content_filter", "incomplete", "incomplete", Some("content_filter")),
    ] {
        for message in [message(), Message::default()] {
            let whole = responses().whole(&message, reason, &USAGE);
            assert_eq!((&whole["status"], &whole["id"]), (&json!(status), &json!("r")));
            assert_eq!(whole["incomplete_details"], why.map_or(Value::Null, |why| json!({"reason": why})));
            let items = whole["output"].as_array().unwrap().len();
            assert_eq!(items, if message == Message::default() { 0 } else { 4 });

            let (mut out, mut events) = (BytesMut::new(), responses());
            if items > 0 {
                chat().deltas().for_each(|delta| events.delta(delta, &mut out));
            }
            events.end(reason, &USAGE, &mut out);
            let shown = shown(&out);
            let (_, last) = shown.rsplit_once(&format!("event: response.{kind}\ndata: ")).unwrap();
            assert_eq!(serde_json::from_str::<Value>(last).unwrap()["response"], whole);
        }
    }
}

/// A `json` block that is cut may look whole. In a message that is whole itself the call's flag tells.
#[test]
fn a_block_that_is_cut_is_no_whole_call() {
    let mut parser = Parser::new(Request::new().tools(["ls"]));
    let mut chat = Chat::new(IdPolicy::numbered(0));
    parser.push(&spell("{tools}{call tool=\"ls\"}{json}"), &mut chat);
    parser.push("{}", &mut chat);
    parser.finish("length", &mut chat);
    let message = chat.into_message().unwrap();
    assert_eq!((message.tool_calls[0].complete, &*message.tool_calls[0].arguments), (false, "{}"));
    let response = responses().whole(&message, "length", &USAGE);
    assert_eq!(response["output"][0]["status"], "incomplete");
    let whole = AnthropicMessages::new("m", "k3").message(&message, "length", None, &USAGE);
    let whole: Value = serde_json::from_str(whole.get()).unwrap();
    assert_eq!(whole["content"][0]["input"], "{}");
}
