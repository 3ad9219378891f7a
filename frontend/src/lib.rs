//! A server that speaks like a Kimi K3 endpoint, and the example of how kimi-xtml is embedded.
//!
//! In: requests of the Chat Completions, Messages and Responses APIs. Out: what an [`Engine`] generates for them, parsed as
//! it comes. Held: what each request holds, as long as its client stays.
//! [`chat`] is the handler to read first, [`turn`] what it holds of a choice.

pub mod admit;
mod body;
pub mod chat;
pub mod engine;
pub mod engine_options;
pub mod error;
pub mod ids;
pub mod messages;
mod models;
mod notice;
pub mod one;
pub mod operate;
pub mod page;
pub mod request;
pub mod responses;
pub mod turn;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use kimi_xtml_tokenizer::Tokenizer;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use admit::Models;
use engine::Engine;
use error::ApiError;
use operate::Operate;
use request::Policy;

/// Large requests that are read at the same time.
const HEAVY: usize = 2;

/// What all requests share.
pub struct App {
    /// What generates.
    pub engine: Arc<dyn Engine>,
    /// The names of the model.
    pub models: Models,
    /// The model's tokenizer, if its ranks are there.
    pub tokenizer: Option<Arc<Tokenizer>>,
    /// What requests may ask for.
    pub policy: Policy,
    /// How long a connection may be silent before a request, or stay in the middle of its head.
    pub head_timeout: Duration,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// How long a stream is silent before it says that it is alive.
    pub keep_alive: Duration,
    /// Whether call ids are random, and not `{name}_{index}`.
    pub random_ids: bool,
    /// Lets a few large requests be read at the same time.
    pub heavy: Arc<Semaphore>,
    /// What whoever runs the server needs.
    pub operate: Operate,
    /// Whether the page of the parser is served.
    pub page: bool,
}

impl App {
    /// An engine under a model's name; bodies of at most 32 MiB, sent within 30 s.
    pub fn new(engine: Arc<dyn Engine>, model: &str) -> Self {
        App {
            engine,
            models: Models::new(model, &[]),
            tokenizer: None,
            policy: Policy::default(),
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(10),
            random_ids: false,
            heavy: Arc::new(Semaphore::new(HEAVY)),
            operate: Operate::default(),
            page: true,
        }
    }

    /// The paths that are served.
    pub fn router(self) -> Router {
        let nothing = || async { ApiError::new(StatusCode::NOT_FOUND, "there is nothing at this path") };
        let other = || async { ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method") };
        let paths = Router::new()
            .route("/v1/chat/completions", post(chat::completions))
            .route("/v1/messages", post(messages::messages))
            .route("/v1/messages/count_tokens", post(messages::count_tokens))
            .route("/v1/responses", post(responses::responses))
            .route("/v1/models", get(models::all))
            .route("/v1/models/{model}", get(models::one))
            .fallback(nothing)
            .method_not_allowed_fallback(other);
        let (paths, files) =
            if self.page { (paths.merge(page::calls()), page::files()) } else { (paths, Router::new()) };
        self.operate.clone().around(paths, files).with_state(Arc::new(self))
    }

    /// Serves on this listener until it is drained. Frames are small: they go out without waiting for more.
    ///
    /// # Errors
    /// What the system says when it accepts no connection any more.
    pub async fn serve(self, listener: TcpListener) -> std::io::Result<()> {
        let (drain, handle) = (self.operate.drain.clone(), Handle::new());
        let server = axum_server::from_tcp(listener.into_std()?)?.http1_only();
        let mut server = server.acceptor(NoDelayAcceptor::new()).handle(handle.clone());
        server.http_builder().http1().header_read_timeout(self.head_timeout);
        tokio::select! {
            served = server.serve(self.router().into_make_service()) => served,
            () = drain.ends(&handle) => Ok(()),
        }
    }

    /// The body of a request, within the limits.
    async fn body(&self, request: Request) -> Result<Bytes, ApiError> {
        body::body(request, self.policy.max_body, self.body_timeout).await
    }
}

/// What comes within this time; none if it was over. Dropped, it loses nothing that is a stream's next item.
async fn within<T>(time: Duration, next: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, next).await.ok()
}

/// Unix time in seconds.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
