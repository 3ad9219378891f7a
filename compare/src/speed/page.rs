//! The results as BENCHMARKS.md.
//!
//! In: `speed.json`, and `heap.json` and `engines.json` if they are there. Out: the page with its tables between the two
//! marks written anew, and the plot. What a table says is computed from the results, also where a peer is ahead.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::targets::{number, targets};
use super::{
    About, Allocated, CALL, CALLS, Heap, K, KILO, Measured, PARSERS, Point, Results, SHAPES, USUAL, WHOLE, plot,
};
use crate::report::{between, thousands};

/// What parsers cost from Python, as `python/engines --bench` writes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Engines {
    about: EnginesAbout,
    rows: Vec<EngineRow>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct EnginesAbout {
    machine: String,
    date: String,
    command: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct EngineRow {
    environment: String,
    parser: String,
    shape: String,
    /// Nanoseconds a delta; none if the answer is wrong.
    per_delta: Option<f64>,
    wrong: Option<String>,
}

/// Tokens that a fast server generates in a second.
const TOKENS: f64 = 13_000.0;

/// Writes the page's tables and the plot.
pub(crate) fn write(page: &Path, results: &Path, svg: &Path) -> anyhow::Result<()> {
    let speed: Results =
        read(&results.join("speed.json"))?.context("there is no speed.json: compare/run speed makes it")?;
    let heap: Option<Heap> = read(&results.join("heap.json"))?;
    let engines: Option<Engines> = read(&results.join("engines.json"))?;
    let before = std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let mut tables = String::new();
    about(&mut tables, &speed.about);
    own(&mut tables, &speed);
    peers(&mut tables, &speed);
    heap.iter().for_each(|heap| allocated(&mut tables, heap));
    engines.iter().for_each(|engines| python(&mut tables, engines));
    let targets = targets(&speed, heap.as_ref());
    tables += "## Targets\nThe worst that was measured, or all that do not hold.\n\n| wanted | measured | holds? |\n|---|---|---|\n";
    for target in &targets {
        let holds = if target.holds { "yes" } else { "**no**" };
        let _ = writeln!(tables, "| {} | {} | {holds} |", target.wanted, target.measured);
    }
    plot::draw(&speed, svg)?;
    std::fs::write(page, between(&before, &tables)?).with_context(|| format!("cannot write {}", page.display()))
}

/// A file of results, if it is there.
fn read<T: DeserializeOwned>(file: &Path) -> anyhow::Result<Option<T>> {
    if !file.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Some(serde_json::from_str(&text).with_context(|| format!("{} is no file of results", file.display()))?))
}

fn about(out: &mut String, about: &About) {
    let _ = writeln!(
        out,
        "Measured on {} with `{}` on {} ({}), {}, release profile.\n",
        about.date, about.command, about.machine, about.system, about.rustc
    );
}

/// This parser in detail, and the floors.
fn own(out: &mut String, results: &Results) {
    let find = |shape: &str, input: &str, sink: &str| {
        results.rows.iter().find(|row| (&*row.shape, &*row.input, &*row.sink) == (shape, input, sink))
    };
    let delta = |shape: &str, input: &str, sink: &str| {
        find(shape, input, sink).map_or("–".into(), |row| number(row.per_delta))
    };
    let speed = |shape: &str, input: &str, sink: &str| {
        find(shape, input, sink).map_or("–".into(), |row| number(row.gigabytes))
    };
    let events =
        |shape: &'static str| results.rows.iter().filter(move |row| row.shape == shape && row.sink == "events");
    let worst = SHAPES.iter().flat_map(|shape| events(shape)).filter(|row| row.input == "token");
    let worst = worst.map(|row| row.per_delta).fold(0.0, f64::max);
    let frames = results.rows.iter().filter(|row| row.sink == "frames" && row.input == "4 B");
    let frames = frames.map(|row| row.per_delta).fold(0.0, f64::max);
    let share = |nanoseconds: f64| number(100.0 * TOKENS * nanoseconds / 1e9);
    let _ = writeln!(
        out,
        "**What it means**: at {} tokens a second, each a delta of its own, parsing takes {} % of one core in the slowest \
         channel; parsing and writing the frames takes {} %.\n",
        thousands(TOKENS as usize),
        share(worst),
        share(frames),
    );
    *out += "## This parser\nEvents, Chat Completions deltas and server-sent frames; text by `push`.\n\n\
        | stream | events, 4 B: ns/delta | token: ns/delta | 64 B: GB/s | 1 KB: GB/s | whole: GB/s | chat, 4 B: ns/delta | \
        frames, 4 B: ns/delta |\n|---|---:|---:|---:|---:|---:|---:|---:|\n";
    for shape in kimi_xtml_benches::SHAPES {
        let name = shape.name;
        let _ = writeln!(
            out,
            "| {name}, {}: {} | {} | {} | {} | {} | {} | {} | {} |",
            length(shape.len),
            shape.about.replace('|', "\\|"),
            delta(name, "4 B", "events"),
            delta(name, "token", "events"),
            speed(name, "64 B", "events"),
            speed(name, "1 KB", "events"),
            speed(name, "whole", "events"),
            delta(name, "4 B", "chat"),
            delta(name, "4 B", "frames"),
        );
    }
    let inputs = ["token", "pieces", "push_token", "push_with_ids, 1", "push_with_ids, 8"];
    *out += "\nOther inputs, events, ns a delta (a token, or eight):\n\n| stream | push | push_text, push_marker | push_token | \
        push_with_ids | push_with_ids, 8 tokens |\n|---|---:|---:|---:|---:|---:|\n";
    for shape in kimi_xtml_benches::SHAPES.iter().filter(|shape| !shape.hostile) {
        let cells: Vec<_> = inputs.iter().map(|input| delta(shape.name, input, "events")).collect();
        let _ = writeln!(out, "| {} | {} |", shape.name, cells.join(" | "));
    }
    *out += "\nFloors: what is to be done at least. JSON escaping is the floor of string arguments; `json-escape-simd` is the \
        fastest one, `serde_json` the usual one.\n\n| floor | reasoning, 4 B: ns/delta | reasoning, 1 KB: GB/s | prose, 1 KB: GB/s | \
        code, 4 B: ns/delta | code, 1 KB: GB/s |\n|---|---:|---:|---:|---:|---:|\n";
    for floor in kimi_xtml_benches::Floor::ALL.map(kimi_xtml_benches::Floor::name) {
        let _ = writeln!(
            out,
            "| {floor} | {} | {} | {} | {} | {} |",
            delta("reasoning", "4 B", floor),
            speed("reasoning", "1 KB", floor),
            speed("prose", "1 KB", floor),
            delta("code", "4 B", floor),
            speed("code", "1 KB", floor),
        );
    }
    *out += "\nOnce a stream, for a request with three tools:";
    for (name, time) in &results.once {
        let _ = write!(out, " `{name}` {} ns,", number(*time));
    }
    out.pop();
    *out += ".\n\n";
}

/// A length as people say it.
fn length(bytes: usize) -> String {
    match bytes {
        _ if bytes >= K * K => format!("{} MB", bytes >> 20),
        _ if bytes >= 2 * K => format!("{} KB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// What is said of a point, with its number in a table.
fn cell(point: Option<&Point>, of: impl Fn(&Point, f64) -> f64) -> String {
    match point.map(|point| (point, &point.result)) {
        Some((point, Measured::Time(time))) => number(of(point, *time)),
        Some((_, Measured::Wrong(_))) => "wrong".into(),
        Some((_, Measured::Stopped(_))) => "stopped".into(),
        None => "–".into(),
    }
}

/// Beside the others.
fn peers(out: &mut String, results: &Results) {
    let find = |parser: &str, shape: &str, cut: &str, size: usize| {
        let is = |it: &&Point| (&*it.parser, &*it.shape, &*it.cut, it.size) == (parser, shape, cut, size);
        results.points.iter().find(is)
    };
    let title = |parser: &str| match results.about.versions.get(parser).map(String::as_str) {
        None | Some("") => parser.to_owned(),
        Some(version) => format!("{parser} {version}"),
    };
    let wrongs = |parser: &str, cuts: &[&str]| {
        let wrong = results.points.iter().filter(|it| it.parser == parser && cuts.contains(&&*it.cut));
        let wrong = wrong.filter_map(|it| match &it.result {
            Measured::Wrong(why) => Some(format!("{}, {}: {why}", it.shape, it.cut)),
            _ => None,
        });
        let mut wrong: Vec<_> = wrong.collect();
        wrong.dedup();
        if wrong.is_empty() { "yes".to_owned() } else { wrong.join("; ") }
    };
    *out += "## Beside the other parsers\nStreams of 64 KB in deltas of 4 bytes, **ns a delta**. A parser with a wrong answer has no \
        time; *correct?* says what is wrong.\n\n";
    heads(out, &KILO, &["set up and end: ns"]);
    for parser in PARSERS {
        let cells = KILO.map(|shape| cell(find(parser, shape, "4 B", USUAL), |point, time| time / point.deltas as f64));
        let nothing = cell(find(parser, "nothing", "whole", 0), |_, time| time);
        let _ =
            writeln!(out, "| {} | {} | {nothing} | {} |", title(parser), cells.join(" | "), wrongs(parser, &["4 B"]));
    }
    *out += "\nThe same in deltas of 1 KB, **GB/s**.\n\n";
    heads(out, &KILO, &[]);
    for parser in PARSERS {
        let cells = KILO.map(|shape| cell(find(parser, shape, "1 KB", USUAL), |point, time| point.bytes as f64 / time));
        let _ = writeln!(out, "| {} | {} | {} |", title(parser), cells.join(" | "), wrongs(parser, &["1 KB"]));
    }
    *out += "\n![Time against size](docs/speed.svg)\n\n**Time at 1 MB over time at 64 KB**: 16 is linear. *Stopped* tells the last \
        size that was run and the exponent of the growth up to it.\n\n";
    for (cut, shapes, about) in [("4 B", &SHAPES[..], "deltas of 4 bytes"), ("whole", &WHOLE[..], "one delta")] {
        let _ =
            writeln!(out, "| {about} | {} |\n|---|{}", PARSERS.map(title).join(" | "), "---:|".repeat(PARSERS.len()));
        for shape in shapes {
            let cells = PARSERS.map(|parser| growth(results, parser, shape, cut));
            let _ = writeln!(out, "| {shape} | {} |", cells.join(" | "));
        }
        out.push('\n');
    }
    *out += "Calls that come in one delta, **µs**:\n\n| calls |";
    PARSERS.iter().for_each(|parser| out.push_str(&format!(" {} |", title(parser))));
    let _ = writeln!(out, "\n|---|{}", "---:|".repeat(PARSERS.len()));
    for calls in CALLS {
        let cells = PARSERS.map(|parser| cell(find(parser, "calls", "whole", calls * CALL), |_, time| time / 1e3));
        let _ = writeln!(out, "| {calls} | {} |", cells.join(" | "));
    }
    let wrong = PARSERS.iter().map(|parser| (title(parser), wrongs(parser, &["whole"]))).filter(|(_, it)| it != "yes");
    let wrong: Vec<_> = wrong.map(|(title, wrong)| format!("{title} ({wrong})")).collect();
    if !wrong.is_empty() {
        let _ = writeln!(out, "\nWrong as one delta: {}.", wrong.join("; "));
    }
    ahead(out, results);
}

fn heads(out: &mut String, shapes: &[&str], more: &[&str]) {
    let heads: Vec<_> = shapes.iter().chain(more).copied().collect();
    let _ = writeln!(out, "| parser | {} | correct? |\n|---|{}---|", heads.join(" | "), "---:|".repeat(heads.len()));
}

/// How the time of a shape grows.
fn growth(results: &Results, parser: &str, shape: &str, cut: &str) -> String {
    let points = || results.points.iter().filter(|it| it.parser == parser && it.shape == shape && it.cut == cut);
    let timed = |size| points().find(|it| it.size == size).and_then(|point| Some((point, point.time()?)));
    if points().any(|it| matches!(it.result, Measured::Wrong(_))) {
        return "wrong".into();
    }
    if let (Some((small, before)), Some((large, time))) = (timed(USUAL), timed(K * K)) {
        return number(16.0 * (time / large.bytes as f64) / (before / small.bytes as f64));
    }
    let mut timed: Vec<_> = points().filter_map(|point| Some((point.bytes as f64, point.time()?))).collect();
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    match (timed.first(), timed.last()) {
        (Some(first), Some(last)) if first.0 < last.0 => {
            let exponent = (last.1 / first.1).ln() / (last.0 / first.0).ln();
            format!("stopped after {:.0} KB: {:.1} s, exponent {exponent:.1}", last.0 / 1024.0, last.1 / 1e9)
        }
        _ => "stopped".into(),
    }
}

/// Where a peer is faster.
fn ahead(out: &mut String, results: &Results) {
    let mut ahead = Vec::new();
    for theirs in results.points.iter().filter(|it| it.parser != PARSERS[0]) {
        let own = results.points.iter().find(|own| {
            (&*own.parser, &own.shape, &own.cut, own.size) == (PARSERS[0], &theirs.shape, &theirs.cut, theirs.size)
        });
        if let Some((own, time)) = own.and_then(Point::time).zip(theirs.time())
            && time < own
        {
            let size = if theirs.size == 0 { String::new() } else { format!(" of {} KB", theirs.size >> 10) };
            ahead.push(format!(
                "{} in {}{size}, {} ({} times as fast)",
                theirs.parser,
                theirs.shape,
                theirs.cut,
                number(own / time)
            ));
        }
    }
    *out += "\n**Where a peer is ahead**: ";
    *out += &if ahead.is_empty() { "in no stream that was measured here".to_owned() } else { ahead.join("; ") };
    *out += ".\n\n";
}

fn allocated(out: &mut String, heap: &Heap) {
    let _ = writeln!(
        out,
        "## Memory\nThe most bytes of heap that were live at once while a stream was played in deltas of 1 KB, and in brackets all that was \
         allocated. Those of dynamo-11 and dynamo-7 include the frames that their jail takes, which the harness makes first. A new \
         parser of this project's takes {} allocations, a reset {}. Counted on {} with `{}`.\n\n\
         | parser | stream | 64 KB | 1 MB | correct? |\n|---|---|---:|---:|---|",
        heap.new, heap.reset, heap.about.date, heap.about.command
    );
    for small in heap.streams.iter().filter(|it| it.size == USUAL) {
        let large =
            heap.streams.iter().find(|it| (&it.parser, &it.shape) == (&small.parser, &small.shape) && it.size > USUAL);
        let cell = |it: Option<&Allocated>| match it {
            Some(it) if it.wrong.is_none() => {
                format!("{} ({})", thousands(it.most as usize), thousands(it.all as usize))
            }
            _ => "–".into(),
        };
        let wrong = small.wrong.as_ref().or(large.and_then(|large| large.wrong.as_ref()));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            small.parser,
            small.shape,
            cell(Some(small)),
            cell(large),
            wrong.map_or("yes", |wrong| wrong)
        );
    }
    out.push('\n');
}

fn python(out: &mut String, engines: &Engines) {
    let EnginesAbout { machine, date, command } = &engines.about;
    let mut shapes: Vec<&str> = Vec::new();
    let mut parsers: Vec<(&str, &str)> = Vec::new();
    for row in &engines.rows {
        if !shapes.contains(&&*row.shape) {
            shapes.push(&row.shape);
        }
        if !parsers.contains(&(&row.environment, &row.parser)) {
            parsers.push((&row.environment, &row.parser));
        }
    }
    let _ = writeln!(
        out,
        "## From Python\nStreams of 16 KB in tokens, **ns a delta**, of the best round, the loop around the calls included. Measured on \
         {date} with `{command}` on {machine}.\n"
    );
    let _ = writeln!(
        out,
        "| environment | parser | {} | correct? |\n|---|---|{}---|",
        shapes.join(" | "),
        "---:|".repeat(shapes.len())
    );
    for (environment, parser) in parsers {
        let of = |shape: &&str| {
            engines.rows.iter().find(|it| it.environment == environment && it.parser == parser && it.shape == *shape)
        };
        let cells = shapes.iter().map(|shape| of(shape).and_then(|row| row.per_delta).map_or("–".into(), number));
        let wrong = shapes.iter().filter_map(|shape| Some(format!("{shape}: {}", of(shape)?.wrong.as_ref()?)));
        let (cells, wrong): (Vec<_>, Vec<_>) = (cells.collect(), wrong.collect());
        let correct = if wrong.is_empty() { "yes".into() } else { wrong.join("; ").replace('|', "\\|") };
        let _ = writeln!(out, "| {environment} | {parser} | {} | {correct} |", cells.join(" | "));
    }
    out.push('\n');
}
