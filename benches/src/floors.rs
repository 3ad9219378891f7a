//! What any parser must do at least: the floors.
//!
//! In: deltas. Out: the work done on each of them, as simply as libraries do it.

use std::hint::black_box;

/// A piece of work that no parser can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// Looking for each `<`.
    Memchr,
    /// Copying into a reused buffer.
    Copy,
    /// Escaping for JSON into a reused buffer, by `json-escape-simd`: the floor of string arguments.
    Escape,
    /// The same by `serde_json`, for comparison.
    Serde,
}

impl Floor {
    /// All of them.
    pub const ALL: [Floor; 4] = [Floor::Memchr, Floor::Copy, Floor::Escape, Floor::Serde];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Floor::Memchr => "memchr",
            Floor::Copy => "copy",
            Floor::Escape => "JSON escaping (json-escape-simd)",
            Floor::Serde => "JSON escaping (serde_json)",
        }
    }

    /// Does it to each delta.
    pub fn run(self, deltas: &[&str], buffer: &mut Vec<u8>) {
        for delta in deltas {
            buffer.clear();
            match self {
                Floor::Memchr => memchr::memchr_iter(b'<', delta.as_bytes()).for_each(|at| {
                    black_box(at);
                }),
                Floor::Copy => buffer.extend_from_slice(delta.as_bytes()),
                Floor::Escape => json_escape_simd::escape_into(delta, buffer),
                Floor::Serde => serde_json::to_writer(&mut *buffer, delta).expect("memory takes what is written"),
            }
            black_box(&buffer[..]);
        }
    }
}
