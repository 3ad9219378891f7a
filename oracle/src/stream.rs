//! Streams, and every way to push them.
//!
//! A [`Stream`] is a request and a text, with the ids of its tokens where they are known. [`Stream::by_text`] and
//! [`Stream::by_ids`] cut it; a [`Way`] is a list of pushes, and [`run`] makes them. Every random choice comes from a
//! seed.

use std::fmt::Debug;
use std::ops::Range;

use kimi_xtml::{Marker, OwnedEvent, Parser, Report, Request, Sink, Span, coalesce};

use crate::twin::Piece;

/// A value for a failure's message: its beginning.
pub fn cut(value: &impl Debug) -> String {
    let mut text = format!("{value:?}");
    if text.len() > 500 {
        text.truncate(text.floor_char_boundary(500));
        text.push('…');
    }
    text
}

/// Events, one a line.
pub fn show(events: &[(OwnedEvent, Span)]) -> String {
    let line = |(event, span): &(OwnedEvent, Span)| {
        let tokens = span.tokens.as_ref().map_or(String::new(), |tokens| format!(" tokens {tokens:?}"));
        format!("{:?}{tokens} {}\n", span.bytes, cut(event))
    };
    events.iter().map(line).collect()
}

// ---- chance ------------------------------------------------------------------------------------------------------

/// Numbers from a seed (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// A number from 0 to below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % limit as u64) as usize
    }

    /// Where the chunks of an input end; some cut finely, some coarsely.
    pub fn ends(&mut self, len: usize) -> Vec<usize> {
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
pub fn chunks(text: &str, ends: impl IntoIterator<Item = usize>) -> Vec<&str> {
    let mut from = 0;
    let mut take = |end| &text[std::mem::replace(&mut from, end)..end];
    ends.into_iter().map(|end| take(text.floor_char_boundary(end))).collect()
}

/// The characters of a text.
pub fn chars(text: &str) -> Vec<&str> {
    chunks(text, text.char_indices().map(|(at, c)| at + c.len_utf8()))
}

// ---- ways to push ------------------------------------------------------------------------------------------------

/// One push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Quoted(&'a str),
    Marker(Marker),
    Token(u32, &'a str),
    WithIds(&'a str, &'a [u32]),
}

impl<'a> Push<'a> {
    pub fn to(self, parser: &mut Parser, sink: &mut impl Sink) {
        match self {
            Push::Text(text) => parser.push(text, sink),
            Push::Bytes(bytes) => parser.push_bytes(bytes, sink),
            Push::Quoted(text) => parser.push_text(text, sink),
            Push::Marker(marker) => parser.push_marker(marker, sink),
            Push::Token(id, text) => parser.push_token(text, id, sink),
            Push::WithIds(text, ids) => parser.push_with_ids(text, ids, sink),
        }
    }

    /// What it adds to the input.
    pub fn input(self) -> &'a [u8] {
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
    pub fn tokens(self) -> usize {
        match self {
            Push::Token(..) => 1,
            Push::WithIds(_, ids) => ids.len(),
            _ => 0,
        }
    }
}

/// A way to push a stream.
#[derive(Clone, Debug)]
pub struct Way<'a> {
    pub name: &'static str,
    pub pushes: Vec<Push<'a>>,
}

impl<'a> Way<'a> {
    fn text(name: &'static str, chunks: Vec<&'a str>) -> Self {
        Way { name, pushes: chunks.into_iter().map(Push::Text).collect() }
    }

    pub fn bytes(name: &'static str, bytes: &'a [u8], ends: impl IntoIterator<Item = usize>) -> Self {
        let mut from = 0;
        let mut take = |end| Push::Bytes(&bytes[std::mem::replace(&mut from, end)..end]);
        Way { name, pushes: ends.into_iter().map(&mut take).collect() }
    }

    pub fn input(&self) -> Vec<u8> {
        self.pushes.iter().map(|push| push.input()).collect::<Vec<_>>().concat()
    }

    pub fn tokens(&self) -> usize {
        self.pushes.iter().map(|push| push.tokens()).sum()
    }
}

/// What came of a way.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub events: Vec<(OwnedEvent, Span)>,
    pub report: Report,
    pub reason: String,
}

impl Run {
    /// Without what depends on how the tokens came: their ranges, and how often lexing looked.
    pub fn without_tokens(mut self) -> Run {
        self.events.iter_mut().for_each(|(_, span)| span.tokens = None);
        (self.report.tokens, self.report.examined) = (None, 0);
        self
    }
}

/// Pushes all of it, and ends the stream. The events are coalesced.
pub fn run(parser: &mut Parser, way: &Way<'_>) -> Run {
    let mut events = Vec::new();
    for push in &way.pushes {
        push.to(parser, &mut events);
    }
    let reason = parser.finish("stop", &mut events).to_owned();
    Run { events: coalesce(events), report: parser.report(), reason }
}

// ---- streams -----------------------------------------------------------------------------------------------------

/// A request and what was generated for it.
#[derive(Clone, Debug)]
pub struct Stream {
    pub name: String,
    pub request: Request,
    pub text: String,
    /// The tokens, if they are known.
    pub ids: Vec<u32>,
    /// Where each delta ends, in the text and in the ids.
    pub ends: Vec<(usize, usize)>,
}

/// Texts up to this length are pushed character by character too.
const FINE: usize = 12_000;

impl Stream {
    pub fn new(name: &str, request: Request) -> Self {
        Stream { name: name.into(), request, text: String::new(), ids: Vec::new(), ends: Vec::new() }
    }

    pub fn delta(&mut self, text: &str, ids: &[u32]) {
        self.text.push_str(text);
        self.ids.extend(ids);
        self.ends.push((self.text.len(), self.ids.len()));
    }

    /// As text: all of these mean the same.
    pub fn by_text(&self, random: &mut Random) -> Vec<Way<'_>> {
        let (text, bytes) = (self.text.as_str(), self.text.as_bytes());
        let mut ways = vec![
            Way::text("text, whole", vec![text]),
            Way::text("text, deltas", chunks(text, self.ends.iter().map(|end| end.0))),
            Way::text("text, random", chunks(text, random.ends(text.len()))),
            Way::text("text, after each <", text.split_inclusive('<').collect()),
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
    pub fn by_ids(&self, random: &mut Random) -> Vec<Way<'_>> {
        if self.ids.is_empty() {
            return Vec::new();
        }
        let mut ways = vec![self.with_ids("ids, deltas", self.ends.iter().copied())];
        // `[EOS]` counts where it ends the delta that has its id.
        if !self.ids.contains(&Marker::Eos.id()) {
            ways.push(self.with_ids("ids, whole", [(self.text.len(), self.ids.len())]));
            ways.push(self.with_ids("ids, ahead", self.ahead(random)));
            ways.push(self.with_ids("ids, ahead again", self.ahead(random)));
        }
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
    pub fn mixed(&self, random: &mut Random) -> Way<'_> {
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

    /// With ids that belong to other text: ahead of theirs, after it, or more of them than there is.
    pub fn astray(&self, random: &mut Random) -> Way<'_> {
        let mut ends = Vec::new();
        let (mut text, mut ids) = (0, 0);
        while text < self.text.len() || ids < self.ids.len() {
            text = self.text.ceil_char_boundary(text + random.below(24));
            ids = self.ids.len().min(ids + random.below(8));
            ends.push((text, ids));
        }
        self.with_ids("ids, astray", ends)
    }

    /// The tokens with their text, if each came alone.
    pub fn tokens(&self) -> Option<Vec<(u32, &str)>> {
        let texts = chunks(&self.text, self.ends.iter().map(|end| end.0));
        let single = self.ends.iter().enumerate().all(|(at, end)| end.1 == at + 1);
        single.then(|| self.ids.iter().copied().zip(texts).collect())
    }

    /// The places of its control tokens, if they are known: each token came alone, or all that is spelled is real.
    pub fn markers(&self) -> Option<Vec<Range<u64>>> {
        let (mut markers, mut spelled, mut at) = (Vec::new(), Vec::new(), 0);
        if let Some(tokens) = self.tokens() {
            for (id, text) in tokens {
                let end = at + text.len() as u64;
                markers.extend(Marker::from_id(id).filter(|_| !text.is_empty()).map(|_| at..end));
                at = end;
            }
            return Some(markers);
        }
        // No spelling tells which `[EOS]` is real.
        if self.ids.contains(&Marker::Eos.id()) {
            return None;
        }
        let mut rest = self.text.as_str();
        while let Some((before, marker, after)) = split_at_marker(rest) {
            let start = (self.text.len() - rest.len() + before.len()) as u64;
            markers.push(start..start + marker.spelling().len() as u64);
            spelled.push(marker.id());
            rest = after;
        }
        let control = self.ids.iter().filter(|&&id| Marker::from_id(id).is_some());
        control.eq(&spelled).then_some(markers)
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
pub const TOKENS: &str = "tokens";

// ---- tokens ------------------------------------------------------------------------------------------------------

/// The markers that text spells.
pub const MARKERS: [Marker; 4] = [Marker::Open, Marker::Close, Marker::Sep, Marker::EndOfMsg];

/// The text before the first marker that is spelled in `text`, `[EOS]` too, the marker, the text after it.
pub fn split_at_marker(text: &str) -> Option<(&str, Marker, &str)> {
    let markers = MARKERS.into_iter().chain([Marker::Eos]);
    let places = markers.filter_map(|marker| Some((text.find(marker.spelling())?, marker)));
    let (at, marker) = places.min_by_key(|&(at, _)| at)?;
    Some((&text[..at], marker, &text[at + marker.spelling().len()..]))
}

/// A text, and whether its markers are quoted where the markers are told.
pub type Part = (String, bool);

/// Parts as the twin reads them where the markers are told.
pub fn pieces(parts: &[Part]) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for (text, is_quoted) in parts {
        let mut text = text.as_str();
        while !is_quoted && let Some((before, marker, after)) = split_at_marker(text) {
            pieces.extend([Piece::Text(before), Piece::Marker(marker)]);
            text = after;
        }
        pieces.push(Piece::Text(text));
    }
    pieces
}

/// A stream of such parts, one token a delta: real markers are control tokens, quoted ones are spelled as Kimi's
/// tokenizer does it, other text is cut anywhere.
pub fn tokenized(parts: &[Part], request: Request, seed: u64) -> Stream {
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
            _ => unreachable!(),
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
