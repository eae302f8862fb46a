//! Collectives of intercommunicators: what one group gives, the other one gets. Nothing is "in place" there.
use super::*;
use proto::coll::inter::{self, Part, Sides};

impl Mpi {
    pub(super) fn prepare_between(
        &self,
        mut plan: Plan,
        at: Sides,
        call: Coll<'_>,
    ) -> Result<Box<Collective>> {
        refuse_in_place(&call)?;
        match call {
            Coll::Barrier => inter::barrier(&mut plan.c.schedule, at),
            Coll::Bcast { root, .. }
            | Coll::Gather { root, .. }
            | Coll::Gatherv { root, .. }
            | Coll::Scatter { root, .. }
            | Coll::Scatterv { root, .. }
            | Coll::Reduce { root, .. } => {
                let part = part(root, at)?;
                // Of a process that only stands beside the root, no argument counts.
                if part != Part::Aside {
                    self.prepare_rooted_between(&mut plan, at, part, call)?;
                }
            }
            Coll::Allreduce(_)
            | Coll::ReduceScatter { .. }
            | Coll::ReduceScatterBlock(_)
            | Coll::Scan(_)
            | Coll::Exscan(_) => self.prepare_reduction_between(&mut plan, at, call)?,
            _ => self.prepare_exchange_between(&mut plan, at, call)?,
        }
        Ok(plan.finish())
    }

    fn prepare_rooted_between(&self, plan: &mut Plan, at: Sides, part: Part, call: Coll<'_>) -> Result<()> {
        let is_root = part == Part::Root;
        match call {
            Coll::Bcast { data, .. } => {
                let data = self.checked(data)?;
                let bytes = data.bytes()?;
                plan.output = plan.spot(data, if is_root { Use::Read } else { Use::Written })?;
                inter::bcast(&mut plan.c.schedule, at, part, bytes);
            }
            Coll::Gather { send, .. } | Coll::Gatherv { send, .. } if !is_root => {
                let mine = self.leaf_sends(plan, send)?;
                inter::gather(&mut plan.c.schedule, at, part, mine, Blocks::Equal(0));
            }
            Coll::Gather { recv, .. } => {
                let block = self.takes_all(plan, recv)?;
                inter::gather(&mut plan.c.schedule, at, part, 0, Blocks::Equal(block));
            }
            Coll::Gatherv { recv, .. } => {
                let list = self.takes_parts(plan, recv)?;
                inter::gather(&mut plan.c.schedule, at, part, 0, Blocks::Listed(&list));
            }
            Coll::Scatter { recv, .. } | Coll::Scatterv { recv, .. } if !is_root => {
                let mine = self.leaf_receives(plan, recv)?;
                inter::scatter(&mut plan.c.schedule, at, part, mine, Blocks::Equal(0));
            }
            Coll::Scatter { send, .. } => {
                let block = self.gives_all(plan, send)?;
                inter::scatter(&mut plan.c.schedule, at, part, 0, Blocks::Equal(block));
            }
            Coll::Scatterv { send, .. } => {
                let (spot, list) = plan.lay_out(self.parts(plan.blocks, send.as_recv())?, Use::Read)?;
                plan.input = spot;
                inter::scatter(&mut plan.c.schedule, at, part, 0, Blocks::Listed(&list));
            }
            Coll::Reduce { of, .. } => {
                let count = element_count(of.recv.count)?;
                let (operands, result) = ((!is_root).then_some(count), is_root.then_some(count));
                let e = self.reduction(plan, of, operands, result)?;
                inter::reduce(&mut plan.c.schedule, at, part, e);
            }
            _ => return fail(ErrorClass::Intern, "not a rooted collective"),
        }
        Ok(())
    }

    fn prepare_exchange_between(&self, plan: &mut Plan, at: Sides, call: Coll<'_>) -> Result<()> {
        match call {
            Coll::Allgather { send, recv } => {
                let mine = self.leaf_sends(plan, send)?;
                let block = self.takes_all(plan, recv)?;
                inter::allgather(&mut plan.c.schedule, at, mine, Blocks::Equal(block));
            }
            Coll::Allgatherv { send, recv } => {
                let mine = self.leaf_sends(plan, send)?;
                let list = self.takes_parts(plan, recv)?;
                inter::allgather(&mut plan.c.schedule, at, mine, Blocks::Listed(&list));
            }
            Coll::Alltoall { send, recv } => {
                let (given, taken) = (self.gives_all(plan, send)?, self.takes_all(plan, recv)?);
                let (given, taken) = (Blocks::Equal(given), Blocks::Equal(taken));
                inter::alltoall(&mut plan.c.schedule, at, given, taken);
            }
            Coll::Alltoallv { send, recv } => {
                let sends = self.parts(plan.blocks, send.as_recv())?;
                let recvs = self.parts(plan.blocks, recv)?;
                exchange_parts(plan, at, sends, recvs)?;
            }
            Coll::Alltoallw { send, recv } => {
                let sends = self.typed_parts(plan.blocks, send.as_recv())?;
                let recvs = self.typed_parts(plan.blocks, recv)?;
                exchange_parts(plan, at, sends, recvs)?;
            }
            _ => return fail(ErrorClass::Comm, "not on an intercommunicator"),
        }
        Ok(())
    }

    fn prepare_reduction_between(&self, plan: &mut Plan, at: Sides, call: Coll<'_>) -> Result<()> {
        match call {
            Coll::Allreduce(of) => {
                let count = element_count(of.recv.count)?;
                let e = self.reduction(plan, of, Some(count), Some(count))?;
                inter::allreduce(&mut plan.c.schedule, at, e);
            }
            Coll::ReduceScatterBlock(of) => {
                let count = element_count(of.recv.count)?;
                let all = self.all_of(of, [count].into_iter().cycle().take(at.own.size as usize))?;
                let e = self.reduction(plan, of, Some(all), Some(count))?;
                inter::reduce_scatter(&mut plan.c.schedule, at, e, Blocks::Equal(count * e.unit));
            }
            Coll::ReduceScatter { of, counts } => {
                let (e, list) = self.reduction_in_parts(plan, of, counts)?;
                inter::reduce_scatter(&mut plan.c.schedule, at, e, Blocks::Listed(&list));
            }
            // MPI-5 6.11: these have no meaning between two groups.
            _ => return fail(ErrorClass::Comm, "a scan: not on an intercommunicator"),
        }
        Ok(())
    }

    /// A buffer that takes a block of each process of the other group; gives the bytes of a block.
    fn takes_all(&self, plan: &mut Plan, recv: RecvData) -> Result<usize> {
        let (per_rank, all) = self.for_everyone(plan, recv)?;
        let block = all.ty.bytes(per_rank)?;
        plan.output = plan.spot(all, Use::Written)?;
        Ok(block)
    }

    /// A buffer that has a block for each process of the other group; gives the bytes of a block.
    fn gives_all(&self, plan: &mut Plan, send: SendData) -> Result<usize> {
        let (per_rank, all) = self.for_everyone(plan, send.as_recv())?;
        let block = all.ty.bytes(per_rank)?;
        plan.input = plan.spot(all, Use::Read)?;
        Ok(block)
    }

    fn takes_parts(&self, plan: &mut Plan, recv: Parts<'_, RecvBuf>) -> Result<Vec<Block>> {
        let (spot, list) = plan.lay_out(self.parts(plan.blocks, recv)?, Use::Written)?;
        plan.output = spot;
        Ok(list)
    }
}

fn exchange_parts(plan: &mut Plan, at: Sides, sends: Listed, recvs: Listed) -> Result<()> {
    let (input, given) = plan.lay_out(sends, Use::Read)?;
    let (output, taken) = plan.lay_out(recvs, Use::Written)?;
    (plan.input, plan.output) = (input, output);
    inter::alltoall(&mut plan.c.schedule, at, Blocks::Listed(&given), Blocks::Listed(&taken));
    Ok(())
}

fn part(root: Peer, at: Sides) -> Result<Part> {
    match root {
        Peer::Root => Ok(Part::Root),
        Peer::Null => Ok(Part::Aside),
        Peer::Rank(rank) if (rank as u32) < at.remote => Ok(Part::Member { root: rank as u32 }),
        _ => fail(ErrorClass::Root, format!("root {root} in a remote group of {}", at.remote)),
    }
}

/// Sent and received data are never the same here.
fn refuse_in_place(call: &Coll<'_>) -> Result<()> {
    let in_place = match call {
        Coll::Gather { send, .. }
        | Coll::Gatherv { send, .. }
        | Coll::Allgather { send, .. }
        | Coll::Allgatherv { send, .. }
        | Coll::Alltoall { send, .. } => send.buf.is_in_place(),
        Coll::Scatter { recv, .. } | Coll::Scatterv { recv, .. } => recv.buf.is_in_place(),
        Coll::Alltoallv { send, .. } => send.buf.is_in_place(),
        Coll::Alltoallw { send, .. } => send.buf.is_in_place(),
        Coll::Reduce { of, .. }
        | Coll::Allreduce(of)
        | Coll::ReduceScatter { of, .. }
        | Coll::ReduceScatterBlock(of) => of.send.is_in_place(),
        _ => false,
    };
    if in_place { fail(ErrorClass::Buffer, "MPI_IN_PLACE: not on an intercommunicator") } else { Ok(()) }
}
