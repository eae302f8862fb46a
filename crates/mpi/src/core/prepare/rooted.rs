//! Collectives with a root that move data: broadcast, gather, scatter.
use super::*;
use proto::coll;

impl Mpi {
    pub(super) fn prepare_rooted(&self, mut plan: Plan, call: Coll<'_>) -> Result<Box<Collective>> {
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
    pub(super) fn gather_side(
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
    pub(super) fn scatter_root(
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

    pub(super) fn gatherv_side(
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

    pub(super) fn scatterv_root(
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
}
