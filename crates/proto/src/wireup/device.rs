//! A node's device that has too few queue pairs: which process manages with what it has, which gives one up, and which is told.
//!
//! The processes of a node share the limit of its device. A process that is refused a queue pair does not try the next
//! need at once: all its needs wait in one queue, by age, and one attempt is made when a process of the node says that it
//! has given a queue pair back ([`DeviceWord::Room`]), when this process has given one back and it is its turn, or when a
//! timer runs out (words get lost). An attempt that succeeds permits the next. The last queue pairs of a device
//! are kept for answers, so attempts and answers have permits of their own. Where answers never end, they would take all
//! that is given back: an attempt that has waited for [`PRESSING_NS`] gets what its own process gives back, be it one of the
//! kept, and is told of what others give back before those that have not waited so long.
//!
//! Each process has a right to its *share*: the device's queue pairs, without those kept for answers, divided by the
//! processes, and two at least. Who was refused asks those that have more than that for one ([`DeviceWord::Lack`]), or,
//! if none has, and every other time in any case, those that have most. Who is asked and has more than its share makes do
//! with one less; who has not, or has nothing but attempts to spare, closes an idle connection. So a node on which everybody needs everybody comes to rest at the shares, where nobody is refused
//! any more and each process closes its own connections for its own needs; and one on which few need many lets them.
//! After [`SHORT_NS`] without a refusal or a word, a process that needs more than it makes do with tries again.
//!
//! Not here: what a device is. The driver tells what it reads of it as a [`NodeDevice`].
use super::budget::{Budget, Claim, Places};
use super::handshake::{Common, Input, Refusal, State, Target};
use super::{Action, IllegalInput, Wireup};
use crate::ids::PeerIx;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt::Debug;

/// Processes that are asked for a queue pair at a time.
const ASKED_MAX: usize = 2;
/// An attempt that has waited so long may have one of the queue pairs that are kept for answers: where answers never
/// end, it would never have any.
const PRESSING_NS: u64 = 20_000_000;
/// How long a device counts as short after the last sign of it.
pub(super) const SHORT_NS: u64 = 100_000_000;
/// The longest time between two attempts that nobody has called for.
const RETRY_MAX_NS: u64 = 16_000_000;

/// What processes of a node say to each other. Words may get lost; whoever is in need says them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceWord {
    /// I lack a queue pair.
    Lack,
    /// There may be one for you.
    Room,
}

/// What a queue pair is for. The device decides by it whether there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpFor {
    /// An attempt to connect: none of those that are kept for answers.
    Attempt,
    /// An attempt that has waited long: any, as long as attempts leave as many as are kept for answers.
    PressingAttempt,
    /// A peer has asked: any.
    Answer,
}

/// What a process lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A queue pair for an attempt: none of those that are kept for answers.
    Spare,
    /// One for an answer, or for an attempt that has waited long: any will do.
    Any,
}

/// The device of a node at one moment. Processes are meant by slot; this one is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDevice {
    /// Queue pairs for connections.
    pub max: u32,
    /// Those of them that are kept for answers.
    pub kept: u32,
    /// Processes, this one included.
    pub processes: u32,
    /// How many queue pairs the others have.
    pub holding: Vec<(u32, u32)>,
    /// Who of them lacks one.
    pub wanting: Vec<(u32, Lack)>,
}

impl NodeDevice {
    /// What every process has a right to.
    fn share(&self) -> u32 {
        let each = self.max.saturating_sub(self.kept) / self.processes.max(1);
        each.max(Budget::QUEUE_PAIRS_MIN)
    }

    /// Who is told that there is one: of those for whom any will do, or else of all, another one each time.
    fn told(&self, time: u32) -> Option<u32> {
        let any = self.wanting.iter().filter(|(_, lack)| *lack == Lack::Any).count();
        let will_do = |lack: Lack| any == 0 || lack == Lack::Any;
        let candidates = if any == 0 { self.wanting.len() } else { any };
        let at = time as usize % candidates.max(1);
        self.wanting.iter().filter(|(_, lack)| will_do(*lack)).nth(at).map(|(slot, _)| *slot)
    }

    /// Those that are asked for one, others each time: some may compute. Every other time it may be anybody, since
    /// those that have more than their share may all do so.
    fn asked(&self, time: u32) -> impl Iterator<Item = u32> {
        let mut most = self.holding.clone();
        most.sort_by_key(|(_, qps)| Reverse(*qps));
        let above = most.iter().filter(|(_, qps)| *qps > self.share()).count();
        if above > 0 && !time.is_multiple_of(2) {
            most.truncate(above);
        }
        let from = (time / 2) as usize * ASKED_MAX % most.len().max(1);
        let count = ASKED_MAX.min(most.len());
        most.into_iter().cycle().skip(from).take(count).map(|(slot, _)| slot)
    }
}

/// What a process knows of its node's device.
#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    /// So many queue pairs it makes do with.
    narrow: Option<u32>,
    /// The last sign that there are too few.
    short_ns: u64,
    /// Attempts and answers that may still be tried; `None`: as many as there are.
    asks: Option<u32>,
    answers: Option<u32>,
    /// Refusals since the last success or word, and when to try again without one.
    refusals: u32,
    due_ns: Option<u64>,
    /// An idle connection is to be closed for others.
    gives: bool,
    /// Times that others were asked, and that others were told.
    asked: u32,
    told: u32,
    my_turn: bool,
}

impl Device {
    /// May a queue pair be asked for?
    pub(super) fn permits(&self, claim: Claim) -> bool {
        self.permit(claim) != Some(0)
    }

    fn permit(&self, claim: Claim) -> Option<u32> {
        match claim {
            Claim::Ask => self.asks,
            Claim::Answer => self.answers,
        }
    }

    /// One is asked for.
    pub(super) fn tries(&mut self, claim: Claim) {
        let permit = match claim {
            Claim::Ask => &mut self.asks,
            Claim::Answer => &mut self.answers,
        };
        *permit = permit.map(|left| left.saturating_sub(1));
    }

    /// It was made: the next may be tried.
    pub(super) fn made(&mut self, claim: Claim) {
        self.refusals = 0;
        self.answers = self.answers.map(|_| 1);
        if claim == Claim::Ask {
            self.asks = self.asks.map(|_| 1);
        }
    }

    /// There was none.
    pub(super) fn refused(&mut self, claim: Claim) {
        self.refusals = self.refusals.saturating_add(1);
        self.asks = Some(0);
        if claim == Claim::Answer {
            self.answers = Some(0);
        }
    }

    /// There may be one.
    fn calls(&mut self) {
        self.due_ns = None;
        self.asks = self.asks.map(|left| left.max(1));
        self.answers = self.answers.map(|left| left.max(1));
    }

    pub(super) fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// The alarm, if it has gone off, is as good as a word.
    pub(super) fn rang(&mut self, now_ns: u64) {
        if self.due_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            self.calls();
        }
    }

    /// A queue pair of this process is gone, and the oldest attempt has waited long: it has it, and not an answer.
    fn passes_on(&mut self) {
        self.asks = self.asks.map(|left| left.max(1));
    }

    /// Nobody here needs a queue pair.
    pub(super) fn calm_down(&mut self) {
        (self.asks, self.answers, self.due_ns, self.refusals) = (None, None, None, 0);
    }

    /// Is a connection to be closed for others?
    pub(super) fn gives(&self) -> bool {
        self.gives
    }

    /// One is being closed, or nobody has asked for it for long.
    pub(super) fn gave(&mut self, found: usize, now_ns: u64) {
        self.gives &= found == 0 && now_ns.saturating_sub(self.short_ns) < SHORT_NS;
    }
}

impl Places {
    /// Makes do with so many, while the device has no more. Attempts that are out count, and leave the reserve: else they
    /// could wait for each other round a circle of processes.
    fn narrow_to(&mut self, most: u32) {
        let most = most.max(self.asking + 1).max(Budget::QUEUE_PAIRS_MIN);
        self.device.narrow = Some(most);
        self.set_limit();
    }

    /// The device may have more again.
    pub(super) fn widen_if_long_ago(&mut self, now_ns: u64) {
        let ago_ns = now_ns.saturating_sub(self.device.short_ns);
        if self.device.narrow.is_some() && ago_ns >= SHORT_NS {
            self.device.narrow = None;
            self.set_limit();
        }
    }

    /// One of the own queue pairs is gone.
    pub(super) fn passes_on(&mut self, now_ns: u64) {
        if self.oldest_ask_ns().is_some_and(|since_ns| presses(since_ns, now_ns)) {
            self.device.passes_on();
        }
    }

    /// Does somebody wait only because the device has no more?
    pub(super) fn lack(&self, now_ns: u64) -> Option<Lack> {
        if self.limit.is_some_and(|limit| self.used() >= limit) {
            return None;
        }
        let ask_ns = self.oldest_ask_ns().filter(|_| self.may_ask() > 0 && !self.device.permits(Claim::Ask));
        let any = self.lacks_answer() || ask_ns.is_some_and(|since_ns| presses(since_ns, now_ns));
        if any { Some(Lack::Any) } else { ask_ns.map(|_| Lack::Spare) }
    }

    /// The smaller of the budget and what the device has.
    pub(super) fn set_limit(&mut self) {
        self.limit = self.budget.into_iter().chain(self.device.narrow).min();
    }

    pub(super) fn is_narrow(&self) -> bool {
        self.device.narrow.is_some()
    }
}

fn presses(since_ns: u64, now_ns: u64) -> bool {
    now_ns.saturating_sub(since_ns) >= PRESSING_NS
}

impl<W: Clone + Debug> Wireup<W> {
    /// The queue pair that an [`Action::CreateQp`] asked for is not to be had because the device of the node has no more.
    /// The need waits until there may be one.
    pub fn qp_withheld(
        &mut self,
        ix: PeerIx,
        why: W,
        node: &NodeDevice,
        now_ns: u64,
    ) -> Result<(), IllegalInput> {
        self.orphan_refused(ix);
        self.turn(ix, Input::QpRefused(why, Refusal::Device), now_ns)?;
        let places = &mut self.common.places;
        places.device.short_ns = now_ns;
        let others_need = !node.wanting.is_empty();
        let own = if others_need { 0 } else { places.used() };
        places.narrow_to(own.max(node.share()));
        places.device.asked = places.device.asked.wrapping_add(1);
        for slot in node.asked(places.device.asked) {
            self.common.actions.push_back(Action::Tell { slot, word: DeviceWord::Lack });
        }
        self.settle(now_ns);
        Ok(())
    }

    /// A process of the node says something.
    pub fn heard(&mut self, word: DeviceWord, node: &NodeDevice, now_ns: u64) {
        let places = &mut self.common.places;
        match word {
            DeviceWord::Room => {
                places.device.refusals = 0;
                places.device.calls();
            }
            DeviceWord::Lack if node.wanting.is_empty() => {}
            DeviceWord::Lack => {
                places.device.short_ns = now_ns;
                let (used, share) = (places.used(), node.share());
                if used > share {
                    places.narrow_to(share.max(used - 1));
                }
                // Attempts that are out cannot be given up: then an idle connection goes.
                if places.limit.is_none_or(|limit| limit >= used) {
                    places.device.gives |= places.has_ready();
                }
            }
        }
        self.settle(now_ns);
    }

    /// A queue pair of this process was destroyed, and [`destroyed`](Self::destroyed) called: somebody of the node may
    /// wait for that, here or elsewhere.
    pub fn gave_back(&mut self, node: &NodeDevice, now_ns: u64) {
        let mine = self.lack(now_ns).is_some();
        let device = &mut self.common.places.device;
        let theirs = !mine || !device.my_turn;
        let told = node.told(device.told.wrapping_add(1)).filter(|_| theirs);
        if let Some(slot) = told {
            device.my_turn = true;
            device.told = device.told.wrapping_add(1);
            self.common.actions.push_back(Action::Tell { slot, word: DeviceWord::Room });
        } else if mine {
            device.my_turn = false;
            device.calls();
            self.settle(now_ns);
        }
    }

    /// Who waits for the device alone tries again after a while, whatever became of words and of the last attempt.
    pub(super) fn call_later(&mut self, now_ns: u64) {
        let Common { places, pace, .. } = &mut self.common;
        if places.lack(now_ns).is_some() && places.device.due_ns.is_none() {
            let wait_ns = pace.refused_ns(places.device.refusals.saturating_sub(1)).min(RETRY_MAX_NS);
            places.device.due_ns = Some(now_ns.saturating_add(wait_ns));
        }
    }

    /// Does this process lack a queue pair of its node's device? The others of the node should know.
    pub fn lack(&self, now_ns: u64) -> Option<Lack> {
        self.common.places.lack(now_ns)
    }

    /// What the queue pair that is to be made is for.
    pub fn qp_for(&self, ix: PeerIx, now_ns: u64) -> QpFor {
        match self.peers.row(ix).map(|(_, row)| row.state()) {
            Some(State::Preparing { target: Target::Asked(_), .. }) => QpFor::Answer,
            Some(State::Preparing { tries, .. }) if presses(tries.since_ns, now_ns) => QpFor::PressingAttempt,
            _ => QpFor::Attempt,
        }
    }
}
