//! Streams whose kind of input changes on the way.
//!
//! In: segments, each with the kind of input that it comes by. Out: the pieces that the twin reads, and the pushes that
//! the parser takes, cut in random places. Every random choice comes from a seed.

use std::fmt;

use kimi_xtml::{Marker, Request};

use crate::stream::{Part, Push, Random, Stream, Way, chars, chunks, pieces, tokenized};
use crate::twin::Piece;

/// A part of a stream that comes by one kind of input.
#[derive(Clone)]
pub enum Segment {
    /// By `push`.
    Text(String),
    /// By `push_bytes`.
    Bytes(Vec<u8>),
    /// By `push_text`, `push_marker` and `push_token`.
    Pieces(Told),
    /// By `push_with_ids`; then ids of control tokens whose text never comes.
    Ids(Told, Vec<Marker>),
}

/// Text, and control tokens that are told.
#[derive(Clone, Debug)]
pub struct Told {
    parts: Vec<Part>,
    tokens: Stream,
}

impl Told {
    /// The seed chooses the tokens.
    pub fn new(parts: Vec<Part>, seed: u64) -> Self {
        let tokens = tokenized(&parts, Request::new(), seed);
        Told { parts, tokens }
    }
}

impl Segment {
    /// What `turn_to` of the parser tells apart.
    fn source(&self) -> u8 {
        match self {
            Segment::Text(_) | Segment::Bytes(_) => 0,
            Segment::Pieces(_) => 1,
            Segment::Ids(..) => 2,
        }
    }

    fn pieces(&self) -> Vec<Piece<'_>> {
        match self {
            Segment::Text(text) => vec![Piece::Spelled(text.as_bytes())],
            Segment::Bytes(bytes) => vec![Piece::Spelled(bytes)],
            Segment::Pieces(told) => pieces(&told.parts),
            Segment::Ids(told, unspelled) => {
                let ends = unspelled.iter().filter(|marker| matches!(marker, Marker::EndOfMsg | Marker::Eos));
                pieces(&told.parts).into_iter().chain(ends.map(|_| Piece::End)).collect()
            }
        }
    }

    /// The first push has nothing: only the kind of input.
    fn pushes<'a>(&'a self, unspelled: &'a [u32], random: &mut Random) -> Vec<Push<'a>> {
        match self {
            Segment::Text(text) => {
                let chunks = chunks(text, random.ends(text.len()));
                let texts = chunks.into_iter().filter(|text| !text.is_empty()).map(Push::Text);
                [Push::Bytes(b"")].into_iter().chain(texts).collect()
            }
            Segment::Bytes(bytes) => {
                let ends = random.ends(bytes.len());
                [Push::Bytes(b"")].into_iter().chain(Way::bytes("", bytes, ends).pushes).collect()
            }
            Segment::Pieces(told) => {
                let mut pushes = vec![Push::Quoted("")];
                for (id, text) in told.tokens.tokens().unwrap_or_default() {
                    match (random.below(3), Marker::from_id(id)) {
                        (0, _) => pushes.push(Push::Token(id, text)),
                        (_, Some(marker)) => pushes.push(Push::Marker(marker)),
                        (1, None) => pushes.push(Push::Quoted(text)),
                        (_, None) => pushes.extend(chars(text).into_iter().map(Push::Quoted)),
                    }
                }
                pushes
            }
            Segment::Ids(told, _) => {
                let (ways, at) = (told.tokens.by_ids(random), random.below(3));
                let ids = ways.into_iter().filter(|way| way.name.starts_with("ids")).map(|way| way.pushes).nth(at);
                let singly = || told.tokens.by_ids(random).into_iter().next().map(|way| way.pushes);
                let mut pushes = vec![Push::WithIds("", &[])];
                pushes.extend(ids.or_else(singly).unwrap_or_default());
                pushes.push(Push::WithIds("", unspelled));
                pushes
            }
        }
    }
}

/// A request, and a stream whose kind of input changes.
#[derive(Clone)]
pub struct Mixed {
    pub request: Request,
    segments: Vec<(Segment, Vec<u32>)>,
}

impl Mixed {
    pub fn new(request: Request, segments: Vec<Segment>) -> Self {
        let with_ids = |segment| match &segment {
            Segment::Ids(_, markers) => {
                let ids = markers.iter().map(|marker| marker.id()).collect();
                (segment, ids)
            }
            _ => (segment, Vec::new()),
        };
        Mixed { request, segments: segments.into_iter().map(with_ids).collect() }
    }

    /// As the twin reads it.
    pub fn pieces(&self) -> Vec<Piece<'_>> {
        let mut pieces = Vec::new();
        let mut before = None;
        for (segment, _) in &self.segments {
            if before.is_some_and(|source| source != segment.source() || source == 2) {
                pieces.push(Piece::Turn);
            }
            before = Some(segment.source());
            pieces.extend(segment.pieces());
        }
        pieces
    }

    /// As the parser takes it.
    pub fn way(&self, random: &mut Random) -> Way<'_> {
        let mut pushes = Vec::new();
        for (segment, unspelled) in &self.segments {
            // Two such segments are no one: what did not come of the first does not come in the second.
            if segment.source() == 2 {
                pushes.push(Push::Quoted(""));
            }
            pushes.extend(segment.pushes(unspelled, random));
        }
        Way { name: "mixed", pushes }
    }
}

impl fmt::Debug for Mixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.request, self.pieces())
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.pieces())
    }
}
