//! The child's side of a start: from its first step to the program it becomes.
//!
//! It may share its parent's memory, and the parent goes on meanwhile. So it reads only what was prepared for it, writes
//! nothing but its own stack and task, never allocates and never panics.
use super::raw;
use std::ffi::{c_char, c_int};
use std::os::fd::RawFd;

/// Most descriptors handed to a child.
pub const DESCRIPTORS_MAX: usize = 8;

/// Process id, error number and step.
pub(super) const FAILURE_BYTES: usize = 12;

/// What a child cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Step {
    /// Get ready: its descriptors, say.
    Prepare = 0,
    /// Enter its working folder.
    Enter = 1,
    /// Execute its program.
    Execute = 2,
}

/// All that a child has to know. Pointers are to C strings, and to arrays of them with a null pointer at the end.
pub(super) struct Task {
    pub(super) path: *const c_char,
    pub(super) args: *const *const c_char,
    /// For a script without an interpreter line; null for what is none.
    pub(super) shell_args: *const *const c_char,
    pub(super) env: *const *const c_char,
    /// Null for the parent's.
    pub(super) folder: *const c_char,
    pub(super) descriptors: [RawFd; DESCRIPTORS_MAX],
    pub(super) descriptor_count: usize,
    pub(super) cores: Option<libc::cpu_set_t>,
    pub(super) limit: Option<libc::rlimit64>,
    pub(super) parent: i32,
    /// Where failures are reported.
    pub(super) failures: RawFd,
}

/// Becomes the program, or says why not and ends.
///
/// # Safety
/// The task's pointers are what they are said to be, and stay so until the child has executed or ended.
pub(super) unsafe fn main(task: &mut Task) -> ! {
    // SAFETY: promised by the caller.
    let (step, number) = unsafe { run(task) };
    let mut bytes = [0; FAILURE_BYTES];
    for (to, word) in bytes.chunks_exact_mut(4).zip([raw::own_id(), number, step as i32]) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    // So short a write to a pipe is never split.
    let _ = raw::write(task.failures, &bytes);
    raw::exit(127)
}

/// Prepares and executes; returns only with an error number, and whose.
unsafe fn run(task: &mut Task) -> (Step, i32) {
    let _ = raw::lead_group(); // a fresh child leads no session, so it cannot fail
    let _ = raw::die_with_parent();
    if raw::parent() != task.parent {
        return (Step::Prepare, libc::ESRCH); // the parent died before the death signal was set
    }
    if let Some(cores) = &task.cores {
        let _ = raw::pin(cores); // not worth failing the start for
    }
    if let Err(number) = place_descriptors(task.descriptors.iter_mut().take(task.descriptor_count)) {
        return (Step::Prepare, number);
    }
    if !task.folder.is_null() {
        // SAFETY: a C string, as promised by the caller.
        if let Err(number) = unsafe { raw::enter_folder(task.folder) } {
            return (Step::Enter, number);
        }
    }
    if let Some(limit) = &task.limit {
        let _ = raw::limit_descriptors(limit);
    }
    // Undoes what the parent has for its own sake. Handlers need no reset: exec does that.
    let _ = raw::default_disposition(libc::SIGPIPE);
    let _ = raw::unblock_all_signals();
    // SAFETY: promised by the caller.
    (Step::Execute, unsafe { execute(task) })
}

unsafe fn execute(task: &Task) -> i32 {
    // SAFETY: promised by the caller.
    let number = unsafe { raw::execute(task.path, task.args, task.env) };
    if number == libc::ENOEXEC && !task.shell_args.is_null() {
        // A script without an interpreter line, which shells run too.
        // SAFETY: promised by the caller.
        unsafe { raw::execute(c"/bin/sh".as_ptr(), task.shell_args, task.env) };
    }
    number
}

/// Makes the i-th descriptor the descriptor `i`. First all are moved out of the way, so that no source is
/// overwritten before it is used.
fn place_descriptors<'a>(descriptors: impl ExactSizeIterator<Item = &'a mut RawFd>) -> Result<(), i32> {
    let count = descriptors.len();
    let mut moved = [-1; DESCRIPTORS_MAX];
    for (to, fd) in moved.iter_mut().zip(descriptors) {
        *to = raw::copy_above(*fd, DESCRIPTORS_MAX as c_int)?;
    }
    for (to, fd) in moved.iter().take(count).enumerate() {
        raw::copy_to(*fd, to as RawFd)?;
    }
    // What the parent itself inherited from others may lack the flag.
    let _ = raw::close_on_exec_from(count);
    Ok(())
}
