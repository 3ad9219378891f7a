//! What the parser is told of the request: what the prompt left open, and what was asked for.
//!
//! In: prompts, as text and as ids; settings. Checked: the channel that is open, and what the settings say.

use kimi_xtml::{
    Channel, Chat, Code, IdPolicy, Marker, Parser, Request, ToolChoice, Undeclared, opened_by_prompt,
    opened_by_prompt_ids, parse,
};

mod support;

use support::spell;

const THINK: u32 = 39_964;
const RESPONSE: u32 = 12_092;
const WORD: u32 = 1_000;

#[test]
fn the_last_tag_of_the_prompt_is_what_it_left_open() {
    let user = "{message role=\"user\"}Hi{/message}$";
    for (tail, opened) in [
        ("{think}", Some(Channel::Think)),
        ("{response}", Some(Channel::Response)),
        ("{think}a{/think}{response}b", Some(Channel::Response)),
        ("{ think \n}so far", Some(Channel::Think)),
        ("{think}a{/think}", None),
        ("{response}a$", None),
        ("{tools}", None),
        ("{message role=\"assistant\"}", None),
        ("~think", None),
        ("", None),
    ] {
        assert_eq!(opened_by_prompt(&spell(&format!("{user}{tail}"))), opened, "{tail}");
    }
    for (prompt, opened) in [
        ("<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>", Some(Channel::Think)),
        ("<|open|> response\n<|sep|>", Some(Channel::Response)),
        ("<|open|>think<|sep|>a<|close|>", None),
        ("<|open|>think<|sep|>a<|end_of_msg|>", None),
        ("<|open|>think", None),
        ("think<|sep|>", None),
        ("think", None),
    ] {
        assert_eq!(opened_by_prompt(prompt), opened, "{prompt}");
    }
}

#[test]
fn the_last_tag_of_the_prompts_ids_is_what_it_left_open() {
    let [open, close, sep, end, eos] =
        [Marker::Open, Marker::Close, Marker::Sep, Marker::EndOfMsg, Marker::Eos].map(Marker::id);
    let user = [open, WORD, WORD, sep, WORD, close, WORD, sep, end];
    for (tail, opened) in [
        (&[open, THINK, sep][..], Some(Channel::Think)),
        (&[open, RESPONSE, sep], Some(Channel::Response)),
        (&[open, THINK, sep, WORD, WORD], Some(Channel::Think)),
        (&[open, THINK, sep, close, THINK, sep, open, RESPONSE, sep], Some(Channel::Response)),
        (&[open, THINK, sep, close, THINK, sep], None),
        (&[open, RESPONSE, sep, WORD, end], None),
        (&[open, RESPONSE, sep, WORD, eos], None),
        (&[open, WORD, sep], None),
        (&[open, THINK, WORD, sep], None),
        (&[open, RESPONSE, WORD, sep], None),
        (&[open, THINK, sep, WORD, close], None),
        (&[open, THINK, sep, end], None),
        (&[open, THINK, sep, eos], None),
        (&[open, THINK], None),
        (&[THINK, sep], None),
        (&[], None),
    ] {
        assert_eq!(opened_by_prompt_ids(&[&user, tail].concat()), opened, "{tail:?}");
        assert_eq!(opened_by_prompt_ids(tail), opened, "{tail:?}");
    }
}

#[test]
fn settings_are_kept() {
    let request = Request::new()
        .opened(Channel::Tools)
        .tools(["f", "g"])
        .tool_choice(ToolChoice::Named("g".into()))
        .separate_reasoning(false)
        .undeclared(Undeclared::Content)
        .stream_json(true)
        .value_limit(7);
    assert_eq!(request.opened, Some(Channel::Tools));
    assert_eq!(request.tools, ["f", "g"]);
    assert_eq!(request.tool_choice, ToolChoice::Named("g".into()));
    assert_eq!((request.separate_reasoning, request.undeclared), (false, Undeclared::Content));
    assert_eq!((request.stream_json, request.value_limit), (true, 7));
    assert!(request.engages_tools());
    assert!(!request.tool_choice(ToolChoice::None).engages_tools());
    assert!(!Request::new().tool_choice(ToolChoice::Required).engages_tools());
}

#[test]
fn reasoning_is_content_where_it_is_not_told_apart() {
    let text = spell("why{/think}{response}so{/response}$");
    for (apart, reasoning, content) in [(true, "why", "so"), (false, "", "whyso")] {
        let mut chat = Chat::new(IdPolicy::numbered(0));
        let mut parser = Parser::new(Request::new().opened(Channel::Think).separate_reasoning(apart));
        assert_eq!(parser.channel(), Some(Channel::Think), "before the first push");
        parser.push(&text, &mut chat);
        assert_eq!(parser.channel(), None);
        parser.finish("stop", &mut chat);
        let message = chat.into_message().unwrap();
        assert_eq!((message.reasoning.as_str(), message.content.as_str()), (reasoning, content));
    }
}

/// A withheld section is content where that is asked for, and told of all the same.
#[test]
fn a_withheld_section_goes_where_it_is_asked_to() {
    let text = spell("{tools}{call tool=\"f\"}{/call}{/tools}");
    for (undeclared, kind) in [(Undeclared::Withhold, "Withheld"), (Undeclared::Content, "Content")] {
        let events = parse(&text, Request::new().undeclared(undeclared));
        let shown: Vec<String> = events.iter().map(|(event, _)| format!("{event:?}")).collect();
        let told = format!("Diagnostic({:?})", Code::ToolsWithheld);
        assert_eq!(shown, [told, format!("{kind}({text:?})")]);
    }
}
