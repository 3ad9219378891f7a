//! What form the answer shall have.
//!
//! In: `response_format`, `output_config.format` or `text.format`. Out: [`Format`]. Nothing is held.

use kimi_xtml::ResponseFormat;
use serde_json::value::RawValue;

use super::history::json;
use super::members::{Member, Members};
use crate::error::ApiError;

/// What form the answer shall have: for the prompt, and as the schema that it must satisfy.
#[derive(Debug, Default)]
pub(crate) struct Format {
    pub(crate) told: ResponseFormat<'static>,
    pub(crate) schema: Option<Box<RawValue>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Object,
    Schema,
}

const KINDS: [(&str, Kind); 3] = [("text", Kind::Text), ("json_object", Kind::Object), ("json_schema", Kind::Schema)];

/// Chat Completions: `{"type": "json_schema", "json_schema": {"name", "schema", "strict"}}`.
pub(crate) fn of_chat(format: Option<Member<'_>>) -> Result<Format, ApiError> {
    let Some(format) = format else { return Ok(Format::default()) };
    let mut members = format.members()?;
    match members.need("type")?.word(&KINDS)? {
        Kind::Schema => named(members.need("json_schema")?.members()?),
        kind => kind.format(),
    }
}

/// Responses: `{"type": "json_schema", "name", "schema", "strict"}`.
pub(crate) fn of_responses(format: Option<Member<'_>>) -> Result<Format, ApiError> {
    let Some(format) = format else { return Ok(Format::default()) };
    let mut members = format.members()?;
    match members.need("type")?.word(&KINDS)? {
        Kind::Schema => named(members),
        kind => kind.format(),
    }
}

/// Messages: `{"type": "json_schema", "schema"}`.
pub(crate) fn of_messages(format: Option<Member<'_>>) -> Result<Format, ApiError> {
    let Some(format) = format else { return Ok(Format::default()) };
    let mut members = format.members()?;
    members.need("type")?.word(&[("json_schema", ())])?;
    schema(&members.need("schema")?)
}

fn named(mut members: Members<'_>) -> Result<Format, ApiError> {
    members.need_text("name")?;
    let _: Option<bool> = members.read("strict")?;
    members.text("description")?;
    schema(&members.need("schema")?)
}

fn schema(schema: &Member<'_>) -> Result<Format, ApiError> {
    let raw = schema.object()?;
    Ok(Format { told: ResponseFormat::JsonSchema(json(schema)?), schema: Some(raw.to_owned()) })
}

impl Kind {
    fn format(self) -> Result<Format, ApiError> {
        if self == Kind::Text {
            return Ok(Format::default());
        }
        let any = RawValue::from_string(r#"{"type":"object"}"#.into());
        Ok(Format { told: ResponseFormat::JsonObject, schema: any.ok() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_all_their_members() {
        let chat = |format: &str| {
            let body = format!("{{\"response_format\":{format}}}");
            of_chat(Members::of_body(body.as_bytes()).unwrap().take("response_format"))
        };
        assert!(chat(r#"{"type": "text"}"#).unwrap().schema.is_none());
        assert_eq!(chat(r#"{"type": "json_object"}"#).unwrap().told, ResponseFormat::JsonObject);
        let schema = chat(r#"{"type": "json_schema", "json_schema": {"name": "a", "schema": {"b":1e2}}}"#).unwrap();
        assert_eq!(schema.schema.unwrap().get(), r#"{"b":1e2}"#);
        for (format, param) in [
            (r#""json_object""#, "response_format"),
            ("{}", "response_format.type"),
            (r#"{"type": "xml"}"#, "response_format.type"),
            (r#"{"type": "json_schema"}"#, "response_format.json_schema"),
            (r#"{"type": "json_schema", "json_schema": {"schema": {}}}"#, "response_format.json_schema.name"),
            (
                r#"{"type": "json_schema", "json_schema": {"name": 4, "schema": {}}}"#,
                "response_format.json_schema.name",
            ),
            (r#"{"type": "json_schema", "json_schema": {"name": "a"}}"#, "response_format.json_schema.schema"),
            (
                r#"{"type": "json_schema", "json_schema": {"name": "a", "schema": []}}"#,
                "response_format.json_schema.schema",
            ),
            (
                r#"{"type": "json_schema", "json_schema": {"name": "a", "schema": {}, "strict": "yes"}}"#,
                "response_format.json_schema.strict",
            ),
        ] {
            assert_eq!(chat(format).unwrap_err().param.as_deref(), Some(param), "{format}");
        }
    }
}
