//! Words between processes of one host that are no part of a handshake: they may get lost, and whoever says one says it
//! again.
use super::DeviceWord;
use crate::ids::{Job, NodeId, Peer, Rank};

const MAGIC: [u8; 7] = *b"banyan\x01";
const BYTES: usize = 20;
/// Set in the number of a node's data server; no rank is that high.
const SERVER: u32 = 1 << 31;

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Ask me for a connection: nobody can share memory with me, and I do not know your address.
    Call,
    /// About our node's device.
    Device(DeviceWord),
}

impl Word {
    const ALL: [Word; 3] = [Word::Call, Word::Device(DeviceWord::Lack), Word::Device(DeviceWord::Room)];

    fn byte(self) -> u8 {
        match self {
            Word::Call => 1,
            Word::Device(DeviceWord::Lack) => 2,
            Word::Device(DeviceWord::Room) => 3,
        }
    }

    /// The datagram of a process of the job.
    pub fn emit(self, me: Peer) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = self.byte();
        bytes[8..16].copy_from_slice(&me.job().0.to_le_bytes());
        let number = match me {
            Peer::Rank { rank, .. } => rank.0,
            Peer::Server { node, .. } => SERVER | node.0,
        };
        bytes[16..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    /// What somebody of the job says, if it is that.
    pub fn parse(bytes: &[u8], job: Job) -> Option<(Word, Peer)> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let theirs = Job(u64::from_le_bytes(*bytes[8..].first_chunk()?));
        let number = u32::from_le_bytes(*bytes[16..].first_chunk()?);
        let by = match number & SERVER {
            0 => Peer::Rank { job, rank: Rank(number) },
            _ => Peer::Server { job, node: NodeId(number & !SERVER) },
        };
        let word = Word::ALL.into_iter().find(|word| word.byte() == bytes[7])?;
        (bytes[..7] == MAGIC && theirs == job).then_some((word, by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_the_job_is_heard() {
        let me = Peer::Rank { job: Job(7), rank: Rank(3) };
        for word in Word::ALL {
            let bytes = word.emit(me);
            assert_eq!(Word::parse(&bytes, Job(7)), Some((word, me)));
            assert_eq!(Word::parse(&bytes, Job(8)), None);
            assert_eq!(Word::parse(&bytes[1..], Job(7)), None);
        }
        let server = Peer::Server { job: Job(7), node: NodeId(2) };
        assert_eq!(Word::parse(&Word::Call.emit(server), Job(7)), Some((Word::Call, server)));
        assert_eq!(Word::parse(&[0; BYTES], Job(0)), None);
        let mut unknown = Word::Call.emit(me);
        unknown[7] = 9;
        assert_eq!(Word::parse(&unknown, Job(7)), None);
    }
}
