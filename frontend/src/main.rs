//! The server: arguments in, a listening socket out. Holds nothing.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser};
use kimi_xtml_frontend::App;
use kimi_xtml_frontend::engine::Engine;
use kimi_xtml_frontend::engine::scripted::Scripted;
use kimi_xtml_frontend::engine::upstream::Upstream;
use kimi_xtml_frontend::operate::{self, Operate, Options, drain};
use tokio::net::TcpListener;

/// Serves the Chat Completions, Messages and Responses APIs as a Kimi K3 endpoint does, without a model.
#[derive(Parser)]
#[command(
    name = "kimi-xtml-frontend",
    version,
    max_term_width = 110,
    after_help = "\
Examples:
  kimi-xtml-frontend                                    repeats what the user says, and calls tools
  kimi-xtml-frontend --replay corpora/tools.jsonl --rate 40
  kimi-xtml-frontend --upstream http://127.0.0.1:8000   stands before an engine that serves /v1/completions

Each option has a variable too: KIMI_XTML_MAX_BODY is --max-body. A comma stands between several values, `true` for none."
)]
struct Args {
    /// The port; 0 takes any that is free
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// The model's name
    #[arg(long, default_value = "kimi-k3")]
    model: String,
    /// Case files whose recorded streams are replayed: the one whose `user` (or `id`) the user says, else the next in turn
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "upstream")]
    replay: Vec<PathBuf>,
    /// Tokens a second of each choice; without it, as fast as the client takes them
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Token deltas that go out in one step
    #[arg(long, value_name = "N", default_value = "1")]
    group: NonZeroUsize,
    /// An engine's URL (http); its /v1/completions must keep special tokens
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// The upstream's own name for the model
    #[arg(long, value_name = "NAME", requires = "upstream")]
    upstream_model: Option<String>,
    /// Random call ids, where the default is {name}_{index}, the index counted over the conversation
    #[arg(long)]
    random_ids: bool,
    /// The largest body that is read, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 20)]
    max_body: usize,
    #[command(flatten)]
    operation: Options,
}

impl Args {
    /// The arguments, and for those that are not given, the variables of the environment.
    fn read() -> Self {
        let command = Args::command().mut_args(|arg| {
            let variable = format!("KIMI_XTML_{}", arg.get_id().as_str().to_uppercase());
            arg.env(variable).hide_env(true)
        });
        Args::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::read();
    let _log = operate::log::start(args.operation.log_format, &args.operation.log_level)?;
    let engine: Arc<dyn Engine> = match &args.upstream {
        Some(url) => {
            let engine = Upstream::new(url, args.upstream_model.as_deref().unwrap_or(&args.model));
            match &args.operation.upstream_key {
                Some(key) => Arc::new(engine.with_key(key).context("the upstream's key is no text of a header")?),
                None => Arc::new(engine),
            }
        }
        None => {
            anyhow::ensure!(args.rate.is_none_or(|rate| rate.is_finite() && rate > 0.0), "the rate must be above 0");
            let mut engine = Scripted { rate: args.rate, group: args.group, ..Scripted::default() };
            for file in &args.replay {
                engine.replay.read(file)?;
            }
            Arc::new(engine)
        }
    };
    let listener = TcpListener::bind((&*args.host, args.port)).await;
    let listener = listener.with_context(|| format!("cannot listen on {}:{}", args.host, args.port))?;
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() && args.operation.api_key.is_empty() {
        tracing::warn!("{address} is no loopback address, and there is no --api-key: whoever reaches it can use it");
    }
    println!("listening on http://{address}");
    let mut operate = Operate::new(&args.operation, address.ip().is_loopback());
    operate.metrics = Some(operate::metrics::start()?);
    let aliases = args.operation.alias.clone();
    let app = App {
        random_ids: args.random_ids,
        max_body: args.max_body,
        aliases,
        operate: operate.clone(),
        ..App::new(engine, &args.model)
    };
    let mut served = tokio::spawn(app.serve(listener));
    tokio::select! {
        served = &mut served => return Ok(served??),
        signal = drain::signalled() => signal?,
    }
    tracing::info!(running = operate.running(), "draining; a second signal ends at once");
    operate.drain.begin();
    tokio::select! {
        served = served => served??,
        second = drain::signalled() => second?,
    }
    tracing::info!(cut = operate.running(), "ended");
    Ok(())
}
