//! The second of SMG's two parsers: calls are told from the answer.
//!
//! In: the answer, and tools sections as they were generated, which is what [`Reasoning`](crate::Reasoning) leaves; or all
//! that the model generates, where SMG runs no reasoning parser. Out: the answer, and calls as they arrive. Held: the parser.

use async_trait::async_trait;
use kimi_xtml::{Channel, Event, Parser, Request, sink_fn};
use openai_protocol::common::Tool;
use tool_parser::errors::ParserResult;
use tool_parser::types::ToolCallItem;
use tool_parser::{FunctionCall, StreamingParseResult, ToolCall, ToolParser};

/// SMG's tool parser of `kimi_k3`, by kimi-xtml.
#[derive(Debug)]
pub struct Calls {
    parser: Parser,
}

impl Calls {
    /// A parser of one stream.
    pub fn new() -> Self {
        // SMG runs a tool parser only where calls are asked for, and checks their names itself.
        Calls { parser: Parser::new(Request::new().opened(Channel::Response).tools([""])) }
    }
}

impl Default for Calls {
    fn default() -> Self {
        Self::new()
    }
}

/// What a step of a parser says, and which calls it says are whole.
fn read(
    parser: &mut Parser,
    step: impl FnOnce(&mut Parser, &mut dyn kimi_xtml::Sink),
) -> (StreamingParseResult, Vec<usize>) {
    let mut result = StreamingParseResult::default();
    let mut whole = Vec::new();
    let mut sink = sink_fn(|event, _| {
        match event {
            Event::Content(text) => result.normal_text += text,
            Event::CallStart { call, name } => {
                result.calls.push(ToolCallItem {
                    tool_index: call,
                    name: Some(name.into()),
                    parameters: String::new(),
                });
            }
            Event::CallEnd { call, complete: true, .. } => whole.push(call),
            _ => {}
        }
        let Some((call, json)) = event.json().filter(|(_, json)| !json.is_empty()) else { return };
        match result.calls.last_mut().filter(|last| last.tool_index == call) {
            Some(last) => last.parameters += json,
            None => result.calls.push(ToolCallItem { tool_index: call, name: None, parameters: json.into() }),
        }
    });
    step(parser, &mut sink);
    (result, whole)
}

fn finish(parser: &mut Parser, sink: &mut dyn kimi_xtml::Sink) {
    parser.finish("stop", sink);
}

#[async_trait]
impl ToolParser for Calls {
    /// The whole calls. One that was cut is none: its arguments are no JSON, and SMG has no place to say so.
    async fn parse_complete(&self, output: &str) -> ParserResult<(String, Vec<ToolCall>)> {
        let (result, whole) = read(&mut Calls::new().parser, |parser, sink| {
            parser.push(output, sink);
            finish(parser, sink);
        });
        let calls = result.calls.into_iter().filter(|call| whole.contains(&call.tool_index));
        let calls = calls.map(|call| FunctionCall { name: call.name.unwrap_or_default(), arguments: call.parameters });
        Ok((result.normal_text, calls.map(|function| ToolCall { function }).collect()))
    }

    async fn parse_incremental(&mut self, chunk: &str, _: &[Tool]) -> ParserResult<StreamingParseResult> {
        Ok(read(&mut self.parser, |parser, sink| parser.push(chunk, sink)).0)
    }

    fn has_tool_markers(&self, text: &str) -> bool {
        text.contains(kimi_xtml::Marker::Open.spelling())
    }

    /// What the end of the stream adds to the calls: the rest of a value that was held, never what would end a cut one.
    fn get_unstreamed_tool_args(&self) -> Option<Vec<ToolCallItem>> {
        let (result, _) = read(&mut self.parser.clone(), finish);
        (!result.calls.is_empty()).then_some(result.calls)
    }

    fn take_unstreamed_normal_text(&mut self) -> String {
        let ended = std::mem::take(self);
        read(&mut { ended.parser }, finish).0.normal_text
    }

    fn reset(&mut self) {
        *self = Calls::new();
    }
}
