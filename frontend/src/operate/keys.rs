//! Keys: who may use the APIs.
//!
//! In: a request. Out: the same, or a 401. Nothing is held. A key comes as OpenAI's clients send it (`authorization: Bearer
//! KEY`) or as Anthropic's do (`x-api-key: KEY`), on every path.

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::Operate;
use crate::error::ApiError;

/// Refuses who has no key, if there are keys.
pub(super) async fn check(State(operate): State<Operate>, request: Request, next: Next) -> Response {
    let known = |given: &[u8]| operate.keys.iter().any(|key| bool::from(key.as_bytes().ct_eq(given)));
    let message = match given(request.headers()) {
        _ if operate.keys.is_empty() => return next.run(request).await,
        Some(given) if known(given) => return next.run(request).await,
        Some(_) => "this API key is not known here",
        None => "an API key is needed: `authorization: Bearer KEY`, or `x-api-key: KEY`",
    };
    let mut response = ApiError::new(StatusCode::UNAUTHORIZED, message).code("invalid_api_key").into_response();
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn given(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked("Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then(|| key.trim_ascii())
    });
    bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes))
}
