//! The control tokens of Kimi K3: their spellings and their ids.
//!
//! In: a text. Out: the control tokens that it spells, and where. Held: an automaton of all spellings.
//! The ids after the ranks are reserved for them, 256; those without a name of their own are spelled `<|reserved_token_N|>`.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

/// The first id of a control token.
pub(crate) const FIRST: u32 = 163_584;
/// How many control tokens there are.
pub(crate) const COUNT: u32 = 256;

/// Those that have a name, by their ids.
const NAMED: [(u32, &str); 15] = [
    (163_584, "[BOS]"),
    (163_585, "[EOS]"),
    (163_586, "<|end_of_msg|>"),
    (163_587, "<|open|>"),
    (163_588, "<|close|>"),
    (163_589, "<|sep|>"),
    (163_590, "[start_header_id]"),
    (163_591, "[end_header_id]"),
    (163_593, "[EOT]"),
    (163_602, "<|media_begin|>"),
    (163_603, "<|media_content|>"),
    (163_604, "<|media_end|>"),
    (163_605, "<|media_pad|>"),
    (163_838, "[UNK]"),
    (163_839, "[PAD]"),
];

pub(crate) struct Specials {
    spellings: Vec<String>,
    automaton: AhoCorasick,
}

impl Specials {
    pub(crate) fn new() -> Self {
        let mut spellings: Vec<String> = (FIRST..FIRST + COUNT).map(|id| format!("<|reserved_token_{id}|>")).collect();
        for (id, name) in NAMED {
            spellings[(id - FIRST) as usize] = name.to_owned();
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&spellings)
            .expect("256 short spellings make an automaton");
        Specials { spellings, automaton }
    }

    /// The spelling of a control token.
    pub(crate) fn spelling(&self, id: u32) -> Option<&str> {
        let place = id.checked_sub(FIRST)?;
        self.spellings.get(place as usize).map(String::as_str)
    }

    /// The control tokens that a text spells.
    pub(crate) fn find<'t>(&'t self, text: &'t str) -> impl Iterator<Item = (Range<usize>, u32)> + 't {
        self.automaton.find_iter(text).map(|found| (found.range(), FIRST + found.pattern().as_u32()))
    }
}

#[cfg(test)]
mod tests {
    use kimi_xtml::Marker;

    use super::*;

    #[test]
    fn every_id_has_a_spelling_of_its_own() {
        let specials = Specials::new();
        for id in FIRST..FIRST + COUNT {
            let spelling = specials.spelling(id).unwrap();
            assert_eq!(specials.find(spelling).collect::<Vec<_>>(), [(0..spelling.len(), id)]);
        }
        assert_eq!((specials.spelling(FIRST - 1), specials.spelling(FIRST + COUNT)), (None, None));
        assert_eq!(specials.spelling(163_600), Some("<|reserved_token_163600|>"));
    }

    #[test]
    fn markers_are_the_parsers() {
        let specials = Specials::new();
        for marker in [Marker::Open, Marker::Close, Marker::Sep, Marker::EndOfMsg, Marker::Eos] {
            assert_eq!(specials.spelling(marker.id()), Some(marker.spelling()));
        }
    }
}
