//! Buffers for buffered sends: of the process, of a session, of a communicator.
use crate::abi::{Abi, Count};
use crate::args::{BufMut, Ptr, not_negative};
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run};
use crate::handles::{self, Flavor};
use mpi::ErrorClass;
use mpi::core::{Focus, Holder};
use std::ffi::c_int;

/// What `MPI_BUFFER_AUTOMATIC` has room for.
const NO_LIMIT: i64 = i64::MAX;

fn attach<A: Abi>(call: &mut Call<A>, holder: Holder, buffer: BufMut, size: i64) -> Outcome<()> {
    let automatic = buffer.addr() as i64 == A::C.buffer_automatic;
    let bytes = if automatic { NO_LIMIT } else { not_negative("size", size)? };
    Ok(call.buffer_attach(holder, buffer.addr(), bytes)?)
}

fn detach<A: Abi, C: Count>(
    call: &mut Call<A>,
    holder: Holder,
    buffer_addr: BufMut,
    size: Ptr<C>,
) -> Outcome<()> {
    let (address, bytes) = call.poll(Focus::Anything, |call| call.buffer_detach(holder))?;
    buffer_addr.store(address)?;
    let bytes = if bytes == NO_LIMIT { 0 } else { bytes };
    match C::narrow(bytes) {
        Some(bytes) => Ok(size.set(bytes)?),
        None => fail(ErrorClass::ValueTooLarge, format!("a buffer of {bytes} bytes")),
    }
}

/// Waits until buffered sends are gone.
fn flush<A: Abi>(call: &mut Call<A>, holder: Holder) -> Outcome<()> {
    Ok(call.poll(Focus::Anything, |call| Ok(call.buffer_is_flushed(holder)?.then_some(())))?)
}

fn begin_flush<A: Abi>(call: &mut Call<A>, holder: Holder, request: Ptr<A::Handle>) -> Outcome<()> {
    crate::p2p::put_request::<A>(request, Flavor::Once, || Ok(call.start_buffer_flush(holder)?))
}

/// `MPI_Buffer_attach`
pub fn buffer_attach<A: Abi, C: Count>(buffer: BufMut, size: C) -> c_int {
    run::<A>("MPI_Buffer_attach", On::WORLD, |call| attach(call, Holder::Process, buffer, size.wide()))
}

/// `MPI_Buffer_detach`
pub fn buffer_detach<A: Abi, C: Count>(buffer_addr: BufMut, size: Ptr<C>) -> c_int {
    run::<A>("MPI_Buffer_detach", On::WORLD, |call| detach(call, Holder::Process, buffer_addr, size))
}

/// `MPI_Buffer_flush`
pub fn buffer_flush<A: Abi>() -> c_int {
    run::<A>("MPI_Buffer_flush", On::WORLD, |call| flush(call, Holder::Process))
}

/// `MPI_Buffer_iflush`
pub fn buffer_iflush<A: Abi>(request: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Buffer_iflush", On::WORLD, |call| begin_flush(call, Holder::Process, request))
}

macro_rules! of_objects {
    ($($kind:ident $on:ident $attach:ident $attach_name:literal $detach:ident $detach_name:literal
       $flush:ident $flush_name:literal $iflush:ident $iflush_name:literal $decode:ident);* $(;)?) => {$(
        #[doc = concat!("`", $attach_name, "`")]
        pub fn $attach<A: Abi, C: Count>(object: A::Handle, buffer: BufMut, size: C) -> c_int {
            run::<A>($attach_name, On::$on(object), |call| {
                attach(call, Holder::$kind(handles::$decode::<A>(object)?), buffer, size.wide())
            })
        }

        #[doc = concat!("`", $detach_name, "`")]
        pub fn $detach<A: Abi, C: Count>(object: A::Handle, buffer_addr: BufMut, size: Ptr<C>) -> c_int {
            run::<A>($detach_name, On::$on(object), |call| {
                detach(call, Holder::$kind(handles::$decode::<A>(object)?), buffer_addr, size)
            })
        }

        #[doc = concat!("`", $flush_name, "`")]
        pub fn $flush<A: Abi>(object: A::Handle) -> c_int {
            run::<A>($flush_name, On::$on(object), |call| {
                flush(call, Holder::$kind(handles::$decode::<A>(object)?))
            })
        }

        #[doc = concat!("`", $iflush_name, "`")]
        pub fn $iflush<A: Abi>(object: A::Handle, request: Ptr<A::Handle>) -> c_int {
            run::<A>($iflush_name, On::$on(object), |call| {
                begin_flush(call, Holder::$kind(handles::$decode::<A>(object)?), request)
            })
        }
    )*};
}

of_objects! {
    Comm Comm comm_attach_buffer "MPI_Comm_attach_buffer" comm_detach_buffer "MPI_Comm_detach_buffer"
        comm_flush_buffer "MPI_Comm_flush_buffer" comm_iflush_buffer "MPI_Comm_iflush_buffer" comm;
    Session Session session_attach_buffer "MPI_Session_attach_buffer"
        session_detach_buffer "MPI_Session_detach_buffer" session_flush_buffer "MPI_Session_flush_buffer"
        session_iflush_buffer "MPI_Session_iflush_buffer" session;
}
