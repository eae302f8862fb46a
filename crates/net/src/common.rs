//! Memory that processes of one host have in common: made by one of them, mapped by all. Windows live in it, and collectives
//! of a node go through it.
use std::io;
use std::sync::atomic::AtomicU64;
use sys::{Locator, SharedMap, SharedMemory};

/// Words by which others find the memory of a process.
pub const COMMON_WORDS: usize = 3;

/// Memory that is mapped here. It goes when nobody has it mapped any more.
#[derive(Debug)]
pub struct Common {
    map: SharedMap,
    /// For the others to open, until all have.
    memory: Option<SharedMemory>,
}

impl Common {
    /// New memory, all zeros; pages cost something once they are touched. The name is for people.
    pub fn create(name: &str, bytes: usize) -> io::Result<Common> {
        let memory = SharedMemory::create_sealable(name, bytes as u64)?;
        memory.seal_against_shrinking()?;
        Ok(Common { map: memory.map(0, bytes)?, memory: Some(memory) })
    }

    /// Where the others find it, while it is kept open.
    pub fn words(&self) -> io::Result<[u64; COMMON_WORDS]> {
        let memory = self.memory.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let Locator { pid, fd, start_ticks } = memory.locator()?;
        Ok([pid.into(), fd.into(), start_ticks])
    }

    /// The memory of another process of this host.
    pub fn open([pid, fd, start_ticks]: [u64; COMMON_WORDS], bytes: usize) -> io::Result<Common> {
        let number =
            |word: u64| u32::try_from(word).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let memory = SharedMemory::open(&Locator { pid: number(pid)?, fd: number(fd)?, start_ticks })?;
        if !memory.cannot_shrink() || memory.bytes()? < bytes as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the memory is not what it was said to be",
            ));
        }
        Ok(Common { map: memory.map(0, bytes)?, memory: None })
    }

    /// All have opened it: nobody else may.
    pub fn close(&mut self) {
        self.memory = None;
    }

    /// The address here.
    #[inline]
    pub fn addr(&self) -> u64 {
        self.map.addr()
    }

    /// The word at a distance in bytes, a multiple of eight inside the memory.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        self.map.u64_at(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_one_writes_the_others_read() {
        let mut made = Common::create("banyan-test", 8192).unwrap();
        let words = made.words().unwrap();
        let opened = Common::open(words, 8192).unwrap();
        made.word(4096).store(7, Relaxed);
        assert_eq!(opened.word(4096).load(Relaxed), 7);
        assert_ne!(made.addr(), opened.addr());
        assert!(Common::open(words, 8193).is_err(), "there is no more");
        made.close();
        assert!(made.words().is_err() && Common::open(words, 8192).is_err());
    }
}
