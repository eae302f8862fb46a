//! The predefined reductions, element by element. Which operation is legal on what is MPI-5 6.9.2.
use super::OpId;
use super::predefined::{Meaning, Scalar};
use crate::buffer::{Brain, Extended, Half, Pair, Plain, Quad, combine, combine_packed};
use net::{UserBuf, UserBufMut};

/// target = source op target, for all elements.
pub(super) type Kernel = fn(UserBuf, UserBufMut);

/// The kernel of an operation on a datatype; `None` if the combination is illegal or not supported.
pub(super) fn kernel(op: OpId, meaning: Meaning, scalar: Scalar) -> Option<Kernel> {
    use Meaning::*;
    // The standard leaves characters out. Others take those of one byte as integers, and programs rely on it.
    let meaning = if (meaning, scalar) == (Character, Scalar::I8) { Integer } else { meaning };
    let number = matches!(meaning, Integer | FortranInteger | Floating);
    let whole = matches!(meaning, Integer | FortranInteger);
    match op {
        OpId::MAX | OpId::MIN if number => ordered(op, scalar),
        OpId::SUM | OpId::PROD if number => arithmetic(op, scalar),
        OpId::SUM | OpId::PROD if meaning == Complex => complex(op, scalar),
        OpId::LAND | OpId::LOR | OpId::LXOR if matches!(meaning, Integer | Logical | FortranLogical) => {
            logical(op, scalar)
        }
        OpId::BAND | OpId::BOR | OpId::BXOR if whole || meaning == Byte => bitwise(op, scalar),
        OpId::MINLOC | OpId::MAXLOC if meaning == Pair_ => located(op, scalar),
        OpId::REPLACE => Some(replace),
        OpId::NO_OP => Some(|_, _| {}),
        _ => None,
    }
}

/// As [`kernel`], of elements without the gaps that they have in memory.
pub(super) fn packed_kernel(op: OpId, meaning: Meaning, scalar: Scalar) -> Option<Kernel> {
    match op {
        OpId::MINLOC | OpId::MAXLOC if meaning == Pair_ => located_packed(op, scalar),
        _ => kernel(op, meaning, scalar),
    }
}

// `Meaning::Pair` under a name that does not hide the struct.
use Meaning::Pair as Pair_;

macro_rules! each {
    ($scalar:expr, $f:expr; $($variant:ident: $ty:ty),*) => {
        match $scalar {
            $(Scalar::$variant => Some(|source, target| combine::<$ty>(source, target, $f)),)*
            _ => None,
        }
    };
}

macro_rules! integers {
    ($scalar:expr, $f:expr) => {
        each!($scalar, $f; I8: i8, I16: i16, I32: i32, I64: i64, I128: i128, U8: u8, U16: u16, U32: u32, U64: u64)
    };
}

macro_rules! floats {
    ($scalar:expr, $f:expr) => { each!($scalar, $f; F16: Half, B16: Brain, F32: f32, F64: f64, F80: Extended, F128: Quad) };
}

macro_rules! numbers {
    ($scalar:expr, $f:expr) => {
        each!($scalar, $f; I8: i8, I16: i16, I32: i32, I64: i64, I128: i128, U8: u8, U16: u16, U32: u32, U64: u64,
            F16: Half, B16: Brain, F32: f32, F64: f64, F80: Extended, F128: Quad)
    };
}

macro_rules! complexes {
    ($scalar:expr, $f:expr) => {
        each!($scalar, $f; C16: [Half; 2], C32: [f32; 2], C64: [f64; 2], C80: [Extended; 2], C128: [Quad; 2])
    };
}

fn ordered(op: OpId, scalar: Scalar) -> Option<Kernel> {
    // Written so that a number beats a NaN only if it stands on the right, as the usual comparison does.
    match op {
        OpId::MAX => numbers!(scalar, |a, b| if a > b { a } else { b }),
        _ => numbers!(scalar, |a, b| if a < b { a } else { b }),
    }
}

fn arithmetic(op: OpId, scalar: Scalar) -> Option<Kernel> {
    match (op, integer(scalar)) {
        (OpId::SUM, true) => integers!(scalar, |a, b| a.wrapping_add(b)),
        (OpId::SUM, false) => floats!(scalar, |a, b| a + b),
        (_, true) => integers!(scalar, |a, b| a.wrapping_mul(b)),
        (_, false) => floats!(scalar, |a, b| a * b),
    }
}

fn integer(scalar: Scalar) -> bool {
    let kernel: Option<Kernel> = integers!(scalar, |a, _| a);
    kernel.is_some()
}

fn complex(op: OpId, scalar: Scalar) -> Option<Kernel> {
    match op {
        OpId::SUM => complexes!(scalar, |a, b| [a[0] + b[0], a[1] + b[1]]),
        _ => complexes!(scalar, |a, b| [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]),
    }
}

fn logical(op: OpId, scalar: Scalar) -> Option<Kernel> {
    match op {
        OpId::LAND => integers!(scalar, |a, b| (a != 0 && b != 0).into()),
        OpId::LOR => integers!(scalar, |a, b| (a != 0 || b != 0).into()),
        _ => integers!(scalar, |a, b| ((a != 0) != (b != 0)).into()),
    }
}

fn bitwise(op: OpId, scalar: Scalar) -> Option<Kernel> {
    match op {
        OpId::BAND => integers!(scalar, |a, b| a & b),
        OpId::BOR => integers!(scalar, |a, b| a | b),
        _ => integers!(scalar, |a, b| a ^ b),
    }
}

macro_rules! pairs {
    ($scalar:expr, $combine:ident, $f:ident) => {
        match $scalar {
            Scalar::PairF32I32 => Some(|s, t| $combine(s, t, $f::<f32, i32>)),
            Scalar::PairF64I32 => Some(|s, t| $combine(s, t, $f::<f64, i32>)),
            Scalar::PairI64I32 => Some(|s, t| $combine(s, t, $f::<i64, i32>)),
            Scalar::PairI32I32 => Some(|s, t| $combine(s, t, $f::<i32, i32>)),
            Scalar::PairI16I32 => Some(|s, t| $combine(s, t, $f::<i16, i32>)),
            Scalar::PairF80I32 => Some(|s, t| $combine(s, t, $f::<Extended, i32>)),
            Scalar::PairF32F32 => Some(|s, t| $combine(s, t, $f::<f32, f32>)),
            Scalar::PairF64F64 => Some(|s, t| $combine(s, t, $f::<f64, f64>)),
            _ => None,
        }
    };
}

fn located(op: OpId, scalar: Scalar) -> Option<Kernel> {
    if op == OpId::MINLOC { pairs!(scalar, combine, lesser) } else { pairs!(scalar, combine, greater) }
}

fn located_packed(op: OpId, scalar: Scalar) -> Option<Kernel> {
    if op == OpId::MINLOC {
        pairs!(scalar, combine_packed, lesser)
    } else {
        pairs!(scalar, combine_packed, greater)
    }
}

/// The smaller value; of equal values the one with the smaller index.
fn lesser<A: Plain + PartialOrd, B: Plain + PartialOrd>(a: Pair<A, B>, b: Pair<A, B>) -> Pair<A, B> {
    if a.value < b.value || (a.value == b.value && a.index < b.index) { a } else { b }
}

/// The greater value; of equal values the one with the smaller index.
fn greater<A: Plain + PartialOrd, B: Plain + PartialOrd>(a: Pair<A, B>, b: Pair<A, B>) -> Pair<A, B> {
    if a.value > b.value || (a.value == b.value && a.index < b.index) { a } else { b }
}

fn replace(source: UserBuf, target: UserBufMut) {
    target.copy_from(&source.part(0, target.len()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Scratch;

    fn run(op: OpId, meaning: Meaning, scalar: Scalar, a: &[u8], b: &[u8]) -> Vec<u8> {
        let (mut source, mut target) = (Scratch::with(a.len()), Scratch::with(b.len()));
        source.part(a.len()).copy_from_slice(a);
        target.part(b.len()).copy_from_slice(b);
        let run = kernel(op, meaning, scalar).expect("legal");
        run(source.part(a.len()).as_source(), target.part(b.len()));
        let mut out = vec![0; b.len()];
        target.part(b.len()).as_source().copy_to(&mut out);
        out
    }

    fn ints(op: OpId, a: i32, b: i32) -> i32 {
        let out = run(op, Meaning::Integer, Scalar::I32, &a.to_ne_bytes(), &b.to_ne_bytes());
        i32::from_ne_bytes(out.try_into().unwrap())
    }

    #[test]
    fn operations_on_integers() {
        let cases = [
            (OpId::MAX, 7),
            (OpId::MIN, -3),
            (OpId::SUM, 4),
            (OpId::PROD, -21),
            (OpId::LAND, 1),
            (OpId::LOR, 1),
            (OpId::LXOR, 0),
            (OpId::BAND, -3 & 7),
            (OpId::BOR, -3 | 7),
            (OpId::BXOR, -3 ^ 7),
            (OpId::REPLACE, -3),
            (OpId::NO_OP, 7),
        ];
        for (op, expected) in cases {
            assert_eq!(ints(op, -3, 7), expected, "{op:?}");
        }
        assert_eq!(ints(OpId::SUM, i32::MAX, 1), i32::MIN, "overflow wraps");
    }

    /// Long data takes wide registers, single elements do not.
    #[test]
    fn data_of_any_length_is_combined_element_by_element() {
        use Meaning::{Floating, Integer};
        let kinds = [
            (Integer, Scalar::I8, 1),
            (Integer, Scalar::U16, 2),
            (Integer, Scalar::I32, 4),
            (Integer, Scalar::U64, 8),
            (Floating, Scalar::F32, 4),
            (Floating, Scalar::F64, 8),
        ];
        // Of numbers that are not, several bit patterns are right.
        let element = |scalar: Scalar, unit: usize, i: usize| match scalar {
            Scalar::F32 => ((i % 1000) as f32 - 500.5).to_ne_bytes().to_vec(),
            Scalar::F64 => ((i % 1000) as f64 - 500.5).to_ne_bytes().to_vec(),
            _ => (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_ne_bytes()[..unit].to_vec(),
        };
        for (meaning, scalar, unit) in kinds {
            for op in [OpId::SUM, OpId::PROD, OpId::MAX, OpId::MIN] {
                for count in [1, 31, 32, 33, 63, 65, 129, 255, 256, 257, 1000] {
                    let data =
                        |factor: usize| (1..=count).flat_map(move |i| element(scalar, unit, i * factor));
                    let (a, b) = (data(37).collect::<Vec<_>>(), data(101).collect::<Vec<_>>());
                    let each =
                        a.chunks(unit).zip(b.chunks(unit)).flat_map(|(a, b)| run(op, meaning, scalar, a, b));
                    assert!(
                        run(op, meaning, scalar, &a, &b) == each.collect::<Vec<_>>(),
                        "{op:?} {scalar:?} {count}"
                    );
                }
            }
        }
    }

    #[test]
    fn characters_of_one_byte_are_integers() {
        for (op, expected) in [(OpId::SUM, 4), (OpId::MAX, 7), (OpId::LAND, 1), (OpId::BOR, -1)] {
            assert_eq!(run(op, Meaning::Character, Scalar::I8, &[253], &[7])[0] as i8, expected, "{op:?}");
        }
    }

    #[test]
    fn a_location_is_that_of_the_smallest_index_among_equals() {
        let pair = |value: f64, index: i32| {
            let mut bytes = value.to_ne_bytes().to_vec();
            bytes.extend(index.to_ne_bytes());
            bytes.extend([0; 4]);
            bytes
        };
        let go = |op, a: &[u8], b: &[u8]| run(op, Meaning::Pair, Scalar::PairF64I32, a, b)[..12].to_vec();
        assert_eq!(go(OpId::MINLOC, &pair(1.5, 9), &pair(1.5, 4)), pair(1.5, 4)[..12]);
        assert_eq!(go(OpId::MAXLOC, &pair(1.5, 1), &pair(1.5, 4)), pair(1.5, 1)[..12]);
        assert_eq!(go(OpId::MAXLOC, &pair(1.5, 1), &pair(2.5, 4)), pair(2.5, 4)[..12]);
    }

    #[test]
    fn packed_pairs_are_combined_as_others_are() {
        let (mut source, mut target) = (Scratch::with(24), Scratch::with(24));
        let pair = |value: f64, index: i32| [&value.to_ne_bytes()[..], &index.to_ne_bytes()].concat();
        source.part(24).copy_from_slice(&[pair(1.5, 3), pair(2.5, 1)].concat());
        target.part(24).copy_from_slice(&[pair(1.5, 7), pair(-1.0, 8)].concat());
        let run = packed_kernel(OpId::MINLOC, Meaning::Pair, Scalar::PairF64I32).expect("legal");
        run(source.part(24).as_source(), target.part(24));
        let mut out = [0; 24];
        target.part(24).as_source().copy_to(&mut out);
        assert_eq!(out.to_vec(), [pair(1.5, 3), pair(-1.0, 8)].concat());
    }

    #[test]
    fn illegal_combinations_have_no_kernel() {
        assert!(kernel(OpId::BAND, Meaning::Floating, Scalar::F64).is_none());
        assert!(kernel(OpId::SUM, Meaning::Byte, Scalar::U8).is_none());
        assert!(kernel(OpId::MAX, Meaning::Complex, Scalar::C64).is_none());
        assert!(kernel(OpId::MINLOC, Meaning::Integer, Scalar::I32).is_none());
        assert!(kernel(OpId::SUM, Meaning::Character, Scalar::I32).is_none(), "wide characters");
        assert!(kernel(OpId::BXOR, Meaning::Byte, Scalar::U8).is_some());
    }

    #[test]
    fn extended_numbers_keep_more_bits_than_doubles() {
        // 2^63 + 1 as an 80-bit number: the significand has 64 bits, the exponent is 63.
        let bytes = |significand: u64, exponent: u16| {
            let mut bytes = significand.to_le_bytes().to_vec();
            bytes.extend((16383 + exponent).to_le_bytes());
            bytes.extend([0; 6]);
            bytes
        };
        let (large, one) = (bytes(1 << 63, 63), bytes(1 << 63, 0));
        let go = |op, a: &[u8], b: &[u8]| run(op, Meaning::Floating, Scalar::F80, a, b)[..10].to_vec();
        assert_eq!(go(OpId::SUM, &large, &one), bytes((1 << 63) + 1, 63)[..10]);
        assert_eq!(go(OpId::PROD, &large, &bytes(1 << 63, 1)), bytes(1 << 63, 64)[..10]);
        assert_eq!(go(OpId::MAX, &large, &one), large[..10]);
        assert_eq!(go(OpId::MIN, &large, &one), one[..10]);
    }

    #[test]
    fn complex_numbers_multiply_as_such() {
        let bytes = |re: f64, im: f64| [re.to_ne_bytes(), im.to_ne_bytes()].concat();
        let out = run(OpId::PROD, Meaning::Complex, Scalar::C64, &bytes(1.0, 2.0), &bytes(3.0, -1.0));
        assert_eq!(out, bytes(5.0, 5.0));
    }
}
