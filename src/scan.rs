//! Chunk -> pieces: text and control tokens.
//!
//! In: text, cut anywhere. Out: [`Piece`]s, text borrowed from the chunk. Held: a proper prefix of a control token's
//! spelling, kept as the token and a length, since it is always a prefix of a constant.

use memchr::memchr;

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

/// The longest spelling, `<|end_of_msg|>`.
const LONGEST: usize = 14;

#[derive(Debug)]
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
    pub(crate) fn scan(&mut self, text: &str, mut piece: impl FnMut(Piece<'_>)) {
        let mut from = 0;
        if self.held > 0 {
            // Join the held prefix with as much text as a token can have.
            let mut joined = [0; LONGEST];
            let fresh = text.len().min(LONGEST - self.held);
            joined[..self.held].copy_from_slice(self.prefix().as_bytes());
            joined[self.held..self.held + fresh].copy_from_slice(&text.as_bytes()[..fresh]);
            match prefix_of_marker(&joined[..self.held + fresh]) {
                Some((marker, len)) if len == marker.spelling().len() => {
                    from = len - self.held;
                    self.held = 0;
                    piece(Piece::Marker(marker));
                }
                Some((marker, len)) => {
                    *self = Scanner { marker, held: len };
                    return;
                }
                None => self.flush(&mut piece),
            }
        }
        let bytes = text.as_bytes();
        let mut at = from;
        while let Some(next) = memchr(b'<', &bytes[at..]) {
            at += next;
            let Some((marker, len)) = prefix_of_marker(&bytes[at..]) else {
                at += 1;
                continue;
            };
            if from < at {
                piece(Piece::Text(&text[from..at]));
            }
            if len < marker.spelling().len() {
                *self = Scanner { marker, held: len };
                return;
            }
            piece(Piece::Marker(marker));
            at += len;
            from = at;
        }
        if from < text.len() {
            piece(Piece::Text(&text[from..]));
        }
    }

    /// Gives the held prefix as the text that it turned out to be.
    pub(crate) fn flush(&mut self, mut piece: impl FnMut(Piece<'_>)) {
        if self.held > 0 {
            let text = self.prefix();
            self.held = 0;
            piece(Piece::Text(text));
        }
    }

    /// What is held.
    pub(crate) fn prefix(&self) -> &'static str {
        &self.marker.spelling()[..self.held]
    }
}

/// The control token at the front of `bytes` (which begin with `<`), or one that they are a proper prefix of.
fn prefix_of_marker(bytes: &[u8]) -> Option<(Marker, usize)> {
    if bytes.get(1).is_some_and(|&second| second != b'|') {
        return None;
    }
    let marker = match bytes.get(2) {
        None | Some(b'o') => Marker::Open,
        Some(b'c') => Marker::Close,
        Some(b's') => Marker::Sep,
        Some(b'e') => Marker::EndOfMsg,
        Some(_) => return None,
    };
    let spelling = marker.spelling().as_bytes();
    let len = spelling.len().min(bytes.len());
    (bytes[..len] == spelling[..len]).then_some((marker, len))
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
