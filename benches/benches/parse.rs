//! Benchmarks: every shape of stream in every cut as events; other sinks and inputs on some of them; the floors; construction.
//!
//! `cargo bench` takes some minutes, `cargo bench -- code/4` a few seconds; `--save-baseline NAME` and critcmp compare two
//! states. Each stream's answer is checked before it is measured, and streams take turns.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kimi_xtml::{Parser, Request, sink_fn};
use kimi_xtml_benches::{Case, Cut, Floor, Input, SHAPES, Shape, Sinks, Stream, shape};

fn group<'c>(criterion: &'c mut Criterion, name: &str) -> BenchmarkGroup<'c, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(500));
    group
}

fn bytes(streams: &[Stream]) -> Throughput {
    Throughput::Bytes(streams.iter().map(|stream| stream.text.len() as u64).sum())
}

/// The time of all variants of a shape, one after the other.
fn case(group: &mut BenchmarkGroup<'_, WallTime>, shape: &Shape, streams: &[Stream], input: Input, sink: Sinks) {
    let mut case = Case::new(streams, input, sink).unwrap_or_else(|wrong| panic!("{}: {wrong}", shape.name));
    group.throughput(bytes(streams));
    let id = BenchmarkId::new(shape.name, input.name());
    group.bench_function(id, |bencher| bencher.iter(|| case.play_all()));
}

fn events(criterion: &mut Criterion) {
    let mut group = group(criterion, "events");
    for shape in SHAPES {
        let streams = shape.variants();
        for cut in Cut::ALL {
            case(&mut group, shape, &streams, Input::Text(cut), Sinks::Events);
        }
    }
}

fn sinks(criterion: &mut Criterion) {
    for sink in [Sinks::Chat, Sinks::Frames] {
        let mut group = group(criterion, sink.name());
        for name in ["turn", "agent", "content", "code"] {
            let shape = shape(name).expect("a shape");
            let streams = shape.variants();
            for cut in [Cut::Bytes(4), Cut::Bytes(1024)] {
                case(&mut group, shape, &streams, Input::Text(cut), sink);
            }
        }
    }
}

fn inputs(criterion: &mut Criterion) {
    let mut group = group(criterion, "inputs");
    for name in ["turn", "agent", "code"] {
        let shape = shape(name).expect("a shape");
        let streams = shape.variants();
        for input in [Input::Pieces, Input::Tokens, Input::WithIds(1), Input::WithIds(8)] {
            case(&mut group, shape, &streams, input, Sinks::Events);
        }
    }
}

fn floors(criterion: &mut Criterion) {
    let streams = shape("code").expect("a shape").variants();
    for floor in Floor::ALL {
        let mut group = group(criterion, floor.name());
        for cut in Cut::ALL {
            let cuts: Vec<Vec<&str>> = streams.iter().map(|stream| stream.cut(cut)).collect();
            let mut buffer = Vec::new();
            group.throughput(bytes(&streams));
            group.bench_function(BenchmarkId::new("code", cut.name()), |bencher| {
                bencher.iter(|| cuts.iter().for_each(|deltas| floor.run(deltas, &mut buffer)));
            });
        }
    }
}

fn construction(criterion: &mut Criterion) {
    let mut group = group(criterion, "construction");
    let request = Request::new().tools(["read_file", "write_file", "search"]);
    let sink = &mut sink_fn(|event, _| {
        black_box(&event);
    });
    group.bench_function("Request::clone", |bencher| bencher.iter(|| request.clone()));
    let requests = || request.clone();
    group.bench_function("Parser::new", |bencher| bencher.iter_batched(requests, Parser::new, BatchSize::SmallInput));
    let mut parser = Parser::new(requests());
    group.bench_function("Parser::reset", |bencher| {
        bencher.iter_batched(requests, |request| parser.reset(request), BatchSize::SmallInput);
    });
    group.bench_function("Parser::finish", |bencher| {
        let parser = || Parser::new(requests());
        bencher.iter_batched_ref(parser, |parser| parser.finish("stop", sink).len(), BatchSize::SmallInput);
    });
}

criterion_group!(benches, events, sinks, inputs, floors, construction);
criterion_main!(benches);
