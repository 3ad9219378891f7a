//! The report as plain Python dicts, ready for a log line or `json.dumps`.

use kimi_xtml::{Counts, Noted, Report};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

pub(crate) fn counts<'py>(py: Python<'py>, counts: &Counts) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, count) in [
        ("input", counts.input),
        ("reasoning", counts.reasoning),
        ("content", counts.content),
        ("arguments", counts.arguments),
        ("markup", counts.markup),
        ("withheld", counts.withheld),
        ("dropped", counts.dropped),
    ] {
        dict.set_item(PyString::intern(py, name), count)?;
    }
    Ok(dict)
}

pub(crate) fn diagnostics<'py>(py: Python<'py>, noted: &[Noted]) -> PyResult<Bound<'py, PyList>> {
    let diagnostics = PyList::empty(py);
    for noted in noted {
        let entry = PyDict::new(py);
        entry.set_item("code", noted.code.as_str())?;
        entry.set_item("count", noted.count)?;
        entry.set_item("first", noted.first)?;
        diagnostics.append(entry)?;
    }
    Ok(diagnostics)
}

pub(crate) fn report<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("bytes", counts(py, &report.bytes)?)?;
    dict.set_item("tokens", report.tokens.as_ref().map(|tokens| counts(py, tokens)).transpose()?)?;
    dict.set_item("examined", report.examined)?;
    dict.set_item("diagnostics", diagnostics(py, &report.diagnostics)?)?;
    Ok(dict)
}
