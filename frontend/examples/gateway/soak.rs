//! Clients that stay, leave and ask in all ways, before an engine that answers, fails, breaks off and is killed.
//!
//! In: how many clients, how long. Out: how requests ended, memory and open files over time; an error if a stream ended
//! otherwise than its engine did, if one stuck, or if something is left when all have gone. Held: the counts.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::engine::SHORT;
use crate::process::Process;

/// A request that takes longer is stuck.
const STUCK: Duration = Duration::from_secs(30);
/// Memory may have grown by so much, in KiB, when all have gone.
const KIB: i64 = 8 << 10;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// How long
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Clients at once
    #[arg(long, default_value_t = 100)]
    clients: usize,
    /// Seconds after which the engine is killed, again and again
    #[arg(long, default_value_t = 20)]
    kill: u64,
}

/// What is shared.
struct Soak {
    frontend: Process,
    client: reqwest::Client,
    until: Instant,
    /// The engine is not there, or was not a moment ago.
    down: AtomicBool,
    ends: Mutex<BTreeMap<String, u64>>,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let mut engine = Process::engine(0, 50.0, 200)?;
    let (port, health) = (engine.port()?, format!("{}/running", engine.url));
    let soak = Soak {
        frontend: Process::frontend(&engine.url)?,
        client: reqwest::Client::new(),
        until: Instant::now() + Duration::from_secs(args.seconds),
        down: AtomicBool::new(false),
        ends: Mutex::default(),
    };
    let killer = async {
        let mut at = Instant::now();
        let mut settled = None;
        while Instant::now() < soak.until {
            sleep(Duration::from_secs(1)).await;
            let memory = soak.frontend.memory()?;
            if at.elapsed().as_secs() >= args.kill {
                println!(
                    "{:5.0} s left: {memory} KiB, {} files; the engine is killed",
                    (soak.until - Instant::now().min(soak.until)).as_secs_f64(),
                    soak.frontend.files()?
                );
                soak.down.store(true, Ordering::Relaxed);
                drop(std::mem::replace(&mut engine, Process::engine(0, 50.0, 200)?));
                sleep(Duration::from_secs(1)).await;
                engine = Process::engine(port, 50.0, 200)?;
                sleep(Duration::from_secs(2)).await;
                soak.down.store(false, Ordering::Relaxed);
                settled = settled.or(Some(memory)); // warm after the first round
                at = Instant::now();
            }
        }
        Ok::<Option<i64>, anyhow::Error>(settled)
    };
    let clients = try_join_all((0..args.clients).map(|number| client(&soak, number)));
    let (settled, _) = tokio::try_join!(killer, clients)?;
    for (end, times) in &*soak.ends.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
        println!("{times:8} {end}");
    }
    drop(soak.client);
    sleep(Duration::from_secs(2)).await; // what left has a second to stop
    let running: usize = reqwest::get(&health).await?.text().await?.parse()?;
    let metrics = reqwest::get(format!("{}/metrics", soak.frontend.url)).await?.text().await?;
    let ours = metrics.lines().find_map(|line| line.strip_prefix("kimi_xtml_requests_running "));
    let (memory, files) = (soak.frontend.memory()?, soak.frontend.files()?);
    println!("at the end: {memory} KiB, {files} files, {} requests run, {running} in the engine", ours.unwrap_or("?"));
    ensure!(ours == Some("0") && running == 0, "something runs for nobody");
    if let Some(settled) = settled {
        ensure!(memory <= settled + KIB, "memory grew from {settled} KiB to {memory} KiB");
    }
    Ok(())
}

/// One client: a request after the other.
async fn client(soak: &Soak, number: usize) -> anyhow::Result<()> {
    let mut random = fastrand::Rng::with_seed(number as u64);
    while Instant::now() < soak.until {
        let was_down = soak.down.load(Ordering::Relaxed);
        let words = match random.u32(..10) {
            0 => format!("die-{}", random.u64(1..SHORT)),
            1 => format!("fail-{}", random.u64(1..SHORT)),
            2 => "refuse".to_owned(),
            3 => "long".to_owned(),
            _ => "short".to_owned(),
        };
        let stream = random.u32(..4) > 0;
        let leaves = (words == "long" || random.u32(..4) == 0).then(|| Duration::from_millis(random.u64(..600)));
        let asked = request(soak, random.usize(..3), &words, stream);
        let answered = timeout(STUCK, async {
            match leaves {
                Some(after) => timeout(after, asked).await.unwrap_or(Ok("left")),
                None => asked.await,
            }
        });
        let Ok(end) = answered.await else { bail!("`{words}`, stream {stream}: stuck") };
        let end = end.unwrap_or("connection broken");
        let expected = match &*words {
            _ if end == "left" || was_down || soak.down.load(Ordering::Relaxed) => true,
            "short" | "long" => end == "whole",
            _ => end == "error",
        };
        ensure!(expected, "`{words}`, stream {stream}: {end}");
        let kind = words.split('-').next().unwrap_or_default();
        let end = format!("{kind}, {}: {end}", if stream { "streamed" } else { "whole" });
        *soak.ends.lock().unwrap_or_else(std::sync::PoisonError::into_inner).entry(end).or_default() += 1;
        if was_down {
            sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// Asks through one of the APIs. Gives how the answer ended.
async fn request(soak: &Soak, api: usize, words: &str, stream: bool) -> anyhow::Result<&'static str> {
    let messages = json!([{"role": "user", "content": words}]);
    let (path, body, end) = match api {
        0 => ("chat/completions", json!({"model": "kimi-k3", "messages": messages, "stream": stream}), "data: [DONE]"),
        1 => (
            "messages",
            json!({"model": "kimi-k3", "messages": messages, "stream": stream, "max_tokens": 999}),
            "message_stop",
        ),
        _ => ("responses", json!({"model": "kimi-k3", "input": words, "stream": stream}), "response.completed"),
    };
    let url = format!("{}/v1/{path}", soak.frontend.url);
    let asked = soak.client.post(url).header("content-type", "application/json").body(body.to_string());
    let answer = asked.send().await?;
    let status = answer.status();
    let (mut text, mut chunks) = (Vec::new(), answer.bytes_stream());
    while let Some(chunk) = chunks.next().await {
        text.extend_from_slice(&chunk?);
    }
    let text = String::from_utf8_lossy(&text);
    let failed = if stream { !text.contains(end) && text.contains("error") } else { is_failure(&text) };
    Ok(match (status.is_success(), failed) {
        (false, _) | (true, true) => "error",
        (true, false) if !stream || text.contains(end) => "whole",
        (true, false) => "cut without a word",
    })
}

/// Whether a whole answer says that it is none.
fn is_failure(text: &str) -> bool {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    body["error"].is_object() || body["status"] == "failed"
}
