//! Doubly linked lists in a slab: an entry is in several lists at once and leaves each in constant time.
//!
//! Indices instead of pointers keep it free of `unsafe`; freed entries are reused, so a queue that has
//! reached its working size allocates nothing more.
use alloc::vec::Vec;

/// No entry.
const NONE: u32 = u32::MAX;

/// The ends of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(super) const EMPTY: List = List { head: NONE, tail: NONE };

    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

#[derive(Debug)]
struct Node<T, const LISTS: usize> {
    /// `None` while the node is free; then `links[0].next` is the next free one.
    item: Option<T>,
    links: [Link; LISTS],
    /// Counts the uses of this node, so that a key to an earlier use is found out.
    generation: u32,
}

/// Entries that can each be in up to `LISTS` lists. Numbers of entries are stable until removal.
#[derive(Debug)]
pub(super) struct Slab<T, const LISTS: usize> {
    nodes: Vec<Node<T, LISTS>>,
    free: u32,
    len: usize,
}

impl<T, const LISTS: usize> Slab<T, LISTS> {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), free: NONE, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Stores an item, in no list yet.
    #[inline]
    pub(super) fn insert(&mut self, item: T) -> u32 {
        // Room is made first, apart, so that the item goes from registers straight to its place. Handing it
        // to a second path costs a detour through the stack and half the time of a match.
        if self.free == NONE {
            self.grow();
        }
        let at = self.free;
        let node = &mut self.nodes[at as usize];
        self.free = node.links[0].next;
        self.len += 1;
        node.item = Some(item);
        at
    }

    /// Adds a free node.
    #[cold]
    fn grow(&mut self) {
        let at = u32::try_from(self.nodes.len()).ok().filter(|&at| at != NONE);
        self.free = at.expect("fewer than 2^32 - 1 entries wait, since memory ends before");
        let links = [Link { prev: NONE, next: NONE }; LISTS];
        self.nodes.push(Node { item: None, links, generation: 0 });
    }

    /// Takes an item out. It must have left its lists.
    #[inline]
    pub(super) fn remove(&mut self, at: u32) -> T {
        let node = &mut self.nodes[at as usize];
        let item = node.item.take().expect("a listed entry holds an item");
        node.generation = node.generation.wrapping_add(1);
        node.links[0].next = self.free;
        self.free = at;
        self.len -= 1;
        item
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &T {
        self.nodes[at as usize].item.as_ref().expect("a listed entry holds an item")
    }

    /// The use of this entry that a key has to name.
    pub(super) fn generation(&self, at: u32) -> u32 {
        self.nodes[at as usize].generation
    }

    /// Is this use of the entry still going on?
    pub(super) fn is_current(&self, at: u32, generation: u32) -> bool {
        let node = self.nodes.get(at as usize);
        node.is_some_and(|node| node.generation == generation && node.item.is_some())
    }

    /// Puts an entry at the end of a list; `which` is the number of that list among the entry's.
    #[inline]
    pub(super) fn push_back(&mut self, list: &mut List, which: usize, at: u32) {
        self.nodes[at as usize].links[which] = Link { prev: list.tail, next: NONE };
        match self.nodes.get_mut(list.tail as usize) {
            Some(tail) => tail.links[which].next = at,
            None => list.head = at,
        }
        list.tail = at;
    }

    /// Takes an entry out of a list.
    #[inline]
    pub(super) fn unlink(&mut self, list: &mut List, which: usize, at: u32) {
        let Link { prev, next } = self.nodes[at as usize].links[which];
        match self.nodes.get_mut(prev as usize) {
            Some(node) => node.links[which].next = next,
            None => list.head = next,
        }
        match self.nodes.get_mut(next as usize) {
            Some(node) => node.links[which].prev = prev,
            None => list.tail = prev,
        }
    }

    /// The entry after this one in a list.
    pub(super) fn next(&self, which: usize, at: u32) -> Option<u32> {
        let next = self.nodes[at as usize].links[which].next;
        (next != NONE).then_some(next)
    }

    /// The entries of a list in order.
    #[inline]
    pub(super) fn walk(&self, list: &List, which: usize) -> Walk<'_, T, LISTS> {
        Walk { slab: self, which, at: list.head }
    }
}

/// Iterates over one list: numbers of entries and their items.
pub(super) struct Walk<'a, T, const LISTS: usize> {
    slab: &'a Slab<T, LISTS>,
    which: usize,
    at: u32,
}

impl<'a, T, const LISTS: usize> Iterator for Walk<'a, T, LISTS> {
    type Item = (u32, &'a T);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let node = self.slab.nodes.get(at as usize)?;
        self.at = node.links[self.which].next;
        Some((at, node.item.as_ref().expect("a listed entry holds an item")))
    }
}
