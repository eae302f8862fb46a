//! The lock of a process's part of a window: a word that all have who share its host. Others ask the process itself.
//!
//! Bit 63: somebody has it alone. Bits 32 to 62: how many wait to have it alone. Below: how many share it.
use core::sync::atomic::{AtomicU64, Ordering::*};

const ALONE: u64 = 1 << 63;
const WAITING: u64 = 1 << 32;
const SHARING: u64 = WAITING - 1;

/// How somebody wants to have it. Messages have its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Want {
    /// With others.
    Shared = 0,
    /// With others, whoever waits to have it alone: for who has other locks, of this window or another, that they wait for.
    /// Otherwise two of these could wait for two who want to have a lock alone that the other shares.
    SharedNow = 1,
    /// With nobody else.
    Alone = 2,
}

impl Want {
    /// From the number that a message has for it.
    pub fn from_number(number: u32) -> Option<Want> {
        [Want::Shared, Want::SharedNow, Want::Alone].into_iter().find(|&want| want as u32 == number)
    }
}

/// Somebody who tries to get it.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// How.
    pub want: Want,
    /// Is it counted among those who wait?
    waits: bool,
}

impl Attempt {
    /// It has not tried yet.
    #[inline]
    pub fn new(want: Want) -> Self {
        Attempt { want, waits: false }
    }

    /// Takes the lock if it is free, and waits for it otherwise: is to be called again.
    pub fn take(&mut self, word: &AtomicU64) -> bool {
        if self.take_free(word) {
            return true;
        }
        if self.want == Want::Alone && !self.waits {
            self.waits = true;
            word.fetch_add(WAITING, SeqCst);
        }
        false
    }

    /// Waits no longer.
    pub fn give_up(&mut self, word: &AtomicU64) {
        if core::mem::take(&mut self.waits) {
            word.fetch_sub(WAITING, SeqCst);
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn take_free(&self, word: &AtomicU64) -> bool {
        let mut now = word.load(Relaxed);
        loop {
            let (free, then) = match self.want {
                Want::Shared => (now < WAITING, now + 1),
                Want::SharedNow => (now & ALONE == 0, now + 1),
                Want::Alone => {
                    (now & (ALONE | SHARING) == 0, (now | ALONE) - if self.waits { WAITING } else { 0 })
                }
            };
            if !free {
                return false;
            }
            match word.compare_exchange_weak(now, then, SeqCst, Relaxed) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
    }
}

/// Gives it back.
#[inline]
pub fn give_back(word: &AtomicU64, alone: bool) {
    if alone {
        word.fetch_and(!ALONE, SeqCst);
    } else {
        word.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alone_or_several_together() {
        let word = AtomicU64::new(0);
        let take = |want| Attempt::new(want).take(&word);
        assert!(take(Want::Shared) && take(Want::Shared));
        let mut alone = Attempt::new(Want::Alone);
        assert!(!alone.take(&word) && !alone.take(&word));
        assert!(!take(Want::Shared), "who waits to have it alone comes first");
        assert!(take(Want::SharedNow));
        (0..3).for_each(|_| give_back(&word, false));
        assert!(alone.take(&word));
        assert!(!take(Want::Shared) && !take(Want::SharedNow));
        let mut next = Attempt::new(Want::Alone);
        assert!(!next.take(&word));
        next.give_up(&word);
        give_back(&word, true);
        assert!(take(Want::Shared), "nobody waits any more");
        give_back(&word, false);
        assert_eq!(word.load(Relaxed), 0);
    }

    #[test]
    fn counters_behind_it_are_exact() {
        const ROUNDS: u32 = 5_000;
        let (word, count) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let mut attempt = Attempt::new(Want::Alone);
                        while !attempt.take(&word) {
                            std::thread::yield_now();
                        }
                        count.store(count.load(Relaxed) + 1, Relaxed);
                        give_back(&word, true);
                    }
                });
            }
        });
        assert_eq!((count.into_inner(), word.into_inner()), (3 * u64::from(ROUNDS), 0));
    }
}
