//! Reductions.
use super::*;
use proto::coll::{self, Operands};

impl Mpi {
    pub(super) fn prepare_reduction(&self, mut plan: Plan, call: Coll<'_>) -> Result<Box<Collective>> {
        let place = plan.place;
        match call {
            Coll::Reduce { of, root } => {
                let root = root_rank(root, place)?;
                let count = element_count(of.recv.count)?;
                let e = self.reduction(&mut plan, of, Some(count), (place.rank == root).then_some(count))?;
                match &plan.hosts {
                    Some(hosts) => hosts.reduce(&mut plan.c.schedule, place, root, e),
                    None => coll::reduce(&mut plan.c.schedule, place, root, e),
                }
            }
            Coll::Allreduce(of) => {
                let count = element_count(of.recv.count)?;
                let e = self.reduction(&mut plan, of, Some(count), Some(count))?;
                match &plan.hosts {
                    Some(hosts) => hosts.allreduce(&mut plan.c.schedule, place, e),
                    None => coll::allreduce(&mut plan.c.schedule, place, e),
                }
            }
            Coll::Scan(of) => {
                let count = element_count(of.recv.count)?;
                let e = self.reduction(&mut plan, of, Some(count), Some(count))?;
                match &plan.hosts {
                    Some(hosts) => hosts.scan(&mut plan.c.schedule, place, e),
                    None => coll::scan(&mut plan.c.schedule, place, e),
                }
            }
            Coll::Exscan(of) => {
                let count = element_count(of.recv.count)?;
                let e = self.reduction(&mut plan, of, Some(count), (place.rank > 0).then_some(count))?;
                match &plan.hosts {
                    Some(hosts) => hosts.exscan(&mut plan.c.schedule, place, e),
                    None => coll::exscan(&mut plan.c.schedule, place, e),
                }
            }
            Coll::ReduceScatterBlock(of) => {
                let count = element_count(of.recv.count)?;
                let all = self.all_of(of, [count].into_iter().cycle().take(place.size as usize))?;
                let e = self.reduction(&mut plan, of, Some(all), Some(count))?;
                reduce_scatter(&mut plan, e, Blocks::Equal(count * e.unit));
            }
            Coll::ReduceScatter { of, counts } => {
                let (e, list) = self.reduction_in_parts(&mut plan, of, counts)?;
                reduce_scatter(&mut plan, e, Blocks::Listed(&list));
            }
            _ => return fail(ErrorClass::Intern, "not a reduction"),
        }
        Ok(plan.finish())
    }

    /// The elements of all parts together, if so many can be.
    pub(super) fn all_of(&self, of: Reduction, mut counts: impl Iterator<Item = usize>) -> Result<usize> {
        let all = counts.try_fold(0usize, usize::checked_add).unwrap_or(usize::MAX);
        self.committed(of.recv.ty)?.bytes(all)?;
        Ok(all)
    }

    /// Lays out a reduction whose result is cut into parts of so many elements, by rank.
    pub(super) fn reduction_in_parts(
        &self,
        plan: &mut Plan,
        of: Reduction,
        counts: &[i64],
    ) -> Result<(Elements, Vec<Block>)> {
        let place = plan.place;
        enough(counts.len(), place.size as usize)?;
        let counts =
            counts[..place.size as usize].iter().enumerate().map(|(rank, count)| count_for(rank, *count));
        let counts = counts.collect::<Result<Vec<usize>>>()?;
        let own = counts[place.rank as usize];
        let all = self.all_of(of, counts.iter().copied())?;
        let e = self.reduction(plan, of, Some(all), Some(own))?;
        let mut at = 0;
        let block = |count: &usize| {
            let len = count * e.unit;
            at += len;
            Block { at: at - len, len }
        };
        Ok((e, counts.iter().map(block).collect()))
    }

    /// Lays out a reduction: so many elements are `operands` of this process (`None`: it gives nothing), and so many of
    /// the `result` come back to it (`None`: it has no receive buffer).
    pub(super) fn reduction(
        &self,
        plan: &mut Plan,
        of: Reduction,
        operands: Option<usize>,
        result: Option<usize>,
    ) -> Result<Elements> {
        let count = operands.or(result).unwrap_or(0);
        let Reduction { send, recv: RecvData { buf: recv, ty: id, .. }, op } = of;
        let ty = self.committed(id)?;
        plan.c.combine = Some(self.combine(op, id, ty)?);
        let commutes = self.op_commutative(op)?;
        ty.bytes(count)?;
        let from = if send.is_in_place() { recv } else { send.as_recv() };
        ty.check_at(from, operands.unwrap_or(0))?;
        ty.check_at(recv, result.unwrap_or(0))?;
        let flat = ty.flat(2);
        let unit = if flat.is_some() { ty.size } else { spread_unit(ty)? };
        (plan.c.unit, plan.c.shift) = (unit, flat.map_or(ty.true_lb as isize, |(offset, _)| offset));
        if let Some((offset, _)) = flat {
            plan.input = Spot::Program(from.shifted(offset));
            plan.output = Spot::Program(recv.shifted(offset));
        } else {
            if let Some(count) = operands {
                let at = plan.stage(count * unit);
                plan.copy(Checked { buf: from, count, ty: ty.clone() }, Use::Read, at, Form::Spread);
                plan.input = Spot::Staged(at);
            }
            if let Some(result) = result {
                let at = plan.stage(result * unit);
                let data = Checked { buf: recv, count: result, ty: ty.clone() };
                plan.copy(data, Use::Written, at, Form::Spread);
                plan.output = Spot::Staged(at);
            }
        }
        let in_place = send.is_in_place() && flat.is_some();
        let operands = if in_place { Operands::InPlace } else { Operands::Apart };
        Ok(Elements { count, unit, commutes, operands })
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

fn reduce_scatter(plan: &mut Plan, data: Elements, blocks: Blocks<'_>) {
    match &plan.hosts {
        Some(hosts) => hosts.reduce_scatter(&mut plan.c.schedule, plan.place, data, blocks),
        None => coll::reduce_scatter(&mut plan.c.schedule, plan.place, data, blocks),
    }
}
