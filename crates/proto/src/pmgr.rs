//! The PMGR collective protocol, the server's side: how MVAPICH's processes exchange addresses through `mpirun`.
//!
//! A process connects to the launcher (`MPIRUN_HOST`, `MPIRUN_PORT`) and sends the version of the protocol and its
//! rank (`MPIRUN_RANK` of `MPIRUN_NPROCS`). From then on it takes part in collective operations, which all processes of
//! the job call in the same order: an opcode, for some operations the root and a size in bytes, and data. Numbers are
//! four bytes in the order of the machine, which is little-endian everywhere Banyan runs. The last operation is a
//! close. A process that gives up connects once more and says why.
//!
//! [`Session`] turns one connection's bytes into [`Message`]s, [`Collective`] makes answers out of what all ranks said,
//! and [`Server`] is both for a whole job: connections, bytes in, bytes out. Sockets are its user's business.
//!
//! | operation | from each process | to each process |
//! |---|---|---|
//! | barrier | 3 | 3 |
//! | bcast | 4, root, size; the root: data | data |
//! | gather | 5, root, size, data | the root: data of all |
//! | scatter | 6, root, size; the root: data for each | its part |
//! | allgather | 7, size, data | data of all |
//! | alltoall | 8, size, data for each | data of each for it |
//! | close | 1 | (the connection ends) |
mod collective;
mod message;
mod server;
mod session;
#[cfg(test)]
mod tests;

pub use collective::{Call, Collective, Delivery, EnterError, RESULT_BYTES_MAX};
pub use message::{Operation, PAYLOAD_BYTES_MAX, ParseError};
pub use server::{CONNECTIONS_SPARE, ConnectionId, Event, Refusal, Server};
pub use session::{ABORT_TEXT_MAX, Message, Session, SessionError};

/// The version of the protocol as the library sends it (MVAPICH's own copy says 9 and means the same).
pub const VERSIONS: core::ops::RangeInclusive<i32> = 8..=9;

/// Variables of the environment that a process needs.
pub mod variables {
    /// Rank.
    pub const RANK: &str = "MPIRUN_RANK";
    /// Processes of the job.
    pub const SIZE: &str = "MPIRUN_NPROCS";
    /// A number that is unique to the job on its hosts and not 0.
    pub const ID: &str = "MPIRUN_ID";
    /// The launcher's address in dotted decimals.
    pub const HOST: &str = "MPIRUN_HOST";
    /// The launcher's port.
    pub const PORT: &str = "MPIRUN_PORT";
    /// Hosts of all ranks with `:` between them. Old versions insist on it.
    pub const PROCESSES: &str = "MPIRUN_PROCESSES";
    /// `0` sends all operations to the launcher; otherwise processes build a tree of their own with one gather.
    pub const USE_TREES: &str = "MPIRUN_USE_TREES";
}
