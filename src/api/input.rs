//! The arguments of a call -> the `input` of a tool use, which clients of the Messages API parse at every step.
//!
//! In: arguments as they arrive: JSON mostly, but a `json` block is whatever the model wrote. Out: JSON that is at every step
//! the beginning of an object that a client reads. Held: what decides how that goes on: an escape until it is whole, half a
//! surrogate pair, the last closing brace.
//!
//! As long as the arguments are an object, they go out as they are; half of a surrogate pair as U+FFFD. From where they are
//! none, or none that clients read (brackets deeper than [`DEPTH`], a number with more than [`DIGITS`] digits), what is
//! left of them is the value of a last member, [`INVALID`].

use crate::parse::escape::{Escaper, find_special};
use crate::parse::json::Validator;

/// The key under which Anthropic's documents put what is no JSON.
const INVALID: &str = "INVALID_JSON";
/// Clients' parsers stop at 200 brackets, or recurse.
const DEPTH: usize = 128;
/// Python's parsers refuse more than 4,300.
const DIGITS: usize = 4_000;

/// Arguments of one call, as they arrive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Input {
    json: Validator,
    state: State,
    /// Whether the object has a member.
    has_members: bool,
    /// Half of a surrogate pair, if [`half`](Input::half), and an escape that is not whole.
    held: String,
    half: bool,
    digits: usize,
    escaper: Escaper,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing but blanks came.
    #[default]
    New,
    /// In the object.
    Open,
    /// The object is whole; its last brace is held.
    Closed,
    /// In the member that takes what is no JSON.
    Invalid,
}

impl Input {
    /// The input of a whole message: all of the arguments of a complete call; of one that was cut, the members that are whole.
    pub(crate) fn whole(arguments: &str, complete: bool) -> String {
        let (mut input, mut out) = (Input::default(), String::new());
        if complete {
            input.push(arguments, &mut out);
            input.end(true, &mut out);
            return out;
        }
        let mut members = 0;
        for (at, c) in arguments.char_indices() {
            let before = out.len();
            input.push(&arguments[at..at + c.len_utf8()], &mut out);
            if input.state == State::Open && input.json.has_ended_member(c == ',') {
                members = if c == ',' { before } else { out.len() };
            }
        }
        out.truncate(members);
        if out.is_empty() {
            out.push('{');
        }
        out.push('}');
        out
    }

    /// More of the arguments.
    pub(crate) fn push(&mut self, mut text: &str, out: &mut String) {
        while let Some(&byte) = text.as_bytes().first() {
            let blank = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
            let taken = match self.state {
                State::New | State::Closed if blank => 1,
                State::New if byte == b'{' => {
                    self.state = State::Open;
                    self.structure(byte, out)
                }
                State::Open if self.json.in_string() => self.string(text, out),
                State::Open if self.is_escape() => self.escape(byte, out),
                State::Open => self.structure(byte, out),
                State::Invalid => {
                    self.escaper.escape_into(text, out);
                    return;
                }
                State::New | State::Closed => 0,
            };
            if taken == 0 {
                self.invalid(out);
            }
            text = &text[taken..];
        }
    }

    /// The call ends.
    pub(crate) fn end(&mut self, complete: bool, out: &mut String) {
        if !complete {
            return;
        }
        match self.state {
            State::New => out.push_str("{}"),
            State::Closed => out.push('}'),
            State::Open | State::Invalid => {
                if self.state == State::Open {
                    self.invalid(out);
                }
                out.push_str("\"}");
            }
        }
    }

    /// Takes a byte outside strings.
    fn structure(&mut self, byte: u8, out: &mut String) -> usize {
        self.digits = if self.json.in_number() { self.digits + 1 } else { 0 };
        let too_deep = matches!(byte, b'{' | b'[') && self.json.depth() == DEPTH;
        if too_deep || self.digits > DIGITS && byte.is_ascii_digit() || !self.json.try_feed(byte) {
            return 0;
        }
        self.has_members |= byte == b'"';
        if self.json.depth() == 0 {
            self.state = State::Closed;
        } else {
            out.push(char::from(byte));
        }
        1
    }

    /// Takes what is plain in a string, or one special byte.
    fn string(&mut self, text: &str, out: &mut String) -> usize {
        let bytes = text.as_bytes();
        let plain = find_special(bytes).unwrap_or(bytes.len());
        if plain > 0 {
            self.replace_half(out);
            out.push_str(&text[..plain]);
            return plain;
        }
        if !self.json.try_feed(bytes[0]) {
            return 0;
        }
        if bytes[0] == b'\\' {
            self.held.push('\\');
        } else {
            self.replace_half(out);
            out.push('"');
        }
        1
    }

    fn is_escape(&self) -> bool {
        self.held.len() > if self.half { 6 } else { 0 }
    }

    /// Takes a byte of an escape.
    fn escape(&mut self, byte: u8, out: &mut String) -> usize {
        if !self.json.try_feed(byte) {
            return 0;
        }
        self.held.push(char::from(byte));
        if !self.json.in_string() {
            return 1;
        }
        let escape = if self.half { self.held.split_off(6) } else { std::mem::take(&mut self.held) };
        let unit = escape.strip_prefix("\\u").and_then(|digits| u16::from_str_radix(digits, 16).ok());
        match unit {
            Some(0xdc00..=0xdfff) if self.half => {
                out.push_str(&self.held);
                out.push_str(&escape);
                self.held.clear();
                self.half = false;
            }
            Some(0xd800..=0xdbff) => {
                self.replace_half(out);
                self.held = escape;
                self.half = true;
            }
            Some(0xdc00..=0xdfff) => out.push_str("\\ufffd"),
            _ => {
                self.replace_half(out);
                out.push_str(&escape);
            }
        }
        1
    }

    /// The other half of the pair does not come.
    fn replace_half(&mut self, out: &mut String) {
        if self.half {
            out.push_str("\\ufffd");
            self.held.clear();
            self.half = false;
        }
    }

    /// Here it is no JSON that a client reads: all that is left goes into a member of its own.
    fn invalid(&mut self, out: &mut String) {
        match self.state {
            State::New => out.push('{'),
            State::Closed if self.has_members => out.push(','),
            State::Closed | State::Invalid => {}
            State::Open => self.json.close_members(out),
        }
        self.state = State::Invalid;
        out.push_str(&format!("\"{INVALID}\":\""));
        let held = std::mem::take(&mut self.held);
        self.escaper.escape_into(&held, out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The input, in parts of one character, each of which a client could read.
    fn streamed(arguments: &str, complete: bool) -> String {
        let (mut input, mut out) = (Input::default(), String::new());
        for (at, c) in arguments.char_indices() {
            input.push(&arguments[at..at + c.len_utf8()], &mut out);
        }
        input.end(complete, &mut out);
        out
    }

    #[test]
    fn an_object_is_itself_and_nothing_is_lost_of_what_is_none() {
        for (arguments, input) in [
            (r#"{"a": 1e2, "b":"\u00e9\ud83d\ude00\n"}"#, r#"{"a": 1e2, "b":"\u00e9\ud83d\ude00\n"}"#),
            (" {} ", "{}"),
            ("", "{}"),
            (r#"{"a":"\ud800"}"#, r#"{"a":"\ufffd"}"#),
            (r#"{"a":"\udc00\ud800x"}"#, r#"{"a":"\ufffd\ufffdx"}"#),
            (r#"{"a":"\ud800\ud83d\ude00\ud800\n"}"#, r#"{"a":"\ufffd\ud83d\ude00\ufffd\n"}"#),
            ("ls -la", r#"{"INVALID_JSON":"ls -la"}"#),
            ("[1,2]", r#"{"INVALID_JSON":"[1,2]"}"#),
            ("\"x\"", r#"{"INVALID_JSON":"\"x\""}"#),
            (r#"{"a":1}x"#, r#"{"a":1,"INVALID_JSON":"x"}"#),
            (r#"{}x"#, r#"{"INVALID_JSON":"x"}"#),
            (r#"{"a":1"#, r#"{"a":1,"INVALID_JSON":""}"#),
            (r#"{"a":-x"#, r#"{"a":-0,"INVALID_JSON":"x"}"#),
            (r#"{"a":trx"#, r#"{"a":true,"INVALID_JSON":"x"}"#),
            (r#"{"a":[{"b":"c"#, r#"{"a":[{"b":"c"}],"INVALID_JSON":""}"#),
            (r#"{"a":[{"b":1,"#, r#"{"a":[{"b":1,"":null}],"INVALID_JSON":""}"#),
            (r#"{"a":1,}"#, r#"{"a":1,"INVALID_JSON":"}"}"#),
            (r#"{"a"x"#, r#"{"a":null,"INVALID_JSON":"x"}"#),
            (r#"{"a\x"#, r#"{"a":null,"INVALID_JSON":"\\x"}"#),
            (r#"{"a":"\ud800\x"#, r#"{"a":"","INVALID_JSON":"\\ud800\\x"}"#),
            (r#"{"a":"#, r#"{"a":null,"INVALID_JSON":""}"#),
            ("{x", r#"{"INVALID_JSON":"x"}"#),
        ] {
            assert_eq!(Input::whole(arguments, true), input);
            assert_eq!(streamed(arguments, true), input, "{arguments} in parts");
        }
    }

    #[test]
    fn of_a_call_that_was_cut_the_whole_members_stay() {
        for (arguments, input) in [
            ("", "{}"),
            ("{", "{}"),
            (r#"{"a":"b","c":"d"#, r#"{"a":"b"}"#),
            (r#"{"a":1, "c":2"#, r#"{"a":1}"#),
            (r#"{"a":[1,2"#, "{}"),
            (r#"{"a":[1,2]"#, r#"{"a":[1,2]}"#),
            (r#"{"a":1}"#, "{}"),
            (r#"{"a":"b"}"#, r#"{"a":"b"}"#),
            ("ls", "{}"),
        ] {
            assert_eq!(Input::whole(arguments, false), input, "{arguments}");
        }
    }

    #[test]
    fn what_clients_do_not_read_is_no_json() {
        let deep = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(streamed(&deep(DEPTH - 1), true), deep(DEPTH - 1));
        assert!(streamed(&deep(DEPTH), true).contains("]],\"INVALID_JSON\":\"[]]"));
        let long = |digits: usize| format!("{{\"a\":{}}}", "9".repeat(digits));
        assert_eq!(streamed(&long(DIGITS), true), long(DIGITS));
        assert!(streamed(&long(DIGITS + 2), true).contains(",\"INVALID_JSON\":\"9"));
    }

    proptest! {
        #[test]
        fn is_always_an_object(arguments in r#"(\{"a":)?([{}\[\],:"a1e\-. x]|\\\\(u[d0][8c0]00|n|x)|true|\n){0,20}"#) {
            let whole = Input::whole(&arguments, true);
            prop_assert_eq!(&whole, &streamed(&arguments, true));
            prop_assert!(serde_json::from_str::<serde_json::Map<_, _>>(&whole).is_ok(), "{}", whole);
            let cut = Input::whole(&arguments, false);
            prop_assert!(serde_json::from_str::<serde_json::Map<_, _>>(&cut).is_ok(), "{}", cut);
        }
    }
}
