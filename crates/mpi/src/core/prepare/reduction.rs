//! Reductions.
use super::*;
use proto::coll;

impl Mpi {
    pub(super) fn prepare_reduction(&self, mut plan: Plan, call: Coll<'_>) -> Result<Box<Collective>> {
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
    pub(super) fn reduction(
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
