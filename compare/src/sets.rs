//! The sets of streams: this project's corpora and variations of them; GSM8K and tool calls from a data folder.
//!
//! In: case files, and where the data is. Out: tables and the headline's settings, as they are played.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kimi_xtml::{Message, ToolCall};
use kimi_xtml_cli::cases::{self, Case, Opened};
use kimi_xtml_cli::chunking::Chunking;
use kimi_xtml_cli::record::{Cutter, Grouping, Recorder, Setting, Turn, Variation, gsm8k, respelled, toolcalls};

use crate::headline;
use crate::run::{Running, Seen, Table};
use crate::stream::Stream;
use crate::tolerate::Tolerated;

/// What a run fills.
pub(crate) struct Run<'a> {
    pub(crate) running: &'a mut [Running],
    pub(crate) tolerated: &'a [Tolerated],
    pub(crate) tables: Vec<Table>,
    pub(crate) settings: Vec<headline::Setting>,
    /// Items of a set, at most.
    pub(crate) limit: usize,
}

/// Where the data of a full run is.
pub(crate) struct Data {
    pub(crate) folder: PathBuf,
    pub(crate) bfcl: Option<PathBuf>,
}

impl Data {
    /// Cuts at Kimi's token boundaries.
    pub(crate) fn cutter(&self) -> anyhow::Result<Cutter> {
        Cutter::read(&self.folder.join("kimi/tiktoken.model"))
    }
}

const OPENED: [(Opened, &str); 2] = [(Opened::Think, "think"), (Opened::Response, "response")];

impl Run<'_> {
    /// Case files, each stream in several cuts.
    pub(crate) fn files(&mut self, name: &str, about: &str, own: bool, files: &[PathBuf]) -> anyhow::Result<()> {
        let cases = read(files)?;
        let streams: Vec<Stream> = cases.iter().filter_map(Stream::of).take(self.limit).collect();
        self.cuts(name, about, own, &streams);
        Ok(())
    }

    fn cuts(&mut self, name: &str, about: &str, own: bool, streams: &[Stream]) {
        self.tell(name, streams.len());
        let mut table = Table::new(name, about, own, self.running.len());
        let mut seen = Seen::default();
        table.play(self.running, streams, &mut seen, self.tolerated);
        for count in [4, 16, usize::MAX] {
            let streams: Vec<Stream> = streams.iter().map(|stream| stream.regrouped(count)).collect();
            table.play(self.running, &streams, &mut seen, self.tolerated);
        }
        let chunkings = [Chunking::Chars, Chunking::Random(2), Chunking::Random(5)];
        for chunking in chunkings {
            let recut = |stream: &Stream| {
                let text = stream.text();
                stream.recut(&chunking.ends(&stream.ends(), |at| text.is_char_boundary(at)))
            };
            let streams: Vec<Stream> = streams.iter().map(recut).collect();
            table.play(self.running, &streams, &mut seen, self.tolerated);
        }
        self.tables.push(table);
    }

    /// Messages of the corpora, provoking and cut.
    pub(crate) fn varied(&mut self, files: &[PathBuf], cutter: Cutter) -> anyhow::Result<()> {
        let recorder = Recorder { cutter, seed: 1 };
        let turns: Vec<Turn> = read(files)?.iter().filter_map(turn).take(self.limit).collect();
        let groupings = [Grouping::Random, fixed(1), fixed(4)];
        let about =
            "messages of the corpora: odd quotes, backticks and apostrophes, `<` and `<|`, quoted markers, blanks";
        self.tell("corpora, provoking", turns.len());
        let mut table = Table::new("corpora, provoking", about, true, self.running.len());
        for variation in Variation::ALL.into_iter().skip(1) {
            for (opened, _) in OPENED {
                let setting = Setting { opened, declared: true, grouping: groupings[0], variation, limit: None };
                self.grouped(&mut table, &recorder, &turns, setting, &groupings, None)?;
            }
        }
        self.tables.push(table);

        let about = "messages of the corpora, cut by a token limit near the end, in the middle, and at the beginning";
        self.tell("corpora, cut", turns.len());
        let mut table = Table::new("corpora, cut", about, true, self.running.len());
        for cut in [Cut::Tail, Cut::Share(2), Cut::Share(4)] {
            for (opened, _) in OPENED {
                let setting = Setting {
                    opened,
                    declared: true,
                    grouping: groupings[0],
                    variation: Variation::Plain,
                    limit: None,
                };
                self.grouped(&mut table, &recorder, &turns, setting, &groupings, Some(cut))?;
            }
        }
        self.tables.push(table);
        Ok(())
    }

    /// GSM8K under all settings, and tool calls.
    pub(crate) fn full(&mut self, data: &Data) -> anyhow::Result<()> {
        let folder = &data.folder;
        let cutter = data.cutter()?;
        let recorder = Recorder { cutter, seed: 1 };
        let solutions = folder.join("gsm8k/model_solutions.jsonl");
        let mut turns = gsm8k::read(&folder.join("gsm8k/test.jsonl"), Some(&solutions))?;
        turns.truncate(self.limit);
        for turn in &mut turns {
            turn.tools = vec!["calculator".into()];
        }
        self.gsm8k(&recorder, &turns)?;

        let mut replies = gsm8k::read(&solutions, None)?;
        replies.truncate(self.limit.saturating_mul(4));
        let about = "replies of four models to GSM8K, think opened, no tools declared, random grouping";
        let name = "model replies";
        self.tell(name, replies.len());
        let mut table = Table::new(name, about, false, self.running.len());
        let setting = Setting {
            opened: Opened::Think,
            declared: false,
            grouping: Grouping::Random,
            variation: Variation::Plain,
            limit: None,
        };
        let group = "replies of four models";
        self.scored(&mut table, &recorder, &replies, setting, &[Grouping::Random], None, group)?;
        self.tables.push(table);

        let mut calls = match &data.bfcl {
            Some(folder) => toolcalls::read_bfcl(folder)?,
            None => Vec::new(),
        };
        calls.extend(toolcalls::read_schemas(&folder.join("walle"), &recorder)?);
        calls.truncate(self.limit);
        self.toolcalls(&recorder, &calls)
    }

    fn gsm8k(&mut self, recorder: &Recorder, turns: &[Turn]) -> anyhow::Result<()> {
        let usual = Grouping::usual();
        let plain = |opened, declared| Setting {
            opened,
            declared,
            grouping: Grouping::Random,
            variation: Variation::Plain,
            limit: None,
        };
        let about = "the official test set: tools declared or not, think or response opened, six groupings";
        self.tell("GSM8K", turns.len());
        let mut table = Table::new("GSM8K", about, false, self.running.len());
        for (opened, name) in OPENED {
            for (declared, tools) in [(true, "tools"), (false, "no tools")] {
                let group = format!("{name} opened, {tools}");
                self.scored(&mut table, recorder, turns, plain(opened, declared), &usual, None, &group)?;
            }
        }
        self.tables.push(table);

        let about = "the same replies, with odd quotes, backticks, apostrophes, `<`, quoted markers or blanks in them";
        self.tell("GSM8K, provoking", turns.len());
        let mut table = Table::new("GSM8K, provoking", about, false, self.running.len());
        for (opened, name) in OPENED {
            for variation in Variation::ALL.into_iter().skip(1) {
                let setting = Setting { variation, ..plain(opened, true) };
                let group = format!("{name} opened, provoking");
                let groupings = [fixed(4)];
                self.named(&mut table, recorder, turns, setting, &groupings, None, &group, Some(variation.name()))?;
            }
        }
        self.tables.push(table);

        let about = "the same replies, cut by a limit after the answer: before or within the closing tags";
        self.tell("GSM8K, cut", turns.len());
        let mut table = Table::new("GSM8K, cut", about, false, self.running.len());
        for (opened, name) in OPENED {
            for (declared, tools) in [(true, "tools"), (false, "no tools")] {
                let group = format!("{name} opened, {tools}, cut");
                let cut = Some(Cut::Tail);
                self.scored(&mut table, recorder, turns, plain(opened, declared), &[fixed(1), fixed(4)], cut, &group)?;
            }
        }
        self.tables.push(table);
        Ok(())
    }

    fn toolcalls(&mut self, recorder: &Recorder, turns: &[Turn]) -> anyhow::Result<()> {
        let count: usize = turns.iter().map(|turn| turn.message.tool_calls.len()).sum();
        let about =
            format!("{count} calls in {} turns: simple, multiple, parallel, multi-turn, schema instances", turns.len());
        let groupings = [fixed(1), fixed(4), Grouping::Random, Grouping::Whole];
        self.tell("tool calls", turns.len());
        let setting = Setting {
            opened: Opened::Think,
            declared: true,
            grouping: Grouping::Random,
            variation: Variation::Plain,
            limit: None,
        };
        let mut table = Table::new("tool calls", &about, false, self.running.len());
        self.grouped(&mut table, recorder, turns, setting, &groupings, None)?;
        self.tables.push(table);

        self.tell("tool calls, provoking", turns.len());
        let about = "the same calls, with odd quotes, `<`, quoted markers or blanks in reasoning, answer and strings";
        let mut table = Table::new("tool calls, provoking", about, false, self.running.len());
        // Each turn provokes in one way.
        let variations = &Variation::ALL[1..];
        for (number, &variation) in variations.iter().enumerate() {
            let some: Vec<Turn> = turns.iter().skip(number).step_by(variations.len()).cloned().collect();
            let setting = Setting { variation, ..setting };
            self.grouped(&mut table, recorder, &some, setting, &[fixed(1), fixed(4)], None)?;
        }
        self.tables.push(table);

        self.tell("tool calls, cut", turns.len());
        let mut table = Table::new("tool calls, cut", "the same calls, cut by a limit", false, self.running.len());
        for cut in [Cut::Tail, Cut::Share(2)] {
            self.grouped(&mut table, recorder, turns, setting, &[Grouping::Random], Some(cut))?;
        }
        self.tables.push(table);

        self.tell("tool calls, none declared", turns.len());
        let about = "the same calls, though the request declares no tools: no call, and no markup in the answer";
        let mut table = Table::new("tool calls, none declared", about, false, self.running.len());
        let setting = Setting { declared: false, ..setting };
        self.grouped(&mut table, recorder, turns, setting, &[fixed(8)], None)?;
        self.tables.push(table);
        Ok(())
    }

    /// Plays turns under one setting in several groupings.
    fn grouped(
        &mut self,
        table: &mut Table,
        recorder: &Recorder,
        turns: &[Turn],
        setting: Setting,
        groupings: &[Grouping],
        cut: Option<Cut>,
    ) -> anyhow::Result<()> {
        self.named(table, recorder, turns, setting, groupings, cut, "", None)
    }

    #[expect(clippy::too_many_arguments, reason = "what is played, and how it is called")]
    fn scored(
        &mut self,
        table: &mut Table,
        recorder: &Recorder,
        turns: &[Turn],
        setting: Setting,
        groupings: &[Grouping],
        cut: Option<Cut>,
        group: &str,
    ) -> anyhow::Result<()> {
        self.named(table, recorder, turns, setting, groupings, cut, group, None)
    }

    /// Plays turns; with a group the replies are scored.
    #[expect(clippy::too_many_arguments, reason = "what is played, and how it is called")]
    fn named(
        &mut self,
        table: &mut Table,
        recorder: &Recorder,
        turns: &[Turn],
        setting: Setting,
        groupings: &[Grouping],
        cut: Option<Cut>,
        group: &str,
        name: Option<&str>,
    ) -> anyhow::Result<()> {
        let mut items = Vec::new();
        for (number, turn) in turns.iter().enumerate() {
            let whole = recorder.tokens(turn, setting).with_context(|| turn.id.clone())?;
            let limit = cut.and_then(|cut| NonZeroUsize::new(cut.tokens(whole.len(), number)));
            let setting = Setting { limit, ..setting };
            items.push((setting, if limit.is_some() { recorder.tokens(turn, setting)? } else { whole }));
        }
        let mut seen = Seen::default();
        for &grouping in groupings {
            let streams: Vec<Stream> = turns
                .iter()
                .zip(&items)
                .filter_map(|(turn, (setting, tokens))| {
                    Stream::of(&recorder.group(turn, Setting { grouping, ..*setting }, tokens))
                })
                .collect();
            let judged = table.play(self.running, &streams, &mut seen, self.tolerated);
            if !group.is_empty() {
                let name = name.map_or_else(|| grouping.to_string(), str::to_owned);
                self.settings.push(headline::Setting::of(group, &name, &streams, &judged));
            }
        }
        Ok(())
    }

    fn tell(&self, name: &str, items: usize) {
        eprintln!("{name}: {items} items");
    }
}

/// Where a limit cuts.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// After the text: before the closing tags of the message, or within them, by the item.
    Tail,
    /// After this share of the tokens.
    Share(usize),
}

impl Cut {
    /// The tokens that stay of so many. A message ends with seven: two closing tags and the end.
    fn tokens(self, len: usize, item: usize) -> usize {
        match self {
            Cut::Tail => len.saturating_sub(1 + item % 7).max(1),
            Cut::Share(share) => (len / share + item % 5).max(1),
        }
    }
}

fn fixed(tokens: usize) -> Grouping {
    NonZeroUsize::new(tokens).map_or(Grouping::Whole, Grouping::Fixed)
}

fn read(files: &[PathBuf]) -> anyhow::Result<Vec<Case>> {
    let mut all = Vec::new();
    for file in files {
        all.extend(cases::read(file)?);
    }
    Ok(all)
}

/// The message of a case, to be rendered again; none where its stream deviates from the format or quotes markers.
fn turn(case: &Case) -> Option<Turn> {
    let expected = case.expected.as_ref()?;
    let is_written = case.id.starts_with('M') || case.id.starts_with('C');
    let calls: Vec<ToolCall> =
        expected.tool_calls.iter().map(|call| ToolCall::new(&call.name, respelled(&call.arguments_json))).collect();
    let texts = || [&expected.reasoning, &expected.content].into_iter().chain(calls.iter().map(|call| &call.arguments));
    let rendered =
        |arguments: &String| serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(arguments).is_ok();
    if !is_written
        || case.identity
        || texts().any(|text| text.contains("<|"))
        || !calls.iter().all(|call| rendered(&call.arguments))
    {
        return None;
    }
    Some(Turn {
        id: case.id.clone(),
        kind: case.kind.clone(),
        message: Message::of(&expected.reasoning, &expected.content, calls),
        tools: if case.context.tools.is_empty() { vec!["calculator".into()] } else { case.context.tools.clone() },
        ..Turn::default()
    })
}

/// The case files of a folder.
pub(crate) fn corpora(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let files = folder.read_dir().with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    anyhow::ensure!(!files.is_empty(), "{}: no case files", folder.display());
    Ok(files)
}
