//! The body of a Messages request.
//!
//! In: bytes. Out: a [`Request`], or an error that names the member at fault. Nothing is held.
//! A last message of the assistant's is one that the generation goes on in, as clients of this API expect.

use kimi_xtml::{Arguments, Part, PromptCall, PromptMessage};

use super::content::{cannot, text_of, texts, texts_or_none};
use super::history::History;
use super::members::{Member, Members};
use super::tools::{Tools, choice_of_messages};
use super::{Ignored, Policy, Request, format, sampling, thinking, wrong};
use crate::error::ApiError;

/// What this server does not have.
const REFUSED: [(&str, &str); 2] =
    [("container", "this server runs no code"), ("mcp_servers", "this server reaches no other servers")];
/// What changes nothing here, or only who is told of it.
const WITHOUT_EFFECT: [&str; 5] = ["metadata", "service_tier", "inference_geo", "speed", "cache_control"];
/// Edits of the context that may be left undone: all of it stays.
const EDITS: [(&str, ()); 2] = [("clear_tool_uses_20250919", ()), ("clear_thinking_20251015", ())];

/// Reads the body of a Messages request; to count its tokens, it needs no `max_tokens`.
///
/// # Errors
/// If it is no JSON object, or for the first member that is wrong, or that cannot be served.
pub fn read(body: &[u8], policy: &Policy, counting: bool) -> Result<Request, ApiError> {
    let mut members = Members::of_body(body)?;
    let mut ignored = Ignored::default();
    let model = members.need_text("model")?;
    let max_tokens = members.whole("max_tokens", 1..=u64::MAX)?;
    if max_tokens.is_none() && !counting {
        return Err(wrong("max_tokens", "is missing"));
    }
    for (name, why) in REFUSED {
        members.refuse(name, why)?;
    }
    edits(members.take("context_management"))?;

    let mut history = History::default();
    if let Some(system) = members.take("system") {
        let mut message = PromptMessage::system("");
        message.content = texts(&system, &mut ignored)?;
        history.add(message, "system")?;
    }
    let messages = members.need("messages")?.list()?;
    if messages.is_empty() {
        return Err(wrong("messages", "there must be a message"));
    }
    for member in messages {
        message(&member, &mut history, &mut ignored)?;
    }
    if let Some(last) = history.last_of_assistant() {
        last.partial = true;
    }

    let next_call = history.next_call();
    let (messages, paths) = history.into_parts();
    let mut request = Request::new(model, messages, paths);
    (request.next_call, request.max_tokens) = (next_call, max_tokens);
    let mut tools = Tools::default();
    let declared = members.take("tools").map(|list| tools.of_messages(&list, &mut ignored)).transpose()?;
    request.conversation.tools = declared.flatten();
    let (chosen, parallel) = choice_of_messages(members.take("tool_choice"))?;
    request.choose(tools, chosen)?;
    request.parallel = parallel;
    let (effort, format) = output_config(&mut members, &mut ignored)?;
    let thinking = thinking::of_messages(members.take("thinking"), effort, &mut ignored)?;
    request.think(thinking);
    request.answer_as(format::of_messages(format)?);
    request.sampling = sampling::sampling(&mut members, thinking, policy)?;
    request.stops = sampling::stops(members.take("stop_sequences"))?;
    request.stream = members.read("stream")?.unwrap_or(false);
    members.pass(&WITHOUT_EFFECT);
    ignored.add(members);
    request.ignored = ignored;
    Ok(request)
}

fn edits(management: Option<Member<'_>>) -> Result<(), ApiError> {
    let Some(management) = management else { return Ok(()) };
    for edit in management.members()?.list("edits")?.unwrap_or_default() {
        edit.members()?.need("type")?.word(&EDITS)?;
    }
    Ok(())
}

/// The effort, and the format of the answer, which `output_format` may have too.
fn output_config<'a>(
    members: &mut Members<'a>,
    ignored: &mut Ignored,
) -> Result<(Option<Member<'a>>, Option<Member<'a>>), ApiError> {
    let format = members.take("output_format");
    let Some(config) = members.take("output_config") else { return Ok((None, format)) };
    let mut config = config.members()?;
    let (effort, own) = (config.take("effort"), config.take("format"));
    ignored.add(config);
    Ok((effort, own.or(format)))
}

#[derive(Clone, Copy)]
enum Role {
    System,
    User,
    Assistant,
}

const ROLES: [(&str, Role); 3] = [("user", Role::User), ("assistant", Role::Assistant), ("system", Role::System)];

/// Adds the messages that a message is: one, and one for each result of a tool.
fn message(member: &Member<'_>, history: &mut History, ignored: &mut Ignored) -> Result<(), ApiError> {
    let mut members = member.members()?;
    let role = members.need("role")?.word(&ROLES)?;
    let content = members.need("content")?;
    ignored.add(members);
    match role {
        Role::System => {
            let mut message = PromptMessage::system("");
            message.content = texts(&content, ignored)?;
            history.add(message, &member.path)
        }
        Role::User => user(&content, &member.path, history, ignored),
        Role::Assistant => history.add(assistant(&content, ignored)?, &member.path),
    }
}

/// Texts and results, in their order.
fn user(content: &Member<'_>, path: &str, history: &mut History, ignored: &mut Ignored) -> Result<(), ApiError> {
    let said = |texts: Vec<Part<'static>>| {
        let mut message = PromptMessage::user("");
        message.content = texts;
        message
    };
    if content.is_string() {
        return history.add(said(texts(content, ignored)?), path);
    }
    let mut parts = Vec::new();
    let mut results = 0;
    for block in blocks(content)? {
        let mut members = block.members()?;
        let kind = members.need("type")?;
        if &*kind.text()? != "tool_result" {
            parts.push(text_of(&kind, members, ignored)?);
            continue;
        }
        if !parts.is_empty() {
            history.add(said(std::mem::take(&mut parts)), path)?;
        }
        let mut result = PromptMessage::tool(members.need_text("tool_use_id")?, "");
        result.content = texts_or_none(members.take("content"), ignored)?;
        let _: Option<bool> = members.read("is_error")?; // results are results
        members.pass(&["cache_control"]);
        ignored.add(members);
        history.add(result, &block.path)?;
        results += 1;
    }
    if results == 0 || !parts.is_empty() { history.add(said(parts), path) } else { Ok(()) }
}

fn assistant(content: &Member<'_>, ignored: &mut Ignored) -> Result<PromptMessage<'static>, ApiError> {
    let mut message = PromptMessage::assistant("");
    if content.is_string() {
        message.content = texts(content, ignored)?;
        return Ok(message);
    }
    message.content = Vec::new();
    for block in blocks(content)? {
        let mut members = block.members()?;
        let kind = members.need("type")?;
        match &*kind.text()? {
            "thinking" => {
                message.reasoning.to_mut().push_str(&members.need_text("thinking")?);
                members.pass(&["signature"]);
                ignored.add(members);
            }
            "redacted_thinking" => return Err(kind.wrong("another model's hidden thinking cannot be read here")),
            "tool_use" => {
                let (id, name) = (members.need_text("id")?, members.need_text("name")?);
                let input = members.need("input")?;
                let arguments = Arguments::Text(input.object()?.get().to_owned().into());
                members.pass(&["cache_control", "caller"]);
                ignored.add(members);
                message.tool_calls.push(PromptCall { id: Some(id.into()), name: name.into(), arguments });
            }
            "text" => message.content.push(text_of(&kind, members, ignored)?),
            other => return Err(kind.wrong(&cannot(other))),
        }
    }
    Ok(message)
}

fn blocks<'a>(content: &Member<'a>) -> Result<Vec<Member<'a>>, ApiError> {
    content.list().map_err(|_| content.wrong("must be a string, or a list of blocks"))
}
