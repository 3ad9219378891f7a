//! `prompt`: a Chat Completions request in; its prompt out: as text, pieces or token ids, or coloured for people.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::Context;
use kimi_xtml::{Conversation, Label, Marker, Piece, Prompt, encode};
use kimi_xtml_cli::{cases, show};
use kimi_xtml_tokenizer::Tokenizer;
use serde::Serialize;
use serde_json::json;

use super::{stdout, text};
use crate::args::PromptArgs;

pub(crate) fn run(args: &PromptArgs) -> anyhow::Result<ExitCode> {
    let body = text(&args.file)?;
    let read = Conversation::from_json(body.trim_start_matches('\u{feff}'));
    let name = || cases::name(&args.file);
    let mut conversation = read.with_context(name)?;
    conversation.partial_mode = !args.no_partial;
    let prompt = encode(&conversation).with_context(name)?;
    let tokenizer = args.tokenizer.as_ref().map(Tokenizer::open).transpose()?;
    let plain = anstream::AutoStream::choice(&io::stdout()) == anstream::ColorChoice::Never;
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.pieces {
        pieces(&prompt, &mut out)?;
    } else if let (true, Some(tokenizer)) = (args.ids, &tokenizer) {
        writeln!(out, "{}", json!(tokenizer.encode_pieces(&prompt.pieces)))?;
        out.flush()?;
    } else if let (true, Some(tokenizer)) = (args.count, &tokenizer) {
        let ids = tokenizer.count_pieces(&prompt.pieces);
        writeln!(out, "{}", json!({"ids": ids, "prompt_tokens": ids - prompt.unbilled}))?;
        out.flush()?;
    } else if plain && !io::stdout().is_terminal() {
        // As it is: `stdout()` would take terminal escapes out of it.
        out.write_all(prompt.text().as_bytes())?;
        out.flush()?;
    } else {
        drop(out);
        coloured(&prompt, &mut stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
enum Line<'a> {
    #[serde(rename = "c")]
    Control(&'a str),
    #[serde(rename = "t")]
    Text(&'a str),
}

fn pieces(prompt: &Prompt<'_>, out: &mut impl Write) -> io::Result<()> {
    for piece in &prompt.pieces {
        let spelling = piece.spelling();
        let line = if piece.is_control() { Line::Control(spelling) } else { Line::Text(spelling) };
        serde_json::to_writer(&mut *out, &line)?;
        writeln!(out)?;
    }
    out.flush()
}

const CONTROL: Style = AnsiColor::Cyan.on_default();
const TAG: Style = Style::new().dimmed();

/// The prompt for people: a message ends its line.
fn coloured(prompt: &Prompt<'_>, out: &mut impl Write) -> io::Result<()> {
    let (mut in_tag, mut after_text) = (false, false);
    for (piece, &label) in prompt.pieces.iter().zip(&prompt.labels) {
        let style = match piece {
            Piece::Text(_) if in_tag && label != Label::CallName => TAG,
            Piece::Text(_) => style(label),
            _ => CONTROL,
        };
        if let Piece::Marker(marker) = piece {
            in_tag = matches!(marker, Marker::Open | Marker::Close);
        }
        let is_text = !piece.is_control() && !in_tag;
        if is_text && after_text {
            write!(out, "{TAG}│{TAG:#}")?;
        }
        after_text = is_text;
        write!(out, "{style}{}{style:#}", show::lines(piece.spelling()))?;
        if *piece == Piece::Marker(Marker::EndOfMsg) {
            writeln!(out)?;
        }
    }
    writeln!(out)?;
    out.flush()
}

fn style(label: Label) -> Style {
    match label {
        Label::Reasoning => AnsiColor::Blue.on_default(),
        Label::Content => AnsiColor::Green.on_default(),
        Label::CallName => AnsiColor::Magenta.on_default().bold(),
        Label::Argument => AnsiColor::Magenta.on_default(),
        _ => Style::new(),
    }
}
