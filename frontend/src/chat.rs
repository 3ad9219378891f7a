//! `/v1/chat/completions`: how kimi-xtml is put into a frontend.
//!
//! In: a request. Out: one body, or frames as they are generated. Held: a [`Turn`] a choice, and the bytes of one step.
//! A step is asked of the engine only when the client has taken the frames of the last one, and everything that
//! a request holds hangs on its response: a client that goes away frees it at once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use kimi_xtml::{Choice, Delta, Extras, Frames, IdPolicy, Usage};
use serde_json::{Value, json};
use tokio_stream::{StreamExt, StreamMap};

use crate::admit::Asked;
use crate::engine::{EngineError, Steps};
use crate::error::{ApiError, json_response};
use crate::request::{StreamOptions, chat};
use crate::turn::Turn;
use crate::{App, ids, now, within};

/// Answers a request.
///
/// # Errors
/// If the request cannot be served.
pub async fn completions(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let body = app.body(request).await?;
    let (asked, ()) = app.admit(body, |body, policy| Ok((chat::read(body, policy)?, ()))).await?;
    let logprobs = asked.job.logprobs.is_some();
    let (stream, options, ignored) = (asked.stream, asked.options, asked.ignored.clone());
    let (turns, steps) = begin(&app, asked).await?;
    let head = Head { id: ids::chat_completion(), created: now(), model: app.models.name().to_owned() };
    let prompt = turns.iter().all(Turn::counted).then(|| usage_headers(&total(&turns)));
    let response = if stream {
        let frames = self::stream(head, turns, steps, options, logprobs, app.keep_alive);
        ([(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")], frames).into_response()
    } else {
        let body = whole(head, turns, steps, logprobs).await?;
        json_response(StatusCode::OK, &body)
    };
    Ok((prompt, ignored_header(ignored), response).into_response())
}

/// What all frames of a response share.
struct Head {
    id: String,
    created: u64,
    model: String,
}

/// Starts all choices. The first that fails is the request's error: there is no stream yet.
async fn begin(app: &App, asked: Asked) -> Result<(Vec<Turn>, StreamMap<usize, Steps>), ApiError> {
    let Asked { job, turn: spec, choices, stream, options, .. } = asked;
    let keep = options.include_internal_content || job.logprobs.is_some();
    let (mut turns, mut steps) = (Vec::new(), StreamMap::new());
    for (index, generation) in app.engine.start(job, choices).await?.into_iter().enumerate() {
        let ids = if app.random_ids { IdPolicy::random() } else { IdPolicy::numbered(spec.next_call) };
        let (turn, generated) = Turn::new(&spec, generation, ids, keep);
        turns.push(if stream { turn.without_message() } else { turn });
        steps.insert(index, generated);
    }
    Ok((turns, steps))
}

/// The frames, as they are generated.
fn stream(
    head: Head,
    mut turns: Vec<Turn>,
    mut steps: StreamMap<usize, Steps>,
    options: StreamOptions,
    logprobs: bool,
    keep_alive: Duration,
) -> Body {
    let frames = Frames::new(&head.id, head.created, &head.model);
    let mut writers: Vec<Writer> =
        (0..turns.len()).map(|index| Writer::new(&frames, index, options, logprobs)).collect();
    Body::from_stream(async_stream::stream! {
        let mut out = BytesMut::new();
        let mut failure = None;
        for (writer, turn) in writers.iter_mut().zip(&turns) {
            writer.start(turn, &mut out);
        }
        yield Ok::<Bytes, Infallible>(out.split().freeze());
        loop {
            let Some(next) = within(keep_alive, steps.next()).await else {
                yield Ok(Bytes::from_static(b": keep-alive\n\n"));
                continue;
            };
            let Some((index, step)) = next else { break };
            let turn = &mut turns[index];
            match step {
                Ok(step) => turn.take(step),
                Err(error) => {
                    turn.finish("abort");
                    failure.get_or_insert(error);
                }
            }
            writers[index].write(turn, &mut out);
            if turn.end().is_some() {
                steps.remove(&index); // a stop string ends the generation too
            }
            if !out.is_empty() {
                yield Ok(out.split().freeze());
            }
        }
        // An engine that just stops has aborted: what was held is delivered, and nothing is made up.
        for (writer, turn) in writers.iter_mut().zip(&mut turns).filter(|(_, turn)| turn.end().is_none()) {
            failure.get_or_insert(EngineError::Failed("the engine broke the generation off".into()));
            turn.finish("abort");
            writer.write(turn, &mut out);
        }
        if options.include_usage {
            frames.usage(&total(&turns), &mut out);
        }
        match failure {
            None => frames.done(&mut out),
            // No `[DONE]`: the run was not clean.
            Some(error) => out.extend_from_slice(format!("data: {}\n\n", ApiError::from(error).body()).as_bytes()),
        }
        yield Ok(out.freeze());
    })
}

/// The frames of one choice, with what the request wants them to carry.
struct Writer {
    choice: Option<Choice>,
    options: StreamOptions,
    logprobs: bool,
}

impl Writer {
    fn new(frames: &Frames, index: usize, options: StreamOptions, logprobs: bool) -> Self {
        Writer { choice: Some(frames.choice(index)), options, logprobs }
    }

    fn start(&mut self, turn: &Turn, out: &mut BytesMut) {
        if let Some(choice) = &mut self.choice {
            choice.set_usage(self.options.continuous_usage_stats.then(|| turn.usage()));
            choice.start(out);
        }
    }

    /// A frame for each delta, and the end frame once the turn has ended.
    fn write(&mut self, turn: &mut Turn, out: &mut BytesMut) {
        let Some(choice) = &mut self.choice else {
            return;
        };
        if self.options.continuous_usage_stats {
            choice.set_usage(Some(turn.usage()));
        }
        for (delta, made) in turn.deltas() {
            let ids = if self.options.include_internal_content { made.ids() } else { None };
            let logprobs = if self.logprobs { made.known() } else { Vec::new() };
            let extras = Extras::new().with_logprobs(&logprobs);
            choice.delta(delta, ids.as_ref().map_or(extras, |ids| extras.with_token_ids(ids)), out);
        }
        turn.clear();
        if let Some(reason) = turn.end()
            && let Some(mut choice) = self.choice.take()
        {
            choice.end(reason, Some(&turn.usage()), out);
        }
    }
}

/// The one body of a request that wants no stream.
///
/// # Errors
/// If the engine fails, or breaks off: what it had said is no answer.
async fn whole(
    head: Head,
    mut turns: Vec<Turn>,
    mut steps: StreamMap<usize, Steps>,
    logprobs: bool,
) -> Result<Value, ApiError> {
    let mut listed: Vec<Vec<Value>> = vec![Vec::new(); turns.len()];
    while let Some((index, step)) = steps.next().await {
        let turn = &mut turns[index];
        turn.take(step?);
        if logprobs {
            let content = turn.deltas().filter(|(delta, _)| matches!(delta, Delta::Content(_)));
            listed[index].extend(content.flat_map(|(_, made)| made.logprobs().map(|known| json!(known))));
        }
        turn.clear();
        if turn.end().is_some() {
            steps.remove(&index);
        }
    }
    if turns.iter().any(|turn| turn.end().is_none()) {
        return Err(EngineError::Failed("the engine broke the generation off".into()).into());
    }
    let usage = total(&turns);
    let choices = (0..).zip(turns).zip(listed).map(|((index, turn), listed): ((usize, _), _)| {
        let reason = turn.end();
        let logprobs = logprobs.then(|| json!({"content": listed}));
        json!({"index": index, "message": turn.into_message(), "logprobs": logprobs, "finish_reason": reason})
    });
    Ok(json!({
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": choices.collect::<Vec<_>>(),
        "usage": usage,
    }))
}

/// The usage of the request: its prompt once, and what all choices cost.
pub(crate) fn total(turns: &[Turn]) -> Usage {
    let prompt = turns.first().map(Turn::usage).unwrap_or_default();
    let sum: Usage = turns.iter().map(Turn::usage).sum();
    sum.with_prompt_tokens(prompt.prompt_tokens).with_cached_tokens(prompt.cached_tokens)
}

/// The headers that tell what the prompt cost.
pub(crate) fn usage_headers(usage: &Usage) -> [(HeaderName, String); 2] {
    [
        (HeaderName::from_static("x-msh-usage-prompt-tokens"), usage.prompt_tokens.to_string()),
        (HeaderName::from_static("x-msh-usage-cached-tokens"), usage.cached_tokens.to_string()),
    ]
}

/// The header that names the members that said nothing.
pub(crate) fn ignored_header(ignored: Option<String>) -> Option<[(HeaderName, String); 1]> {
    ignored.map(|names| [(HeaderName::from_static("x-ignored-members"), names)])
}
