//! Reading and writing of the numbers and bytes of a message. Little endian; lengths before bytes.
use super::{Bytes, Generation, Head, JobId, MESSAGE_BYTES_MAX};
use alloc::vec::Vec;

/// Bytes of a kind and a head.
pub(crate) const HEAD_BYTES: usize = 17;
/// Bytes of a length word.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Why bytes are no message. The link they came over is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Out of bounds.
    #[error("a message of {0} bytes; {HEAD_BYTES} to {MESSAGE_BYTES_MAX} are allowed")]
    Length(usize),
    /// No such kind.
    #[error("a message of unknown kind {0}")]
    Kind(u8),
    /// The body does not fit its kind.
    #[error("a message of kind {0} with a malformed body")]
    Body(u8),
}

pub(crate) struct Writer<'o>(pub(crate) &'o mut Vec<u8>);

impl Writer<'_> {
    pub(crate) fn head(&mut self, kind: u8, head: Head) -> &mut Self {
        self.u8(kind).u32(head.job.0).u32(head.generation.0);
        self.0.extend_from_slice(&head.sequence.to_le_bytes());
        self
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
        self
    }
}

pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks the length and takes kind and head off.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<(u8, Head, Self), WireError> {
        if !(HEAD_BYTES..=MESSAGE_BYTES_MAX).contains(&bytes.len()) {
            return Err(WireError::Length(bytes.len()));
        }
        let mut reader = Reader { rest: bytes };
        reader.kind_and_head().map(|(kind, head)| (kind, head, reader)).ok_or(WireError::Length(bytes.len()))
    }

    fn kind_and_head(&mut self) -> Option<(u8, Head)> {
        let kind = self.u8()?;
        let (job, generation) = (JobId(self.u32()?), Generation(self.u32()?));
        let sequence = self.take(8)?.try_into().ok().map(u64::from_le_bytes)?;
        Some((kind, Head { job, generation, sequence }))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// At most `max` bytes.
    pub(crate) fn bytes(&mut self, max: usize) -> Option<Bytes> {
        let length = self.u32()? as usize;
        if length > max {
            return None;
        }
        self.take(length).map(Bytes::from)
    }

    /// As many items as announced. Nothing is reserved ahead: the announcement may be a lie.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }
}
