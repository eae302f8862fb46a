//! What can go wrong, by MPI error class (MPI-5 9.4), with the facts: errors of the layers below are kept whole, and
//! become words where a person reads them.
use crate::core::{Peer, Status};
use net::{MeetError, NetError, StartError};
use std::borrow::Cow;
use std::error::Error;
use std::fmt;

macro_rules! classes {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// An MPI error class. Its number differs between binary interfaces, so it has none here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorClass {
            $(#[doc = $text] $name,)*
            /// A class that the program added (see [`crate::core::Registry::add_error_class`]).
            User(u32),
        }

        impl ErrorClass {
            /// Every class of the standard.
            pub const ALL: &'static [ErrorClass] = &[$(ErrorClass::$name),*];

            /// One line for people.
            pub fn text(self) -> &'static str {
                match self {
                    $(ErrorClass::$name => $text,)*
                    ErrorClass::User(_) => "error class of the program",
                }
            }
        }
    };
}

classes! {
    Success = "no error",
    Buffer = "invalid buffer pointer",
    Count = "invalid count argument",
    Type = "invalid datatype argument",
    Tag = "invalid tag argument",
    Comm = "invalid communicator",
    Rank = "invalid rank",
    Request = "invalid request",
    Root = "invalid root",
    Group = "invalid group",
    Op = "invalid reduction operation",
    Topology = "invalid topology",
    Dims = "invalid dimension argument",
    Arg = "invalid argument",
    Unknown = "unknown error",
    Truncate = "message truncated on receive",
    Other = "known error not in this list",
    Intern = "internal error",
    InStatus = "error code is in the status",
    Pending = "pending request",
    Access = "permission denied",
    Amode = "unsupported access mode",
    Assert = "invalid assertion",
    BadFile = "invalid file name",
    Base = "invalid base",
    Conversion = "data conversion failed",
    Disp = "invalid displacement",
    DupDatarep = "data representation already defined",
    FileExists = "file exists",
    FileInUse = "file is in use",
    File = "invalid file handle",
    InfoKey = "info key too long or empty",
    InfoNokey = "info key not defined",
    InfoValue = "info value too long or empty",
    Info = "invalid info object",
    Io = "input or output failed",
    Keyval = "invalid attribute key",
    Locktype = "invalid lock type",
    Name = "service name not published",
    NoMem = "out of memory",
    NotSame = "arguments differ between processes",
    NoSpace = "not enough space",
    NoSuchFile = "no such file",
    Port = "invalid port name",
    Quota = "quota exceeded",
    ReadOnly = "read-only file or file system",
    RmaAttach = "memory cannot be attached",
    RmaConflict = "conflicting accesses to a window",
    RmaRange = "target memory is not in the window",
    RmaShared = "memory cannot be shared",
    RmaSync = "wrong synchronisation of a window",
    RmaFlavor = "wrong flavor of window",
    Service = "invalid service name",
    Size = "invalid size argument",
    Spawn = "processes could not be spawned",
    UnsupportedDatarep = "unsupported data representation",
    UnsupportedOperation = "unsupported operation",
    Win = "invalid window",
    ProcAborted = "a process of the operation has ended",
    ValueTooLarge = "value too large to store",
    Session = "invalid session",
    Errhandler = "invalid error handler",
    Abi = "no such binary interface",
}

/// An error: its class and what happened.
///
/// Small, because every operation's result has room for one: what happened is behind a pointer.
#[derive(Debug)]
pub struct MpiError {
    /// The class that a C caller gets.
    pub class: ErrorClass,
    cause: Box<Cause>,
}

/// What happened.
#[derive(Debug)]
pub enum Cause {
    /// A mistake in a call, or the state of an object, in words.
    Words(Cow<'static, str>),
    /// A pointer that a C caller must give is null.
    NullPointer,
    /// An operation ended badly: its status says how.
    Ended(Status),
    /// A message did not get through.
    Net(NetError),
    /// This process could not join its job.
    Start(StartError),
    /// Processes of another job were not met, or not started.
    Meet(MeetError),
    /// The root of a collective call failed, of which only the class was told.
    AtRoot {
        /// Its rank.
        root: u32,
        /// How many processes it wanted to be started, if that is what failed.
        processes: Option<u32>,
    },
}

/// What every operation gives.
pub type Result<T> = std::result::Result<T, MpiError>;

impl MpiError {
    /// An error of `class`, in words.
    #[cold]
    pub fn new(class: ErrorClass, words: impl Into<Cow<'static, str>>) -> Self {
        MpiError::of(class, Cause::Words(words.into()))
    }

    /// A pointer that a C caller must give is null.
    #[cold]
    pub fn null_pointer() -> Self {
        MpiError::of(ErrorClass::Arg, Cause::NullPointer)
    }

    /// The root of a collective call failed with this class.
    #[cold]
    pub(crate) fn at_root(class: ErrorClass, root: u32, processes: Option<u32>) -> Self {
        MpiError::of(class, Cause::AtRoot { root, processes })
    }

    /// What happened, without the class.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    #[cold]
    fn of(class: ErrorClass, cause: Cause) -> Self {
        MpiError { class, cause: Box::new(cause) }
    }
}

/// `Err` with a class and words.
#[cold]
pub(crate) fn fail<T>(class: ErrorClass, words: impl Into<Cow<'static, str>>) -> Result<T> {
    Err(MpiError::new(class, words))
}

/// As [`fail`] for checks on the hot path: the words are put together out of line.
#[cold]
#[inline(never)]
pub(crate) fn fail_with<T>(class: ErrorClass, words: impl FnOnce() -> String) -> Result<T> {
    Err(MpiError::new(class, words()))
}

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            // Its text says only that there is none.
            ErrorClass::Other => write!(f, "{}", self.cause),
            class => write!(f, "{}: {}", class.text(), self.cause),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Words(words) => f.write_str(words),
            Cause::NullPointer => f.write_str("a pointer argument is null"),
            Cause::Ended(status) => describe(status, f),
            Cause::Net(error) => error.fmt(f),
            Cause::Start(error) => error.fmt(f),
            Cause::Meet(error) => error.fmt(f),
            Cause::AtRoot { root, .. } => write!(f, "the root, rank {root}, failed, and its error says why"),
        }
    }
}

fn describe(status: &Status, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let from = match status.source {
        Peer::Rank(rank) => format!("from rank {rank}"),
        _ => "of the operation".into(),
    };
    match status.error {
        ErrorClass::Truncate => {
            write!(f, "the message {from} did not fit; {} bytes were stored", status.bytes)
        }
        ErrorClass::Type => write!(f, "the message {from} has another type signature than its receive"),
        class => write!(f, "{} ({from})", class.text()),
    }
}

impl Error for MpiError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &*self.cause {
            Cause::Words(_) | Cause::NullPointer | Cause::Ended(_) | Cause::AtRoot { .. } => None,
            Cause::Net(error) => Some(error),
            Cause::Start(error) => Some(error),
            Cause::Meet(error) => Some(error),
        }
    }
}

impl From<NetError> for MpiError {
    #[cold]
    fn from(error: NetError) -> Self {
        let class = match &error {
            NetError::NoSuchPeer { .. } => ErrorClass::Rank,
            NetError::StaleRequest => ErrorClass::Request,
            error if error.is_end() => ErrorClass::ProcAborted,
            // MPI has no class for what a network does.
            _ => ErrorClass::Other,
        };
        MpiError::of(class, Cause::Net(error))
    }
}

impl From<StartError> for MpiError {
    #[cold]
    fn from(error: StartError) -> Self {
        MpiError::of(ErrorClass::Other, Cause::Start(error))
    }
}

impl From<MeetError> for MpiError {
    #[cold]
    fn from(error: MeetError) -> Self {
        let class = match &error {
            MeetError::Pmi(_) | MeetError::Alone => ErrorClass::Spawn,
            _ => ErrorClass::Port,
        };
        MpiError::of(class, Cause::Meet(error))
    }
}

/// The error that a status holds.
impl From<Status> for MpiError {
    #[cold]
    fn from(status: Status) -> Self {
        MpiError::of(status.error, Cause::Ended(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_network_go_up_whole() {
        let peer = net::Peer::Rank { job: net::Job(1), rank: net::Rank(7) };
        let error = MpiError::from(NetError::NoSuchPeer { peer, size: 4 });
        assert_eq!(error.class, ErrorClass::Rank);
        assert_eq!(error.to_string(), "invalid rank: there is no rank 7 in a job of 4");
        let source = error.source().and_then(|source| source.downcast_ref::<NetError>());
        assert!(matches!(source, Some(NetError::NoSuchPeer { size: 4, .. })), "{source:?}");
        assert_eq!(MpiError::from(NetError::StaleRequest).class, ErrorClass::Request);
    }

    #[test]
    fn errors_of_the_start_go_up_whole() {
        let below = proto::env::switch("BANYAN_CMA", "maybe").unwrap_err();
        let error = MpiError::from(StartError::from(below));
        assert_eq!(error.class, ErrorClass::Other);
        assert_eq!(error.to_string(), "BANYAN_CMA: 'maybe' is not 'on' or 'off'");
        let source = error.source().and_then(|source| source.downcast_ref::<StartError>());
        assert!(matches!(source, Some(StartError::Environment(_))), "{source:?}");
    }

    #[test]
    fn a_bad_status_says_how_far_the_message_came() {
        let status = Status { source: Peer::Rank(3), error: ErrorClass::Truncate, bytes: 8, ..Status::EMPTY };
        let error = status.checked().unwrap_err();
        assert_eq!((error.class, error.source().is_none()), (ErrorClass::Truncate, true));
        assert_eq!(error.cause().to_string(), "the message from rank 3 did not fit; 8 bytes were stored");
        assert!(Status::EMPTY.checked().is_ok());
    }

    #[test]
    fn an_error_takes_two_words() {
        assert!(size_of::<MpiError>() <= 16);
    }
}
