//! A seed -> the body of a Chat Completions request, of every kind that the encoder knows.
//!
//! In: a seed, and choices that shall not be made. Out: JSON, with the odd choices that were made for it and the parts that
//! can be left out. Each choice draws from a generator of its own, so that one that is not made changes no other.

use std::cell::RefCell;
use std::collections::HashSet;

use fastrand::Rng;

/// What names a choice: the seed of its generator.
pub(crate) type Key = u64;

/// The body of a request.
pub(crate) struct Body {
    pub(crate) json: String,
    /// The odd choices, and of which kind each is.
    pub(crate) odd: Vec<(Key, &'static str)>,
    /// The messages, calls and members that may be left out.
    pub(crate) parts: Vec<Key>,
}

/// The body that a seed gives, without the choices `off`.
pub(crate) fn body(seed: u64, off: &HashSet<Key>) -> Body {
    let made = RefCell::new((Vec::new(), Vec::new()));
    let json = Draw { rng: Rng::with_seed(seed), off, made: &made }.request();
    let (odd, parts) = made.into_inner();
    Body { json, odd, parts }
}

/// The members of an object.
type Members = Vec<(String, String)>;

fn member(key: &str, json: impl Into<String>) -> (String, String) {
    (key.to_owned(), json.into())
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<String> = members.iter().map(|(key, json)| format!("{}:{json}", quoted(key))).collect();
    format!("{{{}}}", members.join(","))
}

fn list(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

const WORDS: &[&str] = &[
    "Let",
    " me",
    " look",
    ".",
    "\n",
    "\r\n",
    "  ",
    "the file",
    " is",
    " 12",
    "3456",
    "é",
    "漢字",
    "かな",
    "🚀",
    "I'll",
    "DON'T",
    "<|open|>",
    "<|close|>think",
    "<|sep|>",
    "<|end_of_msg|>",
    "<|media_pad|>",
    "[EOS]",
    "<",
    "|>",
    "{\"a\": 1}",
    "\"",
    "&amp;",
    "&",
    "\t",
    "\u{7f}",
    "\u{2028}",
    "\u{0}",
    "\u{1c}",
    "/",
    "\\",
    "e\u{301}",
    "\u{a0}",
    "=\"",
    " key",
    "message role=\"user\"",
];

const NAMES: &[&str] = &["ls", "read_file", "get-weather", "f", "_x9"];

/// The odd choices and the parts, as of a [`Body`].
type Made = (Vec<(Key, &'static str)>, Vec<Key>);

struct Draw<'a> {
    rng: Rng,
    off: &'a HashSet<Key>,
    made: &'a RefCell<Made>,
}

impl<'a> Draw<'a> {
    fn seeded(&self, key: Key) -> Self {
        Draw { rng: Rng::with_seed(key), ..*self }
    }

    /// A generator of its own.
    fn fork(&mut self) -> Draw<'a> {
        let key = self.rng.u64(..);
        self.seeded(key)
    }

    /// Makes an odd choice once in `one_in` times.
    fn odd(&mut self, kind: &'static str, one_in: usize) -> Option<Draw<'a>> {
        let key = self.rng.u64(..);
        let mut draw = self.seeded(key);
        if draw.rng.usize(..one_in) != 0 || self.off.contains(&key) {
            return None;
        }
        self.made.borrow_mut().0.push((key, kind));
        Some(draw)
    }

    /// A part that can be left out, which it has in half the cases or always.
    fn part(&mut self, always: bool) -> Option<Draw<'a>> {
        let key = self.rng.u64(..);
        let mut draw = self.seeded(key);
        if !(draw.rng.bool() || always) || self.off.contains(&key) {
            return None;
        }
        self.made.borrow_mut().1.push(key);
        Some(draw)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())]
    }

    fn text(&mut self) -> String {
        let words = self.rng.usize(..8);
        (0..words).map(|_| self.pick(WORDS)).collect()
    }

    // ---- the request ---------------------------------------------------------------------------------------------

    fn request(&mut self) -> String {
        let mut members = Members::new();
        let thinking = self.rng.usize(..3) > 0;
        if let Some(mut draw) = self.part(false) {
            let tools = draw.fork().tools();
            members.push(member(
                "tools",
                draw.odd("tools: empty, null", 20).map_or(tools, |mut d| d.pick(&["[]", "null"]).into()),
            ));
        }
        members.extend(self.fork().effort(thinking));
        if !thinking {
            members.push(member("thinking", "false"));
        } else if self.part(false).is_some() {
            members.push(member("thinking", "true"));
        }
        members.extend(self.fork().tool_choice());
        members.extend(self.fork().response_format());
        if self.rng.usize(..8) == 0 {
            members.push(member("add_generation_prompt", "false"));
        }
        let mut messages = Vec::new();
        for _ in 0..self.rng.usize(1..6) {
            if let Some(mut draw) = self.part(true) {
                match draw.rng.usize(..5) {
                    0 => messages.push(draw.system()),
                    1 | 2 => messages.push(draw.user()),
                    _ => draw.assistant(&mut messages),
                }
            }
        }
        if let Some(mut draw) = self.odd("a role that K3 does not know", 60) {
            let role = draw.pick(&["\"developer\"", "\"foo\"", "\"User\"", "null"]);
            messages.push(object(&[member("role", role), member("content", quoted(&draw.text()))]));
        }
        if self.odd("a message without a role", 200).is_some() {
            messages.push(r#"{"content":"a"}"#.to_owned());
        }
        if let Some(mut draw) = self.odd("a message that is no object", 200) {
            messages.push(draw.pick(&["\"a\"", "null", "[]"]).to_owned());
        }
        if let Some(mut draw) = self.odd("Partial Mode", 25) {
            messages.push(draw.partial());
        }
        if let Some(mut draw) = self.odd("texts for images", 60) {
            let image = r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}"#;
            let images = draw.rng.usize(1..3);
            messages.extend((0..images).map(|_| image.to_owned()));
            let given = draw.rng.usize(images - 1..images + 1);
            let texts = vec![quoted("<|media_begin|>image 2x3<|media_content|><|media_pad|><|media_end|>"); given];
            members.push(member("image_prompts", list(&texts)));
        }
        if self.odd("a member that repeats", 60).is_some() {
            messages.push(r#"{"role":"user","content":5,"content":"a"}"#.to_owned());
        }
        members.push(member("messages", list(&messages)));
        self.rng.shuffle(&mut members);
        object(&members)
    }

    fn effort(&mut self, thinking: bool) -> Option<(String, String)> {
        let mut base = self.part(false);
        let null = self.odd("effort null", 25);
        let odd = self.odd(if thinking { "another effort" } else { "another effort, thinking off" }, 25);
        if null.is_some() {
            return Some(member("thinking_effort", "null"));
        }
        if let Some(mut draw) = odd {
            return Some(member("thinking_effort", draw.pick(&["\"medium\"", "\"\"", "\"none\"", "5", "\"Low\""])));
        }
        base.as_mut().map(|draw| member("thinking_effort", draw.pick(&["\"low\"", "\"high\"", "\"max\""])))
    }

    fn tool_choice(&mut self) -> Option<(String, String)> {
        let mut base = self.part(false);
        if let Some(mut draw) = self.odd("a named tool choice", 25) {
            let name = quoted(draw.pick(NAMES));
            return Some(member("tool_choice", format!(r#"{{"type":"function","function":{{"name":{name}}}}}"#)));
        }
        base.as_mut().map(|draw| member("tool_choice", draw.pick(&["\"auto\"", "\"none\"", "\"required\"", "null"])))
    }

    fn response_format(&mut self) -> Option<(String, String)> {
        let mut base = self.part(false);
        let format = if let Some(mut draw) = self.odd("a response format that is a word", 40) {
            draw.pick(&["\"json_object\"", "\"json_schema\"", "\"text\""]).to_owned()
        } else if let Some(mut draw) = self.odd("a response format without `schema`", 40) {
            let schema = [r#"{"type":"object"}"#, r#"{"json_schema":{"b":1,"a":2}}"#, "{}", "null"];
            format!(r#"{{"type":"json_schema","json_schema":{}}}"#, draw.pick(&schema))
        } else if let Some(mut draw) = self.odd("a schema with numbers as Python spells them otherwise", 40) {
            let schema = format!(r#"{{"maximum":{}}}"#, draw.pick(NUMBERS));
            format!(r#"{{"type":"json_schema","json_schema":{{"name":"n","schema":{schema}}}}}"#)
        } else {
            let draw = base.as_mut()?;
            match draw.rng.usize(..3) {
                0 => r#"{"type":"text"}"#.to_owned(),
                1 => r#"{"type":"json_object"}"#.to_owned(),
                _ => {
                    let schema = draw.schema();
                    format!(r#"{{"type":"json_schema","json_schema":{{"name":"n","strict":true,"schema":{schema}}}}}"#)
                }
            }
        };
        Some(member("response_format", format))
    }

    fn schema(&mut self) -> String {
        let keys = ["b", "a", "é", "😀", "\u{ffff}", "aa"];
        let properties: Members = keys
            .iter()
            .filter_map(|key| {
                let description = quoted(&self.part(false)?.text());
                let schema = format!(r#"{{"type":"string","description":{description},"enum":["b","a",1,null]}}"#);
                Some(member(key, schema))
            })
            .collect();
        format!(r#"{{"type":"object","properties":{},"additionalProperties":false}}"#, object(&properties))
    }

    fn tools(&mut self) -> String {
        let mut names = NAMES.to_vec();
        self.rng.shuffle(&mut names);
        names.truncate(self.rng.usize(1..3));
        let mut tools: Vec<String> =
            names.iter().filter_map(|name| Some(self.part(true)?.tool(&quoted(name)))).collect();
        if let Some(mut draw) = self.odd("a tool's name that is odd, or repeats", 20) {
            let name = draw.pick(&["a b", "", "9", "é", names[0]]);
            tools.push(draw.tool(&quoted(name)));
        }
        if let Some(mut draw) = self.odd("tools with numbers as Python spells them otherwise", 20) {
            tools.push(format!(r#"{{"type":"function","function":{{"name":"n","x":{}}}}}"#, draw.pick(NUMBERS)));
        }
        if self.odd("tools 150 levels deep", 100).is_some() {
            tools.push(format!(
                r#"{{"type":"function","function":{{"name":"d","x":{}{}}}}}"#,
                "[".repeat(150),
                "]".repeat(150)
            ));
        }
        if let Some(mut draw) = self.odd("a tool of another type, or of no shape", 40) {
            tools.push(
                draw.pick(&[
                    r#"{"type":"builtin_function","function":{"name":"w"}}"#,
                    r#"{"function":{"name":"w"}}"#,
                    "5",
                    "{}",
                ])
                .to_owned(),
            );
        }
        list(&tools)
    }

    fn tool(&mut self, name: &str) -> String {
        let schema = self.schema();
        let more = self.pick(&["", r#","strict":null"#, r#","x":{"d":1,"c":[1.5,true]}"#]);
        format!(r#"{{"type":"function","function":{{"name":{name},"parameters":{schema}{more}}}}}"#)
    }

    // ---- messages ------------------------------------------------------------------------------------------------

    fn system(&mut self) -> String {
        let mut members = vec![member("role", "\"system\"")];
        let (named, mut content, mut tools) = (self.fork().name(), self.fork().content(), self.fork());
        if content.1 == "null" {
            content.1 = "\"\"".to_owned();
        }
        if self.rng.usize(..4) == 0 {
            let name = format!("\"later_{}\"", tools.rng.u16(..));
            members.push(member("tools", format!("[{}]", tools.tool(&name))));
            if self.odd("a system message with tools and content", 4).is_some() {
                members.push(content);
            }
        } else if self.odd("a system message without content", 30).is_some() {
            members.extend(named);
        } else {
            members.extend([Some(content), named].into_iter().flatten());
            if let Some(mut draw) = self.odd("empty tools of a message", 30) {
                members.push(member("tools", draw.pick(&["[]", "null"])));
            }
        }
        object(&members)
    }

    fn user(&mut self) -> String {
        let mut members = vec![member("role", "\"user\""), self.fork().content()];
        members.extend(self.fork().name());
        if self.odd("tools of a user message", 60).is_some() {
            members.push(member("tools", r#"[{"type":"function","function":{"name":"u"}}]"#));
        }
        object(&members)
    }

    fn name(&mut self) -> Option<(String, String)> {
        let mut base = self.part(false);
        if let Some(mut draw) = self.odd("a name that is no string", 40) {
            return Some(member("name", draw.pick(&["5", "true", "1.0", "0", "false"])));
        }
        let draw = base.as_mut()?;
        if draw.rng.bool() {
            return None;
        }
        Some(member("name", draw.pick(&["\"ana\"", "\"a&\\\"b\"", "\" \"", "\"\"", "\"é\\n\""])))
    }

    fn content(&mut self) -> (String, String) {
        let mut base = self.fork();
        let content = if let Some(mut draw) = self.odd("a part without `type`, or of text without `text`", 150) {
            draw.pick(&[r#"[{"text":"a"}]"#, r#"[{"type":"text"}]"#, r#"[{"type":"text","text":null}]"#]).to_owned()
        } else if let Some(mut draw) = self.odd("content, a part or its text of another type", 150) {
            draw.pick(&["5", "true", r#"{"text":"a"}"#, r#"["a"]"#, r#"[{"type":"text","text":5}]"#, "[null]"])
                .to_owned()
        } else if let Some(mut draw) = self.odd("a part of text with another type's name", 60) {
            format!(r#"[{{"type":{},"text":"a"}}]"#, draw.pick(&["\"input_text\"", "\"audio\"", "\"\""]))
        } else if self.odd("half a surrogate pair", 150).is_some() {
            r#""a\ud83d b""#.to_owned()
        } else if self.odd("a spelled image placeholder", 60).is_some() {
            r#""a<|kimi_image_placeholder|>b""#.to_owned()
        } else if let Some(mut draw) = self.odd("a run of 25,001 or more", 300) {
            quoted(&draw.pick(&["a", " ", "é!", "\n"]).repeat(30_000))
        } else {
            match base.rng.usize(..8) {
                0 => "null".to_owned(),
                1 => "[]".to_owned(),
                2 | 3 => {
                    let parts: Vec<String> = (0..base.rng.usize(1..4)).map(|_| base.content_part()).collect();
                    list(&parts)
                }
                _ => quoted(&base.text()),
            }
        };
        member("content", content)
    }

    fn content_part(&mut self) -> String {
        match self.rng.usize(..3) {
            0 => self
                .pick(&[r#"{"type":"image_url","image_url":{"url":"x"}}"#, r#"{"type":"image","image":"x"}"#])
                .to_owned(),
            _ => format!(r#"{{"type":"text","text":{}}}"#, quoted(&self.text())),
        }
    }

    /// An answer; if it has calls, results follow.
    fn assistant(&mut self, messages: &mut Vec<String>) {
        let mut members = vec![member("role", "\"assistant\"")];
        members.extend(self.part(true).map(|mut draw| draw.content()));
        members.extend(self.fork().name());
        members.extend(self.fork().reasoning());
        let count = self.rng.usize(..4);
        let mut calls: Vec<Called> = (0..count).filter_map(|number| Some(self.part(true)?.call(number))).collect();
        if let Some(mut draw) = self.odd("a call id that repeats", 30).filter(|_| calls.len() > 1) {
            let at = draw.rng.usize(1..calls.len());
            let id = calls[0].id.clone();
            calls[at].json = calls[at].json.replace(&calls[at].id, &id);
            calls[at].id = id;
        }
        if !calls.is_empty() {
            let calls: Vec<String> = calls.iter().map(|call| call.json.clone()).collect();
            members.push(member("tool_calls", list(&calls)));
        } else if self.rng.usize(..4) == 0 {
            members.push(member("tool_calls", self.pick(&["[]", "null"])));
        }
        messages.push(object(&members));
        self.rng.shuffle(&mut calls);
        for call in &calls {
            if let Some(mut draw) = self.part(true) {
                messages.push(draw.result(call));
            }
            if let Some(mut draw) = self.part(false)
                && draw.rng.usize(..5) == 0
            {
                messages.push(draw.user());
            }
        }
        if let Some(mut draw) = self.odd("a result of no known call", 20) {
            let tool = draw.pick(&[
                r#","name":"f""#,
                r#","tool":"f","name":"g""#,
                r#","tool":"""#,
                r#","tool":null,"name":"n""#,
                "",
            ]);
            let id = draw.pick(&[r#","tool_call_id":"other""#, r#","tool_call_id":null"#, r#","id":"other""#, ""]);
            messages.push(format!(r#"{{"role":"tool","content":"r"{id}{tool}}}"#));
        }
    }

    fn reasoning(&mut self) -> Option<(String, String)> {
        let mut base = self.part(true)?;
        if let Some(mut draw) = self.odd("reasoning of blanks only", 20) {
            return Some(member("reasoning_content", draw.pick(&["\" \"", "\"\\n\"", "\"\\t \""])));
        }
        if let Some(mut draw) = self.odd("reasoning null", 40) {
            return Some(member(draw.pick(&["reasoning", "reasoning_content"]), "null"));
        }
        match base.rng.usize(..4) {
            0 => None,
            1 => Some(member("reasoning", quoted(&(base.text() + "so")))),
            2 => Some(member("reasoning_content", "\"\"")),
            _ => Some(member("reasoning_content", quoted(&format!("so{}", base.text())))),
        }
    }

    fn partial(&mut self) -> String {
        let mut members = vec![member("role", self.pick(&["\"assistant\"", "\"assistant\"", "\"user\""]))];
        members.push(member("content", quoted(&self.text())));
        if self.rng.bool() {
            members.push(member("reasoning_content", quoted(&self.text())));
        }
        members.push(member("partial", "true"));
        object(&members)
    }

    fn result(&mut self, call: &Called) -> String {
        let mut members = vec![member("role", "\"tool\""), self.fork().content()];
        let key = if self.odd("a result's id as `id`", 30).is_some() { "id" } else { "tool_call_id" };
        members.push(member(key, call.id.clone()));
        if let Some(mut draw) = self.part(false) {
            members.push(member(draw.pick(&["name", "tool"]), "\"stale\""));
        }
        if self.odd("a result whose `tool` is null", 40).is_some() {
            members.push(member("tool", "null"));
        }
        object(&members)
    }

    // ---- calls ---------------------------------------------------------------------------------------------------

    fn call(&mut self, number: usize) -> Called {
        let id = format!("\"c{number}\"");
        let (name, arguments) = (quoted(self.pick(&["ls", "read_file", "a&\"b"])), self.fork().arguments());
        let mut function = vec![member("name", name)];
        function.extend(arguments.map(|arguments| member("arguments", arguments)));
        if self.odd("a call without a name", 150).is_some() {
            function.remove(0);
        }
        let mut members = vec![member("type", "\"function\""), member("function", object(&function))];
        if self.odd("a call without `function`", 40).is_some() {
            members = function;
        }
        let number_of = self.odd("a call id that is a number, its result's a string", 40);
        members.push(member("id", if number_of.is_some() { format!("{number}") } else { id.clone() }));
        Called { json: object(&members), id: if number_of.is_some() { format!("\"{number}\"") } else { id } }
    }

    /// The JSON of a call's arguments, which may be absent.
    fn arguments(&mut self) -> Option<String> {
        let mut base = self.fork();
        if let Some(arguments) = self.fork().odd_text() {
            return Some(quoted(&arguments));
        }
        if let Some(mut draw) = self.odd("arguments of another type", 60) {
            return Some(draw.pick(&["5", "[1]", "true", "[]", "0", "false"]).to_owned());
        }
        if let Some(mut draw) = self.odd("an object with numbers as Python spells them otherwise", 25) {
            return Some(format!(r#"{{"a":{}}}"#, draw.pick(NUMBERS)));
        }
        if let Some(mut draw) = self.odd("an object with values that hold others", 25) {
            return Some(draw.pick(&[r#"{"l":[1,2]}"#, r#"{"o":{"b":[true, null],"a":"é\n/"}}"#]).to_owned());
        }
        let object = base.plain_object();
        match base.rng.usize(..8) {
            0 => None,
            1 => Some(base.pick(&["null", "\"\"", "{}", "\"{}\""]).to_owned()),
            2 => Some(quoted(base.pick(&["no json", "{\"a\":1", "{\"a\":1,}", "{'a':1}", "{\"a\":01}", "\u{feff}{}"]))),
            3 | 4 => Some(object),
            _ => Some(quoted(&object)),
        }
    }

    fn plain_object(&mut self) -> String {
        let mut members = Members::new();
        for key in ["path", "k\"&", "n", "é", "a"] {
            if let Some(mut draw) = self.part(false) {
                let text = quoted(&draw.text());
                let values = ["12", "-7", "1.5", "true", "false", "null", "[]", "{}", &text, &text, &text];
                members.push(member(key, draw.pick(&values)));
            }
        }
        self.rng.shuffle(&mut members);
        object(&members)
    }

    /// Arguments as text on which encoders differ.
    fn odd_text(&mut self) -> Option<String> {
        const KINDS: &[(&str, &[&str])] = &[
            (
                "arguments: a number that is spelled otherwise",
                &["{\"n\":1e2}", "{\"n\":1.50}", "{\"n\":-0}", "{\"n\":1E5}", "{\"n\":0.00001}"],
            ),
            (
                "arguments: an integer beyond 64 bits",
                &["{\"n\":10000000000000000000000}", "{\"n\":-99999999999999999999}"],
            ),
            (
                "arguments: NaN, Infinity, a number beyond doubles",
                &["{\"n\":NaN}", "{\"n\":-Infinity}", "{\"n\":1e400}", "{\"l\":[NaN]}"],
            ),
            (
                "arguments: a value that holds others",
                &["{\"l\":[1,  2]}", "{\"l\":[1,2]}", "{\"o\":{\"b\":1,\"a\":\"\\u00e9\"}}", "{\"l\":[1, 2]}"],
            ),
            (
                "arguments: a key that repeats",
                &["{\"a\":1,\"a\":2}", "{\"a\":\"x\",\"b\":1,\"a\":null}", "{\"o\":{\"a\":1,\"a\":2}}"],
            ),
            ("arguments: text after the object", &["{\"a\":1} x", "{}{}", "{\"a\":1}}"]),
            ("arguments: a control character in a string", &["{\"a\":\"x\ny\"}", "{\"a\":\"\t\"}", "{\"a\n\":1}"]),
            ("arguments: half a surrogate pair", &["{\"a\":\"\\ud83d\"}", "{\"a\":\"\\udc00x\"}"]),
            ("arguments: blanks only", &[" ", "\n", "\u{a0}", " \t"]),
            ("arguments: JSON that is no object", &["[1]", "null", "5", "\"x\"", "\"{}\"", "true"]),
            ("arguments: blanks around and between", &[" {\"a\" : 1 } ", "\n{ }\n", "{\t\"a\":\r\n\"b\" , \"c\":2}"]),
        ];
        for (kind, texts) in KINDS {
            if let Some(mut draw) = self.odd(kind, 60) {
                return Some(draw.pick(texts).to_owned());
            }
        }
        self.odd("arguments: 150 levels", 150)?;
        Some(format!("{{\"a\":{}{}}}", "[".repeat(150), "]".repeat(150)))
    }
}

/// Numbers whose spelling is not Python's.
const NUMBERS: &[&str] =
    &["1e-5", "1.5e-7", "-0", "10000000000000000000000", "1e22", "1E2", "1e16", "123456789012345678.0"];

/// A call, and the JSON of the id by which it is answered.
struct Called {
    json: String,
    id: String,
}
