//! An engine behind HTTP: raw text completions, special tokens kept.
//!
//! In: a [`Job`]. Out: what the `/v1/completions` endpoint of vLLM, SGLang and llama.cpp's server streams: text, and token
//! ids and log-probabilities where it gives them. Held: connections, and of a generation the beginning of an event.
//! The first event is awaited for a moment before the generation counts as begun, so that an engine that refuses is an
//! error before the stream, and the prompt's tokens are known for the headers.

mod answer;
mod ask;
mod grammar;
mod said;

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, try_join_all};
use kimi_xtml_tokenizer::Tokenizer;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout, timeout_at};

use super::prompt::Takes;
use super::{Counted, Engine, EngineError, Generation, Job, Steps};
use answer::Reader;
use said::Words;

/// How long an engine may take to tell of itself.
const ASIDE: Duration = Duration::from_secs(2);
/// What is read of an answer that is no stream.
const SAID: usize = 64 << 10;

/// Whose grammar holds the engine to the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Grammar {
    /// Structural tags, as xgrammar has them for Kimi K3
    #[default]
    Xgrammar,
    /// None: what needs one is refused
    None,
}

/// How an engine is asked, and how long it may take.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The engine's own name for the model.
    pub model: String,
    /// The key that it wants.
    pub key: Option<String>,
    /// The most tokens of a prompt and its answer; none: what it tells of itself.
    pub context: Option<u64>,
    /// The most tokens of an answer whose client names no limit, where no context is known.
    pub answer_tokens: u64,
    /// Whose grammar it has.
    pub grammar: Grammar,
    /// Whether its token ids are believed.
    pub ids: bool,
    /// How long it may take to accept a connection,
    pub connect: Duration,
    /// until its first event,
    pub first: Duration,
    /// between two events,
    pub between: Duration,
    /// and in all.
    pub whole: Duration,
    /// How long its first event is awaited before the client is answered.
    pub moment: Duration,
    /// The largest answer, in bytes of text.
    pub answer_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            model: "kimi-k3".into(),
            key: None,
            context: None,
            answer_tokens: 32_768,
            grammar: Grammar::default(),
            ids: true,
            connect: Duration::from_secs(10),
            first: Duration::from_secs(600),
            between: Duration::from_secs(120),
            whole: Duration::from_secs(3600),
            moment: Duration::from_secs(1),
            answer_bytes: 64 << 20,
        }
    }
}

/// The engine at a URL.
#[derive(Clone, Debug)]
pub struct Upstream(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    base: String,
    settings: Settings,
    tokenizer: Option<Arc<Tokenizer>>,
    headers: HeaderMap,
    words: Words,
    context: OnceCell<Option<u64>>,
    client: Client,
}

impl Upstream {
    /// The engine at `url`, with or without the path `/v1/completions`. The tokenizer spells tokens of log-probabilities.
    ///
    /// # Errors
    /// What is wrong with the URL, or with the key.
    pub fn new(url: &str, settings: Settings, tokenizer: Option<Arc<Tokenizer>>) -> Result<Self, String> {
        let parsed = Url::parse(url).map_err(|error| format!("{url} is no URL: {error}"))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(format!("{url} is no URL of http or https"));
        }
        if parsed.query().or(parsed.fragment()).is_some() || !parsed.username().is_empty() {
            return Err("an engine's URL has no ?, no # and no user: the key has its own option".into());
        }
        let base = parsed.as_str().trim_end_matches('/').trim_end_matches("/completions").trim_end_matches("/v1");
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &settings.key {
            let key = HeaderValue::try_from(format!("Bearer {key}"));
            let mut key = key.map_err(|_| "no header can hold the engine's key")?;
            key.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, key);
        }
        let _ = rustls::crypto::ring::default_provider().install_default(); // an error: there is one
        let client = Client::builder().tcp_nodelay(true).redirect(Policy::none()).connect_timeout(settings.connect);
        let client = client.build().map_err(|error| error.to_string())?;
        let words = Words::new(&parsed);
        let base = base.to_owned();
        Ok(Upstream(Arc::new(Inner { base, settings, tokenizer, headers, words, context: OnceCell::new(), client })))
    }

    /// Asks the engine how long its context is, if nobody has told; it may not be there yet.
    pub async fn learn(&self) {
        self.0.learn().await;
    }
}

impl Engine for Upstream {
    fn takes(&self) -> Takes {
        Takes::Prompts
    }

    fn context(&self) -> Option<u64> {
        self.0.settings.context.or_else(|| self.0.context.get().copied().flatten())
    }

    fn start(&self, job: Job, choices: usize) -> BoxFuture<'_, Result<Vec<Generation>, EngineError>> {
        Box::pin(async move {
            self.learn().await;
            let job = Arc::new(job);
            try_join_all((0..choices).map(|choice| self.one(job.clone(), choice))).await
        })
    }

    /// vLLM, SGLang and llama.cpp have a `/health`; an engine without one answers all the same.
    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let inner = &self.0;
            let asked = inner.client.get(format!("{}/health", inner.base)).headers(inner.headers.clone());
            match asked.timeout(ASIDE).send().await.map(|answer| answer.status()) {
                Ok(StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) => Ok(()),
                Ok(status) if status.is_success() => Ok(()),
                Ok(status) => Err(format!("the engine says {status}")),
                Err(_) => Err("the engine does not answer".into()),
            }
        })
    }
}

impl Upstream {
    /// One choice. An engine that is silent for longer than a moment has begun too: what it says comes in the stream.
    async fn one(&self, job: Arc<Job>, choice: usize) -> Result<Generation, EngineError> {
        let body = self.0.body(&job, choice, self.context())?;
        let (tokens, exact, opened) = (job.prompt.tokens, job.prompt.exact, job.prompt.opened);
        let unbilled = job.prompt.unbilled;
        let generation = move |counted: bool, usage: Counted, steps: Steps| Generation {
            prompt_tokens: usage.prompt_tokens.unwrap_or(tokens),
            cached_tokens: usage.cached_tokens.unwrap_or(0),
            counted,
            opened,
            steps,
        };
        let bills = Bills { exact: exact.then_some(tokens), unbilled };
        let inner = self.0.clone();
        let mut begun = Box::pin(async move { inner.begin(body, bills, job.headers.clone()).await });
        match timeout(self.0.settings.moment, &mut begun).await {
            Ok(begun) => {
                let (usage, steps) = begun?;
                Ok(generation(true, usage, steps))
            }
            Err(_) => {
                let steps = async_stream::stream! {
                    match begun.await {
                        Ok((_, mut steps)) => while let Some(step) = steps.next().await {
                            yield step;
                        },
                        Err(error) => yield Err(error),
                    }
                };
                Ok(generation(false, Counted::default(), Box::pin(steps)))
            }
        }
    }
}

/// What of the engine's count of the prompt is billed.
#[derive(Clone, Copy, Debug)]
struct Bills {
    /// The prompt's tokens, if they are known better.
    exact: Option<u64>,
    /// Those at its end that are not billed.
    unbilled: u64,
}

impl Inner {
    /// Asks, and awaits the first event.
    async fn begin(&self, body: String, bills: Bills, headers: HeaderMap) -> Result<(Counted, Steps), EngineError> {
        let settings = &self.settings;
        let (first, whole) = (Instant::now() + settings.first, Instant::now() + settings.whole);
        let late = || EngineError::Late { said: "the engine did not begin in time".into(), after: settings.first };
        let response = timeout_at(first, self.ask(body, headers)).await.map_err(|_| late())??;
        let status = response.status();
        if !status.is_success() {
            let retry = response.headers().get(header::RETRY_AFTER).and_then(|after| after.to_str().ok());
            let retry = retry.map(str::to_owned);
            let said = timeout_at(first, read(response)).await.unwrap_or_default();
            return Err(self.words.refusal(status, retry, &said));
        }
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        if kind.starts_with("application/json") || kind.starts_with("text/html") {
            let said = timeout_at(first, read(response)).await.unwrap_or_default();
            return Err(self.words.no_stream(kind.starts_with("text/html"), &said));
        }
        let reader = Reader::new(self, bills, whole);
        let mut steps = Box::pin(reader.steps(response.bytes_stream()));
        let step = timeout_at(first, steps.next()).await.map_err(|_| late())?;
        let step = step.unwrap_or_else(|| Err(EngineError::Failed("the engine's stream is empty".into())))?;
        let usage = step.usage.unwrap_or_default();
        let rest = async_stream::stream! {
            yield Ok(step);
            while let Some(step) = steps.next().await {
                yield step;
            }
        };
        Ok((usage, Box::pin(rest)))
    }

    /// Sends the request, once more if the connection turned out to be dead and nothing was answered.
    async fn ask(&self, body: String, headers: HeaderMap) -> Result<Response, EngineError> {
        let mut again = true;
        loop {
            let request = self.client.post(format!("{}/v1/completions", self.base)).headers(self.headers.clone());
            match request.headers(headers.clone()).body(body.clone()).send().await {
                Ok(response) => return Ok(response),
                Err(error) if again && error.is_request() && !error.is_connect() && !error.is_timeout() => {
                    again = false;
                }
                Err(error) if error.is_timeout() => {
                    let said = "the engine accepts no connection in time".into();
                    return Err(EngineError::Late { said, after: self.settings.connect });
                }
                Err(error) if error.is_connect() => {
                    return Err(EngineError::Failed("the engine cannot be reached".into()));
                }
                Err(_) => return Err(EngineError::Failed("the engine broke the connection off".into())),
            }
        }
    }

    /// What the engine's `/v1/models` says: vLLM and SGLang tell the length of the context there.
    async fn learn(&self) {
        if self.settings.context.is_some() || self.context.initialized() {
            return;
        }
        let asked = self.client.get(format!("{}/v1/models", self.base)).headers(self.headers.clone());
        let Ok(Ok(answer)) = timeout(ASIDE, asked.send()).await else { return };
        let said = timeout(ASIDE, read(answer)).await.unwrap_or_default();
        let Ok(models) = serde_json::from_slice::<Value>(&said) else {
            let _ = self.context.set(None); // it has no such path, and will not get one
            return;
        };
        let cards = models["data"].as_array().map_or(&[][..], Vec::as_slice);
        let card = cards.iter().find(|card| card["id"] == *self.settings.model).or(cards.first());
        let context =
            card.and_then(|card| [&card["max_model_len"], &card["meta"]["n_ctx"]].into_iter().find_map(Value::as_u64));
        let _ = self.context.set(context);
    }
}

/// The beginning of a body.
async fn read(response: Response) -> Vec<u8> {
    let mut read = Vec::new();
    let mut body = response.bytes_stream();
    while let Some(Ok(bytes)) = body.next().await {
        let more = bytes.len().min(SAID - read.len());
        read.extend_from_slice(&bytes[..more]);
        if read.len() == SAID {
            break;
        }
    }
    read
}
