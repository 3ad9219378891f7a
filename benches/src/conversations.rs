//! Conversations to encode: an agent's session of any length, and texts that provoke.
//!
//! In: a length in bytes. Out: the body of a request, and the texts that its prompt must hold.

use fastrand::Rng;
use kimi_xtml::{Conversation, Piece, encode};
use serde_json::{Value, json};

use crate::text::{code, object, prose};

/// The body of a request.
#[derive(Debug)]
pub struct Body {
    /// What it shows.
    pub name: &'static str,
    /// The JSON.
    pub json: String,
    texts: Vec<String>,
}

impl Body {
    fn new(name: &'static str, tools: &[Value], messages: &[Value], texts: Vec<String>) -> Self {
        let json = json!({"model": "kimi-k3", "messages": messages, "tools": tools}).to_string();
        Body { name, json, texts }
    }

    /// An agent's session: prose, code and JSON in reasoning, answers, arguments and results.
    pub fn agent(len: usize) -> Self {
        let mut rng = Rng::with_seed(7);
        let mut texts = Vec::new();
        let mut said = |text: String| {
            texts.push(text.clone());
            text
        };
        let tool = |name: &str| {
            let parameters =
                json!({"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}});
            json!({"type": "function", "function": {"name": name, "description": "Works on a file.", "parameters": parameters}})
        };
        let mut messages = vec![json!({"role": "system", "content": said(prose(&mut rng, 4_000))})];
        let mut written = 0;
        for turn in 0.. {
            if written > len {
                break;
            }
            let id = format!("edit:{turn}");
            let [question, why, answer] = [500, 1_500, 200].map(|len| said(prose(&mut rng, len)));
            let text = said(code(&mut rng, 3_000));
            let result = said(object(&mut rng, 8_000));
            let arguments = json!({"path": format!("src/{turn}.rs"), "text": text}).to_string();
            let calls = json!([{"id": id, "type": "function", "function": {"name": "edit", "arguments": arguments}}]);
            let turn = [
                json!({"role": "user", "content": [{"type": "text", "text": question}]}),
                json!({"role": "assistant", "reasoning_content": why, "content": answer, "tool_calls": calls}),
                json!({"role": "tool", "tool_call_id": id, "content": result}),
            ];
            written += turn.iter().map(|message| message.to_string().len()).sum::<usize>();
            messages.extend(turn);
        }
        Body::new("agent", &[tool("edit"), tool("read")], &messages, texts)
    }

    /// One message that repeats a text.
    pub fn repeated(name: &'static str, text: &str, len: usize) -> Self {
        let text = text.repeat(len / text.len());
        Body::new(name, &[], &[json!({"role": "user", "content": text})], vec![text])
    }

    /// Whether the prompt holds the texts, each as one piece, in their order.
    pub fn check(&self) -> Result<(), String> {
        let conversation = Conversation::from_json(&self.json).map_err(|error| error.to_string())?;
        let prompt = encode(&conversation).map_err(|error| error.to_string())?;
        let mut pieces = prompt.pieces.iter();
        let mut missing =
            self.texts.iter().filter(|text| !pieces.any(|piece| matches!(piece, Piece::Text(said) if said == *text)));
        missing.next().map_or(Ok(()), |text| Err(format!("{}: no piece has the text {:.60}", self.name, text)))
    }
}
