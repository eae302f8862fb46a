//! Under loom: futex, processes, and how models are run.
use super::{AtomicU32, Bug};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A process that does not exist any more.
pub(crate) const DEAD: u32 = 999;

/// How often threads may be interrupted where they would not wait, if there are three of them. Two have no such bound.
/// `LOOM_MAX_PREEMPTIONS` changes it.
const PREEMPTIONS: usize = 3;
const BRANCHES_MAX: usize = 20_000;

/// Who runs by itself first, and whom loom puts in between, makes a difference to what it tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Left,
    Right,
}

thread_local! {
    // Loom runs the threads of a model as coroutines of one thread: all of them see it, other tests do not.
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    static FIRST: Cell<First> = const { Cell::new(First::Left) };
}

loom::lazy_static! {
    // One queue for all words: a wait may end early for no reason.
    static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

/// As the kernel does it: look and sleep under the lock that who wakes takes too. There is no time-out, so that who is
/// never woken is a deadlock.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, _timeout: Duration) {
    let guard = SLEEPERS.0.lock().unwrap();
    if word.load(Ordering::Relaxed) == value {
        drop(SLEEPERS.1.wait(guard).unwrap());
    }
}

pub(crate) fn futex_wake_all(_word: &AtomicU32) {
    let _guard = SLEEPERS.0.lock().unwrap();
    SLEEPERS.1.notify_all();
}

/// Loom cannot make other threads pass a barrier at any point of theirs. What the kernel promises is that it is as good as
/// a fence there, so models use `Barrier::Both`.
pub(crate) fn membarrier() {
    panic!("asymmetric barriers are not modelled");
}

pub(crate) fn process_exists(pid: u32) -> bool {
    pid != DEAD
}

pub(crate) fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Runs `left` beside `right`.
pub(crate) fn beside<L: 'static, R: 'static>(
    left: impl FnOnce() -> L + 'static,
    right: impl FnOnce() -> R + 'static,
) -> (L, R) {
    match FIRST.get() {
        First::Left => {
            let right = thread::spawn(right);
            (left(), right.join().unwrap())
        }
        First::Right => {
            let left = thread::spawn(left);
            let right = right();
            (left.join().unwrap(), right)
        }
    }
}

/// Runs a model of two threads in every order.
pub(crate) fn explore(model: impl Fn() + Sync + Send + Copy + 'static) {
    for first in [First::Left, First::Right] {
        FIRST.set(first);
        check(model, None);
    }
}

/// Runs a model of three threads in every order within the bound.
pub(crate) fn explore_three(model: impl Fn() + Sync + Send + 'static) {
    check(model, Some(PREEMPTIONS));
}

fn check(model: impl Fn() + Sync + Send + 'static, preemptions: Option<usize>) {
    let orders: &'static AtomicUsize = Box::leak(Box::default());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.map(|bound| builder.preemption_bound.unwrap_or(bound));
    builder.max_branches = BRANCHES_MAX;
    builder.check(move || {
        orders.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let orders = orders.load(Ordering::Relaxed);
    println!("{orders} orders");
    assert!(orders > 1, "nothing to explore");
}

/// Plants `bug` and asserts that some order fails with a message that contains `symptom`.
pub(crate) fn finds(bug: Bug, symptom: &str, model: impl Fn() + Sync + Send + Copy + 'static) {
    finds_by(bug, symptom, || explore(model));
}

/// The same for a model of three threads.
pub(crate) fn finds_three(bug: Bug, symptom: &str, model: impl Fn() + Sync + Send + 'static) {
    finds_by(bug, symptom, || explore_three(model));
}

fn finds_by(bug: Bug, symptom: &str, explore: impl FnOnce()) {
    PLANTED.set(Some(bug));
    let failed = catch_unwind(AssertUnwindSafe(explore));
    PLANTED.set(None);
    let panic = failed.expect_err("the planted bug was not found");
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default();
    assert!(text.contains(symptom), "found, but by another symptom: {text}");
}
