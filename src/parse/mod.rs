//! The parser: inputs of every kind -> scan -> reader -> machine -> sink.
//!
//! In: text, bytes, tokens, or text with ids. Out: events through a [`Sink`]. Held: what decoder, scanner, ids, reader
//! and machine hold; this file only leads one to the next.

mod call;
pub(crate) mod escape;
mod header;
mod held;
mod ids;
mod json;
mod machine;
mod reader;
mod scan;
mod table;
mod tag;
mod utf8;

use crate::diagnostic::Code;
use crate::event::{Channel, OwnedEvent, Sink, Span};
use crate::marker::Marker;
use crate::parse::ids::Ids;
use crate::parse::machine::Machine;
use crate::parse::reader::Reader;
use crate::parse::scan::{Piece, Scanner};
use crate::parse::table::Origin;
use crate::parse::utf8::Decoder;
use crate::report::{Ledger, Out, Report};
use crate::request::Request;

/// The parser was used in a way that its caller must mend. What a model generates never causes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Input, or a second finish, after [`Parser::finish`].
    #[error("the stream is finished: reset the parser before it takes another")]
    Finished,
}

/// How far the stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    New,
    Reading(Source),
    Finished,
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
///   text in which markers are recognised by their spelling, and the follow rule tells quoted ones from real ones as far
///   as text can; [`push_token`](Self::push_token), [`push_with_ids`](Self::push_with_ids),
///   [`push_text`](Self::push_text) and [`push_marker`](Self::push_marker) know it from the tokens, at every level.
/// * **End**: [`finish`](Self::finish), once. Nothing that was pushed is lost, however the stream ended.
/// * **Looking on**: [`report`](Self::report), [`channel`](Self::channel), [`held`](Self::held), at any time.
/// * **Reuse**: [`reset`](Self::reset).
///
/// ```
/// use kimi_xtml::{Channel, Event, Parser, Request, Span};
///
/// let mut parser = Parser::new(Request::new().opened(Channel::Think));
/// let mut said = String::new();
/// let mut sink = |event: Event<'_>, _: Span| match event {
///     Event::Reasoning(text) => said += &format!("[{text}]"),
///     Event::Content(text) => said += text,
///     _ => {}
/// };
/// for delta in ["Sum", " it.<|clo", "se|>think<|sep|><|open|>resp", "onse<|sep|>1 <", " 2"] {
///     parser.push(delta, &mut sink)?;
/// }
/// assert_eq!(parser.finish("length", &mut sink)?, "length");
/// assert_eq!(said, "[Sum][ it.]1 < 2");
/// # Ok::<(), kimi_xtml::StateError>(())
/// ```
#[derive(Debug, Default)]
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
    pub fn new(request: Request) -> Self {
        Parser { machine: Machine::new(request), ..Parser::default() }
    }

    /// Takes text that may contain markers, cut anywhere.
    ///
    /// # Errors
    /// [`StateError::Finished`] after [`finish`](Self::finish), as for every input.
    pub fn push(&mut self, text: &str, sink: &mut (impl Sink + ?Sized)) -> Result<(), StateError> {
        self.begin(Source::Text, sink)?;
        if !self.decoder.is_empty() {
            self.replace_partial(sink);
        }
        self.spelled(text, sink);
        Ok(())
    }

    /// Takes what [`push`](Self::push) takes as bytes, UTF-8 cut anywhere. Each invalid sequence becomes U+FFFD and is
    /// counted in the report.
    pub fn push_bytes(&mut self, bytes: &[u8], sink: &mut (impl Sink + ?Sized)) -> Result<(), StateError> {
        self.begin(Source::Text, sink)?;
        let mut decoder = std::mem::take(&mut self.decoder);
        decoder.decode(bytes, |decoded| self.decoded(decoded, sink));
        self.decoder = decoder;
        Ok(())
    }

    /// Takes text that is never structure, whatever it spells.
    pub fn push_text(&mut self, text: &str, sink: &mut (impl Sink + ?Sized)) -> Result<(), StateError> {
        self.begin(Source::Pieces, sink)?;
        self.ledger.receive(text);
        self.quoted(text, sink);
        Ok(())
    }

    /// Takes a control token. It counts as its spelling in spans and in the report.
    pub fn push_marker(&mut self, marker: Marker, sink: &mut (impl Sink + ?Sized)) -> Result<(), StateError> {
        self.begin(Source::Pieces, sink)?;
        self.ledger.receive(marker.spelling());
        self.known(marker, marker.spelling(), sink);
        Ok(())
    }

    /// Takes one token: a control token by its id, whatever its text; any other token's text is never structure. The
    /// text of a token may be empty and come with a later one.
    ///
    /// ```
    /// use kimi_xtml::{Channel, Chat, Marker, Parser, Request};
    ///
    /// let mut parser = Parser::new(Request::new().opened(Channel::Response));
    /// let mut chat = Chat::default();
    /// // A quoted tag is in ordinary tokens; the real one begins with the control token `<|close|>`.
    /// for (id, text) in [(27, "<"), (91, "|"), (10_794, "close"), (91, "|"), (29, ">"), (15_739, " ends"), (483, " it")] {
    ///     parser.push_token(id, text, &mut chat)?;
    /// }
    /// parser.push_token(Marker::Close.id(), "", &mut chat)?;
    /// parser.push_token(12_092, "response", &mut chat)?;
    /// parser.push_token(Marker::Sep.id(), "", &mut chat)?;
    /// assert_eq!(parser.channel(), None);
    /// parser.finish("stop", &mut chat)?;
    /// assert_eq!(chat.into_message().unwrap().content, "<|close|> ends it");
    /// # Ok::<(), kimi_xtml::StateError>(())
    /// ```
    pub fn push_token(&mut self, id: u32, text: &str, sink: &mut (impl Sink + ?Sized)) -> Result<(), StateError> {
        self.begin(Source::Pieces, sink)?;
        let marker = Marker::from_id(id);
        let text = if let Some(marker) = marker { marker.spelling() } else { text };
        let number = self.ledger.receive_tokens(1);
        self.ledger.receive(text);
        self.ledger.cover(self.ledger.received(), number + 1);
        match marker {
            Some(marker) => self.known(marker, text, sink),
            None => self.quoted(text, sink),
        }
        Ok(())
    }

    /// Takes the text of one delta and its ids: control ids tell which spelled markers are real. The ids may run ahead of
    /// the text by what a detokenizer holds back, and never lag behind it. Of more than 1,024 markers that wait for their text,
    /// the oldest is given up ([`Code::IdWithoutText`](crate::Code::IdWithoutText)).
    ///
    /// A quotation is told exactly if it is tokenised as Kimi's tokenizer does it, and in any tokens if each delta has the
    /// text of just its one id. Where a control token's text never comes, what follows it is no structure either: the
    /// engine must keep special tokens. [`push_token`](Self::push_token) is exact for any tokens.
    pub fn push_with_ids(
        &mut self,
        text: &str,
        ids: &[u32],
        sink: &mut (impl Sink + ?Sized),
    ) -> Result<(), StateError> {
        self.begin(Source::Ids, sink)?;
        let Parser { scanner, ids: coming, reader, machine, ledger, .. } = self;
        for _ in 0..coming.receive(ledger.receive_tokens(ids.len()), ids, text.len()) {
            ledger.note(Code::IdWithoutText, ledger.at());
        }
        let around_eos = coming.around_eos(text);
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
        Ok(())
    }

    /// Ends the stream: held text is delivered, what is open ends as incomplete. Gives the finish reason: the engine's own
    /// `reason` unchanged, but `stop` becomes `tool_calls` if a call is complete.
    ///
    /// # Errors
    /// [`StateError::Finished`] if it was called before.
    pub fn finish<'r>(&mut self, reason: &'r str, sink: &mut (impl Sink + ?Sized)) -> Result<&'r str, StateError> {
        let source = if let Phase::Reading(source) = self.phase { source } else { Source::Text };
        self.begin(source, sink)?;
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
        Ok(if reason == "stop" && self.machine.complete_calls() > 0 { "tool_calls" } else { reason })
    }

    /// Makes the parser as new for another stream; it keeps its allocations.
    pub fn reset(&mut self, request: Request) {
        self.ids.reset();
        self.reader.reset();
        self.machine.reset(request);
        self.ledger.reset();
        (self.decoder, self.scanner) = (Decoder::default(), Scanner::default());
        self.phase = Phase::New;
    }

    /// What the parser did so far.
    pub fn report(&self) -> Report {
        self.ledger.report()
    }

    /// The channel that is open now.
    pub fn channel(&self) -> Option<Channel> {
        if self.phase == Phase::New { self.machine.opened() } else { self.machine.channel() }
    }

    /// The text that came in and did not go out: what may become a marker or a tag, and a value whose end decides its
    /// form. For debugging; it is copied.
    pub fn held(&self) -> String {
        [&self.machine.held_value(), self.reader.held(), self.scanner.prefix()].concat()
    }

    /// What comes before every input.
    #[inline]
    fn begin(&mut self, source: Source, sink: &mut (impl Sink + ?Sized)) -> Result<(), StateError> {
        if self.phase == Phase::Reading(source) { Ok(()) } else { self.turn_to(source, sink) }
    }

    /// The first input, or the first of another kind.
    #[cold]
    fn turn_to(&mut self, source: Source, sink: &mut (impl Sink + ?Sized)) -> Result<(), StateError> {
        match self.phase {
            Phase::Finished => return Err(StateError::Finished),
            Phase::New => self.machine.start(&mut Out { ledger: &mut self.ledger, sink }),
            Phase::Reading(_) => {
                self.replace_partial(sink);
                self.settle_ids(sink);
            }
        }
        self.phase = Phase::Reading(source);
        Ok(())
    }

    /// No more text of these ids comes: what the scanner holds is text, and an engine may leave the text of the end away.
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
    // A new parser is not finished: neither can fail.
    let _ = parser.push(text, &mut events);
    let _ = parser.finish("stop", &mut events);
    crate::event::coalesce(events)
}
