//! Where each byte and token of the input went.
//!
//! In: how much came in, and how much of it was just decided as what. Out: spans, in order and without a gap, and
//! the report. Held: an entry for each run of tokens, and each replaced sequence, whose text is undecided.

use std::collections::VecDeque;

use serde::Serialize;

use crate::diagnostic::Code;
use crate::event::{Event, Kind, Span};
use crate::sink::Sink;

/// How much of the input went where, in bytes or in tokens. `input` is the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// All that is decided.
    pub input: u64,
    /// Reasoning.
    pub reasoning: u64,
    /// Content.
    pub content: u64,
    /// Values of arguments.
    pub arguments: u64,
    /// Tags, and white space between elements.
    pub markup: u64,
    /// Tools sections that were not asked for.
    pub withheld: u64,
    /// What is no part of the message.
    pub dropped: u64,
}

impl Counts {
    fn add(&mut self, kind: Kind, amount: u64) {
        self.input += amount;
        *match kind {
            Kind::Reasoning => &mut self.reasoning,
            Kind::Content => &mut self.content,
            Kind::Arguments => &mut self.arguments,
            Kind::Markup => &mut self.markup,
            Kind::Withheld => &mut self.withheld,
            Kind::Dropped => &mut self.dropped,
        } += amount;
    }
}

/// How often a deviation was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Noted {
    /// The deviation.
    pub code: Code,
    /// How often it was met.
    pub count: u64,
    /// The byte offset of the first.
    pub first: u64,
}

/// What the parser did so far. Its size does not grow with the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Bytes of the input whose fate is decided.
    pub bytes: Counts,
    /// Tokens whose fate is decided, where ids were given. A token counts as what its first byte is; one that
    /// never had a text, as markup.
    pub tokens: Option<Counts>,
    /// Bytes that lexing looked at: at most twice the input.
    pub examined: u64,
    /// Each deviation that was met, in the order of [`Code::ALL`].
    pub diagnostics: Vec<Noted>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Text received and text decided so far, in bytes as decoded.
    received: u64,
    decided: u64,
    /// `decided` as an offset of the input; it lags where U+FFFD stands for fewer than its three bytes.
    at: u64,
    /// Where such a U+FFFD ends in the text, and by how much it is too long.
    excess: VecDeque<(u64, u64)>,
    /// Where each undecided run of tokens ends, in text and in tokens.
    runs: VecDeque<(u64, u64)>,
    /// Where the first of them begins; none before the first id.
    front: Option<(u64, u64)>,
    tokens_received: u64,
    pub(crate) examined: u64,
    bytes: Counts,
    tokens: Counts,
    /// Count and first offset, by code.
    noted: [(u64, u64); Code::ALL.len()],
}

impl Ledger {
    /// The input offset of the first undecided byte.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The text received so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Text came in.
    pub(crate) fn receive(&mut self, text: &str) {
        self.received += text.len() as u64;
    }

    /// A U+FFFD came in for `raw` bytes.
    pub(crate) fn receive_replacement(&mut self, raw: usize) {
        // Only the first is told of, and before it nothing was replaced.
        self.note(Code::InvalidUtf8, self.received);
        self.received += 3;
        if raw < 3 {
            let excess = 3 - raw as u64;
            self.excess.push_back((self.received, excess));
        }
    }

    /// `count` ids came in. Gives the number of the first.
    pub(crate) fn receive_tokens(&mut self, count: usize) -> u64 {
        self.front.get_or_insert((self.decided, 0));
        let first = self.tokens_received;
        self.tokens_received += count as u64;
        first
    }

    /// The tokens before `token` make the text before `text`, as far as no earlier ones do.
    pub(crate) fn cover(&mut self, text: u64, token: u64) {
        match self.runs.back_mut() {
            Some(last) if last.1 == token => last.0 = text,
            last => {
                let covered = last.map(|last| last.0).or(self.front.map(|front| front.0));
                if covered.is_some_and(|covered| covered < text) {
                    self.runs.push_back((text, token));
                }
            }
        }
    }

    /// The next `len` bytes of text are decided.
    #[inline]
    pub(crate) fn take(&mut self, len: usize, kind: Kind) -> Span {
        let (before, start) = (self.decided, self.at);
        self.decided += len as u64;
        self.at += len as u64;
        while let Some(&(end, excess)) = self.excess.front()
            && end <= self.decided
        {
            self.at -= excess;
            self.excess.pop_front();
        }
        self.bytes.add(kind, self.at - start);
        Span { bytes: start..self.at, tokens: self.front.map(|front| self.take_tokens(front, before, kind)) }
    }

    /// The tokens of the text from `before` to what is decided now.
    fn take_tokens(&mut self, front: (u64, u64), before: u64, kind: Kind) -> std::ops::Range<u64> {
        let (mut text, mut token) = front;
        let mut reach = token;
        if before == self.decided {
            return token..token;
        }
        while let Some(&(text_end, token_end)) = self.runs.front()
            && text < self.decided
        {
            reach = token_end;
            if before <= text {
                self.tokens.add(kind, token_end - token);
            }
            if self.decided < text_end {
                break;
            }
            (text, token) = (text_end, token_end);
            self.runs.pop_front();
        }
        self.front = Some((text, token));
        front.1..reach
    }

    /// Counts a deviation.
    pub(crate) fn note(&mut self, code: Code, at: u64) {
        let (count, first) = &mut self.noted[code as usize];
        if *count == 0 {
            *first = at;
        }
        *count += 1;
    }

    /// Nothing more comes: tokens that never had a text are markup.
    pub(crate) fn finish(&mut self) {
        self.tokens.add(Kind::Markup, self.tokens_received - self.tokens.input);
    }

    /// Forgets everything but the allocations.
    pub(crate) fn reset(&mut self) {
        let (mut excess, mut runs) = (std::mem::take(&mut self.excess), std::mem::take(&mut self.runs));
        excess.clear();
        runs.clear();
        *self = Ledger { excess, runs, ..Ledger::default() };
    }

    pub(crate) fn report(&self) -> Report {
        Report {
            bytes: self.bytes,
            tokens: self.front.map(|_| self.tokens),
            examined: self.examined,
            diagnostics: Code::ALL
                .iter()
                .zip(&self.noted)
                .filter(|(_, (count, _))| *count > 0)
                .map(|(&code, &(count, first))| Noted { code, count, first })
                .collect(),
        }
    }
}

/// Where events go: each takes the next bytes of the input as its span.
pub(crate) struct Out<'a, S: ?Sized> {
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) sink: &'a mut S,
}

impl<S: Sink + ?Sized> Out<'_, S> {
    /// Gives an event for the next `len` bytes of the input.
    #[inline]
    pub(crate) fn event(&mut self, event: Event<'_>, len: usize) {
        let span = self.ledger.take(len, event.kind());
        self.sink.event(event, span);
    }

    /// Gives raw text as an event, unless it is empty.
    #[inline]
    pub(crate) fn text<'t>(&mut self, event: fn(&'t str) -> Event<'t>, text: &'t str) {
        if !text.is_empty() {
            self.event(event(text), text.len());
        }
    }

    /// Tells of a deviation at the next byte.
    pub(crate) fn diagnose(&mut self, code: Code) {
        self.ledger.note(code, self.ledger.at());
        self.event(Event::Diagnostic(code), 0);
    }
}
