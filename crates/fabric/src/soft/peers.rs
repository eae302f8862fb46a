//! Segments of peers that are mapped: those of connections, and those that were used last without one.
//!
//! Who makes room within a budget talks to more peers than it is connected to: some are being asked, some asked to close,
//! some have just been closed. To map a segment anew for each word would take longer than the handshake.
use super::maps::Maps;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use sys::cpu::Barrier;
use sys::segment::PeerSegment;
use sys::{Locator, SharedMap};

/// Segments that stay mapped without a queue pair to them. Each is a descriptor and some pages of address space; what
/// is touched of it is the peer's memory.
const IDLE_MAX: usize = 32;

/// Process, descriptor and when the process started.
pub(super) type Name = (u32, u32, u64);

fn name_of(at: &Locator) -> Name {
    (at.pid, at.fd, at.start_ticks)
}

#[derive(Debug)]
struct Known {
    segment: Rc<PeerSegment>,
    /// The use of any segment that was this one's last.
    used: u64,
}

#[derive(Debug)]
pub(super) struct Peers {
    known: HashMap<Name, Known>,
    uses: u64,
    maps: Maps,
    barrier: Barrier,
}

impl Peers {
    pub fn new(barrier: Barrier) -> Self {
        Peers { known: HashMap::new(), uses: 0, maps: Maps::default(), barrier }
    }

    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// The segment of a process, mapped on first use.
    pub fn segment(&mut self, at: &Locator) -> io::Result<Rc<PeerSegment>> {
        self.uses += 1;
        if let Some(known) = self.known.get_mut(&name_of(at)) {
            known.used = self.uses;
            return Ok(known.segment.clone());
        }
        let opened = PeerSegment::open(at, self.barrier).or_else(|error| {
            // Each peer takes a descriptor, and the usual limit is far below what the system allows.
            if error.raw_os_error() != Some(sys::process::EMFILE) {
                return Err(error);
            }
            sys::process::raise_descriptors()?;
            PeerSegment::open(at, self.barrier)
        });
        let segment = Rc::new(opened?);
        self.known.insert(name_of(at), Known { segment: segment.clone(), used: self.uses });
        Ok(segment)
    }

    /// Maps a ring in the segment of a process.
    pub fn ring(
        &mut self,
        at: &Locator,
        peer: &PeerSegment,
        offset: u64,
        bytes: usize,
    ) -> io::Result<SharedMap> {
        self.maps.ring(name_of(at), peer, offset, bytes)
    }

    /// Where many more are mapped than there are queue pairs: unmaps those that no queue pair uses, but for the ones
    /// that were used last.
    pub fn forget_idle(&mut self, queue_pairs: usize) {
        if self.known.len() <= queue_pairs + IDLE_MAX {
            return;
        }
        let is_idle = |known: &Known| Rc::strong_count(&known.segment) == 1;
        let mut idle: Vec<u64> =
            self.known.values().filter(|known| is_idle(known)).map(|known| known.used).collect();
        // Half of them, so that this is not to be done again at once.
        if idle.len() > IDLE_MAX / 2 {
            let newest = idle.len() - IDLE_MAX / 2;
            let (_, &mut from, _) = idle.select_nth_unstable(newest);
            self.known.retain(|_, known| !is_idle(known) || known.used >= from);
        }
        self.maps.keep(|name| self.known.contains_key(name));
    }
}
