//! What launcher, warden and agents of one job all know. It reaches them by fork: nothing secret is ever in an
//! argument list or in the environment of ranks.
use crate::placement::Placement;
use crate::spec::{Bind, Inherit, JobSpec, QP_MAX_DEFAULT, Section, StdinTo};
use proto::ids::{NodeId, Rank};
use proto::tree::Shape;
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use sys::process;

/// Children of an agent in the tree.
const TREE_RADIX: u32 = 8;

/// Variables of other launchers that would mislead a rank, by prefix.
const SCRUBBED: [&str; 8] =
    ["PMI_", "PMIX_", "PRTE_", "OMPI_", "MPI_LOCAL", "BANYAN_NODE", "BANYAN_MAPPING", "HYDI_"];

/// A program, found and ready to be executed.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) path: CString,
    pub(crate) section: Section,
    /// `K=V` of what its ranks share.
    pub(crate) env: Vec<Vec<u8>>,
    pub(crate) folder: Option<CString>,
}

/// The facts of a job.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) programs: Vec<Found>,
    pub(crate) placement: Placement,
    pub(crate) shape: Shape,
    pub(crate) universe: Option<u32>,
    pub(crate) stdin: StdinTo,
    pub(crate) bind: Bind,
    pub(crate) cores: Vec<usize>,
    pub(crate) qp_max: u32,
    pub(crate) host: [u64; 2],
    pub(crate) key: [u64; 4],
}

/// Why a program cannot be run, with the exit code that says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("program '{0}' was not found")]
    NotFound(String),
    #[error("program '{0}' is not an executable file")]
    NotExecutable(String),
    #[error("'{0}' holds a zero byte")]
    ZeroByte(String),
}

impl ProgramError {
    pub(crate) fn exit_code(&self) -> i32 {
        if matches!(self, ProgramError::NotFound(_)) { 127 } else { 126 }
    }
}

impl Job {
    /// Finds the programs.
    pub(crate) fn find_programs(spec: &JobSpec) -> Result<Vec<Found>, ProgramError> {
        let find = |section: &Section| {
            let folder = section.folder.as_ref().or(spec.folder.as_ref());
            let search = section.search.as_ref().or(spec.search.as_ref());
            let path = find_program(
                &section.program,
                folder.map(PathBuf::as_path),
                search.map(OsString::as_os_str),
            )?;
            let own: Vec<_> = spec.env.iter().chain(&section.env).cloned().collect();
            let inherit = section.inherit.as_ref().unwrap_or(&spec.inherit);
            Ok(Found {
                path: c_string(path.into_os_string())?,
                section: section.clone(),
                env: environment(env::vars_os(), inherit, &own),
                folder: folder.map(|folder| c_string(folder.clone().into_os_string())).transpose()?,
            })
        };
        spec.sections.iter().map(find).collect()
    }

    /// Fixes the facts.
    pub(crate) fn new(spec: &JobSpec, programs: Vec<Found>) -> io::Result<Self> {
        let placement = spec.placement();
        let cores = sys::limit::allowed_cores()?;
        if let Bind::User(wanted) = &spec.bind
            && let Some(core) = wanted.iter().find(|core| !cores.contains(core))
        {
            let text = format!("processor {core} is none of those that may be used here: {cores:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Job {
            name: format!("banyan-{:016x}", random_words::<1>()?[0]),
            programs,
            shape: Shape::new(placement.nodes(), TREE_RADIX),
            placement,
            universe: spec.universe,
            stdin: spec.stdin,
            bind: spec.bind.clone(),
            cores,
            qp_max: env::var("BANYAN_QP_MAX")
                .ok()
                .and_then(|text| text.parse().ok())
                .unwrap_or(QP_MAX_DEFAULT),
            host: random_words()?,
            key: random_words()?,
        })
    }

    /// Do more ranks than cores live on this host?
    pub(crate) fn oversubscribed(&self) -> bool {
        self.placement.ranks() as usize > self.cores.len()
    }

    /// The core of a rank, if ranks are bound.
    pub(crate) fn core_of(&self, rank: u32) -> Option<usize> {
        let cores = match &self.bind {
            Bind::None => return None,
            Bind::Core => &self.cores,
            Bind::User(cores) => cores,
        };
        (!cores.is_empty()).then(|| cores[rank as usize % cores.len()])
    }

    /// The node whose rank reads standard input.
    pub(crate) fn stdin_node(&self) -> Option<NodeId> {
        match self.stdin {
            StdinTo::Rank(rank) if rank < self.placement.ranks() => Some(self.placement.node_of(Rank(rank))),
            _ => None,
        }
    }

    /// Which program a rank runs.
    pub(crate) fn section_of(&self, rank: u32) -> usize {
        let mut end = 0;
        let is_behind = |found: &Found| {
            end += found.section.ranks;
            rank < end
        };
        self.programs.iter().position(is_behind).expect("a rank of the job")
    }
}

fn random_words<const N: usize>() -> io::Result<[u64; N]> {
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; 8];
        process::random(&mut bytes)?;
        *word = u64::from_le_bytes(bytes);
    }
    Ok(words)
}

fn c_string(text: OsString) -> Result<CString, ProgramError> {
    let shown = text.to_string_lossy().into_owned();
    CString::new(text.into_vec()).map_err(|_| ProgramError::ZeroByte(shown))
}

/// `K=V` of what is inherited but for what misleads, and the job's own variables, of which later ones win.
fn environment(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    inherit: &Inherit,
    own: &[(OsString, OsString)],
) -> Vec<Vec<u8>> {
    let misleads =
        |name: &OsStr| SCRUBBED.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()));
    let wanted = |name: &OsString| match inherit {
        Inherit::All => true,
        Inherit::Nothing => false,
        Inherit::Listed(names) => names.contains(name),
    };
    let is_own = |own: &[(OsString, OsString)], name: &OsStr| own.iter().any(|(key, _)| key == name);
    let kept = inherited.filter(|(name, _)| wanted(name) && !misleads(name) && !is_own(own, name));
    // Fortran programs otherwise hold their output back until they end.
    let unbuffered = (OsString::from("GFORTRAN_UNBUFFERED_PRECONNECTED"), OsString::from("y"));
    let last = own.iter().enumerate().filter(|(i, (name, _))| !is_own(&own[i + 1..], name));
    let own = last.map(|(_, pair)| pair.clone());
    kept.chain([unbuffered]).chain(own).map(|(name, value)| variable(&name, &value)).collect()
}

/// `K=V`.
pub(crate) fn variable(name: &OsStr, value: &OsStr) -> Vec<u8> {
    [name.as_bytes(), b"=", value.as_bytes()].concat()
}

fn find_program(
    program: &OsStr,
    folder: Option<&Path>,
    search: Option<&OsStr>,
) -> Result<PathBuf, ProgramError> {
    let text = || program.to_string_lossy().into_owned();
    let based = |path: &Path| folder.map_or_else(|| path.to_owned(), |folder| folder.join(path));
    if program.as_bytes().contains(&b'/') {
        let path = Path::new(program);
        if !based(path).exists() {
            return Err(ProgramError::NotFound(text()));
        }
        return if is_executable(&based(path)) {
            Ok(path.to_owned())
        } else {
            Err(ProgramError::NotExecutable(text()))
        };
    }
    let path = env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let first = search.map(env::split_paths).into_iter().flatten();
    let candidates: Vec<PathBuf> =
        first.chain(env::split_paths(&path)).map(|folder| folder.join(program)).collect();
    match candidates.iter().find(|path| is_executable(path)) {
        Some(found) => Ok(found.clone()),
        None if candidates.iter().any(|path| path.is_file()) => Err(ProgramError::NotExecutable(text())),
        None => Err(ProgramError::NotFound(text())),
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_other_launchers_are_scrubbed_and_own_ones_win() {
        let pair = |(a, b): (&str, &str)| (OsString::from(a), OsString::from(b));
        let inherited =
            [("PATH", "/bin"), ("PMI_FD", "9"), ("PMIX_RANK", "1"), ("BANYAN_NODE", "1:2:3"), ("A", "1")];
        let own = [pair(("A", "0")), pair(("A", "2"))];
        let text = |inherit: Inherit| {
            let env = environment(inherited.map(pair).into_iter(), &inherit, &own);
            env.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect::<Vec<_>>()
        };
        let (path, fortran, own) = ("PATH=/bin", "GFORTRAN_UNBUFFERED_PRECONNECTED=y", "A=2");
        assert_eq!(text(Inherit::All), [path, fortran, own]);
        assert_eq!(text(Inherit::Nothing), [fortran, own]);
        assert_eq!(text(Inherit::Listed(vec!["PATH".into(), "PMI_FD".into()])), [path, fortran, own]);
    }

    #[test]
    fn a_program_that_cannot_run_has_the_shells_exit_code() {
        let code = |program: &str| find_program(OsStr::new(program), None, None).unwrap_err().exit_code();
        assert_eq!(code("/no/such/thing"), 127);
        assert_eq!(code("no-such-program-anywhere"), 127);
        assert_eq!(code("/etc/passwd"), 126);
        assert!(find_program(OsStr::new("sh"), None, None).is_ok());
    }
}
