//! One process's open device: its segment, its queue pairs, its registered memory.
use crate::address::Address;
use crate::cq::Cq;
use crate::qp::{MrKey, QpEntry};
use proto::ids::QpNum;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use sys::cpu::Barrier;
use sys::node::{NodeFacts, NodeSegment, QpLimit};
use sys::segment::{DATAGRAM_MAX, HEAD_BYTES, PeerSegment, Region, Segment};
use sys::{Locator, SharedMap, UserBuf};

/// Whose device it is.
#[derive(Clone, Debug)]
pub enum Node {
    /// An agent made the node's segment; this process has a slot in it.
    Agent {
        /// Where the segment is.
        segment: Locator,
        /// The process's slot.
        slot: u32,
    },
    /// No agent: a device of its own.
    Own(Box<NodeFacts>),
}

/// How to open a device.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whose device.
    pub node: Node,
    /// May memory of other processes be read and written directly?
    pub cma: bool,
}

/// Why a device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The node's segment cannot be used.
    #[error("cannot open the node's segment: {0}")]
    Node(io::Error),
    /// The process's own segment cannot be made.
    #[error("cannot make the process's segment: {0}")]
    Segment(io::Error),
    /// The slot is not one of the segment's.
    #[error("slot {slot} of a node segment with {slots} slots")]
    Slot {
        /// The slot that was asked for.
        slot: u32,
        /// Slots there are.
        slots: u32,
    },
    /// The device has no queue pair left for datagrams.
    #[error("the device has no queue pair left: {} of {} are in use", .0.used, .0.max)]
    Limit(QpLimit),
}

/// Registered memory in this process's own segment.
#[derive(Debug)]
pub struct SharedRegion {
    /// Names it to peers.
    pub key: MrKey,
    /// The memory; its address is what peers name.
    pub map: SharedMap,
    offset: u64,
}

/// An open device. See the crate's head.
#[derive(Debug)]
pub struct Context {
    pub(crate) node: NodeSegment,
    pub(crate) slot: u32,
    pub(crate) segment: Segment,
    pub(crate) address: Address,
    pub(crate) barrier: Barrier,
    pub(crate) qps: Vec<Option<QpEntry>>,
    /// Queue pair of each receive ring.
    pub(crate) rings: Vec<Option<u32>>,
    /// Segments of peers that are mapped. Weak in spirit: an entry with one user is dropped on demand.
    pub(crate) peers: HashMap<u32, Rc<PeerSegment>>,
    pub(crate) cq: Cq,
    pub(crate) cma: bool,
    /// Are peers asked for rendezvous instead of eager messages?
    pub(crate) frugal: bool,
}

impl Context {
    /// Opens the device.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        let (node, slot) = match &config.node {
            Node::Agent { segment, slot } => (NodeSegment::open(segment).map_err(OpenError::Node)?, *slot),
            Node::Own(facts) => (NodeSegment::create(facts).map_err(OpenError::Node)?, 0),
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
        let ud = QpNum(node.take_qp(slot).map_err(OpenError::Limit)?);
        let facts = node.facts();
        let address = Address {
            host: facts.host,
            node: facts.node,
            ud,
            segment: segment.locator().map_err(OpenError::Segment)?,
        };
        if config.cma {
            sys::cma::allow_siblings();
        }
        Ok(Context {
            node,
            slot,
            segment,
            address,
            barrier: registered,
            qps: Vec::new(),
            rings: Vec::new(),
            peers: HashMap::new(),
            cq: Cq::default(),
            cma: config.cma,
            frugal: false,
        })
    }

    /// This process's card.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What the agent fixed for the node.
    pub fn facts(&self) -> &NodeFacts {
        self.node.facts()
    }

    /// May memory of other processes be reached directly, as far as is known?
    pub fn has_cma(&self) -> bool {
        self.cma
    }

    /// Sends a datagram. `Ok(false)`: the peer's mailbox was full; it is lost, as datagrams may be.
    pub fn send_datagram(&mut self, to: &Address, bytes: &[u8]) -> io::Result<bool> {
        assert!(bytes.len() <= DATAGRAM_MAX, "a datagram of {} bytes", bytes.len());
        Ok(self.peer(to)?.send_datagram(bytes))
    }

    /// Registers a buffer that peers may read. `None`: the table is full at the moment.
    pub fn register(&mut self, buf: UserBuf) -> Option<MrKey> {
        let region = Region { addr: buf.addr(), bytes: buf.len() as u64, segment_offset: None };
        self.segment.register(region).map(MrKey)
    }

    /// Memory in this process's segment, registered: peers reach it by a plain copy, whatever the kernel allows.
    /// `Ok(None)`: the table of registrations is full at the moment.
    pub fn allocate(&mut self, bytes: usize) -> io::Result<Option<SharedRegion>> {
        let (offset, map) = self.segment.carve(bytes.next_multiple_of(4096))?;
        let region = Region { addr: map.addr(), bytes: map.bytes() as u64, segment_offset: Some(offset) };
        let Some(key) = self.segment.register(region) else {
            self.segment.give_back(offset, map.bytes());
            return Ok(None);
        };
        Ok(Some(SharedRegion { key: MrKey(key), map, offset }))
    }

    /// Ends the registration of memory in the segment and gives it back.
    pub fn free(&mut self, region: SharedRegion) {
        self.segment.deregister(region.key.0);
        let bytes = region.map.bytes();
        drop(region.map);
        self.segment.give_back(region.offset, bytes);
    }

    /// Ends a registration.
    pub fn deregister(&mut self, key: MrKey) {
        self.segment.deregister(key.0);
    }

    /// Sleeps until something may have arrived, or `timeout`.
    pub fn sleep(&self, timeout: Duration) {
        self.segment.sleep(timeout, || !self.any_ready());
    }

    /// Datagrams lost because this process's mailbox was full.
    pub fn datagrams_dropped(&mut self) -> u32 {
        self.segment.dropped()
    }

    /// Bytes of shared memory mapped: the own segment, heads and rings of peers.
    pub fn mapped_bytes(&self) -> u64 {
        let rings: usize = self.qps.iter().flatten().map(QpEntry::remote_bytes).sum();
        self.segment.bytes() + (self.peers.len() * HEAD_BYTES + rings) as u64
    }

    /// Bytes of the own segment with pages behind them.
    pub fn touched_bytes(&self) -> u64 {
        self.segment.touched_bytes()
    }

    /// Sets a counter in this process's slot of the node's segment.
    pub fn publish_stat(&self, index: usize, value: u64) {
        self.node.stat(self.slot, index).store(value, std::sync::atomic::Ordering::Relaxed);
    }

    /// A counter in this process's slot.
    pub fn published_stat(&self, index: usize) -> u64 {
        self.node.stat(self.slot, index).load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The segment of a process, mapped on first use.
    pub(crate) fn peer(&mut self, at: &Address) -> io::Result<Rc<PeerSegment>> {
        if let Some(peer) = self.peers.get(&at.segment.pid) {
            return Ok(peer.clone());
        }
        if at.host != self.address.host {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the peer is on another host"));
        }
        let peer = Rc::new(PeerSegment::open(&at.segment, self.barrier)?);
        self.peers.insert(at.segment.pid, peer.clone());
        Ok(peer)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        for qp in self.qps.drain(..).flatten() {
            drop(qp);
            self.node.give_qp(self.slot);
        }
        self.node.give_qp(self.slot); // the one for datagrams
    }
}
