//! Graph topologies.
use crate::abi::Abi;
use crate::args::{In, Ptr};
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run};
use crate::handles;
use mpi::ErrorClass;
use mpi::core::{CommId, DistributedGraph, Graph, GraphEdge, Made};
use std::ffi::c_int;

/// A number of processes or edges.
fn number(n: c_int, what: &str) -> Outcome<usize> {
    match usize::try_from(n) {
        Ok(n) => Ok(n),
        Err(_) => fail(ErrorClass::Arg, format!("{n} {what}")),
    }
}

/// The graph of a communicator.
fn graph<A: Abi>(call: &Call<A>, comm: CommId) -> Outcome<&Graph> {
    match call.graph(comm)? {
        Some(graph) => Ok(graph),
        None => fail(ErrorClass::Topology, "the communicator has no graph topology"),
    }
}

/// This process's edges in the distributed graph of a communicator.
fn edges<A: Abi>(call: &Call<A>, comm: CommId) -> Outcome<&DistributedGraph> {
    match call.distributed_graph(comm)? {
        Some(edges) => Ok(edges),
        None => fail(ErrorClass::Topology, "the communicator has no distributed graph topology"),
    }
}

/// Waits for a communicator and stores its handle.
fn finish<A: Abi>(call: &mut Call<A>, made: Made, out: Ptr<A::Handle>) -> Outcome<()> {
    let new = crate::comm::make(call, made)?;
    Ok(out.set(handles::of_comm_or_null::<A>(new))?)
}

/// Index and edges as `MPI_Graph_create` gets them.
fn whole(nnodes: c_int, index: In<c_int>, edges: In<c_int>) -> Outcome<(Vec<c_int>, Vec<c_int>)> {
    let index = index.list(number(nnodes, "processes in a graph")?)?;
    let count = number(index.last().copied().unwrap_or(0), "edges")?;
    Ok((index, edges.list(count)?))
}

/// `MPI_Graph_create`: ranks are not reordered.
pub fn graph_create<A: Abi>(
    comm_old: A::Handle,
    nnodes: c_int,
    indx: In<c_int>,
    edges: In<c_int>,
    _reorder: c_int,
    comm_graph: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Graph_create", On::Comm(comm_old), |call| {
        comm_graph.set(A::handle(A::C.comm_null))?;
        let (index, edges) = whole(nnodes, indx, edges)?;
        let made = call.start_graph(handles::comm::<A>(comm_old)?, &index, &edges)?;
        finish(call, made, comm_graph)
    })
}

/// `MPI_Graph_map`: ranks are not reordered.
pub fn graph_map<A: Abi>(
    comm: A::Handle,
    nnodes: c_int,
    _indx: In<c_int>,
    _edges: In<c_int>,
    newrank: Ptr<c_int>,
) -> c_int {
    run::<A>("MPI_Graph_map", On::Comm(comm), |call| {
        let id = handles::comm::<A>(comm)?;
        let (rank, size) = (call.comm_rank(id)? as usize, call.comm_size(id)? as usize);
        match number(nnodes, "processes in a graph")? {
            nodes if nodes == 0 || nodes > size => {
                fail(ErrorClass::Arg, format!("a graph of {nodes} processes does not fit on {size}"))
            }
            nodes => Ok(newrank.set(if rank < nodes { rank as c_int } else { A::C.undefined as c_int })?),
        }
    })
}

/// `MPI_Graphdims_get`
pub fn graphdims_get<A: Abi>(comm: A::Handle, nnodes: Ptr<c_int>, nedges: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Graphdims_get", On::Comm(comm), |call| {
        let graph = graph(call, handles::comm::<A>(comm)?)?;
        nnodes.set(graph.index.len() as c_int)?;
        Ok(nedges.set(graph.edges.len() as c_int)?)
    })
}

/// `MPI_Graph_get`
pub fn graph_get<A: Abi>(
    comm: A::Handle,
    maxindex: c_int,
    maxedges: c_int,
    indx: Ptr<c_int>,
    edges: Ptr<c_int>,
) -> c_int {
    run::<A>("MPI_Graph_get", On::Comm(comm), |call| {
        let graph = graph(call, handles::comm::<A>(comm)?)?;
        let (nodes, count) = (number(maxindex, "processes")?, number(maxedges, "edges")?);
        indx.set_list(graph.index.iter().copied().take(nodes))?;
        Ok(edges.set_list(graph.edges.iter().copied().take(count))?)
    })
}

/// `MPI_Graph_neighbors_count`
pub fn graph_neighbors_count<A: Abi>(comm: A::Handle, rank: c_int, nneighbors: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Graph_neighbors_count", On::Comm(comm), |call| {
        let graph = graph(call, handles::comm::<A>(comm)?)?;
        Ok(nneighbors.set(graph.neighbors(rank)?.len() as c_int)?)
    })
}

/// `MPI_Graph_neighbors`
pub fn graph_neighbors<A: Abi>(
    comm: A::Handle,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: Ptr<c_int>,
) -> c_int {
    run::<A>("MPI_Graph_neighbors", On::Comm(comm), |call| {
        let room = number(maxneighbors, "neighbors")?;
        let graph = graph(call, handles::comm::<A>(comm)?)?;
        Ok(neighbors.set_list(graph.neighbors(rank)?.iter().copied().take(room))?)
    })
}

/// The weights of `len` edges; `None` where there are none in the graph.
fn weights<A: Abi>(list: In<c_int>, len: usize) -> Outcome<Option<Vec<c_int>>> {
    let [unweighted, empty] = A::weight_marks();
    match list.addr() {
        at if at == unweighted => Ok(None),
        at if at == empty && len > 0 => {
            fail(ErrorClass::Arg, format!("MPI_WEIGHTS_EMPTY as the weights of {len} edges"))
        }
        _ if len == 0 => Ok(Some(Vec::new())),
        _ => Ok(Some(list.list(len)?)),
    }
}

/// `MPI_Dist_graph_create_adjacent`: ranks are not reordered.
#[allow(clippy::too_many_arguments)]
pub fn dist_graph_create_adjacent<A: Abi>(
    comm_old: A::Handle,
    indegree: c_int,
    sources: In<c_int>,
    sourceweights: In<c_int>,
    outdegree: c_int,
    destinations: In<c_int>,
    destweights: In<c_int>,
    info: A::Handle,
    _reorder: c_int,
    comm_dist_graph: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Dist_graph_create_adjacent", On::Comm(comm_old), |call| {
        comm_dist_graph.set(A::handle(A::C.comm_null))?;
        handles::info_or_null::<A>(info)?;
        let (incoming, outgoing) =
            (number(indegree, "incoming edges")?, number(outdegree, "outgoing edges")?);
        let weights = match (weights::<A>(sourceweights, incoming)?, weights::<A>(destweights, outgoing)?) {
            (Some(sources), Some(dests)) => Some((sources, dests)),
            (None, None) => None,
            _ => return fail(ErrorClass::Arg, "MPI_UNWEIGHTED for one direction only"),
        };
        let (sources, dests) = (sources.list(incoming)?, destinations.list(outgoing)?);
        let edges = DistributedGraph { sources, dests, weights };
        let made = call.start_adjacent(handles::comm::<A>(comm_old)?, edges)?;
        finish(call, made, comm_dist_graph)
    })
}

/// `MPI_Dist_graph_create`: ranks are not reordered.
#[allow(clippy::too_many_arguments)]
pub fn dist_graph_create<A: Abi>(
    comm_old: A::Handle,
    n: c_int,
    sources: In<c_int>,
    degrees: In<c_int>,
    destinations: In<c_int>,
    weights: In<c_int>,
    info: A::Handle,
    _reorder: c_int,
    comm_dist_graph: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Dist_graph_create", On::Comm(comm_old), |call| {
        comm_dist_graph.set(A::handle(A::C.comm_null))?;
        handles::info_or_null::<A>(info)?;
        let n = number(n, "sources")?;
        let (sources, degrees) = (sources.list(n)?, degrees.list(n)?);
        let ends = sources
            .iter()
            .zip(&degrees)
            .map(|(source, degree)| Ok(std::iter::repeat_n(*source, number(*degree, "edges of a source")?)));
        let ends: Vec<c_int> = ends.collect::<Outcome<Vec<_>>>()?.into_iter().flatten().collect();
        let (dests, weights) = (destinations.list(ends.len())?, self::weights::<A>(weights, ends.len())?);
        let edge = |(place, (source, dest)): (usize, (&c_int, &c_int))| {
            let weight = weights.as_ref().map_or(1, |weights| weights[place]);
            GraphEdge { source: *source, dest: *dest, weight }
        };
        let edges: Vec<GraphEdge> = ends.iter().zip(&dests).enumerate().map(edge).collect();
        let made = call.start_distributed(handles::comm::<A>(comm_old)?, &edges, weights.is_some())?;
        finish(call, made, comm_dist_graph)
    })
}

/// `MPI_Dist_graph_neighbors_count`
pub fn dist_graph_neighbors_count<A: Abi>(
    comm: A::Handle,
    indegree: Ptr<c_int>,
    outdegree: Ptr<c_int>,
    weighted: Ptr<c_int>,
) -> c_int {
    run::<A>("MPI_Dist_graph_neighbors_count", On::Comm(comm), |call| {
        let edges = edges(call, handles::comm::<A>(comm)?)?;
        indegree.set(edges.sources.len() as c_int)?;
        outdegree.set(edges.dests.len() as c_int)?;
        Ok(weighted.set(edges.weights.is_some().into())?)
    })
}

/// `MPI_Dist_graph_neighbors`
pub fn dist_graph_neighbors<A: Abi>(
    comm: A::Handle,
    maxindegree: c_int,
    sources: Ptr<c_int>,
    sourceweights: Ptr<c_int>,
    maxoutdegree: c_int,
    destinations: Ptr<c_int>,
    destweights: Ptr<c_int>,
) -> c_int {
    run::<A>("MPI_Dist_graph_neighbors", On::Comm(comm), |call| {
        let edges = edges(call, handles::comm::<A>(comm)?)?;
        let (incoming, outgoing) = (number(maxindegree, "sources")?, number(maxoutdegree, "destinations")?);
        sources.set_list(edges.sources.iter().copied().take(incoming))?;
        destinations.set_list(edges.dests.iter().copied().take(outgoing))?;
        let Some((from, to)) = &edges.weights else { return Ok(()) };
        let wanted = |place: Ptr<c_int>| !A::weight_marks().contains(&place.addr());
        if wanted(sourceweights) {
            sourceweights.set_list(from.iter().copied().take(incoming))?;
        }
        if wanted(destweights) {
            destweights.set_list(to.iter().copied().take(outgoing))?;
        }
        Ok(())
    })
}
