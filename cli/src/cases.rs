//! Case files: one JSON object a line, a recorded stream with its request and what shall come of it.
//!
//! In: a file. Out: its [`Case`]s, or the line that is none and why. `corpora/README.md` describes the fields; unknown
//! ones are passed over.

use std::io::BufRead;
use std::path::Path;

use kimi_xtml::{Channel, Request, ToolChoice};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::lines::{self, LineError, Lines};
use crate::play::Delta;

/// What the sizes of a case may come to, in bytes.
const SCALED: usize = 256 << 20;
/// What a chunk takes beside its text.
const PLACE: usize = 48;

/// A recorded stream, its request, and what shall come of it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Case {
    /// Names the case.
    pub id: String,
    /// What the case is about, in a few words with hyphens.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The request.
    pub context: Context,
    /// The deltas' text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<Vec<String>>,
    /// The ids of each delta's tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<Vec<u32>>>,
    /// Whether the result holds only where the ids are known: the text quotes what it also means.
    #[serde(skip_serializing_if = "is_false")]
    pub identity: bool,
    /// The deltas as bytes, written in hexadecimal: characters may be cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte_chunks_hex: Option<Vec<Hex>>,
    /// Makes the case one for each size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// Deltas of several choices: the choice, the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleaved_choices: Option<Vec<(usize, String)>>,
    /// What shall come of each choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expected_choices: Vec<ExpectedChoice>,
    /// What shall come of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
    /// Other results that pass.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Expected>,
}

/// What a parser must know of the request, and why the engine ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default)]
pub struct Context {
    /// The declared tools.
    pub tools: Vec<String>,
    /// `auto`, `none`, `required`, a tool's name, or a Chat Completions object that names one.
    pub tool_choice: Choice,
    /// What the prompt left open.
    pub initial_channel: Opened,
    /// The engine's own reason.
    pub engine_finish_reason: String,
}

impl Default for Context {
    fn default() -> Self {
        Context {
            tools: Vec::new(),
            tool_choice: Choice::Word("auto".into()),
            initial_channel: Opened::None,
            engine_finish_reason: "stop".into(),
        }
    }
}

impl Context {
    /// The request, as a parser takes it.
    pub fn request(&self) -> Request {
        let choice = match &self.tool_choice {
            Choice::Word(word) => tool_choice(word),
            Choice::Function { function, .. } => ToolChoice::Named(function.name.clone()),
        };
        Request::new().opened(self.initial_channel.channel()).tools(self.tools.clone()).tool_choice(choice)
    }
}

/// A tool choice as it is written: a word, or a tool's name.
pub fn tool_choice(word: &str) -> ToolChoice {
    match word {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "required" => ToolChoice::Required,
        name => ToolChoice::Named(name.to_owned()),
    }
}

/// A tool choice in a case file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "a tool choice is a word, or an object with function.name")]
pub enum Choice {
    /// `auto`, `none`, `required` or a name.
    Word(String),
    /// `{"type": "function", "function": {"name": …}}`
    Function {
        /// What it is a choice of.
        #[serde(rename = "type", default)]
        kind: Kind,
        /// The function.
        function: Function,
    },
}

/// What a tool choice names.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A function, which all tools are.
    #[default]
    Function,
}

/// The function that a tool choice names.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Function {
    /// Its name.
    pub name: String,
}

/// What a prompt left open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Opened {
    /// The reasoning.
    Think,
    /// The answer.
    Response,
    /// A tools section.
    Tools,
    /// Nothing: the output has its own openers.
    #[default]
    None,
}

impl From<Option<Channel>> for Opened {
    fn from(channel: Option<Channel>) -> Self {
        match channel {
            Some(Channel::Think) => Opened::Think,
            Some(Channel::Response) => Opened::Response,
            _ => Opened::None,
        }
    }
}

impl Opened {
    /// The channel, if one is open.
    pub const fn channel(self) -> Option<Channel> {
        match self {
            Opened::Think => Some(Channel::Think),
            Opened::Response => Some(Channel::Response),
            Opened::Tools => Some(Channel::Tools),
            Opened::None => None,
        }
    }
}

/// Bytes, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hex(pub Vec<u8>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some((char::from(*high).to_digit(16)? * 16 + char::from(*low).to_digit(16)?) as u8),
            _ => None,
        };
        let bytes = digits.as_bytes().chunks(2).map(byte).collect::<Option<_>>();
        bytes.map(Hex).ok_or_else(|| serde::de::Error::custom(format_args!("`{digits}` are no bytes in hexadecimal")))
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }
}

/// The sizes of a case: one chunk, this often. They may come to 256 MiB.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Scale {
    /// The chunk that is repeated.
    pub chunk: String,
    /// How often.
    pub times: Vec<usize>,
}

/// What shall come of a stream. What is absent is empty.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Expected {
    /// The reasoning.
    pub reasoning: String,
    /// The answer.
    pub content: String,
    /// The calls.
    pub tool_calls: Vec<ExpectedCall>,
    /// The finish reason; absent, it follows from the calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
}

/// A call that shall come.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ExpectedCall {
    /// The tool's name.
    pub name: String,
    /// The arguments, byte for byte.
    #[serde(default)]
    pub arguments_json: String,
    /// Whether the call is whole.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub complete: bool,
}

/// What shall come of one choice of several.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ExpectedChoice {
    /// The choice.
    pub index: usize,
    /// What shall come of it.
    #[serde(flatten)]
    pub expected: Expected,
}

fn yes() -> bool {
    true
}

fn is_true(flag: &bool) -> bool {
    *flag
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A case file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// Its lines cannot be read.
    #[error(transparent)]
    Lines(#[from] LineError),
    /// A line is no case.
    #[error("{file}, line {line}: {reason}\nA case file has one JSON object a line; corpora/README.md describes it.")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1 on.
        line: usize,
        /// Why.
        reason: String,
    },
}

/// Whether a file's name stands for the standard input.
pub fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// A file's name in messages.
pub fn name(file: &Path) -> String {
    if is_stdin(file) { "standard input".into() } else { file.display().to_string() }
}

/// Reads a case file; `-` is the standard input.
///
/// # Errors
/// [`CaseError`], for the first line that is no case.
pub fn read(file: &Path) -> Result<Vec<Case>, CaseError> {
    of_lines(lines::open(file)?, &name(file))
}

/// Reads the cases of `input`, which messages call `name`. Blank lines are passed over.
///
/// # Errors
/// [`CaseError`], for the first line that is no case.
pub fn read_from(input: impl BufRead, name: &str) -> Result<Vec<Case>, CaseError> {
    of_lines(Lines::new(input, name), name)
}

fn of_lines(lines: Lines<impl BufRead>, name: &str) -> Result<Vec<Case>, CaseError> {
    let mut cases = Vec::new();
    for line in lines {
        let (line, bytes) = line?;
        cases.push(case(&bytes).map_err(|reason| CaseError::Line { file: name.into(), line, reason })?);
    }
    Ok(cases)
}

fn case(line: &[u8]) -> Result<Case, String> {
    let case: Case = serde_json::from_slice(line).map_err(|error| json_reason(&error))?;
    match case.fault() {
        Some(fault) => Err(fault.into()),
        None => Ok(case),
    }
}

/// The reason alone: a record is one line, so the line that serde_json names is always the first.
pub(crate) fn json_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
    if error.column() == 0 { reason.to_owned() } else { format!("column {}: {reason}", error.column()) }
}

impl Case {
    /// What the fields say against each other.
    fn fault(&self) -> Option<&'static str> {
        let chunks = self.chunks.as_ref();
        if self.id.is_empty() {
            return Some("it has no id");
        }
        if chunks.is_none() && self.byte_chunks_hex.is_none() && self.interleaved_choices.is_none() {
            return Some("it has no stream: no chunks, byte_chunks_hex or interleaved_choices");
        }
        if self.ids.as_ref().is_some_and(|ids| chunks.is_none_or(|chunks| chunks.len() != ids.len())) {
            return Some("ids and chunks are not equally many");
        }
        if self.identity && self.ids.is_none() {
            return Some("identity says that ids tell, but it has no ids");
        }
        let scale = self.scale.as_ref();
        if scale.is_some_and(|scale| chunks.is_none_or(|chunks| !chunks.contains(&scale.chunk))) {
            return Some("the chunk of scale is none of the chunks");
        }
        if scale.is_some_and(|scale| self.scaled_bytes(scale) > SCALED) {
            return Some("its sizes come to more than 256 MiB: make scale.times smaller");
        }
        None
    }

    /// What the sizes may come to at most: each text of each size with the chunk in it, as JSON where that is longer.
    fn scaled_bytes(&self, scale: &Scale) -> usize {
        let results = self.expected.iter().chain(&self.alternatives);
        let texts = 1 + results.map(|result| 2 + result.tool_calls.len()).sum::<usize>();
        let unit = PLACE + serde_json::Value::from(scale.chunk.as_str()).to_string().len();
        let times = scale.times.iter().fold(0, |sum: usize, times| sum.saturating_add(*times));
        times.saturating_mul(unit).saturating_mul(texts)
    }

    /// The stream as it was recorded: each delta with its choice, and with its ids if there are some.
    pub fn deltas(&self) -> Vec<(usize, Delta<'_>)> {
        let chunks = self.chunks.iter().flatten().map(String::as_str);
        match (&self.interleaved_choices, &self.ids, &self.byte_chunks_hex) {
            (Some(deltas), ..) => deltas.iter().map(|(choice, text)| (*choice, Delta::Text(text))).collect(),
            (_, Some(ids), _) => chunks.zip(ids).map(|(text, ids)| (0, Delta::Ids(text, ids))).collect(),
            (.., Some(bytes)) => bytes.iter().map(|hex| (0, Delta::Bytes(&hex.0))).collect(),
            _ => chunks.map(|text| (0, Delta::Text(text))).collect(),
        }
    }

    /// The case in each of its sizes: itself, and those that `scale` makes of it, each with a word of what it is.
    pub fn sizes(&self) -> Vec<(String, Case)> {
        let plain = Case { scale: None, ..self.clone() };
        let scaled = self.scale.iter().flat_map(|scale| {
            let size = |&times| (format!(" with {times} chunks"), plain.scaled(&scale.chunk, times));
            scale.times.iter().map(size).collect::<Vec<_>>()
        });
        std::iter::once((String::new(), plain.clone())).chain(scaled).collect()
    }

    /// The case with the run of `chunk` made `times` long, in the stream and in its results.
    fn scaled(&self, chunk: &String, times: usize) -> Case {
        let mut case = self.clone();
        let chunks = case.chunks.take().unwrap_or_default();
        let start = chunks.iter().position(|other| other == chunk).unwrap_or(chunks.len());
        let run = chunks[start..].iter().take_while(|other| *other == chunk).count();
        let repeated = std::iter::repeat_n(chunk, times);
        case.chunks = Some(chunks[..start].iter().chain(repeated).chain(&chunks[start + run..]).cloned().collect());

        let quoted = serde_json::Value::from(chunk.as_str()).to_string();
        let escaped = &quoted[1..quoted.len() - 1];
        let stretch = |text: &mut String, unit: &str| *text = text.replacen(&unit.repeat(run), &unit.repeat(times), 1);
        for result in case.expected.iter_mut().chain(&mut case.alternatives) {
            stretch(&mut result.reasoning, chunk);
            stretch(&mut result.content, chunk);
            for call in &mut result.tool_calls {
                stretch(&mut call.arguments_json, escaped);
            }
        }
        case
    }
}
