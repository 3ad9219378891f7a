//! Captures of a live server -> cases.
//!
//! In: raw text deltas, as JSON lines (a string; an object with `text` and perhaps `token_ids`; a Completions chunk) or as the
//! server-sent events of a completions endpoint. Out: a case for each choice of each stream, its deltas as they came; what
//! should have come of it is not known. A stream ends with `[DONE]`, or with the file.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use serde::Deserialize;

use crate::cases::{Case, Context, json_reason};
use crate::record;

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Text(String),
    Chunk { choices: Vec<Choice> },
    Delta(Choice),
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: usize,
    text: String,
    #[serde(alias = "ids")]
    token_ids: Option<Vec<u32>>,
    finish_reason: Option<String>,
}

#[derive(Default)]
struct Stream {
    chunks: Vec<String>,
    ids: Option<Vec<Vec<u32>>>,
    reason: Option<String>,
}

/// Reads a capture; `context` is the request that was made.
///
/// # Errors
/// If the file cannot be read, or a line is none of these.
pub fn read(file: &Path, context: &Context) -> anyhow::Result<Vec<Case>> {
    read_from(&record::bytes(file)?, &crate::cases::name(file), &record::stem(file, "capture"), context)
}

/// Reads the capture `bytes`, which messages call `name`; its cases' ids begin with `stem`.
pub(crate) fn read_from(bytes: &[u8], name: &str, stem: &str, context: &Context) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut streams = BTreeMap::<usize, Stream>::new();
    for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        let line = std::str::from_utf8(line).with_context(|| format!("{name}, line {number}: no UTF-8"))?.trim();
        let json = match line.strip_prefix("data:") {
            Some(data) => data.trim(),
            // Other fields of server-sent events, and comments.
            None if ["event:", "id:", "retry:", ":"].iter().any(|field| line.starts_with(field)) => continue,
            None => line,
        };
        if json == "[DONE]" {
            finish(&mut streams, &mut cases, stem, context);
            continue;
        }
        if json.is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(json).map_err(|error| {
            let wanted = "no text delta (a string, or an object with text or choices)";
            anyhow!("{name}, line {number}: {wanted}: {}", json_reason(&error))
        })?;
        let choices = match line {
            Line::Text(text) => vec![Choice { index: 0, text, token_ids: None, finish_reason: None }],
            Line::Chunk { choices } => choices,
            Line::Delta(delta) => vec![delta],
        };
        for choice in choices {
            let stream = streams.entry(choice.index).or_default();
            if stream.chunks.is_empty() {
                stream.ids = choice.token_ids.is_some().then(Vec::new);
            }
            // Ids help only if every delta has them.
            stream.ids = stream.ids.take().zip(choice.token_ids).map(|(mut ids, more)| {
                ids.push(more);
                ids
            });
            stream.chunks.push(choice.text);
            stream.reason = choice.finish_reason.or(stream.reason.take());
        }
    }
    finish(&mut streams, &mut cases, stem, context);
    anyhow::ensure!(!cases.is_empty(), "{name}: no text deltas");
    Ok(cases)
}

fn finish(streams: &mut BTreeMap<usize, Stream>, cases: &mut Vec<Case>, stem: &str, context: &Context) {
    for stream in std::mem::take(streams).into_values() {
        let mut context = context.clone();
        if let Some(reason) = stream.reason {
            context.engine_finish_reason = reason;
        }
        cases.push(Case {
            id: format!("{stem}-{}", cases.len() + 1),
            kind: "captured".into(),
            context,
            chunks: Some(stream.chunks),
            ids: stream.ids,
            ..Case::default()
        });
    }
}
