//! Hosts: under which names the server may be called.
//!
//! In: a request. Out: the same, or a 403. Nothing is held. A page of any site can have its own name point at a loopback
//! address and then read what a server there says; the name that the browser calls gives it away.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Operate;
use crate::error::ApiError;

/// The names of loopback.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The names that are allowed.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Option<Arc<[String]>>);

impl Hosts {
    /// These names; if there are none, loopback's on loopback, and elsewhere any.
    pub fn new(names: &[String], on_loopback: bool) -> Self {
        let lower = |name: &String| name.to_ascii_lowercase();
        Hosts(match names {
            [] if on_loopback => Some(LOOPBACK.map(str::to_owned).into()),
            [] => None,
            names if names.iter().any(|name| name == "*") => None,
            names => Some(names.iter().map(lower).collect()),
        })
    }

    fn allow(&self, host: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.iter().any(|name| name.eq_ignore_ascii_case(host)))
    }
}

/// Refuses requests under other names.
pub(super) async fn check(State(operate): State<Operate>, request: Request, next: Next) -> Response {
    let header = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let host = request.uri().authority().or(header.as_ref()).map_or("", Authority::host);
    if operate.hosts.allow(host) {
        return next.run(request).await;
    }
    let message = "this server is not called by this name: `--allowed-host` allows it";
    ApiError::new(StatusCode::FORBIDDEN, message).code("host_not_allowed").into_response()
}
