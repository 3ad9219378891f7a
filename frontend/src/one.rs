//! A request with one choice, for the APIs that know no other.
//!
//! In: a [`Turn`] and its steps. Out: a body of events, as an API writes them, or the turn when it has ended. Held: the
//! turn, and the bytes of one step.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use kimi_xtml::{Delta, IdPolicy};
use tokio_stream::StreamExt;

use crate::App;
use crate::chat::usage_headers;
use crate::engine::{EngineError, Job, Steps};
use crate::error::ApiError;
use crate::turn::Turn;

/// How an API writes events.
pub trait Events: Send + 'static {
    /// Before the first delta.
    fn start(&mut self, turn: &Turn, out: &mut BytesMut);
    /// A delta.
    fn delta(&mut self, delta: Delta<'_>, out: &mut BytesMut);
    /// The turn has ended, for this reason.
    fn end(&mut self, turn: &Turn, reason: &str, out: &mut BytesMut);
    /// The engine broke the turn off.
    fn fail(&mut self, turn: &Turn, error: EngineError, out: &mut BytesMut);
}

/// Starts the choice.
///
/// # Errors
/// What the engine refuses.
pub(crate) async fn begin(app: &App, job: Job, stops: &[String], ids: IdPolicy) -> Result<(Turn, Steps), ApiError> {
    let job = Arc::new(job);
    let generation = app.engine.start(job.clone(), 0).await?;
    Ok(Turn::new(&job, generation, ids, stops, false))
}

/// The events, as they are generated.
pub(crate) fn stream(turn: Turn, mut steps: Steps, mut events: impl Events) -> Response {
    let mut turn = turn.without_message();
    let headers = usage_headers(&turn.usage());
    let body = Body::from_stream(async_stream::stream! {
        let mut out = BytesMut::new();
        events.start(&turn, &mut out);
        let mut failure = None;
        while turn.end().is_none() {
            if !out.is_empty() {
                yield Ok::<Bytes, Infallible>(out.split().freeze());
            }
            let broken = || Err(EngineError::Failed("the engine broke the generation off".into()));
            match steps.next().await.unwrap_or_else(broken) {
                Ok(step) => turn.take(step),
                Err(error) => {
                    turn.finish("abort");
                    failure = Some(error);
                }
            }
            turn.deltas().for_each(|(delta, _)| events.delta(delta, &mut out));
            turn.clear();
        }
        match (failure, turn.end()) {
            (Some(error), _) => events.fail(&turn, error, &mut out),
            (None, reason) => events.end(&turn, reason.unwrap_or_default(), &mut out),
        }
        yield Ok(out.freeze());
    });
    (headers, [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")], body).into_response()
}

/// The turn when it has ended, and its finish reason.
pub(crate) async fn whole(mut turn: Turn, mut steps: Steps) -> (Turn, &'static str) {
    while turn.end().is_none()
        && let Some(Ok(step)) = steps.next().await
    {
        turn.take(step);
        turn.clear();
    }
    turn.finish("abort");
    let reason = turn.end().unwrap_or_default();
    (turn, reason)
}
