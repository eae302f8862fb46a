//! What processes ask of the launcher through their agents, and what it answers.
use super::Member;
use alloc::string::String;
use alloc::vec::Vec;

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Key.
    pub key: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
}

/// One program of a spawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnCommand {
    /// Processes to start.
    pub processes: u32,
    /// Program.
    pub program: Vec<u8>,
    /// Arguments.
    pub args: Vec<Vec<u8>>,
    /// Hints (wdir, path, host, ...).
    pub infos: Vec<Pair>,
}

/// A job that a process wants started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnWish {
    /// Who wants it.
    pub by: Member,
    /// Its programs.
    pub commands: Vec<SpawnCommand>,
    /// What its board has from the start.
    pub preputs: Vec<Pair>,
}

/// A question to the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Publish a port under a service name.
    Publish {
        /// Service name.
        service: Vec<u8>,
        /// Port.
        port: Vec<u8>,
    },
    /// Find a port.
    Lookup {
        /// Service name.
        service: Vec<u8>,
    },
    /// Withdraw a service.
    Unpublish {
        /// Service name.
        service: Vec<u8>,
    },
    /// Start a job.
    Spawn(SpawnWish),
}

/// The launcher's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Published or withdrawn.
    Done,
    /// The port.
    Found(Vec<u8>),
    /// Nothing under that name.
    NotFound,
    /// The name is taken.
    Taken,
    /// No room for another name.
    Full,
    /// The job has been started.
    Spawned {
        /// Its name, which is the name of its key-value space.
        name: Vec<u8>,
        /// Its processes.
        processes: u32,
    },
    /// It has not.
    NotSpawned(String),
}
