//! Starting a program: a child that shares this process's memory until it executes the program, so that the
//! cost does not grow with the parent's size, and nothing is allocated per child.
use super::{DescriptorLimit, Pid};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

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

    /// Starts the program in a new process that leads its own session (kernels that share processor time out
    /// between sessions then treat it like any other job) and process group, is killed when this process dies, has no signal blocked and SIGPIPE at its default. Returns when the program runs, or
    /// with the reason why it does not.
    pub fn start(&mut self, start: &Start<'_>, stack: &mut ChildStack) -> io::Result<Pid> {
        assert!(start.descriptors.len() <= DESCRIPTORS_MAX);
        let mut descriptors = [-1; DESCRIPTORS_MAX];
        for (to, from) in descriptors.iter_mut().zip(start.descriptors) {
            *to = from.as_raw_fd();
        }
        let mut task = Task {
            program: self,
            descriptors,
            count: start.descriptors.len(),
            core: start.core,
            limit: start.limit,
            parent: Pid::own(),
            error: 0,
        };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let argument = std::ptr::from_mut(&mut task).cast::<c_void>();
        // SAFETY: with CLONE_VFORK this thread is suspended until the child has executed or exited, so the
        // child alone uses `task` and the stack meanwhile; `stack.top()` is the end of a live allocation;
        // `child_main` calls nothing that takes a lock or allocates.
        let pid = unsafe { libc::clone(child_main, stack.top().cast(), flags, argument) };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        if task.error != 0 {
            let error = io::Error::from_raw_os_error(task.error);
            let mut status = 0;
            // SAFETY: the child has exited; `status` is writable.
            unsafe { libc::waitpid(pid, &mut status, 0) };
            return Err(error);
        }
        Ok(Pid(pid))
    }
}

/// The stack on which a child runs before it executes its program; reused by all starts.
#[derive(Debug)]
pub struct ChildStack {
    memory: Vec<u128>,
}

const CHILD_STACK_BYTES: usize = 64 * 1024;

impl Default for ChildStack {
    fn default() -> Self {
        ChildStack { memory: vec![0; CHILD_STACK_BYTES / size_of::<u128>()] }
    }
}

impl ChildStack {
    fn top(&mut self) -> *mut u128 {
        self.memory.as_mut_ptr_range().end
    }
}

struct Task<'a> {
    program: &'a Program,
    descriptors: [RawFd; DESCRIPTORS_MAX],
    count: usize,
    core: Option<usize>,
    limit: Option<DescriptorLimit>,
    parent: Pid,
    error: i32,
}

/// The child. Shares memory with the suspended parent: only system calls from here on.
extern "C" fn child_main(argument: *mut c_void) -> c_int {
    // SAFETY: `start` passed a `Task` that outlives the child's use of it and that nobody else touches.
    let task = unsafe { &mut *argument.cast::<Task<'_>>() };
    task.error = run(task);
    // SAFETY: ends the child without destructors.
    unsafe { libc::_exit(127) }
}

/// Prepares and executes; returns only with an error number.
fn run(task: &mut Task<'_>) -> i32 {
    // SAFETY: no arguments; a fresh child leads no group, so it cannot fail.
    unsafe { libc::setsid() };
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    // SAFETY: no arguments.
    if unsafe { libc::getppid() } != task.parent.0 {
        return libc::ESRCH; // the parent died before the death signal was set
    }
    if let Some(core) = task.core {
        pin(core);
    }
    if let Err(number) = place_descriptors(&mut task.descriptors[..task.count]) {
        return number;
    }
    if let Some(folder) = &task.program.folder {
        // SAFETY: a C string.
        if unsafe { libc::chdir(folder.as_ptr()) } != 0 {
            return errno();
        }
    }
    if let Some(limit) = task.limit {
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
    use std::os::fd::AsFd;

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
            let pid = program.start(&start, &mut ChildStack::default()).unwrap();
            drop(write);
            let mut text = String::new();
            File::from(read).read_to_string(&mut text).unwrap();
            assert_eq!(outcome(pid), Ended::Exit(0));
            assert_eq!(text.lines().next().unwrap(), format!("yes {rank} /"));
            assert_eq!(text.lines().nth(1).unwrap(), "4"); // 0, 1, 2 and the folder being listed
        }
    }

    #[test]
    fn a_missing_program_is_an_error_of_the_start() {
        let mut program = Program::new(c"/no/such/program", vec![b"x".to_vec()], vec![], None).unwrap();
        let start = Start { descriptors: &[], core: None, limit: None };
        let error = program.start(&start, &mut ChildStack::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn exit_codes_and_signals_are_told_apart() {
        for (script, expected) in [("exit 3", Ended::Exit(3)), ("kill -9 $$", Ended::Signal(9))] {
            let start = Start { descriptors: &[], core: Some(0), limit: None };
            let pid = shell(script).start(&start, &mut ChildStack::default()).unwrap();
            assert_eq!(outcome(pid), expected);
        }
    }
}
