//! The program: it says where it listens, serves what its arguments say, and says what is wrong with them.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use support::client;

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kimi-xtml-frontend"));
    command.args(["--port", "0"]).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn answer(arguments: &[&str], model: &str) -> Value {
    let mut program = Program(command(arguments).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(program.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("listening on ").unwrap();
    assert!(url.starts_with("http://127.0.0.1:"));
    let body = json!({"model": model, "messages": [{"role": "user", "content": "C001"}]}).to_string();
    let response = client()
        .post(format!("{url}/v1/chat/completions"))
        .header("content-type", "application/json")
        .body(body)
        .send()
        .await
        .unwrap();
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}

#[tokio::test]
async fn it_says_where_it_listens_and_serves() {
    let said = answer(&[], "kimi-k3").await;
    assert_eq!(said["choices"][0]["message"]["content"], "C001");
    let said = answer(&["--model", "mine", "--rate", "100000", "--group", "8"], "mine").await;
    assert_eq!((&said["model"], &said["choices"][0]["message"]["content"]), (&json!("mine"), &json!("C001")));
    let records = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpora/tools.jsonl");
    let said = answer(&["--replay", records], "kimi-k3").await;
    assert_eq!(said["choices"][0]["message"]["reasoning_content"], "One city, one call.");
}

#[test]
fn wrong_arguments_are_told_of() {
    for (arguments, says) in [
        (&["--replay", "/nowhere.jsonl"][..], "cannot read /nowhere.jsonl"),
        (&["--replay", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], "line 1"),
        (&["--rate", "0"], "above 0"),
        (&["--group", "0"], "--group"),
        (&["--host", "999.0.0.1"], "cannot listen on 999.0.0.1"),
    ] {
        let output = command(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(says), "{error}");
    }
}
