//! Fences and barriers, mutexes, notices.
use super::*;
use mpi::ErrorClass;

fn known(session: &Session, rank: c_int) -> Result<u32> {
    let size = session.core.size();
    let known = Some(process(rank)).filter(|rank| *rank < size);
    known
        .ok_or_else(|| MpiError::new(ErrorClass::Rank, format!("rank {rank} is not one of {size} processes")))
}

pub(super) extern "C" fn barrier<A: Abi>() {
    let begin = |session: &mut Session, driver: &mut OfCall<'_, A>| {
        session.core.wait_all(driver)?;
        session.core.barrier_begin(driver)
    };
    waiting::<A, _>("ARMCI_Barrier", begin, |_, _| Ok(()))
}

pub(super) extern "C" fn fence<A: Abi>(rank: c_int) {
    with::<A, _>("ARMCI_Fence", |session, driver| {
        let rank = known(session, rank)?;
        session.core.fence(driver, rank)
    })
}

pub(super) extern "C" fn all_fence<A: Abi>() {
    with::<A, _>("ARMCI_AllFence", |session, driver| session.core.all_fence(driver))
}

pub(super) extern "C" fn group_fence<A: Abi>(group: Ptr<c_int>) {
    with::<A, _>("ARMCI_GroupFence", |session, driver| {
        session.core.group(group_of(group)?)?;
        session.core.all_fence(driver)
    })
}

pub(super) extern "C" fn create_mutexes<A: Abi>(count: c_int) -> c_int {
    with::<A, _>("ARMCI_Create_mutexes", |session, driver| {
        let count = u64::try_from(count)
            .map_err(|_| MpiError::new(ErrorClass::Count, format!("{count} mutexes are created")))?;
        session.core.mutexes_create(driver, count)
    });
    0
}

pub(super) extern "C" fn destroy_mutexes<A: Abi>() -> c_int {
    with::<A, _>("ARMCI_Destroy_mutexes", |session, driver| session.core.mutexes_destroy(driver));
    0
}

pub(super) extern "C" fn lock<A: Abi>(mutex: c_int, rank: c_int) {
    let name = "ARMCI_Lock";
    let turn: Turn = with::<A, _>(name, |session, driver| {
        session.core.lock_begin(driver, u64::try_from(mutex).unwrap_or(u64::MAX), process(rank))
    });
    // Other threads may call while it waits, as in `waiting`.
    while !with::<A, _>(name, |session, driver| session.core.has_turn(driver, &turn)) {
        let mut call = Call::<A>::enter(name);
        if let Err(error) = turn.rest(&mut OfCall(&mut call)) {
            end(&mut call, name, &error)
        }
    }
}

pub(super) extern "C" fn unlock<A: Abi>(mutex: c_int, rank: c_int) {
    with::<A, _>("ARMCI_Unlock", |session, driver| {
        session.core.wait_all(driver)?;
        session.core.unlock(driver, u64::try_from(mutex).unwrap_or(u64::MAX), process(rank))
    })
}

/// The number of this notice among those to that process.
pub(super) extern "C" fn notify<A: Abi>(rank: c_int) -> c_int {
    with::<A, _>("armci_notify", |session, driver| {
        let rank = known(session, rank)?;
        session.core.notify(driver, rank)?;
        let told = session.told.entry(rank).or_default();
        *told += 1;
        Ok(*told)
    })
}

/// The number of the notice that has come, which `value` gets, too.
pub(super) extern "C" fn notify_wait<A: Abi>(rank: c_int, value: Ptr<c_int>) -> c_int {
    let begin = |session: &mut Session, driver: &mut OfCall<'_, A>| {
        let rank = known(session, rank)?;
        session.core.notify_expect(driver, rank)
    };
    waiting::<A, _>("armci_notify_wait", begin, |session, _| {
        let heard = session.heard.entry(process(rank)).or_default();
        *heard += 1;
        if !value.is_null() {
            value.set(*heard)?;
        }
        Ok(*heard)
    })
}
