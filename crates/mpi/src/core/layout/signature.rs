//! The basic elements of a datatype, in order.
use super::super::predefined::{Meaning, Scalar, TABLE};
use super::Datatype;
use super::{Combiner, TypeId};
use proto::check::Signature;
use std::collections::HashMap;

/// Signatures of datatypes that have been looked at.
type Known = HashMap<*const Datatype, Signature>;

/// What a predefined pair consists of; nothing for other datatypes.
pub(in super::super) fn pair_parts(id: TypeId) -> &'static [TypeId] {
    match TABLE.get(id.index()).map(|row| row.scalar) {
        Some(Scalar::PairF32I32) => &[TypeId::FLOAT, TypeId::INT],
        Some(Scalar::PairF64I32) => &[TypeId::DOUBLE, TypeId::INT],
        Some(Scalar::PairI64I32) => &[TypeId::LONG, TypeId::INT],
        Some(Scalar::PairI32I32) => &[TypeId::INT, TypeId::INT],
        Some(Scalar::PairI16I32) => &[TypeId::SHORT, TypeId::INT],
        Some(Scalar::PairF80I32) => &[TypeId::LONG_DOUBLE, TypeId::INT],
        Some(Scalar::PairF32F32) => &[TypeId::FLOAT, TypeId::FLOAT],
        Some(Scalar::PairF64F64) => &[TypeId::DOUBLE, TypeId::DOUBLE],
        _ => &[],
    }
}

fn bytes_of(id: TypeId) -> usize {
    TABLE[id.index()].scalar.size_and_extent().0
}

impl Datatype {
    /// Basic elements in `bytes` of this datatype; `None` if the last one is not whole.
    pub(in super::super) fn elements(&self, bytes: usize) -> Option<u64> {
        let (mut ty, mut rest, mut found) = (self, bytes, 0);
        // From a datatype to the part of it in which the bytes end, and so on.
        loop {
            if rest == 0 {
                return Some(found);
            }
            if ty.size == 0 {
                return None;
            }
            found += (rest / ty.size) as u64 * ty.basic;
            rest %= ty.size;
            if let Some(id) = ty.named {
                return within_pair(id, rest).map(|inside| found + inside);
            }
            let mut ends_in = None;
            for (repeat, part) in ty.parts() {
                let all = part.size * repeat as usize;
                if rest < all {
                    ends_in = Some(part);
                    break;
                }
                rest -= all;
                found += repeat * part.basic;
            }
            // Less than an element is left, so some part holds it, if anything is left.
            match ends_in {
                Some(part) => ty = part,
                None => return (rest == 0).then_some(found),
            }
        }
    }

    /// Bytes of the first so many basic elements; `None` if it has none, or too many were asked for.
    pub(in super::super) fn bytes_of_elements(&self, elements: u64) -> Option<u64> {
        let (mut ty, mut rest, mut bytes) = (self, elements, 0u64);
        while rest > 0 {
            let whole = rest.checked_div(ty.basic)?;
            bytes = bytes.checked_add(whole.checked_mul(ty.size as u64)?)?;
            rest %= ty.basic;
            if let Some(id) = ty.named {
                let parts = pair_parts(id).iter().take(rest as usize);
                return bytes.checked_add(parts.map(|part| bytes_of(*part) as u64).sum());
            }
            for (repeat, part) in ty.parts() {
                ty = part;
                let all = part.basic * repeat;
                if rest < all || rest == 0 {
                    break;
                }
                rest -= all;
                bytes = bytes.checked_add(part.size as u64 * repeat)?;
            }
        }
        (bytes <= i64::MAX as u64).then_some(bytes)
    }

    /// Calls with every stretch of basic elements of one kind, of `count` elements, in order.
    pub(in super::super) fn each_basic(&self, count: u64, mut f: impl FnMut(TypeId, u64)) {
        let mut left = vec![(self, count)];
        while let Some((ty, count)) = left.pop() {
            if count == 0 || ty.basic == 0 {
                continue;
            }
            if let Some(id) = ty.uniform {
                match pair_parts(id) {
                    [] => f(id, count * ty.basic),
                    parts => {
                        let pairs = count * ty.basic / parts.len() as u64;
                        (0..pairs).for_each(|_| parts.iter().for_each(|part| f(*part, 1)));
                    }
                }
                continue;
            }
            if count > 1 {
                left.push((ty, count - 1));
            }
            let first = left.len();
            left.extend(ty.parts().map(|(repeat, part)| (part, repeat)));
            left[first..].reverse();
        }
    }

    /// The kinds of the basic elements in the first `bytes` of elements of this datatype. If the last one is not whole,
    /// it fits anything.
    pub(in super::super) fn signature(&self, bytes: usize) -> Signature {
        let (mut ty, mut rest, mut found) = (self, bytes, Signature::EMPTY);
        let mut known = Known::new();
        while rest > 0 {
            if ty.size == 0 {
                return Signature::WILD;
            }
            found = found.then(ty.whole_signature(&mut known).repeated((rest / ty.size) as u64));
            rest %= ty.size;
            if let Some(id) = ty.named {
                for part in pair_parts(id) {
                    if rest < bytes_of(*part) {
                        break;
                    }
                    found = found.then(of_basic(*part));
                    rest -= bytes_of(*part);
                }
                return if rest == 0 { found } else { Signature::WILD };
            }
            let mut ends_in = None;
            for (repeat, part) in ty.parts() {
                let all = part.size * repeat as usize;
                if rest < all {
                    ends_in = Some(part);
                    break;
                }
                found = found.then(part.whole_signature(&mut known).repeated(repeat));
                rest -= all;
            }
            match ends_in {
                Some(part) => ty = part,
                None if rest == 0 => {}
                None => return Signature::WILD,
            }
        }
        found
    }

    /// What `bytes` of elements of this datatype are, in words.
    pub(in super::super) fn words(&self, bytes: usize) -> String {
        match self.uniform.filter(|id| bytes_of(*id) > 0) {
            Some(id) => {
                let rest = if bytes.is_multiple_of(bytes_of(id)) { "" } else { " and a part" };
                format!("{} x {}{rest}", bytes / bytes_of(id), TABLE[id.index()].name)
            }
            None => "a datatype of the program".into(),
        }
    }

    /// Of one element. Parts that are used again and again are looked at once, and nothing recurses.
    fn whole_signature(&self, known: &mut Known) -> Signature {
        let find = |known: &Known, ty: &Datatype| {
            ty.simple_signature().or_else(|| known.get(&std::ptr::from_ref(ty)).copied())
        };
        let mut open = vec![self];
        while let Some(&ty) = open.last() {
            if find(known, ty).is_some() {
                open.pop();
                continue;
            }
            let before = open.len();
            let parts = || ty.parts().filter(|(repeat, _)| *repeat > 0);
            open.extend(parts().map(|(_, part)| part).filter(|part| find(known, part).is_none()));
            if open.len() == before {
                let all = parts().fold(Signature::EMPTY, |all, (repeat, part)| {
                    all.then(find(known, part).unwrap_or(Signature::WILD).repeated(repeat))
                });
                known.insert(ty, all);
            }
        }
        find(known, self).unwrap_or(Signature::WILD)
    }

    /// Of one element, if its parts need not be looked at.
    fn simple_signature(&self) -> Option<Signature> {
        if self.basic == 0 {
            return Some(Signature::EMPTY);
        }
        let id = self.uniform?;
        Some(match pair_parts(id) {
            [] => of_basic(id).repeated(self.basic),
            parts => {
                let pair = parts.iter().fold(Signature::EMPTY, |all, part| all.then(of_basic(*part)));
                pair.repeated(self.basic / parts.len() as u64)
            }
        })
    }

    /// What it was made of, in order: how many elements of which datatype.
    fn parts(&self) -> impl Iterator<Item = (u64, &Datatype)> {
        let structure = self.origin.combiner == Combiner::Struct;
        // All others consist of elements of one datatype.
        self.origin.types.iter().enumerate().map(move |(i, part)| {
            let repeat = match (structure, part.size) {
                (true, _) => self.origin.integers[i + 1] as u64,
                (false, 0) => 0,
                (false, size) => (self.size / size) as u64,
            };
            (repeat, &**part)
        })
    }
}

/// Names of one kind of number count as one: those of Fortran, those with a width in their name, and complex numbers as
/// two real ones. The standard is stricter, but programs that mix them work everywhere.
pub(super) fn of_basic(id: TypeId) -> Signature {
    let row = &TABLE[id.index()];
    if row.meaning == Meaning::Byte {
        return Signature::WILD;
    }
    let (scalar, count) = match row.scalar {
        Scalar::C16 => (Scalar::F16, 2),
        Scalar::C32 => (Scalar::F32, 2),
        Scalar::C64 => (Scalar::F64, 2),
        Scalar::C80 => (Scalar::F80, 2),
        Scalar::C128 => (Scalar::F128, 2),
        scalar => (scalar, 1),
    };
    Signature::one(scalar as u32).repeated(count)
}

fn within_pair(id: TypeId, mut bytes: usize) -> Option<u64> {
    let mut found = 0;
    for part in pair_parts(id) {
        if bytes < bytes_of(*part) {
            break;
        }
        bytes -= bytes_of(*part);
        found += 1;
    }
    (bytes == 0).then_some(found)
}
