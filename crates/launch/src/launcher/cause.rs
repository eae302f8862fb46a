//! Why a job was ended before its time: the words for it, and its part in the exit code. Pure.
use proto::ids::{NodeId, Rank};
use proto::lane::JobId;
use proto::tree::{Ended, Member};
use std::fmt;
use std::time::Duration;
use sys::signal::signal_text;

/// The exit code after a time-out, as `timeout` of the GNU tools has it.
const EXIT_TIMEOUT: i32 = 124;

/// A node, as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Its number in the tree.
    pub node: NodeId,
    /// Its host, if nodes are hosts.
    pub host: Option<String>,
}

impl Spot {
    /// In one word.
    pub(crate) fn short(&self) -> String {
        self.host.clone().unwrap_or_else(|| format!("node{}", self.node))
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(f, "host {host}"),
            None => write!(f, "node {}", self.node),
        }
    }
}

/// A rank, as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Its job and number.
    pub member: Member,
    /// Its process; 0 where that is not known.
    pub pid: i32,
    /// Where it is.
    pub spot: Spot,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            0 => write!(f, "{} ({})", self.member, self.spot),
            pid => write!(f, "{} (pid {pid}, {})", self.member, self.spot),
        }
    }
}

/// Why a job was ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A signal killed a rank.
    Killed(Who, i32),
    /// A rank that had begun PMI exited with this code.
    Failed(Who, i32),
    /// A rank exited with code 0 between PMI init and finalize, and so did these others.
    LeftEarly(Who, Vec<Rank>),
    /// A rank ended without ever beginning PMI, and this one waits for it in a barrier for ever.
    NeverJoined(Who, Ended, Member),
    /// A rank asked for the end.
    Aborted(Who, i32, String),
    /// A rank broke the PMI protocol.
    BadPmi(Who, String),
    /// A rank could not be started: the system's words, and the exit code.
    StartFailed(Member, Spot, String, i32),
    /// An agent is gone.
    AgentLost(Spot, i32, Ended),
    /// An agent gave up.
    AgentFailed(Spot, String),
    /// An agent could not be started.
    AgentMissing(Spot, String),
    /// The data server of a node is gone.
    ServerLost(Spot, JobId, i32, Ended),
    /// The data server of a node could not be started.
    ServerMissing(Spot, JobId, String),
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
    /// In words, with the last ones of the rank that is to blame.
    pub(crate) fn told(&self, words: &str) -> String {
        with_last_words(self.to_string(), words)
    }

    /// Its part in the exit code of the job; never 0.
    pub fn exit_code(&self) -> i32 {
        match self {
            Cause::Killed(_, signal) | Cause::Signalled(signal) => 128 + signal,
            Cause::Failed(_, code) => (*code).max(1),
            Cause::NeverJoined(_, ended, _) => code_of(*ended).max(1),
            Cause::LeftEarly(..) | Cause::BadPmi(..) | Cause::OutputFile(_) => 1,
            Cause::AgentFailed(..) | Cause::AgentMissing(..) | Cause::ServerMissing(..) => 1,
            Cause::Aborted(_, code, _) => (code & 255).max(1),
            Cause::StartFailed(_, _, _, code) => *code,
            Cause::AgentLost(_, _, ended)
            | Cause::ServerLost(_, _, _, ended)
            | Cause::WardenLost(_, ended) => code_of(*ended).max(1),
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
            Cause::LeftEarly(who, others) => {
                write!(f, "{who} exited with code 0 but without MPI_Finalize")?;
                if others.is_empty() { Ok(()) } else { write!(f, ", and so did {}", Ranks(others)) }
            }
            Cause::NeverJoined(who, ended, waiting) => {
                write!(f, "{who} {} before MPI_Init, and {waiting} waits for it", Words(*ended))
            }
            Cause::Aborted(who, code, message) => {
                write!(f, "{who} called MPI_Abort with code {code}")?;
                if message.is_empty() || message == "abort" { Ok(()) } else { write!(f, ": {message}") }
            }
            Cause::BadPmi(who, reason) => write!(f, "{who} broke the PMI protocol: {reason}"),
            Cause::StartFailed(who, spot, reason, _) => {
                write!(f, "{who} could not be started on {spot}: {reason}")
            }
            Cause::AgentLost(spot, pid, ended) => {
                write!(f, "the agent of {spot} (pid {pid}) died: {}", Words(*ended))
            }
            Cause::AgentFailed(spot, reason) => write!(f, "the agent of {spot} failed: {reason}"),
            Cause::AgentMissing(spot, reason) => {
                write!(f, "the agent of {spot} could not be started: {reason}")
            }
            Cause::ServerLost(spot, job, pid, ended) => {
                let (job, words) = (OfJob(*job), Words(*ended));
                write!(f, "the data server of {spot}{job} (pid {pid}) died: {words}")
            }
            Cause::ServerMissing(spot, job, reason) => {
                write!(f, "the data server of {spot}{} could not be started: {reason}", OfJob(*job))
            }
            Cause::WardenLost(pid, ended) => write!(f, "the warden (pid {pid}) died: {}", Words(*ended)),
            Cause::Signalled(signal) => write!(f, "got signal {signal} ({})", signal_text(*signal)),
            Cause::OutputClosed => f.write_str("standard output was closed"),
            Cause::OutputFile(reason) => f.write_str(reason),
            Cause::TimedOut(limit) => write!(f, "the job took longer than {} s", limit.as_secs()),
        }
    }
}

/// Ranks in a row, as people write them.
pub(crate) struct Ranks<'r>(pub(crate) &'r [Rank]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        let mut sorted: Vec<u32> = self.0.iter().map(|rank| rank.0).collect();
        sorted.sort_unstable();
        for rank in sorted {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == rank => *last = rank,
                _ => ranges.push((rank, rank)),
            }
        }
        f.write_str(if self.0.len() == 1 { "rank " } else { "ranks " })?;
        for (at, (first, last)) in ranges.iter().enumerate() {
            let joint = match ranges.len() - at {
                _ if at == 0 => "",
                1 => " and ",
                _ => ", ",
            };
            if first == last { write!(f, "{joint}{first}")? } else { write!(f, "{joint}{first}-{last}")? }
        }
        Ok(())
    }
}

/// Names a job that was spawned.
struct OfJob(JobId);

impl fmt::Display for OfJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            JobId(0) => Ok(()),
            JobId(job) => write!(f, " for spawned job {job}"),
        }
    }
}

pub(super) struct Words(pub(super) Ended);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ended::Exit(code) => write!(f, "exited with code {code}"),
            Ended::Signal(signal) => write!(f, "killed by signal {signal} ({})", signal_text(signal)),
        }
    }
}

/// A message about a rank that ended, with what it wrote last.
pub(super) fn with_last_words(message: String, words: &str) -> String {
    if words.is_empty() { message } else { format!("{message}; its last words: \"{words}\"") }
}

/// A way to end as an exit code.
pub(super) fn code_of(ended: Ended) -> i32 {
    match ended {
        Ended::Exit(code) => code,
        Ended::Signal(signal) => 128 + signal,
    }
}
