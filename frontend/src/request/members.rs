//! JSON objects, member by member.
//!
//! In: the bytes of a body. Out: the values of members, each taken once and each with its path, so that an error names the
//! member at fault. Held: the members that nobody has taken; what is left at the end is what the server does not know.
//! Only objects are objects here: serde's structures would take a list of their values too.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{DeserializeOwned, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::error::ApiError;

/// The most members of an object whose members count.
const MOST: usize = 4096;

/// A value, as its sender spelled it.
#[derive(Clone, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) raw: &'a RawValue,
    /// Where it stands: `messages[0].content`.
    pub(crate) path: String,
}

/// The members of an object.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    path: String,
    members: Vec<(String, &'a RawValue)>,
}

impl<'a> Members<'a> {
    /// The members of a body.
    pub(crate) fn of_body(body: &'a [u8]) -> Result<Self, ApiError> {
        let wrong = |error: &dyn fmt::Display| ApiError::param("body", format!("the body is no request: {error}"));
        let text = str::from_utf8(body).map_err(|error| wrong(&error))?;
        let raw: &RawValue = serde_json::from_str(text).map_err(|error| wrong(&error))?;
        if !raw.get().starts_with('{') {
            return Err(wrong(&"it must be an object"));
        }
        Member { raw, path: String::new() }.members()
    }

    /// Takes a member, whatever it is. Of members that repeat the last counts.
    pub(crate) fn take_even_null(&mut self, name: &str) -> Option<Member<'a>> {
        let at = self.members.iter().rposition(|(key, _)| key == name)?;
        let (_, raw) = self.members.swap_remove(at);
        self.members.retain(|(key, _)| key != name);
        Some(Member { raw, path: self.path_of(name) })
    }

    /// Takes a member; null is none.
    pub(crate) fn take(&mut self, name: &str) -> Option<Member<'a>> {
        self.take_even_null(name).filter(|member| !member.is_null())
    }

    /// Takes a member that must be there.
    pub(crate) fn need(&mut self, name: &str) -> Result<Member<'a>, ApiError> {
        let path = self.path_of(name);
        self.take(name).ok_or_else(|| ApiError::param(&path, format!("{path} is missing")))
    }

    /// Takes a member and reads it.
    pub(crate) fn read<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        self.take(name).map(|member| member.read()).transpose()
    }

    /// Takes a text.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.take(name).map(|member| member.text()).transpose()
    }

    /// Takes a text that must be there.
    pub(crate) fn need_text(&mut self, name: &str) -> Result<String, ApiError> {
        self.need(name)?.text()
    }

    /// Takes a whole number of this range; `100.0` is one too.
    pub(crate) fn whole(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        self.take(name).map(|member| member.whole(range)).transpose()
    }

    /// Takes a list, item by item.
    pub(crate) fn list(&mut self, name: &str) -> Result<Option<Vec<Member<'a>>>, ApiError> {
        self.take(name).map(|member| member.list()).transpose()
    }

    /// Refuses a member that is there, unless it says no more than its absence.
    pub(crate) fn refuse(&mut self, name: &str, why: &str) -> Result<(), ApiError> {
        match self.take(name) {
            Some(member) if !matches!(member.raw.get(), "false" | "[]" | "{}" | "\"\"") => Err(member.wrong(why)),
            _ => Ok(()),
        }
    }

    /// Takes members that change nothing here.
    pub(crate) fn pass(&mut self, names: &[&str]) {
        self.members.retain(|(key, _)| !names.contains(&&**key));
    }

    /// The names of what nobody took, of members that say something.
    pub(crate) fn left(self) -> impl Iterator<Item = String> {
        let said = self.members.into_iter().filter(|(_, raw)| raw.get() != "null");
        said.map(move |(name, _)| if self.path.is_empty() { name } else { format!("{}.{name}", self.path) })
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }
}

impl<'a> Member<'a> {
    /// The error that this member is at fault.
    pub(crate) fn wrong(&self, why: &str) -> ApiError {
        ApiError::param(&self.path, format!("{}: {why}", self.path))
    }

    pub(crate) fn is_null(&self) -> bool {
        self.raw.get() == "null"
    }

    pub(crate) fn is_string(&self) -> bool {
        self.raw.get().starts_with('"')
    }

    pub(crate) fn is_object(&self) -> bool {
        self.raw.get().starts_with('{')
    }

    /// Its members.
    pub(crate) fn members(&self) -> Result<Members<'a>, ApiError> {
        if !self.is_object() {
            return Err(self.wrong("must be an object"));
        }
        let Pairs(members) = self.parse()?;
        Ok(Members { path: self.path.clone(), members })
    }

    /// Its items.
    pub(crate) fn list(&self) -> Result<Vec<Member<'a>>, ApiError> {
        if !self.raw.get().starts_with('[') {
            return Err(self.wrong("must be a list"));
        }
        let items: Vec<&RawValue> = self.parse()?;
        let item = |(number, raw)| Member { raw, path: format!("{}[{number}]", self.path) };
        Ok(items.into_iter().enumerate().map(item).collect())
    }

    /// Its text. A lone half of a surrogate pair, which no text can hold, is U+FFFD, as Kimi's tokenizer has it.
    pub(crate) fn text(&self) -> Result<String, ApiError> {
        if !self.is_string() {
            return Err(self.wrong("must be a string"));
        }
        let Text(text) = self.parse()?;
        Ok(text)
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, ApiError> {
        let known = self.is_string().then(|| self.text()).transpose()?;
        let known = known.and_then(|said| words.iter().find(|(word, _)| *word == said));
        known.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(&format!("must be {}", either(&words)))
        })
    }

    pub(crate) fn boolean(&self) -> Result<bool, ApiError> {
        self.read()
    }

    /// A whole number of this range; `100.0` is one too.
    pub(crate) fn whole(&self, range: RangeInclusive<u64>) -> Result<u64, ApiError> {
        let number: Option<f64> = serde_json::from_str(self.raw.get()).ok();
        let whole = number.filter(|number| number.fract() == 0.0 && *number >= 0.0).map(|number| number as u64);
        whole.filter(|number| range.contains(number)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            let most = if *most == u64::MAX { "or more".into() } else { format!("to {most}") };
            self.wrong(&format!("must be a whole number, {least} {most}"))
        })
    }

    /// A number of this range.
    pub(crate) fn number(&self, range: RangeInclusive<f64>) -> Result<f64, ApiError> {
        let number: Option<f64> = serde_json::from_str(self.raw.get()).ok();
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.wrong(&format!("must be a number, {} to {}", range.start(), range.end())))
    }

    /// What serde makes of it.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        self.parse()
    }

    /// The JSON of an object, as it is spelled.
    pub(crate) fn object(&self) -> Result<&'a RawValue, ApiError> {
        if self.is_object() { Ok(self.raw) } else { Err(self.wrong("must be an object")) }
    }

    fn parse<T: Deserialize<'a>>(&self) -> Result<T, ApiError> {
        serde_json::from_str(self.raw.get()).map_err(|error| {
            let said = error.to_string();
            self.wrong(said.split(" at line ").next().unwrap_or(&said))
        })
    }
}

/// Words as a list that ends with "or".
pub(crate) fn either(words: &[&str]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        words => words.concat(),
    }
}

/// The members of an object in their order.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Text(key)) = map.next_key()? {
                    if members.len() == MOST {
                        map.next_value::<IgnoredAny>()?;
                        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                        return Err(A::Error::custom(format!("an object has at most {MOST} members here")));
                    }
                    members.push((key, map.next_value()?));
                }
                Ok(Pairs(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// A text whose lone surrogates are U+FFFD.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.into()))
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(decoded(bytes).into_owned()))
            }
        }
        deserializer.deserialize_bytes(Read) // of which serde_json asks no UTF-8, so that it reads lone surrogates
    }
}

/// UTF-8, generalized to surrogates, as text. A surrogate is three bytes, of which the first is 0xED.
fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(bytes) {
        return text.into();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if chunk.invalid().first() == Some(&0xed) {
            text.push('\u{fffd}');
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(body: &str) -> Members<'_> {
        Members::of_body(body.as_bytes()).unwrap()
    }

    #[test]
    fn members_are_taken_once_and_the_last_of_a_name_counts() {
        let mut body = members(r#"{"a": 1, "b": null, "a": 2, "c": {"d": [true, "x"]}, "é": 0}"#);
        assert_eq!(body.read::<u8>("a").unwrap(), Some(2));
        assert!(body.take("a").is_none() && body.take("b").is_none());
        let list = body.need("c").unwrap().members().unwrap().list("d").unwrap().unwrap();
        assert_eq!((list[0].boolean().unwrap(), &*list[1].path), (true, "c.d[1]"));
        assert_eq!(body.left().collect::<Vec<_>>(), ["é"]);
    }

    #[test]
    fn errors_name_the_member() {
        let mut body = members(r#"{"a": {"b": [1, 2.5]}}"#);
        assert_eq!(body.need("z").unwrap_err().message, "z is missing");
        let mut a = body.need("a").unwrap().members().unwrap();
        assert_eq!(a.need("z").unwrap_err().param.unwrap(), "a.z");
        let list = a.list("b").unwrap().unwrap();
        assert_eq!(list[0].text().unwrap_err().message, "a.b[0]: must be a string");
        assert_eq!(list[1].whole(1..=9).unwrap_err().message, "a.b[1]: must be a whole number, 1 to 9");
        assert_eq!(list[0].members().unwrap_err().message, "a.b[0]: must be an object");
    }

    #[test]
    fn lone_surrogates_are_one_replacement_each() {
        let body = members(r#"{"a": "x\ud83dy\ude00\ud83d\ude00"}"#).text("a").unwrap();
        assert_eq!(body.unwrap(), "x\u{fffd}y\u{fffd}😀");
    }

    #[test]
    fn depth_and_breadth_are_bounded_or_cost_nothing() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(members(&deep).take("a").is_some());
        let broad = format!("{{{}\"a\":1}}", "\"b\":1,".repeat(MOST));
        let message = Members::of_body(broad.as_bytes()).unwrap_err().message;
        assert!(message.contains("at most 4096"), "{message}");
    }
}
