//! Point-to-point messages.
use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use crate::error::Result;

impl Mpi {
    /// Sends and waits until the buffer may be reused (or as `mode` says).
    pub fn send(
        &mut self, comm: CommId, buf: SendBuf, count: i64, ty: TypeId, dest: Peer, tag: i32, mode: Mode,
    ) -> Result<Blocking> {
        unimplemented!()
    }
    /// Starts a send.
    pub fn isend(
        &mut self, comm: CommId, buf: SendBuf, count: i64, ty: TypeId, dest: Peer, tag: i32, mode: Mode,
    ) -> Result<RequestId> {
        unimplemented!()
    }
    /// Receives. A truncated message is `Done` with the error in the status.
    pub fn recv(
        &mut self, comm: CommId, buf: RecvBuf, count: i64, ty: TypeId, source: Peer, tag: Tag,
    ) -> Result<Blocking> {
        unimplemented!()
    }
    /// Starts a receive.
    pub fn irecv(
        &mut self, comm: CommId, buf: RecvBuf, count: i64, ty: TypeId, source: Peer, tag: Tag,
    ) -> Result<RequestId> {
        unimplemented!()
    }
    /// Prepares a send; [`Mpi::start`] starts it.
    pub fn send_init(
        &mut self, comm: CommId, buf: SendBuf, count: i64, ty: TypeId, dest: Peer, tag: i32, mode: Mode,
    ) -> Result<RequestId> {
        unimplemented!()
    }
    /// Prepares a receive; [`Mpi::start`] starts it.
    pub fn recv_init(
        &mut self, comm: CommId, buf: RecvBuf, count: i64, ty: TypeId, source: Peer, tag: Tag,
    ) -> Result<RequestId> {
        unimplemented!()
    }
    /// Sends and receives at the same time.
    #[allow(clippy::too_many_arguments)]
    pub fn sendrecv(
        &mut self, comm: CommId,
        send: SendBuf, scount: i64, sty: TypeId, dest: Peer, stag: i32,
        recv: RecvBuf, rcount: i64, rty: TypeId, source: Peer, rtag: Tag,
    ) -> Result<Blocking> {
        unimplemented!()
    }
    /// As `sendrecv`, with one buffer.
    #[allow(clippy::too_many_arguments)]
    pub fn sendrecv_replace(
        &mut self, comm: CommId, buf: RecvBuf, count: i64, ty: TypeId,
        dest: Peer, stag: i32, source: Peer, rtag: Tag,
    ) -> Result<Blocking> {
        unimplemented!()
    }
    /// Is there a message? Makes progress once if not.
    pub fn iprobe(&mut self, comm: CommId, source: Peer, tag: Tag) -> Result<Option<Status>> {
        unimplemented!()
    }
    /// As `iprobe`, and takes the message.
    pub fn improbe(&mut self, comm: CommId, source: Peer, tag: Tag) -> Result<Option<(MessageId, Status)>> {
        unimplemented!()
    }
    /// Starts to receive a message that `improbe` took.
    pub fn imrecv(&mut self, message: MessageId, buf: RecvBuf, count: i64, ty: TypeId) -> Result<RequestId> {
        unimplemented!()
    }
    /// The communicator on which the message was probed (for its error handler).
    pub fn message_comm(&self, message: MessageId) -> Result<CommId> {
        unimplemented!()
    }
    /// Attaches memory of the program for buffered sends: `token` is given back by `buffer_detach`.
    pub fn buffer_attach(&mut self, token: usize, bytes: i64) -> Result<()> {
        unimplemented!()
    }
    /// Waits until buffered sends are gone; gives (token, bytes).
    pub fn buffer_detach(&mut self) -> Result<(usize, i64)> {
        unimplemented!()
    }
}
