//! GSM8K: word problems with worked solutions -> turns.
//!
//! In: a file in the shape of the official test set (`question`, `answer`) or of recorded model solutions (`question`, and
//! objects with a `solution`, one a model), one JSON object a line. Out: turns whose answer is the solution. Their
//! reasoning is a model's solution of the same question if there is one, else the steps of the answer.

use std::path::Path;

use anyhow::{Context, anyhow};
use kimi_xtml::Message;
use serde_json::{Map, Value};

use crate::cases::json_reason;
use crate::record::{self, Turn};

/// Reads a file of either shape; `solutions` may name a second file, of model solutions, for the reasoning.
///
/// # Errors
/// If a file cannot be read, or a line is no item.
pub fn read(file: &Path, solutions: Option<&Path>) -> anyhow::Result<Vec<Turn>> {
    let solutions = match solutions {
        Some(file) => lines(file)?,
        None => Vec::new(),
    };
    turns(lines(file)?, &file.display().to_string(), &solutions)
}

/// The turns of a file's numbered lines; messages call the file `name`.
pub(crate) fn turns(items: Vec<Line>, name: &str, solutions: &[Line]) -> anyhow::Result<Vec<Turn>> {
    let solution_of = |question: &str| {
        let is_it = |item: &&Line| item.1.get("question").and_then(Value::as_str) == Some(question);
        let (_, item) = solutions.iter().find(is_it)?;
        recorded(item).next().map(|(_, solution)| solution.to_owned())
    };
    let mut turns = Vec::new();
    for (number, item) in items {
        let question = item.get("question").and_then(Value::as_str);
        let question = question.with_context(|| format!("{name}, line {number}: no question"))?;
        let turn = |id: String, kind: &str, reasoning: String, content: &str| Turn {
            id,
            kind: kind.into(),
            user: Some(question.into()),
            message: Message::of(reasoning, content, Vec::new()),
            ..Turn::default()
        };
        if let Some(answer) = item.get("answer").and_then(Value::as_str) {
            let reasoning = solution_of(question).unwrap_or_else(|| steps(answer));
            turns.push(turn(format!("G{number:04}"), "worked-solution", reasoning, answer));
            continue;
        }
        let before = turns.len();
        let truth = item.get("ground_truth").and_then(Value::as_str).unwrap_or_default();
        for (model, solution) in recorded(&item) {
            turns.push(turn(format!("G{number:04}-{model}"), "model-solution", steps(truth), solution));
        }
        anyhow::ensure!(turns.len() > before, "{name}, line {number}: no answer and no solution");
    }
    Ok(turns)
}

/// A line's number, from 1 on, and its JSON object.
pub(crate) type Line = (usize, Map<String, Value>);

/// Reads JSON objects, one a line.
pub(crate) fn lines(file: &Path) -> anyhow::Result<Vec<Line>> {
    lines_from(&record::bytes(file)?, &file.display().to_string())
}

/// The JSON objects in `bytes`, which messages call `name`. Blank lines are passed over.
pub(crate) fn lines_from(bytes: &[u8], name: &str) -> anyhow::Result<Vec<Line>> {
    let lines = (1..).zip(bytes.split(|&byte| byte == b'\n')).filter(|(_, line)| !line.trim_ascii().is_empty());
    let item = |(number, line)| {
        let item = serde_json::from_slice(line);
        let item = item.map_err(|error| anyhow!("{name}, line {number}: no JSON object: {}", json_reason(&error)))?;
        Ok((number, item))
    };
    lines.map(item).collect()
}

fn recorded(item: &Map<String, Value>) -> impl Iterator<Item = (&str, &str)> {
    item.iter().filter_map(|(model, value)| Some((&**model, value.get("solution")?.as_str()?)))
}

/// A worked solution without its annotations and its last line.
fn steps(answer: &str) -> String {
    let mut steps = String::new();
    let body = answer.rsplit_once('\n').map_or(answer, |(body, _)| body);
    let mut rest = body;
    while let Some((before, annotated)) = rest.split_once("<<") {
        steps += before;
        rest = annotated.split_once(">>").map_or(annotated, |(_, after)| after);
    }
    steps + rest
}

/// The number on a reply's answer line (`#### 18`, or `A: 18`): what strict match looks for.
pub fn answer(reply: &str) -> Option<&str> {
    let line = reply.match_indices("#### ").map(|(at, mark)| &reply[at + mark.len()..]);
    let line = line.chain(reply.match_indices("\nA: ").map(|(at, mark)| &reply[at + mark.len()..]));
    let number = |rest: &'_ str| {
        let end =
            rest.char_indices().find(|&(at, c)| !(c.is_ascii_digit() || c == '.' || c == ',' || at == 0 && c == '-'));
        end.map_or(rest.len(), |(at, _)| at)
    };
    line.map(|rest| &rest[..number(rest)]).find(|found| found.chars().any(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_on_their_line() {
        assert_eq!(answer("It is 2*9=<<2*9=18>>18.\n#### 18"), Some("18"));
        assert_eq!(answer("…\n#### -1,200.5 <"), Some("-1,200.5"));
        assert_eq!(answer("so\nA: 7"), Some("7"));
        assert_eq!(answer("It is 18.\n###"), None);
    }

    #[test]
    fn steps_have_no_annotations() {
        assert_eq!(steps("2/2=<<2/2=1>>1 bolt\nso 2+1=<<2+1=3>>3\n#### 3"), "2/2=1 bolt\nso 2+1=3");
    }
}
