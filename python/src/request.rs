//! What Python says of the request: tool names or the OpenAI tools list, tool choices, channels.

use kimi_xtml::{Channel, Marker, Request, ToolChoice, Undeclared, opened_by_prompt, opened_by_prompt_ids};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString};

use crate::input::{not_bytes, text_of};

/// A member of a mapping or an object; none if it is missing or None.
pub(crate) fn member<'py>(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = match object.cast::<PyMapping>() {
        Ok(mapping) if mapping.contains(name)? => Some(mapping.get_item(name)?),
        Ok(_) => None,
        Err(_) => object.getattr_opt(name)?,
    };
    Ok(found.filter(|found| !found.is_none()))
}

/// Refuses what can have no members: neither a mapping nor an object with one of these.
pub(crate) fn members(object: &Bound<'_, PyAny>, argument: &str, names: &[&str]) -> PyResult<()> {
    if object.is_instance_of::<PyMapping>() {
        return Ok(());
    }
    for name in names {
        if object.hasattr(*name)? {
            return Ok(());
        }
    }
    let (names, given) = (names.join(" or "), object.get_type().name()?);
    Err(PyTypeError::new_err(format!("{argument} is a mapping or an object with {names}, not {given}")))
}

/// The name in a name, in `{"function": {"name": ..}}` or in `{"name": ..}`, as dicts or as objects.
fn tool_name(tool: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(name) = tool.cast::<PyString>() {
        return Ok(text_of(name)?.into_owned());
    }
    let function = member(tool, "function")?;
    let name = member(function.as_ref().unwrap_or(tool), "name")?;
    let name = name.as_ref().and_then(|name| name.cast::<PyString>().ok());
    let name = name.ok_or_else(|| PyTypeError::new_err(format!("no tool name in {}", tool.get_type())))?;
    Ok(text_of(name)?.into_owned())
}

fn tool_choice(choice: Option<&Bound<'_, PyAny>>) -> PyResult<ToolChoice> {
    let Some(choice) = choice else {
        return Ok(ToolChoice::Auto);
    };
    let Ok(name) = choice.cast::<PyString>() else {
        return tool_name(choice).map(ToolChoice::Named);
    };
    match &*text_of(name)? {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        other => Err(PyValueError::new_err(format!(
            "tool_choice is \"auto\", \"none\", \"required\" or {{\"type\": \"function\", ..}}, not {other:?}"
        ))),
    }
}

pub(crate) fn channel(name: Option<&str>) -> PyResult<Option<Channel>> {
    match name {
        None => Ok(None),
        Some("think") => Ok(Some(Channel::Think)),
        Some("response") => Ok(Some(Channel::Response)),
        Some("tools") => Ok(Some(Channel::Tools)),
        Some(other) => Err(PyValueError::new_err(format!(
            "opened is \"think\", \"response\", \"tools\" or None (in a batch also \"auto\"), not {other:?}"
        ))),
    }
}

pub(crate) fn request(
    tools: Option<&Bound<'_, PyAny>>,
    choice: Option<&Bound<'_, PyAny>>,
    opened: Option<&str>,
    separate_reasoning: bool,
    undeclared: &str,
    stream_json: bool,
    value_limit: usize,
) -> PyResult<Request> {
    let mut names = Vec::new();
    if let Some(tools) = tools {
        if tools.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("tools is a list of names or of tools, not a str"));
        }
        // Names as keys are names; a mapping that is itself a tool is one without its list.
        if tools.is_instance_of::<PyMapping>() && tool_name(tools).is_ok() {
            return Err(PyTypeError::new_err("tools is a list of names or of tools, not one tool: write [tool]"));
        }
        for tool in tools.try_iter()? {
            names.push(tool_name(&tool?)?);
        }
    }
    let choice = tool_choice(choice)?;
    if let ToolChoice::Named(name) = &choice
        && !names.contains(name)
    {
        return Err(PyValueError::new_err(format!("tool_choice names {name:?}, which is none of tools: {names:?}")));
    }
    let undeclared = match undeclared {
        "withhold" => Undeclared::Withhold,
        "content" => Undeclared::Content,
        other => {
            return Err(PyValueError::new_err(format!("undeclared is \"withhold\" or \"content\", not {other:?}")));
        }
    };
    Ok(Request::new()
        .tools(names)
        .tool_choice(choice)
        .opened(channel(opened)?)
        .separate_reasoning(separate_reasoning)
        .undeclared(undeclared)
        .stream_json(stream_json)
        .value_limit(value_limit))
}

/// The channel that a prompt leaves open, from its text or its token ids: `"think"`, `"response"` or None.
#[pyfunction]
#[pyo3(signature = (prompt, /))]
pub(crate) fn opened_channel(prompt: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    let opened = match prompt.cast::<PyString>() {
        Ok(text) => opened_by_prompt(&text_of(text)?),
        Err(_) => opened_by_prompt_ids(&last_tag(prompt)?),
    };
    Ok(opened.map(Channel::name))
}

/// The ids from the last opening token on: a prompt may have a million before it.
fn last_tag(ids: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    not_bytes(ids)?;
    let mut tail = Vec::new();
    for at in (0..ids.len()?).rev() {
        let id = ids.get_item(at)?.extract()?;
        tail.push(id);
        if id == Marker::Open.id() {
            break;
        }
    }
    tail.reverse();
    Ok(tail)
}
