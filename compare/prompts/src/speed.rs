//! Time: body to prompt, conversation to pieces, pieces to ids, on one core.
//!
//! In: an agent's session of 2 MB, and texts of 10 MB that provoke. Out: tables. An answer that is not the others' has no time.
//! What counts is the best of all rounds.

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use kimi_xtml::{Conversation, encode};
use kimi_xtml_benches::Body;
use llm_tokenizer::PromptEncoding;

use crate::peers::{Encoders, Peer, Request};

/// Seconds of the best round.
fn best<T>(budget: f64, mut round: impl FnMut() -> T) -> f64 {
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    loop {
        let start = Instant::now();
        black_box(round());
        best = best.min(start.elapsed().as_secs_f64());
        if begin.elapsed() > Duration::from_secs_f64(budget) {
            return best;
        }
    }
}

/// The tables.
pub(crate) fn speed(encoders: &Encoders, budget: f64) -> anyhow::Result<String> {
    let body = Body::agent(2_000_000);
    body.check().map_err(anyhow::Error::msg)?;
    let ours = encoders.ours(&body.json)?;
    for peer in Peer::ALL {
        let theirs = encoders.peer(peer, &body.json)?;
        ensure!((&ours.text, &ours.ids) == (&theirs.text, &theirs.ids), "{} has another answer", peer.name());
    }
    let megabytes = ours.text.len() as f64 / 1e6;
    let mut report = format!(
        "An agent's session with a prompt of {megabytes:.1} MB, {} ids; every answer is the same. **MB of prompt a second**, one core, best round.\n\n\
         | | body → pieces | conversation → pieces | pieces → ids |\n|---|---:|---:|---:|\n",
        ours.ids.len()
    );
    let mut row = |name: &str, seconds: [f64; 3]| {
        let rates = seconds.map(|seconds| rate(megabytes / seconds));
        let _ = writeln!(report, "| {name} | {} |", rates.join(" | "));
    };
    let conversation = Conversation::from_json(&body.json)?;
    let prompt = encode(&conversation)?;
    row(
        "kimi-xtml",
        [
            best(budget, || {
                let conversation = Conversation::from_json(&body.json).expect("it was checked");
                encode(&conversation).map(|prompt| prompt.pieces.len())
            }),
            best(budget, || encode(&conversation)),
            best(budget, || encoders.ours.encode_pieces(&prompt.pieces)),
        ],
    );
    let request = Request::read(&body.json)?;
    let smg = || request.smg_output(&encoders.smg).expect("it was checked");
    // Its output cannot be used twice: making another one is not measured.
    let ids = {
        let begin = Instant::now();
        let mut best = f64::INFINITY;
        while begin.elapsed().as_secs_f64() < budget {
            let PromptEncoding::Deferred(job) = smg().encoding else { continue };
            let start = Instant::now();
            black_box(job.run()?);
            best = best.min(start.elapsed().as_secs_f64());
        }
        best
    };
    row(
        Peer::Smg.name(),
        [
            best(budget, || Request::read(&body.json).and_then(|request| request.smg_text(&encoders.smg))),
            best(budget, || request.smg_text(&encoders.smg)),
            ids,
        ],
    );
    let rendered = request.dynamo()?;
    let segments = rendered.encode_segments().context("no segments")?;
    row(
        Peer::Dynamo.name(),
        [
            best(budget, || Request::read(&body.json).and_then(|request| request.dynamo())),
            best(budget, || request.dynamo()),
            best(budget, || encoders.dynamo.encode_segments(&segments)),
        ],
    );
    report += "\nTexts that provoke, in one user message: kimi-xtml, **MB a second** at 2.5 MB and at 10 MB, which are equal where time is linear.\n\n\
        | text | conversation → pieces | pieces → ids |\n|---|---:|---:|\n";
    for (name, text) in [("one letter", "a"), ("blanks", " "), ("line ends", "\n"), ("`<\\|open\\|>`", "<|open|>")] {
        let rates = [2_500_000, 10_000_000].map(|len| {
            let body = Body::repeated("text", text, len);
            body.check().map_err(anyhow::Error::msg)?;
            let conversation = Conversation::from_json(&body.json)?;
            let prompt = encode(&conversation)?;
            let megabytes = len as f64 / 1e6;
            let pieces = best(budget / 4.0, || encode(&conversation));
            let ids = best(budget / 2.0, || encoders.ours.encode_pieces(&prompt.pieces));
            Ok::<_, anyhow::Error>([pieces, ids].map(|seconds| rate(megabytes / seconds)))
        });
        let [short, long] = rates;
        let (short, long) = (short?, long?);
        let _ = writeln!(report, "| {name} | {}, {} | {}, {} |", short[0], long[0], short[1], long[1]);
    }
    Ok(report)
}

fn rate(megabytes: f64) -> String {
    if megabytes < 100.0 {
        return format!("{megabytes:.1}");
    }
    let digits = format!("{megabytes:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
