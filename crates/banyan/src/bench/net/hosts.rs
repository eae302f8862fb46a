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
    count: usize,
}

/// How fast a host may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// As fast as it can.
    Free,
    /// So many Gbit/s at most.
    Gbit(u32),
}

impl Rate {
    /// What sets it on a host that has another one.
    ///
    /// What passes at once after a pause (the burst) is smaller than the messages whose times are to show the rate. Packets
    /// are smaller still: larger ones would be cut up, on the cores that the ranks need. The queue never overflows:
    /// connections have less under way.
    fn commands(self) -> String {
        let (bytes_max, queue) = match self {
            Rate::Free => (65_536, "del dev eth0 root".into()),
            Rate::Gbit(rate) => {
                (14_000, format!("replace dev eth0 root tbf rate {rate}gbit burst 16kb latency 500ms"))
            }
        };
        format!(
            "PATH=$PATH:/usr/sbin:/sbin; ip link set dev eth0 gso_max_size {bytes_max} && tc qdisc {queue}"
        )
    }
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
        let hosts = Hosts { head, life, folder, count };
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

    /// Sets how fast each host sends; `Free` only takes back another rate.
    pub fn set_rate(&self, rate: Rate) -> Result<(), String> {
        for host in 1..=self.count {
            let mut command = Command::new(self.shell());
            command.args([&format!("n{host}"), &rate.commands()]);
            let output = command.output().map_err(|e| format!("{}: {e}", self.shell().display()))?;
            if !output.status.success() {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
                return Err(format!("the link of host n{host} keeps its rate: {why}"));
            }
        }
        Ok(())
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
