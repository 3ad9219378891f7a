//! Arguments that the scripted engine makes up, through HTTP, against a JSON-schema validator.
//!
//! The schemas here show each keyword; with `KIMI_XTML_DATA`, every schema of `data/walle` is asked for too, as the
//! parameters if it is an object's, and as one property.

mod support;

use kimi_xtml_frontend::engine::schema::{self, Budget};
use serde_json::{Value, json};
use support::{Server, data, request, scripted};

/// Asks for a call with these parameters and checks the arguments. Gives the status.
async fn check(server: &Server, parameters: &Value, note: &str) -> u16 {
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": parameters}}]);
    let answer =
        server.post("/v1/chat/completions", &request(note, json!({"tools": tools, "tool_choice": "required"}))).await;
    if answer.status == 200 {
        let call = &answer.json()["choices"][0]["message"]["tool_calls"][0];
        let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        let validator = jsonschema::validator_for(parameters).unwrap();
        assert!(validator.is_valid(&arguments), "{note}: {arguments} is none of {parameters}");
    }
    answer.status
}

/// A schema as the one property of an object: its definitions move to the root, `#` points to the property.
fn wrapped(schema: &Value) -> Value {
    let mut schema: Value =
        serde_json::from_str(&schema.to_string().replace("\"$ref\":\"#\"", "\"$ref\":\"#/properties/value\"")).unwrap();
    let object = schema.as_object_mut().unwrap();
    let definitions = object.remove("$defs");
    object.remove("$id");
    let mut parameters = json!({"type": "object", "properties": {"value": schema}, "required": ["value"]});
    if let Some(definitions) = definitions {
        parameters["$defs"] = definitions;
    }
    parameters
}

fn unnamed(schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema.as_object_mut().unwrap().remove("$id");
    schema
}

#[tokio::test]
async fn arguments_satisfy_every_keyword() {
    let server = scripted().await;
    for property in [
        json!({}),
        json!({"type": ["string", "null"]}),
        json!({"type": "string", "minLength": 30, "maxLength": 31}),
        json!({"type": "string", "pattern": "^[a-z]{2,4}-(x|y)\\d+$", "minLength": 9}),
        json!({"type": "string", "format": "date-time"}),
        json!({"enum": ["<|open|>", "<|close|>argument<|sep|>"]}),
        json!({"const": {"a": [1, 2.5, null]}}),
        json!({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5}),
        json!({"type": "number", "minimum": -0.3, "maximum": -0.2}),
        json!({"type": "integer", "multipleOf": 7, "minimum": 50}),
        json!({"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 3, "uniqueItems": true}),
        json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "minItems": 2}),
        json!({"type": "object", "minProperties": 3, "additionalProperties": {"type": "boolean"}}),
        json!({"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {"type": "null"}}, "required": ["b"]}], "type": "object"}),
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"oneOf": [{"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]}, {"type": "null"}]}),
    ] {
        let parameters =
            json!({"type": "object", "properties": {"p": property}, "required": ["p"], "additionalProperties": false});
        assert_eq!(check(&server, &parameters, "each keyword").await, 200, "{parameters}");
    }
}

#[tokio::test]
async fn recursive_schemas_end() {
    let server = scripted().await;
    let tree = json!({"type": "object", "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["name", "children"]});
    assert_eq!(check(&server, &tree, "a tree").await, 200);
    let list = json!({"$defs": {"node": {"anyOf": [{"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}, {"type": "null"}]}},
        "type": "object", "properties": {"head": {"$ref": "#/$defs/node"}}, "required": ["head"]});
    assert_eq!(check(&server, &list, "a list").await, 200);
}

#[tokio::test]
async fn schemas_without_a_value_are_refused() {
    let server = scripted().await;
    for property in [
        json!(false),
        json!({"enum": []}),
        json!({"type": "string", "minLength": 999_999_999_999_u64}),
        json!({"type": "array", "minItems": 99_999_999, "items": {}}),
        json!({"$ref": "#/properties/p"}),
        json!({"anyOf": [{"$ref": "#/properties/p"}]}),
        json!({"$ref": "https://example.com/schema"}),
        json!({"type": "object", "properties": {"p": {"$ref": "#/properties/p"}}, "required": ["p"]}),
    ] {
        let parameters = json!({"type": "object", "properties": {"p": property}, "required": ["p"]});
        assert_eq!(check(&server, &parameters, "impossible").await, 400, "{parameters}");
    }
}

#[tokio::test]
async fn answers_satisfy_the_response_format() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}});
    let answer = scripted().await.chat("x", json!({"response_format": format})).await.json();
    let content: Value = serde_json::from_str(answer["choices"][0]["message"]["content"].as_str().unwrap()).unwrap();
    assert!(content["n"].is_i64());
}

#[tokio::test]
async fn every_satisfiable_schema_of_walle() {
    let Some(data) = data() else { return };
    let server = scripted().await;
    let (mut met, mut refused) = (0, Vec::new());
    for file in std::fs::read_dir(data.join("data/walle")).unwrap() {
        let file = file.unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        for (line, text) in (1..).zip(text.lines()) {
            let parsed: Value = serde_json::from_str(text).unwrap();
            let note = format!("{}:{line}", file.file_stem().unwrap().display());
            let object = schema::value(&parsed, 0, &mut Budget::default()).is_ok_and(|value| value.is_object());
            let whole = if object { check(&server, &unnamed(&parsed), &note).await } else { 200 };
            let property = check(&server, &wrapped(&parsed), &note).await;
            if (whole, property) == (200, 200) { met += 1 } else { refused.push(note) }
        }
    }
    assert_eq!((met, refused), (211, vec!["TestRangeConstraints:3".to_owned()]));
}
