//! Chunkings: the ways in which a stream is cut.
//!
//! In: a stream's length, and where its own chunks end. Out: where the chunks of a [`Chunking`] end. The same seed
//! gives the same cuts on every machine.

use std::fmt;
use std::str::FromStr;

/// Seeds of a `random` that names none.
const SEEDS: u64 = 20;

/// A way to cut a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// As it was recorded.
    AsGiven,
    /// Not at all.
    Whole,
    /// After each character (of bytes: each byte).
    Chars,
    /// At random, but never inside a character (of bytes: anywhere).
    Random(u64),
}

impl fmt::Display for Chunking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Chunking::AsGiven => f.write_str("as-given"),
            Chunking::Whole => f.write_str("whole"),
            Chunking::Chars => f.write_str("chars"),
            Chunking::Random(seed) => write!(f, "random:{seed}"),
        }
    }
}

impl Chunking {
    /// Every way, and `random` with 20 seeds.
    pub fn all() -> Vec<Chunking> {
        let plain = [Chunking::AsGiven, Chunking::Whole, Chunking::Chars];
        plain.into_iter().chain((1..=SEEDS).map(Chunking::Random)).collect()
    }

    /// Where chunks end, of a stream whose own end at `given`. `boundary` tells where a cut may be.
    pub fn ends(self, given: &[usize], boundary: impl Fn(usize) -> bool) -> Vec<usize> {
        let len = given.last().copied().unwrap_or(0);
        let mut random = match self {
            Chunking::AsGiven => return given.to_vec(),
            Chunking::Whole => return vec![len],
            Chunking::Chars => fastrand::Rng::with_seed(0),
            Chunking::Random(seed) => fastrand::Rng::with_seed(seed),
        };
        // Some seeds cut finely, some coarsely; a long stream is cut into some thousand chunks, not into a million.
        let longest = if let Chunking::Random(seed) = self { (2 << (seed % 8)).max(len / 4096) } else { 1 };
        let mut ends = Vec::new();
        let mut at = 0;
        while at < len {
            at = (at + random.usize(1..=longest)).min(len);
            while !boundary(at) {
                at += 1;
            }
            ends.push(at);
        }
        ends
    }
}

/// A chunking as the command line takes it: `random` without a seed is twenty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunkings(pub Vec<Chunking>);

/// A word that names no chunking.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a chunking is as-given, whole, chars, random or random:SEED (a number)")]
pub struct NoChunking;

impl FromStr for Chunkings {
    type Err = NoChunking;

    fn from_str(word: &str) -> Result<Self, NoChunking> {
        let one = match word {
            "as-given" => Chunking::AsGiven,
            "whole" => Chunking::Whole,
            "chars" => Chunking::Chars,
            "random" => return Ok(Chunkings((1..=SEEDS).map(Chunking::Random).collect())),
            _ => {
                let seed = word.strip_prefix("random:").and_then(|seed| seed.parse().ok());
                Chunking::Random(seed.ok_or(NoChunking)?)
            }
        };
        Ok(Chunkings(vec![one]))
    }
}
