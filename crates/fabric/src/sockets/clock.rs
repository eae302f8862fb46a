//! Time, as the provider needs it: how long a dial takes is a matter of the network and not of the caller's clock.
use std::time::{Duration, Instant};

/// Nanoseconds since the provider was opened, and what they are on the caller's clock.
#[derive(Debug)]
pub(super) struct Clock {
    start: Instant,
    /// Caller's time at the last tick, and ours then.
    last: Option<(u64, u64)>,
}

impl Clock {
    pub fn new() -> Self {
        // A little in the past, so that "never" (0) is long ago from the beginning.
        let start = Instant::now();
        Clock { start: start.checked_sub(Duration::from_secs(1)).unwrap_or(start), last: None }
    }

    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The caller says what time it is.
    pub fn tick(&mut self, caller_ns: u64) {
        self.last = Some((caller_ns, self.now_ns()));
    }

    /// One of our times on the caller's clock; the beginning of time as long as it has never said what time it is.
    pub fn for_caller(&self, due_ns: u64) -> u64 {
        self.last.map_or(0, |(caller, ours)| caller.saturating_add(due_ns.saturating_sub(ours)))
    }
}
