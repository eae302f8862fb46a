//! From a call to a schedule: checks arguments, decides where bytes stand, and builds the steps.
//!
//! Schedules know byte ranges only. Where the program's elements are bytes in a row, the schedule works on the
//! program's memory; elsewhere it works on a copy of ours ("staging") that is loaded before and stored after.
use super::collective::{Collective, Form, Move};
use super::comm::Roster;
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
        check_roster(&roster, &call)?;
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

    fn prepare_rooted(&self, mut plan: Plan, call: Coll<'_>) -> Result<Box<Collective>> {
        let place = plan.place;
        match call {
            Coll::Bcast { buf, count, ty, root } => {
                let data = self.data(buf, count, ty)?;
                let (root, bytes) = (root_rank(root, place)?, data.bytes()?);
                plan.output = if place.rank == root { plan.source(data)? } else { plan.target(data)? };
                coll::bcast(&mut plan.c.schedule, place, root, bytes);
            }
            Coll::Gather { send, scount, sty, recv, rcount, rty, root } => {
                let root = root_rank(root, place)?;
                if place.rank != root {
                    let data = self.data(send.as_recv(), scount, sty)?;
                    let bytes = data.bytes()?;
                    plan.input = plan.source(data)?;
                    coll::gather(&mut plan.c.schedule, place, root, bytes);
                } else {
                    let block = self.gather_side(&mut plan, send, scount, sty, recv, rcount, rty)?;
                    coll::gather(&mut plan.c.schedule, place, root, block);
                }
            }
            Coll::Scatter { send, scount, sty, recv, rcount, rty, root } => {
                let root = root_rank(root, place)?;
                let block = if place.rank == root {
                    self.scatter_root(&mut plan, send, scount, sty, recv, rcount, rty)?
                } else {
                    let data = self.data(recv, rcount, rty)?;
                    let bytes = data.bytes()?;
                    plan.output = plan.target(data)?;
                    bytes
                };
                coll::scatter(&mut plan.c.schedule, place, root, block);
            }
            Coll::Gatherv { send, scount, sty, recv, parts, root } => {
                let root = root_rank(root, place)?;
                if place.rank != root {
                    let data = self.data(send.as_recv(), scount, sty)?;
                    let bytes = data.bytes()?;
                    plan.input = plan.source(data)?;
                    coll::gatherv(&mut plan.c.schedule, place, root, bytes, Blocks::Equal(0));
                } else {
                    let list = self.gatherv_side(&mut plan, send, scount, sty, recv, parts)?;
                    let own = list[root as usize].len;
                    coll::gatherv(&mut plan.c.schedule, place, root, own, Blocks::Listed(&list));
                }
            }
            Coll::Scatterv { send, parts, recv, rcount, rty, root } => {
                let root = root_rank(root, place)?;
                if place.rank != root {
                    let data = self.data(recv, rcount, rty)?;
                    let bytes = data.bytes()?;
                    plan.output = plan.target(data)?;
                    coll::scatterv(&mut plan.c.schedule, place, root, bytes, Blocks::Equal(0));
                } else {
                    let list = self.scatterv_root(&mut plan, send, parts, recv, rcount, rty)?;
                    let own = list[root as usize].len;
                    coll::scatterv(&mut plan.c.schedule, place, root, own, Blocks::Listed(&list));
                }
            }
            _ => return fail(ErrorClass::Intern, "not a rooted collective"),
        }
        Ok(plan.finish())
    }

    /// The side of a gather that collects equal blocks: gives the bytes of a block.
    #[allow(clippy::too_many_arguments)]
    fn gather_side(
        &self,
        plan: &mut Plan,
        send: SendBuf,
        scount: i64,
        sty: TypeId,
        recv: RecvBuf,
        rcount: i64,
        rty: TypeId,
    ) -> Result<usize> {
        let Place { rank, size, .. } = plan.place;
        let per_rank = element_count(rcount)?;
        let all = Data { buf: recv, count: per_rank * size as usize, ty: self.committed(rty)?.clone() };
        let own = all.of_rank(rank, per_rank);
        all.bytes()?;
        let block = own.bytes()?;
        plan.output = plan.target(all)?;
        if send.is_in_place() {
            plan.input = Plan::inside(plan.output, rank as usize * block);
            if let Spot::Staged(at) = plan.input {
                plan.load(own, at, Form::Packed);
            }
        } else {
            let data = self.data(send.as_recv(), scount, sty)?;
            same_bytes(data.bytes()?, block)?;
            plan.input = plan.source(data)?;
        }
        Ok(block)
    }

    #[allow(clippy::too_many_arguments)]
    fn scatter_root(
        &self,
        plan: &mut Plan,
        send: SendBuf,
        scount: i64,
        sty: TypeId,
        recv: RecvBuf,
        rcount: i64,
        rty: TypeId,
    ) -> Result<usize> {
        let Place { rank, size, .. } = plan.place;
        let per_rank = element_count(scount)?;
        let ty = self.committed(sty)?.clone();
        let block = ty.bytes(per_rank)?;
        let all = Data { buf: send.as_recv(), count: per_rank * size as usize, ty };
        all.bytes()?;
        plan.input = plan.source(all)?;
        if recv.is_in_place() {
            plan.output = Plan::inside(plan.input, rank as usize * block);
        } else {
            let data = self.data(recv, rcount, rty)?;
            same_bytes(data.bytes()?, block)?;
            plan.output = plan.target(data)?;
        }
        Ok(block)
    }

    fn gatherv_side(
        &self,
        plan: &mut Plan,
        send: SendBuf,
        scount: i64,
        sty: TypeId,
        recv: RecvBuf,
        parts: Parts<'_>,
    ) -> Result<Vec<Block>> {
        let rank = plan.place.rank as usize;
        let blocks = self.parts(plan.place, recv, parts)?;
        let own = Data { buf: blocks[rank].buf, count: blocks[rank].count, ty: blocks[rank].ty.clone() };
        let (spot, list) = plan.blocks(blocks, recv, false, true)?;
        plan.output = spot;
        if send.is_in_place() {
            plan.input = Plan::inside(spot, list[rank].at);
            if let Spot::Staged(at) = plan.input {
                plan.load(own, at, Form::Packed);
            }
        } else {
            let data = self.data(send.as_recv(), scount, sty)?;
            same_bytes(data.bytes()?, list[rank].len)?;
            plan.input = plan.source(data)?;
        }
        Ok(list)
    }

    fn scatterv_root(
        &self,
        plan: &mut Plan,
        send: SendBuf,
        parts: Parts<'_>,
        recv: RecvBuf,
        rcount: i64,
        rty: TypeId,
    ) -> Result<Vec<Block>> {
        let rank = plan.place.rank as usize;
        let blocks = self.parts(plan.place, send.as_recv(), parts)?;
        let (spot, list) = plan.blocks(blocks, send.as_recv(), true, false)?;
        plan.input = spot;
        if recv.is_in_place() {
            plan.output = Plan::inside(spot, list[rank].at);
        } else {
            let data = self.data(recv, rcount, rty)?;
            same_bytes(data.bytes()?, list[rank].len)?;
            plan.output = plan.target(data)?;
        }
        Ok(list)
    }

    fn prepare_exchange(&self, mut plan: Plan, call: Coll<'_>) -> Result<Box<Collective>> {
        let place = plan.place;
        match call {
            Coll::Allgather { send, scount, sty, recv, rcount, rty } => {
                let block = self.gather_side(&mut plan, send, scount, sty, recv, rcount, rty)?;
                coll::allgather(&mut plan.c.schedule, place, block);
            }
            Coll::Allgatherv { send, scount, sty, recv, parts } => {
                let list = self.gatherv_side(&mut plan, send, scount, sty, recv, parts)?;
                coll::allgatherv(&mut plan.c.schedule, place, Blocks::Listed(&list));
            }
            Coll::Alltoall { send, scount, sty, recv, rcount, rty } => {
                let per_rank = element_count(rcount)?;
                let ty = self.committed(rty)?.clone();
                let block = ty.bytes(per_rank)?;
                let all = Data { buf: recv, count: per_rank * place.size as usize, ty };
                if send.is_in_place() {
                    plan.input = self.saved(&mut plan, &all)?;
                } else {
                    let data =
                        self.data(send.as_recv(), scount.saturating_mul(i64::from(place.size)), sty)?;
                    same_bytes(data.bytes()?, all.bytes()?)?;
                    plan.input = plan.source(data)?;
                }
                plan.output = plan.target(all)?;
                coll::alltoall(&mut plan.c.schedule, place, block);
            }
            Coll::Alltoallv { send, sparts, recv, rparts } => {
                let sends = if send.is_in_place() {
                    None
                } else {
                    Some((send.as_recv(), self.parts(place, send.as_recv(), sparts)?))
                };
                self.prepare_alltoallv(&mut plan, sends, recv, self.parts(place, recv, rparts)?)?;
            }
            Coll::Alltoallw { send, scounts, sdispls, stypes, recv, rcounts, rdispls, rtypes } => {
                let sends = if send.is_in_place() {
                    None
                } else {
                    Some((
                        send.as_recv(),
                        self.parts_by_type(place, send.as_recv(), scounts, sdispls, stypes)?,
                    ))
                };
                let recvs = self.parts_by_type(place, recv, rcounts, rdispls, rtypes)?;
                self.prepare_alltoallv(&mut plan, sends, recv, recvs)?;
            }
            _ => return fail(ErrorClass::Intern, "not an exchange"),
        }
        Ok(plan.finish())
    }

    /// `sends` is `None` for an exchange in place: the blocks to send are what the receive buffer holds.
    fn prepare_alltoallv(
        &self,
        plan: &mut Plan,
        sends: Option<(RecvBuf, Vec<Data>)>,
        recv: RecvBuf,
        recvs: Vec<Data>,
    ) -> Result<()> {
        let send_list = match sends {
            Some((buf, sends)) => {
                let (spot, list) = plan.blocks(sends, buf, true, false)?;
                plan.input = spot;
                list
            }
            None => {
                let start = plan.staged;
                let mut list = Vec::with_capacity(recvs.len());
                for data in &recvs {
                    let at = plan.staged;
                    self.saved(plan, data)?;
                    list.push(Block { at: at - start, len: data.bytes()? });
                }
                plan.input = Spot::Staged(start);
                list
            }
        };
        let (spot, recv_list) = plan.blocks(recvs, recv, false, true)?;
        plan.output = spot;
        let (sends, recvs) = (Blocks::Listed(&send_list), Blocks::Listed(&recv_list));
        coll::alltoallv(&mut plan.c.schedule, plan.place, sends, recvs);
        Ok(())
    }

    /// A packed copy, made when the operation starts.
    fn saved(&self, plan: &mut Plan, data: &Data) -> Result<Spot> {
        let at = plan.stage(data.bytes()?);
        plan.load(Data { buf: data.buf, count: data.count, ty: data.ty.clone() }, at, Form::Packed);
        Ok(Spot::Staged(at))
    }

    fn parts(&self, place: Place, buf: RecvBuf, parts: Parts<'_>) -> Result<Vec<Data>> {
        let ty = self.committed(parts.ty)?;
        enough(parts.counts.len().min(parts.displs.len()), place)?;
        let block = |(count, displ): (&i64, &i64)| {
            let buf = buf.shifted((displ * ty.extent) as isize);
            Ok(Data { buf, count: element_count(*count)?, ty: ty.clone() })
        };
        parts.counts.iter().zip(parts.displs).take(place.size as usize).map(block).collect()
    }

    fn parts_by_type(
        &self,
        place: Place,
        buf: RecvBuf,
        counts: &[i64],
        displs: &[i64],
        types: &[TypeId],
    ) -> Result<Vec<Data>> {
        enough(counts.len().min(displs.len()).min(types.len()), place)?;
        (0..place.size as usize)
            .map(|rank| {
                let count = element_count(counts[rank])?;
                // A block of no elements may come with no datatype worth the name.
                let ty = if count == 0 { TypeId::BYTE } else { types[rank] };
                Ok(Data { buf: buf.shifted(displs[rank] as isize), count, ty: self.committed(ty)?.clone() })
            })
            .collect()
    }

    fn prepare_reduction(&self, mut plan: Plan, call: Coll<'_>) -> Result<Box<Collective>> {
        let place = plan.place;
        match call {
            Coll::Reduce { send, recv, count, ty, op, root } => {
                let root = root_rank(root, place)?;
                let count = element_count(count)?;
                let is_root = place.rank == root;
                let e = self.reduction(&mut plan, send, recv, count, is_root.then_some(count), ty, op)?;
                coll::reduce(&mut plan.c.schedule, place, root, e);
            }
            Coll::Allreduce { send, recv, count, ty, op } => {
                let count = element_count(count)?;
                let e = self.reduction(&mut plan, send, recv, count, Some(count), ty, op)?;
                coll::allreduce(&mut plan.c.schedule, place, e);
            }
            Coll::Scan { send, recv, count, ty, op } => {
                let count = element_count(count)?;
                let e = self.reduction(&mut plan, send, recv, count, Some(count), ty, op)?;
                coll::scan(&mut plan.c.schedule, place, e);
            }
            Coll::Exscan { send, recv, count, ty, op } => {
                let count = element_count(count)?;
                let result = (place.rank > 0).then_some(count);
                let e = self.reduction(&mut plan, send, recv, count, result, ty, op)?;
                coll::exscan(&mut plan.c.schedule, place, e);
            }
            Coll::ReduceScatterBlock { send, recv, count, ty, op } => {
                let count = element_count(count)?;
                let all = count * place.size as usize;
                let e = self.reduction(&mut plan, send, recv, all, Some(count), ty, op)?;
                coll::reduce_scatter(&mut plan.c.schedule, place, e, Blocks::Equal(count * e.unit));
            }
            Coll::ReduceScatter { send, recv, counts, ty, op } => {
                enough(counts.len(), place)?;
                let counts = counts[..place.size as usize].iter().map(|count| element_count(*count));
                let counts = counts.collect::<Result<Vec<usize>>>()?;
                let all = counts.iter().sum();
                let own = counts[place.rank as usize];
                let e = self.reduction(&mut plan, send, recv, all, Some(own), ty, op)?;
                let mut at = 0;
                let block = |count: &usize| {
                    let len = count * e.unit;
                    at += len;
                    Block { at: at - len, len }
                };
                let list: Vec<Block> = counts.iter().map(block).collect();
                coll::reduce_scatter(&mut plan.c.schedule, place, e, Blocks::Listed(&list));
            }
            _ => return fail(ErrorClass::Intern, "not a reduction"),
        }
        Ok(plan.finish())
    }

    /// Lays out a reduction of `count` elements, of which `result` come back to this process (`None`: it has
    /// no receive buffer).
    #[allow(clippy::too_many_arguments)]
    fn reduction(
        &self,
        plan: &mut Plan,
        send: SendBuf,
        recv: RecvBuf,
        count: usize,
        result: Option<usize>,
        id: TypeId,
        op: OpId,
    ) -> Result<Elements> {
        let ty = self.committed(id)?;
        plan.c.combine = Some(self.combine(op, id, ty)?);
        let commutes = self.op_commutative(op)?;
        ty.bytes(count)?;
        let from = if send.is_in_place() { recv } else { send.as_recv() };
        let flat = ty.flat(2);
        let unit = if flat.is_some() { ty.size } else { spread_unit(ty)? };
        (plan.c.unit, plan.c.shift) = (unit, flat.map_or(ty.true_lb as isize, |(offset, _)| offset));
        if let Some((offset, _)) = flat {
            plan.input = Spot::Program(from.shifted(offset));
            plan.output = Spot::Program(recv.shifted(offset));
        } else {
            let at = plan.stage(count * unit);
            plan.load(Data { buf: from, count, ty: ty.clone() }, at, Form::Spread);
            plan.input = Spot::Staged(at);
            if let Some(result) = result {
                let at = plan.stage(result * unit);
                plan.store(Data { buf: recv, count: result, ty: ty.clone() }, at, Form::Spread);
                plan.output = Spot::Staged(at);
            }
        }
        Ok(Elements { count, unit, commutes })
    }
}

/// From one element to the next in our memory, for a datatype with gaps.
fn spread_unit(ty: &Datatype) -> Result<usize> {
    let (extent, true_extent) = (ty.extent, ty.true_ub - ty.true_lb);
    if extent >= true_extent {
        return Ok(extent as usize);
    }
    fail(ErrorClass::Type, format!("a reduction of overlapping elements: {true_extent} bytes every {extent}"))
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
fn check_roster(_roster: &Roster, call: &Coll<'_>) -> Result<()> {
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
