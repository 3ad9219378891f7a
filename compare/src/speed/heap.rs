//! What the parsers allocate, on streams of two sizes.
//!
//! In: nothing. Out: the most bytes that were live at once while a stream was played, and what was allocated in all. It is
//! a build of its own, since counting needs an allocator of its own: `--features heap`.

use allocation_counter::measure;
use kimi_xtml::{Parser, Request};
use kimi_xtml_benches::{Cut, shape};

use super::{About, Allocated, Heap, K, PARSERS, about, parsers, play, stream, wrong};
use crate::heard::Heard;
use crate::peers;

const SHAPES: [&str; 4] = ["reasoning", "code", "object", "calls"];
const SIZES: [usize; 2] = [64 * K, K * K];

/// Counts everything.
pub(crate) fn count() -> anyhow::Result<Heap> {
    let mut streams = Vec::new();
    for listed in parsers()? {
        let play = play(&listed)?;
        let ways = if listed.name == PARSERS[0] { &[false, true][..] } else { &[false] };
        for name in SHAPES {
            for &streamed in ways.iter().filter(|&&streamed| !streamed || name == "object") {
                for size in SIZES {
                    let made = shape(name).expect("the list names shapes").stream(size, 1);
                    let mut played = stream(&made, Cut::Bytes(K));
                    played.request.stream_json = streamed;
                    let wrong = wrong(&made.answer, &peers::play(play, &played, Heard::default()));
                    let counted = measure(|| drop(peers::play(play, &played, Heard::forgetful())));
                    streams.push(Allocated {
                        parser: listed.name.clone() + if streamed { ", stream_json" } else { "" },
                        shape: name.into(),
                        size,
                        bytes: made.text.len(),
                        most: counted.bytes_max,
                        all: counted.bytes_total,
                        wrong,
                    });
                }
            }
        }
    }
    let request = || Request::new().tools(["read_file", "write_file", "search"]);
    let (first, mut second) = (request(), Some(request()));
    let mut parser = Parser::default();
    let new = measure(|| parser = Parser::new(first)).count_total;
    let reset = measure(|| second.take().into_iter().for_each(|request| parser.reset(request))).count_total;
    // `compare/run speed` makes this build and runs it.
    let about = About { command: "compare/run speed".into(), ..about()? };
    Ok(Heap { about, streams, new, reset })
}
