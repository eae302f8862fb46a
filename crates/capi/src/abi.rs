//! What differs between the two binary interfaces: how a handle is written, how a status is laid out, and the
//! value of every constant. All else is written once, generic over [`Abi`].
use crate::constants::Constants;
use mpi::core::TypeId;

/// The kinds of objects that handles name. The numbers are those of the MPICH encoding (bits 26 to 29).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Comm = 1,
    Group = 2,
    Datatype = 3,
    Errhandler = 5,
    Op = 6,
    Info = 7,
    Win = 8,
    Keyval = 9,
    Request = 11,
    Message = 12,
    Session = 14,
}

/// Dynamic handles have this many bits for the object's number.
pub const INDEX_BITS: u32 = 26;
/// The largest number of an object that a handle can carry.
pub const INDEX_MAX: u32 = (1 << INDEX_BITS) - 1;

/// One of the binary interfaces.
pub trait Abi: Sized + 'static {
    /// A handle as C passes it.
    type Handle: Copy + Eq + std::fmt::Debug;
    /// The caller's status.
    type Status: Copy;
    /// The values of the constants.
    const C: Constants;
    /// What `MPI_Abi_get_version` says.
    const VERSION: (i32, i32);

    /// `MPI_UNWEIGHTED` and `MPI_WEIGHTS_EMPTY`, as addresses.
    fn weight_marks() -> [usize; 2];
    /// The handle as a number, comparable with the constants.
    fn bits(handle: Self::Handle) -> i64;
    /// The handle of a constant.
    fn handle(bits: i64) -> Self::Handle;
    /// The handle of a dynamic object.
    fn dynamic(kind: Kind, index: u32) -> Self::Handle;
    /// The number of a dynamic object, if the handle names one of this kind.
    fn index(kind: Kind, handle: Self::Handle) -> Option<u32>;
    /// A predefined datatype.
    fn predefined_type(handle: Self::Handle) -> Option<TypeId>;
    /// The handle of a predefined datatype.
    fn predefined_handle(ty: TypeId) -> Self::Handle;

    /// An all-zero status.
    const ZERO_STATUS: Self::Status;
    /// Writes all fields but the error.
    fn fill_status(status: &mut Self::Status, fields: Fields);
    /// Reads all fields but the error.
    fn fields(status: &Self::Status) -> Fields;
    /// The error field.
    fn error_field(status: &mut Self::Status) -> &mut i32;
}

/// What a status holds beside the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// `MPI_SOURCE`.
    pub source: i32,
    /// `MPI_TAG`.
    pub tag: i32,
    /// Bytes received.
    pub bytes: u64,
    /// Was it cancelled?
    pub cancelled: bool,
}

/// The type of counts: `int`, or `MPI_Count` in the large-count functions.
pub trait Count: Copy + 'static {
    /// Widens.
    fn wide(self) -> i64;
    /// Narrows, if it fits.
    fn narrow(value: i64) -> Option<Self>;
    /// Is this the large-count variant?
    const LARGE: bool;
}

impl Count for i32 {
    const LARGE: bool = false;
    #[inline(always)]
    fn wide(self) -> i64 {
        self.into()
    }
    #[inline(always)]
    fn narrow(value: i64) -> Option<i32> {
        value.try_into().ok()
    }
}

impl Count for i64 {
    const LARGE: bool = true;
    #[inline(always)]
    fn wide(self) -> i64 {
        self
    }
    #[inline(always)]
    fn narrow(value: i64) -> Option<i64> {
        Some(value)
    }
}
