//! A stream that a parser gets wrong -> the smallest that it still gets wrong in the same way.
//!
//! In: an example and the rule that it breaks. Out: fewer deltas, then shorter ones. What must come of a shortened stream is
//! what the twin of this project's parser makes of it; one that deviates from the format where the whole one did not is
//! not taken, so that the smallest stream is still a stream that a model could generate.

use kimi_xtml::{Code, Event, Parser, sink_fn};

use crate::classify::{Class, classify};
use crate::heard::Heard;
use crate::peers::Peer;
use crate::run::Example;
use crate::stream::{Outcome, Stream};

/// Streams that are tried for one example.
const TRIES: usize = 600;

/// Shrinks an example of a rule.
pub(crate) fn minimize(peer: &mut dyn Peer, example: &Example, class: Class, rule: &str) -> Example {
    let Some((_, codes)) = read(&example.stream) else { return example.clone() };
    let mut search = Search { peer, class, rule, codes, tries: 0, best: example.clone() };
    if example.stream.identity || class == Class::ChunkDependent || !search.take(example.stream.chunks.clone()) {
        return example.clone();
    }
    search.fewer();
    search.joined();
    search.shorter();
    search.fewer();
    search.best
}

struct Search<'a> {
    peer: &'a mut dyn Peer,
    class: Class,
    rule: &'a str,
    codes: Vec<Code>,
    tries: usize,
    best: Example,
}

impl Search<'_> {
    /// Takes a stream if it fails in the same way.
    fn take(&mut self, chunks: Vec<String>) -> bool {
        if self.tries >= TRIES {
            return false;
        }
        self.tries += 1;
        let stream = Stream { chunks, ids: None, accepted: Vec::new(), ..self.best.stream.clone() };
        let Some((said, codes)) = read(&stream) else { return false };
        if codes.iter().any(|code| !self.codes.contains(code)) {
            return false;
        }
        let stream = Stream { accepted: vec![said], ..stream };
        let heard = self.peer.play(std::slice::from_ref(&stream)).pop().unwrap_or_default();
        let differences = classify(&stream, &heard);
        let fails = differences.iter().any(|it| it.class == self.class && it.rule == self.rule);
        if fails {
            self.best = Example { stream, heard, differences };
        }
        fails
    }

    /// Leaves runs of deltas away, long ones first.
    fn fewer(&mut self) {
        let mut run = self.best.stream.chunks.len() / 2;
        while run > 0 {
            let mut at = 0;
            while at < self.best.stream.chunks.len() {
                let mut chunks = self.best.stream.chunks.clone();
                chunks.drain(at..(at + run).min(chunks.len()));
                if !self.take(chunks) {
                    at += run;
                }
            }
            run /= 2;
        }
    }

    /// Joins neighbours.
    fn joined(&mut self) {
        let mut at = 0;
        while at + 1 < self.best.stream.chunks.len() {
            let mut chunks = self.best.stream.chunks.clone();
            let next = chunks.remove(at + 1);
            chunks[at] += &next;
            if !self.take(chunks) {
                at += 1;
            }
        }
    }

    /// Leaves runs of characters away.
    fn shorter(&mut self) {
        let mut number = 0;
        while number < self.best.stream.chunks.len() {
            let mut run = self.best.stream.chunks[number].chars().count() / 2;
            while run > 0 {
                let mut at = 0;
                while at < self.best.stream.chunks[number].chars().count() {
                    let mut chunks = self.best.stream.chunks.clone();
                    let kept = chunks[number].chars().enumerate().filter(|(n, _)| !(at..at + run).contains(n));
                    chunks[number] = kept.map(|(_, c)| c).collect();
                    if !self.take(chunks) {
                        at += run;
                    }
                }
                run /= 2;
            }
            number += 1;
        }
    }
}

/// What this project reads in a stream, and where it deviates.
fn read(stream: &Stream) -> Option<(Outcome, Vec<Code>)> {
    let mut heard = Heard::default();
    let mut completes = Vec::new();
    let mut codes = Vec::new();
    let mut sink = sink_fn(|event, _| match event {
        Event::Diagnostic(code) => codes.push(code),
        Event::Reasoning(text) => heard.say(0, crate::heard::Kind::Reasoning, 0, text),
        Event::Content(text) => heard.say(0, crate::heard::Kind::Content, 0, text),
        Event::CallStart { call, name } => heard.say(0, crate::heard::Kind::Name, call, name),
        event => {
            if let Some((call, json)) = event.json() {
                heard.say(0, crate::heard::Kind::Arguments, call, json);
            }
            if let Event::CallEnd { complete, .. } = event {
                completes.push(complete);
            }
        }
    });
    let mut parser = Parser::new(stream.request.clone());
    parser.push(&stream.text(), &mut sink);
    parser.finish(&stream.reason, &mut sink);
    let mut outcome = heard.outcome();
    for (call, complete) in outcome.calls.iter_mut().zip(completes) {
        call.complete = complete;
    }
    Some((outcome, codes))
}
