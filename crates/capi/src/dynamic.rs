//! Dynamic processes: spawned jobs, ports, names of services.
use crate::abi::Abi;
use crate::args::{self, In, Opaque, Ptr, Text, TextOut};
use crate::comm::make;
use crate::engine::Call;
use crate::errors::{Failure, On, Outcome, code, run};
use crate::handles;
use mpi::core::{CommId, Command, Meet, registry};
use mpi::{Cause, ErrorClass, MpiError};
use std::ffi::c_int;
use std::time::Duration;

/// `MPI_Open_port`
pub fn open_port<A: Abi>(info: A::Handle, port_name: TextOut) -> c_int {
    run::<A>("MPI_Open_port", On::WORLD, |call| {
        handles::info_or_null::<A>(info)?;
        let name = call.open_port()?;
        port_name.write(&name, A::C.max_port_name as usize)?;
        Ok(())
    })
}

/// `MPI_Close_port`
pub fn close_port<A: Abi>(port_name: Text) -> c_int {
    run::<A>("MPI_Close_port", On::WORLD, |call| Ok(call.close_port(&port_name.read()?)?))
}

/// `MPI_Publish_name`
pub fn publish_name<A: Abi>(service_name: Text, info: A::Handle, port_name: Text) -> c_int {
    run::<A>("MPI_Publish_name", On::WORLD, |call| {
        handles::info_or_null::<A>(info)?;
        let (service, port) = (service_name.read()?, port_name.read()?);
        call.until(|call| call.may_ask_launcher(ErrorClass::Service))?;
        Ok(call.publish(&service, &port)?)
    })
}

/// `MPI_Unpublish_name`
pub fn unpublish_name<A: Abi>(service_name: Text, info: A::Handle, _port_name: Text) -> c_int {
    run::<A>("MPI_Unpublish_name", On::WORLD, |call| {
        handles::info_or_null::<A>(info)?;
        let service = service_name.read()?;
        call.until(|call| call.may_ask_launcher(ErrorClass::Service))?;
        Ok(call.unpublish(&service)?)
    })
}

/// `MPI_Lookup_name`
pub fn lookup_name<A: Abi>(service_name: Text, info: A::Handle, port_name: TextOut) -> c_int {
    run::<A>("MPI_Lookup_name", On::WORLD, |call| {
        handles::info_or_null::<A>(info)?;
        let service = service_name.read()?;
        call.until(|call| call.may_ask_launcher(ErrorClass::Name))?;
        let port = call.look_up(&service)?;
        port_name.write(&port, A::C.max_port_name as usize)?;
        Ok(())
    })
}

/// Meets another job; how counts at the root only.
fn meet<A: Abi>(
    call: &mut Call<A>,
    comm: A::Handle,
    root: c_int,
    newcomm: Ptr<A::Handle>,
    how: Meet<'_>,
) -> Outcome<()> {
    newcomm.set(A::handle(A::C.comm_null))?;
    let id = handles::comm::<A>(comm)?;
    let asks = matches!(how, Meet::Spawn(_)) || call.comm_size(id)? > 1;
    let how = if asks && is_root(call, id, root)? { when_free(call, how) } else { how };
    let made = call.start_meeting(id, root, how)?;
    let new = make(call, made)?;
    Ok(newcomm.set(handles::of_comm_or_null::<A>(new))?)
}

/// The root needs its launcher, to start processes or for cards of others. That may be busy with an earlier spawn, and meanwhile other
/// threads go on.
fn when_free<'m, A: Abi>(call: &mut Call<A>, how: Meet<'m>) -> Meet<'m> {
    let class = if matches!(how, Meet::Spawn(_)) { ErrorClass::Spawn } else { ErrorClass::Port };
    match call.until(|call| call.may_ask_launcher(class)) {
        Ok(()) => how,
        Err(error) => Meet::Not(error),
    }
}

fn is_root<A: Abi>(call: &Call<A>, comm: CommId, root: c_int) -> Outcome<bool> {
    Ok(i64::from(call.comm_rank(comm)?) == i64::from(root))
}

/// What is wrong at the root must be told to the others, who would wait for it.
fn or_wrong<T: Default>(read: Result<T, MpiError>) -> (T, Option<MpiError>) {
    match read {
        Ok(value) => (value, None),
        Err(error) => (T::default(), Some(error)),
    }
}

/// The port, which means something at the root only.
fn port_at_root<A: Abi>(port_name: Text, info: A::Handle, at_root: bool) -> Result<String, MpiError> {
    handles::info_or_null::<A>(info)?;
    if at_root { port_name.read() } else { Ok(String::new()) }
}

/// `MPI_Comm_accept`
pub fn comm_accept<A: Abi>(
    port_name: Text,
    info: A::Handle,
    root: c_int,
    comm: A::Handle,
    newcomm: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Comm_accept", On::Comm(comm), |call| {
        let at_root = is_root(call, handles::comm::<A>(comm)?, root)?;
        let (port, wrong) = or_wrong(port_at_root::<A>(port_name, info, at_root));
        let how = wrong.map_or(Meet::Accept(&port), Meet::Not);
        meet(call, comm, root, newcomm, how)
    })
}

/// `MPI_Comm_connect`
pub fn comm_connect<A: Abi>(
    port_name: Text,
    info: A::Handle,
    root: c_int,
    comm: A::Handle,
    newcomm: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Comm_connect", On::Comm(comm), |call| {
        let at_root = is_root(call, handles::comm::<A>(comm)?, root)?;
        let (port, wrong) = or_wrong(port_at_root::<A>(port_name, info, at_root));
        let how = match timeout::<A>(info) {
            Ok(given) => Meet::Connect(&port, given.unwrap_or_else(|| call.connect_timeout())),
            Err(error) => Meet::Not(error),
        };
        let how = wrong.map_or(how, Meet::Not);
        meet(call, comm, root, newcomm, how)
    })
}

/// Seconds that `MPI_Comm_connect` waits, if the info object says so; 0: for ever.
fn timeout<A: Abi>(info: A::Handle) -> Result<Option<Option<Duration>>, MpiError> {
    let Some(info) = handles::info_or_null::<A>(info)? else { return Ok(None) };
    let all = registry();
    let Some(text) = all.info_get(info, "timeout")? else { return Ok(None) };
    let seconds = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let wrong = || MpiError::new(ErrorClass::Info, format!("timeout: '{text}' is not a number of seconds"));
    let seconds = seconds.ok_or_else(wrong)?;
    Ok(Some(Some(seconds).filter(|seconds| !seconds.is_zero())))
}

/// `MPI_Comm_join`
pub fn comm_join<A: Abi>(fd: c_int, intercomm: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Comm_join", On::Id(CommId::SELF), |call| {
        let socket = args::socket(fd)?;
        meet(call, A::handle(A::C.comm_self), 0, intercomm, Meet::Join(socket))
    })
}

/// `MPI_Comm_spawn`
#[allow(clippy::too_many_arguments)]
pub fn comm_spawn<A: Abi>(
    command: Text,
    argv: Opaque,
    maxprocs: c_int,
    info: A::Handle,
    root: c_int,
    comm: A::Handle,
    intercomm: Ptr<A::Handle>,
    array_of_errcodes: Ptr<c_int>,
) -> c_int {
    run::<A>("MPI_Comm_spawn", On::Comm(comm), |call| {
        let at_root = is_root(call, handles::comm::<A>(comm)?, root)?;
        let commands = match at_root {
            true => command_of::<A>(command, argv, maxprocs, info).map(|command| vec![command]),
            false => Ok(Vec::new()),
        };
        spawn(call, comm, root, intercomm, commands, array_of_errcodes)
    })
}

/// `MPI_Comm_spawn_multiple`
#[allow(clippy::too_many_arguments)]
pub fn comm_spawn_multiple<A: Abi>(
    count: c_int,
    array_of_commands: Opaque,
    array_of_argv: Opaque,
    array_of_maxprocs: In<c_int>,
    array_of_info: In<A::Handle>,
    root: c_int,
    comm: A::Handle,
    intercomm: Ptr<A::Handle>,
    array_of_errcodes: Ptr<c_int>,
) -> c_int {
    run::<A>("MPI_Comm_spawn_multiple", On::Comm(comm), |call| {
        let command = |index: usize| {
            let (program, argv) = (array_of_commands.text(index)?, array_of_argv.list(index)?);
            let (processes, info) = (array_of_maxprocs.at(index)?, array_of_info.at(index)?);
            command_of::<A>(program, argv, processes, info)
        };
        let commands = match is_root(call, handles::comm::<A>(comm)?, root)? {
            true if count <= 0 => Err(MpiError::new(ErrorClass::Arg, format!("{count} commands"))),
            true => (0..count as usize).map(command).collect(),
            false => Ok(Vec::new()),
        };
        spawn(call, comm, root, intercomm, commands, array_of_errcodes)
    })
}

fn command_of<A: Abi>(
    program: Text,
    argv: Opaque,
    processes: c_int,
    info: A::Handle,
) -> Result<Command, MpiError> {
    if processes < 0 {
        return Err(MpiError::new(ErrorClass::Arg, format!("{processes} processes")));
    }
    let info = handles::info_or_null::<A>(info)?;
    let hints = info.map_or_else(|| Ok(Vec::new()), |info| registry().info_pairs(info))?;
    Ok(Command { program: program.read()?, args: argv.texts()?, processes: processes as u32, hints })
}

/// Spawns; the codes say of each process whether it was started: all of them, or none.
fn spawn<A: Abi>(
    call: &mut Call<A>,
    comm: A::Handle,
    root: c_int,
    intercomm: Ptr<A::Handle>,
    commands: Result<Vec<Command>, MpiError>,
    codes: Ptr<c_int>,
) -> Outcome<()> {
    let (commands, wrong) = or_wrong(commands);
    let how = wrong.map_or(Meet::Spawn(&commands), Meet::Not);
    let started = meet(call, comm, root, intercomm, how);
    if !codes.is_null() {
        let value = if started.is_ok() { 0 } else { code::<A>(ErrorClass::Spawn) };
        // Others than the root do not know how many were wanted, but how many there are, or hear it with the error.
        let processes = match &started {
            _ if !commands.is_empty() => Command::total(&commands),
            Ok(()) => call.comm_remote_size(handles::comm::<A>(intercomm.get()?)?)?,
            Err(Failure::Error(error)) => wanted(error),
            Err(_) => None,
        };
        codes.set_list((0..processes.unwrap_or(0)).map(|_| value))?;
    }
    started
}

/// How many processes the root wanted, who says that it failed.
fn wanted(error: &MpiError) -> Option<u32> {
    match error.cause() {
        Cause::AtRoot { processes, .. } => *processes,
        _ => None,
    }
}
