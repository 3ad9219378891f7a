//! What operators need: the program is started as they start it, before an engine that can be told to fail.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use kimi_xtml_frontend::App;
use kimi_xtml_frontend::engine::scripted::Scripted;
use kimi_xtml_frontend::operate::metrics;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use support::{client, request};
use tokio::net::TcpListener;

/// The program, and a client of it.
struct Program {
    child: Child,
    url: String,
    client: reqwest::Client,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Program {
    fn start(arguments: &[&str]) -> Program {
        Program::start_in(&[], arguments)
    }

    fn start_in(environment: &[(&str, &str)], arguments: &[&str]) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kimi-xtml-frontend"));
        command.env("KIMI_XTML_PORT", "0").envs(environment.iter().copied()).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").expect("it says where it listens").to_owned();
        Program { child, url, client: client() }
    }

    fn call(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.call(Method::GET, path)
    }

    fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.call(Method::POST, path).header("content-type", "application/json").body(body.to_string())
    }

    fn chat(&self, words: &str, more: Value) -> RequestBuilder {
        self.post("/v1/chat/completions", &request(words, more))
    }

    fn message(&self, words: &str) -> RequestBuilder {
        let messages = json!([{"role": "user", "content": words}]);
        self.post("/v1/messages", &json!({"model": "kimi-k3", "max_tokens": 99, "messages": messages}))
    }

    /// What a metric says, summed over the lines that begin so.
    async fn metric(&self, line: &str) -> f64 {
        let text = self.get("/metrics").send().await.unwrap().text().await.unwrap();
        let lines = text.lines().filter(|found| found.starts_with(line));
        lines.filter_map(|found| found.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    fn terminate(&self) {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
    }

    /// Waits for the end. Gives the exit code and the log.
    fn end(&mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        (code, read(self.child.stderr.take().unwrap()))
    }
}

fn read(mut log: ChildStderr) -> String {
    let mut text = String::new();
    log.read_to_string(&mut text).unwrap();
    text
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

async fn json(response: Response) -> Value {
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}

/// An engine: it says hi, or fails, and keeps the headers of what it was asked.
struct FakeEngine {
    url: String,
    health: AtomicU16,
    asked: Mutex<HeaderMap>,
}

async fn engine(events: &'static str) -> Arc<FakeEngine> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let engine = Arc::new(FakeEngine { url, health: AtomicU16::new(200), asked: Mutex::default() });
    let health = |State(engine): State<Arc<FakeEngine>>| async move {
        StatusCode::from_u16(engine.health.load(Ordering::Relaxed)).unwrap()
    };
    let complete = move |State(engine): State<Arc<FakeEngine>>, request: Request| async move {
        *engine.asked.lock().unwrap() = request.headers().clone();
        ([("content-type", "text/event-stream")], events)
    };
    let router = Router::new().route("/health", get(health)).route("/v1/completions", post(complete));
    tokio::spawn(axum::serve(listener, router.with_state(engine.clone())).into_future());
    engine
}

/// The three tokens that open the channel are not billed: 4 of its prompt's 7 tokens are. One close is too many.
const HI: &str = r#"data: {"choices":[{"text":"Hm.<|close|>think<|sep|><|open|>response<|sep|>"}],"usage":{"prompt_tokens":7}}

data: {"choices":[{"text":"Hi"}]}

data: {"choices":[{"text":" you<|close|>response<|sep|><|close|>think<|sep|><|close|>message<|sep|>","finish_reason":"stop"}]}

data: [DONE]

"#;
const BROKEN: &str = "data: {\"choices\":[{\"text\":\"Hm.\"}]}\n\n";

#[tokio::test]
async fn health_is_of_the_process_and_readiness_of_what_it_needs() {
    let engine = engine(HI).await;
    let program = Program::start(&["--upstream", &engine.url]);
    assert_eq!(status(program.get("/health")).await, 200);
    assert_eq!(status(program.get("/ready")).await, 200);
    engine.health.store(404, Ordering::Relaxed); // an engine without the path
    assert_eq!(status(program.get("/ready")).await, 200);
    engine.health.store(500, Ordering::Relaxed);
    assert_eq!(status(program.get("/health")).await, 200);
    let said = program.get("/ready").send().await.unwrap();
    assert_eq!(said.status(), 503);
    assert!(json(said).await["message"].as_str().unwrap().contains("500"));
    let gone = Program::start(&["--upstream", "http://127.0.0.1:1"]);
    let said = gone.get("/ready").send().await.unwrap();
    assert_eq!(said.status(), 503);
    assert!(!said.text().await.unwrap().contains("127.0.0.1"), "inner addresses stay inside");
}

#[tokio::test]
async fn metrics_count_what_happened() {
    let engine = engine(HI).await;
    let program = Program::start(&["--upstream", &engine.url]);
    assert_eq!(status(program.chat("a", json!({}))).await, 200);
    let _ = program.chat("a", json!({"stream": true})).send().await.unwrap().bytes().await.unwrap();
    let _ = program.message("a").send().await.unwrap().bytes().await.unwrap();
    assert_eq!(status(program.chat("a", json!({"model": "other"}))).await, 404);
    assert_eq!(status(program.get("/nowhere")).await, 404);
    for (line, value) in [
        ("kimi_xtml_requests_total{route=\"/v1/chat/completions\",status=\"200\"}", 2.0),
        ("kimi_xtml_requests_total{route=\"/v1/chat/completions\",status=\"404\"}", 1.0),
        ("kimi_xtml_requests_total{route=\"/v1/messages\",status=\"200\"}", 1.0),
        ("kimi_xtml_requests_total{route=\"none\",status=\"404\"}", 1.0),
        ("kimi_xtml_errors_total{kind=\"model_not_found\"}", 1.0),
        ("kimi_xtml_generations_total{finish_reason=\"stop\"}", 3.0),
        ("kimi_xtml_prompt_tokens_total", 12.0),
        ("kimi_xtml_completion_tokens_total", 9.0),
        ("kimi_xtml_time_to_first_token_seconds_count", 3.0),
        ("kimi_xtml_time_between_tokens_seconds_count", 6.0),
        ("kimi_xtml_request_seconds_count{route=\"/v1/chat/completions\"}", 3.0),
        ("kimi_xtml_requests_running", 0.0),
    ] {
        assert_eq!(program.metric(line).await, value, "{line}");
    }
    assert_eq!(program.metric("kimi_xtml_diagnostics_total{code=\"orphan-close\"}").await, 3.0);
    assert!(program.metric("process_resident_memory_bytes").await > 1e6);
}

#[tokio::test]
async fn an_engine_that_breaks_off_is_counted_once_and_warned_of() {
    let engine = engine(BROKEN).await;
    let mut program = Program::start(&["--upstream", &engine.url, "--log-format", "json"]);
    let said = program.chat("a", json!({"stream": true})).send().await.unwrap().text().await.unwrap();
    assert!(said.contains("engine_failed") && !said.contains("[DONE]"));
    assert_eq!(program.metric("kimi_xtml_errors_total{kind=\"engine_failed\"}").await, 1.0);
    assert_eq!(program.metric("kimi_xtml_generations_total{finish_reason=\"abort\"}").await, 1.0);
    program.terminate();
    let (_, log) = program.end();
    let line: Value =
        serde_json::from_str(log.lines().find(|line| line.contains("chat/completions")).unwrap()).unwrap();
    assert_eq!((&line["level"], &line["error"]), (&json!("WARN"), &json!("engine_failed")));
}

#[tokio::test]
async fn the_log_tells_each_request_and_no_text() {
    let engine = engine(HI).await;
    let mut program = Program::start(&["--upstream", &engine.url, "--log-format", "json"]);
    assert_eq!(status(program.chat("zebra", json!({})).header("x-request-id", "mine")).await, 200);
    assert_eq!(status(program.get("/health")).await, 200);
    program.terminate();
    let (code, log) = program.end();
    assert_eq!(code, Some(0));
    assert!(!log.contains("zebra") && !log.contains("Hi you") && !log.contains("/health"));
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = lines.iter().find(|line| line["message"] == "request").unwrap();
    for (key, value) in [
        ("level", json!("INFO")),
        ("method", json!("POST")),
        ("path", json!("/v1/chat/completions")),
        ("status", json!(200)),
        ("prompt_tokens", json!(4)),
        ("finish_reason", json!("stop")),
        ("request_id", json!("mine")),
    ] {
        assert_eq!(line[key], value, "{key}");
    }
    assert!(line["ms"].is_u64() && line["first_token_ms"].is_u64() && line["timestamp"].is_string());

    let mut program = Program::start_in(&[("KIMI_XTML_LOG_LEVEL", "debug")], &["--log-format", "text"]);
    assert_eq!(status(program.get("/health")).await, 200);
    program.terminate();
    assert!(program.end().1.contains("path=\"/health\""));
    let mut program = Program::start(&["--log-level", "off"]);
    assert_eq!(status(program.chat("a", json!({}))).await, 200);
    program.terminate();
    assert_eq!(program.end().1, "");
}

#[tokio::test]
async fn ids_and_traces_and_the_key_go_to_the_engine() {
    let engine = engine(HI).await;
    let program = Program::start_in(&[("KIMI_XTML_UPSTREAM_KEY", "inner")], &["--upstream", &engine.url]);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let asked = program.chat("a", json!({})).header("x-request-id", "mine").header("traceparent", trace);
    let said = asked.bearer_auth("outer").send().await.unwrap();
    assert_eq!((header(said.headers(), "x-request-id"), header(said.headers(), "request-id")), ("mine", "mine"));
    let got = engine.asked.lock().unwrap().clone();
    assert_eq!((header(&got, "x-request-id"), header(&got, "traceparent")), ("mine", trace));
    assert_eq!(header(&got, "authorization"), "Bearer inner");
    let said = program.chat("a", json!({})).header("x-request-id", "x".repeat(201)).send().await.unwrap();
    let id = header(said.headers(), "x-request-id").to_owned();
    assert!(id.starts_with("req_") && id.len() < 40);
    assert_eq!(header(&engine.asked.lock().unwrap(), "x-request-id"), id);
}

#[tokio::test]
async fn keys_are_checked_on_all_but_health_and_metrics() {
    let program = Program::start_in(&[("KIMI_XTML_API_KEY", "one,two")], &[]);
    let said = program.chat("a", json!({})).send().await.unwrap();
    assert_eq!((said.status().as_u16(), header(said.headers(), "www-authenticate")), (401, "Bearer"));
    assert_eq!(json(said).await["error"]["code"], "invalid_api_key");
    let said = program.message("a").header("x-api-key", "on").send().await.unwrap();
    assert_eq!(said.status(), 401);
    assert_eq!(json(said).await["error"]["type"], "authentication_error");
    assert_eq!(status(program.get("/v1/models")).await, 401);
    assert_eq!(status(program.get("/nowhere")).await, 401);
    assert_eq!(status(program.chat("a", json!({})).bearer_auth("one")).await, 200);
    assert_eq!(status(program.chat("a", json!({})).header("authorization", "bearer two")).await, 200);
    assert_eq!(status(program.message("a").header("x-api-key", "two")).await, 200);
    for path in ["/health", "/ready", "/metrics"] {
        assert_eq!(status(program.get(path)).await, 200, "{path}");
    }
    assert_eq!(program.metric("kimi_xtml_errors_total{kind=\"invalid_api_key\"}").await, 4.0);
}

#[tokio::test]
async fn other_names_than_the_servers_are_refused() {
    let program = Program::start(&[]);
    for (host, expected) in [
        ("localhost:8000", 200),
        ("127.0.0.1", 200),
        ("[::1]:9", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
    ] {
        assert_eq!(status(program.get("/v1/models").header("host", host)).await, expected, "{host}");
    }
    assert_eq!(status(program.get("/health").header("host", "evil.example")).await, 200);
    let said = program.message("a").header("host", "evil.example").send().await.unwrap();
    assert_eq!(json(said).await["error"]["type"], "permission_error");
    let program = Program::start(&["--allowed-host", "API.example.com,other"]);
    for (host, expected) in [("api.example.com:443", 200), ("other", 200), ("localhost", 403)] {
        assert_eq!(status(program.get("/v1/models").header("host", host)).await, expected, "{host}");
    }
    let program = Program::start(&["--allowed-host", "*"]);
    assert_eq!(status(program.get("/v1/models").header("host", "any.example")).await, 200);
}

#[tokio::test]
async fn pages_of_named_origins_may_ask() {
    let program = Program::start(&["--cors-origin", "https://app.example", "--api-key", "k"]);
    let preflight = |origin: &str| {
        let asked = program.call(Method::OPTIONS, "/v1/chat/completions").header("origin", origin);
        let asked = asked.header("access-control-request-method", "POST");
        asked.header("access-control-request-headers", "authorization,content-type").send()
    };
    let said = preflight("https://app.example").await.unwrap();
    assert_eq!(said.status(), 200);
    assert_eq!(header(said.headers(), "access-control-allow-origin"), "https://app.example");
    assert_eq!(header(said.headers(), "access-control-allow-headers"), "authorization,content-type");
    assert!(!preflight("https://evil.example").await.unwrap().headers().contains_key("access-control-allow-origin"));
    let said = program.chat("a", json!({})).header("origin", "https://app.example").send().await.unwrap();
    assert_eq!(header(said.headers(), "access-control-allow-origin"), "https://app.example", "a 401 is readable");
    let said = Program::start(&[]).chat("a", json!({})).header("origin", "https://app.example").send().await.unwrap();
    assert!(!said.headers().contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn a_place_is_free_when_its_client_has_gone() {
    let program = Program::start(&["--max-running", "1", "--rate", "2"]);
    let slow = || program.chat("one two three four five six seven eight", json!({"stream": true})).send();
    let mut first = slow().await.unwrap();
    first.chunk().await.unwrap();
    assert_eq!(program.metric("kimi_xtml_requests_running").await, 1.0);
    let said = slow().await.unwrap();
    assert_eq!((said.status().as_u16(), header(said.headers(), "retry-after")), (429, "1"));
    assert_eq!(json(said).await["error"]["code"], "too_many_requests");
    let said = program.message("a").send().await.unwrap();
    assert_eq!(json(said).await["error"]["type"], "rate_limit_error");
    assert_eq!(status(program.get("/v1/models")).await, 200);
    drop(first);
    let left = Instant::now();
    while program.metric("kimi_xtml_requests_running").await > 0.0 {
        assert!(left.elapsed() < Duration::from_secs(5), "the place is not free");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(program.metric("kimi_xtml_generations_total{finish_reason=\"left\"}").await, 1.0);
    assert_eq!(program.metric("kimi_xtml_requests_total{route=\"/v1/chat/completions\",status=\"499\"}").await, 1.0);
    assert_eq!(slow().await.unwrap().status(), 200);
}

#[tokio::test]
async fn what_runs_is_finished_and_nothing_new_is_taken() {
    let mut program = Program::start(&["--rate", "8"]);
    let mut stream = program.chat("one two three four five six", json!({"stream": true})).send().await.unwrap();
    stream.chunk().await.unwrap();
    program.terminate();
    let begun = Instant::now();
    while client().get(format!("{}/health", program.url)).send().await.is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(5), "new connections are taken");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut text = Vec::new();
    while let Some(chunk) = stream.chunk().await.unwrap() {
        text.extend_from_slice(&chunk);
    }
    assert!(text.ends_with(b"data: [DONE]\n\n"));
    assert_eq!(program.end().0, Some(0));
}

#[tokio::test]
async fn what_takes_too_long_is_cut_at_the_deadline() {
    let mut program = Program::start(&["--rate", "0.1", "--drain", "1"]);
    let mut stream = program.chat("one two three", json!({"stream": true})).send().await.unwrap();
    stream.chunk().await.unwrap();
    program.terminate();
    let begun = Instant::now();
    let (code, log) = program.end();
    assert!(begun.elapsed() < Duration::from_secs(10) && begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(code, Some(0));
    assert!(log.contains("running=1") && log.contains("cut=1"), "{log}");
}

#[tokio::test]
async fn a_draining_server_says_so_on_open_connections() {
    let app = App::new(Arc::new(Scripted::default()), "kimi-k3");
    app.operate.drain.begin();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, app.router()).into_future());
    let said = client().post(format!("{url}/v1/chat/completions")).body("{}").send().await.unwrap();
    assert_eq!((said.status().as_u16(), header(said.headers(), "retry-after")), (503, "1"));
    assert_eq!(status(client().get(format!("{url}/ready"))).await, 503);
    assert_eq!(status(client().get(format!("{url}/health"))).await, 200);
    let said = client().post(format!("{url}/v1/messages")).body("{}").send().await.unwrap();
    assert_eq!(json(said).await["error"]["type"], "overloaded_error");
}

#[tokio::test]
async fn a_model_has_other_names_and_options_have_variables() {
    let program =
        Program::start_in(&[("KIMI_XTML_MODEL", "mine"), ("KIMI_XTML_ALIAS", "gpt-5,claude")], &["--alias", "own"]);
    let names = json(program.get("/v1/models").send().await.unwrap()).await;
    assert_eq!(names["data"].as_array().unwrap().iter().map(|card| &card["id"]).collect::<Vec<_>>(), ["mine", "own"]);
    assert_eq!(status(program.chat("a", json!({"model": "own"}))).await, 200);
    assert_eq!(status(program.chat("a", json!({"model": "claude"}))).await, 404, "the option counts, not its variable");
    assert_eq!(status(program.get("/v1/models/own")).await, 200);
    let program = Program::start_in(&[("KIMI_XTML_RANDOM_IDS", "true"), ("KIMI_XTML_ALIAS", "a,b")], &[]);
    assert_eq!(status(program.chat("a", json!({"model": "b"}))).await, 200);
    let called =
        program.chat("a", json!({"tools": [support::tool("t")], "tool_choice": "required"})).send().await.unwrap();
    assert_ne!(json(called).await["choices"][0]["message"]["tool_calls"][0]["id"], "t_0");
}

#[test]
fn wrong_options_are_told_of() {
    for (arguments, says) in [
        (&["--cors-origin", "app.example"][..], "https://example.com"),
        (&["--cors-origin", "https://app.example/"], "https://example.com"),
        (&["--max-running", "0"], "--max-running"),
        (&["--log-level", "=loud="], "--log-level"),
        (&["--upstream-key", "k"], "--upstream"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_kimi-xtml-frontend")).args(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(says), "{error}");
    }
}

#[test]
fn the_page_for_operators_names_all_options_and_metrics() {
    let page = include_str!("../OPERATORS.md");
    let help = Command::new(env!("CARGO_BIN_EXE_kimi-xtml-frontend")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let options = help
        .split_whitespace()
        .filter(|word| word.starts_with("--"))
        .map(|word| word.trim_matches(|c: char| !c.is_ascii_lowercase()));
    for option in options.filter(|option| !["help", "version"].contains(option)) {
        assert!(page.contains(&format!("`--{option}")), "--{option} is missing");
    }
    for (metric, _, _) in metrics::ALL {
        assert!(page.contains(&format!("`{metric}`")), "{metric} is missing");
    }
}
