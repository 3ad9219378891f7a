//! Text and real tags -> events.
//!
//! In: text of what is open, and tags that are real. Out: events. Held: what is open, and how its text goes out.
//! A tag that does not belong to the innermost open thing ends that thing, and is decided again in what surrounds it.

use crate::diagnostic::Code;
use crate::event::{Channel, Event, ValueKind};
use crate::parse::call::{Call, Cause};
use crate::parse::header::{self, Attributes};
use crate::parse::table::{Action, Calls, Open, State, decide};
use crate::parse::tag::{Name, Tag};
use crate::report::Out;
use crate::request::{Request, Undeclared};
use crate::sink::Sink;

/// What goes out raw.
#[derive(Clone, Copy, Debug)]
struct Withheld {
    /// What it is: a tools section, or an element, which ends at its own close.
    root: State,
    /// What it stands in.
    around: State,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    request: Request,
    state: State,
    calls: Calls,
    /// The section or element that is withheld, if what is open is in one.
    withheld: Option<Withheld>,
    /// Whether a channel was just opened and nothing of it was read.
    fresh: bool,
    /// Whether a channel was opened yet.
    opened: bool,
    /// Whether white space is markup, since nothing else came since the last tag.
    between: bool,
    call: Call,
}

impl Machine {
    pub(crate) fn new(request: Request) -> Self {
        let calls = if request.engages_tools() { Calls::Ready } else { Calls::Off };
        Machine { request, calls, ..Machine::default() }
    }

    /// Begins a stream: opens what the prompt left open.
    pub(crate) fn start<S: Sink + ?Sized>(&mut self, out: &mut Out<'_, S>) {
        self.between = self.engages_tools();
        match self.request.opened {
            Some(Channel::Tools) if !self.engages_tools() => self.withhold(State::Tools, "", out),
            Some(channel) => self.enter(channel, "", out),
            None => {}
        }
    }

    /// Ends a stream: ends what is open.
    pub(crate) fn finish<S: Sink + ?Sized>(&mut self, out: &mut Out<'_, S>) {
        self.settle_value(false, out);
        while !matches!(self.state, State::Outside | State::Done) {
            self.leave(Cause::Finish, "", out);
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// What is open, as the tables ask.
    pub(crate) fn open(&self) -> Open {
        Open {
            state: self.state,
            calls: self.calls,
            fresh: self.fresh,
            whole: self.call.is_whole(),
            element: self.withheld.is_some_and(|withheld| withheld.root != State::Tools),
        }
    }

    /// Whether a channel was just opened and nothing of it was read.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Whether a tag opens once more the channel that was just opened.
    pub(crate) fn repeats(&self, tag: Tag) -> bool {
        self.fresh && self.channel().is_some_and(|open| tag == Tag::Open(open.into()))
    }

    fn engages_tools(&self) -> bool {
        self.calls != Calls::Off
    }

    /// The channel that is open.
    pub(crate) fn channel(&self) -> Option<Channel> {
        let state = match self.withheld {
            Some(Withheld { around: around @ (State::Think | State::Response), .. }) => around,
            _ => self.state,
        };
        match state {
            State::Outside | State::Done => None,
            State::Think => Some(Channel::Think),
            State::Response => Some(Channel::Response),
            State::Tools | State::Call | State::Argument | State::Json => Some(Channel::Tools),
        }
    }

    /// The channel that the prompt left open.
    pub(crate) fn opened(&self) -> Option<Channel> {
        self.request.opened
    }

    /// How many calls are complete.
    pub(crate) fn complete_calls(&self) -> usize {
        self.call.complete
    }

    /// The text of an open value that has not gone out.
    pub(crate) fn held_value(&self) -> String {
        self.call.held()
    }

    /// Takes a real tag, whose bytes are `raw`, and does what the table says; `bare` if its `<|sep|>` is missing.
    pub(crate) fn act<S: Sink + ?Sized>(
        &mut self,
        tag: Tag,
        raw: &str,
        attributes: &Attributes<'_>,
        mut bare: bool,
        out: &mut Out<'_, S>,
    ) {
        let repeated = self.repeats(tag);
        let action = decide(self.open(), tag);
        if action == Action::Text && !repeated {
            return self.data(raw, out);
        }
        if self.state == State::Call && !self.between && matches!(tag, Tag::Close(Name::Argument | Name::Json)) {
            // What stands before it was a value, whose opener was lost.
            self.call.lacks_opener();
        }
        self.settle_value(action == Action::Leave || tag == Tag::Open(Name::Argument), out);
        loop {
            if bare && !self.is_muted() {
                out.diagnose(Code::MissingSeparator);
                bare = false;
            }
            match decide(self.open(), tag) {
                _ if repeated => self.drop_tag(Code::RepeatedOpener, raw, out),
                Action::Text => self.data(raw, out),
                Action::Enter(channel) => self.enter(channel, raw, out),
                Action::Begin => self.begin(tag, raw, attributes, out),
                Action::Leave => self.leave(Cause::Closed, raw, out),
                Action::Unwind => {
                    self.leave(Cause::Cut, "", out);
                    continue;
                }
                Action::Imply => {
                    out.diagnose(Code::ImpliedTools);
                    self.enter(Channel::Tools, "", out);
                    continue;
                }
                Action::Withhold => {
                    let (root, kind) = match tag {
                        Tag::Open(Name::Call) => (State::Call, None),
                        Tag::Open(Name::Argument) => (State::Argument, Some(ValueKind::from_type(attributes.kind))),
                        Tag::Open(Name::Json) => (State::Json, Some(ValueKind::Block)),
                        _ => (State::Tools, None),
                    };
                    self.withhold(root, raw, out);
                    if let Some(kind) = kind {
                        self.call.watch_value(kind, &self.request);
                    }
                }
                Action::Orphan => self.drop_tag(Code::OrphanClose, raw, out),
                Action::Misplaced => self.drop_tag(Code::MisplacedOpener, raw, out),
                Action::Skip => out.text(Event::Markup, raw),
                Action::Stop => {
                    out.text(Event::Markup, raw);
                    self.state = State::Done;
                }
            }
            break;
        }
        self.between = self.opened || self.engages_tools() || self.state == State::Done;
    }

    /// Takes a `<|sep|>` that ends no tag; `known` if tokens tell that it is one.
    pub(crate) fn separator<S: Sink + ?Sized>(&mut self, raw: &str, known: bool, out: &mut Out<'_, S>) {
        match self.state {
            State::Outside | State::Tools | State::Call => self.drop_tag(Code::StraySeparator, raw, out),
            State::Think | State::Response if known => self.drop_tag(Code::StraySeparator, raw, out),
            _ => self.data(raw, out),
        }
    }

    /// Takes an `<|open|>` or `<|close|>` that tokens tell, and that begins no tag.
    pub(crate) fn stray<S: Sink + ?Sized>(&mut self, raw: &str, out: &mut Out<'_, S>) {
        self.drop_tag(Code::StrayMarker, raw, out);
    }

    /// Takes a tag that tokens tell, and whose name the format does not have.
    pub(crate) fn foreign<S: Sink + ?Sized>(&mut self, raw: &str, out: &mut Out<'_, S>) {
        self.drop_tag(Code::UnknownTag, raw, out);
    }

    /// Takes a header whose attributes do not lex: it is dropped where markup stands, or if tokens tell that it is markup;
    /// else all of it is text.
    pub(crate) fn unreadable<S: Sink + ?Sized>(&mut self, raw: &str, known: bool, out: &mut Out<'_, S>) {
        self.no_opener();
        match self.state {
            State::Tools | State::Call => self.drop_tag(Code::UnreadableHeader, raw, out),
            State::Outside | State::Think | State::Response if known => {
                self.drop_tag(Code::UnreadableHeader, raw, out);
            }
            _ => self.data(raw, out),
        }
    }

    /// An `<|open|>` began no tag, so an argument of the open call may be missing.
    pub(crate) fn no_opener(&mut self) {
        if self.state == State::Call {
            self.call.lacks_opener();
        }
    }

    /// Takes a tag that the stream's end cut.
    pub(crate) fn cut_tag<S: Sink + ?Sized>(&mut self, raw: &str, out: &mut Out<'_, S>) {
        self.settle_value(false, out);
        self.drop_tag(Code::CutTag, raw, out);
    }

    /// Takes the bytes of a character that the stream's end cut.
    pub(crate) fn cut_character<S: Sink + ?Sized>(&mut self, out: &mut Out<'_, S>) {
        self.settle_value(false, out);
        out.diagnose(Code::CutCharacter);
        out.text(Event::Dropped, "\u{fffd}");
    }

    /// Takes text of what is open.
    pub(crate) fn data<S: Sink + ?Sized>(&mut self, text: &str, out: &mut Out<'_, S>) {
        if text.is_empty() {
            return;
        }
        self.fresh = false;
        match self.state {
            State::Think if self.request.separate_reasoning => out.text(Event::Reasoning, text),
            State::Think | State::Response => out.text(Event::Content, text),
            State::Argument | State::Json if self.is_muted() => {
                self.call.watch(text);
                self.muted(text, out);
            }
            State::Argument | State::Json => self.call.value(text, out),
            _ => self.data_around(text, out),
        }
    }

    /// Takes text where elements stand, and text after the end.
    #[inline(never)]
    fn data_around<S: Sink + ?Sized>(&mut self, text: &str, out: &mut Out<'_, S>) {
        match self.state {
            State::Tools | State::Call if self.is_muted() => self.muted(text, out),
            State::Tools | State::Call => self.beside(Event::Dropped, Some(Code::TextInTools), text, out),
            State::Done => {
                if std::mem::take(&mut self.between) {
                    out.diagnose(Code::AfterEnd);
                }
                out.text(Event::Dropped, text);
            }
            _ => self.beside(Event::Content, self.opened.then_some(Code::TextOutside), text, out),
        }
    }

    /// What is not parsed goes out raw.
    #[inline(never)]
    fn muted<S: Sink + ?Sized>(&self, raw: &str, out: &mut Out<'_, S>) {
        let event = match (self.withheld, self.request.undeclared) {
            (None, _) => Event::Dropped,
            (_, Undeclared::Withhold) => Event::Withheld,
            (Some(Withheld { around: State::Think, .. }), _) if self.request.separate_reasoning => Event::Reasoning,
            _ => Event::Content,
        };
        out.text(event, raw);
    }

    /// What begins now goes out raw, up to its end.
    fn withhold<S: Sink + ?Sized>(&mut self, root: State, raw: &str, out: &mut Out<'_, S>) {
        out.diagnose(Code::ToolsWithheld);
        self.withheld = Some(Withheld { root, around: self.state });
        (self.state, self.opened, self.fresh) = (root, true, root == State::Tools);
        self.muted(raw, out);
    }

    /// Text beside the elements: white space is markup until something else comes, which is told of.
    fn beside<'t, S: Sink + ?Sized>(
        &mut self,
        event: fn(&'t str) -> Event<'t>,
        code: Option<Code>,
        mut text: &'t str,
        out: &mut Out<'_, S>,
    ) {
        if self.between {
            let rest = text.trim_start_matches([' ', '\t', '\r', '\n']);
            out.text(Event::Markup, &text[..text.len() - rest.len()]);
            if rest.is_empty() {
                return;
            }
            self.between = false;
            if let Some(code) = code {
                out.diagnose(code);
            }
            text = rest;
        }
        out.text(event, text);
    }

    fn enter<S: Sink + ?Sized>(&mut self, channel: Channel, raw: &str, out: &mut Out<'_, S>) {
        self.state = match channel {
            Channel::Think => State::Think,
            Channel::Response => State::Response,
            Channel::Tools => State::Tools,
        };
        if channel == Channel::Tools {
            self.calls = Calls::Had;
        }
        (self.fresh, self.opened) = (true, true);
        out.event(Event::Start(channel), raw.len());
    }

    /// Opens a call, an argument or a block.
    fn begin<S: Sink + ?Sized>(&mut self, tag: Tag, raw: &str, attributes: &Attributes<'_>, out: &mut Out<'_, S>) {
        let muted = self.is_muted();
        self.fresh = false;
        let (state, kind, key) = match tag {
            Tag::Open(Name::Call) => (State::Call, None, None),
            Tag::Open(Name::Argument) => {
                let Some(key) = attributes.key else {
                    self.call.lacks_opener();
                    return self.drop_tag(Code::UnreadableHeader, raw, out);
                };
                (State::Argument, Some(ValueKind::from_type(attributes.kind)), Some(header::decode(key)))
            }
            _ => (State::Json, Some(ValueKind::Block), None),
        };
        self.state = state;
        if muted {
            self.muted(raw, out);
            if let Some(kind) = kind {
                self.call.watch_value(kind, &self.request);
            }
            return;
        }
        if let Some(kind) = kind {
            return self.call.start_value(key.as_deref(), kind, &self.request, raw, out);
        }
        let name = header::decode(attributes.tool.unwrap_or_default());
        let at = attributes.tool.map_or(0..0, |tool| header::place(raw, tool));
        if !name.is_empty() && !self.request.tools.iter().any(|tool| *tool == name) {
            out.diagnose(Code::UndeclaredTool);
        }
        self.call.start(&name, at, raw, out);
    }

    /// Ends the innermost open thing, at the tag `raw` if that closes it.
    fn leave<S: Sink + ?Sized>(&mut self, cause: Cause, raw: &str, out: &mut Out<'_, S>) {
        let muted = self.is_muted();
        if muted {
            self.muted(raw, out);
        }
        self.fresh = false;
        if let Some(withheld) = self.withheld.take_if(|withheld| withheld.root == self.state) {
            self.state = withheld.around;
            return;
        }
        let unclosed = match self.state {
            State::Argument | State::Json => {
                self.state = State::Call;
                if !muted {
                    self.call.end_value(cause, raw, out);
                } else if cause != Cause::Closed {
                    self.call.cut_value();
                }
                return;
            }
            State::Call => {
                self.state = State::Tools;
                if !muted {
                    self.call.end(cause, raw, out);
                }
                return;
            }
            State::Think => Code::UnclosedThink,
            State::Response => Code::UnclosedResponse,
            State::Tools | State::Outside | State::Done => Code::UnclosedTools,
        };
        if let Some(channel) = self.channel() {
            if cause != Cause::Closed {
                out.diagnose(unclosed);
            }
            out.event(Event::End(channel), raw.len());
        }
        self.state = State::Outside;
    }

    /// No more of the open value comes; `whole` if it is not cut off.
    fn settle_value<S: Sink + ?Sized>(&mut self, whole: bool, out: &mut Out<'_, S>) {
        if matches!(self.state, State::Argument | State::Json) && !self.is_muted() {
            self.call.settle_value(whole, out);
        }
    }

    /// Drops a tag that does nothing here.
    fn drop_tag<S: Sink + ?Sized>(&mut self, code: Code, raw: &str, out: &mut Out<'_, S>) {
        if self.is_muted() {
            return self.data(raw, out);
        }
        self.fresh = false;
        out.diagnose(code);
        out.text(Event::Dropped, raw);
    }

    /// Whether what is open goes out raw: a withheld section, a call without a name, a value that is dropped.
    fn is_muted(&self) -> bool {
        match self.state {
            State::Outside | State::Think | State::Response | State::Done => false,
            State::Tools => self.withheld.is_some(),
            State::Call => self.withheld.is_some() || !self.call.live,
            State::Argument | State::Json => self.withheld.is_some() || !self.call.live || self.call.drops_value(),
        }
    }

    #[cfg(feature = "chat")]
    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    /// Forgets everything but the allocations.
    pub(crate) fn reset(&mut self, request: Request) {
        let mut call = std::mem::take(&mut self.call);
        call.reset();
        *self = Machine { call, ..Machine::new(request) };
    }
}
