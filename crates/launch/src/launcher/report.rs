//! What is known of a job when it is over.
use super::cause::Cause;
use crate::matrix::Matrix;
use proto::board::BoardKind;
use proto::ids::NodeId;
use proto::lane::JobId;
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

/// What the boards have counted.
#[derive(Clone, Debug, Default)]
pub struct BoardReport {
    /// How puts travel and where gets find them.
    pub kind: BoardKind,
    /// By node and job.
    pub nodes: Vec<NodeBoard>,
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
    /// another library) or was never reaped. Ranks of spawned jobs follow as they ended.
    pub stats: Vec<Vec<u64>>,
    /// Who was connected to whom in the first job, where that was asked for.
    pub matrix: Option<Matrix>,
    /// What boards have counted, where that was asked for.
    pub board: BoardReport,
    /// Times of start-up and end.
    pub phases: Phases,
    /// Captured standard output.
    pub stdout: Vec<u8>,
    /// Captured standard error, with the launcher's own words.
    pub stderr: Vec<u8>,
}
