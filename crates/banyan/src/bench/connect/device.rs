//! The device that sections about its costs imitate, and how jobs are told.
use std::process::Command;

/// A device's commands: what they took in "Efficient On-Demand Connection Management Mechanisms with PGAS Models over
/// InfiniBand" (2010), and how many are done at a time.
///
/// As many at a time as a process has threads for them: then it does not matter to the device whether one process of a node
/// makes its queue pairs, with all threads, or all at once, and no policy gains by its order of creation alone. A number is
/// left out now and then, as devices do, so that there are several ranges.
pub const DEVICE: &str = "create=367us,ready=105us,lanes=8,gap=100";
/// Threads that make queue pairs at the start.
pub const THREADS: &str = "8";
/// For people.
pub const RDMA_WORDS: &str = "The host's RDMA device, between processes that share no memory; 8 threads of a process (--connect-threads)\n";
/// For people.
pub const WORDS: &str = "\
Imitated device: 367 us to make a queue pair and bring it to INIT, 105 us to RTS (as measured on InfiniBand in
\"Efficient On-Demand Connection Management Mechanisms with PGAS Models over InfiniBand\", 2010), 8 commands of a node at a time,
8 threads of a process, one number left out after every 100 (--device, --connect-threads)
";

/// What a section's jobs are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Costs {
    /// Those of the imitated device.
    Device,
    /// Only what this host's memory costs.
    Memory,
    /// What the host's RDMA device costs, between processes that do not share memory.
    Rdma,
}

impl Costs {
    /// Where there is no device.
    pub const IMITATED: &'static [Costs] = &[Costs::Device, Costs::Memory];
    /// Where there is one.
    pub const REAL: &'static [Costs] = &[Costs::Rdma];

    /// In tables and for scripts.
    pub fn key(self) -> &'static str {
        match self {
            Costs::Device => "imitated device",
            Costs::Memory => "shared memory",
            Costs::Rdma => "RDMA device",
        }
    }

    /// What tables say of them.
    pub fn words(self) -> &'static str {
        match self {
            Costs::Device | Costs::Memory => WORDS,
            Costs::Rdma => RDMA_WORDS,
        }
    }

    /// Adds the options to a job.
    pub fn charge(self, command: &mut Command) {
        let options: &[&str] = match self {
            Costs::Device => &["--device", DEVICE, "--connect-threads", THREADS],
            Costs::Memory => &[],
            Costs::Rdma => &["--force-net", "--fabric", "verbs", "--connect-threads", THREADS],
        };
        command.args(options);
    }
}
