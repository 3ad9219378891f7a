//! Tool calls as bare JSON: what Dynamo's guided decoding makes of tool choices required and named.
//!
//! In: the text of the answer. Out: its calls, or what the request's policy makes of a payload that is none. Held: the
//! payload, since only its end tells what it is; with `StreamBestEffort` Dynamo's own cursor says what may go out earlier.

use anyhow::{Result, bail};
use dynamo_parsers_v2::{
    GuidedJsonCursor, InvalidGuidedPayload, InvalidGuidedPayloadKind, InvalidGuidedPayloadPolicy, ToolCallDelta,
    UnifiedParserOutput,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The payload of one request.
#[derive(Clone, Debug)]
pub(crate) struct Guided {
    named: Option<String>,
    policy: InvalidGuidedPayloadPolicy,
    payload: String,
    cursor: GuidedJsonCursor,
}

/// A call of a required choice.
#[derive(Deserialize)]
struct Call<'a> {
    name: String,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
}

impl Guided {
    pub(crate) fn new(named: Option<String>, policy: InvalidGuidedPayloadPolicy) -> Self {
        let cursor = named.clone().map_or_else(GuidedJsonCursor::new, GuidedJsonCursor::named);
        Guided { named, policy, payload: String::new(), cursor }
    }

    /// Takes text of the payload.
    pub(crate) fn take(&mut self, text: &str, output: &mut UnifiedParserOutput) {
        self.payload += text;
        if self.policy == InvalidGuidedPayloadPolicy::StreamBestEffort {
            let mut calls = Vec::new();
            self.cursor.advance(&self.payload, &mut calls);
            calls.into_iter().for_each(|call| output.push_call(call));
        }
    }

    /// The payload is whole: gives its calls, or what the policy says.
    pub(crate) fn finish(&mut self, output: &mut UnifiedParserOutput) -> Result<()> {
        match self.calls() {
            Ok(calls) => {
                for (tool_index, (name, arguments)) in calls.into_iter().enumerate() {
                    let sent = self.cursor.committed().iter().find(|sent| sent.index == tool_index);
                    let rest = arguments.get(sent.map_or(0, |sent| sent.released)..).unwrap_or_default().to_owned();
                    let name = sent.is_none().then_some(name);
                    output.push_call(ToolCallDelta { tool_index, name, arguments: rest, complete: true });
                }
            }
            Err(kind) if self.policy == InvalidGuidedPayloadPolicy::Reject => {
                let choice = if self.named.is_some() { "named" } else { "required" };
                bail!(InvalidGuidedPayload { kind, choice });
            }
            // What went out of a call that was begun stays an unterminated prefix, and the call is never complete.
            Err(_) => output.push_text(&self.payload[self.cursor.released_end()..]),
        }
        self.payload.clear();
        Ok(())
    }

    fn calls(&self) -> Result<Vec<(String, String)>, InvalidGuidedPayloadKind> {
        use InvalidGuidedPayloadKind::{InvalidJson, Missing, WrongShape};
        let payload = self.payload.trim();
        if payload.is_empty() {
            return Err(Missing);
        }
        let whole: &RawValue = serde_json::from_str(payload).map_err(|_| InvalidJson)?;
        if let Some(name) = &self.named {
            return if payload.starts_with('{') {
                Ok(vec![(name.clone(), whole.get().into())])
            } else {
                Err(WrongShape)
            };
        }
        let calls = match payload.starts_with('[') {
            true => serde_json::from_str::<Vec<Call<'_>>>(payload),
            false => serde_json::from_str(payload).map(|call| vec![call]),
        };
        let calls: Vec<Call<'_>> = calls.map_err(|_| WrongShape)?;
        let call = |call: Call<'_>| match (call.arguments, call.parameters) {
            (Some(_), Some(_)) => Err(WrongShape),
            (None, None) => Ok((call.name, "{}".to_owned())),
            (Some(json), None) | (None, Some(json)) if json.get().starts_with('{') => {
                Ok((call.name, json.get().into()))
            }
            _ => Err(WrongShape),
        };
        if calls.is_empty() { Err(WrongShape) } else { calls.into_iter().map(call).collect() }
    }

    /// Forgets the payload, and gives what of it did not go out.
    pub(crate) fn reset(&mut self) -> String {
        let rest = self.payload.split_off(self.cursor.released_end().min(self.payload.len()));
        self.payload.clear();
        self.cursor.reset();
        rest
    }
}
