//! The record of a request: its id, what came of it, and the line and the counts that tell so.
//!
//! In: a request, and what is found out while it is answered, wherever that is ([`Record::current`]). Out: ids in the
//! response's headers and in those for the engine; when all is over, a line of the log, and metrics. Held: a record for each
//! request, until its response has gone or its client has.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Body as _, Frame, SizeHint};
use kimi_xtml::Usage;
use metrics::{counter, histogram};
use tokio::sync::OwnedSemaphorePermit;
use tracing::{debug, info, warn};

use super::metrics::{CACHED_TOKENS, ERRORS, PROMPT_TOKENS, REQUEST_SECONDS, REQUESTS};
use crate::error::ApiError;
use crate::ids;

/// What clients of all APIs read a request's id from, and of Anthropic's too.
const ID: [HeaderName; 2] = [HeaderName::from_static("x-request-id"), HeaderName::from_static("request-id")];
/// What an engine gets too.
const TRACE: [&str; 2] = ["traceparent", "tracestate"];
/// The longest id that is taken from a client.
const LONGEST_ID: usize = 200;
/// The status in log and metrics of a request whose client left before the end.
const LEFT: u16 = 499;

tokio::task_local! {
    static CURRENT: Arc<Record>;
}

/// What is known of a request.
#[derive(Debug)]
pub struct Record {
    method: Method,
    path: String,
    route: String,
    id: HeaderValue,
    trace: HeaderMap,
    started: Instant,
    found: Mutex<Found>,
}

/// What is found out while the request is answered.
#[derive(Debug, Default)]
struct Found {
    status: Option<u16>,
    whole: bool,
    error: Option<&'static str>,
    first: Option<Duration>,
    usage: Usage,
    end: Option<&'static str>,
    place: Option<OwnedSemaphorePermit>,
}

impl Record {
    /// That of the request which is answered now.
    pub fn current() -> Option<Arc<Record>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// The headers by which an engine tells the same request: its id and its trace.
    pub fn passed_on() -> HeaderMap {
        let Some(record) = Record::current() else { return HeaderMap::new() };
        let mut headers = record.trace.clone();
        headers.insert(ID[0].clone(), record.id.clone());
        headers
    }

    fn new(request: &Request) -> Self {
        let headers = request.headers();
        let usable = |id: &&HeaderValue| (1..=LONGEST_ID).contains(&id.len()) && id.to_str().is_ok();
        let new = || HeaderValue::try_from(format!("req_{}", ids::object_id()));
        let trace = TRACE.iter().filter_map(|&name| Some((HeaderName::from_static(name), headers.get(name)?.clone())));
        Record {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            route: request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned(),
            id: headers.get(&ID[0]).filter(usable).cloned().or(new().ok()).unwrap_or(HeaderValue::from_static("")),
            trace: trace.collect(),
            started: Instant::now(),
            found: Mutex::default(),
        }
    }

    /// Holds a place until all is over.
    pub(super) fn hold(&self, place: OwnedSemaphorePermit) {
        self.found().place = Some(place);
    }

    /// The first tokens are there. Gives how long they took, the first time.
    pub(super) fn first(&self) -> Option<Duration> {
        let mut found = self.found();
        found.first.is_none().then(|| *found.first.insert(self.started.elapsed()))
    }

    /// An error is told to the client. The first counts: what follows comes of it.
    pub(super) fn failed(&self, kind: &'static str) {
        let mut found = self.found();
        if found.error.is_none() {
            found.error = Some(kind);
            counter!(ERRORS, "kind" => kind).increment(1);
        }
    }

    /// A choice has ended. Those of one request have one prompt.
    pub(super) fn ended(&self, reason: &'static str, usage: &Usage) {
        let mut found = self.found();
        let sum = found.usage + *usage;
        found.usage = sum.with_prompt_tokens(usage.prompt_tokens).with_cached_tokens(usage.cached_tokens);
        found.end = Some(reason);
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All is over.
impl Drop for Record {
    fn drop(&mut self) {
        let found = self.found.get_mut().unwrap_or_else(PoisonError::into_inner);
        let status = found.status.filter(|_| found.whole).unwrap_or(LEFT);
        let took = self.started.elapsed();
        counter!(REQUESTS, "route" => self.route.clone(), "status" => status.to_string()).increment(1);
        histogram!(REQUEST_SECONDS, "route" => self.route.clone()).record(took);
        counter!(PROMPT_TOKENS).increment(found.usage.prompt_tokens);
        counter!(CACHED_TOKENS).increment(found.usage.cached_tokens);
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    method = self.method.as_str(),
                    path = self.path,
                    status,
                    ms = took.as_millis() as u64,
                    first_token_ms = found.first.map(|first| first.as_millis() as u64),
                    prompt_tokens = found.end.map(|_| found.usage.prompt_tokens),
                    completion_tokens = found.end.map(|_| found.usage.completion_tokens),
                    finish_reason = found.end,
                    error = found.error,
                    request_id = self.id.to_str().unwrap_or_default(),
                    "request"
                )
            };
        }
        match status {
            500.. => line!(warn),
            _ if found.error.is_some() && status == 200 => line!(warn), // it failed in mid stream
            _ if self.method == Method::GET => line!(debug),
            _ => line!(info),
        }
    }
}

/// Records a request.
pub(super) async fn observe(mut request: Request, next: Next) -> Response {
    let record = Arc::new(Record::new(&request));
    request.headers_mut().insert(ID[0].clone(), record.id.clone());
    let mut response = CURRENT.scope(record.clone(), next.run(request)).await;
    record.found().status = Some(response.status().as_u16());
    if let Some(error) = response.extensions().get::<ApiError>() {
        record.failed(error.kind());
    }
    for name in ID {
        response.headers_mut().insert(name, record.id.clone());
    }
    response.map(|body| Body::new(Observed { body, ended: false, record }))
}

/// A body that is part of the record.
struct Observed {
    body: Body,
    ended: bool,
    record: Arc<Record>,
}

impl http_body::Body for Observed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let polled = CURRENT.sync_scope(this.record.clone(), || Pin::new(&mut this.body).poll_frame(context));
        this.ended |= matches!(polled, Poll::Ready(None));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        let nothing_is_sent = self.record.method == Method::HEAD;
        self.record.found().whole = self.ended || self.body.is_end_stream() || nothing_is_sent;
    }
}
