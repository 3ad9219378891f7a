//! Dynamo's trait, by kimi-xtml's parser.
//!
//! In: a request's start, and deltas as text or as ids. Out: reasoning, text and calls as they arrive; a call that is whole is
//! told by its last delta. Held: the parser, bytes of a character whose ids have not all come, and each call's id.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use dynamo_parsers_v2::{
    ArgumentFraming, MalformedToolCall, MalformedToolCallPolicy, ToolCallDelta, ToolCallPolicy, UnifiedParser,
    UnifiedParserContinuation, UnifiedParserEvent, UnifiedParserInit, UnifiedParserInputCapabilities,
    UnifiedParserOutput, UnifiedParserStartingState, UnifiedToolOutputMode,
};
use kimi_xtml::{Channel, Event, Marker, Parser, Request, Sink, Span, opened_by_prompt_ids};
use kimi_xtml_tokenizer::Tokenizer;

use crate::guided::Guided;

/// A stream's parser, as Dynamo drives it.
#[derive(Clone, Debug)]
pub struct KimiK3 {
    tokenizer: Option<Arc<Tokenizer>>,
    request: Request,
    parser: Parser,
    guided: Option<Guided>,
    malformed: MalformedToolCallPolicy,
    /// Bytes of a character that is not whole.
    bytes: Vec<u8>,
    ids: Vec<String>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    Reading,
    Finished,
}

impl KimiK3 {
    /// A parser of one stream; with a tokenizer it takes ids too.
    pub fn new(tokenizer: Option<Arc<Tokenizer>>) -> Self {
        // Dynamo's parsers tell what was said; whether a call was asked for is for the layer around them.
        let request = Request::new().tools([""]);
        KimiK3 {
            tokenizer,
            parser: Parser::new(request.clone()),
            request,
            guided: None,
            malformed: MalformedToolCallPolicy::default(),
            bytes: Vec::new(),
            ids: Vec::new(),
            phase: Phase::New,
        }
    }

    fn begin(&mut self) -> Result<()> {
        ensure!(self.phase != Phase::Finished, "a finished parser takes no more: reset it, or create another");
        self.phase = Phase::Reading;
        Ok(())
    }

    /// Does a step of the parser, and gives on what comes of it.
    fn step(&mut self, output: &mut UnifiedParserOutput, step: impl FnOnce(&mut Parser, &mut dyn Sink)) -> Result<()> {
        let mut said = Said { output, guided: self.guided.as_mut(), ids: &mut self.ids, cut: false };
        step(&mut self.parser, &mut said);
        if said.cut && self.malformed == MalformedToolCallPolicy::Reject {
            bail!(MalformedToolCall { reason: "the call is not whole, and must not be run" });
        }
        Ok(())
    }

    fn end(&mut self, by_itself: bool) -> Result<UnifiedParserOutput> {
        self.begin()?;
        self.phase = Phase::Finished;
        let mut output = UnifiedParserOutput::default();
        let cut = !std::mem::take(&mut self.bytes).is_empty();
        self.step(&mut output, |parser, sink| {
            if cut {
                parser.push_text("\u{fffd}", sink);
            }
            if by_itself {
                // The engine took the text of the token that ended the message away.
                parser.push_marker(Marker::EndOfMsg, sink);
            }
            parser.finish("stop", sink);
        })?;
        if let Some(guided) = &mut self.guided {
            guided.finish(&mut output)?;
        }
        Ok(output)
    }
}

impl UnifiedParser for KimiK3 {
    fn continuation(&mut self) -> Result<Option<Box<dyn UnifiedParserContinuation>>> {
        ensure!(self.phase != Phase::Finished, "a finished parser has no continuation");
        Ok(Some(Box::new(Continuation(self.clone()))))
    }

    fn input_capabilities(&self) -> UnifiedParserInputCapabilities {
        UnifiedParserInputCapabilities { text: true, token_ids: self.tokenizer.is_some() }
    }

    fn initialize_request(&mut self, init: UnifiedParserInit) -> Result<()> {
        ensure!(self.phase == Phase::New, "a parser is initialized before it reads: reset it, or create another");
        let opened = match init.starting_state {
            UnifiedParserStartingState::Reasoning => Some(Channel::Think),
            UnifiedParserStartingState::Response => Some(Channel::Response),
            UnifiedParserStartingState::None => opened_by_prompt_ids(&init.prompt_token_ids),
        };
        self.guided = match init.tool_output_mode {
            UnifiedToolOutputMode::Native => None,
            UnifiedToolOutputMode::GuidedJson { named_tool } => {
                Some(Guided::new(named_tool, init.invalid_guided_payload))
            }
        };
        // Where calls come as bare JSON, what looks like a native one is text of it.
        let tools = if self.guided.is_some() { &[][..] } else { &[""] };
        self.request = Request::new().opened(opened).tools(tools.iter().copied());
        self.parser.reset(self.request.clone());
        Ok(())
    }

    fn set_tool_call_policy(&mut self, policy: ToolCallPolicy) -> Result<()> {
        ensure!(self.phase == Phase::New, "the policy is set before the parser reads: reset it, or create another");
        if policy.argument_framing != ArgumentFraming::Lenient {
            bail!(
                "kimi_k3 tells where a value ends by its tag's `type` and what follows: argument_framing must be Lenient"
            );
        }
        self.malformed = policy.malformed;
        Ok(())
    }

    fn parse_into(&mut self, delta: &str, output: &mut UnifiedParserOutput) -> Result<()> {
        self.begin()?;
        self.step(output, |parser, sink| parser.push(delta, sink))
    }

    fn parse_token_ids_into(&mut self, ids: &[u32], output: &mut UnifiedParserOutput) -> Result<()> {
        self.begin()?;
        let tokenizer = self.tokenizer.clone();
        let tokenizer =
            tokenizer.context("no tokenizer was given to `register`, so that this parser takes text alone")?;
        for &id in ids {
            if Marker::from_id(id).is_none() {
                self.bytes.extend(tokenizer.token(id).with_context(|| format!("{id} is the id of no token"))?);
            }
            let text = whole_characters(&mut self.bytes);
            self.step(output, |parser, sink| parser.push_token(&text, id, sink))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<UnifiedParserOutput> {
        self.end(false)
    }

    fn finish_at_eos(&mut self) -> Result<UnifiedParserOutput> {
        self.end(true)
    }

    fn reset(&mut self) -> String {
        let held = self.guided.as_mut().map(Guided::reset).unwrap_or_default() + &self.parser.held();
        self.parser.reset(self.request.clone());
        self.bytes.clear();
        self.ids.clear();
        self.phase = Phase::New;
        held
    }

    fn preserve_special_tokens(&self) -> bool {
        true
    }

    /// `name:ordinal`, from 0 on. The `index` that the model writes is no part of kimi-xtml's events; models number calls
    /// in their order, and a number that came twice would make an id that is not unique.
    fn tool_call_id(&self, tool_index: usize) -> Option<&str> {
        self.ids.get(tool_index).map(String::as_str)
    }
}

/// Takes the whole characters; bytes that are no UTF-8 become U+FFFD.
fn whole_characters(bytes: &mut Vec<u8>) -> String {
    let cut = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
        // Only the last character can be cut: what is no UTF-8 before it is replaced.
        Err(_) => bytes.utf8_chunks().last().map_or(0, |chunk| cut_len(chunk.invalid())),
        Ok(_) => 0,
    };
    let rest = bytes.split_off(bytes.len() - cut);
    let text = String::from_utf8_lossy(bytes).into_owned();
    *bytes = rest;
    text
}

/// How many bytes these are, if more could make them a character.
fn cut_len(bytes: &[u8]) -> usize {
    let is_cut = std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none());
    if is_cut { bytes.len() } else { 0 }
}

struct Continuation(KimiK3);

impl UnifiedParserContinuation for Continuation {
    fn fork(&self) -> Result<Box<dyn UnifiedParser>> {
        Ok(Box::new(self.0.clone()))
    }
}

/// Takes events into Dynamo's output.
struct Said<'a> {
    output: &'a mut UnifiedParserOutput,
    guided: Option<&'a mut Guided>,
    ids: &'a mut Vec<String>,
    /// Whether a call ended that is not whole.
    cut: bool,
}

impl Said<'_> {
    fn call(&mut self, tool_index: usize, name: Option<&str>, arguments: &str, complete: bool) {
        if let Some(UnifiedParserEvent::ToolCall(last)) = self.output.events.last_mut()
            && last.tool_index == tool_index
            && name.is_none()
        {
            last.arguments += arguments;
            last.complete |= complete;
            return;
        }
        let (name, arguments) = (name.map(str::to_owned), arguments.to_owned());
        self.output.push_call(ToolCallDelta { tool_index, name, arguments, complete });
    }
}

impl Sink for Said<'_> {
    fn reasoning(&mut self, text: &str, _: Span) {
        self.output.push_reasoning(text);
    }

    fn call_start(&mut self, call: usize, name: &str, _: Span) {
        self.ids.push(format!("{name}:{call}"));
        self.call(call, Some(name), "", false);
    }

    fn arguments(&mut self, call: usize, json: &str, _: Span) {
        self.call(call, None, json, false);
    }

    fn call_end(&mut self, call: usize, complete: bool, _: Span) {
        self.cut |= !complete;
        if complete {
            self.call(call, None, "", true);
        }
    }

    fn content(&mut self, text: &str, _: Span) {
        match &mut self.guided {
            Some(guided) => guided.take(text, self.output),
            None => self.output.push_text(text),
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span) {
        match event {
            Event::Reasoning(text) => self.reasoning(text, span),
            // Withheld is a native section where bare JSON was promised: it is judged with it.
            Event::Content(text) | Event::Withheld(text) => self.content(text, span),
            Event::CallStart { call, name } => self.call_start(call, name, span),
            Event::CallEnd { call, json, complete } => {
                self.arguments(call, json, span.clone());
                self.call_end(call, complete, span);
            }
            _ => {
                if let Some((call, json)) = event.json().filter(|(_, json)| !json.is_empty()) {
                    self.arguments(call, json, span);
                }
            }
        }
    }
}
