//! I8: the work is linear in the input, whatever it is and however it is cut.
//!
//! In: streams of a few kinds, made as long as one likes, in one chunk and in chunks of one byte. Counted: the bytes
//! that lexing looked at (at most twice the input), the bytes that were allocated, and the time, so generously that only
//! work of another order exceeds it.

use std::time::{Duration, Instant};

use allocation_counter::measure;
use kimi_xtml::{Channel, Event, Parser, Request, sink_fn};
use proptest::prelude::*;

mod support;

use support::{Random, config, cut, spell, streams};

const MEGABYTE: usize = 1 << 20;
/// What a stream may take: some ten times what the slowest takes without optimisation.
const LIMIT: Duration = Duration::from_secs(20);

/// A kind of stream: how it begins, what is repeated, how it ends; short as in [`spell`].
struct Shape {
    name: &'static str,
    opened: Option<Channel>,
    begin: &'static str,
    /// Repeated up to the length, with `#` the number of the repetition.
    unit: &'static str,
    end: &'static str,
}

const THINK: Option<Channel> = Some(Channel::Think);
const RESPONSE: Option<Channel> = Some(Channel::Response);
const STRING: &str = "{tools}{call tool=\"f\"}{argument key=\"k\"}";
const OBJECT: &str = "{tools}{call tool=\"f\"}{argument key=\"k\" type=\"object\"}";

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    shape("reasoning", THINK, "", "Add 3 and 4 é. ", ""),
    shape("content", RESPONSE, "", "It is $<<3*4=12>>12, \"more\" or <less>.\n", ""),
    shape("plain", None, "", "It is 12.\n", ""),
    shape("string", None, STRING, "line \"quoted\" \\ \t \u{1} end\n", "{/argument}{/call}{/tools}"),
    shape("object", None, OBJECT, "[[{},\"a\\\"<b\",-1.5e3],", ""),
    shape("valid object", None, OBJECT, "{\"k\": [1, \"<\"]}", "{/argument}{/call}{/tools}"),
    shape("brackets", None, OBJECT, "[", "{/argument}{/call}{/tools}"),
    shape("block", None, "{tools}{call tool=\"f\"}{json}", "{\"a\": [1, 2]},", "{/json}{/call}{/tools}"),
    shape("calls", None, "{tools}", "{call tool=\"f\"}{argument key=\"k\"}v{/argument}{/call}", "{/tools}"),
    shape("empty calls", None, "{tools}", "{call tool=\"f\"}{/call}", "{/tools}"),
    shape("arguments", None, "{tools}{call tool=\"f\"}", "{argument key=\"k#\" type=\"number\"}#{/argument}", "{/call}{/tools}"),
    shape("quoted closes", None, STRING, "{/argument} x", "{/argument}{/call}{/tools}"),
    shape("quoted ends", RESPONSE, "", "{/message}$x{/response}y{tools}z", ""),
    shape("nameless calls", None, "{tools}", "{call}{argument key=\"k\"}v{/argument}{/call}", "{/tools}"),
    shape("withheld", None, "{call tool=\"f\"}", "{argument key=\"k\"}v{/argument}", "{/call}"),
    shape("less", RESPONSE, "", "<", ""),
    shape("less bar", RESPONSE, "", "<!", ""),
    shape("open", RESPONSE, "", "~", ""),
    shape("open outside", None, "", "~", ""),
    shape("close", RESPONSE, "", "^", ""),
    shape("close in a string", None, STRING, "^", ""),
    shape("sep", RESPONSE, "", "|", ""),
    shape("sep in tools", None, "{tools}", "|", ""),
    shape("end", RESPONSE, "", "$", ""),
    shape("pending ends", RESPONSE, "", "$$ x", ""),
    shape("nearly a marker", RESPONSE, "", "<!ope<!clos<!end_of_msg", ""),
    shape("bare tags", THINK, "", "~think^response~tools^message", ""),
    shape("a header without end", None, "{tools}", "~call tool=\"yyyyyyyyyyyyyyy", ""),
    shape("one header without end", None, "{tools}~call tool=\"", "y", ""),
    shape("attributes without end", None, "{tools}~call", " tool=\"f\"", ""),
    shape("unreadable headers", None, "{tools}{call tool=\"f\"}", "{argument k k=\"v\" =}", ""),
    shape("pending close and blanks", None, STRING, "{/argument}                                ", ""),
    shape("pending close, blanks and a tag", None, STRING, "{/argument}      {/   argument   ", ""),
    shape("pending tools", RESPONSE, "", "{tools} \n ~ \n", ""),
    shape("blanks", None, "{tools}", " ", ""),
    shape("blanks in a tag", RESPONSE, "", "^                ", ""),
    shape("text in tools", None, "{tools}{call tool=\"f\"}", "text ", ""),
    shape("after the end", None, "$", "a{think}$", ""),
    shape("channels", None, "", "{think}a{/think}{response}b{/response}{tools}{/tools}", ""),
];

const fn shape(
    name: &'static str,
    opened: Option<Channel>,
    begin: &'static str,
    unit: &'static str,
    end: &'static str,
) -> Shape {
    Shape { name, opened, begin, unit, end }
}

impl Shape {
    fn request(&self) -> Request {
        Request::new().opened(self.opened).tools(["f"])
    }

    /// About `len` bytes.
    fn text(&self, len: usize) -> String {
        let is_json = self.begin == OBJECT || self.name == "block";
        let unit = if is_json { self.unit.to_owned() } else { spell(self.unit) };
        let times = len / unit.len();
        let middle = match self.name {
            "valid object" => format!("[{}{unit}]", (unit.clone() + ", ").repeat(times)),
            "brackets" => unit.repeat(times) + &"]".repeat(times),
            _ if unit.contains('#') => (0..times).map(|number| unit.replace('#', &number.to_string())).collect(),
            _ => unit.repeat(times),
        };
        spell(self.begin) + &middle + &spell(self.end)
    }
}

/// Pushes the text in chunks of `chunk` bytes. Gives how many events came.
fn parse(shape: &Shape, request: Request, text: &str, chunk: usize) -> u64 {
    let started = Instant::now();
    let mut events = 0_u64;
    let mut examined = 0;
    let allocated = measure(|| {
        let mut parser = Parser::new(request);
        let mut count = sink_fn(|_, _| events += 1);
        for (number, bytes) in text.as_bytes().chunks(chunk).enumerate() {
            parser.push_bytes(bytes, &mut count);
            assert!(number % 1_024 > 0 || started.elapsed() < LIMIT, "{}: too slow", shape.name);
        }
        parser.finish("stop", &mut count);
        examined = parser.report().examined;
    });
    let (name, len) = (shape.name, text.len() as u64);
    assert!(examined <= 2 * len, "{name}, chunks of {chunk}: {examined} bytes looked at, {len} came");
    // A held value grows by doubling; a header is copied a few times.
    let most = 8 * len + (128 << 10);
    assert!(allocated.bytes_total <= most, "{name}, chunks of {chunk}: {} allocated of {len}", allocated.bytes_total);
    assert!(events <= 2 * len + 100, "{name}, chunks of {chunk}: {events} events");
    assert!(started.elapsed() < LIMIT, "{name}, chunks of {chunk}: too slow");
    events
}

#[test]
fn i8_linear_in_one_chunk() {
    for shape in SHAPES {
        for len in [MEGABYTE, 4 * MEGABYTE] {
            let text = shape.text(len);
            parse(shape, shape.request(), &text, text.len());
        }
    }
}

#[test]
fn i8_linear_in_bytes() {
    for shape in SHAPES {
        parse(shape, shape.request(), &shape.text(MEGABYTE), 1);
    }
}

#[test]
fn i8_linear_when_json_is_streamed() {
    for shape in SHAPES.iter().filter(|shape| shape.begin == OBJECT) {
        let text = shape.text(MEGABYTE);
        for chunk in [1, text.len()] {
            parse(shape, shape.request().stream_json(true), &text, chunk);
            parse(shape, shape.request().value_limit(1_000), &text, chunk);
        }
    }
}

/// The numbers of the shapes are what their names say.
#[test]
fn i8_linear_streams_are_what_they_say() {
    let count = |name, of: fn(&Event<'_>) -> bool| {
        let shape = SHAPES.iter().find(|shape| shape.name == name).unwrap();
        let text = shape.text(MEGABYTE);
        let mut parser = Parser::new(shape.request());
        let mut found = 0;
        let mut sink = sink_fn(|event, _| found += usize::from(of(&event)));
        parser.push(&text, &mut sink);
        parser.finish("stop", &mut sink);
        found
    };
    assert!(count("calls", |event| matches!(event, Event::CallEnd { complete: true, .. })) > 10_000);
    assert!(count("arguments", |event| matches!(event, Event::ArgumentEnd { closed: true, .. })) > 10_000);
    for name in ["valid object", "brackets", "arguments"] {
        assert_eq!(count(name, |event| matches!(event, Event::CallEnd { complete: true, .. })), 1);
        assert_eq!(count(name, |event| matches!(event, Event::Diagnostic(_))), 0);
    }
    assert_eq!(count("quoted closes", |event| matches!(event, Event::ArgumentEnd { .. })), 1);
}

/// Bytes that are no UTF-8 cost the same where they are held longest as where they are not held.
#[test]
fn i8_linear_in_invalid_bytes() {
    let took = |begin: &str| {
        let chunk = [spell(begin).into_bytes(), vec![0xff; 5_000]].concat();
        let mut parser = Parser::new(Request::new().tools(["f"]));
        let mut ignored = sink_fn(|_, _| {});
        parser.push(&spell("{tools}"), &mut ignored);
        let started = Instant::now();
        for _ in 0..40 {
            parser.push_bytes(&chunk, &mut ignored);
        }
        started.elapsed()
    };
    // The least of some, since others use the machine too.
    let least = |begin| (0..5).map(|_| took(begin)).min().unwrap();
    let (held, not_held) = (least("~call tool=\""), least(""));
    assert!(held < 8 * not_held, "{held:?}, {not_held:?}");
}

/// Ids of control tokens whose text never comes cost the same each, however many there are, and so do quotations beside them.
#[test]
fn i8_linear_in_ids_without_text() {
    for (ids, text) in
        [(&[163_587, 1][..], "a"), (&[163_585], ""), (&[163_589], "<|sep|"), (&[27, 91, 4_454, 91, 29], "")]
    {
        let mut parser = Parser::new(Request::new().opened(Channel::Response));
        let mut ignored = ();
        let started = Instant::now();
        for number in 0..160_000 {
            parser.push_with_ids(text, ids, &mut ignored);
            // Linear work takes a hundredth of this, quadratic work ten times as long.
            assert!(number % 1_024 > 0 || started.elapsed() < LIMIT / 10, "{ids:?}: too slow");
        }
        parser.finish("stop", &mut ignored);
    }
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn i8_linear(stream in streams(), seed: u64) {
        let random = &mut Random(seed);
        for way in stream.by_text(random).into_iter().chain(stream.by_ids(random)) {
            let mut parser = Parser::new(stream.request.clone());
            let mut ignored = sink_fn(|_, _| {});
            for push in &way.pushes {
                push.to(&mut parser, &mut ignored);
            }
            parser.finish("stop", &mut ignored);
            let (examined, len) = (parser.report().examined, way.input().len() as u64);
            prop_assert!(examined <= 2 * len, "{}: {examined} of {len}\n{}", way.name, cut(&stream.text));
        }
    }
}
