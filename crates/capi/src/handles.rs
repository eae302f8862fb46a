//! From handles to the engine's numbers and back, with an error for every handle that names nothing; and the
//! functions that turn handles into Fortran or C integers.
use crate::abi::{Abi, Kind};
use mpi::core::{
    CommId, ErrhandlerId, GroupId, InfoId, KeyvalId, MessageId, OpId, REQUESTS_MAX, RequestId, SessionId,
    TypeId, WinId,
};
use mpi::{ErrorClass, MpiError, Result};
use std::ffi::c_int;

#[cold]
fn bad<A: Abi>(class: ErrorClass, what: &str, handle: A::Handle, null: i64) -> MpiError {
    let bits = A::bits(handle);
    let text = if bits == null { format!("null {what}") } else { format!("0x{bits:x} is not a {what}") };
    MpiError::new(class, text)
}

/// A communicator.
#[inline(always)]
pub fn comm<A: Abi>(handle: A::Handle) -> Result<CommId> {
    let bits = A::bits(handle);
    if bits == A::C.comm_world {
        return Ok(CommId::WORLD);
    }
    if let Some(index) = A::index(Kind::Comm, handle) {
        return Ok(CommId(index));
    }
    if bits == A::C.comm_self {
        return Ok(CommId::SELF);
    }
    Err(bad::<A>(ErrorClass::Comm, "communicator", handle, A::C.comm_null))
}

/// The handle of a communicator.
#[inline(always)]
pub fn of_comm<A: Abi>(comm: CommId) -> A::Handle {
    match comm {
        CommId::WORLD => A::handle(A::C.comm_world),
        CommId::SELF => A::handle(A::C.comm_self),
        CommId(index) => A::dynamic(Kind::Comm, index),
    }
}

/// The handle of a communicator, or the null handle.
pub fn of_comm_or_null<A: Abi>(comm: Option<CommId>) -> A::Handle {
    comm.map_or(A::handle(A::C.comm_null), of_comm::<A>)
}

/// A datatype.
#[inline(always)]
pub fn datatype<A: Abi>(handle: A::Handle) -> Result<TypeId> {
    if let Some(ty) = A::predefined_type(handle) {
        return Ok(ty);
    }
    match A::index(Kind::Datatype, handle) {
        Some(index) => Ok(TypeId(TypeId::PREDEFINED + index)),
        None => Err(bad::<A>(ErrorClass::Type, "datatype", handle, A::C.datatype_null)),
    }
}

/// The handle of a datatype.
pub fn of_type<A: Abi>(ty: TypeId) -> A::Handle {
    match ty.0.checked_sub(TypeId::PREDEFINED) {
        None => A::predefined_handle(ty),
        Some(index) => A::dynamic(Kind::Datatype, index),
    }
}

fn op_constants<A: Abi>() -> [(i64, OpId); OpId::PREDEFINED as usize] {
    [
        (A::C.sum, OpId::SUM),
        (A::C.max, OpId::MAX),
        (A::C.min, OpId::MIN),
        (A::C.prod, OpId::PROD),
        (A::C.land, OpId::LAND),
        (A::C.band, OpId::BAND),
        (A::C.lor, OpId::LOR),
        (A::C.bor, OpId::BOR),
        (A::C.lxor, OpId::LXOR),
        (A::C.bxor, OpId::BXOR),
        (A::C.minloc, OpId::MINLOC),
        (A::C.maxloc, OpId::MAXLOC),
        (A::C.replace, OpId::REPLACE),
        (A::C.no_op, OpId::NO_OP),
    ]
}

/// A reduction operation.
#[inline]
pub fn op<A: Abi>(handle: A::Handle) -> Result<OpId> {
    let bits = A::bits(handle);
    if let Some((_, op)) = op_constants::<A>().into_iter().find(|(constant, _)| *constant == bits) {
        return Ok(op);
    }
    match A::index(Kind::Op, handle) {
        Some(index) => Ok(OpId(OpId::PREDEFINED + index)),
        None => Err(bad::<A>(ErrorClass::Op, "reduction operation", handle, A::C.op_null)),
    }
}

/// The handle of a reduction operation that the program made.
pub fn of_op<A: Abi>(op: OpId) -> A::Handle {
    A::dynamic(Kind::Op, op.0 - OpId::PREDEFINED)
}

/// A group.
pub fn group<A: Abi>(handle: A::Handle) -> Result<GroupId> {
    if A::bits(handle) == A::C.group_empty {
        return Ok(GroupId::EMPTY);
    }
    let index = A::index(Kind::Group, handle);
    index.map(GroupId).ok_or_else(|| bad::<A>(ErrorClass::Group, "group", handle, A::C.group_null))
}

/// The handle of a group.
pub fn of_group<A: Abi>(group: GroupId) -> A::Handle {
    match group {
        GroupId::EMPTY => A::handle(A::C.group_empty),
        GroupId(index) => A::dynamic(Kind::Group, index),
    }
}

/// An error handler.
pub fn errhandler<A: Abi>(handle: A::Handle) -> Result<ErrhandlerId> {
    let bits = A::bits(handle);
    match bits {
        _ if bits == A::C.errors_are_fatal => return Ok(ErrhandlerId::FATAL),
        _ if bits == A::C.errors_return => return Ok(ErrhandlerId::RETURN),
        _ if bits == A::C.errors_abort => return Ok(ErrhandlerId::ABORT),
        _ => {}
    }
    let index = A::index(Kind::Errhandler, handle).map(ErrhandlerId);
    index.ok_or_else(|| bad::<A>(ErrorClass::Errhandler, "error handler", handle, A::C.errhandler_null))
}

/// The handle of an error handler.
pub fn of_errhandler<A: Abi>(handler: ErrhandlerId) -> A::Handle {
    match handler {
        ErrhandlerId::FATAL => A::handle(A::C.errors_are_fatal),
        ErrhandlerId::RETURN => A::handle(A::C.errors_return),
        ErrhandlerId::ABORT => A::handle(A::C.errors_abort),
        ErrhandlerId(index) => A::dynamic(Kind::Errhandler, index),
    }
}

/// An info object.
pub fn info<A: Abi>(handle: A::Handle) -> Result<InfoId> {
    if A::bits(handle) == A::C.info_env {
        return Ok(InfoId::ENV);
    }
    let index = A::index(Kind::Info, handle).map(InfoId);
    index.ok_or_else(|| bad::<A>(ErrorClass::Info, "info object", handle, A::C.info_null))
}

/// An info object or `MPI_INFO_NULL`.
pub fn info_or_null<A: Abi>(handle: A::Handle) -> Result<Option<InfoId>> {
    if A::bits(handle) == A::C.info_null { Ok(None) } else { info::<A>(handle).map(Some) }
}

/// The handle of an info object.
pub fn of_info<A: Abi>(info: InfoId) -> A::Handle {
    match info {
        InfoId::ENV => A::handle(A::C.info_env),
        InfoId(index) => A::dynamic(Kind::Info, index),
    }
}

/// An attribute key.
pub fn keyval<A: Abi>(number: c_int) -> Result<KeyvalId> {
    let handle = A::handle(i64::from(number as u32));
    let index = A::index(Kind::Keyval, handle).map(KeyvalId);
    index.ok_or_else(|| bad::<A>(ErrorClass::Keyval, "attribute key", handle, A::C.keyval_invalid))
}

/// The number of an attribute key.
pub fn of_keyval<A: Abi>(key: KeyvalId) -> c_int {
    A::bits(A::dynamic(Kind::Keyval, key.0)) as u32 as c_int
}

/// What a request handle says beside the request's number: so that completing one needs no second look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Ends with its completion.
    Once,
    /// Becomes inactive with its completion.
    Persistent,
    /// Has callbacks.
    Generalized,
}

const PERSISTENT: u32 = 1 << 25;
const GENERALIZED: u32 = 1 << 24;
const REQUEST_MASK: u32 = GENERALIZED - 1;
// The engine gives no number that a handle could not carry.
const _: () = assert!(REQUESTS_MAX <= REQUEST_MASK + 1);

/// A request; `None` is `MPI_REQUEST_NULL`.
#[inline(always)]
pub fn request<A: Abi>(handle: A::Handle) -> Result<Option<(RequestId, Flavor)>> {
    match A::index(Kind::Request, handle) {
        Some(bits) => {
            let flavor = match bits & !REQUEST_MASK {
                0 => Flavor::Once,
                PERSISTENT => Flavor::Persistent,
                _ => Flavor::Generalized,
            };
            Ok(Some((RequestId(bits & REQUEST_MASK), flavor)))
        }
        None if A::bits(handle) == A::C.request_null => Ok(None),
        None => Err(bad::<A>(ErrorClass::Request, "request", handle, A::C.request_null)),
    }
}

/// The handle of a request.
#[inline(always)]
pub fn of_request<A: Abi>(request: RequestId, flavor: Flavor) -> A::Handle {
    debug_assert!(request.0 < REQUESTS_MAX);
    let bits = match flavor {
        Flavor::Once => 0,
        Flavor::Persistent => PERSISTENT,
        Flavor::Generalized => GENERALIZED,
    };
    A::dynamic(Kind::Request, bits | request.0)
}

/// A matched message.
pub fn message<A: Abi>(handle: A::Handle) -> Result<MessageId> {
    if A::bits(handle) == A::C.message_no_proc {
        return Ok(MessageId::NO_PROC);
    }
    let index = A::index(Kind::Message, handle).map(MessageId);
    index.ok_or_else(|| bad::<A>(ErrorClass::Request, "message", handle, A::C.message_null))
}

/// The handle of a matched message.
pub fn of_message<A: Abi>(message: MessageId) -> A::Handle {
    match message {
        MessageId::NO_PROC => A::handle(A::C.message_no_proc),
        MessageId(index) => A::dynamic(Kind::Message, index),
    }
}

/// A session.
pub fn session<A: Abi>(handle: A::Handle) -> Result<SessionId> {
    let index = A::index(Kind::Session, handle).map(SessionId);
    index.ok_or_else(|| bad::<A>(ErrorClass::Session, "session", handle, A::C.session_null))
}

/// The handle of a session.
pub fn of_session<A: Abi>(session: SessionId) -> A::Handle {
    A::dynamic(Kind::Session, session.0)
}

/// A window.
#[inline(always)]
pub fn win<A: Abi>(handle: A::Handle) -> Result<WinId> {
    match A::index(Kind::Win, handle) {
        Some(index) => Ok(WinId(index)),
        None => Err(bad::<A>(ErrorClass::Win, "window", handle, A::C.win_null)),
    }
}

/// The handle of a window.
pub fn of_win<A: Abi>(win: WinId) -> A::Handle {
    A::dynamic(Kind::Win, win.0)
}

/// Handles are the same numbers in C and in Fortran.
macro_rules! identities {
    ($($to:ident $from:ident),* $(,)?) => {$(
        /// The handle as an integer.
        pub fn $to<A: Abi>(handle: A::Handle) -> c_int {
            A::bits(handle) as c_int
        }
        /// The integer as a handle.
        pub fn $from<A: Abi>(integer: c_int) -> A::Handle {
            A::handle(i64::from(integer as u32))
        }
    )*};
}

identities! {
    comm_c2f comm_f2c, comm_toint comm_fromint,
    type_c2f type_f2c, type_toint type_fromint,
    group_c2f group_f2c, group_toint group_fromint,
    op_c2f op_f2c, op_toint op_fromint,
    errhandler_c2f errhandler_f2c, errhandler_toint errhandler_fromint,
    info_c2f info_f2c, info_toint info_fromint,
    request_c2f request_f2c, request_toint request_fromint,
    message_c2f message_f2c, message_toint message_fromint,
    win_c2f win_f2c, win_toint win_fromint,
    session_c2f session_f2c, session_toint session_fromint,
}

/// Files are pointers in both interfaces; the only one there is yet is null.
macro_rules! files {
    ($($to:ident $from:ident),*) => {$(
        /// The handle as an integer.
        pub fn $to<A: Abi>(file: usize) -> c_int {
            file as c_int
        }
        /// The integer as a handle.
        pub fn $from<A: Abi>(file: c_int) -> usize {
            file as u32 as usize
        }
    )*};
}

files!(file_c2f file_f2c, file_toint file_fromint);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpich::Mpich;
    use crate::standard::Standard;

    fn every_kind_survives_the_round_trip<A: Abi>() {
        for n in [0, 1, 2, 77, 1 << 20] {
            assert_eq!(comm::<A>(of_comm::<A>(CommId(n))).unwrap(), CommId(n));
            assert_eq!(group::<A>(of_group::<A>(GroupId(n))).unwrap(), GroupId(n));
            assert_eq!(datatype::<A>(of_type::<A>(TypeId(n))).unwrap(), TypeId(n));
            assert_eq!(info::<A>(of_info::<A>(InfoId(n))).unwrap(), InfoId(n));
            assert_eq!(errhandler::<A>(of_errhandler::<A>(ErrhandlerId(n))).unwrap(), ErrhandlerId(n));
            assert_eq!(keyval::<A>(of_keyval::<A>(KeyvalId(n))).unwrap(), KeyvalId(n));
            assert_eq!(message::<A>(of_message::<A>(MessageId(n))).unwrap(), MessageId(n));
            assert_eq!(session::<A>(of_session::<A>(SessionId(n))).unwrap(), SessionId(n));
            assert_eq!(win::<A>(of_win::<A>(WinId(n))).unwrap(), WinId(n));
            assert_eq!(win::<A>(win_f2c::<A>(win_c2f::<A>(of_win::<A>(WinId(n))))).unwrap(), WinId(n));
            assert_eq!(op::<A>(of_op::<A>(OpId(n + OpId::PREDEFINED))).unwrap(), OpId(n + OpId::PREDEFINED));
            assert_eq!(comm::<A>(comm_f2c::<A>(comm_c2f::<A>(of_comm::<A>(CommId(n))))).unwrap(), CommId(n));
            for flavor in [Flavor::Once, Flavor::Persistent, Flavor::Generalized] {
                let handle = of_request::<A>(RequestId(n), flavor);
                assert_eq!(request::<A>(handle).unwrap(), Some((RequestId(n), flavor)));
            }
        }
        // The standard's interface has no handles for the markers, which MPI removed.
        for n in (0..TypeId::PREDEFINED).filter(|n| A::bits(of_type::<A>(TypeId(*n))) != 0) {
            assert_eq!(datatype::<A>(of_type::<A>(TypeId(n))).unwrap(), TypeId(n), "datatype {n}");
        }
    }

    #[test]
    fn every_kind_survives_the_round_trip_in_the_mpich_interface() {
        every_kind_survives_the_round_trip::<Mpich>();
    }

    #[test]
    fn every_kind_survives_the_round_trip_in_the_standard_interface() {
        every_kind_survives_the_round_trip::<Standard>();
    }

    #[test]
    fn null_and_foreign_handles_are_told_apart() {
        let null = comm::<Mpich>(0x0400_0000).unwrap_err();
        assert_eq!((null.class, null.cause().to_string().as_str()), (ErrorClass::Comm, "null communicator"));
        let foreign = comm::<Mpich>(of_group::<Mpich>(GroupId(3))).unwrap_err();
        assert_eq!(foreign.cause().to_string(), "0x88000003 is not a communicator");
        assert_eq!(comm::<Standard>(0).unwrap_err().class, ErrorClass::Comm);
        let null = win::<Mpich>(0x2000_0000).unwrap_err();
        assert_eq!((null.class, null.cause().to_string().as_str()), (ErrorClass::Win, "null window"));
        assert_eq!(win::<Standard>(0x110).unwrap_err().cause().to_string(), "null window");
        assert_eq!(request::<Mpich>(0x2c00_0000).unwrap(), None);
        assert!(request::<Standard>(usize::MAX).is_err());
    }

    #[test]
    fn predefined_handles_are_the_published_ones() {
        assert_eq!(of_type::<Mpich>(TypeId::INT), 0x4c000405);
        assert_eq!(of_type::<Mpich>(TypeId::DOUBLE_INT), 0x8c000001_u32 as i32);
        assert_eq!(of_type::<Standard>(TypeId::INT), 0x209);
        assert_eq!(datatype::<Mpich>(0x4c00080b).unwrap(), TypeId::DOUBLE);
        assert_eq!(op::<Mpich>(0x58000003).unwrap(), OpId::SUM);
        assert_eq!(op::<Standard>(0x21).unwrap(), OpId::SUM);
    }
}
