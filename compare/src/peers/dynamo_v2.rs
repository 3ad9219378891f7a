//! dynamo-parsers-v2: one parser for reasoning, answer and calls.

use dynamo_parsers_v2::{
    Tool, UnifiedParserEvent, UnifiedParserExt, UnifiedParserInit, UnifiedParserStartingState,
    create_unified_parser_for_family,
};
use kimi_xtml::Channel;

use crate::heard::{Heard, Kind};
use crate::stream::Stream;

pub(crate) fn play(stream: &Stream, mut heard: Heard) -> Heard {
    match try_play(stream, &mut heard) {
        Ok(()) => heard,
        Err(error) => Heard { error: Some(error.to_string()), ..heard },
    }
}

fn try_play(stream: &Stream, heard: &mut Heard) -> anyhow::Result<()> {
    let tool = |name: &String| Tool {
        name: name.clone(),
        description: None,
        parameters: serde_json::json!({"type": "object", "properties": {}}),
        strict: None,
    };
    let tools: Vec<Tool> = stream.tools.iter().map(tool).collect();
    let mut parser = create_unified_parser_for_family("kimi_k3", &tools)?;
    parser.initialize_request(UnifiedParserInit {
        starting_state: match stream.opened {
            Some(Channel::Think) => UnifiedParserStartingState::Reasoning,
            Some(Channel::Response) => UnifiedParserStartingState::Response,
            _ => UnifiedParserStartingState::None,
        },
        ..UnifiedParserInit::default()
    })?;
    for (number, chunk) in stream.chunks.iter().enumerate() {
        say(heard, number, parser.push(chunk)?);
    }
    let end = if stream.reason == "stop" { parser.finish_at_eos()? } else { parser.finish()? };
    say(heard, stream.chunks.len(), end.events);
    Ok(())
}

fn say(heard: &mut Heard, chunk: usize, events: Vec<UnifiedParserEvent>) {
    for event in events {
        match event {
            UnifiedParserEvent::Text(text) => heard.say(chunk, Kind::Content, 0, text),
            UnifiedParserEvent::Reasoning(text) => heard.say(chunk, Kind::Reasoning, 0, text),
            UnifiedParserEvent::ToolCall(call) => {
                heard.say(chunk, Kind::Name, call.tool_index, call.name.unwrap_or_default());
                heard.say(chunk, Kind::Arguments, call.tool_index, call.arguments);
            }
            UnifiedParserEvent::MessageStart(_) | UnifiedParserEvent::MessageEnd => {}
        }
    }
}
