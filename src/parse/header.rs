//! The attributes of a tag's header.
//!
//! In: the text between a tag's name and the control token that ends it. Out: its [`Attributes`], or none if they do
//! not lex. Nothing is held. One grammar serves two questions: complete, what they are; streaming, whether a
//! header that was cut could still have gone on.

use std::borrow::Cow;
use std::ops::Range;

use nom::Parser;
use nom::bytes::{tag, take_till, take_while, take_while1};
use nom::error::Error;
use nom::multi::fold_many0;
use nom::sequence::{delimited, preceded, separated_pair, terminated};
use nom::{Complete, Emit, Err, OutputM, Streaming};

/// White space of the format.
pub(crate) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The attributes that the format knows, entities not decoded; the first of a kind counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    pub(crate) tool: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) kind: Option<&'a str>,
}

fn blank(c: char) -> bool {
    c.is_ascii() && is_blank(c as u8)
}

fn name<'a>() -> impl Parser<&'a str, Output = &'a str, Error = Error<&'a str>> {
    take_while1(|c| !blank(c) && !matches!(c, '=' | '"' | '<' | '>'))
}

/// `{ blanks name blanks "=" blanks '"' value '"' } blanks`
fn attributes<'a>() -> impl Parser<&'a str, Output = Attributes<'a>, Error = Error<&'a str>> {
    let equals = delimited(take_while(blank), tag("="), take_while(blank));
    let value = delimited(tag("\""), take_till(|c| c == '"'), tag("\""));
    let attribute = preceded(take_while1(blank), separated_pair(name(), equals, value));
    let all = fold_many0(attribute, Attributes::default, |mut all, (name, value)| {
        let known = match name {
            "tool" => &mut all.tool,
            "key" => &mut all.key,
            "type" => &mut all.kind,
            _ => return all,
        };
        known.get_or_insert(value);
        all
    });
    terminated(all, take_while(blank))
}

/// The attributes of a whole header, which begins after the tag's name.
pub(crate) fn read(header: &str) -> Option<Attributes<'_>> {
    match attributes().process::<OutputM<Emit, Emit, Complete>>(header) {
        Ok(("", attributes)) => Some(attributes),
        _ => None,
    }
}

/// Whether a header, which begins after the marker, is that of a tag of any name.
pub(crate) fn is_any(header: &str) -> bool {
    let tag = preceded(take_while(blank), preceded(name(), attributes()));
    matches!({ tag }.process::<OutputM<Emit, Emit, Complete>>(header), Ok(("", _)))
}

/// Whether more text could make `header` one that can be read.
pub(crate) fn may_go_on(header: &str) -> bool {
    matches!(attributes().process::<OutputM<Emit, Emit, Streaming>>(header), Err(Err::Incomplete(_)))
}

/// Where a part of a header, of which it is a slice, stands in it.
pub(crate) fn place(header: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(header.as_ptr().addr());
    start..start + part.len()
}

/// Decodes the two entities of attribute values: `&quot;` first, then `&amp;`. Others stay.
pub(crate) fn decode(value: &str) -> Cow<'_, str> {
    if value.contains('&') { value.replace("&quot;", "\"").replace("&amp;", "&").into() } else { value.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_attributes_in_any_order() {
        let read = |header| read(header).map(|found| (found.tool, found.key, found.kind));
        assert_eq!(read(" type = \"a<b\nc\" x=\"1\"\n key=\"k\" key=\"l\" "), Some((None, Some("k"), Some("a<b\nc"))));
        assert_eq!(read(""), Some((None, None, None)));
        assert_eq!(read("  "), Some((None, None, None)));
        for bad in ["x", " key", " key=", " key=\"a", " key=a", " key=\"a\"type=\"b\"", " =\"\""] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn knows_what_could_go_on() {
        for prefix in ["", " ", " key", " key =", " key=\"a b", " key=\"a\"", " key=\"a\" t"] {
            assert!(may_go_on(prefix), "{prefix}");
        }
        for dead in ["x", " key=a", " key=\"path type=\"s", " key=\"a\"t", " <", " key \""] {
            assert!(!may_go_on(dead), "{dead}");
        }
    }

    #[test]
    fn decodes_quot_before_amp() {
        assert_eq!(decode("a &amp;quot; &quot; &lt;"), "a \" \" &lt;".replacen('"', "&quot;", 1));
    }
}
