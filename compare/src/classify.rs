//! Differences between what was said and what a parser made of it, by class.
//!
//! In: the results that pass, and what was heard. Out: the [`Difference`]s from the nearest of them, each with its class, a
//! rule that says which kind of the class it is, and where it shows. White space, spellings of JSON and cut calls have
//! rules of their own, so that they can be tolerated apart.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::heard::Heard;
use crate::stream::{Call, Layout, Outcome, Part, Stream};

/// A class of differences, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Class {
    Error,
    LostText,
    MovedText,
    LeakedMarkup,
    LostCall,
    ForgedCall,
    ChangedValue,
    ChunkDependent,
    Policy,
}

impl Class {
    pub(crate) const ALL: [Class; 9] = [
        Class::Error,
        Class::LostText,
        Class::MovedText,
        Class::LeakedMarkup,
        Class::LostCall,
        Class::ForgedCall,
        Class::ChangedValue,
        Class::ChunkDependent,
        Class::Policy,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Class::Error => "error",
            Class::LostText => "lost text",
            Class::MovedText => "moved text",
            Class::LeakedMarkup => "leaked markup",
            Class::LostCall => "lost call",
            Class::ForgedCall => "forged call",
            Class::ChangedValue => "changed value",
            Class::ChunkDependent => "chunk-dependent",
            Class::Policy => "policy",
        }
    }

    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Class::Error => "the parser raised, panicked or gave no answer",
            Class::LostText => "reasoning or answer that the model wrote did not arrive",
            Class::MovedText => "reasoning arrived as answer, or answer as reasoning",
            Class::LeakedMarkup => "markup, or text that nobody wrote, arrived as reasoning or answer",
            Class::LostCall => "a complete call did not arrive",
            Class::ForgedCall => "a call arrived that was not made, or a cut call as a complete one",
            Class::ChangedValue => "a call's arguments say something else than the model wrote",
            Class::ChunkDependent => "another way to cut the same stream gives another result",
            Class::Policy => "a choice that can be defended, named by its rule",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    pub(crate) class: Class,
    /// Which kind of the class, with hyphens.
    pub(crate) rule: &'static str,
    /// Where it shows, shortened.
    pub(crate) detail: String,
}

fn found(class: Class, rule: &'static str, detail: impl Into<String>) -> Difference {
    Difference { class, rule, detail: detail.into() }
}

/// How a result differs from the nearest one that passes.
pub(crate) fn classify(stream: &Stream, heard: &Heard) -> Vec<Difference> {
    let got = heard.outcome();
    let mut differences = Vec::new();
    match stream.accepted.split_first() {
        Some((said, others)) => {
            let exact = |outcome: &Outcome| same(outcome, &got) && !completes_a_cut_call(stream, outcome, &got);
            if !exact(said) {
                let mut nearest = compare(stream, said, &got);
                for other in others {
                    let to_other = if exact(other) { Vec::new() } else { compare(stream, other, &got) };
                    if to_other.iter().filter(|it| it.class != Class::Policy).count()
                        < nearest.iter().filter(|it| it.class != Class::Policy).count()
                    {
                        nearest = to_other;
                        nearest.push(found(
                            Class::Policy,
                            "another-accepted-result",
                            "a result that the record accepts too",
                        ));
                    }
                }
                differences.extend(nearest);
            }
        }
        None => differences.push(found(Class::Error, "nothing-expected", "")),
    }
    if let Some(error) = &heard.error {
        differences.insert(0, found(Class::Error, "raised", error.clone()));
    }
    differences
}

/// Equal, as far as a client of the parser can see.
fn same(said: &Outcome, got: &Outcome) -> bool {
    said.reasoning == got.reasoning
        && said.content == got.content
        && said.calls.len() == got.calls.len()
        && said.calls.iter().zip(&got.calls).all(|(a, b)| a.name == b.name && a.arguments == b.arguments)
}

fn compare(stream: &Stream, said: &Outcome, got: &Outcome) -> Vec<Difference> {
    let mut differences = Vec::new();
    if said.reasoning != got.reasoning || said.content != got.content {
        let whole = |outcome: &Outcome| outcome.reasoning.clone() + &outcome.content;
        if whole(said) == whole(got) {
            let rule =
                if got.reasoning.len() > said.reasoning.len() { "answer-in-reasoning" } else { "reasoning-in-answer" };
            let moved = got.reasoning.len().abs_diff(said.reasoning.len());
            differences.push(found(Class::MovedText, rule, format!("{moved} bytes")));
        } else {
            text("reasoning", &said.reasoning, &got.reasoning, &got.content, stream, &mut differences);
            text("answer", &said.content, &got.content, &got.reasoning, stream, &mut differences);
        }
    }
    calls(stream, said, got, &mut differences);
    differences
}

/// What differs in one channel: the ends that are equal are taken away.
fn text(
    channel: &'static str,
    said: &str,
    got: &str,
    elsewhere: &str,
    stream: &Stream,
    differences: &mut Vec<Difference>,
) {
    let (lost, added) = apart(said, got);
    let detail = |text: &str| format!("{channel}: {}", shortened(text));
    // One within the other: nothing was lost, or nothing was added.
    let (lost, added) = match (added.find(lost), lost.find(added)) {
        (Some(at), _) if !lost.is_empty() => (String::new(), without(added, at, lost)),
        (_, Some(at)) if !added.is_empty() => (without(lost, at, added), String::new()),
        _ => (lost.to_owned(), added.to_owned()),
    };
    let (lost, added) = (&*lost, &*added);
    if !lost.is_empty() {
        let other = lost.trim();
        differences.push(if other.is_empty() {
            found(Class::LostText, "white-space", detail(lost))
        } else if other.len() >= 4 && elsewhere.contains(other) && !said_both(stream, other) {
            let rule = if channel == "answer" { "answer-in-reasoning" } else { "reasoning-in-answer" };
            found(Class::MovedText, rule, detail(lost))
        } else if said.starts_with(got) {
            found(Class::LostText, if got.is_empty() { "all-of-a-channel" } else { "tail" }, detail(lost))
        } else {
            found(Class::LostText, "middle", detail(lost))
        });
    }
    if !added.is_empty() {
        let spelled = |marker: &str| added.contains(marker);
        let moved = stream.accepted.iter().any(|said| {
            let other = if channel == "answer" { &said.reasoning } else { &said.content };
            added.trim().len() >= 4 && other.contains(added.trim())
        });
        if moved {
            // Told of where it is missing, or a duplicate.
            if elsewhere.contains(added.trim()) {
                differences.push(found(Class::LeakedMarkup, "text-twice", detail(added)));
            }
        } else if ["<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"].into_iter().any(spelled) {
            differences.push(found(Class::LeakedMarkup, "control-token", detail(added)));
        } else if added.trim().is_empty() {
            differences.push(found(Class::LeakedMarkup, "white-space", detail(added)));
        } else if stream.text().contains(added) {
            differences.push(found(Class::LeakedMarkup, "tag-text", detail(added)));
        } else {
            differences.push(found(Class::LeakedMarkup, "unwritten-text", detail(added)));
        }
    }
}

fn without(text: &str, at: usize, part: &str) -> String {
    text[..at].to_owned() + &text[at + part.len()..]
}

/// Whether both channels say this: then it is nowhere moved to.
fn said_both(stream: &Stream, text: &str) -> bool {
    stream.accepted.first().is_some_and(|said| said.reasoning.contains(text) && said.content.contains(text))
}

/// The middles of two texts, between the beginnings and the ends that they share.
pub(crate) fn apart<'a>(said: &'a str, got: &'a str) -> (&'a str, &'a str) {
    let head: usize = said.chars().zip(got.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
    let (said, got) = (&said[head..], &got[head..]);
    let tail: usize =
        said.chars().rev().zip(got.chars().rev()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
    (&said[..said.len() - tail], &got[..got.len() - tail])
}

fn calls(stream: &Stream, said: &Outcome, got: &Outcome, differences: &mut Vec<Difference>) {
    let (said, got) = (&said.calls[..], &got.calls[..]);
    // The longest run of calls of the same names in both.
    let mut longest = vec![vec![0; got.len() + 1]; said.len() + 1];
    for i in (0..said.len()).rev() {
        for j in (0..got.len()).rev() {
            longest[i][j] = if said[i].name == got[j].name {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < said.len() || j < got.len() {
        let pair = said.get(i).zip(got.get(j));
        if let Some((said, got)) = pair.filter(|(said, got)| said.name == got.name) {
            differences.extend(arguments(stream, said, got));
            (i, j) = (i + 1, j + 1);
        } else if i < said.len() && (j == got.len() || longest[i + 1][j] >= longest[i][j + 1]) {
            let Call { name, arguments, complete } = &said[i];
            differences.push(if *complete {
                found(Class::LostCall, "missing", format!("{name} {}", shortened(arguments)))
            } else {
                found(Class::Policy, "cut-call-withheld", name.clone())
            });
            i += 1;
        } else {
            let Call { name, arguments, .. } = &got[j];
            differences.push(found(Class::ForgedCall, "not-made", format!("{name} {}", shortened(arguments))));
            j += 1;
        }
    }
}

/// Whether a call that a limit cut has arguments that parse, though nothing in it was JSON as a whole: a client would run it.
/// The result that was expected is no excuse, so that all parsers are judged alike.
fn completes(stream: &Stream, said: &Call, got: &Call) -> bool {
    let is_block = stream.text().contains("<|open|>json");
    stream.reason == "length" && !said.complete && !is_block && serde_json::from_str::<Value>(&got.arguments).is_ok()
}

fn completes_a_cut_call(stream: &Stream, said: &Outcome, got: &Outcome) -> bool {
    said.calls.iter().zip(&got.calls).any(|(said, got)| completes(stream, said, got))
}

fn arguments(stream: &Stream, said: &Call, got: &Call) -> Option<Difference> {
    let completes = completes(stream, said, got);
    if said.arguments == got.arguments && !completes {
        return None;
    }
    let (lost, added) = apart(&said.arguments, &got.arguments);
    let detail = format!("{}: {} became {}", said.name, shortened(lost), shortened(added));
    let value = |json: &str| serde_json::from_str::<Value>(json);
    let (class, rule) = if !said.complete {
        match value(&got.arguments) {
            Ok(_) if completes => (Class::ForgedCall, "cut-call-completed"),
            Ok(_) => (Class::Policy, "broken-call-delivered"),
            _ if said.arguments.starts_with(&got.arguments) => (Class::Policy, "cut-call-shorter"),
            _ if respelled(&said.arguments).starts_with(&*respelled(&got.arguments)) => {
                (Class::Policy, "cut-call-shorter")
            }
            _ => (Class::ChangedValue, "cut-call"),
        }
    } else if respelled(&said.arguments) == respelled(&got.arguments) {
        (Class::Policy, "json-respelled")
    } else {
        match (value(&said.arguments), value(&got.arguments)) {
            (Ok(_), Err(_)) if said.arguments.starts_with(&got.arguments) => (Class::ChangedValue, "truncated"),
            (Ok(_), Err(_)) => (Class::ChangedValue, "invalid-json"),
            (Ok(a), Ok(b)) if a == b && lost_digits(&said.arguments, &got.arguments) => {
                (Class::ChangedValue, "number-precision")
            }
            (Ok(a), Ok(b)) if a == b && has_repeated_keys(&said.arguments) => (Class::Policy, "repeated-key-dropped"),
            (Ok(a), Ok(b)) if a == b => (Class::Policy, "json-respelled"),
            (Ok(a), Ok(b)) if alike(&a, &b) => (Class::ChangedValue, "number-precision"),
            (Ok(a), Ok(b)) if type_changed(&a, &b) => (Class::ChangedValue, "type"),
            (Ok(_), Ok(_)) => (Class::ChangedValue, "value"),
            (Err(_), _) => (Class::ChangedValue, "raw-arguments"),
        }
    };
    Some(found(class, rule, detail))
}

/// JSON text without the blanks between its tokens, and its strings in one spelling; cut JSON as far as it goes.
fn respelled(json: &str) -> String {
    let mut out = String::new();
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        let len = if c == '"' { string_len(rest) } else { c.len_utf8() };
        let (token, after) = rest.split_at(len);
        match serde_json::from_str::<Value>(token) {
            Ok(text @ Value::String(_)) => out += &text.to_string(),
            _ if c.is_ascii_whitespace() => {}
            _ => out += token,
        }
        rest = after;
    }
    out
}

fn string_len(json: &str) -> usize {
    let mut escaped = false;
    for (at, c) in json.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

/// Whether a number that a double does not hold was written otherwise.
fn lost_digits(said: &str, got: &str) -> bool {
    let long = |number: &&str| number.bytes().filter(u8::is_ascii_digit).count() > 15;
    let got = numbers(got);
    numbers(said).into_iter().filter(long).any(|number| !got.contains(&number))
}

/// The numbers of JSON text, as they are spelled.
fn numbers(json: &str) -> Vec<&str> {
    let mut numbers = Vec::new();
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '"' => string_len(rest),
            '-' | '0'..='9' => rest.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        if c == '-' || c.is_ascii_digit() {
            numbers.push(&rest[..len]);
        }
        rest = &rest[len..];
    }
    numbers
}

fn has_repeated_keys(json: &str) -> bool {
    let keys = serde_json::from_str::<Value>(json).ok().and_then(|value| Some(value.as_object()?.len()));
    let colons = respelled(json).matches("\":").count();
    keys.is_some_and(|keys| keys < colons) && !json.contains(":{") && !json.contains(": {")
}

/// Equal but for the last digits of a number.
fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= a.abs() * 1e-12,
            _ => a == b,
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| alike(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Whether an argument has another JSON type.
fn type_changed(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => a.iter().any(|(key, a)| b.get(key).is_some_and(|b| type_changed(a, b))),
        (a, b) => std::mem::discriminant(a) != std::mem::discriminant(b),
    }
}

/// When a call's arguments began to come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    /// Bytes of the call that had come in by the end of the chunk that brought its first argument bytes.
    pub(crate) before: usize,
    /// Whether the call was over by then, though its first value had begun in an earlier chunk.
    pub(crate) is_late: bool,
}

/// Of each call that came with arguments.
pub(crate) fn late(stream: &Stream, layout: &Layout, heard: &Heard) -> Vec<Late> {
    let ends = stream.ends();
    let chunk_of = |byte: usize| ends.partition_point(|&end| end < byte);
    let calls = layout.calls.iter().zip(heard.first_arguments());
    let late = |(call, first): (&crate::stream::CallSpan, Option<usize>)| {
        let (first, value) = (first?, call.first_value?);
        let reached = ends.get(first).or(ends.last()).copied()?;
        let before = reached.min(call.bytes.end).saturating_sub(call.bytes.start);
        let over = chunk_of(call.bytes.end);
        Some(Late { before, is_late: first >= over && chunk_of(value) + 1 < over })
    };
    calls.filter_map(late).collect()
}

/// A text for a table.
pub(crate) fn shortened(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '\n' => shown.push('↵'),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    let count = shown.chars().count();
    if count <= 90 {
        return format!("‹{shown}›");
    }
    let head: String = shown.chars().take(50).collect();
    let tail: String = shown.chars().skip(count - 30).collect();
    format!("‹{head}…{tail}› ({} bytes)", text.len())
}

/// Whether a byte of the stream is the message's, and not its markup.
pub(crate) fn is_said(part: Part) -> bool {
    matches!(part, Part::Reasoning | Part::Content | Part::Argument)
}

#[cfg(test)]
mod tests {
    use kimi_xtml::{Channel, Request};

    use super::*;
    use crate::heard::Kind;

    fn stream(text: &str, said: Outcome, reason: &str) -> Stream {
        Stream {
            id: String::new(),
            kind: String::new(),
            chunks: text.split_inclusive('>').map(str::to_owned).collect(),
            ids: None,
            identity: false,
            opened: Some(Channel::Think),
            tools: vec!["f".into()],
            request: Request::new().opened(Channel::Think).tools(["f"]),
            reason: reason.into(),
            accepted: vec![said],
        }
    }

    fn said(reasoning: &str, content: &str, calls: &[(&str, bool)]) -> Outcome {
        let call =
            |&(arguments, complete): &(&str, bool)| Call { name: "f".into(), arguments: arguments.into(), complete };
        Outcome { reasoning: reasoning.into(), content: content.into(), calls: calls.iter().map(call).collect() }
    }

    /// What a parser said, as classes and rules.
    fn found_of(expected: &Outcome, got: &Outcome, reason: &str) -> Vec<(Class, &'static str)> {
        let text = "think<|close|>think<|sep|><|open|>response<|sep|>answer<|close|>response<|sep|>";
        let stream = stream(text, expected.clone(), reason);
        let mut heard = Heard::default();
        heard.say(0, Kind::Reasoning, 0, &*got.reasoning);
        heard.say(0, Kind::Content, 0, &*got.content);
        for (number, call) in got.calls.iter().enumerate() {
            heard.say(0, Kind::Name, number, &*call.name);
            heard.say(0, Kind::Arguments, number, &*call.arguments);
        }
        let found = classify(&stream, &heard);
        found.into_iter().map(|difference| (difference.class, difference.rule)).collect()
    }

    #[test]
    fn text_is_lost_moved_or_leaked() {
        let whole = said("think", "answer", &[]);
        let of = |reasoning, content| found_of(&whole, &said(reasoning, content, &[]), "stop");
        assert_eq!(of("think", "answer"), []);
        assert_eq!(of("think", "ans"), [(Class::LostText, "tail")]);
        assert_eq!(of("think", "anwer"), [(Class::LostText, "middle")]);
        assert_eq!(of("", "answer"), [(Class::LostText, "all-of-a-channel")]);
        assert_eq!(of("thinkanswer", ""), [(Class::MovedText, "answer-in-reasoning")]);
        assert_eq!(of("think<|close|>think", "answer"), [(Class::LeakedMarkup, "control-token")]);
        assert_eq!(of("think", "responseanswer"), [(Class::LeakedMarkup, "tag-text")]);
        assert_eq!(of("think", "\nanswer"), [(Class::LeakedMarkup, "white-space")]);
        assert_eq!(of("think", "\nanswer\n"), [(Class::LeakedMarkup, "white-space")]);
    }

    #[test]
    fn calls_are_lost_forged_or_changed() {
        let whole = said("", "", &[(r#"{"a":1.50,"b":[1, "x"]}"#, true)]);
        let of = |calls: &[(&str, bool)]| found_of(&whole, &said("", "", calls), "stop");
        assert_eq!(of(&[]), [(Class::LostCall, "missing")]);
        assert_eq!(of(&[(r#"{"b":[1,"x"],"a":1.5}"#, true)]), [(Class::Policy, "json-respelled")]);
        assert_eq!(of(&[(r#"{"a":1.50,"b":[1, "y"]}"#, true)]), [(Class::ChangedValue, "value")]);
        assert_eq!(of(&[(r#"{"a":"1.50","b":[1, "x"]}"#, true)]), [(Class::ChangedValue, "type")]);
        assert_eq!(of(&[(r#"{"a":1.50,"#, true)]), [(Class::ChangedValue, "truncated")]);
        let twice = [(r#"{"a":1.50,"b":[1, "x"]}"#, true), ("{}", true)];
        assert_eq!(of(&twice), [(Class::ForgedCall, "not-made")]);
    }

    #[test]
    fn cut_calls_may_be_withheld_but_not_completed() {
        let cut = said("", "", &[(r#"{"a":"x"#, false)]);
        let of = |calls: &[(&str, bool)]| found_of(&cut, &said("", "", calls), "length");
        assert_eq!(of(&[(r#"{"a":"x"#, true)]), []);
        assert_eq!(of(&[]), [(Class::Policy, "cut-call-withheld")]);
        assert_eq!(of(&[(r#"{"a":"#, true)]), [(Class::Policy, "cut-call-shorter")]);
        assert_eq!(of(&[(r#"{"a":"x"}"#, true)]), [(Class::ForgedCall, "cut-call-completed")]);
    }

    #[test]
    fn a_cut_call_that_parses_is_forged_even_where_it_was_expected() {
        let cut = said("", "", &[(r#"{"a":1,"admin":true}"#, false)]);
        assert_eq!(found_of(&cut, &cut, "length"), [(Class::ForgedCall, "cut-call-completed")]);
        // Without a limit the grammar was broken, and the result says what can be read.
        assert_eq!(found_of(&cut, &cut, "stop"), []);
    }

    #[test]
    fn late_arguments_are_counted_and_are_no_difference() {
        let text = "think<|close|>think<|sep|><|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument \
                    key=\"a\" type=\"string\"<|sep|>long<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>";
        let expected = said("think", "", &[(r#"{"a":"long"}"#, true)]);
        let stream = stream(text, expected.clone(), "stop");
        let heard_at = |chunk| {
            let mut heard = Heard::default();
            heard.say(0, Kind::Reasoning, 0, "think");
            heard.say(chunk, Kind::Name, 0, "f");
            heard.say(chunk, Kind::Arguments, 0, r#"{"a":"long"}"#);
            heard
        };
        let layout = Layout::of(&stream);
        let is_late = |heard: &Heard| late(&stream, &layout, heard).iter().any(|late| late.is_late);
        let (early, late) = (heard_at(stream.chunks.len() / 2), heard_at(stream.chunks.len() - 1));
        assert_eq!((is_late(&early), is_late(&late)), (false, true));
        assert_eq!(classify(&stream, &late), []);
    }

    #[test]
    fn big_numbers_keep_their_digits() {
        let whole = said("", "", &[(r#"{"n":12345678901234567890123}"#, true)]);
        let got = said("", "", &[(r#"{"n":1.2345678901234568e22}"#, true)]);
        let [(class, rule)] = found_of(&whole, &got, "stop")[..] else { panic!("one difference") };
        assert_eq!((class, rule), (Class::ChangedValue, "number-precision"));
    }
}
