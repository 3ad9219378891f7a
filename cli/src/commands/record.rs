//! `record`: messages or captures in; recorded streams out, one JSON object a line, as in `corpora/`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use kimi_xtml_cli::cases::{Case, Choice, Context};
use kimi_xtml_cli::record::{
    Cutter, Grouping, Record, Recorder, Setting, Turn, Variation, capture, chat, gsm8k, toolcalls,
};

use super::stdout;
use crate::args::{CaptureArgs, RecordArgs, RecordSource, SettingArgs};

pub(crate) fn run(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let mut out = stdout();
    match &args.source {
        RecordSource::Gsm8k { file, solutions, settings } => {
            let recorder = settings.recorder()?;
            let mut turns = gsm8k::read(file, solutions.as_deref())?;
            for turn in &mut turns {
                turn.tools = vec!["calculator".into()];
            }
            write(&mut out, "gsm8k", "GSM8K, rendered", settings, &recorder, turns)?;
        }
        RecordSource::Toolcalls { bfcl, schemas, settings } => {
            let recorder = settings.recorder()?;
            anyhow::ensure!(
                bfcl.is_some() || !schemas.is_empty(),
                "record toolcalls: nothing to record\nName bfcl-eval's data folder with --bfcl, a folder of schemas with --schemas, or both."
            );
            if let Some(folder) = bfcl {
                write(
                    &mut out,
                    "toolcalls",
                    "bfcl-eval, rendered",
                    settings,
                    &recorder,
                    toolcalls::read_bfcl(folder)?,
                )?;
            }
            for folder in schemas {
                let turns = toolcalls::read_schemas(folder, &recorder)?;
                write(&mut out, "toolcalls", "instances of schemas, rendered", settings, &recorder, turns)?;
            }
        }
        RecordSource::Chat { file, settings } => {
            write(&mut out, "chat", "messages, rendered", settings, &settings.recorder()?, chat::read(file)?)?;
        }
        RecordSource::Capture(args) => {
            for case in capture::read(&args.file, &context(args))? {
                line(&mut out, "capture", "captured from a server", None, "as captured", case)?;
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn context(args: &CaptureArgs) -> Context {
    Context {
        tools: args.tools.clone(),
        tool_choice: Choice::Word(args.tool_choice.clone()),
        initial_channel: args.opened,
        engine_finish_reason: args.finish.clone(),
    }
}

impl SettingArgs {
    fn recorder(&self) -> anyhow::Result<Recorder> {
        let cutter = match &self.tokenizer {
            Some(file) => Cutter::read(file)?,
            None => Cutter::Schedule,
        };
        Ok(Recorder { cutter, seed: self.seed })
    }

    /// Each setting of a turn: every combination of the lists, of which one that is `mixed` is a choice by the seed.
    fn of(&self, recorder: &Recorder, turn: &Turn) -> Vec<Setting> {
        let mut random = recorder.random(&turn.id, "settings");
        let groupings = match &self.grouping[..] {
            [] => {
                // Most engines give token by token.
                let usual = Grouping::usual();
                let at = if random.u8(0..10) < 5 { 0 } else { random.usize(0..usual.len()) };
                vec![usual[at]]
            }
            groupings => groupings.to_vec(),
        };
        let variations = match &self.vary[..] {
            [] => random.choice(Variation::ALL).into_iter().collect(),
            variations => variations.to_vec(),
        };
        let mut settings = Vec::new();
        for &opened in &self.opened {
            for &declared in &self.tools {
                for &variation in &variations {
                    for &grouping in &groupings {
                        let declared = declared.is_declared();
                        settings.push(Setting { opened, declared, grouping, variation, limit: self.limit });
                    }
                }
            }
        }
        settings
    }
}

fn write(
    out: &mut impl Write,
    family: &str,
    origin: &str,
    args: &SettingArgs,
    recorder: &Recorder,
    turns: Vec<Turn>,
) -> anyhow::Result<()> {
    for turn in turns {
        for setting in args.of(recorder, &turn) {
            let case = recorder.record(&turn, setting).with_context(|| format!("{}: it has no form", turn.id))?;
            line(out, family, origin, turn.user.clone(), &setting.grouping.to_string(), case)?;
        }
    }
    Ok(())
}

fn line(
    out: &mut impl Write,
    family: &str,
    origin: &str,
    user: Option<String>,
    grouping: &str,
    case: Case,
) -> anyhow::Result<()> {
    let record = Record { family: family.into(), origin: origin.into(), user, grouping: grouping.into(), case };
    serde_json::to_writer(&mut *out, &record).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(())
}
