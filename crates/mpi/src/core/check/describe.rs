//! A collective call as what others must agree with.
use super::super::op::op_name;
use super::*;
use proto::check::{Block, Flow, Signature};

/// In which form a collective is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Form {
    Blocking,
    Nonblocking,
    Persistent,
}

/// Ranks whose blocks are listed; in larger communicators they are not compared.
const LISTED_MAX: usize = 96;

impl Mpi {
    /// What is told of a call; `None` where nobody is to be asked.
    pub(super) fn record_of(
        &self,
        comm: CommId,
        call: &Coll<'_>,
        form: Form,
        tag: i32,
    ) -> Result<Option<Told>> {
        let name = named(&name_of(call, form));
        let Some((mut record, head)) = self.record(comm, name, tag)? else { return Ok(None) };
        let roster = &self.comm(comm)?.roster;
        let root = root_of(call);
        let mut arguments: Vec<String> = root.map(|root| format!("root {root}")).into_iter().collect();
        // The root's group names nothing but that it has the root.
        if root != Some(Peer::Null) {
            match roster.is_inter() {
                true => self.describe_between(&mut record, call, roster),
                false => self.describe_flow(&mut record, call),
            }
            arguments.extend(operation(call).map(|op| op_name(op).into()));
            arguments.extend(self.data_words(call));
            record.op = operation(call).map(|op| op.0.min(OpId::PREDEFINED));
        }
        record.arguments = arguments.join(", ");
        Ok(Some((record, head)))
    }

    /// A call between two groups: what this one gives goes to the other one.
    fn describe_between(&self, record: &mut Record, call: &Coll<'_>, roster: &Roster) {
        let size = roster.size as usize;
        let others_from = if record.rank < record.first { record.first } else { 0 };
        match root_of(call) {
            Some(Peer::Root) => record.root = Some(record.rank as i32),
            Some(Peer::Rank(root)) => record.root = Some(others_from as i32 + root),
            _ => {}
        }
        let to_root = |block: Block| match root_of(call) {
            Some(Peer::Rank(root)) => Flow::Only(root as u32, block),
            _ => Flow::Unknown,
        };
        let is_root = root_of(call) == Some(Peer::Root);
        match *call {
            Coll::Bcast { data, .. } if is_root => record.gives = Flow::Every(self.block(data)),
            Coll::Bcast { data, .. } => record.takes = to_root(self.block(data)),
            Coll::Gather { recv, .. } if is_root => record.takes = Flow::Every(self.block(recv)),
            Coll::Gatherv { recv, .. } if is_root => record.takes = self.parts_flow(recv, size),
            Coll::Gather { send, .. } | Coll::Gatherv { send, .. } => {
                record.gives = to_root(self.block(send))
            }
            Coll::Scatter { send, .. } if is_root => record.gives = Flow::Every(self.block(send)),
            Coll::Scatterv { send, .. } if is_root => record.gives = self.parts_flow(send, size),
            Coll::Scatter { recv, .. } | Coll::Scatterv { recv, .. } => {
                record.takes = to_root(self.block(recv));
            }
            Coll::Reduce { of, .. } | Coll::Allreduce(of) => record.same = Some(self.block(of.recv)),
            // The groups cut the same into parts of their own.
            Coll::ReduceScatterBlock(of) => {
                let all = of.recv.count.saturating_mul(i64::from(roster.local().len()));
                record.same = Some(self.block_of(all, of.recv.ty));
            }
            Coll::ReduceScatter { of, counts } => {
                record.same = Some(self.block_of(counts.iter().sum(), of.recv.ty));
            }
            _ => self.describe_exchange(record, call, size),
        }
    }

    fn describe_flow(&self, record: &mut Record, call: &Coll<'_>) {
        let (rank, size) = (record.rank, record.size as usize);
        let here = |root: i32| root == rank as i32;
        match *call {
            Coll::Bcast { data, root: Peer::Rank(root) } => {
                record.root = Some(root);
                match here(root) {
                    true => record.gives = Flow::Every(self.block(data)),
                    false => record.takes = Flow::Only(root as u32, self.block(data)),
                }
            }
            Coll::Gather { send, recv, root: Peer::Rank(root) } => {
                record.root = Some(root);
                match here(root) {
                    true => record.takes = Flow::Every(self.block(recv)),
                    false => record.gives = Flow::Only(root as u32, self.block(send)),
                }
            }
            Coll::Gatherv { send, recv, root: Peer::Rank(root) } => {
                record.root = Some(root);
                match here(root) {
                    true => record.takes = self.parts_flow(recv, size),
                    false => record.gives = Flow::Only(root as u32, self.block(send)),
                }
            }
            Coll::Scatter { send, recv, root: Peer::Rank(root) } => {
                record.root = Some(root);
                match here(root) {
                    true => record.gives = Flow::Every(self.block(send)),
                    false => record.takes = Flow::Only(root as u32, self.block(recv)),
                }
            }
            Coll::Scatterv { send, recv, root: Peer::Rank(root) } => {
                record.root = Some(root);
                match here(root) {
                    true => record.gives = self.parts_flow(send, size),
                    false => record.takes = Flow::Only(root as u32, self.block(recv)),
                }
            }
            Coll::Reduce { of, root: Peer::Rank(root) } => {
                record.root = Some(root);
                record.same = Some(self.block(of.recv));
            }
            Coll::Allreduce(of) | Coll::ReduceScatterBlock(of) | Coll::Scan(of) | Coll::Exscan(of) => {
                record.same = Some(self.block(of.recv));
            }
            Coll::ReduceScatter { of, counts } => record.same = Some(self.blocks_alike(of.recv.ty, counts)),
            _ => self.describe_exchange(record, call, size),
        }
    }

    fn describe_exchange(&self, record: &mut Record, call: &Coll<'_>, size: usize) {
        match *call {
            Coll::Allgather { send, recv } | Coll::Alltoall { send, recv } => {
                let taken = self.block(recv);
                let given = if send.buf.is_in_place() { taken } else { self.block(send) };
                (record.gives, record.takes) = (Flow::Every(given), Flow::Every(taken));
            }
            Coll::Allgatherv { send, recv } => {
                record.takes = self.parts_flow(recv, size);
                record.gives = match (&record.takes, send.buf.is_in_place()) {
                    (Flow::Each(blocks), true) => Flow::Every(blocks[record.rank as usize]),
                    (_, true) => Flow::Unknown,
                    (_, false) => Flow::Every(self.block(send)),
                };
            }
            Coll::Alltoallv { send, recv } => {
                record.takes = self.parts_flow(recv, size);
                let in_place = send.buf.is_in_place();
                record.gives = if in_place { record.takes.clone() } else { self.parts_flow(send, size) };
            }
            Coll::Alltoallw { send, recv } => {
                record.takes = self.typed_flow(recv, size);
                let in_place = send.buf.is_in_place();
                record.gives = if in_place { record.takes.clone() } else { self.typed_flow(send, size) };
            }
            _ => {}
        }
    }

    fn block<B>(&self, data: Data<B>) -> Block {
        self.block_of(data.count, data.ty)
    }

    fn block_of(&self, count: i64, ty: TypeId) -> Block {
        let nothing = Block { bytes: 0, mark: 0 };
        let Ok(ty) = self.datatype(ty) else { return nothing };
        let bytes = ty.bytes(count.max(0) as usize).unwrap_or(0);
        Block { bytes: bytes as u64, mark: ty.signature(bytes).mark() }
    }

    fn parts_flow<B>(&self, parts: Parts<'_, B>, size: usize) -> Flow {
        if size > LISTED_MAX || parts.counts.len() < size {
            return Flow::Unknown;
        }
        Flow::Each(parts.counts[..size].iter().map(|count| self.block_of(*count, parts.ty)).collect())
    }

    fn typed_flow<B>(&self, parts: TypedParts<'_, B>, size: usize) -> Flow {
        if size > LISTED_MAX || parts.counts.len() < size || parts.types.len() < size {
            return Flow::Unknown;
        }
        let blocks = parts.counts.iter().zip(parts.types).take(size);
        Flow::Each(blocks.map(|(count, ty)| self.block_of(*count, *ty)).collect())
    }

    /// Counts for every rank that all must name: their sum, and their order as part of the mark.
    fn blocks_alike(&self, ty: TypeId, counts: &[i64]) -> Block {
        let all = self.block_of(counts.iter().sum(), ty);
        let order = |so_far: Signature, count: &i64| so_far.then(Signature::one(*count as u32));
        Block { mark: counts.iter().fold(Signature::one(all.mark), order).mark(), ..all }
    }

    /// What moves, in words.
    fn data_words(&self, call: &Coll<'_>) -> Option<String> {
        let words = |count: i64, ty: TypeId| {
            let name = self.type_name(ty).ok().filter(|name| !name.is_empty());
            Some(format!("{count} x {}", name.as_deref().unwrap_or("a datatype of the program")))
        };
        match *call {
            Coll::Bcast { data, .. } => words(data.count, data.ty),
            Coll::Gather { send, recv, .. } if send.buf.is_in_place() => words(recv.count, recv.ty),
            Coll::Scatter { send, recv, .. } if recv.buf.is_in_place() => words(send.count, send.ty),
            Coll::Allgather { send, recv } | Coll::Alltoall { send, recv } if send.buf.is_in_place() => {
                words(recv.count, recv.ty)
            }
            Coll::Gather { send, .. }
            | Coll::Gatherv { send, .. }
            | Coll::Allgather { send, .. }
            | Coll::Allgatherv { send, .. }
            | Coll::Alltoall { send, .. }
                if !send.buf.is_in_place() =>
            {
                words(send.count, send.ty)
            }
            Coll::Scatter { recv, .. } | Coll::Scatterv { recv, .. } if !recv.buf.is_in_place() => {
                words(recv.count, recv.ty)
            }
            Coll::Reduce { of, .. }
            | Coll::Allreduce(of)
            | Coll::ReduceScatterBlock(of)
            | Coll::Scan(of)
            | Coll::Exscan(of) => words(of.recv.count, of.recv.ty),
            Coll::ReduceScatter { of, counts } => words(counts.iter().sum(), of.recv.ty),
            _ => None,
        }
    }
}

fn root_of(call: &Coll<'_>) -> Option<Peer> {
    match *call {
        Coll::Bcast { root, .. }
        | Coll::Gather { root, .. }
        | Coll::Gatherv { root, .. }
        | Coll::Scatter { root, .. }
        | Coll::Scatterv { root, .. }
        | Coll::Reduce { root, .. } => Some(root),
        _ => None,
    }
}

fn operation(call: &Coll<'_>) -> Option<OpId> {
    match call {
        Coll::Reduce { of, .. }
        | Coll::Allreduce(of)
        | Coll::ReduceScatter { of, .. }
        | Coll::ReduceScatterBlock(of)
        | Coll::Scan(of)
        | Coll::Exscan(of) => Some(of.op),
        _ => None,
    }
}

/// The function of C that does the same.
fn name_of(call: &Coll<'_>, form: Form) -> String {
    let name = match call {
        Coll::Barrier => "barrier",
        Coll::Bcast { .. } => "bcast",
        Coll::Gather { .. } => "gather",
        Coll::Gatherv { .. } => "gatherv",
        Coll::Scatter { .. } => "scatter",
        Coll::Scatterv { .. } => "scatterv",
        Coll::Allgather { .. } => "allgather",
        Coll::Allgatherv { .. } => "allgatherv",
        Coll::Alltoall { .. } => "alltoall",
        Coll::Alltoallv { .. } => "alltoallv",
        Coll::Alltoallw { .. } => "alltoallw",
        Coll::Reduce { .. } => "reduce",
        Coll::Allreduce(_) => "allreduce",
        Coll::ReduceScatter { .. } => "reduce_scatter",
        Coll::ReduceScatterBlock(_) => "reduce_scatter_block",
        Coll::Scan(_) => "scan",
        Coll::Exscan(_) => "exscan",
        Coll::NeighborAllgather { .. } => "neighbor_allgather",
        Coll::NeighborAllgatherv { .. } => "neighbor_allgatherv",
        Coll::NeighborAlltoall { .. } => "neighbor_alltoall",
        Coll::NeighborAlltoallv { .. } => "neighbor_alltoallv",
        Coll::NeighborAlltoallw { .. } => "neighbor_alltoallw",
    };
    let upper = |name: &str| name[..1].to_uppercase() + &name[1..];
    match form {
        Form::Blocking => format!("MPI_{}", upper(name)),
        Form::Nonblocking => format!("MPI_I{name}"),
        Form::Persistent => format!("MPI_{}_init", upper(name)),
    }
}
