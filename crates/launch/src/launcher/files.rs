//! Output of ranks in files named by patterns.
//!
//! Standard output and error may go to one file, by the same pattern or by different ones: both have one table of what is
//! open. A write to a file is not waited for in the poll set: the files are meant to be plain ones.
use crate::pattern::{Origin, Pattern};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

/// Files open at a time.
const OPEN_MAX: usize = 128;

/// The files of one stream. Ranks whose names are alike share a file.
#[derive(Debug)]
pub(crate) struct Files {
    pattern: Pattern,
    table: FileTable,
}

/// The files of a job, shared by its streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileTable(Rc<RefCell<Table>>);

#[derive(Debug, Default)]
struct Table {
    open: HashMap<String, File>,
    /// Begun in this job, by device and number: a file has many names, and goes on where it ended under each of them.
    begun: HashSet<(u64, u64)>,
}

impl Files {
    pub(crate) fn new(pattern: Pattern, table: FileTable) -> Self {
        Files { pattern, table }
    }

    /// Writes output of a rank. The error names the file.
    pub(crate) fn write(&mut self, from: Origin<'_>, bytes: &[u8]) -> Result<(), String> {
        let name = self.pattern.fill(from);
        let mut table = self.table.0.borrow_mut();
        let written = table.file(&name).and_then(|mut file| file.write_all(bytes));
        written.map_err(|error| format!("cannot write '{name}': {error}"))
    }
}

impl Table {
    fn file(&mut self, name: &str) -> io::Result<&File> {
        if !self.open.contains_key(name) {
            if self.open.len() >= OPEN_MAX {
                self.open.clear();
            }
            let file = self.begin(name)?;
            self.open.insert(name.to_owned(), file);
        }
        Ok(&self.open[name])
    }

    /// Opens a file, and empties it if nothing of this job is in it. All that is written goes to its end: under another
    /// name it may be open a second time.
    fn begin(&mut self, name: &str) -> io::Result<File> {
        let file = OpenOptions::new().append(true).create(true).open(name)?;
        let facts = file.metadata()?;
        if self.begun.insert((facts.dev(), facts.ino())) && facts.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::ids::{NodeId, Rank};
    use proto::lane::JobId;
    use proto::tree::Member;
    use std::fs;

    fn from(rank: u32) -> Origin<'static> {
        let who = Member { job: JobId(0), rank: Rank(rank) };
        Origin { who, node: NodeId(0), host: "node0" }
    }

    /// Files of a pattern below a folder.
    fn files(folder: &tempfile::TempDir, pattern: &str, table: &FileTable) -> Files {
        let pattern = format!("{}/{pattern}", folder.path().to_str().unwrap());
        Files::new(Pattern::parse(&pattern).unwrap(), table.clone())
    }

    #[test]
    fn more_files_than_can_be_open_are_all_complete() {
        let folder = tempfile::tempdir().unwrap();
        let table = FileTable::default();
        let mut files = files(&folder, "f%r", &table);
        let ranks = OPEN_MAX as u32 + 9;
        for text in ["a", "b"] {
            for rank in 0..ranks {
                files.write(from(rank), text.as_bytes()).unwrap();
            }
        }
        assert!(table.0.borrow().open.len() <= OPEN_MAX);
        for rank in 0..ranks {
            assert_eq!(fs::read(folder.path().join(format!("f{rank}"))).unwrap(), b"ab");
        }
    }

    #[test]
    fn streams_that_share_a_file_keep_all_they_wrote() {
        for (out, err) in [("f%r", "f%r"), ("f%r", "f%p"), ("f0", "./f%r")] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("f0"), "of an earlier job").unwrap();
            let table = FileTable::default();
            let mut streams = [out, err].map(|pattern| files(&folder, pattern, &table));
            for (stream, text) in [(0, "1 "), (1, "2 "), (0, "3 "), (1, "4 ")] {
                streams[stream].write(from(0), text.as_bytes()).unwrap();
            }
            assert_eq!(fs::read_to_string(folder.path().join("f0")).unwrap(), "1 2 3 4 ");
        }
    }
}
