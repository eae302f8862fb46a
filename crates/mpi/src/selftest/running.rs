//! Collectives that go on while the program does other things.
use super::*;

const WORLD: CommId = CommId::WORLD;

pub(super) fn check(job: &mut Job) -> Result<()> {
    several_at_once(job)?;
    behind_a_barrier(job)?;
    persistent(job)?;
    given_up(job)?;
    generalized(job)
}

/// Many under way, waited for in reverse.
fn several_at_once(job: &mut Job) -> Result<()> {
    let n = 12;
    let mut mine: Vec<Memory> = (0..n).map(|i| Memory::new(&i64::from(job.rank + i).to_ne_bytes())).collect();
    let mut sums: Vec<Memory> = (0..n).map(|_| Memory::filled(8, 0)).collect();
    let mut requests = Vec::new();
    for (mine, sum) in mine.iter_mut().zip(&mut sums) {
        let recv = Data::new(sum.recv(), 1, TypeId::INT64_T);
        let of = Reduction { send: mine.send(), recv, op: OpId::SUM };
        requests.push(job.mpi.icollective(WORLD, Coll::Allreduce(of))?);
        requests.push(job.mpi.icollective(WORLD, Coll::Barrier)?);
    }
    let mut memory = Memory::filled(200_000, job.rank as u8);
    let call = Coll::Bcast { data: memory.received(), root: Peer::Rank(job.size - 1) };
    requests.push(job.mpi.icollective(WORLD, call)?);
    for request in requests.into_iter().rev() {
        job.wait(request)?;
    }
    for (i, sum) in sums.iter_mut().enumerate() {
        let size = i64::from(job.size);
        let expected = size * (size - 1) / 2 + size * i as i64;
        job.equal(&sum.bytes(), &expected.to_ne_bytes().to_vec(), "one of many sums")?;
    }
    job.equal(&memory.bytes(), &vec![(job.size - 1) as u8; 200_000], "a broadcast among others")
}

/// A reduction by a function of the program goes on while this process waits in blocking calls for a process that
/// itself waits for the reduction.
fn behind_a_barrier(job: &mut Job) -> Result<()> {
    let op = job.mpi.op_create(UserOp { function: 1, extra: 0, commutative: false });
    let mut mine = Memory::new(&pattern(job.rank, 80));
    let mut result = Memory::filled(80, 0);
    let recv = Data::new(result.recv(), 10, TypeId::DATATYPE_2INT);
    let of = Reduction { send: mine.send(), recv, op };
    let request = job.mpi.icollective(WORLD, Coll::Allreduce(of))?;
    job.mpi.op_free(op)?;
    if job.rank % 2 == 0 {
        job.wait(request)?;
        job.barrier()?;
    } else {
        job.barrier()?;
        job.wait(request)?;
    }
    let eight = |bytes: &[u8]| -> [u8; 8] { std::array::from_fn(|i| bytes[i]) };
    let lists: Vec<Vec<u8>> = (0..job.size).map(|rank| pattern(rank, 80)).collect();
    let element =
        |at: usize| lists.iter().map(|list| eight(&list[at * 8..])).reduce(composed).unwrap_or_default();
    let expected: Vec<u8> = (0..10).flat_map(element).collect();
    job.equal(&result.bytes(), &expected, "a reduction behind a barrier")
}

fn persistent(job: &mut Job) -> Result<()> {
    let (mut mine, mut all) = (Memory::filled(8, 0), Memory::filled(8 * job.size as usize, 0));
    let ty = TypeId::INT64_T;
    let call = Coll::Allgather { send: Data::new(mine.send(), 1, ty), recv: Data::new(all.recv(), 1, ty) };
    let request = job.mpi.collective_init(WORLD, call)?;
    for round in 0..4 {
        mine.recv().range(0, 8).copy_from_slice(&i64::from(job.rank * 10 + round).to_ne_bytes());
        job.mpi.start_request(request)?;
        job.wait(request)?;
        let expected = (0..job.size).flat_map(|rank| i64::from(rank * 10 + round).to_ne_bytes()).collect();
        job.equal(&all.bytes(), &expected, "a persistent allgather")?;
    }
    job.mpi.request_free(request)
}

/// Requests that are freed before their end complete in the background.
fn given_up(job: &mut Job) -> Result<()> {
    let mut mine = Memory::new(&pattern(job.rank, 100_000));
    let mut theirs = Memory::filled(100_000, 0);
    let (to, from) = (job.right(1), job.right(-1));
    let recv = job.mpi.irecv(WORLD, theirs.received(), Source::new(from, Tag::Is(8)))?;
    let send = job.mpi.isend(WORLD, mine.sent(), Dest::new(to, 8), Mode::Standard)?;
    job.mpi.request_free(send)?;
    job.wait(recv)?;
    let left = (job.rank - 1).rem_euclid(job.size);
    job.equal(&theirs.bytes(), &pattern(left, 100_000), "bytes of a send that was given up")?;
    // Everyone has received: the buffer may go.
    job.barrier()
}

fn generalized(job: &mut Job) -> Result<()> {
    let callbacks = Grequest { query: 1, free: 2, cancel: 3, extra: 4 };
    let request = job.mpi.grequest_start(callbacks)?;
    let early = job.mpi.test(request)?;
    job.equal(&early, &None, "a generalized request under way")?;
    job.mpi.grequest_complete(request)?;
    job.wait(request)?;
    let found = job.mpi.grequest(request)?;
    job.equal(&found, &Some(callbacks), "callbacks after the end")?;
    job.mpi.request_free(request)
}
