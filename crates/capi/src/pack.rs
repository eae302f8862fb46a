//! Packing and unpacking, in the machine's representation and in "external32".
use crate::abi::{Abi, Count};
use crate::args::{self, Buf, BufMut, Ptr, Text, not_negative};
use crate::datatype::{narrow, or_undefined};
use crate::errors::{On, Outcome, fail, run};
use crate::handles;
use mpi::ErrorClass;
use std::ffi::c_int;

/// `MPI_Pack_size`
pub fn pack_size<A: Abi, C: Count>(incount: C, datatype: A::Handle, comm: A::Handle, size: Ptr<C>) -> c_int {
    run::<A>("MPI_Pack_size", On::Comm(comm), |call| {
        handles::comm::<A>(comm)?;
        let bytes =
            call.pack_size(not_negative("incount", incount.wide())?, handles::datatype::<A>(datatype)?)?;
        Ok(size.set(or_undefined::<A, C>(bytes as i64))?)
    })
}

/// `MPI_Pack`
pub fn pack<A: Abi, C: Count>(
    inbuf: Buf,
    incount: C,
    datatype: A::Handle,
    outbuf: BufMut,
    outsize: C,
    position: Ptr<C>,
    comm: A::Handle,
) -> c_int {
    run::<A>("MPI_Pack", On::Comm(comm), |call| {
        handles::comm::<A>(comm)?;
        let data = args::data::<A, _>(inbuf, incount, datatype)?;
        let mut at = position.get()?.wide();
        call.pack(data, outbuf.target(), outsize.wide(), &mut at)?;
        Ok(position.set(narrow(at)?)?)
    })
}

/// `MPI_Unpack`
pub fn unpack<A: Abi, C: Count>(
    inbuf: Buf,
    insize: C,
    position: Ptr<C>,
    outbuf: BufMut,
    outcount: C,
    datatype: A::Handle,
    comm: A::Handle,
) -> c_int {
    run::<A>("MPI_Unpack", On::Comm(comm), |call| {
        handles::comm::<A>(comm)?;
        let data = args::data::<A, _>(outbuf, outcount, datatype)?;
        let mut at = position.get()?.wide();
        call.unpack(inbuf.source(), insize.wide(), &mut at, data)?;
        Ok(position.set(narrow(at)?)?)
    })
}

/// The only representation that there is beside the machine's own.
fn external32(datarep: Text) -> Outcome<()> {
    match datarep.read()?.as_str() {
        "external32" => Ok(()),
        other => fail(ErrorClass::Arg, format!("no data representation is called {other:?}")),
    }
}

/// `MPI_Pack_external_size`
pub fn pack_external_size<A: Abi, C: Count>(
    datarep: Text,
    incount: C,
    datatype: A::Handle,
    size: Ptr<i64>,
) -> c_int {
    run::<A>("MPI_Pack_external_size", On::WORLD, |call| {
        external32(datarep)?;
        let count = not_negative("incount", incount.wide())?;
        Ok(size.set(call.pack_external_size(count, handles::datatype::<A>(datatype)?)?)?)
    })
}

/// `MPI_Pack_external`
pub fn pack_external<A: Abi, C: Count>(
    datarep: Text,
    inbuf: Buf,
    incount: C,
    datatype: A::Handle,
    outbuf: BufMut,
    outsize: i64,
    position: Ptr<i64>,
) -> c_int {
    run::<A>("MPI_Pack_external", On::WORLD, |call| {
        external32(datarep)?;
        let data = args::data::<A, _>(inbuf, incount, datatype)?;
        let mut at = position.get()?;
        call.pack_external(data, outbuf.target(), outsize, &mut at)?;
        Ok(position.set(at)?)
    })
}

/// `MPI_Unpack_external`
pub fn unpack_external<A: Abi, C: Count>(
    datarep: Text,
    inbuf: Buf,
    insize: i64,
    position: Ptr<i64>,
    outbuf: BufMut,
    outcount: C,
    datatype: A::Handle,
) -> c_int {
    run::<A>("MPI_Unpack_external", On::WORLD, |call| {
        external32(datarep)?;
        let data = args::data::<A, _>(outbuf, outcount, datatype)?;
        let mut at = position.get()?;
        call.unpack_external(inbuf.source(), insize, &mut at, data)?;
        Ok(position.set(at)?)
    })
}
