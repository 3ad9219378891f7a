//! The bridge: a prompt, what was generated for it, and the next prompt, which begins with both.
//!
//! In: conversations as the client sends them, and the ids of each generation. Out: prompts in ids; an error where the next
//! conversation is not the last one gone on, and must be encoded anew. Held: the last prompt, as ids, and as the pieces
//! that the next conversation's are compared with.

use std::ops::Range;

use kimi_xtml::{
    Arguments, Chat, Conversation, Effort, EncodeError, Json, Label, Message, Parser, Part, Piece, Prompt, PromptCall,
    PromptMessage, Request, Role, ToolCall, closing, encode, labels,
};

use crate::{Tokenizer, UnknownId};

/// Why the next prompt does not begin with the last one and what was generated for it. All but
/// [`Encode`](BridgeError::Encode) and [`UnknownId`](BridgeError::UnknownId) are in the nature of conversations: encode the
/// new one with [`Turn::new`].
///
/// ```
/// use kimi_xtml_tokenizer::{BridgeError, Mode};
///
/// let why = BridgeError::Mode(Mode::Tools);
/// assert_eq!(why.to_string(), "another list of tools than in the last prompt");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// The new conversation has no prompt.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The generation has an id that no token has.
    #[error("the generation cannot be read: {0}")]
    UnknownId(#[from] UnknownId),
    /// The last prompt ends with a whole message: nothing is generated for it.
    #[error("the last prompt leaves no channel open")]
    NothingOpened,
    /// The generation goes on after the end of its message.
    #[error("the generation goes on after the end of its message")]
    AfterEnd,
    /// The conversation is encoded in another mode.
    #[error("another {} than in the last prompt", .0.words())]
    Mode(Mode),
    /// The conversation has no answer where there was a generation.
    #[error("messages[{message}]: must be the assistant's answer that was generated")]
    NoAnswer {
        /// Where it would stand.
        message: usize,
    },
    /// The answer that was generated shall be gone on with (Partial Mode).
    #[error("messages[{message}].partial: the answer shall go on, and not be closed")]
    Continued {
        /// The answer.
        message: usize,
    },
    /// A message of the history is another than it was, or than was generated.
    #[error("messages[{message}]: is not what it was")]
    Edited {
        /// The first such message.
        message: usize,
    },
}

impl BridgeError {
    /// A word for it, such as `edited`, for logs and counters. A mode that changed is named by itself: `thinking`.
    ///
    /// ```
    /// use kimi_xtml_tokenizer::{BridgeError, Mode};
    ///
    /// assert_eq!(BridgeError::Edited { message: 3 }.name(), "edited");
    /// assert_eq!(BridgeError::Mode(Mode::ResponseFormat).name(), "response-format");
    /// ```
    pub const fn name(&self) -> &'static str {
        match self {
            BridgeError::Encode(_) => "encode",
            BridgeError::UnknownId(_) => "unknown-id",
            BridgeError::NothingOpened => "nothing-opened",
            BridgeError::AfterEnd => "after-end",
            BridgeError::Mode(mode) => mode.name(),
            BridgeError::NoAnswer { .. } => "no-answer",
            BridgeError::Continued { .. } => "continued",
            BridgeError::Edited { .. } => "edited",
        }
    }

    /// The number of the message at fault, if one is.
    ///
    /// ```
    /// use kimi_xtml_tokenizer::BridgeError;
    ///
    /// assert_eq!(BridgeError::NoAnswer { message: 3 }.message(), Some(3));
    /// assert_eq!(BridgeError::AfterEnd.message(), None);
    /// ```
    pub const fn message(&self) -> Option<usize> {
        match *self {
            BridgeError::NoAnswer { message }
            | BridgeError::Continued { message }
            | BridgeError::Edited { message } => Some(message),
            _ => None,
        }
    }
}

/// What a whole conversation is encoded in.
///
/// ```
/// use kimi_xtml_tokenizer::{BridgeError, Mode};
///
/// assert_eq!(BridgeError::Mode(Mode::Effort).name(), "effort");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Thinking, on or off.
    Thinking,
    /// The thinking effort.
    Effort,
    /// The tools that the request declares.
    Tools,
    /// The form of the answer, of which a notice stands in the last prompt.
    ResponseFormat,
}

impl Mode {
    /// A word for it, such as `response-format`.
    ///
    /// ```
    /// use kimi_xtml_tokenizer::Mode;
    ///
    /// assert_eq!(Mode::ResponseFormat.name(), "response-format");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Thinking => "thinking",
            Mode::Effort => "effort",
            Mode::Tools => "tools",
            Mode::ResponseFormat => "response-format",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Mode::Thinking => "thinking mode",
            Mode::Effort => "thinking effort",
            Mode::Tools => "list of tools",
            Mode::ResponseFormat => "response format",
        }
    }
}

/// A prompt in ids, and the way from it to the next: token in, token out.
///
/// The next prompt is the last one, the ids that were generated for it, what closes them (nothing, if they end their
/// message), and what the encoder writes for the messages after them. So it is exactly what the model has seen, also where
/// the generation was cut, or wrote its calls otherwise than the encoder would: caches of the prefix hold, and what is
/// trained on is what was sampled.
///
/// It differs from the encoded prompt of the same conversation in the generated message, if that was written in other tokens,
/// and in the notices of the tool choice and of the response format: those stand where the model read them, at the end of each
/// prompt, and not only at the end of the last.
///
/// ```
/// use kimi_xtml::Conversation;
/// use kimi_xtml_tokenizer::{BridgeError, Tokenizer, Turn};
///
/// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
/// let conversation = |messages: &str| format!(r#"{{"thinking": false, "messages": [{{"role": "user", "content": "Hi"}}{messages}]}}"#);
/// let (first, next) = (conversation(""), conversation(
///     r#", {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Bye"}"#,
/// ));
/// let turn = Turn::new(&tokenizer, &Conversation::from_json(&first)?)?;
/// // Given to the engine, which stopped after so many tokens:
/// let generated = tokenizer.encode("Hello!");
/// let next = turn.next(&tokenizer, &generated, &Conversation::from_json(&next)?)?;
/// assert!(next.ids().starts_with(&[turn.ids(), &generated].concat()));
///
/// let edited = conversation(r#", {"role": "assistant", "content": "Hullo!"}, {"role": "user", "content": "Bye"}"#);
/// let error = turn.next(&tokenizer, &generated, &Conversation::from_json(&edited)?).unwrap_err();
/// assert_eq!(error, BridgeError::Edited { message: 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Turn {
    ids: Vec<u32>,
    labels: Vec<Label>,
    generated: Vec<Range<usize>>,
    request: Request,
    forgives: bool,
    /// The prompt as the encoder writes it.
    prompt: Prompt<'static>,
    /// How many of its pieces come before the messages.
    leading: usize,
    setting: Setting,
    /// The message that is continued, if one is.
    partial: Option<Partial>,
}

/// What a conversation is encoded in, beside its tools.
#[derive(Clone, Debug)]
struct Setting {
    thinking: bool,
    effort: Option<Effort>,
    /// The notice of the response format.
    format: String,
}

/// What a prompt already has of the message that is generated.
#[derive(Clone, Debug)]
struct Partial {
    name: String,
    reasoning: String,
    content: String,
}

impl Turn {
    /// The prompt of a conversation.
    ///
    /// ```
    /// use kimi_xtml::Conversation;
    /// use kimi_xtml_tokenizer::{Tokenizer, Turn};
    ///
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let conversation = Conversation::from_json(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?;
    /// let turn = Turn::new(&tokenizer, &conversation)?;
    /// assert!(tokenizer.decode(turn.ids())?.ends_with(b"<|open|>think<|sep|>"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the conversation has none.
    pub fn new(tokenizer: &Tokenizer, conversation: &Conversation<'_>) -> Result<Self, EncodeError> {
        let prompt = encode(conversation)?;
        let (ids, labels) = tokenizer.encode_prompt(&prompt);
        Turn::of(conversation, prompt, ids, labels, Vec::new())
    }

    fn of(
        conversation: &Conversation<'_>,
        prompt: Prompt<'_>,
        ids: Vec<u32>,
        labels: Vec<Label>,
        generated: Vec<Range<usize>>,
    ) -> Result<Self, EncodeError> {
        let is_continued = prompt.opened.is_some() && prompt.unbilled == 0;
        let partial = conversation.messages.last().filter(|_| is_continued).map(|message| Partial {
            name: message.name.as_deref().unwrap_or_default().to_owned(),
            reasoning: if conversation.thinking { message.reasoning.to_string() } else { String::new() },
            content: text_of(message).unwrap_or_default(),
        });
        Ok(Turn {
            ids,
            labels,
            generated,
            request: conversation.request().opened(prompt.opened),
            forgives: false,
            leading: leading(conversation, &prompt)?,
            setting: Setting::of(conversation)?,
            partial,
            prompt: prompt.into_owned(),
        })
    }

    /// Sets whether an answer may come back without its reasoning, as many clients send it. The prompt keeps it; off, which
    /// is how it begins, such an answer counts as edited, and its reasoning is forgotten as the client wants it.
    ///
    /// ```
    /// use kimi_xtml::Conversation;
    /// use kimi_xtml_tokenizer::{Tokenizer, Turn};
    ///
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let conversation = Conversation::from_json(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?;
    /// let turn = Turn::new(&tokenizer, &conversation)?.forgive_missing_reasoning(true);
    /// let generated = tokenizer.encode_control("Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello!");
    /// let next = r#"{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}"#;
    /// assert!(turn.next(&tokenizer, &generated, &Conversation::from_json(next)?).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn forgive_missing_reasoning(mut self, on: bool) -> Self {
        self.forgives = on;
        self
    }

    /// Sets what the generation is parsed with, if it is not parsed with [`request`](Self::request).
    ///
    /// ```
    /// use kimi_xtml::Request;
    /// use kimi_xtml::Conversation;
    /// use kimi_xtml_tokenizer::{Tokenizer, Turn};
    ///
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let conversation = Conversation::from_json(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?;
    /// let turn = Turn::new(&tokenizer, &conversation)?.parse_with(Request::new().tools(["ls"]));
    /// assert!(turn.request().opened.is_some()); // what the prompt leaves open stays
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn parse_with(mut self, request: Request) -> Self {
        self.request = request.opened(self.prompt.opened);
        self
    }

    /// The prompt's ids.
    ///
    /// ```
    /// use kimi_xtml::Conversation;
    /// use kimi_xtml_tokenizer::{Tokenizer, Turn};
    ///
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let conversation = Conversation::from_json(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?;
    /// let turn = Turn::new(&tokenizer, &conversation)?;
    /// assert_eq!(turn.ids(), turn.clone().ids());
    /// assert!(turn.ids().ends_with(&tokenizer.encode_control("<|sep|>")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// What each id is for. Of earlier generations as it was parsed, of other answers in the history as they were encoded.
    ///
    /// ```
    /// use kimi_xtml::Label;
    /// use kimi_xtml::Conversation;
    /// use kimi_xtml_tokenizer::{Tokenizer, Turn};
    ///
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let conversation = Conversation::from_json(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?;
    /// let turn = Turn::new(&tokenizer, &conversation)?;
    /// assert_eq!(turn.labels().len(), turn.ids().len());
    /// assert_eq!(turn.labels()[0], Label::Prompt);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// Where generations stand in the ids, in their order, exactly as they were given to [`next`](Self::next).
    ///
    /// ```
    /// use kimi_xtml::Conversation;
    /// use kimi_xtml_tokenizer::{Tokenizer, Turn};
    ///
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let conversation = Conversation::from_json(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?;
    /// let turn = Turn::new(&tokenizer, &conversation)?;
    /// assert!(turn.generated().is_empty()); // nothing was generated before the first prompt
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn generated(&self) -> &[Range<usize>] {
        &self.generated
    }

    /// How many ids at the end `prompt_tokens` leaves out.
    ///
    /// ```
    /// use kimi_xtml::Conversation;
    /// use kimi_xtml_tokenizer::{Tokenizer, Turn};
    ///
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let conversation = Conversation::from_json(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?;
    /// let turn = Turn::new(&tokenizer, &conversation)?;
    /// // `<|open|>think<|sep|>`
    /// let opener = tokenizer.encode_control("<|open|>").len() + tokenizer.encode("think").len() + 1;
    /// assert_eq!(turn.unbilled(), opener);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unbilled(&self) -> usize {
        self.prompt.unbilled
    }

    /// What the generation is parsed with: what the prompt leaves open, the tools, the tool choice.
    ///
    /// ```
    /// use kimi_xtml::Channel;
    /// use kimi_xtml::Conversation;
    /// use kimi_xtml_tokenizer::{Tokenizer, Turn};
    ///
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let conversation = Conversation::from_json(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?;
    /// let turn = Turn::new(&tokenizer, &conversation)?;
    /// assert_eq!(turn.request().opened, Some(Channel::Think));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The prompt of a conversation that goes on after this one's generation.
    ///
    /// The conversation is the last one, with the answer that was generated, and with any messages after it. The answer is
    /// compared as parsed: a call that was cut may be missing, and values of arguments may be spelled otherwise.
    /// `generated` has the ids as the engine gave them, with the one that ends the message or without.
    ///
    /// ```
    /// use kimi_xtml::Conversation;
    /// use kimi_xtml_tokenizer::{Tokenizer, Turn};
    ///
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let conversation = Conversation::from_json(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?;
    /// let turn = Turn::new(&tokenizer, &conversation)?;
    /// let generated = tokenizer.encode_control("Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello!");
    /// let next = r#"{"messages": [{"role": "user", "content": "Hi"},
    ///     {"role": "assistant", "content": "Hello!", "reasoning_content": "Hm."}, {"role": "user", "content": "Bye"}]}"#;
    /// let next = turn.next(&tokenizer, &generated, &Conversation::from_json(next)?)?;
    /// assert_eq!(next.ids()[next.generated()[0].clone()], generated);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`BridgeError`]. The turn stays as it was: another conversation may go on from it.
    pub fn next(
        &self,
        tokenizer: &Tokenizer,
        generated: &[u32],
        conversation: &Conversation<'_>,
    ) -> Result<Turn, BridgeError> {
        if self.prompt.opened.is_none() {
            return Err(BridgeError::NothingOpened);
        }
        let prompt = encode(conversation)?;
        let answer = self.compare(conversation, &prompt)?;
        let tokens = tokenizer.texts(generated)?;
        if !self.is_answer(&conversation.messages[answer], &self.parse(&tokens)) {
            return Err(BridgeError::Edited { message: answer });
        }
        let closing = closing(self.request.clone(), &tokens).ok_or(BridgeError::AfterEnd)?;

        let mut ids = self.ids.clone();
        let mut labels_of_all = self.labels.clone();
        let mut generations = self.generated.clone();
        generations.push(ids.len()..ids.len() + generated.len());
        ids.extend_from_slice(generated);
        labels_of_all.extend(labels(self.request.clone(), &tokens));
        ids.extend(tokenizer.encode_pieces(&closing));
        labels_of_all.resize(ids.len(), Label::Prompt);
        let rest = prompt.messages[answer].end;
        let (more, labels_of_more) = tokenizer.encode_labelled(&prompt.pieces[rest..], &prompt.labels[rest..]);
        ids.extend(more);
        labels_of_all.extend(labels_of_more);
        let turn = Turn::of(conversation, prompt, ids, labels_of_all, generations)?;
        Ok(turn.forgive_missing_reasoning(self.forgives))
    }

    /// Compares what a conversation has before the answer, whose number it gives.
    fn compare(&self, conversation: &Conversation<'_>, prompt: &Prompt<'_>) -> Result<usize, BridgeError> {
        let setting = Setting::of(conversation)?;
        if setting.thinking != self.setting.thinking {
            return Err(BridgeError::Mode(Mode::Thinking));
        }
        if setting.thinking && setting.effort != self.setting.effort {
            return Err(BridgeError::Mode(Mode::Effort));
        }
        let leading = leading(conversation, prompt)?;
        if self.prompt.pieces[..self.leading] != prompt.pieces[..leading] {
            return Err(BridgeError::Mode(Mode::Tools));
        }
        // A notice that stands in the history must still be true; a new one may come.
        if !self.setting.format.is_empty() && self.setting.format != setting.format {
            return Err(BridgeError::Mode(Mode::ResponseFormat));
        }
        let answer = self.prompt.messages.len() - usize::from(self.partial.is_some());
        let Some(message) = conversation.messages.get(answer) else {
            return Err(BridgeError::NoAnswer { message: answer });
        };
        // Results of tools may stand in another order than their messages.
        let before = &self.prompt.messages[..answer];
        let end = before.iter().map(|pieces| pieces.end).max().unwrap_or(self.leading);
        let mut pairs = self.prompt.pieces[..end].iter().zip(&prompt.pieces);
        if let Some(at) = pairs.position(|(before, now)| before != now) {
            let message = before.iter().position(|pieces| pieces.contains(&at)).unwrap_or(answer);
            return Err(BridgeError::Edited { message });
        }
        match message {
            _ if prompt.messages[answer].start != end => Err(BridgeError::Edited { message: answer }),
            message if message.role != Role::Assistant => Err(BridgeError::NoAnswer { message: answer }),
            message if message.partial && conversation.partial_mode => Err(BridgeError::Continued { message: answer }),
            _ => Ok(answer),
        }
    }

    /// What the generation says.
    fn parse(&self, tokens: &[(String, u32)]) -> Message {
        let (mut parser, mut chat) = (Parser::new(self.request.clone()), Chat::default());
        for (text, id) in tokens {
            parser.push_token(text, *id, &mut chat);
        }
        parser.finish("stop", &mut chat);
        let mut message = chat.into_message().unwrap_or_default();
        if let Some(partial) = &self.partial {
            message.reasoning.insert_str(0, &partial.reasoning);
            message.content.insert_str(0, &partial.content);
        }
        message
    }

    /// Whether the answer that came back is the one that was generated.
    fn is_answer(&self, answer: &PromptMessage<'_>, generated: &Message) -> bool {
        let name = self.partial.as_ref().map_or("", |partial| &partial.name);
        let has_reasoning = answer.reasoning == generated.reasoning
            || !self.setting.thinking
            || self.forgives && answer.reasoning.is_empty();
        let all = generated.tool_calls.iter();
        answer.name.as_deref().unwrap_or_default() == name
            && has_reasoning
            && text_of(answer).is_some_and(|text| text == generated.content)
            && (has_calls(answer, all.clone()) || has_calls(answer, all.filter(|call| call.complete)))
    }
}

impl Setting {
    fn of(conversation: &Conversation<'_>) -> Result<Self, EncodeError> {
        let mut formatted = Conversation::new([]);
        formatted.response_format = conversation.response_format.clone();
        (formatted.thinking, formatted.add_generation_prompt) = (false, false);
        let Conversation { thinking, effort, .. } = *conversation;
        Ok(Setting { thinking, effort, format: encode(&formatted)?.text() })
    }
}

/// How many pieces of a prompt come before the messages: the notices of tools and effort.
fn leading(conversation: &Conversation<'_>, prompt: &Prompt<'_>) -> Result<usize, EncodeError> {
    if let Some(first) = prompt.messages.iter().map(|pieces| pieces.start).min() {
        return Ok(first);
    }
    let mut without_end = conversation.clone();
    (without_end.tool_choice, without_end.response_format) = Default::default();
    without_end.add_generation_prompt = false;
    Ok(encode(&without_end)?.pieces.len())
}

/// The text of a message; none if it has images.
fn text_of(message: &PromptMessage<'_>) -> Option<String> {
    let texts = message.content.iter().map(|part| match part {
        Part::Text(text) => Some(&**text),
        _ => None,
    });
    texts.collect()
}

/// Whether an answer has these calls, whose arguments may be spelled otherwise.
fn has_calls<'m>(answer: &PromptMessage<'_>, generated: impl Iterator<Item = &'m ToolCall>) -> bool {
    let given = answer.tool_calls.iter().map(|call| (&*call.name, value(&call.arguments)));
    let wanted = generated.map(|call| (&*call.name, value_of_text(&call.arguments)));
    written(given).is_some_and(|given| written(wanted) == Some(given))
}

/// How the encoder writes calls.
fn written<'a>(calls: impl Iterator<Item = (&'a str, Arguments<'a>)>) -> Option<Vec<Piece<'static>>> {
    let mut message = PromptMessage::assistant("");
    message.tool_calls = calls.map(|(name, arguments)| PromptCall { id: None, name: name.into(), arguments }).collect();
    encode(&Conversation::new([message])).ok().map(|prompt| prompt.into_owned().pieces)
}

/// Arguments as a value, so that their spelling does not count; as text, if they are none.
fn value<'a>(arguments: &'a Arguments<'_>) -> Arguments<'a> {
    match arguments {
        Arguments::Text(text) => value_of_text(text),
        Arguments::Object(object) => value_of_text(object.as_str()),
    }
}

fn value_of_text(text: &str) -> Arguments<'_> {
    match Json::new(text) {
        Ok(json) if text.trim_start().starts_with('{') => Arguments::Object(json),
        _ => Arguments::Text(text.into()),
    }
}
