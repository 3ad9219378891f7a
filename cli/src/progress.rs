//! A progress bar on standard error: on a terminal only, and only once the work has taken a while.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that ends sooner shows no bar.
const PATIENCE: Duration = Duration::from_millis(500);

pub(crate) struct Progress {
    bar: ProgressBar,
    hidden: Option<Instant>,
}

impl Progress {
    /// A bar for `len` units of work; none at all where `wanted` is false.
    pub(crate) fn new(len: usize, unit: &str, wanted: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(len as u64), ProgressDrawTarget::hidden());
        if let Ok(style) =
            ProgressStyle::with_template(&format!("{{elapsed}} {{wide_bar}} {{pos}}/{{len}} {unit}, {{eta}} left"))
        {
            bar.set_style(style);
        }
        Progress { bar, hidden: wanted.then(Instant::now) }
    }

    pub(crate) fn advance(&mut self, by: usize) {
        if self.hidden.is_some_and(|since| since.elapsed() > PATIENCE) {
            self.hidden = None;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(by as u64);
    }

    /// Prints while the bar is out of the way.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
