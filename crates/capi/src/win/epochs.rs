//! Synchronization of windows: fences, the epochs of exposure and access, locks and flushes.
use super::settle;
use crate::abi::Abi;
use crate::args::Ptr;
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run};
use crate::handles;
use crate::p2p::peer;
use crate::short;
use mpi::ErrorClass;
use mpi::core::{Assert, Focus, Peer, WinId};
use std::ffi::c_int;

/// What the program asserts; which of it there is differs between the calls (MPI-5 12.5.5).
#[inline]
fn asserted<A: Abi>(assert: c_int, known: i64) -> Outcome<Assert> {
    let bits = i64::from(assert);
    if bits & !known != 0 {
        return fail(ErrorClass::Assert, format!("assert {assert} has bits that this call does not know"));
    }
    let has = |bit: i64| bits & bit != 0;
    Ok(Assert {
        no_check: has(A::C.mode_nocheck),
        no_store: has(A::C.mode_nostore),
        no_put: has(A::C.mode_noput),
        no_precede: has(A::C.mode_noprecede),
        no_succeed: has(A::C.mode_nosucceed),
    })
}

/// Does this lock keep all others out?
#[inline]
fn is_exclusive<A: Abi>(lock_type: c_int) -> Outcome<bool> {
    match i64::from(lock_type) {
        t if t == A::C.lock_shared => Ok(false),
        t if t == A::C.lock_exclusive => Ok(true),
        other => fail(ErrorClass::Locktype, format!("{other} is not a lock type")),
    }
}

/// The null process may be a target, and so be locked and flushed as others are; it has no memory, so that nobody waits.
#[cold]
fn at_nobody<A: Abi>(call: &Call<A>, win: WinId) -> Outcome<()> {
    call.win_flavor(win)?;
    Ok(())
}

/// `MPI_Win_fence`
#[inline(always)]
pub fn win_fence<A: Abi>(assert: c_int, win: A::Handle) -> c_int {
    run::<A>("MPI_Win_fence", On::Win(win), |call| {
        let known = A::C.mode_nostore | A::C.mode_noput | A::C.mode_noprecede | A::C.mode_nosucceed;
        let (win, assert) = (handles::win::<A>(win)?, asserted::<A>(assert, known)?);
        let begun = call.win_fence(win, assert)?;
        settle(call, begun)
    })
}

/// `MPI_Win_post`
#[inline(always)]
pub fn win_post<A: Abi>(group: A::Handle, assert: c_int, win: A::Handle) -> c_int {
    run::<A>("MPI_Win_post", On::Win(win), |call| {
        let known = A::C.mode_nocheck | A::C.mode_nostore | A::C.mode_noput;
        let (win, assert) = (handles::win::<A>(win)?, asserted::<A>(assert, known)?);
        Ok(call.win_post(win, handles::group::<A>(group)?, assert)?)
    })
}

/// `MPI_Win_start`
#[inline(always)]
pub fn win_start<A: Abi>(group: A::Handle, assert: c_int, win: A::Handle) -> c_int {
    run::<A>("MPI_Win_start", On::Win(win), |call| {
        let (win, assert) = (handles::win::<A>(win)?, asserted::<A>(assert, A::C.mode_nocheck)?);
        let begun = call.win_start(win, handles::group::<A>(group)?, assert)?;
        settle(call, begun)
    })
}

macro_rules! ends {
    ($($name:ident $mpi:literal),* $(,)?) => {$(
        #[doc = concat!("`", $mpi, "`")]
        #[inline(always)]
        pub fn $name<A: Abi>(win: A::Handle) -> c_int {
            run::<A>($mpi, On::Win(win), |call| {
                let begun = call.$name(handles::win::<A>(win)?)?;
                settle(call, begun)
            })
        }
    )*};
}

ends! {
    win_complete "MPI_Win_complete",
    win_wait "MPI_Win_wait",
    win_unlock_all "MPI_Win_unlock_all",
}

/// `MPI_Win_test`
pub fn win_test<A: Abi>(win: A::Handle, flag: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Win_test", On::Win(win), |call| {
        flag.check()?;
        let win = handles::win::<A>(win)?;
        let mut over = call.win_test(win)?;
        if !over {
            call.advance();
            over = call.win_test(win)?;
        }
        flag.set(over.into())?;
        if !over {
            call.in_vain(Focus::Anything);
        }
        Ok(())
    })
}

/// `MPI_Win_lock`
#[inline(always)]
pub fn win_lock<A: Abi>(lock_type: c_int, rank: c_int, assert: c_int, win: A::Handle) -> c_int {
    if short::lock::<A>(lock_type, rank, assert, win) {
        return 0;
    }
    run::<A>("MPI_Win_lock", On::Win(win), |call| {
        let (win, exclusive) = (handles::win::<A>(win)?, is_exclusive::<A>(lock_type)?);
        let assert = asserted::<A>(assert, A::C.mode_nocheck)?;
        if peer::<A>(rank) == Peer::Null {
            return at_nobody(call, win);
        }
        let begun = call.win_lock(win, rank, exclusive, assert)?;
        settle(call, begun)
    })
}

/// `MPI_Win_lock_all`
#[inline(always)]
pub fn win_lock_all<A: Abi>(assert: c_int, win: A::Handle) -> c_int {
    run::<A>("MPI_Win_lock_all", On::Win(win), |call| {
        let (win, assert) = (handles::win::<A>(win)?, asserted::<A>(assert, A::C.mode_nocheck)?);
        let begun = call.win_lock_all(win, assert)?;
        settle(call, begun)
    })
}

/// `MPI_Win_unlock`
#[inline(always)]
pub fn win_unlock<A: Abi>(rank: c_int, win: A::Handle) -> c_int {
    if short::unlock::<A>(rank, win) {
        return 0;
    }
    run::<A>("MPI_Win_unlock", On::Win(win), |call| {
        let win = handles::win::<A>(win)?;
        if peer::<A>(rank) == Peer::Null {
            return at_nobody(call, win);
        }
        let begun = call.win_unlock(win, rank)?;
        settle(call, begun)
    })
}

macro_rules! flushes {
    ($($one:ident $all:ident $n1:literal $n2:literal),* $(,)?) => {$(
        #[doc = concat!("`", $n1, "`")]
        #[inline(always)]
        pub fn $one<A: Abi>(rank: c_int, win: A::Handle) -> c_int {
            if short::flush::<A>(rank, win) {
                return 0;
            }
            run::<A>($n1, On::Win(win), |call| {
                let win = handles::win::<A>(win)?;
                if peer::<A>(rank) == Peer::Null {
                    return at_nobody(call, win);
                }
                let begun = call.win_flush(win, Some(rank))?;
                settle(call, begun)
            })
        }

        #[doc = concat!("`", $n2, "`")]
        #[inline(always)]
        pub fn $all<A: Abi>(win: A::Handle) -> c_int {
            run::<A>($n2, On::Win(win), |call| {
                let begun = call.win_flush(handles::win::<A>(win)?, None)?;
                settle(call, begun)
            })
        }
    )*};
}

flushes! {
    win_flush win_flush_all "MPI_Win_flush" "MPI_Win_flush_all",
    win_flush_local win_flush_local_all "MPI_Win_flush_local" "MPI_Win_flush_local_all",
}

/// `MPI_Win_sync`
#[inline(always)]
pub fn win_sync<A: Abi>(win: A::Handle) -> c_int {
    run::<A>("MPI_Win_sync", On::Win(win), |call| Ok(call.win_sync(handles::win::<A>(win)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::Failure;
    use crate::mpich::Mpich;
    use crate::standard::Standard;

    fn class_of<T>(outcome: Outcome<T>) -> Option<ErrorClass> {
        match outcome {
            Err(Failure::Error(error)) => Some(error.class),
            _ => None,
        }
    }

    fn assertions_are_told_apart<A: Abi>() {
        let (nocheck, nostore, noput) = (A::C.mode_nocheck, A::C.mode_nostore, A::C.mode_noput);
        let none = Assert::default();
        assert_eq!(asserted::<A>(0, 0).unwrap(), none);
        let both = asserted::<A>((nostore | noput) as c_int, nocheck | nostore | noput).unwrap();
        assert_eq!(both, Assert { no_store: true, no_put: true, ..none });
        assert_eq!(asserted::<A>(nocheck as c_int, nocheck).unwrap(), Assert { no_check: true, ..none });
        for wrong in [noput, nocheck | noput, 1, i64::from(c_int::MIN), -1] {
            assert_eq!(class_of(asserted::<A>(wrong as c_int, nocheck)), Some(ErrorClass::Assert), "{wrong}");
        }
    }

    #[test]
    fn assertions_of_other_calls_are_errors() {
        assertions_are_told_apart::<Mpich>();
        assertions_are_told_apart::<Standard>();
    }

    #[test]
    fn there_are_two_types_of_locks() {
        assert!(is_exclusive::<Mpich>(234).unwrap() && is_exclusive::<Standard>(301).unwrap());
        assert!(!is_exclusive::<Mpich>(235).unwrap() && !is_exclusive::<Standard>(302).unwrap());
        assert_eq!(class_of(is_exclusive::<Mpich>(301)), Some(ErrorClass::Locktype));
        assert_eq!(class_of(is_exclusive::<Standard>(0)), Some(ErrorClass::Locktype));
    }
}
