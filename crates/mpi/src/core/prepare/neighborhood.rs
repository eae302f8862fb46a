//! Collectives among the neighbors of a topology.
use super::*;
use crate::core::topology::Neighborhood;
use proto::coll::Edge;

impl Mpi {
    pub(super) fn prepare_neighborhood(
        &self,
        comm: CommId,
        mut plan: Plan,
        call: Coll<'_>,
    ) -> Result<Box<Collective>> {
        let around = self.neighborhood(comm)?;
        let (sources, dests) = (around.sources.len(), around.dests.len());
        match call {
            Coll::NeighborAllgather { send, recv } => {
                let sends = self.one_for_all(&mut plan, send, dests)?;
                let recvs = self.equal_parts(sources, recv)?;
                exchange(&mut plan, &around, sends, recvs)?;
            }
            Coll::NeighborAllgatherv { send, recv } => {
                let sends = self.one_for_all(&mut plan, send, dests)?;
                let recvs = self.parts(sources, recv)?;
                exchange(&mut plan, &around, sends, recvs)?;
            }
            Coll::NeighborAlltoall { send, recv } => {
                let sends = self.equal_parts(dests, send.as_recv())?;
                let sends = read_from(&mut plan, sends)?;
                let recvs = self.equal_parts(sources, recv)?;
                exchange(&mut plan, &around, sends, recvs)?;
            }
            Coll::NeighborAlltoallv { send, recv } => {
                let sends = self.parts(dests, send.as_recv())?;
                let sends = read_from(&mut plan, sends)?;
                let recvs = self.parts(sources, recv)?;
                exchange(&mut plan, &around, sends, recvs)?;
            }
            Coll::NeighborAlltoallw { send, recv } => {
                let sends = self.typed_parts(dests, send.as_recv())?;
                let sends = read_from(&mut plan, sends)?;
                let recvs = self.typed_parts(sources, recv)?;
                exchange(&mut plan, &around, sends, recvs)?;
            }
            _ => return fail(ErrorClass::Intern, "not a neighborhood collective"),
        }
        Ok(plan.finish())
    }

    /// The same elements for each of the neighbors.
    fn one_for_all(&self, plan: &mut Plan, send: SendData, neighbors: usize) -> Result<Vec<Block>> {
        let data = self.checked(send.as_recv())?;
        let block = Block { at: 0, len: data.bytes()? };
        plan.input = plan.spot(data, Use::Read)?;
        Ok(vec![block; neighbors])
    }

    /// As many elements for each of the neighbors, one after the other.
    fn equal_parts(&self, neighbors: usize, data: RecvData) -> Result<Listed> {
        let each = self.checked(data)?;
        let all = each.count.saturating_mul(neighbors);
        each.ty.bytes(all)?;
        let blocks = (0..neighbors as u32).map(|place| each.of_rank(place, each.count)).collect();
        Ok(Listed { origin: each.buf, blocks })
    }
}

fn read_from(plan: &mut Plan, sends: Listed) -> Result<Vec<Block>> {
    let (spot, list) = plan.lay_out(sends, Use::Read)?;
    plan.input = spot;
    Ok(list)
}

fn exchange(plan: &mut Plan, around: &Neighborhood, sends: Vec<Block>, recvs: Listed) -> Result<()> {
    // What the null process would have sent stays as it is, also where a copy of ours stands for the program's memory.
    let present = |(place, _): &(usize, Checked<RecvBuf>)| around.sources[*place].is_some();
    let (places, blocks) = recvs.blocks.into_iter().enumerate().filter(present).unzip::<_, _, Vec<_>, _>();
    let (spot, list) = plan.lay_out(Listed { origin: recvs.origin, blocks }, Use::Written)?;
    plan.output = spot;
    let mut into = vec![None; around.sources.len()];
    for (place, block) in places.into_iter().zip(list) {
        into[place] = Some(block);
    }
    let edge = |(peer, block): (Option<u32>, Option<Block>)| Some(Edge { peer: peer?, block: block? });
    let incoming: Vec<Edge> =
        around.expected().filter_map(|place| edge((around.sources[place], into[place]))).collect();
    let outgoing: Vec<Edge> =
        around.dests.iter().copied().zip(sends.into_iter().map(Some)).filter_map(edge).collect();
    own_edges_fit(plan, &outgoing, &incoming);
    coll::neighbors(&mut plan.c.schedule, plan.place, &outgoing, &incoming);
    Ok(())
}

/// What a process sends to itself is copied: the lengths must be equal.
fn own_edges_fit(plan: &mut Plan, outgoing: &[Edge], incoming: &[Edge]) {
    let rank = plan.place.rank;
    let own = |edges: &[Edge]| -> Vec<usize> {
        edges.iter().filter(|edge| edge.peer == rank).map(|edge| edge.block.len).collect()
    };
    for (sent, received) in own(outgoing).into_iter().zip(own(incoming)) {
        plan.own_block(sent, received);
    }
}
