//! `replay`: recorded streams in, played as they were recorded; messages, events, deltas or frames out.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use kimi_xtml::Parser;
use kimi_xtml_cli::cases::Case;
use kimi_xtml_cli::output::{Format, Output};

use super::records;
use crate::args::ReplayArgs;
use crate::progress::Progress;

pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let cases = records(&args.file, args.id.as_deref())?;
    let tokens = cases.iter().flat_map(Case::deltas).map(|(_, delta)| delta.tokens()).sum();
    // On one terminal, the bar would stand between the lines.
    let mut pace = Pace {
        rate: args.rate,
        start: Instant::now(),
        tokens: 0,
        progress: Progress::new(tokens, "tokens", !io::stdout().is_terminal()),
    };
    let mut out = io::stdout().lock();
    for case in &cases {
        play(case, args, &mut pace, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn play(case: &Case, args: &ReplayArgs, pace: &mut Pace, out: &mut impl Write) -> anyhow::Result<()> {
    let format = Format::from(args.output.format);
    let deltas = case.deltas();
    let start = |choice| {
        let output = Output::new(format, args.output.call_ids.policy(), choice);
        (Parser::new(case.context.request()), output.record(&case.id))
    };
    // A stream that is empty has a choice nevertheless.
    let choices = deltas.iter().map(|&(choice, _)| choice).chain(deltas.is_empty().then_some(0));
    let mut choices: BTreeMap<_, _> = choices.map(|choice| (choice, start(choice))).collect();
    for (choice, delta) in &deltas {
        pace.wait(delta.tokens());
        if let Some((parser, output)) = choices.get_mut(choice) {
            delta.push(parser, output);
            output.write(out)?;
        }
    }
    for (mut parser, mut output) in choices.into_values() {
        let reason = parser.finish(&case.context.engine_finish_reason, &mut output);
        output.finish(&parser, reason, out)?;
    }
    Ok(format.end(out)?)
}

struct Pace {
    rate: Option<f64>,
    start: Instant,
    tokens: usize,
    progress: Progress,
}

impl Pace {
    /// Waits until it is time for these tokens.
    fn wait(&mut self, tokens: usize) {
        self.tokens += tokens;
        if let Some(rate) = self.rate {
            let due = Duration::try_from_secs_f64(self.tokens as f64 / rate).unwrap_or(Duration::MAX);
            thread::sleep(due.saturating_sub(self.start.elapsed()));
        }
        self.progress.advance(tokens);
    }
}
