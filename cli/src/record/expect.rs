//! What must come of a well-formed stream that a limit cuts.
//!
//! In: tokens, control tokens told from text. Out: reasoning, content and calls as far as they were generated. It knows
//! well-formed streams only, and shares nothing with the parser. A tag that is cut is no text.

use kimi_xtml::Marker;

use crate::cases::{Expected, ExpectedCall, Opened};
use crate::record::tokens::Token;

enum Place {
    Outside,
    Think,
    Response,
    /// In a value: whether it is a string.
    Value(bool),
    /// In a json block.
    Block,
}

pub(crate) fn expected_of_tokens(tokens: &[Token], opened: Opened) -> Expected {
    let mut place = match opened {
        Opened::Think => Place::Think,
        Opened::Response => Place::Response,
        Opened::Tools | Opened::None => Place::Outside,
    };
    let mut expected = Expected::default();
    let mut tag: Option<(bool, String)> = None;
    let mut held = String::new();
    for token in tokens {
        match (token.marker, &mut tag) {
            (Some(Marker::Open), _) => tag = Some((true, String::new())),
            (Some(Marker::Close), _) => tag = Some((false, String::new())),
            (Some(Marker::Sep), _) => {
                if let Some((opens, header)) = tag.take() {
                    place = enter(opens, &header, place, &mut expected, &mut held);
                }
            }
            (Some(_), _) => {}
            (None, Some((_, header))) => header.push_str(&token.text),
            (None, None) => match place {
                Place::Think => expected.reasoning += &token.text,
                Place::Response => expected.content += &token.text,
                Place::Value(false) => held += &token.text,
                Place::Value(true) => arguments(&mut expected).push_str(&escaped(&token.text)),
                Place::Block => arguments(&mut expected).push_str(&token.text),
                Place::Outside => {}
            },
        }
    }
    // A value that was held goes out raw.
    if let Place::Value(false) = place {
        arguments(&mut expected).push_str(&held);
    }
    expected
}

fn enter(opens: bool, header: &str, place: Place, expected: &mut Expected, held: &mut String) -> Place {
    let name = header.split(' ').next().unwrap_or_default();
    match (opens, name) {
        (true, "think") => Place::Think,
        (true, "response") => Place::Response,
        (true, "call") => {
            let name = attribute(header, "tool");
            expected.tool_calls.push(ExpectedCall { name, arguments_json: String::new(), complete: false });
            Place::Outside
        }
        (true, "argument") => {
            let key = serde_json::Value::from(attribute(header, "key")).to_string();
            let is_string = attribute(header, "type") == "string";
            let json = arguments(expected);
            json.push(if json.is_empty() { '{' } else { ',' });
            *json += &key;
            json.push(':');
            json.push_str(if is_string { "\"" } else { "" });
            Place::Value(is_string)
        }
        (true, "json") => Place::Block,
        (false, "argument") => {
            let value = std::mem::take(held);
            let end = if let Place::Value(true) = place { "\"" } else { &value };
            arguments(expected).push_str(end);
            Place::Outside
        }
        (false, "call") => {
            if let Some(call) = expected.tool_calls.last_mut() {
                let has_block = !call.arguments_json.starts_with('{') && !call.arguments_json.is_empty();
                if !has_block {
                    call.arguments_json += if call.arguments_json.is_empty() { "{}" } else { "}" };
                }
                call.complete = true;
            }
            Place::Outside
        }
        _ => Place::Outside,
    }
}

fn arguments(expected: &mut Expected) -> &mut String {
    if expected.tool_calls.is_empty() {
        expected.tool_calls.push(ExpectedCall { name: String::new(), arguments_json: String::new(), complete: false });
    }
    let last = expected.tool_calls.len() - 1;
    &mut expected.tool_calls[last].arguments_json
}

fn attribute(header: &str, name: &str) -> String {
    let begin = format!(" {name}=\"");
    let value = header.split_once(&begin).and_then(|(_, rest)| rest.split_once('"')).map_or("", |(value, _)| value);
    value.replace("&quot;", "\"").replace("&amp;", "&")
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
