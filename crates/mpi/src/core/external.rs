//! The representation "external32" (MPI-5 14.5.2): big-endian numbers with sizes that do not depend on the machine.
//!
//! Data is packed as usual, without gaps, and then converted element by element as its signature says.
use super::layout::Datatype;
use super::predefined::{Meaning, Scalar, TABLE};
use super::*;
use crate::buffer::{RecvBuf, Scratch, SendBuf};
use crate::error::{ErrorClass, Result, fail};

/// How one number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// So many bytes, the most significant first.
    Swapped(usize),
    /// A signed number of 8 bytes in 4.
    Long,
    /// An unsigned number of 8 bytes in 4.
    UnsignedLong,
    /// A character of 4 bytes in 2.
    Wide,
    /// A truth value of one byte: 0 or 1.
    Truth,
    /// An 80-bit number of x87 as an IEEE number of 128 bits.
    Extended,
}

impl Form {
    /// How numbers of a predefined datatype (no pair) are written, and how many there are in an element.
    fn of(id: TypeId) -> (Form, usize) {
        use Scalar::*;
        let row = &TABLE[id.index()];
        match (id, row.scalar) {
            (TypeId::LONG, _) => (Form::Long, 1),
            (TypeId::UNSIGNED_LONG, _) => (Form::UnsignedLong, 1),
            (TypeId::WCHAR, _) => (Form::Wide, 1),
            (_, U8) if row.meaning == Meaning::Logical => (Form::Truth, 1),
            (_, F80) => (Form::Extended, 1),
            (_, C80) => (Form::Extended, 2),
            (_, C16 | C32 | C64 | C128) => (Form::Swapped(row.scalar.size_and_extent().0 / 2), 2),
            (_, scalar) => (Form::Swapped(scalar.size_and_extent().0), 1),
        }
    }

    /// (bytes here, bytes outside).
    fn bytes(self) -> (usize, usize) {
        match self {
            Form::Swapped(bytes) => (bytes, bytes),
            Form::Long | Form::UnsignedLong => (8, 4),
            Form::Wide => (4, 2),
            Form::Truth => (1, 1),
            Form::Extended => (16, 16),
        }
    }

    fn write(self, here: &[u8], outside: &mut [u8]) {
        match self {
            Form::Extended => outside.copy_from_slice(&to_quad(here).to_be_bytes()),
            Form::Truth => outside[0] = u8::from(here[0] != 0),
            // The machine is little-endian: the bytes that matter come first.
            _ => outside.iter_mut().rev().zip(here).for_each(|(to, from)| *to = *from),
        }
    }

    fn read(self, outside: &[u8], here: &mut [u8]) {
        if self == Form::Extended {
            here.copy_from_slice(&from_quad(outside));
            return;
        }
        let fill = if self == Form::Long && outside[0] & 0x80 != 0 { 0xFF } else { 0 };
        let bytes = outside.iter().rev().copied().chain(std::iter::repeat(fill));
        here.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    }
}

#[cfg(target_endian = "big")]
compile_error!("external32 is converted for little-endian machines");

/// Bytes of an element of a predefined datatype (no pair) in this representation.
pub(super) fn bytes_of(id: TypeId) -> u64 {
    if TABLE[id.index()].meaning == Meaning::Marker {
        return 0;
    }
    let (form, numbers) = Form::of(id);
    (form.bytes().1 * numbers) as u64
}

/// The exponent of x87's 80-bit numbers is that of 128-bit ones; the fraction is 49 bits shorter, and the leading 1
/// is written out.
fn to_quad(here: &[u8]) -> u128 {
    let mut fraction = [0; 8];
    fraction.copy_from_slice(&here[..8]);
    let (fraction, head) = (u64::from_le_bytes(fraction), u16::from_le_bytes([here[8], here[9]]));
    // A number below the smallest normal one whose leading 1 is there all the same is the normal one.
    let head = if head & 0x7FFF == 0 && fraction >> 63 == 1 { head | 1 } else { head };
    u128::from(head) << 112 | u128::from(fraction & (u64::MAX >> 1)) << 49
}

fn from_quad(outside: &[u8]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(outside);
    let quad = u128::from_be_bytes(bytes);
    let special = quad >> 112 & 0x7FFF == 0x7FFF;
    // To the nearest; a carry out of the fraction is the next exponent, as it should be.
    let rounded = if special { quad } else { quad.saturating_add(1 << 48) };
    let head = (rounded >> 112) as u16;
    let mut fraction = (rounded >> 49) as u64 & (u64::MAX >> 1);
    if special && quad << 16 != 0 {
        fraction |= 1 << 62; // not a number stays none, whichever bits said so
    }
    if head & 0x7FFF != 0 {
        fraction |= 1 << 63;
    }
    let mut here = [0; 16];
    here[..8].copy_from_slice(&fraction.to_le_bytes());
    here[8..10].copy_from_slice(&head.to_le_bytes());
    here
}

/// Which way to convert.
#[derive(Clone, Copy)]
enum Way {
    Out,
    In,
}

/// Converts `count` elements without gaps.
fn convert(ty: &Datatype, count: u64, way: Way, from: &[u8], to: &mut [u8]) {
    let (mut read, mut written) = (0, 0);
    ty.each_basic(count, |id, elements| {
        let (form, numbers) = Form::of(id);
        let (here, outside) = form.bytes();
        let (each_from, each_to) = match way {
            Way::Out => (here, outside),
            Way::In => (outside, here),
        };
        for _ in 0..elements * numbers as u64 {
            let (source, target) = (&from[read..read + each_from], &mut to[written..written + each_to]);
            match way {
                Way::Out => form.write(source, target),
                Way::In => form.read(source, target),
            }
            (read, written) = (read + each_from, written + each_to);
        }
    });
}

impl Mpi {
    /// Bytes that `count` elements need in "external32".
    pub fn pack_external_size(&self, count: i64, ty: TypeId) -> Result<i64> {
        let ty = self.datatype(ty)?;
        match u64::try_from(count).ok().and_then(|count| ty.external_size.checked_mul(count)) {
            Some(bytes) if bytes <= i64::MAX as u64 => Ok(bytes as i64),
            _ => fail(ErrorClass::Count, format!("count {count}")),
        }
    }

    /// Packs in "external32" into `out` (of `bytes` in all) from `*position` on, and moves it.
    pub fn pack_external(&self, data: SendData, out: RecvBuf, bytes: i64, position: &mut i64) -> Result<()> {
        let need = self.pack_external_size(data.count, data.ty)?;
        datatype::room(need, bytes, *position)?;
        let (ty, count) = (self.committed(data.ty)?, data.count as usize);
        datatype::placed(out, need)?;
        ty.check_at(data.buf, count)?;
        let size = ty.bytes(count)?;
        let mut packed = Scratch::with(size);
        ty.pack(data.buf, count, packed.part(size));
        let (mut here, mut outside) = (vec![0; size], vec![0; need as usize]);
        packed.part(size).as_source().copy_to(&mut here);
        convert(ty, count as u64, Way::Out, &here, &mut outside);
        out.range(*position as isize, outside.len()).copy_from_slice(&outside);
        *position += need;
        Ok(())
    }

    /// Unpacks "external32" from `input` (of `bytes` in all) from `*position` on, and moves it.
    pub fn unpack_external(
        &self,
        input: SendBuf,
        bytes: i64,
        position: &mut i64,
        data: RecvData,
    ) -> Result<()> {
        let need = self.pack_external_size(data.count, data.ty)?;
        datatype::room(need, bytes, *position)?;
        let (ty, count) = (self.committed(data.ty)?, data.count as usize);
        datatype::placed(input, need)?;
        ty.check_at(data.buf, count)?;
        let size = ty.bytes(count)?;
        let (mut here, mut outside) = (vec![0; size], vec![0; need as usize]);
        input.range(*position as isize, outside.len()).copy_to(&mut outside);
        convert(ty, count as u64, Way::In, &outside, &mut here);
        let mut packed = Scratch::with(size);
        packed.part(size).copy_from_slice(&here);
        ty.unpack(packed.part(size).as_source(), data.buf, count);
        *position += need;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(id: TypeId, here: &[u8], outside: &[u8]) {
        let (form, numbers) = Form::of(id);
        assert_eq!(numbers, 1);
        let mut out = vec![0xEE; outside.len()];
        form.write(here, &mut out);
        assert_eq!(out, outside, "{id:?} written");
        let mut back = vec![0xEE; here.len()];
        form.read(outside, &mut back);
        assert_eq!(back, here, "{id:?} read");
    }

    #[test]
    fn numbers_are_big_endian_and_of_fixed_size() {
        there_and_back(TypeId::INT, &(-2i32).to_le_bytes(), &[0xFF, 0xFF, 0xFF, 0xFE]);
        there_and_back(TypeId::LONG, &(-2i64).to_le_bytes(), &[0xFF, 0xFF, 0xFF, 0xFE]);
        there_and_back(TypeId::UNSIGNED_LONG, &0x8000_0001_u64.to_le_bytes(), &[0x80, 0, 0, 1]);
        there_and_back(TypeId::LONG_LONG_INT, &(-2i64).to_le_bytes(), &(-2i64).to_be_bytes());
        there_and_back(TypeId::WCHAR, &0x2190_i32.to_le_bytes(), &[0x21, 0x90]);
        there_and_back(TypeId::FLOAT, &1.0f32.to_le_bytes(), &[0x3F, 0x80, 0, 0]);
        there_and_back(TypeId::C_BOOL, &[1], &[1]);
        let mut truth = [0];
        Form::Truth.write(&[2], &mut truth);
        assert_eq!(truth, [1]);
    }

    #[test]
    fn long_double_becomes_an_ieee_number_of_128_bits() {
        let extended = |head: u16, fraction: u64| {
            let mut bytes = fraction.to_le_bytes().to_vec();
            bytes.extend(head.to_le_bytes());
            bytes.extend([0; 6]);
            bytes
        };
        let quad = |head: u16, rest: u128| (u128::from(head) << 112 | rest).to_be_bytes();
        let id = TypeId::LONG_DOUBLE;
        there_and_back(id, &extended(0x3FFF, 1 << 63), &quad(0x3FFF, 0)); // 1
        there_and_back(id, &extended(0xC000, 3 << 62), &quad(0xC000, 1 << 111)); // -3
        there_and_back(id, &extended(0, 0), &quad(0, 0));
        there_and_back(id, &extended(0, 5), &quad(0, 5 << 49)); // below the smallest normal number
        there_and_back(id, &extended(0x7FFF, 1 << 63), &quad(0x7FFF, 0)); // infinite
        there_and_back(id, &extended(0x7FFF, 3 << 62), &quad(0x7FFF, 1 << 111)); // not a number
        // One bit more than fits: to the nearest.
        assert_eq!(from_quad(&quad(0x3FFF, (1 << 49) - 1))[..], extended(0x3FFF, (1 << 63) + 1)[..]);
        assert_eq!(from_quad(&quad(0x3FFF, (1 << 112) - 1))[..], extended(0x4000, 1 << 63)[..]);
        assert_eq!(from_quad(&quad(0x7FFF, 1))[..], extended(0x7FFF, 3 << 62)[..]);
    }
}
