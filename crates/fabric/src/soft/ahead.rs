//! Queue pairs for everybody, made before anybody has asked. A process that has none yet gives them rings in a row, so that the
//! place in that row tells where a ring is: two words and the numbers of the queue pairs are all that peers need.
use super::memory::RING_SIZES;
use super::{RingParams, Soft};
use crate::provider::{Ahead, Provider};
use crate::qp::Qp;
use proto::ids::QpNum;
use proto::wireup::Params;
use sys::node::QpClaim;
use sys::segment::packed_place;

impl Soft {
    /// A queue pair that was made before it was needed, if there is one that may be used for that.
    pub(super) fn take_kept(&mut self, claim: QpClaim) -> Option<Qp> {
        let qp = *self.kept.last()?;
        let attempt = claim != QpClaim::Answer;
        if attempt && !self.node.begin_attempt(self.slot) {
            return None;
        }
        self.kept.pop();
        self.entry_mut(qp)?.attempt = attempt;
        Some(qp)
    }

    /// As many of them as there are, so many at a time; in the order of their numbers.
    fn make_many(&mut self, count: usize, threads: usize) -> Vec<(Qp, u32)> {
        let mut qps = Vec::with_capacity(count);
        while qps.len() < count {
            let at_once = threads.clamp(1, count - qps.len());
            let made = std::iter::from_fn(|| self.make(QpClaim::Attempt).ok()).take(at_once);
            let made: Vec<_> = made.collect();
            self.imitation.create(&self.node, made.len());
            let enough = made.len() == at_once;
            qps.extend(made.into_iter().filter_map(|qp| Some((qp, self.entry(qp)?.num.0))));
            if !enough {
                break;
            }
        }
        qps.sort_by_key(|(_, number)| *number);
        qps
    }

    /// The same with their rings, wherever those are.
    pub(super) fn make_together(&mut self, count: usize, threads: usize) -> Vec<(Qp, Params)> {
        let mut made = Vec::with_capacity(count);
        for (qp, _) in self.make_many(count, threads) {
            match self.open_inbound(qp) {
                Ok(opened) => made.push((qp, opened.to_params())),
                Err(_) => self.destroy(qp), // no memory: the rest is told in the usual way
            }
        }
        made
    }

    /// The same with rings in a row.
    pub(super) fn make_ahead(&mut self, count: usize, threads: usize) -> Option<Ahead> {
        let mut qps = self.make_many(count, threads);
        let mut facts = [0; 2];
        for place in 0..qps.len() {
            let (qp, number) = qps[place];
            let opened = self.open_inbound(qp).ok();
            if let Some(first) = opened.filter(|_| place == 0) {
                facts = [first.ring_offset, first.ring.into()];
            }
            // In a row, or nobody could tell.
            let told = params(facts, place as u32, number);
            if opened.is_none() || opened.map(|opened| opened.to_params()) != told {
                qps.drain(place..).for_each(|(qp, _)| self.destroy(qp));
                break;
            }
        }
        Some(Ahead { qps, facts })
    }
}

/// What a peer needs to connect to the queue pair that is at a place of that row.
pub(super) fn params(facts: [u64; 2], place: u32, number: u32) -> Option<Params> {
    let bytes = RING_SIZES[0];
    let ring = u32::try_from(facts[1]).ok()?.checked_add(place)?;
    let ring_offset = facts[0].checked_add(packed_place(place as usize, bytes))?;
    let params = RingParams {
        num: QpNum(number),
        ring,
        ring_offset,
        ring_bytes: bytes as u32,
        early_bytes: 0,
        early_offset: 0,
    };
    Some(params.to_params())
}
