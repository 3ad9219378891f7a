//! Token ids beside text -> which spelled markers are real.
//!
//! In: the ids of each delta, and the markers spelled in the text, which may come later than their ids. Out: for each
//! spelled marker, the control token that it is, if it is one. Held: the markers whose ids came and whose text did not.
//!
//! The ids tell of a quoted marker by how Kimi's tokenizer writes one: a token that ends in `<`, a `|`, the name, a `|`. A
//! quotation that is tokenised in another way is told as well, as long as no control token of the same spelling
//! comes in the same delta.

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
/// The token `|`.
const BAR: u32 = 91;
/// The token ` <|`, the only one with both.
const LESS_BAR: u32 = 22_652;

#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// Markers in the order of their ids; with its number if it is a control token, without if it is quoted.
    coming: VecDeque<(Marker, Option<u64>)>,
    /// The last ids, the latest last.
    recent: [u32; 6],
    /// Ids so far.
    count: u64,
}

impl Ids {
    /// Takes the ids of a delta, of which the first is number `first`.
    pub(crate) fn receive(&mut self, first: u64, ids: &[u32]) {
        for (number, &id) in (first..).zip(ids) {
            self.recent.rotate_left(1);
            self.recent[5] = id;
            if let Some(marker) = Marker::from_id(id) {
                self.coming.push_back((marker, Some(number)));
            } else if let Some(marker) = self.quoted() {
                self.coming.push_back((marker, None));
            }
        }
        self.count = first + ids.len() as u64;
    }

    /// The marker that the last ids quote.
    fn quoted(&self) -> Option<Marker> {
        let (before, marker) = match &self.recent[..] {
            [before @ .., 4_454, BAR] => (before, Marker::Open),
            [before @ .., 10_794, BAR] => (before, Marker::Close),
            [before @ .., 40_433, BAR] => (before, Marker::Sep),
            [before @ .., 517, 5_118, 14_222, BAR] => (before, Marker::EndOfMsg),
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
        let (_, number) = self.coming.pop_front_if(|(coming, _)| *coming == marker)?;
        number
    }

    /// How many ids there are before the next control token whose text has not come.
    pub(crate) fn before_next(&self) -> u64 {
        self.coming.iter().find_map(|&(_, number)| number).unwrap_or(self.count)
    }

    /// The next control token whose text never came.
    pub(crate) fn unspelled(&mut self) -> Option<Marker> {
        loop {
            if let (marker, Some(_)) = self.coming.pop_front()? {
                return Some(marker);
            }
        }
    }

    /// Forgets everything but the allocation.
    pub(crate) fn reset(&mut self) {
        self.coming.clear();
        (self.recent, self.count) = ([0; 6], 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_quoted_markers_from_control_tokens() {
        let mut ids = Ids::default();
        // `"<|open|>` quoted, then a real open, then ` <|end_of_msg|>` quoted.
        ids.receive(0, &[57_838, 91, 4_454, 91, 29, 163_587, 25_385, 22_652, 517, 5_118, 14_222, 91, 29]);
        assert_eq!(ids.before_next(), 5);
        assert_eq!(ids.spelled(Marker::Open), None);
        assert_eq!(ids.spelled(Marker::Sep), None);
        assert_eq!(ids.spelled(Marker::Open), Some(5));
        assert_eq!(ids.before_next(), 13);
        assert_eq!(ids.spelled(Marker::EndOfMsg), None);
        assert_eq!(ids.unspelled(), None);
    }

    #[test]
    fn a_bar_in_a_table_quotes_nothing() {
        let mut ids = Ids::default();
        ids.receive(0, &[64, 91, 4_454, 91, 163_587]);
        assert_eq!(ids.spelled(Marker::Open), Some(4));
    }
}
