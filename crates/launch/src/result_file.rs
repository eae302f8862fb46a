//! A file that is written when the job is over, and tried before it begins: then nothing is lost by a wrong name.
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// A file that can be written, as far as one can tell. If nothing comes to be written, none is left that was not there
/// before.
#[derive(Debug)]
pub(crate) struct ResultFile {
    path: PathBuf,
    /// What was made to try it; `path` may be a link to that.
    made: Option<PathBuf>,
}

impl ResultFile {
    /// Tries to open it. What is in it stays until something else is written.
    pub(crate) fn prepare(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let made = match path.metadata() {
            // A pipe would end with this for its reader.
            Ok(facts) if !facts.is_file() && !facts.is_dir() => None,
            Ok(_) => {
                options.append(true).open(path)?;
                None
            }
            Err(_) => {
                options.append(true).create(true).open(path)?;
                path.canonicalize().ok()
            }
        };
        Ok(ResultFile { path: path.into(), made })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write(self, text: &str) -> io::Result<()> {
        fs::write(&self.path, text)
    }
}

impl Drop for ResultFile {
    fn drop(&mut self) {
        let is_empty = |path: &&PathBuf| path.metadata().is_ok_and(|facts| facts.len() == 0);
        if let Some(made) = self.made.as_ref().filter(is_empty) {
            let _ = fs::remove_file(made);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_to_which_nothing_comes_is_not_left() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&old, "").unwrap();
        for path in [&new, &old] {
            assert_eq!(ResultFile::prepare(path).unwrap().path(), path);
        }
        assert!(!new.exists() && old.exists());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("new", &link).unwrap();
        drop(ResultFile::prepare(&link).unwrap());
        assert!(!new.exists() && link.is_symlink());
        ResultFile::prepare(&new).unwrap().write("text").unwrap();
        assert_eq!(fs::read_to_string(&new).unwrap(), "text");
        drop(ResultFile::prepare(&new).unwrap());
        assert_eq!(fs::read_to_string(&new).unwrap(), "text", "it stays until there is something else");
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        assert!(ResultFile::prepare(folder.path()).is_err());
        let missing = ResultFile::prepare(&folder.path().join("no/such")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(ResultFile::prepare(Path::new("/dev/null")).is_ok());
    }
}
