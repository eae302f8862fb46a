//! Taking locks, in the order in which the program asks for them.
//!
//! A lock of this host is taken inside the call. One elsewhere is asked for with the first operation, or before the next lock
//! is taken, in whatever window: who waits for a lock has all that it has asked for before. So processes that take their
//! locks in one order never wait for each other in a circle. What `MPI_Win_lock_all` takes of this host it takes in the order
//! of the ranks. Its locks elsewhere are an exception: each is asked for with the first operation on its rank, wherever that
//! comes in the order, since nobody is to connect to ranks that it has nothing to do with.
use super::WinId;
use super::far::{Far, Lock};
use super::window::{Access, State, Window, Windows};
use crate::error::Result;
use net::{Endpoint, NetError};
use proto::rma::lock::{Attempt, Want};
use std::collections::VecDeque;

/// A lock of a process of this host that is to be taken.
#[derive(Debug)]
struct Wanted {
    rank: u32,
    line: u32,
    attempt: Attempt,
}

/// Locks that are being taken.
#[derive(Debug)]
pub(super) struct Locking {
    /// Locks elsewhere that come before these in the program's order, and are not had yet.
    before: Vec<(WinId, u32)>,
    /// Have all of these been asked for? (They come together: each may take its owner's attention.)
    asked: bool,
    /// Those of this host, in the order in which they are taken.
    near: VecDeque<Wanted>,
    whose: Whose,
}

/// Whose locks they are.
#[derive(Clone, Copy, Debug)]
enum Whose {
    One(u32, Want),
    All,
}

impl Locking {
    /// The lock of one rank, when those before it are had.
    pub(super) fn one(window: &Window, rank: u32, want: Want, before: Vec<(WinId, u32)>) -> Self {
        let line = window.targets[rank as usize].line;
        let near = line.map(|line| Wanted { rank, line, attempt: Attempt::new(want) });
        Locking { before, asked: false, near: near.into_iter().collect(), whose: Whose::One(rank, want) }
    }

    /// Those of all ranks of this host, when those before them are had.
    pub(super) fn all(window: &Window, before: Vec<(WinId, u32)>) -> Self {
        let near = (0..).zip(&window.targets).filter_map(|(rank, target)| {
            let line = target.line?;
            Some(Wanted { rank, line, attempt: Attempt::new(Want::SharedNow) })
        });
        Locking { before, asked: false, near: near.collect(), whose: Whose::All }
    }

    /// The lock elsewhere that is waited for, by its window and rank.
    pub(super) fn awaits_before(&self) -> Option<(WinId, u32)> {
        self.before.last().copied()
    }

    /// The rank of this host whose lock is waited for.
    pub(super) fn awaits_near(&self) -> Option<u32> {
        self.near.front().map(|wanted| wanted.rank)
    }

    /// Is somebody lost who is waited for? Not for a lock of this host: its word is for processes of this job only, and what those of
    /// others have by message its owner gives back.
    pub(super) fn loss(&self, windows: &Windows, endpoint: &Endpoint) -> Option<NetError> {
        let (of, rank) = self.awaits_before()?;
        windows.get(of).ok()?.loss_of(endpoint, rank)
    }
}

impl Window {
    /// Takes locks of this host, each when it has the one before. Has it all of them?
    fn take_in_turn(&mut self, near: &mut VecDeque<Wanted>) -> bool {
        while let Some(next) = near.front_mut() {
            if !self.try_lock(next.line, &mut next.attempt) {
                return false;
            }
            if let Access::LockedAll { had, .. } = &mut self.access {
                *had = next.rank + 1;
            }
            near.pop_front();
        }
        true
    }

    /// A lock is had, or, elsewhere, asked for with the first operation.
    fn is_locked_now(&mut self, rank: u32, want: Want) {
        let target = &mut self.targets[rank as usize];
        target.state = if want == Want::Alone { State::Alone } else { State::Shared };
        if target.line.is_none() {
            self.far_to(rank).lock = Lock::Wanted(want);
        }
    }

    /// The ranks whose locks this process has, which are not those that it waits for.
    pub(super) fn held(&self) -> impl Iterator<Item = u32> + '_ {
        let is_had = |rank: u32, state: State| match self.access {
            Access::LockedAll { checked, had } => checked && rank < had,
            Access::Locked(_) => matches!(state, State::Shared | State::Alone),
            Access::Nothing | Access::Fence | Access::Started(_) => false,
        };
        let held = (0..).zip(&self.targets).filter(move |(rank, target)| match target.line {
            Some(_) => is_had(*rank, target.state),
            None => self.far.get(rank).is_some_and(Far::has_lock),
        });
        held.map(|(rank, _)| rank)
    }

    /// Ranks elsewhere whose locks have been asked for, or are to be, and are not had.
    fn lacks(&self) -> impl Iterator<Item = u32> + '_ {
        // Of `MPI_Win_lock_all` only those that are in use.
        let all = matches!(self.access, Access::Locked(_));
        let lacking = move |far: &Far| far.lacks_lock() && (all || !far.is_untouched());
        let far = self.access.is_locked().then_some(&self.far).into_iter().flatten();
        far.filter(move |(_, far)| lacking(far)).map(|(rank, _)| *rank)
    }
}

impl Windows {
    /// The locks elsewhere that have to be had before another one is taken.
    pub(super) fn locks_before(&self) -> Vec<(WinId, u32)> {
        if self.locked == 0 {
            return Vec::new();
        }
        let of_window = |(win, window)| Window::lacks(window).map(move |rank| (WinId(win), rank));
        self.list.iter().map(|(win, window)| (win, &**window)).flat_map(of_window).collect()
    }

    /// Can no lock elsewhere have to be had before another one is taken?
    #[inline]
    pub(super) fn none_before(&self) -> bool {
        self.locked == 0
            || self.list.iter().all(|(_, window)| window.far.is_empty() || !window.access.is_locked())
    }

    /// Takes what it can of locks. Has it all of them?
    pub(super) fn take_locks(
        &mut self,
        endpoint: &mut Endpoint,
        win: WinId,
        locking: &mut Locking,
    ) -> Result<bool> {
        if !std::mem::replace(&mut locking.asked, true) {
            for (of, rank) in &locking.before {
                self.has_lock(endpoint, *of, *rank)?;
            }
        }
        while let Some((of, rank)) = locking.before.last().copied() {
            if !self.has_lock(endpoint, of, rank)? {
                return Ok(false);
            }
            locking.before.pop();
        }
        let window = self.get_mut(win)?;
        let all = window.take_in_turn(&mut locking.near);
        if let (true, Whose::One(rank, want)) = (all, locking.whose) {
            window.is_locked_now(rank, want);
        }
        Ok(all)
    }

    /// Locks are not waited for any longer, as if they had never been asked for.
    pub(super) fn give_up_locks(
        &mut self,
        endpoint: &mut Endpoint,
        win: WinId,
        locking: &mut Locking,
    ) -> Result<()> {
        let window = self.get_mut(win)?;
        let first = locking.near.front_mut();
        let taken_to = first.as_ref().map_or(u32::MAX, |first| first.rank);
        if let Some(first) = first {
            first.attempt.give_up(window.lock_word(first.line));
        }
        locking.near.clear();
        match locking.whose {
            Whose::One(rank, _) => window.targets[rank as usize].state = State::Nothing,
            Whose::All => {
                window.far.values_mut().for_each(Far::forget_lock);
                for rank in 0..window.roster.size.min(taken_to) {
                    self.unlock(endpoint, win, rank, State::Shared);
                }
            }
        }
        self.lock_is_over(win)
    }

    /// This process has, or waits for, a lock of a window less, or those of all ranks.
    pub(super) fn lock_is_over(&mut self, win: WinId) -> Result<()> {
        let window = self.get_mut(win)?;
        let left = match window.access {
            Access::Locked(count) => count.saturating_sub(1),
            _ => 0,
        };
        window.access = if left == 0 { Access::Nothing } else { Access::Locked(left) };
        self.locked -= u32::from(left == 0);
        Ok(())
    }
}
