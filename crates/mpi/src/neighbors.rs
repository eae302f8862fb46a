//! Topologies of the safe API: processes as a grid or a graph.
use crate::communicator::Communicator;
use crate::core::{DistributedGraph, Made, Mpi, enter_call};
use crate::error::Result;

/// The neighbors of a process, in the order of their blocks. `None` is beyond the edge of a grid: nothing comes from
/// there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbors {
    /// Those who send to it.
    pub sources: Vec<Option<usize>>,
    /// Those to whom it sends.
    pub dests: Vec<Option<usize>>,
}

impl Communicator {
    /// Collective: the first processes as a grid, of which the last dimension runs fastest; `None` for the others. Each
    /// has two neighbors in a dimension, the lower one first; a periodic dimension goes round.
    ///
    /// ```
    /// # let world = mpi::init()?.world();
    /// let ring = world.grid(&[world.size()], &[true])?.expect("all are in it");
    /// let mut halo = [0.0; 2];
    /// ring.neighbor_alltoall(&[1.0, 2.0], &mut halo)?; // halo[0] is what the lower neighbor sent upwards
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn grid(&self, dims: &[usize], periodic: &[bool]) -> Result<Option<Communicator>> {
        let dims: Vec<i32> = dims.iter().map(|dim| i32::try_from(*dim).unwrap_or(i32::MAX)).collect();
        self.make("grid", "MPI_Cart_create", |mpi| mpi.start_cart(self.id(), &dims, periodic))
    }

    /// Collective: the same processes as a graph. Each names those from whom it receives and those to whom it sends.
    pub fn graph(&self, sources: &[usize], dests: &[usize]) -> Result<Communicator> {
        let ranks =
            |list: &[usize]| list.iter().map(|rank| i32::try_from(*rank).unwrap_or(i32::MAX)).collect();
        let edges = DistributedGraph { sources: ranks(sources), dests: ranks(dests), weights: None };
        let start = |mpi: &mut Mpi| mpi.start_adjacent(self.id(), edges);
        let made = self.make("graph", "MPI_Dist_graph_create_adjacent", start)?;
        self.in_it("graph", made)
    }

    /// The neighbors of this process; an error if the communicator is neither a grid nor a graph.
    pub fn neighbors(&self) -> Result<Neighbors> {
        let around = self.engine().call(self.here("neighbors"), |mpi| mpi.neighborhood(self.id()))?;
        let ranks = |list: Vec<Option<u32>>| list.into_iter().map(|rank| rank.map(|rank| rank as usize));
        Ok(Neighbors { sources: ranks(around.sources).collect(), dests: ranks(around.dests).collect() })
    }

    /// Waits for a communicator that is being made. Where programs are checked, members compare by which function of the
    /// standard (`named`): some may be C programs.
    pub(crate) fn make(
        &self,
        call: &'static str,
        named: &'static str,
        start: impl FnOnce(&mut Mpi) -> Result<Made>,
    ) -> Result<Option<Communicator>> {
        let id = self.engine().call(self.here(call), |mpi| {
            enter_call(named);
            let made = start(mpi)?;
            mpi.make(made)
        })?;
        id.map(|id| Communicator::new(self.inner.engine.clone(), id)).transpose()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_alone_is_its_own_neighbor() {
        let world = crate::init().expect("a process alone").world();
        let grid = world.grid(&[1, 1], &[true, false]).expect("a grid").expect("it is in it");
        assert_eq!(grid.neighbors().expect("a grid").sources, [Some(0), Some(0), None, None]);
        let mut halo = [0; 4];
        grid.neighbor_alltoall(&[1, 2, 3, 4], &mut halo).expect("an exchange");
        assert_eq!(halo, [2, 1, 0, 0], "what goes down comes from above");
        assert_eq!(grid.neighbor_allgather(&[7_u8]).expect("an exchange"), [7, 7, 0, 0]);

        let graph = world.graph(&[0, 0], &[0, 0]).expect("a graph");
        let mut into = [0; 4];
        graph.neighbor_alltoall(&[1, 2, 3, 4], &mut into).expect("an exchange");
        assert_eq!(into, [1, 2, 3, 4], "edges meet in their order");
        let by_edge = graph.neighbor_alltoallv(&[1, 2, 3], &[1, 2], &[1, 2]).expect("an exchange");
        assert_eq!(by_edge, [1, 2, 3]);
        assert_eq!(graph.neighbor_allgatherv(&[7, 8], &[2, 2]).expect("an exchange"), [7, 8, 7, 8]);
        let wrong = graph.neighbor_allgatherv(&[7, 8], &[4]).expect_err("two neighbors");
        assert_eq!((wrong.class, wrong.call()), (crate::ErrorClass::Count, Some("neighbor_allgatherv")));
        world.barrier().expect("a mistake of the caller ends nothing");
    }
}
