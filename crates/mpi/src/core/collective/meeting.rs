//! The steps of a collective before which everyone connects to everyone (`proto::coll::meeting`).
use super::super::Coll;
use super::super::Mpi;
use super::Collective;
use crate::error::ErrorClass;
use net::{Endpoint, Process, Record};
use proto::coll::meeting::Slots;
use proto::coll::{Place, Slice, Space};

impl Mpi {
    /// Has everybody connect before the first alltoall of a communicator in which each pair has a message. All members decide
    /// alike: by what holds of the job, of the communicator and of the call.
    pub(in super::super) fn meet_first(&self, call: &Coll<'_>, at: Place, c: &mut Collective) -> bool {
        let is_one_job = !c.roster.is_inter() && !c.roster.members.reaches(self.cores.ranks);
        let is_alltoall = matches!(call, Coll::Alltoall { .. });
        if !is_alltoall || !is_one_job || self.check.is_some() || !self.endpoint.connects_together(at.size) {
            return false;
        }
        if c.roster.has_met.get() || !c.schedule.meet_first(at, size_of::<Record>()) {
            return false;
        }
        c.roster.has_met.set(true);
        // Whom this process has made a queue pair for is connected to when all are here, and not before. Another thread, or a
        // collective that is under way, may have something to say that one of them waits for until it comes here.
        c.offers = !self.threaded && self.is_quiet();
        true
    }
}

impl Collective {
    /// Writes what each of the others has to know. Those over whom that travels are connected by it.
    pub(super) fn offer(&mut self, endpoint: &mut Endpoint, slots: Slots, record: usize) {
        let size = self.roster.size;
        let is_offered = |slot: &u32| self.offers && !slots.is_partner(slots.to(*slot));
        let offered: Vec<u32> = (1..size).filter(is_offered).collect();
        let peers: Vec<Process> =
            offered.iter().map(|slot| self.roster.members.at(slots.to(*slot))).collect();
        let mut records = vec![[0; size_of::<Record>()]; size as usize];
        for (slot, made) in offered.into_iter().zip(endpoint.offer_together(&peers)) {
            records[slot as usize] = made.unwrap_or([0; size_of::<Record>()]);
        }
        let all = Slice { space: Space::Scratch, at: 0, len: size as usize * record };
        self.target(all).copy_from_slice(records.as_flattened());
    }

    /// Connects to those who have told of a queue pair. After a failure nobody has told anything that can be relied on.
    pub(super) fn meet(&mut self, endpoint: &mut Endpoint, slots: Slots, record: usize) {
        for slot in 1..self.roster.size {
            let mut told: Record = [0; size_of::<Record>()];
            if self.failed == ErrorClass::Success {
                let at = slot as usize * record;
                self.source(Slice { space: Space::Scratch, at, len: record }).copy_to(&mut told);
            }
            endpoint.take_together(self.roster.members.at(slots.from(slot)), &told);
        }
    }
}
