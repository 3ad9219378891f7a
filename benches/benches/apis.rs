//! What a delta costs in the words of each API: content, reasoning and arguments of a few bytes each, by frame.
//!
//! `cargo bench --bench apis` takes some seconds. The time is that of one delta; a stream begins and ends once in a thousand.

use std::hint::black_box;
use std::time::Duration;

use bytes::BytesMut;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kimi_xtml::{AnthropicMessages, Delta, Extras, Frames, Responses, Usage};

const DELTAS: u64 = 1_000;

fn apis(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("apis");
    group.sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    group.throughput(Throughput::Elements(DELTAS));
    let arguments = Delta::Arguments { index: 0, json: "path" };
    for (kind, delta) in
        [("content", Delta::Content(" word")), ("reasoning", Delta::Reasoning(" word")), ("arguments", arguments)]
    {
        let mut out = BytesMut::with_capacity(1 << 20);
        let deltas = || {
            let begun = match delta {
                Delta::Arguments { index, .. } => vec![
                    Delta::CallStart { index, id: "call_0", name: "read_file" },
                    Delta::Arguments { index, json: "{\"path\":\"" },
                ],
                _ => Vec::new(),
            };
            begun.into_iter().chain(std::iter::repeat_n(delta, DELTAS as usize))
        };
        let id = |api: &str| BenchmarkId::new(api.to_owned(), kind);
        group.bench_function(id("chat"), |bencher| {
            let frames = Frames::new("chatcmpl-0123456789abcdef01234567", 1_790_000_000, "kimi-k3");
            bencher.iter(|| {
                out.clear();
                let mut choice = frames.choice(0);
                deltas().for_each(|delta| choice.delta(delta, Extras::new(), &mut out));
                choice.end("stop", None, &mut out);
                black_box(out.len())
            });
        });
        group.bench_function(id("messages"), |bencher| {
            bencher.iter(|| {
                out.clear();
                let mut events = AnthropicMessages::new("msg_0123456789abcdef01234567", "kimi-k3");
                events.start(&Usage::default(), &mut out);
                deltas().for_each(|delta| events.delta(delta, &mut out));
                events.end("stop", None, &Usage::default(), &mut out);
                black_box(out.len())
            });
        });
        group.bench_function(id("responses"), |bencher| {
            bencher.iter(|| {
                out.clear();
                let mut events =
                    Responses::new("resp_0123456789abcdef01234567", 1_790_000_000, "kimi-k3", Default::default());
                events.start(&mut out);
                deltas().for_each(|delta| events.delta(delta, &mut out));
                events.end("stop", &Usage::default(), &mut out);
                black_box(out.len())
            });
        });
    }
}

criterion_group!(benches, apis);
criterion_main!(benches);
