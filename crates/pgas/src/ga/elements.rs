//! Elements anywhere: read, written or accumulated together, those of one process in one go.
use super::array::GlobalArray;
use super::element::Element;
use super::error::Result;

impl<T: Element, const N: usize> GlobalArray<T, N> {
    /// Writes each value to its point. Of two values for one point it is open which one stays.
    pub fn scatter(&self, points: &[[usize; N]], values: &[T]) -> Result<()> {
        self.fits(points.len(), values.len())?;
        for (rank, group) in self.by_owner(points)? {
            let (at, some) = group.with(values, |_, later| later);
            self.memory.put_each(&some, rank, &at)?;
        }
        Ok(())
    }

    /// Adds `scale` times each value to its point, each atomically. A point may be there several times.
    pub fn scatter_add(&self, points: &[[usize; N]], values: &[T], scale: T) -> Result<()> {
        self.fits(points.len(), values.len())?;
        for (rank, group) in self.by_owner(points)? {
            let (at, some) = group.with(values, T::plus);
            self.memory.acc_each(scale, &some, rank, &at)?;
        }
        Ok(())
    }

    /// Reads each point's value.
    pub fn gather(&self, points: &[[usize; N]], values: &mut [T]) -> Result<()> {
        self.fits(points.len(), values.len())?;
        for (rank, group) in self.by_owner(points)? {
            let mut some = vec![T::default(); group.0.len()];
            let at: Vec<usize> = group.0.iter().map(|(_, at)| *at).collect();
            self.memory.get_each(&mut some, rank, &at)?;
            group.0.iter().zip(some).for_each(|((number, _), value)| values[*number] = value);
        }
        Ok(())
    }

    /// The points that each process holds: processes in order, and points as they are in its memory.
    fn by_owner(&self, points: &[[usize; N]]) -> Result<Vec<(usize, Group)>> {
        let mut placed = Vec::with_capacity(points.len());
        for (number, at) in points.iter().enumerate() {
            let point = self.point(*at)?;
            let rank = self.shape.distribution.owner(*at).expect("it is inside");
            placed.push((rank, self.shape.section(rank, &point).at, number));
        }
        placed.sort_unstable();
        let groups = placed.chunk_by(|a, b| a.0 == b.0);
        let group = |group: &[(usize, usize, usize)]| {
            (group[0].0, Group(group.iter().map(|(_, at, number)| (*number, *at)).collect()))
        };
        Ok(groups.map(group).collect())
    }
}

/// Points of one process: the number of each, and its place there, in the order of places.
struct Group(Vec<(usize, usize)>);

impl Group {
    /// Places there, and the values for them; those of one place are made one, in their order.
    fn with<T: Copy>(&self, values: &[T], both: impl Fn(T, T) -> T) -> (Vec<usize>, Vec<T>) {
        let (mut places, mut some): (Vec<usize>, Vec<T>) = Default::default();
        for (number, at) in &self.0 {
            match some.last_mut() {
                Some(value) if places.last() == Some(at) => *value = both(*value, values[*number]),
                _ => {
                    places.push(*at);
                    some.push(values[*number]);
                }
            }
        }
        (places, some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_place_are_one() {
        let group = Group(vec![(2, 5), (0, 7), (3, 7), (1, 9)]);
        let values = [10, 20, 30, 40];
        assert_eq!(group.with(&values, |a, b| a + b), (vec![5, 7, 9], vec![30, 50, 20]));
        assert_eq!(group.with(&values, |_, later| later), (vec![5, 7, 9], vec![30, 40, 20]));
    }
}
