//! The one table of peers: who has which number, how far each connection is, and what is due when.
//!
//! Rows are in order of creation, and nothing is stored for a peer before it is interned. A row's place is used again
//! when its job is retired; the generation in a [`PeerIx`] tells the old from the new. Not here: what a
//! connection does next ([`super::handshake`]).
use super::handshake::State;
use super::{Connections, Epoch, NoSuchPeer};
use crate::ids::{Job, Peer, PeerIx, Process, Rank};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Peers that a process can have at one time, itself included.
pub const PEERS_MAX: usize = PeerIx::INDICES;

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct Peers<W> {
    me: Peer,
    size: u32,
    rows: Vec<Row<W>>,
    /// Rows whose place is free, the longest free first.
    free: VecDeque<u32>,
    /// Numbers of ranks, by [`Process`]; 0 (which is this process's own) for those without. Empty until the first is
    /// interned, and zeroed memory takes no pages before it is written.
    ranks: Vec<u32>,
    /// Numbers of servers. Never iterated.
    servers: HashMap<Peer, PeerIx, FxBuildHasher>,
    /// The other jobs that may be talked to.
    jobs: BTreeMap<Job, Admitted>,
    /// The same, by the number of their first process.
    firsts: BTreeMap<u32, Job>,
    /// When which row's next attempt is due. Rows are in order of first contact, so ties favour no rank.
    due: BTreeSet<(u64, u32)>,
    connections: Connections,
    /// [`PEERS_MAX`], or less in a test.
    pub(super) rows_max: usize,
}

/// Another job.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    size: u32,
    /// The [`Process`] that its rank 0 is.
    first: u32,
}

/// One peer, or a place where one was.
#[derive(Clone, Debug)]
pub(super) struct Row<W> {
    /// `None`: free.
    pub peer: Option<Peer>,
    pub generation: u8,
    /// `None` is [`State::Idle`]: a peer whose connection is closed keeps no memory for one.
    state: Option<Box<State<W>>>,
    /// The peer's last connection that was closed.
    pub closed: Option<Epoch>,
}

impl<W> Row<W> {
    fn new(peer: Option<Peer>) -> Self {
        Self { peer, generation: 0, state: None, closed: None }
    }

    pub(super) fn state(&self) -> &State<W> {
        self.state.as_deref().unwrap_or(&State::Idle)
    }

    /// The state it had.
    fn replace(&mut self, state: State<W>) -> State<W> {
        match (&mut self.state, state) {
            (None, State::Idle) => State::Idle,
            (known, State::Idle) => known.take().map_or(State::Idle, |known| *known),
            (None, state) => {
                self.state = Some(Box::new(state));
                State::Idle
            }
            (Some(known), state) => core::mem::replace(known, state),
        }
    }
}

/// Every place is taken.
pub(super) struct Full;

impl<W> Peers<W> {
    pub(super) fn new(me: Peer, size: u32) -> Self {
        Self {
            me,
            size,
            rows: vec![Row::new(Some(me))],
            free: VecDeque::new(),
            ranks: Vec::new(),
            servers: HashMap::default(),
            jobs: BTreeMap::new(),
            firsts: BTreeMap::new(),
            due: BTreeSet::new(),
            connections: Connections::default(),
            rows_max: PEERS_MAX,
        }
    }

    /// Once more is harmless.
    pub(super) fn admit(&mut self, job: Job, size: u32) {
        assert_ne!(job, self.me.job(), "the own job is admitted from the start");
        if self.jobs.contains_key(&job) {
            return;
        }
        let first = self.room_for(size);
        self.jobs.insert(job, Admitted { size, first });
        self.firsts.insert(first, job);
    }

    pub(super) fn size_of(&self, job: Job) -> Option<u32> {
        self.jobs.get(&job).map(|known| known.size)
    }

    /// The first numbers in a row that no job has.
    fn room_for(&self, size: u32) -> u32 {
        let mut first = self.size;
        for (taken, job) in &self.firsts {
            if taken - first >= size {
                break;
            }
            first = taken + self.jobs[job].size.max(1);
        }
        first
    }

    /// The number of a rank, if its job may be talked to and has it.
    #[inline]
    pub(super) fn process(&self, peer: Peer) -> Option<Process> {
        let Peer::Rank { job, rank } = peer else { return None };
        if job == self.me.job() {
            return Some(Process(rank.0));
        }
        let known = self.jobs.get(&job).filter(|known| rank.0 < known.size)?;
        Some(Process(known.first + rank.0))
    }

    /// Whose number it is.
    pub(super) fn peer_of(&self, process: Process) -> Option<Peer> {
        if process.0 < self.size {
            return Some(Peer::Rank { job: self.me.job(), rank: Rank(process.0) });
        }
        let (first, job) = self.firsts.range(..=process.0).next_back()?;
        let rank = process.0 - first;
        (rank < self.jobs[job].size).then_some(Peer::Rank { job: *job, rank: Rank(rank) })
    }

    #[inline]
    pub(super) fn find(&self, peer: Peer) -> Option<PeerIx> {
        match peer {
            Peer::Rank { .. } => self.find_process(self.process(peer)?),
            _ if peer == self.me => Some(PeerIx::ME),
            _ => self.servers.get(&peer).copied(),
        }
    }

    #[inline]
    pub(super) fn find_process(&self, process: Process) -> Option<PeerIx> {
        match self.ranks.get(process.index()) {
            Some(0) | None => (Some(Rank(process.0)) == self.me.rank()).then_some(PeerIx::ME),
            Some(&wire) => Some(PeerIx::from_wire(wire)),
        }
    }

    /// May this process talk to the peer at all?
    pub(super) fn check(&self, peer: Peer) -> Result<(), NoSuchPeer> {
        let own = (peer.job() == self.me.job()).then_some(self.size);
        let size = own.or_else(|| self.jobs.get(&peer.job()).map(|known| known.size));
        let size = size.ok_or(NoSuchPeer::Job { peer })?;
        match peer.rank() {
            Some(rank) if rank.0 >= size => Err(NoSuchPeer::Rank { peer, size }),
            _ => Ok(()),
        }
    }

    /// A new row. The peer has none, and was checked.
    pub(super) fn add(&mut self, peer: Peer) -> Result<PeerIx, Full> {
        let index = match self.free.pop_front() {
            Some(index) => index as usize,
            None if self.rows.len() == self.rows_max => return Err(Full),
            None => {
                self.rows.push(Row::new(None));
                self.rows.len() - 1
            }
        };
        let row = &mut self.rows[index];
        row.peer = Some(peer);
        let ix = PeerIx::new(index, row.generation);
        self.name(peer, Some(ix));
        Ok(ix)
    }

    /// Notes a peer's number, or that it has none any more.
    fn name(&mut self, peer: Peer, ix: Option<PeerIx>) {
        match (self.process(peer), ix) {
            (Some(process), _) => {
                if self.ranks.is_empty() {
                    self.ranks = vec![0; self.size as usize];
                }
                if self.ranks.len() <= process.index() {
                    self.ranks.resize(process.index() + 1, 0);
                }
                self.ranks[process.index()] = ix.map_or(0, PeerIx::to_wire);
            }
            (None, Some(ix)) => drop(self.servers.insert(peer, ix)),
            (None, None) => drop(self.servers.remove(&peer)),
        }
    }

    /// Forgets the job and its peers; the rows as they were.
    pub(super) fn retire(&mut self, job: Job) -> Vec<(PeerIx, State<W>)> {
        assert_ne!(job, self.me.job(), "a process cannot leave its own job");
        let of_job = |row: &Row<W>| row.peer.is_some_and(|peer| peer.job() == job);
        let retired: Vec<usize> = (1..self.rows.len()).filter(|&index| of_job(&self.rows[index])).collect();
        let retired = retired.into_iter().map(|index| self.remove(index)).collect();
        if let Some(known) = self.jobs.remove(&job) {
            self.firsts.remove(&known.first);
        }
        retired
    }

    fn remove(&mut self, index: usize) -> (PeerIx, State<W>) {
        let ix = PeerIx::new(index, self.rows[index].generation);
        let state = self.set(ix, State::Idle);
        let row = &mut self.rows[index];
        row.closed = None;
        let peer = row.peer.take().expect("only rows in use are retired");
        // A place whose generations are used up stays empty: an old number must never look like a new one.
        if let Some(next) = row.generation.checked_add(1) {
            row.generation = next;
            self.free.push_back(index as u32);
        }
        self.name(peer, None);
        (ix, state)
    }

    /// `None`: stale, or nonsense from the wire.
    #[inline]
    pub(super) fn row(&self, ix: PeerIx) -> Option<(Peer, &Row<W>)> {
        let row = self.rows.get(ix.index()).filter(|row| row.generation == ix.generation())?;
        row.peer.map(|peer| (peer, row))
    }

    /// The number of a row in use.
    pub(super) fn ix_at(&self, index: u32) -> PeerIx {
        PeerIx::new(index as usize, self.rows[index as usize].generation)
    }

    /// The row of a number that was found valid.
    pub(super) fn row_mut(&mut self, ix: PeerIx) -> &mut Row<W> {
        &mut self.rows[ix.index()]
    }

    /// Gives a row its next state, and keeps timers and counters in step; the state it had.
    pub(super) fn set(&mut self, ix: PeerIx, state: State<W>) -> State<W> {
        let index = ix.index() as u32;
        let to = (state.due_ns(), state.name());
        let before = self.rows[ix.index()].replace(state);
        if let Some(due_ns) = before.due_ns() {
            self.due.remove(&(due_ns, index));
        }
        if let (Some(due_ns), _) = to {
            self.due.insert((due_ns, index));
        }
        let Connections { now, peak } = &mut self.connections;
        *now = *now + u32::from(to.1.is_open()) - u32::from(before.name().is_open());
        *peak = (*peak).max(*now);
        before
    }

    /// The row whose next attempt is due first, and when.
    pub(super) fn first_due(&self) -> Option<(u64, PeerIx)> {
        let &(due_ns, index) = self.due.first()?;
        Some((due_ns, self.ix_at(index)))
    }

    pub(super) fn connections(&self) -> Connections {
        self.connections
    }

    /// Rows in use, this process's own left out.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerIx, Peer, &State<W>)> {
        self.rows.iter().enumerate().skip(1).filter_map(|(index, row)| {
            let ix = PeerIx::new(index, row.generation);
            row.peer.map(|peer| (ix, peer, row.state()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_other_jobs_have_numbers_behind_the_own_ones() {
        let rank = |job, rank| Peer::Rank { job: Job(job), rank: Rank(rank) };
        let mut peers: Peers<&str> = Peers::new(rank(1, 2), 4);
        for (job, size) in [(7, 3), (5, 2), (9, 1)] {
            peers.admit(Job(job), size);
        }
        let numbers = [rank(1, 3), rank(7, 0), rank(7, 2), rank(5, 1), rank(9, 0)].map(|peer| {
            let process = peers.process(peer).expect("they are known");
            assert_eq!(peers.peer_of(process), Some(peer));
            process.0
        });
        assert_eq!(numbers, [3, 4, 6, 8, 9]);
        assert_eq!((peers.process(rank(7, 3)), peers.process(rank(8, 0))), (None, None));
        assert_eq!(peers.peer_of(Process(10)), None);
        // A job that leaves makes room for one that is not larger.
        peers.retire(Job(5));
        assert_eq!(peers.peer_of(Process(8)), None);
        for (job, size, first) in [(11, 3, 10), (12, 2, 7)] {
            peers.admit(Job(job), size);
            assert_eq!(peers.process(rank(job, 0)), Some(Process(first)));
        }
    }

    /// While there is a connection, card and parameters of both ends are kept for messages that come again.
    #[test]
    fn a_closed_peer_costs_a_few_words() {
        let (row, state) = (size_of::<Row<&str>>(), size_of::<State<&str>>());
        assert!(row <= 40 && state <= 288, "{row} and {state}");
        let mut row: Row<&str> = Row::new(None);
        row.replace(State::Addressing { since_ns: 7 });
        assert!(matches!(row.replace(State::Idle), State::Addressing { since_ns: 7 }));
        assert!(row.state.is_none() && matches!(row.state(), State::Idle));
    }
}
