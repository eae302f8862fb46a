//! What is done in the window of a target: put, get and accumulate, with and without a request.
//!
//! None of them ends here: a synchronization follows, and what was sent may leave with that.
use crate::abi::{Abi, Count};
use crate::args::{self, Buf, BufMut, Ptr, not_negative};
use crate::errors::{On, Outcome, run};
use crate::handles::{self, Flavor};
use crate::p2p::{carried, peer, put_request};
use crate::short;
use mpi::SendBuf;
use mpi::core::{OpId, Remote, SendData, TypeId};
use std::ffi::c_int;

/// Elements in the window of a target; the engine checks rank and displacement. As in a message, none of them and those of
/// the null process need no datatype.
#[inline(always)]
fn remote<A: Abi>(rank: c_int, disp: i64, count: impl Count, datatype: A::Handle) -> Outcome<Remote> {
    let (peer, count) = (peer::<A>(rank), not_negative("target_count", count.wide())?);
    let ty = match handles::datatype::<A>(datatype) {
        Err(_)
            if (i64::from(rank) == A::C.proc_null || count == 0)
                && A::bits(datatype) == A::C.datatype_null =>
        {
            return Ok(Remote { peer, disp, count: 0, ty: TypeId::BYTE });
        }
        ty => ty?,
    };
    Ok(Remote { peer, disp, count, ty })
}

/// What an operation brings to the target; nothing is looked at if it brings nothing (`MPI_NO_OP`).
#[inline(always)]
fn operand<A: Abi>(
    op: OpId,
    buf: Buf,
    count: impl Count,
    datatype: A::Handle,
    rank: c_int,
) -> Outcome<SendData> {
    match op {
        OpId::NO_OP => Ok(SendData::NONE),
        _ => carried::<A, _>(buf, count, datatype, rank),
    }
}

/// `MPI_Put`
#[allow(clippy::too_many_arguments)]
#[inline(always)]
pub fn put<A: Abi, C: Count>(
    origin_addr: Buf,
    origin_count: C,
    origin_datatype: A::Handle,
    target_rank: c_int,
    target_disp: i64,
    target_count: C,
    target_datatype: A::Handle,
    win: A::Handle,
) -> c_int {
    let own = (origin_addr, origin_count, origin_datatype);
    if short::put::<A>(own, (target_rank, target_disp, target_count, target_datatype), win) {
        return 0;
    }
    run::<A>("MPI_Put", On::Win(win), |call| {
        let win = handles::win::<A>(win)?;
        let from = carried::<A, _>(origin_addr, origin_count, origin_datatype, target_rank)?;
        let to = remote::<A>(target_rank, target_disp, target_count, target_datatype)?;
        call.is_followed();
        Ok(call.win_put(win, from, to)?)
    })
}

/// `MPI_Rput`
#[allow(clippy::too_many_arguments)]
#[inline(always)]
pub fn rput<A: Abi, C: Count>(
    origin_addr: Buf,
    origin_count: C,
    origin_datatype: A::Handle,
    target_rank: c_int,
    target_disp: i64,
    target_count: C,
    target_datatype: A::Handle,
    win: A::Handle,
    request: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Rput", On::Win(win), |call| {
        let win = handles::win::<A>(win)?;
        let from = carried::<A, _>(origin_addr, origin_count, origin_datatype, target_rank)?;
        let to = remote::<A>(target_rank, target_disp, target_count, target_datatype)?;
        call.is_followed();
        put_request::<A>(request, Flavor::Once, || Ok(call.win_rput(win, from, to)?))
    })
}

/// `MPI_Get`
#[allow(clippy::too_many_arguments)]
#[inline(always)]
pub fn get<A: Abi, C: Count>(
    origin_addr: BufMut,
    origin_count: C,
    origin_datatype: A::Handle,
    target_rank: c_int,
    target_disp: i64,
    target_count: C,
    target_datatype: A::Handle,
    win: A::Handle,
) -> c_int {
    let own = (origin_addr, origin_count, origin_datatype);
    if short::get::<A>(own, (target_rank, target_disp, target_count, target_datatype), win) {
        return 0;
    }
    run::<A>("MPI_Get", On::Win(win), |call| {
        let win = handles::win::<A>(win)?;
        let into = carried::<A, _>(origin_addr, origin_count, origin_datatype, target_rank)?;
        let from = remote::<A>(target_rank, target_disp, target_count, target_datatype)?;
        call.is_followed();
        Ok(call.win_get(win, into, from)?)
    })
}

/// `MPI_Rget`
#[allow(clippy::too_many_arguments)]
#[inline(always)]
pub fn rget<A: Abi, C: Count>(
    origin_addr: BufMut,
    origin_count: C,
    origin_datatype: A::Handle,
    target_rank: c_int,
    target_disp: i64,
    target_count: C,
    target_datatype: A::Handle,
    win: A::Handle,
    request: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Rget", On::Win(win), |call| {
        let win = handles::win::<A>(win)?;
        let into = carried::<A, _>(origin_addr, origin_count, origin_datatype, target_rank)?;
        let from = remote::<A>(target_rank, target_disp, target_count, target_datatype)?;
        call.is_followed();
        put_request::<A>(request, Flavor::Once, || Ok(call.win_rget(win, into, from)?))
    })
}

/// `MPI_Accumulate`
#[allow(clippy::too_many_arguments)]
#[inline(always)]
pub fn accumulate<A: Abi, C: Count>(
    origin_addr: Buf,
    origin_count: C,
    origin_datatype: A::Handle,
    target_rank: c_int,
    target_disp: i64,
    target_count: C,
    target_datatype: A::Handle,
    op: A::Handle,
    win: A::Handle,
) -> c_int {
    let own = (origin_addr, origin_count, origin_datatype);
    if short::accumulate::<A>(own, (target_rank, target_disp, target_count, target_datatype), op, win) {
        return 0;
    }
    run::<A>("MPI_Accumulate", On::Win(win), |call| {
        let (win, op) = (handles::win::<A>(win)?, handles::op::<A>(op)?);
        let from = carried::<A, _>(origin_addr, origin_count, origin_datatype, target_rank)?;
        let to = remote::<A>(target_rank, target_disp, target_count, target_datatype)?;
        call.is_followed();
        Ok(call.win_accumulate(win, from, to, op)?)
    })
}

/// `MPI_Raccumulate`
#[allow(clippy::too_many_arguments)]
#[inline(always)]
pub fn raccumulate<A: Abi, C: Count>(
    origin_addr: Buf,
    origin_count: C,
    origin_datatype: A::Handle,
    target_rank: c_int,
    target_disp: i64,
    target_count: C,
    target_datatype: A::Handle,
    op: A::Handle,
    win: A::Handle,
    request: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Raccumulate", On::Win(win), |call| {
        let (win, op) = (handles::win::<A>(win)?, handles::op::<A>(op)?);
        let from = carried::<A, _>(origin_addr, origin_count, origin_datatype, target_rank)?;
        let to = remote::<A>(target_rank, target_disp, target_count, target_datatype)?;
        call.is_followed();
        put_request::<A>(request, Flavor::Once, || Ok(call.win_raccumulate(win, from, to, op)?))
    })
}

/// `MPI_Get_accumulate`
#[allow(clippy::too_many_arguments)]
#[inline(always)]
pub fn get_accumulate<A: Abi, C: Count>(
    origin_addr: Buf,
    origin_count: C,
    origin_datatype: A::Handle,
    result_addr: BufMut,
    result_count: C,
    result_datatype: A::Handle,
    target_rank: c_int,
    target_disp: i64,
    target_count: C,
    target_datatype: A::Handle,
    op: A::Handle,
    win: A::Handle,
) -> c_int {
    run::<A>("MPI_Get_accumulate", On::Win(win), |call| {
        let (win, op) = (handles::win::<A>(win)?, handles::op::<A>(op)?);
        let from = operand::<A>(op, origin_addr, origin_count, origin_datatype, target_rank)?;
        let into = carried::<A, _>(result_addr, result_count, result_datatype, target_rank)?;
        let at = remote::<A>(target_rank, target_disp, target_count, target_datatype)?;
        call.is_followed();
        Ok(call.win_get_accumulate(win, from, into, at, op)?)
    })
}

/// `MPI_Rget_accumulate`
#[allow(clippy::too_many_arguments)]
#[inline(always)]
pub fn rget_accumulate<A: Abi, C: Count>(
    origin_addr: Buf,
    origin_count: C,
    origin_datatype: A::Handle,
    result_addr: BufMut,
    result_count: C,
    result_datatype: A::Handle,
    target_rank: c_int,
    target_disp: i64,
    target_count: C,
    target_datatype: A::Handle,
    op: A::Handle,
    win: A::Handle,
    request: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Rget_accumulate", On::Win(win), |call| {
        let (win, op) = (handles::win::<A>(win)?, handles::op::<A>(op)?);
        let from = operand::<A>(op, origin_addr, origin_count, origin_datatype, target_rank)?;
        let into = carried::<A, _>(result_addr, result_count, result_datatype, target_rank)?;
        let at = remote::<A>(target_rank, target_disp, target_count, target_datatype)?;
        call.is_followed();
        put_request::<A>(request, Flavor::Once, || Ok(call.win_rget_accumulate(win, from, into, at, op)?))
    })
}

/// `MPI_Fetch_and_op`: of one element.
#[inline(always)]
pub fn fetch_and_op<A: Abi>(
    origin_addr: Buf,
    result_addr: BufMut,
    datatype: A::Handle,
    target_rank: c_int,
    target_disp: i64,
    op: A::Handle,
    win: A::Handle,
) -> c_int {
    if short::fetch::<A>((origin_addr, result_addr, datatype), (target_rank, target_disp), op, win) {
        return 0;
    }
    run::<A>("MPI_Fetch_and_op", On::Win(win), |call| {
        let (win, op) = (handles::win::<A>(win)?, handles::op::<A>(op)?);
        let ty = handles::datatype::<A>(datatype)?;
        let from = match op {
            OpId::NO_OP => SendBuf::NONE,
            _ => args::at::<A, _>(origin_addr, 1, ty)?.buf,
        };
        let into = args::at::<A, _>(result_addr, 1, ty)?.buf;
        call.is_followed();
        Ok(call.win_fetch_and_op(win, from, into, ty, peer::<A>(target_rank), target_disp, op)?)
    })
}

/// `MPI_Compare_and_swap`: of one element.
#[inline(always)]
pub fn compare_and_swap<A: Abi>(
    origin_addr: Buf,
    compare_addr: Buf,
    result_addr: BufMut,
    datatype: A::Handle,
    target_rank: c_int,
    target_disp: i64,
    win: A::Handle,
) -> c_int {
    let own = (origin_addr, compare_addr, result_addr, datatype);
    if short::swap::<A>(own, (target_rank, target_disp), win) {
        return 0;
    }
    run::<A>("MPI_Compare_and_swap", On::Win(win), |call| {
        let (win, ty) = (handles::win::<A>(win)?, handles::datatype::<A>(datatype)?);
        let from = args::at::<A, _>(origin_addr, 1, ty)?.buf;
        let compare = args::at::<A, _>(compare_addr, 1, ty)?.buf;
        let into = args::at::<A, _>(result_addr, 1, ty)?.buf;
        let peer = peer::<A>(target_rank);
        call.is_followed();
        Ok(call.win_compare_and_swap(win, from, compare, into, ty, peer, target_disp)?)
    })
}
