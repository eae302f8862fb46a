//! Queue pairs of the soft provider on one host: a ring each way, growing when it is too small.
use crate::address::{Address, QpParams};
use crate::context::Context;
use crate::state::{self, IllegalMove, QpState};
use proto::ids::QpNum;
use std::io;
use std::rc::Rc;
use sys::node::QpLimit;
use sys::ring::{Full, RING_BYTES_MIN, RingRx, RingTx, payload_max};
use sys::segment::{PeerSegment, RINGS_MAX, copy_from_map, copy_to_map};
use sys::{SharedMap, UserBuf, UserBufMut};

/// Sizes a ring may have: it starts with the first and grows with use.
pub(crate) const RING_SIZES: [usize; 3] = [RING_BYTES_MIN, 32 << 10, 256 << 10];

/// A queue pair of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Qp(pub(crate) u32);

impl Qp {
    /// A small number, dense among the live queue pairs of the process.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrKey(pub u32);

/// Memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// Address in the peer.
    pub addr: u64,
    /// The peer's key for it.
    pub key: MrKey,
}

/// Why there is no new queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The node's device has no more.
    #[error("the device has no queue pair left: {} of {} are in use on this node", .0.used, .0.max)]
    Device(QpLimit),
    /// The process has no more receive rings.
    #[error("a process can have {RINGS_MAX} connections at a time")]
    Rings,
}

/// Why a queue pair does not move on.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The move is not in the table.
    #[error(transparent)]
    Move(#[from] IllegalMove),
    /// The peer's memory cannot be mapped, or none is left.
    #[error("cannot map the memory of a connection: {0}")]
    Memory(#[from] io::Error),
    /// The parameters are not those of a ring.
    #[error("the peer's queue pair {num} names ring {ring} of {bytes} bytes, which cannot be")]
    Params {
        /// The peer's queue pair.
        num: QpNum,
        /// Its ring.
        ring: u32,
        /// Its length.
        bytes: u32,
    },
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// No room now: try again after progress.
    #[error("the queue pair has no room now")]
    Full,
    /// The queue pair does not send in this state.
    #[error("queue pair {qp:#x} cannot send in state {state:?}")]
    State {
        /// Its number.
        qp: u32,
        /// Its state.
        state: QpState,
    },
    /// Longer than any ring takes.
    #[error("a message of {bytes} bytes; the longest is {max}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

/// Why an RDMA operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum RdmaError {
    /// The kernel (or the configuration) forbids it; it will not work later either.
    #[error("the memory of other processes may not be accessed here")]
    Forbidden,
    /// The key is not registered, or the range is outside.
    #[error("the remote range is not registered")]
    Key,
    /// The queue pair is not connected.
    #[error("the queue pair is not connected")]
    State,
    /// The copy failed; the peer may be gone.
    #[error("copying failed: {0}")]
    Io(io::Error),
}

/// The receiving half: a ring in the own segment.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub ring: RingRx,
    pub offset: u64,
    pub id: u32,
    /// Offered to the writer, not yet used by it.
    pub larger: Option<(RingRx, u64)>,
}

#[derive(Debug)]
struct Outbound {
    ring: RingTx,
    id: u32,
    peer: Rc<PeerSegment>,
    pid: u32,
}

#[derive(Debug)]
pub(crate) struct QpEntry {
    num: QpNum,
    pub state: QpState,
    pub inbound: Option<Inbound>,
    outbound: Option<Outbound>,
    /// Is its ring in the set that is polled directly?
    pub hot: bool,
    /// Times it was found by its ready bit since it was hot.
    pub cold_hits: u32,
}

impl QpEntry {
    pub fn remote_bytes(&self) -> usize {
        self.outbound.as_ref().map_or(0, |out| out.ring.bytes())
    }

    pub fn set_polled(&mut self, polled: bool) {
        self.hot = polled;
        if let Some(inbound) = &self.inbound {
            inbound.ring.set_polled(polled);
            if let Some((larger, _)) = &inbound.larger {
                larger.set_polled(polled);
            }
        }
    }
}

impl Context {
    /// A new queue pair, in RESET.
    pub fn create_qp(&mut self) -> Result<Qp, CreateError> {
        let ring = self.rings.iter().position(Option::is_none).unwrap_or(self.rings.len());
        if ring >= RINGS_MAX {
            return Err(CreateError::Rings);
        }
        let num = QpNum(self.node.take_qp(self.slot).map_err(CreateError::Device)?);
        let entry =
            QpEntry { num, state: QpState::Reset, inbound: None, outbound: None, hot: false, cold_hits: 0 };
        let index = match self.qps.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.qps.push(None);
                self.qps.len() - 1
            }
        };
        self.qps[index] = Some(entry);
        Ok(Qp(index as u32))
    }

    /// RESET to INIT: makes the receive ring. Returns what the peer must know.
    pub fn to_init(&mut self, qp: Qp) -> Result<QpParams, ConnectError> {
        self.check(qp, QpState::Init)?;
        let bytes = RING_SIZES[0];
        let (offset, map) = self.segment.carve(bytes)?;
        let id = self.rings.iter().position(Option::is_none).unwrap_or_else(|| {
            self.rings.push(None);
            self.rings.len() - 1
        });
        self.rings[id] = Some(qp.0);
        let inbound = Inbound { ring: RingRx::new(map), offset, id: id as u32, larger: None };
        inbound.ring.set_frugal(self.frugal);
        let entry = self.entry_mut(qp);
        entry.state = QpState::Init;
        entry.inbound = Some(inbound);
        let num = entry.num;
        Ok(QpParams { num, ring: id as u32, ring_offset: offset, ring_bytes: bytes as u32 })
    }

    /// INIT to RTR: maps the peer's ring and begins to receive.
    pub fn to_rtr(&mut self, qp: Qp, peer: &Address, params: &QpParams) -> Result<(), ConnectError> {
        self.check(qp, QpState::ReadyToReceive)?;
        let bytes = params.ring_bytes as usize;
        if !RING_SIZES.contains(&bytes) || params.ring as usize >= RINGS_MAX {
            return Err(ConnectError::Params {
                num: params.num,
                ring: params.ring,
                bytes: params.ring_bytes,
            });
        }
        let segment = self.peer(peer)?;
        let ring = RingTx::new(segment.map(params.ring_offset, bytes)?);
        let entry = self.entry_mut(qp);
        entry.outbound = Some(Outbound { ring, id: params.ring, peer: segment, pid: peer.segment.pid });
        entry.state = QpState::ReadyToReceive;
        // Whatever the peer has sent already set its ready bit, or finds the ring polled from now on.
        self.begin_receiving(qp.0);
        Ok(())
    }

    /// RTR to RTS: may send.
    pub fn to_rts(&mut self, qp: Qp) -> Result<(), ConnectError> {
        self.check(qp, QpState::ReadyToSend)?;
        self.entry_mut(qp).state = QpState::ReadyToSend;
        Ok(())
    }

    /// The state of a queue pair.
    pub fn qp_state(&self, qp: Qp) -> QpState {
        self.qps[qp.0 as usize].as_ref().map_or(QpState::Reset, |entry| entry.state)
    }

    /// Ends a queue pair and gives its memory back.
    pub fn destroy_qp(&mut self, qp: Qp) {
        let Some(mut entry) = self.qps[qp.0 as usize].take() else { return };
        if let Some(inbound) = entry.inbound.take() {
            self.rings[inbound.id as usize] = None;
            let mut ranges = vec![(inbound.offset, inbound.ring.bytes())];
            ranges.extend(inbound.larger.as_ref().map(|(ring, offset)| (*offset, ring.bytes())));
            drop(inbound);
            ranges.into_iter().for_each(|(offset, bytes)| self.segment.give_back(offset, bytes));
        }
        self.forget_receiving(qp.0);
        self.node.give_qp(self.slot);
    }

    /// The longest message any queue pair takes.
    pub const fn message_max(&self) -> usize {
        payload_max(RING_SIZES[RING_SIZES.len() - 1])
    }

    /// Sends a message: header and payload are copied, so that the buffer is free on return.
    #[inline]
    pub fn post_send(&mut self, qp: Qp, header: [u64; 2], payload: UserBuf) -> Result<(), PostError> {
        self.post(qp, payload.len(), |ring| ring.send(header, payload))
    }

    /// As [`Context::post_send`], from ordinary memory.
    pub fn post_send_bytes(&mut self, qp: Qp, header: [u64; 2], payload: &[u8]) -> Result<(), PostError> {
        self.post(qp, payload.len(), |ring| ring.send_bytes(header, payload))
    }

    #[inline]
    fn post(
        &mut self,
        qp: Qp,
        bytes: usize,
        write: impl Fn(&mut RingTx) -> Result<(), Full>,
    ) -> Result<(), PostError> {
        let entry = self.qps[qp.0 as usize].as_mut().expect("a live queue pair");
        if entry.state != QpState::ReadyToSend {
            return Err(PostError::State { qp: entry.num.0, state: entry.state });
        }
        let out = entry.outbound.as_mut().expect("a connected queue pair has a ring");
        loop {
            if bytes <= out.ring.payload_max() && write(&mut out.ring).is_ok() {
                out.peer.notify(out.id as usize, || out.ring.is_polled());
                return Ok(());
            }
            make_room(out, bytes)?;
        }
    }

    /// Says that messages of `bytes` in total will follow closely, so that a larger ring pays.
    pub fn expect_stream(&mut self, qp: Qp, bytes: usize) {
        let out = self.qps[qp.0 as usize].as_mut().and_then(|entry| entry.outbound.as_mut());
        if let Some(out) = out.filter(|out| bytes > out.ring.bytes()) {
            out.ring.ask_growth(bytes.min(payload_max(RING_SIZES[RING_SIZES.len() - 1])));
            out.peer.notify(out.id as usize, || out.ring.is_polled());
        }
    }

    /// Does the peer ask for rendezvous instead of eager messages?
    #[inline]
    pub fn is_peer_frugal(&self, qp: Qp) -> bool {
        let out = self.qps[qp.0 as usize].as_ref().and_then(|entry| entry.outbound.as_ref());
        out.is_some_and(|out| out.ring.is_frugal())
    }

    /// Asks all peers for rendezvous instead of eager messages, or takes that back.
    pub fn set_frugal(&mut self, frugal: bool) {
        self.frugal = frugal;
        for inbound in self.qps.iter().flatten().filter_map(|entry| entry.inbound.as_ref()) {
            inbound.ring.set_frugal(frugal);
            if let Some((larger, _)) = &inbound.larger {
                larger.set_frugal(frugal);
            }
        }
    }

    /// Reads the peer's memory into `to`.
    pub fn rdma_read(&mut self, qp: Qp, to: UserBufMut, from: RemoteMemory) -> Result<(), RdmaError> {
        match self.remote(qp, from, to.len())? {
            Remote::Shared(map, offset) => copy_from_map(&map, offset, to),
            Remote::Process(pid) => {
                let done = sys::cma::read(pid, from.addr, to);
                done.map_err(|e| self.rdma_error(e))?;
            }
        }
        Ok(())
    }

    /// Writes `from` into the peer's memory.
    pub fn rdma_write(&mut self, qp: Qp, from: UserBuf, to: RemoteMemory) -> Result<(), RdmaError> {
        match self.remote(qp, to, from.len())? {
            Remote::Shared(map, offset) => copy_to_map(&map, offset, from),
            Remote::Process(pid) => {
                let done = sys::cma::write(pid, from, to.addr);
                done.map_err(|e| self.rdma_error(e))?;
            }
        }
        Ok(())
    }

    fn remote(&self, qp: Qp, memory: RemoteMemory, bytes: usize) -> Result<Remote, RdmaError> {
        let entry = self.qps[qp.0 as usize].as_ref().ok_or(RdmaError::State)?;
        let out = entry.outbound.as_ref().ok_or(RdmaError::State)?;
        let region = out.peer.region(memory.key.0).ok_or(RdmaError::Key)?;
        let start = memory.addr.checked_sub(region.addr).ok_or(RdmaError::Key)?;
        if start.checked_add(bytes as u64).is_none_or(|end| end > region.bytes) {
            return Err(RdmaError::Key);
        }
        match region.segment_offset {
            Some(offset) => {
                let page = (offset + start) & !4095;
                let inside = (offset + start - page) as usize;
                let map =
                    out.peer.map(page, (inside + bytes).next_multiple_of(4096)).map_err(RdmaError::Io)?;
                Ok(Remote::Shared(map, inside))
            }
            None if self.cma => Ok(Remote::Process(out.pid)),
            None => Err(RdmaError::Forbidden),
        }
    }

    fn rdma_error(&mut self, error: io::Error) -> RdmaError {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => {
                self.cma = false;
                RdmaError::Forbidden
            }
            _ => RdmaError::Io(error),
        }
    }

    fn check(&self, qp: Qp, to: QpState) -> Result<(), IllegalMove> {
        let entry = self.qps[qp.0 as usize].as_ref().expect("a live queue pair");
        state::check(entry.num.0, entry.state, to)
    }

    pub(crate) fn entry_mut(&mut self, qp: Qp) -> &mut QpEntry {
        self.qps[qp.0 as usize].as_mut().expect("a live queue pair")
    }
}

enum Remote {
    Shared(SharedMap, usize),
    Process(u32),
}

/// A message did not fit: `Ok` when the queue pair has moved to a larger ring that was on offer. Otherwise
/// asks for one if that would help.
#[cold]
fn make_room(out: &mut Outbound, bytes: usize) -> Result<(), PostError> {
    let max = payload_max(RING_SIZES[RING_SIZES.len() - 1]);
    if bytes > max {
        return Err(PostError::TooLong { bytes, max });
    }
    if let Some((offset, ring_bytes)) = out.ring.offered()
        && RING_SIZES.contains(&ring_bytes)
        && ring_bytes > out.ring.bytes()
    {
        let map = out.peer.map(offset, ring_bytes).map_err(|_| PostError::Full)?;
        out.ring.switch().map_err(|Full| PostError::Full)?;
        out.peer.notify(out.id as usize, || out.ring.is_polled());
        out.ring = RingTx::new(map);
        return Ok(());
    }
    // A ring that is merely full grows once; the largest size is for messages that need it.
    if bytes > out.ring.payload_max() || out.ring.bytes() < RING_SIZES[1] {
        out.ring.ask_growth(bytes);
        out.peer.notify(out.id as usize, || out.ring.is_polled());
    }
    Err(PostError::Full)
}

/// The size of the next ring for a writer that asked for messages of `payload` bytes.
pub(crate) fn grown(bytes: usize, payload: usize) -> Option<usize> {
    RING_SIZES.into_iter().find(|size| *size > bytes && payload_max(*size) >= payload)
}
