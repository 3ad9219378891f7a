//! What the tests share: hostile streams, recorded ones, and every way to push them.
//!
//! A [`Stream`] is a request and a text, with the ids of its tokens where they are known. [`Stream::by_text`] and
//! [`Stream::by_ids`] cut it; a [`Way`] is a list of pushes, and [`run`] makes them. Every random choice comes from a
//! seed.

#![allow(dead_code, reason = "no test uses all of it")]

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use kimi_xtml::{
    Channel, Marker, OwnedEvent, Parser, Report, Request, Sink, Span, StateError, ToolChoice, Undeclared, coalesce,
};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use serde::Deserialize;

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

/// A value for a failure's message: its beginning.
pub(crate) fn cut(value: &impl Debug) -> String {
    let mut text = format!("{value:?}");
    if text.len() > 500 {
        text.truncate(text.floor_char_boundary(500));
        text.push('…');
    }
    text
}

/// Events, one a line.
pub(crate) fn show(events: &[(OwnedEvent, Span)]) -> String {
    let line = |(event, span): &(OwnedEvent, Span)| {
        let tokens = span.tokens.as_ref().map_or(String::new(), |tokens| format!(" tokens {tokens:?}"));
        format!("{:?}{tokens} {}\n", span.bytes, cut(event))
    };
    events.iter().map(line).collect()
}

// ---- chance ------------------------------------------------------------------------------------------------------

/// Numbers from a seed (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number from 0 to below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % limit as u64) as usize
    }

    /// Where the chunks of an input end; some cut finely, some coarsely.
    pub(crate) fn ends(&mut self, len: usize) -> Vec<usize> {
        let longest = (2 << self.below(8)).max(len / 256);
        let mut ends = Vec::new();
        let mut at = 0;
        while at < len {
            at = len.min(at + 1 + self.below(longest));
            ends.push(at);
        }
        ends
    }
}

/// Chunks of a text, each cut put back to the character that it falls into.
pub(crate) fn chunks(text: &str, ends: impl IntoIterator<Item = usize>) -> Vec<&str> {
    let mut from = 0;
    let mut take = |end| &text[std::mem::replace(&mut from, end)..end];
    ends.into_iter().map(|end| take(text.floor_char_boundary(end))).collect()
}

/// The characters of a text.
pub(crate) fn chars(text: &str) -> Vec<&str> {
    chunks(text, text.char_indices().map(|(at, c)| at + c.len_utf8()))
}

// ---- ways to push ------------------------------------------------------------------------------------------------

/// One push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Push<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Quoted(&'a str),
    Marker(Marker),
    Token(u32, &'a str),
    WithIds(&'a str, &'a [u32]),
}

impl<'a> Push<'a> {
    pub(crate) fn to(self, parser: &mut Parser, sink: &mut impl Sink) -> Result<(), StateError> {
        match self {
            Push::Text(text) => parser.push(text, sink),
            Push::Bytes(bytes) => parser.push_bytes(bytes, sink),
            Push::Quoted(text) => parser.push_text(text, sink),
            Push::Marker(marker) => parser.push_marker(marker, sink),
            Push::Token(id, text) => parser.push_token(id, text, sink),
            Push::WithIds(text, ids) => parser.push_with_ids(text, ids, sink),
        }
    }

    /// What it adds to the input.
    pub(crate) fn input(self) -> &'a [u8] {
        match self {
            Push::Text(text) | Push::Quoted(text) | Push::WithIds(text, _) => text.as_bytes(),
            Push::Bytes(bytes) => bytes,
            Push::Marker(marker) => marker.spelling().as_bytes(),
            Push::Token(id, text) => match Marker::from_id(id) {
                Some(marker) => marker.spelling().as_bytes(),
                None => text.as_bytes(),
            },
        }
    }

    /// How many tokens it has.
    pub(crate) fn tokens(self) -> usize {
        match self {
            Push::Token(..) => 1,
            Push::WithIds(_, ids) => ids.len(),
            _ => 0,
        }
    }
}

/// A way to push a stream.
#[derive(Clone, Debug)]
pub(crate) struct Way<'a> {
    pub(crate) name: &'static str,
    pub(crate) pushes: Vec<Push<'a>>,
}

impl<'a> Way<'a> {
    fn text(name: &'static str, chunks: Vec<&'a str>) -> Self {
        Way { name, pushes: chunks.into_iter().map(Push::Text).collect() }
    }

    pub(crate) fn bytes(name: &'static str, bytes: &'a [u8], ends: impl IntoIterator<Item = usize>) -> Self {
        let mut from = 0;
        let mut take = |end| Push::Bytes(&bytes[std::mem::replace(&mut from, end)..end]);
        Way { name, pushes: ends.into_iter().map(&mut take).collect() }
    }

    pub(crate) fn input(&self) -> Vec<u8> {
        self.pushes.iter().flat_map(|push| push.input()).copied().collect()
    }

    pub(crate) fn tokens(&self) -> usize {
        self.pushes.iter().map(|push| push.tokens()).sum()
    }
}

/// What came of a way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) events: Vec<(OwnedEvent, Span)>,
    pub(crate) report: Report,
    pub(crate) reason: String,
}

impl Run {
    /// Without what depends on how the tokens came: their ranges, and how often lexing looked.
    pub(crate) fn without_tokens(mut self) -> Run {
        self.events.iter_mut().for_each(|(_, span)| span.tokens = None);
        (self.report.tokens, self.report.examined) = (None, 0);
        self
    }
}

/// Pushes all of it, and ends the stream. The events are coalesced.
pub(crate) fn run(parser: &mut Parser, way: &Way<'_>) -> Run {
    let mut events = Vec::new();
    for push in &way.pushes {
        push.to(parser, &mut events).unwrap();
    }
    let reason = parser.finish("stop", &mut events).unwrap().to_owned();
    Run { events: coalesce(events), report: parser.report(), reason }
}

// ---- streams -----------------------------------------------------------------------------------------------------

/// A request and what was generated for it.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) request: Request,
    pub(crate) text: String,
    /// The tokens, if they are known.
    pub(crate) ids: Vec<u32>,
    /// Where each delta ends, in the text and in the ids.
    pub(crate) ends: Vec<(usize, usize)>,
}

/// Texts up to this length are pushed character by character too.
const FINE: usize = 12_000;

impl Stream {
    fn new(name: &str, request: Request) -> Self {
        Stream { name: name.into(), request, text: String::new(), ids: Vec::new(), ends: Vec::new() }
    }

    fn delta(&mut self, text: &str, ids: &[u32]) {
        self.text.push_str(text);
        self.ids.extend(ids);
        self.ends.push((self.text.len(), self.ids.len()));
    }

    /// As text: all of these mean the same.
    pub(crate) fn by_text(&self, random: &mut Random) -> Vec<Way<'_>> {
        let (text, bytes) = (self.text.as_str(), self.text.as_bytes());
        let mut ways = vec![
            Way::text("text, whole", vec![text]),
            Way::text("text, deltas", chunks(text, self.ends.iter().map(|end| end.0))),
            Way::text("text, random", chunks(text, random.ends(text.len()))),
            Way::text("text, behind each <", text.split_inclusive('<').collect()),
            Way::bytes("bytes, whole", bytes, [bytes.len()]),
            Way::bytes("bytes, random", bytes, random.ends(bytes.len())),
        ];
        if text.len() <= FINE {
            ways.push(Way::text("text, characters", chars(text)));
            ways.push(Way::bytes("bytes, single", bytes, 1..=bytes.len()));
        }
        ways
    }

    /// With its tokens: all of these mean the same. Empty if the tokens are not known.
    pub(crate) fn by_ids(&self, random: &mut Random) -> Vec<Way<'_>> {
        if self.ids.is_empty() {
            return Vec::new();
        }
        let mut ways = vec![
            self.with_ids("ids, deltas", self.ends.iter().copied()),
            self.with_ids("ids, whole", [(self.text.len(), self.ids.len())]),
            self.with_ids("ids, ahead", self.ahead(random)),
            self.with_ids("ids, ahead again", self.ahead(random)),
        ];
        if let Some(tokens) = self.tokens() {
            let pieces = |text: fn(&str) -> Vec<&str>| {
                let push = move |&(id, token): &(u32, _)| match Marker::from_id(id) {
                    Some(marker) => vec![Push::Marker(marker)],
                    None => text(token).into_iter().map(Push::Quoted).collect(),
                };
                tokens.iter().flat_map(push).collect()
            };
            ways.push(Way { name: "pieces", pushes: pieces(|text| vec![text]) });
            ways.push(Way { name: "pieces, characters", pushes: pieces(chars) });
            let pushes = tokens.iter().map(|&(id, text)| Push::Token(id, text)).collect();
            ways.push(Way { name: TOKENS, pushes });
        }
        ways
    }

    /// In ways that change within the stream.
    pub(crate) fn mixed(&self, random: &mut Random) -> Way<'_> {
        let mut pushes = Vec::new();
        let mut before = (0, 0);
        for &(text, ids) in &self.ends {
            let (part, ids) = (&self.text[before.0..text], &self.ids[before.1..ids]);
            before = (text, before.1 + ids.len());
            let marker = ids.first().and_then(|&id| Marker::from_id(id)).filter(|marker| marker.spelling() == part);
            let half = part.len() / 2;
            pushes.extend(match (random.below(6), ids, marker) {
                (0, &[id], _) => vec![Push::Token(id, part)],
                (1, ids, _) => vec![Push::WithIds(part, ids)],
                (2, _, Some(marker)) => vec![Push::Marker(marker)],
                (2, _, None) => vec![Push::Quoted(part)],
                (3, ..) => vec![Push::Bytes(&part.as_bytes()[..half]), Push::Bytes(&part.as_bytes()[half..])],
                // The rest of a character does not come.
                (4, ..) => vec![Push::Bytes(&part.as_bytes()[..half])],
                _ => vec![Push::Text(part)],
            });
        }
        Way { name: "mixed", pushes }
    }

    /// The tokens with their text, if each came alone.
    fn tokens(&self) -> Option<Vec<(u32, &str)>> {
        let texts = chunks(&self.text, self.ends.iter().map(|end| end.0));
        let single = self.ends.iter().enumerate().all(|(at, end)| end.1 == at + 1);
        single.then(|| self.ids.iter().copied().zip(texts).collect())
    }

    fn with_ids(&self, name: &'static str, ends: impl IntoIterator<Item = (usize, usize)>) -> Way<'_> {
        let mut before = (0, 0);
        let take = |end: (usize, usize)| {
            let start = std::mem::replace(&mut before, end);
            Push::WithIds(&self.text[start.0..end.0], &self.ids[start.1..end.1])
        };
        Way { name, pushes: ends.into_iter().map(take).collect() }
    }

    /// Other deltas: the ids are ahead of the text by up to three of the stream's own.
    fn ahead(&self, random: &mut Random) -> Vec<(usize, usize)> {
        let mut ends = Vec::new();
        let (mut come, mut told) = (0, 0);
        while come < self.ends.len() {
            come = self.ends.len().min(come + 1 + random.below(4));
            let earliest = come.checked_sub(4).map_or(0, |at| self.ends[at].0).max(told);
            let (latest, ids) = self.ends[come - 1];
            told = self.text.floor_char_boundary(earliest + random.below(latest - earliest + 1)).max(told);
            ends.push((told, ids));
        }
        ends.push((self.text.len(), self.ids.len()));
        ends
    }
}

/// The way in which each token has its place.
pub(crate) const TOKENS: &str = "tokens";

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
    files.extend(data().map(|data| data.join("cases/field.jsonl")));
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

const MARKERS: [Marker; 4] = [Marker::Open, Marker::Close, Marker::Sep, Marker::EndOfMsg];

const NAMES: &[&str] = &["think", "response", "tools", "call", "argument", "json", "message"];

/// Parts that text is made of.
#[rustfmt::skip]
const PARTS: &[&str] = &[
    "<", "|", "<|", "<|o", "<|clo", "|>", "<|open|", "<|close|", "open|>", "[EOS]", "a", "\"", "\\", "&quot;", "&amp;",
    "&amp;quot;", "é", "中", "😀", "\u{1}", "\u{7f}", "\u{85}", " ", "\n", "\t\r", "thi", "too", "cal", "argu", "thinker",
    " tool=\"f\"", " tool = \"g\"", " tool=\"\"", " tool=\"&amp;quot;\"", " key=\"k\"", " key=\"l\" type=\"number\"",
    " type=\"object\"", " type=\"x\"", " key=\"", " key", "=", "\"\"", "1", "-0.5e3", "01", "NaN", "{", "}", "[", "]",
    ",", ":", "\"k\"", "null", "tru", "\"\\ud800\"", "{\"a\":[1,\"b\"]}", "[1", "\\u12",
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
    let text = prop_oneof![
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
    let opened = select(&[None, Some(Channel::Think), Some(Channel::Response)][..]);
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

/// The text before the first marker that is spelled in `text`, the marker, the text behind it.
pub(crate) fn split_at_marker(text: &str) -> Option<(&str, Marker, &str)> {
    let places = MARKERS.iter().filter_map(|&marker| Some((text.find(marker.spelling())?, marker)));
    let (at, marker) = places.min_by_key(|&(at, _)| at)?;
    Some((&text[..at], marker, &text[at + marker.spelling().len()..]))
}

/// A stream of such parts, one token a delta: real markers are control tokens, quoted ones are spelled as Kimi's
/// tokenizer does it, other text is cut anywhere.
fn tokenized(parts: &[(String, bool)], request: Request, seed: u64) -> Stream {
    let mut tokens = Tokens { stream: Stream::new("generated", request), random: Random(seed) };
    let mut text = String::new();
    for (part, is_quoted) in parts {
        let mut rest = part.as_str();
        while !is_quoted && let Some((before, marker, after)) = split_at_marker(rest) {
            tokens.text(&(std::mem::take(&mut text) + before));
            tokens.stream.delta(marker.spelling(), &[marker.id()]);
            rest = after;
        }
        text.push_str(rest);
    }
    tokens.text(&text);
    tokens.stream
}

struct Tokens {
    stream: Stream,
    random: Random,
}

impl Tokens {
    /// Text that is no structure. What spells a marker, or all of one but its `>`, becomes Kimi's tokens.
    fn text(&mut self, text: &str) {
        let beginning = |marker: &Marker| marker.spelling().strip_suffix('>');
        let places = MARKERS.iter().filter_map(|marker| Some((text.find(beginning(marker)?)?, *marker)));
        let Some((at, marker)) = places.min_by_key(|&(at, _)| at) else {
            return self.ordinary(text);
        };
        let (before, spelled) = text.split_at(at);
        let last = before.chars().next_back().map_or(0, char::len_utf8);
        let (before, last) = before.split_at(at - last);
        self.ordinary(before);
        match self.random.below(3) {
            0 if last == " " => self.stream.delta(" <|", &[22_652]),
            1 => {
                self.stream.delta(&format!("{last}<"), &[8_704]);
                self.stream.delta("|", &[91]);
            }
            _ => {
                self.ordinary(last);
                self.stream.delta("<", &[27]);
                self.stream.delta("|", &[91]);
            }
        }
        let name: &[(&str, u32)] = match marker {
            Marker::Open => &[("open", 4_454)],
            Marker::Close => &[("close", 10_794)],
            Marker::Sep => &[("sep", 40_433)],
            Marker::EndOfMsg => &[("end", 517), ("_of", 5_118), ("_msg", 14_222)],
            Marker::Eos => unreachable!(),
        };
        for &(text, id) in name.iter().chain(&[("|", 91)]) {
            self.stream.delta(text, &[id]);
        }
        let mut after = &spelled[marker.spelling().len() - 1..];
        if let Some(rest) = after.strip_prefix('>') {
            self.stream.delta(">", &[29]);
            after = rest;
        }
        self.text(after);
    }

    /// Text as tokens that have nothing to do with markers. Some have no text of their own.
    fn ordinary(&mut self, text: &str) {
        let ends = self.random.ends(text.len());
        for chunk in chunks(text, ends) {
            let id = 1_000 + self.random.below(400) as u32;
            self.stream.delta(chunk, &[id]);
        }
    }
}
