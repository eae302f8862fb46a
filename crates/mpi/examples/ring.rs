//! A token goes around all processes and counts them.
fn main() -> mpi::Result<()> {
    let world = mpi::init()?.world();
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    if rank > 0 {
        let (token, _) = world.recv::<u64>(left, 1)?;
        world.send(&[token[0] + 1], right, 1)?;
        return Ok(());
    }
    if size > 1 {
        world.send(&[1u64], right, 1)?;
        let (token, status) = world.recv::<u64>(mpi::Any, mpi::Any)?;
        assert_eq!((token[0], status.source, status.tag), (size as u64, left, 1));
    }
    println!("ring: the token passed {size} processes");
    Ok(())
}
