//! Start and end, and the memory that processes allocate together.
use super::*;
use crate::env;
use crate::handles;
use crate::life::{World, world};
use crate::{args, errors};
use mpi::ErrorClass;
use pgas::core::RegionId;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// Has `ARMCI_Init` called `MPI_Init`, so that the exit calls `MPI_Finalize`?
static BEGAN_MPI: AtomicBool = AtomicBool::new(false);

extern "C" fn end_mpi<A: Abi>() {
    if !Mpi::aborts() && world() == World::Active && BEGAN_MPI.swap(false, Relaxed) {
        env::finalize::<A>();
    }
}

/// MPI's start, if the program has left it to ARMCI.
fn begin_mpi<A: Abi>(name: &str, level: Option<c_int>) {
    match world() {
        World::Active => {}
        World::Finalized => errors::outside(name),
        World::Before => {
            let level = crate::life::Level::at_least::<A>(level.unwrap_or(A::C.thread_single as c_int));
            if let Err(error) = crate::life::begin_world(level) {
                eprintln!("banyan: {name}: MPI's start {error}");
                std::process::exit(1)
            }
            BEGAN_MPI.store(true, Relaxed);
            args::at_process_exit(end_mpi::<A>);
        }
    }
}

fn begin<A: Abi>(name: &'static str, comm: Option<usize>, level: Option<c_int>) {
    begin_mpi::<A>(name, level);
    let mut inside = Inside::enter();
    if let Some(session) = inside.session() {
        session.users += 1;
        return;
    }
    let mut call = Call::<A>::enter(name);
    let begun =
        comm.map_or(Ok(CommId::WORLD), |comm| handles::comm::<A>(handle::<A>(comm))).and_then(|comm| {
            let mut driver = OfCall(&mut call);
            let mut core = Core::new(&mut driver, comm)?;
            let domains = core.domains(&mut driver)?;
            let messages = driver.call(|mpi| mpi.comm_dup(core.comm()))?;
            Ok(Session {
                core,
                users: 1,
                default: GroupId::WORLD,
                domains,
                messages,
                node: None,
                firsts: None,
                heard: HashMap::new(),
                told: HashMap::new(),
            })
        });
    match begun {
        Ok(session) => *inside.session() = Some(session),
        Err(error) => end(&mut call, name, &error),
    }
}

/// A handle of MPI, which is an integer or a pointer.
fn handle<A: Abi>(word: usize) -> A::Handle {
    match size_of::<A::Handle>() {
        4 => A::handle((word as i32).into()),
        _ => A::handle(word as i64),
    }
}

/// The other way round.
pub(super) fn word<A: Abi>(handle: A::Handle) -> usize {
    A::bits(handle) as usize
}

pub(super) extern "C" fn init<A: Abi>() -> c_int {
    begin::<A>("ARMCI_Init", None, None);
    0
}

pub(super) extern "C" fn init_args<A: Abi>(_argc: Ptr<c_int>, _argv: Opaque) -> c_int {
    begin::<A>("ARMCI_Init_args", None, None);
    0
}

/// Global Arrays takes 1 for "it is so", and 0 for "it cannot be done".
pub(super) extern "C" fn init_mpi_comm<A: Abi>(comm: usize) -> c_int {
    begin::<A>("ARMCI_Init_mpi_comm", Some(comm), None);
    1
}

pub(super) extern "C" fn init_thread<A: Abi>(requested: c_int) -> c_int {
    begin::<A>("ARMCI_Init_thread", None, Some(requested));
    0
}

pub(super) extern "C" fn init_thread_comm<A: Abi>(requested: c_int, comm: usize) -> c_int {
    begin::<A>("ARMCI_Init_thread_comm", Some(comm), Some(requested));
    0
}

pub(super) extern "C" fn initialized<A: Abi>() -> c_int {
    Inside::enter().session().is_some().into()
}

pub(super) extern "C" fn finalize<A: Abi>() -> c_int {
    let name = "ARMCI_Finalize";
    let mut inside = Inside::enter();
    let Some(session) = inside.session() else { outside(name) };
    session.users -= 1;
    if session.users > 0 {
        return 0;
    }
    let Session { core, messages, .. } = inside.session().take().expect("asked above");
    let mut call = Call::<A>::enter(name);
    let mut driver = OfCall(&mut call);
    let ended = core.end(&mut driver).and_then(|()| driver.call(|mpi| mpi.comm_free(messages)));
    match ended {
        Ok(()) => 0,
        Err(error) => end(&mut call, name, &error),
    }
}

/// What is left is freed by the kernel: nothing lies about that another process would find.
pub(super) extern "C" fn cleanup<A: Abi>() {}

pub(super) extern "C" fn error<A: Abi>(message: Text, code: c_int) {
    let message = if message.is_null() { String::new() } else { message.read().unwrap_or_default() };
    stop::<A>("ARMCI_Error", &message, code)
}

pub(super) extern "C" fn msg_abort<A: Abi>(code: c_int) {
    stop::<A>("armci_msg_abort", "", code)
}

fn stop<A: Abi>(name: &'static str, message: &str, code: c_int) {
    if engine::phase() == Phase::Closed {
        eprintln!("banyan: {name}({message}, {code})");
        std::process::exit(if code == 0 { 1 } else { code })
    }
    let mut call = Call::<A>::enter(name);
    call.abort(if code == 0 { 1 } else { code }, &format!("{name}({message}, {code})"))
}

pub(super) extern "C" fn msg_init<A: Abi>(_argc: Ptr<c_int>, _argv: Opaque) {
    begin_mpi::<A>("armci_msg_init", None);
    // Messages work before ARMCI_Init, and no longer than until armci_msg_finalize.
    begin::<A>("armci_msg_init", None, None);
}

pub(super) extern "C" fn msg_finalize<A: Abi>() {
    if Inside::enter().session().is_some() {
        finalize::<A>();
    }
    if world() == World::Active {
        BEGAN_MPI.store(false, Relaxed);
        env::finalize::<A>();
    }
}

fn allocate<A: Abi>(
    name: &'static str,
    group: Option<Ptr<c_int>>,
    pointers: Ptr<usize>,
    bytes: c_long,
) -> c_int {
    with::<A, _>(name, |session, driver| {
        let group = group.map_or(Ok(GroupId::WORLD), group_of)?;
        let bytes = u64::try_from(bytes)
            .map_err(|_| MpiError::new(ErrorClass::Size, format!("{bytes} bytes are allocated")))?;
        pointers.check()?;
        let region = session.core.malloc(driver, group, bytes)?;
        pointers.set_list(session.core.addresses(region)?)
    });
    0
}

fn give_back<A: Abi>(name: &'static str, group: Option<Ptr<c_int>>, pointer: BufMut) -> c_int {
    with::<A, _>(name, |session, driver| {
        let group = group.map_or(Ok(GroupId::WORLD), group_of)?;
        session.core.wait_all(driver)?;
        let region: RegionId = session.core.allocation_at(driver, group, pointer.addr())?;
        session.core.free(driver, region)
    });
    0
}

pub(super) extern "C" fn malloc<A: Abi>(pointers: Ptr<usize>, bytes: c_long) -> c_int {
    allocate::<A>("ARMCI_Malloc", None, pointers, bytes)
}

pub(super) extern "C" fn malloc_group<A: Abi>(
    pointers: Ptr<usize>,
    bytes: c_long,
    group: Ptr<c_int>,
) -> c_int {
    allocate::<A>("ARMCI_Malloc_group", Some(group), pointers, bytes)
}

/// There is one kind of memory.
pub(super) extern "C" fn malloc_memdev<A: Abi>(pointers: Ptr<usize>, bytes: c_long, _device: Text) -> c_int {
    allocate::<A>("ARMCI_Malloc_memdev", None, pointers, bytes)
}

pub(super) extern "C" fn malloc_group_memdev<A: Abi>(
    pointers: Ptr<usize>,
    bytes: c_long,
    group: Ptr<c_int>,
    _device: Text,
) -> c_int {
    allocate::<A>("ARMCI_Malloc_group_memdev", Some(group), pointers, bytes)
}

pub(super) extern "C" fn free<A: Abi>(pointer: BufMut) -> c_int {
    give_back::<A>("ARMCI_Free", None, pointer)
}

pub(super) extern "C" fn free_memdev<A: Abi>(pointer: BufMut) -> c_int {
    give_back::<A>("ARMCI_Free_memdev", None, pointer)
}

pub(super) extern "C" fn free_group<A: Abi>(pointer: BufMut, group: Ptr<c_int>) -> c_int {
    give_back::<A>("ARMCI_Free_group", Some(group), pointer)
}

pub(super) extern "C" fn malloc_local<A: Abi>(bytes: c_long) -> BufMut {
    args::raw_allocate(bytes)
}

pub(super) extern "C" fn free_local<A: Abi>(pointer: BufMut) -> c_int {
    args::release(pointer);
    0
}

/// Memory is always as processes see it.
pub(super) extern "C" fn access_begin<A: Abi>(_pointer: BufMut) {}

/// As `access_begin`.
pub(super) extern "C" fn access_end<A: Abi>(_pointer: BufMut) {
    std::sync::atomic::fence(SeqCst);
}
