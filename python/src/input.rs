//! What Python pushes: str, bytes, markers.
//!
//! In: a Python object. Out: text or bytes that borrow from it. A lone surrogate, which no text of a model's has,
//! becomes U+FFFD.

use std::borrow::Cow;

use kimi_xtml::Marker;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};

/// A str or bytes.
pub(crate) enum Input<'a> {
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
}

impl<'a> Input<'a> {
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
            Input::Text(text) => text.len(),
            Input::Bytes(bytes) => bytes.len(),
        }
    }
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
