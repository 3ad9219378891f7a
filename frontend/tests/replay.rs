//! Every recorded stream through HTTP, streaming and not: the message is the one that the record expects, and every
//! stream keeps the rules of the frames. With `KIMI_XTML_DATA`, the field cases too.

mod support;

use std::path::Path;

use kimi_xtml_cli::cases::{self, Case, Expected};
use serde_json::{Value, json};
use support::{Said, Server, check_frames, data, replaying, request, serve};

/// Chunks of the largest case that is played.
const LARGEST: usize = 20_000;

async fn play(file: &Path) -> usize {
    let cases: Vec<Case> = cases::read(file).unwrap().iter().flat_map(Case::sizes).map(named).filter(small).collect();
    let lines: Vec<String> = cases.iter().map(|case| serde_json::to_string(case).unwrap()).collect();
    let server = serve(replaying(&lines.join("\n"))).await;
    for case in &cases {
        check(&server, case).await;
    }
    cases.len()
}

fn named((size, case): (String, Case)) -> Case {
    Case { id: case.id.clone() + &size, ..case }
}

fn small(case: &Case) -> bool {
    case.chunks.as_ref().is_none_or(|chunks| chunks.len() <= LARGEST)
}

/// Whether a request can declare its tools: an endpoint refuses names that a parser takes.
fn can_be_asked(case: &Case) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    case.context.tools.iter().all(|name| name.chars().all(plain))
}

async fn check(server: &Server, case: &Case) {
    let tools: Vec<_> =
        case.context.tools.iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
    let choice = serde_json::to_value(&case.context.tool_choice).unwrap();
    let several = case.expected_choices.len().max(1);
    let body = |stream: bool| {
        request(&case.id, json!({"tools": tools, "tool_choice": choice, "stream": stream, "n": several}))
    };
    let streamed = server.post("/v1/chat/completions", &body(true)).await;
    if !can_be_asked(case) {
        assert!(streamed.status == 400 && streamed.body.contains("function.name"), "{}: {}", case.id, streamed.body);
        return;
    }
    assert_eq!(streamed.status, 200, "{}: {}", case.id, streamed.body);
    check_frames(&streamed, several);
    let whole = server.post("/v1/chat/completions", &body(false)).await.json();
    for index in 0..several {
        let said = Said::of(&streamed.choice(index));
        let message = &whole["choices"][index];
        assert_eq!(said, Said::of_message(message), "{}: one body and frames differ", case.id);
        let expected = case.expected_choices.iter().find(|expected| expected.index == index).map(|one| &one.expected);
        let results: Vec<_> = expected.or(case.expected.as_ref()).into_iter().chain(&case.alternatives).collect();
        let reason = &case.context.engine_finish_reason;
        let passes = results.iter().any(|result| expects(result, reason, &said, message));
        assert!(passes, "{}: {said:?}\nexpected {results:?}", case.id);
    }
}

fn expects(result: &Expected, engine: &str, said: &Said, message: &Value) -> bool {
    let calls: Vec<_> = result.tool_calls.iter().map(|call| (call.name.clone(), call.arguments_json.clone())).collect();
    let complete = |at: usize| message["message"]["tool_calls"][at].get("complete").is_none();
    let whole = result.tool_calls.iter().enumerate().all(|(at, call)| call.complete == complete(at));
    let follows = || match engine {
        "stop" if result.tool_calls.iter().any(|call| call.complete) => "tool_calls".to_owned(),
        engine => engine.to_owned(),
    };
    let reason = result.finish_reason.clone().unwrap_or_else(follows);
    // Clients have no word for an abort: not all was said.
    let reason = if reason == "abort" { "length".into() } else { reason };
    let wanted = Said { reasoning: result.reasoning.clone(), content: result.content.clone(), calls, finish: reason };
    whole && *said == wanted
}

#[tokio::test]
async fn every_record_of_the_corpora() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut records = 0;
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "jsonl")) {
        records += play(&file).await;
    }
    assert!(records >= 160, "{records}");
}

#[tokio::test]
async fn field_cases() {
    if let Some(data) = data() {
        assert!(play(&data.join("cases/field.jsonl")).await >= 69);
    }
}

#[tokio::test]
async fn records_are_found_by_what_the_user_says_else_in_turn() {
    let record = |id: &str, user: &str, text: &str| {
        json!({"id": id, "user": user, "chunks": [text], "context": {"initial_channel": "response"}}).to_string()
    };
    let records = [record("A", "first?", "one"), record("B", "second?", "two")].join("\n");
    let server = serve(replaying(&records)).await;
    for (words, text) in
        [("second?", "two"), ("other", "one"), ("other", "two"), ("other", "one"), ("first?", "one"), ("B", "two")]
    {
        let answer = server.chat(words, json!({})).await.json();
        assert_eq!(answer["choices"][0]["message"]["content"], text);
    }
}
