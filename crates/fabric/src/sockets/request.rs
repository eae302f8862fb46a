//! Reads, writes and atomics on a peer's memory: requests that its progress answers, in order.
use super::Sockets;
use super::link::{Asked, Link, Request};
use super::out::Lender;
use super::receive::REQUESTS_MAX;
use crate::provider::{AtomicOp, AtomicPosted, Posted, RdmaError};
use crate::qp::{Qp, RemoteMemory, WorkId};
use crate::state::QpState;
use proto::stream::{Frame, MESSAGE_MAX, Place};
use std::io;
use sys::{UserBuf, UserBufMut};

impl Sockets {
    /// Reads the peer's memory into `to`.
    pub fn rdma_read(&mut self, qp: Qp, to: UserBufMut, from: RemoteMemory) -> Result<Posted, RdmaError> {
        let work = self.take_work();
        let (link, id) = self.asking(qp, to.len())?;
        link.asked.push_back(Asked { id, what: Request::Read(to), work });
        let frame = Frame::Read { id, from: place(from), len: to.len() };
        self.ask_peer(qp, frame, &[]);
        Ok(Posted::Later(work))
    }

    /// Writes `from` into the peer's memory.
    pub fn rdma_write(&mut self, qp: Qp, from: UserBuf, to: RemoteMemory) -> Result<Posted, RdmaError> {
        let work = self.take_work();
        let (link, id) = self.asking(qp, from.len())?;
        link.asked.push_back(Asked { id, what: Request::Write, work });
        let frame = Frame::Write { id, to: place(to), len: from.len() };
        let index = qp.index() as u32;
        if let Some(link) = self.links.at_mut(index) {
            link.out.push(&frame.emit(), &mut self.spare);
            link.out.push_lent(from, Lender::Request);
        }
        self.write_out(index);
        Ok(Posted::Later(work))
    }

    /// Changes a double word of the peer's memory.
    pub fn rdma_atomic(&mut self, qp: Qp, op: AtomicOp, at: RemoteMemory) -> Result<AtomicPosted, RdmaError> {
        let work: WorkId = self.take_work();
        let (link, id) = self.asking(qp, 0)?;
        link.asked.push_back(Asked { id, what: Request::Atomic, work });
        let at = place(at);
        match op {
            AtomicOp::Add(by) => self.ask_peer(qp, Frame::Add { id, at }, &by.to_le_bytes()),
            AtomicOp::Swap { expected, new } => {
                let mut operands = [0; 16];
                operands[..8].copy_from_slice(&expected.to_le_bytes());
                operands[8..].copy_from_slice(&new.to_le_bytes());
                self.ask_peer(qp, Frame::Swap { id, at }, &operands);
            }
        }
        Ok(AtomicPosted::Later(work))
    }

    /// The queue pair of a request, and the request's number.
    fn asking(&mut self, qp: Qp, len: usize) -> Result<(&mut Link, u32), RdmaError> {
        let link = self.links.get_mut(qp.index(), qp.generation()).ok_or(RdmaError::State)?;
        if link.state != QpState::ReadyToSend || !link.is_settled() {
            return Err(RdmaError::State);
        }
        if len > MESSAGE_MAX {
            let why = format!("{len} bytes at once; the most is {MESSAGE_MAX}");
            return Err(RdmaError::Io(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        if link.asked.len() >= REQUESTS_MAX {
            return Err(RdmaError::Full);
        }
        link.next_id = link.next_id.wrapping_add(1);
        let id = link.next_id;
        Ok((link, id))
    }

    fn ask_peer(&mut self, qp: Qp, frame: Frame, operands: &[u8]) {
        let index = qp.index() as u32;
        if let Some(link) = self.links.at_mut(index) {
            link.out.push(&frame.emit(), &mut self.spare);
            link.out.push(operands, &mut self.spare);
        }
        self.write_out(index);
    }
}

fn place(memory: RemoteMemory) -> Place {
    Place { addr: memory.addr, key: memory.key.0 }
}
