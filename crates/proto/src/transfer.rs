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

/// Longest message that is kept for a peer before anything is known about the way to it.
pub const EAGER_UNKNOWN: usize = EAGER_READ;

/// Bytes of a fragment. Small enough that both sides copy at the same time, large enough to hide the slot.
pub const FRAGMENT_BYTES: usize = 8 << 10;

/// A ring with so much room lets both sides copy at the same time: the writer is ahead by some fragments.
const STREAM_ROOM_MIN: usize = 128 << 10;
/// Longest message that both sides copy through a ring, if its sender waits.
const STREAM_MAX: usize = 512 << 10;
/// So many long messages of a sender that waits come before a ring is made large enough for them.
pub const LONG_BEFORE_GROWTH: u8 = 4;

/// May a message be worth a ring that is large enough for [`is_streamed`]?
pub fn may_stream(bytes: usize) -> bool {
    bytes <= STREAM_MAX
}

/// Is a message that could be read better copied by both sides, through a ring with this much room? A reader that is alone
/// copies once, but fetches every line from the sender's cache by itself; who computes cannot help.
pub fn is_streamed(bytes: usize, both_wait: bool, room: usize) -> bool {
    both_wait && may_stream(bytes) && room >= STREAM_ROOM_MIN
}

/// Is a message read by its receiver and written by its sender at the same time, a half each? Longer ones than those that
/// are streamed, if both can.
pub fn is_shared(bytes: usize, both_wait: bool, reads_alone: bool) -> bool {
    both_wait && reads_alone && !may_stream(bytes)
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
        assert!(is_streamed(64 << 10, true, 256 << 10));
        assert!(!is_streamed(64 << 10, false, 256 << 10));
        assert!(!is_streamed(64 << 10, true, 32 << 10));
        assert!(!is_streamed(64 << 20, true, 256 << 10));
        assert!(is_shared(64 << 20, true, true) && !is_shared(64 << 10, true, true));
        assert!(!is_shared(64 << 20, false, true) && !is_shared(64 << 20, true, false));
    }
}
