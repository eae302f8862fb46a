//! Names of things: a queue pair, a piece of work, registered memory. Small values that are copied.
use std::fmt;
use std::num::NonZeroU64;

/// Who carries a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ProviderKind {
    /// Shared memory of one host.
    Soft = 0,
    /// TCP and UDP.
    Sockets = 1,
    /// RDMA devices.
    Verbs = 2,
}

impl ProviderKind {
    /// How many there are.
    pub const COUNT: usize = 3;
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProviderKind::Soft => "shared memory",
            ProviderKind::Sockets => "sockets",
            ProviderKind::Verbs => "RDMA",
        })
    }
}

const INDEX_BITS: u32 = 30;
const PROVIDER_SHIFT: u32 = 62;

/// A queue pair of this process: provider, index and generation. Indices are used again, so a stale value is found
/// out by its generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Qp(NonZeroU64);

impl Qp {
    /// Index must be below 2^30, which every provider's limit is.
    pub(crate) fn new(provider: ProviderKind, index: usize, generation: u32) -> Self {
        debug_assert!(index < 1 << INDEX_BITS);
        // Providers count from 1 here, so that an `Option<Qp>` is one word.
        let provider = provider as u64 + 1;
        let word = provider << PROVIDER_SHIFT | u64::from(generation) << INDEX_BITS | index as u64;
        Qp(NonZeroU64::new(word).expect("the provider is not 0"))
    }

    /// Who carries it.
    #[inline]
    pub const fn provider(self) -> ProviderKind {
        match self.0.get() >> PROVIDER_SHIFT {
            1 => ProviderKind::Soft,
            2 => ProviderKind::Sockets,
            _ => ProviderKind::Verbs,
        }
    }

    /// A small number, dense among the live queue pairs of its provider.
    #[inline]
    pub const fn index(self) -> usize {
        (self.0.get() & ((1 << INDEX_BITS) - 1)) as usize
    }

    /// Tells apart those that had the same index one after the other.
    #[inline]
    pub const fn generation(self) -> u32 {
        (self.0.get() >> INDEX_BITS) as u32
    }
}

impl fmt::Debug for Qp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qp({:?} {}.{})", self.provider(), self.index(), self.generation())
    }
}

/// Work that was posted and is not done yet; it ends in exactly one [`crate::Event::Done`]. The number is the only one of a
/// [`Context`](crate::Context), whichever provider has the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkId(pub u64);

/// Numbers the work of one provider. Its kind is part of each number, since callers keep the work of all providers in one table.
#[derive(Debug)]
pub(crate) struct WorkIds(u64);

impl WorkIds {
    pub const fn new(provider: ProviderKind) -> Self {
        WorkIds((provider as u64) << PROVIDER_SHIFT)
    }

    /// The next number. (2^62 of them are centuries of work, so that one provider's never become another's.)
    #[inline]
    pub fn take(&mut self) -> WorkId {
        self.0 += 1;
        WorkId(self.0)
    }
}

/// Names registered memory, for peers of one provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrKey(pub u32);

/// Memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// Address in the peer.
    pub addr: u64,
    /// The peer's key for it.
    pub key: MrKey,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_pair_keeps_its_parts() {
        for (provider, index, generation) in [
            (ProviderKind::Soft, 0, 0),
            (ProviderKind::Sockets, (1 << INDEX_BITS) - 1, u32::MAX),
            (ProviderKind::Soft, 4095, u32::MAX),
            (ProviderKind::Sockets, 0, 1),
            (ProviderKind::Verbs, 5, u32::MAX),
        ] {
            let qp = Qp::new(provider, index, generation);
            assert_eq!((qp.provider(), qp.index(), qp.generation()), (provider, index, generation));
        }
    }

    #[test]
    fn work_of_two_providers_never_has_one_number() {
        let kinds = [ProviderKind::Soft, ProviderKind::Sockets, ProviderKind::Verbs];
        let mut taken: Vec<WorkId> = kinds
            .into_iter()
            .flat_map(|kind| {
                let mut ids = WorkIds::new(kind);
                std::iter::repeat_with(move || ids.take()).take(100)
            })
            .collect();
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), 300);
    }
}
