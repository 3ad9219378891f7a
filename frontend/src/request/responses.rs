//! The body of a Responses request.
//!
//! In: bytes. Out: a [`Request`], and the members that its response repeats, or an error that names the member at fault.
//! Nothing is held, and no response is kept: a conversation comes whole.

use kimi_xtml::{Part, PromptMessage};
use serde_json::{Map, Value, json};

use super::content::{texts, texts_or_none};
use super::history::{History, call};
use super::members::{Member, Members};
use super::tools::{Tools, choice, in_namespace};
use super::{Ignored, Policy, Request, format, sampling, thinking, wrong};
use crate::error::{ApiError, short};

/// What this server does not have.
const REFUSED: [(&str, &str); 7] = [
    ("previous_response_id", "this server keeps no responses: send the conversation"),
    ("conversation", "this server keeps no conversations: send them"),
    ("store", "this server keeps nothing"),
    ("background", "this server answers at once"),
    ("prompt", "this server keeps no prompts: send the input"),
    ("context_management", "this server compacts nothing"),
    ("top_logprobs", "this API has no log-probabilities here"),
];
/// What changes nothing here, or only who is told of it.
const WITHOUT_EFFECT: [&str; 8] = [
    "metadata",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "client_metadata",
    "max_tool_calls",
    "stream_options",
];

/// Reads the body of a Responses request. Gives, beside the request, the members that its response repeats.
///
/// # Errors
/// If it is no JSON object, or for the first member that is wrong, or that cannot be served.
pub fn read(body: &[u8], policy: &Policy) -> Result<(Request, Map<String, Value>), ApiError> {
    let mut members = Members::of_body(body)?;
    let mut ignored = Ignored::default();
    let model = members.need_text("model")?;
    let repeated = repeated(&mut Members::of_body(body)?)?;
    members.take("top_logprobs").map_or(Ok(0), |top| top.whole(0..=0))?;
    for (name, why) in REFUSED {
        members.refuse(name, why)?;
    }
    members.take("truncation").map_or(Ok(()), |truncation| truncation.word(&[("disabled", ())]))?;
    for include in members.list("include")?.unwrap_or_default() {
        // A reasoning item has its text, which is what is sent back.
        include.word(&[("reasoning.encrypted_content", ())])?;
    }

    let mut history = History::default();
    if let Some(instructions) = members.text("instructions")? {
        history.add(PromptMessage::system(instructions), "instructions")?;
    }
    let input = members.need("input")?;
    if input.is_string() {
        history.add(PromptMessage::user(input.text()?), "input")?;
    } else {
        let items = input.list().map_err(|_| input.wrong("must be a string, or a list of items"))?;
        for member in &items {
            item(member, &mut history, &mut ignored)?;
        }
        if items.is_empty() {
            return Err(wrong("input", "there must be an input"));
        }
    }

    let next_call = history.next_call();
    let (messages, paths) = history.into_parts();
    let mut request = Request::new(model, messages, paths);
    request.next_call = next_call;
    let mut tools = Tools::default();
    let declared = members.take("tools").map(|list| tools.of_responses(&list, &mut ignored)).transpose()?;
    request.conversation.tools = declared.flatten();
    request.choose(tools, choice(members.take("tool_choice"))?)?;
    request.parallel = members.read("parallel_tool_calls")?.unwrap_or(true);
    let thinking = thinking::of_responses(members.take("reasoning"), &mut ignored)?;
    request.think(thinking);
    if let Some(text) = members.take("text") {
        let mut text = text.members()?;
        request.answer_as(format::of_responses(text.take("format"))?);
        text.take("verbosity").map_or(Ok(()), |verbosity| verbosity.word(&[("medium", ())]))?;
        ignored.add(text);
    }
    request.sampling = sampling::sampling(&mut members, thinking, policy)?;
    request.max_tokens = members.whole("max_output_tokens", 1..=u64::MAX)?;
    request.stream = members.read("stream")?.unwrap_or(false);
    members.pass(&WITHOUT_EFFECT);
    ignored.add(members);
    request.ignored = ignored;
    Ok((request, repeated))
}

#[derive(Clone, Copy, PartialEq)]
enum Who {
    System,
    User,
    Assistant,
}

const ROLES: [(&str, Who); 4] =
    [("system", Who::System), ("developer", Who::System), ("user", Who::User), ("assistant", Who::Assistant)];

/// Adds an item: a message, or a part of the assistant's turn that the items around it belong to.
fn item(member: &Member<'_>, history: &mut History, ignored: &mut Ignored) -> Result<(), ApiError> {
    let mut members = member.members()?;
    let kind = members.take("type");
    members.pass(&["id", "status", "phase"]);
    let kind_said = kind.as_ref().map_or_else(|| Ok("message".to_owned()), Member::text)?;
    let mut of_assistant = PromptMessage::assistant("");
    of_assistant.content = Vec::new();
    match &*kind_said {
        "message" => {
            let role = members.need("role")?.word(&ROLES)?;
            let content = texts(&members.need("content")?, ignored)?;
            ignored.add(members);
            let mut message = match role {
                Who::System => PromptMessage::system(""),
                Who::User => PromptMessage::user(""),
                Who::Assistant => of_assistant,
            };
            message.content = content;
            if role == Who::Assistant {
                history.go_on(message, &member.path)
            } else {
                history.add(message, &member.path)
            }
        }
        "reasoning" => {
            of_assistant.reasoning = reasoning(&mut members, ignored)?.into();
            ignored.add(members);
            history.go_on(of_assistant, &member.path)
        }
        "function_call" => {
            let (id, own) = (members.need_text("call_id")?, members.need_text("name")?);
            let name = members.text("namespace")?.map_or_else(|| own.clone(), |space| in_namespace(&space, &own));
            of_assistant.tool_calls.push(call(Some(id), name, members.take("arguments"))?);
            ignored.add(members);
            history.go_on(of_assistant, &member.path)
        }
        "function_call_output" => {
            let mut result = PromptMessage::tool(members.need_text("call_id")?, "");
            result.content = texts_or_none(members.take("output"), ignored)?;
            ignored.add(members);
            history.add(result, &member.path)
        }
        other => {
            let named = short(other, 40);
            let kind = kind.unwrap_or_else(|| member.clone());
            Err(kind.wrong(&format!("items of the type `{named}` are not taken: this server has only functions")))
        }
    }
}

/// The reasoning of an item: its text, else its summary.
fn reasoning(members: &mut Members<'_>, ignored: &mut Ignored) -> Result<String, ApiError> {
    let content = texts_or_none(members.take("content"), ignored)?;
    let summary = texts_or_none(members.take("summary"), ignored)?;
    let said = if content.is_empty() { summary } else { content };
    let texts: Vec<String> = said
        .into_iter()
        .filter_map(|part| if let Part::Text(text) = part { Some(text.into_owned()) } else { None })
        .collect();
    if texts.is_empty() {
        members.refuse("encrypted_content", "another model's hidden reasoning cannot be read here")?;
    } else {
        members.pass(&["encrypted_content"]);
    }
    Ok(texts.concat())
}

/// The members of a request that its response repeats.
fn repeated(members: &mut Members<'_>) -> Result<Map<String, Value>, ApiError> {
    let mut repeated = Map::new();
    for (key, default) in [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", json!(true)),
        ("previous_response_id", Value::Null),
        ("temperature", json!(1.0)),
        ("text", json!({"format": {"type": "text"}})),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("top_p", json!(1.0)),
    ] {
        repeated.insert(key.into(), members.read(key)?.unwrap_or(default));
    }
    repeated.insert("store".into(), json!(false));
    Ok(repeated)
}
