//! JSON in the spellings of Python's `json.dumps(value, ensure_ascii=False)` and `str()`.
//!
//! In: a value that was read. Out: text. Held: the value's branches, so that depth has no limit. As in a Python dict, of
//! keys that repeat the last value counts, in the place of the first.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use super::json::{Quoted, Token, Value, replaced};
use crate::event::ValueKind;
use crate::parse::escape::Escaper;

/// How a value is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `, ` and `: `, keys in their order.
    Spaced,
    /// `,` and `:`, keys sorted by code point.
    Sorted,
}

/// The value as `json.dumps` prints it.
pub(crate) fn dumps(value: Value<'_>, style: Style) -> Cow<'_, str> {
    match value.kind() {
        ValueKind::Object | ValueKind::Array => {
            let mut tree = Tree::default();
            let root = tree.grow(value, style);
            Cow::Owned(tree.print(root, style, value.source().len()))
        }
        _ => scalar(value),
    }
}

fn scalar(value: Value<'_>) -> Cow<'_, str> {
    match value.kind() {
        ValueKind::Number => number(value.source()),
        ValueKind::String if value.source().contains('\\') => {
            let mut out = String::with_capacity(value.source().len());
            quote(&value.text().unwrap_or_default(), &mut out);
            Cow::Owned(out)
        }
        _ => Cow::Borrowed(value.source()),
    }
}

/// What Python's `str()` gives for a value that holds no others; none for those that do.
pub(crate) fn str(value: Value<'_>) -> Option<Cow<'_, str>> {
    match (value.kind(), value.source()) {
        (ValueKind::Object | ValueKind::Array, _) => None,
        (ValueKind::String, _) => value.text(),
        (_, "null") => Some("None".into()),
        (_, "true") => Some("True".into()),
        (_, "false") => Some("False".into()),
        (_, "NaN") => Some("nan".into()),
        (_, source) => Some(match number(source) {
            Cow::Owned(word) if word.ends_with("Infinity") => word.replace("Infinity", "inf").into(),
            Cow::Borrowed(word) if word.ends_with("Infinity") => word.replace("Infinity", "inf").into(),
            number => number,
        }),
    }
}

/// Whether Python takes the value for true.
pub(crate) fn is_true(value: Value<'_>) -> bool {
    match value.kind() {
        ValueKind::Null => false,
        ValueKind::Object | ValueKind::Array => value.source()[1..value.source().len() - 1].trim_ascii() != "",
        ValueKind::String => value.source() != "\"\"",
        ValueKind::Boolean => value.source() == "true",
        _ => !matches!(&*number(value.source()), "0" | "0.0" | "-0.0"),
    }
}

/// A number as Python prints it: an integer with all its digits, a float with the fewest that tell it from others.
fn number(source: &str) -> Cow<'_, str> {
    if source.ends_with(['N', 'y']) {
        return Cow::Borrowed(source);
    }
    if !source.contains(['.', 'e', 'E']) {
        return Cow::Borrowed(if source == "-0" { "0" } else { source });
    }
    let float: f64 = source.parse().unwrap_or(f64::NAN);
    if float.is_infinite() {
        return Cow::Borrowed(if float < 0.0 { "-Infinity" } else { "Infinity" });
    }
    let shortest = format!("{float:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let mut out = String::with_capacity(24);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
    } else {
        // `{}` never has an exponent, and `{:?}` has a point.
        let _ = write!(out, "{float}");
        if !out.contains('.') {
            out.push_str(".0");
        }
    }
    Cow::Owned(out)
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    Escaper::default().escape_into(text, out);
    out.push('"');
}

/// A value that holds others, as a list of nodes: a child stands before what holds it.
#[derive(Debug, Default)]
struct Tree<'a> {
    nodes: Vec<Node<'a>>,
    children: Vec<Child<'a>>,
}

#[derive(Debug)]
enum Node<'a> {
    Scalar(Value<'a>),
    Branch { object: bool, children: Range<usize> },
}

#[derive(Clone, Debug)]
struct Child<'a> {
    /// Its code points; of an object's child.
    key: Option<Cow<'a, [u8]>>,
    node: usize,
}

impl<'a> Tree<'a> {
    /// Takes the value in, and gives its node.
    fn grow(&mut self, value: Value<'a>, style: Style) -> usize {
        let mut open = Vec::new();
        let mut pending = Vec::new();
        let mut key: Option<Quoted<'a>> = None;
        let read = value.reader().walk(|token| {
            let (key, node) = match token {
                Token::Key(quoted) => return key = Some(quoted),
                Token::Open(bracket) => return open.push((bracket, pending.len(), key.take())),
                Token::Scalar(value) => (key.take(), Node::Scalar(value)),
                Token::Close => {
                    let Some((bracket, start, key)) = open.pop() else { return };
                    let mut children = pending.split_off(start);
                    if bracket == b'{' {
                        unite(&mut children, style);
                    }
                    let start = self.children.len();
                    self.children.append(&mut children);
                    (key, Node::Branch { object: bracket == b'{', children: start..self.children.len() })
                }
            };
            self.nodes.push(node);
            pending.push(Child { key: key.map(Quoted::code_points), node: self.nodes.len() - 1 });
        });
        debug_assert!(read.is_ok(), "the value was read before");
        self.nodes.len().saturating_sub(1)
    }

    fn print(&self, root: usize, style: Style, len: usize) -> String {
        let (comma, colon) = match style {
            Style::Spaced => (", ", ": "),
            Style::Sorted => (",", ":"),
        };
        let mut out = String::with_capacity(len);
        let mut open: Vec<(Range<usize>, &str)> = Vec::new();
        let mut node = root;
        loop {
            match &self.nodes[node] {
                Node::Scalar(value) => out.push_str(&scalar(*value)),
                Node::Branch { object, children } => {
                    let (begin, end) = if *object { ("{", "}") } else { ("[", "]") };
                    out.push_str(begin);
                    open.push((children.clone(), end));
                }
            }
            node = loop {
                let Some((rest, end)) = open.last_mut() else { return out };
                let Some(next) = rest.next() else {
                    out.push_str(end);
                    open.pop();
                    continue;
                };
                if !out.ends_with(['{', '[']) {
                    out.push_str(comma);
                }
                let child = &self.children[next];
                if let Some(key) = &child.key {
                    match std::str::from_utf8(key) {
                        Ok(key) => quote(key, &mut out),
                        Err(_) => quote(&replaced(key), &mut out),
                    }
                    out.push_str(colon);
                }
                break child.node;
            };
        }
    }
}

/// Leaves each key once.
fn unite(children: &mut Vec<Child<'_>>, style: Style) {
    match style {
        Style::Sorted => {
            // The sort is stable: of equal keys the last comes first, and stays.
            children.reverse();
            children.sort_by(|a, b| a.key.cmp(&b.key));
            children.dedup_by(|later, first| later.key == first.key);
        }
        Style::Spaced => {
            let keys: Vec<_> = children.iter().filter_map(|child| child.key.clone()).collect();
            let places = firsts(&keys);
            let mut united: Vec<Child<'_>> = Vec::with_capacity(children.len());
            for (place, child) in places.into_iter().zip(children.drain(..)) {
                match united.get_mut(place) {
                    Some(first) => first.node = child.node,
                    None => united.push(child),
                }
            }
            *children = united;
        }
    }
}

/// For each key its place among the keys that differ, in the order in which they come.
fn firsts(keys: &[Cow<'_, [u8]>]) -> Vec<usize> {
    let mut places = HashMap::with_capacity(keys.len());
    keys.iter()
        .map(|key| {
            let next = places.len();
            *places.entry(&**key).or_insert(next)
        })
        .collect()
}

/// The members of an object as a Python dict has them.
pub(crate) fn dict<'a>(object: Value<'a>) -> Vec<(Quoted<'a>, Value<'a>)> {
    let members = object.members();
    let keys: Vec<_> = members.iter().map(|(key, _)| key.code_points()).collect();
    let mut dict: Vec<(Quoted<'a>, Value<'a>)> = Vec::with_capacity(members.len());
    for (place, member) in firsts(&keys).into_iter().zip(members) {
        match dict.get_mut(place) {
            Some(first) => first.1 = member.1,
            None => dict.push(member),
        }
    }
    dict
}
