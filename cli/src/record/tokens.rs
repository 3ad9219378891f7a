//! Pieces -> tokens: at real token boundaries with a tokenizer's ranks, by a seeded schedule without.
//!
//! In: text and control tokens. Out: each token's text, and its id where ranks are known. Held: bytes of a character that
//! the next token completes; the text of what ends inside a character is empty.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kimi_xtml::{Marker, Piece};
use tiktoken_rs::{CoreBPE, Rank};

use crate::record;

/// The pre-tokenizer's splits, in this order: runs of Han; words with English contractions, in two forms; numbers of up to
/// three digits; punctuation with its line ends; line ends; white space.
const SPLITS: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+",
    r"|\s+(?!\S)",
    r"|\s+",
);

/// Characters that a token of the seeded schedule has at most.
const LONGEST: usize = 8;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its text; empty where it ends inside a character.
    pub text: String,
    /// Its id, where ranks are known.
    pub id: Option<u32>,
    /// The control token that it is.
    pub marker: Option<Marker>,
}

/// Cuts text into tokens.
pub enum Cutter {
    /// At real boundaries.
    Tokenizer(Box<CoreBPE>),
    /// Into parts of 1 to 8 characters, by the seed.
    Schedule,
}

impl std::fmt::Debug for Cutter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if let Cutter::Schedule = self { "Schedule" } else { "Tokenizer" })
    }
}

impl Cutter {
    /// Reads a file of BPE ranks: a token in base64, a blank and its rank a line (`tiktoken.model`).
    ///
    /// # Errors
    /// If the file cannot be read, or a line is none.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        Self::read_from(&record::bytes(file)?, &file.display().to_string())
    }

    /// Reads the ranks in `bytes`, which messages call `name`.
    pub(crate) fn read_from(bytes: &[u8], name: &str) -> anyhow::Result<Self> {
        let entry = |line: &[u8]| -> Option<(Vec<u8>, Rank)> {
            let (token, rank) = std::str::from_utf8(line).ok()?.split_once(' ')?;
            Some((STANDARD.decode(token).ok()?, rank.trim().parse().ok()?))
        };
        let (mut ranks, mut seen) = (HashMap::new(), HashSet::new());
        for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let entry = entry(line);
            let (token, rank) =
                entry.with_context(|| format!("{name}, line {number}: no token in base64 and its rank"))?;
            let is_new = seen.insert(rank) && ranks.insert(token, rank).is_none();
            anyhow::ensure!(is_new, "{name}, line {number}: the token or its rank stands twice");
        }
        // Any text can be encoded if each byte is a token.
        for byte in 0..=u8::MAX {
            anyhow::ensure!(ranks.contains_key(&[byte][..]), "{name}: no token for the byte {byte:#04x}");
        }
        let bpe = CoreBPE::new(ranks.into_iter().collect(), Default::default(), SPLITS)
            .map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        Ok(Cutter::Tokenizer(Box::new(bpe)))
    }

    /// The tokens of pieces. Text is always ordinary tokens, whatever it spells.
    pub fn cut(&self, pieces: &[Piece<'_>], random: &mut fastrand::Rng) -> Vec<Token> {
        let mut tokens = Vec::new();
        for text in joined(pieces) {
            match (text, self) {
                (Piece::Marker(marker), cutter) => tokens.push(Token {
                    text: marker.spelling().into(),
                    id: matches!(cutter, Cutter::Tokenizer(_)).then(|| marker.id()),
                    marker: Some(marker),
                }),
                (text, Cutter::Tokenizer(bpe)) => encode(bpe, text.spelling(), &mut tokens),
                (text, Cutter::Schedule) => schedule(text.spelling(), random, &mut tokens),
            }
        }
        tokens
    }
}

/// Pieces of which no two texts follow each other.
fn joined<'a>(pieces: &'a [Piece<'a>]) -> Vec<Piece<'a>> {
    let mut joined: Vec<Piece<'a>> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => before.to_mut().push_str(text),
            _ => joined.push(piece.clone()),
        }
    }
    joined
}

fn encode(bpe: &CoreBPE, text: &str, tokens: &mut Vec<Token>) {
    let mut held = Vec::new();
    for id in bpe.encode_ordinary(text) {
        held.extend(bpe.decode_bytes(&[id]).expect("a token that the encoder gave"));
        let text = match std::str::from_utf8(&held) {
            Ok(text) => text.to_owned(),
            Err(_) => String::new(),
        };
        if !text.is_empty() {
            held.clear();
        }
        tokens.push(Token { text, id: Some(id), marker: None });
    }
}

fn schedule(text: &str, random: &mut fastrand::Rng, tokens: &mut Vec<Token>) {
    let mut rest = text;
    while !rest.is_empty() {
        let wanted = random.usize(1..=LONGEST);
        let end = rest.char_indices().nth(wanted).map_or(rest.len(), |(at, _)| at);
        // A `<` or a `<|` ends its delta: what it may become is not known there.
        let end =
            rest[..end].find("<|").map(|at| at + 2).or_else(|| rest[..end].find('<').map(|at| at + 1)).unwrap_or(end);
        let (text, after) = rest.split_at(end);
        tokens.push(Token { text: text.into(), id: None, marker: None });
        rest = after;
    }
}
