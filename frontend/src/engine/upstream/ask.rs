//! What the engine is asked.
//!
//! In: a [`Job`]. Out: the body of a request to `/v1/completions`. Nothing is held.
//! The members are those of vLLM and SGLang; each of them passes over what only the other knows.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::super::prompt::Form;
use super::super::{EngineError, Job};
use super::{Inner, grammar};

/// A body, whose members keep the spelling that the client gave them.
#[derive(Default)]
struct Body(BTreeMap<String, Box<RawValue>>);

impl Body {
    fn set(&mut self, name: &str, value: impl Serialize) -> Result<(), EngineError> {
        let value = to_raw_value(&value).map_err(|error| EngineError::Refused(format!("{name}: {error}")))?;
        self.0.insert(name.into(), value);
        Ok(())
    }
}

impl Inner {
    pub(super) fn body(&self, job: &Job, choice: usize, context: Option<u64>) -> Result<String, EngineError> {
        let mut body = Body(job.sampling.clone());
        // Choices of one seed would all be the same.
        if let Some(seed) = body.0.get("seed").and_then(|seed| seed.get().parse::<i64>().ok()) {
            body.set("seed", seed.wrapping_add(choice as i64))?;
        }
        body.set("model", &self.settings.model)?;
        match &job.prompt.form {
            Form::Nothing => body.set("prompt", "")?,
            Form::Text(text) => body.set("prompt", text)?,
            Form::Ids(ids) => body.set("prompt", ids)?,
        }
        body.set("max_tokens", job.max_tokens.unwrap_or_else(|| self.left(job, context)))?;
        body.set("stream_options", BTreeMap::from([("include_usage", true), ("continuous_usage_stats", true)]))?;
        for on in ["stream", "include_stop_str_in_output", "no_stop_trim"] {
            body.set(on, true)?;
        }
        for off in ["add_special_tokens", "skip_special_tokens", "spaces_between_special_tokens"] {
            body.set(off, false)?;
        }
        if self.settings.ids {
            body.set("return_token_ids", true)?;
        }
        if let Some(top) = job.logprobs {
            body.set("logprobs", top)?;
            if self.tokenizer.is_some() {
                body.set("return_tokens_as_token_ids", true)?;
            }
        }
        if let Some(grammar) = grammar::of(job, self.settings.grammar)? {
            body.set("response_format", grammar)?;
        }
        serde_json::to_string(&body.0).map_err(|error| EngineError::Refused(error.to_string()))
    }

    /// What the context leaves for the answer.
    fn left(&self, job: &Job, context: Option<u64>) -> u64 {
        let all = job.prompt.tokens + job.prompt.unbilled;
        match context {
            Some(context) if job.prompt.exact => context.saturating_sub(all).max(1),
            // The prompt was counted about: some room for what it may have more.
            Some(context) => context.saturating_sub(all.saturating_mul(2)).clamp(1, self.settings.answer_tokens),
            None => self.settings.answer_tokens,
        }
    }
}
