//! JSON schema -> a value that it takes.
//!
//! In: a schema, as tools declare their parameters. Out: a value, the same for the same seed, or why there is none.
//! Held: the [`Budget`] of the request, of which every look at a schema takes its share, so that none of them makes a
//! server work without end.
//! Optional properties are written near the root; further down a value is as shallow as the schema lets it be.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Number, Value};

/// Values within values that are tried before a schema counts as one that only endless values satisfy.
const DEPTH: usize = 24;
/// Levels on which optional properties are written.
const GENEROUS: usize = 3;
/// Schemas within schemas that are followed: an option may have options without a level between them.
const NESTED: usize = 100;
/// What one attempt may spend: a character costs 1, a value or a node of a schema that is copied `NODE`.
const FUEL: usize = 400_000;
const NODE: usize = 20;
/// The longest pattern that is read, in bytes: a short one can stand for a large automaton.
const PATTERN: usize = 1000;

/// A schema without a value, or without one that is small enough to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no value of reasonable size was found for the schema")]
pub struct NoValue;

/// What the values of a request may cost together, and whether its client is still there.
#[derive(Clone, Debug)]
pub struct Budget {
    fuel: usize,
    left: Arc<AtomicBool>,
}

impl Budget {
    /// The budget of a request; `left` tells that nobody waits for it any more.
    pub fn new(left: Arc<AtomicBool>) -> Self {
        Budget { fuel: 4 * FUEL, left }
    }

    /// Takes what the next attempt may spend.
    fn attempt(&mut self) -> Option<usize> {
        let share = self.fuel.min(FUEL);
        self.fuel -= share;
        (share > 0).then_some(share)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

/// A value that `schema` takes.
///
/// # Errors
/// [`NoValue`] if there is none, or none that can be written within the limits.
pub fn value(schema: &Value, seed: u64, budget: &mut Budget) -> Result<Value, NoValue> {
    // The shallowest limit that will do, so that recursion ends as soon as it may.
    (GENEROUS + 2..=DEPTH)
        .find_map(|depth| {
            let fuel = budget.attempt()?;
            let random = fastrand::Rng::with_seed(seed);
            let mut writer = Writer { root: schema, random, fuel, left: &budget.left, nested: 0, depth };
            let value = writer.value(schema, "", 0);
            budget.fuel += writer.fuel; // what it did not spend
            value
        })
        .ok_or(NoValue)
}

struct Writer<'s> {
    root: &'s Value,
    random: fastrand::Rng,
    fuel: usize,
    left: &'s AtomicBool,
    nested: usize,
    depth: usize,
}

impl Writer<'_> {
    /// A value of `schema`, for a property of this name; none within the limits.
    fn value(&mut self, schema: &Value, name: &str, level: usize) -> Option<Value> {
        self.spend(NODE)?;
        if self.nested > NESTED {
            return None;
        }
        self.nested += 1;
        let value = self.nested_value(schema, name, level);
        self.nested -= 1;
        value
    }

    fn nested_value(&mut self, schema: &Value, name: &str, level: usize) -> Option<Value> {
        let schema = match schema {
            Value::Bool(false) => return None,
            Value::Object(schema) => self.resolve(schema, 0)?,
            _ => Map::new(),
        };
        if level >= self.depth {
            return None;
        }
        if let Some(value) = schema.get("const") {
            return Some(value.clone());
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let fitting: Vec<_> = values.iter().filter(|value| fits(value, &schema)).collect();
            return self.random.choice(fitting).cloned();
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(options) = schema.get(key).and_then(Value::as_array) {
                return self.option(options, &schema, key, name, level);
            }
        }
        let mut kinds = kinds(&schema);
        self.random.shuffle(&mut kinds);
        kinds.sort_by_key(|kind| *kind == "null"); // a value says more than none
        kinds.into_iter().find_map(|kind| self.kind(kind, &schema, name, level))
    }

    /// A value of one of the options, beside what the schema says itself.
    fn option(
        &mut self,
        options: &[Value],
        schema: &Map<String, Value>,
        key: &str,
        name: &str,
        level: usize,
    ) -> Option<Value> {
        let first = self.random.usize(..options.len().max(1));
        (0..options.len()).find_map(|offset| {
            let mut whole = self.copy(schema)?;
            whole.remove(key);
            let option = match &options[(first + offset) % options.len()] {
                Value::Object(option) => self.resolve(option, 0)?,
                Value::Bool(true) => Map::new(),
                _ => return None,
            };
            merge(&mut whole, &option);
            self.value(&Value::Object(whole), name, level)
        })
    }

    fn kind(&mut self, kind: &str, schema: &Map<String, Value>, name: &str, level: usize) -> Option<Value> {
        match kind {
            "null" => Some(Value::Null),
            "boolean" => Some(Value::Bool(self.random.bool())),
            "integer" => self.number(schema, true),
            "number" => self.number(schema, false),
            "string" => self.string(schema, name).map(Value::String),
            "array" => self.array(schema, name, level),
            _ => self.object(schema, level),
        }
    }

    fn object(&mut self, schema: &Map<String, Value>, level: usize) -> Option<Value> {
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required: Vec<&str> = strings(schema.get("required")).collect();
        let wanted: HashSet<&str> = required.iter().copied().collect();
        let others = schema.get("additionalProperties").unwrap_or(&Value::Bool(true));
        let mut object = Map::new();
        for (name, property) in properties {
            let value = match wanted.contains(&**name) {
                true => Some(self.value(property, name, level + 1)?),
                false if level < GENEROUS => self.value(property, name, level + 1),
                false => None,
            };
            object.extend(value.map(|value| (name.clone(), value)));
        }
        for name in required {
            if !object.contains_key(name) {
                object.insert(name.into(), self.value(others, name, level + 1)?);
            }
        }
        let least = size(schema, "minProperties").unwrap_or(usize::from(others.is_object() && level < GENEROUS));
        let most = size(schema, "maxProperties").unwrap_or(usize::MAX);
        for extra in 1.. {
            if object.len() >= least || object.len() >= most {
                break;
            }
            let name = format!("key_{extra}");
            match self.value(others, &name, level + 1) {
                Some(value) => object.insert(name, value),
                None if schema.contains_key("minProperties") => return None,
                None => break,
            };
        }
        Some(Value::Object(object))
    }

    fn array(&mut self, schema: &Map<String, Value>, name: &str, level: usize) -> Option<Value> {
        let least = size(schema, "minItems").unwrap_or(0);
        let most = size(schema, "maxItems").unwrap_or(usize::MAX);
        let prefix = schema.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let items = schema.get("items").unwrap_or(&Value::Bool(true));
        let wanted = (if level < GENEROUS { 2 } else { 0 }).max(prefix.len()).clamp(least, most.max(least));
        let mut array: Vec<Value> = Vec::new();
        while array.len() < wanted {
            let item = prefix.get(array.len()).unwrap_or(items);
            if distinct(schema) {
                self.spend(array.len())?;
            }
            match self.value(item, name, level + 1) {
                Some(value) if distinct(schema) && array.contains(&value) && array.len() >= least => break,
                Some(value) if distinct(schema) && array.contains(&value) => self.spend(value.to_string().len())?,
                Some(value) => array.push(value),
                None if array.len() >= least => break,
                None => return None,
            }
        }
        Some(Value::Array(array))
    }

    fn string(&mut self, schema: &Map<String, Value>, name: &str) -> Option<String> {
        let least = size(schema, "minLength").unwrap_or(0);
        let most = size(schema, "maxLength").unwrap_or(usize::MAX);
        self.spend(least)?;
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
            self.spend(pattern.len().saturating_mul(10 * NODE))?;
            if pattern.len() > PATTERN {
                return None;
            }
            let hir = regex_syntax::parse(pattern).ok()?;
            return (0..=least.max(1)).find_map(|times| {
                let mut text = String::new();
                self.matching(&hir, times, &mut text)?;
                (least..=most).contains(&text.chars().count()).then_some(text)
            });
        }
        let mut text = match schema.get("format").and_then(Value::as_str) {
            Some("date") => "2026-03-14".into(),
            Some("time") => "15:09:26Z".into(),
            Some("date-time") => "2026-03-14T15:09:26Z".into(),
            Some("email") => "ada@example.com".into(),
            Some("uri") => "https://example.com/".into(),
            Some("uuid") => "3b241101-e2bb-4255-8caf-4136c566a962".into(),
            Some("ipv4") => "192.0.2.1".into(),
            _ => format!("{} {}", if name.is_empty() { "value" } else { name }, self.random.u32(1..100)),
        };
        let missing = least.saturating_sub(text.chars().count());
        text.extend(std::iter::repeat_with(|| self.random.lowercase()).take(missing));
        Some(text.chars().take(most).collect())
    }

    /// Text that the pattern matches; what may be repeated is, `times` times.
    fn matching(&mut self, hir: &Hir, times: usize, text: &mut String) -> Option<()> {
        self.spend(1)?;
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => text.push_str(str::from_utf8(&literal.0).ok()?),
            HirKind::Class(Class::Unicode(class)) => {
                let range = class.ranges().iter().find(|range| range.start() > ' ').or(class.ranges().first())?;
                text.push(range.start());
            }
            HirKind::Class(Class::Bytes(class)) => text.push(char::from(class.ranges().first()?.start())),
            HirKind::Capture(capture) => self.matching(&capture.sub, times, text)?,
            HirKind::Concat(parts) => {
                for part in parts {
                    self.matching(part, times, text)?;
                }
            }
            HirKind::Alternation(options) => self.matching(options.first()?, times, text)?,
            HirKind::Repetition(repetition) => {
                let least = repetition.min as usize;
                for _ in 0..times.clamp(least, repetition.max.map_or(usize::MAX, |max| max as usize).max(least)) {
                    self.matching(&repetition.sub, times, text)?;
                }
            }
        }
        Some(())
    }

    fn number(&mut self, schema: &Map<String, Value>, whole: bool) -> Option<Value> {
        let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
        let step = bound("multipleOf").filter(|step| *step > 0.0).unwrap_or(if whole { 1.0 } else { 0.25 });
        let any = bound("multipleOf").is_none() && !whole;
        let above = bound("exclusiveMinimum");
        let below = bound("exclusiveMaximum");
        let fits = |number: f64| {
            bound("minimum").is_none_or(|least| number >= least)
                && bound("maximum").is_none_or(|most| number <= most)
                && above.is_none_or(|least| number > least)
                && below.is_none_or(|most| number < most)
        };
        let least = bound("minimum").or(above).unwrap_or(f64::NEG_INFINITY);
        let most = bound("maximum").or(below).unwrap_or(f64::INFINITY);
        let guess = step * f64::from(self.random.u32(1..40));
        let near = |bound: f64| [(bound / step).ceil() * step, (bound / step).floor() * step];
        let middle = if any && least.is_finite() && most.is_finite() { f64::midpoint(least, most) } else { f64::NAN };
        let steps = [[guess, 0.0], near(least), near(least + step), near(most), near(most - step)];
        let number = steps.into_iter().flatten().chain([middle]).find(|number| number.is_finite() && fits(*number))?;
        if number.fract() == 0.0 && number.abs() < 9e18 {
            return Some(Value::from(number as i64));
        }
        Number::from_f64(number).map(Value::Number)
    }

    /// The schema that references and `allOf` lead to.
    fn resolve(&mut self, schema: &Map<String, Value>, hops: usize) -> Option<Map<String, Value>> {
        self.spend(NODE)?;
        if hops > DEPTH {
            return None;
        }
        let mut whole = self.copy(schema)?;
        let target = whole.remove("$ref");
        let parts = whole.remove("allOf");
        let root = self.root;
        if let Some(pointer) = target.as_ref().and_then(Value::as_str) {
            match root.pointer(&unescape(pointer.strip_prefix('#')?))? {
                Value::Object(target) => merge(&mut whole, &self.resolve(target, hops + 1)?),
                Value::Bool(true) => {}
                _ => return None,
            }
        }
        for part in parts.iter().filter_map(Value::as_array).flatten() {
            match part {
                Value::Object(part) => merge(&mut whole, &self.resolve(part, hops + 1)?),
                Value::Bool(false) => return None,
                _ => {}
            }
        }
        Some(whole)
    }

    /// A copy of a schema, which costs what it is large.
    fn copy(&mut self, schema: &Map<String, Value>) -> Option<Map<String, Value>> {
        self.spend(schema.values().map(nodes).sum::<usize>().saturating_mul(NODE))?;
        Some(schema.clone())
    }

    fn spend(&mut self, amount: usize) -> Option<()> {
        if self.left.load(Ordering::Relaxed) {
            self.fuel = 0;
        }
        self.fuel = self.fuel.checked_sub(amount)?;
        Some(())
    }
}

/// Adds what `other` demands. Where both say something of one key, what can be joined is.
fn merge(schema: &mut Map<String, Value>, other: &Map<String, Value>) {
    for (key, value) in other {
        match (schema.get_mut(key), value) {
            (Some(Value::Object(ours)), Value::Object(theirs)) if key == "properties" => {
                ours.extend(theirs.clone());
            }
            (Some(Value::Array(ours)), Value::Array(theirs)) if key == "required" => ours.extend(theirs.clone()),
            (Some(Value::Array(ours)), Value::Array(theirs)) if key == "enum" => {
                ours.retain(|one| theirs.contains(one))
            }
            (Some(_), _) if key == "description" || key == "title" => {}
            _ => {
                schema.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The types that a schema allows; what it says nothing of, its other words tell.
fn kinds(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        kinds @ Some(Value::Array(_)) => strings(kinds).collect(),
        _ if schema.contains_key("items") || schema.contains_key("prefixItems") => vec!["array"],
        _ if ["minLength", "maxLength", "pattern", "format"].iter().any(|key| schema.contains_key(*key)) => {
            vec!["string"]
        }
        _ if ["minimum", "maximum", "multipleOf"].iter().any(|key| schema.contains_key(*key)) => vec!["number"],
        _ => vec!["object"],
    }
}

/// Whether a listed value has the schema's type.
fn fits(value: &Value, schema: &Map<String, Value>) -> bool {
    let length = value.as_str().map(|text| text.chars().count());
    let number = value.as_f64();
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let typed = !schema.contains_key("type")
        || kinds(schema).into_iter().any(|kind| match kind {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => number.is_some_and(|number| number.fract() == 0.0),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            _ => value.is_object(),
        });
    typed
        && length.is_none_or(|length| length >= size(schema, "minLength").unwrap_or(0))
        && length.is_none_or(|length| length <= size(schema, "maxLength").unwrap_or(usize::MAX))
        && number.is_none_or(|number| number >= bound("minimum").unwrap_or(f64::NEG_INFINITY))
        && number.is_none_or(|number| number <= bound("maximum").unwrap_or(f64::INFINITY))
}

/// How many values a value is made of.
fn nodes(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nodes).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(nodes).sum::<usize>(),
        _ => 1,
    }
}

fn distinct(schema: &Map<String, Value>) -> bool {
    schema.get("uniqueItems") == Some(&Value::Bool(true))
}

fn size(schema: &Map<String, Value>, key: &str) -> Option<usize> {
    schema.get(key).and_then(Value::as_f64).map(|size| size as usize)
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// A JSON pointer out of a URI's fragment: `%25` stands for `%`.
fn unescape(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some(&byte) = rest.first() {
        let digits = rest.get(1..3).and_then(|digits| str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| byte == b'%');
        bytes.push(escaped.unwrap_or(byte));
        rest = &rest[if escaped.is_some() { 3 } else { 1 }..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
