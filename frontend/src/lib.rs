//! A server that speaks like a Kimi K3 endpoint, and the example of how kimi-xtml is embedded.
//!
//! In: requests of the Chat Completions, Messages and Responses APIs. Out: what an [`Engine`] generates for them, parsed as
//! it comes. Held: what each request holds, as long as its client stays.
//! [`chat`] is the handler to read first, [`turn`] what it holds of a choice.

pub mod chat;
pub mod engine;
pub mod error;
pub mod ids;
pub mod messages;
pub mod one;
pub mod request;
pub mod responses;
pub mod turn;

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::{Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router, serve::ListenerExt};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use engine::Engine;
use error::ApiError;

/// What all requests share.
pub struct App {
    /// What generates.
    pub engine: Arc<dyn Engine>,
    /// The name of the model.
    pub model: String,
    /// The largest body that is read, in bytes.
    pub max_body: usize,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// Whether call ids are random, and not `{name}_{index}`.
    pub random_ids: bool,
}

impl App {
    /// An engine under a model's name; bodies of at most 32 MiB, sent within 30 s.
    pub fn new(engine: Arc<dyn Engine>, model: &str) -> Self {
        let body_timeout = Duration::from_secs(30);
        App { engine, model: model.into(), max_body: 32 << 20, body_timeout, random_ids: false }
    }

    /// The paths that are served.
    pub fn router(self) -> Router {
        let nothing = || async { ApiError::new(StatusCode::NOT_FOUND, "there is nothing at this path") };
        let other = || async { ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method") };
        Router::new()
            .route("/v1/chat/completions", post(chat::completions))
            .route("/v1/messages", post(messages::messages))
            .route("/v1/responses", post(responses::responses))
            .route("/v1/models", get(models))
            .route("/v1/models/{model}", get(model))
            .fallback(nothing)
            .method_not_allowed_fallback(other)
            .with_state(Arc::new(self))
    }

    /// Serves on this listener, for ever. Frames are small: they go out without waiting for more.
    ///
    /// # Errors
    /// What the system says when it accepts no connection any more.
    pub async fn serve(self, listener: TcpListener) -> std::io::Result<()> {
        let listener = listener.tap_io(|connection| {
            let _ = connection.set_nodelay(true); // without it frames go out late, but they go out
        });
        axum::serve(listener, self.router()).await
    }

    /// The body of a request, within the limits.
    async fn body(&self, request: Request) -> Result<Bytes, ApiError> {
        let read = tokio::time::timeout(self.body_timeout, to_bytes(request.into_body(), self.max_body)).await;
        let read = read.map_err(|_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive"))?;
        read.map_err(|error| match error.source() {
            Some(source) if source.to_string().contains("length limit") => {
                let message = format!("the body is larger than {} bytes", self.max_body);
                ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message).code("request_too_large")
            }
            _ => ApiError::new(StatusCode::BAD_REQUEST, "the body broke off"),
        })
    }

    /// Refuses other models.
    fn knows(&self, model: &str) -> Result<(), ApiError> {
        if model == self.model {
            return Ok(());
        }
        let message = format!("the model `{model}` does not exist; this server has `{}`", self.model);
        Err(ApiError { param: Some("model".into()), ..ApiError::new(StatusCode::NOT_FOUND, message) }
            .code("model_not_found"))
    }

    fn card(&self) -> Value {
        json!({"id": self.model, "object": "model", "created": 1_790_000_000, "owned_by": "kimi-xtml"})
    }
}

async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"object": "list", "data": [app.card()]}))
}

async fn model(State(app): State<Arc<App>>, Path(model): Path<String>) -> Result<Json<Value>, ApiError> {
    app.knows(&model)?;
    Ok(Json(app.card()))
}

/// Unix time in seconds.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
