//! Collectives against what they mean, on several communicators, sizes, roots and datatypes.
use super::*;

/// A communicator, this process's place in it, and a datatype of 8 bytes of data.
#[derive(Clone, Copy)]
struct Setting {
    comm: CommId,
    rank: i32,
    size: i32,
    ty: TypeId,
    /// From one element to the next.
    extent: usize,
    op: OpId,
}

pub(super) fn check(job: &mut Job) -> Result<()> {
    let reversed = job.mpi.comm_split(CommId::WORLD, Some(0), -job.rank)?;
    let half = job.mpi.comm_split(CommId::WORLD, Some(job.rank % 2), 0)?;
    let gaps = {
        let pair = job.mpi.type_struct(&[1, 1], &[0, 4], &[TypeId::INT, TypeId::INT])?;
        job.mpi.type_resized(pair, 0, 24)?
    };
    job.mpi.type_commit(gaps)?;
    let compose = UserOp { function: 1, extra: 0, commutative: false };
    let op = job.mpi.op_create(compose);
    let comms = [Some(CommId::WORLD), Some(CommId::SELF), reversed, half];
    // Each of many processes takes part in as many exchanges as there are others.
    let counts: &[usize] = if job.size <= 64 { &[0, 1, 5, 300, 9000] } else { &[0, 1, 9000] };
    for comm in comms.into_iter().flatten() {
        let (rank, size) = (job.mpi.comm_rank(comm)? as i32, job.mpi.comm_size(comm)? as i32);
        for (ty, extent) in [(TypeId::DATATYPE_2INT, 8), (gaps, 24)] {
            let setting = Setting { comm, rank, size, ty, extent, op };
            for count in counts {
                every_collective(job, setting, *count)?;
            }
        }
    }
    predefined(job)?;
    mistakes(job)?;
    for comm in [reversed, half].into_iter().flatten() {
        job.mpi.comm_free(comm)?;
    }
    job.mpi.op_free(op)?;
    job.mpi.type_free(gaps)
}

fn every_collective(job: &mut Job, s: Setting, count: usize) -> Result<()> {
    // Everybody computes what all of many processes sent, so those send less: of one block, and of a block for each.
    let size = s.size as usize;
    let count = count.min(150_000 / size);
    let each = count.min(600_000 / (size * size));
    let roots: Vec<i32> = if s.size <= 4 { (0..s.size).collect() } else { vec![0, s.size / 2, s.size - 1] };
    for root in roots {
        bcast(job, s, count, root)?;
        gather_scatter(job, s, each, root)?;
        if count <= 300 {
            gatherv_scatterv(job, s, each, root)?;
        }
        reduce(job, s, count, root)?;
    }
    allgather(job, s, each)?;
    if count <= 300 {
        alltoallv(job, s, each)?;
    }
    // Blocks that processes read in each other's memory, where they can; one for each makes enough.
    alltoall(job, s, each.min(2500))?;
    reduce_scatter(job, s, each.min(2500))?;
    allreduce(job, s, count)?;
    scans(job, s, count)
}

/// The elements of a rank, without gaps.
fn elements(rank: i32, count: usize) -> Vec<u8> {
    pattern(rank, count * 8)
}

impl Setting {
    /// Elements laid out with the extent of the datatype; gaps hold 0xEE.
    fn lay(&self, packed: &[u8]) -> Memory {
        let mut bytes = vec![0xEE; packed.len() / 8 * self.extent];
        for (element, place) in packed.chunks(8).zip(bytes.chunks_mut(self.extent)) {
            place[..8].copy_from_slice(element);
        }
        Memory::new(&bytes)
    }

    /// `count` elements at a place.
    fn of<B>(&self, buf: B, count: usize) -> Data<B> {
        Data::new(buf, count as i64, self.ty)
    }

    /// The program's reduction of `count` elements.
    fn reduction(&self, send: SendBuf, recv: RecvBuf, count: usize) -> Reduction {
        Reduction { send, recv: self.of(recv, count), op: self.op }
    }

    fn empty(&self, count: usize) -> Memory {
        Memory::filled(count * self.extent, 0xEE)
    }

    /// The elements and whether the gaps are as they were.
    fn pick(&self, memory: &mut Memory) -> (Vec<u8>, bool) {
        let bytes = memory.bytes();
        let places = bytes.chunks(self.extent);
        let intact = places.clone().all(|place| place[8..].iter().all(|byte| *byte == 0xEE));
        (places.flat_map(|place| place[..8].to_vec()).collect(), intact)
    }

    fn same(&self, job: &mut Job, memory: &mut Memory, expected: Vec<u8>, what: &str) -> Result<()> {
        let what = format!("{what}, {} elements, rank {} of {}", expected.len() / 8, self.rank, self.size);
        job.equal(&self.pick(memory), &(expected, true), &what)
    }
}

fn fold(ranks: impl Iterator<Item = i32>, count: usize) -> Vec<u8> {
    let eight = |bytes: &[u8]| -> [u8; 8] { std::array::from_fn(|i| bytes[i]) };
    let both = |mut all: Vec<u8>, next: Vec<u8>| {
        for (sum, element) in all.chunks_mut(8).zip(next.chunks(8)) {
            sum.copy_from_slice(&composed(eight(sum), eight(element)));
        }
        all
    };
    ranks.map(|rank| elements(rank, count)).reduce(both).unwrap_or_else(|| vec![0xEE; count * 8])
}

fn joined(size: i32, count: usize) -> Vec<u8> {
    (0..size).flat_map(|rank| elements(rank, count)).collect()
}

fn bcast(job: &mut Job, s: Setting, count: usize, root: i32) -> Result<()> {
    let mut memory = if s.rank == root { s.lay(&elements(root, count)) } else { s.empty(count) };
    let data = s.of(memory.recv(), count);
    job.collective(s.comm, Coll::Bcast { data, root: Peer::Rank(root) })?;
    s.same(job, &mut memory, elements(root, count), "bcast")
}

fn gather_scatter(job: &mut Job, s: Setting, count: usize, root: i32) -> Result<()> {
    for in_place in [false, true] {
        let here = s.rank == root;
        let mut mine = s.lay(&elements(s.rank, count));
        let mut all = s.empty(if here { count * s.size as usize } else { 0 });
        let mut send = mine.send();
        if in_place && here {
            let at = count * root as usize * s.extent;
            all.recv().range(at as isize, mine.len).copy_from_slice(&mine.bytes());
            send = SendBuf::IN_PLACE;
        }
        let root = Peer::Rank(root);
        let (send, recv) = (s.of(send, count), s.of(all.recv(), count));
        job.collective(s.comm, Coll::Gather { send, recv, root })?;
        if here {
            s.same(job, &mut all, joined(s.size, count), "gather")?;
        }
        let mut part = s.empty(count);
        let stays = in_place && here;
        let recv = if stays { RecvBuf::IN_PLACE } else { part.recv() };
        let (send, recv) = (s.of(all.send(), count), s.of(recv, count));
        job.collective(s.comm, Coll::Scatter { send, recv, root })?;
        if !stays {
            s.same(job, &mut part, elements(s.rank, count), "scatter")?;
        }
    }
    Ok(())
}

/// Rank r has (count + r) % 4 more elements; blocks stand in reverse order with a gap of one element.
fn uneven(size: i32, count: usize) -> (Vec<i64>, Vec<i64>, usize) {
    let counts: Vec<i64> = (0..size).map(|rank| count as i64 + i64::from(rank) % 4).collect();
    let mut at = 0;
    let mut displs = vec![0; counts.len()];
    for rank in (0..counts.len()).rev() {
        displs[rank] = at + 1;
        at += 1 + counts[rank];
    }
    (counts, displs, at as usize)
}

fn scattered(size: i32, counts: &[i64], displs: &[i64], total: usize) -> Vec<u8> {
    let mut all = vec![0xEE; total * 8];
    for rank in 0..size as usize {
        let (at, len) = (displs[rank] as usize * 8, counts[rank] as usize * 8);
        all[at..at + len].copy_from_slice(&elements(rank as i32, counts[rank] as usize));
    }
    all
}

fn gatherv_scatterv(job: &mut Job, s: Setting, count: usize, root: i32) -> Result<()> {
    let (counts, displs, total) = uneven(s.size, count);
    let own = counts[s.rank as usize] as usize;
    let mut mine = s.lay(&elements(s.rank, own));
    let mut all = s.empty(total);
    let (here, root) = (s.rank == root, Peer::Rank(root));
    let recv = Parts { buf: all.recv(), counts: &counts, displs: &displs, ty: s.ty };
    job.collective(s.comm, Coll::Gatherv { send: s.of(mine.send(), own), recv, root })?;
    let expected = scattered(s.size, &counts, &displs, total);
    if here {
        s.same(job, &mut all, expected.clone(), "gatherv")?;
    }
    let mut part = s.empty(own);
    let mut source = s.lay(&expected);
    let send = Parts { buf: source.send(), counts: &counts, displs: &displs, ty: s.ty };
    job.collective(s.comm, Coll::Scatterv { send, recv: s.of(part.recv(), own), root })?;
    s.same(job, &mut part, elements(s.rank, own), "scatterv")?;
    let mut all = s.empty(total);
    let recv = Parts { buf: all.recv(), ..recv };
    job.collective(s.comm, Coll::Allgatherv { send: s.of(mine.send(), own), recv })?;
    s.same(job, &mut all, expected, "allgatherv")
}

fn allgather(job: &mut Job, s: Setting, count: usize) -> Result<()> {
    for in_place in [false, true] {
        let mut mine = s.lay(&elements(s.rank, count));
        let mut all = s.empty(count * s.size as usize);
        let mut send = mine.send();
        if in_place {
            let at = count * s.rank as usize * s.extent;
            all.recv().range(at as isize, mine.len).copy_from_slice(&mine.bytes());
            send = SendBuf::IN_PLACE;
        }
        let (send, recv) = (s.of(send, count), s.of(all.recv(), count));
        job.collective(s.comm, Coll::Allgather { send, recv })?;
        s.same(job, &mut all, joined(s.size, count), "allgather")?;
    }
    Ok(())
}

/// What rank `from` has for rank `to`.
fn parcel(from: i32, to: i32, count: usize) -> Vec<u8> {
    elements(from * 5 + to, count)
}

fn alltoall(job: &mut Job, s: Setting, count: usize) -> Result<()> {
    let outgoing: Vec<u8> = (0..s.size).flat_map(|to| parcel(s.rank, to, count)).collect();
    let expected: Vec<u8> = (0..s.size).flat_map(|from| parcel(from, s.rank, count)).collect();
    for in_place in [false, true] {
        let mut mine = s.lay(&outgoing);
        let mut all = if in_place { s.lay(&outgoing) } else { s.empty(count * s.size as usize) };
        let send = if in_place { SendBuf::IN_PLACE } else { mine.send() };
        let (send, recv) = (s.of(send, count), s.of(all.recv(), count));
        job.collective(s.comm, Coll::Alltoall { send, recv })?;
        s.same(job, &mut all, expected.clone(), "alltoall")?;
    }
    Ok(())
}

/// Rank i sends (i + j) % 3 * count elements to rank j: the exchange is symmetric in lengths.
fn alltoallv(job: &mut Job, s: Setting, count: usize) -> Result<()> {
    let counts: Vec<i64> = (0..s.size).map(|other| i64::from((s.rank + other) % 3) * count as i64).collect();
    let displs: Vec<i64> = (0..counts.len()).map(|rank| counts[..rank].iter().sum()).collect();
    let total = counts.iter().sum::<i64>() as usize;
    let parcels = |out: bool| -> Vec<u8> {
        let one = |other: i32| {
            let len = counts[other as usize] as usize;
            if out { parcel(s.rank, other, len) } else { parcel(other, s.rank, len) }
        };
        (0..s.size).flat_map(one).collect()
    };
    for in_place in [false, true] {
        let mut mine = s.lay(&parcels(true));
        let mut all = if in_place { s.lay(&parcels(true)) } else { s.empty(total) };
        let send = if in_place { SendBuf::IN_PLACE } else { mine.send() };
        let send = Parts { buf: send, counts: &counts, displs: &displs, ty: s.ty };
        let recv = Parts { buf: all.recv(), counts: &counts, displs: &displs, ty: s.ty };
        job.collective(s.comm, Coll::Alltoallv { send, recv })?;
        s.same(job, &mut all, parcels(false), "alltoallv")?;
    }
    // By datatype: one side with gaps, the other as plain integers.
    let mut mine = s.lay(&parcels(true));
    let mut plain = Memory::filled(total * 8, 0xEE);
    let sdispls: Vec<i64> = displs.iter().map(|displ| displ * s.extent as i64).collect();
    let rdispls: Vec<i64> = displs.iter().map(|displ| displ * 8).collect();
    let rcounts: Vec<i64> = counts.iter().map(|count| count * 2).collect();
    let (stypes, rtypes) = (vec![s.ty; counts.len()], vec![TypeId::INT; counts.len()]);
    let send = TypedParts { buf: mine.send(), counts: &counts, displs: &sdispls, types: &stypes };
    let recv = TypedParts { buf: plain.recv(), counts: &rcounts, displs: &rdispls, types: &rtypes };
    job.collective(s.comm, Coll::Alltoallw { send, recv })?;
    job.equal(&plain.bytes(), &parcels(false), "alltoallw")
}

fn reduce(job: &mut Job, s: Setting, count: usize, root: i32) -> Result<()> {
    for in_place in [false, true] {
        let here = s.rank == root;
        let mut mine = s.lay(&elements(s.rank, count));
        let mut result = if here && in_place { s.lay(&elements(s.rank, count)) } else { s.empty(count) };
        let send = if here && in_place { SendBuf::IN_PLACE } else { mine.send() };
        let of = s.reduction(send, result.recv(), count);
        job.collective(s.comm, Coll::Reduce { of, root: Peer::Rank(root) })?;
        if here {
            s.same(job, &mut result, fold(0..s.size, count), "reduce")?;
        }
    }
    Ok(())
}

fn allreduce(job: &mut Job, s: Setting, count: usize) -> Result<()> {
    for in_place in [false, true] {
        let mut mine = s.lay(&elements(s.rank, count));
        let mut result = if in_place { s.lay(&elements(s.rank, count)) } else { s.empty(count) };
        let send = if in_place { SendBuf::IN_PLACE } else { mine.send() };
        job.collective(s.comm, Coll::Allreduce(s.reduction(send, result.recv(), count)))?;
        s.same(job, &mut result, fold(0..s.size, count), "allreduce")?;
    }
    Ok(())
}

fn scans(job: &mut Job, s: Setting, count: usize) -> Result<()> {
    for in_place in [false, true] {
        let mut mine = s.lay(&elements(s.rank, count));
        let start = |s: Setting| if in_place { s.lay(&elements(s.rank, count)) } else { s.empty(count) };
        let send = if in_place { SendBuf::IN_PLACE } else { mine.send() };
        let (mut upto, mut before) = (start(s), start(s));
        job.collective(s.comm, Coll::Scan(s.reduction(send, upto.recv(), count)))?;
        s.same(job, &mut upto, fold(0..s.rank + 1, count), "scan")?;
        job.collective(s.comm, Coll::Exscan(s.reduction(send, before.recv(), count)))?;
        if s.rank > 0 {
            s.same(job, &mut before, fold(0..s.rank, count), "exscan")?;
        }
    }
    Ok(())
}

fn reduce_scatter(job: &mut Job, s: Setting, count: usize) -> Result<()> {
    let counts: Vec<i64> = (0..s.size).map(|rank| i64::from(rank % 3) * count as i64).collect();
    let first: i64 = counts[..s.rank as usize].iter().sum();
    let (total, own) = (counts.iter().sum::<i64>() as usize, counts[s.rank as usize] as usize);
    let all = fold(0..s.size, total);
    let expected = all[first as usize * 8..][..own * 8].to_vec();
    let mut mine = s.lay(&elements(s.rank, total));
    let mut part = s.empty(own);
    let of = s.reduction(mine.send(), part.recv(), own);
    job.collective(s.comm, Coll::ReduceScatter { of, counts: &counts })?;
    s.same(job, &mut part, expected.clone(), "reduce_scatter")?;
    let mut both = s.lay(&elements(s.rank, total));
    let of = s.reduction(SendBuf::IN_PLACE, both.recv(), own);
    job.collective(s.comm, Coll::ReduceScatter { of, counts: &counts })?;
    let (got, intact) = s.pick(&mut both);
    job.equal(&(&got[..own * 8], intact), &(&expected[..], true), "reduce_scatter in place")?;
    let total = count * s.size as usize;
    let all = fold(0..s.size, total);
    let mut mine = s.lay(&elements(s.rank, total));
    let mut part = s.empty(count);
    job.collective(s.comm, Coll::ReduceScatterBlock(s.reduction(mine.send(), part.recv(), count)))?;
    let at = count * s.rank as usize * 8;
    s.same(job, &mut part, all[at..at + count * 8].to_vec(), "reduce_scatter_block")
}

/// Predefined operations, on sizes that take every algorithm.
fn predefined(job: &mut Job) -> Result<()> {
    let (rank, size) = (i64::from(job.rank), i64::from(job.size));
    for count in [1i64, 1000, 40_000] {
        let mine: Vec<u8> = (0..count).flat_map(|i| (rank + i).to_ne_bytes()).collect();
        let bytes = |f: &dyn Fn(i64) -> i64| (0..count).flat_map(|i| f(i).to_ne_bytes()).collect::<Vec<u8>>();
        let expected: [(OpId, Vec<u8>); 4] = [
            (OpId::SUM, bytes(&|i| size * (size - 1) / 2 + size * i)),
            (OpId::MAX, bytes(&|i| size - 1 + i)),
            (OpId::MIN, bytes(&|i| i)),
            (OpId::BXOR, bytes(&|i| (0..size).fold(0, |x, r| x ^ (r + i)))),
        ];
        for (op, expected) in expected {
            let (mut mine, mut result) = (Memory::new(&mine), Memory::filled(mine.len(), 0));
            let of =
                Reduction { send: mine.send(), recv: Data::new(result.recv(), count, TypeId::INT64_T), op };
            job.collective(CommId::WORLD, Coll::Allreduce(of))?;
            job.equal(&result.bytes(), &expected, "allreduce of a predefined operation")?;
            let mut part = Memory::filled(8 * count as usize, 0);
            let total: Vec<u8> = (0..size).flat_map(|_| mine.bytes()).collect();
            if total.len() < 1 << 22 {
                let mut all = Memory::new(&total);
                let of = Reduction { send: all.send(), recv: Data { buf: part.recv(), ..of.recv }, op };
                job.collective(CommId::WORLD, Coll::ReduceScatterBlock(of))?;
                job.equal(&part.bytes(), &expected, "reduce_scatter_block of a predefined operation")?;
            }
        }
    }
    location(job)
}

/// The rank with the largest value; the pair has a gap at its end.
fn location(job: &mut Job) -> Result<()> {
    let value = f64::from((job.rank * 7) % 5);
    let mut bytes = value.to_ne_bytes().to_vec();
    bytes.extend(job.rank.to_ne_bytes());
    bytes.extend([0; 4]);
    let (mut mine, mut result) = (Memory::new(&bytes), Memory::filled(16, 0xEE));
    let recv = Data::new(result.recv(), 1, TypeId::DOUBLE_INT);
    let of = Reduction { send: mine.send(), recv, op: OpId::MAXLOC };
    job.collective(CommId::WORLD, Coll::Allreduce(of))?;
    let best = (0..job.size).max_by_key(|rank| ((rank * 7) % 5, -rank)).unwrap_or(0);
    let mut expected = f64::from((best * 7) % 5).to_ne_bytes().to_vec();
    expected.extend(best.to_ne_bytes());
    expected.extend([0xEE; 4]);
    job.equal(&result.bytes(), &expected, "location of the largest value")
}

fn mistakes(job: &mut Job) -> Result<()> {
    let mut memory = Memory::filled(64, 0);
    let (comm, data) = (CommId::WORLD, Data::new(memory.recv(), 1, TypeId::DOUBLE));
    let of = Reduction { send: memory.send(), recv: data, op: OpId::BAND };
    let result = job.mpi.collective(comm, Coll::Allreduce(of));
    job.fails(result, ErrorClass::Op, "bits of floating-point numbers")?;
    let root = Peer::Rank(job.size);
    let result = job.mpi.collective(comm, Coll::Bcast { data, root });
    job.fails(result, ErrorClass::Root, "a root beyond the end")?;
    let data = Data { count: -1, ..data };
    let result = job.mpi.collective(comm, Coll::Bcast { data, root: Peer::Rank(0) });
    job.fails(result, ErrorClass::Count, "a negative count")?;
    in_place_receives(job)
}

/// Where the standard has no receive buffer in place, it is refused before anything is sent or written.
fn in_place_receives(job: &mut Job) -> Result<()> {
    let mut memory = Memory::filled(8, 0);
    let (send, here) = (Data::new(memory.send(), 1, TypeId::DOUBLE), Peer::Rank(0));
    let recv = Data::new(RecvBuf::IN_PLACE, 1, TypeId::DOUBLE);
    let parts = Parts { buf: RecvBuf::IN_PLACE, counts: &[1], displs: &[0], ty: TypeId::DOUBLE };
    let of = Reduction { send: send.buf, recv, op: OpId::SUM };
    let calls = [
        Coll::Bcast { data: recv, root: here },
        Coll::Gather { send, recv, root: here },
        Coll::Gatherv { send, recv: parts, root: here },
        Coll::Allgather { send, recv },
        Coll::Alltoall { send, recv },
        Coll::Reduce { of, root: here },
        Coll::Allreduce(of),
        Coll::Scan(of),
    ];
    for call in calls {
        let result = job.mpi.collective(CommId::SELF, call);
        job.fails(result, ErrorClass::Buffer, &format!("in place: {call:?}"))?;
    }
    Ok(())
}
