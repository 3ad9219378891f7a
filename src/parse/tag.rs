//! Tags while they arrive, and what may follow them.
//!
//! In: the text after an `<|open|>` or `<|close|>`. Out: whether it can still become a tag, and which. Held: how far
//! the tag has come; the reader keeps its bytes.

use crate::event::Channel;
use crate::marker::Marker;
use crate::parse::header;

macro_rules! names {
    ($($name:ident = $spelling:literal,)+) => {
        /// The names that tags have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Name { $($name,)+ }

        impl Name {
            pub(crate) const ALL: &[Name] = &[$(Name::$name,)+];

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Name::$name => $spelling,)+ }
            }
        }
    };
}

names! {
    Think = "think",
    Response = "response",
    Tools = "tools",
    Call = "call",
    Argument = "argument",
    Json = "json",
    Message = "message",
}

impl From<Channel> for Name {
    fn from(channel: Channel) -> Self {
        match channel {
            Channel::Think => Name::Think,
            Channel::Response => Name::Response,
            Channel::Tools => Name::Tools,
        }
    }
}

/// What a whole tag says. The end of the message counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Open(Name),
    Close(Name),
    EndOfMsg,
}

/// A set of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Names(u8);

impl Names {
    pub(crate) const NONE: Names = Names(0);
    pub(crate) const ALL: Names = Names::of(Name::ALL);

    pub(crate) const fn of(names: &[Name]) -> Names {
        let mut set = 0;
        let mut at = 0;
        while at < names.len() {
            set |= 1 << names[at] as u8;
            at += 1;
        }
        Names(set)
    }

    /// These and others.
    pub(crate) const fn and_also(self, names: &[Name]) -> Names {
        Names(self.0 | Names::of(names).0)
    }

    pub(crate) const fn and(self, other: Names) -> Names {
        Names(self.0 & other.0)
    }

    /// The first of them, in the order of [`Name::ALL`].
    fn first(self) -> Option<Name> {
        Name::ALL.get(self.0.trailing_zeros() as usize).copied()
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[cfg(test)]
    pub(crate) fn iter(self) -> impl Iterator<Item = Name> {
        Name::ALL.iter().copied().filter(move |&name| self.0 >> name as u8 & 1 == 1)
    }
}

/// The names that have a byte at a place: which byte of a name it is, then what it is.
const HAVING: [[Names; 256]; 8] = {
    let mut having = [[Names::NONE; 256]; 8];
    let mut number = 0;
    while number < Name::ALL.len() {
        let name = Name::ALL[number];
        let bytes = name.as_str().as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let names = &mut having[at][bytes[at] as usize];
            *names = names.and_also(&[name]);
            at += 1;
        }
        number += 1;
    }
    having
};

/// How many bytes of white space a tag may have in a row.
pub(crate) const BLANKS: usize = 256;
/// How many bytes a tag may have before the control token that ends it.
const HEADER: usize = 16 << 10;
/// How many bytes there may be between the control tokens of a tag whose name the format does not have.
const FOREIGN: usize = 256;

#[derive(Clone, Copy, Debug)]
enum Part {
    /// Before the name, after this many blanks.
    Before(usize),
    /// In the name, after this many bytes of it.
    Name(usize),
    /// After the name, and this many blanks.
    After(usize),
    /// The attributes, which begin at this byte of the tag.
    Attributes(usize),
    /// After something that no tag of the format has.
    Foreign,
}

/// A tag that has begun: its marker is read, its end is not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenTag {
    pub(crate) marker: Marker,
    /// The names that it can still have. Once a name is whole there is only that one, even if what comes next shows that this
    /// is no tag.
    names: Names,
    part: Part,
    /// Its bytes so far.
    len: usize,
}

impl OpenTag {
    pub(crate) fn new(marker: Marker) -> Self {
        OpenTag { marker, names: Names::ALL, part: Part::Before(0), len: marker.spelling().len() }
    }

    /// Reads on; counts the bytes that it looked at.
    pub(crate) fn feed(&mut self, text: &[u8], examined: &mut u64) {
        for (at, &byte) in text.iter().enumerate() {
            let blank = header::is_blank(byte);
            self.part = match self.part {
                Part::Before(blanks) if blank && blanks < BLANKS => Part::Before(blanks + 1),
                Part::Before(_) => self.narrow(0, byte),
                Part::Name(len) if !blank || self.name().is_none() => self.narrow(len, byte),
                Part::Name(_) if self.has_attributes() => Part::Attributes(self.len + at),
                Part::Name(_) => Part::After(1),
                Part::After(blanks) if blank && blanks < BLANKS => Part::After(blanks + 1),
                Part::After(_) => Part::Foreign,
                Part::Attributes(_) | Part::Foreign => break,
            };
            *examined += 1;
        }
        self.len += text.len();
    }

    /// Keeps the names that have this byte at place `len`.
    fn narrow(&mut self, len: usize, byte: u8) -> Part {
        self.names = HAVING.get(len).map_or(Names::NONE, |having| self.names.and(having[usize::from(byte)]));
        if self.names.is_empty() { Part::Foreign } else { Part::Name(len + 1) }
    }

    fn has_attributes(&self) -> bool {
        const WITH: Names = Names::of(&[Name::Call, Name::Argument, Name::Json, Name::Message]);
        self.marker == Marker::Open && !self.names.and(WITH).is_empty()
    }

    /// The names that it can still have.
    pub(crate) fn names(&self) -> Names {
        if self.may_be_known() { self.names } else { Names::NONE }
    }

    /// Whether it can still become a tag that the format has.
    pub(crate) fn may_be_known(&self) -> bool {
        !matches!(self.part, Part::Foreign) && self.len <= HEADER
    }

    /// Whether it can still become a tag whose name the format does not have.
    pub(crate) fn may_be_foreign(&self) -> bool {
        self.header().len() <= FOREIGN
    }

    /// Where in its bytes what follows its marker is.
    pub(crate) fn header(&self) -> std::ops::Range<usize> {
        self.marker.spelling().len()..self.len
    }

    /// Its name, if that is whole.
    pub(crate) fn name(&self) -> Option<Name> {
        let name = self.names.first()?;
        match self.part {
            Part::Before(_) | Part::Foreign => None,
            Part::Name(len) => (len == name.as_str().len()).then_some(name),
            Part::After(_) | Part::Attributes(_) => Some(name),
        }
    }

    /// The tag that it is when a control token ends it here.
    pub(crate) fn tag(&self) -> Option<Tag> {
        let name = self.name()?;
        Some(if self.marker == Marker::Open { Tag::Open(name) } else { Tag::Close(name) })
    }

    /// Where in its bytes the attributes are; empty if it has none.
    pub(crate) fn attributes(&self) -> std::ops::Range<usize> {
        match self.part {
            Part::Attributes(at) => at..self.len,
            _ => self.len..self.len,
        }
    }
}

/// What must follow a tag, after at most [`BLANKS`] bytes of white space, for the tag to be real. The end of the stream is
/// always enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Follow {
    /// Whether any control token is enough.
    pub(crate) any: bool,
    pub(crate) end_of_msg: bool,
    /// Openers, by their name.
    pub(crate) open: Names,
    /// Closers, whole.
    pub(crate) close: Names,
}

/// Whether a tag is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    Yes,
    No,
    /// More must be read.
    Wait,
}

impl Follow {
    /// A control token follows.
    pub(crate) fn marker(&self, marker: Marker) -> Followed {
        let begins = match marker {
            Marker::Open => self.open,
            Marker::Close => self.close,
            Marker::EndOfMsg | Marker::Eos if self.end_of_msg => return Followed::Yes,
            _ => Names::NONE,
        };
        match () {
            () if self.any => Followed::Yes,
            () if begins.is_empty() => Followed::No,
            () => Followed::Wait,
        }
    }

    /// A tag follows that has begun; `whole` if a control token ends it here.
    pub(crate) fn tag(&self, tag: &OpenTag, whole: bool) -> Followed {
        let opener = tag.marker == Marker::Open;
        let names = if opener { self.open.and(tag.names) } else { self.close.and(tag.names()) };
        let named = whole || opener && !matches!(tag.part, Part::Before(_) | Part::Name(_));
        match () {
            () if names.is_empty() => Followed::No,
            () if named => Followed::Yes,
            () => Followed::Wait,
        }
    }
}
