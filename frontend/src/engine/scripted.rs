//! The engine that needs no model: it replays recorded streams, or writes a plausible turn.
//!
//! In: a [`Job`]. Out: a turn, rendered as Kimi K3 generates it, cut into tokens and streamed at a settable pace. Held:
//! the recorded streams; for a generation, the tokens that have not gone out.
//! Without records it calls the tools that the user names (or any, if it must), with arguments that their schemas
//! take; says what a tool said; writes JSON where a schema asks for it; and otherwise repeats the user's words.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kimi_xtml::{Message, ToolCall, ToolChoice, render_pieces};
use tokio::time::{Instant, sleep_until};

use super::replay::{self, Replay};
use super::{Chunk, Engine, EngineError, Generation, Job, Step, Tool, schema, tokens};

/// The engine, and its pace.
#[derive(Debug)]
pub struct Scripted {
    /// Recorded streams. If there are some, every request gets one of them.
    pub replay: Replay,
    /// Tokens a second of each choice; none: as fast as they are taken.
    pub rate: Option<f64>,
    /// Token deltas that go out in one step.
    pub group: NonZeroUsize,
}

impl Default for Scripted {
    fn default() -> Self {
        Scripted { replay: Replay::default(), rate: None, group: NonZeroUsize::MIN }
    }
}

impl Engine for Scripted {
    fn start(&self, job: Arc<Job>, choice: usize) -> BoxFuture<'_, Result<Generation, EngineError>> {
        Box::pin(async move {
            let (opened, mut chunks, mut reason) = if self.replay.is_empty() {
                let opened = Some(job.opens());
                let turn = turn(&job, choice)?;
                let pieces = render_pieces(&turn, opened).map_err(|error| EngineError::Failed(error.to_string()))?;
                let written =
                    tokens::of_pieces(&pieces).into_iter().map(|token| written(token, job.logprobs)).collect();
                (opened, written, "stop".to_owned())
            } else {
                let case = self.replay.find(job.last_user());
                let reason = case.context.engine_finish_reason.clone();
                (replay::opened(case), replay::chunks(case, choice, job.logprobs), reason)
            };
            if let Some(max) = job.max_tokens.filter(|&max| max < count(&chunks)) {
                cut(&mut chunks, max);
                reason = "length".into();
            }
            let costs: Vec<u64> = job.messages.iter().map(|message| tokens::count(&message.text) + 4).collect();
            let said = job.messages.iter().rposition(|message| message.role == "assistant").unwrap_or(0);
            Ok(Generation {
                prompt_tokens: costs.iter().sum(),
                cached_tokens: costs[..said].iter().sum(),
                opened,
                steps: Box::pin(paced(chunks, reason, self.group, self.rate)),
            })
        })
    }
}

/// Streams the deltas, `group` of them a step, at `rate` tokens a second.
fn paced(
    chunks: Vec<Chunk>,
    reason: String,
    group: NonZeroUsize,
    rate: Option<f64>,
) -> impl futures_util::Stream<Item = Result<Step, EngineError>> {
    async_stream::stream! {
        let started = Instant::now();
        let mut sent = 0;
        let mut chunks = chunks.into_iter();
        loop {
            let step: Vec<Chunk> = chunks.by_ref().take(group.get()).collect();
            let end = chunks.as_slice().is_empty().then(|| reason.clone());
            sent += count(&step);
            if let Some(rate) = rate {
                sleep_until(started + Duration::from_secs_f64(sent as f64 / rate)).await;
            } else {
                tokio::task::consume_budget().await;
            }
            let done = end.is_some();
            yield Ok(Step { chunks: step, end });
            if done {
                break;
            }
        }
    }
}

fn written(token: tokens::Token, top: Option<usize>) -> Chunk {
    let logprobs = top.map(|top| replay::logprob(token.id, &token.bytes, top));
    Chunk::Tokens { ids: vec![token.id], text: token.text, logprobs: logprobs.into_iter().collect() }
}

/// The tokens of deltas; one without ids counts as one.
fn count(chunks: &[Chunk]) -> u64 {
    chunks.iter().map(|chunk| if let Chunk::Tokens { ids, .. } = chunk { ids.len() as u64 } else { 1 }).sum()
}

/// Cuts the deltas after the first `max` tokens; a delta of several tokens that would go beyond goes whole.
fn cut(chunks: &mut Vec<Chunk>, max: u64) {
    let mut tokens = 0;
    chunks.retain(|chunk| {
        tokens += count(std::slice::from_ref(chunk));
        tokens <= max
    });
}

/// What the model says.
fn turn(job: &Job, choice: usize) -> Result<Message, EngineError> {
    let words = job.last_user();
    let seed = words.bytes().fold(choice as u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let reasoning = |text: String| if job.thinking { text } else { String::new() };
    let tools = called(job);
    if !tools.is_empty() {
        let calls = (0..).zip(tools).map(|(call, tool)| {
            let arguments = schema::value(&tool.parameters, seed.wrapping_add(call))
                .map_err(|error| EngineError::Refused(format!("tools: no arguments for `{}`: {error}", tool.name)))?;
            let arguments = arguments.to_string();
            Ok(ToolCall::new(&tool.name, arguments))
        });
        let calls = calls.collect::<Result<Vec<_>, EngineError>>()?;
        let names: Vec<_> = calls.iter().map(|call| &*call.name).collect();
        let reasoning = reasoning(format!("The user needs {}. I will call it.", names.join(" and ")));
        return Ok(Message::of(reasoning, "", calls));
    }
    let content = match (&job.schema, job.messages.last()) {
        (Some(schema), _) => {
            let value = schema::value(schema, seed);
            value.map_err(|error| EngineError::Refused(format!("response_format: {error}")))?.to_string()
        }
        (None, Some(last)) if last.role == "tool" => format!("The tool says: {}", last.text),
        _ if choice > 0 => format!("{words} ({})", choice + 1),
        _ => words.to_owned(),
    };
    Ok(Message::of(reasoning("The user said something. I will repeat it.".into()), content, Vec::new()))
}

/// The tools that are called in this turn.
fn called(job: &Job) -> Vec<&Tool> {
    let answered = job.messages.last().is_some_and(|last| last.role == "tool");
    let words = job.last_user();
    let named = || job.tools.iter().filter(|tool| words.contains(&tool.name));
    let mut tools: Vec<&Tool> = match &job.tool_choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Named(name) => job.tools.iter().filter(|tool| tool.name == *name).collect(),
        ToolChoice::Required if named().next().is_none() => job.tools.iter().take(1).collect(),
        ToolChoice::Required => named().collect(),
        ToolChoice::Auto if answered => Vec::new(),
        ToolChoice::Auto if words.contains("tool") && named().next().is_none() => job.tools.iter().take(1).collect(),
        ToolChoice::Auto => named().collect(),
    };
    if words.contains("in parallel") && tools.len() == 1 {
        tools.push(tools[0]);
    }
    if !job.parallel {
        tools.truncate(1);
    }
    tools
}
