//! JSON on one line, as a server-sent event needs it.
//!
//! In: a value. Out: its JSON, after what the buffer has, without a line end that any client's reader knows. Nothing is held.

use std::io::{self, Write};

use bytes::{BufMut, BytesMut};
use serde::ser::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Writes a value.
pub(crate) fn json(out: &mut BytesMut, value: &(impl Serialize + ?Sized)) {
    let written = value.serialize(&mut Serializer::with_formatter(out.writer(), OneLine));
    written.expect("keys are strings, and memory takes what is written");
}

/// Compact JSON in which U+0085, U+2028 and U+2029 are escaped: Python's `splitlines` ends a line there, and with it, for the
/// clients that read by it, the event.
struct OneLine;

impl Formatter for OneLine {
    #[inline]
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // The first bytes of these characters in UTF-8.
        if fragment.bytes().any(|byte| byte == 0xc2 || byte == 0xe2) {
            return write_escaped(writer, fragment);
        }
        writer.write_all(fragment.as_bytes())
    }
}

#[cold]
fn write_escaped<W: ?Sized + Write>(writer: &mut W, mut text: &str) -> io::Result<()> {
    while let Some(at) = text.find(['\u{85}', '\u{2028}', '\u{2029}']) {
        let (before, rest) = text.split_at(at);
        let mut rest = rest.chars();
        let end = rest.next().map_or(0, u32::from);
        write!(writer, "{before}\\u{end:04x}")?;
        text = rest.as_str();
    }
    writer.write_all(text.as_bytes())
}
