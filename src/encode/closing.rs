//! What closes a generation, so that a conversation can go on after it.
//!
//! In: the generation's tokens. Out: the pieces that end what it left open, as the encoder writes them. Held: a parser, which
//! knows what is open, and takes what is written too: where each piece leads is its rules' business.

use super::piece::{Label, Piece, Writer};
use crate::event::{Channel, Event, Span, ValueKind};
use crate::marker::Marker;
use crate::parse::Parser;
use crate::parse::table::State;
use crate::parse::tag::Name;
use crate::request::Request;
use crate::sink::Sink;

/// White space of the format.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// What closes a generation that `max_tokens` may have cut anywhere: nothing if it ended its message, else what is missing,
/// as the encoder writes it. `request` is what it is parsed with, `tokens` are its ids with their texts.
///
/// A tag that was cut is completed: its name, the quotes of its attributes, those that it must have. Then everything is
/// closed from the inside out, an answer that was never begun is written empty, and the message ends. So the whole reads
/// as if it had been generated with these last words: parsed, it has the texts of the generation.
///
/// None if the generation goes on after the end of its message: no piece makes one message of that. An `[EOS]` at its end
/// counts for nothing.
///
/// ```
/// use kimi_xtml::{Channel, Marker, Piece, Request, closing};
///
/// let request = Request::new().opened(Channel::Think).tools(["ls"]);
/// let text = |pieces: Vec<Piece<'_>>| pieces.iter().map(Piece::spelling).collect::<String>();
/// let (open, close, sep) = (Marker::Open.id(), Marker::Close.id(), Marker::Sep.id());
///
/// let cut_in_think = [("hm", 71)];
/// assert_eq!(
///     text(closing(request.clone(), &cut_in_think).unwrap()),
///     "<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>"
/// );
///
/// let cut_in_header = [("", close), ("think", 39_964), ("", sep), ("", open), ("tools", 25_385), ("", sep), ("", open),
///     ("call", 10_257), (" tool", 4_584), ("=\"", 878), ("ls", 5_497)];
/// assert_eq!(
///     text(closing(request, &cut_in_header).unwrap()),
///     "\" index=\"1\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>"
/// );
/// ```
pub fn closing(request: Request, mut tokens: &[(impl AsRef<str>, u32)]) -> Option<Vec<Piece<'static>>> {
    while let [before @ .., (_, id)] = tokens
        && *id == Marker::Eos.id()
    {
        tokens = before;
    }
    let mut closer = Closer::new(request);
    for (text, id) in tokens {
        closer.generated(text.as_ref(), *id)?;
    }
    closer.complete_tag();
    closer.close();
    Some(closer.writer.pieces)
}

struct Closer {
    parser: Parser,
    seen: Seen,
    /// Whether an answer was begun, or calls, before which none can come.
    answered: bool,
    writer: Writer<'static>,
}

/// What the events told.
#[derive(Default)]
struct Seen {
    /// Calls so far.
    calls: usize,
    /// Whether the message was closed, but for the token that ends it.
    closed: bool,
}

impl Sink for Seen {
    fn event(&mut self, event: Event<'_>, _: Span) {
        match event {
            Event::CallStart { .. } => self.calls += 1,
            Event::Start(_) => self.closed = false,
            Event::Markup(tag) if tag.starts_with(Marker::Close.spelling()) => self.closed = true,
            _ => {}
        }
    }
}

impl Closer {
    fn new(request: Request) -> Self {
        let (mut parser, mut seen) = (Parser::new(request), Seen::default());
        // The stream begins, whether or not something was generated.
        parser.push_text("", &mut seen);
        let answered = is_answer(&parser);
        Closer { parser, seen, answered, writer: Writer::new() }
    }

    /// Takes a token; none if the message has ended.
    fn generated(&mut self, text: &str, id: u32) -> Option<()> {
        if self.parser.state() == State::Done {
            return None;
        }
        self.parser.push_token(text, id, &mut self.seen);
        self.answered |= is_answer(&self.parser);
        Some(())
    }

    /// Writes, and reads what was written.
    fn write(&mut self, write: impl FnOnce(&mut Writer<'static>)) {
        let from = self.writer.pieces.len();
        write(&mut self.writer);
        for piece in &self.writer.pieces[from..] {
            match piece {
                Piece::Marker(marker) => self.parser.push_marker(*marker, &mut self.seen),
                piece => self.parser.push_text(piece.spelling(), &mut self.seen),
            }
        }
        self.answered |= is_answer(&self.parser);
    }

    /// Completes the tag that was cut, if one was.
    fn complete_tag(&mut self) {
        let Some((marker, header)) = self.parser.begun_tag() else { return };
        let header = header.trim_start_matches(BLANKS).to_owned();
        let fits = |name: &&Name| {
            let name = name.as_str();
            let after = header.strip_prefix(name).unwrap_or_default();
            name.starts_with(&header) || after.starts_with(BLANKS)
        };
        let Some(name) = self.candidates(marker).iter().find(fits).copied() else { return };
        let calls = self.seen.calls;
        self.write(|writer| {
            writer.text(name.as_str().get(header.len()..).unwrap_or_default(), Label::Markup);
            if marker == Marker::Open {
                complete_attributes(name, header.get(name.as_str().len()..).unwrap_or_default(), calls, writer);
            }
            writer.marker(Marker::Sep);
        });
    }

    /// The names that a tag may have here, the likeliest first.
    fn candidates(&self, marker: Marker) -> &'static [Name] {
        use Name::*;
        match (marker, self.parser.state()) {
            (Marker::Open, State::Outside | State::Think) if !self.answered => {
                &[Response, Tools, Call, Argument, Json, Think, Message]
            }
            (Marker::Open, State::Outside | State::Think | State::Response | State::Done) => {
                &[Tools, Response, Call, Argument, Json, Think, Message]
            }
            (Marker::Open, State::Tools) => &[Call, Tools, Response, Think, Argument, Json, Message],
            (Marker::Open, State::Call) => &[Argument, Json, Call, Tools, Response, Think, Message],
            (Marker::Open, State::Argument | State::Json) => &[Argument, Call],
            (_, State::Think) => &[Think, Message, Response, Tools, Call, Argument, Json],
            (_, State::Response) => &[Response, Message, Think, Tools, Call, Argument, Json],
            (_, State::Tools) => &[Tools, Message, Think, Response, Call, Argument, Json],
            (_, State::Call) => &[Call, Tools, Message, Think, Response, Argument, Json],
            (_, State::Argument) => &[Argument, Call, Tools, Message],
            (_, State::Json) => &[Json, Call, Tools, Message],
            (_, State::Outside | State::Done) => &[Message, Think, Response, Tools, Call, Argument, Json],
        }
    }

    /// Closes what is open, from the inside out.
    fn close(&mut self) {
        loop {
            let name = match self.parser.state() {
                State::Argument => Name::Argument,
                State::Json => Name::Json,
                State::Call => Name::Call,
                State::Tools => Name::Tools,
                State::Think => Name::Think,
                State::Response => Name::Response,
                State::Outside if !self.seen.closed && !self.answered => {
                    self.write(|writer| writer.open(Name::Response.as_str()));
                    continue;
                }
                State::Outside if !self.seen.closed => Name::Message,
                State::Outside => return self.write(|writer| writer.marker(Marker::EndOfMsg)),
                State::Done => return,
            };
            self.write(|writer| writer.close(name.as_str()));
        }
    }
}

fn is_answer(parser: &Parser) -> bool {
    matches!(parser.channel(), Some(Channel::Response | Channel::Tools))
}

/// How far the attributes of a header have come.
enum Reached<'h> {
    /// Before an attribute; whether a blank stands there.
    Before(bool),
    /// In a name.
    Name(&'h str),
    /// After a name, before its `=`.
    Equals(&'h str),
    /// Before the quote of this name's value.
    Quote(&'h str),
    /// In a value of this name.
    Value(&'h str, &'h str),
}

/// Completes a header that was cut after the tag's name and `attributes`, if they can be read.
fn complete_attributes(tag: Name, attributes: &str, calls: usize, writer: &mut Writer<'static>) {
    let needed: &[&str] = match tag {
        Name::Call => &[" tool", " index"],
        Name::Argument => &[" key", " type"],
        Name::Json => &[" type"],
        Name::Message => &[" role"],
        Name::Think | Name::Response | Name::Tools => &[],
    };
    let Some((mut given, reached)) = lex(attributes) else { return };
    let value = |key: &str| match key {
        "index" => (calls + 1).to_string(),
        "type" if tag == Name::Json => ValueKind::Object.name().to_owned(),
        "type" => ValueKind::String.name().to_owned(),
        "role" => "assistant".to_owned(),
        _ => String::new(),
    };
    let mut write = |parts: &[&str]| parts.iter().for_each(|part| writer.text((*part).to_owned(), Label::Markup));
    let mut blank = false;
    match reached {
        Reached::Before(after_blank) => blank = after_blank,
        Reached::Name(part) => {
            let mut names = needed.iter().map(|name| name.trim_start()).filter(|name| !given.contains(name));
            let name = names.find(|name| name.starts_with(part)).unwrap_or(part);
            write(&[&name[part.len()..], "=\"", &value(name), "\""]);
            given.push(name);
        }
        Reached::Equals(name) => {
            write(&["=\"", &value(name), "\""]);
            given.push(name);
        }
        Reached::Quote(name) => {
            write(&["\"", &value(name), "\""]);
            given.push(name);
        }
        Reached::Value(name, part) => {
            let whole = match (name, part) {
                (_, "") => value(name),
                ("type", part) => kind_that_begins(part).to_owned(),
                (_, part) => part.to_owned(),
            };
            write(&[whole.get(part.len()..).unwrap_or_default(), "\""]);
            given.push(name);
        }
    }
    for &key in needed {
        let name = key.trim_start();
        if !given.contains(&name) {
            write(&[if std::mem::take(&mut blank) { name } else { key }, "=\"", &value(name), "\""]);
        }
    }
}

/// The first type whose name begins so; what is given if none does.
fn kind_that_begins(part: &str) -> &str {
    use ValueKind::*;
    let kinds = [String, Number, Boolean, Null, Object, Array];
    kinds.into_iter().map(ValueKind::name).find(|name| name.starts_with(part)).unwrap_or(part)
}

/// The names of whole attributes, and how far the rest has come; none if no more text makes it readable.
fn lex(attributes: &str) -> Option<(Vec<&str>, Reached<'_>)> {
    let mut given = Vec::new();
    let mut rest = attributes;
    loop {
        let from_name = rest.trim_start_matches(BLANKS);
        let name_len = from_name.find(|c: char| BLANKS.contains(&c) || c == '=').unwrap_or(from_name.len());
        let (name, after) = from_name.split_at(name_len);
        if from_name.is_empty() {
            return Some((given, Reached::Before(!rest.is_empty())));
        }
        if after.is_empty() {
            return Some((given, Reached::Name(name)));
        }
        let after = after.trim_start_matches(BLANKS);
        if after.is_empty() {
            return Some((given, Reached::Equals(name)));
        }
        let after = after.strip_prefix('=')?.trim_start_matches(BLANKS);
        if after.is_empty() {
            return Some((given, Reached::Quote(name)));
        }
        let value = after.strip_prefix('"')?;
        let Some((_, after)) = value.split_once('"') else {
            return Some((given, Reached::Value(name, value)));
        };
        given.push(name);
        rest = after;
    }
}
