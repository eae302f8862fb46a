//! Collectives of a group that lives on several hosts: the processes of a host agree among themselves, one of them speaks
//! to the other hosts. A message between hosts costs many times one within a host, and a connection between hosts costs
//! memory and a queue pair: so the fewer processes need one, the better.
//!
//! Each operation is put together from those of one level, which are built for the processes of one host, or for those that
//! speak for theirs, and then told which ranks and which buffers are meant.
mod blocks;
mod reductions;

use super::barrier::{release, report};
use super::{Block, Blocks, Place, Schedule, Slice, Space, Step, output, scratch};
use super::{allgatherv, barrier, bcast, gatherv, tuning};
use alloc::vec::Vec;

/// How a group lives on hosts, as one of its processes sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Ranks of the own host, in order.
    mine: Vec<u32>,
    /// The own host.
    host: u32,
    /// The lowest rank of each host, in order.
    speakers: Vec<u32>,
    /// The host of each rank; `None` if each host has a range of ranks.
    listed: Option<Vec<u32>>,
}

impl Hosts {
    /// `name_of` names the host of a rank. `None` if there is nothing to gain: one host, or one process on each.
    pub fn new(rank: u32, size: u32, name_of: impl Fn(u32) -> u32) -> Option<Self> {
        let mut known: Vec<(u32, u32)> = Vec::new(); // names and hosts, by name
        let (mut speakers, mut mine, mut in_order) = (Vec::new(), Vec::new(), true);
        let own = name_of(rank);
        let mut last = None;
        for other in 0..size {
            let name = name_of(other);
            if last != Some(name) {
                match known.binary_search_by_key(&name, |(name, _)| *name) {
                    Ok(_) => in_order = false,
                    Err(at) => {
                        known.insert(at, (name, speakers.len() as u32));
                        speakers.push(other);
                    }
                }
                last = Some(name);
            }
            if name == own {
                mine.push(other);
            }
        }
        if speakers.len() < 2 || speakers.len() == size as usize {
            return None;
        }
        let host_of = |rank| {
            let name = name_of(rank);
            known.binary_search_by_key(&name, |(name, _)| *name).map_or(0, |at| known[at].1)
        };
        let listed = (!in_order).then(|| (0..size).map(host_of).collect());
        Some(Hosts { host: host_of(rank), mine, speakers, listed })
    }

    /// Does each host have a range of ranks, so that the order of hosts is that of ranks?
    fn in_order(&self) -> bool {
        self.listed.is_none()
    }

    fn host_of(&self, rank: u32) -> u32 {
        match &self.listed {
            Some(listed) => listed[rank as usize],
            None => self.speakers.partition_point(|first| *first <= rank) as u32 - 1,
        }
    }

    /// Ranks of a host, if it has a range of them.
    fn range(&self, host: u32, size: u32) -> core::ops::Range<u32> {
        let end = self.speakers.get(host as usize + 1).copied().unwrap_or(size);
        self.speakers[host as usize]..end
    }

    /// Those that speak for the hosts, where `root` speaks for its own.
    fn speakers_with(&self, root: u32) -> Vec<u32> {
        let mut speakers = self.speakers.clone();
        speakers[self.host_of(root) as usize] = root;
        speakers
    }

    /// As [`barrier`](super::barrier()).
    pub fn barrier(&self, s: &mut Schedule, at: Place) {
        let radix = tuning::host_radix(at);
        among(s, at, &self.mine, Spaces::SAME, |s, at| report(s, at, radix));
        among(s, at, &self.speakers, Spaces::SAME, barrier);
        among(s, at, &self.mine, Spaces::SAME, |s, at| release(s, at, radix));
    }

    /// As [`bcast`](super::bcast()).
    pub fn bcast(&self, s: &mut Schedule, at: Place, root: u32, bytes: usize) {
        let host = self.host_of(root);
        among(s, at, &self.speakers_with(root), Spaces::SAME, |s, at| bcast(s, at, host, bytes));
        let first = if host == self.host { self.position(root) } else { 0 };
        among(s, at, &self.mine, Spaces::SAME, |s, at| bcast(s, at, first, bytes));
    }

    /// As [`allgatherv`](super::allgatherv()).
    pub fn allgatherv(&self, s: &mut Schedule, at: Place, blocks: Blocks<'_>) {
        let Some(spans) = self.spans(at.size, blocks) else { return allgatherv(s, at, blocks) };
        let local: Vec<Block> = self.mine.iter().map(|rank| blocks.of(*rank)).collect();
        let own = blocks.of(at.rank).len;
        among(s, at, &self.mine, Spaces::SAME, |s, at| gatherv(s, at, 0, own, Blocks::Listed(&local)));
        let span = spans[self.host as usize];
        let in_place = Spaces { input: output(span.at, 0), ..Spaces::SAME };
        among(s, at, &self.speakers, in_place, |s, at| allgatherv(s, at, Blocks::Listed(&spans)));
        let (from, to) = (spans[0].at, spans.last().map_or(0, |last| last.at + last.len));
        let whole = Spaces { output: output(from, 0), ..Spaces::SAME };
        among(s, at, &self.mine, whole, |s, at| bcast(s, at, 0, to - from));
    }

    /// What the processes of each host have together, if blocks lie one after the other in the order of hosts.
    fn spans(&self, size: u32, blocks: Blocks<'_>) -> Option<Vec<Block>> {
        let mut end = blocks.of(0).at;
        let mut span = |host: u32| {
            let first = end;
            for rank in self.range(host, size) {
                let block = blocks.of(rank);
                if block.at != end {
                    return None;
                }
                end += block.len;
            }
            Some(Block { at: first, len: end - first })
        };
        let hosts = 0..self.speakers.len() as u32;
        self.in_order().then(|| hosts.map(&mut span).collect())?
    }

    /// The place of a rank among those of the own host.
    fn position(&self, rank: u32) -> u32 {
        self.mine.partition_point(|mine| *mine < rank) as u32
    }
}

/// Which buffers are meant by those of a part.
#[derive(Clone, Copy)]
pub(super) struct Spaces {
    /// Where its input and its output begin.
    pub(super) input: Slice,
    pub(super) output: Slice,
    /// Where its scratch begins.
    pub(super) scratch_at: usize,
}

impl Spaces {
    const SAME: Spaces = Spaces {
        input: Slice { space: Space::Input, at: 0, len: 0 },
        output: Slice { space: Space::Output, at: 0, len: 0 },
        scratch_at: 0,
    };

    fn meant(self, slice: Slice) -> Slice {
        let base = match slice.space {
            Space::Input => self.input,
            Space::Output => self.output,
            Space::Scratch => scratch(self.scratch_at, 0),
            Space::Common => return slice,
        };
        Slice { space: base.space, at: base.at + slice.at, len: slice.len }
    }
}

/// Adds what `build` does for some of the group, if this process is one of them.
fn among(
    s: &mut Schedule,
    at: Place,
    ranks: &[u32],
    spaces: Spaces,
    build: impl FnOnce(&mut Schedule, Place),
) {
    let Some(rank) = ranks.iter().position(|rank| *rank == at.rank) else { return };
    let place = Place { rank: rank as u32, size: ranks.len() as u32, ..at.apart() };
    rename(s, spaces, |rank| ranks[rank as usize], |part| build(part, place));
}

/// Adds what `build` does, in other buffers.
pub(super) fn retarget(s: &mut Schedule, spaces: Spaces, build: impl FnOnce(&mut Schedule)) {
    rename(s, spaces, |rank| rank, build);
}

/// Adds what `build` does, by other ranks in other buffers.
fn rename(s: &mut Schedule, spaces: Spaces, rank_of: impl Fn(u32) -> u32, build: impl FnOnce(&mut Schedule)) {
    let mut part = Schedule::new();
    build(&mut part);
    for step in part.steps {
        let step = match step {
            Step::Send { to, from } => Step::Send { to: rank_of(to), from: spaces.meant(from) },
            Step::Recv { from, into } => Step::Recv { from: rank_of(from), into: spaces.meant(into) },
            Step::Copy { from, into } => Step::Copy { from: spaces.meant(from), into: spaces.meant(into) },
            Step::Reduce { from, into } => {
                Step::Reduce { from: spaces.meant(from), into: spaces.meant(into) }
            }
            Step::Wait => Step::Wait,
            _ => unreachable!("parts of other operations are messages"),
        };
        match step {
            Step::Copy { from, into } if from == into => {}
            Step::Send { from: slice, .. } | Step::Recv { into: slice, .. } => {
                s.touch(slice);
                s.steps.push(step);
            }
            Step::Copy { from, into } | Step::Reduce { from, into } => {
                s.touch(from);
                s.touch(into);
                s.steps.push(step);
            }
            _ => s.steps.push(step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_ranges_of_ranks_are_not_listed() {
        let hosts = Hosts::new(5, 8, |rank| 7 - rank / 3).unwrap();
        assert_eq!((hosts.mine.as_slice(), hosts.host), (&[3, 4, 5][..], 1));
        assert_eq!(hosts.speakers, [0, 3, 6]);
        assert!(hosts.in_order());
        assert_eq!([0, 2, 3, 5, 6, 7].map(|rank| hosts.host_of(rank)), [0, 0, 1, 1, 2, 2]);
        assert_eq!(hosts.speakers_with(4), [0, 4, 6]);
    }

    #[test]
    fn hosts_may_take_turns() {
        let hosts = Hosts::new(1, 5, |rank| rank % 2).unwrap();
        assert_eq!((hosts.mine.as_slice(), hosts.speakers.as_slice()), (&[1, 3][..], &[0, 1][..]));
        assert!(!hosts.in_order());
        assert_eq!([0, 1, 2, 3, 4].map(|rank| hosts.host_of(rank)), [0, 1, 0, 1, 0]);
        assert_eq!(hosts.speakers_with(4), [4, 1]);
    }

    #[test]
    fn one_host_or_one_process_on_each_needs_no_second_level() {
        assert_eq!(Hosts::new(0, 4, |_| 3), None);
        assert_eq!(Hosts::new(0, 4, |rank| rank), None);
        assert_eq!(Hosts::new(0, 1, |_| 0), None);
    }
}
