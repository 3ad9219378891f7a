//! `Parser`, `parse` and `StateError`.
//!
//! In: text, bytes, markers, tokens. Out: lists of event objects. Held: one parser of the library's and its finish
//! reason, behind a lock. A large input is parsed without the GIL, into events that own their text; they become
//! objects afterwards.

use std::sync::{Mutex, MutexGuard, TryLockError};

use kimi_xtml::{OwnedEvent, Request, Sink, Span};
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::event::Events;
use crate::input::{Input, LARGE, ids_of, marker_of, number, owned_text, read, text_of};
use crate::report::report;
use crate::request::request;

create_exception!(
    kimi_xtml,
    StateError,
    PyRuntimeError,
    "The parser was used in a way that its caller must mend. What a model generates never causes one."
);

/// A parser behind its lock, with what it is fed and what it gave at the end.
pub(crate) struct Stream<T> {
    pub(crate) parser: kimi_xtml::Parser,
    pub(crate) finish_reason: Option<String>,
    pub(crate) request: Request,
    /// What takes the events, if not the caller.
    pub(crate) sink: T,
}

impl<T> Stream<T> {
    pub(crate) fn new(request: Request, sink: T) -> Mutex<Self> {
        let parser = kimi_xtml::Parser::new(request.clone());
        Mutex::new(Stream { parser, finish_reason: None, request, sink })
    }

    pub(crate) fn lock(stream: &Mutex<Self>) -> PyResult<MutexGuard<'_, Self>> {
        match stream.try_lock() {
            Ok(stream) => Ok(stream),
            Err(TryLockError::Poisoned(stream)) => Ok(stream.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(StateError::new_err("the parser is in use: one parser takes one stream, from one thread at a time"))
            }
        }
    }

    /// Refuses input after the finish, and a second finish: a mistake of the caller's, who must know.
    pub(crate) fn goes_on(&self) -> PyResult<()> {
        match self.finish_reason {
            None => Ok(()),
            Some(_) => Err(StateError::new_err("the stream is finished: reset the parser before it takes another")),
        }
    }

    /// What is parsed from now on is another stream of the same request.
    pub(crate) fn reset(&mut self) {
        self.parser.reset(self.request.clone());
        self.finish_reason = None;
    }

    /// For debugging, and so no misuse: a stream that is in use says so.
    pub(crate) fn repr(stream: &Mutex<Self>, name: &str) -> String {
        let Ok(stream) = Self::lock(stream) else {
            return format!("<kimi_xtml.{name} in use>");
        };
        match (&stream.finish_reason, stream.parser.channel()) {
            (Some(reason), _) => format!("<kimi_xtml.{name} finished: {reason:?}>"),
            (None, Some(channel)) => format!("<kimi_xtml.{name} in channel {:?}>", channel.name()),
            (None, None) => format!("<kimi_xtml.{name} in no channel>"),
        }
    }
}

/// Takes an input, without the GIL if it is large.
pub(crate) fn push<S: Sink + Send>(py: Python<'_>, parser: &mut kimi_xtml::Parser, input: &Input<'_>, sink: &mut S) {
    read(py, input.len(), || input.push(parser, sink));
}

/// Parses one stream, as it is generated. One parser a choice.
#[pyclass(frozen, weakref, module = "kimi_xtml")]
pub(crate) struct Parser(Mutex<Stream<()>>);

impl Parser {
    /// The events of one step.
    fn step<'py>(
        &self,
        py: Python<'py>,
        step: impl FnOnce(&mut Stream<()>, &mut Events<'py>),
    ) -> PyResult<Bound<'py, PyList>> {
        let mut events = Events::new(py);
        let mut stream = Stream::lock(&self.0)?;
        stream.goes_on()?;
        step(&mut stream, &mut events);
        events.into_list()
    }

    fn take<'py>(&self, py: Python<'py>, input: &Input<'_>) -> PyResult<Bound<'py, PyList>> {
        if input.len() < LARGE {
            return self.step(py, |stream, events| input.push(&mut stream.parser, events));
        }
        let mut owned = Vec::new();
        let mut stream = Stream::lock(&self.0)?;
        stream.goes_on()?;
        push(py, &mut stream.parser, input, &mut owned);
        drop(stream);
        objects(py, &owned)
    }
}

#[pymethods]
impl Parser {
    #[new]
    #[pyo3(signature = (*, tools = None, tool_choice = None, opened = None, separate_reasoning = true,
        undeclared = "withhold", stream_json = false, value_limit = 8_388_608))]
    fn new(
        tools: Option<&Bound<'_, PyAny>>,
        tool_choice: Option<&Bound<'_, PyAny>>,
        opened: Option<&str>,
        separate_reasoning: bool,
        undeclared: &str,
        stream_json: bool,
        #[pyo3(from_py_with = number)] value_limit: usize,
    ) -> PyResult<Self> {
        let request = request(tools, tool_choice, opened, separate_reasoning, undeclared, stream_json, value_limit)?;
        Ok(Parser(Stream::new(request, ())))
    }

    /// Takes text that may contain markers, cut anywhere; bytes may be cut inside a character.
    #[pyo3(signature = (text, /))]
    fn push<'py>(&self, py: Python<'py>, text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
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
    ) -> PyResult<Bound<'py, PyList>> {
        self.take(py, &Input::WithIds(text_of(text)?, ids))
    }

    /// Takes text that is never structure, whatever it spells.
    #[pyo3(signature = (text, /))]
    fn push_text<'py>(&self, py: Python<'py>, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyList>> {
        self.take(py, &Input::Plain(text_of(text)?))
    }

    /// Takes a control token, by its spelling or its id.
    #[pyo3(signature = (marker, /))]
    fn push_marker<'py>(&self, py: Python<'py>, marker: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        self.take(py, &Input::Marker(marker_of(marker)?))
    }

    /// Takes one token: a control token by its id, whatever its text; any other token's text is never structure.
    #[pyo3(signature = (text, id, /))]
    fn push_token<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyString>,
        #[pyo3(from_py_with = number)] id: u32,
    ) -> PyResult<Bound<'py, PyList>> {
        self.take(py, &Input::Token(text_of(text)?, id))
    }

    /// Ends the stream: held text is delivered, what is open ends as incomplete. See `finish_reason`.
    #[pyo3(signature = (reason = "stop".into(), /), text_signature = "($self, reason='stop', /)")]
    fn finish<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = owned_text)] reason: String,
    ) -> PyResult<Bound<'py, PyList>> {
        self.step(py, |stream, events| {
            let reason = stream.parser.finish(&reason, events);
            stream.finish_reason = Some(reason.into());
        })
    }

    /// Makes the parser as new for another stream of the same request.
    fn reset(&self) -> PyResult<()> {
        Stream::lock(&self.0)?.reset();
        Ok(())
    }

    /// After finish: the reason that was given, but "tool_calls" for "stop", and for other engines' words for it, if a call
    /// is complete.
    #[getter]
    fn finish_reason(&self) -> PyResult<Option<String>> {
        Ok(Stream::lock(&self.0)?.finish_reason.clone())
    }

    /// What the parser did so far: where each byte and token went, and what deviated from the format.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let done = Stream::lock(&self.0)?.parser.report();
        report(py, &done)
    }

    /// The channel that is open now.
    #[getter]
    fn channel(&self) -> PyResult<Option<&'static str>> {
        Ok(Stream::lock(&self.0)?.parser.channel().map(kimi_xtml::Channel::name))
    }

    /// The text that came in and did not go out. For debugging; it is copied.
    #[getter]
    fn held(&self) -> PyResult<String> {
        Ok(Stream::lock(&self.0)?.parser.held())
    }

    fn __repr__(&self) -> String {
        Stream::repr(&self.0, "Parser")
    }
}

/// Events that own their text, as objects.
pub(crate) fn objects<'py>(py: Python<'py>, owned: &[(OwnedEvent, Span)]) -> PyResult<Bound<'py, PyList>> {
    let mut events = Events::new(py);
    for (event, span) in owned {
        events.event(event.as_event(), span.clone());
    }
    events.into_list()
}

/// Parses a whole text, or its bytes: the events of push and finish, parts of one text joined.
#[pyfunction]
#[pyo3(signature = (text, /, *, tools = None, tool_choice = None, opened = None, separate_reasoning = true,
    undeclared = "withhold", stream_json = false, value_limit = 8_388_608))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
pub(crate) fn parse<'py>(
    py: Python<'py>,
    text: &Bound<'py, PyAny>,
    tools: Option<&Bound<'_, PyAny>>,
    tool_choice: Option<&Bound<'_, PyAny>>,
    opened: Option<&str>,
    separate_reasoning: bool,
    undeclared: &str,
    stream_json: bool,
    #[pyo3(from_py_with = number)] value_limit: usize,
) -> PyResult<Bound<'py, PyList>> {
    let request = request(tools, tool_choice, opened, separate_reasoning, undeclared, stream_json, value_limit)?;
    let input = Input::of(text)?;
    objects(py, &read(py, input.len(), || whole(request, |parser, events| input.push(parser, events))))
}

/// Parses a whole sequence of tokens: what `push_token` and finish give, parts of one text joined. A token's text may be
/// empty and come with a later one.
#[pyfunction]
#[pyo3(signature = (texts, ids, /, *, tools = None, tool_choice = None, opened = None, separate_reasoning = true,
    undeclared = "withhold", stream_json = false, value_limit = 8_388_608))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
pub(crate) fn parse_tokens<'py>(
    py: Python<'py>,
    texts: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = ids_of)] ids: Vec<u32>,
    tools: Option<&Bound<'_, PyAny>>,
    tool_choice: Option<&Bound<'_, PyAny>>,
    opened: Option<&str>,
    separate_reasoning: bool,
    undeclared: &str,
    stream_json: bool,
    #[pyo3(from_py_with = number)] value_limit: usize,
) -> PyResult<Bound<'py, PyList>> {
    let request = request(tools, tool_choice, opened, separate_reasoning, undeclared, stream_json, value_limit)?;
    let tokens = tokens_of(texts, &ids)?;
    objects(py, &read(py, ids.len(), || of_tokens(request, &tokens)))
}

type Owned = Vec<(OwnedEvent, Span)>;

/// The events of a whole generation, parts of one text joined.
fn whole(request: Request, push: impl FnOnce(&mut kimi_xtml::Parser, &mut Owned)) -> Owned {
    let mut events = Owned::new();
    let mut parser = kimi_xtml::Parser::new(request);
    push(&mut parser, &mut events);
    parser.finish("stop", &mut events);
    kimi_xtml::coalesce(events)
}

/// The events of a whole generation in tokens, each token in one of them: in that which has its first byte, and in markup if it
/// never had a text.
pub(crate) fn of_tokens(request: Request, tokens: &[(String, u32)]) -> Owned {
    let mut events =
        whole(request, |parser, events| tokens.iter().for_each(|(text, id)| parser.push_token(text, *id, events)));
    let (mut bytes, mut at) = (0, 0);
    for (_, span) in &mut events {
        bytes = span.bytes.end;
        if let Some(tokens) = &mut span.tokens {
            tokens.start = tokens.start.max(at);
            tokens.end = tokens.end.max(tokens.start);
            at = tokens.end;
        }
    }
    let count = tokens.len() as u64;
    if at < count {
        let mut span = Span::default();
        (span.bytes, span.tokens) = (bytes..bytes, Some(at..count));
        events.push((OwnedEvent::Markup(String::new()), span));
    }
    events
}

/// Texts and ids, which must be equally many.
pub(crate) fn tokens_of(texts: &Bound<'_, PyAny>, ids: &[u32]) -> PyResult<Vec<(String, u32)>> {
    if texts.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("texts is a list of str, one for each id, not a str"));
    }
    let mut tokens = Vec::with_capacity(ids.len());
    let mut rest = ids.iter();
    for text in texts.try_iter()? {
        let id = rest.next().ok_or_else(|| PyValueError::new_err("there are more texts than ids"))?;
        tokens.push((owned_text(&text?)?, *id));
    }
    if rest.len() > 0 {
        return Err(PyValueError::new_err(format!("{} ids have no text", rest.len())));
    }
    Ok(tokens)
}
