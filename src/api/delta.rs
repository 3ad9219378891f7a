//! What a push adds to the message, in the words of no API yet.
//!
//! In: a [`Delta`]. Out: its JSON as the `delta` of a Chat Completions choice, with the tokens that made it where they
//! are asked for. Nothing is held.

use serde::ser::{Serialize, Serializer};

use crate::object::Object;

/// What one frame adds to the message. Serializes as the `delta` of a Chat Completions choice.
///
/// ```
/// use kimi_xtml::Delta;
///
/// let delta = Delta::CallStart { index: 0, id: "call_1", name: "get_weather" };
/// assert_eq!(
///     serde_json::to_string(&delta)?,
///     r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"get_weather","arguments":""}}]}"#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delta<'a> {
    /// More of the reasoning. Empty only where the first think channel ended and had said nothing.
    Reasoning(&'a str),
    /// More of the answer. Never empty.
    Content(&'a str),
    /// A call opens.
    CallStart {
        /// The call's ordinal in the message, from 0 on.
        index: usize,
        /// The id that was minted for it.
        id: &'a str,
        /// The tool's name, whole.
        name: &'a str,
    },
    /// More of a call's arguments. Never empty.
    Arguments {
        /// The call's ordinal.
        index: usize,
        /// JSON, continuing what was given before.
        json: &'a str,
    },
    /// A call ends. It makes no frame of Chat Completions, and serializes as an empty object.
    CallEnd {
        /// The call's ordinal.
        index: usize,
        /// Whether the call is whole. One that is not must not be run.
        complete: bool,
    },
}

impl Serialize for Delta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Increment(*self, None).serialize(serializer)
    }
}

/// A delta and the tokens that made it.
pub(crate) struct Increment<'a>(pub(crate) Delta<'a>, pub(crate) Option<&'a [u32]>);

impl Serialize for Increment<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ids = self.1.map(|ids| ("internal_content", Object((("token_ids", ids),))));
        match self.0 {
            Delta::Reasoning(text) => Object((("reasoning_content", text), ids)).serialize(serializer),
            Delta::Content(text) => Object((("content", text), ids)).serialize(serializer),
            Delta::CallStart { index, id, name } => {
                let function = Object((("name", name), ("arguments", "")));
                let call = (("index", index), ("id", id), ("type", "function"), ("function", function));
                Object((("tool_calls", [Object(call)]), ids)).serialize(serializer)
            }
            Delta::Arguments { index, json } => {
                let call = (("index", index), ("function", Object((("arguments", json),))));
                Object((("tool_calls", [Object(call)]), ids)).serialize(serializer)
            }
            Delta::CallEnd { .. } => Object(()).serialize(serializer),
        }
    }
}
