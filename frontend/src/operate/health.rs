//! `/health`, `/ready` and `/metrics`.
//!
//! In: the state of the server and its engine. Out: whether it lives, whether it takes requests, what it counted.
//! Nothing is held.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::App;
use crate::error::{ApiError, json_response};

/// The process lives: whoever restarts it need not.
pub(super) async fn health() -> Response {
    json_response(StatusCode::OK, &json!({"status": "ok"}))
}

/// It takes requests: it does not drain, and its engine answers.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    let problem = if app.operate.drain.has_begun() {
        Some("the server drains".to_owned())
    } else {
        app.engine.ready().await.err()
    };
    match problem {
        None => json_response(StatusCode::OK, &json!({"status": "ready"})),
        Some(problem) => {
            json_response(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "not ready", "message": problem}))
        }
    }
}

/// What was counted, as Prometheus reads it.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let Some(handle) = &app.operate.metrics else {
        return ApiError::new(StatusCode::NOT_FOUND, "this server collects no metrics").into_response();
    };
    super::metrics::refresh(&app.operate);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], handle.render()).into_response()
}
