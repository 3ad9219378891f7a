//! Whole outputs as rows.
//!
//! In: outputs as text, bytes or tokens, and what the parser must know of their request. Out: a [`Row`] for each, in order;
//! with the feature `arrow`, columns of them. Held: one parser a thread.
//!
//! ```
//! use kimi_xtml::{Channel, Request};
//! use kimi_xtml_batch::{Opened, Output, Reader, in_parallel};
//!
//! let outputs = ["Hm.<|close|>think<|sep|><|open|>response<|sep|>4", "Cut"];
//! let rows: Vec<_> = in_parallel(&outputs, 2, || Reader::new(Request::new(), Opened::Auto), |reader, output| {
//!     reader.read(&Output::Text((*output).into()), "stop")
//! });
//! assert_eq!((rows[0].reasoning.as_deref(), &*rows[0].content), (Some("Hm."), "4"));
//! assert_eq!((rows[1].reasoning.as_deref(), &*rows[1].content), (None, "Cut"));
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "arrow")]
mod columns;
mod parallel;
mod row;

#[cfg(feature = "arrow")]
pub use columns::{LONGEST, columns, schema};
pub use parallel::in_parallel;
pub use row::{Opened, Output, Reader, Row};
