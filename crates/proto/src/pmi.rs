//! The PMI-1 wire protocol, both sides: what a process asks of its launcher, and what it is answered.
//!
//! A message is a line `cmd=NAME key=value ...`; a spawn is a block of lines. There is no quoting, so a
//! value may hold spaces and `=`: a field ends only where the next key known for that command begins. The
//! client and the server work in lock-step. Descriptors and waiting are their users' business.
//!
//! A client emits a [`Request`] and parses a [`Reply`]; a server does the opposite. [`Lines`] cuts a byte
//! stream into messages for either.
mod fields;
mod lines;
mod reply;
mod request;
mod spawn;
#[cfg(test)]
mod tests;

pub use lines::{Lines, MESSAGE_BYTES_MAX, TooLong};
pub use reply::Reply;
pub use request::Request;
pub use spawn::{Pair, SPAWN_ITEMS_MAX, Spawn};

use alloc::string::String;

/// The key under which a server answers with the text of the [`Placement`](crate::placement::Placement).
pub const KEY_MAPPING: &str = "PMI_process_mapping";

/// What a request asks for, and the names of request and reply on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// First contact.
    Init,
    /// Limits of names, keys and values.
    GetMaxes,
    /// Index of the program in a job of several programs.
    GetAppnum,
    /// Name of the job's key-value space.
    GetMyKvsname,
    /// Processes that the job may grow to.
    GetUniverseSize,
    /// Publish a key.
    Put,
    /// Read a key.
    Get,
    /// Wait for all processes of the job; keys put before are readable after it.
    Barrier,
    /// Publish a service's port.
    Publish,
    /// Find a service's port.
    Lookup,
    /// Withdraw a service.
    Unpublish,
    /// Last message.
    Finalize,
    /// End the job (no reply).
    Abort,
    /// It has been waited long (no reply). Banyan's own, between its library and its agents.
    Waiting,
    /// Start more processes.
    Spawn,
}

impl Verb {
    const ALL: [(Verb, &'static str, &'static str); 15] = [
        (Verb::Init, "init", "response_to_init"),
        (Verb::GetMaxes, "get_maxes", "maxes"),
        (Verb::GetAppnum, "get_appnum", "appnum"),
        (Verb::GetMyKvsname, "get_my_kvsname", "my_kvsname"),
        (Verb::GetUniverseSize, "get_universe_size", "universe_size"),
        (Verb::Put, "put", "put_result"),
        (Verb::Get, "get", "get_result"),
        (Verb::Barrier, "barrier_in", "barrier_out"),
        (Verb::Publish, "publish_name", "publish_result"),
        (Verb::Lookup, "lookup_name", "lookup_result"),
        (Verb::Unpublish, "unpublish_name", "unpublish_result"),
        (Verb::Finalize, "finalize", "finalize_ack"),
        (Verb::Abort, "abort", "abort_ack"),
        (Verb::Waiting, "banyan_waiting", "banyan_waiting_ack"),
        (Verb::Spawn, "spawn", "spawn_result"),
    ];

    /// The request's name.
    pub fn request_name(self) -> &'static str {
        Self::row(self).1
    }

    /// The reply's name.
    pub fn reply_name(self) -> &'static str {
        Self::row(self).2
    }

    fn row(self) -> (Verb, &'static str, &'static str) {
        Self::ALL[self as usize]
    }

    fn of_request(name: &[u8]) -> Option<Verb> {
        Self::ALL.iter().find(|row| row.1.as_bytes() == name).map(|row| row.0)
    }

    fn of_reply(name: &[u8]) -> Option<Verb> {
        Self::ALL.iter().find(|row| row.2.as_bytes() == name).map(|row| row.0)
    }
}

/// The longest names, keys and values a server accepts, each with room for a terminating zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maxes {
    /// Name of a key-value space.
    pub kvsname: u32,
    /// Key.
    pub key: u32,
    /// Value.
    pub value: u32,
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The line does not begin with `cmd=`.
    #[error("PMI message without a command: '{0}'")]
    NoCommand(String),
    /// Not a command of this direction.
    #[error("unknown PMI command '{0}'")]
    UnknownCommand(String),
    /// A field that the command needs is missing.
    #[error("PMI {command}: no field '{field}'")]
    Missing {
        /// Name of the command.
        command: &'static str,
        /// Name of the field.
        field: &'static str,
    },
    /// A field that should be a number is not, or is out of range.
    #[error("PMI {command}: {field}='{value}' is not a valid number")]
    BadNumber {
        /// Name of the command.
        command: &'static str,
        /// Name of the field.
        field: &'static str,
        /// What was there.
        value: String,
    },
    /// A spawn with more items than [`SPAWN_ITEMS_MAX`].
    #[error("PMI spawn: more than {SPAWN_ITEMS_MAX} items")]
    TooManyItems,
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
            assert_eq!(Verb::of_reply(row.2.as_bytes()), Some(row.0));
        }
    }
}
