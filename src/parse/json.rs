//! Whether a value is JSON.
//!
//! In: a value as it arrives. Out: how far it can be JSON (RFC 8259: any number spelling, any `\u` escape, any depth).
//! Held: a bit for each open bracket.

use crate::parse::escape::find_special;
use crate::parse::header::is_blank;

/// Words of bits that outlive the stream.
const KEPT: usize = 8;

/// What may come next in a JSON text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Value,
    /// A value, or the end of the array that was just opened.
    First,
    /// A key, or the end of the object that was just opened.
    FirstKey,
    Key,
    Colon,
    /// A comma or a closing bracket; at the top, only white space.
    Rest,
    /// The rest of a string.
    String,
    Escape,
    /// Hexadecimal digits.
    Hex,
    /// The rest of `true`, `false` or `null`.
    Word,
    /// Digits of a number; the places where it may not end need one.
    Minus,
    Zero,
    Digits,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
    /// It is no JSON.
    Nothing,
}

/// What surrounds the next byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    Array,
    Object,
}

/// Reads a JSON value of any depth as it arrives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Validator {
    next: Next,
    within: Within,
    /// Whether the open string is a key.
    key: bool,
    /// What is missing of the open escape, in digits.
    digits: u8,
    /// What is missing of the open word.
    word: &'static [u8],
    /// One bit an open bracket, the innermost last: set for an object.
    open: Vec<u64>,
    depth: usize,
}

impl Validator {
    /// Reads `bytes`. Gives how many of them can be JSON: fewer than all means that it never will be.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> usize {
        let rest = self.read(bytes);
        if !rest.is_empty() {
            self.next = Next::Nothing;
        }
        bytes.len() - rest.len()
    }

    /// Reads what can be JSON. Gives the rest.
    fn read<'t>(&mut self, bytes: &'t [u8]) -> &'t [u8] {
        let (mut rest, mut state) = (bytes, self.next);
        while let Some(next) = self.step(state, &mut rest) {
            state = next;
        }
        self.next = state;
        rest
    }

    /// Reads a byte, or a run with the colon or comma that mostly follows it. Gives what comes next: nothing at the end, and
    /// at what can be no JSON.
    #[inline]
    fn step(&mut self, state: Next, rest: &mut &[u8]) -> Option<Next> {
        let (&byte, after) = rest.split_first()?;
        let next = match state {
            Next::String => return self.string(rest),
            Next::Key | Next::FirstKey => match byte {
                b'"' => {
                    *rest = after;
                    self.key = true;
                    return self.string(rest);
                }
                b'}' if state == Next::FirstKey => return Some(self.close(after, rest)),
                _ if is_blank(byte) => state,
                _ => return None,
            },
            Next::Value | Next::First => match byte {
                b'"' => {
                    *rest = after;
                    self.key = false;
                    return self.string(rest);
                }
                b'{' => self.open(Within::Object),
                b'[' => self.open(Within::Array),
                b'-' => Next::Minus,
                b'0' => Next::Zero,
                b'1'..=b'9' => return self.digits(Next::Digits, rest),
                b't' => self.word(b"rue"),
                b'f' => self.word(b"alse"),
                b'n' => self.word(b"ull"),
                b']' if state == Next::First => return Some(self.close(after, rest)),
                _ if is_blank(byte) => state,
                _ => return None,
            },
            Next::Rest => match (byte, self.within) {
                (b',', Within::Object | Within::Array) => return Some(self.comma(rest)),
                (b'}', Within::Object) | (b']', Within::Array) => return Some(self.close(after, rest)),
                _ if is_blank(byte) => state,
                _ => return None,
            },
            Next::Colon => match byte {
                b':' => Next::Value,
                _ if is_blank(byte) => state,
                _ => return None,
            },
            Next::Word => return self.words(rest),
            Next::Escape => match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Next::String,
                b'u' => {
                    self.digits = 4;
                    Next::Hex
                }
                _ => return None,
            },
            Next::Hex if byte.is_ascii_hexdigit() => {
                self.digits -= 1;
                if self.digits == 0 { Next::String } else { Next::Hex }
            }
            Next::Hex | Next::Nothing => return None,
            number => match (number, byte) {
                (Next::Digits | Next::Fraction | Next::ExponentDigits, b'0'..=b'9') => {
                    return self.digits(number, rest);
                }
                (Next::Minus, b'0') => Next::Zero,
                (Next::Minus, b'1'..=b'9') => return self.digits(Next::Digits, rest),
                (Next::Zero | Next::Digits, b'.') => Next::Point,
                (Next::Point, b'0'..=b'9') => return self.digits(Next::Fraction, rest),
                (Next::Zero | Next::Digits | Next::Fraction, b'e' | b'E') => Next::Exponent,
                (Next::Exponent, b'+' | b'-') => Next::ExponentSign,
                (Next::Exponent | Next::ExponentSign, b'0'..=b'9') => Next::ExponentDigits,
                // A number has no end of its own: what follows it decides.
                (Next::Zero | Next::Digits | Next::Fraction | Next::ExponentDigits, _) => return Some(Next::Rest),
                _ => return None,
            },
        };
        *rest = after;
        Some(next)
    }

    /// Reads what is left of a string, and the colon or comma after it.
    #[inline]
    fn string(&mut self, rest: &mut &[u8]) -> Option<Next> {
        *rest = &rest[find_special(rest).unwrap_or(rest.len())..];
        let Some((special, after)) = rest.split_first() else { return Some(Next::String) };
        match special {
            b'\\' => {
                *rest = after;
                Some(Next::Escape)
            }
            b'"' => {
                *rest = after;
                Some(if !self.key {
                    self.comma(rest)
                } else if let Some(after) = rest.strip_prefix(b":") {
                    *rest = skip_blanks(after);
                    Next::Value
                } else {
                    Next::Colon
                })
            }
            _ => None,
        }
    }

    /// Reads digits; `next` if no comma is after them.
    #[inline]
    fn digits(&self, next: Next, rest: &mut &[u8]) -> Option<Next> {
        let run = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *rest = &rest[run..];
        Some(if rest.starts_with(b",") { self.comma(rest) } else { next })
    }

    /// Reads the comma after a value, if one is there and may be.
    #[inline]
    fn comma(&self, rest: &mut &[u8]) -> Next {
        match rest.strip_prefix(b",") {
            Some(after) if self.within != Within::Nothing => {
                *rest = skip_blanks(after);
                if self.within == Within::Object { Next::Key } else { Next::Value }
            }
            _ => Next::Rest,
        }
    }

    /// Reads what is left of a word.
    fn words(&mut self, rest: &mut &[u8]) -> Option<Next> {
        if let Some(after) = rest.strip_prefix(self.word) {
            *rest = after;
            Some(self.comma(rest))
        } else if let Some(word) = self.word.strip_prefix(*rest) {
            *rest = b"";
            Some(self.word(word))
        } else {
            *rest = &rest[rest.iter().zip(self.word).take_while(|(a, b)| a == b).count()..];
            None
        }
    }

    fn word(&mut self, rest: &'static [u8]) -> Next {
        self.word = rest;
        Next::Word
    }

    fn open(&mut self, within: Within) -> Next {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.open.len() {
            self.open.push(0);
        }
        self.open[word] = self.open[word] & !(1 << bit) | u64::from(within == Within::Object) << bit;
        self.depth += 1;
        self.within = within;
        if within == Within::Object { Next::FirstKey } else { Next::First }
    }

    /// Reads a closing bracket, before `after`, and the comma after it.
    #[inline]
    fn close<'t>(&mut self, after: &'t [u8], rest: &mut &'t [u8]) -> Next {
        *rest = after;
        self.depth -= 1;
        self.within = match self.depth.checked_sub(1) {
            None => Within::Nothing,
            Some(last) if self.open[last / 64] >> (last % 64) & 1 == 1 => Within::Object,
            Some(_) => Within::Array,
        };
        self.comma(rest)
    }

    /// Reads a byte. If that is no JSON, it is not read, and what was read before can still be closed.
    #[cfg(feature = "chat")]
    pub(crate) fn try_feed(&mut self, byte: u8) -> bool {
        self.read(&[byte]).is_empty()
    }

    /// Whether a string is open, and no escape in it.
    #[cfg(feature = "chat")]
    pub(crate) fn in_string(&self) -> bool {
        self.next == Next::String
    }

    /// Whether the digits of a number are being read.
    #[cfg(feature = "chat")]
    pub(crate) fn in_number(&self) -> bool {
        matches!(self.next, Next::Digits | Next::Fraction | Next::ExponentDigits)
    }

    /// How many brackets are open.
    #[cfg(feature = "chat")]
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Whether a member of the outermost object has ended, and no other has begun; just here, if `comma` was read last.
    #[cfg(feature = "chat")]
    pub(crate) fn has_ended_member(&self, comma: bool) -> bool {
        self.depth == 1 && (self.next == Next::Rest || comma && self.next == Next::Key)
    }

    /// Appends what closes all but the outermost object, and the comma before another member of that, if it needs one. An
    /// escape that is open counts as not read.
    #[cfg(feature = "chat")]
    pub(crate) fn close_members(&mut self, out: &mut String) {
        out.push_str(match self.next {
            Next::String | Next::Escape | Next::Hex if self.key => "\":null",
            Next::String | Next::Escape | Next::Hex => "\"",
            Next::Colon => ":null",
            Next::Value => "null",
            Next::Key if self.depth > 1 => "\"\":null",
            Next::Minus | Next::Point | Next::Exponent | Next::ExponentSign => "0",
            Next::Word => str::from_utf8(self.word).unwrap_or_default(),
            _ => "",
        });
        let needs_comma = self.depth > 1 || !matches!(self.next, Next::FirstKey | Next::Key);
        while self.depth > 1 {
            out.push(if self.within == Within::Object { '}' } else { ']' });
            self.close(b"", &mut &b""[..]);
        }
        if needs_comma {
            out.push(',');
        }
    }

    /// Whether what was read is one whole value.
    pub(crate) fn is_whole(&self) -> bool {
        self.depth == 0
            && matches!(self.next, Next::Rest | Next::Zero | Next::Digits | Next::Fraction | Next::ExponentDigits)
    }

    /// Gives back what a deep value needed.
    pub(crate) fn shrink(&mut self) {
        self.open.truncate(KEPT);
        self.open.shrink_to(KEPT);
    }

    /// Starts over with a new value.
    pub(crate) fn reset(&mut self) {
        (self.next, self.within, self.depth) = (Next::Value, Within::Nothing, 0);
    }
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|&&byte| is_blank(byte)).count()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether these parts are one whole value.
    fn is_value<'t>(parts: impl IntoIterator<Item = &'t str>) -> bool {
        let mut validator = Validator::default();
        for part in parts {
            validator.feed(part.as_bytes());
        }
        validator.is_whole()
    }

    /// Whether it is, whole and cut anywhere.
    fn is_json(text: &str) -> bool {
        let is_json = is_value([text]);
        assert_eq!(is_value(text.split_inclusive(|_| true)), is_json, "{text}");
        for (at, _) in text.char_indices() {
            assert_eq!(is_value([&text[..at], &text[at..]]), is_json, "{text} cut at {at}");
        }
        is_json
    }

    #[test]
    fn knows_json() {
        for good in [
            "0",
            "-0",
            "1E5",
            "1e400",
            " [1, 2.5e+3] ",
            "{}",
            "{\"a\":{\"b\":[]}}",
            "\"\\ud800\"",
            "null",
            "[[],{}]",
            "123456789012345678901234567890",
            "true",
        ] {
            assert!(is_json(good), "{good}");
        }
        for bad in [
            "",
            " ",
            "01",
            "1.",
            ".5",
            "-",
            "+1",
            "NaN",
            "1e",
            "tru",
            "truex",
            "[1,]",
            "{\"a\"}",
            "{,}",
            "[1 2]",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "1 2",
            "]",
            "{]",
            "[}",
            "{\"a\":1,}",
            "\"open",
            "[",
            "nul",
        ] {
            assert!(!is_json(bad), "{bad}");
        }
    }

    #[test]
    fn depth_has_no_limit() {
        let deep = "[{\"a\":".repeat(100_000) + "0" + &"}]".repeat(100_000);
        assert!(is_value([&*deep]));
        assert!(!is_value([&deep[..deep.len() - 1]]));
    }

    #[test]
    fn says_how_far_it_can_be_json() {
        let mut validator = Validator::default();
        assert_eq!(validator.feed(b"{\"a\": [1, tru"), 13);
        assert_eq!(validator.feed(b"e, x]"), 3);
        validator.reset();
        assert_eq!(validator.feed(b" [nulx]"), 5);
        validator.reset();
        assert_eq!(validator.feed(b"{\"a\": -x"), 7);
        assert_eq!(validator.feed(b"1}"), 0);
    }
}
