//! A conversation -> what the parser must know of it.
//!
//! In: the tools that a conversation declares, and its tool choice. Out: a [`Request`]. Nothing is held.

use std::borrow::Cow;

use super::conversation::{Conversation, Role};
use super::json::{Json, JsonError, Value};
use crate::request::Request;

impl Conversation<'_> {
    /// What the parser must know of the generation that follows: the names of the tools, those of system messages too, and
    /// the tool choice. What the prompt leaves open is [`Prompt::opened`](crate::Prompt::opened).
    ///
    /// ```
    /// use kimi_xtml::{Conversation, encode};
    ///
    /// let body = r#"{"messages": [], "tools": [{"type": "function", "function": {"name": "ls"}}]}"#;
    /// let conversation = Conversation::from_json(body)?;
    /// let request = conversation.request().opened(encode(&conversation)?.opened);
    /// assert_eq!(request.tools, ["ls"]);
    /// # Ok::<(), kimi_xtml::EncodeError>(())
    /// ```
    pub fn request(&self) -> Request {
        let later = self.messages.iter().filter(|message| message.role == Role::System);
        let lists = self.tools.iter().chain(later.filter_map(|message| message.tools.as_ref()));
        Request::new().tools(lists.flat_map(names)).tool_choice(self.tool_choice.clone())
    }
}

fn names(tools: &Json<'_>) -> Vec<String> {
    let mut names = Vec::new();
    // What is no list declares nothing, and has no prompt.
    let _ = tools.value().reader().list(|reader| {
        let [function, name] = reader.value()?.pick(["function", "name"]);
        let [of_function] = function.map_or([None], |function| function.pick(["name"]));
        names.extend(of_function.or(name).and_then(Value::text).map(Cow::into_owned));
        Ok::<_, JsonError>(())
    });
    names
}
