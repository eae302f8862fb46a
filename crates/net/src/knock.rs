//! Words between processes of one host that are no part of a handshake: they may get lost, and whoever says one says it
//! again.
use proto::ids::{Job, Peer, Rank};

const MAGIC: [u8; 7] = *b"banyan\x01";
const BYTES: usize = 20;

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Word {
    /// Ask me for a connection: nobody can share memory with me, and I do not know your address.
    Call = 1,
    /// I lack a queue pair of our node's device.
    Lack = 2,
    /// The node's device may have a queue pair again.
    Room = 3,
}

impl Word {
    fn from_byte(byte: u8) -> Option<Self> {
        [Word::Call, Word::Lack, Word::Room].into_iter().find(|word| *word as u8 == byte)
    }

    /// The datagram of a rank.
    pub fn emit(self, me: Peer) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = self as u8;
        bytes[8..16].copy_from_slice(&me.job().0.to_le_bytes());
        bytes[16..].copy_from_slice(&me.rank().map_or(u32::MAX, |rank| rank.0).to_le_bytes());
        bytes
    }

    /// What somebody of the job says, if it is that.
    pub fn parse(bytes: &[u8], job: Job) -> Option<(Word, Peer)> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let theirs = Job(u64::from_le_bytes(*bytes[8..].first_chunk()?));
        let rank = Rank(u32::from_le_bytes(*bytes[16..].first_chunk()?));
        let word = Word::from_byte(bytes[7])?;
        (bytes[..7] == MAGIC && theirs == job).then_some((word, Peer::Rank { job, rank }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rank_of_the_job_is_heard() {
        let me = Peer::Rank { job: Job(7), rank: Rank(3) };
        for word in [Word::Call, Word::Lack, Word::Room] {
            let bytes = word.emit(me);
            assert_eq!(Word::parse(&bytes, Job(7)), Some((word, me)));
            assert_eq!(Word::parse(&bytes, Job(8)), None);
            assert_eq!(Word::parse(&bytes[1..], Job(7)), None);
        }
        assert_eq!(Word::parse(&[0; BYTES], Job(0)), None);
        let mut unknown = Word::Call.emit(me);
        unknown[7] = 9;
        assert_eq!(Word::parse(&unknown, Job(7)), None);
    }
}
