//! A parser in a process of its own: a stream a JSON line to it, what it said a JSON line back.
//!
//! The driver's first line tells the version that it found. Streams are written by a thread of their own, so that neither
//! side waits for the other with a full pipe.

use std::io::{BufRead, BufReader, BufWriter, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use kimi_xtml::Channel;
use serde::{Deserialize, Serialize};

use super::Peer;
use crate::heard::Heard;
use crate::stream::Stream;

#[derive(Serialize)]
struct Request<'a> {
    chunks: &'a [String],
    ids: Option<&'a [Vec<u32>]>,
    tools: &'a [String],
    opened: &'a str,
    reason: &'a str,
}

#[derive(Deserialize)]
struct Hello {
    version: String,
}

struct Process {
    child: Child,
    stdin: Option<BufWriter<ChildStdin>>,
    lines: Lines<BufReader<ChildStdout>>,
}

pub(crate) fn start(driver: &str, python: Option<&Path>, version: &str) -> Result<Box<dyn Peer>, String> {
    let python = python.ok_or_else(|| format!("no Python with {driver} was named (--{driver}-python)"))?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers").join(format!("{driver}_driver.py"));
    let mut child = Command::new(python)
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}", python.display()))?;
    let stdin = child.stdin.take().map(BufWriter::new);
    let stdout = child.stdout.take().ok_or("the driver has no output")?;
    let mut lines = BufReader::new(stdout).lines();
    let hello = lines.next().and_then(Result::ok).and_then(|line| serde_json::from_str::<Hello>(&line).ok());
    match hello {
        Some(hello) if hello.version == version => Ok(Box::new(Process { child, stdin, lines })),
        Some(hello) => Err(format!("{driver} {} is installed, {version} is compared", hello.version)),
        None => Err(format!("{driver} cannot be imported by {}", python.display())),
    }
}

impl Peer for Process {
    fn play(&mut self, streams: &[Stream]) -> Vec<Heard> {
        let Process { stdin, lines, .. } = self;
        let Some(mut input) = stdin.take() else {
            return vec![Heard::failed("its process is gone"); streams.len()];
        };
        let (input, heard) = std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                for stream in streams {
                    let opened = stream.opened.map_or("none", Channel::name);
                    let ids = stream.ids.as_deref();
                    let request =
                        Request { chunks: &stream.chunks, ids, tools: &stream.tools, opened, reason: &stream.reason };
                    serde_json::to_writer(&mut input, &request).ok()?;
                    input.write_all(b"\n").ok()?;
                }
                input.flush().ok()?;
                Some(input)
            });
            let mut heard = Vec::with_capacity(streams.len());
            for _ in streams {
                let line = lines.next().and_then(Result::ok);
                let said = line.and_then(|line| serde_json::from_str(&line).ok());
                heard.push(said.unwrap_or_else(|| Heard::failed("its process ended or answered with no JSON")));
            }
            (writer.join().ok().flatten(), heard)
        });
        *stdin = input;
        heard
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Without input the driver ends.
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
