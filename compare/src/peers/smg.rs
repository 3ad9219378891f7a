//! reasoning-parser, then tool-parser where tools are declared.

use futures::executor::block_on;
use kimi_xtml::Channel;
use reasoning_parser::ReasoningParser;
use tool_parser::{StreamingParseResult, ToolParser};

use crate::heard::{Heard, Kind};
use crate::stream::Stream;

pub(crate) fn play(stream: &Stream, mut heard: Heard) -> Heard {
    match try_play(stream, &mut heard) {
        Ok(()) => heard,
        Err(error) => Heard { error: Some(error.to_string()), ..heard },
    }
}

fn try_play(stream: &Stream, heard: &mut Heard) -> anyhow::Result<()> {
    let mut reasoning = reasoning_parser::KimiK3Parser::new();
    if stream.opened == Some(Channel::Think) {
        reasoning.mark_reasoning_started();
        reasoning.mark_think_start_stripped();
    }
    let mut calls = tool_parser::KimiK3Parser::new();
    let tool = |name: &String| {
        let function = serde_json::json!({"name": name, "parameters": {"type": "object", "properties": {}}});
        serde_json::json!({"type": "function", "function": function})
    };
    let tools = serde_json::from_value::<Vec<_>>(stream.tools.iter().map(tool).collect())?;
    let mut normal = |heard: &mut Heard, chunk: usize, text: String| -> anyhow::Result<()> {
        if stream.tools.is_empty() {
            heard.say(chunk, Kind::Content, 0, text);
        } else if !text.is_empty() {
            say(heard, chunk, block_on(calls.parse_incremental(&text, &tools))?);
        }
        Ok(())
    };
    for (number, chunk) in stream.chunks.iter().enumerate() {
        let parsed = reasoning.parse_reasoning_streaming_incremental(chunk)?;
        heard.say(number, Kind::Reasoning, 0, parsed.reasoning_text);
        normal(heard, number, parsed.normal_text)?;
    }
    let end = stream.chunks.len();
    let parsed = reasoning.flush()?;
    heard.say(end, Kind::Reasoning, 0, parsed.reasoning_text);
    normal(heard, end, parsed.normal_text)?;
    if !stream.tools.is_empty() {
        let calls_left = calls.get_unstreamed_tool_args().unwrap_or_default();
        say(heard, end, StreamingParseResult { normal_text: String::new(), calls: calls_left });
        heard.say(end, Kind::Content, 0, calls.take_unstreamed_normal_text());
    }
    Ok(())
}

fn say(heard: &mut Heard, chunk: usize, result: StreamingParseResult) {
    heard.say(chunk, Kind::Content, 0, result.normal_text);
    for call in result.calls {
        heard.say(chunk, Kind::Name, call.tool_index, call.name.unwrap_or_default());
        heard.say(chunk, Kind::Arguments, call.tool_index, call.parameters);
    }
}
