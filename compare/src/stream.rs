//! What is played: a recorded stream, and what must come of it.
//!
//! In: cases. Out: deltas of text (with ids where known), the request, and the results that pass, the first of which is
//! what was said.

use std::ops::Range;

use kimi_xtml::{Channel, Event, Marker, Parser, Request, Span, sink_fn};
use kimi_xtml_cli::cases::{Case, Expected};
use serde::{Deserialize, Serialize};

/// What a parser delivered, or shall deliver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct Outcome {
    pub(crate) reasoning: String,
    pub(crate) content: String,
    pub(crate) calls: Vec<Call>,
}

/// A call. Parsers do not say whether one is whole; a result that is expected does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: String,
    #[serde(skip)]
    pub(crate) complete: bool,
}

/// A stream as an engine delivers it.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) chunks: Vec<String>,
    pub(crate) ids: Option<Vec<Vec<u32>>>,
    /// Only ids tell what is quoted.
    pub(crate) identity: bool,
    pub(crate) opened: Option<Channel>,
    pub(crate) tools: Vec<String>,
    pub(crate) request: Request,
    pub(crate) reason: String,
    pub(crate) accepted: Vec<Outcome>,
}

impl Stream {
    /// The stream of a case; none if it is no single stream of text with a result.
    pub(crate) fn of(case: &Case) -> Option<Stream> {
        let request = case.context.request();
        let expected = case.expected.as_ref()?;
        let tools = if request.engages_tools() { case.context.tools.clone() } else { Vec::new() };
        let mut chunks = case.chunks.clone()?;
        if case.context.engine_finish_reason == "stop" {
            trim_end(&mut chunks);
        }
        Some(Stream {
            id: case.id.clone(),
            kind: case.kind.clone(),
            chunks,
            ids: case.ids.clone(),
            identity: case.identity,
            opened: request.opened,
            tools,
            request,
            reason: case.context.engine_finish_reason.clone(),
            accepted: std::iter::once(expected).chain(&case.alternatives).map(outcome).collect(),
        })
    }

    pub(crate) fn text(&self) -> String {
        self.chunks.concat()
    }

    /// The same stream, cut so that chunks end at `ends`; without ids.
    pub(crate) fn recut(&self, ends: &[usize]) -> Stream {
        let text = self.text();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let chunks = starts.zip(ends).map(|(start, &end)| text[start..end].to_owned()).collect();
        Stream { chunks, ids: None, ..self.clone() }
    }

    /// The same stream in deltas of `count` of its own.
    pub(crate) fn regrouped(&self, count: usize) -> Stream {
        let chunks = self.chunks.chunks(count).map(<[String]>::concat).collect();
        let ids = self.ids.as_ref().map(|ids| ids.chunks(count).map(<[Vec<u32>]>::concat).collect());
        Stream { chunks, ids, ..self.clone() }
    }

    /// Where the chunks end.
    pub(crate) fn ends(&self) -> Vec<usize> {
        let mut end = 0;
        let ends = self.chunks.iter().map(|chunk| {
            end += chunk.len();
            end
        });
        ends.collect()
    }
}

/// Takes the text of the token that ends the generation away, as engines do; its id stays.
fn trim_end(chunks: &mut [String]) {
    let end = Marker::EndOfMsg.spelling();
    let Some(last) = chunks.last_mut() else { return };
    if let Some(before) = last.strip_suffix(end)
        && !before.ends_with(end)
    {
        last.truncate(before.len());
    }
}

fn outcome(expected: &Expected) -> Outcome {
    let calls = expected.tool_calls.iter().map(|call| Call {
        name: call.name.clone(),
        arguments: call.arguments_json.clone(),
        complete: call.complete,
    });
    Outcome { reasoning: expected.reasoning.clone(), content: expected.content.clone(), calls: calls.collect() }
}

/// Where a call stands in the text.
#[derive(Clone, Debug)]
pub(crate) struct CallSpan {
    /// From its opener to after its close.
    pub(crate) bytes: Range<usize>,
    /// Where its first argument's header ends, if it has one.
    pub(crate) first_value: Option<usize>,
}

/// What each byte of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    Reasoning,
    Content,
    Argument,
    Markup,
    Dropped,
}

/// How this project reads a stream: its calls, and the part of each byte.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) calls: Vec<CallSpan>,
    pub(crate) parts: Vec<(Part, Range<usize>)>,
}

impl Layout {
    pub(crate) fn of(stream: &Stream) -> Layout {
        let mut layout = Layout::default();
        let mut sink = sink_fn(|event, span| layout.event(event, span));
        let mut parser = Parser::new(stream.request.clone());
        match &stream.ids {
            Some(ids) => {
                for (chunk, ids) in stream.chunks.iter().zip(ids) {
                    parser.push_with_ids(chunk, ids, &mut sink);
                }
            }
            None => {
                parser.push(&stream.text(), &mut sink);
            }
        }
        parser.finish(&stream.reason, &mut sink);
        layout
    }

    fn event(&mut self, event: Event<'_>, span: Span) {
        let bytes = span.bytes.start as usize..span.bytes.end as usize;
        match event {
            Event::CallStart { .. } => self.calls.push(CallSpan { bytes: bytes.clone(), first_value: None }),
            Event::ArgumentStart { .. }
            | Event::Arguments { .. }
            | Event::ArgumentEnd { .. }
            | Event::CallEnd { .. } => {
                if let Some(call) = self.calls.last_mut() {
                    call.bytes.end = bytes.end;
                    if let Event::ArgumentStart { .. } = event {
                        call.first_value.get_or_insert(bytes.end);
                    }
                }
            }
            _ => {}
        }
        let part = match event {
            Event::Reasoning(_) => Part::Reasoning,
            Event::Content(_) => Part::Content,
            Event::Arguments { .. } => Part::Argument,
            Event::Dropped(_) | Event::Withheld(_) => Part::Dropped,
            _ => Part::Markup,
        };
        match self.parts.last_mut() {
            Some((last, range)) if *last == part => range.end = bytes.end,
            _ if bytes.is_empty() => {}
            _ => self.parts.push((part, bytes)),
        }
    }
}
