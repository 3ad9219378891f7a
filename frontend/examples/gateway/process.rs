//! The processes: the program, and the engine.
//!
//! In: arguments. Out: where a process listens, what it uses. Held: the process, until it is dropped.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;

pub(crate) struct Process {
    child: Child,
    pub(crate) url: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Process {
    /// The program before this engine. It must have been built before.
    pub(crate) fn frontend(engine: &str) -> anyhow::Result<Process> {
        let examples = std::env::current_exe()?;
        let program = examples.parent().and_then(Path::parent).context("no directory")?.join("kimi-xtml-frontend");
        let mut command = Command::new(&program);
        command.args(["--port", "0", "--log-level", "error", "--upstream", engine]);
        Process::start(command).with_context(|| format!("cannot start {}: build it first", program.display()))
    }

    /// The engine: tokens a second of each stream, tokens of a stream.
    pub(crate) fn engine(port: u16, rate: f64, tokens: u64) -> anyhow::Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([
            "engine",
            "--port",
            &port.to_string(),
            "--rate",
            &rate.to_string(),
            "--tokens",
            &tokens.to_string(),
        ]);
        Process::start(command)
    }

    fn start(mut command: Command) -> anyhow::Result<Process> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let url = line.trim().strip_prefix("listening on ").map(str::to_owned);
        let mut process = Process { child, url: String::new() };
        process.url = url.context("it does not listen")?;
        Ok(process)
    }

    pub(crate) fn port(&self) -> anyhow::Result<u16> {
        Ok(self.url.rsplit(':').next().context("no port")?.parse()?)
    }

    /// CPU seconds used.
    pub(crate) fn cpu(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields = stat.rsplit_once(')').context("no process")?.1.split_ascii_whitespace();
        let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse().unwrap_or(0u64)).sum();
        Ok(ticks as f64 / 100.0)
    }

    /// Resident memory, in KiB.
    pub(crate) fn memory(&self) -> anyhow::Result<i64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no memory")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
    }

    /// Open files, sockets among them.
    pub(crate) fn files(&self) -> anyhow::Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count())
    }
}
