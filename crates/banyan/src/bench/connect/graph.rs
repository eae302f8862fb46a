//! Programs whose communication is a graph: whom each rank exchanges messages with, and how long that takes from the start of
//! the job on. Section `auto` runs them.
use mpi::{Communicator, Op, Result, Stat, Universe};
use std::collections::BTreeSet;
use std::time::Duration;
use sys::{cpu, say};

/// Bytes of a message.
const MESSAGE_BYTES: usize = 1024;
/// Peers that a rank of the random graph draws; as many draw it, on average.
const DRAWN: u64 = 4;

/// What a program does before its ranks talk to their neighbours.
const BEFORE: Duration = Duration::from_millis(20);

/// What a rank says.
pub const BEGUN: &str = "begun_ns";
/// See there.
pub const ENDED: &str = "ended_ns";

/// Who exchanges messages with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Graph {
    /// Both neighbours.
    Ring,
    /// The four neighbours in a grid that goes round, as square as the number of ranks allows.
    Halo,
    /// Everybody, by the collective.
    Alltoall,
    /// Some that are drawn by chance; the same in every run.
    Random,
}

impl Graph {
    /// In the order of tables.
    pub const ALL: [Graph; 4] = [Graph::Ring, Graph::Halo, Graph::Alltoall, Graph::Random];

    /// In tables, and what a rank is asked to do.
    pub const fn key(self) -> &'static str {
        match self {
            Graph::Ring => "graph-ring",
            Graph::Halo => "graph-halo",
            Graph::Alltoall => "graph-alltoall",
            Graph::Random => "graph-random",
        }
    }

    /// Whom a rank exchanges messages with.
    fn peers(self, rank: usize, size: usize) -> BTreeSet<usize> {
        let mut peers: BTreeSet<usize> = match self {
            Graph::Ring => [rank + 1, rank + size - 1].map(|peer| peer % size).into(),
            Graph::Halo => {
                let width =
                    (1..=size).filter(|w| w * w <= size && size.is_multiple_of(*w)).max().unwrap_or(1);
                let (row, column, rows) = (rank / width, rank % width, size / width);
                let at = |row: usize, column: usize| row % rows * width + column % width;
                let beside = [at(row, column + 1), at(row, column + width - 1)];
                [beside, [at(row + 1, column), at(row + rows - 1, column)]].concat().into_iter().collect()
            }
            Graph::Alltoall => (0..size).collect(),
            Graph::Random => {
                let drawn = |by: usize| (0..DRAWN).map(move |n| draw(by as u64 * DRAWN + n, size));
                let drawers = (0..size).filter(|by| drawn(*by).any(|peer| peer == rank));
                drawers.chain(drawn(rank)).collect()
            }
        };
        peers.remove(&rank);
        peers
    }
}

/// A rank, by a hash of a number (the finaliser of SplitMix64).
fn draw(number: u64, size: usize) -> usize {
    let mut word = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((word ^ word >> 31) % size as u64) as usize
}

/// Exchanges messages so often, and says when its init began and when that was over, by the host's clock. What a collective
/// would add to the graph, in order to say it for all, is not wanted.
pub fn exchange(graph: Graph, universe: &Universe, rounds: usize) -> Result<()> {
    let world = universe.world();
    let begun_ns = cpu::now_ns().saturating_sub(universe.stat(Stat::InitTotal));
    let peers = graph.peers(world.rank(), world.size());
    let mine = vec![world.rank() as u8; MESSAGE_BYTES * world.size()];
    for _ in 0..rounds {
        match graph {
            Graph::Alltoall => drop(world.alltoall(&mine)?),
            _ => neighbours(&world, &peers, &mine[..MESSAGE_BYTES])?,
        }
    }
    say!("{BEGUN} {begun_ns}\n{ENDED} {}", cpu::now_ns());
    Ok(())
}

/// A program with four neighbours: what it does before its first exchange with them, and how long that and later ones take.
pub fn steps(universe: &Universe, rounds: usize) -> Result<()> {
    let world = universe.world();
    let begun_ns = cpu::now_ns().saturating_sub(universe.stat(Stat::InitTotal));
    let peers = Graph::Halo.peers(world.rank(), world.size());
    let mut mine = vec![0_u8; MESSAGE_BYTES];
    world.bcast(&mut mine, 0)?;
    std::thread::sleep(BEFORE);
    world.allreduce(&[1.0_f64], &mut [0.0], Op::Sum)?;
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds.max(2) {
        world.barrier()?;
        let start_ns = cpu::now_ns();
        neighbours(&world, &peers, &mine)?;
        times.push((cpu::now_ns() - start_ns) as f64 / 1e3);
    }
    let ended_ns = cpu::now_ns();
    let mut slowest = times.clone();
    world.allreduce(&times, &mut slowest, Op::Max)?;
    if world.rank() == 0 {
        let mut later = slowest[1..].to_vec();
        later.sort_by(f64::total_cmp);
        say!("first_us {:.1}\nlater_us {:.1}", slowest[0], later[later.len() / 2]);
    }
    say!("{BEGUN} {begun_ns}\n{ENDED} {ended_ns}");
    Ok(())
}

fn neighbours(world: &Communicator, peers: &BTreeSet<usize>, mine: &[u8]) -> Result<()> {
    let mut theirs = vec![vec![0; MESSAGE_BYTES]; peers.len()];
    world.scope(|scope| {
        for (place, peer) in theirs.iter_mut().zip(peers) {
            scope.irecv(place, *peer, 1)?;
            scope.isend(mine, *peer, 1)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_peer_is_one_of_the_peer() {
        for graph in Graph::ALL {
            for size in [1, 2, 5, 6, 64] {
                let all: Vec<BTreeSet<usize>> = (0..size).map(|rank| graph.peers(rank, size)).collect();
                for (rank, peers) in all.iter().enumerate() {
                    assert!(
                        peers.iter().all(|peer| *peer != rank && all[*peer].contains(&rank)),
                        "{graph:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn graphs_have_the_degrees_that_they_are_known_for() {
        let degrees = |graph: Graph| (0..64).map(|rank| graph.peers(rank, 64).len()).collect::<Vec<_>>();
        assert_eq!(degrees(Graph::Ring), [2; 64]);
        assert_eq!(degrees(Graph::Halo), [4; 64]);
        assert_eq!(degrees(Graph::Alltoall), [63; 64]);
        let random = degrees(Graph::Random);
        assert!((6 * 64..=8 * 64).contains(&random.iter().sum::<usize>()), "{random:?}");
    }
}
