//! Operations on whole arrays. All of them are collective, wait for what was begun before, and are done for everybody when
//! they return. Each process works on the block that it holds.
use super::array::GlobalArray;
use super::block::Block;
use super::element::Element;
use super::error::Result;
use super::patch::Patch;

impl<T: Element, const N: usize> GlobalArray<T, N> {
    /// Gives all elements one value.
    pub fn fill(&self, value: T) -> Result<()> {
        self.fill_with(|_| value)
    }

    /// Gives all elements zero, ghosts included.
    pub fn zero(&self) -> Result<()> {
        self.sync()?;
        self.write_block(&Block::new(self.own(), self.shape.ghosts))?;
        self.sync()
    }

    /// Gives each element a value that follows from its indices.
    pub fn fill_with(&self, mut value: impl FnMut([usize; N]) -> T) -> Result<()> {
        self.sync()?;
        let data: Vec<T> = self.own().points().map(&mut value).collect();
        self.put(self.own(), &data)?;
        self.sync()
    }

    /// Replaces each element by what follows from its indices and itself.
    pub fn map(&self, mut change: impl FnMut([usize; N], T) -> T) -> Result<()> {
        self.sync()?;
        let mut data = self.read(self.own())?;
        data.iter_mut().zip(self.own().points()).for_each(|(value, at)| *value = change(at, *value));
        self.put(self.own(), &data)?;
        self.sync()
    }

    /// Multiplies all elements.
    pub fn scale(&self, factor: T) -> Result<()> {
        self.map(|_, value| value.times(factor))
    }

    /// Takes over the elements of an array with the same dimensions, however that one is distributed.
    pub fn copy_from(&self, other: &GlobalArray<T, N>) -> Result<()> {
        self.same_dims(other)?;
        other.sync()?;
        self.sync()?;
        self.put(self.own(), &other.read(self.own())?)?;
        self.sync()
    }

    /// Becomes `alpha a + beta b`, element by element.
    pub fn set_sum(
        &self,
        (alpha, a): (T, &GlobalArray<T, N>),
        (beta, b): (T, &GlobalArray<T, N>),
    ) -> Result<()> {
        self.same_dims(a)?;
        self.same_dims(b)?;
        a.sync()?;
        b.sync()?;
        let (mut sum, other) = (a.read(self.own())?, b.read(self.own())?);
        for (left, right) in sum.iter_mut().zip(other) {
            *left = alpha.times(*left).plus(beta.times(right));
        }
        // This one may be one of the two: everybody has read before anybody writes.
        self.sync()?;
        self.put(self.own(), &sum)?;
        self.sync()
    }

    /// The sum of the products of elements.
    pub fn dot(&self, other: &GlobalArray<T, N>) -> Result<T> {
        self.same_dims(other)?;
        other.sync()?;
        self.sync()?;
        let (mine, theirs) = (self.read(self.own())?, other.read(self.own())?);
        let products = mine.into_iter().zip(theirs).map(|(left, right)| left.times(right));
        Ok(products.fold(T::default(), T::plus).sum_of_all(self.armci.comm())?)
    }

    /// The sum of all elements.
    pub fn sum(&self) -> Result<T> {
        self.sync()?;
        let mine = self.read(self.own())?.into_iter().fold(T::default(), T::plus);
        Ok(mine.sum_of_all(self.armci.comm())?)
    }

    pub(crate) fn same_dims(&self, other: &GlobalArray<T, N>) -> Result<()> {
        if self.dims() == other.dims() {
            return Ok(());
        }
        self.mismatch(format!("arrays of {:?} and {:?} have different dimensions", self.dims(), other.dims()))
    }
}

impl<T: Element> GlobalArray<T, 2> {
    /// Becomes the transpose of another one, or of what it was itself.
    pub fn transpose_from(&self, other: &GlobalArray<T, 2>) -> Result<()> {
        let [rows, columns] = other.dims();
        if self.dims() != [columns, rows] {
            return self.mismatch(format!(
                "the transpose of an array of [{rows}, {columns}] has no dimensions {:?}",
                self.dims()
            ));
        }
        other.sync()?;
        let turned = flipped(&other.read(swapped(&self.own()))?, self.own().extents());
        // It may be the same one: everybody has read before anybody writes.
        self.sync()?;
        self.put(self.own(), &turned)?;
        self.sync()
    }
}

/// The patch of the transpose.
pub(crate) fn swapped(patch: &Patch<2>) -> Patch<2> {
    Patch { lo: [patch.lo[1], patch.lo[0]], hi: [patch.hi[1], patch.hi[0]] }
}

/// The transpose of elements that stand in rows; it has these extents.
pub(crate) fn flipped<T: Copy>(data: &[T], [rows, columns]: [usize; 2]) -> Vec<T> {
    Patch::whole([rows, columns]).points().map(|[row, column]| data[column * rows + row]).collect()
}
