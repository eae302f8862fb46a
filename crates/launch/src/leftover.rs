//! What killed ranks leave in shared memory: files and System V segments of MPI libraries that nobody uses any more.
//!
//! Libraries unlink what they made when all processes of a node have opened it, or at the end; a process killed
//! before that leaves it for ever. After a bad end, and only then, it is removed here: what is not older than the job
//! on this host, belongs to this user, and is used by no living process. So two jobs of one user do not disturb each
//! other.
//!
//! Not here: Banyan's own memory, which has no name and needs no removal.
mod files;
mod segments;

use files::Files;
use segments::Segments;
use sys::process;

/// Remembers when the job began on this host.
#[derive(Clone, Debug)]
pub(crate) struct Leftovers {
    files: Files,
    segments: Segments,
}

impl Leftovers {
    /// From now on.
    pub(crate) fn from_now() -> Self {
        let now = process::file_clock();
        Leftovers { files: Files::since(now), segments: Segments::since(now) }
    }

    /// Removes what is left. To be called when nothing of the job lives. Returns what was removed; what cannot be
    /// removed is somebody else's business.
    pub(crate) fn remove(&self) -> Vec<String> {
        let files = self.files.remove().into_iter().map(|path| format!("'{}'", path.display()));
        files.chain(self.segments.remove()).collect()
    }
}
