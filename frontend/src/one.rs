//! A request with one choice, for the APIs that know no other.
//!
//! In: a [`Turn`] and its steps. Out: a body of events, as an API writes them, or the turn when it has ended. Held: the
//! turn, and the bytes of one step.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use kimi_xtml::{Delta, IdPolicy};
use tokio_stream::StreamExt;

use crate::admit::Asked;
use crate::chat::usage_headers;
use crate::engine::{EngineError, Steps};
use crate::error::ApiError;
use crate::turn::Turn;
use crate::{App, within};

/// How an API writes events.
pub trait Events: Send + 'static {
    /// Says, where nothing else is to say, that the connection is alive.
    const ALIVE: &'static str;

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
pub(crate) async fn begin(app: &App, asked: Asked, ids: IdPolicy) -> Result<(Turn, Steps), ApiError> {
    let generation = app.engine.start(asked.job, 1).await?.pop();
    let generation = generation.ok_or_else(|| EngineError::Failed("the engine started nothing".into()))?;
    Ok(Turn::new(&asked.turn, generation, ids, false))
}

/// The events, as they are generated.
pub(crate) fn stream<E: Events>(app: &App, turn: Turn, mut steps: Steps, mut events: E) -> Response {
    let keep_alive = app.keep_alive;
    let mut turn = turn.without_message();
    let headers = turn.counted().then(|| usage_headers(&turn.usage()));
    let body = Body::from_stream(async_stream::stream! {
        let mut out = BytesMut::new();
        events.start(&turn, &mut out);
        let mut failure = None;
        while turn.end().is_none() {
            if !out.is_empty() {
                yield Ok::<Bytes, Infallible>(out.split().freeze());
            }
            let broken = || Err(EngineError::Failed("the engine broke the generation off".into()));
            let Some(next) = within(keep_alive, steps.next()).await else {
                yield Ok(Bytes::from_static(E::ALIVE.as_bytes()));
                continue;
            };
            match next.unwrap_or_else(broken) {
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
///
/// # Errors
/// If the engine fails, or breaks off: what it had said is no answer.
pub(crate) async fn whole(mut turn: Turn, mut steps: Steps) -> Result<(Turn, &'static str), ApiError> {
    loop {
        let Some(step) = steps.next().await else {
            return Err(EngineError::Failed("the engine broke the generation off".into()).into());
        };
        turn.take(step?);
        turn.clear();
        if let Some(reason) = turn.end() {
            return Ok((turn, reason));
        }
    }
}
