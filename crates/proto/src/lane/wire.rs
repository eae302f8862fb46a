//! The kind and head that every message begins with.
use super::{Generation, Head, JobId, MESSAGE_BYTES_MAX};
use crate::wire::{Reader, Writer};

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

pub(crate) fn write_head(writer: &mut Writer<'_>, kind: u8, head: Head) {
    writer.u8(kind).u32(head.job.0).u32(head.generation.0).u64(head.sequence);
}

/// Checks the length and takes kind and head off.
pub(crate) fn open(bytes: &[u8]) -> Result<(u8, Head, Reader<'_>), WireError> {
    if !(HEAD_BYTES..=MESSAGE_BYTES_MAX).contains(&bytes.len()) {
        return Err(WireError::Length(bytes.len()));
    }
    let mut reader = Reader::new(bytes);
    let (kind, head) = kind_and_head(&mut reader).ok_or(WireError::Length(bytes.len()))?;
    Ok((kind, head, reader))
}

fn kind_and_head(reader: &mut Reader<'_>) -> Option<(u8, Head)> {
    let kind = reader.u8()?;
    let (job, generation) = (JobId(reader.u32()?), Generation(reader.u32()?));
    Some((kind, Head { job, generation, sequence: reader.u64()? }))
}
