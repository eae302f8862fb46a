//! Files of MPI libraries in the folder of shared memory.
//!
//! A file goes if it has a name that an MPI library gives, belongs to this user, is not older than the job on this
//! host, and no living process has it open or mapped. Processes that cannot be looked into (of another process
//! namespace, or protected ones) are not seen.
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sys::process;

/// Where libraries make their files.
const FOLDER: &str = "/dev/shm";
/// Files removed at most after one job.
const REMOVED_MAX: usize = 1 << 16;
/// How names of MPI libraries begin: MPICH 5, MPICH 3 and 4, UCX, Intel MPI, PSM2 and PSM3, Open MPI.
const PREFIXES: [&str; 9] = [
    "mpich_shm_",
    "mpich_vci_",
    "mpich_shar_tmp",
    "ucx_shm_posix_",
    "Intel_MPI_",
    "psm2_shm.",
    "psm3_shm.",
    "vader_segment.",
    "sm_segment.",
];

/// A file, as the kernel knows it: device and inode.
type Identity = (u64, u64);

/// Those made since some moment.
#[derive(Clone, Debug)]
pub(super) struct Files {
    folder: PathBuf,
    begun: SystemTime,
}

impl Files {
    /// Those made since then, by the clock of files.
    pub(super) fn since(begun: SystemTime) -> Self {
        Files { folder: FOLDER.into(), begun }
    }

    /// Removes those that nobody uses, and returns them.
    pub(super) fn remove(&self) -> Vec<PathBuf> {
        let candidates = self.candidates();
        if candidates.is_empty() {
            return Vec::new();
        }
        let used = files_in_use(&candidates.iter().map(|(_, identity)| *identity).collect());
        let unused = candidates.into_iter().filter(|(_, identity)| !used.contains(identity));
        unused.map(|(path, _)| path).filter(|path| fs::remove_file(path).is_ok()).collect()
    }

    fn candidates(&self) -> Vec<(PathBuf, Identity)> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let user = process::effective_user();
        let candidate = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let is_known =
                PREFIXES.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
            let facts = is_known.then(|| entry.metadata().ok()).flatten()?;
            let is_ours = facts.is_file() && facts.uid() == user && oldest_time(&facts) >= self.begun;
            is_ours.then(|| (entry.path(), (facts.dev(), facts.ino())))
        };
        entries.flatten().filter_map(candidate).take(REMOVED_MAX).collect()
    }
}

/// No file is younger than any of its times: only going by the oldest is safe where the time of its birth is
/// not kept.
fn oldest_time(facts: &fs::Metadata) -> SystemTime {
    let time = |seconds: i64, nanoseconds: i64| {
        UNIX_EPOCH + Duration::new(seconds.max(0) as u64, nanoseconds.clamp(0, 999_999_999) as u32)
    };
    let times = [
        time(facts.atime(), facts.atime_nsec()),
        time(facts.mtime(), facts.mtime_nsec()),
        time(facts.ctime(), facts.ctime_nsec()),
    ];
    times.into_iter().chain(facts.created().ok()).min().unwrap_or(UNIX_EPOCH)
}

/// Which of `wanted` some process has open or mapped.
fn files_in_use(wanted: &HashSet<Identity>) -> HashSet<Identity> {
    let mut used = HashSet::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            // Descriptors first: a file is mapped before its descriptor is closed.
            used.extend(open_files(&entry.path()).filter(|identity| wanted.contains(identity)));
            used.extend(mapped_files(&entry.path()).into_iter().filter(|identity| wanted.contains(identity)));
        }
    }
    used
}

fn open_files(process: &Path) -> impl Iterator<Item = Identity> {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let facts = descriptors.filter_map(|descriptor| fs::metadata(descriptor.path()).ok());
    facts.map(|facts| (facts.dev(), facts.ino()))
}

fn mapped_files(process: &Path) -> Vec<Identity> {
    let maps = fs::read(process.join("maps")).unwrap_or_default();
    maps.split(|&b| b == b'\n').filter_map(mapped_file).collect()
}

/// A line of `maps`: addresses, rights, offset, device (major:minor, hexadecimal), inode, name.
fn mapped_file(line: &[u8]) -> Option<Identity> {
    let mut fields = line.split(|&b| b == b' ').filter(|field| !field.is_empty());
    let (major, minor) = std::str::from_utf8(fields.nth(3)?).ok()?.split_once(':')?;
    let (major, minor) = (u64::from_str_radix(major, 16).ok()?, u64::from_str_radix(minor, 16).ok()?);
    let inode = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    Some((device(major, minor), inode))
}

/// A device number as the system calls give it.
fn device(major: u64, minor: u64) -> u64 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::process::{Command, Stdio};

    fn files_in(folder: &Path) -> Files {
        Files { folder: folder.into(), begun: process::file_clock() }
    }

    fn names(removed: &[PathBuf]) -> Vec<String> {
        removed.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn unused_files_of_libraries_go_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let files = files_in(folder.path());
        for name in ["mpich_shm_1_0", "psm3_shm.1", "precious", "my_mpich_shm_1"] {
            File::create(folder.path().join(name)).unwrap();
        }
        fs::create_dir(folder.path().join("Intel_MPI_folder")).unwrap();
        let mut removed = names(&files.remove());
        removed.sort();
        assert_eq!(removed, ["mpich_shm_1_0", "psm3_shm.1"]);
        assert!(folder.path().join("precious").exists());
        assert!(folder.path().join("my_mpich_shm_1").exists());
    }

    #[test]
    fn files_older_than_the_job_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ucx_shm_posix_1");
        File::create(&path).unwrap();
        let mut files = files_in(folder.path());
        files.begun += Duration::from_secs(1); // far beyond what clocks of files differ by
        assert!(files.remove().is_empty());
        // Not even if it was written since.
        fs::write(&path, "x").unwrap();
        files.begun = oldest_time(&fs::metadata(&path).unwrap()) + Duration::from_nanos(1);
        assert!(files.remove().is_empty());
        assert!(path.exists());
    }

    #[test]
    fn open_and_mapped_files_stay_until_their_last_user_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let files = files_in(folder.path());
        let open = folder.path().join("Intel_MPI_open");
        let mapped = folder.path().join("mpich_shm_mapped");
        let file = File::create(&open).unwrap();
        // By another process: a program that is open for writing, in a child just forked too, cannot be run.
        assert!(Command::new("cp").arg("/bin/sleep").arg(&mapped).status().unwrap().success());
        let mut user = Command::new(&mapped).arg("60").stdin(Stdio::null()).spawn().unwrap();
        let early = files.remove();
        user.kill().unwrap();
        user.wait().unwrap();
        assert!(early.is_empty(), "{early:?}");
        assert_eq!(names(&files.remove()), ["mpich_shm_mapped"]);
        drop(file);
        assert_eq!(names(&files.remove()), ["Intel_MPI_open"]);
    }

    #[test]
    fn a_line_of_maps_names_device_and_inode() {
        let line = b"7f0000000000-7f0000001000 rw-s 00000000 00:1a 1234   /dev/shm/mpich_shm_1_0";
        assert_eq!(mapped_file(line), Some((device(0, 0x1a), 1234)));
        assert_eq!(mapped_file(b"7f0000000000-7f0000001000 rw-p 00000000"), None);
        assert_eq!(mapped_file(b""), None);
        let facts = fs::metadata("/dev/shm").unwrap();
        let (major, minor) = ((facts.dev() >> 8) & 0xfff, facts.dev() & 0xff);
        assert_eq!(device(major, minor), facts.dev());
    }
}
