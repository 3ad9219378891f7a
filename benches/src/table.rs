//! All that is measured of this parser alone, with the floors, in one run.
//!
//! In: the time to spend on each row. Out: rows, and what a parser costs before and after its stream.

use std::hint::black_box;
use std::time::{Duration, Instant};

use kimi_xtml::{Parser, Request, sink_fn};

use crate::floors::Floor;
use crate::measure::best;
use crate::play::{Case, Input, Sinks};
use crate::streams::{Cut, SHAPES, Shape, Stream, shape};

/// What was measured of one shape.
#[derive(Clone, Debug)]
pub struct Row {
    /// The shape's name.
    pub shape: &'static str,
    /// How the stream came in.
    pub input: String,
    /// How it came out, or the floor.
    pub sink: &'static str,
    /// Bytes of all variants.
    pub bytes: usize,
    /// Deltas of all variants.
    pub deltas: usize,
    /// The time of all variants.
    pub time: Duration,
}

impl Row {
    /// Nanoseconds a delta.
    pub fn per_delta(&self) -> f64 {
        self.time.as_secs_f64() * 1e9 / self.deltas as f64
    }

    /// Gigabytes a second.
    pub fn gigabytes(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64() / 1e9
    }
}

/// Measures the parser: every shape in every cut as events; other sinks and inputs; then the floors.
///
/// # Errors
/// A stream's answer is wrong.
pub fn rows(budget: Duration) -> Result<Vec<Row>, String> {
    let text = |cut| Input::Text(cut);
    let mut rows = Vec::new();
    for shape in SHAPES {
        let streams = shape.variants();
        for cut in Cut::ALL {
            rows.push(row(shape, &streams, text(cut), Sinks::Events, budget)?);
        }
        if !shape.hostile {
            for sink in [Sinks::Chat, Sinks::Frames] {
                for cut in [Cut::Bytes(4), Cut::Bytes(1024)] {
                    rows.push(row(shape, &streams, text(cut), sink, budget)?);
                }
            }
            for input in [Input::Pieces, Input::Tokens, Input::WithIds(1), Input::WithIds(8)] {
                rows.push(row(shape, &streams, input, Sinks::Events, budget)?);
            }
        }
    }
    for name in ["reasoning", "content", "prose", "code"] {
        let shape = shape(name).expect("a shape");
        rows.extend(floors(shape, budget));
    }
    Ok(rows)
}

fn row(shape: &Shape, streams: &[Stream], input: Input, sink: Sinks, budget: Duration) -> Result<Row, String> {
    let mut case = Case::new(streams, input, sink).map_err(|wrong| format!("{}: {wrong}", shape.name))?;
    let time = best(budget, case.len(), |_| case.play());
    let bytes = streams.iter().map(|stream| stream.text.len()).sum();
    Ok(Row { shape: shape.name, input: input.name(), sink: sink.name(), bytes, deltas: case.deltas(), time })
}

fn floors(shape: &Shape, budget: Duration) -> Vec<Row> {
    let streams = shape.variants();
    let mut rows = Vec::new();
    for cut in [Cut::Bytes(4), Cut::Bytes(1024), Cut::Whole] {
        let cuts: Vec<Vec<&str>> = streams.iter().map(|stream| stream.cut(cut)).collect();
        let deltas = cuts.iter().map(Vec::len).sum();
        let bytes = streams.iter().map(|stream| stream.text.len()).sum();
        for floor in Floor::ALL {
            let mut buffer = Vec::new();
            let time = best(budget, cuts.len(), |number| floor.run(&cuts[number], &mut buffer));
            rows.push(Row { shape: shape.name, input: cut.name(), sink: floor.name(), bytes, deltas, time });
        }
    }
    rows
}

/// Nanoseconds of what comes once a stream, for a request with three tools: its name, its time.
pub fn once(budget: Duration) -> [(&'static str, f64); 4] {
    const COUNT: usize = 1_000;
    let request = Request::new().tools(["read_file", "write_file", "search"]);
    let requests = || vec![request.clone(); COUNT];
    let parsers = || requests().into_iter().map(Parser::new).collect::<Vec<_>>();
    let mut ignored = sink_fn(|event, _| {
        black_box(&event);
    });
    let mut times = [Duration::MAX; 4];
    let started = Instant::now();
    while started.elapsed() < 4 * budget {
        let mut least = |number: usize, start: Instant| times[number] = times[number].min(start.elapsed());
        let mut cloned = Vec::with_capacity(COUNT);
        let start = Instant::now();
        cloned.extend((0..COUNT).map(|_| request.clone()));
        least(0, start);
        let mut made = Vec::with_capacity(COUNT);
        let start = Instant::now();
        made.extend(cloned.into_iter().map(Parser::new));
        least(1, start);
        let (mut parser, requests) = (Parser::new(request.clone()), requests());
        let start = Instant::now();
        requests.into_iter().for_each(|request| parser.reset(request));
        least(2, start);
        let mut parsers = parsers();
        let start = Instant::now();
        for parser in &mut parsers {
            parser.finish("stop", &mut ignored);
        }
        least(3, start);
    }
    let names = ["Request::clone", "Parser::new", "Parser::reset", "Parser::finish"];
    std::array::from_fn(|number| (names[number], times[number].as_secs_f64() * 1e9 / COUNT as f64))
}
