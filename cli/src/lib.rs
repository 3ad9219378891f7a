//! What the command-line tool is made of, for tests and for other tools.
//!
//! In: case files, one recorded stream a line, and chunkings. Out: what a parser made of the streams, and how that
//! differs from what was expected.

pub mod cases;
pub mod check;
pub mod chunking;
pub mod lines;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod oracle;
pub mod output;
pub mod play;
pub mod record;
pub mod show;
pub mod view;
