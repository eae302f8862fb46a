//! Registered memory of this process: who may do what with it, and how it is done.
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use verbs::ffi::*;

/// Keys differ by more than one, so that a key that is wrong by a little is nobody's.
const KEY_STEP: u32 = 0x1_01;

/// A registered range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub pd: u32,
    pub addr: u64,
    pub bytes: u64,
    pub access: u32,
}

/// A piece of memory, as a work request names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub addr: u64,
    pub bytes: u32,
    pub key: u32,
}

/// What a piece is not registered for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Forbidden;

/// Registered ranges, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    regions: BTreeMap<u32, Region>,
    last_key: u32,
    registered: u64,
}

impl Regions {
    /// Registers a range, if it is there. `most` bytes may be registered in all.
    pub(crate) fn register(&mut self, region: Region, most: u64) -> Result<u32, c_int> {
        let remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        if region.access & remote != 0 && region.access & IBV_ACCESS_LOCAL_WRITE == 0 {
            return Err(libc::EINVAL);
        }
        if self.registered.saturating_add(region.bytes) > most {
            return Err(libc::ENOMEM);
        }
        populate(&region)?;
        self.last_key = self.last_key.wrapping_add(KEY_STEP).max(KEY_STEP);
        self.regions.insert(self.last_key, region);
        self.registered += region.bytes;
        Ok(self.last_key)
    }

    pub(crate) fn deregister(&mut self, key: u32) -> Option<Region> {
        let region = self.regions.remove(&key)?;
        self.registered -= region.bytes;
        Some(region)
    }

    /// May somebody of this domain do that with the piece?
    pub(crate) fn check(&self, pd: u32, piece: Piece, access: u32) -> Result<(), Forbidden> {
        let region = self.regions.get(&piece.key).ok_or(Forbidden)?;
        let end = piece.addr.checked_add(piece.bytes.into()).ok_or(Forbidden)?;
        let inside = piece.addr >= region.addr && end <= region.addr + region.bytes;
        let may = region.pd == pd && region.access & access == access;
        if inside && may { Ok(()) } else { Err(Forbidden) }
    }

    /// The bytes of pieces, one behind the other.
    pub(crate) fn gather(&self, pd: u32, pieces: &[Piece]) -> Result<Vec<u8>, Forbidden> {
        let mut all = Vec::new();
        for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
            self.check(pd, *piece, 0)?;
            all.extend(read(piece.addr, piece.bytes as usize)?);
        }
        Ok(all)
    }

    /// Puts bytes into pieces, one behind the other.
    pub(crate) fn scatter(&self, pd: u32, pieces: &[Piece], mut bytes: &[u8]) -> Result<(), Forbidden> {
        for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
            if bytes.is_empty() {
                break;
            }
            self.check(pd, *piece, IBV_ACCESS_LOCAL_WRITE)?;
            let (now, rest) = bytes.split_at(bytes.len().min(piece.bytes as usize));
            write(piece.addr, now)?;
            bytes = rest;
        }
        Ok(())
    }
}

/// Has the kernel look at a range, as it does when it keeps the pages for a device.
fn populate(region: &Region) -> Result<(), c_int> {
    if region.bytes == 0 {
        return Ok(());
    }
    // SAFETY: no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let start = region.addr / page * page;
    let end = region.addr.checked_add(region.bytes).ok_or(libc::EINVAL)?.next_multiple_of(page);
    let how = match region.access & IBV_ACCESS_LOCAL_WRITE {
        0 => libc::MADV_POPULATE_READ,
        _ => libc::MADV_POPULATE_WRITE,
    };
    let memory = std::ptr::with_exposed_provenance_mut(start as usize);
    // SAFETY: this changes nothing but whether pages are there; the kernel refuses what is not.
    let code = unsafe { libc::madvise(memory, (end - start) as usize, how) };
    if code == 0 { Ok(()) } else { Err(libc::EFAULT) }
}

/// Reads memory of the program by a system call: it may have been given back, and that is an error then, not the end.
pub(crate) fn read(addr: u64, bytes: usize) -> Result<Vec<u8>, Forbidden> {
    let mut into = vec![0; bytes];
    let here = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: bytes };
    let there =
        libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(addr as usize), iov_len: bytes };
    // SAFETY: room for so many bytes; the kernel checks the other side.
    let got = unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &there, 1, 0) };
    if got == bytes as isize { Ok(into) } else { Err(Forbidden) }
}

/// Writes memory of the program.
pub(crate) fn write(addr: u64, bytes: &[u8]) -> Result<(), Forbidden> {
    let here = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let there =
        libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(addr as usize), iov_len: bytes.len() };
    // SAFETY: so many bytes; the kernel checks the other side.
    let put = unsafe { libc::process_vm_writev(libc::getpid(), &here, 1, &there, 1, 0) };
    if put == bytes.len() as isize { Ok(()) } else { Err(Forbidden) }
}

/// Changes a word of the program's memory; its old value. Atomic also with processors, which is more than is promised.
pub(crate) fn change(addr: u64, with: impl Fn(u64) -> u64) -> Result<u64, Forbidden> {
    read(addr, 8)?; // is it still there?
    let word = std::ptr::with_exposed_provenance_mut::<u64>(addr as usize);
    // SAFETY: registered, there a moment ago, and aligned, as the caller has checked.
    let word = unsafe { AtomicU64::from_ptr(word) };
    Ok(word.fetch_update(SeqCst, SeqCst, |old| Some(with(old))).unwrap_or_else(|old| old))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ranges_and_rights_are_checked() {
        let mut memory = vec![1u8; 100];
        let addr = memory.as_mut_ptr().expose_provenance() as u64;
        let mut regions = Regions::default();
        let region = Region { pd: 1, addr, bytes: 100, access: IBV_ACCESS_LOCAL_WRITE };
        let key = regions.register(region, 150).unwrap();
        assert_eq!(regions.register(region, 150), Err(libc::ENOMEM));
        let piece = Piece { addr, bytes: 60, key };
        assert_eq!(regions.scatter(1, &[piece], &[5; 50]), Ok(()));
        let got = regions.gather(1, &[Piece { addr: addr + 48, bytes: 4, key }]);
        assert_eq!(got, Ok(vec![5, 5, 1, 1]));
        for wrong in [
            Piece { addr: addr + 50, ..piece },
            Piece { addr: addr - 1, ..piece },
            Piece { addr: u64::MAX, ..piece },
            Piece { key: key + 1, ..piece },
        ] {
            assert_eq!(regions.check(1, wrong, 0), Err(Forbidden));
        }
        assert_eq!(regions.check(2, piece, 0), Err(Forbidden));
        assert_eq!(regions.check(1, piece, IBV_ACCESS_REMOTE_READ), Err(Forbidden));
        regions.deregister(key).unwrap();
        assert_eq!(regions.check(1, piece, 0), Err(Forbidden));
        let nowhere = Region { pd: 1, addr: 4096, bytes: 10, access: 0 };
        assert_eq!(regions.register(nowhere, 150), Err(libc::EFAULT));
    }
}
