//! What the processes of a node and their agent know of each other, through the node's segment: queue pairs that one lacks, whose
//! turn it is to make some, counters, first contacts.
use super::Context;
use crate::qp::ProviderKind;
use std::time::Duration;
use sys::node::{QpWant, Ties};

impl Context {
    /// Waits until the processes of the node that come before this one have made their queue pairs, at most so long. Have they?
    pub fn wait_turn(&self, most: Duration) -> bool {
        self.soft.wait_turn(most)
    }

    /// This process has made its own.
    pub fn end_turn(&self) {
        self.soft.end_turn();
    }

    /// Says to the other processes of the node that this one lacks a queue pair, or does not any more.
    pub fn want_qp(&self, want: Option<QpWant>) {
        self.soft.want_qp(want);
    }

    /// Queue pairs of the device that are kept for answers.
    pub fn kept_qps(&self) -> u32 {
        self.soft.kept_qps()
    }

    /// The slots of other processes of the node that lack a queue pair.
    pub fn wanting(&self) -> Vec<(u32, QpWant)> {
        self.soft.wanting()
    }

    /// The slots of the other processes of the node, and how many queue pairs each has.
    pub fn holding(&self) -> Vec<(u32, u32)> {
        self.soft.holding()
    }

    /// Does another process of the node lack a queue pair? While none does, this is one load.
    pub fn qp_wanted(&self) -> bool {
        self.soft.qp_wanted()
    }

    /// Sets a counter in this process's slot of the node's segment.
    pub fn publish_stat(&self, index: usize, value: u64) {
        self.soft.publish_stat(index, value);
    }

    /// Says what this process has to do with other jobs: its agent looks when it ends badly.
    pub fn set_ties(&self, ties: Ties) {
        self.soft.set_ties(ties);
    }

    /// Jobs that have come to a bad end, after the first `seen` of them, as the agent has heard of it.
    pub fn lost_jobs(&self, seen: &mut u32) -> Vec<u64> {
        self.soft.lost_jobs(seen)
    }

    /// Notes that this process is connected to a rank of its job, for those who asked to be told at the end.
    pub fn note_met(&self, rank: u32, kind: ProviderKind) {
        self.soft.note_met(rank, kind);
    }

    /// The number of the last question of the agent where its processes are; 0 if it has not asked. Costs one load.
    #[inline]
    pub fn asked(&self) -> u32 {
        self.soft.segment_of_node().asked()
    }

    /// Answers it.
    pub fn answer(&self, ask: u32, answer: &[u8]) {
        let (node, slot) = self.soft.place();
        node.answer(slot, ask, answer);
    }

    /// Does anybody want to know how many bytes went to each rank?
    pub fn records_traffic(&self) -> bool {
        self.soft.segment_of_node().records().traffic
    }

    /// Notes how many bytes went between this process and a rank of its job.
    pub fn note_traffic(&self, rank: u32, bytes: sys::node::PairBytes) {
        let (node, slot) = self.soft.place();
        node.note_traffic(slot, rank, bytes);
    }

    /// Does anybody want to know with whom this process had to do first?
    pub fn records_contacts(&self) -> bool {
        self.soft.records_contacts()
    }

    /// Notes the first contact with a rank of this process's job, for those who asked to be told at the end.
    pub fn note_contact(&self, rank: u32, when_ms: u32) {
        self.soft.note_contact(rank, when_ms);
    }

    /// A counter in this process's slot.
    pub fn published_stat(&self, index: usize) -> u64 {
        self.soft.published_stat(index)
    }
}
