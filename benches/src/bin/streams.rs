//! Writes streams as records of the corpora's form (corpora/README.md), in tokens with ids: for the benchmark from Python.
//!
//! In: the length of each in bytes (16,384). Out: a JSON line a shape.

use std::process::ExitCode;

use kimi_xtml_benches::{Answer, shape};
use serde_json::{Value, json};

const SHAPES: [&str; 5] = ["reasoning", "content", "code", "object", "calls"];

fn main() -> ExitCode {
    let len = match std::env::args().nth(1).map(|argument| argument.parse()) {
        None => 16 << 10,
        Some(Ok(len)) => len,
        Some(Err(_)) => {
            eprintln!("usage: streams [BYTES]");
            return ExitCode::from(2);
        }
    };
    for name in SHAPES {
        let stream = shape(name).expect("the list names shapes").stream(len, 1);
        let (ids, chunks): (Vec<[u32; 1]>, Vec<&str>) =
            stream.tokens().into_iter().map(|(id, text)| ([id], text)).unzip();
        let Answer { reasoning, content, calls } = &stream.answer;
        let calls: Vec<Value> =
            calls.iter().map(|(name, json)| json!({"name": name, "arguments_json": json})).collect();
        let context = json!({
            "tools": stream.request.tools,
            "tool_choice": "auto",
            "initial_channel": "think",
            "engine_finish_reason": "stop",
        });
        let expected = json!({"reasoning": reasoning, "content": content, "tool_calls": calls});
        println!("{}", json!({"id": name, "context": context, "chunks": chunks, "ids": ids, "expected": expected}));
    }
    ExitCode::SUCCESS
}
