//! What the boards of neighbouring nodes tell each other.
use super::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::lane::wire::{HEAD_BYTES, LENGTH_BYTES, WireError, open, write_head};
use crate::lane::{Bytes, Head};
use crate::wire::{Reader, Writer};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Key.
    pub key: Bytes,
    /// Value.
    pub value: Bytes,
    /// On the way up: was there another value for this key in the same phase, which somebody may have seen?
    pub contested: bool,
}

impl Entry {
    /// An entry that is the only one of its key.
    pub fn new(key: Bytes, value: Bytes) -> Self {
        Entry { key, value, contested: false }
    }

    /// Bytes of an encoded entry.
    pub(super) fn encoded_bytes(&self) -> usize {
        1 + 2 * LENGTH_BYTES + self.key.len() + self.value.len()
    }
}

/// Entries that go to several neighbours.
pub type Entries = Arc<[Entry]>;

/// A message between the boards of two neighbours.
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
    /// Up (HCS): one put.
    Put(Entry),
    /// Up: some of the puts of a phase. Down: some of what a fence published.
    Part(Entries),
    /// Up: all processes below are in the fence; the rest of their puts.
    Enter {
        /// Number of the fence.
        fence: u32,
        /// Puts.
        entries: Entries,
    },
    /// Down: all processes are in the fence; the rest of what it published.
    Leave {
        /// Number of the fence.
        fence: u32,
        /// What it published; nothing in strategies that do not broadcast.
        entries: Entries,
    },
    /// Down: keys whose values changed, so that what is cached is out of date.
    Stale(Arc<[Bytes]>),
    /// Up: who knows this key?
    Get {
        /// Key.
        key: Bytes,
    },
    /// Down: its value.
    Found {
        /// Key.
        key: Bytes,
        /// Value.
        value: Bytes,
    },
    /// Down: nobody has published it.
    Absent {
        /// Key.
        key: Bytes,
    },
}

const PUT: u8 = 1;
const PART: u8 = 2;
const ENTER: u8 = 3;
const LEAVE: u8 = 4;
const STALE: u8 = 5;
const GET: u8 = 6;
const FOUND: u8 = 7;
const ABSENT: u8 = 8;

impl Message {
    /// Appends the encoded message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer(out);
        write_head(&mut writer, self.body.kind(), self.head);
        self.body.write(&mut writer);
    }

    /// Reads a message that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Message, WireError> {
        let (kind, head, mut reader) = open(bytes)?;
        if !(PUT..=ABSENT).contains(&kind) {
            return Err(WireError::Kind(kind));
        }
        let body = Body::read(kind, &mut reader).ok_or(WireError::Body(kind))?;
        if reader.is_at_end() { Ok(Message { head, body }) } else { Err(WireError::Body(kind)) }
    }
}

impl Body {
    fn kind(&self) -> u8 {
        match self {
            Body::Put(_) => PUT,
            Body::Part(_) => PART,
            Body::Enter { .. } => ENTER,
            Body::Leave { .. } => LEAVE,
            Body::Stale(_) => STALE,
            Body::Get { .. } => GET,
            Body::Found { .. } => FOUND,
            Body::Absent { .. } => ABSENT,
        }
    }

    /// Bytes of the whole message.
    pub(super) fn encoded_bytes(&self) -> usize {
        let list = |entries: &Entries| LENGTH_BYTES + entries.iter().map(Entry::encoded_bytes).sum::<usize>();
        HEAD_BYTES
            + match self {
                Body::Put(entry) => entry.encoded_bytes(),
                Body::Part(entries) => list(entries),
                Body::Enter { entries, .. } | Body::Leave { entries, .. } => 4 + list(entries),
                Body::Stale(keys) => {
                    LENGTH_BYTES + keys.iter().map(|key| LENGTH_BYTES + key.len()).sum::<usize>()
                }
                Body::Get { key } | Body::Absent { key } => LENGTH_BYTES + key.len(),
                Body::Found { key, value } => 2 * LENGTH_BYTES + key.len() + value.len(),
            }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Body::Put(entry) => write_entry(writer, entry),
            Body::Part(entries) => write_entries(writer, entries),
            Body::Enter { fence, entries } | Body::Leave { fence, entries } => {
                write_entries(writer.u32(*fence), entries);
            }
            Body::Stale(keys) => {
                writer.u32(keys.len() as u32);
                for key in keys.iter() {
                    writer.bytes(key);
                }
            }
            Body::Get { key } | Body::Absent { key } => {
                writer.bytes(key);
            }
            Body::Found { key, value } => {
                writer.bytes(key).bytes(value);
            }
        }
    }

    fn read(kind: u8, reader: &mut Reader<'_>) -> Option<Body> {
        Some(match kind {
            PUT => Body::Put(read_entry(reader)?),
            PART => Body::Part(read_entries(reader)?),
            ENTER => Body::Enter { fence: reader.u32()?, entries: read_entries(reader)? },
            LEAVE => Body::Leave { fence: reader.u32()?, entries: read_entries(reader)? },
            STALE => Body::Stale(reader.list(read_key)?.into()),
            GET => Body::Get { key: read_key(reader)? },
            FOUND => Body::Found { key: read_key(reader)?, value: reader.bytes(VALUE_BYTES_MAX)? },
            ABSENT => Body::Absent { key: read_key(reader)? },
            _ => return None,
        })
    }
}

fn write_entry(writer: &mut Writer<'_>, entry: &Entry) {
    writer.u8(u8::from(entry.contested)).bytes(&entry.key).bytes(&entry.value);
}

fn write_entries(writer: &mut Writer<'_>, entries: &Entries) {
    writer.u32(entries.len() as u32);
    entries.iter().for_each(|entry| write_entry(writer, entry));
}

fn read_key(reader: &mut Reader<'_>) -> Option<Bytes> {
    reader.bytes(KEY_BYTES_MAX)
}

fn read_entry(reader: &mut Reader<'_>) -> Option<Entry> {
    let contested = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    Some(Entry { contested, key: read_key(reader)?, value: reader.bytes(VALUE_BYTES_MAX)? })
}

fn read_entries(reader: &mut Reader<'_>) -> Option<Entries> {
    reader.list(read_entry).map(Entries::from)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::lane::{Generation, JobId, MESSAGE_BYTES_MAX};
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
    }

    fn entry() -> impl Strategy<Value = Entry> {
        (bytes(), bytes(), any::<bool>()).prop_map(|(key, value, contested)| Entry { key, value, contested })
    }

    fn entries() -> impl Strategy<Value = Entries> {
        prop::collection::vec(entry(), 0..6).prop_map(Entries::from)
    }

    pub(in crate::board) fn body() -> impl Strategy<Value = Body> {
        prop_oneof![
            entry().prop_map(Body::Put),
            entries().prop_map(Body::Part),
            (any::<u32>(), entries()).prop_map(|(fence, entries)| Body::Enter { fence, entries }),
            (any::<u32>(), entries()).prop_map(|(fence, entries)| Body::Leave { fence, entries }),
            prop::collection::vec(bytes(), 0..6).prop_map(|keys| Body::Stale(keys.into())),
            bytes().prop_map(|key| Body::Get { key }),
            (bytes(), bytes()).prop_map(|(key, value)| Body::Found { key, value }),
            bytes().prop_map(|key| Body::Absent { key }),
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
        fn noise_is_refused_or_a_valid_message(mut noise in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..10) {
            noise.insert(0, kind);
            if let Ok(message) = Message::decode(&noise) {
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                prop_assert_eq!(bytes, noise);
            }
        }
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let head = Head::default();
        let long = |bytes: usize| Bytes::from(alloc::vec![0; bytes]);
        let decode = |body| {
            let mut bytes = Vec::new();
            Message { head, body }.encode(&mut bytes);
            Message::decode(&bytes)
        };
        assert!(decode(Body::Get { key: long(KEY_BYTES_MAX) }).is_ok());
        assert_eq!(decode(Body::Get { key: long(KEY_BYTES_MAX + 1) }), Err(WireError::Body(GET)));
        let entry = Entry::new(long(1), long(VALUE_BYTES_MAX + 1));
        assert_eq!(decode(Body::Put(entry)), Err(WireError::Body(PUT)));
        let bytes = alloc::vec![0; MESSAGE_BYTES_MAX + 1];
        assert_eq!(Message::decode(&bytes), Err(WireError::Length(MESSAGE_BYTES_MAX + 1)));
    }
}
