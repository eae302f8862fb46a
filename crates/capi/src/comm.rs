//! Communicators.
use crate::abi::Abi;
use crate::args::{Ptr, Text, TextOut};
use crate::attr;
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run};
use crate::handles::{self, Flavor};
use mpi::ErrorClass;
use mpi::core::{Bridge, CommId, Comparison, InfoId, Made, Meanwhile, Object, Resource, registry};
use std::ffi::c_int;

/// `MPI_IDENT` and its family.
pub fn comparison<A: Abi>(result: Comparison) -> c_int {
    let value = match result {
        Comparison::Identical => A::C.ident,
        Comparison::Congruent => A::C.congruent,
        Comparison::Similar => A::C.similar,
        Comparison::Unequal => A::C.unequal,
    };
    value as c_int
}

/// `MPI_Comm_size`
pub fn comm_size<A: Abi>(comm: A::Handle, size: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Comm_size", On::Comm(comm), |call| {
        Ok(size.set(call.comm_size(handles::comm::<A>(comm)?)? as c_int)?)
    })
}

/// `MPI_Comm_rank`
pub fn comm_rank<A: Abi>(comm: A::Handle, rank: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Comm_rank", On::Comm(comm), |call| {
        Ok(rank.set(call.comm_rank(handles::comm::<A>(comm)?)? as c_int)?)
    })
}

/// `MPI_Comm_group`
pub fn comm_group<A: Abi>(comm: A::Handle, group: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Comm_group", On::Comm(comm), |call| {
        group.check()?;
        let id = call.comm_group(handles::comm::<A>(comm)?)?;
        Ok(group.set(handles::of_group::<A>(id))?)
    })
}

/// `MPI_Comm_compare`
pub fn comm_compare<A: Abi>(comm1: A::Handle, comm2: A::Handle, result: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Comm_compare", On::Comm(comm1), |call| {
        let how = call.comm_compare(handles::comm::<A>(comm1)?, handles::comm::<A>(comm2)?)?;
        Ok(result.set(comparison::<A>(how))?)
    })
}

/// Waits for a communicator that is being made.
pub fn make<A: Abi>(call: &mut Call<A>, made: Made) -> Outcome<Option<CommId>> {
    if let Some(request) = made.request {
        call.complete(request)?;
    }
    Ok(call.made(made))
}

/// Duplicates with attributes.
fn duplicate<A: Abi>(call: &mut Call<A>, comm: A::Handle) -> Outcome<CommId> {
    let old = handles::comm::<A>(comm)?;
    let made = call.start_dup(old, Meanwhile::Waits)?;
    let new = make(call, made)?.expect("every member is in the copy");
    match attr::copy_all(call, Object::Comm(old), Object::Comm(new)) {
        Ok(()) => Ok(new),
        Err(failure) => {
            call.comm_free(new)?;
            Err(failure)
        }
    }
}

/// `MPI_Comm_dup`
pub fn comm_dup<A: Abi>(comm: A::Handle, newcomm: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Comm_dup", On::Comm(comm), |call| {
        newcomm.set(A::handle(A::C.comm_null))?;
        let new = duplicate(call, comm)?;
        Ok(newcomm.set(handles::of_comm::<A>(new))?)
    })
}

/// `MPI_Comm_dup_with_info`
pub fn comm_dup_with_info<A: Abi>(comm: A::Handle, info: A::Handle, newcomm: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Comm_dup_with_info", On::Comm(comm), |call| {
        newcomm.set(A::handle(A::C.comm_null))?;
        let info = handles::info_or_null::<A>(info)?;
        let new = duplicate(call, comm)?;
        call.comm_set_info(new, info)?;
        Ok(newcomm.set(handles::of_comm::<A>(new))?)
    })
}

/// Begins to duplicate, with attributes.
fn begin_copy<A: Abi>(
    call: &mut Call<A>,
    comm: A::Handle,
    info: Option<Option<InfoId>>,
    newcomm: Ptr<A::Handle>,
    request: Ptr<A::Handle>,
) -> Outcome<()> {
    newcomm.set(A::handle(A::C.comm_null))?;
    let old = handles::comm::<A>(comm)?;
    crate::p2p::put_request::<A>(request, Flavor::Once, || {
        let made = call.start_dup(old, Meanwhile::GoesOn)?;
        let (Some(new), Some(id)) = (made.comm, made.request) else {
            unreachable!("every member is in the copy")
        };
        let copied = attr::copy_all(call, Object::Comm(old), Object::Comm(new));
        let mut set = || info.map_or(Ok(()), |info| call.comm_set_info(new, info));
        if let Err(failure) = copied.and_then(|()| Ok(set()?)) {
            // The others make it all the same.
            make(call, made)?;
            call.comm_free(new)?;
            return Err(failure);
        }
        newcomm.set(handles::of_comm::<A>(new))?;
        Ok(id)
    })
}

/// `MPI_Comm_idup`
pub fn comm_idup<A: Abi>(comm: A::Handle, newcomm: Ptr<A::Handle>, request: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Comm_idup", On::Comm(comm), |call| begin_copy(call, comm, None, newcomm, request))
}

/// `MPI_Comm_idup_with_info`
pub fn comm_idup_with_info<A: Abi>(
    comm: A::Handle,
    info: A::Handle,
    newcomm: Ptr<A::Handle>,
    request: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Comm_idup_with_info", On::Comm(comm), |call| {
        let info = handles::info_or_null::<A>(info)?;
        begin_copy(call, comm, Some(info), newcomm, request)
    })
}

/// `MPI_Comm_split`
pub fn comm_split<A: Abi>(comm: A::Handle, color: c_int, key: c_int, newcomm: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Comm_split", On::Comm(comm), |call| {
        newcomm.check()?;
        let color = match color {
            undefined if i64::from(undefined) == A::C.undefined => None,
            negative @ ..0 => return fail(ErrorClass::Arg, format!("color {negative} is negative")),
            color => Some(color),
        };
        let made = call.start_split(handles::comm::<A>(comm)?, color, key)?;
        let new = make(call, made)?;
        Ok(newcomm.set(handles::of_comm_or_null::<A>(new))?)
    })
}

/// The hint that names a kind of hardware.
const RESOURCE_TYPE: &str = "mpi_hw_resource_type";
/// The hint that names a process set.
const SET_NAME: &str = "mpi_pset_name";

/// `MPI_Comm_split_type`
pub fn comm_split_type<A: Abi>(
    comm: A::Handle,
    split_type: c_int,
    key: c_int,
    info: A::Handle,
    newcomm: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Comm_split_type", On::Comm(comm), |call| {
        newcomm.check()?;
        let id = handles::comm::<A>(comm)?;
        let info = handles::info_or_null::<A>(info)?;
        let new = match i64::from(split_type) {
            t if t == A::C.comm_type_shared => split_by(call, id, Some(Resource::Node), key)?,
            t if t == A::C.comm_type_resource_guided && names_set(info)? => {
                split_by_set(call, id, info, key)?
            }
            t if t == A::C.comm_type_hw_guided || t == A::C.comm_type_resource_guided => {
                let kind = named_resource(info)?;
                split_by(call, id, kind, key)?
            }
            t if t == A::C.comm_type_hw_unguided => split_further(call, id, info, key)?,
            t if t == A::C.undefined => split_by(call, id, None, key)?,
            other => return fail(ErrorClass::Arg, format!("{other} is not a split type")),
        };
        Ok(newcomm.set(handles::of_comm_or_null::<A>(new))?)
    })
}

/// The hardware that a guided split names; one that is unknown counts as none (MPI-5 7.4.2).
fn named_resource(info: Option<InfoId>) -> Outcome<Option<Resource>> {
    let Some(info) = info else { return Ok(None) };
    Ok(registry().info_get(info, RESOURCE_TYPE)?.and_then(Resource::named))
}

fn names_set(info: Option<InfoId>) -> Outcome<bool> {
    let Some(info) = info else { return Ok(false) };
    Ok(registry().info_get(info, SET_NAME)?.is_some())
}

/// One communicator for those of a process set; one that is unknown has nobody.
fn split_by_set<A: Abi>(
    call: &mut Call<A>,
    comm: CommId,
    info: Option<InfoId>,
    key: c_int,
) -> Outcome<Option<CommId>> {
    let name =
        info.map_or(Ok(None), |info| registry().info_get(info, SET_NAME).map(|name| name.map(String::from)))?;
    let color = match name.as_deref() {
        Some("mpi://WORLD") => Some(0),
        Some("mpi://SELF") => Some(call.comm_rank(comm)? as i32),
        _ => None,
    };
    let made = call.start_split(comm, color, key)?;
    make(call, made)
}

/// One communicator for each piece of hardware of a kind.
fn split_by<A: Abi>(
    call: &mut Call<A>,
    comm: CommId,
    kind: Option<Resource>,
    key: c_int,
) -> Outcome<Option<CommId>> {
    let Some(kind) = kind.filter(|kind| *kind != Resource::Node) else {
        let made = call.start_split_shared(comm, kind.is_some(), key)?;
        return make(call, made);
    };
    Ok(split_hardware(call, comm, kind, key)?.1)
}

/// How many processes are where this one is, and their communicator if that is a piece of hardware.
fn split_hardware<A: Abi>(
    call: &mut Call<A>,
    comm: CommId,
    kind: Resource,
    key: c_int,
) -> Outcome<(u32, Option<CommId>)> {
    let (made, piece) = call.start_split_hardware(comm, kind, key)?;
    let new = make(call, made)?.expect("everybody has a color");
    let size = call.comm_size(new)?;
    if piece.is_none() {
        call.comm_free(new)?;
    }
    Ok((size, piece.map(|_| new)))
}

/// Splits by the largest kind of hardware that divides the communicator. Whether it does is the same to all: either
/// everybody stays together, or nobody is with all others.
fn split_further<A: Abi>(
    call: &mut Call<A>,
    comm: CommId,
    info: Option<InfoId>,
    key: c_int,
) -> Outcome<Option<CommId>> {
    let all = call.comm_size(comm)?;
    for kind in Resource::ALL {
        let (size, new) = split_hardware(call, comm, kind, key)?;
        if size == all {
            new.map_or(Ok(()), |whole| call.comm_free(whole))?;
            continue;
        }
        if let (Some(info), Some(_)) = (info, new) {
            registry().info_set(info, RESOURCE_TYPE, kind.name())?;
        }
        return Ok(new);
    }
    Ok(None)
}

/// `MPI_Comm_create`
pub fn comm_create<A: Abi>(comm: A::Handle, group: A::Handle, newcomm: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Comm_create", On::Comm(comm), |call| {
        newcomm.check()?;
        let made = call.start_create(handles::comm::<A>(comm)?, handles::group::<A>(group)?)?;
        let new = make(call, made)?;
        Ok(newcomm.set(handles::of_comm_or_null::<A>(new))?)
    })
}

/// `MPI_Comm_create_group`
pub fn comm_create_group<A: Abi>(
    comm: A::Handle,
    group: A::Handle,
    tag: c_int,
    newcomm: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Comm_create_group", On::Comm(comm), |call| {
        newcomm.check()?;
        let made = call.start_create_group(handles::comm::<A>(comm)?, handles::group::<A>(group)?, tag)?;
        let new = make(call, made)?;
        Ok(newcomm.set(handles::of_comm_or_null::<A>(new))?)
    })
}

fn free<A: Abi>(call: &mut Call<A>, comm: Ptr<A::Handle>) -> Outcome<()> {
    let id = handles::comm::<A>(comm.get()?)?;
    if id == CommId::WORLD || id == CommId::SELF {
        return fail(ErrorClass::Comm, "a predefined communicator cannot be freed");
    }
    attr::delete_all(call, Object::Comm(id))?;
    call.comm_free(id)?;
    Ok(comm.set(A::handle(A::C.comm_null))?)
}

/// `MPI_Comm_free`
pub fn comm_free<A: Abi>(comm: Ptr<A::Handle>) -> c_int {
    let on = comm.get().map_or(On::WORLD, On::Comm);
    run::<A>("MPI_Comm_free", on, |call| free(call, comm))
}

/// `MPI_Comm_disconnect`
pub fn comm_disconnect<A: Abi>(comm: Ptr<A::Handle>) -> c_int {
    let on = comm.get().map_or(On::WORLD, On::Comm);
    run::<A>("MPI_Comm_disconnect", on, |call| {
        let id = handles::comm::<A>(comm.get()?)?;
        let barrier = call.start_disconnect(id)?;
        match call.complete(barrier) {
            Err(error) if error.class == ErrorClass::ProcAborted => {} // no more can be had of those who are gone
            ended => drop(ended?),
        }
        attr::delete_all(call, Object::Comm(id))?;
        call.until(|call| call.farewell(id))?;
        call.disconnected(id)?;
        Ok(comm.set(A::handle(A::C.comm_null))?)
    })
}

/// `MPI_Comm_set_name`
pub fn comm_set_name<A: Abi>(comm: A::Handle, comm_name: Text) -> c_int {
    run::<A>("MPI_Comm_set_name", On::Comm(comm), |call| {
        Ok(call.comm_set_name(handles::comm::<A>(comm)?, &name_from::<A>(comm_name)?)?)
    })
}

/// A name of an object, cut to what the interface has room for.
pub fn name_from<A: Abi>(name: Text) -> Outcome<String> {
    let mut name = name.read()?;
    let room = A::C.max_object_name as usize - 1;
    while name.len() > room {
        name.pop();
    }
    Ok(name)
}

/// Stores a name of an object.
pub fn put_name<A: Abi>(name: &str, out: TextOut, resultlen: Ptr<c_int>) -> Outcome<()> {
    let len = out.write(name, A::C.max_object_name as usize)?;
    Ok(resultlen.set(len as c_int)?)
}

/// `MPI_Comm_get_name`
pub fn comm_get_name<A: Abi>(comm: A::Handle, comm_name: TextOut, resultlen: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Comm_get_name", On::Comm(comm), |call| {
        if A::bits(comm) == A::C.comm_null {
            return put_name::<A>("MPI_COMM_NULL", comm_name, resultlen);
        }
        put_name::<A>(call.comm_name(handles::comm::<A>(comm)?)?, comm_name, resultlen)
    })
}

/// `MPI_Comm_get_info`
pub fn comm_get_info<A: Abi>(comm: A::Handle, info_used: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Comm_get_info", On::Comm(comm), |call| {
        info_used.check()?;
        let info = call.comm_info(handles::comm::<A>(comm)?)?;
        Ok(info_used.set(handles::of_info::<A>(info))?)
    })
}

/// `MPI_Comm_set_info`
pub fn comm_set_info<A: Abi>(comm: A::Handle, info: A::Handle) -> c_int {
    run::<A>("MPI_Comm_set_info", On::Comm(comm), |call| {
        let info = handles::info_or_null::<A>(info)?;
        Ok(call.comm_update_info(handles::comm::<A>(comm)?, info)?)
    })
}

/// `MPI_Comm_test_inter`
pub fn comm_test_inter<A: Abi>(comm: A::Handle, flag: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Comm_test_inter", On::Comm(comm), |call| {
        let remote = call.comm_remote_size(handles::comm::<A>(comm)?)?;
        Ok(flag.set(c_int::from(remote.is_some()))?)
    })
}

/// `MPI_Comm_remote_size`
pub fn comm_remote_size<A: Abi>(comm: A::Handle, size: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Comm_remote_size", On::Comm(comm), |call| {
        match call.comm_remote_size(handles::comm::<A>(comm)?)? {
            Some(remote) => Ok(size.set(remote as c_int)?),
            None => fail(ErrorClass::Comm, "it is not an intercommunicator"),
        }
    })
}

/// `MPI_Comm_remote_group`
pub fn comm_remote_group<A: Abi>(comm: A::Handle, group: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Comm_remote_group", On::Comm(comm), |call| {
        group.check()?;
        let id = call.comm_remote_group(handles::comm::<A>(comm)?)?;
        Ok(group.set(handles::of_group::<A>(id))?)
    })
}

/// `MPI_Intercomm_create`
pub fn intercomm_create<A: Abi>(
    local_comm: A::Handle,
    local_leader: c_int,
    peer_comm: A::Handle,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Intercomm_create", On::Comm(local_comm), |call| {
        newintercomm.set(A::handle(A::C.comm_null))?;
        let local = handles::comm::<A>(local_comm)?;
        // Of others than the leader, the arguments do not count.
        let leads = i64::from(call.comm_rank(local)?) == i64::from(local_leader);
        let comm = if leads { handles::comm::<A>(peer_comm)? } else { local };
        let made = call.start_intercomm(local, local_leader, Bridge { comm, remote_leader, tag })?;
        let new = make(call, made)?;
        Ok(newintercomm.set(handles::of_comm_or_null::<A>(new))?)
    })
}

/// `MPI_Intercomm_create_from_groups`
#[allow(clippy::too_many_arguments)]
pub fn intercomm_create_from_groups<A: Abi>(
    local_group: A::Handle,
    local_leader: c_int,
    remote_group: A::Handle,
    remote_leader: c_int,
    stringtag: Text,
    info: A::Handle,
    errhandler: A::Handle,
    newintercomm: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Intercomm_create_from_groups", On::WORLD, |call| {
        newintercomm.set(A::handle(A::C.comm_null))?;
        let (info, handler) = (handles::info_or_null::<A>(info)?, handles::errhandler::<A>(errhandler)?);
        let local = handles::group::<A>(local_group)?;
        let leads = call.group_rank(local)?.is_some_and(|rank| i64::from(rank) == i64::from(local_leader));
        let remote = leads.then(|| handles::group::<A>(remote_group)).transpose()?;
        let remote = remote.map(|group| (group, remote_leader));
        let made = call.start_intercomm_of_groups(local, local_leader, remote, &stringtag.read()?)?;
        let Some(new) = make(call, made)? else { return Ok(()) };
        call.comm_set_info(new, info)?;
        call.comm_set_errhandler(new, handler)?;
        Ok(newintercomm.set(handles::of_comm::<A>(new))?)
    })
}

/// `MPI_Intercomm_merge`
pub fn intercomm_merge<A: Abi>(intercomm: A::Handle, high: c_int, newintracomm: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Intercomm_merge", On::Comm(intercomm), |call| {
        newintracomm.set(A::handle(A::C.comm_null))?;
        let made = call.start_merge(handles::comm::<A>(intercomm)?, high != 0)?;
        let new = make(call, made)?;
        Ok(newintracomm.set(handles::of_comm_or_null::<A>(new))?)
    })
}

/// `MPI_Comm_get_parent`
pub fn comm_get_parent<A: Abi>(parent: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Comm_get_parent", On::WORLD, |call| {
        Ok(parent.set(handles::of_comm_or_null::<A>(call.parent()))?)
    })
}
