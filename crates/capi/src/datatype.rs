//! Datatypes: construction, inquiry, packing.
use crate::abi::{Abi, Count};
use crate::args::{self, Buf, BufMut, In, Ptr, Text, TextOut, not_negative, wide};
use crate::comm::{name_from, put_name};
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run};
use crate::{attr, handles};
use mpi::ErrorClass;
use mpi::core::{Combiner, Contents, Object, Order, TypeId};
use std::ffi::c_int;

fn put<A: Abi>(out: Ptr<A::Handle>, ty: TypeId) -> Outcome<()> {
    Ok(out.set(handles::of_type::<A>(ty))?)
}

fn length(count: impl Count) -> Outcome<usize> {
    Ok(not_negative(count.wide())? as usize)
}

fn narrow<C: Count>(value: i64) -> Outcome<C> {
    match C::narrow(value) {
        Some(value) => Ok(value),
        None => fail(ErrorClass::ValueTooLarge, format!("{value} does not fit in an int")),
    }
}

/// A size or length for the caller; `MPI_UNDEFINED` if it does not fit (MPI-5 5.1.5).
fn or_undefined<A: Abi, C: Count>(value: i64) -> C {
    C::narrow(value).or_else(|| C::narrow(A::C.undefined)).expect("MPI_UNDEFINED fits in an int")
}

/// `MPI_Type_contiguous`
pub fn type_contiguous<A: Abi, C: Count>(count: C, oldtype: A::Handle, newtype: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Type_contiguous", On::WORLD, |call| {
        let ty = call.type_contiguous(not_negative(count.wide())?, handles::datatype::<A>(oldtype)?)?;
        put::<A>(newtype, ty)
    })
}

/// `MPI_Type_vector`
pub fn type_vector<A: Abi, C: Count>(
    count: C,
    blocklength: C,
    stride: C,
    oldtype: A::Handle,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_vector", On::WORLD, |call| {
        let old = handles::datatype::<A>(oldtype)?;
        let (count, block) = (not_negative(count.wide())?, not_negative(blocklength.wide())?);
        let ty = call.type_vector(count, block, stride.wide(), old)?;
        put::<A>(newtype, ty)
    })
}

fn hvector<A: Abi>(
    call: &mut Call<A>,
    count: i64,
    block: i64,
    stride: i64,
    oldtype: A::Handle,
    newtype: Ptr<A::Handle>,
) -> Outcome<()> {
    let old = handles::datatype::<A>(oldtype)?;
    let ty = call.type_hvector(not_negative(count)?, not_negative(block)?, stride, old)?;
    put::<A>(newtype, ty)
}

/// `MPI_Type_create_hvector`
pub fn type_create_hvector<A: Abi, C: Count>(
    count: C,
    blocklength: C,
    stride: i64,
    oldtype: A::Handle,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_create_hvector", On::WORLD, |call| {
        hvector(call, count.wide(), blocklength.wide(), stride, oldtype, newtype)
    })
}

/// `MPI_Type_hvector`
pub fn type_hvector<A: Abi>(
    count: c_int,
    blocklength: c_int,
    stride: i64,
    oldtype: A::Handle,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_hvector", On::WORLD, |call| {
        hvector(call, count.into(), blocklength.into(), stride, oldtype, newtype)
    })
}

/// `MPI_Type_indexed`
pub fn type_indexed<A: Abi, C: Count>(
    count: C,
    blocklengths: In<C>,
    displacements: In<C>,
    oldtype: A::Handle,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_indexed", On::WORLD, |call| {
        let n = length(count)?;
        let (blocks, displs) = (wide(blocklengths, n)?, wide(displacements, n)?);
        let ty = call.type_indexed(&blocks, &displs, handles::datatype::<A>(oldtype)?)?;
        put::<A>(newtype, ty)
    })
}

/// `MPI_Type_create_hindexed`
pub fn type_create_hindexed<A: Abi, C: Count>(
    count: C,
    blocklengths: In<C>,
    displacements: In<i64>,
    oldtype: A::Handle,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_create_hindexed", On::WORLD, |call| {
        let n = length(count)?;
        let (blocks, displs) = (wide(blocklengths, n)?, displacements.list(n)?);
        let ty = call.type_hindexed(&blocks, &displs, handles::datatype::<A>(oldtype)?)?;
        put::<A>(newtype, ty)
    })
}

/// `MPI_Type_hindexed`
pub fn type_hindexed<A: Abi>(
    count: c_int,
    blocklengths: Ptr<c_int>,
    displacements: Ptr<i64>,
    oldtype: A::Handle,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_hindexed", On::WORLD, |call| {
        let n = length(count)?;
        let blocks: Vec<i64> = blocklengths.list(n)?.into_iter().map(i64::from).collect();
        let ty = call.type_hindexed(&blocks, &displacements.list(n)?, handles::datatype::<A>(oldtype)?)?;
        put::<A>(newtype, ty)
    })
}

/// `MPI_Type_create_indexed_block`
pub fn type_create_indexed_block<A: Abi, C: Count>(
    count: C,
    blocklength: C,
    displacements: In<C>,
    oldtype: A::Handle,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_create_indexed_block", On::WORLD, |call| {
        let displs = wide(displacements, length(count)?)?;
        let block = not_negative(blocklength.wide())?;
        let ty = call.type_indexed_block(block, &displs, handles::datatype::<A>(oldtype)?)?;
        put::<A>(newtype, ty)
    })
}

/// `MPI_Type_create_hindexed_block`
pub fn type_create_hindexed_block<A: Abi, C: Count>(
    count: C,
    blocklength: C,
    displacements: In<i64>,
    oldtype: A::Handle,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_create_hindexed_block", On::WORLD, |call| {
        let displs = displacements.list(length(count)?)?;
        let block = not_negative(blocklength.wide())?;
        let ty = call.type_hindexed_block(block, &displs, handles::datatype::<A>(oldtype)?)?;
        put::<A>(newtype, ty)
    })
}

fn structure<A: Abi>(
    call: &mut Call<A>,
    blocks: &[i64],
    displs: &[i64],
    types: Vec<A::Handle>,
    newtype: Ptr<A::Handle>,
) -> Outcome<()> {
    let types = types.into_iter().map(handles::datatype::<A>).collect::<mpi::Result<Vec<_>>>()?;
    let ty = call.type_struct(blocks, displs, &types)?;
    put::<A>(newtype, ty)
}

/// `MPI_Type_create_struct`
pub fn type_create_struct<A: Abi, C: Count>(
    count: C,
    blocklengths: In<C>,
    displacements: In<i64>,
    types: In<A::Handle>,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_create_struct", On::WORLD, |call| {
        let n = length(count)?;
        structure(call, &wide(blocklengths, n)?, &displacements.list(n)?, types.list(n)?, newtype)
    })
}

/// `MPI_Type_struct`
pub fn type_struct<A: Abi>(
    count: c_int,
    blocklengths: Ptr<c_int>,
    displacements: Ptr<i64>,
    types: Ptr<A::Handle>,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_struct", On::WORLD, |call| {
        let n = length(count)?;
        let blocks: Vec<i64> = blocklengths.list(n)?.into_iter().map(i64::from).collect();
        structure(call, &blocks, &displacements.list(n)?, types.list(n)?, newtype)
    })
}

/// `MPI_Type_create_subarray`
pub fn type_create_subarray<A: Abi, C: Count>(
    ndims: c_int,
    sizes: In<C>,
    subsizes: In<C>,
    starts: In<C>,
    order: c_int,
    oldtype: A::Handle,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_create_subarray", On::WORLD, |call| {
        let n = length(ndims)?;
        let order = match i64::from(order) {
            o if o == A::C.order_c => Order::C,
            o if o == A::C.order_fortran => Order::Fortran,
            other => return fail(ErrorClass::Arg, format!("{other} is not a storage order")),
        };
        let (sizes, subsizes, starts) = (wide(sizes, n)?, wide(subsizes, n)?, wide(starts, n)?);
        let ty = call.type_subarray(&sizes, &subsizes, &starts, order, handles::datatype::<A>(oldtype)?)?;
        put::<A>(newtype, ty)
    })
}

/// `MPI_Type_create_resized`
pub fn type_create_resized<A: Abi, C: Count>(
    oldtype: A::Handle,
    lb: i64,
    extent: i64,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_create_resized", On::WORLD, |call| {
        let ty = call.type_resized(handles::datatype::<A>(oldtype)?, lb, extent)?;
        put::<A>(newtype, ty)
    })
}

/// `MPI_Type_dup`
pub fn type_dup<A: Abi>(oldtype: A::Handle, newtype: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Type_dup", On::WORLD, |call| {
        let old = handles::datatype::<A>(oldtype)?;
        let new = call.type_dup(old)?;
        if let Err(failure) = attr::copy_all(call, Object::Type(old), Object::Type(new)) {
            call.type_free(new)?;
            newtype.set(A::handle(A::C.datatype_null))?;
            return Err(failure);
        }
        put::<A>(newtype, new)
    })
}

/// `MPI_Type_commit`
pub fn type_commit<A: Abi>(datatype: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Type_commit", On::WORLD, |call| {
        Ok(call.type_commit(handles::datatype::<A>(datatype.get()?)?)?)
    })
}

/// `MPI_Type_free`
pub fn type_free<A: Abi>(datatype: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Type_free", On::WORLD, |call| {
        let ty = handles::datatype::<A>(datatype.get()?)?;
        if ty.0 < TypeId::PREDEFINED {
            return fail(ErrorClass::Type, "a predefined datatype cannot be freed");
        }
        attr::delete_all(call, Object::Type(ty))?;
        call.type_free(ty)?;
        Ok(datatype.set(A::handle(A::C.datatype_null))?)
    })
}

/// `MPI_Type_size`
pub fn type_size<A: Abi, C: Count>(datatype: A::Handle, size: Ptr<C>) -> c_int {
    run::<A>("MPI_Type_size", On::WORLD, |call| {
        let bytes = call.type_size(handles::datatype::<A>(datatype)?)? as i64;
        Ok(size.set(or_undefined::<A, C>(bytes))?)
    })
}

/// `MPI_Type_size_x`
pub fn type_size_x<A: Abi>(datatype: A::Handle, size: Ptr<i64>) -> c_int {
    type_size::<A, i64>(datatype, size)
}

fn bounds<A: Abi>(
    name: &'static str,
    datatype: A::Handle,
    f: impl FnOnce(&Call<A>, TypeId) -> Outcome<()>,
) -> c_int {
    run::<A>(name, On::WORLD, |call| f(call, handles::datatype::<A>(datatype)?))
}

macro_rules! extents {
    ($($name:ident $mpi:literal $ask:ident $(<$c:ident>)?),*) => {$(
        #[doc = concat!("`", $mpi, "`")]
        pub fn $name<A: Abi $(, $c: Count)?>(datatype: A::Handle, lb: Ptr<i64>, extent: Ptr<i64>) -> c_int {
            bounds::<A>($mpi, datatype, |call, ty| {
                let (low, length) = call.$ask(ty)?;
                lb.set(low)?;
                Ok(extent.set(length)?)
            })
        }
    )*};
}

extents! {
    type_get_extent "MPI_Type_get_extent" type_extent <C>,
    type_get_extent_x "MPI_Type_get_extent_x" type_extent,
    type_get_true_extent "MPI_Type_get_true_extent" type_true_extent <C>,
    type_get_true_extent_x "MPI_Type_get_true_extent_x" type_true_extent
}

/// `MPI_Type_extent`
pub fn type_extent<A: Abi>(datatype: A::Handle, extent: Ptr<i64>) -> c_int {
    bounds::<A>("MPI_Type_extent", datatype, |call, ty| Ok(extent.set(call.type_extent(ty)?.1)?))
}

/// `MPI_Type_lb`
pub fn type_lb<A: Abi>(datatype: A::Handle, displacement: Ptr<i64>) -> c_int {
    bounds::<A>("MPI_Type_lb", datatype, |call, ty| Ok(displacement.set(call.type_extent(ty)?.0)?))
}

/// `MPI_Type_ub`
pub fn type_ub<A: Abi>(datatype: A::Handle, displacement: Ptr<i64>) -> c_int {
    bounds::<A>("MPI_Type_ub", datatype, |call, ty| {
        let (lb, extent) = call.type_extent(ty)?;
        Ok(displacement.set(lb + extent)?)
    })
}

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
        let (how, integers, addresses, types) = call.type_envelope(ty)?;
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
    /// A datatype whose numbers fit in an `int` is told as if it had been made with `int` counts; of any other
    /// all counts and displacements are large counts (MPI-5 5.1.13).
    fn from(made: Contents) -> Decoded {
        let Contents { combiner, mut integers, mut addresses, types } = made;
        let mut large_counts = Vec::new();
        if integers.iter().any(|n| c_int::try_from(*n).is_err()) {
            // Dimensions and storage order of an array stay integers.
            let kept = if combiner == Combiner::Subarray { vec![integers.remove(0)] } else { Vec::new() };
            let order = if combiner == Combiner::Subarray { integers.pop() } else { None };
            large_counts = std::mem::take(&mut integers);
            large_counts.append(&mut addresses);
            integers = kept.into_iter().chain(order).collect();
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

/// The integers, where the storage order of arrays is a constant of the interface.
fn integer_contents<A: Abi>(made: &Decoded) -> Outcome<Vec<c_int>> {
    let mut list = made.integers.clone();
    if matches!(made.combiner, Combiner::Subarray | Combiner::Darray)
        && let Some(order) = list.last_mut()
    {
        *order = if *order == 0 { A::C.order_c } else { A::C.order_fortran };
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

/// `MPI_Type_get_name`
pub fn type_get_name<A: Abi>(datatype: A::Handle, type_name: TextOut, resultlen: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Type_get_name", On::WORLD, |call| {
        if A::bits(datatype) == A::C.datatype_null {
            return put_name::<A>("MPI_DATATYPE_NULL", type_name, resultlen);
        }
        put_name::<A>(&call.type_name(handles::datatype::<A>(datatype)?)?, type_name, resultlen)
    })
}

/// `MPI_Type_set_name`
pub fn type_set_name<A: Abi>(datatype: A::Handle, type_name: Text) -> c_int {
    run::<A>("MPI_Type_set_name", On::WORLD, |call| {
        Ok(call.type_set_name(handles::datatype::<A>(datatype)?, &name_from::<A>(type_name)?)?)
    })
}

/// `MPI_Type_match_size`
pub fn type_match_size<A: Abi>(typeclass: c_int, size: c_int, datatype: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Type_match_size", On::WORLD, |_| {
        let class = i64::from(typeclass);
        let ty = match (class, size) {
            (c, 2) if c == A::C.typeclass_real => TypeId::REAL2,
            (c, 4) if c == A::C.typeclass_real => TypeId::REAL4,
            (c, 8) if c == A::C.typeclass_real => TypeId::REAL8,
            (c, 16) if c == A::C.typeclass_real => TypeId::REAL16,
            (c, 1) if c == A::C.typeclass_integer => TypeId::INTEGER1,
            (c, 2) if c == A::C.typeclass_integer => TypeId::INTEGER2,
            (c, 4) if c == A::C.typeclass_integer => TypeId::INTEGER4,
            (c, 8) if c == A::C.typeclass_integer => TypeId::INTEGER8,
            (c, 16) if c == A::C.typeclass_integer => TypeId::INTEGER16,
            (c, 4) if c == A::C.typeclass_complex => TypeId::COMPLEX4,
            (c, 8) if c == A::C.typeclass_complex => TypeId::COMPLEX8,
            (c, 16) if c == A::C.typeclass_complex => TypeId::COMPLEX16,
            (c, 32) if c == A::C.typeclass_complex => TypeId::COMPLEX32,
            _ => return fail(ErrorClass::Arg, format!("no datatype of class {class} has {size} bytes")),
        };
        put::<A>(datatype, ty)
    })
}

/// `MPI_Type_get_value_index`
pub fn type_get_value_index<A: Abi>(value: A::Handle, index: A::Handle, pair: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Type_get_value_index", On::WORLD, |_| {
        let ids = (handles::datatype::<A>(value)?, handles::datatype::<A>(index)?);
        let found = match ids {
            (TypeId::FLOAT, TypeId::INT) => TypeId::FLOAT_INT,
            (TypeId::DOUBLE, TypeId::INT) => TypeId::DOUBLE_INT,
            (TypeId::LONG, TypeId::INT) => TypeId::LONG_INT,
            (TypeId::INT, TypeId::INT) => TypeId::DATATYPE_2INT,
            (TypeId::SHORT, TypeId::INT) => TypeId::SHORT_INT,
            (TypeId::LONG_DOUBLE, TypeId::INT) => TypeId::LONG_DOUBLE_INT,
            (TypeId::REAL, TypeId::REAL) => TypeId::DATATYPE_2REAL,
            (TypeId::DOUBLE_PRECISION, TypeId::DOUBLE_PRECISION) => TypeId::DATATYPE_2DOUBLE_PRECISION,
            (TypeId::INTEGER, TypeId::INTEGER) => TypeId::DATATYPE_2INTEGER,
            _ => return Ok(pair.set(A::handle(A::C.datatype_null))?),
        };
        put::<A>(pair, found)
    })
}

/// `MPI_Get_address`
pub fn get_address<A: Abi>(location: Buf, address: Ptr<i64>) -> c_int {
    run::<A>("MPI_Get_address", On::WORLD, |_| Ok(address.set(location.addr() as i64)?))
}

/// `MPI_Address`
pub fn address<A: Abi>(location: BufMut, address: Ptr<i64>) -> c_int {
    run::<A>("MPI_Address", On::WORLD, |_| Ok(address.set(location.addr() as i64)?))
}

/// `MPI_Aint_add`
pub fn aint_add<A: Abi>(base: i64, disp: i64) -> i64 {
    base.wrapping_add(disp)
}

/// `MPI_Aint_diff`
pub fn aint_diff<A: Abi>(addr1: i64, addr2: i64) -> i64 {
    addr1.wrapping_sub(addr2)
}

/// `MPI_Pack_size`
pub fn pack_size<A: Abi, C: Count>(incount: C, datatype: A::Handle, comm: A::Handle, size: Ptr<C>) -> c_int {
    run::<A>("MPI_Pack_size", On::Comm(comm), |call| {
        handles::comm::<A>(comm)?;
        let bytes = call.pack_size(not_negative(incount.wide())?, handles::datatype::<A>(datatype)?)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn made(combiner: Combiner, integers: &[i64], addresses: &[i64]) -> Decoded {
        let (integers, addresses) = (integers.to_vec(), addresses.to_vec());
        Decoded::from(Contents { combiner, integers, addresses, types: vec![TypeId::INT] })
    }

    #[test]
    fn small_datatypes_are_told_in_integers_and_addresses() {
        let small = made(Combiner::Hvector, &[3, 2], &[1 << 40]);
        assert_eq!((small.integers, small.addresses), (vec![3, 2], vec![1 << 40]));
        assert!(small.large_counts.is_empty());
    }

    #[test]
    fn large_datatypes_are_told_in_large_counts() {
        let big = made(Combiner::Hvector, &[1 << 33, 2], &[8]);
        assert_eq!(big.large_counts, [1 << 33, 2, 8]);
        assert!(big.integers.is_empty() && big.addresses.is_empty());
        let array = made(Combiner::Subarray, &[1, 1 << 33, 4, 0, 1], &[]);
        assert_eq!((array.integers, array.large_counts), (vec![1, 1], vec![1 << 33, 4, 0]));
    }
}
