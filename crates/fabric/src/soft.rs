//! The soft provider: processes of one host. A queue pair is a ring in each side's segment, made when the pair leaves
//! RESET; a datagram is a slot of the receiver's mailbox.
//!
//! Who asks for a connection has messages to send, and may compute for an hour before it is here again. So it makes
//! one more ring, in its *own* segment: what it posts before it is answered lies there, the peer reads it when it
//! answers, and the last word in that ring sends it on to the usual one ([`qp`]).
mod ahead;
mod cq;
mod later;
mod maps;
mod memory;
mod peers;
mod qp;
mod reach;
mod shared;
#[cfg(test)]
mod tests;

pub use cq::HOT_MAX;
pub use shared::SharedCounts;

use crate::card::Card;
use crate::context::{Config, Node, OpenError};
use crate::imitate::Imitation;
use crate::provider::{
    Ahead, Caps, ConnectError, ControlError, CreateError, Provider, ReachError, Role, Sent,
};
use crate::qp::{MrKey, ProviderKind, Qp};
use crate::state::{self, QpState};
use cq::Cq;
use memory::RingMemory;
use peers::Peers;
use proto::ids::QpNum;
use proto::wireup::Params;
use qp::{QpEntry, Slot};
use shared::Shared;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use sys::cpu::{Barrier, CoreSet};
use sys::node::{NodeFacts, NodeSegment, PLANES, QpClaim, QpWant, Ties};
use sys::segment::{Armed, DATAGRAM_MAX, HEAD_BYTES, Region, Segment, Sleeper};
use sys::{Locator, SharedMap, UserBuf};

const _: () = assert!(crate::DATAGRAM_MAX <= DATAGRAM_MAX);
const _: () = assert!((ProviderKind::Soft as usize) < PLANES && (ProviderKind::Sockets as usize) < PLANES);

/// Registered memory in this process's own segment.
#[derive(Debug)]
pub struct SharedRegion {
    /// Names it to peers.
    pub key: MrKey,
    /// The memory; its address is what peers name.
    pub map: SharedMap,
    offset: u64,
}

/// The provider. See the module's head.
#[derive(Debug)]
pub struct Soft {
    node: Rc<NodeSegment>,
    slot: u32,
    segment: Segment,
    qps: Vec<Slot>,
    /// Places in it that are free.
    qps_free: Vec<u32>,
    live: usize,
    /// Queue pair of each receive ring.
    rings: Vec<Option<u32>>,
    rings_free: Vec<u32>,
    peers: Peers,
    memory: RingMemory,
    cq: Cq,
    cma: bool,
    frugal: bool,
    mappable: bool,
    imitation: Imitation,
    /// Queue pairs that were made before they are needed.
    kept: Vec<Qp>,
    /// Queue pairs for whose connecting the device has done its part already.
    readied: usize,
    shared: Shared,
}

impl Soft {
    pub(crate) fn open(config: &Config) -> Result<Self, OpenError> {
        let (node, slot, agent) = match &config.node {
            Node::Agent { segment, slot } => {
                (NodeSegment::open(segment).map_err(OpenError::Node)?, *slot, true)
            }
            Node::Own(facts) => (NodeSegment::create(facts).map_err(OpenError::Node)?, 0, false),
        };
        let slots = node.facts().slots;
        if slot >= slots {
            return Err(OpenError::Slot { slot, slots });
        }
        node.claim_slot(slot, std::process::id());
        let registered = Barrier::register();
        // Processes that share cores sleep often; then a fence at each send is the cheaper side to pay.
        let barrier = if node.facts().oversubscribed { Barrier::Both } else { registered };
        let segment = Segment::create(barrier).map_err(OpenError::Segment)?;
        if agent && let Ok(at) = segment.locator() {
            node.set_doorbell(slot, &at); // without it, a process that sleeps does not hear when it is asked
        }
        node.take_qp(slot, QpClaim::Answer).map_err(OpenError::Limit)?; // the one for datagrams
        if config.cma {
            sys::cma::allow_siblings();
        }
        let same_space = !agent || node.facts().pid_space == sys::node::pid_space();
        Ok(Soft {
            mappable: same_space && sys::process::opens_to_peers(),
            node: Rc::new(node),
            slot,
            segment,
            qps: Vec::new(),
            qps_free: Vec::new(),
            live: 0,
            rings: Vec::new(),
            rings_free: Vec::new(),
            peers: Peers::new(registered),
            memory: RingMemory::new(config.ring_bytes_max, config.conn_memory),
            cq: Cq::default(),
            cma: config.cma,
            frugal: false,
            imitation: config.imitation,
            kept: Vec::new(),
            readied: 0,
            shared: Shared::new(config.xrc),
        })
    }

    /// What the agent fixed for the node.
    pub fn facts(&self) -> &NodeFacts {
        self.node.facts()
    }

    /// What the processes of the node share with their agent.
    pub(crate) fn segment_of_node(&self) -> &NodeSegment {
        &self.node
    }

    /// The node's segment, and the process's slot.
    pub(crate) fn place(&self) -> (Rc<NodeSegment>, u32) {
        (self.node.clone(), self.slot)
    }

    /// Can other processes of the user map this one's segment, as far as can be known from here?
    pub(crate) fn is_mappable(&self) -> bool {
        self.mappable
    }

    pub(crate) fn locator(&self) -> io::Result<Locator> {
        self.segment.locator()
    }

    pub(crate) fn pollable_doorbell(&mut self) -> io::Result<BorrowedFd<'_>> {
        self.segment.pollable_doorbell()
    }

    pub(crate) fn sleeper(&self) -> Sleeper {
        self.segment.sleeper()
    }

    /// Asks to be rung from now on, by the futex or by a descriptor.
    pub(crate) fn arm(&mut self, pollable: bool) -> io::Result<Armed> {
        self.reclaim(); // who sleeps has time for that, and needs less
        if pollable { self.segment.arm_pollable() } else { Ok(self.segment.arm()) }
    }

    /// Memory in the segment, registered.
    pub(crate) fn allocate(&mut self, bytes: usize) -> io::Result<Option<SharedRegion>> {
        let (offset, map) = self.segment.carve(bytes.next_multiple_of(4096))?;
        let region = Region { addr: map.addr(), bytes: map.bytes() as u64, segment_offset: Some(offset) };
        let Some(key) = self.segment.register(region) else {
            self.segment.give_back(offset, map.bytes());
            return Ok(None);
        };
        Ok(Some(SharedRegion { key: MrKey(key), map, offset }))
    }

    /// Ends the registration of memory in the segment and gives it back.
    pub(crate) fn free(&mut self, region: SharedRegion) {
        self.segment.deregister(region.key.0);
        let bytes = region.map.bytes();
        drop(region.map);
        self.segment.give_back(region.offset, bytes);
    }

    /// Queue pairs of the device that are kept for answers.
    pub(crate) fn kept_qps(&self) -> u32 {
        self.node.kept_qps()
    }

    pub(crate) fn want_qp(&self, want: Option<QpWant>) {
        self.node.want_qp(self.slot, want);
    }

    /// Processes of the node that lack a queue pair, and all of them with the queue pairs that they have, by slot.
    pub(crate) fn wanting(&self) -> Vec<(u32, QpWant)> {
        self.node.wanting().filter(|(slot, _)| *slot != self.slot).collect()
    }

    pub(crate) fn holding(&self) -> Vec<(u32, u32)> {
        let others = (0..self.node.facts().slots).filter(|slot| *slot != self.slot);
        others.map(|slot| (slot, self.node.qps_of(slot))).collect()
    }

    pub(crate) fn wait_turn(&self, most: Duration) -> bool {
        self.node.wait_turn(self.slot, most)
    }

    pub(crate) fn end_turn(&self) {
        self.node.end_turn(self.slot);
    }

    pub(crate) fn qp_wanted(&self) -> bool {
        self.node.is_qp_wanted(self.slot)
    }

    pub(crate) fn touched_bytes(&self) -> u64 {
        self.segment.touched_bytes()
    }

    pub(crate) fn publish_stat(&self, index: usize, value: u64) {
        self.node.stat(self.slot, index).store(value, Ordering::Relaxed);
    }

    pub(crate) fn set_ties(&self, ties: Ties) {
        self.node.set_ties(self.slot, ties);
    }

    pub(crate) fn lost_jobs(&self, seen: &mut u32) -> Vec<u64> {
        self.node.lost_since(seen)
    }

    pub(crate) fn note_met(&self, rank: u32, kind: ProviderKind) {
        // (Those of RDMA devices count as those through sockets do.)
        self.node.note_met(self.slot, rank, (kind as usize).min(1));
    }

    pub(crate) fn records_contacts(&self) -> bool {
        self.node.records().contacts > 0
    }

    pub(crate) fn note_contact(&self, rank: u32, when_ms: u32) {
        self.node.note_contact(self.slot, rank, when_ms);
    }

    pub(crate) fn published_stat(&self, index: usize) -> u64 {
        self.node.stat(self.slot, index).load(Ordering::Relaxed)
    }

    #[inline]
    fn entry(&self, qp: Qp) -> Option<&QpEntry> {
        self.qps.get(qp.index()).filter(|slot| slot.generation == qp.generation())?.entry.as_ref()
    }

    #[inline]
    fn entry_mut(&mut self, qp: Qp) -> Option<&mut QpEntry> {
        self.qps.get_mut(qp.index()).filter(|slot| slot.generation == qp.generation())?.entry.as_mut()
    }

    /// The queue pair with this index.
    #[inline]
    fn named(&self, index: u32) -> Qp {
        Qp::new(ProviderKind::Soft, index as usize, self.qps[index as usize].generation)
    }

    /// Checks a move and makes it.
    fn go(&mut self, qp: Qp, to: QpState) -> Result<&mut QpEntry, ConnectError> {
        let entry = self.entry_mut(qp).ok_or(ConnectError::Stale)?;
        state::check(entry.num.0, entry.state, to)?;
        Ok(entry)
    }
}

impl Provider for Soft {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Soft
    }

    fn caps(&self) -> Caps {
        Caps {
            message_max: self.message_max(),
            early: !self.shared.on(),
            reads_alone: self.cma,
            reads: self.cma,
            places: false,
            refusals_break: false,
            atomics: true,
            control_on_stream: false,
        }
    }

    fn create(&mut self, claim: QpClaim) -> Result<Qp, CreateError> {
        if let Some(qp) = self.take_kept(claim) {
            return Ok(qp);
        }
        let qp = self.make(claim)?;
        self.imitation.create(&self.node, 1);
        Ok(qp)
    }

    fn create_for(&mut self, claim: QpClaim, peer: &Card) -> Result<Qp, CreateError> {
        if self.shares_with(peer) { self.make_sharing(claim, peer) } else { self.create(claim) }
    }

    fn keep_ready(&mut self, count: usize) -> bool {
        // What costs nothing is made when it is needed.
        let wanted = self.imitation.create_ns > 0 && self.kept.len() < count && self.node.has_plenty();
        let made = if wanted { self.make(QpClaim::Answer).ok() } else { None };
        if made.is_some() {
            self.imitation.create(&self.node, 1);
        }
        self.kept.extend(made);
        made.is_some()
    }

    fn ready_together(&mut self, count: usize) {
        self.imitation.ready(&self.node, count);
        self.readied = count;
    }

    fn create_ahead(&mut self, count: usize, threads: usize, _: &CoreSet) -> Option<Ahead> {
        self.make_ahead(count, threads)
    }

    fn create_together(&mut self, count: usize, threads: usize) -> Vec<(Qp, Params)> {
        self.make_together(count, threads)
    }

    fn ahead_params(&self, facts: [u64; 2], place: u32, number: u32) -> Option<Params> {
        ahead::params(facts, place, number)
    }

    fn init(&mut self, qp: Qp, peer: &Card, role: Role) -> Result<Params, ConnectError> {
        self.prepare(qp, peer, role)
    }

    fn rtr(&mut self, qp: Qp, peer: &Card, params: &Params) -> Result<(), ConnectError> {
        self.attach(qp, peer, params)
    }

    fn rts(&mut self, qp: Qp) -> Result<(), ConnectError> {
        self.go(qp, QpState::ReadyToSend)?.state = QpState::ReadyToSend;
        Ok(())
    }

    fn sqd(&mut self, qp: Qp) -> Result<(), ConnectError> {
        self.go(qp, QpState::SendDrained)?.state = QpState::SendDrained;
        Ok(())
    }

    /// What was posted is in the peer's memory at once.
    fn is_drained(&self, qp: Qp) -> bool {
        self.entry(qp).is_some()
    }

    /// What was sent is not the sender's any more; what has come is looked at.
    fn is_busy(&self, qp: Qp) -> bool {
        let Some(entry) = self.entry(qp) else { return false };
        entry.has_unread() || (entry.halves.is_some() && self.has_pooled_for(qp))
    }

    /// In lines of 64 bytes; a message is one at least.
    fn traffic(&self, qp: Qp) -> u64 {
        self.entry(qp).map_or(0, QpEntry::lines)
    }

    fn state(&self, qp: Qp) -> QpState {
        self.entry(qp).map_or(QpState::Reset, |entry| entry.state)
    }

    fn destroy(&mut self, qp: Qp) {
        self.unmake(qp);
    }

    fn count(&self) -> usize {
        self.live - self.kept.len()
    }

    fn send_control(&mut self, _: Option<Qp>, to: &Card, bytes: &[u8]) -> Result<Sent, ControlError> {
        assert!(bytes.len() <= DATAGRAM_MAX, "a datagram of {} bytes", bytes.len());
        let at = to.soft.ok_or(ReachError::NotShared)?;
        let peer = self.peers.segment(&at).map_err(|error| ControlError::Map { pid: at.pid, error })?;
        Ok(if peer.send_datagram(bytes) { Sent::Sent } else { Sent::Dropped })
    }

    fn register(&mut self, buf: UserBuf) -> Option<MrKey> {
        let region = Region { addr: buf.addr(), bytes: buf.len() as u64, segment_offset: None };
        self.segment.register(region).map(MrKey)
    }

    fn deregister(&mut self, key: MrKey) {
        self.segment.deregister(key.0);
    }

    fn set_frugal(&mut self, frugal: bool) {
        self.frugal = frugal;
        self.set_pool_frugal();
        // (Who is connected to with the first message is told then.)
        let entries = self.qps.iter().filter_map(|slot| slot.entry.as_ref());
        let connected = entries.filter(|entry| entry.later.is_none());
        for inbound in connected.filter_map(|entry| entry.inbound.as_ref()) {
            inbound.ring.set_frugal(frugal);
            if let Some((next, _)) = &inbound.next {
                next.set_frugal(frugal);
            }
        }
    }

    fn datagrams_dropped(&mut self) -> u64 {
        self.segment.dropped().into()
    }

    fn memory_bytes(&self) -> u64 {
        let entries = self.qps.iter().filter_map(|slot| slot.entry.as_ref());
        let rings: usize = entries.map(QpEntry::remote_bytes).sum();
        self.segment.bytes() + (self.peers.count() * HEAD_BYTES + rings) as u64
    }
}

impl Drop for Soft {
    fn drop(&mut self) {
        let entries = || self.qps.iter().filter_map(|slot| slot.entry.as_ref());
        let (initiators, asking) = self.initiators();
        let attempts = entries().filter(|entry| entry.attempt && entry.halves.is_none()).count() + asking;
        (0..attempts).for_each(|_| self.node.end_attempt(self.slot));
        let queue_pairs = entries().filter(|entry| entry.halves.is_none()).count() + initiators;
        (0..=queue_pairs).for_each(|_| self.node.give_qp(self.slot)); // and the one for datagrams
        self.node.want_qp(self.slot, None);
    }
}

/// What a peer needs to send to a queue pair, in the bytes of [`Params`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingParams {
    /// The queue pair.
    pub num: QpNum,
    /// Number of its receive ring.
    pub ring: u32,
    /// Where the ring lies in its owner's segment.
    pub ring_offset: u64,
    /// Length of the ring.
    pub ring_bytes: u32,
    /// Length of the ring of early messages; 0 if there is none.
    pub early_bytes: u32,
    /// Where that lies in the same segment.
    pub early_offset: u64,
}

impl RingParams {
    /// As bytes.
    pub fn to_params(&self) -> Params {
        let mut out = [0; 32];
        out[0..4].copy_from_slice(&self.num.0.to_le_bytes());
        out[4..8].copy_from_slice(&self.ring.to_le_bytes());
        out[8..16].copy_from_slice(&self.ring_offset.to_le_bytes());
        out[16..20].copy_from_slice(&self.ring_bytes.to_le_bytes());
        out[20..24].copy_from_slice(&self.early_bytes.to_le_bytes());
        out[24..32].copy_from_slice(&self.early_offset.to_le_bytes());
        Params(out)
    }

    /// From bytes; what they mean is checked when the queue pair connects.
    pub fn from_params(params: &Params) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes(params.0[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(params.0[at..at + 8].try_into().expect("eight bytes"));
        RingParams {
            num: QpNum(u32_at(0)),
            ring: u32_at(4),
            ring_offset: u64_at(8),
            ring_bytes: u32_at(16),
            early_bytes: u32_at(20),
            early_offset: u64_at(24),
        }
    }
}
