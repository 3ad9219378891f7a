//! Stop strings, which end the answer and nothing else.
//!
//! In: events. Out: the same events into another sink, content only up to the first stop string, nothing after it. Held: the
//! end of the content while it may be the beginning of a stop string.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::Range;

use crate::api::usage::Usage;
use crate::event::{Event, Span};
use crate::report::Report;
use crate::sink::Sink;

/// A sink before another one, which looks for stop strings in the answer: not in reasoning, nor in calls.
///
/// Ask after each push whether one was [`met`](Stop::met): the generation may end there, and whatever more is pushed goes
/// nowhere. After the parser's finish [`flush`](Stop::flush) gives out what is held. Of several stop strings the one counts that
/// is complete first, of two that end together the longer. One that a tag interrupts is none.
///
/// ```
/// use kimi_xtml::{Channel, Chat, Delta, Parser, Request, Stop};
///
/// let mut parser = Parser::new(Request::new().opened(Channel::Response));
/// let mut sink = Stop::new(Chat::default(), ["END"]);
/// parser.push_token("one E", 1, &mut sink);
/// assert_eq!(sink.inner().deltas().collect::<Vec<_>>(), [Delta::Content("one ")]); // the E may begin a stop string
/// parser.push_token("ND two", 2, &mut sink);
/// assert_eq!(sink.met(), Some("END"));
/// assert_eq!(sink.inner().message().unwrap().content, "one ");
///
/// // The second token begins after the cut.
/// let cut = sink.cut().unwrap();
/// assert_eq!((cut.bytes.start, cut.tokens.as_ref().unwrap().start), (4, 1));
/// assert_eq!(sink.usage(&parser.report()).unwrap().completion_tokens, 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stop<S> {
    sink: S,
    patterns: Vec<Pattern>,
    /// The texts of `held`, one after the other.
    text: String,
    held: VecDeque<Held>,
    /// The stop string that was met, and where the answer was cut.
    met: Option<(usize, Span)>,
    /// The tokens that began in what came so far, and those of them that began in reasoning.
    begun: u64,
    reasoning: u64,
}

/// Content that may begin a stop string.
#[derive(Clone, Debug)]
struct Held {
    len: usize,
    span: Span,
    /// The tokens that began before it.
    begun: u64,
}

impl<S: Sink> Stop<S> {
    /// Looks for these strings; empty ones are passed over.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Stop};
    ///
    /// let sink = Stop::new(Chat::default(), ["END", ""]);
    /// assert_eq!(sink.met(), None);
    /// ```
    pub fn new<T: Into<String>>(sink: S, stops: impl IntoIterator<Item = T>) -> Self {
        let stops = stops.into_iter().map(Into::into).filter(|stop| !stop.is_empty());
        Stop {
            sink,
            patterns: stops.map(Pattern::new).collect(),
            text: String::new(),
            held: VecDeque::new(),
            met: None,
            begun: 0,
            reasoning: 0,
        }
    }

    /// The sink that takes what is not cut off.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Stop};
    ///
    /// let sink = Stop::new(Chat::default(), ["END"]);
    /// assert_eq!(sink.inner().deltas().count(), 0);
    /// ```
    pub fn inner(&self) -> &S {
        &self.sink
    }

    /// The same, to take from it.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Stop};
    ///
    /// let mut sink = Stop::new(Chat::default(), ["END"]);
    /// sink.inner_mut().clear();
    /// ```
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// The same, when nothing more comes.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Stop};
    ///
    /// let sink = Stop::new(Chat::default(), ["END"]);
    /// assert_eq!(sink.into_inner().into_message().unwrap().content, "");
    /// ```
    pub fn into_inner(self) -> S {
        self.sink
    }

    /// The stop string that was met.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Parser, Request, Stop};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut sink = Stop::new(Chat::default(), ["END"]);
    /// parser.push("a E", &mut sink);
    /// assert_eq!(sink.met(), None);
    /// parser.push("ND", &mut sink);
    /// assert_eq!(sink.met(), Some("END"));
    /// ```
    pub fn met(&self) -> Option<&str> {
        self.met.as_ref().map(|(stop, _)| &*self.patterns[*stop].text)
    }

    /// The empty span where the answer was cut: where the stop string that was met begins. The tokens before it are those that
    /// began before it. Where ids came several a delta, and the cut is inside of that, all of the delta's count;
    /// [`Tokens::begun_before`](crate::Tokens::begun_before) knows more.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Parser, Request, Stop};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut sink = Stop::new(Chat::default(), ["END"]);
    /// parser.push("a E", &mut sink);
    /// parser.push("ND", &mut sink);
    /// assert_eq!(sink.cut().unwrap().bytes, 2..2);
    /// ```
    pub fn cut(&self) -> Option<&Span> {
        self.met.as_ref().map(|(_, cut)| cut)
    }

    /// Where what is held begins: nothing from there on went out.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Parser, Request, Stop};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut sink = Stop::new(Chat::default(), ["END"]);
    /// parser.push("a E", &mut sink);
    /// assert_eq!(sink.held_from(), Some(2)); // the E
    /// ```
    pub fn held_from(&self) -> Option<u64> {
        self.held.front().map(|held| held.span.bytes.start)
    }

    /// Gives out all that is held: no stop string is being said.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Parser, Request, Stop};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut sink = Stop::new(Chat::default(), ["END"]);
    /// parser.push("a E", &mut sink);
    /// parser.finish("length", &mut sink);
    /// sink.flush();
    /// assert_eq!(sink.inner().message().unwrap().content, "a E");
    /// ```
    pub fn flush(&mut self) {
        self.release(self.text.len());
        self.patterns.iter_mut().for_each(|pattern| pattern.matched = 0);
    }

    /// The tokens that the parser of this report was given, without those that begin after the cut. None if it was given
    /// no ids.
    ///
    /// ```
    /// use kimi_xtml::{Chat, Parser, Request, Stop};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut sink = Stop::new(Chat::default(), ["END"]);
    /// for (text, id) in [("one ", 1), ("END", 2), (" two", 3)] {
    ///     parser.push_token(text, id, &mut sink);
    /// }
    /// assert_eq!(sink.usage(&parser.report()).unwrap().completion_tokens, 1);
    /// ```
    pub fn usage(&self, report: &Report) -> Option<Usage> {
        match self.cut() {
            Some(cut) => Some(Usage::new(0, cut.tokens.as_ref()?.start).with_reasoning_tokens(self.reasoning)),
            None => Usage::from_report(report),
        }
    }

    fn content(&mut self, text: &str, span: Span) {
        let before = self.text.len();
        self.text.push_str(text);
        let len = text.len();
        self.held.push_back(Held { len, begun: self.begun.max(first_token(&span)), span });
        let found = self.patterns.iter_mut().enumerate().filter_map(|(stop, pattern)| {
            let end = pattern.find(text.as_bytes())?;
            Some((end, Reverse(pattern.text.len()), stop))
        });
        let Some((end, Reverse(len), stop)) = found.min() else {
            let begun = self.patterns.iter().map(|pattern| pattern.matched).max();
            return self.release(self.text.len() - begun.unwrap_or(0));
        };
        self.release(before + end - len);
        if let Some(Held { span, begun, .. }) = self.held.pop_front() {
            let tokens = span.tokens.as_ref().map(|_| begun..begun);
            self.met = Some((stop, Span { tokens, ..span.start() }));
        }
        self.held.clear();
        self.text.clear();
    }

    /// Gives out what is held before this byte of it.
    fn release(&mut self, until: usize) {
        let mut from = 0;
        while from < until
            && let Some(Held { len, span, begun }) = self.held.pop_front()
        {
            let end = (from + len).min(until);
            let (text, rest) = self.text[from..from + len].split_at(end - from);
            let span = if rest.is_empty() {
                span
            } else {
                let (head, tail) = split(span, text, rest);
                // Which of the tokens begin in the first part is not known: all of them may.
                let begun = begun.max(tail.tokens.as_ref().map_or(0, |tokens| tokens.end));
                self.held.push_front(Held { len: rest.len(), span: tail, begun });
                head
            };
            self.sink.event(Event::Content(text), span);
            from = end;
        }
        self.text.drain(..until);
    }
}

impl<S: Sink> Sink for Stop<S> {
    fn event(&mut self, event: Event<'_>, span: Span) {
        if self.met.is_some() {
            return;
        }
        let end = span.tokens.as_ref().map_or(0, |tokens| tokens.end);
        match event {
            Event::Content(text) if !self.patterns.is_empty() => self.content(text, span),
            _ => {
                self.flush();
                if let Event::Reasoning(_) = event {
                    self.reasoning += end.saturating_sub(self.begun);
                }
                self.sink.event(event, span);
            }
        }
        self.begun = self.begun.max(end);
    }

    fn call_name(&mut self, span: Span) {
        if self.met.is_none() {
            self.flush();
            self.sink.call_name(span);
        }
    }
}

fn first_token(span: &Span) -> u64 {
    span.tokens.as_ref().map_or(0, |tokens| tokens.start)
}

/// The spans of the two parts of a text. Both may share each of its tokens.
fn split(span: Span, head: &str, tail: &str) -> (Span, Span) {
    let Range { start, end } = span.bytes;
    // A U+FFFD may stand for fewer bytes than it has.
    let at = if head.contains('\u{fffd}') { end.saturating_sub(tail.len() as u64) } else { start + head.len() as u64 };
    let at = at.clamp(start, end);
    (Span { bytes: start..at, tokens: span.tokens.clone() }, Span { bytes: at..end, tokens: span.tokens })
}

/// A stop string, found as the text comes (Knuth, Morris and Pratt).
#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    /// For each beginning of it, how long the longest is that ends it and is shorter.
    borders: Vec<usize>,
    /// How many bytes of it the text so far ends with.
    matched: usize,
}

impl Pattern {
    fn new(text: String) -> Self {
        let mut pattern = Pattern { borders: vec![0], matched: 0, text };
        for at in 1..pattern.text.len() {
            pattern.step(pattern.text.as_bytes()[at]);
            pattern.borders.push(pattern.matched);
        }
        pattern.matched = 0;
        pattern
    }

    /// Reads on. Gives where in `text` the first match ends.
    fn find(&mut self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < text.len() {
            if self.matched == 0 {
                at += memchr::memchr(self.text.as_bytes()[0], &text[at..])?;
            }
            self.step(text[at]);
            at += 1;
            if self.matched == self.text.len() {
                return Some(at);
            }
        }
        None
    }

    fn step(&mut self, byte: u8) {
        let pattern = self.text.as_bytes();
        while self.matched > 0 && pattern[self.matched] != byte {
            self.matched = self.borders[self.matched - 1];
        }
        self.matched += usize::from(pattern[self.matched] == byte);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However the text is cut, the answer ends before the stop string that is complete first.
        #[test]
        fn cuts_at_the_first_that_is_complete(
            parts in prop::collection::vec("[abé]{1,5}", 0..12),
            stops in prop::collection::vec("[abé]{1,4}", 0..4),
        ) {
            let whole = parts.concat();
            let ends = stops.iter().flat_map(|stop| {
                let whole = &whole;
                let found = (0..whole.len()).filter(move |&at| whole.is_char_boundary(at) && whole[at..].starts_with(stop));
                found.map(move |at| (at + stop.len(), at))
            });
            let cut = ends.min().map(|(_, at)| at);
            let mut sink = Stop::new(Vec::new(), stops);
            let mut at = 0;
            for part in &parts {
                let bytes = at..at + part.len() as u64;
                sink.event(Event::Content(part), Span { bytes: bytes.clone(), tokens: None });
                at = bytes.end;
            }
            prop_assert_eq!(sink.cut().map(|cut| cut.bytes.start as usize), cut);
            sink.flush();
            let mut said = String::new();
            for (event, span) in sink.into_inner() {
                let crate::event::OwnedEvent::Content(text) = event else { panic!("{event:?}") };
                prop_assert_eq!(span.bytes, said.len() as u64..(said.len() + text.len()) as u64);
                said += &text;
            }
            prop_assert_eq!(said.as_str(), &whole[..cut.unwrap_or(whole.len())]);
        }
    }

    #[test]
    fn what_cannot_begin_a_stop_string_goes_out_at_once() {
        let mut sink = Stop::new(Vec::new(), ["aab"]);
        let mut at = 0;
        for (text, held) in [("xa", Some(1)), ("a", Some(1)), ("a", Some(2)), ("c", None)] {
            sink.event(Event::Content(text), Span { bytes: at..at + text.len() as u64, tokens: None });
            at += text.len() as u64;
            assert_eq!(sink.held_from(), held, "{text}");
        }
    }

    #[test]
    fn only_content_is_cut() {
        let mut sink = Stop::new(Vec::new(), ["ab"]);
        let json = Event::Arguments { call: 0, json: "ab" };
        for event in [Event::Content("a"), Event::Reasoning("ab"), json, Event::Content("b")] {
            sink.event(event, Span::default());
        }
        assert_eq!((sink.met(), sink.inner().len()), (None, 4));
    }

    #[test]
    fn tokens_that_begin_after_the_cut_do_not_count() {
        for (stop, count) in [("bc", 2), ("cd", 2), ("d", 3), ("ef", 3)] {
            let mut sink = Stop::new((), [stop]);
            sink.event(Event::Reasoning("r"), Span { bytes: 0..1, tokens: Some(0..1) });
            for (at, text) in [(1, "ab"), (3, "cd"), (5, "ef")] {
                let token = at / 2 + 1;
                sink.event(Event::Content(text), Span { bytes: at..at + 2, tokens: Some(token..token + 1) });
            }
            let usage = sink.usage(&Report::default()).unwrap();
            assert_eq!((usage.completion_tokens, usage.reasoning_tokens), (count, 1), "{stop}");
        }
    }
}
