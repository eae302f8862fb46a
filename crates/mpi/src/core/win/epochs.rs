//! Synchronization of windows: fences, the four calls of active targets, locks, flushes.
//!
//! Each begins here and is asked for until it has ended ([`Mpi::win_ended`]); nobody waits inside.
use super::far::{Far, Last, Lock};
use super::locking::Locking;
use super::route::To;
use super::window::{Access, Awaits, State, WaitsForLock, Window, Windows, Word};
use super::{Assert, Stage, Synchronizing, WinId};
use crate::core::{Coll, GroupId, Mpi};
use crate::error::{ErrorClass, Result, fail, fail_with};
use net::{Endpoint, NetError};
use proto::rma::lock::{Want, give_back};
use proto::rma::wire::{Kind, Writer};
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;

/// Looks for words of others before these are asked to wake who looks: nobody sleeps that soon.
const LOOKS: u32 = 150;

/// Somebody who looks for words of others.
#[derive(Debug, Default)]
pub(super) struct Looking {
    looks: u32,
}

impl Looking {
    /// To be called before each look.
    fn again(&mut self, window: &Window) {
        self.looks = self.looks.saturating_add(1);
        if self.looks == LOOKS {
            window.falls_asleep();
        }
    }

    fn ended(&self, window: &Window) {
        if self.looks >= LOOKS {
            window.is_awake();
        }
    }
}

impl Mpi {
    /// Collective: everything that was begun before is done, everywhere.
    pub fn win_fence(&mut self, win: WinId, assert: Assert) -> Result<Synchronizing> {
        let mut windows = self.hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        match window.access {
            Access::Nothing | Access::Fence => {}
            Access::Started(_) => {
                return fail(
                    ErrorClass::RmaSync,
                    "MPI_Win_fence is called between MPI_Win_start and MPI_Win_complete",
                );
            }
            Access::Locked(_) | Access::LockedAll { .. } => {
                return fail(
                    ErrorClass::RmaSync,
                    "MPI_Win_fence is called while this process has locks of the window",
                );
            }
        }
        if window.exposed_to.is_some() {
            return fail(
                ErrorClass::RmaSync,
                "MPI_Win_fence is called between MPI_Win_post and MPI_Win_wait",
            );
        }
        let ranks = windows.flush_all(&mut self.endpoint, win)?;
        windows.get_mut(win)?.access = if assert.no_succeed { Access::Nothing } else { Access::Fence };
        Ok(Synchronizing::new(win, Stage::Fence { ranks, barrier: None }))
    }

    /// Lets the processes of a group access this one's memory.
    pub fn win_post(&mut self, win: WinId, group: GroupId, assert: Assert) -> Result<()> {
        let ranks = self.ranks_in(win, group)?;
        self.visit(|windows, endpoint| {
            let window = windows.get_mut(win)?;
            if window.exposed_to.is_some() {
                return fail(ErrorClass::RmaSync, "MPI_Win_post is called again before MPI_Win_wait");
            }
            window.exposed_to = Some(ranks.clone());
            for rank in ranks.iter().filter(|_| !assert.no_check) {
                // Who cannot be told keeps nobody from the others: MPI_Win_wait finds out who is lost.
                if let Err(error) = windows.tell(endpoint, win, *rank, Word::Post)
                    && windows.get(win)?.loss_of(endpoint, *rank).is_none()
                {
                    windows.note_error(win, error);
                }
            }
            Ok(())
        })
    }

    /// Begins to access the memory of the processes of a group, when they have posted it.
    pub fn win_start(&mut self, win: WinId, group: GroupId, assert: Assert) -> Result<Synchronizing> {
        let ranks = self.ranks_in(win, group)?;
        let mut windows = self.hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        match window.access {
            Access::Nothing | Access::Fence => {}
            Access::Started(_) => {
                return fail(ErrorClass::RmaSync, "MPI_Win_start is called again before MPI_Win_complete");
            }
            _ => {
                return fail(
                    ErrorClass::RmaSync,
                    "MPI_Win_start is called while this process has locks of the window",
                );
            }
        }
        for rank in ranks.iter() {
            window.targets[*rank as usize].state = State::Started;
        }
        window.access = Access::Started(ranks.clone());
        let posted = if assert.no_check { ranks.len() } else { 0 };
        Ok(Synchronizing::new(win, Stage::Start { ranks, posted, looking: Looking::default() }))
    }

    /// The access that was started is over.
    pub fn win_complete(&mut self, win: WinId) -> Result<Synchronizing> {
        let mut windows = self.hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        let ranks = match &window.access {
            Access::Started(ranks) => ranks.clone(),
            _ => {
                return fail(
                    ErrorClass::RmaSync,
                    "MPI_Win_complete is called without MPI_Win_start before it",
                );
            }
        };
        window.access = Access::Nothing;
        let mut far = Vec::new();
        for rank in ranks.iter().copied() {
            let window = windows.get_mut(win)?;
            window.targets[rank as usize].state = State::Nothing;
            if window.far.contains_key(&rank) {
                windows.close_or_note(&mut self.endpoint, win, rank, Last::Complete);
                far.push(rank);
            } else if let Err(error) = windows.tell(&mut self.endpoint, win, rank, Word::Complete) {
                windows.note_error(win, error); // the others are told all the same
            }
        }
        Ok(Synchronizing::new(win, Stage::Settle(far)))
    }

    /// Waits until those who may access this process's memory are done.
    pub fn win_wait(&mut self, win: WinId) -> Result<Synchronizing> {
        let windows = self.hall.windows.borrow();
        if windows.get(win)?.exposed_to.is_none() {
            return fail(ErrorClass::RmaSync, "MPI_Win_wait is called without MPI_Win_post before it");
        }
        Ok(Synchronizing::new(win, Stage::Wait(Looking::default())))
    }

    /// Would `win_wait` have ended? Then it has.
    pub fn win_test(&mut self, win: WinId) -> Result<bool> {
        let mut sync = self.win_wait(win)?;
        self.win_ended(&mut sync)
    }

    /// Begins to access the memory of one process.
    pub fn win_lock(
        &mut self,
        win: WinId,
        rank: i32,
        exclusive: bool,
        assert: Assert,
    ) -> Result<Synchronizing> {
        let mut windows = self.hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        let rank = window.checked(rank)?;
        let count = match window.access {
            Access::Nothing | Access::Fence => 0,
            Access::Locked(count) => count,
            Access::LockedAll { .. } => {
                return fail(
                    ErrorClass::RmaSync,
                    "MPI_Win_lock is called between MPI_Win_lock_all and MPI_Win_unlock_all",
                );
            }
            Access::Started(_) => {
                return fail(
                    ErrorClass::RmaSync,
                    "MPI_Win_lock is called between MPI_Win_start and MPI_Win_complete",
                );
            }
        };
        if window.targets[rank as usize].state != State::Nothing {
            return fail_with(ErrorClass::RmaSync, || format!("rank {rank} is locked already"));
        }
        // Others may wait to have it alone for who has another lock, of whatever window.
        let want = match (exclusive, windows.locked) {
            (true, _) => Want::Alone,
            (false, 0) => Want::Shared,
            (false, _) => Want::SharedNow,
        };
        let before = if assert.no_check { Vec::new() } else { windows.locks_before() };
        windows.locked += u32::from(count == 0);
        let window = windows.get_mut(win)?;
        window.access = Access::Locked(count + 1);
        let state = if assert.no_check { State::Unchecked } else { State::Waiting };
        window.targets[rank as usize].state = state;
        let stage = match assert.no_check {
            true => Stage::Ended,
            false => Stage::Lock(Locking::one(window, rank, want, before)),
        };
        Ok(Synchronizing::new(win, stage))
    }

    /// Begins to access the memory of all processes, with others.
    pub fn win_lock_all(&mut self, win: WinId, assert: Assert) -> Result<Synchronizing> {
        let mut windows = self.hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        if !matches!(window.access, Access::Nothing | Access::Fence) {
            return fail(
                ErrorClass::RmaSync,
                "MPI_Win_lock_all is called while this process has locks of the window, or before MPI_Win_complete",
            );
        }
        if assert.no_check {
            window.access = Access::LockedAll { checked: false, had: 0 };
            return Ok(Synchronizing::new(win, Stage::Ended));
        }
        let before = windows.locks_before();
        windows.locked += 1;
        let window = windows.get_mut(win)?;
        window.access = Access::LockedAll { checked: true, had: 0 };
        // Those who are sent messages are asked with the first of them.
        let far: Vec<u32> = window.far.keys().copied().collect();
        for rank in far {
            if window.targets[rank as usize].line.is_none() {
                window.far_to(rank).lock = Lock::Wanted(Want::SharedNow);
            }
        }
        Ok(Synchronizing::new(win, Stage::Lock(Locking::all(window, before))))
    }

    /// The access to one process is over, and everything done.
    pub fn win_unlock(&mut self, win: WinId, rank: i32) -> Result<Synchronizing> {
        let mut windows = self.hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        let rank = window.checked(rank)?;
        let state = window.targets[rank as usize].state;
        if !matches!(window.access, Access::Locked(_)) || !state.is_open() {
            return fail_with(ErrorClass::RmaSync, || {
                format!("rank {rank} is unlocked, but this process does not have its lock")
            });
        }
        window.targets[rank as usize].state = State::Nothing;
        windows.lock_is_over(win)?;
        windows.finish(&mut self.endpoint, win, rank);
        let looks_around = windows.get_mut(win)?.looks_around();
        drop(windows);
        if looks_around {
            self.progress();
        }
        Ok(Synchronizing::new(win, Stage::Unlock { far: vec![rank], near: vec![(rank, state)] }))
    }

    /// The access to all processes is over, and everything done.
    pub fn win_unlock_all(&mut self, win: WinId) -> Result<Synchronizing> {
        let mut windows = self.hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        let Access::LockedAll { checked, .. } = window.access else {
            return fail(
                ErrorClass::RmaSync,
                "MPI_Win_unlock_all is called without MPI_Win_lock_all before it",
            );
        };
        let near = (0..).zip(&window.targets).filter(|(_, target)| checked && target.line.is_some());
        let near = near.map(|(rank, _)| (rank, State::Shared)).collect();
        let far: Vec<u32> = window.far.keys().copied().collect();
        match checked {
            true => windows.lock_is_over(win)?,
            false => window.access = Access::Nothing,
        }
        for rank in &far {
            windows.finish(&mut self.endpoint, win, *rank);
        }
        Ok(Synchronizing::new(win, Stage::Unlock { far, near }))
    }

    /// Everything that was begun is done, on one rank or on all: also at the targets, which a flush that is local would not
    /// have to wait for.
    pub fn win_flush(&mut self, win: WinId, rank: Option<i32>) -> Result<Synchronizing> {
        let mut windows = self.hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        let rank = rank.map(|rank| window.checked(rank)).transpose()?;
        let locked = match rank {
            Some(rank) => window.is_locked(&window.targets[rank as usize]),
            None => matches!(window.access, Access::Locked(_) | Access::LockedAll { .. }),
        };
        if !locked {
            return fail(
                ErrorClass::RmaSync,
                "a flush of the memory of a rank whose lock this process does not have",
            );
        }
        let (looks_around, has_far) = (window.looks_around(), !window.far.is_empty());
        let ranks = match rank {
            _ if !has_far => Vec::new(),
            None => windows.flush_all(&mut self.endpoint, win)?,
            Some(rank) => {
                windows.close_or_note(&mut self.endpoint, win, rank, Last::Flush);
                vec![rank]
            }
        };
        let failed = windows.get(win)?.error.is_some();
        drop(windows);
        if looks_around {
            self.progress();
        }
        let stage = if has_far || failed { Stage::Settle(ranks) } else { Stage::Ended };
        Ok(Synchronizing::new(win, stage))
    }

    /// What other processes have stored is seen, and what this one has is seen by them.
    pub fn win_sync(&mut self, win: WinId) -> Result<()> {
        self.hall.windows.borrow().get(win)?;
        self.progress();
        std::sync::atomic::fence(SeqCst);
        Ok(())
    }

    /// The ranks in the window of the members of a group.
    fn ranks_in(&self, win: WinId, group: GroupId) -> Result<Rc<[u32]>> {
        let windows = self.hall.windows.borrow();
        let members = &windows.get(win)?.roster.members;
        let rank_of = |process| match members.rank_of(process) {
            Some(rank) => Ok(rank),
            None => fail(ErrorClass::Group, "the group has a process that is not in the window"),
        };
        self.members(group)?.iter().map(rank_of).collect()
    }

    /// Moves a synchronization on. Has it ended?
    pub(super) fn step(&mut self, win: WinId, stage: &mut Stage) -> Result<bool> {
        let hall = self.hall.clone();
        if hall.has_news() {
            hall.serve(&mut self.endpoint);
        }
        let mut windows = hall.windows.borrow_mut();
        let ended = match stage {
            Stage::Ended => true,
            Stage::Making(_) | Stage::Free(_) => unreachable!("these have steps of their own"),
            Stage::Fence { ranks, barrier } => match barrier {
                None if !windows.all_settled(&mut self.endpoint, win, ranks)? => false,
                None => {
                    let comm = windows.get(win)?.comm;
                    drop(windows);
                    *barrier = Some(self.icollective(comm, Coll::Barrier)?);
                    return self.step(win, stage);
                }
                Some(request) => {
                    let request = *request;
                    drop(windows);
                    let tested = self.test(request);
                    windows = hall.windows.borrow_mut();
                    match tested {
                        Ok(None) => return Ok(false),
                        Ok(Some(_)) => true,
                        Err(error) => {
                            windows.get_mut(win)?.error = None; // one error is told
                            return Err(error);
                        }
                    }
                }
            },
            Stage::Start { ranks, posted, looking } => {
                let window = windows.get_mut(win)?;
                looking.again(window);
                *posted += ranks[*posted..].iter().take_while(|rank| window.has_posted(**rank)).count();
                let all = *posted == ranks.len();
                if all {
                    looking.ended(window);
                }
                all
            }
            Stage::Wait(looking) => {
                let window = windows.get_mut(win)?;
                looking.again(window);
                let all = window.open_ranks().next().is_none();
                if all {
                    looking.ended(window);
                    for rank in window.exposed_to.take().iter().flat_map(|ranks| ranks.iter()) {
                        window.forget_done(*rank);
                    }
                }
                all
            }
            Stage::Settle(ranks) => windows.all_settled(&mut self.endpoint, win, ranks)?,
            Stage::Lock(locking) => match windows.take_locks(&mut self.endpoint, win, locking) {
                Ok(all) => all,
                Err(error) => {
                    windows.give_up_locks(&mut self.endpoint, win, locking)?;
                    return Err(error);
                }
            },
            Stage::Unlock { far, near } => {
                let settled = windows.all_settled(&mut self.endpoint, win, far)?;
                if settled {
                    for (rank, state) in std::mem::take(near) {
                        windows.unlock(&mut self.endpoint, win, rank, state);
                    }
                }
                settled
            }
        };
        // An access that begins tells nothing of those before: who is told an error takes it that it has no lock.
        if ended
            && !stage.begins_access()
            && let Some(error) = windows.get_mut(win)?.error.take()
        {
            return Err(error);
        }
        if !ended && self.endpoint.has_losses() {
            windows.look_for_loss(&mut self.endpoint, win, stage)?;
        }
        Ok(ended)
    }
}

impl Stage {
    /// Is somebody lost who is waited for?
    fn loss(&self, windows: &Windows, win: WinId, endpoint: &Endpoint) -> Option<NetError> {
        let window = windows.get(win).ok()?;
        let lost = |rank: &u32| window.loss_of(endpoint, *rank);
        match self {
            Stage::Ended | Stage::Making(_) | Stage::Free(_) => None,
            Stage::Lock(locking) => locking.loss(windows, endpoint),
            Stage::Start { ranks, posted, .. } => ranks[*posted..].iter().find_map(lost),
            Stage::Wait(_) => window.open_ranks().find_map(lost),
            Stage::Fence { ranks, .. } | Stage::Settle(ranks) | Stage::Unlock { far: ranks, .. } => {
                ranks.iter().find_map(lost)
            }
        }
    }

    /// Does an access begin when it ends?
    fn begins_access(&self) -> bool {
        matches!(self, Stage::Ended | Stage::Start { .. } | Stage::Lock(_))
    }

    /// Does it wait for operations, of which each may still use the program's memory?
    fn settles(&self) -> bool {
        matches!(self, Stage::Fence { .. } | Stage::Settle(_) | Stage::Unlock { .. })
    }

    /// Who is waited for, and what they are to do, if it is not the messages of a collective.
    pub(super) fn awaits(&self, windows: &Windows, win: WinId, endpoint: &Endpoint) -> Option<Awaits> {
        let window = windows.get(win).ok()?;
        let (rank, what, lock) = match self {
            Stage::Ended | Stage::Making(_) | Stage::Free(_) => return None,
            Stage::Start { ranks, posted, .. } => {
                (*ranks.get(*posted)?, "to post its window", WaitsForLock::No)
            }
            Stage::Wait(_) => {
                (*window.open_ranks().next()?, "to complete its access to a window here", WaitsForLock::No)
            }
            Stage::Fence { ranks, .. } | Stage::Settle(ranks) | Stage::Unlock { far: ranks, .. } => {
                return window.awaits(*ranks.last()?, endpoint);
            }
            Stage::Lock(locking) => match locking.awaits_before() {
                Some((of, rank)) => return windows.get(of).ok()?.awaits(rank, endpoint),
                None => (locking.awaits_near()?, "whose window others have locked", WaitsForLock::Surely),
            },
        };
        let target = window.process(rank);
        Some(Awaits { peer: endpoint.peer_of(target)?, what, win: window.number, target, lock })
    }
}

/// Takes one word of a rank, if there is one.
fn take_one(words: &mut std::collections::BTreeMap<u32, u32>, rank: u32) -> bool {
    let Some(count) = words.get_mut(&rank) else { return false };
    *count -= 1;
    if *count == 0 {
        words.remove(&rank);
    }
    true
}

impl Window {
    /// Takes the word that a rank has posted its memory, if it has come.
    fn has_posted(&mut self, rank: u32) -> bool {
        let line = self.targets[rank as usize].line;
        line.is_some_and(|line| self.hear(Word::Post, line)) || take_one(&mut self.posts, rank)
    }

    /// Is a rank done with this process's memory? It says so by a word in memory, or behind what it has sent.
    fn is_done(&self, rank: u32) -> bool {
        let line = self.targets[rank as usize].line;
        line.is_some_and(|line| self.is_told(Word::Complete, line)) || self.completes.contains_key(&rank)
    }

    /// Ranks that are not done.
    fn open_ranks(&self) -> impl Iterator<Item = &u32> {
        self.exposed_to.iter().flat_map(|ranks| ranks.iter()).filter(|rank| !self.is_done(**rank))
    }

    /// Who does what a rank elsewhere was sent.
    fn awaits(&self, rank: u32, endpoint: &Endpoint) -> Option<Awaits> {
        let lock = match self.far.get(&rank).is_some_and(Far::awaits_lock) {
            true => WaitsForLock::Perhaps,
            false => WaitsForLock::No,
        };
        let target = self.process(rank);
        let (peer, what) = match self.to(endpoint, rank) {
            To::Server { peer, .. } => (peer, "to do what it was sent for a window of its node"),
            To::Rank(_) => (endpoint.peer_of(target)?, "to do what it was sent for its window"),
        };
        Some(Awaits { peer, what, win: self.number, target, lock })
    }

    fn forget_done(&mut self, rank: u32) {
        let line = self.targets[rank as usize].line;
        if !line.is_some_and(|line| self.hear(Word::Complete, line)) {
            take_one(&mut self.completes, rank);
        }
    }
}

impl Windows {
    /// Tells a rank something, by a word in memory if it is of this host.
    fn tell(&mut self, endpoint: &mut Endpoint, win: WinId, rank: u32, word: Word) -> Result<()> {
        let window: &Window = self.get(win)?;
        let kind = match (window.targets[rank as usize].line, word) {
            // By the server of its node, as what else concerns it.
            (None, word) if matches!(window.to(endpoint, rank), To::Server { .. }) => {
                let (to, mut message) = (window.to(endpoint, rank), Writer::default());
                let kind = if word == Word::Post { Kind::Post } else { Kind::Complete };
                message.tell(kind, window.rank());
                let at = to.address(window, rank, Kind::Work);
                return self.post(endpoint, to, at, message);
            }
            (Some(line), _) if !window.tell(line, word) || rank == window.rank() => return Ok(()),
            (Some(_), _) => Kind::Nudge,
            (None, Word::Post) => Kind::Post,
            (None, Word::Complete) => Kind::Complete,
        };
        self.send(endpoint, win, rank, kind, Writer::default())
    }

    /// Has everything leave for all targets that are sent messages; gives their ranks.
    pub(super) fn flush_all(&mut self, endpoint: &mut Endpoint, win: WinId) -> Result<Vec<u32>> {
        let ranks: Vec<u32> = self.get(win)?.far.keys().copied().collect();
        for rank in &ranks {
            self.close_or_note(endpoint, win, *rank, Last::Flush);
        }
        Ok(ranks)
    }

    /// As [`Windows::close`]. A target that cannot be reached keeps nobody from the others: it is told when all have ended.
    pub(super) fn close_or_note(&mut self, endpoint: &mut Endpoint, win: WinId, rank: u32, last: Last) {
        if let Err(error) = self.close(endpoint, win, rank, last) {
            self.cannot_reach(win, rank, error);
        }
    }

    /// Has everything leave for a target, which gives the lock back behind it if it was asked for it.
    fn finish(&mut self, endpoint: &mut Endpoint, win: WinId, rank: u32) {
        let Some(far) = self.get_mut(win).ok().and_then(|window| window.far.get_mut(&rank)) else { return };
        let by_message = far.lock != Lock::Nothing;
        if by_message && far.is_untouched() {
            far.lock = Lock::Nothing;
            return;
        }
        self.close_or_note(endpoint, win, rank, if by_message { Last::Unlock } else { Last::Flush });
    }

    pub(super) fn all_settled(
        &mut self,
        endpoint: &mut Endpoint,
        win: WinId,
        ranks: &mut Vec<u32>,
    ) -> Result<bool> {
        self.get(win)?;
        while let Some(rank) = ranks.last().copied() {
            match self.settled(endpoint, win, rank) {
                Ok(true) => _ = ranks.pop(),
                Ok(false) => return Ok(false),
                // It may be that copies still have to end.
                Err(error) => self.cannot_reach(win, rank, error),
            }
        }
        Ok(true)
    }

    /// Gives a synchronization up that waits for somebody who is lost. One that waits for operations goes on without those
    /// who are lost, and tells it when it ends: others are alive, and use the program's memory until then.
    #[cold]
    #[inline(never)]
    fn look_for_loss(&mut self, endpoint: &mut Endpoint, win: WinId, stage: &mut Stage) -> Result<()> {
        let Some(loss) = stage.loss(self, win, endpoint) else { return Ok(()) };
        // What has been begun since the loss was heard of is not answered either.
        self.abandon_lost(endpoint);
        if stage.settles() {
            self.note_error(win, loss.into());
            return Ok(());
        }
        if !stage.begins_access() {
            self.get_mut(win)?.error = None; // one error is told
        }
        self.give_up(endpoint, win, stage)?;
        Err(loss.into())
    }

    /// A synchronization is not waited for any longer. What this process has of locks is given back.
    fn give_up(&mut self, endpoint: &mut Endpoint, win: WinId, stage: &mut Stage) -> Result<()> {
        let window = self.get_mut(win)?;
        match stage {
            Stage::Lock(locking) => self.give_up_locks(endpoint, win, locking)?,
            Stage::Start { looking, .. } | Stage::Wait(looking) => looking.ended(window),
            _ => {}
        }
        Ok(())
    }

    /// Tells the server of this node that the lock of a process here was given back, for which somebody waits there.
    pub(super) fn nudge_server(&mut self, endpoint: &mut Endpoint, win: WinId, rank: u32) -> Result<()> {
        let window = self.get(win)?;
        let to = window.to(endpoint, rank);
        if matches!(to, To::Rank(_)) {
            return Ok(());
        }
        let at = to.address(window, rank, Kind::Nudge);
        self.post(endpoint, to, at, Writer::default())
    }

    /// Gives the lock of a process of this host back. Others may wait for it who are told by that process.
    pub(super) fn unlock(&mut self, endpoint: &mut Endpoint, win: WinId, rank: u32, state: State) {
        if let Err(error) = self.unlock_and_tell(endpoint, win, rank, state) {
            self.note_error(win, error); // it is given back all the same
        }
    }

    fn unlock_and_tell(
        &mut self,
        endpoint: &mut Endpoint,
        win: WinId,
        rank: u32,
        state: State,
    ) -> Result<()> {
        let window: &Window = self.get(win)?;
        let Some(line) = window.targets[rank as usize].line else { return Ok(()) };
        match state {
            State::Shared => give_back(window.lock_word(line), false),
            State::Alone => give_back(window.lock_word(line), true),
            State::Nothing | State::Waiting | State::Started | State::Unchecked => return Ok(()),
        }
        if window.server_word(line).load(SeqCst) != 0 {
            self.nudge_server(endpoint, win, rank)?;
        }
        let window: &Window = self.get(win)?;
        if window.far_word(line).load(SeqCst) == 0 {
            return Ok(());
        }
        if rank == window.rank() {
            self.retry(endpoint, win);
            return Ok(());
        }
        self.send(endpoint, win, rank, Kind::Nudge, Writer::default())
    }
}
