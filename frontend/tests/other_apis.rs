//! The Messages and Responses APIs, on the bytes that a client gets.

mod support;

use serde_json::{Value, json};
use support::{Answer, recorded, replaying, scripted, serve};

const SCHEMA: &str = r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#;

fn messages(words: &str, more: Value) -> Value {
    let mut body = json!({"model": "kimi-k3", "max_tokens": 1000, "messages": [{"role": "user", "content": words}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn responses(words: &str, more: Value) -> Value {
    let mut body = json!({"model": "kimi-k3", "input": words});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The data of each event; its type is that of the event.
fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/event-stream"));
    let events = answer.body.strip_suffix("\n\n").unwrap().split("\n\n");
    let event = |event: &str| {
        let (kind, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], kind);
        data
    };
    events.map(event).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    kinds.dedup();
    kinds
}

const TURN: &str = "Hm.<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|><|open|>tools<|sep|>\
    <|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"n\" type=\"number\"<|sep|>1e2<|close|>argument<|sep|><|close|>call<|sep|>\
    <|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>";

#[tokio::test]
async fn messages_stream_blocks_of_thinking_text_and_tool_use() {
    let server = recorded("think", "stop", &[TURN]).await;
    let tools = json!([{"name": "f", "input_schema": {"type": "object"}}]);
    let answer = server.post("/v1/messages", &messages("x", json!({"tools": tools, "stream": true}))).await;
    let events = events(&answer);
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let expected = [&["message_start"][..], &block, &block, &block, &["message_delta", "message_stop"]].concat();
    assert_eq!(kinds(&events), expected);
    let starts: Vec<_> = events.iter().filter_map(|event| event["content_block"]["type"].as_str()).collect();
    assert_eq!(starts, ["thinking", "text", "tool_use"]);
    let indexes: Vec<_> = events.iter().filter_map(|event| event["index"].as_u64()).collect();
    assert!(indexes.is_sorted() && indexes.last() == Some(&2));
    let input: String = events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(input, r#"{"n":1e2}"#);
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    assert!(end["usage"]["output_tokens"].as_u64().unwrap() > 0);

    let whole = server.post("/v1/messages", &messages("x", json!({"tools": tools}))).await;
    let blocks: Vec<_> =
        whole.json()["content"].as_array().unwrap().iter().map(|block| block["type"].clone()).collect();
    assert_eq!(blocks, ["thinking", "text", "tool_use"]);
    assert!(whole.body.contains(r#""input":{"n":1e2}"#), "numbers keep their spelling");
    assert_eq!(whole.json()["stop_reason"], "tool_use");
    assert_eq!(whole.header("x-msh-usage-prompt-tokens"), whole.json()["usage"]["input_tokens"].to_string());
}

#[tokio::test]
async fn messages_think_only_when_asked() {
    let server = scripted().await;
    let types = async |more: Value| {
        let answer = server.post("/v1/messages", &messages("hi", more)).await.json();
        answer["content"].as_array().unwrap().iter().map(|block| block["type"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(types(json!({})).await, ["text"]);
    assert_eq!(types(json!({"thinking": {"type": "disabled"}})).await, ["text"]);
    assert_eq!(types(json!({"thinking": {"type": "enabled", "budget_tokens": 1024}})).await, ["thinking", "text"]);
}

#[tokio::test]
async fn messages_keep_tool_choice_results_and_stop_sequences() {
    let server = scripted().await;
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let tools = json!([{"name": "f", "input_schema": schema}, {"name": "g", "input_schema": schema}]);
    for (choice, name) in [(json!({"type": "any"}), "f"), (json!({"type": "tool", "name": "g"}), "g")] {
        let answer =
            server.post("/v1/messages", &messages("x", json!({"tools": tools, "tool_choice": choice}))).await.json();
        assert_eq!(answer["content"][0]["name"], name);
        assert!(answer["content"][0]["input"]["city"].is_string());
        assert!(answer["content"][0]["id"].as_str().unwrap().starts_with("toolu_"));
    }
    let mut body = messages("x", json!({"tools": tools}));
    body["messages"] = json!([
        {"role": "user", "content": "f"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": ""}, {"type": "tool_use", "id": "1", "name": "f", "input": {"city": "x"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "rain"}]}]},
    ]);
    let answer = server.post("/v1/messages", &body).await.json();
    assert_eq!(
        (&answer["content"][0]["text"], &answer["stop_reason"]),
        (&json!("The tool says: rain"), &json!("end_turn"))
    );
    let answer = server.post("/v1/messages", &messages("one END two", json!({"stop_sequences": ["END"]}))).await.json();
    assert_eq!(answer["content"][0]["text"], "one ");
    assert_eq!((&answer["stop_reason"], &answer["stop_sequence"]), (&json!("stop_sequence"), &json!("END")));
    let answer = server.post("/v1/messages", &messages("one two three", json!({"max_tokens": 1}))).await.json();
    assert_eq!((&answer["content"][0]["text"], &answer["stop_reason"]), (&json!("one"), &json!("max_tokens")));
}

#[tokio::test]
async fn messages_errors_have_the_apis_shape() {
    let server = scripted().await;
    for (body, status, kind) in [
        (json!({"model": "kimi-k3", "messages": []}), 400, "invalid_request_error"),
        (json!({"model": "kimi-k3", "messages": [], "max_tokens": 5}), 400, "invalid_request_error"),
        (
            json!({"model": "kimi-k3", "messages": [{"role": "user", "content": 4}], "max_tokens": 5}),
            400,
            "invalid_request_error",
        ),
        (messages("x", json!({"model": "gpt-9"})), 404, "not_found_error"),
        (messages("x", json!({"tool_choice": {"type": "any"}})), 400, "invalid_request_error"),
    ] {
        let answer = server.post("/v1/messages", &body).await;
        assert_eq!(
            (answer.status, &answer.json()["type"], &answer.json()["error"]["type"]),
            (status, &json!("error"), &json!(kind))
        );
    }
}

#[tokio::test]
async fn responses_stream_items_and_repeat_them_at_the_end() {
    let server = recorded("think", "stop", &[TURN]).await;
    let tools = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
    let answer = server.post("/v1/responses", &responses("x", json!({"tools": tools, "stream": true}))).await;
    let events = events(&answer);
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    assert_eq!(
        kinds(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.reasoning_text.delta",
            "response.reasoning_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let response = &events.last().unwrap()["response"];
    let done: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| event["item"].clone())
        .collect();
    assert_eq!(response["output"], json!(done));
    assert_eq!(done[1]["content"][0]["text"], "Yes.");
    assert_eq!(done[2]["arguments"], r#"{"n":1e2}"#);
    assert_eq!((&response["tools"], &response["tool_choice"]), (&tools, &json!("auto")));

    let whole = server.post("/v1/responses", &responses("x", json!({"tools": tools}))).await.json();
    let texts = |response: &Value| -> Vec<Value> {
        response["output"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["arguments"].as_str().map_or(item["content"].clone(), Value::from))
            .collect()
    };
    assert_eq!(texts(&whole), texts(response));
    assert_eq!((&whole["status"], &whole["usage"]), (&json!("completed"), &response["usage"]));
}

#[tokio::test]
async fn responses_that_are_cut_are_incomplete() {
    let record = json!({"id": "R", "chunks": [&TURN[..TURN.find("1e2").unwrap() + 1]],
        "context": {"initial_channel": "think", "engine_finish_reason": "length"}});
    let server = serve(replaying(&record.to_string())).await;
    let tools = json!([{"type": "function", "name": "f"}]);
    let answer = server.post("/v1/responses", &responses("x", json!({"tools": tools, "stream": true}))).await;
    let events = events(&answer);
    let response = &events.last().unwrap()["response"];
    assert_eq!(events.last().unwrap()["type"], "response.incomplete");
    assert_eq!(response["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(response["output"][2]["status"], "incomplete");
    let whole = server.post("/v1/responses", &responses("x", json!({"tools": tools}))).await.json();
    assert_eq!((&whole["status"], &whole["output"][2]["status"]), (&json!("incomplete"), &json!("incomplete")));
}

#[tokio::test]
async fn responses_take_items_and_instructions() {
    let server = scripted().await;
    let input = json!([
        {"role": "user", "content": [{"type": "input_text", "text": "f"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "rain"},
    ]);
    let tools = json!([{"type": "function", "name": "f"}]);
    let body = json!({"model": "kimi-k3", "input": input, "instructions": "Be kind.", "tools": tools, "reasoning": {"effort": "none"}});
    let answer = server.post("/v1/responses", &body).await.json();
    assert_eq!(answer["output"][0]["content"][0]["text"], "The tool says: rain");
    assert_eq!(answer["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
    for (more, param) in [
        (json!({"previous_response_id": "resp_1"}), "previous_response_id"),
        (json!({"tools": [{"type": "function", "name": "f"}, {"type": "web_search"}]}), "tools[1].type"),
        (json!({"input": []}), "input"),
        (json!({"input": 4}), "input"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"max_output_tokens": 0}), "max_output_tokens"),
    ] {
        let answer = server.post("/v1/responses", &responses("x", more)).await;
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!(param)));
    }
}

/// A namespace and a tool's own name are one name for the model, and two for the client.
#[tokio::test]
async fn tools_in_namespaces_are_called_by_both_names() {
    let server = scripted().await;
    let inner = json!({"type": "function", "name": "read", "parameters": {"type": "object"}});
    let tools = json!([{"type": "namespace", "name": "files", "tools": [inner]}]);
    let answer = server.post("/v1/responses", &responses("files__read", json!({"tools": tools}))).await.json();
    let output = answer["output"].as_array().unwrap();
    let call = output.iter().find(|item| item["type"] == "function_call").unwrap();
    assert_eq!((&call["name"], &call["namespace"]), (&json!("read"), &json!("files")), "{call}");
    let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "rain"});
    let body = json!({"model": "kimi-k3", "input": [call, result], "tools": tools});
    let answer = server.post("/v1/responses", &body).await.json();
    assert_eq!(answer["output"].as_array().unwrap().last().unwrap()["content"][0]["text"], "The tool says: rain");
}

/// A count is that of the prompt that the same request has, and needs no `max_tokens`.
#[tokio::test]
async fn counts_are_those_of_the_same_prompt() {
    let server = scripted().await;
    let tools = json!([{"name": "f", "input_schema": {"type": "object"}}]);
    let asked = messages("Count these words.", json!({"system": "Be kind.", "tools": tools}));
    let usage = server.post("/v1/messages", &asked).await.json()["usage"].clone();
    let read = ["input_tokens", "cache_read_input_tokens"].map(|name| usage[name].as_u64().unwrap_or(0));
    let mut counted = asked;
    counted.as_object_mut().unwrap().remove("max_tokens");
    let count = server.post("/v1/messages/count_tokens", &counted).await.json();
    assert_eq!(count, json!({"input_tokens": read.iter().sum::<u64>()}));
    assert_eq!(server.post("/v1/messages/count_tokens", &json!({"model": "kimi-k3"})).await.status, 400);
}
