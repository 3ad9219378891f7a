//! Variations of a message that provoke parsers.
//!
//! In: a message, or its rendered pieces. Out: the same, provoking. What must come of it changes with the text, and is as
//! certain as before: quoted markers stand where even text alone tells that they are quoted.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use kimi_xtml::{Marker, Message, Piece};
use serde_json::{Map, Value};

use crate::record::python;

/// What provokes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Variation {
    /// Nothing.
    #[default]
    Plain,
    /// One `"` that has no partner, in reasoning, answer and strings.
    Quotes,
    /// One backtick, and a code fence that never closes.
    Backticks,
    /// One `'`.
    Apostrophes,
    /// `<` and `<|` that begin nothing, and a `<` as the last character.
    Angles,
    /// Control tokens that are quoted.
    Markers,
    /// White space at both ends of each text, and between the elements.
    Blanks,
}

impl Variation {
    /// All of them, the plain one first.
    pub const ALL: [Variation; 7] = [
        Variation::Plain,
        Variation::Quotes,
        Variation::Backticks,
        Variation::Apostrophes,
        Variation::Angles,
        Variation::Markers,
        Variation::Blanks,
    ];

    /// The variation's name.
    pub const fn name(self) -> &'static str {
        match self {
            Variation::Plain => "plain",
            Variation::Quotes => "quotes",
            Variation::Backticks => "backticks",
            Variation::Apostrophes => "apostrophes",
            Variation::Angles => "angles",
            Variation::Markers => "markers",
            Variation::Blanks => "blanks",
        }
    }

    pub(crate) fn message(self, message: &mut Message, random: &mut fastrand::Rng) {
        if self == Variation::Plain {
            return;
        }
        for text in [&mut message.reasoning, &mut message.content] {
            if !text.is_empty() {
                self.text(text, random);
            }
        }
        for call in &mut message.tool_calls {
            let Ok(mut members) = serde_json::from_str::<Map<String, Value>>(&call.arguments) else { continue };
            let mut strings = members.values_mut().filter_map(|value| match value {
                Value::String(text) if !text.is_empty() => Some(text),
                _ => None,
            });
            if let Some(text) = strings.next() {
                self.text(text, random);
                call.arguments = python::arguments(&members);
            }
        }
    }

    fn text(self, text: &mut String, random: &mut fastrand::Rng) {
        let provoking = match self {
            Variation::Plain => return,
            Variation::Quotes => "\"",
            Variation::Backticks => "`so\n```",
            Variation::Apostrophes => "'",
            Variation::Angles => "a < b, <| c, <|op d ",
            Variation::Markers => "<|open|>, `<|close|>response` and <|sep|> ",
            Variation::Blanks => {
                *text = format!("\n\n {text} \n");
                return;
            }
        };
        // After a blank, so that no word is torn.
        let places: Vec<usize> = text.match_indices(' ').map(|(at, _)| at + 1).collect();
        let at = random.choice(&places).copied().unwrap_or(0);
        text.insert_str(at, provoking);
        if self == Variation::Angles {
            text.push_str(" <");
        }
    }

    /// White space between the elements, which is no part of the message.
    pub(crate) fn pieces(self, pieces: &mut Vec<Piece<'_>>) {
        if self != Variation::Blanks {
            return;
        }
        let mut laid_out = Vec::with_capacity(pieces.len() * 2);
        let mut closes = false;
        for piece in pieces.drain(..) {
            let ends = closes && piece == Piece::Marker(Marker::Sep);
            match piece {
                Piece::Marker(Marker::Close) => closes = true,
                Piece::Marker(_) => closes = false,
                _ => {}
            }
            laid_out.push(piece);
            if ends {
                laid_out.push(Piece::Text(Cow::Borrowed("\n")));
            }
        }
        *pieces = laid_out;
    }
}

impl fmt::Display for Variation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Variation {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, &'static str> {
        let found = Variation::ALL.into_iter().find(|variation| variation.name() == word);
        found.ok_or("plain, quotes, backticks, apostrophes, angles, markers or blanks")
    }
}
