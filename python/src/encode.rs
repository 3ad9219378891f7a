//! `encode` and `Prompt`.
//!
//! In: a request, as JSON or as Python objects. Out: the prompt. Objects become JSON text by Python's own `json`, so that
//! numbers keep all their digits; what is read from there on is read without the GIL.

use std::borrow::Cow;

use kimi_xtml::{Channel, Conversation, EncodeError as Error, Prompt as Encoded};
use pyo3::create_exception;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyList, PyMapping, PyString, PyTuple};

use crate::input::{bytes_of, read, text_of};

create_exception!(
    kimi_xtml,
    EncodeError,
    PyValueError,
    "The request has no prompt; `place` says what member is at fault."
);

/// The prompt of a request: pieces that are encoded to ids one by one.
#[pyclass(frozen, module = "kimi_xtml")]
pub(crate) struct Prompt(pub(crate) Encoded<'static>);

#[pymethods]
impl Prompt {
    /// The texts of the pieces, joined.
    #[getter]
    fn text(&self) -> String {
        self.0.text()
    }

    /// Each piece's text, and whether control tokens are read in it.
    #[getter]
    fn pieces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.pieces.iter().map(|piece| (piece.spelling(), piece.is_control())))
    }

    /// What each piece is for.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.labels.iter().map(|label| label.name()))
    }

    /// For each message of the request the pieces that it became: the first, and the one after the last.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.messages.iter().map(|pieces| (pieces.start, pieces.end)))
    }

    /// The channel that the prompt leaves open, if it leaves one.
    #[getter]
    fn opened(&self) -> Option<&'static str> {
        self.0.opened.map(Channel::name)
    }

    /// Whether that channel has text already.
    #[getter]
    fn prefilled(&self) -> bool {
        self.0.prefilled
    }

    /// How many ids at the end `prompt_tokens` leaves out.
    #[getter]
    fn unbilled(&self) -> usize {
        self.0.unbilled
    }

    fn __len__(&self) -> usize {
        self.0.pieces.len()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Prompt>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __repr__(&self) -> String {
        let opened = self.opened().map_or("None".into(), |opened| format!("{opened:?}"));
        format!("<Prompt of {} pieces, opened={opened}>", self.0.pieces.len())
    }
}

/// The prompt that Moonshot's encoder makes of a Chat Completions request.
///
/// The request is a mapping, or its JSON as str or bytes. With `partial_mode=False` a last message that is `partial` is
/// closed, as Moonshot's encoder does, and not gone on in.
#[pyfunction]
#[pyo3(signature = (request, /, *, partial_mode = true))]
pub(crate) fn encode(py: Python<'_>, request: &Bound<'_, PyAny>, partial_mode: bool) -> PyResult<Prompt> {
    let body = body(request)?;
    let encoded = read(py, body.len(), || -> Result<Encoded<'static>, Error> {
        let mut conversation = Conversation::from_json(&body)?;
        conversation.partial_mode = partial_mode;
        Ok(kimi_xtml::encode(&conversation)?.into_owned())
    });
    encoded.map(Prompt).map_err(|error| raised(py, &error))
}

pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let raised = EncodeError::new_err(error.to_string());
    match raised.value(py).setattr("place", error.place.to_string()) {
        Ok(()) => raised,
        Err(other) => other,
    }
}

/// The request as JSON text.
pub(crate) fn body<'a>(request: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, str>> {
    if let Ok(text) = request.cast::<PyString>() {
        return text_of(text);
    }
    if let Some(bytes) = bytes_of(request)? {
        let text =
            str::from_utf8(&bytes).map_err(|error| PyValueError::new_err(format!("request is no UTF-8: {error}")))?;
        return Ok(Cow::Owned(text.to_owned()));
    }
    if !request.is_instance_of::<PyMapping>() {
        let given = request.get_type().name()?;
        return Err(PyTypeError::new_err(format!("request is a mapping, or its JSON as str or bytes, not {given}")));
    }
    let py = request.py();
    let options = PyDict::new(py);
    let plain = |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| plain(&arguments.get_item(0)?);
    options.set_item("default", PyCFunction::new_closure(py, None, None, plain)?)?;
    let json = py.import("json")?.call_method("dumps", (request,), Some(&options))?;
    Ok(Cow::Owned(json.extract()?))
}

/// A value that `json` does not know: other mappings, and the models of clients, of which only what was set counts.
fn plain(value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if value.is_instance_of::<PyMapping>() {
        return Ok(value.py().get_type::<PyDict>().call1((value,))?.unbind());
    }
    let Some(dump) = value.getattr_opt("model_dump")? else {
        return Err(PyTypeError::new_err(format!("a value of the request is no JSON: {}", value.get_type().name()?)));
    };
    let options = PyDict::new(value.py());
    options.set_item("exclude_unset", true)?;
    Ok(dump.call((), Some(&options))?.unbind())
}
