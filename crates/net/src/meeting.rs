//! Jobs that meet: doors where others knock, calls to such doors, and what is known of the other job's processes.
//!
//! One process of each side talks (`proto::meeting`); what it hears it passes on to its own, which is not done here. All
//! this is asked for by polling and never waits: whoever drives it goes on with other things meanwhile. Once a process
//! sleeps while it meets somebody, the descriptors of its doors and lines are in a set that wakes it.
mod door;
mod line;

pub use door::Door;

use crate::api::Cause;
use crate::endpoint::Endpoint;
use crate::pmi::{PmiError, Spawn};
use crate::reach::ReachSetupError;
use door::Sleeper;
use fabric::{BreakReason, Card, Ties};
use line::{Line, Wire};
use proto::ids::{Job, Peer, PeerIx, Rank};
use proto::matching::Pattern;
use proto::meeting::{NoPort, Port, TalkError};
use proto::wireup::StateName;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use sys::poll::Poll;

/// So often it is looked whether processes of other jobs live.
pub(crate) const DEAD_LOOK_NS: u64 = 500_000_000;
/// How long the answers of a job that disconnects are waited for.
const FAREWELL_NS_MAX: u64 = 500_000_000;
/// Who gives up while somebody may be about to accept says so, and listens so much longer.
const LAST_WORD_NS: u64 = 1_000_000_000;

/// Why two jobs did not meet.
#[derive(Debug, thiserror::Error)]
pub enum MeetError {
    /// The name is no name.
    #[error(transparent)]
    NoPort(#[from] NoPort),
    /// Nobody is there.
    #[error("nobody answers at {0}: {1}")]
    Unanswered(SocketAddr, io::Error),
    /// Somebody may be there, but takes nobody in.
    #[error("nobody has accepted at {0} within {1:?}")]
    Unaccepted(SocketAddr, Duration),
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

/// What ends, besides what the lost themselves would send, when somebody is lost who sends in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Messages: what anybody may send.
    Messages,
    /// Collectives, by tags from 0: what anybody is to send, since others that have heard of it go away.
    Collectives,
}

impl Span {
    pub(crate) fn concerns(self, pattern: &Pattern) -> bool {
        match self {
            Span::Messages => pattern.source.is_none(),
            Span::Collectives => pattern.tag.is_some_and(|tag| tag >= 0),
        }
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
    limit: Option<Limit>,
    /// Who is waited for, and what they are to do, in words.
    awaited: Rc<str>,
}

/// How long the owner of a port is waited for.
#[derive(Clone, Copy, Debug)]
struct Limit {
    within: Duration,
    /// Set when it is looked after first.
    due_ns: Option<u64>,
    /// The owner might just take this side in: it was told that it is late, and has a moment left to answer.
    last_word: bool,
}

impl Limit {
    fn new(within: Duration) -> Self {
        Limit { within, due_ns: None, last_word: false }
    }

    /// Is the time up?
    fn is_over(&mut self, now_ns: u64) -> bool {
        let within_ns = u64::try_from(self.within.as_nanos()).unwrap_or(u64::MAX);
        now_ns >= *self.due_ns.get_or_insert(now_ns.saturating_add(within_ns))
    }
}

#[derive(Debug)]
enum Stage {
    /// Somebody is to come, of a job that is being spawned if it is one.
    Expecting { door: Rc<RefCell<Door>>, spawning: Option<u64>, asleep: Option<Sleeper> },
    /// Somebody is there, or was called at this address.
    Talking { line: Box<Line>, to: Option<SocketAddr>, said: bool, theirs: Option<Vec<u8>> },
}

impl Meeting {
    /// Calls the owner of a port, which has to accept within some time if one is given.
    pub fn call(port: &str, mine: Vec<u8>, within: Option<Duration>) -> Result<Meeting, MeetError> {
        let port: Port = port.parse()?;
        let (line, said) = Line::call(&port, &mine)?;
        Ok(Meeting {
            stage: Stage::Talking { line: Box::new(line), to: Some(port.addr), said, theirs: None },
            mine,
            limit: within.map(Limit::new),
            awaited: format!("the owner of port {} to accept", port.addr).into(),
        })
    }

    /// Waits for somebody at a door.
    pub fn expect(door: Rc<RefCell<Door>>, mine: Vec<u8>) -> Meeting {
        let awaited = format!("somebody to connect at port {}", door.borrow().addr()).into();
        let stage = Stage::Expecting { door, spawning: None, asleep: None };
        Meeting { stage, mine, limit: None, awaited }
    }

    /// Meets whoever is at the other end of a socket of the program's.
    pub fn over(fd: OwnedFd, mine: Vec<u8>) -> Result<Meeting, MeetError> {
        let line = Line::new(Wire::Given(fd), [0; 32])?;
        Ok(Meeting {
            stage: Stage::Talking { line: Box::new(line), to: None, said: false, theirs: None },
            mine,
            limit: None,
            awaited: "the other end of a socket to join".into(),
        })
    }

    /// What the other side says, once everything is said and heard, and the key that both jobs share from now on.
    pub fn poll(&mut self, endpoint: &mut Endpoint) -> Result<Option<Heard>, MeetError> {
        let mut heard = self.advance(endpoint);
        if let (Ok(None), Some(set)) = (&heard, &endpoint.waits.meeting_set)
            && let Err(error) = self.watch(set)
        {
            heard = Err(error);
        }
        if heard.is_err() {
            self.answered(endpoint);
        }
        heard
    }

    fn advance(&mut self, endpoint: &mut Endpoint) -> Result<Option<Heard>, MeetError> {
        if let Stage::Expecting { door, spawning, .. } = &mut self.stage {
            let (door, spawning) = (door.clone(), *spawning);
            if let (Some(spawn), Some(pmi)) = (spawning, endpoint.job.pmi.as_mut())
                && pmi.spawn_poll(spawn)?
            {
                self.answered(endpoint);
            }
            let Some((mut line, theirs)) = door.borrow_mut().poll()? else { return Ok(None) };
            if line.answer_caller(&self.mine).is_err() {
                return Ok(None); // it called long ago and is gone, and another one may come
            }
            self.answered(endpoint);
            self.stage = Stage::Talking { line: Box::new(line), to: None, said: true, theirs: Some(theirs) };
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
            line.say(&self.mine);
        }
        let out = *said && line.flush()?;
        let key = line.talk.pair_key().filter(|_| out);
        let heard = key.and_then(|key| Some((theirs.take()?, key)));
        if heard.is_none() {
            self.check_limit(endpoint.now_ns())?;
        }
        Ok(heard)
    }

    /// Gives up in time. The owner speaks when it has taken this side in, and not to somebody who has left: so a caller
    /// that has spoken stops writing and listens a moment longer, so that the owner does not meet somebody who is gone.
    fn check_limit(&mut self, now_ns: u64) -> Result<(), MeetError> {
        let Stage::Talking { line, to: Some(to), said, theirs: None } = &mut self.stage else {
            return Ok(());
        };
        let Some(limit) = self.limit.as_mut() else { return Ok(()) };
        if !limit.is_over(now_ns) {
            return Ok(());
        }
        if *said && !limit.last_word {
            line.end_writing()?;
            limit.last_word = true;
            limit.due_ns = Some(now_ns + LAST_WORD_NS);
            return Ok(());
        }
        Err(MeetError::Unaccepted(*to, limit.within))
    }

    /// It is not waited for any more.
    pub fn give_up(&mut self, endpoint: &mut Endpoint) {
        self.answered(endpoint);
    }

    /// The launcher's answer to a spawn is not waited for any more.
    fn answered(&mut self, endpoint: &mut Endpoint) {
        if let Stage::Expecting { spawning, .. } = &mut self.stage
            && spawning.take().is_some()
        {
            endpoint.waits.spawns -= 1;
            endpoint.waits.news += 1; // another thread may wait until nothing is owed
        }
    }

    /// Whoever sleeps is woken when there is something to do.
    fn watch(&mut self, set: &Rc<Poll>) -> Result<(), MeetError> {
        match &mut self.stage {
            Stage::Expecting { door, asleep, .. } if asleep.is_none() => {
                *asleep = Some(Sleeper::new(door, set)?)
            }
            Stage::Expecting { .. } => {}
            Stage::Talking { line, .. } => line.watch(set)?,
        }
        Ok(())
    }
}

#[cfg(test)]
impl Meeting {
    pub(crate) fn has_spoken(&self) -> bool {
        matches!(&self.stage, Stage::Talking { line, said: true, .. } if line.has_sent_all())
    }

    pub(crate) fn lose_patience(&mut self) {
        self.limit.as_mut().unwrap().due_ns = Some(0);
    }

    pub(crate) fn is_late(&self) -> bool {
        self.limit.is_some_and(|limit| limit.last_word)
    }
}

impl Endpoint {
    /// How long a port's owner is waited for where the program does not say; `None`: for ever.
    pub fn connect_timeout(&self) -> Option<Duration> {
        Some(self.job.connect_timeout).filter(|timeout| !timeout.is_zero())
    }

    /// A port where processes of other jobs can be met.
    pub fn open_door(&mut self) -> Result<Door, MeetError> {
        Door::open(self.job.ways.to_open()?.addr)
    }

    /// Has the launcher start processes, which will call `door`.
    pub fn spawn(
        &mut self,
        commands: &[Spawn<'_>],
        door: Rc<RefCell<Door>>,
        mine: Vec<u8>,
    ) -> Result<Meeting, MeetError> {
        let spawn = self.job.pmi.as_mut().ok_or(MeetError::Alone)?.spawn_begin(commands)?;
        self.waits.spawns += 1;
        let stage = Stage::Expecting { door, spawning: Some(spawn), asleep: None };
        let names: BTreeSet<_> =
            commands.iter().map(|command| String::from_utf8_lossy(command.program)).collect();
        let names: Vec<String> = names.into_iter().map(|name| format!("'{name}'")).collect();
        let awaited = format!("spawned processes of {} to call MPI_Init", names.join(", ")).into();
        Ok(Meeting { stage, mine, limit: None, awaited })
    }

    /// Was this process's job spawned by another one?
    pub fn is_spawned(&self) -> bool {
        self.job.pmi.is_some() && was_spawned()
    }

    /// The port of whoever spawned this process's job, if its library is this one.
    pub fn parent_port(&mut self) -> Result<Option<String>, MeetError> {
        Ok(self.job.pmi.as_mut().map(|pmi| pmi.get(KEY_OF_PARENT)).transpose()?.flatten())
    }

    /// Does the launcher owe no answer, so that a question waits for nobody else: not for all to have started, nor for
    /// processes that it is to start? Ask again until it is so.
    pub fn launcher_is_free(&mut self) -> Result<bool, MeetError> {
        let Some(pmi) = self.job.pmi.as_mut() else { return Ok(true) }; // and that will be the answer
        let free = pmi.fence_poll(Duration::ZERO);
        let asked = std::mem::replace(&mut self.waits.questions, matches!(free, Ok(false)));
        // Another thread may sleep until it is free.
        self.waits.news += u64::from(asked && !self.waits.questions);
        Ok(free?)
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

    /// A meeting begins.
    pub fn expect_meeting(&mut self, meeting: &Meeting) {
        self.waits.meetings.push(meeting.awaited.clone());
    }

    /// A meeting is over.
    pub fn end_meeting(&mut self, meeting: &Meeting) {
        let place = self.waits.meetings.iter().position(|awaited| Rc::ptr_eq(awaited, &meeting.awaited));
        place.into_iter().for_each(|place| drop(self.waits.meetings.remove(place)));
        if self.waits.meetings.is_empty()
            && let Some(set) = self.waits.meeting_set.take()
        {
            self.context.unwatch(set.as_fd());
        }
    }

    /// Before a sleep: has the meetings that are coming about wake this process. `true`: from now on, so that they have to
    /// be looked at once more, and say what is to be watched.
    pub(crate) fn watch_meetings(&mut self) -> io::Result<bool> {
        if self.waits.meetings.is_empty() || self.waits.meeting_set.is_some() {
            return Ok(false);
        }
        let set = Rc::new(Poll::new()?);
        self.context.watch(set.as_fd())?;
        self.waits.meeting_set = Some(set);
        Ok(true)
    }

    /// Is this process connected to any other job? The launcher ends a job alone that has parted from all others.
    pub fn set_ties(&mut self, ties: Ties) {
        self.context.set_ties(ties);
    }

    /// Processes of another job may be talked to from now on.
    pub fn meet(&mut self, job: Job, size: u32) {
        if job == self.job.id {
            return;
        }
        // A connection may have broken and the job live on: it is met anew.
        if self.wireup.size_of(job).is_none() && self.job.broken.remove(&job).is_some() {
            self.job.spans.retain(|(_, of), _| *of != job);
        }
        self.wireup.admit(job, size);
        // It may be gone before this process has heard of it.
        if self.context.lost_jobs(&mut 0).contains(&job.0) {
            self.lose_job(job);
        }
    }

    /// Processes of another job send in this context: if one is lost, those hear of it who wait for it or for others.
    pub fn span(&mut self, context: u32, job: Job, span: Span) {
        self.job.spans.insert((context, job), span);
    }

    /// Nobody begins anything in this context any more. (After a loss others may: what they send is refused, and no other
    /// context has its number.)
    pub fn forget_context(&mut self, context: u32) {
        if !self.job.spans.is_empty()
            && !self.matcher.posted_iter().any(|(posted, _)| posted.context == context)
        {
            let broken = &self.job.broken;
            self.job.spans.retain(|(of, job), _| *of != context || broken.contains_key(job));
        }
    }

    /// All processes of another job are gone. Was any of them known, or might have become so?
    fn lose_job(&mut self, job: Job) -> bool {
        let size = self.wireup.size_of(job).unwrap_or(0);
        for rank in (0..size).map(Rank) {
            // Also those that were never talked to: what is received from them will not come.
            if let Ok(ix) = self.wireup.intern(Peer::Rank { job, rank })
                && self.wireup.state(ix) != StateName::Failed
            {
                self.wireup.broken(ix, Arc::new(Cause::Ended));
            }
        }
        self.carry_out();
        size > 0
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

    /// Looks at once for jobs that are lost: something has failed, and that may be why.
    pub fn hear_of_losses(&mut self) {
        self.waits.dead_due_ns = 0;
        self.look_for_dead(self.now_ns());
    }

    /// Looks whether processes of other jobs on this host live, to which there is a connection: no launcher says it, but
    /// of jobs in the same tree. (A stream to another host breaks.) Was one lost?
    pub(crate) fn look_for_dead(&mut self, now_ns: u64) -> bool {
        if self.job.met.is_empty() || self.job.leaving || now_ns < self.waits.dead_due_ns {
            return false;
        }
        self.waits.dead_due_ns = now_ns + DEAD_LOOK_NS;
        let lost = self.context.lost_jobs(&mut self.waits.lost_seen);
        let lost = lost.into_iter().fold(false, |any, job| self.lose_job(Job(job)) | any);
        let here = self.job.met.iter().filter(|(_, card)| self.context.shares_host(card));
        let dead: Vec<PeerIx> = here
            .filter_map(|(peer, card)| Some((self.wireup.find(*peer)?, card.soft?)))
            .filter(|(ix, _)| !matches!(self.wireup.state(*ix), StateName::Idle | StateName::Failed))
            .filter(|(_, segment)| {
                segment.check_alive().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            })
            .map(|(ix, _)| ix)
            .collect();
        for ix in &dead {
            self.wireup.broken(*ix, Arc::new(Cause::Break(BreakReason::Closed)));
        }
        self.carry_out();
        lost || !dead.is_empty()
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
        // Of one that was lost others may not have heard: they have to be told when they begin something with it.
        if !self.job.broken.contains_key(&job) {
            self.job.spans.retain(|(_, of), _| *of != job);
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
