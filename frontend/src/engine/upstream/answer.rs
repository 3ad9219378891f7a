//! What the engine streams.
//!
//! In: the bytes of an event stream. Out: [`Step`]s, the last of them with the reason and the last count. Held: the beginning
//! of an event; the reason, once it is said, until the stream ends, since the count may come after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use kimi_xtml::{Logprob, Marker};
use kimi_xtml_tokenizer::Tokenizer;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::super::{Chunk, Counted, EngineError, Step};
use super::{Bills, Inner, Words};

/// The longest event that is read: a first one may repeat the ids of a long prompt.
const LONGEST: usize = 64 << 20;
/// How long the stream may go on after the reason was said.
const REST: Duration = Duration::from_secs(2);

/// Reads one stream.
pub(super) struct Reader {
    words: Words,
    tokenizer: Option<Arc<Tokenizer>>,
    ids: bool,
    bills: Bills,
    between: Duration,
    whole: Instant,
    most: usize,
}

impl Reader {
    pub(super) fn new(engine: &Inner, bills: Bills, whole: Instant) -> Self {
        let settings = &engine.settings;
        Reader {
            words: engine.words.clone(),
            tokenizer: engine.tokenizer.clone(),
            ids: settings.ids,
            bills,
            between: settings.between,
            whole,
            most: settings.answer_bytes,
        }
    }

    /// The steps, the first as soon as there is one. Whoever asks for it has a limit of his own.
    pub(super) fn steps<E>(
        self,
        body: impl Stream<Item = Result<Bytes, E>>,
    ) -> impl Stream<Item = Result<Step, EngineError>> {
        async_stream::try_stream! {
            let (mut said, mut begun) = (0, false);
            let mut ended: Option<(String, Instant)> = None;
            let mut counted = None;
            let events = events(body);
            tokio::pin!(events);
            loop {
                let until = match &ended {
                    Some((_, until)) => *until,
                    None if begun => self.whole.min(Instant::now() + self.between),
                    None => self.whole,
                };
                let event = match timeout_at(until, events.next()).await {
                    Ok(Some(Ok(data))) => self.event(&data)?,
                    // What comes after the reason is not missed.
                    Ok(_) | Err(_) if ended.is_some() => break,
                    Ok(None) => return,
                    Ok(Some(Err(error))) => { Err(error)?; return }
                    Err(_) => { Err(self.late())?; return }
                };
                begun = true;
                let mut step = self.step(event)?;
                counted = step.usage.or(counted);
                said += step.chunks.iter().map(size).sum::<usize>();
                if said > self.most {
                    Err(EngineError::Failed(format!("the engine's answer is longer than {} bytes", self.most)))?;
                }
                if let Some(reason) = step.end.take() {
                    ended.get_or_insert_with(|| (reason, Instant::now() + REST));
                }
                yield step;
            }
            yield Step { chunks: Vec::new(), end: ended.map(|(reason, _)| reason), usage: counted };
        }
    }

    fn late(&self) -> EngineError {
        let whole = Instant::now() >= self.whole;
        let said = if whole { "the engine did not come to an end in time" } else { "the engine fell silent" };
        EngineError::Late { said: said.into(), after: self.between }
    }

    fn event(&self, data: &[u8]) -> Result<Event, EngineError> {
        let event: Result<Event, _> = serde_json::from_slice(data);
        let event = event.map_err(|_| EngineError::Failed("the engine sent an event that is no completion".into()))?;
        if let Some(error) = event.error.as_ref().or(event.message.as_ref()) {
            return Err(self.words.failure(error));
        }
        Ok(event)
    }

    /// What an event says of the choice that was asked for; others are nobody's.
    fn step(&self, event: Event) -> Result<Step, EngineError> {
        let mut step = Step { usage: event.usage.map(|usage| self.count(usage)), ..Step::default() };
        for choice in event.choices.unwrap_or_default().into_iter().filter(|choice| choice.index.unwrap_or(0) == 0) {
            match choice.finish_reason.as_deref() {
                Some("abort") => return Err(EngineError::Failed("the engine aborted the generation".into())),
                Some("error") => return Err(EngineError::Failed("the engine failed at the generation".into())),
                reason => step.end = reason.map(str::to_owned).or(step.end),
            }
            let text = choice.text.unwrap_or_default();
            match choice.token_ids.filter(|ids| self.ids && !ids.is_empty()) {
                Some(ids) => {
                    let logprobs = choice.logprobs.map(|logprobs| self.logprobs(logprobs)).unwrap_or_default();
                    step.chunks.push(Chunk::Tokens { text, ids, logprobs });
                }
                None if text.is_empty() => {}
                None => step.chunks.push(Chunk::Text(text)),
            }
        }
        Ok(step)
    }

    fn count(&self, usage: Usage) -> Counted {
        let prompt = usage.prompt_tokens.map(|prompt| prompt.saturating_sub(self.bills.unbilled));
        let prompt = self.bills.exact.or(prompt);
        let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
        Counted {
            prompt_tokens: prompt,
            cached_tokens: cached.map(|cached| cached.min(prompt.unwrap_or(cached))),
            completion_tokens: usage.completion_tokens.filter(|generated| *generated > 0),
        }
    }

    fn logprobs(&self, all: Logprobs) -> Vec<Logprob> {
        let mut tops = all.top_logprobs.unwrap_or_default().into_iter();
        let tokens = all.tokens.unwrap_or_default().into_iter().zip(all.token_logprobs.unwrap_or_default());
        let one = |(token, logprob): (String, Option<f64>)| {
            let top = tops.next().flatten().unwrap_or_default();
            let mut top: Vec<_> = top.into_iter().map(|(token, logprob)| (self.bytes(token), logprob)).collect();
            top.sort_by(|(_, a), (_, b)| b.total_cmp(a));
            Logprob::new(self.bytes(token), logprob.unwrap_or(-9999.0)).with_top(top)
        };
        tokens.map(one).collect()
    }

    /// The bytes of a token, which vLLM may name by its id: characters that several tokens make have no other spelling.
    fn bytes(&self, token: String) -> Vec<u8> {
        let id = token.strip_prefix("token_id:").and_then(|id| id.parse().ok());
        let known = id.and_then(|id| match Marker::from_id(id) {
            Some(marker) => Some(marker.spelling().as_bytes()),
            None => self.tokenizer.as_deref()?.token(id),
        });
        known.map_or_else(|| token.into_bytes(), <[u8]>::to_vec)
    }
}

fn size(chunk: &Chunk) -> usize {
    match chunk {
        Chunk::Tokens { text, ids, .. } => text.len() + size_of_val(&**ids),
        Chunk::Text(text) => text.len(),
        Chunk::Bytes(bytes) => bytes.len(),
    }
}

/// An event of the engine. What it leaves out is empty.
#[derive(Debug, Default, Deserialize)]
struct Event {
    choices: Option<Vec<Completion>>,
    usage: Option<Usage>,
    error: Option<Value>,
    /// The error of old vLLM.
    message: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Completion {
    index: Option<u64>,
    text: Option<String>,
    token_ids: Option<Vec<u32>>,
    logprobs: Option<Logprobs>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Logprobs {
    tokens: Option<Vec<String>>,
    token_logprobs: Option<Vec<Option<f64>>>,
    top_logprobs: Option<Vec<Option<BTreeMap<String, f64>>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

/// The data of the events of a body; `[DONE]` ends them.
fn events<E>(body: impl Stream<Item = Result<Bytes, E>>) -> impl Stream<Item = Result<Bytes, EngineError>> {
    async_stream::try_stream! {
        let mut held = BytesMut::new();
        tokio::pin!(body);
        while let Some(bytes) = body.next().await {
            let bytes = bytes.map_err(|_| EngineError::Failed("the engine broke the connection off".into()))?;
            let mut from = held.len();
            held.extend_from_slice(&bytes);
            while let Some(end) = held[from..].iter().position(|&byte| byte == b'\n') {
                let mut line = held.split_to(from + end + 1).freeze();
                from = 0;
                if !line.starts_with(b"data:") {
                    continue;
                }
                line.advance(b"data:".len());
                let data = line.slice_ref(line.trim_ascii());
                if *data == *b"[DONE]" {
                    return;
                }
                if !data.is_empty() {
                    yield data;
                }
            }
            if held.len() > LONGEST {
                Err(EngineError::Failed("the engine sent an event that is too long".into()))?;
            }
        }
    }
}
