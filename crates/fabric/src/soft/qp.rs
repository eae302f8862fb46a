//! Queue pairs of one host: a ring each way, growing when it is too small, and the ring of early messages.
use super::later::Later;
use super::memory::{EARLY_SIZES, Judged, RING_BYTES_NEEDED_MAX, RING_SIZES};
use super::shared::{Halves, post_shared};
use super::{RingParams, Soft};
use crate::card::Card;
use crate::provider::{ConnectError, CreateError, PostError, ReachError, Role};
use crate::qp::Qp;
use crate::state::QpState;
use proto::ids::QpNum;
use proto::wireup::Params;
use std::io;
use std::rc::Rc;
use sys::node::QpClaim;
use sys::pool::{self, POOL_PAYLOAD_MAX, PoolTx};
use sys::ring::{Full, Growth, RingRx, RingTx, payload_max};
use sys::segment::{PeerSegment, RINGS_MAX};
use sys::{Locator, SharedMap, UserBuf};

/// A place for a queue pair.
#[derive(Debug)]
pub(super) struct Slot {
    /// Counts those that were here before.
    pub generation: u32,
    pub entry: Option<QpEntry>,
}

/// The receiving half.
#[derive(Debug)]
pub(super) struct Inbound {
    /// The ring that is read now.
    pub ring: RingRx,
    pub home: Home,
    pub id: u32,
    /// The ring that the writer goes on to: one on offer, or the usual one behind the early one. With its offset
    /// in the own segment.
    pub next: Option<(RingRx, u64)>,
}

/// Whose memory a ring is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// In the own segment, at this offset.
    Own(u64),
    /// In the writer's.
    Peer,
}

#[derive(Debug)]
pub(super) struct Outbound {
    ring: RingTx,
    id: u32,
    peer: Rc<PeerSegment>,
    at: Locator,
    /// Where the ring on offer is that could not be mapped.
    unmapped: Option<u64>,
}

/// A ring in the own segment that a peer reads.
#[derive(Debug)]
pub(super) struct Early {
    pub ring: RingTx,
    pub offset: u64,
    pub peer: Rc<PeerSegment>,
}

#[derive(Debug)]
pub(super) struct QpEntry {
    pub num: QpNum,
    pub state: QpState,
    /// Does the device count it as an attempt to connect?
    pub attempt: bool,
    pub inbound: Option<Inbound>,
    outbound: Option<Outbound>,
    early: Option<Early>,
    /// Is its ring in the set that is polled directly?
    pub hot: bool,
    /// Times it was found by its ready bit since it was hot.
    pub cold_hits: u32,
    pub judged: Judged,
    /// Lines that went through rings which have been replaced, both ways.
    pub past: u64,
    /// In the place of rings, where the peer's node shares a connection.
    pub halves: Option<Box<Halves>>,
    /// In the place of the peer's ring, until the first message.
    pub later: Option<Box<Later>>,
}

impl QpEntry {
    pub fn new(num: QpNum, attempt: bool, events: u32) -> Self {
        QpEntry {
            num,
            state: QpState::Reset,
            attempt,
            inbound: None,
            outbound: None,
            early: None,
            hot: false,
            cold_hits: 0,
            judged: Judged::new(events),
            past: 0,
            halves: None,
            later: None,
        }
    }

    /// Is there a way to the peer?
    pub fn has_way(&self) -> bool {
        self.outbound.is_some() || self.halves.is_some()
    }

    /// The way to the peer, and how the two order what they write.
    pub fn connect(&mut self, outbound: Outbound) {
        if let Some(inbound) = &mut self.inbound {
            inbound.ring.set_barrier(outbound.peer.barrier());
        }
        self.outbound = Some(outbound);
    }

    /// The peer's segment, and where it is, once there is a connection.
    pub fn peer(&self) -> Option<(&PeerSegment, Locator)> {
        match (&self.outbound, &self.halves) {
            (Some(out), _) => Some((&out.peer, out.at)),
            (None, Some(halves)) => halves.out().map(|out| (&*out.peer, out.at)),
            (None, None) => None,
        }
    }

    /// The peer's receive queue, while it may be written to.
    fn pool(&self) -> Option<&PoolTx> {
        let out = self.halves.as_ref().filter(|_| self.state == QpState::ReadyToSend)?.out();
        out.map(|out| &out.tx)
    }

    pub fn remote_bytes(&self) -> usize {
        self.outbound.as_ref().map_or(0, |out| out.ring.bytes())
    }

    pub fn set_polled(&mut self, polled: bool) {
        self.hot = polled;
        if let Some(inbound) = &self.inbound {
            inbound.ring.set_polled(polled);
            if let Some((next, _)) = &inbound.next {
                next.set_polled(polled);
            }
        }
    }

    /// Lines that have gone through its rings, both ways.
    pub fn lines(&self) -> u64 {
        let inbound = self.inbound.as_ref().map_or(0, |inbound| inbound.ring.lines_read());
        let outbound = self.outbound.as_ref().map_or(0, |out| out.ring.lines_written());
        let early = self.early.as_ref().map_or(0, |early| early.ring.lines_written());
        self.past + inbound + outbound + early + self.halves.as_ref().map_or(0, |halves| halves.messages)
    }

    /// Has something come that was not looked at yet?
    pub fn has_unread(&self) -> bool {
        self.inbound.as_ref().is_some_and(|inbound| inbound.ring.is_ready())
    }

    /// The peer's ring, while it may be written to: once this side has said its last, the peer may use the memory for
    /// another connection.
    #[inline(always)]
    fn writable(&mut self) -> Option<&mut Outbound> {
        self.outbound.as_mut().filter(|_| self.state == QpState::ReadyToSend)
    }

    /// Asks the peer to go on in the ring that it is offered. Was there room for that?
    pub fn ask_move(&mut self) -> bool {
        let Some(out) = self.writable() else { return false };
        let said = out.ring.ask_move().is_ok();
        if said {
            out.notify();
        }
        said
    }

    /// The peer asks this side to go on in the ring that it offers.
    pub fn accept_offer(&mut self) {
        let lines = self.writable().and_then(|out| out.accept_offer().unwrap_or(None));
        self.past += lines.unwrap_or(0);
    }

    /// Wakes the peer if it sleeps until there is room in the ring that this side reads.
    #[inline]
    pub fn wake_writer(&mut self) {
        if let (Some(inbound), Some(out)) = (&mut self.inbound, &self.outbound)
            && inbound.ring.take_writer_waits()
        {
            out.peer.ring();
        }
    }
}

impl Soft {
    pub(super) fn make(&mut self, claim: QpClaim) -> Result<Qp, CreateError> {
        if self.live >= RINGS_MAX {
            return Err(CreateError::Rings);
        }
        let counted = self.node.take_qp(self.slot, claim).map_err(CreateError::Device)?;
        let num = QpNum(self.imitation.number(counted));
        Ok(self.enter(QpEntry::new(num, claim != QpClaim::Answer, self.events())))
    }

    /// Gives a queue pair its place in the table.
    pub(super) fn enter(&mut self, entry: QpEntry) -> Qp {
        let index = self.qps_free.pop().unwrap_or_else(|| {
            self.qps.push(Slot { generation: 0, entry: None });
            self.qps.len() as u32 - 1
        });
        self.qps[index as usize].entry = Some(entry);
        self.live += 1;
        self.named(index)
    }

    /// A number for what is received into; the ready bit of that number is about it.
    pub(super) fn number_ring(&mut self, of: u32) -> u32 {
        let id = self.rings_free.pop().unwrap_or_else(|| {
            self.rings.push(None);
            self.rings.len() as u32 - 1
        });
        self.rings[id as usize] = Some(of);
        id
    }

    /// RESET to INIT: makes the receive ring and, for who asks, the ring of early messages.
    pub(super) fn prepare(&mut self, qp: Qp, peer: &Card, role: Role) -> Result<Params, ConnectError> {
        if self.go(qp, QpState::Init)?.halves.is_some() {
            return self.prepare_sharing(qp, peer);
        }
        let at = peer.soft.ok_or(ReachError::NotShared)?;
        let peer = self.peers.segment(&at).map_err(|error| match error.raw_os_error() {
            Some(sys::process::EMFILE) => ConnectError::Memory(error),
            _ => ConnectError::Map { pid: at.pid, error },
        })?;
        let params = self.open_inbound(qp)?;
        let early = match role {
            Role::Asks => self.make_early(peer),
            Role::Answers => None,
        };
        let params = RingParams {
            early_bytes: early.as_ref().map_or(0, |early| early.ring.bytes() as u32),
            early_offset: early.as_ref().map_or(0, |early| early.offset),
            ..params
        };
        self.entry_mut(qp).ok_or(ConnectError::Stale)?.early = early;
        Ok(params.to_params())
    }

    /// Makes the receive ring: INIT.
    pub(super) fn open_inbound(&mut self, qp: Qp) -> Result<RingParams, ConnectError> {
        let bytes = RING_SIZES[0];
        let (offset, map) = self.carve_ring(bytes).map_err(ConnectError::Memory)?;
        let id = self.number_ring(qp.index() as u32);
        let inbound = Inbound { ring: RingRx::new(map), home: Home::Own(offset), id, next: None };
        // (Nothing is written to a ring that nobody may ever use: its page would be there.)
        if self.frugal {
            inbound.ring.set_frugal(true);
        }
        let entry = self.entry_mut(qp).ok_or(ConnectError::Stale)?;
        entry.state = QpState::Init;
        entry.inbound = Some(inbound);
        Ok(RingParams {
            num: entry.num,
            ring: id,
            ring_offset: offset,
            ring_bytes: bytes as u32,
            early_bytes: 0,
            early_offset: 0,
        })
    }

    /// INIT to RTR: maps the peer's ring and begins to receive.
    pub(super) fn attach(&mut self, qp: Qp, peer: &Card, params: &Params) -> Result<(), ConnectError> {
        if self.go(qp, QpState::ReadyToReceive)?.halves.is_some() {
            return self.attach_sharing(qp, peer, params);
        }
        match self.readied.checked_sub(1) {
            Some(left) => self.readied = left,
            None => self.imitation.ready(&self.node, 1),
        }
        let at = peer.soft.ok_or(ReachError::NotShared)?;
        let params = RingParams::from_params(params);
        let bytes = params.ring_bytes as usize;
        if !RING_SIZES.contains(&bytes)
            || params.ring as usize >= RINGS_MAX
            || (params.early_bytes != 0 && !EARLY_SIZES.contains(&(params.early_bytes as usize)))
        {
            return Err(ConnectError::Params {
                num: params.num,
                ring: params.ring,
                bytes: params.ring_bytes,
            });
        }
        if params.early_bytes == 0 && self.put_off(qp, at, &params) {
            return Ok(());
        }
        let map_error = |error| ConnectError::Map { pid: at.pid, error };
        let segment = self.peers.segment(&at).map_err(map_error)?;
        let ring = self.peers.ring(&at, &segment, params.ring_offset, bytes).map_err(map_error)?;
        let early = match params.early_bytes {
            0 => None,
            bytes => {
                let map = self.peers.ring(&at, &segment, params.early_offset, bytes as usize);
                Some(RingRx::new(map.map_err(map_error)?))
            }
        };
        let frugal = self.frugal;
        let barrier = segment.barrier();
        let entry = self.entry_mut(qp).ok_or(ConnectError::Stale)?;
        let retired = entry.early.take().map(Early::end);
        entry.past += retired.as_ref().map_or(0, |early| early.ring.lines_written());
        entry.connect(Outbound::new(ring, params.ring, segment, at));
        if let (Some(mut early), Some(inbound)) = (early, &mut entry.inbound) {
            early.set_frugal(frugal);
            early.set_barrier(barrier);
            early.set_ready_id(inbound.id);
            let usual = std::mem::replace(&mut inbound.ring, early);
            if let Home::Own(offset) = std::mem::replace(&mut inbound.home, Home::Peer) {
                inbound.next = Some((usual, offset));
            }
        }
        entry.state = QpState::ReadyToReceive;
        if std::mem::take(&mut entry.attempt) {
            self.node.end_attempt(self.slot);
        }
        retired.into_iter().for_each(|early| self.retire(early));
        // Whatever the peer has sent already set its ready bit, or finds the ring polled from now on.
        self.begin_receiving(qp.index() as u32);
        Ok(())
    }

    /// Leaves the mapping for the first message, if nothing has gone or come.
    fn put_off(&mut self, qp: Qp, at: Locator, params: &RingParams) -> bool {
        let Some(entry) = self.entry_mut(qp) else { return false };
        // (A message has set the ready bit, or will. The ring is not looked at: its page would be there.)
        if entry.early.is_some() || entry.cold_hits > 0 {
            return false;
        }
        let later =
            Later { at, ring: params.ring, offset: params.ring_offset, bytes: params.ring_bytes as usize };
        entry.later = Some(Box::new(later));
        entry.state = QpState::ReadyToReceive;
        if std::mem::take(&mut entry.attempt) {
            self.node.end_attempt(self.slot);
        }
        // Written after the look above, it has set its bit; before, it was seen.
        true
    }

    /// Ends a queue pair and gives its memory back.
    pub(super) fn unmake(&mut self, qp: Qp) {
        let slot = self.qps.get_mut(qp.index()).filter(|slot| slot.generation == qp.generation());
        let Some(slot) = slot else { return };
        let Some(mut entry) = slot.entry.take() else { return };
        slot.generation = slot.generation.wrapping_add(1);
        self.qps_free.push(qp.index() as u32);
        if let Some(inbound) = entry.inbound.take() {
            self.rings[inbound.id as usize] = None;
            self.rings_free.push(inbound.id);
            self.release_inbound(qp.index() as u32, inbound);
        }
        // Nobody may have read it: its memory stays until the end, or until somebody has.
        entry.early.take().map(Early::end).into_iter().for_each(|early| self.retire(early));
        if entry.attempt && entry.halves.is_none() {
            self.node.end_attempt(self.slot);
        }
        self.forget_receiving(qp.index() as u32);
        self.live -= 1;
        match entry.halves.take() {
            Some(halves) => self.unmake_sharing(qp.index() as u32, &halves, entry.attempt),
            None => self.node.give_qp(self.slot),
        }
        drop(entry);
        self.peers.forget_idle(self.live);
    }

    /// Sends a message: header and payload are copied, so that the buffer is free on return.
    #[inline]
    pub fn post_send(&mut self, qp: Qp, header: [u64; 2], payload: UserBuf) -> Result<(), PostError> {
        let pooled = |pool: &PoolTx, to| pool.send(to, header, payload);
        self.post(qp, payload.len(), |ring| ring.send(header, payload), pooled)
    }

    /// As [`Soft::post_send`], if it can be done without further ado: the ring has room, and the peer is not short of
    /// memory.
    #[inline(always)]
    pub(crate) fn send_short(&mut self, qp: Qp, header: [u64; 2], payload: UserBuf) -> bool {
        let Some(entry) = self.entry_mut(qp) else { return false };
        let Some(out) = entry.writable() else { return false };
        if out.ring.is_frugal() || !out.ring.send_short(header, payload) {
            return false;
        }
        out.notify();
        true
    }

    pub(crate) fn post_send_bytes(
        &mut self,
        qp: Qp,
        header: [u64; 2],
        payload: &[u8],
    ) -> Result<(), PostError> {
        let pooled = |pool: &PoolTx, to| pool.send_bytes(to, header, payload);
        self.post(qp, payload.len(), |ring| ring.send_bytes(header, payload), pooled)
    }

    #[inline]
    fn post(
        &mut self,
        qp: Qp,
        bytes: usize,
        write: impl Fn(&mut RingTx) -> Result<(), Full>,
        pooled: impl FnOnce(&PoolTx, u64) -> Result<bool, pool::Full>,
    ) -> Result<(), PostError> {
        let Some(entry) = self.entry_mut(qp) else { return Err(PostError::Stale) };
        if entry.state != QpState::ReadyToSend {
            return post_early(entry, bytes, write);
        }
        let Some(out) = entry.outbound.as_mut() else {
            if entry.halves.is_some() {
                return post_shared(entry, bytes, pooled);
            }
            // If it cannot be mapped, an event says so.
            return if self.complete(qp) {
                self.post(qp, bytes, write, pooled)
            } else {
                Err(PostError::Full)
            };
        };
        loop {
            if bytes <= out.ring.payload_max() && write(&mut out.ring).is_ok() {
                out.notify();
                return Ok(());
            }
            entry.past += make_room(out, bytes)?;
        }
    }

    /// Says that messages of `bytes` in total will follow closely, so that a larger ring pays.
    pub(crate) fn expect_stream(&mut self, qp: Qp, bytes: usize) {
        let Some(entry) = self.entry_mut(qp) else { return };
        let bytes = bytes.min(RING_SIZES[RING_SIZES.len() - 1]);
        let too_small = |entry: &mut QpEntry| entry.writable().is_some_and(|out| bytes > out.ring.bytes());
        if !too_small(entry) {
            return;
        }
        entry.accept_offer(); // as long as there is one, there is no other
        if too_small(entry)
            && let Some(out) = entry.writable()
        {
            out.ring.ask_growth(bytes.min(payload_max(RING_SIZES[RING_SIZES.len() - 1])));
            out.notify();
        }
    }

    /// Bytes of the ring that is read, or of the one on offer, to which the writer goes on when it needs it. (The ring of
    /// early messages is one that the writer has left.)
    pub(crate) fn room_in(&self, qp: Qp) -> usize {
        let Some(inbound) = self.entry(qp).and_then(|entry| entry.inbound.as_ref()) else { return 0 };
        let next = inbound.next.as_ref().map_or(0, |(next, _)| next.bytes());
        match inbound.home {
            Home::Own(_) => inbound.ring.bytes().max(next),
            Home::Peer => next,
        }
    }

    /// Is a message of these bytes short enough for the ring that is written?
    #[inline]
    pub(crate) fn takes(&self, qp: Qp, bytes: usize) -> bool {
        let Some(entry) = self.entry(qp) else { return false };
        match &entry.outbound {
            Some(out) => bytes <= out.ring.payload_max(),
            None => entry.halves.is_some() && bytes <= POOL_PAYLOAD_MAX,
        }
    }

    /// Does the ring that is written take a message of these bytes now?
    pub(crate) fn has_room(&mut self, qp: Qp, bytes: usize) -> bool {
        let Some(entry) = self.entry_mut(qp) else { return false };
        match entry.writable() {
            Some(out) => bytes <= out.ring.payload_max() && out.ring.has_room(bytes),
            None => entry.pool().is_some_and(|pool| bytes <= POOL_PAYLOAD_MAX && pool.has_room()),
        }
    }

    /// Bytes of the ring that is written.
    pub(crate) fn room_out(&self, qp: Qp) -> usize {
        let out = self.entry(qp).and_then(|entry| entry.outbound.as_ref());
        out.map_or(0, |out| out.ring.bytes())
    }

    /// The longest message that the ring takes as it is.
    pub(crate) fn fragment_max(&self, qp: Qp) -> usize {
        match self.entry(qp) {
            Some(entry) if entry.halves.is_some() => return POOL_PAYLOAD_MAX,
            Some(entry) if entry.later.is_some() => return payload_max(RING_SIZES[0]),
            _ => {}
        }
        let out = self.entry(qp).and_then(|entry| entry.outbound.as_ref());
        out.map_or(0, |out| match out.ring.growth() {
            Growth::Refused => out.ring.payload_max(),
            Growth::Offered { offset, .. } if out.unmapped == Some(offset) => out.ring.payload_max(),
            Growth::Open | Growth::Offered { .. } => payload_max(RING_SIZES[1]),
        })
    }

    /// Says that this process will sleep until there is room in the peer's ring, or that it does not any more. Had it been
    /// said already?
    pub(crate) fn set_waiting(&mut self, qp: Qp, waiting: bool) -> bool {
        let Some(entry) = self.entry_mut(qp) else { return true };
        match entry.writable() {
            Some(out) => out.ring.set_waiting(waiting),
            None => entry.pool().is_none_or(|pool| !waiting || pool.set_waiting()),
        }
    }

    /// Does the peer ask for rendezvous instead of eager messages?
    #[inline]
    pub(crate) fn is_peer_frugal(&self, qp: Qp) -> bool {
        let Some(entry) = self.entry(qp) else { return false };
        match &entry.outbound {
            Some(out) => out.ring.is_frugal(),
            None => entry.pool().is_some_and(PoolTx::is_frugal),
        }
    }

    /// Does a queue pair share its connection with others to the same node?
    #[inline]
    pub(crate) fn shares(&self, qp: Qp) -> bool {
        self.entry(qp).is_some_and(|entry| entry.halves.is_some())
    }
}

/// Why a ring that is on offer is not gone on in.
enum NoMove {
    /// There is no room to say so in the old one.
    Full,
    /// There is no memory for it here, or it is not where the peer says.
    CannotMap,
}

impl Outbound {
    pub fn new(map: SharedMap, id: u32, peer: Rc<PeerSegment>, at: Locator) -> Self {
        Outbound { ring: RingTx::new(map), id, peer, at, unmapped: None }
    }

    /// Tells the reader.
    #[inline]
    fn notify(&self) {
        self.peer.notify(self.id as usize, || self.ring.is_polled());
    }

    /// Goes on in the ring that the reader offers, if there is one: the lines that the old one has carried.
    fn accept_offer(&mut self) -> Result<Option<u64>, NoMove> {
        match self.ring.growth() {
            Growth::Offered { offset, .. } if self.unmapped == Some(offset) => Err(NoMove::CannotMap),
            Growth::Offered { offset, bytes } if RING_SIZES.contains(&bytes) => {
                let Ok(map) = map_ring(&self.peer, offset, bytes) else {
                    self.unmapped = Some(offset);
                    return Err(NoMove::CannotMap);
                };
                self.ring.switch().map_err(|Full| NoMove::Full)?;
                self.notify();
                let old = std::mem::replace(&mut self.ring, RingTx::new(map));
                Ok(Some(old.lines_written()))
            }
            _ => Ok(None),
        }
    }
}

impl Early {
    /// Says the last word in it.
    fn end(mut self) -> Self {
        self.ring.switch().expect("a free line is kept for it");
        self.notify();
        self
    }

    /// Tells the reader, if it has begun to read: before that it will look by itself.
    fn notify(&self) {
        self.peer.notify_reader(&self.ring);
    }
}

/// A message before the peer has answered. It stays in this process's memory, where the peer finds it.
#[cold]
fn post_early(
    entry: &mut QpEntry,
    bytes: usize,
    write: impl Fn(&mut RingTx) -> Result<(), Full>,
) -> Result<(), PostError> {
    match &mut entry.early {
        Some(early) if entry.state == QpState::Init => {
            if bytes > early.ring.payload_max() {
                return Err(PostError::Full);
            }
            write(&mut early.ring).map_err(|Full| PostError::Full)?;
            early.notify();
            Ok(())
        }
        None if entry.state == QpState::Init => Err(PostError::Full),
        _ => Err(PostError::State { qp: entry.num.0, state: entry.state }),
    }
}

/// Maps a peer's ring. A small one shares its pages with others, so that they are going to be used in any case.
pub(super) fn map_ring(peer: &PeerSegment, offset: u64, bytes: usize) -> io::Result<SharedMap> {
    if bytes == RING_SIZES[0] { peer.map_populated(offset, bytes) } else { peer.map(offset, bytes) }
}

/// A message did not fit: `Ok` when the queue pair has moved to another ring that was on offer, with the lines that the
/// old one has carried. Otherwise asks for a larger one if that would help.
#[cold]
fn make_room(out: &mut Outbound, bytes: usize) -> Result<u64, PostError> {
    let max = payload_max(RING_BYTES_NEEDED_MAX.max(out.ring.bytes()));
    if bytes > max {
        return Err(PostError::TooLong { bytes, max });
    }
    let small = out.ring.payload_max();
    match out.accept_offer() {
        Ok(Some(lines)) => return Ok(lines),
        Ok(None) => {}
        // As long as it is on offer there is no other: what is too long for the old one never fits.
        Err(NoMove::CannotMap) if bytes > small => return Err(PostError::TooLong { bytes, max: small }),
        Err(NoMove::CannotMap | NoMove::Full) => return Err(PostError::Full),
    }
    if bytes > small {
        // The reader has no memory for a larger one: what is too long for this one never fits.
        if out.ring.growth() == Growth::Refused {
            return Err(PostError::TooLong { bytes, max: small });
        }
        out.ring.ask_growth(bytes);
    } else if out.ring.bytes() < RING_SIZES[1] {
        // A ring that is merely full grows once; the largest size is for messages that need it.
        out.ring.ask_if_pressed(bytes);
    }
    out.notify();
    Err(PostError::Full)
}
