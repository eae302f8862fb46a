//! Work that is shared out by a counter, which nobody serves: whoever is free takes the next piece, and adds what it
//! found to a sum. Then everybody tells its neighbour, at a fence and with the two sides of an access, what it did.
use mpi::{ErrorClass, Lock, Op};

const PIECES: u64 = 2000;

fn main() -> mpi::Result<()> {
    let world = mpi::init()?.world();
    let (rank, size) = (world.rank(), world.size());
    // The next piece, and the sum.
    let shared = world.window::<u64>(if rank == 0 { 2 } else { 0 })?;
    let mut done = [0];
    loop {
        let piece = shared.lock_all(|all| all.fetch_and_op(0, 0, 1, Op::Sum))?;
        if piece >= PIECES {
            break;
        }
        let found = [piece * piece];
        shared.lock(0, Lock::Shared, |first| first.accumulate(&found, 0, 1, Op::Sum))?;
        done[0] += 1;
    }
    let mut pieces = [0];
    world.allreduce(&done, &mut pieces, Op::Sum)?;
    assert_eq!(pieces[0], PIECES, "every piece is somebody's");
    if rank == 0 {
        let mut seen = [0; 2];
        shared.read(0, &mut seen)?;
        assert_eq!(seen, [PIECES + size as u64, (0..PIECES).map(|piece| piece * piece).sum()]);
    }
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let told = world.window::<u64>(2)?;
    told.fence(|all| all.put(&done, right, 0))?;
    told.expose(&[left], || told.access(&[right], |neighbour| neighbour.put(&done, right, 1)))?;
    let (mut heard, mut expected) = ([0; 2], [0]);
    told.read(0, &mut heard)?;
    world.sendrecv(&done, right, &mut expected, left, 0)?;
    assert_eq!(heard, [expected[0]; 2], "what the neighbour did");
    // From here on everybody writes at rank 0, which must have read what its neighbour wrote there.
    world.barrier()?;
    let first = told.lock(0, Lock::Exclusive, |zero| {
        zero.put(&[u64::MAX], 0, 0).and_then(|()| zero.flush(0))?;
        zero.compare_and_swap(0, 0, u64::MAX, rank as u64)
    })?;
    assert_eq!(first, u64::MAX);
    let wrong = told.lock(right, Lock::Shared, |one| one.put(&[1, 2, 3], right, 0));
    assert!(wrong.is_err_and(|error| error.class == ErrorClass::RmaRange), "three do not fit");
    // What no epoch covers is refused before anything happens, and what it covers goes on.
    told.fence(|all| {
        let inside = [
            told.lock(right, Lock::Shared, |_| Ok(())),
            told.lock_all(|_| Ok(())),
            told.fence(|_| Ok(())),
            told.access(&[right], |_| Ok(())),
        ];
        for refused in inside {
            assert!(refused.is_err_and(|error| error.class == ErrorClass::RmaSync), "inside a fence");
        }
        all.put(&done, right, 1)
    })?;
    let mut after = [0; 2];
    told.read(0, &mut after)?;
    assert_eq!(after[1], expected[0], "what the fence covered");
    if size > 1 {
        let (mut one, mut two) = ([0], [0]);
        told.lock(right, Lock::Shared, |only| {
            let elsewhere = [
                only.put(&done, rank, 1),
                only.get(&mut one, rank, 1),
                only.fetch_and_op(rank, 1, 1, Op::Sum).map(|_| ()),
            ];
            for refused in elsewhere {
                assert!(refused.is_err_and(|error| error.class == ErrorClass::RmaSync), "another's lock");
            }
            only.get(&mut two, right, 1)
        })?;
        assert_eq!((one, two), ([0], done), "nothing came from elsewhere");
    }
    world.barrier()?;
    if rank == 0 {
        println!("window: {PIECES} pieces shared out among {size}");
    }
    Ok(())
}
