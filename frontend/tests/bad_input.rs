//! Requests that cannot be served: a clear error in the API's shape, and the server goes on.

mod support;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use kimi_xtml_frontend::App;
use kimi_xtml_frontend::engine::scripted::Scripted;
use serde_json::{Value, json};
use support::{Server, request, scripted, serve_app};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CHAT: &str = "/v1/chat/completions";

async fn refused(server: &Server, path: &str, body: &[u8]) -> (u16, Value) {
    let answer = server.post_bytes(path, body.to_vec()).await;
    assert_eq!(answer.header("content-type"), "application/json");
    let error = answer.json()["error"].clone();
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()) && error["type"].is_string());
    (answer.status, error)
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let server = scripted().await;
    let deep = format!("{{\"model\":\"kimi-k3\",\"messages\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    for (body, param) in [
        (&b""[..], "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b"null", "body"),
        (b"{\"model\":\"kimi-k3\",\"messages\":[]} x", "body"),
        (b"{\"model\":\"kimi-k3\"}", "messages"),
        (b"{\"model\":\"\xff\xfe\",\"messages\":[]}", "body"),
        (b"{\"model\":4,\"messages\":[]}", "model"),
        (b"{\"model\":\"kimi-k3\",\"messages\":\"hi\"}", "messages"),
        (b"{\"model\":\"kimi-k3\",\"messages\":[]}", "messages"),
        (b"{\"model\":\"kimi-k3\",\"messages\":[{\"role\":\"robot\"}]}", "messages[0].role"),
        (b"{\"model\":\"kimi-k3\",\"messages\":[{\"role\":\"user\",\"content\":4}]}", "messages[0].content"),
        (deep.as_bytes(), "messages[0]"),
    ] {
        let (status, error) = refused(&server, CHAT, body).await;
        assert_eq!(
            (status, &error["param"]),
            (400, &json!(param)),
            "{}",
            String::from_utf8_lossy(&body[..body.len().min(80)])
        );
    }
    assert_eq!(server.chat("still here", json!({})).await.status, 200);
}

#[tokio::test]
async fn wrong_members_are_named() {
    let server = scripted().await;
    for (more, param) in [
        (json!({"stream": "yes"}), "stream"),
        (json!({"n": 0}), "n"),
        (json!({"n": 1000}), "n"),
        (json!({"n": -1}), "n"),
        (json!({"stop": 4}), "stop"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].function"),
        (json!({"tools": [{"type": "function", "function": {"name": 1}}]}), "tools[0].function.name"),
        (json!({"tool_choice": "perhaps"}), "tool_choice"),
        (json!({"tool_choice": {"type": "function", "function": {"name": "f"}}}), "tool_choice"),
        (json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs"),
        (json!({"top_logprobs": 2}), "top_logprobs"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"thinking": {"type": "maybe"}}), "thinking.type"),
        (json!({"stream_options": 1}), "stream_options"),
    ] {
        let (status, error) = refused(&server, CHAT, request("x", more.clone()).to_string().as_bytes()).await;
        assert_eq!((status, &error["param"]), (400, &json!(param)), "{more}");
    }
}

#[tokio::test]
async fn unknown_models_paths_and_methods() {
    let server = scripted().await;
    let mut body = request("x", json!({"stream": true}));
    body["model"] = "gpt-9".into();
    let (status, error) = refused(&server, CHAT, body.to_string().as_bytes()).await;
    assert_eq!((status, &error["code"]), (404, &json!("model_not_found")));
    assert_eq!(refused(&server, "/v1/nothing", b"{}").await.0, 404);
    assert_eq!(refused(&server, "/v1/models", b"{}").await.0, 405);
    assert_eq!(server.get(CHAT).await.status, 405);
    assert_eq!(server.get("/v1/models/gpt-9").await.status, 404);
    assert_eq!(server.get("/v1/models/kimi-k3").await.json()["id"], "kimi-k3");
    assert_eq!(server.get("/v1/models").await.json()["data"][0]["id"], "kimi-k3");
}

#[tokio::test]
async fn huge_bodies_are_413() {
    let mut app = App::new(Arc::new(Scripted::default()), "kimi-k3");
    app.policy.max_body = 10_000;
    let server = serve_app(app).await;
    let (status, error) = refused(&server, CHAT, request(&"x".repeat(20_000), json!({})).to_string().as_bytes()).await;
    assert_eq!((status, &error["code"]), (413, &json!("request_too_large")));
    assert_eq!(server.chat("small", json!({})).await.status, 200);
}

#[tokio::test]
async fn bodies_may_be_gzip_and_are_json() {
    let mut app = App::new(Arc::new(Scripted::default()), "kimi-k3");
    app.policy.max_body = 100_000;
    let server = serve_app(app).await;
    let zipped = |plain: &[u8]| {
        let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        zip.write_all(plain).unwrap();
        zip.finish().unwrap()
    };
    let small = zipped(request("zipped", json!({})).to_string().as_bytes());
    let bomb = zipped(request(&"x".repeat(1 << 20), json!({})).to_string().as_bytes());
    let plain = request("plain", json!({})).to_string().into_bytes();
    for (kind, encoding, body, status) in [
        ("application/json", "gzip", small.clone(), 200),
        ("application/json; charset=utf-8", "identity", plain.clone(), 200),
        ("application/json", "gzip", bomb, 413),
        ("application/json", "gzip", small[..20].to_vec(), 400),
        ("application/json", "gzip", plain.clone(), 400),
        ("application/json", "br", small, 415),
        ("text/plain", "identity", plain, 415),
    ] {
        let asked = server.client.post(server.url.clone() + CHAT).header("content-type", kind);
        let answer = asked.header("content-encoding", encoding).body(body).send().await.unwrap();
        assert_eq!(answer.status(), status, "{kind} {encoding}: {}", answer.text().await.unwrap());
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_408() {
    let app = App { body_timeout: Duration::from_millis(50), ..App::new(Arc::new(Scripted::default()), "kimi-k3") };
    let server = serve_app(app).await;
    let mut connection = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).await.unwrap();
    connection
        .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"mod")
        .await
        .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("{\"error\":{"), "{answer}");
}

/// Nothing, and half a head; a client that keeps its connection and asks in time is served.
#[tokio::test]
async fn a_connection_that_asks_nothing_ends() {
    let app = App { head_timeout: Duration::from_millis(200), ..App::new(Arc::new(Scripted::default()), "kimi-k3") };
    let server = serve_app(app).await;
    let address = server.url.strip_prefix("http://").unwrap();
    for begun in ["", "POST /v1/chat/completions HTTP/1.1\r\nhost:"] {
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(begun.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = connection.read_to_end(&mut answer);
        tokio::time::timeout(Duration::from_secs(10), read).await.expect("it ends").unwrap();
    }
    let mut connection = TcpStream::connect(address).await.unwrap();
    for _ in 0..3 {
        connection.write_all(b"GET /v1/models/kimi-k3 HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        connection.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        tokio::time::sleep(Duration::from_millis(100)).await;
        while connection.try_read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_harms_nobody() {
    let server = scripted().await;
    for sent in [
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"mod",
        "POST /v1/ch",
        "\0\0\r\n\r\n",
    ] {
        let mut connection = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).await.unwrap();
        connection.write_all(sent.as_bytes()).await.unwrap();
    }
    assert_eq!(server.chat("still here", json!({})).await.status, 200);
}
