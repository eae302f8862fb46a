//! What processes ask of an exchange, what it wants done, what it refuses and what it counts.
use super::{Chunk, Letter, Message};
use crate::ids::Rank;
use crate::lane::{Bytes, LaneError, Neighbour, Traffic};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// Most bytes of a letter, or of what one process gives to another in a collective operation.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Most bytes that a node keeps for a collective operation.
pub const ROUND_BYTES_MAX: usize = 256 << 20;
/// Most letters that wait on a node for their receivers.
pub const LETTERS_MAX: usize = 65_536;
/// Most bytes of such letters.
pub const LETTERS_BYTES_MAX: usize = 64 << 20;
/// Most receives that a process may have open.
pub const RECVS_MAX: usize = 1024;

/// A collective operation. All processes name the same ones in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Nobody goes on before all are there.
    Barrier,
    /// All get what the root gives.
    Broadcast {
        /// Who gives.
        root: Rank,
    },
    /// The root gets what all give.
    Gather {
        /// Who gets.
        root: Rank,
    },
    /// All get what all give.
    Allgather,
    /// Each gets its own part of what the root gives.
    Scatter {
        /// Who gives.
        root: Rank,
    },
    /// Each gets its own part of what each gives.
    Alltoall,
}

/// A process's part in a collective operation. Parts for all processes are in order of rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Barrier.
    Barrier,
    /// Broadcast.
    Broadcast {
        /// Who gives.
        root: Rank,
        /// What, at the root; ignored elsewhere.
        data: Option<Bytes>,
    },
    /// Gather.
    Gather {
        /// Who gets.
        root: Rank,
        /// What this process gives.
        data: Bytes,
    },
    /// Allgather.
    Allgather {
        /// What this process gives.
        data: Bytes,
    },
    /// Scatter.
    Scatter {
        /// Who gives.
        root: Rank,
        /// What, at the root: one part for each process; ignored elsewhere.
        data: Option<Vec<Bytes>>,
    },
    /// Alltoall.
    Alltoall {
        /// What this process gives: one part for each process.
        data: Vec<Bytes>,
    },
}

impl Call {
    /// The operation.
    pub fn collective(&self) -> Collective {
        match *self {
            Call::Barrier => Collective::Barrier,
            Call::Broadcast { root, .. } => Collective::Broadcast { root },
            Call::Gather { root, .. } => Collective::Gather { root },
            Call::Allgather { .. } => Collective::Allgather,
            Call::Scatter { root, .. } => Collective::Scatter { root },
            Call::Alltoall { .. } => Collective::Alltoall,
        }
    }

    /// What the process gives, and to whom.
    pub(super) fn into_chunks(self, from: Rank, processes: u32) -> Result<Vec<Chunk>, ExchangeError> {
        if let Call::Broadcast { root, .. } | Call::Gather { root, .. } | Call::Scatter { root, .. } = self
            && root.0 >= processes
        {
            return Err(ExchangeError::NoRank(root));
        }
        match self {
            Call::Barrier => Ok(Vec::new()),
            Call::Broadcast { root, .. } | Call::Scatter { root, .. } if root != from => Ok(Vec::new()),
            Call::Broadcast { data, .. } => {
                let data = data.ok_or(ExchangeError::WrongParts { rank: from, got: 0, expected: 1 })?;
                Ok(vec![Chunk { from, to: None, data }])
            }
            Call::Gather { root, data } => Ok(vec![Chunk { from, to: Some(root), data }]),
            Call::Allgather { data } => Ok(vec![Chunk { from, to: None, data }]),
            Call::Scatter { data, .. } => one_for_each(from, data.unwrap_or_default(), processes),
            Call::Alltoall { data } => one_for_each(from, data, processes),
        }
    }
}

fn one_for_each(from: Rank, data: Vec<Bytes>, processes: u32) -> Result<Vec<Chunk>, ExchangeError> {
    if data.len() != processes as usize {
        return Err(ExchangeError::WrongParts { rank: from, got: data.len(), expected: processes as usize });
    }
    let chunk = |(to, data)| Chunk { from, to: Some(Rank(to)), data };
    Ok((0..).zip(data).map(chunk).collect())
}

/// What a process has of a collective operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing but that it is over.
    Nothing,
    /// What was broadcast or scattered to it.
    One(Bytes),
    /// What every process gave, in order of rank.
    Many(Arc<[Bytes]>),
}

/// What an exchange wants done. Take them with `poll_action` after every input, until there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this.
    Send(Neighbour, Message),
    /// Give a letter to the local process that waits for it.
    Received(Letter),
    /// Tell a local process that its collective operation is over.
    Done {
        /// The process.
        rank: Rank,
        /// What it has of it.
        outcome: Outcome,
    },
}

/// An input that an exchange refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// Not a process of this node.
    #[error("process {0} is not on this node")]
    NotHere(Rank),
    /// Not a process of the job.
    #[error("the job has no process {0}")]
    NoRank(Rank),
    /// Too many bytes.
    #[error("{0} bytes for one process; {CHUNK_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// Not one part for each.
    #[error("process {rank} gives {got} parts, {expected} are needed")]
    WrongParts {
        /// Who.
        rank: Rank,
        /// Parts that it gives.
        got: usize,
        /// Parts that are needed.
        expected: usize,
    },
    /// A process took part twice.
    #[error("process {0} entered the same collective operation twice")]
    EnteredTwice(Rank),
    /// Processes disagree about what they do.
    #[error("collective operation {round} is {expected:?} for some and {got:?} for others")]
    Mismatch {
        /// Number of the operation.
        round: u32,
        /// What the last one said.
        got: Collective,
        /// What the first one said.
        expected: Collective,
    },
    /// A neighbour speaks of another operation than the current one, or entered it twice.
    #[error("{from} speaks of collective operation {got}, this is {expected}, or it is in already")]
    WrongRound {
        /// Who sent it.
        from: Neighbour,
        /// Its number.
        got: u32,
        /// The current one.
        expected: u32,
    },
    /// An operation is over, but not everything is there.
    #[error("collective operation {round}, {collective:?}, ended without all of its data")]
    Incomplete {
        /// Number of the operation.
        round: u32,
        /// What it is.
        collective: Collective,
    },
    /// No room for what an operation gives.
    #[error("{used} of {ROUND_BYTES_MAX} bytes used for a collective operation, {wanted} more wanted")]
    RoundFull {
        /// Bytes in use.
        used: usize,
        /// Bytes that came.
        wanted: usize,
    },
    /// Letters wait for receivers that do not come.
    #[error("no room for another letter to process {0}")]
    LettersFull(Rank),
    /// A process has too many receives open.
    #[error("process {0} has {RECVS_MAX} receives open and wants another")]
    TooManyRecvs(Rank),
    /// Data that has no business on this link.
    #[error("{0} sent data of or for a process that is not that way")]
    Misrouted(Neighbour),
    /// A message that does not come from there, or not now.
    #[error("{0} sent a message that has no business here")]
    Misplaced(Neighbour),
    /// A message that cannot be taken.
    #[error(transparent)]
    Lane(#[from] LaneError),
}

/// What a node's exchange has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeCounters {
    /// Messages on the tree.
    pub traffic: Traffic,
    /// Collective operations that are over.
    pub rounds: u64,
    /// Letters that reached this node as their target.
    pub letters_delivered: u64,
    /// Most letters that waited for their receivers.
    pub letters_peak: u64,
    /// Most bytes kept for a collective operation.
    pub round_bytes_peak: u64,
}
