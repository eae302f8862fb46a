//! Libraries that have ARMCI's interface: Banyan's own, and one on MPICH that the user has built.
use super::super::library::MEASURE;
use super::super::runner;
use super::super::table::Side;
use super::super::workshop::{Source, Workshop};
use super::options::Options;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ARMCI: Source =
    Source { name: "armci.c", text: include_str!("../../../bench/armci.c"), headers: &[MEASURE] };
/// Of a job of the microbenchmark.
pub const RANKS: usize = 2;

/// A column of the table.
#[derive(Debug)]
pub struct Contender {
    /// Its name.
    pub key: &'static str,
    /// Whose it is.
    pub side: Side,
    /// How it is run, or why it cannot be.
    pub library: Result<Library, String>,
}

/// A library that is ready to run.
#[derive(Clone, Debug)]
pub struct Library {
    /// What the MPI library below says it is.
    pub version: String,
    launcher: PathBuf,
    program: PathBuf,
}

/// Banyan's, and the one that was named.
pub fn contenders(options: &Options) -> Vec<Contender> {
    let (workshop, limit) = (&options.common.workshop, options.common.timeout);
    let contender = |key, side, library: Result<Library, String>| {
        if let Err(why) = &library {
            eprintln!("bench: {key} cannot be run: {why}");
        }
        Contender { key, side, library }
    };
    eprintln!("bench: preparing banyan");
    let mut all = vec![contender("banyan", Side::Own, banyan(workshop, limit))];
    if let Some(prefix) = &options.armci_mpi {
        eprintln!("bench: preparing armci-mpi");
        all.push(contender("armci-mpi", Side::Peer, armci_mpi(prefix, options)));
    }
    all
}

fn banyan(workshop: &Workshop, limit: Duration) -> Result<Library, String> {
    let home = workshop.banyan_prefix()?;
    Library::build(&home, &home, "armci-banyan", workshop, limit)
}

/// MPICH is the one that was named, the one beside it, or PyPI's.
fn armci_mpi(prefix: &Path, options: &Options) -> Result<Library, String> {
    let (workshop, limit) = (&options.common.workshop, options.common.timeout);
    let absolute = |path: &Path| path.canonicalize().map_err(|e| format!("{}: {e}", path.display()));
    let has = |home: &Path, what: &str| match home.join(what).is_file() {
        true => Ok(()),
        false => Err(format!("{} has no {what}", home.display())),
    };
    let prefix = absolute(prefix)?;
    has(&prefix, "include/armci.h")?;
    let mpich = |home: &Path| has(home, "bin/mpicc").and_then(|()| has(home, "bin/mpiexec"));
    let mpi = match &options.mpich {
        Some(home) => absolute(home)?,
        None if mpich(&prefix).is_ok() => prefix.clone(),
        None => workshop.environment("mpich", "mpich")?,
    };
    mpich(&mpi)?;
    Library::build(&prefix, &mpi, "armci-mpi", workshop, limit)
}

impl Library {
    /// Builds the microbenchmark with the library at one prefix and the MPI library at another, and tries it.
    fn build(
        armci: &Path,
        mpi: &Path,
        name: &str,
        workshop: &Workshop,
        limit: Duration,
    ) -> Result<Library, String> {
        let folder = |what: &str| armci.join(what).display().to_string();
        let (include, lib) = (format!("-I{}", folder("include")), folder("lib"));
        let (find, run) = (format!("-L{lib}"), format!("-Wl,-rpath,{lib}"));
        let flags = [include.as_str(), "-pthread", &find, &run, "-larmci"];
        let program = workshop.compile(&mpi.join("bin/mpicc"), ARMCI, &flags, name)?;
        let mut library = Library { version: String::new(), launcher: mpi.join("bin/mpiexec"), program };
        let mut asked = library.command();
        asked.arg("version");
        let tried = runner::run(asked, limit).map_err(|e| e.to_string())?;
        let version = tried.stdout.lines().find_map(|line| line.strip_prefix("version "));
        let words = |version: &str| version.split_whitespace().collect::<Vec<_>>().join(" ");
        library.version = version.map(words).ok_or("it printed no version")?;
        Ok(library)
    }

    /// Up to the program; its arguments follow.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.launcher);
        command.args(["-n", &RANKS.to_string()]).arg(&self.program);
        command
    }
}
