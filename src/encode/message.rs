//! One message as pieces.
//!
//! In: a message's role, texts and calls. Out: pieces, by a [`Writer`]. Nothing is held. What is written for an assistant's
//! message after its opener is what the model generates for it.

use std::borrow::Cow;

use super::conversation::{Arguments, Part, PromptCall};
use super::json::{Reader, Value};
use super::piece::{Label, Piece, Writer};
use super::python::{Style, dict, dumps};
use crate::event::{Channel, ValueKind};
use crate::marker::Marker;

/// A call's name and arguments.
pub(crate) type Call<'a> = (&'a str, Given<'a>);

/// Arguments as they were given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given<'a> {
    Text(&'a str),
    Object(Value<'a>),
}

impl<'a> From<&'a PromptCall<'a>> for Given<'a> {
    fn from(call: &'a PromptCall<'a>) -> Self {
        match &call.arguments {
            Arguments::Text(text) => Given::Text(text),
            Arguments::Object(object) => Given::Object(object.value()),
        }
    }
}

impl<'a> From<&'a Part<'a>> for Piece<'a> {
    fn from(part: &'a Part<'a>) -> Self {
        match part {
            Part::Text(text) => Piece::Text(Cow::Borrowed(text)),
            Part::Image(spelling) => Piece::Image(Cow::Borrowed(spelling)),
        }
    }
}

impl<'a> Writer<'a> {
    /// A message's opening tag; an empty name is none.
    pub(crate) fn header(&mut self, role: &'static str, name: Option<&'a str>) {
        self.begin("message");
        self.attribute(" role", role);
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            self.attribute(" name", name);
        }
        self.marker(Marker::Sep);
    }

    /// The opening tag of a tool's result.
    pub(crate) fn result_header(&mut self, tool: &'a str, index: usize) {
        self.begin("message");
        self.attribute(" role", "tool");
        self.attribute(" tool", tool);
        self.attribute(" index", index.to_string());
        self.marker(Marker::Sep);
    }

    pub(crate) fn end_message(&mut self) {
        self.close("message");
        self.marker(Marker::EndOfMsg);
    }

    pub(crate) fn content(&mut self, content: impl IntoIterator<Item = Piece<'a>>, label: Label) {
        for piece in content {
            if !piece.spelling().is_empty() {
                self.push(piece, label);
            }
        }
    }

    /// What is generated from the channel `opened` on: all of it, if none is open. What would come before is not written.
    pub(crate) fn generated(
        &mut self,
        opened: Option<Channel>,
        reasoning: &'a str,
        content: impl IntoIterator<Item = Piece<'a>>,
        calls: impl ExactSizeIterator<Item = Call<'a>>,
    ) {
        if opened.is_none() {
            self.open("think");
        }
        if matches!(opened, None | Some(Channel::Think)) {
            self.channel(Channel::Think, [Piece::Text(reasoning.into())], Label::Reasoning);
            self.close("think");
            self.open("response");
        }
        let in_tools = opened == Some(Channel::Tools);
        if !in_tools {
            self.channel(Channel::Response, content, Label::Content);
            self.close("response");
        }
        if !in_tools && calls.len() > 0 {
            self.open("tools");
        }
        if in_tools || calls.len() > 0 {
            for (call, index) in calls.zip(1..) {
                self.call(call, index);
            }
            self.close("tools");
        }
        self.end_message();
    }

    /// The text of a channel that was just opened.
    fn channel(&mut self, channel: Channel, content: impl IntoIterator<Item = Piece<'a>>, label: Label) {
        let mut content = content.into_iter().peekable();
        let text = content.peek().map_or("", |piece| piece.spelling());
        if self.repeats_openers && quotes_opener(text, channel) {
            self.open(channel.name());
        }
        self.content(content, label);
    }

    fn call(&mut self, (name, arguments): Call<'a>, index: usize) {
        self.begin("call");
        self.attribute_of(" tool", name, Label::CallName);
        self.attribute(" index", index.to_string());
        self.marker(Marker::Sep);
        match arguments {
            Given::Text("") => {}
            Given::Text(text) => match Reader::lenient(text).members() {
                Ok(members) => {
                    for (key, value) in members {
                        self.argument(key.text(), value, Value::source);
                    }
                }
                Err(_) => self.block(text),
            },
            Given::Object(object) => {
                for (key, value) in dict(object) {
                    self.argument(key.text(), value, |value| dumps(value, Style::Spaced));
                }
            }
        }
        self.close("call");
    }

    /// An argument; `print` spells a value that is no string.
    fn argument<T: Into<Cow<'a, str>>>(
        &mut self,
        key: Cow<'a, str>,
        value: Value<'a>,
        print: impl FnOnce(Value<'a>) -> T,
    ) {
        self.begin("argument");
        self.attribute(" key", key);
        self.attribute(" type", value.kind().name());
        self.marker(Marker::Sep);
        match value.text() {
            Some(text) => self.text(text, Label::Argument),
            None => self.text(print(value), Label::Argument),
        }
        self.close("argument");
    }

    fn block(&mut self, text: &'a str) {
        self.begin("json");
        self.attribute(" type", ValueKind::Object.name());
        self.marker(Marker::Sep);
        self.text(text, Label::Argument);
        self.close("json");
    }
}

/// Whether a channel's text begins with that channel's opener.
fn quotes_opener(text: &str, channel: Channel) -> bool {
    text.strip_prefix(Marker::Open.spelling())
        .is_some_and(|header| header.trim_start_matches([' ', '\t', '\r', '\n']).starts_with(channel.name()))
}
