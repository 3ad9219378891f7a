//! Random conversations through all encoders.
//!
//! In: seeds. Out: a table of reasons, and an error if a disagreement has none. Every core takes seeds in turn.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::bail;

use crate::classify::{Difference, code, differences, shortened, shown};
use crate::peers::{Encoders, Peer};
use crate::reasons::reason;

/// Disagreements of one kind with one peer.
struct Found {
    count: u64,
    /// The one with the shortest body.
    shortest: Difference,
}

type Key = (String, usize);

/// The table of what differs, and whether every difference has a reason.
pub(crate) fn compare(encoders: &Encoders, seed: u64, conversations: u64) -> (String, anyhow::Result<()>) {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: BTreeMap<Key, Found> = BTreeMap::new();
    let mut differing = [0; Peer::ALL.len()];
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || {
                    let seeds = (seed..seed + conversations).skip(worker).step_by(workers);
                    seeds.map(|seed| Peer::ALL.map(|peer| differences(encoders, peer, seed))).collect::<Vec<_>>()
                })
            })
            .collect();
        for differences in workers.into_iter().flat_map(|worker| worker.join().expect("encoders do not panic")) {
            for (number, differences) in differences.into_iter().enumerate() {
                differing[number] += u64::from(!differences.is_empty());
                for difference in differences {
                    let key = (difference.kinds.join(" + "), number);
                    match found.get_mut(&key) {
                        None => drop(found.insert(key, Found { count: 1, shortest: difference })),
                        Some(found) => {
                            found.count += 1;
                            let length = |of: &Difference| (of.body.len(), of.body.clone());
                            if length(&difference) < length(&found.shortest) {
                                found.shortest = difference;
                            }
                        }
                    }
                }
            }
        }
    });
    let mut unnamed = Vec::new();
    let mut table = String::from(
        "| input has | peer | conversations | smallest | reference | peer |\n|---|---|---:|---|---|---|\n",
    );
    for ((kind, number), Found { count, shortest }) in &found {
        let peer = Peer::ALL[*number];
        let body = &shortened(encoders, peer, shortest);
        let why = reason(kind, peer);
        if why.is_none() {
            unnamed.push(format!("{kind:?} ({}): {body}", peer.name()));
        }
        let (ours, theirs) = shown(encoders, peer, body);
        let short = peer.name().split(' ').next().unwrap_or_default();
        let what = match (kind.as_str(), why) {
            ("", _) => "nothing odd: **no reason**".to_owned(),
            (kind, None) => format!("{kind}: **no reason**"),
            (kind, Some("")) => kind.to_owned(),
            (kind, Some(why)) => format!("{kind}: {why}"),
        };
        let cells = [what, short.to_owned(), count.to_string(), code(&cut(body)), ours, theirs];
        let _ = writeln!(table, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    let mut report = format!(
        "{conversations} conversations, seeds from {seed} on.\n\n| peer | conversations that differ |\n|---|---:|\n"
    );
    for (peer, differing) in Peer::ALL.into_iter().zip(differing) {
        let _ = writeln!(report, "| {} | {differing} |", peer.name());
    }
    let outcome = if unnamed.is_empty() { Ok(()) } else { unnamed_error(&unnamed) };
    (format!("{report}\n{table}"), outcome)
}

fn unnamed_error(unnamed: &[String]) -> anyhow::Result<()> {
    bail!("{} kinds of differences have no reason in reasons.rs:\n{}", unnamed.len(), unnamed.join("\n"))
}

/// The beginning of a body.
fn cut(body: &str) -> String {
    match body.char_indices().nth(200) {
        None => body.to_owned(),
        Some((end, _)) => format!("{}…", &body[..end]),
    }
}
