//! The body of a Chat Completions request.
//!
//! In: bytes. Out: a [`Request`], or an error that names the member at fault. Nothing is held.

use kimi_xtml::{Part, PromptCall, PromptMessage};

use super::content::{is_empty, texts_or_none};
use super::history::{History, call};
use super::members::{Member, Members};
use super::tools::{Tools, choice};
use super::{Ignored, Policy, Request, StreamOptions, format, sampling, thinking, wrong};
use crate::error::ApiError;

/// What this server does not have.
const REFUSED: [(&str, &str); 14] = [
    ("functions", "is not taken: use tools"),
    ("function_call", "is not taken: use tool_choice"),
    ("audio", "this server makes no audio"),
    ("web_search_options", "this server searches nothing"),
    ("store", "this server keeps nothing"),
    ("background", "this server answers at once"),
    ("documents", "this server takes text, and no documents"),
    ("chat_template", "the model's own encoding is used"),
    ("echo", "the prompt is not repeated"),
    ("prompt_logprobs", "the prompt has no log-probabilities"),
    ("use_beam_search", "tokens are sampled"),
    ("mm_processor_kwargs", "this server takes text"),
    ("plugins", "this server has no plugins"),
    ("mcp_servers", "this server reaches no other servers"),
];
/// What changes nothing here, or only who is told of it.
const WITHOUT_EFFECT: [&str; 9] = [
    "metadata",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "request_id",
    "add_special_tokens",
    "skip_special_tokens",
    "spaces_between_special_tokens",
];

/// Reads the body of a Chat Completions request.
///
/// # Errors
/// If it is no JSON object, or for the first member that is wrong, or that cannot be served.
pub fn read(body: &[u8], policy: &Policy) -> Result<Request, ApiError> {
    let mut members = Members::of_body(body)?;
    let mut ignored = Ignored::default();
    let model = members.need_text("model")?;
    for (name, why) in REFUSED {
        members.refuse(name, why)?;
    }
    if let Some(modalities) = members.take("modalities") {
        modalities.list()?.iter().try_for_each(|one| one.word(&[("text", ())]))?;
    }
    members.take("verbosity").map_or(Ok(()), |verbosity| verbosity.word(&[("medium", ())]))?;

    let mut tools = Tools::default();
    let declared = members.take("tools").map(|list| tools.of_chat(&list)).transpose()?.flatten();
    let mut history = History::default();
    for member in members.need("messages")?.list()? {
        let message = message(&member, &mut tools, &mut ignored)?;
        history.add(message, &member.path)?;
    }
    if history.is_empty() {
        return Err(wrong("messages", "there must be a message"));
    }
    let add_stub: Option<bool> = members.read("add_generation_prompt")?;
    if members.read("continue_final_message")?.unwrap_or(false) {
        if add_stub == Some(true) {
            return Err(wrong("continue_final_message", "contradicts add_generation_prompt"));
        }
        let last = history.last_of_assistant();
        last.ok_or_else(|| wrong("continue_final_message", "the last message must be the assistant's"))?.partial = true;
    }

    let next_call = history.next_call();
    let (messages, paths) = history.into_parts();
    let mut request = Request::new(model, messages, paths);
    request.next_call = next_call;
    request.conversation.tools = declared;
    request.conversation.add_generation_prompt = add_stub.unwrap_or(true);
    request.choose(tools, choice(members.take("tool_choice"))?)?;
    request.parallel = members.read("parallel_tool_calls")?.unwrap_or(true);
    let thinking = thinking::of_chat(&mut members, &mut ignored)?;
    request.think(thinking);
    request.answer_as(format::of_chat(members.take("response_format"))?);
    request.sampling = sampling::sampling(&mut members, thinking, policy)?;
    request.choices = sampling::choices(&mut members, body.len(), policy)?;
    members.whole("best_of", 1..=1)?;
    request.stops = sampling::stops(members.take("stop"))?;
    request.logprobs = sampling::logprobs(&mut members)?;
    let max_tokens = members.whole("max_tokens", 1..=u64::MAX)?;
    request.max_tokens = members.whole("max_completion_tokens", 1..=u64::MAX)?.or(max_tokens);
    request.stream = members.read("stream")?.unwrap_or(false);
    if let Some(options) = members.take("stream_options") {
        request.options = stream_options(&options, &mut ignored)?;
    }
    members.pass(&WITHOUT_EFFECT);
    ignored.add(members);
    request.ignored = ignored;
    Ok(request)
}

fn stream_options(options: &Member<'_>, ignored: &mut Ignored) -> Result<StreamOptions, ApiError> {
    let mut members = options.members()?;
    let read = StreamOptions {
        include_usage: members.read("include_usage")?.unwrap_or(false),
        continuous_usage_stats: members.read("continuous_usage_stats")?.unwrap_or(false),
        include_internal_content: members.read("include_internal_content")?.unwrap_or(false),
    };
    members.pass(&["include_obfuscation"]);
    ignored.add(members);
    Ok(read)
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    System,
    User,
    Assistant,
    Tool,
}

const ROLES: [(&str, Role); 5] = [
    ("system", Role::System),
    ("developer", Role::System),
    ("user", Role::User),
    ("assistant", Role::Assistant),
    ("tool", Role::Tool),
];

fn message(member: &Member<'_>, tools: &mut Tools, ignored: &mut Ignored) -> Result<PromptMessage<'static>, ApiError> {
    let mut members = member.members()?;
    let role = members.need("role")?.word(&ROLES)?;
    let content = members.take("content");
    let content_at = format!("{}.content", member.path);
    let mut content = texts_or_none(content, ignored)?;
    let declared = members.take("tools");
    let mut message = match role {
        Role::System => PromptMessage::system(""),
        Role::User => PromptMessage::user(""),
        Role::Assistant => PromptMessage::assistant(""),
        Role::Tool => {
            let id = members.need("tool_call_id")?;
            PromptMessage::tool(id.text()?, "")
        }
    };
    if let Some(list) = &declared {
        if role != Role::System {
            return Err(list.wrong("only a system message declares tools"));
        }
        message.tools = tools.of_chat(list)?;
        if message.tools.is_some() && !is_empty(&content) {
            return Err(wrong(&content_at, "a message that declares tools says nothing else"));
        }
    }
    let (name, tool) = (members.text("name")?, if role == Role::Tool { members.text("tool")? } else { None });
    message.name = tool.or(name).map(Into::into);
    if role == Role::Assistant {
        members.refuse("function_call", "is not taken: use tool_calls")?;
        members.refuse("audio", "this server takes text, and no audio")?;
        if let Some(refusal) = members.text("refusal")? {
            content.push(Part::Text(refusal.into()));
        }
        let (said, alias) = (members.text("reasoning_content")?, members.text("reasoning")?);
        message.reasoning = said.filter(|said| !said.is_empty()).or(alias).unwrap_or_default().into();
        for member in members.list("tool_calls")?.unwrap_or_default() {
            message.tool_calls.push(tool_call(&member, ignored)?);
        }
        let partial: Option<bool> = members.read("partial")?;
        let prefix: Option<bool> = members.read("prefix")?;
        message.partial = partial.or(prefix).unwrap_or(false);
        // What the answers of this server and of others hold beside it.
        members.pass(&["annotations", "reasoning_details", "provider_specific_fields", "thinking_blocks"]);
    } else {
        members.refuse("tool_calls", "only the assistant's messages have calls")?;
        let path = format!("{}.partial", member.path);
        if members.read("partial")? == Some(true) {
            return Err(wrong(&path, "only a message of the assistant can be continued"));
        }
    }
    message.content = content;
    members.pass(&["cache_control"]);
    ignored.add(members);
    Ok(message)
}

fn tool_call(member: &Member<'_>, ignored: &mut Ignored) -> Result<PromptCall<'static>, ApiError> {
    let mut members = member.members()?;
    members.take("type").map_or(Ok(()), |kind| kind.word(&[("function", ())]))?;
    let id = members.text("id")?;
    let mut function = members.need("function")?.members()?;
    let name = function.need_text("name")?;
    let arguments = function.take("arguments");
    ignored.add(function);
    members.pass(&["index", "complete"]);
    ignored.add(members);
    call(id, name, arguments)
}
