//! How a message travels, by its length and by what a connection can do.

/// What a connection can do, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// Can the receiver read the sender's memory without its help, in one copy?
    pub reads_alone: bool,
    /// Does a long message go into the receiver's buffer without a copy in between?
    pub places: bool,
    /// The longest message that can be posted at all.
    pub message_max: usize,
}

/// Longest message that is sent without asking, where the receiver can read this process's memory: from here on one
/// copy beats two.
const EAGER_READ: usize = 4 << 10;
/// Where it cannot, and everything is copied twice.
const EAGER_COPY: usize = 8 << 10;
/// Where bytes are placed: a round trip costs more than a copy that is only needed if nobody waits for the message.
const EAGER_PLACED: usize = 64 << 10;

/// Longest message that is sent without asking through a ring that has grown, as long as the ring takes it: two copies of
/// so little are faster than a question and an answer, or a system call.
pub const EAGER_GROWN: usize = 16 << 10;

/// Longest message that is kept for a peer before anything is known about the way to it.
pub const EAGER_UNKNOWN: usize = EAGER_READ;

/// Bytes of a fragment through a ring with so much room. Small enough that both sides copy at the same time, large enough to
/// hide the slot.
pub fn fragment_bytes(room: usize) -> usize {
    if room >= STREAM_ROOM_WIDE { 16 << 10 } else { 8 << 10 }
}

/// A ring with so much room lets both sides copy at the same time: the writer is ahead by some fragments.
const STREAM_ROOM_MIN: usize = 128 << 10;
/// One with so much does not fit a small cache of a core.
const STREAM_ROOM_WIDE: usize = 1 << 20;
/// The largest cache of a core that counts as small.
const SMALL_CACHE_BYTES: usize = 512 << 10;

/// The room that a message needs to be streamed.
pub fn stream_room(bytes: usize) -> usize {
    bytes.saturating_mul(2).min(STREAM_ROOM_MIN)
}

/// The room that is the best for streams, where a core has so many bytes of cache for itself. What another core has just written
/// comes from its cache, and where that is small, sooner from the one that cores share: then a ring is large enough that its
/// lines are there by the time they are used again. Where it is large, a ring that stays in it leaves room for the messages.
pub fn stream_room_wanted(own_cache_bytes: Option<usize>) -> usize {
    match own_cache_bytes {
        Some(bytes) if bytes <= SMALL_CACHE_BYTES => STREAM_ROOM_WIDE,
        _ => STREAM_ROOM_MIN,
    }
}
/// Longest message that both sides copy through a ring that is not wide, if its sender waits.
const STREAM_MAX: usize = 1 << 20;
/// Shortest message which is read in parts though one side did not wait.
const SHARE_MIN: usize = 256 << 10;
/// Bytes of such a part: a system call, and what one side may have to wait for the other in the end.
const PART_BYTES: usize = 128 << 10;
/// So many long messages of a sender that waits come before a ring is made large enough for them.
pub const LONG_BEFORE_GROWTH: u8 = 4;

/// How long messages travel whose two sides wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Long {
    /// By their length.
    #[default]
    Auto,
    /// Read by the receiver alone.
    Read,
    /// Copied by both, through a ring.
    Stream,
    /// Read and written, in parts.
    Share,
}

/// May a message be worth a ring with so much room for [`is_streamed`]?
pub fn may_stream(bytes: usize, room: usize, long: Long) -> bool {
    match long {
        Long::Auto => bytes <= STREAM_MAX || room >= STREAM_ROOM_WIDE,
        Long::Stream => true,
        Long::Read | Long::Share => false,
    }
}

/// Is a message that could be read better copied by both sides, through a ring with this much room? A reader that is alone
/// copies once, but fetches every line from the sender's cache by itself; who computes cannot help.
pub fn is_streamed(bytes: usize, both_wait: bool, room: usize, long: Long) -> bool {
    both_wait && may_stream(bytes, room, long) && room >= stream_room(bytes)
}

/// Shortest message whose bytes are better written to memory straight: in the caches it would only drive out others, and be gone
/// before anybody reads it.
const PAST_CACHES_MIN: usize = 2 << 20;

/// Is a message that comes in fragments written past the caches?
pub fn goes_past_caches(bytes: usize) -> bool {
    bytes >= PAST_CACHES_MIN
}

/// The beginnings of long messages that go with their offers, so that their receiver has something to copy while its
/// answer travels. One that does not wait has no use for them, and is offered the next messages without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heads {
    without: u8,
}

impl Heads {
    /// The part of a ring that a beginning may take.
    const PART: usize = 4;
    /// What a ring must have free beside a beginning, for an offer and for each fragment.
    const ROOM_EACH: usize = 256;
    /// So many offers go without, once a beginning was sent and not used.
    const PAUSE: u8 = 16;

    /// Bytes of a message of `bytes` that are its beginning, where the ring has so much room.
    pub fn of(bytes: usize, room: usize) -> usize {
        bytes.min(room / Self::PART)
    }

    /// What must be free of a ring with so much room, for a beginning of `bytes` and its offer.
    pub fn free_for(bytes: usize, room: usize) -> usize {
        bytes + (1 + bytes.div_ceil(fragment_bytes(room))) * Self::ROOM_EACH
    }

    /// Does the beginning of the next message go with its offer?
    pub fn next(&mut self, bytes: usize, sender_waits: bool, room: usize, long: Long) -> bool {
        is_streamed(bytes, sender_waits, room, long) && {
            let with = self.without == 0;
            self.without = self.without.saturating_sub(1);
            with
        }
    }

    /// One was sent and not used.
    pub fn in_vain(&mut self) {
        self.without = Self::PAUSE;
    }
}

/// Is a message that can be read better read by its receiver in parts, from the front, while its sender may write others,
/// from the end? Longer ones than those that are streamed; and those of which one side does not wait, but may do so by now
/// or look in now and then.
pub fn is_shared(bytes: usize, both_wait: bool, room: usize, long: Long) -> bool {
    match long {
        Long::Auto if both_wait => !may_stream(bytes, room, long),
        Long::Auto => bytes >= SHARE_MIN,
        Long::Share => true,
        Long::Read | Long::Stream => false,
    }
}

/// Parts of a message that is shared.
pub fn parts(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PART_BYTES)).unwrap_or(u32::MAX)
}

/// Where a part begins, and how long it is. (The last of the longest message there is has all the rest.)
pub fn part(bytes: usize, index: u32) -> (usize, usize) {
    let start = index as usize * PART_BYTES;
    let is_last = index + 1 >= parts(bytes);
    (start, if is_last { bytes.saturating_sub(start) } else { PART_BYTES })
}

/// The longest message that is sent without asking the receiver.
pub fn eager_max(means: Means) -> usize {
    let wanted = match means {
        Means { places: true, .. } => EAGER_PLACED,
        Means { reads_alone: true, .. } => EAGER_READ,
        _ => EAGER_COPY,
    };
    wanted.min(means.message_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eager_messages_fit_the_connection() {
        let means = Means { reads_alone: true, places: false, message_max: 1 << 20 };
        assert_eq!(eager_max(means), EAGER_READ);
        assert_eq!(eager_max(Means { reads_alone: false, ..means }), EAGER_COPY);
        assert_eq!(eager_max(Means { places: true, ..means }), EAGER_PLACED);
        assert_eq!(eager_max(Means { message_max: 3000, ..means }), 3000);
    }

    #[test]
    fn only_a_sender_that_waits_and_a_large_ring_carry_a_stream() {
        let long = Long::Auto;
        assert!(is_streamed(64 << 10, true, 256 << 10, long));
        assert!(!is_streamed(64 << 10, false, 256 << 10, long));
        assert!(!is_streamed(64 << 10, true, 32 << 10, long));
        assert!(is_streamed(16 << 10, true, 32 << 10, long));
        assert!(!is_streamed(64 << 20, true, 256 << 10, long));
        assert_eq!(
            (stream_room_wanted(Some(512 << 10)), stream_room_wanted(Some(2 << 20))),
            (1 << 20, 128 << 10)
        );
        assert_eq!(stream_room_wanted(None), 128 << 10);
    }

    #[test]
    fn what_a_receiver_reads_its_sender_may_write() {
        let shared = |bytes, both_wait| is_shared(bytes, both_wait, 128 << 10, Long::Auto);
        assert!(shared(64 << 20, true) && !shared(512 << 10, true), "that is streamed");
        assert!(shared(512 << 10, false) && !shared(64 << 10, false));
        let wide = |both_wait| is_shared(64 << 20, both_wait, 1 << 20, Long::Auto);
        assert!(!wide(true) && wide(false) && is_streamed(64 << 20, true, 1 << 20, Long::Auto));
    }

    #[test]
    fn parts_are_the_whole() {
        for bytes in [1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 10 * PART_BYTES, usize::MAX] {
            let count = parts(bytes);
            assert_eq!(part(bytes, 0).0, 0);
            let (start, len) = part(bytes, count - 1);
            assert_eq!(start + len, bytes);
            if count > 1 {
                let (before, len) = part(bytes, count - 2);
                assert_eq!(before + len, start);
            }
        }
    }

    #[test]
    fn a_receiver_that_takes_no_beginnings_is_spared_them_for_a_while() {
        let mut heads = Heads::default();
        let next = |heads: &mut Heads| heads.next(64 << 10, true, 256 << 10, Long::Auto);
        assert!(next(&mut heads) && next(&mut heads));
        heads.in_vain();
        assert_eq!((0..40).filter(|_| next(&mut heads)).count(), 24);
        assert!(!heads.next(64 << 10, false, 256 << 10, Long::Auto), "who computes sends none");
        assert!(!heads.next(64 << 10, true, 64 << 10, Long::Auto), "and none goes into a small ring");
        assert_eq!((Heads::of(100, 128 << 10), Heads::of(1 << 20, 128 << 10)), (100, 32 << 10));
        for room in [16 << 10, 128 << 10, 1 << 20] {
            assert!(Heads::free_for(Heads::of(usize::MAX, room), room) < room / 2, "{room}");
        }
    }

    #[test]
    fn a_way_that_was_asked_for_is_taken_at_any_length() {
        for bytes in [8 << 10, 64 << 20] {
            assert!(is_streamed(bytes, true, 256 << 10, Long::Stream));
            for both_wait in [true, false] {
                let shared = |long| is_shared(bytes, both_wait, 0, long);
                assert!(shared(Long::Share) && !shared(Long::Stream) && !shared(Long::Read));
            }
            assert!(!may_stream(bytes, 1 << 20, Long::Share) && !may_stream(bytes, 1 << 20, Long::Read));
        }
    }
}
