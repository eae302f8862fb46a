//! Performance variables of the tools interface: the counters of `--stats`. All are counted all the time and only read.
use crate::abi::Abi;
use crate::args::{Buf, BufMut, Opaque, Ptr, Text, TextOut};
use crate::engine;
use crate::handles;
use crate::tool::{ALL_HANDLES, Told, ToolError, Tools, find, index, put, put_text, told};
use mpi::Stat;
use mpi::core::TypeId;
use std::ffi::c_int;

/// All of them. (Whether counters are final is for reports.)
pub fn all() -> impl Iterator<Item = Stat> {
    Stat::ALL.iter().copied().filter(|stat| *stat != Stat::Complete)
}

/// What a counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Counter,
    Level,
    HighWaterMark,
    Aggregate,
    Timer,
}

impl Class {
    fn of(stat: Stat) -> Class {
        use Stat::*;
        match stat {
            Connections | ConnectionsRemote | ConnectionsShared | ConnectionsSockets | ConnectionsRdma
            | ConnectionsServers | ConnectionsXrc | PinnedBytesPeak | PlaceWaitLongest
            | FirstMessageLongest => Class::HighWaterMark,
            OpenShared | OpenSockets | OpenRdma | RdmaDevice | ConnectPolicy | ConnectReason
            | RegisteredBytes | Opening | Closing | MappedBytes | TouchedBytes | SocketBytes
            | PinnedBytes => Class::Level,
            FirstMessageSum | QpCreate | QpReady | BytesSent | DirectBytes | CommonBytes | ExchangeBytes => {
                Class::Aggregate
            }
            InitLoad | InitPmi | InitDevice | InitFence | InitCreate | InitExchange | InitConnect
            | InitRest | InitTotal => Class::Timer,
            Failed | PairsDirect | PairsIndirect | ConnectionsAhead | ConnectionsAheadUsed
            | ConnectedTogether | Handshakes | Retransmits | Evictions | Reopenings | DeviceRefusals
            | PlaceWaits | FirstMessages | DatagramsDropped | Strangers | Repeated | EagerSent
            | RendezvousSent | CardsHere | CardsAsked | ExchangePuts | ExchangeGets | ExchangeRanges
            | OperationsServed | DirectCollectives | CommonCollectives | Registrations
            | RegistrationsKept | Complete => Class::Counter,
        }
    }

    fn value<A: Abi>(self) -> c_int {
        let value = match self {
            Class::Counter => A::C.t_pvar_class_counter,
            Class::Level => A::C.t_pvar_class_level,
            Class::HighWaterMark => A::C.t_pvar_class_highwatermark,
            Class::Aggregate => A::C.t_pvar_class_aggregate,
            Class::Timer => A::C.t_pvar_class_timer,
        };
        value as c_int
    }
}

/// The category that a counter is in.
pub fn category(stat: Stat) -> &'static str {
    use Stat::*;
    match stat {
        MappedBytes | TouchedBytes | CommonBytes | SocketBytes | RegisteredBytes | PinnedBytes
        | PinnedBytesPeak => "memory",
        EagerSent | RendezvousSent | BytesSent | DirectCollectives | DirectBytes | CommonCollectives
        | OperationsServed => "messages",
        _ if stat.phase().is_some() => "init",
        _ => "connections",
    }
}

/// `MPI_T_pvar_get_num`
pub fn t_pvar_get_num<A: Abi>(num_pvar: Ptr<c_int>) -> c_int {
    told::<A>(|_| {
        put(num_pvar, all().count() as c_int);
        Ok(())
    })
}

/// `MPI_T_pvar_get_index`
pub fn t_pvar_get_index<A: Abi>(name: Text, var_class: c_int, pvar_index: Ptr<c_int>) -> c_int {
    told::<A>(|_| {
        let of_class = |stat: Stat| if Class::of(stat).value::<A>() == var_class { stat.key() } else { "" };
        put(pvar_index, find(name, all().map(of_class))?);
        Ok(())
    })
}

/// `MPI_T_pvar_get_info`
#[allow(clippy::too_many_arguments)] // the standard's own list
pub fn t_pvar_get_info<A: Abi>(
    pvar_index: c_int,
    name: TextOut,
    name_len: Ptr<c_int>,
    verbosity: Ptr<c_int>,
    var_class: Ptr<c_int>,
    datatype: Ptr<A::Handle>,
    enumtype: Ptr<Opaque>,
    desc: TextOut,
    desc_len: Ptr<c_int>,
    bind: Ptr<c_int>,
    readonly: Ptr<c_int>,
    continuous: Ptr<c_int>,
    atomic: Ptr<c_int>,
) -> c_int {
    told::<A>(|_| {
        let stat = counter(index(pvar_index, all().count())?);
        put_text(stat.key(), name, name_len);
        put_text(stat.line(), desc, desc_len);
        put(verbosity, A::C.t_verbosity_user_basic as c_int);
        put(var_class, Class::of(stat).value::<A>());
        put(datatype, handles::of_type::<A>(TypeId::UNSIGNED_LONG_LONG));
        put(enumtype, Opaque(A::C.t_enum_null as usize));
        put(bind, A::C.t_bind_no_object as c_int);
        put(readonly, 1);
        put(continuous, 1);
        put(atomic, 0);
        Ok(())
    })
}

fn counter(at: usize) -> Stat {
    all().nth(at).expect("the number was checked")
}

/// `MPI_T_pvar_session_create`
pub fn t_pvar_session_create<A: Abi>(session: Ptr<Opaque>) -> c_int {
    told::<A>(|tools| session.set(tools.sessions.add(())).map_err(|_| ToolError::Invalid))
}

/// `MPI_T_pvar_session_free`
pub fn t_pvar_session_free<A: Abi>(session: Ptr<Opaque>) -> c_int {
    told::<A>(|tools| {
        let old = session.get().map_err(|_| ToolError::Invalid)?;
        tools.sessions.remove(old).ok_or(ToolError::InvalidSession)?;
        tools.pvars.retain(|(of, _)| *of != old.0);
        put(session, Opaque(A::C.t_pvar_session_null as usize));
        Ok(())
    })
}

fn check_session(tools: &Tools, session: Opaque) -> Told<()> {
    tools.sessions.get(session).copied().ok_or(ToolError::InvalidSession)
}

/// The counter of a handle of this session.
fn of(tools: &Tools, session: Opaque, handle: Opaque) -> Told<Stat> {
    check_session(tools, session)?;
    match tools.pvars.get(handle) {
        Some((of, at)) if *of == session.0 => Ok(counter(*at)),
        _ => Err(ToolError::InvalidHandle),
    }
}

/// `MPI_T_pvar_handle_alloc`
pub fn t_pvar_handle_alloc<A: Abi>(
    session: Opaque,
    pvar_index: c_int,
    _obj_handle: BufMut,
    handle: Ptr<Opaque>,
    count: Ptr<c_int>,
) -> c_int {
    told::<A>(|tools| {
        check_session(tools, session)?;
        let at = index(pvar_index, all().count())?;
        handle.set(tools.pvars.add((session.0, at))).map_err(|_| ToolError::Invalid)?;
        put(count, 1);
        Ok(())
    })
}

/// `MPI_T_pvar_handle_free`
pub fn t_pvar_handle_free<A: Abi>(session: Opaque, handle: Ptr<Opaque>) -> c_int {
    told::<A>(|tools| {
        let old = handle.get().map_err(|_| ToolError::Invalid)?;
        of(tools, session, old)?;
        tools.pvars.remove(old);
        put(handle, Opaque(A::C.t_pvar_handle_null as usize));
        Ok(())
    })
}

/// `MPI_T_pvar_read`: before the library starts, nothing has been counted.
pub fn t_pvar_read<A: Abi>(session: Opaque, handle: Opaque, buf: BufMut) -> c_int {
    told::<A>(|tools| {
        let stat = of(tools, session, handle)?;
        let value = engine::look(|mpi| mpi.stat(stat)).unwrap_or(0);
        buf.place::<u64>().set(value).map_err(|_| ToolError::Invalid)
    })
}

/// What cannot be done to any variable here: an error for one handle; all handles of a session are passed over.
fn refuse<A: Abi>(session: Opaque, handle: Opaque, why: ToolError) -> c_int {
    told::<A>(|tools| {
        check_session(tools, session)?;
        if handle == ALL_HANDLES {
            return Ok(());
        }
        of(tools, session, handle).and(Err(why))
    })
}

/// `MPI_T_pvar_start`: they run all the time.
pub fn t_pvar_start<A: Abi>(session: Opaque, handle: Opaque) -> c_int {
    refuse::<A>(session, handle, ToolError::NoStartStop)
}

/// `MPI_T_pvar_stop`
pub fn t_pvar_stop<A: Abi>(session: Opaque, handle: Opaque) -> c_int {
    refuse::<A>(session, handle, ToolError::NoStartStop)
}

/// `MPI_T_pvar_reset`
pub fn t_pvar_reset<A: Abi>(session: Opaque, handle: Opaque) -> c_int {
    refuse::<A>(session, handle, ToolError::NoWrite)
}

/// `MPI_T_pvar_write`
pub fn t_pvar_write<A: Abi>(session: Opaque, handle: Opaque, _buf: Buf) -> c_int {
    refuse::<A>(session, handle, ToolError::NoWrite)
}

/// `MPI_T_pvar_readreset`
pub fn t_pvar_readreset<A: Abi>(session: Opaque, handle: Opaque, _buf: BufMut) -> c_int {
    refuse::<A>(session, handle, ToolError::NoWrite)
}
