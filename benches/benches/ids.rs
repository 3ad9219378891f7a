//! Benchmarks of the tokenizer beside tiktoken with the same ranks: prompts -> ids, ids -> bytes, and the reading of the ranks.
//! Needs `KIMI_XTML_DATA`, a folder with `data/kimi/tiktoken.model`.
//!
//! Prompts are an agent's session of 2 MB and 10 MB of texts that provoke (1 MB for tiktoken). All ids are compared before
//! anything is measured.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kimi_xtml::{Conversation, Piece, Prompt, encode};
use kimi_xtml_benches::Body;
use kimi_xtml_tokenizer::Tokenizer;
use tiktoken_rs::CoreBPE;

/// Kimi's pattern, with its look ahead.
const PATTERN: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

fn tiktoken(file: &str) -> CoreBPE {
    let entry = |line: &str| {
        let (token, rank) = line.split_once(' ').expect("a token and its rank");
        (BASE64_STANDARD.decode(token).expect("base64"), rank.parse().expect("a rank"))
    };
    CoreBPE::new(file.lines().map(entry).collect(), Default::default(), PATTERN).expect("a pattern")
}

/// The ids by tiktoken. No text here has a window or a run that is cut, but for the provoking ones.
fn by_tiktoken(tiktoken: &CoreBPE, prompt: &Prompt<'_>) -> Vec<u32> {
    let mut ids = Vec::new();
    for piece in &prompt.pieces {
        match piece {
            Piece::Text(text) => {
                for start in (0..text.len()).step_by(25_000) {
                    ids.extend(tiktoken.encode_ordinary(&text[start..text.len().min(start + 25_000)]));
                }
            }
            Piece::Marker(marker) => ids.push(marker.id()),
            other => panic!("{other:?}: no image is measured"),
        }
    }
    ids
}

fn ids(criterion: &mut Criterion) {
    let Some(data) = std::env::var_os("KIMI_XTML_DATA").map(PathBuf::from) else {
        return eprintln!("KIMI_XTML_DATA names no folder with data/kimi/tiktoken.model: nothing is measured");
    };
    let path = data.join("data/kimi/tiktoken.model");
    let file = std::fs::read_to_string(&path).expect("ranks");
    let (tokenizer, tiktoken) = (Tokenizer::open(&path).expect("ranks"), tiktoken(&file));

    let mut group = criterion.benchmark_group("ids");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(2));
    group.bench_function("open", |bencher| bencher.iter(|| Tokenizer::from_ranks(file.as_bytes())));
    let provoking = [("letters", "a"), ("blanks", " "), ("line ends", "\n"), ("markers", "<|open|>")];
    let provoking = |len: usize| provoking.map(|(name, text)| Body::repeated(name, text, len));
    let long: Vec<Body> = provoking(10_000_000).into();
    let short: Vec<Body> = [Body::agent(2_000_000)].into_iter().chain(provoking(1_000_000)).collect();
    for body in short.iter().chain(&long) {
        body.check().unwrap_or_else(|wrong| panic!("{wrong}"));
        let conversation = Conversation::from_json(&body.json).expect("it was checked");
        let prompt = encode(&conversation).expect("it was checked");
        let ids = tokenizer.encode_pieces(&prompt.pieces);
        let text = prompt.text();
        assert_eq!(tokenizer.decode(&ids).expect("its own ids"), text.as_bytes());
        let is_short = body.json.len() < 5_000_000;
        assert!(!is_short || ids == by_tiktoken(&tiktoken, &prompt), "{}", body.name);
        let name = format!("{}, {} MB", body.name, text.len() / 1_000_000);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("encode/{name}"), |bencher| {
            bencher.iter(|| tokenizer.encode_pieces(black_box(&prompt.pieces)));
        });
        group.bench_function(format!("count/{name}"), |bencher| {
            bencher.iter(|| tokenizer.count_pieces(black_box(&prompt.pieces)));
        });
        group.bench_function(format!("decode/{name}"), |bencher| bencher.iter(|| tokenizer.decode(black_box(&ids))));
        if is_short {
            group.bench_function(format!("tiktoken/{name}"), |bencher| {
                bencher.iter(|| by_tiktoken(&tiktoken, black_box(&prompt)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, ids);
criterion_main!(benches);
