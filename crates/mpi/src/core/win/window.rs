//! The windows of a process: what each is, and how its targets are reached. They own their state: whatever comes from other
//! processes is dealt with here, inside the endpoint's progress, without the engine.
use super::far::Far;
use super::route::{Address, To, post};
use super::serve::Stalled;
use super::{WinFlavor, WinId};
use crate::buffer::RecvBuf;
use crate::core::comm::Roster;
use crate::core::info::Pairs;
use crate::core::slots::{Birth, Slots};
use crate::core::{CommId, ErrhandlerId};
use crate::error::{ErrorClass, MpiError, Result, fail_with};
use net::{Active, Awaiting, Common, Endpoint, Loan, NetError, Peer, Process, ReqId};
use proto::rma::Policy;
use proto::rma::lock::Attempt;
use proto::rma::queue::Queue;
use proto::rma::server;
use proto::rma::wire::{HANDLER, Kind, Subject, Writer};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Of memory.
pub(super) const PAGE: usize = 4096;
/// Bytes of the words that belong to one process in memory that is shared: a line of the caches.
pub(super) const LINE: usize = 64;
/// The lock of [`proto::rma::lock`],
const LOCK_AT: usize = 0;
/// that of [`super::memory`],
const UPDATE_AT: usize = 8;
/// whether others wait for the first who have no part in the memory,
const FAR_AT: usize = 16;
/// whether it may sleep until somebody tells it something,
const SLEEPS_AT: usize = 24;
/// and whether somebody waits for the first in the data server of the node.
const SERVER_AT: usize = 32;

/// What a process of the host tells another by a number there that it alone changes: how often it has said so. Who reads it
/// writes nothing, so that a word costs two ways between the processors' caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Its memory is exposed.
    Post,
    /// It is done with the other's memory.
    Complete,
}

/// How many there are.
const WORDS: usize = 2;

/// The words of a line, by their distance from its beginning: for who has the memory mapped, but is none of its processes.
pub(super) fn words_of(common: &Common, line: u32) -> [&AtomicU64; 4] {
    [LOCK_AT, UPDATE_AT, FAR_AT, SERVER_AT].map(|at| common.word(line as usize * LINE + at))
}

/// The lines of so many processes, and behind them what each is told by each.
pub(super) fn lines_bytes(near: usize) -> usize {
    near * (LINE + told_bytes(near))
}

/// Pieces of memory of a dynamic window that a process tells its host of, each by its address and its length. Others are
/// reached by messages.
const PUBLISHED: usize = 64;
const PIECE: usize = 2 * size_of::<u64>();
/// What they take for one process, behind [`lines_bytes`] in whole pages.
pub(super) const PUBLISHED_BYTES: usize = PUBLISHED * PIECE;

fn told_bytes(near: usize) -> usize {
    (near * WORDS * size_of::<u64>()).next_multiple_of(LINE)
}

/// So many synchronizations that cost nothing come to a look for messages, which costs as much as several of them.
const IDLE_ROUNDS: u32 = 16;

/// The windows of a process, and what came for them while they were in use.
#[derive(Default)]
pub(in crate::core) struct Hall {
    pub(in crate::core) windows: RefCell<Windows>,
    inbox: RefCell<VecDeque<(Peer, Active)>>,
    /// Are there operations with requests that may end only when somebody looks?
    looks: Cell<bool>,
    /// How often it was heard that somebody is lost, when that was last looked at.
    losses: Cell<u64>,
    /// Who is waited for, for who hears that this process waits.
    pub(in crate::core) awaits: Cell<Option<Awaits>>,
}

/// Who is waited for at a window, and what they are to do.
#[derive(Clone, Copy)]
pub(in crate::core) struct Awaits {
    /// The process whose memory it is, or who serves it.
    pub(super) peer: Peer,
    pub(super) what: &'static str,
    /// The window, by its number, and whose memory it is.
    pub(in crate::core) win: u32,
    pub(in crate::core) target: Process,
    pub(in crate::core) lock: WaitsForLock,
}

/// Is it the lock of that memory that is waited for?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::core) enum WaitsForLock {
    No,
    /// It was asked for together with other things.
    Perhaps,
    Surely,
}

impl Hall {
    /// Has messages for windows dealt with here.
    pub(super) fn open(self: &Rc<Self>, endpoint: &mut Endpoint) {
        let hall = self.clone();
        let handler: net::Handler = Rc::new(move |endpoint, from, active| {
            hall.inbox.borrow_mut().push_back((from, active));
            hall.serve(endpoint);
        });
        endpoint.set_handler(HANDLER, Some(handler.clone()));
        endpoint.set_handler(server::HANDLER, Some(handler));
        let hall = self.clone();
        endpoint.set_awaiting(Awaiting(Rc::new(move || {
            hall.awaits.get().map(|awaited| (awaited.peer, awaited.what))
        })));
    }

    /// Deals with what has come, unless somebody is about to.
    pub(super) fn serve(&self, endpoint: &mut Endpoint) {
        while let Ok(mut windows) = self.windows.try_borrow_mut() {
            let Some((from, active)) = self.inbox.borrow_mut().pop_front() else { return };
            windows.receive(endpoint, from, active);
        }
    }

    /// Somebody waits for an operation without a synchronization.
    pub(super) fn expect_looks(&self) {
        self.looks.set(true);
    }

    /// Looks for the ends of operations that requests wait for.
    #[inline]
    pub(in crate::core) fn look(&self, endpoint: &mut Endpoint) {
        if endpoint.losses() != self.losses.get() {
            self.look_for_lost(endpoint);
        }
        if self.looks.get()
            && let Ok(mut windows) = self.windows.try_borrow_mut()
        {
            self.looks.set(windows.move_on(endpoint));
        }
    }

    /// Somebody is lost: who is a target answers no more, and locks are given back that they have here.
    #[cold]
    fn look_for_lost(&self, endpoint: &mut Endpoint) {
        self.serve(endpoint); // what the lost have asked for before
        if let Ok(mut windows) = self.windows.try_borrow_mut() {
            self.losses.set(endpoint.losses());
            windows.abandon_lost(endpoint);
            windows.free_lost(endpoint);
        }
    }

    #[inline]
    pub(super) fn has_news(&self) -> bool {
        !self.inbox.borrow().is_empty()
    }

    /// Notes from now on which calls make windows.
    pub(in crate::core) fn note_births(&self) {
        self.windows.borrow_mut().list.note_births();
    }

    /// The windows that are there, each with its own communicator.
    pub(in crate::core) fn left(&self) -> Vec<(Birth, CommId)> {
        let windows = self.windows.borrow();
        windows.list.iter().map(|(number, window)| (windows.list.birth(number), window.comm)).collect()
    }
}

/// The windows of a process.
pub(in crate::core) struct Windows {
    pub(super) list: Slots<Box<Window>>,
    /// By the number that all their processes know.
    pub(super) by_number: BTreeMap<u32, WinId>,
    /// What this process waits for from targets.
    pub(super) answers: Slots<super::far::Answer>,
    /// Windows in which this process has locks, or waits for them.
    pub(super) locked: u32,
    /// Messages that the endpoint still reads.
    pub(super) sending: Vec<(ReqId, Vec<u8>)>,
}

impl Default for Windows {
    fn default() -> Self {
        Windows {
            list: Slots::new(),
            by_number: BTreeMap::new(),
            answers: Slots::new(),
            locked: 0,
            sending: Vec::new(),
        }
    }
}

/// One window.
pub(super) struct Window {
    /// For this window alone.
    pub(super) comm: CommId,
    pub(super) roster: Rc<Roster>,
    pub(super) number: u32,
    pub(super) flavor: WinFlavor,
    /// This process's memory, which others reach.
    pub(super) base: RecvBuf,
    pub(super) bytes: u64,
    pub(super) unit: i64,
    /// Memory of the program that a dynamic window has: address and length.
    pub(super) attached: BTreeMap<u64, (RecvBuf, u64)>,
    /// How many pieces without bytes it has at an address.
    pub(super) attached_empty: BTreeMap<u64, u32>,
    /// What the processes of this host share.
    pub(super) common: Option<Common>,
    /// How often each of these has said something that this process knows of.
    pub(super) heard: Vec<[u64; WORDS]>,
    pub(super) targets: Vec<Target>,
    /// Is the memory of some of them reached by messages, so that messages come for this process's?
    pub(super) has_far: bool,
    /// Synchronizations that had nothing to wait for.
    pub(super) idle_rounds: u32,
    pub(super) access: Access,
    /// Who may access this process's memory until they say that they are done.
    pub(super) exposed_to: Option<Rc<[u32]>>,
    /// From whom such words have come: that memory is exposed, and that somebody is done.
    pub(super) posts: BTreeMap<u32, u32>,
    pub(super) completes: BTreeMap<u32, u32>,
    /// Targets that are sent messages.
    pub(super) far: BTreeMap<u32, Far>,
    /// What came before this process knew its own memory: others were faster.
    pub(super) early: Option<Vec<(Peer, Active)>>,
    /// What others want done and what waits for the lock.
    pub(super) stalled: Queue<u32, Stalled>,
    /// Who has the lock that has asked for it by message, and whether alone.
    pub(super) held: BTreeMap<u32, bool>,
    /// Has one of them given it back?
    pub(super) freed: bool,
    /// Has this process had its data server map the memory of its node?
    pub(super) registration: Registration,
    /// This process's memory, lent to peers who reach it without its help, by provider.
    pub(super) loans: Vec<Loan>,
    pub(super) policy: Policy,
    /// What went wrong at a target, to be told at the next synchronization.
    pub(super) error: Option<MpiError>,
    /// It was freed, and an error is to be told before it goes.
    pub(super) over: bool,
    pub(super) name: String,
    pub(super) errhandler: ErrhandlerId,
    pub(super) info: Pairs,
}

/// What this process may do to targets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Access {
    Nothing,
    /// Anything, until the next fence.
    Fence,
    /// To these.
    Started(Rc<[u32]>),
    /// To so many that are locked.
    Locked(u32),
    /// Anything. The locks of this host are had of the ranks below this one; others are asked for with the first operation.
    LockedAll {
        checked: bool,
        had: u32,
    },
}

impl Access {
    /// By locks?
    pub(super) fn is_locked(&self) -> bool {
        matches!(self, Access::Locked(_) | Access::LockedAll { checked: true, .. })
    }
}

/// The memory of a node at its data server, for the process that has made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registration {
    /// Not this process's business, or there is no server.
    None,
    /// It was asked for.
    Asked,
    /// The server has answered: with its number for it, if it has mapped it.
    Answered(u32),
}

/// A process of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) bytes: u64,
    pub(super) unit: i64,
    pub(super) reach: Reach,
    /// Its line of the memory that is shared, if it is of this host.
    pub(super) line: Option<u32>,
    /// The number by which the data server of its node knows the memory, if it has it.
    pub(super) room: u32,
    pub(super) state: State,
}

/// How a target's memory is reached.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach {
    /// It is mapped here.
    Mapped(RecvBuf),
    /// The kernel copies to and from that address of a process, if it lets this one.
    Process { id: NonZeroU32, at: u64 },
    /// By messages.
    Far,
}

/// May it be accessed, where that is a matter of each target?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Nothing,
    /// Its lock is waited for.
    Waiting,
    Started,
    Shared,
    Alone,
    /// The program has promised that nobody else does.
    Unchecked,
}

impl State {
    #[inline(always)]
    pub(super) fn is_open(self) -> bool {
        !matches!(self, State::Nothing | State::Waiting)
    }
}

impl Windows {
    #[inline]
    pub(super) fn get(&self, win: WinId) -> Result<&Window> {
        match self.list.get(win.0) {
            Some(window) => Ok(window),
            None => no_window(win),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, win: WinId) -> Result<&mut Window> {
        match self.list.get_mut(win.0) {
            Some(window) => Ok(window),
            None => no_window(win),
        }
    }

    /// Sends a message about a window to a rank.
    pub(super) fn send(
        &mut self,
        endpoint: &mut Endpoint,
        win: WinId,
        rank: u32,
        kind: Kind,
        message: Writer,
    ) -> Result<()> {
        let window = self.get(win)?;
        let to = To::Rank(window.process(rank));
        let at = to.address(window, rank, kind);
        self.post(endpoint, to, at, message)
    }

    /// Sends a message.
    pub(super) fn post(
        &mut self,
        endpoint: &mut Endpoint,
        to: impl net::Addressee,
        at: Address,
        message: Writer,
    ) -> Result<()> {
        self.reap(endpoint);
        let sent = post(endpoint, to, at, &message.0)?;
        if let Some(id) = sent {
            self.sending.push((id, message.0));
        }
        Ok(())
    }

    /// The locks that this process holds, at most so many: the window's number, and whose memory it is.
    pub(in crate::core) fn held_locks(&self, most: usize) -> Vec<(u32, Process)> {
        let windows = || self.list.iter().map(|(_, window)| &**window);
        let one_by_one = windows().filter(|window| matches!(window.access, Access::Locked(_)));
        // Of these there may be more than there is room for.
        let of_all =
            windows().filter(|window| matches!(window.access, Access::LockedAll { checked: true, .. }));
        let held = |window| Window::held(window).map(|rank| (window.number, window.process(rank)));
        one_by_one.chain(of_all).flat_map(held).take(most).collect()
    }

    /// Forgets messages that have gone.
    pub(super) fn reap(&mut self, endpoint: &mut Endpoint) {
        self.sending.retain(|(id, _)| endpoint.take(*id).is_none());
    }
}

#[cold]
fn no_window<T>(win: WinId) -> Result<T> {
    fail_with(ErrorClass::Win, || format!("there is no window {}", win.0))
}

impl Window {
    /// Why nothing more comes of a rank, or of the server that does what it is asked for, if that is so.
    pub(super) fn loss_of(&self, endpoint: &Endpoint, rank: u32) -> Option<NetError> {
        if !endpoint.has_losses() {
            return None;
        }
        endpoint.loss_of_job(self.process(rank)).or_else(|| match self.to(endpoint, rank) {
            To::Server { peer, .. } => endpoint.loss_of_peer(peer),
            To::Rank(process) => endpoint.loss_of_peer(process),
        })
    }

    /// One that is being made.
    pub(super) fn new(roster: Rc<Roster>, flavor: WinFlavor, bytes: u64, unit: i64) -> Self {
        Window {
            comm: CommId::SELF,
            roster,
            number: 0,
            flavor,
            base: RecvBuf::NONE,
            bytes,
            unit,
            attached: BTreeMap::new(),
            attached_empty: BTreeMap::new(),
            common: None,
            heard: Vec::new(),
            targets: Vec::new(),
            has_far: false,
            idle_rounds: 0,
            access: Access::Nothing,
            exposed_to: None,
            posts: BTreeMap::new(),
            completes: BTreeMap::new(),
            far: BTreeMap::new(),
            early: Some(Vec::new()),
            stalled: Queue::default(),
            held: BTreeMap::new(),
            freed: false,
            registration: Registration::None,
            loans: Vec::new(),
            policy: Policy::default(),
            error: None,
            over: false,
            name: String::new(),
            errhandler: ErrhandlerId::FATAL,
            info: Pairs::new(),
        }
    }

    /// This process's rank.
    pub(super) fn rank(&self) -> u32 {
        self.roster.rank
    }

    /// Who does for a rank of another node what is asked of it.
    pub(super) fn to(&self, endpoint: &Endpoint, rank: u32) -> To {
        let process = self.process(rank);
        let is_own_job = process.0 < endpoint.size();
        match server::way(self.targets[rank as usize].room, is_own_job) {
            server::Way::Server(room) => To::Server { peer: endpoint.server_of(net::Rank(process.0)), room },
            server::Way::Rank => To::Rank(process),
        }
    }

    /// The argument of a message to others.
    pub(super) fn subject(&self, kind: Kind) -> u64 {
        Subject { window: self.number, rank: self.rank(), kind }.encode()
    }

    /// A rank, checked.
    #[inline]
    pub(super) fn checked(&self, rank: i32) -> Result<u32> {
        if (rank as u32) < self.roster.size {
            return Ok(rank as u32);
        }
        fail_with(ErrorClass::Rank, || format!("rank {rank} in a window of {} processes", self.roster.size))
    }

    /// The target of an operation, if it may be accessed now.
    #[inline]
    pub(super) fn target(&self, rank: i32) -> Result<(u32, &Target)> {
        let rank = self.checked(rank)?;
        let target = &self.targets[rank as usize];
        if self.is_open(target) { Ok((rank, target)) } else { self.not_now(rank) }
    }

    /// May a target be accessed now?
    #[inline(always)]
    pub(super) fn is_open(&self, target: &Target) -> bool {
        match &self.access {
            Access::Fence | Access::LockedAll { .. } => true,
            Access::Nothing => false,
            Access::Started(_) | Access::Locked(_) => target.state.is_open(),
        }
    }

    /// Is it locked, so that it can be flushed?
    #[inline(always)]
    pub(super) fn is_locked(&self, target: &Target) -> bool {
        matches!(self.access, Access::Locked(_) | Access::LockedAll { .. }) && self.is_open(target)
    }

    #[cold]
    fn not_now<T>(&self, rank: u32) -> Result<T> {
        let why = match &self.access {
            Access::Started(_) => "it is not in the group that MPI_Win_start was given",
            Access::Locked(_) => "it is not locked",
            _ => "MPI_Win_fence, _start, _lock or _lock_all has to be called first",
        };
        fail_with(ErrorClass::RmaSync, || format!("an operation on rank {rank}: {why}"))
    }

    fn word(&self, line: u32, at: usize) -> &AtomicU64 {
        let common = self.common.as_ref().expect("a window that is made has its words");
        common.word(line as usize * LINE + at)
    }

    /// Address and length of a piece of memory that a process of this host has told of.
    fn piece(&self, line: u32, index: usize) -> [&AtomicU64; 2] {
        let common = self.common.as_ref().expect("a window that is made has its words");
        let first = lines_bytes(self.heard.len()).next_multiple_of(PAGE);
        let at = first + line as usize * PUBLISHED_BYTES + index * PIECE;
        [common.word(at), common.word(at + size_of::<u64>())]
    }

    /// Tells the processes of this host of a piece of this one's memory, if there is room.
    pub(super) fn publish(&self, at: u64, bytes: u64) {
        let line = self.own_line();
        let mut pieces = (0..PUBLISHED).map(|index| self.piece(line, index));
        if let Some([start, len]) = pieces.find(|[_, len]| len.load(Relaxed) == 0) {
            start.store(at, Relaxed);
            len.store(bytes, SeqCst);
        }
    }

    /// It is no longer there.
    pub(super) fn withdraw(&self, at: u64) {
        let line = self.own_line();
        let here = |[start, len]: &[&AtomicU64; 2]| start.load(Relaxed) == at && len.load(Relaxed) > 0;
        if let Some([_, len]) = (0..PUBLISHED).map(|index| self.piece(line, index)).find(here) {
            len.store(0, SeqCst);
        }
    }

    /// Has a process of this host told of memory that holds these addresses?
    pub(super) fn is_published(&self, line: u32, (low, high): (u64, u64)) -> bool {
        (0..PUBLISHED).map(|index| self.piece(line, index)).any(|[start, len]| {
            let (bytes, start) = (len.load(Acquire), start.load(Relaxed));
            start <= low && high.checked_sub(start).is_some_and(|end| end <= bytes)
        })
    }

    /// The lock of a process of this host.
    pub(super) fn lock_word(&self, line: u32) -> &AtomicU64 {
        self.word(line, LOCK_AT)
    }

    /// The lock under which elements of its memory are combined.
    pub(super) fn update_word(&self, line: u32) -> &AtomicU64 {
        self.word(line, UPDATE_AT)
    }

    /// Does anybody wait for its lock who is told by its process?
    pub(super) fn far_word(&self, line: u32) -> &AtomicU64 {
        self.word(line, FAR_AT)
    }

    /// Does anybody wait for its lock in the data server of the node?
    pub(super) fn server_word(&self, line: u32) -> &AtomicU64 {
        self.word(line, SERVER_AT)
    }

    /// How often one process has told another something, by their lines.
    fn told(&self, at: u32, word: Word, of: u32) -> &AtomicU64 {
        let (common, near) = (self.common.as_ref(), self.heard.len());
        let row = near * LINE + at as usize * told_bytes(near);
        let common = common.expect("a window that is made has its words");
        common.word(row + (of as usize * WORDS + word as usize) * size_of::<u64>())
    }

    /// Tells another process something, which then sees what was stored before. Is it to be woken, since it may sleep?
    pub(super) fn tell(&self, at: u32, word: Word) -> bool {
        self.told(at, word, self.own_line()).fetch_add(1, SeqCst);
        self.word(at, SLEEPS_AT).load(SeqCst) != 0
    }

    /// Has another process said something that was not heard yet?
    pub(super) fn is_told(&self, word: Word, of: u32) -> bool {
        self.told(self.own_line(), word, of).load(Acquire) != self.heard[of as usize][word as usize]
    }

    /// Hears it, if it has.
    pub(super) fn hear(&mut self, word: Word, of: u32) -> bool {
        let is_told = self.is_told(word, of);
        self.heard[of as usize][word as usize] += u64::from(is_told);
        is_told
    }

    /// From now on this process may sleep until it is told something: who does so wakes it. To be said before a last look.
    pub(super) fn falls_asleep(&self) {
        self.word(self.own_line(), SLEEPS_AT).fetch_add(1, SeqCst);
    }

    /// It looks by itself again.
    pub(super) fn is_awake(&self) {
        self.word(self.own_line(), SLEEPS_AT).fetch_sub(1, SeqCst);
    }

    /// A synchronization has nothing to wait for. Is it time to look for messages all the same? A program may wait in a loop of
    /// these for what others do to its memory.
    #[inline]
    pub(super) fn looks_around(&mut self) -> bool {
        self.idle_rounds = self.idle_rounds.wrapping_add(1);
        self.has_far || self.idle_rounds.is_multiple_of(IDLE_ROUNDS)
    }

    /// This process's own line.
    pub(super) fn own_line(&self) -> u32 {
        self.targets[self.rank() as usize].line.expect("a process is of its own host")
    }

    /// Who is at a rank.
    pub(super) fn process(&self, rank: u32) -> Process {
        self.roster.members.at(rank)
    }

    /// Takes the lock of a process of this host, if it can be had now.
    pub(super) fn try_lock(&self, line: u32, attempt: &mut Attempt) -> bool {
        attempt.take(self.lock_word(line))
    }

    /// This process's memory, at a distance that a message names: `None` if so many bytes are not there.
    pub(super) fn own(&self, at: i64, span: (i64, i64)) -> Option<RecvBuf> {
        let (low, high) = (at.checked_add(span.0)?, at.checked_add(span.1)?);
        if self.flavor != WinFlavor::Dynamic {
            let inside = low >= 0 && high as u64 <= self.bytes || span.0 == span.1;
            return inside.then(|| self.base.shifted(at as isize));
        }
        if span.0 == span.1 {
            return Some(RecvBuf::NONE);
        }
        // Displacements of dynamic windows are addresses. Pieces that lie side by side are as one.
        let (start, (base, bytes)) = self.attached.range(..=low as u64).next_back()?;
        let mut end = start.checked_add(*bytes)?;
        while end < high as u64 {
            end = end.checked_add(self.attached.get(&end)?.1).filter(|further| *further > end)?;
        }
        (low >= 0 && low as u64 <= end).then(|| base.shifted((at as u64).wrapping_sub(*start) as isize))
    }
}
