//! Numbers that Rust does not compute with: those of 16 bits, and IEEE's of 128. To the nearest, ties to even.
use crate::buffer::{Brain, Half, Quad};
use std::cmp::Ordering;
use std::ops::{Add, Mul, Sub};

impl Half {
    fn wide(self) -> f32 {
        let (sign, exponent, fraction) =
            (u32::from(self.0 >> 15), u32::from(self.0 >> 10 & 31), u32::from(self.0 & 1023));
        let sign = if sign == 1 { -1.0 } else { 1.0 };
        match exponent {
            // Below the smallest normal number: multiples of 2^-24, which are exact.
            0 => sign * fraction as f32 / (1 << 24) as f32,
            31 if fraction == 0 => sign * f32::INFINITY,
            31 => f32::NAN,
            _ => sign * f32::from_bits((exponent + 112) << 23 | fraction << 13),
        }
    }

    fn nearest(value: f32) -> Half {
        let bits = value.to_bits();
        let (sign, exponent, fraction) = ((bits >> 16 & 0x8000) as u16, bits >> 23 & 255, bits & 0x7F_FFFF);
        if exponent == 255 {
            return Half(sign | 0x7C00 | if fraction == 0 { 0 } else { 0x200 });
        }
        // In units of the last place of the result: 2^-24 at least.
        let significand = if exponent == 0 { fraction } else { fraction | 1 << 23 };
        let shift = if exponent > 112 { 13 } else { (126 - exponent.max(1)).min(31) };
        let rounded = round(u128::from(significand), shift) as u32;
        // A carry out of the fraction is the next exponent, as it should be.
        let magnitude = if exponent > 112 { ((exponent - 113) << 10) + rounded } else { rounded };
        Half(sign | magnitude.min(0x7C00) as u16)
    }
}

impl Brain {
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    fn nearest(value: f32) -> Brain {
        if value.is_nan() {
            return Brain((value.to_bits() >> 16) as u16 | 0x40);
        }
        // A carry out of the fraction is the next exponent, and out of the last one infinity.
        Brain(round(value.to_bits().into(), 16) as u16)
    }
}

/// Shifts right by less than 128 bits, to the nearest, ties to even.
fn round(value: u128, shift: u32) -> u128 {
    if shift == 0 {
        return value;
    }
    let (kept, lost, half) = (value >> shift, value & ((1 << shift) - 1), 1 << (shift - 1));
    kept + u128::from(lost > half || (lost == half && kept & 1 == 1))
}

macro_rules! through_f32 {
    ($number:ident: $($trait:ident $method:ident $op:tt),*) => {
        $(impl $trait for $number {
            type Output = $number;
            /// The wider result has more than twice the digits, so rounding it again does no harm.
            fn $method(self, other: $number) -> $number {
                $number::nearest(self.wide() $op other.wide())
            }
        })*

        impl PartialEq for $number {
            fn eq(&self, other: &$number) -> bool {
                self.wide() == other.wide()
            }
        }

        impl PartialOrd for $number {
            fn partial_cmp(&self, other: &$number) -> Option<Ordering> {
                self.wide().partial_cmp(&other.wide())
            }
        }
    };
}
through_f32!(Half: Add add +, Sub sub -, Mul mul *);
through_f32!(Brain: Add add +, Sub sub -, Mul mul *);

const SIGN: u128 = 1 << 127;
const FRACTION: u128 = (1 << 112) - 1;
const INFINITY: u128 = 0x7FFF << 112;
const NAN: u128 = INFINITY | 1 << 111;
/// Bits below the last place that are kept until the result is rounded.
const SPARE: u32 = 3;

impl Quad {
    fn magnitude(self) -> u128 {
        self.0 & !SIGN
    }

    fn is_nan(self) -> bool {
        self.magnitude() > INFINITY
    }

    /// (exponent, significand of at most 113 bits) of a finite number: its value is significand * 2^(exponent - 16495).
    fn parts(self) -> (i32, u128) {
        let exponent = (self.magnitude() >> 112) as i32;
        if exponent == 0 { (1, self.0 & FRACTION) } else { (exponent, self.0 & FRACTION | 1 << 112) }
    }

    /// significand * 2^(exponent - 16495 - SPARE), where bits that were lost have set the lowest one.
    fn nearest(sign: u128, mut exponent: i32, mut significand: u128) -> Quad {
        if significand == 0 {
            return Quad(sign);
        }
        let place = 128 - significand.leading_zeros() as i32 - (113 + SPARE as i32);
        let shift = place.max(1 - exponent);
        if shift > 0 {
            let lost = shift >= 128 || significand & ((1 << shift) - 1) != 0;
            significand = significand.checked_shr(shift as u32).unwrap_or(0) | u128::from(lost);
        } else {
            significand <<= -shift;
        }
        exponent += shift;
        let rounded = round(significand, SPARE);
        // With the leading 1 of a normal number, the exponent's field is one more than what is added here.
        let magnitude = ((exponent as u128 - 1) << 112).checked_add(rounded).unwrap_or(INFINITY);
        let magnitude = if exponent >= 0x7FFF { INFINITY } else { magnitude.min(INFINITY) };
        Quad(sign | magnitude)
    }
}

impl Add for Quad {
    type Output = Quad;

    fn add(self, other: Quad) -> Quad {
        let (a, b) = if self.magnitude() >= other.magnitude() { (self, other) } else { (other, self) };
        if a.magnitude() >= INFINITY {
            let opposite = b.magnitude() == INFINITY && a.0 != b.0;
            return if a.is_nan() || opposite { Quad(NAN) } else { a };
        }
        let ((exponent, large), (below, small)) = (a.parts(), b.parts());
        let (large, small, apart) = (large << SPARE, small << SPARE, (exponent - below) as u32);
        let lost = apart >= 128 || small & ((1u128 << apart) - 1) != 0;
        let small = small.checked_shr(apart).unwrap_or(0) | u128::from(lost && small != 0);
        if a.0 & SIGN == b.0 & SIGN {
            return Quad::nearest(a.0 & SIGN, exponent, large + small);
        }
        let rest = large - small;
        // Nothing is left of equal numbers: a positive zero.
        Quad::nearest(if rest == 0 { 0 } else { a.0 & SIGN }, exponent, rest)
    }
}

impl Sub for Quad {
    type Output = Quad;

    fn sub(self, other: Quad) -> Quad {
        if other.is_nan() { other } else { self + Quad(other.0 ^ SIGN) }
    }
}

impl Mul for Quad {
    type Output = Quad;

    fn mul(self, other: Quad) -> Quad {
        let sign = (self.0 ^ other.0) & SIGN;
        let (low, high) = (self.magnitude().min(other.magnitude()), self.magnitude().max(other.magnitude()));
        if high >= INFINITY {
            return if high > INFINITY || low == 0 { Quad(NAN) } else { Quad(sign | INFINITY) };
        }
        if low == 0 {
            return Quad(sign);
        }
        let ((a_exponent, a), (b_exponent, b)) = (normal(self.parts()), normal(other.parts()));
        let (top, bottom) = product(a, b);
        // Both have 113 bits, so the product has 225 or 226: 116 of them are kept.
        let kept = top << 18 | bottom >> 110;
        let lost = bottom & ((1 << 110) - 1) != 0;
        let exponent = a_exponent + b_exponent - 16495 + 110 + SPARE as i32;
        Quad::nearest(sign, exponent, kept | u128::from(lost))
    }
}

/// With its leading 1 in the place of a normal number.
fn normal((exponent, significand): (i32, u128)) -> (i32, u128) {
    let shift = significand.leading_zeros() - 15;
    (exponent - shift as i32, significand << shift)
}

/// The 256 bits of a product.
fn product(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a, b) = ((a >> 64, a & LOW), (b >> 64, b & LOW));
    let bottom = a.1 * b.1;
    let middle = a.0 * b.1 + (bottom >> 64);
    let other = a.1 * b.0 + (middle & LOW);
    (a.0 * b.0 + (middle >> 64) + (other >> 64), other << 64 | bottom & LOW)
}

impl PartialEq for Quad {
    fn eq(&self, other: &Quad) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Quad {
    fn partial_cmp(&self, other: &Quad) -> Option<Ordering> {
        if self.is_nan() || other.is_nan() {
            return None;
        }
        let signed = |quad: Quad| {
            let magnitude = quad.magnitude() as i128;
            if quad.0 & SIGN == 0 { magnitude } else { -magnitude }
        };
        Some(signed(*self).cmp(&signed(*other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_its_own_nearest() {
        for bits in 0..=u16::MAX {
            let half = Half(bits);
            let nan = bits & 0x7FFF > 0x7C00;
            assert!(
                nan == half.wide().is_nan() && (nan || Half::nearest(half.wide()).0 == bits),
                "{bits:#x}"
            );
        }
    }

    #[test]
    fn halves_are_rounded_to_the_nearest_and_ties_to_even() {
        for bits in 0..0x7C00u16 {
            let (low, high) = (Half(bits).wide(), Half(bits + 1).wide());
            let high = if high.is_infinite() { 65536.0 } else { high };
            let middle = low + (high - low) / 2.0;
            let even = bits + (bits & 1);
            assert_eq!(Half::nearest(middle).0, even, "{middle}");
            assert_eq!(Half::nearest(f32::from_bits(middle.to_bits() - 1)).0, bits, "below {middle}");
            assert_eq!(Half::nearest(f32::from_bits(middle.to_bits() + 1)).0, bits + 1, "above {middle}");
        }
        assert_eq!((Half(0x3C00) + Half(0x3C00)).0, 0x4000, "1 + 1");
        assert_eq!((Half(0x7BFF) * Half(0xC000)).0, 0xFC00, "overflow");
    }

    fn quad(value: u128) -> Quad {
        Quad::nearest(0, 16495 + SPARE as i32, value)
    }

    #[test]
    fn whole_numbers_add_and_multiply_exactly() {
        let mut state = 0x1234_5678_9ABC_DEF1_u64;
        for _ in 0..20_000 {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                u128::from(state >> (8 + state % 40))
            };
            let (a, b) = (next(), next());
            assert_eq!((quad(a) * quad(b)).0, quad(a * b).0, "{a} * {b}");
            assert_eq!((quad(a) + quad(b)).0, quad(a + b).0, "{a} + {b}");
            let difference = quad(a) - quad(b);
            let expected = quad(a.abs_diff(b)).0 | if a < b { SIGN } else { 0 };
            assert_eq!(difference.0, expected, "{a} - {b}");
            assert_eq!(quad(a).partial_cmp(&quad(b)), a.partial_cmp(&b));
        }
    }

    #[test]
    fn quads_at_the_edges() {
        let one = quad(1);
        assert_eq!(one.0, 0x3FFF << 112);
        let last = Quad(one.0 + 1);
        assert_eq!((last + Quad(0x3F8E << 112)).0, one.0 + 2, "a tie goes to the even neighbour, upwards");
        assert_eq!((one + Quad(0x3F8E << 112)).0, one.0, "and downwards");
        assert_eq!((one + Quad(0x3F8E << 112 | 1)).0, one.0 + 1, "more than a tie");
        let largest = Quad(INFINITY - 1);
        assert_eq!((largest + largest).0, INFINITY);
        assert_eq!((largest * quad(2)).0, INFINITY);
        assert_eq!((Quad(1) + Quad(2)).0, 3, "below the smallest normal number");
        assert_eq!((Quad(1 << 112) - Quad(1)).0, FRACTION);
        assert_eq!((Quad(1 << 112) * Quad(0x3FFE << 112)).0, 1 << 111, "half of the smallest normal number");
        assert_eq!((Quad(1) * Quad(0x3FFE << 112)).0, 0, "a tie with zero");
        assert_eq!((Quad(3) * Quad(0x3FFE << 112)).0, 2);
        assert!((Quad(INFINITY) - Quad(INFINITY)).is_nan() && (Quad(INFINITY) * Quad(0)).is_nan());
        assert_eq!((Quad(INFINITY | SIGN) + largest).0, INFINITY | SIGN);
        assert_eq!((one - one).0, 0);
        assert!(Quad(SIGN) == Quad(0) && Quad(NAN).partial_cmp(&one).is_none());
    }
}
