//! The text of a value whose end decides in which form it goes out.
//!
//! In: text, as it arrives. Out: the same in blocks, each with its span; the rest, from where it can be no JSON, in blocks
//! of its own. Held: all of it, and at most a sixteenth of that or a block more: nothing is copied to grow.

use crate::event::{Kind, Span};
use crate::parse::utf8::split_within;
use crate::report::{Ledger, Tally};

/// Bytes of the first block, which is kept for the next value, and of the largest.
const SMALLEST: usize = 256;
const LARGEST: usize = 16 << 10;

#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    blocks: Vec<(String, Span)>,
    len: usize,
    rest: Option<Rest>,
}

/// What can be no JSON: the first of its blocks, and what was counted before it.
#[derive(Clone, Debug)]
struct Rest {
    block: usize,
    before: Tally,
}

impl Held {
    /// Takes text, which is the next to be decided.
    #[inline]
    pub(crate) fn push(&mut self, text: &str, ledger: &mut Ledger) {
        match self.blocks.last_mut() {
            // Nearly all text fits into the block that has begun.
            Some((block, span)) if !block.is_empty() && text.len() <= block.capacity() - block.len() => {
                span.extend(&ledger.take(text.len(), Kind::Arguments));
                block.push_str(text);
                self.len += text.len();
            }
            _ => self.fill(text, ledger),
        }
    }

    /// What comes from here on can be no JSON.
    pub(crate) fn begin_rest(&mut self, ledger: &Ledger) {
        if self.rest.is_none() {
            // The next text opens a block, of which the first is kept when the others go.
            let used = self.blocks.iter().filter(|(block, _)| !block.is_empty()).count();
            self.blocks.truncate(used.max(1));
            self.blocks.push((String::with_capacity(SMALLEST), Span::default()));
            self.rest = Some(Rest { block: self.blocks.len() - 1, before: ledger.tally() });
        }
    }

    /// Takes text into as many blocks as it needs.
    fn fill(&mut self, mut text: &str, ledger: &mut Ledger) {
        while !text.is_empty() {
            let room = self.blocks.last().map_or(0, |(block, _)| block.capacity() - block.len());
            let (fits, rest) = split_within(text, room);
            if let Some((block, span)) = self.blocks.last_mut().filter(|_| !fits.is_empty()) {
                let taken = ledger.take(fits.len(), Kind::Arguments);
                if block.is_empty() {
                    *span = taken
                } else {
                    span.extend(&taken)
                }
                block.push_str(fits);
                self.len += fits.len();
                text = rest;
            } else {
                let block = String::with_capacity((self.len / 16).clamp(SMALLEST, LARGEST));
                self.blocks.push((block, Span::default()));
            }
        }
    }

    /// How many bytes are held.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What is held, none of it empty.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (&str, &Span)> {
        texts(&self.blocks)
    }

    /// What can begin JSON, the rest, and what was counted before the rest.
    pub(crate) fn parts(
        &self,
    ) -> (impl Iterator<Item = (&str, &Span)>, impl Iterator<Item = (&str, &Span)>, Option<Tally>) {
        let at = self.rest.as_ref().map_or(self.blocks.len(), |rest| rest.block);
        let (json, rest) = self.blocks.split_at(at);
        (texts(json), texts(rest), self.rest.as_ref().map(|rest| rest.before))
    }

    /// Forgets it.
    pub(crate) fn clear(&mut self) {
        (self.len, self.rest) = (0, None);
        self.blocks.truncate(1);
        if let Some((block, _)) = self.blocks.first_mut() {
            block.clear();
        }
    }
}

fn texts(blocks: &[(String, Span)]) -> impl Iterator<Item = (&str, &Span)> {
    blocks.iter().filter(|(block, _)| !block.is_empty()).map(|(block, span)| (block.as_str(), span))
}
