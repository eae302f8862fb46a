//! The board under loom, which tries every order in which a reader may see the owner's stores:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p banyan-sys --lib --release board::model
//! ```
use super::look::{Attempt, attempt};
use super::table::{Kept, Table};
use super::{Load, Store};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Bytes of the smallest segments that the tests below need: header, table, and few entries.
const SMALL_BYTES: u64 = 512;
const BYTES: u64 = 1024;

/// Words of loom's.
#[derive(Clone, Debug)]
struct Words(Arc<Vec<AtomicU64>>);

impl Words {
    fn new(bytes: u64) -> Self {
        Words(Arc::new((0..bytes / 8).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl Load for Words {
    fn load(&self, at: u64) -> Option<u64> {
        self.0.get(at as usize).map(|word| word.load(Ordering::Relaxed))
    }
}

impl Store for Words {
    fn store(&self, at: u64, word: u64, order: Ordering) {
        self.0[at as usize].store(word, order);
    }
}

fn value(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(2)
}

#[derive(Clone, Copy, Debug)]
enum First {
    Writer,
    Reader,
}

/// Runs `write` beside one lookup of `key`, in every order, and returns all that the lookup may find.
fn explore(
    bytes: u64,
    write: impl Fn(&mut Table<Words>) + Send + Sync + Copy + 'static,
    key: &'static [u8],
) -> BTreeSet<Found> {
    let seen: &'static Mutex<BTreeSet<Found>> = Box::leak(Box::default());
    // Who runs first by itself, and whom loom puts in between, makes a difference to what it tries.
    for first in [First::Writer, First::Reader] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.max_branches = 10_000;
        model.check(move || {
            let words = Words::new(bytes);
            let mut table = Table::new(words.clone(), bytes, 0);
            assert_eq!(table.keep(b"a", &value(1)), Kept::Yes);
            let read = move || seen.lock().unwrap().insert(found(attempt(&words, key)));
            match first {
                First::Reader => {
                    let writer = thread::spawn(move || write(&mut table));
                    read();
                    writer.join().unwrap();
                }
                First::Writer => {
                    let reader = thread::spawn(read);
                    write(&mut table);
                    reader.join().unwrap();
                }
            }
        });
    }
    seen.lock().unwrap().clone()
}

/// What a lookup came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Whole(u64),
    Torn,
    NotHere,
    Changed,
    Beyond,
}

fn found(attempt: Attempt) -> Found {
    match attempt {
        Attempt::Value(bytes) => {
            (1..=3).find(|version| bytes == value(*version)).map_or(Found::Torn, Found::Whole)
        }
        Attempt::NotHere => Found::NotHere,
        Attempt::Changed => Found::Changed,
        Attempt::Beyond => Found::Beyond,
    }
}

#[test]
fn a_value_that_is_replaced_is_read_whole_and_never_missed() {
    let write = |table: &mut Table<Words>| {
        // The second takes the room of what the first replaced.
        assert_eq!(table.keep(b"a", &value(2)), Kept::Yes);
        assert_eq!(table.keep(b"a", &value(3)), Kept::Yes);
    };
    let expected = [Found::Whole(1), Found::Whole(2), Found::Whole(3), Found::Changed];
    assert_eq!(explore(SMALL_BYTES, write, b"a"), expected.into());
}

#[test]
fn room_that_another_key_takes_is_not_read_as_the_one_before() {
    let write = |table: &mut Table<Words>| {
        assert!(table.drop_key(b"a"));
        assert_eq!(table.keep(b"b", &value(2)), Kept::Yes);
    };
    let expected = |version| [Found::Whole(version), Found::NotHere, Found::Changed].into();
    assert_eq!(explore(SMALL_BYTES, write, b"a"), expected(1));
    assert!(explore(SMALL_BYTES, write, b"b").is_subset(&expected(2)));
}

#[test]
fn a_key_is_found_while_the_table_grows_and_its_old_room_is_taken() {
    let write = |table: &mut Table<Words>| {
        for key in [b"b", b"c", b"d", b"e", b"f"] {
            assert_eq!(table.keep(key, &value(2)), Kept::Yes);
        }
    };
    assert_eq!(explore(BYTES, write, b"a"), [Found::Whole(1), Found::Changed].into());
}
