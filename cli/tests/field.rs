//! What has gone wrong where Kimi K3 is served: one test for each kind of failure, named by it.
//!
//! In: a minimal stream of the kind, written here, and, where `KIMI_XTML_DATA` is set, that kind's cases of
//! `$KIMI_XTML_DATA/cases/field.jsonl`. Each runs under every chunking.
//! In the streams `‹think›` is an opening tag, `‹/think›` a closing one, and `∎` the end of the message.

use std::path::PathBuf;
use std::sync::LazyLock;

use kimi_xtml::Marker;
use kimi_xtml_cli::cases::{self, Case, Choice, Context, Expected, ExpectedCall, ExpectedChoice, Hex, Opened, Scale};
use kimi_xtml_cli::check::check;
use kimi_xtml_cli::chunking::Chunking;

const END: &str = "‹/message›∎";
const FUNDY: &str = r#"‹call tool="tide" index="1"›‹argument key="bay" type="string"›Fundy‹/argument›‹/call›"#;
const MINAS: &str = r#"‹call tool="tide" index="2"›‹argument key="bay" type="string"›Minas‹/argument›‹/call›"#;

fn spell(notation: &str) -> String {
    let tags = [("‹/", Marker::Close), ("‹", Marker::Open), ("›", Marker::Sep), ("∎", Marker::EndOfMsg)];
    tags.iter().fold(notation.to_owned(), |text, (short, marker)| text.replace(short, marker.spelling()))
}

/// A call of `put` with these arguments: key, type, value.
fn put(arguments: &[(&str, &str, &str)]) -> String {
    let argument =
        |(key, kind, value): &(&str, &str, &str)| format!(r#"‹argument key="{key}" type="{kind}"›{value}‹/argument›"#);
    format!(r#"‹call tool="put" index="1"›{}‹/call›"#, arguments.iter().map(argument).collect::<String>())
}

/// Short reasoning, a tools section, the end.
fn calls(section: &str) -> Stream {
    think(format!("Go.‹/think›‹tools›{section}‹/tools›{END}")).reasoning("Go.")
}

/// A stream, and what shall come of it.
struct Stream(Case);

fn stream(opened: Opened, notation: &str) -> Stream {
    let chunks = spell(notation).split_inclusive('>').map(str::to_owned).collect();
    let tools = ["tide", "put"].map(str::to_owned).to_vec();
    Stream(Case {
        id: "written here".into(),
        context: Context { tools, initial_channel: opened, ..Context::default() },
        chunks: Some(chunks),
        expected: Some(Expected::default()),
        ..Case::default()
    })
}

fn think(notation: impl AsRef<str>) -> Stream {
    stream(Opened::Think, notation.as_ref())
}

fn response(notation: impl AsRef<str>) -> Stream {
    stream(Opened::Response, notation.as_ref())
}

fn bare(notation: impl AsRef<str>) -> Stream {
    stream(Opened::None, notation.as_ref())
}

impl Stream {
    fn expect(mut self, set: impl FnOnce(&mut Expected)) -> Self {
        set(self.0.expected.get_or_insert_default());
        self
    }

    fn reasoning(self, text: &str) -> Self {
        self.expect(|expected| expected.reasoning = text.into())
    }

    fn content(self, text: &str) -> Self {
        self.expect(|expected| expected.content = text.into())
    }

    fn call(self, name: &str, arguments: &str) -> Self {
        self.calls(name, &spell(arguments), true)
    }

    fn incomplete(self, name: &str, arguments: &str) -> Self {
        self.calls(name, arguments, false)
    }

    fn calls(self, name: &str, arguments: &str, complete: bool) -> Self {
        let call = ExpectedCall { name: name.into(), arguments_json: arguments.into(), complete };
        self.expect(|expected| expected.tool_calls.push(call))
    }

    fn fundy(self) -> Self {
        self.call("tide", r#"{"bay":"Fundy"}"#)
    }

    fn minas(self) -> Self {
        self.call("tide", r#"{"bay":"Minas"}"#)
    }

    /// Not a normal end: the engine cut the stream.
    fn length(mut self) -> Self {
        self.0.context.engine_finish_reason = "length".into();
        self
    }

    fn choice(mut self, word: &str) -> Self {
        self.0.context.tool_choice = Choice::Word(word.into());
        self
    }

    fn no_tools(mut self) -> Self {
        self.0.context.tools.clear();
        self
    }

    fn chunks(mut self, cut: impl FnOnce(&str) -> Vec<String>) -> Self {
        let whole = self.0.chunks.unwrap_or_default().concat();
        self.0.chunks = Some(cut(&whole));
        self
    }

    /// As bytes, cut into pairs.
    fn bytes(mut self) -> Self {
        let whole = self.0.chunks.take().unwrap_or_default().concat();
        self.0.byte_chunks_hex = Some(whole.as_bytes().chunks(2).map(|pair| Hex(pair.to_vec())).collect());
        self
    }

    fn choices(mut self, deltas: &[(usize, &str)], contents: &[&str]) -> Self {
        self.0.interleaved_choices = Some(deltas.iter().map(|(choice, text)| (*choice, spell(text))).collect());
        let expected = |(index, content): (usize, &&str)| ExpectedChoice {
            index,
            expected: Expected { content: content.to_string(), ..Expected::default() },
        };
        self.0.expected_choices = contents.iter().enumerate().map(expected).collect();
        self
    }

    fn scale(mut self, chunk: &str, times: &[usize]) -> Self {
        self.0.scale = Some(Scale { chunk: chunk.into(), times: times.to_vec() });
        self
    }
}

/// The recorded cases, where they are.
static RECORDED: LazyLock<Option<Vec<Case>>> = LazyLock::new(|| {
    let file = PathBuf::from(std::env::var_os("KIMI_XTML_DATA")?).join("cases/field.jsonl");
    Some(cases::read(&file).unwrap_or_else(|error| panic!("{error}")))
});

fn passes(test: &str, stream: Stream) {
    let kind = test.replace('_', "-");
    let recorded = RECORDED.iter().flatten().filter(|case| case.kind == kind);
    for case in [&stream.0].into_iter().chain(recorded) {
        if let [failure, ..] = &check(case, &Chunking::all())[..] {
            panic!("{} ({kind}), {:?}:\n{}", case.id, failure.chunkings, failure.difference);
        }
    }
}

macro_rules! kinds {
    ($($kind:ident => $stream:expr;)+) => {
        $(#[test]
        fn $kind() {
            passes(stringify!($kind), $stream);
        })+

        /// A kind that is recorded has a test here.
        #[test]
        fn each_recorded_kind_has_a_test() {
            let kinds = [$(stringify!($kind)),+].map(|kind| kind.replace('_', "-"));
            for case in RECORDED.iter().flatten() {
                assert!(kinds.contains(&case.kind), "no test is named {}", case.kind);
            }
        }
    };
}

kinds! {
    // The end of reasoning.
    think_close_omitted_orphan_response_close =>
        think(format!("The bay first.‹/response›‹tools›{FUNDY}‹/tools›{END}")).reasoning("The bay first.").fundy();
    think_close_omitted_tools_open =>
        think(format!("Ask for it.‹tools›{FUNDY}‹/tools›{END}")).reasoning("Ask for it.").fundy();
    think_close_sep_elided_tools_open =>
        think(format!("Ask.<|close|>think‹tools›{FUNDY}‹/tools›{END}")).reasoning("Ask.").fundy();
    think_skipped_answer_in_reasoning =>
        think(format!("High water is at noon.‹/response›{END}")).reasoning("High water is at noon.");
    reasoning_in_content_prompt_state_lost =>
        think(format!("Three and three.‹/think›‹response›6‹/response›{END}")).reasoning("Three and three.").content("6");
    forced_tools_inside_open_think => think(format!("‹tools›{FUNDY}‹/tools›{END}")).choice("required").fundy();
    last_reasoning_tokens_lost_at_boundary =>
        think(format!("The tool is Tide.‹/think›‹tools›{FUNDY}‹/tools›{END}")).reasoning("The tool is Tide.").fundy();
    tool_section_inside_reasoning_k2 =>
        think(format!("Two bays.‹tools›{FUNDY}{MINAS}‹/tools›{END}")).reasoning("Two bays.").fundy().minas();
    second_think_channel =>
        bare(format!("‹think›ebb‹/think›‹response›Low‹/response›‹think›, flow‹/think›‹response›, high‹/response›{END}"))
            .reasoning("ebb, flow").content("Low, high");

    // Markers in text, and text that looks like them.
    message_close_leaks_into_content => response(format!("At noon.{END}")).content("At noon.");
    tail_lt_held_back_at_eos => response("Low is <").content("Low is <");
    marker_spaced_by_detokenizer =>
        think("Easy.‹/ think ›‹ response ›At noon.‹/ response ›‹/ message ›∎").reasoning("Easy.").content("At noon.");
    marker_spaced_in_tools =>
        think(format!("Go.‹/ think ›‹ tools ›{}‹/ tools ›‹/ message ›∎",
            r#"‹ call tool="tide" index="1" ›‹ argument key="bay" type="string" ›Fundy‹/ argument ›‹/ call ›"#))
            .reasoning("Go.").fundy();
    marker_without_sep_at_end => response("Noon.<|close|>think\n").content("Noon.");
    one_char_chunks =>
        think(format!("Hm.‹/think›‹response›So:‹/response›‹tools›{FUNDY}‹/tools›{END}"))
            .chunks(|text| text.chars().map(String::from).collect()).reasoning("Hm.").content("So:").fundy();
    specials_stripped_by_detokenizer =>
        think("Count.thinkresponse6responsemessage").reasoning("Count.thinkresponse6responsemessage");
    marker_lookalikes_in_prose =>
        response("x <| y, <|seps|>, <|opened|> and |> are text").content("x <| y, <|seps|>, <|opened|> and |> are text");
    call_quoted_in_reply_executes =>
        response(format!("Write ‹call tool=\"tide\" index=\"1\"›‹/call› there.‹/response›{END}"))
            .content(&spell("Write ‹call tool=\"tide\" index=\"1\"›‹/call› there."));
    d02_open_token_in_prose =>
        response("A tag begins with <|open|>, as said.").content("A tag begins with <|open|>, as said.");

    // Cut streams, and ends.
    truncated_in_think_no_marker => think("Two tides a day, so").length().reasoning("Two tides a day, so");
    truncated_in_think_opener_in_output => bare("‹think›Two tides").length().reasoning("Two tides");
    truncated_inside_response_close => response("Low at six.<|close|>resp").length().content("Low at six.");
    truncated_inside_string_argument =>
        think("Go.‹/think›‹tools›‹call tool=\"put\" index=\"1\"›‹argument key=\"log\" type=\"string\"›ebb\nfl")
            .length().reasoning("Go.").incomplete("put", r#"{"log":"ebb\nfl"#);
    truncated_value_guessed =>
        think("Go.‹/think›‹tools›‹call tool=\"tide\" index=\"1\"›‹argument key=\"bay\" type=\"string\"›Cook In")
            .length().reasoning("Go.").incomplete("tide", r#"{"bay":"Cook In"#);
    stopped_at_tools_close => think(format!("Go.‹/think›‹tools›{FUNDY}")).reasoning("Go.").fundy();
    stream_ends_without_terminator => response("Six hours.").content("Six hours.");
    d01_cut_tools_opener => think("Ask.‹tools›").length().reasoning("Ask.");
    d03_double_end => response("Six.∎∎").content("Six.");

    // Sections and calls.
    tools_channel_without_declared_tools =>
        think(format!("Ask.‹/think›‹response›One moment.‹/response›‹tools›{FUNDY}‹/tools›{END}"))
            .no_tools().choice("none").reasoning("Ask.").content("One moment.");
    first_tools_section_empty => calls(&format!("‹/tools›‹tools›{FUNDY}")).fundy();
    tools_close_before_call_close => calls(&format!("{FUNDY}{}", MINAS.replace("‹/call›", ""))).fundy().minas();
    message_close_inside_call =>
        think(format!("Go.‹/think›‹tools›{FUNDY}‹call tool=\"put\" index=\"2\"›{END}"))
            .reasoning("Go.").fundy().incomplete("put", "");
    zero_argument_call => calls(&format!("‹call tool=\"put\" index=\"1\"›‹/call›{FUNDY}")).call("put", "{}").fundy();
    nameless_call_then_good_call =>
        calls(&format!("‹call index=\"1\"›‹argument key=\"n\" type=\"number\"›3‹/argument›‹/call›{FUNDY}")).fundy();
    undeclared_tool_name => calls(&FUNDY.replace("tide", "tides")).call("tides", r#"{"bay":"Fundy"}"#);
    call_end_and_next_begin_in_one_delta =>
        calls(&format!("{FUNDY}{MINAS}")).chunks(|text| text.split_inclusive("Fundy").map(str::to_owned).collect())
            .fundy().minas();
    stray_blanks_around_attributes =>
        calls("‹call   tool=\"tide\"  index=\"1\" ›‹argument  key=\"bay\"\n type=\"string\" ›Fundy‹/argument›‹/call›").fundy();
    content_after_tool_start => think(format!("Go.‹/think›‹tools›{FUNDY}‹/tools›\n\n‹/message›\n∎")).reasoning("Go.").fundy();
    d04_unreadable_argument_header =>
        calls("‹call tool=\"put\" index=\"1\"›‹argument key=\"log type=\"string\"›ebb‹/argument›‹/call›").incomplete("put", "");

    // Values.
    arguments_one_delta_after_silence =>
        calls(&put(&[("log", "string", &"06:00 low\n".repeat(30))]))
            .call("put", &format!(r#"{{"log":"{}"}}"#, r"06:00 low\n".repeat(30)));
    object_argument_is_json_string =>
        calls(&put(&[("at", "object", r#""{\"h\":6}""#)])).call("put", r#"{"at":"{\"h\":6}"}"#);
    typed_argument_empty => calls(&put(&[("at", "object", ""), ("n", "number", "3")])).call("put", r#"{"at":"","n":3}"#);
    foreign_close_inside_argument =>
        calls(&put(&[("text", "string", "Noon.‹/response›‹tools›‹call tool=\"tide\" index=\"1\"›")]))
            .call("put", r#"{"text":"Noon.‹/response›‹tools›‹call tool=\"tide\" index=\"1\"›"}"#);
    call_close_literal_inside_argument =>
        calls(&put(&[("text", "string", "A call ends with ‹/call›, tools with ‹/tools›, both with ›.")]))
            .call("put", r#"{"text":"A call ends with ‹/call›, tools with ‹/tools›, both with ›."}"#);
    argument_close_literal_inside_argument =>
        calls(&put(&[("text", "string", "‹/argument› ends a value")])).call("put", r#"{"text":"‹/argument› ends a value"}"#);
    string_value_entities_kept =>
        calls(&put(&[("text", "string", "ebb &amp; flow &gt; &quot;")])).call("put", r#"{"text":"ebb &amp; flow &gt; &quot;"}"#);
    entities_in_values_decoded_twice =>
        calls(&put(&[("text", "string", "&amp;gt; &#34; &#x22;")])).call("put", r#"{"text":"&amp;gt; &#34; &#x22;"}"#);
    number_spelling_changed =>
        calls(&put(&[("a", "number", "6E3"), ("b", "number", "12.50"), ("c", "number", "-0.0"),
            ("d", "number", "123456789012345678901234567890")]))
            .call("put", r#"{"a":6E3,"b":12.50,"c":-0.0,"d":123456789012345678901234567890}"#);
    unparseable_number_crashes => calls(&put(&[("at", "number", "06:12")])).call("put", r#"{"at":"06:12"}"#);
    integer_schema_number_tag => calls(&put(&[("hour", "number", "6")])).call("put", r#"{"hour":6}"#);
    argument_without_type =>
        calls("‹call tool=\"put\" index=\"1\"›‹argument key=\"hour\"›6‹/argument›‹/call›").call("put", r#"{"hour":"6"}"#);
    duplicate_argument_key =>
        calls(&put(&[("at", "number", "6"), ("at", "number", "18")])).call("put", r#"{"at":6,"at":18}"#);
    empty_string_argument => calls(&put(&[("log", "string", ""), ("n", "null", "null")])).call("put", r#"{"log":"","n":null}"#);
    string_that_looks_like_json =>
        calls(&put(&[("a", "string", "0612"), ("b", "string", "false"), ("c", "string", "[6, 12]"), ("d", "string", "6e2")]))
            .call("put", r#"{"a":"0612","b":"false","c":"[6, 12]","d":"6e2"}"#);
    string_value_whitespace_stripped =>
        calls(&put(&[("a", "string", "\t  low\n"), ("b", "string", "\n\u{a0}high ")]))
            .call("put", "{\"a\":\"\\t  low\\n\",\"b\":\"\\n\u{a0}high \"}");
    json_escape_across_slices =>
        calls(&put(&[("text", "string", "\"low\"\\t \\\r\n\tC:\\tides\\")]))
            .call("put", r#"{"text":"\"low\"\\t \\\r\n\tC:\\tides\\"}"#);
    non_ascii_argument_key =>
        calls("‹call tool=\"潮汐\" index=\"1\"›‹argument key=\"海湾\" type=\"string\"›芬迪湾‹/argument›‹/call›")
            .call("潮汐", r#"{"海湾":"芬迪湾"}"#);

    // Streams.
    full_turn_baseline =>
        bare(format!("‹think›Two.‹/think›‹response›Both bays.‹/response›‹tools›{FUNDY}{MINAS}‹/tools›{END}"))
            .reasoning("Two.").content("Both bays.").fundy().minas();
    stream_wire_shape =>
        think(format!("Ask.‹/think›‹response›Soon.‹/response›‹tools›{FUNDY}‹/tools›{END}"))
            .reasoning("Ask.").content("Soon.").fundy();
    tool_call_id_repeats => calls(&format!("{FUNDY}{FUNDY}")).fundy().fundy();
    id_format_rewritten_or_required => calls(FUNDY).fundy();
    empty_tool_deltas_under_load =>
        calls(FUNDY).chunks(|text| text.chars().flat_map(|c| [String::new(), c.into(), String::new()]).collect()).fundy();
    stream_interval_ends_with_blank_content =>
        think(format!("Ask the tables. ‹/think›‹tools›{FUNDY}‹/tools›{END}")).reasoning("Ask the tables. ").fundy();
    content_trailing_space_trimmed =>
        response(format!("I'll ask. \n‹/response›‹tools›{FUNDY}‹/tools›{END}")).content("I'll ask. \n").fundy();
    logprobs_lost_or_shifted =>
        think(format!("ebb‹/think›‹response›flow‹/response›{END}")).reasoning("ebb").content("flow");
    usage_not_seen => response(format!("six‹/response›{END}")).content("six");
    utf8_split_between_chunks => response("Прилив 🌊 潮.").bytes().content("Прилив 🌊 潮.");
    n_choices_shared_state =>
        response("").choices(
            &[(0, "High"), (1, "L"), (0, "‹/resp"), (1, "ow.‹/message›"), (0, "onse›∎"), (1, "∎")],
            &["High", "Low."],
        );
    quadratic_reparse =>
        calls(&put(&[("log", "string", ">06:00 low\n>")]))
            .chunks(|text| text.split_inclusive('>').map(str::to_owned).collect())
            .scale("06:00 low\n>", &[100, 1000]).call("put", r#"{"log":">06:00 low\n>"}"#);
}
