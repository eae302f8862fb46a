//! Connections that were made for everybody, and of which a program may use few: this side knows its peer, and maps the peer's memory
//! when the first message goes or comes. To open and map the segments of a thousand processes takes a thousand times as long as all else of
//! connecting to them.
//!
//! Such a queue pair is never polled directly, so its writer sets the ready bit of its ring; whoever finds that bit, or posts, completes it
//! first. So no message is taken whose writer could not be woken.
use super::Soft;
use super::qp::{Outbound, QpEntry};
use crate::provider::BreakReason;
use crate::qp::Qp;
use sys::Locator;

/// A peer's ring that is not mapped yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later {
    pub at: Locator,
    pub ring: u32,
    pub offset: u64,
    pub bytes: usize,
}

impl Soft {
    /// Maps the peer's ring now, if that was left for later. Is there one?
    pub(super) fn complete(&mut self, qp: Qp) -> bool {
        match self.entry_mut(qp).and_then(|entry| entry.later.take()) {
            None => self.entry(qp).is_some_and(QpEntry::has_way),
            Some(later) => self.complete_at(qp.index() as u32, *later),
        }
    }

    fn complete_at(&mut self, index: u32, later: Later) -> bool {
        let Later { at, ring: id, offset, bytes } = later;
        let mapped = self.peers.segment(&at).and_then(|peer| {
            let map = self.peers.ring(&at, &peer, offset, bytes)?;
            Ok(Outbound::new(map, id, peer, at))
        });
        let Some(entry) = self.qps[index as usize].entry.as_mut() else { return false };
        match mapped {
            Ok(outbound) => {
                entry.connect(outbound);
                if let Some(inbound) = &entry.inbound {
                    inbound.ring.set_frugal(self.frugal);
                }
                self.begin_receiving(index);
                true
            }
            Err(error) => {
                let why = BreakReason::Map { pid: at.pid, why: error.to_string() };
                self.lose(index, why);
                false
            }
        }
    }

    /// The same for a queue pair whose ready bit was found.
    pub(super) fn complete_found(&mut self, index: u32) -> bool {
        let later = self.qps[index as usize].entry.as_mut().and_then(|entry| entry.later.take());
        later.is_none_or(|later| self.complete_at(index, *later))
    }
}
