//! The target's side: what others ask for by message, in the order in which each of them does. Whoever asks for a lock that is
//! not free waits, with everything that came behind it.
use super::WinId;
use super::far::{Far, Lock};
use super::memory::{Combination, Combining, get, is_integer, put, span};
use super::window::{Access, Window, Windows};
use crate::buffer::{RecvBuf, source_of, target_of};
use crate::core::OpId;
use net::{Active, Endpoint, Peer};
use proto::rma::MESSAGE_BYTES;
use proto::rma::lock::{Attempt, Want, give_back};
use proto::rma::wire::{How, Item, Kind, NO_ANSWER, Reader, Shape, Subject, Writer};
use std::sync::atomic::Ordering::SeqCst;

/// Work that waits for the lock of this process's memory, or behind such work of the same process.
pub(super) struct Stalled {
    rank: u32,
    kind: Kind,
    bytes: Box<[u8]>,
    /// How much of it is done.
    done: usize,
    attempt: Option<Attempt>,
}

/// How far a message is.
enum Served {
    Whole,
    /// Up to here; what follows wants the lock.
    Until(usize, Attempt),
}

impl Window {
    /// The target's messages, made on first use.
    pub(super) fn far_to(&mut self, rank: u32) -> &mut Far {
        let Window { far, access, policy, flavor, targets, .. } = self;
        far.entry(rank).or_insert_with(|| {
            let is_near = targets[rank as usize].line.is_some();
            let lock = match access {
                Access::LockedAll { checked: true } if !is_near => Lock::Wanted { alone: false },
                _ => Lock::Nothing,
            };
            Far::new(*policy, lock, *flavor != super::WinFlavor::Dynamic)
        })
    }
}

impl Windows {
    /// A message has come.
    pub(super) fn receive(&mut self, endpoint: &mut Endpoint, from: Peer, active: Active) {
        let Some(Subject { window, rank, kind }) = Subject::decode(active.argument) else { return };
        let Some(win) = self.by_number.get(&window).copied() else { return };
        let Ok(window) = self.get_mut(win) else { return };
        if rank >= window.roster.size {
            return;
        }
        if let Some(early) = &mut window.early {
            return early.push((from, active));
        }
        match kind {
            Kind::Post => *window.posts.entry(rank).or_default() += 1,
            Kind::Complete if active.bytes.is_empty() && window.stalled.is_empty() => {
                *window.completes.entry(rank).or_default() += 1;
            }
            Kind::Complete | Kind::Work => {
                let stalled = Stalled { rank, kind, bytes: active.bytes, done: 0, attempt: None };
                let waits = window.stalled.iter().any(|other| other.rank == rank);
                if waits {
                    return window.stalled.push_back(stalled);
                }
                if let Some(stalled) = self.work(endpoint, win, stalled) {
                    self.stall(endpoint, win, stalled);
                }
                if self
                    .get_mut(win)
                    .is_ok_and(|window| std::mem::take(&mut window.freed) && !window.stalled.is_empty())
                {
                    self.retry(endpoint, win);
                }
            }
            Kind::Answers => self.take_answers(endpoint, (win, rank), &active.bytes),
            Kind::Nudge => self.retry(endpoint, win),
        }
    }

    /// Does what a message asks for. What is left, if it has to wait for the lock, is given back.
    fn work(&mut self, endpoint: &mut Endpoint, win: WinId, mut work: Stalled) -> Option<Stalled> {
        let mut answers = Writer::default();
        let served = self.serve(endpoint, win, &mut work, &mut answers);
        if !answers.is_empty()
            && let Err(error) = self.send(endpoint, win, work.rank, Kind::Answers, answers)
        {
            self.note_error(win, error);
        }
        match served {
            Served::Until(done, attempt) => Some(Stalled { done, attempt: Some(attempt), ..work }),
            Served::Whole => {
                if work.kind == Kind::Complete
                    && let Ok(window) = self.get_mut(win)
                {
                    *window.completes.entry(work.rank).or_default() += 1;
                }
                None
            }
        }
    }

    /// Work has to wait. Whoever gives the lock back is asked to say so; it may have been given back just before.
    fn stall(&mut self, endpoint: &mut Endpoint, win: WinId, stalled: Stalled) {
        let Ok(window) = self.get_mut(win) else { return };
        window.stalled.push_back(stalled);
        window.far_word(window.own_line()).store(1, SeqCst);
        self.retry(endpoint, win);
    }

    /// The lock may be free: goes on with what waits for it, in turn.
    pub(super) fn retry(&mut self, endpoint: &mut Endpoint, win: WinId) {
        let mut blocked: Vec<u32> = Vec::new();
        let mut at = 0;
        loop {
            let Ok(window) = self.get_mut(win) else { return };
            let Some(next) = window.stalled.get(at) else { break };
            if blocked.contains(&next.rank) {
                at += 1;
                continue;
            }
            let Some(next) = window.stalled.remove(at) else { break };
            let (rank, before) = (next.rank, next.done);
            if let Some(rest) = self.work(endpoint, win, next) {
                blocked.push(rank);
                let moved = rest.done != before;
                let Ok(window) = self.get_mut(win) else { return };
                window.stalled.insert(at, rest);
                // What it gave back others may have waited for.
                if moved {
                    (at, blocked) = (0, Vec::new());
                } else {
                    at += 1;
                }
            } else {
                (at, blocked) = (0, Vec::new());
            }
        }
        if let Ok(window) = self.get_mut(win)
            && window.stalled.is_empty()
        {
            window.far_word(window.own_line()).store(0, SeqCst);
        }
    }

    fn serve(
        &mut self,
        endpoint: &mut Endpoint,
        win: WinId,
        work: &mut Stalled,
        answers: &mut Writer,
    ) -> Served {
        let Ok(window) = self.get_mut(win) else { return Served::Whole };
        let all = work.bytes.len();
        let mut reader = Reader::new(&work.bytes[work.done..]);
        let mut attempt = work.attempt.take();
        while !reader.is_empty() {
            let here = all - reader.left();
            let Some(item) = reader.item() else { break };
            if let Item::Lock { exclusive } = item {
                let want = if exclusive { Want::Alone } else { Want::Shared };
                let mut trying = attempt.take().unwrap_or_else(|| Attempt::new(want));
                if !window.try_lock(window.own_line(), &mut trying) {
                    return Served::Until(here, trying);
                }
                // How it is held is remembered for when it is given back.
                window.held.insert(work.rank, exclusive);
                continue;
            }
            window.serve_item(endpoint, work.rank, item, answers);
        }
        Served::Whole
    }
}

impl Window {
    fn serve_item(&mut self, endpoint: &mut Endpoint, rank: u32, item: Item<'_>, answers: &mut Writer) {
        match item {
            Item::Lock { .. } => {}
            Item::Put { at, shape, data } => match span(&shape).and_then(|span| self.own(at, span)) {
                Some(base) => put(base, &shape, source_of(data).range(0, data.len())),
                None => answers.outside(NO_ANSWER),
            },
            Item::Get { id, at, shape } => match self.served(at, &shape) {
                Some(base) => {
                    let room = answer_room(answers, id, &shape);
                    get(base, &shape, target_of(room).range(0, shape.bytes() as usize));
                }
                None => answers.outside(id),
            },
            Item::Update { id, how, at, shape, data } => {
                let how = Combination::decode(how).filter(|how| how.fits(&shape));
                // Where nothing comes, nothing is combined.
                let how = how.filter(|how| (how.op == OpId::NO_OP) == data.is_empty());
                match (self.served(at, &shape), how.and_then(Combining::of)) {
                    (Some(base), Some(combining)) => {
                        let bytes = shape.bytes() as usize;
                        let before = (id != NO_ANSWER)
                            .then(|| target_of(answer_room(answers, id, &shape)).range(0, bytes));
                        let source = source_of(data).range(0, data.len());
                        combining.update(base, &shape, source, before, self.update_word(self.own_line()));
                    }
                    _ => answers.outside(id),
                }
            }
            Item::Swap { id, ty, at, expected, new } => {
                let width = expected.len();
                let how = Combination::decode(How { op: OpId::REPLACE.0, ty });
                let how = how.filter(|how| is_integer(how.scalar) && how.width() == width);
                match (self.own(at, (0, width as i64)), how.and_then(Combining::of)) {
                    (Some(base), Some(combining)) => {
                        let room = answer_room(answers, id, &Shape::Row(width as u64));
                        let source = |bytes: &[u8]| source_of(bytes).range(0, bytes.len());
                        let before = target_of(room).range(0, width);
                        let lock = self.update_word(self.own_line());
                        combining.swap(base, source(expected), source(new), before, lock);
                    }
                    _ => answers.outside(id),
                }
            }
            Item::Unlock { id } => {
                if let Some(alone) = self.held.remove(&rank) {
                    give_back(self.lock_word(self.own_line()), alone);
                }
                answers.done(id);
                self.freed = true;
            }
            Item::Flush { id } => answers.done(id),
            Item::Ask { id } => answers.place(id, self.lend(endpoint, rank)),
        }
    }

    /// The memory of an item whose bytes are copied once more: nobody asks for many at a time.
    fn served(&self, at: i64, shape: &Shape) -> Option<RecvBuf> {
        self.own(at, span(shape)?).filter(|_| shape.bytes() <= MESSAGE_BYTES as u64)
    }

    /// Where a peer finds this process's memory, if its connection can reach it.
    fn lend(&mut self, endpoint: &mut Endpoint, rank: u32) -> Option<[u64; 2]> {
        if self.bytes == 0 || self.flavor == super::WinFlavor::Dynamic {
            return None;
        }
        let to = self.process(rank);
        if let Some(loan) = self.loans.iter().find(|loan| endpoint.covers(loan, to)) {
            return Some(loan.place().to_words());
        }
        let memory = self.base.range(0, self.bytes as usize).as_source();
        let loan = endpoint.lend(to, memory)?;
        let words = loan.place().to_words();
        self.loans.push(loan);
        Some(words)
    }
}

/// Room for the bytes of an answer.
fn answer_room<'a>(answers: &'a mut Writer, id: u32, shape: &Shape) -> &'a mut [u8] {
    let bytes = shape.bytes() as usize;
    answers.data(id, bytes);
    let start = answers.0.len();
    answers.0.resize(start + bytes, 0);
    &mut answers.0[start..]
}
