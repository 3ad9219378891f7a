//! The words of two more APIs: Anthropic's Messages and OpenAI's Responses.
//!
//! In: a stream with reasoning, an answer and two calls, one of them cut. Out: the events that `Messages` and `Responses`
//! write for its deltas, and what they say of its message.

use bytes::BytesMut;
use expect_test::expect;
use kimi_xtml::{
    AnthropicMessages, Channel, Chat, Delta, Extras, IdPolicy, Logprob, Message, Parser, Request, Responses, Usage,
};
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
        data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"k\":\"v\""}}
        event: content_block_delta
        data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"}"}}
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
    expect![[r#"{"id":"m","type":"message","role":"assistant","model":"k3","content":[{"type":"thinking","thinking":"Hm","signature":""},{"type":"text","text":"See \"it\"."},{"type":"tool_use","id":"ls_0","name":"ls","input":{"k":"v"}},{"type":"tool_use","id":"cat_1","name":"cat","input":{}}],"stop_reason":"max_tokens","stop_sequence":null,"usage":{"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":7}}"#]].assert_eq(messages.message(&message(), "length", None, &USAGE).get());
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
        data: {"type":"response.created","sequence_number":0,"response":{"created_at":7,"id":"r","model":"k3","object":"response","parallel_tool_calls":true,"tool_choice":"auto","tools":[],"status":"in_progress","error":null,"incomplete_details":null,"output":[],"usage":null}}
        event: response.in_progress
        data: {"type":"response.in_progress","sequence_number":1,"response":{"created_at":7,"id":"r","model":"k3","object":"response","parallel_tool_calls":true,"tool_choice":"auto","tools":[],"status":"in_progress","error":null,"incomplete_details":null,"output":[],"usage":null}}
        event: response.output_item.added
        data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"type":"reasoning","id":"rs_r_0","summary":[],"status":"in_progress","content":[]}}
        event: response.content_part.added
        data: {"type":"response.content_part.added","sequence_number":3,"item_id":"rs_r_0","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":""}}
        event: response.reasoning_text.delta
        data: {"type":"response.reasoning_text.delta","item_id":"rs_r_0","output_index":0,"content_index":0,"sequence_number":4,"delta":"Hm"}
        event: response.reasoning_text.done
        data: {"type":"response.reasoning_text.done","sequence_number":5,"item_id":"rs_r_0","output_index":0,"content_index":0,"text":"Hm"}
        event: response.content_part.done
        data: {"type":"response.content_part.done","sequence_number":6,"item_id":"rs_r_0","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":"Hm"}}
        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":{"type":"reasoning","id":"rs_r_0","summary":[],"status":"completed","content":[{"type":"reasoning_text","text":"Hm"}]}}
        event: response.output_item.added
        data: {"type":"response.output_item.added","sequence_number":8,"output_index":1,"item":{"type":"message","id":"msg_r_1","role":"assistant","status":"in_progress","content":[]}}
        event: response.content_part.added
        data: {"type":"response.content_part.added","sequence_number":9,"item_id":"msg_r_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        event: response.output_text.delta
        data: {"type":"response.output_text.delta","item_id":"msg_r_1","output_index":1,"content_index":0,"sequence_number":10,"delta":"See \"it\".","logprobs":[]}
        event: response.output_text.done
        data: {"type":"response.output_text.done","sequence_number":11,"item_id":"msg_r_1","output_index":1,"content_index":0,"text":"See \"it\".","logprobs":[]}
        event: response.content_part.done
        data: {"type":"response.content_part.done","sequence_number":12,"item_id":"msg_r_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"See \"it\".","annotations":[],"logprobs":[]}}
        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":13,"output_index":1,"item":{"type":"message","id":"msg_r_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"See \"it\".","annotations":[],"logprobs":[]}]}}
        event: response.output_item.added
        data: {"type":"response.output_item.added","sequence_number":14,"output_index":2,"item":{"type":"function_call","id":"fc_r_2","call_id":"ls_0","name":"ls","status":"in_progress","arguments":""}}
        event: response.function_call_arguments.delta
        data: {"type":"response.function_call_arguments.delta","item_id":"fc_r_2","output_index":2,"sequence_number":15,"delta":"{\"k\":\"v\"}"}
        event: response.function_call_arguments.done
        data: {"type":"response.function_call_arguments.done","sequence_number":16,"item_id":"fc_r_2","output_index":2,"arguments":"{\"k\":\"v\"}"}
        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":17,"output_index":2,"item":{"type":"function_call","id":"fc_r_2","call_id":"ls_0","name":"ls","status":"completed","arguments":"{\"k\":\"v\"}"}}
        event: response.output_item.added
        data: {"type":"response.output_item.added","sequence_number":18,"output_index":3,"item":{"type":"function_call","id":"fc_r_3","call_id":"cat_1","name":"cat","status":"in_progress","arguments":""}}
        event: response.function_call_arguments.delta
        data: {"type":"response.function_call_arguments.delta","item_id":"fc_r_3","output_index":3,"sequence_number":19,"delta":"{\"n\":\"wh"}
        event: response.function_call_arguments.done
        data: {"type":"response.function_call_arguments.done","sequence_number":20,"item_id":"fc_r_3","output_index":3,"arguments":"{\"n\":\"wh"}
        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":21,"output_index":3,"item":{"type":"function_call","id":"fc_r_3","call_id":"cat_1","name":"cat","status":"incomplete","arguments":"{\"n\":\"wh"}}
        event: response.incomplete
        data: {"type":"response.incomplete","sequence_number":22,"response":{"created_at":7,"id":"r","model":"k3","object":"response","parallel_tool_calls":true,"tool_choice":"auto","tools":[],"status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"reasoning","id":"rs_r_0","summary":[],"status":"completed","content":[{"type":"reasoning_text","text":"Hm"}]},{"type":"message","id":"msg_r_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"See \"it\".","annotations":[],"logprobs":[]}]},{"type":"function_call","id":"fc_r_2","call_id":"ls_0","name":"ls","status":"completed","arguments":"{\"k\":\"v\"}"},{"type":"function_call","id":"fc_r_3","call_id":"cat_1","name":"cat","status":"incomplete","arguments":"{\"n\":\"wh"}],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":17}}}
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
        data: {"type":"response.output_text.done","sequence_number":4,"item_id":"msg_r_0","output_index":0,"content_index":0,"text":"ab","logprobs":[]}
        event: response.content_part.done
        data: {"type":"response.content_part.done","sequence_number":5,"item_id":"msg_r_0","output_index":0,"content_index":0,"part":{"type":"output_text","text":"ab","annotations":[],"logprobs":[]}}
        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":6,"output_index":0,"item":{"type":"message","id":"msg_r_0","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"ab","annotations":[],"logprobs":[]}]}}
        event: response.failed
        data: {"type":"response.failed","sequence_number":7,"response":{"created_at":7,"id":"r","model":"k3","object":"response","parallel_tool_calls":true,"tool_choice":"auto","tools":[],"status":"failed","error":{"code":"server_error","message":"it broke"},"incomplete_details":null,"output":[{"type":"message","id":"msg_r_0","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"ab","annotations":[],"logprobs":[]}]}],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":17}}}
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
    assert_eq!(whole["content"][0]["input"], json!({}));
}

fn of(messages: &AnthropicMessages, message: &Message) -> Value {
    serde_json::from_str(messages.message(message, "stop", None, &USAGE).get()).unwrap()
}

/// What a client of the Messages API has when the stream has ended.
fn accumulated(out: &BytesMut) -> Vec<Value> {
    let mut blocks: Vec<(Value, String)> = Vec::new();
    for data in shown(out).lines().filter_map(|line| line.strip_prefix("data: ")) {
        let event: Value = serde_json::from_str(data).unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => blocks.push((event["content_block"].clone(), String::new())),
            "content_block_delta" => {
                let (_, said) = blocks.last_mut().unwrap();
                let delta = &event["delta"];
                let more = ["text", "thinking", "partial_json"].into_iter().find_map(|key| delta[key].as_str());
                *said += more.unwrap();
            }
            _ => {}
        }
    }
    let block = |(mut block, said): (Value, String)| {
        match &*block["type"].as_str().unwrap().to_owned() {
            "tool_use" if !said.is_empty() => block["input"] = serde_json::from_str(&said).unwrap(),
            "tool_use" => {}
            kind => block[kind] = json!(said),
        }
        block
    };
    blocks.into_iter().map(block).collect()
}

/// Reasoning and text that take turns keep their order in both APIs, streamed and whole alike.
#[test]
fn alternating_parts_keep_their_order() {
    let mut parser = Parser::new(Request::new().opened(Channel::Think).tools(["ls"]));
    let mut chat = Chat::new(IdPolicy::numbered(0));
    let (mut streamed, mut items) = (AnthropicMessages::new("m", "k3"), responses());
    let (mut out, mut out_items) = (BytesMut::new(), BytesMut::new());
    let stream = "a{/think}{response}b{/response}{think}c{/think}{think}{/think}{response}d{/response}{response}e{/response}\
                  {tools}{call tool=\"ls\"}{json}not json{/json}{/call}{call tool=\"ls\"}{argument key=\"k\" type=\"object\"}\
                  [\"\\ud800\"]{/argument}{/call}{/tools}{response}f{/response}";
    for c in spell(stream).chars() {
        parser.push(c.encode_utf8(&mut [0; 4]), &mut chat);
        for delta in chat.deltas() {
            streamed.delta(delta, &mut out);
            items.delta(delta, &mut out_items);
        }
        chat.clear();
    }
    let reason = parser.finish("stop", &mut chat);
    items.end(reason, &USAGE, &mut out_items);
    let message = chat.into_message().unwrap();
    let whole = of(&AnthropicMessages::new("m", "k3"), &message);
    let said: Vec<_> = accumulated(&out);
    assert_eq!(json!(said), whole["content"]);
    let kinds: Vec<_> = said.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "thinking", "text", "tool_use", "tool_use", "text"]);
    assert_eq!(said[3]["text"], "de");
    assert_eq!(said[4]["input"], json!({"INVALID_JSON": "not json"}));
    assert_eq!(said[5]["input"], json!({"k": ["\u{fffd}"]}));
    assert_eq!(responses().whole(&message, reason, &USAGE), items.response());
    let kinds: Vec<_> =
        items.response()["output"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    let (reasoning, message, call) = ("reasoning", "message", "function_call");
    assert_eq!(kinds, [reasoning, message, reasoning, message, call, call, message]);
}

/// The item that a limit cut is incomplete, and a call whatever its arguments look like; what came before is not.
#[test]
fn statuses_are_true() {
    let statuses = |stream: &str, reason: &str| {
        let mut parser = Parser::new(Request::new().opened(Channel::Think).tools(["ls"]));
        let mut chat = Chat::default();
        parser.push(&spell(stream), &mut chat);
        let reason = parser.finish(reason, &mut chat);
        let (mut events, mut out) = (responses(), BytesMut::new());
        chat.deltas().for_each(|delta| events.delta(delta, &mut out));
        events.end(reason, &USAGE, &mut out);
        assert_eq!(responses().whole(chat.message().unwrap(), reason, &USAGE), events.response());
        let response = events.response();
        let items =
            response["output"].as_array().unwrap().iter().map(|item| item["status"].as_str().unwrap().to_owned());
        items.collect::<Vec<_>>()
    };
    assert_eq!(statuses("Hm", "length"), ["incomplete"]);
    assert_eq!(statuses("Hm", "stop"), ["completed"]);
    assert_eq!(statuses("Hm{/think}{response}x", "length"), ["completed", "incomplete"]);
    assert_eq!(statuses("Hm{/think}{response}x{/response}", "eos"), ["completed", "completed"]);
    let call = "{/think}{tools}{call tool=\"ls\"}{json}{}";
    assert_eq!(statuses(call, "length"), ["incomplete"]);
    assert_eq!(statuses(&format!("{call}{{/json}}{{/call}}{{/tools}}"), "length"), ["completed"]);
}

/// After its end, or its failure, a stream writes nothing.
#[test]
fn streams_end_once() {
    let mut out = BytesMut::new();
    for fails in [false, true] {
        let (mut events, mut items) = (AnthropicMessages::new("m", "k3"), responses());
        let mut end = |out: &mut BytesMut| {
            if fails {
                events.error("api_error", "gone", out);
                items.failed("server_error", "gone", &USAGE, out);
            }
            events.end("stop", None, &USAGE, out);
            events.delta(Delta::Content("x"), out);
            items.end("stop", &USAGE, out);
            items.delta(Delta::Content("x"), out);
            items.failed("server_error", "gone", &USAGE, out);
            events.error("api_error", "gone", out);
        };
        out.clear();
        end(&mut out);
        let last = [("message_stop", "response.completed"), ("error", "response.failed")][usize::from(fails)];
        let shown = shown(&out);
        let kinds: Vec<_> = shown.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
        let first = if fails { vec![last.0, last.1] } else { vec!["message_delta", last.0, last.1] };
        assert_eq!(kinds, first);
        out.clear();
        end(&mut out);
        assert!(out.is_empty());
    }
}

#[test]
fn log_probabilities_are_in_each_event_that_has_the_text() {
    let (mut events, mut out) = (responses(), BytesMut::new());
    for text in ["a", "b"] {
        let logprobs = [None, Some(Logprob::new(text, -0.5))];
        events.delta_with(Delta::Content(text), Extras::new().with_logprobs(&logprobs), &mut out);
        events.delta_with(Delta::Reasoning(""), Extras::new().with_logprobs(&logprobs), &mut out);
    }
    events.end("stop", &USAGE, &mut out);
    let tokens = |logprobs: &Value| {
        let tokens = logprobs.as_array().unwrap().iter().map(|entry| entry["token"].as_str().unwrap().to_owned());
        tokens.collect::<String>()
    };
    let shown = shown(&out);
    let data = shown.lines().filter_map(|line| line.strip_prefix("data: "));
    let data: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    let said: Vec<_> =
        data.iter().filter(|event| event["logprobs"].is_array()).map(|event| tokens(&event["logprobs"])).collect();
    assert_eq!(said, ["a", "b", "ab"]);
    assert_eq!(tokens(&events.response()["output"][0]["content"][0]["logprobs"]), "ab");
}

/// Python's `splitlines` ends a line at these, and with it the event.
#[test]
fn no_line_ends_within_an_event() {
    let (mut events, mut out) = (responses(), BytesMut::new());
    events.delta(Delta::Content("x\u{2028}data: [DONE]\u{85}\u{2029}"), &mut out);
    events.end("stop", &USAGE, &mut out);
    assert!(!shown(&out).contains(['\u{2028}', '\u{2029}', '\u{85}']));
}
