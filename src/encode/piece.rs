//! The pieces that a prompt is made of, and what each of them is for.
//!
//! A piece is encoded to ids by itself: no token crosses its ends, so the joined text would give others.

use std::borrow::Cow;

use memchr::memchr2;

pub(crate) use crate::label::Label;
use crate::marker::Marker;

/// A part of a prompt, or of generated text, that is encoded by itself. Never empty.
///
/// ```
/// use kimi_xtml::{Message, Piece, render_pieces};
///
/// let message = Message::new().with_content("Hi");
/// let pieces = render_pieces(&message, None).unwrap();
/// assert!(pieces.contains(&Piece::Text("Hi".into())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Piece<'a> {
    /// Text: ordinary tokens, also where it spells a control token.
    Text(Cow<'a, str>),
    /// A control token.
    Marker(Marker),
    /// An image, as control tokens and text: what is spelled like a control token is one.
    Image(Cow<'a, str>),
}

impl Piece<'_> {
    /// The piece as text.
    ///
    /// ```
    /// use kimi_xtml::{Marker, Piece};
    ///
    /// assert_eq!(Piece::Marker(Marker::Sep).spelling(), "<|sep|>");
    /// ```
    pub fn spelling(&self) -> &str {
        match self {
            Piece::Text(text) | Piece::Image(text) => text,
            Piece::Marker(marker) => marker.spelling(),
        }
    }

    /// Whether what the piece spells like control tokens is control tokens.
    ///
    /// ```
    /// use kimi_xtml::{Marker, Piece};
    ///
    /// assert!(Piece::Marker(Marker::Sep).is_control());
    /// assert!(!Piece::Text("<|sep|>".into()).is_control());
    /// ```
    pub fn is_control(&self) -> bool {
        !matches!(self, Piece::Text(_))
    }

    /// The piece with its own text.
    ///
    /// ```
    /// use kimi_xtml::Piece;
    ///
    /// let text = String::from("Hi");
    /// let piece: Piece<'static> = Piece::Text((&*text).into()).into_owned();
    /// assert_eq!(piece.spelling(), text);
    /// ```
    pub fn into_owned(self) -> Piece<'static> {
        match self {
            Piece::Text(text) => Piece::Text(text.into_owned().into()),
            Piece::Image(text) => Piece::Image(text.into_owned().into()),
            Piece::Marker(marker) => Piece::Marker(marker),
        }
    }
}

/// Writes pieces and their labels.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) pieces: Vec<Piece<'a>>,
    pub(crate) labels: Vec<Label>,
    /// What tags are for: [`Label::Prompt`] or [`Label::Markup`].
    pub(crate) tags: Label,
    /// Whether a channel is opened twice where its text begins with its opener: the parser drops one of them.
    pub(crate) repeats_openers: bool,
}

impl<'a> Writer<'a> {
    pub(crate) fn new() -> Self {
        Writer { pieces: Vec::new(), labels: Vec::new(), tags: Label::Prompt, repeats_openers: false }
    }

    pub(crate) fn text(&mut self, text: impl Into<Cow<'a, str>>, label: Label) {
        let text = text.into();
        if !text.is_empty() {
            self.push(Piece::Text(text), label);
        }
    }

    pub(crate) fn marker(&mut self, marker: Marker) {
        self.push(Piece::Marker(marker), self.tags);
    }

    pub(crate) fn open(&mut self, tag: &'static str) {
        self.begin(tag);
        self.marker(Marker::Sep);
    }

    pub(crate) fn close(&mut self, tag: &'static str) {
        self.marker(Marker::Close);
        self.text(tag, self.tags);
        self.marker(Marker::Sep);
    }

    /// An opening tag up to its attributes; a [`Marker::Sep`] ends it.
    pub(crate) fn begin(&mut self, tag: &'static str) {
        self.marker(Marker::Open);
        self.text(tag, self.tags);
    }

    /// An attribute; `key` has a blank before it.
    pub(crate) fn attribute(&mut self, key: &'static str, value: impl Into<Cow<'a, str>>) {
        self.attribute_of(key, value, self.tags);
    }

    /// An attribute whose value has a label of its own.
    pub(crate) fn attribute_of(&mut self, key: &'static str, value: impl Into<Cow<'a, str>>, label: Label) {
        self.text(key, self.tags);
        self.text("=\"", self.tags);
        self.text(escaped(value.into()), label);
        self.text("\"", self.tags);
    }

    pub(crate) fn push(&mut self, piece: Piece<'a>, label: Label) {
        self.pieces.push(piece);
        self.labels.push(label);
    }
}

/// An attribute's value. The order counts: the `&` of an escape is not escaped again.
fn escaped(value: Cow<'_, str>) -> Cow<'_, str> {
    match memchr2(b'&', b'"', value.as_bytes()) {
        None => value,
        Some(_) => value.replace('&', "&amp;").replace('"', "&quot;").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_escape_ampersands_then_quotes() {
        assert_eq!(escaped("a&b\"<c>\n&quot;".into()), "a&amp;b&quot;<c>\n&amp;quot;");
    }
}
