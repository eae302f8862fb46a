//! Whose turn it is: how often shared memory, an RDMA device and sockets are looked at.
//!
//! A look at shared memory or at a device is a few loads; one at a socket is a system call, ten times as dear as a message. So
//! sockets are looked at rarely while others have something, but never later than after so many rounds: whatever is always busy
//! must not keep the others from their turn.

/// Rounds without news from shared memory after which sockets are looked at every time: about a microsecond, which a
/// peer on another core needs to answer.
const QUIET_ROUNDS: u32 = 32;
/// Rounds after which sockets are looked at even if shared memory or an RDMA device is never quiet.
const BUSY_ROUNDS: u32 = 1024;
/// Rounds after which sockets without a connection are looked at, where an RDMA device has the connections.
const RARE_ROUNDS: u32 = 32;

/// Who was looked at how long ago.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Shared memory and the device take turns.
    rdma: bool,
    /// Polls since shared memory had something, and since sockets were looked at.
    quiet: u32,
    unlooked: u32,
}

/// What is looked at where there are sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Shared memory alone.
    Soft,
    /// Shared memory, and sockets if it has nothing.
    SoftFirst,
    Sockets,
}

/// What sockets are beside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// Has shared memory connections?
    pub soft: bool,
    /// Has an RDMA device all connections but those?
    pub only_rdma: bool,
}

impl Turns {
    /// A round begins. Is the device looked at first? It may have been busy for so long that sockets are next.
    #[inline]
    pub fn begins(&mut self, soft_ready: bool, has_sockets: bool) -> bool {
        self.rdma = !self.rdma;
        self.rdma || !(soft_ready || (has_sockets && self.unlooked >= BUSY_ROUNDS))
    }

    /// The device had something. (Not counted beyond the limit: what is odd and even then is the turn of sockets.)
    #[inline]
    pub fn rdma_had(&mut self) {
        self.unlooked += u32::from(self.unlooked < BUSY_ROUNDS);
    }

    /// It is the turn of others than the device.
    #[inline]
    pub fn others(&mut self, beside: Beside) -> Look {
        self.unlooked = self.unlooked.wrapping_add(1);
        self.quiet = self.quiet.wrapping_add(1);
        let rarely = self.unlooked < BUSY_ROUNDS && self.quiet < QUIET_ROUNDS && beside.soft;
        if rarely || (self.unlooked < RARE_ROUNDS && beside.only_rdma) {
            return Look::Soft;
        }
        if self.unlooked & 1 == 1 { Look::SoftFirst } else { Look::Sockets }
    }

    #[inline]
    pub fn soft_had(&mut self) {
        self.quiet = 0;
    }

    #[inline]
    pub fn sockets_had_nothing(&mut self) {
        self.unlooked = 0;
    }

    /// A sleep may follow: whatever ends it is looked at first, and the device before sockets, where a look is dear.
    pub fn sleeps(&mut self) {
        *self = Turns { rdma: false, quiet: QUIET_ROUNDS, unlooked: BUSY_ROUNDS };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who has something whenever it is looked at.
    #[derive(Clone, Copy, Debug)]
    struct Busy {
        soft: bool,
        rdma: bool,
        sockets: bool,
    }

    /// Who is served in a round, as [`crate::Context::poll`] goes.
    fn round(turns: &mut Turns, busy: Busy) -> Option<&'static str> {
        if turns.begins(busy.soft, true) && busy.rdma {
            turns.rdma_had();
            return Some("rdma");
        }
        let look = turns.others(Beside { soft: true, only_rdma: false });
        if look != Look::Sockets && busy.soft {
            turns.soft_had();
            return Some("soft");
        }
        match look {
            Look::Soft => None,
            _ if busy.sockets => Some("sockets"),
            _ => {
                turns.sockets_had_nothing();
                None
            }
        }
    }

    /// The longest that one of them waits among all others.
    fn longest(busy: Busy, who: &str) -> usize {
        let mut turns = Turns::default();
        let rounds: Vec<_> = (0..20 * BUSY_ROUNDS).map(|_| round(&mut turns, busy)).collect();
        rounds.split(|served| *served == Some(who)).map(<[_]>::len).max().unwrap_or(0)
    }

    #[test]
    fn nobody_starves_whoever_else_is_busy() {
        for (soft, rdma) in [(false, false), (false, true), (true, false), (true, true)] {
            let busy = Busy { soft, rdma, sockets: true };
            let limit = 2 * BUSY_ROUNDS as usize + 4;
            assert!(longest(busy, "sockets") <= limit, "{busy:?}: {}", longest(busy, "sockets"));
            assert!(!rdma || longest(busy, "rdma") < 8, "{busy:?}: {}", longest(busy, "rdma"));
            assert!(!soft || longest(busy, "soft") < 8, "{busy:?}: {}", longest(busy, "soft"));
        }
    }

    #[test]
    fn sockets_are_rarely_looked_at_while_a_device_is_busy() {
        let mut turns = Turns::default();
        let mut looks = 0;
        for _ in 0..20 * BUSY_ROUNDS {
            match turns.begins(false, true) {
                true => turns.rdma_had(),
                false => {
                    looks += u32::from(turns.others(Beside { soft: false, only_rdma: true }) != Look::Soft);
                    turns.sockets_had_nothing();
                }
            }
        }
        assert!((15..=20).contains(&looks), "{looks}");
    }

    #[test]
    fn the_device_is_first_after_a_sleep() {
        let mut turns = Turns::default();
        for _ in 0..3 {
            turns.sleeps();
            assert!(turns.begins(false, true));
            assert_eq!(turns.others(Beside { soft: true, only_rdma: true }), Look::SoftFirst);
        }
    }
}
