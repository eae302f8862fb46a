//! Collective operations: the call as data, and three ways to run it.
use super::again::{Again, Likeness};
use super::comm::SEQUENCE_MASK;
use super::request::Request;
use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use crate::error::{ErrorClass, Result, fail_with};

/// A collective call. `SendBuf::IN_PLACE` (and `RecvBuf::IN_PLACE` for scatter) as in the standard. Arguments
/// that are significant only at the root are ignored elsewhere.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Coll<'a> {
    Barrier,
    Bcast {
        data: RecvData,
        root: Peer,
    },
    Gather {
        send: SendData,
        recv: RecvData,
        root: Peer,
    },
    Gatherv {
        send: SendData,
        recv: Parts<'a, RecvBuf>,
        root: Peer,
    },
    Scatter {
        send: SendData,
        recv: RecvData,
        root: Peer,
    },
    Scatterv {
        send: Parts<'a, SendBuf>,
        recv: RecvData,
        root: Peer,
    },
    Allgather {
        send: SendData,
        recv: RecvData,
    },
    Allgatherv {
        send: SendData,
        recv: Parts<'a, RecvBuf>,
    },
    Alltoall {
        send: SendData,
        recv: RecvData,
    },
    Alltoallv {
        send: Parts<'a, SendBuf>,
        recv: Parts<'a, RecvBuf>,
    },
    Alltoallw {
        send: TypedParts<'a, SendBuf>,
        recv: TypedParts<'a, RecvBuf>,
    },
    Reduce {
        of: Reduction,
        root: Peer,
    },
    Allreduce(Reduction),
    /// The receive buffer's count is ignored: `counts` says how many elements of the result each process gets.
    ReduceScatter {
        of: Reduction,
        counts: &'a [i64],
    },
    /// The receive buffer's count is that of each process's block; there are as many operands for every process.
    ReduceScatterBlock(Reduction),
    Scan(Reduction),
    Exscan(Reduction),
    /// With the neighbors of the communicator's topology, as all that follow.
    NeighborAllgather {
        send: SendData,
        recv: RecvData,
    },
    NeighborAllgatherv {
        send: SendData,
        recv: Parts<'a, RecvBuf>,
    },
    NeighborAlltoall {
        send: SendData,
        recv: RecvData,
    },
    NeighborAlltoallv {
        send: Parts<'a, SendBuf>,
        recv: Parts<'a, RecvBuf>,
    },
    NeighborAlltoallw {
        send: TypedParts<'a, SendBuf>,
        recv: TypedParts<'a, RecvBuf>,
    },
}

/// A call with a wrong argument has not happened: it uses up no number, so that the caller may repeat it rightly, as the
/// others called it. (MPICH's tests do so.) Sizes that do not fit each other are no such argument, even if both are the
/// caller's own: others meet them too, and wait for whoever finds them.
impl Mpi {
    /// Runs a collective and waits for it.
    #[inline]
    pub fn collective(&mut self, comm: CommId, call: Coll<'_>) -> Result<Blocking> {
        self.collective_short(comm, call).unwrap_or(Ok(Blocking::Done(Status::EMPTY)))
    }

    /// The same; `None` if it ran as one before, and has ended well. (To carry a status would take a good part of the time of a
    /// small one.)
    #[inline]
    pub fn collective_short(&mut self, comm: CommId, call: Coll<'_>) -> Option<Result<Blocking>> {
        match self.again(comm, &call) {
            Again::Done => None,
            Again::Begun(gone_on) => Some(gone_on),
            Again::Not => Some(self.collective_anew(comm, call)),
        }
    }

    fn collective_anew(&mut self, comm: CommId, call: Coll<'_>) -> Result<Blocking> {
        let mut operation = self.prepare(comm, call, check::Form::Blocking)?;
        self.check_aliases(comm, &call)?;
        operation.tag = self.next_sequence(comm)?;
        let place = operation.roster.place(self.cores);
        if self.check.is_some() {
            self.announce_collective(comm, &call, check::Form::Blocking, &mut operation)?;
        } else if self.meet_first(&call, place, &mut operation) {
            // The next one has met already, and is another operation.
        } else if !operation.roster.is_inter() {
            operation.likeness = Likeness::of(&call);
        }
        self.run(comm, operation)
    }

    /// Starts a collective.
    pub fn icollective(&mut self, comm: CommId, call: Coll<'_>) -> Result<RequestId> {
        self.room_for_request()?;
        let mut operation = self.prepare(comm, call, check::Form::Nonblocking)?;
        self.check_aliases(comm, &call)?;
        operation.tag = self.next_sequence(comm)?;
        operation.what = whereabouts::called();
        if self.check.is_some() {
            self.announce_collective(comm, &call, check::Form::Nonblocking, &mut operation)?;
        }
        Ok(self.adopt(comm, operation))
    }

    /// Prepares a persistent collective; [`Mpi::start_request`] runs it.
    pub fn collective_init(&mut self, comm: CommId, call: Coll<'_>) -> Result<RequestId> {
        self.room_for_request()?;
        let mut operation = self.prepare(comm, call, check::Form::Persistent)?;
        self.check_aliases(comm, &call)?;
        // Its runs meet by its creation, in whatever order persistent operations are started.
        operation.tag = PERSISTENT | self.next_sequence(comm)?;
        operation.what = whereabouts::called();
        if self.check.is_some() {
            self.announce_collective(comm, &call, check::Form::Persistent, &mut operation)?;
        }
        let roster = operation.roster.clone();
        Ok(self.add_request(Request::persistent_collective(comm, operation, roster)))
    }
}

impl Mpi {
    /// A buffer that is read may not be one that is written, other than by `MPI_IN_PLACE`. What overlaps in other ways
    /// is not found out: it may be parts of one array that have nothing in common.
    fn check_aliases(&self, comm: CommId, call: &Coll<'_>) -> Result<()> {
        let roster = &self.comm(comm)?.roster;
        if roster.is_inter() {
            return Ok(()); // one side reads what the other writes
        }
        let rank = roster.rank as usize;
        let here = |root: &Peer| *root == Peer::Rank(rank as i32);
        // Where the first byte is: parts of one array may be told apart by their datatypes alone.
        let first = |buf: SendBuf, ty: TypeId, elements: i64| {
            let ty = self.datatype(ty).ok();
            let (lb, extent) = ty.map_or((0, 0), |ty| (ty.true_lb as isize, ty.extent as isize));
            buf.as_ptr().wrapping_offset((elements as isize).wrapping_mul(extent).wrapping_add(lb))
        };
        // The block of this process in a buffer with one for each.
        let block = |data: SendData| first(data.buf, data.ty, data.count.wrapping_mul(rank as i64));
        let part = |buf: SendBuf, displs: &[i64], ty| first(buf, ty, displs.get(rank).copied().unwrap_or(0));
        let all = |buf: SendBuf, ty| first(buf, ty, 0);
        let of_reduction = |of: Reduction, count| {
            (of.send, all(of.send, of.recv.ty), all(of.recv.buf.as_source(), of.recv.ty), count)
        };
        let (buf, read, written, count) = match *call {
            Coll::Gather { send, recv, root } if here(&root) => {
                (send.buf, all(send.buf, send.ty), block(recv.as_source()), send.count)
            }
            Coll::Gatherv { send, recv, root } if here(&root) => {
                let written = part(recv.buf.as_source(), recv.displs, recv.ty);
                (send.buf, all(send.buf, send.ty), written, send.count)
            }
            Coll::Scatter { send, recv, root } if here(&root) => {
                let buf = recv.buf.as_source();
                (buf, all(buf, recv.ty), block(send), recv.count)
            }
            Coll::Scatterv { send, recv, root } if here(&root) => {
                let buf = recv.buf.as_source();
                (buf, all(buf, recv.ty), part(send.buf, send.displs, send.ty), recv.count)
            }
            Coll::Allgather { send, recv } => {
                (send.buf, all(send.buf, send.ty), block(recv.as_source()), send.count)
            }
            Coll::Allgatherv { send, recv } => {
                let written = part(recv.buf.as_source(), recv.displs, recv.ty);
                (send.buf, all(send.buf, send.ty), written, send.count)
            }
            Coll::Alltoall { send, recv } => {
                (send.buf, all(send.buf, send.ty), all(recv.buf.as_source(), recv.ty), send.count)
            }
            Coll::Alltoallv { send, recv } if send.displs == recv.displs => {
                let written = all(recv.buf.as_source(), recv.ty);
                (send.buf, all(send.buf, send.ty), written, send.counts.iter().sum())
            }
            Coll::Alltoallw { send, recv } if send.displs == recv.displs && send.types == recv.types => {
                (send.buf, send.buf.as_ptr(), recv.buf.as_source().as_ptr(), send.counts.iter().sum())
            }
            Coll::Reduce { of, root } if here(&root) => of_reduction(of, of.recv.count),
            Coll::Allreduce(of) | Coll::ReduceScatterBlock(of) | Coll::Scan(of) | Coll::Exscan(of) => {
                of_reduction(of, of.recv.count)
            }
            Coll::ReduceScatter { of, counts } => of_reduction(of, counts.iter().sum()),
            _ => return Ok(()),
        };
        let is_buffer = count > 0 && !buf.as_ptr().is_null() && !buf.is_in_place();
        if is_buffer && read == written {
            let words = || format!("{written:p} is read and written; what is to be so is MPI_IN_PLACE");
            return fail_with(ErrorClass::Buffer, words);
        }
        Ok(())
    }
}

/// Tags of persistent operations are apart from those of all others, which may come round again.
const PERSISTENT: i32 = SEQUENCE_MASK as i32 + 1;
