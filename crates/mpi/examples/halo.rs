//! Heat on a rod, cut into one piece per process. Neighbours exchange the values at their borders in every step
//! while the inner points are computed. The result must be the one a single process computes.
const POINTS_PER_RANK: usize = 64;
const STEPS: usize = 200;

fn main() -> mpi::Result<()> {
    let world = mpi::init()?.world();
    let total = world.size() * POINTS_PER_RANK;
    let first = world.rank() * POINTS_PER_RANK;
    let mut piece: Vec<f64> = (first..first + POINTS_PER_RANK).map(start).collect();
    for _ in 0..STEPS {
        piece = step(&world, &piece)?;
    }
    let all = world.gather(&piece, 0)?;
    if let Some(all) = all {
        let expected = alone(total);
        assert!(all.iter().zip(&expected).all(|(a, b)| a == b), "the pieces do not make the whole");
        println!("halo: {STEPS} steps on {total} points agree with one process to the last bit");
    }
    Ok(())
}

/// One step on a piece, with the neighbours' border values.
fn step(world: &mpi::Communicator, piece: &[f64]) -> mpi::Result<Vec<f64>> {
    let (rank, last) = (world.rank(), piece.len() - 1);
    let (mut below, mut above) = ([piece[0]], [piece[last]]);
    let mut next = piece.to_vec();
    world.scope(|s| {
        if rank > 0 {
            s.irecv(&mut below, rank - 1, 0)?;
            s.isend(&piece[..1], rank - 1, 0)?;
        }
        if rank + 1 < world.size() {
            s.irecv(&mut above, rank + 1, 0)?;
            s.isend(&piece[last..], rank + 1, 0)?;
        }
        for i in 1..last {
            next[i] = mean(piece[i - 1], piece[i], piece[i + 1]);
        }
        Ok(())
    })?;
    next[0] = mean(below[0], piece[0], piece[1]);
    next[last] = mean(piece[last - 1], piece[last], above[0]);
    Ok(next)
}

fn alone(total: usize) -> Vec<f64> {
    let mut rod: Vec<f64> = (0..total).map(start).collect();
    for _ in 0..STEPS {
        let at = |i: usize| rod[i];
        rod = (0..total).map(|i| mean(at(i.saturating_sub(1)), at(i), at((i + 1).min(total - 1)))).collect();
    }
    rod
}

fn start(point: usize) -> f64 {
    ((point * 37) % 101) as f64
}

fn mean(left: f64, here: f64, right: f64) -> f64 {
    here + 0.25 * (left - 2.0 * here + right)
}
