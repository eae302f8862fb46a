//! Sessions, and what is made from them. When the library starts and ends is in [`crate::life`].
use crate::abi::Abi;
use crate::args::{Ptr, Text, TextOut};
use crate::comm::make;
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, raise_anywhere, run};
use crate::handles;
use crate::life::{self, Level};
use mpi::ErrorClass;
use mpi::core::{PROCESS_SETS, Pairs, registry};
use std::ffi::c_int;

/// The hint that asks for a thread level.
const THREAD_LEVEL: &str = "thread_level";

/// `MPI_Session_init`
pub fn session_init<A: Abi>(info: A::Handle, errhandler: A::Handle, session: Ptr<A::Handle>) -> c_int {
    let name = "MPI_Session_init";
    let wanted = match wishes::<A>(info, errhandler, session) {
        Ok(wanted) => wanted,
        Err(failure) => return raise_anywhere::<A>(name, On::Handler(errhandler), failure),
    };
    match life::begin_session(wanted) {
        Ok(granted) => run::<A>(name, On::Handler(errhandler), |call| {
            let begun = begin(call, info, errhandler, session, granted);
            if begun.is_err() {
                call.outside(life::end_session);
            }
            begun
        }),
        Err(error) => raise_anywhere::<A>(name, On::Handler(errhandler), error.into()),
    }
}

/// The thread level that the hints ask for, if they do; what it is without is up to the library (MPI-5 11.3.1).
fn wishes<A: Abi>(info: A::Handle, errhandler: A::Handle, session: Ptr<A::Handle>) -> Outcome<Option<Level>> {
    session.set(A::handle(A::C.session_null))?;
    let handler = handles::errhandler::<A>(errhandler)?;
    let all = registry();
    all.errhandler(handler)?;
    let Some(info) = handles::info_or_null::<A>(info)? else { return Ok(None) };
    match all.info_get(info, THREAD_LEVEL)? {
        None => Ok(None),
        Some(word) => match Level::named(word) {
            Some(level) => Ok(Some(level)),
            None => fail(ErrorClass::InfoValue, format!("{THREAD_LEVEL}={word} is not a thread level")),
        },
    }
}

fn begin<A: Abi>(
    call: &mut Call<A>,
    info: A::Handle,
    errhandler: A::Handle,
    session: Ptr<A::Handle>,
    granted: Level,
) -> Outcome<()> {
    handles::info_or_null::<A>(info)?;
    let used = Pairs::from([(THREAD_LEVEL.into(), granted.name().into())]);
    let id = call.session_begin(handles::errhandler::<A>(errhandler)?, used)?;
    Ok(session.set(handles::of_session::<A>(id))?)
}

/// `MPI_Session_finalize`
pub fn session_finalize<A: Abi>(session: Ptr<A::Handle>) -> c_int {
    let on = session.get().map_or(On::WORLD, On::Session);
    let result = run::<A>("MPI_Session_finalize", on, |call| {
        let id = handles::session::<A>(session.get()?)?;
        call.session_end(id)?;
        Ok(session.set(A::handle(A::C.session_null))?)
    });
    if result == 0 {
        life::end_session();
    }
    result
}

/// `MPI_Session_get_info`
pub fn session_get_info<A: Abi>(session: A::Handle, info_used: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Session_get_info", On::Session(session), |call| {
        let info = call.session_info(handles::session::<A>(session)?)?;
        Ok(info_used.set(handles::of_info::<A>(info))?)
    })
}

/// Does the handle name a session?
fn check<A: Abi>(call: &Call<A>, session: A::Handle) -> Outcome<()> {
    call.session_errhandler(handles::session::<A>(session)?)?;
    Ok(())
}

/// `MPI_Session_get_num_psets`
pub fn session_get_num_psets<A: Abi>(session: A::Handle, info: A::Handle, npset_names: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Session_get_num_psets", On::Session(session), |call| {
        check(call, session)?;
        handles::info_or_null::<A>(info)?;
        Ok(npset_names.set(PROCESS_SETS.len() as c_int)?)
    })
}

/// `MPI_Session_get_nth_pset`: `pset_len` counts the zero, in and out.
pub fn session_get_nth_pset<A: Abi>(
    session: A::Handle,
    info: A::Handle,
    n: c_int,
    pset_len: Ptr<c_int>,
    pset_name: TextOut,
) -> c_int {
    run::<A>("MPI_Session_get_nth_pset", On::Session(session), |call| {
        check(call, session)?;
        handles::info_or_null::<A>(info)?;
        let Some(name) = usize::try_from(n).ok().and_then(|n| PROCESS_SETS.get(n)) else {
            return fail(ErrorClass::Arg, format!("process set {n} of {}", PROCESS_SETS.len()));
        };
        let room = pset_len.get()?;
        if room > 0 {
            pset_name.write(name, room as usize)?;
        }
        Ok(pset_len.set(name.len() as c_int + 1)?)
    })
}

/// `MPI_Session_get_pset_info`
pub fn session_get_pset_info<A: Abi>(session: A::Handle, pset_name: Text, info: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Session_get_pset_info", On::Session(session), |call| {
        let size = call.pset_size(handles::session::<A>(session)?, &pset_name.read()?)?;
        let new = registry().info_with(Pairs::from([("mpi_size".into(), size.to_string())]));
        Ok(info.set(handles::of_info::<A>(new))?)
    })
}

/// `MPI_Group_from_session_pset`
pub fn group_from_session_pset<A: Abi>(
    session: A::Handle,
    pset_name: Text,
    newgroup: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Group_from_session_pset", On::Session(session), |call| {
        newgroup.set(A::handle(A::C.group_null))?;
        newgroup.check()?;
        let group = call.group_from_pset(handles::session::<A>(session)?, &pset_name.read()?)?;
        Ok(newgroup.set(handles::of_group::<A>(group))?)
    })
}

/// `MPI_Comm_create_from_group`
pub fn comm_create_from_group<A: Abi>(
    group: A::Handle,
    stringtag: Text,
    info: A::Handle,
    errhandler: A::Handle,
    newcomm: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Comm_create_from_group", On::Handler(errhandler), |call| {
        newcomm.set(A::handle(A::C.comm_null))?;
        let tag = stringtag.read()?;
        if tag.len() >= A::C.max_stringtag_len as usize {
            return fail(ErrorClass::Arg, format!("a string tag of {} bytes", tag.len()));
        }
        let (group, info) = (handles::group::<A>(group)?, handles::info_or_null::<A>(info)?);
        let made = call.start_create_from_group(group, &tag, handles::errhandler::<A>(errhandler)?)?;
        let new = make(call, made)?;
        if let Some(new) = new {
            call.comm_set_info(new, info)?;
        }
        Ok(newcomm.set(handles::of_comm_or_null::<A>(new))?)
    })
}
