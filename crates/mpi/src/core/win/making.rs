//! How a window comes about, and how it goes.
//!
//! ```text
//! a communicator of its own; everybody's facts; memory of each host, made by one of its processes and mapped by the others, and
//! by the node's data server, where there is one; whether all of them could
//! ```
use super::route::{Address, post};
use super::window::{
    Hall, LINE, PAGE, PUBLISHED_BYTES, Reach, Registration, State, Target, Window, lines_bytes,
};
use super::{NewWindow, Stage, Synchronizing, WinFlavor, WinId};
use crate::buffer::{RecvBuf, Scratch};
use crate::core::data::Data;
use crate::core::*;
use crate::error::{ErrorClass, Result, fail, fail_with};
use net::{COMMON_WORDS, Common, Rank};
use proto::coll::token::{Meant, Reach as TokenReach, Token};
use proto::rma::Policy;
use proto::rma::server::{self, Mate, Record};
use proto::rma::wire::{Kind, Subject};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;

/// Words that each process tells of itself: bytes, displacement unit, address, and where it is for others of its host.
const FACTS: usize = 6;
/// Words that each process tells in the end: could it map the memory of its node, and the number that the node's data server has
/// for it, from who has made it.
const VERDICT: usize = 2;
/// Where memory is found that a process has made; zeros if it has made none.
const PLACE: usize = COMMON_WORDS;
const WORD: usize = size_of::<u64>();
const MEMORY_NAME: &str = "banyan-window";

/// A window that is being made.
pub(super) struct Making {
    new: NewWindow,
    step: Step,
    own: Scratch,
    all: Scratch,
    /// The ranks of this host, and where their memory begins in what they share.
    mates: Vec<(u32, usize)>,
    bytes: usize,
    noncontiguous: bool,
    could: bool,
}

enum Step {
    Duplicating(Made),
    Facts(RequestId),
    Places(RequestId),
    /// The data server of the node is to map the memory.
    Registering,
    Verdicts(RequestId),
}

/// A window that goes.
#[derive(Debug)]
pub(super) struct Freeing {
    /// Ranks that have not said yet whether they have refused something.
    unheard: Vec<u32>,
    /// Behind that: everybody has come so far.
    barrier: Option<RequestId>,
}

impl Mpi {
    /// Collective over `comm`, of which the window keeps a copy. It can be used when this has ended.
    pub fn win_make(&mut self, comm: CommId, new: NewWindow) -> Result<(WinId, Synchronizing)> {
        self.one_group(comm, "a window")?;
        if new.bytes < 0 {
            return fail_with(ErrorClass::Size, || format!("a window of {} bytes", new.bytes));
        }
        if new.disp_unit <= 0 {
            return fail_with(ErrorClass::Disp, || format!("displacement unit {}", new.disp_unit));
        }
        let info = new.info.map(|info| registry().info_pairs(info)).transpose()?.unwrap_or_default();
        let value = |key: &str| info.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str());
        let noncontiguous = value("alloc_shared_noncontig") == Some("true");
        let policy = value("banyan_rma").and_then(Policy::parse).unwrap_or(self.rma);
        if new.flavor == WinFlavor::Shared {
            self.check_one_node(comm)?;
        }
        self.hall.open(&mut self.endpoint);
        let made = self.start_dup(comm, Meanwhile::GoesOn)?;
        let roster = self.comm(comm)?.roster.clone();
        let mut window = Window::new(roster, new.flavor, new.bytes as u64, new.disp_unit);
        (window.policy, window.info) = (policy, info);
        let win = WinId(self.hall.windows.borrow_mut().list.insert(Box::new(window)));
        let making = Making {
            new,
            step: Step::Duplicating(made),
            own: Scratch::with(FACTS * WORD),
            all: Scratch::default(),
            mates: Vec::new(),
            bytes: 0,
            noncontiguous,
            could: true,
        };
        Ok((win, Synchronizing::new(win, Stage::Making(Box::new(making)))))
    }

    /// Memory is shared inside a node only.
    fn check_one_node(&self, comm: CommId) -> Result<()> {
        let roster = &self.comm(comm)?.roster;
        let mine = self.endpoint.node_of(self.endpoint.rank());
        let is_here = |rank: u32| self.shares_node(roster.members.at(rank)) == Some(mine);
        if (0..roster.size).all(is_here) {
            return Ok(());
        }
        fail(
            ErrorClass::RmaShared,
            "the processes of the communicator are not all on one node (MPI_Comm_split_type)",
        )
    }

    /// The node of a process of this job.
    fn shares_node(&self, process: net::Process) -> Option<net::NodeId> {
        (process.0 < self.cores.ranks).then(|| self.endpoint.node_of(Rank(process.0)))
    }

    /// Moves a window on that is being made. Has it been?
    pub(super) fn step_making(&mut self, win: WinId, making: &mut Making) -> Result<bool> {
        loop {
            match &making.step {
                Step::Duplicating(made) => {
                    let made = *made;
                    if let Some(request) = made.request
                        && self.test(request)?.is_none()
                    {
                        return Ok(false);
                    }
                    let Some(comm) = self.made(made) else {
                        return fail(ErrorClass::Intern, "a communicator without processes");
                    };
                    self.begin_facts(win, comm, making)?;
                }
                Step::Facts(request) => {
                    if self.test(*request)?.is_none() {
                        return Ok(false);
                    }
                    self.take_facts(win, making)?;
                }
                Step::Places(request) => {
                    if self.test(*request)?.is_none() {
                        return Ok(false);
                    }
                    self.take_places(win, making)?;
                }
                Step::Registering => {
                    if self.hall.windows.borrow().get(win)?.registration == Registration::Asked {
                        return Ok(false);
                    }
                    self.begin_verdicts(win, making)?;
                }
                Step::Verdicts(request) => {
                    if self.test(*request)?.is_none() {
                        return Ok(false);
                    }
                    return self.take_verdicts(win, making).map(|()| true);
                }
            }
        }
    }

    /// Tells everybody what this process has, and hears of them.
    fn begin_facts(&mut self, win: WinId, comm: CommId, making: &mut Making) -> Result<()> {
        let roster = self.comm(comm)?.roster.clone();
        let number = roster.context();
        {
            let mut windows = self.hall.windows.borrow_mut();
            // From here on others may say something about it.
            windows.by_number.insert(number, win);
            let window = windows.get_mut(win)?;
            (window.comm, window.roster, window.number) = (comm, roster, number);
        }
        let here = self.endpoint.whereabouts();
        let base = if making.new.flavor == WinFlavor::Create { making.new.base.as_ptr() as u64 } else { 0 };
        let words = [
            making.new.bytes as u64,
            making.new.disp_unit as u64,
            base,
            here.map_or(0, |here| here.process.get().into()),
            here.map_or(0, |here| here.secret),
            here.map_or(0, |here| here.secret_at),
        ];
        making.step = Step::Facts(self.exchange_words(comm, making, &words)?);
        Ok(())
    }

    /// Everybody tells everybody some words.
    fn exchange_words(&mut self, comm: CommId, making: &mut Making, words: &[u64]) -> Result<RequestId> {
        let size = self.comm(comm)?.roster.size as usize;
        making.all.reserve(size * words.len() * WORD);
        for (index, word) in words.iter().enumerate() {
            making.own.set_word(index, *word);
        }
        let count = words.len() as i64;
        let send = Data::new(making.own.as_send(), count, TypeId::UINT64_T);
        let recv = Data::new(making.all.as_recv(), count, TypeId::UINT64_T);
        self.icollective(comm, Coll::Allgather { send, recv })
    }

    /// Knows the others; the first of this host makes the memory that they share.
    fn take_facts(&mut self, win: WinId, making: &mut Making) -> Result<()> {
        let hall = self.hall.clone();
        let mut windows = hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        let (roster, comm) = (window.roster.clone(), window.comm);
        let fact = |rank: u32, index: usize| making.all.word(rank as usize * FACTS + index);
        let mine = self.endpoint.node_of(self.endpoint.rank());
        let is_mate = |rank: u32| {
            rank == roster.rank
                || self.shares_node(roster.members.at(rank)) == Some(mine)
                    && (!self.apart || making.new.flavor == WinFlavor::Shared)
        };
        let mut targets = Vec::with_capacity(roster.size as usize);
        let mut mates = Vec::new();
        for rank in 0..roster.size {
            let line = is_mate(rank).then_some(mates.len() as u32);
            if line.is_some() {
                mates.push((rank, 0));
            }
            let reach = match (making.new.flavor, NonZeroU32::new(fact(rank, 3) as u32)) {
                // (Displacements of dynamic windows are addresses.)
                (WinFlavor::Create | WinFlavor::Dynamic, Some(process))
                    if line.is_some() && self.finds(process, fact, rank) =>
                {
                    Reach::Process { id: process, at: fact(rank, 2) }
                }
                _ => Reach::Far,
            };
            let (bytes, unit) = (fact(rank, 0), fact(rank, 1) as i64);
            targets.push(Target { bytes, unit, reach, line, room: server::UNSERVED, state: State::Nothing });
        }
        let allocates = matches!(making.new.flavor, WinFlavor::Allocate | WinFlavor::Shared);
        let packed = making.new.flavor == WinFlavor::Shared && !making.noncontiguous;
        let mut end = lines_bytes(mates.len()).next_multiple_of(PAGE);
        for (rank, start) in &mut mates {
            *start = end;
            if allocates {
                let bytes = usize::try_from(targets[*rank as usize].bytes).unwrap_or(usize::MAX);
                let Some(behind) = end.checked_add(bytes) else {
                    return fail(ErrorClass::NoMem, "the memory of a window is larger than an address");
                };
                let align = if bytes >= PAGE { PAGE } else { LINE };
                end = if packed { behind } else { behind.next_multiple_of(align) };
                // Large parts begin at pages.
            } else if making.new.flavor == WinFlavor::Dynamic {
                end += PUBLISHED_BYTES;
            }
        }
        (making.mates, making.bytes) = (mates, end.next_multiple_of(PAGE));
        window.targets = targets;
        let mut words = [0; PLACE];
        if making.mates[0].0 == roster.rank {
            match Common::create(MEMORY_NAME, making.bytes).and_then(|common| Ok((common.words()?, common))) {
                Ok((found, common)) => {
                    words = found;
                    window.common = Some(common);
                }
                Err(_) => making.could = false,
            }
        }
        drop(windows);
        let is_shared = making.mates.len() < roster.size as usize;
        if is_shared && server::can_serve(allocates, self.endpoint.own_server().is_some()) && words[0] != 0 {
            self.register(win, making, words)?;
        }
        making.step = Step::Places(self.exchange_words(comm, making, &words)?);
        Ok(())
    }

    /// Has the data server of this node map the memory that this process has made.
    fn register(&mut self, win: WinId, making: &Making, place: [u64; PLACE]) -> Result<()> {
        let hall = self.hall.clone();
        let mut windows = hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        let Some(to) = self.endpoint.own_server() else { return Ok(()) };
        let mate = |&(rank, start): &(u32, usize)| Mate {
            rank,
            process: window.process(rank).0,
            start: start as u64,
            bytes: window.targets[rank as usize].bytes,
        };
        let record = Record {
            window: window.number,
            place,
            bytes: making.bytes as u64,
            words: lines_bytes(making.mates.len()) as u64,
            mates: making.mates.iter().map(mate).collect(),
        };
        window.registration = Registration::Asked;
        let argument = Subject { window: window.number, rank: window.rank(), kind: Kind::Register }.encode();
        let bytes = record.emit();
        let at = Address { handler: server::HANDLER, argument };
        if let Some(id) = post(&mut self.endpoint, to, at, &bytes)? {
            windows.sending.push((id, bytes));
        }
        Ok(())
    }

    /// Can this process reach the memory of another one of its host?
    fn finds(&self, process: NonZeroU32, fact: impl Fn(u32, usize) -> u64, rank: u32) -> bool {
        let token = Token {
            process,
            rank,
            reach: TokenReach::Untried,
            secret_at: fact(rank, 5),
            secret: fact(rank, 4),
            input: 0,
            output: 0,
            meant: Meant { bytes: 0, call: 0 },
        };
        self.endpoint.whereabouts().is_some() && self.endpoint.finds(&token)
    }

    /// Maps what the first process of this host has made, and says whether it could.
    fn take_places(&mut self, win: WinId, making: &mut Making) -> Result<()> {
        let hall = self.hall.clone();
        let mut windows = hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        let leader = making.mates[0].0;
        if leader != window.rank() {
            let word = |index: usize| making.all.word(leader as usize * PLACE + index);
            match Common::open([word(0), word(1), word(2)], making.bytes) {
                Ok(common) => window.common = Some(common),
                Err(_) => making.could = false,
            }
        }
        making.step = Step::Registering;
        Ok(())
    }

    /// Tells everybody whether this process has the memory of its node, and what the server has said.
    fn begin_verdicts(&mut self, win: WinId, making: &mut Making) -> Result<()> {
        let hall = self.hall.clone();
        let windows = hall.windows.borrow();
        let window = windows.get(win)?;
        let room = match window.registration {
            Registration::Answered(room) => room,
            Registration::None | Registration::Asked => server::UNSERVED,
        };
        let comm = window.comm;
        drop(windows);
        let words = [making.could.into(), room.into()];
        making.step = Step::Verdicts(self.exchange_words(comm, making, &words)?);
        Ok(())
    }

    /// The numbers that the data servers have for the memory of each rank: that of its node's first rank in the window, if all
    /// of the node could map it.
    fn rooms(&self, window: &Window, making: &Making) -> Vec<u32> {
        let word = |rank: u32, index: usize| making.all.word(rank as usize * VERDICT + index);
        let mut nodes: BTreeMap<net::NodeId, (u32, bool)> = BTreeMap::new();
        let node_of = |rank: u32| self.shares_node(window.process(rank));
        let all = 0..window.roster.size;
        for rank in all.clone() {
            let Some(node) = node_of(rank) else { continue };
            let (_, all_could) = nodes.entry(node).or_insert((word(rank, 1) as u32, true));
            *all_could &= word(rank, 0) == 1;
        }
        let room_of = |rank: u32| match node_of(rank) {
            // Where memory is not shared each rank has made its own.
            Some(_) if self.apart && word(rank, 0) == 1 => word(rank, 1) as u32,
            Some(node) => nodes.get(&node).filter(|(_, all_could)| *all_could).map_or(0, |(room, _)| *room),
            None => server::UNSERVED,
        };
        all.map(room_of).collect()
    }

    /// Knows whether the processes of this host share the memory. If not, each has its own.
    fn take_verdicts(&mut self, win: WinId, making: &mut Making) -> Result<()> {
        let hall = self.hall.clone();
        let mut windows = hall.windows.borrow_mut();
        let rooms = self.rooms(windows.get(win)?, making);
        let window = windows.get_mut(win)?;
        for (target, room) in window.targets.iter_mut().zip(rooms) {
            target.room = room;
        }
        let all_could = making.mates.iter().all(|(rank, _)| making.all.word(*rank as usize * VERDICT) == 1);
        if !all_could && making.new.flavor == WinFlavor::Shared {
            return fail(ErrorClass::RmaShared, "the processes of the node cannot map each other's memory");
        }
        if !all_could {
            let bytes = match making.new.flavor {
                WinFlavor::Allocate => making.new.bytes as usize,
                WinFlavor::Dynamic => PUBLISHED_BYTES,
                _ => 0,
            };
            let common = match Common::create(MEMORY_NAME, PAGE + bytes) {
                Ok(common) => common,
                Err(error) => {
                    return fail_with(ErrorClass::NoMem, || format!("no memory for a window: {error}"));
                }
            };
            for (rank, _) in std::mem::take(&mut making.mates) {
                let target = &mut window.targets[rank as usize];
                (target.line, target.reach) = (None, Reach::Far);
            }
            let rank = window.rank();
            window.targets[rank as usize].line = Some(0);
            window.common = Some(common);
            making.mates = vec![(rank, PAGE)];
        }
        if let Some(common) = &mut window.common {
            common.close();
        }
        window.heard = vec![Default::default(); making.mates.len()];
        let Window { common, targets, roster, base, .. } = window;
        let common = common.as_ref().expect("made or mapped above");
        let allocates = matches!(making.new.flavor, WinFlavor::Allocate | WinFlavor::Shared);
        for (rank, start) in making.mates.iter().filter(|_| allocates) {
            targets[*rank as usize].reach = Reach::Mapped(RecvBuf::in_common(common, *start));
        }
        let own = &mut targets[roster.rank as usize];
        match (making.new.flavor, own.reach) {
            (WinFlavor::Create, _) => {
                *base = making.new.base;
                own.reach = Reach::Mapped(making.new.base);
            }
            (_, Reach::Mapped(memory)) => *base = memory,
            _ => {}
        }
        window.has_far = window.targets.iter().any(|target| !matches!(target.reach, Reach::Mapped(_)));
        for (from, active) in window.early.take().into_iter().flatten() {
            windows.receive(&mut self.endpoint, from, active);
        }
        Ok(())
    }

    /// Collective. The window is gone when this has ended.
    pub fn win_free(&mut self, win: WinId) -> Result<Synchronizing> {
        let hall = self.hall.clone();
        let mut windows = hall.windows.borrow_mut();
        let window = windows.get(win)?;
        use super::window::Access;
        if !matches!(window.access, Access::Nothing | Access::Fence) || window.exposed_to.is_some() {
            return fail(
                ErrorClass::RmaSync,
                "the window is freed before what was begun with MPI_Win_lock, _lock_all, _start or _post has ended",
            );
        }
        let unheard = windows.hear_all(&mut self.endpoint, win);
        Ok(Synchronizing::new(win, Stage::Free(Freeing { unheard, barrier: None })))
    }

    pub(super) fn step_free(&mut self, win: WinId, freeing: &mut Freeing) -> Result<bool> {
        let barrier = match freeing.barrier {
            Some(barrier) => barrier,
            None if !self.all_heard(win, &mut freeing.unheard)? => return Ok(false),
            None => {
                let comm = self.hall.windows.borrow().get(win)?.comm;
                *freeing.barrier.insert(self.icollective(comm, Coll::Barrier)?)
            }
        };
        if self.test(barrier)?.is_none() {
            return Ok(false);
        }
        let hall = self.hall.clone();
        let mut windows = hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        window.over = window.error.is_some();
        match window.error.take() {
            Some(error) => Err(error),
            None => {
                drop(windows);
                self.forget_window(win);
                Ok(true)
            }
        }
    }

    /// Has everybody said whether something was refused? Who is lost is not waited for: the barrier says so.
    fn all_heard(&mut self, win: WinId, ranks: &mut Vec<u32>) -> Result<bool> {
        let hall = self.hall.clone();
        if hall.has_news() {
            hall.serve(&mut self.endpoint);
        }
        let mut windows = hall.windows.borrow_mut();
        let window = windows.get(win)?;
        ranks.retain(|rank| window.loss_of(&self.endpoint, *rank).is_none());
        windows.all_settled(&mut self.endpoint, win, ranks)
    }

    /// A window whose freeing has ended with an error is there until that has been told. Then it goes; `false`: it is no such
    /// window.
    pub fn win_forget(&mut self, win: WinId) -> bool {
        let is_over = self.hall.windows.borrow().get(win).is_ok_and(|window| window.over);
        if is_over {
            self.forget_window(win);
        }
        is_over
    }

    /// The data server of this node may forget the memory that it has mapped for this process.
    fn unregister(&mut self, window: &Window) {
        let (Registration::Answered(room), Some(to)) = (window.registration, self.endpoint.own_server())
        else {
            return;
        };
        if room != server::UNSERVED {
            let argument = Subject { window: room, rank: window.rank(), kind: Kind::Forget }.encode();
            // A server that cannot be told is no more.
            let _ = post(&mut self.endpoint, to, Address { handler: server::HANDLER, argument }, &[]);
        }
    }

    /// Nobody uses it any more, or it could not be made.
    pub(super) fn forget_window(&mut self, win: WinId) {
        let hall: Rc<Hall> = self.hall.clone();
        let mut windows = hall.windows.borrow_mut();
        let Some(mut window) = windows.list.remove(win.0) else { return };
        windows.by_number.remove(&window.number);
        for loan in window.loans.drain(..) {
            self.endpoint.take_back(loan);
        }
        self.unregister(&window);
        drop(windows);
        registry().errhandler_release(window.errhandler);
        // One that was not made far enough has none of its own.
        let _ = self.comm_free(window.comm);
    }
}
