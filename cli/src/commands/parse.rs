//! `parse`: one raw text in; its message, events, deltas or frames out, as the text comes in.

use std::io::Write;
use std::process::ExitCode;

use kimi_xtml::Parser;
use kimi_xtml_cli::output::{Format, Output};

use super::Input;
use crate::args::ParseArgs;

pub(crate) fn run(args: &ParseArgs) -> anyhow::Result<ExitCode> {
    let mut parser = Parser::new(args.request.request()?);
    let format = Format::from(args.output.format);
    let mut output = Output::new(format, args.output.call_ids.policy(), 0);
    let mut input = Input::open(&args.file, args.chunk)?;
    let mut out = std::io::stdout().lock();
    while let Some(chunk) = input.next()? {
        parser.push_bytes(&chunk, &mut output);
        output.write(&mut out)?;
    }
    let reason = parser.finish(&args.finish, &mut output);
    output.finish(&parser, reason, &mut out)?;
    format.end(&mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
