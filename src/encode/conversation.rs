//! A conversation: what a prompt is made of. Texts are borrowed or owned; JSON stays as its writer spelled it.

use std::borrow::Cow;

use super::json::Json;
use crate::{Message, ToolChoice};

/// What a prompt is made of: see [`encode`](crate::encode).
///
/// Read from the body of a Chat Completions request by [`from_json`](Conversation::from_json), or put together:
///
/// ```
/// use kimi_xtml::{Conversation, Effort, Json, PromptMessage, encode};
///
/// let mut conversation = Conversation::new([PromptMessage::user("Is it raining in Oslo?")]);
/// conversation.tools = Some(Json::new(r#"[{"type":"function","function":{"name":"weather"}}]"#)?);
/// conversation.effort = Some(Effort::Low);
/// let prompt = encode(&conversation)?;
/// assert!(prompt.text().ends_with("<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conversation<'a> {
    /// The messages, in their order.
    pub messages: Vec<PromptMessage<'a>>,
    /// The declared tools, a JSON list. Its entries go into the prompt whole, keys sorted.
    pub tools: Option<Json<'a>>,
    /// The tool choice. `Required` and `None` have a notice.
    pub tool_choice: ToolChoice,
    /// What form the answer shall have.
    pub response_format: ResponseFormat<'a>,
    /// Whether the model thinks. Off, no message has a think channel, and reasoning is dropped.
    pub thinking: bool,
    /// How much it thinks; `max` at first. None: the prompt does not say.
    pub effort: Option<Effort>,
    /// Whether the prompt ends with the beginning of the assistant's next message.
    pub add_generation_prompt: bool,
    /// Whether [`PromptMessage::partial`] is read (the hosted API's Partial Mode). The reference does not: it closes
    /// the message and begins another.
    pub partial_mode: bool,
    /// The spellings of the images' control pieces, in the order of the prompt, as the reference takes them. None:
    /// each [`Part::Image`] has its own.
    pub image_prompts: Option<Vec<Cow<'a, str>>>,
}

impl<'a> Conversation<'a> {
    /// A conversation without tools, thinking on, effort max.
    ///
    /// ```
    /// use kimi_xtml::{Conversation, PromptMessage};
    ///
    /// let conversation = Conversation::new([PromptMessage::user("Hi")]);
    /// assert!(conversation.thinking && conversation.tools.is_none());
    /// ```
    pub fn new(messages: impl IntoIterator<Item = PromptMessage<'a>>) -> Self {
        Conversation {
            messages: messages.into_iter().collect(),
            tools: None,
            tool_choice: ToolChoice::Auto,
            response_format: ResponseFormat::Text,
            thinking: true,
            effort: Some(Effort::Max),
            add_generation_prompt: true,
            partial_mode: true,
            image_prompts: None,
        }
    }
}

/// Who speaks.
///
/// ```
/// use kimi_xtml::{PromptMessage, Role};
///
/// assert_eq!(PromptMessage::assistant("Hi").role, Role::Assistant);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role<'a> {
    /// The operator.
    System,
    /// The user.
    #[default]
    User,
    /// The model.
    Assistant,
    /// A tool: the result of a call.
    Tool,
    /// A role that K3 does not know. Its message has no prompt: a server that takes `developer` makes it
    /// [`System`](Role::System) first.
    Other(Cow<'a, str>),
}

/// A message of a conversation. Members that its role has no use for are not read.
///
/// ```
/// use kimi_xtml::PromptMessage;
///
/// let mut question = PromptMessage::user("Why?");
/// question.name = Some("ana".into());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptMessage<'a> {
    /// Who speaks.
    pub role: Role<'a>,
    /// Of a tool message: the tool's name, which the call's replaces if `tool_call_id` is known. Of others: the
    /// speaker's name, which is not written if it is empty.
    pub name: Option<Cow<'a, str>>,
    /// The text, in parts that are encoded apart.
    pub content: Vec<Part<'a>>,
    /// Of a system message: tools that are declared here, a JSON list. If there are some, the message's content and
    /// name are dropped.
    pub tools: Option<Json<'a>>,
    /// Of an assistant message: the reasoning.
    pub reasoning: Cow<'a, str>,
    /// Of an assistant message: the calls.
    pub tool_calls: Vec<PromptCall<'a>>,
    /// Of a tool message: the id of the call that it answers.
    pub tool_call_id: Option<Cow<'a, str>>,
    /// Whether the generation goes on in this message (Partial Mode). Only the last message may, an assistant's
    /// without calls.
    pub partial: bool,
}

impl<'a> PromptMessage<'a> {
    fn of(role: Role<'a>, text: impl Into<Cow<'a, str>>) -> Self {
        PromptMessage { role, content: vec![Part::Text(text.into())], ..PromptMessage::default() }
    }

    /// A message of the operator's.
    ///
    /// ```
    /// use kimi_xtml::{PromptMessage, Role};
    ///
    /// assert_eq!(PromptMessage::system("Be brief.").role, Role::System);
    /// ```
    pub fn system(text: impl Into<Cow<'a, str>>) -> Self {
        Self::of(Role::System, text)
    }

    /// A message of the user's.
    ///
    /// ```
    /// use kimi_xtml::{PromptMessage, Role};
    ///
    /// assert_eq!(PromptMessage::user("Why?").role, Role::User);
    /// ```
    pub fn user(text: impl Into<Cow<'a, str>>) -> Self {
        Self::of(Role::User, text)
    }

    /// An answer of the model's.
    ///
    /// ```
    /// use kimi_xtml::{PromptMessage, Role};
    ///
    /// assert_eq!(PromptMessage::assistant("So.").role, Role::Assistant);
    /// ```
    pub fn assistant(text: impl Into<Cow<'a, str>>) -> Self {
        Self::of(Role::Assistant, text)
    }

    /// The result of the call with this id.
    ///
    /// ```
    /// use kimi_xtml::PromptMessage;
    ///
    /// assert_eq!(PromptMessage::tool("ls_0", "a b").tool_call_id.as_deref(), Some("ls_0"));
    /// ```
    pub fn tool(call: impl Into<Cow<'a, str>>, text: impl Into<Cow<'a, str>>) -> Self {
        PromptMessage { tool_call_id: Some(call.into()), ..Self::of(Role::Tool, text) }
    }
}

/// What was generated, as history.
impl<'a> From<&'a Message> for PromptMessage<'a> {
    fn from(message: &'a Message) -> Self {
        let call = |call: &'a crate::ToolCall| PromptCall {
            id: Some((&*call.id).into()),
            name: (&*call.name).into(),
            arguments: Arguments::Text((&*call.arguments).into()),
        };
        PromptMessage {
            reasoning: (&*message.reasoning).into(),
            tool_calls: message.tool_calls.iter().map(call).collect(),
            ..Self::assistant(&*message.content)
        }
    }
}

/// A part of a message's content.
///
/// ```
/// use kimi_xtml::{Part, PromptMessage};
///
/// let mut message = PromptMessage::user("What is this?");
/// message.content.push(Part::IMAGE);
/// assert_eq!(message.content.len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part<'a> {
    /// Text, as it is.
    Text(Cow<'a, str>),
    /// An image: the spelling of its control piece, [`Part::IMAGE`] or [`Part::sized_image`].
    Image(Cow<'a, str>),
}

impl Part<'_> {
    /// An image of no known size: `<|media_pad|>`, which a server makes as long as the image's patches.
    ///
    /// ```
    /// use kimi_xtml::Part;
    ///
    /// assert_eq!(Part::IMAGE, Part::Image("<|media_pad|>".into()));
    /// ```
    pub const IMAGE: Part<'static> = Part::Image(Cow::Borrowed("<|media_pad|>"));

    /// An image of so many pixels, as the reference writes it.
    ///
    /// ```
    /// use kimi_xtml::Part;
    ///
    /// let spelling = "<|media_begin|>image 640x480<|media_content|><|media_pad|><|media_end|>";
    /// assert_eq!(Part::sized_image(640, 480), Part::Image(spelling.into()));
    /// ```
    pub fn sized_image(width: u32, height: u32) -> Part<'static> {
        let spelling = format!("<|media_begin|>image {width}x{height}<|media_content|><|media_pad|><|media_end|>");
        Part::Image(spelling.into())
    }
}

/// A call of an assistant message.
///
/// ```
/// use kimi_xtml::{Arguments, PromptCall};
///
/// let call = PromptCall { name: "ls".into(), arguments: Arguments::Text(r#"{"all":true}"#.into()), ..Default::default() };
/// assert_eq!(call.id, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptCall<'a> {
    /// The id by which a tool message answers it. It is not written.
    pub id: Option<Cow<'a, str>>,
    /// The tool's name.
    pub name: Cow<'a, str>,
    /// The arguments.
    pub arguments: Arguments<'a>,
}

/// The arguments of a call.
///
/// ```
/// use kimi_xtml::Arguments;
///
/// assert_eq!(Arguments::default(), Arguments::Text("".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arguments<'a> {
    /// As text, the way the model's calls are passed on. Each value keeps its spelling; text that holds no JSON object
    /// goes into a `json` block; an empty text is none.
    Text(Cow<'a, str>),
    /// As a JSON object, whose values are printed as Python prints them.
    Object(Json<'a>),
}

impl Default for Arguments<'_> {
    fn default() -> Self {
        Arguments::Text("".into())
    }
}

/// How much the model thinks.
///
/// ```
/// use kimi_xtml::{Conversation, Effort};
///
/// assert_eq!(Conversation::new([]).effort, Some(Effort::Max));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effort {
    /// `low`
    Low,
    /// `high`
    High,
    /// `max`
    Max,
}

impl Effort {
    /// The word for it: `low`, `high` or `max`.
    ///
    /// ```
    /// use kimi_xtml::Effort;
    ///
    /// assert_eq!(Effort::Low.name(), "low");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Effort::Low => "low",
            Effort::High => "high",
            Effort::Max => "max",
        }
    }

    /// The effort that a word names, if it is one.
    ///
    /// ```
    /// use kimi_xtml::Effort;
    ///
    /// assert_eq!(Effort::from_name("high"), Some(Effort::High));
    /// assert_eq!(Effort::from_name("medium"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        [Effort::Low, Effort::High, Effort::Max].into_iter().find(|effort| effort.name() == name)
    }
}

/// What form the answer shall have.
///
/// ```
/// use kimi_xtml::{Conversation, ResponseFormat};
///
/// let mut conversation = Conversation::new([]);
/// conversation.response_format = ResponseFormat::JsonObject;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseFormat<'a> {
    /// Any.
    #[default]
    Text,
    /// JSON.
    JsonObject,
    /// JSON that this schema takes.
    JsonSchema(Json<'a>),
}
