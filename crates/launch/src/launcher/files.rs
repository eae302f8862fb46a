//! Output of ranks in files named by a pattern.
//!
//! A write to a file is not waited for in the poll set: the files are meant to be plain ones.
use crate::pattern::{Origin, Pattern};
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// Files open at a time.
const OPEN_MAX: usize = 128;

/// The files of one stream. Ranks whose names are alike share a file.
#[derive(Debug)]
pub(crate) struct Files {
    pattern: Pattern,
    open: HashMap<String, File>,
    /// Begun in this job: opened again, they go on where they ended.
    begun: HashSet<String>,
}

impl Files {
    pub(crate) fn new(pattern: Pattern) -> Self {
        Files { pattern, open: HashMap::new(), begun: HashSet::new() }
    }

    /// Writes output of a rank. The error names the file.
    pub(crate) fn write(&mut self, from: Origin<'_>, bytes: &[u8]) -> Result<(), String> {
        let name = self.pattern.fill(from);
        let written = self.file(&name).and_then(|mut file| file.write_all(bytes));
        written.map_err(|error| format!("cannot write '{name}': {error}"))
    }

    fn file(&mut self, name: &str) -> io::Result<&File> {
        if !self.open.contains_key(name) {
            if self.open.len() >= OPEN_MAX {
                self.open.clear();
            }
            let file = if self.begun.insert(name.to_owned()) {
                File::create(name)?
            } else {
                OpenOptions::new().append(true).open(name)?
            };
            self.open.insert(name.to_owned(), file);
        }
        Ok(&self.open[name])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::ids::{NodeId, Rank};
    use proto::lane::JobId;
    use proto::tree::Member;

    #[test]
    fn more_files_than_can_be_open_are_all_complete() {
        let folder = tempfile::tempdir().unwrap();
        let pattern = folder.path().join("f%r").to_str().unwrap().to_owned();
        let mut files = Files::new(Pattern::parse(&pattern).unwrap());
        let ranks = OPEN_MAX as u32 + 9;
        for text in ["a", "b"] {
            for rank in (0..ranks).map(Rank) {
                let who = Member { job: JobId(0), rank };
                files.write(Origin { who, node: NodeId(0), host: "node0" }, text.as_bytes()).unwrap();
            }
        }
        assert!(files.open.len() <= OPEN_MAX);
        for rank in 0..ranks {
            assert_eq!(std::fs::read(folder.path().join(format!("f{rank}"))).unwrap(), b"ab");
        }
    }
}
