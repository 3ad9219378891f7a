//! An assembled message, which the parser's wing gives and the encoder's takes.
//!
//! In: what a stream added up to, or what a program says. Out: fields, and the `message` of a Chat Completions choice.

use serde::ser::{Serialize, Serializer};

use crate::object::Object;

/// An assembled message. Serializes as the `message` of a Chat Completions choice: `reasoning_content` and
/// `tool_calls` are absent when there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The reasoning; empty if there was none.
    pub reasoning: String,
    /// The answer; empty if there was none.
    pub content: String,
    /// The calls, in order, incomplete ones too.
    pub tool_calls: Vec<ToolCall>,
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let reasoning = (!self.reasoning.is_empty()).then_some(("reasoning_content", &self.reasoning));
        let calls = (!self.tool_calls.is_empty()).then_some(("tool_calls", &self.tool_calls));
        Object((("role", "assistant"), ("content", &self.content), reasoning, calls)).serialize(serializer)
    }
}

/// A call of an assembled message. Serializes with `"complete": false` if it is not complete, else without that key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The id that was minted for it.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, JSON as text; of a call that is not complete an unterminated prefix.
    pub arguments: String,
    /// Whether the call is whole. One that is not must not be run.
    pub complete: bool,
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let function = Object((("name", &self.name), ("arguments", &self.arguments)));
        let complete = (!self.complete).then_some(("complete", false));
        Object((("id", &self.id), ("type", "function"), ("function", function), complete)).serialize(serializer)
    }
}
