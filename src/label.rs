//! Tokens -> what each of them is for, a byte a token.
//!
//! In: the parser's events and their spans. Out: a [`Label`] for each token, in order. Held: the labels so far.
//! A token counts as what its first byte is, as in the report.

use std::iter;
use std::ops::Range;

use crate::event::{Event, Kind, Span};
use crate::parse::Parser;
use crate::request::Request;
use crate::sink::Sink;

/// What a token of a sequence is for, as a byte: `label as u8`. What the model generates has any label but `Prompt`.
///
/// ```
/// use kimi_xtml::Label;
///
/// // A loss mask: what the model generated and shall learn from.
/// let learns = |label: Label| !matches!(label, Label::Prompt | Label::Withheld | Label::Dropped);
/// assert_eq!(Label::ALL.map(learns), [false, true, true, true, true, true, false, false]);
/// assert_eq!(Label::CallName as u8, 4);
/// assert_eq!(Label::CallName.name(), "call-name");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Label {
    /// 0: given to the model, all that it did not generate.
    Prompt,
    /// 1: tags, with the keys and types of arguments, and white space between elements.
    Markup,
    /// 2: reasoning.
    Reasoning,
    /// 3: the answer.
    Content,
    /// 4: the name of a tool that is called.
    CallName,
    /// 5: the value of an argument, or a `json` block.
    Argument,
    /// 6: a tools section that was not asked for.
    Withheld,
    /// 7: no part of the message.
    Dropped,
}

impl Label {
    /// All labels, each at the place of its byte.
    ///
    /// ```
    /// use kimi_xtml::Label;
    ///
    /// assert_eq!(Label::ALL[3], Label::Content);
    /// ```
    pub const ALL: [Label; 8] = [
        Label::Prompt,
        Label::Markup,
        Label::Reasoning,
        Label::Content,
        Label::CallName,
        Label::Argument,
        Label::Withheld,
        Label::Dropped,
    ];

    /// The label's name, such as `call-name`.
    ///
    /// ```
    /// use kimi_xtml::Label;
    ///
    /// assert_eq!(Label::Argument.name(), "argument");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Label::Prompt => "prompt",
            Label::Markup => "markup",
            Label::Reasoning => "reasoning",
            Label::Content => "content",
            Label::CallName => "call-name",
            Label::Argument => "argument",
            Label::Withheld => "withheld",
            Label::Dropped => "dropped",
        }
    }
}

impl From<Kind> for Label {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Reasoning => Label::Reasoning,
            Kind::Content => Label::Content,
            Kind::Arguments => Label::Argument,
            Kind::Markup => Label::Markup,
            Kind::Withheld => Label::Withheld,
            Kind::Dropped => Label::Dropped,
        }
    }
}

/// Labels the tokens of a stream, as a sink: give it the events, beside another sink in a pair or alone.
///
/// ```
/// use kimi_xtml::{Channel, Label, Labels, Marker, OwnedEvent, Parser, Request};
///
/// let mut parser = Parser::new(Request::new().opened(Channel::Response));
/// let mut sink = (Vec::new(), Labels::default());
/// parser.push_token("Hi", 19_180, &mut sink);
/// for (text, id) in [("", Marker::Close.id()), ("response", 12_092), ("", Marker::Sep.id())] {
///     parser.push_token(text, id, &mut sink);
/// }
/// parser.finish("stop", &mut sink);
/// let (events, labels) = sink;
/// assert_eq!(events[1].0, OwnedEvent::Content("Hi".into()));
/// assert_eq!(labels.finish(4), [Label::Content, Label::Markup, Label::Markup, Label::Markup]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Labels {
    labels: Vec<Label>,
    /// The tokens of the name in the header that comes next.
    name: Range<u64>,
}

impl Labels {
    /// The labels of the tokens that are decided.
    ///
    /// ```
    /// use kimi_xtml::{Label, Labels, Parser, Request};
    ///
    /// let (mut parser, mut labels) = (Parser::new(Request::new()), Labels::default());
    /// parser.push_token("Hi", 19_180, &mut labels);
    /// assert_eq!(labels.decided(), [Label::Content]);
    /// ```
    pub fn decided(&self) -> &[Label] {
        &self.labels
    }

    /// The labels of a stream that is finished and had so many tokens. Those that never had a text are markup.
    ///
    /// ```
    /// use kimi_xtml::{Label, Labels};
    ///
    /// assert_eq!(Labels::default().finish(1), [Label::Markup]); // its text never came
    /// ```
    pub fn finish(mut self, tokens: usize) -> Vec<Label> {
        self.labels.resize(tokens, Label::Markup);
        self.labels
    }

    /// The tokens before this one that have no label get this one.
    fn up_to(&mut self, token: u64, label: Label) {
        let more = token.saturating_sub(self.labels.len() as u64);
        self.labels.extend(iter::repeat_n(label, more as usize));
    }
}

impl Sink for Labels {
    fn event(&mut self, event: Event<'_>, span: Span) {
        let Some(tokens) = span.tokens else { return };
        if let Event::CallStart { .. } = event {
            let name = std::mem::take(&mut self.name);
            self.up_to(name.start, Label::Markup);
            self.up_to(name.end, Label::CallName);
        }
        self.up_to(tokens.end, event.kind().into());
    }

    fn call_name(&mut self, span: Span) {
        self.name = span.tokens.unwrap_or_default();
    }
}

/// The label of each token of a whole generation. A token's text may be empty and come with a later one.
///
/// ```
/// use kimi_xtml::{Channel, Label, Marker, Request, labels};
///
/// let request = Request::new().opened(Channel::Think);
/// let tokens = [("h", 71), ("mm", 5_002), ("", Marker::Close.id()), ("think", 39_964), ("", Marker::Sep.id())];
/// let labels = labels(request, &tokens);
/// assert_eq!(labels, [Label::Reasoning, Label::Reasoning, Label::Markup, Label::Markup, Label::Markup]);
/// ```
pub fn labels(request: Request, tokens: &[(impl AsRef<str>, u32)]) -> Vec<Label> {
    let mut labels = Labels::default();
    let mut parser = Parser::new(request);
    for (text, id) in tokens {
        parser.push_token(text.as_ref(), *id, &mut labels);
    }
    parser.finish("stop", &mut labels);
    labels.finish(tokens.len())
}
