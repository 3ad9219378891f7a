//! dynamo-parsers, two versions: the reasoning parser, then the jail, as its own serving stacks them.
//!
//! In: a stream, and how the stages are set up. Out: what the last stage said. Both versions have the same interface in
//! types of their own, so that one macro drives them.

/// How the stages are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Whether the jail is on without declared tools as well.
    pub(crate) jail: bool,
    /// Whether the reasoning parser is told of the end.
    pub(crate) flush: bool,
}

/// The first frame of a chat completions stream, from which the others are made.
const FRAME: &str = r#"{"id":"0","object":"chat.completion.chunk","created":0,"model":"k3","choices":[
    {"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null,"logprobs":null}]}"#;

macro_rules! version {
    ($version:ident, $package:ident, $protocols:ident) => {
        pub(crate) mod $version {
            use std::sync::Arc;
            use std::sync::atomic::{AtomicUsize, Ordering};

            use $package::ToolDefinition;
            use $package::jail::{Annotated, JailedStream};
            use $package::reasoning::{ParserResult, ReasoningParser, ReasoningParserType};
            use $protocols::types::{
                ChatCompletionMessageContent, CreateChatCompletionStreamResponse, FinishReason,
            };
            use futures::StreamExt;
            use kimi_xtml::Channel;

            use super::{FRAME, Setup};
            use crate::heard::{Heard, Kind};
            use crate::stream::Stream;

            type Frame = CreateChatCompletionStreamResponse;

            pub(crate) fn play(stream: &Stream, mut heard: Heard, setup: Setup) -> Heard {
                let frames = reasoned(stream, setup);
                if !setup.jail && stream.tools.is_empty() {
                    for (chunk, frame) in frames {
                        say(&mut heard, chunk, frame);
                    }
                    return heard;
                }
                let mut jail = JailedStream::builder().tool_call_parser("kimi_k3");
                if !stream.tools.is_empty() {
                    let tool = |name: &String| ToolDefinition {
                        name: name.clone(),
                        parameters: Some(serde_json::json!({"type": "object", "properties": {}})),
                        strict: None,
                    };
                    jail = jail.tool_definitions(stream.tools.iter().map(tool).collect());
                }
                let at = Arc::new(AtomicUsize::new(0));
                let pulled = Arc::clone(&at);
                let input = futures::stream::iter(frames).map(move |(chunk, frame)| {
                    pulled.store(chunk, Ordering::Relaxed);
                    Annotated { data: Some(frame), id: None, event: None, comment: None, error: None }
                });
                let output = jail.build().apply_with_finish_reason(input);
                futures::executor::block_on(async {
                    futures::pin_mut!(output);
                    while let Some(item) = output.next().await {
                        if let Some(error) = item.error {
                            heard.error.get_or_insert(error);
                        }
                        if let Some(frame) = item.data {
                            say(&mut heard, at.load(Ordering::Relaxed), frame);
                        }
                    }
                });
                heard
            }

            /// The frames after the reasoning parser, each with its chunk; the last one ends the stream.
            fn reasoned(stream: &Stream, setup: Setup) -> Vec<(usize, Frame)> {
                let first: Frame = serde_json::from_str(FRAME).expect("a frame of the documented form");
                let frame = |parsed: &ParserResult, reason| {
                    let mut frame = first.clone();
                    frame.choices[0].delta.content = parsed.get_some_normal_text().map(ChatCompletionMessageContent::Text);
                    frame.choices[0].delta.reasoning_content = parsed.get_some_reasoning();
                    frame.choices[0].finish_reason = reason;
                    frame
                };
                let mut parser = ReasoningParserType::get_reasoning_parser_from_name("kimi_k3");
                parser.set_in_reasoning(stream.opened == Some(Channel::Think));
                let mut frames = Vec::new();
                for (number, chunk) in stream.chunks.iter().enumerate() {
                    let ids = stream.ids.as_ref().map_or(&[][..], |ids| &ids[number]);
                    frames.push((number, frame(&parser.parse_reasoning_streaming_incremental(chunk, ids), None)));
                }
                let end = stream.chunks.len();
                if setup.flush {
                    frames.push((end, frame(&parser.finish_reasoning_stream(), None)));
                }
                let reason = match &*stream.reason {
                    "stop" => Some(FinishReason::Stop),
                    "length" => Some(FinishReason::Length),
                    // The interface has no other that fits: the stream just ends.
                    _ => None,
                };
                frames.push((end, frame(&ParserResult::default(), reason)));
                frames
            }

            fn say(heard: &mut Heard, chunk: usize, frame: Frame) {
                for choice in frame.choices {
                    heard.say(chunk, Kind::Reasoning, 0, choice.delta.reasoning_content.unwrap_or_default());
                    if let Some(ChatCompletionMessageContent::Text(text)) = choice.delta.content {
                        heard.say(chunk, Kind::Content, 0, text);
                    }
                    for call in choice.delta.tool_calls.into_iter().flatten() {
                        let (index, function) = (call.index as usize, call.function);
                        let (name, arguments) = function.map_or((None, None), |it| (it.name, it.arguments));
                        heard.say(chunk, Kind::Name, index, name.unwrap_or_default());
                        heard.say(chunk, Kind::Arguments, index, arguments.unwrap_or_default());
                    }
                }
            }
        }
    };
}

version!(v7, dynamo_parsers_v7, dynamo_protocols_v5);
version!(v11, dynamo_parsers, dynamo_protocols);
