//! A call's arguments -> fragments of their JSON.
//!
//! In: argument headers, text of values, ends. Out: events whose fragments, concatenated, are the arguments. Held: a
//! value that is no string, until its end tells whether it is JSON; hashes of the first keys. Also of values that do not
//! go out it is known whether they are JSON, since that tells where they end.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use crate::diagnostic::Code;
use crate::event::{Event, ValueKind};
use crate::parse::escape::Escaper;
use crate::parse::held::Held;
use crate::parse::json::Validator;
use crate::report::Out;
use crate::request::Request;
use crate::sink::Sink;

/// Keys of a call that are compared with later ones.
const KEYS: usize = 128;

/// Bytes of the buffer that outlive the stream.
const KEPT: usize = 64 << 10;

/// What a call consists of; the first argument or block decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Empty,
    Arguments,
    Block,
}

/// How a value's text goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Escaped, as it arrives.
    #[default]
    Escape,
    /// Held to its end.
    Hold,
    /// As it arrives, while it can be JSON.
    Stream,
    /// As it arrives.
    Verbatim,
    /// No longer: it turned out to be no JSON.
    Failed,
    /// Not at all: the value is no part of the call.
    Drop,
}

/// Why something ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its own close.
    Closed,
    /// What surrounds it goes on or ends.
    Cut,
    /// The stream's end.
    Finish,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    ordinal: usize,
    /// Calls so far that are whole.
    pub(crate) complete: usize,
    /// Whether it counts; a call without a name does not.
    pub(crate) live: bool,
    form: Form,
    /// Whether the last argument was ended by its own close.
    closed: bool,
    /// Whether an opener could not be read, or a value went out that turned out to be no JSON.
    broken: bool,
    /// Whether nothing more of the arguments can go out.
    stopped: bool,
    keys: Vec<u64>,
    mode: Mode,
    /// Whether the open value should be JSON.
    typed: bool,
    /// How many bytes of it are looked at, if not all.
    limit: Option<usize>,
    /// How many there were.
    len: usize,
    /// What ends the open value in JSON.
    quote: &'static str,
    held: Held,
    validator: Validator,
    scratch: String,
    escaper: Escaper,
}

impl Call {
    /// A call opens, whose tool is named in this part of the header.
    pub(crate) fn start<S: Sink + ?Sized>(&mut self, name: &str, at: Range<usize>, raw: &str, out: &mut Out<'_, S>) {
        (self.form, self.closed, self.broken, self.stopped) = (Form::Empty, false, false, false);
        self.keys.clear();
        self.live = !name.is_empty();
        if self.live {
            let call = self.ordinal;
            out.header(Event::CallStart { call, name }, raw.len(), at);
        } else {
            out.diagnose(Code::NamelessCall);
            out.text(Event::Dropped, raw);
        }
    }

    /// A value that is no part of the call was cut off: it may have hidden what belongs to it.
    pub(crate) fn cut_value(&mut self) {
        self.closed = false;
    }

    /// An opener in the call could not be read: it never is complete.
    pub(crate) fn lacks_opener(&mut self) {
        self.broken = true;
    }

    /// Whether the open value is no part of the call.
    pub(crate) fn drops_value(&self) -> bool {
        self.mode == Mode::Drop
    }

    /// A value opens.
    pub(crate) fn watch_value(&mut self, kind: ValueKind, request: &Request) {
        let streams = request.stream_json && matches!(kind, ValueKind::Object | ValueKind::Array);
        (self.typed, self.len) = (kind != ValueKind::String, 0);
        self.limit = (!streams).then_some(request.value_limit);
        self.validator.reset();
    }

    /// Text of the open value: gives how much of it can be JSON.
    #[inline]
    pub(crate) fn watch(&mut self, text: &str) -> usize {
        if !self.typed {
            return 0;
        }
        self.len += text.len();
        if self.limit.is_some_and(|limit| self.len > limit) {
            self.typed = false;
            return 0;
        }
        self.validator.feed(text.as_bytes())
    }

    /// Whether the open value should be JSON, and is so far one whole JSON value.
    pub(crate) fn is_whole(&self) -> bool {
        self.typed && self.validator.is_whole()
    }

    /// An argument opens, or a block if it has no key.
    pub(crate) fn start_value<S: Sink + ?Sized>(
        &mut self,
        key: Option<&str>,
        kind: ValueKind,
        request: &Request,
        raw: &str,
        out: &mut Out<'_, S>,
    ) {
        self.watch_value(kind, request);
        let form = if key.is_some() { Form::Arguments } else { Form::Block };
        let mixed = self.form != Form::Empty && (form == Form::Block || self.form == Form::Block);
        if mixed {
            out.diagnose(Code::MixedForms);
            self.mode = Mode::Drop;
            return out.text(Event::Dropped, raw);
        }
        self.mode = match kind {
            _ if self.stopped => Mode::Failed,
            ValueKind::String => Mode::Escape,
            ValueKind::Block => Mode::Verbatim,
            ValueKind::Object | ValueKind::Array if request.stream_json => Mode::Stream,
            _ => Mode::Hold,
        };
        self.scratch.clear();
        if let Some(key) = key {
            if self.is_duplicate(key) {
                out.diagnose(Code::DuplicateKey);
            }
            if !self.stopped {
                self.scratch.push_str(if self.form == Form::Empty { "{\"" } else { ",\"" });
                self.escaper.escape_into(key, &mut self.scratch);
                self.scratch.push_str(if self.mode == Mode::Escape { "\":\"" } else { "\":" });
            }
        }
        self.form = form;
        let (call, json) = (self.ordinal, &self.scratch);
        out.event(Event::ArgumentStart { call, key, kind, json }, raw.len());
    }

    fn is_duplicate(&mut self, key: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        let duplicate = self.keys.contains(&hash);
        if !duplicate && self.keys.len() < KEYS {
            self.keys.push(hash);
        }
        duplicate
    }

    /// Text of the open value.
    pub(crate) fn value<S: Sink + ?Sized>(&mut self, text: &str, out: &mut Out<'_, S>) {
        let call = self.ordinal;
        let json = self.watch(text);
        match self.mode {
            Mode::Escape => self.escaper.escape(text, |json, len| {
                out.event(Event::Arguments { call, json }, len);
            }),
            Mode::Verbatim => out.event(Event::Arguments { call, json: text }, text.len()),
            Mode::Stream => self.stream(text.split_at(json), out),
            Mode::Hold => self.hold(text.split_at(json), out),
            Mode::Failed | Mode::Drop => out.text(Event::Dropped, text),
        }
    }

    fn stream<S: Sink + ?Sized>(&mut self, (json, rest): (&str, &str), out: &mut Out<'_, S>) {
        if !json.is_empty() {
            out.event(Event::Arguments { call: self.ordinal, json }, json.len());
        }
        if !rest.is_empty() {
            self.give_up(out);
            out.text(Event::Dropped, rest);
        }
    }

    #[inline]
    fn hold<S: Sink + ?Sized>(&mut self, (json, rest): (&str, &str), out: &mut Out<'_, S>) {
        self.held.push(json, out.ledger);
        if !rest.is_empty() {
            self.held.begin_rest(out.ledger);
            self.held.push(rest, out.ledger);
        }
        if !self.typed {
            self.mode = Mode::Escape;
            self.give_as_string(Code::ValueTooLong, out);
        }
    }

    /// What went out is no JSON: nothing more of this call's arguments can.
    fn give_up<S: Sink + ?Sized>(&mut self, out: &mut Out<'_, S>) {
        out.diagnose(Code::NotJson);
        (self.broken, self.stopped, self.mode) = (true, true, Mode::Failed);
    }

    /// Gives the held value as the beginning of a string, and tells why.
    fn give_as_string<S: Sink + ?Sized>(&mut self, code: Code, out: &mut Out<'_, S>) {
        let call = self.ordinal;
        self.scratch.clear();
        for (at, (block, span)) in self.held.blocks().enumerate() {
            if at == 0 {
                out.diagnose_at(code, span);
                self.scratch.push('"');
            }
            self.escaper.escape_into(block, &mut self.scratch);
            out.sink.event(Event::Arguments { call, json: &self.scratch }, span.clone());
            self.scratch.clear();
        }
        self.held.clear();
    }

    /// No more of the open value comes: what is held goes out. One that is cut off is not ended, and goes out as far as it
    /// can be JSON: what follows could end the arguments, or add to them.
    pub(crate) fn settle_value<S: Sink + ?Sized>(&mut self, whole: bool, out: &mut Out<'_, S>) {
        self.quote = match self.mode {
            Mode::Escape if whole => "\"",
            Mode::Hold if whole && self.held.len() == 0 => {
                out.diagnose(Code::NotJson);
                "\"\""
            }
            Mode::Hold if whole && !self.validator.is_whole() => {
                self.give_as_string(Code::NotJson, out);
                "\""
            }
            Mode::Stream if whole && !self.validator.is_whole() => {
                self.give_up(out);
                ""
            }
            _ => "",
        };
        let (json, rest, before) = self.held.parts();
        for (json, span) in json {
            out.sink.event(Event::Arguments { call: self.ordinal, json }, span.clone());
        }
        if let Some(before) = before {
            out.ledger.drop_arguments_since(before);
        }
        for (at, (text, span)) in rest.enumerate() {
            if at == 0 {
                out.diagnose_at(Code::NotJson, span);
            }
            out.sink.event(Event::Dropped(text), span.clone());
        }
        self.held.clear();
    }

    /// The open value, which is settled, ends.
    pub(crate) fn end_value<S: Sink + ?Sized>(&mut self, cause: Cause, raw: &str, out: &mut Out<'_, S>) {
        let (call, json) = (self.ordinal, self.quote);
        self.closed = cause == Cause::Closed;
        if !self.closed {
            out.diagnose(Code::UnclosedValue);
        }
        out.event(Event::ArgumentEnd { call, json, closed: self.closed }, raw.len());
    }

    /// The call ends.
    pub(crate) fn end<S: Sink + ?Sized>(&mut self, cause: Cause, raw: &str, out: &mut Out<'_, S>) {
        let complete = !self.broken
            && match (cause, self.form) {
                (Cause::Finish, _) => false,
                (Cause::Closed, Form::Empty) => true,
                _ => self.closed,
            };
        let json = match self.form {
            _ if !complete => "",
            Form::Empty => "{}",
            Form::Arguments => "}",
            Form::Block => "",
        };
        if cause != Cause::Closed {
            out.diagnose(Code::UnclosedCall);
        }
        let call = self.ordinal;
        self.ordinal += 1;
        self.complete += usize::from(complete);
        out.event(Event::CallEnd { call, json, complete }, raw.len());
    }

    /// The text of the open value that has not gone out.
    pub(crate) fn held(&self) -> String {
        self.held.blocks().map(|(block, _)| block).collect()
    }

    /// Forgets everything but the allocations.
    pub(crate) fn reset(&mut self) {
        let Call { mut keys, mut held, mut validator, mut scratch, escaper, .. } = std::mem::take(self);
        keys.clear();
        held.clear();
        validator.reset();
        validator.shrink();
        scratch.clear();
        scratch.shrink_to(KEPT);
        *self = Call { keys, held, validator, scratch, escaper, ..Call::default() };
    }
}
