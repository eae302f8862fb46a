//! Before everyone exchanges a message with everyone for the first time: each makes queue pairs for all others and tells each of
//! the one that is for it, in few messages. Then all connect at once, and nobody asks anybody.
//!
//! What is told travels from process to process, together with what others are told, over `log2(size)` connections. They are those
//! of a hypercube where the size allows it, which is what reductions and barriers have connected already.
use super::{Place, Schedule, Step, scratch};

/// Which way records take: who gets what is in a slot at the beginning, and from whom that is which is there at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    rank: u32,
    size: u32,
}

impl Slots {
    /// Of a process.
    pub fn of(at: Place) -> Self {
        Slots { rank: at.rank, size: at.size }
    }

    fn is_cube(self) -> bool {
        self.size.is_power_of_two()
    }

    /// Whom the record in a slot is for. Slot 0 is for the process itself.
    pub fn to(self, slot: u32) -> u32 {
        if self.is_cube() { self.rank ^ slot } else { (self.rank + slot) % self.size }
    }

    /// Whom the record that comes into a slot is from.
    pub fn from(self, slot: u32) -> u32 {
        if self.is_cube() { self.rank ^ slot } else { (self.rank + self.size - slot) % self.size }
    }

    /// Is this one of those over whom records travel? They are connected by that, before any record is there.
    pub fn is_partner(self, other: u32) -> bool {
        self.masks().any(|mask| other == self.to(mask) || other == self.from(mask))
    }

    fn masks(self) -> impl Iterator<Item = u32> {
        (0..32).map(|bit| 1 << bit).take_while(move |mask| *mask < self.size)
    }
}

/// All tell all, in records of so many bytes.
pub fn meet(s: &mut Schedule, at: Place, record: usize) {
    let (slots, n) = (Slots::of(at), at.size as usize);
    let slot = |number: u32| scratch(number as usize * record, record);
    let (outgoing, incoming) = (n * record, n * record + n / 2 * record);
    s.touch(scratch(0, incoming + n / 2 * record));
    s.steps.push(Step::Offer { slots, record });
    for mask in slots.masks() {
        let moving = || (0..at.size).filter(move |number| number & mask != 0);
        for (place, number) in moving().enumerate() {
            s.copy(slot(number), scratch(outgoing + place * record, record));
        }
        let len = moving().count() * record;
        s.recv(slots.from(mask), scratch(incoming, len));
        s.send(slots.to(mask), scratch(outgoing, len));
        s.wait();
        for (place, number) in moving().enumerate() {
            s.copy(scratch(incoming + place * record, record), slot(number));
        }
    }
    s.steps.push(Step::Meet { slots, record });
}

impl Schedule {
    /// Has all meet before the rest of this schedule, if everyone has a message for everyone in that. Is it so?
    pub fn meet_first(&mut self, at: Place, record: usize) -> bool {
        let messages = self.steps.iter().filter(|step| matches!(step, Step::Send { .. })).count();
        let is_plain = |step: &Step| {
            matches!(step, Step::Send { .. } | Step::Recv { .. } | Step::Copy { .. } | Step::Wait)
        };
        if messages + 1 != at.size as usize || !self.steps.iter().all(is_plain) {
            return false;
        }
        let mut first = Schedule::new();
        meet(&mut first, at, record);
        first.steps.append(&mut self.steps);
        self.steps = first.steps;
        self.scratch_bytes = self.scratch_bytes.max(first.scratch_bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulation::Group;
    use super::super::{Cores, Memory, alltoall};
    use super::*;
    use std::vec::Vec;

    const RECORD: usize = 8;

    fn place(rank: u32, size: u32) -> Place {
        Place { rank, size, cores: Cores::Shared, memory: Memory::Apart }
    }

    #[test]
    fn everyone_hears_from_everyone() {
        for size in (2..=33).chain([64]) {
            let build = |s: &mut Schedule, at: Place| meet(s, at, RECORD);
            let mut group = Group::new(size, 41, build, |_| (Vec::new(), 0));
            group.run(|_, _| {});
            for rank in 0..size {
                let expected: Vec<(u32, u32)> = (0..size).map(|from| (from, rank)).collect();
                assert_eq!(group.told(rank), expected, "rank {rank} of {size}");
            }
        }
    }

    #[test]
    fn records_travel_over_partners_only_and_partners_are_so_of_each_other() {
        for size in 2..=40 {
            for rank in 0..size {
                let mut s = Schedule::new();
                meet(&mut s, place(rank, size), RECORD);
                for step in s.steps() {
                    if let Step::Send { to: other, .. } | Step::Recv { from: other, .. } = step {
                        assert!(Slots { rank, size }.is_partner(*other));
                        assert!(Slots { rank: *other, size }.is_partner(rank));
                    }
                }
            }
        }
    }

    #[test]
    fn only_who_has_a_message_for_everyone_meets_first() {
        let at = place(3, 16);
        let mut s = Schedule::new();
        alltoall(&mut s, at, 8);
        let before = s.steps().to_vec();
        assert!(s.meet_first(at, RECORD));
        assert_eq!(s.steps()[s.steps().len() - before.len()..], before);
        assert!(s.scratch_bytes() >= 16 * RECORD);
        let mut s = Schedule::new();
        super::super::barrier(&mut s, at);
        let before = s.clone();
        assert!(!s.meet_first(at, RECORD));
        assert_eq!(s, before);
    }
}
