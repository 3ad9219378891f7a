//! Token ids beside text -> which spelled markers are real.
//!
//! In: the ids of each delta, and the markers spelled in the text, which may come later than their ids. Out: for each
//! spelled marker, the control token that it is, if it is one. Held: the markers whose ids came and whose text did not, of
//! which there are a thousand at most.
//!
//! The ids tell of a quoted marker by how Kimi's tokenizer writes one: a token that ends in `<`, a `|`, the name, a `|`, and
//! a token that begins with `>`. Such ids always spell the marker. A quotation that is tokenised in another way is told as
//! well, as long as no control token of the same spelling comes in the same delta.

use std::collections::VecDeque;

use crate::marker::Marker;

/// Tokens of Kimi's tokenizer whose text ends in `<`.
#[rustfmt::skip]
const LESS: [u32; 77] = [
    27, 555, 2_460, 3_318, 8_704, 9_901, 10_272, 11_711, 19_621, 21_906, 23_558, 23_701, 24_704, 25_244, 27_167, 28_293,
    28_352, 33_540, 35_080, 35_257, 36_688, 37_045, 37_050, 37_220, 39_928, 45_057, 45_110, 47_036, 51_522, 55_096, 56_411,
    57_126, 57_254, 57_838, 61_588, 63_241, 64_789, 66_771, 68_568, 69_125, 70_376, 73_083, 76_858, 87_696, 89_363, 90_200,
    91_939, 92_928, 96_141, 98_186, 101_035, 101_244, 106_762, 106_889, 107_023, 108_256, 112_273, 113_941, 116_802,
    119_416, 120_735, 121_279, 121_749, 125_190, 126_003, 128_168, 128_741, 132_540, 133_293, 137_062, 141_538, 141_792,
    143_002, 148_990, 152_769, 157_387, 161_589,
];
/// Tokens of Kimi's tokenizer whose text begins with `>`.
#[rustfmt::skip]
const GREATER: [u32; 217] = [
    29, 719, 3_318, 4_051, 4_192, 4_455, 4_826, 5_380, 7_395, 9_594, 10_509, 11_374, 12_324, 12_485, 13_757, 16_715,
    16_746, 17_196, 17_339, 17_685, 18_763, 19_244, 20_632, 20_858, 21_438, 27_325, 28_192, 28_647, 29_381, 29_725,
    30_308, 31_514, 32_834, 32_981, 35_059, 36_369, 37_505, 38_346, 38_379, 38_464, 38_505, 39_644, 39_691, 39_734,
    40_469, 41_282, 41_759, 41_959, 42_267, 42_528, 42_957, 42_971, 43_719, 45_036, 51_499, 52_895, 53_249, 53_855,
    55_000, 55_133, 55_670, 56_777, 57_318, 58_252, 59_040, 59_655, 60_117, 60_211, 60_927, 61_647, 61_819, 63_199,
    63_559, 64_071, 64_331, 64_593, 66_530, 67_702, 68_980, 70_037, 70_259, 71_006, 72_307, 72_969, 75_245, 75_328,
    78_313, 78_488, 80_172, 80_425, 80_648, 80_697, 81_222, 81_250, 81_842, 82_530, 82_670, 82_908, 84_261, 85_140,
    86_070, 86_250, 86_755, 87_173, 87_258, 87_820, 88_262, 89_556, 91_587, 92_664, 93_079, 94_421, 94_706, 95_383,
    96_243, 96_310, 97_119, 97_305, 97_937, 98_250, 98_526, 98_762, 98_835, 99_845, 101_117, 101_118, 101_175, 101_456,
    102_931, 103_471, 103_968, 104_265, 104_583, 104_724, 104_913, 105_305, 105_334, 105_705, 107_517, 109_123, 109_553,
    110_009, 110_287, 110_790, 111_616, 113_482, 113_499, 113_790, 113_972, 115_120, 116_605, 116_637, 117_360, 117_386,
    117_981, 119_117, 119_864, 119_893, 120_060, 122_544, 123_493, 123_555, 123_819, 124_142, 124_589, 125_077, 125_625,
    126_003, 126_702, 127_965, 128_741, 130_603, 134_191, 136_538, 137_865, 140_757, 141_367, 141_792, 143_093, 143_938,
    145_607, 146_088, 146_816, 146_973, 147_062, 148_014, 148_417, 148_718, 148_889, 149_137, 150_357, 150_475, 150_712,
    150_713, 151_570, 151_593, 151_952, 152_975, 153_710, 154_414, 154_561, 155_009, 156_629, 157_276, 157_356, 157_515,
    158_073, 158_931, 159_195, 159_702, 159_859, 160_020, 161_004, 161_589, 162_005, 163_132, 163_133,
];
/// The token `|`.
const BAR: u32 = 91;
/// The token ` <|`, the only one with both.
const LESS_BAR: u32 = 22_652;

/// The tokens `EOS` and `]`, in which a quoted `[EOS]` ends.
const QUOTED_EOS: [u32; 2] = [85_521, 60];

/// Markers that may wait for their text beside those that the text at hand can spell. The ids run ahead by what a
/// detokenizer holds back, a few tokens; where more wait, the text of the oldest never comes.
const WAITING: usize = 1_024;
/// Bytes of the shortest spelling.
const SHORTEST: usize = Marker::Eos.spelling().len();

#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    /// Markers in the order of their ids; with its number if it is a control token, without if it is quoted.
    coming: VecDeque<(Marker, Option<u64>)>,
    /// The numbers of those that are control tokens.
    numbers: VecDeque<u64>,
    /// How many of those are `[EOS]`.
    ends: usize,
    /// The last ids, each at the place of its number, modulo the length.
    recent: [u32; 8],
    /// Ids so far.
    count: u64,
}

impl Ids {
    /// Takes the ids of a delta, of which the first is number `first`, and whose text has `len` bytes. Gives how many control
    /// tokens are given up: the oldest, where too many wait for their text.
    #[inline]
    pub(crate) fn receive(&mut self, first: u64, ids: &[u32], len: usize) -> usize {
        let mut given_up = 0;
        self.count = first;
        for (number, &id) in (first..).zip(ids) {
            let after_bar = self.last(1) == BAR;
            self.recent[number as usize % 8] = id;
            self.count = number + 1;
            let marker = if id >= Marker::FIRST_ID {
                Marker::from_id(id).map(|marker| (marker, Some(number)))
            } else if after_bar {
                self.quoted().map(|marker| (marker, None))
            } else {
                continue;
            };
            if let Some((marker, number)) = marker {
                while self.coming.len() >= WAITING + len / SHORTEST {
                    given_up += usize::from(self.pop().is_some_and(|(_, number)| number.is_some()));
                }
                self.coming.push_back((marker, number));
                self.numbers.extend(number);
                self.ends += usize::from(marker == Marker::Eos);
            }
        }
        given_up
    }

    /// The id that came last, the one before it, and so on, from 1 on.
    #[inline]
    fn last(&self, back: u64) -> u32 {
        self.recent[self.count.wrapping_sub(back) as usize % 8]
    }

    /// The marker that the last ids quote.
    fn quoted(&self) -> Option<Marker> {
        let recent: [u32; 7] = std::array::from_fn(|at| self.last(7 - at as u64));
        let (before, marker) = match &recent[..] {
            [.., BAR, greater] if GREATER.binary_search(greater).is_err() => return None,
            [before @ .., 4_454, BAR, _] => (before, Marker::Open),
            [before @ .., 10_794, BAR, _] => (before, Marker::Close),
            [before @ .., 40_433, BAR, _] => (before, Marker::Sep),
            [before @ .., 517, 5_118, 14_222, BAR, _] => (before, Marker::EndOfMsg),
            _ => return None,
        };
        match before {
            [.., LESS_BAR] => Some(marker),
            [.., less, BAR] if LESS.binary_search(less).is_ok() => Some(marker),
            _ => None,
        }
    }

    /// The text spells a marker: gives its number if it is a control token.
    pub(crate) fn spelled(&mut self, marker: Marker) -> Option<u64> {
        if self.coming.front()?.0 == marker { self.pop()?.1 } else { None }
    }

    /// Takes the first marker whose text has not come.
    fn pop(&mut self) -> Option<(Marker, Option<u64>)> {
        let (marker, number) = self.coming.pop_front()?;
        if number.is_some() {
            self.numbers.pop_front();
        }
        self.ends -= usize::from(marker == Marker::Eos);
        Some((marker, number))
    }

    /// The text before and after the `[EOS]` in the text of a delta that is the one whose id came: no spelling alone makes
    /// it a marker. If it is the last id, it ends the text, unless the text ends in one that is quoted; else the last that
    /// is spelled is the one.
    #[inline]
    pub(crate) fn around_eos<'t>(&self, ids: &[u32], text: &'t str) -> Option<(&'t str, &'t str)> {
        if self.ends == 0 { None } else { self.around_last_eos(ids, text) }
    }

    fn around_last_eos<'t>(&self, ids: &[u32], text: &'t str) -> Option<(&'t str, &'t str)> {
        let spelling = Marker::Eos.spelling();
        if self.last(1) != Marker::Eos.id() {
            return text.rsplit_once(spelling);
        }
        let before = text.strip_suffix(spelling)?;
        // Each quotation is a token that ends in `[`, and these two.
        let told = ids.split_last().map_or(ids, |(_, before)| before);
        let quoted = told.rchunks(3).take_while(|ids| ids.ends_with(&QUOTED_EOS)).count();
        let mut rest = text;
        let spelled = std::iter::from_fn(|| {
            rest = rest.strip_suffix(spelling)?;
            Some(())
        });
        (spelled.count() > quoted).then_some((before, ""))
    }

    /// How many ids there are before the next control token whose text has not come.
    pub(crate) fn before_next(&self) -> u64 {
        self.numbers.front().copied().unwrap_or(self.count)
    }

    /// The next control token whose text never came.
    pub(crate) fn unspelled(&mut self) -> Option<Marker> {
        loop {
            if let (marker, Some(_)) = self.pop()? {
                return Some(marker);
            }
        }
    }

    /// Forgets everything but the allocations.
    pub(crate) fn reset(&mut self) {
        self.coming.clear();
        self.numbers.clear();
        (self.ends, self.recent, self.count) = (0, [0; 8], 0);
    }
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, Engine};

    use super::*;

    #[test]
    fn tells_quoted_markers_from_control_tokens() {
        let mut ids = Ids::default();
        // `"<|open|>` quoted, then a real open, then ` <|end_of_msg|>` quoted.
        ids.receive(0, &[57_838, 91, 4_454, 91, 29, 163_587, 25_385, 22_652, 517, 5_118, 14_222, 91, 29], 0);
        assert_eq!(ids.before_next(), 5);
        assert_eq!(ids.spelled(Marker::Open), None);
        assert_eq!(ids.spelled(Marker::Sep), None);
        assert_eq!(ids.spelled(Marker::Open), Some(5));
        assert_eq!(ids.before_next(), 13);
        assert_eq!(ids.spelled(Marker::EndOfMsg), None);
        assert_eq!(ids.unspelled(), None);
    }

    #[test]
    fn what_spells_no_marker_quotes_none() {
        let mut ids = Ids::default();
        // `a|open|>` is none, and `<|open|` before a real one neither.
        ids.receive(0, &[64, 91, 4_454, 91, 29, 27, 91, 4_454, 91, 163_587], 0);
        assert_eq!(ids.spelled(Marker::Open), Some(9));
    }

    #[test]
    fn the_oldest_of_too_many_is_given_up() {
        let mut ids = Ids::default();
        // `<|open|>`, of which every second is quoted.
        let (real, quoted) = ([163_587], [27, 91, 4_454, 91, 29]);
        let mut given_up = 0;
        for number in 0..10_000 {
            given_up += ids.receive(6 * number, &real, 0) + ids.receive(6 * number + 1, &quoted, 0);
            assert!(ids.coming.len() <= WAITING && ids.numbers.len() <= ids.coming.len());
        }
        assert_eq!(given_up, 10_000 - WAITING / 2);
        assert_eq!(ids.before_next(), 6 * given_up as u64);
        // As many more may wait as the text can spell.
        assert_eq!(ids.receive(60_000, &[163_587; 100], 100 * SHORTEST), 0);
        assert_eq!(ids.coming.len(), WAITING + 100);
        assert_eq!(ids.receive(60_100, &[163_587], 0), 51);
        let left = std::iter::from_fn(|| ids.unspelled()).count();
        assert_eq!(given_up + 51 + left, 10_101);
        assert_eq!(ids.ends, 0);
    }

    #[test]
    fn tells_the_eos_that_is_meant() {
        let around = |ids: &[u32], text| {
            let mut all = Ids::default();
            all.receive(0, ids, 0);
            all.around_eos(ids, text)
        };
        const EOS: u32 = Marker::Eos.id();
        for (ids, text, expected) in [
            (&[EOS][..], "a[EOS]", Some(("a", ""))),
            (&[EOS], "[EOS] a", None),
            (&[EOS], "a", None),
            (&[1, 2], "a[EOS]", None),
            (&[793, 85_521, 60, EOS], "a [EOS]", None),
            (&[793, 85_521, 60, EOS], "a [EOS][EOS]", Some(("a [EOS]", ""))),
            (&[58, 85_521, 60, 793, 85_521, 60, EOS], "[EOS] [EOS]", None),
            (&[58, 85_521, 60, 58, 85_521, 60, EOS], "[EOS][EOS]", None),
            (&[58, 85_521, 60, 58, 85_521, 60, EOS], "[EOS][EOS][EOS]", Some(("[EOS][EOS]", ""))),
            (&[793, 85_521, 61, EOS], "a [EOS]", Some(("a ", ""))),
            (&[793, 85_522, 60, EOS], "a [EOS]", Some(("a ", ""))),
            (&[EOS, 5], "[EOS] a [EOS] b", Some(("[EOS] a ", " b"))),
            (&[EOS, 5], "a", None),
        ] {
            assert_eq!(around(ids, text), expected, "{ids:?} {text}");
        }
        // Once it was found there is none any more.
        let mut ids = Ids::default();
        ids.receive(0, &[793, 85_521, 60, EOS], 0);
        assert_eq!(ids.spelled(Marker::Eos), Some(3));
        assert_eq!(ids.around_eos(&[], "[EOS]"), None);
    }

    /// Each marker in each form: after `<` and `|`, or after ` <|`; before a token that begins with `>`.
    #[test]
    fn knows_every_form_of_a_quotation() {
        let names: [(Marker, &[u32]); 4] = [
            (Marker::Open, &[4_454]),
            (Marker::Close, &[10_794]),
            (Marker::Sep, &[40_433]),
            (Marker::EndOfMsg, &[517, 5_118, 14_222]),
        ];
        let quotes = |before: &[u32], name: &[u32], greater: u32, marker: Marker| {
            let mut ids = Ids::default();
            ids.receive(0, &[before, name, &[BAR, greater, marker.id()]].concat(), 0);
            // What is quoted comes first, and is none.
            ids.spelled(marker).is_none()
        };
        for (marker, name) in names {
            for before in [&[LESS[0], BAR][..], &[1, LESS[76], BAR], &[LESS_BAR], &[1, LESS_BAR]] {
                for greater in [GREATER[0], GREATER[216]] {
                    assert!(quotes(before, name, greater, marker), "{before:?} {name:?} {greater}");
                }
                assert!(!quotes(before, name, LESS[0], marker), "{before:?} {name:?}");
            }
            for before in [&[1, BAR][..], &[LESS[0], 1], &[LESS[0]], &[LESS_BAR, BAR]] {
                assert!(!quotes(before, name, GREATER[0], marker), "{before:?} {name:?}");
            }
        }
    }

    /// The lists are those of the tokenizer, where `KIMI_XTML_DATA` has its ranks.
    #[test]
    fn the_lists_are_the_tokenizers() {
        let Some(data) = std::env::var_os("KIMI_XTML_DATA") else { return };
        let ranks = std::fs::read_to_string(std::path::Path::new(&data).join("data/kimi/tiktoken.model")).unwrap();
        let tokens: Vec<Vec<u8>> = ranks
            .lines()
            .enumerate()
            .map(|(rank, line)| {
                let (token, id) = line.split_once(' ').unwrap();
                assert_eq!(id, rank.to_string());
                BASE64_STANDARD.decode(token).unwrap()
            })
            .collect();
        let having = |is: fn(&[u8]) -> bool| (0..).zip(&tokens).filter(move |(_, token)| is(token)).map(|(id, _)| id);
        assert!(having(|token| token.ends_with(b"<")).eq(LESS));
        assert!(having(|token| token.starts_with(b">")).eq(GREATER));
        assert!(having(|token| token.ends_with(b"<|")).eq([LESS_BAR]));
        for (id, text) in [
            (BAR, "|"),
            (4_454, "open"),
            (10_794, "close"),
            (40_433, "sep"),
            (517, "end"),
            (5_118, "_of"),
            (14_222, "_msg"),
        ] {
            assert_eq!(tokens[id as usize], text.as_bytes());
        }
    }
}
