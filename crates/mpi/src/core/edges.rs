//! How processes learn of their edges in a distributed graph when others name them.
//!
//! Nobody knows how many messages come. Each process sends what it has to tell with synchronous sends, and enters a
//! barrier when all of them have been received; behind the barrier nothing more can come. That costs a message for each
//! pair that has something to tell, and a barrier; a table by rank, as an all-to-all needs it, would cost every process
//! the size of the job.
use super::collective::{Advance, Collective};
use super::graph::{Distributed, GraphEdge};
use crate::buffer::Scratch;
use crate::error::{MpiError, Result};
use net::{Endpoint, Envelope, Pattern, Process, ReqId, SendMode};
use std::collections::BTreeMap;

/// An edge as it is told to one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Is the process that is told the receiver?
    pub(super) incoming: bool,
    /// The other end.
    pub(super) peer: u32,
    pub(super) weight: i32,
}

const WORD: usize = size_of::<u64>();
/// Words of an edge in a message.
const EDGE_WORDS: usize = 2;
const INCOMING: u64 = 1 << 32;

impl Told {
    fn words(self) -> [u64; EDGE_WORDS] {
        let direction = if self.incoming { INCOMING } else { 0 };
        [direction | u64::from(self.peer), u64::from(self.weight as u32)]
    }

    fn parse([place, weight]: [u64; EDGE_WORDS]) -> Self {
        Told { incoming: place & INCOMING != 0, peer: place as u32, weight: weight as u32 as i32 }
    }
}

/// The exchange, as one process sees it.
pub(super) struct Edges {
    /// What is still to be sent, by rank.
    untold: BTreeMap<u32, Vec<Told>>,
    sends: Vec<(ReqId, Scratch)>,
    receives: Vec<(ReqId, Scratch, Option<Process>)>,
    /// By the rank of who told: the order in which messages arrive must not be seen.
    heard: BTreeMap<u32, Vec<Told>>,
    barrier: Box<Collective>,
    tag: i32,
    weighted: bool,
    failed: Option<MpiError>,
}

impl Edges {
    /// `barrier` has not begun; messages carry `tag`.
    pub(super) fn new(barrier: Box<Collective>, tag: i32, edges: &[GraphEdge], weighted: bool) -> Self {
        let mut untold: BTreeMap<u32, Vec<Told>> = BTreeMap::new();
        for GraphEdge { source, dest, weight } in edges {
            let (source, dest) = (*source as u32, *dest as u32);
            untold.entry(source).or_default().push(Told { incoming: false, peer: dest, weight: *weight });
            untold.entry(dest).or_default().push(Told { incoming: true, peer: source, weight: *weight });
        }
        let me = barrier.roster.rank;
        let own = untold.remove(&me).map(|told| (me, told));
        let (sends, receives, heard) = (Vec::new(), Vec::new(), own.into_iter().collect());
        Edges { untold, sends, receives, heard, barrier, tag, weighted, failed: None }
    }

    /// Goes on as far as possible; the edges of this process when all are known. After an error nothing is under way
    /// that uses memory of this object.
    pub(super) fn advance(&mut self, endpoint: &mut Endpoint) -> Result<Option<Distributed>> {
        self.tell(endpoint);
        self.listen(endpoint);
        self.finish_sends(endpoint);
        if !self.sends.is_empty() {
            return Ok(None);
        }
        if self.failed.is_none() {
            if self.barrier.advance(endpoint) != Advance::Done {
                return Ok(None);
            }
            self.barrier.status()?;
            // What was told before the last one entered the barrier has arrived.
            self.listen(endpoint);
        }
        if !self.receives.is_empty() {
            return Ok(None);
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let told: Vec<Told> = std::mem::take(&mut self.heard).into_values().flatten().collect();
        Ok(Some(Distributed::from_told(&told, self.weighted)))
    }

    fn tell(&mut self, endpoint: &mut Endpoint) {
        let envelope = Envelope { context: self.barrier.context, tag: self.tag };
        while let Some((rank, told)) = self.untold.pop_first() {
            let bytes = told.len() * EDGE_WORDS * WORD;
            let mut message = Scratch::with(bytes);
            for (at, word) in told.iter().flat_map(|edge| edge.words()).enumerate() {
                message.set_word(at, word);
            }
            let (to, from) = (self.barrier.roster.members.at(rank), message.part(bytes).as_source());
            match endpoint.isend(to, envelope, from, SendMode::Synchronous) {
                Ok(None) => {}
                Ok(Some(id)) => self.sends.push((id, message)),
                Err(error) => self.failed = Some(error.into()),
            }
        }
    }

    fn finish_sends(&mut self, endpoint: &mut Endpoint) {
        let failed = &mut self.failed;
        self.sends.retain(|(id, _)| {
            let Some(outcome) = endpoint.take(*id) else { return true };
            if let Err(error) = outcome {
                *failed = Some(error.into());
            }
            false
        });
    }

    fn listen(&mut self, endpoint: &mut Endpoint) {
        let pattern = Pattern::<Process> { context: self.barrier.context, source: None, tag: Some(self.tag) };
        while let Ok(Some((message, probed))) = endpoint.improbe(pattern) {
            let mut room = Scratch::with(probed.bytes);
            let id = endpoint.imrecv(message, room.part(probed.bytes));
            self.receives.push((id, room, endpoint.process_of(probed.source)));
        }
        let mut index = 0;
        while index < self.receives.len() {
            let Some(outcome) = endpoint.take(self.receives[index].0) else {
                index += 1;
                continue;
            };
            let (_, room, source) = self.receives.swap_remove(index);
            match outcome {
                Ok(outcome) => self.hear(source, &room, outcome.bytes / WORD),
                Err(error) => self.failed = Some(error.into()),
            }
        }
    }

    fn hear(&mut self, source: Option<Process>, message: &Scratch, words: usize) {
        let rank = source.and_then(|process| self.barrier.roster.members.rank_of(process));
        let edge =
            |at: usize| Told::parse([message.word(EDGE_WORDS * at), message.word(EDGE_WORDS * at + 1)]);
        let told = (0..words / EDGE_WORDS).map(edge);
        self.heard.entry(rank.unwrap_or(u32::MAX)).or_default().extend(told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_survives_the_message() {
        for (incoming, peer, weight) in [(true, 0, 0), (false, u32::MAX, i32::MAX), (true, 7, -1)] {
            let told = Told { incoming, peer, weight };
            assert_eq!(Told::parse(told.words()), told);
        }
    }
}
