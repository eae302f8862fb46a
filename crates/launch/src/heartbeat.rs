//! When neighbours in the tree tell each other that they live, and when silence counts as death. Pure.
//!
//! An agent beats to the agent (or launcher) above it; across hosts the one above beats back. Silence longer than
//! the limit ends the job. Only agents are watched: a stopped rank is in a debugger, a stopped launcher behind a
//! ctrl-Z, and neither has failed.
use std::time::{Duration, Instant};

/// Beats in the time after which silence counts.
const BEATS_PER_LIMIT: u32 = 4;

/// The clock of one process for its beats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    limit: Duration,
    next: Instant,
}

/// What to do at a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Say that you live, and look who has been silent.
    OnTime,
    /// Say that you live. This process itself did not run for a while, so others cannot be blamed for silence:
    /// count theirs from now on.
    Late,
}

impl Heartbeat {
    /// Silence longer than `limit` counts; a limit of 0 never.
    pub(crate) fn new(limit: Duration, now: Instant) -> Option<Self> {
        (!limit.is_zero()).then(|| Heartbeat { limit, next: now + limit / BEATS_PER_LIMIT })
    }

    /// When [`Heartbeat::beat`] should be called at the latest.
    pub(crate) fn due(&self) -> Instant {
        self.next
    }

    /// Is it time? To be asked after everything that has arrived was read.
    pub(crate) fn beat(&mut self, now: Instant) -> Option<Beat> {
        let late = now.checked_duration_since(self.next)?;
        let interval = self.limit / BEATS_PER_LIMIT;
        self.next = now + interval;
        Some(if late > interval { Beat::Late } else { Beat::OnTime })
    }

    /// How long somebody has been silent, if that is too long.
    pub(crate) fn silence(&self, heard: Instant, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(heard)).filter(|silence| *silence > self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(4);

    fn at(begun: Instant, seconds: f64) -> Instant {
        begun + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_limit_of_zero_turns_it_off() {
        assert!(Heartbeat::new(Duration::ZERO, Instant::now()).is_none());
    }

    #[test]
    fn beats_come_four_times_in_the_limit() {
        let begun = Instant::now();
        let mut heart = Heartbeat::new(LIMIT, begun).unwrap();
        assert_eq!(heart.due(), at(begun, 1.0));
        assert_eq!(heart.beat(at(begun, 0.9)), None);
        assert_eq!(heart.beat(at(begun, 1.1)), Some(Beat::OnTime));
        assert_eq!(heart.due(), at(begun, 2.1));
    }

    #[test]
    fn who_did_not_run_itself_blames_nobody() {
        let begun = Instant::now();
        let mut heart = Heartbeat::new(LIMIT, begun).unwrap();
        assert_eq!(heart.beat(at(begun, 2.5)), Some(Beat::Late));
        assert_eq!(heart.beat(at(begun, 3.6)), Some(Beat::OnTime));
    }

    #[test]
    fn silence_counts_beyond_the_limit() {
        let begun = Instant::now();
        let heart = Heartbeat::new(LIMIT, begun).unwrap();
        assert_eq!(heart.silence(begun, at(begun, 4.0)), None);
        assert_eq!(heart.silence(begun, at(begun, 4.5)), Some(Duration::from_millis(4500)));
        assert_eq!(heart.silence(at(begun, 5.0), at(begun, 4.5)), None);
    }
}
