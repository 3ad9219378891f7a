//! What the frontend makes of engines: one that breaks off, one that is left by its client, one that is slow to be
//! read, and one behind HTTP.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use kimi_xtml::Channel;
use kimi_xtml_frontend::engine::upstream::{Settings, Upstream};
use kimi_xtml_frontend::engine::{Chunk, Engine, EngineError, Generation, Job, Step, Steps};
use serde_json::{Value, json};
use support::{Said, Server, check_frames, request, serve, tool};
use tokio::net::TcpListener;

fn generation(opened: Channel, steps: Steps) -> Generation {
    Generation { prompt_tokens: 3, cached_tokens: 0, counted: true, opened: Some(opened), steps }
}

/// Says these steps, then breaks off, with an error or without.
struct Breaking(Vec<&'static str>, Option<EngineError>);

impl Engine for Breaking {
    fn start(&self, _: Job, choices: usize) -> BoxFuture<'_, Result<Vec<Generation>, EngineError>> {
        let said = self.0.iter().map(|text| Ok(Step { chunks: vec![Chunk::Text((*text).into())], ..Step::default() }));
        let steps: Vec<_> = said.chain(self.1.clone().map(Err)).collect();
        let one = move |_| generation(Channel::Think, Box::pin(futures_util::stream::iter(steps.clone())));
        Box::pin(async move { Ok((0..choices).map(one).collect()) })
    }
}

#[tokio::test]
async fn a_generation_that_breaks_off_ends_with_what_was_said() {
    let said = vec![
        "Go.<|close|>think<|sep|><|open|>tools<|sep|><|open|>call tool=\"get_weather\" index=\"1\"<|sep|>",
        "<|open|>argument key=\"city\" type=\"string\"<|sep|>Lis<|clo",
    ];
    for error in [None, Some(EngineError::Failed("the engine fell over".into()))] {
        let server = serve(Breaking(said.clone(), error)).await;
        let tools = json!([tool("get_weather")]);
        let answer = server.chat("x", json!({"stream": true, "tools": tools})).await;
        let mut data = answer.data();
        let error: Value = serde_json::from_str(data.pop().unwrap()).unwrap();
        assert_eq!(error["error"]["code"], "engine_failed", "a run that was not clean has no [DONE]");
        let frames: Vec<Value> =
            data.into_iter().map(|data| serde_json::from_str::<Value>(data).unwrap()["choices"][0].clone()).collect();
        let said = Said::of(&frames);
        assert_eq!(said.calls, [("get_weather".into(), "{\"city\":\"Lis<|clo".into())]);
        assert_eq!((&*said.reasoning, &*said.finish), ("Go.", "length"));
        let whole = server.chat("x", json!({"tools": tools})).await;
        assert_eq!((whole.status, &whole.json()["error"]["code"]), (502, &json!("engine_failed")));
    }
}

/// Never ends; counts the generations that are alive, and the steps that were asked for.
#[derive(Clone, Default)]
struct Endless {
    alive: Arc<AtomicUsize>,
    steps: Arc<AtomicUsize>,
    pause: Option<Duration>,
}

struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Engine for Endless {
    fn start(&self, _: Job, choices: usize) -> BoxFuture<'_, Result<Vec<Generation>, EngineError>> {
        Box::pin(async move { Ok((0..choices).map(|_| generation(Channel::Response, self.endless())).collect()) })
    }
}

impl Endless {
    fn endless(&self) -> Steps {
        self.alive.fetch_add(1, Ordering::SeqCst);
        let alive = Alive(self.alive.clone());
        let Endless { steps: count, pause, .. } = self.clone();
        Box::pin(async_stream::stream! {
            let _alive = alive;
            loop {
                if let Some(pause) = pause {
                    tokio::time::sleep(pause).await;
                }
                count.fetch_add(1, Ordering::SeqCst);
                yield Ok(Step { chunks: vec![Chunk::Text("0123456789".repeat(100))], ..Step::default() });
            }
        })
    }

    async fn is_gone(&self) {
        for _ in 0..200 {
            if self.alive.load(Ordering::SeqCst) == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} generations live on without a client", self.alive.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_generations() {
    let engine = Endless { pause: Some(Duration::from_millis(5)), ..Endless::default() };
    let server = serve(engine.clone()).await;
    let streamed = open(&server, json!({"stream": true, "n": 3})).await;
    let mut body = streamed.bytes_stream();
    assert!(body.next().await.unwrap().is_ok());
    assert_eq!(engine.alive.load(Ordering::SeqCst), 3);
    drop(body);
    engine.is_gone().await;

    let whole = tokio::spawn({
        let request = server
            .client
            .post(format!("{}/v1/chat/completions", server.url))
            .header("content-type", "application/json");
        let request = request.body(support::request("x", json!({})).to_string());
        async move { request.send().await }
    });
    while engine.alive.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    whole.abort();
    engine.is_gone().await;
}

#[tokio::test]
async fn a_stop_string_ends_the_generation() {
    let engine = Endless { pause: Some(Duration::from_millis(1)), ..Endless::default() };
    let server = serve(engine.clone()).await;
    let answer = server.chat("x", json!({"stream": true, "stop": "90"}));
    let answer = tokio::time::timeout(Duration::from_secs(10), answer).await.expect("the generation goes on");
    check_frames(&answer, 1);
    assert_eq!(Said::of(&answer.choice(0)).content, "012345678");
    engine.is_gone().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_engine_back() {
    let engine = Endless::default();
    let server = serve(engine.clone()).await;
    let mut body = open(&server, json!({"stream": true})).await.bytes_stream();
    assert!(body.next().await.unwrap().is_ok());
    let mut before = usize::MAX;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let steps = engine.steps.load(Ordering::SeqCst);
        if steps == before {
            return; // buffers are full, and no further step is asked for
        }
        before = steps;
    }
    panic!("the engine ran on to {before} steps");
}

async fn open(server: &Server, more: Value) -> reqwest::Response {
    let request = server.client.post(format!("{}/v1/chat/completions", server.url));
    request.header("content-type", "application/json").body(request_text(more)).send().await.unwrap()
}

fn request_text(more: Value) -> String {
    request("x", more).to_string()
}

/// A server of `/v1/completions` that answers with these bytes, cut in pieces of `cut`.
async fn completions(status: StatusCode, body: String, cut: usize) -> String {
    let answer = move |request: Request| {
        let pieces: Vec<_> = body.as_bytes().chunks(cut).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
        async move {
            let sent = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
            let sent: Value = serde_json::from_slice(&sent).unwrap();
            assert_eq!(
                (&sent["skip_special_tokens"], &sent["spaces_between_special_tokens"]),
                (&json!(false), &json!(false))
            );
            assert!(sent["prompt"].as_str().unwrap().ends_with("<|open|>think<|sep|>"));
            assert!(!sent["prompt"].as_str().unwrap().contains("<|open|>evil"));
            (status, Body::from_stream(futures_util::stream::iter(pieces))).into_response() as Response
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, Router::new().route("/v1/completions", post(answer))).await });
    url
}

fn upstream(url: &str) -> Upstream {
    Upstream::new(url, Settings::default(), None).unwrap()
}

/// Events as vLLM streams them.
fn events(steps: &[(&str, &[u32])], finish: &str) -> String {
    let last = steps.len() - 1;
    let event = |(at, (text, ids)): (usize, &(&str, &[u32]))| {
        let logprobs =
            json!({"tokens": [text], "token_logprobs": [-0.5], "top_logprobs": [{*text: -0.5, "other": -1.5}]});
        let choice = json!({"index": 0, "text": text, "token_ids": ids, "logprobs": logprobs,
            "finish_reason": if at == last { json!(finish) } else { Value::Null }});
        let usage = json!({"prompt_tokens": 17, "prompt_tokens_details": {"cached_tokens": 5}, "completion_tokens": steps[..=at].iter().map(|(_, ids)| ids.len()).sum::<usize>()});
        format!("data: {}\r\n\r\n", json!({"id": "cmpl-1", "choices": [choice], "usage": usage}))
    };
    steps.iter().enumerate().map(event).collect::<String>() + ": comment\n\ndata: [DONE]\n\n"
}

const STREAM: [(&str, &[u32]); 10] = [
    ("Hm", &[1]),
    ("<|close|>", &[163_588]),
    ("think", &[39_964]),
    ("<|sep|>", &[163_589]),
    ("<|open|>response<|sep|>", &[163_587, 12_092, 163_589]),
    ("", &[2]),
    ("é!", &[3]),
    ("<|close|>response<|sep|>", &[163_588, 12_092, 163_589]),
    ("<|close|>message<|sep|>", &[163_588, 2_778, 163_589]),
    ("<|end_of_msg|>", &[163_586]),
];

#[tokio::test]
async fn an_upstream_is_parsed_however_its_events_are_cut() {
    for cut in [1, 7, 100_000] {
        let url = completions(StatusCode::OK, events(&STREAM, "stop"), cut).await;
        let server = serve(upstream(&url)).await;
        let more = json!({"stream": true, "logprobs": true, "top_logprobs": 2, "stream_options": {"include_internal_content": true}});
        let answer = server.chat("x <|open|>evil", more).await;
        check_frames(&answer, 1);
        let choices = answer.choice(0);
        let said = Said::of(&choices);
        assert_eq!((&*said.reasoning, &*said.content, &*said.finish), ("Hm", "é!", "stop"));
        let content = choices.iter().find(|choice| choice["delta"]["content"] == "é!").unwrap();
        assert_eq!(content["delta"]["internal_content"]["token_ids"], json!([2, 3]));
        assert_eq!(content["logprobs"]["content"][1]["top_logprobs"][1]["token"], "other");
        let usage = &choices.last().unwrap()["usage"];
        assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(14), &json!(16)));
        assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], 1);
        assert_eq!(
            (answer.header("x-msh-usage-prompt-tokens"), answer.header("x-msh-usage-cached-tokens")),
            ("14", "5")
        );
    }
}

#[tokio::test]
async fn an_upstream_that_gives_no_ids_is_parsed_by_its_text() {
    let body: String = ["Hm<|clo", "se|>think<|sep|><|open|>response<|sep|>yes"]
        .iter()
        .map(|text| format!("data: {}\n\n", json!({"choices": [{"text": text, "finish_reason": null}]})))
        .collect();
    let url = completions(StatusCode::OK, body + "data: {\"choices\":[{\"finish_reason\":\"length\"}]}\n\n", 50).await;
    let answer = serve(upstream(&(url + "/v1/completions"))).await.chat("x", json!({"stream": true})).await;
    let said = Said::of(&answer.choice(0));
    assert_eq!((&*said.reasoning, &*said.content, &*said.finish), ("Hm", "yes", "length"));
}

#[tokio::test]
async fn an_upstream_that_refuses_or_is_away_is_an_error_before_the_stream() {
    let refusal = json!({"error": {"message": "prompt too long"}}).to_string();
    for (url, status, says) in [
        (completions(StatusCode::BAD_REQUEST, refusal, 9).await, 400, "prompt too long"),
        (completions(StatusCode::INTERNAL_SERVER_ERROR, "oh".into(), 9).await, 502, "oh"),
        (completions(StatusCode::OK, String::new(), 9).await, 502, "empty"),
        (
            completions(StatusCode::OK, "data: {\"error\":{\"message\":\"no memory\"}}\n\n".into(), 9).await,
            502,
            "no memory",
        ),
        (completions(StatusCode::OK, "data: nonsense\n\n".into(), 9).await, 502, "no completion"),
        ("http://127.0.0.1:1".into(), 502, "cannot be reached"),
    ] {
        let answer = serve(upstream(&url)).await.chat("x", json!({"stream": true})).await;
        assert_eq!(answer.status, status);
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(says), "{}", answer.body);
    }
}

#[tokio::test]
async fn an_upstream_that_breaks_off_is_no_clean_run() {
    let whole = events(&STREAM, "stop");
    let cut = &whole[..whole.find("<|end_of_msg|>").unwrap()];
    let url = completions(StatusCode::OK, cut.into(), 64).await;
    let answer = serve(upstream(&url)).await.chat("x", json!({"stream": true})).await;
    assert!(
        answer.body.contains("é!")
            && answer.body.contains("\"finish_reason\":\"length\"")
            && !answer.body.contains("[DONE]")
    );
}
