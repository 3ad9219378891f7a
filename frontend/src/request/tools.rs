//! The declared tools, and which of them may be called.
//!
//! In: the tools of a request and of its system messages, in each API's form, and the tool choice. Out: what the prompt
//! declares, what may be called, and the choice. Held: the tools so far; no name is declared twice.

use std::collections::HashSet;

use kimi_xtml::{Json, ToolChoice};
use serde_json::value::RawValue;

use super::Ignored;
use super::history::json;
use super::members::{Member, Members};
use crate::engine::Tool;
use crate::error::{ApiError, short};

/// The longest name of a tool, in characters.
const LONGEST: usize = 256;

/// The tools so far.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    declared: Vec<Tool>,
    names: HashSet<String>,
}

/// A tool choice, before it is known which tools there are.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    choice: ToolChoice,
    /// Where the choice stands.
    path: String,
    /// The only tools that may be called.
    allowed: Option<Vec<String>>,
}

impl Tools {
    /// Declares the tools of a Chat Completions request, or of one of its system messages. The prompt has them as they
    /// are spelled; an empty list declares nothing.
    pub(crate) fn of_chat(&mut self, list: &Member<'_>) -> Result<Option<Json<'static>>, ApiError> {
        let tools = list.list()?;
        for tool in &tools {
            let mut members = tool.members()?;
            members.need("type")?.word(&[("function", ())]).map_err(|error| hosted(error, "tools"))?;
            self.function(members.need("function")?.members()?, "parameters")?;
        }
        if tools.is_empty() { Ok(None) } else { json(list).map(Some) }
    }

    /// Declares the tools of a Messages request. The prompt has them as Chat Completions would spell them.
    pub(crate) fn of_messages(
        &mut self,
        list: &Member<'_>,
        ignored: &mut Ignored,
    ) -> Result<Option<Json<'static>>, ApiError> {
        let mut spelled = Vec::new();
        for tool in list.list()? {
            let mut members = tool.members()?;
            if let Some(kind) = members.take("type") {
                kind.word(&[("custom", ())]).map_err(|error| hosted(error, "tools"))?;
            }
            members.refuse("defer_loading", "tools are not loaded later: declare them at once")?;
            let (name, description) = (members.need("name")?, members.take("description"));
            let parameters = members.take("input_schema");
            let strict = members.read("strict")?;
            members.pass(&["cache_control", "eager_input_streaming", "input_examples", "allowed_callers"]);
            ignored.add(members);
            self.declare(&name, name.text()?, parameters.as_ref(), strict)?;
            spelled.push(spelling(&name.text()?, description.as_ref(), parameters.as_ref())?);
        }
        joined(&spelled, list)
    }

    /// Declares the tools of a Responses request, those within `namespace` tools too, whose names are the namespace's and
    /// their own, joined.
    pub(crate) fn of_responses(
        &mut self,
        list: &Member<'_>,
        ignored: &mut Ignored,
    ) -> Result<Option<Json<'static>>, ApiError> {
        let mut spelled = Vec::new();
        for tool in list.list()? {
            let mut members = tool.members()?;
            let kind = members.need("type")?;
            match &*kind.text()? {
                "function" => spelled.push(self.flat(members, None, ignored)?),
                "namespace" => {
                    let space = members.need_text("name")?;
                    let tools = members.list("tools")?.unwrap_or_default();
                    members.pass(&["description"]);
                    ignored.add(members);
                    for tool in tools {
                        let mut members = tool.members()?;
                        let kind = members.need("type")?;
                        kind.word(&[("function", ())]).map_err(|error| hosted(error, "tools"))?;
                        spelled.push(self.flat(members, Some(&space), ignored)?);
                    }
                }
                other => {
                    let named = short(other, 40);
                    return Err(kind.wrong(&format!("this server has no `{named}` tools, only functions")));
                }
            }
        }
        joined(&spelled, list)
    }

    /// A function of a Responses request.
    fn flat(
        &mut self,
        mut members: Members<'_>,
        space: Option<&str>,
        ignored: &mut Ignored,
    ) -> Result<String, ApiError> {
        let (name, description) = (members.need("name")?, members.take("description"));
        let parameters = members.take("parameters");
        let strict = members.read("strict")?;
        members.refuse("defer_loading", "tools are not loaded later: declare them at once")?;
        ignored.add(members);
        let own = name.text()?;
        let whole = space.map_or_else(|| own.clone(), |space| in_namespace(space, &own));
        self.declare(&name, whole.clone(), parameters.as_ref(), strict)?;
        if let (Some(space), Some(tool)) = (space, self.declared.last_mut()) {
            tool.space = Some((space.to_owned(), own));
        }
        spelling(&whole, description.as_ref(), parameters.as_ref())
    }

    /// A function as Chat Completions declares it.
    fn function(&mut self, mut members: Members<'_>, parameters: &str) -> Result<(), ApiError> {
        let name = members.need("name")?;
        members.text("description")?;
        let parameters = members.take(parameters);
        let strict = members.read("strict")?;
        self.declare(&name, name.text()?, parameters.as_ref(), strict)
    }

    fn declare(
        &mut self,
        at: &Member<'_>,
        name: String,
        parameters: Option<&Member<'_>>,
        strict: Option<bool>,
    ) -> Result<(), ApiError> {
        check_name(at, &name)?;
        if !self.names.insert(name.clone()) {
            return Err(at.wrong(&format!("the tool `{name}` is declared twice")));
        }
        let parameters = parameters.map(|parameters| parameters.object().map(RawValue::to_owned)).transpose()?;
        self.declared.push(Tool { name, parameters, strict: strict.unwrap_or(false), space: None });
        Ok(())
    }

    /// The tools that may be called by this choice.
    pub(crate) fn choose(self, chosen: Chosen) -> Result<(Vec<Tool>, ToolChoice), ApiError> {
        let Chosen { choice, path, allowed } = chosen;
        let mut tools = self.declared;
        let wrong = |why: String| Err(ApiError::param(&path, format!("{path}: {why}")));
        if choice == ToolChoice::Required && tools.is_empty() {
            return wrong("a call is required, but no tools are declared".into());
        }
        let named = if let ToolChoice::Named(name) = &choice { Some(name) } else { None };
        if let Some(name) = allowed.iter().flatten().chain(named).find(|name| !self.names.contains(*name)) {
            return wrong(format!("names the tool `{name}`, which is not declared"));
        }
        if let Some(allowed) = &allowed {
            tools.retain(|tool| allowed.contains(&tool.name));
        }
        Ok((tools, choice))
    }
}

/// A namespace's name and a tool's own, as the model knows the tool.
pub(crate) fn in_namespace(space: &str, name: &str) -> String {
    let between = if space.ends_with('_') { "" } else { "__" };
    format!("{space}{between}{name}")
}

/// A letter or `_`, then letters, digits, `_` and `-`.
fn check_name(at: &Member<'_>, name: &str) -> Result<(), ApiError> {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let goes_on = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if begins && goes_on && name.len() <= LONGEST {
        return Ok(());
    }
    Err(at.wrong(&format!(
        "a tool's name begins with a letter or `_` and has letters, digits, `_` and `-`, at most {LONGEST}"
    )))
}

/// Tools that are no functions are told of as such.
fn hosted(error: ApiError, what: &str) -> ApiError {
    ApiError { message: format!("{}: this server has no other {what}", error.message), ..error }
}

/// A function as Chat Completions spells it.
fn spelling(name: &str, description: Option<&Member<'_>>, parameters: Option<&Member<'_>>) -> Result<String, ApiError> {
    let mut spelled = format!("{{\"type\":\"function\",\"function\":{{\"name\":\"{name}\"");
    if let Some(description) = description {
        description.text()?;
        spelled += &format!(",\"description\":{}", description.raw.get());
    }
    if let Some(parameters) = parameters {
        spelled += &format!(",\"parameters\":{}", parameters.object()?.get());
    }
    spelled += "}}";
    Ok(spelled)
}

fn joined(spelled: &[String], list: &Member<'_>) -> Result<Option<Json<'static>>, ApiError> {
    if spelled.is_empty() {
        return Ok(None);
    }
    Json::new(format!("[{}]", spelled.join(","))).map(Some).map_err(|error| list.wrong(&error.to_string()))
}

const WORDS: [(&str, Word); 3] = [("auto", Word::Auto), ("none", Word::None), ("required", Word::Required)];

#[derive(Clone, Copy)]
enum Word {
    Auto,
    None,
    Required,
}

impl From<Word> for ToolChoice {
    fn from(word: Word) -> Self {
        match word {
            Word::Auto => ToolChoice::Auto,
            Word::None => ToolChoice::None,
            Word::Required => ToolChoice::Required,
        }
    }
}

/// A `tool_choice` of Chat Completions or Responses: a word, a function, or some allowed tools.
pub(crate) fn choice(member: Option<Member<'_>>) -> Result<Chosen, ApiError> {
    let Some(member) = member else { return Ok(Chosen::default()) };
    let path = member.path.clone();
    if !member.is_object() {
        return Ok(Chosen { choice: member.word(&WORDS)?.into(), path, allowed: None });
    }
    let mut members = member.members()?;
    let kind = members.need("type")?;
    match &*kind.text()? {
        "function" => Ok(Chosen { choice: ToolChoice::Named(function_name(members)?), path, allowed: None }),
        "allowed_tools" => {
            let mut allowed = match members.take("allowed_tools") {
                Some(allowed) => allowed.members()?,
                None => members,
            };
            let mode = allowed.need("mode")?.word(&[("auto", Word::Auto), ("required", Word::Required)])?;
            let mut names = Vec::new();
            for tool in allowed.need("tools")?.list()? {
                let mut members = tool.members()?;
                members.need("type")?.word(&[("function", ())])?;
                names.push(function_name(members)?);
            }
            Ok(Chosen { choice: mode.into(), path, allowed: Some(names) })
        }
        _ => Err(kind.wrong("a tool choice names a function, or allowed_tools")),
    }
}

/// `function.name`, or `name` where the function is not wrapped.
fn function_name(mut members: Members<'_>) -> Result<String, ApiError> {
    match members.take("function") {
        Some(function) => function.members()?.need_text("name"),
        None => members.need_text("name"),
    }
}

/// A `tool_choice` of Messages, and whether more than one call may come.
pub(crate) fn choice_of_messages(member: Option<Member<'_>>) -> Result<(Chosen, bool), ApiError> {
    let Some(member) = member else { return Ok((Chosen::default(), true)) };
    let mut members = member.members()?;
    let kind = members.need("type")?;
    let choice = match &*kind.text()? {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Named(members.need_text("name")?),
        _ => return Err(kind.wrong("must be auto, any, none or tool")),
    };
    let one: Option<bool> = members.read("disable_parallel_tool_use")?;
    Ok((Chosen { choice, path: member.path, allowed: None }, !one.unwrap_or(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(tools: &str) -> Result<Tools, ApiError> {
        let body = format!("{{\"tools\":{tools}}}");
        let mut tools = Tools::default();
        tools.of_chat(&Members::of_body(body.as_bytes()).unwrap().need("tools").unwrap())?;
        Ok(tools)
    }

    #[test]
    fn names_are_the_vendors() {
        let named = |name: &str| chat(&format!(r#"[{{"type": "function", "function": {{"name": "{name}"}}}}]"#));
        let longest = "n".repeat(LONGEST);
        for name in ["f", "_f", "F-1_2", &longest] {
            assert!(named(name).is_ok(), "{name}");
        }
        for name in ["", "2f", "-f", "f.g", "f g", "é", &(longest.clone() + "n")] {
            assert_eq!(named(name).unwrap_err().param.unwrap(), "tools[0].function.name", "{name}");
        }
    }

    #[test]
    fn what_is_no_function_is_refused() {
        for (tools, param) in [
            (r#"{}"#, "tools"),
            (r#"[4]"#, "tools[0]"),
            (r#"[{"function": {"name": "f"}}]"#, "tools[0].type"),
            (r#"[{"type": "retrieval"}]"#, "tools[0].type"),
            (r#"[{"type": "function"}]"#, "tools[0].function"),
            (r#"[{"type": "function", "function": {}}]"#, "tools[0].function.name"),
            (r#"[{"type": "function", "function": {"name": 4}}]"#, "tools[0].function.name"),
            (r#"[{"type": "function", "function": {"name": "f", "parameters": []}}]"#, "tools[0].function.parameters"),
            (r#"[{"type": "function", "function": {"name": "f", "strict": 1}}]"#, "tools[0].function.strict"),
            (
                r#"[{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}]"#,
                "tools[1].function.name",
            ),
        ] {
            assert_eq!(chat(tools).unwrap_err().param.as_deref(), Some(param), "{tools}");
        }
    }

    #[test]
    fn choices_name_what_is_declared() {
        let two =
            r#"[{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}]"#;
        let chosen = |tools: &str, choice: &str| {
            let body = format!("{{\"tool_choice\":{choice}}}");
            let choice = self::choice(Members::of_body(body.as_bytes()).unwrap().take("tool_choice"))?;
            let (tools, choice) = chat(tools)?.choose(choice)?;
            Ok::<_, ApiError>((tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>(), choice))
        };
        let both = vec!["f".to_owned(), "g".to_owned()];
        assert_eq!(chosen(two, "null").unwrap(), (both.clone(), ToolChoice::Auto));
        assert_eq!(chosen(two, r#""required""#).unwrap(), (both.clone(), ToolChoice::Required));
        assert_eq!(chosen("[]", r#""none""#).unwrap(), (vec![], ToolChoice::None));
        let named = r#"{"type": "function", "function": {"name": "g"}}"#;
        assert_eq!(chosen(two, named).unwrap().1, ToolChoice::Named("g".into()));
        for allowed in [
            r#"{"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}}"#,
            r#"{"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]}"#,
        ] {
            assert_eq!(chosen(two, allowed).unwrap(), (vec!["g".to_owned()], ToolChoice::Required));
        }
        for (tools, choice, param) in [
            ("[]", r#""required""#, "tool_choice"),
            (two, r#""perhaps""#, "tool_choice"),
            (two, "4", "tool_choice"),
            (two, r#"{"type": "function", "function": {"name": "h"}}"#, "tool_choice"),
            (two, r#"{"type": "custom", "custom": {"name": "f"}}"#, "tool_choice.type"),
            (
                two,
                r#"{"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "h"}]}"#,
                "tool_choice",
            ),
        ] {
            assert_eq!(chosen(tools, choice).unwrap_err().param.as_deref(), Some(param), "{choice}");
        }
    }
}
