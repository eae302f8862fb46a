//! Where the processes of a job are and what they wait for: why it hangs.
//!
//! A process that is asked says it as a [`Place`], in MPI's words: the call that it is in, and what that call still needs.
//! One that does not answer (it computes, it is stopped, it uses another library) is described from outside. [`explain`]
//! joins what all of them say: who waits for whom, which waits form a cycle, who has not called a collective, which message
//! would have fitted if its tag were another. Nothing here decides anything; it finds words.
//!
//! ```
//! use banyan_proto::waits::{Place, Standing};
//! let standing = Standing::Told(Place { call: "MPI_Barrier".into(), ..Place::default() });
//! assert_eq!(Standing::parse(&standing.emit(4088)), Some(standing));
//! ```
mod codec;
mod explained;
mod graph;
mod words;

#[cfg(test)]
mod tests;

pub use explained::{Explained, Group, explain};
pub use words::ranges;

use crate::ids::{Job, NodeId, Rank};
use crate::tree::{Ended, Member, PmiState};
use alloc::string::String;
use alloc::vec::Vec;

/// Most of each kind that a process tells of; what is left out is counted.
pub const NEEDS_MAX: usize = 24;
/// Messages that nobody has received.
pub const ARRIVED_MAX: usize = 16;
/// Communicators.
pub const COMMS_MAX: usize = 24;
/// Runs of members of one of them.
pub const RUNS_MAX: usize = 48;

/// A process, by its job and its rank in the world of that job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    /// The job.
    pub job: Job,
    /// The rank there.
    pub rank: Rank,
}

/// How a process waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Inside the call, until it is over.
    #[default]
    Blocked,
    /// It calls again and again, and is told each time that there is nothing.
    Polls,
}

/// What ends a wait for several things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// All of them.
    #[default]
    All,
    /// The first of them.
    Any,
}

/// Where a process is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The function of MPI; empty where it is not one of C.
    pub call: String,
    /// How it waits there.
    pub manner: Manner,
    /// Since when, in milliseconds.
    pub waited_ms: u32,
    /// What ends the wait.
    pub until: Until,
    /// What it needs.
    pub needs: Vec<Need>,
    /// Needs that are not listed.
    pub needs_more: u32,
    /// Messages that nobody has received, in the order of their arrival.
    pub arrived: Vec<Arrived>,
    /// Such messages that are not listed.
    pub arrived_more: u32,
    /// Locks of windows that it holds.
    pub locks: Vec<Held>,
    /// The communicators that are spoken of, and others in use.
    pub comms: Vec<Comm>,
    /// What else its library knows about the wait.
    pub notes: Vec<String>,
}

/// How somebody looks for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A receive.
    Receive,
    /// A probe.
    Probe,
}

/// One thing that a process waits for. Communicators are numbers in its list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// A message.
    Message {
        /// Of this communicator,
        comm: u16,
        /// from anybody or this process,
        from: Option<Who>,
        /// with any tag or this one.
        tag: Option<i32>,
        /// By what.
        look: Look,
    },
    /// That a process takes a message.
    Taken {
        /// Of this communicator, where that is known.
        comm: Option<u16>,
        /// The receiver.
        to: Who,
        /// Its tag, where that is known.
        tag: Option<i32>,
        /// Its length.
        bytes: u64,
    },
    /// That all take part in a collective.
    Collective {
        /// Of this communicator,
        comm: u16,
        /// counted from 1.
        number: u32,
        /// The function that was called; empty: the one that waits.
        what: String,
        /// Whose messages it waits for at the moment.
        awaits: Vec<Who>,
    },
    /// That a process does something.
    Deed {
        /// Who.
        who: Who,
        /// What, behind `for rank N`.
        what: String,
    },
    /// A lock that others have.
    Lock {
        /// Of this window,
        win: u32,
        /// for the memory of this process.
        target: Who,
    },
    /// That what it has asked for at a window is done.
    Served(Served),
    /// That all other processes of its job come to the same point.
    Everyone {
        /// Which, behind `for all other ranks`.
        what: String,
    },
    /// Something else, behind `for`.
    Other {
        /// What.
        what: String,
    },
}

/// What was asked for at a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Whose memory it concerns.
    pub target: Who,
    /// Who does it.
    pub by: Server,
    /// The window whose lock was asked for with it, if it is not known that this process has it.
    pub lock: Option<u32>,
    /// What is to be done, behind `for rank N`.
    pub what: String,
}

/// Who does what was asked for at a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The process whose memory it is.
    Target,
    /// The data server of this node of the job.
    Node(NodeId),
}

/// A lock of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The window, by the number that all its processes know.
    pub win: u32,
    /// Whose memory is locked.
    pub target: Who,
}

/// A message that nobody has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its communicator.
    pub comm: u16,
    /// Its sender.
    pub from: Who,
    /// Its tag.
    pub tag: i32,
    /// Its length.
    pub bytes: u64,
}

/// A communicator, as one of its members sees it. Number and first member name it to all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comm {
    /// What its messages are told apart by.
    pub number: u32,
    /// Its first member.
    pub first: Who,
    /// Its name, if it has one.
    pub name: String,
    /// How many collectives this member has called.
    pub begun: u32,
    /// How many members there are,
    pub size: u32,
    /// and who; not all, if they are too irregular.
    pub members: Vec<Run>,
}

/// Members whose ranks follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first of them.
    pub first: Who,
    /// From one to the next.
    pub stride: i32,
    /// How many.
    pub count: u32,
}

impl Run {
    /// Members in their order, as runs; at most [`RUNS_MAX`].
    pub fn of(members: impl Iterator<Item = Who>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for who in members {
            if runs.last_mut().is_some_and(|run| run.takes(who)) {
                continue;
            }
            if runs.len() == RUNS_MAX {
                break;
            }
            runs.push(Run { first: who, stride: 1, count: 1 });
        }
        runs
    }

    fn takes(&mut self, who: Who) -> bool {
        let next = |stride: i32| i64::from(self.first.rank.0) + i64::from(stride) * i64::from(self.count);
        let distance = i64::from(who.rank.0) - i64::from(self.first.rank.0);
        let stride = if self.count == 1 { i32::try_from(distance).unwrap_or(0) } else { self.stride };
        let fits = who.job == self.first.job && stride != 0 && next(stride) == i64::from(who.rank.0);
        if fits {
            (self.stride, self.count) = (stride, self.count + 1);
        }
        fits
    }

    fn iter(self) -> impl Iterator<Item = Who> {
        let rank = move |at: u32| i64::from(self.first.rank.0) + i64::from(self.stride) * i64::from(at);
        let who = move |rank: i64| Some(Who { job: self.first.job, rank: Rank(u32::try_from(rank).ok()?) });
        (0..self.count).map_while(move |at| who(rank(at)))
    }
}

/// What the kernel says of a process that does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// It runs, or waits for its turn on a core.
    Runs,
    /// It sleeps in a call of the system, by name where that is known.
    Sleeps(String),
    /// A debugger, or a signal, has stopped it.
    Stopped,
    /// The kernel does not tell.
    #[default]
    Unknown,
}

impl core::fmt::Display for Doing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&words::does(self))
    }
}

/// How a process stands that cannot be asked, or does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// What it does.
    pub doing: Doing,
    /// How far it is with MPI, as its agent knows.
    pub pmi: PmiState,
    /// Does it use Banyan's library? Another one cannot be asked.
    pub ours: bool,
}

/// How a process stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has said where it is.
    Told(Place),
    /// It has not.
    Outside(Outside),
    /// It has ended.
    Ended(Option<Ended>),
    /// It has not been started yet.
    NotStarted,
    /// Its agent has not answered.
    Unheard,
}

/// A process that has been asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// As the launcher counts.
    pub member: Member,
    /// As processes name each other.
    pub who: Who,
    /// How it stands.
    pub standing: Standing,
}

/// A data server that has been looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSeen {
    /// Whose it is.
    pub job: Job,
    /// The node, as its job counts them.
    pub node: NodeId,
    /// What it is called: `the data server of node 1, process 7`.
    pub name: String,
    /// Can it be reached? The ranks of its node are not started before.
    pub is_ready: bool,
    /// What the kernel says.
    pub doing: Doing,
    /// The ranks of its node.
    pub of: Vec<Member>,
}
