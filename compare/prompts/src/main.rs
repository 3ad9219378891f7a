//! Encodes conversations with kimi-xtml and with the public encoders of Kimi K3's prompt, and compares answers and time.
//!
//! `compare`: random conversations; every disagreement is sorted into a named reason, and one that has none fails the run.
//! `speed`: the same conversation through each, after its answers were checked.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::Parser;

use crate::peers::Encoders;

mod classify;
mod compare;
mod generate;
mod peers;
mod reasons;
mod speed;

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// A file of ranks; without it that of `KIMI_XTML_DATA`, or the tokenizer's own small one.
    #[arg(long)]
    ranks: Option<PathBuf>,
    /// A page whose part between the marks of prompts is written anew.
    #[arg(long)]
    write: Option<PathBuf>,
    #[command(subcommand)]
    command: Mode,
}

#[derive(clap::Subcommand)]
enum Mode {
    /// Compares answers.
    Compare {
        /// How many conversations.
        #[arg(long, default_value_t = 20_000)]
        conversations: u64,
        /// The seed of the first one; the next has the next seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Compares time.
    Speed {
        /// Seconds a measurement.
        #[arg(long, default_value_t = 5.0)]
        budget: f64,
    },
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let encoders = Encoders::open(&arguments.ranks.unwrap_or_else(ranks))?;
    let (report, outcome) = match arguments.command {
        Mode::Compare { conversations, seed } => compare::compare(&encoders, seed, conversations),
        Mode::Speed { budget } => (speed::speed(&encoders, budget)?, Ok(())),
    };
    match arguments.write {
        Some(page) => write(&page, &format!("{}\n{report}", about()))?,
        None => println!("{report}"),
    }
    outcome
}

fn ranks() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tokenizer/tests/tiny.tiktoken");
    std::env::var_os("KIMI_XTML_DATA").map_or(own, |data| PathBuf::from(data).join("data/kimi/tiktoken.model"))
}

/// When, how and where it was measured.
fn about() -> String {
    let said = |program: &str, argument: &str| {
        let output = Command::new(program).arg(argument).output().ok();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    };
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu =
        cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.contains('/')).collect();
    let command = arguments.join(" ").replace("--write ", "");
    let rustc = said("rustc", "-V");
    format!(
        "Run on {} with `compare/prompts/run {command}` on {cpu}, {cores} cores, {rustc}, release profile.\n",
        said("date", "+%F")
    )
}

/// Writes what stands between the two marks of a page.
fn write(page: &Path, report: &str) -> anyhow::Result<()> {
    let (begin, end) = ("<!-- prompts -->\n", "<!-- end of prompts -->");
    let old = std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let marked = || format!("{} has no {begin:?} and {end:?}", page.display());
    let (before, rest) = old.split_once(begin).with_context(marked)?;
    let (_, after) = rest.split_once(end).with_context(marked)?;
    std::fs::write(page, format!("{before}{begin}{report}{end}{after}"))?;
    Ok(())
}
