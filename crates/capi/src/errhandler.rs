//! Error handlers, error classes and error codes, as the program sees them.
use crate::abi::Abi;
use crate::args::{Opaque, Ptr, Text, TextOut};
use crate::attr::LASTUSEDCODE;
use crate::engine::Call;
use crate::errors::{On, Outcome, Target, anytime, class_of, code, deliver, fail, run};
use crate::handles;
use mpi::ErrorClass;
use mpi::core::{ErrhandlerId, registry};
use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

fn create<A: Abi>(function: Opaque, out: Ptr<A::Handle>) -> Outcome<()> {
    if function.0 == 0 {
        return fail(ErrorClass::Arg, "the error handler is null");
    }
    out.check()?;
    let id = registry().errhandler_create(function.0);
    Ok(out.set(handles::of_errhandler::<A>(id))?)
}

macro_rules! creators {
    ($($name:ident $mpi:literal),*) => {$(
        #[doc = concat!("`", $mpi, "`")]
        pub fn $name<A: Abi>(function: Opaque, errhandler: Ptr<A::Handle>) -> c_int {
            anytime::<A>($mpi, || create::<A>(function, errhandler))
        }
    )*};
}

creators! {
    comm_create_errhandler "MPI_Comm_create_errhandler",
    win_create_errhandler "MPI_Win_create_errhandler",
    file_create_errhandler "MPI_File_create_errhandler",
    session_create_errhandler "MPI_Session_create_errhandler",
    errhandler_create "MPI_Errhandler_create"
}

fn set<A: Abi>(call: &mut Call<A>, comm: A::Handle, errhandler: A::Handle) -> Outcome<()> {
    Ok(call.comm_set_errhandler(handles::comm::<A>(comm)?, handles::errhandler::<A>(errhandler)?)?)
}

/// `MPI_Comm_set_errhandler`
pub fn comm_set_errhandler<A: Abi>(comm: A::Handle, errhandler: A::Handle) -> c_int {
    run::<A>("MPI_Comm_set_errhandler", On::Comm(comm), |call| set(call, comm, errhandler))
}

/// `MPI_Errhandler_set`
pub fn errhandler_set<A: Abi>(comm: A::Handle, errhandler: A::Handle) -> c_int {
    run::<A>("MPI_Errhandler_set", On::Comm(comm), |call| set(call, comm, errhandler))
}

fn get<A: Abi>(call: &mut Call<A>, comm: A::Handle, out: Ptr<A::Handle>) -> Outcome<()> {
    out.check()?;
    give::<A>(call.comm_errhandler(handles::comm::<A>(comm)?)?, out)
}

/// The handle given out counts as one more: it must be freed too (MPI-5 9.3).
fn give<A: Abi>(id: ErrhandlerId, out: Ptr<A::Handle>) -> Outcome<()> {
    registry().errhandler_retain(id)?;
    Ok(out.set(handles::of_errhandler::<A>(id))?)
}

/// `MPI_Comm_get_errhandler`
pub fn comm_get_errhandler<A: Abi>(comm: A::Handle, errhandler: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Comm_get_errhandler", On::Comm(comm), |call| get(call, comm, errhandler))
}

/// `MPI_Errhandler_get`
pub fn errhandler_get<A: Abi>(comm: A::Handle, errhandler: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Errhandler_get", On::Comm(comm), |call| get(call, comm, errhandler))
}

/// `MPI_Errhandler_free`
pub fn errhandler_free<A: Abi>(errhandler: Ptr<A::Handle>) -> c_int {
    anytime::<A>("MPI_Errhandler_free", || {
        let id = handles::errhandler::<A>(errhandler.get()?)?;
        registry().errhandler_free(id)?;
        Ok(errhandler.set(A::handle(A::C.errhandler_null))?)
    })
}

/// Raises the program's own error on an object, if there is one.
fn call_handler<A: Abi>(
    name: &'static str,
    on: On<A>,
    object: mpi::Result<Target>,
    errorcode: c_int,
) -> c_int {
    let call = Call::<A>::enter(name);
    match object.and_then(|target| target.check(&call)) {
        Ok(target) => {
            deliver(call, target, errorcode, || format!("the program raised error code {errorcode}"));
            0
        }
        Err(error) => {
            drop(call);
            run::<A>(name, on, |_| Err(error.into()))
        }
    }
}

/// `MPI_Comm_call_errhandler`
pub fn comm_call_errhandler<A: Abi>(comm: A::Handle, errorcode: c_int) -> c_int {
    let object = handles::comm::<A>(comm).map(Target::Comm);
    call_handler::<A>("MPI_Comm_call_errhandler", On::Comm(comm), object, errorcode)
}

/// `MPI_Session_call_errhandler`
pub fn session_call_errhandler<A: Abi>(session: A::Handle, errorcode: c_int) -> c_int {
    let object = handles::session::<A>(session).map(Target::Session);
    call_handler::<A>("MPI_Session_call_errhandler", On::Session(session), object, errorcode)
}

/// `MPI_Win_call_errhandler`
pub fn win_call_errhandler<A: Abi>(win: A::Handle, errorcode: c_int) -> c_int {
    let object = handles::win::<A>(win).map(Target::Win);
    call_handler::<A>("MPI_Win_call_errhandler", On::Win(win), object, errorcode)
}

/// `MPI_Win_set_errhandler`
pub fn win_set_errhandler<A: Abi>(win: A::Handle, errhandler: A::Handle) -> c_int {
    run::<A>("MPI_Win_set_errhandler", On::Win(win), |call| {
        let id = handles::win::<A>(win)?;
        Ok(call.win_set_errhandler(id, handles::errhandler::<A>(errhandler)?)?)
    })
}

/// `MPI_Win_get_errhandler`
pub fn win_get_errhandler<A: Abi>(win: A::Handle, errhandler: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Win_get_errhandler", On::Win(win), |call| {
        errhandler.check()?;
        give::<A>(call.win_errhandler(handles::win::<A>(win)?)?, errhandler)
    })
}

/// `MPI_Session_set_errhandler`
pub fn session_set_errhandler<A: Abi>(session: A::Handle, errhandler: A::Handle) -> c_int {
    run::<A>("MPI_Session_set_errhandler", On::Session(session), |call| {
        let id = handles::session::<A>(session)?;
        Ok(call.session_set_errhandler(id, handles::errhandler::<A>(errhandler)?)?)
    })
}

/// `MPI_Session_get_errhandler`
pub fn session_get_errhandler<A: Abi>(session: A::Handle, errhandler: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Session_get_errhandler", On::Session(session), |call| {
        errhandler.check()?;
        give::<A>(call.session_errhandler(handles::session::<A>(session)?)?, errhandler)
    })
}

/// Class and text of any error code.
fn meaning<A: Abi>(errorcode: c_int) -> Outcome<(ErrorClass, String)> {
    match class_of::<A>(errorcode) {
        Some(ErrorClass::User(number)) => match registry().user_error(number) {
            Some((class, text)) => Ok((class, text.to_string())),
            None => fail(ErrorClass::Arg, format!("{errorcode} is not an error code")),
        },
        Some(class) => {
            let name = class.name();
            let last = crate::errors::last_with(errorcode).map_or(String::new(), |what| format!(" ({what})"));
            Ok((class, format!("{name}: {}{last}", class.text())))
        }
        None => fail(ErrorClass::Arg, format!("{errorcode} is not an error code")),
    }
}

/// `MPI_Error_class`
pub fn error_class<A: Abi>(errorcode: c_int, errorclass: Ptr<c_int>) -> c_int {
    anytime::<A>("MPI_Error_class", || Ok(errorclass.set(code::<A>(meaning::<A>(errorcode)?.0))?))
}

/// `MPI_Error_string`
pub fn error_string<A: Abi>(errorcode: c_int, string: TextOut, resultlen: Ptr<c_int>) -> c_int {
    anytime::<A>("MPI_Error_string", || {
        let len = string.write(&meaning::<A>(errorcode)?.1, A::C.max_error_string as usize)?;
        Ok(resultlen.set(len as c_int)?)
    })
}

/// Tells the program the largest code there is (`MPI_LASTUSEDCODE`).
fn announce<A: Abi>() {
    LASTUSEDCODE.store((A::C.err_lastcode + i64::from(registry().user_errors_end())) as c_int, Relaxed);
}

/// `MPI_Add_error_class`
pub fn add_error_class<A: Abi>(errorclass: Ptr<c_int>) -> c_int {
    anytime::<A>("MPI_Add_error_class", || {
        let new = code::<A>(registry().add_error_class());
        announce::<A>();
        Ok(errorclass.set(new)?)
    })
}

/// `MPI_Add_error_code`
pub fn add_error_code<A: Abi>(errorclass: c_int, errorcode: Ptr<c_int>) -> c_int {
    anytime::<A>("MPI_Add_error_code", || {
        let Some(class) = class_of::<A>(errorclass) else {
            return fail(ErrorClass::Arg, format!("{errorclass} is not an error class"));
        };
        let new = code::<A>(ErrorClass::User(registry().add_error_code(class)?));
        announce::<A>();
        Ok(errorcode.set(new)?)
    })
}

/// The number of a class or code that the program added.
fn added<A: Abi>(errorcode: c_int) -> Outcome<u32> {
    match class_of::<A>(errorcode) {
        Some(ErrorClass::User(number)) => Ok(number),
        _ => fail(ErrorClass::Arg, format!("the program did not add {errorcode}")),
    }
}

/// `MPI_Add_error_string`
pub fn add_error_string<A: Abi>(errorcode: c_int, string: Text) -> c_int {
    anytime::<A>("MPI_Add_error_string", || {
        Ok(registry().add_error_string(added::<A>(errorcode)?, &string.read()?)?)
    })
}

/// Removes a class or code, whose text must have been removed before (MPI-5 9.5).
fn remove<A: Abi>(errorcode: c_int) -> Outcome<()> {
    let number = added::<A>(errorcode)?;
    if registry().user_error(number).is_some_and(|(_, text)| !text.is_empty()) {
        return fail(ErrorClass::Other, format!("error code {errorcode} still has a text"));
    }
    registry().remove_user_error(number)?;
    announce::<A>();
    Ok(())
}

macro_rules! removals {
    ($($name:ident $mpi:literal),*) => {$(
        #[doc = concat!("`", $mpi, "`")]
        pub fn $name<A: Abi>(errorcode: c_int) -> c_int {
            anytime::<A>($mpi, || remove::<A>(errorcode))
        }
    )*};
}

removals!(remove_error_class "MPI_Remove_error_class", remove_error_code "MPI_Remove_error_code");

/// `MPI_Remove_error_string`
pub fn remove_error_string<A: Abi>(errorcode: c_int) -> c_int {
    anytime::<A>("MPI_Remove_error_string", || Ok(registry().add_error_string(added::<A>(errorcode)?, "")?))
}
