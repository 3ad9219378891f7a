//! The twin: a whole-input parser of the same format, to compare the streaming machine with.
//!
//! In: a whole text whose markers are spelled ([`parse_text`]), or pieces of each kind of input ([`parse_pieces`]).
//! Out: the complete, coalesced list of events. Nothing is streamed and nothing is held: what a machine has to wait
//! for is looked up. It is written to be read beside the grammar and the follow table, not to be fast, and shares
//! no code with the machine but the public types.

use std::fmt;
use std::ops::Range;

use kimi_xtml::{Channel, Code, Marker, OwnedEvent, Request, Span, Undeclared, ValueKind};
use nom::branch::alt;
use nom::bytes::complete::{tag as literal, take_while, take_while_m_n, take_while1};
use nom::character::complete::{anychar, char, none_of};
use nom::combinator::{eof, map, map_opt, not, opt, recognize, value};
use nom::multi::{many0, many1_count};
use nom::sequence::{delimited, preceded, terminated};
use nom::{IResult, Parser};
use serde_json::value::RawValue;

/// A part of the input, and what is known of it.
#[derive(Clone, Copy)]
pub enum Piece<'a> {
    /// Never structure, whatever it spells.
    Text(&'a str),
    /// A control token.
    Marker(Marker),
    /// What it spells may be structure. It need be no UTF-8.
    Spelled(&'a [u8]),
    /// The id of the message's end, whose text never came.
    End,
    /// Another kind of input follows: what stands on both sides spells no marker together.
    Turn,
}

impl fmt::Debug for Piece<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Piece::Text(text) => write!(f, "Text({text:?})"),
            Piece::Marker(marker) => write!(f, "{marker:?}"),
            Piece::Spelled(bytes) => write!(f, "Spelled(b\"{}\")", bytes.escape_ascii()),
            Piece::End => f.write_str("End"),
            Piece::Turn => f.write_str("Turn"),
        }
    }
}

/// Parses a text: spelled markers count, the follow rule tells structure from quotation.
pub fn parse_text(input: &str, request: &Request) -> Vec<(OwnedEvent, Span)> {
    parse_pieces(&[Piece::Spelled(input.as_bytes())], request)
}

/// Parses pieces.
pub fn parse_pieces(pieces: &[Piece<'_>], request: &Request) -> Vec<(OwnedEvent, Span)> {
    let input = Input::of(pieces);
    Twin::new(&input, request).message().into_iter().map(|(event, span)| (event, input.place(span))).collect()
}

// ---- limits ----------------------------------------------------------------------------------------------------

/// Blanks that a tag may have before and after its name.
const BLANKS: usize = 256;
/// Blanks that may stand before what follows a tag.
const GAP: usize = 16 * 1024;
/// Bytes of a header with attributes, its marker included.
const HEADER: usize = 16 * 1024;
/// Bytes of the header of a tag whose name the format does not have.
const UNKNOWN: usize = 256;
/// Different keys of a call that later ones are compared with.
const KEYS: usize = 128;

// ---- lexemes: texts and control tokens -------------------------------------------------------------------------

#[derive(Clone, Copy, Debug)]
struct Lexeme {
    start: usize,
    end: usize,
    marker: Option<Marker>,
    /// Whether the marker is a control token, and not only spelled.
    known: bool,
}

/// The input as text.
#[derive(Default)]
struct Input {
    text: String,
    lexemes: Vec<Lexeme>,
    /// The texts that are no structure.
    quoted: Vec<Range<usize>>,
    /// Where a U+FFFD ends that stands for fewer than its three bytes, and by how much it is too long.
    excess: Vec<(usize, usize)>,
    /// Bytes of the character that the end cuts.
    cut: usize,
}

impl Input {
    fn of(pieces: &[Piece<'_>]) -> Self {
        let mut input = Input::default();
        let mut rest = pieces;
        while let [first, after @ ..] = rest {
            rest = after;
            match *first {
                Piece::Text(first) => {
                    let mut text = first.to_owned();
                    while let [Piece::Text(next), after @ ..] = rest {
                        text += next;
                        rest = after;
                    }
                    let start = input.text.len();
                    input.text += &text;
                    input.quoted.push(start..input.text.len());
                    put(&mut input.lexemes, start, input.text.len(), None, false);
                }
                Piece::Spelled(first) => {
                    let mut bytes = first.to_owned();
                    while let [Piece::Spelled(next), after @ ..] = rest {
                        bytes.extend_from_slice(next);
                        rest = after;
                    }
                    input.spelled(&bytes, rest.is_empty());
                }
                Piece::Marker(marker) => {
                    let start = input.text.len();
                    input.text += marker.spelling();
                    put(&mut input.lexemes, start, input.text.len(), Some(marker), true);
                }
                Piece::End => {
                    let here = input.text.len();
                    put(&mut input.lexemes, here, here, Some(Marker::EndOfMsg), true);
                }
                Piece::Turn => {}
            }
        }
        input
    }

    fn spelled(&mut self, bytes: &[u8], last: bool) {
        let start = self.text.len();
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.text += chunk.valid();
            let invalid = chunk.invalid();
            let is_cut = std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if is_cut && last && chunks.peek().is_none() {
                self.cut = invalid.len();
            } else if !invalid.is_empty() {
                self.text.push(char::REPLACEMENT_CHARACTER);
                self.excess.push((self.text.len(), 3 - invalid.len()));
            }
        }
        cut(&self.text[start..], start, &mut self.lexemes);
    }

    /// A span of the text as one of the input's bytes.
    fn place(&self, span: Span) -> Span {
        let place = |at: u64| {
            let before = self.excess.iter().filter(|(end, _)| *end as u64 <= at);
            at - before.map(|(_, excess)| *excess as u64).sum::<u64>()
        };
        Span { bytes: place(span.bytes.start)..place(span.bytes.end), ..span }
    }
}

/// Adds a lexeme; text is joined to text before it.
fn put(lexemes: &mut Vec<Lexeme>, start: usize, end: usize, marker: Option<Marker>, known: bool) {
    match lexemes.last_mut() {
        _ if start == end && marker.is_none() => {}
        Some(last) if last.marker.is_none() && marker.is_none() => last.end = end,
        _ => lexemes.push(Lexeme { start, end, marker, known }),
    }
}

fn spelled(input: &str) -> IResult<&str, Marker> {
    alt((
        value(Marker::Open, literal("<|open|>")),
        value(Marker::Close, literal("<|close|>")),
        value(Marker::Sep, literal("<|sep|>")),
        value(Marker::EndOfMsg, literal("<|end_of_msg|>")),
    ))
    .parse(input)
}

fn texts_and_markers(input: &str) -> IResult<&str, Vec<(usize, Option<Marker>)>> {
    let text = recognize(many1_count(preceded(not(spelled), anychar)));
    many0(alt((
        map(spelled, |marker| (marker.spelling().len(), Some(marker))),
        map(text, |text: &str| (text.len(), None)),
    )))
    .parse(input)
}

/// Cuts a text at its spelled markers; `start` is where it begins in the input.
fn cut(text: &str, mut start: usize, lexemes: &mut Vec<Lexeme>) {
    let Ok((_, parts)) = texts_and_markers(text) else {
        unreachable!("every text is markers and what stands between them")
    };
    for (length, marker) in parts {
        put(lexemes, start, start + length, marker, false);
        start += length;
    }
}

// ---- tags ------------------------------------------------------------------------------------------------------

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Think,
    Response,
    Tools,
    Call,
    Argument,
    Json,
    Message,
}

use Name::{Argument, Call, Json, Message, Response, Think, Tools};

const ALL: &[Name] = &[Think, Response, Tools, Call, Argument, Json, Message];
/// The openers that are looked for in text ...
const CHANNELS: &[Name] = &[Think, Response, Tools];
/// ... and, of control tokens, in a value.
const IN_VALUE: &[Name] = &[Think, Response, Tools, Call, Argument];

impl Name {
    fn spelling(self) -> &'static str {
        match self {
            Think => "think",
            Response => "response",
            Tools => "tools",
            Call => "call",
            Argument => "argument",
            Json => "json",
            Message => "message",
        }
    }

    fn has_attributes(self) -> bool {
        !CHANNELS.contains(&self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Open(Name),
    Close(Name),
    /// The end of the message, which is no tag but acts like one.
    End,
}

use What::{Close, End, Open};

#[derive(Clone, Debug)]
struct Tag {
    what: What,
    attributes: Vec<(String, String)>,
    start: usize,
    end: usize,
    /// Whether its marker is a control token.
    known: bool,
    /// Something else stands in the place of its `<|sep|>`.
    unseparated: bool,
}

impl Tag {
    fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        let mut found = self.attributes.iter().filter(|(key, _)| key == name);
        found.next().map(|(_, text)| text.as_str())
    }

    /// What a value is that this opens.
    fn kind(&self) -> ValueKind {
        if self.what == Open(Json) { ValueKind::Block } else { ValueKind::from_type(self.attribute("type")) }
    }

    fn name(&self) -> Name {
        match self.what {
            Open(name) | Close(name) => name,
            End => unreachable!("the end has no name"),
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn some_blanks(input: &str) -> IResult<&str, &str> {
    take_while_m_n(0, BLANKS, is_blank).parse(input)
}

fn any_blanks(input: &str) -> IResult<&str, &str> {
    take_while(is_blank).parse(input)
}

/// Blanks and a known name, whole: what comes next is a blank or nothing.
fn name(input: &str) -> IResult<&str, Name> {
    let word = take_while1(|c| !is_blank(c));
    let known = map_opt(word, |word| ALL.iter().find(|name| name.spelling() == word).copied());
    preceded(some_blanks, known).parse(input)
}

/// What a tag without attributes has between its marker and the next.
fn plain_tag(input: &str) -> IResult<&str, Name> {
    terminated(name, (some_blanks, eof)).parse(input)
}

/// What a tag of any name has there.
fn any_tag(input: &str) -> IResult<&str, ()> {
    value((), (any_blanks, word, attributes_to_the_end)).parse(input)
}

/// The name of an attribute, or of a tag that the format does not have.
fn word(input: &str) -> IResult<&str, &str> {
    take_while1(|c| !is_blank(c) && !"=\"<>".contains(c)).parse(input)
}

fn attribute(input: &str) -> IResult<&str, (String, String)> {
    let equals = delimited(any_blanks, char('='), any_blanks);
    let quoted = delimited(char('"'), take_while(|c| c != '"'), char('"'));
    let (input, (name, _, text)) = (word, equals, quoted).parse(input)?;
    Ok((input, (name.to_owned(), decode(text))))
}

fn attributes(input: &str) -> IResult<&str, Vec<(String, String)>> {
    many0(preceded(take_while1(is_blank), attribute)).parse(input)
}

/// What stands after the name in an opener with attributes.
fn attributes_to_the_end(input: &str) -> IResult<&str, Vec<(String, String)>> {
    terminated(attributes, (any_blanks, eof)).parse(input)
}

/// The same, cut off anywhere.
fn attributes_cut(input: &str) -> IResult<&str, ()> {
    let quote = (char('"'), take_while(|c| c != '"'), eof);
    let equals = (char('='), any_blanks, alt((value((), quote), value((), eof))));
    let after_name = (any_blanks, alt((value((), equals), value((), eof))));
    let last = (take_while1(is_blank), opt((word, after_name)));
    value((), (attributes, opt(last), eof)).parse(input)
}

fn decode(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&amp;", "&")
}

/// Whether the text after a marker, cut off by the end of the input, could have become a tag with this name; `readable`:
/// whose attributes could have lexed.
fn could_become(text: &str, opener: bool, name: Name, readable: bool) -> bool {
    let word = text.trim_start_matches(is_blank);
    if text.len() - word.len() > BLANKS {
        return false;
    }
    let Some(after) = word.strip_prefix(name.spelling()) else {
        return name.spelling().starts_with(word);
    };
    if opener && name.has_attributes() {
        let lexes =
            if readable { attributes_cut(after).is_ok() } else { after.is_empty() || after.starts_with(is_blank) };
        Marker::Open.spelling().len() + text.len() <= HEADER && lexes
    } else {
        after.len() <= BLANKS && after.chars().all(is_blank)
    }
}

// ---- the follow rule -------------------------------------------------------------------------------------------

/// What must follow a spelled tag for it to be real.
#[derive(Clone, Copy, Debug)]
enum Follow {
    Anything,
    /// Any control token, or the end.
    Control,
    /// One of these, or the end.
    Of(&'static [What]),
}

type Table = &'static [(What, Follow)];

const A_CALL: Follow = Follow::Of(&[Open(Call), Close(Tools)]);
const THE_END: Follow = Follow::Of(&[End]);
#[rustfmt::skip]
const AFTER_A_VALUE: Follow = Follow::Of(&[
    Open(Argument), Open(Json), Open(Call), Open(Think), Open(Response), Open(Tools),
    Close(Call), Close(Tools), Close(Message), Close(Think), Close(Response), End,
]);

const THINK: Table = &[
    (Close(Think), Follow::Anything),
    (Open(Response), Follow::Anything),
    (Close(Response), Follow::Control),
    (Open(Tools), A_CALL),
    (Close(Message), THE_END),
    (End, THE_END),
];
const RESPONSE: Table =
    &[(Close(Response), Follow::Control), (Open(Tools), A_CALL), (Close(Message), THE_END), (End, THE_END)];
const RESPONSE_WITHOUT_TOOLS: Table = &[(Close(Response), Follow::Control), (Close(Message), THE_END), (End, THE_END)];
const ARGUMENT: Table = &[(Close(Argument), AFTER_A_VALUE), (Close(Message), THE_END), (End, THE_END)];
const BLOCK: Table = &[(Close(Json), AFTER_A_VALUE), (Close(Message), THE_END), (End, THE_END)];
/// The control tokens that end a value beside its own close ...
const ENDS_A_VALUE: &[What] = &[Open(Argument), Open(Call), Close(Call), Close(Tools), Close(Message), End];
/// ... and those that end a withheld element beside what ends it in a call.
const ENDS_AN_ELEMENT: &[What] =
    &[Open(Think), Open(Response), Open(Tools), Close(Think), Close(Response), Close(Tools)];

// ---- reading ---------------------------------------------------------------------------------------------------

/// What is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Think,
    Response,
    Tools,
    Call,
    Value,
}

/// What stands at a place of the input.
enum Read {
    Nothing,
    /// Text up to here.
    Text(usize),
    Tag(Tag),
    /// A tag that the end cuts off.
    Cut,
    Stray(Stray),
}

/// A control token that begins or ends no tag that acts, with what of its header goes with it.
#[derive(Clone)]
struct Stray {
    code: Code,
    start: usize,
    end: usize,
    known: bool,
    opener: bool,
}

impl Stray {
    /// Whether it is dropped there; else it is text.
    fn is_dropped(&self, place: Place) -> bool {
        match (place, self.code) {
            (Place::Value, _) => false,
            _ if self.known => true,
            (Place::Outside | Place::Tools | Place::Call, Code::StraySeparator) => true,
            (Place::Tools | Place::Call, Code::UnreadableHeader) => true,
            _ => false,
        }
    }
}

/// What ended a text.
#[derive(Clone)]
enum Stop {
    Tag(Tag),
    Stray(Stray),
    Cut(Range<usize>),
    Finished,
}

/// What stood between two tags.
#[derive(Default)]
struct Gap {
    /// Text other than white space.
    text: bool,
    /// An opener that could not be read.
    opener: bool,
}

/// A call so far.
#[derive(Default)]
struct Body {
    number: usize,
    keys: Vec<String>,
    block: bool,
    /// Of the last argument.
    unclosed: bool,
    /// An opener is missing, or could not be read.
    lacks_opener: bool,
    /// A value that was streamed is no JSON.
    broken: bool,
}

impl Body {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.block
    }

    fn is_sound(&self) -> bool {
        !self.unclosed && !self.lacks_opener && !self.broken
    }
}

struct Twin<'a> {
    input: &'a Input,
    lexemes: Vec<Lexeme>,
    request: &'a Request,
    at: usize,
    events: Vec<(OwnedEvent, Span)>,
    /// Depth of what is parsed but gives no events: what is withheld, calls without a name.
    muted: usize,
    /// Whether an element is withheld.
    in_element: bool,
    /// The tag whose missing separator was last told of.
    announced: Option<usize>,
    /// Whether any channel was opened.
    begun: bool,
    /// Whether a tools section was entered.
    had_tools: bool,
    /// Whether the character that the end cuts was dropped.
    cut_told: bool,
    calls: usize,
}

impl<'a> Twin<'a> {
    fn new(input: &'a Input, request: &'a Request) -> Self {
        Twin {
            input,
            lexemes: input.lexemes.clone(),
            request,
            at: 0,
            events: Vec::new(),
            muted: 0,
            in_element: false,
            announced: None,
            begun: false,
            had_tools: false,
            cut_told: false,
            calls: 0,
        }
    }

    // message := channel* (and what else stands outside)
    fn message(mut self) -> Vec<(OwnedEvent, Span)> {
        match self.request.opened {
            Some(Channel::Tools) if !self.request.engages_tools() => self.withheld_section(None),
            Some(channel) => {
                self.emit(OwnedEvent::Start(channel), 0..0);
                self.channel(channel);
            }
            None => {}
        }
        while let Some(tag) = self.between(Place::Outside, &mut Gap::default()) {
            match tag.what {
                Open(Think) => self.open(&tag, Channel::Think),
                Open(Response) => self.open(&tag, Channel::Response),
                Open(Tools) if self.request.engages_tools() => self.open(&tag, Channel::Tools),
                Open(Tools) => self.withheld_section(Some(&tag)),
                Open(Call) if self.is_ready() => self.implied_section(&tag),
                Open(Call | Argument | Json) => {
                    self.withheld_element(&tag, OwnedEvent::Content);
                }
                Open(Message) | Close(Message) => {
                    self.take(&tag);
                    self.emit_text(OwnedEvent::Markup, tag.range());
                }
                Close(_) => self.drop_tag(&tag, Code::OrphanClose),
                End => {
                    self.take(&tag);
                    self.emit_text(OwnedEvent::Markup, tag.range());
                    break;
                }
            }
        }
        let end = self.input.text.len();
        if self.at < end {
            self.diagnose(Code::AfterEnd, self.at);
            self.drop_range(self.at..end);
        }
        self.over();
        self.events
    }

    /// Whether a call outside the tools channel counts.
    fn is_ready(&self) -> bool {
        self.request.engages_tools() && !self.had_tools
    }

    fn open(&mut self, tag: &Tag, channel: Channel) {
        self.take(tag);
        self.emit(OwnedEvent::Start(channel), tag.range());
        self.channel(channel);
    }

    fn channel(&mut self, channel: Channel) {
        self.begun = true;
        if channel == Channel::Tools {
            self.had_tools = true;
            self.repeated(Tools);
            self.tools();
        } else {
            self.text_channel(channel);
        }
    }

    /// A tools section that was not spelled, before its first call.
    fn implied_section(&mut self, call: &Tag) {
        self.announce(call);
        self.diagnose(Code::ImpliedTools, call.start);
        self.emit(OwnedEvent::Start(Channel::Tools), call.start..call.start);
        (self.begun, self.had_tools) = (true, true);
        self.tools();
    }

    // think := text close(think)     response := text close(response)
    fn text_channel(&mut self, channel: Channel) {
        let (name, place) = match channel {
            Channel::Think => (Think, Place::Think),
            _ => (Response, Place::Response),
        };
        let event = match channel {
            Channel::Think if self.request.separate_reasoning => OwnedEvent::Reasoning,
            _ => OwnedEvent::Content,
        };
        let table = match channel {
            Channel::Think => THINK,
            _ if self.request.engages_tools() => RESPONSE,
            _ => RESPONSE_WITHOUT_TOOLS,
        };
        let fresh = if self.repeated(name) { None } else { Some(self.at) };
        // A real tag that a withheld element ended before.
        let mut next = None;
        loop {
            let stop = match next.take() {
                Some(tag) => Stop::Tag(tag),
                None => {
                    let (text, stop) = self.data(place, |tag| match find(table, tag.what) {
                        _ if tag.known => true,
                        Some(follow) => self.follows(tag.end, follow),
                        None => channel == Channel::Response && tag.what == Open(Think) && fresh == Some(tag.start),
                    });
                    self.emit_text(event, text);
                    stop
                }
            };
            let tag = match stop {
                Stop::Tag(tag) => tag,
                Stop::Stray(stray) => {
                    self.drop_stray(&stray);
                    continue;
                }
                stop => return self.end(channel, name, stop),
            };
            match (channel, tag.what) {
                (_, what) if what == Close(name) => return self.end(channel, name, Stop::Tag(tag)),
                (Channel::Think, Open(Response)) | (Channel::Response, Open(Think)) => {
                    return self.end(channel, name, Stop::Tag(tag));
                }
                (_, Open(Tools) | Close(Message) | End) => return self.end(channel, name, Stop::Tag(tag)),
                (_, Open(Call)) if self.is_ready() => return self.end(channel, name, Stop::Tag(tag)),
                (_, Open(Call | Argument | Json)) => next = self.withheld_element(&tag, event),
                (_, Open(_)) => self.drop_tag(&tag, Code::MisplacedOpener),
                (_, Close(_)) => self.drop_tag(&tag, Code::OrphanClose),
            }
        }
    }

    // tools := call* close(tools)
    fn tools(&mut self) {
        loop {
            let Some(tag) = self.between(Place::Tools, &mut Gap::default()) else {
                return self.end(Channel::Tools, Tools, Stop::Finished);
            };
            match tag.what {
                Open(Call) => self.call(&tag),
                Open(Argument | Json | Message) => self.drop_tag(&tag, Code::MisplacedOpener),
                Close(Think | Response | Call | Argument | Json) => {
                    self.drop_tag(&tag, Code::OrphanClose);
                }
                Close(Tools) | Open(Think | Response | Tools) | Close(Message) | End => {
                    return self.end(Channel::Tools, Tools, Stop::Tag(tag));
                }
            }
        }
    }

    /// Ends a channel: by its own close, before any other tag, or because nothing is left.
    fn end(&mut self, channel: Channel, name: Name, stop: Stop) {
        let code = match channel {
            Channel::Think => Code::UnclosedThink,
            Channel::Response => Code::UnclosedResponse,
            _ => Code::UnclosedTools,
        };
        let (range, _) = self.close(name, stop, code);
        self.emit(OwnedEvent::End(channel), range);
    }

    // call := open(call) (argument* | json) close(call)
    fn call(&mut self, opener: &Tag) {
        self.take(opener);
        match opener.attribute("tool") {
            None | Some("") => {
                self.diagnose(Code::NamelessCall, opener.start);
                self.muted += 1;
                self.call_body(0);
                self.muted -= 1;
                self.drop_range(opener.start..self.at);
            }
            Some(name) => {
                let call = self.calls;
                if self.muted == 0 {
                    self.calls += 1;
                }
                if !self.request.tools.iter().any(|tool| tool == name) {
                    self.diagnose(Code::UndeclaredTool, opener.start);
                }
                let name = name.to_owned();
                self.emit(OwnedEvent::CallStart { call, name }, opener.range());
                self.call_body(call);
            }
        }
    }

    /// Gives the tag that ends the call, if that is not its close.
    fn call_body(&mut self, call: usize) -> Option<Tag> {
        let mut body = Body { number: call, ..Body::default() };
        let (complete, stop) = loop {
            let mut gap = Gap::default();
            let tag = self.between(Place::Call, &mut gap);
            body.lacks_opener |= gap.opener;
            let Some(tag) = tag else { break (false, Stop::Finished) };
            match tag.what {
                what if self.in_element && ENDS_AN_ELEMENT.contains(&what) => break (false, Stop::Tag(tag)),
                Open(Argument | Json) => self.value(&tag, &mut body),
                Open(Message) => self.drop_tag(&tag, Code::MisplacedOpener),
                Close(Think | Response) => self.drop_tag(&tag, Code::OrphanClose),
                Close(Argument | Json) => {
                    body.lacks_opener |= gap.text;
                    self.drop_tag(&tag, Code::OrphanClose);
                }
                Close(Call) => break (body.is_sound(), Stop::Tag(tag)),
                Open(Think | Response | Tools | Call) | Close(Tools | Message) | End => {
                    break (!body.is_empty() && body.is_sound(), Stop::Tag(tag));
                }
            }
        };
        let (range, next) = self.close(Call, stop, Code::UnclosedCall);
        let json = match () {
            () if !complete || body.block => "",
            () if body.is_empty() => "{}",
            () => "}",
        };
        let json = json.to_owned();
        self.emit(OwnedEvent::CallEnd { call, json, complete }, range);
        next
    }

    // argument := open(argument) text close(argument)     json := open(json) text close(json)
    fn value(&mut self, opener: &Tag, body: &mut Body) {
        let call = body.number;
        let block = opener.what == Open(Json);
        let key = opener.attribute("key").filter(|_| !block);
        if !block && key.is_none() {
            body.lacks_opener = true;
            return self.drop_tag(opener, Code::UnreadableHeader);
        }
        if body.block || (block && !body.is_empty()) {
            return self.mixed(opener, body);
        }
        self.take(opener);
        let kind = opener.kind();
        let mut json = String::new();
        if let Some(key) = key {
            json.push(if body.is_empty() { '{' } else { ',' });
            json += &quoted(key);
            json.push(':');
            if kind == ValueKind::String {
                json.push('"');
            }
            let seen = body.keys.iter().any(|other| other == key);
            if seen {
                self.diagnose(Code::DuplicateKey, opener.start);
            }
            if !seen && body.keys.len() < KEYS {
                body.keys.push(key.to_owned());
            }
        }
        body.block = block;
        if body.broken {
            json.clear();
        }
        let key = key.map(str::to_owned);
        self.emit(OwnedEvent::ArgumentStart { call, key, kind, json }, opener.range());

        let (range, stop) = self.value_text(opener);
        let text = &self.input.text[range.clone()];
        // Whether the value's JSON is brought to its end, which the next argument does as the close does.
        let ended = matches!(&stop, Stop::Tag(tag) if [Close(Argument), Open(Argument)].contains(&tag.what));
        let mut quote = String::new();
        if body.broken {
            self.drop_range(range);
        } else if kind == ValueKind::Block {
            self.arguments(call, text.to_owned(), range);
        } else if kind == ValueKind::String {
            self.arguments(call, inside_quotes(text), range);
            if ended {
                quote.push('"');
            }
        } else if self.is_streamed(kind) {
            let is_whole = self.beginning(call, range);
            body.broken = !is_whole || (ended && !is_json(text));
            if is_whole && body.broken {
                self.diagnose(Code::NotJson, self.end_of(&stop));
            }
        } else if text.len() > self.request.value_limit {
            self.diagnose(Code::ValueTooLong, range.start);
            self.arguments(call, format!("\"{}", inside_quotes(text)), range);
            if ended {
                quote.push('"');
            }
        } else if !ended {
            self.beginning(call, range);
        } else if is_json(text) {
            self.arguments(call, text.to_owned(), range);
        } else {
            self.diagnose(Code::NotJson, range.start);
            quote += if text.is_empty() { "\"\"" } else { "\"" };
            self.arguments(call, format!("\"{}", inside_quotes(text)), range);
        }

        let closed = matches!(&stop, Stop::Tag(tag) if tag.what == Close(opener.name()));
        let (range, _) = self.close(opener.name(), stop, Code::UnclosedValue);
        body.unclosed = !closed;
        self.emit(OwnedEvent::ArgumentEnd { call, json: quote, closed }, range);
    }

    /// Gives of a value what can begin JSON, and drops the rest, if there is any. Gives whether there is none.
    fn beginning(&mut self, call: usize, value: Range<usize>) -> bool {
        let text = &self.input.text[value.clone()];
        let could = could_be_json(text);
        let (good, rest) = (value.start..value.start + could, value.start + could..value.end);
        self.arguments(call, text[..could].to_owned(), good);
        if rest.is_empty() {
            return true;
        }
        self.diagnose(Code::NotJson, rest.start);
        self.drop_range(rest);
        false
    }

    /// A block beside arguments, an argument beside a block, a second block: dropped with its tags.
    fn mixed(&mut self, opener: &Tag, body: &mut Body) {
        self.announce(opener);
        self.diagnose(Code::MixedForms, opener.start);
        self.muted += 1;
        let stop = self.raw_value(opener);
        body.unclosed |= !matches!(stop, Stop::Tag(tag) if tag.what == Close(opener.name()));
        self.muted -= 1;
        self.drop_range(opener.start..self.at);
    }

    /// A value that gives no events, with its tags. Gives what ended it.
    fn raw_value(&mut self, opener: &Tag) -> Stop {
        self.take(opener);
        let (_, stop) = self.value_text(opener);
        self.close(opener.name(), stop.clone(), Code::UnclosedValue);
        stop
    }

    fn value_text(&self, opener: &Tag) -> (Range<usize>, Stop) {
        let (start, kind) = (self.at, opener.kind());
        let table = if opener.what == Open(Json) { BLOCK } else { ARGUMENT };
        self.data(Place::Value, |tag| {
            if &self.input.text[tag.start..tag.end] == Marker::Eos.spelling() {
                self.follows(tag.end, THE_END)
            } else if tag.known {
                tag.what == Close(opener.name())
                    || ENDS_A_VALUE.contains(&tag.what)
                    || self.in_element && ENDS_AN_ELEMENT.contains(&tag.what)
            } else {
                tag.what == Close(opener.name()) && self.is_whole(kind, start..tag.start)
                    || find(table, tag.what).is_some_and(|follow| self.follows(tag.end, follow))
            }
        })
    }

    /// Whether a value so far is one whole JSON value, where its kind is JSON.
    fn is_whole(&self, kind: ValueKind, value: Range<usize>) -> bool {
        let is_limited = value.len() <= self.request.value_limit || self.is_streamed(kind);
        kind != ValueKind::String && is_limited && is_json(&self.input.text[value])
    }

    fn is_streamed(&self, kind: ValueKind) -> bool {
        self.request.stream_json && matches!(kind, ValueKind::Object | ValueKind::Array)
    }

    /// A tools section that was not asked for, with its opener unless the prompt had it: parsed as a tools channel is, to
    /// find its end.
    fn withheld_section(&mut self, opener: Option<&Tag>) {
        let start = self.at;
        if let Some(tag) = opener {
            self.announce(tag);
        }
        self.diagnose(Code::ToolsWithheld, start);
        self.begun = true;
        self.muted += 1;
        opener.into_iter().for_each(|tag| self.take(tag));
        self.repeated(Tools);
        self.tools();
        self.muted -= 1;
        self.withhold(start..self.at, OwnedEvent::Content);
    }

    /// A call, argument or block outside the tools channel: parsed as in a call, to find its end.
    /// Gives the tag that ends it, if that is not its close.
    fn withheld_element(&mut self, opener: &Tag, as_text: fn(String) -> OwnedEvent) -> Option<Tag> {
        self.announce(opener);
        self.diagnose(Code::ToolsWithheld, opener.start);
        self.begun = true;
        self.muted += 1;
        self.in_element = true;
        let next = if opener.what == Open(Call) {
            self.take(opener);
            self.call_body(0)
        } else {
            match self.raw_value(opener) {
                Stop::Tag(tag) if tag.what != Close(opener.name()) => Some(tag),
                _ => None,
            }
        };
        self.in_element = false;
        self.muted -= 1;
        self.withhold(opener.start..self.at, as_text);
        next
    }

    fn withhold(&mut self, range: Range<usize>, as_text: fn(String) -> OwnedEvent) {
        match self.request.undeclared {
            Undeclared::Withhold => self.emit_text(OwnedEvent::Withheld, range),
            Undeclared::Content => self.emit_text(as_text, range),
        }
    }

    /// Drops the opener of the channel that was just opened, if it stands here once more. Gives whether it does.
    fn repeated(&mut self, channel: Name) -> bool {
        let is_quoted = self.lexeme(self.at).is_some_and(|here| here.marker.is_none());
        let told = if is_quoted {
            // Read once more, as if the markers that are spelled in quoted text from here on counted.
            let lexemes = self.with_quotations();
            std::mem::replace(&mut self.lexemes, lexemes)
        } else {
            self.lexemes.clone()
        };
        let read = self.read(self.at, Place::Outside);
        self.lexemes = told;
        match read {
            Read::Tag(tag) if tag.what == Open(channel) => {
                self.drop_tag(&tag, Code::RepeatedOpener);
                true
            }
            _ => false,
        }
    }

    /// The lexemes from here on, quoted text cut at its markers.
    fn with_quotations(&self) -> Vec<Lexeme> {
        let mut lexemes = Vec::new();
        for lexeme in &self.lexemes {
            let mut start = lexeme.start.max(self.at);
            if lexeme.marker.is_some() {
                if start <= lexeme.end {
                    put(&mut lexemes, lexeme.start, lexeme.end, lexeme.marker, lexeme.known);
                }
                continue;
            }
            for quoted in &self.input.quoted {
                let (from, to) = (quoted.start.max(start), quoted.end.min(lexeme.end));
                if from < to {
                    put(&mut lexemes, start, from, None, false);
                    cut(&self.input.text[from..to], from, &mut lexemes);
                    start = to;
                }
            }
            if start < lexeme.end {
                put(&mut lexemes, start, lexeme.end, None, false);
            }
        }
        lexemes
    }

    /// The text up to what is none, and that.
    fn data(&self, place: Place, is_real: impl Fn(&Tag) -> bool) -> (Range<usize>, Stop) {
        let mut at = self.at;
        loop {
            at = match self.read(at, place) {
                Read::Nothing => return (self.at..at, Stop::Finished),
                Read::Cut => return (self.at..at, Stop::Cut(at..self.input.text.len())),
                Read::Tag(tag) if is_real(&tag) => return (self.at..at, Stop::Tag(tag)),
                Read::Stray(stray) if stray.is_dropped(place) => return (self.at..at, Stop::Stray(stray)),
                Read::Text(end) | Read::Tag(Tag { end, .. }) | Read::Stray(Stray { end, .. }) => end,
            };
        }
    }

    /// Takes what stands between the elements; gives the next tag, which is not taken yet.
    fn between(&mut self, place: Place, gap: &mut Gap) -> Option<Tag> {
        loop {
            let start = self.at;
            match self.read(start, place) {
                Read::Nothing => return None,
                Read::Cut => {
                    self.cut_tag(start..self.input.text.len());
                    return None;
                }
                Read::Tag(tag) => return Some(tag),
                Read::Text(end) => self.between_text(place, start..end, gap),
                Read::Stray(stray) => {
                    gap.opener |= stray.opener;
                    if stray.is_dropped(place) {
                        self.drop_stray(&stray);
                    } else {
                        self.between_text(place, start..stray.end, gap);
                    }
                }
            }
        }
    }

    fn between_text(&mut self, place: Place, range: Range<usize>, gap: &mut Gap) {
        self.at = range.end;
        let mut start = range.start;
        let keeps_blanks = place == Place::Outside && !self.begun && !self.request.engages_tools();
        if !gap.text && !keeps_blanks {
            let text = &self.input.text[range.clone()];
            start += text.len() - text.trim_start_matches(is_blank).len();
            self.emit_text(OwnedEvent::Markup, range.start..start);
        }
        if start == range.end {
            return;
        }
        let first = !std::mem::replace(&mut gap.text, true);
        if place == Place::Outside {
            if first && self.begun {
                self.diagnose(Code::TextOutside, start);
            }
            self.emit_text(OwnedEvent::Content, start..range.end);
        } else {
            if first {
                self.diagnose(Code::TextInTools, start);
            }
            self.drop_range(start..range.end);
        }
    }

    /// The lexeme that stands at a place, what of it lies before cut off. One without bytes stands before the others.
    fn lexeme(&self, at: usize) -> Option<Lexeme> {
        let is_past = |lexeme: &Lexeme| lexeme.end < at || lexeme.end == at && lexeme.start < at;
        let lexeme = *self.lexemes.get(self.lexemes.partition_point(is_past))?;
        Some(Lexeme { start: at, ..lexeme })
    }

    /// The text that stands at a place, which may be empty, and the marker that ends it, if it is not the end.
    fn text_and_marker(&self, at: usize) -> (&'a str, Option<Lexeme>) {
        match self.lexeme(at) {
            Some(text) if text.marker.is_none() => (&self.input.text[text.start..text.end], self.lexeme(text.end)),
            marker => ("", marker),
        }
    }

    fn read(&self, at: usize, place: Place) -> Read {
        let Some(Lexeme { end, marker, known, .. }) = self.lexeme(at) else {
            return Read::Nothing;
        };
        let stray = |code, end, opener| Read::Stray(Stray { code, start: at, end, known, opener });
        let tag = |what, attributes, unseparated, end| {
            Read::Tag(Tag { what, attributes, start: at, end, known, unseparated })
        };
        let opener = match marker {
            None => return Read::Text(end),
            Some(Marker::Sep) => return stray(Code::StraySeparator, end, false),
            Some(Marker::EndOfMsg | Marker::Eos) => return tag(End, Vec::new(), false, end),
            Some(Marker::Open) => true,
            Some(Marker::Close) => false,
            Some(_) => return tag(End, Vec::new(), false, end),
        };
        // A control token that can become no tag is dropped, and a header that begins with one.
        let strict = known && place != Place::Value;
        let names = match place {
            _ if !opener => ALL,
            Place::Value if known => IN_VALUE,
            Place::Think | Place::Response if known => ALL,
            Place::Think | Place::Response | Place::Value => CHANNELS,
            Place::Outside | Place::Tools | Place::Call => ALL,
        };
        let bare = stray(Code::StrayMarker, end, opener);
        let (text, next) = self.text_and_marker(end);
        let Some(next) = next else {
            let could = names.iter().any(|&name| could_become(text, opener, name, !strict));
            return if could { Read::Cut } else { bare };
        };
        let unseparated = next.marker != Some(Marker::Sep);
        let end = if unseparated { next.start } else { next.end };
        if let Ok((header, name)) = name(text)
            && opener
            && name.has_attributes()
            && names.contains(&name)
        {
            if next.start - at > HEADER {
                return bare;
            }
            return match attributes_to_the_end(header) {
                Ok((_, attributes)) => tag(Open(name), attributes, unseparated, end),
                Err(_) => stray(Code::UnreadableHeader, end, true),
            };
        }
        match plain_tag(text) {
            Ok((_, name)) if names.contains(&name) => {
                tag(if opener { Open(name) } else { Close(name) }, Vec::new(), unseparated, end)
            }
            _ if strict && !unseparated && next.known && text.len() <= UNKNOWN && any_tag(text).is_ok() => {
                stray(Code::UnknownTag, end, opener)
            }
            _ => bare,
        }
    }

    fn follows(&self, at: usize, follow: Follow) -> bool {
        let listed = match follow {
            Follow::Anything => return true,
            Follow::Control => None,
            Follow::Of(listed) => Some(listed),
        };
        let (blanks, marker) = self.text_and_marker(at);
        if blanks.len() > GAP || !blanks.chars().all(is_blank) {
            return false;
        }
        let (Some(marker), Some(listed)) = (marker, listed) else {
            return true;
        };
        let (text, next) = self.text_and_marker(marker.end);
        match (marker.marker, next) {
            (Some(Marker::EndOfMsg | Marker::Eos), _) => listed.contains(&End),
            (Some(Marker::Open), Some(_)) => {
                matches!(name(text), Ok((_, name)) if listed.contains(&Open(name)))
            }
            (Some(Marker::Open), None) => match name(text) {
                Ok((after, name)) if !after.is_empty() => listed.contains(&Open(name)),
                _ => ALL.iter().any(|&name| listed.contains(&Open(name)) && could_become(text, true, name, true)),
            },
            (Some(Marker::Close), Some(_)) => {
                matches!(plain_tag(text), Ok((_, name)) if listed.contains(&Close(name)))
            }
            (Some(Marker::Close), None) => {
                ALL.iter().any(|&name| listed.contains(&Close(name)) && could_become(text, false, name, true))
            }
            _ => false,
        }
    }

    // ---- events ------------------------------------------------------------------------------------------------

    /// Takes a tag that acts here.
    fn take(&mut self, tag: &Tag) {
        self.announce(tag);
        self.at = tag.end;
    }

    fn announce(&mut self, tag: &Tag) {
        if tag.unseparated && self.muted == 0 && self.announced != Some(tag.start) {
            self.announced = Some(tag.start);
            self.diagnose(Code::MissingSeparator, tag.start);
        }
    }

    /// Ends something, by its own close or without it. Gives the range of the end, and the tag that is none of it.
    fn close(&mut self, name: Name, stop: Stop, unclosed: Code) -> (Range<usize>, Option<Tag>) {
        match stop {
            Stop::Tag(tag) if tag.what == Close(name) => {
                self.take(&tag);
                (tag.range(), None)
            }
            stop => {
                let range = self.unclosed(&stop, unclosed);
                (range, if let Stop::Tag(tag) = stop { Some(tag) } else { None })
            }
        }
    }

    /// Tells that something ends without its close; gives the empty range of the end that is implied.
    fn unclosed(&mut self, stop: &Stop, code: Code) -> Range<usize> {
        match stop {
            Stop::Tag(tag) => self.announce(tag),
            Stop::Cut(range) => self.cut_tag(range.clone()),
            Stop::Finished | Stop::Stray(_) => {}
        }
        let at = self.end_of(stop);
        self.at = at;
        let at = if matches!(stop, Stop::Tag(_)) { at } else { self.over() };
        self.diagnose(code, at);
        at..at
    }

    /// Where what a stop ends is over.
    fn end_of(&self, stop: &Stop) -> usize {
        if let Stop::Tag(tag) = stop { tag.start } else { self.input.text.len() }
    }

    /// Nothing is left but, it may be, the beginning of a character, which is dropped. Gives where the input ends.
    fn over(&mut self) -> usize {
        let text = self.input.text.len();
        let end = text + self.input.cut;
        if text < end && self.muted == 0 && !std::mem::replace(&mut self.cut_told, true) {
            self.diagnose(Code::CutCharacter, text);
            self.emit(OwnedEvent::Dropped(char::REPLACEMENT_CHARACTER.into()), text..end);
        }
        end
    }

    fn cut_tag(&mut self, range: Range<usize>) {
        self.at = range.end;
        self.diagnose(Code::CutTag, range.start);
        self.drop_range(range);
    }

    fn drop_tag(&mut self, tag: &Tag, code: Code) {
        self.take(tag);
        self.diagnose(code, tag.start);
        self.drop_range(tag.range());
    }

    fn drop_stray(&mut self, stray: &Stray) {
        self.at = stray.end;
        self.diagnose(stray.code, stray.start);
        self.drop_range(stray.start..stray.end);
    }

    fn drop_range(&mut self, range: Range<usize>) {
        self.emit_text(OwnedEvent::Dropped, range);
    }

    fn diagnose(&mut self, code: Code, at: usize) {
        self.emit(OwnedEvent::Diagnostic(code), at..at);
    }

    fn arguments(&mut self, call: usize, json: String, range: Range<usize>) {
        if !range.is_empty() {
            self.emit(OwnedEvent::Arguments { call, json }, range);
        }
    }

    /// Text of one kind; joined to what comes before it, if that is of the same kind.
    fn emit_text(&mut self, event: fn(String) -> OwnedEvent, range: Range<usize>) {
        if range.is_empty() || self.muted > 0 {
            return;
        }
        let text = self.input.text[range.clone()].to_owned();
        let mut range = range;
        let mut whole = event(text.clone());
        if let Some((last, span)) = self.events.last()
            && std::mem::discriminant(last) == std::mem::discriminant(&whole)
            && let OwnedEvent::Reasoning(before)
            | OwnedEvent::Content(before)
            | OwnedEvent::Withheld(before)
            | OwnedEvent::Markup(before)
            | OwnedEvent::Dropped(before) = last
        {
            whole = event(before.clone() + &text);
            range.start = span.bytes.start as usize;
            self.events.pop();
        }
        self.emit(whole, range);
    }

    fn emit(&mut self, event: OwnedEvent, range: Range<usize>) {
        if self.muted == 0 {
            let bytes = range.start as u64..range.end as u64;
            self.events.push((event, Span { bytes, tokens: None }));
        }
    }
}

fn find(table: Table, what: What) -> Option<Follow> {
    let mut rows = table.iter().filter(|(tag, _)| *tag == what);
    rows.next().map(|(_, follow)| *follow)
}

// ---- JSON ------------------------------------------------------------------------------------------------------

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn inside_quotes(text: &str) -> String {
    let quoted = quoted(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// Whether a text is JSON as RFC 8259 writes it; any depth, any number.
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// How many bytes of a text are the beginning of something that is JSON.
pub fn could_be_json(text: &str) -> usize {
    let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    ends.push(text.len());
    // What begins with something that can not become JSON can not either, so the ends are in order.
    let could = ends.partition_point(|&end| becomes_json(&text[..end]));
    ends[could.saturating_sub(1)]
}

/// Whether something makes the text JSON: one of these ends, and the brackets that are open then.
pub fn becomes_json(text: &str) -> bool {
    const ENDS: &[&str] = &[
        "", "0", "\"", "n\"", "0\"", "00\"", "000\"", "0000\"", "\"\"", "rue", "ue", "e", "alse", "lse", "se", "ull",
        "ll", "l",
    ];
    ENDS.iter().any(|end| {
        ["", ":0"].iter().any(|member| {
            let mut whole = [text, end, member].concat();
            let brackets = open_brackets(&whole);
            whole.extend(brackets);
            is_json(&whole)
        })
    })
}

/// A string that ends with its quote or is cut off.
fn string(input: &str) -> IResult<&str, ()> {
    let escape = value((), (char('\\'), anychar));
    let plain = value((), none_of("\"\\"));
    let end = alt((value((), char('"')), value((), eof)));
    value((), (char('"'), many0(alt((escape, plain))), end)).parse(input)
}

/// The characters outside of strings.
fn structure(input: &str) -> IResult<&str, Vec<Option<char>>> {
    many0(alt((value(None, string), map(anychar, Some)))).parse(input)
}

/// What closes the brackets that are open at the end of a text, innermost first.
fn open_brackets(text: &str) -> Vec<char> {
    let Ok((_, parts)) = structure(text) else { unreachable!("every text is strings and other characters") };
    let mut open = Vec::new();
    for part in parts.into_iter().flatten() {
        match part {
            '[' => open.push(']'),
            '{' => open.push('}'),
            ']' | '}' => {
                open.pop();
            }
            _ => {}
        }
    }
    open.reverse();
    open
}
