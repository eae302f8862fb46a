//! Primitives between the processes of a job over the tree of agents: letters from one process to another, and
//! barrier, broadcast, gather, allgather, scatter and alltoall.
//!
//! An [`Exchange`] is one node's part. A letter takes the one way that the tree has, so letters between two
//! processes keep their order. All collective operations are one machine: what processes give is cut into
//! chunks, each for one process or for all; chunks rise, one message per link, to the lowest node that has
//! their target below it, stay there until the root says that everybody takes part, and go down with that
//! word. So every operation synchronises, which is what launcher protocols such as PMGR promise, and no node is
//! ever ahead of a neighbour by more than one: what is kept is bounded.
//!
//! Not here: key and value ([`crate::board`]), operations of `mpi` ([`crate::coll`]), sockets. A driver feeds
//! [`send`](Exchange::send), [`recv`](Exchange::recv), [`enter`](Exchange::enter) and
//! [`hear`](Exchange::hear), and after each takes all of [`poll_action`](Exchange::poll_action).
mod api;
mod letters;
mod message;
mod round;
#[cfg(test)]
mod tests;

pub use api::{
    Action, CHUNK_BYTES_MAX, Call, Collective, ExchangeCounters, ExchangeError, LETTERS_BYTES_MAX,
    LETTERS_MAX, Outcome, RECVS_MAX, ROUND_BYTES_MAX,
};
pub use message::{Body, Chunk, Letter, Message};

use crate::ids::Rank;
use crate::lane::{Admission, Bytes, Generation, Hop, JobId, LaneError, Links, Neighbour, Place, parts};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use letters::Letters;
use round::Round;

/// One node's part of the primitives.
#[derive(Debug)]
pub struct Exchange {
    place: Place,
    links: Links,
    letters: Letters,
    round: Round,
    actions: VecDeque<Action>,
    counters: ExchangeCounters,
}

impl Exchange {
    /// The part of the node that stands at `place`.
    pub fn new(job: JobId, generation: Generation, place: Place) -> Self {
        Exchange {
            links: Links::new(job, generation, &place),
            letters: Letters::new(place.local().len()),
            round: Round::new(place.local().len(), place.children().len()),
            place,
            actions: VecDeque::new(),
            counters: ExchangeCounters::default(),
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What was done so far.
    pub fn counters(&self) -> ExchangeCounters {
        ExchangeCounters { traffic: self.links.traffic, ..self.counters }
    }

    /// Are local processes waiting in a collective operation?
    pub fn in_round(&self) -> bool {
        self.round.muster.has_clients()
    }

    /// A local process sends a letter. It is complete at once.
    pub fn send(&mut self, letter: Letter) -> Result<(), ExchangeError> {
        self.slot(letter.from)?;
        check_bytes(&letter.data)?;
        self.route(letter)
    }

    /// A local process wants the next letter with a tag, from somebody or anybody. `None`: an
    /// [`Action::Received`] will bring it.
    pub fn recv(&mut self, at: Rank, from: Option<Rank>, tag: u32) -> Result<Option<Letter>, ExchangeError> {
        let slot = self.slot(at)?;
        self.letters.recv(slot, from, tag).map_err(|()| ExchangeError::TooManyRecvs(at))
    }

    /// A local process takes part in the next collective operation. An [`Action::Done`] ends it.
    pub fn enter(&mut self, rank: Rank, call: Call) -> Result<(), ExchangeError> {
        let slot = self.slot(rank)?;
        let collective = call.collective();
        self.check_collective(collective)?;
        let chunks = call.into_chunks(rank, self.place.processes())?;
        chunks.iter().try_for_each(|chunk| check_bytes(&chunk.data))?;
        self.round.check_room(&chunks)?;
        if !self.round.muster.client_enters(slot as usize) {
            return Err(ExchangeError::EnteredTwice(rank));
        }
        self.round.collective = Some(collective);
        self.sort(chunks);
        self.close_round()
    }

    /// A message from a neighbour. After an error the link is of no use, but for one generation that is
    /// [ahead](LaneError::Ahead): that message may be offered again to the next generation.
    pub fn hear(&mut self, from: Neighbour, message: Message) -> Result<(), ExchangeError> {
        if self.links.admit(from, message.head)? == Admission::Ignore {
            return Ok(());
        }
        let outcome = match from {
            Neighbour::Parent => self.hear_parent(message.body),
            Neighbour::Child(node) => {
                let child = self.links.child_index(node).ok_or(LaneError::Stranger(from))?;
                self.hear_child(from, child, message.body)
            }
        };
        self.links.traffic.refused += u64::from(outcome.is_err());
        outcome
    }

    fn hear_child(&mut self, from: Neighbour, child: usize, body: Body) -> Result<(), ExchangeError> {
        let below = Some(Hop::Child(child as u32));
        match body {
            Body::Letter(letter) => {
                if self.place.hop(letter.from) != below || self.place.hop(letter.to) == below {
                    return Err(ExchangeError::Misrouted(from));
                }
                self.route(letter)
            }
            Body::Part(chunks) if !self.round.muster.has_child(child) => self.take_up(from, below, chunks),
            Body::Up { round, collective, chunks } => {
                let expected = self.round.muster.number();
                if round != expected || self.round.muster.has_child(child) {
                    return Err(ExchangeError::WrongRound { from, got: round, expected });
                }
                self.check_collective(collective)?;
                self.take_up(from, below, chunks)?;
                self.round.collective = Some(collective);
                self.round.muster.child_enters(child);
                self.close_round()
            }
            _ => Err(ExchangeError::Misplaced(from)),
        }
    }

    fn hear_parent(&mut self, body: Body) -> Result<(), ExchangeError> {
        let from = Neighbour::Parent;
        match body {
            Body::Letter(letter) => {
                if self.place.hop(letter.from) != Some(Hop::Parent)
                    || self.place.hop(letter.to) == Some(Hop::Parent)
                {
                    return Err(ExchangeError::Misrouted(from));
                }
                self.route(letter)
            }
            Body::Part(chunks) if self.round.muster.all_in() => self.take_down(chunks),
            Body::Down { round, chunks } => {
                let expected = self.round.muster.number();
                if round != expected || !self.round.muster.all_in() {
                    return Err(ExchangeError::WrongRound { from, got: round, expected });
                }
                self.take_down(chunks)?;
                self.open_round()
            }
            _ => Err(ExchangeError::Misplaced(from)),
        }
    }

    /// The local number of a process here.
    fn slot(&self, rank: Rank) -> Result<u32, ExchangeError> {
        match self.place.hop(rank) {
            Some(Hop::Here(slot)) => Ok(slot),
            _ => Err(ExchangeError::NotHere(rank)),
        }
    }

    fn check_collective(&self, got: Collective) -> Result<(), ExchangeError> {
        match self.round.collective {
            Some(expected) if expected != got => {
                Err(ExchangeError::Mismatch { round: self.round.muster.number(), got, expected })
            }
            _ => Ok(()),
        }
    }

    // Letters.

    fn route(&mut self, letter: Letter) -> Result<(), ExchangeError> {
        let to = match self.place.hop(letter.to).ok_or(ExchangeError::NoRank(letter.to))? {
            Hop::Parent => Neighbour::Parent,
            Hop::Child(index) => self.links.child(index as usize),
            Hop::Here(slot) => {
                self.counters.letters_delivered += 1;
                let rank = letter.to;
                let received =
                    self.letters.deliver(slot, letter).map_err(|()| ExchangeError::LettersFull(rank))?;
                self.actions.extend(received.map(Action::Received));
                self.counters.letters_peak = self.counters.letters_peak.max(self.letters.waiting() as u64);
                return Ok(());
            }
        };
        self.post(to, Body::Letter(letter));
        Ok(())
    }

    // Collective operations.

    /// Chunks from below: of processes there, for anybody.
    fn take_up(
        &mut self,
        from: Neighbour,
        below: Option<Hop>,
        chunks: Vec<Chunk>,
    ) -> Result<(), ExchangeError> {
        let is_right = |chunk: &Chunk| {
            self.place.hop(chunk.from) == below && chunk.to.is_none_or(|to| self.place.hop(to).is_some())
        };
        if !chunks.iter().all(is_right) {
            return Err(ExchangeError::Misrouted(from));
        }
        self.round.check_room(&chunks)?;
        self.sort(chunks);
        Ok(())
    }

    /// Chunks from above: for processes here and below.
    fn take_down(&mut self, chunks: Vec<Chunk>) -> Result<(), ExchangeError> {
        let is_right = |chunk: &Chunk| {
            let is_here = |to| !matches!(self.place.hop(to), None | Some(Hop::Parent));
            self.place.hop(chunk.from).is_some() && chunk.to.is_none_or(is_here)
        };
        if !chunks.iter().all(is_right) {
            return Err(ExchangeError::Misrouted(Neighbour::Parent));
        }
        self.round.check_room(&chunks)?;
        chunks.into_iter().for_each(|chunk| self.round.stay(chunk));
        Ok(())
    }

    /// Which chunks have to rise?
    fn sort(&mut self, chunks: Vec<Chunk>) {
        for chunk in chunks {
            let is_for_elsewhere = chunk.to.is_none_or(|to| self.place.hop(to) == Some(Hop::Parent));
            if is_for_elsewhere && self.links.has_parent() {
                self.round.rise(chunk);
            } else {
                self.round.stay(chunk);
            }
        }
        self.counters.round_bytes_peak = self.counters.round_bytes_peak.max(self.round.bytes() as u64);
    }

    /// When everybody at and below this node is in: tells the parent, or, at the root, everybody.
    fn close_round(&mut self) -> Result<(), ExchangeError> {
        let (true, Some(collective)) = (self.round.muster.all_in(), self.round.collective) else {
            return Ok(());
        };
        if !self.links.has_parent() {
            return self.open_round();
        }
        let round = self.round.muster.number();
        let rising = self.round.take_rising();
        self.post_list(Neighbour::Parent, rising, |chunks| Body::Up { round, collective, chunks });
        Ok(())
    }

    /// Everybody takes part: chunks go where they belong, and processes go on.
    fn open_round(&mut self) -> Result<(), ExchangeError> {
        let round = self.round.muster.number();
        let unnamed = ExchangeError::WrongRound { from: Neighbour::Parent, got: round, expected: round };
        let collective = self.round.collective.take().ok_or(unnamed)?;
        let chunks = self.round.take_staying();
        for (index, share) in round::shares(&self.place, &chunks).into_iter().enumerate() {
            self.post_list(self.links.child(index), share, |chunks| Body::Down { round, chunks });
        }
        let outcomes = round::outcomes(collective, &self.place, &chunks)
            .ok_or(ExchangeError::Incomplete { round, collective })?;
        self.round.muster.next();
        self.counters.rounds += 1;
        for (rank, outcome) in self.place.local().iter().zip(outcomes) {
            self.actions.push_back(Action::Done { rank: *rank, outcome });
        }
        Ok(())
    }

    /// Sends a list in parts, the last of them in the message that `end` makes.
    fn post_list(&mut self, to: Neighbour, chunks: Vec<Chunk>, end: impl FnOnce(Vec<Chunk>) -> Body) {
        let mut parts = parts(chunks, Chunk::encoded_bytes);
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            self.post(to, Body::Part(part));
        }
        self.post(to, end(last));
    }

    fn post(&mut self, to: Neighbour, body: Body) {
        let head = self.links.stamp(to, body.encoded_bytes());
        self.actions.push_back(Action::Send(to, Message { head, body }));
    }
}

fn check_bytes(data: &Bytes) -> Result<(), ExchangeError> {
    if data.len() <= CHUNK_BYTES_MAX { Ok(()) } else { Err(ExchangeError::TooLong(data.len())) }
}
