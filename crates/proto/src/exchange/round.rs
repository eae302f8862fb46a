//! The current collective operation of a node, and what its processes have of it.
use super::{Chunk, Collective, ExchangeError, Outcome, ROUND_BYTES_MAX};
use crate::ids::Rank;
use crate::lane::{Bytes, Hop, Muster, Place};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

#[derive(Debug)]
pub(super) struct Round {
    pub(super) muster: Muster,
    /// What it is, once somebody has said so.
    pub(super) collective: Option<Collective>,
    /// For processes elsewhere.
    rising: Vec<Chunk>,
    /// For processes here or below.
    staying: Vec<Chunk>,
    bytes: usize,
}

impl Round {
    pub(super) fn new(clients: usize, children: usize) -> Self {
        let muster = Muster::new(clients, children);
        Round { muster, collective: None, rising: Vec::new(), staying: Vec::new(), bytes: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn check_room(&self, chunks: &[Chunk]) -> Result<(), ExchangeError> {
        let wanted = chunks.iter().map(Chunk::encoded_bytes).sum();
        if self.bytes + wanted <= ROUND_BYTES_MAX {
            return Ok(());
        }
        Err(ExchangeError::RoundFull { used: self.bytes, wanted })
    }

    pub(super) fn rise(&mut self, chunk: Chunk) {
        self.bytes += chunk.encoded_bytes();
        self.rising.push(chunk);
    }

    pub(super) fn stay(&mut self, chunk: Chunk) {
        self.bytes += chunk.encoded_bytes();
        self.staying.push(chunk);
    }

    pub(super) fn take_rising(&mut self) -> Vec<Chunk> {
        self.bytes -= self.rising.iter().map(Chunk::encoded_bytes).sum::<usize>();
        core::mem::take(&mut self.rising)
    }

    pub(super) fn take_staying(&mut self) -> Vec<Chunk> {
        self.bytes -= self.staying.iter().map(Chunk::encoded_bytes).sum::<usize>();
        core::mem::take(&mut self.staying)
    }
}

/// What goes down to each child.
pub(super) fn shares(place: &Place, chunks: &[Chunk]) -> Vec<Vec<Chunk>> {
    let mut shares = vec![Vec::new(); place.children().len()];
    for chunk in chunks {
        match chunk.to.map(|to| place.hop(to)) {
            None => shares.iter_mut().for_each(|share| share.push(chunk.clone())),
            Some(Some(Hop::Child(index))) => shares[index as usize].push(chunk.clone()),
            Some(_) => {}
        }
    }
    shares
}

/// What each local process has of an operation; `None` if something is missing.
pub(super) fn outcomes(collective: Collective, place: &Place, chunks: &[Chunk]) -> Option<Vec<Outcome>> {
    let processes = place.processes() as usize;
    let for_all = || chunks.iter().filter(|chunk| chunk.to.is_none());
    match collective {
        Collective::Barrier => Some(vec![Outcome::Nothing; place.local().len()]),
        Collective::Broadcast { root } => {
            let data = &for_all().find(|chunk| chunk.from == root)?.data;
            Some(vec![Outcome::One(data.clone()); place.local().len()])
        }
        Collective::Allgather => {
            let all = in_order(for_all(), processes)?;
            Some(vec![Outcome::Many(all); place.local().len()])
        }
        Collective::Gather { root } => {
            let at_root = |rank: Rank, own: &[&Chunk]| match rank == root {
                true => in_order(own.iter().copied(), processes).map(Outcome::Many),
                false => Some(Outcome::Nothing),
            };
            by_receiver(place, chunks, at_root)
        }
        Collective::Scatter { root } => by_receiver(place, chunks, |_, own| {
            own.iter().find(|chunk| chunk.from == root).map(|chunk| Outcome::One(chunk.data.clone()))
        }),
        Collective::Alltoall => {
            by_receiver(place, chunks, |_, own| in_order(own.iter().copied(), processes).map(Outcome::Many))
        }
    }
}

/// Deals chunks out to the local processes they are for, and asks what each has of them.
fn by_receiver(
    place: &Place,
    chunks: &[Chunk],
    outcome: impl Fn(Rank, &[&Chunk]) -> Option<Outcome>,
) -> Option<Vec<Outcome>> {
    let mut inboxes: Vec<Vec<&Chunk>> = vec![Vec::new(); place.local().len()];
    for chunk in chunks {
        if let Some(Hop::Here(slot)) = chunk.to.and_then(|to| place.hop(to)) {
            inboxes[slot as usize].push(chunk);
        }
    }
    place.local().iter().zip(&inboxes).map(|(rank, own)| outcome(*rank, own)).collect()
}

/// One chunk of each process, in order of rank.
fn in_order<'c>(chunks: impl Iterator<Item = &'c Chunk>, processes: usize) -> Option<Arc<[Bytes]>> {
    let mut slots: Vec<Option<Bytes>> = vec![None; processes];
    for chunk in chunks {
        *slots.get_mut(chunk.from.index())? = Some(chunk.data.clone());
    }
    slots.into_iter().collect()
}
