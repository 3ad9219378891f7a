//! What the public API says beside the events.
//!
//! In: streams whose tokens do not fit their text, values. Out: diagnostics, the channel that is open, names.

use kimi_xtml::{Channel, Code, IdPolicy, Marker, Parser, Request, ValueKind};

/// A control token whose text never comes is told of, unless it ends the message, which it does without text.
#[test]
fn ids_without_text() {
    let noted = |last: u32| {
        let mut parser = Parser::new(Request::new().opened(Channel::Response));
        let mut events = Vec::new();
        parser.push_with_ids("so", &[1, last], &mut events);
        parser.finish("stop", &mut events);
        parser.report().diagnostics.iter().map(|noted| (noted.code, noted.count, noted.first)).collect::<Vec<_>>()
    };
    assert_eq!(noted(Marker::Close.id()), [(Code::UnclosedResponse, 1, 2), (Code::IdWithoutText, 1, 2)]);
    for end in [Marker::EndOfMsg, Marker::Eos] {
        assert_eq!(noted(end.id()), [(Code::UnclosedResponse, 1, 2)]);
    }
}

#[test]
fn a_parser_knows_before_any_input_what_is_open() {
    assert_eq!(Parser::new(Request::new().opened(Channel::Tools)).channel(), Some(Channel::Tools));
    assert_eq!(Parser::new(Request::new()).channel(), None);
}

#[test]
fn codes_and_kinds_have_names() {
    let mut names: Vec<String> = Code::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(names[0], "unclosed-think");
    assert!(
        names
            .iter()
            .all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'))
    );
    names.sort();
    names.dedup();
    assert_eq!(names.len(), Code::ALL.len());

    for name in ["string", "number", "boolean", "null", "object", "array", "unknown"] {
        assert_eq!(ValueKind::from_type(Some(name)).name(), name);
    }
    assert_eq!(ValueKind::Block.name(), "block");
}

#[test]
fn policies_show_what_they_are() {
    let shown = [IdPolicy::random(), IdPolicy::numbered(3), IdPolicy::with(|name, _| name.into())];
    assert_eq!(format!("{shown:?}"), "[IdPolicy::random(), IdPolicy::numbered(3), IdPolicy::with(..)]");
}
