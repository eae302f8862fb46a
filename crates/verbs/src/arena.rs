//! Registered memory of this crate's own, cut into slots: what receives go into and what is sent from.
use crate::library::VerbsError;
use crate::work::{Access, Local, Mr, Pd};
use std::fmt;
use std::io;
use std::rc::Rc;
use sys::{UserBuf, UserBufMut};

/// Slots of one size. Bytes are only ever copied in and out, so that a device that writes at the same time does no harm
/// but to the bytes.
pub struct Arena {
    mr: Mr,
    memory: Mapping,
    slot_bytes: usize,
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arena({} x {} bytes)", self.slots(), self.slot_bytes)
    }
}

impl Arena {
    /// Memory for so many slots.
    pub fn new(pd: &Rc<Pd>, slots: usize, slot_bytes: usize) -> Result<Rc<Arena>, VerbsError> {
        let bytes = slots.checked_mul(slot_bytes).filter(|bytes| *bytes > 0);
        let memory = bytes.ok_or(libc::EINVAL).and_then(Mapping::new);
        let memory =
            memory.map_err(|code| VerbsError { call: "mmap", error: io::Error::from_raw_os_error(code) })?;
        let mr = pd.register_range(memory.start as usize as u64, memory.bytes, Access::LOCAL_WRITE)?;
        Ok(Rc::new(Arena { mr, memory, slot_bytes }))
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.memory.bytes / self.slot_bytes
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }

    /// The first bytes of a slot, for work requests.
    pub fn local(&self, slot: usize, bytes: usize) -> Local {
        let at = self.at(slot, 0, bytes);
        self.mr.local(at as usize as u64, bytes)
    }

    /// Copies bytes of a slot out.
    pub fn read(&self, slot: usize, offset: usize, to: &mut [u8]) {
        let from = self.at(slot, offset, to.len());
        // SAFETY: inside the memory, as `at` has found out; what is copied to is the caller's alone.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    /// Copies bytes into a slot.
    pub fn write(&self, slot: usize, offset: usize, from: &[u8]) {
        let to = self.at(slot, offset, from.len());
        // SAFETY: inside the memory, as `at` has found out; nobody has a reference into it.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Copies bytes of a slot into memory of the program; as many as that has.
    pub fn read_into(&self, slot: usize, offset: usize, to: &UserBufMut) {
        let from = self.at(slot, offset, to.len());
        // SAFETY: inside the memory, which stays meanwhile.
        to.copy_from(&unsafe { UserBuf::new(from, to.len()) });
    }

    /// Copies memory of the program into a slot.
    pub fn write_from(&self, slot: usize, offset: usize, from: &UserBuf) {
        let to = self.at(slot, offset, from.len());
        // SAFETY: inside the memory, which stays meanwhile.
        unsafe { UserBufMut::new(to, from.len()) }.copy_from(from);
    }

    fn at(&self, slot: usize, offset: usize, bytes: usize) -> *mut u8 {
        let end = offset.checked_add(bytes).expect("a length");
        let start = slot.checked_mul(self.slot_bytes).expect("a slot");
        // (The memory is as long as all slots together.)
        assert!(start < self.memory.bytes && end <= self.slot_bytes, "slot {slot}, {offset} + {bytes} bytes");
        // SAFETY: inside the memory.
        unsafe { self.memory.start.add(start + offset) }
    }
}

/// Pages of this process's own, which a forked child does not get: a copy on write would part the device from the parent.
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> Result<Mapping, i32> {
        let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM);
        let (read_write, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new pages, wherever there is room.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, read_write, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(errno());
        }
        let mapping = Mapping { start: start.cast(), bytes };
        // SAFETY: the pages from above.
        match unsafe { libc::madvise(start, bytes, libc::MADV_DONTFORK) } {
            0 => Ok(mapping),
            _ => Err(errno()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the pages from above, given back once; the registration is gone before.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}
