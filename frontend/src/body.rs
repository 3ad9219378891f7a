//! The body of a request.
//!
//! In: a request. Out: the bytes of its JSON, or why there are none: of another type, encoded in another way, too large, too
//! slow, broken off. Held: what has come so far, and never more than the limit.

use std::error::Error;
use std::io::Read;
use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use flate2::read::GzDecoder;

use crate::error::ApiError;

/// Reads a body of at most `most` bytes, gzip or not, that comes within `within`.
///
/// # Errors
/// If there is none, as the status says.
pub(crate) async fn body(request: Request, most: usize, within: Duration) -> Result<Bytes, ApiError> {
    let headers = request.headers();
    let said = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("").trim();
    let declared = said(CONTENT_LENGTH).parse::<u64>().unwrap_or(0);
    if declared > most as u64 {
        return Err(too_large(most));
    }
    if !is_json(said(CONTENT_TYPE)) {
        let message = "the body must be JSON, and its content-type application/json";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let gzip = gzip(headers)?;
    let read = tokio::time::timeout(within, to_bytes(request.into_body(), most)).await;
    let read = read.map_err(|_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive"))?;
    let bytes = read.map_err(|error| match error.source() {
        Some(source) if source.to_string().contains("length limit") => too_large(most),
        _ => ApiError::new(StatusCode::BAD_REQUEST, "the body broke off"),
    })?;
    if gzip { unzipped(&bytes, most) } else { Ok(bytes) }
}

fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json")
}

fn gzip(headers: &HeaderMap) -> Result<bool, ApiError> {
    let Some(encoding) = headers.get(CONTENT_ENCODING) else { return Ok(false) };
    match encoding.as_bytes().to_ascii_lowercase().as_slice() {
        b"identity" => Ok(false),
        b"gzip" | b"x-gzip" => Ok(true),
        _ => Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be plain or gzip")),
    }
}

fn unzipped(bytes: &[u8], most: usize) -> Result<Bytes, ApiError> {
    let mut plain = Vec::new();
    let read = GzDecoder::new(bytes).take(most as u64 + 1).read_to_end(&mut plain);
    read.map_err(|error| ApiError::new(StatusCode::BAD_REQUEST, format!("the body is no gzip: {error}")))?;
    if plain.len() > most { Err(too_large(most)) } else { Ok(plain.into()) }
}

fn too_large(most: usize) -> ApiError {
    let message = format!("the body is larger than {most} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message).code("request_too_large")
}
