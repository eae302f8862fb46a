//! The MPI 5 standard ABI: a handle is a pointer that nobody follows. Predefined ones are numbers below 4096;
//! dynamic ones are ours, and fit in 31 bits so that `MPI_Comm_toint` and its family are the identity.
use crate::abi::{Abi, Fields, INDEX_MAX, Kind};
use crate::constants::{Constants, DATATYPES, STANDARD};
use mpi::core::TypeId;

/// The interface of `libmpi_abi.so.1`.
#[derive(Debug)]
pub struct Standard;

/// `MPI_Status`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Status {
    source: i32,
    tag: i32,
    error: i32,
    /// Bytes (low, high) and whether the operation was cancelled.
    internal: [i32; 5],
}

const _: () = assert!(size_of::<Status>() == 32);

const DYNAMIC: usize = 1 << 30;
/// Predefined datatypes are numbered from here, in 512 places.
const TYPES: usize = 0x200;

impl Abi for Standard {
    type Handle = usize;
    type Status = Status;
    const C: Constants = STANDARD;
    const VERSION: (i32, i32) = (1, 0);

    fn weight_marks() -> [usize; 2] {
        [10, 11]
    }

    #[inline(always)]
    fn bits(handle: usize) -> i64 {
        handle as i64
    }

    #[inline(always)]
    fn handle(bits: i64) -> usize {
        bits as usize
    }

    #[inline(always)]
    fn dynamic(kind: Kind, index: u32) -> usize {
        DYNAMIC | (kind as usize) << 26 | index as usize
    }

    #[inline(always)]
    fn index(kind: Kind, handle: usize) -> Option<u32> {
        let index = (handle & INDEX_MAX as usize) as u32;
        (handle - index as usize == DYNAMIC | (kind as usize) << 26).then_some(index)
    }

    #[inline(always)]
    fn predefined_type(handle: usize) -> Option<TypeId> {
        *BY_HANDLE.get(handle.wrapping_sub(TYPES))?
    }

    fn predefined_handle(ty: TypeId) -> usize {
        HANDLES[ty.index()]
    }

    const ZERO_STATUS: Status = Status { source: 0, tag: 0, error: 0, internal: [0; 5] };

    #[inline(always)]
    fn fill_status(status: &mut Status, fields: Fields) {
        status.source = fields.source;
        status.tag = fields.tag;
        status.internal =
            [fields.bytes as u32 as i32, (fields.bytes >> 32) as i32, i32::from(fields.cancelled), 0, 0];
    }

    #[inline(always)]
    fn fields(status: &Status) -> Fields {
        let [low, high, cancelled, ..] = status.internal;
        Fields {
            source: status.source,
            tag: status.tag,
            bytes: u64::from(high as u32) << 32 | u64::from(low as u32),
            cancelled: cancelled != 0,
        }
    }

    #[inline(always)]
    fn error_field(status: &mut Status) -> &mut i32 {
        &mut status.error
    }
}

/// Predefined datatypes by handle.
static BY_HANDLE: [Option<TypeId>; 512] = {
    let mut table = [None; 512];
    let mut i = 0;
    while i < DATATYPES.len() {
        if let (name, _, Some(handle)) = DATATYPES[i] {
            table[handle - TYPES] = crate::types::by_name(name);
        }
        i += 1;
    }
    table
};

/// Handles of the predefined datatypes.
static HANDLES: [usize; TypeId::PREDEFINED as usize] = {
    let mut table = [0; TypeId::PREDEFINED as usize];
    let mut i = 0;
    while i < DATATYPES.len() {
        if let (name, _, Some(handle)) = DATATYPES[i]
            && let Some(ty) = crate::types::by_name(name)
        {
            table[ty.index()] = handle;
        }
        i += 1;
    }
    table
};
