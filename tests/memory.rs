//! I8: memory does not grow with the stream.
//!
//! In: reasoning, content, a string argument of 64 KB and of 16 MB, through every kind of push. Counted: the parser's
//! own allocations, since the chunks are borrowed and the sink keeps nothing.

use allocation_counter::{AllocationInfo, measure};
use kimi_xtml::{Channel, Marker, Parser, Request};

mod support;

use support::{Push, spell};

/// A chunk of each kind of text: ASCII, wide characters, what JSON escapes most, what looks like a marker.
const CHUNKS: &[&str] = &[
    "The quick brown fox jumps over the lazy dog",
    "añ中😀\u{2028}é",
    "\u{1}\u{2}\u{3}\"\\\n",
    "a <<3*4=12>> <|clo <|open|x <",
    "{\"k\": [1, 2]}, &quot; =",
];

/// What opens each kind of text.
const OPENERS: &[&str] = &[
    "",
    "{/think}{response}",
    "{/think}{tools}{call tool=\"f\" index=\"1\"}{argument key=\"k\" type=\"string\"}",
    "{/think}{tools}{call tool=\"f\" index=\"1\"}{json}",
];

fn request() -> Request {
    Request::new().opened(Channel::Think).tools(["f"])
}

/// Every kind of push for a chunk of plain text, often enough for `len` bytes.
fn pushes(chunk: &str, len: usize) -> [(Vec<Push<'_>>, usize); 6] {
    let (head, tail) = chunk.as_bytes().split_at(chunk.len() / 2);
    let times = len / chunk.len();
    let chars = support::chars(chunk).into_iter();
    [
        (vec![Push::Text(chunk)], times),
        (vec![Push::Bytes(head), Push::Bytes(tail)], times),
        (chars.clone().map(Push::Text).collect(), times),
        (vec![Push::Quoted(chunk)], times),
        (chars.map(|c| Push::Token(1_000, c)).collect(), times),
        (vec![Push::WithIds("", &[1_000, 1_001]), Push::WithIds(chunk, &[1_002])], times),
    ]
}

/// What the parser allocates for a stream: all of it; what of it after the first thousand pushes.
fn allocated(opener: &str, pushes: &[Push<'_>], times: usize) -> (AllocationInfo, AllocationInfo) {
    let request = request();
    let mut after = AllocationInfo::default();
    let all = measure(|| {
        let mut parser = Parser::new(request);
        parser.push(opener, &mut ());
        let mut push_all = |times| {
            for push in (0..times).flat_map(|_| pushes) {
                push.to(&mut parser, &mut ());
            }
        };
        let warm = times.min(1_000);
        push_all(warm);
        after = measure(|| push_all(times - warm));
        parser.finish("stop", &mut ());
    });
    (all, after)
}

#[test]
fn i8_memory_does_not_grow() {
    for opener in OPENERS {
        let opener = spell(opener);
        for chunk in CHUNKS {
            for ((small, few), (large, many)) in pushes(chunk, 64 << 10).into_iter().zip(pushes(chunk, 256 << 10)) {
                let (small, _) = allocated(&opener, &small, few);
                let (all, after) = allocated(&opener, &large, many);
                assert_eq!(all.bytes_max, small.bytes_max, "{opener} {:?}", large[0]);
                assert!(all.bytes_max <= 4_096, "{opener} {:?}: {} bytes", large[0], all.bytes_max);
                assert_eq!(after.count_total, 0, "{opener} {:?}", large[0]);
            }
        }
    }
}

#[test]
fn i8_memory_of_64_kilobytes_and_16_megabytes() {
    for opener in &OPENERS[..3] {
        let opener = spell(opener);
        let chunk = CHUNKS.concat();
        let push = [Push::Text(&chunk)];
        let (small, _) = allocated(&opener, &push, (64 << 10) / chunk.len());
        let (large, after) = allocated(&opener, &push, (16 << 20) / chunk.len());
        assert_eq!(large.bytes_max, small.bytes_max, "{opener}");
        assert!(large.bytes_max <= 4_096, "{opener}: {} bytes", large.bytes_max);
        assert_eq!(after.count_total, 0, "{opener}");
    }
}

/// One push may be as long as it likes.
#[test]
fn i8_memory_of_one_push() {
    for opener in &OPENERS[..3] {
        let opener = spell(opener);
        for chunk in CHUNKS {
            let text = chunk.repeat((1 << 20) / chunk.len());
            let (all, _) = allocated(&opener, &[Push::Text(&text)], 1);
            assert!(all.bytes_max <= 4_096, "{opener} {chunk}: {} bytes", all.bytes_max);
        }
    }
}

#[test]
fn i8_memory_of_a_parser() {
    let none = measure(|| {
        let mut parser = Parser::new(Request::new());
        parser.push("plain text, é", &mut ());
        parser.push_bytes("中".as_bytes(), &mut ());
        parser.finish("stop", &mut ());
        assert_eq!(parser.channel(), None);
    });
    assert_eq!(none.count_total, 0);
}

#[test]
fn i8_memory_of_tokens_without_text() {
    for opener in OPENERS {
        let (all, _) = allocated(&spell(opener), &[Push::Token(1_000, "")], 100_000);
        assert!(all.bytes_max <= 4_096, "{opener}: {} bytes", all.bytes_max);
    }
}

/// Ids of control tokens whose text never comes: a thousand are waited for.
#[test]
fn i8_memory_of_ids_without_text() {
    for opener in OPENERS {
        for id in [163_585, 163_587, 163_588, 163_589] {
            let push = [Push::WithIds("", &[id]), Push::WithIds("a", &[1_000])];
            let [(small, _), (large, _)] = [2_000, 40_000].map(|times| allocated(&spell(opener), &push, times));
            assert_eq!(large.bytes_max, small.bytes_max, "{opener} {id}");
            assert!(large.bytes_max <= 64 << 10, "{opener} {id}: {} bytes", large.bytes_max);
        }
    }
}

/// A parser that was used once for such a stream needs nothing for the next.
#[test]
fn i8_memory_is_kept_by_reset() {
    let message = spell(
        "why{/think}{response}so{/response}{tools}{call tool=\"f\"}{argument key=\"k\"}a\"b{/argument}\
         {argument key=\"l\" type=\"number\"}12{/argument}{argument key=\"m\" type=\"array\"}[]{/argument}{/call}{/tools}{/message}$",
    );
    let mut parser = Parser::new(request());
    let mut parse = |request: Request| {
        parser.reset(request);
        parser.push(&message, &mut ());
        parser.push_with_ids("a", &[1_000], &mut ());
        parser.push_marker(Marker::Sep, &mut ());
        parser.push_bytes(b"\xff", &mut ());
        parser.finish("stop", &mut ());
    };
    parse(request());
    let again = request();
    let second = measure(|| parse(again));
    assert_eq!(second.count_total, 0, "{second:?}");
}

/// A value whose end decides its form is held without copies: at most a tenth more than it, however it arrives.
#[test]
fn i8_memory_of_a_held_value() {
    let opener = spell("{/think}{tools}{call tool=\"f\"}{argument key=\"k\" type=\"object\"}");
    let close = spell("{/argument}{/call}");
    for len in [64 << 10, 1 << 20, 7 << 20] {
        let json = format!("[{}0]", "{\"é\": [1, 2.5]}, ".repeat(len / 17));
        // What turns out to be no JSON is escaped a block at a time.
        let no_json = json.replace("0]", "0");
        for (text, size, room) in [(&json, 4, 0), (&json, 1_000, 0), (&json, usize::MAX, 0), (&no_json, 4, 16 << 10)] {
            let ends = (0..text.len()).step_by(size).map(|at| at.saturating_add(size).min(text.len()));
            let chunks = support::chunks(text, ends);
            let held = measure(|| {
                let mut parser = Parser::new(request());
                parser.push(&opener, &mut ());
                chunks.iter().for_each(|chunk| parser.push(chunk, &mut ()));
                parser.push(&close, &mut ());
                parser.finish("stop", &mut ());
            });
            let most = text.len() as u64 / 10 * 11 + room;
            assert!(held.bytes_max <= most, "{} bytes for {}, by {size}", held.bytes_max, text.len());
        }
        let streamed = measure(|| {
            let mut parser = Parser::new(request().stream_json(true));
            parser.push(&opener, &mut ());
            parser.push(&json, &mut ());
            parser.push(&close, &mut ());
            parser.finish("stop", &mut ());
        });
        assert!(streamed.bytes_max <= 4_096, "{} bytes for {}", streamed.bytes_max, json.len());
    }
}

/// What a value made a parser hold does not outlive its stream.
#[test]
fn i8_memory_of_a_large_value_is_given_back() {
    for value in ["1", "["] {
        let mut parser = Parser::new(request());
        let kept = measure(|| {
            let opener = spell("{/think}{tools}{call tool=\"f\"}{argument key=\"k\" type=\"array\"}");
            parser.push(&opener, &mut ());
            parser.push(&value.repeat(4 << 20), &mut ());
            parser.push(&spell("{/argument}{/call}"), &mut ());
            parser.finish("stop", &mut ());
            parser.reset(Request::new());
        });
        assert!(kept.bytes_max > 4 << 20, "{kept:?}");
        assert!(kept.bytes_current < 128 << 10, "{kept:?}");
    }
}
