//! Values as Python spells them: JSON as `json.dumps(value, ensure_ascii=False)` writes it, and calls written as Python
//! code.
//!
//! In: JSON values, or text such as `mv(source='a', to="b")`. Out: their spelling; a name and its arguments.

use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Map, Number, Value};

/// A blank after each comma and colon.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

/// A value as Python writes it.
pub(crate) fn dumps(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    value.serialize(&mut serializer).expect("memory takes what is written");
    String::from_utf8(bytes).expect("JSON is text")
}

/// A call's arguments in the parser's spelling: no blanks between our own tokens, values as on the wire.
pub(crate) fn arguments<'a>(members: impl IntoIterator<Item = (&'a String, &'a Value)>) -> String {
    let mut json = String::from("{");
    for (key, value) in members {
        if json.len() > 1 {
            json.push(',');
        }
        json += &dumps(key);
        json.push(':');
        json += &dumps(value);
    }
    json.push('}');
    json
}

/// A call that is written as Python code: its name, and its arguments; those without a name are called `arg0`, `arg1`, …
pub(crate) fn call(code: &str) -> Option<(String, Map<String, Value>)> {
    let mut reader = Reader { rest: code.trim(), depth: 0 };
    let name = reader.word()?;
    reader.skip("(")?;
    let mut arguments = Map::new();
    while reader.skip(")").is_none() {
        let before = reader.rest;
        let key = match reader.word() {
            Some(word) if reader.skip("=").is_some() => word,
            _ => {
                reader.rest = before;
                format!("arg{}", arguments.len())
            }
        };
        arguments.insert(key, reader.value()?);
        let _ = reader.skip(",");
    }
    reader.rest.trim().is_empty().then_some((name, arguments))
}

/// Lists and dicts within each other, as many as serde_json reads.
const DEEPEST: usize = 128;

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn skip(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn word(&mut self) -> Option<String> {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if !word.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return None;
        }
        self.rest = after;
        Some(word.to_owned())
    }

    fn value(&mut self) -> Option<Value> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next()? {
            quote @ ('"' | '\'') => self.string(quote),
            '[' => self.deeper(|reader| reader.list("[", "]")),
            '(' => self.deeper(|reader| reader.list("(", ")")),
            '{' => self.deeper(Reader::dict),
            c if c.is_ascii_digit() || c == '-' => self.number(),
            _ => match self.word()?.as_str() {
                "True" => Some(Value::Bool(true)),
                "False" => Some(Value::Bool(false)),
                "None" => Some(Value::Null),
                _ => None,
            },
        }
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Option<Value>) -> Option<Value> {
        self.depth += 1;
        let value = if self.depth <= DEEPEST { read(self) } else { None };
        self.depth -= 1;
        value
    }

    fn string(&mut self, quote: char) -> Option<Value> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    c @ ('\\' | '\'' | '"') => text.push(c),
                    c => text.extend(['\\', c]),
                },
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Some(Value::String(text));
                }
                c => text.push(c),
            }
        }
        None
    }

    fn list(&mut self, open: &str, close: &str) -> Option<Value> {
        self.skip(open)?;
        let mut items = Vec::new();
        while self.skip(close).is_none() {
            items.push(self.value()?);
            let _ = self.skip(",");
        }
        Some(Value::Array(items))
    }

    fn dict(&mut self) -> Option<Value> {
        self.skip("{")?;
        let mut members = Map::new();
        while self.skip("}").is_none() {
            let Value::String(key) = self.value()? else { return None };
            self.skip(":")?;
            members.insert(key, self.value()?);
            let _ = self.skip(",");
        }
        Some(Value::Object(members))
    }

    fn number(&mut self) -> Option<Value> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c)).unwrap_or(self.rest.len());
        let (number, after) = self.rest.split_at(end);
        self.rest = after;
        let number = match number.parse::<i64>() {
            Ok(number) => Number::from(number),
            Err(_) => Number::from_f64(number.parse().ok()?)?,
        };
        Some(Value::Number(number))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_written_as_code_are_read() {
        let (name, arguments) = call(r#"Api.mv('it\'s', n=-1.5, to=["a", (True, None)], at={'k': 2})"#).unwrap();
        assert_eq!(name, "Api.mv");
        assert_eq!(
            Value::Object(arguments),
            json!({"arg0": "it's", "n": -1.5, "to": ["a", [true, null]], "at": {"k": 2}})
        );
        assert_eq!(call("f(x"), None);
        let nested = |depth: usize| format!("f({}{})", "[".repeat(depth), "]".repeat(depth));
        assert!(call(&nested(DEEPEST)).is_some());
        assert_eq!(call(&nested(1_000_000)), None);
    }

    #[test]
    fn json_is_spelled_as_python_does() {
        assert_eq!(dumps(&json!({"a": [1, "é\u{1}\""], "b": {}})), "{\"a\": [1, \"é\\u0001\\\"\"], \"b\": {}}");
    }
}
