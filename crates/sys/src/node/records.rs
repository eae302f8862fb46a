//! What processes leave behind about whom they had to do with: connections, first contacts, bytes. Pages that nobody writes cost
//! nothing.
use super::{
    Contacts, HEADER_BYTES, NodeSegment, PLANES, PairBytes, Records, SLOT_BYTES, TRAFFIC_WORDS, bytes_of,
    contact_words, row_words,
};
use crate::sync::AtomicU64;
use std::sync::atomic::Ordering;

impl NodeSegment {
    /// Notes that the process in `slot` is connected to a rank, in one of the ways. Nothing happens where nobody wants
    /// to know.
    pub fn note_met(&self, slot: u32, rank: u32, plane: usize) {
        if rank < self.records.columns {
            self.met_word(slot, plane, rank / 64).fetch_or(1 << (rank % 64), Ordering::Relaxed);
        }
    }

    /// The ranks that the process in `slot` was connected to in one of the ways, in order.
    pub fn met(&self, slot: u32, plane: usize) -> impl Iterator<Item = u32> {
        (0..row_words(self.records.columns)).flat_map(move |index| {
            let word = self.met_word(slot, plane, index).load(Ordering::Relaxed);
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit)
        })
    }

    fn met_word(&self, slot: u32, plane: usize, index: u32) -> &AtomicU64 {
        let words = row_words(self.records.columns);
        assert!(slot < self.facts.slots && plane < PLANES && index < words);
        let row = slot as usize * PLANES + plane;
        let word = row * words as usize + index as usize;
        self.map.u64_at(HEADER_BYTES + self.facts.slots as usize * SLOT_BYTES + word * 8)
    }

    /// What is recorded here.
    pub fn records(&self) -> Records {
        self.records
    }

    /// Notes that the process in `slot`, which calls this, had something to say to a rank for the first time.
    pub fn note_contact(&self, slot: u32, rank: u32, when_ms: u32) {
        if self.records.contacts == 0 {
            return;
        }
        let count = self.contact_word(slot, 0).load(Ordering::Relaxed);
        if let Ok(place) = u32::try_from(count)
            && place < self.records.contacts
        {
            let word = u64::from(when_ms) << 32 | u64::from(rank);
            self.contact_word(slot, 1 + place).store(word, Ordering::Relaxed);
        }
        self.contact_word(slot, 0).store(count.saturating_add(1), Ordering::Release);
    }

    /// The first contacts of the process in `slot`, at most so many of them.
    pub fn contacts(&self, slot: u32, most: u32) -> Contacts {
        if self.records.contacts == 0 {
            return Contacts::default();
        }
        let count = self.contact_word(slot, 0).load(Ordering::Acquire);
        let listed = count.min(most.min(self.records.contacts).into()) as u32;
        let entry = |place: u32| {
            let word = self.contact_word(slot, 1 + place).load(Ordering::Relaxed);
            (word as u32, (word >> 32) as u32)
        };
        Contacts { count, listed: (0..listed).map(entry).collect() }
    }

    fn contact_word(&self, slot: u32, index: u32) -> &AtomicU64 {
        let words = contact_words(self.records.contacts);
        assert!(slot < self.facts.slots && (index as usize) < words);
        let rows = bytes_of(self.facts.slots, Records { contacts: 0, traffic: false, ..self.records });
        self.map.u64_at(rows + (slot as usize * words + index as usize) * 8)
    }

    /// Notes how many bytes went between the process in `slot` and a rank, if anybody wants to know.
    pub fn note_traffic(&self, slot: u32, rank: u32, bytes: PairBytes) {
        if self.records.traffic && rank < self.records.columns {
            self.traffic_word(slot, rank, 0).store(bytes.carried, Ordering::Relaxed);
            self.traffic_word(slot, rank, 1).store(bytes.lent, Ordering::Relaxed);
        }
    }

    /// What was noted last, of ranks with which there was any.
    pub fn traffic(&self, slot: u32) -> impl Iterator<Item = (u32, PairBytes)> {
        let ranks = if self.records.traffic { self.records.columns } else { 0 };
        let word = move |rank, place| self.traffic_word(slot, rank, place).load(Ordering::Relaxed);
        let all =
            (0..ranks).map(move |rank| (rank, PairBytes { carried: word(rank, 0), lent: word(rank, 1) }));
        all.filter(|(_, bytes)| *bytes != PairBytes::default())
    }

    fn traffic_word(&self, slot: u32, rank: u32, place: usize) -> &AtomicU64 {
        assert!(slot < self.facts.slots && rank < self.records.columns && place < TRAFFIC_WORDS);
        let before = bytes_of(self.facts.slots, Records { traffic: false, ..self.records });
        let pair = slot as usize * self.records.columns as usize + rank as usize;
        self.map.u64_at(before + (pair * TRAFFIC_WORDS + place) * 8)
    }
}
