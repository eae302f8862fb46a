//! Groups.
use crate::abi::Abi;
use crate::args::{In, Ptr};
use crate::comm::comparison;
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run};
use crate::handles;
use mpi::ErrorClass;
use mpi::core::GroupId;
use std::ffi::c_int;

/// `MPI_Group_size`
pub fn group_size<A: Abi>(group: A::Handle, size: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Group_size", On::WORLD, |call| {
        Ok(size.set(call.group_size(handles::group::<A>(group)?)? as c_int)?)
    })
}

/// `MPI_Group_rank`
pub fn group_rank<A: Abi>(group: A::Handle, rank: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Group_rank", On::WORLD, |call| {
        let mine = call.group_rank(handles::group::<A>(group)?)?;
        Ok(rank.set(mine.map_or(A::C.undefined as c_int, |rank| rank as c_int))?)
    })
}

/// `MPI_Group_translate_ranks`
pub fn group_translate_ranks<A: Abi>(
    group1: A::Handle,
    n: c_int,
    ranks1: In<c_int>,
    group2: A::Handle,
    ranks2: Ptr<c_int>,
) -> c_int {
    run::<A>("MPI_Group_translate_ranks", On::WORLD, |call| {
        let (from, to) = (handles::group::<A>(group1)?, handles::group::<A>(group2)?);
        let proc_null = A::C.proc_null as c_int;
        for (i, rank) in ranks1.list(len(n)?)?.into_iter().enumerate() {
            let there = if rank == proc_null {
                proc_null
            } else {
                let found = call.group_translate(from, &[rank], to)?[0];
                found.map_or(A::C.undefined as c_int, |rank| rank as c_int)
            };
            ranks2.set_at(i, there)?;
        }
        Ok(())
    })
}

fn len(n: c_int) -> Outcome<usize> {
    match usize::try_from(n) {
        Ok(n) => Ok(n),
        Err(_) => fail(ErrorClass::Arg, format!("{n} ranks")),
    }
}

/// `MPI_Group_compare`
pub fn group_compare<A: Abi>(group1: A::Handle, group2: A::Handle, result: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Group_compare", On::WORLD, |call| {
        let how = call.group_compare(handles::group::<A>(group1)?, handles::group::<A>(group2)?)?;
        Ok(result.set(comparison::<A>(how))?)
    })
}

fn put<A: Abi>(out: Ptr<A::Handle>, group: GroupId) -> Outcome<()> {
    Ok(out.set(handles::of_group::<A>(group))?)
}

macro_rules! algebra {
    ($($name:ident $mpi:literal),*) => {$(
        #[doc = concat!("`", $mpi, "`")]
        pub fn $name<A: Abi>(group1: A::Handle, group2: A::Handle, newgroup: Ptr<A::Handle>) -> c_int {
            run::<A>($mpi, On::WORLD, |call| {
                newgroup.check()?;
                let new = call.$name(handles::group::<A>(group1)?, handles::group::<A>(group2)?)?;
                put::<A>(newgroup, new)
            })
        }
    )*};
}

algebra! {
    group_union "MPI_Group_union",
    group_intersection "MPI_Group_intersection",
    group_difference "MPI_Group_difference"
}

macro_rules! selections {
    ($($name:ident $mpi:literal),*) => {$(
        #[doc = concat!("`", $mpi, "`")]
        pub fn $name<A: Abi>(group: A::Handle, n: c_int, ranks: In<c_int>, newgroup: Ptr<A::Handle>) -> c_int {
            run::<A>($mpi, On::WORLD, |call| {
                newgroup.check()?;
                let new = call.$name(handles::group::<A>(group)?, &ranks.list(len(n)?)?)?;
                put::<A>(newgroup, new)
            })
        }
    )*};
}

selections!(group_incl "MPI_Group_incl", group_excl "MPI_Group_excl");

fn ranges(n: c_int, list: Ptr<c_int>) -> Outcome<Vec<[c_int; 3]>> {
    let flat = list.list(3 * len(n)?)?;
    Ok(flat.chunks_exact(3).map(|r| [r[0], r[1], r[2]]).collect())
}

macro_rules! range_selections {
    ($($name:ident $mpi:literal),*) => {$(
        #[doc = concat!("`", $mpi, "`")]
        pub fn $name<A: Abi>(group: A::Handle, n: c_int, list: Ptr<c_int>, newgroup: Ptr<A::Handle>) -> c_int {
            run::<A>($mpi, On::WORLD, |call| {
                newgroup.check()?;
                let new = call.$name(handles::group::<A>(group)?, &ranges(n, list)?)?;
                put::<A>(newgroup, new)
            })
        }
    )*};
}

range_selections!(group_range_incl "MPI_Group_range_incl", group_range_excl "MPI_Group_range_excl");

/// `MPI_Group_free`
pub fn group_free<A: Abi>(group: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Group_free", On::WORLD, |call| free(call, group))
}

fn free<A: Abi>(call: &mut Call<A>, group: Ptr<A::Handle>) -> Outcome<()> {
    let id = handles::group::<A>(group.get()?)?;
    // The empty group may be the result of an operation, and then is freed like any other (MPI-5 7.3.3).
    if id != GroupId::EMPTY {
        call.group_free(id)?;
    }
    Ok(group.set(A::handle(A::C.group_null))?)
}
