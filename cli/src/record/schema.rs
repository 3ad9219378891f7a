//! JSON schemas -> instances, by a seed.
//!
//! In: a schema. Out: a value that fits its types, enumerations, bounds, required members and references, as far as a
//! small generator goes; `pattern`, `format` and `not` are not looked at. Recursion ends at a depth.

use serde_json::{Map, Number, Value};

/// Depth from which on only what is required is made.
const DEPTH: usize = 4;

/// Values of an instance; those beyond are null, and lists end.
const MOST: usize = 10_000;

/// Words that strings are made of.
const WORDS: &[&str] = &[
    "tide",
    "harbour at six",
    "ne\u{e9}l",
    "\u{6f6e}\u{6c50}",
    "a \"quoted\" word",
    "C:\\tmp\\x",
    "<b>",
    "",
    "line\nend",
];

pub(crate) fn instance(schema: &Value, random: &mut fastrand::Rng) -> Value {
    Generator { root: schema, random, left: MOST }.value(schema, 0)
}

struct Generator<'a, 'r> {
    root: &'a Value,
    random: &'r mut fastrand::Rng,
    /// Values that may still be made.
    left: usize,
}

impl<'a> Generator<'a, '_> {
    fn value(&mut self, schema: &'a Value, depth: usize) -> Value {
        let Some(left) = self.left.checked_sub(1) else { return Value::Null };
        self.left = left;
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            return match target {
                Some(target) if depth < 3 * DEPTH => self.value(target, depth + 1),
                _ => Value::Null,
            };
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return self.random.choice(values).cloned().unwrap_or_default();
        }
        for of in ["anyOf", "oneOf", "allOf"] {
            if let Some(schemas) = schema.get(of).and_then(Value::as_array) {
                // Deep down the last choice: the first ones tend to recur.
                let chosen = if depth < DEPTH { self.random.choice(schemas) } else { schemas.last() };
                return chosen.map_or(Value::Null, |schema| self.value(schema, depth + 1));
            }
        }
        match self.kind(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, depth),
            "integer" => Value::from(self.integer(schema)),
            "number" => self.number(schema),
            "boolean" => Value::from(self.random.bool()),
            "null" => Value::Null,
            _ => self.string(schema),
        }
    }

    fn kind(&mut self, schema: &'a Value) -> &'a str {
        match schema.get("type") {
            Some(Value::String(kind)) => kind,
            Some(Value::Array(kinds)) => self.random.choice(kinds).and_then(Value::as_str).unwrap_or("string"),
            _ if schema.get("properties").is_some() || schema.get("additionalProperties").is_some() => "object",
            _ if schema.get("items").is_some() || schema.get("prefixItems").is_some() => "array",
            _ => "string",
        }
    }

    fn object(&mut self, schema: &'a Value, depth: usize) -> Value {
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut members = Map::new();
        for (key, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if required.contains(&&**key) || depth < DEPTH && self.random.u8(0..4) > 0 {
                members.insert(key.clone(), self.value(schema, depth + 1));
            }
        }
        for key in required {
            if !members.contains_key(key) {
                members.insert(key.into(), "tide".into());
            }
        }
        if let Some(schema @ Value::Object(_)) = schema.get("additionalProperties")
            && depth < DEPTH
        {
            let value = self.value(schema, depth + 1);
            members.insert("more & \"more\"".into(), value);
        }
        members.into()
    }

    fn array(&mut self, schema: &'a Value, depth: usize) -> Value {
        let bound = |name| schema.get(name).and_then(Value::as_u64);
        let least = bound("minItems").unwrap_or(0).min(50) as usize;
        let most = bound("maxItems").unwrap_or(least as u64 + 3).min(50) as usize;
        let count = if depth < DEPTH { self.random.usize(least..=most.max(least)) } else { least };
        let prefix = schema.get("prefixItems").and_then(Value::as_array);
        let item = |at: usize| prefix.and_then(|items| items.get(at)).or_else(|| schema.get("items"));
        let items = (0..count).map(|at| match item(at) {
            Some(schema) => self.value(schema, depth + 1),
            None => Value::from(at),
        });
        Value::Array(items.collect())
    }

    fn integer(&mut self, schema: &Value) -> i64 {
        let bound = |name| schema.get(name).and_then(Value::as_f64);
        let least = bound("minimum").or(bound("exclusiveMinimum").map(|least| least + 1.0)).unwrap_or(-3.0).ceil();
        let most = bound("maximum").or(bound("exclusiveMaximum").map(|most| most - 1.0));
        let most = most.unwrap_or(least + 1000.0).floor();
        let step = bound("multipleOf").filter(|step| *step >= 1.0).unwrap_or(1.0) as i64;
        let number = self.random.i64(least as i64..=(most as i64).max(least as i64));
        number.saturating_sub(number.rem_euclid(step))
    }

    fn number(&mut self, schema: &Value) -> Value {
        let bound = |name| schema.get(name).and_then(Value::as_f64);
        let least = bound("minimum").or(bound("exclusiveMinimum")).unwrap_or(-3.0);
        let most = bound("maximum").or(bound("exclusiveMaximum")).unwrap_or(least + 1000.0);
        let share = f64::from(self.random.u16(1..1000)) / 1000.0;
        let number = ((least + (most - least) * share) * 1000.0).round() / 1000.0;
        Number::from_f64(number).map_or(Value::from(0), Value::Number)
    }

    fn string(&mut self, schema: &Value) -> Value {
        let bound = |name| schema.get(name).and_then(Value::as_u64);
        let least = bound("minLength").unwrap_or(0).min(4096) as usize;
        let most = bound("maxLength").unwrap_or(u64::MAX);
        let mut text = self.random.choice(WORDS).copied().unwrap_or_default().to_owned();
        while text.chars().count() < least {
            text.push_str(" tide");
        }
        text.chars().take(usize::try_from(most).unwrap_or(usize::MAX)).collect::<String>().into()
    }
}
