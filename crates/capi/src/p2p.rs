//! Point-to-point messages.
use crate::abi::{Abi, Count};
use crate::args::{Buf, BufMut, Ptr, Scratch};
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run};
use crate::handles::{self, Flavor};
use crate::status;
use mpi::core::{Blocking, CommId, Mode, Peer, RequestId, Status, Tag, TypeId};
use mpi::{ErrorClass, RecvBuf, Result, SendBuf};
use std::ffi::c_int;

/// The receiver of a message; the engine checks the rank.
#[inline(always)]
pub fn destination<A: Abi>(rank: c_int) -> Peer {
    if i64::from(rank) == A::C.proc_null { Peer::Null } else { Peer::Rank(rank) }
}

/// The sender that a receive accepts.
#[inline(always)]
pub fn source<A: Abi>(rank: c_int) -> Peer {
    if i64::from(rank) == A::C.any_source { Peer::Any } else { destination::<A>(rank) }
}

/// The tag that a receive accepts.
#[inline(always)]
pub fn tag<A: Abi>(tag: c_int) -> Tag {
    if i64::from(tag) == A::C.any_tag { Tag::Any } else { Tag::Is(tag) }
}

/// A count or length.
#[inline(always)]
pub fn not_negative(count: i64) -> Outcome<i64> {
    if count < 0 {
        return fail(ErrorClass::Count, format!("count {count} is negative"));
    }
    Ok(count)
}

/// Data at a null address, unless there is none or the datatype holds absolute addresses (`MPI_BOTTOM`).
#[inline(always)]
pub fn check_address<A: Abi>(addr: usize, count: i64, ty: TypeId) -> Outcome<()> {
    let suspicious = addr == 0 || addr as i64 == A::C.in_place;
    if suspicious && count > 0 && crate::callbacks::is_predefined(ty) {
        return fail(ErrorClass::Buffer, format!("{count} elements at address 0x{addr:x}"));
    }
    Ok(())
}

/// The parts of an outgoing message, checked.
struct Outgoing {
    comm: CommId,
    buf: SendBuf,
    count: i64,
    ty: TypeId,
    dest: Peer,
}

#[inline(always)]
fn outgoing<A: Abi>(
    buf: Buf,
    count: i64,
    datatype: A::Handle,
    dest: c_int,
    comm: A::Handle,
) -> Outcome<Outgoing> {
    let (comm, ty) = (handles::comm::<A>(comm)?, handles::datatype::<A>(datatype)?);
    check_address::<A>(buf.addr(), not_negative(count)?, ty)?;
    Ok(Outgoing { comm, buf: buf.source(), count, ty, dest: destination::<A>(dest) })
}

/// The parts of an incoming message, checked.
struct Incoming {
    comm: CommId,
    buf: RecvBuf,
    count: i64,
    ty: TypeId,
    source: Peer,
    tag: Tag,
}

#[inline(always)]
fn incoming<A: Abi>(
    buf: BufMut,
    count: i64,
    datatype: A::Handle,
    from: c_int,
    rtag: c_int,
    comm: A::Handle,
) -> Outcome<Incoming> {
    let (comm, ty) = (handles::comm::<A>(comm)?, handles::datatype::<A>(datatype)?);
    check_address::<A>(buf.addr(), not_negative(count)?, ty)?;
    Ok(Incoming { comm, buf: buf.target(), count, ty, source: source::<A>(from), tag: tag::<A>(rtag) })
}

impl<A: Abi> Call<A> {
    /// Brings a blocking operation to its end.
    #[inline(always)]
    pub fn end(&mut self, blocking: Blocking) -> Result<Status> {
        match blocking {
            Blocking::Done(status) => Ok(status),
            Blocking::Pending(request) => self.complete(request),
        }
    }
}

/// Stores the handle of a request.
#[inline(always)]
pub fn put_request<A: Abi>(out: Ptr<A::Handle>, request: RequestId, flavor: Flavor) -> Outcome<()> {
    Ok(out.set(handles::of_request::<A>(request, flavor))?)
}

macro_rules! sends {
    ($($send:ident $isend:ident $init:ident $mode:ident $name:literal $iname:literal $pname:literal),* $(,)?) => {$(
        #[doc = concat!("`", $name, "`")]
        #[inline(always)]
        pub fn $send<A: Abi, C: Count>(
            buf: Buf, count: C, datatype: A::Handle, dest: c_int, tag: c_int, comm: A::Handle,
        ) -> c_int {
            run::<A>($name, On::Comm(comm), |call| {
                let m = outgoing::<A>(buf, count.wide(), datatype, dest, comm)?;
                if call.is_threaded() {
                    let request = call.isend(m.comm, m.buf, m.count, m.ty, m.dest, tag, Mode::$mode)?;
                    return status::check(&call.complete(request)?);
                }
                let sent = call.send(m.comm, m.buf, m.count, m.ty, m.dest, tag, Mode::$mode)?;
                status::check(&call.end(sent)?)
            })
        }

        #[doc = concat!("`", $iname, "`")]
        #[inline(always)]
        pub fn $isend<A: Abi, C: Count>(
            buf: Buf, count: C, datatype: A::Handle, dest: c_int, tag: c_int, comm: A::Handle,
            request: Ptr<A::Handle>,
        ) -> c_int {
            run::<A>($iname, On::Comm(comm), |call| {
                let m = outgoing::<A>(buf, count.wide(), datatype, dest, comm)?;
                let id = call.isend(m.comm, m.buf, m.count, m.ty, m.dest, tag, Mode::$mode)?;
                put_request::<A>(request, id, Flavor::Once)
            })
        }

        #[doc = concat!("`", $pname, "`")]
        pub fn $init<A: Abi, C: Count>(
            buf: Buf, count: C, datatype: A::Handle, dest: c_int, tag: c_int, comm: A::Handle,
            request: Ptr<A::Handle>,
        ) -> c_int {
            run::<A>($pname, On::Comm(comm), |call| {
                let m = outgoing::<A>(buf, count.wide(), datatype, dest, comm)?;
                let id = call.send_init(m.comm, m.buf, m.count, m.ty, m.dest, tag, Mode::$mode)?;
                put_request::<A>(request, id, Flavor::Persistent)
            })
        }
    )*};
}

sends! {
    send isend send_init Standard "MPI_Send" "MPI_Isend" "MPI_Send_init",
    ssend issend ssend_init Synchronous "MPI_Ssend" "MPI_Issend" "MPI_Ssend_init",
    bsend ibsend bsend_init Buffered "MPI_Bsend" "MPI_Ibsend" "MPI_Bsend_init",
    rsend irsend rsend_init Ready "MPI_Rsend" "MPI_Irsend" "MPI_Rsend_init",
}

/// `MPI_Recv`
#[inline(always)]
pub fn recv<A: Abi, C: Count>(
    buf: BufMut,
    count: C,
    datatype: A::Handle,
    source: c_int,
    tag: c_int,
    comm: A::Handle,
    status: Ptr<A::Status>,
) -> c_int {
    run::<A>("MPI_Recv", On::Comm(comm), |call| {
        let m = incoming::<A>(buf, count.wide(), datatype, source, tag, comm)?;
        let result = if call.is_threaded() {
            let request = call.irecv(m.comm, m.buf, m.count, m.ty, m.source, m.tag)?;
            call.complete(request)?
        } else {
            let received = call.recv(m.comm, m.buf, m.count, m.ty, m.source, m.tag)?;
            call.end(received)?
        };
        status::complete::<A>(status, &result)
    })
}

/// `MPI_Irecv`
#[inline(always)]
pub fn irecv<A: Abi, C: Count>(
    buf: BufMut,
    count: C,
    datatype: A::Handle,
    source: c_int,
    tag: c_int,
    comm: A::Handle,
    request: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Irecv", On::Comm(comm), |call| {
        let m = incoming::<A>(buf, count.wide(), datatype, source, tag, comm)?;
        let id = call.irecv(m.comm, m.buf, m.count, m.ty, m.source, m.tag)?;
        put_request::<A>(request, id, Flavor::Once)
    })
}

/// `MPI_Recv_init`
pub fn recv_init<A: Abi, C: Count>(
    buf: BufMut,
    count: C,
    datatype: A::Handle,
    source: c_int,
    tag: c_int,
    comm: A::Handle,
    request: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Recv_init", On::Comm(comm), |call| {
        let m = incoming::<A>(buf, count.wide(), datatype, source, tag, comm)?;
        let id = call.recv_init(m.comm, m.buf, m.count, m.ty, m.source, m.tag)?;
        put_request::<A>(request, id, Flavor::Persistent)
    })
}

/// `MPI_Sendrecv`
#[allow(clippy::too_many_arguments)]
pub fn sendrecv<A: Abi, C: Count>(
    sendbuf: Buf,
    sendcount: C,
    sendtype: A::Handle,
    dest: c_int,
    sendtag: c_int,
    recvbuf: BufMut,
    recvcount: C,
    recvtype: A::Handle,
    source: c_int,
    recvtag: c_int,
    comm: A::Handle,
    status: Ptr<A::Status>,
) -> c_int {
    run::<A>("MPI_Sendrecv", On::Comm(comm), |call| {
        let s = outgoing::<A>(sendbuf, sendcount.wide(), sendtype, dest, comm)?;
        let r = incoming::<A>(recvbuf, recvcount.wide(), recvtype, source, recvtag, comm)?;
        let result = if call.is_threaded() {
            let receive = call.irecv(r.comm, r.buf, r.count, r.ty, r.source, r.tag)?;
            let send = match call.isend(s.comm, s.buf, s.count, s.ty, s.dest, sendtag, Mode::Standard) {
                Ok(send) => send,
                Err(error) => return Err(call.give_up(receive, error).into()),
            };
            status::check(&call.complete(send)?)?;
            call.complete(receive)?
        } else {
            let both = call.sendrecv(
                s.comm, s.buf, s.count, s.ty, s.dest, sendtag, r.buf, r.count, r.ty, r.source, r.tag,
            )?;
            call.end(both)?
        };
        status::complete::<A>(status, &result)
    })
}

impl<A: Abi> Call<A> {
    /// Withdraws a receive whose partner could not be started.
    #[cold]
    fn give_up(&mut self, receive: RequestId, error: mpi::MpiError) -> mpi::MpiError {
        let _ = self.cancel(receive);
        let _ = self.request_free(receive);
        error
    }
}

/// `MPI_Sendrecv_replace`
#[allow(clippy::too_many_arguments)]
pub fn sendrecv_replace<A: Abi, C: Count>(
    buf: BufMut,
    count: C,
    datatype: A::Handle,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: A::Handle,
    status: Ptr<A::Status>,
) -> c_int {
    run::<A>("MPI_Sendrecv_replace", On::Comm(comm), |call| {
        let m = incoming::<A>(buf, count.wide(), datatype, source, recvtag, comm)?;
        let dest = destination::<A>(dest);
        let result = if call.is_threaded() {
            replace_unlocked(call, &m, dest, sendtag)?
        } else {
            let both = call.sendrecv_replace(m.comm, m.buf, m.count, m.ty, dest, sendtag, m.source, m.tag)?;
            call.end(both)?
        };
        status::complete::<A>(status, &result)
    })
}

/// Sends a copy and receives over the original, giving the lock up while it waits.
fn replace_unlocked<A: Abi>(call: &mut Call<A>, m: &Incoming, dest: Peer, sendtag: c_int) -> Outcome<Status> {
    let bytes = call.pack_size(m.count, m.ty)?;
    let (mut copy, mut end) = (Scratch::with(bytes), 0);
    call.pack(m.buf.as_source(), m.count, m.ty, copy.target(), bytes as i64, &mut end)?;
    let send = call.isend(m.comm, copy.source(), end, TypeId::PACKED, dest, sendtag, Mode::Standard)?;
    let received =
        call.irecv(m.comm, m.buf, m.count, m.ty, m.source, m.tag).and_then(|receive| call.complete(receive));
    // The copy must live until it is sent, whatever became of the receive.
    call.complete(send)?;
    Ok(received?)
}

/// `MPI_Probe`
pub fn probe<A: Abi>(from: c_int, ptag: c_int, comm: A::Handle, status: Ptr<A::Status>) -> c_int {
    run::<A>("MPI_Probe", On::Comm(comm), |call| {
        let (id, from, ptag) = (handles::comm::<A>(comm)?, source::<A>(from), tag::<A>(ptag));
        let seen = call.poll(|call| call.iprobe(id, from, ptag))?;
        status::store::<A>(status, &seen)
    })
}

/// `MPI_Iprobe`
pub fn iprobe<A: Abi>(
    from: c_int,
    ptag: c_int,
    comm: A::Handle,
    flag: Ptr<c_int>,
    status: Ptr<A::Status>,
) -> c_int {
    run::<A>("MPI_Iprobe", On::Comm(comm), |call| {
        let seen = call.iprobe(handles::comm::<A>(comm)?, source::<A>(from), tag::<A>(ptag))?;
        flag.set(seen.is_some().into())?;
        seen.map_or(Ok(()), |seen| status::store::<A>(status, &seen))
    })
}

/// `MPI_Mprobe`
pub fn mprobe<A: Abi>(
    from: c_int,
    ptag: c_int,
    comm: A::Handle,
    message: Ptr<A::Handle>,
    status: Ptr<A::Status>,
) -> c_int {
    run::<A>("MPI_Mprobe", On::Comm(comm), |call| {
        let (id, from, ptag) = (handles::comm::<A>(comm)?, source::<A>(from), tag::<A>(ptag));
        let (taken, seen) = call.poll(|call| call.improbe(id, from, ptag))?;
        message.set(handles::of_message::<A>(taken))?;
        status::store::<A>(status, &seen)
    })
}

/// `MPI_Improbe`
pub fn improbe<A: Abi>(
    from: c_int,
    ptag: c_int,
    comm: A::Handle,
    flag: Ptr<c_int>,
    message: Ptr<A::Handle>,
    status: Ptr<A::Status>,
) -> c_int {
    run::<A>("MPI_Improbe", On::Comm(comm), |call| {
        let found = call.improbe(handles::comm::<A>(comm)?, source::<A>(from), tag::<A>(ptag))?;
        flag.set(found.is_some().into())?;
        let Some((taken, seen)) = found else {
            return Ok(message.set(A::handle(A::C.message_null))?);
        };
        message.set(handles::of_message::<A>(taken))?;
        status::store::<A>(status, &seen)
    })
}

/// Starts to receive a matched message and uses its handle up.
fn take_message<A: Abi>(
    call: &mut Call<A>,
    on: &mut On<A>,
    buf: BufMut,
    count: i64,
    datatype: A::Handle,
    message: Ptr<A::Handle>,
) -> Outcome<RequestId> {
    let id = handles::message::<A>(message.get()?)?;
    if let Ok(comm) = call.message_comm(id) {
        *on = On::Id(comm);
    }
    let ty = handles::datatype::<A>(datatype)?;
    check_address::<A>(buf.addr(), not_negative(count)?, ty)?;
    let request = call.imrecv(id, buf.target(), count, ty)?;
    message.set(A::handle(A::C.message_null))?;
    Ok(request)
}

/// `MPI_Mrecv`
pub fn mrecv<A: Abi, C: Count>(
    buf: BufMut,
    count: C,
    datatype: A::Handle,
    message: Ptr<A::Handle>,
    status: Ptr<A::Status>,
) -> c_int {
    crate::errors::run_on::<A>("MPI_Mrecv", |call, on| {
        let request = take_message(call, on, buf, count.wide(), datatype, message)?;
        let result = call.complete(request)?;
        status::complete::<A>(status, &result)
    })
}

/// `MPI_Imrecv`
pub fn imrecv<A: Abi, C: Count>(
    buf: BufMut,
    count: C,
    datatype: A::Handle,
    message: Ptr<A::Handle>,
    request: Ptr<A::Handle>,
) -> c_int {
    crate::errors::run_on::<A>("MPI_Imrecv", |call, on| {
        let id = take_message(call, on, buf, count.wide(), datatype, message)?;
        put_request::<A>(request, id, Flavor::Once)
    })
}

/// `MPI_Buffer_attach`
pub fn buffer_attach<A: Abi, C: Count>(buffer: BufMut, size: C) -> c_int {
    run::<A>("MPI_Buffer_attach", On::WORLD, |call| {
        let automatic = buffer.addr() as i64 == A::C.buffer_automatic;
        let bytes = if automatic { i64::MAX } else { not_negative(size.wide())? };
        Ok(call.buffer_attach(buffer.addr(), bytes)?)
    })
}

/// `MPI_Buffer_detach`
pub fn buffer_detach<A: Abi, C: Count>(buffer_addr: BufMut, size: Ptr<C>) -> c_int {
    run::<A>("MPI_Buffer_detach", On::WORLD, |call| {
        let (address, bytes) = call.buffer_detach()?;
        buffer_addr.store(address)?;
        let bytes = if bytes == i64::MAX { 0 } else { bytes };
        match C::narrow(bytes) {
            Some(bytes) => Ok(size.set(bytes)?),
            None => fail(ErrorClass::ValueTooLarge, format!("a buffer of {bytes} bytes")),
        }
    })
}

/// `MPI_Buffer_flush`
pub fn buffer_flush<A: Abi>() -> c_int {
    run::<A>("MPI_Buffer_flush", On::WORLD, |call| Ok(call.buffer_flush()?))
}
