//! The server: arguments in, a listening socket out. Holds nothing.

use anyhow::Context;
use clap::Parser;
use kimi_xtml_frontend::App;
use kimi_xtml_frontend::engine_options::EngineOptions;
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
  kimi-xtml-frontend --upstream http://127.0.0.1:8000   stands before an engine that serves /v1/completions"
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
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let (engine, tokenizer) = args.engine.engine(&args.model, None).await?;
    let listener = TcpListener::bind((&*args.host, args.port)).await;
    let listener = listener.with_context(|| format!("cannot listen on {}:{}", args.host, args.port))?;
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        eprintln!(
            "warning: {address} is no loopback address: whoever reaches it can use this server, which checks no keys"
        );
    }
    println!("listening on http://{address}");
    let mut app = App { random_ids: args.random_ids, tokenizer, ..App::new(engine, &args.model) };
    app.policy = Policy { vendor_strict: args.vendor_strict, max_body: args.max_body };
    tokio::select! {
        served = app.serve(listener) => Ok(served?),
        stop = tokio::signal::ctrl_c() => Ok(stop?),
    }
}
