//! What a rank of the demo does: a few steps that check their own results, each with a note of whom the rank
//! is connected to afterwards.
use sys::say;
mod halo;

use super::facts::{RankFacts, Step};
use mpi::{Any, Communicator, MpiError, Op, Universe};
use std::time::Instant;

/// The tour: ring, allreduce, halo exchange.
pub const TOUR: &str = "tour";
/// The same after everyone has talked to everyone.
pub const CROWD: &str = "crowd";

/// What a step does: the sentence it returns says what was checked.
type Body = fn(&Communicator) -> Result<String, Wrong>;

const TOUR_STEPS: &[(&str, Body)] =
    &[("ring", ring), ("allreduce", allreduce), ("halo exchange", halo::exchange)];
const CROWD_STEPS: &[(&str, Body)] = &[
    ("all to all", all_to_all),
    ("ring", ring),
    ("allreduce", allreduce),
    ("halo exchange", halo::exchange),
];

/// Why a step failed.
#[derive(Debug)]
pub enum Wrong {
    /// MPI said no.
    Mpi(MpiError),
    /// The result is not what it must be.
    Result(String),
}

impl From<MpiError> for Wrong {
    fn from(error: MpiError) -> Self {
        Wrong::Mpi(error)
    }
}

/// Runs one rank and prints what it saw. A wrong result ends the job.
pub fn rank(tour: &str) -> Result<(), String> {
    let steps = match tour {
        TOUR => TOUR_STEPS,
        CROWD => CROWD_STEPS,
        other => return Err(format!("'{other}' is not a tour")),
    };
    let universe = mpi::init().map_err(|e| e.to_string())?;
    let world = universe.world();
    let mut facts = RankFacts {
        rank: world.rank(),
        node: universe.node_of(world.rank()),
        steps: Vec::with_capacity(steps.len()),
    };
    for (name, body) in steps {
        facts.steps.push(run(&universe, &world, name, *body));
    }
    say!("{}", facts.line());
    Ok(())
}

fn run(universe: &Universe, world: &Communicator, name: &str, body: Body) -> Step {
    let start = Instant::now();
    let checked = match body(world) {
        Ok(checked) => checked,
        Err(Wrong::Mpi(error)) => universe.abort(1, &format!("{name}: {error}")),
        Err(Wrong::Result(what)) => universe.abort(1, &format!("{name}: {what}")),
    };
    let micros = start.elapsed().as_micros() as u64;
    Step { name: name.into(), checked, micros, peers: universe.connected_peers() }
}

/// A token goes around and collects the ranks.
fn ring(world: &Communicator) -> Result<String, Wrong> {
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut token: Vec<u64> = Vec::new();
    if rank > 0 {
        token = world.recv(left, 1)?.0;
    }
    token.push(rank as u64);
    if rank > 0 {
        world.ssend(&token, right, 1)?; // matched before the step ends, so that both sides see the connection
    } else {
        world.send(&token, right, 1)?;
        token = world.recv(Any, Any)?.0;
        let expected: Vec<u64> = (0..size as u64).collect();
        expect(token == expected, || format!("the token collected {token:?}"))?;
    }
    Ok(format!("the token passed all {size} ranks in order"))
}

/// Sums, from one number to many.
fn allreduce(world: &Communicator) -> Result<String, Wrong> {
    const COUNTS: [u64; 3] = [1, 1000, 100_000];
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    for count in COUNTS {
        let mine: Vec<u64> = (0..count).map(|i| rank * i).collect();
        let mut sum = vec![0; mine.len()];
        world.allreduce(&mine, &mut sum, Op::Sum)?;
        let wrong = (0..count).zip(&sum).find(|(i, sum)| **sum != size * (size - 1) / 2 * i);
        expect(wrong.is_none(), || format!("element and sum {wrong:?} of {count}"))?;
    }
    Ok(format!("sums of 1 to {} numbers agree with arithmetic", COUNTS[2]))
}

/// Every rank exchanges a message with every other one.
fn all_to_all(world: &Communicator) -> Result<String, Wrong> {
    let (rank, size) = (world.rank(), world.size());
    for distance in 1..size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        let mut heard = [0u64];
        world.sendrecv(&[rank as u64], to, &mut heard, from, 2)?;
        expect(heard[0] == from as u64, || format!("heard {} from {from}", heard[0]))?;
    }
    Ok("everyone heard from everyone".into())
}

fn expect(right: bool, otherwise: impl FnOnce() -> String) -> Result<(), Wrong> {
    if right { Ok(()) } else { Err(Wrong::Result(otherwise())) }
}
