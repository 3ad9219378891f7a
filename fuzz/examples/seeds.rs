//! Makes `seeds/` from the corpora: `RUSTFLAGS="--cfg fuzzing" cargo run --example seeds`.
//!
//! In: `../corpora`. Out: small inputs of each oracle, and some at the limits. Other files there stay: the findings.

use std::fs;
use std::path::Path;

use kimi_xtml::{Channel, Chat, Marker, Message, Parser, Request};
use kimi_xtml_cli::cases::{self, Case};
use kimi_xtml_oracle::{CUT, KINDS, REPEAT, TOLD, TOOLS, UNSPELLED};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Recorded<'a> {
    id: String,
    /// As it is spelled.
    #[serde(borrow)]
    request: &'a RawValue,
}

/// Longer streams and requests are no seeds.
const LONGEST: usize = 1_000;
/// Seeds of one file of the corpora.
const MOST: usize = 20;

type Seed = (&'static str, Vec<u8>);

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let write = |name: &str, seeds: Vec<Seed>| {
        for (oracle, seed) in seeds {
            let folder = root.join("seeds").join(oracle);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), seed).unwrap();
        }
    };
    for file in ["malformed", "math", "tools"] {
        let cases = cases::read(&root.join(format!("../corpora/{file}.jsonl"))).unwrap();
        let text = |case: &Case| case.chunks.iter().flatten().map(String::len).sum::<usize>();
        for case in cases.iter().filter(|case| case.chunks.is_some() && text(case) < LONGEST).take(MOST) {
            write(&case.id, of_case(case));
        }
    }
    let prompts = fs::read_to_string(root.join("../corpora/prompts/prompts.jsonl")).unwrap();
    for line in prompts.lines() {
        let recorded: Recorded<'_> = serde_json::from_str(line).unwrap();
        if recorded.request.get().len() < LONGEST {
            write(&recorded.id, vec![("encode", recorded.request.get().into())]);
        }
    }
    for (name, seed) in LIMITS {
        // Repetitions are bytes that no source can have.
        write(name, of_text(name, seed.iter().map(|&byte| if byte == b'#' { REPEAT } else { byte }).collect()));
    }
    for (name, flags, seed) in SECOND {
        write(name, of_text_in(flags, 0, name, seed.to_vec()));
    }
    for (name, size) in [("header", HEADER), ("header-too-long", HEADER + 1)] {
        write(name, of_text(name, header(size)));
    }
    for (name, seed) in JSON {
        write(name, vec![("json", [&[0], seed].concat())]);
        write(&format!("{name}-streamed"), vec![("json", [&[0x40], seed].concat())]);
    }
    for (name, size) in [("value", VALUE), ("value-too-long", VALUE + 1)] {
        let inside = filled(b'a', size - br#"[""]"#.len());
        write(name, vec![("json", [&b"\x08[\""[..], &inside, b"\"]"].concat())]);
    }
    write("deep", vec![("json", b"\x01[\xfe\x02]\xfe\x02".to_vec())]);
    write("deep-streamed", vec![("json", b"\x40{\"a\":[\xfe\x80".to_vec())]);
    write("kinds", vec![("roundtrip", said(&kinds()))]);
    for (name, reader, file) in RECORDED {
        write(name, vec![("cases", [&[reader], file].concat())]);
    }
}

/// Streams at the limits of blanks, headers and values; `#` and a byte repeat, as [`REPEAT`] does.
const LIMITS: [(&str, &[u8]); 5] = [
    ("blanks", b"<|open|>response<|sep|>a<|close|>response<|sep|> #\x03 <|open|>tools<|sep|>  #\x04<|close|>tools<|sep|>"),
    ("header-cut", b"<|open|>call x=\"y#\xff"),
    ("value", b"<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\" type=\"array\"<|sep|>[1#\x20,2]<|close|>argument<|sep|><|close|>call<|sep|>"),
    ("value-too-long", b"<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\" type=\"array\"<|sep|>[\"\xc3\xa9#\x50\"]<|close|>argument<|sep|><|close|>call<|sep|>"),
    ("eos", b"<|open|>response<|sep|>so [EOS]<|open|>[EOS]"),
];

/// Control tokens and elements where none is expected, values that are cut, characters that are cut: the flags, the stream.
#[rustfmt::skip]
const SECOND: [(&str, u8, &[u8]); 16] = [
    ("think-in-response", 2, b"<|open|>think<|sep|>a<|close|>think<|sep|><|open|>response<|sep|>b"),
    ("response-in-response", 2, b"a<|open|>response<|sep|>b<|close|>call<|sep|>c<|open|>message<|sep|>d"),
    ("unknown-tags", 2, b"a<|open|>note x=\"1\"<|sep|>b<|close|>note<|sep|>c<|open|>think x=\"\"<|sep|>d<|open|>n<|close|>response<|sep|>"),
    ("unknown-tags-in-call", TOOLS, b"<|open|>tools<|sep|><|open|>note<|sep|><|open|>call tool=\"f\"<|sep|><|close|>note<|sep|><|close|>call<|sep|><|open|>call tool=\"f\"<|sep|><|open|>note<|sep|><|close|>call<|sep|>"),
    ("stray-markers", 1, b"a<|open|>b c<|sep|>d<|close|> e<|open|>"),
    ("unreadable-header", 2, b"a<|open|>call x<|sep|>b<|open|>json =<|close|>response<|sep|>"),
    ("bare-calls", TOOLS, b"<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\"<|sep|>v<|close|>argument<|sep|><|close|>call<|sep|><|open|>call tool=\"f\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|open|>call tool=\"f\"<|sep|>x<|close|>call<|sep|> y"),
    ("bare-call-in-response", 2 | TOOLS, b"a<|open|>call tool=\"f\"<|sep|><|close|>call<|sep|><|close|>message<|sep|><|end_of_msg|>"),
    ("withheld-elements", 1, b"a<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\"<|sep|>v<|close|>argument<|sep|><|close|>call<|sep|> b<|open|>json<|sep|>{}<|close|>json<|sep|>c<|open|>argument<|sep|>d<|open|>response<|sep|>e"),
    ("whole-then-noise", TOOLS, b"<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\" type=\"number\"<|sep|>1<|close|>argument<|sep|> x <|open|>argument key=\"l\" type=\"object\"<|sep|>{}<|close|>argument<|sep|> , <|close|>call<|sep|>"),
    ("lost-opener", TOOLS, b"<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\"<|sep|>v<|close|>argument<|sep|><|close|>argument<|sep|>w<|close|>argument<|sep|><|close|>call<|sep|>"),
    ("value-then-channel", TOOLS, b"<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\"<|sep|>v<|close|>argument<|sep|><|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>"),
    ("cut-number", TOOLS, b"<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\" type=\"number\"<|sep|>1,\"admin\":true}"),
    ("cut-object", TOOLS, b"<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\" type=\"object\"<|sep|>{\"k\":1}}<|close|>call<|sep|><|close|>tools<|sep|>"),
    ("cut-character", TOOLS, b"<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\" type=\"null\"<|sep|>nu\xf0\x9f"),
    ("cut-character-after-tag", 1, b"a<|close|>think\xe4\xb8"),
];

/// A small file for each reader of `record`.
const RECORDED: [(&str, u8, &[u8]); 7] = [
    ("capture", 0, b"data: {\"choices\":[{\"index\":1,\"text\":\"a\",\"token_ids\":[1],\"finish_reason\":\"length\"}]}\n\n: ping\ndata: [DONE]\n\"b\"\n{\"text\":\"c\",\"ids\":[2,3]}\n"),
    ("chat", 1, b"{\"messages\":[{\"role\":\"user\",\"content\":\"Low?\"},\n{\"role\":\"assistant\",\"reasoning_content\":\"Ask.\",\"content\":[{\"text\":\"so\"}],\"tool_calls\":[{\"function\":{\"name\":\"tide\",\"arguments\":\"{\\\"bay\\\":\\\"<|sep|>\\\",\\\"at\\\": 1e2,\\\"on\\\":{\\\"d\\\":[1,2]}}\"}}]}],\"tools\":[{\"function\":{\"name\":\"tide\"}}],\"tool_choice\":\"auto\"}"),
    ("words", 2, b"{\"question\":\"How many?\",\"answer\":\"There are 2*3=<<2*3=6>>6.\\n#### 6\"}\n{\"question\":\"b\",\"ground_truth\":\"1\\n2\",\"m\":{\"solution\":\"#### 2\"}}\n\xff{\"question\":\"How many?\",\"m\":{\"solution\":\"Six.\\n#### 6\"}}"),
    ("calls", 3, b"{\"id\":\"a\",\"question\":[[{\"role\":\"user\",\"content\":\"Low?\"}]],\"function\":[{\"name\":\"tide\"}]}\n\xff{\"id\":\"a\",\"ground_truth\":[{\"tide\":{\"bay\":[\"Fundy\"],\"on\":[{\"d\":[1]}],\"of\":[\"\"]}}]}"),
    ("turns", 4, b"{\"id\":\"m\",\"question\":[[{\"role\":\"user\",\"content\":\"Move.\"}]],\"function\":[{\"name\":\"mv\"}]}\n\xff{\"id\":\"m\",\"ground_truth\":[[\"mv(source='a', to=[\\\"b\\\", (True, None)], at={'k': -1.5})\"]]}"),
    ("schemas", 5, b"{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":-1e300,\"multipleOf\":3},\"b\":{\"type\":\"array\",\"minItems\":50,\"items\":{\"$ref\":\"#\"}},\"c\":{\"enum\":[1,\"x\"]},\"d\":{\"type\":[\"number\",\"null\"],\"maximum\":2}},\"additionalProperties\":{\"anyOf\":[{\"type\":\"string\",\"minLength\":9},{\"const\":true}]}}\n"),
    ("ranks", 6, b"AA== 0\nAQ== 1\nYQ== 97\n"),
];

/// Values: JSON, and what is nearly.
const JSON: [(&str, &[u8]); 17] = [
    ("escapes", br#"["\u12aF\ud800\"\\\/\b\f\n\r\t"]"#),
    ("no-escape", br#""\x""#),
    ("no-hex", br#""\u12g4""#),
    ("control", b"\"\x1f\""),
    ("words", b" [true,false,null]\t\r\n"),
    ("no-word", b"[nul]"),
    ("numbers", b"[0,-0,10,-1.50,2e3,2E+3,2.0e-3,1e999]"),
    ("no-number", b"[01]"),
    ("minus", b"[-]"),
    ("point", b"[1.]"),
    ("exponent", b"[1e+]"),
    ("members", br#"{"a":{},"b":[[]],"c":{"d":1}}"#),
    ("no-member", br#"{"a":1,}"#),
    ("no-key", b"{1:1}"),
    ("no-list", b"1,2"),
    ("no-item", b"[1,]"),
    ("brackets", b"[}"),
];

/// Bytes of a header at most, and of a value where the oracle's context limits it.
const HEADER: usize = 16 << 10;
const VALUE: usize = 4_096;

/// A call whose header has so many bytes.
fn header(size: usize) -> Vec<u8> {
    let (begin, end) = (b"<|open|>call tool=\"f\" x=\"", b"\"");
    let filling = filled(b'y', size - begin.len() - end.len());
    [b"<|open|>tools<|sep|>", &begin[..], &filling, end, b"<|sep|><|close|>call<|sep|>"].concat()
}

/// So many of a byte, as short as repetitions make it.
fn filled(byte: u8, count: usize) -> Vec<u8> {
    let units = (count - 1) / 64;
    let mut bytes = vec![byte; count - 64 * units];
    bytes.extend([REPEAT, u8::try_from(units).unwrap()]);
    bytes
}

/// A text with tools, its markers spelled or told.
fn of_text(name: &str, text: Vec<u8>) -> Vec<Seed> {
    of_text_in(TOOLS, u8::from(name.starts_with("value")), name, text)
}

fn of_text_in(flags: u8, limit: u8, name: &str, text: Vec<u8>) -> Vec<Seed> {
    let told = TOLD.iter().fold(text.clone(), |text, &(byte, marker)| replaced(&text, marker, byte));
    let head = [flags, limit, 7];
    let ends: Vec<usize> = (0..told.len()).step_by(told.len() / 5 + name.len()).collect();
    let mixed = mixed(ends.windows(2).map(|ends| &told[ends[0]..ends[1]]).chain(ends.last().map(|&end| &told[end..])));
    let seeds = [("chunks", &text), ("chat", &text), ("bytes", &text), ("pieces", &told), ("mixed", &mixed)];
    seeds.map(|(oracle, seed)| (oracle, [&head[..], seed].concat())).to_vec()
}

/// Parts with control tokens as bytes, each by another kind of input; then an end that never gets its text.
fn mixed<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut seed = Vec::new();
    for (part, &kind) in parts.zip(KINDS.iter().cycle()) {
        if kind == KINDS[0] || kind == KINDS[1] {
            let spelled = part.iter().flat_map(|&byte| match TOLD.iter().find(|told| told.0 == byte) {
                Some((_, marker)) => marker.spelling().as_bytes().to_vec(),
                None => vec![byte],
            });
            seed.extend(spelled);
        } else {
            seed.extend(part);
        }
        seed.push(kind);
    }
    let (end, _) = TOLD[3];
    seed.extend([UNSPELLED, end, KINDS[3], b'x']);
    seed
}

fn of_case(case: &Case) -> Vec<Seed> {
    let request = case.context.request();
    let opened = match request.opened {
        None => 0,
        Some(Channel::Think) => 1,
        Some(Channel::Response) => 2,
        Some(_) => 3,
    };
    let flags = if request.engages_tools() { opened | TOOLS } else { opened };
    let head = [flags, 0, case.id.len() as u8];
    let chunks: Vec<&str> = case.chunks.iter().flatten().map(String::as_str).collect();
    let text = chunks.concat();

    let cut = chunks.iter().map(|chunk| chunk.as_bytes()).collect::<Vec<_>>().join(&CUT);
    let mut seeds = vec![
        ("chunks", [&head[..], &cut].concat()),
        ("chat", [&head[..], &cut].concat()),
        ("bytes", [&head[..], text.as_bytes()].concat()),
    ];
    if let Some(ids) = &case.ids {
        let told = |(chunk, ids): (&&str, &Vec<u32>)| {
            let marker = ids.first().and_then(|&id| Marker::from_id(id));
            let byte = TOLD.iter().find(|told| Some(told.1) == marker).map(|told| vec![told.0]);
            byte.unwrap_or_else(|| chunk.as_bytes().to_vec())
        };
        let told: Vec<Vec<u8>> = chunks.iter().zip(ids).map(told).collect();
        let mixed = mixed(
            told.chunks(told.len() / 6 + 1).map(|part| part.concat()).collect::<Vec<_>>().iter().map(Vec::as_slice),
        );
        seeds.push(("pieces", [&head[..], &told.concat()].concat()));
        seeds.push(("mixed", [&head[..], &mixed].concat()));
    }
    let message = message(&text, request);
    for call in &message.tool_calls {
        seeds.push(("json", [&[0], call.arguments.as_bytes()].concat()));
    }
    seeds.push(("roundtrip", said(&message)));
    seeds.push(("cases", serde_json::to_vec(case).unwrap()));
    seeds
}

fn message(text: &str, request: Request) -> Message {
    let mut parser = Parser::new(request);
    let mut chat = Chat::default();
    parser.push(text, &mut chat);
    parser.finish("stop", &mut chat);
    chat.into_message().unwrap()
}

/// A message with arguments of every kind.
fn kinds() -> Message {
    let text = "<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|open|>json<|sep|>\
                {\"a\":null,\"b\":true,\"c\":[1,-2.5e300,\"<|close|>argument<|sep|>\",[],{}],\"d\":{\"e\":{\"\":false}}}\
                <|close|>json<|sep|><|close|>call<|sep|>";
    message(text, Request::new().tools(["f"]))
}

/// A message as the oracle of `roundtrip` reads one: the inverse of its `Arbitrary`. The arguments are structured if they
/// are an object, raw otherwise.
fn said(message: &Message) -> Vec<u8> {
    let mut seed = vec![0];
    field(&message.reasoning, &mut seed);
    field(&message.content, &mut seed);
    for call in &message.tool_calls {
        field(&call.name, &mut seed);
        match serde_json::from_str(&call.arguments) {
            Ok(Value::Object(members)) => {
                seed.push(1);
                list(members, &mut seed);
            }
            _ => {
                seed.push(0);
                field(&call.arguments, &mut seed);
            }
        }
    }
    seed
}

fn field(text: &str, seed: &mut Vec<u8>) {
    seed.extend_from_slice(text.as_bytes());
    seed.push(CUT);
}

fn list(members: serde_json::Map<String, Value>, seed: &mut Vec<u8>) {
    for (key, member) in members {
        field(&key, seed);
        value(member, seed);
    }
    seed.push(CUT);
}

fn value(value: Value, seed: &mut Vec<u8>) {
    match value {
        Value::Null => seed.push(0),
        Value::Bool(true) => seed.push(1),
        Value::Bool(false) => seed.push(2),
        Value::Number(number) => match number.as_i64() {
            Some(number) => seed.extend([3].into_iter().chain(number.to_le_bytes())),
            None => seed.extend([4].into_iter().chain(number.as_f64().unwrap_or_default().to_le_bytes())),
        },
        Value::String(text) => {
            seed.push(5);
            field(&text, seed);
        }
        Value::Array(items) => {
            seed.push(6);
            items.into_iter().for_each(|item| self::value(item, seed));
            seed.push(CUT);
        }
        Value::Object(members) => {
            seed.push(7);
            list(members, seed);
        }
    }
}

/// A text with the markers as bytes that tell them.
fn replaced(text: &[u8], marker: Marker, byte: u8) -> Vec<u8> {
    let spelling = marker.spelling().as_bytes();
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.windows(spelling.len()).position(|window| window == spelling) {
        out.extend_from_slice(&rest[..at]);
        out.push(byte);
        rest = &rest[at + spelling.len()..];
    }
    out.extend_from_slice(rest);
    out
}
