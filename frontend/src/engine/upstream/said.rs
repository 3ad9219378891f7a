//! What the engine says when it gives no stream, in words for the client.
//!
//! In: a status and a body, in any of the forms that engines have. Out: an [`EngineError`]. Held: the engine's address, which
//! no client sees.

use std::time::Duration;

use axum::http::StatusCode;
use reqwest::Url;
use serde_json::Value;

use super::super::EngineError;
use crate::error::short;

/// The longest text of an engine that clients see, in bytes.
const LONGEST: usize = 1000;

/// Makes what an engine says fit for clients.
#[derive(Clone, Debug)]
pub(super) struct Words {
    hidden: Vec<String>,
}

impl Words {
    pub(super) fn new(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default().to_owned();
        let port = url.port_or_known_default().unwrap_or_default();
        Words { hidden: vec![format!("{host}:{port}"), host] }
    }

    /// What a status other than success means.
    pub(super) fn refusal(&self, status: StatusCode, retry_after: Option<String>, body: &[u8]) -> EngineError {
        let text = self.text(body);
        let said = format!("the engine said {status}: {text}");
        match status.as_u16() {
            401 | 403 => EngineError::Failed(format!(
                "the engine refuses the key of this server, not the client's ({}): whoever runs it must set --upstream-key",
                status.as_u16()
            )),
            404 | 405 => EngineError::Failed(said),
            408 | 504 => EngineError::Late { said, after: Duration::ZERO },
            429 => EngineError::Busy { said, of_client: true, retry_after },
            503 => EngineError::Busy { said, of_client: false, retry_after },
            400 | 413 | 422 if is_too_long(&text) => EngineError::TooLong(said),
            _ if status.is_client_error() => EngineError::Refused(said),
            _ if status.is_redirection() => {
                EngineError::Failed("the engine points elsewhere, where this server does not follow".into())
            }
            _ => EngineError::Failed(said),
        }
    }

    /// One body, where a stream was asked for.
    pub(super) fn no_stream(&self, page: bool, body: &[u8]) -> EngineError {
        let what = if page { "a page" } else { "one JSON body" };
        let json: Option<Value> = serde_json::from_slice(body).ok();
        let said =
            json.filter(|json| json["error"].is_object() || json["error"].is_string()).map(|json| self.of(&json));
        EngineError::Failed(match said {
            Some(said) => format!("the engine said: {said}"),
            None => format!("the engine answered with {what} where a stream was asked for"),
        })
    }

    /// An error within a stream.
    pub(super) fn failure(&self, error: &Value) -> EngineError {
        EngineError::Failed(format!("the engine failed: {}", self.of(error)))
    }

    fn text(&self, body: &[u8]) -> String {
        match serde_json::from_slice(body) {
            Ok(json) => self.of(&json),
            Err(_) => self.clean(&String::from_utf8_lossy(body)),
        }
    }

    /// The words of a JSON error: an `error` that is an object or a string, `detail`, or `message` of old vLLM.
    fn of(&self, json: &Value) -> String {
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Object(one) => {
                ["message", "msg", "detail"].iter().find_map(|key| Some(one.get(*key)?.as_str()?.to_owned()))
            }
            Value::Array(list) => {
                let told = |one: &Value| {
                    let at: Vec<_> = one["loc"].as_array()?.iter().map(|at| at.to_string().replace('"', "")).collect();
                    Some(format!("{}: {}", at.join("."), one["msg"].as_str()?))
                };
                let told: Vec<String> = list.iter().filter_map(told).collect();
                (!told.is_empty()).then(|| told.join("; "))
            }
            _ => None,
        };
        let found = ["error", "detail", "message"].iter().find_map(|key| text(json.get(*key)?)).or_else(|| text(json));
        self.clean(&found.unwrap_or_default())
    }

    /// Without addresses, on one line, and not too long.
    fn clean(&self, text: &str) -> String {
        let mut clean = text
            .split_whitespace()
            .map(|word| if word.contains("://") { "(an address)" } else { word })
            .collect::<Vec<_>>()
            .join(" ");
        for hidden in &self.hidden {
            clean = clean.replace(hidden, "(the engine)");
        }
        clean.truncate(short(&clean, LONGEST).len());
        if clean.is_empty() { "no reason".into() } else { clean }
    }
}

fn is_too_long(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [
        "context length",
        "context_length",
        "context size",
        "model length",
        "max_model_len",
        "too many tokens",
        "longer than the model",
    ]
    .iter()
    .any(|words| text.contains(words))
}
