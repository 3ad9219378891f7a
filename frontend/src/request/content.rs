//! The texts of a message.
//!
//! In: `content`, `output` or `system` of a message of any of the APIs: a string, or parts with a type. Out: texts, each
//! of which the prompt holds as a piece of its own. Nothing is held. What is no text is refused, never left out.

use kimi_xtml::Part;

use super::Ignored;
use super::members::{Member, Members};
use crate::error::{ApiError, short};

/// The texts of a content.
pub(crate) fn texts(content: &Member<'_>, ignored: &mut Ignored) -> Result<Vec<Part<'static>>, ApiError> {
    if content.is_string() {
        return Ok(vec![Part::Text(content.text()?.into())]);
    }
    let parts = content.list().map_err(|_| content.wrong("must be a string, or a list of parts"))?;
    parts.iter().map(|part| text(part, ignored)).collect()
}

/// The same; what is absent says nothing.
pub(crate) fn texts_or_none(
    content: Option<Member<'_>>,
    ignored: &mut Ignored,
) -> Result<Vec<Part<'static>>, ApiError> {
    content.map_or_else(|| Ok(Vec::new()), |content| texts(&content, ignored))
}

/// The text of a part.
pub(crate) fn text(part: &Member<'_>, ignored: &mut Ignored) -> Result<Part<'static>, ApiError> {
    let mut members = part.members()?;
    let kind = members.need("type")?;
    text_of(&kind, members, ignored)
}

/// The text of a part whose type was taken.
pub(crate) fn text_of(
    kind: &Member<'_>,
    mut members: Members<'_>,
    ignored: &mut Ignored,
) -> Result<Part<'static>, ApiError> {
    let said = match &*kind.text()? {
        "text" | "input_text" | "output_text" | "summary_text" | "reasoning_text" => members.need_text("text")?,
        "refusal" => members.need_text("refusal")?,
        other => return Err(kind.wrong(&cannot(other))),
    };
    members.pass(&["cache_control", "citations", "annotations", "logprobs"]); // of prompts they say nothing
    ignored.add(members);
    Ok(Part::Text(said.into()))
}

/// Why a part of this type is refused.
pub(crate) fn cannot(kind: &str) -> String {
    let what = match kind {
        "image" | "image_url" | "input_image" => "images",
        "input_audio" | "audio" | "audio_url" => "audio",
        "video" | "video_url" | "input_video" => "videos",
        "file" | "input_file" | "document" | "container_upload" => "files and documents: send their text",
        _ => return format!("parts of the type `{}` are not taken here", short(kind, 40)),
    };
    format!("this server takes text, and no {what}")
}

/// Whether the texts say anything.
pub(crate) fn is_empty(parts: &[Part<'_>]) -> bool {
    parts.iter().all(|part| matches!(part, Part::Text(text) if text.is_empty()))
}
