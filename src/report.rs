//! Where each byte and token of the input went.
//!
//! In: how much came in, and how much of it was just decided as what. Out: spans, in order and without a gap, and
//! the report. Held: about a byte for each token, and each replaced sequence, whose text is undecided.

use std::ops::Range;

use crate::diagnostic::Code;
use crate::event::{Event, Kind, Span};
use crate::sink::Sink;
use crate::steps::{Point, Steps};

/// How much of the input went where, in bytes or in tokens. `input` is the sum of the others.
///
/// ```
/// use kimi_xtml::{Channel, Parser, Request};
///
/// let mut parser = Parser::new(Request::new().opened(Channel::Think));
/// parser.push("Hm.<|close|>think<|sep|>", &mut ());
/// let bytes = parser.report().bytes;
/// assert_eq!((bytes.reasoning, bytes.markup, bytes.input), (3, 21, 24));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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

/// How much went where, by kind.
type Kinds = [u64; 6];

impl From<Kinds> for Counts {
    fn from(kinds: Kinds) -> Counts {
        let of = |kind: Kind| kinds[kind as usize];
        Counts {
            input: kinds.iter().sum(),
            reasoning: of(Kind::Reasoning),
            content: of(Kind::Content),
            arguments: of(Kind::Arguments),
            markup: of(Kind::Markup),
            withheld: of(Kind::Withheld),
            dropped: of(Kind::Dropped),
        }
    }
}

/// How often a deviation was met.
///
/// ```
/// use kimi_xtml::{Code, Parser, Request};
///
/// let mut parser = Parser::new(Request::new());
/// parser.push("Hi<|close|>think<|sep|>", &mut ());
/// parser.finish("stop", &mut ());
/// let report = parser.report();
/// let noted = report.diagnostics.iter().find(|noted| noted.code == Code::OrphanClose).unwrap();
/// assert_eq!((noted.count, noted.first), (1, 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Noted {
    /// The deviation.
    pub code: Code,
    /// How often it was met.
    pub count: u64,
    /// The byte offset of the first.
    pub first: u64,
}

/// What the parser did so far. Its size does not grow with the stream.
///
/// ```
/// use kimi_xtml::{Channel, Marker, Parser, Request};
///
/// let mut parser = Parser::new(Request::new().opened(Channel::Think));
/// parser.push_token("Hm", 39, &mut ());
/// parser.push_token("", Marker::Close.id(), &mut ());
/// parser.finish("length", &mut ());
/// let report = parser.report();
/// let tokens = report.tokens.unwrap(); // ids were given
/// assert_eq!((tokens.input, tokens.reasoning), (2, 1));
/// assert_eq!(report.diagnostics.len(), 2); // the tag was cut, and thinking never closed
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report {
    /// Bytes of the input whose fate is decided.
    pub bytes: Counts,
    /// Tokens whose fate is decided, where ids were given. A token counts as what its first byte is; one that
    /// never had a text, as markup.
    pub tokens: Option<Counts>,
    /// Bytes that lexing looked at, some of them twice: at most twice the input. They are counted as decoded, where each U+FFFD
    /// that stands for invalid bytes has three; all other counts are of the input's own bytes.
    pub examined: u64,
    /// Each deviation that was met, in the order of [`Code::ALL`].
    pub diagnostics: Vec<Noted>,
}

/// What was counted as arguments so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    bytes: u64,
    tokens: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Text received and text decided so far, in bytes as decoded.
    received: u64,
    decided: u64,
    /// U+FFFD has three bytes and may stand for fewer in the input. For each one that is undecided: where it ends in the text,
    /// and by how many bytes the text up to there is longer than the input.
    excess: Steps,
    /// Runs of tokens whose text is undecided: where the text of each run ends, and how many tokens came up to there.
    runs: Steps,
    /// Whether there are ids.
    has_ids: bool,
    tokens_received: u64,
    pub(crate) examined: u64,
    bytes: Kinds,
    tokens: Kinds,
    /// Count and first offset, by code.
    noted: [(u64, u64); Code::ALL.len()],
}

impl Ledger {
    /// The input offset of the first undecided byte.
    #[inline]
    pub(crate) fn at(&self) -> u64 {
        self.decided - self.excess.start().count
    }

    /// The text received so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Text came in.
    pub(crate) fn receive(&mut self, text: &str) {
        self.received += text.len() as u64;
    }

    /// A U+FFFD came in for `raw` bytes that are no UTF-8.
    pub(crate) fn receive_invalid(&mut self, raw: usize) {
        // Only the first is told of, and before it nothing was replaced.
        self.note(Code::InvalidUtf8, self.received);
        self.receive_replacement(raw);
    }

    /// A U+FFFD came in for `raw` bytes.
    pub(crate) fn receive_replacement(&mut self, raw: usize) {
        self.received += 3;
        if raw < 3 {
            let count = self.excess.end().count + 3 - raw as u64;
            self.excess.push(Point { text: self.received, count });
        }
    }

    /// `count` ids came in. Gives the number of the first.
    #[inline]
    pub(crate) fn receive_tokens(&mut self, count: usize) -> u64 {
        if !std::mem::replace(&mut self.has_ids, true) {
            self.runs.restart(Point { text: self.decided, count: 0 });
        }
        let first = self.tokens_received;
        self.tokens_received += count as u64;
        first
    }

    /// Says that the text before byte `text` came from the tokens before number `token`. The part of it that is in no run yet
    /// becomes one.
    #[inline]
    pub(crate) fn cover(&mut self, text: u64, token: u64) {
        let runs = &mut self.runs;
        if !runs.is_empty() && runs.end().count == token {
            runs.extend(text);
        } else if runs.end().text < text {
            runs.push(Point { text, count: token });
        }
    }

    /// The next `len` bytes of text are decided.
    #[inline]
    pub(crate) fn take(&mut self, len: usize, kind: Kind) -> Span {
        let (before, start) = (self.decided, self.at());
        self.decided += len as u64;
        if !self.excess.is_empty() {
            self.pass_excess();
        }
        let end = self.at();
        self.bytes[kind as usize] += end - start;
        Span { bytes: start..end, tokens: if self.has_ids { Some(self.take_tokens(before, kind)) } else { None } }
    }

    /// Forgets each U+FFFD that is decided now.
    #[cold]
    fn pass_excess(&mut self) {
        while self.excess.first().is_some_and(|end| end.text <= self.decided) {
            self.excess.pop();
        }
    }

    /// The tokens of the text from `before` to what is decided now.
    #[inline(never)]
    fn take_tokens(&mut self, before: u64, kind: Kind) -> Range<u64> {
        let runs = &mut self.runs;
        let (start, end) = (runs.start(), runs.end());
        if runs.is_single() && start.text == before && end.text == self.decided {
            // Mostly the text is that of all tokens that are undecided.
            self.tokens[kind as usize] += end.count - start.count;
            runs.pop();
            return start.count..end.count;
        }
        self.take_each(before, kind)
    }

    fn take_each(&mut self, before: u64, kind: Kind) -> Range<u64> {
        let runs = &mut self.runs;
        let first = runs.start().count;
        let mut reach = first;
        while let Some(end) = runs.first()
            && before < self.decided
            && runs.start().text < self.decided
        {
            reach = end.count;
            if before <= runs.start().text {
                self.tokens[kind as usize] += end.count - runs.start().count;
            }
            if self.decided < end.text {
                break;
            }
            runs.pop();
        }
        first..reach
    }

    /// What was counted as arguments so far.
    pub(crate) fn tally(&self) -> Tally {
        let arguments = Kind::Arguments as usize;
        Tally { bytes: self.bytes[arguments], tokens: self.tokens[arguments] }
    }

    /// Counts as dropped what was counted as arguments since `before`.
    pub(crate) fn drop_arguments_since(&mut self, before: Tally) {
        for (kinds, before) in [(&mut self.bytes, before.bytes), (&mut self.tokens, before.tokens)] {
            let arguments = std::mem::replace(&mut kinds[Kind::Arguments as usize], before);
            kinds[Kind::Dropped as usize] += arguments - before;
        }
    }

    /// Counts a deviation.
    pub(crate) fn note(&mut self, code: Code, at: u64) {
        let (count, first) = &mut self.noted[code as usize];
        if *count == 0 {
            *first = at;
        }
        *count += 1;
    }

    /// The stream has ended: tokens that never had a text count as markup.
    pub(crate) fn finish(&mut self) {
        self.tokens[Kind::Markup as usize] += self.tokens_received - self.tokens.iter().sum::<u64>();
    }

    /// Forgets everything, and keeps the memory for the next stream.
    pub(crate) fn reset(&mut self) {
        let (mut excess, mut runs) = (std::mem::take(&mut self.excess), std::mem::take(&mut self.runs));
        excess.restart(Point::default());
        runs.restart(Point::default());
        *self = Ledger { excess, runs, ..Ledger::default() };
    }

    pub(crate) fn report(&self) -> Report {
        Report {
            bytes: self.bytes.into(),
            tokens: self.has_ids.then(|| self.tokens.into()),
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

    /// Gives the event of a call's header of `len` bytes. Before it, says where in the header the tool's name is.
    pub(crate) fn header(&mut self, event: Event<'_>, len: usize, name: Range<usize>) {
        let mut span = self.ledger.take(name.start, event.kind());
        let mut of_name = self.ledger.take(name.len(), event.kind());
        if let (Some(before), Some(tokens)) = (&span.tokens, &mut of_name.tokens) {
            *tokens = before.end..tokens.end.max(before.end);
        }
        span.extend(&of_name);
        span.extend(&self.ledger.take(len - name.end, event.kind()));
        self.sink.call_name(of_name);
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
    /// Tells of a deviation at the beginning of text that was already given a span.
    pub(crate) fn diagnose_at(&mut self, code: Code, span: &Span) {
        self.ledger.note(code, span.bytes.start);
        self.sink.event(Event::Diagnostic(code), span.start());
    }
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;

    use super::*;

    /// Each token, and each replaced sequence, of undecided text takes a byte; growth, as much once more.
    #[test]
    fn undecided_text_takes_little_memory() {
        let tokens = measure(|| {
            let mut ledger = Ledger::default();
            for _ in 0..16 << 10 {
                let number = ledger.receive_tokens(1);
                ledger.receive("y");
                ledger.cover(ledger.received(), number + 1);
            }
            assert_eq!(ledger.take(16 << 10, Kind::Dropped).tokens, Some(0..16 << 10));
        });
        assert!(tokens.bytes_max <= 32 << 10, "{} bytes", tokens.bytes_max);
        let replacements = measure(|| {
            let mut ledger = Ledger::default();
            (0..16 << 10).for_each(|_| ledger.receive_invalid(1));
            assert_eq!(ledger.take(48 << 10, Kind::Dropped).bytes, 0..16 << 10);
        });
        assert!(replacements.bytes_max <= 32 << 10, "{} bytes", replacements.bytes_max);
    }
}
