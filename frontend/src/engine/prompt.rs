//! Conversation -> prompt text, for an engine that takes text.
//!
//! In: a [`Job`]. Out: the text, its last tag the opener of the channel that the generation begins in. Nothing is held.
//! This is no copy of Moonshot's encoder, whose prompts hold more: an endpoint that serves real weights puts that
//! encoder here. What users write never becomes a control token.

use std::fmt::Write;

use kimi_xtml::render;
use serde_json::json;

use super::{Job, Message, Tool};

/// The prompt of a request.
pub fn prompt(job: &Job) -> String {
    let mut text = String::new();
    if !job.tools.is_empty() {
        let declared =
            |tool: &Tool| json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
        let tools: Vec<_> = job.tools.iter().map(declared).collect();
        message(&mut text, "system", &format!("Tools:\n{}", json!(tools)));
    }
    for one in &job.messages {
        match &*one.role {
            "assistant" => assistant(&mut text, one),
            role => message(&mut text, role, &one.text),
        }
    }
    let _ = write!(text, r#"<|open|>message role="assistant"<|sep|><|open|>{}<|sep|>"#, job.opens().name());
    text
}

fn message(text: &mut String, role: &str, body: &str) {
    let body = body.replace("<|", "< |");
    let _ = write!(text, r#"<|open|>message role="{role}"<|sep|>{body}<|close|>message<|sep|><|end_of_msg|>"#);
}

fn assistant(text: &mut String, one: &Message) {
    let plain = |said: &str| said.replace("<|", "< |");
    let said = kimi_xtml::Message {
        reasoning: plain(&one.reasoning),
        content: plain(&one.text),
        tool_calls: one.calls.clone(),
    };
    text.push_str(r#"<|open|>message role="assistant"<|sep|>"#);
    match render(&said, None) {
        Ok(rendered) => text.push_str(&rendered),
        Err(_) => text.push_str("<|close|>message<|sep|><|end_of_msg|>"), // a call without a name says nothing
    }
}
