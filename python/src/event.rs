//! The event classes: frozen, one a kind.
//!
//! In: an event of the library and its span. Out: a Python object. A class has the event's fields, which match by
//! position, then `span` and `tokens`; equality and hash are those of all of them.

use kimi_xtml::{Channel, Event, Sink, Span};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

type Range = (u64, u64);
type Text = Py<PyString>;

/// A field as an object of its own.
trait Field {
    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;
}

impl Field for Text {
    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.bind(py).clone().into_any())
    }
}

macro_rules! plain_fields {
    ($($type:ty),+) => { $(
        impl Field for $type {
            fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.into_bound_py_any(py)
            }
        }
    )+ };
}

plain_fields!(usize, bool, Range, Option<Range>);

impl Field for Option<Text> {
    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.as_ref().map_or_else(|| Ok(py.None().into_bound(py)), |text| text.object(py))
    }
}

macro_rules! events {
    ($($(#[$doc:meta])+ $name:ident { $($field:ident: $type:ty),+ })+) => { $(
        $(#[$doc])+
        #[pyclass(frozen, module = "kimi_xtml")]
        pub(crate) struct $name {
            $(#[pyo3(get)] $field: $type,)+
            /// Bytes of the input, from the first push on: start and end.
            #[pyo3(get)]
            span: Range,
            /// Tokens of the input, where ids were given.
            #[pyo3(get)]
            tokens: Option<Range>,
        }

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = ($($field),+, span = (0, 0), tokens = None))]
            fn new($($field: $type,)+ span: Range, tokens: Option<Range>) -> Self {
                $name { $($field,)+ span, tokens }
            }

            #[classattr]
            fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
                PyTuple::new(py, [$(stringify!($field)),+])
            }

            fn __getnewargs__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
                PyTuple::new(py, [$(self.$field.object(py)?,)+ self.span.object(py)?, self.tokens.object(py)?])
            }

            fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                let py = slf.py();
                match other.cast::<Self>() {
                    Ok(other) => {
                        let fields = other.get().__getnewargs__(py)?;
                        slf.get().__getnewargs__(py)?.eq(fields)?.into_py_any(py)
                    }
                    Err(_) => Ok(py.NotImplemented()),
                }
            }

            fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
                (stringify!($name), self.__getnewargs__(py)?).into_pyobject(py)?.hash()
            }

            fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
                let mut repr = format!("{}(", stringify!($name));
                $(repr += &format!(concat!(stringify!($field), "={}, "), self.$field.object(py)?.repr()?);)+
                repr += &format!("span={:?}", self.span);
                if let Some(tokens) = self.tokens {
                    repr += &format!(", tokens={tokens:?}");
                }
                Ok(repr + ")")
            }
        }
    )+ };
}

events! {
    /// A channel opens: by its tag, or because the prompt left it open.
    Start { channel: Text }
    /// Text of the reasoning.
    Reasoning { text: Text }
    /// Text of the answer.
    Content { text: Text }
    /// A call opens; its header is complete.
    CallStart { call: usize, name: Text }
    /// An argument opens; `json` is what comes before its value.
    ArgumentStart { call: usize, key: Option<Text>, kind: Text, json: Text }
    /// A part of an argument's value, as JSON.
    Arguments { call: usize, json: Text }
    /// An argument ends; `closed` if its own close ended it.
    ArgumentEnd { call: usize, json: Text, closed: bool }
    /// A call ends. The arguments of one that is not `complete` are an unterminated prefix: not to be run.
    CallEnd { call: usize, json: Text, complete: bool }
    /// A channel ends.
    End { channel: Text }
    /// Raw text of a tools section that the request did not ask for.
    Withheld { text: Text }
    /// Raw markup that opens and closes nothing.
    Markup { text: Text }
    /// Raw input that is no part of the message.
    Dropped { text: Text }
    /// The stream deviates from the format here.
    Diagnostic { code: Text }
}

/// A list of Python events. It keeps the first failure to make one (there was no memory for it).
pub(crate) struct Events<'py> {
    list: Bound<'py, PyList>,
    failed: Option<PyErr>,
}

impl<'py> Events<'py> {
    pub(crate) fn new(py: Python<'py>) -> Self {
        Events { list: PyList::empty(py), failed: None }
    }

    pub(crate) fn into_list(self) -> PyResult<Bound<'py, PyList>> {
        self.failed.map_or(Ok(self.list), Err)
    }

    fn make(&self, event: Event<'_>, span: Span) -> PyResult<Bound<'py, PyAny>> {
        let py = self.list.py();
        let text = |text: &str| PyString::new(py, text).unbind();
        let channel = |channel: Channel| PyString::intern(py, channel.name()).unbind();
        let (span, tokens) = ((span.bytes.start, span.bytes.end), span.tokens.map(|tokens| (tokens.start, tokens.end)));
        macro_rules! object {
            ($name:ident $($field:ident: $value:expr),+) => {
                Bound::new(py, $name { $($field: $value,)+ span, tokens }).map(Bound::into_any)
            };
        }
        match event {
            Event::Start(opened) => object!(Start channel: channel(opened)),
            Event::Reasoning(said) => object!(Reasoning text: text(said)),
            Event::Content(said) => object!(Content text: text(said)),
            Event::CallStart { call, name } => object!(CallStart call: call, name: text(name)),
            Event::ArgumentStart { call, key, kind, json } => object!(
                ArgumentStart call: call, key: key.map(text), kind: PyString::intern(py, kind.name()).unbind(),
                json: text(json)
            ),
            Event::Arguments { call, json } => object!(Arguments call: call, json: text(json)),
            Event::ArgumentEnd { call, json, closed } => {
                object!(ArgumentEnd call: call, json: text(json), closed: closed)
            }
            Event::CallEnd { call, json, complete } => {
                object!(CallEnd call: call, json: text(json), complete: complete)
            }
            Event::End(closed) => object!(End channel: channel(closed)),
            Event::Withheld(raw) => object!(Withheld text: text(raw)),
            Event::Markup(raw) => object!(Markup text: text(raw)),
            Event::Dropped(raw) => object!(Dropped text: text(raw)),
            Event::Diagnostic(code) => object!(Diagnostic code: PyString::intern(py, code.as_str()).unbind()),
            other => Err(PyNotImplementedError::new_err(format!("no class for {other:?}"))),
        }
    }
}

impl Sink for Events<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) {
        let added = self.make(event, span).and_then(|event| self.list.append(event));
        if let Err(error) = added {
            self.failed.get_or_insert(error);
        }
    }
}
