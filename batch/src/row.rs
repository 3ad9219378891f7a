//! One output -> one row.
//!
//! In: an output and the engine's finish reason. Out: a [`Row`]. Held: the parser, for the next output.

use std::borrow::Cow;

use kimi_xtml::{Channel, Chat, Counts, IdPolicy, Marker, Noted, Parser, Request, Sink, ToolCall};
use serde::{Serialize, Serializer};

/// What a model generated, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// Text that may contain markers.
    Text(Cow<'a, str>),
    /// The same as bytes, of which some may be no UTF-8.
    Bytes(Cow<'a, [u8]>),
    /// Text and its ids, which tell the markers that are real.
    WithIds(Cow<'a, str>, Vec<u32>),
    /// Each token's text and id.
    Tokens(Vec<(String, u32)>),
}

impl Output<'_> {
    /// Bytes of its text.
    pub fn len(&self) -> usize {
        match self {
            Output::Text(text) | Output::WithIds(text, _) => text.len(),
            Output::Bytes(bytes) => bytes.len(),
            Output::Tokens(tokens) => tokens.iter().map(|(text, _)| text.len()).sum(),
        }
    }

    /// Whether it has no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&self, parser: &mut Parser, sink: &mut impl Sink) {
        match self {
            Output::Text(text) => parser.push(text, sink),
            Output::Bytes(bytes) => parser.push_bytes(bytes, sink),
            Output::WithIds(text, ids) => parser.push_with_ids(text, ids, sink),
            Output::Tokens(tokens) => tokens.iter().for_each(|(text, id)| parser.push_token(text, *id, sink)),
        }
    }

    /// The channel that its first tag says was open.
    fn opened(&self) -> Option<Channel> {
        match self {
            Output::Text(text) | Output::WithIds(text, _) => opened_by_text(text),
            Output::Bytes(bytes) => opened_by_text(&String::from_utf8_lossy(bytes)),
            Output::Tokens(tokens) => {
                let marker = |&(_, id): &(String, u32)| Marker::from_id(id);
                let at = tokens.iter().position(|token| marker(token).is_some()).unwrap_or(tokens.len());
                let (_, tag) = tokens.split_at(at);
                let name = tag.iter().skip(1).take_while(|token| marker(token) != Some(Marker::Sep));
                let name: String = name.map(|(text, _)| &**text).collect();
                channel(tag.first().and_then(marker), &name, at > 0)
            }
        }
    }
}

/// How the channel is known that the prompt left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It is in the request.
    Known,
    /// The output's first tag tells: a channel that it closes was open. Text before a first tag that opens one, and text
    /// without a tag, is taken for the answer: it may as well be reasoning that was cut.
    Auto,
}

fn opened_by_text(text: &str) -> Option<Channel> {
    let mut rest = text;
    while let Some(at) = rest.find("<|") {
        let tag = &rest[at..];
        let marker = [Marker::Open, Marker::Close].into_iter().find(|marker| tag.starts_with(marker.spelling()));
        if let Some(marker) = marker
            && let Some((name, _)) = tag[marker.spelling().len()..].split_once(Marker::Sep.spelling())
            && ["think", "response", "tools", "call", "argument", "json", "message"].contains(&first_word(name))
        {
            return channel(Some(marker), name, !text[..text.len() - tag.len()].trim().is_empty());
        }
        rest = &tag[2..];
    }
    channel(None, "", !text.is_empty())
}

fn first_word(name: &str) -> &str {
    name.split_whitespace().next().unwrap_or_default()
}

/// What was open before a tag: what it closes, if it closes.
fn channel(marker: Option<Marker>, name: &str, has_text: bool) -> Option<Channel> {
    match (marker, first_word(name)) {
        (Some(Marker::Close), "think") => Some(Channel::Think),
        (Some(Marker::Close), "tools") | (Some(Marker::Open), "call") => Some(Channel::Tools),
        _ => has_text.then_some(Channel::Response),
    }
}

/// What an output says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The reasoning, joined; none if there was no think channel.
    pub reasoning: Option<String>,
    /// The answer, joined.
    pub content: String,
    /// The calls, in order, incomplete ones too.
    #[serde(serialize_with = "calls")]
    pub tool_calls: Vec<ToolCall>,
    /// The engine's finish reason, or `tool_calls`.
    pub finish_reason: String,
    /// Where each byte of the output went.
    pub bytes: Counts,
    /// Where each token went, where ids were given.
    pub tokens: Option<Counts>,
    /// Each deviation from the format that was met.
    pub diagnostics: Vec<Noted>,
}

/// Reads outputs of one request.
#[derive(Debug)]
pub struct Reader {
    request: Request,
    opened: Opened,
    parser: Parser,
    call_ids: Option<usize>,
}

impl Reader {
    /// A reader of outputs of this request. Ids of calls are random.
    pub fn new(request: Request, opened: Opened) -> Self {
        Reader { parser: Parser::new(request.clone()), request, opened, call_ids: None }
    }

    /// Makes the ids of calls `{name}_{index}`; in each output the index begins with `start`.
    #[must_use]
    pub fn numbered(mut self, start: Option<usize>) -> Self {
        self.call_ids = start;
        self
    }

    /// What an output says that ended for this reason.
    pub fn read(&mut self, output: &Output<'_>, reason: &str) -> Row {
        if self.opened == Opened::Auto {
            self.request.opened = output.opened();
        }
        self.parser.reset(self.request.clone());
        let mut chat = Chat::new(self.call_ids.map_or_else(IdPolicy::random, IdPolicy::numbered));
        output.push(&mut self.parser, &mut chat);
        let reason = self.parser.finish(reason, &mut chat);
        let report = self.parser.report();
        let message = chat.into_message().unwrap_or_default();
        Row {
            reasoning: message.thinks().then_some(message.reasoning),
            content: message.content,
            tool_calls: message.tool_calls,
            finish_reason: reason.into(),
            bytes: report.bytes,
            tokens: report.tokens,
            diagnostics: report.diagnostics,
        }
    }
}

/// Each call as one object: `id`, `name`, `arguments`, `complete`.
fn calls<S: Serializer>(calls: &[ToolCall], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Call<'a> {
        id: &'a str,
        name: &'a str,
        arguments: &'a str,
        complete: bool,
    }
    serializer.collect_seq(calls.iter().map(|call| Call {
        id: &call.id,
        name: &call.name,
        arguments: &call.arguments,
        complete: call.complete,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(text: &str) -> Option<Channel> {
        Output::Text(text.into()).opened()
    }

    #[test]
    fn the_first_real_tag_tells_what_was_open() {
        assert_eq!(opened("Hm <|close|>think<|sep|><|open|>response<|sep|>"), Some(Channel::Think));
        assert_eq!(opened("<|close|>think<|sep|>"), Some(Channel::Think));
        assert_eq!(opened("4<|close|>response<|sep|>"), Some(Channel::Response));
        assert_eq!(opened("<|open|>call tool=\"ls\" index=\"1\"<|sep|>"), Some(Channel::Tools));
        assert_eq!(opened("<|open|>think<|sep|>Hm"), None);
        assert_eq!(opened("a <|close|>b<|sep|> c <|close|>think<|sep|>"), Some(Channel::Think));
        assert_eq!(opened("text alone"), Some(Channel::Response));
        assert_eq!(opened(""), None);
    }

    #[test]
    fn by_ids_a_quoted_tag_is_none() {
        let close = ("<|close|>".to_owned(), Marker::Close.id());
        let sep = ("<|sep|>".to_owned(), Marker::Sep.id());
        let token = |text: &str| (text.to_owned(), 7);
        let quoted = [token("<|close|>"), token("response"), token("<|sep|>"), close, token("think"), sep];
        assert_eq!(Output::Tokens(quoted.into()).opened(), Some(Channel::Think));
    }

    #[test]
    fn a_row_is_json() {
        let request = Request::new().opened(Channel::Think).tools(["ls"]);
        let text =
            "<|close|>think<|sep|><|open|>tools<|sep|><|open|>call tool=\"ls\" index=\"1\"<|sep|><|close|>call<|sep|>";
        let mut reader = Reader::new(request, Opened::Known).numbered(Some(3));
        let row = reader.read(&Output::Text(text.into()), "stop");
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json["reasoning"], "");
        assert_eq!(
            json["tool_calls"],
            serde_json::json!([{"id": "ls_3", "name": "ls", "arguments": "{}", "complete": true}])
        );
        assert_eq!(json["finish_reason"], "tool_calls");
        assert_eq!((row.bytes.input, row.tokens), (text.len() as u64, None));
        assert_eq!(reader.read(&Output::Bytes(b"a\xff".into()), "length").content, "");
    }
}
