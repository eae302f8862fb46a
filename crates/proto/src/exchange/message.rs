//! What the exchanges of neighbouring nodes tell each other.
use super::{CHUNK_BYTES_MAX, Collective};
use crate::ids::Rank;
use crate::lane::wire::{HEAD_BYTES, LENGTH_BYTES, open, write_head};
use crate::lane::{Bytes, Head, WireError};
use crate::wire::{Reader, Writer};
use alloc::vec::Vec;

/// Data from one process to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Who sent it.
    pub from: Rank,
    /// Who gets it.
    pub to: Rank,
    /// What it is about.
    pub tag: u32,
    /// What it says.
    pub data: Bytes,
}

/// What a process gives in a collective operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Who gives it.
    pub from: Rank,
    /// Who gets it; `None` for all.
    pub to: Option<Rank>,
    /// What it is.
    pub data: Bytes,
}

impl Chunk {
    /// Bytes of an encoded chunk.
    pub(super) fn encoded_bytes(&self) -> usize {
        8 + LENGTH_BYTES + self.data.len()
    }
}

/// A message between the exchanges of two neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Job, generation, sequence.
    pub head: Head,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Either way: a letter on its way.
    Letter(Letter),
    /// Either way: some of the chunks of a collective operation.
    Part(Vec<Chunk>),
    /// Up: all processes below take part; the rest of what they give to others.
    Up {
        /// Number of the operation.
        round: u32,
        /// What it is.
        collective: Collective,
        /// Chunks.
        chunks: Vec<Chunk>,
    },
    /// Down: all processes take part; the rest of what those below get.
    Down {
        /// Number of the operation.
        round: u32,
        /// Chunks.
        chunks: Vec<Chunk>,
    },
}

const LETTER: u8 = 1;
const PART: u8 = 2;
const UP: u8 = 3;
const DOWN: u8 = 4;
/// Stands for all processes; no process has this number.
const ALL: u32 = u32::MAX;

impl Message {
    /// Appends the encoded message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer(out);
        write_head(&mut writer, self.body.kind(), self.head);
        match &self.body {
            Body::Letter(Letter { from, to, tag, data }) => {
                writer.u32(from.0).u32(to.0).u32(*tag).bytes(data);
            }
            Body::Part(chunks) => write_chunks(&mut writer, chunks),
            Body::Up { round, collective, chunks } => {
                let (kind, root) = collective_words(*collective);
                write_chunks(writer.u32(*round).u8(kind).u32(root), chunks);
            }
            Body::Down { round, chunks } => write_chunks(writer.u32(*round), chunks),
        }
    }

    /// Reads a message that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Message, WireError> {
        let (kind, head, mut reader) = open(bytes)?;
        if !(LETTER..=DOWN).contains(&kind) {
            return Err(WireError::Kind(kind));
        }
        let body = Body::read(kind, &mut reader).ok_or(WireError::Body(kind))?;
        if reader.is_at_end() { Ok(Message { head, body }) } else { Err(WireError::Body(kind)) }
    }
}

impl Body {
    fn kind(&self) -> u8 {
        match self {
            Body::Letter(_) => LETTER,
            Body::Part(_) => PART,
            Body::Up { .. } => UP,
            Body::Down { .. } => DOWN,
        }
    }

    /// Bytes of the whole message.
    pub(super) fn encoded_bytes(&self) -> usize {
        let list = |chunks: &[Chunk]| LENGTH_BYTES + chunks.iter().map(Chunk::encoded_bytes).sum::<usize>();
        HEAD_BYTES
            + match self {
                Body::Letter(letter) => 12 + LENGTH_BYTES + letter.data.len(),
                Body::Part(chunks) => list(chunks),
                Body::Up { chunks, .. } => 9 + list(chunks),
                Body::Down { chunks, .. } => 4 + list(chunks),
            }
    }

    fn read(kind: u8, reader: &mut Reader<'_>) -> Option<Body> {
        Some(match kind {
            LETTER => {
                let (from, to, tag) = (Rank(reader.u32()?), Rank(reader.u32()?), reader.u32()?);
                Body::Letter(Letter { from, to, tag, data: reader.bytes(CHUNK_BYTES_MAX)? })
            }
            PART => Body::Part(reader.list(read_chunk)?),
            UP => {
                let (round, collective) = (reader.u32()?, read_collective(reader)?);
                Body::Up { round, collective, chunks: reader.list(read_chunk)? }
            }
            DOWN => Body::Down { round: reader.u32()?, chunks: reader.list(read_chunk)? },
            _ => return None,
        })
    }
}

fn write_chunks(writer: &mut Writer<'_>, chunks: &[Chunk]) {
    writer.u32(chunks.len() as u32);
    for Chunk { from, to, data } in chunks {
        writer.u32(from.0).u32(to.map_or(ALL, |to| to.0)).bytes(data);
    }
}

fn read_chunk(reader: &mut Reader<'_>) -> Option<Chunk> {
    let (from, to) = (Rank(reader.u32()?), reader.u32()?);
    let to = (to != ALL).then_some(Rank(to));
    Some(Chunk { from, to, data: reader.bytes(CHUNK_BYTES_MAX)? })
}

/// Kind and root. Operations without a root have 0 there.
fn collective_words(collective: Collective) -> (u8, u32) {
    match collective {
        Collective::Barrier => (0, 0),
        Collective::Broadcast { root } => (1, root.0),
        Collective::Gather { root } => (2, root.0),
        Collective::Allgather => (3, 0),
        Collective::Scatter { root } => (4, root.0),
        Collective::Alltoall => (5, 0),
    }
}

fn read_collective(reader: &mut Reader<'_>) -> Option<Collective> {
    let (kind, root) = (reader.u8()?, Rank(reader.u32()?));
    match (kind, root.0) {
        (0, 0) => Some(Collective::Barrier),
        (1, _) => Some(Collective::Broadcast { root }),
        (2, _) => Some(Collective::Gather { root }),
        (3, 0) => Some(Collective::Allgather),
        (4, _) => Some(Collective::Scatter { root }),
        (5, 0) => Some(Collective::Alltoall),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::lane::{Generation, JobId};
    use proptest::prelude::*;

    fn data() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
    }

    fn rank() -> impl Strategy<Value = Rank> {
        (0..ALL).prop_map(Rank)
    }

    fn chunks() -> impl Strategy<Value = Vec<Chunk>> {
        let chunk =
            (rank(), prop::option::of(rank()), data()).prop_map(|(from, to, data)| Chunk { from, to, data });
        prop::collection::vec(chunk, 0..6)
    }

    fn collective() -> impl Strategy<Value = Collective> {
        prop_oneof![
            Just(Collective::Barrier),
            rank().prop_map(|root| Collective::Broadcast { root }),
            rank().prop_map(|root| Collective::Gather { root }),
            Just(Collective::Allgather),
            rank().prop_map(|root| Collective::Scatter { root }),
            Just(Collective::Alltoall),
        ]
    }

    pub(in crate::exchange) fn body() -> impl Strategy<Value = Body> {
        prop_oneof![
            (rank(), rank(), any::<u32>(), data()).prop_map(|(from, to, tag, data)| Body::Letter(Letter {
                from,
                to,
                tag,
                data
            })),
            chunks().prop_map(Body::Part),
            (any::<u32>(), collective(), chunks()).prop_map(|(round, collective, chunks)| Body::Up {
                round,
                collective,
                chunks
            }),
            (any::<u32>(), chunks()).prop_map(|(round, chunks)| Body::Down { round, chunks }),
        ]
    }

    fn message() -> impl Strategy<Value = Message> {
        (any::<u32>(), any::<u32>(), any::<u64>(), body()).prop_map(|(job, generation, sequence, body)| {
            Message { head: Head { job: JobId(job), generation: Generation(generation), sequence }, body }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_message_is_decoded_as_it_was_encoded(message in message()) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), message.body.encoded_bytes());
            prop_assert_eq!(Message::decode(&bytes), Ok(message));
        }

        #[test]
        fn damaged_and_cut_messages_never_panic(
            message in message(), at in any::<prop::sample::Index>(), bit in 0u8..8
        ) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            let at = at.index(bytes.len());
            prop_assert!(Message::decode(&bytes[..at]).is_err());
            bytes[at] ^= 1 << bit;
            let _ = Message::decode(&bytes);
        }

        #[test]
        fn noise_is_refused_or_a_valid_message(
            mut noise in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..7
        ) {
            noise.insert(0, kind);
            if let Ok(message) = Message::decode(&noise) {
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                prop_assert_eq!(bytes, noise);
            }
        }
    }
}
