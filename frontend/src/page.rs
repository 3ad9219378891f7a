//! `/`: a page that shows what the parser makes of a stream, while it is generated.
//!
//! In: a case of the corpora, or a request of Chat Completions, as the page sends them. Out: a line of JSON for each step that
//! the parser took. Held: the files of the page and this project's recorded streams. Nothing is loaded from elsewhere.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};

use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use kimi_xtml_cli::cases::{self, Case, Choice, Context, Opened};
use kimi_xtml_cli::chunking::{Chunking, Chunkings};
use kimi_xtml_cli::play::Delta;
use kimi_xtml_cli::view::{self, Viewer};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::App;
use crate::engine::Chunk;
use crate::error::ApiError;
use crate::request::chat;

/// Scripts and styles are the server's own, no frame may hold the page, and it sends nothing to others.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Lines that wait for a slow client.
const WAITING: usize = 64;

static RECORDED: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let files = [
        include_str!("../../corpora/tools.jsonl"),
        include_str!("../../corpora/malformed.jsonl"),
        include_str!("../../corpora/math.jsonl"),
    ];
    files.iter().flat_map(|file| cases::read_from(file.as_bytes(), "corpora").unwrap_or_default()).collect()
});

/// The files of the page, which anybody may have.
pub(crate) fn files() -> Router<Arc<App>> {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move {
            let headers = [
                (header::CONTENT_TYPE, kind),
                (header::CONTENT_SECURITY_POLICY, POLICY),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::REFERRER_POLICY, "no-referrer"),
                (header::CACHE_CONTROL, "no-cache"),
            ];
            (headers, text)
        })
    };
    let (script, style) = ("text/javascript; charset=utf-8", "text/css; charset=utf-8");
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("page/index.html")))
        .route("/page/page.js", file(script, include_str!("page/page.js")))
        .route("/page/page.css", file(style, include_str!("page/page.css")))
        .route("/page/view.js", file(script, view::JS))
        .route("/page/view.css", file(style, view::CSS))
}

/// What the page asks of the server.
pub(crate) fn calls() -> Router<Arc<App>> {
    Router::new()
        .route("/page/streams", get(streams))
        .route("/page/streams/{id}", get(stream))
        .route("/page/play", post(play))
        .route("/page/prompt", post(prompt))
}

async fn streams() -> Json<Value> {
    Json(RECORDED.iter().map(|case| json!({"id": case.id, "kind": case.kind})).collect())
}

async fn stream(Path(id): Path<String>) -> Result<Json<&'static Case>, ApiError> {
    let found = RECORDED.iter().find(|case| case.id == id);
    found.map(Json).ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, format!("there is no recorded stream `{id}`")))
}

/// Plays a case; `chunking` says how it is cut, `result` that only its result is asked for.
async fn play(State(app): State<Arc<App>>, RawQuery(query): RawQuery, request: Request) -> Result<Response, ApiError> {
    let body = app.body(request).await?;
    let (mut chunking, mut only_result) = (Chunking::AsGiven, false);
    for part in query.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=').unwrap_or((part, "")) {
            ("result", _) => only_result = true,
            ("chunking", way) => {
                let ways: Chunkings = way.parse().map_err(|error| bad(format!("chunking: {error}")))?;
                chunking = *ways.0.first().ok_or_else(|| bad("chunking: no way to cut".into()))?;
            }
            (other, _) => return Err(bad(format!("{other}: the query has chunking and result"))),
        }
    }
    let cases = cases::read_from(&body[..], "the case").map_err(|error| bad(error.to_string()))?;
    let [case] = &cases[..] else { return Err(bad(format!("a body is one case, and not {}", cases.len()))) };
    let case = case.clone();
    let (send, lines) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        // An error says that the client went away.
        let _ = if only_result {
            send.blocking_send(line(&BTreeMap::from([("result", view::result(&case, chunking))])))
        } else {
            view::play(&case, chunking, |step| send.blocking_send(line(&step)))
        };
    });
    Ok(answer(ReceiverStream::new(lines)))
}

/// Sends a request of Chat Completions to the engine, and shows what it generates.
async fn prompt(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let body = app.body(request).await?;
    let (asked, ()) = app.admit(body, |body, policy| Ok((chat::read(body, policy)?, ()))).await?;
    let (spec, mut begun) = (asked.turn, app.engine.start(asked.job, 1).await?);
    let Some(generation) = begun.pop() else { return Err(bad("the engine began nothing".into())) };
    let request = spec.request(generation.opened);
    let context = Context {
        tools: request.tools.clone(),
        tool_choice: Choice::Word(word(&request.tool_choice)),
        initial_channel: Opened::from(generation.opened),
        engine_finish_reason: "stop".into(),
    };
    let mut steps = generation.steps;
    let lines = async_stream::stream! {
        let mut viewer = Viewer::new(request);
        let mut reason = None;
        yield line(&json!({"context": context}));
        while reason.is_none() && let Some(step) = steps.next().await {
            let step = match step {
                Ok(step) => step,
                Err(error) => {
                    yield line(&json!({"error": error.to_string()}));
                    return;
                }
            };
            for chunk in &step.chunks {
                yield line(&viewer.push(match chunk {
                    Chunk::Tokens { text, ids, .. } => Delta::Ids(text, ids),
                    Chunk::Text(text) => Delta::Text(text),
                    Chunk::Bytes(bytes) => Delta::Bytes(bytes),
                }));
            }
            reason = step.end;
        }
        match reason {
            Some(reason) => yield line(&viewer.finish(&reason)),
            None => yield line(&json!({"error": "the engine broke the generation off"})),
        }
    };
    Ok(answer(lines))
}

fn word(choice: &kimi_xtml::ToolChoice) -> String {
    match choice {
        kimi_xtml::ToolChoice::Auto => "auto".into(),
        kimi_xtml::ToolChoice::None => "none".into(),
        kimi_xtml::ToolChoice::Required => "required".into(),
        kimi_xtml::ToolChoice::Named(name) => name.clone(),
    }
}

fn bad(message: String) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, message)
}

fn line(value: &impl Serialize) -> Bytes {
    let mut line =
        serde_json::to_vec(value).unwrap_or_else(|error| json!({"error": error.to_string()}).to_string().into());
    line.push(b'\n');
    line.into()
}

fn answer(lines: impl futures_util::Stream<Item = Bytes> + Send + 'static) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(lines.map(Ok::<_, Infallible>))).into_response()
}
