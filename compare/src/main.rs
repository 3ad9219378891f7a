//! Plays recorded Kimi K3 streams through kimi-xtml and the public parsers, and reports every difference; or how fast they are.
//!
//! In: case files, or a data folder. Out: a summary for the terminal; on demand JSON and one page of HTML. Exit code: 0, or 1
//! where this project's own parser differs or falls behind the ratchet, or 2 where the run cannot be made.

mod classify;
mod headline;
mod heard;
mod minimize;
mod peers;
mod report;
mod run;
mod sets;
mod speed;
mod stream;
mod tolerate;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use kimi_xtml_cli::record::Cutter;

use crate::peers::{Listed, Pythons};
use crate::report::Report;
use crate::run::Running;
use crate::sets::{Data, Run};

/// Play recorded Kimi K3 streams through kimi-xtml and the public parsers, and report every difference.
#[derive(Parser)]
#[command(
    name = "kimi-xtml-compare",
    version,
    max_term_width = 110,
    after_help = "\
Examples:
  kimi-xtml-compare small
  kimi-xtml-compare full DATA --bfcl bfcl_eval/data --html compare.html
  kimi-xtml-compare files my-recordings.jsonl --peers kimi-xtml,dynamo-v2 --minimize

Exit code: 0; 1 if kimi-xtml itself differs or falls behind ratchet.toml; 2 if the run cannot be made."
)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Parsers that take part; all that are installed, if none is named
    #[arg(long, global = true, value_name = "NAME", value_delimiter = ',')]
    peers: Vec<String>,
    /// A Python that has vLLM (or the variable KIMI_XTML_VLLM_PYTHON)
    #[arg(long, global = true, value_name = "FILE")]
    vllm_python: Option<PathBuf>,
    /// A Python that has SGLang (or the variable KIMI_XTML_SGLANG_PYTHON)
    #[arg(long, global = true, value_name = "FILE")]
    sglang_python: Option<PathBuf>,
    /// Write the results as JSON
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results as one page of HTML
    #[arg(long, global = true, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the tables of a page, between its marks `<!-- results -->` and `<!-- end of results -->`
    #[arg(long, global = true, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Shrink each example to the smallest stream that still fails in the same way
    #[arg(long, global = true)]
    minimize: bool,
    /// Items of each set, at most
    #[arg(long, global = true, value_name = "N")]
    limit: Option<usize>,
    /// This project's recorded streams
    #[arg(long, global = true, value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpora"), hide_default_value = true)]
    corpora: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Compare(Sets),
    /// Time: this parser, the linked ones and the floors, on the streams of benches/
    Speed(speed::Options),
    /// Heap: the same parsers
    #[cfg(feature = "heap")]
    Heap,
    /// The page and the plot of these results
    Page {
        /// The page, whose tables stand between its marks
        #[arg(value_name = "BENCHMARKS.md")]
        page: PathBuf,
        /// The folder with speed.json, heap.json and engines.json
        #[arg(value_name = "FOLDER")]
        results: PathBuf,
        /// The plot that is drawn
        #[arg(value_name = "FILE.svg")]
        plot: PathBuf,
    },
}

/// The streams that are compared.
#[derive(Subcommand)]
enum Sets {
    /// This project's corpora, and variations of them
    Small,
    /// The corpora, GSM8K under all settings, and tool calls
    Full {
        /// The `data` folder of the package bfcl-eval
        #[arg(long, value_name = "FOLDER")]
        bfcl: Option<PathBuf>,
        /// A folder with gsm8k/, walle/ and kimi/tiktoken.model
        data: PathBuf,
    },
    /// Case files
    Files {
        /// One recorded stream a line
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    // A parser that panics is a result; where it did is not of interest.
    std::panic::set_hook(Box::new(|_| {}));
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Writes results as JSON, to the file of `--json` or to the standard output.
fn keep(args: &Args, results: &impl serde::Serialize) -> anyhow::Result<ExitCode> {
    let json = serde_json::to_string_pretty(results)? + "\n";
    match &args.json {
        Some(file) => std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))?,
        None => print!("{json}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Speed(options) => keep(args, &speed::measure(*options)?),
        #[cfg(feature = "heap")]
        Command::Heap => keep(args, &speed::heap::count()?),
        Command::Page { page, results, plot } => speed::page::write(page, results, plot).map(|()| ExitCode::SUCCESS),
        Command::Compare(sets) => compare(args, sets),
    }
}

fn compare(args: &Args, sets: &Sets) -> anyhow::Result<ExitCode> {
    let tolerated = tolerate::tolerated()?;
    let mut absent = Vec::new();
    let mut running = start(args, &mut absent)?;
    let listed: Vec<Listed> = running.iter().map(|running| running.listed.clone()).collect();
    let limit = args.limit.unwrap_or(usize::MAX);
    let mut run = Run { running: &mut running, tolerated: &tolerated, tables: Vec::new(), settings: Vec::new(), limit };
    let own = "written for this project: worked solutions, tool calls, malformed and cut streams; seven cuts each";
    let name = match sets {
        Sets::Small => {
            let corpora = sets::corpora(&args.corpora)?;
            run.files("corpora", own, true, &corpora)?;
            run.varied(&corpora, Cutter::Schedule)?;
            "small"
        }
        Sets::Full { bfcl, data } => {
            let corpora = sets::corpora(&args.corpora)?;
            run.files("corpora", own, true, &corpora)?;
            let data = Data { folder: data.clone(), bfcl: bfcl.clone() };
            run.varied(&corpora, data.cutter()?)?;
            run.full(&data)?;
            "full"
        }
        Sets::Files { files } => {
            run.files("files", "recorded streams, seven cuts each", true, files)?;
            "files"
        }
    };
    let Run { mut tables, settings, .. } = run;
    if args.minimize {
        for table in &mut tables {
            for (tally, running) in table.tallies.iter_mut().zip(&mut running) {
                for ((class, rule), found) in &mut tally.rules {
                    for example in &mut found.examples {
                        *example = minimize::minimize(&mut *running.peer, example, *class, rule);
                    }
                }
            }
        }
    }
    let report = Report { run: name, listed, absent, tables, settings };
    report.print();
    if let Some(file) = &args.json {
        std::fs::write(file, report.json()?).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(file) = &args.html {
        std::fs::write(file, report.html()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(file) = &args.markdown {
        let page = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        std::fs::write(file, report.markdown(&page)?).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let regressions = report.regressions(tolerate::ratchet(name)?.as_ref().filter(|_| args.limit.is_none()));
    for regression in &regressions {
        eprintln!("regressed: {regression}");
    }
    Ok(ExitCode::from(u8::from(!regressions.is_empty())))
}

/// Starts the parsers that take part; tells of those that are not run, with the reason.
fn start(args: &Args, absent: &mut Vec<(Listed, String)>) -> anyhow::Result<Vec<Running>> {
    let python =
        |named: &Option<PathBuf>, variable| named.clone().or_else(|| std::env::var_os(variable).map(PathBuf::from));
    let pythons = Pythons {
        vllm: python(&args.vllm_python, "KIMI_XTML_VLLM_PYTHON"),
        sglang: python(&args.sglang_python, "KIMI_XTML_SGLANG_PYTHON"),
    };
    let all = peers::listed()?;
    for name in &args.peers {
        let names: Vec<_> = all.iter().map(|listed| &*listed.name).collect();
        anyhow::ensure!(names.contains(&&**name), "--peers {name}: no such parser\nThere are {}.", names.join(", "));
    }
    let mut running = Vec::new();
    for listed in all {
        if !args.peers.is_empty() && !args.peers.contains(&listed.name) && listed.name != "kimi-xtml" {
            absent.push((listed, "not selected".into()));
            continue;
        }
        match peers::start(&listed, &pythons) {
            Ok(peer) => running.push(Running { listed, peer }),
            Err(reason) => absent.push((listed, reason)),
        }
    }
    Ok(running)
}
