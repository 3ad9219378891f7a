//! The engine that needs no model: it replays recorded streams, or writes a plausible turn.
//!
//! In: a [`Job`]. Out: a turn, rendered as Kimi K3 generates it, cut into tokens and streamed at a settable pace. Held:
//! the recorded streams; for a request, one turn that all its choices say, each token made when it is asked for.
//! Without records it calls the tools that the user names (or any, if it must), with arguments that their schemas
//! take; says what a tool said; writes JSON where a schema asks for it; and otherwise repeats the user's words. What the
//! user says is all that was said since the assistant's last turn: agents add reminders to it.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aho_corasick::{AhoCorasick, MatchKind};
use futures_util::future::BoxFuture;
use kimi_xtml::{Channel, Message, Piece, ToolCall, ToolChoice, render_pieces};
use kimi_xtml_cli::cases::Case;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use super::replay::{self, Replay};
use super::schema::{self, Budget};
use super::tokens::{self, Token};
use super::{Chunk, Engine, EngineError, Generation, Job, Step, Tool};

/// Turns that are written at the same time, each on a thread of its own.
const WRITERS: usize = 2;
/// The longest schema that values are made up for, in bytes.
const LONGEST_SCHEMA: usize = 256 << 10;

/// The engine, and its pace.
#[derive(Debug)]
pub struct Scripted {
    /// Recorded streams. If there are some, every request gets one of them.
    pub replay: Replay,
    /// Tokens a second of each choice; none: as fast as they are taken.
    pub rate: Option<f64>,
    /// Token deltas that go out in one step.
    pub group: NonZeroUsize,
    /// Lets a few turns be written at the same time.
    pub writers: Arc<Semaphore>,
}

impl Default for Scripted {
    fn default() -> Self {
        let writers = Arc::new(Semaphore::new(WRITERS));
        Scripted { replay: Replay::default(), rate: None, group: NonZeroUsize::MIN, writers }
    }
}

impl Engine for Scripted {
    fn start(&self, job: Job, choices: usize) -> BoxFuture<'_, Result<Vec<Generation>, EngineError>> {
        Box::pin(async move {
            let (tokens, repeated) = (job.prompt.tokens, job.prompt.repeated);
            let (max, logprobs) = (job.max_tokens.unwrap_or(u64::MAX), job.logprobs);
            let (opened, reason, script) = if self.replay.is_empty() {
                (job.prompt.opened, "stop".into(), Script::Written(self.write(job, choices).await?))
            } else {
                let case = self.replay.find(&job.said);
                (replay::opened(&case), case.context.engine_finish_reason.clone(), Script::Recorded(case))
            };
            let generation = |choice| Generation {
                prompt_tokens: tokens,
                cached_tokens: repeated,
                counted: true,
                opened,
                steps: Box::pin(paced(script.clone(), choice, logprobs, max, reason.clone(), self.group, self.rate)),
            };
            Ok((0..choices).map(generation).collect())
        })
    }
}

impl Scripted {
    /// Writes the turn, away from the threads that serve, and no longer than its client waits.
    async fn write(&self, job: Job, choices: usize) -> Result<Arc<Written>, EngineError> {
        let gone = |_| EngineError::Failed("the scripted engine is shutting down".into());
        let permit = self.writers.clone().acquire_owned().await.map_err(gone)?;
        let left = Left::default();
        let mut budget = Budget::new(left.0.clone());
        let written = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            Written::new(job, choices, &mut budget)
        });
        written
            .await
            .map_err(|error| EngineError::Failed(format!("the scripted engine failed: {error}")))?
            .map(Arc::new)
    }
}

/// Says when it is dropped that nobody waits any more.
#[derive(Default)]
struct Left(Arc<AtomicBool>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What is said.
#[derive(Clone)]
enum Script {
    Recorded(Arc<Case>),
    Written(Arc<Written>),
}

impl Script {
    fn chunks(&self, choice: usize, logprobs: Option<usize>) -> Box<dyn Iterator<Item = Chunk> + Send + '_> {
        match self {
            Script::Recorded(case) => Box::new(replay::chunks(case, choice, logprobs)),
            Script::Written(turn) => Box::new(turn.tokens(choice).map(move |token| chunk(token, logprobs))),
        }
    }
}

/// Streams the deltas, `group` of them a step, at `rate` tokens a second, at most `max` tokens. A delta of several tokens
/// that would go beyond does not go.
fn paced(
    script: Script,
    choice: usize,
    logprobs: Option<usize>,
    max: u64,
    reason: String,
    group: NonZeroUsize,
    rate: Option<f64>,
) -> impl futures_util::Stream<Item = Result<Step, EngineError>> {
    async_stream::stream! {
        let started = Instant::now();
        let mut sent = 0;
        let mut chunks = script.chunks(choice, logprobs).peekable();
        loop {
            let mut step = Vec::with_capacity(group.get());
            while step.len() < group.get() && let Some(chunk) = chunks.next_if(|chunk| sent + count(chunk) <= max) {
                sent += count(&chunk);
                step.push(chunk);
            }
            let end = match chunks.peek() {
                None => Some(reason.clone()),
                Some(next) => (sent + count(next) > max).then(|| "length".to_owned()),
            };
            if let Some(rate) = rate {
                sleep_until(started + Duration::from_secs_f64(sent as f64 / rate)).await;
            } else {
                tokio::task::consume_budget().await;
            }
            let done = end.is_some();
            yield Ok(Step { chunks: step, end, usage: None });
            if done {
                break;
            }
        }
    }
}

fn chunk(token: Token<'_>, top: Option<usize>) -> Chunk {
    let logprobs = top.map(|top| replay::logprob(token.id, token.bytes, top));
    Chunk::Tokens { ids: vec![token.id], text: token.text.into(), logprobs: logprobs.into_iter().collect() }
}

/// The tokens of a delta; one without ids counts as one.
fn count(chunk: &Chunk) -> u64 {
    if let Chunk::Tokens { ids, .. } = chunk { ids.len() as u64 } else { 1 }
}

/// A turn that was written.
struct Written {
    pieces: Vec<Piece<'static>>,
    /// The number of the piece after which a further choice says which one it is, and how each says it.
    echo: usize,
    which: Vec<String>,
}

impl Written {
    fn new(mut job: Job, choices: usize, budget: &mut Budget) -> Result<Self, EngineError> {
        let opened = job.prompt.opened;
        let (message, echoes) = turn(&mut job, opened == Some(Channel::Think), budget)?;
        let pieces = render_pieces(&message, opened).map_err(|error| EngineError::Failed(error.to_string()))?;
        let echo = |piece: &Piece<'_>| matches!(piece, Piece::Text(said) if **said == message.content);
        let echo = pieces.iter().rposition(echo).filter(|_| echoes);
        let numbers = 2..=if echo.is_some() { choices } else { 1 };
        Ok(Written {
            echo: echo.map_or(0, |echo| echo + 1),
            which: numbers.map(|number| format!(" ({number})")).collect(),
            pieces: pieces.into_iter().map(Piece::into_owned).collect(),
        })
    }

    fn tokens(&self, choice: usize) -> impl Iterator<Item = Token<'_>> {
        let (before, after) = self.pieces.split_at(self.echo);
        let which = choice.checked_sub(1).and_then(|choice| self.which.get(choice));
        let which = tokens::of_text(which.map_or("", String::as_str));
        before.iter().flat_map(tokens::of_piece).chain(which).chain(after.iter().flat_map(tokens::of_piece))
    }
}

/// What the model says, and whether it repeats the user.
fn turn(job: &mut Job, thinks: bool, budget: &mut Budget) -> Result<(Message, bool), EngineError> {
    let seed = job.said.user.iter().flat_map(|words| words.bytes());
    let seed = seed.fold(0_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let reasoning = |text: String| if thinks { text } else { String::new() };
    let tools = called(job);
    if !tools.is_empty() {
        let mut calls = Vec::new();
        for (call, tool) in (0..).zip(tools) {
            let arguments = match &tool.parameters {
                None => "{}".to_owned(),
                Some(schema) => made_up(schema, seed.wrapping_add(call), budget)
                    .map_err(|why| EngineError::Refused(format!("tools: no arguments for `{}`: {why}", tool.name)))?,
            };
            calls.push(ToolCall::new(&tool.name, arguments));
        }
        let names: Vec<_> = calls.iter().map(|call| &*call.name).collect();
        let reasoning = reasoning(format!("The user needs {}. I will call it.", names.join(" and ")));
        return Ok((Message::of(reasoning, "", calls), false));
    }
    let (content, echoes) = match (&job.schema, job.said.result.take()) {
        (Some(schema), _) => {
            let value = made_up(schema, seed, budget);
            (value.map_err(|why| EngineError::Refused(format!("response_format: {why}")))?, false)
        }
        (None, Some(result)) => (format!("The tool says: {result}"), false),
        (None, None) => match std::mem::take(&mut job.said.user) {
            words if words.len() == 1 => (words.concat(), true),
            words => (words.join("\n"), true),
        },
    };
    let reasoning = reasoning("The user said something. I will repeat it.".into());
    Ok((Message::of(reasoning, content, Vec::new()), echoes))
}

/// A value that a schema takes, as JSON.
fn made_up(schema: &RawValue, seed: u64, budget: &mut Budget) -> Result<String, String> {
    if schema.get().len() > LONGEST_SCHEMA {
        return Err(format!("its schema is longer than {LONGEST_SCHEMA} bytes"));
    }
    let schema: Value = serde_json::from_str(schema.get()).map_err(|error| error.to_string())?;
    schema::value(&schema, seed, budget).map(|value| value.to_string()).map_err(|error| error.to_string())
}

/// The tools that are called in this turn.
fn called(job: &Job) -> Vec<&Tool> {
    let says = |word: &str| job.said.user.iter().any(|words| words.contains(word));
    let named = named(job);
    let mut tools: Vec<&Tool> = match &job.tool_choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Named(name) => job.tools.iter().filter(|tool| tool.name == *name).collect(),
        ToolChoice::Required if named.is_empty() => job.tools.iter().take(1).collect(),
        ToolChoice::Required => named,
        ToolChoice::Auto if job.said.result.is_some() => Vec::new(),
        ToolChoice::Auto if named.is_empty() && says("tool") => job.tools.iter().take(1).collect(),
        ToolChoice::Auto => named,
    };
    if says("in parallel") && tools.len() == 1 {
        tools.push(tools[0]);
    }
    if !job.parallel {
        tools.truncate(1);
    }
    tools
}

/// The tools whose names the user says, in the order of their declaration. All names are looked for at once.
fn named(job: &Job) -> Vec<&Tool> {
    let names = job.tools.iter().map(|tool| &tool.name);
    let Ok(names) = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(names) else {
        return Vec::new(); // more names than an automaton can have
    };
    let found = job.said.user.iter().flat_map(|words| names.find_iter(words)).map(|name| name.pattern().as_usize());
    let said: BTreeSet<usize> = found.collect();
    said.into_iter().map(|tool| &job.tools[tool]).collect()
}
