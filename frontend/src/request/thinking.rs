//! Whether the model thinks, and how much.
//!
//! In: the members of a request that say so, each API's and each client's own. Out: [`Thinking`]. Nothing is held.
//! Kimi K3 knows the efforts low, high and max. Where clients of other models name theirs, `minimal` is low, `medium` is
//! high, and `none` turns thinking off.

use kimi_xtml::Effort;

use super::Ignored;
use super::members::{Member, Members};
use crate::error::ApiError;

/// Whether the model thinks, and how much; no effort is none that the prompt would tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thinking {
    pub(crate) on: bool,
    pub(crate) effort: Option<Effort>,
}

const EFFORTS: [(&str, Effort); 3] = [("low", Effort::Low), ("high", Effort::High), ("max", Effort::Max)];
/// What other models' clients say; none: no thinking.
const OTHERS: [(&str, Option<Effort>); 6] = [
    ("low", Some(Effort::Low)),
    ("high", Some(Effort::High)),
    ("max", Some(Effort::Max)),
    ("minimal", Some(Effort::Low)),
    ("medium", Some(Effort::High)),
    ("none", None),
];

/// What the members of a Chat Completions request say, under all their names.
#[derive(Default)]
struct Said {
    on: Option<bool>,
    /// In the vendor's words. Some of none: no effort is told.
    effort: Option<Option<Effort>>,
    /// In other models' words.
    reasoning: Option<Option<Effort>>,
}

/// What a Chat Completions request says: `thinking`, `enable_thinking`, `thinking_effort`, `reasoning_effort`,
/// `reasoning`, and the same in `chat_template_kwargs`.
pub(crate) fn of_chat(request: &mut Members<'_>, ignored: &mut Ignored) -> Result<Thinking, ApiError> {
    let body = said(request, ignored)?;
    let template = match request.take("chat_template_kwargs") {
        Some(template) => {
            let mut members = template.members()?;
            let template = said(&mut members, ignored)?;
            ignored.add(members);
            template
        }
        None => Said::default(),
    };
    let reasoning = body.reasoning.or(template.reasoning);
    let effort = body.effort.or(template.effort);
    let on = body.on.or(template.on);
    if on == Some(true) && effort.is_none() && reasoning == Some(None) {
        return Err(ApiError::param("reasoning_effort", "reasoning_effort is none, but thinking is enabled"));
    }
    let on = on.unwrap_or(effort.is_some() || reasoning != Some(None));
    let effort = effort.or(reasoning).unwrap_or(Some(Effort::Max));
    Ok(Thinking { on, effort })
}

fn said(members: &mut Members<'_>, ignored: &mut Ignored) -> Result<Said, ApiError> {
    let mut said = Said::default();
    if let Some(thinking) = members.take("thinking") {
        if thinking.is_object() {
            let mut thinking = thinking.members()?;
            let on = thinking.take("type").map(|kind| kind.word(&[("enabled", true), ("disabled", false)]));
            said.on = Some(on.transpose()?.unwrap_or(true));
            let (effort, keep) = (thinking.take("effort"), thinking.take("keep"));
            if said.on == Some(true) {
                said.effort = effort.map(|effort| effort.word(&EFFORTS).map(Some)).transpose()?;
                keep.map_or(Ok(()), |keep| keep.word(&[("all", ())]))?;
            }
            thinking.pass(&["budget_tokens"]);
            ignored.add(thinking);
        } else {
            said.on = Some(thinking.boolean().map_err(|_| thinking.wrong("must be an object with a type"))?);
        }
    }
    let enabled: Option<bool> = members.read("enable_thinking")?;
    said.on = said.on.or(enabled);
    let effort = members.take_even_null("thinking_effort");
    let reasoning = [members.take("reasoning_effort"), of_reasoning(members, &mut said, ignored)?];
    if said.on == Some(false) {
        return Ok(said); // no effort counts
    }
    if let (Some(effort), None) = (effort, said.effort) {
        said.effort = Some(if effort.is_null() { None } else { Some(effort.word(&EFFORTS)?) });
    }
    for effort in reasoning.into_iter().flatten() {
        let effort = effort.word(&OTHERS)?;
        said.reasoning.get_or_insert(effort);
    }
    Ok(said)
}

/// `reasoning: {"effort", "enabled"}`, which gateways have.
fn of_reasoning<'a>(
    members: &mut Members<'a>,
    said: &mut Said,
    ignored: &mut Ignored,
) -> Result<Option<Member<'a>>, ApiError> {
    let Some(reasoning) = members.take("reasoning") else { return Ok(None) };
    let mut reasoning = reasoning.members()?;
    let enabled: Option<bool> = reasoning.read("enabled")?;
    said.on = said.on.or(enabled);
    let effort = reasoning.take("effort");
    ignored.add(reasoning);
    Ok(effort)
}

/// What a Messages request says: `thinking` and the effort of `output_config`. It thinks only when asked to.
pub(crate) fn of_messages(
    thinking: Option<Member<'_>>,
    effort: Option<Member<'_>>,
    ignored: &mut Ignored,
) -> Result<Thinking, ApiError> {
    let effort = effort.map(|effort| effort.word(&OTHERS)).transpose()?.unwrap_or(Some(Effort::Max));
    let Some(thinking) = thinking else { return Ok(Thinking { on: false, effort }) };
    let mut members = thinking.members()?;
    let kinds = [("enabled", true), ("adaptive", true), ("disabled", false)];
    let on = members.need("type")?.word(&kinds)?;
    members.whole("budget_tokens", 1..=u64::MAX)?;
    members.pass(&["display"]);
    ignored.add(members);
    Ok(Thinking { on: on && effort.is_some(), effort })
}

/// What a Responses request says: the effort of `reasoning`.
pub(crate) fn of_responses(reasoning: Option<Member<'_>>, ignored: &mut Ignored) -> Result<Thinking, ApiError> {
    let mut effort = Some(Effort::Max);
    if let Some(reasoning) = reasoning {
        let mut members = reasoning.members()?;
        if let Some(said) = members.take("effort") {
            effort = said.word(&OTHERS)?;
        }
        members.pass(&["summary", "generate_summary"]); // the reasoning itself comes, which says more
        ignored.add(members);
    }
    Ok(Thinking { on: effort.is_some(), effort })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(body: &str) -> Result<(bool, Option<Effort>), String> {
        let mut members = Members::of_body(body.as_bytes()).unwrap();
        let thinking = of_chat(&mut members, &mut Ignored::default());
        thinking.map(|thinking| (thinking.on, thinking.effort)).map_err(|error| error.param.unwrap())
    }

    #[test]
    fn every_name_of_thinking_and_effort() {
        for (body, on, effort) in [
            ("{}", true, Some(Effort::Max)),
            (r#"{"thinking": {"type": "enabled"}}"#, true, Some(Effort::Max)),
            (r#"{"thinking": {"type": "enabled", "effort": "low", "keep": "all"}}"#, true, Some(Effort::Low)),
            (r#"{"thinking": {"effort": "high"}, "reasoning_effort": "low"}"#, true, Some(Effort::High)),
            (r#"{"thinking": {"type": "disabled", "effort": "enormous", "keep": 4}}"#, false, Some(Effort::Max)),
            (r#"{"thinking": {"type": "disabled"}, "reasoning_effort": "enormous"}"#, false, Some(Effort::Max)),
            (r#"{"reasoning_effort": "none"}"#, false, None),
            (r#"{"reasoning_effort": "minimal"}"#, true, Some(Effort::Low)),
            (r#"{"reasoning_effort": "medium"}"#, true, Some(Effort::High)),
            (r#"{"reasoning": {"effort": "low"}}"#, true, Some(Effort::Low)),
            (r#"{"thinking_effort": null}"#, true, None),
            (r#"{"chat_template_kwargs": {"thinking": false}}"#, false, Some(Effort::Max)),
            (r#"{"chat_template_kwargs": {"enable_thinking": false}}"#, false, Some(Effort::Max)),
            (r#"{"chat_template_kwargs": {"thinking_effort": "low"}}"#, true, Some(Effort::Low)),
            (
                r#"{"thinking": {"type": "enabled"}, "chat_template_kwargs": {"thinking": false}}"#,
                true,
                Some(Effort::Max),
            ),
        ] {
            assert_eq!(chat(body), Ok((on, effort)), "{body}");
        }
    }

    #[test]
    fn other_words_are_refused() {
        for (body, param) in [
            (r#"{"thinking": {"type": "maybe"}}"#, "thinking.type"),
            (r#"{"thinking": {"type": "enabled", "effort": "enormous"}}"#, "thinking.effort"),
            (r#"{"thinking": {"effort": "medium"}}"#, "thinking.effort"),
            (r#"{"thinking": {"keep": "some"}}"#, "thinking.keep"),
            (r#"{"thinking": 4}"#, "thinking"),
            (r#"{"reasoning_effort": "enormous"}"#, "reasoning_effort"),
            (r#"{"thinking": {"type": "enabled"}, "reasoning_effort": "none"}"#, "reasoning_effort"),
            (r#"{"thinking_effort": "medium"}"#, "thinking_effort"),
            (r#"{"chat_template_kwargs": {"thinking_effort": 1}}"#, "chat_template_kwargs.thinking_effort"),
            (r#"{"chat_template_kwargs": 1}"#, "chat_template_kwargs"),
        ] {
            assert_eq!(chat(body), Err(param.into()), "{body}");
        }
    }
}
