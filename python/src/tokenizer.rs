//! `Tokenizer`, `Turn` and `labels`.
//!
//! In: a file of ranks; texts, prompts, ids. Out: ids as lists of int, labels as bytes, a byte a token. Held: the library's
//! tokenizer, which all threads share, and its turns, which never change. What is long is done without the GIL.

use std::path::PathBuf;

use kimi_xtml::{Conversation, Label, Request};
use kimi_xtml_tokenizer::{BridgeError as Error, OpenError, UnknownId};
use pyo3::create_exception;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyString};

use crate::chat::pieces;
use crate::encode::{Prompt, body, raised};
use crate::input::{ids_of, number, read, text_of};
use crate::parser::{objects, of_tokens, tokens_of};
use crate::request::request;

create_exception!(
    kimi_xtml,
    BridgeError,
    PyValueError,
    "The next prompt does not begin with the last one; `reason` says why, and `message` which message is at fault."
);

/// Kimi's tokenizer, from a file of ranks (`tiktoken.model`). One serves all threads.
#[pyclass(frozen, weakref, module = "kimi_xtml")]
pub(crate) struct Tokenizer(pub(crate) kimi_xtml_tokenizer::Tokenizer);

#[pymethods]
impl Tokenizer {
    #[new]
    #[pyo3(signature = (path, /))]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| kimi_xtml_tokenizer::Tokenizer::open(&path));
        opened.map(Tokenizer).map_err(|error| match error {
            OpenError::Read { source, .. } => std::io::Error::new(source.kind(), error_text(&path, &source)).into(),
            OpenError::Ranks { source, .. } => PyValueError::new_err(error_text(&path, &source)),
            other => PyValueError::new_err(other.to_string()),
        })
    }

    /// The ids of a text, in which nothing is a control token, or of a prompt, whose pieces are encoded one by one.
    #[pyo3(signature = (text, /))]
    fn encode<'py>(&self, py: Python<'py>, text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let ids = match text.cast::<Prompt>() {
            Ok(prompt) => {
                let pieces = &prompt.get().0.pieces;
                py.detach(|| self.0.encode_pieces(pieces))
            }
            Err(_) => {
                let text = text_of(text_or_prompt(text)?)?;
                read(py, text.len(), || self.0.encode(&text))
            }
        };
        PyList::new(py, ids)
    }

    /// The ids of a text in which what is spelled like a control token is one. Text from outside does not belong here.
    #[pyo3(signature = (text, /))]
    fn encode_control<'py>(&self, py: Python<'py>, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyList>> {
        let text = text_of(text)?;
        PyList::new(py, read(py, text.len(), || self.0.encode_control(&text)))
    }

    /// How many ids a text or a prompt has.
    #[pyo3(signature = (text, /))]
    fn count(&self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<usize> {
        match text.cast::<Prompt>() {
            Ok(prompt) => {
                let pieces = &prompt.get().0.pieces;
                Ok(py.detach(|| self.0.count_pieces(pieces)))
            }
            Err(_) => {
                let text = text_of(text_or_prompt(text)?)?;
                Ok(read(py, text.len(), || self.0.count(&text)))
            }
        }
    }

    /// The bytes of ids, those of control tokens as they are spelled.
    #[pyo3(signature = (ids, /))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = ids_of)] ids: Vec<u32>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = read(py, ids.len(), || self.0.decode(&ids)).map_err(unknown)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The text that each id completes, which is what `Parser.push_token` takes.
    #[pyo3(signature = (ids, /))]
    fn texts<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = ids_of)] ids: Vec<u32>,
    ) -> PyResult<Bound<'py, PyList>> {
        let texts = read(py, ids.len(), || self.0.texts(&ids)).map_err(unknown)?;
        PyList::new(py, texts.into_iter().map(|(text, _)| text))
    }

    /// The bytes of a token, of a control token its spelling; None if there is no such token.
    #[pyo3(signature = (id, /))]
    fn token<'py>(&self, py: Python<'py>, #[pyo3(from_py_with = number)] id: u32) -> Option<Bound<'py, PyBytes>> {
        self.0.token(id).map(|token| PyBytes::new(py, token))
    }

    /// What each id of a prompt is for, a byte an id: the places in `LABELS`.
    #[pyo3(signature = (prompt, /))]
    fn prompt_labels<'py>(&self, py: Python<'py>, prompt: &Bound<'py, Prompt>) -> Bound<'py, PyBytes> {
        let prompt = &prompt.get().0;
        let (_, labels) = py.detach(|| self.0.encode_prompt(prompt));
        bytes(py, &labels)
    }

    /// What each id of a whole generation is for, a byte an id: the places in `LABELS`.
    #[pyo3(signature = (ids, /, *, tools = None, tool_choice = None, opened = None, separate_reasoning = true,
        undeclared = "withhold", stream_json = false, value_limit = 8_388_608))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
    fn labels<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = ids_of)] ids: Vec<u32>,
        tools: Option<&Bound<'py, PyAny>>,
        tool_choice: Option<&Bound<'py, PyAny>>,
        opened: Option<&str>,
        separate_reasoning: bool,
        undeclared: &str,
        stream_json: bool,
        #[pyo3(from_py_with = number)] value_limit: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let request = request(tools, tool_choice, opened, separate_reasoning, undeclared, stream_json, value_limit)?;
        let labels = read(py, ids.len(), || Ok(kimi_xtml::labels(request, &self.0.texts(&ids)?)));
        Ok(bytes(py, &labels.map_err(unknown)?))
    }

    /// `parse_tokens` of a whole generation's ids, with the texts that they complete.
    #[pyo3(signature = (ids, /, *, tools = None, tool_choice = None, opened = None, separate_reasoning = true,
        undeclared = "withhold", stream_json = false, value_limit = 8_388_608))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
    fn parse<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = ids_of)] ids: Vec<u32>,
        tools: Option<&Bound<'py, PyAny>>,
        tool_choice: Option<&Bound<'py, PyAny>>,
        opened: Option<&str>,
        separate_reasoning: bool,
        undeclared: &str,
        stream_json: bool,
        #[pyo3(from_py_with = number)] value_limit: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let request = request(tools, tool_choice, opened, separate_reasoning, undeclared, stream_json, value_limit)?;
        let events = read(py, ids.len(), || Ok(of_tokens(request, &self.0.texts(&ids)?)));
        objects(py, &events.map_err(unknown)?)
    }

    /// The ids of what the model generates for a message: `render_pieces`, encoded one by one.
    #[pyo3(signature = (message, /, *, opened = None))]
    fn render<'py>(
        &self,
        py: Python<'py>,
        message: &Bound<'py, PyAny>,
        opened: Option<&str>,
    ) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, pieces(py, message, opened, |pieces| self.0.encode_pieces(&pieces))?)
    }

    fn __repr__(&self) -> String {
        format!("<kimi_xtml.Tokenizer of {} tokens>", self.0.len())
    }
}

/// A prompt in ids, and the way from it to the next, which begins with it and with what was generated for it.
#[pyclass(frozen, weakref, module = "kimi_xtml")]
pub(crate) struct Turn {
    turn: kimi_xtml_tokenizer::Turn,
    tokenizer: Py<Tokenizer>,
    partial_mode: bool,
}

#[pymethods]
impl Turn {
    #[new]
    #[pyo3(signature = (tokenizer, request, /, *, partial_mode = true, forgive_missing_reasoning = false))]
    fn new(
        py: Python<'_>,
        tokenizer: Py<Tokenizer>,
        request: &Bound<'_, PyAny>,
        partial_mode: bool,
        forgive_missing_reasoning: bool,
    ) -> PyResult<Self> {
        let body = body(request)?;
        let of = &tokenizer.get().0;
        let turn = py.detach(|| {
            let mut conversation = Conversation::from_json(&body)?;
            conversation.partial_mode = partial_mode;
            kimi_xtml_tokenizer::Turn::new(of, &conversation)
        });
        let turn = turn.map_err(|error| raised(py, &error))?.forgive_missing_reasoning(forgive_missing_reasoning);
        Ok(Turn { turn, tokenizer, partial_mode })
    }

    /// The prompt of a request that goes on after this one's generation.
    #[pyo3(signature = (generated, request, /))]
    fn next(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = ids_of)] generated: Vec<u32>,
        request: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let body = body(request)?;
        let of = &self.tokenizer.get().0;
        let turn = py.detach(|| {
            let mut conversation = Conversation::from_json(&body)?;
            conversation.partial_mode = self.partial_mode;
            self.turn.next(of, &generated, &conversation)
        });
        let turn = turn.map_err(|error| bridge(py, &error))?;
        Ok(Turn { turn, tokenizer: self.tokenizer.clone_ref(py), partial_mode: self.partial_mode })
    }

    /// The prompt's ids.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.turn.ids())
    }

    /// The prompt's ids as a buffer of 32 bits each, which `numpy.asarray` takes as it is.
    #[getter]
    fn ids_buffer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes: Vec<u8> = self.turn.ids().iter().flat_map(|id| id.to_ne_bytes()).collect();
        PyMemoryView::from(&PyBytes::new(py, &bytes))?.call_method1("cast", ("I",))
    }

    /// What each id is for, a byte an id: the places in `LABELS`.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, self.turn.labels())
    }

    /// Where generations stand in the ids: the first of each, and the one after the last.
    #[getter]
    fn generated(&self) -> Vec<(usize, usize)> {
        self.turn.generated().iter().map(|ids| (ids.start, ids.end)).collect()
    }

    /// The channel that the prompt leaves open, if it leaves one.
    #[getter]
    fn opened(&self) -> Option<&'static str> {
        self.turn.request().opened.map(kimi_xtml::Channel::name)
    }

    /// How many ids at the end `prompt_tokens` leaves out.
    #[getter]
    fn unbilled(&self) -> usize {
        self.turn.unbilled()
    }

    fn __len__(&self) -> usize {
        self.turn.ids().len()
    }

    fn __repr__(&self) -> String {
        format!("<kimi_xtml.Turn of {} ids, {} generated>", self.turn.ids().len(), self.turn.generated().len())
    }
}

/// What each token of a whole generation is for, a byte a token: the places in `LABELS`. A token's text may be empty and
/// come with a later one.
#[pyfunction]
#[pyo3(signature = (texts, ids, /, *, tools = None, tool_choice = None, opened = None, separate_reasoning = true,
    undeclared = "withhold", stream_json = false, value_limit = 8_388_608))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
pub(crate) fn labels<'py>(
    py: Python<'py>,
    texts: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = ids_of)] ids: Vec<u32>,
    tools: Option<&Bound<'py, PyAny>>,
    tool_choice: Option<&Bound<'py, PyAny>>,
    opened: Option<&str>,
    separate_reasoning: bool,
    undeclared: &str,
    stream_json: bool,
    #[pyo3(from_py_with = number)] value_limit: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let request: Request =
        request(tools, tool_choice, opened, separate_reasoning, undeclared, stream_json, value_limit)?;
    let tokens = tokens_of(texts, &ids)?;
    Ok(bytes(py, &read(py, ids.len(), || kimi_xtml::labels(request, &tokens))))
}

fn bytes<'py>(py: Python<'py>, labels: &[Label]) -> Bound<'py, PyBytes> {
    let labels: Vec<u8> = labels.iter().map(|&label| label as u8).collect();
    PyBytes::new(py, &labels)
}

fn text_or_prompt<'a, 'py>(object: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyString>> {
    match object.cast::<PyString>() {
        Ok(text) => Ok(text),
        Err(_) => {
            let given = object.get_type().name()?;
            Err(PyTypeError::new_err(format!("expected str or Prompt, got {given}")))
        }
    }
}

fn error_text(path: &std::path::Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

fn unknown(error: UnknownId) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn bridge(py: Python<'_>, error: &Error) -> PyErr {
    if let Error::Encode(error) = error {
        return raised(py, error);
    }
    let raised = BridgeError::new_err(error.to_string());
    let value = raised.value(py);
    match value.setattr("reason", error.name()).and_then(|()| value.setattr("message", error.message())) {
        Ok(()) => raised,
        Err(other) => other,
    }
}
