//! Load: many paced streams at once, each checked token by token.
//!
//! In: how many streams, tokens a second, seconds. Out: whether a frame was lost or out of order, what the server used, and
//! what of that the parser did. The server is a process of its own, with an engine that counts and holds nothing.
//!
//!     cargo run --release -p kimi-xtml-frontend --example load -- --streams 500 --rate 200 --seconds 20

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, try_join_all};
use kimi_xtml::{Channel, Extras, Frames, IdPolicy};
use kimi_xtml_frontend::App;
use kimi_xtml_frontend::admit::Spec;
use kimi_xtml_frontend::engine::{Chunk, Engine, EngineError, Generation, Job, Step, Steps};
use kimi_xtml_frontend::turn::Turn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep_until;

/// Tokens of reasoning before the answer.
const REASONING: u64 = 100;

#[derive(Clone, Debug, Parser)]
struct Args {
    /// Streams at once
    #[arg(long, default_value_t = 500)]
    streams: usize,
    /// Tokens a second of each
    #[arg(long, default_value_t = 200)]
    rate: u64,
    /// How long each lasts
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Tokens of a step
    #[arg(long, default_value_t = 1)]
    group: u64,
    /// Be the server (the program starts itself so)
    #[arg(long, hide = true)]
    serve: bool,
}

/// Counts, as fast as it is told to.
struct Counting(Args);

impl Engine for Counting {
    fn start(&self, _: Job, _: usize) -> BoxFuture<'_, Result<Vec<Generation>, EngineError>> {
        let Args { rate, seconds, group, .. } = self.0;
        Box::pin(async move {
            let steps = async_stream::stream! {
                let started = tokio::time::Instant::now();
                for first in (0..rate * seconds).step_by(group as usize) {
                    sleep_until(started + Duration::from_secs_f64(first as f64 / rate as f64)).await;
                    yield Ok(Step { chunks: (first..first + group).map(token).collect(), ..Step::default() });
                }
                yield Ok(Step { chunks: closing(), end: Some("stop".into()), ..Step::default() });
            };
            Ok(vec![generation(Box::pin(steps))])
        })
    }
}

fn generation(steps: Steps) -> Generation {
    Generation { prompt_tokens: 1, cached_tokens: 0, counted: true, opened: Some(Channel::Think), steps }
}

fn token(number: u64) -> Chunk {
    match number {
        REASONING => {
            chunk("<|close|>think<|sep|><|open|>response<|sep|>", &[163_588, 39_964, 163_589, 163_587, 12_092, 163_589])
        }
        _ => chunk(&format!(" {number}"), &[1_000]),
    }
}

fn closing() -> Vec<Chunk> {
    vec![chunk(
        "<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>",
        &[163_588, 12_092, 163_589, 163_588, 2_778, 163_589, 163_586],
    )]
}

fn chunk(text: &str, ids: &[u32]) -> Chunk {
    Chunk::Tokens { text: text.into(), ids: ids.into(), logprobs: Vec::new() }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if args.serve {
        return tokio::runtime::Runtime::new()?.block_on(serve(args));
    }
    let mut child = start(&args)?;
    let result = run(&args, &mut child);
    child.kill()?;
    child.wait()?;
    result
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    Ok(App::new(Arc::new(Counting(args)), "kimi-k3").serve(listener).await?)
}

fn start(args: &Args) -> anyhow::Result<Child> {
    let numbers = [("--rate", args.rate), ("--seconds", args.seconds), ("--group", args.group)];
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--serve").args(numbers.into_iter().flat_map(|(name, number)| [name.to_owned(), number.to_string()]));
    Ok(command.stdout(Stdio::piped()).spawn()?)
}

fn run(args: &Args, child: &mut Child) -> anyhow::Result<()> {
    let mut address = String::new();
    BufReader::new(child.stdout.take().context("the server has no output")?).read_line(&mut address)?;
    let address = address.trim().to_owned();
    let client = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    client.block_on(listen(&address, 1, 0))?; // warm
    let (memory_before, cpu_before) = (memory(child.id())?, cpu(child.id())?);
    let started = Instant::now();
    let (frames, memory) = client.block_on(async {
        let streams = (0..args.streams).map(|_| listen(&address, args.rate * args.seconds, args.rate));
        let half = async {
            tokio::time::sleep(Duration::from_secs(args.seconds) / 2).await;
            memory(child.id())
        };
        tokio::try_join!(async { Ok(try_join_all(streams).await?.into_iter().sum::<u64>()) }, half)
    })?;
    let took = started.elapsed().as_secs_f64();
    let used = cpu(child.id())? - cpu_before;
    let (parsing, writing) = alone(args);
    let all = |one: f64| one * args.streams as f64;
    println!(
        "{} streams of {} tokens/s for {} s: {frames} frames in {took:.1} s, none lost or out of order",
        args.streams, args.rate, args.seconds
    );
    println!("server CPU: {used:.2} s ({:.0} % of one core)", 100.0 * used / took);
    println!(
        "  parsing: {:.2} s, {:.1} % of it ({:.2} us a token)",
        all(parsing),
        100.0 * all(parsing) / used,
        1e6 * parsing / (args.rate * args.seconds) as f64
    );
    println!("  writing frames: {:.2} s, {:.1} % of it", all(writing), 100.0 * all(writing) / used);
    println!(
        "memory of a stream: {:.1} KiB, its connection and its task counted",
        (memory - memory_before) as f64 / args.streams as f64
    );
    Ok(())
}

/// Reads one stream and checks it. Gives its frames.
async fn listen(address: &str, tokens: u64, rate: u64) -> anyhow::Result<u64> {
    let body = r#"{"model":"kimi-k3","stream":true,"messages":[{"role":"user","content":"count"}]}"#;
    let mut connection = TcpStream::connect(address).await?;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length:";
    connection.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    let mut buffer = Vec::with_capacity(1 << 16);
    let (mut frames, mut next) = (0, 0);
    loop {
        let open = connection.read_buf(&mut buffer).await? > 0;
        let mut at = 0;
        while let Some(end) = find(&buffer[at..], b"}\n\n") {
            let frame = &buffer[at..at + end];
            at += end + 3;
            frames += 1;
            // A step of several tokens has them in one frame.
            if let Some(text) = text(frame) {
                for number in text.split_ascii_whitespace() {
                    next += u64::from(next == REASONING); // that token was markup
                    anyhow::ensure!(number.parse() == Ok(next), "token {next} came as {number}");
                    next += 1;
                }
            }
        }
        if !open {
            let done = find(&buffer, b"data: [DONE]").is_some();
            anyhow::ensure!(done && (next == tokens || rate == 0), "the stream ended at token {next} of {tokens}");
            return Ok(frames);
        }
        buffer.drain(..at);
        if rate == 0 && next > 0 {
            return Ok(frames);
        }
    }
}

/// The text that a frame adds.
fn text(frame: &[u8]) -> Option<&str> {
    let start = ["\"content\":\"", "\"reasoning_content\":\""]
        .iter()
        .find_map(|key| Some(find(frame, key.as_bytes())? + key.len()))?;
    let end = find(&frame[start..], b"\"")?;
    str::from_utf8(&frame[start..start + end]).ok()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Seconds that one stream's parsing, and the writing of its frames, take without a server; reading the clock is in them.
fn alone(args: &Args) -> (f64, f64) {
    const TIMES: usize = 100;
    let tokens = args.rate * args.seconds;
    let steps = || {
        (0..tokens)
            .step_by(args.group as usize)
            .map(|first| Step { chunks: (first..first + args.group).map(token).collect(), ..Step::default() })
    };
    let mut out = bytes::BytesMut::new();
    let (mut parsing, mut writing) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..TIMES {
        let steps: Vec<Step> = steps().collect();
        let generation = generation(futures_util::stream::empty().boxed());
        let (turn, _) = Turn::new(&Spec::default(), generation, IdPolicy::numbered(0), false);
        let mut turn = turn.without_message();
        let mut choice = Frames::new("chatcmpl-0123456789abcdef01234567", 1_790_000_000, "kimi-k3").choice(0);
        for step in steps {
            let began = Instant::now();
            turn.take(step);
            let parsed = Instant::now();
            turn.deltas().for_each(|(delta, _)| choice.delta(delta, Extras::default(), &mut out));
            out.clear();
            turn.clear();
            parsing += parsed - began;
            writing += parsed.elapsed();
        }
    }
    let one = |sum: Duration| sum.as_secs_f64() / TIMES as f64;
    (one(parsing), one(writing))
}

/// CPU seconds that a process has used.
fn cpu(process: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields = stat.rsplit_once(')').context("no process")?.1.split_ascii_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse().unwrap_or(0u64)).sum();
    Ok(ticks as f64 / 100.0)
}

/// Memory that a process holds, in KiB.
fn memory(process: u32) -> anyhow::Result<i64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no memory")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}
