//! The whole way: clients, the program, an engine behind HTTP.
//!
//! In: how many streams, how fast, how long. Out: `load`: what the engine gives directly, and what it gives through the
//! program; `soak`: whether anything leaks or sticks while clients leave and engines die. Held: two processes, the program
//! and the engine, which this program itself is when it is told to.
//!
//!     cargo build --release -p kimi-xtml-frontend
//!     cargo run --release -p kimi-xtml-frontend --example gateway -- load --streams 1000
//!     cargo run --release -p kimi-xtml-frontend --example gateway -- soak --seconds 600

mod engine;
mod load;
mod process;
mod soak;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Many streams at once, directly and through the program
    Load(load::Args),
    /// Clients that stay or leave, engines that answer or die
    Soak(soak::Args),
    /// The engine
    #[command(hide = true)]
    Engine(engine::Args),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Load(args) => load::run(&args).await,
        Command::Soak(args) => soak::run(&args).await,
        Command::Engine(args) => engine::serve(args).await,
    }
}
