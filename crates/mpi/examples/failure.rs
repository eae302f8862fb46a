//! The last process panics (or returns an error, with the argument `error`) while the others wait for it: the job
//! must end, not hang. A test of the launcher runs it and expects a failure.
fn main() -> mpi::Result<()> {
    let world = mpi::init()?.world();
    if world.rank() + 1 < world.size() {
        return world.barrier();
    }
    match std::env::args().nth(1).as_deref() {
        Some("error") => world.send(&[0u8], world.size(), 0),
        _ => panic!("rank {} gives up", world.rank()),
    }
}
