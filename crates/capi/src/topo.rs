//! Cartesian topologies.
use crate::abi::Abi;
use crate::args::{In, Ptr};
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run};
use crate::handles;
use mpi::ErrorClass;
use mpi::core::{Cart, CommId, Mpi, Peer, Topology};
use std::ffi::c_int;

fn dimensions(n: c_int) -> Outcome<usize> {
    match usize::try_from(n) {
        Ok(n) => Ok(n),
        Err(_) => fail(ErrorClass::Dims, format!("{n} dimensions")),
    }
}

/// The grid of a communicator.
fn grid<A: Abi>(call: &Call<A>, comm: CommId) -> Outcome<Cart> {
    match call.cart(comm)? {
        Some(cart) => Ok(cart.clone()),
        None => fail(ErrorClass::Topology, "the communicator has no Cartesian topology"),
    }
}

/// `MPI_Cart_create`
pub fn cart_create<A: Abi>(
    comm_old: A::Handle,
    ndims: c_int,
    dims: In<c_int>,
    periods: In<c_int>,
    _reorder: c_int,
    comm_cart: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Cart_create", On::Comm(comm_old), |call| {
        comm_cart.set(A::handle(A::C.comm_null))?;
        let n = dimensions(ndims)?;
        let (dims, periods) = (dims.list(n)?, flags(periods, n)?);
        let made = call.start_cart(handles::comm::<A>(comm_old)?, &dims, &periods)?;
        let new = crate::comm::make(call, made)?;
        Ok(comm_cart.set(handles::of_comm_or_null::<A>(new))?)
    })
}

fn flags(list: In<c_int>, n: usize) -> Outcome<Vec<bool>> {
    Ok(list.list(n)?.into_iter().map(|flag| flag != 0).collect())
}

/// `MPI_Cart_map`: ranks are not reordered. A grid without places has nobody in it, as in MPICH (programs divide by sizes).
pub fn cart_map<A: Abi>(
    comm: A::Handle,
    ndims: c_int,
    dims: In<c_int>,
    _periods: In<c_int>,
    newrank: Ptr<c_int>,
) -> c_int {
    run::<A>("MPI_Cart_map", On::Comm(comm), |call| {
        let id = handles::comm::<A>(comm)?;
        let dims = dims.list(dimensions(ndims)?)?;
        let places = dims.iter().try_fold(1i64, |n, d| n.checked_mul((*d).into()));
        let (rank, size) = (i64::from(call.comm_rank(id)?), i64::from(call.comm_size(id)?));
        match places {
            Some(places) if dims.iter().all(|d| *d >= 0) && places <= size => {
                Ok(newrank.set(if rank < places { rank } else { A::C.undefined } as c_int)?)
            }
            _ => fail(ErrorClass::Dims, format!("a grid of {dims:?} does not fit on {size} processes")),
        }
    })
}

/// `MPI_Cartdim_get`
pub fn cartdim_get<A: Abi>(comm: A::Handle, ndims: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Cartdim_get", On::Comm(comm), |call| {
        Ok(ndims.set(grid(call, handles::comm::<A>(comm)?)?.dims.len() as c_int)?)
    })
}

/// `MPI_Cart_get`
pub fn cart_get<A: Abi>(
    comm: A::Handle,
    maxdims: c_int,
    dims: Ptr<c_int>,
    periods: Ptr<c_int>,
    coords: Ptr<c_int>,
) -> c_int {
    run::<A>("MPI_Cart_get", On::Comm(comm), |call| {
        let cart = grid(call, handles::comm::<A>(comm)?)?;
        let room = dimensions(maxdims)?;
        dims.set_list(cart.dims.into_iter().take(room))?;
        periods.set_list(cart.periods.into_iter().take(room).map(c_int::from))?;
        Ok(coords.set_list(cart.coords.into_iter().take(room))?)
    })
}

/// `MPI_Cart_rank`
pub fn cart_rank<A: Abi>(comm: A::Handle, coords: In<c_int>, rank: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Cart_rank", On::Comm(comm), |call| {
        let id = handles::comm::<A>(comm)?;
        let coords = coords.list(grid(call, id)?.dims.len())?;
        Ok(rank.set(call.cart_rank(id, &coords)? as c_int)?)
    })
}

/// `MPI_Cart_coords`
pub fn cart_coords<A: Abi>(comm: A::Handle, rank: c_int, maxdims: c_int, coords: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Cart_coords", On::Comm(comm), |call| {
        let place = call.cart_coords(handles::comm::<A>(comm)?, rank)?;
        Ok(coords.set_list(place.into_iter().take(dimensions(maxdims)?))?)
    })
}

/// `MPI_Cart_shift`
pub fn cart_shift<A: Abi>(
    comm: A::Handle,
    direction: c_int,
    disp: c_int,
    rank_source: Ptr<c_int>,
    rank_dest: Ptr<c_int>,
) -> c_int {
    run::<A>("MPI_Cart_shift", On::Comm(comm), |call| {
        let (source, dest) = call.cart_shift(handles::comm::<A>(comm)?, direction, disp)?;
        rank_source.set(rank_of::<A>(source))?;
        Ok(rank_dest.set(rank_of::<A>(dest))?)
    })
}

fn rank_of<A: Abi>(peer: Peer) -> c_int {
    match peer {
        Peer::Rank(rank) => rank,
        _ => A::C.proc_null as c_int,
    }
}

/// `MPI_Cart_sub`
pub fn cart_sub<A: Abi>(comm: A::Handle, remain_dims: In<c_int>, newcomm: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Cart_sub", On::Comm(comm), |call| {
        let id = handles::comm::<A>(comm)?;
        let keep = flags(remain_dims, grid(call, id)?.dims.len())?;
        let made = call.start_cart_sub(id, &keep)?;
        let new = crate::comm::make(call, made)?;
        Ok(newcomm.set(handles::of_comm_or_null::<A>(new))?)
    })
}

/// `MPI_Dims_create`
pub fn dims_create<A: Abi>(nnodes: c_int, ndims: c_int, dims: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Dims_create", On::WORLD, |_| {
        let mut list = dims.list(dimensions(ndims)?)?;
        Mpi::dims_create(nnodes, &mut list)?;
        Ok(dims.set_list(list)?)
    })
}

/// `MPI_Topo_test`
pub fn topo_test<A: Abi>(comm: A::Handle, status: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Topo_test", On::Comm(comm), |call| {
        let kind = match call.topology(handles::comm::<A>(comm)?)? {
            Some(Topology::Cart(_)) => A::C.cart,
            Some(Topology::Graph(_)) => A::C.graph,
            Some(Topology::Distributed(_)) => A::C.dist_graph,
            None => A::C.undefined,
        };
        Ok(status.set(kind as c_int)?)
    })
}
