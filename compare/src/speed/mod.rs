//! How fast the parsers are: this one in detail, the linked peers beside it, and the floors, on the streams of `benches/`.
//!
//! In: how long to measure. Out: [`Results`], which are kept as JSON; [`page`] makes the tables and the plot of them. A parser
//! whose answer is wrong has no time for that stream; one that would take too long stops, and both are told.

#[cfg(feature = "heap")]
pub(crate) mod heap;
pub(crate) mod page;
mod plot;
mod targets;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use kimi_xtml_benches::{Answer, Case, Cut, Input, Sinks, best, once, rows, shape};
use serde::{Deserialize, Serialize};

use crate::heard::Heard;
use crate::peers::{self, Listed, Play};
use crate::report::today;
use crate::stream::{Call, Outcome, Stream};

/// The parsers that are measured.
const PARSERS: [&str; 5] = ["kimi-xtml", "dynamo-v2", "dynamo-11", "dynamo-7", "smg"];

const K: usize = 1 << 10;
/// Sizes of the streams that grow. This parser goes on to the larger ones.
const SIZES: [usize; 7] = [16 * K, 32 * K, 64 * K, 128 * K, 256 * K, 512 * K, K * K];
const LARGER: [usize; 1] = [4 * K * K];
/// The size at which parsers are compared.
pub(crate) const USUAL: usize = 64 * K;

/// Shapes that grow in deltas of 4 bytes, and those that grow as one delta.
pub(crate) const SHAPES: [&str; 10] =
    ["reasoning", "content", "prose", "code", "object", "calls", "arguments", "quoted", "nameless", "unfinished"];
pub(crate) const WHOLE: [&str; 5] = ["calls", "arguments", "quoted", "nameless", "unfinished"];
/// Shapes whose speed in deltas of 1 KB is compared.
pub(crate) const KILO: [&str; 6] = ["reasoning", "content", "prose", "code", "object", "calls"];
/// Calls that come in one delta.
pub(crate) const CALLS: [usize; 2] = [234, 936];
/// Bytes that one of them has in the shape `calls`.
pub(crate) const CALL: usize = 180;

/// What was measured, where and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) about: About,
    pub(crate) rows: Vec<Row>,
    /// Nanoseconds of what comes once a stream.
    pub(crate) once: BTreeMap<String, f64>,
    pub(crate) points: Vec<Point>,
}

/// Where and how something was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) machine: String,
    pub(crate) system: String,
    pub(crate) rustc: String,
    pub(crate) date: String,
    pub(crate) command: String,
    pub(crate) versions: BTreeMap<String, String>,
}

/// This parser, or a floor, on one shape.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) shape: String,
    pub(crate) input: String,
    pub(crate) sink: String,
    /// Nanoseconds a delta.
    pub(crate) per_delta: f64,
    /// Gigabytes a second.
    pub(crate) gigabytes: f64,
}

/// A parser on one stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) parser: String,
    pub(crate) shape: String,
    pub(crate) cut: String,
    /// The length that was asked for.
    pub(crate) size: usize,
    pub(crate) bytes: usize,
    pub(crate) deltas: usize,
    pub(crate) result: Measured,
}

/// What came of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Measured {
    /// Nanoseconds of the whole stream.
    Time(f64),
    /// The answer is wrong, so.
    Wrong(String),
    /// It was not run, because it would take so many seconds.
    Stopped(f64),
}

impl Point {
    /// Nanoseconds of the whole stream.
    pub(crate) fn time(&self) -> Option<f64> {
        if let Measured::Time(time) = self.result { Some(time) } else { None }
    }
}

/// What parsers allocated.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Heap {
    pub(crate) about: About,
    pub(crate) streams: Vec<Allocated>,
    /// Allocations of a construction, and of a reset.
    pub(crate) new: u64,
    pub(crate) reset: u64,
}

/// What a parser allocated for one stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Allocated {
    pub(crate) parser: String,
    pub(crate) shape: String,
    pub(crate) size: usize,
    pub(crate) bytes: usize,
    /// The most bytes that were live at once.
    pub(crate) most: u64,
    /// All bytes that were allocated.
    pub(crate) all: u64,
    pub(crate) wrong: Option<String>,
}

/// How long measuring may take.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    /// Milliseconds to spend on each number
    #[arg(long, value_name = "MS", default_value_t = 300)]
    budget: u64,
    /// Seconds that one stream may take; a parser that would take longer stops there
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    cap: f64,
}

/// Measures everything.
pub(crate) fn measure(options: Options) -> anyhow::Result<Results> {
    let budget = Duration::from_millis(options.budget);
    eprintln!("kimi-xtml and the floors");
    let rows = rows(budget).map_err(anyhow::Error::msg)?;
    let row = |row: &kimi_xtml_benches::Row| Row {
        shape: row.shape.into(),
        input: row.input.clone(),
        sink: row.sink.into(),
        per_delta: row.per_delta(),
        gigabytes: row.gigabytes(),
    };
    let mut points = Vec::new();
    for listed in parsers()? {
        let mut runner = Runner { play: play(&listed)?, name: listed.name, options, points: &mut points };
        for shape in SHAPES {
            runner.series(shape, Cut::Bytes(4), &SIZES);
        }
        for shape in KILO {
            runner.series(shape, Cut::Bytes(K), &[USUAL]);
        }
        for shape in WHOLE {
            runner.series(shape, Cut::Whole, &SIZES);
        }
        runner.series("calls", Cut::Whole, &CALLS.map(|calls| calls * CALL));
        runner.nothing();
    }
    let once = once(budget).map(|(name, time)| (name.to_owned(), time));
    Ok(Results { about: about()?, rows: rows.iter().map(row).collect(), once: once.into(), points })
}

/// The parsers that are measured, as `peers.toml` lists them.
fn parsers() -> anyhow::Result<Vec<Listed>> {
    Ok(peers::listed()?.into_iter().filter(|listed| PARSERS.contains(&&*listed.name)).collect())
}

fn play(listed: &Listed) -> anyhow::Result<Play> {
    peers::linked(&listed.name).with_context(|| format!("peers.toml names {}, which is not linked", listed.name))
}

/// This machine, these versions.
pub(crate) fn about() -> anyhow::Result<About> {
    let output = |command: &str, argument: &str| -> anyhow::Result<String> {
        let output = Command::new(command).arg(argument).output().with_context(|| format!("cannot run {command}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(About {
        machine: format!("{}, {cores} cores", model.unwrap_or("unknown processor")),
        system: output("uname", "-srm")?,
        rustc: output("rustc", "--version")?,
        date: today(),
        command: command(),
        versions: parsers()?.into_iter().map(|listed| (listed.name, listed.version)).collect(),
    })
}

/// The command that measures, without where its results go.
fn command() -> String {
    let mut command = String::from("compare/run");
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--json" {
            arguments.next();
        } else {
            command += &format!(" {argument}");
        }
    }
    command
}

/// A parser that is being measured.
struct Runner<'r> {
    name: String,
    play: Play,
    options: Options,
    points: &'r mut Vec<Point>,
}

impl Runner<'_> {
    /// Streams of a shape of growing length, until one is wrong or takes too long.
    fn series(&mut self, name: &str, cut: Cut, sizes: &[usize]) {
        eprintln!("{}: {name}, {}", self.name, cut.name());
        let is_own = self.name == "kimi-xtml";
        let larger = if is_own && sizes.len() > 2 { &LARGER[..] } else { &[] };
        let mut last: Option<(usize, f64)> = None;
        let mut growth = 2.0_f64;
        for &size in sizes.iter().chain(larger) {
            // What comes is at least as much longer as the last was than the one before.
            let expected = last.map_or(0.0, |(before, time)| {
                let doublings = (size as f64 / before as f64).log2();
                time * growth.powf(doublings) / 1e9
            });
            let stream = shape(name).expect("the lists name shapes").stream(size, 1);
            let deltas = stream.cut(cut).len();
            let result = if expected > self.options.cap {
                Measured::Stopped(expected)
            } else if is_own {
                self.own(&stream, cut)
            } else {
                self.peer(&stream, cut)
            };
            if let (Measured::Time(time), Some((before, earlier))) = (&result, last) {
                growth = (time / earlier).powf((size as f64 / before as f64).log2().recip()).max(2.0);
            }
            let ends = if let Measured::Time(time) = result {
                last = Some((size, time));
                false
            } else {
                true
            };
            let bytes = stream.text.len();
            let (parser, shape, cut) = (self.name.clone(), name.to_owned(), cut.name());
            self.points.push(Point { parser, shape, cut, size, bytes, deltas, result });
            if ends {
                break;
            }
        }
    }

    /// This parser, as in the detailed rows: events that are looked at.
    fn own(&self, stream: &kimi_xtml_benches::Stream, cut: Cut) -> Measured {
        match Case::new(std::slice::from_ref(stream), Input::Text(cut), Sinks::Events) {
            Ok(mut case) => Measured::Time(nanoseconds(best(self.budget(), 1, |_| case.play()))),
            Err(wrong) => Measured::Wrong(wrong),
        }
    }

    fn peer(&self, stream: &kimi_xtml_benches::Stream, cut: Cut) -> Measured {
        let played = self::stream(stream, cut);
        let start = Instant::now();
        let heard = peers::play(self.play, &played, Heard::default());
        let first = start.elapsed();
        if let Some(wrong) = wrong(&stream.answer, &heard) {
            return Measured::Wrong(wrong);
        }
        if first > 4 * self.budget() {
            return Measured::Time(nanoseconds(first));
        }
        let again = best(self.budget(), 1, |_| {
            peers::play(self.play, &played, Heard::forgetful());
        });
        Measured::Time(nanoseconds(again.min(first)))
    }

    /// A stream of no deltas: what it takes to set the parser up and to end it.
    fn nothing(&mut self) {
        let stream = shape("turn").expect("a shape").stream(1, 1);
        let played = Stream { chunks: Vec::new(), ..self::stream(&stream, Cut::Whole) };
        let round = |_| (0..100).for_each(|_| drop(peers::play(self.play, &played, Heard::forgetful())));
        let result = Measured::Time(nanoseconds(best(self.budget(), 1, round)) / 100.0);
        let (parser, shape, cut) = (self.name.clone(), "nothing".into(), Cut::Whole.name());
        self.points.push(Point { parser, shape, cut, size: 0, bytes: 0, deltas: 0, result });
    }

    fn budget(&self) -> Duration {
        Duration::from_millis(self.options.budget)
    }
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// A stream in the form in which the peers take it.
fn stream(stream: &kimi_xtml_benches::Stream, cut: Cut) -> Stream {
    Stream {
        id: String::new(),
        kind: String::new(),
        chunks: stream.cut(cut).into_iter().map(str::to_owned).collect(),
        ids: None,
        identity: false,
        opened: stream.request.opened,
        tools: stream.request.tools.clone(),
        request: stream.request.clone(),
        reason: "stop".into(),
        accepted: vec![outcome(&stream.answer)],
    }
}

fn outcome(answer: &Answer) -> Outcome {
    let call = |(name, arguments): &(String, String)| Call {
        name: name.clone(),
        arguments: arguments.clone(),
        complete: true,
    };
    Outcome {
        reasoning: answer.reasoning.clone(),
        content: answer.content.clone(),
        calls: answer.calls.iter().map(call).collect(),
    }
}

/// In what an answer is wrong, if it is. Arguments may be spelled otherwise.
fn wrong(answer: &Answer, heard: &Heard) -> Option<String> {
    if let Some(error) = &heard.error {
        return Some(error.chars().take(80).collect());
    }
    let got = heard.outcome();
    let calls: Vec<_> = got.calls.into_iter().map(|call| (call.name, call.arguments)).collect();
    let got = Answer { reasoning: got.reasoning, content: got.content, calls };
    if got == *answer {
        return None;
    }
    let part = |name, said: &str, got: &str| {
        (said != got).then(|| format!("{name}: {} of {} bytes, or others", got.len(), said.len()))
    };
    let reasoning = part("reasoning", &answer.reasoning, &got.reasoning);
    let content = part("answer", &answer.content, &got.content);
    let calls = match (answer.calls.len(), got.calls.len()) {
        (said, got) if said != got => Some(format!("{got} calls for {said}")),
        _ if answer.calls == got.calls => None,
        _ => Some("arguments differ".into()),
    };
    Some([reasoning, content, calls].into_iter().flatten().collect::<Vec<_>>().join("; "))
}
