//! The log.
//!
//! In: what is said to `tracing`, by this crate and by those that it uses. Out: lines on standard error, as text or as
//! JSON. Held: lines that are not written yet; the server never waits for them, so when nobody reads them the newest are lost.

use anyhow::Context;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// The most lines that wait.
const LINES: usize = 8192;

/// How lines are written.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: an object a line.
    Json,
}

/// Begins to log. What it gives must be held until the end: then the last lines are written.
///
/// # Errors
/// If the level is none, or somebody logs already.
pub fn start(format: Format, level: &str) -> anyhow::Result<WorkerGuard> {
    let filter = EnvFilter::try_new(level).with_context(|| format!("--log-level {level} is none"))?;
    let (writer, guard) = NonBlockingBuilder::default().buffered_lines_limit(LINES).finish(std::io::stderr());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_target(false);
    let begun = match format {
        Format::Text => log.with_ansi(false).try_init(),
        Format::Json => log.json().flatten_event(true).try_init(),
    };
    begun.map_err(|error| anyhow::anyhow!("cannot log: {error}"))?;
    Ok(guard)
}
