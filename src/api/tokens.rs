//! Tokens by their number in the stream, and those that made a piece of its text.
//!
//! In: each token's own bytes, and what it carries, such as an id and a log-probability. Out: slices of these, by the span of
//! a delta. Held: the tokens that were not forgotten, and where the text of each begins.

use crate::event::Span;
use crate::parse::utf8::Decoder;

/// Tokens by their number. A token belongs to the span in which its text begins, and so to no more than one delta, however
/// deltas were cut.
///
/// Give every token that the parser gets, in the same order: a control token with its spelling, any other with its own bytes,
/// which may be a part of a character. Where only the text of several tokens is known, give it to the first, and no bytes
/// to the others: then all belong to where that text begins.
///
/// ```
/// use kimi_xtml::{Channel, Chat, Delta, Parser, Request, Stop, Tokens};
///
/// let mut parser = Parser::new(Request::new().opened(Channel::Response));
/// let mut sink = Stop::new(Chat::default(), ["STOP"]);
/// let mut tokens = Tokens::new(); // of ids; a Logprob is as well
/// for (bytes, id) in [("a b", 1), (" S", 2), ("TOPPING", 3)] {
///     tokens.push(bytes, id);
/// }
/// parser.push_with_ids("a b STOPPING", &[1, 2, 3], &mut sink);
/// let (delta, span) = sink.inner().deltas_with_spans().next().unwrap();
/// assert_eq!((delta, tokens.of(span)), (Delta::Content("a b "), &[1, 2][..]));
/// assert_eq!(tokens.begun_before(sink.cut().unwrap().bytes.start), 2); // what the answer cost
/// ```
#[derive(Clone, Debug)]
pub struct Tokens<T> {
    /// The number of the first that is kept.
    first: u64,
    /// Of these, so many are forgotten already: they go together.
    forgotten: usize,
    tokens: Vec<T>,
    /// Where in the text each of them begins.
    starts: Vec<u64>,
    /// Bytes of the text, without a character that is not whole.
    text: u64,
    decoder: Decoder,
}

impl<T> Default for Tokens<T> {
    fn default() -> Self {
        Tokens::new()
    }
}

impl<T> Tokens<T> {
    /// No tokens yet.
    ///
    /// ```
    /// use kimi_xtml::Tokens;
    ///
    /// assert_eq!(Tokens::<u32>::new().begun_before(9), 0);
    /// ```
    pub const fn new() -> Self {
        let decoder = Decoder::new();
        Tokens { first: 0, forgotten: 0, tokens: Vec::new(), starts: Vec::new(), text: 0, decoder }
    }

    /// The next token: its own bytes, and what it carries. Bytes that are no UTF-8 count as the U+FFFD that a detokenizer
    /// writes for them.
    ///
    /// ```
    /// use kimi_xtml::{Span, Tokens};
    ///
    /// let mut tokens = Tokens::new();
    /// tokens.push([0xf0, 0x9f], "half a soup");
    /// tokens.push([0x8d, 0xb2], "the other half");
    /// let soup = Span { bytes: 0..4, tokens: None };
    /// assert_eq!(tokens.of(&soup), ["half a soup", "the other half"]);
    /// ```
    pub fn push(&mut self, bytes: impl AsRef<[u8]>, token: T) {
        self.starts.push(self.text + self.decoder.len() as u64);
        self.tokens.push(token);
        let text = &mut self.text;
        self.decoder.decode(bytes.as_ref(), |decoded| *text += decoded.map_or(3, str::len) as u64);
    }

    /// The tokens whose text begins in this span. Those that were forgotten are missing.
    ///
    /// ```
    /// use kimi_xtml::{Span, Tokens};
    ///
    /// let mut tokens = Tokens::new();
    /// ["ab", "cd"].iter().enumerate().for_each(|(number, bytes)| tokens.push(bytes, number));
    /// assert_eq!(tokens.of(&Span { bytes: 0..3, tokens: None }), [0, 1]);
    /// assert_eq!(tokens.of(&Span { bytes: 3..4, tokens: None }), [0; 0]); // the second came with the span before
    /// ```
    pub fn of(&self, span: &Span) -> &[T] {
        let from = self.at(span.bytes.start);
        &self.tokens[from..self.at(span.bytes.end).max(from)]
    }

    /// How many tokens of the stream begin before this byte of it.
    ///
    /// ```
    /// use kimi_xtml::Tokens;
    ///
    /// let mut tokens = Tokens::new();
    /// ["ab", "cd"].iter().for_each(|bytes| tokens.push(bytes, ()));
    /// assert_eq!([0, 1, 2, 3].map(|byte| tokens.begun_before(byte)), [0, 1, 1, 2]);
    /// ```
    pub fn begun_before(&self, byte: u64) -> u64 {
        self.first + self.at(byte) as u64
    }

    /// Forgets the tokens that begin before this byte. What is kept, such as for a delta that a
    /// [`Stop`](crate::Stop) holds, costs memory; what was forgotten is given to no span.
    ///
    /// ```
    /// use kimi_xtml::{Span, Tokens};
    ///
    /// let mut tokens = Tokens::new();
    /// ["ab", "cd"].iter().enumerate().for_each(|(number, bytes)| tokens.push(bytes, number));
    /// tokens.forget_before(2);
    /// assert_eq!((tokens.of(&Span { bytes: 0..4, tokens: None }), tokens.begun_before(4)), (&[1][..], 2));
    /// ```
    pub fn forget_before(&mut self, byte: u64) {
        self.forgotten = self.at(byte);
        // Half of them at a time, so that each moves but once or twice.
        if self.forgotten > self.tokens.len() / 2 {
            self.first += self.forgotten as u64;
            self.tokens.drain(..self.forgotten);
            self.starts.drain(..self.forgotten);
            self.forgotten = 0;
        }
    }

    /// The place of the first that is kept and does not begin before this byte.
    fn at(&self, byte: u64) -> usize {
        self.starts.partition_point(|&start| start < byte).max(self.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(bytes: std::ops::Range<u64>) -> Span {
        Span { bytes, tokens: None }
    }

    #[test]
    fn each_token_belongs_to_the_span_in_which_it_begins() {
        let mut tokens = Tokens::new();
        for (number, bytes) in [&b"ab"[..], b"", b"\xf0\x9f", b"\x8d\xb2c", b"\xff", b"d"].into_iter().enumerate() {
            tokens.push(bytes, number);
        }
        // a b F0 9F 8D B2 c FFFD d
        assert_eq!(tokens.of(&span(0..1)), [0]);
        assert_eq!(tokens.of(&span(1..2)), [0; 0]);
        assert_eq!(tokens.of(&span(2..6)), [1, 2, 3]);
        assert_eq!(tokens.of(&span(6..7)), [0; 0]);
        assert_eq!(tokens.of(&span(7..10)), [4]);
        assert_eq!(tokens.of(&span(10..11)), [5]);
        assert_eq!((tokens.begun_before(0), tokens.begun_before(7), tokens.begun_before(99)), (0, 4, 6));
    }

    #[test]
    fn what_is_forgotten_takes_no_memory_and_counts() {
        let mut tokens = Tokens::new();
        for number in 0..10_000_u64 {
            tokens.push("x", number);
            assert_eq!(tokens.of(&span(number..number + 1)), [number]);
            tokens.forget_before(number.saturating_sub(3));
            assert_eq!(tokens.of(&span(0..number + 1)).len() as u64, (number + 1).min(4));
            assert_eq!(tokens.begun_before(number), number);
            assert!(tokens.tokens.len() < 10);
        }
    }
}
