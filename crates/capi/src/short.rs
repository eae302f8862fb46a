//! The short way of the commonest calls, where nothing is unusual. Whatever it does not take, the long way does, from the
//! beginning; that one finds out what is wrong, too.
use crate::abi::{Abi, Count, Kind};
use crate::args::{self, Buf, BufMut, Memory};
use crate::engine;
use crate::p2p;
use mpi::core::{CommId, Data, NOTHING_BELOW, OpId, Peer, Push, Remote, RequestId, Status, TypeId, WinId};
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

/// Puts; `false` if nothing has been done.
#[inline(always)]
pub fn put<A: Abi>(
    own: (Buf, impl Count, A::Handle),
    target: (c_int, i64, impl Count, A::Handle),
    win: A::Handle,
) -> bool {
    let Some(mpi) = engine::short() else { return false };
    let (Some(win), Some(to)) = (self::win::<A>(win), remote::<A>(target)) else { return false };
    data::<A, _>(own.0, own.1, own.2).is_some_and(|data| mpi.put_short(win, data, to))
}

/// Gets; `false` if nothing has been done.
#[inline(always)]
pub fn get<A: Abi>(
    own: (BufMut, impl Count, A::Handle),
    target: (c_int, i64, impl Count, A::Handle),
    win: A::Handle,
) -> bool {
    let Some(mpi) = engine::short() else { return false };
    let (Some(win), Some(from)) = (self::win::<A>(win), remote::<A>(target)) else { return false };
    data::<A, _>(own.0, own.1, own.2).is_some_and(|data| mpi.get_short(win, data, from))
}

/// Accumulates; `false` if nothing has been done.
#[inline(always)]
pub fn accumulate<A: Abi>(
    own: (Buf, impl Count, A::Handle),
    target: (c_int, i64, impl Count, A::Handle),
    op: A::Handle,
    win: A::Handle,
) -> bool {
    let Some(mpi) = engine::short() else { return false };
    let (Some(win), Some(to), Some(op)) = (self::win::<A>(win), remote::<A>(target), op_of::<A>(op)) else {
        return false;
    };
    data::<A, _>(own.0, own.1, own.2).is_some_and(|data| mpi.accumulate_short(win, data, to, op))
}

/// Fetches and combines an element; `false` if nothing has been done.
#[inline(always)]
pub fn fetch<A: Abi>(
    (from, into, datatype): (Buf, BufMut, A::Handle),
    (rank, disp): (c_int, i64),
    op: A::Handle,
    win: A::Handle,
) -> bool {
    let Some(mpi) = engine::short() else { return false };
    let (Some(win), Some(op)) = (self::win::<A>(win), op_of::<A>(op)) else { return false };
    let (Some(from), Some(into)) = (data::<A, _>(from, 1, datatype), data::<A, _>(into, 1, datatype)) else {
        return false;
    };
    mpi.fetch_short(win, from.buf, into.buf, into.ty, rank, disp, op)
}

/// Swaps an element if it is as expected; `false` if nothing has been done.
#[inline(always)]
pub fn swap<A: Abi>(
    (from, compare, into, datatype): (Buf, Buf, BufMut, A::Handle),
    (rank, disp): (c_int, i64),
    win: A::Handle,
) -> bool {
    let Some(mpi) = engine::short() else { return false };
    let one = |buf| data::<A, _>(buf, 1, datatype);
    let (Some(win), Some(from), Some(compare)) = (self::win::<A>(win), one(from), one(compare)) else {
        return false;
    };
    let Some(into) = data::<A, _>(into, 1, datatype) else { return false };
    mpi.swap_short(win, from.buf, compare.buf, into.buf, into.ty, rank, disp)
}

/// Flushes; `false` if that is not done. As at the end of every synchronization, what was sent before is on its way: the
/// program may compute next.
#[inline(always)]
pub fn flush<A: Abi>(rank: c_int, win: A::Handle) -> bool {
    let (Some(mut mpi), Some(win)) = (engine::short(), self::win::<A>(win)) else { return false };
    mpi.push_out();
    mpi.flush_short(win, rank)
}

/// Locks; `false` if that is not done.
#[inline(always)]
pub fn lock<A: Abi>(lock_type: c_int, rank: c_int, assert: c_int, win: A::Handle) -> bool {
    let (Some(mut mpi), Some(win)) = (engine::short(), self::win::<A>(win)) else { return false };
    mpi.push_out();
    let exclusive = i64::from(lock_type) == A::C.lock_exclusive;
    let plain = assert == 0 && (exclusive || i64::from(lock_type) == A::C.lock_shared);
    plain && mpi.lock_short(win, rank, exclusive)
}

/// Unlocks; `false` if that is not done.
#[inline(always)]
pub fn unlock<A: Abi>(rank: c_int, win: A::Handle) -> bool {
    let (Some(mut mpi), Some(win)) = (engine::short(), self::win::<A>(win)) else { return false };
    mpi.push_out();
    mpi.unlock_short(win, rank)
}

#[inline(always)]
fn win<A: Abi>(handle: A::Handle) -> Option<WinId> {
    A::index(Kind::Win, handle).map(WinId)
}

/// The commonest operations on windows.
#[inline(always)]
fn op_of<A: Abi>(handle: A::Handle) -> Option<OpId> {
    match A::bits(handle) {
        bits if bits == A::C.sum => Some(OpId::SUM),
        bits if bits == A::C.replace => Some(OpId::REPLACE),
        bits if bits == A::C.no_op => Some(OpId::NO_OP),
        _ => None,
    }
}

#[inline(always)]
fn remote<A: Abi>((rank, disp, count, datatype): (c_int, i64, impl Count, A::Handle)) -> Option<Remote> {
    // (Of one that is no rank there is no target.)
    Some(Remote { peer: Peer::Rank(rank), disp, count: count.wide(), ty: type_of::<A>(datatype)? })
}

#[inline(always)]
fn type_of<A: Abi>(datatype: A::Handle) -> Option<TypeId> {
    match A::predefined_type(datatype) {
        Some(ty) => Some(ty),
        None => Some(TypeId(TypeId::PREDEFINED + A::index(Kind::Datatype, datatype)?)),
    }
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
    let ty = type_of::<A>(datatype)?;
    if buf.address() < NOTHING_BELOW || args::is_in_place::<A>(buf) {
        return None;
    }
    Some(Data::new(buf.engine(), count.wide(), ty))
}
