//! What is known of a job when it is over.
use super::cause::Cause;
use crate::matrix::Matrix;
use crate::recording::{PatternReport, Told};
use crate::traffic::Traffic;
use proto::board::BoardKind;
use proto::ids::NodeId;
use proto::lane::JobId;
use proto::stats::Stat;
use std::time::Duration;

/// When the steps of starting and ending a job were done, since it began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases {
    /// All agents are there.
    pub agents: Duration,
    /// All ranks have been started.
    pub started: Duration,
    /// All ranks have ended, or the end was ordered.
    pub ended: Duration,
    /// Everything is cleaned up.
    pub total: Duration,
}

/// What the board of one job on one node has counted.
#[derive(Clone, Debug)]
pub struct NodeBoard {
    /// The node.
    pub node: NodeId,
    /// The job.
    pub job: JobId,
    /// Its counters.
    pub(crate) values: Vec<u64>,
}

/// What the data server of a job on one node has counted.
#[derive(Clone, Debug)]
pub struct NodeServer {
    /// The node.
    pub node: NodeId,
    /// The job.
    pub job: JobId,
    /// Its counters, in the order of [`proto::stats::Stat::ALL`].
    pub values: Vec<u64>,
}

/// What the boards have counted.
#[derive(Clone, Debug, Default)]
pub struct BoardReport {
    /// How puts travel and where gets find them.
    pub kind: BoardKind,
    /// By node and job.
    pub nodes: Vec<NodeBoard>,
}

/// What a counter came to, over many ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) sum: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
}

/// What ranks of spawned jobs have counted, together: a program may spawn for ever.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spawned {
    /// Ranks that have counted.
    pub(crate) ranks: usize,
    /// By [`Stat`]; nothing before the first rank.
    extents: Vec<Extent>,
}

impl Spawned {
    /// Adds a rank that ended; one without counters uses another library.
    pub(crate) fn add(&mut self, values: &[u64]) {
        if values.len() < Stat::ALL.len() {
            return;
        }
        self.ranks += 1;
        if self.extents.is_empty() {
            self.extents = values.iter().map(|&value| Extent { sum: 0, min: value, max: value }).collect();
        }
        for (extent, &value) in self.extents.iter_mut().zip(values) {
            extent.sum = extent.sum.saturating_add(value);
            (extent.min, extent.max) = (extent.min.min(value), extent.max.max(value));
        }
    }

    /// Of one counter.
    pub(crate) fn of(&self, stat: Stat) -> Option<Extent> {
        self.extents.get(stat as usize).copied()
    }
}

/// How a job went.
#[derive(Clone, Debug, Default)]
pub struct JobReport {
    /// The exit code of `banyan run`.
    pub exit_code: i32,
    /// Why the job was ended, if it did not end by itself.
    pub cause: Option<Cause>,
    /// Ranks of the job.
    pub ranks: u32,
    /// Nodes of the job.
    pub nodes: u32,
    /// Counters by rank, in the order of [`proto::stats::Stat::ALL`]; empty for a rank that counted nothing (it uses
    /// another library) or was never reaped.
    pub stats: Vec<Vec<u64>>,
    /// Counters of spawned jobs.
    pub(crate) spawned: Spawned,
    /// Who was connected to whom in the first job, where that was asked for.
    pub matrix: Option<Matrix>,
    /// How many bytes went between its ranks, where the matrix was asked for.
    pub(crate) traffic: Traffic,
    /// What ranks of the first job have told of their first contacts.
    pub(crate) told: Told,
    /// What a pattern was good for, where there was one.
    pub pattern: Option<PatternReport>,
    /// What boards have counted, where that was asked for.
    pub board: BoardReport,
    /// What data servers have counted, where there are any.
    pub servers: Vec<NodeServer>,
    /// Times of start-up and end.
    pub phases: Phases,
    /// Captured standard output.
    pub stdout: Vec<u8>,
    /// Captured standard error, with the launcher's own words.
    pub stderr: Vec<u8>,
}
