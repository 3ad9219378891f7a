//! The commands, run as a user runs them.
//!
//! In: arguments, standard input, files. Out: what is printed, and the exit code; snapshots of what people and programs
//! read.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use expect_test::expect;

const STREAM: &str = "Two bays.<|close|>think<|sep|><|open|>response<|sep|>One \u{1f30a}.<|close|>response<|sep|>\
    <|open|>tools<|sep|><|open|>call tool=\"tide\" index=\"1\"<|sep|>\
    <|open|>argument key=\"bay\" type=\"string\"<|sep|>\"F\"<|close|>argument<|sep|>\
    <|open|>argument key=\"at\" type=\"number\"<|sep|>1e2<|close|>argument<|sep|><|close|>call<|sep|>so\
    <|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>";

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kimi-xtml"));
    command
        .args(arguments)
        .env_remove("CLICOLOR_FORCE")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .stdin(Stdio::piped());
    command
}

fn run(arguments: &[&str], stdin: &[u8]) -> Output {
    let mut child = command(arguments).spawn().unwrap();
    // A command that does not read leaves its input.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

/// What a command prints that succeeds.
fn printed(arguments: &[&str], stdin: &[u8]) -> String {
    let output = run(arguments, stdin);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// The message of a command that cannot run.
fn error(arguments: &[&str], stdin: &str) -> String {
    let output = run(arguments, stdin.as_bytes());
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    String::from_utf8(output.stderr).unwrap()
}

fn parsed(options: &str, stdin: &[u8]) -> String {
    let fixed = ["parse", "--opened", "think", "--call-ids", "numbered"];
    printed(&fixed.into_iter().chain(options.split_whitespace()).collect::<Vec<_>>(), stdin)
}

/// The corpora: none in a package apart from them.
fn corpora() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora");
    let files = folder.read_dir().into_iter().flatten().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "jsonl")).collect()
}

const CASES: &str = r#"{"id":"A1","kind":"plain","context":{"initial_channel":"response"},"chunks":["Six","."],"expected":{"content":"Six."}}
{"id":"A2","kind":"wrong","note":"expects what does not come","context":{"initial_channel":"think","engine_finish_reason":"length"},"chunks":["Count: 1, 2"],"expected":{"reasoning":"Count: 1, 3"}}
"#;

const CHOICES: &str = r#"{"id":"A3","kind":"two","context":{"initial_channel":"response"},"interleaved_choices":[[0,"High"],[1,"Low"],[0,"."]],"expected_choices":[{"index":0,"content":"High."},{"index":1,"content":"Low"}]}"#;

#[test]
fn parse_prints_the_message() {
    expect![[r#"
        {"reasoning":"Two bays.","content":"One 🌊.","tool_calls":[{"id":"tide_0","name":"tide","arguments":"{\"bay\":\"\\\"F\\\"\",\"at\":1e2}","complete":true}],"finish_reason":"tool_calls","diagnostics":[{"code":"text-in-tools","at":314}],"bytes":{"input":374,"reasoning":9,"content":9,"arguments":6,"markup":348,"withheld":0,"dropped":2}}
    "#]]
    .assert_eq(&parsed("--tool tide", STREAM.as_bytes()));
}

#[test]
fn parse_prints_events() {
    expect![[r#"
        {"event":"start","channel":"think","span":[0,0]}
        {"event":"reasoning","text":"Two bays.","span":[0,9]}
        {"event":"end","channel":"think","span":[9,30]}
        {"event":"start","channel":"response","span":[30,53]}
        {"event":"content","text":"One 🌊.","span":[53,62]}
        {"event":"end","channel":"response","span":[62,86]}
        {"event":"start","channel":"tools","span":[86,106]}
        {"event":"call-start","call":0,"name":"tide","span":[106,147]}
        {"event":"argument-start","call":0,"key":"bay","kind":"string","json":"{\"bay\":\"","span":[147,194]}
        {"event":"arguments","call":0,"json":"\\\"F\\\"","span":[194,197]}
        {"event":"argument-end","call":0,"json":"\"","closed":true,"span":[197,221]}
        {"event":"argument-start","call":0,"key":"at","kind":"number","json":",\"at\":","span":[221,267]}
        {"event":"arguments","call":0,"json":"1e2","span":[267,270]}
        {"event":"argument-end","call":0,"json":"","closed":true,"span":[270,294]}
        {"event":"call-end","call":0,"json":"}","complete":true,"span":[294,314]}
        {"event":"diagnostic","code":"text-in-tools","span":[314,314]}
        {"event":"dropped","text":"so","span":[314,316]}
        {"event":"end","channel":"tools","span":[316,337]}
        {"event":"markup","text":"<|close|>message<|sep|>","span":[337,360]}
        {"event":"markup","text":"<|end_of_msg|>","span":[360,374]}
        {"event":"finish","finish_reason":"tool_calls","span":[374,374]}
    "#]]
    .assert_eq(&parsed("--tool tide --format events --chunk 99 -", STREAM.as_bytes()));
}

#[test]
fn parse_prints_chat_deltas() {
    expect![[r#"
        {"reasoning_content":"Two bays."}
        {"content":"One 🌊."}
        {"tool_calls":[{"index":0,"id":"tide_0","type":"function","function":{"name":"tide","arguments":""}}]}
        {"tool_calls":[{"index":0,"function":{"arguments":"{\"bay\":\"\\\"F\\\""}}]}
        {"tool_calls":[{"index":0,"function":{"arguments":"\",\"at\":1e2"}}]}
        {"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}
    "#]]
    .assert_eq(&parsed("--tool tide --format chat --chunk 99", STREAM.as_bytes()));
}

#[test]
fn parse_prints_frames() {
    expect![[r#"
        data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":0,"model":"kimi-k3","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

        data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":0,"model":"kimi-k3","choices":[{"index":0,"delta":{"reasoning_content":"Two bays."},"finish_reason":null}]}

        data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":0,"model":"kimi-k3","choices":[{"index":0,"delta":{"reasoning_content":""},"finish_reason":null}]}

        data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":0,"model":"kimi-k3","choices":[{"index":0,"delta":{"content":"One 🌊."},"finish_reason":null}]}

        data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":0,"model":"kimi-k3","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"tide_0","type":"function","function":{"name":"tide","arguments":""}}]},"finish_reason":null}]}

        data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":0,"model":"kimi-k3","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"bay\":\"\\\"F\\\"\",\"at\":1e2}"}}]},"finish_reason":null}]}

        data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":0,"model":"kimi-k3","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

        data: [DONE]

    "#]].assert_eq(&parsed("--tool tide --format sse", STREAM.as_bytes()));
}

#[test]
fn parse_gives_the_same_message_for_every_chunk_size() {
    let whole = parsed("--tool tide", STREAM.as_bytes());
    for size in [1, 2, 3, 5, 7, 16, 100, 1000] {
        assert_eq!(parsed(&format!("--tool tide --chunk {size}"), STREAM.as_bytes()), whole, "{size}");
    }
}

#[test]
fn parse_counts_bytes_that_are_no_text() {
    expect![[r#"
        {"reasoning":"a�b�","content":"","tool_calls":[],"finish_reason":"length","diagnostics":[{"code":"invalid-utf8","at":1},{"code":"cut-tag","at":5},{"code":"unclosed-think","at":17}],"bytes":{"input":17,"reasoning":5,"content":0,"arguments":0,"markup":0,"withheld":0,"dropped":12}}
    "#]].assert_eq(&parsed("--finish length --chunk 1", b"a\xffb\xe2\x82<|close|>thi"));
}

#[test]
fn parse_follows_the_request() {
    let all = [
        parsed("", STREAM.as_bytes()),
        parsed("--tool tide --tool-choice none --undeclared content", STREAM.as_bytes()),
        parsed("--tool tide --tool-choice tide --no-separate-reasoning --stream-json", STREAM.as_bytes()),
        printed(&["parse"], b"<|open|>think<|sep|>a"),
    ];
    expect![[r#"
        {"reasoning":"Two bays.","content":"One 🌊.","tool_calls":[],"finish_reason":"stop","diagnostics":[{"code":"tools-withheld","at":86}],"bytes":{"input":374,"reasoning":9,"content":9,"arguments":0,"markup":105,"withheld":251,"dropped":0}}
        {"reasoning":"Two bays.","content":"One 🌊.<|open|>tools<|sep|><|open|>call tool=\"tide\" index=\"1\"<|sep|><|open|>argument key=\"bay\" type=\"string\"<|sep|>\"F\"<|close|>argument<|sep|><|open|>argument key=\"at\" type=\"number\"<|sep|>1e2<|close|>argument<|sep|><|close|>call<|sep|>so<|close|>tools<|sep|>","tool_calls":[],"finish_reason":"stop","diagnostics":[{"code":"tools-withheld","at":86}],"bytes":{"input":374,"reasoning":9,"content":260,"arguments":0,"markup":105,"withheld":0,"dropped":0}}
        {"reasoning":"","content":"Two bays.One 🌊.","tool_calls":[{"id":"tide_0","name":"tide","arguments":"{\"bay\":\"\\\"F\\\"\",\"at\":1e2}","complete":true}],"finish_reason":"tool_calls","diagnostics":[{"code":"text-in-tools","at":314}],"bytes":{"input":374,"reasoning":0,"content":18,"arguments":6,"markup":348,"withheld":0,"dropped":2}}
        {"reasoning":"a","content":"","tool_calls":[],"finish_reason":"stop","diagnostics":[{"code":"unclosed-think","at":21}],"bytes":{"input":21,"reasoning":1,"content":0,"arguments":0,"markup":20,"withheld":0,"dropped":0}}
    "#]].assert_eq(&all.concat());
}

#[test]
fn call_ids_are_unique_by_default() {
    let call = "<|open|>call tool=\"tide\"<|sep|><|close|>call<|sep|>";
    let stream = format!("<|open|>tools<|sep|>{call}{call}<|close|>tools<|sep|>");
    let message: serde_json::Value =
        serde_json::from_str(&printed(&["parse", "--tool", "tide"], stream.as_bytes())).unwrap();
    let ids = [0, 1].map(|call| message["tool_calls"][call]["id"].as_str().unwrap());
    assert!(ids.iter().all(|id| id.starts_with("call_")) && ids[0] != ids[1], "{ids:?}");
}

#[test]
fn inspect_shows_a_raw_text() {
    let arguments = ["inspect", "--opened", "think", "--tool", "tide", "--chunk", "64", "-"];
    expect![[r#"
        stdin
             the prompt opened think; tools tide; choice auto
           1 ‹Two bays.<|close|>think<|sep|><|open|>response<|sep|>One 🌊.<|›
               start          0           think
               reasoning      0..9        ‹Two bays.›
               end            9..30       think
               start          30..53      response
               content        53..62      ‹One 🌊.›
             → response, held ‹<|›
           2 ‹close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="tid›
               end            62..86      response
               start          86..106     tools
             → tools, held ‹<|open|>call tool="tid›
           3 ‹e" index="1"<|sep|><|open|>argument key="bay" type="string"<|sep›
               call-start     106..147    #0 tide
             → tools, held ‹<|open|>argument key="bay" type="string"<|sep›
           4 ‹|>"F"<|close|>argument<|sep|><|open|>argument key="at" type="num›
               argument-start 147..194    #0 bay, string: ‹{"bay":"›
               arguments      194..197    #0 ‹\"F\"›
               argument-end   197..221    #0 closed: ‹"›
             → tools, held ‹<|open|>argument key="at" type="num›
           5 ‹ber"<|sep|>1e2<|close|>argument<|sep|><|close|>call<|sep|>so<|cl›
               argument-start 221..267    #0 at, number: ‹,"at":›
               arguments      267..270    #0 ‹1e2›
               argument-end   270..294    #0 closed: ‹›
               call-end       294..314    #0 complete: ‹}›
               diagnostic     314         text-in-tools
               dropped        314..316    ‹so›
             → tools, held ‹<|cl›
           6 ‹ose|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>�›
               end            316..337    tools
               markup         337..374    ‹<|close|>message<|sep|><|end_of_msg|>›
               diagnostic     374         after-end
               dropped        374..375    ‹�›
             → no channel
         end
             finish_reason tool_calls
             reasoning ‹Two bays.›
             content ‹One 🌊.›
             call tide ‹{"bay":"\"F\"","at":1e2}›
             375 bytes: 9 reasoning, 9 content, 6 arguments, 348 markup, 3 dropped
             invalid-utf8 1, the first at 374

    "#]]
    .assert_eq(&printed(&arguments, &[STREAM.as_bytes(), b"\xff"].concat()));
}

#[test]
fn inspect_shows_cases() {
    expect![[r#"
        A1 plain
             the prompt opened response; no tools
           1 ‹Six›
               start          0           response
               content        0..3        ‹Six›
             → response
           2 ‹.›
               content        3..4        ‹.›
             → response
         end
               diagnostic     4           unclosed-response
               end            4           response
             finish_reason stop
             content ‹Six.›
             4 bytes: 4 content
             as expected

        A2 wrong
             expects what does not come
             the prompt opened think; no tools
           1 ‹Count: 1, 2›
               start          0           think
               reasoning      0..11       ‹Count: 1, 2›
             → think
         end
               diagnostic     11          unclosed-think
               end            11          think
             finish_reason length
             reasoning ‹Count: 1, 2›
             11 bytes: 11 reasoning
             not as expected
               reasoning: expected ‹Count: 1, 3›
                               got ‹Count: 1, 2›

        A3 two
             the prompt opened response; no tools
           1 ‹High› choice 0
               start          0           response
               content        0..4        ‹High›
             → response
           2 ‹Low› choice 1
               start          0           response
               content        0..3        ‹Low›
             → response
           3 ‹.› choice 0
               content        4..5        ‹.›
             → response
         end choice 0
               diagnostic     5           unclosed-response
               end            5           response
             finish_reason stop
             content ‹High.›
             5 bytes: 5 content
         end choice 1
               diagnostic     3           unclosed-response
               end            3           response
             finish_reason stop
             content ‹Low›
             3 bytes: 3 content

    "#]]
    .assert_eq(&printed(&["inspect", "--cases"], [CASES, CHOICES].concat().as_bytes()));
}

#[test]
fn inspect_shows_ids_and_shortens() {
    let case = format!(
        r#"{{"id":"A4","chunks":["{}"],"ids":[[1,2]],"context":{{"initial_channel":"think"}}}}"#,
        "ebb ".repeat(99)
    );
    let [short, full] = [&["inspect", "--id", "A4"][..], &["inspect", "--id", "A4", "--full"]]
        .map(|args| printed(args, case.as_bytes()));
    assert!(short.contains(" … 276 bytes … ") && short.contains("[1, 2]"), "{short}");
    assert!(full.contains(&"ebb ".repeat(99)), "{full}");
}

#[test]
fn inspect_has_colours_where_they_are_wanted() {
    let mut command = command(&["inspect"]);
    let mut child = command.env("CLICOLOR_FORCE", "1").spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"ebb<|sep|>").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("\u{1b}[36m<|sep|>"));
}

#[test]
fn inspect_records_a_case_that_passes() {
    for text in [STREAM.as_bytes(), b"cut \xf0\x9f\x8c\x8a at will"] {
        let record = printed(&["inspect", "--record", "--opened", "think", "--tool", "tide", "--chunk", "6"], text);
        assert_eq!(printed(&["check", "-"], record.as_bytes()), "1 passed, 0 failed\n", "{record}");
    }
}

#[test]
fn check_passes_the_corpora() {
    let files = corpora();
    let names = files.iter().map(|file| file.to_str().unwrap());
    if !files.is_empty() {
        let printed = printed(&std::iter::once("check").chain(names).collect::<Vec<_>>(), b"");
        assert!(printed.ends_with(" passed, 0 failed\n"), "{printed}");
    }
}

/// Under the quick chunkings: the test of each kind takes the others.
#[test]
fn check_passes_the_recorded_field_cases() {
    if let Some(data) = std::env::var_os("KIMI_XTML_DATA") {
        let file = Path::new(&data).join("cases/field.jsonl");
        let printed = printed(&["check", "--chunking", "as-given,whole,random:3", file.to_str().unwrap()], b"");
        assert!(printed.ends_with(" passed, 0 failed\n"), "{printed}");
    }
}

#[test]
fn check_tells_what_differs() {
    let output = run(&["check", "-"], [CASES, CHOICES].concat().as_bytes());
    assert_eq!(output.status.code(), Some(1));
    expect![[r#"
        A2 wrong
          as-given, whole, chars, random:1, random:2 and 18 more
            reasoning: expected ‹Count: 1, 3›
                            got ‹Count: 1, 2›
        2 passed, 1 failed
    "#]]
    .assert_eq(&String::from_utf8_lossy(&output.stdout));
}

/// A check of nothing is none.
#[test]
fn check_of_no_case_fails() {
    assert_eq!(error(&["check", "-"], ""), "error: no case in the files: nothing was checked\n");
}

#[test]
fn check_takes_chunkings() {
    let output = run(&["check", "--chunking", "chars,random:9", "-"], CASES.as_bytes());
    assert!(String::from_utf8_lossy(&output.stdout).contains("\n  chars, random:9\n"));
}

#[test]
fn check_plays_ids_and_tokens() {
    let case = r#"{"id":"A5","identity":true,"context":{"initial_channel":"response"},"chunks":[" <|","end","_of","_msg","|",">","<|end_of_msg|>"],"ids":[[22652],[517],[5118],[14222],[91],[29],[163586]],"expected":{"content":"?"}}"#;
    let output = run(&["check", "-"], case.as_bytes());
    expect![[r#"
        A5
          as-given with ids, as-given with ids a delta ahead, token by token, whole with ids
            content: expected ‹?›
                          got ‹ <|end_of_msg|>›
        0 passed, 1 failed
    "#]]
    .assert_eq(&String::from_utf8_lossy(&output.stdout));
}

#[test]
fn replay_prints_a_line_for_each_record() {
    expect![[r#"
        {"record":"A1","reasoning":"","content":"Six.","tool_calls":[],"finish_reason":"stop","diagnostics":[{"code":"unclosed-response","at":4}],"bytes":{"input":4,"reasoning":0,"content":4,"arguments":0,"markup":0,"withheld":0,"dropped":0}}
        {"record":"A2","reasoning":"Count: 1, 2","content":"","tool_calls":[],"finish_reason":"length","diagnostics":[{"code":"unclosed-think","at":11}],"bytes":{"input":11,"reasoning":11,"content":0,"arguments":0,"markup":0,"withheld":0,"dropped":0}}
        {"record":"A3","reasoning":"","content":"High.","tool_calls":[],"finish_reason":"stop","diagnostics":[{"code":"unclosed-response","at":5}],"bytes":{"input":5,"reasoning":0,"content":5,"arguments":0,"markup":0,"withheld":0,"dropped":0}}
        {"record":"A3","reasoning":"","content":"Low","tool_calls":[],"finish_reason":"stop","diagnostics":[{"code":"unclosed-response","at":3}],"bytes":{"input":3,"reasoning":0,"content":3,"arguments":0,"markup":0,"withheld":0,"dropped":0}}
    "#]].assert_eq(&printed(&["replay", "-"], [CASES, CHOICES].concat().as_bytes()));
}

#[test]
fn replay_tells_choices_apart() {
    let frames = printed(&["replay", "--format", "sse", "--id", "A3", "-"], [CASES, CHOICES].concat().as_bytes());
    assert!(frames.contains(r#"[{"index":1,"delta":{"content":"Low"},"finish_reason":null}]"#), "{frames}");
    assert!(frames.ends_with("data: [DONE]\n\n") && frames.matches("[DONE]").count() == 1, "{frames}");
}

#[test]
fn replay_keeps_the_rate() {
    let start = std::time::Instant::now();
    printed(&["replay", "--rate", "20", "-"], CASES.as_bytes());
    assert!(start.elapsed().as_millis() >= 150);
}

#[test]
fn a_reader_that_leaves_is_no_fault() {
    let mut child = command(&["parse", "--format", "events", "--chunk", "1"]).spawn().unwrap();
    drop(child.stdout.take());
    let _ = child.stdin.take().unwrap().write_all("ebb and flow ".repeat(9999).as_bytes());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}

#[test]
fn help_has_examples() {
    for command in
        [&["--help"][..], &["parse", "--help"], &["check", "--help"], &["inspect", "--help"], &["replay", "--help"]]
    {
        assert!(printed(command, b"").contains("Examples:\n  "), "{command:?}");
    }
}

#[test]
fn files_that_are_not_there() {
    let errors = [
        error(&["parse", "no-such.txt"], ""),
        error(&["check", "no-such.jsonl"], ""),
        error(&["replay", "-", "--id", "B1"], CASES),
    ];
    expect![[r#"
        error: cannot read no-such.txt: No such file or directory (os error 2)
        error: cannot read no-such.jsonl: No such file or directory (os error 2)
        error: standard input: no record has the id B1
    "#]]
    .assert_eq(&errors.concat());
}

#[test]
fn lines_that_are_no_case() {
    let errors = [
        r#"{"id": "B1", "chunks": 7}"#,
        r#"{"id": "B1", "chunks": ["#,
        r#"{"chunks": []}"#,
        r#"{"id": "B1"}"#,
        r#"{"id": "B1", "byte_chunks_hex": ["e"]}"#,
        r#"{"id": "B1", "chunks": [""], "ids": []}"#,
        r#"{"id": "B1", "chunks": [""], "identity": true}"#,
        r#"{"id": "B1", "chunks": [""], "scale": {"chunk": "a", "times": [2]}}"#,
        r#"{"id": "B1", "chunks": ["a"], "scale": {"chunk": "a", "times": [2, 9000000000000000000]}}"#,
        r#"{"id": "B1", "chunks": [""], "context": {"tool_choice": 3}}"#,
        r#"{"id": "B1", "chunks": [""], "context": {"initial_channel": "thoughts"}}"#,
    ];
    let errors = errors.map(|line| error(&["check", "-"], &format!("{CASES}\n{line}\n")));
    expect![[r#"
        error: standard input, line 4: column 24: invalid type: integer `7`, expected a sequence
        A case file has one JSON object a line; corpora/README.md describes it.
        error: standard input, line 4: column 24: EOF while parsing a list
        A case file has one JSON object a line; corpora/README.md describes it.
        error: standard input, line 4: it has no id
        A case file has one JSON object a line; corpora/README.md describes it.
        error: standard input, line 4: it has no stream: no chunks, byte_chunks_hex or interleaved_choices
        A case file has one JSON object a line; corpora/README.md describes it.
        error: standard input, line 4: column 37: `e` are no bytes in hexadecimal
        A case file has one JSON object a line; corpora/README.md describes it.
        error: standard input, line 4: ids and chunks are not equally many
        A case file has one JSON object a line; corpora/README.md describes it.
        error: standard input, line 4: identity says that ids tell, but it has no ids
        A case file has one JSON object a line; corpora/README.md describes it.
        error: standard input, line 4: the chunk of scale is none of the chunks
        A case file has one JSON object a line; corpora/README.md describes it.
        error: standard input, line 4: its sizes come to more than 256 MiB: make scale.times smaller
        A case file has one JSON object a line; corpora/README.md describes it.
        error: standard input, line 4: column 58: a tool choice is a word, or an object with function.name
        A case file has one JSON object a line; corpora/README.md describes it.
        error: standard input, line 4: column 70: unknown variant `thoughts`, expected one of `think`, `response`, `tools`, `none`
        A case file has one JSON object a line; corpora/README.md describes it.
    "#]]
    .assert_eq(&errors.concat());
}

#[test]
fn arguments_that_are_none() {
    let errors = [
        &["parse", "--opened", "thoughts"][..],
        &["parse", "--chunk", "0"],
        &["parse", "--finish", "done"],
        &["parse", "--tool-choice", "tide"],
        &["check"],
        &["check", "--chunking", "word", "-"],
        &["replay", "--rate", "-1", "-"],
        &["inspect", "--cases", "--opened", "think"],
        &["inspect", "--cases", "--record"],
        &["inspect", "--record", "--stream-json"],
    ];
    expect![[r#"
        error: invalid value 'thoughts' for '--opened <think|response|tools|none>': think, response, tools or none

        For more information, try '--help'.
        error: invalid value '0' for '--chunk <N|whole>': a number of bytes from 1 on, or `whole`

        For more information, try '--help'.
        error: invalid value 'done' for '--finish <REASON>'
          [possible values: stop, length]

        For more information, try '--help'.
        error: --tool-choice tide: it is not auto, none or required, and no tool of that name is declared
        Declare it with --tool tide.
        error: the following required arguments were not provided:
          <FILE>...

        Usage: kimi-xtml check <FILE>...

        For more information, try '--help'.
        error: invalid value 'word' for '--chunking <CHUNKING>': a chunking is as-given, whole, chars, random or random:SEED (a number)

        For more information, try '--help'.
        error: invalid value '-1' for '--rate <TOKENS_PER_S>': a number of tokens a second, above 0

        For more information, try '--help'.
        error: standard input is a case file, whose records have a request, a finish reason and chunks of their own
        Leave the options for them away; they are for raw texts.
        error: --record makes a case of a raw text; standard input has cases already
        error: --record and --html: a case file has no place for --no-separate-reasoning, --undeclared and --stream-json
    "#]].assert_eq(&errors.map(|arguments| error(arguments, "")).concat());
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn what_a_record_says_of_itself_is_shown_and_not_sent() {
    let case = r#"{"id":"\u001b[31mA","kind":"k\u202e","note":"n\u001b","context":{"tools":["t\u001b"],"engine_finish_reason":"s\u001b"},"chunks":["x"],"expected":{}}"#;
    for arguments in [&["check", "-"][..], &["inspect", "--cases", "-"]] {
        let output = run(arguments, case.as_bytes());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("␛[31mA k\\u{202e}"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    }
    let told = error(&["check", "no\u{1b}[31m\u{e0041}file"], "");
    assert!(told.starts_with("error: cannot read no␛[31m\\u{e0041}file"), "{told:?}");
}

#[test]
fn what_is_no_case_file_is_told() {
    assert_eq!(
        printed(&["check", "-"], format!("\u{feff}{}", CASES.lines().next().unwrap()).as_bytes()),
        "1 passed, 0 failed\n"
    );
    let output = run(&["check", "-"], b"\x1f\x8b\x08\x00\x00");
    assert!(
        String::from_utf8_lossy(&output.stderr).starts_with("error: standard input is compressed\nDecompress it first")
    );
    for command in [&["replay", "-"][..], &["inspect", "--cases", "-"]] {
        assert_eq!(error(command, "\n"), "error: no case in standard input\n");
    }
}

#[test]
fn a_prompt_may_leave_tools_open() {
    let call = "<|open|>call tool=\"ls\" index=\"1\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>";
    let message = printed(&["parse", "--opened", "tools", "--tool", "ls", "--call-ids", "numbered"], call.as_bytes());
    assert!(message.contains(r#""tool_calls":[{"id":"ls_0","name":"ls","arguments":"{}","complete":true}],"finish_reason":"tool_calls","diagnostics":[{"code":"unclosed-message""#) || message.contains(r#""id":"ls_0""#), "{message}");
}

fn batch(folder: &Path, lines: &str, options: &[&str]) -> Output {
    let (from, to) = (folder.join("in.jsonl"), folder.join("out.jsonl"));
    if std::fs::read_to_string(&from).ok().as_deref() != Some(lines) {
        std::fs::write(&from, lines).unwrap();
    }
    let files = [from.to_str().unwrap(), "-o", to.to_str().unwrap(), "--call-ids", "numbered"];
    run(&[&["parse-batch"][..], &files, options].concat(), b"")
}

#[test]
fn parse_batch_writes_a_row_a_line() {
    let folder = folder("rows");
    let lines = "\"Hm.<|close|>think<|sep|>\"\n\n{\"id\":7,\"output\":\"cut\",\"finish_reason\":\"length\"}\n";
    let output = batch(&folder, lines, &["--opened", "auto", "--threads", "2"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "2 rows\n");
    let rows = std::fs::read_to_string(folder.join("out.jsonl")).unwrap();
    let rows: Vec<serde_json::Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!((rows.len(), &rows[0]["reasoning"], &rows[1]["content"]), (2, &"Hm.".into(), &"cut".into()));
    assert_eq!(rows[1]["finish_reason"], "length");
    assert!(!folder.join("out.jsonl.parts").exists());
}

/// Parts that are whole stay; what a kill left of one is not read; another command's are not gone on with.
#[test]
fn parse_batch_goes_on_where_it_was_stopped() {
    let folder = folder("stopped");
    let good: String = (0..20_000).map(|number| format!("\"row {number}\"\n")).collect();
    let bad = format!("{good}{{\"text\":3}}\n");
    let output = batch(&folder, &bad, &["--opened", "response"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("in.jsonl, line 20001: it has no output\n--column names"), "{told}");
    let parts = folder.join("out.jsonl.parts");
    let first = std::fs::metadata(parts.join("000000")).unwrap().modified().unwrap();
    assert!(parts.join("000001").exists() && !parts.join("000002").exists());
    std::fs::write(parts.join("unfinished"), "half a ro").unwrap();

    let other = batch(&folder, &bad, &["--opened", "think"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("was begun with other options"), "{other:?}");
    let again = batch(&folder, &bad, &["--opened", "response"]);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(std::fs::metadata(parts.join("000000")).unwrap().modified().unwrap(), first);

    std::fs::remove_file(parts.join("000001")).unwrap();
    std::fs::remove_file(parts.join("plan")).unwrap();
    let whole = batch(&folder, &good, &["--opened", "response"]);
    assert_eq!(String::from_utf8_lossy(&whole.stderr), "20000 rows, 8192 of them by a run before\n");
    let rows = std::fs::read_to_string(folder.join("out.jsonl")).unwrap();
    for (number, row) in rows.lines().enumerate() {
        assert!(row.contains(&format!("\"content\":\"row {number}\"")), "{row}");
    }
    assert_eq!(rows.lines().count(), 20_000);
}

#[test]
fn parse_batch_names_what_it_cannot_read() {
    for (lines, told) in [
        ("\"a\"\n[1]\n", "line 2: a JSON string or object is expected"),
        ("{\"output\":3}", "line 1: output is no string"),
        ("{\"output\":\"a\",\"finish_reason\":3}", "line 1: finish_reason is no string"),
        ("\"a", "line 1: EOF while parsing a string"),
        ("\n", "no output in "),
    ] {
        let output = batch(&folder("wrong"), lines, &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(told), "{lines} {output:?}");
    }
}
