//! perftest: programs that measure a device without anything between it and them.
use super::super::runner::{self, RunError};
use super::Wait;
use fabric::rdma::Rdma;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the second side tries to reach the first one, which is starting.
const START_MAX: Duration = Duration::from_secs(10);
const START_STEP: Duration = Duration::from_millis(100);
/// What it says last as long as it does not.
const NOT_YET: &str = "init the socket connection";
/// Its megabyte.
const MIB: f64 = 1048576.0;
/// Bytes that are read in one measurement of bandwidth, and reads, at least.
const READ_BYTES: usize = 32 << 20;
const READS_MIN: usize = 32;

/// A program of perftest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Messages there and back.
    SendLatency,
    /// Reads of the other one's memory.
    ReadBandwidth,
}

impl Tool {
    /// The program.
    pub fn name(self) -> &'static str {
        match self {
            Tool::SendLatency => "ib_send_lat",
            Tool::ReadBandwidth => "ib_read_bw",
        }
    }

    fn iterations(self, bytes: usize, round_trips: usize) -> usize {
        match self {
            Tool::SendLatency => round_trips.max(5), // it wants as many
            Tool::ReadBandwidth => (READ_BYTES / bytes).max(READS_MIN),
        }
    }

    /// The column with the figure, and what it is multiplied with: microseconds, or MB/s.
    fn column(self) -> (&'static str, f64) {
        match self {
            Tool::SendLatency => ("t_typical[usec]", 1.0),
            Tool::ReadBandwidth => ("BW average[MB/sec]", MIB / 1e6),
        }
    }
}

/// perftest, as it is installed.
#[derive(Debug)]
pub struct Perftest {
    /// What it says it is.
    pub version: String,
    /// Device, port and address.
    words: Vec<String>,
    cores: [usize; 2],
    limit: Duration,
}

impl Perftest {
    /// Is it there?
    pub fn find(rdma: &Rdma, limit: Duration) -> Result<Perftest, String> {
        let mut versions = Vec::new();
        for tool in [Tool::SendLatency, Tool::ReadBandwidth] {
            let output = Command::new(tool.name()).arg("--version").stdin(Stdio::null()).output();
            let output = output.map_err(|_| "perftest is not installed")?;
            versions.push(String::from_utf8_lossy(&output.stdout).trim().to_string());
        }
        let (port, gid) = rdma.port();
        let mut words: Vec<String> =
            ["-d", rdma.context().name(), "-i", &port.number.to_string(), "-F"].map(String::from).into();
        if let Some(gid) = gid {
            words.extend(["-x".into(), gid.index.to_string()]);
        }
        let cores = sys::limit::allowed_cores().unwrap_or_default();
        let first = cores.first().copied().unwrap_or(0);
        let cores = [first, cores.get(1).copied().unwrap_or(first)];
        let version = match versions.swap_remove(0) {
            said if said.is_empty() => "perftest".into(),
            said => format!("perftest {}", said.trim_start_matches("Version: ")),
        };
        Ok(Perftest { version, words, cores, limit })
    }

    /// Half a round trip in microseconds, or MB/s.
    pub fn run(&self, tool: Tool, bytes: usize, wait: Wait, round_trips: usize) -> Result<f64, String> {
        let port = free_port().map_err(|e| e.to_string())?;
        let mut words = self.words.clone();
        let iterations = tool.iterations(bytes, round_trips);
        for (name, value) in [("-s", bytes), ("-n", iterations), ("-p", port.into())] {
            words.extend([name.into(), value.to_string()]);
        }
        if wait == Wait::Events {
            words.push("-e".into());
        }
        let command = || {
            let mut command = Command::new(tool.name());
            command.args(&words).stdin(Stdio::null());
            command
        };
        let on = |core: usize, error: std::io::Error| format!("core {core}: {error}");
        let server = sys::limit::on_core(self.cores[1], || Server::start(command()));
        let _server = server.map_err(|e| on(self.cores[1], e))??;
        let client = || {
            let mut command = command();
            command.arg("localhost");
            command
        };
        let said = sys::limit::on_core(self.cores[0], || self.client(client));
        let said = said.map_err(|e| on(self.cores[0], e))??;
        figure(&said, tool.column(), bytes).ok_or_else(|| format!("{} printed no figure", tool.name()))
    }

    fn client(&self, command: impl Fn() -> Command) -> Result<String, String> {
        let start = Instant::now();
        loop {
            match runner::run(command(), self.limit) {
                Ok(finished) => return Ok(finished.stdout),
                Err(RunError::Failed(why)) if why.contains(NOT_YET) && start.elapsed() < START_MAX => {
                    std::thread::sleep(START_STEP);
                }
                Err(why) => return Err(why.to_string()),
            }
        }
    }
}

/// The first side; ended and reaped on drop.
struct Server(Child);

impl Server {
    fn start(mut command: Command) -> Result<Server, String> {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        child.map(Server).map_err(|e| e.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that nobody listens at, for the time being.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// The figure of the line for so many bytes. Columns have names with blanks in them, and end with their unit.
fn figure(text: &str, (column, factor): (&str, f64), bytes: usize) -> Option<f64> {
    let mut lines = text.lines().skip_while(|line| !line.trim_start().starts_with("#bytes"));
    let head = lines.next()?;
    let before = &head[..head.find(column)?];
    // The first two have no unit.
    let place = 2 + before.matches(']').count();
    let line = lines.find(|line| line.split_whitespace().next() == Some(&bytes.to_string()))?;
    let value: f64 = line.split_whitespace().nth(place)?.parse().ok()?;
    Some(value * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = "\
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:00:00:01
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       1000          107.90         8225.47      119.44   	       465.63      	1218.53		6495.18 		8225.47
---------------------------------------------------------------------------------------
";
    const BANDWIDTH: &str = "\
Device not recognized to implement inline feature. Disabling it
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      500              59.87              42.94  \t\t   0.000687
";

    #[test]
    fn figures_are_found_by_the_names_of_columns() {
        assert_eq!(figure(LATENCY, Tool::SendLatency.column(), 8), Some(119.44));
        let bandwidth = figure(BANDWIDTH, Tool::ReadBandwidth.column(), 65536).unwrap();
        assert!((bandwidth - 42.94 * 1.048576).abs() < 1e-9, "{bandwidth}");
    }

    #[test]
    fn output_without_the_line_has_no_figure() {
        assert_eq!(figure(LATENCY, Tool::SendLatency.column(), 16), None);
        assert_eq!(figure(LATENCY, Tool::ReadBandwidth.column(), 8), None);
        assert_eq!(figure("Couldn't connect to 10.0.0.1:18515\n", Tool::SendLatency.column(), 8), None);
        assert_eq!(figure("", Tool::SendLatency.column(), 8), None);
    }
}
