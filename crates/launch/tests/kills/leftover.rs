//! What must not be left: files in shared memory and in the folder for temporary files, and System V objects.
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SHARED_MEMORY: &str = "/dev/shm";
const SYSTEM_V: [&str; 3] = ["shm", "sem", "msg"];
/// Where a row about shared memory has the process that made it, and how many are attached.
const CREATOR: usize = 4;
const ATTACHED: usize = 6;

/// What was there before a job.
pub struct Snapshot {
    files: HashSet<PathBuf>,
    objects: HashSet<String>,
}

impl Snapshot {
    pub fn take() -> Self {
        Snapshot { files: shared_files(), objects: objects(Use::Any) }
    }

    /// What is there now that was not. In shared memory, what belongs to a living process is not ours: nothing of
    /// the job lives any more.
    pub fn new_files(&self, folder: &Path, mark: &str) -> Vec<String> {
        let shared = shared_files();
        let mut new: Vec<String> = shared
            .difference(&self.files)
            .filter(|path| is_of(path, &format!("{mark}-")) || (may_be_ours(path) && !in_use(path)))
            .map(|path| path.display().to_string())
            .collect();
        new.extend(fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path().display().to_string()));
        new.extend(objects(Use::None).difference(&self.objects).cloned());
        for path in &new {
            if is_of(Path::new(path), &format!("{mark}-")) {
                let _ = fs::remove_file(path);
            }
        }
        new
    }
}

/// Is it a file that ranks of this test make, in the job with this mark?
fn is_of(path: &Path, mark: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(&format!("mpich_shm_banyan-test-{mark}"))
}

/// Another run of this test makes files too, and so do MPI programs of others. Ranks of this test are MPI programs
/// only if it was given one.
fn may_be_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_of_library =
        ["mpich_", "ucx_", "Intel_MPI_", "vader_", "sm_segment"].iter().any(|p| name.starts_with(p));
    !is_of(path, "") && (!is_of_library || std::env::var_os("BANYAN_KILL_PROGRAM").is_some())
}

fn shared_files() -> HashSet<PathBuf> {
    fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Which objects count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// All. Before a job, nothing may be left out: a process may have the number of a dead one for a while.
    Any,
    /// Shared memory only if nobody has it and its maker is gone.
    None,
}

/// System V objects by kind, key and number.
fn objects(using: Use) -> HashSet<String> {
    let rows = |kind: &&str| {
        let text = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
        let rows = text.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        let is_left = |row: &Vec<&str>| {
            using == Use::Any
                || *kind != "shm"
                || (row[ATTACHED] == "0" && !Path::new("/proc").join(row[CREATOR]).exists())
        };
        rows.filter(is_left).map(|row| format!("{kind} {} {}", row[0], row[1])).collect::<Vec<_>>()
    };
    SYSTEM_V.iter().flat_map(rows).collect()
}

/// Does any process have the file open or mapped?
fn in_use(path: &Path) -> bool {
    let Ok(facts) = fs::metadata(path) else { return true }; // gone meanwhile
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let has_it = |process: PathBuf| {
        let maps = fs::read(process.join("maps")).unwrap_or_default();
        let mut files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        String::from_utf8_lossy(&maps).contains(&*path.to_string_lossy())
            || files.any(|fd| fs::metadata(fd.path()).is_ok_and(|fd| fd.ino() == facts.ino()))
    };
    processes.map(|process| process.path()).any(has_it)
}
