//! A tree over ranks whose subtrees are ranges of neighbouring ranks, counted from a top.
//!
//! At level `l` the ranks that are multiples of `radix^(l + 1)` have as children the next multiples of `radix^l`.
//! With radix 2 it is the binomial tree.
use super::{Elements, Place, Schedule, Slice, Space, scratch};

#[derive(Clone, Copy)]
pub(super) struct Tree {
    size: u32,
    top: u32,
    radix: u32,
    /// Rank counted from the top.
    me: u32,
    /// Number of levels at which this process may have children.
    height: u32,
    /// `radix^height`: ranks of its subtree, if the group is large enough.
    span: u32,
}

impl Tree {
    pub(super) fn new(at: Place, top: u32, radix: u32) -> Self {
        let me = (at.rank + at.size - top) % at.size;
        let (mut height, mut span) = (0, 1u32);
        while span < at.size && me.is_multiple_of(span.saturating_mul(radix)) {
            span = span.saturating_mul(radix);
            height += 1;
        }
        Tree { size: at.size, top, radix, me, height, span }
    }

    /// From the leaves up.
    pub(super) fn levels(&self) -> core::ops::Range<u32> {
        0..self.height
    }

    /// In order of distance from the top.
    pub(super) fn children(&self, level: u32) -> impl Iterator<Item = u32> + Clone + use<> {
        let Tree { size, top, radix, me, .. } = *self;
        let step = radix.pow(level);
        (1..radix)
            .map(move |i| me + i * step)
            .take_while(move |child| *child < size)
            .map(move |c| (c + top) % size)
    }

    /// `None` for the top.
    pub(super) fn parent(&self) -> Option<u32> {
        let above = self.span.saturating_mul(self.radix);
        (self.me != 0).then(|| (self.me - self.me % above + self.top) % self.size)
    }

    /// Combines the elements of the subtree and gives where the result is: in `from`, if there are no children,
    /// or in `room`. Working memory is scratch from `spare_at` on. If the top is rank 0, operands keep the order
    /// of ranks.
    pub(super) fn combine_up(
        &self,
        s: &mut Schedule,
        data: Elements,
        from: Slice,
        room: Slice,
        spare_at: usize,
    ) -> Slice {
        let bytes = data.bytes();
        let slot = |index: usize| scratch(spare_at + index * bytes, bytes);
        let mut acc = from;
        for level in self.levels() {
            let children = self.children(level);
            let count = children.clone().count();
            if count == 0 {
                continue;
            }
            if data.commutes && acc.space == Space::Input {
                s.copy(acc, room);
                acc = room;
            }
            children.enumerate().for_each(|(index, child)| s.recv(child, slot(index)));
            s.wait();
            if data.commutes {
                (0..count).for_each(|index| s.reduce(slot(index), acc));
                continue;
            }
            // The ranks of children are higher: what is on the left combines into the next one on the right.
            for index in 0..count {
                s.reduce(acc, slot(index));
                acc = slot(index);
            }
            s.copy(acc, room);
            acc = room;
        }
        acc
    }

    /// Sends to all children, the largest subtrees first, and waits.
    pub(super) fn send_down(&self, s: &mut Schedule, what: Slice) {
        self.send_each(s, what);
        s.wait();
    }

    /// As [`Tree::send_down`], but leaves it to the caller to wait.
    pub(super) fn send_each(&self, s: &mut Schedule, what: Slice) {
        for level in self.levels().rev() {
            self.children(level).for_each(|child| s.send(child, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coll::{Cores, Memory};
    use std::vec::Vec;

    fn tree(rank: u32, size: u32, top: u32, radix: u32) -> Tree {
        Tree::new(Place { rank, size, cores: Cores::Own, memory: Memory::Apart }, top, radix)
    }

    #[test]
    fn every_process_is_the_child_of_its_parent_and_of_nobody_else() {
        for radix in [2, 3, 5, 32] {
            for size in 1..80 {
                let top = size / 3;
                let mut parents = std::vec![Vec::new(); size as usize];
                for rank in 0..size {
                    let tree = tree(rank, size, top, radix);
                    for child in tree.levels().flat_map(|level| tree.children(level)) {
                        parents[child as usize].push(rank);
                    }
                }
                for rank in 0..size {
                    let expected: Vec<u32> = tree(rank, size, top, radix).parent().into_iter().collect();
                    assert_eq!(parents[rank as usize], expected, "rank {rank} of {size}, radix {radix}");
                    assert_eq!(expected.is_empty(), rank == top);
                }
            }
        }
    }

    #[test]
    fn a_large_group_needs_few_levels() {
        assert_eq!(tree(0, 1 << 20, 0, 32).levels().len(), 4);
        assert_eq!(tree(0, u32::MAX, 0, 32).levels().len(), 7);
    }
}
