//! What takes the parser's events.
//!
//! In: an event and its span. Out: nothing; whoever implements [`Sink`] keeps what it needs. A sink is written in either of
//! two ways: one method for all events, or a method for each kind that matters.

use crate::diagnostic::Code;
use crate::event::{Event, OwnedEvent, Span};

/// Takes events as they come: with [`event`](Sink::event), which gets all of them, or with the methods for one kind, which
/// `event` calls if it is not written, and which do nothing if they are not.
///
/// A `Vec<(OwnedEvent, Span)>` stores events, [`sink_fn`] makes a sink of a closure, `()` takes no notice, and a pair gives
/// events to both, and `&mut S`, `Box<S>` and `Box<dyn Sink>` are sinks as `S` is.
///
/// ```
/// use kimi_xtml::{Parser, Request, Sink, Span};
///
/// /// The answer, and how many calls there were.
/// #[derive(Default)]
/// struct Answer(String, usize);
///
/// impl Sink for Answer {
///     fn content(&mut self, text: &str, _: Span) {
///         self.0 += text;
///     }
///
///     fn call_end(&mut self, _: usize, complete: bool, _: Span) {
///         self.1 += usize::from(complete);
///     }
/// }
///
/// let mut answer = Answer::default();
/// let mut parser = Parser::new(Request::new());
/// parser.push("hello", &mut answer);
/// parser.finish("stop", &mut answer);
/// assert_eq!((answer.0.as_str(), answer.1), ("hello", 0));
/// ```
#[allow(unused_variables, reason = "the names are documentation")]
pub trait Sink {
    /// Takes one event and the span of the input that it came from.
    #[inline]
    fn event(&mut self, event: Event<'_>, span: Span) {
        match event {
            Event::Reasoning(text) => self.reasoning(text, span),
            Event::Content(text) => self.content(text, span),
            Event::CallStart { call, name } => self.call_start(call, name, span),
            Event::ArgumentStart { call, json, .. }
            | Event::Arguments { call, json }
            | Event::ArgumentEnd { call, json, .. } => {
                if !json.is_empty() {
                    self.arguments(call, json, span);
                }
            }
            Event::CallEnd { call, json, complete } => {
                let end = span.end();
                if !json.is_empty() {
                    self.arguments(call, json, span);
                }
                self.call_end(call, complete, end);
            }
            Event::Diagnostic(code) => self.diagnostic(code, span),
            Event::Start(_) | Event::End(_) | Event::Withheld(_) | Event::Markup(_) | Event::Dropped(_) => {}
        }
    }

    /// More of the reasoning. Never empty.
    fn reasoning(&mut self, text: &str, span: Span) {}

    /// More of the answer. Never empty.
    fn content(&mut self, text: &str, span: Span) {}

    /// The span of the tool's name in the header whose [`Event::CallStart`] comes next. Its tokens are those that begin in the
    /// name.
    fn call_name(&mut self, span: Span) {}

    /// A call opens: its ordinal in the message, and the tool's name.
    fn call_start(&mut self, call: usize, name: &str, span: Span) {}

    /// More of a call's arguments, from whichever event has it. Never empty.
    fn arguments(&mut self, call: usize, json: &str, span: Span) {}

    /// A call ends; one that is not complete must not be run. What ended it belongs to the span of its last arguments, so
    /// that this one is empty.
    fn call_end(&mut self, call: usize, complete: bool, span: Span) {}

    /// The stream deviates from the format here.
    fn diagnostic(&mut self, code: Code, span: Span) {}
}

/// A sink that calls a closure for each event.
///
/// ```
/// use kimi_xtml::{Event, Parser, Request, sink_fn};
///
/// let mut said = String::new();
/// let mut sink = sink_fn(|event, _| {
///     if let Event::Content(text) = event {
///         said += text;
///     }
/// });
/// let mut parser = Parser::new(Request::new());
/// parser.push("hello", &mut sink);
/// parser.finish("stop", &mut sink);
/// assert_eq!(said, "hello");
/// ```
pub fn sink_fn<F: FnMut(Event<'_>, Span)>(take: F) -> SinkFn<F> {
    SinkFn(take)
}

/// The sink of [`sink_fn`].
///
/// ```
/// use kimi_xtml::{Parser, Request, sink_fn};
///
/// let mut count = 0;
/// Parser::new(Request::new()).push("Hi", &mut sink_fn(|_, _| count += 1));
/// assert_eq!(count, 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SinkFn<F>(F);

impl<F: FnMut(Event<'_>, Span)> Sink for SinkFn<F> {
    #[inline]
    fn event(&mut self, event: Event<'_>, span: Span) {
        (self.0)(event, span);
    }
}

/// Takes no notice of any event.
impl Sink for () {
    fn event(&mut self, _: Event<'_>, _: Span) {}
}

impl Sink for Vec<(OwnedEvent, Span)> {
    fn event(&mut self, event: Event<'_>, span: Span) {
        self.push((event.to_owned(), span));
    }
}

/// A sink through a pointer is the sink.
macro_rules! through {
    ($($pointer:ty),+) => { $(
        impl<S: Sink + ?Sized> Sink for $pointer {
            #[inline]
            fn event(&mut self, event: Event<'_>, span: Span) {
                (**self).event(event, span);
            }

            fn reasoning(&mut self, text: &str, span: Span) {
                (**self).reasoning(text, span);
            }

            fn content(&mut self, text: &str, span: Span) {
                (**self).content(text, span);
            }

            fn call_name(&mut self, span: Span) {
                (**self).call_name(span);
            }

            fn call_start(&mut self, call: usize, name: &str, span: Span) {
                (**self).call_start(call, name, span);
            }

            fn arguments(&mut self, call: usize, json: &str, span: Span) {
                (**self).arguments(call, json, span);
            }

            fn call_end(&mut self, call: usize, complete: bool, span: Span) {
                (**self).call_end(call, complete, span);
            }

            fn diagnostic(&mut self, code: Code, span: Span) {
                (**self).diagnostic(code, span);
            }
        }
    )+ };
}

through!(&mut S, Box<S>);

/// Both sinks, the first before the second.
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn event(&mut self, event: Event<'_>, span: Span) {
        self.0.event(event, span.clone());
        self.1.event(event, span);
    }

    fn call_name(&mut self, span: Span) {
        self.0.call_name(span.clone());
        self.1.call_name(span);
    }
}
