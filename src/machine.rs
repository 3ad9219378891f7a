//! Pieces -> events. To add a tag: name it in `tag.rs`, then say in the two tables below when it is real and what it does.
//!
//! In: pieces, each marker with what is known of it. Out: events. Held: one tag that has begun, and before it at most
//! one tag that is real only if the right thing follows; `held` has their bytes, and every decision consumes its front.
//! A real tag that does not belong to the innermost open thing ends that thing and is decided again in what surrounds it.

use std::ops::Range;

use crate::call::{Call, Cause, Out};
use crate::diagnostic::Code;
use crate::event::{Channel, Event, Sink, ValueKind};
use crate::header::{self, Attributes};
use crate::marker::Marker;
use crate::report::Ledger;
use crate::request::{Request, Undeclared};
use crate::tag::{BLANKS, Follow, Followed, Name, Names, OpenTag, Tag};

/// The innermost open thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Outside,
    Think,
    Response,
    Tools,
    Call,
    Argument,
    Json,
    /// Behind the end of the message.
    Done,
}

/// What is known of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It stands in text that may contain markers: a guess.
    Spelled,
    /// It is a control token.
    Known,
    /// It stands in text that is said to be no structure.
    Quoted,
}

/// When a tag that is only spelled is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    Real,
    RealIf(Follow),
    Text,
}

/// What a real tag does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It is text of what is open.
    Text,
    /// Opens a channel.
    Enter(Channel),
    /// Opens a call, an argument or a block.
    Begin,
    /// Closes what is open.
    Leave,
    /// Ends what is open, and is decided again in what surrounds it.
    Unwind,
    /// Begins a section that is withheld, and is decided again in it.
    Withhold,
    /// Closes nothing: dropped.
    Orphan,
    /// Opens nothing here: dropped.
    Misplaced,
    /// Markup without effect.
    Skip,
    /// Ends the message.
    Stop,
}

const CONTROL: Follow = Follow { any: true, end_of_msg: true, open: Names::ALL, close: Names::ALL };
const SECTION: Follow =
    Follow { any: false, end_of_msg: false, open: Names::of(&[Name::Call]), close: Names::of(&[Name::Tools]) };
const END: Follow = Follow { any: false, end_of_msg: true, open: Names::NONE, close: Names::NONE };
const AFTER_VALUE: Follow = Follow {
    any: false,
    end_of_msg: true,
    open: Names::of(&[Name::Argument, Name::Json, Name::Call]),
    close: Names::of(&[Name::Call, Name::Tools, Name::Message]),
};

/// The follow rule: when a tag that is only spelled is real.
pub(crate) fn advise(state: State, tag: Tag, engaged: bool) -> Advice {
    use {Name::*, Tag::*};
    match (state, tag) {
        (State::Think, Close(Think) | Open(Response)) => Advice::Real,
        (State::Think | State::Response, Close(Response)) => Advice::RealIf(CONTROL),
        (State::Response, Open(Tools)) if !engaged => Advice::Text,
        (State::Think | State::Response, Open(Tools)) => Advice::RealIf(SECTION),
        (State::Argument, Close(Argument)) | (State::Json, Close(Json)) => Advice::RealIf(AFTER_VALUE),
        (State::Think | State::Response | State::Argument | State::Json, Close(Message) | EndOfMsg) => {
            Advice::RealIf(END)
        }
        (State::Think | State::Response | State::Argument | State::Json, _) => Advice::Text,
        (State::Outside | State::Tools | State::Call | State::Done, _) => Advice::Real,
    }
}

/// The machine's table: what a real tag does. `engaged`: whether tools are parsed.
pub(crate) fn decide(state: State, tag: Tag, engaged: bool) -> Action {
    use {Name::*, Tag::*};
    match (state, tag) {
        (State::Outside, Open(Think)) => Action::Enter(Channel::Think),
        (State::Outside, Open(Response)) => Action::Enter(Channel::Response),
        (State::Outside, Open(Tools)) if engaged => Action::Enter(Channel::Tools),
        (State::Outside, Open(Tools | Call | Argument | Json)) => Action::Withhold,
        (State::Outside, Open(Message) | Close(Message)) => Action::Skip,
        (State::Outside, Close(_)) => Action::Orphan,
        (State::Outside, EndOfMsg) => Action::Stop,

        (State::Think, Close(Think)) | (State::Response, Close(Response)) => Action::Leave,
        (State::Think, Close(Response)) => Action::Orphan,
        (State::Think, Open(Response | Tools) | Close(Message) | EndOfMsg) => Action::Unwind,
        (State::Response, Open(Tools)) if engaged => Action::Unwind,
        (State::Response, Close(Message) | EndOfMsg) => Action::Unwind,
        (State::Think | State::Response, _) => Action::Text,

        (State::Tools, Open(Call)) | (State::Call, Open(Argument | Json)) => Action::Begin,
        (State::Tools, Close(Tools)) | (State::Call, Close(Call)) => Action::Leave,
        (State::Tools, Open(Argument | Json | Message)) | (State::Call, Open(Message)) => Action::Misplaced,
        (State::Call, Open(Call) | Close(Tools)) => Action::Unwind,
        (State::Tools | State::Call, Open(Think | Response | Tools) | Close(Message) | EndOfMsg) => Action::Unwind,
        (State::Tools | State::Call, Close(_)) => Action::Orphan,

        (State::Argument, Close(Argument)) | (State::Json, Close(Json)) => Action::Leave,
        (State::Argument | State::Json, Open(Argument | Call) | Close(Call | Tools | Message) | EndOfMsg) => {
            Action::Unwind
        }
        (State::Argument | State::Json, _) | (State::Done, _) => Action::Text,
    }
}

/// The names that a tag may have here; others are text at once.
fn recognised(state: State, marker: Marker, origin: Origin) -> Names {
    const CHANNELS: Names = Names::of(&[Name::Think, Name::Response, Name::Tools]);
    const IN_VALUE: Names = Names::of(&[Name::Think, Name::Response, Name::Tools, Name::Call, Name::Argument]);
    match state {
        _ if marker == Marker::Close => Names::ALL,
        State::Argument | State::Json if origin == Origin::Known => IN_VALUE,
        State::Think | State::Response | State::Argument | State::Json => CHANNELS,
        State::Outside | State::Tools | State::Call | State::Done => Names::ALL,
    }
}

/// A tag that has begun, `at` in the held bytes.
#[derive(Debug)]
struct Begun {
    tag: OpenTag,
    at: usize,
    origin: Origin,
}

/// A tag that is real if the right thing follows; it is the front of the held bytes.
#[derive(Debug)]
struct Pending {
    tag: Tag,
    len: usize,
    /// Whether its `<|sep|>` is missing.
    bare: bool,
    follow: Follow,
}

#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) request: Request,
    pub(crate) ledger: Ledger,
    state: State,
    /// Whether the open tools section is withheld.
    withheld: bool,
    /// Whether a channel was just opened and nothing of it was read.
    fresh: bool,
    /// Whether a channel was opened yet.
    opened: bool,
    /// Whether white space is markup, since nothing else came since the last tag.
    between: bool,
    pub(crate) call: Call,
    held: String,
    pending: Option<Pending>,
    begun: Option<Begun>,
}

impl Machine {
    pub(crate) fn new(request: Request) -> Self {
        Machine { request, ..Machine::default() }
    }

    /// Begins a stream: opens what the prompt left open.
    pub(crate) fn start<S: Sink>(&mut self, sink: &mut S) {
        self.between = self.request.engages_tools();
        match self.request.opened {
            Some(Channel::Tools) if !self.between => (self.withheld, self.state) = (true, State::Tools),
            Some(channel) => self.enter(channel, "", sink),
            None => {}
        }
    }

    /// Takes text.
    pub(crate) fn text<S: Sink>(&mut self, mut text: &str, sink: &mut S) {
        if self.pending.is_some() && text.len() > 2 * BLANKS {
            // So much tells what follows; the header that begins in it may be longer than a tag can be.
            let (head, rest) = text.split_at(text.floor_char_boundary(2 * BLANKS));
            self.text(head, sink);
            text = rest;
        }
        if let Some(begun) = &mut self.begun {
            if begun.tag.feed(text.as_bytes(), &mut self.ledger.examined) {
                self.held.push_str(text);
                return self.settle(sink);
            }
            self.refuse(sink);
        } else if let Some(pending) = &self.pending {
            let room = BLANKS - (self.held.len() - pending.len);
            let blanks = text.bytes().take(room + 1).take_while(|&byte| header::is_blank(byte)).count();
            self.ledger.examined += blanks as u64;
            if blanks == text.len() && blanks <= room {
                return self.held.push_str(text);
            }
            self.resolve(false, sink);
        }
        self.data(text, sink);
    }

    /// Takes a control token, spelled as `spelling` in the input.
    pub(crate) fn marker<S: Sink>(&mut self, marker: Marker, spelling: &str, origin: Origin, sink: &mut S) {
        if origin == Origin::Quoted && !self.listens() {
            return self.text(spelling, sink);
        }
        if let Some(begun) = &self.begun {
            match begun.tag.tag() {
                Some(tag) if begun.origin != Origin::Quoted || self.repeats(tag) => {
                    let bare = marker != Marker::Sep;
                    if !bare {
                        self.held.push_str(spelling);
                    }
                    self.end_tag(tag, bare, sink);
                    if !bare {
                        return;
                    }
                }
                _ => {
                    self.refuse(sink);
                    return self.marker(marker, spelling, origin, sink);
                }
            }
        }
        if let Some(pending) = &self.pending {
            match pending.follow.marker(marker) {
                Followed::Wait => {}
                followed => self.resolve(followed == Followed::Yes, sink),
            }
        }
        match (marker, self.state) {
            (_, State::Done) => self.data(spelling, sink),
            (Marker::Open | Marker::Close, _) => {
                let (tag, at) = (OpenTag::new(marker), self.held.len());
                self.begun = Some(Begun { tag, at, origin });
                self.held.push_str(spelling);
            }
            (Marker::EndOfMsg | Marker::Eos, _) => {
                self.held.push_str(spelling);
                self.judge(Tag::EndOfMsg, 0..0, false, origin, sink);
            }
            (Marker::Sep, State::Outside | State::Tools | State::Call) if origin != Origin::Quoted => {
                self.drop_tag(Code::StraySeparator, spelling, sink);
            }
            (Marker::Sep, _) => self.data(spelling, sink),
        }
    }

    /// Ends the stream: decides what is held, then ends what is open.
    pub(crate) fn finish<S: Sink>(&mut self, sink: &mut S) {
        if let Some(begun) = &self.begun {
            let attributes = begun.tag.attributes();
            let header = &self.held[begun.at + attributes.start..begun.at + attributes.end];
            let readable = header.is_empty() || header::may_go_on(header);
            let followed = self.pending.as_ref().map(|pending| pending.follow.tag(&begun.tag, false));
            if begun.origin == Origin::Quoted || !readable {
                self.refuse(sink);
            } else if let Some(followed) = followed {
                self.resolve(followed != Followed::No, sink);
                self.settle(sink);
            }
        } else if self.pending.is_some() {
            self.resolve(true, sink);
        }
        if self.begun.take().is_some() {
            self.settle_value(false, sink);
            self.consume(self.held.len(), |machine, tag| machine.drop_tag(Code::CutTag, tag, sink));
        }
        self.settle_value(false, sink);
        while !matches!(self.state, State::Outside | State::Done) {
            self.leave(Cause::Finish, "", sink);
        }
    }

    /// Whether spelled markers in quoted text matter: the opener of the open channel may be repeated there.
    pub(crate) fn listens(&self) -> bool {
        self.begun.as_ref().map_or(self.fresh, |begun| begun.origin == Origin::Quoted)
    }

    /// The open channel.
    pub(crate) fn channel(&self) -> Option<Channel> {
        match self.state {
            State::Outside | State::Done => None,
            State::Think => Some(Channel::Think),
            State::Response => Some(Channel::Response),
            State::Tools | State::Call | State::Argument | State::Json => Some(Channel::Tools),
        }
    }

    /// The bytes that are not decided, but for those of a value.
    pub(crate) fn held(&self) -> &str {
        &self.held
    }

    /// The tag that has begun got longer: is it what must follow, and may it stand here?
    fn settle<S: Sink>(&mut self, sink: &mut S) {
        let Some(begun) = &self.begun else { return };
        if let Some(pending) = &self.pending {
            match pending.follow.tag(&begun.tag, false) {
                Followed::Wait => return,
                followed => self.resolve(followed == Followed::Yes, sink),
            }
        }
        if self.begun.as_ref().is_some_and(|begun| !self.recognises(begun)) {
            self.refuse(sink);
        }
    }

    fn recognises(&self, begun: &Begun) -> bool {
        !begun.tag.names().and(recognised(self.state, begun.tag.marker, begun.origin)).is_empty()
    }

    /// The tag that has begun can become none: it is text.
    fn refuse<S: Sink>(&mut self, sink: &mut S) {
        self.resolve(false, sink);
        if let Some(begun) = self.begun.take()
            && begun.tag.marker == Marker::Open
            && self.state == State::Call
        {
            self.call.spoil();
        }
        self.consume(self.held.len(), |machine, text| machine.data(text, sink));
    }

    /// The pending tag is real, or text.
    fn resolve<S: Sink>(&mut self, real: bool, sink: &mut S) {
        let Some(pending) = self.pending.take() else { return };
        let end = self.begun.as_ref().map_or(self.held.len(), |begun| begun.at);
        self.consume(end, |machine, text| {
            let (tag, blanks) = text.split_at(if real { pending.len } else { 0 });
            if real {
                machine.act(pending.tag, tag, &Attributes::default(), pending.bare, sink);
            }
            machine.data(blanks, sink);
        });
        if let Some(begun) = &mut self.begun {
            begun.at = 0;
        }
    }

    /// A control token ends the tag that has begun.
    fn end_tag<S: Sink>(&mut self, tag: Tag, bare: bool, sink: &mut S) {
        if let (Some(pending), Some(begun)) = (&self.pending, &self.begun) {
            let followed = pending.follow.tag(&begun.tag, true);
            self.resolve(followed == Followed::Yes, sink);
        }
        match self.begun.take() {
            Some(begun) if self.recognises(&begun) => {
                self.judge(tag, begun.tag.attributes(), bare, begun.origin, sink);
            }
            _ => self.consume(self.held.len(), |machine, text| machine.data(text, sink)),
        }
    }

    /// A tag is whole, and all that is held: is it real?
    fn judge<S: Sink>(&mut self, tag: Tag, attributes: Range<usize>, bare: bool, origin: Origin, sink: &mut S) {
        let advice = match origin {
            _ if self.repeats(tag) => Advice::Real,
            Origin::Known => Advice::Real,
            Origin::Spelled => advise(self.state, tag, self.request.engages_tools()),
            Origin::Quoted => Advice::Text,
        };
        if let Advice::RealIf(follow) = advice {
            let len = self.held.len();
            self.pending = Some(Pending { tag, len, bare, follow });
            return;
        }
        self.ledger.examined += attributes.len() as u64;
        self.consume(self.held.len(), |machine, raw| match header::read(&raw[attributes]) {
            _ if advice == Advice::Text => machine.data(raw, sink),
            None => machine.unreadable(raw, sink),
            Some(attributes) => machine.act(tag, raw, &attributes, bare, sink),
        });
    }

    /// Whether a tag opens once more the channel that was just opened.
    fn repeats(&self, tag: Tag) -> bool {
        self.fresh && self.channel().is_some_and(|open| tag == Tag::Open(open.into()))
    }

    /// A header's attributes do not lex: the whole header is text.
    fn unreadable<S: Sink>(&mut self, raw: &str, sink: &mut S) {
        match self.state {
            State::Call => self.call.spoil(),
            State::Tools => {}
            _ => return self.data(raw, sink),
        }
        self.drop_tag(Code::UnreadableHeader, raw, sink);
    }

    /// A real tag does what the table says.
    fn act<S: Sink>(&mut self, tag: Tag, raw: &str, attributes: &Attributes<'_>, mut bare: bool, sink: &mut S) {
        let repeated = self.repeats(tag);
        if !repeated && decide(self.state, tag, self.request.engages_tools()) == Action::Text {
            return self.data(raw, sink);
        }
        self.fresh = false;
        let next = tag == Tag::Open(Name::Argument);
        self.settle_value(next || decide(self.state, tag, self.request.engages_tools()) == Action::Leave, sink);
        loop {
            if bare && !self.is_muted() {
                self.out(sink).diagnose(Code::MissingSeparator);
                bare = false;
            }
            match decide(self.state, tag, self.request.engages_tools()) {
                _ if repeated => self.drop_tag(Code::RepeatedOpener, raw, sink),
                Action::Text => self.data(raw, sink),
                Action::Enter(channel) => self.enter(channel, raw, sink),
                Action::Begin => self.begin(tag, raw, attributes, sink),
                Action::Leave => self.leave(Cause::Closed, raw, sink),
                Action::Unwind => {
                    self.leave(Cause::Cut, "", sink);
                    continue;
                }
                Action::Withhold => {
                    self.out(sink).diagnose(Code::ToolsWithheld);
                    (self.state, self.withheld, self.opened) = (State::Tools, true, true);
                    if tag != Tag::Open(Name::Tools) {
                        continue;
                    }
                    self.data(raw, sink);
                    self.fresh = true;
                }
                Action::Orphan => self.drop_tag(Code::OrphanClose, raw, sink),
                Action::Misplaced => self.drop_tag(Code::MisplacedOpener, raw, sink),
                Action::Skip => self.out(sink).text(Event::Markup, raw),
                Action::Stop => {
                    self.out(sink).text(Event::Markup, raw);
                    (self.state, self.between) = (State::Done, true);
                    return;
                }
            }
            break;
        }
        self.between = self.opened || self.request.engages_tools();
    }

    fn enter<S: Sink>(&mut self, channel: Channel, raw: &str, sink: &mut S) {
        self.state = match channel {
            Channel::Think => State::Think,
            Channel::Response => State::Response,
            Channel::Tools => State::Tools,
        };
        (self.fresh, self.opened) = (true, true);
        self.out(sink).event(Event::Start(channel), raw.len());
    }

    fn begin<S: Sink>(&mut self, tag: Tag, raw: &str, attributes: &Attributes<'_>, sink: &mut S) {
        let muted = self.is_muted();
        let key = attributes.key.map(header::decode);
        let stream_json = self.request.stream_json;
        let kind = match tag {
            Tag::Open(Name::Call) => {
                self.state = State::Call;
                let name = header::decode(attributes.tool.unwrap_or_default());
                if !muted && !name.is_empty() && !self.request.tools.iter().any(|tool| *tool == name) {
                    self.out(sink).diagnose(Code::UndeclaredTool);
                }
                if !muted {
                    let out = &mut Out { ledger: &mut self.ledger, sink };
                    return self.call.start(&name, raw, out);
                }
                return self.data(raw, sink);
            }
            Tag::Open(Name::Argument) if key.is_none() => {
                self.call.spoil();
                return self.drop_tag(Code::UnreadableHeader, raw, sink);
            }
            Tag::Open(Name::Argument) => ValueKind::from_type(attributes.kind),
            _ => ValueKind::Block,
        };
        self.state = if kind == ValueKind::Block { State::Json } else { State::Argument };
        if muted {
            return self.data(raw, sink);
        }
        let key = key.as_deref().filter(|_| kind != ValueKind::Block);
        let out = &mut Out { ledger: &mut self.ledger, sink };
        self.call.start_value(key, kind, stream_json, raw, out);
    }

    /// No more of the open value comes; `whole` if it is not cut off.
    fn settle_value<S: Sink>(&mut self, whole: bool, sink: &mut S) {
        if matches!(self.state, State::Argument | State::Json) && !self.is_muted() {
            self.call.settle_value(whole, &mut Out { ledger: &mut self.ledger, sink });
        }
    }

    /// Ends the innermost open thing, at the tag `raw` if that closes it.
    fn leave<S: Sink>(&mut self, cause: Cause, raw: &str, sink: &mut S) {
        let muted = self.is_muted();
        if muted {
            self.data(raw, sink);
        }
        let out = &mut Out { ledger: &mut self.ledger, sink };
        let (channel, unclosed) = match self.state {
            State::Argument | State::Json => {
                if !muted {
                    self.call.end_value(cause, raw, out);
                }
                self.state = State::Call;
                return;
            }
            State::Call => {
                if !muted {
                    self.call.end(cause, raw, out);
                }
                self.state = State::Tools;
                return;
            }
            State::Tools => (Channel::Tools, Code::UnclosedTools),
            State::Response => (Channel::Response, Code::UnclosedResponse),
            State::Think => (Channel::Think, Code::UnclosedThink),
            State::Outside | State::Done => return,
        };
        if !muted {
            if cause != Cause::Closed {
                out.diagnose(unclosed);
            }
            out.event(Event::End(channel), raw.len());
        }
        (self.state, self.withheld) = (State::Outside, false);
    }

    /// A tag that does nothing here.
    fn drop_tag<S: Sink>(&mut self, code: Code, raw: &str, sink: &mut S) {
        self.fresh = false;
        if self.is_muted() {
            return self.data(raw, sink);
        }
        self.out(sink).diagnose(code);
        self.out(sink).text(Event::Dropped, raw);
    }

    /// Whether what is open goes out raw: a withheld section, a call without a name, a value that is dropped.
    fn is_muted(&self) -> bool {
        match self.state {
            State::Outside | State::Think | State::Response | State::Done => false,
            State::Tools => self.withheld,
            State::Call => self.withheld || !self.call.live,
            State::Argument | State::Json => self.withheld || !self.call.live || self.call.drops_value(),
        }
    }

    /// Text of what is open.
    fn data<S: Sink>(&mut self, text: &str, sink: &mut S) {
        if text.is_empty() {
            return;
        }
        self.fresh = false;
        let raw = match self.request.undeclared {
            Undeclared::Withhold => Event::Withheld,
            Undeclared::Content => Event::Content,
        };
        match self.state {
            State::Think if self.request.separate_reasoning => self.out(sink).text(Event::Reasoning, text),
            State::Think | State::Response => self.out(sink).text(Event::Content, text),
            State::Tools | State::Call | State::Argument | State::Json if self.withheld => {
                self.out(sink).text(raw, text);
            }
            State::Call | State::Argument | State::Json if self.is_muted() => {
                self.out(sink).text(Event::Dropped, text);
            }
            State::Argument | State::Json => {
                let out = &mut Out { ledger: &mut self.ledger, sink };
                self.call.value(text, self.request.value_limit, out);
            }
            State::Outside => self.beside(Event::Content, self.opened.then_some(Code::TextOutside), text, sink),
            State::Tools | State::Call => self.beside(Event::Dropped, Some(Code::TextInTools), text, sink),
            State::Done => self.beside(Event::Dropped, Some(Code::AfterEnd), text, sink),
        }
    }

    /// Text beside the elements: white space is markup until something else comes, which is told of.
    fn beside<'t, S: Sink>(
        &mut self,
        event: fn(&'t str) -> Event<'t>,
        code: Option<Code>,
        mut text: &'t str,
        sink: &mut S,
    ) {
        if self.between {
            let rest = match self.state {
                State::Done => text,
                _ => text.trim_start_matches([' ', '\t', '\r', '\n']),
            };
            let out = &mut Out { ledger: &mut self.ledger, sink };
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
        self.out(sink).text(event, text);
    }

    /// Lets `take` have the next `len` held bytes.
    fn consume(&mut self, len: usize, take: impl FnOnce(&mut Self, &str)) {
        let mut held = std::mem::take(&mut self.held);
        take(self, &held[..len]);
        held.drain(..len);
        self.held = held;
    }

    fn out<'a, S>(&'a mut self, sink: &'a mut S) -> Out<'a, S> {
        Out { ledger: &mut self.ledger, sink }
    }

    /// Forgets everything but the allocations.
    pub(crate) fn reset(&mut self, request: Request) {
        let Machine { mut ledger, mut call, mut held, .. } = std::mem::take(self);
        ledger.reset();
        call.reset();
        held.clear();
        *self = Machine { request, ledger, call, held, ..Machine::default() };
    }
}
