//! Pieces -> text, and tags that are real.
//!
//! In: pieces, each marker with what is known of it. Out: to the machine, text of what is open and real tags, in order.
//! Held: a tag that has begun; before it at most one whole tag that is real only if the right thing follows it, with the white
//! space between the two. One buffer has the bytes of all of this, and each decision takes bytes off its front:
//!
//! ```text
//! <|close|>response<|sep|> \n <|close|>mess
//! '------- pending ------'    '-- begun --'
//! ```

use std::ops::Range;

use crate::marker::Marker;
use crate::parse::header::{self, Attributes};
use crate::parse::machine::Machine;
use crate::parse::scan::Piece;
use crate::parse::table::{Advice, Origin, State, advise, recognised, recognises_foreign};
use crate::parse::tag::{BLANKS, Follow, Followed, OpenTag, Tag};
use crate::report::Out;
use crate::sink::Sink;

/// A tag whose end has not come yet. It begins at byte `at` of what is held.
#[derive(Clone, Debug)]
struct Begun {
    tag: OpenTag,
    at: usize,
    origin: Origin,
}

/// A whole tag that is real if the right thing follows it. What is held begins with its bytes.
#[derive(Clone, Debug)]
struct Pending {
    tag: Tag,
    len: usize,
    /// Whether its `<|sep|>` is missing.
    bare: bool,
    follow: Follow,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    held: String,
    pending: Option<Pending>,
    begun: Option<Begun>,
}

impl Reader {
    /// Takes a piece.
    #[inline]
    pub(crate) fn piece<S: Sink + ?Sized>(
        &mut self,
        piece: Piece<'_>,
        origin: Origin,
        machine: &mut Machine,
        out: &mut Out<'_, S>,
    ) {
        match piece {
            Piece::Text(text) => self.text(text, machine, out),
            Piece::Marker(marker) => self.marker(marker, marker.spelling(), origin, machine, out),
        }
    }

    /// Takes text.
    #[inline]
    pub(crate) fn text<S: Sink + ?Sized>(&mut self, text: &str, machine: &mut Machine, out: &mut Out<'_, S>) {
        if self.held.is_empty() { machine.data(text, out) } else { self.after_held(text, machine, out) }
    }

    /// Takes text that follows what is held.
    fn after_held<S: Sink + ?Sized>(&mut self, text: &str, machine: &mut Machine, out: &mut Out<'_, S>) {
        if let Some(begun) = &mut self.begun {
            begun.tag.feed(text.as_bytes(), &mut out.ledger.examined);
            // Until the pending tag is decided it is not known what is open, so that a tag of an unknown name may stand here.
            let foreign = self.pending.is_some() || recognises_foreign(machine.state());
            if begun.tag.may_be_known() || foreign && begun.may_be_foreign() {
                self.held.push_str(text);
                return self.settle(machine, out);
            }
            self.refuse(machine, out);
        } else if let Some(pending) = &self.pending {
            let room = BLANKS - (self.held.len() - pending.len);
            let blanks = text.bytes().take(room + 1).take_while(|&byte| header::is_blank(byte)).count();
            out.ledger.examined += blanks as u64;
            if blanks == text.len() && blanks <= room {
                return self.held.push_str(text);
            }
            self.resolve(false, machine, out);
        }
        machine.data(text, out);
    }

    /// Takes a control token, spelled as `spelling` in the input.
    pub(crate) fn marker<S: Sink + ?Sized>(
        &mut self,
        marker: Marker,
        spelling: &str,
        origin: Origin,
        machine: &mut Machine,
        out: &mut Out<'_, S>,
    ) {
        if origin == Origin::Quoted && !self.listens(machine) {
            return self.text(spelling, machine, out);
        }
        if let Some(begun) = &self.begun {
            let bare = marker != Marker::Sep;
            // A tag in quoted text is ended by quoted text alone, except an opener that is repeated: any marker ends that.
            let quoted = begun.origin == Origin::Quoted && origin != Origin::Quoted;
            let tag = begun.tag.tag().filter(|&tag| !quoted || machine.repeats(tag));
            if let Some(tag) = tag {
                if !bare {
                    self.held.push_str(spelling);
                }
                self.end_tag(tag, bare, machine, out);
            } else if !bare && origin == Origin::Known && self.reads_as_foreign() {
                self.held.push_str(spelling);
                self.end_foreign(machine, out);
            } else {
                self.refuse(machine, out);
                return self.marker(marker, spelling, origin, machine, out);
            }
            if !bare {
                return;
            }
        }
        if let Some(pending) = &self.pending {
            match pending.follow.marker(marker) {
                Followed::Wait => {}
                followed => self.resolve(followed == Followed::Yes, machine, out),
            }
        }
        match marker {
            _ if machine.state() == State::Done => machine.data(spelling, out),
            Marker::Open | Marker::Close => {
                let (tag, at) = (OpenTag::new(marker), self.held.len());
                self.begun = Some(Begun { tag, at, origin });
                self.held.push_str(spelling);
            }
            Marker::EndOfMsg | Marker::Eos => {
                self.held.push_str(spelling);
                self.judge(Tag::EndOfMsg, 0..0, false, origin, machine, out);
            }
            Marker::Sep if origin == Origin::Quoted => machine.data(spelling, out),
            Marker::Sep => machine.separator(spelling, origin == Origin::Known, out),
        }
    }

    /// The stream ends: decides what is held. Where something must follow, the end of the stream counts as that, even if it cuts
    /// it off.
    pub(crate) fn finish<S: Sink + ?Sized>(&mut self, machine: &mut Machine, out: &mut Out<'_, S>) {
        if let Some(begun) = &self.begun {
            let attributes = begun.tag.attributes();
            let header = &self.held[begun.at + attributes.start..begun.at + attributes.end];
            let readable = header.is_empty() || header::may_go_on(header);
            // A header after a real token is markup even if it cannot be read, but not in a value.
            let is_markup = begun.origin == Origin::Known && recognises_foreign(machine.state());
            let may_be_known = begun.tag.may_be_known() && (readable || is_markup);
            let followed = self.followed();
            if begun.origin == Origin::Quoted || !may_be_known {
                self.refuse(machine, out);
            } else if let Some(followed) = followed {
                self.resolve(followed != Followed::No, machine, out);
                self.settle(machine, out);
            }
        } else {
            self.resolve(true, machine, out);
        }
        if self.begun.take().is_some() {
            machine.cut_tag(&self.held, out);
            self.held.clear();
        }
    }

    /// Whether markers that quoted text spells matter now: they do where the opener of the open channel may be repeated.
    #[inline]
    pub(crate) fn listens(&self, machine: &Machine) -> bool {
        match &self.begun {
            Some(begun) => begun.origin == Origin::Quoted,
            None => self.pending.is_none() && machine.is_fresh(),
        }
    }

    /// The bytes that came and are not decided yet.
    pub(crate) fn held(&self) -> &str {
        &self.held
    }

    /// The marker and the text so far of a tag of the format that a control token began.
    #[cfg(feature = "encode")]
    pub(crate) fn begun_tag(&self) -> Option<(Marker, &str)> {
        let begun = self.begun.as_ref().filter(|begun| begun.origin == Origin::Known && begun.tag.may_be_known())?;
        let marker = begun.tag.marker;
        Some((marker, &self.held[begun.at + marker.spelling().len()..]))
    }

    /// The tag that has begun got longer. Decides the pending tag, if enough of what follows it is known now; gives up the one
    /// that has begun, if no tag that it can become may stand here.
    fn settle<S: Sink + ?Sized>(&mut self, machine: &mut Machine, out: &mut Out<'_, S>) {
        match self.followed() {
            Some(Followed::Wait) => return,
            Some(followed) => self.resolve(followed == Followed::Yes, machine, out),
            None => {}
        }
        if self.begun.as_ref().is_some_and(|begun| !begun.may_stand_in(machine.state())) {
            self.refuse(machine, out);
        }
    }

    /// Whether the pending tag is followed by the one that has begun.
    fn followed(&self) -> Option<Followed> {
        Some(self.pending.as_ref()?.follow.tag(&self.begun.as_ref()?.tag, false))
    }

    /// The tag that has begun can become no tag: it is text. Its marker is dropped if it is a real token.
    fn refuse<S: Sink + ?Sized>(&mut self, machine: &mut Machine, out: &mut Out<'_, S>) {
        let followed = self.followed();
        self.resolve(followed == Some(Followed::Yes), machine, out);
        let mut text = &*self.held;
        if let Some(begun) = self.begun.take() {
            if begun.tag.marker == Marker::Open {
                machine.no_opener();
            }
            if begun.origin == Origin::Known && recognises_foreign(machine.state()) {
                let (marker, header) = text.split_at(begun.tag.marker.spelling().len());
                machine.stray(marker, out);
                text = header;
            }
        }
        machine.data(text, out);
        self.held.clear();
    }

    /// Whether what has begun reads as a tag whose name the format does not have.
    fn reads_as_foreign(&self) -> bool {
        self.begun.as_ref().is_some_and(|begun| {
            let range = begun.tag.header();
            begun.may_be_foreign() && header::is_any(&self.held[begun.at + range.start..begun.at + range.end])
        })
    }

    /// A control token ends a tag whose name the format does not have.
    fn end_foreign<S: Sink + ?Sized>(&mut self, machine: &mut Machine, out: &mut Out<'_, S>) {
        self.resolve(false, machine, out);
        if !recognises_foreign(machine.state()) {
            return self.refuse(machine, out);
        }
        if self.begun.take().is_some_and(|begun| begun.tag.marker == Marker::Open) {
            machine.no_opener();
        }
        machine.foreign(&self.held, out);
        self.held.clear();
    }

    /// Decides the pending tag: it is real, or it is text together with the white space after it.
    fn resolve<S: Sink + ?Sized>(&mut self, real: bool, machine: &mut Machine, out: &mut Out<'_, S>) {
        let Some(pending) = self.pending.take() else { return };
        let end = self.begun.as_mut().map_or(self.held.len(), |begun| std::mem::take(&mut begun.at));
        let (tag, blanks) = self.held[..end].split_at(pending.len);
        if real {
            machine.act(pending.tag, tag, &Attributes::default(), pending.bare, out);
            machine.data(blanks, out);
        } else {
            machine.data(&self.held[..end], out);
        }
        self.held.drain(..end);
    }

    /// A control token ends the tag that has begun.
    fn end_tag<S: Sink + ?Sized>(&mut self, tag: Tag, bare: bool, machine: &mut Machine, out: &mut Out<'_, S>) {
        if let (Some(pending), Some(begun)) = (&self.pending, &self.begun) {
            let followed = pending.follow.tag(&begun.tag, true);
            self.resolve(followed == Followed::Yes, machine, out);
        }
        if let Some(begun) = self.begun.take_if(|begun| begun.may_stand_in(machine.state())) {
            return self.judge(tag, begun.tag.attributes(), bare, begun.origin, machine, out);
        }
        self.refuse(machine, out);
    }

    /// Decides a whole tag, which is all that is held: it is real, it waits for what follows it, or it is text.
    fn judge<S: Sink + ?Sized>(
        &mut self,
        tag: Tag,
        attributes: Range<usize>,
        bare: bool,
        origin: Origin,
        machine: &mut Machine,
        out: &mut Out<'_, S>,
    ) {
        let advice = match origin {
            _ if machine.repeats(tag) => Advice::Real,
            Origin::Known => Advice::Real,
            Origin::Spelled => advise(machine.open(), tag),
            Origin::Quoted => Advice::Text,
        };
        match advice {
            Advice::RealIf(follow) => {
                self.pending = Some(Pending { tag, len: self.held.len(), bare, follow });
                return;
            }
            Advice::Text => machine.data(&self.held, out),
            Advice::Real => {
                out.ledger.examined += attributes.len() as u64;
                match header::read(&self.held[attributes]) {
                    Some(attributes) => machine.act(tag, &self.held, &attributes, bare, out),
                    None => machine.unreadable(&self.held, origin == Origin::Known, out),
                }
            }
        }
        self.held.clear();
    }

    /// Forgets everything but the allocation.
    pub(crate) fn reset(&mut self) {
        self.held.clear();
        (self.pending, self.begun) = (None, None);
    }
}

impl Begun {
    /// Whether it can become a tag whose name the format does not have: only tokens tell one.
    fn may_be_foreign(&self) -> bool {
        self.origin == Origin::Known && self.tag.may_be_foreign()
    }

    /// Whether the tag that it can become is recognised there.
    fn may_stand_in(&self, state: State) -> bool {
        let known = self.tag.names().and(recognised(state, self.tag.marker, self.origin));
        !known.is_empty() || self.may_be_foreign() && recognises_foreign(state)
    }
}
