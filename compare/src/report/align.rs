//! Which byte of a stream became what, as far as a parser's output tells.
//!
//! In: a stream, its layout, and what a parser said, which has no spans. Out: for each byte reasoning, answer, argument,
//! markup, lost or leaked; and text that was said and is not in the stream. Found by the smallest difference between the
//! stream and what was said, so it is a good guess, not a fact.

use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::classify::is_said;
use crate::heard::{Heard, Kind, Said};
use crate::stream::{Layout, Part, Stream};

/// What became of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Reasoning,
    Content,
    Argument,
    Markup,
    /// The message's, and not said.
    Lost,
    /// Markup, and said as text.
    Leaked,
    /// Not in the stream, and said.
    Added,
}

/// Characters that must agree in a row before markup counts as leaked: fewer agree by chance.
const LEAK: usize = 4;

/// The fates of the stream's text as this project reads it.
pub(crate) fn ours(stream: &Stream, layout: &Layout) -> Vec<(Fate, String)> {
    let text = stream.text();
    let part = |(part, range): &(Part, std::ops::Range<usize>)| (fate(*part), text[range.clone()].to_owned());
    layout.parts.iter().map(part).collect()
}

fn fate(part: Part) -> Fate {
    match part {
        Part::Reasoning => Fate::Reasoning,
        Part::Content => Fate::Content,
        Part::Argument => Fate::Argument,
        Part::Markup | Part::Dropped => Fate::Markup,
    }
}

/// The fates of the stream's text as a parser's output tells them.
pub(crate) fn theirs(stream: &Stream, layout: &Layout, heard: &Heard) -> Vec<(Fate, String)> {
    let text: Vec<char> = stream.text().chars().collect();
    let parts: Vec<Part> = layout
        .parts
        .iter()
        .flat_map(|(part, range)| stream.text()[range.clone()].chars().map(|_| *part).collect::<Vec<_>>())
        .collect();
    let mut said = Vec::new();
    let mut kinds = Vec::new();
    for Said(_, kind, _, said_text) in &heard.said {
        let plain = if *kind == Kind::Arguments { unescaped(said_text) } else { said_text.clone() };
        for c in plain.chars() {
            said.push(c);
            kinds.push(*kind);
        }
    }
    let mut fates: Vec<(Fate, String)> = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &text, &said) {
        match op {
            DiffOp::Equal { old_index, new_index, len } => {
                for offset in 0..len {
                    let (old, new) = (old_index + offset, new_index + offset);
                    push(&mut fates, matched(parts[old], kinds[new], len), text[old]);
                }
            }
            DiffOp::Delete { old_index, old_len, .. } => missing(&mut fates, &text, &parts, old_index, old_len),
            DiffOp::Insert { new_index, new_len, .. } => added(&mut fates, &said, &kinds, new_index, new_len),
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                missing(&mut fates, &text, &parts, old_index, old_len);
                added(&mut fates, &said, &kinds, new_index, new_len);
            }
        }
    }
    fates
}

fn matched(part: Part, kind: Kind, len: usize) -> Fate {
    match kind {
        Kind::Name => Fate::Markup,
        Kind::Arguments if is_said(part) => Fate::Argument,
        Kind::Arguments => Fate::Markup,
        _ if !is_said(part) && len < LEAK => Fate::Markup,
        _ if !is_said(part) => Fate::Leaked,
        Kind::Reasoning => Fate::Reasoning,
        Kind::Content => Fate::Content,
    }
}

fn missing(fates: &mut Vec<(Fate, String)>, text: &[char], parts: &[Part], start: usize, len: usize) {
    for at in start..start + len {
        push(fates, if is_said(parts[at]) { Fate::Lost } else { Fate::Markup }, text[at]);
    }
}

/// JSON's own characters are in no stream: only text counts.
fn added(fates: &mut Vec<(Fate, String)>, said: &[char], kinds: &[Kind], start: usize, len: usize) {
    for at in start..start + len {
        if matches!(kinds[at], Kind::Reasoning | Kind::Content) {
            push(fates, Fate::Added, said[at]);
        }
    }
}

fn push(fates: &mut Vec<(Fate, String)>, fate: Fate, c: char) {
    match fates.last_mut() {
        Some((last, text)) if *last == fate => text.push(c),
        _ => fates.push((fate, c.to_string())),
    }
}

fn unescaped(json: &str) -> String {
    let mut plain = String::new();
    let mut chars = json.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some('r') => plain.push('\r'),
                Some(c) => plain.push(c),
                None => plain.push('\\'),
            },
            c => plain.push(c),
        }
    }
    plain
}
