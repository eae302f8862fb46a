//! Asking the processes of a node where they are: a number that the agent changes, doorbells to be rung, and a page for each
//! answer.
use super::{
    ANSWER_BYTES_MAX, ANSWER_ROOM, AT_ASKED, HEADER_BYTES, NodeSegment, SLOT_BYTES, SLOT_DOORBELL, answers_at,
};
use crate::mem::Locator;
use crate::sync::AtomicU64;
use std::sync::atomic::Ordering;

impl NodeSegment {
    /// The process in `slot` says where its own segment is, by whose doorbell it can be woken.
    pub fn set_doorbell(&self, slot: u32, at: &Locator) {
        self.slot_word(slot, SLOT_DOORBELL + 4).store(at.fd, Ordering::Relaxed);
        self.start_word(slot).store(at.start_ticks, Ordering::Relaxed);
        self.slot_word(slot, SLOT_DOORBELL).store(at.pid, Ordering::Release);
    }

    /// Where that is, if it has said so.
    pub fn doorbell(&self, slot: u32) -> Option<Locator> {
        let pid = self.slot_word(slot, SLOT_DOORBELL).load(Ordering::Acquire);
        let fd = self.slot_word(slot, SLOT_DOORBELL + 4).load(Ordering::Relaxed);
        let start_ticks = self.start_word(slot).load(Ordering::Relaxed);
        (pid != 0).then_some(Locator { pid, fd, start_ticks })
    }

    fn start_word(&self, slot: u32) -> &AtomicU64 {
        assert!(slot < self.facts.slots, "slot {slot} of {}", self.facts.slots);
        self.map.u64_at(HEADER_BYTES + slot as usize * SLOT_BYTES + SLOT_DOORBELL + 8)
    }

    /// For the agent: asks all processes where they are. Those that sleep are to be rung for. Returns the number that
    /// answers carry.
    pub fn ask(&self) -> u32 {
        self.map.u32_at(AT_ASKED).fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The number of the last question; 0 if there was none. One load of a line that nobody writes otherwise.
    #[inline]
    pub fn asked(&self) -> u32 {
        self.map.u32_at(AT_ASKED).load(Ordering::Acquire)
    }

    /// The answer of the process in `slot`, which calls this; what is too long is cut off.
    pub fn answer(&self, slot: u32, ask: u32, answer: &[u8]) {
        let answer = &answer[..answer.len().min(ANSWER_BYTES_MAX)];
        self.answer_word(slot, 0).store(0, Ordering::Release);
        for (index, chunk) in answer.chunks(8).enumerate() {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            self.answer_word(slot, 1 + index).store(u64::from_le_bytes(bytes), Ordering::Release);
        }
        let head = u64::from(ask) << 32 | answer.len() as u64;
        self.answer_word(slot, 0).store(head, Ordering::Release);
    }

    /// What the process in `slot` has answered to this question, if it has.
    pub fn answer_to(&self, slot: u32, ask: u32) -> Option<Vec<u8>> {
        let head = self.answer_word(slot, 0).load(Ordering::Acquire);
        let len = (head as u32 as usize).min(ANSWER_BYTES_MAX);
        if head >> 32 != u64::from(ask) {
            return None;
        }
        let word = |index| self.answer_word(slot, 1 + index).load(Ordering::Acquire).to_le_bytes();
        let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(word).collect();
        bytes.truncate(len);
        (self.answer_word(slot, 0).load(Ordering::Acquire) == head).then_some(bytes)
    }

    fn answer_word(&self, slot: u32, index: usize) -> &AtomicU64 {
        assert!(slot < self.facts.slots && index < ANSWER_ROOM / 8);
        self.map.u64_at(answers_at(self.facts.slots, self.records) + slot as usize * ANSWER_ROOM + index * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Records;
    use super::super::tests::facts;
    use super::*;

    #[test]
    fn who_is_asked_answers_and_an_older_answer_is_none() {
        let owner =
            NodeSegment::create_recording(&facts(3), Records { columns: 130, contacts: 2, traffic: true })
                .unwrap();
        let other = NodeSegment::open(&owner.locator().unwrap()).unwrap();
        assert_eq!(other.asked(), 0);
        assert_eq!((owner.ask(), other.asked()), (1, 1));
        assert_eq!(owner.answer_to(3, 1), None);
        other.answer(3, 1, b"in a barrier");
        assert_eq!(owner.answer_to(3, 1).as_deref(), Some(&b"in a barrier"[..]));
        assert_eq!((owner.answer_to(2, 1), owner.answer_to(3, 2)), (None, None));
        other.answer(3, 2, &[7; ANSWER_ROOM]);
        assert_eq!(owner.answer_to(3, 2), Some(vec![7; ANSWER_BYTES_MAX]));
        other.answer(3, 3, b"");
        assert_eq!(owner.answer_to(3, 3), Some(Vec::new()));
        assert_eq!(owner.met(3, 0).count() + owner.contacts(3, 9).listed.len(), 0, "nothing else is written");
    }

    #[test]
    fn a_doorbell_is_known_until_its_process_is_gone() {
        let node = NodeSegment::create(&facts(3)).unwrap();
        let at = Locator { pid: 7, fd: 9, start_ticks: u64::MAX };
        node.claim_slot(1, 7);
        node.set_doorbell(1, &at);
        let doorbell = |slot| node.doorbell(slot).map(|at| (at.pid, at.fd, at.start_ticks));
        assert_eq!((doorbell(0), doorbell(1)), (None, Some((7, 9, u64::MAX))));
        assert_eq!((node.claimed_by(0), node.claimed_by(1)), (None, Some(7)));
        node.clear_slot(1);
        assert_eq!((doorbell(1), node.claimed_by(1)), (None, None));
    }
}
