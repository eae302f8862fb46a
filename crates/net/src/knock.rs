//! The word of a process that nobody can share memory with to one on the same host that has no sockets yet: ask me for a
//! connection. It is no part of the handshake, which begins then, from the other side.
use proto::ids::{Job, Peer, Rank};

const WORD: [u8; 8] = *b"knock\0\0\x01";
const BYTES: usize = 20;

/// The datagram of a rank.
pub(crate) fn emit(me: Peer) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&WORD);
    bytes[8..16].copy_from_slice(&me.job().0.to_le_bytes());
    bytes[16..].copy_from_slice(&me.rank().map_or(u32::MAX, |rank| rank.0).to_le_bytes());
    bytes
}

/// Who of the job knocks, if it is that.
pub(crate) fn parse(bytes: &[u8], job: Job) -> Option<Peer> {
    let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
    let theirs = Job(u64::from_le_bytes(*bytes[8..].first_chunk()?));
    let rank = Rank(u32::from_le_bytes(*bytes[16..].first_chunk()?));
    (bytes[..8] == WORD && theirs == job).then_some(Peer::Rank { job, rank })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rank_of_the_job_is_heard() {
        let me = Peer::Rank { job: Job(7), rank: Rank(3) };
        assert_eq!(parse(&emit(me), Job(7)), Some(me));
        assert_eq!(parse(&emit(me), Job(8)), None);
        assert_eq!(parse(&emit(me)[1..], Job(7)), None);
        assert_eq!(parse(&[0; BYTES], Job(0)), None);
    }
}
