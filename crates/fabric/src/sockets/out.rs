//! What a stream has still to write: bytes of its own, and buffers that are lent until they are in the kernel.
use crate::qp::WorkId;
use std::collections::VecDeque;
use std::io;
use sys::UserBuf;
use sys::socket::Transfer;
use sys::tcp::Stream;

/// Buffers that are kept for the next stream with something to write.
const SPARE_MAX: usize = 4;
/// Items for which an empty queue keeps room.
const ITEMS_KEPT: usize = 8;

/// Who waits for a lent buffer to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lender {
    /// A posted send: it is done then.
    Work(WorkId),
    /// A request: it is done when it is answered.
    Request,
    /// Registered memory of this number, which a peer reads.
    Memory(u32),
}

/// A frame's head is always among owned bytes, and its payload may be lent right behind.
#[derive(Debug)]
enum Item {
    Owned { bytes: Vec<u8>, sent: usize },
    Lent { buf: UserBuf, lender: Lender },
}

/// How far a write came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Nothing is left.
    All,
    /// The kernel takes no more at the moment.
    Blocked,
    /// The other end is gone.
    Closed,
}

/// Buffers for bytes of streams' own, used again.
#[derive(Debug, Default)]
pub(super) struct Spare(Vec<Vec<u8>>);

impl Spare {
    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    fn give(&mut self, mut bytes: Vec<u8>) {
        if self.0.len() < SPARE_MAX && bytes.capacity() <= 64 << 10 {
            bytes.clear();
            self.0.push(bytes);
        }
    }

    pub fn bytes(&self) -> usize {
        self.0.iter().map(Vec::capacity).sum()
    }
}

/// What is to be written, in order.
#[derive(Debug, Default)]
pub(super) struct Out {
    items: VecDeque<Item>,
    /// Bytes of its own.
    owned: usize,
    /// Pieces of registered memory that a peer has asked for.
    served: usize,
}

impl Out {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of its own.
    #[inline]
    pub fn owned(&self) -> usize {
        self.owned
    }

    /// Pieces of registered memory in the queue.
    pub fn served(&self) -> usize {
        self.served
    }

    /// Is a buffer lent to it?
    pub fn has_lent(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Lent { .. }))
    }

    /// Memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        let owned = |item: &Item| if let Item::Owned { bytes, .. } = item { bytes.capacity() } else { 0 };
        self.items.capacity() * size_of::<Item>() + self.items.iter().map(owned).sum::<usize>()
    }

    /// The buffer at the end that takes more bytes of its own.
    #[inline]
    fn tail(&mut self, spare: &mut Spare) -> &mut Vec<u8> {
        if !matches!(self.items.back(), Some(Item::Owned { .. })) {
            self.items.push_back(Item::Owned { bytes: spare.take(), sent: 0 });
        }
        match self.items.back_mut() {
            Some(Item::Owned { bytes, .. }) => bytes,
            _ => unreachable!("an owned item was just put there"),
        }
    }

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8], spare: &mut Spare) {
        self.tail(spare).extend_from_slice(bytes);
        self.owned += bytes.len();
    }

    /// Puts bytes before everything else.
    pub fn push_front(&mut self, bytes: Vec<u8>) {
        self.owned += bytes.len();
        self.items.push_front(Item::Owned { bytes, sent: 0 });
    }

    /// Appends a copy of a buffer.
    #[inline]
    pub fn push_copy(&mut self, buf: UserBuf, spare: &mut Spare) {
        let tail = self.tail(spare);
        let start = tail.len();
        tail.resize(start + buf.len(), 0);
        buf.copy_to(&mut tail[start..]);
        self.owned += buf.len();
    }

    /// Appends a buffer itself.
    pub fn push_lent(&mut self, buf: UserBuf, lender: Lender) {
        self.served += usize::from(matches!(lender, Lender::Memory(_)));
        self.items.push_back(Item::Lent { buf, lender });
    }

    /// Writes what the kernel takes. Lenders whose buffers are written are told to `ended`.
    pub fn write(
        &mut self,
        stream: &Stream,
        spare: &mut Spare,
        mut ended: impl FnMut(Lender),
    ) -> io::Result<Written> {
        loop {
            self.shed(spare, &mut ended);
            let rest = match self.items.get(1) {
                Some(Item::Lent { buf, .. }) => *buf,
                _ => UserBuf::EMPTY,
            };
            let wanted = match self.items.front() {
                None => return Ok(Written::All),
                Some(Item::Owned { bytes, sent }) => stream.write_parts(&bytes[*sent..], rest),
                Some(Item::Lent { buf, .. }) => stream.write_from(*buf),
            };
            match wanted? {
                Transfer::Bytes(bytes) => self.advance(bytes),
                Transfer::WouldBlock => return Ok(Written::Blocked),
                Transfer::Closed => return Ok(Written::Closed),
            }
        }
    }

    /// Takes written items from the front.
    fn shed(&mut self, spare: &mut Spare, ended: &mut impl FnMut(Lender)) {
        loop {
            match self.items.front_mut() {
                Some(Item::Owned { bytes, sent }) if *sent == bytes.len() => {
                    self.owned -= bytes.len();
                    spare.give(std::mem::take(bytes));
                }
                Some(Item::Lent { buf, lender }) if buf.is_empty() => {
                    self.served -= usize::from(matches!(lender, Lender::Memory(_)));
                    ended(*lender);
                }
                Some(_) => return,
                None => break,
            }
            self.items.pop_front();
        }
        if self.items.capacity() > ITEMS_KEPT {
            self.items = VecDeque::new();
        }
    }

    fn advance(&mut self, mut bytes: usize) {
        for item in self.items.iter_mut().take(2) {
            match item {
                Item::Owned { bytes: own, sent } => {
                    let part = bytes.min(own.len() - *sent);
                    *sent += part;
                    bytes -= part;
                }
                Item::Lent { buf, .. } => {
                    let part = bytes.min(buf.len());
                    *buf = buf.part(part, buf.len() - part);
                    bytes -= part;
                }
            }
        }
        debug_assert_eq!(bytes, 0, "more was written than there was");
    }

    /// Takes the bytes of its own out of the queue, if they are all that is there. Otherwise nothing is taken: the
    /// stream is cut in the middle of a frame.
    pub fn take_owned(&mut self) -> Out {
        if self.has_lent() { Out::default() } else { std::mem::take(self) }
    }

    /// Gives up what is not written; its lenders.
    pub fn clear(&mut self) -> Vec<Lender> {
        (self.owned, self.served) = (0, 0);
        let items = std::mem::take(&mut self.items).into_iter();
        items
            .filter_map(|item| if let Item::Lent { lender, .. } = item { Some(lender) } else { None })
            .collect()
    }

    /// Registered memory goes away: what is still to be written of it is copied.
    pub fn copy_memory(&mut self, number: u32) -> usize {
        let mut copied = 0;
        for item in &mut self.items {
            if let Item::Lent { buf, lender: Lender::Memory(memory) } = item
                && *memory == number
            {
                let mut bytes = vec![0; buf.len()];
                buf.copy_to(&mut bytes);
                self.owned += bytes.len();
                *item = Item::Owned { bytes, sent: 0 };
                copied += 1;
            }
        }
        self.served -= copied;
        copied
    }
}
