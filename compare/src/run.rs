//! Streams played through every parser, judged and counted.
//!
//! In: sets of items; an item is one stream in one or several cuts. Out: a [`Table`] a set: for each parser how many streams
//! differ, by class and rule, how late arguments came, and the shortest examples. Held: for each item the results so far,
//! so that one that depends on the cut is told.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use kimi_xtml::{OwnedEvent, Parser, Span, coalesce};
use kimi_xtml_cli::play::{Delta, Player};
use kimi_xtml_oracle::twin;

use crate::classify::{Class, Difference, Late, classify, late};
use crate::heard::Heard;
use crate::peers::{Listed, Peer};
use crate::stream::{Layout, Outcome, Stream};
use crate::tolerate::Tolerated;

/// Examples that are kept of one rule.
const EXAMPLES: usize = 3;

/// A parser that takes part.
pub(crate) struct Running {
    pub(crate) listed: Listed,
    pub(crate) peer: Box<dyn Peer>,
}

/// A stream that a parser got wrong.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    pub(crate) stream: Stream,
    pub(crate) heard: Heard,
    pub(crate) differences: Vec<Difference>,
}

/// How often a rule showed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    pub(crate) streams: usize,
    /// The reason for which it does not count.
    pub(crate) tolerated: Option<String>,
    /// A place where it showed.
    pub(crate) detail: String,
    pub(crate) examples: Vec<Example>,
}

/// What is counted of one parser.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) streams: usize,
    /// Streams that are not played: only token ids can tell them, and the parser takes none; it needs ids, and there are
    /// none; or its serving never makes them.
    pub(crate) skipped: usize,
    /// Streams with a difference that counts.
    pub(crate) differing: usize,
    /// Streams by the classes of their differences that count.
    pub(crate) classes: BTreeMap<Class, usize>,
    pub(crate) rules: BTreeMap<(Class, &'static str), Rule>,
    /// For each call, the bytes of it that came before its first argument bytes.
    pub(crate) late: Vec<usize>,
    /// Streams with a call whose first argument bytes came only when it was over, though it spanned several deltas.
    pub(crate) late_streams: usize,
    pub(crate) time: Duration,
}

impl Tally {
    /// The median and the greatest of the bytes before the first argument bytes.
    pub(crate) fn late_bytes(&self) -> Option<(usize, usize)> {
        let mut late = self.late.clone();
        late.sort_unstable();
        Some((*late.get(late.len() / 2)?, *late.last()?))
    }

    fn add(&mut self, example: Example, own: bool, tolerated: &[Tolerated], peer: &str) {
        let Example { stream, heard, differences } = example;
        let mut counted = Vec::new();
        let mut seen: Vec<(Class, &str)> = Vec::new();
        for difference in &differences {
            let key = (difference.class, difference.rule);
            let reason = tolerated.iter().find(|line| line.covers(peer, difference)).map(|line| line.reason.clone());
            if reason.is_none() && !counted.contains(&difference.class) {
                counted.push(difference.class);
            }
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let rule = self.rules.entry(key).or_default();
            rule.streams += 1;
            rule.tolerated = reason;
            if rule.detail.is_empty() {
                rule.detail.clone_from(&difference.detail);
            }
            if own {
                let len = |example: &Example| example.stream.chunks.iter().map(String::len).sum::<usize>();
                let one = Example { stream: stream.clone(), heard: heard.clone(), differences: differences.clone() };
                let at = rule.examples.partition_point(|other| len(other) <= len(&one));
                if at < EXAMPLES && !rule.examples.iter().any(|other| other.stream.text() == one.stream.text()) {
                    rule.examples.insert(at, one);
                    rule.examples.truncate(EXAMPLES);
                }
            }
        }
        self.differing += usize::from(!counted.is_empty());
        for class in counted {
            *self.classes.entry(class).or_default() += 1;
        }
    }
}

/// What is counted of a set, a tally a parser, in the order in which they run.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) about: String,
    /// Whether its streams are this project's own, and may be shown.
    pub(crate) own: bool,
    pub(crate) items: usize,
    pub(crate) tallies: Vec<Tally>,
}

/// What one parser made of one stream.
pub(crate) struct Judged {
    pub(crate) heard: Heard,
    pub(crate) outcome: Outcome,
    differences: Vec<Difference>,
    late: Vec<Late>,
    skipped: bool,
}

/// The results of the items so far, by parser and item.
#[derive(Default)]
pub(crate) struct Seen(Vec<Vec<Option<u64>>>);

impl Table {
    pub(crate) fn new(name: &str, about: &str, own: bool, peers: usize) -> Table {
        let tallies = vec![Tally::default(); peers];
        Table { name: name.into(), about: about.into(), own, items: 0, tallies }
    }

    /// Plays one cut of all items. `seen` has the results of the cuts before. Gives what each parser made of each stream.
    pub(crate) fn play(
        &mut self,
        running: &mut [Running],
        streams: &[Stream],
        seen: &mut Seen,
        tolerated: &[Tolerated],
    ) -> Vec<Vec<Judged>> {
        let layouts: Vec<Layout> = streams.iter().map(Layout::of).collect();
        let is_first = seen.0.is_empty();
        seen.0.resize_with(running.len(), || vec![None; streams.len()]);
        if is_first {
            self.items += streams.len();
        }
        let layouts = &layouts[..];
        let judged: Vec<(Vec<Judged>, Duration)> = std::thread::scope(|scope| {
            let judge = move |running: &mut Running| {
                let start = Instant::now();
                let heard = running.peer.play(streams);
                let time = start.elapsed();
                let judged = streams.iter().zip(layouts).zip(heard);
                let listed = &running.listed;
                let judged = judged.map(|((stream, layout), heard)| judge(listed, stream, layout, heard, is_first));
                (judged.collect(), time)
            };
            let threads: Vec<_> = running.iter_mut().map(|running| scope.spawn(move || judge(running))).collect();
            threads.into_iter().map(|thread| thread.join().expect("judging does not panic")).collect()
        });
        let mut all = Vec::new();
        for (number, (judged, time)) in judged.into_iter().enumerate() {
            let tally = &mut self.tallies[number];
            tally.time += time;
            for (item, judged) in judged.iter().enumerate() {
                if judged.skipped {
                    tally.skipped += 1;
                    continue;
                }
                tally.streams += 1;
                tally.late.extend(judged.late.iter().map(|late| late.before));
                tally.late_streams += usize::from(judged.late.iter().any(|late| late.is_late));
                let mut differences = judged.differences.clone();
                let hash = hash(judged);
                let known = &mut seen.0[number][item];
                match known {
                    Some(known) if *known != hash && *known != DEPENDENT => {
                        let detail = "an earlier cut of this stream gave another result".to_owned();
                        differences.push(Difference { class: Class::ChunkDependent, rule: "another-cut", detail });
                        *known = DEPENDENT;
                    }
                    Some(_) => {}
                    None => *known = Some(hash),
                }
                if !differences.is_empty() {
                    let example = Example { stream: streams[item].clone(), heard: judged.heard.clone(), differences };
                    tally.add(example, self.own, tolerated, &running[number].listed.name);
                }
            }
            all.push(judged);
        }
        all
    }
}

/// Stands for results that already differed: each item is counted once.
const DEPENDENT: u64 = 0;

fn hash(judged: &Judged) -> u64 {
    let mut hasher = DefaultHasher::new();
    judged.outcome.hash(&mut hasher);
    judged.heard.error.is_some().hash(&mut hasher);
    hasher.finish() | 1
}

fn judge(listed: &Listed, stream: &Stream, layout: &Layout, heard: Heard, is_first: bool) -> Judged {
    let outcome = heard.outcome();
    let with_ids = listed.takes_ids() && stream.ids.is_some();
    // A prompt for Kimi K3 opens think or response; what comes without is a test of this project's parser alone.
    let never_made = stream.opened.is_none() && !listed.ours;
    if never_made || !with_ids && (stream.identity || listed.needs_ids()) {
        return Judged { heard, outcome, differences: Vec::new(), late: Vec::new(), skipped: true };
    }
    let mut differences = classify(stream, &heard);
    if listed.ours {
        differences.extend(of_ours(stream, is_first && listed.name == "kimi-xtml"));
    }
    let late = late(stream, layout, &heard);
    Judged { heard, outcome, differences, late, skipped: false }
}

/// What else ours must keep: its own rules, whether calls are whole, and the twin's events.
fn of_ours(stream: &Stream, with_twin: bool) -> Vec<Difference> {
    let broken = |rule, detail: String| Difference { class: Class::Error, rule, detail };
    if stream.identity {
        return Vec::new();
    }
    let mut differences = Vec::new();
    let mut player = Player::new(stream.request.clone());
    stream.chunks.iter().for_each(|chunk| player.push(Delta::Text(chunk)));
    let (outcome, faults) = player.finish(&stream.reason);
    differences.extend(faults.into_iter().map(|fault| broken("broken-rule", fault)));
    let wholes = |said: &Outcome| {
        said.calls.len() == outcome.tool_calls.len()
            && said.calls.iter().zip(&outcome.tool_calls).all(|(said, got)| said.complete == got.complete)
    };
    if !stream.accepted.iter().any(wholes) {
        differences.push(broken("completeness", "a call is told to be whole that is not, or the other way".into()));
    }
    if with_twin {
        let mut events: Vec<(OwnedEvent, Span)> = Vec::new();
        let mut parser = Parser::new(stream.request.clone());
        stream.chunks.iter().for_each(|chunk| parser.push(chunk, &mut events));
        parser.finish(&stream.reason, &mut events);
        if coalesce(events) != twin::parse_text(&stream.text(), &stream.request) {
            differences.push(broken("twin", "the twin reads the stream otherwise".into()));
        }
    }
    differences
}
