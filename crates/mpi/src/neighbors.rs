//! Topologies of the safe API: processes as a grid or a graph, and what neighbors exchange.
use crate::communicator::Communicator;
use crate::core::{Coll, Data, DistributedGraph, Made, Mpi};
use crate::datum::{Datum, received, sent};
use crate::error::{ErrorClass, Result, fail};
use crate::universe::no_job;

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
    /// ```no_run
    /// # let world = mpi::init()?.world();
    /// let ring = world.grid(&[world.size()], &[true])?.expect("all are in it");
    /// let mut halo = [0.0; 2];
    /// ring.neighbor_alltoall(&[1.0, 2.0], &mut halo)?; // halo[0] is what the lower neighbor sent upwards
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn grid(&self, dims: &[usize], periodic: &[bool]) -> Result<Option<Communicator>> {
        let dims: Vec<i32> = dims.iter().map(|dim| i32::try_from(*dim).unwrap_or(i32::MAX)).collect();
        self.make(|mpi| mpi.start_cart(self.id(), &dims, periodic))
    }

    /// Collective: the same processes as a graph. Each names those from whom it receives and those to whom it sends.
    pub fn graph(&self, sources: &[usize], dests: &[usize]) -> Result<Communicator> {
        let ranks =
            |list: &[usize]| list.iter().map(|rank| i32::try_from(*rank).unwrap_or(i32::MAX)).collect();
        let edges = DistributedGraph { sources: ranks(sources), dests: ranks(dests), weights: None };
        match self.make(|mpi| mpi.start_adjacent(self.id(), edges))? {
            Some(graph) => Ok(graph),
            None => fail(ErrorClass::Intern, "every process is in the graph"),
        }
    }

    /// The neighbors of this process; an error if the communicator is neither a grid nor a graph.
    pub fn neighbors(&self) -> Result<Neighbors> {
        let around = self.engine().call(|mpi| mpi.neighborhood(self.id()))?;
        let ranks = |list: Vec<Option<u32>>| list.into_iter().map(|rank| rank.map(|rank| rank as usize));
        Ok(Neighbors { sources: ranks(around.sources).collect(), dests: ranks(around.dests).collect() })
    }

    /// Sends the elements to every neighbor, and collects those of every neighbor (equally many).
    pub fn neighbor_allgather<T: Datum>(&self, data: &[T]) -> Result<Vec<T>> {
        let sources = self.neighbors()?.sources.len();
        let mut all = vec![T::default(); data.len() * sources];
        let (send, room) = (sent(data), received(&mut all));
        self.exchange(Coll::NeighborAllgather { send, recv: Data { count: send.count, ..room } })?;
        Ok(all)
    }

    /// Sends every neighbor its part of `data`, and receives a part of `into` from every neighbor; parts are equal.
    pub fn neighbor_alltoall<T: Datum>(&self, data: &[T], into: &mut [T]) -> Result<()> {
        let around = self.neighbors()?;
        let part = |len: usize, neighbors: usize| match neighbors {
            0 if len == 0 => Ok(0),
            1.. if len.is_multiple_of(neighbors) => Ok((len / neighbors) as i64),
            _ => fail(ErrorClass::Count, format!("{len} elements for {neighbors} neighbors")),
        };
        let counts = part(data.len(), around.dests.len())
            .and_then(|sent| Ok((sent, part(into.len(), around.sources.len())?)));
        let (sends, recvs) = self.engine().note(counts)?;
        let (send, recv) = (Data { count: sends, ..sent(data) }, Data { count: recvs, ..received(into) });
        self.exchange(Coll::NeighborAlltoall { send, recv })
    }

    fn exchange(&self, call: Coll<'_>) -> Result<()> {
        self.engine().block(|mpi| mpi.collective(self.id(), call), no_job)?;
        Ok(())
    }

    fn make(&self, start: impl FnOnce(&mut Mpi) -> Result<Made>) -> Result<Option<Communicator>> {
        let id = self.engine().call(|mpi| {
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
    }
}
