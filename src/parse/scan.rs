//! Chunk -> pieces: text and control tokens.
//!
//! In: text, cut anywhere. Out: [`Piece`]s, text borrowed from the chunk. Held: a proper prefix of a control token's
//! spelling, kept as the token and a length, since it is always a prefix of a constant.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::marker::Marker;

/// What the reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Marker(Marker),
}

impl<'a> Piece<'a> {
    /// The piece as it is spelled.
    pub(crate) fn as_str(&self) -> &'a str {
        match self {
            Piece::Text(text) => text,
            Piece::Marker(marker) => marker.spelling(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Scanner {
    /// `held` bytes of this token's spelling have been read; the first two are those of every token.
    marker: Marker,
    held: usize,
}

impl Default for Scanner {
    fn default() -> Self {
        Scanner { marker: Marker::Open, held: 0 }
    }
}

impl Scanner {
    /// Cuts `text` into pieces.
    #[inline]
    pub(crate) fn scan(&mut self, text: &str, mut piece: impl FnMut(Piece<'_>)) {
        let start = if self.held == 0 { find_start(text.as_bytes()) } else { None };
        if self.held > 0 || start.is_some() {
            self.pieces(text, start, piece);
        } else if !text.is_empty() {
            // Nearly all deltas are plain.
            piece(Piece::Text(text));
        }
    }

    /// Cuts text of which it may be known where a token may begin first.
    fn pieces(&mut self, mut text: &str, mut start: Option<usize>, mut piece: impl FnMut(Piece<'_>)) {
        while !text.is_empty() {
            let (before, marker) =
                if self.held == 0 { self.cut(&mut text, start.take()) } else { self.join(&mut text) };
            if !before.is_empty() {
                piece(Piece::Text(before));
            }
            if let Some(marker) = marker {
                piece(Piece::Marker(marker));
            }
        }
    }

    /// Takes from `text` what stands before the next token, and the token; what may become one is held.
    #[inline]
    fn cut<'t>(&mut self, text: &mut &'t str, start: Option<usize>) -> (&'t str, Option<Marker>) {
        let whole = std::mem::take(text);
        let mut next = start.or_else(|| find_start(whole.as_bytes()));
        while let Some(at) = next {
            if let Some((marker, len)) = prefix_of_marker(&whole.as_bytes()[at..]) {
                let is_whole = len == marker.spelling().len();
                if !is_whole {
                    *self = Scanner { marker, held: len };
                }
                *text = &whole[at + len..];
                return (&whole[..at], is_whole.then_some(marker));
            }
            next = find_start(&whole.as_bytes()[at + 1..]).map(|further| at + 1 + further);
        }
        (whole, None)
    }

    /// The same where a prefix is held: the token that it becomes, or the text that it turns out to be.
    fn join<'t>(&mut self, text: &mut &'t str) -> (&'t str, Option<Marker>) {
        let whole = std::mem::take(text);
        for (at, &byte) in whole.as_bytes().iter().enumerate() {
            if self.held == 2 {
                self.marker = third(byte).unwrap_or(self.marker);
            }
            let spelling = self.marker.spelling();
            if spelling.as_bytes()[self.held] != byte {
                // The byte is read again: it may begin a token itself.
                *text = &whole[at..];
                return (self.take_prefix(), None);
            }
            self.held += 1;
            if self.held == spelling.len() {
                self.held = 0;
                *text = &whole[at + 1..];
                return ("", Some(self.marker));
            }
        }
        ("", None)
    }

    /// Gives the held prefix as the text that it turned out to be.
    pub(crate) fn flush(&mut self, mut piece: impl FnMut(Piece<'_>)) {
        if self.held > 0 {
            piece(Piece::Text(self.take_prefix()));
        }
    }

    /// How many bytes are held.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// What is held.
    pub(crate) fn prefix(&self) -> &'static str {
        &self.marker.spelling()[..self.held]
    }

    fn take_prefix(&mut self) -> &'static str {
        let prefix = self.prefix();
        self.held = 0;
        prefix
    }
}

/// The next place where a control token may begin. To look at a few bytes costs less than to set out for a search: at all of
/// a short delta, and, where tokens stand close together, at the first of a long one.
#[inline]
fn find_start(bytes: &[u8]) -> Option<usize> {
    static START: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("<|"));
    let Some((near, _)) = bytes.split_first_chunk::<16>() else { return find_less(bytes) };
    match find_less(near) {
        Some(at) if bytes.get(at + 1).is_none_or(|&byte| byte == b'|') => Some(at),
        _ => START.find(bytes).or_else(|| bytes.ends_with(b"<").then(|| bytes.len() - 1)),
    }
}

/// The first `<` of at most sixteen bytes: in words, which may overlap.
#[inline]
fn find_less(bytes: &[u8]) -> Option<usize> {
    if let (Some(&first), Some(&last)) = (bytes.first_chunk(), bytes.last_chunk())
        && bytes.len() <= 8
    {
        let halves = [u32::from_le_bytes(first), u32::from_le_bytes(last)];
        let at = find_byte(b'<', u64::from(halves[0]) | u64::from(halves[1]) << 32)?;
        Some(if at < 4 { at } else { bytes.len() + at - 8 })
    } else if let (Some(&first), Some(&last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let found = find_byte(b'<', u64::from_le_bytes(first));
        found.or_else(|| Some(bytes.len() - 8 + find_byte(b'<', u64::from_le_bytes(last))?))
    } else {
        bytes.iter().position(|&byte| byte == b'<')
    }
}

/// The first of the eight bytes of a word that is `byte`, the lowest first.
#[inline]
fn find_byte(byte: u8, word: u64) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let other = word ^ (ONES * u64::from(byte));
    let found = other.wrapping_sub(ONES) & !other & (ONES << 7);
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

/// The control token at the front of `bytes` (which begin with `<`), or one that they are a proper prefix of.
#[inline]
fn prefix_of_marker(bytes: &[u8]) -> Option<(Marker, usize)> {
    match *bytes {
        [_] | [_, b'|'] => Some((Marker::Open, bytes.len())),
        [_, b'|', byte, ..] => {
            let marker = third(byte)?;
            let spelling = marker.spelling().as_bytes();
            let len = spelling.len().min(bytes.len());
            (bytes[..len] == spelling[..len]).then_some((marker, len))
        }
        _ => None,
    }
}

/// The control token whose spelling has this third byte.
const fn third(byte: u8) -> Option<Marker> {
    match byte {
        b'o' => Some(Marker::Open),
        b'c' => Some(Marker::Close),
        b's' => Some(Marker::Sep),
        b'e' => Some(Marker::EndOfMsg),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of chunks, neighbouring text joined.
    fn pieces(chunks: &[&str]) -> Vec<String> {
        let mut scanner = Scanner::default();
        let mut found: Vec<String> = Vec::new();
        let mut text = true;
        let mut take = |piece: Piece<'_>| match piece {
            Piece::Text(more) if text && !found.is_empty() => found.last_mut().unwrap().push_str(more),
            Piece::Text(more) => {
                text = true;
                found.push(more.to_owned());
            }
            Piece::Marker(marker) => {
                text = false;
                found.push(format!("{marker:?}"));
            }
        };
        for chunk in chunks {
            scanner.scan(chunk, &mut take);
        }
        scanner.flush(&mut take);
        found
    }

    #[test]
    fn finds_markers_however_they_are_cut() {
        let text = "a<b<|<|open|>x<|opex<<|sep|><|close|><|end_of_msg|><|c";
        let whole = pieces(&[text]);
        assert_eq!(whole, ["a<b<|", "Open", "x<|opex<", "Sep", "Close", "EndOfMsg", "<|c"]);
        let single: Vec<&str> = text.split("").collect();
        assert_eq!(pieces(&single), whole);
        for cut in 0..text.len() {
            assert_eq!(pieces(&[&text[..cut], &text[cut..]]), whole, "cut at {cut}");
        }
    }
}
