//! Programs that hang, each in another way: `hang HOW`. What the report has to say of each is in
//! tests/programs/hang-rust.expected. Nothing ends them but who looks.
use mpi::{Any, Communicator, Lock, Op};

fn main() -> mpi::Result<()> {
    let world = mpi::init()?.world();
    match std::env::args().nth(1).as_deref() {
        Some("recv") => at_zero(&world, || world.recv::<u32>(1, 8).map(drop)),
        Some("probe") => at_zero(&world, || world.probe(1, 9).map(drop)),
        Some("iprobe") => at_zero(&world, || {
            while world.iprobe(Any, 6)?.is_none() {}
            Ok(())
        }),
        Some("test") => at_zero(&world, || {
            let mut into = [0_u32];
            world.scope(|s| {
                let mut pending = s.irecv(&mut into, 1, 5)?;
                while pending.test()?.is_none() {}
                Ok(())
            })
        }),
        Some("missing") => {
            let mut sum = [0];
            if world.rank() == 2 {
                world.recv::<u32>(0, 1)?;
            }
            world.allreduce(&[1], &mut sum, Op::Sum)
        }
        Some("lock") => lock(&world),
        _ => panic!("how?"),
    }
}

/// Rank 1 sends rank 0 a message with tag 7, which is not what `call` wants.
fn at_zero(world: &Communicator, call: impl FnOnce() -> mpi::Result<()>) -> mpi::Result<()> {
    if world.rank() == 1 {
        world.send(&[7_u32], 0, 7)?;
    }
    if world.rank() == 0 {
        call()?;
    }
    world.barrier()
}

/// Rank 1 has the lock that rank 0 wants, and waits for rank 0.
fn lock(world: &Communicator) -> mpi::Result<()> {
    let window = world.window::<u32>(1)?;
    if world.rank() == 1 {
        window.lock(2, Lock::Exclusive, |two| {
            two.put(&[1], 2, 0).and_then(|()| two.flush(2))?;
            world.send(&[0_u8], 0, 1)?;
            world.recv::<u32>(0, 2).map(drop)
        })?;
    }
    if world.rank() == 0 {
        world.recv::<u8>(1, 1)?;
        window.lock(2, Lock::Exclusive, |two| two.put(&[2], 2, 0))?;
    }
    world.barrier()
}
