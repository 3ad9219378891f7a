//! Pieces -> tokens: at real token boundaries with a tokenizer's ranks, by a seeded schedule without.
//!
//! In: text and control tokens. Out: each token's text, and its id where ranks are known. Nothing is held. The text of a
//! token that ends inside a character is empty: the next one completes it.

use std::path::Path;

use anyhow::anyhow;
use kimi_xtml::{Marker, Piece};
use kimi_xtml_tokenizer::{RanksError, Tokenizer};

use crate::record;

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
#[derive(Debug)]
pub enum Cutter {
    /// At real boundaries.
    Tokenizer(Box<Tokenizer>),
    /// Into parts of 1 to 8 characters, by the seed.
    Schedule,
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
        let tokenizer = Tokenizer::from_ranks(bytes).map_err(|error| match error {
            RanksError::Line { line, fault } => anyhow!("{name}, line {line}: {fault}"),
            error => anyhow!("{name}: {error}"),
        })?;
        Ok(Cutter::Tokenizer(Box::new(tokenizer)))
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
                (text, Cutter::Tokenizer(tokenizer)) => encode(tokenizer, text.spelling(), &mut tokens),
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

fn encode(tokenizer: &Tokenizer, text: &str, tokens: &mut Vec<Token>) {
    let texts = tokenizer.texts(&tokenizer.encode(text)).expect("the tokenizer's own ids");
    tokens.extend(texts.into_iter().map(|(text, id)| Token { text, id: Some(id), marker: None }));
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
