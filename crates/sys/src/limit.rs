//! What the machine itself costs: a bare hand-over of one cache line between two processes.
//!
//! No message can travel between two cores faster than one line does; benchmarks print latencies as
//! multiples of it. Nothing here is used by a running job.
use crate::mem::{SharedMap, SharedMemory};
use crate::sync::AtomicU32;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Tells the partner to leave.
const STOP: u32 = u32::MAX;
/// Round trips between two looks at the clock.
const BATCH: u32 = 2_000;
/// Polls between two looks at whether the partner still lives.
const POLLS_PER_CHECK: u32 = 1 << 20;

/// The cores that this process may run on, in order.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    let set = affinity()?;
    // SAFETY: CPU_ISSET reads one bit of a `cpu_set_t`; the index is below its size.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Does something on one core: what it starts stays there. The caller's binding is restored.
pub fn on_core<T>(core: usize, work: impl FnOnce() -> T) -> io::Result<T> {
    let before = affinity()?;
    bind(core)?;
    let result = work();
    set_affinity(&before)?;
    Ok(result)
}

/// The time one way for a cache line handed back and forth between two processes bound to `first` and
/// `second`, as the median over `time` of batches. The caller's binding is restored.
pub fn line_handover(first: usize, second: usize, time: Duration) -> io::Result<Duration> {
    let memory = SharedMemory::create("banyan-limit", 4096)?;
    let map = memory.map(0, 4096)?;
    let before = affinity()?;
    let partner = Partner::fork(&map, second)?;
    bind(first)?;
    let measured = partner.measure(map.u32_at(0), time);
    set_affinity(&before)?;
    measured
}

/// The other process; told to leave, and reaped, on drop.
struct Partner<'a> {
    pid: libc::pid_t,
    word: &'a AtomicU32,
}

impl<'a> Partner<'a> {
    fn fork(map: &'a SharedMap, core: usize) -> io::Result<Self> {
        let word = map.u32_at(0);
        // SAFETY: the child only stores to shared memory and makes plain system calls, which is allowed
        // after a fork even where the parent has other threads; it never returns from `echo`.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => echo(word, core),
            pid => Ok(Partner { pid, word }),
        }
    }

    fn measure(&self, word: &AtomicU32, time: Duration) -> io::Result<Duration> {
        let start = Instant::now();
        let mut turn = 0;
        let mut batches = Vec::new();
        self.round_trips(word, &mut turn)?; // the partner has to start, and caches to warm up
        while batches.is_empty() || start.elapsed() < time {
            let batch = Instant::now();
            self.round_trips(word, &mut turn)?;
            batches.push(batch.elapsed() / (2 * BATCH));
            if turn > STOP / 2 {
                break; // the turns are used up
            }
        }
        batches.sort();
        Ok(batches[batches.len() / 2])
    }

    fn round_trips(&self, word: &AtomicU32, turn: &mut u32) -> io::Result<()> {
        for _ in 0..BATCH {
            word.store(*turn + 1, Ordering::Release);
            *turn += 2;
            let mut polls = 0;
            while word.load(Ordering::Acquire) != *turn {
                polls += 1;
                if polls == POLLS_PER_CHECK {
                    polls = 0;
                    self.check()?;
                }
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    fn check(&self) -> io::Result<()> {
        // SAFETY: kill with signal 0 only asks whether the process exists; a dead child is a zombie until
        // reaped, so its state is read as well.
        let exists = unsafe { libc::kill(self.pid, 0) } == 0;
        let stat = std::fs::read(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        if exists && !stat.windows(4).any(|bytes| bytes == b") Z ") {
            return Ok(());
        }
        Err(io::Error::other("the partner process died"))
    }
}

impl Drop for Partner<'_> {
    fn drop(&mut self) {
        self.word.store(STOP, Ordering::Release);
        // SAFETY: a child of ours that leaves at STOP; no status is asked for.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// The partner: answers every odd value with the next even one.
fn echo(word: &AtomicU32, core: usize) -> ! {
    // SAFETY: asks the kernel to kill us when our parent dies; no memory involved.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let status = match bind(core) {
        Ok(()) => answer_until_stop(word),
        Err(_) => 1,
    };
    // SAFETY: ends the process without running the parent's exit handlers.
    unsafe { libc::_exit(status) }
}

/// Returns the exit status.
fn answer_until_stop(word: &AtomicU32) -> i32 {
    loop {
        match word.load(Ordering::Acquire) {
            STOP => return 0,
            seen if seen % 2 == 1 => word.store(seen + 1, Ordering::Release),
            _ => std::hint::spin_loop(),
        }
    }
}

fn bind(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: all-zero is a valid, empty set.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    // SAFETY: sets one bit; the index is below the size of the set, as just checked.
    unsafe { libc::CPU_SET(core, &mut set) };
    set_affinity(&set)
}

fn affinity() -> io::Result<libc::cpu_set_t> {
    // SAFETY: all-zero is a valid, empty set.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    // SAFETY: writes at most the given size into `set`.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(set)
}

fn set_affinity(set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: reads the given size from `set`.
    if unsafe { libc::sched_setaffinity(0, size_of_val(set), set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Bytes of memory that the process may lock; `None`: as many as it likes.
pub fn locked_memory() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_crosses_between_two_processes_and_the_binding_is_restored() {
        let cores = allowed_cores().unwrap();
        if cores.len() < 2 {
            return; // nothing to hand over to
        }
        let one_way = line_handover(cores[0], cores[1], Duration::from_millis(5)).unwrap();
        assert!(one_way > Duration::from_nanos(5), "{one_way:?}");
        assert_eq!(allowed_cores().unwrap(), cores);
    }

    #[test]
    fn a_partner_that_cannot_be_bound_is_an_error_not_a_hang() {
        assert!(line_handover(0, libc::CPU_SETSIZE as usize, Duration::from_millis(1)).is_err());
    }
}
