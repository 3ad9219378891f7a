//! This project's parser: text alone, or text with token ids.

use kimi_xtml::{Event, Parser, Span};

use crate::heard::{Heard, Kind};
use crate::stream::Stream;

pub(crate) fn by_text(stream: &Stream, heard: Heard) -> Heard {
    play(stream, heard, false)
}

pub(crate) fn by_ids(stream: &Stream, heard: Heard) -> Heard {
    play(stream, heard, true)
}

fn play(stream: &Stream, mut heard: Heard, with_ids: bool) -> Heard {
    let mut parser = Parser::new(stream.request.clone());
    let ids = stream.ids.as_ref().filter(|_| with_ids);
    for (number, chunk) in stream.chunks.iter().enumerate() {
        let mut sink = |event: Event<'_>, _: Span| say(&mut heard, number, event);
        let pushed = match ids {
            Some(ids) => parser.push_with_ids(chunk, &ids[number], &mut sink),
            None => parser.push(chunk, &mut sink),
        };
        if let Err(error) = pushed {
            return Heard::failed(error);
        }
    }
    let last = stream.chunks.len();
    let mut sink = |event: Event<'_>, _: Span| say(&mut heard, last, event);
    match parser.finish(&stream.reason, &mut sink) {
        Ok(_) => heard,
        Err(error) => Heard::failed(error),
    }
}

fn say(heard: &mut Heard, chunk: usize, event: Event<'_>) {
    match event {
        Event::Reasoning(text) => heard.say(chunk, Kind::Reasoning, 0, text),
        Event::Content(text) => heard.say(chunk, Kind::Content, 0, text),
        Event::CallStart { call, name } => heard.say(chunk, Kind::Name, call, name),
        event => {
            if let Some((call, json)) = event.json() {
                heard.say(chunk, Kind::Arguments, call, json);
            }
        }
    }
}
