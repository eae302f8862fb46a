//! From a call to a schedule: checks arguments, decides where bytes stand, and builds the steps.
//!
//! Schedules know byte ranges only. Where the program's elements are bytes in a row, the schedule works on the
//! program's memory; elsewhere it works on a copy of ours ("staging") that is loaded before and stored after.
mod exchange;
mod reduction;
mod rooted;

use super::collective::{Collective, Form, Move};
use super::layout::Datatype;
use super::p2p::element_count;
use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use crate::error::{ErrorClass, Result, fail};
use proto::coll::{self, Block, Blocks, Elements, Place};
use std::rc::Rc;

/// Our memory is cut at multiples of this: reduction functions may want aligned elements.
const STAGING_ALIGN: usize = 64;

/// Elements in the program's memory.
struct Data {
    buf: RecvBuf,
    count: usize,
    ty: Rc<Datatype>,
}

impl Data {
    fn bytes(&self) -> Result<usize> {
        self.ty.bytes(self.count)
    }

    /// As many elements per process, one after the other: those of one process.
    fn of_rank(&self, rank: u32, per_rank: usize) -> Data {
        let distance = self.ty.extent * per_rank as i64 * i64::from(rank);
        Data { buf: self.buf.shifted(distance as isize), count: per_rank, ty: self.ty.clone() }
    }
}

/// A place for bytes: known at once, or a distance in staging that becomes an address when all is laid out.
#[derive(Clone, Copy)]
enum Spot {
    Program(RecvBuf),
    Staged(usize),
}

/// Lays out the memory of one operation.
struct Plan {
    c: Box<Collective>,
    place: Place,
    staged: usize,
    input: Spot,
    output: Spot,
}

impl Plan {
    fn stage(&mut self, bytes: usize) -> usize {
        let at = self.staged;
        self.staged = (at + bytes).next_multiple_of(STAGING_ALIGN);
        at
    }

    fn load(&mut self, data: Data, at: usize, form: Form) {
        let Data { buf, count, ty } = data;
        self.c.loads.push(Move { buf, count, ty, at, form });
    }

    fn store(&mut self, data: Data, at: usize, form: Form) {
        let Data { buf, count, ty } = data;
        self.c.stores.push(Move { buf, count, ty, at, form });
    }

    /// Where to read elements.
    fn source(&mut self, data: Data) -> Result<Spot> {
        if let Some((offset, _)) = data.ty.flat(data.count) {
            return Ok(Spot::Program(data.buf.shifted(offset)));
        }
        let at = self.stage(data.bytes()?);
        self.load(data, at, Form::Packed);
        Ok(Spot::Staged(at))
    }

    /// Where to write elements.
    fn target(&mut self, data: Data) -> Result<Spot> {
        if let Some((offset, _)) = data.ty.flat(data.count) {
            return Ok(Spot::Program(data.buf.shifted(offset)));
        }
        let at = self.stage(data.bytes()?);
        self.store(data, at, Form::Packed);
        Ok(Spot::Staged(at))
    }

    /// The blocks of a buffer with varying counts: read if `load`, written if `store`.
    fn blocks(
        &mut self,
        blocks: Vec<Data>,
        origin: RecvBuf,
        load: bool,
        store: bool,
    ) -> Result<(Spot, Vec<Block>)> {
        if blocks.iter().all(|data| data.ty.flat(data.count).is_some()) {
            let at = |data: &Data| {
                let (offset, len) = data.ty.flat(data.count).unwrap_or((0, 0));
                (data.buf.shifted(offset).as_ptr() as isize - origin.as_ptr() as isize, len)
            };
            // Displacements may be negative: ranges count from the lowest block.
            let low = blocks.iter().map(|data| at(data).0).min().unwrap_or(0).min(0);
            let list = blocks.iter().map(|data| Block { at: (at(data).0 - low) as usize, len: at(data).1 });
            return Ok((Spot::Program(origin.shifted(low)), list.collect()));
        }
        let start = self.staged;
        let mut list = Vec::with_capacity(blocks.len());
        for data in blocks {
            let len = data.bytes()?;
            let at = self.staged;
            self.staged += len;
            list.push(Block { at: at - start, len });
            if load {
                self.load(Data { buf: data.buf, count: data.count, ty: data.ty.clone() }, at, Form::Packed);
            }
            if store {
                self.store(data, at, Form::Packed);
            }
        }
        self.staged = self.staged.next_multiple_of(STAGING_ALIGN);
        Ok((Spot::Staged(start), list))
    }

    /// Memory is laid out: turns distances into addresses.
    fn finish(mut self) -> Box<Collective> {
        self.c.staging.reserve(self.staged);
        let staging = self.c.staging.as_recv();
        let address = |spot| match spot {
            Spot::Program(buf) => buf,
            Spot::Staged(at) => staging.shifted(at as isize),
        };
        (self.c.input, self.c.output) = (address(self.input).as_source(), address(self.output));
        self.c
    }

    /// A part of a spot.
    fn inside(spot: Spot, at: usize) -> Spot {
        match spot {
            Spot::Program(buf) => Spot::Program(buf.shifted(at as isize)),
            Spot::Staged(start) => Spot::Staged(start + at),
        }
    }
}

impl Mpi {
    /// Builds the operation of a call; its tag is still to be set.
    pub(super) fn prepare(&mut self, comm: CommId, call: Coll<'_>) -> Result<Box<Collective>> {
        let roster = self.comm(comm)?.roster.clone();
        let (place, context) = (roster.place(self.cores), roster.collective_context());
        check_in_place(&call)?;
        let mut c = self.fresh(roster);
        c.context = context;
        let none = Spot::Program(RecvBuf::NONE);
        let plan = Plan { c, place, staged: 0, input: none, output: none };
        match call {
            Coll::Barrier => {
                let mut plan = plan;
                coll::barrier(&mut plan.c.schedule, place);
                Ok(plan.finish())
            }
            Coll::Bcast { .. }
            | Coll::Gather { .. }
            | Coll::Gatherv { .. }
            | Coll::Scatter { .. }
            | Coll::Scatterv { .. } => self.prepare_rooted(plan, call),
            Coll::Allgather { .. }
            | Coll::Allgatherv { .. }
            | Coll::Alltoall { .. }
            | Coll::Alltoallv { .. }
            | Coll::Alltoallw { .. } => self.prepare_exchange(plan, call),
            _ => self.prepare_reduction(plan, call),
        }
    }

    fn data(&self, buf: RecvBuf, count: i64, ty: TypeId) -> Result<Data> {
        Ok(Data { buf, count: element_count(count)?, ty: self.committed(ty)?.clone() })
    }
}

fn root_rank(root: Peer, place: Place) -> Result<u32> {
    match root {
        Peer::Rank(rank) if (rank as u32) < place.size => Ok(rank as u32),
        _ => fail(ErrorClass::Root, format!("root {root:?} in a communicator of {}", place.size)),
    }
}

fn same_bytes(sent: usize, received: usize) -> Result<()> {
    match sent.cmp(&received) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => {
            fail(ErrorClass::Truncate, format!("{sent} bytes sent to itself where {received} are received"))
        }
        std::cmp::Ordering::Less => {
            fail(ErrorClass::Count, format!("{sent} bytes sent to itself where {received} are received"))
        }
    }
}

fn enough(entries: usize, place: Place) -> Result<()> {
    if entries >= place.size as usize {
        return Ok(());
    }
    fail(ErrorClass::Arg, format!("{entries} counts for {} processes", place.size))
}

/// A buffer "in place" where the standard has none is the caller's mistake.
fn check_in_place(call: &Coll<'_>) -> Result<()> {
    let misplaced = match call {
        Coll::Bcast { buf, .. } => buf.is_in_place(),
        Coll::Allgather { recv, .. }
        | Coll::Allgatherv { recv, .. }
        | Coll::Alltoall { recv, .. }
        | Coll::Alltoallv { recv, .. }
        | Coll::Alltoallw { recv, .. }
        | Coll::Allreduce { recv, .. }
        | Coll::ReduceScatter { recv, .. }
        | Coll::ReduceScatterBlock { recv, .. }
        | Coll::Scan { recv, .. }
        | Coll::Exscan { recv, .. } => recv.is_in_place(),
        _ => false,
    };
    if misplaced { fail(ErrorClass::Buffer, "the receive buffer cannot be in place") } else { Ok(()) }
}
