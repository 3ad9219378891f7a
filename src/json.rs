//! Text -> JSON: escaping, and whether a value is JSON.
//!
//! In: text as it arrives. Out: fragments of a JSON string, or how far a value can still be JSON (RFC 8259: any
//! number spelling, any `\u` escape, any depth). Held: a bit for each open bracket.

/// Text that is escaped at a time; a fragment is at most six times as long.
const BLOCK: usize = 256;

/// Gives `text` as fragments of the inside of a JSON string, each with the bytes of `text` that it stands for.
pub(crate) fn escape(mut text: &str, scratch: &mut String, mut fragment: impl FnMut(&str, usize)) {
    while !text.is_empty() {
        let (block, rest) = text.split_at(text.floor_char_boundary(BLOCK));
        match find_special(block.as_bytes()) {
            Some(first) => {
                scratch.clear();
                escape_from(first, block, scratch);
                fragment(scratch, block.len());
            }
            None => fragment(block, block.len()),
        }
        text = rest;
    }
}

/// Appends `text` to `out` as the inside of a JSON string.
pub(crate) fn escape_into(text: &str, out: &mut String) {
    match find_special(text.as_bytes()) {
        Some(first) => escape_from(first, text, out),
        None => out.push_str(text),
    }
}

/// The same for text whose first byte that must be escaped is known: run by run.
fn escape_from(first: usize, text: &str, out: &mut String) {
    let (mut from, mut at) = (0, first);
    loop {
        out.push_str(&text[from..at]);
        push_escape(text.as_bytes()[at], out);
        from = at + 1;
        let Some(run) = find_special(&text.as_bytes()[from..]) else {
            return out.push_str(&text[from..]);
        };
        at = from + run;
    }
}

/// Whether a byte must be escaped.
const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The first byte that must be escaped, eight at a time: in `word`, the high bit of each special byte is set, and of
/// others only behind one.
fn find_special(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let (words, tail) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let special = (below(word, 0x20) | quote | backslash) & HIGHS;
        if special != 0 {
            return Some(at * 8 + special.trailing_zeros() as usize / 8);
        }
    }
    let tail = tail.iter().position(|&byte| is_special(byte))?;
    Some(words.len() * 8 + tail)
}

fn push_escape(byte: u8, out: &mut String) {
    out.push_str(match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        b'\n' => "\\n",
        b'\r' => "\\r",
        b'\t' => "\\t",
        0x08 => "\\b",
        0x0c => "\\f",
        _ => {
            out.push_str("\\u00");
            for digit in [byte >> 4, byte & 15] {
                out.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
            }
            return;
        }
    });
}

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
    /// Inside a string.
    String {
        key: bool,
    },
    Escape {
        key: bool,
    },
    /// So many hexadecimal digits.
    Hex {
        key: bool,
        digits: u8,
    },
    /// The rest of `true`, `false` or `null`.
    Word(&'static [u8]),
    /// Digits of a number; the places where it may not end need one.
    Minus,
    Zero,
    Digits,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

/// Reads a JSON value of any depth as it arrives.
#[derive(Debug, Default)]
pub(crate) struct Validator {
    next: Next,
    /// One bit an open bracket, the innermost last: set for an object.
    open: Vec<u64>,
    depth: usize,
}

impl Validator {
    /// Reads `bytes`. Gives how many of them can be JSON: fewer than all means that it never will be.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if let Next::String { .. } = self.next {
                // One run of plain text.
                let rest = &bytes[at..];
                at += find_special(rest).unwrap_or(rest.len());
                let Some(&special) = bytes.get(at) else {
                    return at;
                };
                if !self.step(special) {
                    return at;
                }
            } else if !self.step(byte) {
                return at;
            }
            at += 1;
        }
        at
    }

    /// Whether what was read is one whole value.
    pub(crate) fn is_whole(&self) -> bool {
        self.depth == 0
            && matches!(self.next, Next::Rest | Next::Zero | Next::Digits | Next::Fraction | Next::ExponentDigits)
    }

    /// Whether `text` is one whole value.
    pub(crate) fn is_value(&mut self, text: &str) -> bool {
        self.reset();
        self.feed(text.as_bytes()) == text.len() && self.is_whole()
    }

    /// Starts over with a new value.
    pub(crate) fn reset(&mut self) {
        self.next = Next::Value;
        self.depth = 0;
    }

    fn step(&mut self, byte: u8) -> bool {
        let next = match (self.next, byte) {
            (Next::String { key }, b'"') => {
                if key {
                    Next::Colon
                } else {
                    Next::Rest
                }
            }
            (Next::String { key }, b'\\') => Next::Escape { key },
            (Next::String { key }, b' '..) => Next::String { key },
            (Next::Escape { key }, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Next::String { key },
            (Next::Escape { key }, b'u') => Next::Hex { key, digits: 4 },
            (Next::Hex { key, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => match digits - 1 {
                0 => Next::String { key },
                digits => Next::Hex { key, digits },
            },
            (Next::Word(rest), _) if rest[0] == byte => match &rest[1..] {
                [] => Next::Rest,
                rest => Next::Word(rest),
            },

            (Next::Minus, b'0') => Next::Zero,
            (Next::Minus, b'1'..=b'9') => Next::Digits,
            (Next::Digits, b'0'..=b'9') => Next::Digits,
            (Next::Zero | Next::Digits, b'.') => Next::Point,
            (Next::Point | Next::Fraction, b'0'..=b'9') => Next::Fraction,
            (Next::Zero | Next::Digits | Next::Fraction, b'e' | b'E') => Next::Exponent,
            (Next::Exponent, b'+' | b'-') => Next::ExponentSign,
            (Next::Exponent | Next::ExponentSign | Next::ExponentDigits, b'0'..=b'9') => Next::ExponentDigits,
            // A number has no end of its own: what follows it decides.
            (Next::Zero | Next::Digits | Next::Fraction | Next::ExponentDigits, _) => {
                self.next = Next::Rest;
                return self.step(byte);
            }

            (next, b' ' | b'\t' | b'\r' | b'\n')
                if matches!(
                    next,
                    Next::Value | Next::First | Next::FirstKey | Next::Key | Next::Colon | Next::Rest
                ) =>
            {
                next
            }
            (Next::FirstKey | Next::Key, b'"') => Next::String { key: true },
            (Next::Colon, b':') => Next::Value,
            (Next::Rest, b',') => match self.innermost() {
                Some(true) => Next::Key,
                Some(false) => Next::Value,
                None => return false,
            },
            (Next::Rest | Next::FirstKey, b'}') if self.innermost() == Some(true) => self.close(),
            (Next::Rest | Next::First, b']') if self.innermost() == Some(false) => self.close(),
            (Next::Value | Next::First, b'{') => self.open(true),
            (Next::Value | Next::First, b'[') => self.open(false),
            (Next::Value | Next::First, b'"') => Next::String { key: false },
            (Next::Value | Next::First, b'-') => Next::Minus,
            (Next::Value | Next::First, b'0') => Next::Zero,
            (Next::Value | Next::First, b'1'..=b'9') => Next::Digits,
            (Next::Value | Next::First, b't') => Next::Word(b"rue"),
            (Next::Value | Next::First, b'f') => Next::Word(b"alse"),
            (Next::Value | Next::First, b'n') => Next::Word(b"ull"),
            _ => return false,
        };
        self.next = next;
        true
    }

    /// Whether the innermost open bracket is an object's.
    fn innermost(&self) -> Option<bool> {
        let last = self.depth.checked_sub(1)?;
        Some(self.open[last / 64] >> (last % 64) & 1 == 1)
    }

    fn open(&mut self, object: bool) -> Next {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.open.len() {
            self.open.push(0);
        }
        self.open[word] = self.open[word] & !(1 << bit) | u64::from(object) << bit;
        self.depth += 1;
        if object { Next::FirstKey } else { Next::First }
    }

    fn close(&mut self) -> Next {
        self.depth -= 1;
        Next::Rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_json(text: &str) -> bool {
        Validator::default().is_value(text)
    }

    #[test]
    fn escapes_what_json_must_escape() {
        let mut out = String::new();
        escape_into("a\"\\\n\r\t\u{8}\u{c}\u{1}\u{1f}\u{7f}é", &mut out);
        assert_eq!(out, "a\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u001f\u{7f}é");
    }

    #[test]
    fn finds_the_first_special_byte_wherever_it_stands() {
        for byte in 0..=255 {
            for at in 0..20 {
                let mut bytes = [b' '; 20];
                bytes[at] = byte;
                bytes[19] = b'"';
                let wanted = if is_special(byte) { at } else { 19 };
                assert_eq!(find_special(&bytes), Some(wanted), "{byte} at {at}");
            }
        }
        assert_eq!(find_special("é".repeat(20).as_bytes()), None);
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
        assert!(is_json(&deep));
        assert!(!is_json(&deep[..deep.len() - 1]));
    }

    #[test]
    fn says_how_far_it_can_be_json() {
        let mut validator = Validator::default();
        assert_eq!(validator.feed(b"{\"a\": [1, tru"), 13);
        assert_eq!(validator.feed(b"e, x]"), 3);
    }
}
