//! A conversation -> its prompt.
//!
//! In: a [`Conversation`]. Out: the [`Prompt`], whose texts are borrowed from it. Held: which calls the next results
//! belong to. One pass: the notices of the request, the messages in their order, the notices for the next message, and
//! that message's beginning.

use std::borrow::Cow;
use std::ops::Range;

use super::conversation::{Arguments, Conversation, PromptMessage, Role};
use super::error::{EncodeError, Fault, Place};
use super::message::Given;
use super::piece::{Label, Piece, Writer};
use super::results::Results;
use crate::event::{Channel, ValueKind};

/// The prompt of a conversation.
///
/// ```
/// use kimi_xtml::{Channel, Conversation, PromptMessage, encode};
///
/// let conversation = Conversation::new([PromptMessage::user("Hi")]);
/// let prompt = encode(&conversation)?;
/// assert_eq!((prompt.opened, prompt.unbilled), (Some(Channel::Think), 3));
/// assert_eq!(prompt.labels.len(), prompt.pieces.len());
/// # Ok::<(), kimi_xtml::EncodeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prompt<'a> {
    /// What it is made of. Each piece is encoded to ids by itself.
    pub pieces: Vec<Piece<'a>>,
    /// What each piece is for. Of an assistant message all that follows its first channel's opener counts as generated.
    pub labels: Vec<Label>,
    /// For each message of the conversation the numbers of its pieces, its tags among them. Results of tools may stand in
    /// another order than their messages.
    pub messages: Vec<Range<usize>>,
    /// The channel that the prompt leaves open: what [`Request::opened`](crate::Request::opened) takes.
    pub opened: Option<Channel>,
    /// Whether the open channel has text already (Partial Mode).
    pub prefilled: bool,
    /// How many ids at the end `prompt_tokens` leaves out: 3, those of the channel's opener, or none.
    pub unbilled: usize,
}

impl Prompt<'_> {
    /// The pieces' spellings, joined. A text that spells a control token is told from one no longer.
    ///
    /// ```
    /// use kimi_xtml::{Conversation, PromptMessage, encode};
    ///
    /// let conversation = Conversation::new([PromptMessage::user("Hi")]);
    /// assert!(encode(&conversation)?.text().contains("Hi<|close|>message<|sep|>"));
    /// # Ok::<(), kimi_xtml::EncodeError>(())
    /// ```
    pub fn text(&self) -> String {
        self.pieces.iter().map(Piece::spelling).collect()
    }

    /// The prompt with its own texts.
    ///
    /// ```
    /// use kimi_xtml::{Conversation, EncodeError, Prompt, encode};
    ///
    /// fn read(body: &str) -> Result<Prompt<'static>, EncodeError> {
    ///     Ok(encode(&Conversation::from_json(body)?)?.into_owned())
    /// }
    /// assert!(read(r#"{"messages": []}"#)?.text().ends_with("<|open|>think<|sep|>"));
    /// # Ok::<(), EncodeError>(())
    /// ```
    pub fn into_owned(self) -> Prompt<'static> {
        Prompt { pieces: self.pieces.into_iter().map(Piece::into_owned).collect(), ..self }
    }
}

/// The prompt that Moonshot's encoder makes of a conversation.
///
/// In this order: the declared tools, the thinking effort, the messages, the tool choice, the response format, and the
/// beginning of the assistant's next message, whose channel is left open. Texts are never escaped: whatever they spell,
/// they are [`Piece::Text`], and control tokens are not. It takes time and memory linear in the conversation.
///
/// ```
/// use kimi_xtml::{Channel, Conversation, Piece, encode};
///
/// let request = r#"{"messages": [{"role": "user", "content": "Is <|sep|> a token?"}], "thinking": false}"#;
/// let conversation = Conversation::from_json(request)?;
/// let prompt = encode(&conversation)?;
/// assert_eq!(
///     prompt.text(),
///     "<|open|>message role=\"user\"<|sep|>Is <|sep|> a token?<|close|>message<|sep|><|end_of_msg|>\
///      <|open|>message role=\"assistant\"<|sep|><|open|>response<|sep|>"
/// );
/// assert_eq!(prompt.opened, Some(Channel::Response));
/// assert!(prompt.pieces.contains(&Piece::Text("Is <|sep|> a token?".into())));
/// # Ok::<(), kimi_xtml::EncodeError>(())
/// ```
///
/// # Errors
/// If the conversation has no prompt: see [`Fault`]. What only a server refuses (a tool message without an id, a name that
/// is declared twice) has one.
pub fn encode<'a>(conversation: &'a Conversation<'a>) -> Result<Prompt<'a>, EncodeError> {
    let messages = &conversation.messages;
    let partial = partial(conversation)?;
    let mut prompt = Prompt {
        pieces: Vec::new(),
        labels: Vec::new(),
        messages: vec![0..0; messages.len()],
        opened: None,
        prefilled: false,
        unbilled: 0,
    };
    let mut writer = Writer::new();
    if let Some(tools) = &conversation.tools {
        writer.tools(tools.value(), Place::member("tools"))?;
    }
    if let (true, Some(effort)) = (conversation.thinking, conversation.effort) {
        writer.effort(effort);
    }
    let closed = &messages[..messages.len() - usize::from(partial.is_some())];
    let mut results = Results::default();
    let mut number = 0;
    while let Some(message) = closed.get(number) {
        if message.role == Role::Tool {
            let run = closed[number..].iter().take_while(|message| message.role == Role::Tool).count();
            for result in results.order(&closed[number..number + run], number)? {
                let start = writer.pieces.len();
                writer.result_header(result.tool, result.index);
                writer.content(closed[result.message].content.iter().map(Piece::from), Label::Prompt);
                writer.end_message();
                prompt.messages[result.message] = start..writer.pieces.len();
            }
            number += run;
            continue;
        }
        let start = writer.pieces.len();
        writer.message(message, number, conversation.thinking)?;
        if message.role == Role::Assistant {
            results = Results::of(&message.tool_calls);
        }
        prompt.messages[number] = start..writer.pieces.len();
        number += 1;
    }
    writer.tool_choice(&conversation.tool_choice);
    writer.response_format(&conversation.response_format);
    let start = writer.pieces.len();
    if let Some(message) = partial {
        (prompt.opened, prompt.prefilled) = writer.partial(message, conversation.thinking);
        prompt.messages[number] = start..writer.pieces.len();
    } else if conversation.add_generation_prompt {
        prompt.opened = Some(writer.begin_assistant(None, conversation.thinking));
        prompt.unbilled = 3;
    }
    (prompt.pieces, prompt.labels) = (writer.pieces, writer.labels);
    if let Some(spellings) = &conversation.image_prompts {
        spell_images(&mut prompt.pieces, spellings)?;
    }
    Ok(prompt)
}

/// The message that is continued, if one is.
fn partial<'a>(conversation: &'a Conversation<'a>) -> Result<Option<&'a PromptMessage<'a>>, EncodeError> {
    let messages = &conversation.messages;
    let Some(number) = messages.iter().position(|message| message.partial).filter(|_| conversation.partial_mode) else {
        return Ok(None);
    };
    let message = &messages[number];
    let fault = match message {
        _ if message.role != Role::Assistant => Fault::PartialRole,
        _ if !message.tool_calls.is_empty() => Fault::PartialCalls,
        _ if number + 1 < messages.len() => Fault::PartialNotLast,
        _ => return Ok(Some(message)),
    };
    Err(Place::message(number, "partial").is(fault))
}

impl<'a> Writer<'a> {
    /// A message that is no result.
    fn message(&mut self, message: &'a PromptMessage<'a>, number: usize, thinking: bool) -> Result<(), EncodeError> {
        let content = message.content.iter().map(Piece::from);
        match &message.role {
            Role::System => {
                if let Some(tools) = &message.tools
                    && self.later_tools(tools.value(), Place::message(number, "tools"))?
                {
                    return Ok(());
                }
                self.header("system", message.name.as_deref());
                self.content(content, Label::Prompt);
                self.end_message();
            }
            Role::User => {
                self.header("user", message.name.as_deref());
                self.content(content, Label::Prompt);
                self.end_message();
            }
            Role::Assistant => {
                for (number_of_call, call) in message.tool_calls.iter().enumerate() {
                    if let Arguments::Object(object) = &call.arguments
                        && object.value().kind() != ValueKind::Object
                    {
                        let place = Place { call: Some(number_of_call), ..Place::message(number, "arguments") };
                        return Err(place.is(Fault::Kind("an object, or text")));
                    }
                }
                let opened = self.begin_assistant(message.name.as_deref(), thinking);
                self.tags = Label::Markup;
                let calls = message.tool_calls.iter().map(|call| (&*call.name, Given::from(call)));
                self.generated(Some(opened), &message.reasoning, content, calls);
                self.tags = Label::Prompt;
            }
            Role::Tool => {}
            Role::Other(role) => {
                return Err(Place::message(number, "role").is(Fault::Role(role.as_ref().into())));
            }
        }
        Ok(())
    }

    /// The beginning of an assistant's message, and the channel that it opens.
    fn begin_assistant(&mut self, name: Option<&'a str>, thinking: bool) -> Channel {
        let channel = if thinking { Channel::Think } else { Channel::Response };
        self.header("assistant", name);
        self.open(channel.name());
        channel
    }

    /// An assistant's message up to where the generation goes on: the channel that is left open, and whether it has text.
    fn partial(&mut self, message: &'a PromptMessage<'a>, thinking: bool) -> (Option<Channel>, bool) {
        let has_text = message.content.iter().any(|part| !Piece::from(part).spelling().is_empty());
        let reasoning = if thinking { &*message.reasoning } else { "" };
        self.header("assistant", message.name.as_deref());
        if !reasoning.is_empty() {
            self.open("think");
            self.text(reasoning, Label::Prompt);
            if !has_text {
                return (Some(Channel::Think), true);
            }
            self.close("think");
        }
        self.open("response");
        self.content(message.content.iter().map(Piece::from), Label::Prompt);
        (Some(Channel::Response), has_text)
    }
}

/// Gives each image the next spelling.
fn spell_images<'a>(pieces: &mut [Piece<'a>], spellings: &'a [Cow<'a, str>]) -> Result<(), EncodeError> {
    let mut images: Vec<_> = pieces.iter_mut().filter(|piece| matches!(piece, Piece::Image(_))).collect();
    if images.len() != spellings.len() {
        let fault = Fault::Images { given: spellings.len(), needed: images.len() };
        return Err(Place::member("image_prompts").is(fault));
    }
    for (image, spelling) in images.iter_mut().zip(spellings) {
        **image = Piece::Image(Cow::Borrowed(spelling));
    }
    Ok(())
}
