//! Why a peer's prompt is another one: the odd choices of a body without which the prompts are the same.
//!
//! In: a seed. Out: a peer's disagreements, each with the least choices that make it; a short body that shows one. Where one is found, its choices are taken back, and the rest is compared again.

use std::collections::HashSet;

use crate::generate::{Body, Key, body};
use crate::peers::{Encoders, Peer, Prompt};

/// A disagreement.
pub(crate) struct Difference {
    /// The kinds of the choices that it needs: one, unless two act together. None: plain bodies differ.
    pub(crate) kinds: Vec<&'static str>,
    /// The body, with nothing else odd in it.
    pub(crate) body: String,
    seed: u64,
    off: HashSet<Key>,
}

/// Both answers.
type Answers = (anyhow::Result<Prompt>, anyhow::Result<Prompt>);

fn answers(encoders: &Encoders, peer: Peer, body: &str) -> Answers {
    (encoders.ours(body), encoders.peer(peer, body))
}

/// Whether the answers differ: what both refuse is the same.
fn differ((ours, theirs): &Answers) -> bool {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            let pieces = theirs.pieces.is_some() && ours.pieces != theirs.pieces;
            pieces || (&ours.text, &ours.ids, ours.unbilled) != (&theirs.text, &theirs.ids, theirs.unbilled)
        }
        (ours, theirs) => ours.is_ok() != theirs.is_ok(),
    }
}

/// All disagreements of one body, one for each set of choices.
pub(crate) fn differences(encoders: &Encoders, peer: Peer, seed: u64) -> Vec<Difference> {
    let differs = |off: &HashSet<Key>| differ(&answers(encoders, peer, &body(seed, off).json));
    let mut taken = HashSet::new();
    let mut found = Vec::new();
    while differs(&taken) {
        let mut off = taken.clone();
        reduce(seed, &mut off, |body| body.odd.iter().map(|(key, _)| *key).collect(), differs);
        let needed = body(seed, &off);
        taken.extend(needed.odd.iter().map(|(key, _)| *key));
        // What a plain body makes differ cannot be taken back.
        let is_plain = needed.odd.is_empty();
        found.push(Difference { kinds: kinds(&needed), body: needed.json, seed, off });
        if is_plain {
            break;
        }
    }
    found
}

/// The kinds of a body's odd choices, in their order.
fn kinds(body: &Body) -> Vec<&'static str> {
    let mut kinds: Vec<_> = body.odd.iter().map(|(_, kind)| *kind).collect();
    kinds.sort_unstable();
    kinds
}

/// A shorter body that differs for the same reason.
pub(crate) fn shortened(encoders: &Encoders, peer: Peer, difference: &Difference) -> String {
    let Difference { kinds: of, seed, off, .. } = difference;
    let mut off = off.clone();
    reduce(
        *seed,
        &mut off,
        |body| body.parts.clone(),
        |off| {
            let body = body(*seed, off);
            kinds(&body) == *of && differ(&answers(encoders, peer, &body.json))
        },
    );
    body(*seed, &off).json
}

/// Takes choices back, as long as the answers still differ.
fn reduce(
    seed: u64,
    off: &mut HashSet<Key>,
    choices: impl Fn(&Body) -> Vec<Key>,
    differs: impl Fn(&HashSet<Key>) -> bool,
) {
    let mut tried = HashSet::new();
    while let Some(key) = choices(&body(seed, off)).into_iter().find(|key| !tried.contains(key)) {
        tried.insert(key);
        off.insert(key);
        if !differs(off) {
            off.remove(&key);
        }
    }
}

/// Where the answers differ first, ours and theirs.
pub(crate) fn shown(encoders: &Encoders, peer: Peer, body: &str) -> (String, String) {
    match answers(encoders, peer, body) {
        (Ok(ours), Ok(theirs)) if ours.text != theirs.text => apart(&ours.text, &theirs.text),
        (Ok(ours), Ok(theirs)) if theirs.pieces.is_some() && ours.pieces != theirs.pieces => (cut(&ours), cut(&theirs)),
        (Ok(ours), Ok(theirs)) => (
            format!("{} ids, {} unbilled", ours.ids.len(), ours.unbilled),
            format!("the same text; {} ids, {} unbilled", theirs.ids.len(), theirs.unbilled),
        ),
        (ours, theirs) => (outcome(ours), outcome(theirs)),
    }
}

fn outcome(answer: anyhow::Result<Prompt>) -> String {
    answer.map_or_else(|error| format!("error: {}", short(&error.to_string())), |_| "a prompt".to_owned())
}

fn cut(prompt: &Prompt) -> String {
    let pieces: Vec<&str> = prompt.pieces.iter().flatten().map(|(text, _)| text.as_str()).collect();
    format!("pieces {}", short(&pieces.join("¦")))
}

/// The stretches in which two texts differ, with some of what surrounds them.
fn apart(ours: &str, theirs: &str) -> (String, String) {
    let (a, b): (Vec<char>, Vec<char>) = (ours.chars().collect(), theirs.chars().collect());
    let before = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let most = a.len().min(b.len()) - before;
    let after = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count().min(most);
    let stretch = |text: &[char]| {
        let stretch: String = text[before.saturating_sub(6)..text.len() - after.saturating_sub(6)].iter().collect();
        code(&short(&stretch))
    };
    (stretch(&a), stretch(&b))
}

/// As code in Markdown, which may itself have backticks.
pub(crate) fn code(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

fn short(text: &str) -> String {
    let text = text.replace('\n', "⏎").replace('\r', "␍").replace('\t', "⇥");
    match text.char_indices().nth(90) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
