//! The options that choose an engine.
//!
//! In: arguments. Out: an [`Engine`], and the tokenizer that its prompts are made with. Nothing is held.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kimi_xtml_tokenizer::Tokenizer;

use crate::engine::Engine;
use crate::engine::scripted::Scripted;
use crate::engine::upstream::{Grammar, Settings, Upstream};

/// Whether an upstream's token ids are believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Ids {
    /// Yes: quoted tags are told from real ones by them
    #[default]
    Use,
    /// No: only its text counts
    Ignore,
}

/// What generates.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub struct EngineOptions {
    /// Case files whose recorded streams are replayed: the one whose `user` (or `id`) the user says, else the next in turn
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "upstream")]
    pub replay: Vec<PathBuf>,
    /// Tokens a second of each choice; without it, as fast as the client takes them
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Token deltas that go out in one step
    #[arg(long, value_name = "N", default_value = "1")]
    pub group: NonZeroUsize,
    /// Kimi's ranks (tiktoken.model): prompts are counted exactly, and go to the upstream as token ids
    #[arg(long, value_name = "RANKS")]
    pub tokenizer: Option<PathBuf>,
    /// An engine's URL; its /v1/completions must keep special tokens
    #[arg(long, value_name = "URL")]
    pub upstream: Option<String>,
    /// The upstream's own name for the model
    #[arg(long, value_name = "NAME", requires = "upstream")]
    pub upstream_model: Option<String>,
    /// The most tokens of a prompt and its answer; without it, what the upstream tells
    #[arg(long, value_name = "TOKENS", requires = "upstream")]
    pub upstream_context: Option<u64>,
    /// Whose grammar the upstream has: it holds it to required calls, strict tools and forms of answers
    #[arg(long, value_name = "WHOSE", default_value = "xgrammar")]
    pub upstream_grammar: Grammar,
    /// What is done with the upstream's token ids
    #[arg(long, value_name = "WHAT", default_value = "use")]
    pub upstream_ids: Ids,
    /// Seconds until the upstream must have accepted a connection,
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub connect_timeout: u64,
    /// have begun to generate,
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub first_timeout: u64,
    /// have gone on,
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub between_timeout: u64,
    /// and have come to its end
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub whole_timeout: u64,
    /// The largest answer of the upstream, in bytes of text
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub max_answer: usize,
}

impl EngineOptions {
    /// The engine for a model of this name, with the key that it wants.
    ///
    /// # Errors
    /// If a file cannot be read, or an option says what cannot be.
    pub async fn engine(
        &self,
        model: &str,
        key: Option<&str>,
    ) -> anyhow::Result<(Arc<dyn Engine>, Option<Arc<Tokenizer>>)> {
        let tokenizer = self.tokenizer.as_ref().map(Tokenizer::open).transpose()?.map(Arc::new);
        let Some(url) = &self.upstream else {
            anyhow::ensure!(self.rate.is_none_or(|rate| rate.is_finite() && rate > 0.0), "the rate must be above 0");
            let mut engine = Scripted { rate: self.rate, group: self.group, ..Scripted::default() };
            for file in &self.replay {
                engine.replay.read(file)?;
            }
            return Ok((Arc::new(engine), tokenizer));
        };
        let settings = Settings {
            model: self.upstream_model.as_deref().unwrap_or(model).into(),
            key: key.map(str::to_owned),
            context: self.upstream_context,
            grammar: self.upstream_grammar,
            ids: self.upstream_ids == Ids::Use,
            connect: Duration::from_secs(self.connect_timeout),
            first: Duration::from_secs(self.first_timeout),
            between: Duration::from_secs(self.between_timeout),
            whole: Duration::from_secs(self.whole_timeout),
            answer_bytes: self.max_answer,
            ..Settings::default()
        };
        let engine =
            Upstream::new(url, settings, tokenizer.clone()).map_err(anyhow::Error::msg).context("--upstream")?;
        engine.learn().await;
        Ok((Arc::new(engine), tokenizer))
    }
}
