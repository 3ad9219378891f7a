//! What the tests share: ranks, the reference, and the data beside the project.
#![allow(dead_code, reason = "each test needs a part of it")]

use std::path::PathBuf;
use std::sync::LazyLock;

use base64::prelude::{BASE64_STANDARD, Engine};
use kimi_xtml_tokenizer::Tokenizer;
use tiktoken_rs::CoreBPE;

/// The pattern as Kimi's tokenizer has it, with its look ahead.
const PATTERN: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+",
    r"|\s+(?!\S)",
    r"|\s+",
);

/// The folder with cases and data, if there is one.
pub(crate) fn data() -> Option<PathBuf> {
    std::env::var_os("KIMI_XTML_DATA").map(PathBuf::from)
}

/// Kimi's file of ranks, if the data has it.
pub(crate) fn kimi_ranks() -> Option<Vec<u8>> {
    let path = data()?.join("data/kimi/tiktoken.model");
    Some(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// A tokenizer, and tiktoken with the same ranks.
pub(crate) struct Pair {
    pub(crate) ours: Tokenizer,
    pub(crate) reference: CoreBPE,
    pub(crate) tokens: Vec<Vec<u8>>,
}

/// Of small ranks (the bytes, and what was learnt from this project's text), and of Kimi's where the data has them.
pub(crate) static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let small = include_bytes!("../tiny.tiktoken").to_vec();
    std::iter::once(small).chain(kimi_ranks()).map(|file| pair(&file)).collect()
});

pub(crate) fn line(token: &[u8], rank: u32) -> String {
    format!("{} {rank}\n", BASE64_STANDARD.encode(token))
}

pub(crate) fn pair(file: &[u8]) -> Pair {
    let ours = Tokenizer::from_ranks(file).unwrap();
    let tokens: Vec<Vec<u8>> = std::str::from_utf8(file)
        .unwrap()
        .lines()
        .map(|line| BASE64_STANDARD.decode(line.split_once(' ').unwrap().0).unwrap())
        .collect();
    let ranks = tokens.iter().cloned().zip(0..).collect();
    Pair { ours, reference: CoreBPE::new(ranks, Default::default(), PATTERN).unwrap(), tokens }
}

impl Pair {
    /// What Moonshot's tokenizer gives: tiktoken's ids of each stretch.
    pub(crate) fn reference(&self, text: &str) -> Vec<u32> {
        stretches(text).iter().flat_map(|stretch| self.reference.encode_ordinary(stretch)).collect()
    }
}

/// The stretches of a text, as Moonshot's Python cuts them.
pub(crate) fn stretches(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let mut stretches = Vec::new();
    for window in characters.chunks(400_000) {
        let (mut start, mut length, mut space) = (0, 0, is_space(window[0]));
        for (at, &character) in window.iter().enumerate() {
            if is_space(character) != space {
                (length, space) = (1, !space);
                continue;
            }
            length += 1;
            if length > 25_000 {
                stretches.push(window[start..at].iter().collect());
                (start, length) = (at, 1);
            }
        }
        stretches.push(window[start..].iter().collect());
    }
    stretches
}

/// Python's `str.isspace`.
fn is_space(character: char) -> bool {
    matches!(u32::from(character), 0x09..=0x0d | 0x1c..=0x20 | 0x85 | 0xa0 | 0x1680 | 0x2000..=0x200a | 0x2028 | 0x2029
        | 0x202f | 0x205f | 0x3000)
}
