//! Tolerated differences, and the ratchet.
//!
//! In: `tolerated.toml`, each line with its reason; `ratchet.toml`, what this project's own parser may not exceed. Out:
//! whether a difference counts; what regressed.

use anyhow::Context;
use serde::Deserialize;

use crate::classify::{Class, Difference};

/// A line of `tolerated.toml`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Tolerated {
    pub(crate) peer: String,
    pub(crate) class: Class,
    pub(crate) rule: String,
    pub(crate) reason: String,
}

/// Reads `tolerated.toml`.
pub(crate) fn tolerated() -> anyhow::Result<Vec<Tolerated>> {
    #[derive(Deserialize)]
    struct File {
        tolerated: Vec<Tolerated>,
    }
    let file: File = toml::from_str(include_str!("../tolerated.toml")).context("tolerated.toml")?;
    anyhow::ensure!(
        file.tolerated.iter().all(|line| line.reason.len() > 20),
        "tolerated.toml: a line without a reason"
    );
    Ok(file.tolerated)
}

impl Tolerated {
    pub(crate) fn covers(&self, peer: &str, difference: &Difference) -> bool {
        (self.peer == "*" || self.peer == peer)
            && self.class == difference.class
            && (self.rule == "*" || self.rule == difference.rule)
    }
}

/// What may not get worse: for a run of a name, of ours.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Ratchet {
    /// The run: `small` or `full`.
    pub(crate) run: String,
    /// Streams that differ, at most, tolerated ones apart.
    pub(crate) differing: usize,
    /// Streams that are played, at least.
    pub(crate) streams: usize,
    /// Bytes of a call that came before its first argument bytes, at most.
    pub(crate) late_bytes: usize,
}

/// Reads the ratchet of a run.
pub(crate) fn ratchet(run: &str) -> anyhow::Result<Option<Ratchet>> {
    #[derive(Deserialize)]
    struct File {
        ratchet: Vec<Ratchet>,
    }
    let file: File = toml::from_str(include_str!("../ratchet.toml")).context("ratchet.toml")?;
    Ok(file.ratchet.into_iter().find(|line| line.run == run))
}
