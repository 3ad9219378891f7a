//! Metrics, as Prometheus collects them.
//!
//! In: what records and watches count. Out: a handle that renders it. Held: the counts, for as long as the process lives.

use std::time::Duration;

use anyhow::Context;
use metrics::{Unit, counter, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;

use super::Operate;

/// Requests, by route and status; 499 where the client left before the end.
pub const REQUESTS: &str = "kimi_xtml_requests_total";
/// From a request's head to the last byte of its response, by route.
pub const REQUEST_SECONDS: &str = "kimi_xtml_request_seconds";
/// Requests that run.
pub const RUNNING: &str = "kimi_xtml_requests_running";
/// Errors that clients saw, by kind: the `code` of the error, or else its `type`.
pub const ERRORS: &str = "kimi_xtml_errors_total";
/// Answers that were generated, by finish reason; `abort` where the engine failed, `left` where the client went.
pub const GENERATIONS: &str = "kimi_xtml_generations_total";
/// From a request's head to the first tokens of its answer.
pub const FIRST_TOKEN_SECONDS: &str = "kimi_xtml_time_to_first_token_seconds";
/// From one step of the engine to the next.
pub const BETWEEN_TOKENS_SECONDS: &str = "kimi_xtml_time_between_tokens_seconds";
/// Tokens of prompts.
pub const PROMPT_TOKENS: &str = "kimi_xtml_prompt_tokens_total";
/// Tokens of prompts that the engine had in its cache.
pub const CACHED_TOKENS: &str = "kimi_xtml_cached_tokens_total";
/// Tokens that were generated.
pub const COMPLETION_TOKENS: &str = "kimi_xtml_completion_tokens_total";
/// Where an answer was not as the format has it, by the parser's code.
pub const DIAGNOSTICS: &str = "kimi_xtml_diagnostics_total";
/// 1, with the version.
pub const BUILD: &str = "kimi_xtml_build_info";

/// Each metric with its help.
pub const ALL: [(&str, Kind, &str); 12] = [
    (REQUESTS, Kind::Counter, "Requests, by route and status; 499 where the client left before the end."),
    (REQUEST_SECONDS, Kind::Histogram, "From a request's head to the last byte of its response, by route."),
    (RUNNING, Kind::Gauge, "Requests that run."),
    (ERRORS, Kind::Counter, "Errors that clients saw, by kind: the error's code, or else its type."),
    (GENERATIONS, Kind::Counter, "Answers, by finish reason; abort: the engine failed, left: the client went."),
    (FIRST_TOKEN_SECONDS, Kind::Histogram, "From a request's head to the first tokens of its answer."),
    (BETWEEN_TOKENS_SECONDS, Kind::Histogram, "From one step of the engine to the next."),
    (PROMPT_TOKENS, Kind::Counter, "Tokens of prompts."),
    (CACHED_TOKENS, Kind::Counter, "Tokens of prompts that the engine had in its cache."),
    (COMPLETION_TOKENS, Kind::Counter, "Tokens that were generated."),
    (DIAGNOSTICS, Kind::Counter, "Deviations from the format in answers, by the parser's code."),
    (BUILD, Kind::Gauge, "1, with the version."),
];

/// What a metric is.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Seconds, in buckets.
    Histogram,
}

/// The upper ends of the buckets, in seconds: from tokens of a fast engine to answers of an hour.
const BUCKETS: [f64; 20] = [
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0,
    3600.0,
];

/// Begins to collect, within a runtime.
///
/// # Errors
/// If somebody collects already.
pub fn start() -> anyhow::Result<PrometheusHandle> {
    let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &BUCKETS)?;
    let handle = builder.install_recorder().context("cannot collect metrics")?;
    for (name, kind, help) in ALL {
        match kind {
            Kind::Counter => metrics::describe_counter!(name, help),
            Kind::Gauge => metrics::describe_gauge!(name, help),
            Kind::Histogram => metrics::describe_histogram!(name, Unit::Seconds, help),
        }
    }
    for counted in [PROMPT_TOKENS, CACHED_TOKENS, COMPLETION_TOKENS] {
        counter!(counted).increment(0);
    }
    gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1);
    Collector::default().describe();
    let upkeep = handle.clone();
    tokio::spawn(async move {
        // Samples of histograms are kept one by one until then.
        let mut often = tokio::time::interval(Duration::from_secs(5));
        loop {
            often.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}

/// Looks at what is a state, and not an event.
pub(super) fn refresh(operate: &Operate) {
    gauge!(RUNNING).set(operate.running() as f64);
    Collector::default().collect();
}
