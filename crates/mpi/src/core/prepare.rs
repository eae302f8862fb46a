//! From a call to a schedule: checks arguments, decides where bytes stand, and builds the steps.
//!
//! Schedules know byte ranges only. Where the program's elements are bytes in a row, the schedule works on the
//! program's memory; elsewhere it works on a copy of ours ("staging") that is loaded before and stored after.
mod between;
mod exchange;
mod neighborhood;
mod reduction;
mod rooted;

use super::collective::{Collective, Form, Misfit, Move};
use super::comm::Roster;
use super::data::Checked;
use super::layout::{Datatype, product};
use super::p2p::{count_for, element_count};
use super::*;
use crate::buffer::RecvBuf;
use crate::error::{ErrorClass, Result, fail};
use proto::coll::{self, Block, Blocks, Elements, Hosts, Memory, Place};
use std::rc::Rc;

/// Our memory is cut at multiples of this: reduction functions may want aligned elements.
const STAGING_ALIGN: usize = 64;

/// What an operation does with elements of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Before it starts they are copied to where it works.
    Read,
    /// After its end they are copied from where it worked.
    Written,
}

/// The blocks of a buffer with varying counts, by rank.
struct Listed {
    /// Where their displacements count from.
    origin: RecvBuf,
    blocks: Vec<Checked<RecvBuf>>,
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
    /// On which hosts the processes live, where that matters.
    hosts: Option<Rc<Hosts>>,
    /// How many blocks a buffer with one for each process has.
    blocks: usize,
    staged_bytes: usize,
    input: Spot,
    output: Spot,
}

impl Plan {
    fn stage(&mut self, bytes: usize) -> usize {
        let at = self.staged_bytes;
        self.staged_bytes = (at + bytes).next_multiple_of(STAGING_ALIGN);
        at
    }

    /// Copies between the program's memory and a place in staging: `used` says when and which way.
    fn copy(&mut self, data: Checked<RecvBuf>, used: Use, at: usize, form: Form) {
        let list = match used {
            Use::Read => &mut self.c.loads,
            Use::Written => &mut self.c.stores,
        };
        list.push(Move { data, at, form });
    }

    /// Where the operation finds or leaves elements: in the program's memory if they are bytes in a row.
    fn spot(&mut self, data: Checked<RecvBuf>, used: Use) -> Result<Spot> {
        match data.flat() {
            Some((offset, _)) => Ok(Spot::Program(data.buf.shifted(offset))),
            None => self.staged(data, used),
        }
    }

    /// As [`Plan::spot`] for this process's part in what it does with itself, which must have so many bytes. If it has
    /// not, the operation works on a copy, which has room for both: the others must not wait for this process.
    fn fitted(&mut self, data: Checked<RecvBuf>, used: Use, bytes: usize) -> Result<Spot> {
        let own = data.bytes()?;
        if own == bytes {
            return self.spot(data, used);
        }
        match used {
            Use::Read => self.own_block(own, bytes),
            Use::Written => self.own_block(bytes, own),
        };
        let at = self.stage(own.max(bytes));
        self.copy(data, used, at, Form::Packed);
        Ok(Spot::Staged(at))
    }

    /// Notes what the process sends to itself and what it receives so; gives the bytes that fit.
    fn own_block(&mut self, sent: usize, received: usize) -> usize {
        if sent != received {
            self.c.misfit = self.c.misfit.or(Some(Misfit { sent, received }));
        }
        sent.min(received)
    }

    /// A packed copy of elements.
    fn staged(&mut self, data: Checked<RecvBuf>, used: Use) -> Result<Spot> {
        let at = self.stage(data.bytes()?);
        self.copy(data, used, at, Form::Packed);
        Ok(Spot::Staged(at))
    }

    /// As [`Plan::spot`] for the blocks of a buffer with varying counts.
    fn lay_out(&mut self, listed: Listed, used: Use) -> Result<(Spot, Vec<Block>)> {
        let Listed { origin, blocks } = listed;
        if blocks.iter().all(|data| data.flat().is_some()) {
            let at = |data: &Checked<RecvBuf>| {
                let (offset, len) = data.flat().unwrap_or((0, 0));
                (data.buf.shifted(offset).as_ptr() as isize - origin.as_ptr() as isize, len)
            };
            // Displacements may be negative: ranges count from the lowest block.
            let low = blocks.iter().map(|data| at(data).0).min().unwrap_or(0).min(0);
            let list = blocks.iter().map(|data| Block { at: (at(data).0 - low) as usize, len: at(data).1 });
            return Ok((Spot::Program(origin.shifted(low)), list.collect()));
        }
        let start = self.staged_bytes;
        let mut list = Vec::with_capacity(blocks.len());
        for data in blocks {
            let len = data.bytes()?;
            let at = self.staged_bytes;
            self.staged_bytes += len;
            list.push(Block { at: at - start, len });
            self.copy(data, used, at, Form::Packed);
        }
        self.staged_bytes = self.staged_bytes.next_multiple_of(STAGING_ALIGN);
        Ok((Spot::Staged(start), list))
    }

    /// Memory is laid out: turns distances into addresses.
    fn finish(mut self) -> Box<Collective> {
        self.c.staging.reserve(self.staged_bytes);
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
    pub(super) fn prepare(
        &mut self,
        comm: CommId,
        call: Coll<'_>,
        form: check::Form,
    ) -> Result<Box<Collective>> {
        let roster = self.comm(comm)?.roster.clone();
        let sides = roster.sides(self.cores);
        let (context, blocks) = (roster.collective_context(), roster.size as usize);
        check_in_place(&call, Peer::Rank(roster.rank as i32), sides.is_some())?;
        let (place, hosts) = self.lie_of(&roster, form);
        let mut c = self.fresh(roster);
        c.context = context;
        let none = Spot::Program(RecvBuf::NONE);
        let plan = Plan { c, place, hosts, blocks, staged_bytes: 0, input: none, output: none };
        if let Some(sides) = sides {
            return self.prepare_between(plan, sides, call);
        }
        match call {
            Coll::Barrier => {
                let mut plan = plan;
                match &plan.hosts {
                    Some(hosts) => hosts.barrier(&mut plan.c.schedule, place),
                    None => coll::barrier(&mut plan.c.schedule, place),
                }
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
            Coll::NeighborAllgather { .. }
            | Coll::NeighborAllgatherv { .. }
            | Coll::NeighborAlltoall { .. }
            | Coll::NeighborAlltoallv { .. }
            | Coll::NeighborAlltoallw { .. } => self.prepare_neighborhood(comm, plan, call),
            _ => self.prepare_reduction(plan, call),
        }
    }
}

impl Mpi {
    /// Where a communicator's processes are, and on which hosts if that matters, for an operation of some form.
    fn lie_of(&self, roster: &Roster, form: check::Form) -> (Place, Option<Rc<Hosts>>) {
        let mut place = roster.place(self.cores);
        let look = || roster.hosts(self.cores, |rank| self.endpoint.node_of(rank));
        let hosts = self.cores.levels.then(look).flatten();
        if hosts.is_none() {
            place.memory = self.memory_for(roster, form);
        }
        (place, hosts)
    }

    /// Has a broadcast that was run once come from another root, if there is such a rank.
    pub(super) fn turn_to(&self, c: &mut Collective, root: i32, bytes: usize) -> bool {
        let (place, hosts) = self.lie_of(&c.roster, check::Form::Blocking);
        let Ok(root) = root_rank(Peer::Rank(root), place) else { return false };
        c.schedule.clear();
        rooted::bcast(&mut c.schedule, place, hosts.as_deref(), root, bytes);
        true
    }

    /// How the memories of a communicator's processes lie, for an operation of some form. Through memory that all map goes
    /// what a process waits for: it has one such operation of a communicator at a time. (While calls are compared, none does:
    /// they are compared by messages.)
    fn memory_for(&self, roster: &Roster, form: check::Form) -> Memory {
        let memory = roster.memory(self.cores, |rank| self.endpoint.node_of(rank));
        let is_waited_for = form == check::Form::Blocking && self.check.is_none() && !self.apart;
        match memory {
            Memory::OneNode(_) if is_waited_for => roster.segment.memory(),
            Memory::OneNode(_) => Memory::OneHost,
            memory => memory,
        }
    }
}

fn root_rank(root: Peer, place: Place) -> Result<u32> {
    match root {
        Peer::Rank(rank) if (rank as u32) < place.size => Ok(rank as u32),
        _ => fail(ErrorClass::Root, format!("root {root} in a communicator of {}", place.size)),
    }
}

fn enough(entries: usize, blocks: usize) -> Result<()> {
    if entries >= blocks {
        return Ok(());
    }
    fail(ErrorClass::Arg, format!("{entries} counts for {blocks} processes"))
}

/// A buffer "in place" where the standard has none is the caller's mistake: of who receives, of who is not the root where
/// there is one, and of everybody between two groups.
fn check_in_place(call: &Coll<'_>, me: Peer, between: bool) -> Result<()> {
    let leaf = |root: &Peer| between || *root != me;
    let misplaced = match call {
        Coll::Barrier => false,
        Coll::Bcast { data, .. } => data.buf.is_in_place(),
        Coll::Gather { send, recv, root } => recv.buf.is_in_place() || leaf(root) && send.buf.is_in_place(),
        Coll::Gatherv { send, recv, root } => recv.buf.is_in_place() || leaf(root) && send.buf.is_in_place(),
        Coll::Scatter { send, recv, root } => send.buf.is_in_place() || leaf(root) && recv.buf.is_in_place(),
        Coll::Scatterv { send, recv, root } => send.buf.is_in_place() || leaf(root) && recv.buf.is_in_place(),
        Coll::Allgather { send, recv } | Coll::Alltoall { send, recv } => {
            recv.buf.is_in_place() || between && send.buf.is_in_place()
        }
        Coll::Allgatherv { send, recv } => recv.buf.is_in_place() || between && send.buf.is_in_place(),
        Coll::Alltoallv { send, recv } => recv.buf.is_in_place() || between && send.buf.is_in_place(),
        Coll::Alltoallw { send, recv } => recv.buf.is_in_place() || between && send.buf.is_in_place(),
        Coll::Reduce { of, root } => of.recv.buf.is_in_place() || leaf(root) && of.send.is_in_place(),
        Coll::Allreduce(of)
        | Coll::ReduceScatter { of, .. }
        | Coll::ReduceScatterBlock(of)
        | Coll::Scan(of)
        | Coll::Exscan(of) => of.recv.buf.is_in_place() || between && of.send.is_in_place(),
        Coll::NeighborAllgather { send, recv } | Coll::NeighborAlltoall { send, recv } => {
            send.buf.is_in_place() || recv.buf.is_in_place()
        }
        Coll::NeighborAllgatherv { send, recv } => send.buf.is_in_place() || recv.buf.is_in_place(),
        Coll::NeighborAlltoallv { send, recv } => send.buf.is_in_place() || recv.buf.is_in_place(),
        Coll::NeighborAlltoallw { send, recv } => send.buf.is_in_place() || recv.buf.is_in_place(),
    };
    if misplaced {
        fail(ErrorClass::Buffer, "MPI_IN_PLACE for a buffer that cannot be in place here")
    } else {
        Ok(())
    }
}
