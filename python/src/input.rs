//! What Python pushes: str, bytes, ids, markers.
//!
//! In: a Python object. Out: one push, which borrows from it and goes into the library's parser. A lone surrogate,
//! which no text of a model's has, becomes U+FFFD.

use std::borrow::Cow;

use kimi_xtml::{Marker, Parser, Sink};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyList, PyMemoryView, PyString};

/// From this length on an input is read without the GIL.
pub(crate) const LARGE: usize = 32 << 10;

/// One push.
pub(crate) enum Input<'a> {
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    WithIds(Cow<'a, str>, Vec<u32>),
    /// Text that is never structure.
    Plain(Cow<'a, str>),
    Marker(Marker),
    Token(Cow<'a, str>, u32),
}

impl<'a> Input<'a> {
    /// A str, bytes or a buffer of bytes.
    pub(crate) fn of(object: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Input::Text(text_of(text)?));
        }
        match bytes_of(object)? {
            Some(bytes) => Ok(Input::Bytes(bytes)),
            None => Err(expected("str, bytes, bytearray or memoryview", object)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Input::Text(text) | Input::Plain(text) | Input::Token(text, _) => text.len(),
            Input::Bytes(bytes) => bytes.len(),
            Input::WithIds(text, ids) => text.len() + ids.len(),
            Input::Marker(_) => 0,
        }
    }

    pub(crate) fn push(&self, parser: &mut Parser, sink: &mut impl Sink) {
        match self {
            Input::Text(text) => parser.push(text, sink),
            Input::Bytes(bytes) => parser.push_bytes(bytes, sink),
            Input::WithIds(text, ids) => parser.push_with_ids(text, ids, sink),
            Input::Plain(text) => parser.push_text(text, sink),
            Input::Marker(marker) => parser.push_marker(*marker, sink),
            Input::Token(text, id) => parser.push_token(text, *id, sink),
        }
    }
}

/// Reads an input of this length, without the GIL if it is large.
pub(crate) fn read<T: Send>(py: Python<'_>, length: usize, read: impl FnOnce() -> T + Send) -> T {
    if length < LARGE { read() } else { py.detach(read) }
}

pub(crate) fn text_of<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, str>> {
    match text.to_str() {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(_) => {
            let joined = text.call_method1("encode", ("utf-16", "surrogatepass"))?;
            let replaced = joined.call_method1("decode", ("utf-16", "replace"))?;
            Ok(Cow::Owned(replaced.extract()?))
        }
    }
}

/// The bytes of what has some. Those that may change while they are read are copied.
pub(crate) fn bytes_of<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<Option<Cow<'a, [u8]>>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        Ok(Some(Cow::Borrowed(bytes.as_bytes())))
    } else if let Ok(bytes) = object.cast::<PyByteArray>() {
        Ok(Some(Cow::Owned(bytes.to_vec())))
    } else if object.is_instance_of::<PyMemoryView>() {
        Ok(Some(Cow::Owned(object.call_method0("tobytes")?.extract()?)))
    } else {
        Ok(None)
    }
}

/// What is said of an argument of another type; PyO3 names the parameter.
pub(crate) fn expected(what: &str, got: &Bound<'_, PyAny>) -> PyErr {
    match got.get_type().name() {
        Ok(got) => PyTypeError::new_err(format!("expected {what}, got {got}")),
        Err(error) => error,
    }
}

/// `text_of` for an argument that has a default.
pub(crate) fn owned_text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = object.cast().map_err(|_| expected("str", object))?;
    Ok(text_of(text)?.into_owned())
}

/// A number, and no bool, which Python takes for one.
pub(crate) fn number<'py, T>(object: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    if object.is_instance_of::<PyBool>() {
        return Err(expected("int", object));
    }
    object.extract()
}

/// `number` for an argument that may be None.
pub(crate) fn optional_number(object: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    if object.is_none() { Ok(None) } else { number(object).map(Some) }
}

/// Token ids: a sequence of int, or an array that has a `tolist`, as those of NumPy and torch do.
pub(crate) fn ids_of(ids: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    not_bytes(ids)?;
    if !ids.is_instance_of::<PyList>()
        && let Some(list) = ids.getattr_opt("tolist")?
    {
        return ids_of(&list.call0()?);
    }
    if let Ok(list) = ids.cast::<PyList>() {
        return list.iter().map(|id| number(&id)).collect();
    }
    ids.extract::<Vec<Bound<'_, PyAny>>>()?.iter().map(number).collect()
}

/// Refuses bytes as ids: a sequence of ints, but text that went the wrong way.
pub(crate) fn not_bytes(ids: &Bound<'_, PyAny>) -> PyResult<()> {
    let is_bytes = ids.is_instance_of::<PyBytes>()
        || ids.is_instance_of::<PyByteArray>()
        || ids.is_instance_of::<PyMemoryView>() && ids.getattr("itemsize")?.extract::<usize>()? == 1;
    if is_bytes {
        return Err(PyTypeError::new_err(format!("{} are no token ids", ids.get_type().name()?)));
    }
    Ok(())
}

/// A marker by its spelling or its id.
pub(crate) fn marker_of(object: &Bound<'_, PyAny>) -> PyResult<Marker> {
    const MARKERS: [Marker; 5] = [Marker::Open, Marker::Close, Marker::Sep, Marker::EndOfMsg, Marker::Eos];
    let marker = if let Ok(text) = object.cast::<PyString>() {
        let text = text_of(text)?;
        MARKERS.into_iter().find(|marker| marker.spelling() == text)
    } else {
        Marker::from_id(number(object)?)
    };
    marker.ok_or_else(|| PyValueError::new_err(format!("not a control token: {object:?}")))
}
