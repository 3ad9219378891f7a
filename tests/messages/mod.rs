//! Messages for property tests: texts that look like markup, arguments in the spelling that the parser gives.

#![allow(dead_code, reason = "no test uses all of it")]

use kimi_xtml::{Message, ToolCall};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

/// A message without the ids, which the wire does not carry; every call is complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parts {
    pub(crate) reasoning: String,
    pub(crate) content: String,
    /// Names and arguments.
    pub(crate) calls: Vec<(String, String)>,
}

impl Parts {
    pub(crate) fn of(message: &Message) -> Parts {
        assert!(message.tool_calls.iter().all(|call| call.complete));
        let call = |call: &ToolCall| (call.name.clone(), call.arguments.clone());
        Parts {
            reasoning: message.reasoning.clone(),
            content: message.content.clone(),
            calls: message.tool_calls.iter().map(call).collect(),
        }
    }

    pub(crate) fn message(&self) -> Message {
        let calls = self.calls.iter().map(|(name, arguments)| ToolCall::new(name, arguments));
        Message::of(&self.reasoning, &self.content, calls.collect())
    }
}

const MARKERS: [&str; 4] = ["<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"];

/// Text that spells no control token, but nearly.
pub(crate) fn plain_text() -> BoxedStrategy<String> {
    let word = select(vec![
        "a", " ", "\n", "\t", "<", "<|", "|>", "open", "<|clo", "<|close|", "sep", "think", "tools", "[EOS]", "&",
        "&quot;", "&amp;", "\"", "\\", "\\u0041", "{", "}", "=", "é", "😀", "\u{0}", "\u{7f}", "\u{2028}",
    ]);
    let spells_one = |text: &String| MARKERS.iter().any(|marker| text.contains(marker));
    vec(word, 0..8)
        .prop_map(|words| words.concat())
        .prop_filter("spells a control token", move |text| !spells_one(text))
        .boxed()
}

/// Any text, often such that quotes markup.
pub(crate) fn any_text() -> BoxedStrategy<String> {
    let tag = (
        select(vec!["<|open|>", "<|close|>", "<|sep|>", ""]),
        select(vec!["", " ", "\n"]),
        select(vec!["think", "response", "tools", "call", "argument", "json", "message", "call tool=\"f\"", ""]),
        select(vec!["<|sep|>", "<|sep|>", " <|sep|>", "<|end_of_msg|>", "<|close|>", ""]),
    )
        .prop_map(|(marker, blank, name, end)| [marker, blank, name, end].concat());
    let part = prop_oneof![2 => tag, 1 => plain_text()];
    vec(part, 0..5).prop_map(|parts| parts.concat()).boxed()
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// JSON in the spelling of the format.
fn json(text: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    let number = select(vec!["0", "-1.50", "1e2", "12345678901234567890123", "true", "null", "[]", "{}"]);
    let leaf = prop_oneof![text.clone().prop_map(|text| quoted(&text)), number.prop_map(String::from)];
    leaf.prop_recursive(4, 12, 3, move |inner| {
        let member = (text.clone(), inner.clone()).prop_map(|(key, value)| format!("{}: {value}", quoted(&key)));
        prop_oneof![
            vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(", "))),
        ]
    })
}

/// Messages of such texts, each of them empty at times.
pub(crate) fn parts(text: BoxedStrategy<String>) -> impl Strategy<Value = Parts> {
    let member = (text.clone(), json(text.clone())).prop_map(|(key, value)| format!("{}:{value}", quoted(&key)));
    let object = vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(",")));
    let begins_with_an_object = |text: &str| {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        values.next().is_some_and(|value| value.is_ok_and(|value| value.is_object()))
    };
    let no_object = prop_oneof![text.clone(), text.clone().prop_map(|text| format!("{{\"a\":1{text}"))]
        .prop_filter("an object, or none", move |text| !text.is_empty() && !begins_with_an_object(text));
    let arguments = prop_oneof![6 => object, 2 => no_object];
    let name = text.clone().prop_map(|name| if name.is_empty() { "f".into() } else { name });
    let call = (name, arguments);
    (text.clone(), text, vec(call, 0..4)).prop_map(|(reasoning, content, calls)| Parts { reasoning, content, calls })
}

/// Where to cut a text, for [`cut`].
pub(crate) fn cuts() -> impl Strategy<Value = Vec<Index>> {
    vec(any::<Index>(), 0..8)
}

/// The text, cut between characters.
pub(crate) fn cut<'a>(text: &'a str, cuts: &[Index]) -> Vec<&'a str> {
    let boundaries: Vec<usize> = (0..=text.len()).filter(|&at| text.is_char_boundary(at)).collect();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut.get(&boundaries)).collect();
    cuts.sort_unstable();
    let mut chunks = Vec::new();
    let mut from = 0;
    for cut in cuts.into_iter().chain([text.len()]) {
        chunks.push(&text[from..cut]);
        from = cut;
    }
    chunks
}
