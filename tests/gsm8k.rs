//! Worked solutions come back byte for byte, with the line of their answer, however the stream is cut.
//!
//! In: replies without tools, rendered. With `KIMI_XTML_DATA` the official GSM8K answers and the published model
//! solutions (`data/gsm8k/*.jsonl` there), always those of `corpora/math.jsonl`: texts full of `<<3*4=12>>`, in which a `<`
//! may stand last in a delta.

#![allow(clippy::incompatible_msrv, reason = "the oldest toolchain has to compile the crate, not its tests")]

use kimi_xtml::{Channel, Event, Message, Parser, Request, render, sink_fn};
use serde::Deserialize;
use serde_json::Value;

mod support;

use support::{Push, Random, Record, chars, chunks, corpus, data, lines};

/// The texts that came.
#[derive(Debug, Default, PartialEq)]
struct Said {
    reasoning: String,
    content: String,
    /// Deviations.
    diagnostics: usize,
}

impl Said {
    fn hear(&mut self, event: Event<'_>) {
        match event {
            Event::Reasoning(text) => self.reasoning.push_str(text),
            Event::Content(text) => self.content.push_str(text),
            Event::Diagnostic(_) => self.diagnostics += 1,
            Event::Start(_) | Event::End(_) | Event::Markup(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// What the parser makes of the pushes.
fn parse<'a>(opened: Channel, pushes: impl IntoIterator<Item = Push<'a>>, reason: &str) -> Said {
    let mut said = Said::default();
    let mut parser = Parser::new(Request::new().opened(opened));
    let mut hear = sink_fn(|event, _| said.hear(event));
    for push in pushes {
        push.to(&mut parser, &mut hear);
    }
    assert_eq!(parser.finish(reason, &mut hear), reason);
    said
}

const BOTH: &[Channel] = &[Channel::Think, Channel::Response];

/// The reply comes back under every schedule, and as far as it came when the stream is cut.
fn comes_back(opened: &[Channel], reasoning: &str, solution: &str, random: &mut Random) {
    for &opened in opened {
        let reasoning = if opened == Channel::Think { reasoning } else { "" };
        let said = Said { reasoning: reasoning.into(), content: solution.into(), diagnostics: 0 };
        let message = Message::of(reasoning, solution, Vec::new());
        let text = render(&message, Some(opened)).unwrap();
        let mut schedules = vec![vec![&*text], chars(&text), text.split_inclusive('<').collect()];
        schedules.extend((0..5).map(|_| chunks(&text, random.ends(text.len()))));
        for schedule in schedules {
            let shown = format!("{schedule:?}");
            assert_eq!(parse(opened, schedule.into_iter().map(Push::Text), "stop"), said, "{shown:.500}");
        }
        let bytes = text.as_bytes();
        assert_eq!(parse(opened, bytes.chunks(1).map(Push::Bytes), "stop"), said);

        let start = text.find(solution).unwrap();
        for _ in 0..20 {
            let cut = solution.floor_char_boundary(random.below(solution.len() + 1));
            let came = &text[..start + cut];
            let cut_short = parse(opened, [Push::Text(came)], "length");
            assert_eq!((&*cut_short.reasoning, &*cut_short.content), (reasoning, &solution[..cut]));
            let by_chunk = parse(opened, came.split_inclusive('<').map(Push::Text), "length");
            assert_eq!(by_chunk, cut_short);
        }
    }
}

/// The line of the answer.
fn answer(solution: &str) -> Option<&str> {
    solution.lines().find(|line| line.starts_with("#### "))
}

#[test]
fn solutions_of_the_corpus_come_back() {
    let random = &mut Random(1);
    let records: Vec<Record> = lines(&corpus("math.jsonl"));
    assert_eq!(records.len(), 60);
    for Record { expected, .. } in records {
        assert!(answer(&expected.content).is_some(), "{}", expected.content);
        comes_back(BOTH, &expected.reasoning, &expected.content, random);
    }
}

#[test]
fn official_answers_come_back() {
    #[derive(Deserialize)]
    struct Problem {
        answer: String,
    }
    let Some(data) = data() else { return };
    let problems: Vec<Problem> = lines(&data.join("data/gsm8k/test.jsonl"));
    assert_eq!(problems.len(), 1_319);
    let random = &mut Random(2);
    for problem in problems {
        assert!(answer(&problem.answer).is_some(), "{}", problem.answer);
        comes_back(BOTH, "Let me work it out: 3 < 4 <", &problem.answer, random);
    }
}

#[test]
fn model_solutions_come_back() {
    let Some(data) = data() else { return };
    let problems: Vec<Value> = lines(&data.join("data/gsm8k/model_solutions.jsonl"));
    let random = &mut Random(3);
    let mut solutions = 0;
    for problem in problems {
        for solution in problem.as_object().unwrap().values().filter_map(|model| model["solution"].as_str()) {
            comes_back(&BOTH[1..], "", solution, random);
            solutions += 1;
        }
    }
    assert_eq!(solutions, 4 * 1_319);
}
