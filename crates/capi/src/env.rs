//! Start and end, versions, names, clocks and memory.
use crate::abi::Abi;
use crate::args::{self, BufMut, Opaque, Ptr, TextOut};
use crate::attr;
use crate::engine::Call;
use crate::errors::{On, Outcome, anytime, code, run};
use crate::handles;
use crate::life::{self, Level, World};
use mpi::ErrorClass;
use mpi::core::{CommId, Mpi, Object, Resource, registry};
use std::ffi::c_int;
use std::sync::OnceLock;
use std::thread::ThreadId;

/// The version of the standard whose names this library has. What is missing says so when it is called.
const VERSION: (c_int, c_int) = (5, 0);

/// The thread that called `MPI_Init`, and the thread level it got.
static MAIN: OnceLock<(ThreadId, Level)> = OnceLock::new();

fn start(name: &'static str, level: Level) -> c_int {
    match life::begin_world(level) {
        Ok(()) => {
            let _ = MAIN.set((std::thread::current().id(), level));
            0
        }
        Err(error) => {
            eprintln!("banyan: {name} {error}");
            std::process::exit(1)
        }
    }
}

/// `MPI_Init`
pub fn init<A: Abi>(_argc: Ptr<c_int>, _argv: Opaque) -> c_int {
    start("MPI_Init", Level::Single)
}

/// `MPI_Init_thread`
pub fn init_thread<A: Abi>(_argc: Ptr<c_int>, _argv: Opaque, required: c_int, provided: Ptr<c_int>) -> c_int {
    let level = Level::at_least::<A>(required);
    let result = start("MPI_Init_thread", level);
    if provided.set(level.value::<A>()).is_err() {
        return code::<A>(ErrorClass::Arg);
    }
    result
}

/// `MPI_Finalize`
pub fn finalize<A: Abi>() -> c_int {
    let result = run::<A>("MPI_Finalize", On::WORLD, |call| {
        // As if MPI_COMM_SELF were freed first (MPI-5 11.2.4): its delete callbacks may still communicate.
        attr::delete_all(call, Object::Comm(CommId::SELF))?;
        attr::delete_all(call, Object::Comm(CommId::WORLD))?;
        if life::had_sessions() {
            return Ok(()); // they may go on, and others wait for what they do
        }
        Ok(call.part()?)
    });
    if result == 0 {
        life::end_world();
    }
    result
}

/// Stores what can be asked at any time.
fn tell<A: Abi>(body: impl FnOnce() -> Outcome<()>) -> c_int {
    body().map_or(code::<A>(ErrorClass::Arg), |()| 0)
}

/// `MPI_Initialized`
pub fn initialized<A: Abi>(flag: Ptr<c_int>) -> c_int {
    tell::<A>(|| Ok(flag.set((life::world() != World::Before).into())?))
}

/// `MPI_Finalized`
pub fn finalized<A: Abi>(flag: Ptr<c_int>) -> c_int {
    tell::<A>(|| Ok(flag.set((life::world() == World::Finalized).into())?))
}

/// `MPI_Query_thread`
pub fn query_thread<A: Abi>(provided: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Query_thread", On::WORLD, |_| {
        let level = MAIN.get().map_or(Level::Single, |(_, level)| *level);
        Ok(provided.set(level.value::<A>())?)
    })
}

/// `MPI_Is_thread_main`
pub fn is_thread_main<A: Abi>(flag: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Is_thread_main", On::WORLD, |_| {
        let main = MAIN.get().is_some_and(|(thread, _)| *thread == std::thread::current().id());
        Ok(flag.set(main.into())?)
    })
}

/// `MPI_Abort`
pub fn abort<A: Abi>(comm: A::Handle, errorcode: c_int) -> c_int {
    let mut call = Call::<A>::enter("MPI_Abort");
    let id = handles::comm::<A>(comm).ok();
    let on = id.and_then(|id| call.comm_name(id).ok().map(String::from));
    let on = on.filter(|name| !name.is_empty()).unwrap_or_else(|| "a communicator".to_string());
    call.end_with(id);
    call.abort(errorcode, &format!("MPI_Abort({on}, {errorcode})"))
}

/// `MPI_Get_version`
pub fn get_version<A: Abi>(version: Ptr<c_int>, subversion: Ptr<c_int>) -> c_int {
    tell::<A>(|| {
        version.set(VERSION.0)?;
        Ok(subversion.set(VERSION.1)?)
    })
}

/// `MPI_Abi_get_version`
pub fn abi_get_version<A: Abi>(abi_major: Ptr<c_int>, abi_minor: Ptr<c_int>) -> c_int {
    tell::<A>(|| {
        abi_major.set(A::VERSION.0)?;
        Ok(abi_minor.set(A::VERSION.1)?)
    })
}

/// `MPI_Abi_get_info`
pub fn abi_get_info<A: Abi>(info: Ptr<A::Handle>) -> c_int {
    anytime::<A>("MPI_Abi_get_info", || {
        info.check()?;
        let id = registry().info_create();
        for key in ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"] {
            registry().info_set(id, key, "8")?;
        }
        Ok(info.set(handles::of_info::<A>(id))?)
    })
}

/// `MPI_Get_hw_resource_info`: which kinds of hardware there are to be told apart, and whether this process belongs to
/// just one piece of each.
pub fn get_hw_resource_info<A: Abi>(hw_info: Ptr<A::Handle>) -> c_int {
    anytime::<A>("MPI_Get_hw_resource_info", || {
        hw_info.check()?;
        let belongs = |kind: Resource| if kind.of_this_process().is_some() { "true" } else { "false" };
        let pairs = Resource::ALL.map(|kind| (kind.name().to_string(), belongs(kind).to_string()));
        let id = registry().info_with(pairs.into());
        Ok(hw_info.set(handles::of_info::<A>(id))?)
    })
}

/// `MPI_Get_library_version`
pub fn get_library_version<A: Abi>(version: TextOut, resultlen: Ptr<c_int>) -> c_int {
    tell::<A>(|| {
        let len = version.write(Mpi::library_version(), A::C.max_library_version_string as usize)?;
        Ok(resultlen.set(len as c_int)?)
    })
}

/// `MPI_Get_processor_name`
pub fn get_processor_name<A: Abi>(name: TextOut, resultlen: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Get_processor_name", On::WORLD, |call| {
        let len = name.write(&call.processor_name(), A::C.max_processor_name as usize)?;
        Ok(resultlen.set(len as c_int)?)
    })
}

/// `MPI_Wtime`
pub fn wtime<A: Abi>() -> f64 {
    args::monotonic_seconds()
}

/// `MPI_Wtick`
pub fn wtick<A: Abi>() -> f64 {
    1e-9
}

/// `MPI_Pcontrol`: there is no profiler to control.
pub fn pcontrol<A: Abi>(_level: c_int, _rest: Opaque) -> c_int {
    0
}

/// `MPI_Alloc_mem`
pub fn alloc_mem<A: Abi>(size: i64, info: A::Handle, baseptr: BufMut) -> c_int {
    run::<A>("MPI_Alloc_mem", On::WORLD, |_| {
        handles::info_or_null::<A>(info)?;
        Ok(baseptr.store(args::allocate(args::not_negative("size", size)?)?)?)
    })
}

/// `MPI_Free_mem`
pub fn free_mem<A: Abi>(base: BufMut) -> c_int {
    run::<A>("MPI_Free_mem", On::WORLD, |_| {
        args::release(base);
        Ok(())
    })
}
