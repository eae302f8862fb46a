//! Where children stand until they execute: a stack, and what they have to know.
//!
//! A fork copies the parent's page tables, and parent and child then copy the pages they write, only for all of it to be thrown
//! away by the exec. A child that shares its parent's memory costs none of that: 256 starts of a program that does nothing
//! took two thirds of the time. The C library's way to share memory suspends the parent until the child has executed, which on
//! a busy machine takes longer than the copies. So the parent goes on, and whatever the child reads must stay as it is until
//! the kernel says, by clearing a word, that the child does not need it any more.
use super::child::{self, Task};
use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

/// Children that may stand between start and exec at a time; others are forked.
const PADS_MAX: usize = 128;
/// Some calls deep, with nothing large on it.
const STACK_BYTES: usize = 16 << 10;
/// What the machine wants of a stack's address.
type StackUnit = u128;

/// Digits of the largest number in the environment.
const NUMBER_DIGITS: usize = 10;

/// A variable whose value is a number that differs from child to child.
#[derive(Clone, Debug)]
pub(super) struct Number {
    pub(super) name: Vec<u8>,
    pub(super) value: u32,
}

/// Where one child stands.
#[derive(Debug)]
pub(super) struct Pad {
    /// Not zero while a child stands here; the kernel clears it.
    taken: AtomicU32,
    stack: Box<[MaybeUninit<StackUnit>]>,
    task: Option<Box<Task>>,
    env: Vec<*const c_char>,
    numbers: Vec<Box<[u8]>>,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("parent", &self.parent).finish_non_exhaustive()
    }
}

impl Pad {
    /// A pad for children that share memory.
    fn new() -> Box<Pad> {
        Pad::with_stack(STACK_BYTES / size_of::<StackUnit>())
    }

    /// A pad for forked children, who have a copy of their parent's stack.
    pub(super) fn for_forks() -> Box<Pad> {
        Pad::with_stack(0)
    }

    fn with_stack(units: usize) -> Box<Pad> {
        Box::new(Pad {
            taken: AtomicU32::new(0),
            stack: Box::new_uninit_slice(units),
            task: None,
            env: Vec::new(),
            numbers: Vec::new(),
        })
    }

    fn is_free(&self) -> bool {
        self.taken.load(Ordering::Acquire) == 0
    }

    /// Writes down what the next child has to know: `task` with an environment of `env` and `numbers`.
    pub(super) fn prepare(&mut self, task: Task, env: &[*mut c_char], numbers: &[Number]) {
        self.numbers.resize_with(numbers.len(), Box::default);
        self.env.clear();
        self.env.extend(env.iter().map(|text| text.cast_const()));
        for (text, number) in self.numbers.iter_mut().zip(numbers) {
            write_number(text, number);
            self.env.push(text.as_ptr().cast());
        }
        self.env.push(std::ptr::null());
        self.task = Some(Box::new(Task { env: self.env.as_ptr(), ..task }));
    }

    /// Forks a child that has a copy of everything.
    ///
    /// # Safety
    /// [`Pad::prepare`] was called, with pointers that are what a task says they are.
    pub(super) unsafe fn fork(&mut self) -> io::Result<i32> {
        let task = self.task.as_mut().expect("prepared");
        // SAFETY: the child makes only system calls on memory prepared before, which is allowed even if other threads
        // held locks at the time of the fork.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: promised by the caller; the child's copies never change.
            0 => unsafe { child::main(task) },
            pid => Ok(pid),
        }
    }

    /// Starts a child that shares this process's memory until it executes.
    ///
    /// # Safety
    /// [`Pad::prepare`] was called, with pointers that are what a task says they are and stay so while the pad is taken.
    unsafe fn launch(&mut self) -> io::Result<i32> {
        const FLAGS: c_int = libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;
        let task: *mut Task = &mut **self.task.as_mut().expect("prepared");
        let top = self.stack.as_mut_ptr_range().end;
        self.taken.store(1, Ordering::Relaxed);
        let (no_tid, no_tls) = (std::ptr::null_mut::<c_int>(), std::ptr::null_mut::<c_void>());
        // SAFETY: the stack is the child's alone while the pad is taken, and so is the task. The kernel clears the word at the
        // end of both. The child has the parent's thread-local memory, of which it uses nothing (see `child` and `raw`).
        let pid = unsafe {
            libc::clone(stand, top.cast(), FLAGS, task.cast(), no_tid, no_tls, self.taken.as_ptr())
        };
        if pid < 0 {
            let error = io::Error::last_os_error();
            self.taken.store(0, Ordering::Relaxed);
            return Err(error);
        }
        Ok(pid)
    }
}

extern "C" fn stand(task: *mut c_void) -> c_int {
    // SAFETY: the task that `launch` passed, which nobody else touches while the pad is taken.
    let task = unsafe { &mut *task.cast::<Task>() };
    // SAFETY: promised by the caller of `launch`.
    unsafe { child::main(task) }
}

/// `NAME=NUMBER` and a terminating zero, in a text that keeps its place.
fn write_number(text: &mut Box<[u8]>, number: &Number) {
    let value_at = number.name.len() + 1;
    if text.len() != value_at + NUMBER_DIGITS + 1 {
        *text = vec![0; value_at + NUMBER_DIGITS + 1].into_boxed_slice();
        text[..value_at - 1].copy_from_slice(&number.name);
        text[value_at - 1] = b'=';
    }
    let digits = number.value.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = number.value;
    for digit in text[value_at..value_at + digits].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text[value_at + digits] = 0;
}

/// The pads of one program.
#[derive(Debug, Default)]
pub(super) struct Pads {
    // Boxed, because the kernel knows where the words are.
    #[allow(clippy::vec_box)]
    pads: Vec<Box<Pad>>,
    next: usize,
}

impl Pads {
    /// A pad on which nobody stands, if there is one. Where children cannot share memory, there is none.
    pub(super) fn free(&mut self) -> Option<&mut Pad> {
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        // Children leave in about the order in which they came.
        let count = self.pads.len();
        let found = (0..count).map(|step| (self.next + step) % count).find(|&at| self.pads[at].is_free());
        let at = match found {
            Some(at) => at,
            None if count < PADS_MAX => {
                self.pads.push(Pad::new());
                count
            }
            None => return None,
        };
        self.next = at + 1;
        Some(&mut self.pads[at])
    }

    /// Does no child stand on any?
    pub(super) fn are_free(&self) -> bool {
        self.pads.iter().all(|pad| pad.is_free())
    }
}

/// Starts the child that a pad was prepared for, sharing memory, or forked where that is refused.
///
/// # Safety
/// As for [`Pad::launch`].
pub(super) unsafe fn launch_or_fork(pad: &mut Pad) -> io::Result<i32> {
    // SAFETY: promised by the caller.
    match unsafe { pad.launch() } {
        Ok(pid) => Ok(pid),
        // SAFETY: promised by the caller.
        Err(_) => unsafe { pad.fork() },
    }
}
