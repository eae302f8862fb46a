//! What travels between two processes of different hosts: frames on a stream, and the proofs that come before.
//!
//! A stream begins with proofs ([`proof`]): who dials says [`Hello`], who accepts answers with a *welcome*. Behind
//! them come frames in both directions, each a [`Frame`] of [`HEAD_BYTES`] and then [`Frame::follows`] bytes:
//!
//! ```text
//! bytes  field
//!     1  kind
//!     7  length
//!    16  two double words, whose meaning depends on the kind
//! ```
//! Everything is little endian. Requests (read, write, atomic) carry a number and are answered in the order in which
//! they were sent. It decides nothing: what a request may touch is checked by who serves it.
pub mod proof;
#[cfg(test)]
mod tests;

pub use proof::{Hello, HelloError, Secret};

/// Bytes of a frame before its payload.
pub const HEAD_BYTES: usize = 24;
/// The longest message, and the most that one request reads or writes.
pub const MESSAGE_MAX: usize = 1 << 30;
/// The longest control message.
pub const CONTROL_MAX: usize = 240;

const DATA: u8 = 1;
const CONTROL: u8 = 2;
const READ: u8 = 3;
const BYTES: u8 = 4;
const WRITE: u8 = 5;
const WRITTEN: u8 = 6;
const ADD: u8 = 7;
const SWAP: u8 = 8;
const OLD: u8 = 9;
const REFUSED: u8 = 10;
const FRUGAL: u8 = 11;
const CROSSED: u8 = 12;

/// Memory of the process that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address there.
    pub addr: u64,
    /// The key under which it was registered.
    pub key: u32,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key is not registered, or the range is outside.
    Key,
    /// No atomic operation is possible there.
    Atomic,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message; `len` bytes follow.
    Data {
        /// The sender's header.
        header: [u64; 2],
        /// Bytes of the payload.
        len: usize,
    },
    /// A control message; `len` bytes follow.
    Control {
        /// Its bytes.
        len: usize,
    },
    /// Asks for bytes of the receiver's memory.
    Read {
        /// Number of the request.
        id: u32,
        /// Where they are.
        from: Place,
        /// How many.
        len: usize,
    },
    /// Answers a read; `len` bytes follow.
    Bytes {
        /// Number of the request.
        id: u32,
        /// How many.
        len: usize,
    },
    /// Changes the receiver's memory; `len` bytes follow.
    Write {
        /// Number of the request.
        id: u32,
        /// Where they go.
        to: Place,
        /// How many.
        len: usize,
    },
    /// Answers a write: it is in memory.
    Written {
        /// Number of the request.
        id: u32,
    },
    /// Adds to a double word; the summand (8 bytes) follows.
    Add {
        /// Number of the request.
        id: u32,
        /// The double word.
        at: Place,
    },
    /// Compares and swaps a double word; what is expected and what is stored then (16 bytes) follow.
    Swap {
        /// Number of the request.
        id: u32,
        /// The double word.
        at: Place,
    },
    /// Answers an atomic.
    Old {
        /// Number of the request.
        id: u32,
        /// What was there before.
        value: u64,
    },
    /// Answers any request with no.
    Refused {
        /// Number of the request.
        id: u32,
        /// Why.
        why: Refusal,
    },
    /// Asks the receiver for rendezvous instead of eager messages, or takes that back.
    Frugal(bool),
    /// Its sender has dialled too, with this number, and gives that stream up: all that it has sent there behind its
    /// hello follows here once more.
    Crossed {
        /// Number of the dial.
        dial: u64,
    },
}

/// A head that nobody emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// There is no such kind.
    #[error("a frame of kind {0}")]
    Kind(u8),
    /// Longer (or other) than its kind can be.
    #[error("a frame of kind {kind} with {len} bytes")]
    Length {
        /// Its kind.
        kind: u8,
        /// What it claims.
        len: u64,
    },
    /// A field with a value that it does not have.
    #[error("a frame of kind {kind} with {word:#x}")]
    Field {
        /// Its kind.
        kind: u8,
        /// The field.
        word: u64,
    },
}

impl Frame {
    /// The head as bytes.
    #[inline]
    pub fn emit(&self) -> [u8; HEAD_BYTES] {
        match *self {
            Frame::Data { header, len } => head(DATA, len, header),
            Frame::Control { len } => head(CONTROL, len, [0, 0]),
            Frame::Read { id, from, len } => head(READ, len, request(id, from)),
            Frame::Bytes { id, len } => head(BYTES, len, [id.into(), 0]),
            Frame::Write { id, to, len } => head(WRITE, len, request(id, to)),
            Frame::Written { id } => head(WRITTEN, 0, [id.into(), 0]),
            Frame::Add { id, at } => head(ADD, 8, request(id, at)),
            Frame::Swap { id, at } => head(SWAP, 16, request(id, at)),
            Frame::Old { id, value } => head(OLD, 0, [id.into(), value]),
            Frame::Refused { id, why } => head(REFUSED, 0, [id.into(), u64::from(why == Refusal::Atomic)]),
            Frame::Frugal(on) => head(FRUGAL, 0, [on.into(), 0]),
            Frame::Crossed { dial } => head(CROSSED, 0, [dial, 0]),
        }
    }

    /// The head in `bytes`.
    #[inline]
    pub fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<Frame, FrameError> {
        let word = |at: usize| {
            let word = bytes[at..].first_chunk().expect("inside the head");
            u64::from_le_bytes(*word)
        };
        let (kind, claimed, words) = (bytes[0], word(0) >> 8, [word(8), word(16)]);
        let len = usize::try_from(claimed).unwrap_or(usize::MAX);
        if len > longest(kind) {
            return Err(FrameError::Length { kind, len: claimed });
        }
        if kind == DATA {
            return Ok(Frame::Data { header: words, len });
        }
        Frame::parse_other(kind, len, words)
    }

    fn parse_other(kind: u8, len: usize, words: [u64; 2]) -> Result<Frame, FrameError> {
        let exactly = |bytes: usize, frame: Frame| match len == bytes {
            true => Ok(frame),
            false => Err(FrameError::Length { kind, len: len as u64 }),
        };
        let number = || u32::try_from(words[0]).map_err(|_| FrameError::Field { kind, word: words[0] });
        let flag = |word: u64| match word {
            0 | 1 => Ok(word == 1),
            word => Err(FrameError::Field { kind, word }),
        };
        let (id, place) = ((words[1] >> 32) as u32, Place { addr: words[0], key: words[1] as u32 });
        match kind {
            CONTROL => Ok(Frame::Control { len }),
            READ => Ok(Frame::Read { id, from: place, len }),
            BYTES => Ok(Frame::Bytes { id: number()?, len }),
            WRITE => Ok(Frame::Write { id, to: place, len }),
            WRITTEN => exactly(0, Frame::Written { id: number()? }),
            ADD => exactly(8, Frame::Add { id, at: place }),
            SWAP => exactly(16, Frame::Swap { id, at: place }),
            OLD => exactly(0, Frame::Old { id: number()?, value: words[1] }),
            REFUSED => {
                let why = if flag(words[1])? { Refusal::Atomic } else { Refusal::Key };
                exactly(0, Frame::Refused { id: number()?, why })
            }
            FRUGAL => exactly(0, Frame::Frugal(flag(words[0])?)),
            CROSSED => exactly(0, Frame::Crossed { dial: words[0] }),
            kind => Err(FrameError::Kind(kind)),
        }
    }

    /// Bytes that follow the head.
    #[inline]
    pub fn follows(&self) -> usize {
        match *self {
            Frame::Data { len, .. }
            | Frame::Control { len }
            | Frame::Bytes { len, .. }
            | Frame::Write { len, .. } => len,
            Frame::Add { .. } => 8,
            Frame::Swap { .. } => 16,
            Frame::Read { .. }
            | Frame::Written { .. }
            | Frame::Old { .. }
            | Frame::Refused { .. }
            | Frame::Frugal(_)
            | Frame::Crossed { .. } => 0,
        }
    }
}

const fn longest(kind: u8) -> usize {
    match kind {
        DATA | READ | BYTES | WRITE => MESSAGE_MAX,
        CONTROL => CONTROL_MAX,
        ADD => 8,
        SWAP => 16,
        WRITTEN | OLD | REFUSED | FRUGAL | CROSSED => 0,
        // The kind is what is wrong with it, and is said to be.
        _ => usize::MAX,
    }
}

#[inline]
fn head(kind: u8, len: usize, words: [u64; 2]) -> [u8; HEAD_BYTES] {
    debug_assert!(len <= longest(kind));
    let mut bytes = [0; HEAD_BYTES];
    bytes[..8].copy_from_slice(&((len as u64) << 8 | u64::from(kind)).to_le_bytes());
    bytes[8..16].copy_from_slice(&words[0].to_le_bytes());
    bytes[16..].copy_from_slice(&words[1].to_le_bytes());
    bytes
}

fn request(id: u32, place: Place) -> [u64; 2] {
    [place.addr, u64::from(id) << 32 | u64::from(place.key)]
}
