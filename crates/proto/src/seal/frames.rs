//! Sealed frames: each is followed by a tag over its number and its bytes.
use super::key::Key;
use crate::tree::{FRAME_BYTES_MAX, Frame, FrameError};
use alloc::vec::Vec;
use constant_time_eq::constant_time_eq_n;

/// Bytes of the tag behind a frame.
pub const TAG_BYTES: usize = 16;
/// The length word of a frame.
const PREFIX_BYTES: usize = 4;
/// How far around the expected number a wrong tag's own number is looked for, to say what happened.
const LOOK_AROUND: u64 = 8;

/// Why a link is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The bytes are no frame. On a sealed link with a length within bounds, a member of the job sent them so.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame that was there before.
    #[error("frame {got} of the link again, when frame {expected} was expected")]
    Replayed {
        /// Number of the frame that came.
        got: u64,
        /// Number of the next frame.
        expected: u64,
    },
    /// A frame came too early: others are missing, or the order was changed.
    #[error("frame {got} of the link when frame {expected} was expected")]
    Skipped {
        /// Number of the frame that came.
        got: u64,
        /// Number of the next frame.
        expected: u64,
    },
    /// A frame that this side sent came back.
    #[error("frame {got} of this side's own, sent back")]
    Reflected {
        /// Its number.
        got: u64,
    },
    /// A frame that no member of the job sent on this link in this form.
    #[error("forged or damaged frame in place of frame {expected} of the link")]
    Forged {
        /// Number of the next frame.
        expected: u64,
    },
    /// Something was wrong before; nothing behind it counts.
    #[error("frame behind a wrong one")]
    Broken,
}

/// One end of a sealed link: puts tags behind frames, and cuts what it gets into frames that fit theirs.
#[derive(Debug)]
pub struct Seal {
    bytes: Vec<u8>,
    taken: usize,
    sent: Direction,
    /// `None` after a wrong frame.
    received: Option<Direction>,
}

/// One direction of a link.
#[derive(Debug)]
struct Direction {
    key: Key,
    /// Number of the next frame.
    next: u64,
}

impl Seal {
    /// The seal of a new link.
    pub(super) fn new(sent: Key, received: Key) -> Self {
        let direction = |key| Direction { key, next: 0 };
        Seal { bytes: Vec::new(), taken: 0, sent: direction(sent), received: Some(direction(received)) }
    }

    /// Appends a frame and its tag.
    pub fn emit(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        let start = out.len();
        frame.emit(out);
        let tag = self.sent.tag(self.sent.next, &out[start..]);
        out.extend_from_slice(&tag);
        self.sent.next += 1;
    }

    /// Appends what was read. Take all frames before pushing more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete frame, checked before it is parsed; `None` until more is pushed. After an error the link is of
    /// no use.
    pub fn next_frame(&mut self) -> Option<Result<Frame, LinkError>> {
        if self.received.is_none() {
            return Some(Err(LinkError::Broken));
        }
        let frame = self.cut().transpose()?.and_then(|end| self.open(end));
        if frame.is_err() {
            self.received = None;
        }
        Some(frame)
    }

    /// Bytes held: what was pushed and is no whole frame yet, and what was taken since the last push.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Where the next frame ends and its tag begins, once both are there. The length is checked before anything
    /// behind it is waited for.
    fn cut(&self) -> Result<Option<usize>, LinkError> {
        let rest = &self.bytes[self.taken..];
        let Some(prefix) = rest.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(FrameError::Length(length).into());
        }
        let bytes = PREFIX_BYTES + length;
        Ok((rest.len() >= bytes + TAG_BYTES).then_some(self.taken + bytes))
    }

    fn open(&mut self, end: usize) -> Result<Frame, LinkError> {
        let (frame, tag) = (&self.bytes[self.taken..end], &self.bytes[end..end + TAG_BYTES]);
        let Some(received) = &mut self.received else { return Err(LinkError::Broken) };
        if !received.fits(received.next, frame, tag) {
            return Err(self.what_is_wrong(frame, tag));
        }
        received.next += 1;
        self.taken = end + TAG_BYTES;
        Ok(Frame::parse(&frame[PREFIX_BYTES..])?)
    }

    /// Only for the message: which frame is it, if any of this link? Once in the life of a link.
    fn what_is_wrong(&self, frame: &[u8], tag: &[u8]) -> LinkError {
        let Some(received) = &self.received else { return LinkError::Broken };
        let expected = received.next;
        if let Some(got) = received.number_near(expected, frame, tag) {
            return match got < expected {
                true => LinkError::Replayed { got, expected },
                false => LinkError::Skipped { got, expected },
            };
        }
        match self.sent.number_near(self.sent.next, frame, tag) {
            Some(got) => LinkError::Reflected { got },
            None => LinkError::Forged { expected },
        }
    }
}

impl Direction {
    fn tag(&self, number: u64, frame: &[u8]) -> [u8; TAG_BYTES] {
        let hash = self.key.hash(&[&number.to_le_bytes(), frame]);
        *hash.first_chunk().expect("a hash is longer than a tag")
    }

    fn fits(&self, number: u64, frame: &[u8], tag: &[u8]) -> bool {
        let Some(tag) = tag.first_chunk() else { return false };
        constant_time_eq_n::<TAG_BYTES>(&self.tag(number, frame), tag)
    }

    fn number_near(&self, number: u64, frame: &[u8], tag: &[u8]) -> Option<u64> {
        let near = number.saturating_sub(LOOK_AROUND)..number.saturating_add(LOOK_AROUND);
        near.into_iter().find(|number| self.fits(*number, frame, tag))
    }
}
