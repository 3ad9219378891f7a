//! The rules of the frames, each by its name, on the bytes that a client gets.

mod support;

use serde_json::{Value, json};
use support::{Said, check_frames, check_usage, recorded, replaying, request, scripted, serve, tool};

const THINK_ANSWER: [&str; 6] = [
    "Let me",
    " see.<|close|>think<|sep|>",
    "<|open|>response<|sep|>",
    "It is",
    " 4",
    "<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>",
];

const CALLS: &str = "Two.<|close|>think<|sep|><|open|>response<|sep|>On it.<|close|>response<|sep|><|open|>tools<|sep|>\
    <|open|>call tool=\"get_weather\" index=\"1\"<|sep|><|open|>argument key=\"city\" type=\"string\"<|sep|>Lisbon<|close|>argument<|sep|><|close|>call<|sep|>\
    <|open|>call tool=\"get_time\" index=\"2\"<|sep|><|open|>argument key=\"zone\" type=\"number\"<|sep|>1e2<|close|>argument<|sep|><|close|>call<|sep|>\
    <|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>";

#[tokio::test]
async fn every_event_is_one_data_line_and_a_clean_run_ends_with_done() {
    let answer = recorded("think", "stop", &THINK_ANSWER).await.chat("x", json!({"stream": true})).await;
    assert_eq!(answer.header("content-type"), "text/event-stream");
    assert!(answer.body.ends_with("\n\ndata: [DONE]\n\n"));
    assert_eq!(answer.body.matches("[DONE]").count(), 1);
    for line in answer.body.split("\n\n").filter(|event| !event.is_empty()) {
        assert!(line.starts_with("data: ") && !line.contains('\n'));
    }
}

#[tokio::test]
async fn head_is_the_same_in_every_frame_the_summary_too() {
    let more = json!({"stream": true, "stream_options": {"include_usage": true}});
    let answer = recorded("think", "stop", &THINK_ANSWER).await.chat("x", more).await;
    let heads: Vec<_> =
        answer.data().iter().filter_map(|data| data.split_once(",\"choices\"")).map(|(head, _)| head).collect();
    assert_eq!(heads.len(), answer.data().len() - 1);
    assert!(heads.iter().all(|head| *head == heads[0]));
}

#[tokio::test]
async fn ids_sort_by_time_and_differ() {
    let server = scripted().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(server.chat("x", json!({})).await.json()["id"].as_str().unwrap().to_owned());
    }
    assert!(ids.is_sorted_by(|a, b| a < b));
    let seconds = u64::from_str_radix(&ids[0]["chatcmpl-".len()..][..8], 16).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((now - 60..=now).contains(&seconds));
}

#[tokio::test]
async fn first_frame_has_the_role_and_empty_content() {
    let answer = recorded("think", "stop", &THINK_ANSWER).await.chat("x", json!({"stream": true})).await;
    let choices = answer.choice(0);
    assert_eq!(choices[0], json!({"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}));
    assert_eq!(answer.body.matches("\"role\"").count(), 1);
}

#[tokio::test]
async fn one_choice_a_frame_also_when_choices_interleave() {
    let server = scripted().await;
    let answer =
        server.chat("one two three", json!({"stream": true, "n": 3, "stream_options": {"include_usage": true}})).await;
    let frames = check_frames(&answer, 3);
    let order: Vec<_> = frames.iter().filter_map(|frame| frame["choices"][0]["index"].as_u64()).collect();
    assert!(!order.is_sorted(), "the choices interleave");
    assert_eq!(Said::of(&answer.choice(0)).content, "one two three");
    assert_eq!(Said::of(&answer.choice(2)).content, "one two three (3)");
    // The prompt once, the completions of all choices.
    let sum: u64 =
        (0..3).map(|index| answer.choice(index).last().unwrap()["usage"]["completion_tokens"].as_u64().unwrap()).sum();
    let usage = &frames.last().unwrap()["usage"];
    assert_eq!(usage["completion_tokens"], sum);
    assert_eq!(usage["prompt_tokens"], answer.choice(0).last().unwrap()["usage"]["prompt_tokens"]);
}

#[tokio::test]
async fn characters_cut_between_tokens_come_whole() {
    let server = scripted().await;
    let answer = server.chat("a 🍲 b 😀", json!({"stream": true})).await;
    assert!(!answer.body.contains('\u{fffd}'));
    assert_eq!(Said::of(&answer.choice(0)).content, "a 🍲 b 😀");
    let record =
        json!({"id": "B", "byte_chunks_hex": ["f0", "9f8d", "b2"], "context": {"initial_channel": "response"}});
    let answer = serve(replaying(&record.to_string())).await.chat("x", json!({"stream": true})).await;
    assert_eq!(Said::of(&answer.choice(0)).content, "🍲");
}

#[tokio::test]
async fn one_empty_reasoning_frame_ends_thinking() {
    for chunks in [&THINK_ANSWER[..], &[&THINK_ANSWER.concat()], &["just thought"]] {
        let answer = recorded("think", "stop", chunks).await.chat("x", json!({"stream": true})).await;
        check_frames(&answer, 1);
        assert_eq!(answer.body.matches("\"reasoning_content\":\"\"").count(), 1);
    }
    let answer = recorded("response", "stop", &["no thought"]).await.chat("x", json!({"stream": true})).await;
    assert!(!answer.body.contains("reasoning_content"));
}

#[tokio::test]
async fn calls_begin_with_a_name_and_go_on_with_arguments() {
    let tools = json!({"stream": true, "tools": [tool("get_weather"), tool("get_time")]});
    let answer = recorded("think", "stop", &[CALLS]).await.chat("x", tools).await;
    check_frames(&answer, 1);
    let choices = answer.choice(0);
    let calls: Vec<_> = choices.iter().filter_map(|choice| choice["delta"]["tool_calls"].get(0)).collect();
    assert_eq!(
        *calls[0],
        json!({"index": 0, "id": "get_weather_0", "type": "function", "function": {"name": "get_weather", "arguments": ""}})
    );
    assert_eq!(*calls[1], json!({"index": 0, "function": {"arguments": "{\"city\":\"Lisbon\"}"}}));
    let said = Said::of(&choices);
    assert_eq!(said.calls[1], ("get_time".into(), "{\"zone\":1e2}".into()));
    assert_eq!(said.finish, "tool_calls");
}

#[tokio::test]
async fn call_ids_count_over_the_conversation() {
    let history = json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": "a_0", "type": "function", "function": {"name": "a", "arguments": "{}"}},
        {"id": "a_1", "type": "function", "function": {"name": "a", "arguments": "{}"}},
    ]});
    let mut body = request("get_weather get_time", json!({"tools": [tool("get_weather"), tool("get_time")]}));
    body["messages"] =
        json!([{"role": "user", "content": "x"}, history, {"role": "user", "content": "get_weather get_time"}]);
    let answer = scripted().await.post("/v1/chat/completions", &body).await.json();
    let ids: Vec<_> =
        answer["choices"][0]["message"]["tool_calls"].as_array().unwrap().iter().map(|call| &call["id"]).collect();
    assert_eq!(ids, ["get_weather_2", "get_time_3"]);
}

#[tokio::test]
async fn end_frame_carries_the_usage_and_no_frame_in_between_does() {
    let more = json!({"stream": true, "max_tokens": 20});
    let answer = scripted().await.chat("a b c d e f g h i j k l m n o p q r s t u v w x y z", more).await;
    let choices = answer.choice(0);
    let end = choices.last().unwrap();
    assert_eq!((&end["delta"], &end["finish_reason"]), (&json!({}), &json!("length")));
    assert_eq!(end["usage"]["completion_tokens"], 20);
    assert_eq!(answer.body.matches("\"usage\"").count(), 1);
    check_frames(&answer, 1);
}

#[tokio::test]
async fn reasoning_tokens_are_those_of_the_reasoning() {
    // "The user said something. I will repeat it." has 11 tokens; then a close of 3, an opener of 3, 2, and 7 for the end.
    let usage = scripted().await.chat("ab cd", json!({})).await.json()["usage"].clone();
    assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], 11);
    assert_eq!(usage["completion_tokens"], 11 + 3 + 3 + 2 + 7);
}

#[tokio::test]
async fn the_summary_frame_comes_only_when_asked_for() {
    let server = scripted().await;
    let with = json!({"stream": true, "n": 2, "stream_options": {"include_usage": true}});
    let frames = server.chat("x", with).await.frames();
    let (summary, rest) = frames.split_last().unwrap();
    assert_eq!(summary["choices"], json!([]));
    check_usage(&summary["usage"]);
    assert!(rest.iter().all(|frame| frame["choices"] != json!([]) && frame.get("usage").is_none()));
    for without in [json!({"stream": true}), json!({"stream": true, "stream_options": {"include_usage": false}})] {
        assert!(server.chat("x", without).await.frames().iter().all(|frame| frame["choices"] != json!([])));
    }
}

#[tokio::test]
async fn continuous_usage_stands_on_every_frame_and_only_grows() {
    let more = json!({"stream": true, "stream_options": {"continuous_usage_stats": true}});
    let frames = scripted().await.chat("one two three", more).await.frames();
    let reasoning = |frame: &Value| frame["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap();
    frames.iter().for_each(|frame| check_usage(&frame["usage"]));
    let counts: Vec<_> = frames.iter().map(reasoning).collect();
    assert!(counts.is_sorted() && counts[0] == 0 && counts[3] > counts[1]);
    let content = frames.iter().rposition(|frame| frame["choices"][0]["delta"]["content"] == " two").unwrap();
    assert!(counts[content..].iter().all(|count| *count == counts[content]));
    let completion: Vec<_> = frames.iter().map(|frame| frame["usage"]["completion_tokens"].as_u64().unwrap()).collect();
    assert!(completion.is_sorted());
}

#[tokio::test]
async fn internal_content_holds_the_tokens_that_made_an_increment() {
    let more =
        json!({"stream": true, "tools": [tool("get_weather")], "stream_options": {"include_internal_content": true}});
    let server = scripted().await;
    let answer = server.chat("🍲 <|open|> x", more.clone()).await;
    let mut ids = 0;
    for choice in answer.choice(0) {
        let delta = &choice["delta"];
        let text = delta["content"].as_str().or(delta["reasoning_content"].as_str()).unwrap_or("");
        let made = delta["internal_content"]["token_ids"].as_array().map_or(0, Vec::len);
        assert_eq!(made > 0, !text.is_empty(), "{delta}");
        assert_eq!(made == 2, text == "🍲", "{delta}");
        ids += made;
    }
    // All but the markup: `close(think) open(response)` and `close(response) close(message) end_of_msg`.
    let usage = answer.choice(0).last().unwrap()["usage"]["completion_tokens"].as_u64().unwrap() as usize;
    assert_eq!(ids, usage - 13);
    let answer = server.chat("get_weather", more).await;
    let calls: Vec<_> =
        answer.choice(0).into_iter().filter(|choice| choice["delta"].get("tool_calls").is_some()).collect();
    assert!(
        calls.iter().all(|choice| choice["delta"]["internal_content"]["token_ids"]
            .as_array()
            .is_some_and(|ids| !ids.is_empty()))
    );
    assert!(calls[0]["delta"]["internal_content"]["token_ids"].as_array().unwrap().contains(&json!(163_587)));
    let without = server.chat("x", json!({"stream": true})).await;
    assert!(!without.body.contains("internal_content"));
}

#[tokio::test]
async fn errors_before_the_stream_are_json_and_no_event_stream() {
    let answer = scripted().await.chat("x", json!({"stream": true, "tool_choice": "required"})).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.header("content-type"), "application/json");
    let error = &answer.json()["error"];
    assert!(
        error["message"].is_string() && error["type"] == "invalid_request_error" && error["param"] == "tool_choice"
    );
}

#[tokio::test]
async fn headers_tell_the_usage_of_the_prompt() {
    let server = scripted().await;
    let mut body = request("x", json!({}));
    body["messages"] = json!([
        {"role": "user", "content": "long ago"}, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "and now"}
    ]);
    let whole = server.post("/v1/chat/completions", &body).await;
    let usage = &whole.json()["usage"];
    body["stream"] = true.into();
    let streamed = server.post("/v1/chat/completions", &body).await;
    for answer in [&whole, &streamed] {
        assert_eq!(answer.header("x-msh-usage-prompt-tokens"), usage["prompt_tokens"].to_string());
        assert_eq!(
            answer.header("x-msh-usage-cached-tokens"),
            usage["prompt_tokens_details"]["cached_tokens"].to_string()
        );
    }
    assert!(usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() > 0);
    assert_eq!(streamed.choice(0).last().unwrap()["usage"], *usage);
}

#[tokio::test]
async fn stop_cuts_content_and_nothing_else() {
    let chunks = [
        "Think of END<|close|>think<|sep|>",
        "<|open|>response<|sep|>one E",
        "N",
        "ow two EN",
        "D three",
        "<|close|>response<|sep|>",
    ];
    for stream in [true, false] {
        for stop in [json!("END"), json!(["xyz", "END"]), json!(["END three", "END"])] {
            let answer =
                recorded("think", "stop", &chunks).await.chat("x", json!({"stream": stream, "stop": stop})).await;
            let said =
                if stream { Said::of(&answer.choice(0)) } else { Said::of_message(&answer.json()["choices"][0]) };
            assert_eq!((&*said.reasoning, &*said.content, &*said.finish), ("Think of END", "one ENow two ", "stop"));
        }
    }
    let call = CALLS.replace("Lisbon", "LisEND");
    let more = json!({"stream": true, "stop": "END", "tools": [tool("get_weather")]});
    let said = Said::of(&recorded("think", "stop", &[&call]).await.chat("x", more).await.choice(0));
    assert_eq!(said.calls[0].1, "{\"city\":\"LisEND\"}");
    assert_eq!(said.finish, "tool_calls");
}

#[tokio::test]
async fn a_stop_string_that_does_not_come_holds_nothing_back_in_the_end() {
    let said =
        recorded("response", "length", &["a", "b EN"]).await.chat("x", json!({"stream": true, "stop": "END"})).await;
    assert_eq!(Said::of(&said.choice(0)).content, "ab EN");
}

#[tokio::test]
async fn stop_ends_the_usage_with_the_stop_string() {
    let usage = scripted().await.chat("ab END cd ef gh", json!({"stop": "END"})).await.json()["usage"].clone();
    assert_eq!(usage["completion_tokens"], 11 + 3 + 3 + 2);
}

#[tokio::test]
async fn logprobs_are_those_of_the_tokens_of_just_that_text() {
    let server = scripted().await;
    let words = "Soup 🍲 is <|close|> good";
    let answer = server.chat(words, json!({"stream": true, "logprobs": true, "top_logprobs": 2})).await;
    let choices = answer.choice(0);
    assert!(choices[0].get("logprobs").is_none());
    let mut bytes = Vec::new();
    for choice in &choices[1..] {
        let Some(content) = choice["delta"]["content"].as_str() else {
            assert!(choice.get("logprobs").is_none());
            continue;
        };
        let listed = choice["logprobs"]["content"].as_array().unwrap();
        let of_frame: Vec<u8> = listed.iter().flat_map(token_bytes).collect();
        assert_eq!(of_frame, content.as_bytes());
        bytes.extend(of_frame);
        for token in listed {
            assert!(token["token"].is_string() && token["logprob"].is_f64());
            assert_eq!(token["top_logprobs"].as_array().unwrap().len(), 2);
        }
    }
    assert_eq!(bytes, words.as_bytes());
    let whole = server.chat(words, json!({"logprobs": true})).await.json();
    let listed = whole["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(listed.iter().flat_map(token_bytes).collect::<Vec<u8>>(), words.as_bytes());
    assert!(!server.chat(words, json!({"stream": true})).await.body.contains("logprobs"));
}

fn token_bytes(token: &Value) -> Vec<u8> {
    token["bytes"].as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8).collect()
}

#[tokio::test]
async fn thinking_chooses_the_channel_that_the_prompt_opens() {
    let server = scripted().await;
    for (thinking, thinks) in [("enabled", true), ("disabled", false)] {
        let more = json!({"stream": true, "thinking": {"type": thinking}});
        let said = Said::of(&server.chat("hi", more).await.choice(0));
        assert_eq!((said.reasoning.is_empty(), &*said.content), (!thinks, "hi"));
    }
    let answer = server.chat("hi", json!({"thinking": {"type": "sometimes"}})).await;
    assert_eq!((answer.status, answer.json()["error"]["param"].clone()), (400, json!("thinking.type")));
}

#[tokio::test]
async fn tool_choice_is_kept() {
    let server = scripted().await;
    let said = async |more: Value| {
        let answer = server.chat(more["words"].as_str().unwrap_or("hello").to_owned().as_str(), more).await;
        Said::of_message(&answer.json()["choices"][0])
    };
    let tools = json!([tool("get_weather"), tool("get_time")]);
    assert_eq!(said(json!({"tools": tools, "tool_choice": "required"})).await.calls[0].0, "get_weather");
    let named = json!({"type": "function", "function": {"name": "get_time"}});
    assert_eq!(said(json!({"tools": tools, "tool_choice": named})).await.calls[0].0, "get_time");
    assert!(said(json!({"tools": tools})).await.calls.is_empty());
    assert!(said(json!({"tools": tools, "tool_choice": "none", "words": "use get_time"})).await.calls.is_empty());
    assert_eq!(said(json!({"tools": tools, "words": "use get_time"})).await.calls[0].0, "get_time");
    let other = json!({"type": "function", "function": {"name": "other"}});
    assert_eq!(server.chat("x", json!({"tools": tools, "tool_choice": other})).await.status, 400);
}

#[tokio::test]
async fn calls_come_in_parallel_unless_told_otherwise() {
    let server = scripted().await;
    let tools = json!([tool("get_weather"), tool("get_time")]);
    for (parallel, calls) in [(true, 2), (false, 1)] {
        let more = json!({"stream": true, "tools": tools, "parallel_tool_calls": parallel});
        let answer = server.chat("get_weather and get_time", more).await;
        check_frames(&answer, 1);
        let said = Said::of(&answer.choice(0));
        assert_eq!(said.calls.len(), calls);
        for (_, arguments) in said.calls {
            let arguments: Value = serde_json::from_str(&arguments).unwrap();
            assert!(arguments["city"].is_string() && (1..=9).contains(&arguments["days"].as_i64().unwrap()));
        }
    }
}

#[tokio::test]
async fn tools_that_were_not_declared_are_not_called() {
    let answer = recorded("think", "stop", &[CALLS]).await.chat("x", json!({"stream": true})).await;
    let said = Said::of(&answer.choice(0));
    assert_eq!((said.calls.len(), &*said.content, &*said.finish), (0, "On it.", "stop"));
}

#[tokio::test]
async fn a_stream_that_is_cut_says_what_was_said_and_length() {
    let cut = &CALLS[..CALLS.find("bon").unwrap()];
    let more = json!({"stream": true, "tools": [tool("get_weather")]});
    let answer = recorded("think", "length", &[cut]).await.chat("x", more).await;
    check_frames(&answer, 1);
    let said = Said::of(&answer.choice(0));
    assert_eq!(said.calls[0].1, "{\"city\":\"Lis");
    assert_eq!(said.finish, "length");
}
