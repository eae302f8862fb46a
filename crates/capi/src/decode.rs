//! What a datatype was made of: envelopes and contents.
use crate::abi::Abi;
use crate::args::Ptr;
use crate::datatype::{bounds, narrow};
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run};
use crate::handles;
use mpi::ErrorClass;
use mpi::core::{Combiner, Contents, DEFAULT_BLOCK, Distribution, NOT_GIVEN, TypeId};
use std::ffi::c_int;

fn combiner<A: Abi>(combiner: Combiner) -> c_int {
    let value = match combiner {
        Combiner::Named => A::C.combiner_named,
        Combiner::Dup => A::C.combiner_dup,
        Combiner::Contiguous => A::C.combiner_contiguous,
        Combiner::Vector => A::C.combiner_vector,
        Combiner::Hvector => A::C.combiner_hvector,
        Combiner::Indexed => A::C.combiner_indexed,
        Combiner::Hindexed => A::C.combiner_hindexed,
        Combiner::IndexedBlock => A::C.combiner_indexed_block,
        Combiner::HindexedBlock => A::C.combiner_hindexed_block,
        Combiner::Struct => A::C.combiner_struct,
        Combiner::Subarray => A::C.combiner_subarray,
        Combiner::Darray => A::C.combiner_darray,
        Combiner::Resized => A::C.combiner_resized,
        Combiner::F90Real => A::C.combiner_f90_real,
        Combiner::F90Complex => A::C.combiner_f90_complex,
        Combiner::F90Integer => A::C.combiner_f90_integer,
    };
    value as c_int
}

/// `MPI_Type_get_envelope`
pub fn type_get_envelope<A: Abi>(
    datatype: A::Handle,
    num_integers: Ptr<c_int>,
    num_addresses: Ptr<c_int>,
    num_datatypes: Ptr<c_int>,
    combiner_out: Ptr<c_int>,
) -> c_int {
    bounds::<A>("MPI_Type_get_envelope", datatype, |call, ty| {
        let (how, [integers, addresses, types]) = call.type_envelope(ty)?;
        if call.type_is_large(ty)? {
            return fail(
                ErrorClass::Type,
                "made with large counts, which only MPI_Type_get_envelope_c can tell",
            );
        }
        num_integers.set(integers as c_int)?;
        num_addresses.set(addresses as c_int)?;
        num_datatypes.set(types as c_int)?;
        Ok(combiner_out.set(combiner::<A>(how))?)
    })
}

/// How a datatype was made, as the large-count functions tell it: integers, addresses, large counts.
struct Decoded {
    combiner: Combiner,
    integers: Vec<i64>,
    addresses: Vec<i64>,
    large_counts: Vec<i64>,
    types: Vec<TypeId>,
}

impl Decoded {
    /// All counts and displacements of a datatype that was made by a function with large counts are such
    /// (MPI-5 5.1.13).
    fn from(made: Contents) -> Decoded {
        let Contents { combiner, mut integers, mut addresses, types, large } = made;
        let mut large_counts = Vec::new();
        if large {
            // Of arrays, what cannot be large stays an integer.
            let large = match combiner {
                Combiner::Subarray => 1..integers.len() - 1,
                Combiner::Darray => 3..3 + integers[2] as usize,
                _ => 0..integers.len(),
            };
            large_counts = integers.drain(large).collect();
            large_counts.append(&mut addresses);
        }
        Decoded { combiner, integers, addresses, large_counts, types }
    }
}

/// `MPI_Type_get_envelope_c`
pub fn type_get_envelope_c<A: Abi>(
    datatype: A::Handle,
    num_integers: Ptr<i64>,
    num_addresses: Ptr<i64>,
    num_large_counts: Ptr<i64>,
    num_datatypes: Ptr<i64>,
    combiner_out: Ptr<c_int>,
) -> c_int {
    run::<A>("MPI_Type_get_envelope_c", On::WORLD, |call| {
        let ty = handles::datatype::<A>(datatype)?;
        let (how, ..) = call.type_envelope(ty)?;
        combiner_out.set(combiner::<A>(how))?;
        let lengths = if how == Combiner::Named {
            [0; 4]
        } else {
            let made = Decoded::from(call.type_contents(ty)?);
            give_back(call, &made.types)?;
            [made.integers.len(), made.addresses.len(), made.large_counts.len(), made.types.len()]
        };
        num_integers.set(lengths[0] as i64)?;
        num_addresses.set(lengths[1] as i64)?;
        num_large_counts.set(lengths[2] as i64)?;
        Ok(num_datatypes.set(lengths[3] as i64)?)
    })
}

/// Frees the references that looking at a datatype's contents made.
fn give_back<A: Abi>(call: &mut Call<A>, types: &[TypeId]) -> Outcome<()> {
    types.iter().filter(|ty| ty.0 >= TypeId::PREDEFINED).try_for_each(|ty| Ok(call.type_free(*ty)?))
}

/// The arguments that a datatype was made with; an error if there is not room for all.
fn contents<A: Abi>(call: &mut Call<A>, datatype: A::Handle, room: [i64; 4]) -> Outcome<Decoded> {
    let ty = handles::datatype::<A>(datatype)?;
    let (how, ..) = call.type_envelope(ty)?;
    if how == Combiner::Named {
        return fail(ErrorClass::Type, "a predefined datatype has no contents");
    }
    let made = Decoded::from(call.type_contents(ty)?);
    let needs = [made.integers.len(), made.addresses.len(), made.large_counts.len(), made.types.len()];
    if needs.iter().zip(room).any(|(need, room)| *need as i64 > room) {
        give_back(call, &made.types)?;
        return fail(ErrorClass::Arg, format!("there is room for {room:?}, the datatype has {needs:?}"));
    }
    Ok(made)
}

/// The integers, where some are constants of the interface.
fn integer_contents<A: Abi>(made: &Decoded) -> Outcome<Vec<c_int>> {
    let mut list = made.integers.clone();
    match made.combiner {
        Combiner::Subarray | Combiner::Darray => {
            if let Some(order) = list.last_mut() {
                *order = if *order == 0 { A::C.order_c } else { A::C.order_fortran };
            }
        }
        Combiner::F90Real | Combiner::F90Complex => {
            list.iter_mut().filter(|n| **n == NOT_GIVEN).for_each(|n| *n = A::C.undefined);
        }
        _ => {}
    }
    if made.combiner == Combiner::Darray {
        let dimensions = list[2] as usize;
        // The sizes stand before them, unless they are large.
        let first = if made.large_counts.is_empty() { 3 + dimensions } else { 3 };
        let (distributions, blocks) = list[first..].split_at_mut(dimensions);
        for code in distributions {
            *code = match Distribution::from_code(*code) {
                Some(Distribution::Block) => A::C.distribute_block,
                Some(Distribution::Cyclic) => A::C.distribute_cyclic,
                _ => A::C.distribute_none,
            };
        }
        let default = blocks[..dimensions].iter_mut().filter(|block| **block == DEFAULT_BLOCK);
        default.for_each(|block| *block = A::C.distribute_dflt_darg);
    }
    list.into_iter().map(narrow::<c_int>).collect()
}

/// `MPI_Type_get_contents`
pub fn type_get_contents<A: Abi>(
    datatype: A::Handle,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    integers: Ptr<c_int>,
    addresses: Ptr<i64>,
    types: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_get_contents", On::WORLD, |call| {
        let room = [max_integers.into(), max_addresses.into(), 0, max_datatypes.into()];
        if call.type_is_large(handles::datatype::<A>(datatype)?)? {
            return fail(
                ErrorClass::Type,
                "made with large counts, which only MPI_Type_get_contents_c can tell",
            );
        }
        let made = contents(call, datatype, room)?;
        integers.set_list(integer_contents::<A>(&made)?)?;
        addresses.set_list(made.addresses)?;
        Ok(types.set_list(made.types.into_iter().map(handles::of_type::<A>))?)
    })
}

/// `MPI_Type_get_contents_c`
#[allow(clippy::too_many_arguments)]
pub fn type_get_contents_c<A: Abi>(
    datatype: A::Handle,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    integers: Ptr<c_int>,
    addresses: Ptr<i64>,
    large_counts: Ptr<i64>,
    types: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_get_contents_c", On::WORLD, |call| {
        let room = [max_integers, max_addresses, max_large_counts, max_datatypes];
        let made = contents(call, datatype, room)?;
        integers.set_list(integer_contents::<A>(&made)?)?;
        addresses.set_list(made.addresses)?;
        large_counts.set_list(made.large_counts)?;
        Ok(types.set_list(made.types.into_iter().map(handles::of_type::<A>))?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mpich, Standard};

    fn given(combiner: Combiner, integers: &[i64], addresses: &[i64]) -> Contents {
        let (integers, addresses) = (integers.to_vec(), addresses.to_vec());
        Contents { combiner, integers, addresses, types: vec![TypeId::INT], large: false }
    }

    fn made(combiner: Combiner, integers: &[i64], addresses: &[i64]) -> Decoded {
        Decoded::from(given(combiner, integers, addresses))
    }

    fn made_large(combiner: Combiner, integers: &[i64], addresses: &[i64]) -> Decoded {
        Decoded::from(Contents { large: true, ..given(combiner, integers, addresses) })
    }

    #[test]
    fn small_datatypes_are_told_in_integers_and_addresses() {
        let small = made(Combiner::Hvector, &[3, 2], &[1 << 40]);
        assert_eq!((small.integers, small.addresses), (vec![3, 2], vec![1 << 40]));
        assert!(small.large_counts.is_empty());
    }

    #[test]
    fn large_datatypes_are_told_in_large_counts() {
        let big = made_large(Combiner::Hvector, &[33, 2], &[8]);
        assert_eq!(big.large_counts, [33, 2, 8]);
        assert!(big.integers.is_empty() && big.addresses.is_empty());
        let array = made_large(Combiner::Subarray, &[1, 1 << 33, 4, 0, 1], &[]);
        assert_eq!((array.integers, array.large_counts), (vec![1, 1], vec![1 << 33, 4, 0]));
        let dealt = made_large(Combiner::Darray, &[6, 5, 2, 1 << 33, 4, 1, 2, -1, 3, 2, 3, 0], &[]);
        assert_eq!(dealt.large_counts, [1 << 33, 4]);
        let standard = integer_contents::<Standard>(&dealt).unwrap_or_default();
        assert_eq!(standard, [6, 5, 2, 17, 18, 19, 3, 2, 3, 12], "constants are the interface's");
    }

    #[test]
    fn contents_of_distributed_arrays_have_the_constants_of_the_interface() {
        let dealt = made(Combiner::Darray, &[6, 5, 2, 9, 4, 1, 2, -1, 3, 2, 3, 1], &[]);
        let mpich = integer_contents::<Mpich>(&dealt).unwrap_or_default();
        assert_eq!(mpich, [6, 5, 2, 9, 4, 121, 122, -49767, 3, 2, 3, 57]);
        let real = made(Combiner::F90Real, &[-1, 30], &[]);
        assert_eq!(integer_contents::<Mpich>(&real).unwrap_or_default(), [-32766, 30]);
    }
}
