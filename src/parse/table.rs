//! The three tables: which names are read as tags, when a tag is real, and what a real tag does.
//!
//! In: what is open, and a tag. Out: [`Names`], [`Advice`], [`Action`]. Nothing is held. SPEC.md prints all three, and a test
//! keeps it true.
//!
//! Advice for who adds a tag:
//! 1. Name it in `tag.rs` (`names!`); if its opener has attributes, in `has_attributes` there, and in `header.rs` those that
//!    are new. Then the compiler asks for its rows in [`decide`].
//! 2. Look at what ends in a wildcard and so says something of it already: [`recognised`], [`advise`], the values' rows of
//!    [`decide`]; and at whom it may follow: the `Follow`s.
//! 3. If it opens a state, add that to [`State`]: the compiler names the rest, which is all in `machine.rs`.
//! 4. The twin has a grammar of its own (`oracle/src/twin.rs`), and the encoder writes what is read (`encode/message.rs`).
//! 5. `UPDATE_EXPECT=1 cargo test --lib` rewrites SPEC.md's tables: read the difference.

use crate::event::Channel;
use crate::marker::Marker;
use crate::parse::tag::{Follow, Name, Names, Tag};

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
    /// After the end of the message.
    Done,
}

/// Whether calls are parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Calls {
    /// No: none are declared, or the choice is none.
    #[default]
    Off,
    /// Yes, and no tools section came yet.
    Ready,
    /// Yes, and a tools section came: a call outside of one is none.
    Had,
}

/// What is open, as far as the tables ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) state: State,
    pub(crate) calls: Calls,
    /// Whether nothing was read of the channel that was just opened.
    pub(crate) fresh: bool,
    /// Whether the value is so far one whole JSON value, and should be one.
    pub(crate) whole: bool,
    /// Whether it is in a withheld element, which is no section.
    pub(crate) element: bool,
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
    /// Opens a tools section that was not spelled, and is decided again in it.
    Imply,
    /// Begins a section or an element that is withheld.
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
    open: CHANNELS.and_also(&[Name::Argument, Name::Json, Name::Call]),
    close: CHANNELS.and_also(&[Name::Call, Name::Message]),
};

const CHANNELS: Names = Names::of(&[Name::Think, Name::Response, Name::Tools]);

/// The names that a tag may have here; with others it is none.
pub(crate) fn recognised(state: State, marker: Marker, origin: Origin) -> Names {
    match state {
        _ if marker == Marker::Close => Names::ALL,
        State::Argument | State::Json if origin == Origin::Known => CHANNELS.and_also(&[Name::Call, Name::Argument]),
        State::Think | State::Response if origin == Origin::Known => Names::ALL,
        State::Think | State::Response | State::Argument | State::Json => CHANNELS,
        State::Outside | State::Tools | State::Call | State::Done => Names::ALL,
    }
}

/// Whether tags with other names, which only tokens can tell, are dropped here.
pub(crate) fn recognises_foreign(state: State) -> bool {
    matches!(state, State::Outside | State::Think | State::Response | State::Tools | State::Call)
}

/// The follow rule: when a tag that is only spelled is real.
pub(crate) fn advise(open: Open, tag: Tag) -> Advice {
    use {Name::*, Tag::*};
    match (open.state, tag) {
        (State::Think, Close(Think) | Open(Response)) => Advice::Real,
        (State::Response, Open(Think)) if open.fresh => Advice::Real,
        (State::Think | State::Response, Close(Response)) => Advice::RealIf(CONTROL),
        (State::Response, Open(Tools)) if open.calls == Calls::Off => Advice::Text,
        (State::Think | State::Response, Open(Tools)) => Advice::RealIf(SECTION),
        (State::Argument, Close(Argument)) | (State::Json, Close(Json)) if open.whole => Advice::Real,
        (State::Argument, Close(Argument)) | (State::Json, Close(Json)) => Advice::RealIf(AFTER_VALUE),
        (State::Think | State::Response | State::Argument | State::Json, Close(Message) | EndOfMsg) => {
            Advice::RealIf(END)
        }
        (State::Think | State::Response | State::Argument | State::Json, _) => Advice::Text,
        (State::Outside | State::Tools | State::Call | State::Done, _) => Advice::Real,
    }
}

/// What a real tag does.
pub(crate) fn decide(open: Open, tag: Tag) -> Action {
    use {Name::*, Tag::*};
    match (open.state, tag) {
        (
            State::Call | State::Argument | State::Json,
            Open(Think | Response | Tools) | Close(Think | Response | Tools),
        ) if open.element => Action::Unwind,

        (State::Outside, Open(Think)) => Action::Enter(Channel::Think),
        (State::Outside, Open(Response)) => Action::Enter(Channel::Response),
        (State::Outside, Open(Tools)) if open.calls != Calls::Off => Action::Enter(Channel::Tools),
        (State::Outside, Open(Call)) if open.calls == Calls::Ready => Action::Imply,
        (State::Outside, Open(Tools | Call | Argument | Json)) => Action::Withhold,
        (State::Outside, Open(Message) | Close(Message)) => Action::Skip,
        (State::Outside, Close(_)) => Action::Orphan,
        (State::Outside, EndOfMsg) => Action::Stop,

        (State::Think, Close(Think)) | (State::Response, Close(Response)) => Action::Leave,
        (State::Think, Open(Response)) | (State::Response, Open(Think)) => Action::Unwind,
        (State::Think | State::Response, Open(Tools) | Close(Message) | EndOfMsg) => Action::Unwind,
        (State::Think | State::Response, Open(Call)) if open.calls == Calls::Ready => Action::Unwind,
        (State::Think | State::Response, Open(Call | Argument | Json)) => Action::Withhold,
        (State::Think | State::Response, Open(Think | Response | Message)) => Action::Misplaced,
        (State::Think | State::Response, Close(_)) => Action::Orphan,

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

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 8] = [
        State::Outside,
        State::Think,
        State::Response,
        State::Tools,
        State::Call,
        State::Argument,
        State::Json,
        State::Done,
    ];

    fn tags() -> impl Iterator<Item = (String, Tag)> {
        let named = |kind: &'static str, tag: fn(Name) -> Tag| {
            Name::ALL.iter().map(move |&name| (format!("{kind}({})", name.as_str()), tag(name)))
        };
        named("open", Tag::Open).chain(named("close", Tag::Close)).chain([("end_of_msg".to_owned(), Tag::EndOfMsg)])
    }

    /// A markdown table: tags by states.
    fn table(cell: impl Fn(State, Tag) -> String) -> String {
        let head: String = STATES.iter().map(|state| format!(" {state:?} |")).collect();
        let mut text = format!("| tag |{head}\n|---|{}\n", "---|".repeat(STATES.len()));
        for (name, tag) in tags() {
            let row: String = STATES.iter().map(|&state| format!(" {} |", cell(state, tag))).collect();
            text += &format!("| `{name}` |{row}\n");
        }
        text
    }

    fn set(follow: &Follow) -> String {
        if follow.any {
            return "any control token".to_owned();
        }
        let named =
            |kind: &'static str, names: Names| names.iter().map(move |name| format!("{kind}({})", name.as_str()));
        let end = follow.end_of_msg.then(|| "end_of_msg".to_owned());
        named("open", follow.open).chain(named("close", follow.close)).chain(end).collect::<Vec<_>>().join(", ")
    }

    fn open(state: State) -> Open {
        Open { state, calls: Calls::Ready, fresh: false, whole: false, element: false }
    }

    /// A cell, and what it is instead where more is known of what is open.
    fn cell(state: State, of: impl Fn(Open) -> String) -> String {
        let usual = open(state);
        let others = [
            ("fresh", Open { fresh: true, ..usual }),
            ("whole JSON", Open { whole: true, ..usual }),
            ("tools off", Open { calls: Calls::Off, ..usual }),
            ("after a section", Open { calls: Calls::Had, ..usual }),
            ("in a withheld element", Open { element: true, ..usual }),
        ];
        let mut found: Vec<(String, Vec<&str>)> = Vec::new();
        for (when, open) in others {
            let other = of(open);
            match found.iter_mut().find(|(known, _)| *known == other) {
                _ if other == of(usual) => {}
                Some((_, whens)) => whens.push(when),
                None => found.push((other, vec![when])),
            }
        }
        let others = found.iter().map(|(other, when)| format!(" ({}: {other})", when.join(", ")));
        of(usual) + &others.collect::<String>()
    }

    fn advice(open: Open, tag: Tag) -> String {
        match advise(open, tag) {
            Advice::Real => "real".to_owned(),
            Advice::Text => "text".to_owned(),
            Advice::RealIf(follow) => format!("real before: {}, the end", set(&follow)),
        }
    }

    fn action(open: Open, tag: Tag) -> String {
        match decide(open, tag) {
            Action::Enter(channel) => format!("enter {}", channel.name()),
            action => format!("{action:?}").to_lowercase(),
        }
    }

    /// Openers by states: closers are read everywhere.
    fn names() -> String {
        let mut text =
            "| what is open | openers that are spelled | openers by control tokens |\n|---|---|---|\n".to_owned();
        for state in STATES {
            let of = |origin| match recognised(state, Marker::Open, origin) {
                Names::ALL => "all".to_owned(),
                names => names.iter().map(Name::as_str).collect::<Vec<_>>().join(", "),
            };
            text += &format!("| {state:?} | {} | {} |\n", of(Origin::Spelled), of(Origin::Known));
        }
        text
    }

    /// SPEC.md holds the tables as they are. `UPDATE_EXPECT=1 cargo test` rewrites them.
    #[test]
    fn spec_holds_the_tables() {
        let spec = include_str!("../../SPEC.md");
        let splice = |spec: String, name: &str, table: String| {
            let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
            let (before, rest) = spec.split_once(&begin).expect("SPEC.md has the table's beginning");
            let (_, after) = rest.split_once(&end).expect("SPEC.md has the table's end");
            format!("{before}{begin}{table}{end}{after}")
        };
        let wanted = splice(spec.to_owned(), "names", names());
        let wanted = splice(wanted, "actions", table(|state, tag| cell(state, |open| action(open, tag))));
        let wanted = splice(wanted, "advice", table(|state, tag| cell(state, |open| advice(open, tag))));
        expect_test::expect_file!["../../SPEC.md"].assert_eq(&wanted);
    }
}
