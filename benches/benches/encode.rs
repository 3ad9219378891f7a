//! Benchmarks of the encoder: JSON -> conversation, conversation -> pieces, and both, on an agent's session of 2 MB and on
//! texts of 10 MB that provoke. Each prompt is checked before it is measured.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kimi_xtml::{Conversation, encode};
use kimi_xtml_benches::Body;

fn prompts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("prompt");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(500));
    let bodies = [
        Body::agent(2_000_000),
        Body::repeated("letters", "a", 10_000_000),
        Body::repeated("blanks", " ", 10_000_000),
        Body::repeated("line ends", "\n", 10_000_000),
        Body::repeated("markers", "<|open|>", 10_000_000),
    ];
    for body in bodies {
        body.check().unwrap_or_else(|wrong| panic!("{wrong}"));
        let conversation = Conversation::from_json(&body.json).expect("it was checked");
        group.throughput(Throughput::Bytes(body.json.len() as u64));
        group.bench_function(format!("read/{}", body.name), |bencher| {
            bencher.iter(|| Conversation::from_json(black_box(&body.json)));
        });
        group.bench_function(format!("encode/{}", body.name), |bencher| {
            bencher.iter(|| encode(black_box(&conversation)));
        });
        group.bench_function(format!("both/{}", body.name), |bencher| {
            bencher.iter(|| {
                let conversation = Conversation::from_json(black_box(&body.json)).expect("it was checked");
                encode(&conversation).map(|prompt| prompt.pieces.len())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, prompts);
criterion_main!(benches);
