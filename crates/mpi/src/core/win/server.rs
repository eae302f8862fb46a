//! The data server of a node: a process that has the windows of its node mapped, and does what processes of other nodes ask for.
//! Which messages come here, and why their order is kept, is [`proto::rma::server`]'s.
//!
//! It trusts nobody with more than a rank could do itself: memory is mapped for processes of its own node only, and what is asked
//! for outside of a window is refused as a rank refuses it.
use super::memory::HELD_BYTES;
use super::route::{Address, post};
use super::serve::{Exposed, Served, Stalled, serve};
use super::window::words_of;
use crate::buffer::RecvBuf;
use net::{Backoff, Common, Config, Endpoint, Job, Loan, NodeId, Peer, Rank, ReqId, StartError};
use proto::rma::lock::{Attempt, Want, give_back};
use proto::rma::queue::{Queue, Round};
use proto::rma::server::{self, Mate, Record};
use proto::rma::wire::{HANDLER, Item, Kind, Reader, Subject, Writer};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

const _: () = assert!(proto::rma::MESSAGE_BYTES <= HELD_BYTES);

/// What an agent reads when the server can be reached.
const READY: &[u8] = b"ready\n";
/// Windows that are mapped at most at one time; those of more are served by their ranks.
const ROOMS_MAX: usize = 1 << 16;
/// Fewer, for tests of what servers refuse.
const ROOMS_TEST: &str = "BANYAN_TEST_SERVER_WINDOWS";
/// On the node of this number the server never says that it is ready, for tests of what comes of that.
const SILENT_TEST: &str = "BANYAN_TEST_SERVER_SILENT";

/// The life of a data server, in a process that an agent has started for it. It ends when its agent kills it; the exit code
/// is that of a server that cannot start.
pub fn serve_node() -> i32 {
    match start() {
        Ok((endpoint, rooms)) => run(endpoint, &rooms),
        Err(error) => {
            eprintln!("banyan: the data server of a node cannot start: {error}");
            1
        }
    }
}

fn start() -> Result<(Box<Endpoint>, Rc<Rooms>), StartError> {
    let mut endpoint = Endpoint::start_server(&Config::from_env()?)?;
    let rooms = Rc::new(Rooms::default());
    let fewer = std::env::var(ROOMS_TEST).ok().and_then(|most| most.parse().ok());
    rooms.state.borrow_mut().most = fewer.unwrap_or(ROOMS_MAX);
    let heard = rooms.clone();
    endpoint.set_handler(
        server::HANDLER,
        Some(Rc::new(move |endpoint, from, active| {
            heard.inbox.borrow_mut().push_back((from, active));
            heard.serve(endpoint);
        })),
    );
    let node = std::env::var(proto::env::SERVER);
    if node.is_ok_and(|node| std::env::var(SILENT_TEST) == Ok(node)) {
        run(endpoint, &rooms);
    }
    let mut stdout = std::io::stdout();
    // An agent that does not listen any more is about to end this process.
    let _ = stdout.write_all(READY).and_then(|()| stdout.flush());
    Ok((endpoint, rooms))
}

fn run(mut endpoint: Box<Endpoint>, rooms: &Rooms) -> ! {
    let mut backoff = Backoff::default();
    loop {
        if endpoint.progress() {
            backoff = Backoff::default();
            rooms.serve(&mut endpoint);
        } else {
            endpoint.pause(&mut backoff);
        }
    }
}

/// What is mapped, and what has come for it.
#[derive(Default)]
struct Rooms {
    state: RefCell<State>,
    inbox: RefCell<VecDeque<(Peer, net::Active)>>,
}

impl Rooms {
    /// Does what has come, unless somebody is about to.
    fn serve(&self, endpoint: &mut Endpoint) {
        while let Ok(mut state) = self.state.try_borrow_mut() {
            state.sending.retain(|(id, _)| endpoint.take(*id).is_none());
            let Some((from, active)) = self.inbox.borrow_mut().pop_front() else { return };
            state.receive(endpoint, from, active);
        }
    }
}

#[derive(Default)]
struct State {
    rooms: BTreeMap<u32, Room>,
    /// So many of them at most.
    most: usize,
    /// The number that was given out last.
    last: u32,
    /// Messages that the endpoint still reads.
    sending: Vec<(ReqId, Vec<u8>)>,
}

/// Who asks, and for the memory of which rank.
type Asker = (Peer, u32);

/// The memory of one window on this node.
struct Room {
    record: Record,
    common: Common,
    /// By rank in the window: the line, and whose it is.
    mates: BTreeMap<u32, (u32, Mate)>,
    /// What waits for locks.
    stalled: Queue<Asker, Stalled>,
    /// Who has which lock, and whether alone.
    held: BTreeMap<Asker, bool>,
    /// Memory that was lent.
    loans: Vec<(u32, Loan)>,
    /// The ranks whose locks were given back.
    freed: Vec<u32>,
    /// Words for ranks here, which leave when what came with them is done.
    words: Vec<(u32, Kind, u32)>,
}

impl State {
    /// A message has come.
    fn receive(&mut self, endpoint: &mut Endpoint, from: Peer, active: net::Active) {
        let Some(Subject { window: number, rank, kind }) = Subject::decode(active.argument) else { return };
        match kind {
            Kind::Register => self.register(endpoint, from, number, &active.bytes),
            Kind::Forget if is_here(endpoint, from) => self.forget(endpoint, number),
            Kind::Nudge => self.retry(endpoint, number),
            Kind::Work => self.work_comes(endpoint, number, (from, rank), active.bytes),
            // These are for ranks.
            Kind::Forget | Kind::Post | Kind::Complete | Kind::Answers | Kind::Registered => {}
        }
    }

    /// A process of this node has made memory: maps it, and says by which number it is known.
    fn register(&mut self, endpoint: &mut Endpoint, from: Peer, window: u32, bytes: &[u8]) {
        let room = if is_here(endpoint, from) { self.open(endpoint, bytes) } else { None };
        let (subject, number) = server::answer(window, room.unwrap_or(server::UNSERVED));
        let at = Address { handler: server::HANDLER, argument: subject.encode() };
        self.post(endpoint, from, at, number.to_vec());
    }

    /// Maps memory. `None`: it cannot, or what was said makes no sense.
    fn open(&mut self, endpoint: &Endpoint, bytes: &[u8]) -> Option<u32> {
        let record = Record::parse(bytes)?;
        let are_here = record.mates.iter().all(|mate| {
            mate.process < endpoint.size() && endpoint.node_of(Rank(mate.process)) == own_node(endpoint)
        });
        let has_words = super::window::lines_bytes(record.mates.len()) as u64 <= record.words;
        if !are_here || !has_words || self.rooms.len() >= self.most {
            return None;
        }
        let common = Common::open(record.place, usize::try_from(record.bytes).ok()?).ok()?;
        let mates = (0..).zip(&record.mates).map(|(line, mate)| (mate.rank, (line, *mate))).collect();
        let room = Room {
            common,
            mates,
            stalled: Queue::default(),
            held: BTreeMap::new(),
            loans: Vec::new(),
            freed: Vec::new(),
            words: Vec::new(),
            record,
        };
        let number = self.next_number();
        self.rooms.insert(number, room);
        Some(number)
    }

    /// One that nobody has, and nobody has had lately.
    fn next_number(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != server::UNSERVED && !self.rooms.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    /// A window is gone.
    fn forget(&mut self, endpoint: &mut Endpoint, number: u32) {
        for (_, loan) in self.rooms.remove(&number).into_iter().flat_map(|room| room.loans) {
            endpoint.take_back(loan);
        }
    }

    fn work_comes(&mut self, endpoint: &mut Endpoint, number: u32, asker: Asker, bytes: Box<[u8]>) {
        let Some(room) = self.rooms.get_mut(&number).filter(|room| room.mates.contains_key(&asker.1)) else {
            return;
        };
        endpoint.note_served(operations(&bytes));
        let work = Stalled::new(Kind::Work, bytes);
        if room.stalled.has(asker) {
            return room.stalled.push(asker, work);
        }
        if let Some(work) = self.work(endpoint, number, asker, work) {
            self.stall(endpoint, number, asker, work);
        }
        self.after_work(endpoint, number);
    }

    /// Does what a message asks for. What is left, if it has to wait for a lock, is given back.
    fn work(
        &mut self,
        endpoint: &mut Endpoint,
        number: u32,
        asker: Asker,
        mut work: Stalled,
    ) -> Option<Stalled> {
        let room = self.rooms.get_mut(&number)?;
        let mut answers = Writer::default();
        let (line, mate) = *room.mates.get(&asker.1)?;
        let window = room.record.window;
        let served = serve(&mut Part { room, line, mate, asker }, endpoint, &mut work, &mut answers);
        if !answers.is_empty() {
            let argument = Subject { window, rank: asker.1, kind: Kind::Answers }.encode();
            self.post(endpoint, asker.0, Address { handler: HANDLER, argument }, answers.0);
        }
        self.pass_words_on(endpoint, number);
        match served {
            Served::Until(done, attempt) => Some(Stalled { done, attempt: Some(attempt), ..work }),
            Served::Whole => None,
        }
    }

    /// Tells ranks of this node what ranks of others have to say to them.
    fn pass_words_on(&mut self, endpoint: &mut Endpoint, number: u32) {
        let Some(room) = self.rooms.get_mut(&number).filter(|room| !room.words.is_empty()) else { return };
        let job = endpoint.me().job();
        let window = room.record.window;
        let words = std::mem::take(&mut room.words).into_iter().filter_map(|(to, kind, rank)| {
            let process = room.mates.get(&to)?.1.process;
            let argument = Subject { window, rank, kind }.encode();
            Some((rank_of(job, process), Address { handler: HANDLER, argument }))
        });
        for (to, at) in words.collect::<Vec<_>>() {
            self.post(endpoint, to, at, Vec::new());
        }
    }

    /// Work has to wait. Whoever gives the lock back says so; it may have been given back just before.
    fn stall(&mut self, endpoint: &mut Endpoint, number: u32, asker: Asker, work: Stalled) {
        let Some(room) = self.rooms.get_mut(&number) else { return };
        room.stalled.push(asker, work);
        if let Some((line, _)) = room.mates.get(&asker.1) {
            room.server_word(*line).store(1, SeqCst);
        }
        self.retry(endpoint, number);
    }

    /// Locks may be free: goes on with what waits for them, in turn.
    fn retry(&mut self, endpoint: &mut Endpoint, number: u32) {
        let mut round = Round::default();
        loop {
            let Some(room) = self.rooms.get_mut(&number) else { return };
            let Some((asker, next)) = room.stalled.next(&mut round) else { break };
            let before = next.done;
            let rest = self.work(endpoint, number, asker, next);
            let Some(room) = self.rooms.get_mut(&number) else { return };
            match rest {
                Some(rest) => {
                    let moved = rest.done != before;
                    room.stalled.stays(&mut round, asker, rest, moved);
                }
                None => room.stalled.gone(&mut round),
            }
        }
        let Some(room) = self.rooms.get(&number) else { return };
        for (rank, (line, _)) in &room.mates {
            if !room.stalled.any(|(_, target)| target == rank) {
                room.server_word(*line).store(0, SeqCst);
            }
        }
        self.after_work(endpoint, number);
    }

    /// Locks may have been given back, for which others wait: here, or at the rank whose they are.
    fn after_work(&mut self, endpoint: &mut Endpoint, number: u32) {
        let Some(room) = self.rooms.get_mut(&number) else { return };
        let freed = std::mem::take(&mut room.freed);
        if freed.is_empty() {
            return;
        }
        let (job, window) = (endpoint.me().job(), room.record.window);
        let waits_there = |rank: &u32| {
            let (line, mate) = room.mates.get(rank)?;
            let waits = words_of(&room.common, *line)[2].load(SeqCst) != 0;
            waits.then(|| (rank_of(job, mate.process), *rank))
        };
        let nudged: Vec<(Peer, u32)> = freed.iter().filter_map(waits_there).collect();
        let waits_here = room.stalled.any(|(_, target)| freed.contains(target));
        for (to, rank) in nudged {
            let argument = Subject { window, rank, kind: Kind::Nudge }.encode();
            self.post(endpoint, to, Address { handler: HANDLER, argument }, Vec::new());
        }
        if waits_here {
            self.retry(endpoint, number);
        }
    }

    /// Sends a message. To who is lost nothing is sent; the launcher hears of that from others.
    fn post(&mut self, endpoint: &mut Endpoint, to: Peer, at: Address, bytes: Vec<u8>) {
        if let Ok(Some(id)) = post(endpoint, to, at, &bytes) {
            self.sending.push((id, bytes));
        }
    }
}

impl Room {
    fn server_word(&self, line: u32) -> &AtomicU64 {
        words_of(&self.common, line)[3]
    }
}

/// The memory of one rank here, for one asker.
struct Part<'r> {
    room: &'r mut Room,
    line: u32,
    mate: Mate,
    asker: Asker,
}

impl Exposed for Part<'_> {
    fn memory(&self, at: i64, (low, high): (i64, i64)) -> Option<RecvBuf> {
        let is_empty = low == high;
        let (low, high) = (at.checked_add(low)?, at.checked_add(high)?);
        let is_inside = is_empty || low >= 0 && high as u64 <= self.mate.bytes;
        is_inside
            .then(|| RecvBuf::in_common(&self.room.common, self.mate.start as usize).shifted(at as isize))
    }

    fn update_word(&self) -> &AtomicU64 {
        words_of(&self.room.common, self.line)[1]
    }

    fn lock(&mut self, attempt: &mut Attempt) -> bool {
        let had = attempt.take(words_of(&self.room.common, self.line)[0]);
        if had {
            self.room.held.insert(self.asker, attempt.want == Want::Alone);
        }
        had
    }

    fn unlock(&mut self) {
        if let Some(alone) = self.room.held.remove(&self.asker) {
            give_back(words_of(&self.room.common, self.line)[0], alone);
        }
        self.room.freed.push(self.mate.rank);
    }

    fn lend(&mut self, endpoint: &mut Endpoint) -> Option<[u64; 2]> {
        let (rank, to) = (self.mate.rank, self.asker.0);
        if self.mate.bytes == 0 {
            return None;
        }
        let lent = self.room.loans.iter().find(|(of, loan)| *of == rank && endpoint.covers(loan, to));
        if let Some((_, loan)) = lent {
            return Some(loan.place().to_words());
        }
        let memory = RecvBuf::in_common(&self.room.common, self.mate.start as usize);
        let loan = endpoint.lend(to, memory.range(0, self.mate.bytes as usize).as_source())?;
        let words = loan.place().to_words();
        self.room.loans.push((rank, loan));
        Some(words)
    }

    /// To be passed on behind the answers: what is before it is done.
    fn tell(&mut self, _: &mut Endpoint, kind: Kind, rank: u32) {
        self.room.words.push((self.mate.rank, kind, rank));
    }
}

/// Operations in a message, without locks and questions.
fn operations(bytes: &[u8]) -> u64 {
    let mut reader = Reader::new(bytes);
    let mut count = 0;
    while let Some(item) = reader.item() {
        let counts =
            matches!(item, Item::Put { .. } | Item::Get { .. } | Item::Update { .. } | Item::Swap { .. });
        count += u64::from(counts);
    }
    count
}

fn rank_of(job: Job, process: u32) -> Peer {
    Peer::Rank { job, rank: Rank(process) }
}

fn own_node(endpoint: &Endpoint) -> NodeId {
    endpoint.node_of(endpoint.rank())
}

/// Is it a rank of this node?
fn is_here(endpoint: &Endpoint, peer: Peer) -> bool {
    let rank = peer.rank().filter(|_| peer.job() == endpoint.me().job());
    rank.is_some_and(|rank| rank.0 < endpoint.size() && endpoint.node_of(rank) == own_node(endpoint))
}
