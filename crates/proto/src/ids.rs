//! The numbers everything is named by. Newtypes, so that a rank is never taken for a node.
use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number as an index.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// A process of a job, numbered from 0 (its rank in the world of the job).
    Rank(u32)
}
id! {
    /// A process as another one counts those that it may talk to: the ranks of its own job are their own numbers, and
    /// the ranks of each other job that it has met follow in a row. It means nothing to anybody else.
    Process(u32)
}
id! {
    /// A node of a job: a host, or an emulated node on one.
    NodeId(u32)
}
id! {
    /// A queue pair's number, unique on its node.
    QpNum(u32)
}

/// A job: random, or a hash of its unique name, and wide enough that two jobs that meet do not have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Job(pub u64);

impl Job {
    /// The job that has a key-value space of this name, which no other job has: FNV-1a of it. No secret.
    pub fn named(name: &str) -> Self {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Job(name.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A process that others talk to. Jobs meet (spawn, connect, join), so a rank alone names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A rank of a job.
    Rank {
        /// Its job.
        job: Job,
        /// Its rank in the world of that job.
        rank: Rank,
    },
    /// The data server of a node.
    Server {
        /// The job it serves.
        job: Job,
        /// Its node.
        node: NodeId,
    },
}

impl Peer {
    /// Bytes of the wire form.
    pub const BYTES: usize = 16;

    /// The job it belongs to.
    pub const fn job(self) -> Job {
        match self {
            Peer::Rank { job, .. } | Peer::Server { job, .. } => job,
        }
    }

    /// Its rank, unless it is a server.
    pub const fn rank(self) -> Option<Rank> {
        match self {
            Peer::Rank { rank, .. } => Some(rank),
            Peer::Server { .. } => None,
        }
    }

    /// Kind (1 rank, 2 server), number, job: little-endian.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let (kind, number): (u32, u32) = match self {
            Peer::Rank { rank, .. } => (1, rank.0),
            Peer::Server { node, .. } => (2, node.0),
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..].copy_from_slice(&self.job().0.to_le_bytes());
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. `None`: no kind of peer.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let [k0, k1, k2, k3, n0, n1, n2, n3, job @ ..] = bytes;
        let number = u32::from_le_bytes([n0, n1, n2, n3]);
        let job = Job(u64::from_le_bytes(job));
        match u32::from_le_bytes([k0, k1, k2, k3]) {
            1 => Some(Peer::Rank { job, rank: Rank(number) }),
            2 => Some(Peer::Server { job, node: NodeId(number) }),
            _ => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Rank { rank, .. } => write!(f, "rank {rank}"),
            Peer::Server { node, .. } => write!(f, "the data server of node {node}"),
        }
    }
}

/// A peer's place in the tables of one process: a dense index, and a generation that tells the peer from an
/// earlier one at the same index. It means nothing to another process, which only gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIx(u32);

impl PeerIx {
    /// Bits of the index.
    const INDEX_BITS: u32 = 24;
    /// Places there can be.
    pub const INDICES: usize = 1 << Self::INDEX_BITS;

    /// A process in its own table.
    pub const ME: PeerIx = PeerIx::new(0, 0);

    /// Panics if the index is not below [`INDICES`](Self::INDICES).
    pub const fn new(index: usize, generation: u8) -> Self {
        assert!(index < Self::INDICES);
        Self((generation as u32) << Self::INDEX_BITS | index as u32)
    }

    /// The place.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize & (Self::INDICES - 1)
    }

    /// How many had the place before.
    #[inline]
    pub const fn generation(self) -> u8 {
        (self.0 >> Self::INDEX_BITS) as u8
    }

    /// As it stands in messages.
    #[inline]
    pub const fn to_wire(self) -> u32 {
        self.0
    }

    /// What a message had. It may be stale, or nonsense: only its table can tell.
    #[inline]
    pub const fn from_wire(wire: u32) -> Self {
        Self(wire)
    }
}

impl fmt::Display for PeerIx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index(), self.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;

    proptest! {
        #[test]
        fn a_peer_is_what_its_bytes_say(server in any::<bool>(), number in any::<u32>(), job in any::<u64>()) {
            let job = Job(job);
            let peer = match server {
                true => Peer::Server { job, node: NodeId(number) },
                false => Peer::Rank { job, rank: Rank(number) },
            };
            prop_assert_eq!(Peer::from_bytes(peer.to_bytes()), Some(peer));
        }

        #[test]
        fn bytes_that_are_a_peer_are_its_bytes(mut bytes in any::<[u8; 16]>(), kind in 0..4u8) {
            bytes[..4].copy_from_slice(&[kind, 0, 0, 0]);
            let peer = Peer::from_bytes(bytes);
            prop_assert_eq!(peer.is_some(), kind == 1 || kind == 2);
            prop_assert!(peer.is_none_or(|peer| peer.to_bytes() == bytes));
        }

        #[test]
        fn an_index_keeps_both_parts(index in 0..PeerIx::INDICES, generation in any::<u8>()) {
            let ix = PeerIx::from_wire(PeerIx::new(index, generation).to_wire());
            prop_assert_eq!((ix.index(), ix.generation()), (index, generation));
        }
    }

    #[test]
    fn peers_have_names() {
        let job = Job(7);
        assert_eq!(format!("{}", Peer::Rank { job, rank: Rank(3) }), "rank 3");
        assert_eq!(format!("{}", Peer::Server { job, node: NodeId(2) }), "the data server of node 2");
    }
}
