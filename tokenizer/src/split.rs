//! Text -> the pieces that tokens are made of, each by itself.
//!
//! In: a text. Out: its stretches (a very long run without a change between blanks and others is cut), and the pieces of a
//! stretch, by Kimi's pattern. Held: an automaton that is built as texts need it, of at most 2 MiB a thread.
//!
//! The pattern has one look ahead, `\s+(?!\S)`: white space gives its last character back to what follows it. Without
//! that alternative the rest is a regular expression, which an automaton reads in one pass, and the one step is done here.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::{Anchored, Input, MatchKind};

/// Characters that are encoded together at most.
const WINDOW: usize = 400_000;
/// Characters of a run, all white space or none, that are encoded together at most.
const RUN: usize = 25_000;

/// Upper case, and letters and marks without case. Han is apart.
macro_rules! upper {
    () => {
        r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
    };
}
/// Lower case, and letters and marks without case.
macro_rules! lower {
    () => {
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
    };
}
/// What may stand before a word.
macro_rules! lead {
    () => {
        r"[^\r\n\p{L}\p{N}]?"
    };
}
/// What may stand after a word.
macro_rules! contraction {
    () => {
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    };
}
/// The pattern's alternatives but for those of white space without a line end.
const PIECE: &str = concat!(
    r"[\p{Han}]+",
    concat!("|", lead!(), upper!(), "*", lower!(), "+", contraction!()),
    concat!("|", lead!(), upper!(), "+", lower!(), "*", contraction!()),
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+",
);
/// White space without a line end.
const BLANKS: &str = r"\s+";

/// Finds pieces.
pub(crate) struct Splitter(DFA);

impl Splitter {
    pub(crate) fn new() -> Self {
        let dfa = DFA::builder()
            .configure(DFA::config().match_kind(MatchKind::LeftmostFirst))
            .build_many(&[PIECE, BLANKS])
            .expect("the pattern is a regular expression");
        Splitter(dfa)
    }

    /// What [`piece`](Self::piece) works with; one a thread.
    pub(crate) fn cache(&self) -> Cache {
        self.0.create_cache()
    }

    /// The end of the piece of `stretch` that begins at `start`, before its end.
    #[inline]
    pub(crate) fn piece(&self, cache: &mut Cache, stretch: &str, start: usize) -> usize {
        let input = Input::new(stretch).range(start..).anchored(Anchored::Yes);
        let found = self.0.try_search_fwd(cache, &input);
        // Each character begins an alternative, and an automaton without quit bytes and without a limit never gives up.
        let found = found.ok().flatten().expect("every text has a next piece");
        let end = found.offset();
        if found.pattern().as_usize() == 1 && end < stretch.len() {
            let last = stretch[start..end].chars().next_back().map_or(0, char::len_utf8);
            if end - last > start {
                return end - last;
            }
        }
        end
    }
}

/// The stretches of a text, which are encoded each by itself: windows of 400,000 characters, and in each a run of more than
/// 25,000, all of white space or all of other characters, is cut there, and every 25,000 again.
pub(crate) fn stretches(text: &str) -> impl Iterator<Item = &str> {
    let (mut rest, mut window) = (text, WINDOW);
    std::iter::from_fn(move || {
        let stretch;
        (stretch, rest) = rest.split_at(stretch_end(rest, &mut window));
        (!stretch.is_empty()).then_some(stretch)
    })
}

/// The end of the first stretch of `text`, of which the window takes `window` more characters.
fn stretch_end(text: &str, window: &mut usize) -> usize {
    if text.len() <= RUN.min(*window) {
        return text.len();
    }
    let (mut run, mut blank) = (0, false);
    for (at, character) in text.char_indices() {
        if *window == 0 {
            *window = WINDOW;
            return at;
        }
        let is_blank = is_blank(character);
        run = if is_blank == blank { run + 1 } else { 1 };
        if run > RUN {
            return at;
        }
        blank = is_blank;
        *window -= 1;
    }
    text.len()
}

/// Python's `str.isspace`, which has four controls more than Unicode's white space.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Vec<usize> {
        stretches(text).map(|stretch| stretch.chars().count()).collect()
    }

    #[test]
    fn runs_are_cut_every_25_000_characters() {
        for unit in ["x", " ", "\n", "\u{1c}", "漢", "🚀"] {
            assert_eq!(lengths(&unit.repeat(25_000)), [25_000]);
            assert_eq!(lengths(&unit.repeat(25_001)), [25_000, 1]);
            assert_eq!(lengths(&unit.repeat(60_000)), [25_000, 25_000, 10_000]);
        }
        assert_eq!(lengths(""), [0; 0]);
        // The count begins at the run, the stretch at the text.
        assert_eq!(lengths(&("some words here ".repeat(3) + &"ab".repeat(13_000) + " tail")), [25_048, 1_005]);
    }

    #[test]
    fn a_blank_is_what_python_says() {
        for blank in ["\u{1c}", "\u{1f}", "\u{85}", "\u{a0}", "\u{2029}", "\u{3000}"] {
            assert_eq!(lengths(&["a".repeat(20_000), "b".repeat(20_000)].join(blank)), [40_001], "{blank:?}");
        }
        for other in ["\u{1b}", "\u{200b}", "\u{feff}", "\u{180e}"] {
            assert_eq!(lengths(&["a".repeat(20_000), "b".repeat(20_000)].join(other)), [25_000, 15_001], "{other:?}");
        }
    }

    #[test]
    fn windows_are_cut_every_400_000_characters() {
        assert_eq!(lengths(&"The quick brown fox. ".repeat(40_000)), [400_000, 400_000, 40_000]);
        assert_eq!(lengths(&"é ".repeat(200_000)), [400_000]);
        // A run that goes on in the next window begins there anew.
        let text = "a ".repeat(195_000) + &"b".repeat(30_000);
        assert_eq!(lengths(&text), [400_000, 20_000]);
    }

    fn pieces(text: &str) -> Vec<&str> {
        let splitter = Splitter::new();
        let mut cache = splitter.cache();
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let end = splitter.piece(&mut cache, text, start);
            pieces.push(&text[start..end]);
            start = end;
        }
        pieces
    }

    #[test]
    fn the_pattern_tells_pieces_apart() {
        assert_eq!(pieces("It's DONE'Ll xY漢字々a1234"), ["It's", " DONE'Ll", " x", "Y", "漢字々", "a", "123", "4"]);
        assert_eq!(pieces("a  b   \n\n  c \t"), ["a", " ", " b", "   \n\n", " ", " c", " \t"]);
        assert_eq!(pieces("<|open|>\r\nx(\u{301}"), ["<|", "open", "|>\r\n", "x", "(\u{301}"]);
        assert_eq!(pieces("\u{3000}\u{3000}1 2"), ["\u{3000}", "\u{3000}", "1", " ", "2"]);
    }
}
