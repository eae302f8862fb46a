//! What can go wrong, by MPI error class (MPI-5 9.4), with a text that holds the facts.
use std::fmt;

macro_rules! classes {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// An MPI error class. Its number differs between binary interfaces, so it has none here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorClass {
            $(#[doc = $text] $name,)*
            /// A class that the program added (see [`crate::core::Mpi::add_error_class`]).
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiError {
    /// The class that a C caller gets.
    pub class: ErrorClass,
    /// The facts, for people.
    pub text: String,
}

/// What every operation gives.
pub type Result<T> = std::result::Result<T, MpiError>;

impl MpiError {
    /// An error of `class`.
    #[cold]
    pub fn new(class: ErrorClass, text: impl Into<String>) -> Self {
        MpiError { class, text: text.into() }
    }
}

/// `Err` with a class and a text.
#[cold]
pub(crate) fn fail<T>(class: ErrorClass, text: impl Into<String>) -> Result<T> {
    Err(MpiError::new(class, text))
}

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class.text(), self.text)
    }
}

impl std::error::Error for MpiError {}

impl From<net::NetError> for MpiError {
    #[cold]
    fn from(error: net::NetError) -> Self {
        MpiError::new(ErrorClass::Other, error.to_string())
    }
}
