//! A program outside of the workspace that forbids unsafe code and calls the library by a name of its own.
#![forbid(unsafe_code)]

/// Aligned to more than its fields, and with another struct inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, banyan::Datum)]
#[mpi(crate = banyan)]
#[repr(C, align(32))]
struct Outer {
    tag: u16,
    inner: [Inner; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, banyan::Datum)]
#[mpi(crate = banyan)]
#[repr(C, packed)]
struct Inner(u8, u64);

fn main() -> banyan::Result<()> {
    let world = banyan::init()?.world();
    let of = |rank: usize| Outer { tag: rank as u16, inner: [Inner(1, rank as u64), Inner(2, !0)] };
    let all = world.allgather(&[of(world.rank()), Outer::default()])?;
    for (rank, pair) in all.chunks(2).enumerate() {
        assert_eq!(pair, [of(rank), Outer::default()]);
    }
    let window = world.window::<Outer>(1)?;
    window.fence(|all| all.put(&[Outer { tag: 7, inner: [Inner(3, 4); 2] }], (world.rank() + 1) % world.size(), 0))?;
    let mut mine = [Outer::default()];
    window.read(0, &mut mine)?;
    assert_eq!(mine[0], Outer { tag: 7, inner: [Inner(3, 4); 2] });
    println!("outside: rank {} of {} is right", world.rank(), world.size());
    Ok(())
}
