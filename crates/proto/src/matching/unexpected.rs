//! Messages that wait for a receive, in the order of arrival.
use super::list::{List, Slab};
use super::{Envelope, Kind, SCAN_MAX, UNINDEX_LEN, Wanted};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// An entry is in the list of all, and in one list per kind of pattern that is indexed.
const ORDER: usize = Kind::ALL.len();
const LISTS: usize = ORDER + 1;

type Entries<U> = Slab<(Envelope, U), LISTS>;

#[derive(Debug)]
pub(super) struct UnexpectedQueue<U> {
    slab: Entries<U>,
    order: List,
    index: Index,
}

/// For each kind of pattern in use: the messages by the pattern that accepts them, each list in order.
#[derive(Debug, Default)]
struct Index {
    lists: HashMap<Wanted, List, FxBuildHasher>,
    kinds: [bool; Kind::ALL.len()],
}

impl<U> UnexpectedQueue<U> {
    pub(super) fn new() -> Self {
        Self { slab: Slab::new(), order: List::EMPTY, index: Index::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Envelope, &U)> + '_ {
        self.slab.walk(&self.order, ORDER).map(|(_, (envelope, message))| (envelope, message))
    }

    pub(super) fn push(&mut self, envelope: Envelope, message: U) {
        let at = self.slab.insert((envelope, message));
        self.slab.push_back(&mut self.order, ORDER, at);
        for kind in self.index.kinds_in_use() {
            self.index.add(&mut self.slab, kind, at);
        }
    }

    #[inline]
    pub(super) fn take(&mut self, wanted: Wanted) -> Option<(Envelope, U)> {
        if self.order.is_empty() {
            return None;
        }
        self.find(wanted).map(|at| self.remove(at))
    }

    pub(super) fn probe(&mut self, wanted: Wanted) -> Option<(&Envelope, &U)> {
        let at = self.find(wanted)?;
        let (envelope, message) = self.slab.get(at);
        Some((envelope, message))
    }

    fn find(&mut self, wanted: Wanted) -> Option<u32> {
        let mut first = self.slab.walk(&self.order, ORDER).take(SCAN_MAX);
        let found = first.find(|(_, (envelope, _))| wanted.accepts(envelope)).map(|(at, _)| at);
        match found {
            None if self.len() > SCAN_MAX => self.find_indexed(wanted),
            found => found,
        }
    }

    #[cold]
    fn find_indexed(&mut self, wanted: Wanted) -> Option<u32> {
        if !self.index.kinds[wanted.kind as usize] {
            self.build_index(wanted.kind);
        }
        self.index.lists.get(&wanted)?.head()
    }

    fn build_index(&mut self, kind: Kind) {
        self.index.kinds[kind as usize] = true;
        let mut next = self.order.head();
        while let Some(at) = next {
            self.index.add(&mut self.slab, kind, at);
            next = self.slab.next(ORDER, at);
        }
    }

    fn remove(&mut self, at: u32) -> (Envelope, U) {
        self.slab.unlink(&mut self.order, ORDER, at);
        for kind in self.index.kinds_in_use() {
            self.index.drop_entry(&mut self.slab, kind, at);
        }
        let entry = self.slab.remove(at);
        if self.len() <= UNINDEX_LEN {
            self.drop_index();
        }
        entry
    }

    /// Empties the index entry by entry: clearing a table that was large once would cost its full size.
    fn drop_index(&mut self) {
        for kind in self.index.kinds_in_use() {
            let mut next = self.order.head();
            while let Some(at) = next {
                self.index.drop_entry(&mut self.slab, kind, at);
                next = self.slab.next(ORDER, at);
            }
            self.index.kinds[kind as usize] = false;
        }
    }
}

impl Index {
    fn kinds_in_use(&self) -> impl Iterator<Item = Kind> + use<> {
        let kinds = self.kinds;
        Kind::ALL.into_iter().filter(move |&kind| kinds[kind as usize])
    }

    fn add<U>(&mut self, slab: &mut Entries<U>, kind: Kind, at: u32) {
        let key = Wanted::of_kind(kind, &slab.get(at).0);
        slab.push_back(self.lists.entry(key).or_insert(List::EMPTY), kind as usize, at);
    }

    fn drop_entry<U>(&mut self, slab: &mut Entries<U>, kind: Kind, at: u32) {
        let key = Wanted::of_kind(kind, &slab.get(at).0);
        let list = self.lists.get_mut(&key).expect("an indexed entry has a list");
        slab.unlink(list, kind as usize, at);
        if list.is_empty() {
            self.lists.remove(&key);
        }
    }
}
