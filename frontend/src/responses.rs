//! `/v1/responses`: OpenAI's Responses API.
//!
//! In: a request. Out: one response, or its events, through the crate's `Responses`. Held: what [`one`] holds, and the
//! response so far, which its last event repeats. No response is kept when it has gone out.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use kimi_xtml::{Delta, IdPolicy, Message as Said, Responses};

use crate::chat::{ignored_header, usage_headers};
use crate::engine::EngineError;
use crate::error::{ApiError, json_response};
use crate::one::{self, Events};
use crate::request::responses;
use crate::turn::Turn;
use crate::{App, ids, now};

/// Answers a request.
///
/// # Errors
/// If the request cannot be served.
pub async fn responses(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let body = app.body(request).await?;
    let (asked, repeated) = app.admit(body, responses::read).await?;
    let (stream, ignored) = (asked.stream, ignored_header(asked.ignored.clone()));
    let spaced = asked.job.tools.iter().filter_map(|tool| {
        let (space, own) = tool.space.clone()?;
        Some((tool.name.clone(), space, own))
    });
    let spaced: Vec<_> = spaced.collect();
    let (turn, steps) = one::begin(&app, asked, IdPolicy::random()).await?;
    let events = Responses::new(&format!("resp_{}", ids::object_id()), now(), app.models.name(), repeated)
        .with_namespaces(spaced);
    if stream {
        return Ok((ignored, one::stream(&app, turn, steps, events)).into_response());
    }
    let (turn, reason) = one::whole(turn, steps).await?;
    let usage = turn.usage();
    let nothing = Said::default();
    let whole = events.whole(turn.message().unwrap_or(&nothing), reason, &usage);
    Ok((usage_headers(&usage), ignored, json_response(StatusCode::OK, &whole)).into_response())
}

impl Events for Responses {
    const ALIVE: &'static str = ": keep-alive\n\n";

    fn start(&mut self, _: &Turn, out: &mut BytesMut) {
        Responses::start(self, out);
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut BytesMut) {
        Responses::delta(self, delta, out);
    }

    fn end(&mut self, turn: &Turn, reason: &str, out: &mut BytesMut) {
        Responses::end(self, reason, &turn.usage(), out);
    }

    fn fail(&mut self, turn: &Turn, error: EngineError, out: &mut BytesMut) {
        Responses::failed(self, "server_error", &error.to_string(), &turn.usage(), out);
    }
}
