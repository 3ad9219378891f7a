//! Small requests that cost much elsewhere: here each is answered soon, and others are served meanwhile.

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Server, scripted};

/// How long any of them may take, on a busy machine.
const SOON: Duration = Duration::from_secs(10);

async fn soon(server: &Server, words: &str, more: Value) -> (u16, String) {
    let begun = Instant::now();
    let (answer, models) = tokio::join!(server.chat(words, more), server.get("/v1/models"));
    assert!(begun.elapsed() < SOON && models.status == 200, "{:?}", begun.elapsed());
    (answer.status, answer.body)
}

/// Levels of options over references, the last of which nothing satisfies.
#[tokio::test]
async fn a_schema_whose_options_multiply() {
    let mut definitions = json!({"l30": false});
    for level in 0..30 {
        let option = json!({"$ref": format!("#/$defs/l{}", level + 1)});
        definitions[format!("l{level}")] = json!({"anyOf": vec![option; 10]});
    }
    let schema = json!({"$ref": "#/$defs/l0", "$defs": definitions});
    let format = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
    let server = scripted().await;
    let (status, body) = soon(&server, "x", json!({"response_format": format})).await;
    assert!(status == 400 && body.contains("response_format"), "{body}");
}

#[tokio::test]
async fn many_stop_strings() {
    let server = scripted().await;
    let stops: Vec<String> = (0..5000).map(|number| format!("stop {number}")).collect();
    let (status, body) = soon(&server, "x", json!({"stop": stops})).await;
    assert!(status == 400 && body.contains("stop"), "{body}");
    assert_eq!(soon(&server, "x", json!({"stop": stops[..16]})).await.0, 200);
}

#[tokio::test]
async fn many_choices_of_much_text() {
    let server = scripted().await;
    let (status, body) = soon(&server, &"word ".repeat(200_000), json!({"n": 128})).await;
    assert!(status == 400 && body.contains("\"param\":\"n\""), "{body}");
    assert_eq!(soon(&server, "word", json!({"n": 128})).await.0, 200);
}

#[tokio::test]
async fn lists_in_place_of_objects_and_depth_without_end() {
    let server = scripted().await;
    for body in
        [r#"["kimi-k3",[{"role":"user","content":"x"}]]"#.to_owned(), "[".repeat(1 << 20), "{\"a\":".repeat(1 << 18)]
    {
        let begun = Instant::now();
        assert_eq!(server.post_bytes("/v1/chat/completions", body.into_bytes()).await.status, 400);
        assert!(begun.elapsed() < SOON);
    }
}
