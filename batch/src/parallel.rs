//! Work on many items, on several threads, in order.
//!
//! The threads live as long as the call: a process that forks between two calls takes no broken pool along.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{panic, thread};

/// What `work` makes of each item, in their order. Each thread has what `start` gives it, and takes the next item when it is
/// done with one. With one thread, or one item, no thread is started.
///
/// ```
/// let lengths = kimi_xtml_batch::in_parallel(&["a", "bcd"], 2, || (), |(), text| text.len());
/// assert_eq!(lengths, [1, 3]);
/// ```
pub fn in_parallel<I: Sync, S, O: Send>(
    items: &[I],
    threads: usize,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &I) -> O + Sync,
) -> Vec<O> {
    if threads.min(items.len()) < 2 {
        let mut state = start();
        return items.iter().map(|item| work(&mut state, item)).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let mut state = start();
        let mut done = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(at)
        {
            done.push((at, work(&mut state, item)));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(items.len())).map(|_| scope.spawn(run)).collect();
        let mut done = run();
        for other in others {
            done.extend(other.join().unwrap_or_else(|fault| panic::resume_unwind(fault)));
        }
        done
    });
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, output)| output).collect()
}
