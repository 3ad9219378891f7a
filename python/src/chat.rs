//! `ChatStream` and `render`.
//!
//! In: what `Parser` takes. Out: Chat Completions deltas as dicts, the assembled message as one. Held: one parser of
//! the library's and its chat layer, behind a lock, and how that layer was made.

use std::sync::Mutex;

use kimi_xtml::{Chat, Delta, IdPolicy, Message, Piece, ToolCall};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString};

use crate::input::{Input, ids_of, marker_of, number, optional_number, owned_text, read, text_of};
use crate::parser::{Stream, push};
use crate::report::report;
use crate::request::{channel, member, members, request};

/// One stream as Chat Completions deltas. Each step gives a list of deltas, or None if it gave none.
#[pyclass(frozen, weakref, module = "kimi_xtml")]
pub(crate) struct ChatStream {
    stream: Mutex<Stream<Chat>>,
    call_ids: Option<usize>,
    keep_message: bool,
    object_arguments: bool,
}

impl ChatStream {
    fn step<'py>(&self, py: Python<'py>, step: impl FnOnce(&mut Stream<Chat>)) -> PyResult<Option<Bound<'py, PyList>>> {
        let mut stream = Stream::lock(&self.stream)?;
        stream.goes_on()?;
        step(&mut stream);
        let given = deltas(py, &stream.sink);
        stream.sink.clear();
        given
    }

    fn take<'py>(&self, py: Python<'py>, input: &Input<'_>) -> PyResult<Option<Bound<'py, PyList>>> {
        self.step(py, |stream| push(py, &mut stream.parser, input, &mut stream.sink))
    }
}

fn chat(call_ids: Option<usize>, keep_message: bool, object_arguments: bool) -> Chat {
    let chat = Chat::new(call_ids.map_or_else(IdPolicy::random, IdPolicy::numbered));
    let chat = if object_arguments { chat.with_object_arguments() } else { chat };
    if keep_message { chat } else { chat.without_message() }
}

#[pymethods]
impl ChatStream {
    #[new]
    #[pyo3(signature = (*, tools = None, tool_choice = None, opened = None, separate_reasoning = true,
        undeclared = "withhold", stream_json = false, value_limit = 8_388_608, call_ids = None,
        keep_message = true, object_arguments = false))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
    fn new(
        tools: Option<&Bound<'_, PyAny>>,
        tool_choice: Option<&Bound<'_, PyAny>>,
        opened: Option<&str>,
        separate_reasoning: bool,
        undeclared: &str,
        stream_json: bool,
        #[pyo3(from_py_with = number)] value_limit: usize,
        #[pyo3(from_py_with = optional_number)] call_ids: Option<usize>,
        keep_message: bool,
        object_arguments: bool,
    ) -> PyResult<Self> {
        let request = request(tools, tool_choice, opened, separate_reasoning, undeclared, stream_json, value_limit)?;
        let stream = Stream::new(request, chat(call_ids, keep_message, object_arguments));
        Ok(ChatStream { stream, call_ids, keep_message, object_arguments })
    }

    /// Takes text that may contain markers, cut anywhere; bytes may be cut inside a character.
    #[pyo3(signature = (text, /))]
    fn push<'py>(&self, py: Python<'py>, text: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyList>>> {
        self.take(py, &Input::of(text)?)
    }

    /// Takes the text of one delta and its token ids, which tell which spelled markers are real. The ids may run
    /// ahead of the text, and never lag behind it.
    #[pyo3(signature = (text, ids, /))]
    fn push_with_ids<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyString>,
        #[pyo3(from_py_with = ids_of)] ids: Vec<u32>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        self.take(py, &Input::WithIds(text_of(text)?, ids))
    }

    /// Takes text that is never structure, whatever it spells.
    #[pyo3(signature = (text, /))]
    fn push_text<'py>(&self, py: Python<'py>, text: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyList>>> {
        self.take(py, &Input::Plain(text_of(text)?))
    }

    /// Takes a control token, by its spelling or its id.
    #[pyo3(signature = (marker, /))]
    fn push_marker<'py>(&self, py: Python<'py>, marker: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyList>>> {
        self.take(py, &Input::Marker(marker_of(marker)?))
    }

    /// Takes one token: a control token by its id, whatever its text; any other token's text is never structure.
    #[pyo3(signature = (text, id, /))]
    fn push_token<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyString>,
        #[pyo3(from_py_with = number)] id: u32,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        self.take(py, &Input::Token(text_of(text)?, id))
    }

    /// Ends the stream: held text is delivered. See `finish_reason`.
    #[pyo3(signature = (reason = "stop".into(), /), text_signature = "($self, reason='stop', /)")]
    fn finish<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = owned_text)] reason: String,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        self.step(py, |stream| {
            let reason = stream.parser.finish(&reason, &mut stream.sink);
            stream.finish_reason = Some(reason.into());
        })
    }

    /// Makes the stream as new for another message of the same request: numbered call ids begin again.
    fn reset(&self) -> PyResult<()> {
        let mut stream = Stream::lock(&self.stream)?;
        stream.reset();
        stream.sink = chat(self.call_ids, self.keep_message, self.object_arguments);
        Ok(())
    }

    /// The message so far, final after finish; None if it is not kept. A call that must not be run has
    /// `"complete": False`.
    #[getter]
    fn message<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        Stream::lock(&self.stream)?.sink.message().map(|message| message_dict(py, message)).transpose()
    }

    /// After finish: the reason that was given, but "tool_calls" for "stop", and for other engines' words for it, if a call
    /// is complete.
    #[getter]
    fn finish_reason(&self) -> PyResult<Option<String>> {
        Ok(Stream::lock(&self.stream)?.finish_reason.clone())
    }

    /// What the parser did so far: where each byte and token went, and what deviated from the format.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let done = Stream::lock(&self.stream)?.parser.report();
        report(py, &done)
    }

    /// The channel that is open now.
    #[getter]
    fn channel(&self) -> PyResult<Option<&'static str>> {
        Ok(Stream::lock(&self.stream)?.parser.channel().map(kimi_xtml::Channel::name))
    }

    /// The text that came in and did not go out. For debugging; it is copied.
    #[getter]
    fn held(&self) -> PyResult<String> {
        Ok(Stream::lock(&self.stream)?.parser.held())
    }

    fn __repr__(&self) -> String {
        Stream::repr(&self.stream, "ChatStream")
    }
}

fn deltas<'py>(py: Python<'py>, chat: &Chat) -> PyResult<Option<Bound<'py, PyList>>> {
    let mut list = None;
    // The end of a call makes no delta of Chat Completions.
    for delta in chat.deltas().filter(|delta| !matches!(delta, Delta::CallEnd { .. })) {
        list.get_or_insert_with(|| PyList::empty(py)).append(delta_dict(py, delta)?)?;
    }
    Ok(list)
}

fn delta_dict(py: Python<'_>, delta: Delta<'_>) -> PyResult<Py<PyDict>> {
    let dict = PyDict::new(py);
    match delta {
        Delta::Reasoning(text) => dict.set_item(intern!(py, "reasoning_content"), text)?,
        Delta::Content(text) => dict.set_item(intern!(py, "content"), text)?,
        Delta::CallStart { index, id, name } => {
            let function = PyDict::new(py);
            function.set_item(intern!(py, "name"), name)?;
            function.set_item(intern!(py, "arguments"), intern!(py, ""))?;
            let call = PyDict::new(py);
            call.set_item(intern!(py, "index"), index)?;
            call.set_item(intern!(py, "id"), id)?;
            call.set_item(intern!(py, "type"), intern!(py, "function"))?;
            call.set_item(intern!(py, "function"), function)?;
            dict.set_item(intern!(py, "tool_calls"), PyList::new(py, [call])?)?;
        }
        Delta::Arguments { index, json } => {
            let function = PyDict::new(py);
            function.set_item(intern!(py, "arguments"), json)?;
            let call = PyDict::new(py);
            call.set_item(intern!(py, "index"), index)?;
            call.set_item(intern!(py, "function"), function)?;
            dict.set_item(intern!(py, "tool_calls"), PyList::new(py, [call])?)?;
        }
        _ => {}
    }
    Ok(dict.unbind())
}

fn message_dict<'py>(py: Python<'py>, message: &Message) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("role", "assistant")?;
    dict.set_item("content", &message.content)?;
    if message.thinks() {
        dict.set_item("reasoning_content", &message.reasoning)?;
    }
    if !message.tool_calls.is_empty() {
        let calls = PyList::empty(py);
        for tool_call in &message.tool_calls {
            let function = PyDict::new(py);
            function.set_item("name", &tool_call.name)?;
            function.set_item("arguments", &tool_call.arguments)?;
            let call = PyDict::new(py);
            call.set_item("id", &tool_call.id)?;
            call.set_item("type", "function")?;
            call.set_item("function", function)?;
            if !tool_call.complete {
                call.set_item("complete", false)?;
            }
            calls.append(call)?;
        }
        dict.set_item("tool_calls", calls)?;
    }
    Ok(dict)
}

/// The text that the model generates for a message, after a prompt that left `opened` open: the inverse of parsing.
///
/// The message is a mapping or an object with `content`, `reasoning_content` (or `reasoning`) and `tool_calls`, as a
/// Chat Completions message has them.
#[pyfunction]
#[pyo3(signature = (message, /, *, opened = None))]
pub(crate) fn render(py: Python<'_>, message: &Bound<'_, PyAny>, opened: Option<&str>) -> PyResult<String> {
    pieces(py, message, opened, |pieces| pieces.iter().map(Piece::spelling).collect())
}

/// `render` in pieces, each a text and whether control tokens are read in it: text that spells one is told from one.
#[pyfunction]
#[pyo3(signature = (message, /, *, opened = None))]
pub(crate) fn render_pieces(
    py: Python<'_>,
    message: &Bound<'_, PyAny>,
    opened: Option<&str>,
) -> PyResult<Vec<(String, bool)>> {
    let pair = |piece: &Piece<'_>| (piece.spelling().to_owned(), piece.is_control());
    pieces(py, message, opened, |pieces| pieces.iter().map(pair).collect())
}

/// What `make` makes of a message's pieces.
pub(crate) fn pieces<T: Send>(
    py: Python<'_>,
    message: &Bound<'_, PyAny>,
    opened: Option<&str>,
    make: impl FnOnce(Vec<Piece<'_>>) -> T + Send,
) -> PyResult<T> {
    let message = message_of(message)?;
    let arguments = message.tool_calls.iter().map(|call| call.arguments.len());
    let length = message.reasoning.len() + message.content.len() + arguments.sum::<usize>();
    let opened = channel(opened)?;
    let made = read(py, length, || kimi_xtml::render_pieces(&message, opened).map(make));
    made.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A message in Python's objects.
fn message_of(message: &Bound<'_, PyAny>) -> PyResult<Message> {
    members(message, "message", &["content", "reasoning_content", "reasoning", "tool_calls"])?;
    if let Some(role) = text(message, "role")?.filter(|role| role != "assistant") {
        return Err(PyValueError::new_err(format!(
            "message has the role {role:?}; a model generates \"assistant\" alone: `encode` writes the others"
        )));
    }
    let reasoning = match text(message, "reasoning_content")? {
        Some(reasoning) => Some(reasoning),
        None => text(message, "reasoning")?,
    };
    let mut tool_calls = Vec::new();
    if let Some(calls) = member(message, "tool_calls")? {
        if calls.is_instance_of::<PyMapping>() {
            return Err(PyTypeError::new_err("tool_calls is a list of calls, not one call"));
        }
        for call in calls.try_iter()? {
            tool_calls.push(tool_call(&call?)?);
        }
    }
    let content = text(message, "content")?.unwrap_or_default();
    Ok(Message::of(reasoning.unwrap_or_default(), content, tool_calls))
}

fn text(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<String>> {
    let Some(value) = member(object, name)? else {
        return Ok(None);
    };
    let text = value.cast::<PyString>();
    let text = text.map_err(|_| PyTypeError::new_err(format!("{name} is a str, not {}", value.get_type())))?;
    Ok(Some(text_of(text)?.into_owned()))
}

fn tool_call(call: &Bound<'_, PyAny>) -> PyResult<ToolCall> {
    members(call, "an entry of tool_calls", &["function", "name"])?;
    let function = member(call, "function")?;
    let function = function.as_ref().unwrap_or(call);
    members(function, "function", &["name"])?;
    let arguments = match member(function, "arguments")? {
        Some(arguments) if !arguments.is_instance_of::<PyString>() => {
            let options = PyDict::new(call.py());
            options.set_item("ensure_ascii", false)?;
            let json = call.py().import("json")?;
            json.call_method("dumps", (arguments,), Some(&options))?.extract()?
        }
        _ => text(function, "arguments")?.unwrap_or_else(|| "{}".into()),
    };
    Ok(ToolCall::new(text(function, "name")?.unwrap_or_default(), arguments))
}
