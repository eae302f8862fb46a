//! What waits for locks, in the order in which it came: who is before whom, and who may be tried again.
//!
//! Whoever asks for a lock that is not free waits, and with it everything that the same asker sends behind it for the same
//! target: else operations would be done without the lock. Others go on. When a lock is given back everything is tried again in
//! turn; what could go on a part of its way may have given a lock back itself, so that the round begins anew.
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Work that waits, each with its asker.
#[derive(Clone, Debug)]
pub struct Queue<K, W> {
    waiting: VecDeque<(K, W)>,
}

/// A look at all that waits, in turn. One per round.
#[derive(Clone, Debug)]
pub struct Round<K> {
    at: usize,
    /// Askers who wait still: nothing of theirs is tried that is behind.
    blocked: Vec<K>,
}

impl<K> Default for Round<K> {
    fn default() -> Self {
        Round { at: 0, blocked: Vec::new() }
    }
}

impl<K, W> Default for Queue<K, W> {
    fn default() -> Self {
        Queue { waiting: VecDeque::new() }
    }
}

impl<K: Copy + PartialEq, W> Queue<K, W> {
    /// Does nobody wait?
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Does something of an asker wait, so that what it sends now waits as well?
    pub fn has(&self, asker: K) -> bool {
        self.waiting.iter().any(|(other, _)| *other == asker)
    }

    /// Is there anybody who waits of whom this is true?
    pub fn any(&self, is: impl Fn(&K) -> bool) -> bool {
        self.waiting.iter().any(|(asker, _)| is(asker))
    }

    /// Somebody begins to wait.
    pub fn push(&mut self, asker: K, work: W) {
        self.waiting.push_back((asker, work));
    }

    /// Takes all that an asker waits for.
    pub fn forget(&mut self, asker: K) -> Vec<W> {
        let all = core::mem::take(&mut self.waiting).into_iter();
        let (gone, left): (VecDeque<_>, VecDeque<_>) = all.partition(|(other, _)| *other == asker);
        self.waiting = left;
        gone.into_iter().map(|(_, work)| work).collect()
    }

    /// Takes what is to be tried next. It is given back by [`Queue::stays`], or has gone: [`Queue::gone`].
    pub fn next(&mut self, round: &mut Round<K>) -> Option<(K, W)> {
        while let Some((asker, _)) = self.waiting.get(round.at) {
            if !round.blocked.contains(asker) {
                return self.waiting.remove(round.at);
            }
            round.at += 1;
        }
        None
    }

    /// It waits still. Has it moved? Then it may have given back what others wait for.
    pub fn stays(&mut self, round: &mut Round<K>, asker: K, work: W, moved: bool) {
        self.waiting.insert(round.at.min(self.waiting.len()), (asker, work));
        if moved {
            *round = Round::default();
        } else {
            round.blocked.push(asker);
            round.at += 1;
        }
    }

    /// It is done, and others may be able to go on.
    pub fn gone(&mut self, round: &mut Round<K>) {
        *round = Round::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Tries everything once; `free` says what can go on.
    fn round(queue: &mut Queue<u32, char>, free: &[char]) -> Vec<char> {
        let (mut round, mut gone) = (Round::default(), Vec::new());
        while let Some((asker, work)) = queue.next(&mut round) {
            if free.contains(&work) {
                gone.push(work);
                queue.gone(&mut round);
            } else {
                queue.stays(&mut round, asker, work, false);
            }
        }
        gone
    }

    #[test]
    fn nobody_overtakes_itself_and_others_go_on() {
        let mut queue = Queue::default();
        for (asker, work) in [(1, 'a'), (2, 'b'), (1, 'c'), (3, 'd'), (2, 'e')] {
            queue.push(asker, work);
        }
        assert!(queue.has(1) && !queue.has(4) && queue.any(|asker| *asker == 3));
        assert_eq!(round(&mut queue, &['c', 'd', 'b']), vec!['b', 'd']);
        assert_eq!(round(&mut queue, &['a', 'c']), vec!['a', 'c']);
        assert_eq!(round(&mut queue, &['a', 'b', 'c', 'd', 'e']), vec!['e']);
        assert!(queue.is_empty());
        for (asker, work) in [(1, 'a'), (2, 'b'), (1, 'c')] {
            queue.push(asker, work);
        }
        assert_eq!(queue.forget(1), vec!['a', 'c']);
        assert_eq!(round(&mut queue, &['b']), vec!['b']);
    }

    #[test]
    fn what_moved_and_waits_again_has_others_tried_once_more() {
        let mut queue = Queue::default();
        queue.push(1, 'a');
        queue.push(2, 'b');
        let mut round = Round::default();
        let first = queue.next(&mut round).unwrap();
        queue.stays(&mut round, first.0, first.1, false);
        let second = queue.next(&mut round).unwrap();
        assert_eq!(second.1, 'b');
        queue.stays(&mut round, second.0, second.1, true);
        assert_eq!(
            queue.next(&mut round),
            Some((1, 'a')),
            "what the second gave back the first may have waited for"
        );
    }
}
