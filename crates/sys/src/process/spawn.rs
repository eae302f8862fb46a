//! Starting a program many times over: everything is prepared once, a start is one fork and a few system calls.
//!
//! The child is a plain fork and not one that suspends its parent until it has executed: on a busy machine
//! each start would then wait for the child's turn on a processor (64 starts: 41 ms against 23).
use super::{DescriptorLimit, Pid};
use crate::socket::{self, Transfer};
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// A program with arguments and environment, ready to be started many times.
#[derive(Debug)]
pub struct Program {
    path: CString,
    args: Words,
    env: Words,
    folder: Option<CString>,
    shell_args: Words,
}

/// An array of C strings with a terminating null pointer. The strings are boxed, so pointers stay valid.
#[derive(Debug)]
struct Words {
    texts: Vec<Box<[u8]>>,
    pointers: Vec<*mut c_char>,
}

impl Words {
    fn new(texts: Vec<Vec<u8>>) -> io::Result<Self> {
        let mut words = Words { texts: Vec::new(), pointers: Vec::new() };
        for mut text in texts {
            if text.contains(&0) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a zero byte in an argument or variable",
                ));
            }
            text.push(0);
            words.texts.push(text.into_boxed_slice());
        }
        words.pointers = words.texts.iter_mut().map(|text| text.as_mut_ptr().cast()).collect();
        words.pointers.push(std::ptr::null_mut());
        Ok(words)
    }
}

/// Where a variable that changes from child to child is in the environment.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    index: usize,
    value_at: usize,
}

/// Digits of the largest number a [`Slot`] takes.
const SLOT_DIGITS: usize = 10;

/// What is particular to one child.
#[derive(Debug)]
pub struct Start<'a> {
    /// Descriptors that become 0, 1, 2, 3, ... of the child; all others are closed on exec.
    pub descriptors: &'a [BorrowedFd<'a>],
    /// The core to run on.
    pub core: Option<usize>,
    /// The descriptor limit to set.
    pub limit: Option<DescriptorLimit>,
}

/// Most descriptors handed to a child.
pub const DESCRIPTORS_MAX: usize = 8;

impl Program {
    /// `path` is executed as it is (no search). `env` is the whole environment.
    pub fn new(
        path: &CStr,
        args: Vec<Vec<u8>>,
        env: Vec<Vec<u8>>,
        folder: Option<CString>,
    ) -> io::Result<Self> {
        let mut shell = vec![b"sh".to_vec(), path.to_bytes().to_vec()];
        shell.extend(args.iter().skip(1).cloned());
        Ok(Program {
            path: path.to_owned(),
            args: Words::new(args)?,
            env: Words::new(env)?,
            folder,
            shell_args: Words::new(shell)?,
        })
    }

    /// Adds a variable whose value is a number that [`Program::set`] changes between starts.
    pub fn add_number(&mut self, name: &str) -> Slot {
        let mut text = Vec::with_capacity(name.len() + SLOT_DIGITS + 2);
        text.extend_from_slice(name.as_bytes());
        text.push(b'=');
        let value_at = text.len();
        text.resize(value_at + SLOT_DIGITS + 1, 0);
        let mut text = text.into_boxed_slice();
        let end = self.env.pointers.len() - 1;
        self.env.pointers.insert(end, text.as_mut_ptr().cast());
        self.env.texts.push(text);
        Slot { index: self.env.texts.len() - 1, value_at }
    }

    /// Sets the number of a variable.
    pub fn set(&mut self, slot: Slot, mut number: u32) {
        let text = &mut self.env.texts[slot.index][slot.value_at..];
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        for digit in text[..digits].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        text[digits] = 0;
    }

    /// Starts the program in a new process that leads its own process group, is killed when this process dies,
    /// has no signal blocked and SIGPIPE at its default. A program that turns out not to be executable is
    /// reported by `failures`, and its process exits with code 127.
    ///
    /// A session of its own it does not lead: kernels that share processor time out between sessions
    /// (autogroups) let no process of another session run when one yields, and processes that wait for each
    /// other by yielding took 10 to 40 times as long.
    pub fn start(&self, start: &Start<'_>, failures: &Failures) -> io::Result<Pid> {
        assert!(start.descriptors.len() <= DESCRIPTORS_MAX);
        let mut descriptors = [-1; DESCRIPTORS_MAX];
        for (to, from) in descriptors.iter_mut().zip(start.descriptors) {
            *to = from.as_raw_fd();
        }
        let mut task = Task { program: self, descriptors, start, parent: Pid::own() };
        // SAFETY: the child makes only system calls on memory prepared before (`child_main`), which is allowed
        // even if other threads held locks at the time of the fork.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => child_main(&mut task, failures),
            pid => Ok(Pid(pid)),
        }
    }
}

/// Where children say why their program could not be executed.
#[derive(Debug)]
pub struct Failures {
    read: OwnedFd,
    write: OwnedFd,
}

/// Process id and error number.
const FAILURE_BYTES: usize = 8;

impl Failures {
    /// Neither side ever waits.
    pub fn new() -> io::Result<Self> {
        let (read, write) = socket::pipe()?;
        socket::set_nonblocking(read.as_fd())?;
        socket::set_nonblocking(write.as_fd())?;
        Ok(Failures { read, write })
    }

    /// The next failure: whose, and why. A child reports it before it ends.
    pub fn next_failure(&self) -> io::Result<Option<(Pid, io::Error)>> {
        let mut bytes = [0; FAILURE_BYTES];
        if socket::read(self.read.as_fd(), &mut bytes)? != Transfer::Bytes(FAILURE_BYTES) {
            return Ok(None);
        }
        let word = |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Ok(Some((Pid(word(0)), io::Error::from_raw_os_error(word(4)))))
    }

    fn report(&self, number: i32) {
        // SAFETY: no arguments, cannot fail.
        let pid = unsafe { libc::getpid() };
        let mut bytes = [0; FAILURE_BYTES];
        bytes[..4].copy_from_slice(&pid.to_ne_bytes());
        bytes[4..].copy_from_slice(&number.to_ne_bytes());
        // SAFETY: the buffer is readable; so short a write to a pipe is never split.
        unsafe { libc::write(self.write.as_raw_fd(), bytes.as_ptr().cast(), FAILURE_BYTES) };
    }
}

impl AsFd for Failures {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

struct Task<'a> {
    program: &'a Program,
    descriptors: [RawFd; DESCRIPTORS_MAX],
    start: &'a Start<'a>,
    parent: Pid,
}

/// The child: only system calls from here on.
fn child_main(task: &mut Task<'_>, failures: &Failures) -> ! {
    let number = run(task);
    failures.report(number);
    // SAFETY: ends the child without destructors.
    unsafe { libc::_exit(127) }
}

/// Prepares and executes; returns only with an error number.
fn run(task: &mut Task<'_>) -> i32 {
    // SAFETY: plain numbers; a fresh child leads no session, so it cannot fail.
    unsafe { libc::setpgid(0, 0) };
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    // SAFETY: no arguments.
    if unsafe { libc::getppid() } != task.parent.0 {
        return libc::ESRCH; // the parent died before the death signal was set
    }
    if let Some(core) = task.start.core {
        pin(core);
    }
    if let Err(number) = place_descriptors(&mut task.descriptors[..task.start.descriptors.len()]) {
        return number;
    }
    if let Some(folder) = &task.program.folder {
        // SAFETY: a C string.
        if unsafe { libc::chdir(folder.as_ptr()) } != 0 {
            return errno();
        }
    }
    if let Some(limit) = task.start.limit {
        let _ = limit.set();
    }
    reset_signals();
    execute(task.program)
}

fn execute(program: &Program) -> i32 {
    let env = program.env.pointers.as_ptr().cast();
    // SAFETY: C strings and null-terminated arrays that live until the child is replaced.
    unsafe { libc::execve(program.path.as_ptr(), program.args.pointers.as_ptr().cast(), env) };
    let number = errno();
    if number == libc::ENOEXEC {
        // A script without an interpreter line, which shells run too.
        // SAFETY: as above.
        unsafe { libc::execve(c"/bin/sh".as_ptr(), program.shell_args.pointers.as_ptr().cast(), env) };
    }
    number
}

/// Makes `descriptors[i]` the descriptor `i`. First all are moved out of the way, so that no source is
/// overwritten before it is used.
fn place_descriptors(descriptors: &mut [RawFd]) -> Result<(), i32> {
    for fd in descriptors.iter_mut() {
        // SAFETY: plain numbers.
        let copy = unsafe { libc::fcntl(*fd, libc::F_DUPFD_CLOEXEC, DESCRIPTORS_MAX as c_int) };
        if copy < 0 {
            return Err(errno());
        }
        *fd = copy;
    }
    for (to, fd) in descriptors.iter().enumerate() {
        // SAFETY: plain numbers. The result is not close-on-exec.
        if unsafe { libc::dup2(*fd, to as c_int) } < 0 {
            return Err(errno());
        }
    }
    // What this process itself inherited from others may lack the flag.
    // SAFETY: plain numbers.
    unsafe { libc::syscall(libc::SYS_close_range, descriptors.len(), u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    Ok(())
}

/// Failing to pin is not worth failing the start for.
fn pin(core: usize) {
    // SAFETY: all-zero is a valid (empty) cpu_set_t.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    if core < libc::CPU_SETSIZE as usize {
        // SAFETY: the index is inside the set.
        unsafe { libc::CPU_SET(core, &mut set) };
        // SAFETY: the set is readable and its size is given.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    }
}

/// Undoes what the parent has for its own sake: all signals blocked, SIGPIPE ignored. Handlers need no reset:
/// exec does that.
fn reset_signals() {
    // SAFETY: a valid signal and disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    // SAFETY: all-zero is storage for a set; sigemptyset initialises it.
    let mut none = unsafe { std::mem::zeroed::<libc::sigset_t>() };
    // SAFETY: the set is writable.
    unsafe { libc::sigemptyset(&mut none) };
    // SAFETY: the set is initialised.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) };
}

fn errno() -> i32 {
    // SAFETY: the location is valid in every thread.
    unsafe { *libc::__errno_location() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Ended, Wait, wait_for};
    use std::fs::File;
    use std::io::Read;

    fn outcome(pid: Pid) -> Ended {
        loop {
            if let Wait::Ended(_, ended) = wait_for(pid).unwrap() {
                return ended;
            }
            std::thread::yield_now();
        }
    }

    fn shell(script: &str) -> Program {
        let args = ["sh", "-c", script].iter().map(|arg| arg.as_bytes().to_vec()).collect();
        Program::new(c"/bin/sh", args, vec![b"FIXED=yes".to_vec()], Some(c"/".to_owned())).unwrap()
    }

    #[test]
    fn a_child_has_its_descriptors_variables_and_folder() {
        let mut program = shell("echo $FIXED $RANK $(pwd); set -- /proc/$$/fd/*; echo $#");
        let slot = program.add_number("RANK");
        let null = File::open("/dev/null").unwrap();
        for rank in [0, 7, 4_000_000_000] {
            program.set(slot, rank);
            let (read, write) = crate::socket::pipe().unwrap();
            let descriptors = [null.as_fd(), write.as_fd(), write.as_fd()];
            let start = Start { descriptors: &descriptors, core: None, limit: None };
            let pid = program.start(&start, &Failures::new().unwrap()).unwrap();
            drop(write);
            let mut text = String::new();
            File::from(read).read_to_string(&mut text).unwrap();
            assert_eq!(outcome(pid), Ended::Exit(0));
            assert_eq!(text.lines().next().unwrap(), format!("yes {rank} /"));
            assert_eq!(text.lines().nth(1).unwrap(), "4"); // 0, 1, 2 and the folder being listed
        }
    }

    #[test]
    fn a_missing_program_is_reported() {
        let program = Program::new(c"/no/such/program", vec![b"x".to_vec()], vec![], None).unwrap();
        let start = Start { descriptors: &[], core: None, limit: None };
        let failures = Failures::new().unwrap();
        let pid = program.start(&start, &failures).unwrap();
        assert_eq!(outcome(pid), Ended::Exit(127));
        let (whose, error) = failures.next_failure().unwrap().unwrap();
        assert_eq!((whose, error.kind()), (pid, io::ErrorKind::NotFound));
        assert!(failures.next_failure().unwrap().is_none());
    }

    #[test]
    fn exit_codes_and_signals_are_told_apart() {
        for (script, expected) in [("exit 3", Ended::Exit(3)), ("kill -9 $$", Ended::Signal(9))] {
            let start = Start { descriptors: &[], core: Some(0), limit: None };
            let pid = shell(script).start(&start, &Failures::new().unwrap()).unwrap();
            assert_eq!(outcome(pid), expected);
        }
    }
}
