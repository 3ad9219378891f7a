//! How the engine shall choose tokens.
//!
//! In: the members of a request that say so. Out: those members, as they were spelled, for the engine. Nothing is held.
//! Their ranges are checked always; with [`Policy::vendor_strict`] they must be those that Moonshot's hosted API fixes.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::members::{Member, Members};
use super::thinking::Thinking;
use super::{Policy, wrong};
use crate::error::ApiError;

/// What a member must be.
#[derive(Clone, Copy)]
enum Must {
    /// A number of this range.
    Number(f64, f64),
    /// A whole number, from here on.
    Whole(i64),
    Boolean,
    String,
    List,
    Object,
}

/// The members that engines take, under the names that vLLM gives them.
const MEMBERS: [(&str, Must); 25] = [
    ("temperature", Must::Number(0.0, 2.0)),
    ("top_p", Must::Number(0.0, 1.0)),
    ("top_k", Must::Whole(-1)),
    ("min_p", Must::Number(0.0, 1.0)),
    ("presence_penalty", Must::Number(-2.0, 2.0)),
    ("frequency_penalty", Must::Number(-2.0, 2.0)),
    ("repetition_penalty", Must::Number(0.0, f64::MAX)),
    ("length_penalty", Must::Number(f64::MIN, f64::MAX)),
    ("seed", Must::Whole(i64::MIN)),
    ("logit_bias", Must::Object),
    ("min_tokens", Must::Whole(0)),
    ("stop_token_ids", Must::List),
    ("ignore_eos", Must::Boolean),
    ("bad_words", Must::List),
    ("allowed_token_ids", Must::List),
    ("thinking_token_budget", Must::Whole(0)),
    ("truncate_prompt_tokens", Must::Whole(-1)),
    ("repetition_detection", Must::Object),
    ("priority", Must::Whole(i64::MIN)),
    ("user", Must::String),
    ("cache_salt", Must::String),
    ("kv_transfer_params", Must::Object),
    ("vllm_xargs", Must::Object),
    ("custom_params", Must::Object),
    ("lora_path", Must::String),
];

/// What the hosted API takes: the number while thinking, the number while not.
const FIXED: [(&str, f64, f64); 4] =
    [("temperature", 1.0, 0.6), ("top_p", 0.95, 0.95), ("presence_penalty", 0.0, 0.0), ("frequency_penalty", 0.0, 0.0)];

/// The sampling members of a request.
pub(crate) fn sampling(
    request: &mut Members<'_>,
    thinking: Thinking,
    policy: &Policy,
) -> Result<BTreeMap<String, Box<RawValue>>, ApiError> {
    let mut sampling = BTreeMap::new();
    for (name, must) in MEMBERS {
        let Some(member) = request.take(name) else { continue };
        check(&member, must)?;
        if policy.vendor_strict {
            fixed(&member, name, thinking)?;
        }
        sampling.insert(name.to_owned(), member.raw.to_owned());
    }
    Ok(sampling)
}

fn check(member: &Member<'_>, must: Must) -> Result<(), ApiError> {
    match must {
        Must::Number(least, most) => member.number(least..=most).map(|_| ()),
        Must::Whole(least) => match serde_json::from_str::<f64>(member.raw.get()) {
            Ok(number) if number.fract() == 0.0 && number >= least as f64 => Ok(()),
            _ if least == i64::MIN => Err(member.wrong("must be a whole number")),
            _ => Err(member.wrong(&format!("must be a whole number, {least} or more"))),
        },
        Must::Boolean => member.boolean().map(|_| ()),
        Must::String => member.text().map(|_| ()),
        Must::List => member.list().map(|_| ()),
        Must::Object => member.object().map(|_| ()),
    }
}

fn fixed(member: &Member<'_>, name: &str, thinking: Thinking) -> Result<(), ApiError> {
    let Some((_, on, off)) = FIXED.iter().find(|(fixed, ..)| *fixed == name) else { return Ok(()) };
    let only = if thinking.on { *on } else { *off };
    if member.number(only..=only).is_ok() {
        return Ok(());
    }
    let mode = if thinking.on { "while thinking" } else { "without thinking" };
    Err(member.wrong(&format!("only {only:?} is allowed {mode}")))
}

/// The most choices of a request.
const MOST_CHOICES: u64 = 128;
/// The most strings that end the answer, and the longest of them, in bytes.
const MOST_STOPS: usize = 16;
const LONGEST_STOP: usize = 4096;
/// The most alternatives of a token.
const MOST_TOP: u64 = 20;

/// How many choices. A large request may have fewer: each of them is asked of the engine.
pub(crate) fn choices(request: &mut Members<'_>, body: usize, policy: &Policy) -> Result<usize, ApiError> {
    let most = (policy.max_body / body.max(1)) as u64;
    let most = if policy.vendor_strict { 1 } else { most.clamp(1, MOST_CHOICES) };
    Ok(request.whole("n", 1..=most)?.unwrap_or(1) as usize)
}

/// The strings that end the answer.
pub(crate) fn stops(member: Option<Member<'_>>) -> Result<Vec<String>, ApiError> {
    let Some(member) = member else { return Ok(Vec::new()) };
    let stops = if member.is_string() {
        vec![member.clone()]
    } else {
        member.list().map_err(|_| member.wrong("must be a string, or a list of strings"))?
    };
    if stops.len() > MOST_STOPS {
        return Err(member.wrong(&format!("must be at most {MOST_STOPS} strings")));
    }
    let one = |stop: &Member<'_>| match stop.text()? {
        text if text.is_empty() => Err(stop.wrong("an empty string ends nothing")),
        text if text.len() > LONGEST_STOP => Err(stop.wrong(&format!("must be at most {LONGEST_STOP} bytes"))),
        text => Ok(text),
    };
    stops.iter().map(one).collect()
}

/// Whether each token has its log-probability, and with how many alternatives.
pub(crate) fn logprobs(request: &mut Members<'_>) -> Result<Option<usize>, ApiError> {
    let wanted: bool = request.read("logprobs")?.unwrap_or(false);
    let top = request.whole("top_logprobs", 0..=MOST_TOP)?;
    if top.is_some_and(|top| top > 0) && !wanted {
        return Err(wrong("top_logprobs", "asks for logprobs to be true"));
    }
    Ok(wanted.then(|| top.unwrap_or(0) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str, vendor_strict: bool, on: bool) -> Result<usize, String> {
        let mut members = Members::of_body(body.as_bytes()).unwrap();
        let policy = Policy { vendor_strict, ..Policy::default() };
        let read = sampling(&mut members, Thinking { on, effort: None }, &policy);
        read.map(|sampling| sampling.len()).map_err(|error| error.param.unwrap())
    }

    #[test]
    fn members_keep_to_their_ranges_and_their_spelling() {
        let body = r#"{"temperature": 0.70, "top_p": 1, "top_k": -1, "seed": -7, "logit_bias": {"5": 1}, "user": "u"}"#;
        assert_eq!(read(body, false, true), Ok(6));
        let mut members = Members::of_body(body.as_bytes()).unwrap();
        let read_all = sampling(&mut members, Thinking { on: true, effort: None }, &Policy::default()).unwrap();
        assert_eq!(read_all["temperature"].get(), "0.70");
        for body in [
            r#"{"temperature": 2.1}"#,
            r#"{"temperature": "1"}"#,
            r#"{"top_p": -0.1}"#,
            r#"{"top_p": 1.5}"#,
            r#"{"presence_penalty": 3}"#,
            r#"{"frequency_penalty": -2.5}"#,
            r#"{"top_k": 1.5}"#,
            r#"{"min_tokens": -1}"#,
            r#"{"seed": "x"}"#,
            r#"{"logit_bias": []}"#,
            r#"{"stop_token_ids": 4}"#,
        ] {
            let name = body.split('"').nth(1).unwrap();
            assert_eq!(read(body, false, true), Err(name.into()));
        }
    }

    #[test]
    fn the_vendors_fixed_parameters() {
        for (body, on, passes) in [
            (r#"{"temperature": 1}"#, true, true),
            (r#"{"temperature": 0.6}"#, true, false),
            (r#"{"temperature": 0.6}"#, false, true),
            (r#"{"top_p": 0.95}"#, true, true),
            (r#"{"top_p": 1}"#, true, false),
            (r#"{"presence_penalty": 0}"#, true, true),
            (r#"{"frequency_penalty": 0.5}"#, false, false),
        ] {
            assert_eq!(read(body, true, on).is_ok(), passes, "{body}");
            assert!(read(body, false, on).is_ok(), "{body}");
        }
    }
}
