//! What Python pushes: str, bytes, ids, markers.
//!
//! In: a Python object. Out: one push, which borrows from it and goes into the library's parser. A lone surrogate,
//! which no text of a model's has, becomes U+FFFD.

use std::borrow::Cow;

use kimi_xtml::{Marker, Parser, Sink};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};

/// From this length on an input is read without the GIL.
pub(crate) const LARGE: usize = 32 << 10;

/// One push.
pub(crate) enum Input<'a> {
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    WithIds(Cow<'a, str>, Vec<u32>),
    /// Text that is never structure.
    Plain(Cow<'a, str>),
    Marker(Marker),
    Token(Cow<'a, str>, u32),
}

impl<'a> Input<'a> {
    /// A str or bytes.
    pub(crate) fn of(object: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            Ok(Input::Text(text_of(text)?))
        } else if let Ok(bytes) = object.cast::<PyBytes>() {
            Ok(Input::Bytes(bytes.as_bytes()))
        } else {
            Err(PyTypeError::new_err(format!("expected str or bytes, got {}", object.get_type().name()?)))
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

/// `text_of` for an argument that has a default.
pub(crate) fn owned_text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(text_of(object.cast()?)?.into_owned())
}

/// Token ids.
pub(crate) fn ids_of(ids: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    not_bytes(ids)?;
    ids.extract()
}

/// Refuses bytes as ids: a sequence of ints, but text that went the wrong way.
pub(crate) fn not_bytes(ids: &Bound<'_, PyAny>) -> PyResult<()> {
    if ids.is_instance_of::<PyBytes>() || ids.is_instance_of::<PyByteArray>() {
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
        Marker::from_id(object.extract()?)
    };
    marker.ok_or_else(|| PyValueError::new_err(format!("not a control token: {object:?}")))
}
