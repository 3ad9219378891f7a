//! `inspect`: raw text or records in; for people, chunk by chunk, what came in, the events, the channel, what is held.
//!
//! It is the debugger and the form of a bug report, so it shows every byte: texts stand between ‹ and ›, and what a
//! terminal cannot show is made visible. `--record` prints the line of a case file instead.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use kimi_xtml::{Chat, Code, Event, IdPolicy, Marker, OwnedEvent, Parser, Request, Sink, Span, ToolChoice, coalesce};
use kimi_xtml_cli::cases::{self, Case, Choice, Context, Expected, ExpectedCall, Hex};
use kimi_xtml_cli::check::{accepted, difference};
use kimi_xtml_cli::play::{Delta, Outcome};
use kimi_xtml_cli::{show, view};

use super::{Input, records, stdout};
use crate::args::{Chunk, InspectArgs, RequestArgs, UndeclaredArg};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const MARKER: Style = AnsiColor::Cyan.on_default();
const REASONING: Style = AnsiColor::Blue.on_default();
const CONTENT: Style = AnsiColor::Green.on_default();
const ARGUMENTS: Style = AnsiColor::Magenta.on_default();
const LOST: Style = AnsiColor::Red.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();

pub(crate) fn run(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let mut out = stdout();
    let show = if args.full { show::quoted } else { show::shortened };
    if args.cases || args.id.is_some() || args.file.extension().is_some_and(|extension| extension == "jsonl") {
        let file = cases::name(&args.file);
        anyhow::ensure!(!args.record, "--record makes a case of a raw text; {file} has cases already");
        anyhow::ensure!(
            args.request == RequestArgs::default() && args.chunk == Chunk::Whole && args.finish == "stop",
            "{file} is a case file, whose records have a request, a finish reason and chunks of their own\n\
             Leave the options for them away; they are for raw texts."
        );
        let cases = records(&args.file, args.id.as_deref())?;
        if let Some(page) = &args.html {
            let [case] = &cases[..] else {
                anyhow::bail!("--html: a page shows one stream, and {file} has {}: name one with --id", cases.len());
            };
            return html(case, page);
        }
        for case in cases {
            let passing = if case.interleaved_choices.is_some() { Vec::new() } else { accepted(&case) };
            let mut page = Page { out: &mut out, show };
            page.title(&case.id, &case.kind, case.note.as_deref())?;
            page.stream(&case.context.request(), &case.deltas(), &case.context.engine_finish_reason, &passing)?;
        }
    } else {
        let mut input = Input::open(&args.file, args.chunk)?;
        let chunks: Vec<Vec<u8>> = std::iter::from_fn(|| input.next().transpose()).collect::<anyhow::Result<_>>()?;
        let request = args.request.request()?;
        if let Some(page) = &args.html {
            return html(&recorded(args, request, &chunks)?, page);
        }
        if args.record {
            serde_json::to_writer(&mut out, &recorded(args, request, &chunks)?).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            let deltas: Vec<_> = chunks.iter().map(|chunk| (0, Delta::Bytes(chunk))).collect();
            let mut page = Page { out: &mut out, show };
            page.title(&name(&args.file), "", None)?;
            page.stream(&request, &deltas, &args.finish, &[])?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a case: all of it, or none.
fn html(case: &Case, file: &Path) -> anyhow::Result<ExitCode> {
    let mut page = Vec::new();
    view::html(case, &mut page)?;
    std::fs::write(file, page).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// A case whose expected result is what the parser makes of the text now.
fn recorded(args: &InspectArgs, request: Request, chunks: &[Vec<u8>]) -> anyhow::Result<Case> {
    let options = &args.request;
    anyhow::ensure!(
        !options.no_separate_reasoning && !options.stream_json && options.undeclared == UndeclaredArg::Withhold,
        "--record and --html: a case file has no place for --no-separate-reasoning, --undeclared and --stream-json"
    );
    let mut parser = Parser::new(request);
    let mut chat = Chat::new(IdPolicy::numbered(0));
    for chunk in chunks {
        parser.push_bytes(chunk, &mut chat);
    }
    let reason = parser.finish(&args.finish, &mut chat).to_owned();
    let outcome = Outcome::new(chat.into_message().unwrap_or_default(), &reason);
    let texts: Option<Vec<String>> = chunks.iter().map(|chunk| String::from_utf8(chunk.clone()).ok()).collect();
    let bytes = texts.is_none().then(|| chunks.iter().cloned().map(Hex).collect());
    let call = |call: kimi_xtml_cli::play::Call| ExpectedCall {
        name: call.name,
        arguments_json: call.arguments,
        complete: call.complete,
    };
    Ok(Case {
        id: name(&args.file),
        kind: "recorded".into(),
        context: Context {
            tools: options.tools.clone(),
            tool_choice: Choice::Word(options.tool_choice.clone()),
            initial_channel: options.opened,
            engine_finish_reason: args.finish.clone(),
        },
        chunks: texts,
        byte_chunks_hex: bytes,
        expected: Some(Expected {
            reasoning: outcome.reasoning,
            content: outcome.content,
            tool_calls: outcome.tool_calls.into_iter().map(call).collect(),
            finish_reason: Some(outcome.finish_reason),
        }),
        ..Case::default()
    })
}

fn name(file: &Path) -> String {
    match file.file_stem() {
        Some(stem) if stem != "-" => stem.to_string_lossy().into_owned(),
        _ => "stdin".into(),
    }
}

fn choice(choice: &ToolChoice) -> &str {
    match choice {
        ToolChoice::Auto => "auto",
        ToolChoice::None => "none",
        ToolChoice::Required => "required",
        ToolChoice::Named(name) => name,
    }
}

/// Where a stream is shown.
struct Page<'a, W> {
    out: &'a mut W,
    show: fn(&str) -> String,
}

/// What is shown of one choice.
struct View {
    parser: Parser,
    seen: Seen,
}

/// The events since the last chunk, and the message.
#[derive(Default)]
struct Seen {
    events: Vec<(OwnedEvent, Span)>,
    chat: Chat,
}

impl Sink for Seen {
    fn event(&mut self, event: Event<'_>, span: Span) {
        self.chat.event(event, span.clone());
        self.events.event(event, span);
    }
}

impl<W: Write> Page<'_, W> {
    fn title(&mut self, id: &str, kind: &str, note: Option<&str>) -> io::Result<()> {
        let space = if kind.is_empty() { "" } else { " " };
        writeln!(self.out, "{BOLD}{}{BOLD:#}{space}{}", show::plain(id), show::plain(kind))?;
        if let Some(note) = note {
            writeln!(self.out, "     {DIM}{}{DIM:#}", show::plain(note))?;
        }
        Ok(())
    }

    fn stream(
        &mut self,
        request: &Request,
        deltas: &[(usize, Delta<'_>)],
        reason: &str,
        passing: &[Outcome],
    ) -> anyhow::Result<()> {
        self.request(request)?;
        let mut views = BTreeMap::new();
        let several = deltas.iter().any(|&(choice, _)| choice != 0);
        let label = |choice| if several { format!(" {DIM}choice {choice}{DIM:#}") } else { String::new() };
        let new = || View { parser: Parser::new(request.clone()), seen: Seen::default() };
        for (number, (choice, delta)) in (1..).zip(deltas) {
            let view = views.entry(*choice).or_insert_with(new);
            delta.push(&mut view.parser, &mut view.seen);
            let choice = label(*choice);
            self.chunk(number, *delta, &choice)?;
            self.events(&mut view.seen)?;
            self.state(&view.parser)?;
        }
        if deltas.is_empty() {
            views.insert(0, new());
        }
        for (choice, mut view) in views {
            let reason = view.parser.finish(reason, &mut view.seen).to_owned();
            let choice = label(choice);
            writeln!(self.out, "{BOLD} end{BOLD:#}{choice}")?;
            self.events(&mut view.seen)?;
            self.result(view, &reason, passing)?;
        }
        writeln!(self.out)?;
        Ok(())
    }

    fn request(&mut self, request: &Request) -> io::Result<()> {
        let opened = request.opened.map_or("nothing", |channel| channel.name());
        write!(self.out, "     {DIM}the prompt opened {opened}; ")?;
        match &request.tools[..] {
            [] => write!(self.out, "no tools")?,
            tools => {
                let (tools, choice) = (show::plain(&tools.join(", ")), show::plain(choice(&request.tool_choice)));
                write!(self.out, "tools {tools}; choice {choice}")?;
            }
        }
        writeln!(self.out, "{DIM:#}")
    }

    fn chunk(&mut self, number: usize, delta: Delta<'_>, choice: &str) -> io::Result<()> {
        let mut text = (self.show)(&delta.text());
        for marker in [Marker::Open, Marker::Close, Marker::Sep, Marker::EndOfMsg] {
            text = text.replace(marker.spelling(), &format!("{MARKER}{}{MARKER:#}", marker.spelling()));
        }
        let ids = match delta {
            Delta::Ids(_, ids) => format!(" {DIM}{ids:?}{DIM:#}"),
            _ => String::new(),
        };
        writeln!(self.out, "{BOLD}{number:4}{BOLD:#} {text}{ids}{choice}")
    }

    fn events(&mut self, seen: &mut Seen) -> io::Result<()> {
        for (event, span) in coalesce(seen.events.drain(..)) {
            let (style, name, detail) = self.describe(&event);
            let bytes = &span.bytes;
            let range =
                if bytes.is_empty() { bytes.start.to_string() } else { format!("{}..{}", bytes.start, bytes.end) };
            writeln!(self.out, "       {style}{name:<14}{style:#} {DIM}{range:<11}{DIM:#} {detail}")?;
        }
        Ok(())
    }

    /// The colour of an event, its name, and what it says.
    fn describe(&self, event: &OwnedEvent) -> (Style, &'static str, String) {
        let text = |text: &str| (self.show)(text);
        match event {
            OwnedEvent::Start(channel) => (DIM, "start", channel.name().into()),
            OwnedEvent::End(channel) => (DIM, "end", channel.name().into()),
            OwnedEvent::Reasoning(said) => (REASONING, "reasoning", text(said)),
            OwnedEvent::Content(said) => (CONTENT, "content", text(said)),
            OwnedEvent::CallStart { call, name } => {
                (ARGUMENTS, "call-start", format!("#{call} {}", name.escape_debug()))
            }
            OwnedEvent::ArgumentStart { call, key, kind, json } => {
                let key = key.as_deref().map_or_else(String::new, |key| format!(" {}", key.escape_debug()));
                (ARGUMENTS, "argument-start", format!("#{call}{key}, {}: {}", kind.name(), text(json)))
            }
            OwnedEvent::Arguments { call, json } => (ARGUMENTS, "arguments", format!("#{call} {}", text(json))),
            OwnedEvent::ArgumentEnd { call, json, closed } => {
                let closed = if *closed { "closed" } else { "not closed" };
                (ARGUMENTS, "argument-end", format!("#{call} {closed}: {}", text(json)))
            }
            OwnedEvent::CallEnd { call, json, complete } => {
                let complete = if *complete { "complete" } else { "incomplete" };
                (ARGUMENTS, "call-end", format!("#{call} {complete}: {}", text(json)))
            }
            OwnedEvent::Withheld(raw) => (LOST, "withheld", text(raw)),
            OwnedEvent::Dropped(raw) => (LOST, "dropped", text(raw)),
            OwnedEvent::Markup(raw) => (DIM, "markup", text(raw)),
            OwnedEvent::Diagnostic(code) => (WARN, "diagnostic", format!("{WARN}{code}{WARN:#}")),
            other => (WARN, "event", format!("{other:?}")),
        }
    }

    fn state(&mut self, parser: &Parser) -> io::Result<()> {
        let channel = parser.channel().map_or("no channel", |channel| channel.name());
        let held = parser.held();
        let held = if held.is_empty() { String::new() } else { format!(", held {}", (self.show)(&held)) };
        writeln!(self.out, "     {DIM}→{DIM:#} {channel}{held}")
    }

    fn result(&mut self, view: View, reason: &str, passing: &[Outcome]) -> io::Result<()> {
        let outcome = Outcome::new(view.seen.chat.into_message().unwrap_or_default(), reason);
        writeln!(self.out, "     finish_reason {}", show::plain(reason))?;
        for (style, name, text) in
            [(REASONING, "reasoning", &outcome.reasoning), (CONTENT, "content", &outcome.content)]
        {
            if !text.is_empty() {
                writeln!(self.out, "     {style}{name}{style:#} {}", (self.show)(text))?;
            }
        }
        for call in &outcome.tool_calls {
            let cut = if call.complete { "" } else { ", incomplete" };
            let arguments = (self.show)(&call.arguments);
            writeln!(self.out, "     {ARGUMENTS}call{ARGUMENTS:#} {} {arguments}{cut}", call.name.escape_debug())?;
        }
        self.accounts(&view.parser)?;
        match passing {
            [] => Ok(()),
            _ => match difference(passing, &outcome) {
                None => writeln!(self.out, "     {CONTENT}as expected{CONTENT:#}"),
                Some(difference) => {
                    writeln!(self.out, "     {LOST}not as expected{LOST:#}")?;
                    difference.lines().try_for_each(|line| writeln!(self.out, "       {line}"))
                }
            },
        }
    }

    /// Where the bytes went, and what the events did not tell.
    fn accounts(&mut self, parser: &Parser) -> io::Result<()> {
        let report = parser.report();
        let bytes = report.bytes;
        let kinds = [
            ("reasoning", bytes.reasoning),
            ("content", bytes.content),
            ("arguments", bytes.arguments),
            ("markup", bytes.markup),
            ("withheld", bytes.withheld),
            ("dropped", bytes.dropped),
        ];
        let kinds = kinds.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}"));
        writeln!(self.out, "     {DIM}{} bytes: {}{DIM:#}", bytes.input, kinds.collect::<Vec<_>>().join(", "))?;
        let silent =
            report.diagnostics.iter().filter(|met| matches!(met.code, Code::InvalidUtf8 | Code::IdWithoutText));
        silent.into_iter().try_for_each(|met| {
            let (code, count, first) = (met.code, met.count, met.first);
            writeln!(self.out, "     {WARN}{code}{WARN:#} {count}, the first at {first}")
        })
    }
}
