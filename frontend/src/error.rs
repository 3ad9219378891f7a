//! Errors, in the API's shape.
//!
//! In: what went wrong before a stream began. Out: a status and `{"error": {"message", "type", "code", "param"}}`, or
//! the shape of Anthropic's API on its paths. Nothing is held.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
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
    /// When it may be tried again, in seconds, as `retry-after` has it.
    pub retry_after: Option<String>,
}

impl ApiError {
    /// An error with this status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        ApiError { status, message: message.into(), code: None, param: None, retry_after: None }
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

    /// Sets when it may be tried again.
    #[must_use]
    pub fn retry_after(mut self, seconds: impl Into<Option<String>>) -> Self {
        self.retry_after = seconds.into();
        self
    }

    /// A word for it: the code, or else the type.
    pub fn kind(&self) -> &'static str {
        self.code.unwrap_or_else(|| self.family())
    }

    fn family(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// The body.
    pub fn body(&self) -> Value {
        json!({"error": {"message": self.message, "type": self.family(), "code": self.code, "param": self.param}})
    }

    /// The body, as Anthropic's API has it.
    pub fn anthropic(&self) -> Value {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            StatusCode::GATEWAY_TIMEOUT => "timeout_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "api_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": self.message}})
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let said = error.to_string();
        match error {
            EngineError::Refused(_) => ApiError::new(StatusCode::BAD_REQUEST, said),
            EngineError::TooLong(_) => ApiError::new(StatusCode::BAD_REQUEST, said).code("context_length_exceeded"),
            EngineError::Busy { of_client: true, retry_after, .. } => {
                ApiError::new(StatusCode::TOO_MANY_REQUESTS, said).code("engine_busy").retry_after(retry_after)
            }
            EngineError::Busy { retry_after, .. } => {
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, said).code("engine_busy").retry_after(retry_after)
            }
            EngineError::Late { .. } => ApiError::new(StatusCode::GATEWAY_TIMEOUT, said).code("engine_timeout"),
            EngineError::Failed(_) => ApiError::new(StatusCode::BAD_GATEWAY, said).code("engine_failed"),
        }
    }
}

/// Which API's shape an error has depends on the path: `shaped` sees to it.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = json_response(self.status, &self.body());
        if let Some(seconds) = self.retry_after.as_deref().and_then(|seconds| HeaderValue::from_str(seconds).ok()) {
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Gives errors on Anthropic's paths, and to its clients, its shape.
pub(crate) async fn shaped(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let anthropic =
        path.starts_with("/v1/messages") || path.starts_with("/v1/models") && of_anthropic(request.headers());
    let response = next.run(request).await;
    let Some(error) = response.extensions().get::<ApiError>().filter(|_| anthropic) else { return response };
    let body = error.anthropic().to_string();
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, body.into())
}

/// Whether the client is one of Anthropic's API.
pub(crate) fn of_anthropic(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

/// A JSON response.
pub fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// At most so many bytes of a text, for a message.
pub(crate) fn short(text: &str, most: usize) -> &str {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    &text[..ends.take_while(|&end| end <= most).last().unwrap_or(0)]
}
