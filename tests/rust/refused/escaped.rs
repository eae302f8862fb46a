// expect: borrowed value does not live long enough
fn main() -> mpi::Result<()> {
    let world = mpi::init()?.world();
    world.scope(|s| {
        let gone = [1_u8];
        s.isend(&gone, 0, 0)?;
        Ok(())
    })
}
