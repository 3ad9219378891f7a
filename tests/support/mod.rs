//! What the tests share: hostile streams and recorded ones, and the oracles' streams and ways to push them.
//!
//! Out: strategies for proptest, whose every random choice comes from a seed; the records of the corpora and of
//! `KIMI_XTML_DATA`.

#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

use std::path::{Path, PathBuf};

use kimi_xtml::{Channel, Marker, Request, ToolChoice, Undeclared};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use serde::Deserialize;

pub(crate) use kimi_xtml_oracle::mixed::{Mixed, Segment, Told};
pub(crate) use kimi_xtml_oracle::stream;
pub(crate) use kimi_xtml_oracle::stream::*;

/// The same cases on every run; `PROPTEST_CASES` and `PROPTEST_RNG_SEED` say otherwise.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let is_set = |name| std::env::var_os(name).is_some();
    ProptestConfig {
        cases: if is_set("PROPTEST_CASES") { default.cases } else { cases },
        rng_seed: if is_set("PROPTEST_RNG_SEED") { default.rng_seed } else { RngSeed::Fixed(20) },
        failure_persistence: None,
        ..default
    }
}

// ---- recorded streams --------------------------------------------------------------------------------------------

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    pub(crate) id: String,
    context: Context,
    chunks: Vec<String>,
    ids: Vec<Vec<u32>>,
    interleaved_choices: Vec<(usize, String)>,
    pub(crate) expected: Expected,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    tools: Vec<String>,
    tool_choice: serde_json::Value,
    initial_channel: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Expected {
    pub(crate) reasoning: String,
    pub(crate) content: String,
}

impl Record {
    fn request(&self) -> Request {
        let opened = match self.context.initial_channel.as_str() {
            "think" => Some(Channel::Think),
            "response" => Some(Channel::Response),
            _ => None,
        };
        let choice = if self.context.tool_choice == "none" { ToolChoice::None } else { ToolChoice::Auto };
        Request::new().opened(opened).tools(&self.context.tools).tool_choice(choice)
    }

    fn streams(&self) -> Vec<Stream> {
        let mut streams = vec![Stream::new(&self.id, self.request())];
        for (at, chunk) in self.chunks.iter().enumerate() {
            streams[0].delta(chunk, self.ids.get(at).map_or(&[], Vec::as_slice));
        }
        for (choice, chunk) in &self.interleaved_choices {
            let name = format!("{} choice {choice}", self.id);
            let at = streams.iter().position(|stream| stream.name == name).unwrap_or(streams.len());
            if at == streams.len() {
                streams.push(Stream::new(&name, self.request()));
            }
            streams[at].delta(chunk, &[]);
        }
        streams
    }
}

/// The directory of the data that are not in the repository.
pub(crate) fn data() -> Option<PathBuf> {
    std::env::var_os("KIMI_XTML_DATA").map(PathBuf::from)
}

/// A file of this repository's corpora.
pub(crate) fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora").join(name)
}

/// The objects of a file with one a line.
pub(crate) fn lines<T: for<'de> Deserialize<'de>>(file: &Path) -> Vec<T> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines().map(read).collect()
}

/// The corpora, and the field cases where they are.
pub(crate) fn recorded() -> Vec<Stream> {
    let mut files = ["math.jsonl", "tools.jsonl", "malformed.jsonl"].map(corpus).to_vec();
    let apart = ["cases/field.jsonl", "cases/second/second.jsonl"];
    files.extend(data().into_iter().flat_map(|data| apart.map(|file| data.join(file))).filter(|file| file.exists()));
    let streams: Vec<Stream> =
        files.iter().flat_map(|file| lines::<Record>(file)).flat_map(|record| record.streams()).collect();
    assert!(streams.len() >= 160);
    streams
}

// ---- hostile streams ---------------------------------------------------------------------------------------------

/// `{think}` is an opening tag, `{/think}` a closing one, `$` the end of the message; `~` is a bare opener, `^` a
/// bare closer, `|` a separator, `!` the character `|`.
pub(crate) fn spell(short: &str) -> String {
    let marker = |c| match c {
        '{' | '~' => Marker::Open.spelling().to_owned(),
        '^' => Marker::Close.spelling().to_owned(),
        '}' | '|' => Marker::Sep.spelling().to_owned(),
        '$' => Marker::EndOfMsg.spelling().to_owned(),
        '!' => "|".to_owned(),
        c => c.to_string(),
    };
    short.replace("{/", "^").chars().map(marker).collect()
}

const NAMES: &[&str] = &["think", "response", "tools", "call", "argument", "json", "message", "note"];

/// Parts that text is made of.
#[rustfmt::skip]
const PARTS: &[&str] = &[
    "<", "|", "<|", "<|o", "<|clo", "|>", "<|open|", "<|close|", "open|>", "[EOS]", "a", "\"", "\\", "&quot;", "&amp;",
    "&amp;quot;", "é", "中", "😀", "\u{1}", "\u{7f}", "\u{85}", " ", "\n", "\t\r", "thi", "too", "cal", "argu", "thinker",
    " tool=\"f\"", " tool = \"g\"", " tool=\"\"", " tool=\"&amp;quot;\"", " key=\"k\"", " key=\"l\" type=\"number\"",
    " type=\"object\"", " type=\"x\"", " key=\"", " key", "=", "\"\"", "1", "-0.5e3", "01", "NaN", "{", "}", "[", "]",
    ",", ":", "\"k\"", "null", "tru", "\"\\ud800\"", "{\"a\":[1,\"b\"]}", "[1", "\\u12", "1}", "[1]]", "true,", "{}}",
];

/// Tags, short as in [`spell`].
#[rustfmt::skip]
const TAGS: &[&str] = &[
    "{think}", "{/think}", "{response}", "{/response}", "{tools}", "{/tools}", "{call tool=\"f\" index=\"1\"}",
    "{call tool=\"g\"}", "{call}", "{/call}", "{argument key=\"k\" type=\"string\"}", "{argument key=\"k\"}",
    "{argument key=\"l\" type=\"number\"}", "{argument key=\"m\" type=\"object\"}", "{argument type=\"array\" key=\"\"}",
    "{argument key=\"n\" type=\"?\"}", "{argument}", "{argument key=k}", "{/argument}", "{json type=\"object\"}",
    "{/json}", "{message role=\"assistant\"}", "{/message}", "$", "{ think }", "{/ response\n}", "{ tools\t}",
    "{/\rcall }", "{/argument ~", "{call tool=\"f\"", "{response", "~tools^tools", "{/think", "{json",
    "{note}", "{/note}", "{note a = \"b\"\n}", "{thin}", "{think x=\"1\"}", "{/call a=\"b\"}", "{note a}", "{}", "{/}", "{=}",
    "{call x}", "{message =}", "~note", "^note ", "~ a b", "~call x=y",
];

/// The types whose values are held.
pub(crate) const HELD: &[&str] = &["number", "boolean", "null", "object", "array", "?"];

/// What a held value may be so far: JSON, what is nearly, and what would close the arguments and add to them.
#[rustfmt::skip]
pub(crate) const VALUES: &[&str] = &[
    "1", " -0.5e3 ", "true", "null", "\"s\"", "{}", "{\"k\":1}", "[1]", "{\"k\":[\"<!close!>\"]}", "", " ", "{", "[1,", "{\"k\"",
    "\"", "tru", "1}", "1,\"admin\":true}", "{\"k\":1}}", "[1]]}", "\"s\"}", "true]", "null,", "}", "]", ",", "x}",
];

/// What may stand after a value, short as in [`spell`]: its close and noise, what cuts it, nothing.
#[rustfmt::skip]
const AFTER: &[&str] = &[
    "{/argument}", "{/argument}\nnoise\n", "{/argument} ,  ", "{/argument", "{/argument}{/argument}", "{/json}", "{/json} x",
    "noise{/argument}", "{/argument}noise{/argument}", "{call tool=\"f\"}", "{/call}", "{/tools}", "{/message}$", "$", "{/arg", "",
    "{/argument}{/response}", "{/argument}{think}", "{argument key=\"l\"}",
];

/// Tags that white space makes unreal if it is too long (`#`), short as in [`spell`].
#[rustfmt::skip]
const SPACED: &[&str] = &[
    "{/response}#{/message}", "{tools}#{call tool=\"f\"}", "{/argument}#{/call}", "{/json}#{/call}", "{/message}#$",
    "{#tools}", "{/think#}", "{/argument}#", "^#",
];

/// What a text may begin with, short as in [`spell`], so that the inner states are not rare.
const BEGINNINGS: &[&str] = &[
    "",
    "",
    "",
    "{/think}",
    "{response}",
    "{tools}",
    "{/response}{tools}",
    "{tools}{call tool=\"f\"}",
    "{/think}{tools}{call tool=\"f\"}{argument key=\"k\"}",
    "{/response}{tools}{call tool=\"f\"}{argument key=\"k\" type=\"object\"}",
    "{tools}{call tool=\"f\"}{argument key=\"k\" type=\"number\"}",
    "{/response}{tools}{call tool=\"f\"}{json}",
    "{tools}{call}{argument key=\"k\"}",
];

/// A part of an input, and whether its markers are quoted where the markers are told.
fn part() -> impl Strategy<Value = (String, bool)> {
    let blanks = prop_oneof![Just(1_usize), Just(2), 254..=258_usize].prop_map(|count| " ".repeat(count));
    let spaced =
        (select(SPACED), 254..=258_usize).prop_map(|(short, count)| spell(short).replace('#', &" ".repeat(count)));
    let long = (16_384 - 60..=16_384_usize).prop_map(|count| format!(" x=\"{}\"", "y".repeat(count)));
    let header =
        (16_340..=16_400_usize).prop_map(|count| spell(&format!("{{call tool=\"f\" x=\"{}\"}}", "y".repeat(count))));
    let value = (select(HELD), select(VALUES), select(AFTER)).prop_map(|(kind, value, after)| {
        let opener = spell(&format!("{{argument key=\"k\" type=\"{kind}\"}}"));
        opener + &value.replace('!', "|") + &spell(after)
    });
    let block = (select(VALUES), select(AFTER))
        .prop_map(|(value, after)| spell("{json}") + &value.replace('!', "|") + &spell(after));
    let unknown = (250..=260_usize, select(&["{#}", "{/#}", "{ #x=\"\"}", "~#"][..]))
        .prop_map(|(count, short)| spell(&short.replace('#', &"n".repeat(count))));
    let text = prop_oneof![
        8 => value,
        2 => block,
        2 => unknown,
        60 => select(TAGS).prop_map(spell),
        10 => select(&MARKERS[..]).prop_map(|marker| marker.spelling().to_owned()),
        10 => select(NAMES).prop_map(str::to_owned),
        40 => select(PARTS).prop_map(str::to_owned),
        2 => blanks,
        3 => spaced,
        1 => long,
        1 => header,
    ];
    (text, weighted(0.2))
}

/// Parts of an input, as [`part`] has them.
pub(crate) fn parts() -> impl Strategy<Value = Vec<(String, bool)>> {
    let beginning = select(BEGINNINGS).prop_map(|short| (spell(short), false));
    (beginning, vec(part(), 0..14)).prop_map(|(beginning, mut parts)| {
        parts.insert(0, beginning);
        parts
    })
}

/// Requests of every kind.
pub(crate) fn requests() -> impl Strategy<Value = Request> {
    let opened = select(&[None, Some(Channel::Think), Some(Channel::Response), Some(Channel::Tools)][..]);
    let tools = prop_oneof![3 => Just(vec!["f"]), 1 => Just(vec![])];
    let choice = prop_oneof![4 => Just(ToolChoice::Auto), 1 => Just(ToolChoice::None)];
    let undeclared = select(&[Undeclared::Withhold, Undeclared::Content][..]);
    let limit = select(&[0, 3, 8 << 20, 8 << 20][..]);
    (opened, tools, choice, weighted(0.7), undeclared, any::<bool>(), limit).prop_map(
        |(opened, tools, choice, separate, undeclared, stream, limit)| {
            Request::new()
                .opened(opened)
                .tools(tools)
                .tool_choice(choice)
                .separate_reasoning(separate)
                .undeclared(undeclared)
                .stream_json(stream)
                .value_limit(limit)
        },
    )
}

/// Streams of such parts and requests, with tokens.
pub(crate) fn streams() -> impl Strategy<Value = Stream> {
    (parts(), requests(), any::<u64>()).prop_map(|(parts, request, seed)| tokenized(&parts, request, seed))
}

/// Text, and bytes that are no UTF-8 between it.
pub(crate) fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let invalid = select(vec![
        &b"\xff"[..],
        b"\xc3",
        b"\xe4\xb8",
        b"\xf0\x9f\x98",
        b"\xed\xa0\x80",
        b"\x80",
        b"\xc0\xaf",
        b"\xf5\x80\x80\x80",
    ]);
    (parts(), vec((any::<usize>(), invalid), 0..6)).prop_map(|(parts, invalid)| {
        let mut bytes: Vec<u8> = parts.into_iter().flat_map(|(text, _)| text.into_bytes()).collect();
        for (at, invalid) in invalid {
            let at = at % (bytes.len() + 1);
            bytes.splice(at..at, invalid.iter().copied());
        }
        bytes
    })
}

/// A part of a stream that comes by one kind of input.
fn segment() -> impl Strategy<Value = Segment> {
    let some = || vec(part(), 0..4);
    let text = |parts: Vec<Part>| parts.into_iter().map(|(text, _)| text).collect::<String>();
    let told = || (some(), any::<u64>()).prop_map(|(parts, seed)| Told::new(parts, seed));
    let markers = MARKERS.into_iter().chain([Marker::Eos]).collect::<Vec<_>>();
    prop_oneof![
        some().prop_map(text).prop_map(Segment::Text),
        bytes().prop_map(Segment::Bytes),
        told().prop_map(Segment::Pieces),
        (told(), vec(select(markers), 0..2)).prop_map(|(told, unspelled)| Segment::Ids(told, unspelled)),
    ]
}

/// Streams whose kind of input changes.
pub(crate) fn mixed() -> impl Strategy<Value = Mixed> {
    (requests(), vec(segment(), 1..7)).prop_map(|(request, segments)| Mixed::new(request, segments))
}
