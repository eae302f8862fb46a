//! Starting a program many times over: everything is prepared once, a start is one clone and a few system calls.
//!
//! The child shares this process's memory until it executes, but this process does not wait for that: on a busy machine
//! each start would then wait for the child's turn on a processor (64 starts: 41 ms against 23).
mod child;
mod pad;
mod raw;

pub use child::{DESCRIPTORS_MAX, Step};

use super::{DescriptorLimit, Pid};
use crate::socket::{self, Transfer};
use child::{FAILURE_BYTES, Task};
use pad::{Number, Pad, Pads};
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A program with arguments and environment, ready to be started many times.
#[derive(Debug)]
pub struct Program {
    prepared: ManuallyDrop<Box<Prepared>>,
}

/// What children read, and where they stand. It is never changed or freed while one of them might.
#[derive(Debug)]
struct Prepared {
    path: CString,
    args: Words,
    env: Words,
    folder: Option<CString>,
    shell_args: Words,
    /// May a shell read it, where the system does not know what it is?
    for_shell: bool,
    numbers: Vec<Number>,
    pads: Pads,
    for_forks: Box<Pad>,
}

/// An array of C strings with a terminating null pointer. The strings are boxed, so pointers stay valid.
#[derive(Debug)]
struct Words {
    _texts: Vec<Box<[u8]>>,
    pointers: Vec<*mut c_char>,
}

impl Words {
    fn new(texts: Vec<Vec<u8>>) -> io::Result<Self> {
        let mut boxed = Vec::with_capacity(texts.len());
        for mut text in texts {
            if text.contains(&0) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a zero byte in an argument or variable",
                ));
            }
            text.push(0);
            boxed.push(text.into_boxed_slice());
        }
        let mut pointers: Vec<*mut c_char> = boxed.iter_mut().map(|text| text.as_mut_ptr().cast()).collect();
        pointers.push(std::ptr::null_mut());
        Ok(Words { _texts: boxed, pointers })
    }

    fn array(&self) -> *const *const c_char {
        self.pointers.as_ptr().cast()
    }

    /// The strings, without the null pointer.
    fn strings(&self) -> &[*mut c_char] {
        &self.pointers[..self.pointers.len() - 1]
    }
}

/// A variable that changes from child to child.
#[derive(Clone, Copy, Debug)]
pub struct Slot(usize);

/// What is particular to one child.
#[derive(Debug)]
pub struct Start<'a> {
    /// Descriptors that become 0, 1, 2, 3, ... of the child; all others are closed on exec.
    pub descriptors: &'a [BorrowedFd<'a>],
    /// The processors to run on; none for all.
    pub cores: &'a [usize],
    /// The descriptor limit to set.
    pub limit: Option<DescriptorLimit>,
}

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
        let prepared = Prepared {
            path: path.to_owned(),
            args: Words::new(args)?,
            env: Words::new(env)?,
            folder,
            shell_args: Words::new(shell)?,
            for_shell: true,
            numbers: Vec::new(),
            pads: Pads::default(),
            for_forks: Pad::for_forks(),
        };
        Ok(Program { prepared: ManuallyDrop::new(Box::new(prepared)) })
    }

    /// It is no script: if the system does not know how to run it, that is an error, and no shell tries to read it.
    pub fn set_binary(&mut self) {
        self.prepared.for_shell = false;
    }

    /// Adds a variable whose value is a number that [`Program::set`] changes between starts.
    pub fn add_number(&mut self, name: &str) -> Slot {
        self.prepared.numbers.push(Number { name: name.as_bytes().to_vec(), value: 0 });
        Slot(self.prepared.numbers.len() - 1)
    }

    /// Sets the number of a variable.
    pub fn set(&mut self, slot: Slot, number: u32) {
        self.prepared.numbers[slot.0].value = number;
    }

    /// Starts the program in a new process that leads its own process group, is killed when this process dies,
    /// has no signal blocked and SIGPIPE at its default. A program that turns out not to be executable is
    /// reported by `failures`, and its process exits with code 127.
    ///
    /// A session of its own it does not lead: kernels that share processor time out between sessions
    /// (autogroups) let no process of another session run when one yields, and processes that wait for each
    /// other by yielding took 10 to 40 times as long.
    pub fn start(&mut self, start: &Start<'_>, failures: &Failures) -> io::Result<Pid> {
        let prepared = &mut **self.prepared;
        let task = prepared.task(start, failures);
        let env = prepared.env.strings();
        let pid = match prepared.pads.free() {
            Some(pad) => {
                pad.prepare(task, env, &prepared.numbers);
                // SAFETY: pointers into `prepared`, which holds C strings and arrays with a null pointer at the end. They
                // stay while a child stands on a pad: nothing here changes them, and `drop` does not free them.
                unsafe { pad::launch_or_fork(pad) }
            }
            None => {
                prepared.for_forks.prepare(task, env, &prepared.numbers);
                // SAFETY: as above; what happens here after the fork does not matter.
                unsafe { prepared.for_forks.fork() }
            }
        };
        pid.map(Pid)
    }
}

impl Prepared {
    /// What a child has to know, but for its environment.
    fn task(&self, start: &Start<'_>, failures: &Failures) -> Task {
        assert!(start.descriptors.len() <= DESCRIPTORS_MAX);
        let mut descriptors = [-1; DESCRIPTORS_MAX];
        for (to, from) in descriptors.iter_mut().zip(start.descriptors) {
            *to = from.as_raw_fd();
        }
        Task {
            path: self.path.as_ptr(),
            args: self.args.array(),
            shell_args: if self.for_shell { self.shell_args.array() } else { std::ptr::null() },
            env: std::ptr::null(),
            folder: self.folder.as_ref().map_or(std::ptr::null(), |folder| folder.as_ptr()),
            descriptors,
            descriptor_count: start.descriptors.len(),
            cores: set_of(start.cores),
            limit: start.limit.map(DescriptorLimit::raw),
            parent: Pid::own().0,
            failures: failures.write.as_raw_fd(),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A child that has not executed yet, because it is stopped perhaps, still reads it. Leaked then.
        if self.prepared.pads.are_free() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.prepared) };
        }
    }
}

/// The set of these processors, if there can be one.
fn set_of(cores: &[usize]) -> Option<libc::cpu_set_t> {
    if cores.is_empty() || cores.iter().any(|core| *core >= libc::CPU_SETSIZE as usize) {
        return None;
    }
    // SAFETY: all-zero is a valid (empty) cpu_set_t.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    for core in cores {
        // SAFETY: the index is inside the set.
        unsafe { libc::CPU_SET(*core, &mut set) };
    }
    Some(set)
}

/// Why a program was not executed.
#[derive(Debug)]
pub struct Failure {
    /// The child.
    pub pid: Pid,
    /// What it could not do.
    pub step: Step,
    /// What the system said.
    pub error: io::Error,
}

/// Where children say why their program could not be executed.
#[derive(Debug)]
pub struct Failures {
    read: OwnedFd,
    write: OwnedFd,
}

impl Failures {
    /// Neither side ever waits.
    pub fn new() -> io::Result<Self> {
        let (read, write) = socket::pipe()?;
        // Out of the way of the descriptors that a child gets, who would lose it otherwise.
        let write = socket::duplicate_from(write.as_fd(), DESCRIPTORS_MAX)?;
        socket::set_nonblocking(read.as_fd())?;
        socket::set_nonblocking(write.as_fd())?;
        Ok(Failures { read, write })
    }

    /// The next failure. A child reports it before it ends.
    pub fn next_failure(&self) -> io::Result<Option<Failure>> {
        let mut bytes = [0; FAILURE_BYTES];
        if socket::read(self.read.as_fd(), &mut bytes)? != Transfer::Bytes(FAILURE_BYTES) {
            return Ok(None);
        }
        let word = |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let steps = [Step::Prepare, Step::Enter, Step::Execute];
        let step = steps.into_iter().find(|step| *step as i32 == word(8)).unwrap_or(Step::Prepare);
        Ok(Some(Failure { pid: Pid(word(0)), step, error: io::Error::from_raw_os_error(word(4)) }))
    }
}

impl AsFd for Failures {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Ended, Target, Wait, kill, wait_for};
    use crate::signal::{SIGKILL, SIGSTOP};
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
            let start = Start { descriptors: &descriptors, cores: &[], limit: None };
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
        let mut program = Program::new(c"/no/such/program", vec![b"x".to_vec()], vec![], None).unwrap();
        let start = Start { descriptors: &[], cores: &[], limit: None };
        let failures = Failures::new().unwrap();
        let pid = program.start(&start, &failures).unwrap();
        assert_eq!(outcome(pid), Ended::Exit(127));
        let failure = failures.next_failure().unwrap().unwrap();
        assert_eq!((failure.pid, failure.step), (pid, Step::Execute));
        assert_eq!(failure.error.kind(), io::ErrorKind::NotFound);
        assert!(failures.next_failure().unwrap().is_none());
    }

    #[test]
    fn a_missing_folder_is_not_taken_for_a_missing_program() {
        let folder = Some(c"/no/such/folder".to_owned());
        let mut program = Program::new(c"/bin/true", vec![b"true".to_vec()], vec![], folder).unwrap();
        let failures = Failures::new().unwrap();
        let start = Start { descriptors: &[], cores: &[], limit: None };
        let pid = program.start(&start, &failures).unwrap();
        assert_eq!(outcome(pid), Ended::Exit(127));
        assert_eq!(failures.next_failure().unwrap().unwrap().step, Step::Enter);
    }

    #[test]
    fn a_failure_is_heard_however_many_descriptors_a_child_gets() {
        let failures = Failures::new().unwrap();
        let null = File::open("/dev/null").unwrap();
        let descriptors = [null.as_fd(); DESCRIPTORS_MAX];
        let mut program = Program::new(c"/no/such/program", vec![b"x".to_vec()], vec![], None).unwrap();
        let start = Start { descriptors: &descriptors, cores: &[], limit: None };
        let pid = program.start(&start, &failures).unwrap();
        assert_eq!(outcome(pid), Ended::Exit(127));
        assert_eq!(failures.next_failure().unwrap().unwrap().pid, pid);
    }

    #[test]
    fn a_program_may_be_dropped_before_its_children_have_executed() {
        let failures = Failures::new().unwrap();
        let pids: Vec<Pid> = (0..200)
            .map(|code: i32| {
                let start = Start { descriptors: &[], cores: &[], limit: None };
                shell(&format!("exit {}", code % 100)).start(&start, &failures).unwrap()
            })
            .collect();
        for (code, pid) in (0..).zip(pids) {
            assert_eq!(outcome(pid), Ended::Exit(code % 100));
        }
    }

    #[test]
    fn many_children_at_once_have_their_own_numbers() {
        let mut program = shell("exit $RANK");
        let slot = program.add_number("RANK");
        let failures = Failures::new().unwrap();
        let start = Start { descriptors: &[], cores: &[], limit: None };
        // More than may stand between start and exec, so that some are forked on a busy machine.
        let mut start_one = |rank: u32| {
            program.set(slot, rank);
            program.start(&start, &failures).unwrap()
        };
        let pids: Vec<Pid> = (0..300).map(|number| start_one(number % 100)).collect();
        for (number, pid) in (0..).zip(pids) {
            assert_eq!(outcome(pid), Ended::Exit(number % 100));
        }
        assert!(failures.next_failure().unwrap().is_none());
    }

    #[test]
    fn a_forked_child_is_the_same_as_one_that_shared_memory() {
        let mut program = shell("exit $RANK");
        let slot = program.add_number("RANK");
        program.set(slot, 42);
        let failures = Failures::new().unwrap();
        let prepared = &mut **program.prepared;
        let task = prepared.task(&Start { descriptors: &[], cores: &[], limit: None }, &failures);
        prepared.for_forks.prepare(task, prepared.env.strings(), &prepared.numbers);
        // SAFETY: pointers into `prepared`, as in `start`.
        let pid = unsafe { prepared.for_forks.fork() }.unwrap();
        assert_eq!(outcome(Pid(pid)), Ended::Exit(42));
    }

    /// The letter for a process's state, and whether it still runs this program.
    fn state(pid: Pid) -> (char, bool) {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap();
        let program = |who: &str| std::fs::read_link(format!("/proc/{who}/exe")).ok();
        (state, program(&pid.to_string()) == program("self"))
    }

    /// A child that was stopped before it executed its program. The signal is there before most have their first turn.
    fn stopped_before_it_executes(program: &mut Program, failures: &Failures) -> Pid {
        const TRIES_MAX: usize = 1000;
        for _ in 0..TRIES_MAX {
            let start = Start { descriptors: &[], cores: &[], limit: None };
            let pid = program.start(&start, failures).unwrap();
            kill(Target::Process(pid), SIGSTOP).unwrap();
            let (mut letter, mut is_ours) = state(pid);
            while !matches!(letter, 'T' | 'Z') {
                std::thread::yield_now();
                (letter, is_ours) = state(pid);
            }
            if letter == 'T' && is_ours {
                return pid;
            }
            kill(Target::Process(pid), SIGKILL).unwrap();
            outcome(pid);
        }
        panic!("no child of {TRIES_MAX} was stopped in time");
    }

    #[test]
    fn a_child_killed_before_it_executes_leaves_its_place_to_others() {
        let mut program = shell("exit 3");
        let failures = Failures::new().unwrap();
        let pid = stopped_before_it_executes(&mut program, &failures);
        assert_ne!(program.prepared.pads.are_free(), cfg!(target_arch = "x86_64"), "its place is taken");
        // It leads a group already, or it does not: one call reaches it in either case.
        kill(Target::Leader(pid), SIGKILL).unwrap();
        assert_eq!(outcome(pid), Ended::Signal(SIGKILL));
        assert!(program.prepared.pads.are_free() && failures.next_failure().unwrap().is_none());
        let start = Start { descriptors: &[], cores: &[], limit: None };
        let next = program.start(&start, &failures).unwrap();
        assert_eq!(outcome(next), Ended::Exit(3));
    }

    #[test]
    fn exit_codes_and_signals_are_told_apart() {
        for (script, expected) in [("exit 3", Ended::Exit(3)), ("kill -9 $$", Ended::Signal(9))] {
            let start = Start { descriptors: &[], cores: &[0], limit: None };
            let pid = shell(script).start(&start, &Failures::new().unwrap()).unwrap();
            assert_eq!(outcome(pid), expected);
        }
    }
}
