//! Sorts integers: counts them by buckets, adds the counts up, gives each process a row of buckets with about as many keys
//! as any other, and has everybody send its keys to whom they belong.
use crate::numbers::mix;
use crate::shared::{expect, share};
use crate::{Checked, Job, Wrong};
use mpi::{Communicator, Op};
use std::ops::Range;

/// Keys are below this.
const KEYS: u32 = 1 << 19;
const BUCKETS: usize = 1 << 10;
/// Keys of a bucket.
const WIDTH: u32 = KEYS / BUCKETS as u32;
/// Each with other keys.
const ROUNDS: u64 = 3;
const SIZE_MAX: usize = 28;

/// What must not change when keys are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Census {
    keys: u64,
    mixed: u64,
}

/// Runs the kernel.
pub fn run(job: &Job, size: usize) -> Checked {
    if size > SIZE_MAX {
        return Err(Wrong::Usage(format!("SIZE is {SIZE_MAX} at the most, not {size}")));
    }
    let world = &job.world;
    let mine = share(1 << size, world.size(), world.rank());
    for round in 0..ROUNDS {
        let keys: Vec<u32> = mine.clone().map(|at| key(round, at as u64)).collect();
        let before = Census::of(world, &keys)?;
        let (sorted, buckets) = sort(world, keys)?;
        check_order(world, &sorted, buckets)?;
        let after = Census::of(world, &sorted)?;
        expect(before == after, || format!("there were {before:?}, and now {after:?}"))?;
        expect(after.keys == 1 << size, || format!("{} keys of {}", after.keys, 1 << size))?;
    }
    Ok(format!("{} keys are in order, {ROUNDS} times, and none is lost or new", 1 << size))
}

/// The mean of four random numbers: keys in the middle are frequent.
fn key(round: u64, at: u64) -> u32 {
    let word = mix(mix(round) ^ at);
    let quarters = [0, 16, 32, 48].map(|shift| (word >> shift) & 0xffff);
    (quarters.iter().sum::<u64>() * u64::from(KEYS) / (4 << 16)) as u32
}

/// The keys of the buckets that are this process's, sorted, and which these are.
fn sort(world: &Communicator, mut keys: Vec<u32>) -> mpi::Result<(Vec<u32>, Range<usize>)> {
    let bucket = |key: u32| (key / WIDTH) as usize;
    let mut counts = vec![0_u64; BUCKETS];
    keys.iter().for_each(|key| counts[bucket(*key)] += 1);
    let mut totals = vec![0; BUCKETS];
    world.allreduce(&counts, &mut totals, Op::Sum)?;
    let ends = ends(&totals, world.size());
    let begin = |owner: usize| if owner == 0 { 0 } else { ends[owner - 1] };
    // By bucket is enough: who gets them sorts them.
    keys.sort_unstable_by_key(|key| bucket(*key));
    let sends: Vec<usize> = (0..world.size())
        .map(|owner| counts[begin(owner)..ends[owner]].iter().sum::<u64>() as usize)
        .collect();
    let recvs = world.alltoall(&sends)?;
    let mut own = world.alltoallv(&keys, &sends, &recvs)?;
    own.sort_unstable();
    Ok((own, begin(world.rank())..ends[world.rank()]))
}

/// Behind the last bucket of each process: as soon as those up to it have their share of the keys.
fn ends(totals: &[u64], processes: usize) -> Vec<usize> {
    let all: u64 = totals.iter().sum();
    let (mut ends, mut seen) = (Vec::with_capacity(processes), 0);
    for (bucket, total) in totals.iter().enumerate() {
        seen += total;
        while ends.len() + 1 < processes && seen * processes as u64 >= all * (ends.len() as u64 + 1) {
            ends.push(bucket + 1);
        }
    }
    ends.resize(processes, totals.len());
    ends
}

/// In order here, within this process's buckets, and not below the last key of the process before it.
fn check_order(world: &Communicator, sorted: &[u32], buckets: Range<usize>) -> Result<(), Wrong> {
    let bounds = buckets.start as u32 * WIDTH..buckets.end as u32 * WIDTH;
    expect(sorted.is_sorted(), || "keys of one process are not in order".into())?;
    expect(sorted.iter().all(|key| bounds.contains(key)), || format!("a key is not within {bounds:?}"))?;
    let (rank, size) = (world.rank(), world.size());
    if size == 1 {
        return Ok(());
    }
    // Without keys, what would be the first.
    let (first, last) = (sorted.first().unwrap_or(&bounds.end), sorted.last().unwrap_or(&bounds.start));
    let mut below = [0];
    world.sendrecv(&[*last], (rank + 1) % size, &mut below, (rank + size - 1) % size, 0)?;
    expect(rank == 0 || below[0] <= *first, || format!("{} before {first}", below[0]))
}

impl Census {
    fn of(world: &Communicator, keys: &[u32]) -> mpi::Result<Census> {
        let mixed = keys.iter().fold(0_u64, |sum, key| sum.wrapping_add(mix(u64::from(*key)) >> 32));
        let mut all = [0; 2];
        world.allreduce(&[keys.len() as u64, mixed], &mut all, Op::Sum)?;
        Ok(Census { keys: all[0], mixed: all[1] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_buckets_up_to_its_share_of_the_keys() {
        assert_eq!(ends(&[5, 5, 5, 5], 2), [2, 4]);
        assert_eq!(ends(&[20, 0, 0, 1], 3), [1, 1, 4], "one bucket is more than a share");
        assert_eq!(ends(&[0, 0], 1), [2]);
    }

    #[test]
    fn keys_are_below_their_bound_and_most_frequent_in_the_middle() {
        let keys: Vec<u32> = (0..4000).map(|at| key(1, at)).collect();
        assert!(keys.iter().all(|key| *key < KEYS));
        let middle = keys.iter().filter(|key| (KEYS / 4..3 * KEYS / 4).contains(key)).count();
        assert!(middle > 3200, "{middle} of 4000");
    }
}
