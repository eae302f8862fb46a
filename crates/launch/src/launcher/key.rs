//! The key that agents of other hosts prove themselves with.
use proto::seal::Key;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use sys::process;

/// The job's key in a file, for users who start agents by hand. It goes with the job.
pub(super) struct KeyFile(PathBuf);

impl KeyFile {
    pub(super) fn write(path: &str, key: &Key) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("key file '{path}': {error}"));
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(named)?;
        let kept = KeyFile(path.into());
        writeln!(file, "{}", key.hex()).map_err(named)?;
        Ok(kept)
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(super) fn new_key() -> io::Result<Key> {
    let mut bytes = [0; 32];
    process::random(&mut bytes)?;
    Ok(Key::new(bytes))
}
