//! What programs do all the time: post work, and poll for what has completed. These are found in the tables of an open device, not by
//! their names.
use super::qp::OwnAh;
use super::with;
use crate::adapter::{Adapter, completion};
use crate::machine::{Kind, State};
use crate::memory::Piece;
use crate::objects::{Armed, Caps, Entry, Receive, Work};
use crate::wire::Action;
use std::ffi::c_int;
use verbs::ffi::*;

pub(super) fn fill(ops: &mut ibv_context_ops) {
    ops.poll_cq = Some(poll_cq);
    ops.req_notify_cq = Some(req_notify_cq);
    ops.post_send = Some(post_send);
    ops.post_recv = Some(post_recv);
    ops.post_srq_recv = Some(post_srq_recv);
}

unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, most: c_int, to: *mut ibv_wc) -> c_int {
    // SAFETY: the program's queue.
    let (context, number) = unsafe { ((*cq).context, (*cq).handle) };
    let poll = |adapter: &mut Adapter| {
        let mut count = 0;
        while count < most {
            let Some(wc) = adapter.poll(number) else { break };
            // SAFETY: the caller has room for so many.
            unsafe { *to.add(count as usize) = wc };
            count += 1;
        }
        Ok(count)
    };
    // SAFETY: the program's open device.
    unsafe { with(context, poll) }.unwrap_or(-1)
}

unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: the program's queue.
    let (context, number) = unsafe { ((*cq).context, (*cq).handle) };
    let arm = |adapter: &mut Adapter| {
        adapter.present()?;
        let queue = adapter.cqs.get_mut(number).ok_or(libc::EINVAL)?;
        // Who waits for all is not satisfied with fewer.
        queue.armed =
            if solicited_only == 0 || queue.armed == Armed::Any { Armed::Any } else { Armed::Solicited };
        Ok(())
    };
    // SAFETY: the program's open device.
    super::code(unsafe { with(context, arm) })
}

unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    mut request: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the program's queue pair.
    let (context, number) = unsafe { ((*qp).context, (*qp).handle) };
    while !request.is_null() {
        let post = |adapter: &mut Adapter| {
            let qp = adapter.qps.get(&number).ok_or(libc::EINVAL)?;
            // SAFETY: a request of the program's.
            let work = unsafe { work(qp.kind, &qp.cap, &*request) }?;
            adapter.post_send(number, work)
        };
        // SAFETY: the program's open device.
        if let Err(code) = unsafe { with(context, post) } {
            // SAFETY: the caller's place.
            unsafe { *bad = request };
            return code;
        }
        // SAFETY: a request of the program's.
        request = unsafe { (*request).next };
    }
    0
}

/// What a request wants, if a queue pair of this kind can do that.
///
/// # Safety
/// Its list has as many pieces as it says, its address is alive, and bytes that are to be copied are there.
unsafe fn work(kind: Kind, cap: &Caps, request: &ibv_send_wr) -> Result<Work, c_int> {
    let action = match request.opcode {
        IBV_WR_SEND | IBV_WR_SEND_WITH_IMM => Action::Send,
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => Action::Write,
        IBV_WR_RDMA_READ => Action::Read,
        IBV_WR_ATOMIC_CMP_AND_SWP => Action::CompareSwap,
        IBV_WR_ATOMIC_FETCH_AND_ADD => Action::FetchAdd,
        _ => return Err(libc::EINVAL),
    };
    let has = |flag| request.send_flags & flag != 0;
    let beside = matches!(request.opcode, IBV_WR_SEND_WITH_IMM | IBV_WR_RDMA_WRITE_WITH_IMM);
    // SAFETY: as the caller promises.
    let pieces = unsafe { pieces(request.sg_list, request.num_sge, cap.max_send_sge) }?;
    let bytes: u64 = pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
    let is_atomic = matches!(action, Action::CompareSwap | Action::FetchAdd);
    let can = kind.sends()
        && (kind != Kind::Ud || action == Action::Send)
        && (!is_atomic || bytes == 8)
        && (!has(IBV_SEND_INLINE)
            || matches!(action, Action::Send | Action::Write) && bytes <= cap.max_inline_data.into());
    if !can {
        return Err(libc::EINVAL);
    }
    // SAFETY: as the caller promises.
    let copied = has(IBV_SEND_INLINE).then(|| unsafe { copy(&pieces) });
    let mut work = Work {
        id: request.wr_id,
        action,
        immediate: beside.then_some(request.imm_data),
        solicited: has(IBV_SEND_SOLICITED),
        told: has(IBV_SEND_SIGNALED),
        copied,
        pieces,
        addr: 0,
        rkey: 0,
        operand: 0,
        swap: 0,
        srq: if kind == Kind::XrcSend { request.remote_srqn } else { 0 },
        datagram: None,
    };
    if kind == Kind::Ud {
        // SAFETY: a datagram's request has this part.
        let to = unsafe { request.wr.ud };
        // SAFETY: an address of the program's, or null.
        let ah = unsafe { to.ah.cast::<OwnAh>().as_ref() }.ok_or(libc::EINVAL)?;
        work.datagram = Some((ah.place, to.remote_qpn, to.remote_qkey));
    } else if is_atomic {
        // SAFETY: an atomic's request has this part.
        let at = unsafe { request.wr.atomic };
        (work.addr, work.rkey, work.operand, work.swap) = (at.remote_addr, at.rkey, at.compare_add, at.swap);
    } else if action != Action::Send {
        // SAFETY: a request for a read or a write has this part.
        let at = unsafe { request.wr.rdma };
        (work.addr, work.rkey) = (at.remote_addr, at.rkey);
    }
    Ok(work)
}

/// The pieces of a list, if there are no more than `most`.
///
/// # Safety
/// There are as many as it says.
unsafe fn pieces(list: *const ibv_sge, count: c_int, most: u32) -> Result<Vec<Piece>, c_int> {
    let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
    if count > most as usize {
        return Err(libc::EINVAL);
    }
    let piece = |at| {
        // SAFETY: as the caller promises.
        let sge = unsafe { *list.add(at) };
        Piece { addr: sge.addr, bytes: sge.length, key: sge.lkey }
    };
    Ok((0..count).map(piece).collect())
}

/// The bytes of pieces that need not be registered.
///
/// # Safety
/// They are there.
unsafe fn copy(pieces: &[Piece]) -> Vec<u8> {
    let mut all = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
        let from = std::ptr::with_exposed_provenance::<u8>(piece.addr as usize);
        // SAFETY: as the caller promises.
        all.extend_from_slice(unsafe { std::slice::from_raw_parts(from, piece.bytes as usize) });
    }
    all
}

unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    request: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program's queue pair.
    let (context, number) = unsafe { ((*qp).context, (*qp).handle) };
    let post = |adapter: &mut Adapter, request: &ibv_recv_wr| {
        let qp = adapter.qps.get_mut(&number).ok_or(libc::EINVAL)?;
        if qp.srq.is_some() || qp.state == State::Reset || matches!(qp.kind, Kind::XrcSend | Kind::XrcReceive)
        {
            return Err(libc::EINVAL);
        }
        // SAFETY: a request of the program's.
        let pieces = unsafe { pieces(request.sg_list, request.num_sge, qp.cap.max_recv_sge) }?;
        if qp.receives.len() as u32 >= qp.cap.max_recv_wr {
            return Err(libc::ENOMEM);
        }
        if qp.state == State::Error {
            let (cq, wc) =
                (qp.receive_cq, completion(number, request.wr_id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV));
            adapter.complete(cq, Entry { wc, frees: 0 }, true);
        } else {
            qp.receives.push_back(Receive { id: request.wr_id, pieces });
        }
        Ok(())
    };
    // SAFETY: the program's open device and requests.
    unsafe { post_all(context, request, bad, post) }
}

unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    request: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program's queue.
    let (context, number) = unsafe { ((*srq).context, (*srq).handle) };
    let post = |adapter: &mut Adapter, request: &ibv_recv_wr| {
        let most = adapter.settings.sges;
        let srq = adapter.srqs.get_mut(number).ok_or(libc::EINVAL)?;
        // SAFETY: a request of the program's.
        let pieces = unsafe { pieces(request.sg_list, request.num_sge, most) }?;
        if srq.receives.len() as u32 >= srq.most {
            return Err(libc::ENOMEM);
        }
        srq.receives.push_back(Receive { id: request.wr_id, pieces });
        Ok(())
    };
    // SAFETY: the program's open device and requests.
    unsafe { post_all(context, request, bad, post) }
}

/// Posts receives until one is refused.
///
/// # Safety
/// The device is open, and the requests are those of the program.
unsafe fn post_all(
    context: *mut ibv_context,
    mut request: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    post: impl Fn(&mut Adapter, &ibv_recv_wr) -> Result<(), c_int>,
) -> c_int {
    while !request.is_null() {
        // SAFETY: as the caller promises.
        let posted = unsafe {
            with(context, |adapter| {
                adapter.present()?;
                post(adapter, &*request)
            })
        };
        if let Err(code) = posted {
            // SAFETY: the caller's place.
            unsafe { *bad = request };
            return code;
        }
        // SAFETY: as the caller promises.
        request = unsafe { (*request).next };
    }
    0
}
