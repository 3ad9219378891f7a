//! CORS: pages of which origins may use the APIs.
//!
//! In: origins. Out: tower-http's layer for them. Nothing is held.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, Uri, header};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// Reads an origin: `*`, or a scheme and a host as browsers send them.
///
/// # Errors
/// What is wrong with it.
pub fn origin(text: &str) -> Result<HeaderValue, String> {
    let plain = |uri: &Uri| uri.scheme().is_some() && uri.path() == "/" && !text.ends_with('/');
    if text == "*" || text.parse::<Uri>().is_ok_and(|uri| plain(&uri)) {
        return text.parse().map_err(|_| "no origin".to_owned());
    }
    Err("an origin is a scheme and a host, as https://example.com, or `*`".into())
}

/// The layer, if there are origins.
pub(super) fn layer(origins: &[HeaderValue]) -> Option<CorsLayer> {
    let allowed = match origins {
        [] => return None,
        origins if origins.iter().any(|origin| origin == "*") => AllowOrigin::any(),
        origins => AllowOrigin::list(origins.iter().cloned()),
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([HeaderName::from_static("x-request-id"), header::RETRY_AFTER])
        .max_age(Duration::from_secs(3600));
    Some(layer)
}
