//! Warnings of what an engine seems to do wrong.
//!
//! In: what a parser reports of a turn that has ended. Out: a line of the log, once a kind. Held: which were said.

use std::sync::Once;

use kimi_xtml::{Channel, Code, Report};

/// Looks at a turn that the engine ended for this reason.
pub(crate) fn about(opened: Option<Channel>, reason: &str, report: &Report) {
    static STRIPPED: Once = Once::new();
    static MISFIT: Once = Once::new();
    if opened == Some(Channel::Think) && reason == "stop" && report.bytes.input > 0 && report.bytes.markup == 0 {
        STRIPPED.call_once(|| {
            tracing::warn!(
                "a thinking turn had no marker: does the engine strip special tokens? It must keep them \
                 (skip_special_tokens: false; llama.cpp: --special)"
            );
        });
    }
    if report.diagnostics.iter().any(|noted| noted.code == Code::IdWithoutText) {
        MISFIT.call_once(|| {
            tracing::warn!("the engine's token ids fit no text of it: --upstream-ids ignore leaves them out");
        });
    }
}
