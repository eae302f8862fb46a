//! Single values, read-modify-write, and copies inside a process.
use super::*;
use mpi::ErrorClass;
use pgas::core::Rmw;

macro_rules! values {
    ($($put:ident $nb:ident $get:ident $ty:ty: $put_name:literal $nb_name:literal $get_name:literal),*) => {$(
        pub(super) extern "C" fn $put<A: Abi>(value: $ty, dst: BufMut, rank: c_int) -> c_int {
            with::<A, _>($put_name, |session, driver| {
                put_value(session, driver, $put_name, &value, dst.addr(), rank)
            });
            0
        }

        /// Has been sent when it returns, so that nothing is left for the handle.
        pub(super) extern "C" fn $nb<A: Abi>(value: $ty, dst: BufMut, rank: c_int, handle: Ptr<Handle>) -> c_int {
            with::<A, _>($nb_name, |session, driver| {
                of_handle(session, handle)?;
                put_value(session, driver, $nb_name, &value, dst.addr(), rank)
            });
            0
        }

        pub(super) extern "C" fn $get<A: Abi>(src: BufMut, rank: c_int) -> $ty {
            with::<A, _>($get_name, |session, driver| get_value(session, driver, src.addr(), rank))
        }
    )*};
}
values!(
    put_value_int nb_put_value_int get_value_int c_int:
        "ARMCI_PutValueInt" "ARMCI_NbPutValueInt" "ARMCI_GetValueInt",
    put_value_long nb_put_value_long get_value_long c_long:
        "ARMCI_PutValueLong" "ARMCI_NbPutValueLong" "ARMCI_GetValueLong",
    put_value_float nb_put_value_float get_value_float f32:
        "ARMCI_PutValueFloat" "ARMCI_NbPutValueFloat" "ARMCI_GetValueFloat",
    put_value_double nb_put_value_double get_value_double f64:
        "ARMCI_PutValueDouble" "ARMCI_NbPutValueDouble" "ARMCI_GetValueDouble"
);

/// The old value comes to `local`, where a swap finds the new one. What is added is an `int` also where longs are.
pub(super) extern "C" fn rmw<A: Abi>(
    op: c_int,
    local: BufMut,
    remote: BufMut,
    value: c_int,
    rank: c_int,
) -> c_int {
    with::<A, _>("ARMCI_Rmw", |session, driver| {
        let what = match op {
            10 => Rmw::Swap32(local.place().get()?),
            11 => Rmw::Swap64(local.place().get()?),
            12 => Rmw::Add32(value),
            13 => Rmw::Add64(value.into()),
            _ => {
                let text = format!("{op} is not an operation (ARMCI_FETCH_AND_ADD, ...)");
                return Err(MpiError::new(ErrorClass::Op, text));
            }
        };
        let place = session.core.locate(process(rank), remote.addr())?;
        let old = session.core.rmw(driver, what, place)?;
        match what {
            Rmw::Swap32(_) | Rmw::Add32(_) => local.place::<c_int>().set(old as c_int),
            Rmw::Swap64(_) | Rmw::Add64(_) => local.place::<c_long>().set(old),
        }
    });
    0
}

pub(super) extern "C" fn copy<A: Abi>(src: BufMut, dst: BufMut, bytes: c_int) {
    crate::args::move_bytes(src, dst, usize::try_from(bytes).unwrap_or(0));
}

/// Visits the rows of an array, in order.
fn rows(
    levels: c_int,
    strides: Ptr<c_int>,
    counts: Ptr<c_int>,
    mut row: impl FnMut(isize, usize),
) -> Result<()> {
    let levels = usize::try_from(levels).unwrap_or(0);
    let strides = if levels > 0 { strides.list(levels)? } else { Vec::new() };
    let counts = counts.list(levels + 1)?;
    let bytes = usize::try_from(counts[0]).unwrap_or(0);
    if counts.iter().any(|count| *count <= 0) {
        return Ok(());
    }
    let mut at = vec![0; levels];
    loop {
        let distance: i64 =
            at.iter().zip(&strides).map(|(at, stride)| i64::from(*at) * i64::from(*stride)).sum();
        row(distance as isize, bytes);
        let Some(level) = (0..levels).find(|level| at[*level] + 1 < counts[*level + 1]) else {
            return Ok(());
        };
        at[level] += 1;
        at[..level].fill(0);
    }
}

pub(super) extern "C" fn write_strided<A: Abi>(
    array: BufMut,
    levels: c_int,
    strides: Ptr<c_int>,
    counts: Ptr<c_int>,
    packed: BufMut,
) {
    with::<A, _>("armci_write_strided", |_, _| {
        let mut at = 0;
        rows(levels, strides, counts, |distance, bytes| {
            crate::args::move_bytes(array.offset(distance), packed.offset(at), bytes);
            at += bytes as isize;
        })
    })
}

pub(super) extern "C" fn read_strided<A: Abi>(
    array: BufMut,
    levels: c_int,
    strides: Ptr<c_int>,
    counts: Ptr<c_int>,
    packed: BufMut,
) {
    with::<A, _>("armci_read_strided", |_, _| {
        let mut at = 0;
        rows(levels, strides, counts, |distance, bytes| {
            crate::args::move_bytes(packed.offset(at), array.offset(distance), bytes);
            at += bytes as isize;
        })
    })
}
