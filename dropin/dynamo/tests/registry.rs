//! The parser through Dynamo's own registry, over this project's corpora and Dynamo's rules for parsers.
//!
//! In: streams, whole and cut. Out: what Dynamo assembles of them, beside what was said. Held: nothing.

use dynamo_parsers_v2::{
    InvalidGuidedPayload, InvalidGuidedPayloadPolicy, MalformedToolCall, MalformedToolCallPolicy, ToolCallPolicy,
    UnifiedEvent, UnifiedParser, UnifiedParserExt, UnifiedParserInit, UnifiedParserStartingState,
    UnifiedToolOutputMode, assemble, create_unified_parser_for_family,
};
use serde_json::{Value, json};

const THINK: UnifiedParserStartingState = UnifiedParserStartingState::Reasoning;
const RESPONSE: UnifiedParserStartingState = UnifiedParserStartingState::Response;
const CALL: &str =
    "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"k\" type=\"string\"<|sep|>";
const END: &str = "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>";

fn parser(init: UnifiedParserInit) -> Box<dyn UnifiedParser> {
    kimi_xtml_dynamo::register(None);
    let mut parser = create_unified_parser_for_family("kimi_k3", &[]).unwrap();
    parser.initialize_request(init).unwrap();
    parser
}

fn started(starting_state: UnifiedParserStartingState) -> Box<dyn UnifiedParser> {
    parser(UnifiedParserInit { starting_state, ..UnifiedParserInit::default() })
}

fn play<'t>(
    mut parser: Box<dyn UnifiedParser>,
    chunks: impl IntoIterator<Item = &'t str>,
    by_itself: bool,
) -> Vec<UnifiedEvent> {
    let mut events: Vec<_> = chunks.into_iter().flat_map(|chunk| parser.push(chunk).unwrap()).collect();
    let end = if by_itself { parser.finish_at_eos() } else { parser.finish() };
    events.extend(end.unwrap().events);
    assemble(&events)
}

/// Reasoning, answer and whole calls.
fn said(events: &[UnifiedEvent]) -> Value {
    let (mut reasoning, mut content, mut calls) = (String::new(), String::new(), Vec::new());
    for event in events {
        match event {
            UnifiedEvent::Reasoning { text } => reasoning += text,
            UnifiedEvent::Text { text } => content += text,
            UnifiedEvent::ToolCall { name, arguments } => calls.push(json!([name, arguments])),
            _ => {}
        }
    }
    json!([reasoning, content, calls])
}

#[test]
fn the_corpora_are_read_as_they_were_said() {
    let mut played = 0;
    for file in ["tools", "malformed", "math"] {
        let path = format!("{}/../../corpora/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let context = &case["context"];
            let Some(chunks) = case["chunks"].as_array() else { continue };
            let chunks: Vec<&str> = chunks.iter().map(|chunk| chunk.as_str().unwrap()).collect();
            let declares =
                context["tools"].as_array().is_some_and(|tools| !tools.is_empty()) && context["tool_choice"] != "none";
            // Which calls were asked for is not the trait's business, and neither is what only ids tell.
            if case["identity"] == true
                || case["expected"].is_null()
                || !declares && chunks.concat().contains("<|open|>tools")
            {
                continue;
            }
            let state = match context["initial_channel"].as_str() {
                Some("think") => THINK,
                Some("response") => RESPONSE,
                _ => UnifiedParserStartingState::None,
            };
            let expected = [&case["expected"]].into_iter().chain(case["alternatives"].as_array().into_iter().flatten());
            let mut expected = expected.map(|expected| {
                let calls =
                    expected["tool_calls"].as_array().into_iter().flatten().filter(|call| call["complete"] != false);
                let calls = calls.map(|call| {
                    let arguments: Value =
                        serde_json::from_str(call["arguments_json"].as_str().unwrap()).unwrap_or(json!({}));
                    json!([call["name"], arguments])
                });
                let text = |field: &str| expected[field].as_str().unwrap_or_default().to_owned();
                json!([text("reasoning"), text("content"), calls.collect::<Vec<_>>()])
            });
            let found = said(&play(started(state), chunks, false));
            assert!(expected.any(|expected| expected == found), "{}: {found}", case["id"]);
            played += 1;
        }
    }
    assert!(played > 100, "{played} were played");
}

#[test]
fn no_cut_changes_what_is_said() {
    let text = format!("é.<|close|>think<|sep|><|open|>response<|sep|>1 < 2<|close|>response<|sep|>{CALL}\"é{END}");
    let whole = play(started(THINK), [&*text], false);
    assert_eq!(said(&whole), json!(["é.", "1 < 2", [["f", {"k": "\"é"}]]]));
    for at in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
        assert_eq!(play(started(THINK), [&text[..at], &text[at..]], false), whole, "{at}");
    }
}

#[test]
fn a_call_that_was_cut_is_never_complete() {
    let cut = format!("{CALL}v<|close|>argument<|sep|>");
    assert_eq!(said(&play(started(RESPONSE), [&*cut], false)), json!(["", "", []]));
    // The model ended its message there: nothing of the call is missing but its close.
    assert_eq!(said(&play(started(RESPONSE), [&*cut], true)), json!(["", "", [["f", {"k": "v"}]]]));

    let mut parser = started(RESPONSE);
    let policy = ToolCallPolicy { malformed: MalformedToolCallPolicy::Reject, ..ToolCallPolicy::default() };
    parser.set_tool_call_policy(policy).unwrap();
    parser.push(&cut).unwrap();
    assert!(parser.finish().unwrap_err().is::<MalformedToolCall>());
}

#[test]
fn bare_json_of_required_and_named_choices() {
    use InvalidGuidedPayloadPolicy::{RecoverAsText, Reject, StreamBestEffort};
    let guided = |named: Option<&str>, invalid_guided_payload| {
        let tool_output_mode = UnifiedToolOutputMode::GuidedJson { named_tool: named.map(str::to_owned) };
        parser(UnifiedParserInit {
            tool_output_mode,
            invalid_guided_payload,
            starting_state: THINK,
            ..UnifiedParserInit::default()
        })
    };
    let before = "Hm.<|close|>think<|sep|><|open|>response<|sep|>";
    for policy in [Reject, RecoverAsText, StreamBestEffort] {
        let calls =
            format!("{before}[{{\"name\":\"f\",\"arguments\":{{\"k\":1.0}}}},{{\"name\":\"g\",\"parameters\":{{}}}}]");
        let expected = json!(["Hm.", "", [["f", {"k": 1.0}], ["g", {}]]]);
        assert_eq!(said(&play(guided(None, policy), calls.split_inclusive(','), false)), expected, "{policy:?}");
        let arguments = format!("{before}{{\"k\":[1,2]}}");
        let expected = json!(["Hm.", "", [["f", {"k": [1, 2]}]]]);
        assert_eq!(
            said(&play(guided(Some("f"), policy), arguments.split_inclusive(','), false)),
            expected,
            "{policy:?}"
        );
    }
    let other = format!("{before}no JSON");
    assert_eq!(said(&play(guided(None, RecoverAsText), [&*other], false)), json!(["Hm.", "no JSON", []]));
    let mut parser = guided(None, Reject);
    parser.push(&other).unwrap();
    assert!(parser.finish().unwrap_err().is::<InvalidGuidedPayload>());
    assert_eq!(parser.reset(), "no JSON");
}

#[test]
fn a_parser_begins_ends_and_begins_again() {
    let mut parser = started(THINK);
    parser.push("a<|clo").unwrap();
    assert!(parser.initialize_request(UnifiedParserInit::default()).is_err());
    let fork = parser.continuation().unwrap().unwrap();
    assert_eq!(parser.reset(), "<|clo");
    assert_eq!(said(&play(parser, ["b"], false)), json!(["b", "", []]));
    let [first, second] = [fork.fork().unwrap(), fork.fork().unwrap()];
    assert_eq!(said(&play(first, ["se|>think<|sep|>c"], false)), json!(["", "c", []]));
    assert_eq!(said(&play(second, ["ck"], false)), json!(["<|clock", "", []]));
    let mut parser = started(RESPONSE);
    parser.finish().unwrap();
    assert!(parser.finish().is_err() && parser.push("x").is_err());
}
