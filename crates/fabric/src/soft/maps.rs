//! Maps of peers' rings that were made last.
//!
//! Who connects to a peer again, as jobs do that meet again, is given the same places in its segment as a rule: memory that
//! was used last is used first. Mapping, faulting and unmapping them would take longer than the handshake.
use super::peers::Name;
use super::qp::map_ring;
use std::collections::VecDeque;
use std::io;
use sys::SharedMap;
use sys::segment::PeerSegment;

/// So many are kept: the rings of two connections. More would be memory for which nobody asks.
const MAPS_MAX: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Maps {
    /// The one that was used last comes last.
    recent: VecDeque<(Name, u64, SharedMap)>,
}

impl Maps {
    /// Forgets those of all others: a map keeps the whole segment alive.
    pub fn keep(&mut self, is_known: impl Fn(&Name) -> bool) {
        self.recent.retain(|(name, ..)| is_known(name));
    }

    /// Maps a ring in the segment of a peer.
    pub fn ring(
        &mut self,
        name: Name,
        peer: &PeerSegment,
        offset: u64,
        bytes: usize,
    ) -> io::Result<SharedMap> {
        let same = |(of, at, map): &(Name, u64, SharedMap)| (*of, *at, map.bytes()) == (name, offset, bytes);
        let map = match self.recent.iter().position(same).and_then(|place| self.recent.remove(place)) {
            Some((_, _, map)) => map,
            None => map_ring(peer, offset, bytes)?,
        };
        let used = map.part(0, bytes);
        if self.recent.len() == MAPS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((name, offset, map));
        Ok(used)
    }
}
