//! The body of a Chat Completions request -> a conversation.
//!
//! In: JSON. Out: a [`Conversation`] whose texts are borrowed from it where the JSON spells them as they are. Held: the
//! members of one message. The body is read once; of members that repeat the last counts, unknown ones are passed over.

use std::borrow::Cow;

use super::conversation::{Arguments, Conversation, Effort, Part, PromptCall, PromptMessage, ResponseFormat, Role};
use super::error::{EncodeError, Fault, Place};
use super::json::{Json, Reader, Value};
use super::python::{is_true, str};
use crate::event::ValueKind;
use crate::request::ToolChoice;

impl<'a> Conversation<'a> {
    /// Reads the body of a Chat Completions request: `messages`, `tools`, `tool_choice`, `response_format`, and the
    /// members that only Kimi's encoder knows (`thinking_effort`, `add_generation_prompt`, `image_prompts`).
    ///
    /// `thinking` is a boolean, or the hosted API's object (`type`: `enabled` or `disabled`, `effort`). Where
    /// it is absent, `enable_thinking` counts; where no effort is named, `reasoning_effort`, whose `none` turns thinking
    /// off. `chat_template_kwargs` may hold these members too; those of the body count first.
    ///
    /// ```
    /// use kimi_xtml::{Conversation, Effort, Role};
    ///
    /// let body = r#"{"model": "k3", "messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "low"}"#;
    /// let conversation = Conversation::from_json(body)?;
    /// assert_eq!(conversation.messages[0].role, Role::User);
    /// assert_eq!(conversation.effort, Some(Effort::Low));
    /// # Ok::<(), kimi_xtml::EncodeError>(())
    /// ```
    ///
    /// # Errors
    /// If the body is no JSON object, or a member that is read has no meaning.
    pub fn from_json(body: &'a str) -> Result<Self, EncodeError> {
        let mut conversation = Conversation::new([]);
        let mut has_messages = false;
        let (mut of_body, mut of_template) = (Thinking::default(), Thinking::default());
        let mut reader = Reader::strict(body);
        reader.object(|reader, key| {
            match &*key.text() {
                "messages" => {
                    has_messages = true;
                    conversation.messages = list(reader, Place::member("messages"), "a list of messages", message)?;
                }
                "tools" => conversation.tools = Some(reader.value()?.into()),
                "tool_choice" => conversation.tool_choice = tool_choice(reader.value()?),
                "response_format" => conversation.response_format = response_format(reader.value()?)?,
                "add_generation_prompt" => {
                    let place = Place::member("add_generation_prompt");
                    conversation.add_generation_prompt = boolean(Some(reader.value()?), place)?.unwrap_or(true);
                }
                "image_prompts" => conversation.image_prompts = image_prompts(reader.value()?)?,
                "chat_template_kwargs" => {
                    for (key, value) in reader.value()?.members() {
                        of_template.read(&key.text(), value);
                    }
                }
                key => of_body.read(key, reader.value()?),
            }
            Ok::<_, EncodeError>(())
        })?;
        reader.end()?;
        if !has_messages {
            return Err(Place::member("messages").is(Fault::Missing));
        }
        (conversation.thinking, conversation.effort) = of_body.or(of_template).settle()?;
        Ok(conversation)
    }
}

/// What the request says of thinking, under each of its names.
#[derive(Debug, Default)]
struct Thinking<'a> {
    thinking: Option<Value<'a>>,
    enable_thinking: Option<Value<'a>>,
    thinking_effort: Option<Value<'a>>,
    reasoning_effort: Option<Value<'a>>,
}

impl<'a> Thinking<'a> {
    fn read(&mut self, key: &str, value: Value<'a>) {
        let member = match key {
            "thinking" => &mut self.thinking,
            "enable_thinking" => &mut self.enable_thinking,
            "thinking_effort" => &mut self.thinking_effort,
            "reasoning_effort" => &mut self.reasoning_effort,
            _ => return,
        };
        *member = Some(value);
    }

    fn or(self, other: Self) -> Self {
        Thinking {
            thinking: self.thinking.or(other.thinking),
            enable_thinking: self.enable_thinking.or(other.enable_thinking),
            thinking_effort: self.thinking_effort.or(other.thinking_effort),
            reasoning_effort: self.reasoning_effort.or(other.reasoning_effort),
        }
    }

    /// Whether the model thinks, and how much.
    fn settle(self) -> Result<(bool, Option<Effort>), EncodeError> {
        let given = |value: Option<Value<'a>>| value.filter(|value| !value.is_null());
        let [kind, effort] = self.thinking.map_or([None; 2], |thinking| thinking.pick(["type", "effort"]).map(given));
        let thinking = match (self.thinking.map(Value::kind), kind.map(|kind| kind.text().unwrap_or_default())) {
            (Some(ValueKind::Object), None) => Some(true),
            (Some(ValueKind::Object), Some(kind)) => match &*kind {
                "enabled" => Some(true),
                "disabled" => Some(false),
                _ => return Err(Place::member("thinking.type").is(Fault::Kind("\"enabled\" or \"disabled\""))),
            },
            _ => boolean(self.thinking, Place::member("thinking"))?,
        };
        let enabled = boolean(self.enable_thinking, Place::member("enable_thinking"))?;
        let reasoning = given(self.reasoning_effort);
        let says_none = reasoning.and_then(Value::text).is_some_and(|effort| effort == "none");
        if !thinking.or(enabled).unwrap_or(!says_none) {
            return Ok((false, Some(Effort::Max)));
        }
        let effort = self
            .thinking_effort
            .map(|effort| (effort, "thinking_effort"))
            .or(effort.map(|effort| (effort, "thinking.effort")))
            .or(reasoning.map(|effort| (effort, "reasoning_effort")));
        match effort {
            None => Ok((true, Some(Effort::Max))),
            Some((null, _)) if null.is_null() => Ok((true, None)),
            Some((effort, member)) => {
                let known = effort.text().and_then(|effort| Effort::from_name(&effort));
                let fault = || Place::member(member).is(Fault::Effort(effort.source().into()));
                Ok((true, Some(known.ok_or_else(fault)?)))
            }
        }
    }
}

fn message<'a>(reader: &mut Reader<'a>, number: usize) -> Result<PromptMessage<'a>, EncodeError> {
    let at = |member| Place::message(number, member);
    let members = [
        "role",
        "name",
        "tool",
        "content",
        "tools",
        "reasoning_content",
        "reasoning",
        "tool_calls",
        "tool_call_id",
        "id",
        "partial",
    ];
    let [role, name, tool, content, tools, reasoning_content, reasoning, tool_calls, tool_call_id, id, partial] =
        pick(reader, members, at(""))?;
    let role = role.ok_or_else(|| at("role").is(Fault::Missing))?;
    let mut message = PromptMessage {
        role: role.text().map(Role::of).ok_or_else(|| at("role").is(Fault::Role(role.source().into())))?,
        tools: tools.filter(|tools| !tools.is_null()).map(Json::from),
        partial: boolean(partial, at("partial"))?.unwrap_or(false),
        ..PromptMessage::default()
    };
    match message.role {
        // Its name and its content are dropped.
        Role::System if truthy(tools).is_some() => return Ok(message),
        Role::Tool => {
            // A member that is null hides the other, too.
            message.name = if tool.is_some() { word(tool, at("tool"))? } else { word(name, at("name"))? };
            message.tool_call_id =
                if tool_call_id.is_some() { word(tool_call_id, at("tool_call_id"))? } else { word(id, at("id"))? };
        }
        _ => message.name = word(truthy(name), at("name"))?,
    }
    if message.role == Role::Assistant {
        let reasoning = truthy(reasoning_content)
            .map(|said| (said, at("reasoning_content")))
            .or_else(|| Some((truthy(reasoning)?, at("reasoning"))));
        if let Some((said, place)) = reasoning {
            message.reasoning = text(Some(said), place)?;
        }
        message.tool_calls = match truthy(tool_calls) {
            Some(calls) => list(&mut calls.reader(), at("tool_calls"), "a list of calls", |reader, call| {
                self::call(reader, number, call)
            })?,
            None => Vec::new(),
        };
    }
    message.content = parts(content, number)?;
    Ok(message)
}

impl<'a> Role<'a> {
    fn of(name: Cow<'a, str>) -> Self {
        match &*name {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            _ => Role::Other(name),
        }
    }
}

fn parts<'a>(content: Option<Value<'a>>, message: usize) -> Result<Vec<Part<'a>>, EncodeError> {
    let Some(content) = content.filter(|content| !content.is_null()) else { return Ok(Vec::new()) };
    match content.text() {
        Some(text) => Ok(vec![Part::Text(text)]),
        None => {
            let place = Place::message(message, "content");
            list(&mut content.reader(), place, "a string or a list of parts", |reader, number| {
                part(reader, message, number)
            })
        }
    }
}

fn part<'a>(reader: &mut Reader<'a>, message: usize, number: usize) -> Result<Part<'a>, EncodeError> {
    let at = |member| Place { part: Some(number), ..Place::message(message, member) };
    let [kind, said] = pick(reader, ["type", "text"], at(""))?;
    let kind = kind.ok_or_else(|| at("type").is(Fault::Missing))?;
    match kind.text().as_deref() {
        Some("image" | "image_url") => Ok(Part::IMAGE),
        _ => Ok(Part::Text(text(said, at("text"))?)),
    }
}

fn call<'a>(reader: &mut Reader<'a>, message: usize, number: usize) -> Result<PromptCall<'a>, EncodeError> {
    let at = |member| Place { call: Some(number), ..Place::message(message, member) };
    let [id, function, name, arguments] = pick(reader, ["id", "function", "name", "arguments"], at(""))?;
    let ([name, arguments], name_at, arguments_at) = match function {
        Some(function) => (
            pick(&mut function.reader(), ["name", "arguments"], at("function"))?,
            at("function.name"),
            at("function.arguments"),
        ),
        // A call may stand without its wrapper.
        None => ([name, arguments], at("name"), at("arguments")),
    };
    let name = word(name, name_at)?.ok_or_else(|| name_at.is(Fault::Missing))?;
    let arguments = match arguments.filter(|arguments| !arguments.is_null()) {
        None => Arguments::default(),
        Some(arguments) => match (arguments.kind(), arguments.text()) {
            (ValueKind::Object, _) => Arguments::Object(arguments.into()),
            (_, Some(text)) => Arguments::Text(text),
            (_, None) => return Err(arguments_at.is(Fault::Kind("an object, or text"))),
        },
    };
    Ok(PromptCall { id: word(id, at("id"))?, name, arguments })
}

/// What is no word that has a notice has none.
fn tool_choice(choice: Value<'_>) -> ToolChoice {
    let [function] = choice.pick(["function"]);
    let [name] = function.map_or([None], |function| function.pick(["name"]));
    match (choice.text().as_deref(), name.and_then(Value::text)) {
        (Some("required"), _) => ToolChoice::Required,
        (Some("none"), _) => ToolChoice::None,
        (_, Some(name)) => ToolChoice::Named(name.into_owned()),
        _ => ToolChoice::Auto,
    }
}

fn response_format<'a>(format: Value<'a>) -> Result<ResponseFormat<'a>, EncodeError> {
    let [kind, named] = format.pick(["type", "json_schema"]);
    let kind = format.text().or_else(|| kind?.text());
    match kind.as_deref() {
        Some("json_object") => Ok(ResponseFormat::JsonObject),
        Some("json_schema") => {
            let schema = match named.filter(|named| !named.is_null()) {
                None => Value::NULL,
                Some(named) => {
                    let place = Place::member("response_format.json_schema");
                    let [schema, again] = pick(&mut named.reader(), ["schema", "json_schema"], place)?;
                    schema.or(again).unwrap_or(named)
                }
            };
            Ok(ResponseFormat::JsonSchema(schema.into()))
        }
        _ => Ok(ResponseFormat::Text),
    }
}

fn image_prompts<'a>(spellings: Value<'a>) -> Result<Option<Vec<Cow<'a, str>>>, EncodeError> {
    let place = Place::member("image_prompts");
    if spellings.is_null() {
        return Ok(None);
    }
    let spellings =
        list(&mut spellings.reader(), place, "a list of strings", |reader, _| text(Some(reader.value()?), place))?;
    Ok(Some(spellings))
}

/// The members of an object that have these names.
fn pick<'a, const N: usize>(
    reader: &mut Reader<'a>,
    names: [&str; N],
    place: Place,
) -> Result<[Option<Value<'a>>; N], EncodeError> {
    match reader.peek() {
        Some(b'{') => Ok(reader.pick(names)?),
        _ => Err(other(reader, place, "an object")),
    }
}

/// The items of a list; `expected` says of what.
fn list<'a, T>(
    reader: &mut Reader<'a>,
    place: Place,
    expected: &'static str,
    mut item: impl FnMut(&mut Reader<'a>, usize) -> Result<T, EncodeError>,
) -> Result<Vec<T>, EncodeError> {
    if reader.peek() != Some(b'[') {
        return Err(other(reader, place, expected));
    }
    let mut items = Vec::new();
    reader.list(|reader| {
        items.push(item(reader, items.len())?);
        Ok::<_, EncodeError>(())
    })?;
    Ok(items)
}

/// The error that the next value is none of what is expected, or is no JSON at all.
fn other(reader: &mut Reader<'_>, place: Place, expected: &'static str) -> EncodeError {
    match reader.value() {
        Ok(_) => place.is(Fault::Kind(expected)),
        Err(error) => error.into(),
    }
}

fn truthy(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|&value| is_true(value))
}

/// A text that must be there.
fn text<'a>(value: Option<Value<'a>>, place: Place) -> Result<Cow<'a, str>, EncodeError> {
    let value = value.ok_or_else(|| place.is(Fault::Missing))?;
    value.text().ok_or_else(|| place.is(Fault::Kind("a string")))
}

/// A name or an id: what Python's `str()` makes of it; null is none.
fn word<'a>(value: Option<Value<'a>>, place: Place) -> Result<Option<Cow<'a, str>>, EncodeError> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    str(value).map(Some).ok_or_else(|| place.is(Fault::Kind("a string")))
}

fn boolean(value: Option<Value<'_>>, place: Place) -> Result<Option<bool>, EncodeError> {
    match value.map(|value| (value.kind(), value.source())) {
        None | Some((ValueKind::Null, _)) => Ok(None),
        Some((ValueKind::Boolean, source)) => Ok(Some(source == "true")),
        Some(_) => Err(place.is(Fault::Kind("true or false"))),
    }
}
