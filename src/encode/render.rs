//! Message -> XTML: what the model generates for it, the inverse of parsing.
//!
//! In: a [`Message`] and the channel that the prompt left open. Out: pieces, text and control tokens; their spellings,
//! one behind the other, are the generated text. Nothing is held.
//! Text is raw and never escaped; only attributes are (`&`, `"`). As text, a message that quotes control tokens is
//! ambiguous, as the model's own would be; as pieces it is not.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::event::{Channel, ValueKind};
use crate::marker::Marker;
use crate::parse::escape::Escaper;
use crate::{Message, ToolCall};

/// The bytes that the parser reads a header of, its control token counted.
const MAX_HEADER: usize = 16 << 10;

/// A message that the format has no form for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The message has reasoning or an answer, whose channel comes before the one that the prompt left open.
    #[error("the message has text for the {} channel, which comes before the open {} channel", .channel.name(), .opened.name())]
    BeforeOpened {
        /// The channel that can no longer be opened.
        channel: Channel,
        /// The channel that the prompt left open.
        opened: Channel,
    },
    /// A call has no name, or one too long for a header (16 KiB).
    #[error("call {call} has no name, or one that no header takes")]
    CallName {
        /// The call's ordinal, from 0 on.
        call: usize,
    },
}

/// A part of generated text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text: ordinary tokens, also where it spells a control token.
    Text(Cow<'a, str>),
    /// A control token.
    Marker(Marker),
}

impl Piece<'_> {
    /// The piece as generated text spells it.
    pub fn spelling(&self) -> &str {
        match self {
            Piece::Text(text) => text,
            Piece::Marker(marker) => marker.spelling(),
        }
    }
}

/// What the model generates for `message` after a prompt that left `opened` open.
///
/// Parsing it gives the message back, arguments in the parser's spelling, if its texts spell no control token; see
/// [`render_pieces`] for those that do. Ids are not on the wire; neither is whether a call is complete: rendered, it
/// is. Arguments that are no JSON object go into a `json` block as they are.
///
/// ```
/// use kimi_xtml::{Channel, Message, ToolCall, render};
///
/// let call = ToolCall { name: "ls".into(), arguments: r#"{"path":"/tmp"}"#.into(), ..ToolCall::default() };
/// let message = Message { reasoning: "Look.".into(), tool_calls: vec![call], ..Message::default() };
/// assert_eq!(
///     render(&message, Some(Channel::Think))?,
///     "Look.<|close|>think<|sep|><|open|>tools<|sep|><|open|>call tool=\"ls\" index=\"1\"<|sep|>\
///      <|open|>argument key=\"path\" type=\"string\"<|sep|>/tmp<|close|>argument<|sep|>\
///      <|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>"
/// );
/// # Ok::<(), kimi_xtml::RenderError>(())
/// ```
///
/// # Errors
/// If the message has no form: see [`RenderError`].
pub fn render(message: &Message, opened: Option<Channel>) -> Result<String, RenderError> {
    let pieces = render_pieces(message, opened)?;
    Ok(pieces.iter().map(Piece::spelling).collect())
}

/// [`render`], with control tokens told from text that spells them. Given to
/// [`Parser::push_text`](crate::Parser::push_text) and [`Parser::push_marker`](crate::Parser::push_marker), any
/// message comes back.
///
/// # Errors
/// If the message has no form: see [`RenderError`].
pub fn render_pieces(message: &Message, opened: Option<Channel>) -> Result<Vec<Piece<'_>>, RenderError> {
    let mut pieces = Pieces(Vec::new());
    pieces.channel(Channel::Think, &message.reasoning, false, opened)?;
    pieces.channel(Channel::Response, &message.content, message.tool_calls.is_empty(), opened)?;
    if !message.tool_calls.is_empty() || opened == Some(Channel::Tools) {
        if opened != Some(Channel::Tools) {
            pieces.open("tools");
        }
        for (call, tool_call) in message.tool_calls.iter().enumerate() {
            pieces.call(call, tool_call)?;
        }
        pieces.close("tools");
    }
    pieces.close("message");
    pieces.marker(Marker::EndOfMsg);
    Ok(pieces.0)
}

struct Pieces<'a>(Vec<Piece<'a>>);

impl<'a> Pieces<'a> {
    fn channel(
        &mut self,
        channel: Channel,
        text: &'a str,
        always: bool,
        opened: Option<Channel>,
    ) -> Result<(), RenderError> {
        match opened {
            Some(opened) if opened == channel => {}
            // In the order of the wire, which is that of the variants.
            Some(opened) if (channel as u8) < opened as u8 => match text {
                "" => return Ok(()),
                _ => return Err(RenderError::BeforeOpened { channel, opened }),
            },
            _ if text.is_empty() && !always => return Ok(()),
            _ => self.open(channel.name()),
        }
        if quotes_opener(text, channel) {
            self.open(channel.name());
        }
        self.text(text);
        self.close(channel.name());
        Ok(())
    }

    fn call(&mut self, call: usize, tool_call: &'a ToolCall) -> Result<(), RenderError> {
        let header = format!("call tool=\"{}\" index=\"{}\"", escape(&tool_call.name), call + 1);
        if tool_call.name.is_empty() || !fits(&header) {
            return Err(RenderError::CallName { call });
        }
        self.open(header);
        match arguments(&tool_call.arguments) {
            Some(arguments) => {
                for (header, value) in arguments {
                    self.open(header);
                    self.text(value);
                    self.close("argument");
                }
            }
            None => {
                self.open("json type=\"object\"");
                self.text(&tool_call.arguments);
                self.close("json");
            }
        }
        self.close("call");
        Ok(())
    }

    fn open(&mut self, header: impl Into<Cow<'a, str>>) {
        self.tag(Marker::Open, header);
    }

    fn close(&mut self, name: &'static str) {
        self.tag(Marker::Close, name);
    }

    fn tag(&mut self, marker: Marker, header: impl Into<Cow<'a, str>>) {
        self.marker(marker);
        self.text(header);
        self.marker(Marker::Sep);
    }

    fn marker(&mut self, marker: Marker) {
        self.0.push(Piece::Marker(marker));
    }

    fn text(&mut self, text: impl Into<Cow<'a, str>>) {
        let text = text.into();
        if !text.is_empty() {
            self.0.push(Piece::Text(text));
        }
    }
}

/// Whether a channel's text begins with that channel's opener. The parser drops one such opener for a repeated one,
/// so that one is written before it.
fn quotes_opener(text: &str, channel: Channel) -> bool {
    text.strip_prefix(Marker::Open.spelling())
        .is_some_and(|header| header.trim_start_matches([' ', '\t', '\r', '\n']).starts_with(channel.name()))
}

/// The argument headers and values of a call, in order; none if only a `json` block takes the arguments.
fn arguments(json: &str) -> Option<Vec<(String, String)>> {
    let mut json = serde_json::Deserializer::from_str(json);
    let members: Vec<(String, &RawValue)> = json.deserialize_map(Members).ok()?;
    json.end().ok()?;
    let mut arguments = Vec::with_capacity(members.len());
    for (key, value) in members {
        let (kind, value) = argument(value.get())?;
        let header = format!("argument key=\"{}\" type=\"{}\"", escape(&key), kind.name());
        if !fits(&header) {
            return None;
        }
        arguments.push((header, value));
    }
    Some(arguments)
}

/// A member's value as its kind and the body of its argument; none for a string that has no text.
fn argument(json: &str) -> Option<(ValueKind, String)> {
    let kind = match json.as_bytes().first()? {
        b'"' => ValueKind::String,
        b'{' => ValueKind::Object,
        b'[' => ValueKind::Array,
        b't' | b'f' => ValueKind::Boolean,
        b'n' => ValueKind::Null,
        _ => ValueKind::Number,
    };
    let body = match kind {
        ValueKind::String => serde_json::from_str(json).ok()?,
        _ => respell(json),
    };
    Some((kind, body))
}

/// The members of a JSON object as they stand there, repeated keys too. Values are not descended into, so their
/// depth has no limit.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

/// Valid JSON in the spelling of Python's `json.dumps(value, ensure_ascii=False)`, numbers as they are. A string with
/// a lone surrogate, which no text can spell out, keeps its escapes.
fn respell(json: &str) -> String {
    let mut spelled = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(token) = rest.bytes().next() {
        let len = if token == b'"' { string_len(rest) } else { 1 };
        match token {
            b'"' => match serde_json::from_str::<Cow<'_, str>>(&rest[..len]) {
                Ok(string) => {
                    spelled.push('"');
                    Escaper::default().escape_into(&string, &mut spelled);
                    spelled.push('"');
                }
                Err(_) => spelled.push_str(&rest[..len]),
            },
            b',' => spelled.push_str(", "),
            b':' => spelled.push_str(": "),
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => spelled.push_str(&rest[..len]),
        }
        rest = &rest[len..];
    }
    spelled
}

/// The length of the JSON string that `json` begins with.
fn string_len(json: &str) -> usize {
    let mut at = 1;
    while let Some(found) = memchr2(b'"', b'\\', &json.as_bytes()[at..]) {
        at += found + 1;
        match json.as_bytes()[at - 1] {
            b'"' => return at,
            _ => at += 1,
        }
    }
    json.len()
}

/// An attribute's value. The order counts: the `&` of an escape is not escaped again.
fn escape(value: &str) -> String {
    value.replace('&', "&amp;").replace('"', "&quot;")
}

fn fits(header: &str) -> bool {
    Marker::Open.spelling().len() + header.len() <= MAX_HEADER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_escape_ampersands_then_quotes() {
        assert_eq!(escape("a&b\"<c>\n&quot;"), "a&amp;b&quot;<c>\n&amp;quot;");
    }

    #[test]
    fn values_are_respelled_as_python_does() {
        for (json, spelled) in [
            ("{}", "{}"),
            ("[ ]", "[]"),
            ("{\"a\":[1 ,2,\n{\"b\" :null}]}", "{\"a\": [1, 2, {\"b\": null}]}"),
            ("[1e2,-0.0,12345678901234567890123]", "[1e2, -0.0, 12345678901234567890123]"),
            (r#"["\u00e9\/\ud83d\ude00","a,b: \"c\"\\"]"#, r#"["é/😀", "a,b: \"c\"\\"]"#),
            (r#"["\u0001\u0008\u007f\n"]"#, "[\"\\u0001\\b\u{7f}\\n\"]"),
            (r#"["\ud800\/",true]"#, r#"["\ud800\/", true]"#),
        ] {
            assert_eq!(respell(json), spelled);
        }
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(respell(&deep), deep);
    }

    #[test]
    fn objects_become_arguments_in_wire_order() {
        let spelled = |json| {
            let arguments = arguments(json)?;
            Some(arguments.iter().map(|(header, value)| format!("{header}>{value}")).collect::<Vec<_>>())
        };
        assert_eq!(
            spelled(r#" {"b":"\u00e9\"","a&\"":[1,2],"b":1e2,"":null,"t":true} "#).unwrap(),
            [
                "argument key=\"b\" type=\"string\">é\"",
                "argument key=\"a&amp;&quot;\" type=\"array\">[1, 2]",
                "argument key=\"b\" type=\"number\">1e2",
                "argument key=\"\" type=\"null\">null",
                "argument key=\"t\" type=\"boolean\">true",
            ]
        );
        assert_eq!(spelled("{ }").unwrap(), [""; 0]);
        let long_key = format!("{{\"{}\":1}}", "k".repeat(MAX_HEADER));
        for json in ["", "[1]", "null", "{\"a\":1", "{\"a\":1}x", r#"{"a":"\ud800"}"#, r#"{"\ud800":1}"#, &long_key] {
            assert_eq!(spelled(json), None);
        }
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(spelled(&deep).unwrap().len(), 1);
    }
}
