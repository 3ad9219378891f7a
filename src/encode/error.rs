//! What cannot be encoded, and where it stands in the request.

use std::fmt;

use super::json::JsonError;

/// A conversation that has no prompt: what is wrong, and where.
///
/// ```
/// use kimi_xtml::Conversation;
///
/// let request = r#"{"messages": [{"role": "user", "content": "Hi"}, {"role": "tool", "content": 5}]}"#;
/// let error = Conversation::from_json(request).unwrap_err();
/// assert_eq!(error.place.message, Some(1));
/// assert_eq!(error.to_string(), "messages[1].content: must be a string or a list of parts");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// Where.
    pub place: Place,
    /// What.
    pub fault: Fault,
}

/// A place in the request. It is written as a path: `messages[1].tool_calls[0].function.arguments`.
///
/// ```
/// use kimi_xtml::Place;
///
/// let place = Place { message: Some(1), member: "content", ..Place::default() };
/// assert_eq!(place.to_string(), "messages[1].content");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The message's number, from 0 on; none for a member of the request itself.
    pub message: Option<usize>,
    /// The number of the part of the message's content.
    pub part: Option<usize>,
    /// The number of the call in the message.
    pub call: Option<usize>,
    /// The member; empty for the message, part or call itself.
    pub member: &'static str,
}

/// What is wrong.
///
/// ```
/// use kimi_xtml::{Conversation, Fault};
///
/// let error = Conversation::from_json(r#"{"model": "kimi-k3"}"#).unwrap_err();
/// assert_eq!((error.place.member, error.fault), ("messages", Fault::Missing));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request is no JSON.
    Json(JsonError),
    /// The member must be there.
    Missing,
    /// The value must be something else.
    Kind(&'static str),
    /// The message's role is not one that K3 knows.
    Role(String),
    /// While thinking is on, no effort but `low`, `high` and `max` has a prompt.
    Effort(String),
    /// Neither the tool message nor a call of the assistant's says which tool gave the result.
    NameOfTool,
    /// Texts for images were given, of which some were left, or too few.
    Images {
        /// The texts.
        given: usize,
        /// The images.
        needed: usize,
    },
    /// Only the last message can be continued.
    PartialNotLast,
    /// Only a message of the assistant's can be continued.
    PartialRole,
    /// A message with calls cannot be continued.
    PartialCalls,
}

impl Place {
    pub(crate) fn member(member: &'static str) -> Self {
        Place { member, ..Place::default() }
    }

    pub(crate) fn message(message: usize, member: &'static str) -> Self {
        Place { message: Some(message), member, ..Place::default() }
    }

    /// The error that `fault` stands here.
    pub(crate) fn is(self, fault: Fault) -> EncodeError {
        EncodeError { place: self, fault }
    }
}

impl From<JsonError> for EncodeError {
    fn from(error: JsonError) -> Self {
        Place::default().is(Fault::Json(error))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut dot = "";
        let steps = [("messages", self.message), ("content", self.part), ("tool_calls", self.call)];
        for (list, number) in steps {
            if let Some(number) = number {
                write!(f, "{dot}{list}[{number}]")?;
                dot = ".";
            }
        }
        if self.member.is_empty() { Ok(()) } else { write!(f, "{dot}{}", self.member) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Json(error) => write!(f, "the request cannot be read: {error}"),
            Fault::Missing => f.write_str("is missing"),
            Fault::Kind(kind) => write!(f, "must be {kind}"),
            Fault::Role(role) => {
                write!(f, "must be system, user, assistant or tool, not {:?}", shortened(role))?;
                if role == "developer" { f.write_str("; send it as system") } else { Ok(()) }
            }
            Fault::Effort(effort) => {
                write!(f, "must be \"low\", \"high\" or \"max\" (null for no notice), not {}", shortened(effort))
            }
            Fault::NameOfTool => f.write_str(
                "the tool is not known: send a tool_call_id of the assistant's last tool_calls, or the tool's name",
            ),
            Fault::Images { given, needed } => {
                write!(f, "must have a text for each image of the prompt: {needed}, not {given}")
            }
            Fault::PartialNotLast => f.write_str("only the last message can be continued"),
            Fault::PartialRole => f.write_str("only a message of the assistant can be continued"),
            Fault::PartialCalls => f.write_str("a message with tool_calls cannot be continued"),
        }
    }
}

/// A client's word is not repeated at any length.
fn shortened(word: &str) -> &str {
    word.char_indices().nth(40).map_or(word, |(end, _)| &word[..end])
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            place if place == Place::default() => self.fault.fmt(f),
            place => write!(f, "{place}: {}", self.fault),
        }
    }
}

impl std::error::Error for EncodeError {}
