//! The part of a process's segment that is given out piece by piece: rings, and memory that programs share.
//!
//! Large pieces begin at a page, have a mapping of their own, and give their pages back to the system. Small ones are
//! *packed*: they lie side by side in chunks that are mapped once, so that a connection costs neither a page that it
//! does not fill nor a mapping. Their pages stay, for the next ones.
use crate::mem::{SharedMap, SharedMemory};
use std::io;
use std::os::fd::AsRawFd;

const PAGE: u64 = 4096;
/// Packed pieces come from chunks of this size.
const CHUNK_BYTES: usize = 256 << 10;
/// They begin at a multiple of this: a cache line.
const PACKED_ALIGN: usize = 64;

#[derive(Debug)]
pub(super) struct Arena {
    end: u64,
    /// Free ranges with their lengths, which are few.
    free: Vec<(usize, u64)>,
    /// Free packed ranges, the same way.
    free_packed: Vec<(usize, u64)>,
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    offset: u64,
    map: SharedMap,
    used: usize,
}

impl Arena {
    pub(super) fn new(start: u64) -> Self {
        Arena { end: start, free: Vec::new(), free_packed: Vec::new(), chunks: Vec::new() }
    }

    /// Where the segment ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Carves out whole pages, zeroed.
    pub(super) fn carve(&mut self, memory: &SharedMemory, bytes: usize) -> io::Result<(u64, SharedMap)> {
        assert!((bytes as u64).is_multiple_of(PAGE), "{bytes} bytes are no pages");
        let offset = match take(&mut self.free, bytes) {
            Some(offset) => offset,
            None => {
                memory.resize(self.end + bytes as u64)?;
                self.end += bytes as u64;
                self.end - bytes as u64
            }
        };
        match memory.map(offset, bytes) {
            Ok(map) => Ok((offset, map)),
            Err(error) => {
                self.free.push((bytes, offset)); // never touched: it still reads as zero
                Err(error)
            }
        }
    }

    /// Gives pages back, to the system too: they read as zero next time.
    pub(super) fn give_back(&mut self, memory: &SharedMemory, offset: u64, bytes: usize) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let fd = memory.as_fd().as_raw_fd();
        // SAFETY: an open descriptor and a range inside the file; mappings stay valid and read zero.
        let rc = unsafe { libc::fallocate(fd, mode, offset as i64, bytes as i64) };
        if rc == 0 {
            self.free.push((bytes, offset));
        }
    }

    /// Carves out a small piece beside others, zeroed.
    pub(super) fn carve_packed(
        &mut self,
        memory: &SharedMemory,
        bytes: usize,
    ) -> io::Result<(u64, SharedMap)> {
        assert!(bytes <= CHUNK_BYTES && bytes.is_multiple_of(PACKED_ALIGN), "{bytes} bytes are not packed");
        if let Some(offset) = take(&mut self.free_packed, bytes) {
            let chunk = self.chunks.iter().find(|chunk| chunk.holds(offset)).expect("was carved from one");
            let map = chunk.map.part((offset - chunk.offset) as usize, bytes);
            // Cleared now and not when it was given back: a late word of its last user is gone too.
            map.clear();
            return Ok((offset, map));
        }
        if self.chunks.last().is_none_or(|chunk| chunk.used + bytes > CHUNK_BYTES) {
            let (offset, map) = self.carve(memory, CHUNK_BYTES)?;
            self.chunks.push(Chunk { offset, map, used: 0 });
        }
        let chunk = self.chunks.last_mut().expect("there is one with room");
        let at = chunk.used;
        chunk.used += bytes;
        Ok((chunk.offset + at as u64, chunk.map.part(at, bytes)))
    }

    pub(super) fn give_back_packed(&mut self, offset: u64, bytes: usize) {
        self.free_packed.push((bytes, offset));
    }
}

/// Where a small piece is, counted from the first of those that were carved out one behind the other from a new arena.
pub fn packed_place(place: usize, bytes: usize) -> u64 {
    let each = CHUNK_BYTES / bytes;
    (place / each * CHUNK_BYTES + place % each * bytes) as u64
}

impl Chunk {
    fn holds(&self, offset: u64) -> bool {
        (self.offset..self.offset + CHUNK_BYTES as u64).contains(&offset)
    }
}

fn take(free: &mut Vec<(usize, u64)>, bytes: usize) -> Option<u64> {
    // From the end: what was used last is likely to be in a cache.
    let place = free.iter().rposition(|(size, _)| *size == bytes)?;
    Some(free.swap_remove(place).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    fn memory() -> SharedMemory {
        SharedMemory::create("arena", 4096).unwrap()
    }

    #[test]
    fn packed_pieces_lie_in_a_row() {
        let (memory, mut arena) = (memory(), Arena::new(4096));
        let offsets: Vec<u64> = (0..200).map(|_| arena.carve_packed(&memory, 5 << 10).unwrap().0).collect();
        let places: Vec<u64> = (0..200).map(|place| offsets[0] + packed_place(place, 5 << 10)).collect();
        assert_eq!(offsets, places);
    }

    #[test]
    fn packed_pieces_share_pages() {
        let (memory, mut arena) = (memory(), Arena::new(4096));
        let touched = memory.touched_bytes().unwrap();
        let pieces: Vec<_> = (0..100).map(|_| arena.carve_packed(&memory, 5 << 10).unwrap()).collect();
        assert_eq!(memory.touched_bytes().unwrap(), touched, "nothing is touched yet");
        for (n, (_, map)) in pieces.iter().enumerate() {
            map.u64_at(0).store(n as u64, Ordering::Relaxed);
            map.u64_at(map.bytes() - 8).store(n as u64, Ordering::Relaxed);
        }
        for (n, (offset, map)) in pieces.iter().enumerate() {
            assert_eq!(map.u64_at(0).load(Ordering::Relaxed), n as u64);
            let page = memory.map(offset & !4095, 4096).unwrap();
            assert_eq!(page.u64_at((offset % 4096) as usize).load(Ordering::Relaxed), n as u64);
        }
        assert!(memory.touched_bytes().unwrap() <= touched + 126 * 4096);
    }

    #[test]
    fn a_packed_piece_comes_back_zeroed() {
        let (memory, mut arena) = (memory(), Arena::new(4096));
        let pieces: Vec<_> = (0..60).map(|_| arena.carve_packed(&memory, 5 << 10).unwrap()).collect();
        let end = arena.end();
        for (offset, map) in pieces {
            map.u64_at(64).store(7, Ordering::Relaxed);
            arena.give_back_packed(offset, map.bytes());
        }
        for _ in 0..60 {
            let (_, map) = arena.carve_packed(&memory, 5 << 10).unwrap();
            assert_eq!(map.u64_at(64).load(Ordering::Relaxed), 0);
        }
        assert_eq!(arena.end(), end, "what was given back is used again");
    }

    #[test]
    fn a_range_that_cannot_be_mapped_is_not_lost() {
        let (memory, mut arena) = (memory(), Arena::new(4096));
        let too_much = 1 << 47; // more than a process can map
        assert!(arena.carve(&memory, too_much).is_err());
        let end = arena.end();
        assert!(arena.carve(&memory, too_much).is_err());
        assert_eq!(arena.end(), end);
    }
}
