//! Graph topologies: who is whose neighbor, as the program says.
//!
//! [`Graph`] is known to every process as a whole; of a [`Distributed`] one each process knows its own edges only.
use super::edges::{Edges, Told};
use super::topology::Topology;
use super::*;
use crate::error::{ErrorClass, Result, fail};

/// A graph that every process knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Where the neighbors of the next process begin in `edges`.
    pub index: Vec<i32>,
    /// The neighbors of all processes, one after the other.
    pub edges: Vec<i32>,
}

impl Graph {
    /// Checks what a program gives: one place for each process, none before the last.
    fn new(index: &[i32], edges: &[i32]) -> Result<Self> {
        let rises = index.windows(2).all(|pair| pair[0] <= pair[1]);
        if !rises || index.first().is_some_and(|first| *first < 0) {
            return fail(ErrorClass::Arg, format!("the index {index:?} of a graph falls"));
        }
        let count = index.last().map_or(0, |last| *last as usize);
        let Some(edges) = edges.get(..count) else {
            return fail(ErrorClass::Arg, format!("{} edges where the index has {count}", edges.len()));
        };
        if let Some(edge) = edges.iter().find(|edge| !(0..index.len() as i32).contains(*edge)) {
            return fail(
                ErrorClass::Arg,
                format!("an edge to {edge} in a graph of {} processes", index.len()),
            );
        }
        Ok(Graph { index: index.to_vec(), edges: edges.to_vec() })
    }

    /// The neighbors of a process.
    pub fn neighbors(&self, rank: i32) -> Result<&[i32]> {
        let place = usize::try_from(rank).ok().filter(|rank| *rank < self.index.len());
        let Some(place) = place else {
            return fail(ErrorClass::Rank, format!("rank {rank} in a graph of {}", self.index.len()));
        };
        let from = if place == 0 { 0 } else { self.index[place - 1] };
        Ok(&self.edges[from as usize..self.index[place] as usize])
    }
}

/// The edges of one process in a graph that nobody knows as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distributed {
    /// Those who send to it.
    pub sources: Vec<i32>,
    /// Those to whom it sends.
    pub dests: Vec<i32>,
    /// Weights of the edges in both lists, if they have any.
    pub weights: Option<(Vec<i32>, Vec<i32>)>,
}

impl Distributed {
    pub(super) fn from_told(told: &[Told], weighted: bool) -> Self {
        let side = |incoming: bool| told.iter().filter(move |edge| edge.incoming == incoming);
        let peers = |incoming| side(incoming).map(|edge| edge.peer as i32).collect();
        let weights = |incoming| side(incoming).map(|edge| edge.weight).collect();
        let both = weighted.then(|| (weights(true), weights(false)));
        Distributed { sources: peers(true), dests: peers(false), weights: both }
    }
}

/// An edge of a distributed graph, told by any process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphEdge {
    /// Who sends.
    pub source: i32,
    /// Who receives.
    pub dest: i32,
    /// Its weight; ignored in a graph without weights.
    pub weight: i32,
}

impl Mpi {
    /// Collective: a communicator with a graph; none for processes beyond it.
    pub fn start_graph(&mut self, comm: CommId, index: &[i32], edges: &[i32]) -> Result<Made> {
        self.one_group(comm, "a graph")?;
        let graph = Graph::new(index, edges)?;
        let size = self.comm_size(comm)?;
        if index.len() > size as usize {
            return fail(ErrorClass::Arg, format!("a graph of {} in a communicator of {size}", index.len()));
        }
        self.start_first(comm, index.len() as u32, Topology::Graph(graph))
    }

    /// Collective: a communicator whose processes know their own edges. Everybody gives both its lists.
    pub fn start_adjacent(&mut self, comm: CommId, edges: Distributed) -> Result<Made> {
        self.one_group(comm, "a graph")?;
        let size = self.comm_size(comm)?;
        edges.sources.iter().chain(&edges.dests).try_for_each(|rank| member(*rank, size))?;
        let weights = edges.weights.iter().flat_map(|(sources, dests)| sources.iter().chain(dests));
        not_negative(weights.copied())?;
        self.start_first(comm, size, Topology::Distributed(edges))
    }

    /// Collective: a communicator whose processes know their own edges. Everybody gives some edges of the graph.
    pub fn start_distributed(&mut self, comm: CommId, edges: &[GraphEdge], weighted: bool) -> Result<Made> {
        self.one_group(comm, "a graph")?;
        let size = self.comm_size(comm)?;
        for edge in edges {
            member(edge.source, size)?;
            member(edge.dest, size)?;
        }
        if weighted {
            not_negative(edges.iter().map(|edge| edge.weight))?;
        }
        let (told, barrier) = (self.next_sequence(comm)?, self.barrier_of(comm)?);
        let exchange = Edges::new(barrier, told, edges, weighted);
        self.start_after(comm, exchange)
    }

    /// The graph of a communicator; `None` if it has none.
    pub fn graph(&self, comm: CommId) -> Result<Option<&Graph>> {
        Ok(match self.topology(comm)? {
            Some(Topology::Graph(graph)) => Some(graph),
            _ => None,
        })
    }

    /// This process's edges in the distributed graph of a communicator; `None` if it has none.
    pub fn distributed_graph(&self, comm: CommId) -> Result<Option<&Distributed>> {
        Ok(match self.topology(comm)? {
            Some(Topology::Distributed(edges)) => Some(edges),
            _ => None,
        })
    }

    /// A barrier that has not begun.
    fn barrier_of(&mut self, comm: CommId) -> Result<Box<collective::Collective>> {
        let mut barrier = self.prepare(comm, Coll::Barrier, check::Form::Nonblocking)?;
        barrier.tag = self.next_sequence(comm)?;
        Ok(barrier)
    }
}

fn member(rank: i32, size: u32) -> Result<()> {
    match u32::try_from(rank) {
        Ok(rank) if rank < size => Ok(()),
        _ => fail(ErrorClass::Rank, format!("an edge to rank {rank} in a communicator of {size}")),
    }
}

fn not_negative(mut weights: impl Iterator<Item = i32>) -> Result<()> {
    match weights.find(|weight| *weight < 0) {
        Some(weight) => fail(ErrorClass::Arg, format!("the weight {weight} of an edge")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_has_neighbors_by_its_index() {
        let graph = Graph::new(&[2, 2, 5], &[1, 2, 0, 0, 2, 9]).unwrap();
        assert_eq!(graph.neighbors(0).unwrap(), [1, 2]);
        assert_eq!(graph.neighbors(1).unwrap(), [0; 0]);
        assert_eq!(graph.neighbors(2).unwrap(), [0, 0, 2]);
        assert_eq!(graph.neighbors(3).unwrap_err().class, ErrorClass::Rank);
        assert_eq!(graph.neighbors(-1).unwrap_err().class, ErrorClass::Rank);
    }

    #[test]
    fn graphs_that_make_no_sense_are_refused() {
        for (index, edges) in
            [(&[1, 0][..], &[1, 1][..]), (&[-1, 1], &[0]), (&[1, 2], &[0, 2]), (&[1, 2], &[0]), (&[1], &[-1])]
        {
            assert_eq!(Graph::new(index, edges).unwrap_err().class, ErrorClass::Arg, "{index:?} {edges:?}");
        }
    }
}
