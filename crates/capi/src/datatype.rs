//! Datatypes: construction and inquiry. What they were made of is told in [`crate::decode`].
use crate::abi::{Abi, Count};
use crate::args::{Buf, BufMut, In, Ptr, Text, TextOut, not_negative, wide};
use crate::comm::{name_from, put_name};
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run};
use crate::{attr, handles};
use mpi::ErrorClass;
use mpi::core::{Dimension, Distributed, Distribution, F90, Object, Order, TypeId};
use std::ffi::c_int;

fn put<A: Abi>(out: Ptr<A::Handle>, ty: TypeId) -> Outcome<()> {
    Ok(out.set(handles::of_type::<A>(ty))?)
}

/// As [`put`], of a datatype that was made with counts of this type: its contents are told in the same. Where there is no
/// place for the handle there is no datatype either.
fn put_made<A: Abi, C: Count>(call: &mut Call<A>, out: Ptr<A::Handle>, ty: TypeId) -> Outcome<()> {
    if let Err(error) = out.check() {
        call.type_free(ty)?;
        return Err(error.into());
    }
    if C::LARGE {
        call.type_made_large(ty)?;
    }
    put::<A>(out, ty)
}

fn length(count: impl Count) -> Outcome<usize> {
    Ok(not_negative("count", count.wide())? as usize)
}

pub(crate) fn narrow<C: Count>(value: i64) -> Outcome<C> {
    match C::narrow(value) {
        Some(value) => Ok(value),
        None => fail(ErrorClass::ValueTooLarge, format!("{value} does not fit in an int")),
    }
}

/// A size or length for the caller; `MPI_UNDEFINED` if it does not fit (MPI-5 5.1.5).
pub(crate) fn or_undefined<A: Abi, C: Count>(value: i64) -> C {
    C::narrow(value).or_else(|| C::narrow(A::C.undefined)).expect("MPI_UNDEFINED fits in an int")
}

/// `MPI_Type_contiguous`
pub fn type_contiguous<A: Abi, C: Count>(count: C, oldtype: A::Handle, newtype: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Type_contiguous", On::WORLD, |call| {
        let ty =
            call.type_contiguous(not_negative("count", count.wide())?, handles::datatype::<A>(oldtype)?)?;
        put_made::<A, C>(call, newtype, ty)
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
        let (count, block) =
            (not_negative("count", count.wide())?, not_negative("blocklength", blocklength.wide())?);
        let ty = call.type_vector(count, block, stride.wide(), old)?;
        put_made::<A, C>(call, newtype, ty)
    })
}

fn hvector<A: Abi, C: Count>(
    call: &mut Call<A>,
    count: i64,
    block: i64,
    stride: i64,
    oldtype: A::Handle,
    newtype: Ptr<A::Handle>,
) -> Outcome<()> {
    let old = handles::datatype::<A>(oldtype)?;
    let ty =
        call.type_hvector(not_negative("count", count)?, not_negative("blocklength", block)?, stride, old)?;
    put_made::<A, C>(call, newtype, ty)
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
        hvector::<A, C>(call, count.wide(), blocklength.wide(), stride, oldtype, newtype)
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
        hvector::<A, c_int>(call, count.into(), blocklength.into(), stride, oldtype, newtype)
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
        put_made::<A, C>(call, newtype, ty)
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
        put_made::<A, C>(call, newtype, ty)
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
        put_made::<A, c_int>(call, newtype, ty)
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
        let block = not_negative("blocklength", blocklength.wide())?;
        let ty = call.type_indexed_block(block, &displs, handles::datatype::<A>(oldtype)?)?;
        put_made::<A, C>(call, newtype, ty)
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
        let block = not_negative("blocklength", blocklength.wide())?;
        let ty = call.type_hindexed_block(block, &displs, handles::datatype::<A>(oldtype)?)?;
        put_made::<A, C>(call, newtype, ty)
    })
}

fn structure<A: Abi, C: Count>(
    call: &mut Call<A>,
    blocks: &[i64],
    displs: &[i64],
    types: Vec<A::Handle>,
    newtype: Ptr<A::Handle>,
) -> Outcome<()> {
    let types = types.into_iter().map(handles::datatype::<A>).collect::<mpi::Result<Vec<_>>>()?;
    let ty = call.type_struct(blocks, displs, &types)?;
    put_made::<A, C>(call, newtype, ty)
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
        structure::<A, C>(call, &wide(blocklengths, n)?, &displacements.list(n)?, types.list(n)?, newtype)
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
        structure::<A, c_int>(call, &blocks, &displacements.list(n)?, types.list(n)?, newtype)
    })
}

fn storage_order<A: Abi>(order: c_int) -> Outcome<Order> {
    match i64::from(order) {
        o if o == A::C.order_c => Ok(Order::C),
        o if o == A::C.order_fortran => Ok(Order::Fortran),
        other => fail(ErrorClass::Arg, format!("{other} is not a storage order")),
    }
}

fn distribution<A: Abi>(constant: c_int) -> Outcome<Distribution> {
    match i64::from(constant) {
        c if c == A::C.distribute_none => Ok(Distribution::None),
        c if c == A::C.distribute_block => Ok(Distribution::Block),
        c if c == A::C.distribute_cyclic => Ok(Distribution::Cyclic),
        other => fail(ErrorClass::Arg, format!("{other} is not a distribution")),
    }
}

/// `MPI_Type_create_darray`
#[allow(clippy::too_many_arguments)] // they are the standard's
pub fn type_create_darray<A: Abi, C: Count>(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    gsizes: In<C>,
    distribs: In<c_int>,
    dargs: In<c_int>,
    psizes: In<c_int>,
    order: c_int,
    oldtype: A::Handle,
    newtype: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Type_create_darray", On::WORLD, |call| {
        let dimension = |i: usize| {
            let block = i64::from(dargs.at(i)?);
            Ok(Dimension {
                global: gsizes.at(i)?.wide(),
                distribution: distribution::<A>(distribs.at(i)?)?,
                block: (block != A::C.distribute_dflt_darg).then_some(block),
                processes: psizes.at(i)?.into(),
            })
        };
        let dimensions = (0..length(ndims)?).map(dimension).collect::<Outcome<Vec<_>>>()?;
        let (size, rank, order) = (size.into(), rank.into(), storage_order::<A>(order)?);
        let array = Distributed { size, rank, dimensions: &dimensions, order };
        let ty = call.type_darray(array, handles::datatype::<A>(oldtype)?)?;
        put_made::<A, C>(call, newtype, ty)
    })
}

/// A precision or range, which may be `MPI_UNDEFINED`.
fn given<A: Abi>(argument: c_int) -> Option<i64> {
    (i64::from(argument) != A::C.undefined).then_some(argument.into())
}

/// `MPI_Type_create_f90_real`
pub fn type_create_f90_real<A: Abi>(p: c_int, r: c_int, newtype: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Type_create_f90_real", On::WORLD, |call| {
        let ty = call.type_f90(F90::Real(given::<A>(p), given::<A>(r)))?;
        put::<A>(newtype, ty)
    })
}

/// `MPI_Type_create_f90_complex`
pub fn type_create_f90_complex<A: Abi>(p: c_int, r: c_int, newtype: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Type_create_f90_complex", On::WORLD, |call| {
        let ty = call.type_f90(F90::Complex(given::<A>(p), given::<A>(r)))?;
        put::<A>(newtype, ty)
    })
}

/// `MPI_Type_create_f90_integer`
pub fn type_create_f90_integer<A: Abi>(r: c_int, newtype: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Type_create_f90_integer", On::WORLD, |call| {
        let ty = call.type_f90(F90::Integer(r.into()))?;
        put::<A>(newtype, ty)
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
        let order = storage_order::<A>(order)?;
        let (sizes, subsizes, starts) = (wide(sizes, n)?, wide(subsizes, n)?, wide(starts, n)?);
        let ty = call.type_subarray(&sizes, &subsizes, &starts, order, handles::datatype::<A>(oldtype)?)?;
        put_made::<A, C>(call, newtype, ty)
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
        put_made::<A, C>(call, newtype, ty)
    })
}

/// `MPI_Type_dup`
pub fn type_dup<A: Abi>(oldtype: A::Handle, newtype: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Type_dup", On::WORLD, |call| {
        newtype.check()?;
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

pub(crate) fn bounds<A: Abi>(
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
