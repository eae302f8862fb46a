//! Receives that wait for a message, in the order of posting.
use super::list::{List, Slab};
use super::{Envelope, Kind, Pattern, SCAN_MAX, UNINDEX_LEN, Wanted};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Names one posted receive. A key whose receive is gone is found out, never taken for another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostedKey {
    at: u32,
    generation: u32,
}

#[derive(Debug)]
struct Entry<R> {
    wanted: Wanted,
    receive: R,
    /// Position in the order of posting: merges the up to four lists of the index.
    sequence: u64,
}

/// The list of all entries in order, and the list of those with one pattern.
const ORDER: usize = 0;
const SAME: usize = 1;

#[derive(Debug)]
pub(super) struct PostedQueue<R> {
    slab: Slab<Entry<R>, 2>,
    order: List,
    next_sequence: u64,
    index: Option<Index>,
    /// The emptied index of an earlier long queue: its memory is used again.
    spare: Option<Index>,
}

/// The entries by pattern, each list in order.
#[derive(Debug, Default)]
struct Index {
    lists: HashMap<Wanted, List, FxBuildHasher>,
    /// Entries by kind of pattern: a kind nobody uses costs an arrival no lookup.
    len_by_kind: [usize; Kind::ALL.len()],
}

impl<R: Copy> PostedQueue<R> {
    pub(super) const fn new() -> Self {
        Self { slab: Slab::new(), order: List::EMPTY, next_sequence: 0, index: None, spare: None }
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Pattern, R)> + '_ {
        self.slab.walk(&self.order, ORDER).map(|(_, entry)| (entry.wanted.into(), entry.receive))
    }

    #[inline(always)]
    pub(super) fn push(&mut self, wanted: Wanted, receive: R) -> PostedKey {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let at = self.slab.insert(Entry { wanted, receive, sequence });
        self.slab.push_back(&mut self.order, ORDER, at);
        if let Some(index) = &mut self.index {
            index.add(&mut self.slab, at);
        }
        PostedKey { at, generation: self.slab.generation(at) }
    }

    #[inline]
    pub(super) fn take(&mut self, envelope: &Envelope) -> Option<R> {
        let mut first = self.slab.walk(&self.order, ORDER).take(SCAN_MAX);
        let found = first.find(|(_, entry)| entry.wanted.accepts(envelope)).map(|(at, _)| at);
        let found = match found {
            None if self.len() > SCAN_MAX => self.find_indexed(envelope),
            found => found,
        };
        found.map(|at| self.remove(at))
    }

    pub(super) fn cancel(&mut self, key: PostedKey) -> Option<R> {
        self.slab.is_current(key.at, key.generation).then(|| self.remove(key.at))
    }

    #[cold]
    fn find_indexed(&mut self, envelope: &Envelope) -> Option<u32> {
        if self.index.is_none() {
            self.build_index();
        }
        let index = self.index.as_ref()?;
        let heads = Kind::ALL.into_iter().filter_map(|kind| index.head(kind, envelope));
        heads.min_by_key(|&at| self.slab.get(at).sequence)
    }

    fn build_index(&mut self) {
        let mut index = self.spare.take().unwrap_or_default();
        let mut next = self.order.head();
        while let Some(at) = next {
            index.add(&mut self.slab, at);
            next = self.slab.next(ORDER, at);
        }
        self.index = Some(index);
    }

    #[inline]
    fn remove(&mut self, at: u32) -> R {
        self.slab.unlink(&mut self.order, ORDER, at);
        if let Some(index) = &mut self.index {
            index.drop_entry(&mut self.slab, at);
        }
        let receive = self.slab.remove(at).receive;
        if self.index.is_some() && self.len() <= UNINDEX_LEN {
            self.drop_index();
        }
        receive
    }

    #[cold]
    fn drop_index(&mut self) {
        let Some(mut index) = self.index.take() else { return };
        let mut next = self.order.head();
        while let Some(at) = next {
            index.drop_entry(&mut self.slab, at);
            next = self.slab.next(ORDER, at);
        }
        self.spare = Some(index);
    }
}

impl Index {
    fn add<R>(&mut self, slab: &mut Slab<Entry<R>, 2>, at: u32) {
        let wanted = slab.get(at).wanted;
        self.len_by_kind[wanted.kind as usize] += 1;
        slab.push_back(self.lists.entry(wanted).or_insert(List::EMPTY), SAME, at);
    }

    fn drop_entry<R>(&mut self, slab: &mut Slab<Entry<R>, 2>, at: u32) {
        let wanted = slab.get(at).wanted;
        self.len_by_kind[wanted.kind as usize] -= 1;
        let list = self.lists.get_mut(&wanted).expect("an indexed entry has a list");
        slab.unlink(list, SAME, at);
        if list.is_empty() {
            self.lists.remove(&wanted);
        }
    }

    fn head(&self, kind: Kind, envelope: &Envelope) -> Option<u32> {
        if self.len_by_kind[kind as usize] == 0 {
            return None;
        }
        self.lists.get(&Wanted::of_kind(kind, envelope))?.head()
    }
}
