//! The conversation, message by message.
//!
//! In: messages in the order of the request. Out: the messages of the prompt, where each of them stood, and the number
//! that the next call's id goes on from. Held: those. What one turn of the assistant is, is decided here.

use kimi_xtml::{Arguments, EncodeError, Json, PromptCall, PromptMessage, Role};

use super::content::is_empty;
use super::members::Member;
use crate::error::ApiError;

/// The most messages, parts, calls and arguments of a conversation together: each costs more memory than its text.
const MOST: usize = 1 << 16;
/// Numbers of calls are below this one: another number at the end of an id is no count.
const MOST_CALLS: usize = 1 << 30;

/// The messages so far.
#[derive(Debug, Default)]
pub(crate) struct History {
    messages: Vec<PromptMessage<'static>>,
    paths: Vec<String>,
    size: usize,
    calls: usize,
    next: usize,
}

impl History {
    /// Adds a message that stands at `path`. An assistant's message that has only calls goes on with the assistant's
    /// message before it.
    pub(crate) fn add(&mut self, message: PromptMessage<'static>, path: &str) -> Result<(), ApiError> {
        let only_calls = is_empty(&message.content) && message.reasoning.is_empty() && !message.tool_calls.is_empty();
        self.extend(message, path, only_calls)
    }

    /// Adds a part of an assistant's turn: it goes on with what the assistant said right before.
    pub(crate) fn go_on(&mut self, message: PromptMessage<'static>, path: &str) -> Result<(), ApiError> {
        self.extend(message, path, true)
    }

    fn extend(&mut self, message: PromptMessage<'static>, path: &str, goes_on: bool) -> Result<(), ApiError> {
        self.size += 1 + message.content.len() + message.tool_calls.iter().map(size).sum::<usize>();
        if self.size > MOST {
            let why = format!("the conversation has more than {MOST} messages, parts, calls and arguments");
            return Err(ApiError::param(path, why));
        }
        self.calls += message.tool_calls.len();
        for id in message.tool_calls.iter().filter_map(|call| call.id.as_deref()).chain(message.tool_call_id.as_deref())
        {
            self.next = self.next.max(number(id).map_or(0, |number| number + 1));
        }
        match self.messages.last_mut() {
            Some(last) if goes_on && last.role == Role::Assistant && message.role == Role::Assistant => {
                last.reasoning.to_mut().push_str(&message.reasoning);
                last.content.extend(message.content);
                last.tool_calls.extend(message.tool_calls);
            }
            _ => {
                self.messages.push(message);
                self.paths.push(path.into());
            }
        }
        Ok(())
    }

    /// The last message, if it is the assistant's: the generation may go on in it.
    pub(crate) fn last_of_assistant(&mut self) -> Option<&mut PromptMessage<'static>> {
        self.messages.last_mut().filter(|last| last.role == Role::Assistant)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Above every number that an id of the conversation ends in, and above the number of its calls.
    pub(crate) fn next_call(&self) -> usize {
        self.next.max(self.calls)
    }

    /// The messages, and where they stood.
    pub(crate) fn into_parts(self) -> (Vec<PromptMessage<'static>>, Vec<String>) {
        (self.messages, self.paths)
    }
}

/// What a call counts for: itself, and about as many arguments as it has.
fn size(call: &PromptCall<'_>) -> usize {
    let arguments = match &call.arguments {
        Arguments::Text(text) => text.as_ref(),
        Arguments::Object(object) => object.as_str(),
    };
    1 + arguments.bytes().filter(|byte| *byte == b':').count()
}

/// The number that an id ends in: `get_weather_12`, `functions.get_weather:12`.
fn number(id: &str) -> Option<usize> {
    let digits = id.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (name, digits) = id.split_at(id.len() - digits);
    let number: usize = digits.parse().ok()?;
    (name.ends_with(['_', ':']) && number < MOST_CALLS).then_some(number)
}

/// A call of the history.
pub(crate) fn call(
    id: Option<String>,
    name: String,
    arguments: Option<Member<'_>>,
) -> Result<PromptCall<'static>, ApiError> {
    let arguments = match arguments {
        None => Arguments::default(),
        Some(text) if text.is_string() => Arguments::Text(text.text()?.into()),
        Some(object) if object.is_object() => Arguments::Object(json(&object)?),
        Some(other) => return Err(other.wrong("must be an object, or its text")),
    };
    Ok(PromptCall { id: id.map(Into::into), name: name.into(), arguments })
}

/// The JSON of a member, its spelling kept.
pub(crate) fn json(member: &Member<'_>) -> Result<Json<'static>, ApiError> {
    Json::new(member.raw.get().to_owned()).map_err(|error| member.wrong(&error.to_string()))
}

/// An error of the encoder's, at the place of the request that it speaks of.
pub(crate) fn located(error: &EncodeError, paths: &[String]) -> ApiError {
    let place = error.place.to_string();
    let path = match error.place.message.and_then(|number| paths.get(number)) {
        Some(path) => {
            let member = place.split_once(']').map_or("", |(_, member)| member);
            format!("{path}{member}")
        }
        None => place,
    };
    ApiError::param(&path, format!("{path}: {}", error.fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_counted_on_from_the_highest() {
        for (id, counted) in [
            ("get_weather_0", Some(0)),
            ("f_12", Some(12)),
            ("functions.f:7", Some(7)),
            ("call_x7", None),
            ("toolu_99999999999999999999", None),
            ("7", None),
            ("", None),
            ("é_4", Some(4)),
        ] {
            assert_eq!(number(id), counted, "{id}");
        }
        let mut history = History::default();
        assert_eq!(history.next_call(), 0);
        history.add(PromptMessage::tool("f_6", "compacted"), "messages[0]").unwrap();
        assert_eq!(history.next_call(), 7);
    }

    #[test]
    fn a_message_of_only_calls_is_the_same_turn() {
        let calls = |id: &str| {
            let mut message = PromptMessage::assistant("");
            message.tool_calls = vec![call(Some(id.into()), "f".into(), None).unwrap()];
            message
        };
        let mut history = History::default();
        history.add(PromptMessage::assistant("a"), "messages[0]").unwrap();
        history.add(calls("1"), "messages[1]").unwrap();
        history.add(calls("2"), "messages[2]").unwrap();
        history.add(PromptMessage::assistant("b"), "messages[3]").unwrap();
        let (messages, paths) = history.into_parts();
        assert_eq!((messages[0].tool_calls.len(), messages.len()), (2, 2));
        assert_eq!(paths, ["messages[0]", "messages[3]"]);
    }
}
