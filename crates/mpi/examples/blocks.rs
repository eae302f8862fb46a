//! Structs and blocks of different lengths through every collective that moves them, blocking and in a scope: both must give
//! what each process can work out by itself.
use mpi::{Communicator, Op, Slice, SliceMut};

/// With padding, which is not sent: 3 bytes behind `kind`, none at the end.
#[derive(Clone, Copy, Debug, PartialEq, mpi::Datum)]
#[repr(C)]
struct Item {
    kind: u8,
    at: [i32; 2],
    weight: Weight,
}

#[derive(Clone, Copy, Debug, PartialEq, mpi::Datum)]
#[repr(transparent)]
struct Weight(f64);

fn main() -> mpi::Result<()> {
    let world = mpi::init()?.world();
    gathers(&world)?;
    alltoalls(&world)?;
    of_many_types(&world)?;
    scatters(&world)?;
    reductions(&world)?;
    neighbors(&world)?;
    mistakes(&world)?;
    // The heaviest of all, by a function of structs.
    let mut heaviest = [item(0, 0)];
    let heavier = |a: Item, b: Item| if b.weight.0 > a.weight.0 { b } else { a };
    world.allreduce_with(&[item(world.rank(), 1)], &mut heaviest, mpi::Order::Ranks, heavier)?;
    assert_eq!(heaviest[0], item(world.size() - 1, 1));
    if world.rank() == 0 {
        println!("blocks: structs of {} bytes among {} processes are right", size_of::<Item>(), world.size());
    }
    Ok(())
}

fn item(rank: usize, index: usize) -> Item {
    Item {
        kind: rank as u8,
        at: [rank as i32, -(index as i32)],
        weight: Weight((rank * 1000 + index) as f64),
    }
}

/// What a process brings: as many items as its rank and two more.
fn of_rank(rank: usize) -> Vec<Item> {
    (0..rank + 2).map(|index| item(rank, index)).collect()
}

fn gathers(world: &Communicator) -> mpi::Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let (mine, root) = (of_rank(rank), size - 1);
    let counts: Vec<usize> = (0..size).map(|rank| rank + 2).collect();
    let expected: Vec<Item> = (0..size).flat_map(of_rank).collect();
    let at_root = (rank == root).then(|| expected.clone());
    assert_eq!(world.gatherv(&mine, &counts, root)?, at_root);
    assert_eq!(world.allgatherv(&mine, &counts)?, expected);
    let firsts: Vec<Item> = (0..size).map(|rank| item(rank, 0)).collect();
    assert_eq!(world.gather(&mine[..1], root)?, (rank == root).then(|| firsts.clone()));
    assert_eq!(world.allgather(&mine[..1])?, firsts);

    let empty = item(0, 0);
    let (mut all, mut rooted) = (vec![empty; expected.len()], vec![empty; expected.len()]);
    let (mut first, mut first_rooted) = (vec![empty; size], vec![empty; size]);
    world.scope(|s| {
        s.iallgatherv(&mine, &mut all, &counts)?;
        s.igatherv(&mine, (rank == root).then_some((&mut rooted[..], &counts[..])), root)?;
        s.iallgather(&mine[..1], &mut first)?;
        s.igather(&mine[..1], (rank == root).then_some(&mut first_rooted[..]), root)?;
        Ok(())
    })?;
    assert_eq!((all, first), (expected.clone(), firsts.clone()));
    if rank == root {
        assert_eq!((rooted, first_rooted), (expected, firsts));
    }
    Ok(())
}

fn alltoalls(world: &Communicator) -> mpi::Result<()> {
    let (rank, size) = (world.rank(), world.size());
    // Process i gets as many from everybody as i says, so this one gets `rank` of each.
    let sends: Vec<usize> = (0..size).collect();
    let recvs = world.alltoall(&sends)?;
    assert_eq!(recvs, vec![rank; size]);
    let data: Vec<Item> = sends.iter().flat_map(|count| (0..*count).map(|index| item(rank, index))).collect();
    let expected: Vec<Item> =
        (0..size).flat_map(|from| (0..rank).map(move |index| item(from, index))).collect();
    assert_eq!(world.alltoallv(&data, &sends, &recvs)?, expected);
    let (mut into, mut told) = (vec![item(0, 0); expected.len()], vec![0; size]);
    world.scope(|s| {
        s.ialltoallv(&data, &sends, &mut into, &recvs)?;
        s.ialltoall(&sends, &mut told)?.wait()?;
        Ok(())
    })?;
    assert_eq!((into, told), (expected, recvs));
    Ok(())
}

/// Everybody sends items to even processes, and to odd ones as many numbers as their rank.
fn of_many_types(world: &Communicator) -> mpi::Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let (items, numbers) = (of_rank(rank), vec![rank as u16; size]);
    let send = |to: usize| if to.is_multiple_of(2) { Slice::new(&items) } else { Slice::new(&numbers[..to]) };
    let mut items_got: Vec<Vec<Item>> = (0..size).map(|from| vec![item(0, 9); from + 2]).collect();
    let (mut numbers_got, mut again) = (vec![vec![9_u16; rank]; size], items_got.clone());
    let expected: Vec<Vec<Item>> = (0..size).map(of_rank).collect();
    if rank.is_multiple_of(2) {
        world.alltoallw((0..size).map(send), items_got.iter_mut().map(|room| SliceMut::new(room)))?;
        world.scope(|s| {
            s.ialltoallw((0..size).map(send), again.iter_mut().map(|room| SliceMut::new(room)))?;
            Ok(())
        })?;
        assert_eq!((&items_got, &again), (&expected, &expected));
    } else {
        let mut again = numbers_got.clone();
        world.alltoallw((0..size).map(send), numbers_got.iter_mut().map(|room| SliceMut::new(room)))?;
        world.scope(|s| {
            s.ialltoallw((0..size).map(send), again.iter_mut().map(|room| SliceMut::new(room)))?.wait()?;
            Ok(())
        })?;
        let expected: Vec<Vec<u16>> = (0..size).map(|from| vec![from as u16; rank]).collect();
        assert_eq!((numbers_got, again), (expected.clone(), expected));
    }
    let few = world.alltoallw([], (0..size).map(|_| SliceMut::empty())).expect_err("no slices");
    assert_eq!((few.class, few.call()), (mpi::ErrorClass::Count, Some("alltoallw")));
    // Nobody sends anything, and that is something to agree on, too.
    world.alltoallw((0..size).map(|_| Slice::empty()), (0..size).map(|_| SliceMut::empty()))
}

fn scatters(world: &Communicator) -> mpi::Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let counts: Vec<usize> = (0..size).map(|rank| rank + 2).collect();
    let all: Vec<Item> = (0..size).flat_map(of_rank).collect();
    let pairs: Vec<u16> = (0..2 * size as u16).collect();
    for root in [0, size - 1] {
        let here = rank == root;
        let (mut part, mut later) = (vec![item(0, 9); rank + 2], vec![item(0, 9); rank + 2]);
        world.scatterv(here.then_some((&all[..], &counts[..])), &mut part, root)?;
        let (mut pair, mut pair_later) = ([0; 2], [0; 2]);
        world.scatter(here.then_some(&pairs[..]), &mut pair, root)?;
        world.scope(|s| {
            s.iscatterv(here.then_some((&all[..], &counts[..])), &mut later, root)?;
            s.iscatter(here.then_some(&pairs[..]), &mut pair_later, root)?;
            Ok(())
        })?;
        assert_eq!((&part, &later), (&of_rank(rank), &of_rank(rank)));
        assert_eq!((pair, pair_later), ([2 * rank as u16, 2 * rank as u16 + 1], pair));
    }
    Ok(())
}

fn reductions(world: &Communicator) -> mpi::Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let counts: Vec<usize> = (1..=size).collect();
    let data: Vec<i64> = (0..counts.iter().sum::<usize>()).map(|index| (rank + index) as i64).collect();
    let ranks = (size * (size - 1) / 2) as i64;
    let from: usize = counts[..rank].iter().sum();
    let block: Vec<i64> = (from..=from + rank).map(|index| ranks + (size * index) as i64).collect();
    assert_eq!(world.reduce_scatter(&data, &counts, Op::Sum)?, block);
    let one = world.reduce_scatter_block(&data[..size], Op::Sum)?;
    assert_eq!(one, [ranks + (size * rank) as i64]);
    let mut below = [-1];
    world.exscan(&[rank as i64], &mut below, Op::Sum)?;
    assert_eq!(below[0], if rank == 0 { -1 } else { (rank * (rank - 1) / 2) as i64 });
    let mut flags = [u8::from(rank == 0), 1, 0];
    world.allreduce_in_place(&mut flags, Op::All)?;
    assert_eq!(flags, [u8::from(size == 1), 1, 0]);

    let (mine, mut later, mut single) = ([rank as i64], vec![0; rank + 1], [0]);
    let (mut scanned, mut exscanned, mut reduced, mut place) = ([0], [-1], [0], [rank as i64]);
    world.scope(|s| {
        s.ireduce_scatter(&data, &counts, &mut later, Op::Sum)?;
        s.ireduce_scatter_block(&data[..size], &mut single, Op::Sum)?;
        s.iscan(&mine, &mut scanned, Op::Sum)?;
        s.iexscan(&mine, &mut exscanned, Op::Sum)?;
        s.ireduce(&mine, (rank == 0).then_some(&mut reduced[..]), Op::Max, 0)?;
        s.iallreduce_in_place(&mut place, Op::Min)?;
        Ok(())
    })?;
    assert_eq!((later, single[0], exscanned, place), (block, one[0], below, [0]));
    assert_eq!(scanned[0], (rank * (rank + 1) / 2) as i64);
    assert_eq!(reduced[0], if rank == 0 { size as i64 - 1 } else { 0 });
    assert_eq!(world.reduce(&mine, Op::Prod, 0)?, (rank == 0).then(|| vec![i64::from(size == 1) * mine[0]]));
    Ok(())
}

/// On a ring, each has two neighbors, the lower one first.
fn neighbors(world: &Communicator) -> mpi::Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let Some(ring) = world.grid(&[size], &[true])? else { return Ok(()) };
    let (lower, upper) = ((rank + size - 1) % size, (rank + 1) % size);
    let mine = of_rank(rank);
    let counts = [lower + 2, upper + 2];
    let expected = [of_rank(lower), of_rank(upper)].concat();
    assert_eq!(ring.neighbor_allgatherv(&mine, &counts)?, expected);
    assert_eq!(ring.neighbor_allgather(&[rank])?, [lower, upper]);
    // One element down, two up: so one comes from above, and two from below.
    let data = [item(rank, 1), item(rank, 2), item(rank, 3)];
    let crossed = [item(lower, 2), item(lower, 3), item(upper, 1)];
    assert_eq!(ring.neighbor_alltoallv(&data, &[1, 2], &[2, 1])?, crossed);
    let (mut gathered, mut exchanged) = (vec![item(0, 0); expected.len()], [item(0, 0); 3]);
    let (ranks, mut around, mut swapped) = ([rank; 2], [0; 4], [0; 2]);
    // An item down, a number up.
    let (down, up) = ([item(rank, 5)], [rank as f32]);
    let (mut number, mut above, mut later, mut above_later) = ([0.5], [item(0, 0)], [0.5], [item(0, 0)]);
    ring.neighbor_alltoallw(
        [Slice::new(&down), Slice::new(&up)],
        [SliceMut::new(&mut number), SliceMut::new(&mut above)],
    )?;
    ring.scope(|s| {
        let into = [SliceMut::from(&mut later[..]), SliceMut::from(&mut above_later[..])];
        s.ineighbor_alltoallw([Slice::from(&down[..]), Slice::from(&up[..])], into)?;
        Ok(())
    })?;
    assert_eq!((number, above), ([lower as f32], [item(upper, 5)]));
    assert_eq!((later, above_later), (number, above));
    ring.scope(|s| {
        s.ineighbor_allgatherv(&mine, &mut gathered, &counts)?;
        s.ineighbor_alltoallv(&data, &[1, 2], &mut exchanged, &[2, 1])?;
        s.ineighbor_allgather(&ranks, &mut around)?;
        s.ineighbor_alltoall(&ranks, &mut swapped)?;
        Ok(())
    })?;
    assert_eq!((gathered, exchanged, swapped), (expected, crossed, [lower, upper]));
    assert_eq!(around, [lower, lower, upper, upper]);
    Ok(())
}

/// A mistake of the caller is an error that names the call, and nothing has been sent.
fn mistakes(world: &Communicator) -> mpi::Result<()> {
    let wrong = world.allgatherv(&[1], &vec![1; world.size() + 1]).expect_err("one too many");
    assert_eq!((wrong.class, wrong.call()), (mpi::ErrorClass::Count, Some("allgatherv")));
    assert_eq!((wrong.object(), wrong.rank()), (Some("MPI_COMM_WORLD"), Some(world.rank())));
    let missing = world.scatter::<u8>(None, &mut [0], world.rank()).expect_err("the root brings nothing");
    assert_eq!(missing.class.name(), "MPI_ERR_BUFFER");
    // A message that is no whole number of elements stays for a receive that fits it.
    let (rank, sent) = (world.rank(), [1_u8, 2, 3]);
    world.scope(|s| {
        s.isend(&sent, rank, 5)?;
        let halves = world.recv::<u16>(rank, 5).expect_err("three bytes are no whole numbers");
        assert_eq!((halves.class, halves.call()), (mpi::ErrorClass::Type, Some("recv")));
        let (bytes, status) = world.recv::<u8>(rank, 5)?;
        assert_eq!((&bytes[..], status.bytes, status.tag), (&sent[..], 3, 5));
        Ok(())
    })?;
    world.barrier()
}
