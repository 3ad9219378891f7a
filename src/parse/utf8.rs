//! Bytes -> text across chunks.
//!
//! In: bytes, cut anywhere. Out: text, and the length of each invalid sequence. Held: at most three bytes, the
//! beginning of a character.

#[derive(Clone, Debug, Default)]
pub(crate) struct Decoder {
    partial: [u8; 4],
    len: usize,
}

impl Decoder {
    /// Nothing held.
    #[cfg(feature = "chat")]
    pub(crate) const fn new() -> Self {
        Decoder { partial: [0; 4], len: 0 }
    }

    /// How many bytes are held.
    #[cfg(feature = "chat")]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Gives text as it becomes whole, and the length of each sequence that is no UTF-8.
    pub(crate) fn decode(&mut self, mut bytes: &[u8], mut out: impl FnMut(Result<&str, usize>)) {
        while self.len > 0 {
            let Some((&next, rest)) = bytes.split_first() else {
                return;
            };
            self.partial[self.len] = next;
            match std::str::from_utf8(&self.partial[..=self.len]) {
                Ok(text) => {
                    out(Ok(text));
                    self.len = 0;
                    bytes = rest;
                }
                Err(error) if error.error_len().is_none() => {
                    self.len += 1;
                    bytes = rest;
                }
                // The new byte does not belong to it, and is read again.
                Err(_) => self.flush(&mut out),
            }
        }
        while !bytes.is_empty() {
            let error = match std::str::from_utf8(bytes) {
                Ok(text) => return out(Ok(text)),
                Err(error) => error,
            };
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            if let Ok(text) = std::str::from_utf8(valid)
                && !text.is_empty()
            {
                out(Ok(text));
            }
            let Some(invalid) = error.error_len() else {
                self.partial[..rest.len()].copy_from_slice(rest);
                self.len = rest.len();
                return;
            };
            out(Err(invalid));
            bytes = &rest[invalid..];
        }
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets what is held, and gives how many bytes that was.
    pub(crate) fn take(&mut self) -> usize {
        std::mem::take(&mut self.len)
    }

    /// Gives up what is held.
    pub(crate) fn flush(&mut self, mut out: impl FnMut(Result<&str, usize>)) {
        if self.len > 0 {
            let len = std::mem::take(&mut self.len);
            out(Err(len));
        }
    }
}

/// The text in two: the most whole characters that at most `len` bytes hold, and the rest.
#[inline]
pub(crate) fn split_within(text: &str, len: usize) -> (&str, &str) {
    let at = (0..=len.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    text.split_at(at.unwrap_or(0))
}
