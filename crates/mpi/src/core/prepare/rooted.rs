//! Collectives with a root that move data: broadcast, gather, scatter.
use super::*;
use crate::buffer::SendBuf;
use proto::coll::{self, Schedule};

/// The steps of a broadcast.
pub(super) fn bcast(s: &mut Schedule, place: Place, hosts: Option<&Hosts>, root: u32, bytes: usize) {
    match hosts {
        Some(hosts) => hosts.bcast(s, place, root, bytes),
        None => coll::bcast(s, place, root, bytes),
    }
}

impl Mpi {
    pub(super) fn prepare_rooted(&self, mut plan: Plan, call: Coll<'_>) -> Result<Box<Collective>> {
        let place = plan.place;
        match call {
            Coll::Bcast { data, root } => {
                let data = self.checked(data)?;
                let (root, bytes) = (root_rank(root, place)?, data.bytes()?);
                let used = if place.rank == root { Use::Read } else { Use::Written };
                plan.output = plan.spot(data, used)?;
                bcast(&mut plan.c.schedule, place, plan.hosts.as_deref(), root, bytes);
            }
            Coll::Gather { send, recv, root } => {
                let root = root_rank(root, place)?;
                let block = match place.rank == root {
                    true => self.gather_side(&mut plan, send, recv)?,
                    false => self.leaf_sends(&mut plan, send)?,
                };
                match &plan.hosts {
                    Some(hosts) => hosts.gather(&mut plan.c.schedule, place, root, block),
                    None => coll::gather(&mut plan.c.schedule, place, root, block),
                }
            }
            Coll::Scatter { send, recv, root } => {
                let root = root_rank(root, place)?;
                let block = match place.rank == root {
                    true => self.scatter_root(&mut plan, send, recv)?,
                    false => self.leaf_receives(&mut plan, recv)?,
                };
                match &plan.hosts {
                    Some(hosts) => hosts.scatter(&mut plan.c.schedule, place, root, block),
                    None => coll::scatter(&mut plan.c.schedule, place, root, block),
                }
            }
            Coll::Gatherv { send, recv, root } => {
                let root = root_rank(root, place)?;
                if place.rank != root {
                    let bytes = self.leaf_sends(&mut plan, send)?;
                    coll::gatherv(&mut plan.c.schedule, place, root, bytes, Blocks::Equal(0));
                } else {
                    let list = self.gatherv_side(&mut plan, send, recv)?;
                    let own = list[root as usize].len;
                    coll::gatherv(&mut plan.c.schedule, place, root, own, Blocks::Listed(&list));
                }
            }
            Coll::Scatterv { send, recv, root } => {
                let root = root_rank(root, place)?;
                if place.rank != root {
                    let bytes = self.leaf_receives(&mut plan, recv)?;
                    coll::scatterv(&mut plan.c.schedule, place, root, bytes, Blocks::Equal(0));
                } else {
                    let list = self.scatterv_root(&mut plan, send, recv)?;
                    let own = list[root as usize].len;
                    coll::scatterv(&mut plan.c.schedule, place, root, own, Blocks::Listed(&list));
                }
            }
            _ => return fail(ErrorClass::Intern, "not a rooted collective"),
        }
        Ok(plan.finish())
    }

    /// A process that is not the root of a gather: gives its bytes.
    pub(super) fn leaf_sends(&self, plan: &mut Plan, send: SendData) -> Result<usize> {
        let data = self.checked(send.as_recv())?;
        let bytes = data.bytes()?;
        plan.input = plan.spot(data, Use::Read)?;
        Ok(bytes)
    }

    /// A process that is not the root of a scatter: gives its bytes.
    pub(super) fn leaf_receives(&self, plan: &mut Plan, recv: RecvData) -> Result<usize> {
        let data = self.checked(recv)?;
        let bytes = data.bytes()?;
        plan.output = plan.spot(data, Use::Written)?;
        Ok(bytes)
    }

    /// The side of a gather that collects equal blocks: gives the bytes of a block.
    pub(super) fn gather_side(&self, plan: &mut Plan, send: SendData, recv: RecvData) -> Result<usize> {
        let rank = plan.place.rank;
        let (per_rank, all) = self.for_everyone(plan, recv)?;
        let own = all.of_rank(rank, per_rank);
        let block = own.bytes()?;
        plan.output = plan.spot(all, Use::Written)?;
        self.own_input(plan, send, own, Block { at: rank as usize * block, len: block })?;
        Ok(block)
    }

    fn scatter_root(&self, plan: &mut Plan, send: SendData, recv: RecvData) -> Result<usize> {
        let rank = plan.place.rank;
        let (per_rank, all) = self.for_everyone(plan, send.as_recv())?;
        let block = all.ty.bytes(per_rank)?;
        plan.input = plan.spot(all, Use::Read)?;
        self.own_output(plan, recv, Block { at: rank as usize * block, len: block })?;
        Ok(block)
    }

    pub(super) fn gatherv_side(
        &self,
        plan: &mut Plan,
        send: SendData,
        recv: Parts<'_, RecvBuf>,
    ) -> Result<Vec<Block>> {
        let rank = plan.place.rank as usize;
        let parts = self.parts(plan.blocks, recv)?;
        let own = parts.blocks[rank].clone();
        let (spot, list) = plan.lay_out(parts, Use::Written)?;
        plan.output = spot;
        self.own_input(plan, send, own, list[rank])?;
        Ok(list)
    }

    fn scatterv_root(&self, plan: &mut Plan, send: Parts<'_, SendBuf>, recv: RecvData) -> Result<Vec<Block>> {
        let (spot, list) = plan.lay_out(self.parts(plan.blocks, send.as_recv())?, Use::Read)?;
        plan.input = spot;
        self.own_output(plan, recv, list[plan.place.rank as usize])?;
        Ok(list)
    }

    /// The count of `data` is that of each process: gives it, and the elements of all.
    pub(super) fn for_everyone(&self, plan: &Plan, data: RecvData) -> Result<(usize, Checked<RecvBuf>)> {
        let mut all = self.checked(data)?;
        let per_rank = all.count;
        all.count = per_rank.saturating_mul(plan.blocks);
        all.bytes()?;
        Ok((per_rank, all))
    }

    /// What the collecting process itself contributes to `block` of the output.
    fn own_input(&self, plan: &mut Plan, send: SendData, own: Checked<RecvBuf>, block: Block) -> Result<()> {
        if !send.buf.is_in_place() {
            plan.input = plan.fitted(self.checked(send.as_recv())?, Use::Read, block.len)?;
            return Ok(());
        }
        plan.input = Plan::inside(plan.output, block.at);
        if let Spot::Staged(at) = plan.input {
            plan.copy(own, Use::Read, at, Form::Packed);
        }
        Ok(())
    }

    /// What the distributing process itself gets of `block` of the input.
    fn own_output(&self, plan: &mut Plan, recv: RecvData, block: Block) -> Result<()> {
        if recv.buf.is_in_place() {
            plan.output = Plan::inside(plan.input, block.at);
            return Ok(());
        }
        plan.output = plan.fitted(self.checked(recv)?, Use::Written, block.len)?;
        Ok(())
    }
}
