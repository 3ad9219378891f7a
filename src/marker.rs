//! The control tokens: their spelling and their ids.
//!
//! In: a spelling or a token id. Out: a [`Marker`]. Nothing is held.
//! Spellings and ids are those of Kimi's tokenizer; a *quoted* marker never becomes one of these ids.

/// A control token.
///
/// ```
/// use kimi_xtml::Marker;
///
/// assert_eq!(Marker::from_id(163_589), Some(Marker::Sep));
/// assert_eq!(Marker::Sep.spelling(), "<|sep|>");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Marker {
    /// `<|open|>` begins an opening tag.
    Open,
    /// `<|close|>` begins a closing tag.
    Close,
    /// `<|sep|>` ends either tag.
    Sep,
    /// `<|end_of_msg|>` ends the message.
    EndOfMsg,
    /// `[EOS]`, the tokenizer's own end: by id it ends the message too, spelled in text it is text.
    Eos,
}

impl Marker {
    /// The lowest of their ids.
    pub(crate) const FIRST_ID: u32 = Marker::Eos.id();

    /// The token's spelling in generated text.
    ///
    /// ```
    /// use kimi_xtml::Marker;
    ///
    /// assert_eq!(Marker::Sep.spelling(), "<|sep|>");
    /// ```
    pub const fn spelling(self) -> &'static str {
        match self {
            Marker::Open => "<|open|>",
            Marker::Close => "<|close|>",
            Marker::Sep => "<|sep|>",
            Marker::EndOfMsg => "<|end_of_msg|>",
            Marker::Eos => "[EOS]",
        }
    }

    /// The token's id in Kimi's tokenizer.
    ///
    /// ```
    /// use kimi_xtml::Marker;
    ///
    /// assert_eq!(Marker::Close.id(), 163_588);
    /// ```
    pub const fn id(self) -> u32 {
        match self {
            Marker::Eos => 163_585,
            Marker::EndOfMsg => 163_586,
            Marker::Open => 163_587,
            Marker::Close => 163_588,
            Marker::Sep => 163_589,
        }
    }

    /// The control token with this id, if it is one.
    ///
    /// ```
    /// use kimi_xtml::Marker;
    ///
    /// assert_eq!(Marker::from_id(163_589), Some(Marker::Sep));
    /// assert_eq!(Marker::from_id(7), None);
    /// ```
    pub const fn from_id(id: u32) -> Option<Marker> {
        match id {
            163_585 => Some(Marker::Eos),
            163_586 => Some(Marker::EndOfMsg),
            163_587 => Some(Marker::Open),
            163_588 => Some(Marker::Close),
            163_589 => Some(Marker::Sep),
            _ => None,
        }
    }
}
