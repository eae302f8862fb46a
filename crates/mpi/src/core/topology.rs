//! Cartesian topologies.
use super::*;
use crate::error::Result;

/// A Cartesian grid of processes; the last dimension runs fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    /// Processes in each dimension.
    pub dims: Vec<i32>,
    /// Does the dimension wrap around?
    pub periods: Vec<bool>,
    /// This process's place.
    pub coords: Vec<i32>,
}

impl Mpi {
    /// Collective: a communicator with a grid; `None` for processes beyond it.
    pub fn cart_create(&mut self, comm: CommId, dims: &[i32], periods: &[bool]) -> Result<Option<CommId>> {
        unimplemented!()
    }
    /// The grid of a communicator; `None` if it has none.
    pub fn cart(&self, comm: CommId) -> Result<Option<&Cart>> {
        unimplemented!()
    }
    /// The rank at `coords` (wrapped where periodic).
    pub fn cart_rank(&self, comm: CommId, coords: &[i32]) -> Result<u32> {
        unimplemented!()
    }
    /// The coordinates of a rank.
    pub fn cart_coords(&self, comm: CommId, rank: i32) -> Result<Vec<i32>> {
        unimplemented!()
    }
    /// (source, destination) of a shift.
    pub fn cart_shift(&self, comm: CommId, dimension: i32, displacement: i32) -> Result<(Peer, Peer)> {
        unimplemented!()
    }
    /// Collective: the sub-grids that keep the given dimensions.
    pub fn cart_sub(&mut self, comm: CommId, keep: &[bool]) -> Result<CommId> {
        unimplemented!()
    }
    /// Fills the zeros of `dims` with a balanced factorisation of `nodes`.
    pub fn dims_create(nodes: i32, dims: &mut [i32]) -> Result<()> {
        unimplemented!()
    }
}
