//! Processes: fork, wait, kill, the parent-death signal, child subreaping, and who descends from whom.
//!
//! Starting *programs* is in [`spawn`]. Policy (whom to kill, when) is the launcher's.
pub mod spawn;

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::panic::{self, AssertUnwindSafe};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// No such file.
pub const ENOENT: i32 = libc::ENOENT;
/// Not a folder.
pub const ENOTDIR: i32 = libc::ENOTDIR;
/// Not allowed.
pub const EACCES: i32 = libc::EACCES;
/// No more processes.
pub const EAGAIN: i32 = libc::EAGAIN;
/// No more descriptors.
pub const EMFILE: i32 = libc::EMFILE;
/// Neither a program for this machine nor a script.
pub const ENOEXEC: i32 = libc::ENOEXEC;
/// Makes no sense.
pub const EINVAL: i32 = libc::EINVAL;

/// A process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub i32);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Pid {
    /// This process.
    pub fn own() -> Pid {
        Pid(std::process::id() as i32)
    }

    /// The parent of this process.
    pub fn parent() -> Pid {
        // SAFETY: no arguments, cannot fail.
        Pid(unsafe { libc::getppid() })
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Exit(i32),
    /// This signal killed it.
    Signal(i32),
}

/// A child's end, or the lack of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// This child ended and has been reaped.
    Ended(Pid, Ended),
    /// There are children, none has ended.
    Running,
    /// There are no children. For a subreaper: nothing descends from it.
    NoChildren,
}

/// Has the program that `command` starts asked to end (`SIGTERM`) when the thread that starts it is gone, however that came.
pub fn end_with_parent(command: &mut Command) {
    let parent = Pid::own();
    let watch = move || {
        // SAFETY: asks the kernel for a signal; no memory involved.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
        // Gone before it was asked: nobody sends the signal any more.
        if Pid::parent() == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: behind a fork it makes two system calls, and takes no lock and no memory.
    unsafe { command.pre_exec(watch) };
}

/// Runs `child` in a forked copy of this process, which exits with the code it returns.
///
/// Refused (`InvalidInput`) in a process with several threads: what the others had locked would stay locked
/// in the copy. The child must give up the parent's descriptors ([`crate::socket::close_all_but`]).
pub fn fork(child: impl FnOnce() -> i32) -> io::Result<Pid> {
    let threads = threads()?;
    if threads != 1 {
        let why = format!("fork without exec in a process with {threads} threads");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    // SAFETY: the process has one thread, so the child may run any code.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // A panic must not unwind into the parent's frames, which are copied below this one.
            let code = panic::catch_unwind(AssertUnwindSafe(child)).unwrap_or(101);
            exit_now(code)
        }
        pid => Ok(Pid(pid)),
    }
}

/// Ends this process at once, running no destructors and flushing nothing.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

fn threads() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// Reaps one child that has ended, if there is one.
pub fn wait_any() -> io::Result<Wait> {
    wait(-1)
}

/// Reaps `pid`, a child, if it has ended.
pub fn wait_for(pid: Pid) -> io::Result<Wait> {
    wait(pid.0)
}

fn wait(which: i32) -> io::Result<Wait> {
    let mut status = 0;
    // SAFETY: `status` is writable.
    let pid = unsafe { libc::waitpid(which, &mut status, libc::WNOHANG) };
    if pid > 0 {
        let ended = if libc::WIFSIGNALED(status) {
            Ended::Signal(libc::WTERMSIG(status))
        } else {
            Ended::Exit(libc::WEXITSTATUS(status))
        };
        return Ok(Wait::Ended(Pid(pid), ended));
    }
    if pid == 0 {
        return Ok(Wait::Running);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ECHILD) => Ok(Wait::NoChildren),
        Some(libc::EINTR) => Ok(Wait::Running),
        _ => Err(error),
    }
}

/// Does this process have children, living or not reaped? For a subreaper: does anything descend from it?
pub fn has_children() -> io::Result<bool> {
    // SAFETY: all-zero is a valid siginfo_t, a plain C struct.
    let mut info = unsafe { std::mem::zeroed::<libc::siginfo_t>() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is writable.
    if unsafe { libc::waitid(libc::P_ALL, 0, &mut info, options) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ECHILD) { Ok(false) } else { Err(error) }
}

/// Are all children of this process, which has one thread, among `known`? Says no where the kernel does not tell. While
/// children end, the kernel may leave one out: whoever must be sure asks again.
pub fn children_are_among(known: &[Pid]) -> bool {
    let Ok(text) = fs::read_to_string("/proc/thread-self/children") else { return false };
    let is_known = |word: &str| word.parse().is_ok_and(|pid| known.contains(&Pid(pid)));
    text.split_ascii_whitespace().all(is_known)
}

/// Whom a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// One process.
    Process(Pid),
    /// The process group that this process leads or, as long as it leads none, the process.
    Leader(Pid),
}

/// Sends `signal`; a target that is gone already is no error. Process ids that would mean "everybody" or
/// "my own group" are refused.
pub fn kill(target: Target, signal: i32) -> io::Result<()> {
    let (Target::Process(pid) | Target::Leader(pid)) = target;
    if pid.0 <= 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no process to signal: {pid}")));
    }
    if target == Target::Leader(pid) && sent(-pid.0, signal)? == Sent::Yes {
        return Ok(());
    }
    sent(pid.0, signal).map(drop)
}

/// Was there anybody to send a signal to?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Yes,
    Nobody,
}

fn sent(number: i32, signal: i32) -> io::Result<Sent> {
    // SAFETY: plain numbers.
    if unsafe { libc::kill(number, signal) } == 0 {
        return Ok(Sent::Yes);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ESRCH) { Ok(Sent::Nobody) } else { Err(error) }
}

/// Is there a process (or zombie) with this id?
pub fn exists(pid: Pid) -> bool {
    // SAFETY: signal 0 only asks.
    pid.0 > 0
        && (unsafe { libc::kill(pid.0, 0) } == 0
            || io::Error::last_os_error().kind() == io::ErrorKind::PermissionDenied)
}

/// Makes orphaned descendants children of this process (and not of init), or stops doing so.
pub fn set_subreaper(on: Subreaper) -> io::Result<()> {
    // SAFETY: plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, on as libc::c_ulong, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Whether a process adopts orphaned descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Subreaper {
    /// It does not.
    Off = 0,
    /// It does.
    On = 1,
}

/// Names this process (15 bytes are kept) where process lists show it.
pub fn set_name(name: &str) {
    let mut bytes = [0u8; 16];
    let kept = name.len().min(15);
    bytes[..kept].copy_from_slice(&name.as_bytes()[..kept]);
    // SAFETY: 16 bytes with a terminating zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, bytes.as_ptr(), 0, 0, 0) };
}

/// Is this process called so in process lists? (See [`set_name`].)
pub fn is_called(pid: Pid, name: &str) -> bool {
    fs::read(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_ascii_end() == name.as_bytes())
}

/// Puts this process into a process group of its own.
pub fn lead_group() -> io::Result<()> {
    // SAFETY: plain numbers.
    if unsafe { libc::setpgid(0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The processes that descend from `root`, leaving out `spared` and what descends from them. A snapshot:
/// a running process may fork meanwhile, so a killer repeats until nothing is left.
pub fn descendants(root: Pid, spared: &[Pid]) -> io::Result<Vec<Pid>> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for entry in all_processes()?.filter(|entry| entry.life == Life::Living) {
        children.entry(entry.parent).or_default().push(entry.pid);
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        for pid in children.remove(&parent).unwrap_or_default() {
            if !spared.contains(&pid) {
                found.push(pid);
                open.push(pid);
            }
        }
    }
    Ok(found)
}

/// The children of `parent` that have ended but have not been reaped.
pub fn zombies_of(parent: Pid) -> io::Result<Vec<Pid>> {
    let is_zombie = |entry: &Entry| entry.parent == parent && entry.life == Life::Zombie;
    Ok(all_processes()?.filter(is_zombie).map(|entry| entry.pid).collect())
}

/// A process as `/proc` lists it.
struct Entry {
    pid: Pid,
    parent: Pid,
    life: Life,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Living,
    Zombie,
}

/// `/proc/PID/task/PID/children` would be quicker, but not every kernel has it.
fn all_processes() -> io::Result<impl Iterator<Item = Entry>> {
    let pids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(entry_of))
}

fn entry_of(pid: i32) -> Option<Entry> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The command name is in parentheses and may hold anything: fields count from the last one.
    let name_end = stat.iter().rposition(|&b| b == b')')?;
    let mut fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace();
    let life = if matches!(fields.next()?, "Z" | "X") { Life::Zombie } else { Life::Living };
    Some(Entry { pid: Pid(pid), parent: Pid(fields.next()?.parse().ok()?), life })
}

/// The user this process acts for.
pub fn effective_user() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

/// The clock that the times of files come from: a file made later never has an earlier time. The usual
/// clock is ahead of it by up to a tick.
pub fn file_clock() -> SystemTime {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable. Linux has this clock always.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut time) };
    UNIX_EPOCH + Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

/// The name of this host.
pub fn host_name() -> io::Result<String> {
    let mut name = [0_u8; 256];
    // SAFETY: `name` is writable for its length.
    if unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Can other processes of this user look into this one through `/proc`? Not if it changed its user, if its program file
/// cannot be read, or if it asked not to be looked into; whoever may trace everything is an exception.
pub fn opens_to_peers() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    // SAFETY: asks a question about this process; the other arguments are not used.
    let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) } == 1;
    let capable = || {
        let status = std::fs::read("/proc/self/status").unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let word = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let word = word.and_then(|word| u64::from_str_radix(word.trim(), 16).ok());
        word.is_some_and(|word| word & 1 << CAP_SYS_PTRACE != 0)
    };
    dumpable || capable()
}

/// Fills a buffer with random bytes from the kernel.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        // SAFETY: `rest` is writable for its length.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        filled += n as usize;
    }
    Ok(())
}

/// Raises the soft limit on open descriptors to the hard one: what it was, and what it is now.
pub fn raise_descriptors() -> io::Result<(u64, u64)> {
    let before = DescriptorLimit::raise()?;
    Ok((before.soft, before.hard))
}

/// How many descriptors this process may have open: the soft and the hard limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimit {
    soft: libc::rlim_t,
    hard: libc::rlim_t,
}

impl DescriptorLimit {
    /// Raises the soft limit to the hard one and returns what was before.
    pub fn raise() -> io::Result<DescriptorLimit> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is writable.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let before = DescriptorLimit { soft: limit.rlim_cur, hard: limit.rlim_max };
        DescriptorLimit { soft: before.hard, ..before }.set()?;
        Ok(before)
    }

    /// As the kernel takes it.
    fn raw(self) -> libc::rlimit64 {
        libc::rlimit64 { rlim_cur: self.soft, rlim_max: self.hard }
    }

    /// Sets the limits of this process.
    pub fn set(self) -> io::Result<()> {
        let limit = libc::rlimit { rlim_cur: self.soft, rlim_max: self.hard };
        // SAFETY: `limit` is readable.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// Calls of the system that a process may sleep in for long.
const SLEEPING_CALLS: &[(libc::c_long, &str)] = &[
    (libc::SYS_read, "read"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_write, "write"),
    (libc::SYS_writev, "writev"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_futex, "futex"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_pselect6, "pselect6"),
    (libc::SYS_epoll_pwait, "epoll_pwait"),
    (libc::SYS_wait4, "wait4"),
    (libc::SYS_waitid, "waitid"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_rt_sigsuspend, "sigsuspend"),
    (libc::SYS_rt_sigtimedwait, "sigtimedwait"),
    (libc::SYS_semtimedop, "semtimedop"),
    (libc::SYS_msgrcv, "msgrcv"),
    (libc::SYS_process_vm_readv, "process_vm_readv"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, "select"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll_wait"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_pause, "pause"),
];

/// The name of such a call.
pub fn name_of_call(number: libc::c_long) -> Option<&'static str> {
    SLEEPING_CALLS.iter().find(|(call, _)| *call == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fork_is_refused_where_other_threads_may_hold_locks() {
        // The test runner's own thread is a second one.
        let error = fork(|| 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_child_that_is_not_known_is_found() {
        // Others may start children in this process at the same time, but in threads of their own.
        let mut child =
            std::process::Command::new("/bin/cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = Pid(child.id() as i32);
        assert!(!children_are_among(&[]) && !children_are_among(&[Pid(1)]));
        assert!(
            children_are_among(&[Pid(1), pid])
                || !std::path::Path::new("/proc/thread-self/children").exists()
        );
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn signals_to_everybody_are_refused() {
        for pid in [-1, 0, 1] {
            assert!(kill(Target::Process(Pid(pid)), 0).is_err());
            assert!(kill(Target::Leader(Pid(pid)), 0).is_err());
        }
    }

    #[test]
    fn a_process_that_leads_no_group_yet_gets_its_signals() {
        use std::os::unix::process::ExitStatusExt;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let signalled = kill(Target::Leader(Pid(child.id() as i32)), libc::SIGUSR1);
        // It lives on if the signal was lost.
        let _ = kill(Target::Process(Pid(child.id() as i32)), libc::SIGKILL);
        assert_eq!((signalled.is_ok(), child.wait().unwrap().signal()), (true, Some(libc::SIGUSR1)));
    }

    #[test]
    fn descendants_are_found_and_the_spared_left_out() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid(child.id() as i32);
        let found = descendants(Pid::own(), &[]).unwrap();
        let spared = descendants(Pid::own(), &[pid]).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&pid));
        assert!(!spared.contains(&pid));
    }

    #[test]
    fn random_bytes_differ() {
        let (mut a, mut b) = ([0; 16], [0; 16]);
        random(&mut a).unwrap();
        random(&mut b).unwrap();
        assert_ne!(a, b);
    }

    #[test]
    fn descriptors_are_raised_as_far_as_it_goes() {
        let (before, now) = raise_descriptors().unwrap();
        assert!(before <= now);
        assert_eq!(raise_descriptors().unwrap(), (now, now));
    }
}
