//! The processes of a group, as this process numbers them ([`net::Process`]). Pure; small where they are regular.
use super::Comparison;
use net::Process;
use std::rc::Rc;

/// An ordered set of processes.
#[derive(Clone, Debug)]
pub(super) enum Members {
    /// `first`, `first + stride`, ...: the world itself needs no table.
    Regular { first: u32, stride: i64, count: u32 },
    /// Any.
    Listed(Rc<Listed>),
}

/// A table of members and its inverse.
#[derive(Debug)]
pub(super) struct Listed {
    world: Box<[u32]>,
    /// (process, rank), sorted.
    inverse: Box<[(u32, u32)]>,
}

impl Members {
    pub(super) const EMPTY: Members = Members::Regular { first: 0, stride: 1, count: 0 };

    pub(super) fn world(count: u32) -> Self {
        Members::Regular { first: 0, stride: 1, count }
    }

    pub(super) fn alone(process: Process) -> Self {
        Members::Regular { first: process.0, stride: 1, count: 1 }
    }

    /// From numbers of processes, all different.
    pub(super) fn listed(world: Vec<u32>) -> Self {
        if let Some(regular) = regular(&world) {
            return regular;
        }
        let mut inverse: Vec<_> = world.iter().enumerate().map(|(rank, w)| (*w, rank as u32)).collect();
        inverse.sort_unstable();
        Members::Listed(Rc::new(Listed { world: world.into(), inverse: inverse.into() }))
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        match self {
            Members::Regular { count, .. } => *count,
            Members::Listed(listed) => listed.world.len() as u32,
        }
    }

    /// The process of a rank below `len`.
    #[inline]
    pub(super) fn at(&self, rank: u32) -> Process {
        match self {
            Members::Regular { first, stride, .. } => {
                Process((i64::from(*first) + i64::from(rank) * stride) as u32)
            }
            Members::Listed(listed) => Process(listed.world[rank as usize]),
        }
    }

    /// Those with the lowest ranks.
    pub(super) fn first(&self, ranks: u32) -> Members {
        match self {
            Members::Regular { first, stride, count } => {
                Members::Regular { first: *first, stride: *stride, count: ranks.min(*count) }
            }
            Members::Listed(listed) if listed.world.len() <= ranks as usize => self.clone(),
            Members::Listed(listed) => Members::listed(listed.world[..ranks as usize].to_vec()),
        }
    }

    /// The rank of a process, if it is a member.
    #[inline]
    pub(super) fn rank_of(&self, process: Process) -> Option<u32> {
        match self {
            Members::Regular { first, stride: 1, count } => {
                process.0.checked_sub(*first).filter(|rank| rank < count)
            }
            Members::Regular { first, stride, count } => {
                let distance = i64::from(process.0) - i64::from(*first);
                let rank = distance / stride;
                (distance % stride == 0 && (0..i64::from(*count)).contains(&rank)).then_some(rank as u32)
            }
            Members::Listed(listed) => {
                let at = listed.inverse.binary_search_by_key(&process.0, |(world, _)| *world).ok()?;
                Some(listed.inverse[at].1)
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Process> + '_ {
        (0..self.len()).map(|rank| self.at(rank))
    }

    /// Is there a member whose number is not below `limit`?
    pub(super) fn reaches(&self, limit: u32) -> bool {
        match self {
            Members::Regular { count: 0, .. } => false,
            Members::Regular { first, count, .. } => (*first).max(self.at(count - 1).0) >= limit,
            Members::Listed(listed) => listed.inverse.last().is_some_and(|(process, _)| *process >= limit),
        }
    }

    pub(super) fn contains(&self, process: Process) -> bool {
        self.rank_of(process).is_some()
    }

    pub(super) fn compare(&self, other: &Members) -> Comparison {
        if self.len() != other.len() {
            Comparison::Unequal
        } else if self.iter().eq(other.iter()) {
            Comparison::Identical
        } else if self.iter().all(|process| other.contains(process)) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    /// Those of `self` that `keep` accepts, then those of `more` that `self` has not.
    pub(super) fn filtered(&self, keep: impl Fn(Process) -> bool, more: &Members) -> Members {
        let mine = self.iter().filter(|process| keep(*process));
        let others = more.iter().filter(|process| !self.contains(*process));
        Members::listed(mine.chain(others).map(|process| process.0).collect())
    }
}

/// Recognises equal steps.
fn regular(world: &[u32]) -> Option<Members> {
    let (&first, rest) = match world {
        [] => return Some(Members::EMPTY),
        [first, rest @ ..] => (first, rest),
    };
    let stride = rest.first().map_or(1, |second| i64::from(*second) - i64::from(first));
    let even = world.windows(2).all(|pair| i64::from(pair[1]) - i64::from(pair[0]) == stride);
    even.then_some(Members::Regular { first, stride, count: world.len() as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(members: &Members) -> Vec<u32> {
        members.iter().map(|process| process.0).collect()
    }

    #[test]
    fn regular_members_need_no_table_and_irregular_ones_find_their_rank() {
        for list in [vec![], vec![5], vec![0, 1, 2], vec![8, 6, 4], vec![3, 1, 2], vec![0, 4, 5]] {
            let members = Members::listed(list.clone());
            assert_eq!(ranks(&members), list);
            for process in 0..10 {
                let expected = list.iter().position(|w| *w == process).map(|rank| rank as u32);
                assert_eq!(members.rank_of(Process(process)), expected, "{process} in {list:?}");
            }
        }
        assert!(matches!(Members::listed(vec![8, 6, 4]), Members::Regular { stride: -2, .. }));
        assert!(matches!(Members::listed(vec![3, 1, 2]), Members::Listed(_)));
    }

    #[test]
    fn sets_combine_in_the_order_of_the_standard() {
        let (a, b) = (Members::listed(vec![3, 0, 2]), Members::listed(vec![2, 5, 3]));
        assert_eq!(ranks(&a.filtered(|_| true, &b)), [3, 0, 2, 5]);
        assert_eq!(ranks(&a.filtered(|p| b.contains(p), &Members::EMPTY)), [3, 2]);
        assert_eq!(ranks(&a.filtered(|p| !b.contains(p), &Members::EMPTY)), [0]);
        assert_eq!(a.compare(&Members::listed(vec![0, 2, 3])), Comparison::Similar);
        assert_eq!(a.compare(&b), Comparison::Unequal);
        assert_eq!(a.compare(&Members::listed(vec![3, 0, 2])), Comparison::Identical);
    }
}
