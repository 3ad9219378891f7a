//! Model text for people: what a terminal can show, on one line.
//!
//! In: any text. Out: `‹text›`, in which a control character is its picture (`␊` for a line feed) and what else cannot be
//! seen an escape, and which is shortened in its middle if it is long. The rest stands as it is, backslashes too.

use std::fmt::Write;

/// Characters at the beginning and at the end that stay of a text that is too long.
const HEAD: usize = 80;
const TAIL: usize = 40;

/// The whole text.
pub fn quoted(text: &str) -> String {
    let mut shown = String::from("‹");
    escape_into(&mut shown, text);
    shown.push('›');
    shown
}

/// The whole text on one line, with nothing around it.
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    escape_into(&mut shown, text);
    shown
}

/// The whole text on lines of its own: line feeds and tabs stay, nothing stands around it.
pub fn lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(['\n', '\t']) {
        let (text, end) = part.split_at(part.trim_end_matches(['\n', '\t']).len());
        escape_into(&mut shown, text);
        shown.push_str(end);
    }
    shown
}

/// The text, or its beginning and its end.
pub fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= HEAD + TAIL + 20 {
        return quoted(text);
    }
    let at = |number: usize| text.char_indices().nth(number).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (at(HEAD), at(count - TAIL));
    let mut shown = String::from("‹");
    escape_into(&mut shown, &text[..head]);
    let _ = write!(shown, "› … {} bytes … ‹", tail - head);
    escape_into(&mut shown, &text[tail..]);
    shown.push('›');
    shown
}

/// Both texts, from a little before the place where they part.
pub fn apart(a: &str, b: &str) -> (String, String) {
    let same =
        a.char_indices().zip(b.chars()).find(|((_, a), b)| a != b).map_or(a.len().min(b.len()), |((at, _), _)| at);
    let back = a[..same].char_indices().rev().nth(HEAD / 2).map_or(0, |(at, _)| at);
    let rest = |text: &str| {
        let skipped = if back > 0 { format!("{back} bytes … ") } else { String::new() };
        skipped + &shortened(&text[back..])
    };
    (rest(a), rest(b))
}

fn escape_into(shown: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\0'..='\u{1f}' => shown.extend(char::from_u32(0x2400 + c as u32)),
            '\u{7f}' => shown.push('␡'),
            c if c.is_control() || is_invisible(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
}

/// White space of no width, marks that turn the direction, line ends of Unicode's own, tags: what is there and not seen.
/// Joiners and selectors of variants, which many scripts and pictures are written with, stand as they are.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_a_terminal_cannot() {
        assert_eq!(quoted("a\n\u{1b}[1m \"\\\" é \u{202e}\u{7f}"), "‹a␊␛[1m \"\\\" é \\u{202e}␡›");
    }

    #[test]
    fn shows_what_hides() {
        for c in ['\u{61c}', '\u{180e}', '\u{ad}', '\u{e0001}', '\u{e0041}', '\u{e007f}', '\u{206f}'] {
            assert_eq!(plain(&format!("a{c}")), format!("a{}", c.escape_unicode()));
        }
        assert_eq!(plain("👩\u{200d}💻"), "👩\u{200d}💻");
    }

    #[test]
    fn keeps_lines() {
        assert_eq!(lines("a\n\n\tb\r\n\u{1b}c"), "a\n\n\tb␍\n␛c");
    }

    #[test]
    fn shows_where_texts_part() {
        let same = "é".repeat(99);
        let (a, b) = apart(&format!("{same}x"), &same);
        assert_eq!(a, format!("116 bytes … ‹{}x›", "é".repeat(41)));
        assert_eq!(b, format!("116 bytes … ‹{}›", "é".repeat(41)));
        assert_eq!(apart("ab", "ac"), ("‹ab›".into(), "‹ac›".into()));
    }

    #[test]
    fn shortens_the_middle() {
        let long = "é".repeat(500);
        assert_eq!(shortened(&long), format!("‹{}› … 760 bytes … ‹{}›", "é".repeat(80), "é".repeat(40)));
    }
}
