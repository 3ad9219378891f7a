//! The four notices: system messages that say how the model is invoked.

use std::borrow::Cow;

use super::conversation::{Effort, ResponseFormat};
use super::error::{EncodeError, Fault, Place};
use super::json::Value;
use super::piece::{Label, Writer};
use super::python::{Style, dumps, is_true};
use crate::event::ValueKind;
use crate::marker::Marker;
use crate::request::ToolChoice;

const DECLARED: &str = "# Tools\nHere are the available tools, described in JSONSchema.\n\n";

const DECLARED_LATER: &str = "## New Tools Available\n\
    The system dynamically extends the toolset via lazy-loading.\n\
    You have access to all existing and extended tools.\n\
    Here are the specs for the extended tools.\n\n";

const EFFORT: &str = "`thinking_effort` guides on how much to think in your thinking channel (not including the \
    response channel), supported values include `low`, `medium`, `high`, and `max`.\n\
    Now the system is invoked with `thinking_effort=";

const REQUIRED: &str = "The system is invoked with `tool_choice=required`.\nYou MUST call tools in the next message.";

const NONE: &str = "The system is invoked with `tool_choice=none`.\nYou MUST NOT call any tools in the next message.";

const RAW: &str = "Your response must be raw JSON data without markdown code blocks (```json) or any additional \
    formatting.";

impl Writer<'_> {
    /// The tools of the request; whether there are some.
    pub(crate) fn tools(&mut self, tools: Value<'_>, place: Place) -> Result<bool, EncodeError> {
        self.declare(DECLARED, tools, place)
    }

    /// The tools of a system message; whether there are some.
    pub(crate) fn later_tools(&mut self, tools: Value<'_>, place: Place) -> Result<bool, EncodeError> {
        self.declare(DECLARED_LATER, tools, place)
    }

    fn declare(&mut self, words: &str, tools: Value<'_>, place: Place) -> Result<bool, EncodeError> {
        let are_some = is_true(tools);
        if are_some && tools.kind() != ValueKind::Array {
            return Err(place.is(Fault::Kind("a list of tools")));
        }
        if are_some {
            self.notice("tool-declare", format!("{words}{}", fenced(tools)));
        }
        Ok(are_some)
    }

    pub(crate) fn effort(&mut self, effort: Effort) {
        self.notice("thinking-effort", format!("{EFFORT}{}`.", effort.name()));
    }

    pub(crate) fn tool_choice(&mut self, choice: &ToolChoice) {
        match choice {
            ToolChoice::Required => self.notice("tool-choice", REQUIRED),
            ToolChoice::None => self.notice("tool-choice", NONE),
            ToolChoice::Auto | ToolChoice::Named(_) => {}
        }
    }

    pub(crate) fn response_format(&mut self, format: &ResponseFormat<'_>) {
        let (name, schema) = match format {
            ResponseFormat::Text => return,
            ResponseFormat::JsonObject => ("json_object", String::new()),
            ResponseFormat::JsonSchema(schema) => {
                let schema = fenced(schema.value());
                ("json_schema", format!("\nThe JSON data must match the following schema:\n{schema}"))
            }
        };
        self.notice("response-format", format!("The system is invoked with `response_format={name}`.\n{RAW}{schema}"));
    }

    fn notice(&mut self, kind: &'static str, body: impl Into<Cow<'static, str>>) {
        self.begin("message");
        self.attribute(" role", "system");
        self.attribute(" type", kind);
        self.marker(Marker::Sep);
        self.text(body.into(), Label::Prompt);
        self.close("message");
        self.marker(Marker::EndOfMsg);
    }
}

fn fenced(json: Value<'_>) -> String {
    format!("```json\n{}\n```", dumps(json, Style::Sorted))
}
