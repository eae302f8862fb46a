//! The one table of peers: who has which number, how far each connection is, and what is due when.
//!
//! Rows are in order of creation, and nothing is stored for a peer before it is interned. A row's place is used again
//! when its job is retired; the generation in a [`PeerIx`] tells the old from the new. Not here: what a
//! connection does next ([`super::handshake`]).
use super::handshake::State;
use super::{Connections, Epoch, NoSuchPeer};
use crate::ids::{Job, Peer, PeerIx, Rank};
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
    /// Numbers of the own job's ranks, by rank; 0 (which is this process's own) for those without. Empty until
    /// the first is interned, and zeroed memory takes no pages before it is written.
    own: Vec<u32>,
    /// Numbers of all other peers. Never iterated.
    others: HashMap<Peer, PeerIx, FxBuildHasher>,
    /// Sizes of the other jobs that may be talked to.
    jobs: BTreeMap<Job, u32>,
    /// When which row's next attempt is due. Rows are in order of first contact, so ties favour no rank.
    due: BTreeSet<(u64, u32)>,
    connections: Connections,
    /// [`PEERS_MAX`], or less in a test.
    pub(super) rows_max: usize,
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
            own: Vec::new(),
            others: HashMap::default(),
            jobs: BTreeMap::new(),
            due: BTreeSet::new(),
            connections: Connections::default(),
            rows_max: PEERS_MAX,
        }
    }

    pub(super) fn admit(&mut self, job: Job, size: u32) {
        assert_ne!(job, self.me.job(), "the own job is admitted from the start");
        self.jobs.insert(job, size);
    }

    #[inline]
    pub(super) fn find(&self, peer: Peer) -> Option<PeerIx> {
        match peer {
            Peer::Rank { job, rank } if job == self.me.job() => self.find_own(rank),
            _ if peer == self.me => Some(PeerIx::ME),
            _ => self.others.get(&peer).copied(),
        }
    }

    #[inline]
    pub(super) fn find_own(&self, rank: Rank) -> Option<PeerIx> {
        match self.own.get(rank.index()) {
            Some(0) | None => (Some(rank) == self.me.rank()).then_some(PeerIx::ME),
            Some(&wire) => Some(PeerIx::from_wire(wire)),
        }
    }

    /// May this process talk to the peer at all?
    pub(super) fn check(&self, peer: Peer) -> Result<(), NoSuchPeer> {
        let own = (peer.job() == self.me.job()).then_some(self.size);
        let size = own.or_else(|| self.jobs.get(&peer.job()).copied());
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
        match (peer, ix) {
            (Peer::Rank { job, rank }, _) if job == self.me.job() => {
                if self.own.is_empty() {
                    self.own = vec![0; self.size as usize];
                }
                self.own[rank.index()] = ix.map_or(0, PeerIx::to_wire);
            }
            (_, Some(ix)) => drop(self.others.insert(peer, ix)),
            (_, None) => drop(self.others.remove(&peer)),
        }
    }

    /// Forgets the job and its peers; the rows as they were.
    pub(super) fn retire(&mut self, job: Job) -> Vec<(PeerIx, State<W>)> {
        assert_ne!(job, self.me.job(), "a process cannot leave its own job");
        self.jobs.remove(&job);
        let of_job = |row: &Row<W>| row.peer.is_some_and(|peer| peer.job() == job);
        let retired: Vec<usize> = (1..self.rows.len()).filter(|&index| of_job(&self.rows[index])).collect();
        retired.into_iter().map(|index| self.remove(index)).collect()
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
