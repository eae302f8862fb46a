//! The pace at which predicted connections are asked for.
//!
//! The driver takes peers out by [`Ahead::poll`] and says what became of them. A few are asked for at a time, real needs go
//! first, and as many may stand unused as the pattern is trusted with: a right pattern is confirmed by every use and goes on, a
//! wrong one comes to a halt by itself. It is stopped for good when the program turns to enough peers that were not predicted
//! and to none that was.
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// Connections that are asked for at a time.
const WINDOW: usize = 4;
/// A peer that has not answered after this time computes: the next one is asked.
const PATIENCE_NS: u64 = 20_000_000;
/// But no more than so many are waited for.
const FLYING_MAX: usize = 16;
/// Connections that may stand unused before the next is asked for. Peers ask too: there are at most about twice as many.
const UNUSED_NEW: usize = 6;
const UNUSED_CONFIRMED: usize = 64;
/// As many more may do so for each that is used.
const UNUSED_PER_USE: usize = 1;
/// A halt for so long is the end: there is nothing to look after any more.
const HALT_NS: u64 = 10_000_000_000;
/// So many peers that were not predicted, and none that was, end it.
const SURPRISES_MAX: u32 = 6;

/// How far a pattern can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It was recorded, and has predicted nothing yet, or not well.
    New,
    /// What it predicted for the last run was used.
    Confirmed,
}

/// What else the process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// No connection is being made that somebody waits for, and there is room for more.
    Free,
    /// One is, or there is not.
    Busy,
}

/// What a need of the program was to the forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The connection is there already, or is being made.
    Met,
    /// It was predicted, and not asked for yet.
    Foreseen,
    /// It was not predicted.
    Surprise,
    /// It was known of before.
    Old,
}

/// See the module's head. Peers are ranks of the own job.
#[derive(Clone, Debug, Default)]
pub struct Ahead {
    queue: VecDeque<u32>,
    /// Asked for and not ready, and since when.
    flying: BTreeMap<u32, u64>,
    /// Ready, and not used.
    unused: BTreeSet<u32>,
    /// Everybody who was needed or used.
    used: BTreeSet<u32>,
    /// As many may stand unused.
    unused_max: usize,
    hits: u32,
    surprises: u32,
    counts: Counts,
    /// Since when too many stand unused, and since when there has been no room for more.
    halted_ns: Option<u64>,
    busy_ns: Option<u64>,
}

/// What has come of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were there, or asked for, before the program needed them.
    pub connected: u64,
    /// Those of them that were used.
    pub used: u64,
}

impl Ahead {
    /// For these peers, in this order.
    pub fn new(peers: impl IntoIterator<Item = u32>, trust: Trust) -> Self {
        let unused_max = match trust {
            Trust::New => UNUSED_NEW,
            Trust::Confirmed => UNUSED_CONFIRMED,
        };
        Ahead { queue: peers.into_iter().collect(), unused_max, ..Self::default() }
    }

    /// Is it time for the next one, as far as those before it are concerned? Looks are to be cheap where it is not.
    pub fn is_time(&mut self, now_ns: u64) -> bool {
        if self.flying.len() + self.unused.len() >= self.unused_max {
            let since_ns = *self.halted_ns.get_or_insert(now_ns);
            if now_ns.saturating_sub(since_ns) >= HALT_NS {
                self.stop();
            }
            return false;
        }
        self.halted_ns = None;
        let is_patient = |since_ns: &&u64| now_ns.saturating_sub(**since_ns) < PATIENCE_NS;
        let patient = self.flying.values().filter(is_patient).count();
        self.is_active() && patient < WINDOW && self.flying.len() < FLYING_MAX
    }

    /// The next peer to ask for, if it is time. Call it again until there is none, and whenever progress is made while
    /// [`is_active`](Self::is_active).
    pub fn poll(&mut self, now_ns: u64, load: Load) -> Option<u32> {
        if load == Load::Busy {
            let since_ns = *self.busy_ns.get_or_insert(now_ns);
            if now_ns.saturating_sub(since_ns) >= HALT_NS {
                self.stop();
            }
            return None;
        }
        self.busy_ns = None;
        if !self.is_time(now_ns) {
            return None;
        }
        let peer = self.queue.pop_front()?;
        self.flying.insert(peer, now_ns);
        Some(peer)
    }

    /// Is there anybody left to ask for?
    pub fn is_active(&self) -> bool {
        !self.queue.is_empty()
    }

    /// May one of them be asked for before others are used? Where that is not so, nothing is to be looked after.
    pub fn is_eager(&self) -> bool {
        self.is_active() && self.flying.len() + self.unused.len() < self.unused_max
    }

    /// The connection to a peer is ready, whoever asked for it. Was it predicted, and nobody has needed it yet?
    pub fn ready(&mut self, peer: u32) -> bool {
        let asked = self.flying.remove(&peer).is_some() || self.unqueue(peer);
        let early = asked && !self.used.contains(&peer);
        if early {
            self.unused.insert(peer);
            self.counts.connected += 1;
        }
        early
    }

    /// A message of the peer has come over a connection that was made ahead.
    pub fn heard(&mut self, peer: u32) {
        if self.unused.contains(&peer) {
            self.needed(peer);
        }
    }

    /// Nobody is asked for any more.
    pub fn stop(&mut self) {
        self.queue.clear();
    }

    /// What has come of it so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Is the peer asked for, and neither ready nor needed?
    pub fn is_flying(&self, peer: u32) -> bool {
        self.flying.contains_key(&peer) && !self.used.contains(&peer)
    }

    /// How many are.
    pub fn flying(&self) -> usize {
        self.flying.keys().filter(|peer| !self.used.contains(peer)).count()
    }

    /// The program has something for the peer, or from it.
    pub fn needed(&mut self, peer: u32) -> Need {
        if !self.used.insert(peer) {
            return Need::Old;
        }
        let was_ready = self.unused.remove(&peer);
        let need = if was_ready || self.flying.contains_key(&peer) {
            self.counts.connected += u64::from(!was_ready);
            self.counts.used += 1;
            Need::Met
        } else if self.unqueue(peer) {
            Need::Foreseen
        } else {
            Need::Surprise
        };
        match need {
            Need::Surprise => self.surprises += 1,
            _ => {
                self.hits += 1;
                self.unused_max += UNUSED_PER_USE;
            }
        }
        if self.hits == 0 && self.surprises >= SURPRISES_MAX {
            self.stop();
        }
        need
    }

    /// The connection is closed or lost. It is not asked for again.
    pub fn gone(&mut self, peer: u32) {
        self.flying.remove(&peer);
        self.unused.remove(&peer);
        self.unqueue(peer);
    }

    /// Connections that are ready and were never used.
    pub fn unused(&self) -> impl Iterator<Item = u32> {
        self.unused.iter().copied()
    }

    fn unqueue(&mut self, peer: u32) -> bool {
        let place = self.queue.iter().position(|queued| *queued == peer);
        place.is_some_and(|place| self.queue.remove(place).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn polled(ahead: &mut Ahead, now_ns: u64) -> Vec<u32> {
        core::iter::from_fn(|| ahead.poll(now_ns, Load::Free)).collect()
    }

    #[test]
    fn nothing_is_looked_after_while_too_many_stand_unused() {
        let mut ahead = Ahead::new(0..20, Trust::New);
        while let Some(peer) = ahead.poll(0, Load::Free) {
            ahead.ready(peer);
        }
        assert!(ahead.is_active() && !ahead.is_eager());
        ahead.needed(0);
        assert!(ahead.is_eager());
    }

    #[test]
    fn who_never_has_room_for_more_stops() {
        let mut ahead = Ahead::new(0..20, Trust::New);
        assert_eq!(ahead.poll(1, Load::Busy), None);
        assert_eq!(ahead.poll(HALT_NS / 2, Load::Free), Some(0), "there was room meanwhile");
        assert_eq!(ahead.poll(HALT_NS, Load::Busy), None);
        assert!(ahead.is_active());
        assert_eq!(ahead.poll(2 * HALT_NS, Load::Busy), None);
        assert!(!ahead.is_active());
    }

    #[test]
    fn a_few_are_asked_for_at_a_time_and_in_order() {
        let mut ahead = Ahead::new([7, 3, 5, 1, 9, 2], Trust::New);
        assert_eq!(polled(&mut ahead, 0), [7, 3, 5, 1]);
        assert!(ahead.is_active());
        assert!(ahead.ready(3) && ahead.ready(7));
        assert_eq!(polled(&mut ahead, 1), [9, 2]);
        assert!(!ahead.is_active());
    }

    #[test]
    fn real_needs_go_first() {
        let mut ahead = Ahead::new([1, 2], Trust::New);
        assert_eq!(ahead.poll(0, Load::Busy), None);
        assert_eq!(ahead.needed(2), Need::Foreseen);
        assert_eq!(polled(&mut ahead, 0), [1]);
        assert!(!ahead.ready(2), "it was not connected ahead");
    }

    #[test]
    fn it_halts_while_nothing_is_used_and_goes_on_when_something_is() {
        let mut ahead = Ahead::new(0..40, Trust::New);
        let mut asked = 0;
        for now_ns in 0..100 {
            for peer in polled(&mut ahead, now_ns) {
                asked += 1;
                assert!(ahead.ready(peer));
            }
        }
        assert_eq!((asked, ahead.unused().count()), (UNUSED_NEW, UNUSED_NEW));
        assert_eq!(ahead.needed(0), Need::Met);
        assert_eq!(ahead.needed(0), Need::Old);
        assert_eq!(polled(&mut ahead, 200).len(), 1 + UNUSED_PER_USE);
        let connected = UNUSED_NEW as u64;
        assert_eq!(ahead.counts(), Counts { connected, used: 1 });
        ahead.heard(1);
        ahead.heard(1);
        assert_eq!(ahead.counts(), Counts { connected, used: 2 });
    }

    #[test]
    fn a_long_halt_is_the_end() {
        let mut ahead = Ahead::new(0..40, Trust::New);
        for now_ns in 0..40 {
            polled(&mut ahead, now_ns).into_iter().for_each(|peer| _ = ahead.ready(peer));
        }
        assert!(ahead.is_active());
        assert_eq!(ahead.poll(2 * HALT_NS, Load::Free), None);
        assert!(!ahead.is_active());
    }

    #[test]
    fn a_confirmed_pattern_need_not_wait() {
        let mut ahead = Ahead::new(0..40, Trust::Confirmed);
        let mut asked = 0;
        for now_ns in 0..40 {
            let peers = polled(&mut ahead, now_ns);
            asked += peers.len();
            assert!(peers.into_iter().all(|peer| ahead.ready(peer)));
        }
        assert_eq!(asked, 40);
    }

    #[test]
    fn peers_that_do_not_answer_hold_up_the_others_for_a_while_only() {
        let mut ahead = Ahead::new(0..40, Trust::Confirmed);
        assert_eq!(polled(&mut ahead, 0).len(), WINDOW);
        assert_eq!(polled(&mut ahead, PATIENCE_NS - 1), []);
        assert_eq!(polled(&mut ahead, PATIENCE_NS).len(), WINDOW);
        let rest = (2..10).map(|turn| polled(&mut ahead, turn * PATIENCE_NS).len()).sum::<usize>();
        assert_eq!(rest, FLYING_MAX - 2 * WINDOW);
    }

    #[test]
    fn surprises_without_a_hit_end_it() {
        let mut ahead = Ahead::new(0..40, Trust::Confirmed);
        polled(&mut ahead, 0);
        for peer in 100..100 + SURPRISES_MAX {
            assert!(ahead.is_active());
            assert_eq!(ahead.needed(peer), Need::Surprise);
        }
        assert!(!ahead.is_active());
        let mut half_right = Ahead::new(0..40, Trust::New);
        assert_eq!(half_right.needed(3), Need::Foreseen);
        (100..200).for_each(|peer| _ = half_right.needed(peer));
        assert!(half_right.is_active());
    }

    #[test]
    fn a_need_while_it_is_being_made_is_met() {
        let mut ahead = Ahead::new([1, 2], Trust::New);
        polled(&mut ahead, 0);
        assert_eq!(ahead.needed(1), Need::Met);
        assert_eq!(ahead.counts(), Counts { connected: 1, used: 1 });
        assert_eq!((ahead.flying(), ahead.is_flying(1), ahead.is_flying(2)), (1, false, true));
        assert!(!ahead.ready(1), "it is in use already");
        ahead.gone(2);
        assert!(!ahead.ready(2));
        assert_eq!(ahead.unused().count(), 0);
    }
}
