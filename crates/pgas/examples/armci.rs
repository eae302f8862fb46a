//! Every operation of the safe API, values checked. For any number of processes, on any number of nodes.
use mpi::Result;
use pgas::{Armci, Patch};

fn main() -> Result<()> {
    let armci = Armci::new(&mpi::init()?.world())?;
    in_a_row(&armci)?;
    of_various_lengths(&armci)?;
    strided(&armci)?;
    accumulated(&armci)?;
    in_order(&armci)?;
    rows_in_order(&armci)?;
    polled(&armci)?;
    of_another(&armci)?;
    one_by_one(&armci)?;
    if armci.rank() == 0 {
        println!("armci: passed with {} processes", armci.size());
    }
    Ok(())
}

/// A value that says who has written it, and where.
fn value(rank: usize, at: usize) -> f64 {
    (rank * 1000 + at) as f64
}

fn in_a_row(armci: &Armci) -> Result<()> {
    const LEN: usize = 5000;
    let memory = armci.malloc::<f64>(LEN)?;
    let (me, right) = (armci.rank(), (armci.rank() + 1) % armci.size());
    let mut all = vec![1.0; LEN];
    memory.get(&mut all, right, 0)?;
    assert_eq!(all, vec![0.0; LEN], "memory is zero at first");
    armci.barrier()?;
    for len in [1, 7, 100, LEN - 3] {
        let data: Vec<f64> = (0..len).map(|at| value(me, at)).collect();
        memory.put(&data, right, 3)?;
        armci.fence(right)?;
        let mut back = vec![0.0; len];
        memory.get(&mut back, right, 3)?;
        assert_eq!(back, data);
    }
    armci.barrier()?;
    let left = (me + armci.size() - 1) % armci.size();
    memory.get(&mut all, me, 0)?;
    let expected: Vec<f64> = (0..LEN).map(|at| if at < 3 { 0.0 } else { value(left, at - 3) }).collect();
    assert_eq!(all, expected, "what the left one has put");
    armci.barrier()
}

fn of_various_lengths(armci: &Armci) -> Result<()> {
    let memory = armci.malloc::<i32>(armci.rank() * 10)?;
    for rank in 0..armci.size() {
        assert_eq!(memory.len_of(rank)?, rank * 10);
        memory.put(&[], rank, 0)?;
    }
    armci.barrier()
}

fn strided(armci: &Armci) -> Result<()> {
    const SIDE: usize = 40;
    let memory = armci.malloc::<f64>(SIDE * SIDE)?;
    let (me, right) = (armci.rank(), (armci.rank() + 1) % armci.size());
    let data: Vec<f64> = (0..SIDE * SIDE).map(|at| value(me, at)).collect();
    let (rows, columns) = (9, 13);
    let from = Patch { at: 2 * SIDE + 5, strides: &[SIDE] };
    let to = Patch { at: 7 * SIDE + 11, strides: &[SIDE] };
    memory.put_strided(&data, from, right, to, &[columns, rows])?;
    let mut back = vec![-1.0; rows * columns];
    let dense = Patch { at: 0, strides: &[columns] };
    memory.get_strided(&mut back, dense, right, to, &[columns, rows])?;
    for (at, got) in back.iter().enumerate() {
        assert_eq!(*got, value(me, (2 + at / columns) * SIDE + 5 + at % columns));
    }
    memory.acc_strided(2.0, &data, from, right, to, &[columns, rows])?;
    memory.get_strided(&mut back, dense, right, to, &[columns, rows])?;
    for (at, got) in back.iter().enumerate() {
        assert_eq!(*got, 3.0 * value(me, (2 + at / columns) * SIDE + 5 + at % columns));
    }
    // Three levels: a cube inside a cube.
    armci.barrier()?;
    let cube = Patch { at: 0, strides: &[10, 100] };
    let packed = Patch { at: 0, strides: &[3, 6] };
    memory.put_strided(&data, packed, right, cube, &[3, 2, 4])?;
    let mut back = vec![0.0; 24];
    memory.get_strided(&mut back, packed, right, cube, &[3, 2, 4])?;
    assert_eq!(back, data[..24]);
    let outside = memory.put_strided(&data[..10], from, right, to, &[columns, rows]);
    assert!(outside.is_err(), "a patch that is not in the slice");
    armci.barrier()?;
    // An error that was looked for is no reason to end the job.
    memory.get(&mut back, me, 0)
}

fn accumulated(armci: &Armci) -> Result<()> {
    let memory = armci.malloc::<f64>(100)?;
    let whole = armci.malloc::<i64>(100)?;
    let (me, size) = (armci.rank(), armci.size());
    for _ in 0..50 {
        for rank in 0..size {
            memory.acc(0.5, &[(me + 1) as f64; 60], rank, 20)?;
            whole.acc(-3, &[me as i64 + 1; 60], rank, 20)?;
        }
    }
    armci.barrier()?;
    let sum = size * (size + 1) / 2;
    let (mut numbers, mut integers) = ([0.0; 100], [0; 100]);
    memory.get(&mut numbers, me, 0)?;
    whole.get(&mut integers, me, 0)?;
    for at in 0..100 {
        let inside = usize::from((20..80).contains(&at));
        assert_eq!(numbers[at], 25.0 * (inside * sum) as f64);
        assert_eq!(integers[at], -150 * (inside * sum) as i64);
    }
    armci.barrier()
}

/// Short and long ones in turn, with no fence: each sees those before it.
fn in_order(armci: &Armci) -> Result<()> {
    const LEN: usize = 8192;
    let memory = armci.malloc::<i64>(LEN * armci.size())?;
    let me = armci.rank();
    for round in 0..20 {
        let target = (me + round) % armci.size();
        let (short, long) = ([round as i64 + 1; 3], vec![-(round as i64) - 1; LEN]);
        let mut all = vec![0; LEN];
        memory.put(&short, target, me * LEN + 50)?;
        memory.put(&long, target, me * LEN)?;
        memory.put(&short, target, me * LEN + 100)?;
        memory.acc(1, &short, target, me * LEN + 100)?;
        memory.get(&mut all, target, me * LEN)?;
        let expected = |at: usize| if (100..103).contains(&at) { 2 * short[0] } else { long[0] };
        assert!(all.iter().enumerate().all(|(at, got)| *got == expected(at)), "round {round}");
    }
    armci.barrier()
}

/// Rows and elements without gaps between them are as one row, and keep their place all the same.
fn rows_in_order(armci: &Armci) -> Result<()> {
    const ROW: usize = 64;
    const LEN: usize = 64 * ROW;
    let memory = armci.malloc::<i64>(LEN * armci.size())?;
    let me = armci.rank();
    let places: Vec<usize> = (me * LEN..(me + 1) * LEN).collect();
    let (here, there) = (Patch { at: 0, strides: &[ROW] }, Patch { at: me * LEN, strides: &[ROW] });
    let counts = [ROW, LEN / ROW];
    for round in 0..40 {
        let (target, each) = ((me + round) % armci.size(), round % 4 >= 2);
        let (short, long) = ([round as i64 + 1; 3], vec![-(round as i64) - 1; LEN]);
        let mut all = vec![0; LEN];
        memory.put(&short, target, me * LEN + 50)?;
        match each {
            true => memory.put_each(&long, target, &places)?,
            false => memory.put_strided(&long, here, target, there, &counts)?,
        }
        memory.put(&short, target, me * LEN + 100)?;
        memory.acc(1, &short, target, me * LEN + 100)?;
        match each {
            true => memory.get_each(&mut all, target, &places)?,
            false => memory.get_strided(&mut all, here, target, there, &counts)?,
        }
        let expected = |at: usize| if (100..103).contains(&at) { 2 * short[0] } else { long[0] };
        let wrong = all.iter().enumerate().find(|(at, got)| **got != expected(*at));
        assert_eq!(wrong, None, "round {round}");
    }
    armci.barrier()
}

/// A process that looks at its own memory only is reached all the same.
fn polled(armci: &Armci) -> Result<()> {
    let memory = armci.malloc::<i64>(2)?;
    let (me, size) = (armci.rank(), armci.size());
    let mut seen = [0];
    if me > 0 {
        while seen[0] == 0 {
            memory.get(&mut seen, me, 0)?;
        }
        while memory.fetch_add(me, 1, 0)? == 0 {}
    }
    memory.put(&[1], (me + 1) % size, 0)?;
    memory.fetch_add((me + 1) % size, 1, 1)?;
    armci.barrier()
}

/// A scope takes memory of its own `Armci` only.
fn of_another(armci: &Armci) -> Result<()> {
    let other = Armci::new(armci.comm())?;
    let (memory, mine) = (other.malloc::<i32>(4)?, armci.malloc::<i32>(4)?);
    let right = (armci.rank() + 1) % armci.size();
    let (data, mut back) = ([7; 4], [0; 4]);
    armci.scope(|scope| {
        let refused = scope.put(&memory, &data, right, 0).unwrap_err().to_string();
        assert!(refused.contains("the memory was allocated by another Armci than the scope's"), "{refused}");
        assert!(scope.get(&memory, &mut back, right, 0).is_err());
        assert!(scope.acc(&memory, 1, &data, right, 0).is_err());
        scope.put(&mine, &data, right, 0)
    })?;
    armci.barrier()?;
    memory.get(&mut back, right, 0)?;
    assert_eq!(back, [0; 4]);
    mine.get(&mut back, right, 0)?;
    assert_eq!(back, [7; 4]);
    other.barrier()?;
    armci.barrier()
}

fn one_by_one(armci: &Armci) -> Result<()> {
    let counters = armci.malloc::<i64>(2)?;
    let words = armci.malloc::<i32>(1)?;
    let size = armci.size();
    let mut tickets = 0;
    for _ in 0..100 {
        let ticket = counters.fetch_add(0, 1, 1)?;
        assert!(ticket >= tickets && ticket < 100 * size as i64);
        tickets = ticket;
        words.fetch_add(size - 1, 0, 2)?;
    }
    armci.barrier()?;
    assert_eq!(counters.fetch_add(0, 1, 0)?, 100 * size as i64);
    assert_eq!(words.fetch_add(size - 1, 0, 0)?, 200 * size as i32);
    armci.barrier()?;
    assert_eq!(counters.swap(armci.rank(), 0, 7)?, 0);
    assert_eq!(counters.swap(armci.rank(), 0, 8)?, 7);
    armci.barrier()
}
