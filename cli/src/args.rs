//! The arguments: what each command takes, what it means, and examples.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand, ValueEnum};
use kimi_xtml::{IdPolicy, Request, ToolChoice, Undeclared};
use kimi_xtml_cli::cases::{self, Opened};
use kimi_xtml_cli::chunking::Chunkings;
use kimi_xtml_cli::output::Format;
use kimi_xtml_cli::record::{Grouping, Variation};

/// Turns what Kimi K3 generates into reasoning, content and tool calls.
#[derive(Parser)]
#[command(
    name = "kimi-xtml",
    version,
    max_term_width = 110,
    after_help = "\
Examples:
  kimi-xtml parse --opened think --tool get_weather generated.txt
  kimi-xtml parse-batch outputs.jsonl -o rows.jsonl --opened auto
  kimi-xtml inspect generated.txt --chunk 8
  kimi-xtml replay corpora/tools.jsonl --id C001 --format sse --rate 40
  kimi-xtml check corpora/*.jsonl
  kimi-xtml record gsm8k test.jsonl --tokenizer tiktoken.model
  kimi-xtml prompt request.json

`kimi-xtml COMMAND --help` tells more of a command, with examples."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Parse(ParseArgs),
    ParseBatch(ParseBatchArgs),
    Check(CheckArgs),
    Inspect(InspectArgs),
    Replay(ReplayArgs),
    Record(RecordArgs),
    Prompt(PromptArgs),
}

/// Parse one raw generated text.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kimi-xtml parse --opened think --tool get_weather generated.txt
  kimi-xtml parse --opened response --format sse --chunk 12 generated.txt
  some-engine | kimi-xtml parse --format events --chunk 1 -

With the format `message` one JSON object is printed. All counts in its `bytes`
are bytes of the input, and the last six add up to the first.")]
pub(crate) struct ParseArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// The engine's finish reason
    #[arg(long, value_name = "REASON", default_value = "stop", value_parser = ["stop", "length"])]
    pub(crate) finish: String,
    /// Bytes that are pushed at a time (characters may be cut), or `whole`
    #[arg(long, value_name = "N|whole", default_value = "whole")]
    pub(crate) chunk: Chunk,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// The text; `-` is the standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
}

/// Parse many outputs, on all cores: a row each, in order.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kimi-xtml parse-batch outputs.jsonl -o rows.jsonl --opened think --tool get_weather
  kimi-xtml parse-batch outputs.jsonl -o rows.jsonl --opened auto --column completion

A line of the input is a JSON string, or an object that has the output as the
member that --column names, and perhaps a finish_reason. A line of what is
written is an object: reasoning, content, tool_calls, finish_reason, bytes,
tokens, diagnostics. What is done stands in a folder beside the file until all
is done: the same command goes on there after it was stopped.")]
pub(crate) struct ParseBatchArgs {
    #[command(flatten)]
    pub(crate) request: BatchRequestArgs,
    /// The member that has the output
    #[arg(long, value_name = "NAME", default_value = "output")]
    pub(crate) column: String,
    /// The engine's finish reason, where the line has none
    #[arg(long, value_name = "REASON", default_value = "stop")]
    pub(crate) finish: String,
    /// How calls get their ids
    #[arg(long, value_enum, default_value_t)]
    pub(crate) call_ids: CallIds,
    /// Threads; as many as there are cores, if it is left away
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// The file that is written
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Outputs, a line each
    pub(crate) file: PathBuf,
}

/// What the parser must know of the outputs' request.
#[derive(clap::Args)]
pub(crate) struct BatchRequestArgs {
    /// The channel that the prompts left open; `auto`: each output's first tag tells
    #[arg(help_heading = "Request", long, value_name = "think|response|tools|none|auto", default_value = "none", value_parser = batch_opened)]
    pub(crate) opened: BatchOpened,
    /// A declared tool; none declared, calls are not parsed
    #[arg(help_heading = "Request", long = "tool", value_name = "NAME")]
    pub(crate) tools: Vec<String>,
}

/// A channel, or that the output tells.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BatchOpened {
    Known(Opened),
    Auto,
}

fn batch_opened(word: &str) -> Result<BatchOpened, &'static str> {
    match word {
        "auto" => Ok(BatchOpened::Auto),
        word => any_opened(word).map(BatchOpened::Known).map_err(|_| "think, response, tools, none or auto"),
    }
}

/// Run case files under every chunking.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kimi-xtml check corpora/*.jsonl
  kimi-xtml check --chunking chars,random:7 corpora/malformed.jsonl

A case passes if every chunking gives its result. Records with token ids are
also run with them. Exit code: 0 if all passed, 1 if one failed, 2 if a file
cannot be read.")]
pub(crate) struct CheckArgs {
    /// as-given, whole, chars, random:SEED, random (20 seeds)
    #[arg(long, value_name = "CHUNKING", value_delimiter = ',', default_value = "as-given,whole,chars,random")]
    pub(crate) chunking: Vec<Chunkings>,
    /// Case files; `-` is the standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// Show what the parser does, chunk by chunk.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kimi-xtml inspect --opened think --tool get_weather --chunk 8 generated.txt
  kimi-xtml inspect corpora/malformed.jsonl --id X04
  kimi-xtml inspect --opened think generated.txt --record >> my-cases.jsonl

For each chunk: what came in, the events with their spans of the input, and
after the arrow the open channel and what is held. A bug report is best made of
this output, or of the line that --record prints.")]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// The engine's finish reason
    #[arg(long, value_name = "REASON", default_value = "stop", value_parser = ["stop", "length"])]
    pub(crate) finish: String,
    /// Bytes that are pushed at a time (characters may be cut), or `whole`
    #[arg(long, value_name = "N|whole", default_value = "whole")]
    pub(crate) chunk: Chunk,
    /// Show this record of a case file alone
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// The input is a case file (so is a file that is named .jsonl); its records have a request, a finish reason and chunks
    #[arg(long)]
    pub(crate) cases: bool,
    /// Show long texts whole
    #[arg(long)]
    pub(crate) full: bool,
    /// Write a page instead, which plays the stream in a browser: one file that needs nothing else
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    pub(crate) html: Option<PathBuf>,
    /// Print a case of the text instead, as a line for a case file: read it over before you keep it
    #[arg(long)]
    pub(crate) record: bool,
    /// A raw text or a case file; `-` is the standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
}

/// Play recorded streams through the parser.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kimi-xtml replay corpora/tools.jsonl
  kimi-xtml replay corpora/tools.jsonl --id C001 --format sse --rate 40

Chunks are pushed as they were recorded, with their token ids where the record
has them.")]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Play at this rate; a chunk without ids counts as one token
    #[arg(long, value_name = "TOKENS_PER_S", allow_negative_numbers = true, value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Play this record alone
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// A case file; `-` is the standard input
    pub(crate) file: PathBuf,
}

/// Make recorded streams from messages, or from captures of a server.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kimi-xtml record gsm8k test.jsonl --tokenizer tiktoken.model > math.jsonl
  kimi-xtml record toolcalls --bfcl bfcl_eval/data --grouping 1,8,random > calls.jsonl
  kimi-xtml record chat conversation.json --opened think,response --vary all
  curl -sN $SERVER/v1/completions -d @request.json | kimi-xtml record capture --opened think -

Each record has what must come of it; `kimi-xtml check` runs the file. A list gives a record for each of its values and
each combination; without --grouping or with --vary mixed the seed chooses one.")]
pub(crate) struct RecordArgs {
    #[command(subcommand)]
    pub(crate) source: RecordSource,
}

#[derive(Subcommand)]
pub(crate) enum RecordSource {
    /// GSM8K: the official test set's shape, or recorded model solutions
    Gsm8k {
        /// Model solutions of the same questions, for the reasoning
        #[arg(long, value_name = "FILE")]
        solutions: Option<PathBuf>,
        #[command(flatten)]
        settings: SettingArgs,
        /// One JSON object a line: question and answer, or question and solutions
        file: PathBuf,
    },
    /// Tool calls: the ground truth of bfcl-eval, and instances of JSON schemas
    Toolcalls {
        /// The `data` folder of the package bfcl-eval
        #[arg(long, value_name = "FOLDER")]
        bfcl: Option<PathBuf>,
        /// A folder of .jsonl files with a JSON schema a line
        #[arg(long, value_name = "FOLDER")]
        schemas: Vec<PathBuf>,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// Chat Completions messages, or whole requests
    Chat {
        #[command(flatten)]
        settings: SettingArgs,
        /// A JSON array, or JSON objects; `-` is the standard input
        file: PathBuf,
    },
    /// Raw deltas of a live server: JSON lines, or the events of a completions endpoint
    Capture(CaptureArgs),
}

/// How messages are recorded.
#[derive(clap::Args)]
pub(crate) struct SettingArgs {
    /// BPE ranks: streams are cut at real token boundaries and have ids. Without, a seeded schedule cuts them
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: Option<PathBuf>,
    /// Decides what is left to chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Tokens in a delta: numbers, random (1 to 16), whole
    #[arg(long, value_name = "N|random|whole", value_delimiter = ',')]
    pub(crate) grouping: Vec<Grouping>,
    /// What the prompt left open
    #[arg(long, value_name = "think|response|none", value_delimiter = ',', default_value = "think", value_parser = opened)]
    pub(crate) opened: Vec<Opened>,
    /// Whether the tools are declared
    #[arg(long, value_enum, value_delimiter = ',', default_value = "declared")]
    pub(crate) tools: Vec<DeclaredArg>,
    /// What provokes parsers: plain, quotes, backticks, apostrophes, angles, markers, blanks; all; mixed
    #[arg(long, value_name = "VARIATION", default_value = "plain", value_parser = variations)]
    pub(crate) vary: Variations,
    /// Cut the stream after so many tokens, as an engine's limit does
    #[arg(long, value_name = "TOKENS")]
    pub(crate) limit: Option<NonZeroUsize>,
}

/// Variations; none stands for a choice by the seed.
#[derive(Clone, Debug)]
pub(crate) struct Variations(Vec<Variation>);

impl std::ops::Deref for Variations {
    type Target = [Variation];

    fn deref(&self) -> &[Variation] {
        &self.0
    }
}

fn variations(words: &str) -> Result<Variations, &'static str> {
    match words {
        "all" => Ok(Variations(Variation::ALL.to_vec())),
        "mixed" => Ok(Variations(Vec::new())),
        words => words.split(',').map(str::parse).collect::<Result<_, _>>().map(Variations),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeclaredArg {
    /// The request declares them
    Declared,
    /// The request declares none
    None,
}

impl DeclaredArg {
    pub(crate) fn is_declared(self) -> bool {
        self == DeclaredArg::Declared
    }
}

/// Raw deltas of a live server.
#[derive(clap::Args)]
pub(crate) struct CaptureArgs {
    /// The channel that the prompt left open
    #[arg(long, value_name = "think|response|none", default_value = "none", value_parser = opened)]
    pub(crate) opened: Opened,
    /// A declared tool
    #[arg(long = "tool", value_name = "NAME")]
    pub(crate) tools: Vec<String>,
    /// The tool choice
    #[arg(long, value_name = "auto|none|required|NAME", default_value = "auto")]
    pub(crate) tool_choice: String,
    /// The engine's finish reason, where the capture tells none
    #[arg(long, value_name = "REASON", default_value = "stop", value_parser = ["stop", "length"])]
    pub(crate) finish: String,
    /// The capture; `-` is the standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
}

/// Print the prompt of a Chat Completions request.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kimi-xtml prompt request.json
  kimi-xtml prompt --pieces request.json
  kimi-xtml prompt --ids --tokenizer tiktoken.model request.json
  curl -s $SERVER/requests/7 | kimi-xtml prompt -

The prompt is the one that Moonshot's encoder makes. On a terminal its pieces are coloured: control tokens, tags, and
what the model generated; a │ stands between texts that are encoded apart. A piece is printed as {\"c\": text} if
control tokens are read in it, as {\"t\": text} if not. Ids are one JSON list; a count has all of them, and those that
`prompt_tokens` reports: without the opener of the channel. A request that has no prompt is an error that names the member;
exit code 2.")]
pub(crate) struct PromptArgs {
    /// Print the pieces, one JSON object a line
    #[arg(long, group = "form")]
    pub(crate) pieces: bool,
    /// Print the token ids
    #[arg(long, group = "form", requires = "tokenizer")]
    pub(crate) ids: bool,
    /// Print how many token ids there are
    #[arg(long, group = "form", requires = "tokenizer")]
    pub(crate) count: bool,
    /// Kimi's BPE ranks
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: Option<PathBuf>,
    /// Close a last message that is `partial`, as Moonshot's encoder does, instead of going on in it
    #[arg(long)]
    pub(crate) no_partial: bool,
    /// The request; `-` is the standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
}

/// What the parser must know of the request.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestArgs {
    /// The channel that the prompt left open; `none` if the text has its own openers
    #[arg(help_heading = "Request", long, value_name = "think|response|tools|none", default_value = "none", value_parser = any_opened)]
    pub(crate) opened: Opened,
    /// A declared tool; none declared, calls are not parsed
    #[arg(help_heading = "Request", long = "tool", value_name = "NAME")]
    pub(crate) tools: Vec<String>,
    /// The tool choice
    #[arg(help_heading = "Request", long, value_name = "auto|none|required|NAME", default_value = "auto")]
    pub(crate) tool_choice: String,
    /// Put reasoning into the content
    #[arg(help_heading = "Request", long)]
    pub(crate) no_separate_reasoning: bool,
    /// What becomes of a tools section that was not asked for
    #[arg(help_heading = "Request", long, value_enum, default_value_t)]
    pub(crate) undeclared: UndeclaredArg,
    /// Let objects and arrays go out as they arrive
    #[arg(help_heading = "Request", long)]
    pub(crate) stream_json: bool,
}

impl Default for RequestArgs {
    fn default() -> Self {
        RequestArgs {
            opened: Opened::None,
            tools: Vec::new(),
            tool_choice: "auto".into(),
            no_separate_reasoning: false,
            undeclared: UndeclaredArg::Withhold,
            stream_json: false,
        }
    }
}

impl RequestArgs {
    pub(crate) fn request(&self) -> anyhow::Result<Request> {
        let choice = cases::tool_choice(&self.tool_choice);
        if let ToolChoice::Named(name) = &choice
            && !self.tools.contains(name)
        {
            anyhow::bail!(
                "--tool-choice {name}: it is not auto, none or required, and no tool of that name is declared\nDeclare it with --tool {name}."
            );
        }
        let undeclared = match self.undeclared {
            UndeclaredArg::Withhold => Undeclared::Withhold,
            UndeclaredArg::Content => Undeclared::Content,
        };
        Ok(Request::new()
            .opened(self.opened.channel())
            .tools(self.tools.clone())
            .tool_choice(choice)
            .separate_reasoning(!self.no_separate_reasoning)
            .undeclared(undeclared)
            .stream_json(self.stream_json))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum UndeclaredArg {
    /// It is no content
    #[default]
    Withhold,
    /// It is content
    Content,
}

#[derive(clap::Args)]
pub(crate) struct OutputArgs {
    /// What is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: FormatArg,
    /// How calls get their ids
    #[arg(long, value_enum, default_value_t)]
    pub(crate) call_ids: CallIds,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// One JSON object a stream: the message, what deviated, and where each byte went
    #[default]
    Message,
    /// One JSON object an event, with its span of the input
    Events,
    /// One Chat Completions delta a line
    Chat,
    /// Server-sent frames; their id and time are fixed, so that outputs compare
    Sse,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Message => Format::Message,
            FormatArg::Events => Format::Events,
            FormatArg::Chat => Format::Chat,
            FormatArg::Sse => Format::Sse,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallIds {
    /// call_ and 24 random letters and digits
    #[default]
    Random,
    /// NAME_0, NAME_1, …: the same every time
    Numbered,
}

impl CallIds {
    pub(crate) fn policy(self) -> IdPolicy {
        match self {
            CallIds::Random => IdPolicy::random(),
            CallIds::Numbered => IdPolicy::numbered(0),
        }
    }
}

/// How much is pushed at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    Whole,
    Bytes(NonZeroUsize),
}

impl FromStr for Chunk {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, &'static str> {
        match word {
            "whole" => Ok(Chunk::Whole),
            number => number.parse().map(Chunk::Bytes).map_err(|_| "a number of bytes from 1 on, or `whole`"),
        }
    }
}

fn opened(word: &str) -> Result<Opened, &'static str> {
    match word {
        "think" => Ok(Opened::Think),
        "response" => Ok(Opened::Response),
        "none" => Ok(Opened::None),
        _ => Err("think, response or none"),
    }
}

fn any_opened(word: &str) -> Result<Opened, &'static str> {
    if word == "tools" {
        return Ok(Opened::Tools);
    }
    opened(word).map_err(|_| "think, response, tools or none")
}

fn rate(word: &str) -> Result<f64, &'static str> {
    let rate = word.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or("a number of tokens a second, above 0")
}
