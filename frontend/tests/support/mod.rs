//! A server for one test, and a client that looks at raw bytes.
//!
//! In: an engine, requests. Out: statuses, headers, bodies as they came, frames as JSON. Held: the server's task, which
//! ends with the test.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::PathBuf;
use std::sync::Arc;

use kimi_xtml_frontend::App;
use kimi_xtml_frontend::engine::Engine;
use kimi_xtml_frontend::engine::replay::Replay;
use kimi_xtml_frontend::engine::scripted::Scripted;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A server.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) client: reqwest::Client,
}

/// What a server answered.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: String,
}

/// Serves what the engine generates.
pub(crate) async fn serve(engine: impl Engine) -> Server {
    serve_app(App::new(Arc::new(engine), "kimi-k3")).await
}

pub(crate) async fn serve_app(app: App) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(app.serve(listener));
    Server { url, client: client() }
}

/// A client; TLS, which it never needs, has its cryptography.
pub(crate) fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

/// Serves the scripted engine.
pub(crate) async fn scripted() -> Server {
    serve(Scripted::default()).await
}

/// Serves one recorded stream of text deltas.
pub(crate) async fn recorded(opened: &str, finish: &str, chunks: &[&str]) -> Server {
    let record = json!({
        "id": "R", "chunks": chunks,
        "context": {"initial_channel": opened, "engine_finish_reason": finish},
    });
    serve(replaying(&record.to_string())).await
}

/// An engine that replays these records.
pub(crate) fn replaying(records: &str) -> Scripted {
    let mut replay = Replay::default();
    replay.add(records, "the test's records").unwrap();
    Scripted { replay, ..Scripted::default() }
}

impl Server {
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_bytes(path, body.to_string().into_bytes()).await
    }

    pub(crate) async fn post_bytes(&self, path: &str, body: Vec<u8>) -> Answer {
        let request = self.client.post(format!("{}{path}", self.url)).header("content-type", "application/json");
        Answer::of(request.body(body).send().await.unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.client.get(format!("{}{path}", self.url)).send().await.unwrap()).await
    }

    /// A chat completion of `words` with these further members.
    pub(crate) async fn chat(&self, words: &str, more: Value) -> Answer {
        self.post("/v1/chat/completions", &request(words, more)).await
    }
}

/// The body of a chat completion.
pub(crate) fn request(words: &str, more: Value) -> Value {
    let mut body = json!({"model": "kimi-k3", "messages": [{"role": "user", "content": words}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A tool as requests declare it.
pub(crate) fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"],
    }}})
}

impl Answer {
    async fn of(response: reqwest::Response) -> Answer {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = String::from_utf8(response.bytes().await.unwrap().to_vec()).unwrap();
        Answer { status, headers, body }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The data of each event, as it stands there.
    pub(crate) fn data(&self) -> Vec<&str> {
        let events = self.body.strip_suffix("\n\n").expect("the last event ends with a blank line").split("\n\n");
        events.map(|event| event.strip_prefix("data: ").expect("each event is one data line")).collect()
    }

    /// The frames; the stream ended well.
    pub(crate) fn frames(&self) -> Vec<Value> {
        let mut data = self.data();
        assert_eq!(data.pop(), Some("[DONE]"));
        data.into_iter().map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// The frames of one choice.
    pub(crate) fn choice(&self, index: usize) -> Vec<Value> {
        self.frames()
            .into_iter()
            .map(|frame| frame["choices"][0].clone())
            .filter(|choice| choice["index"] == index)
            .collect()
    }
}

/// The folder with cases and data that are no part of the project, if there is one.
pub(crate) fn data() -> Option<PathBuf> {
    std::env::var_os("KIMI_XTML_DATA").map(PathBuf::from)
}

/// What a client makes of the frames of a choice.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) reasoning: String,
    pub(crate) content: String,
    pub(crate) calls: Vec<(String, String)>,
    pub(crate) finish: String,
}

impl Said {
    pub(crate) fn of(choices: &[Value]) -> Said {
        let mut said = Said::default();
        for choice in choices {
            let delta = &choice["delta"];
            said.reasoning += delta["reasoning_content"].as_str().unwrap_or("");
            said.content += delta["content"].as_str().unwrap_or("");
            for call in delta["tool_calls"].as_array().into_iter().flatten() {
                if let Some(name) = call["function"]["name"].as_str() {
                    assert_eq!(call["index"], said.calls.len());
                    said.calls.push((name.into(), String::new()));
                }
                said.calls.last_mut().unwrap().1 += call["function"]["arguments"].as_str().unwrap();
            }
            said.finish += choice["finish_reason"].as_str().unwrap_or("");
        }
        said
    }

    pub(crate) fn of_message(choice: &Value) -> Said {
        let message = &choice["message"];
        let text = |key: &str| message[key].as_str().unwrap_or("").to_owned();
        let call = |call: &Value| {
            let part = |key: &str| call["function"][key].as_str().unwrap().to_owned();
            (part("name"), part("arguments"))
        };
        Said {
            reasoning: text("reasoning_content"),
            content: text("content"),
            calls: message["tool_calls"].as_array().into_iter().flatten().map(call).collect(),
            finish: choice["finish_reason"].as_str().unwrap().into(),
        }
    }
}

/// Every rule that holds for every stream, whatever the request. Gives the frames.
pub(crate) fn check_frames(answer: &Answer, choices: usize) -> Vec<Value> {
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "text/event-stream");
    assert!(!answer.body.contains("null,\"tool_calls\"") && !answer.body.contains("\"content\":null"));
    let frames = answer.frames();
    for key in ["id", "object", "created", "model"] {
        assert!(frames.iter().all(|frame| frame[key] == frames[0][key]), "{key} differs");
    }
    assert_eq!(frames[0]["object"], "chat.completion.chunk");
    assert!(frames[0]["created"].is_u64() && frames[0]["model"] == "kimi-k3");
    let id = frames[0]["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap();
    assert!(id.len() == 24 && id.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase()));
    for frame in frames.iter().filter(|frame| frame["choices"] != json!([])) {
        let listed = frame["choices"].as_array().unwrap();
        assert_eq!(listed.len(), 1);
        let choice = listed[0].as_object().unwrap();
        assert!(choice.contains_key("index") && choice.contains_key("delta") && choice.contains_key("finish_reason"));
        let delta = choice["delta"].as_object().unwrap();
        let parts = ["content", "reasoning_content", "tool_calls"].iter().filter(|key| delta.contains_key(**key));
        assert!(parts.count() <= 1);
        assert!(delta.values().all(|value| !value.is_null()));
    }
    for index in 0..choices {
        check_choice(&answer.choice(index));
    }
    frames
}

fn check_choice(choice: &[Value]) {
    assert_eq!(choice[0]["delta"], json!({"role": "assistant", "content": ""}));
    assert!(choice[1..].iter().all(|frame| frame["delta"].get("role").is_none()));
    let (end, rest) = choice.split_last().unwrap();
    assert!(rest.iter().all(|frame| frame["finish_reason"].is_null() && frame.get("usage").is_none()));
    assert!(["stop", "length", "tool_calls", "content_filter"].contains(&end["finish_reason"].as_str().unwrap()));
    assert_eq!(end["delta"], json!({}));
    check_usage(&end["usage"]);
    check_reasoning_end(rest);
    let calls: Vec<_> = rest.iter().filter_map(|frame| frame["delta"]["tool_calls"].get(0)).collect();
    let mut open = 0;
    for call in calls {
        if call.get("id").is_some() {
            assert_eq!(call["index"], open);
            assert_eq!(call["type"], "function");
            assert_eq!(call["function"]["arguments"], "");
            assert!(call["function"]["name"].is_string());
            open += 1;
        } else {
            assert_eq!(call["index"], open - 1, "frames of one call stand together");
            let keys: Vec<_> =
                call.as_object().unwrap().keys().chain(call["function"].as_object().unwrap().keys()).collect();
            assert_eq!(keys, ["function", "index", "arguments"]);
        }
    }
}

pub(crate) fn check_usage(usage: &Value) {
    let number =
        |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer}"));
    assert_eq!(number("/prompt_tokens") + number("/completion_tokens"), number("/total_tokens"));
    assert!(number("/completion_tokens_details/reasoning_tokens") <= number("/completion_tokens"));
    assert!(number("/prompt_tokens_details/cached_tokens") <= number("/prompt_tokens"));
}

/// One empty reasoning frame: after the last that is not empty, before the first content or call.
fn check_reasoning_end(frames: &[Value]) {
    let reasoning = |frame: &Value| frame["delta"]["reasoning_content"].as_str().map(str::to_owned);
    let said = |frame: &Value| reasoning(frame).is_some_and(|text| !text.is_empty());
    let ends: Vec<_> =
        (0..frames.len()).filter(|&at| reasoning(&frames[at]).is_some_and(|text| text.is_empty())).collect();
    let Some(first) = frames.iter().position(said) else {
        // Thinking that said nothing still ends, in the first frame after the role's.
        assert!(ends.is_empty() || ends == [1], "{ends:?}");
        return;
    };
    assert_eq!(ends.len(), 1);
    let other = |frame: &Value| frame["delta"].get("content").is_some() || frame["delta"].get("tool_calls").is_some();
    let begins = frames.iter().skip(1).position(other).map_or(frames.len(), |at| at + 1);
    assert!(first < ends[0] && ends[0] < begins, "thinking ends before anything else begins");
}
