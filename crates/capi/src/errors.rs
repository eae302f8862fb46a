//! What happens to an error: its code in the caller's interface, the handler that hears of it, and the one
//! line a user sees when it ends the job.
use crate::abi::Abi;
use crate::args::null_words;
use crate::engine::{Call, Phase, phase};
use crate::life::{self, World};
use crate::{callbacks, handles};
use mpi::core::{CommId, Errhandler, ErrhandlerId, Mpi, SessionId, WinId, registry};
use mpi::{Cause, ErrorClass, MpiError};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::time::Duration;

/// How long the root of a call that failed has for its own words before others end the job.
const ROOT_PATIENCE: Duration = Duration::from_millis(200);

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    /// The engine (or the check of an argument) says so.
    Error(MpiError),
    /// A callback of the program gave this code, which goes to the caller as it is.
    Callback(c_int),
}

/// What the body of a call gives.
pub type Outcome<T> = std::result::Result<T, Failure>;

impl From<MpiError> for Failure {
    #[cold]
    fn from(error: MpiError) -> Self {
        Failure::Error(error)
    }
}

/// An error of `class`.
#[cold]
pub fn fail<T>(class: ErrorClass, words: impl Into<Cow<'static, str>>) -> Outcome<T> {
    Err(Failure::Error(MpiError::new(class, words)))
}

/// Whose error handler hears of an error.
#[derive(Debug)]
pub enum On<A: Abi> {
    /// That of a communicator, by handle; as for no object if it names none.
    Comm(A::Handle),
    /// That of a communicator, or of the window whose own it is.
    Id(CommId),
    /// That of a session, by handle.
    Session(A::Handle),
    /// That of a window, by handle.
    Win(A::Handle),
    /// This one: its object does not exist yet.
    Handler(A::Handle),
    /// The call belongs to no object (see [`Target::unattached`]).
    World(PhantomData<A>),
}

/// An object whose handler hears of an error.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// A communicator.
    Comm(CommId),
    /// A session.
    Session(SessionId),
    /// A window.
    Win(WinId),
    /// None yet: the handler itself.
    Handler(ErrhandlerId),
}

impl Target {
    fn handler(self, mpi: &Mpi) -> mpi::Result<Errhandler> {
        let id = match self {
            Target::Comm(comm) => mpi.comm_errhandler(comm)?,
            Target::Session(session) => mpi.session_errhandler(session)?,
            Target::Win(win) => mpi.win_errhandler(win)?,
            Target::Handler(handler) => handler,
        };
        registry().errhandler(id)
    }

    /// Where errors go that belong to no object: to `MPI_COMM_SELF` (MPI-5 9.3), or, as before MPI 4, to `MPI_COMM_WORLD`
    /// if the program has set no handler there.
    fn unattached(mpi: &Mpi) -> Target {
        let set = mpi.comm_errhandler(CommId::SELF).is_ok_and(|handler| handler != ErrhandlerId::FATAL);
        Target::Comm(if set { CommId::SELF } else { CommId::WORLD })
    }

    /// Is it there?
    pub fn check(self, mpi: &Mpi) -> mpi::Result<Self> {
        self.handler(mpi).map(|_| self)
    }

    /// What a handler of the program is given.
    fn handle<A: Abi>(self) -> A::Handle {
        match self {
            Target::Comm(comm) => handles::of_comm::<A>(comm),
            Target::Session(session) => handles::of_session::<A>(session),
            Target::Win(win) => handles::of_win::<A>(win),
            Target::Handler(_) => A::handle(A::C.session_null),
        }
    }

    fn name(self, mpi: &Mpi) -> String {
        match self {
            Target::Comm(comm) => name_or(mpi.comm_name(comm), "a communicator"),
            Target::Session(_) => "a session".into(),
            Target::Win(win) => name_or(mpi.win_name(win), "a window"),
            Target::Handler(_) => "a new object".into(),
        }
    }
}

/// The name that the program gave an object, or what it is.
fn name_or(name: mpi::Result<impl Into<String>>, what: &str) -> String {
    name.ok().map(Into::into).filter(|name| !name.is_empty()).unwrap_or_else(|| what.into())
}

impl<A: Abi> Clone for On<A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A: Abi> Copy for On<A> {}

impl<A: Abi> On<A> {
    /// The call belongs to no object.
    pub const WORLD: Self = On::World(PhantomData);

    fn target(self, mpi: &Mpi) -> Target {
        let target = match self {
            On::Comm(handle) => handles::comm::<A>(handle).ok().map(Target::Comm),
            On::Id(comm) => Some(mpi.window_of(comm).map_or(Target::Comm(comm), Target::Win)),
            On::Session(handle) => handles::session::<A>(handle).ok().map(Target::Session),
            On::Win(handle) => handles::win::<A>(handle).ok().map(Target::Win),
            On::Handler(handle) => handles::errhandler::<A>(handle).ok().map(Target::Handler),
            On::World(_) => None,
        };
        target.filter(|target| target.handler(mpi).is_ok()).unwrap_or_else(|| Target::unattached(mpi))
    }

    /// A null pointer is no mistake about an object: where the program has set no handler for its object, the error
    /// goes where those of no object go. (In MPICH all errors of such a communicator do.)
    fn target_of_null(self, mpi: &Mpi) -> Target {
        let target = self.target(mpi);
        let set = !matches!(target.handler(mpi), Ok(Errhandler::Fatal));
        if set { target } else { Target::unattached(mpi) }
    }
}

/// Runs the body of a C function inside the engine, and deals with its error.
#[inline(always)]
pub fn run<A: Abi>(name: &'static str, on: On<A>, body: impl FnOnce(&mut Call<A>) -> Outcome<()>) -> c_int {
    let mut call = Call::<A>::enter(name);
    match body(&mut call) {
        Ok(()) => 0,
        Err(failure) => raise(call, on, failure),
    }
}

/// As [`run`], where the body may find a better communicator for its error.
#[inline(always)]
pub fn run_on<A: Abi>(
    name: &'static str,
    body: impl FnOnce(&mut Call<A>, &mut On<A>) -> Outcome<()>,
) -> c_int {
    let mut call = Call::<A>::enter(name);
    let mut on = On::WORLD;
    match body(&mut call, &mut on) {
        Ok(()) => 0,
        Err(failure) => raise(call, on, failure),
    }
}

/// Runs the body of a C function that needs no engine: before `MPI_Init`, after `MPI_Finalize`, from any thread.
pub fn anytime<A: Abi>(name: &'static str, body: impl FnOnce() -> Outcome<()>) -> c_int {
    mpi::core::enter_call(name);
    body().map_or_else(|failure| raise_anywhere::<A>(name, On::WORLD, failure), |()| 0)
}

/// With no engine there is no object whose handler could hear of an error. Then it is for the initial one, which ends
/// the process (MPI-5 9.3), unless the call names another.
#[cold]
#[inline(never)]
pub fn raise_anywhere<A: Abi>(name: &'static str, on: On<A>, failure: Failure) -> c_int {
    if phase() != Phase::Closed {
        return run::<A>(name, on, |_| Err(failure));
    }
    let (code, text) = match named(name, failure) {
        Failure::Error(error) => {
            let code = code::<A>(error.class);
            remember(code, format!("{name}: {}", error.cause()));
            (code, format!("{} ({})", error.cause(), error.class.name()))
        }
        Failure::Callback(code) => (code, format!("a callback gave code {code}")),
    };
    let handler = match on {
        On::Handler(handle) => handles::errhandler::<A>(handle).and_then(|id| registry().errhandler(id)).ok(),
        _ => None,
    };
    match handler {
        Some(Errhandler::Return) => code,
        Some(Errhandler::User(function)) => {
            callbacks::error_handler::<A>(function, A::handle(A::C.session_null), code);
            code
        }
        _ => {
            eprintln!("banyan: {name} failed: {text}");
            std::process::exit(1)
        }
    }
}

#[cold]
#[inline(never)]
fn raise<A: Abi>(call: Call<A>, on: On<A>, failure: Failure) -> c_int {
    let target = match &failure {
        Failure::Error(error) if matches!(error.cause(), Cause::NullPointer) => on.target_of_null(&call),
        _ => on.target(&call),
    };
    match named(call.name, failure) {
        Failure::Error(error) => {
            let code = code::<A>(error.class);
            remember(code, format!("{}: {}", call.name, error.cause()));
            deliver(call, target, code, || {
                let_root_speak(&error);
                format!("{} ({}): {}", error.class.text(), error.class.name(), error.cause())
            })
        }
        Failure::Callback(code) => deliver(call, target, code, || format!("a callback gave code {code}")),
    }
}

/// An error about a null pointer says which argument that is.
fn named(name: &'static str, failure: Failure) -> Failure {
    match failure {
        Failure::Error(error) if matches!(error.cause(), Cause::NullPointer) => {
            Failure::Error(null_words(name).map_or(error, |words| MpiError::new(ErrorClass::Arg, words)))
        }
        failure => failure,
    }
}

/// An error that ends everything, of which only the root can say why: it should be the one who does.
fn let_root_speak(error: &MpiError) {
    if matches!(error.cause(), Cause::AtRoot { .. }) {
        std::thread::sleep(ROOT_PATIENCE);
    }
}

thread_local! {
    static LAST: RefCell<Option<(c_int, String)>> = const { RefCell::new(None) };
}

/// Codes are those of classes, which programs compare with; what happened is kept beside.
fn remember(code: c_int, what: String) {
    LAST.set(Some((code, what)));
}

/// What the last error of this thread was about, if it had this code.
pub fn last_with(code: c_int) -> Option<String> {
    LAST.with_borrow(|last| last.as_ref().filter(|(of, _)| *of == code).map(|(_, what)| what.clone()))
}

/// Gives an error code to the handler of an object.
pub fn deliver<A: Abi>(
    mut call: Call<A>,
    target: Target,
    code: c_int,
    text: impl FnOnce() -> String,
) -> c_int {
    match target.handler(&call).unwrap_or(Errhandler::Fatal) {
        Errhandler::Return => code,
        Errhandler::User(function) => {
            drop(call);
            callbacks::error_handler::<A>(function, target.handle::<A>(), code);
            code
        }
        handler @ (Errhandler::Fatal | Errhandler::Abort) => {
            let why = format!("{} on {} failed: {}", call.name, target.name(&call), text());
            match target {
                Target::Comm(comm) if handler == Errhandler::Abort => call.end_with(Some(comm)),
                _ => call.end_with(None),
            }
            call.abort(code, &why)
        }
    }
}

/// A function that is not there yet: raised through the handler of its communicator, if it has one.
#[cold]
#[inline(never)]
pub fn unsupported<A: Abi>(name: &'static str, comm: Option<A::Handle>) -> c_int {
    let on = comm.map_or(On::WORLD, On::Comm);
    run::<A>(name, on, |_| {
        fail(ErrorClass::UnsupportedOperation, format!("{name} is not implemented in this version of Banyan"))
    })
}

/// The same for files, whose errors go to the caller unless the program wants it otherwise.
#[cold]
#[inline(never)]
pub fn unsupported_file<A: Abi>(name: &'static str) -> c_int {
    let code = code::<A>(ErrorClass::UnsupportedOperation);
    remember(code, format!("{name} is not implemented in this version of Banyan"));
    code
}

/// A call that needs the engine while there is none.
#[cold]
#[inline(never)]
pub fn outside(name: &str) -> ! {
    let when = if life::world() == World::Finalized { "after MPI_Finalize" } else { "before MPI_Init" };
    eprintln!("banyan: {name} was called {when}");
    std::process::exit(1)
}

macro_rules! class_codes {
    ($($class:ident $field:ident),* $(,)?) => {
        /// The code of a class in an interface. Classes that the program added come after the last one of
        /// the standard.
        #[inline]
        pub fn code<A: Abi>(class: ErrorClass) -> c_int {
            let code = match class {
                ErrorClass::Success => 0,
                $(ErrorClass::$class => A::C.$field,)*
                ErrorClass::User(n) => A::C.err_lastcode + 1 + i64::from(n),
            };
            code as c_int
        }

        /// The class of a code; `None` if no class has it.
        pub fn class_of<A: Abi>(code: c_int) -> Option<ErrorClass> {
            let wide = i64::from(code);
            if wide == 0 {
                return Some(ErrorClass::Success);
            }
            $(if wide == A::C.$field { return Some(ErrorClass::$class); })*
            u32::try_from(wide - A::C.err_lastcode - 1).ok().map(ErrorClass::User)
        }
    };
}

class_codes! {
    Buffer err_buffer, Count err_count, Type err_type, Tag err_tag, Comm err_comm, Rank err_rank,
    Request err_request, Root err_root, Group err_group, Op err_op, Topology err_topology, Dims err_dims,
    Arg err_arg, Unknown err_unknown, Truncate err_truncate, Other err_other, Intern err_intern,
    InStatus err_in_status, Pending err_pending, Access err_access, Amode err_amode, Assert err_assert,
    BadFile err_bad_file, Base err_base, Conversion err_conversion, Disp err_disp,
    DupDatarep err_dup_datarep, FileExists err_file_exists, FileInUse err_file_in_use, File err_file,
    InfoKey err_info_key, InfoNokey err_info_nokey, InfoValue err_info_value, Info err_info, Io err_io,
    Keyval err_keyval, Locktype err_locktype, Name err_name, NoMem err_no_mem, NotSame err_not_same,
    NoSpace err_no_space, NoSuchFile err_no_such_file, Port err_port, Quota err_quota,
    ReadOnly err_read_only, RmaAttach err_rma_attach, RmaConflict err_rma_conflict, RmaRange err_rma_range,
    RmaShared err_rma_shared, RmaSync err_rma_sync, RmaFlavor err_rma_flavor, Service err_service,
    Size err_size, Spawn err_spawn, UnsupportedDatarep err_unsupported_datarep,
    UnsupportedOperation err_unsupported_operation, Win err_win, ProcAborted err_proc_aborted,
    ValueTooLarge err_value_too_large, Session err_session, Errhandler err_errhandler, Abi err_abi,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpich::Mpich;
    use crate::standard::Standard;

    #[test]
    fn every_class_has_its_own_code_in_both_interfaces() {
        for class in ErrorClass::ALL.iter().copied().chain([ErrorClass::User(0), ErrorClass::User(9)]) {
            assert_eq!(class_of::<Mpich>(code::<Mpich>(class)), Some(class));
            assert_eq!(class_of::<Standard>(code::<Standard>(class)), Some(class));
            assert_eq!(code::<Standard>(class), class.code());
        }
    }

    #[test]
    fn codes_are_the_published_ones() {
        assert_eq!(code::<Mpich>(ErrorClass::Truncate), 14);
        assert_eq!(code::<Standard>(ErrorClass::Truncate), 15);
        assert_eq!(ErrorClass::NoSuchFile.name(), "MPI_ERR_NO_SUCH_FILE");
    }
}
