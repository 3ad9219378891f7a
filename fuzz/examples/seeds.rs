//! Makes `seeds/` from the corpora: `cargo run --example seeds`.
//!
//! In: `../corpora`. Out: small inputs of each oracle. What is there already stays, findings too.

use std::fs;
use std::path::Path;

use kimi_xtml::{Channel, Chat, Marker, Parser};
use kimi_xtml_cli::cases::{self, Case};
use kimi_xtml_fuzz::{CUT, TOLD, TOOLS};

/// Longer streams are no seeds.
const LONGEST: usize = 1_000;
/// Seeds of one file of the corpora.
const MOST: usize = 20;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in ["malformed", "math", "tools"] {
        let cases = cases::read(&root.join(format!("../corpora/{file}.jsonl"))).unwrap();
        let text = |case: &Case| case.chunks.iter().flatten().map(String::len).sum::<usize>();
        for case in cases.iter().filter(|case| case.chunks.is_some() && text(case) < LONGEST).take(MOST) {
            for (oracle, seed) in seeds(case) {
                let folder = root.join("seeds").join(oracle);
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join(&case.id), seed).unwrap();
            }
        }
    }
}

fn seeds(case: &Case) -> Vec<(&'static str, Vec<u8>)> {
    let request = case.context.request();
    let opened = match request.opened {
        None => 0,
        Some(Channel::Think) => 1,
        Some(Channel::Response) => 2,
        Some(Channel::Tools) => 3,
    };
    let flags = if request.engages_tools() { opened | TOOLS } else { opened };
    let head = [flags, 0, case.id.len() as u8];
    let chunks: Vec<&str> = case.chunks.iter().flatten().map(String::as_str).collect();
    let text = chunks.concat();

    let cut = chunks.join("\u{0}").bytes().map(|byte| if byte == 0 { CUT } else { byte }).collect::<Vec<_>>();
    let mut seeds = vec![
        ("chunks", [&head[..], &cut].concat()),
        ("chat", [&head[..], &cut].concat()),
        ("bytes", [&head[..], text.as_bytes()].concat()),
    ];
    if let Some(ids) = &case.ids {
        let told = |(chunk, ids): (&&str, &Vec<u32>)| {
            let marker = ids.first().and_then(|&id| Marker::from_id(id));
            let byte = TOLD.iter().find(|told| Some(told.1) == marker).map(|told| vec![told.0]);
            byte.unwrap_or_else(|| chunk.as_bytes().to_vec())
        };
        seeds.push(("pieces", [&head[..], &chunks.iter().zip(ids).flat_map(told).collect::<Vec<_>>()].concat()));
    }

    let mut parser = Parser::new(request);
    let mut chat = Chat::default();
    parser.push(&text, &mut chat).unwrap();
    parser.finish("stop", &mut chat).unwrap();
    let message = chat.into_message().unwrap();
    let mut fields = vec![message.reasoning, message.content];
    for call in message.tool_calls {
        seeds.push(("json", [&[0], call.arguments.as_bytes()].concat()));
        fields.extend([call.name, call.arguments]);
    }
    let fields: Vec<&[u8]> = fields.iter().map(String::as_bytes).collect();
    seeds.push(("roundtrip", [&[0], &*fields.join(&CUT)].concat()));
    seeds.push(("cases", serde_json::to_vec(case).unwrap()));
    seeds
}
