//! What a request cost, in tokens.
//!
//! In: counts, or a parser's report. Out: the `usage` of Chat Completions, and sums. The other APIs' words for it stand in
//! their own files.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::ser::{Serialize, Serializer};

use crate::object::Object;
use crate::report::Report;

/// The tokens that a request, or a choice of it, cost.
///
/// The cost of several choices is their sum with the prompt counted once:
///
/// ```
/// use kimi_xtml::Usage;
///
/// let choices = [Usage::new(10, 5), Usage::new(10, 7).with_reasoning_tokens(2)];
/// let request = choices.into_iter().sum::<Usage>().with_prompt_tokens(10);
/// assert_eq!((request.prompt_tokens, request.completion_tokens, request.reasoning_tokens), (10, 12, 2));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens that were generated.
    pub completion_tokens: u64,
    /// Those of them that were reasoning.
    pub reasoning_tokens: u64,
    /// Tokens of the prompt that came from a cache.
    pub cached_tokens: u64,
}

impl Usage {
    /// Tokens of the prompt, and tokens that were generated.
    ///
    /// ```
    /// use kimi_xtml::Usage;
    ///
    /// assert_eq!(Usage::new(10, 5).total_tokens(), 15);
    /// ```
    pub const fn new(prompt_tokens: u64, completion_tokens: u64) -> Self {
        Usage { prompt_tokens, completion_tokens, reasoning_tokens: 0, cached_tokens: 0 }
    }

    /// The tokens that a parser has decided on: all of them after its finish. None if it was given no ids.
    ///
    /// ```
    /// use kimi_xtml::{Channel, Parser, Request, Usage};
    ///
    /// let mut parser = Parser::new(Request::new().opened(Channel::Think));
    /// parser.push_with_ids("Look.", &[4388, 13], &mut ());
    /// parser.finish("length", &mut ());
    /// assert_eq!(Usage::from_report(&parser.report()), Some(Usage::new(0, 2).with_reasoning_tokens(2)));
    /// ```
    pub fn from_report(report: &Report) -> Option<Self> {
        let tokens = report.tokens?;
        Some(Usage::new(0, tokens.input).with_reasoning_tokens(tokens.reasoning))
    }

    /// With so many tokens of the prompt.
    ///
    /// ```
    /// use kimi_xtml::Usage;
    ///
    /// assert_eq!(Usage::default().with_prompt_tokens(10).prompt_tokens, 10);
    /// ```
    #[must_use]
    pub const fn with_prompt_tokens(mut self, tokens: u64) -> Self {
        self.prompt_tokens = tokens;
        self
    }

    /// With so many tokens generated.
    ///
    /// ```
    /// use kimi_xtml::Usage;
    ///
    /// assert_eq!(Usage::default().with_completion_tokens(5).completion_tokens, 5);
    /// ```
    #[must_use]
    pub const fn with_completion_tokens(mut self, tokens: u64) -> Self {
        self.completion_tokens = tokens;
        self
    }

    /// With so many of the generated tokens as reasoning.
    ///
    /// ```
    /// use kimi_xtml::Usage;
    ///
    /// assert_eq!(Usage::new(10, 5).with_reasoning_tokens(2).reasoning_tokens, 2);
    /// ```
    #[must_use]
    pub const fn with_reasoning_tokens(mut self, tokens: u64) -> Self {
        self.reasoning_tokens = tokens;
        self
    }

    /// With so many of the prompt's tokens from a cache.
    ///
    /// ```
    /// use kimi_xtml::Usage;
    ///
    /// assert_eq!(Usage::new(10, 5).with_cached_tokens(4).cached_tokens, 4);
    /// ```
    #[must_use]
    pub const fn with_cached_tokens(mut self, tokens: u64) -> Self {
        self.cached_tokens = tokens;
        self
    }

    /// Tokens of the prompt and of what was generated.
    ///
    /// ```
    /// use kimi_xtml::Usage;
    ///
    /// assert_eq!(Usage::new(10, 5).with_reasoning_tokens(2).total_tokens(), 15);
    /// ```
    pub const fn total_tokens(&self) -> u64 {
        self.prompt_tokens + self.completion_tokens
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
        self.cached_tokens += other.cached_tokens;
    }
}

impl Add for Usage {
    type Output = Usage;

    fn add(mut self, other: Usage) -> Usage {
        self += other;
        self
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Usage>>(usages: I) -> Usage {
        usages.fold(Usage::default(), Add::add)
    }
}

impl<'a> Sum<&'a Usage> for Usage {
    fn sum<I: Iterator<Item = &'a Usage>>(usages: I) -> Usage {
        usages.copied().sum()
    }
}

impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Object((
            ("prompt_tokens", self.prompt_tokens),
            ("completion_tokens", self.completion_tokens),
            ("total_tokens", self.total_tokens()),
            ("completion_tokens_details", Object((("reasoning_tokens", self.reasoning_tokens),))),
            ("prompt_tokens_details", Object((("cached_tokens", self.cached_tokens),))),
        ))
        .serialize(serializer)
    }
}
