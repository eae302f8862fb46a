//! Connections that are shared by a node (XRC): a queue pair that sends, an *initiator*, reaches every process of another node.
//!
//! It goes one way, from a process to a node. So the connection of a pair has a sending and a receiving half. The sending half
//! is the initiator, which all pairs with processes of that node share, and the number of the peer's receive queue, which
//! the handshake brings. The receiving half is this process's one receive queue ([`sys::pool`]), which all its peers put their
//! messages into, and the node's *target* for the peer, which all processes of the node share.
//!
//! The first pair with a node makes the initiator (a *direct* connection); the others find it there (*indirect* ones). It stays
//! until the last of them is closed, whoever was the first. A pair whose processes are on one node, or of whom one does
//! not share, has rings as before; both sides tell by their cards.
use super::Soft;
use super::cq::Found;
use super::qp::QpEntry;
use crate::card::Card;
use crate::provider::{ConnectError, CreateError, PostError, ReachError};
use crate::qp::Qp;
use crate::state::QpState;
use proto::ids::QpNum;
use proto::wireup::Params;
use std::collections::HashMap;
use std::rc::Rc;
use sys::Locator;
use sys::node::QpClaim;
use sys::pool::{Full, POOL_BYTES, POOL_PAYLOAD_MAX, PoolRx, PoolTx};
use sys::segment::{PeerSegment, RINGS_MAX};

/// In the place of a ring's number: the parameters are those of a receive queue.
const SHARED_MARK: u32 = u32::MAX;
/// In the place of a queue pair in the table of rings: the receive queue.
pub(super) const POOL_RING: u32 = u32::MAX;

/// A node, as cards name it.
pub(super) type Home = ([u64; 2], u32);

/// What became of connections that are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCounts {
    /// Queue pairs that send to a node, now and at most.
    pub initiators: u64,
    /// The most there were.
    pub initiators_peak: u64,
    /// Pairs that made one.
    pub direct: u64,
    /// Pairs that found one.
    pub indirect: u64,
    /// Times that the pair which had made one was closed, and the others kept it.
    pub passed_on: u64,
    /// Receive-only ends of the node that this process opened, and those among them that another process had open.
    pub targets: u64,
    /// Those that were there.
    pub targets_found: u64,
}

impl SharedCounts {
    /// Together with those of another provider.
    pub(crate) fn with(self, other: &SharedCounts) -> SharedCounts {
        SharedCounts {
            initiators: self.initiators + other.initiators,
            initiators_peak: self.initiators_peak + other.initiators_peak,
            direct: self.direct + other.direct,
            indirect: self.indirect + other.indirect,
            passed_on: self.passed_on + other.passed_on,
            targets: self.targets + other.targets,
            targets_found: self.targets_found + other.targets_found,
        }
    }
}

/// What a process shares.
#[derive(Debug, Default)]
pub(super) struct Shared {
    on: bool,
    pool: Option<Pool>,
    initiators: HashMap<Home, Initiator>,
    counts: SharedCounts,
}

impl Shared {
    pub fn new(on: bool) -> Self {
        Shared { on, ..Shared::default() }
    }

    pub fn on(&self) -> bool {
        self.on
    }
}

#[derive(Debug)]
struct Pool {
    rx: PoolRx,
    offset: u64,
    /// Its number among the rings.
    id: u32,
}

#[derive(Debug)]
struct Initiator {
    num: QpNum,
    /// Pairs that use it.
    pairs: u32,
    /// The one that made it, or that was given it; by its index.
    first: u32,
    /// Those of them that nobody has answered. With one, the device counts it as an attempt to connect.
    asking: u32,
    /// Has it reached the node?
    ready: bool,
}

/// A pair's halves.
#[derive(Debug)]
pub(super) struct Halves {
    home: Home,
    /// The node's receive-only end for the peer.
    target: Option<u32>,
    out: Option<Out>,
    /// Messages, both ways.
    pub messages: u64,
}

#[derive(Debug)]
pub(super) struct Out {
    pub tx: PoolTx,
    /// For whom messages are, in the peer's own words.
    to: u64,
    /// The number of its receive queue.
    id: u32,
    pub peer: Rc<PeerSegment>,
    pub at: Locator,
}

impl Halves {
    pub fn out(&self) -> Option<&Out> {
        self.out.as_ref()
    }
}

/// What a peer needs to send to a pair's receiving half, in the bytes of [`Params`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SharedParams {
    /// The initiator that this side sends by.
    num: QpNum,
    offset: u64,
    id: u32,
    to: u64,
}

impl SharedParams {
    fn to_params(self) -> Params {
        let mut out = [0; 32];
        out[0..4].copy_from_slice(&self.num.0.to_le_bytes());
        out[4..8].copy_from_slice(&SHARED_MARK.to_le_bytes());
        out[8..16].copy_from_slice(&self.offset.to_le_bytes());
        out[16..20].copy_from_slice(&self.id.to_le_bytes());
        out[24..32].copy_from_slice(&self.to.to_le_bytes());
        Params(out)
    }

    fn from_params(params: &Params) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes(params.0[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(params.0[at..at + 8].try_into().expect("eight bytes"));
        let known = u32_at(4) == SHARED_MARK && (u32_at(16) as usize) < RINGS_MAX;
        let params =
            || SharedParams { num: QpNum(u32_at(0)), offset: u64_at(8), id: u32_at(16), to: u64_at(24) };
        known.then(params)
    }
}

/// How the peers of a pair name it to this process.
fn word_of(qp: Qp) -> u64 {
    u64::from(qp.generation()) << 32 | qp.index() as u64
}

impl Soft {
    /// Is the connection to the owner of a card one that its node shares?
    pub(super) fn shares_with(&self, peer: &Card) -> bool {
        let facts = self.node.facts();
        let own = self.shared.on && self.mappable && peer.shared && peer.soft.is_some();
        own && peer.host == facts.host && peer.node != facts.node
    }

    /// A pair that shares a connection to the peer's node; the first makes it.
    pub(super) fn make_sharing(&mut self, claim: QpClaim, peer: &Card) -> Result<Qp, CreateError> {
        let home = (peer.host, peer.node);
        let known = self.shared.initiators.get(&home).map(|initiator| initiator.num);
        let attempt = claim != QpClaim::Answer;
        let asking = self.shared.initiators.get(&home).is_some_and(|initiator| initiator.asking > 0);
        let num = match known {
            // What could be closed before cannot be until it is answered.
            Some(_) if attempt && !asking && !self.node.begin_attempt(self.slot) => {
                return Err(CreateError::Device(self.node.limit()));
            }
            Some(num) => num,
            None => {
                let counted = self.node.take_qp(self.slot, claim).map_err(CreateError::Device)?;
                self.imitation.create(&self.node, 1);
                QpNum(self.imitation.number(counted))
            }
        };
        let halves = Halves { home, target: None, out: None, messages: 0 };
        let mut entry = QpEntry::new(num, attempt, self.events());
        entry.halves = Some(Box::new(halves));
        let qp = self.enter(entry);
        let counts = &mut self.shared.counts;
        match known {
            Some(_) => counts.indirect += 1,
            None => {
                counts.direct += 1;
                counts.initiators += 1;
                counts.initiators_peak = counts.initiators_peak.max(counts.initiators);
            }
        }
        let new = || Initiator { num, pairs: 0, first: qp.index() as u32, asking: 0, ready: false };
        let initiator = self.shared.initiators.entry(home).or_insert_with(new);
        initiator.pairs += 1;
        initiator.asking += u32::from(attempt);
        Ok(qp)
    }

    /// RESET to INIT: there is a receive queue, and the node has a target for the peer.
    pub(super) fn prepare_sharing(&mut self, qp: Qp, peer: &Card) -> Result<Params, ConnectError> {
        let at = peer.soft.ok_or(ReachError::NotShared)?;
        let (offset, id) = self.open_pool()?;
        // (Where the node tells no more apart, the peer's messages come all the same.)
        let key = (u64::from(at.pid) << 32 ^ u64::from(at.fd) << 56 ^ at.start_ticks).max(1);
        let target = self.node.open_target(self.slot, key);
        self.shared.counts.targets += u64::from(target.is_some());
        self.shared.counts.targets_found += u64::from(target.is_some_and(|(_, found)| found));
        let entry = self.entry_mut(qp).ok_or(ConnectError::Stale)?;
        entry.state = QpState::Init;
        let halves = entry.halves.as_mut().ok_or(ConnectError::Stale)?;
        halves.target = target.map(|(number, _)| number);
        Ok(SharedParams { num: entry.num, offset, id, to: word_of(qp) }.to_params())
    }

    /// INIT to RTR: knows the peer's receive queue.
    pub(super) fn attach_sharing(
        &mut self,
        qp: Qp,
        peer: &Card,
        params: &Params,
    ) -> Result<(), ConnectError> {
        let at = peer.soft.ok_or(ReachError::NotShared)?;
        let known = SharedParams::from_params(params);
        let params = known.ok_or(ConnectError::Params { num: QpNum(0), ring: SHARED_MARK, bytes: 0 })?;
        let map_error = |error| ConnectError::Map { pid: at.pid, error };
        let peer = self.peers.segment(&at).map_err(map_error)?;
        let map = peer.map(params.offset, POOL_BYTES).map_err(map_error)?;
        let tx = PoolTx::new(map, std::process::id());
        let entry = self.entry_mut(qp).ok_or(ConnectError::Stale)?;
        entry.state = QpState::ReadyToReceive;
        let halves = entry.halves.as_mut().ok_or(ConnectError::Stale)?;
        halves.out = Some(Out { tx, to: params.to, id: params.id, peer, at });
        let home = halves.home;
        if std::mem::take(&mut entry.attempt) {
            self.answered(home);
        }
        let initiator = self.shared.initiators.get_mut(&home);
        if initiator.is_some_and(|initiator| !std::mem::replace(&mut initiator.ready, true)) {
            self.imitation.ready(&self.node, 1);
        }
        Ok(())
    }

    /// A pair is gone. The initiator is the others', if there are others.
    pub(super) fn unmake_sharing(&mut self, index: u32, halves: &Halves, attempt: bool) {
        if attempt {
            self.answered(halves.home);
        }
        if let Some(target) = halves.target {
            self.node.close_target(self.slot, target);
        }
        let Some(initiator) = self.shared.initiators.get_mut(&halves.home) else { return };
        initiator.pairs -= 1;
        if initiator.pairs > 0 {
            if initiator.first == index {
                let others = self.qps.iter().enumerate().find(|(_, slot)| {
                    let other = slot.entry.as_ref().and_then(|entry| entry.halves.as_ref());
                    other.is_some_and(|other| other.home == halves.home)
                });
                initiator.first = others.map_or(index, |(other, _)| other as u32);
                self.shared.counts.passed_on += 1;
            }
            return;
        }
        self.shared.initiators.remove(&halves.home);
        self.shared.counts.initiators -= 1;
        self.node.give_qp(self.slot);
    }

    /// An attempt was answered, or given up.
    fn answered(&mut self, home: Home) {
        if let Some(initiator) = self.shared.initiators.get_mut(&home) {
            initiator.asking -= 1;
            if initiator.asking == 0 {
                self.node.end_attempt(self.slot);
            }
        }
    }

    /// The longest message that every connection takes, at least after a while.
    pub(super) fn message_max(&self) -> usize {
        let rings = self.memory.message_max();
        if self.shared.on { rings.min(POOL_PAYLOAD_MAX) } else { rings }
    }

    /// Queue pairs of the device that send to nodes, and those of them that nobody has answered.
    pub(super) fn initiators(&self) -> (usize, usize) {
        let attempts = self.shared.initiators.values().filter(|initiator| initiator.asking > 0).count();
        (self.shared.initiators.len(), attempts)
    }

    pub(crate) fn shared_counts(&self) -> SharedCounts {
        self.shared.counts
    }

    /// The receive queue: where it is in the segment, and its number.
    fn open_pool(&mut self) -> Result<(u64, u32), ConnectError> {
        if let Some(pool) = &self.shared.pool {
            return Ok((pool.offset, pool.id));
        }
        let (offset, map) = self.segment.carve(POOL_BYTES).map_err(ConnectError::Memory)?;
        let id = self.number_ring(POOL_RING);
        let rx = PoolRx::new(map);
        rx.set_frugal(self.frugal);
        self.shared.pool = Some(Pool { rx, offset, id });
        Ok((offset, id))
    }

    pub(super) fn set_pool_frugal(&self) {
        if let Some(pool) = &self.shared.pool {
            pool.rx.set_frugal(self.frugal);
        }
    }

    /// Is there a message in the receive queue that may be looked at?
    #[inline]
    pub(super) fn is_pool_ready(&self) -> bool {
        self.shared.pool.as_ref().is_some_and(|pool| self.has_in(&pool.rx))
    }

    #[cold]
    fn has_in(&self, rx: &PoolRx) -> bool {
        rx.has_news() || rx.has(|to| is_wanted(&self.qps, to))
    }

    /// Does a sender wait for the slot of the message that was lent last?
    #[inline]
    pub(super) fn is_pool_lent(&self) -> bool {
        self.shared.pool.as_ref().is_some_and(|pool| pool.rx.lends())
    }

    /// Has a message come for a pair that was not looked at yet?
    pub(super) fn has_pooled_for(&self, qp: Qp) -> bool {
        let word = word_of(qp);
        self.shared.pool.as_ref().is_some_and(|pool| pool.rx.has_news() || pool.rx.has(|to| to == word))
    }

    /// The message that was lent last is not needed any more: senders that wait for a slot are woken. Was one lent?
    #[inline]
    pub(super) fn release_pooled(&mut self) -> bool {
        let lent = self.is_pool_lent();
        if lent {
            self.give_back_pooled();
        }
        lent
    }

    #[cold]
    fn give_back_pooled(&mut self) {
        let Some(pool) = &mut self.shared.pool else { return };
        pool.rx.give_back();
        if pool.rx.take_waiting() {
            // A slot that a dead sender has is what they may wait for.
            pool.rx.repair();
            let entries = self.qps.iter().filter_map(|slot| slot.entry.as_ref());
            let peers = entries.filter_map(|entry| entry.halves.as_ref()?.out());
            peers.for_each(|out| out.peer.ring());
        }
    }

    /// A message in the receive queue. Those for pairs that do not receive yet wait until they do; those for nobody are dropped.
    pub(super) fn find_pooled(&mut self) -> Found {
        self.release_pooled();
        let Some(pool) = &mut self.shared.pool else { return Found::Nothing };
        pool.rx.look();
        while let Some(to) = pool.rx.pick(|to| is_wanted(&self.qps, to)) {
            let index = to as u32;
            let slot = self.qps.get_mut(index as usize).filter(|slot| slot.generation == (to >> 32) as u32);
            if let Some(halves) = slot.and_then(|slot| slot.entry.as_mut()?.halves.as_mut()) {
                halves.messages += 1;
                return Found::Pooled(index);
            }
        }
        Found::Nothing
    }

    /// The next message for one pair.
    pub(super) fn find_pooled_for(&mut self, qp: Qp) -> bool {
        self.release_pooled();
        let Some(pool) = &mut self.shared.pool else { return false };
        pool.rx.look();
        let word = word_of(qp);
        pool.rx.pick(|to| to == word).is_some()
    }

    /// The message that was found.
    pub(super) fn pooled(&self) -> Option<sys::pool::PoolView<'_>> {
        self.shared.pool.as_ref()?.rx.view()
    }
}

/// May a message be looked at: is it for a pair that receives, or for nobody?
fn is_wanted(qps: &[super::qp::Slot], to: u64) -> bool {
    let slot = qps.get(to as u32 as usize).filter(|slot| slot.generation == (to >> 32) as u32);
    let entry = slot.and_then(|slot| slot.entry.as_ref());
    entry.is_none_or(|entry| entry.state != QpState::Init)
}

/// Puts a message into the peer's receive queue.
#[cold]
pub(super) fn post_shared(
    entry: &mut QpEntry,
    bytes: usize,
    write: impl FnOnce(&PoolTx, u64) -> Result<bool, Full>,
) -> Result<(), PostError> {
    let Some(halves) = &mut entry.halves else { return Err(PostError::Stale) };
    let Some(out) = &halves.out else { return Err(PostError::Stale) };
    if bytes > POOL_PAYLOAD_MAX {
        return Err(PostError::TooLong { bytes, max: POOL_PAYLOAD_MAX });
    }
    let first = write(&out.tx, out.to).map_err(|Full| PostError::Full)?;
    if first {
        out.peer.notify(out.id as usize, || false);
    }
    halves.messages += 1;
    Ok(())
}
