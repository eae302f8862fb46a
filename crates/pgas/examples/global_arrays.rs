//! Global arrays beside a model of each in every process's own memory: `global_arrays`, on any number of processes.
use mpi::Op;
use pgas::ga::{
    Block, Counter, Edge, Element, GaError, GlobalArray, Layout, Patch, Reach, Result, Tasks, Tiling, overlap,
};
use pgas::{Armci, Complex32, Complex64};

fn main() -> Result<()> {
    let universe = mpi::init()?;
    // Said here: a process that leaves with an error ends the job before main's result is printed.
    run(&universe.world()).inspect_err(|error| eprintln!("global arrays: {error}"))
}

fn run(world: &mpi::Communicator) -> Result<()> {
    let armci = Armci::new(world)?;
    patches(&armci)?;
    counters(&armci)?;
    elements(&armci)?;
    whole_arrays(&armci)?;
    products(&armci)?;
    ghosts(&armci)?;
    complex_numbers(&armci)?;
    overlapped(&armci)?;
    locked(&armci)?;
    mistakes(&armci)?;
    armci.barrier()?;
    if armci.rank() == 0 {
        println!("global arrays: {} processes agree with their models", armci.size());
    }
    Ok(())
}

/// Numbers that look random; all processes have the same.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn patch<const N: usize>(&mut self, dims: [usize; N]) -> Patch<N> {
        Patch::from(dims.map(|dim| {
            let lo = self.below(dim);
            lo..lo + 1 + self.below(dim - lo)
        }))
    }
}

/// Small numbers, so that sums are exact in every type.
fn values<T: Element>(chance: &mut Chance, count: usize) -> Vec<T> {
    (0..count).map(|_| number(chance.below(64))).collect()
}

fn number<T: Element>(count: usize) -> T {
    (0..count).fold(T::default(), |sum, _| sum.plus(T::ONE))
}

/// Writes and accumulates random patches, in turn and together, and reads others.
fn patches(armci: &Armci) -> Result<()> {
    of_layout::<f64, 1>(armci, Layout::new([1000]))?;
    of_layout::<f64, 2>(armci, Layout::new([31, 47]).ghosts([1, 2]))?;
    of_layout::<i64, 2>(armci, Layout::new([64, 64]).chunk([64, 1]))?;
    of_layout::<f32, 3>(armci, Layout::new([9, 10, 11]).chunk([2, 3, 1]))?;
    of_layout::<i32, 4>(armci, Layout::new([5, 4, 3, 7]).ghosts([0, 1, 0, 1]))?;
    of_layout::<f64, 7>(armci, Layout::new([3, 2, 3, 2, 2, 3, 2]))?;
    match armci.size() {
        1 => of_layout::<f64, 2>(armci, Layout::irregular([20, 30], [&[0], &[0]])),
        2..6 => of_layout::<f64, 2>(armci, Layout::irregular([20, 30], [&[0], &[0, 29]])),
        _ => of_layout::<f64, 2>(armci, Layout::irregular([20, 30], [&[0, 13], &[0, 1, 20]])),
    }
}

fn of_layout<T: Element, const N: usize>(armci: &Armci, layout: Layout<N>) -> Result<()> {
    let array = layout.create::<T>(armci)?;
    let mut chance = Chance(N as u64);
    let mut model = Block::<T, N>::new(array.whole(), [0; N]);
    check(&array, &model, "a new array");
    for round in 0..3 * armci.size().min(16) {
        let patch = chance.patch(array.dims());
        let data: Vec<T> = values(&mut chance, patch.volume());
        if round % armci.size() == armci.rank() {
            array.put(patch, &data)?;
            assert_eq!(array.read(patch)?, data, "{patch:?} is read back by who has written it");
        }
        patch.points().zip(&data).for_each(|(at, value)| model[at] = *value);
        array.sync()?;
        let seen = Chance(round as u64 + armci.rank() as u64).patch(array.dims());
        let expected: Vec<T> = seen.points().map(|at| model[at]).collect();
        assert_eq!(array.read(seen)?, expected, "{seen:?} after round {round}");
        array.sync()?;
    }
    for rank in 0..armci.size() {
        let patch = chance.patch(array.dims());
        let data: Vec<T> = values(&mut chance, patch.volume());
        let scale = number(1 + rank % 3);
        if rank == armci.rank() {
            array.accumulate(patch, &data, scale)?;
        }
        for (at, value) in patch.points().zip(data) {
            model[at] = model[at].plus(scale.times(value));
        }
    }
    array.sync()?;
    check(&array, &model, "sums");
    let all: usize = (0..armci.size()).map(|rank| array.distribution().patch(rank).volume()).sum();
    assert_eq!(all, array.whole().volume());
    Ok(())
}

fn check<T: Element, const N: usize>(array: &GlobalArray<T, N>, model: &Block<T, N>, what: &str) {
    let seen = array.read(array.whole()).expect("all of it can be read");
    assert_eq!(seen, model.elements(), "{what}");
    array.sync().expect("everybody has read");
}

/// Everybody takes numbers: each is given once.
fn counters(armci: &Armci) -> Result<()> {
    fn of<T: Counter>(armci: &Armci) -> Result<()> {
        const EACH: usize = 20;
        let next = Layout::new([3]).create::<T>(armci)?;
        let given = GlobalArray::<T, 1>::create(armci, [EACH * armci.size()])?;
        let mut last = None;
        for _ in 0..EACH {
            let ticket = next.fetch_add([2], T::ONE)?;
            let mut numbers = std::iter::successors(Some(T::default()), |number| Some(number.plus(T::ONE)));
            let place = numbers.by_ref().take(EACH * armci.size()).position(|number| number == ticket);
            let place = place.expect("a number that can be given");
            assert!(last.is_none_or(|last| last < place), "numbers rise");
            last = Some(place);
            given.accumulate(place..place + 1, &[T::ONE], T::ONE)?;
        }
        given.sync()?;
        assert_eq!(next.element([2])?, number(EACH * armci.size()));
        assert!(given.read(given.whole())?.iter().all(|count| *count == T::ONE), "each number once");
        given.sync()
    }
    of::<i64>(armci)?;
    of::<i32>(armci)
}

/// Points anywhere.
fn elements(armci: &Armci) -> Result<()> {
    let array = GlobalArray::<i64, 2>::create(armci, [40, 50])?;
    let mut model = Block::<i64, 2>::new(array.whole(), [0, 0]);
    let mut chance = Chance(17);
    for rank in 0..armci.size() {
        // Points of one process: column by column, so that no two write to the same.
        let points: Vec<[usize; 2]> = (0..40).map(|row| [row, (row * 7 + rank) % 50]).collect();
        let data: Vec<i64> = values(&mut chance, points.len());
        let writes = rank < 50;
        if rank == armci.rank() && writes {
            array.scatter(&points, &data)?;
            let mut back = vec![-1; points.len()];
            array.gather(&points, &mut back)?;
            assert_eq!(back, data);
        }
        points.iter().zip(data).filter(|_| writes).for_each(|(at, value)| model[*at] = value);
    }
    array.sync()?;
    check(&array, &model, "scattered values");
    for rank in 0..armci.size() {
        let points: Vec<[usize; 2]> = (0..100).map(|_| [chance.below(40), chance.below(3)]).collect();
        let data: Vec<i64> = values(&mut chance, points.len());
        if rank == armci.rank() {
            array.scatter_add(&points, &data, -2)?;
        }
        points.iter().zip(data).for_each(|(at, value)| model[*at] -= 2 * value);
    }
    array.sync()?;
    check(&array, &model, "scattered sums");
    Ok(())
}

fn whole_arrays(armci: &Armci) -> Result<()> {
    let a = GlobalArray::<i64, 2>::create(armci, [23, 17])?;
    let b = Layout::new([23, 17]).chunk([8, 8]).ghosts([1, 1]).create::<i64>(armci)?;
    let of = |value: &dyn Fn([usize; 2]) -> i64| {
        let points = a.whole().points();
        Block::of(a.whole(), points.map(value).collect())
    };
    a.fill(7)?;
    check(&a, &of(&|_| 7), "a filled array");
    a.fill_with(|[i, j]| (100 * i + j) as i64)?;
    b.copy_from(&a)?;
    check(&b, &of(&|[i, j]| (100 * i + j) as i64), "a copy that is distributed otherwise");
    b.scale(3)?;
    a.set_sum((2, &a), (-1, &b))?;
    check(&a, &of(&|[i, j]| -((100 * i + j) as i64)), "a sum");
    assert_eq!(a.dot(&b)?, (0..23 * 17).map(|n| -3 * (100 * (n / 17) + n % 17_i64).pow(2)).sum::<i64>());
    assert_eq!(a.sum()?, (0..23 * 17).map(|n| -(100 * (n / 17) + n % 17_i64)).sum::<i64>());
    let turned = GlobalArray::<i64, 2>::create(armci, [17, 23])?;
    turned.transpose_from(&a)?;
    let points = turned.whole().points();
    let model = Block::of(turned.whole(), points.map(|[i, j]| -((100 * j + i) as i64)).collect());
    check(&turned, &model, "a transpose");
    let changed = a.change_own(|block| {
        let rows: Vec<[usize; 2]> = block.row_starts().collect();
        rows.iter().for_each(|at| block.row_mut(*at).fill(1));
        block.patch().volume()
    })?;
    assert_eq!((changed, a.with_own(|block| block.elements().len())?), (a.own().volume(), changed));
    a.sync()?;
    check(&a, &of(&|_| 1), "blocks that everybody has changed");
    a.zero()?;
    check(&a, &of(&|_| 0), "zeros");
    Ok(())
}

fn products(armci: &Armci) -> Result<()> {
    let create = |dims| GlobalArray::<i64, 2>::create(armci, dims);
    let (a, b, c) = (create([20, 30])?, create([25, 30])?, create([24, 40])?);
    let (left, right) =
        (|i: usize, j: usize| (i * 3 + j) as i64 % 11, |i: usize, j: usize| (i + 5 * j) as i64 % 7);
    a.fill_with(|[i, j]| left(i, j))?;
    b.fill_with(|[i, j]| right(i, j))?;
    for tasks in [Tasks::Own, Tasks::Shared] {
        for (extent, beta) in [(7, 0), (64, -1)] {
            c.fill(5)?;
            let patch = Patch::from([2..22, 10..35]);
            let (first, second) = (a.operand(), b.operand().transposed());
            c.multiply(patch, 2, &first, &second, beta, Tiling { extent, tasks })?;
            let product = |i: usize, j: usize| (0..30).map(|k| left(i, k) * right(j, k)).sum::<i64>();
            let value = |at: [usize; 2]| match patch.contains(at) {
                true => 2 * product(at[0] - 2, at[1] - 10) + beta * 5,
                false => 5,
            };
            let model = Block::of(c.whole(), c.whole().points().map(value).collect());
            check(&c, &model, "a product");
        }
    }
    let part = a.operand_of([3..9, 4..10])?;
    let square = create([6, 6])?;
    square.multiply(square.whole(), 1, &part, &part, 0, Tiling::default())?;
    let at = |i: usize, j: usize| (0..6).map(|k| left(3 + i, 4 + k) * left(3 + k, 4 + j)).sum();
    let model = Block::of(square.whole(), square.whole().points().map(|[i, j]| at(i, j)).collect());
    check(&square, &model, "a product of patches");
    Ok(())
}

fn ghosts(armci: &Armci) -> Result<()> {
    let field = Layout::new([16, 18]).chunk([2, 2]).ghosts([2, 1]).create::<i64>(armci)?;
    let value = |at: [usize; 2]| (100 * at[0] + at[1]) as i64;
    field.fill_with(value)?;
    for (reach, edge) in [(Reach::Faces, Edge::Open), (Reach::All, Edge::Periodic), (Reach::All, Edge::Open)]
    {
        field.change_own(|block| {
            let inner: Vec<[usize; 2]> = block.patch().points().collect();
            block.elements_mut().fill(-1);
            inner.into_iter().for_each(|at| block[at] = value(at));
        })?;
        field.update_ghosts(reach, edge)?;
        field.with_own(|block| {
            let own = block.patch();
            for (number, at) in block.stored().points().enumerate() {
                // From the corner of the ghosts, a whole array further, so that nothing is negative.
                let shifted = [own.lo[0] + at[0] + 16 - 2, own.lo[1] + at[1] + 18 - 1];
                let there = [shifted[0] % 16, shifted[1] % 18];
                let beyond = [
                    shifted[0] < own.lo[0] + 16 || shifted[0] >= own.hi[0] + 16,
                    shifted[1] < own.lo[1] + 18 || shifted[1] >= own.hi[1] + 18,
                ];
                let outside = edge == Edge::Open && (shifted[0] / 16 != 1 || shifted[1] / 18 != 1);
                let corner = reach == Reach::Faces && beyond == [true, true];
                let expected = if outside || corner { -1 } else { value(there) };
                assert_eq!(block.elements()[number], expected, "{at:?} of {own:?}, {reach:?}, {edge:?}");
            }
        })?;
        field.sync()?;
    }
    let before = field.sum()?;
    field.with_ghosts(Reach::Faces, Edge::Periodic, |block| {
        let (old, row) = (block.elements().to_vec(), block.strides()[0]);
        for at in block.patch().points() {
            let place = block.place(at);
            block[at] = old[place + row];
        }
    })?;
    assert_eq!((field.sum()?, field.element([15, 3])?), (before, value([0, 3])));
    field.sync()
}

fn complex_numbers(armci: &Armci) -> Result<()> {
    let array = GlobalArray::<Complex64, 2>::create(armci, [12, 9])?;
    let value = |[i, j]: [usize; 2]| Complex64::new(i as f64, j as f64 - 3.0);
    array.fill_with(value)?;
    let patch = Patch::from([1..11, 2..8]);
    let data: Vec<Complex64> = patch.points().map(value).collect();
    array.accumulate(patch, &data, Complex64::new(0.0, 1.0))?;
    array.sync()?;
    let times = Complex64::new(1.0, armci.size() as f64);
    let expected = |at| if patch.contains(at) { value(at) * times } else { value(at) };
    let model = Block::of(array.whole(), array.whole().points().map(expected).collect());
    check(&array, &model, "complex sums");
    let all = array.whole().points().map(expected).fold(Complex64::default(), |sum, value| sum + value);
    assert_eq!(array.sum()?, all);
    let small = GlobalArray::<Complex32, 1>::create(armci, [5])?;
    small.fill(Complex32::new(0.5, -1.0))?;
    assert_eq!(small.sum()?, Complex32::new(2.5, -5.0));
    Ok(())
}

/// Patches of two arrays on their way at once.
fn overlapped(armci: &Armci) -> Result<()> {
    let (a, b) =
        (GlobalArray::<i64, 2>::create(armci, [60, 70])?, GlobalArray::<i64, 1>::create(armci, [1000])?);
    let (rank, ranks) = (armci.rank(), armci.size());
    let rows = 60 * rank / ranks..60 * (rank + 1) / ranks;
    let data: Vec<i64> =
        Patch::from([rows.clone(), 0..70]).points().map(|[i, j]| (i * 70 + j) as i64).collect();
    let ones = vec![1; 1000];
    overlap(armci, |scope| {
        a.begin_put(scope, [rows.clone(), 0..70], &data)?;
        b.begin_accumulate(scope, 0..1000, &ones, 3)
    })?;
    a.sync()?;
    let (mut columns, mut line) = (vec![0; 60 * 7], vec![0; 500]);
    let seen = overlap(armci, |scope| {
        a.begin_get(scope, [0..60, 20..27], &mut columns)?;
        b.begin_get(scope, 250..750, &mut line)?;
        Ok(ranks)
    })?;
    assert!(
        Patch::from([0..60, 20..27])
            .points()
            .zip(columns)
            .all(|([i, j], value)| value == (i * 70 + j) as i64)
    );
    assert!(line.iter().all(|value| *value == 3 * seen as i64));
    a.sync()
}

/// A value that is read and written under a mutex, by all.
fn locked(armci: &Armci) -> Result<()> {
    const TIMES: i64 = 3;
    let value = GlobalArray::<i64, 1>::create(armci, [1])?;
    let mutexes = armci.mutexes(1)?;
    let owner = armci.size() - 1;
    for _ in 0..TIMES {
        let _held = mutexes.lock(0, owner)?;
        let old = value.element([0])?;
        value.set([0], old + 1)?;
    }
    value.sync()?;
    assert_eq!(value.element([0])?, TIMES * armci.size() as i64);
    value.sync()
}

/// A mistake is an error, and changes nothing.
fn mistakes(armci: &Armci) -> Result<()> {
    let array = GlobalArray::<f64, 2>::create(armci, [8, 8])?;
    let outside = array.put([3..9, 0..2], &[0.0; 12]).unwrap_err();
    assert_eq!(outside.to_string(), "[3..9, 0..2] is not inside of a global array of [8, 8]");
    assert!(matches!(array.read([8..9, 0..1]), Err(GaError::Outside { .. })));
    assert!(matches!(array.put([0..2, 0..2], &[0.0; 3]), Err(GaError::Length { needed: 4, given: 3 })));
    assert!(matches!(array.scatter(&[[8, 0]], &[1.0]), Err(GaError::Outside { .. })));
    let many = Layout::irregular([64], [&(0..armci.size() + 1).collect::<Vec<_>>()[..]]);
    assert!(matches!(many.create::<f64>(armci), Err(GaError::Shape(_))) || armci.size() >= 64);
    let other = GlobalArray::<f64, 2>::create(armci, [8, 9])?;
    assert!(matches!(array.dot(&other), Err(GaError::Mismatch { .. })));
    assert!(array.read([0..0, 0..0])?.is_empty());
    let far = [usize::MAX, 0];
    let beyond = array.element(far).unwrap_err().to_string();
    assert_eq!(beyond, format!("{far:?} is not inside of a global array of [8, 8]"));
    assert!(matches!(array.set(far, 1.0), Err(GaError::Outside { .. })));
    assert!(matches!(array.gather(&[far], &mut [0.0]), Err(GaError::Outside { .. })));
    let wide = Layout::new([8, 8]).ghosts([0, usize::MAX / 2]);
    let wide = wide.create::<f64>(armci).err().expect("no memory is so large");
    assert!(wide.to_string().contains("ghosts on either side of dimension 1"), "{wide}");
    in_place(&array)?;
    of_another(armci, &array)?;
    array.sync()?;
    let mut count = [0_u64];
    armci.comm().allreduce(&[1], &mut count, Op::Sum)?;
    assert_eq!(count[0] as usize, armci.size());
    assert_eq!(array.sum()?, 0.0);
    Ok(())
}

/// A product whose result overlaps an operand is refused before anybody has written; one that does not is none the worse.
fn in_place(array: &GlobalArray<f64, 2>) -> Result<()> {
    array.fill_with(|[i, j]| (10 * i + j) as f64)?;
    let before = array.read(array.whole())?;
    let (upper, all) = (array.operand_of([0..4, 0..4])?, array.operand());
    for tasks in [Tasks::Own, Tasks::Shared] {
        let tiling = Tiling { extent: 3, tasks };
        let refused = array.multiply(array.whole(), 1.0, &all, &all, 0.0, tiling).unwrap_err();
        assert!(matches!(refused, GaError::Overlap { .. }), "{refused}");
        let refused = array.multiply([3..7, 3..7], 1.0, &upper, &upper, 0.0, tiling).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the result goes to [3..7, 3..7] of the array whose [0..4, 0..4] is an operand"
        );
        assert_eq!(array.read(array.whole())?, before);
        array.sync()?;
        array.multiply([4..8, 4..8], 1.0, &upper, &upper, 0.0, tiling)?;
        let product = |i: usize, j: usize| (0..4).map(|k| before[8 * i + k] * before[8 * k + j]).sum::<f64>();
        let expected: Vec<f64> = (0..16).map(|at| product(at / 4, at % 4)).collect();
        assert_eq!(array.read([4..8, 4..8])?, expected);
        array.sync()?;
        array.fill_with(|[i, j]| (10 * i + j) as f64)?;
    }
    array.zero()
}

/// A scope waits for operations of its own `Armci`: those of another are refused, and nothing has begun.
fn of_another(armci: &Armci, array: &GlobalArray<f64, 2>) -> Result<()> {
    let other = Armci::new(armci.comm())?;
    let (ones, mut seen) = ([1.0; 64], [5.0; 64]);
    overlap(&other, |scope| {
        let refused = [
            array.begin_put(scope, array.whole(), &ones),
            array.begin_accumulate(scope, array.whole(), &ones, 2.0),
            array.begin_get(scope, array.whole(), &mut seen),
        ];
        for refused in refused {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("the memory was allocated by another Armci than the scope's"), "{text}");
        }
        Ok(())
    })?;
    assert_eq!((array.sum()?, seen), (0.0, [5.0; 64]));
    array.sync()
}
