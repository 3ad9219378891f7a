//! Many streams at once, of the engine directly, and of the same engine through the program.
//!
//! In: how many, how fast, how long. Out: a table: tokens a second, first tokens, times between tokens, how old a token is
//! when it comes; what the program used for it. Held: the times of each stream.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::future::try_join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::engine::micros;
use crate::process::Process;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Streams at once
    #[arg(long, default_value_t = 1000)]
    streams: usize,
    /// Tokens a second of each
    #[arg(long, default_value_t = 13.0)]
    rate: f64,
    /// How long each lasts, in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

/// What one stream saw, in microseconds.
#[derive(Default)]
struct Seen {
    first: Vec<u64>,
    between: Vec<u64>,
    ages: Vec<u64>,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let tokens = (args.rate * args.seconds as f64) as u64;
    let engine = Process::engine(0, args.rate, tokens)?;
    let frontend = Process::frontend(&engine.url)?;
    println!(
        "{} streams at once, {} tokens/s each, {} s; ms: median, 99th of a hundred, most",
        args.streams, args.rate, args.seconds
    );
    println!("| | tokens/s | first token | between tokens | age of a token when it comes |\n|---|---:|---:|---:|---:|");
    let direct = r#"{"model":"kimi-k3","prompt":"count","stream":true}"#;
    row("the engine", &all(args, &engine.url, "/v1/completions", direct, tokens).await?, args, tokens);
    let chat = r#"{"model":"kimi-k3","messages":[{"role":"user","content":"count"}],"stream":true}"#;
    let (cpu, memory, started) = (frontend.cpu()?, frontend.memory()?, Instant::now());
    let half = async {
        tokio::time::sleep(Duration::from_secs(args.seconds) / 2).await;
        frontend.memory()
    };
    let (seen, then) = tokio::try_join!(all(args, &frontend.url, "/v1/chat/completions", chat, tokens), half)?;
    let (used, took) = (frontend.cpu()? - cpu, started.elapsed().as_secs_f64());
    row("through the frontend", &seen, args, tokens);
    let all = args.streams as f64;
    println!(
        "\nThe frontend: {:.0} % of one core, {:.1} us a token, {:.1} KiB a stream with both its connections",
        100.0 * used / took,
        1e6 * used / (all * tokens as f64),
        (then - memory) as f64 / all
    );
    Ok(())
}

async fn all(args: &Args, url: &str, path: &str, body: &str, tokens: u64) -> anyhow::Result<Seen> {
    let streams = (0..args.streams).map(|_| listen(url, path, body, tokens));
    let mut seen = Seen::default();
    for one in try_join_all(streams).await? {
        seen.first.extend(one.first);
        seen.between.extend(one.between);
        seen.ages.extend(one.ages);
    }
    Ok(seen)
}

/// Reads one stream; every token of it must come.
async fn listen(url: &str, path: &str, body: &str, tokens: u64) -> anyhow::Result<Seen> {
    let address = url.strip_prefix("http://").context("no URL")?;
    let started = Instant::now();
    let mut connection = TcpStream::connect(address).await?;
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n");
    connection.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    let (mut seen, mut buffer, mut last, mut came) = (Seen::default(), Vec::with_capacity(1 << 14), None, 0);
    loop {
        let open = connection.read_buf(&mut buffer).await? > 0;
        let now = Instant::now();
        let mut at = 0;
        while let Some(end) = find(&buffer[at..], b"}\n\n") {
            if let Some(made) = stamp(&buffer[at..at + end]) {
                came += 1;
                seen.ages.push(micros().saturating_sub(made));
                match last.replace(now) {
                    None => seen.first.push(started.elapsed().as_micros() as u64),
                    Some(last) => seen.between.push((now - last).as_micros() as u64),
                }
            }
            at += end + 3;
        }
        if !open {
            let done = find(&buffer, b"data: [DONE]").is_some();
            ensure!(
                done && came == tokens - 1,
                "{came} of {} tokens came: {}",
                tokens - 1,
                String::from_utf8_lossy(&buffer)
            );
            return Ok(seen);
        }
        buffer.drain(..at);
    }
}

/// The time that a token says.
fn stamp(frame: &[u8]) -> Option<u64> {
    let at = find(frame, b"\":\" ")? + 4;
    str::from_utf8(&frame[at..at + 16]).ok()?.parse().ok()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn row(name: &str, seen: &Seen, args: &Args, tokens: u64) {
    let rate = (args.streams as u64 * (tokens - 1)) as f64 * 1e6
        / (seen.between.iter().sum::<u64>() as f64 / args.streams as f64);
    println!("| {name} | {rate:.0} | {} | {} | {} |", three(&seen.first), three(&seen.between), three(&seen.ages));
}

/// Median, 99th of a hundred, most; in milliseconds.
fn three(micros: &[u64]) -> String {
    let mut sorted = micros.to_vec();
    sorted.sort_unstable();
    let at = |share: f64| {
        sorted.get(((sorted.len() as f64 - 1.0) * share) as usize).map_or(0.0, |&micros| micros as f64 / 1000.0)
    };
    format!("{:.1}, {:.1}, {:.1}", at(0.5), at(0.99), at(1.0))
}
