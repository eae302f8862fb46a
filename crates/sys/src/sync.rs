//! What processes and threads synchronise by: the processor's atomics and the kernel's futex, or under loom its models.
//!
//! Shared memory, rings, mailbox and doorbell take everything from here. The models (`ring/model.rs`,
//! `segment/model.rs`) then run the very code that processes run, on `mem/model.rs` in the place of a mapping.
#[cfg(not(all(test, loom)))]
mod kernel;
#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
#[cfg(all(test, loom))]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(all(test, loom))]
pub(crate) use model::{
    DEAD, beside, explore, explore_three, finds, finds_three, futex_wait, futex_wake_all, membarrier,
    planted, process_exists,
};

#[cfg(not(all(test, loom)))]
pub(crate) use kernel::{futex_wait, futex_wake_all, membarrier, process_exists};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, fence};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Mistakes that models plant, to show that they would be found. What is compiled without loom has none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Who sleeps looks for news before it arms the doorbell, and not again.
    LookBeforeArming,
    /// Arming is not ordered before the last look.
    ArmWithoutBarrier,
    /// What the bell was is read when the wait begins, not when it was armed.
    BellReadAtTheWait,
    /// A ready bit is not ordered before the look at the sleeper's word.
    BitWithoutBarrier,
    /// Lines are the writer's again before their message has been read.
    CreditBeforeReading,
    /// A line that was the middle of a message is taken for the first of one.
    StaleLine,
    /// Another ring's length can be seen before its place.
    LengthBeforePlace,
    /// The last word in a ring is acknowledged while the reader still uses the ring.
    CreditForTheLastWord,
    /// A mailbox's slot is free before its datagram was copied.
    SlotFreedBeforeCopy,
    /// A slot's bit is set before its datagram is there.
    BitBeforeDatagram,
    /// A word of bits is taken for empty although a bit was set meanwhile.
    EmptyWordNotChecked,
}

/// Is that mistake to be made?
#[cfg(not(all(test, loom)))]
#[inline(always)]
pub(crate) const fn planted(_bug: Bug) -> bool {
    false
}
