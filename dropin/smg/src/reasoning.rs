//! The first of SMG's two parsers: reasoning is told from all else.
//!
//! In: what the model generates. Out: reasoning; and the answer, with tools sections raw, for [`Calls`](crate::Calls) or,
//! where no tools are declared, for the client. Held: the parser, how the stream began, and whether a section came last.
//! Before a section the answer is closed and after it opened again, so that [`Calls`](crate::Calls) need not guess.

use kimi_xtml::{Channel, Event, Parser, Request, sink_fn};
use reasoning_parser::{ParseError, ParserResult, ReasoningParser};

/// SMG's reasoning parser of `kimi_k3`, by kimi-xtml.
#[derive(Debug)]
pub struct Reasoning {
    parser: Parser,
    opened: Channel,
    raw: bool,
}

impl Reasoning {
    /// A parser of a stream whose prompt left no reasoning open.
    pub fn new() -> Self {
        Reasoning::opened(Channel::Response)
    }

    fn opened(opened: Channel) -> Self {
        // Without tools a section of calls comes out raw. One that opens in an answer is text of it, and comes out the same.
        Reasoning { parser: Parser::new(Request::new().opened(opened)), opened, raw: false }
    }

    fn read(&mut self, step: impl FnOnce(&mut Parser, &mut dyn kimi_xtml::Sink)) -> ParserResult {
        let mut result = ParserResult::default();
        let raw = &mut self.raw;
        let mut sink = sink_fn(|event, _| {
            let (text, is_raw, turn) = match event {
                Event::Reasoning(text) => return result.reasoning_text += text,
                Event::Content(text) => (text, false, "<|open|>response<|sep|>"),
                Event::Withheld(text) => (text, true, "<|close|>response<|sep|>"),
                _ => return,
            };
            if std::mem::replace(raw, is_raw) != is_raw {
                result.normal_text += turn;
            }
            result.normal_text += text;
        });
        step(&mut self.parser, &mut sink);
        result
    }
}

impl Default for Reasoning {
    fn default() -> Self {
        Self::new()
    }
}

impl ReasoningParser for Reasoning {
    fn detect_and_parse_reasoning(&mut self, text: &str) -> Result<ParserResult, ParseError> {
        *self = Reasoning::opened(self.opened);
        Ok(self.read(|parser, sink| {
            parser.push(text, sink);
            parser.finish("stop", sink);
        }))
    }

    fn parse_reasoning_streaming_incremental(&mut self, text: &str) -> Result<ParserResult, ParseError> {
        Ok(self.read(|parser, sink| parser.push(text, sink)))
    }

    fn flush(&mut self) -> Result<ParserResult, ParseError> {
        Ok(self.read(|parser, sink| {
            parser.finish("stop", sink);
        }))
    }

    fn reset(&mut self) {
        *self = Reasoning::new();
    }

    fn model_type(&self) -> &str {
        crate::NAME
    }

    fn requires_special_tokens(&self) -> bool {
        true
    }

    fn is_in_reasoning(&self) -> bool {
        self.parser.channel() == Some(Channel::Think)
    }

    fn mark_reasoning_started(&mut self) {
        *self = Reasoning::opened(Channel::Think);
    }

    /// Nothing to do: a think opener is dropped once where the prompt already has it.
    fn mark_think_start_stripped(&mut self) {}
}
