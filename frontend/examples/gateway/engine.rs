//! An engine without a model, timed as one: a prefill, then a token of every stream in each step of the batch.
//!
//! In: `/v1/completions` as vLLM takes it. Out: its events, each token the microsecond it was made at. Held: how many streams
//! run. What the prompt says decides how it fails: `die-9` breaks the connection off after 9 tokens, `fail-9` sends an error,
//! `refuse` is a 503, `short` ends after 20 tokens.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep_until};

/// Tokens of a `short` answer.
pub(crate) const SHORT: u64 = 20;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long, default_value_t = 0)]
    port: u16,
    #[arg(long)]
    rate: f64,
    #[arg(long)]
    tokens: u64,
}

struct Engine {
    args: Args,
    started: Instant,
    running: AtomicUsize,
}

/// A stream that runs.
struct Running(Arc<Engine>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) async fn serve(args: Args) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", args.port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let engine = Arc::new(Engine { args, started: Instant::now(), running: AtomicUsize::new(0) });
    let running = |State(engine): State<Arc<Engine>>| async move { engine.running.load(Ordering::Relaxed).to_string() };
    let router = Router::new()
        .route("/health", get(|| async {}))
        .route("/running", get(running))
        .route("/v1/completions", post(complete))
        .with_state(engine);
    let listener = listener.tap_io(|connection| {
        let _ = connection.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}

async fn complete(State(engine): State<Arc<Engine>>, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let prompt = body["prompt"].to_string();
    if prompt.contains("refuse") {
        return (StatusCode::SERVICE_UNAVAILABLE, r#"{"error": {"message": "no room"}}"#).into_response();
    }
    let after = |word: &str| -> Option<u64> {
        let rest = &prompt[prompt.rfind(word)? + word.len()..];
        rest[..rest.find(|c: char| !c.is_ascii_digit())?].parse().ok()
    };
    let tokens = if prompt.contains("short") { SHORT } else { engine.args.tokens };
    let (die, fail) = (after("die-"), after("fail-"));
    engine.running.fetch_add(1, Ordering::Relaxed);
    let running = Running(engine.clone());
    let events = async_stream::stream! {
        let _running = running;
        let step = Duration::from_secs_f64(1.0 / engine.args.rate);
        // Prefilled within a few steps; from then on in step with all others.
        let first = engine.started.elapsed().div_duration_f64(step) as u32 + 4;
        for token in 0..tokens {
            sleep_until(engine.started + step * (first + token as u32)).await;
            if die == Some(token) {
                yield Err(io::Error::other("died"));
                return;
            }
            if fail == Some(token) {
                yield Ok::<Bytes, io::Error>(Bytes::from_static(b"data: {\"error\": {\"message\": \"out of memory\"}}\n\n"));
                return;
            }
            let (text, ids) = match token {
                0 => ("<|close|>think<|sep|><|open|>response<|sep|>".into(), &[163_588, 39_964, 163_589, 163_587, 12_092, 163_589][..]),
                _ => (format!(" {}", micros()), &[1000][..]),
            };
            yield Ok(event(&text, ids, None, token));
        }
        let close = "<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>";
        yield Ok(event(close, &[163_588, 12_092, 163_589, 163_588, 2_778, 163_589, 163_586], Some("stop"), tokens));
        yield Ok(Bytes::from_static(b"data: [DONE]\n\n"));
    };
    ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
}

fn event(text: &str, ids: &[u32], end: Option<&str>, tokens: u64) -> Bytes {
    let choice = json!({"index": 0, "text": text, "logprobs": null, "finish_reason": end, "stop_reason": null, "token_ids": ids});
    let usage = json!({"prompt_tokens": 40, "completion_tokens": tokens + 1, "total_tokens": tokens + 41});
    let event = json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "k3", "choices": [choice], "usage": usage});
    format!("data: {event}\n\n").into()
}

/// Unix time in microseconds.
pub(crate) fn micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
