//! Point-to-point messages.
use crate::abi::{Abi, Count};
use crate::args::{self, Buf, BufMut, Memory, Ptr};
use crate::engine::Call;
use crate::errors::{On, Outcome, run};
use crate::handles::{self, Flavor};
use crate::{short, status};
use mpi::Result;
use mpi::core::{
    Blocking, Data, Dest, Focus, Mode, Peer, Push, RecvData, RequestId, Source, Status, Tag, TypeId,
};
use std::ffi::c_int;

/// Where a message goes; the engine checks rank and tag.
#[inline(always)]
pub(crate) fn dest<A: Abi>(rank: c_int, tag: c_int) -> Dest {
    Dest { peer: peer::<A>(rank), tag }
}

/// A rank, or nobody; the engine checks it.
#[inline(always)]
pub(crate) fn peer<A: Abi>(rank: c_int) -> Peer {
    if i64::from(rank) == A::C.proc_null { Peer::Null } else { Peer::Rank(rank) }
}

/// Which messages a receive or probe accepts.
#[inline(always)]
pub(crate) fn source<A: Abi>(rank: c_int, tag: c_int) -> Source {
    let peer = match i64::from(rank) {
        any if any == A::C.any_source => Peer::Any,
        null if null == A::C.proc_null => Peer::Null,
        _ => Peer::Rank(rank),
    };
    let tag = if i64::from(tag) == A::C.any_tag { Tag::Any } else { Tag::Is(tag) };
    Source { peer, tag }
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

/// Stores the handle of a request that `start` gives. Nothing is started that has no place.
#[inline(always)]
pub fn put_request<A: Abi>(
    out: Ptr<A::Handle>,
    flavor: Flavor,
    start: impl FnOnce() -> Outcome<RequestId>,
) -> Outcome<()> {
    out.check()?;
    Ok(out.set(handles::of_request::<A>(start()?, flavor))?)
}

/// The data of a message. Nothing is sent to the null process or received from it, so that it needs no datatype; nor do
/// no elements.
#[inline(always)]
pub(crate) fn carried<A: Abi, M: Memory>(
    buf: M,
    count: impl Count,
    datatype: A::Handle,
    peer: c_int,
) -> Outcome<Data<M::Engine>> {
    match args::data::<A, M>(buf, count, datatype) {
        Err(_)
            if (i64::from(peer) == A::C.proc_null || count.wide() == 0)
                && A::bits(datatype) == A::C.datatype_null =>
        {
            Ok(Data::new(buf.engine(), 0, TypeId::BYTE))
        }
        data => data,
    }
}

/// Is a message complete as soon as it is on its way?
#[inline(always)]
const fn is_plain(mode: Mode) -> bool {
    matches!(mode, Mode::Standard | Mode::Ready)
}

macro_rules! sends {
    ($($send:ident $isend:ident $init:ident $mode:ident $name:literal $iname:literal $pname:literal),* $(,)?) => {$(
        #[doc = concat!("`", $name, "`")]
        #[inline(always)]
        pub fn $send<A: Abi, C: Count>(
            buf: Buf, count: C, datatype: A::Handle, dest: c_int, tag: c_int, comm: A::Handle,
        ) -> c_int {
            if is_plain(Mode::$mode) && short::send::<A>(buf, count, datatype, dest, tag, comm, Push::Now) {
                return 0;
            }
            short::long(move || run::<A>($name, On::Comm(comm), |call| {
                let (comm, data) = (handles::comm::<A>(comm)?, carried::<A, _>(buf, count, datatype, dest)?);
                let to = self::dest::<A>(dest, tag);
                if call.is_threaded() {
                    let request = call.isend_now(comm, data, to, Mode::$mode)?;
                    return status::check(&call.complete(request)?);
                }
                match call.send(comm, data, to, Mode::$mode)? {
                    None => Ok(()),
                    Some(request) => status::check(&call.complete(request)?),
                }
            }))
        }

        #[doc = concat!("`", $iname, "`")]
        #[inline(always)]
        pub fn $isend<A: Abi, C: Count>(
            buf: Buf, count: C, datatype: A::Handle, dest: c_int, tag: c_int, comm: A::Handle,
            request: Ptr<A::Handle>,
        ) -> c_int {
            if is_plain(Mode::$mode)
                && !request.is_null()
                && short::send::<A>(buf, count, datatype, dest, tag, comm, Push::Soon)
            {
                let sent = put_request::<A>(request, Flavor::Once, || Ok(RequestId::SENT));
                debug_assert!(sent.is_ok(), "there is a place for it");
                return 0;
            }
            short::long(move || run::<A>($iname, On::Comm(comm), |call| {
                let (comm, data) = (handles::comm::<A>(comm)?, carried::<A, _>(buf, count, datatype, dest)?);
                put_request::<A>(request, Flavor::Once, || {
                    let id = call.isend(comm, data, self::dest::<A>(dest, tag), Mode::$mode)?;
                    call.is_followed();
                    Ok(id)
                })
            }))
        }

        #[doc = concat!("`", $pname, "`")]
        pub fn $init<A: Abi, C: Count>(
            buf: Buf, count: C, datatype: A::Handle, dest: c_int, tag: c_int, comm: A::Handle,
            request: Ptr<A::Handle>,
        ) -> c_int {
            run::<A>($pname, On::Comm(comm), |call| {
                let (comm, data) = (handles::comm::<A>(comm)?, carried::<A, _>(buf, count, datatype, dest)?);
                let to = self::dest::<A>(dest, tag);
                put_request::<A>(request, Flavor::Persistent, || {
                    Ok(call.send_init(comm, data, to, Mode::$mode)?)
                })
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
    if let Some(received) = short::recv::<A>(buf, count, datatype, source, tag, comm) {
        return match status::complete::<A>(status, &received) {
            Ok(()) => 0,
            Err(failure) => run::<A>("MPI_Recv", On::Comm(comm), |_| Err(failure)),
        };
    }
    short::long(move || {
        run::<A>("MPI_Recv", On::Comm(comm), |call| {
            let (comm, data) = (handles::comm::<A>(comm)?, carried::<A, _>(buf, count, datatype, source)?);
            let from = self::source::<A>(source, tag);
            let result = if call.is_threaded() {
                let request = call.irecv(comm, data, from)?;
                call.complete(request)?
            } else {
                let received = call.recv(comm, data, from)?;
                call.end(received)?
            };
            status::complete::<A>(status, &result)
        })
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
    if !request.is_null()
        && let Some(id) = short::irecv::<A>(buf, count, datatype, source, tag, comm)
    {
        let put = put_request::<A>(request, Flavor::Once, || Ok(id));
        debug_assert!(put.is_ok(), "there is a place for it");
        return 0;
    }
    short::long(move || {
        run::<A>("MPI_Irecv", On::Comm(comm), |call| {
            let (comm, data) = (handles::comm::<A>(comm)?, carried::<A, _>(buf, count, datatype, source)?);
            let from = self::source::<A>(source, tag);
            put_request::<A>(request, Flavor::Once, || Ok(call.irecv(comm, data, from)?))
        })
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
        let (comm, data) = (handles::comm::<A>(comm)?, carried::<A, _>(buf, count, datatype, source)?);
        let from = self::source::<A>(source, tag);
        put_request::<A>(request, Flavor::Persistent, || Ok(call.recv_init(comm, data, from)?))
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
        let comm = handles::comm::<A>(comm)?;
        let (send, to) =
            (carried::<A, _>(sendbuf, sendcount, sendtype, dest)?, self::dest::<A>(dest, sendtag));
        let (recv, from) =
            (carried::<A, _>(recvbuf, recvcount, recvtype, source)?, self::source::<A>(source, recvtag));
        let result = if call.is_threaded() {
            let request = call.isendrecv(comm, (send, to), (recv, from))?;
            call.complete(request)?
        } else {
            let both = call.sendrecv(comm, (send, to), (recv, from))?;
            call.end(both)?
        };
        status::complete::<A>(status, &result)
    })
}

/// `MPI_Isendrecv`
#[allow(clippy::too_many_arguments)]
pub fn isendrecv<A: Abi, C: Count>(
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
    request: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Isendrecv", On::Comm(comm), |call| {
        let comm = handles::comm::<A>(comm)?;
        let (send, to) =
            (carried::<A, _>(sendbuf, sendcount, sendtype, dest)?, self::dest::<A>(dest, sendtag));
        let (recv, from) =
            (carried::<A, _>(recvbuf, recvcount, recvtype, source)?, self::source::<A>(source, recvtag));
        put_request::<A>(request, Flavor::Once, || Ok(call.isendrecv(comm, (send, to), (recv, from))?))
    })
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
        let (comm, data) = (handles::comm::<A>(comm)?, carried::<A, _>(buf, count, datatype, source)?);
        let (to, from) = (self::dest::<A>(dest, sendtag), self::source::<A>(source, recvtag));
        let result = if call.is_threaded() {
            let request = call.isendrecv_replace(comm, data, to, from)?;
            call.complete(request)?
        } else {
            let both = call.sendrecv_replace(comm, data, to, from)?;
            call.end(both)?
        };
        status::complete::<A>(status, &result)
    })
}

/// `MPI_Isendrecv_replace`
#[allow(clippy::too_many_arguments)]
pub fn isendrecv_replace<A: Abi, C: Count>(
    buf: BufMut,
    count: C,
    datatype: A::Handle,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: A::Handle,
    request: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Isendrecv_replace", On::Comm(comm), |call| {
        let (comm, data) = (handles::comm::<A>(comm)?, carried::<A, _>(buf, count, datatype, source)?);
        let (to, from) = (self::dest::<A>(dest, sendtag), self::source::<A>(source, recvtag));
        put_request::<A>(request, Flavor::Once, || Ok(call.isendrecv_replace(comm, data, to, from)?))
    })
}

/// `MPI_Probe`
pub fn probe<A: Abi>(from: c_int, ptag: c_int, comm: A::Handle, status: Ptr<A::Status>) -> c_int {
    run::<A>("MPI_Probe", On::Comm(comm), |call| {
        let (comm, from) = (handles::comm::<A>(comm)?, source::<A>(from, ptag));
        let seen = call.poll(Focus::Probe(comm, from), |call| call.iprobe(comm, from))?;
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
        let (comm, from) = (handles::comm::<A>(comm)?, source::<A>(from, ptag));
        let seen = call.iprobe(comm, from)?;
        flag.set(seen.is_some().into())?;
        if seen.is_none() {
            call.in_vain(Focus::Probe(comm, from));
        }
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
        let (comm, from) = (handles::comm::<A>(comm)?, source::<A>(from, ptag));
        message.check()?;
        let (taken, seen) = call.poll(Focus::Probe(comm, from), |call| call.improbe(comm, from))?;
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
        flag.check().and_then(|()| message.check())?;
        let (comm, from) = (handles::comm::<A>(comm)?, source::<A>(from, ptag));
        let found = call.improbe(comm, from)?;
        flag.set(found.is_some().into())?;
        let Some((taken, seen)) = found else {
            call.in_vain(Focus::Probe(comm, from));
            return Ok(message.set(A::handle(A::C.message_null))?);
        };
        message.set(handles::of_message::<A>(taken))?;
        status::store::<A>(status, &seen)
    })
}

/// Starts to receive a matched message and uses its handle up. The data is looked at when it is known who hears of
/// its errors.
fn take_message<A: Abi>(
    call: &mut Call<A>,
    on: &mut On<A>,
    message: Ptr<A::Handle>,
    data: impl FnOnce() -> Outcome<RecvData>,
) -> Outcome<RequestId> {
    let id = handles::message::<A>(message.get()?)?;
    if let Ok(comm) = call.message_comm(id) {
        *on = On::Id(comm);
    }
    let request = call.imrecv(id, data()?)?;
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
        let request = take_message(call, on, message, || args::data::<A, _>(buf, count, datatype))?;
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
        put_request::<A>(request, Flavor::Once, || {
            take_message(call, on, message, || args::data::<A, _>(buf, count, datatype))
        })
    })
}
