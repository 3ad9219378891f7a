//! Text -> the inside of a JSON string.
//!
//! In: text. Out: fragments of the string, in which RFC 8259's special bytes are escaped. Nothing is held.

use crate::parse::utf8::split_within;

/// Text that is escaped at a time; a fragment is at most six times as long.
const BLOCK: usize = 256;

/// Gives text as fragments of the inside of a JSON string.
#[derive(Clone, Debug, Default)]
pub(crate) struct Escaper {
    /// Room for an escaped block and one word more: a word of eight bytes is copied first, and then cut where a byte of it
    /// is special.
    buffer: Vec<u8>,
}

impl Escaper {
    /// Gives each fragment of `text`, and how many bytes of `text` it stands for.
    #[inline]
    pub(crate) fn escape(&mut self, mut text: &str, mut fragment: impl FnMut(&str, usize)) {
        while !text.is_empty() {
            let (block, rest) = split_within(text, BLOCK);
            let escaped = if is_plain(block.as_bytes()) { block } else { self.block(block) };
            fragment(escaped, block.len());
            text = rest;
        }
    }

    /// Appends `text` to `out` as the inside of a JSON string.
    pub(crate) fn escape_into(&mut self, text: &str, out: &mut String) {
        self.escape(text, |json, _| out.push_str(json));
    }

    /// Escapes a block: eight bytes at a time, up to the first that is special.
    fn block(&mut self, block: &str) -> &str {
        let buffer = &mut self.buffer;
        buffer.resize(6 * BLOCK + 8, 0);
        let mut rest = block.as_bytes();
        let mut len = 0;
        while let Some((word, after)) = rest.split_first_chunk() {
            buffer[len..len + 8].copy_from_slice(word);
            let specials = specials(*word);
            if specials == 0 {
                len += 8;
                rest = after;
                continue;
            }
            let run = specials.trailing_zeros() as usize / 8;
            len += run;
            len += put(rest[run], &mut buffer[len..]);
            rest = &rest[run + 1..];
        }
        for &byte in rest {
            len += put(byte, &mut buffer[len..]);
        }
        let escaped = std::str::from_utf8(&buffer[..len]);
        debug_assert!(escaped.is_ok(), "ASCII became ASCII, and the rest stayed as it was");
        escaped.unwrap_or_default()
    }
}

/// What follows the backslash of each byte that must be escaped: a letter, or `u` where four digits follow.
const ESCAPES: [Option<u8>; 256] = {
    let mut escapes = [None; 256];
    let mut control = 0;
    while control < 0x20 {
        escapes[control] = Some(b'u');
        control += 1;
    }
    escapes[b'\n' as usize] = Some(b'n');
    escapes[b'\r' as usize] = Some(b'r');
    escapes[b'\t' as usize] = Some(b't');
    escapes[0x08] = Some(b'b');
    escapes[0x0c] = Some(b'f');
    escapes[b'"' as usize] = Some(b'"');
    escapes[b'\\' as usize] = Some(b'\\');
    escapes
};

const fn is_special(byte: u8) -> bool {
    ESCAPES[byte as usize].is_some()
}

/// Marks the bytes of `word` that must be escaped, by their highest bits. The first mark is right; after it a byte may be
/// marked that need not be escaped.
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

/// Whether nothing must be escaped. The loop over 32 bytes has no exit, so that the compiler compares them at once.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    let (runs, tail) = bytes.as_chunks::<32>();
    let (words, tail) = tail.as_chunks();
    let of_run = |found, &byte: &u8| found | (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    runs.iter().all(|run| !run.iter().fold(false, of_run))
        && words.iter().all(|&word| specials(word) == 0)
        && !tail.iter().any(|&byte| is_special(byte))
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

/// Writes a byte as it stands in a JSON string, and gives the length of that.
#[inline]
fn put(byte: u8, out: &mut [u8]) -> usize {
    match ESCAPES[usize::from(byte)] {
        None => {
            out[0] = byte;
            1
        }
        Some(b'u') => {
            let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
            out[..6].copy_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            6
        }
        Some(escape) => {
            out[..2].copy_from_slice(&[b'\\', escape]);
            2
        }
    }
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
                assert_eq!(is_plain(&bytes), !special, "{byte} at {at}");
                bytes[49] = b'"';
                assert_eq!(find_special(&bytes), Some(if special { at } else { 49 }), "{byte} at {at}");
            }
        }
        assert_eq!(find_special("é".repeat(20).as_bytes()), None);
    }
}
