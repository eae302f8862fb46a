//! Jobs that meet: doors where others knock, calls to such doors, and what is known of the other job's processes.
//!
//! One process of each side talks (`proto::meeting`); what it hears it passes on to its own, which is not done here. All
//! this is asked for by polling and never waits: whoever drives it goes on with other things meanwhile.
use crate::api::Cause;
use crate::endpoint::Endpoint;
use crate::pmi::{PmiError, Spawn};
use crate::reach::ReachSetupError;
use fabric::{BreakReason, Card, Ties};
use proto::ids::{Job, Peer, PeerIx};
use proto::meeting::{NoPort, Port, Talk, TalkError};
use proto::wireup::StateName;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use sys::socket::{self, Transfer};
use sys::tcp;

/// Streams that have not proven anything, at most; the oldest goes first.
const STRANGERS_MAX: usize = 32;
/// Connections that may wait in the kernel.
const BACKLOG: u32 = 128;
/// So often it is looked whether processes of other jobs live.
pub(crate) const DEAD_LOOK_NS: u64 = 500_000_000;
/// How long the answers of a job that disconnects are waited for.
const FAREWELL_NS_MAX: u64 = 500_000_000;
/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// Why two jobs did not meet.
#[derive(Debug, thiserror::Error)]
pub enum MeetError {
    /// The name is no name.
    #[error(transparent)]
    NoPort(#[from] NoPort),
    /// Nobody is there.
    #[error("nobody answers at {0}: {1}")]
    Unanswered(SocketAddr, io::Error),
    /// The other side went away in the middle.
    #[error("the other side hung up")]
    HungUp,
    /// The stream fails.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// What it says is not true.
    #[error("the other side is not to be trusted: {0}")]
    Talk(#[from] TalkError),
    /// There is no address to listen at.
    #[error(transparent)]
    Reach(#[from] ReachSetupError),
    /// The launcher said no.
    #[error("{0}")]
    Pmi(#[from] PmiError),
    /// There is no launcher.
    #[error("this process was started without a launcher, which would have to start others")]
    Alone,
}

/// A stream and the talk on it.
#[derive(Debug)]
struct Line {
    fd: Wire,
    talk: Talk,
    out: Vec<u8>,
    /// It is known that the stream is connected.
    connected: bool,
}

#[derive(Debug)]
enum Wire {
    Own(tcp::Stream),
    /// The program's: its flags are not changed, and nothing but the talk is read from it.
    Given(OwnedFd),
}

impl Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Wire::Own(stream) => stream.as_fd(),
            Wire::Given(fd) => fd.as_fd(),
        }
    }
}

impl Line {
    fn new(fd: Wire, key: [u8; 32]) -> io::Result<Line> {
        let (mut nonce, mut out) = ([0; 16], Vec::new());
        sys::process::random(&mut nonce)?;
        let connected = matches!(fd, Wire::Given(_));
        Ok(Line { fd, talk: Talk::new(key, nonce, &mut out), out, connected })
    }

    /// Writes what is to be written; is all of it out?
    fn flush(&mut self) -> Result<bool, MeetError> {
        if !self.connected {
            let Wire::Own(stream) = &self.fd else { unreachable!("the program's streams are connected") };
            if !stream.connected()? {
                return Ok(false);
            }
            self.connected = true;
        }
        while !self.out.is_empty() {
            match socket::write(self.fd.as_fd(), &self.out)? {
                Transfer::Bytes(sent) => drop(self.out.drain(..sent)),
                Transfer::WouldBlock => return Ok(false),
                Transfer::Closed => return Err(MeetError::HungUp),
            }
        }
        Ok(true)
    }

    /// Reads what is there; gives what the other side says, once.
    fn hear(&mut self) -> Result<Option<Vec<u8>>, MeetError> {
        let mut chunk = vec![0; CHUNK.min(self.talk.wants())];
        while self.connected && self.talk.wants() > 0 {
            let most = self.talk.wants().min(CHUNK);
            chunk.resize(most, 0);
            let not_a_socket = || io::Error::other("it is not a socket");
            match socket::read_now(self.fd.as_fd(), &mut chunk)?.ok_or_else(not_a_socket)? {
                Transfer::Bytes(len) => {
                    if let Some(said) = self.talk.push(&chunk[..len])? {
                        return Ok(Some(said));
                    }
                }
                Transfer::WouldBlock => break,
                Transfer::Closed => return Err(MeetError::HungUp),
            }
        }
        Ok(None)
    }
}

/// An open port.
#[derive(Debug)]
pub struct Door {
    listener: tcp::Listener,
    port: Port,
    /// Who has knocked, oldest first.
    strangers: Vec<Line>,
}

impl Door {
    /// The port's name.
    pub fn name(&self) -> String {
        self.port.to_string()
    }

    /// Somebody who holds the key, and what it says. Everybody else who knocks is forgotten at the first mistake.
    fn poll(&mut self) -> Result<Option<(Line, Vec<u8>)>, MeetError> {
        while let Some((stream, _)) = self.listener.accept()? {
            if self.strangers.len() == STRANGERS_MAX {
                self.strangers.remove(0);
            }
            self.strangers.push(Line::new(Wire::Own(stream), self.port.key)?);
        }
        let mut at = 0;
        while at < self.strangers.len() {
            let line = &mut self.strangers[at];
            match line.flush().and_then(|_| line.hear()) {
                Ok(Some(said)) => return Ok(Some((self.strangers.remove(at), said))),
                Ok(None) => at += 1,
                Err(_) => drop(self.strangers.remove(at)),
            }
        }
        Ok(None)
    }
}

/// What the other side has said, and the key that both jobs share.
pub type Heard = (Vec<u8>, [u8; 32]);

/// A meeting that is coming about.
#[derive(Debug)]
pub struct Meeting {
    stage: Stage,
    /// What this side says about itself.
    mine: Vec<u8>,
}

#[derive(Debug)]
enum Stage {
    /// Somebody is to come, of a job that is being spawned if it is one.
    Expecting { door: Rc<RefCell<Door>>, spawning: Option<u64> },
    /// Somebody is there, or was called at this address.
    Talking { line: Box<Line>, to: Option<SocketAddr>, said: bool, theirs: Option<Vec<u8>> },
}

impl Meeting {
    /// Calls the owner of a port.
    pub fn call(port: &str, mine: Vec<u8>) -> Result<Meeting, MeetError> {
        let port: Port = port.parse()?;
        let stream = tcp::Stream::dial(None, port.addr).map_err(|e| MeetError::Unanswered(port.addr, e))?;
        let line = Line::new(Wire::Own(stream), port.key)?;
        Ok(Meeting {
            stage: Stage::Talking { line: Box::new(line), to: Some(port.addr), said: false, theirs: None },
            mine,
        })
    }

    /// Waits for somebody at a door.
    pub fn expect(door: Rc<RefCell<Door>>, mine: Vec<u8>) -> Meeting {
        Meeting { stage: Stage::Expecting { door, spawning: None }, mine }
    }

    /// Meets whoever is at the other end of a socket of the program's.
    pub fn over(fd: OwnedFd, mine: Vec<u8>) -> Result<Meeting, MeetError> {
        let line = Line::new(Wire::Given(fd), [0; 32])?;
        Ok(Meeting {
            stage: Stage::Talking { line: Box::new(line), to: None, said: false, theirs: None },
            mine,
        })
    }

    /// What the other side says, once everything is said and heard, and the key that both jobs share from now on.
    pub fn poll(&mut self, endpoint: &mut Endpoint) -> Result<Option<Heard>, MeetError> {
        if let Stage::Expecting { door, spawning } = &mut self.stage {
            if let (Some(spawn), Some(pmi)) = (*spawning, endpoint.job.pmi.as_mut())
                && pmi.spawn_poll(spawn)?
            {
                *spawning = None;
            }
            let Some((line, theirs)) = door.borrow_mut().poll()? else { return Ok(None) };
            self.stage = Stage::Talking { line: Box::new(line), to: None, said: false, theirs: Some(theirs) };
        }
        let Stage::Talking { line, to, said, theirs } = &mut self.stage else { return Ok(None) };
        let unanswered = |error| match (error, *to) {
            (MeetError::Io(error), Some(to)) => MeetError::Unanswered(to, error),
            (error, _) => error,
        };
        line.flush().map_err(unanswered)?;
        if theirs.is_none() {
            *theirs = line.hear().map_err(unanswered)?;
        }
        if line.talk.is_greeted() && !std::mem::replace(said, true) {
            line.talk.say(&self.mine, &mut line.out);
        }
        let out = *said && line.flush()?;
        let key = line.talk.pair_key().filter(|_| out);
        Ok(key.and_then(|key| Some((theirs.take()?, key))))
    }
}

impl Endpoint {
    /// A port where processes of other jobs can be met.
    pub fn open_door(&mut self) -> Result<Door, MeetError> {
        let how = self.job.ways.to_open()?;
        let listener = tcp::Listener::bind(SocketAddr::new(how.addr, 0), BACKLOG)?;
        let mut key = [0; 32];
        sys::process::random(&mut key)?;
        let port = Port { addr: listener.local_addr()?, key };
        Ok(Door { listener, port, strangers: Vec::new() })
    }

    /// Has the launcher start processes, which will call `door`.
    pub fn spawn(
        &mut self,
        commands: &[Spawn<'_>],
        door: Rc<RefCell<Door>>,
        mine: Vec<u8>,
    ) -> Result<Meeting, MeetError> {
        let spawn = self.job.pmi.as_mut().ok_or(MeetError::Alone)?.spawn_begin(commands)?;
        Ok(Meeting { stage: Stage::Expecting { door, spawning: Some(spawn) }, mine })
    }

    /// Was this process's job spawned by another one?
    pub fn is_spawned(&self) -> bool {
        self.job.pmi.is_some() && was_spawned()
    }

    /// The port of whoever spawned this process's job, if its library is this one.
    pub fn parent_port(&mut self) -> Result<Option<String>, MeetError> {
        Ok(self.job.pmi.as_mut().map(|pmi| pmi.get(KEY_OF_PARENT)).transpose()?.flatten())
    }

    /// Publishes the name of a service; `false`: it is taken.
    pub fn publish(&mut self, service: &str, port: &str) -> Result<bool, MeetError> {
        Ok(self.job.pmi.as_mut().ok_or(MeetError::Alone)?.publish(service, port)?)
    }

    /// The port of a service, if somebody published it.
    pub fn look_up_service(&mut self, service: &str) -> Result<Option<String>, MeetError> {
        Ok(self.job.pmi.as_mut().ok_or(MeetError::Alone)?.lookup(service)?)
    }

    /// Withdraws a service; `false`: there was none.
    pub fn unpublish(&mut self, service: &str) -> Result<bool, MeetError> {
        Ok(self.job.pmi.as_mut().ok_or(MeetError::Alone)?.unpublish(service)?)
    }

    /// Some meeting begins or ends: who sleeps meanwhile looks after it now and then.
    pub fn expect_meetings(&mut self, more: i32) {
        self.waits.meetings = self.waits.meetings.saturating_add_signed(more);
        self.waits.hurry();
    }

    /// Is this process connected to any other job? The launcher ends a job alone that has parted from all others.
    pub fn set_ties(&mut self, ties: Ties) {
        self.context.set_ties(ties);
    }

    /// Processes of another job may be talked to from now on.
    pub fn meet(&mut self, job: Job, size: u32) {
        if job != self.job.id {
            self.wireup.admit(job, size);
        }
    }

    /// How many ranks a job has that may be talked to.
    pub fn size_of(&self, job: Job) -> Option<u32> {
        if job == self.job.id { Some(self.job.size) } else { self.wireup.size_of(job) }
    }

    /// The card of a process, as bytes, if it is known or can be found out.
    pub fn card_bytes(&mut self, peer: Peer) -> Option<Vec<u8>> {
        if peer == self.me() {
            return Some(self.context.card().to_bytes());
        }
        if let Some(pmi) = self.job.pmi.as_mut().filter(|_| peer.job() == self.job.id) {
            pmi.fence_end().ok()?;
        }
        self.card_of(peer).ok().flatten().map(|card| card.to_bytes())
    }

    /// Where a process of another job is, and the key that its job shares with this one, if it has one of its own.
    pub fn learn(&mut self, peer: Peer, card: &[u8], key: Option<[u8; 32]>) -> Result<(), Cause> {
        if peer.job() == self.job.id {
            return Ok(());
        }
        let card = Card::from_bytes(card)?;
        if let Some(key) = key {
            self.context.share_key(key, card.sockets.map(|sockets| sockets.nonce));
            self.job.keys.insert((peer.job(), key));
        }
        self.job.met.insert(peer, card);
        self.set_timers();
        Ok(())
    }

    /// Looks whether processes of other jobs on this host live, to which there is a connection: no launcher says it.
    /// (A stream to another host breaks.) Was one lost?
    pub(crate) fn look_for_dead(&mut self, now_ns: u64) -> bool {
        if self.job.met.is_empty() || self.job.leaving || now_ns < self.waits.dead_due_ns {
            return false;
        }
        self.waits.dead_due_ns = now_ns + DEAD_LOOK_NS;
        let here = self.job.met.iter().filter(|(_, card)| self.context.shares_host(card));
        let dead: Vec<PeerIx> = here
            .filter_map(|(peer, card)| Some((self.wireup.find(*peer)?, card.soft?)))
            .filter(|(ix, _)| !matches!(self.wireup.state(*ix), StateName::Idle | StateName::Failed))
            .filter_map(|(ix, segment)| segment.check_alive().is_err().then_some(ix))
            .collect();
        for ix in &dead {
            self.wireup.broken(*ix, Arc::new(Cause::Break(BreakReason::Closed)));
        }
        self.carry_out();
        !dead.is_empty()
    }

    /// Closes the connections to a job's processes by agreement, when what was to be sent is sent. Is none left? Ask
    /// again until it is so: otherwise one that is being closed would wait for its answer for ever, and keep its place.
    /// It is not waited for ever: an answer may get lost on its way from somebody who has forgotten this job already.
    pub fn farewell(&mut self, job: Job) -> bool {
        let of_job = |(ix, peer): (PeerIx, Peer)| (peer.job() == job).then_some(ix);
        let peers: Vec<PeerIx> = self.wireup.peers().filter_map(of_job).collect();
        let (now_ns, mut left) = (self.now_ns(), false);
        for ix in peers {
            let sent = self.links.get(ix.index()).is_none_or(|link| link.queue.is_empty());
            match self.wireup.state(ix) {
                StateName::Failed => continue,
                StateName::Idle if sent => continue,
                StateName::Ready if sent => drop(self.wireup.close(ix, now_ns)),
                _ => {}
            }
            left = true;
        }
        self.carry_out();
        let since_ns = *self.waits.farewell_ns.get_or_insert(now_ns);
        let over = !left || now_ns.saturating_sub(since_ns) > FAREWELL_NS_MAX;
        if over {
            self.waits.farewell_ns = None;
        }
        over
    }

    /// The job has disconnected: its processes are forgotten.
    pub fn forget_job(&mut self, job: Job) {
        if job == self.job.id || self.wireup.size_of(job).is_none() {
            return;
        }
        let of_job = |(ix, peer): (PeerIx, Peer)| (peer.job() == job).then_some(ix);
        let gone: Vec<PeerIx> = self.wireup.peers().filter_map(of_job).collect();
        self.push_out();
        self.wireup.retire(job);
        self.carry_out();
        for ix in gone {
            self.note_closed(ix);
            self.waits.forget(ix);
            self.waiting.retain(|other| *other != ix);
            if let Some(link) = self.links.get_mut(ix.index()) {
                *link = Default::default();
            }
        }
        let (gone, met) =
            std::mem::take(&mut self.job.met).into_iter().partition(|(peer, _)| peer.job() == job);
        self.job.met = met;
        let gone: HashMap<Peer, Card> = gone;
        let (old, keys) = std::mem::take(&mut self.job.keys).into_iter().partition(|(of, _)| *of == job);
        self.job.keys = keys;
        let old: BTreeSet<(Job, [u8; 32])> = old;
        old.into_iter().for_each(|(_, key)| self.context.forget_key(key));
        let hosts: HashSet<[u64; 2]> = self.job.met.values().map(|card| card.host).collect();
        for card in gone.values().filter(|card| !hosts.contains(&card.host)) {
            self.context.set_same_host(card.host, false);
        }
        self.set_timers();
    }

    /// This process's host as the kernel knows it, whoever started the process.
    pub fn kernel_host(&self) -> [u64; 2] {
        *self.job.kernel_host.get_or_init(sys::node::host_id)
    }

    /// What launchers call the host of a process that is known.
    pub fn launchers_host(&self, peer: Peer) -> Option<[u64; 2]> {
        if peer.job() == self.job.id {
            return (peer == self.me()).then_some(self.context.card().host);
        }
        self.job.met.get(&peer).map(|card| card.host)
    }

    /// Two launchers have called one host `mine` and `theirs`: is it this one, then memory is shared with those there.
    pub fn share_host(&mut self, mine: [u64; 2], theirs: [u64; 2]) {
        if mine == self.context.card().host {
            self.context.set_same_host(theirs, true);
        }
    }
}

/// Was this process's job started by `MPI_Comm_spawn`? Launchers say so by a variable.
pub(crate) fn was_spawned() -> bool {
    std::env::var_os("PMI_SPAWNED").is_some_and(|value| value == "1")
}

/// A number that nobody had before.
pub fn chance() -> u64 {
    let mut bytes = [0; 8];
    // Without chance, process and time differ.
    let chance = sys::process::random(&mut bytes).map_or(0, |()| u64::from_le_bytes(bytes));
    chance ^ u64::from(std::process::id()) << 32 ^ sys::cpu::now_ns()
}

/// Where a spawned job finds the port of its parent.
pub const KEY_OF_PARENT: &str = "banyan-parent";
