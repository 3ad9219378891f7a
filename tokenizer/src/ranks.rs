//! A file of ranks -> which token stands for which bytes, and back.
//!
//! In: the file: a token in base64, a blank and its rank a line. Out: the token of some bytes, the bytes of a token. Held:
//! all tokens' bytes, one after another, where each stands, and a hash table of ranks: 7 MB for Kimi's.

use std::hash::Hasher;
use std::ops::Range;

use base64::prelude::{BASE64_STANDARD, Engine};
use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::special;

/// Why a file gives no ranks.
///
/// ```
/// use kimi_xtml_tokenizer::{RanksError, Tokenizer};
///
/// let error = Tokenizer::from_ranks(b"IQ== 0").unwrap_err();
/// assert_eq!(error, RanksError::NoByte { byte: 0 });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RanksError {
    /// A line cannot be used.
    #[error("line {line}: {fault}")]
    Line {
        /// The line's number, from 1 on.
        line: usize,
        /// What is wrong with it.
        fault: LineFault,
    },
    /// A byte is no token, so that not every text could be encoded.
    #[error("no token for the byte {byte:#04x}: the file is cut, or that of another kind of tokenizer")]
    NoByte {
        /// The first such byte.
        byte: u8,
    },
}

/// What is wrong with a line of a file of ranks.
///
/// ```
/// use kimi_xtml_tokenizer::{LineFault, RanksError, Tokenizer};
///
/// let error = Tokenizer::from_ranks(b"IQ== 0\nIg== 0").unwrap_err();
/// assert_eq!(error, RanksError::Line { line: 2, fault: LineFault::RepeatedRank });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// It is not a token in base64, a blank, and a number.
    #[error("a token in base64, a blank and its rank are expected")]
    Shape,
    /// The token is empty, or longer than any token can be (65,535 bytes).
    #[error("a token has 1 to 65,535 bytes")]
    Length,
    /// The rank is an id of the control tokens.
    #[error("ranks are below {}, where the ids of the control tokens begin", special::FIRST)]
    Rank,
    /// An earlier line has this token.
    #[error("an earlier line has the same token")]
    RepeatedToken,
    /// An earlier line has this rank.
    #[error("an earlier line has the same rank")]
    RepeatedRank,
}

pub(crate) struct Ranks {
    /// The tokens' bytes.
    bytes: Vec<u8>,
    /// By rank, where its token stands in them. Of a rank that the file does not have, nowhere.
    places: Vec<Range<u32>>,
    /// Ranks, by their tokens' keys.
    table: HashTable<(Key, u32)>,
    /// The token of each byte, and of each two.
    single: [u32; 256],
    pairs: Vec<u32>,
    /// Bytes that the longest token has.
    longest: usize,
}

/// What stands for no rank.
pub(crate) const NONE: u32 = u32::MAX;

impl Ranks {
    pub(crate) fn read(file: &[u8]) -> Result<Ranks, RanksError> {
        let mut ranks = Ranks {
            bytes: Vec::new(),
            places: Vec::new(),
            table: HashTable::new(),
            single: [NONE; 256],
            pairs: vec![NONE; 1 << 16],
            longest: 0,
        };
        let mut token = Vec::new();
        for (line, text) in (1..).zip(file.split(|&byte| byte == b'\n')) {
            let text = text.trim_ascii_end();
            if !text.is_empty() {
                ranks.line(text, &mut token).map_err(|fault| RanksError::Line { line, fault })?;
            }
        }
        match (0..=u8::MAX).find(|&byte| ranks.byte(byte) == NONE) {
            Some(byte) => Err(RanksError::NoByte { byte }),
            None => Ok(ranks),
        }
    }

    fn line(&mut self, line: &[u8], token: &mut Vec<u8>) -> Result<(), LineFault> {
        let blank = line.iter().position(|&byte| byte == b' ').ok_or(LineFault::Shape)?;
        let rank: u32 =
            std::str::from_utf8(&line[blank + 1..]).ok().and_then(|rank| rank.parse().ok()).ok_or(LineFault::Shape)?;
        token.clear();
        BASE64_STANDARD.decode_vec(&line[..blank], token).map_err(|_| LineFault::Shape)?;
        if token.is_empty() || token.len() > usize::from(u16::MAX) {
            return Err(LineFault::Length);
        }
        if rank >= special::FIRST {
            return Err(LineFault::Rank);
        }
        if !self.token(rank).is_empty() {
            return Err(LineFault::RepeatedRank);
        }
        if self.rank(token) != NONE {
            return Err(LineFault::RepeatedToken);
        }
        let place = rank as usize;
        if self.places.len() <= place {
            self.places.resize(place + 1, 0..0);
        }
        // No more than 163,584 tokens of 65,535 bytes: the sum of real ones is far below 4 GiB.
        let start = u32::try_from(self.bytes.len()).map_err(|_| LineFault::Length)?;
        self.bytes.extend_from_slice(token);
        self.places[place] = start..u32::try_from(self.bytes.len()).map_err(|_| LineFault::Length)?;
        self.longest = self.longest.max(token.len());
        match token[..] {
            [byte] => self.single[usize::from(byte)] = rank,
            [first, second] => self.pairs[pair(first, second)] = rank,
            _ => {}
        }
        self.table.insert_unique(key(token).hash(), (key(token), rank), |(key, _)| key.hash());
        Ok(())
    }

    /// The token of these bytes; [`NONE`] if they are none.
    #[inline]
    pub(crate) fn rank(&self, token: &[u8]) -> u32 {
        match *token {
            [byte] => return self.byte(byte),
            [first, second] => return self.pair(first, second),
            _ if token.len() > self.longest => return NONE,
            _ => {}
        }
        let key = key(token);
        let is_it = |&(of, rank): &(Key, u32)| of == key && (token.len() < 8 || self.token(rank) == token);
        self.table.find(key.hash(), is_it).map_or(NONE, |&(_, rank)| rank)
    }

    /// The token of one byte: every byte has one.
    pub(crate) fn byte(&self, byte: u8) -> u32 {
        self.single[usize::from(byte)]
    }

    /// The token of two bytes; [`NONE`] if they are none.
    #[inline]
    pub(crate) fn pair(&self, first: u8, second: u8) -> u32 {
        self.pairs[pair(first, second)]
    }

    /// The token's bytes; none if there is no such token.
    pub(crate) fn token(&self, rank: u32) -> &[u8] {
        self.places.get(rank as usize).map_or(&[], |place| &self.bytes[place.start as usize..place.end as usize])
    }

    /// How many tokens there are.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}

fn pair(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

/// What tells tokens apart: of up to 7 bytes all of them and how many, of more a hash.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key(u64);

impl Key {
    fn hash(self) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write_u64(self.0);
        hasher.finish()
    }
}

#[inline]
fn key(token: &[u8]) -> Key {
    let bytes = match token {
        [a] => u64::from(*a),
        [a, b] => u64::from(u16::from_le_bytes([*a, *b])),
        [a, b, c] => u64::from(u32::from_le_bytes([*a, *b, *c, 0])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
        [a, b, c, d, rest @ ..] if rest.len() < 4 => {
            let end = token.last_chunk().map_or(0, |last| u32::from_le_bytes(*last));
            u64::from(u32::from_le_bytes([*a, *b, *c, *d])) | u64::from(end) << (8 * rest.len())
        }
        _ => {
            let mut hasher = FxHasher::default();
            hasher.write(token);
            return Key(hasher.finish() | 0xff << 56);
        }
    };
    Key(bytes | (token.len() as u64) << 56)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(tokens: &[&[u8]]) -> String {
        let bytes: Vec<[u8; 1]> = (0..=u8::MAX).map(|byte| [byte]).collect();
        let all = bytes.iter().map(|byte| &byte[..]).chain(tokens.iter().copied());
        (0..).zip(all).map(|(rank, token)| format!("{} {rank}\n", BASE64_STANDARD.encode(token))).collect()
    }

    #[test]
    fn finds_tokens_of_every_length() {
        let tokens: Vec<Vec<u8>> = (2..40_u8).flat_map(|len| [vec![0; len.into()], vec![len; len.into()]]).collect();
        let tokens: Vec<&[u8]> = tokens.iter().map(|token| &token[..]).collect();
        let ranks = Ranks::read(file(&tokens).as_bytes()).unwrap();
        assert_eq!(ranks.len(), 256 + tokens.len());
        for (rank, token) in (256..).zip(tokens) {
            assert_eq!((ranks.rank(token), ranks.token(rank)), (rank, token));
            assert_eq!(ranks.rank(&[token, b"!"].concat()), NONE);
        }
        assert_eq!(ranks.rank(&[0; 40]), NONE);
        assert_eq!(ranks.token(10_000), b"");
        assert_eq!((ranks.byte(7), ranks.pair(2, 2), ranks.pair(2, 3)), (7, 257, NONE));
    }

    #[test]
    fn ranks_may_come_in_any_order_with_gaps() {
        let mut lines: Vec<String> = file(&[]).lines().rev().map(str::to_owned).collect();
        lines.push("YWI= 163583\r".to_owned());
        let ranks = Ranks::read(lines.join("\n").as_bytes()).unwrap();
        assert_eq!((ranks.rank(b"ab"), ranks.rank(b"a"), ranks.len()), (163_583, 97, 257));
        assert_eq!((ranks.token(163_583), ranks.token(1_000)), (&b"ab"[..], &b""[..]));
    }

    #[test]
    fn wrong_lines_are_named() {
        let long = BASE64_STANDARD.encode([b'x'; 70_000]) + " 300";
        for (line, fault) in [
            ("YWI=", LineFault::Shape),
            ("YWI= x", LineFault::Shape),
            ("YWI= -1", LineFault::Shape),
            ("YW!= 300", LineFault::Shape),
            ("\u{fffd} 300", LineFault::Shape),
            (" 300", LineFault::Length),
            (&long, LineFault::Length),
            ("YWI= 163584", LineFault::Rank),
            ("YQ== 300", LineFault::RepeatedToken),
            ("YWI= 97", LineFault::RepeatedRank),
        ] {
            let error = Ranks::read((file(&[]) + "\n" + line).as_bytes()).err().unwrap();
            assert_eq!(error, RanksError::Line { line: 258, fault }, "{line:.20}");
        }
        let cut: String = file(&[]).split_inclusive('\n').take(200).collect();
        assert_eq!(Ranks::read(cut.as_bytes()).err(), Some(RanksError::NoByte { byte: 200 }));
        assert_eq!(Ranks::read(b"").err(), Some(RanksError::NoByte { byte: 0 }));
    }
}
