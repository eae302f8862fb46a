//! Operations on the wire.
use alloc::vec::Vec;

/// Most bytes that one process sends in one operation.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;

const WORD_BYTES: usize = 4;

/// What a process says in a round. All processes of a job say the same, but for their data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Says its rank again; no known client does.
    Open {
        /// The rank.
        rank: i32,
    },
    /// Is done.
    Close,
    /// Gives up; no known client says it so (see [`super::Message::Abort`]).
    Abort {
        /// The program's error code.
        code: i32,
    },
    /// Waits for all.
    Barrier,
    /// Gets the root's data.
    Bcast {
        /// Who sends.
        root: u32,
        /// How much.
        size: u32,
        /// The data, of the root only.
        data: Option<Vec<u8>>,
    },
    /// Sends data to the root.
    Gather {
        /// Who receives.
        root: u32,
        /// The data.
        data: Vec<u8>,
    },
    /// Gets its part of the root's data.
    Scatter {
        /// Who sends.
        root: u32,
        /// How much is for each.
        size: u32,
        /// The data for all in the order of ranks, of the root only.
        data: Option<Vec<u8>>,
    },
    /// Sends data to all.
    Allgather {
        /// The data.
        data: Vec<u8>,
    },
    /// Sends data to each.
    Alltoall {
        /// How much is for each.
        size: u32,
        /// The data for all in the order of ranks.
        data: Vec<u8>,
    },
}

/// Why bytes are no operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not an opcode.
    #[error("unknown PMGR opcode {0}")]
    UnknownOpcode(i32),
    /// A root that is no rank of the job.
    #[error("PMGR root {root} in a job of {size}")]
    BadRoot {
        /// What was said.
        root: i32,
        /// Processes of the job.
        size: u32,
    },
    /// Negative, or more than [`PAYLOAD_BYTES_MAX`] for all that is to come.
    #[error("PMGR data of {0} bytes, at most {PAYLOAD_BYTES_MAX} are allowed in one operation")]
    BadSize(i64),
}

/// Whose bytes are parsed: how long an operation is depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Speaker {
    pub(super) rank: u32,
    pub(super) size: u32,
}

impl Operation {
    /// Its number on the wire.
    pub fn opcode(&self) -> i32 {
        match self {
            Operation::Open { .. } => 0,
            Operation::Close => 1,
            Operation::Abort { .. } => 2,
            Operation::Barrier => 3,
            Operation::Bcast { .. } => 4,
            Operation::Gather { .. } => 5,
            Operation::Scatter { .. } => 6,
            Operation::Allgather { .. } => 7,
            Operation::Alltoall { .. } => 8,
        }
    }

    /// Its name in messages.
    pub fn name(&self) -> &'static str {
        ["open", "close", "abort", "barrier", "bcast", "gather", "scatter", "allgather", "alltoall"]
            [self.opcode() as usize]
    }

    /// The operation at the front of `bytes` and its length; `None` until there are more.
    pub(super) fn parse(bytes: &[u8], speaker: Speaker) -> Result<Option<(Self, usize)>, ParseError> {
        let mut reader = Reader { bytes, at: 0 };
        let operation = read(&mut reader, speaker)?;
        Ok(operation.map(|operation| (operation, reader.at)))
    }

    /// Appends the operation, as a client would send it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut word = |value: i32| out.extend_from_slice(&value.to_le_bytes());
        word(self.opcode());
        match self {
            Operation::Open { rank: value } | Operation::Abort { code: value } => word(*value),
            Operation::Close | Operation::Barrier => {}
            Operation::Bcast { root, size, data } | Operation::Scatter { root, size, data } => {
                word(*root as i32);
                word(*size as i32);
                out.extend_from_slice(data.as_deref().unwrap_or_default());
            }
            Operation::Gather { root, data } => {
                word(*root as i32);
                word(data.len() as i32);
                out.extend_from_slice(data);
            }
            Operation::Allgather { data } => {
                word(data.len() as i32);
                out.extend_from_slice(data);
            }
            Operation::Alltoall { size, data } => {
                word(*size as i32);
                out.extend_from_slice(data);
            }
        }
    }
}

/// The operation; `None` if the bytes end before it does.
fn read(reader: &mut Reader<'_>, speaker: Speaker) -> Result<Option<Operation>, ParseError> {
    let Some(opcode) = reader.word() else { return Ok(None) };
    Ok(match opcode {
        0 => reader.word().map(|rank| Operation::Open { rank }),
        1 => Some(Operation::Close),
        2 => reader.word().map(|code| Operation::Abort { code }),
        3 => Some(Operation::Barrier),
        4 | 6 => {
            let Some((root, size)) = root_and_size(reader, speaker)? else { return Ok(None) };
            let parts = if opcode == 4 { 1 } else { speaker.size };
            let bytes = payload(size, parts)?;
            if root != speaker.rank {
                Some(rooted(opcode, root, size, None))
            } else {
                reader.data(bytes).map(|data| rooted(opcode, root, size, Some(data)))
            }
        }
        5 => {
            let Some((root, size)) = root_and_size(reader, speaker)? else { return Ok(None) };
            reader.data(payload(size, 1)?).map(|data| Operation::Gather { root, data })
        }
        7 => match reader.word() {
            Some(size) => reader.data(payload(checked(size)?, 1)?).map(|data| Operation::Allgather { data }),
            None => None,
        },
        8 => match reader.word() {
            Some(size) => {
                let size = checked(size)?;
                reader.data(payload(size, speaker.size)?).map(|data| Operation::Alltoall { size, data })
            }
            None => None,
        },
        other => return Err(ParseError::UnknownOpcode(other)),
    })
}

fn rooted(opcode: i32, root: u32, size: u32, data: Option<Vec<u8>>) -> Operation {
    match opcode {
        4 => Operation::Bcast { root, size, data },
        _ => Operation::Scatter { root, size, data },
    }
}

fn root_and_size(reader: &mut Reader<'_>, speaker: Speaker) -> Result<Option<(u32, u32)>, ParseError> {
    let (Some(root), Some(size)) = (reader.word(), reader.word()) else { return Ok(None) };
    let is_rank = u32::try_from(root).ok().filter(|root| *root < speaker.size);
    let root = is_rank.ok_or(ParseError::BadRoot { root, size: speaker.size })?;
    Ok(Some((root, checked(size)?)))
}

fn checked(size: i32) -> Result<u32, ParseError> {
    u32::try_from(size).map_err(|_| ParseError::BadSize(i64::from(size)))
}

/// Bytes of `parts` parts, if so many may be sent.
fn payload(size: u32, parts: u32) -> Result<usize, ParseError> {
    let bytes = u64::from(size) * u64::from(parts);
    if bytes > PAYLOAD_BYTES_MAX as u64 {
        return Err(ParseError::BadSize(i64::try_from(bytes).unwrap_or(i64::MAX)));
    }
    Ok(bytes as usize)
}

pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl Reader<'_> {
    pub(super) fn word(&mut self) -> Option<i32> {
        let word = self.bytes.get(self.at..self.at + WORD_BYTES)?;
        self.at += WORD_BYTES;
        Some(i32::from_le_bytes(word.try_into().ok()?))
    }

    pub(super) fn data(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let data = self.bytes.get(self.at..self.at + bytes)?;
        self.at += bytes;
        Some(data.to_vec())
    }
}
