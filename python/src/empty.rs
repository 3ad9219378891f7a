//! What a call costs by itself: the yardstick of bench.py, in the same build.

use pyo3::prelude::*;
use pyo3::types::PyList;

/// Has a push of the parsers' signature that does nothing.
#[pyclass(frozen, module = "kimi_xtml._kimi_xtml", name = "_Empty")]
pub(crate) struct Empty;

#[pymethods]
impl Empty {
    #[new]
    fn new() -> Self {
        Empty
    }

    #[pyo3(signature = (text, /))]
    fn push<'py>(&self, py: Python<'py>, text: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyList>>> {
        let _ = (py, text);
        Ok(None)
    }
}
