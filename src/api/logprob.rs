//! Log-probabilities of tokens, as Chat Completions and Responses write them.
//!
//! In: what an engine says of a token. Out: an entry with `token`, `logprob`, `bytes` and `top_logprobs`. Nothing is held.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeSeq, Serializer};

use crate::object::Object;

/// The log-probability of a token, and of others in its place.
///
/// ```
/// use kimi_xtml::Logprob;
///
/// let half_a_character = Logprob::new([0xf0, 0x9f], -0.25);
/// assert_eq!(
///     serde_json::to_string(&half_a_character)?,
///     r#"{"token":"bytes:\\xf0\\x9f","logprob":-0.25,"bytes":[240,159],"top_logprobs":[]}"#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Logprob {
    /// The token's own bytes, which may be a part of a character.
    pub bytes: Vec<u8>,
    /// The natural logarithm of its probability. JSON has no infinity: one goes out as -9999, as OpenAI's API says it.
    pub logprob: f64,
    /// Other tokens and their log-probabilities, the likeliest first.
    pub top: Vec<(Vec<u8>, f64)>,
}

impl Logprob {
    /// The log-probability of the token of these bytes.
    ///
    /// ```
    /// use kimi_xtml::Logprob;
    ///
    /// assert_eq!(Logprob::new("Hi", -0.5).bytes, b"Hi");
    /// ```
    pub fn new(bytes: impl Into<Vec<u8>>, logprob: f64) -> Self {
        Logprob { bytes: bytes.into(), logprob, top: Vec::new() }
    }

    /// With other tokens, the likeliest first.
    ///
    /// ```
    /// use kimi_xtml::Logprob;
    ///
    /// let logprob = Logprob::new("Hi", -0.5).with_top(vec![(b"Hello".to_vec(), -1.0)]);
    /// assert_eq!(logprob.top[0].1, -1.0);
    /// ```
    #[must_use]
    pub fn with_top(mut self, top: Vec<(Vec<u8>, f64)>) -> Self {
        self.top = top;
        self
    }
}

impl Serialize for Logprob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = |bytes: &Vec<u8>, logprob: f64| {
            // serde_json writes `null` for what is not finite, which clients refuse.
            let logprob = if logprob.is_finite() { logprob } else { -9999.0 };
            (("token", spelled(bytes).into_owned()), ("logprob", logprob), ("bytes", bytes.clone()))
        };
        let top: Vec<_> = self.top.iter().map(|(bytes, logprob)| Object(entry(bytes, *logprob))).collect();
        let (token, logprob, bytes) = entry(&self.bytes, self.logprob);
        Object((token, logprob, bytes, ("top_logprobs", top))).serialize(serializer)
    }
}

/// A token as text. One that is a part of a character is written in escapes, as `bytes:\xf0\x9f`.
fn spelled(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => bytes.iter().fold("bytes:".to_owned(), |text, byte| text + &format!("\\x{byte:02x}")).into(),
    }
}

/// The entries that are known, as a list.
pub(crate) struct Logprobs<'a>(pub(crate) &'a [Option<Logprob>]);

impl Serialize for Logprobs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        self.0.iter().flatten().try_for_each(|logprob| list.serialize_element(logprob))?;
        list.end()
    }
}
