//! The target's side: what others ask for by message, in the order in which each of them does. Whoever asks for a lock that is
//! not free waits, with everything that came behind it.
use super::WinId;
use super::far::{Far, Lock};
use super::memory::{Combination, Combining, get, is_integer, put, span};
use super::window::{Access, Registration, Window, Windows};
use crate::buffer::{RecvBuf, source_of, target_of};
use crate::core::OpId;
use net::{Active, Endpoint, Peer};
use proto::rma::MESSAGE_BYTES;
use proto::rma::lock::{Attempt, Want, give_back};
use proto::rma::queue::Round;
use proto::rma::server;
use proto::rma::wire::{How, Item, Kind, NO_ANSWER, Reader, Shape, Subject, Writer};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// Work that waits for the lock of a process's memory, or behind such work of the same process.
pub(super) struct Stalled {
    pub(super) kind: Kind,
    pub(super) bytes: Box<[u8]>,
    /// How much of it is done.
    pub(super) done: usize,
    pub(super) attempt: Option<Attempt>,
}

impl Stalled {
    /// All of it is to be done.
    pub(super) fn new(kind: Kind, bytes: Box<[u8]>) -> Self {
        Stalled { kind, bytes, done: 0, attempt: None }
    }
}

/// How far a message is.
pub(super) enum Served {
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
                Access::LockedAll { checked: true, .. } if !is_near => Lock::Wanted(Want::SharedNow),
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
        if kind == Kind::Registered {
            if Some(from) == endpoint.own_server() && window.registration == Registration::Asked {
                let room = server::room_of(&active.bytes).unwrap_or(server::UNSERVED);
                window.registration = Registration::Answered(room);
            }
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
                let stalled = Stalled::new(kind, active.bytes);
                if window.stalled.has(rank) {
                    return window.stalled.push(rank, stalled);
                }
                if let Some(stalled) = self.work(endpoint, (win, rank), stalled) {
                    self.stall(endpoint, (win, rank), stalled);
                }
                self.after_work(endpoint, win);
            }
            Kind::Answers => self.take_answers(endpoint, (win, rank), &active.bytes),
            Kind::Nudge => {
                self.retry(endpoint, win);
                self.after_work(endpoint, win);
            }
            // Only servers are told these.
            Kind::Register | Kind::Registered | Kind::Forget => {}
        }
    }

    /// A lock may have been given back, for which others wait, here or in the server of the node.
    fn after_work(&mut self, endpoint: &mut Endpoint, win: WinId) {
        let Ok(window) = self.get_mut(win) else { return };
        if !std::mem::take(&mut window.freed) {
            return;
        }
        let (rank, line) = (window.rank(), window.own_line());
        let in_server = window.server_word(line).load(SeqCst) != 0;
        if !window.stalled.is_empty() {
            self.retry(endpoint, win);
        }
        if in_server && let Err(error) = self.nudge_server(endpoint, win, rank) {
            self.note_error(win, error);
        }
    }

    /// Does what a message asks for. What is left, if it has to wait for the lock, is given back.
    fn work(
        &mut self,
        endpoint: &mut Endpoint,
        (win, rank): (WinId, u32),
        mut work: Stalled,
    ) -> Option<Stalled> {
        let mut answers = Writer::default();
        let window = self.get_mut(win).ok()?;
        let served = serve(&mut Own { window, rank }, endpoint, &mut work, &mut answers);
        if !answers.is_empty()
            && let Err(error) = self.send(endpoint, win, rank, Kind::Answers, answers)
        {
            self.note_error(win, error);
        }
        match served {
            Served::Until(done, attempt) => Some(Stalled { done, attempt: Some(attempt), ..work }),
            Served::Whole => {
                if work.kind == Kind::Complete
                    && let Ok(window) = self.get_mut(win)
                {
                    *window.completes.entry(rank).or_default() += 1;
                }
                None
            }
        }
    }

    /// Work has to wait. Whoever gives the lock back is asked to say so; it may have been given back just before.
    fn stall(&mut self, endpoint: &mut Endpoint, (win, rank): (WinId, u32), stalled: Stalled) {
        let Ok(window) = self.get_mut(win) else { return };
        window.stalled.push(rank, stalled);
        window.far_word(window.own_line()).store(1, SeqCst);
        self.retry(endpoint, win);
    }

    /// Locks of memory here that those who are lost have by message are given back, and what they asked for is not done.
    pub(super) fn free_lost(&mut self, endpoint: &mut Endpoint) {
        let wins: Vec<WinId> = self.list.iter().map(|(win, _)| WinId(win)).collect();
        for win in wins {
            let Ok(window) = self.get_mut(win) else { continue };
            let is_here = |rank: &u32| window.held.contains_key(rank) || window.stalled.has(*rank);
            // (Not its job's: that may have lost another one, and go on.)
            let is_lost = |rank: &u32| endpoint.loss_of_peer(window.process(*rank)).is_some();
            let lost: Vec<u32> =
                (0..window.roster.size).filter(|rank| is_here(rank) && is_lost(rank)).collect();
            for rank in lost {
                let attempts = window.stalled.forget(rank).into_iter().filter_map(|work| work.attempt);
                let word = window.lock_word(window.own_line());
                attempts.for_each(|mut attempt| attempt.give_up(word));
                Own { window, rank }.unlock();
            }
            self.after_work(endpoint, win);
        }
    }

    /// The lock may be free: goes on with what waits for it, in turn.
    pub(super) fn retry(&mut self, endpoint: &mut Endpoint, win: WinId) {
        let mut round = Round::default();
        loop {
            let Ok(window) = self.get_mut(win) else { return };
            let Some((rank, next)) = window.stalled.next(&mut round) else { break };
            let before = next.done;
            let rest = self.work(endpoint, (win, rank), next);
            let Ok(window) = self.get_mut(win) else { return };
            match rest {
                Some(rest) => {
                    let moved = rest.done != before;
                    window.stalled.stays(&mut round, rank, rest, moved);
                }
                None => window.stalled.gone(&mut round),
            }
        }
        if let Ok(window) = self.get_mut(win)
            && window.stalled.is_empty()
        {
            window.far_word(window.own_line()).store(0, SeqCst);
        }
    }
}

/// Memory of a rank that others ask for: that rank's own, or what the data server of its node has mapped, for one asker.
pub(super) trait Exposed {
    /// The memory at a distance that a message names: `None` if so many bytes are not there.
    fn memory(&self, at: i64, span: (i64, i64)) -> Option<RecvBuf>;
    /// The lock under which elements are combined.
    fn update_word(&self) -> &AtomicU64;
    /// Tries to take the lock of the memory for the asker.
    fn lock(&mut self, attempt: &mut Attempt) -> bool;
    /// The asker gives the lock back, if it has it.
    fn unlock(&mut self);
    /// Where the asker finds the memory, if its connection can reach it.
    fn lend(&mut self, endpoint: &mut Endpoint) -> Option<[u64; 2]>;
    /// A word of a rank of the window for the rank whose memory it is.
    fn tell(&mut self, endpoint: &mut Endpoint, kind: Kind, rank: u32);
}

/// Does what is left of a message.
pub(super) fn serve(
    exposed: &mut impl Exposed,
    endpoint: &mut Endpoint,
    work: &mut Stalled,
    answers: &mut Writer,
) -> Served {
    let all = work.bytes.len();
    let mut reader = Reader::new(&work.bytes[work.done..]);
    let mut attempt = work.attempt.take();
    while !reader.is_empty() {
        let here = all - reader.left();
        let Some(item) = reader.item() else {
            // Where the next one would begin is not known. Who asked hears of it, and waits for no more answers.
            answers.unread(all - here);
            break;
        };
        if let Item::Lock { want } = item {
            let mut trying = attempt.take().unwrap_or_else(|| Attempt::new(want));
            if !exposed.lock(&mut trying) {
                return Served::Until(here, trying);
            }
            continue;
        }
        serve_item(exposed, endpoint, item, answers);
    }
    Served::Whole
}

/// A window's own memory, for a rank of it.
struct Own<'w> {
    window: &'w mut Window,
    rank: u32,
}

impl Exposed for Own<'_> {
    fn memory(&self, at: i64, span: (i64, i64)) -> Option<RecvBuf> {
        self.window.own(at, span)
    }

    fn update_word(&self) -> &AtomicU64 {
        self.window.update_word(self.window.own_line())
    }

    fn lock(&mut self, attempt: &mut Attempt) -> bool {
        let had = self.window.try_lock(self.window.own_line(), attempt);
        if had {
            // How it is held is remembered for when it is given back.
            self.window.held.insert(self.rank, attempt.want == Want::Alone);
        }
        had
    }

    fn unlock(&mut self) {
        if let Some(alone) = self.window.held.remove(&self.rank) {
            give_back(self.window.lock_word(self.window.own_line()), alone);
        }
        self.window.freed = true;
    }

    fn lend(&mut self, endpoint: &mut Endpoint) -> Option<[u64; 2]> {
        self.window.lend(endpoint, self.rank)
    }

    /// Words for this rank do not come as items.
    fn tell(&mut self, _: &mut Endpoint, _: Kind, _: u32) {}
}

fn serve_item(exposed: &mut impl Exposed, endpoint: &mut Endpoint, item: Item<'_>, answers: &mut Writer) {
    match item {
        Item::Lock { .. } => {}
        Item::Put { at, shape, data } => match span(&shape).and_then(|span| exposed.memory(at, span)) {
            Some(base) => put(base, &shape, source_of(data).range(0, data.len())),
            None => answers.outside(NO_ANSWER),
        },
        Item::Get { id, at, shape } => match bounded(exposed, at, &shape) {
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
            match (bounded(exposed, at, &shape), how.and_then(Combining::of)) {
                (Some(base), Some(combining)) => {
                    let bytes = shape.bytes() as usize;
                    let before = (id != NO_ANSWER)
                        .then(|| target_of(answer_room(answers, id, &shape)).range(0, bytes));
                    let source = source_of(data).range(0, data.len());
                    combining.update(base, &shape, source, before, exposed.update_word());
                }
                _ => answers.outside(id),
            }
        }
        Item::Swap { id, ty, at, expected, new } => {
            let width = expected.len();
            let how = Combination::decode(How { op: OpId::REPLACE.0, ty });
            let how = how.filter(|how| is_integer(how.scalar) && how.width() == width);
            match (exposed.memory(at, (0, width as i64)), how.and_then(Combining::of)) {
                (Some(base), Some(combining)) => {
                    let room = answer_room(answers, id, &Shape::Row(width as u64));
                    let source = |bytes: &[u8]| source_of(bytes).range(0, bytes.len());
                    let before = target_of(room).range(0, width);
                    combining.swap(base, source(expected), source(new), before, exposed.update_word());
                }
                _ => answers.outside(id),
            }
        }
        Item::Unlock { id } => {
            exposed.unlock();
            answers.done(id);
        }
        Item::Flush { id } => answers.done(id),
        Item::Ask { id } => answers.place(id, exposed.lend(endpoint)),
        Item::Tell { kind, rank } => exposed.tell(endpoint, kind, rank),
    }
}

/// The memory of an item whose bytes are copied once more: nobody asks for many at a time.
fn bounded(exposed: &impl Exposed, at: i64, shape: &Shape) -> Option<RecvBuf> {
    exposed.memory(at, span(shape)?).filter(|_| shape.bytes() <= MESSAGE_BYTES as u64)
}

impl Window {
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
