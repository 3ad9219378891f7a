//! Encoding is linear, whatever the text: four times as much takes about four times as long.

use std::time::{Duration, Instant};

use kimi_xtml_tokenizer::Tokenizer;

/// The best of some.
fn time(tokenizer: &Tokenizer, text: &str) -> Duration {
    let once = |_| {
        let start = Instant::now();
        assert!(!tokenizer.encode(text).is_empty());
        start.elapsed()
    };
    (0..4).map(once).min().unwrap()
}

#[test]
fn provoking_texts_take_linear_time() {
    let tokenizer = Tokenizer::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tiny.tiktoken")).unwrap();
    let units = ["a", "A", " ", "\n", "<|open|>", "漢", "🚀", "ab", "a ", "aB1.\n", "'s", " \t", "e\u{301}"];
    for unit in units {
        let [little, much] = [100_000, 400_000].map(|len: usize| time(&tokenizer, &unit.repeat(len / unit.len())));
        assert!(much < 10 * little, "{unit:?}: {little:?}, four times as much {much:?}");
    }
}
