//! Memory that peers reach: registered, in the own segment, or of any process of the host.
use super::Context;
use crate::provider::{AtomicOp, AtomicPosted, Posted, RdmaError};
use crate::qp::{MrKey, ProviderKind, Qp, RemoteMemory};
use crate::soft::SharedRegion;
use std::io;
use sys::cma::Row;
use sys::{UserBuf, UserBufMut};

impl Context {
    /// Registers a buffer that peers of a provider may read and write. `None`: the table is full at the moment.
    pub fn register(&mut self, kind: ProviderKind, buf: UserBuf) -> Option<MrKey> {
        self.provider(kind).register(buf)
    }

    /// Ends a registration.
    pub fn deregister(&mut self, kind: ProviderKind, key: MrKey) {
        self.provider(kind).deregister(key);
    }

    /// Bytes that a provider reads or writes at once, at most.
    pub fn rdma_bytes_max(&self, kind: ProviderKind) -> usize {
        match kind {
            ProviderKind::Soft => usize::MAX,
            ProviderKind::Sockets => self.caps(kind).message_max,
            ProviderKind::Verbs => self.rdma.as_deref().map_or(usize::MAX, |rdma| rdma.transfer_max()),
        }
    }

    /// Reads the peer's memory into `to`.
    pub fn rdma_read(&mut self, qp: Qp, to: UserBufMut, from: RemoteMemory) -> Result<Posted, RdmaError> {
        match (qp.provider(), &mut self.sockets, &mut self.rdma) {
            (ProviderKind::Sockets, Some(sockets), _) => sockets.rdma_read(qp, to, from),
            (ProviderKind::Verbs, _, Some(rdma)) => rdma.rdma_read(qp, to, from),
            _ => self.soft.rdma_read(qp, to, from).map(|()| Posted::Done),
        }
    }

    /// Writes `from` into the peer's memory.
    pub fn rdma_write(&mut self, qp: Qp, from: UserBuf, to: RemoteMemory) -> Result<Posted, RdmaError> {
        match (qp.provider(), &mut self.sockets, &mut self.rdma) {
            (ProviderKind::Sockets, Some(sockets), _) => sockets.rdma_write(qp, from, to),
            (ProviderKind::Verbs, _, Some(rdma)) => rdma.rdma_write(qp, from, to),
            _ => self.soft.rdma_write(qp, from, to).map(|()| Posted::Done),
        }
    }

    /// As [`Context::rdma_write`], right behind one that went well: whether the peer still lives is not looked up again.
    pub fn rdma_write_more(&mut self, qp: Qp, from: UserBuf, to: RemoteMemory) -> Result<Posted, RdmaError> {
        match qp.provider() {
            ProviderKind::Soft => self.soft.write_checked(qp, from, to).map(|()| Posted::Done),
            ProviderKind::Sockets | ProviderKind::Verbs => self.rdma_write(qp, from, to),
        }
    }

    /// Takes the first of `count` parts of the peer's registered memory that nobody has taken, to read it. Its owner takes
    /// parts too, from the end ([`Context::take_own_part`]): each is one's or the other's. Only inside a host.
    pub fn take_part(&self, qp: Qp, of: MrKey, count: u32) -> Option<u32> {
        if qp.provider() == ProviderKind::Soft { self.soft.take_part(qp, of, count) } else { None }
    }

    /// This process does nothing any more but wait for who reads its registered memory, who can see that then. Only inside a host.
    pub fn say_waits(&self, kind: ProviderKind, of: MrKey) {
        if kind == ProviderKind::Soft {
            self.soft.say_waits(of);
        }
    }

    /// Has the owner of the peer's registered memory said so?
    pub fn owner_waits(&self, qp: Qp, of: MrKey) -> bool {
        qp.provider() == ProviderKind::Soft && self.soft.owner_waits(qp, of)
    }

    /// Takes the last of `count` parts of this process's own registered memory that nobody has taken, to write it to the
    /// peer who reads the others.
    pub fn take_own_part(&self, kind: ProviderKind, of: MrKey, count: u32) -> Option<u32> {
        if kind == ProviderKind::Soft { self.soft.take_own_part(of, count) } else { None }
    }

    /// Changes a double word of the peer's memory.
    pub fn rdma_atomic(&mut self, qp: Qp, op: AtomicOp, at: RemoteMemory) -> Result<AtomicPosted, RdmaError> {
        match (qp.provider(), &mut self.sockets, &mut self.rdma) {
            (ProviderKind::Sockets, Some(sockets), _) => sockets.rdma_atomic(qp, op, at),
            (ProviderKind::Verbs, _, Some(rdma)) => rdma.rdma_atomic(qp, op, at),
            _ => self.soft.rdma_atomic(qp, op, at).map(AtomicPosted::Done),
        }
    }

    /// May this process reach the memory of others on its host, without a queue pair? For collectives, whose processes tell
    /// each other where they are.
    pub fn reaches_processes(&self) -> bool {
        self.card.soft.is_some() && self.soft.reaches_processes()
    }

    /// Can it read and write the word at an address of another process, which should be `word`?
    pub fn finds_process(&self, pid: u32, at: u64, word: u64) -> bool {
        self.soft.finds_process(pid, at, word)
    }

    /// Reads memory of another process into `to`.
    pub fn read_process(&self, pid: u32, from: u64, to: UserBufMut) -> Result<(), RdmaError> {
        self.soft.read_process(pid, from, to)
    }

    /// Writes `from` into memory of another process.
    pub fn write_process(&self, pid: u32, from: UserBuf, to: u64) -> Result<(), RdmaError> {
        self.soft.write_process(pid, from, to)
    }

    /// Reads rows of another process's memory into `to`.
    pub fn read_rows(
        &self,
        pid: u32,
        rows: &mut dyn Iterator<Item = Row>,
        to: UserBufMut,
    ) -> Result<(), RdmaError> {
        self.soft.read_rows(pid, rows, to)
    }

    /// Writes `from` into rows of another process's memory.
    pub fn write_rows(
        &self,
        pid: u32,
        from: UserBuf,
        rows: &mut dyn Iterator<Item = Row>,
    ) -> Result<(), RdmaError> {
        self.soft.write_rows(pid, from, rows)
    }

    /// Memory in this process's segment, registered: peers of this host reach it by a plain copy, whatever the kernel
    /// allows. `Ok(None)`: the table of registrations is full at the moment.
    pub fn allocate(&mut self, bytes: usize) -> io::Result<Option<SharedRegion>> {
        self.soft.allocate(bytes)
    }

    /// Ends the registration of memory in the segment and gives it back.
    pub fn free(&mut self, region: SharedRegion) {
        self.soft.free(region);
    }
}
