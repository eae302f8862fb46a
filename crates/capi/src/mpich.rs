//! The MPICH ABI: a handle is a 32-bit integer, two bits of storage class (1 predefined, 2 dynamic), four
//! bits of kind, 26 bits of number. A predefined datatype carries its size in bits 8 to 15.
use crate::abi::{Abi, Fields, INDEX_MAX, Kind};
use crate::constants::{Constants, DATATYPES, MPICH};
use mpi::core::TypeId;

/// The interface of `libmpi.so.12`.
#[derive(Debug)]
pub struct Mpich;

/// `MPI_Status`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Status {
    count_lo: i32,
    count_hi_and_cancelled: i32,
    source: i32,
    tag: i32,
    error: i32,
}

const _: () = assert!(size_of::<Status>() == 20);

const DYNAMIC: u32 = 2 << 30;
const PREDEFINED_TYPE: u32 = 0x4c00_0000;
/// Predefined datatypes of two parts, numbered from 0 in the dynamic class.
const PAIR_TYPE: u32 = 0x8c00_0000;
/// Derived datatypes are numbered after the pairs.
const PAIRS: u32 = 16;

/// What `MPI_UNWEIGHTED` points to; only the address counts.
pub static UNWEIGHTED: i32 = 0;
/// What `MPI_WEIGHTS_EMPTY` points to; only the address counts.
pub static WEIGHTS_EMPTY: i32 = 0;

impl Abi for Mpich {
    type Handle = i32;
    type Status = Status;
    const C: Constants = MPICH;
    /// "Not the standard interface": mpi4py chooses by it.
    const VERSION: (i32, i32) = (-1, -1);

    fn weight_marks() -> [usize; 2] {
        [&raw const UNWEIGHTED, &raw const WEIGHTS_EMPTY].map(|mark| mark as usize)
    }

    #[inline(always)]
    fn bits(handle: i32) -> i64 {
        (handle as u32).into()
    }

    #[inline(always)]
    fn handle(bits: i64) -> i32 {
        bits as u32 as i32
    }

    #[inline(always)]
    fn dynamic(kind: Kind, index: u32) -> i32 {
        let index = if kind == Kind::Datatype { index + PAIRS } else { index };
        (DYNAMIC | (kind as u32) << 26 | index) as i32
    }

    #[inline(always)]
    fn index(kind: Kind, handle: i32) -> Option<u32> {
        let handle = handle as u32;
        if handle & !INDEX_MAX != DYNAMIC | (kind as u32) << 26 {
            return None;
        }
        let index = handle & INDEX_MAX;
        if kind == Kind::Datatype { index.checked_sub(PAIRS) } else { Some(index) }
    }

    #[inline(always)]
    fn predefined_type(handle: i32) -> Option<TypeId> {
        let handle = handle as u32;
        let row = BY_LOW_BYTE[(handle & 0x7f) as usize];
        if row.0 == handle {
            return Some(row.1);
        }
        let row = PAIR_TABLE.get((handle ^ PAIR_TYPE) as usize)?;
        (row.0 == handle).then_some(row.1)
    }

    fn predefined_handle(ty: TypeId) -> i32 {
        HANDLES[ty.index()] as i32
    }

    const ZERO_STATUS: Status =
        Status { count_lo: 0, count_hi_and_cancelled: 0, source: 0, tag: 0, error: 0 };

    #[inline(always)]
    fn fill_status(status: &mut Status, fields: Fields) {
        status.count_lo = fields.bytes as u32 as i32;
        status.count_hi_and_cancelled = ((fields.bytes >> 32) as i32) << 1 | i32::from(fields.cancelled);
        status.source = fields.source;
        status.tag = fields.tag;
    }

    #[inline(always)]
    fn fields(status: &Status) -> Fields {
        let high = (status.count_hi_and_cancelled as u32 >> 1) as u64;
        Fields {
            source: status.source,
            tag: status.tag,
            bytes: high << 32 | u64::from(status.count_lo as u32),
            cancelled: status.count_hi_and_cancelled & 1 != 0,
        }
    }

    #[inline(always)]
    fn error_field(status: &mut Status) -> &mut i32 {
        &mut status.error
    }
}

type Row = (u32, TypeId);

/// Predefined datatypes by the low seven bits of the handle, which are all different.
static BY_LOW_BYTE: [Row; 128] = {
    let mut table = [(0, TypeId::BYTE); 128];
    let mut i = 0;
    while i < DATATYPES.len() {
        if let (name, Some(handle), _) = DATATYPES[i] {
            let handle = handle as u32;
            if handle & 0xff00_0000 == PREDEFINED_TYPE
                && let Some(ty) = crate::types::by_name(name)
            {
                table[(handle & 0x7f) as usize] = (handle, ty);
            }
        }
        i += 1;
    }
    table
};

/// The pairs, by number.
static PAIR_TABLE: [Row; PAIRS as usize] = {
    let mut table = [(0, TypeId::BYTE); PAIRS as usize];
    let mut i = 0;
    while i < DATATYPES.len() {
        if let (name, Some(handle), _) = DATATYPES[i] {
            let handle = handle as u32;
            if handle & 0xff00_0000 == PAIR_TYPE
                && let Some(ty) = crate::types::by_name(name)
            {
                table[(handle & 0xf) as usize] = (handle, ty);
            }
        }
        i += 1;
    }
    table
};

/// Handles of the predefined datatypes.
static HANDLES: [u32; TypeId::PREDEFINED as usize] = {
    let mut table = [0; TypeId::PREDEFINED as usize];
    let mut i = 0;
    while i < DATATYPES.len() {
        if let (name, Some(handle), _) = DATATYPES[i]
            && let Some(ty) = crate::types::by_name(name)
        {
            table[ty.index()] = handle as u32;
        }
        i += 1;
    }
    table
};
