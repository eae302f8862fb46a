//! The programs of a job: where they are, and the environment that their ranks get.
use crate::spec::{Inherit, JobSpec, Section};
use proto::env::ReadBy;
use proto::tree::StartStep;
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use sys::process::spawn::Program;

/// Variables of other launchers that would mislead a rank, by prefix. What this launcher tells its own ranks would as well.
const SCRUBBED: [&str; 7] = ["PMI_", "PMIX_", "PRTE_", "OMPI_", "MPI_LOCAL", "HYDI_", "MPIRUN_"];

/// Who looks for a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// It has been found: the path is what is executed.
    Done,
    /// It is not on the launcher's host: each agent looks on its own, in these folders (separated by colons) first.
    OnHost(Option<OsString>),
}

/// A program, ready to be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Ranks that run it.
    pub(crate) ranks: u32,
    pub(crate) path: CString,
    pub(crate) search: Search,
    /// Its name, as the user wrote it, and its arguments.
    pub(crate) args: Vec<Vec<u8>>,
    /// `K=V` of what its ranks share.
    pub(crate) env: Vec<Vec<u8>>,
    pub(crate) folder: Option<CString>,
}

/// Why a program cannot be run, with the exit code that says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("program '{0}' was not found")]
    NotFound(String),
    #[error("program '{0}' is not an executable file")]
    NotExecutable(String),
    #[error("program '{0}' is a folder")]
    Folder(String),
    #[error("working folder '{0}': {1}")]
    WorkingFolder(String, String),
    #[error("'{0}' holds a zero byte")]
    ZeroByte(String),
}

impl ProgramError {
    pub(crate) fn exit_code(&self) -> i32 {
        if matches!(self, ProgramError::NotFound(_)) { 127 } else { 126 }
    }

    /// The error that executing the program would have given.
    pub(crate) fn as_system(&self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            ProgramError::NotFound(_) => sys::process::ENOENT,
            ProgramError::NotExecutable(_) | ProgramError::Folder(_) => sys::process::EACCES,
            ProgramError::WorkingFolder(..) => sys::process::ENOTDIR,
            ProgramError::ZeroByte(_) => sys::process::EINVAL,
        })
    }
}

/// Do the ranks of a job run where the launcher runs?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Here,
    /// On other hosts, which may have other programs, and where the working folder has to be named.
    Elsewhere,
}

/// Finds the programs of a job.
pub(crate) fn find_programs(spec: &JobSpec, at: Where) -> Result<Vec<Found>, ProgramError> {
    spec.sections.iter().map(|section| find_section(spec, section, at)).collect()
}

pub(crate) fn find_section(spec: &JobSpec, section: &Section, at: Where) -> Result<Found, ProgramError> {
    let here = (at == Where::Elsewhere).then(|| env::current_dir().ok()).flatten();
    let folder = section.folder.as_ref().or(spec.folder.as_ref());
    let folder = match (folder, here) {
        (Some(folder), Some(here)) => Some(here.join(folder)),
        (folder, here) => folder.cloned().or(here),
    };
    let first = section.search.as_ref().or(spec.search.as_ref()).map(OsString::as_os_str);
    let (path, search) = match find_program(&section.program, folder.as_deref(), first) {
        Ok(path) => (path, Search::Done),
        Err(_) if at == Where::Elsewhere => {
            (PathBuf::from(&section.program), Search::OnHost(first.map(from_here)))
        }
        Err(error) => {
            // It may be missing for want of the folder that it is looked for in.
            folder.as_deref().map_or(Ok(()), working_folder)?;
            return Err(error);
        }
    };
    let mut own = spec.net.variables();
    own.extend(spec.env.iter().chain(&section.env).cloned());
    if spec.sections.len() > 1 {
        own.push((proto::env::PROGRAMS.into(), spec.sections.len().to_string().into()));
    }
    let inherit = section.inherit.as_ref().unwrap_or(&spec.inherit);
    let mut args = vec![section.program.as_bytes().to_vec()];
    args.extend(section.args.iter().map(|arg| arg.as_bytes().to_vec()));
    Ok(Found {
        ranks: section.ranks,
        path: c_string(path.into_os_string())?,
        search,
        args,
        env: environment(env::vars_os(), inherit, &own),
        folder: folder.map(|folder| c_string(folder.into_os_string())).transpose()?,
    })
}

/// A list of folders as other hosts understand it: what is relative was meant from here.
fn from_here(list: &OsStr) -> OsString {
    let folders = env::current_dir().map(|here| env::split_paths(list).map(move |folder| here.join(folder)));
    folders.ok().and_then(|folders| env::join_paths(folders).ok()).unwrap_or_else(|| list.to_owned())
}

fn working_folder(folder: &Path) -> Result<(), ProgramError> {
    let error = match folder.metadata() {
        Ok(meta) if meta.is_dir() => return Ok(()),
        Ok(_) => io::Error::from_raw_os_error(sys::process::ENOTDIR),
        Err(error) => error,
    };
    Err(ProgramError::WorkingFolder(folder.display().to_string(), error.to_string()))
}

/// Is a file surely no script? Those have lines of text. What the system does not know how to run is given to a shell otherwise,
/// which would read a program for another machine as a script.
pub(crate) fn is_binary(path: &Path) -> bool {
    let mut bytes = [0; 256];
    let read = File::open(path).and_then(|mut file| file.read(&mut bytes));
    let bytes = &bytes[..read.unwrap_or(0)];
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    bytes.starts_with(b"\x7fELF") || line.contains(&0)
}

/// A command of the launcher's or an agent's own, with the environment that they have.
pub(crate) fn own_program(words: &[String]) -> io::Result<Program> {
    let path = find_program(OsStr::new(&words[0]), None, None).map_err(|error| error.as_system())?;
    let path = c_string(path.into_os_string()).map_err(|error| error.as_system())?;
    let args = words.iter().map(|word| word.clone().into_bytes()).collect();
    let env = env::vars_os().map(|(name, value)| variable(&name, &value)).collect();
    Program::new(&path, args, env, None)
}

impl Found {
    /// The program's name, as the user wrote it.
    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(self.args.first().map_or(b"", Vec::as_slice)).into_owned()
    }

    /// Is there such a file on this host?
    pub(crate) fn is_here(&self) -> bool {
        let text = |text: &CString| PathBuf::from(OsStr::from_bytes(text.to_bytes()));
        let folder = self.folder.as_ref().map_or_else(PathBuf::new, text);
        self.path_here().is_ok_and(|path| folder.join(text(&path)).exists())
    }

    /// What would keep the program from being executed on this host, as far as can be seen without trying.
    pub(crate) fn check_here(&self) -> Result<(), (StartStep, io::Error)> {
        let folder = self.folder.as_ref().map(|folder| Path::new(OsStr::from_bytes(folder.to_bytes())));
        if let Some(folder) = folder {
            let error = match folder.metadata() {
                Ok(meta) if meta.is_dir() => None,
                Ok(_) => Some(io::Error::from_raw_os_error(sys::process::ENOTDIR)),
                Err(error) => Some(error),
            };
            error.map_or(Ok(()), |error| Err((StartStep::Folder, error)))?;
        }
        let path = self.path_here().map_err(|error| (StartStep::Program, error.as_system()))?;
        let found = find_program(OsStr::from_bytes(path.to_bytes()), folder, None);
        found.map(drop).map_err(|error| (StartStep::Program, error.as_system()))
    }

    /// The path on this host.
    pub(crate) fn path_here(&self) -> Result<CString, ProgramError> {
        let Search::OnHost(first) = &self.search else { return Ok(self.path.clone()) };
        let folder = self.folder.as_ref().map(|folder| Path::new(OsStr::from_bytes(folder.to_bytes())));
        let found = find_program(OsStr::from_bytes(self.path.to_bytes()), folder, first.as_deref())?;
        c_string(found.into_os_string())
    }
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
    let misleads = |name: &OsStr| {
        let known = name.to_str().and_then(proto::env::find);
        known.is_some_and(|variable| variable.read_by == ReadBy::LibraryFromLauncher)
            || SCRUBBED.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
    };
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

pub(crate) fn find_program(
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
        } else if based(path).is_dir() {
            Err(ProgramError::Folder(text()))
        } else {
            Err(ProgramError::NotExecutable(text()))
        };
    }
    let path = env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let first = search.map(env::split_paths).into_iter().flatten();
    let candidates: Vec<PathBuf> =
        first.chain(env::split_paths(&path)).map(|folder| folder.join(program)).collect();
    match candidates.iter().find(|path| is_executable(path)) {
        // It is executed in the working folder, from which a relative name may be another file's.
        Some(found) => std::path::absolute(found).or_else(|_| Ok(found.clone())),
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
    fn what_no_shell_could_read_is_told_from_scripts() {
        let is = |bytes: &[u8]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            is_binary(file.path())
        };
        for binary in [&b"\x7fELF"[..], b"\x7fELF\x01\x01\x01\0", b"MZ\x90\0\x03", b"\0"] {
            assert!(is(binary), "{binary:?}");
        }
        for script in
            [&b""[..], b"echo hi", b"echo \xff\n", b"tail -n +2 $0 | tar x; exit\n\0\0", b"#!/bin/sh\n"]
        {
            assert!(!is(script), "{script:?}");
        }
        assert!(!is_binary(Path::new("/no/such/file")));
    }

    #[test]
    fn variables_of_other_launchers_are_scrubbed_and_own_ones_win() {
        let pair = |(a, b): (&str, &str)| (OsString::from(a), OsString::from(b));
        let inherited = [
            ("PATH", "/bin"),
            ("PMI_FD", "9"),
            ("PMIX_RANK", "1"),
            ("BANYAN_NODE", "1:2:3"),
            ("BANYAN_BOARD", "1:2:3"),
            ("BANYAN_NET_ADDRESS", "10.0.0.1"),
            ("BANYAN_NET", "eth0"),
            ("A", "1"),
        ];
        let own = [pair(("A", "0")), pair(("A", "2"))];
        let text = |inherit: Inherit| {
            let env = environment(inherited.map(pair).into_iter(), &inherit, &own);
            env.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect::<Vec<_>>()
        };
        let net = "BANYAN_NET=eth0";
        let (path, fortran, own) = ("PATH=/bin", "GFORTRAN_UNBUFFERED_PRECONNECTED=y", "A=2");
        assert_eq!(text(Inherit::All), [path, net, fortran, own]);
        assert_eq!(text(Inherit::Nothing), [fortran, own]);
        assert_eq!(text(Inherit::Listed(vec!["PATH".into(), "PMI_FD".into()])), [path, fortran, own]);
    }

    #[test]
    fn what_another_job_told_its_ranks_is_not_passed_on() {
        let told = proto::env::VARIABLES.iter().filter(|known| known.read_by == ReadBy::LibraryFromLauncher);
        let told: Vec<&str> = told.map(|known| known.name).collect();
        assert!(told.contains(&proto::env::SERVER) && told.contains(&proto::env::NODE), "{told:?}");
        let inherited = told.iter().map(|&name| (OsString::from(name), OsString::from("1")));
        let env = environment(inherited, &Inherit::All, &[]);
        assert_eq!(env, [b"GFORTRAN_UNBUFFERED_PRECONNECTED=y".to_vec()]);
    }

    #[test]
    fn what_is_missing_on_this_host_is_seen_without_trying() {
        let obstacle = |path: &str, folder: &str, search| {
            let (path, folder) = (CString::new(path).unwrap(), CString::new(folder).unwrap());
            let found =
                Found { ranks: 1, path, search, args: Vec::new(), env: Vec::new(), folder: Some(folder) };
            found.check_here().map_err(|(step, error)| (step, error.raw_os_error().unwrap()))
        };
        assert_eq!(obstacle("/bin/sh", "/", Search::Done), Ok(()));
        assert_eq!(obstacle("sh", "/", Search::OnHost(None)), Ok(()));
        assert_eq!(obstacle("bin/sh", "/", Search::Done), Ok(()), "seen from the folder");
        let missing = Err((StartStep::Program, sys::process::ENOENT));
        assert_eq!(obstacle("/no/such/thing", "/", Search::Done), missing);
        assert_eq!(obstacle("no-such-program-anywhere", "/", Search::OnHost(None)), missing);
        let no_program = (StartStep::Program, sys::process::EACCES);
        assert_eq!(obstacle("/etc/passwd", "/", Search::Done), Err(no_program));
        let no_folder = (StartStep::Folder, sys::process::ENOENT);
        assert_eq!(obstacle("/bin/sh", "/no/such/folder", Search::Done), Err(no_folder));
        let file = (StartStep::Folder, sys::process::ENOTDIR);
        assert_eq!(obstacle("/bin/sh", "/etc/passwd", Search::Done), Err(file));
    }

    #[test]
    fn every_host_searches_the_folders_asked_for_first() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("only-there");
        let section = Section {
            ranks: 1,
            program: "only-there".into(),
            search: Some(folder.path().into()),
            ..Section::default()
        };
        let find = |at| find_section(&JobSpec::new("sh", Vec::new(), 1), &section, at);
        assert_eq!(find(Where::Here), Err(ProgramError::NotFound("only-there".into())));
        let found = find(Where::Elsewhere).unwrap();
        assert!(found.path_here().is_err() && found.check_here().is_err());
        // The same folder on another host.
        std::os::unix::fs::symlink("/bin/sh", &own).unwrap();
        assert_eq!(found.path_here().unwrap().to_bytes(), own.as_os_str().as_bytes());
        assert!(found.check_here().is_ok() && found.is_here());
    }

    #[test]
    fn folders_that_are_relative_are_meant_from_the_launchers_own() {
        let here = env::current_dir().unwrap().display().to_string();
        assert_eq!(from_here(OsStr::new("/a:b:")).to_str(), Some(format!("/a:{here}/b:{here}/").as_str()));
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
