//! `parse_batch` and `Batch`.
//!
//! In: an iterable of outputs. Out: a row each, as dicts or through Arrow's PyCapsule interface, in order. Held: one window of
//! outputs and rows at a time, which is read on several threads without the GIL; a window ends after so many rows or bytes, so
//! that memory does not grow with the batch.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use kimi_xtml::Request;
use kimi_xtml_batch::{LONGEST, Opened, Output, Reader, Row, columns, in_parallel, schema};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyIterator, PyList, PyMapping, PyString, PyTuple};
use pyo3::{intern, types::PyByteArray};

use crate::input::{bytes_of, expected, ids_of, number, optional_number, owned_text, text_of};
use crate::parser::{StateError, tokens_of};
use crate::report::{counts, diagnostics};
use crate::request::request;
use crate::tokenizer::Tokenizer;

/// Bytes of outputs after which a window ends.
const WINDOW: usize = 64 << 20;
/// Parts of a window for each thread: what one part takes longer than another is made up for.
const PARTS: usize = 4;

/// What was asked for.
struct Plan {
    outputs: Py<PyAny>,
    finish_reason: Py<PyAny>,
    request: Request,
    opened: Opened,
    call_ids: Option<usize>,
    tokenizer: Option<Py<Tokenizer>>,
    threads: usize,
    rows: usize,
    progress: Option<Py<PyAny>>,
}

/// Rows of outputs. It can be gone through as often as its outputs can: as dicts, or by whoever takes Arrow streams.
#[pyclass(frozen, weakref, module = "kimi_xtml")]
pub(crate) struct Batch(Arc<Plan>);

#[pymethods]
impl Batch {
    fn __iter__(&self, py: Python<'_>) -> PyResult<Rows> {
        Ok(Rows(Mutex::new((Run::new(py, &self.0)?, VecDeque::new()))))
    }

    /// The schema of the Arrow stream.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(schema().as_ref()).map_err(arrow_error)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The rows as an Arrow stream of record batches.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = Batches { run: Some(Run::new(py, &self.0)?), ready: VecDeque::new() };
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    fn __repr__(&self) -> String {
        format!("<kimi_xtml.Batch on {} threads>", self.0.threads)
    }
}

/// The rows as dicts, one after the other.
#[pyclass(frozen, module = "kimi_xtml._kimi_xtml", name = "_Rows")]
pub(crate) struct Rows(Mutex<(Run, VecDeque<Row>)>);

#[pymethods]
impl Rows {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Ok(mut rows) = self.0.try_lock() else {
            return Err(StateError::new_err("the rows are in use: one thread at a time goes through them"));
        };
        let (run, ready) = &mut *rows;
        if ready.is_empty() {
            ready.extend(run.window(py, |rows| rows)?.into_iter().flatten());
        }
        ready.pop_front().map(|row| row_dict(py, &row)).transpose()
    }
}

/// The rows as record batches. After a fault there are no more.
struct Batches {
    run: Option<Run>,
    ready: VecDeque<Result<RecordBatch, ArrowError>>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() {
            let run = self.run.as_mut()?;
            match Python::attach(|py| run.window(py, |rows| columns(&rows))) {
                Ok(batches) => self.ready.extend(batches),
                Err(error) => {
                    self.run = None;
                    return Some(Err(ArrowError::ExternalError(Box::new(error))));
                }
            }
        }
        self.ready.pop_front()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        schema()
    }
}

/// One way through the outputs.
struct Run {
    plan: Arc<Plan>,
    outputs: Option<Py<PyIterator>>,
    /// Finish reasons, if there is one for each output.
    reasons: Option<Py<PyIterator>>,
    reason: String,
    read: usize,
}

/// An output as it is read from Python, and what is left to do without the GIL.
enum Source<'a> {
    Output(Output<'a>),
    Ids(Vec<u32>),
}

impl Source<'_> {
    fn len(&self) -> usize {
        match self {
            Source::Output(output) => output.len(),
            Source::Ids(ids) => ids.len(),
        }
    }
}

impl Run {
    fn new(py: Python<'_>, plan: &Arc<Plan>) -> PyResult<Self> {
        let reason = plan.finish_reason.bind(py);
        let (reason, reasons) = match reason.cast::<PyString>() {
            Ok(reason) => (text_of(reason)?.into_owned(), None),
            Err(_) => (String::new(), Some(reason.try_iter()?.unbind())),
        };
        let outputs = Some(plan.outputs.bind(py).try_iter()?.unbind());
        Ok(Run { plan: plan.clone(), outputs, reasons, reason, read: 0 })
    }

    /// What `make` makes of the next rows, part by part; of none at the end.
    fn window<T: Send>(&mut self, py: Python<'_>, make: impl Fn(Vec<Row>) -> T + Sync) -> PyResult<Vec<T>> {
        let window = self.try_window(py, make);
        if window.is_err() {
            self.outputs = None;
        }
        window
    }

    fn try_window<T: Send>(&mut self, py: Python<'_>, make: impl Fn(Vec<Row>) -> T + Sync) -> PyResult<Vec<T>> {
        let first = self.read;
        let (objects, reasons) = self.pull(py)?;
        let plan = &*self.plan;
        let mut sources = Vec::with_capacity(objects.len());
        for (at, object) in objects.iter().enumerate() {
            let source = source(object, plan.tokenizer.is_some()).map_err(|error| at_row(py, first + at, &error))?;
            if source.len() > LONGEST / 2 {
                return Err(PyValueError::new_err(format!("outputs[{}] is longer than 128 MiB", first + at)));
            }
            sources.push(source);
        }
        let tokenizer = plan.tokenizer.as_ref().map(|tokenizer| tokenizer.get());
        let parts = parts(&sources, plan.rows);
        let start = || Reader::new(plan.request.clone(), plan.opened).numbered(plan.call_ids);
        let read = |reader: &mut Reader, part: &(usize, &[Source<'_>])| {
            let (from, sources) = *part;
            let reason = |at: usize| reasons.get(at).unwrap_or(&self.reason);
            let rows = sources.iter().zip(from..).map(|(source, at)| match (source, tokenizer) {
                (Source::Ids(ids), Some(tokenizer)) => {
                    let tokens = tokenizer.0.texts(ids).map_err(|error| format!("outputs[{}]: {error}", first + at))?;
                    Ok(reader.read(&Output::Tokens(tokens), reason(at)))
                }
                (Source::Ids(_), None) => Ok(Row::default()),
                (Source::Output(output), _) => Ok(reader.read(output, reason(at))),
            });
            rows.collect::<Result<Vec<Row>, String>>().map(&make)
        };
        let made = py.detach(|| in_parallel(&parts, plan.threads, start, read));
        let made = made.into_iter().collect::<Result<Vec<T>, _>>().map_err(PyValueError::new_err)?;
        if let Some(progress) = &plan.progress
            && !objects.is_empty()
        {
            progress.call1(py, (self.read,))?;
        }
        py.check_signals()?;
        Ok(made)
    }

    /// The next outputs, and their finish reasons if each has one.
    fn pull<'py>(&mut self, py: Python<'py>) -> PyResult<(Vec<Bound<'py, PyAny>>, Vec<String>)> {
        let (mut objects, mut reasons) = (Vec::new(), Vec::new());
        let Some(outputs) = &self.outputs else {
            return Ok((objects, reasons));
        };
        let most = self.plan.rows.saturating_mul(if self.plan.threads > 1 { self.plan.threads * PARTS } else { 1 });
        let mut outputs = outputs.bind(py).clone();
        let mut bytes = 0;
        while objects.len() < most && bytes < WINDOW {
            let Some(object) = outputs.next() else {
                self.outputs = None;
                break;
            };
            let object = scalar(object?)?;
            bytes += weight(&object);
            objects.push(object);
            if let Some(each) = &self.reasons {
                let at = self.read;
                let reason = each.bind(py).clone().next().unwrap_or_else(|| {
                    Err(PyValueError::new_err(format!("finish_reason has {at} entries, and outputs has more")))
                })?;
                let reason = owned_text(&reason).map_err(|_| {
                    PyTypeError::new_err(format!("finish_reason[{at}]: expected str, got {}", reason.get_type()))
                });
                reasons.push(reason?);
            }
            self.read += 1;
        }
        Ok((objects, reasons))
    }
}

/// The sources in parts of so many rows and bytes, each with the place of its first.
fn parts<'a, 's>(sources: &'a [Source<'s>], rows: usize) -> Vec<(usize, &'a [Source<'s>])> {
    let mut parts = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (at, source) in sources.iter().enumerate() {
        let bytes_with = bytes + source.len();
        if at > from && (at - from == rows || bytes_with > LONGEST / 2) {
            parts.push((from, &sources[from..at]));
            (from, bytes) = (at, source.len());
        } else {
            bytes = bytes_with;
        }
    }
    if from < sources.len() {
        parts.push((from, &sources[from..]));
    }
    parts
}

/// What is in a scalar of PyArrow's.
fn scalar(object: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>() {
        return Ok(object);
    }
    match object.getattr_opt(intern!(object.py(), "as_py"))? {
        Some(as_py) => as_py.call0(),
        None => Ok(object),
    }
}

/// About how many bytes an object keeps.
fn weight(object: &Bound<'_, PyAny>) -> usize {
    let of = object.cast::<PyTuple>().ok().and_then(|pair| pair.get_item(0).ok());
    of.as_ref().unwrap_or(object).len().unwrap_or(0)
}

fn source<'a>(object: &'a Bound<'_, PyAny>, has_tokenizer: bool) -> PyResult<Source<'a>> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Source::Output(Output::Text(text_of(text)?)));
    }
    if has_tokenizer && !object.is_instance_of::<PyBytes>() && !object.is_instance_of::<PyByteArray>() {
        return ids_of(object).map(Source::Ids);
    }
    if let Some(bytes) = bytes_of(object)? {
        return Ok(Source::Output(Output::Bytes(bytes)));
    }
    let pair = object.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2);
    let pair = pair.ok_or_else(|| expected("str, bytes or a pair of texts and ids (or ids, with a tokenizer)", object));
    let (texts, ids) = (pair?.get_item(0)?, pair_ids(object)?);
    let output = match texts.cast::<PyString>() {
        Ok(text) => Output::WithIds(text_of(text)?.into_owned().into(), ids),
        Err(_) => Output::Tokens(tokens_of(&texts, &ids)?),
    };
    Ok(Source::Output(output))
}

fn pair_ids(pair: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    ids_of(&pair.get_item(1)?)
}

fn at_row(py: Python<'_>, at: usize, error: &PyErr) -> PyErr {
    let told = format!("outputs[{at}]: {}", error.value(py));
    if error.is_instance_of::<PyTypeError>(py) { PyTypeError::new_err(told) } else { PyValueError::new_err(told) }
}

fn arrow_error(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

fn row_dict<'py>(py: Python<'py>, row: &Row) -> PyResult<Bound<'py, PyDict>> {
    let calls = PyList::empty(py);
    for call in &row.tool_calls {
        let dict = PyDict::new(py);
        dict.set_item(intern!(py, "id"), &call.id)?;
        dict.set_item(intern!(py, "name"), &call.name)?;
        dict.set_item(intern!(py, "arguments"), &call.arguments)?;
        dict.set_item(intern!(py, "complete"), call.complete)?;
        calls.append(dict)?;
    }
    let dict = PyDict::new(py);
    dict.set_item(intern!(py, "reasoning"), &row.reasoning)?;
    dict.set_item(intern!(py, "content"), &row.content)?;
    dict.set_item(intern!(py, "tool_calls"), calls)?;
    dict.set_item(intern!(py, "finish_reason"), &row.finish_reason)?;
    dict.set_item(intern!(py, "bytes"), counts(py, &row.bytes)?)?;
    dict.set_item(intern!(py, "tokens"), row.tokens.as_ref().map(|tokens| counts(py, tokens)).transpose()?)?;
    dict.set_item(intern!(py, "diagnostics"), diagnostics(py, &row.diagnostics)?)?;
    Ok(dict)
}

/// Parses whole outputs, on all cores, in order: a row each.
///
/// An output is a str, bytes, or a pair of its text or its tokens' texts, and its ids; with a `tokenizer` it is its ids.
/// `opened="auto"`: each output's first tag tells what its prompt left open. `finish_reason` is one for all, or one for each.
/// `progress` is called with how many rows were read so far.
#[pyfunction]
#[pyo3(signature = (outputs, /, *, tools = None, tool_choice = None, opened = None, separate_reasoning = true,
    undeclared = "withhold", stream_json = false, value_limit = 8_388_608, finish_reason = None, call_ids = None,
    tokenizer = None, threads = None, rows = 1024, progress = None),
    text_signature = "(outputs, /, *, tools=None, tool_choice=None, opened=None, separate_reasoning=True, \
    undeclared='withhold', stream_json=False, value_limit=8388608, finish_reason='stop', call_ids=None, tokenizer=None, \
    threads=None, rows=1024, progress=None)")]
#[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
pub(crate) fn parse_batch(
    outputs: &Bound<'_, PyAny>,
    tools: Option<&Bound<'_, PyAny>>,
    tool_choice: Option<&Bound<'_, PyAny>>,
    opened: Option<&str>,
    separate_reasoning: bool,
    undeclared: &str,
    stream_json: bool,
    #[pyo3(from_py_with = number)] value_limit: usize,
    finish_reason: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = optional_number)] call_ids: Option<usize>,
    tokenizer: Option<Py<Tokenizer>>,
    #[pyo3(from_py_with = optional_number)] threads: Option<usize>,
    #[pyo3(from_py_with = number)] rows: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Batch> {
    let py = outputs.py();
    if outputs.is_instance_of::<PyString>()
        || outputs.is_instance_of::<PyMapping>()
        || bytes_of(outputs)?.is_some()
        || outputs.getattr_opt("__iter__")?.is_none()
    {
        return Err(expected("an iterable of outputs", outputs));
    }
    if rows == 0 || threads == Some(0) {
        return Err(PyValueError::new_err("rows and threads are 1 or more"));
    }
    let known = opened.filter(|opened| *opened != "auto");
    let opened = if opened == Some("auto") { Opened::Auto } else { Opened::Known };
    let request = request(tools, tool_choice, known, separate_reasoning, undeclared, stream_json, value_limit)?;
    let finish_reason = finish_reason.map_or_else(|| PyString::new(py, "stop").into_any(), Bound::clone);
    Ok(Batch(Arc::new(Plan {
        outputs: outputs.clone().unbind(),
        finish_reason: finish_reason.unbind(),
        request,
        opened,
        call_ids,
        tokenizer,
        threads: threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, Into::into)),
        rows,
        progress,
    })))
}
