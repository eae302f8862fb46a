//! What ranks of the benchmark do beside kernels. It is the hidden command `bench connect-rank`.
use super::graph::{self, Graph};
use super::pattern;
use mpi::{Communicator, Op, Result, Stat, Universe};
use std::time::Duration;
use sys::{cpu, say};

/// How long a message of `waits` is waited for: longer than any look for it, but for who only looks.
const LATE: Duration = Duration::from_millis(40);
/// A peer has gone to wait for the next connection by then.
const BETWEEN_PAIRS: Duration = Duration::from_millis(1);
/// Round trips on an open connection, of which the middle one counts.
const ROUND_TRIPS: usize = 21;
/// Bytes of messages for bandwidth, and how many are on their way at a time.
const LONG_BYTES: usize = 64 << 10;
const LONG_WINDOW: usize = 16;
/// Elements of an allreduce.
const SUMS: usize = 4;
/// Bytes of a block of an alltoall.
const BLOCK_BYTES: usize = 1024;
/// Later alltoalls, of which the middle one counts.
const LATER: usize = 9;

/// Does it so often.
type Deed = fn(&Universe, usize) -> Result<()>;

/// What a rank can do beside kernels: its name, and who does it.
const DEEDS: [(&str, Deed); 11] = [
    ("idle", |_, _| Ok(())),
    ("waits", waits),
    ("pair", pair),
    ("first", first),
    ("messages", messages),
    ("together", together),
    (pattern::DEED, graph::steps),
    (Graph::Ring.key(), |universe, rounds| graph::exchange(Graph::Ring, universe, rounds)),
    (Graph::Halo.key(), |universe, rounds| graph::exchange(Graph::Halo, universe, rounds)),
    (Graph::Alltoall.key(), |universe, rounds| graph::exchange(Graph::Alltoall, universe, rounds)),
    (Graph::Random.key(), |universe, rounds| graph::exchange(Graph::Random, universe, rounds)),
];

/// Runs one rank: `NAME COUNT`, or a kernel.
pub fn main(args: &[String]) -> i32 {
    let [name, count] = args else { return kernels::main(args) };
    let deed = DEEDS.iter().find(|(known, _)| known == name);
    let (Some((_, deed)), Ok(count)) = (deed, count.parse()) else { return kernels::main(args) };
    match mpi::init().and_then(|universe| deed(&universe, count)) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{name}: {error}");
            1
        }
    }
}

/// Rank 0 waits for messages that come late, and says how often it slept.
fn waits(universe: &Universe, count: usize) -> Result<()> {
    let world = universe.world();
    if world.rank() == 1 {
        for _ in 0..count {
            world.recv::<u8>(0, 1)?;
            std::thread::sleep(LATE);
            world.send(&[1_u8], 0, 1)?;
        }
    } else if world.rank() == 0 && world.size() > 1 {
        let before = sleeps();
        for _ in 0..count {
            world.send(&[1_u8], 1, 1)?;
            world.recv::<u8>(1, 1)?;
        }
        say!("sleeps {}", sleeps() - before);
    }
    world.barrier()
}

/// How often this thread has given up its core to wait for something. (One that lets others run is not counted.)
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// What the device's commands have taken here so far.
fn device_ns(universe: &Universe) -> u64 {
    universe.stat(Stat::QpCreate) + universe.stat(Stat::QpReady)
}

/// Connections that are open now.
fn open(universe: &Universe) -> u64 {
    [Stat::OpenShared, Stat::OpenSockets, Stat::OpenRdma].into_iter().map(|stat| universe.stat(stat)).sum()
}

/// Two ranks connect, speak, and close the connection, so often. All times are in microseconds.
fn pair(universe: &Universe, count: usize) -> Result<()> {
    let world = universe.world();
    for made in 1..=count as u64 {
        match world.rank() {
            0 => ask(universe, &world)?,
            1 => answer(universe, &world)?,
            _ => return Ok(()),
        }
        // (A process that does not get to run may find the next one open already.)
        while open(universe) > 0 && universe.stat(Stat::Handshakes) <= made {
            world.iprobe(1 - world.rank(), 1)?;
        }
    }
    Ok(())
}

fn ask(universe: &Universe, world: &Communicator) -> Result<()> {
    std::thread::sleep(BETWEEN_PAIRS);
    let (cost_ns, needs) = (device_ns(universe), universe.stat(Stat::FirstMessages));
    let waited_ns = universe.stat(Stat::FirstMessageSum);
    let start_ns = cpu::now_ns();
    world.send(&[start_ns], 1, 1)?;
    while universe.stat(Stat::FirstMessages) == needs {
        world.iprobe(1, 9)?;
    }
    let own_ns = universe.stat(Stat::FirstMessageSum) - waited_ns;
    let (told, _) = world.recv::<u64>(1, 2)?;
    let first_ns = cpu::now_ns() - start_ns;
    let both_ns = own_ns.max(told[0].saturating_sub(start_ns));
    let cost_ns = (device_ns(universe) - cost_ns).max(told[1]);
    let trips = round_trips(world, ROUND_TRIPS)?;
    for (key, ns) in [("ready", both_ns), ("first", first_ns), ("device", cost_ns), ("trip", trips)] {
        say!("{key} {:.3}", ns as f64 / 1e3);
    }
    universe.close_connection(1);
    Ok(())
}

fn answer(universe: &Universe, world: &Communicator) -> Result<()> {
    let cost_ns = device_ns(universe);
    while open(universe) == 0 {
        world.iprobe(0, 9)?;
    }
    let ready_ns = cpu::now_ns();
    world.recv::<u64>(0, 1)?;
    world.send(&[ready_ns, device_ns(universe) - cost_ns], 0, 2)?;
    for _ in 0..ROUND_TRIPS {
        let (said, _) = world.recv::<u64>(0, 3)?;
        world.send(&said, 0, 3)?;
    }
    Ok(())
}

/// The middle one of so many, at the side that begins.
fn round_trips(world: &Communicator, count: usize) -> Result<u64> {
    let mut trips = Vec::with_capacity(count);
    for _ in 0..count {
        let start_ns = cpu::now_ns();
        world.send(&[1_u64], 1, 3)?;
        world.recv::<u64>(1, 3)?;
        trips.push(cpu::now_ns() - start_ns);
    }
    trips.sort_unstable();
    Ok(trips[count / 2])
}

/// The slowest process's time for something, after a barrier.
fn slowest_us(world: &Communicator, what: impl FnOnce() -> Result<()>) -> Result<f64> {
    world.barrier()?;
    let start_ns = cpu::now_ns();
    what()?;
    let mut longest = [0.0];
    world.allreduce(&[(cpu::now_ns() - start_ns) as f64 / 1e3], &mut longest, Op::Max)?;
    Ok(longest[0])
}

/// The first alltoall of a program, and a later one.
fn first(universe: &Universe, _: usize) -> Result<()> {
    let world = universe.world();
    let block = vec![world.rank() as u8; BLOCK_BYTES * world.size()];
    let exchange = || world.alltoall(&block).map(|_| ());
    let first = slowest_us(&world, exchange)?;
    let mut later = [0.0; LATER];
    for time in &mut later {
        *time = slowest_us(&world, exchange)?;
    }
    later.sort_by(f64::total_cmp);
    if world.rank() == 0 {
        say!("first_us {first:.1}\nlater_us {:.1}", later[LATER / 2]);
    }
    Ok(())
}

/// Latency and bandwidth of two ranks, over so many messages.
fn messages(universe: &Universe, count: usize) -> Result<()> {
    let world = universe.world();
    let other = 1 - world.rank();
    for round in 0..2 {
        let start_ns = cpu::now_ns();
        for _ in 0..count {
            if world.rank() == 0 {
                world.send(&[1_u64], other, 1)?;
                world.recv::<u64>(other, 1)?;
            } else {
                world.recv::<u64>(other, 1)?;
                world.send(&[1_u64], other, 1)?;
            }
        }
        if world.rank() == 0 && round > 0 {
            say!("latency_us {:.4}", (cpu::now_ns() - start_ns) as f64 / 2e3 / count as f64);
        }
    }
    let (block, rounds) = (vec![1_u8; LONG_BYTES], (count / 100).max(2));
    let mut place = block.clone();
    for round in 0..2 {
        let start_ns = cpu::now_ns();
        for _ in 0..rounds {
            for _ in 0..LONG_WINDOW {
                match world.rank() {
                    0 => world.send(&block, other, 2)?,
                    _ => _ = world.recv_into(&mut place, other, 2)?,
                }
            }
            match world.rank() {
                0 => _ = world.recv::<u8>(other, 3)?,
                _ => world.send(&[1_u8], other, 3)?,
            }
        }
        if world.rank() == 0 && round > 0 {
            let bytes = (rounds * LONG_WINDOW * LONG_BYTES) as f64;
            // A time, so that less is better, as everywhere.
            say!("block_us {:.3}", (cpu::now_ns() - start_ns) as f64 / 1e3 * LONG_BYTES as f64 / bytes);
        }
    }
    Ok(())
}

/// Barriers and sums of all ranks, so many of each.
fn together(universe: &Universe, count: usize) -> Result<()> {
    let world = universe.world();
    let (mine, mut sums) = ([1.0; SUMS], [0.0; SUMS]);
    let barriers = || (0..count).try_for_each(|_| world.barrier());
    let mut adds = || (0..count).try_for_each(|_| world.allreduce(&mine, &mut sums, Op::Sum));
    adds()?;
    let barrier = slowest_us(&world, barriers)? / count as f64;
    let allreduce = slowest_us(&world, adds)? / count as f64;
    if world.rank() == 0 {
        say!("barrier_us {barrier:.3}\nallreduce_us {allreduce:.3}");
    }
    Ok(())
}
