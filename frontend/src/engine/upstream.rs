//! An engine behind HTTP: raw text completions, special tokens kept.
//!
//! In: a [`Job`]. Out: what the `/v1/completions` endpoint of vLLM and of its kin streams: text, and token ids and
//! log-probabilities where it gives them. Held: the beginning of an event.
//! The first event is awaited before the generation counts as begun, so that an upstream that refuses is an error
//! before the stream, and the prompt's tokens are known for the headers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::{Buf, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::once;
use futures_util::{Stream, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};

use kimi_xtml::Logprob;

use super::prompt::prompt;
use super::{Chunk, Engine, EngineError, Generation, Job, Step};
use crate::operate::record::Record;

/// The longest event that is read.
const MAX_EVENT: usize = 4 << 20;
/// How long an engine may take to say that it is well.
const HEALTH: Duration = Duration::from_secs(2);

/// The engine at a URL.
#[derive(Debug)]
pub struct Upstream {
    url: String,
    health: String,
    model: String,
    key: HeaderMap,
    client: reqwest::Client,
}

impl Upstream {
    /// The engine that serves `model` at `url`, with or without the path `/v1/completions`.
    pub fn new(url: &str, model: &str) -> Self {
        let base = url.trim_end_matches('/').trim_end_matches("/completions").trim_end_matches("/v1");
        let _ = rustls::crypto::ring::default_provider().install_default(); // an error: there is one
        let client = reqwest::Client::builder().tcp_nodelay(true).build().unwrap_or_default();
        let (url, health) = (format!("{base}/v1/completions"), format!("{base}/health"));
        Upstream { url, health, model: model.into(), key: HeaderMap::new(), client }
    }

    /// With the key that the engine wants.
    ///
    /// # Errors
    /// If no header can hold it.
    pub fn with_key(mut self, key: &str) -> Result<Self, axum::http::Error> {
        let mut value = HeaderValue::try_from(format!("Bearer {key}"))?;
        value.set_sensitive(true);
        self.key.insert(header::AUTHORIZATION, value);
        Ok(self)
    }

    fn body(&self, job: &Job) -> Value {
        let mut body = json!({
            "model": self.model,
            "prompt": prompt(job),
            "stream": true,
            "stream_options": {"include_usage": true, "continuous_usage_stats": true},
            "skip_special_tokens": false,
            "spaces_between_special_tokens": false,
            "return_token_ids": true,
        });
        for (key, value) in &job.sampling {
            body[key] = value.clone();
        }
        if let Some(max) = job.max_tokens {
            body["max_tokens"] = max.into();
        }
        if let Some(top) = job.logprobs {
            body["logprobs"] = top.into();
        }
        body
    }
}

impl Engine for Upstream {
    fn start(&self, job: Arc<Job>, _choice: usize) -> BoxFuture<'_, Result<Generation, EngineError>> {
        Box::pin(async move {
            let request = self.client.post(&self.url).header("content-type", "application/json");
            let request = request.headers(self.key.clone()).headers(Record::passed_on());
            let response = request.body(self.body(&job).to_string()).send().await.map_err(failed)?;
            let status = response.status();
            if !status.is_success() {
                let said = response.text().await.unwrap_or_default();
                let said: Value = serde_json::from_str(&said).unwrap_or(Value::String(said));
                let message = said.pointer("/error/message").or(said.get("message")).unwrap_or(&said);
                let message = format!("the engine said {status}: {}", message.as_str().unwrap_or("no reason"));
                let refused = status.is_client_error() && status.as_u16() != 404;
                return Err(if refused { EngineError::Refused(message) } else { EngineError::Failed(message) });
            }
            let mut events = Box::pin(events(response.bytes_stream()));
            let first = events.next().await.unwrap_or_else(|| Err(failed("the engine's stream is empty")))?;
            let usage = first.usage.clone().unwrap_or_default();
            let steps = once(async { Ok(first) }).chain(events).map(|event| event.map(Event::step));
            Ok(Generation {
                prompt_tokens: usage.prompt_tokens,
                cached_tokens: usage.prompt_tokens_details.unwrap_or_default().cached_tokens,
                opened: Some(job.opens()),
                steps: Box::pin(steps),
            })
        })
    }

    /// vLLM, SGLang and llama.cpp have a `/health`; an engine without one answers all the same.
    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let asked = self.client.get(&self.health).headers(self.key.clone()).timeout(HEALTH).send().await;
            match asked.map(|answer| answer.status()) {
                Ok(StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) => Ok(()),
                Ok(status) if status.is_success() => Ok(()),
                Ok(status) => Err(format!("the engine says {status}")),
                Err(_) => Err("the engine does not answer".into()),
            }
        })
    }
}

fn failed(error: impl std::fmt::Display) -> EngineError {
    EngineError::Failed(format!("the engine failed: {error}"))
}

/// An event of the upstream. What it leaves out is empty.
#[derive(Debug, Default, Deserialize)]
struct Event {
    #[serde(default)]
    choices: Vec<Completion>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Completion {
    #[serde(default)]
    text: String,
    token_ids: Option<Vec<u32>>,
    logprobs: Option<Logprobs>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Logprobs {
    #[serde(default)]
    tokens: Vec<String>,
    #[serde(default)]
    token_logprobs: Vec<Option<f64>>,
    top_logprobs: Option<Vec<Option<BTreeMap<String, f64>>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: u64,
    prompt_tokens_details: Option<Details>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: u64,
}

impl Event {
    fn step(self) -> Step {
        let mut step = Step::default();
        for completion in self.choices {
            step.end = completion.finish_reason.or(step.end);
            match completion.token_ids {
                Some(ids) if !ids.is_empty() => {
                    let logprobs = completion.logprobs.map(Logprobs::list).unwrap_or_default();
                    step.chunks.push(Chunk::Tokens { text: completion.text, ids, logprobs });
                }
                _ if completion.text.is_empty() => {}
                _ => step.chunks.push(Chunk::Text(completion.text)),
            }
        }
        step
    }
}

impl Logprobs {
    fn list(self) -> Vec<Logprob> {
        let mut tops = self.top_logprobs.unwrap_or_default().into_iter();
        let tokens = self.tokens.into_iter().zip(self.token_logprobs);
        let one = |(token, logprob): (String, Option<f64>)| {
            let top = tops.next().flatten().unwrap_or_default();
            let mut top: Vec<_> = top.into_iter().map(|(token, logprob)| (token.into_bytes(), logprob)).collect();
            top.sort_by(|(_, a), (_, b)| b.total_cmp(a));
            Logprob::new(token, logprob.unwrap_or(-9999.0)).with_top(top)
        };
        tokens.map(one).collect()
    }
}

/// The events of a response body; `[DONE]` ends them.
fn events<B: Buf, E: std::fmt::Display>(
    body: impl Stream<Item = Result<B, E>>,
) -> impl Stream<Item = Result<Event, EngineError>> {
    async_stream::try_stream! {
        let mut held = BytesMut::new();
        tokio::pin!(body);
        while let Some(bytes) = body.next().await {
            let mut bytes = bytes.map_err(failed)?;
            let searched = held.len();
            while bytes.has_remaining() {
                let chunk = bytes.chunk();
                held.extend_from_slice(chunk);
                let len = chunk.len();
                bytes.advance(len);
            }
            let mut from = searched;
            while let Some(end) = held[from..].iter().position(|&byte| byte == b'\n') {
                let line = held.split_to(from + end + 1);
                from = 0;
                let Some(data) = line.strip_prefix(b"data:") else { continue };
                let data = data.trim_ascii();
                if data == b"[DONE]" {
                    return;
                }
                let event: Event = serde_json::from_slice(data).map_err(failed)?;
                if let Some(error) = event.error {
                    let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason");
                    Err(failed(message))?;
                    return;
                }
                yield event;
            }
            if held.len() > MAX_EVENT {
                Err(failed("an event is too long"))?;
            }
        }
    }
}
