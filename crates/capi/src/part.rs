//! Partitioned messages.
use crate::abi::{Abi, Count};
use crate::args::{Buf, BufMut, In, Ptr};
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run, run_on};
use crate::handles::{self, Flavor};
use crate::p2p::{carried, dest, put_request, source};
use mpi::ErrorClass;
use mpi::core::{Focus, RequestId};
use std::ffi::c_int;

/// `MPI_Psend_init`: the count is large in both forms.
#[allow(clippy::too_many_arguments)]
pub fn psend_init<A: Abi, C: Count>(
    buf: Buf,
    partitions: c_int,
    count: i64,
    datatype: A::Handle,
    to: c_int,
    tag: c_int,
    comm: A::Handle,
    info: A::Handle,
    request: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Psend_init", On::Comm(comm), |call| {
        let (comm, part) = (handles::comm::<A>(comm)?, carried::<A, _>(buf, count, datatype, to)?);
        handles::info_or_null::<A>(info)?;
        let to = dest::<A>(to, tag);
        put_request::<A>(request, Flavor::Persistent, || Ok(call.psend_init(comm, part, partitions, to)?))
    })
}

/// `MPI_Precv_init`: the count is large in both forms.
#[allow(clippy::too_many_arguments)]
pub fn precv_init<A: Abi, C: Count>(
    buf: BufMut,
    partitions: c_int,
    count: i64,
    datatype: A::Handle,
    from: c_int,
    tag: c_int,
    comm: A::Handle,
    info: A::Handle,
    request: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Precv_init", On::Comm(comm), |call| {
        let (comm, part) = (handles::comm::<A>(comm)?, carried::<A, _>(buf, count, datatype, from)?);
        handles::info_or_null::<A>(info)?;
        let from = source::<A>(from, tag);
        put_request::<A>(request, Flavor::Persistent, || Ok(call.precv_init(comm, part, partitions, from)?))
    })
}

/// The request of a call, whose communicator hears of errors.
fn named<A: Abi>(call: &Call<A>, on: &mut On<A>, request: A::Handle) -> Outcome<RequestId> {
    let Some((id, _)) = handles::request::<A>(request)? else {
        return fail(ErrorClass::Request, "null request");
    };
    if let Some(comm) = call.request_comm(id)? {
        *on = On::Id(comm);
    }
    Ok(id)
}

/// `MPI_Pready`
pub fn pready<A: Abi>(partition: c_int, request: A::Handle) -> c_int {
    run_on::<A>("MPI_Pready", |call, on| {
        let id = named(call, on, request)?;
        Ok(call.pready(id, partition)?)
    })
}

/// `MPI_Pready_range`: both ends are in it.
pub fn pready_range<A: Abi>(partition_low: c_int, partition_high: c_int, request: A::Handle) -> c_int {
    run_on::<A>("MPI_Pready_range", |call, on| {
        let id = named(call, on, request)?;
        if partition_low > partition_high {
            return fail(ErrorClass::Arg, format!("partitions from {partition_low} to {partition_high}"));
        }
        Ok((partition_low..=partition_high).try_for_each(|partition| call.pready(id, partition))?)
    })
}

/// `MPI_Pready_list`
pub fn pready_list<A: Abi>(length: c_int, array_of_partitions: In<c_int>, request: A::Handle) -> c_int {
    run_on::<A>("MPI_Pready_list", |call, on| {
        let id = named(call, on, request)?;
        let Ok(length) = usize::try_from(length) else {
            return fail(ErrorClass::Arg, format!("a list of {length} partitions"));
        };
        let list = array_of_partitions.list(length)?;
        Ok(list.into_iter().try_for_each(|partition| call.pready(id, partition))?)
    })
}

/// `MPI_Parrived`
pub fn parrived<A: Abi>(request: A::Handle, partition: c_int, flag: Ptr<c_int>) -> c_int {
    run_on::<A>("MPI_Parrived", |call, on| {
        // As a test of a null request.
        if handles::request::<A>(request)?.is_none() {
            return Ok(flag.set(1)?);
        }
        let id = named(call, on, request)?;
        let mut arrived = call.parrived(id, partition)?;
        if !arrived {
            call.advance();
            arrived = call.parrived(id, partition)?;
        }
        flag.set(arrived.into())?;
        if !arrived {
            call.in_vain(Focus::One(id));
        }
        Ok(())
    })
}
