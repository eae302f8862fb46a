//! The budget of queue pairs: who holds a place, who waits for one, and which connection goes for another.
//!
//! # Places
//! A connection holds a place from the moment its queue pair is asked for until the driver reports the queue pair
//! destroyed, so there are never more queue pairs than places. Whoever finds none waits in
//! [`Crowded`](super::StateName::Crowded), in order of age.
//!
//! # Why nobody waits for ever
//! A place is held by one of three: an *attempt of this side that nobody has answered*, a connection (or an answer to
//! a peer), or a queue pair on its way out. Attempts may hold all places but one (the *reserve*). So there is always
//! a place that is free, or gets free as soon as the two processes at its ends call the library: the driver finishes
//! its work, a connection is drained and closed. Such a place goes to the oldest who may have it, and a peer's
//! request always may. Hence every request is answered after those before it; hence every attempt is answered; hence
//! the places of attempts come back too, and own needs, which wait in the same order, get theirs. This holds for two
//! places and more. A crossed request is the answer to an attempt and needs no place of its own.
//!
//! A connection always carries what was queued for it before it closes, since closing begins with a drain at both
//! ends; so to be opened and closed at once is slow, but it is progress.
//!
//! The device of a node has a limit too. The argument is the same if its last queue pairs, one at least, are kept for
//! answers: the driver refuses a queue pair for an attempt ([`qp_for`](super::Wireup::qp_for)) that would take one of
//! those, and also if attempts alone would have all the others: what is not an attempt can be closed. Who gives one up
//! then, and who gets it, is said in [`super::device`].
//!
//! # Whom it meets
//! The least valuable connection that is idle: frequency of its traffic, halved every [`HALF_LIFE_NS`], times what it
//! costs to open again, then the time of its last use. One that became ready less than about two round trips ago is
//! young and stays, unless there is no other: its peer may not have had the time to use it.
//! Where peers of a node share a connection ([`super::homes`]), they have one place together, and it is free when all of them
//! have let go: what is least valuable is looked for among nodes, by what goes to all their processes.
//! One that was made ahead of its first use (`crate::pattern`) and waits for that goes before all others.
//! If all are busy for [`BUSY_PATIENCE_NS`], the least valuable drains what it is busy with; a sender that never stops
//! would keep its place for ever otherwise. A peer that computes cannot agree to a close: after a time that grows
//! with the number of such peers one more connection is asked to close, and the first that is closed gives its place.
#[cfg(doc)]
use super::Wireup;
use super::device::Device;
use super::handshake::{State, StateName, Target};
use super::homes::Homes;
use super::plant::{Plant, Planted};
use crate::ids::PeerIx;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// How many queue pairs a process may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// At most this many at any moment, at least [`Budget::QUEUE_PAIRS_MIN`]. `None`: no limit.
    pub queue_pairs: Option<u32>,
}

impl Budget {
    /// One place for an attempt of this side, one for the requests of others.
    pub const QUEUE_PAIRS_MIN: u32 = 2;
    /// No limit.
    pub const UNLIMITED: Self = Self { queue_pairs: None };
}

/// What the driver knows of the use of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Messages to and from the peer since ever, in any unit that grows with use (say, one for each message and one
    /// for each 4 KiB). Counted over all connections to the peer, it makes its next one more valuable.
    pub traffic: u64,
    /// Are sends queued or unacknowledged, or is a transfer under way? Offers that the peer has not answered
    /// are not: they are answered over another connection.
    pub busy: bool,
    /// What it costs to open the connection again, compared with others; 0 counts as 1.
    pub reopen_cost: u32,
    /// Was it made ahead of a need that has not come? Then it goes before all others.
    pub spare: bool,
}

/// The frequency of use counts half after this time.
pub(super) const HALF_LIFE_NS: u64 = 8_000_000;
/// Busy connections are spared for this time.
pub(super) const BUSY_PATIENCE_NS: u64 = 20_000_000;
/// If all connections are busy, they are looked at again after this time, which doubles up to the maximum.
const LOOK_AGAIN_NS: u64 = 100_000;
const LOOK_AGAIN_MAX_NS: u64 = 5_000_000;
/// The longest time for which one that was asked to close is waited for before another one is asked.
const PATIENCE_MAX_NS: u64 = 250_000_000;

/// What a place is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// This side asks.
    Ask,
    /// The peer asks.
    Answer,
}

impl From<&Target> for Claim {
    fn from(target: &Target) -> Self {
        match target {
            Target::Found(_) | Target::Ahead { .. } => Claim::Ask,
            Target::Asked(_) => Claim::Answer,
        }
    }
}

/// Who holds a place and who waits for one. Rows are meant by index.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// [`Budget::queue_pairs`].
    pub budget: Option<u32>,
    /// The smaller of that and what the node's device has.
    pub limit: Option<u32>,
    pub device: Device,
    /// Rows whose queue pair is there or being made.
    pub held: u32,
    /// Queue pairs that no row has any more, and which the driver has not yet reported destroyed or refused.
    pub leaving: u32,
    /// Rows that hold a place for an attempt which nobody has answered.
    pub asking: u32,
    /// Retired peers for whom the driver was making a queue pair.
    pub orphans: BTreeSet<PeerIx>,
    /// Who waits to ask, and who waits to answer, by age.
    asks: BTreeSet<(u64, u32)>,
    answers: BTreeSet<(u64, u32)>,
    /// Connections that are being closed, and since when.
    closers: BTreeMap<u32, u64>,
    /// Connections that are ready, and what they were worth at the last look.
    ready: BTreeMap<u32, Worth>,
    /// Who shares a place.
    pub homes: Homes,
    /// Where those that wait would share one.
    waiting_for: BTreeMap<u32, u64>,
    look: Look,
    /// What a connection has to be used and to be closed, as the last look at the pace gave it.
    pub round_ns: u64,
    pub planted: Planted,
}

/// When the driver is asked which connections are in use.
#[derive(Clone, Debug, Default)]
struct Look {
    /// It has been asked, and has not answered.
    asked: bool,
    /// Looks that found too few that can go: since when, how many, and when to look again.
    vain: Option<Vain>,
    due_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Vain {
    since_ns: u64,
    looks: u32,
    again_ns: u64,
}

/// How valuable a connection is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    ready_ns: u64,
    /// Until when the frequency has decayed.
    decayed_ns: u64,
    used_ns: u64,
    traffic: u64,
    frequency: u64,
}

impl Worth {
    fn new(now_ns: u64) -> Self {
        Self { ready_ns: now_ns, decayed_ns: now_ns, used_ns: now_ns, traffic: 0, frequency: 0 }
    }

    /// Takes a new reading, and gives the rank among victims: the smallest goes first.
    fn look(&mut self, usage: &Usage, young_ns: u64, now_ns: u64) -> (Class, u64, u64) {
        let halvings = now_ns.saturating_sub(self.decayed_ns) / HALF_LIFE_NS;
        self.decayed_ns += halvings * HALF_LIFE_NS;
        let carried = usage.traffic.saturating_sub(self.traffic);
        let decayed = u32::try_from(halvings).ok().and_then(|by| self.frequency.checked_shr(by));
        self.frequency = decayed.unwrap_or(0).saturating_add(carried);
        self.traffic = usage.traffic;
        if carried > 0 {
            self.used_ns = now_ns;
        }
        let class = match usage.busy {
            true => Class::Busy,
            false if usage.spare => Class::Spare,
            false if now_ns.saturating_sub(self.ready_ns) < young_ns => Class::Young,
            false => Class::Idle,
        };
        let value = self.frequency.saturating_mul(u64::from(usage.reopen_cost.max(1)));
        (class, value, self.used_ns)
    }
}

/// Who goes before whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Spare,
    Idle,
    Young,
    Busy,
}

/// What goes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Row(u32),
    Home(u64),
}

impl Places {
    pub(super) fn new(limit: Option<u32>, round_ns: u64) -> Self {
        Self { budget: limit, limit, round_ns, ..Self::default() }
    }

    /// Queue pairs there are at this moment, or may be.
    pub(super) fn used(&self) -> u32 {
        self.held + self.leaving
    }

    pub(super) fn waiting(&self) -> usize {
        self.asks.len() + self.answers.len()
    }

    /// Gives a row a place, if there is one, or lets it share that of its home. Nobody is overtaken: whoever waits and may
    /// have the place has got it when the place became free.
    pub(super) fn take(&mut self, claim: Claim, row: u32, home: Option<u64>) -> bool {
        let joins = home.filter(|home| self.may_join(claim, *home));
        let free = self.is_free(claim, home);
        let permit = joins.is_none_or(|home| self.needs_permit(claim, home));
        if free {
            self.held += u32::from(joins.is_none());
        }
        if free && permit {
            self.device.tries(claim);
        }
        match home {
            Some(home) if free => self.homes.enter(row, home, u32::from(joins.is_none()), permit),
            home => self.waits_for(row, home.filter(|_| !free)),
        }
        free
    }

    /// Is what a row waits for being made already?
    pub(super) fn is_coming(&self, home: Option<u64>) -> bool {
        home.is_some_and(|home| self.homes.is_coming(home))
    }

    /// A row waits for a place, which it could share with others of this home.
    pub(super) fn waits_for(&mut self, row: u32, home: Option<u64>) {
        if let Some(home) = home {
            self.waiting_for.insert(row, home);
        }
    }

    pub(super) fn is_free(&self, claim: Claim, home: Option<u64>) -> bool {
        match home {
            Some(home) if self.may_join(claim, home) => true,
            Some(home) if self.homes.is_coming(home) => self.planted.is(Plant::NobodyWaitsForOthers),
            _ => self.is_unshared_free(claim),
        }
    }

    /// Is there a place that a row of this home may share? An attempt makes all of it one.
    fn may_join(&self, claim: Claim, home: u64) -> bool {
        let open = self.homes.is_open(home, |row| self.closers.contains_key(&row));
        let may_begin = || !self.homes.is_coming(home) && self.may_ask() > 0 && self.permits(claim);
        open && (!self.needs_permit(claim, home) || may_begin())
    }

    /// Does a row that joins this home make an attempt of what was none?
    fn needs_permit(&self, claim: Claim, home: u64) -> bool {
        claim == Claim::Ask && !self.homes.asks(home)
    }

    fn is_unshared_free(&self, claim: Claim) -> bool {
        if !self.permits(claim) {
            return false;
        }
        let Some(limit) = self.limit else { return true };
        self.used() < limit && (claim == Claim::Answer || self.may_ask() > 0)
    }

    /// May the device be asked for a queue pair?
    fn permits(&self, claim: Claim) -> bool {
        self.device.permits(claim) || self.planted.is(Plant::RefusalTriesTheNext)
    }

    /// How many more attempts may be begun, as far as the reserve is concerned.
    pub(super) fn may_ask(&self) -> usize {
        let reserve = if self.planted.is(Plant::NoReserve) { 0 } else { 1 };
        let used = self.asking as usize + reserve;
        self.limit.map_or(usize::MAX, |limit| (limit as usize).saturating_sub(used))
    }

    /// The place of a row whose queue pair was refused is free, unless others share it.
    pub(super) fn give_back(&mut self, row: u32) {
        let home = self.homes.of(row);
        let place = self.homes.leave(row);
        self.held -= u32::from(place);
        // Those that are on their way out still use it.
        if place && home.is_some_and(|home| self.homes.keeps(home)) {
            self.leaving += 1;
        }
    }

    /// The row's queue pair is on its way out. If others share its place, they keep it.
    pub(super) fn leave(&mut self, row: u32) {
        let home = self.homes.of(row);
        let place = self.homes.leave(row) || self.planted.is(Plant::SharedPlaceGoesWithOne);
        self.held -= u32::from(place);
        self.leaving += u32::from(place);
        if let Some(home) = home {
            self.homes.goes(row, home, place);
        }
    }

    /// A queue pair that its row had no more is gone. Is a place free by that?
    pub(super) fn left(&mut self, row: u32) -> bool {
        let free = self.homes.gone(row);
        if free {
            self.leaving = self.leaving.checked_sub(1).expect("as many are destroyed as were to be");
        }
        free
    }

    /// Who gets the next place, if there is one for him. Who can share one need not wait.
    pub(super) fn next(&self) -> Option<u32> {
        let joins = |claim, queue: &BTreeSet<(u64, u32)>| {
            let may = |row: &u32| self.waiting_for.get(row).is_some_and(|home| self.may_join(claim, *home));
            queue.iter().map(|(_, row)| *row).find(may)
        };
        if !self.waiting_for.is_empty() {
            let joins = joins(Claim::Answer, &self.answers).or_else(|| joins(Claim::Ask, &self.asks));
            if joins.is_some() {
                return joins;
            }
        }
        if self.limit.is_some_and(|limit| self.used() >= limit) {
            return None;
        }
        // Who waits for a queue pair that is being made for others is not next.
        let coming = |row: &u32| self.waiting_for.get(row).is_some_and(|home| self.homes.is_coming(*home));
        let first = |queue: &BTreeSet<(u64, u32)>| queue.iter().find(|(_, row)| !coming(row)).copied();
        let ask = first(&self.asks).filter(|_| self.may_ask() > 0 && self.permits(Claim::Ask));
        let answer = first(&self.answers).filter(|_| self.permits(Claim::Answer));
        ask.into_iter().chain(answer).min().map(|(_, index)| index)
    }

    /// Keeps the books when a row changes its state.
    pub(super) fn moved<W>(&mut self, index: u32, before: &State<W>, after: &State<W>, now_ns: u64) {
        match (asks(before), asks(after)) {
            (false, true) => self.asking += u32::from(self.homes.begins_to_ask(index)),
            (true, false) => self.asking -= u32::from(self.homes.ends_asking(index)),
            _ => {}
        }
        if crowded(after).is_none() {
            self.waiting_for.remove(&index);
        }
        if let Some((claim, since_ns)) = crowded(before) {
            self.queue(claim).remove(&(since_ns, index));
        }
        if let Some((claim, since_ns)) = crowded(after) {
            self.queue(claim).insert((since_ns, index));
        }
        match after.name() {
            StateName::Draining | StateName::Closing | StateName::Yielding => {
                self.closers.entry(index).or_insert(now_ns);
            }
            _ => drop(self.closers.remove(&index)),
        }
        match after.name() {
            StateName::Ready => drop(self.ready.entry(index).or_insert_with(|| Worth::new(now_ns))),
            _ => drop(self.ready.remove(&index)),
        }
    }

    fn queue(&mut self, claim: Claim) -> &mut BTreeSet<(u64, u32)> {
        match claim {
            Claim::Ask => &mut self.asks,
            Claim::Answer => &mut self.answers,
        }
    }

    /// Is there nothing to be done about places?
    pub(super) fn is_calm(&self) -> bool {
        let fits = self.limit.is_none_or(|limit| self.used() <= limit);
        self.waiting() == 0 && fits && !self.device.gives()
    }

    /// Since when the oldest attempt has waited for a place.
    pub(super) fn oldest_ask_ns(&self) -> Option<u64> {
        self.asks.first().map(|(since_ns, _)| *since_ns)
    }

    /// Does an answer wait for the device?
    pub(super) fn lacks_answer(&self) -> bool {
        !self.answers.is_empty() && !self.device.permits(Claim::Answer)
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many connections should be closed now, beside those that are being closed.
    pub(super) fn shortfall(&self, now_ns: u64) -> usize {
        let limit = self.limit.unwrap_or(u32::MAX);
        let excess = self.used().saturating_sub(limit) as usize;
        let mut wanted = self.lacked(&self.answers) + self.lacked(&self.asks).min(self.may_ask());
        if self.lack(now_ns).is_some() {
            // Others are asked as well.
            wanted = wanted.min(1);
        }
        let wanted = wanted + excess + usize::from(self.device.gives());
        // Not all at once: what is closed for nothing has to be opened again.
        let at_once = (limit as usize).div_ceil(2).max(1);
        let fresh = self.closers_by_age().filter(|(_, stale_ns)| *stale_ns > now_ns);
        let fresh = self.homes.places(fresh.map(|(index, _)| index));
        wanted.min(at_once).saturating_sub(fresh + self.leaving as usize)
    }

    /// Places that those who wait would need: peers of a node need one together, and none if it is being made.
    fn lacked(&self, waiting: &BTreeSet<(u64, u32)>) -> usize {
        let mut homes = BTreeSet::new();
        let mut needs = |home: u64| !self.homes.is_coming(home) && homes.insert(home);
        let needs = |row: &u32| self.waiting_for.get(row).is_none_or(|home| needs(*home));
        waiting.iter().map(|(_, row)| *row).filter(needs).count()
    }

    /// Connections that are being closed, the oldest first, and from when on they are not waited for any more.
    fn closers_by_age(&self) -> impl Iterator<Item = (u32, u64)> {
        let mut by_age: Vec<(u64, u32)> =
            self.closers.iter().map(|(&index, &since_ns)| (since_ns, index)).collect();
        by_age.sort_unstable();
        by_age.into_iter().enumerate().map(|(older, (since_ns, index))| {
            let patience_ns = (self.round_ns << older.min(8)).min(PATIENCE_MAX_NS);
            (index, since_ns.saturating_add(patience_ns))
        })
    }

    /// Should the driver be asked for the use of the connections? Sets the alarm for the next time to ask.
    pub(super) fn begins_look(&mut self, now_ns: u64) -> bool {
        let stale = self.closers_by_age().map(|(_, stale_ns)| stale_ns).filter(|at| *at > now_ns).min();
        let again = self.look.vain.map(|vain| vain.again_ns).filter(|at| *at > now_ns);
        self.look.due_ns = match self.is_calm() {
            true => None,
            false => stale.into_iter().chain(again).min(),
        };
        if self.look.asked || again.is_some() || self.ready.is_empty() || self.shortfall(now_ns) == 0 {
            return false;
        }
        self.look.asked = true;
        true
    }

    pub(super) fn calm_down(&mut self) {
        self.look.due_ns = None;
        self.look.vain = None;
        self.device.calm_down();
    }

    /// When to look at the places again.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.look.due_ns.into_iter().chain(self.device.due_ns()).min()
    }

    /// The alarm has gone off.
    pub(super) fn rang(&mut self, now_ns: u64) {
        self.look.due_ns = self.look.due_ns.filter(|due_ns| *due_ns > now_ns);
        self.device.rang(now_ns);
    }

    /// The driver answers; which classes may go.
    pub(super) fn ends_look(&mut self, now_ns: u64) -> Class {
        self.look.asked = false;
        let tired = |vain: Vain| now_ns.saturating_sub(vain.since_ns) >= BUSY_PATIENCE_NS;
        if self.look.vain.is_some_and(tired) { Class::Busy } else { Class::Young }
    }

    /// So many of those that should go were found.
    pub(super) fn found(&mut self, found: usize, wanted: usize, now_ns: u64) {
        let before = self.look.vain.filter(|_| found == 0);
        let (since_ns, looks) = before.map_or((now_ns, 0), |vain| (vain.since_ns, vain.looks + 1));
        let again_ns = now_ns + (LOOK_AGAIN_NS << looks.min(8)).min(LOOK_AGAIN_MAX_NS);
        self.look.vain = (found < wanted).then_some(Vain { since_ns, looks, again_ns });
        self.device.gave(found, now_ns);
    }

    /// The least valuable connections, of no class above `most`, until so many places are to get free: how many will, and
    /// whose. Of a home all go, or none.
    pub(super) fn victims(
        &mut self,
        count: usize,
        most: Class,
        now_ns: u64,
        mut usage: impl FnMut(u32) -> Usage,
    ) -> (usize, Vec<u32>) {
        let young_ns = self.round_ns;
        let rank = |(&index, worth): (&u32, &mut Worth)| (worth.look(&usage(index), young_ns, now_ns), index);
        let ranks: Vec<_> = self.ready.iter_mut().map(rank).collect();
        let mut homes: BTreeMap<u64, (Class, u64, u64)> = BTreeMap::new();
        let mut groups = Vec::new();
        for ((class, value, used_ns), index) in ranks {
            match self.homes.of(index) {
                None => groups.push(((class, value, used_ns), Group::Row(index))),
                Some(home) => {
                    let all = homes.entry(home).or_insert((class, 0, 0));
                    *all = (all.0.max(class), all.1.saturating_add(value), all.2.max(used_ns));
                }
            }
        }
        // What is opening in a home cannot be closed, and the home not without it.
        let rests = |row: u32| self.ready.contains_key(&row) || self.closers.contains_key(&row);
        let whole = homes.into_iter().filter(|(home, _)| self.homes.rows(*home).all(rests));
        groups.extend(whole.map(|(home, rank)| (rank, Group::Home(home))));
        groups.retain(|(rank, _)| rank.0 <= most);
        groups.sort_unstable();
        groups.truncate(count);
        let rows = |group: &Group| match *group {
            Group::Row(row) => Vec::from([row]),
            Group::Home(home) => self.homes.rows(home).filter(|row| self.ready.contains_key(row)).collect(),
        };
        (groups.len(), groups.iter().flat_map(|(_, group)| rows(group)).collect())
    }

    /// Those that are being closed, and since when, the oldest first.
    pub(super) fn closers(&self) -> impl Iterator<Item = (u32, u64)> {
        self.closers_by_age().map(|(index, _)| (index, self.closers[&index]))
    }
}

/// Is it an attempt that holds a place and that nobody has answered?
fn asks<W>(state: &State<W>) -> bool {
    use State::{Preparing, Published, Requesting};
    match state {
        Preparing { target, .. } => Claim::from(target) == Claim::Ask,
        Published { .. } | Requesting { .. } => true,
        _ => false,
    }
}

fn crowded<W>(state: &State<W>) -> Option<(Claim, u64)> {
    match state {
        State::Crowded { target, tries, .. } => Some((Claim::from(target), tries.since_ns)),
        _ => None,
    }
}
