//! A mapping of shared memory: atomic words, and plain copies to and from it.
use super::{SharedMemory, UserBuf, UserBufMut};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Shortest copy for the processor's own loop, which takes a while to begin.
#[cfg(any(test, target_arch = "x86_64"))]
const STRING_MIN: usize = 8 << 10;

/// A mapping of a shared segment, or a part of one; unmapped when the last part of it is dropped.
#[derive(Debug)]
pub struct SharedMap {
    base: NonNull<u8>,
    bytes: usize,
    _mapping: Arc<Mapping>,
}

// SAFETY: the mapping belongs to the process, not to a thread; all access is atomic or a raw copy.
unsafe impl Send for SharedMap {}
// SAFETY: as above.
unsafe impl Sync for SharedMap {}
// SAFETY: as above; unmapping may happen in any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl SharedMap {
    /// Maps `bytes` from `offset`, a multiple of the page size.
    pub(super) fn new(
        memory: &SharedMemory,
        offset: u64,
        bytes: usize,
        protection: libc::c_int,
        flags: libc::c_int,
    ) -> io::Result<SharedMap> {
        let offset = i64::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let (fd, flags) = (memory.as_fd().as_raw_fd(), libc::MAP_SHARED | flags);
        // SAFETY: a fresh shared mapping chosen by the kernel; nothing existing is replaced.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, offset) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(at.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(SharedMap { base, bytes, _mapping: Arc::new(Mapping { base, bytes }) })
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address in this process, for registration.
    pub fn addr(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// A part of it, which keeps the whole mapping alive. `bytes` from `offset` on are inside (asserted).
    pub fn part(&self, offset: usize, bytes: usize) -> SharedMap {
        SharedMap { base: self.at(offset, bytes), bytes, _mapping: self._mapping.clone() }
    }

    /// Overwrites all of it with zeros. For memory that nobody else uses at the moment.
    pub(crate) fn clear(&self) {
        // SAFETY: the whole range is mapped and writable for as long as `self` lives.
        unsafe { std::ptr::write_bytes(self.base.as_ptr(), 0, self.bytes) };
    }

    /// A core dump would otherwise touch every page of a sparse segment.
    pub(crate) fn leave_out_of_dumps(&self) {
        // SAFETY: advice on a range that is mapped for as long as `self` lives; it changes no contents.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, libc::MADV_DONTDUMP) };
    }

    /// The address of `offset`; `bytes` behind it are inside the mapping (asserted).
    #[inline]
    fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "outside the mapping");
        // SAFETY: offset is inside the mapping, as just asserted.
        unsafe { self.base.add(offset) }
    }

    /// `bytes` from `offset` on are inside the mapping.
    #[inline]
    pub(crate) fn assert_inside(&self, offset: usize, bytes: usize) {
        self.at(offset, bytes);
    }

    /// The atomic word at `offset`, which must be a multiple of 4.
    #[inline]
    pub fn u32_at(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4));
        // SAFETY: inside the mapping, aligned, shared memory that is only ever accessed atomically.
        unsafe { self.at(offset, 4).cast::<AtomicU32>().as_ref() }
    }

    /// The atomic double word at `offset`, which must be a multiple of 8.
    #[inline]
    pub fn u64_at(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8));
        // SAFETY: inside the mapping, aligned, shared memory that is only ever accessed atomically.
        unsafe { self.at(offset, 8).cast::<AtomicU64>().as_ref() }
    }

    /// Asks for the line at `offset` ahead of the store that will need it alone. A hint: it never faults, and touches no page
    /// that nobody has touched.
    #[inline(always)]
    pub(crate) fn claim(&self, offset: usize) {
        let place = self.at(offset, 1).as_ptr();
        // SAFETY: the instruction changes neither memory nor registers; where it is unknown, it does nothing.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = place;
    }

    /// Asks for the line at `offset` ahead of the load that will need it. A hint, too.
    #[inline(always)]
    pub(crate) fn fetch(&self, offset: usize) {
        let place = self.at(offset, 1).as_ptr();
        // SAFETY: the instruction changes neither memory nor registers.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("prefetcht0 [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = place;
    }

    /// Writes double words that are the writer's alone at the moment. `offset` is a multiple of 8.
    #[inline]
    pub(crate) fn write_words<const N: usize>(&self, offset: usize, words: [u64; N]) {
        debug_assert!(offset.is_multiple_of(8));
        // SAFETY: inside the mapping and aligned; whoever reads it meanwhile reads nonsense, and checks what it reads.
        unsafe { self.at(offset, N * 8).cast::<[u64; N]>().write(words) };
    }

    /// Reads a double word that was written so.
    #[inline]
    pub(crate) fn read_word(&self, offset: usize) -> u64 {
        debug_assert!(offset.is_multiple_of(8));
        // SAFETY: inside the mapping and aligned; every bit pattern is a number.
        unsafe { self.at(offset, 8).cast::<u64>().read() }
    }

    /// Copies a buffer to `offset`.
    #[inline]
    pub(crate) fn copy_in(&self, offset: usize, from: UserBuf) {
        let to = self.at(offset, from.len());
        // SAFETY: source readable by the constructor of UserBuf, target inside the mapping; program memory and
        // mapping do not overlap.
        unsafe { copy(from.as_ptr(), to.as_ptr(), from.len()) };
    }

    /// Fills a buffer from `offset` on.
    #[inline]
    pub(crate) fn copy_out(&self, offset: usize, to: UserBufMut) {
        let from = self.at(offset, to.len());
        // SAFETY: source inside the mapping, target writable by the constructor of UserBufMut; they do not overlap.
        unsafe { copy(from.as_ptr(), to.as_mut_ptr(), to.len()) };
    }

    /// The same to memory that nobody looks at soon.
    pub(crate) fn copy_out_past_caches(&self, offset: usize, to: UserBufMut) {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            let from = self.at(offset, to.len());
            // SAFETY: as above; the processor has AVX2.
            return unsafe { copy_past_caches(from.as_ptr(), to.as_mut_ptr(), to.len()) };
        }
        self.copy_out(offset, to);
    }
}

/// Copies memory that another core has just had to where it is of no use in a cache.
///
/// # Safety
/// As [`copy`]; and the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_past_caches(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{_mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};
    const WORDS: usize = 2;
    const WORD: usize = 32;
    let lead = to.align_offset(WORDS * WORD).min(bytes);
    // SAFETY: the first bytes of both.
    unsafe { std::ptr::copy_nonoverlapping(from, to, lead) };
    let blocks = (bytes - lead) / (WORDS * WORD);
    let done = lead + blocks * WORDS * WORD;
    for at in (lead..done).step_by(WORD) {
        // SAFETY: inside the source.
        let word = unsafe { _mm256_loadu_si256(from.add(at).cast()) };
        // SAFETY: inside the target, at a multiple of a word.
        unsafe { _mm256_stream_si256(to.add(at).cast(), word) };
    }
    // SAFETY: the last bytes of both.
    unsafe { std::ptr::copy_nonoverlapping(from.add(done), to.add(done), bytes - done) };
    // (Such stores are in no order with what this process says next.)
    _mm_sfence();
}

/// Copies memory that another core has just had. From some length on the processor does that best by itself: it asks for many
/// lines at a time, and takes those that it overwrites without reading them.
///
/// # Safety
/// `from` is readable and `to` writable for so many bytes, and they do not overlap.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // (Every processor with AVX2 has a fast one, though not every hypervisor says so.)
    #[cfg(target_arch = "x86_64")]
    if bytes >= STRING_MIN && std::is_x86_feature_detected!("avx2") {
        // SAFETY: reads and writes what the caller has promised; the direction is forward, as all code may assume.
        unsafe {
            std::arch::asm!("rep movsb", inout("rcx") bytes => _, inout("rsi") from => _, inout("rdi") to => _,
                options(nostack, preserves_flags));
        }
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
}

/// What the kernel mapped.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` got; every part of it holds a reference to `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_copy_copies_all_and_no_more() {
        let memory = SharedMemory::create("test", 1 << 16).unwrap();
        let map = memory.map(0, 1 << 16).unwrap();
        let bytes: Vec<u8> = (0..1_u32 << 15).map(|i| (i / 7 + i / 999) as u8).collect();
        for len in [0, 1, 31, 63, 64, 65, 1023, STRING_MIN, STRING_MIN + 1, 5000, 16 << 10] {
            for shift in [0, 1, 8, 33, 63] {
                // SAFETY: a part of a vector that lives on.
                map.copy_in(shift, unsafe { UserBuf::new(bytes[shift..].as_ptr(), len) });
                for copy in [SharedMap::copy_out, SharedMap::copy_out_past_caches] {
                    let mut to = vec![0xa5_u8; len + 128];
                    // SAFETY: as above, and nobody else looks at it.
                    copy(&map, shift, unsafe { UserBufMut::new(to[shift..].as_mut_ptr(), len) });
                    assert_eq!(to[shift..shift + len], bytes[shift..shift + len], "{len} at {shift}");
                    assert!(to[..shift].iter().chain(&to[shift + len..]).all(|byte| *byte == 0xa5));
                }
            }
        }
    }
}
