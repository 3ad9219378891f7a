//! Recordings: messages rendered to the streams that the model would generate for them, cut as engines cut.
//!
//! In: a [`Turn`], a message and its request. Out: a [`Record`] in the form of `corpora/`, with what must come of it; that
//! follows from the message, never from parsing the stream. The same seed gives the same records on every machine.

pub mod capture;
pub mod chat;
mod expect;
pub mod gsm8k;
mod python;
mod schema;
mod tokens;
pub mod toolcalls;
pub mod vary;

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::Path;
use std::str::FromStr;

use kimi_xtml::{Message, render_pieces};
use serde::Serialize;

pub use crate::record::chat::respelled;
pub use crate::record::tokens::{Cutter, Token};
pub use crate::record::vary::Variation;
use anyhow::Context as _;

use crate::cases::{Case, Choice, Context, Expected, ExpectedCall, Opened};
use crate::record::expect::expected_of_tokens;

/// The bytes of a file; `-` is the standard input.
fn bytes(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = match crate::cases::is_stdin(file) {
        true => io::stdin().lock().read_to_end(&mut bytes),
        false => File::open(file).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("cannot read {}", crate::cases::name(file)))?;
    Ok(bytes)
}

/// What the ids of a file's records begin with: its name, or `other` for the standard input.
fn stem<'a>(file: &'a Path, other: &'a str) -> Cow<'a, str> {
    file.file_stem().filter(|stem| *stem != "-").map_or(other.into(), |stem| stem.to_string_lossy())
}

/// A message and the request that it answers.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// Names the turn.
    pub id: String,
    /// What it is about, in a few words with hyphens.
    pub kind: String,
    /// The user's question.
    pub user: Option<String>,
    /// What the model says.
    pub message: Message,
    /// The declared tools.
    pub tools: Vec<String>,
    /// `none` turns tool parsing off.
    pub tool_choice: Option<Choice>,
    /// Whether a marker that a text quotes could be taken for a real one where only text is known.
    pub identity: bool,
}

/// The settings under which a turn is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What the prompt left open.
    pub opened: Opened,
    /// Whether the turn's tools are declared.
    pub declared: bool,
    /// Tokens in a delta.
    pub grouping: Grouping,
    /// What provokes parsers.
    pub variation: Variation,
    /// Tokens after which the engine's limit cuts the stream.
    pub limit: Option<NonZeroUsize>,
}

/// How many tokens one delta has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grouping {
    /// So many.
    Fixed(NonZeroUsize),
    /// From 1 to 16, by the seed.
    Random,
    /// All of them.
    Whole,
}

impl Grouping {
    /// What engines do: one token, stream intervals and speculative decoding of several sizes.
    pub fn usual() -> Vec<Grouping> {
        let fixed = [1, 2, 4, 8, 16].into_iter().filter_map(NonZeroUsize::new).map(Grouping::Fixed);
        fixed.chain([Grouping::Random]).collect()
    }
}

impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grouping::Fixed(tokens) => write!(f, "{tokens}"),
            Grouping::Random => f.write_str("random"),
            Grouping::Whole => f.write_str("whole"),
        }
    }
}

impl FromStr for Grouping {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, &'static str> {
        match word {
            "random" => Ok(Grouping::Random),
            "whole" => Ok(Grouping::Whole),
            number => number.parse().map(Grouping::Fixed).map_err(|_| "a number of tokens from 1 on, random or whole"),
        }
    }
}

/// A recorded stream: a [`Case`] and where it came from.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// The file that it belongs to.
    pub family: String,
    /// Where its text came from, in words.
    pub origin: String,
    /// The user's question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Tokens in a delta.
    pub grouping: String,
    /// The case.
    #[serde(flatten)]
    pub case: Case,
}

/// Makes records.
#[derive(Debug)]
pub struct Recorder {
    /// Cuts text into tokens.
    pub cutter: Cutter,
    /// Decides everything that is left to chance, together with the turn's id.
    pub seed: u64,
}

impl Recorder {
    /// Records a turn.
    ///
    /// # Errors
    /// If the format has no form for the message, or an id is missing.
    pub fn record(&self, turn: &Turn, setting: Setting) -> anyhow::Result<Case> {
        let tokens = self.tokens(turn, setting)?;
        Ok(self.group(turn, setting, &tokens))
    }

    /// The tokens of a turn, under the settings but for the grouping.
    ///
    /// # Errors
    /// If the format has no form for the message.
    pub fn tokens(&self, turn: &Turn, setting: Setting) -> anyhow::Result<Tokens> {
        let mut random = self.random(&turn.id, "text");
        let message = message_of(turn, setting, &mut random);
        let mut pieces = render_pieces(&message, setting.opened.channel())?;
        setting.variation.pieces(&mut pieces);
        let mut tokens = self.cutter.cut(&pieces, &mut self.random(&turn.id, "tokens"));
        let limit = setting.limit.map_or(usize::MAX, NonZeroUsize::get);
        let is_cut = limit < tokens.len();
        tokens.truncate(limit);
        let expected = if is_cut {
            expected_of_tokens(&tokens, setting.opened)
        } else {
            Expected {
                reasoning: message.reasoning,
                content: message.content,
                tool_calls: message.tool_calls.into_iter().map(call).collect(),
                finish_reason: None,
            }
        };
        Ok(Tokens { tokens, expected, is_cut })
    }

    /// The record of tokens, cut into deltas.
    pub fn group(&self, turn: &Turn, setting: Setting, tokens: &Tokens) -> Case {
        let Tokens { tokens, expected, is_cut } = tokens;
        let mut random = self.random(&turn.id, "groups");
        let mut deltas = Vec::new();
        let mut rest = &tokens[..];
        while !rest.is_empty() {
            let wanted = match setting.grouping {
                Grouping::Fixed(count) => count.get(),
                Grouping::Random => random.usize(1..=16),
                Grouping::Whole => rest.len(),
            };
            let (delta, after) = rest.split_at(wanted.min(rest.len()));
            deltas.push(delta);
            rest = after;
        }
        let has_ids = tokens.iter().all(|token| token.id.is_some());
        let ids = |delta: &&[Token]| delta.iter().filter_map(|token| token.id).collect();

        let tools = if setting.declared { turn.tools.clone() } else { Vec::new() };
        let choice = turn.tool_choice.clone().unwrap_or_else(|| Choice::Word("auto".into()));
        let engine = if *is_cut { "length" } else { "stop" };
        let context = Context {
            tools,
            tool_choice: choice,
            initial_channel: setting.opened,
            engine_finish_reason: engine.into(),
        };
        let mut results = vec![expected.clone()];
        if !expected.tool_calls.is_empty() && !context.request().engages_tools() {
            results.insert(0, Expected { tool_calls: Vec::new(), ..expected.clone() });
        }
        for result in &mut results {
            let called = engine == "stop" && result.tool_calls.iter().any(|call| call.complete);
            result.finish_reason = Some(if called { "tool_calls" } else { engine }.into());
        }
        let mut results = results.into_iter();
        let marked = if setting.declared || turn.tools.is_empty() { "" } else { "-undeclared" };
        let varied = match setting.variation {
            Variation::Plain => String::new(),
            variation => format!("-{variation}"),
        };
        let cut = setting.limit.map_or(String::new(), |limit| format!("-cut{limit}"));
        let opened = match setting.opened {
            Opened::Think => "t",
            Opened::Response => "r",
            Opened::Tools => "c",
            Opened::None => "n",
        };
        Case {
            id: format!("{}-{opened}{}{marked}{varied}{cut}", turn.id, setting.grouping),
            kind: turn.kind.clone(),
            context,
            chunks: Some(deltas.iter().map(|delta| delta.iter().map(|token| &*token.text).collect()).collect()),
            ids: has_ids.then(|| deltas.iter().map(ids).collect()),
            identity: turn.identity && has_ids,
            expected: results.next(),
            alternatives: results.collect(),
            ..Case::default()
        }
    }

    /// Chance for one purpose: the seed, the turn, the purpose.
    pub fn random(&self, id: &str, purpose: &str) -> fastrand::Rng {
        // FNV-1a: the same on every machine.
        let bytes = self.seed.to_le_bytes().into_iter().chain(id.bytes()).chain([0]).chain(purpose.bytes());
        let hash =
            bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        fastrand::Rng::with_seed(hash)
    }
}

/// A turn's tokens, and what must come of them.
#[derive(Clone, Debug)]
pub struct Tokens {
    tokens: Vec<Token>,
    expected: Expected,
    is_cut: bool,
}

impl Tokens {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

/// What is said under these settings: without thinking there is no reasoning.
fn message_of(turn: &Turn, setting: Setting, random: &mut fastrand::Rng) -> Message {
    let mut message = turn.message.clone();
    if setting.opened == Opened::Response {
        message.reasoning.clear();
    }
    setting.variation.message(&mut message, random);
    message
}

fn call(call: kimi_xtml::ToolCall) -> ExpectedCall {
    ExpectedCall { name: call.name, arguments_json: call.arguments, complete: true }
}
