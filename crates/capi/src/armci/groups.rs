//! Groups, domains, and who shares memory.
use super::life::word;
use super::*;
use mpi::ErrorClass;

/// Groups are numbers; that of all processes is 0. One that was freed is -1.
const NOBODY: c_int = -1;

pub(super) fn group_of(group: Ptr<c_int>) -> Result<GroupId> {
    let number = group.get()?;
    let known = u32::try_from(number).map(GroupId);
    known.map_err(|_| MpiError::new(ErrorClass::Group, format!("{number} is not a group of this process")))
}

fn make<A: Abi>(
    name: &'static str,
    count: c_int,
    ranks: Ptr<c_int>,
    out: Ptr<c_int>,
    parent: Option<Ptr<c_int>>,
) {
    with::<A, _>(name, |session, driver| {
        let parent = parent.map_or(Ok(session.default), group_of)?;
        let count = usize::try_from(count)
            .map_err(|_| MpiError::new(ErrorClass::Count, format!("a group of {count} processes")))?;
        out.check()?;
        let made = session.core.group_create(driver, parent, &ranks.list(count)?)?;
        out.set(made.0 as c_int)
    })
}

pub(super) extern "C" fn group_create<A: Abi>(count: c_int, ranks: Ptr<c_int>, out: Ptr<c_int>) {
    make::<A>("ARMCI_Group_create", count, ranks, out, None)
}

pub(super) extern "C" fn group_create_child<A: Abi>(
    count: c_int,
    ranks: Ptr<c_int>,
    out: Ptr<c_int>,
    parent: Ptr<c_int>,
) {
    make::<A>("ARMCI_Group_create_child", count, ranks, out, Some(parent))
}

pub(super) extern "C" fn group_free<A: Abi>(group: Ptr<c_int>) {
    with::<A, _>("ARMCI_Group_free", |session, driver| {
        let id = group_of(group)?;
        session.core.group_free(driver, id)?;
        if session.default == id {
            session.default = GroupId::WORLD;
        }
        group.set(NOBODY)
    })
}

/// 0 if this process is in it.
pub(super) extern "C" fn group_rank<A: Abi>(group: Ptr<c_int>, rank: Ptr<c_int>) -> c_int {
    with::<A, _>("ARMCI_Group_rank", |session, _| {
        let own = session.core.group(group_of(group)?)?.rank_of(session.core.rank());
        rank.set(own.map_or(-1, |own| own as c_int))?;
        Ok(if own.is_some() { 0 } else { -1 })
    })
}

pub(super) extern "C" fn group_size<A: Abi>(group: Ptr<c_int>, size: Ptr<c_int>) {
    with::<A, _>("ARMCI_Group_size", |session, _| {
        let group = group_of(group)?;
        size.set(session.core.group(group)?.size() as c_int)
    })
}

pub(super) extern "C" fn group_set_default<A: Abi>(group: Ptr<c_int>) {
    with::<A, _>("ARMCI_Group_set_default", |session, _| {
        let group = group_of(group)?;
        session.core.group(group)?;
        session.default = group;
        Ok(())
    })
}

pub(super) extern "C" fn group_get_default<A: Abi>(out: Ptr<c_int>) {
    with::<A, _>("ARMCI_Group_get_default", |session, _| out.set(session.default.0 as c_int))
}

pub(super) extern "C" fn group_get_world<A: Abi>(out: Ptr<c_int>) {
    with::<A, _>("ARMCI_Group_get_world", |_, _| out.set(GroupId::WORLD.0 as c_int))
}

pub(super) extern "C" fn absolute_id<A: Abi>(group: Ptr<c_int>, rank: c_int) -> c_int {
    with::<A, _>("ARMCI_Absolute_id", |session, _| {
        let group = session.core.group(group_of(group)?)?;
        group.absolute(process(rank)).map(|rank| rank as c_int).ok_or_else(|| {
            MpiError::new(ErrorClass::Rank, format!("rank {rank} in a group of {} processes", group.size()))
        })
    })
}

pub(super) extern "C" fn group_comm<A: Abi>(group: Ptr<c_int>) -> usize {
    with::<A, _>("armci_group_comm", |session, _| {
        let comm = session.core.group(group_of(group)?)?.comm()?;
        Ok(word::<A>(crate::handles::of_comm::<A>(comm)))
    })
}

/// Processes of one domain store to each other's memory.
pub(super) extern "C" fn uses_shm<A: Abi>() -> c_int {
    with::<A, _>("ARMCI_Uses_shm", |session, _| Ok((session.domains.count() < session.core.size()).into()))
}

pub(super) extern "C" fn uses_shm_grp<A: Abi>(_group: Ptr<c_int>) -> c_int {
    uses_shm::<A>()
}

pub(super) extern "C" fn same_node<A: Abi>(rank: c_int) -> c_int {
    with::<A, _>("ARMCI_Same_node", |session, _| is_same(session, rank))
}

/// Nothing limits it but memory.
pub(super) extern "C" fn set_shm_limit<A: Abi>(_bytes: c_ulong) {}

fn is_same(session: &Session, rank: c_int) -> Result<c_int> {
    Ok((domain_of(session, rank)? == domain_of(session, session.core.rank() as c_int)?).into())
}

fn domain_of(session: &Session, rank: c_int) -> Result<u32> {
    session.domains.of(process(rank)).ok_or_else(|| {
        let text = format!("rank {rank} is not one of {} processes", session.core.size());
        MpiError::new(ErrorClass::Rank, text)
    })
}

/// A domain's number; a negative one stands for the caller's own.
fn named(session: &Session, domain: c_int) -> Result<u32> {
    match u32::try_from(domain) {
        Err(_) => domain_of(session, session.core.rank() as c_int),
        Ok(domain) if domain < session.domains.count() => Ok(domain),
        Ok(_) => {
            let text = format!("domain {domain} is not one of {}", session.domains.count());
            Err(MpiError::new(ErrorClass::Arg, text))
        }
    }
}

pub(super) extern "C" fn domain_nprocs<A: Abi>(_domain: c_int, id: c_int) -> c_int {
    with::<A, _>("armci_domain_nprocs", |session, _| {
        Ok(session.domains.members(named(session, id)?).count() as c_int)
    })
}

pub(super) extern "C" fn domain_id<A: Abi>(_domain: c_int, rank: c_int) -> c_int {
    with::<A, _>("armci_domain_id", |session, _| Ok(domain_of(session, rank)? as c_int))
}

pub(super) extern "C" fn domain_glob_proc_id<A: Abi>(_domain: c_int, id: c_int, local: c_int) -> c_int {
    with::<A, _>("armci_domain_glob_proc_id", |session, _| {
        let member = session.domains.members(named(session, id)?).nth(process(local) as usize);
        member
            .map(|rank| rank as c_int)
            .ok_or_else(|| MpiError::new(ErrorClass::Rank, format!("domain {id} has no process {local}")))
    })
}

pub(super) extern "C" fn domain_my_id<A: Abi>(_domain: c_int) -> c_int {
    with::<A, _>("armci_domain_my_id", |session, _| {
        Ok(domain_of(session, session.core.rank() as c_int)? as c_int)
    })
}

pub(super) extern "C" fn domain_count<A: Abi>(_domain: c_int) -> c_int {
    with::<A, _>("armci_domain_count", |session, _| Ok(session.domains.count() as c_int))
}

pub(super) extern "C" fn domain_same_id<A: Abi>(_domain: c_int, rank: c_int) -> c_int {
    with::<A, _>("armci_domain_same_id", |session, _| is_same(session, rank))
}
