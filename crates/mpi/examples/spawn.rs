//! A job that starts as many processes as it has itself, gives each of them a piece of work, and then goes on with them as one.
fn main() -> mpi::Result<()> {
    let universe = mpi::init()?;
    match universe.parent()? {
        None => start(&universe.world()),
        Some(parents) => {
            // Asked for again and dropped, the way to them stays.
            for _ in 0..3 {
                let again = universe.parent()?.expect("they are still there");
                assert_eq!(again.remote_size(), parents.remote_size());
            }
            work(&parents)
        }
    }
}

fn start(world: &mpi::Communicator) -> mpi::Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let program = std::env::args().next().expect("a program has a name");
    let workers = world.spawn(&[mpi::Command::new(program, size as u32).arg("worker")], 0)?;
    assert_eq!((workers.rank(), workers.size(), workers.remote_size()), (rank, size, size));
    workers.send(&[rank as u64 + 1], rank, 7)?;
    let (square, status) = workers.recv::<u64>(mpi::Any, 8)?;
    assert_eq!((square[0], status.source), ((rank as u64 + 1).pow(2), rank));
    let all = workers.merge(false)?;
    assert_eq!((all.rank(), all.size()), (rank, 2 * size));
    let mut sum = [0];
    all.allreduce(&[all.rank()], &mut sum, mpi::Op::Sum)?;
    assert_eq!(sum[0], size * (2 * size - 1));
    if rank == 0 {
        println!("spawn: {size} and {size} processes are one group of {}", all.size());
    }
    Ok(())
}

fn work(parents: &mpi::Intercommunicator) -> mpi::Result<()> {
    assert_eq!(std::env::args().nth(1).as_deref(), Some("worker"));
    let mut work = [0_u64];
    let status = parents.recv_into(&mut work, mpi::Any, 7)?;
    parents.send(&[work[0] * work[0]], status.source, 8)?;
    let all = parents.merge(true)?;
    assert_eq!(all.rank(), parents.remote_size() + parents.rank());
    let mut sum = [0];
    all.allreduce(&[all.rank()], &mut sum, mpi::Op::Sum)
}
