//! Memory of other processes of the host: that of peers, by their registrations, and that of any process, by its id.
//!
//! What it is not: messages, which are in `qp`; and memory of this process's own connections, which is in `memory`.
use super::Soft;
use super::qp::QpEntry;
use crate::provider::{AtomicOp, RdmaError};
use crate::qp::{MrKey, Qp, RemoteMemory};
use std::io;
use std::sync::atomic::Ordering;
use sys::cma::Row;
use sys::segment::{copy_from_map, copy_to_map};
use sys::{SharedMap, UserBuf, UserBufMut};

impl Soft {
    /// Reads the peer's memory into `to`.
    pub(crate) fn rdma_read(&mut self, qp: Qp, to: UserBufMut, from: RemoteMemory) -> Result<(), RdmaError> {
        self.complete(qp);
        match self.remote(qp, from, to.len())? {
            Remote::Shared(map, offset) => copy_from_map(&map, offset, to),
            Remote::Process(pid) => {
                let done = sys::cma::read(pid, from.addr, to);
                done.map_err(|e| self.rdma_error(e))?;
            }
        }
        Ok(())
    }

    /// Writes `from` into the peer's memory.
    pub(crate) fn rdma_write(&mut self, qp: Qp, from: UserBuf, to: RemoteMemory) -> Result<(), RdmaError> {
        self.complete(qp);
        self.check_alive(qp)?;
        self.write_checked(qp, from, to)
    }

    /// Another process may have the peer's number by now; what is written there is lost to it.
    fn check_alive(&self, qp: Qp) -> Result<(), RdmaError> {
        let at = self.entry(qp).and_then(QpEntry::peer).map(|(_, at)| at);
        at.ok_or(RdmaError::State)?.check_alive().map_err(RdmaError::Io)
    }

    /// As [`Soft::rdma_write`] to a peer that is known to live.
    pub(crate) fn write_checked(&self, qp: Qp, from: UserBuf, to: RemoteMemory) -> Result<(), RdmaError> {
        match self.remote(qp, to, from.len())? {
            Remote::Shared(map, offset) => copy_to_map(&map, offset, from),
            // Who may not write may still read.
            Remote::Process(pid) => sys::cma::write(pid, from, to.addr).map_err(process_error)?,
        }
        Ok(())
    }

    /// Takes the first of `count` parts of the peer's memory that nobody has taken.
    pub(crate) fn take_part(&self, qp: Qp, of: MrKey, count: u32) -> Option<u32> {
        self.entry(qp)?.peer()?.0.take_part(of.0, count)
    }

    /// Does the owner of the peer's memory do nothing but wait for who reads it?
    pub(crate) fn owner_waits(&self, qp: Qp, of: MrKey) -> bool {
        self.entry(qp).and_then(|entry| entry.peer()).is_some_and(|(peer, _)| peer.owner_waits(of.0))
    }

    /// This process does nothing but wait for who reads its memory.
    pub(crate) fn say_waits(&self, of: MrKey) {
        self.segment.say_waits(of.0);
    }

    /// Takes the last of `count` parts of this process's own memory that nobody has taken.
    pub(crate) fn take_own_part(&self, of: MrKey, count: u32) -> Option<u32> {
        self.segment.take_part(of.0, count)
    }

    /// Changes a double word of the peer's memory; the old value. Only memory in a segment can be changed so.
    pub(crate) fn rdma_atomic(&mut self, qp: Qp, op: AtomicOp, at: RemoteMemory) -> Result<u64, RdmaError> {
        self.complete(qp);
        match self.remote(qp, at, 8)? {
            Remote::Shared(map, offset) if offset.is_multiple_of(8) => {
                let word = map.u64_at(offset);
                Ok(match op {
                    AtomicOp::Add(value) => word.fetch_add(value, Ordering::AcqRel),
                    AtomicOp::Swap { expected, new } => {
                        let swapped =
                            word.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire);
                        swapped.unwrap_or_else(|old| old)
                    }
                })
            }
            _ => Err(RdmaError::Atomic),
        }
    }

    /// May this process reach the memory of others on its host, without a queue pair?
    pub(crate) fn reaches_processes(&self) -> bool {
        self.cma
    }

    /// Can it read and write the word at an address of another process, which should be `word`?
    pub(crate) fn finds_process(&self, pid: u32, at: u64, word: u64) -> bool {
        self.reaches_processes() && sys::cma::finds(pid, at, word).unwrap_or(false)
    }

    /// Reads memory of another process into `to`.
    pub(crate) fn read_process(&self, pid: u32, from: u64, to: UserBufMut) -> Result<(), RdmaError> {
        sys::cma::read(pid, from, to).map_err(process_error)
    }

    /// Writes `from` into memory of another process.
    pub(crate) fn write_process(&self, pid: u32, from: UserBuf, to: u64) -> Result<(), RdmaError> {
        sys::cma::write(pid, from, to).map_err(process_error)
    }

    /// Reads rows of another process's memory into `to`.
    pub(crate) fn read_rows(
        &self,
        pid: u32,
        rows: &mut dyn Iterator<Item = Row>,
        to: UserBufMut,
    ) -> Result<(), RdmaError> {
        sys::cma::read_rows(pid, rows, to).map_err(process_error)
    }

    /// Writes `from` into rows of another process's memory.
    pub(crate) fn write_rows(
        &self,
        pid: u32,
        from: UserBuf,
        rows: &mut dyn Iterator<Item = Row>,
    ) -> Result<(), RdmaError> {
        sys::cma::write_rows(pid, from, rows).map_err(process_error)
    }

    fn remote(&self, qp: Qp, memory: RemoteMemory, bytes: usize) -> Result<Remote, RdmaError> {
        let entry = self.entry(qp).ok_or(RdmaError::State)?;
        let (peer, at) = entry.peer().ok_or(RdmaError::State)?;
        let region = peer.region(memory.key.0).ok_or(RdmaError::Key)?;
        let start = memory.addr.checked_sub(region.addr).ok_or(RdmaError::Key)?;
        if start.checked_add(bytes as u64).is_none_or(|end| end > region.bytes) {
            return Err(RdmaError::Key);
        }
        match region.segment_offset {
            Some(offset) => {
                let page = (offset + start) & !4095;
                let inside = (offset + start - page) as usize;
                let map = peer.map(page, (inside + bytes).next_multiple_of(4096)).map_err(RdmaError::Io)?;
                Ok(Remote::Shared(map, inside))
            }
            None if self.cma => Ok(Remote::Process(at.pid)),
            None => Err(RdmaError::Forbidden),
        }
    }

    fn rdma_error(&mut self, error: io::Error) -> RdmaError {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => {
                self.cma = false;
                RdmaError::Forbidden
            }
            _ => RdmaError::Io(error),
        }
    }
}

/// As `Soft::rdma_error`, of a process that is no peer, or of a write: what is forbidden here may be allowed elsewhere.
fn process_error(error: io::Error) -> RdmaError {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => RdmaError::Forbidden,
        _ => RdmaError::Io(error),
    }
}

enum Remote {
    Shared(SharedMap, usize),
    Process(u32),
}
