//! What comes in.
use crate::provider::{BreakReason, WorkError};
use crate::qp::{Qp, WorkId};
use sys::pool::PoolView;
use sys::{UserBufMut, ring};
use verbs::Arena;

/// Something happened. Borrowed parts are lent until the event is dropped.
#[derive(Debug)]
pub enum Event<'a> {
    /// A message.
    Receive {
        /// On this queue pair.
        qp: Qp,
        /// The message.
        view: View<'a>,
    },
    /// A long message has begun to arrive, and its bytes are still in the kernel. Answer before the next poll: with
    /// [`crate::Context::place`], or with [`crate::Context::keep`], after which it comes once more as a whole.
    Incoming {
        /// On this queue pair.
        qp: Qp,
        /// The sender's header.
        header: [u64; 2],
        /// Bytes of the payload.
        len: usize,
    },
    /// Posted work has ended; an atomic's old value, otherwise 0.
    Done(WorkId, Result<u64, WorkError>),
    /// A control message.
    Datagram(&'a [u8]),
    /// A queue pair is in ERROR. Its work has ended, or will by events behind this one.
    Broken {
        /// Which.
        qp: Qp,
        /// Why.
        why: BreakReason,
    },
}

/// A received message, in place.
#[derive(Debug)]
pub enum View<'a> {
    /// In a ring.
    Ring(ring::View<'a>),
    /// In memory of this process.
    Bytes(BytesView<'a>),
    /// In a slot that a device has written.
    Slot(SlotView<'a>),
    /// In a slot of the receive queue.
    Pool(PoolView<'a>),
}

/// A received message in a slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotView<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) slot: usize,
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) header: [u64; 2],
}

impl SlotView<'_> {
    /// The payload from `offset` on, as much as `to` takes.
    fn read(&self, offset: usize, to: &mut [u8]) -> usize {
        let bytes = self.len.saturating_sub(offset).min(to.len());
        self.arena.read(self.slot, self.start + offset.min(self.len), &mut to[..bytes]);
        bytes
    }
}

/// A received message in memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct BytesView<'a> {
    /// The sender's header.
    pub header: [u64; 2],
    /// The payload.
    pub payload: &'a [u8],
}

impl View<'_> {
    /// The sender's header.
    #[inline]
    pub fn header(&self) -> [u64; 2] {
        match self {
            View::Ring(view) => view.header(),
            View::Bytes(view) => view.header,
            View::Slot(view) => view.header,
            View::Pool(view) => view.header(),
        }
    }

    /// Bytes of the payload.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            View::Ring(view) => view.len(),
            View::Bytes(view) => view.payload.len(),
            View::Slot(view) => view.len,
            View::Pool(view) => view.len(),
        }
    }

    /// Is the payload empty?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the payload from `offset` on, as much as `to` takes; returns the bytes copied.
    #[inline]
    pub fn copy_to(&self, offset: usize, to: UserBufMut) -> usize {
        match self {
            View::Ring(view) => view.copy_to(offset, to),
            View::Bytes(view) => {
                let from = view.payload.get(offset..).unwrap_or_default();
                let bytes = from.len().min(to.len());
                to.copy_from_slice(&from[..bytes]);
                bytes
            }
            View::Slot(view) => {
                let bytes = view.len.saturating_sub(offset).min(to.len());
                view.arena.read_into(view.slot, view.start + offset.min(view.len), &to.part(0, bytes));
                bytes
            }
            View::Pool(view) => view.copy_to(offset, to),
        }
    }

    /// As [`View::copy_to`], to memory that nobody looks at soon.
    pub fn copy_past_caches(&self, to: UserBufMut) -> usize {
        match self {
            View::Ring(view) => view.copy_past_caches(to),
            _ => self.copy_to(0, to),
        }
    }

    /// The payload, copied out.
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            View::Ring(view) => view.to_vec(),
            View::Bytes(view) => view.payload.to_vec(),
            View::Slot(view) => {
                let mut bytes = vec![0; view.len];
                view.read(0, &mut bytes);
                bytes
            }
            View::Pool(view) => view.to_vec(),
        }
    }

    /// The first bytes of the payload, zero-filled if it is shorter.
    pub fn start<const N: usize>(&self) -> [u8; N] {
        match self {
            View::Ring(view) => view.start(),
            View::Bytes(view) => {
                let mut bytes = [0; N];
                let len = view.payload.len().min(N);
                bytes[..len].copy_from_slice(&view.payload[..len]);
                bytes
            }
            View::Slot(view) => {
                let mut bytes = [0; N];
                view.read(0, &mut bytes);
                bytes
            }
            View::Pool(view) => view.start(),
        }
    }
}
