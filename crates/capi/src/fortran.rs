//! What a Fortran interface that is built on top of this library tells it about its compiler: sizes of types, and what true
//! and false look like (MPI-5 20.3). The library keeps it for others who ask. It needs no engine.
use crate::abi::Abi;
use crate::args::{BufMut, Ptr};
use crate::errors::{Outcome, anytime, fail};
use crate::handles;
use mpi::ErrorClass;
use mpi::core::{Pairs, registry};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A Fortran program begins, and nothing has the bindings that it needs.
pub fn refuse(name: &str) -> ! {
    let text = format!(
        "banyan: {name}: Banyan's MPI library has no Fortran bindings. A program that was built with MPICH's mpifort needs \
         that MPICH's libmpifort.so.12 (Debian: libmpichfort.so.12) besides; 'banyan check PROGRAM' says what is missing"
    );
    eprintln!("{text}");
    std::process::exit(1)
}

/// Sizes that a Fortran LOGICAL can have.
const LOGICAL_SIZES: [c_int; 5] = [1, 2, 4, 8, 16];

#[derive(Debug)]
struct Fortran {
    sizes: Option<Pairs>,
    /// True and false, by size.
    booleans: BTreeMap<c_int, (Vec<u8>, Vec<u8>)>,
}

static FORTRAN: Mutex<Fortran> = Mutex::new(Fortran { sizes: None, booleans: BTreeMap::new() });

fn fortran() -> MutexGuard<'static, Fortran> {
    FORTRAN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_size(logical_size: c_int) -> Outcome<usize> {
    match LOGICAL_SIZES.contains(&logical_size) {
        true => Ok(logical_size as usize),
        false => fail(ErrorClass::Arg, format!("a LOGICAL of {logical_size} bytes")),
    }
}

/// `MPI_Abi_get_fortran_info`
pub fn abi_get_fortran_info<A: Abi>(info: Ptr<A::Handle>) -> c_int {
    anytime::<A>("MPI_Abi_get_fortran_info", || {
        let handle = match fortran().sizes.clone() {
            Some(pairs) => handles::of_info::<A>(registry().info_with(pairs)),
            None => A::handle(A::C.info_null),
        };
        Ok(info.set(handle)?)
    })
}

/// `MPI_Abi_set_fortran_info`
pub fn abi_set_fortran_info<A: Abi>(info: A::Handle) -> c_int {
    anytime::<A>("MPI_Abi_set_fortran_info", || {
        let pairs = registry().info_pairs(handles::info::<A>(info)?)?;
        let mut fortran = fortran();
        if fortran.sizes.is_some() {
            return fail(ErrorClass::Abi, "the sizes of Fortran's types are known already");
        }
        fortran.sizes = Some(pairs);
        Ok(())
    })
}

/// `MPI_Abi_set_fortran_booleans`
pub fn abi_set_fortran_booleans<A: Abi>(
    logical_size: c_int,
    logical_true: BufMut,
    logical_false: BufMut,
) -> c_int {
    anytime::<A>("MPI_Abi_set_fortran_booleans", || {
        let size = check_size(logical_size)?;
        let values = (logical_true.place().list(size)?, logical_false.place().list(size)?);
        let mut fortran = fortran();
        if fortran.booleans.contains_key(&logical_size) {
            return fail(ErrorClass::Abi, "Fortran's booleans of this size are known already");
        }
        fortran.booleans.insert(logical_size, values);
        Ok(())
    })
}

/// `MPI_Abi_get_fortran_booleans`
pub fn abi_get_fortran_booleans<A: Abi>(
    logical_size: c_int,
    logical_true: BufMut,
    logical_false: BufMut,
    is_set: Ptr<c_int>,
) -> c_int {
    anytime::<A>("MPI_Abi_get_fortran_booleans", || {
        check_size(logical_size)?;
        let known = fortran().booleans.get(&logical_size).cloned();
        is_set.set(known.is_some().into())?;
        if let Some((yes, no)) = known {
            logical_true.place().set_list(yes)?;
            logical_false.place().set_list(no)?;
        }
        Ok(())
    })
}
