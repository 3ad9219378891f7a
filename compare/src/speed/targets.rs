//! What was wanted of the parser's speed and memory, and whether the results show it.
//!
//! In: results. Out: a line a target: what it asks, what was measured, whether it holds. What was not measured does not hold.

use super::{Allocated, Heap, K, Results, USUAL};

/// A target.
pub(crate) struct Target {
    pub(crate) wanted: String,
    pub(crate) measured: String,
    pub(crate) holds: bool,
}

/// The shapes that are a channel of text, and those that are values.
const TEXTS: [&str; 2] = ["reasoning", "content"];
const CHANNELS: [&str; 5] = ["reasoning", "content", "prose", "code", "object"];

/// All targets.
pub(crate) fn targets(results: &Results, heap: Option<&Heap>) -> Vec<Target> {
    let mut targets = Vec::new();
    let row = |shape: &str, input: &str, sink: &str| {
        results.rows.iter().find(|row| (&*row.shape, &*row.input, &*row.sink) == (shape, input, sink))
    };
    let delta = |shape: &str, sink| row(shape, "4 B", sink).map_or(f64::NAN, |row| row.per_delta);
    let speed = |shape: &str, input: &str, sink: &str| row(shape, input, sink).map_or(f64::NAN, |row| row.gigabytes);
    let mut most = |wanted: &str, limit: f64, unit: &str, of: &[(&str, f64)]| {
        targets.push(at_most(wanted, limit, unit, of.iter().map(|&(name, value)| (name.to_owned(), value))));
    };
    let each = |of: &dyn Fn(&'static str) -> f64| CHANNELS.map(|shape| (shape, of(shape)));
    most("events, 4-byte deltas: at most 20 ns", 20.0, "ns", &each(&|shape| delta(shape, "events")));
    let to_floor = |shape: &'static str| {
        let floor = if shape == "object" { "code" } else { shape };
        delta(shape, "events") / delta(floor, "memchr")
    };
    most("events, 4-byte deltas: at most 5 times memchr", 5.0, "x", &each(&to_floor));
    most("chat deltas, 4-byte deltas: at most 45 ns", 45.0, "ns", &each(&|shape| delta(shape, "chat")));
    let kilo = |shape| speed(shape, "1 KB", "events");
    let mut least = |wanted: &str, limit: f64, unit: &str, of: &[(&str, f64)]| {
        targets.push(at_least(wanted, limit, unit, of.iter().map(|&(name, value)| (name.to_owned(), value))));
    };
    least("reasoning and content, 1 KB deltas: at least 8 GB/s", 8.0, "GB/s", &TEXTS.map(|shape| (shape, kilo(shape))));
    for by in ["serde_json", "json-escape-simd"] {
        let floor = format!("JSON escaping ({by})");
        let share = |shape| 100.0 * kilo(shape) / speed(shape, "1 KB", &floor);
        let strings = ["prose", "code"].map(|shape| (shape, share(shape)));
        least(&format!("string arguments, 1 KB deltas: at least 80 % of escaping by {by}"), 80.0, "%", &strings);
    }
    least("objects, 1 KB deltas: at least 1 GB/s", 1.0, "GB/s", &[("object", kilo("object"))]);
    let hostile = kimi_xtml_benches::SHAPES.iter().filter(|shape| shape.hostile);
    let floods = hostile.flat_map(|shape| {
        let name = |cut| format!("{}, {cut}", shape.name);
        ["4 B", "1 KB"].map(|cut| (name(cut), 1e3 * speed(shape.name, cut, "events")))
    });
    targets.push(at_least("hostile streams: at least 100 MB/s", 100.0, "MB/s", floods));
    targets.push(linear(results));
    targets.extend(once(results, heap));
    targets.extend(heap.into_iter().flat_map(memory));
    targets.extend(against(results));
    targets
}

/// The time at 1 MB is 16 times that at 64 KB.
fn linear(results: &Results) -> Target {
    let own = results.points.iter().filter(|point| point.parser == "kimi-xtml" && point.size == K * K);
    let factors = own.filter_map(|large| {
        let small = results.points.iter().find(|small| {
            (&small.parser, &small.shape, &small.cut) == (&large.parser, &large.shape, &large.cut)
                && small.size == USUAL
        })?;
        let (large_per, small_per) = (large.time()? / large.bytes as f64, small.time()? / small.bytes as f64);
        Some((format!("{}, {}", large.shape, large.cut), 16.0 * large_per / small_per))
    });
    at_most("time at 1 MB: 16 times that at 64 KB, within 10 %", 17.6, "x", factors)
}

fn once(results: &Results, heap: Option<&Heap>) -> [Target; 2] {
    let names = ["Parser::new", "Parser::reset"];
    let time = |name: &str| results.once.get(name).copied().unwrap_or(f64::NAN);
    let counts = heap.map_or([f64::NAN; 2], |heap| [heap.new as f64, heap.reset as f64]);
    [
        at_most("construction and reset: at most 200 ns", 200.0, "ns", names.map(|name| (name.into(), time(name)))),
        at_most("construction and reset: no allocation", 0.0, "", [0, 1].map(|at| (names[at].into(), counts[at]))),
    ]
}

fn memory(heap: &Heap) -> [Target; 3] {
    let own = |parser: &'static str, shape: &'static [&str]| {
        let streams = heap.streams.iter();
        streams.filter(move |it| it.parser == parser && shape.contains(&&*it.shape))
    };
    let named = |it: &Allocated| format!("{}, {} KB", it.shape, it.size >> 10);
    let small = own("kimi-xtml", &["reasoning", "code", "calls"]).map(|it| (named(it), it.most as f64));
    let held = own("kimi-xtml", &["object"]).map(|it| (named(it), it.most as f64 / it.bytes as f64));
    let streamed = own("kimi-xtml, stream_json", &["object"]).map(|it| (named(it), it.most as f64));
    [
        at_most("peak heap: at most 4 KiB", 4096.0, "B", small),
        at_most("peak heap while an object is held: at most 1.1 times the value", 1.1, "x", held),
        at_most("peak heap while an object is streamed: at most 4 KiB", 4096.0, "B", streamed),
    ]
}

/// Against dynamo-parsers-v2, in deltas of 4 bytes.
fn against(results: &Results) -> [Target; 2] {
    let factor = |shape: &&'static str| {
        let time = |parser| {
            let of =
                |it: &&super::Point| (&*it.parser, &*it.shape, &*it.cut) == (parser, shape, "4 B") && it.size == USUAL;
            results.points.iter().find(of).and_then(super::Point::time)
        };
        ((*shape).to_owned(), time("dynamo-v2").zip(time("kimi-xtml")).map_or(f64::NAN, |(theirs, ours)| theirs / ours))
    };
    [
        at_least(
            "against dynamo-v2, reasoning and content: at least 100 times as fast",
            100.0,
            "x",
            TEXTS.iter().map(factor),
        ),
        at_least(
            "against dynamo-v2, arguments and calls: at least 10 times as fast",
            10.0,
            "x",
            ["prose", "code", "object", "calls"].iter().map(factor),
        ),
    ]
}

fn at_most(wanted: &str, limit: f64, unit: &str, of: impl IntoIterator<Item = (String, f64)>) -> Target {
    judged(wanted, of, unit, |a, b| a.total_cmp(&b).is_gt(), |value| value <= limit)
}

fn at_least(wanted: &str, limit: f64, unit: &str, of: impl IntoIterator<Item = (String, f64)>) -> Target {
    judged(wanted, of, unit, |a, b| a.total_cmp(&b).is_lt(), |value| value >= limit)
}

/// The worst of what was measured, and all that do not hold.
fn judged(
    wanted: &str,
    of: impl IntoIterator<Item = (String, f64)>,
    unit: &str,
    is_worse: impl Fn(f64, f64) -> bool,
    holds: impl Fn(f64) -> bool,
) -> Target {
    let mut of: Vec<_> = of.into_iter().collect();
    of.sort_by(|a, b| if is_worse(a.1, b.1) { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater });
    let failing = of.iter().filter(|(_, value)| !holds(*value)).count();
    let shown = of.iter().take(failing.max(1));
    let shown = shown.map(|(name, value)| {
        if value.is_nan() { format!("{name}: not measured") } else { format!("{name} {} {unit}", number(*value)) }
    });
    Target {
        wanted: wanted.into(),
        measured: shown.collect::<Vec<_>>().join("; ").replace(" ;", ";").trim_end().to_owned(),
        holds: failing == 0 && !of.is_empty(),
    }
}

/// Three digits that count.
pub(crate) fn number(value: f64) -> String {
    match value {
        _ if value.abs() >= 100.0 => crate::report::thousands(value.round() as usize),
        _ if value.abs() >= 10.0 => format!("{value:.1}"),
        _ if value.abs() >= 1.0 => format!("{value:.2}"),
        _ if value == 0.0 => "0".into(),
        _ => format!("{value:.3}"),
    }
}
