//! Statuses between the engine and the caller's memory.
use crate::abi::{Abi, Count, Fields};
use crate::args::{self, In, Ptr};
use crate::engine::Call;
use crate::errors::{On, Outcome, code, fail, run};
use crate::handles;
use mpi::core::{Peer, Status, Tag};
use mpi::{ErrorClass, MpiError};
use std::ffi::c_int;

/// The engine's status as fields of the interface.
#[inline(always)]
pub fn fields<A: Abi>(status: &Status) -> Fields {
    let source = match status.source {
        Peer::Rank(rank) => rank,
        Peer::Any => A::C.any_source as i32,
        Peer::Null => A::C.proc_null as i32,
        Peer::Root => A::C.root as i32,
    };
    let tag = match status.tag {
        Tag::Is(tag) => tag,
        Tag::Any => A::C.any_tag as i32,
    };
    Fields { source, tag, bytes: status.bytes as u64, cancelled: status.cancelled }
}

/// An empty status in the interface's layout.
pub fn empty<A: Abi>() -> A::Status {
    let mut status = A::ZERO_STATUS;
    A::fill_status(&mut status, fields::<A>(&Status::EMPTY));
    status
}

/// Does the caller want a status? (`MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE` are one value.)
#[inline(always)]
pub fn wanted<A: Abi>(out: Ptr<A::Status>) -> bool {
    out.addr() as i64 != A::C.status_ignore && !out.is_null()
}

/// Stores a status, leaving the error field as it was (MPI-5 3.2.5).
#[inline(always)]
pub fn store<A: Abi>(out: Ptr<A::Status>, status: &Status) -> Outcome<()> {
    if wanted::<A>(out) {
        let mut target = out.get()?;
        A::fill_status(&mut target, fields::<A>(status));
        out.set(target)?;
    }
    Ok(())
}

/// Stores the empty status, whose error field is success (MPI-5 3.7.3).
pub fn store_empty<A: Abi>(out: Ptr<A::Status>) -> Outcome<()> {
    store_at::<A>(out, 0, &Status::EMPTY, 0)
}

/// Stores a status with its error field at `index` of an array.
#[inline(always)]
pub fn store_at<A: Abi>(out: Ptr<A::Status>, index: usize, status: &Status, error: c_int) -> Outcome<()> {
    if wanted::<A>(out) {
        let mut target = A::ZERO_STATUS;
        A::fill_status(&mut target, fields::<A>(status));
        *A::error_field(&mut target) = error;
        out.set_at(index, target)?;
    }
    Ok(())
}

/// The error of a status as the error of the call.
#[inline(always)]
pub fn check(status: &Status) -> Outcome<()> {
    if status.error == ErrorClass::Success { Ok(()) } else { Err(MpiError::from(*status).into()) }
}

/// Stores the status of a single completion and raises its error.
#[inline(always)]
pub fn complete<A: Abi>(out: Ptr<A::Status>, status: &Status) -> Outcome<()> {
    store::<A>(out, status)?;
    check(status)
}

/// `MPI_STATUS_IGNORE` is nothing that can be read or changed.
fn not_ignored<A: Abi>(addr: usize) -> Outcome<()> {
    if addr as i64 == A::C.status_ignore {
        return fail(ErrorClass::Arg, "MPI_STATUS_IGNORE is no status");
    }
    Ok(())
}

/// A status that the program has passed.
fn passed<A: Abi>(status: In<A::Status>) -> Outcome<A::Status> {
    not_ignored::<A>(status.addr())?;
    Ok(status.get()?)
}

/// A status as the engine knows it (only what counting needs).
fn read<A: Abi>(status: In<A::Status>) -> Outcome<Status> {
    let fields = A::fields(&passed::<A>(status)?);
    Ok(Status { bytes: fields.bytes as usize, cancelled: fields.cancelled, ..Status::EMPTY })
}

fn put_count<A: Abi, C: Count>(out: Ptr<C>, count: Option<u64>) -> Outcome<()> {
    let undefined = A::C.undefined;
    let value = count.and_then(|n| i64::try_from(n).ok()).and_then(C::narrow);
    // What does not fit is undefined too (MPI-5 3.2.5).
    Ok(out.set(value.or(C::narrow(undefined)).expect("MPI_UNDEFINED fits in an int"))?)
}

/// `MPI_Get_count`
pub fn get_count<A: Abi, C: Count>(status: In<A::Status>, datatype: A::Handle, count: Ptr<C>) -> c_int {
    run::<A>("MPI_Get_count", On::WORLD, |call| {
        let (status, ty) = (read::<A>(status)?, handles::datatype::<A>(datatype)?);
        let n = call.get_count(&status, ty)?;
        put_count::<A, C>(count, n)
    })
}

fn elements<A: Abi, C: Count>(
    call: &mut Call<A>,
    status: In<A::Status>,
    datatype: A::Handle,
    count: Ptr<C>,
) -> Outcome<()> {
    let (status, ty) = (read::<A>(status)?, handles::datatype::<A>(datatype)?);
    let n = call.get_elements(&status, ty)?;
    put_count::<A, C>(count, n)
}

/// `MPI_Get_elements`
pub fn get_elements<A: Abi, C: Count>(status: In<A::Status>, datatype: A::Handle, count: Ptr<C>) -> c_int {
    run::<A>("MPI_Get_elements", On::WORLD, |call| elements(call, status, datatype, count))
}

/// `MPI_Get_elements_x`
pub fn get_elements_x<A: Abi>(status: In<A::Status>, datatype: A::Handle, count: Ptr<i64>) -> c_int {
    run::<A>("MPI_Get_elements_x", On::WORLD, |call| elements(call, status, datatype, count))
}

fn change<A: Abi>(status: Ptr<A::Status>, f: impl FnOnce(&mut Fields)) -> Outcome<()> {
    not_ignored::<A>(status.addr())?;
    let mut target = status.get()?;
    let mut fields = A::fields(&target);
    f(&mut fields);
    A::fill_status(&mut target, fields);
    Ok(status.set(target)?)
}

fn set_elements<A: Abi>(
    call: &Call<A>,
    status: Ptr<A::Status>,
    datatype: A::Handle,
    count: i64,
) -> Outcome<()> {
    let ty = handles::datatype::<A>(datatype)?;
    let bytes = call.bytes_of_elements(args::not_negative("count", count)? as u64, ty)?;
    change::<A>(status, |fields| fields.bytes = bytes)
}

/// `MPI_Status_set_elements`
pub fn status_set_elements<A: Abi, C: Count>(status: Ptr<A::Status>, datatype: A::Handle, count: C) -> c_int {
    run::<A>("MPI_Status_set_elements", On::WORLD, |call| set_elements(call, status, datatype, count.wide()))
}

/// `MPI_Status_set_elements_x`
pub fn status_set_elements_x<A: Abi>(status: Ptr<A::Status>, datatype: A::Handle, count: i64) -> c_int {
    run::<A>("MPI_Status_set_elements_x", On::WORLD, |call| set_elements(call, status, datatype, count))
}

/// `MPI_Status_set_cancelled`
pub fn status_set_cancelled<A: Abi>(status: Ptr<A::Status>, flag: c_int) -> c_int {
    run::<A>("MPI_Status_set_cancelled", On::WORLD, |_| change::<A>(status, |f| f.cancelled = flag != 0))
}

/// `MPI_Test_cancelled`
pub fn test_cancelled<A: Abi>(status: In<A::Status>, flag: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Test_cancelled", On::WORLD, |_| {
        Ok(flag.set(A::fields(&passed::<A>(status)?).cancelled.into())?)
    })
}

macro_rules! field_access {
    ($($get:ident $set:ident $name_get:literal $name_set:literal $field:ident),*) => {$(
        #[doc = $name_get]
        pub fn $get<A: Abi>(status: In<A::Status>, out: Ptr<c_int>) -> c_int {
            plain::<A>(|| Ok(out.set(A::fields(&passed::<A>(status)?).$field)?))
        }
        #[doc = $name_set]
        pub fn $set<A: Abi>(status: Ptr<A::Status>, value: c_int) -> c_int {
            plain::<A>(|| change::<A>(status, |fields| fields.$field = value))
        }
    )*};
}

field_access! {
    status_get_source status_set_source "`MPI_Status_get_source`" "`MPI_Status_set_source`" source,
    status_get_tag status_set_tag "`MPI_Status_get_tag`" "`MPI_Status_set_tag`" tag
}

/// `MPI_Status_get_error`
pub fn status_get_error<A: Abi>(status: In<A::Status>, error: Ptr<c_int>) -> c_int {
    plain::<A>(|| Ok(error.set(*A::error_field(&mut passed::<A>(status)?))?))
}

/// `MPI_Status_set_error`
pub fn status_set_error<A: Abi>(status: Ptr<A::Status>, error: c_int) -> c_int {
    plain::<A>(|| {
        not_ignored::<A>(status.addr())?;
        let mut target = status.get()?;
        *A::error_field(&mut target) = error;
        Ok(status.set(target)?)
    })
}

/// Status accessors need no engine (MPI-5 11.4.1 lets them run at any time); a null pointer gives an error
/// code.
fn plain<A: Abi>(body: impl FnOnce() -> Outcome<()>) -> c_int {
    body().map_or(code::<A>(ErrorClass::Arg), |()| 0)
}

/// Statuses are the same words in C and in Fortran.
macro_rules! same_layout {
    ($($name:ident),*) => {$(
        /// Copies the words.
        pub fn $name<A: Abi>(from: In<A::Status>, to: Ptr<A::Status>) -> c_int {
            plain::<A>(|| {
                not_ignored::<A>(to.addr())?;
                Ok(to.set(passed::<A>(from)?)?)
            })
        }
    )*};
}

same_layout!(status_c2f08, status_f082c);

macro_rules! as_integers {
    ($($name:ident: $from:ty => $to:ty),*) => {$(
        /// Copies the words.
        pub fn $name<A: Abi>(from: $from, to: $to) -> c_int {
            plain::<A>(|| {
                not_ignored::<A>(to.addr())?;
                Ok(to.cast::<A::Status>().set(passed::<A>(from.cast::<A::Status>())?)?)
            })
        }
    )*};
}

as_integers! {
    status_c2f: In<A::Status> => Ptr<c_int>,
    status_f2c: In<c_int> => Ptr<A::Status>,
    status_f082f: In<A::Status> => Ptr<c_int>,
    status_f2f08: In<c_int> => Ptr<A::Status>
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpich::Mpich;
    use crate::standard::Standard;

    fn layout_keeps_every_field<A: Abi>() {
        for bytes in [0, 1, u64::from(u32::MAX), 1 << 40] {
            for cancelled in [false, true] {
                let fields = Fields { source: 3, tag: -7, bytes, cancelled };
                let mut status = A::ZERO_STATUS;
                *A::error_field(&mut status) = 42;
                A::fill_status(&mut status, fields);
                assert_eq!(A::fields(&status), fields);
                assert_eq!(*A::error_field(&mut status), 42);
            }
        }
    }

    #[test]
    fn statuses_keep_every_field_in_both_layouts() {
        layout_keeps_every_field::<Mpich>();
        layout_keeps_every_field::<Standard>();
    }
}
