//! A request that was read -> what the engine is asked for, and what its answer needs.
//!
//! In: the body of a request. Out: [`Asked`]. Nothing is held. Large requests are read and encoded away from the threads
//! that serve, a few at a time, so that they hold nobody up.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use kimi_xtml::{Channel, Part, PromptMessage, Role, ToolChoice};
use kimi_xtml_tokenizer::Tokenizer;

use crate::App;
use crate::engine::prompt::{Takes, prompt};
use crate::engine::{Job, Said};
use crate::error::{ApiError, short};
use crate::operate::record::Record;
use crate::request::{Policy, Request, StreamOptions, located};

/// Bodies of more bytes than this are read on a thread of their own.
const LARGE: usize = 64 << 10;

/// What is asked of the engine and of the answer.
#[derive(Debug)]
pub struct Asked {
    /// What the engine is asked for.
    pub job: Job,
    /// What each choice needs.
    pub turn: Spec,
    /// How many choices.
    pub choices: usize,
    /// Whether frames are asked for, and not one body.
    pub stream: bool,
    /// What frames carry beside their deltas.
    pub options: StreamOptions,
    /// The members that said nothing, as a header tells them.
    pub ignored: Option<String>,
}

/// What a choice's parser and writer must know.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// The names of the tools that may be called.
    pub tools: Vec<String>,
    /// Which of them must be.
    pub tool_choice: ToolChoice,
    /// Whether more than one may be called.
    pub parallel: bool,
    /// The number that counted ids of calls go on from.
    pub next_call: usize,
    /// What ends the answer.
    pub stops: Vec<String>,
}

impl Spec {
    /// What a parser must know of the request, given what the prompt left open.
    pub fn request(&self, opened: Option<Channel>) -> kimi_xtml::Request {
        kimi_xtml::Request::new().opened(opened).tools(self.tools.iter().cloned()).tool_choice(self.tool_choice.clone())
    }
}

impl App {
    /// Reads a body and encodes its prompt. Gives also what else `read` gave.
    ///
    /// # Errors
    /// If the body is no request, or one that cannot be served.
    pub(crate) async fn admit<T: Send + 'static>(
        &self,
        body: Bytes,
        read: impl FnOnce(&[u8], &Policy) -> Result<(Request, T), ApiError> + Send + 'static,
    ) -> Result<(Asked, T), ApiError> {
        let large = body.len() > LARGE;
        let (policy, takes, tokenizer) = (self.policy.clone(), self.engine.takes(), self.tokenizer.clone());
        let (models, context) = (self.models.clone(), self.engine.context());
        let headers = Record::passed_on();
        let work = move || {
            let (request, more) = read(&body, &policy)?;
            drop(body);
            models.knows(&request.model)?;
            let asked = asked(request, takes, tokenizer.as_deref(), headers)?;
            fits(&asked.job, context)?;
            Ok((asked, more))
        };
        if !large {
            return work();
        }
        let gone = || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down");
        let permit = self.heavy.clone().acquire_owned().await.map_err(|_| gone())?;
        let work = move || {
            let _permit = permit;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| gone())?
    }
}

/// The names under which the model is known.
#[derive(Clone, Debug)]
pub struct Models(Arc<[String]>);

impl Models {
    /// A model's name, and others for it.
    pub fn new(name: &str, aliases: &[String]) -> Self {
        Models(std::iter::once(name.to_owned()).chain(aliases.iter().cloned()).collect())
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0[0]
    }

    /// All names.
    pub fn all(&self) -> &[String] {
        &self.0
    }

    /// Refuses other models.
    pub(crate) fn knows(&self, model: &str) -> Result<(), ApiError> {
        if self.0.iter().any(|known| known == model) {
            return Ok(());
        }
        let named = short(model, 100);
        let message = format!("the model `{named}` does not exist; this server has `{}`", self.name());
        Err(ApiError { param: Some("model".into()), ..ApiError::new(StatusCode::NOT_FOUND, message) }
            .code("model_not_found"))
    }
}

fn asked(request: Request, takes: Takes, tokenizer: Option<&Tokenizer>, headers: HeaderMap) -> Result<Asked, ApiError> {
    let prompt = prompt(&request.conversation, takes, tokenizer).map_err(|error| located(&error, &request.paths))?;
    let turn = Spec {
        tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
        tool_choice: request.tool_choice().clone(),
        parallel: request.parallel,
        next_call: request.next_call,
        stops: request.stops,
    };
    let job = Job {
        prompt,
        tool_choice: turn.tool_choice.clone(),
        thinking: request.conversation.thinking,
        said: said(request.conversation.messages),
        tools: request.tools,
        parallel: request.parallel,
        max_tokens: request.max_tokens,
        logprobs: request.logprobs,
        schema: request.schema,
        sampling: request.sampling,
        headers,
    };
    let ignored = request.ignored.header();
    Ok(Asked { job, turn, choices: request.choices, stream: request.stream, options: request.options, ignored })
}

/// What was said since the assistant's last turn; one that is to be continued is none.
fn said(mut messages: Vec<PromptMessage<'static>>) -> Said {
    messages.pop_if(|last| last.partial);
    let since = messages.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |last| last + 1);
    let mut said = Said::default();
    for message in messages.drain(since..) {
        let texts = message
            .content
            .into_iter()
            .filter_map(|part| if let Part::Text(text) = part { Some(text.into_owned()) } else { None });
        match message.role {
            Role::User => said.user.extend(texts),
            Role::Tool => said.result = Some(texts.collect::<Vec<_>>().join("\n")),
            _ => {}
        }
    }
    said
}

/// Refuses what is longer than the engine's context.
fn fits(job: &Job, context: Option<u64>) -> Result<(), ApiError> {
    let (Some(context), asked) = (context.filter(|_| job.prompt.exact), job.max_tokens.unwrap_or(1)) else {
        return Ok(()); // the engine knows
    };
    let prompt = job.prompt.tokens + job.prompt.unbilled;
    if prompt.saturating_add(asked) <= context {
        return Ok(());
    }
    let message = format!(
        "the context has {context} tokens, but {} were asked for: {prompt} of the prompt and {asked} of the answer",
        prompt.saturating_add(asked)
    );
    Err(ApiError::param("messages", message).code("context_length_exceeded"))
}
