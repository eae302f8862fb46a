//! Elements anywhere: read, written or accumulated together, those of one process in one go.
use super::array::GlobalArray;
use super::element::Element;
use super::error::Result;
use super::patch::Patch;

impl<T: Element, const N: usize> GlobalArray<T, N> {
    /// Writes each value to its point. Of two values for one point it is open which one stays.
    pub fn scatter(&self, points: &[[usize; N]], values: &[T]) -> Result<()> {
        self.fits(points.len(), values.len())?;
        for (rank, group) in self.by_owner(points)? {
            let (at, some) = group.with(values);
            at.iter().zip(some).try_for_each(|(at, value)| self.memory.put(&[value], rank, *at))?;
        }
        Ok(())
    }

    /// Adds `scale` times each value to its point, each atomically. A point may be there several times.
    pub fn scatter_add(&self, points: &[[usize; N]], values: &[T], scale: T) -> Result<()> {
        self.fits(points.len(), values.len())?;
        for (rank, group) in self.by_owner(points)? {
            let (at, some) = group.with(values);
            at.iter().zip(some).try_for_each(|(at, value)| self.memory.acc(scale, &[value], rank, *at))?;
        }
        Ok(())
    }

    /// Reads each point's value.
    pub fn gather(&self, points: &[[usize; N]], values: &mut [T]) -> Result<()> {
        self.fits(points.len(), values.len())?;
        for (rank, group) in self.by_owner(points)? {
            let mut some = vec![T::default(); group.0.len()];
            let at: Vec<usize> = group.0.iter().map(|(_, at)| *at).collect();
            some.chunks_mut(1).zip(&at).try_for_each(|(value, at)| self.memory.get(value, rank, *at))?;
            group.0.iter().zip(some).for_each(|((number, _), value)| values[*number] = value);
        }
        Ok(())
    }

    /// The points that each process holds, processes in order.
    fn by_owner(&self, points: &[[usize; N]]) -> Result<Vec<(usize, Group)>> {
        let mut placed = Vec::with_capacity(points.len());
        for (number, at) in points.iter().enumerate() {
            let point = Patch::point(*at);
            self.inside(&point)?;
            let rank = self.shape.distribution.owner(*at).expect("it is inside");
            placed.push((rank, (number, self.shape.section(rank, &point).at)));
        }
        placed.sort_by_key(|(rank, _)| *rank);
        let groups = placed.chunk_by(|a, b| a.0 == b.0);
        Ok(groups.map(|group| (group[0].0, Group(group.iter().map(|(_, place)| *place).collect()))).collect())
    }
}

/// Points of one process: the number of each, and its place there.
struct Group(Vec<(usize, usize)>);

impl Group {
    /// Places there, and the values for them.
    fn with<T: Copy>(&self, values: &[T]) -> (Vec<usize>, Vec<T>) {
        self.0.iter().map(|(number, at)| (*at, values[*number])).unzip()
    }
}
