//! Messages between two processes.
use super::*;

pub(super) fn check(job: &mut Job) -> Result<()> {
    ring(job)?;
    order(job)?;
    modes(job)?;
    wildcards(job)?;
    null_process(job)?;
    truncation(job)?;
    probes(job)?;
    cancel(job)?;
    persistent(job)?;
    replace(job)?;
    mistakes(job)
}

const BYTE: TypeId = TypeId::BYTE;
const WORLD: CommId = CommId::WORLD;
/// A receiver that exists.
const ZERO: Dest = Dest::new(Peer::Rank(0), 0);

/// Every size class around the ring, blocking and non-blocking.
fn ring(job: &mut Job) -> Result<()> {
    for len in [0, 1, 8, 63, 64, 65, 1000, 4096, 16_384, 65_536, 300_000, 2_000_000] {
        let mut mine = Memory::new(&pattern(job.rank, len));
        let mut theirs = Memory::filled(len, 0);
        let (to, from) = (job.right(1), job.right(-1));
        let request = job.mpi.irecv(WORLD, theirs.received(), Source::new(from, Tag::Is(3)))?;
        let sent = job.mpi.send(WORLD, mine.sent(), Dest::new(to, 3), Mode::Standard);
        job.sent(sent)?;
        let status = job.wait(request)?;
        job.equal(&(status.source, status.tag, status.bytes), &(from, Tag::Is(3), len), "status")?;
        let left = (job.rank - 1).rem_euclid(job.size);
        job.equal(&theirs.bytes(), &pattern(left, len), "bytes around the ring")?;
    }
    Ok(())
}

/// Messages of one sender and tag arrive in order, whatever their size; receives may be posted late.
fn order(job: &mut Job) -> Result<()> {
    let lens: Vec<usize> = (0..60).map(|i| [4, 40, 9000, 70_000][i % 4] + i).collect();
    let mut out: Vec<Memory> =
        lens.iter().enumerate().map(|(i, len)| Memory::new(&pattern(job.rank + i as i32, *len))).collect();
    let mut sends = Vec::new();
    for memory in &mut out {
        let to = Dest::new(job.right(1), 9);
        sends.push(job.mpi.isend(WORLD, memory.sent(), to, Mode::Standard)?);
    }
    for (i, len) in lens.iter().enumerate() {
        let mut theirs = Memory::filled(*len, 0);
        let from = job.right(-1);
        let got = job.mpi.recv(WORLD, theirs.received(), Source::new(from, Tag::Is(9)));
        job.done(got)?;
        let left = (job.rank - 1).rem_euclid(job.size);
        job.equal(&theirs.bytes(), &pattern(left + i as i32, *len), "message in order")?;
    }
    for request in sends {
        job.wait(request)?;
    }
    Ok(())
}

fn modes(job: &mut Job) -> Result<()> {
    job.mpi.buffer_attach(Holder::Process, 7, 200_000)?;
    for mode in [Mode::Synchronous, Mode::Buffered, Mode::Ready, Mode::Standard] {
        for len in [8, 100_000] {
            let mut theirs = Memory::filled(len, 0);
            let (to, from) = (job.right(1), job.right(-1));
            let recv = job.mpi.irecv(WORLD, theirs.received(), Source::new(from, Tag::Is(5)))?;
            job.barrier()?;
            let mut mine = Memory::new(&pattern(job.rank, len));
            let send = job.mpi.isend(WORLD, mine.sent(), Dest::new(to, 5), mode)?;
            if mode == Mode::Buffered {
                // The buffer is free at once.
                mine.recv().range(0, len).copy_from_slice(&vec![0; len]);
            }
            job.wait(send)?;
            job.wait(recv)?;
            let left = (job.rank - 1).rem_euclid(job.size);
            job.equal(&theirs.bytes(), &pattern(left, len), "send mode")?;
        }
    }
    let mut large = Memory::filled(250_000, 1);
    let to = job.right(1);
    let sent = job.mpi.isend(WORLD, large.sent(), Dest::new(to, 5), Mode::Buffered);
    job.fails(sent, ErrorClass::Buffer, "a buffered send beyond the buffer")?;
    let detached = loop {
        if let Some(detached) = job.mpi.buffer_detach(Holder::Process)? {
            break detached;
        }
        job.mpi.progress();
    };
    job.equal(&detached, &(7, 200_000), "detached buffer")?;
    let begun = job.mpi.buffer_detach(Holder::Process);
    job.fails(begun, ErrorClass::Buffer, "no buffer to detach")
}

/// Rank 0 receives from all, not knowing who comes first.
fn wildcards(job: &mut Job) -> Result<()> {
    if job.rank != 0 {
        let mut mine = Memory::new(&pattern(job.rank, 16));
        let sent = job.mpi.send(WORLD, mine.sent(), Dest::new(Peer::Rank(0), job.rank), Mode::Standard);
        job.sent(sent)?;
        return job.barrier();
    }
    let mut seen = vec![false; job.size as usize];
    for _ in 1..job.size {
        let mut theirs = Memory::filled(32, 0);
        let got = job.mpi.recv(WORLD, theirs.received(), Source::new(Peer::Any, Tag::Any));
        let status = job.done(got)?;
        let Peer::Rank(from) = status.source else {
            return job.equal(&status.source, &Peer::Rank(1), "source");
        };
        job.equal(&(status.tag, status.bytes), &(Tag::Is(from), 16), "tag and length of any message")?;
        job.equal(&theirs.bytes()[..16].to_vec(), &pattern(from, 16), "bytes of any message")?;
        let twice = std::mem::replace(&mut seen[from as usize], true);
        job.equal(&twice, &false, "one message from each")?;
    }
    job.barrier()
}

fn null_process(job: &mut Job) -> Result<()> {
    let five = Data::new(SendBuf::NONE, 5, TypeId::INT);
    let sent = job.mpi.send(WORLD, five, Dest::new(Peer::Null, 0), Mode::Synchronous);
    job.sent(sent)?;
    let (five, nobody) = (Data::new(RecvBuf::NONE, 5, TypeId::INT), Source::new(Peer::Null, Tag::Any));
    let got = job.mpi.recv(WORLD, five, nobody);
    let status = job.done(got)?;
    job.equal(&status, &Status::PROC_NULL, "receive from the null process")?;
    let found = job.mpi.improbe(WORLD, nobody)?;
    job.equal(&found, &Some((MessageId::NO_PROC, Status::PROC_NULL)), "probe of the null process")
}

fn truncation(job: &mut Job) -> Result<()> {
    for len in [40usize, 100_000] {
        let mut mine = Memory::new(&pattern(job.rank, len));
        let mut theirs = Memory::filled(len, 0xEE);
        let (to, from) = (job.right(1), job.right(-1));
        let short = len as i64 / 2;
        let room = Data::new(theirs.recv(), short, BYTE);
        let recv = job.mpi.irecv(WORLD, room, Source::new(from, Tag::Is(1)))?;
        let sent = job.mpi.send(WORLD, mine.sent(), Dest::new(to, 1), Mode::Standard);
        job.sent(sent)?;
        let status = job.wait(recv)?;
        job.equal(&status.error, &ErrorClass::Truncate, "a message longer than the buffer")?;
        job.equal(
            &theirs.bytes()[short as usize..].to_vec(),
            &vec![0xEE; len / 2],
            "bytes behind the buffer",
        )?;
    }
    Ok(())
}

fn probes(job: &mut Job) -> Result<()> {
    // A neighbour that is ahead may have sent the next message already, so each has its own tag.
    for (tag, len) in [(40, 12usize), (41, 90_000)] {
        let mut mine = Memory::new(&pattern(job.rank, len));
        let to = job.right(1);
        let send = job.mpi.isend(WORLD, mine.sent(), Dest::new(to, tag), Mode::Standard)?;
        let (from, mut backoff) = (job.right(-1), crate::Backoff::default());
        let source = Source::new(from, Tag::Is(tag));
        let status = loop {
            if let Some(status) = job.mpi.iprobe(WORLD, source)? {
                break status;
            }
            job.mpi.pause(&mut backoff);
        };
        job.equal(&(status.source, status.tag, status.bytes), &(from, Tag::Is(tag), len), "probe")?;
        let elements = job.mpi.get_count(&status, TypeId::INT)?;
        job.equal(&elements, &Some(len as u64 / 4), "count of a probed message")?;
        let taken = job.mpi.improbe(WORLD, source)?;
        let Some((message, _)) = taken else { return job.equal(&false, &true, "a probed message is there") };
        let again = job.mpi.iprobe(WORLD, source)?;
        job.equal(&again, &None, "a taken message is not seen again")?;
        let mut theirs = Memory::filled(len, 0);
        let request = job.mpi.imrecv(message, theirs.received())?;
        job.wait(request)?;
        job.wait(send)?;
        let left = (job.rank - 1).rem_euclid(job.size);
        job.equal(&theirs.bytes(), &pattern(left, len), "bytes of a matched receive")?;
        let gone = job.mpi.imrecv(message, theirs.received());
        job.fails(gone, ErrorClass::Request, "a message is received once")?;
    }
    Ok(())
}

fn cancel(job: &mut Job) -> Result<()> {
    let mut theirs = Memory::filled(8, 7);
    let request = job.mpi.irecv(WORLD, theirs.received(), Source::new(Peer::Any, Tag::Is(999)))?;
    job.mpi.cancel(request)?;
    let status = job.wait(request)?;
    job.equal(&status.cancelled, &true, "cancelled receive")?;
    job.equal(&theirs.bytes(), &vec![7; 8], "buffer of a cancelled receive")?;
    let after = job.mpi.test(request);
    job.fails(after, ErrorClass::Request, "a request after its end")
}

fn persistent(job: &mut Job) -> Result<()> {
    let (mut mine, mut theirs) = (Memory::filled(64, 0), Memory::filled(64, 0));
    let (to, from) = (job.right(1), job.right(-1));
    let send = job.mpi.send_init(WORLD, mine.sent(), Dest::new(to, 2), Mode::Standard)?;
    let recv = job.mpi.recv_init(WORLD, theirs.received(), Source::new(from, Tag::Is(2)))?;
    let status = job.wait(recv)?;
    job.equal(&status, &Status::EMPTY, "an inactive request")?;
    for round in 0..5 {
        mine.recv().range(0, 64).copy_from_slice(&pattern(job.rank + round, 64));
        job.mpi.start_request(recv)?;
        job.mpi.start_request(send)?;
        let twice = job.mpi.start_request(recv);
        job.fails(twice, ErrorClass::Request, "start of an active request")?;
        job.wait(send)?;
        job.wait(recv)?;
        let left = (job.rank - 1).rem_euclid(job.size);
        job.equal(&theirs.bytes(), &pattern(left + round, 64), "persistent round")?;
    }
    job.mpi.request_free(send)?;
    job.mpi.request_free(recv)
}

fn replace(job: &mut Job) -> Result<()> {
    for len in [5, 120_000] {
        let mut memory = Memory::new(&pattern(job.rank, len));
        let (to, from) = (job.right(1), job.right(-1));
        let (dest, source) = (Dest::new(to, 6), Source::new(from, Tag::Is(6)));
        let begun = job.mpi.sendrecv_replace(WORLD, memory.received(), dest, source);
        job.done(begun)?;
        let left = (job.rank - 1).rem_euclid(job.size);
        job.equal(&memory.bytes(), &pattern(left, len), "replaced bytes")?;
    }
    Ok(())
}

fn mistakes(job: &mut Job) -> Result<()> {
    let none = SendData::NONE;
    let cases = [
        (WORLD, none, Dest::new(Peer::Rank(job.size), 0), ErrorClass::Rank, "a rank beyond the end"),
        (WORLD, none, Dest::new(Peer::Any, 0), ErrorClass::Rank, "a send to any"),
        (WORLD, none, Dest::new(Peer::Rank(0), -5), ErrorClass::Tag, "a negative tag"),
        (WORLD, Data { count: -1, ..none }, ZERO, ErrorClass::Count, "a negative count"),
        (WORLD, Data { ty: TypeId(9999), ..none }, ZERO, ErrorClass::Type, "no such datatype"),
        (CommId(9999), none, ZERO, ErrorClass::Comm, "no such communicator"),
    ];
    for (comm, data, dest, class, what) in cases {
        let result = job.mpi.send(comm, data, dest, Mode::Standard);
        job.fails(result, class, what)?;
    }
    Ok(())
}
