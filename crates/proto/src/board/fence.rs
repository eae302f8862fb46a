//! The fence of a board, and what its end does to what is kept.
use super::{Action, Board, Body, Entries, Entry, Fresh, Known, Neighbour, cut};
use crate::lane::{Bytes, parts};
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Board {
    /// When everybody at and below this node is in: tells the parent, or, at the root, everybody.
    pub(super) fn close_fence(&mut self) {
        if !self.fence.all_in() {
            return;
        }
        if !self.links.has_parent() {
            return self.end_phase();
        }
        let fence = self.fence.number();
        let mut batches = self.take_fresh();
        let entries = batches.pop().unwrap_or_default();
        for part in batches {
            self.send(Neighbour::Parent, Body::Part(part));
        }
        self.send(Neighbour::Parent, Body::Enter { fence, entries });
    }

    /// At the root: what was put in this phase becomes what everybody finds.
    fn end_phase(&mut self) {
        let fresh: Vec<(Bytes, Fresh)> = core::mem::take(&mut self.fresh).into_iter().collect();
        self.fresh_bytes = 0;
        let mut last = Entries::default();
        if self.kind.broadcasts() {
            let news = fresh.iter().map(|(key, fresh)| Entry::new(key.clone(), fresh.value.clone()));
            let mut batches = cut(news.collect());
            last = batches.pop().unwrap_or_default();
            batches.into_iter().for_each(|part| self.send_below(&Body::Part(part)));
        } else {
            self.send_stale(&fresh);
        }
        for (key, fresh) in fresh {
            self.keep(key, Known::Value(fresh.value));
        }
        self.open_fence(last);
    }

    /// Names the keys that have another value than somebody may have cached.
    fn send_stale(&mut self, fresh: &[(Bytes, Fresh)]) {
        let stale = fresh.iter().filter(|(key, fresh)| match self.cache.peek(key) {
            Some(Known::Value(old)) => fresh.contested || *old != fresh.value,
            _ => fresh.contested,
        });
        let keys: Vec<Bytes> = stale.map(|(key, _)| key.clone()).collect();
        if keys.is_empty() {
            return;
        }
        for part in parts(keys, |key| key.len() + 4) {
            self.send_below(&Body::Stale(part.into()));
        }
    }

    /// Some of what a fence published.
    pub(super) fn take_news(&mut self, entries: Entries) {
        for entry in entries.iter() {
            self.keep(entry.key.clone(), Known::Value(entry.value.clone()));
        }
        self.send_below(&Body::Part(entries));
    }

    pub(super) fn take_stale(&mut self, keys: Arc<[Bytes]>) {
        for key in keys.iter() {
            let known = self.cache.remove(key);
            self.note_drop(key, known);
        }
        self.send_below(&Body::Stale(keys));
    }

    /// The fence is over, here and below. `entries`: the rest of what it published.
    pub(super) fn open_fence(&mut self, entries: Entries) {
        let fence = self.fence.number();
        for entry in entries.iter() {
            self.keep(entry.key.clone(), Known::Value(entry.value.clone()));
        }
        if !self.kind.broadcasts() {
            self.cache.forget_absent();
        }
        self.send_below(&Body::Leave { fence, entries });
        self.fence.next();
        self.actions.push_back(Action::FenceDone);
    }
}
