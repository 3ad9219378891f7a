//! The parser: inputs of every kind -> scan -> reader -> machine -> sink.
//!
//! In: text, bytes, tokens, or text with ids. Out: events through a [`Sink`]. Held: what decoder, scanner, ids, reader
//! and machine hold; this file only passes what comes from one to the next.

mod call;
pub(crate) mod escape;
mod header;
mod held;
mod ids;
pub(crate) mod json;
mod machine;
mod reader;
mod scan;
pub(crate) mod table;
pub(crate) mod tag;
pub(crate) mod utf8;

use crate::diagnostic::Code;
use crate::event::{Channel, Event, OwnedEvent, Span};
use crate::finish::FinishReason;
use crate::marker::Marker;
use crate::parse::ids::Ids;
use crate::parse::machine::Machine;
use crate::parse::reader::Reader;
use crate::parse::scan::{Piece, Scanner};
use crate::parse::table::Origin;
#[cfg(feature = "encode")]
use crate::parse::table::State;
use crate::parse::utf8::Decoder;
use crate::report::{Ledger, Out, Report};
use crate::request::Request;
use crate::sink::Sink;

/// How far the stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    New,
    Reading(Source),
    Finished,
    /// Something came after the finish, and was reported.
    Exceeded,
}

/// What tells structure from text in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Nothing but the spelling.
    Text,
    /// The caller.
    Pieces,
    /// Token ids.
    Ids,
}

/// Parses one stream, as it is generated. One parser a choice.
///
/// * **Input**, any of these, as often as there is some: [`push`](Self::push) and [`push_bytes`](Self::push_bytes) take
///   text in which markers are recognised by their spelling, and what follows them tells quoted ones from real ones, as far
///   as text can tell; [`push_token`](Self::push_token), [`push_with_ids`](Self::push_with_ids),
///   [`push_text`](Self::push_text) and [`push_marker`](Self::push_marker) know it from the tokens, at every level.
/// * **End**: [`finish`](Self::finish), once. Nothing that was pushed is lost, however the stream ended. What is pushed after
///   it follows the message, as what a model says after its end does: it goes out as [`Event::Dropped`] and is told of as
///   [`Code::AfterEnd`]. A second finish does nothing and gives the same reason.
/// * **Questions**: [`report`](Self::report), [`channel`](Self::channel), [`held`](Self::held), at any time.
/// * **Reuse**: [`reset`](Self::reset). A clone goes on by itself from where the parser is: for several choices with the same
///   beginning.
///
/// ```
/// use kimi_xtml::{Channel, Event, Parser, Request, sink_fn};
///
/// let mut parser = Parser::new(Request::new().opened(Channel::Think));
/// let mut said = String::new();
/// let mut sink = sink_fn(|event, _| match event {
///     Event::Reasoning(text) => said += &format!("[{text}]"),
///     Event::Content(text) => said += text,
///     _ => {}
/// });
/// for delta in ["Sum", " it.<|clo", "se|>think<|sep|><|open|>resp", "onse<|sep|>1 <", " 2"] {
///     parser.push(delta, &mut sink);
/// }
/// assert_eq!(parser.finish("length", &mut sink), "length");
/// assert_eq!(said, "[Sum][ it.]1 < 2");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Parser {
    decoder: Decoder,
    scanner: Scanner,
    ids: Ids,
    reader: Reader,
    machine: Machine,
    ledger: Ledger,
    phase: Phase,
}

impl Parser {
    /// A parser for one stream of this request.
    ///
    /// ```
    /// use kimi_xtml::{Channel, Parser, Request};
    ///
    /// let parser = Parser::new(Request::new().opened(Channel::Think));
    /// assert_eq!(parser.channel(), Some(Channel::Think));
    /// ```
    pub fn new(request: Request) -> Self {
        Parser { machine: Machine::new(request), ..Parser::default() }
    }

    /// Takes text that may contain markers, cut anywhere.
    ///
    /// ```
    /// use kimi_xtml::{OwnedEvent, Parser, Request};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut events = Vec::new();
    /// parser.push("Hi", &mut events);
    /// assert_eq!(events.last().unwrap().0, OwnedEvent::Content("Hi".into()));
    /// ```
    pub fn push(&mut self, text: &str, sink: &mut (impl Sink + ?Sized)) {
        if !self.begin(Source::Text, sink) {
            return self.after_end(text, sink);
        }
        if !self.decoder.is_empty() {
            self.replace_partial(sink);
        }
        self.spelled(text, sink);
    }

    /// Takes what [`push`](Self::push) takes as bytes, UTF-8 cut anywhere. Each invalid sequence becomes U+FFFD and is
    /// counted in the report.
    ///
    /// ```
    /// use kimi_xtml::{OwnedEvent, Parser, Request};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut events = Vec::new();
    /// parser.push_bytes(&[0xc3], &mut events);
    /// parser.push_bytes(&[0xa9], &mut events);
    /// assert_eq!(events.last().unwrap().0, OwnedEvent::Content("é".into()));
    /// ```
    pub fn push_bytes(&mut self, bytes: &[u8], sink: &mut (impl Sink + ?Sized)) {
        if !self.begin(Source::Text, sink) {
            return self.bytes_after_end(bytes, sink);
        }
        let mut decoder = std::mem::take(&mut self.decoder);
        decoder.decode(bytes, |decoded| self.decoded(decoded, sink));
        self.decoder = decoder;
    }

    /// Takes text that is never structure, whatever it spells.
    ///
    /// ```
    /// use kimi_xtml::{OwnedEvent, Parser, Request};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut events = Vec::new();
    /// parser.push_text("<|close|>", &mut events);
    /// assert_eq!(events.last().unwrap().0, OwnedEvent::Content("<|close|>".into()));
    /// ```
    pub fn push_text(&mut self, text: &str, sink: &mut (impl Sink + ?Sized)) {
        if !self.begin(Source::Pieces, sink) {
            return self.after_end(text, sink);
        }
        self.ledger.receive(text);
        self.quoted(text, sink);
    }

    /// Takes a control token. It counts as its spelling in spans and in the report.
    ///
    /// ```
    /// use kimi_xtml::{Channel, Marker, Parser, Request};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut events = Vec::new();
    /// parser.push_marker(Marker::Open, &mut events);
    /// parser.push_text("think", &mut events);
    /// parser.push_marker(Marker::Sep, &mut events);
    /// assert_eq!(parser.channel(), Some(Channel::Think));
    /// ```
    pub fn push_marker(&mut self, marker: Marker, sink: &mut (impl Sink + ?Sized)) {
        if !self.begin(Source::Pieces, sink) {
            return self.after_end(marker.spelling(), sink);
        }
        self.ledger.receive(marker.spelling());
        self.known(marker, marker.spelling(), sink);
    }

    /// Takes one token: a control token by its id, whatever its text; any other token's text is never structure. The
    /// text of a token may be empty and come with a later one.
    ///
    /// ```
    /// use kimi_xtml::{Channel, Marker, Parser, Request, Sink, Span};
    ///
    /// #[derive(Default)]
    /// struct Answer(String);
    ///
    /// impl Sink for Answer {
    ///     fn content(&mut self, text: &str, _: Span) {
    ///         self.0 += text;
    ///     }
    /// }
    ///
    /// let mut parser = Parser::new(Request::new().opened(Channel::Response));
    /// let mut answer = Answer::default();
    /// // A quoted tag is in ordinary tokens; the real one begins with the control token `<|close|>`.
    /// for (text, id) in [("<", 27), ("|", 91), ("close", 10_794), ("|", 91), (">", 29), (" ends", 15_739), (" it", 483)] {
    ///     parser.push_token(text, id, &mut answer);
    /// }
    /// parser.push_token("", Marker::Close.id(), &mut answer);
    /// parser.push_token("response", 12_092, &mut answer);
    /// parser.push_token("", Marker::Sep.id(), &mut answer);
    /// assert_eq!(parser.channel(), None);
    /// parser.finish("stop", &mut answer);
    /// assert_eq!(answer.0, "<|close|> ends it");
    /// ```
    pub fn push_token(&mut self, text: &str, id: u32, sink: &mut (impl Sink + ?Sized)) {
        let marker = Marker::from_id(id);
        let text = if let Some(marker) = marker { marker.spelling() } else { text };
        if !self.begin(Source::Pieces, sink) {
            self.tokens_after_end(text, 1);
            return self.after_end(text, sink);
        }
        let number = self.ledger.receive_tokens(1);
        self.ledger.receive(text);
        self.ledger.cover(self.ledger.received(), number + 1);
        match marker {
            Some(marker) => self.known(marker, text, sink),
            None => self.quoted(text, sink),
        }
    }

    /// Takes the text of one delta and its ids: control ids tell which spelled markers are real. The ids may run ahead of
    /// the text by what a detokenizer holds back, and never lag behind it. Of more than 1,024 markers that wait for their text,
    /// the oldest is given up ([`Code::IdWithoutText`](crate::Code::IdWithoutText)).
    ///
    /// A quotation is told exactly if it is tokenised as Kimi's tokenizer does it, and in any tokens if each delta has the
    /// text of just its one id. Where a control token's text never comes, what follows it is no structure either: the
    /// engine must keep special tokens. [`push_token`](Self::push_token) is exact for any tokens.
    ///
    /// ```
    /// use kimi_xtml::{Parser, Request};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut events = Vec::new();
    /// parser.push_with_ids("Hi you", &[19_180, 498], &mut events);
    /// assert_eq!(events.last().unwrap().1.tokens, Some(0..2));
    /// ```
    pub fn push_with_ids(&mut self, text: &str, ids: &[u32], sink: &mut (impl Sink + ?Sized)) {
        if !self.begin(Source::Ids, sink) {
            self.tokens_after_end(text, ids.len());
            return self.after_end(text, sink);
        }
        let Parser { scanner, ids: coming, reader, machine, ledger, .. } = self;
        for _ in 0..coming.receive(ledger.receive_tokens(ids.len()), ids, text.len()) {
            ledger.note(Code::IdWithoutText, ledger.at());
        }
        let around_eos = coming.around_eos(ids, text);
        let mut end = ledger.received() - scanner.held() as u64;
        ledger.receive(text);
        ledger.examined += text.len() as u64;
        let out = &mut Out { ledger, sink };
        let mut take = |piece: Piece<'_>| {
            let number = match piece {
                Piece::Text(_) => None,
                Piece::Marker(marker) => coming.spelled(marker),
            };
            end += piece.as_str().len() as u64;
            out.ledger.cover(end, number.map_or_else(|| coming.before_next(), |number| number + 1));
            let origin = if number.is_some() { Origin::Known } else { Origin::Quoted };
            reader.piece(piece, origin, machine, out);
        };
        let mut rest = text;
        if let Some((before, after)) = around_eos {
            scanner.scan(before, &mut take);
            scanner.flush(&mut take);
            take(Piece::Marker(Marker::Eos));
            rest = after;
        }
        scanner.scan(rest, take);
    }

    /// Ends the stream: held text is delivered, what is open ends as incomplete. Gives the finish reason: the engine's own
    /// `reason` unchanged, but `stop`, and what else engines say for it (see [`FinishReason::from_engine`]), becomes
    /// `tool_calls` if a call is complete.
    ///
    /// ```
    /// use kimi_xtml::{Parser, Request};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut events = Vec::new();
    /// parser.push("Hi", &mut events);
    /// assert_eq!(parser.finish("eos_token", &mut events), "eos_token"); // unchanged: no call is complete
    /// ```
    pub fn finish<'r>(&mut self, reason: &'r str, sink: &mut (impl Sink + ?Sized)) -> &'r str {
        let source = if let Phase::Reading(source) = self.phase { source } else { Source::Text };
        if self.begin(source, sink) {
            self.end(sink);
        }
        match FinishReason::from_engine(reason) {
            Some(FinishReason::Stop) if self.machine.complete_calls() > 0 => FinishReason::ToolCalls.as_str(),
            _ => reason,
        }
    }

    /// Makes the parser as good as new, for another stream. It keeps its memory.
    ///
    /// ```
    /// use kimi_xtml::{Parser, Request};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut events = Vec::new();
    /// parser.push("Hi", &mut events);
    /// parser.reset(Request::new());
    /// assert_eq!(parser.report().bytes.input, 0);
    /// ```
    pub fn reset(&mut self, request: Request) {
        self.ids.reset();
        self.reader.reset();
        self.machine.reset(request);
        self.ledger.reset();
        (self.decoder, self.scanner) = (Decoder::default(), Scanner::default());
        self.phase = Phase::New;
    }

    /// What the parser did so far.
    ///
    /// ```
    /// use kimi_xtml::{Parser, Request};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut events = Vec::new();
    /// parser.push("Hi", &mut events);
    /// assert_eq!(parser.report().bytes.content, 2);
    /// ```
    pub fn report(&self) -> Report {
        self.ledger.report()
    }

    /// The channel that is open now.
    ///
    /// ```
    /// use kimi_xtml::{Channel, Parser, Request};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut events = Vec::new();
    /// parser.push("<|open|>response<|sep|>", &mut events);
    /// assert_eq!(parser.channel(), Some(Channel::Response));
    /// ```
    pub fn channel(&self) -> Option<Channel> {
        if self.phase == Phase::New { self.machine.opened() } else { self.machine.channel() }
    }

    /// The text that came in and did not go out: what may become a marker or a tag, and a value whose end decides its
    /// form. For debugging; it is copied.
    ///
    /// ```
    /// use kimi_xtml::{Parser, Request};
    ///
    /// let mut parser = Parser::new(Request::new());
    /// let mut events = Vec::new();
    /// parser.push("Hi <|op", &mut events);
    /// assert_eq!(parser.held(), "<|op");
    /// ```
    pub fn held(&self) -> String {
        [&self.machine.held_value(), self.reader.held(), self.scanner.prefix()].concat()
    }

    /// The request that it was made for.
    #[cfg(feature = "chat")]
    pub(crate) fn request(&self) -> &Request {
        self.machine.request()
    }

    /// The innermost open thing.
    #[cfg(feature = "encode")]
    pub(crate) fn state(&self) -> State {
        self.machine.state()
    }

    /// The marker and the text so far of a tag of the format that a control token began.
    #[cfg(feature = "encode")]
    pub(crate) fn begun_tag(&self) -> Option<(Marker, &str)> {
        self.reader.begun_tag()
    }

    /// Comes before every input. Gives whether the stream still takes input.
    #[inline]
    fn begin(&mut self, source: Source, sink: &mut (impl Sink + ?Sized)) -> bool {
        self.phase == Phase::Reading(source) || self.turn_to(source, sink)
    }

    /// The first input, or the first of another kind, or one after the finish.
    #[cold]
    fn turn_to(&mut self, source: Source, sink: &mut (impl Sink + ?Sized)) -> bool {
        match self.phase {
            Phase::Finished | Phase::Exceeded => return false,
            Phase::New => self.machine.start(&mut Out { ledger: &mut self.ledger, sink }),
            Phase::Reading(_) => {
                self.replace_partial(sink);
                self.settle_ids(sink);
            }
        }
        self.phase = Phase::Reading(source);
        true
    }

    /// The stream ends: what is held goes out.
    fn end(&mut self, sink: &mut (impl Sink + ?Sized)) {
        self.settle_ids(sink);
        let cut = self.decoder.take();
        if cut > 0 {
            self.ledger.receive_replacement(cut);
        }
        let out = &mut Out { ledger: &mut self.ledger, sink };
        self.reader.finish(&mut self.machine, out);
        if cut > 0 {
            self.machine.cut_character(out);
        }
        self.machine.finish(out);
        self.ledger.finish();
        self.phase = Phase::Finished;
    }

    /// Text that came after the finish is dropped, like what comes after `<|end_of_msg|>`.
    fn after_end(&mut self, text: &str, sink: &mut (impl Sink + ?Sized)) {
        self.ledger.receive(text);
        self.drop_after_end(text, sink);
    }

    fn bytes_after_end(&mut self, bytes: &[u8], sink: &mut (impl Sink + ?Sized)) {
        for chunk in bytes.utf8_chunks() {
            self.after_end(chunk.valid(), sink);
            if !chunk.invalid().is_empty() {
                self.ledger.receive_invalid(chunk.invalid().len());
                self.drop_after_end("\u{fffd}", sink);
            }
        }
    }

    fn tokens_after_end(&mut self, text: &str, count: usize) {
        let number = self.ledger.receive_tokens(count);
        self.ledger.cover(self.ledger.received() + text.len() as u64, number + count as u64);
    }

    fn drop_after_end(&mut self, text: &str, sink: &mut (impl Sink + ?Sized)) {
        let out = &mut Out { ledger: &mut self.ledger, sink };
        if !text.is_empty() && self.phase != Phase::Exceeded {
            self.phase = Phase::Exceeded;
            out.diagnose(Code::AfterEnd);
        }
        out.text(Event::Dropped, text);
    }

    /// No more text of these ids comes: what the scanner holds is text. The end of the message counts even without its text,
    /// which engines may leave out.
    fn settle_ids(&mut self, sink: &mut (impl Sink + ?Sized)) {
        self.flush(sink);
        while let Some(marker) = self.ids.unspelled() {
            if matches!(marker, Marker::EndOfMsg | Marker::Eos) {
                self.known(marker, "", sink);
            } else {
                self.ledger.note(Code::IdWithoutText, self.ledger.at());
            }
        }
        self.ids.reset();
    }

    /// Text in which markers count by their spelling.
    #[inline]
    fn spelled(&mut self, text: &str, sink: &mut (impl Sink + ?Sized)) {
        self.ledger.receive(text);
        self.scan(text, Origin::Spelled, sink);
    }

    /// Text that is no structure.
    #[inline]
    fn quoted(&mut self, text: &str, sink: &mut (impl Sink + ?Sized)) {
        if !self.reader.listens(&self.machine) {
            let out = &mut Out { ledger: &mut self.ledger, sink };
            return self.reader.text(text, &mut self.machine, out);
        }
        self.scan(text, Origin::Quoted, sink);
        if !self.reader.listens(&self.machine) {
            self.flush(sink);
        }
    }

    /// A control token.
    fn known(&mut self, marker: Marker, spelling: &str, sink: &mut (impl Sink + ?Sized)) {
        self.flush(sink);
        let out = &mut Out { ledger: &mut self.ledger, sink };
        self.reader.marker(marker, spelling, Origin::Known, &mut self.machine, out);
    }

    #[inline]
    fn scan(&mut self, text: &str, origin: Origin, sink: &mut (impl Sink + ?Sized)) {
        let Parser { scanner, reader, machine, ledger, .. } = self;
        ledger.examined += text.len() as u64;
        let out = &mut Out { ledger, sink };
        scanner.scan(text, |piece| reader.piece(piece, origin, machine, out));
    }

    /// The beginning of a marker that the scanner holds is text.
    fn flush(&mut self, sink: &mut (impl Sink + ?Sized)) {
        let Parser { scanner, reader, machine, ledger, .. } = self;
        let out = &mut Out { ledger, sink };
        scanner.flush(|piece| reader.piece(piece, Origin::Quoted, machine, out));
    }

    fn decoded(&mut self, decoded: Result<&str, usize>, sink: &mut (impl Sink + ?Sized)) {
        match decoded {
            Ok(text) => self.spelled(text, sink),
            Err(raw) => {
                self.ledger.receive_invalid(raw);
                self.scan("\u{fffd}", Origin::Spelled, sink);
            }
        }
    }

    /// A character that was cut never became whole.
    #[cold]
    fn replace_partial(&mut self, sink: &mut (impl Sink + ?Sized)) {
        let mut decoder = std::mem::take(&mut self.decoder);
        decoder.flush(|decoded| self.decoded(decoded, sink));
        self.decoder = decoder;
    }
}

/// Parses a whole text: the events of push and finish, parts of one text joined.
///
/// ```
/// use kimi_xtml::{OwnedEvent, Request, parse};
///
/// let events = parse("plain <text>", Request::new());
/// assert_eq!(events[0].0, OwnedEvent::Content("plain <text>".into()));
/// assert_eq!(events[0].1.bytes, 0..12);
/// ```
pub fn parse(text: &str, request: Request) -> Vec<(OwnedEvent, Span)> {
    let mut events = Vec::new();
    let mut parser = Parser::new(request);
    parser.push(text, &mut events);
    parser.finish("stop", &mut events);
    crate::event::coalesce(events)
}
