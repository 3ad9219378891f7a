//! Errors, in the API's shape.
//!
//! In: what went wrong before a stream began. Out: a status and `{"error": {"message", "type", "code", "param"}}`, or
//! the shape of Anthropic's API for its path. Nothing is held.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::engine::EngineError;

/// An error that is answered instead of a completion.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// What is wrong, and with what.
    pub message: String,
    /// A word for it that programs may test for.
    pub code: Option<&'static str>,
    /// The member of the request that is at fault.
    pub param: Option<String>,
}

impl ApiError {
    /// An error with this status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        ApiError { status, message: message.into(), code: None, param: None }
    }

    /// A member of the request is at fault.
    pub fn param(param: impl Into<String>, message: impl Into<String>) -> Self {
        ApiError { param: Some(param.into()), ..ApiError::new(StatusCode::BAD_REQUEST, message) }
    }

    /// Sets the code.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// The body.
    pub fn body(&self) -> Value {
        let kind = if self.status.is_client_error() { "invalid_request_error" } else { "server_error" };
        json!({"error": {"message": self.message, "type": kind, "code": self.code, "param": self.param}})
    }

    /// The body, as Anthropic's API has it.
    pub fn anthropic(&self) -> Value {
        let kind = match self.status {
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            status if status.is_client_error() => "invalid_request_error",
            _ => "api_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": self.message}})
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(message) => ApiError::new(StatusCode::BAD_REQUEST, message),
            EngineError::Failed(message) => ApiError::new(StatusCode::BAD_GATEWAY, message).code("engine_failed"),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        json_response(self.status, &self.body())
    }
}

/// A JSON response.
pub fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
