//! The places of running requests.
//!
//! In: a request. Out: the same, or a 429 when all places are taken, or a 503 when the server drains. Held: a place for
//! each request, until the last byte of its response has gone or its client has.

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Operate;
use super::record::Record;
use crate::error::ApiError;

/// Seconds after which a client may come again.
const AGAIN: &str = "1";

/// Gives the request a place, or refuses it. Only what is posted needs one.
pub(super) async fn limit(State(operate): State<Operate>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let again = Some(AGAIN.to_owned());
    if operate.drain.has_begun() {
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server drains and takes nothing new");
        return error.code("draining").retry_after(again).into_response();
    }
    let Ok(place) = operate.places.free.clone().try_acquire_owned() else {
        let message = format!("{} requests run, and no more may", operate.places.all);
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, message);
        return error.code("too_many_requests").retry_after(again).into_response();
    };
    if let Some(record) = Record::current() {
        record.hold(place);
    }
    next.run(request).await
}
