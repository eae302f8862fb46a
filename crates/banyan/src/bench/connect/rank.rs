//! What ranks of the benchmark do beside kernels. It is the hidden command `bench connect-rank`.
use mpi::{Result, Universe};
use std::time::Duration;
use sys::say;

/// How long a message of `waits` is waited for: longer than any look for it, but for who only looks.
const LATE: Duration = Duration::from_millis(40);

/// Does it so often.
type Deed = fn(&Universe, usize) -> Result<()>;

/// What a rank can do beside kernels: its name, and who does it.
const DEEDS: [(&str, Deed); 1] = [("waits", waits)];

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
            std::thread::sleep(LATE);
            world.send(&[1_u8], 0, 1)?;
        }
    } else if world.rank() == 0 && world.size() > 1 {
        let before = sleeps();
        for _ in 0..count {
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
