//! Text -> tokens, for engines that have no tokenizer.
//!
//! In: text, or rendered pieces. Out: tokens of a few letters each. Nothing is held.
//! Words and signs are cut about where a real tokenizer cuts them. Tag names and quoted markers have the ids of Kimi's
//! tokenizer, every other id is made up; a character of four bytes is two tokens, and its text comes with the second.

use kimi_xtml::Piece;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// The text that a detokenizer gives for it: nothing, until a character is whole.
    pub text: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Token {
    fn new(text: &str) -> Self {
        Token { id: id(text.as_bytes()), text: text.into(), bytes: text.into() }
    }
}

/// The tokens of rendered pieces.
pub fn of_pieces(pieces: &[Piece<'_>]) -> Vec<Token> {
    let mut tokens = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Marker(marker) => tokens.push(Token { id: marker.id(), ..Token::new(marker.spelling()) }),
            text => of_text(text.spelling(), &mut tokens),
        }
    }
    tokens
}

/// How many tokens a text has.
pub fn count(text: &str) -> u64 {
    let mut tokens = Vec::new();
    of_text(text, &mut tokens);
    tokens.len() as u64
}

/// The tokens of text that is no structure.
pub fn of_text(mut text: &str, tokens: &mut Vec<Token>) {
    while let Some(first) = text.chars().next() {
        let len = token_len(text);
        let (token, rest) = text.split_at(len);
        text = rest;
        if first.len_utf8() == 4 {
            let (head, tail) = token.as_bytes().split_at(2);
            tokens.push(Token { id: id(head), text: String::new(), bytes: head.into() });
            tokens.push(Token { id: id(tail), text: token.into(), bytes: tail.into() });
        } else {
            tokens.push(Token::new(token));
        }
    }
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
