//! Text -> tokens, for engines that have no tokenizer.
//!
//! In: text, or rendered pieces. Out: tokens of a few letters each, one at a time. Held: where the next one begins.
//! Words and signs are cut about where a real tokenizer cuts them. Tag names and quoted markers have the ids of Kimi's
//! tokenizer, every other id is made up; a character of four bytes is two tokens, and its text comes with the second.

use kimi_xtml::Piece;

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    /// Its id.
    pub id: u32,
    /// The text that a detokenizer gives for it: nothing, until a character is whole.
    pub text: &'t str,
    /// Its bytes.
    pub bytes: &'t [u8],
}

/// The tokens of a rendered piece.
pub fn of_piece<'t>(piece: &'t Piece<'_>) -> impl Iterator<Item = Token<'t>> {
    let text = piece.spelling();
    let marker = if let Piece::Marker(marker) = piece { Some(marker.id()) } else { None };
    let control = marker.map(|id| Token { id, text, bytes: text.as_bytes() });
    control.into_iter().chain(of_text(if control.is_some() { "" } else { text }))
}

/// How many tokens a text has.
pub fn count(text: &str) -> u64 {
    of_text(text).count() as u64
}

/// The tokens of text that is no structure.
pub fn of_text(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = text;
    let mut second = None;
    std::iter::from_fn(move || {
        if let Some(second) = second.take() {
            return Some(second);
        }
        let first = rest.chars().next()?;
        let (text, after) = rest.split_at(token_len(rest));
        rest = after;
        let bytes = text.as_bytes();
        if first.len_utf8() < 4 {
            return Some(Token { id: id(bytes), text, bytes });
        }
        let (head, tail) = bytes.split_at(2);
        second = Some(Token { id: id(tail), text, bytes: tail });
        Some(Token { id: id(head), text: "", bytes: head })
    })
}

/// A blank and up to eight letters, up to three digits, or one other character.
fn token_len(text: &str) -> usize {
    const LETTERS: usize = 8;
    let blank = usize::from(text.starts_with(' '));
    let letter = |c: &char| c.is_alphabetic() && c.len_utf8() < 4;
    let letters: usize = text[blank..].chars().take(LETTERS).take_while(letter).map(char::len_utf8).sum();
    let digits = text.bytes().take(3).take_while(u8::is_ascii_digit).count();
    match (letters, digits) {
        (0, 0) => text.chars().next().map_or(0, char::len_utf8),
        (0, digits) => digits,
        (letters, _) => blank + letters,
    }
}

fn id(bytes: &[u8]) -> u32 {
    match bytes {
        b"think" => 39_964,
        b"response" => 12_092,
        b"tools" => 25_385,
        b"call" => 10_257,
        b"argument" => 47_185,
        b"json" => 5_534,
        b"message" => 2_778,
        b"open" => 4_454,
        b"close" => 10_794,
        b"sep" => 40_433,
        [printable @ b'!'..=b'~'] => u32::from(printable - b'!'),
        // Between 1,000 and 2,400 no token of Kimi's ends in a marker's first letter.
        _ => 1_000 + bytes.iter().fold(7u32, |hash, &byte| hash.wrapping_mul(31).wrapping_add(byte.into())) % 1_400,
    }
}
