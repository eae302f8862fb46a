//! How a job ends: what counts as a failure, which one was first, and the exit code. Pure.
use crate::placement::Placement;
use proto::ids::{NodeId, Rank};
use proto::tree::{Ended, PmiState};
use std::fmt;
use std::time::Duration;
use sys::signal::signal_text;

/// The exit code after a time-out, as `timeout` of the GNU tools has it.
const EXIT_TIMEOUT: i32 = 124;

/// A rank, as messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// Its number.
    pub rank: Rank,
    /// Its process.
    pub pid: i32,
    /// Its node.
    pub node: NodeId,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} (pid {}, node {})", self.rank, self.pid, self.node)
    }
}

/// Why a job was ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A signal killed a rank.
    Killed(Who, i32),
    /// A rank that had begun PMI exited with this code.
    Failed(Who, i32),
    /// A rank exited with code 0 between PMI init and finalize.
    LeftEarly(Who),
    /// A rank ended without ever beginning PMI, and this one waits for it in a barrier for ever.
    NeverJoined(Who, Ended, Rank),
    /// A rank asked for the end.
    Aborted(Who, i32, String),
    /// A rank broke the PMI protocol.
    BadPmi(Who, String),
    /// A rank could not be started: the system's words, and the exit code.
    StartFailed(Rank, NodeId, String, i32),
    /// An agent is gone.
    AgentLost(NodeId, i32, Ended),
    /// An agent gave up.
    AgentFailed(NodeId, String),
    /// The warden is gone.
    WardenLost(i32, Ended),
    /// The launcher got a signal.
    Signalled(i32),
    /// Nobody reads the output any more.
    OutputClosed,
    /// A file for output of ranks cannot be written.
    OutputFile(String),
    /// The job took longer than it may.
    TimedOut(Duration),
}

impl Cause {
    /// Its part in the exit code of the job; never 0.
    pub fn exit_code(&self) -> i32 {
        match self {
            Cause::Killed(_, signal) | Cause::Signalled(signal) => 128 + signal,
            Cause::Failed(_, code) => (*code).max(1),
            Cause::NeverJoined(_, ended, _) => code_of(*ended).max(1),
            Cause::LeftEarly(_) | Cause::BadPmi(..) | Cause::AgentFailed(..) | Cause::OutputFile(_) => 1,
            Cause::Aborted(_, code, _) => (code & 255).max(1),
            Cause::StartFailed(_, _, _, code) => *code,
            Cause::AgentLost(_, _, ended) | Cause::WardenLost(_, ended) => code_of(*ended).max(1),
            Cause::OutputClosed => 128 + sys::signal::SIGPIPE,
            Cause::TimedOut(_) => EXIT_TIMEOUT,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Killed(who, signal) => {
                write!(f, "{who} was killed by signal {signal} ({})", signal_text(*signal))
            }
            Cause::Failed(who, code) => write!(f, "{who} exited with code {code}"),
            Cause::LeftEarly(who) => write!(f, "{who} exited with code 0 but without MPI_Finalize"),
            Cause::NeverJoined(who, ended, waiting) => {
                write!(f, "{who} {} before MPI_Init, and rank {waiting} waits for it", Words(*ended))
            }
            Cause::Aborted(who, code, message) => {
                write!(f, "{who} called MPI_Abort with code {code}")?;
                if message.is_empty() || message == "abort" { Ok(()) } else { write!(f, ": {message}") }
            }
            Cause::BadPmi(who, reason) => write!(f, "{who} broke the PMI protocol: {reason}"),
            Cause::StartFailed(rank, node, reason, _) => {
                write!(f, "rank {rank} could not be started on node {node}: {reason}")
            }
            Cause::AgentLost(node, pid, ended) => {
                write!(f, "the agent of node {node} (pid {pid}) died: {}", Words(*ended))
            }
            Cause::AgentFailed(node, reason) => write!(f, "the agent of node {node} failed: {reason}"),
            Cause::WardenLost(pid, ended) => write!(f, "the warden (pid {pid}) died: {}", Words(*ended)),
            Cause::Signalled(signal) => write!(f, "got signal {signal} ({})", signal_text(*signal)),
            Cause::OutputClosed => f.write_str("standard output was closed"),
            Cause::OutputFile(reason) => f.write_str(reason),
            Cause::TimedOut(limit) => write!(f, "the job took longer than {} s", limit.as_secs()),
        }
    }
}

struct Words(Ended);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ended::Exit(code) => write!(f, "exited with code {code}"),
            Ended::Signal(signal) => write!(f, "killed by signal {signal} ({})", signal_text(signal)),
        }
    }
}

fn code_of(ended: Ended) -> i32 {
    match ended {
        Ended::Exit(code) => code,
        Ended::Signal(signal) => 128 + signal,
    }
}

/// What the launcher should do after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Go on.
    Wait,
    /// A rank failed after it was done with MPI. The others are probably about to end by themselves: give
    /// them a moment, so that their codes count, then call [`Outcome::settle`].
    Settle,
    /// All ranks have ended: finish.
    Finish,
    /// End the job: [`Outcome::cause`] says why.
    End,
}

/// The record of a job's ranks.
#[derive(Debug)]
pub(crate) struct Outcome {
    placement: Placement,
    ended: u32,
    worst: i32,
    cause: Option<Cause>,
    settling: Option<Cause>,
    /// The first rank that ended without ever beginning PMI.
    outsider: Option<(Who, Ended)>,
    /// A rank that waits, or has waited, in a barrier of the whole job.
    waiting: Option<Rank>,
}

impl Outcome {
    pub(crate) fn new(placement: Placement) -> Self {
        Outcome { placement, ended: 0, worst: 0, cause: None, settling: None, outsider: None, waiting: None }
    }

    pub(crate) fn who(&self, rank: Rank, pid: i32) -> Who {
        Who { rank, pid, node: self.placement.node_of(rank) }
    }

    /// Why the job was ended, if it was.
    pub(crate) fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// The job's exit code.
    pub(crate) fn exit_code(&self) -> i32 {
        match &self.cause {
            Some(cause @ (Cause::Signalled(_) | Cause::TimedOut(_))) => cause.exit_code(),
            Some(cause) => self.worst.max(cause.exit_code()),
            None => self.worst,
        }
    }

    /// Something ends the job. Only the first cause counts.
    pub(crate) fn fail(&mut self, cause: Cause) -> Step {
        if self.cause.is_some() {
            return Step::Wait;
        }
        self.cause = Some(cause);
        Step::End
    }

    /// A rank ended.
    pub(crate) fn rank_ended(&mut self, who: Who, ended: Ended, pmi: PmiState) -> Step {
        self.ended += 1;
        if self.cause.is_some() {
            return Step::Wait; // clean-up has begun: what it does to ranks does not count
        }
        self.worst = self.worst.max(code_of(ended));
        let all_ended = self.ended == self.placement.ranks();
        match (ended, pmi) {
            (Ended::Signal(signal), _) => self.fail(Cause::Killed(who, signal)),
            (Ended::Exit(0), PmiState::Active) if !all_ended => self.fail(Cause::LeftEarly(who)),
            (Ended::Exit(code), PmiState::Active) if code != 0 => self.fail(Cause::Failed(who, code)),
            _ if all_ended => Step::Finish,
            (_, PmiState::Unused) => {
                self.outsider.get_or_insert((who, ended));
                self.check_joined()
            }
            (Ended::Exit(code), PmiState::Finalized) if code != 0 => {
                self.settling.get_or_insert(Cause::Failed(who, code));
                Step::Settle
            }
            _ => Step::Wait,
        }
    }

    /// A rank waits in a barrier.
    pub(crate) fn fence_begun(&mut self, rank: Rank) -> Step {
        self.waiting.get_or_insert(rank);
        self.check_joined()
    }

    /// A barrier needs all ranks: with one that is gone and never joined, it cannot end.
    fn check_joined(&mut self) -> Step {
        match (self.outsider, self.waiting) {
            (Some((who, ended)), Some(waiting)) => self.fail(Cause::NeverJoined(who, ended, waiting)),
            _ => Step::Wait,
        }
    }

    /// The moment given by [`Step::Settle`] is over.
    pub(crate) fn settle(&mut self) -> Step {
        match self.settling.take() {
            Some(cause) => self.fail(cause),
            None => Step::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(ranks: u32) -> Outcome {
        Outcome::new(Placement::new(ranks, 2))
    }

    fn end(outcome: &mut Outcome, rank: u32, ended: Ended, pmi: PmiState) -> Step {
        let who = outcome.who(Rank(rank), 100 + rank as i32);
        outcome.rank_ended(who, ended, pmi)
    }

    #[test]
    fn the_exit_code_is_the_maximum() {
        let mut job = outcome(4);
        for (rank, code, step) in
            [(0, 0, Step::Wait), (1, 3, Step::Wait), (2, 2, Step::Wait), (3, 0, Step::Finish)]
        {
            assert_eq!(end(&mut job, rank, Ended::Exit(code), PmiState::Unused), step);
        }
        assert_eq!((job.exit_code(), job.cause()), (3, None));
    }

    #[test]
    fn a_signal_ends_the_job_and_what_clean_up_does_is_not_counted() {
        let mut job = outcome(4);
        assert_eq!(end(&mut job, 3, Ended::Signal(11), PmiState::Unused), Step::End);
        assert_eq!(end(&mut job, 0, Ended::Signal(15), PmiState::Active), Step::Wait);
        assert_eq!(job.exit_code(), 139);
        let text = job.cause().unwrap().to_string();
        assert_eq!(text, "rank 3 (pid 103, node 1) was killed by signal 11 (Segmentation fault)");
    }

    #[test]
    fn a_failure_inside_mpi_ends_the_job_but_a_plain_program_just_exits() {
        let mut job = outcome(2);
        assert_eq!(end(&mut job, 0, Ended::Exit(5), PmiState::Unused), Step::Wait);
        let mut job = outcome(2);
        assert_eq!(end(&mut job, 0, Ended::Exit(5), PmiState::Active), Step::End);
        assert_eq!(job.exit_code(), 5);
    }

    #[test]
    fn leaving_without_finalize_is_an_error_while_others_run() {
        let mut job = outcome(2);
        assert_eq!(end(&mut job, 0, Ended::Exit(0), PmiState::Active), Step::End);
        assert_eq!(job.exit_code(), 1);
    }

    #[test]
    fn codes_after_finalize_are_collected_for_a_moment() {
        let mut job = outcome(3);
        assert_eq!(end(&mut job, 0, Ended::Exit(1), PmiState::Finalized), Step::Settle);
        assert_eq!(end(&mut job, 1, Ended::Exit(2), PmiState::Finalized), Step::Settle);
        assert_eq!(job.settle(), Step::End);
        assert_eq!(job.exit_code(), 2);
    }

    #[test]
    fn an_abort_is_never_zero() {
        for (code, expected) in [(7, 7), (0, 1), (256, 1), (-1, 255)] {
            let mut job = outcome(2);
            let who = job.who(Rank(0), 1);
            assert_eq!(job.fail(Cause::Aborted(who, code, String::new())), Step::End);
            assert_eq!(job.exit_code(), expected);
        }
    }

    #[test]
    fn a_rank_that_ends_before_init_does_not_keep_the_others_waiting() {
        let mut job = outcome(3);
        assert_eq!(end(&mut job, 1, Ended::Exit(0), PmiState::Unused), Step::Wait);
        assert_eq!(job.fence_begun(Rank(2)), Step::End);
        assert_eq!(job.exit_code(), 1);
        let text = job.cause().unwrap().to_string();
        assert_eq!(
            text,
            "rank 1 (pid 101, node 0) exited with code 0 before MPI_Init, and rank 2 waits for it"
        );
        let mut job = outcome(3);
        assert_eq!(job.fence_begun(Rank(2)), Step::Wait);
        assert_eq!(end(&mut job, 1, Ended::Exit(127), PmiState::Unused), Step::End);
        assert_eq!(job.exit_code(), 127);
    }

    #[test]
    fn only_the_first_cause_counts() {
        let mut job = outcome(2);
        assert_eq!(job.fail(Cause::Signalled(2)), Step::End);
        assert_eq!(job.fail(Cause::OutputClosed), Step::Wait);
        assert_eq!(job.exit_code(), 130);
    }
}
