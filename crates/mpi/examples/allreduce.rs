//! Sums over all processes, from one number to many, and by a function of our own.
fn main() -> mpi::Result<()> {
    let world = mpi::init()?.world();
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    for count in [1, 7, 1000, 100_000] {
        let mine: Vec<u64> = (0..count).map(|i| rank + i).collect();
        let mut sum = vec![0; mine.len()];
        world.allreduce(&mine, &mut sum, mpi::Op::Sum)?;
        for (i, sum) in (0..count).zip(sum) {
            assert_eq!(sum, size * (size - 1) / 2 + size * i, "element {i} of {count}");
        }
    }
    // A function that is not commutative: "the left one, unless it is 0" finds the first process that has something.
    let mine = if rank == 0 && size > 1 { 0 } else { rank + 100 };
    let mut first = [0];
    world.allreduce_with(&[mine], &mut first, mpi::Order::Ranks, |a, b| if a == 0 { b } else { a })?;
    assert_eq!(first[0], if size > 1 { 101 } else { 100 });
    if rank == 0 {
        println!("allreduce: sums over {size} processes are right");
    }
    Ok(())
}
