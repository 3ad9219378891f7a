//! Stop strings, which end the answer and nothing else.
//!
//! In: events. Out: the same events into a [`Chat`], content only up to the first stop string, nothing after it. Held:
//! content that may be the beginning of a stop string, event by event, so that spans stay those of the events.

use std::collections::VecDeque;

use kimi_xtml::{Chat, Event, Sink, Span};

/// A sink that looks for stop strings in content.
#[derive(Debug)]
pub struct Stop {
    /// Where events go.
    pub chat: Chat,
    stops: Vec<String>,
    /// The texts of `held`, one after the other.
    text: String,
    held: VecDeque<(usize, Span)>,
    hit: Option<(usize, Span)>,
}

impl Stop {
    /// Looks for these strings; empty ones are passed over.
    pub fn new(chat: Chat, mut stops: Vec<String>) -> Self {
        stops.retain(|stop| !stop.is_empty());
        Stop { chat, stops, text: String::new(), held: VecDeque::new(), hit: None }
    }

    /// The stop string that was met, and the span of the event that completed it.
    pub fn hit(&self) -> Option<(&str, &Span)> {
        self.hit.as_ref().map(|(stop, span)| (&*self.stops[*stop], span))
    }

    /// The first token whose event is held.
    pub fn first_held(&self) -> Option<u64> {
        self.held.front().and_then(|(_, span)| span.tokens.as_ref()).map(|tokens| tokens.start)
    }

    /// Gives out all that is held: no stop string is being said.
    pub fn flush(&mut self) {
        self.release(self.text.len());
    }

    fn content(&mut self, text: &str, span: Span) {
        self.text.push_str(text);
        self.held.push_back((text.len(), span));
        let found = self.stops.iter().enumerate().filter_map(|(stop, text)| Some((self.text.find(&**text)?, stop)));
        if let Some((start, stop)) = found.min() {
            let before = start - self.release(start);
            if let Some((_, first)) = self.held.pop_front() {
                let last = self.held.pop_back().map_or_else(|| first.clone(), |(_, last)| last);
                if before > 0 {
                    self.chat.event(Event::Content(&self.text[..before]), first);
                }
                self.hit = Some((stop, last));
            }
            self.held.clear();
            return;
        }
        let begins = |&at: &usize| self.stops.iter().any(|stop| stop.starts_with(&self.text[at..]));
        let mut ends = self.text.char_indices().map(|(at, _)| at);
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let from = self.text.len().saturating_sub(longest);
        let start = ends.find(|at| *at >= from && begins(at)).unwrap_or(self.text.len());
        self.release(start);
    }

    /// Gives out the events that end at or before this byte of the held text. Gives how many bytes went out.
    fn release(&mut self, until: usize) -> usize {
        let mut released = 0;
        while self.held.front().is_some_and(|(len, _)| released + len <= until)
            && let Some((len, span)) = self.held.pop_front()
        {
            self.chat.event(Event::Content(&self.text[released..released + len]), span);
            released += len;
        }
        self.text.drain(..released);
        released
    }
}

impl Sink for Stop {
    fn event(&mut self, event: Event<'_>, span: Span) {
        match event {
            _ if self.hit.is_some() => {}
            Event::Content(text) if !self.stops.is_empty() => self.content(text, span),
            Event::Diagnostic(_) => {}
            _ => {
                self.flush();
                self.chat.event(event, span);
            }
        }
    }
}
