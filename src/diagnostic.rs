//! What deviated from the format, by stable codes. Never text of the model's.
//!
//! In: a deviation that the machine met. Out: a [`Code`], as an event at its offset and counted in the report
//! (of two, [`Code::InvalidUtf8`] and [`Code::IdWithoutText`], only the report tells).

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal,)+) => {
        /// A deviation. The codes are stable: they may be logged, counted and matched.
        ///
        /// ```
        /// use kimi_xtml::{Code, OwnedEvent, Request, parse};
        ///
        /// let events = parse("Hi<|close|>think<|sep|>", Request::new());
        /// assert!(events.iter().any(|(event, _)| *event == OwnedEvent::Diagnostic(Code::OrphanClose)));
        /// assert_eq!(Code::OrphanClose.to_string(), "orphan-close");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code { $($(#[doc = $doc])+ $name,)+ }

        impl Code {
            /// Every code.
            ///
            /// ```
            /// use kimi_xtml::Code;
            ///
            /// assert!(Code::ALL.contains(&Code::CutTag));
            /// ```
            pub const ALL: &'static [Code] = &[$(Code::$name,)+];

            /// The code as it is written: kebab-case.
            ///
            /// ```
            /// use kimi_xtml::Code;
            ///
            /// assert_eq!(Code::CutTag.as_str(), "cut-tag");
            /// ```
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => $code,)+ }
            }

            /// What the deviation is, in a sentence or two for people.
            ///
            /// ```
            /// use kimi_xtml::Code;
            ///
            /// assert_eq!(Code::OrphanClose.meaning(), "A close of something that was not open.");
            /// ```
            pub const fn meaning(self) -> &'static str {
                match self { $(Code::$name => concat!($($doc),+).trim_ascii_start(),)+ }
            }
        }
    };
}

codes! {
    /// The reasoning ended without its close.
    UnclosedThink = "unclosed-think",
    /// The answer ended without its close.
    UnclosedResponse = "unclosed-response",
    /// A tools section ended without its close.
    UnclosedTools = "unclosed-tools",
    /// A call ended without its close.
    UnclosedCall = "unclosed-call",
    /// An argument or `json` block ended without its close.
    UnclosedValue = "unclosed-value",
    /// The opener of the channel that was just opened stood there once more.
    RepeatedOpener = "repeated-opener",
    /// A close of something that was not open.
    OrphanClose = "orphan-close",
    /// A known opener stood where it opens nothing.
    MisplacedOpener = "misplaced-opener",
    /// A tag ended without its `<|sep|>`.
    MissingSeparator = "missing-separator",
    /// A `<|sep|>` that ends no tag.
    StraySeparator = "stray-separator",
    /// An `<|open|>` or `<|close|>`, told by its id, that begins no tag; it is dropped, the text after it stays.
    StrayMarker = "stray-marker",
    /// A tag, told by ids, whose name the format does not have; it is dropped, the text between two of them stays.
    UnknownTag = "unknown-tag",
    /// Text stood outside the channels; it is content.
    TextOutside = "text-outside",
    /// Text stood in a tools section beside the values; it is dropped.
    TextInTools = "text-in-tools",
    /// A header of a tag could not be read; it is dropped.
    UnreadableHeader = "unreadable-header",
    /// A call stood outside a tools section and opened one.
    ImpliedTools = "implied-tools",
    /// A call without a name; it is dropped.
    NamelessCall = "nameless-call",
    /// A call of a tool that the request did not declare; it is passed on.
    UndeclaredTool = "undeclared-tool",
    /// A call has the same argument twice; both are passed on. Told if the key is among the call's first
    /// 128 different ones.
    DuplicateKey = "duplicate-key",
    /// A value that its type says is JSON is not; it goes out as a string, or, if it was cut, as far as it can be JSON.
    NotJson = "not-json",
    /// A value was too long to hold until its end; it goes out as a string.
    ValueTooLong = "value-too-long",
    /// A `json` block beside arguments or another block, or an argument beside a `json` block; it is dropped.
    MixedForms = "mixed-forms",
    /// A tools section or a call that the request did not ask for, or a call, argument or block that stood outside the
    /// tools section.
    ToolsWithheld = "tools-withheld",
    /// The stream ended inside a tag; what there was of it is dropped.
    CutTag = "cut-tag",
    /// The stream ended inside a character; its bytes are dropped.
    CutCharacter = "cut-character",
    /// Something followed the end of the message; it is dropped.
    AfterEnd = "after-end",
    /// Bytes that are no UTF-8 became U+FFFD.
    InvalidUtf8 = "invalid-utf8",
    /// Control ids were given whose text never came.
    IdWithoutText = "id-without-text",
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
