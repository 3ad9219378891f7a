//! The encoder: conversations become the prompts that Moonshot's encoder makes of them.

use std::fs;
use std::path::PathBuf;

use kimi_xtml::{Conversation, Piece, encode};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Case<'a> {
    id: String,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
    prompt: Option<Vec<Expected>>,
    prompt_text: Option<String>,
    ids: Option<Vec<u32>>,
    billed: Option<usize>,
    #[serde(default)]
    error: bool,
}

#[derive(Debug, Deserialize, PartialEq)]
enum Expected {
    #[serde(rename = "c")]
    Control(String),
    #[serde(rename = "t")]
    Plain(String),
}

impl From<&Piece<'_>> for Expected {
    fn from(piece: &Piece<'_>) -> Self {
        let spelling = piece.spelling().to_owned();
        if piece.is_control() { Expected::Control(spelling) } else { Expected::Plain(spelling) }
    }
}

#[test]
fn the_reference_prompts() {
    let Some(data) = std::env::var_os("KIMI_XTML_DATA").map(PathBuf::from) else { return };
    let mut failed = 0;
    for name in ["render", "render_ref", "render_partial"] {
        let file = data.join("cases/render").join(name).with_extension("jsonl");
        for line in fs::read_to_string(&file).unwrap().lines() {
            let case: Case<'_> = serde_json::from_str(line).unwrap();
            let Some(request) = case.request else { continue };
            let made = Conversation::from_json(request.get()).and_then(|mut conversation| {
                conversation.partial_mode = name == "render_partial";
                encode(&conversation).map(|prompt| prompt.into_owned())
            });
            match made {
                Err(error) => {
                    println!("{} {error}", case.id);
                    if !case.error {
                        failed += 1;
                    }
                }
                Ok(prompt) => {
                    let pieces: Vec<Expected> = prompt.pieces.iter().map(Expected::from).collect();
                    if case.error
                        || Some(&pieces) != case.prompt.as_ref()
                        || case.prompt_text != Some(prompt.text())
                        || case.ids.unwrap().len() - prompt.unbilled != case.billed.unwrap()
                    {
                        failed += 1;
                        println!("{} FAILED\n{:?}\n{:?}", case.id, pieces, case.prompt);
                    }
                }
            }
        }
    }
    assert_eq!(failed, 0);
}
