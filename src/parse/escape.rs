//! Text -> the inside of a JSON string.
//!
//! In: text. Out: fragments of the string, in which RFC 8259's special bytes are escaped. Nothing is held.

use crate::parse::utf8::split_within;

/// Text that is escaped at a time.
const BLOCK: usize = 256;
/// Bytes that `json_escape_simd` needs for it: six for each of the text's, and room for whole vectors.
const ROOM: usize = 6 * BLOCK + 35;
/// Text up to this length is looked through first: mostly nothing in it must be escaped.
const SHORT: usize = 64;

/// Gives text as fragments of the inside of a JSON string.
#[derive(Clone, Debug, Default)]
pub(crate) struct Escaper {
    buffer: Vec<u8>,
}

impl Escaper {
    /// Gives each fragment of `text`, and how many bytes of `text` it stands for.
    #[inline]
    pub(crate) fn escape(&mut self, mut text: &str, mut fragment: impl FnMut(&str, usize)) {
        if text.len() <= SHORT && find_special(text.as_bytes()).is_none() {
            return fragment(text, text.len());
        }
        while !text.is_empty() {
            let (block, rest) = split_within(text, BLOCK);
            fragment(self.block(block), block.len());
            text = rest;
        }
    }

    /// Escapes text to the end of a string.
    pub(crate) fn escape_into(&mut self, text: &str, out: &mut String) {
        self.escape(text, |json, _| out.push_str(json));
    }

    /// Escapes a block.
    fn block(&mut self, block: &str) -> &str {
        self.buffer.clear();
        self.buffer.reserve_exact(ROOM);
        json_escape_simd::escape_into(block, &mut self.buffer);
        let json = simdutf8::basic::from_utf8(&self.buffer).ok();
        let inside = json.and_then(|json| json.strip_prefix('"')?.strip_suffix('"'));
        debug_assert!(inside.is_some(), "text between quotes");
        inside.unwrap_or_default()
    }
}

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Sets the highest bit of each byte of `word` that must be escaped. After the first of these, bits of other bytes may be set
/// too.
#[inline]
fn specials(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let quote = below(word ^ (ONES * u64::from(b'"')), 1);
    let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
    (below(word, 0x20) | quote | backslash) & HIGHS
}

/// The first byte that must be escaped.
#[inline]
pub(crate) fn find_special(bytes: &[u8]) -> Option<usize> {
    let (words, tail) = bytes.as_chunks();
    let found = words.iter().enumerate().find_map(|(at, &word)| {
        let specials = specials(word);
        (specials != 0).then(|| at * 8 + specials.trailing_zeros() as usize / 8)
    });
    found.or_else(|| Some(words.len() * 8 + tail.iter().position(|&byte| is_special(byte))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_json_must_escape() {
        let mut out = String::new();
        Escaper::default().escape_into("a\"\\\n\r\t\u{8}\u{c}\u{1}\u{1f}\u{7f}é", &mut out);
        assert_eq!(out, "a\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u001f\u{7f}é");
    }

    #[test]
    fn finds_the_first_special_byte_wherever_it_stands() {
        for byte in 0..=255 {
            let special = byte < 0x20 || byte == b'"' || byte == b'\\';
            for at in 0..50 {
                let mut bytes = [b' '; 50];
                bytes[at] = byte;
                bytes[49] = b'"';
                assert_eq!(find_special(&bytes), Some(if special { at } else { 49 }), "{byte} at {at}");
            }
        }
        assert_eq!(find_special("é".repeat(20).as_bytes()), None);
    }
}
