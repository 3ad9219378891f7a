//! The server: arguments in, a listening socket out. Holds nothing.

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser};
use kimi_xtml_frontend::App;
use kimi_xtml_frontend::admit::Models;
use kimi_xtml_frontend::engine_options::EngineOptions;
use kimi_xtml_frontend::operate::{self, Operate, Options, drain};
use kimi_xtml_frontend::request::Policy;
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
    #[command(flatten)]
    engine: EngineOptions,
    /// Random call ids, where the default is {name}_{index}, the index counted over the conversation
    #[arg(long)]
    random_ids: bool,
    /// Refuse sampling parameters other than those that Moonshot's hosted API fixes
    #[arg(long)]
    vendor_strict: bool,
    /// The largest body that is read, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 20)]
    max_body: usize,
    /// No page that shows what the parser does, at /
    #[arg(long)]
    no_page: bool,
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
    let operation = &args.operation;
    let _log = operate::log::start(operation.log_format, &operation.log_level)?;
    let (engine, tokenizer) = args.engine.engine(&args.model, operation.upstream_key.as_deref()).await?;
    let listener = TcpListener::bind((&*args.host, args.port)).await;
    let listener = listener.with_context(|| format!("cannot listen on {}:{}", args.host, args.port))?;
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() && operation.api_key.is_empty() {
        tracing::warn!("{address} is no loopback address, and there is no --api-key: whoever reaches it can use it");
    }
    println!("listening on http://{address}");
    let mut app = App { random_ids: args.random_ids, page: !args.no_page, tokenizer, ..App::new(engine, &args.model) };
    app.policy = Policy { vendor_strict: args.vendor_strict, max_body: args.max_body };
    app.models = Models::new(&args.model, &operation.alias);
    let mut operate = Operate::new(operation, address.ip().is_loopback());
    operate.metrics = Some(operate::metrics::start()?);
    app.operate = operate.clone();
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
