//! The MPI libraries that are compared, each under the launcher that belongs to it.
use super::super::runner;
use super::super::table::Side;
use super::super::workshop::{Source, Workshop};
use super::plan::{Job, Work};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const DYNAMIC: Source =
    Source { name: "dynamic.c", text: include_str!("../../../bench/dynamic.c"), headers: &[] };

/// A library, or a way to run one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// This project.
    Banyan,
    /// PyPI's `mpich`, on UCX.
    Mpich,
    /// PyPI's `mpich`, on libfabric.
    MpichOfi,
}

impl Name {
    /// All, in table order.
    pub const ALL: &'static [Name] = &[Name::Banyan, Name::Mpich, Name::MpichOfi];

    /// The name on the command line and in the table.
    pub fn key(self) -> &'static str {
        match self {
            Name::Banyan => "banyan",
            Name::Mpich => "mpich",
            Name::MpichOfi => "mpich-ofi",
        }
    }

    /// Whose it is.
    pub fn side(self) -> Side {
        if self == Name::Banyan { Side::Own } else { Side::Peer }
    }

    /// What it has to be told for such work.
    fn env(self, work: Work) -> &'static [(&'static str, &'static str)] {
        match (self, work) {
            // UCX's addresses are too long for the name of a port otherwise.
            (Name::Mpich, Work::Meet { .. }) => &[("UCX_UNIFIED_MODE", "y")],
            (Name::MpichOfi, _) => &[("MPIR_CVAR_CH4_NETMOD", "ofi")],
            _ => &[],
        }
    }
}

/// A library that is ready to run.
#[derive(Clone, Debug)]
pub struct Library {
    /// Which one.
    pub name: Name,
    /// What it says it is.
    pub version: String,
    launcher: PathBuf,
    program: PathBuf,
}

impl Library {
    /// Fetches, builds and tries it.
    pub fn prepare(name: Name, workshop: &Workshop, limit: Duration) -> Result<Library, String> {
        let home = match name {
            Name::Banyan => workshop.banyan_prefix()?,
            Name::Mpich | Name::MpichOfi => workshop.environment("mpich", "mpich")?,
        };
        let output = format!("dynamic-{}", name.key());
        let program = workshop.compile(&home.join("bin/mpicc"), DYNAMIC, &[], &output)?;
        let mut library =
            Library { name, version: String::new(), launcher: home.join("bin/mpiexec"), program };
        let mut asked = library.launch(1, Work::Spawn { children: 1 });
        asked.arg("version");
        let tried = runner::run(asked, limit).map_err(|e| e.to_string())?;
        let version = tried.stdout.lines().find_map(|line| line.strip_prefix("version "));
        let version = version.and_then(|text| text.split(',').next()).ok_or("it printed no version")?;
        library.version = version.split_whitespace().collect::<Vec<_>>().join(" ");
        let told: Vec<String> = library.told().map(|(key, value)| format!("{key}={value}")).collect();
        if !told.is_empty() {
            library.version += &format!(" ({})", told.join(" "));
        }
        Ok(library)
    }

    fn told(&self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        self.name.env(Work::Meet { ranks: 1 }).iter()
    }

    /// The command that starts such a job; at `port` one launch leaves what another one reads.
    pub fn command(&self, job: &Job, mode: &str, port: &Path) -> Command {
        let times = job.times.to_string();
        match job.work {
            Work::Spawn { children } => {
                let mut command = self.launch(1, job.work);
                command.args([mode, &children.to_string(), &times]);
                command
            }
            Work::Meet { ranks } => {
                let mut command = self.launch(ranks, job.work);
                command.arg(mode).arg(port).arg(times);
                command
            }
        }
    }

    fn launch(&self, ranks: usize, work: Work) -> Command {
        let mut command = Command::new(&self.launcher);
        command.arg("-n").arg(ranks.to_string()).arg(&self.program);
        command.envs(self.name.env(work).iter().copied());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(work: Work, mode: &str) -> String {
        let (launcher, program) = (PathBuf::from("/bin/mpiexec"), PathBuf::from("/bin/dynamic"));
        let library = Library { name: Name::Mpich, version: String::new(), launcher, program };
        let job = Job { work, times: 3, rows: Vec::new() };
        let command = library.command(&job, mode, Path::new("/tmp/port"));
        let words = command.get_args().chain(command.get_envs().map(|(key, _)| key));
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_process_spawns_and_whole_jobs_meet() {
        assert_eq!(words(Work::Spawn { children: 16 }, "spawn"), "-n 1 /bin/dynamic spawn 16 3");
        let accept = words(Work::Meet { ranks: 4 }, "accept");
        assert_eq!(accept, "-n 4 /bin/dynamic accept /tmp/port 3 UCX_UNIFIED_MODE");
    }
}
