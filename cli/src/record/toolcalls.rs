//! Ground truth for tool calls -> turns.
//!
//! In: the `data` folder of the package bfcl-eval (questions, functions, the right calls), and folders of JSON schemas, one a
//! line. Out: turns with those calls: simple, multiple, parallel, of several turns; and calls with instances of the schemas.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kimi_xtml::{Message, ToolCall};
use serde_json::{Map, Value};

use crate::record::gsm8k::{Line, lines};
use crate::record::{Recorder, Turn, python, schema};

/// The categories that are read, and what a turn of theirs is called.
const CATEGORIES: &[(&str, &str)] = &[
    ("simple_python", "simple"),
    ("simple_java", "simple"),
    ("simple_javascript", "simple"),
    ("multiple", "multiple"),
    ("parallel", "parallel"),
    ("parallel_multiple", "parallel"),
    ("live_simple", "simple"),
    ("live_multiple", "multiple"),
    ("live_parallel", "parallel"),
    ("live_parallel_multiple", "parallel"),
    ("multi_turn_base", "multi-turn"),
];

/// Calls in the one turn that all instances of a schema share.
const INSTANCES: usize = 3;

/// Reads bfcl-eval's `data` folder.
///
/// # Errors
/// If the folder has none of the categories, or one cannot be read.
pub fn read_bfcl(folder: &Path) -> anyhow::Result<Vec<Turn>> {
    let mut turns = Vec::new();
    for (category, kind) in CATEGORIES {
        let Some(questions) = find(folder, category) else { continue };
        let answers = find(&folder.join("possible_answer"), category)
            .with_context(|| format!("{}: no possible_answer for {category}", folder.display()))?;
        turns.extend(turns_of(kind, &lines(&questions)?, &lines(&answers)?));
    }
    anyhow::ensure!(!turns.is_empty(), "{}: no questions with their possible_answer", folder.display());
    Ok(turns)
}

/// The turns of a category: its questions, with those of the right answers that have their ids.
pub(crate) fn turns_of(kind: &str, questions: &[Line], answers: &[Line]) -> Vec<Turn> {
    let mut turns = Vec::new();
    for (_, item) in questions {
        let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
        let answer = answers.iter().find(|(_, answer)| answer.get("id") == item.get("id"));
        let Some(truth) = answer.and_then(|(_, answer)| answer.get("ground_truth")).and_then(Value::as_array) else {
            continue;
        };
        let declared: Vec<String> = array(item.get("function")).filter_map(name_of).collect();
        let question = |turn: usize| {
            let messages = item.get("question").and_then(|question| question.get(turn)).and_then(Value::as_array)?;
            let last = messages.iter().rev().find(|message| message.get("role") == Some(&"user".into()))?;
            Some(last.get("content")?.as_str()?.to_owned())
        };
        if kind == "multi-turn" {
            for (turn, calls) in truth.iter().enumerate() {
                let calls: Vec<_> = array(Some(calls)).filter_map(|call| python::call(call.as_str()?)).collect();
                turns.extend(turn_of(format!("{id}-{turn}"), kind, question(turn), &declared, calls));
            }
        } else {
            let calls = truth.iter().filter_map(Value::as_object).flatten();
            let calls = calls.map(|(name, arguments)| (name.clone(), chosen(arguments))).collect();
            turns.extend(turn_of(id.into(), kind, question(0), &declared, calls));
        }
    }
    turns
}

/// Reads folders of `*.jsonl`, a JSON schema a line, and makes calls with instances of each.
///
/// # Errors
/// If a file cannot be read.
pub fn read_schemas(folder: &Path, recorder: &Recorder) -> anyhow::Result<Vec<Turn>> {
    let name = folder.display();
    let files = folder.read_dir().with_context(|| format!("cannot read {name}"))?;
    let mut files: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    anyhow::ensure!(!files.is_empty(), "{name}: no .jsonl files");
    let mut turns = Vec::new();
    for file in files {
        let suite = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        turns.extend(turns_of_schemas(&suite, &lines(&file)?, recorder));
    }
    Ok(turns)
}

/// Turns with calls of the tool `suite`, whose arguments are instances of the schemas.
pub(crate) fn turns_of_schemas(suite: &str, schemas: &[Line], recorder: &Recorder) -> Vec<Turn> {
    let mut turns = Vec::new();
    for (number, schema) in schemas {
        let id = format!("{suite}-{number}");
        let mut random = recorder.random(&id, "schema");
        let tool = suite.to_owned();
        let mut calls = Vec::new();
        for _ in 0..INSTANCES {
            let instance = schema::instance(&Value::Object(schema.clone()), &mut random);
            let arguments = match instance {
                Value::Object(members) => members,
                value => Map::from_iter([("value".to_owned(), value)]),
            };
            calls.push((tool.clone(), arguments));
        }
        turns.extend(turn_of(id, "schema-instances", None, &[tool], calls));
    }
    turns
}

fn find(folder: &Path, category: &str) -> Option<PathBuf> {
    let files = folder.read_dir().ok()?.filter_map(|file| Some(file.ok()?.path()));
    let end = format!("_{category}.json");
    let mut found: Vec<_> = files.filter(|file| is_version(file, &end)).collect();
    found.sort();
    found.pop()
}

/// Whether the file is `BFCL_v` and a number and the end.
fn is_version(file: &Path, end: &str) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let version = name.strip_prefix("BFCL_v").and_then(|name| name.strip_suffix(end));
    version.is_some_and(|version| !version.is_empty() && version.bytes().all(|digit| digit.is_ascii_digit()))
}

fn array(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn name_of(function: &Value) -> Option<String> {
    Some(function.get("name")?.as_str()?.to_owned())
}

/// The first right value of each argument; those that may be left away with `""` alone are.
fn chosen(arguments: &Value) -> Map<String, Value> {
    let members = arguments.as_object().into_iter().flatten();
    members.filter_map(|(key, right)| Some((key.clone(), first(right)?))).collect()
}

fn first(right: &Value) -> Option<Value> {
    let values = right.as_array()?;
    let value = values.iter().find(|value| value.as_str() != Some(""))?;
    Some(settle(value))
}

/// Objects among right values have right values themselves.
fn settle(value: &Value) -> Value {
    match value {
        Value::Object(members) if !members.is_empty() && members.values().all(Value::is_array) => {
            members.iter().filter_map(|(key, right)| Some((key.clone(), first(right)?))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(settle).collect(),
        value => value.clone(),
    }
}

fn turn_of(
    id: String,
    kind: &str,
    user: Option<String>,
    declared: &[String],
    calls: Vec<(String, Map<String, Value>)>,
) -> Option<Turn> {
    if calls.is_empty() {
        return None;
    }
    // What the model says beside the calls varies with the turn.
    let asked = user.as_deref().unwrap_or("The tool's schema decides.");
    let names: BTreeSet<&str> = calls.iter().map(|(name, _)| &**name).collect();
    let reasoning = format!("The user asks: {asked}\n\nThat takes {} of {names:?}.", calls.len());
    let content =
        if id.len().is_multiple_of(2) { String::new() } else { format!("I'll look that up ({}).", calls.len()) };
    let mut tools = declared.to_vec();
    tools.extend(names.iter().map(|name| (*name).to_owned()).filter(|name| !declared.contains(name)));
    let call = |(name, arguments): (String, Map<String, Value>)| ToolCall::new(name, python::arguments(&arguments));
    let message = Message::of(reasoning, content, calls.into_iter().map(call).collect());
    Some(Turn { id, kind: kind.into(), user, message, tools, ..Turn::default() })
}
