//! Datatypes of arrays: parts of one (subarray), and the share of a process in a distributed one (darray).
use super::datatype::{Combiner, Order, origin, same_length};
use super::layout::{Datatype, Entry, Origin, product};
use super::*;
use crate::error::{ErrorClass, Result, fail};
use std::rc::Rc;

/// How the indices of a dimension are dealt to processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// All of them to each.
    None,
    /// One block to each.
    Block,
    /// Blocks in turn.
    Cyclic,
}

impl Distribution {
    const ALL: [Distribution; 3] = [Distribution::None, Distribution::Block, Distribution::Cyclic];

    /// As it stands among the integers of a datatype's contents.
    pub fn code(self) -> i64 {
        self as i64
    }

    /// From there.
    pub fn from_code(code: i64) -> Option<Self> {
        usize::try_from(code).ok().and_then(|code| Self::ALL.get(code).copied())
    }
}

/// One dimension of a distributed array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Elements.
    pub global: i64,
    /// How they are dealt.
    pub distribution: Distribution,
    /// Elements of a block; `None` is the default.
    pub block: Option<i64>,
    /// Processes along it.
    pub processes: i64,
}

/// A distributed array and a process of the grid it is dealt to, whose last dimension runs fastest.
#[derive(Clone, Copy, Debug)]
pub struct Distributed<'a> {
    /// Processes.
    pub size: i64,
    /// Which of them.
    pub rank: i64,
    /// The dimensions.
    pub dimensions: &'a [Dimension],
    /// Storage order of the array.
    pub order: Order,
}

/// Stands for the default length of blocks among the integers of a datatype's contents.
pub const DEFAULT_BLOCK: i64 = -1;

impl Mpi {
    /// A part of an array.
    pub fn type_subarray(
        &mut self,
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        ty: TypeId,
    ) -> Result<TypeId> {
        let old = self.datatype(ty)?.clone();
        same_length(sizes.len(), subsizes.len())?;
        same_length(sizes.len(), starts.len())?;
        if sizes.is_empty() {
            return fail(ErrorClass::Arg, "a subarray of no dimensions");
        }
        for ((size, sub), start) in sizes.iter().zip(subsizes).zip(starts) {
            if *size < 1 || *sub < 1 || *start < 0 || *sub > *size || *start > *size - *sub {
                return fail(ErrorClass::Arg, format!("{sub} from {start} in a dimension of {size}"));
            }
        }
        let integers = [&[sizes.len() as i64], sizes, subsizes, starts, &[order.code()]].concat();
        let mut row = old.clone();
        for dimension in order.fastest_first(sizes.len()) {
            let at = product(starts[dimension], row.extent)?;
            row = level(&[Entry::block(at, subsizes[dimension], &row)], sizes[dimension], &row)?;
        }
        let made = Datatype::copied(&row, origin(Combiner::Subarray, integers, vec![], vec![old]));
        Ok(self.new_type(Rc::new(made)))
    }

    /// What a process has of a distributed array.
    pub fn type_darray(&mut self, array: Distributed<'_>, ty: TypeId) -> Result<TypeId> {
        let old = self.datatype(ty)?.clone();
        let place = array.check()?;
        let mut row = old.clone();
        for index in array.order.fastest_first(array.dimensions.len()) {
            let dimension = &array.dimensions[index];
            row = level(&dimension.share(place[index], &row)?, dimension.global, &row)?;
        }
        let made = Datatype::copied(&row, origin(Combiner::Darray, array.integers(), vec![], vec![old]));
        Ok(self.new_type(Rc::new(made)))
    }
}

/// A dimension of an array, of which the entries are there: as long as all of its `size` elements.
fn level(entries: &[Entry<'_>], size: i64, row: &Datatype) -> Result<Rc<Datatype>> {
    let extent = product(size, row.extent)?;
    let part = Datatype::of(entries.iter().copied(), Origin::of(Combiner::Subarray))?;
    Ok(Rc::new(Datatype::resized(&part, 0, extent, Origin::of(Combiner::Subarray))?))
}

impl Distributed<'_> {
    /// The place of the process in the grid.
    fn check(&self) -> Result<Vec<i64>> {
        let Distributed { size, rank, dimensions, .. } = *self;
        if dimensions.is_empty() {
            return fail(ErrorClass::Arg, "a distributed array of no dimensions");
        }
        if rank < 0 || rank >= size {
            return fail(ErrorClass::Arg, format!("rank {rank} of {size} processes"));
        }
        let mut processes: i64 = 1;
        for dimension in dimensions {
            dimension.check()?;
            processes = product(processes, dimension.processes)?;
        }
        if processes != size {
            return fail(ErrorClass::Arg, format!("a grid of {processes} processes for {size}"));
        }
        let mut rest = rank;
        let mut place: Vec<i64> = dimensions
            .iter()
            .rev()
            .map(|dimension| {
                let here = rest % dimension.processes;
                rest /= dimension.processes;
                here
            })
            .collect();
        place.reverse();
        Ok(place)
    }

    /// In the order of MPI-5 5.1.13.
    fn integers(&self) -> Vec<i64> {
        let dimensions = self.dimensions;
        let mut list = vec![self.size, self.rank, dimensions.len() as i64];
        list.extend(dimensions.iter().map(|dimension| dimension.global));
        list.extend(dimensions.iter().map(|dimension| dimension.distribution.code()));
        list.extend(dimensions.iter().map(|dimension| dimension.block.unwrap_or(DEFAULT_BLOCK)));
        list.extend(dimensions.iter().map(|dimension| dimension.processes));
        list.push(self.order.code());
        list
    }
}

impl Dimension {
    fn check(&self) -> Result<()> {
        let Dimension { global, distribution, block, processes } = *self;
        if global < 1 || processes < 1 || block.is_some_and(|block| block < 1) {
            return fail(
                ErrorClass::Arg,
                format!("{global} elements in blocks of {block:?} for {processes} processes"),
            );
        }
        if distribution == Distribution::None && processes != 1 {
            return fail(
                ErrorClass::Arg,
                format!("a dimension that is not distributed, over {processes} processes"),
            );
        }
        let short = block.is_some_and(|block| block.checked_mul(processes).is_some_and(|all| all < global));
        if distribution == Distribution::Block && short {
            let block = block.unwrap_or(0);
            return fail(
                ErrorClass::Arg,
                format!("{processes} blocks of {block} do not hold {global} elements"),
            );
        }
        Ok(())
    }

    /// The elements of the process at `place` (MPI-5 5.1.4).
    fn share<'a>(&self, place: i64, row: &'a Rc<Datatype>) -> Result<Vec<Entry<'a>>> {
        let (block, stride) = match self.distribution {
            Distribution::None => (self.global, self.global),
            Distribution::Block => {
                let block = self.block.unwrap_or((self.global - 1) / self.processes + 1);
                (block, self.global)
            }
            Distribution::Cyclic => {
                let block = self.block.unwrap_or(1);
                (block, product(block, self.processes)?)
            }
        };
        let start = product(place, block)?;
        if start >= self.global {
            return Ok(Vec::new());
        }
        // The blocks that begin inside the array; the last may be cut off by its end.
        let blocks = if self.distribution == Distribution::Cyclic {
            (self.global - 1 - start) / stride + 1
        } else {
            1
        };
        let last = start + (blocks - 1) * stride;
        let rest = block.min(self.global - last);
        let at = |index: i64| product(index, row.extent);
        let whole = if rest == block { blocks } else { blocks - 1 };
        let mut entries = Vec::new();
        if whole > 0 {
            let (at, stride) = (at(start)?, at(stride)?);
            entries.push(Entry { at, count: whole, stride, repeat: block, ty: row });
        }
        if whole < blocks {
            entries.push(Entry::block(at(last)?, rest, row));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dimension(global: i64, distribution: Distribution, block: Option<i64>, processes: i64) -> Dimension {
        Dimension { global, distribution, block, processes }
    }

    /// Which indices a process gets.
    fn indices(dimension: Dimension, place: i64) -> Vec<i64> {
        let byte = Rc::new(Datatype::predefined(
            TypeId::BYTE,
            &super::super::predefined::TABLE[TypeId::BYTE.index()],
        ));
        let share = dimension.share(place, &byte).unwrap();
        let block = |e: &Entry<'_>, i: i64| e.at + i * e.stride..e.at + i * e.stride + e.repeat;
        share.iter().flat_map(|e| (0..e.count).flat_map(|i| block(e, i)).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn every_index_goes_to_the_process_whose_turn_it_is() {
        for (global, block, processes) in [(10, 1, 3), (10, 3, 2), (7, 4, 3), (12, 2, 3), (1, 5, 4)] {
            for place in 0..processes {
                let expected: Vec<i64> = (0..global).filter(|i| i / block % processes == place).collect();
                let dealt = dimension(global, Distribution::Cyclic, Some(block), processes);
                assert_eq!(indices(dealt, place), expected, "{dealt:?} at {place}");
            }
        }
        for (global, processes) in [(10, 3), (9, 3), (3, 5)] {
            let each = (global + processes - 1) / processes;
            for place in 0..processes {
                let expected: Vec<i64> = (0..global).filter(|i| i / each == place).collect();
                assert_eq!(indices(dimension(global, Distribution::Block, None, processes), place), expected);
            }
        }
        assert_eq!(indices(dimension(4, Distribution::None, None, 1), 0), [0, 1, 2, 3]);
    }

    #[test]
    fn impossible_arrays_are_refused() {
        let bad = |dimension: Dimension| assert_eq!(dimension.check().unwrap_err().class, ErrorClass::Arg);
        bad(dimension(10, Distribution::Block, Some(3), 3));
        bad(dimension(10, Distribution::None, None, 2));
        bad(dimension(0, Distribution::Block, None, 2));
        bad(dimension(10, Distribution::Cyclic, Some(0), 2));
        let one = [dimension(10, Distribution::Block, None, 2)];
        let array = Distributed { size: 4, rank: 0, dimensions: &one, order: Order::C };
        assert_eq!(array.check().unwrap_err().class, ErrorClass::Arg, "2 processes are not 4");
        let two = [one[0], dimension(9, Distribution::Cyclic, None, 3)];
        let array = Distributed { size: 6, rank: 4, dimensions: &two, order: Order::Fortran };
        assert_eq!(array.check().unwrap(), [1, 1], "the last dimension of the grid runs fastest");
    }
}
