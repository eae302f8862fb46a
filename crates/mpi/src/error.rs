//! What can go wrong, by MPI error class (MPI-5 9.4), with the facts: errors of the layers below are kept whole, and
//! become words where a person reads them.
use crate::core::{Peer, Status};
use net::{MeetError, NetError, StartError};
use std::borrow::Cow;
use std::error::Error;
use std::fmt;

macro_rules! classes {
    ($($name:ident = $number:literal $text:literal),* $(,)?) => {
        /// An MPI error class.
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

            /// Its number in MPI 5's binary interface. (Other interfaces number classes in their own ways: C programs get
            /// the numbers of theirs.)
            pub fn code(self) -> i32 {
                match self {
                    $(ErrorClass::$name => $number,)*
                    ErrorClass::User(n) => LAST_CODE.saturating_add_unsigned(n).saturating_add(1),
                }
            }

            /// Its name in the standard: `MPI_ERR_TRUNCATE`.
            pub fn name(self) -> String {
                let variant = match self {
                    $(ErrorClass::$name => stringify!($name),)*
                    ErrorClass::User(n) => return format!("error class {n} of the program"),
                };
                if self == ErrorClass::Success {
                    return "MPI_SUCCESS".into();
                }
                let mut name = String::from("MPI_ERR");
                for letter in variant.chars() {
                    if letter.is_ascii_uppercase() {
                        name.push('_');
                    }
                    name.push(letter.to_ascii_uppercase());
                }
                name
            }
        }
    };
}

/// `MPI_ERR_LASTCODE` of MPI 5's binary interface: classes that a program adds come after it.
const LAST_CODE: i32 = 16383;

classes! {
    Success = 0 "no error",
    Buffer = 1 "invalid buffer pointer",
    Count = 2 "invalid count argument",
    Type = 3 "invalid datatype argument",
    Tag = 4 "invalid tag argument",
    Comm = 5 "invalid communicator",
    Rank = 6 "invalid rank",
    Request = 7 "invalid request",
    Root = 8 "invalid root",
    Group = 9 "invalid group",
    Op = 10 "invalid reduction operation",
    Topology = 11 "invalid topology",
    Dims = 12 "invalid dimension argument",
    Arg = 13 "invalid argument",
    Unknown = 14 "unknown error",
    Truncate = 15 "message truncated on receive",
    Other = 16 "known error not in this list",
    Intern = 17 "internal error",
    InStatus = 19 "error code is in the status",
    Pending = 18 "pending request",
    Access = 20 "permission denied",
    Amode = 21 "unsupported access mode",
    Assert = 22 "invalid assertion",
    BadFile = 23 "invalid file name",
    Base = 24 "invalid base",
    Conversion = 25 "data conversion failed",
    Disp = 26 "invalid displacement",
    DupDatarep = 27 "data representation already defined",
    FileExists = 28 "file exists",
    FileInUse = 29 "file is in use",
    File = 30 "invalid file handle",
    InfoKey = 31 "info key too long or empty",
    InfoNokey = 32 "info key not defined",
    InfoValue = 33 "info value too long or empty",
    Info = 34 "invalid info object",
    Io = 35 "input or output failed",
    Keyval = 36 "invalid attribute key",
    Locktype = 37 "invalid lock type",
    Name = 38 "service name not published",
    NoMem = 39 "out of memory",
    NotSame = 40 "arguments differ between processes",
    NoSpace = 41 "not enough space",
    NoSuchFile = 42 "no such file",
    Port = 43 "invalid port name",
    Quota = 44 "quota exceeded",
    ReadOnly = 45 "read-only file or file system",
    RmaAttach = 46 "memory cannot be attached",
    RmaConflict = 47 "conflicting accesses to a window",
    RmaRange = 48 "target memory is not in the window",
    RmaShared = 49 "memory cannot be shared",
    RmaSync = 50 "wrong synchronisation of a window",
    RmaFlavor = 57 "wrong flavor of window",
    Service = 51 "invalid service name",
    Size = 52 "invalid size argument",
    Spawn = 53 "processes could not be spawned",
    UnsupportedDatarep = 54 "unsupported data representation",
    UnsupportedOperation = 55 "unsupported operation",
    Win = 56 "invalid window",
    ProcAborted = 58 "a process of the operation has ended",
    ValueTooLarge = 59 "value too large to store",
    Session = 60 "invalid session",
    Errhandler = 61 "invalid error handler",
    Abi = 62 "no such binary interface",
}

/// An error: its class, in which call it happened and where, and what happened.
///
/// Small, because every operation's result has room for one: what happened is behind a pointer.
///
/// Its text is one line, also as `Debug`, since that is what a program shows whose `main` returns it; `{:#?}` shows its parts.
///
/// ```
/// let world = mpi::init()?.world();
/// let error = world.send(&[1.0], world.size(), 0).unwrap_err();
/// assert_eq!(error.class, mpi::ErrorClass::Rank);
/// assert_eq!((error.code(), error.class.name()), (6, "MPI_ERR_RANK".into()));
/// assert_eq!((error.call(), error.object()), (Some("send"), Some("MPI_COMM_WORLD")));
/// assert_eq!(error.rank(), Some(world.rank()));
/// assert!(matches!(error.cause(), mpi::Cause::Words(_)));
/// println!("{error}");
/// # world.barrier()?; // the last call of a process that leaves has to be a good one
/// # Ok::<(), mpi::MpiError>(())
/// ```
pub struct MpiError {
    /// The class that a C caller gets.
    pub class: ErrorClass,
    facts: Box<Facts>,
}

#[derive(Debug)]
struct Facts {
    cause: Cause,
    site: Option<Site>,
}

/// In which call of the safe API an error came up, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) call: &'static str,
    /// The name of the communicator or window.
    pub(crate) object: Option<String>,
    /// This process in the world.
    pub(crate) rank: u32,
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
        &self.facts.cause
    }

    /// The number of its class (see [`ErrorClass::code`]).
    pub fn code(&self) -> i32 {
        self.class.code()
    }

    /// The call that failed, by the name of its method.
    pub fn call(&self) -> Option<&'static str> {
        Some(self.facts.site.as_ref()?.call)
    }

    /// The name of the communicator or window that it was called on.
    pub fn object(&self) -> Option<&str> {
        self.facts.site.as_ref()?.object.as_deref()
    }

    /// The rank of this process in the world.
    pub fn rank(&self) -> Option<usize> {
        Some(self.facts.site.as_ref()?.rank as usize)
    }

    /// The process that the network or a launcher says this is about: one that has ended, cannot be reached, or does not exist.
    pub fn peer(&self) -> Option<net::Peer> {
        match &self.facts.cause {
            Cause::Net(error) => error.peer(),
            _ => None,
        }
    }

    /// How the message was that ended badly.
    pub fn status(&self) -> Option<crate::Status> {
        match &self.facts.cause {
            Cause::Ended(status) => Some(crate::Status::new(status)),
            _ => None,
        }
    }

    /// Where it came up, if that is not known yet: the innermost call knows best.
    #[cold]
    pub(crate) fn at(mut self, site: impl FnOnce() -> Site) -> Self {
        self.facts.site.get_or_insert_with(site);
        self
    }

    #[cold]
    fn of(class: ErrorClass, cause: Cause) -> Self {
        MpiError { class, facts: Box::new(Facts { cause, site: None }) }
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
        let cause = &self.facts.cause;
        if let Some(Site { call, object, rank }) = &self.facts.site {
            let on = object.as_deref().map(|name| format!(" on {name}")).unwrap_or_default();
            let class = self.class.name();
            return write!(f, "{call}{on} failed at rank {rank}: {} ({class}): {cause}", self.class.text());
        }
        match self.class {
            // Its text says only that there is none.
            ErrorClass::Other => write!(f, "{cause}"),
            class => write!(f, "{}: {cause}", class.text()),
        }
    }
}

impl fmt::Debug for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        let Facts { cause, site } = &*self.facts;
        f.debug_struct("MpiError")
            .field("class", &self.class)
            .field("site", site)
            .field("cause", cause)
            .finish()
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
        match &self.facts.cause {
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
    fn an_error_says_in_which_call_and_where() {
        let site = |call| Site { call, object: Some("MPI_COMM_WORLD".into()), rank: 3 };
        let error = MpiError::new(ErrorClass::Rank, "there is no rank 9").at(|| site("send"));
        let error = error.at(|| site("scope"));
        let line = "send on MPI_COMM_WORLD failed at rank 3: invalid rank (MPI_ERR_RANK): there is no rank 9";
        assert_eq!((error.to_string(), format!("{error:?}")), (line.into(), line.into()));
        assert_eq!((error.call(), error.rank()), (Some("send"), Some(3)));
        assert!(format!("{error:#?}").contains("site: Some("));
    }

    #[test]
    fn classes_have_the_standard_s_names_and_numbers() {
        let of = |class: ErrorClass| (class.name(), class.code());
        assert_eq!(of(ErrorClass::Success), ("MPI_SUCCESS".into(), 0));
        assert_eq!(of(ErrorClass::RmaSync), ("MPI_ERR_RMA_SYNC".into(), 50));
        assert_eq!(ErrorClass::User(0).code(), 16384);
    }

    #[test]
    fn an_error_takes_two_words() {
        assert!(size_of::<MpiError>() <= 16);
    }
}
