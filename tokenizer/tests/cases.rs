//! The ids of recorded prompts, where the data has them.

mod support;

use kimi_xtml::{Conversation, encode};
use kimi_xtml_tokenizer::Tokenizer;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use support::{data, kimi_ranks};

#[derive(Deserialize)]
struct Record {
    id: String,
    request: Option<Box<RawValue>>,
    prompt: Option<Vec<Piece>>,
    ids: Option<Vec<u32>>,
}

#[derive(Deserialize)]
enum Piece {
    #[serde(rename = "c")]
    Control(String),
    #[serde(rename = "t")]
    Text(String),
}

#[derive(Deserialize)]
struct Window {
    id: String,
    user_text: Vec<(String, usize)>,
    ids_len: usize,
    ids_sha256_le32: String,
}

fn read<T: for<'de> Deserialize<'de>>(name: &str) -> Vec<T> {
    let Some(data) = data() else { return Vec::new() };
    let path = data.join("cases/render").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}"))).collect()
}

fn tokenizer() -> Option<Tokenizer> {
    Some(Tokenizer::from_ranks(&kimi_ranks()?).unwrap())
}

#[test]
fn recorded_pieces_have_the_recorded_ids() {
    let Some(tokenizer) = tokenizer() else { return };
    let mut checked = 0;
    for name in ["render.jsonl", "render_ref.jsonl", "render_partial.jsonl"] {
        for Record { id, prompt, ids, .. } in read::<Record>(name) {
            let (Some(pieces), Some(wanted)) = (prompt, ids) else { continue };
            let ids: Vec<u32> = pieces
                .iter()
                .flat_map(|piece| match piece {
                    Piece::Control(text) => tokenizer.encode_control(text),
                    Piece::Text(text) => tokenizer.encode(text),
                })
                .collect();
            assert_eq!(ids, wanted, "{id}");
            checked += 1;
        }
    }
    assert!(checked > 200, "{checked}");
}

#[test]
fn requests_have_the_recorded_ids() {
    let Some(tokenizer) = tokenizer() else { return };
    for name in ["render.jsonl", "render_ref.jsonl", "render_partial.jsonl"] {
        for Record { id, request, ids, .. } in read::<Record>(name) {
            let (Some(request), Some(wanted)) = (request, ids) else { continue };
            let mut conversation = Conversation::from_json(request.get()).unwrap();
            conversation.partial_mode = name == "render_partial.jsonl";
            let prompt = encode(&conversation).unwrap();
            let (ids, labels) = tokenizer.encode_prompt(&prompt);
            assert_eq!(ids, wanted, "{id}");
            assert_eq!(labels.len(), ids.len(), "{id}");
            assert_eq!(tokenizer.encode_pieces(&prompt.pieces), ids, "{id}");
            assert_eq!(tokenizer.count_pieces(&prompt.pieces), ids.len(), "{id}");
        }
    }
}

#[test]
fn long_texts_have_the_recorded_ids() {
    let Some(tokenizer) = tokenizer() else { return };
    let windows: Vec<Window> = read("render_windows.jsonl");
    assert!(!windows.is_empty());
    for Window { id, user_text, ids_len, ids_sha256_le32 } in windows {
        let text: String = user_text.iter().map(|(unit, count)| unit.repeat(*count)).collect();
        let mut conversation = Conversation::new([kimi_xtml::PromptMessage::user(text)]);
        conversation.thinking = false;
        let ids = tokenizer.encode_pieces(&encode(&conversation).unwrap().pieces);
        assert_eq!(ids.len(), ids_len, "{id}");
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, ids_sha256_le32, "{id}");
    }
}
