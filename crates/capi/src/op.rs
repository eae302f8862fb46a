//! Reduction operations.
use crate::abi::{Abi, Count};
use crate::args::{self, Buf, BufMut, Opaque, Ptr};
use crate::callbacks::{LARGE, SMALL};
use crate::errors::{On, fail, run};
use crate::handles;
use mpi::ErrorClass;
use mpi::core::{OpId, Reduction, UserOp};
use std::ffi::c_int;

/// `MPI_Op_create`
pub fn op_create<A: Abi, C: Count>(user_fn: Opaque, commute: c_int, op: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Op_create", On::WORLD, |call| {
        if user_fn.0 == 0 {
            return fail(ErrorClass::Arg, "the reduction function is null");
        }
        op.check()?;
        let extra = if C::LARGE { LARGE } else { SMALL };
        let id = call.op_create(UserOp { function: user_fn.0, extra, commutative: commute != 0 });
        Ok(op.set(handles::of_op::<A>(id))?)
    })
}

/// `MPI_Op_free`
pub fn op_free<A: Abi>(op: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Op_free", On::WORLD, |call| {
        let id = handles::op::<A>(op.get()?)?;
        if id.0 < OpId::PREDEFINED {
            return fail(ErrorClass::Op, "a predefined operation cannot be freed");
        }
        call.op_free(id)?;
        Ok(op.set(A::handle(A::C.op_null))?)
    })
}

/// `MPI_Op_commutative`
pub fn op_commutative<A: Abi>(op: A::Handle, commute: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Op_commutative", On::WORLD, |call| {
        Ok(commute.set(call.op_commutative(handles::op::<A>(op)?)?.into())?)
    })
}

/// `MPI_Reduce_local`
pub fn reduce_local<A: Abi, C: Count>(
    inbuf: Buf,
    inoutbuf: BufMut,
    count: C,
    datatype: A::Handle,
    op: A::Handle,
) -> c_int {
    run::<A>("MPI_Reduce_local", On::WORLD, |call| {
        let recv = args::data::<A, _>(inoutbuf, count, datatype)?;
        let send = args::at::<A, _>(inbuf, recv.count, recv.ty)?.buf;
        if let Some(job) = call.reduce_local(Reduction { send, recv, op: handles::op::<A>(op)? })? {
            call.reduce(&job);
        }
        Ok(())
    })
}
