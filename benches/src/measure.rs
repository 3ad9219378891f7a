//! Time: of the best of many rounds, so that other work on the machine counts least.

use std::time::{Duration, Instant};

/// The time of the best round within about `budget`; of three at least.
pub fn best(budget: Duration, mut round: impl FnMut()) -> Duration {
    let started = Instant::now();
    let mut best = Duration::MAX;
    let mut rounds = 0;
    while rounds < 3 || started.elapsed() < budget {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed());
        rounds += 1;
    }
    best
}
