//! Recordings: what `record` writes passes `check`, and tokens are those of Kimi's tokenizer.
//!
//! In: small files written here; where `KIMI_XTML_DATA` is set, its tokenizer ranks and GSM8K. Out: records, checked under
//! every chunking.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use expect_test::expect;
use kimi_xtml::{Marker, Piece};
use kimi_xtml_cli::cases::{self, Case};
use kimi_xtml_cli::check::check;
use kimi_xtml_cli::chunking::Chunking;
use kimi_xtml_cli::record::Cutter;

fn record(arguments: &[&str], stdin: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kimi-xtml"))
        .arg("record")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn checked(records: &str) -> Vec<Case> {
    let cases = cases::read_from(records.as_bytes(), "records").unwrap();
    for case in &cases {
        if let [failure, ..] = &check(case, &Chunking::all())[..] {
            panic!("{}, {:?}:\n{}", case.id, failure.chunkings, failure.difference);
        }
    }
    cases
}

fn data(name: &str) -> Option<PathBuf> {
    let file = Path::new(&std::env::var_os("KIMI_XTML_DATA")?).join("data").join(name);
    file.exists().then_some(file)
}

fn file(name: &str, text: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("record");
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

const ITEM: &str = r#"{"question":"How many?","answer":"There are 2*3=<<2*3=6>>6 \"big\" tides.\n#### 6"}"#;

const CHAT: &str = r#"{"messages":[{"role":"user","content":"Low water?"},
{"role":"assistant","reasoning_content":"Ask the \"table\".","content":null,"tool_calls":[
  {"function":{"name":"tide","arguments":"{\"bay\":\"Fundy\\n\",\"at\": 1e2,\"on\":{\"d\":[1,2]}}"}},
  {"function":{"name":"tide","arguments":"not json"}}]},
{"role":"tool","content":"6"},
{"role":"assistant","content":[{"type":"text","text":"At six."}]}],"tools":[{"function":{"name":"tide"}}]}"#;

#[test]
fn gsm8k_becomes_streams() {
    let test = file("gsm8k.jsonl", ITEM);
    let records = record(
        &[
            "gsm8k",
            test.to_str().unwrap(),
            "--opened",
            "think,response",
            "--tools",
            "declared,none",
            "--vary",
            "all",
            "--grouping",
            "1,2,4,8,16,random,whole",
        ],
        "",
    );
    let cases = checked(&records);
    assert_eq!(cases.len(), 2 * 2 * 7 * 7);
    let contents = cases.iter().filter_map(|case| case.expected.as_ref()).map(|expected| &expected.content);
    assert!(contents.into_iter().all(|content| content.contains("#### 6")));
    assert!(cases.iter().any(|case| case.expected.as_ref().unwrap().reasoning == "There are 2*3=6 \"big\" tides."));
}

#[test]
fn cut_streams_keep_what_was_generated() {
    let file = file("chat.json", CHAT);
    for limit in 1..90 {
        checked(&record(&["chat", file.to_str().unwrap(), "--limit", &limit.to_string()], ""));
    }
}

#[test]
fn messages_become_streams() {
    let records = record(&["chat", "-"], CHAT);
    let cases = checked(&records);
    let first = cases[0].expected.as_ref().unwrap();
    assert_eq!(first.reasoning, "Ask the \"table\".");
    let arguments: Vec<_> = first.tool_calls.iter().map(|call| &*call.arguments_json).collect();
    assert_eq!(arguments, [r#"{"bay":"Fundy\n","at":1e2,"on":{"d": [1, 2]}}"#, "not json"]);
    assert_eq!(cases[1].expected.as_ref().unwrap().content, "At six.");
}

#[test]
fn tool_calls_become_streams() {
    let folder = file(
        "bfcl/BFCL_v4_parallel.json",
        concat!(
            r#"{"id":"p0","question":[[{"role":"user","content":"Two?"}]],"function":[{"name":"f"},{"name":"g"}]}"#,
            "\n"
        ),
    );
    file(
        "bfcl/possible_answer/BFCL_v4_parallel.json",
        r#"{"id":"p0","ground_truth":[{"f":{"a":[1],"b":["x \"y\"",""]}},{"f":{"c":[{"d":[2.5]}],"e":[""]}}]}"#,
    );
    file("bfcl/BFCL_v4_multi_turn_base.json", r#"{"id":"m0","question":[[{"role":"user","content":"Move."}],[]]}"#);
    file(
        "bfcl/possible_answer/BFCL_v4_multi_turn_base.json",
        r#"{"id":"m0","ground_truth":[["mv(source='a',to='b')","ls()"],[]]}"#,
    );
    file(
        "schemas/S.jsonl",
        concat!(
            r##"{"type":"object","properties":{"n":{"type":"integer","minimum":3},"t":{"$ref":"#/$defs/t"}},"required":["n","t"],"##,
            r#""$defs":{"t":{"enum":["a","b"]}}}"#
        ),
    );
    let data = folder.parent().unwrap();
    let schemas = data.with_file_name("schemas");
    let records = record(
        &[
            "toolcalls",
            "--bfcl",
            data.to_str().unwrap(),
            "--schemas",
            schemas.to_str().unwrap(),
            "--vary",
            "all",
            "--tools",
            "declared,none",
        ],
        "",
    );
    let cases = checked(&records);
    assert_eq!(cases.len(), 3 * 2 * 7);
    let calls = |id: &str| {
        let case = cases.iter().find(|case| case.id.starts_with(id)).unwrap();
        let calls = &case.expected.as_ref().unwrap().tool_calls;
        calls.iter().map(|call| format!("{} {}\n", call.name, call.arguments_json)).collect::<String>()
    };
    expect![[r#"
        mv {"source":"a","to":"b"}
        ls {}
    "#]]
    .assert_eq(&calls("m0-0"));
    expect![[r#"
        f {"a":1,"b":"x \"y\""}
        f {"c":{"d": 2.5}}
    "#]]
    .assert_eq(&calls("p0"));
    assert_eq!(calls("S-1").lines().count(), 3);
}

#[test]
fn captures_become_cases() {
    let sse = "data: {\"choices\":[{\"index\":0,\"text\":\"Six\",\"token_ids\":[1]},{\"index\":1,\"text\":\"Lo\"}]}\n\n\
        : ping\n\ndata: {\"choices\":[{\"index\":0,\"text\":\".\",\"token_ids\":[13],\"finish_reason\":\"length\"}]}\n\n\
        data: [DONE]\n\n";
    let records = record(&["capture", "--opened", "response", "-"], sse);
    let cases = cases::read_from(records.as_bytes(), "records").unwrap();
    assert_eq!(cases[0].chunks.as_deref().unwrap(), ["Six", "."]);
    assert_eq!(cases[0].ids.as_deref().unwrap(), [[1], [13]]);
    assert_eq!(cases[0].context.engine_finish_reason, "length");
    assert_eq!(cases[1].chunks.as_deref().unwrap(), ["Lo"]);
    let lines = record(&["capture", "-"], "\"Six\"\n{\"text\":\".\"}\n");
    assert_eq!(cases::read_from(lines.as_bytes(), "records").unwrap()[0].chunks.as_deref().unwrap(), ["Six", "."]);
}

#[test]
fn the_same_seed_gives_the_same_records() {
    let make = |seed| record(&["chat", "-", "--vary", "mixed", "--seed", seed], CHAT);
    assert_eq!(make("3"), make("3"));
    assert_ne!(make("3"), make("4"));
}

/// Each reader tells of the file and the line that it cannot read.
#[test]
fn files_that_are_none() {
    let error = |arguments: &[&str], name: &str, bytes: &[u8]| {
        let path = file(name, "");
        std::fs::write(&path, bytes).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_kimi-xtml"))
            .current_dir(path.parent().unwrap())
            .arg("record")
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8(output.stderr).unwrap();
        error.lines().next().unwrap().to_owned() + "\n"
    };
    let errors = [
        error(&["capture", "capture"], "capture", b"\"a\"\n{}\n"),
        error(&["capture", "capture"], "capture", b"\"a\"\n\n\"\xff\"\n"),
        error(&["chat", "chat"], "chat", b"{\"role\":\"user\"}\n{\"role\":\n7}\n"),
        error(&["chat", "chat"], "chat", b"[\n{\"role\":\"user\"},\n7]"),
        error(&["gsm8k", "items"], "items", b"\n{\"question\":\"a\",\"answer\":\"b\"}\n\n{\"question\":\"a\"}\n"),
        error(&["gsm8k", "items"], "items", b"{\"question\":\"a\"}\n[]\n"),
        error(&["gsm8k", "items"], "items", b"{\"question\":\"\xff\"}\n"),
        error(&["chat", "chat", "--tokenizer", "ranks"], "ranks", b"YQ== 0\nYQ=\n"),
        error(&["chat", "chat", "--tokenizer", "ranks"], "ranks", b"YQ== 0\n\nYg== 0\n"),
        error(&["chat", "chat", "--tokenizer", "ranks"], "ranks", b"YQ== 0\n"),
    ];
    expect![[r#"
        error: capture, line 2: no text delta (a string, or an object with text or choices): data did not match any variant of untagged enum Line
        error: capture, line 3: no UTF-8: invalid utf-8 sequence of 1 bytes from index 1
        error: chat, line 2: no Chat Completions messages: data did not match any variant of untagged enum Entry
        error: chat, line 3: no Chat Completions messages: column 2: data did not match any variant of untagged enum Entry
        error: items, line 4: no answer and no solution
        error: items, line 2: no JSON object: invalid type: sequence, expected a map
        error: items, line 1: no JSON object: column 14: invalid unicode code point
        error: ranks, line 2: a token in base64, a blank and its rank are expected
        error: ranks, line 3: an earlier line has the same rank
        error: ranks: no token for the byte 0x00: the file is cut, or that of another kind of tokenizer
    "#]]
    .assert_eq(&errors.concat());
}

#[test]
fn tokens_are_those_of_the_corpora() {
    let Some(ranks) = data("kimi/tiktoken.model") else { return };
    let cutter = Cutter::read(&ranks).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora");
    let mut compared = 0;
    for name in ["math", "tools"] {
        for case in cases::read(&folder.join(name).with_extension("jsonl")).unwrap() {
            let ids: Vec<u32> = case.ids.iter().flatten().flatten().copied().collect();
            let text = case.chunks.iter().flatten().map(String::as_str).collect::<String>();
            // Quoted markers are no control tokens: only the ids tell.
            if case.identity {
                continue;
            }
            let mut pieces = Vec::new();
            let mut rest = &*text;
            for marker in ids.iter().filter_map(|&id| Marker::from_id(id)) {
                let at = rest.find(marker.spelling()).unwrap();
                pieces.push(Piece::Text(rest[..at].into()));
                pieces.push(Piece::Marker(marker));
                rest = &rest[at + marker.spelling().len()..];
            }
            pieces.push(Piece::Text(rest.into()));
            let tokens = cutter.cut(&pieces, &mut fastrand::Rng::with_seed(0));
            let cut: Vec<u32> = tokens.iter().filter_map(|token| token.id).collect();
            if quotes_none(&pieces) {
                assert_eq!(cut, ids, "{}", case.id);
                compared += 1;
            }
        }
    }
    assert!(compared > 90, "{compared}");
}

/// Whether the markers were told right: no text spells one.
fn quotes_none(pieces: &[Piece<'_>]) -> bool {
    let markers = [Marker::Open, Marker::Close, Marker::Sep, Marker::EndOfMsg];
    !pieces.iter().any(
        |piece| matches!(piece, Piece::Text(text) if markers.iter().any(|marker| text.contains(marker.spelling()))),
    )
}

#[test]
fn tokenized_gsm8k_passes() {
    let (Some(ranks), Some(test)) = (data("kimi/tiktoken.model"), data("gsm8k/test.jsonl")) else { return };
    let item: String = std::fs::read_to_string(test).unwrap().lines().take(3).map(|line| format!("{line}\n")).collect();
    let items = file("gsm8k-3.jsonl", &item);
    let records = record(
        &[
            "gsm8k",
            items.to_str().unwrap(),
            "--tokenizer",
            ranks.to_str().unwrap(),
            "--vary",
            "all",
            "--grouping",
            "1,random",
        ],
        "",
    );
    assert_eq!(checked(&records).len(), 3 * 7 * 2);
}
