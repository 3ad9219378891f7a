//! This project's parser: text alone, or text with token ids.

use kimi_xtml::{Event, Parser, sink_fn};

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
        let mut sink = sink_fn(|event, _| say(&mut heard, number, event));
        match ids {
            Some(ids) => parser.push_with_ids(chunk, &ids[number], &mut sink),
            None => parser.push(chunk, &mut sink),
        }
    }
    let last = stream.chunks.len();
    parser.finish(&stream.reason, &mut sink_fn(|event, _| say(&mut heard, last, event)));
    heard
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
