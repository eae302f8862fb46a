//! Completion: waiting, testing, starting, cancelling and freeing requests.
use crate::abi::Abi;
use crate::args::{self, In, Opaque, Ptr};
use crate::engine::Call;
use crate::errors::{Failure, On, Outcome, code, fail, run, run_on};
use crate::handles::{self, Flavor};
use crate::{callbacks, p2p, status};
use mpi::core::{Focus, Grequest, RequestId, Status};
use mpi::{ErrorClass, MpiError};
use std::ffi::c_int;

/// Remembers whose error handler hears of a request's error.
#[inline(always)]
fn blame<A: Abi>(call: &Call<A>, on: &mut On<A>, request: RequestId) {
    if let Ok(Some(comm)) = call.request_comm(request) {
        *on = On::Id(comm);
    }
}

/// A request of the program, by number and flavor.
type Named = (RequestId, Flavor);

/// A request of an array that has completed: its place there, its name and its status.
type Finished = (usize, Named, Status);

/// What a completed request leaves: its status, and for a generalized one the words that its program stored.
struct Completed<A: Abi> {
    status: Status,
    filled: Option<A::Status>,
}

impl<A: Abi> Completed<A> {
    fn store(&self, out: Ptr<A::Status>) -> Outcome<()> {
        match self.filled {
            Some(filled) if status::wanted::<A>(out) => Ok(out.set(filled)?),
            _ => status::store::<A>(out, &self.status),
        }
    }

    fn store_at(&self, out: Ptr<A::Status>, index: usize, error: c_int) -> Outcome<()> {
        match self.filled {
            Some(mut filled) if status::wanted::<A>(out) => {
                *A::error_field(&mut filled) = error;
                Ok(out.set_at(index, filled)?)
            }
            _ => status::store_at::<A>(out, index, &self.status, error),
        }
    }
}

/// Deals with the handle and the callbacks of a request that has completed.
#[inline(always)]
fn retire<A: Abi>(
    call: &mut Call<A>,
    place: Ptr<A::Handle>,
    index: usize,
    request: Named,
    status: Status,
) -> Outcome<Completed<A>> {
    let null = A::handle(A::C.request_null);
    match request.1 {
        Flavor::Once => place.set_at(index, null)?,
        Flavor::Persistent => {}
        Flavor::Generalized => {
            place.set_at(index, null)?;
            return retire_generalized(call, request.0, status);
        }
    }
    Ok(Completed { status, filled: None })
}

#[cold]
fn retire_generalized<A: Abi>(call: &mut Call<A>, id: RequestId, status: Status) -> Outcome<Completed<A>> {
    let Some(grequest) = call.grequest(id)? else { return Ok(Completed { status, filled: None }) };
    call.request_free(id)?;
    let filled = call.outside(|| callbacks::finish_grequest::<A>(grequest)).map_err(Failure::Callback)?;
    Ok(Completed { status, filled: Some(filled) })
}

/// A request has failed, and is gone with that unless it is persistent: so is its handle.
#[cold]
fn retire_failed<A: Abi>(place: Ptr<A::Handle>, request: Named, error: MpiError) -> Failure {
    if request.1 != Flavor::Persistent
        && let Err(null) = place.set(A::handle(A::C.request_null))
    {
        return null.into();
    }
    error.into()
}

/// As one of several, a request that failed ends with a status that says so.
#[cold]
fn failure(error: MpiError) -> Status {
    Status { error: error.class, ..Status::EMPTY }
}

/// `MPI_Wait`
#[inline(always)]
pub fn wait<A: Abi>(request: Ptr<A::Handle>, status: Ptr<A::Status>) -> c_int {
    run_on::<A>("MPI_Wait", |call, on| {
        let Some(named) = handles::request::<A>(request.get()?)? else {
            return status::store_empty::<A>(status);
        };
        if named.0 == RequestId::SENT {
            request.set(A::handle(A::C.request_null))?;
            return status::store_empty::<A>(status);
        }
        blame(call, on, named.0);
        let result = match call.complete(named.0) {
            Ok(result) => result,
            Err(error) => return Err(retire_failed::<A>(request, named, error)),
        };
        let done = retire(call, request, 0, named, result)?;
        done.store(status)?;
        status::check(&done.status)
    })
}

/// Tests, and makes progress once if nothing has come.
#[inline(always)]
fn poke<A: Abi>(call: &mut Call<A>, request: RequestId) -> mpi::Result<Option<Status>> {
    if let Some(status) = call.test(request)? {
        return Ok(Some(status));
    }
    call.advance();
    call.test(request)
}

/// `MPI_Test`
#[inline(always)]
pub fn test<A: Abi>(request: Ptr<A::Handle>, flag: Ptr<c_int>, status: Ptr<A::Status>) -> c_int {
    run_on::<A>("MPI_Test", |call, on| {
        let Some(named) = handles::request::<A>(request.get()?)? else {
            flag.set(1)?;
            return status::store_empty::<A>(status);
        };
        blame(call, on, named.0);
        let result = match poke(call, named.0) {
            Ok(result) => result,
            Err(error) => return Err(retire_failed::<A>(request, named, error)),
        };
        flag.set(result.is_some().into())?;
        let Some(result) = result else {
            call.in_vain(Focus::One(named.0));
            return Ok(());
        };
        let done = retire(call, request, 0, named, result)?;
        done.store(status)?;
        status::check(&done.status)
    })
}

/// The requests of an array; null ones are `None`.
fn read_all<A: Abi>(count: c_int, requests: In<A::Handle>) -> Outcome<Vec<Option<Named>>> {
    let count = args::not_negative("count", count.into())? as usize;
    (0..count).map(|i| Ok(handles::request::<A>(requests.at(i)?)?)).collect()
}

/// Those of an array from a place on, for who asks what is waited for.
fn rest_of<A: Abi>(requests: Ptr<A::Handle>, from: usize, count: usize) -> Vec<RequestId> {
    let request = |i| handles::request::<A>(requests.at(i).ok()?).ok()?;
    (from..count).filter_map(request).map(|named| named.0).collect()
}

/// The same of a list.
fn numbers(list: &[(usize, Named)]) -> Vec<RequestId> {
    list.iter().map(|(_, named)| named.0).collect()
}

/// Retires a request and stores its status with its own error code; was there an error?
#[inline(always)]
fn retire_into<A: Abi>(
    call: &mut Call<A>,
    requests: Ptr<A::Handle>,
    place: usize,
    request: Named,
    result: Status,
    statuses: Ptr<A::Status>,
    slot: usize,
) -> Outcome<Option<ErrorClass>> {
    let done = retire(call, requests, place, request, result)?;
    done.store_at(statuses, slot, code::<A>(done.status.error))?;
    Ok((done.status.error != ErrorClass::Success).then_some(done.status.error))
}

/// `first` is what is known of the first one: a status has only the class of its error.
fn in_status(failed: usize, first: Option<String>) -> Outcome<()> {
    match first {
        None => Ok(()),
        Some(why) => {
            fail(ErrorClass::InStatus, format!("{failed} of the requests failed, the first with: {why}"))
        }
    }
}

/// `MPI_Waitall`
pub fn waitall<A: Abi>(count: c_int, requests: Ptr<A::Handle>, statuses: Ptr<A::Status>) -> c_int {
    run_on::<A>("MPI_Waitall", |call, on| {
        let count = args::not_negative("count", count.into())? as usize;
        let (mut failed, mut first, mut waits) = (0, None, false);
        for i in 0..count {
            let Some(named) = handles::request::<A>(requests.at(i)?)? else {
                status::store_at::<A>(statuses, i, &Status::EMPTY, 0)?;
                continue;
            };
            let done = match named.0 {
                RequestId::SENT => Some(Status::EMPTY),
                request => {
                    let wanted = status::wanted::<A>(statuses);
                    call.take_short(request, wanted).or_else(|| match call.is_threaded() {
                        true => None,
                        false => call.await_short(request, wanted),
                    })
                }
            };
            if let Some(done) = done {
                requests.set_at(i, A::handle(A::C.request_null))?;
                status::store_at::<A>(statuses, i, &done, 0)?;
                continue;
            }
            if first.is_none() {
                blame(call, on, named.0);
            }
            let rest = || rest_of::<A>(requests, i, count);
            if !std::mem::replace(&mut waits, true) {
                call.say_waits_all(rest);
            }
            let result = call.complete_among(named.0, Focus::All(&rest)).unwrap_or_else(|error| {
                first.get_or_insert_with(|| error.to_string());
                failure(error)
            });
            if let Some(error) = retire_into(call, requests, i, named, result, statuses, i)? {
                failed += 1;
                first.get_or_insert_with(|| error.text().to_string());
            }
        }
        in_status(failed, first)
    })
}

/// `MPI_Testall`
pub fn testall<A: Abi>(
    count: c_int,
    requests: Ptr<A::Handle>,
    flag: Ptr<c_int>,
    statuses: Ptr<A::Status>,
) -> c_int {
    run_on::<A>("MPI_Testall", |call, on| {
        let count = args::not_negative("count", count.into())? as usize;
        call.advance();
        for i in 0..count {
            // Nothing may change unless all are complete (MPI-5 3.7.5).
            if let Some((id, _)) = handles::request::<A>(requests.at(i)?)?
                && call.peek(id)?.is_none()
            {
                flag.set(0)?;
                call.in_vain(Focus::All(&|| rest_of::<A>(requests, i, count)));
                return Ok(());
            }
        }
        flag.set(1)?;
        let (mut failed, mut first) = (0, None);
        for i in 0..count {
            let Some(named) = handles::request::<A>(requests.at(i)?)? else {
                status::store_at::<A>(statuses, i, &Status::EMPTY, 0)?;
                continue;
            };
            blame(call, on, named.0);
            let result = call.test(named.0).map_or_else(failure, |done| done.unwrap_or(Status::EMPTY));
            if let Some(error) = retire_into(call, requests, i, named, result, statuses, i)? {
                failed += 1;
                first.get_or_insert_with(|| error.text().to_string());
            }
        }
        in_status(failed, first)
    })
}

/// The requests that count for waitany and its family: neither null nor inactive.
fn active<A: Abi>(call: &Call<A>, all: &[Option<Named>]) -> Outcome<Vec<(usize, Named)>> {
    let mut list = Vec::with_capacity(all.len());
    for (i, named) in all.iter().enumerate() {
        if let Some(named) = named
            && (named.1 != Flavor::Persistent || call.is_active(named.0)?)
        {
            list.push((i, *named));
        }
    }
    Ok(list)
}

/// Takes the result of a request, if it is complete.
fn taken<A: Abi>(call: &mut Call<A>, place: usize, named: Named) -> Option<Finished> {
    let done = call.test(named.0).unwrap_or_else(|error| Some(failure(error)));
    done.map(|status| (place, named, status))
}

/// The first of them that is complete.
fn first_complete<A: Abi>(
    call: &mut Call<A>,
    on: &mut On<A>,
    list: &[(usize, Named)],
) -> mpi::Result<Option<Finished>> {
    for (i, named) in list {
        blame(call, on, named.0);
        if let Some(found) = taken(call, *i, *named) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The first of an array that is complete already, if one is.
fn complete_at_once<A: Abi>(
    call: &mut Call<A>,
    on: &mut On<A>,
    count: c_int,
    requests: Ptr<A::Handle>,
) -> Outcome<Option<Finished>> {
    for i in 0..args::not_negative("count", count.into())? as usize {
        let Some(named) = handles::request::<A>(requests.at(i)?)? else { continue };
        if named.1 == Flavor::Persistent && !call.is_active(named.0)? {
            continue;
        }
        if call.is_complete(named.0)? {
            blame(call, on, named.0);
            return Ok(taken(call, i, named));
        }
    }
    Ok(None)
}

/// Finishes a waitany or testany that found something.
fn one_done<A: Abi>(
    call: &mut Call<A>,
    requests: Ptr<A::Handle>,
    found: Finished,
    index: Ptr<c_int>,
    status: Ptr<A::Status>,
) -> Outcome<()> {
    let (place, named, result) = found;
    index.set(place as c_int)?;
    let done = retire(call, requests, place, named, result)?;
    done.store(status)?;
    status::check(&done.status)
}

/// `MPI_Waitany`
pub fn waitany<A: Abi>(
    count: c_int,
    requests: Ptr<A::Handle>,
    index: Ptr<c_int>,
    status: Ptr<A::Status>,
) -> c_int {
    run_on::<A>("MPI_Waitany", |call, on| {
        // Whoever takes the messages of a long array one by one finds one mostly: no need to look at all of them.
        if let Some(found) = complete_at_once(call, on, count, requests)? {
            return one_done(call, requests, found, index, status);
        }
        let list = active(call, &read_all::<A>(count, requests.into())?)?;
        if list.is_empty() {
            index.set(A::C.undefined as c_int)?;
            return status::store_empty::<A>(status);
        }
        let any = || numbers(&list);
        let found = call.poll(Focus::Any(&any), |call| first_complete(call, on, &list))?;
        one_done(call, requests, found, index, status)
    })
}

/// `MPI_Testany`
pub fn testany<A: Abi>(
    count: c_int,
    requests: Ptr<A::Handle>,
    index: Ptr<c_int>,
    flag: Ptr<c_int>,
    status: Ptr<A::Status>,
) -> c_int {
    run_on::<A>("MPI_Testany", |call, on| {
        let list = active(call, &read_all::<A>(count, requests.into())?)?;
        if list.is_empty() {
            flag.set(1)?;
            index.set(A::C.undefined as c_int)?;
            return status::store_empty::<A>(status);
        }
        call.advance();
        let Some(found) = first_complete(call, on, &list)? else {
            index.set(A::C.undefined as c_int)?;
            flag.set(0)?;
            call.in_vain(Focus::Any(&|| numbers(&list)));
            return Ok(());
        };
        flag.set(1)?;
        one_done(call, requests, found, index, status)
    })
}

/// All that are complete, with their statuses.
fn complete_ones<A: Abi>(
    call: &mut Call<A>,
    on: &mut On<A>,
    list: &[(usize, Named)],
) -> mpi::Result<Vec<Finished>> {
    let mut found = Vec::new();
    for (i, named) in list {
        if call.peek(named.0)?.is_some() {
            blame(call, on, named.0);
        }
        found.extend(taken(call, *i, *named));
    }
    Ok(found)
}

/// Finishes a waitsome or testsome.
fn some_done<A: Abi>(
    call: &mut Call<A>,
    requests: Ptr<A::Handle>,
    found: Vec<Finished>,
    outcount: Ptr<c_int>,
    indices: Ptr<c_int>,
    statuses: Ptr<A::Status>,
) -> Outcome<()> {
    outcount.set(found.len() as c_int)?;
    let (mut failed, mut first) = (0, None);
    for (slot, (place, named, result)) in found.into_iter().enumerate() {
        indices.set_at(slot, place as c_int)?;
        if let Some(error) = retire_into(call, requests, place, named, result, statuses, slot)? {
            failed += 1;
            first.get_or_insert_with(|| error.text().to_string());
        }
    }
    in_status(failed, first)
}

/// `MPI_Waitsome`
pub fn waitsome<A: Abi>(
    incount: c_int,
    requests: Ptr<A::Handle>,
    outcount: Ptr<c_int>,
    indices: Ptr<c_int>,
    statuses: Ptr<A::Status>,
) -> c_int {
    run_on::<A>("MPI_Waitsome", |call, on| {
        let list = active(call, &read_all::<A>(incount, requests.into())?)?;
        if list.is_empty() {
            return Ok(outcount.set(A::C.undefined as c_int)?);
        }
        let any = || numbers(&list);
        let found = call.poll(Focus::Any(&any), |call| {
            let found = complete_ones(call, on, &list)?;
            Ok((!found.is_empty()).then_some(found))
        })?;
        some_done(call, requests, found, outcount, indices, statuses)
    })
}

/// `MPI_Testsome`
pub fn testsome<A: Abi>(
    incount: c_int,
    requests: Ptr<A::Handle>,
    outcount: Ptr<c_int>,
    indices: Ptr<c_int>,
    statuses: Ptr<A::Status>,
) -> c_int {
    run_on::<A>("MPI_Testsome", |call, on| {
        let list = active(call, &read_all::<A>(incount, requests.into())?)?;
        if list.is_empty() {
            return Ok(outcount.set(A::C.undefined as c_int)?);
        }
        call.advance();
        let found = complete_ones(call, on, &list)?;
        if found.is_empty() {
            call.in_vain(Focus::Any(&|| numbers(&list)));
        }
        some_done(call, requests, found, outcount, indices, statuses)
    })
}

/// `MPI_Request_get_status`
pub fn request_get_status<A: Abi>(request: A::Handle, flag: Ptr<c_int>, status: Ptr<A::Status>) -> c_int {
    run_on::<A>("MPI_Request_get_status", |call, on| {
        let Some((id, flavor)) = handles::request::<A>(request)? else {
            flag.set(1)?;
            return status::store_empty::<A>(status);
        };
        blame(call, on, id);
        call.advance();
        let seen = look(call, (id, flavor))?;
        flag.set(seen.is_some().into())?;
        seen.map_or(Ok(()), |seen| seen.store(status))
    })
}

/// What a request would say if it were tested; changes nothing.
fn look<A: Abi>(call: &mut Call<A>, named: Named) -> Outcome<Option<Completed<A>>> {
    let Some(status) = call.peek(named.0)? else { return Ok(None) };
    let grequest = if named.1 == Flavor::Generalized { call.grequest(named.0)? } else { None };
    let Some(grequest) = grequest else { return Ok(Some(Completed { status, filled: None })) };
    let filled = call.outside(|| callbacks::query_grequest::<A>(grequest)).map_err(Failure::Callback)?;
    Ok(Some(Completed { status, filled: Some(filled) }))
}

/// `MPI_Request_get_status_all`
pub fn request_get_status_all<A: Abi>(
    count: c_int,
    requests: In<A::Handle>,
    flag: Ptr<c_int>,
    statuses: Ptr<A::Status>,
) -> c_int {
    run::<A>("MPI_Request_get_status_all", On::WORLD, |call| {
        let all = read_all::<A>(count, requests)?;
        call.advance();
        let mut done = Vec::with_capacity(all.len());
        for named in all {
            let seen = match named {
                Some(named) => look(call, named)?,
                None => Some(Completed { status: Status::EMPTY, filled: None }),
            };
            let Some(seen) = seen else { return Ok(flag.set(0)?) };
            done.push(seen);
        }
        flag.set(1)?;
        done.iter()
            .enumerate()
            .try_for_each(|(i, seen)| seen.store_at(statuses, i, code::<A>(seen.status.error)))
    })
}

/// `MPI_Request_get_status_any`
pub fn request_get_status_any<A: Abi>(
    count: c_int,
    requests: In<A::Handle>,
    index: Ptr<c_int>,
    flag: Ptr<c_int>,
    status: Ptr<A::Status>,
) -> c_int {
    run::<A>("MPI_Request_get_status_any", On::WORLD, |call| {
        let list = active(call, &read_all::<A>(count, requests)?)?;
        index.set(A::C.undefined as c_int)?;
        if list.is_empty() {
            flag.set(1)?;
            return status::store_empty::<A>(status);
        }
        call.advance();
        for (i, named) in list {
            if let Some(seen) = look(call, named)? {
                index.set(i as c_int)?;
                flag.set(1)?;
                return seen.store(status);
            }
        }
        Ok(flag.set(0)?)
    })
}

/// `MPI_Request_get_status_some`
pub fn request_get_status_some<A: Abi>(
    incount: c_int,
    requests: In<A::Handle>,
    outcount: Ptr<c_int>,
    indices: Ptr<c_int>,
    statuses: Ptr<A::Status>,
) -> c_int {
    run::<A>("MPI_Request_get_status_some", On::WORLD, |call| {
        let list = active(call, &read_all::<A>(incount, requests)?)?;
        if list.is_empty() {
            return Ok(outcount.set(A::C.undefined as c_int)?);
        }
        call.advance();
        let mut found = 0;
        for (i, named) in list {
            if let Some(seen) = look(call, named)? {
                indices.set_at(found, i as c_int)?;
                seen.store_at(statuses, found, code::<A>(seen.status.error))?;
                found += 1;
            }
        }
        Ok(outcount.set(found as c_int)?)
    })
}

/// The request in a variable, which must not be null.
fn named<A: Abi>(call: &Call<A>, on: &mut On<A>, request: A::Handle) -> Outcome<Named> {
    match handles::request::<A>(request)? {
        Some(named) => {
            blame(call, on, named.0);
            Ok(named)
        }
        None => fail(ErrorClass::Request, "null request"),
    }
}

/// `MPI_Request_free`
pub fn request_free<A: Abi>(request: Ptr<A::Handle>) -> c_int {
    run_on::<A>("MPI_Request_free", |call, on| {
        let (id, flavor) = named(call, on, request.get()?)?;
        if flavor == Flavor::Generalized {
            call.abandon(id)?;
        } else {
            call.request_free(id)?;
        }
        Ok(request.set(A::handle(A::C.request_null))?)
    })
}

impl<A: Abi> Call<A> {
    /// A generalized request is given up before it completed: its state is freed when it does
    /// (here: at once if it is complete, else with `MPI_Grequest_complete`).
    fn abandon(&mut self, id: RequestId) -> Outcome<()> {
        if self.peek(id)?.is_some() {
            retire_generalized(self, id, Status::EMPTY)?;
        } else {
            abandoned().push(id);
        }
        Ok(())
    }
}

/// Generalized requests that were freed before they completed.
fn abandoned() -> std::sync::MutexGuard<'static, Vec<RequestId>> {
    static LIST: std::sync::Mutex<Vec<RequestId>> = std::sync::Mutex::new(Vec::new());
    LIST.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// `MPI_Cancel`
pub fn cancel<A: Abi>(request: Ptr<A::Handle>) -> c_int {
    run_on::<A>("MPI_Cancel", |call, on| {
        let (id, flavor) = named(call, on, request.get()?)?;
        if flavor == Flavor::Generalized
            && let Some(grequest) = call.grequest(id)?
        {
            let complete = call.peek(id)?.is_some();
            return call
                .outside(|| callbacks::cancel_grequest(grequest, complete))
                .map_err(Failure::Callback);
        }
        Ok(call.cancel(id)?)
    })
}

/// `MPI_Start`
pub fn start<A: Abi>(request: Ptr<A::Handle>) -> c_int {
    run_on::<A>("MPI_Start", |call, on| start_one(call, on, request.get()?))
}

/// `MPI_Startall`
pub fn startall<A: Abi>(count: c_int, requests: Ptr<A::Handle>) -> c_int {
    run_on::<A>("MPI_Startall", |call, on| {
        let count = args::not_negative("count", count.into())? as usize;
        (0..count).try_for_each(|i| start_one(call, on, requests.at(i)?))
    })
}

fn start_one<A: Abi>(call: &mut Call<A>, on: &mut On<A>, request: A::Handle) -> Outcome<()> {
    let (id, flavor) = named(call, on, request)?;
    if flavor != Flavor::Persistent {
        return fail(ErrorClass::Request, "the request is not persistent");
    }
    Ok(call.start_request(id)?)
}

/// `MPI_Grequest_start`
pub fn grequest_start<A: Abi>(
    query_fn: Opaque,
    free_fn: Opaque,
    cancel_fn: Opaque,
    extra_state: crate::args::BufMut,
    request: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Grequest_start", On::WORLD, |call| {
        let what =
            Grequest { query: query_fn.0, free: free_fn.0, cancel: cancel_fn.0, extra: extra_state.addr() };
        p2p::put_request::<A>(request, Flavor::Generalized, || Ok(call.grequest_start(what)?))
    })
}

/// `MPI_Grequest_complete`
pub fn grequest_complete<A: Abi>(request: A::Handle) -> c_int {
    run_on::<A>("MPI_Grequest_complete", |call, on| {
        let (id, flavor) = named(call, on, request)?;
        if flavor != Flavor::Generalized {
            return Err(MpiError::new(ErrorClass::Request, "the request is not generalized").into());
        }
        call.grequest_complete(id)?;
        let given_up = {
            let mut list = abandoned();
            let place = list.iter().position(|other| *other == id);
            place.map(|place| list.swap_remove(place)).is_some()
        };
        if given_up {
            retire_generalized(call, id, Status::EMPTY)?;
        }
        Ok(())
    })
}
