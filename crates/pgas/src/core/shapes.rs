//! Strides as datatypes. Programs use few shapes again and again, so that they are kept.
use mpi::Result;
use mpi::core::{Mpi, TypeId};
use std::collections::HashMap;

/// So many are kept at least; when there are more, those are forgotten that were not used since it last happened. An
/// operation has a shape on either side: the last few must stay.
const KEPT_MAX: usize = 256;

/// Shapes and their datatypes.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    known: HashMap<Vec<i64>, TypeId>,
    /// Those before them.
    earlier: HashMap<Vec<i64>, TypeId>,
    key: Vec<i64>,
}

impl Shapes {
    /// `counts[0]` bytes of elements in a row, `counts[i]` times that at `strides[i - 1]`.
    pub(super) fn of(
        &mut self,
        mpi: &mut Mpi,
        (element, bytes): (TypeId, usize),
        strides: &[i64],
        counts: &[i64],
    ) -> Result<TypeId> {
        self.key.clear();
        self.key.push(element.0.into());
        self.key.extend(counts);
        self.key.extend(strides);
        if let Some(ty) = self.known.get(&self.key) {
            return Ok(*ty);
        }
        if let Some((key, ty)) = self.earlier.remove_entry(&self.key) {
            self.keep(mpi, key, ty)?;
            return Ok(ty);
        }
        let mut ty = mpi.type_contiguous(counts[0] / bytes as i64, element)?;
        for (count, stride) in counts[1..].iter().zip(strides) {
            let wider = mpi.type_hvector(*count, 1, *stride, ty);
            mpi.type_free(ty)?;
            ty = wider?;
        }
        mpi.type_commit(ty)?;
        let key = self.key.clone();
        self.keep(mpi, key, ty)?;
        Ok(ty)
    }

    fn keep(&mut self, mpi: &mut Mpi, key: Vec<i64>, ty: TypeId) -> Result<()> {
        if self.known.len() >= KEPT_MAX {
            self.earlier.drain().try_for_each(|(_, ty)| mpi.type_free(ty))?;
            std::mem::swap(&mut self.known, &mut self.earlier);
        }
        self.known.insert(key, ty);
        Ok(())
    }

    /// Forgets them all. Operations that are under way keep their own.
    pub(super) fn clear(&mut self, mpi: &mut Mpi) -> Result<()> {
        self.known.drain().chain(self.earlier.drain()).try_for_each(|(_, ty)| mpi.type_free(ty))
    }
}
