//! When to ask again: intervals that double, start at what round trips have taken so far, and are jittered.
//!
//! The *interval* has a cap, the count has none: a peer that computes for an hour outside the library is
//! not dead, and a request every quarter of a second costs nothing.

/// The shortest first interval.
pub(super) const FIRST_MIN_NS: u64 = 1_000_000;
/// The longest first interval: one peer that was slow to answer must not delay the repair of every loss.
pub(super) const FIRST_MAX_NS: u64 = 16_000_000;
/// The longest interval.
pub(super) const INTERVAL_MAX_NS: u64 = 250_000_000;

/// The estimate of the round trip, and the chance that keeps peers from asking in step.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    round_trip_ns: Option<u64>,
    chance: u64,
}

impl Pace {
    pub(super) fn new(seed: u64) -> Self {
        Self { round_trip_ns: None, chance: seed }
    }

    /// A request was answered after this long.
    pub(super) fn sample(&mut self, took_ns: u64) {
        let took_ns = took_ns.min(INTERVAL_MAX_NS);
        // Weight 1/8, as TCP (RFC 6298).
        self.round_trip_ns = Some(match self.round_trip_ns {
            Some(known) => known - known / 8 + took_ns / 8,
            None => took_ns,
        });
    }

    /// How long to wait for an answer to the request number `attempt` (0 is the first): between half and all
    /// of twice the round trip, doubled each time.
    pub(super) fn wait_ns(&mut self, attempt: u32) -> u64 {
        // 2^8 times the shortest first interval is past the cap.
        let interval = (self.first_ns() << attempt.min(8)).min(INTERVAL_MAX_NS);
        interval - self.draw() % (interval / 2)
    }

    /// Twice the round trip, within limits.
    pub(super) fn first_ns(&self) -> u64 {
        let first = self.round_trip_ns.map_or(FIRST_MIN_NS, |round_trip| 2 * round_trip);
        first.clamp(FIRST_MIN_NS, FIRST_MAX_NS)
    }

    /// splitmix64: any seed will do, and two seeds next to each other give unrelated numbers.
    fn draw(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.chance;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_grow_to_the_cap_and_stay_under_it() {
        let mut pace = Pace::new(7);
        for attempt in 0..1000 {
            let wait = pace.wait_ns(attempt);
            assert!((FIRST_MIN_NS / 2..=INTERVAL_MAX_NS).contains(&wait), "attempt {attempt}: {wait}");
            assert!(attempt < 8 || wait >= INTERVAL_MAX_NS / 2, "attempt {attempt}: {wait}");
        }
    }

    #[test]
    fn first_interval_follows_the_round_trip_within_limits() {
        let mut pace = Pace::new(7);
        pace.sample(5_000_000);
        assert!((5_000_000..=10_000_000).contains(&pace.wait_ns(0)));
        pace.sample(3_600_000_000_000);
        assert!(pace.wait_ns(0) <= FIRST_MAX_NS);
    }

    #[test]
    fn seeds_decide_the_jitter() {
        assert_eq!(Pace::new(1).wait_ns(3), Pace::new(1).wait_ns(3));
        assert_ne!(Pace::new(1).wait_ns(3), Pace::new(2).wait_ns(3));
    }
}
