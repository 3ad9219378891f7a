//! The twin: a whole-string parser of the same format, to compare the streaming machine with.
//!
//! In: a whole text whose markers are spelled ([`parse_text`]), or pieces whose markers are told ([`parse_pieces`]).
//! Out: the complete, coalesced list of events. Nothing is streamed and nothing is held: what a machine has to wait
//! for is looked up. It is written to be read beside the grammar and the follow table, not to be fast, and shares
//! no code with the machine but the public types.

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

/// What is known of a part of the input.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Never structure, whatever it spells.
    Text(&'a str),
    /// A control token.
    Marker(Marker),
}

/// Parses a text: spelled markers count, the follow rule tells structure from quotation.
pub fn parse_text(input: &str, request: &Request) -> Vec<(OwnedEvent, Span)> {
    let twin = Twin::new(input, cut(input, 0), false, request);
    twin.message()
}

/// Parses pieces: the markers are told, nothing is guessed.
pub fn parse_pieces(pieces: &[Piece<'_>], request: &Request) -> Vec<(OwnedEvent, Span)> {
    let mut whole = String::new();
    let mut lexemes: Vec<Lexeme> = Vec::new();
    for piece in pieces {
        let start = whole.len();
        let (text, marker) = match *piece {
            Piece::Text(text) => (text, None),
            Piece::Marker(marker) => (marker.spelling(), Some(marker)),
        };
        whole.push_str(text);
        match lexemes.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.marker.is_none() && marker.is_none() => last.end = whole.len(),
            _ => lexemes.push(Lexeme { start, end: whole.len(), marker }),
        }
    }
    let twin = Twin::new(&whole, lexemes, true, request);
    twin.message()
}

// ---- limits ----------------------------------------------------------------------------------------------------

/// Blanks that a tag may have before and behind its name, and that may stand before what follows a tag.
const BLANKS: usize = 256;
/// Bytes of a header with attributes, its marker included.
const HEADER: usize = 16 * 1024;
/// Different keys of a call that later ones are compared with.
const KEYS: usize = 128;

// ---- lexemes: texts and control tokens ---------------------------------------------------------------------------

#[derive(Clone, Copy, Debug)]
struct Lexeme {
    start: usize,
    end: usize,
    marker: Option<Marker>,
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
fn cut(text: &str, mut start: usize) -> Vec<Lexeme> {
    let Ok((_, lexemes)) = texts_and_markers(text) else {
        unreachable!("every text is markers and what stands between them")
    };
    let place = |(length, marker)| {
        let end = start + length;
        Lexeme { start: std::mem::replace(&mut start, end), end, marker }
    };
    lexemes.into_iter().map(place).collect()
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
/// ... and in a value when the markers are told.
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

fn attribute_name(input: &str) -> IResult<&str, &str> {
    take_while1(|c| !is_blank(c) && !"=\"<>".contains(c)).parse(input)
}

fn attribute(input: &str) -> IResult<&str, (String, String)> {
    let equals = delimited(any_blanks, char('='), any_blanks);
    let quoted = delimited(char('"'), take_while(|c| c != '"'), char('"'));
    let (input, (name, _, text)) = (attribute_name, equals, quoted).parse(input)?;
    Ok((input, (name.to_owned(), decode(text))))
}

fn attributes(input: &str) -> IResult<&str, Vec<(String, String)>> {
    many0(preceded(take_while1(is_blank), attribute)).parse(input)
}

/// What stands behind the name in an opener with attributes.
fn attributes_to_the_end(input: &str) -> IResult<&str, Vec<(String, String)>> {
    terminated(attributes, (any_blanks, eof)).parse(input)
}

/// The same, cut off anywhere.
fn attributes_cut(input: &str) -> IResult<&str, ()> {
    let quote = (char('"'), take_while(|c| c != '"'), eof);
    let equals = (char('='), any_blanks, alt((value((), quote), value((), eof))));
    let behind_name = (any_blanks, alt((value((), equals), value((), eof))));
    let last = (take_while1(is_blank), opt((attribute_name, behind_name)));
    value((), (attributes, opt(last), eof)).parse(input)
}

fn decode(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&amp;", "&")
}

/// Whether the text behind a marker, cut off by the end of the input, could have become a tag with this name.
fn could_become(text: &str, opener: bool, name: Name) -> bool {
    let blanks = text.len() - text.trim_start_matches(is_blank).len();
    let word = &text[blanks..];
    if blanks > BLANKS {
        return false;
    }
    let Some(behind) = word.strip_prefix(name.spelling()) else {
        return name.spelling().starts_with(word);
    };
    if opener && name.has_attributes() {
        Marker::Open.spelling().len() + text.len() <= HEADER && attributes_cut(behind).is_ok()
    } else {
        behind.len() <= BLANKS && behind.chars().all(is_blank)
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
const BEHIND_A_VALUE: Follow =
    Follow::Of(&[Open(Argument), Open(Json), Open(Call), Close(Call), Close(Tools), Close(Message), End]);

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
const ARGUMENT: Table = &[(Close(Argument), BEHIND_A_VALUE), (Close(Message), THE_END), (End, THE_END)];
const BLOCK: Table = &[(Close(Json), BEHIND_A_VALUE), (Close(Message), THE_END), (End, THE_END)];
/// What ends a value beside its own close when the markers are told.
const TOLD_IN_VALUE: &[What] = &[Open(Argument), Open(Call), Close(Call), Close(Tools), Close(Message), End];

// ---- reading ---------------------------------------------------------------------------------------------------

/// What stands at a place of the input; the numbers are where it ends.
enum Read {
    Nothing,
    Text(usize),
    /// A `<|sep|>`.
    Separator(usize),
    /// An `<|open|>` that begins no tag.
    BareOpen(usize),
    /// A `<|close|>` that begins no tag.
    BareClose(usize),
    /// A known name, but its attributes do not lex.
    Unreadable(usize),
    Tag(Tag),
    /// A tag that the end cuts off.
    Cut,
}

/// Where text between the elements stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Tools,
    Call,
}

/// What ended a text.
enum Stop {
    Tag(Tag),
    Cut(Range<usize>),
    Finished,
}

/// A call so far.
#[derive(Default)]
struct Body {
    number: usize,
    keys: Vec<String>,
    block: bool,
    /// Of the last argument.
    unclosed: bool,
    /// An opener could not be read.
    unreadable: bool,
    /// A value that was streamed is no JSON.
    broken: bool,
}

impl Body {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.block
    }

    fn is_sound(&self) -> bool {
        !self.unclosed && !self.unreadable && !self.broken
    }
}

struct Twin<'a> {
    input: &'a str,
    lexemes: Vec<Lexeme>,
    /// Whether the markers are told.
    told: bool,
    request: &'a Request,
    at: usize,
    events: Vec<(OwnedEvent, Span)>,
    /// Depth of what is parsed but gives no events: withheld sections, calls without a name.
    muted: usize,
    /// The tag whose missing separator was last told of.
    announced: Option<usize>,
    /// Whether any channel was opened.
    begun: bool,
    calls: usize,
}

impl<'a> Twin<'a> {
    fn new(input: &'a str, lexemes: Vec<Lexeme>, told: bool, request: &'a Request) -> Self {
        Twin {
            input,
            lexemes,
            told,
            request,
            at: 0,
            events: Vec::new(),
            muted: 0,
            announced: None,
            begun: false,
            calls: 0,
        }
    }

    // message := channel* (and what else stands outside)
    fn message(mut self) -> Vec<(OwnedEvent, Span)> {
        match self.request.opened {
            Some(Channel::Tools) if !self.request.engages_tools() => self.withheld(None),
            Some(channel) => {
                self.emit(OwnedEvent::Start(channel), 0..0);
                self.channel(channel);
            }
            None => {}
        }
        while let Some(tag) = self.between(Place::Outside, &mut false) {
            match tag.what {
                Open(Think) => self.open(&tag, Channel::Think),
                Open(Response) => self.open(&tag, Channel::Response),
                Open(Tools) if self.request.engages_tools() => self.open(&tag, Channel::Tools),
                Open(Tools | Call | Argument | Json) => self.withheld(Some(&tag)),
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
        if self.at < self.input.len() {
            self.diagnose(Code::AfterEnd, self.at);
            self.drop_range(self.at..self.input.len());
        }
        self.events
    }

    fn open(&mut self, tag: &Tag, channel: Channel) {
        self.take(tag);
        self.emit(OwnedEvent::Start(channel), tag.range());
        self.channel(channel);
    }

    fn channel(&mut self, channel: Channel) {
        self.begun = true;
        match channel {
            Channel::Think => self.think(),
            Channel::Response => self.response(),
            _ => {
                self.repeated(Tools);
                self.tools();
            }
        }
    }

    // think := text close(think)
    fn think(&mut self) {
        self.repeated(Think);
        loop {
            let (text, stop) = self.data(CHANNELS, |what| find(THINK, what));
            if self.request.separate_reasoning {
                self.emit_text(OwnedEvent::Reasoning, text);
            } else {
                self.emit_text(OwnedEvent::Content, text);
            }
            match &stop {
                Stop::Tag(tag) if tag.what == Close(Response) => {
                    self.drop_tag(tag, Code::OrphanClose);
                }
                _ => return self.end(Channel::Think, Think, stop),
            }
        }
    }

    // response := text close(response)
    fn response(&mut self) {
        self.repeated(Response);
        let table = if self.request.engages_tools() { RESPONSE } else { RESPONSE_WITHOUT_TOOLS };
        let (text, stop) = self.data(CHANNELS, |what| find(table, what));
        self.emit_text(OwnedEvent::Content, text);
        self.end(Channel::Response, Response, stop);
    }

    // tools := call* close(tools)
    fn tools(&mut self) {
        loop {
            let Some(tag) = self.between(Place::Tools, &mut false) else {
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
        let range = match stop {
            Stop::Tag(tag) if tag.what == Close(name) => {
                self.take(&tag);
                tag.range()
            }
            stop => {
                let code = match channel {
                    Channel::Think => Code::UnclosedThink,
                    Channel::Response => Code::UnclosedResponse,
                    _ => Code::UnclosedTools,
                };
                self.unclosed(&stop, code)
            }
        };
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

    fn call_body(&mut self, call: usize) {
        let mut body = Body { number: call, ..Body::default() };
        let (complete, range) = loop {
            let Some(tag) = self.between(Place::Call, &mut body.unreadable) else {
                break (false, self.unclosed(&Stop::Finished, Code::UnclosedCall));
            };
            match tag.what {
                Open(Argument | Json) => self.value(&tag, &mut body),
                Open(Message) => self.drop_tag(&tag, Code::MisplacedOpener),
                Close(Think | Response | Argument | Json) => {
                    self.drop_tag(&tag, Code::OrphanClose);
                }
                Close(Call) => {
                    self.take(&tag);
                    break (body.is_sound(), tag.range());
                }
                Open(Think | Response | Tools | Call) | Close(Tools | Message) | End => {
                    let complete = !body.is_empty() && body.is_sound();
                    break (complete, self.unclosed(&Stop::Tag(tag), Code::UnclosedCall));
                }
            }
        };
        let json = match () {
            () if !complete || body.block => "",
            () if body.is_empty() => "{}",
            () => "}",
        };
        let json = json.to_owned();
        self.emit(OwnedEvent::CallEnd { call, json, complete }, range);
    }

    // argument := open(argument) text close(argument)     json := open(json) text close(json)
    fn value(&mut self, opener: &Tag, body: &mut Body) {
        let call = body.number;
        let block = opener.what == Open(Json);
        let key = opener.attribute("key").filter(|_| !block);
        if !block && key.is_none() {
            body.unreadable = true;
            return self.drop_tag(opener, Code::UnreadableHeader);
        }
        if body.block || (block && !body.is_empty()) {
            return self.mixed(opener, body);
        }
        self.take(opener);
        let kind = if block { ValueKind::Block } else { ValueKind::from_type(opener.attribute("type")) };
        let streamed = self.request.stream_json && matches!(kind, ValueKind::Object | ValueKind::Array);
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
        let text = &self.input[range.clone()];
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
        } else if streamed {
            let could = could_be_json(text);
            let (good, bad) = (range.start..range.start + could, range.start + could..range.end);
            self.arguments(call, text[..could].to_owned(), good);
            body.broken = !bad.is_empty() || (ended && !is_json(text));
            if body.broken {
                self.diagnose(Code::NotJson, bad.start);
                self.drop_range(bad);
            }
        } else if text.len() <= self.request.value_limit && (!ended || is_json(text)) {
            self.arguments(call, text.to_owned(), range);
        } else {
            let too_long = text.len() > self.request.value_limit;
            let code = if too_long { Code::ValueTooLong } else { Code::NotJson };
            self.diagnose(code, range.start);
            if text.is_empty() {
                quote.push('"');
            } else {
                self.arguments(call, format!("\"{}", inside_quotes(text)), range);
            }
            if ended {
                quote.push('"');
            }
        }

        let closed = self.is_close_of(opener, &stop);
        let range = match stop {
            Stop::Tag(tag) if closed => {
                self.take(&tag);
                tag.range()
            }
            stop => self.unclosed(&stop, Code::UnclosedValue),
        };
        body.unclosed = !closed;
        self.emit(OwnedEvent::ArgumentEnd { call, json: quote, closed }, range);
    }

    /// A block beside arguments, an argument beside a block, a second block: dropped with its tags.
    fn mixed(&mut self, opener: &Tag, body: &mut Body) {
        self.announce(opener);
        self.diagnose(Code::MixedForms, opener.start);
        self.muted += 1;
        self.take(opener);
        let (_, stop) = self.value_text(opener);
        if self.is_close_of(opener, &stop)
            && let Stop::Tag(tag) = stop
        {
            self.take(&tag);
        } else {
            body.unclosed = true;
            self.unclosed(&stop, Code::UnclosedValue);
        }
        self.muted -= 1;
        self.drop_range(opener.start..self.at);
    }

    fn value_text(&self, opener: &Tag) -> (Range<usize>, Stop) {
        let table = if opener.what == Open(Json) { BLOCK } else { ARGUMENT };
        if self.told {
            let told = |what| TOLD_IN_VALUE.contains(&what).then_some(Follow::Anything);
            self.data(IN_VALUE, |what| find(table, what).or(told(what)))
        } else {
            self.data(CHANNELS, |what| find(table, what))
        }
    }

    fn is_close_of(&self, opener: &Tag, stop: &Stop) -> bool {
        match (opener.what, stop) {
            (Open(name), Stop::Tag(tag)) => tag.what == Close(name),
            _ => false,
        }
    }

    /// A section that was not asked for, with its opener unless the prompt had it: parsed as a tools channel is, to find its
    /// end.
    fn withheld(&mut self, opener: Option<&Tag>) {
        let start = self.at;
        if let Some(tag) = opener {
            self.announce(tag);
        }
        self.diagnose(Code::ToolsWithheld, start);
        self.begun = true;
        self.muted += 1;
        if opener.is_none_or(|tag| tag.what == Open(Tools)) {
            opener.into_iter().for_each(|tag| self.take(tag));
            self.repeated(Tools);
        }
        self.tools();
        self.muted -= 1;
        let section = start..self.at;
        match self.request.undeclared {
            Undeclared::Withhold => self.emit_text(OwnedEvent::Withheld, section),
            Undeclared::Content => self.emit_text(OwnedEvent::Content, section),
        }
    }

    /// Drops the opener of the channel that was just opened, if it stands here once more.
    fn repeated(&mut self, channel: Name) {
        let spelled_in_told_text = self.told && self.lexeme(self.at).is_some_and(|here| here.marker.is_none());
        let read = if spelled_in_told_text {
            // Read once more, as if the markers that are spelled from here on counted.
            let mut lexemes = Vec::new();
            for lexeme in self.lexemes.iter().filter(|lexeme| lexeme.end > self.at) {
                let start = lexeme.start.max(self.at);
                match lexeme.marker {
                    Some(_) => lexemes.push(*lexeme),
                    None => lexemes.extend(cut(&self.input[start..lexeme.end], start)),
                }
            }
            let told = std::mem::replace(&mut self.lexemes, lexemes);
            let read = self.read(self.at, CHANNELS);
            self.lexemes = told;
            read
        } else {
            self.read(self.at, CHANNELS)
        };
        if let Read::Tag(tag) = read
            && tag.what == Open(channel)
        {
            self.drop_tag(&tag, Code::RepeatedOpener);
        }
    }

    /// The text up to the next tag that counts here, and what ended it.
    fn data(&self, openers: &[Name], row: impl Fn(What) -> Option<Follow>) -> (Range<usize>, Stop) {
        let mut at = self.at;
        loop {
            at = match self.read(at, openers) {
                Read::Nothing => return (self.at..at, Stop::Finished),
                Read::Cut => return (self.at..at, Stop::Cut(at..self.input.len())),
                Read::Tag(tag) => match row(tag.what) {
                    Some(follow) if self.told || self.follows(tag.end, follow) => {
                        return (self.at..at, Stop::Tag(tag));
                    }
                    _ => tag.end,
                },
                Read::Text(end)
                | Read::Separator(end)
                | Read::BareOpen(end)
                | Read::BareClose(end)
                | Read::Unreadable(end) => end,
            };
        }
    }

    /// Takes what stands between the elements; gives the next tag, which is not taken yet.
    fn between(&mut self, place: Place, unreadable: &mut bool) -> Option<Tag> {
        // Whether other text than white space stood here since the last tag.
        let mut running = false;
        loop {
            let start = self.at;
            match self.read(start, ALL) {
                Read::Nothing => return None,
                Read::Cut => {
                    self.cut_tag(start..self.input.len());
                    return None;
                }
                Read::Tag(tag) => return Some(tag),
                Read::Separator(end) => {
                    self.at = end;
                    self.diagnose(Code::StraySeparator, start);
                    self.drop_range(start..end);
                }
                Read::Unreadable(end) if place != Place::Outside => {
                    *unreadable = true;
                    self.at = end;
                    self.diagnose(Code::UnreadableHeader, start);
                    self.drop_range(start..end);
                }
                Read::BareOpen(end) => {
                    *unreadable = true;
                    self.between_text(place, start..end, &mut running);
                }
                Read::Text(end) | Read::BareClose(end) | Read::Unreadable(end) => {
                    self.between_text(place, start..end, &mut running);
                }
            }
        }
    }

    fn between_text(&mut self, place: Place, range: Range<usize>, running: &mut bool) {
        self.at = range.end;
        let mut start = range.start;
        let keeps_blanks = place == Place::Outside && !self.begun && !self.request.engages_tools();
        if !*running && !keeps_blanks {
            let text = &self.input[range.clone()];
            start += text.len() - text.trim_start_matches(is_blank).len();
            self.emit_text(OwnedEvent::Markup, range.start..start);
        }
        if start == range.end {
            return;
        }
        let first = !std::mem::replace(running, true);
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

    /// The lexeme that stands at a place, what of it lies before cut off.
    fn lexeme(&self, at: usize) -> Option<Lexeme> {
        let index = self.lexemes.partition_point(|lexeme| lexeme.end <= at);
        let lexeme = *self.lexemes.get(index)?;
        Some(Lexeme { start: at, ..lexeme })
    }

    /// The text that stands at a place, which may be empty, and the marker that ends it, if it is not the end.
    fn text_and_marker(&self, at: usize) -> (&'a str, Option<Lexeme>) {
        match self.lexeme(at) {
            Some(text) if text.marker.is_none() => (&self.input[text.start..text.end], self.lexeme(text.end)),
            marker => ("", marker),
        }
    }

    fn read(&self, at: usize, openers: &[Name]) -> Read {
        let Some(Lexeme { end, marker, .. }) = self.lexeme(at) else {
            return Read::Nothing;
        };
        let plain = |what, unseparated, end| {
            let attributes = Vec::new();
            Read::Tag(Tag { what, attributes, start: at, end, unseparated })
        };
        let opener = match marker {
            None => return Read::Text(end),
            Some(Marker::Sep) => return Read::Separator(end),
            Some(Marker::Open) => true,
            Some(Marker::Close) => false,
            Some(_) => return plain(End, false, end),
        };
        let (names, bare) = if opener { (openers, Read::BareOpen(end)) } else { (ALL, Read::BareClose(end)) };
        let (text, next) = self.text_and_marker(end);
        let Some(next) = next else {
            let could = names.iter().any(|&name| could_become(text, opener, name));
            return if could { Read::Cut } else { bare };
        };
        let unseparated = next.marker != Some(Marker::Sep);
        let end = if unseparated { next.start } else { next.end };
        if opener {
            match name(text) {
                Ok((header, name)) if name.has_attributes() && names.contains(&name) => {
                    if next.start - at > HEADER {
                        return bare;
                    }
                    let Ok((_, attributes)) = attributes_to_the_end(header) else {
                        return Read::Unreadable(end);
                    };
                    let what = Open(name);
                    return Read::Tag(Tag { what, attributes, start: at, end, unseparated });
                }
                _ => {}
            }
        }
        match plain_tag(text) {
            Ok((_, name)) if !names.contains(&name) => bare,
            Ok((_, name)) if opener => plain(Open(name), unseparated, end),
            Ok((_, name)) => plain(Close(name), unseparated, end),
            Err(_) => bare,
        }
    }

    fn follows(&self, at: usize, follow: Follow) -> bool {
        let listed = match follow {
            Follow::Anything => return true,
            Follow::Control => None,
            Follow::Of(listed) => Some(listed),
        };
        let (blanks, marker) = self.text_and_marker(at);
        if blanks.len() > BLANKS || !blanks.chars().all(is_blank) {
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
                Ok((behind, name)) if !behind.is_empty() => listed.contains(&Open(name)),
                _ => ALL.iter().any(|&name| listed.contains(&Open(name)) && could_become(text, true, name)),
            },
            (Some(Marker::Close), Some(_)) => {
                matches!(plain_tag(text), Ok((_, name)) if listed.contains(&Close(name)))
            }
            (Some(Marker::Close), None) => {
                ALL.iter().any(|&name| listed.contains(&Close(name)) && could_become(text, false, name))
            }
            _ => false,
        }
    }

    // ---- events ------------------------------------------------------------------------------------------------

    fn text(&self, range: Range<usize>) -> String {
        self.input[range].to_owned()
    }

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

    /// Tells that something ends without its close; gives the empty range of the end that is implied.
    fn unclosed(&mut self, stop: &Stop, code: Code) -> Range<usize> {
        match stop {
            Stop::Tag(tag) => self.announce(tag),
            Stop::Cut(range) => self.cut_tag(range.clone()),
            Stop::Finished => self.at = self.input.len(),
        }
        let at = match stop {
            Stop::Tag(tag) => tag.start,
            _ => self.at,
        };
        self.at = at;
        self.diagnose(code, at);
        at..at
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
        let text = self.text(range.clone());
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
