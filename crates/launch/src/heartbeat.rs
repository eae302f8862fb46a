//! Heartbeats: when neighbours in the tree tell each other that they live, and when silence counts as death. Pure.
//!
//! An agent beats to the agent (or launcher) above it; across hosts the one above beats back. Silence longer than
//! the limit ends the job. Only agents are watched: a stopped rank is in a debugger, a stopped launcher behind a
//! ctrl-Z, and neither has failed.
//!
//! A host with far more processes than cores lets an agent wait for its turn, for seconds. That is no failure:
//! - Of a process on the same host the kernel says whether it runs or is stopped; while it runs, silence means nothing.
//! - Who is itself late expects others to be late as well, and waits longer for those of other hosts.
//! - Who has heard somebody only with long gaps expects more of them.
//!
//! Patience has a maximum, so that a host that is gone is noticed on a crowded one too.
use std::time::{Duration, Instant};

/// Beats in the time after which silence counts.
const BEATS_PER_LIMIT: u32 = 4;
/// A process that gets its turn so late needs several turns to say that it lives.
const TURNS: u32 = 16;
/// The next gap may be so many times as long as the last one.
const GAPS: u32 = 4;
/// The longest patience, in limits.
const LIMITS_MAX: u32 = 8;

/// The clock of one process for its beats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    limit: Duration,
    next: Instant,
    /// How late this process's own beats were of late; half as much with every beat.
    late: Duration,
}

/// What one end of a link knows of the other's life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pulse {
    heard: Instant,
    /// The longest time between two signs of life; half as much with every beat.
    gap: Duration,
}

/// Where somebody is, seen from who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// On this host: before it is blamed, its process is looked at.
    Here,
    /// Elsewhere: silence is all there is to go by.
    Afar,
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

impl Pulse {
    /// Somebody of whom nothing is known.
    pub(crate) fn new(now: Instant) -> Self {
        Pulse { heard: now, gap: Duration::ZERO }
    }

    /// A sign of life.
    pub(crate) fn hear(&mut self, now: Instant) {
        self.gap = self.gap.max(now.saturating_duration_since(self.heard));
        self.heard = now;
    }

    /// Its silence so far does not count.
    pub(crate) fn forgive(&mut self, now: Instant) {
        self.heard = now;
    }

    /// A beat has passed: what was long ago matters less.
    pub(crate) fn age(&mut self) {
        self.gap /= 2;
    }
}

impl Heartbeat {
    /// Silence longer than `limit` counts; a limit of 0 never.
    pub(crate) fn new(limit: Duration, now: Instant) -> Option<Self> {
        let next = now + limit / BEATS_PER_LIMIT;
        (!limit.is_zero()).then_some(Heartbeat { limit, next, late: Duration::ZERO })
    }

    /// When [`Heartbeat::beat`] should be called at the latest.
    pub(crate) fn due(&self) -> Instant {
        self.next
    }

    /// Is it time? To be asked after everything that has arrived was read.
    pub(crate) fn beat(&mut self, now: Instant) -> Option<Beat> {
        let late = now.checked_duration_since(self.next)?;
        self.late = late.max(self.late / 2);
        self.next = now + self.interval();
        Some(if late > self.interval() { Beat::Late } else { Beat::OnTime })
    }

    /// How long somebody has been silent, if that is too long.
    pub(crate) fn silence(&self, pulse: &Pulse, seen: Seen, now: Instant) -> Option<Duration> {
        let patience = match seen {
            Seen::Here => self.limit,
            Seen::Afar => self.patience(pulse),
        };
        Some(now.saturating_duration_since(pulse.heard)).filter(|silence| *silence > patience)
    }

    /// How long somebody of another host may be silent.
    fn patience(&self, pulse: &Pulse) -> Duration {
        let for_own_lateness = self.late * TURNS;
        let for_its_gaps = pulse.gap.saturating_sub(self.interval()) * GAPS;
        (self.limit + for_own_lateness.max(for_its_gaps)).min(self.limit * LIMITS_MAX)
    }

    fn interval(&self) -> Duration {
        self.limit / BEATS_PER_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(4);

    fn at(begun: Instant, seconds: f64) -> Instant {
        begun + Duration::from_secs_f64(seconds)
    }

    fn heart() -> (Instant, Heartbeat) {
        let begun = Instant::now();
        (begun, Heartbeat::new(LIMIT, begun).unwrap())
    }

    #[test]
    fn a_limit_of_zero_turns_it_off() {
        assert!(Heartbeat::new(Duration::ZERO, Instant::now()).is_none());
    }

    #[test]
    fn beats_come_four_times_in_the_limit() {
        let (begun, mut heart) = heart();
        assert_eq!(heart.due(), at(begun, 1.0));
        assert_eq!(heart.beat(at(begun, 0.9)), None);
        assert_eq!(heart.beat(at(begun, 1.1)), Some(Beat::OnTime));
        assert_eq!(heart.due(), at(begun, 2.1));
    }

    #[test]
    fn who_did_not_run_itself_blames_nobody() {
        let (begun, mut heart) = heart();
        assert_eq!(heart.beat(at(begun, 2.5)), Some(Beat::Late));
        assert_eq!(heart.beat(at(begun, 3.6)), Some(Beat::OnTime));
    }

    #[test]
    fn silence_counts_beyond_the_limit() {
        let (begun, heart) = heart();
        let pulse = Pulse::new(begun);
        for seen in [Seen::Here, Seen::Afar] {
            assert_eq!(heart.silence(&pulse, seen, at(begun, 4.0)), None);
            assert_eq!(heart.silence(&pulse, seen, at(begun, 4.5)), Some(Duration::from_millis(4500)));
            assert_eq!(heart.silence(&Pulse::new(at(begun, 5.0)), seen, at(begun, 4.5)), None);
        }
    }

    #[test]
    fn who_is_late_itself_waits_longer_for_other_hosts() {
        let (begun, mut heart) = heart();
        assert_eq!(heart.beat(at(begun, 1.5)), Some(Beat::OnTime)); // half a second late
        let pulse = Pulse::new(begun);
        assert_eq!(heart.silence(&pulse, Seen::Afar, at(begun, 11.9)), None);
        assert!(heart.silence(&pulse, Seen::Afar, at(begun, 12.1)).is_some());
        assert!(
            heart.silence(&pulse, Seen::Here, at(begun, 4.1)).is_some(),
            "its process is looked at instead"
        );
        // On time again, it becomes as strict as it was.
        let mut now = 1.5;
        for _ in 0..8 {
            now += 1.0;
            assert_eq!(heart.beat(at(begun, now)), Some(Beat::OnTime));
        }
        assert!(heart.silence(&pulse, Seen::Afar, at(begun, 4.1)).is_some());
    }

    #[test]
    fn who_was_heard_with_gaps_may_leave_another() {
        let (begun, heart) = heart();
        let mut starved = Pulse::new(begun);
        starved.hear(at(begun, 3.0));
        assert_eq!(heart.silence(&starved, Seen::Afar, at(begun, 14.9)), None);
        assert!(heart.silence(&starved, Seen::Afar, at(begun, 15.1)).is_some());
        // Regular beats are no gaps, and old gaps are forgotten.
        let mut regular = Pulse::new(begun);
        regular.hear(at(begun, 1.0));
        assert!(heart.silence(&regular, Seen::Afar, at(begun, 5.1)).is_some());
        (0..4).for_each(|_| starved.age());
        assert!(heart.silence(&starved, Seen::Afar, at(begun, 7.1)).is_some());
    }

    #[test]
    fn patience_ends() {
        let (begun, mut heart) = heart();
        assert_eq!(heart.beat(at(begun, 101.0)), Some(Beat::Late));
        let mut pulse = Pulse::new(begun);
        pulse.hear(at(begun, 100.0));
        assert_eq!(heart.silence(&pulse, Seen::Afar, at(begun, 131.9)), None);
        assert!(heart.silence(&pulse, Seen::Afar, at(begun, 132.1)).is_some());
    }
}
