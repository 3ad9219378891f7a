//! Message -> XTML: what the model generates for it, the inverse of parsing.
//!
//! In: a [`Message`] and the channel that the prompt left open. Out: the pieces that [`encode`](crate::encode) writes for
//! the message as history, from that channel on. Nothing is held.

use std::iter;

use super::message::Given;
use super::piece::{Label, Piece, Writer};
use crate::Message;
use crate::event::Channel;
use crate::marker::Marker;

/// The bytes that the parser reads a header of, its control token counted.
const MAX_HEADER: usize = 16 << 10;

/// A message that the format has no form for.
///
/// ```
/// use kimi_xtml::{Channel, Message, RenderError, render};
///
/// let thought = Message::new().with_reasoning("Hm.");
/// let error = render(&thought, Some(Channel::Response)).unwrap_err();
/// assert_eq!(error, RenderError::BeforeOpened { channel: Channel::Think, opened: Channel::Response });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The message has reasoning or an answer, whose channel comes before the one that the prompt left open.
    #[error("the message has text for the {} channel, which comes before the open {} channel", .channel.name(), .opened.name())]
    BeforeOpened {
        /// The channel that can no longer be opened.
        channel: Channel,
        /// The channel that the prompt left open.
        opened: Channel,
    },
    /// A call has no name, or a name or a key that is too long for a header (16 KiB).
    #[error("call {call} has no name, or a name or key that no header takes")]
    CallName {
        /// The call's ordinal, from 0 on.
        call: usize,
    },
}

/// What the model generates for `message` after a prompt that left `opened` open.
///
/// Parsing it gives the message back, if its texts spell no control token; see [`render_pieces`] for those that do.
/// Channels are written also if they are empty. Values of arguments keep their spelling; arguments that are no JSON object
/// go into a `json` block as they are. Ids are not on the wire; neither is whether a call is complete: rendered, it is.
///
/// ```
/// use kimi_xtml::{Channel, Message, ToolCall, render};
///
/// let call = ToolCall::new("ls", r#"{"path":"/tmp"}"#);
/// let message = Message::new().with_reasoning("Look.").with_tool_call(call);
/// assert_eq!(
///     render(&message, Some(Channel::Think))?,
///     "Look.<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|>\
///      <|open|>tools<|sep|><|open|>call tool=\"ls\" index=\"1\"<|sep|>\
///      <|open|>argument key=\"path\" type=\"string\"<|sep|>/tmp<|close|>argument<|sep|>\
///      <|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>"
/// );
/// # Ok::<(), kimi_xtml::RenderError>(())
/// ```
///
/// # Errors
/// If the message has no form: see [`RenderError`].
pub fn render(message: &Message, opened: Option<Channel>) -> Result<String, RenderError> {
    let pieces = render_pieces(message, opened)?;
    Ok(pieces.iter().map(Piece::spelling).collect())
}

/// [`render`], with control tokens told from text that spells them. Given to
/// [`Parser::push_text`](crate::Parser::push_text) and [`Parser::push_marker`](crate::Parser::push_marker), any
/// message comes back.
///
/// # Errors
/// If the message has no form: see [`RenderError`].
///
/// ```
/// use kimi_xtml::{Channel, Message, Piece, render_pieces};
///
/// let message = Message::new().with_content("<|sep|>");
/// let pieces = render_pieces(&message, Some(Channel::Response))?;
/// assert_eq!(pieces[0], Piece::Text("<|sep|>".into()));
/// # Ok::<(), kimi_xtml::RenderError>(())
/// ```
pub fn render_pieces(message: &Message, opened: Option<Channel>) -> Result<Vec<Piece<'_>>, RenderError> {
    for (channel, text) in [(Channel::Think, &message.reasoning), (Channel::Response, &message.content)] {
        // In the order of the wire, which is that of the variants.
        if let Some(opened) = opened.filter(|&opened| (channel as u8) < opened as u8 && !text.is_empty()) {
            return Err(RenderError::BeforeOpened { channel, opened });
        }
    }
    let mut writer = Writer::new();
    writer.tags = Label::Markup;
    writer.repeats_openers = true;
    let content = iter::once(Piece::Text((&*message.content).into()));
    let calls = message.tool_calls.iter().map(|call| (&*call.name, Given::Text(&call.arguments)));
    writer.generated(opened, &message.reasoning, content, calls);
    match unreadable(message, &writer.pieces) {
        Some(call) => Err(RenderError::CallName { call }),
        None => Ok(writer.pieces),
    }
}

/// The call of the first header that the parser does not read: without a name, or too long.
fn unreadable(message: &Message, pieces: &[Piece<'_>]) -> Option<usize> {
    let nameless = message.tool_calls.iter().position(|call| call.name.is_empty());
    let mut calls = 0;
    let mut header = 0;
    let too_long = pieces.iter().zip(pieces.iter().skip(1)).find_map(|(piece, next)| {
        match piece {
            Piece::Marker(Marker::Sep) if header > MAX_HEADER => return Some(calls - 1),
            Piece::Marker(_) => {
                header = 0;
                calls += usize::from(*piece == Piece::Marker(Marker::Open) && next.spelling() == "call");
            }
            _ => {}
        }
        header += piece.spelling().len();
        None
    });
    nameless.into_iter().chain(too_long).min()
}
