//! Ids of calls.
//!
//! In: a call's name and ordinal. Out: its id, by the policy that was chosen. Held: the policy.

use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;
use std::{fmt, process};

/// How a call gets its id. The wire carries none; an id is minted once, when the call opens.
///
/// Ids that repeat in a conversation have frozen agents. The default, [`IdPolicy::random`], never repeats.
///
/// ```
/// use kimi_xtml::{ChatStream, Channel, IdPolicy, Request};
///
/// let request = Request::new().opened(Channel::Tools).tools(["ls"]);
/// let mut stream = ChatStream::new(request).with_call_ids(IdPolicy::with(|name, call| format!("{name}-{call}")));
/// stream.push("<|open|>call tool=\"ls\" index=\"1\"<|sep|>");
/// assert_eq!(stream.message().unwrap().tool_calls[0].id, "ls-0");
/// ```
#[derive(Default)]
pub struct IdPolicy(Policy);

#[derive(Default)]
enum Policy {
    #[default]
    Random,
    Numbered(usize),
    With(Box<Mint>),
}

type Mint = dyn FnMut(&str, usize) -> String + Send + Sync;

impl IdPolicy {
    /// `call_` and 24 random letters and digits.
    ///
    /// ```
    /// use kimi_xtml::{Chat, IdPolicy, Sink, Span};
    ///
    /// let mut chat = Chat::new(IdPolicy::random());
    /// chat.call_start(0, "ls", Span::default());
    /// let id = &chat.message().unwrap().tool_calls[0].id;
    /// assert!(id.starts_with("call_") && id.len() == 29);
    /// ```
    pub fn random() -> Self {
        Self::default()
    }

    /// `{name}_{index}`, the index counted over the conversation: `start` is the number of calls made in it so far.
    ///
    /// ```
    /// use kimi_xtml::{Chat, IdPolicy, Sink, Span};
    ///
    /// let mut chat = Chat::new(IdPolicy::numbered(7));
    /// chat.call_start(0, "ls", Span::default());
    /// assert_eq!(chat.message().unwrap().tool_calls[0].id, "ls_7");
    /// ```
    pub fn numbered(start: usize) -> Self {
        IdPolicy(Policy::Numbered(start))
    }

    /// What `mint` gives for the tool's name and the call's ordinal in this message.
    ///
    /// ```
    /// use kimi_xtml::{Chat, IdPolicy, Sink, Span};
    ///
    /// let mut chat = Chat::new(IdPolicy::with(|name, call| format!("toolu_{name}{call}")));
    /// chat.call_start(0, "ls", Span::default());
    /// assert_eq!(chat.message().unwrap().tool_calls[0].id, "toolu_ls0");
    /// ```
    pub fn with(mint: impl FnMut(&str, usize) -> String + Send + Sync + 'static) -> Self {
        IdPolicy(Policy::With(Box::new(mint)))
    }

    pub(crate) fn mint(&mut self, name: &str, call: usize) -> String {
        match &mut self.0 {
            Policy::Random => random_id("call_"),
            Policy::Numbered(start) => format!("{name}_{}", *start + call),
            Policy::With(mint) => mint(name, call),
        }
    }
}

impl fmt::Debug for IdPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Policy::Random => f.write_str("IdPolicy::random()"),
            Policy::Numbered(start) => write!(f, "IdPolicy::numbered({start})"),
            Policy::With(_) => f.write_str("IdPolicy::with(..)"),
        }
    }
}

/// The prefix, and 24 letters and digits: 142 bits of SipHash. Its keys came from the system, once a thread, and differ at each call. A forked process has the keys
/// of its parent, so what tells the two apart is hashed.
pub(crate) fn random_id(prefix: &str) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let seed = (process::id(), SystemTime::now());
    let keys = RandomState::new();
    let mut id = String::from(prefix);
    for word in 0..3u8 {
        let mut bits = keys.hash_one((seed, word));
        for _ in 0..8 {
            id.push(char::from(ALPHABET[(bits % 62) as usize]));
            bits /= 62;
        }
    }
    id
}
