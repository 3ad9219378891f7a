//! The parsers, behind one trait.
//!
//! In: a stream. Out: what the parser said of it. A parser that panics, fails or hangs said an error.

mod dynamo_v1;
mod dynamo_v2;
mod ours;
mod process;
mod smg;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use anyhow::Context;
use serde::Deserialize;

use crate::heard::Heard;
use crate::stream::Stream;

/// A parser at work.
pub(crate) trait Peer: Send {
    /// Plays streams, one parser each.
    fn play(&mut self, streams: &[Stream]) -> Vec<Heard>;
}

/// A line of `peers.toml`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) ours: bool,
    /// Its packages, if it is linked.
    #[serde(default)]
    pub(crate) crates: Vec<String>,
    pub(crate) python: Option<String>,
    #[serde(default)]
    pub(crate) version: String,
    pub(crate) about: String,
}

impl Listed {
    /// Its name and version, for tables.
    pub(crate) fn title(&self) -> String {
        if self.version.is_empty() { self.name.clone() } else { format!("{} {}", self.name, self.version) }
    }

    /// Whether it knows the tokens, and so what is quoted.
    pub(crate) fn takes_ids(&self) -> bool {
        self.name == "kimi-xtml-ids" || self.needs_ids()
    }

    /// Whether it reads nothing without ids.
    pub(crate) fn needs_ids(&self) -> bool {
        self.python.as_deref() == Some("vllm")
    }
}

/// Reads `peers.toml`.
pub(crate) fn listed() -> anyhow::Result<Vec<Listed>> {
    #[derive(Deserialize)]
    struct File {
        peer: Vec<Listed>,
    }
    let file: File = toml::from_str(include_str!("../../peers.toml")).context("peers.toml")?;
    Ok(file.peer)
}

/// Where Python packages are: a Python of an environment that has the package.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pythons {
    pub(crate) vllm: Option<PathBuf>,
    pub(crate) sglang: Option<PathBuf>,
}

/// A parser that is linked: what it adds to what was heard of a stream.
pub(crate) type Play = fn(&Stream, Heard) -> Heard;

/// The linked parser with this name.
pub(crate) fn linked(name: &str) -> Option<Play> {
    use dynamo_v1::{Setup, v7, v11};
    Some(match name {
        "kimi-xtml" => ours::by_text,
        "kimi-xtml-ids" => ours::by_ids,
        "dynamo-v2" => dynamo_v2::play,
        "dynamo-11" => |stream, heard| v11::play(stream, heard, Setup { jail: true, flush: true }),
        "dynamo-7" => |stream, heard| v7::play(stream, heard, Setup { jail: true, flush: true }),
        "dynamo-7-unflushed" => |stream, heard| v7::play(stream, heard, Setup { jail: true, flush: false }),
        "dynamo-7-no-jail" => |stream, heard| v7::play(stream, heard, Setup { jail: false, flush: true }),
        "smg" => smg::play,
        _ => return None,
    })
}

/// What is heard of a stream. A parser that panics said an error.
pub(crate) fn play(play: Play, stream: &Stream, heard: Heard) -> Heard {
    catch_unwind(AssertUnwindSafe(|| play(stream, heard))).unwrap_or_else(|_| Heard::failed("panicked"))
}

/// Starts a parser, or tells why it is not run.
pub(crate) fn start(listed: &Listed, pythons: &Pythons) -> Result<Box<dyn Peer>, String> {
    match (linked(&listed.name), listed.python.as_deref()) {
        (Some(play), _) => Ok(Box::new(InProcess { play })),
        (_, Some("vllm")) => process::start("vllm", pythons.vllm.as_deref(), &listed.version),
        (_, Some("sglang")) => process::start("sglang", pythons.sglang.as_deref(), &listed.version),
        _ => Err(format!("peers.toml names {}, which the harness does not know", listed.name)),
    }
}

struct InProcess {
    play: Play,
}

impl Peer for InProcess {
    fn play(&mut self, streams: &[Stream]) -> Vec<Heard> {
        streams.iter().map(|stream| play(self.play, stream, Heard::default())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        #[derive(Deserialize)]
        struct Lock {
            package: Vec<Locked>,
        }
        #[derive(Deserialize)]
        struct Locked {
            name: String,
            version: String,
        }
        let lock: Lock = toml::from_str(include_str!("../../Cargo.lock")).unwrap();
        for peer in listed().unwrap() {
            for package in &peer.crates {
                let mut locked = lock.package.iter().filter(|locked| locked.name == *package);
                assert!(locked.any(|locked| locked.version == peer.version), "{package} {}", peer.version);
            }
        }
    }
}
