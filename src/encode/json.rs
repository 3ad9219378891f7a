//! JSON as Python's decoder reads it, one level at a time, as slices of its source.
//!
//! In: text. Out: values that keep their spelling, and the texts of strings. Held: the brackets that are open, so that
//! depth has no limit. `NaN`, `Infinity` and lone surrogates are JSON here, as in Python; raw control characters in
//! strings only where the reader is lenient (`strict=False`).

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memchr2, memrchr};

use crate::event::ValueKind;

/// A JSON value in the spelling that its writer gave it: the order and the repetitions of keys, the digits of numbers.
///
/// ```
/// use kimi_xtml::Json;
///
/// let schema = Json::new(r#"{"minimum": 1e2, "maximum": 123456789012345678901234567890}"#)?;
/// assert_eq!(schema.as_str(), r#"{"minimum": 1e2, "maximum": 123456789012345678901234567890}"#);
/// assert_eq!(Json::new("[1,").unwrap_err().to_string(), "line 1, column 4: a JSON value is expected");
/// # Ok::<(), kimi_xtml::JsonError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json<'a>(Cow<'a, str>);

impl<'a> Json<'a> {
    /// Takes a text that is one JSON value. As in Python, `NaN`, `Infinity` and `-Infinity` are numbers.
    ///
    /// # Errors
    /// If the text is anything else.
    ///
    /// ```
    /// use kimi_xtml::Json;
    ///
    /// assert!(Json::new("[1, 2.50]").is_ok());
    /// assert!(Json::new("[1, 2").is_err());
    /// ```
    pub fn new(text: impl Into<Cow<'a, str>>) -> Result<Self, JsonError> {
        let text = text.into();
        let mut reader = Reader::strict(&text);
        reader.value()?;
        reader.end()?;
        Ok(Json(text))
    }

    /// The value as it was spelled.
    ///
    /// ```
    /// use kimi_xtml::Json;
    ///
    /// assert_eq!(Json::new("[1, 2.50]")?.as_str(), "[1, 2.50]");
    /// # Ok::<(), kimi_xtml::JsonError>(())
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn value(&self) -> Value<'_> {
        Value(self.0.trim_matches(BLANKS))
    }
}

impl<'a> From<&'a serde_json::value::RawValue> for Json<'a> {
    fn from(raw: &'a serde_json::value::RawValue) -> Self {
        Json(raw.get().into())
    }
}

impl<'a> From<Value<'a>> for Json<'a> {
    fn from(value: Value<'a>) -> Self {
        Json(value.0.into())
    }
}

const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Text that is not JSON, and where.
///
/// ```
/// use kimi_xtml::Json;
///
/// let error = Json::new("{}\n]").unwrap_err();
/// assert_eq!((error.line(), error.column()), (2, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonError {
    line: usize,
    column: usize,
    expected: &'static str,
}

impl JsonError {
    /// The line, from 1 on.
    ///
    /// ```
    /// use kimi_xtml::Json;
    ///
    /// assert_eq!(Json::new("\n\n]").unwrap_err().line(), 3);
    /// ```
    pub fn line(&self) -> usize {
        self.line
    }

    /// The place in the line, from 1 on, in bytes.
    ///
    /// ```
    /// use kimi_xtml::Json;
    ///
    /// assert_eq!(Json::new("[1,]").unwrap_err().column(), 4);
    /// ```
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {} is expected", self.line, self.column, self.expected)
    }
}

impl std::error::Error for JsonError {}

/// A value of JSON that was read: its source, without blanks around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'a>(&'a str);

impl<'a> Value<'a> {
    pub(crate) fn source(self) -> &'a str {
        self.0
    }

    pub(crate) fn kind(self) -> ValueKind {
        match self.0.as_bytes().first() {
            Some(b'"') => ValueKind::String,
            Some(b'{') => ValueKind::Object,
            Some(b'[') => ValueKind::Array,
            Some(b't' | b'f') => ValueKind::Boolean,
            Some(b'n') => ValueKind::Null,
            _ => ValueKind::Number,
        }
    }

    pub(crate) fn is_null(self) -> bool {
        self.kind() == ValueKind::Null
    }

    pub(crate) fn quoted(self) -> Option<Quoted<'a>> {
        (self.kind() == ValueKind::String).then(|| Quoted(&self.0[1..self.0.len() - 1]))
    }

    /// The text of a string.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        self.quoted().map(Quoted::text)
    }

    pub(crate) const NULL: Value<'static> = Value("null");

    /// The members of an object, repeated keys too; none of what is no object.
    pub(crate) fn members(self) -> Vec<(Quoted<'a>, Value<'a>)> {
        self.reader().members().unwrap_or_default()
    }

    /// The members of an object that have these names; none of what is no object.
    pub(crate) fn pick<const N: usize>(self, names: [&str; N]) -> [Option<Value<'a>>; N] {
        self.reader().pick(names).unwrap_or([None; N])
    }

    /// Reads the value again.
    pub(crate) fn reader(self) -> Reader<'a> {
        Reader::lenient(self.0)
    }
}

/// The inside of a string, as its source spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quoted<'a>(&'a str);

impl<'a> Quoted<'a> {
    /// What the string says; a lone surrogate, which no text can hold, is U+FFFD.
    pub(crate) fn text(self) -> Cow<'a, str> {
        match self.code_points() {
            Cow::Borrowed(_) => Cow::Borrowed(self.0),
            Cow::Owned(bytes) => {
                Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|error| replaced(error.as_bytes())))
            }
        }
    }

    /// What the string says, lone surrogates too: UTF-8 generalized to them, whose order is that of code points.
    pub(crate) fn code_points(self) -> Cow<'a, [u8]> {
        match memchr(b'\\', self.0.as_bytes()) {
            None => Cow::Borrowed(self.0.as_bytes()),
            Some(_) => Cow::Owned(unescaped(self.0.as_bytes())),
        }
    }
}

/// For each byte what it says after a backslash; 0 for those that say nothing.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let pairs = *b"\"\"\\\\//n\nr\rt\tb\x08f\x0c";
    let mut at = 0;
    while at < pairs.len() {
        escapes[pairs[at] as usize] = pairs[at + 1];
        at += 2;
    }
    escapes
};

/// Runs of so many bytes without an escape are looked for in long strides.
const RUN: usize = 32;

/// Decodes the inside of a string.
fn unescaped(inside: &[u8]) -> Vec<u8> {
    // What an escape says is no longer than the escape.
    let mut out = vec![0; inside.len() + 8];
    let (mut rest, mut len) = (inside, 0);
    loop {
        let run = copy_run(rest, &mut out[len..]);
        len += run;
        let Some(&[escape, ref after @ ..]) = rest.get(run + 1..) else { break };
        rest = after;
        if escape != b'u' {
            out[len] = ESCAPES[usize::from(escape)];
            len += 1;
            continue;
        }
        let mut unit = hex(rest).unwrap_or(0xfffd);
        rest = rest.get(4..).unwrap_or_default();
        // Two halves of one character.
        if let (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) = (unit, low_half(rest)) {
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            rest = &rest[6..];
        }
        len += put(unit, &mut out[len..]);
    }
    out.truncate(len);
    out
}

/// Copies up to the first backslash, and gives how much that is.
#[inline]
fn copy_run(from: &[u8], to: &mut [u8]) -> usize {
    let mut run = 0;
    while let Some((word, _)) = from[run..].split_first_chunk::<8>() {
        to[run..run + 8].copy_from_slice(word);
        let found = equal(u64::from_le_bytes(*word), b'\\');
        if found != 0 {
            return run + first(found);
        }
        run += 8;
        if run == RUN {
            let more = memchr(b'\\', &from[run..]).unwrap_or(from.len() - run);
            to[run..run + more].copy_from_slice(&from[run..run + more]);
            return run + more;
        }
    }
    for &byte in &from[run..] {
        if byte == b'\\' {
            break;
        }
        to[run] = byte;
        run += 1;
    }
    run
}

const ONES: u64 = u64::MAX / 255;

/// The highest bit of each byte that is below `limit` (at most 128); of bytes after the first others too.
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(limit)) & !word & ONES << 7
}

fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * u64::from(byte)), 1)
}

/// The number of the first byte whose bit is set.
fn first(bits: u64) -> usize {
    bits.trailing_zeros() as usize / 8
}

fn low_half(rest: &[u8]) -> Option<u32> {
    rest.strip_prefix(br"\u").and_then(hex)
}

fn hex(digits: &[u8]) -> Option<u32> {
    let digits = digits.get(..4)?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))
}

/// Writes a code point as UTF-8, generalized to surrogates, and gives its length.
fn put(unit: u32, out: &mut [u8]) -> usize {
    if let Some(char) = char::from_u32(unit) {
        return char.encode_utf8(out).len();
    }
    out[..3].copy_from_slice(&[0xe0 | unit >> 12, 0x80 | unit >> 6 & 0x3f, 0x80 | unit & 0x3f].map(|byte| byte as u8));
    3
}

/// The text in which each lone surrogate, three bytes, is one U+FFFD.
pub(crate) fn replaced(code_points: &[u8]) -> String {
    let mut text = String::with_capacity(code_points.len());
    let mut rest = code_points;
    loop {
        let good = match std::str::from_utf8(rest) {
            Ok(good) => return text + good,
            Err(error) => error.valid_up_to(),
        };
        text.push_str(std::str::from_utf8(&rest[..good]).unwrap_or_default());
        text.push('\u{fffd}');
        rest = rest.get(good + 3..).unwrap_or_default();
    }
}

/// What [`Reader::walk`] passes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token<'a> {
    /// `{` or `[`.
    Open(u8),
    /// The key of the next value.
    Key(Quoted<'a>),
    /// A value that holds no other.
    Scalar(Value<'a>),
    /// The end of what was opened last.
    Close,
}

/// Reads a text from its beginning, as far as it is asked to.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    json: &'a str,
    at: usize,
    strict: bool,
}

impl<'a> Reader<'a> {
    /// Control characters in strings are errors.
    pub(crate) fn strict(json: &'a str) -> Self {
        Reader { json, at: 0, strict: true }
    }

    /// Control characters in strings are text.
    pub(crate) fn lenient(json: &'a str) -> Self {
        Reader { json, at: 0, strict: false }
    }

    /// The members of an object, one by one; `member` reads the value.
    pub(crate) fn object<E: From<JsonError>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Quoted<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'{', "an object")?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let key = self.key()?;
            member(self, key)?;
            if !self.take(b',') {
                return Ok(self.expect(b'}', "`,` or `}`")?);
            }
        }
    }

    /// The members of an object, repeated keys too.
    pub(crate) fn members(&mut self) -> Result<Vec<(Quoted<'a>, Value<'a>)>, JsonError> {
        let mut members = Vec::new();
        self.object(|reader, key| {
            members.push((key, reader.value()?));
            Ok::<_, JsonError>(())
        })?;
        Ok(members)
    }

    /// The members of an object that have these names. Of those that repeat the last counts.
    pub(crate) fn pick<const N: usize>(&mut self, names: [&str; N]) -> Result<[Option<Value<'a>>; N], JsonError> {
        let mut picked = [None; N];
        self.object(|reader, key| {
            let value = reader.value()?;
            let key = key.text();
            if let Some(place) = names.iter().position(|name| *name == key) {
                picked[place] = Some(value);
            }
            Ok::<_, JsonError>(())
        })?;
        Ok(picked)
    }

    /// The items of a list, one by one; `item` reads the value.
    pub(crate) fn list<E: From<JsonError>>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'[', "a list")?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.take(b',') {
                return Ok(self.expect(b']', "`,` or `]`")?);
            }
        }
    }

    /// A value, whatever it is.
    pub(crate) fn value(&mut self) -> Result<Value<'a>, JsonError> {
        self.peek();
        let start = self.at;
        self.walk(|_| ())?;
        Ok(Value(&self.json[start..self.at]))
    }

    /// A value, token by token.
    pub(crate) fn walk(&mut self, mut token: impl FnMut(Token<'a>)) -> Result<(), JsonError> {
        let mut open = Vec::new();
        loop {
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    self.at += 1;
                    token(Token::Open(bracket));
                    open.push(bracket + 2);
                    if !self.take(bracket + 2) {
                        if bracket == b'{' {
                            token(Token::Key(self.key()?));
                        }
                        continue;
                    }
                    open.pop();
                    token(Token::Close);
                }
                _ => token(Token::Scalar(self.scalar()?)),
            }
            loop {
                let Some(&close) = open.last() else { return Ok(()) };
                if self.take(b',') {
                    if close == b'}' {
                        token(Token::Key(self.key()?));
                    }
                    break;
                }
                self.expect(close, if close == b'}' { "`,` or `}`" } else { "`,` or `]`" })?;
                open.pop();
                token(Token::Close);
            }
        }
    }

    /// The next byte that is no blank.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let rest = &self.json.as_bytes()[self.at..];
        let blanks = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.at += blanks.unwrap_or(rest.len());
        self.json.as_bytes().get(self.at).copied()
    }

    /// The end of the text.
    pub(crate) fn end(&mut self) -> Result<(), JsonError> {
        if self.peek().is_some() { Err(self.expected("the end")) } else { Ok(()) }
    }

    fn key(&mut self) -> Result<Quoted<'a>, JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a key in double quotes"));
        }
        let start = self.at + 1;
        self.string()?;
        let key = Quoted(&self.json[start..self.at - 1]);
        self.expect(b':', "`:`")?;
        Ok(key)
    }

    fn scalar(&mut self) -> Result<Value<'a>, JsonError> {
        let start = self.at;
        let rest = &self.json.as_bytes()[start..];
        let words = ["null", "true", "false", "NaN", "Infinity", "-Infinity"];
        match rest.first() {
            Some(b'"') => self.string()?,
            _ => match words.iter().find(|word| rest.starts_with(word.as_bytes())) {
                Some(word) => self.at += word.len(),
                None => self.at += number(rest).ok_or_else(|| self.expected("a JSON value"))?,
            },
        }
        Ok(Value(&self.json[start..self.at]))
    }

    fn string(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        loop {
            let rest = &self.json.as_bytes()[self.at..];
            let run = special(rest, self.strict);
            self.at += run;
            self.at += match rest[run..] {
                [b'"', ..] => {
                    self.at += 1;
                    return Ok(());
                }
                [b'\\', b'u', ref digits @ ..] if hex(digits).is_some() => 6,
                [b'\\', escape, ..] if ESCAPES[usize::from(escape)] != 0 => 2,
                [] => return Err(self.expected("the `\"` that ends the string")),
                [b'\\', ..] => return Err(self.expected("an escape of JSON")),
                _ => return Err(self.expected("an escape of the control character")),
            };
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), JsonError> {
        if self.take(byte) { Ok(()) } else { Err(self.expected(expected)) }
    }

    #[cold]
    fn expected(&self, expected: &'static str) -> JsonError {
        let before = &self.json.as_bytes()[..self.at];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let column = self.at - memrchr(b'\n', before).map_or(0, |end| end + 1) + 1;
        JsonError { line, column, expected }
    }
}

/// The place of the first `"` or backslash, or, if `strict`, control character; else the end.
#[inline]
fn special(text: &[u8], strict: bool) -> usize {
    let mut at = 0;
    while let Some((word, _)) = text[at..].split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let found = equal(word, b'"') | equal(word, b'\\') | if strict { below(word, 0x20) } else { 0 };
        if found != 0 {
            return at + first(found);
        }
        at += 8;
        if at == RUN {
            let run = memchr2(b'"', b'\\', &text[at..]).unwrap_or(text.len() - at);
            let control = strict && text[at..at + run].iter().fold(false, |found, &byte| found | (byte < 0x20));
            return if control { at + control_at(&text[at..]) } else { at + run };
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\') || strict && *byte < 0x20;
    text[at..].iter().position(is_special).map_or(text.len(), |more| at + more)
}

#[cold]
fn control_at(text: &[u8]) -> usize {
    text.iter().position(|&byte| byte < 0x20).unwrap_or(text.len())
}

/// The length of the number that the text begins with.
fn number(text: &[u8]) -> Option<usize> {
    let digits = |at: usize| text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut len = usize::from(text.first() == Some(&b'-'));
    len += match text.get(len)? {
        b'0' => 1,
        b'1'..=b'9' => digits(len),
        _ => return None,
    };
    if text.get(len) == Some(&b'.') && digits(len + 1) > 0 {
        len += 1 + digits(len + 1);
    }
    if let Some(b'e' | b'E') = text.get(len) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let exponent = text.get(len + 1 + sign..).map_or(0, |_| digits(len + 1 + sign));
        len += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    Some(len)
}
