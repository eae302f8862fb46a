//! What a board is told, what it wants done, what it refuses and what it counts.
use super::Message;
use crate::lane::{Bytes, Generation, JobId, LaneError, Neighbour, Traffic};

/// Most bytes of a key.
pub const KEY_BYTES_MAX: usize = 1 << 10;
/// Most bytes of a value.
pub const VALUE_BYTES_MAX: usize = 64 << 10;
/// Most bytes that a node keeps, unless told otherwise.
pub const BOARD_BYTES_MAX: usize = 256 << 20;
/// Gets that a process may have open at a time.
pub const GETS_PER_CLIENT_MAX: u32 = 64;
/// Entries per process of the job that a bounded node keeps, unless told otherwise. MPICH 5 cuts the address of a process
/// into ten values where the longest is 1,024 bytes, and asks for all of them.
pub const ENTRIES_PER_PROCESS: usize = 16;

/// How puts travel and where gets find them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoardKind {
    /// Hierarchical cache, simple.
    Hcs,
    /// With message aggregation.
    Hcma,
    /// With message aggregation and broadcast.
    Hcmab,
    /// With message aggregation, broadcast, and a bound on what a node keeps.
    #[default]
    HcmabLru,
}

impl BoardKind {
    /// All kinds, simplest first.
    pub const ALL: [BoardKind; 4] = [BoardKind::Hcs, BoardKind::Hcma, BoardKind::Hcmab, BoardKind::HcmabLru];

    /// The word for it on a command line.
    pub fn word(self) -> &'static str {
        match self {
            BoardKind::Hcs => "hcs",
            BoardKind::Hcma => "hcma",
            BoardKind::Hcmab => "hcmab",
            BoardKind::HcmabLru => "hcmab-lru",
        }
    }

    /// The kind that a word means.
    pub fn from_word(word: &str) -> Option<BoardKind> {
        BoardKind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    pub(super) fn broadcasts(self) -> bool {
        matches!(self, BoardKind::Hcmab | BoardKind::HcmabLru)
    }
}

/// What a board may be told about itself.
#[derive(Clone, Copy, Debug)]
pub struct BoardConfig {
    /// The job.
    pub job: JobId,
    /// How often its board was set up anew.
    pub generation: Generation,
    /// The strategy. The same on all nodes.
    pub kind: BoardKind,
    /// `HcmabLru`: entries per process that a node other than the root keeps.
    pub entries_per_process: usize,
    /// Bytes that a node keeps. The root refuses more, the others give something up.
    pub bytes_max: usize,
    /// Does it tell what it keeps?
    pub mirror: Mirror,
    /// Clients of the node that take no part in fences; their numbers follow those of the local processes. What they put is
    /// published by the next fence of the others.
    pub guests: u32,
}

impl BoardConfig {
    /// The usual bounds.
    pub fn new(job: JobId, generation: Generation, kind: BoardKind) -> Self {
        BoardConfig {
            job,
            generation,
            kind,
            entries_per_process: ENTRIES_PER_PROCESS,
            bytes_max: BOARD_BYTES_MAX,
            mirror: Mirror::Off,
            guests: 0,
        }
    }
}

/// What a board wants done. Take them with `poll_action` after every input, until there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this.
    Send(Neighbour, Message),
    /// Tell a process what the get that it waits for has found.
    Answer {
        /// Local number of the process.
        client: u32,
        /// What it asked for.
        key: Bytes,
        /// The value; `None` if nobody has published it.
        value: Option<Bytes>,
    },
    /// Tell all local processes that the fence is over.
    FenceDone,
}

/// Does a board tell what it keeps?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mirror {
    /// No.
    #[default]
    Off,
    /// Yes, through `poll_change`.
    On,
}

/// What a board has begun or ceased to keep. Who follows all changes has the values of the board's cache: the
/// ground for a copy that processes read without asking. What is not there has to be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key has this value, instead of any before.
    Kept(Bytes, Bytes),
    /// A key is not kept any more.
    Dropped(Bytes),
}

/// What a get finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// The value.
    Value(Bytes),
    /// Nobody has published the key.
    Absent,
    /// An [`Action::Answer`] will tell.
    Later,
}

/// An input that a board refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoardError {
    /// No such local process.
    #[error("no local process {0}")]
    NoClient(u32),
    /// A key or value is too long.
    #[error("a key of {key} and a value of {value} bytes; {KEY_BYTES_MAX} and {VALUE_BYTES_MAX} are allowed")]
    TooLong {
        /// Bytes of the key.
        key: usize,
        /// Bytes of the value.
        value: usize,
    },
    /// The root has no room.
    #[error("the bulletin board is full: {used} of {max} bytes used, {wanted} more wanted")]
    Full {
        /// Bytes in use.
        used: usize,
        /// Bytes allowed.
        max: usize,
        /// Bytes of what was put.
        wanted: usize,
    },
    /// A process has too many gets open.
    #[error("local process {0} has {GETS_PER_CLIENT_MAX} gets open and wants another")]
    TooManyGets(u32),
    /// More gets come from below than there are processes to ask them.
    #[error("{0} asks for more keys than its processes may")]
    Flooded(Neighbour),
    /// A process entered the same fence twice.
    #[error("local process {0} entered the fence twice")]
    EnteredTwice(u32),
    /// A neighbour speaks of another fence than the current one, or entered it twice.
    #[error("{from} speaks of fence {got}, this is fence {expected}, or it is in already")]
    WrongFence {
        /// Who sent it.
        from: Neighbour,
        /// Its number.
        got: u32,
        /// The current one.
        expected: u32,
    },
    /// An answer that nobody asked for, or a question asked twice.
    #[error("{0} sent an answer or question that is out of turn")]
    OutOfTurn(Neighbour),
    /// A message that does not come from there in this strategy.
    #[error("{0} sent a message that has no business here")]
    Misplaced(Neighbour),
    /// A message that cannot be taken.
    #[error(transparent)]
    Lane(#[from] LaneError),
}

/// What a node's board has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoardCounters {
    /// Messages on the tree.
    pub traffic: Traffic,
    /// Gets, by processes or by nodes below, answered here at once with a value.
    pub hits: u64,
    /// Gets answered here at once: the key is absent.
    pub absent_hits: u64,
    /// Gets that had to wait for a node above.
    pub misses: u64,
    /// Of these, gets that joined one already on its way.
    pub merged: u64,
    /// Entries given up for lack of room.
    pub evictions: u64,
    /// Most entries at a time.
    pub entries_peak: u64,
    /// Most bytes at a time.
    pub bytes_peak: u64,
}
