//! What the parser must know of the request: what the prompt left open, and whether tools are in play.

use crate::event::Channel;
use crate::marker::Marker;

/// Which tools the model may call.
///
/// ```
/// use kimi_xtml::{Request, ToolChoice};
///
/// let request = Request::new().tools(["ls"]).tool_choice(ToolChoice::None);
/// assert!(!request.engages_tools()); // declared, but calls are not asked for
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None: tools are declared in the prompt, but calls are not asked for.
    None,
    /// At least one call.
    Required,
    /// This tool.
    Named(String),
}

/// What becomes of a tools section that the request did not ask for.
///
/// ```
/// use kimi_xtml::{OwnedEvent, Request, Undeclared, parse};
///
/// let section = "<|open|>tools<|sep|><|close|>tools<|sep|>";
/// let withheld = |event: &OwnedEvent| matches!(event, OwnedEvent::Withheld(_));
/// let is_withheld = |request| parse(section, request).iter().any(|(event, _)| withheld(event));
/// assert!(is_withheld(Request::new()));
/// assert!(!is_withheld(Request::new().undeclared(Undeclared::Content)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undeclared {
    /// It goes out raw as [`Event::Withheld`](crate::Event::Withheld), and is no content.
    #[default]
    Withhold,
    /// It goes out raw as content.
    Content,
}

/// What the parser must know of the request. [`Request::default`] fits a request without tools whose output
/// carries its own openers.
///
/// ```
/// use kimi_xtml::{Channel, Request};
///
/// let request = Request::new().opened(Channel::Think).tools(["get_weather"]);
/// assert!(request.engages_tools());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The channel that the prompt left open, if any: [`opened_by_prompt`], [`opened_by_prompt_ids`].
    pub opened: Option<Channel>,
    /// Names of the declared tools. None declared: tool parsing stays off.
    pub tools: Vec<String>,
    /// The request's tool choice. [`ToolChoice::None`] turns tool parsing off.
    pub tool_choice: ToolChoice,
    /// Whether reasoning is told from content. Off: text of the think channel is content.
    pub separate_reasoning: bool,
    /// What becomes of a tools section that was not asked for.
    pub undeclared: Undeclared,
    /// Whether objects and arrays go out as they arrive, while they can be JSON, and not once they are whole.
    /// One that turns out not to be JSON leaves its call incomplete.
    pub stream_json: bool,
    /// Bytes that a value other than a string may have before it is no longer held (8 MiB): a longer one goes out
    /// as a string.
    pub value_limit: usize,
}

impl Default for Request {
    fn default() -> Self {
        Request {
            opened: None,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            separate_reasoning: true,
            undeclared: Undeclared::Withhold,
            stream_json: false,
            value_limit: 8 << 20,
        }
    }
}

impl Request {
    /// A request without tools, nothing opened by the prompt.
    ///
    /// ```
    /// use kimi_xtml::{Request};
    ///
    /// assert_eq!(Request::new(), Request::default());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the channel that the prompt left open.
    ///
    /// ```
    /// use kimi_xtml::{Channel, Request};
    ///
    /// assert_eq!(Request::new().opened(Channel::Think).opened, Some(Channel::Think));
    /// ```
    #[must_use]
    pub fn opened(mut self, channel: impl Into<Option<Channel>>) -> Self {
        self.opened = channel.into();
        self
    }

    /// Sets the declared tools.
    ///
    /// ```
    /// use kimi_xtml::{Request};
    ///
    /// assert_eq!(Request::new().tools(["ls"]).tools, ["ls"]);
    /// ```
    #[must_use]
    pub fn tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the tool choice.
    ///
    /// ```
    /// use kimi_xtml::{Request, ToolChoice};
    ///
    /// let request = Request::new().tools(["ls"]).tool_choice(ToolChoice::Required);
    /// assert!(request.engages_tools());
    /// ```
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
        self
    }

    /// Sets whether reasoning is told from content.
    ///
    /// ```
    /// use kimi_xtml::{OwnedEvent, Request, parse};
    ///
    /// let events = parse("<|open|>think<|sep|>Hm.", Request::new().separate_reasoning(false));
    /// assert!(events.iter().any(|(event, _)| *event == OwnedEvent::Content("Hm.".into())));
    /// ```
    #[must_use]
    pub fn separate_reasoning(mut self, on: bool) -> Self {
        self.separate_reasoning = on;
        self
    }

    /// Sets what becomes of a tools section that was not asked for.
    ///
    /// ```
    /// use kimi_xtml::{Request, Undeclared};
    ///
    /// let request = Request::new().undeclared(Undeclared::Content);
    /// assert_eq!(request.undeclared, Undeclared::Content);
    /// ```
    #[must_use]
    pub fn undeclared(mut self, policy: Undeclared) -> Self {
        self.undeclared = policy;
        self
    }

    /// Sets whether objects and arrays go out as they arrive.
    ///
    /// ```
    /// use kimi_xtml::{Request};
    ///
    /// assert!(Request::new().stream_json(true).stream_json);
    /// ```
    #[must_use]
    pub fn stream_json(mut self, on: bool) -> Self {
        self.stream_json = on;
        self
    }

    /// Sets how many bytes of a value other than a string are held.
    ///
    /// ```
    /// use kimi_xtml::{Request};
    ///
    /// assert_eq!(Request::new().value_limit(1 << 10).value_limit, 1024);
    /// ```
    #[must_use]
    pub fn value_limit(mut self, bytes: usize) -> Self {
        self.value_limit = bytes;
        self
    }

    /// Whether calls are parsed: tools are declared, and the choice is not none.
    ///
    /// ```
    /// use kimi_xtml::{Request};
    ///
    /// assert!(!Request::new().engages_tools());
    /// assert!(Request::new().tools(["ls"]).engages_tools());
    /// ```
    pub fn engages_tools(&self) -> bool {
        !self.tools.is_empty() && self.tool_choice != ToolChoice::None
    }
}

/// The channel that a prompt's text leaves open: the one its last tag opens.
///
/// ```
/// use kimi_xtml::{Channel, opened_by_prompt};
///
/// let prompt = "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>";
/// assert_eq!(opened_by_prompt(prompt), Some(Channel::Think));
/// assert_eq!(opened_by_prompt("<|open|>think<|sep|>done<|close|>think<|sep|>"), None);
/// ```
pub fn opened_by_prompt(prompt: &str) -> Option<Channel> {
    let (_, tag) = prompt.rsplit_once(Marker::Open.spelling())?;
    let (name, after) = tag.split_once(Marker::Sep.spelling())?;
    let closed = [Marker::Close, Marker::EndOfMsg].iter().any(|marker| after.contains(marker.spelling()));
    match name.trim() {
        _ if closed => None,
        "think" => Some(Channel::Think),
        "response" => Some(Channel::Response),
        _ => None,
    }
}

/// The channel that a prompt's token ids leave open.
///
/// ```
/// use kimi_xtml::{Channel, opened_by_prompt_ids};
///
/// assert_eq!(opened_by_prompt_ids(&[163587, 12092, 163589]), Some(Channel::Response));
/// ```
pub fn opened_by_prompt_ids(ids: &[u32]) -> Option<Channel> {
    const THINK: u32 = 39_964;
    const RESPONSE: u32 = 12_092;
    let tag = ids.iter().rposition(|&id| id == Marker::Open.id())?;
    let rest = &ids[tag + 1..];
    let sep = rest.iter().position(|&id| id == Marker::Sep.id())?;
    let closed = rest[sep..]
        .iter()
        .any(|&id| matches!(Marker::from_id(id), Some(Marker::Close | Marker::EndOfMsg | Marker::Eos)));
    match rest[..sep] {
        _ if closed => None,
        [THINK] => Some(Channel::Think),
        [RESPONSE] => Some(Channel::Response),
        _ => None,
    }
}
