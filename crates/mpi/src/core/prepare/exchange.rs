//! Collectives without a root that move data: allgather, all-to-all.
use super::*;
use proto::coll;

impl Mpi {
    pub(super) fn prepare_exchange(&self, mut plan: Plan, call: Coll<'_>) -> Result<Box<Collective>> {
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
    pub(super) fn prepare_alltoallv(
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
    pub(super) fn saved(&self, plan: &mut Plan, data: &Data) -> Result<Spot> {
        let at = plan.stage(data.bytes()?);
        plan.load(Data { buf: data.buf, count: data.count, ty: data.ty.clone() }, at, Form::Packed);
        Ok(Spot::Staged(at))
    }

    pub(super) fn parts(&self, place: Place, buf: RecvBuf, parts: Parts<'_>) -> Result<Vec<Data>> {
        let ty = self.committed(parts.ty)?;
        enough(parts.counts.len().min(parts.displs.len()), place)?;
        let block = |(count, displ): (&i64, &i64)| {
            let buf = buf.shifted((displ * ty.extent) as isize);
            Ok(Data { buf, count: element_count(*count)?, ty: ty.clone() })
        };
        parts.counts.iter().zip(parts.displs).take(place.size as usize).map(block).collect()
    }

    pub(super) fn parts_by_type(
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
}
