//! Cases, checked: every stream under every chunking, as text, as bytes, and with its ids.
//!
//! In: a [`Case`] and chunkings. Out: the [`Failure`]s, each with the chunkings that show it. A case passes with the
//! result that it expects or with one of its alternatives, if no rule was broken on the way.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::cases::{Case, Expected};
use crate::chunking::Chunking;
use crate::play::{Call, Delta, Outcome, Player};
use crate::show;

/// A difference, and the chunkings that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The chunkings: `whole`, `as-given with ids`, …
    pub chunkings: Vec<String>,
    /// Lines that tell what differs.
    pub difference: String,
}

/// Checks a case under these chunkings.
pub fn check(case: &Case, chunkings: &[Chunking]) -> Vec<Failure> {
    let mut failures = Failures::default();
    for (size, case) in case.sizes() {
        Checker { size, case: &case, failures: &mut failures }.run(chunkings);
    }
    failures.0
}

/// Results that pass: the expected one first.
pub fn accepted(case: &Case) -> Vec<Outcome> {
    let reason = &case.context.engine_finish_reason;
    let first = case.expected.iter().map(|expected| outcome(expected, expected.finish_reason.as_deref(), reason));
    first.chain(case.alternatives.iter().map(|other| outcome(other, None, reason))).collect()
}

/// What differs between a result and those that pass; nothing, if it is one of them.
pub fn difference(accepted: &[Outcome], got: &Outcome) -> Option<String> {
    match accepted {
        [] => Some("nothing is expected of it: the record has no `expected`\n".into()),
        [..] if accepted.contains(got) => None,
        [first, ..] => Some(compare(first, got)),
    }
}

#[derive(Default)]
struct Failures(Vec<Failure>);

impl Failures {
    fn add(&mut self, chunking: String, difference: String) {
        match self.0.iter_mut().find(|known| known.difference == difference) {
            Some(known) => known.chunkings.push(chunking),
            None => self.0.push(Failure { chunkings: vec![chunking], difference }),
        }
    }
}

struct Checker<'a> {
    size: String,
    case: &'a Case,
    failures: &'a mut Failures,
}

impl Checker<'_> {
    fn run(mut self, chunkings: &[Chunking]) {
        if let Some(chunks) = &self.case.chunks {
            let text = Stream::of(chunks);
            if !self.case.identity {
                for &chunking in chunkings {
                    let deltas = text.cut(chunking).into_iter().map(Delta::Text);
                    self.play(chunking.to_string(), deltas.collect());
                }
            }
            if let Some(ids) = &self.case.ids {
                self.with_ids(&text.whole, chunks, ids, chunkings);
            }
        }
        if let Some(chunks) = &self.case.byte_chunks_hex {
            let bytes: Vec<u8> = chunks.iter().flat_map(|hex| &hex.0).copied().collect();
            let given = ends(chunks.iter().map(|hex| hex.0.len()));
            for &chunking in chunkings {
                let ends = chunking.ends(&given, |_| true);
                let deltas = ranges(&ends).map(|range| Delta::Bytes(&bytes[range]));
                self.play(format!("{chunking} as bytes"), deltas.collect());
            }
        }
        if let Some(deltas) = &self.case.interleaved_choices {
            self.interleaved(deltas, chunkings);
        }
    }

    fn with_ids(&mut self, text: &str, chunks: &[String], ids: &[Vec<u32>], chunkings: &[Chunking]) {
        let given = || chunks.iter().map(String::as_str).zip(ids.iter().map(Vec::as_slice));
        if chunkings.contains(&Chunking::AsGiven) {
            self.play("as-given with ids".into(), given().map(|(text, ids)| Delta::Ids(text, ids)).collect());
            let texts = std::iter::once("").chain(given().map(|(text, _)| text));
            let leading = given().map(|(_, ids)| ids).chain([&[][..]]);
            self.play(
                "as-given with ids a delta ahead".into(),
                texts.zip(leading).map(|(text, ids)| Delta::Ids(text, ids)).collect(),
            );
            if ids.iter().all(|ids| ids.len() == 1) {
                self.play("token by token".into(), given().map(|(text, ids)| Delta::Token(ids[0], text)).collect());
            }
        }
        if chunkings.contains(&Chunking::Whole) {
            self.play("whole with ids".into(), vec![Delta::Ids(text, &ids.concat())]);
        }
    }

    fn play(&mut self, chunking: String, deltas: Vec<Delta<'_>>) {
        let deltas = deltas.into_iter().map(|delta| (0, delta)).collect();
        let expected = BTreeMap::from([(0, accepted(self.case))]);
        self.play_choices(chunking, deltas, &expected);
    }

    /// Each choice has a parser. As given the deltas come in the record's order, otherwise in turn.
    fn interleaved(&mut self, given: &[(usize, String)], chunkings: &[Chunking]) {
        let reason = &self.case.context.engine_finish_reason;
        let expected = self.case.expected_choices.iter().map(|choice| {
            let expected = &choice.expected;
            (choice.index, vec![outcome(expected, expected.finish_reason.as_deref(), reason)])
        });
        let expected = expected.collect();
        let mut chunks = BTreeMap::<usize, Vec<&str>>::new();
        for (choice, text) in given {
            chunks.entry(*choice).or_default().push(text);
        }
        let streams: Vec<_> = chunks.iter().map(|(&choice, chunks)| (choice, Stream::of(chunks))).collect();
        for &chunking in chunkings {
            let deltas = if chunking == Chunking::AsGiven {
                given.iter().map(|(choice, text)| (*choice, Delta::Text(text))).collect()
            } else {
                in_turn(streams.iter().map(|(choice, stream)| (*choice, stream.cut(chunking))).collect())
            };
            self.play_choices(format!("{chunking} with choices"), deltas, &expected);
        }
    }

    fn play_choices(
        &mut self,
        chunking: String,
        deltas: Vec<(usize, Delta<'_>)>,
        expected: &BTreeMap<usize, Vec<Outcome>>,
    ) {
        let request = self.case.context.request();
        let reason = &self.case.context.engine_finish_reason;
        let mut players: BTreeMap<_, _> =
            expected.keys().map(|&choice| (choice, Player::new(request.clone()))).collect();
        for (choice, delta) in deltas {
            players.entry(choice).or_insert_with(|| Player::new(request.clone())).push(delta);
        }
        let mut differences = String::new();
        for (choice, player) in players {
            let (got, faults) = player.finish(reason);
            let accepted = expected.get(&choice).map_or(&[][..], Vec::as_slice);
            differences.extend(faults.into_iter().map(|fault| fault + "\n"));
            differences.extend(difference(accepted, &got));
        }
        if !differences.is_empty() {
            self.failures.add(chunking + &self.size, differences);
        }
    }
}

/// A text, and where its chunks end.
struct Stream {
    whole: String,
    ends: Vec<usize>,
}

impl Stream {
    fn of<T: AsRef<str>>(chunks: &[T]) -> Self {
        let chunks = || chunks.iter().map(AsRef::as_ref);
        Stream { whole: chunks().collect(), ends: ends(chunks().map(str::len)) }
    }

    fn cut(&self, chunking: Chunking) -> Vec<&str> {
        let ends = chunking.ends(&self.ends, |at| self.whole.is_char_boundary(at));
        ranges(&ends).map(|range| &self.whole[range]).collect()
    }
}

fn ends(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    lengths
        .scan(0, |end, length| {
            *end += length;
            Some(*end)
        })
        .collect()
}

fn ranges(ends: &[usize]) -> impl Iterator<Item = std::ops::Range<usize>> {
    std::iter::once(0).chain(ends.iter().copied()).zip(ends.iter().copied()).map(|(start, end)| start..end)
}

/// One delta of each choice, then the next of each.
fn in_turn(choices: Vec<(usize, Vec<&str>)>) -> Vec<(usize, Delta<'_>)> {
    let longest = choices.iter().map(|(_, chunks)| chunks.len()).max().unwrap_or(0);
    let turn = |number: usize| {
        choices.iter().filter_map(move |(choice, chunks)| Some((*choice, Delta::Text(chunks.get(number)?))))
    };
    (0..longest).flat_map(turn).collect()
}

/// What is expected, with the finish reason that follows from the calls if none is written.
fn outcome(expected: &Expected, written: Option<&str>, engine: &str) -> Outcome {
    let called = engine == "stop" && expected.tool_calls.iter().any(|call| call.complete);
    let follows = if called { "tool_calls" } else { engine };
    let calls = expected.tool_calls.iter().map(|call| Call {
        name: call.name.clone(),
        arguments: call.arguments_json.clone(),
        complete: call.complete,
    });
    Outcome {
        reasoning: expected.reasoning.clone(),
        content: expected.content.clone(),
        tool_calls: calls.collect(),
        finish_reason: written.unwrap_or(follows).to_owned(),
    }
}

fn compare(expected: &Outcome, got: &Outcome) -> String {
    let mut lines = String::new();
    let mut field = |name: &str, expected: &str, got: &str| {
        if expected != got {
            let (expected, got) = show::apart(expected, got);
            let _ = writeln!(lines, "{name}: expected {expected}\n{:1$} got {got}", "", name.len() + 6);
        }
    };
    field("reasoning", &expected.reasoning, &got.reasoning);
    field("content", &expected.content, &got.content);
    field("calls", &expected.tool_calls.len().to_string(), &got.tool_calls.len().to_string());
    for (number, (expected, got)) in (1..).zip(expected.tool_calls.iter().zip(&got.tool_calls)) {
        field(&format!("call {number} name"), &expected.name, &got.name);
        field(&format!("call {number} arguments"), &expected.arguments, &got.arguments);
        field(&format!("call {number} complete"), &expected.complete.to_string(), &got.complete.to_string());
    }
    field("finish_reason", &expected.finish_reason, &got.finish_reason);
    lines
}
