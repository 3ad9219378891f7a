//! `parse-batch`: a file of outputs in; a file of rows out, in order.
//!
//! Rows are written in parts of so many, each whole or not there, into a folder beside the file; a run that was stopped goes on
//! after the last part. When all are there they become the file. Held: the outputs and rows of one part.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::Context;
use kimi_xtml::Request;
use kimi_xtml_batch::{Opened, Output, Reader, in_parallel};
use kimi_xtml_cli::cases::{self, is_stdin};
use kimi_xtml_cli::lines;
use serde_json::Value;

use crate::args::{BatchOpened, CallIds, ParseBatchArgs};
use crate::progress::Progress;

/// Outputs of one part, and bytes of lines after which it ends.
const ROWS: usize = 8192;
const BYTES: usize = 64 << 20;
/// Outputs that a thread takes at a time.
const SHARE: usize = 64;

pub(crate) fn run(args: &ParseBatchArgs) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(!is_stdin(&args.file), "parse-batch reads a file, so that it can go on after it was stopped");
    let size = fs::metadata(&args.file).with_context(|| format!("cannot read {}", cases::name(&args.file)))?.len();
    let parts = Parts::open(args, size)?;
    let mut progress = Progress::new(size as usize, "bytes", true);
    let mut lines = lines::open(&args.file)?.peekable();
    let (mut done, mut resumed, mut part) = (0, 0, 0);
    while lines.peek().is_some() {
        let (mut outputs, mut bytes) = (Vec::new(), 0);
        while outputs.len() < ROWS && bytes < BYTES {
            let Some(line) = lines.next().transpose()? else { break };
            bytes += line.1.len();
            outputs.push(line);
        }
        if parts.has(part) {
            resumed += outputs.len();
        } else {
            parts.write(part, &rows(args, &outputs)?)?;
        }
        done += outputs.len();
        part += 1;
        progress.advance(bytes);
    }
    anyhow::ensure!(done > 0, "no output in {}: nothing was written", cases::name(&args.file));
    drop(progress);
    parts.join(part, &args.output)?;
    let resumed = if resumed > 0 { format!(", {resumed} of them by a run before") } else { String::new() };
    anstream::eprintln!("{done} rows{resumed}");
    Ok(ExitCode::SUCCESS)
}

/// The rows of these lines, each a line.
fn rows(args: &ParseBatchArgs, lines: &[(usize, Vec<u8>)]) -> anyhow::Result<Vec<Vec<u8>>> {
    let threads = args.threads.map_or_else(|| thread::available_parallelism().map_or(1, Into::into), Into::into);
    let shares: Vec<_> = lines.chunks(SHARE).collect();
    let start = || reader(args);
    let read = |reader: &mut Reader, share: &&[(usize, Vec<u8>)]| {
        let mut rows = Vec::new();
        for (line, bytes) in *share {
            let read = output(bytes, &args.column);
            let (text, reason) =
                read.map_err(|fault| anyhow::anyhow!("{}, line {line}: {fault}", cases::name(&args.file)))?;
            let row = reader.read(&Output::Text(text.into()), reason.as_deref().unwrap_or(&args.finish));
            serde_json::to_writer(&mut rows, &row)?;
            rows.push(b'\n');
        }
        anyhow::Ok(rows)
    };
    in_parallel(&shares, threads, start, read).into_iter().collect()
}

fn reader(args: &ParseBatchArgs) -> Reader {
    let (known, opened) = match args.request.opened {
        BatchOpened::Known(opened) => (opened.channel(), Opened::Known),
        BatchOpened::Auto => (None, Opened::Auto),
    };
    let request = Request::new().opened(known).tools(args.request.tools.clone());
    Reader::new(request, opened).numbered((args.call_ids == CallIds::Numbered).then_some(0))
}

/// A line's output, and its finish reason if it has one.
fn output(line: &[u8], column: &str) -> Result<(String, Option<String>), String> {
    match serde_json::from_slice(line).map_err(|error| error.to_string())? {
        Value::String(text) => Ok((text, None)),
        Value::Object(mut members) => {
            let reason = match members.remove("finish_reason") {
                None | Some(Value::Null) => None,
                Some(Value::String(reason)) => Some(reason),
                Some(_) => return Err("finish_reason is no string".into()),
            };
            match members.remove(column) {
                Some(Value::String(text)) => Ok((text, reason)),
                Some(_) => Err(format!("{column} is no string")),
                None => Err(format!("it has no {column}\n--column names the member that has the output.")),
            }
        }
        _ => Err("a JSON string or object is expected".into()),
    }
}

/// The folder of what is done.
struct Parts(PathBuf);

impl Parts {
    /// The folder of this command. One of another command's, or of an input that has changed since, is not gone on with.
    fn open(args: &ParseBatchArgs, size: u64) -> anyhow::Result<Self> {
        let mut folder = args.output.clone().into_os_string();
        folder.push(".parts");
        let parts = Parts(folder.into());
        let changed = fs::metadata(&args.file).and_then(|file| file.modified()).ok();
        let plan = format!(
            "{:?} {size} {changed:?} {:?} {:?} {} {} {:?}\n",
            args.file, args.request.opened, args.request.tools, args.column, args.finish, args.call_ids
        );
        fs::create_dir_all(&parts.0).with_context(|| format!("cannot write {}", parts.0.display()))?;
        match fs::read_to_string(parts.0.join("plan")) {
            Ok(begun) => anyhow::ensure!(
                begun == plan,
                "{} was begun with other options, or for an input that has changed since\nRemove it to begin anew.",
                parts.0.display()
            ),
            Err(_) => parts.put("plan", &[plan.into_bytes()])?,
        }
        Ok(parts)
    }

    fn part(&self, number: usize) -> PathBuf {
        self.0.join(format!("{number:06}"))
    }

    fn has(&self, number: usize) -> bool {
        self.part(number).exists()
    }

    fn write(&self, number: usize, rows: &[Vec<u8>]) -> anyhow::Result<()> {
        self.put(&format!("{number:06}"), rows)
    }

    /// Writes a file that is whole once it has its name.
    fn put(&self, name: &str, parts: &[Vec<u8>]) -> anyhow::Result<()> {
        let unfinished = self.0.join("unfinished");
        write(&unfinished, parts)
            .and_then(|()| fs::rename(&unfinished, self.0.join(name)))
            .with_context(|| format!("cannot write {}", self.0.display()))
    }

    /// All parts become the file.
    fn join(self, parts: usize, file: &Path) -> anyhow::Result<()> {
        let whole = self.0.join("unfinished");
        let joined = || {
            let mut out = BufWriter::new(File::create(&whole)?);
            for part in 0..parts {
                io::copy(&mut File::open(self.part(part))?, &mut out)?;
            }
            out.into_inner()?.sync_all()?;
            fs::rename(&whole, file)?;
            fs::remove_dir_all(&self.0)
        };
        joined().with_context(|| format!("cannot write {}", file.display()))
    }
}

fn write(file: &Path, parts: &[Vec<u8>]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    parts.iter().try_for_each(|part| out.write_all(part))?;
    out.into_inner()?.sync_all()
}
