//! The ids are tiktoken's: on random texts of every kind, and on all texts of the data.

mod support;

use std::path::Path;

use proptest::prelude::*;
use support::{PAIRS, data, line, pair};

/// Ids that both give, and what they spell.
fn check(text: &str) -> Result<(), TestCaseError> {
    for pair in PAIRS.iter() {
        let ids = pair.ours.encode(text);
        prop_assert_eq!(&ids, &pair.reference(text), "{:?}", text);
        prop_assert_eq!(pair.ours.count(text), ids.len());
        prop_assert_eq!(pair.ours.decode(&ids).unwrap(), text.as_bytes());
    }
    Ok(())
}

/// Characters that the pattern tells apart, and what tokens are made of.
fn character() -> impl Strategy<Value = char> {
    prop_oneof![
        4 => prop::sample::select("abcstremld".chars().collect::<Vec<_>>()),
        2 => prop::sample::select("ABCSTREMLD".chars().collect::<Vec<_>>()),
        2 => prop::sample::select("   \n\r\t\u{b}\u{1c}\u{85}\u{a0}\u{2028}\u{3000}".chars().collect::<Vec<_>>()),
        2 => prop::sample::select("'’<|>.,!?-_=\"{}[]\\/`*#".chars().collect::<Vec<_>>()),
        1 => prop::sample::select("0123456789٣½Ⅷ".chars().collect::<Vec<_>>()),
        1 => prop::sample::select("漢字々〇⺀月之暗面".chars().collect::<Vec<_>>()),
        1 => prop::sample::select("äßÀǅʰªƀſKﬀאक\u{301}\u{93e}\u{e0100}한ก".chars().collect::<Vec<_>>()),
        1 => prop::sample::select("🚀👩\u{200d}\u{fe0f}\u{0}\u{7f}\u{ad}\u{fffd}\u{10ffff}".chars().collect::<Vec<_>>()),
        1 => any::<char>(),
    ]
}

proptest! {
    #[test]
    fn of_characters(text in prop::collection::vec(character(), 0..80)) {
        check(&text.into_iter().collect::<String>())?;
    }

    #[test]
    fn of_runs(runs in prop::collection::vec((character(), 1..300_usize), 0..6)) {
        check(&runs.into_iter().map(|(character, times)| character.to_string().repeat(times)).collect::<String>())?;
    }

    #[test]
    fn of_any_text(text in ".*") {
        check(&text)?;
    }

    /// Tokens one after another, which meet the merges that plain text seldom does.
    #[test]
    fn of_tokens(places in prop::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        for pair in PAIRS.iter() {
            let bytes: Vec<u8> = places.iter().flat_map(|place| place.get(&pair.tokens).clone()).collect();
            check(&String::from_utf8_lossy(&bytes))?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Ranks of every shape: tokens that merges do not reach, that overlap, and that are made in several ways.
    #[test]
    fn of_any_ranks(
        merges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..60),
        texts in prop::collection::vec("[abc ]{0,60}", 20),
    ) {
        let mut tokens: Vec<Vec<u8>> = (0..=u8::MAX).rev().map(|byte| vec![byte]).collect();
        let mut made: Vec<Vec<u8>> = [b"a", b"b", b"c", b" "].map(|byte| byte.to_vec()).into();
        for (left, right) in merges {
            let token = [left.get(&made).clone(), right.get(&made).clone()].concat();
            if !made.contains(&token) {
                made.push(token.clone());
                tokens.push(token);
            }
        }
        let file: String = (0..).zip(&tokens).map(|(rank, token)| line(token, rank)).collect();
        let pair = pair(file.as_bytes());
        for text in texts {
            prop_assert_eq!(pair.ours.encode(&text), pair.reference(&text), "{:?}", text);
        }
    }
}

#[test]
fn every_token_is_as_the_reference_has_it() {
    for pair in PAIRS.iter() {
        for (id, token) in (0..).zip(&pair.tokens) {
            assert_eq!(pair.ours.token(id), Some(&token[..]));
            if let Ok(text) = std::str::from_utf8(token) {
                assert_eq!(pair.ours.encode(text), pair.reference.encode_ordinary(text), "{text:?}");
            }
        }
    }
}

#[test]
fn of_the_data() {
    let Some(data) = data() else { return };
    let mut texts = Vec::new();
    files(&data, &mut texts);
    assert!(texts.len() > 10, "{}: few texts", data.display());
    for text in texts {
        check(&text).unwrap();
    }
}

fn files(folder: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, texts);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            texts.push(text.chars().take(1_000_000).collect());
        }
    }
}
