//! How much may be under way to one target.
//!
//! What is sent has to lie somewhere until the target has done it: with its sender, on its way, or with the target, where it
//! waits for a lock. Many origins may have one target. So each sends only so many bytes ahead of what is known to be done, and
//! asks for so many at a time; and while it is not known whether it has the lock, one message has to do.
//!
//! Bytes are counted over all messages. A target does what an origin asks in order, so that every answer says that all before
//! what it answers is done. Where none would come for long, one is to be asked for: whoever has no room is told of some by an
//! answer, always.
use super::MESSAGE_BYTES;

/// Most bytes that are under way, both ways together; one message more, since it is asked for before that.
pub const UNDER_WAY_MAX: u64 = 4 << 20;
/// Most bytes behind which no answer is to come: a part of what may be under way, so that nobody waits with an idle link.
pub const UNANSWERED_MAX: u64 = 1 << 20;

const _: () = assert!(UNANSWERED_MAX + 4 * MESSAGE_BYTES as u64 <= UNDER_WAY_MAX);

/// What is under way to a target.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// Bytes that were sent,
    sent: u64,
    /// that are known to be done,
    done: u64,
    /// and up to which an answer says so when it comes.
    answered: u64,
    /// Bytes that answers are to bring.
    awaited: u64,
    /// What had been sent when the lock was asked for, of which nothing was heard since.
    lock_asked: Option<u64>,
}

/// An answer that is to come: up to where it says that everything is done, and how many bytes it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    up_to: u64,
    brings: u64,
}

impl Flow {
    /// May another message leave? If not, an answer that is to come makes room, or, if
    /// [the lock is in the way](Flow::is_short_of_lock), that to a question for it.
    pub fn has_room(&self) -> bool {
        self.under_way() < UNDER_WAY_MAX && !self.is_short_of_lock()
    }

    /// Is as much sent behind the lock as may be while it is not known to be there?
    pub fn is_short_of_lock(&self) -> bool {
        self.lock_asked.is_some_and(|at| self.sent - at >= MESSAGE_BYTES as u64)
    }

    fn under_way(&self) -> u64 {
        self.sent - self.done + self.awaited
    }

    /// The next message asks for the lock.
    pub fn asks_for_lock(&mut self) {
        self.lock_asked = Some(self.sent);
    }

    /// Was the lock asked for, and nothing answered since?
    pub fn awaits_lock(&self) -> bool {
        self.lock_asked.is_some()
    }

    /// Is a message with so many bytes to ask whether everything before its end is done?
    pub fn wants_answer(&self, bytes: usize) -> bool {
        self.sent + bytes as u64 - self.answered >= UNANSWERED_MAX
    }

    /// Behind so many bytes of the next message something is asked whose answer brings bytes.
    pub fn asks(&mut self, behind: usize, brings: u64) -> Due {
        self.answered = self.sent + behind as u64;
        self.awaited += brings;
        Due { up_to: self.answered, brings }
    }

    /// A message has left.
    pub fn sends(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// An answer has come.
    pub fn comes(&mut self, due: Due) {
        self.done = self.done.max(due.up_to);
        self.awaited = self.awaited.saturating_sub(due.brings);
        self.lock_asked = None;
    }

    /// Answers that were to come are not waited for any longer.
    pub fn forget(&mut self) {
        *self = Flow { sent: self.sent, done: self.sent, answered: self.sent, ..Flow::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    const LOCKED: bool = true;

    /// An origin that sends whenever it may, and a target that answers when it is told to.
    #[derive(Default)]
    struct Pair {
        flow: Flow,
        due: VecDeque<Due>,
        asked_for_lock: bool,
    }

    impl Pair {
        fn new(locked: bool) -> Self {
            let mut pair = Pair::default();
            if locked {
                pair.flow.asks_for_lock();
            }
            pair
        }

        /// Sends a message with so many bytes, which asks for others. Was there room?
        fn send(&mut self, bytes: usize, brings: u64) -> bool {
            if !self.flow.has_room() {
                if self.flow.is_short_of_lock() && !self.asked_for_lock {
                    self.asked_for_lock = true;
                    self.due.push_back(self.flow.asks(0, 0));
                }
                return false;
            }
            if brings > 0 {
                self.due.push_back(self.flow.asks(bytes / 2, brings));
            }
            if self.flow.wants_answer(bytes) {
                self.due.push_back(self.flow.asks(bytes, 0));
            }
            self.flow.sends(bytes);
            true
        }

        fn answer(&mut self) -> bool {
            let due = self.due.pop_front();
            due.map(|due| self.flow.comes(due)).is_some()
        }
    }

    #[test]
    fn behind_a_lock_that_is_not_had_one_message_is_sent() {
        let mut pair = Pair::new(LOCKED);
        assert!(pair.send(MESSAGE_BYTES, 0));
        assert!(!pair.send(8, 0) && !pair.send(8, 0));
        assert_eq!(pair.due.len(), 1, "the lock is asked for once");
        assert!(pair.answer());
        assert!((0..10).all(|_| pair.send(MESSAGE_BYTES, 0)));
    }

    #[test]
    fn small_messages_behind_a_lock_need_no_word_of_it() {
        let mut pair = Pair::new(LOCKED);
        assert!((0..64).all(|_| pair.send(1000, 0)));
        assert!(pair.due.is_empty());
    }

    #[test]
    fn what_is_not_waited_for_any_longer_takes_no_room() {
        let mut pair = Pair::new(LOCKED);
        while pair.send(MESSAGE_BYTES, UNDER_WAY_MAX / 2) {
            pair.answer();
            pair.send(MESSAGE_BYTES, UNDER_WAY_MAX);
        }
        pair.flow.forget();
        assert!(pair.flow.has_room() && !pair.flow.awaits_lock());
    }

    proptest! {
        #[test]
        fn what_is_under_way_has_a_bound_and_who_waits_is_answered(
            locked: bool,
            steps in proptest::collection::vec((any::<bool>(), 1..=2 * MESSAGE_BYTES, 0..=1_u64), 1..400),
        ) {
            let mut pair = Pair::new(locked);
            for (answers, bytes, brings) in steps {
                let brings = brings * MESSAGE_BYTES as u64;
                if answers {
                    pair.answer();
                } else if !pair.send(bytes, brings) {
                    prop_assert!(!pair.due.is_empty(), "nothing would make room: {:?}", pair.flow);
                }
                let most = UNDER_WAY_MAX + 3 * MESSAGE_BYTES as u64;
                prop_assert!(pair.flow.under_way() <= most, "{:?}", pair.flow);
                let behind = pair.flow.lock_asked.map_or(0, |at| pair.flow.sent - at);
                prop_assert!(behind <= 3 * MESSAGE_BYTES as u64);
            }
            // When all answers have come there is room.
            while pair.answer() {}
            prop_assert!(pair.flow.has_room() || pair.flow.is_short_of_lock());
        }
    }
}
