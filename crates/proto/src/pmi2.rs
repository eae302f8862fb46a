//! The PMI-2 wire protocol, both sides: what a process asks of its launcher, and what it is answered.
//!
//! A session begins with PMI-1's line `cmd=init pmi_version=2 pmi_subversion=0`. After its answer everything
//! is frames: six characters with the decimal length of the body, then the body `cmd=NAME;key=value;...;`. A `;`
//! inside a value is doubled. Slurm's `libpmi2` and Intel MPI (with that library) speak it.
//!
//! A client emits a [`Request`] and parses a [`Reply`], with [`Frames`] cutting the stream. A server feeds a
//! [`Session`] per client, which yields typed requests and turns typed replies into bytes; the attributes that
//! processes of one node leave for each other are [`NodeAttributes`]. Where keys, names and spawns go is the
//! server's business, and so are descriptors and waiting.
//!
//! Other servers (Slurm's, older Hydra's) do not undo the doubling: they end the value at the first `;` or store it
//! doubled. So a client that wants to be understood everywhere puts no `;` into a value.
mod attributes;
mod fields;
mod frames;
mod reply;
mod request;
mod session;
mod spawn;
#[cfg(test)]
mod tests;

pub use attributes::{ATTRIBUTES_MAX, AttributeAnswer, AttributesFull, NodeAttributes, WAITERS_MAX};
pub use fields::FIELDS_MAX;
pub use frames::{BODY_BYTES_MAX, Frames, HEADER_BYTES, TooLong};
pub use reply::Reply;
pub use request::{Abort, FullInit, Request, Wait};
pub use session::{AnswerError, Event, OUTSTANDING_MAX, RequestId, Session, SessionError};
pub use spawn::{Pair, Spawn, SpawnCommand};

use alloc::string::String;
use alloc::vec::Vec;

/// The longest key that `libpmi2` takes.
pub const KEY_BYTES_MAX: usize = 64;
/// The longest value that `libpmi2` takes.
pub const VALUE_BYTES_MAX: usize = 1024;
/// The job attribute with the number of processes that the job may grow to. The placement of ranks is the job
/// attribute [`crate::pmi::KEY_MAPPING`].
pub const KEY_UNIVERSE_SIZE: &str = "universeSize";

/// Codes of a refusal, as `pmi2.h` has them.
pub mod rc {
    /// Unspecific.
    pub const FAIL: i32 = -1;
    /// Not initialised, or initialised already.
    pub const INIT: i32 = 1;
    /// A wrong argument.
    pub const INVALID_ARG: i32 = 3;
    /// A key that is too long.
    pub const INVALID_KEY_LENGTH: i32 = 5;
    /// A value that is too long.
    pub const INVALID_VAL_LENGTH: i32 = 7;
    /// Anything else.
    pub const OTHER: i32 = 14;
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// First frame.
    FullInit,
    /// Name of the job.
    JobGetId,
    /// Connect to another job.
    JobConnect,
    /// Leave another job.
    JobDisconnect,
    /// Read an attribute of the job.
    GetJobAttribute,
    /// Publish a key.
    Put,
    /// Wait for all processes of the job; keys put before are readable after it.
    Fence,
    /// Read a key.
    Get,
    /// Leave an attribute for the processes of this node.
    PutNodeAttribute,
    /// Read an attribute of this node.
    GetNodeAttribute,
    /// Publish a service's port.
    Publish,
    /// Withdraw a service.
    Unpublish,
    /// Find a service's port.
    Lookup,
    /// Start more processes.
    Spawn,
    /// End the job (no reply).
    Abort,
    /// Last frame.
    Finalize,
}

impl Verb {
    const ALL: [(Verb, &'static str); 16] = [
        (Verb::FullInit, "fullinit"),
        (Verb::JobGetId, "job-getid"),
        (Verb::JobConnect, "job-connect"),
        (Verb::JobDisconnect, "job-disconnect"),
        (Verb::GetJobAttribute, "info-getjobattr"),
        (Verb::Put, "kvs-put"),
        (Verb::Fence, "kvs-fence"),
        (Verb::Get, "kvs-get"),
        (Verb::PutNodeAttribute, "info-putnodeattr"),
        (Verb::GetNodeAttribute, "info-getnodeattr"),
        (Verb::Publish, "name-publish"),
        (Verb::Unpublish, "name-unpublish"),
        (Verb::Lookup, "name-lookup"),
        (Verb::Spawn, "spawn"),
        (Verb::Abort, "abort"),
        (Verb::Finalize, "finalize"),
    ];

    /// The request's name on the wire. The reply's is the same with `-response` behind it.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn of_request(name: &[u8]) -> Option<Verb> {
        Self::ALL.iter().find(|row| row.1.as_bytes() == name).map(|row| row.0)
    }

    fn of_reply(name: &[u8]) -> Option<Verb> {
        Self::of_request(name.strip_suffix(RESPONSE)?)
    }
}

const RESPONSE: &[u8] = b"-response";

/// Names the thread that asked (`thrid`); a reply carries it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadId(pub Vec<u8>);

/// Why a body is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The body does not begin with `cmd=`.
    #[error("PMI-2 message without a command: '{0}'")]
    NoCommand(String),
    /// Not a command of this direction.
    #[error("unknown PMI-2 command '{0}'")]
    UnknownCommand(String),
    /// Text without `=` where a field should be.
    #[error("PMI-2 field without a value: '{0}'")]
    NoValue(String),
    /// More fields than [`FIELDS_MAX`].
    #[error("PMI-2 message with more than {FIELDS_MAX} fields")]
    TooManyFields,
    /// A field that the command needs is missing.
    #[error("PMI-2 {command}: no field '{field}'")]
    Missing {
        /// Name of the command.
        command: &'static str,
        /// Name of the field.
        field: &'static str,
    },
    /// A field that should be a number is not, or is out of range.
    #[error("PMI-2 {command}: {field}='{value}' is not a valid number")]
    BadNumber {
        /// Name of the command.
        command: &'static str,
        /// Name of the field.
        field: &'static str,
        /// What was there.
        value: String,
    },
}

/// At most this much of a wrong message is quoted in an error.
const QUOTE_BYTES_MAX: usize = 64;

fn quote(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(QUOTE_BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod table_tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (i, row) in Verb::ALL.iter().enumerate() {
            assert_eq!(row.0 as usize, i);
            assert_eq!(Verb::of_request(row.1.as_bytes()), Some(row.0));
            assert_eq!(Verb::of_reply(alloc::format!("{}-response", row.1).as_bytes()), Some(row.0));
        }
        assert_eq!(Verb::of_reply(b"fullinit"), None);
    }
}
