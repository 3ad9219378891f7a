//! The two tables: when a tag is real, and what a real tag does. To add a tag, name it in `tag.rs` and place it here.
//!
//! In: what is open, and a tag. Out: [`Advice`] and [`Action`]. Nothing is held. SPEC.md prints both tables, and a test
//! keeps it true.

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
pub(crate) fn recognised(state: State, marker: Marker, origin: Origin) -> Names {
    const CHANNELS: Names = Names::of(&[Name::Think, Name::Response, Name::Tools]);
    const IN_VALUE: Names = Names::of(&[Name::Think, Name::Response, Name::Tools, Name::Call, Name::Argument]);
    match state {
        _ if marker == Marker::Close => Names::ALL,
        State::Argument | State::Json if origin == Origin::Known => IN_VALUE,
        State::Think | State::Response | State::Argument | State::Json => CHANNELS,
        State::Outside | State::Tools | State::Call | State::Done => Names::ALL,
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
            Name::ALL.into_iter().map(move |name| (format!("{kind}({})", name.as_str()), tag(name)))
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

    fn advice(state: State, tag: Tag, engaged: bool) -> String {
        match advise(state, tag, engaged) {
            Advice::Real => "real".to_owned(),
            Advice::Text => "text".to_owned(),
            Advice::RealIf(follow) => format!("real before: {}, the end", set(&follow)),
        }
    }

    fn action(state: State, tag: Tag, engaged: bool) -> String {
        match decide(state, tag, engaged) {
            Action::Enter(channel) => format!("enter {}", channel.name()),
            action => format!("{action:?}").to_lowercase(),
        }
    }

    /// A cell, and what it is instead while tools are not engaged.
    fn both(cell: impl Fn(bool) -> String) -> String {
        match (cell(true), cell(false)) {
            (on, off) if on == off => on,
            (on, off) => format!("{on} (tools off: {off})"),
        }
    }

    /// SPEC.md holds both tables as they are. `UPDATE_EXPECT=1 cargo test` rewrites them.
    #[test]
    fn spec_holds_the_tables() {
        let spec = include_str!("../../SPEC.md");
        let splice = |spec: String, name: &str, table: String| {
            let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
            let (before, rest) = spec.split_once(&begin).expect("SPEC.md has the table's beginning");
            let (_, after) = rest.split_once(&end).expect("SPEC.md has the table's end");
            format!("{before}{begin}{table}{end}{after}")
        };
        let wanted = splice(spec.to_owned(), "actions", table(|state, tag| both(|on| action(state, tag, on))));
        let wanted = splice(wanted, "advice", table(|state, tag| both(|on| advice(state, tag, on))));
        expect_test::expect_file!["../../SPEC.md"].assert_eq(&wanted);
    }
}
