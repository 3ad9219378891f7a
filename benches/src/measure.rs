//! Time: of the best of many rounds, so that other work on the machine counts least.

use std::time::{Duration, Instant};

/// The sum of the best times of `count` parts, which take turns: as many rounds as go into about `budget`, three at least.
pub fn best(budget: Duration, count: usize, mut part: impl FnMut(usize)) -> Duration {
    let started = Instant::now();
    let mut best = vec![Duration::MAX; count];
    let mut rounds = 0;
    while rounds < 3 || started.elapsed() < budget {
        for (number, best) in best.iter_mut().enumerate() {
            let start = Instant::now();
            part(number);
            *best = start.elapsed().min(*best);
        }
        rounds += 1;
    }
    best.iter().sum()
}
