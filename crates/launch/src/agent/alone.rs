//! Ranks that will not become one job, though they are meant to: programs whose MPI library does not speak to this
//! launcher, does not find its library, or has lost the variables that lead here.
//!
//! What a program loads is read from its file before it starts ([`fit`]). What interpreters and scripts load shows in the
//! memory maps of a rank, which are looked at when it writes something and has not begun PMI, and at two moments later:
//! a few times on a node, and never again after something was found. Programs that load no MPI library are none of this
//! module's business.
use super::Agent;
use crate::library::{Environment, Family, Linkage, Program, Symbols, family_of, folder_beside, look};
use proto::tree::{Ended, Frame, PmiState};
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sys::process::Pid;

/// Looks at ranks that are silent, after the start.
const LOOKS_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// Ranks that are looked at on each occasion.
const RANKS_MAX: u32 = 4;
/// Processes of a rank that are looked at.
const PROCESSES_MAX: usize = 8;
/// Of a file in `/proc`.
const FILE_BYTES_MAX: u64 = 4 << 20;
const LIBRARY_PATH: &[u8] = b"LD_LIBRARY_PATH";

/// Makes a program find its library where Banyan's lies beside this executable and nothing else has it. Returns what the
/// user should know.
pub(super) fn fit(path: &CStr, folder: Option<&CStr>, env: &mut Vec<Vec<u8>>, ranks: u32) -> Vec<String> {
    let folder = folder_of(folder);
    let value = |name: &str| {
        let value =
            env.iter().find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        value.map(|value| String::from_utf8_lossy(value).into_owned())
    };
    let environment = Environment::new(value, folder.clone());
    match look(&folder.join(OsStr::from_bytes(path.to_bytes())), &environment) {
        Ok(Program::Dynamic(linkage)) => fitted(&linkage, env, ranks),
        _ => Vec::new(), // whoever executes it says what is wrong
    }
}

fn folder_of(folder: Option<&CStr>) -> PathBuf {
    let text = |text: &CStr| PathBuf::from(OsStr::from_bytes(text.to_bytes()));
    folder.map_or_else(|| std::env::current_dir().unwrap_or_default(), text)
}

/// Where a program is that is started in a folder.
pub(super) fn place_of(path: &CStr, folder: Option<&CStr>) -> PathBuf {
    folder_of(folder).join(OsStr::from_bytes(path.to_bytes()))
}

fn fitted(linkage: &Linkage, env: &mut Vec<Vec<u8>>, ranks: u32) -> Vec<String> {
    let Some((name, family)) = linkage.mpi() else { return Vec::new() };
    let program = linkage.loaded[0].path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match (linkage.find(name), family) {
        (Some(found), Family::OpenMpi) if ranks > 1 && begins_mpi(linkage) => {
            vec![format!("warning: '{program}' uses {}", alone(&found.path, ranks))]
        }
        (Some(_), _) => Vec::new(),
        (None, Family::Mpich | Family::Standard) => {
            let beside = std::env::current_exe().ok().and_then(|own| folder_beside(&own, name));
            let Some(folder) = beside else {
                return vec![format!(
                    "warning: '{program}' does not find {name}: if it is in PREFIX/lib, '-genv LD_LIBRARY_PATH \
                     PREFIX/lib' says so"
                )];
            };
            add_library_path(env, &folder);
            let folder = folder.display();
            vec![format!(
                "note: '{program}' does not find {name} by itself and gets it from {folder}; 'export \
                 LD_LIBRARY_PATH={folder}' does the same"
            )]
        }
        (None, _) => vec![format!(
            "warning: '{program}' does not find {name}, a library of Open MPI; compile the program with Banyan's 'mpicc'"
        )],
    }
}

/// Does anything of the program begin MPI? Tools of a library only ask it for something.
fn begins_mpi(linkage: &Linkage) -> bool {
    let own = linkage
        .loaded
        .iter()
        .filter(|loaded| loaded.path.file_name().and_then(OsStr::to_str).and_then(family_of).is_none());
    own.into_iter().any(|loaded| Symbols::read(&loaded.path).is_ok_and(|symbols| symbols.begin_mpi()))
}

/// Appends a folder: all others come first.
fn add_library_path(env: &mut Vec<Vec<u8>>, folder: &Path) {
    let is_path = |variable: &Vec<u8>| {
        variable.strip_prefix(LIBRARY_PATH).is_some_and(|rest| rest.first() == Some(&b'='))
    };
    let folder = folder.as_os_str().as_bytes();
    match env.iter_mut().find(|variable| is_path(variable)) {
        Some(path) if path.ends_with(b"=") => path.extend_from_slice(folder),
        Some(path) => path.extend_from_slice(&[b":", folder].concat()),
        None => env.push([LIBRARY_PATH, b"=", folder].concat()),
    }
}

/// What to say of Open MPI's library.
fn alone(library: &Path, ranks: u32) -> String {
    format!(
        "Open MPI's library ({}), which does not join a job of this launcher: each of the {ranks} processes will be rank 0 \
         of 1. Compile the program with Banyan's 'mpicc', or start it with Open MPI's 'mpirun' ('banyan check PROGRAM' says \
         more)",
        library.display()
    )
}

/// What the memory maps of a process show.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// A library that does not join.
    Stranger(PathBuf),
    /// One that would, without the variables that lead it here.
    Lost(PathBuf),
}

/// Which ranks have been looked at, and what was seen.
#[derive(Debug)]
pub(super) struct Lookout {
    /// What is still to be done at the start; nothing where no one has to join.
    begun: Instant,
    ticks: usize,
    /// Ranks that may still be looked at when they write.
    writers: u32,
    /// What was seen of a rank, before it is said.
    held: Option<(u32, Seen)>,
    /// Is there nothing to look for any more?
    pub(super) is_over: bool,
}

impl Lookout {
    pub(super) fn new(now: Instant) -> Self {
        Lookout { begun: now, ticks: 0, writers: RANKS_MAX, held: None, is_over: false }
    }

    /// When to look again.
    pub(super) fn due(&self) -> Option<Instant> {
        let after = LOOKS_AFTER.get(self.ticks).filter(|_| !self.is_over)?;
        Some(self.begun + *after)
    }
}

impl Agent {
    /// A rank writes something, perhaps that it is rank 0 of 1.
    pub(super) fn look_at_writer(&mut self, index: usize, slot: u32) {
        let lookout = &self.lookout;
        if lookout.is_over || lookout.held.is_some() || lookout.writers == 0 || index != 0 {
            return;
        }
        let here = &self.jobs[index];
        let Some(pid) = here.ranks.silent_pid(slot).filter(|_| here.is_lookout_for()) else {
            // One that has joined, or has nobody to join: the others are like it.
            self.lookout.writers -= 1;
            return;
        };
        self.lookout.writers -= 1;
        self.lookout.held = seen_of(pid).map(|seen| (slot, seen));
    }

    /// Looks at some silent ranks, and says what was seen of those that still are.
    pub(super) fn look_around(&mut self, now: Instant) {
        if self.lookout.due().is_none_or(|due| due > now) {
            return;
        }
        self.lookout.ticks += 1;
        let Some(here) = self.jobs.first().filter(|here| here.is_lookout_for()) else {
            self.lookout.is_over = true;
            return;
        };
        let silent = |slot: &u32| here.ranks.silent_pid(*slot).map(|pid| (*slot, pid));
        if let Some((slot, seen)) = self.lookout.held.take() {
            let is_stranger = matches!(seen, Seen::Stranger(_));
            match silent(&slot) {
                Some(_) if is_stranger => self.say_seen(&seen),
                Some(_) => self.lookout.held = Some((slot, seen)),
                None => {}
            }
            return;
        }
        let some = (0..here.ranks.count()).filter_map(|slot| silent(&slot)).take(RANKS_MAX as usize);
        self.lookout.held = some.into_iter().find_map(|(slot, pid)| Some((slot, seen_of(pid)?)));
        if self.lookout.ticks == LOOKS_AFTER.len()
            && let Some((_, seen @ Seen::Stranger(_))) = self.lookout.held.clone()
        {
            self.say_seen(&seen);
        }
    }

    /// A rank has ended: what was seen of it is true if it never began PMI.
    pub(super) fn look_back(&mut self, index: usize, slot: u32, ended: Ended, pmi: PmiState) {
        let Some((of, seen)) = self.lookout.held.clone().filter(|(of, _)| index == 0 && *of == slot) else {
            return;
        };
        debug_assert_eq!(of, slot);
        self.lookout.held = None;
        if pmi == PmiState::Unused && (ended == Ended::Exit(0) || matches!(seen, Seen::Stranger(_))) {
            self.say_seen(&seen);
        }
    }

    fn say_seen(&mut self, seen: &Seen) {
        self.lookout.is_over = true;
        let ranks = self.jobs.first().map_or(0, |here| here.group.ranks());
        let text = match seen {
            Seen::Stranger(library) => format!(
                "warning: a process has loaded {}. For mpi4py, MPI4PY_LIBMPI=PREFIX/lib/libmpi.so.12 names Banyan's",
                alone(library, ranks)
            ),
            Seen::Lost(library) => format!(
                "warning: a process has loaded {} without PMI_FD in its environment: each of the {ranks} processes was rank \
                 0 of 1. Something between launcher and program ('env -i', a container) drops the variables PMI_* and \
                 BANYAN_*, or closes the descriptor",
                library.display()
            ),
        };
        self.report(&Frame::Warn { node: self.node, text });
    }
}

/// What the processes of a rank have loaded.
fn seen_of(rank: Pid) -> Option<Seen> {
    let mut processes = vec![rank.0];
    let mut next = 0;
    while next < processes.len() {
        let pid = processes[next];
        if let Some(seen) = library_of(pid).and_then(|(library, family)| seen(pid, library, family)) {
            return Some(seen);
        }
        let children = read(&format!("/proc/{pid}/task/{pid}/children"));
        let children = String::from_utf8_lossy(&children).into_owned();
        processes.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        processes.truncate(PROCESSES_MAX);
        next += 1;
    }
    None
}

fn seen(pid: i32, library: PathBuf, family: Family) -> Option<Seen> {
    match family {
        Family::OpenMpi => Some(Seen::Stranger(library)),
        Family::Mpich | Family::Standard => {
            let environment = read(&format!("/proc/{pid}/environ"));
            let mut variables = environment.split(|byte| *byte == 0);
            let leads_here = variables
                .any(|variable| variable.starts_with(b"PMI_FD=") || variable.starts_with(b"PMI_PORT="));
            (!environment.is_empty() && !leads_here).then_some(Seen::Lost(library))
        }
        Family::Unknown => None,
    }
}

/// The MPI library that a process has mapped. Other libraries of Open MPI's do not count, but tell whose it is.
fn library_of(pid: i32) -> Option<(PathBuf, Family)> {
    let maps = read(&format!("/proc/{pid}/maps"));
    let paths = maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let path = &line[line.iter().position(|byte| *byte == b'/')?..];
        Some(Path::new(OsStr::from_bytes(path)))
    });
    let of = |path: &Path| family_of(path.file_name()?.to_str()?);
    let all: Vec<(&Path, Family)> = paths.clone().filter_map(|path| Some((path, of(path)?))).collect();
    let is_open = all.iter().any(|(_, family)| *family == Family::OpenMpi);
    let is_mpi = |path: &Path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"libmpi"));
    let (path, family) = all.iter().find(|(path, _)| is_mpi(path))?;
    // Tools that only ask the library for something do not want to be a job.
    let others: BTreeSet<&Path> = paths.filter(|path| of(path).is_none()).collect();
    let begins = others.iter().any(|path| Symbols::read(path).is_ok_and(|symbols| symbols.begin_mpi()));
    begins.then(|| (path.to_path_buf(), if is_open { Family::OpenMpi } else { *family }))
}

/// A file of a process that may be gone.
fn read(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_appended_to_those_that_are_searched() {
        let mut env = vec![b"LD_LIBRARY_PATHS=x".to_vec()];
        add_library_path(&mut env, Path::new("/a"));
        add_library_path(&mut env, Path::new("/b"));
        assert_eq!(env, [b"LD_LIBRARY_PATHS=x".to_vec(), b"LD_LIBRARY_PATH=/a:/b".to_vec()]);
        let mut env = vec![b"LD_LIBRARY_PATH=".to_vec()];
        add_library_path(&mut env, Path::new("/a"));
        assert_eq!(env, [b"LD_LIBRARY_PATH=/a".to_vec()]);
    }

    #[test]
    fn this_process_has_loaded_no_mpi_library() {
        assert_eq!(library_of(Pid::own().0), None);
        assert_eq!(seen_of(Pid::own()), None);
    }

    #[test]
    fn programs_without_mpi_are_left_as_they_are() {
        let mut env = vec![b"PATH=/bin".to_vec()];
        for program in [c"/bin/sh", c"/bin/hostname", c"/etc/passwd", c"/no/such/thing"] {
            assert!(fit(program, None, &mut env, 4).is_empty());
        }
        assert_eq!(env, [b"PATH=/bin".to_vec()]);
    }
}
