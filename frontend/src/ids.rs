//! Ids of responses.
//!
//! In: the time. Out: 24 hex digits that sort by it, as an ObjectId has them: seconds, five bytes that differ from
//! process to process, a count. Held: the count.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::now;

/// The id of a chat completion.
pub fn chat_completion() -> String {
    format!("chatcmpl-{}", object_id())
}

/// 24 hex digits.
pub fn object_id() -> String {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()) >> 24);
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) & 0xff_ffff;
    format!("{:08x}{:010x}{count:06x}", now() as u32, *PROCESS)
}
