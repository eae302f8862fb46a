//! Reductions in two levels.
use super::{Hosts, Spaces, among};
use crate::coll::{Block, Blocks, Elements, Place, Schedule, input, output, scratch};
use crate::coll::{allreduce, bcast, exscan, reduce, reduce_scatter, scan, scatterv};
use alloc::vec::Vec;

impl Hosts {
    /// As [`reduce`](crate::coll::reduce()).
    pub fn reduce(&self, s: &mut Schedule, at: Place, root: u32, data: Elements) {
        if !data.commutes && !self.in_order() {
            return reduce(s, at, root, data);
        }
        let (host, bytes) = (self.host_of(root), data.bytes());
        let first = if host == self.host { self.position(root) } else { 0 };
        // Only the root has room for a result.
        let partial = if at.rank == root { output(0, bytes) } else { scratch(0, bytes) };
        let within = Spaces { input: input(0, 0), output: partial, scratch_at: bytes };
        among(s, at, &self.mine, within, |s, at| reduce(s, at, first, data));
        let across = Spaces { input: partial, output: output(0, 0), scratch_at: bytes };
        among(s, at, &self.speakers_with(root), across, |s, at| reduce(s, at, host, data));
    }

    /// As [`allreduce`](crate::coll::allreduce()).
    pub fn allreduce(&self, s: &mut Schedule, at: Place, data: Elements) {
        if !data.commutes && !self.in_order() {
            return allreduce(s, at, data);
        }
        let bytes = data.bytes();
        among(s, at, &self.mine, Spaces::SAME, |s, at| reduce(s, at, 0, data));
        let in_place = Spaces { input: output(0, 0), ..Spaces::SAME };
        among(s, at, &self.speakers, in_place, |s, at| allreduce(s, at, data));
        among(s, at, &self.mine, Spaces::SAME, |s, at| bcast(s, at, 0, bytes));
    }

    /// As [`reduce_scatter`](crate::coll::reduce_scatter()): what a host has combined crosses, and comes back as the blocks of
    /// its processes.
    pub fn reduce_scatter(&self, s: &mut Schedule, at: Place, data: Elements, blocks: Blocks<'_>) {
        let Some(spans) = self.spans(at.size, blocks) else { return reduce_scatter(s, at, data, blocks) };
        let (bytes, span, own) = (data.bytes(), spans[self.host as usize], blocks.of(at.rank).len);
        let within = Spaces { output: scratch(0, 0), scratch_at: bytes, ..Spaces::SAME };
        among(s, at, &self.mine, within, |s, at| reduce(s, at, 0, data));
        let behind = bytes + span.len;
        let across = Spaces { input: scratch(0, 0), output: scratch(bytes, 0), scratch_at: behind };
        among(s, at, &self.speakers, across, |s, at| reduce_scatter(s, at, data, Blocks::Listed(&spans)));
        let of_host = |rank: &u32| {
            let block = blocks.of(*rank);
            Block { at: block.at - span.at, len: block.len }
        };
        let parts: Vec<Block> = self.mine.iter().map(of_host).collect();
        let back = Spaces { input: scratch(bytes, 0), scratch_at: behind, ..Spaces::SAME };
        among(s, at, &self.mine, back, |s, at| scatterv(s, at, 0, own, Blocks::Listed(&parts)));
    }

    /// As [`scan`](crate::coll::scan()).
    pub fn scan(&self, s: &mut Schedule, at: Place, data: Elements) {
        if !self.in_order() {
            return scan(s, at, data);
        }
        let bytes = data.bytes();
        among(s, at, &self.mine, Spaces::SAME, |s, at| scan(s, at, data));
        // The last process of a host has the combination of all of them.
        let before = scratch(0, bytes);
        let across = Spaces { input: output(0, 0), output: before, scratch_at: bytes };
        self.combine_before(s, at, data, across);
        if self.host > 0 {
            s.reduce(before, output(0, bytes));
        }
    }

    /// As [`exscan`](crate::coll::exscan()).
    pub fn exscan(&self, s: &mut Schedule, at: Place, data: Elements) {
        if !self.in_order() {
            return exscan(s, at, data);
        }
        let bytes = data.bytes();
        let (all, before, result) = (scratch(0, bytes), scratch(bytes, bytes), output(0, bytes));
        let is_first = self.mine.first() == Some(&at.rank);
        // (Its input may be where its output is.)
        let is_last = self.mine.last() == Some(&at.rank);
        if is_last {
            s.copy(input(0, bytes), all);
        }
        let within = Spaces { scratch_at: 2 * bytes, ..Spaces::SAME };
        among(s, at, &self.mine, within, |s, at| exscan(s, at, data));
        if is_last && !is_first {
            s.reduce(result, all);
        }
        let across = Spaces { input: all, output: before, scratch_at: 2 * bytes };
        self.combine_before(s, at, data, across);
        match self.host {
            0 => {}
            _ if is_first => s.copy(before, result),
            _ => s.reduce(before, result),
        }
    }

    /// Combines what the last process of each host below the own one has, for all processes of a host.
    fn combine_before(&self, s: &mut Schedule, at: Place, data: Elements, across: Spaces) {
        let hosts = 0..self.speakers.len() as u32;
        let lasts: Vec<u32> = hosts.map(|host| self.range(host, at.size).end - 1).collect();
        among(s, at, &lasts, across, |s, at| exscan(s, at, data));
        if self.host > 0 {
            let last = self.mine.len() as u32 - 1;
            let bytes = data.bytes();
            among(s, at, &self.mine, across, |s, at| bcast(s, at, last, bytes));
        }
    }
}
