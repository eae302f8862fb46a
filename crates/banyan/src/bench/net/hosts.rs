//! Hosts for a benchmark: network namespaces on this machine, made by a script that ends with this process.
use super::super::workshop::{Script, Workshop};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

const HOSTS: Script = Script { name: "hosts.sh", text: include_str!("../../../bench/hosts.sh") };
/// Most hosts.
pub const HOSTS_MAX: usize = 200;

/// Hosts n1, n2, ..., and the one from which jobs are started.
#[derive(Debug)]
pub struct Hosts {
    head: Child,
    /// Closed on drop: then they end.
    life: Option<ChildStdin>,
    folder: PathBuf,
}

impl Hosts {
    /// Makes so many; an error says what is missing.
    pub fn make(count: usize, workshop: &Workshop) -> Result<Hosts, String> {
        let script = workshop.script(HOSTS)?;
        let folder = workshop.absolute_dir()?.join(format!("hosts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut command = Command::new(&script);
        command.arg(count.to_string()).arg(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut head = command.spawn().map_err(|e| format!("{}: {e}", script.display()))?;
        let life = head.stdin.take();
        let stdout = head.stdout.take().expect("piped above");
        let hosts = Hosts { head, life, folder };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).map_err(|e| e.to_string())?;
        match line.trim() {
            "ready" => Ok(hosts),
            "" => Err("the hosts could not be made".into()),
            why => Err(why.into()),
        }
    }

    /// Runs there what a shell there would run, as ssh does: `shell HOST COMMAND`.
    pub fn shell(&self) -> PathBuf {
        self.folder.join("shell")
    }

    /// A command that runs on the host from which jobs are started.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.head.id().to_string(), "--net", "--mount", "--uts"]);
        command.arg(program);
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        drop(self.life.take());
        let _ = self.head.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
