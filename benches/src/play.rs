//! A stream played through the parser: an input, a sink.
//!
//! In: streams and how to cut them. Out: a [`Case`], which plays one of them after the other, over and over, as an embedder
//! would: one parser that is reset, sinks that keep their buffers. Held: the deltas, made before the time counts.

use std::hint::black_box;

use bytes::BytesMut;
use kimi_xtml::{Chat, Choice, Delta, Event, Frames, IdPolicy, Marker, Parser, Request, Sink, Span};
use serde_json::Value;

use crate::streams::{Answer, Cut, Stream, Token};

/// The parser's way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// `push`, of text cut like this.
    Text(Cut),
    /// `push_text` and `push_marker`, of tokens.
    Pieces,
    /// `push_token`.
    Tokens,
    /// `push_with_ids`, of so many tokens at once.
    WithIds(usize),
}

impl Input {
    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Input::Text(cut) => cut.name(),
            Input::Pieces => "pieces".into(),
            Input::Tokens => "push_token".into(),
            Input::WithIds(tokens) => format!("push_with_ids, {tokens}"),
        }
    }
}

/// The parser's way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sinks {
    /// Events, which are looked at.
    Events,
    /// Chat Completions deltas, in the reused buffer of [`Chat`].
    Chat,
    /// Server-sent frames, in a reused [`BytesMut`].
    Frames,
}

impl Sinks {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Sinks::Events => "events",
            Sinks::Chat => "chat",
            Sinks::Frames => "frames",
        }
    }
}

/// Streams, ready to be played.
pub struct Case<'a> {
    plays: Vec<Play<'a>>,
    next: usize,
    parser: Parser,
    chat: Chat,
    frames: Frames,
    out: BytesMut,
    sink: Sinks,
}

struct Play<'a> {
    request: &'a Request,
    deltas: Deltas<'a>,
}

enum Deltas<'a> {
    Text(Vec<&'a str>),
    Pieces(Vec<Result<&'a str, Marker>>),
    Tokens(Vec<Token<'a>>),
    WithIds(Vec<(String, Vec<u32>)>),
}

impl<'a> Case<'a> {
    /// Streams played like this. Plays each, and compares what comes with its answer.
    ///
    /// # Errors
    /// The number of the stream whose answer is wrong.
    pub fn new(streams: &'a [Stream], input: Input, sink: Sinks) -> Result<Case<'a>, String> {
        let play = |stream: &'a Stream| Play { request: &stream.request, deltas: Deltas::of(stream, input) };
        let mut case = Case {
            plays: streams.iter().map(play).collect(),
            next: 0,
            parser: Parser::new(Request::new()),
            chat: chat(),
            frames: Frames::new("chatcmpl-0123456789abcdef01234567", 1_790_000_000, "kimi-k3"),
            out: BytesMut::new(),
            sink,
        };
        for (number, stream) in streams.iter().enumerate() {
            let answer = case.answer(number);
            if answer != stream.answer {
                return Err(format!("stream {number} gives another answer than it was made from"));
            }
        }
        Ok(case)
    }

    /// Streams of the case.
    pub fn len(&self) -> usize {
        self.plays.len()
    }

    /// Whether it has no streams.
    pub fn is_empty(&self) -> bool {
        self.plays.is_empty()
    }

    /// Deltas of all streams.
    pub fn deltas(&self) -> usize {
        self.plays.iter().map(|play| play.deltas.len()).sum()
    }

    /// Plays all streams.
    pub fn play_all(&mut self) {
        for _ in 0..self.len() {
            self.play();
        }
    }

    /// Plays the next stream.
    pub fn play(&mut self) {
        let Case { plays, next, parser, chat, frames, out, sink } = self;
        let play = &plays[*next];
        *next = (*next + 1) % plays.len();
        parser.reset(play.request.clone());
        match sink {
            Sinks::Events => play.to(parser, &mut Look),
            Sinks::Chat => play.to(parser, &mut ChatOnly(chat)),
            Sinks::Frames => play.to(parser, &mut Sse { chat, choice: frames.choice(0), out }),
        }
    }

    /// What comes out of a stream, by the same way.
    fn answer(&mut self, number: usize) -> Answer {
        let Case { plays, parser, chat, frames, out, sink, .. } = self;
        let play = &plays[number];
        parser.reset(play.request.clone());
        let mut answer = Answer::default();
        match sink {
            Sinks::Events => play.to(parser, &mut answer),
            Sinks::Chat => play.to(parser, &mut Told(&mut ChatOnly(chat), &mut answer)),
            Sinks::Frames => play.to(parser, &mut Told(&mut Sse { chat, choice: frames.choice(0), out }, &mut answer)),
        }
        answer
    }
}

impl Play<'_> {
    fn to(&self, parser: &mut Parser, sink: &mut impl Taker) {
        match &self.deltas {
            Deltas::Text(deltas) => {
                for text in deltas {
                    parser.push(text, sink);
                    sink.take();
                }
            }
            Deltas::Pieces(deltas) => {
                for piece in deltas {
                    match piece {
                        Ok(text) => parser.push_text(text, sink),
                        Err(marker) => parser.push_marker(*marker, sink),
                    }
                    sink.take();
                }
            }
            Deltas::Tokens(deltas) => {
                for (id, text) in deltas {
                    parser.push_token(text, *id, sink);
                    sink.take();
                }
            }
            Deltas::WithIds(deltas) => {
                for (text, ids) in deltas {
                    parser.push_with_ids(text, ids, sink);
                    sink.take();
                }
            }
        }
        parser.finish("stop", sink);
        sink.take();
    }
}

impl<'a> Deltas<'a> {
    fn of(stream: &'a Stream, input: Input) -> Deltas<'a> {
        let tokens = || stream.tokens();
        match input {
            Input::Text(cut) => Deltas::Text(stream.cut(cut)),
            Input::Pieces => {
                let piece = |(id, text)| Marker::from_id(id).map_or(Ok(text), Err);
                Deltas::Pieces(tokens().into_iter().map(piece).collect())
            }
            Input::Tokens => Deltas::Tokens(tokens()),
            Input::WithIds(count) => {
                let delta = |tokens: &[Token<'_>]| tokens.iter().map(|&(id, text)| (text, id)).unzip();
                Deltas::WithIds(tokens().chunks(count).map(delta).collect())
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Deltas::Text(deltas) => deltas.len(),
            Deltas::Pieces(deltas) => deltas.len(),
            Deltas::Tokens(deltas) => deltas.len(),
            Deltas::WithIds(deltas) => deltas.len(),
        }
    }
}

fn chat() -> Chat {
    Chat::new(IdPolicy::numbered(0)).without_message()
}

/// A sink that is asked after each delta.
trait Taker: Sink {
    /// Uses what came, and clears it.
    fn take(&mut self) {}

    /// Adds what came to an answer.
    fn tell(&self, _: &mut Answer) {}
}

impl Taker for Answer {}

/// Looks at the events.
struct Look;

impl Sink for Look {
    fn event(&mut self, event: Event<'_>, span: Span) {
        black_box(&event);
        black_box(&span);
    }
}

impl Taker for Look {}

/// Looks at the deltas.
struct ChatOnly<'c>(&'c mut Chat);

impl Sink for ChatOnly<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) {
        self.0.event(event, span);
    }
}

impl Taker for ChatOnly<'_> {
    fn take(&mut self) {
        for delta in self.0.deltas() {
            black_box(delta);
        }
        self.0.clear();
    }

    fn tell(&self, answer: &mut Answer) {
        for delta in self.0.deltas() {
            match delta {
                Delta::Reasoning(text) => answer.reasoning += text,
                Delta::Content(text) => answer.content += text,
                Delta::CallStart { name, .. } => answer.calls.push((name.into(), String::new())),
                Delta::Arguments { index, json } => answer.calls[index].1 += json,
                _ => {}
            }
        }
    }
}

/// Writes frames, and looks at their bytes.
struct Sse<'c> {
    chat: &'c mut Chat,
    choice: Choice,
    out: &'c mut BytesMut,
}

impl Sink for Sse<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) {
        self.chat.event(event, span);
    }
}

impl Taker for Sse<'_> {
    fn take(&mut self) {
        self.choice.write(self.chat, self.out);
        black_box(&self.out[..]);
        self.out.clear();
    }

    fn tell(&self, answer: &mut Answer) {
        // Frames of the deltas that are about to be written; those of the choice's phase hold no text.
        let mut out = BytesMut::new();
        let mut choice = Frames::new("", 0, "").choice(0);
        for delta in self.chat.deltas() {
            choice.delta(delta, kimi_xtml::Extras::default(), &mut out);
        }
        let text = std::str::from_utf8(&out).expect("frames are text");
        for frame in text.split_terminator("\n\n") {
            let frame: Value = serde_json::from_str(&frame["data: ".len()..]).expect("frames are JSON");
            let delta = &frame["choices"][0]["delta"];
            answer.reasoning += delta["reasoning_content"].as_str().unwrap_or_default();
            answer.content += delta["content"].as_str().unwrap_or_default();
            let function = &delta["tool_calls"][0]["function"];
            if let Some(name) = function["name"].as_str() {
                answer.calls.push((name.into(), String::new()));
            }
            if let (Some(json), Some((_, arguments))) = (function["arguments"].as_str(), answer.calls.last_mut()) {
                *arguments += json;
            }
        }
    }
}

/// A taker, and the answer that it is told to.
struct Told<'t, T>(&'t mut T, &'t mut Answer);

impl<T: Taker> Sink for Told<'_, T> {
    fn event(&mut self, event: Event<'_>, span: Span) {
        self.0.event(event, span);
    }
}

impl<T: Taker> Taker for Told<'_, T> {
    fn take(&mut self) {
        self.0.tell(self.1);
        self.0.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{SHAPES, shape};

    const SINKS: [Sinks; 3] = [Sinks::Events, Sinks::Chat, Sinks::Frames];

    fn inputs() -> impl Iterator<Item = Input> {
        let others = [Input::Pieces, Input::Tokens, Input::WithIds(1), Input::WithIds(8)];
        Cut::ALL.map(Input::Text).into_iter().chain(others)
    }

    #[test]
    fn every_way_gives_the_answer() {
        for shape in SHAPES {
            let streams = [3, 4].map(|number| shape.stream(3_000, number));
            assert_ne!(streams[0].text, streams[1].text, "{}", shape.name);
            for input in inputs() {
                for sink in SINKS {
                    let mut case = Case::new(&streams, input, sink)
                        .unwrap_or_else(|wrong| panic!("{}, {input:?}, {sink:?}: {wrong}", shape.name));
                    case.play_all();
                    assert!(case.deltas() >= 2);
                }
            }
        }
    }

    #[test]
    fn a_wrong_answer_is_told() {
        for name in ["turn", "agent"] {
            let mut stream = shape(name).unwrap().stream(2_000, 1);
            match stream.answer.calls.last_mut() {
                Some((_, arguments)) => arguments.insert_str(1, "\"more\":1,"),
                None => stream.answer.content.push('!'),
            }
            for sink in SINKS {
                assert!(
                    Case::new(std::slice::from_ref(&stream), Input::Text(Cut::Bytes(4)), sink).is_err(),
                    "{sink:?}"
                );
            }
        }
    }
}
