//! Places in the input at which two counts are known, kept in about a byte each.
//!
//! In: points, each with more text than the one before. Out: the same, first in, first out. Held: what each adds to the one
//! before it: in one byte if both are below 16, else after a zero in two numbers of the LEB128 form. The last point stays
//! as it is, so that it can move, and so that where never more than one waits nothing is encoded.

use std::collections::VecDeque;

/// So much text, and so many of something in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) text: u64,
    pub(crate) count: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    /// Where the first step begins: the last point that was taken.
    start: Point,
    /// Where the last step begins.
    last: Point,
    /// Where it ends: the last point that was given. No step waits if all three are equal.
    end: Point,
    /// The steps from `start` to `last`.
    encoded: VecDeque<u8>,
}

impl Steps {
    /// Forgets all steps: the next begins at `start`.
    pub(crate) fn restart(&mut self, start: Point) {
        self.encoded.clear();
        (self.start, self.last, self.end) = (start, start, start);
    }

    /// Where the first step begins.
    #[inline]
    pub(crate) fn start(&self) -> Point {
        self.start
    }

    /// Where the last step ends.
    #[inline]
    pub(crate) fn end(&self) -> Point {
        self.end
    }

    /// Whether no step waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start.text == self.end.text
    }

    /// Whether the first step is the last, if there is one.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.start.text == self.last.text
    }

    /// Where the first step ends.
    #[inline]
    pub(crate) fn first(&self) -> Option<Point> {
        match () {
            () if self.is_empty() => None,
            () if self.is_single() => Some(self.end),
            () => Some(self.decode().0),
        }
    }

    /// Adds a step.
    #[inline]
    pub(crate) fn push(&mut self, end: Point) {
        if !self.is_empty() {
            self.encode();
        }
        (self.last, self.end) = (self.end, end);
    }

    /// Moves the end of the last step on.
    #[inline]
    pub(crate) fn extend(&mut self, text: u64) {
        self.end.text = text;
    }

    /// Takes the first step.
    #[inline]
    pub(crate) fn pop(&mut self) {
        if self.is_single() {
            (self.start, self.last) = (self.end, self.end);
        } else {
            self.pop_encoded();
        }
    }

    #[cold]
    fn pop_encoded(&mut self) {
        let (end, bytes) = self.decode();
        self.start = end;
        self.encoded.drain(..bytes);
    }

    /// The last step goes to the others.
    #[cold]
    fn encode(&mut self) {
        let (text, count) = (self.end.text - self.last.text, self.end.count - self.last.count);
        if text | count < 16 {
            self.encoded.push_back((text << 4 | count) as u8);
        } else {
            self.encoded.push_back(0);
            put(text, &mut self.encoded);
            put(count, &mut self.encoded);
        }
    }

    /// Where the first step ends, which is encoded, and how many bytes it has.
    #[cold]
    fn decode(&self) -> (Point, usize) {
        let mut bytes = self.encoded.iter().copied();
        let (text, count) = match bytes.next() {
            None | Some(0) => (take(&mut bytes), take(&mut bytes)),
            Some(both) => (u64::from(both >> 4), u64::from(both & 15)),
        };
        let end = Point { text: self.start.text + text, count: self.start.count + count };
        (end, self.encoded.len() - bytes.len())
    }
}

/// Writes a number: seven bits a byte, the lowest first, the highest bit set but in the last.
fn put(mut number: u64, bytes: &mut VecDeque<u8>) {
    while number >= 0x80 {
        bytes.push_back(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push_back(number as u8);
}

/// Reads a number.
fn take(bytes: &mut impl Iterator<Item = u8>) -> u64 {
    let (mut number, mut shift) = (0, 0);
    for byte in bytes {
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What may be done.
    #[derive(Clone, Copy, Debug)]
    enum Do {
        Push(u64, u64),
        Extend(u64),
        Pop,
    }

    fn doing() -> impl Strategy<Value = Do> {
        let number = || prop_oneof![4 => 0..20_u64, 1 => 100..20_000_u64, 1 => 1..1_u64 << 50];
        prop_oneof![
            3 => (number(), number()).prop_map(|(text, count)| Do::Push(text + 1, count)),
            1 => number().prop_map(Do::Extend),
            3 => Just(Do::Pop),
        ]
    }

    proptest! {
        #[test]
        fn is_a_queue_of_points(doings in prop::collection::vec(doing(), 0..200)) {
            let mut queue: VecDeque<(u64, u64)> = VecDeque::new();
            let (mut start, mut end) = ((7, 3), (7, 3));
            let mut steps = Steps::default();
            steps.restart(Point { text: 7, count: 3 });
            for doing in doings {
                match doing {
                    Do::Push(text, count) => {
                        end = (end.0 + text, end.1 + count);
                        queue.push_back(end);
                        steps.push(Point { text: end.0, count: end.1 });
                    }
                    Do::Extend(text) => if let Some(last) = queue.back_mut() {
                        end.0 += text;
                        *last = end;
                        steps.extend(end.0);
                    },
                    Do::Pop => if let Some(first) = queue.pop_front() {
                        start = first;
                        steps.pop();
                    },
                }
                let pair = |point: Point| (point.text, point.count);
                prop_assert_eq!(steps.first().map(pair), queue.front().copied());
                prop_assert_eq!((pair(steps.start()), pair(steps.end())), (start, end));
                prop_assert_eq!(steps.is_empty(), queue.is_empty());
            }
        }
    }

    #[test]
    fn a_short_step_takes_a_byte() {
        let mut steps = Steps::default();
        for at in 1..=1_000 {
            steps.push(Point { text: 15 * at, count: at });
        }
        assert_eq!(steps.encoded.len(), 999);
    }
}
