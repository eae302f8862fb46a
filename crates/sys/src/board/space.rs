//! Room in the segment: blocks of a power of two of units, merged with their neighbours when they come back.
//!
//! Buddies, because blocks that are given back become usable for any other size, which bounds what a changing
//! mixture of sizes can waste. The lowest block that fits is taken, so that few pages are touched. All of this is in
//! the owner's own memory: a reader cannot see it.
use std::collections::BTreeSet;

/// The owner's record of free blocks.
#[derive(Debug)]
pub(super) struct Space {
    /// First units of free blocks of `1 << order` units, by order.
    free: Vec<BTreeSet<u32>>,
}

impl Space {
    /// `1 << order` units, all free.
    pub(super) fn new(order: u32) -> Self {
        let mut free = vec![BTreeSet::new(); order as usize + 1];
        free[order as usize].insert(0);
        Space { free }
    }

    /// The order of a block for so many units.
    pub(super) fn order_for(units: u64) -> u32 {
        units.next_power_of_two().ilog2()
    }

    /// The first unit of a block.
    pub(super) fn take(&mut self, order: u32) -> Option<u32> {
        let holders = self.free.iter().enumerate().skip(order as usize);
        let lowest = holders.filter_map(|(from, blocks)| blocks.first().map(|unit| (*unit, from)));
        let (unit, from) = lowest.min()?;
        self.free[from].remove(&unit);
        for order in (order as usize..from).rev() {
            self.free[order].insert(unit + (1 << order));
        }
        Some(unit)
    }

    /// A block is free again.
    pub(super) fn give(&mut self, mut unit: u32, mut order: u32) {
        while (order as usize) < self.free.len() - 1 && self.free[order as usize].remove(&(unit ^ 1 << order))
        {
            unit &= !(1 << order);
            order += 1;
        }
        self.free[order as usize].insert(unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_low_apart_and_aligned() {
        let mut space = Space::new(4);
        assert_eq!(
            (space.take(0), space.take(2), space.take(1), space.take(3)),
            (Some(0), Some(4), Some(2), Some(8))
        );
        assert_eq!((space.take(0), space.take(0), space.take(3)), (Some(1), None, None));
    }

    #[test]
    fn what_comes_back_is_merged() {
        let mut space = Space::new(5);
        let units: Vec<u32> = std::iter::from_fn(|| space.take(0)).collect();
        assert_eq!(units, (0..32).collect::<Vec<_>>());
        for unit in
            units.iter().filter(|unit| **unit % 3 == 0).chain(units.iter().filter(|unit| **unit % 3 != 0))
        {
            space.give(*unit, 0);
        }
        assert_eq!((space.take(5), space.take(0)), (Some(0), None));
    }

    #[test]
    fn a_block_holds_what_was_asked_for() {
        assert_eq!([1, 2, 3, 4, 5, 1041].map(Space::order_for), [0, 1, 2, 2, 3, 11]);
    }
}
