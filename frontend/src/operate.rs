//! What whoever runs the server needs around the APIs: OPERATORS.md tells how it is used.
//!
//! In: [`Options`]. Out: layers around the router, and the paths `/health`, `/ready` and `/metrics`. Held: keys, allowed
//! hosts, the places of running requests, whether the server drains.
//! From the outside in: the record of the request (id, log, metrics), CORS, the shape of errors, hosts, keys, places.

pub mod cors;
pub mod drain;
mod health;
pub mod host;
mod keys;
mod limit;
pub mod log;
pub mod metrics;
pub mod record;
pub mod watch;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::routing::get;
use axum::{Router, middleware};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::Semaphore;

use crate::App;
use crate::error::shaped;
use drain::Drain;
use host::Hosts;

/// The options of whoever runs the server.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Operation")]
pub struct Options {
    /// Another name of the model; may be given again
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub alias: Vec<String>,
    /// A key that clients must send, one of them if there are several; better by its variable than here
    #[arg(long, value_name = "KEY", value_delimiter = ',', hide_env_values = true)]
    pub api_key: Vec<String>,
    /// The key that the upstream wants
    #[arg(long, value_name = "KEY", requires = "upstream", hide_env_values = true)]
    pub upstream_key: Option<String>,
    /// A name by which clients call this server, or `*` for any; the default is any, and loopback's names on loopback
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub allowed_host: Vec<String>,
    /// An origin whose pages may use this server, as `https://example.com`, or `*` for any
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',', value_parser = cors::origin)]
    pub cors_origin: Vec<HeaderValue>,
    /// Requests that run at once; more are told to come again (429)
    #[arg(long, value_name = "N")]
    pub max_running: Option<NonZeroUsize>,
    /// How long running requests may take to end after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub drain: u64,
    /// How the log is written, to standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: log::Format,
    /// What is logged: off, error, warn, info, debug, trace, or filters as `tracing` has them
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
}

/// What the layers share.
#[derive(Clone, Default)]
pub struct Operate {
    /// The keys that clients may have; none: nobody needs one.
    keys: Arc<[String]>,
    hosts: Hosts,
    cors: Arc<[HeaderValue]>,
    places: Places,
    /// Ends what runs.
    pub drain: Drain,
    /// Renders the metrics, if somebody collects them.
    pub metrics: Option<PrometheusHandle>,
}

/// The places of running requests.
#[derive(Clone)]
struct Places {
    all: usize,
    free: Arc<Semaphore>,
}

impl Places {
    fn new(all: usize) -> Places {
        Places { all, free: Arc::new(Semaphore::new(all)) }
    }
}

impl Default for Places {
    fn default() -> Self {
        Places::new(Semaphore::MAX_PERMITS)
    }
}

impl Operate {
    /// As the options say, for a server that listens on loopback or elsewhere.
    pub fn new(options: &Options, on_loopback: bool) -> Self {
        let places = options.max_running.map_or(Semaphore::MAX_PERMITS, NonZeroUsize::get);
        Operate {
            keys: options.api_key.as_slice().into(),
            hosts: Hosts::new(&options.allowed_host, on_loopback),
            cors: options.cors_origin.as_slice().into(),
            places: Places::new(places.min(Semaphore::MAX_PERMITS)),
            drain: Drain::new(Duration::from_secs(options.drain)),
            metrics: None,
        }
    }

    /// How many requests run.
    pub fn running(&self) -> usize {
        self.places.all - self.places.free.available_permits()
    }

    /// The APIs' paths, with what operators need; `files` can be had without a key.
    pub(crate) fn around(self, paths: Router<Arc<App>>, files: Router<Arc<App>>) -> Router<Arc<App>> {
        let cors = cors::layer(&self.cors);
        let all = paths
            .layer(middleware::from_fn_with_state(self.clone(), limit::limit))
            .layer(middleware::from_fn_with_state(self.clone(), keys::check))
            .merge(files)
            .layer(middleware::from_fn_with_state(self, host::check))
            .route("/health", get(health::health))
            .route("/ready", get(health::ready))
            .route("/metrics", get(health::metrics))
            .layer(middleware::from_fn(shaped));
        let all = if let Some(cors) = cors { all.layer(cors) } else { all };
        all.layer(middleware::from_fn(record::observe))
    }
}
