//! The short way of the commonest calls, where nothing is unusual. Whatever it does not take, the long way does, from the
//! beginning; that one finds out what is wrong, too.
use crate::abi::{Abi, Count, Kind};
use crate::args::{self, Buf, BufMut, Memory};
use crate::engine;
use crate::p2p;
use mpi::core::{CommId, Data, Push, RequestId, Status, TypeId};
use std::ffi::c_int;

/// Sends; `false` if nothing has been done.
#[inline(always)]
pub fn send<A: Abi>(
    buf: Buf,
    count: impl Count,
    datatype: A::Handle,
    dest: c_int,
    tag: c_int,
    comm: A::Handle,
    push: Push,
) -> bool {
    let Some(mut mpi) = engine::short() else { return false };
    let Some(comm) = self::comm::<A>(comm) else { return false };
    let Some(data) = data::<A, _>(buf, count, datatype) else { return false };
    let sent = mpi.send_short(comm, data, dest, tag);
    if sent && push == Push::Now {
        mpi.push_out();
    }
    sent
}

/// Starts a receive; `None` if nothing has been done.
#[inline(always)]
pub fn irecv<A: Abi>(
    buf: BufMut,
    count: impl Count,
    datatype: A::Handle,
    source: c_int,
    tag: c_int,
    comm: A::Handle,
) -> Option<RequestId> {
    let mut mpi = engine::short()?;
    let (comm, data) = (self::comm::<A>(comm)?, data::<A, _>(buf, count, datatype)?);
    let request = mpi.irecv_short(comm, data, p2p::source::<A>(source, tag))?;
    mpi.push_out();
    Some(request)
}

/// The long way, which is not to lengthen the short one.
#[inline(never)]
pub fn long(way: impl FnOnce() -> c_int) -> c_int {
    way()
}

/// Receives; `None` if nothing has been done.
#[inline(always)]
pub fn recv<A: Abi>(
    buf: BufMut,
    count: impl Count,
    datatype: A::Handle,
    source: c_int,
    tag: c_int,
    comm: A::Handle,
) -> Option<Status> {
    let mut mpi = engine::short()?;
    let (comm, data) = (self::comm::<A>(comm)?, data::<A, _>(buf, count, datatype)?);
    mpi.push_out();
    mpi.recv_short(comm, data, p2p::source::<A>(source, tag))
}

#[inline(always)]
fn comm<A: Abi>(handle: A::Handle) -> Option<CommId> {
    if A::bits(handle) == A::C.comm_world {
        return Some(CommId::WORLD);
    }
    A::index(Kind::Comm, handle).map(CommId)
}

/// Data that is surely somewhere.
#[inline(always)]
fn data<A: Abi, M: Memory>(buf: M, count: impl Count, datatype: A::Handle) -> Option<Data<M::Engine>> {
    let ty = match A::predefined_type(datatype) {
        Some(ty) => ty,
        None => TypeId(TypeId::PREDEFINED + A::index(Kind::Datatype, datatype)?),
    };
    if buf.address() == 0 || args::is_in_place::<A>(buf) {
        return None;
    }
    Some(Data::new(buf.engine(), count.wide(), ty))
}
