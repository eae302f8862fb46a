//! The processor and the scheduler: pausing, yielding, sleeping on a word, barriers, clocks, affinity.
use crate::sync::fence;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Duration;

/// Tells the processor that this is a waiting loop.
#[inline]
pub fn relax() {
    std::hint::spin_loop();
}

/// Lets another process run on this core.
#[inline]
pub fn yield_now() {
    // SAFETY: sched_yield has no preconditions.
    unsafe { libc::sched_yield() };
}

/// Monotonic time in nanoseconds.
#[inline]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until [`now_ns`] has reached a time, as exactly as the kernel can.
pub fn sleep_until_ns(when_ns: u64) {
    // Sleeps are lengthened by 50 microseconds otherwise, to wake together with others.
    // SAFETY: this option takes a number and reads no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    let time = timespec(Duration::from_nanos(when_ns));
    while now_ns() < when_ns {
        // SAFETY: a valid time, and nothing wants to know what is left of it.
        unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut())
        };
    }
}

/// How long ago this process was started, in nanoseconds (10 ms steps, as the kernel keeps it).
pub fn process_age_ns() -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    // SAFETY: sysconf has no preconditions.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let now = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    let start = crate::mem::start_ticks(std::process::id())? * (1_000_000_000 / ticks_per_s);
    Ok(now.saturating_sub(start))
}

/// Cores that this process may run on.
pub fn cores() -> usize {
    // SAFETY: all-zero is a valid (empty) cpu_set_t.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    // SAFETY: the set is writable and its size is given.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0 {
        return 1;
    }
    // SAFETY: CPU_COUNT only reads the set.
    (unsafe { libc::CPU_COUNT(&set) }).max(1) as usize
}

/// Bytes of cache that a core has for itself, if that is known. Cheap but for the first time.
pub fn own_cache_bytes() -> Option<usize> {
    static BYTES: OnceLock<Option<usize>> = OnceLock::new();
    *BYTES.get_or_init(|| {
        // SAFETY: sysconf has no preconditions.
        let bytes = unsafe { libc::sysconf(libc::_SC_LEVEL2_CACHE_SIZE) };
        usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
    })
}

/// Cores by their numbers: as many as a set of the kernel's has by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreSet(pub [u64; CoreSet::WORDS]);

impl CoreSet {
    pub(crate) const WORDS: usize = size_of::<libc::cpu_set_t>() / 8;

    /// The set of these. Those with greater numbers are left out.
    pub fn of(cores: &[usize]) -> Self {
        let mut set = CoreSet::default();
        for core in cores.iter().filter(|core| **core < 64 * Self::WORDS) {
            set.0[core / 64] |= 1 << (core % 64);
        }
        set
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Has this thread run on these, as far as the kernel lets it. An empty set changes nothing.
    pub fn take(&self) {
        if self.count() > 0 {
            // SAFETY: reads the given size of a set: its words are those of the kernel's, the lowest bit for core 0.
            unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), self.0.as_ptr().cast()) };
        }
    }
}

/// A time span as the kernel takes it.
pub(crate) fn timespec(time: Duration) -> libc::timespec {
    let tv_sec = libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX);
    libc::timespec { tv_sec, tv_nsec: time.subsec_nanos().into() }
}

/// Who pays for "store mine, then look at yours" between a frequent and a rare side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// Both sides issue a full fence.
    Both,
    /// The rare side makes all others pass a barrier (`membarrier`); the frequent side issues nothing.
    Asymmetric,
}

const MEMBARRIER_REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;

impl Barrier {
    /// Registers this process for asymmetric barriers, if the kernel has them.
    pub fn register() -> Barrier {
        // SAFETY: membarrier takes a command and flags and touches no memory of ours.
        let ok =
            unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_REGISTER_GLOBAL_EXPEDITED, 0, 0) } == 0;
        if ok { Barrier::Asymmetric } else { Barrier::Both }
    }

    /// For the frequent side.
    #[inline]
    pub fn light(self) {
        match self {
            Barrier::Both => fence(Ordering::SeqCst),
            Barrier::Asymmetric => compiler_fence(Ordering::SeqCst),
        }
    }

    /// For the rare side.
    pub fn heavy(self) {
        fence(Ordering::SeqCst);
        if self == Barrier::Asymmetric {
            crate::sync::membarrier();
        }
    }
}
