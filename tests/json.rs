//! Arguments as JSON: what a value may be, and how strings are escaped.
//!
//! In: every short text of JSON's tokens, and strings with special bytes in every place. Checked against serde_json: a value
//! goes out as it is exactly if it is JSON, and as a string otherwise; strings come back.

use kimi_xtml::{Chat, IdPolicy, Parser, Request};
use serde_json::value::RawValue;

mod support;

use support::spell;

struct Values {
    parser: Parser,
    begin: [String; 2],
    end: String,
}

impl Values {
    fn new() -> Self {
        let begin = |kind| spell(&format!("{{tools}}{{call tool=\"f\"}}{{argument key=\"k\" type=\"{kind}\"}}"));
        let end = spell("{/argument}{/call}");
        Values { parser: Parser::default(), begin: ["array", "string"].map(begin), end }
    }

    /// The JSON of the only argument, its call if it is complete.
    fn of(&mut self, text: &str, is_string: bool, stream_json: bool) -> Option<String> {
        self.parser.reset(Request::new().tools(["f"]).stream_json(stream_json));
        let mut chat = Chat::new(IdPolicy::numbered(0));
        for text in [&self.begin[usize::from(is_string)], text, &self.end] {
            self.parser.push(text, &mut chat);
        }
        self.parser.finish("stop", &mut chat);
        let call = chat.into_message().unwrap().tool_calls.remove(0);
        let value = call.arguments.strip_prefix("{\"k\":").unwrap().strip_suffix('}');
        value.filter(|_| call.complete).map(str::to_owned)
    }
}

#[test]
fn a_value_is_json_exactly_if_serde_json_says_so() {
    let tokens = ["[", "]", "{", "}", ",", ":", "\"a\"", "1", " "];
    let mut values = Values::new();
    let mut json = 0;
    for length in 1..=5 {
        for number in 0..tokens.len().pow(length) {
            let text: String =
                (0..length).map(|place| tokens[number / tokens.len().pow(place) % tokens.len()]).collect();
            let is_json = serde_json::from_str::<&RawValue>(&text).is_ok();
            let expected = if is_json { text.clone() } else { serde_json::to_string(&text).unwrap() };
            assert_eq!(values.of(&text, false, false), Some(expected), "{text}");
            assert_eq!(values.of(&text, false, true), is_json.then_some(text));
            json += usize::from(is_json);
        }
    }
    assert!(json > 100, "{json}");
}

/// Blocks, words and runs of escaping: one special byte, two of them, and nothing else.
#[test]
fn strings_are_escaped_wherever_a_special_byte_stands() {
    let mut values = Values::new();
    let mut check = |text: &str| {
        let json = values.of(text, true, false).unwrap();
        assert_eq!(json, serde_json::to_string(text).unwrap(), "{text:?}");
    };
    for special in ["\"", "\\", "\n", "\u{1}", "\u{1f}"] {
        for length in [7, 8, 31, 32, 33, 47, 72] {
            for first in 0..length {
                for second in first..length {
                    let mut text = "a".repeat(length);
                    text.replace_range(second..=second, special);
                    text.replace_range(first..=first, special);
                    check(&text);
                }
            }
        }
        for length in 1..600 {
            check(&special.repeat(length));
        }
    }
    for length in 0..600 {
        check(&"é".repeat(length));
        check(&(" !#[]^~\u{7f}".repeat(length / 8) + "\""));
    }
}
