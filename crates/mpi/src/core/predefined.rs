//! The predefined datatypes: one table of names, sizes and what their bytes mean.
use super::ids::TypeId;

/// What the bytes of one element mean; decides which reductions are legal (MPI-5 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// C integers and multi-language integers.
    Integer,
    /// As `Integer`, of Fortran.
    FortranInteger,
    /// Floating point.
    Floating,
    /// A complex number.
    Complex,
    /// C or C++ truth values.
    Logical,
    /// Fortran truth values.
    FortranLogical,
    /// Uninterpreted bytes.
    Byte,
    /// Characters. The standard has no reductions of them; other implementations take them as integers of a byte.
    Character,
    /// A value and an index, for MINLOC and MAXLOC.
    Pair,
    /// No data: a bound of a datatype that holds it (MPI-1's `MPI_LB` and `MPI_UB`).
    Marker,
}

/// How one element is stored. Kernels of reductions are chosen by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Scalar {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    F16,
    /// The upper half of an `F32`.
    B16,
    F32,
    F64,
    /// x87, 80 bits in 16 bytes.
    F80,
    F128,
    C16,
    C32,
    C64,
    C80,
    C128,
    PairF32I32,
    PairF64I32,
    PairI64I32,
    PairI32I32,
    PairI16I32,
    PairF80I32,
    PairF32F32,
    PairF64F64,
    /// A lower bound: nothing is stored.
    Lower,
    /// An upper bound.
    Upper,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Predefined {
    /// Name, as `MPI_Type_get_name` gives it.
    pub name: &'static str,
    /// What the bytes mean.
    pub meaning: Meaning,
    /// How they are stored.
    pub scalar: Scalar,
}

impl Scalar {
    /// (bytes of data, bytes from one element to the next).
    pub const fn size_and_extent(self) -> (usize, usize) {
        use Scalar::*;
        match self {
            I8 | U8 => (1, 1),
            I16 | U16 | F16 | B16 => (2, 2),
            I32 | U32 | F32 | C16 => (4, 4),
            I64 | U64 | F64 | C32 => (8, 8),
            I128 | F80 | F128 | C64 => (16, 16),
            C80 | C128 => (32, 32),
            PairF32I32 | PairI32I32 | PairF32F32 => (8, 8),
            PairF64I32 | PairI64I32 => (12, 16),
            PairI16I32 => (6, 8),
            PairF80I32 => (20, 32),
            PairF64F64 => (16, 16),
            Lower | Upper => (0, 0),
        }
    }
}

macro_rules! predefined {
    ($($id:ident = $meaning:ident $scalar:ident),* $(,)?) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Order { $($id,)* END }

        /// The predefined datatypes.
        #[allow(missing_docs)]
        impl TypeId {
            $(pub const $id: TypeId = TypeId(Order::$id as u32);)*
            /// How many there are; derived datatypes are numbered from here.
            pub const PREDEFINED: u32 = Order::END as u32;
        }

        /// By `TypeId`.
        pub const TABLE: [Predefined; TypeId::PREDEFINED as usize] = [$(Predefined {
            name: concat!("MPI_", stringify!($id)),
            meaning: Meaning::$meaning,
            scalar: Scalar::$scalar,
        }),*];
    };
}

// `DATATYPE_2INT` and the like carry a prefix because a Rust name cannot start with a digit.
predefined! {
    CHAR = Character I8, SIGNED_CHAR = Integer I8, UNSIGNED_CHAR = Integer U8, BYTE = Byte U8,
    WCHAR = Character I32, SHORT = Integer I16, UNSIGNED_SHORT = Integer U16, INT = Integer I32,
    UNSIGNED = Integer U32, LONG = Integer I64, UNSIGNED_LONG = Integer U64, LONG_LONG_INT = Integer I64,
    UNSIGNED_LONG_LONG = Integer U64, FLOAT = Floating F32, DOUBLE = Floating F64, LONG_DOUBLE = Floating F80,
    PACKED = Byte U8,
    INT8_T = Integer I8, INT16_T = Integer I16, INT32_T = Integer I32, INT64_T = Integer I64,
    UINT8_T = Integer U8, UINT16_T = Integer U16, UINT32_T = Integer U32, UINT64_T = Integer U64,
    AINT = Integer I64, COUNT = Integer I64, OFFSET = Integer I64,
    C_BOOL = Logical U8, C_FLOAT_COMPLEX = Complex C32, C_DOUBLE_COMPLEX = Complex C64,
    C_LONG_DOUBLE_COMPLEX = Complex C80, CXX_BOOL = Logical U8, CXX_FLOAT_COMPLEX = Complex C32,
    CXX_DOUBLE_COMPLEX = Complex C64, CXX_LONG_DOUBLE_COMPLEX = Complex C80,
    FLOAT_INT = Pair PairF32I32, DOUBLE_INT = Pair PairF64I32, LONG_INT = Pair PairI64I32,
    DATATYPE_2INT = Pair PairI32I32, SHORT_INT = Pair PairI16I32, LONG_DOUBLE_INT = Pair PairF80I32,
    CHARACTER = Character I8, LOGICAL = FortranLogical I32, INTEGER = FortranInteger I32, REAL = Floating F32,
    DOUBLE_PRECISION = Floating F64, COMPLEX = Complex C32, DOUBLE_COMPLEX = Complex C64,
    DATATYPE_2REAL = Pair PairF32F32, DATATYPE_2DOUBLE_PRECISION = Pair PairF64F64,
    DATATYPE_2INTEGER = Pair PairI32I32,
    INTEGER1 = FortranInteger I8, INTEGER2 = FortranInteger I16, INTEGER4 = FortranInteger I32,
    INTEGER8 = FortranInteger I64, INTEGER16 = FortranInteger I128,
    REAL2 = Floating F16, REAL4 = Floating F32, REAL8 = Floating F64, REAL16 = Floating F128,
    COMPLEX4 = Complex C16, COMPLEX8 = Complex C32, COMPLEX16 = Complex C64, COMPLEX32 = Complex C128,
    LOGICAL1 = FortranLogical I8, LOGICAL2 = FortranLogical I16, LOGICAL4 = FortranLogical I32,
    LOGICAL8 = FortranLogical I64, LOGICAL16 = FortranLogical I128,
    C_FLOAT16 = Floating F16, BFLOAT16 = Floating B16,
    LB = Marker Lower, UB = Marker Upper,
}

/// The name of a predefined datatype. Some Rust constants carry a prefix, and one has the longer of two names.
pub fn name_of(ty: TypeId) -> Option<String> {
    if ty == TypeId::C_FLOAT_COMPLEX {
        return Some("MPI_C_COMPLEX".into());
    }
    if ty == TypeId::C_FLOAT16 || ty == TypeId::BFLOAT16 {
        // No types of the standard, and called so.
        return TABLE.get(ty.index()).map(|row| row.name.replace("MPI_", "MPIX_"));
    }
    TABLE.get(ty.index()).map(|row| row.name.replace("DATATYPE_", ""))
}
