//! Text as models write it, as long as one likes: prose with sums, source code, JSON.
//!
//! In: a generator of numbers and a length. Out: about that many bytes. A `#` in a line below becomes a number and an `@` a
//! name, so that no two stretches are the same.

use fastrand::Rng;

const PROSE: &[&str] = &[
    "The first thing to check is whether @ already has what it needs, since the rest depends on it.",
    "If # of them are taken, the others are shared, and nothing is left over.",
    "Wait, that can't be right: the question says \"at most #\", not \"at least\".",
    "So I'd rather read @ before I change anything.",
    "There are two ways to do this – one needs the index, the other doesn't – and the second is shorter.",
    "For x < # the first case holds, and for x >= # the second one does.",
    "The user wants it for the café in Zürich, so the price stays in francs (about #.50).",
    "Let me call the number of boxes n; then n + # is what has to fit on the shelf.",
    "That is what @ returns when the list is empty, and it's worth a test.",
    "* The value of @ is read once, at the start; after that only # more are looked at.",
    "In short: keep @, drop the # old ones, and say why in the message.",
    "Hmm, 東京 is nine hours ahead, so at # o'clock there it is still the day before.",
];

const CODE: &[&str] = &[
    "use std::collections::{BTreeMap, HashSet};",
    "/// Reads `@` and gives how many of its lines are longer than # bytes.",
    "pub fn @(path: &Path, limit: usize) -> Result<usize, Error> {",
    "    let text = std::fs::read_to_string(path.join(\"@.txt\"))?;",
    "    let pattern = Regex::new(r\"^\\s*(\\d+)\\.(\\w{#})$\").unwrap();",
    "    for (number, line) in text.lines().enumerate().filter(|(_, line)| line.len() > #) {",
    "        println!(\"{number:>4}: {}\\t{:?}\\n\", line.trim_end(), @);",
    "        if count < # && !name.is_empty() {",
    "            return Err(Error::Parse(format!(\"line {number} is no \\\"@\\\"\")));",
    "        }",
    "        *counts.entry(line.to_owned()).or_default() += #;",
    "    }",
    "    Ok(@.len())",
    "}",
    "",
    "    assert_eq!(parse(\"[#, \\\"@\\\"]\"), Ok(vec![#]));",
    "def @(self, key: str = 'C:\\\\Temp\\\\#') -> dict[str, int]:",
    "    \"\"\"Gives the @ of the last # runs.\"\"\"",
    "    return {row['name']: int(row[\"@\"]) for row in self.rows[-#:] if row[\"name\"] != '\\x00'}",
    "<li class=\"@\" data-id='#'>&amp; more</li>",
    "\tif err := json.Unmarshal([]byte(`{\"@\": #}`), &v); err != nil {",
    "\t\treturn fmt.Errorf(\"@ #: %w\", err)",
];

const ROWS: &[&str] = &[
    r##"{"id":#,"name":"@","tags":["new","@"],"score":-#.5e-3,"open":true}"##,
    r##"{"id": #, "path": "src/@.rs", "range": {"start": {"line": #, "column": 4}, "end": null}}"##,
    r##"{"id":#,"text":"Say \"@\" \u2026 or nothing.\n","parent":{"id":#,"open":false},"weights":[0.#,1,#]}"##,
];

const NAMES: &[&str] = &[
    "id",
    "row",
    "path",
    "item",
    "count",
    "parser",
    "buffer",
    "offset",
    "request",
    "get_user",
    "max_len",
    "tokenizer",
    "read_lines",
    "config_file",
    "is_complete",
    "remaining_bytes",
];

/// A line with its number and name filled in.
fn filled(rng: &mut Rng, line: &str) -> String {
    let mut text = String::new();
    for c in line.chars() {
        match c {
            '#' => text += &rng.u32(1..1_000).to_string(),
            '@' => text += NAMES[rng.usize(..NAMES.len())],
            c => text.push(c),
        }
    }
    text
}

fn lines(rng: &mut Rng, of: &[&str]) -> String {
    let line = of[rng.usize(..of.len())];
    filled(rng, line)
}

/// A step of a worked solution, as GSM8K writes it.
fn sum(rng: &mut Rng) -> String {
    let (a, b) = (rng.u32(2..60), rng.u32(2..20));
    format!("That makes {a} * {b} = <<{a}*{b}={}>>{} dollars.", a * b, a * b)
}

/// Sentences; every fourth is a sum, every sixth ends its line.
pub(crate) fn prose(rng: &mut Rng, len: usize) -> String {
    let mut text = String::new();
    while text.len() < len {
        text += &if rng.u8(..4) == 0 { sum(rng) } else { lines(rng, PROSE) };
        text.push(if rng.u8(..6) == 0 { '\n' } else { ' ' });
    }
    text
}

/// Lines of source code.
pub(crate) fn code(rng: &mut Rng, len: usize) -> String {
    let mut text = String::new();
    while text.len() < len {
        text += &lines(rng, CODE);
        text.push('\n');
    }
    text
}

/// A JSON object with rows of objects.
pub(crate) fn object(rng: &mut Rng, len: usize) -> String {
    let mut text = format!("{{\"rows\":[{}", lines(rng, ROWS));
    while text.len() < len {
        text += ",\n  ";
        text += &lines(rng, ROWS);
    }
    text + "]}"
}
