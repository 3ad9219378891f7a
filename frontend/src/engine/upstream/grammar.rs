//! What holds an engine to the format: xgrammar's structural tags for Kimi K3.
//!
//! In: a [`Job`]. Out: a `response_format`, where a call, a tool's schema or the answer's form must be kept to, as
//! vLLM and SGLang take it. Nothing is held. The tag is what `xgrammar.get_model_structural_tag("kimi_k3", …)` makes, beside
//! the form of the answer, and that an answer may be left out where a call must come.

use kimi_xtml::{Channel, ToolChoice};
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::{EngineError, Job, Tool};
use super::Grammar;

/// What no text says, nor a value.
const MARKERS: [&str; 3] = ["<|open|>", "<|close|>", "<|sep|>"];

/// A `response_format`. Schemas keep their spelling, and so the order of their properties.
#[derive(Serialize)]
#[serde(tag = "type", rename = "structural_tag")]
pub(super) struct Tag<'j> {
    format: Format<'j>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'j> {
    Sequence {
        elements: Vec<Format<'j>>,
    },
    Optional {
        content: Box<Format<'j>>,
    },
    Tag {
        begin: String,
        content: Box<Format<'j>>,
        end: String,
    },
    TagsWithSeparator {
        tags: Vec<Format<'j>>,
        separator: &'j str,
        at_least_one: bool,
        stop_after_first: bool,
    },
    ConstString {
        value: String,
    },
    Regex {
        pattern: &'j str,
    },
    AnyText {
        excludes: &'j [&'j str],
    },
    JsonSchema {
        json_schema: Schema<'j>,
        style: &'j str,
        any_order: bool,
        max_whitespace_cnt: u8,
        excludes: &'j [&'j str],
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Schema<'j> {
    Own(&'j RawValue),
    Any(bool),
}

pub(super) fn of(job: &Job, grammar: Grammar) -> Result<Option<Tag<'_>>, EngineError> {
    let must = matches!(job.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
    let strict = job.tool_choice == ToolChoice::Auto && job.tools.iter().any(|tool| tool.strict);
    let what = match &job.schema {
        _ if must => "tool_choice",
        Some(_) => "response_format",
        None if strict => "tools: strict",
        None => return Ok(None),
    };
    let refuse = |why: &str| Err(EngineError::Refused(format!("{what}: {why}")));
    if grammar == Grammar::None {
        return refuse("the engine has no grammar that holds it to this");
    }
    let answer = match &job.schema {
        Some(schema) if !must => json(Schema::Own(schema), "json", 1, &[]),
        _ => text(),
    };
    let mut elements = Vec::new();
    match job.prompt.opened {
        Some(Channel::Think) => {
            elements.push(tag("", text(), close("think")));
            let answer = tag("<|open|>response<|sep|>", answer, close("response"));
            elements.push(if must { Format::Optional { content: answer.into() } } else { answer });
        }
        Some(Channel::Response) => elements.push(tag("", answer, close("response"))),
        _ => return refuse("the prompt opens no channel that the answer could begin in"),
    }
    elements.extend(calls(job, must));
    elements.push(Format::ConstString { value: close("message") });
    Ok(Some(Tag { format: Format::Sequence { elements } }))
}

/// The section of calls, if there may be some.
fn calls(job: &Job, must: bool) -> Option<Format<'_>> {
    let may = |tool: &&Tool| match &job.tool_choice {
        ToolChoice::Named(name) => tool.name == *name,
        choice => *choice != ToolChoice::None,
    };
    let tags: Vec<_> = job.tools.iter().filter(may).map(|tool| call(tool, must || tool.strict)).collect();
    if tags.is_empty() {
        return None;
    }
    let stop_after_first = !job.parallel || matches!(job.tool_choice, ToolChoice::Named(_));
    let calls = Format::TagsWithSeparator { tags, separator: "", at_least_one: true, stop_after_first };
    let section = tag("<|open|>tools<|sep|>", calls, close("tools"));
    Some(if must { section } else { Format::Optional { content: section.into() } })
}

fn call(tool: &Tool, kept: bool) -> Format<'_> {
    let schema = tool.parameters.as_deref().filter(|_| kept).map_or(Schema::Any(true), Schema::Own);
    let elements = vec![
        Format::Regex { pattern: r"\d+" },
        Format::ConstString { value: "\"<|sep|>".into() },
        json(schema, "kimi_k3_xml", 2, &MARKERS),
    ];
    tag(&format!("<|open|>call tool=\"{}\" index=\"", tool.name), Format::Sequence { elements }, close("call"))
}

fn json<'j>(json_schema: Schema<'j>, style: &'j str, blanks: u8, excludes: &'j [&'j str]) -> Format<'j> {
    Format::JsonSchema { json_schema, style, any_order: false, max_whitespace_cnt: blanks, excludes }
}

fn text<'j>() -> Format<'j> {
    Format::AnyText { excludes: &MARKERS[..2] }
}

fn tag<'j>(begin: &str, content: Format<'j>, end: String) -> Format<'j> {
    Format::Tag { begin: begin.into(), content: content.into(), end }
}

fn close(channel: &str) -> String {
    format!("<|close|>{channel}<|sep|>")
}
