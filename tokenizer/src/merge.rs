//! A piece's bytes -> its tokens, by merging neighbours.
//!
//! In: the bytes of one piece. Out: ranks. Held: room for the parts of a piece and for the merges that are possible, used again.
//! The merge of the lowest rank comes first, of equal ones the leftmost, until no two neighbours make a token: what
//! tiktoken does, in n log n steps for a piece of any length.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ranks::{NONE, Ranks};

/// A part of the piece, at the index where it begins.
#[derive(Clone, Copy)]
struct Part {
    /// Where the part before it begins.
    before: u32,
    /// Where it ends.
    end: u32,
    /// The token that it is.
    token: u32,
    /// The token that it makes with the next part; [`NONE`] also if another part has taken this one in.
    merged: u32,
}

/// A merge: the token that it makes, and in the low half where that begins. The least is the next.
type Merge = u64;

fn merge(token: u32, start: u32) -> Reverse<Merge> {
    Reverse(u64::from(token) << 32 | u64::from(start))
}

#[derive(Default)]
pub(crate) struct Merger {
    parts: Vec<Part>,
    /// Those that are possible, and some that were; these do nothing when their turn comes.
    merges: BinaryHeap<Reverse<Merge>>,
}

impl Merger {
    /// Appends the tokens of `piece`, which is at most a stretch long.
    pub(crate) fn encode(&mut self, ranks: &Ranks, piece: &[u8], ids: &mut Vec<u32>) {
        let token = ranks.rank(piece);
        if token != NONE {
            return ids.push(token);
        }
        self.start(ranks, piece);
        while let Some(Reverse(merge)) = self.merges.pop() {
            let (token, start) = ((merge >> 32) as u32, merge as u32);
            if self.parts[start as usize].merged == token {
                self.merge(ranks, piece, token, start);
            }
        }
        let mut start = 0;
        while let Some(part) = self.parts.get(start) {
            ids.push(part.token);
            start = part.end as usize;
        }
    }

    /// Each byte is a part.
    fn start(&mut self, ranks: &Ranks, piece: &[u8]) {
        let mut merges = std::mem::take(&mut self.merges).into_vec();
        self.parts.clear();
        for (start, &byte) in (0_u32..).zip(piece) {
            let merged = piece.get(start as usize + 1).map_or(NONE, |&next| ranks.pair(byte, next));
            self.parts.push(Part { before: start.wrapping_sub(1), end: start + 1, token: ranks.byte(byte), merged });
            if merged != NONE {
                merges.push(merge(merged, start));
            }
        }
        self.merges = merges.into();
    }

    /// The part that begins at `start` takes the next one in, and is `token` then.
    fn merge(&mut self, ranks: &Ranks, piece: &[u8], token: u32, start: u32) {
        let next = self.parts[start as usize].end;
        let taken = &mut self.parts[next as usize];
        taken.merged = NONE;
        let end = taken.end;
        let part = &mut self.parts[start as usize];
        (part.end, part.token) = (end, token);
        let before = part.before;
        if let Some(after) = self.parts.get_mut(end as usize) {
            after.before = start;
        }
        self.look(ranks, piece, start);
        if start > 0 {
            self.look(ranks, piece, before);
        }
    }

    /// Looks up what a part makes with the next one.
    fn look(&mut self, ranks: &Ranks, piece: &[u8], start: u32) {
        let next = self.parts[start as usize].end as usize;
        let merged = self.parts.get(next).map_or(NONE, |next| ranks.rank(&piece[start as usize..next.end as usize]));
        self.parts[start as usize].merged = merged;
        if merged != NONE {
            self.merges.push(merge(merged, start));
        }
    }
}
