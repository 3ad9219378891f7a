//! In: bytes from the fuzzer. Out: a panic where the ids of a text are not tiktoken's, or do not spell the text.
#![no_main]

use std::sync::LazyLock;

use base64::prelude::{BASE64_STANDARD, Engine};
use kimi_xtml_tokenizer::Tokenizer;
use tiktoken_rs::CoreBPE;

const RANKS: &str = include_str!("../../tokenizer/tests/tiny.tiktoken");

/// Kimi's pattern, with its look ahead.
const PATTERN: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

static TOKENIZERS: LazyLock<(Tokenizer, CoreBPE)> = LazyLock::new(|| {
    let entry = |line: &str| {
        let (token, rank) = line.split_once(' ').expect("a token and its rank");
        (BASE64_STANDARD.decode(token).expect("base64"), rank.parse().expect("a rank"))
    };
    let reference = CoreBPE::new(RANKS.lines().map(entry).collect(), Default::default(), PATTERN).expect("a pattern");
    (Tokenizer::from_ranks(RANKS.as_bytes()).expect("ranks"), reference)
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (ours, reference) = &*TOKENIZERS;
    let text = String::from_utf8_lossy(data);
    let ids = ours.encode(&text);
    assert_eq!(ids, reference.encode_ordinary(&text), "{text:?}");
    assert_eq!(ours.count(&text), ids.len(), "{text:?}");
    assert_eq!(ours.decode(&ids).as_deref(), Ok(text.as_bytes()));
    let texts = ours.texts(&ids).expect("its own ids");
    assert_eq!(texts.into_iter().map(|(text, _)| text).collect::<String>(), text);
});
