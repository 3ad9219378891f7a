//! Ids -> text, as they come.
//!
//! In: ids, one by one. Out: the text of each, which may be empty and come with a later one. Held: up to three bytes of a
//! character that is not whole.

use crate::Tokenizer;

/// An id is that of no token.
///
/// ```
/// use kimi_xtml_tokenizer::{Tokenizer, UnknownId};
///
/// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
/// assert_eq!(tokenizer.decode(&[97, 163_583]), Err(UnknownId { id: 163_583 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{id} is the id of no token")]
pub struct UnknownId {
    /// The id.
    pub id: u32,
}

/// Decodes ids as they come: [`Tokenizer::decoder`].
///
/// ```
/// # use kimi_xtml_tokenizer::Tokenizer;
/// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
/// let mut decoder = tokenizer.decoder();
/// let texts: Vec<String> = [0xe2, 0x82, 0xac, 97, 0xff, 0xe2].map(|id| decoder.push(id).unwrap().to_owned()).into();
/// assert_eq!(texts, ["", "", "€", "a", "\u{fffd}", ""]);
/// assert_eq!(decoder.finish(), "\u{fffd}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decoder<'t> {
    tokenizer: &'t Tokenizer,
    held: Vec<u8>,
    text: String,
}

impl<'t> Decoder<'t> {
    pub(crate) fn new(tokenizer: &'t Tokenizer) -> Self {
        Decoder { tokenizer, held: Vec::new(), text: String::new() }
    }

    /// The text that becomes whole with this id. Bytes that are no UTF-8 become U+FFFD.
    ///
    /// ```
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let mut decoder = tokenizer.decoder();
    /// assert_eq!(decoder.push(97)?, "a");
    /// assert!(decoder.push(163_583).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the id is that of no token. Nothing is changed then.
    pub fn push(&mut self, id: u32) -> Result<&str, UnknownId> {
        self.held.extend_from_slice(self.tokenizer.token(id).ok_or(UnknownId { id })?);
        self.text.clear();
        let mut rest = &self.held[..];
        while let Err(error) = std::str::from_utf8(rest) {
            let (valid, after) = rest.split_at(error.valid_up_to());
            self.text.push_str(std::str::from_utf8(valid).unwrap_or_default());
            rest = after;
            let Some(invalid) = error.error_len() else { break };
            self.text.push('\u{fffd}');
            rest = &rest[invalid..];
        }
        if let Ok(valid) = std::str::from_utf8(rest) {
            self.text.push_str(valid);
            rest = &[];
        }
        let whole = self.held.len() - rest.len();
        self.held.drain(..whole);
        Ok(&self.text)
    }

    /// What stands for the character that never became whole: U+FFFD, or nothing. The decoder is as new.
    ///
    /// ```
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let mut decoder = tokenizer.decoder();
    /// assert_eq!(decoder.push(0xe2)?, ""); // a character begins
    /// assert_eq!(decoder.finish(), "\u{fffd}");
    /// assert_eq!(decoder.finish(), "");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn finish(&mut self) -> &'static str {
        let cut = if self.held.is_empty() { "" } else { "\u{fffd}" };
        self.held.clear();
        cut
    }
}
