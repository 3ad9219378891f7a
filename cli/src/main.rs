//! `kimi-xtml`: the command line.
//!
//! In: arguments. Out: what a command prints, and its exit code: 0, or 1 where a check failed, or 2 for arguments and files
//! that cannot be used, with one message that says what, where, and what to do. A reader that leaves early is no fault.

mod args;
mod commands;
mod progress;

use std::io;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Parser;

use kimi_xtml_cli::show;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    let result = match &Args::parse().command {
        Command::Parse(args) => commands::parse::run(args),
        Command::ParseBatch(args) => commands::parse_batch::run(args),
        Command::Check(args) => commands::check::run(args),
        Command::Inspect(args) => commands::inspect::run(args),
        Command::Replay(args) => commands::replay::run(args),
        Command::Record(args) => commands::record::run(args),
        Command::Prompt(args) => commands::prompt::run(args),
    };
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            const RED: Style = AnsiColor::Red.on_default().bold();
            // It may have names of files and text of theirs in it.
            anstream::eprintln!("{RED}error:{RED:#} {}", show::lines(&format!("{error:#}")));
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe))
}
