//! Collectives without a root that move data: allgather, all-to-all.
use super::*;
use proto::coll;

impl Mpi {
    pub(super) fn prepare_exchange(&self, mut plan: Plan, call: Coll<'_>) -> Result<Box<Collective>> {
        let place = plan.place;
        let len = place.size as usize;
        match call {
            Coll::Allgather { send, recv } => {
                let block = self.gather_side(&mut plan, send, recv)?;
                match &plan.hosts {
                    Some(hosts) => hosts.allgatherv(&mut plan.c.schedule, place, Blocks::Equal(block)),
                    None => coll::allgather(&mut plan.c.schedule, place, block),
                }
            }
            Coll::Allgatherv { send, recv } => {
                let list = self.gatherv_side(&mut plan, send, recv)?;
                match &plan.hosts {
                    Some(hosts) => hosts.allgatherv(&mut plan.c.schedule, place, Blocks::Listed(&list)),
                    None => coll::allgatherv(&mut plan.c.schedule, place, Blocks::Listed(&list)),
                }
            }
            Coll::Alltoall { send, recv } => {
                let (per_rank, all) = self.for_everyone(&plan, recv)?;
                let block = all.ty.bytes(per_rank)?;
                if send.buf.is_in_place() {
                    plan.input = plan.staged(all.clone(), Use::Read)?;
                } else {
                    let (_, data) = self.for_everyone(&plan, send.as_recv())?;
                    plan.input = plan.fitted(data, Use::Read, all.bytes()?)?;
                }
                plan.output = plan.spot(all, Use::Written)?;
                match &plan.hosts {
                    Some(hosts) => hosts.alltoall(&mut plan.c.schedule, place, block),
                    None => coll::alltoall(&mut plan.c.schedule, place, block),
                }
            }
            Coll::Alltoallv { send, recv } => {
                let send = (!send.buf.is_in_place()).then(|| send.as_recv());
                let sends = send.map(|send| self.parts(len, send)).transpose()?;
                self.prepare_alltoallv(&mut plan, sends, self.parts(len, recv)?)?;
            }
            Coll::Alltoallw { send, recv } => {
                let send = (!send.buf.is_in_place()).then(|| send.as_recv());
                let sends = send.map(|send| self.typed_parts(len, send)).transpose()?;
                self.prepare_alltoallv(&mut plan, sends, self.typed_parts(len, recv)?)?;
            }
            _ => return fail(ErrorClass::Intern, "not an exchange"),
        }
        Ok(plan.finish())
    }

    /// `sends` is `None` for an exchange in place: the blocks to send are what the receive buffer holds.
    fn prepare_alltoallv(&self, plan: &mut Plan, sends: Option<Listed>, recvs: Listed) -> Result<()> {
        let mut send_list = match sends {
            Some(sends) => {
                let (spot, list) = plan.lay_out(sends, Use::Read)?;
                plan.input = spot;
                list
            }
            None => {
                let start = plan.staged_bytes;
                let mut list = Vec::with_capacity(recvs.blocks.len());
                for data in &recvs.blocks {
                    list.push(Block { at: plan.staged_bytes - start, len: data.bytes()? });
                    plan.staged(data.clone(), Use::Read)?;
                }
                plan.input = Spot::Staged(start);
                list
            }
        };
        let (spot, mut recv_list) = plan.lay_out(recvs, Use::Written)?;
        plan.output = spot;
        let own = plan.place.rank as usize;
        let len = plan.own_block(send_list[own].len, recv_list[own].len);
        (send_list[own].len, recv_list[own].len) = (len, len);
        let (sends, recvs) = (Blocks::Listed(&send_list), Blocks::Listed(&recv_list));
        coll::alltoallv(&mut plan.c.schedule, plan.place, sends, recvs);
        Ok(())
    }

    pub(super) fn parts(&self, len: usize, parts: Parts<'_, RecvBuf>) -> Result<Listed> {
        let ty = self.committed(parts.ty)?;
        enough(parts.counts.len().min(parts.displs.len()), len)?;
        let block = |(rank, (count, displ)): (usize, (&i64, &i64))| {
            let buf = parts.buf.shifted(product(*displ, ty.extent)? as isize);
            let count = count_for(rank, *count)?;
            ty.check_at(buf, count)?;
            Ok(Checked { buf, count, ty: ty.clone() })
        };
        let blocks = parts.counts.iter().zip(parts.displs).take(len).enumerate().map(block);
        Ok(Listed { origin: parts.buf, blocks: blocks.collect::<Result<_>>()? })
    }

    pub(super) fn typed_parts(&self, len: usize, parts: TypedParts<'_, RecvBuf>) -> Result<Listed> {
        let TypedParts { buf, counts, displs, types } = parts;
        enough(counts.len().min(displs.len()).min(types.len()), len)?;
        let block = |rank: usize| {
            let count = count_for(rank, counts[rank])?;
            // A block of no elements may come with no datatype worth the name.
            let ty = if count == 0 { TypeId::BYTE } else { types[rank] };
            let (buf, ty) = (buf.shifted(displs[rank] as isize), self.committed(ty)?);
            ty.check_at(buf, count)?; // displacements may be absolute addresses
            Ok(Checked { buf, count, ty: ty.clone() })
        };
        let blocks = (0..len).map(block);
        Ok(Listed { origin: buf, blocks: blocks.collect::<Result<_>>()? })
    }
}
