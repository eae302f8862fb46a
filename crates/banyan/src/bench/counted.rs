//! Jobs of `banyan run` whose statistics a benchmark reads.
use super::runner::{self, Finished};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A launcher, and the file that it writes statistics to.
#[derive(Debug)]
pub struct Counted {
    banyan: PathBuf,
    stats: PathBuf,
}

impl Counted {
    /// By this launcher, for this benchmark.
    pub fn new(banyan: PathBuf, bench: &str) -> Self {
        let stats = std::env::temp_dir().join(format!("banyan-bench-{bench}-{}.json", std::process::id()));
        Counted { banyan, stats }
    }

    /// Where the launcher is.
    pub fn banyan(&self) -> &Path {
        &self.banyan
    }

    /// The beginning of a job's command line.
    pub fn command(&self, ranks: usize, nodes: usize) -> Command {
        let mut command = Command::new(&self.banyan);
        command.args(["run", "--stats=json", "--stats-file"]).arg(&self.stats);
        command.args(["--nodes", &nodes.to_string(), "-n", &ranks.to_string()]);
        command
    }

    /// Runs the job, and reads its statistics.
    pub fn run(&self, command: Command, limit: Duration) -> Result<(Finished, String), String> {
        let finished = runner::run(command, limit).map_err(|e| e.to_string());
        let stats = std::fs::read_to_string(&self.stats).unwrap_or_default();
        let _ = std::fs::remove_file(&self.stats);
        Ok((finished?, stats))
    }
}
