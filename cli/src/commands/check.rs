//! `check`: case files in; each failing case's id, chunkings and difference out, then the counts.

use std::io::Write;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use kimi_xtml_cli::cases;
use kimi_xtml_cli::check::{Failure, check};
use kimi_xtml_cli::chunking::Chunking;
use kimi_xtml_cli::show;

use super::stdout;
use crate::args::CheckArgs;
use crate::progress::Progress;

/// Chunkings that are named, of those that show the same difference.
const NAMED: usize = 5;
const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let chunkings: Vec<Chunking> = args.chunking.iter().flat_map(|chunkings| chunkings.0.clone()).collect();
    // All are read first: a bad file is told before any work.
    let files = args.files.iter().map(|file| cases::read(file)).collect::<Result<Vec<_>, _>>()?;
    let cases: Vec<_> = files.into_iter().flatten().collect();
    anyhow::ensure!(!cases.is_empty(), "no case in the files: nothing was checked");
    let mut progress = Progress::new(cases.len(), "cases", true);
    let mut failed = 0;
    for case in &cases {
        let failures = check(case, &chunkings);
        if !failures.is_empty() {
            failed += 1;
            progress.aside(|| print(&case.id, &case.kind, &failures))?;
        }
        progress.advance(1);
    }
    drop(progress);
    let mut out = stdout();
    writeln!(out, "{} passed, {failed} failed", cases.len() - failed)?;
    out.flush()?;
    Ok(ExitCode::from(u8::from(failed > 0)))
}

fn print(id: &str, kind: &str, failures: &[Failure]) -> std::io::Result<()> {
    let mut out = stdout();
    let space = if kind.is_empty() { "" } else { " " };
    writeln!(out, "{BAD}{}{BAD:#}{space}{}", show::plain(id), show::plain(kind))?;
    for failure in failures {
        let (named, more) = failure.chunkings.split_at(failure.chunkings.len().min(NAMED));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        writeln!(out, "  {DIM}{}{more}{DIM:#}", named.join(", "))?;
        for line in failure.difference.lines() {
            writeln!(out, "    {line}")?;
        }
    }
    out.flush()
}
