//! `/v1/messages`: Anthropic's Messages API.
//!
//! In: a request. Out: one message, or its events, through the crate's `AnthropicMessages`. Held: what [`one`] holds.
//! Thinking is off unless the request asks for it, as clients of this API expect.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use kimi_xtml::{AnthropicMessages, Delta, IdPolicy, Message as Said};
use serde_json::json;

use crate::chat::{ignored_header, usage_headers};
use crate::engine::EngineError;
use crate::error::{ApiError, json_response};
use crate::one::{self, Events};
use crate::request::messages;
use crate::turn::Turn;
use crate::{App, ids};

/// Answers a request.
///
/// # Errors
/// If the request cannot be served.
pub async fn messages(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let body = app.body(request).await?;
    let (asked, ()) = app.admit(body, |body, policy| Ok((messages::read(body, policy, false)?, ()))).await?;
    let (stream, ignored) = (asked.stream, ignored_header(asked.ignored.clone()));
    let call_ids = IdPolicy::with(|_, _| format!("toolu_{}", ids::object_id()));
    let (turn, steps) = one::begin(&app, asked, call_ids).await?;
    let events = AnthropicMessages::new(&format!("msg_{}", ids::object_id()), app.models.name());
    if stream {
        return Ok((ignored, one::stream(&app, turn, steps, events)).into_response());
    }
    let (turn, reason) = one::whole(turn, steps).await?;
    let usage = turn.usage();
    let nothing = Said::default();
    let message = events.message(turn.message().unwrap_or(&nothing), reason, turn.stopped_by(), &usage);
    let body = ([("content-type", "application/json")], message.get().to_owned());
    Ok((StatusCode::OK, usage_headers(&usage), ignored, body).into_response())
}

/// Counts the tokens of a request's prompt.
///
/// # Errors
/// If the request could not be served either.
pub async fn count_tokens(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let body = app.body(request).await?;
    let (asked, ()) = app.admit(body, |body, policy| Ok((messages::read(body, policy, true)?, ()))).await?;
    Ok(json_response(StatusCode::OK, &json!({"input_tokens": asked.job.prompt.tokens})))
}

impl Events for AnthropicMessages {
    const ALIVE: &'static str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

    fn start(&mut self, turn: &Turn, out: &mut BytesMut) {
        AnthropicMessages::start(self, &turn.usage(), out);
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut BytesMut) {
        AnthropicMessages::delta(self, delta, out);
    }

    fn end(&mut self, turn: &Turn, reason: &str, out: &mut BytesMut) {
        AnthropicMessages::end(self, reason, turn.stopped_by(), &turn.usage(), out);
    }

    fn fail(&mut self, _: &Turn, error: EngineError, out: &mut BytesMut) {
        let data = ApiError::from(error).anthropic();
        out.extend_from_slice(format!("event: error\ndata: {data}\n\n").as_bytes());
    }
}
