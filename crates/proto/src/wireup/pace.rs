//! Retransmission: intervals that double, start at what round trips have taken so far, and are jittered.
//!
//! The first interval is half as much again as a typical round trip, the median as far as it can be told from one
//! sample after the other. The mean plus its deviation (RFC 6298) was tried: where processes share cores, one answer in
//! a hundred takes a time slice of the kernel, a hundred times the typical, and the repair of every loss waited for that. To
//! ask too early costs one datagram, and then the intervals double. A reply carries the time of the request that it
//! answers, so that a repeated request gives a true sample too, and Karn's rule is not needed.
//!
//! The *interval* has a cap, the count has none: a peer that computes for an hour outside the library is
//! not dead, and a request every quarter of a second costs nothing.

/// The shortest first interval. A process that sleeps wakes no sooner: timers of the kernel are late by as much.
pub(super) const FIRST_MIN_NS: u64 = 50_000;
/// The first interval before there was any answer.
pub(super) const FIRST_UNKNOWN_NS: u64 = 1_000_000;
/// The longest first interval: one peer that was slow to answer must not delay the repair of every loss.
pub(super) const FIRST_MAX_NS: u64 = 16_000_000;
/// The longest interval.
pub(super) const INTERVAL_MAX_NS: u64 = 250_000_000;
/// The longest interval before the jitter, which adds up to a half.
const BEFORE_JITTER_MAX_NS: u64 = INTERVAL_MAX_NS / 3 * 2;
/// A sample moves what counts as typical by one part in so many.
const STEP: u64 = 8;
/// So many doublings of the shortest first interval are past the cap.
const DOUBLINGS_MAX: u32 = 12;

/// The estimate of the round trip, and the chance that keeps peers from asking in step.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// As many samples are longer as are shorter.
    typical_ns: Option<u64>,
    chance: u64,
}

impl Pace {
    pub(super) fn new(seed: u64) -> Self {
        Self { typical_ns: None, chance: seed }
    }

    /// A request was answered after this long.
    pub(super) fn sample(&mut self, took_ns: u64) {
        let typical_ns = match self.typical_ns {
            None => took_ns,
            Some(known_ns) if took_ns > known_ns => known_ns + known_ns / STEP,
            Some(known_ns) => known_ns - known_ns / STEP,
        };
        // Within what can be waited for, so that it is never far from being right again.
        self.typical_ns = Some(typical_ns.clamp(FIRST_MIN_NS / 2, FIRST_MAX_NS));
    }

    /// How long to wait for an answer to the request number `attempt` (0 is the first).
    pub(super) fn wait_ns(&mut self, attempt: u32) -> u64 {
        self.jittered(self.first_ns(), attempt)
    }

    /// How long to wait before a queue pair that was refused is tried again.
    pub(super) fn refused_ns(&mut self, attempt: u32) -> u64 {
        self.jittered(self.unhurried_ns(), attempt)
    }

    /// The first interval, doubled for each attempt up to the cap, and up to half as much again: never less than the
    /// answer may take.
    fn jittered(&mut self, first_ns: u64, attempt: u32) -> u64 {
        let interval = (first_ns << attempt.min(DOUBLINGS_MAX)).min(BEFORE_JITTER_MAX_NS);
        interval + self.draw() % (interval / 2)
    }

    /// After which time an answer is late.
    pub(super) fn first_ns(&self) -> u64 {
        let late = |typical_ns| typical_ns + typical_ns / 2;
        self.typical_ns.map_or(FIRST_UNKNOWN_NS, late).clamp(FIRST_MIN_NS, FIRST_MAX_NS)
    }

    /// The same for what is not to be hurried: connections have some time to be used before they are closed again.
    pub(super) fn unhurried_ns(&self) -> u64 {
        self.first_ns().max(FIRST_UNKNOWN_NS)
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
            assert!((FIRST_MIN_NS..=INTERVAL_MAX_NS).contains(&wait), "attempt {attempt}: {wait}");
            assert!(attempt < 8 || wait >= INTERVAL_MAX_NS / 2, "attempt {attempt}: {wait}");
        }
    }

    #[test]
    fn first_interval_follows_the_round_trip_within_limits() {
        let mut pace = Pace::new(7);
        assert!(pace.wait_ns(0) >= FIRST_UNKNOWN_NS);
        pace.sample(100_000);
        assert!((150_000..=225_000).contains(&pace.wait_ns(0)), "{pace:?}");
        (0..40).for_each(|_| pace.sample(1_000));
        assert!((FIRST_MIN_NS..=FIRST_MIN_NS / 2 * 3).contains(&pace.wait_ns(0)), "{pace:?}");
        (0..100).for_each(|_| pace.sample(3_600_000_000_000));
        assert!((FIRST_MAX_NS..=FIRST_MAX_NS / 2 * 3).contains(&pace.wait_ns(0)), "{pace:?}");
    }

    #[test]
    fn rare_slow_answers_do_not_delay_repairs_and_common_ones_do() {
        let mut pace = Pace::new(7);
        for round in 0..200 {
            pace.sample(if round % 5 == 0 { 4_000_000 } else { 60_000 });
        }
        assert!(pace.first_ns() < 150_000, "{pace:?}");
        for round in 0..200 {
            pace.sample(if round % 5 > 0 { 4_000_000 } else { 60_000 });
        }
        assert!(pace.first_ns() > 3_000_000, "{pace:?}");
    }

    #[test]
    fn seeds_decide_the_jitter() {
        assert_eq!(Pace::new(1).wait_ns(3), Pace::new(1).wait_ns(3));
        assert_ne!(Pace::new(1).wait_ns(3), Pace::new(2).wait_ns(3));
    }
}
