//! Engines behind HTTP that misbehave: what their clients see, and what the engine is asked.

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use kimi_xtml_frontend::engine::upstream::{Grammar, Settings, Upstream};
use serde_json::{Value, json};
use support::{Said, Server, serve, tool};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// How a fake engine answers, and what it was asked.
#[derive(Clone)]
struct Fake {
    status: StatusCode,
    headers: Vec<(&'static str, String)>,
    body: Vec<String>,
    /// Before each part of the body.
    pause: Duration,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Fake {
    fn new(status: u16, kind: &str, body: &[&str]) -> Self {
        Fake {
            status: StatusCode::from_u16(status).unwrap(),
            headers: vec![("content-type", kind.into())],
            body: body.iter().map(|part| (*part).to_owned()).collect(),
            pause: Duration::ZERO,
            asked: Arc::default(),
        }
    }

    fn stream(events: &[Value]) -> Self {
        let events: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        Fake::new(200, "text/event-stream", &events.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// A server before this engine, and the engine's address.
    async fn served(&self, settings: Settings) -> (Server, String) {
        let answer = |State(fake): State<Fake>, request: Request| async move {
            let sent = axum::body::to_bytes(request.into_body(), 16 << 20).await.unwrap();
            fake.asked.lock().unwrap().push(serde_json::from_slice(&sent).unwrap());
            let parts = futures_util::stream::unfold(fake.body.clone().into_iter(), move |mut parts| async move {
                tokio::time::sleep(fake.pause).await;
                Some((Ok::<_, std::io::Error>(parts.next()?), parts))
            });
            let mut response: Response = (fake.status, Body::from_stream(parts)).into_response();
            for (name, value) in fake.headers {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            response
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let router = Router::new().route("/v1/completions", post(answer)).with_state(self.clone());
        tokio::spawn(async { axum::serve(listener, router).await });
        (serve(Upstream::new(&format!("http://{address}"), settings, None).unwrap()).await, address)
    }

    fn asked(&self) -> Value {
        self.asked.lock().unwrap().pop().unwrap()
    }
}

fn says(text: &str) -> Value {
    json!({"choices": [{"index": 0, "text": text, "finish_reason": null}]})
}

fn ends(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "text": "", "finish_reason": reason}]})
}

const THOUGHT: &str = "Hm<|close|>think<|sep|><|open|>response<|sep|>yes";

#[tokio::test]
async fn statuses_and_words_of_every_form() {
    for (status, body, seen, words) in [
        (400, r#"{"error": {"message": "no such thing"}}"#, 400, "no such thing"),
        (400, r#"{"error": "a string"}"#, 400, "a string"),
        (422, r#"{"detail": [{"loc": ["body", "prompt"], "msg": "too odd"}]}"#, 400, "body.prompt: too odd"),
        (400, r#"{"detail": "in short"}"#, 400, "in short"),
        (400, r#"{"object": "error", "message": "of old"}"#, 400, "of old"),
        (401, "{}", 502, "--upstream-key"),
        (403, "{}", 502, "--upstream-key"),
        (404, "{}", 502, "404"),
        (408, "{}", 504, "408"),
        (429, r#"{"error": "slowly"}"#, 429, "slowly"),
        (500, "see http://secret.internal:9/x", 502, "(an address)"),
        (503, "full", 503, "full"),
        (504, "late", 504, "late"),
        (307, "", 502, "does not follow"),
    ] {
        let mut fake = Fake::new(status, "application/json", &[body]);
        fake.headers.extend([("retry-after", "7".into()), ("location", "http://127.0.0.1:1/".into())]);
        let (server, address) = fake.served(Settings::default()).await;
        for stream in [true, false] {
            let answer = server.chat("x", json!({"stream": stream})).await;
            assert_eq!(answer.status, seen, "{status} {}", answer.body);
            let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.contains(words) && !message.contains(&address) && !message.contains("://"), "{message}");
            assert_eq!(answer.header("retry-after"), if [429, 503].contains(&seen) { "7" } else { "" });
        }
    }
}

#[tokio::test]
async fn a_prompt_that_is_too_long_has_its_code() {
    let said = r#"{"error": {"message": "This model's maximum context length is 9 tokens"}}"#;
    let (server, _) = Fake::new(400, "application/json", &[said]).served(Settings::default()).await;
    let answer = server.chat("x", json!({})).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!("context_length_exceeded")));
}

#[tokio::test]
async fn what_is_no_stream_or_breaks_off_is_a_502() {
    for (fake, words) in [
        (Fake::new(200, "application/json", &[r#"{"choices": []}"#]), "where a stream was asked for"),
        (Fake::new(200, "text/html", &["<html>"]), "a page"),
        (Fake::new(200, "text/event-stream", &[""]), "empty"),
        (Fake::stream(&[json!({"error": "out of memory"})]), "out of memory"),
        (Fake::stream(&[json!({"error": {"message": "out of luck"}})]), "out of luck"),
        (Fake::stream(&[json!([1])]), "no completion"),
        (Fake::stream(&[says(THOUGHT), ends("abort")]), "aborted"),
        (Fake::stream(&[says(THOUGHT)]), "broke"),
    ] {
        let (server, _) = fake.served(Settings::default()).await;
        let whole = server.chat("x", json!({})).await;
        assert_eq!((whole.status, &whole.json()["error"]["code"]), (502, &json!("engine_failed")));
        assert!(whole.json()["error"]["message"].as_str().unwrap().contains(words), "{}", whole.body);
        let streamed = server.chat("x", json!({"stream": true})).await;
        assert!(streamed.body.contains(words) && !streamed.body.contains("[DONE]"), "{}", streamed.body);
    }
}

#[tokio::test]
async fn the_engines_last_count_wins_and_other_choices_are_nobodys() {
    let other = json!({"choices": [{"index": 1, "text": "not mine", "finish_reason": "stop"}]});
    let count = json!({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}}});
    let odd = json!({"choices": null, "usage": {"prompt_tokens": null}});
    let fake = Fake::stream(&[odd, other, says(THOUGHT), ends("stop"), count]);
    let (server, _) = fake.served(Settings::default()).await;
    let whole = server.chat("x", json!({})).await.json();
    let usage = &whole["usage"];
    assert_eq!(whole["choices"][0]["message"]["content"], "yes");
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(37), &json!(9)), "{whole}");
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 8);
}

#[tokio::test]
async fn a_first_event_may_repeat_a_long_prompt() {
    let ids: Vec<u32> = (0..700_000).collect();
    let first = json!({"choices": [{"index": 0, "text": THOUGHT, "prompt_token_ids": ids}]});
    let (server, _) = Fake::stream(&[first, ends("stop")]).served(Settings::default()).await;
    let answer = server.chat("x", json!({"stream": true})).await;
    assert_eq!(Said::of(&answer.choice(0)).content, "yes");
}

#[tokio::test]
async fn an_engine_has_its_time_and_streams_say_that_they_are_alive() {
    let short = Settings {
        first: Duration::from_millis(300),
        between: Duration::from_millis(300),
        moment: Duration::from_millis(50),
        ..Settings::default()
    };
    let slow = Fake { pause: Duration::from_secs(3), ..Fake::stream(&[says(THOUGHT), ends("stop")]) };
    let (server, _) = slow.served(short.clone()).await;
    let whole = server.chat("x", json!({})).await;
    assert_eq!((whole.status, &whole.json()["error"]["code"]), (504, &json!("engine_timeout")));
    let streamed = server.chat("x", json!({"stream": true})).await;
    assert!(streamed.status == 200 && streamed.body.contains("engine_timeout"), "{}", streamed.body);
    assert_eq!(streamed.header("x-msh-usage-cached-tokens"), "", "nothing was counted yet");
    let settings = Settings { answer_bytes: 100, ..short };
    let (server, _) = Fake::stream(&vec![says("0123456789"); 100]).served(settings).await;
    let endless = server.chat("x", json!({})).await;
    assert!(endless.status == 502 && endless.body.contains("longer than 100 bytes"), "{}", endless.body);
}

#[tokio::test]
async fn the_engine_is_asked_for_all_that_the_client_asks() {
    let fake = Fake::stream(&[says(THOUGHT), ends("stop")]);
    let (server, _) = fake.served(Settings::default()).await;
    let sampling = json!({"temperature": 0.5, "top_k": 4, "min_p": 0.1, "repetition_penalty": 1.5, "min_tokens": 2,
        "stop_token_ids": [7], "seed": 3, "user": "u", "priority": 1, "logit_bias": {"5": 1.5}});
    server.chat("Haskell's <|> and <|close|>", sampling.clone()).await;
    let asked = fake.asked();
    for (name, value) in sampling.as_object().unwrap() {
        assert_eq!(asked[name], *value, "{name}");
    }
    assert!(asked["max_tokens"].as_u64().unwrap() > 16 && asked["stream"] == true);
    let prompt = asked["prompt"].as_str().unwrap();
    assert!(prompt.contains("Haskell's <|> and < |close|>") && prompt.ends_with("<|open|>think<|sep|>"), "{prompt}");
    server.chat("x", json!({"max_tokens": 5})).await;
    assert_eq!(fake.asked()["max_tokens"], 5);
}

#[tokio::test]
async fn what_must_be_goes_as_a_structural_tag_or_is_refused() {
    let schema = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}});
    let asks = [
        (json!({"tools": [tool("f"), tool("g")], "tool_choice": "required"}), "tool_choice"),
        (json!({"tools": [tool("f")], "tool_choice": {"type": "function", "function": {"name": "f"}}}), "tool_choice"),
        (json!({"response_format": schema}), "response_format"),
    ];
    for (ask, member) in asks {
        let fake = Fake::stream(&[says(THOUGHT), ends("stop")]);
        let (server, _) = fake.served(Settings::default()).await;
        assert_eq!(server.chat("x", ask.clone()).await.status, 200);
        let format = fake.asked()["response_format"].clone();
        assert_eq!(format["type"], "structural_tag");
        assert_eq!(format["format"]["elements"][0]["end"], "<|close|>think<|sep|>", "{format}");
        let (server, _) = fake.served(Settings { grammar: Grammar::None, ..Settings::default() }).await;
        let refused = server.chat("x", ask).await;
        assert!(refused.status == 400 && refused.body.contains(member), "{}", refused.body);
    }
}

/// The engine closes a connection that it had kept just as the next request comes: it is asked once more, and no oftener.
#[tokio::test]
async fn a_connection_that_died_is_tried_once_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(0));
    let counted = asked.clone();
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let counted = counted.clone();
            tokio::spawn(async move {
                let mut served = 0;
                loop {
                    let mut head = Vec::new();
                    let mut part = [0; 65_536];
                    while !head.windows(6).any(|end| end == b"<|sep|") {
                        match connection.read(&mut part).await {
                            Ok(read) if read > 0 => head.extend_from_slice(&part[..read]),
                            _ => return,
                        }
                        if head.starts_with(b"GET") {
                            connection.write_all(b"HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                            head.clear();
                        }
                    }
                    *counted.lock().unwrap() += 1;
                    served += 1;
                    if served > 1 || *counted.lock().unwrap() > 3 {
                        return; // closed without an answer
                    }
                    let body: String = [says(THOUGHT), ends("stop")].map(|event| format!("data: {event}\n\n")).concat();
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ";
                    let answer = format!("{head}{}\r\n\r\n{body}", body.len());
                    connection.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    let server = serve(Upstream::new(&format!("http://{address}"), Settings::default(), None).unwrap()).await;
    assert_eq!(server.chat("x", json!({})).await.status, 200);
    assert_eq!(server.chat("x", json!({})).await.status, 200, "the second request met a dead connection");
    assert_eq!(*asked.lock().unwrap(), 3);
    let refused = server.chat("x", json!({})).await;
    assert_eq!((refused.status, *asked.lock().unwrap()), (502, 5), "{}", refused.body);
}

#[test]
fn an_unusable_url_is_refused_at_the_start() {
    for url in ["", "localhost:8000", "ftp://x", "http://", "http://x/?a", "http://user@x"] {
        assert!(Upstream::new(url, Settings::default(), None).is_err(), "{url}");
    }
    assert!(Upstream::new("https://x/v1/completions/", Settings::default(), None).is_ok());
}
