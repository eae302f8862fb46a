//! A process that was started without a launcher and calls for one, because it wants to spawn others.
//!
//! Clients of MPICH's family then listen on a port and execute `mpiexec -pmi_args PORT INTERFACE KEY PID`. The launcher
//! runs a job of one rank for it, which is a *bridge*: a process of Banyan's own that connects to the port, says that it
//! is the launcher, and from then on carries PMI-1 between its agent and the process that called. So to agents and
//! launcher the caller is a rank like any other; its end is the end of the bridge.
use crate::JobReport;
use crate::spec::{JobSpec, StdinTo};
use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;
use sys::process::{self, Pid, Target};
use sys::signal::SIGTERM;

/// What a process that wants a launcher begins with.
pub(crate) const CALL_OPTION: &str = "-pmi_args";
/// What makes this program the bridge.
pub(crate) const BRIDGE_OPTION: &str = "--bridge";
/// How long the process may take over its part of the first words.
const GREETING_PATIENCE: Duration = Duration::from_secs(10);
/// Longest line of them.
const LINE_BYTES_MAX: u64 = 1024;

/// Who called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    port: u16,
    /// Its process, where that is certain.
    process: Option<Pid>,
}

/// Why a call is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{CALL_OPTION}' needs a port, an interface, a key and a process id")]
pub(crate) struct BadCall;

impl Caller {
    /// From the words behind [`CALL_OPTION`].
    pub(crate) fn parse(words: &[OsString]) -> Result<Self, BadCall> {
        let number = |word: &OsString| word.to_str()?.parse::<u32>().ok();
        let [port, _interface, _key, pid] = words else { return Err(BadCall) };
        let port = number(port).and_then(|port| u16::try_from(port).ok()).ok_or(BadCall)?;
        let pid = number(pid).ok_or(BadCall)?;
        // It names the process that it forked for the launcher: if that is this one, its parent is the caller.
        let process = (pid == std::process::id()).then(Pid::parent);
        Ok(Caller { port, process })
    }

    /// The job that stands for it.
    pub(crate) fn job(self) -> io::Result<JobSpec> {
        let args = vec![BRIDGE_OPTION.into(), self.port.to_string().into()];
        Ok(JobSpec { stdin: StdinTo::Nobody, ..JobSpec::new(env::current_exe()?, args, 1) })
    }

    /// Ends the caller too, if the job had to be ended before its time and the caller still lives.
    pub(crate) fn end_with(self, report: &JobReport) {
        if let Some(pid) = self.process.filter(|pid| report.cause.is_some() && *pid == Pid::parent()) {
            let _ = process::kill(Target::Process(pid), SIGTERM);
        }
    }
}

/// The life of the bridge. Returns the exit code.
pub(crate) fn bridge(args: &[OsString]) -> i32 {
    let port = args.first().and_then(|word| word.to_str()?.parse().ok());
    let Some(port) = port.filter(|_| args.len() == 1) else {
        eprintln!("banyan: '{BRIDGE_OPTION}' needs a port");
        return crate::EXIT_USAGE;
    };
    match connect(port).and_then(carry) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("banyan: the process on port {port} that asked for a launcher: {error}");
            1
        }
    }
}

/// Connects and introduces the launcher. Some of what the process says next may have been read.
fn connect(port: u16) -> io::Result<(TcpStream, Vec<u8>)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(GREETING_PATIENCE))?;
    stream.write_all(b"cmd=singinit authtype=none\n")?;
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    (&mut reader).take(LINE_BYTES_MAX).read_line(&mut line)?;
    let says = |field: &str| line.split_ascii_whitespace().any(|word| word == field);
    if !says("cmd=singinit") || !says("pmi_version=1") || !says("authtype=none") {
        return Err(io::Error::other(format!("it answered '{}'", line.trim_end())));
    }
    let early = reader.buffer().to_vec();
    let name = env::var("PMI_JOBID").unwrap_or_default();
    writeln!(stream, "cmd=singinit_info versionok=yes stdio=no kvsname={name}")?;
    stream.set_read_timeout(None)?;
    Ok((stream, early))
}

/// Carries bytes both ways until either end is closed.
fn carry((caller, early): (TcpStream, Vec<u8>)) -> io::Result<()> {
    let number = env::var("PMI_FD").ok().and_then(|text| text.parse().ok());
    let number = number.ok_or_else(|| io::Error::other("this bridge leads nowhere: there is no PMI_FD"))?;
    let agent = UnixStream::from(sys::inherit::inherited(number)?);
    let (mut answers, mut to_caller) = (agent.try_clone()?, caller.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut to_caller); // a failure shows on the other way too
        let _ = to_caller.shutdown(Shutdown::Both);
    });
    (&agent).write_all(&early)?;
    // The caller's end may be abrupt; what it means depends on what it said before.
    let _ = io::copy(&mut &caller, &mut &agent);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_understood() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let own = std::process::id();
        let call = Caller::parse(&words(&format!("4242 default_interface default_key {own}")));
        assert_eq!(call, Ok(Caller { port: 4242, process: Some(Pid::parent()) }));
        let other = Caller::parse(&words("4242 i k 1")).unwrap();
        assert_eq!(other.process, None);
        for wrong in ["4242", "x i k 1", "70000 i k 1", "1 i k x", "1 i k 2 3"] {
            assert_eq!(Caller::parse(&words(wrong)), Err(BadCall));
        }
    }
}
