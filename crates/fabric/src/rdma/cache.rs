//! Registrations that are kept, since programs send from the same memory again and again. Which are kept, and which go
//! first, is decided here; whether their memory is still what it was, others know.
use std::rc::Rc;

/// Registrations at a time.
pub(super) const KEPT_MAX: usize = 512;

/// Registrations `R` of ranges, each with a ticket `W` by which it is asked whether its memory is intact.
#[derive(Debug)]
pub(super) struct Cache<R, W> {
    /// In the order of their beginnings.
    kept: Vec<Kept<R, W>>,
    bytes: u64,
    bytes_max: u64,
    clock: u64,
}

#[derive(Debug)]
struct Kept<R, W> {
    start: u64,
    end: u64,
    region: Rc<R>,
    ticket: W,
    used: u64,
}

impl<R, W> Kept<R, W> {
    /// Does anybody use it at the moment?
    fn is_used(&self) -> bool {
        Rc::strong_count(&self.region) > 1
    }
}

impl<R, W> Cache<R, W> {
    pub(super) fn new(bytes_max: u64) -> Self {
        Cache { kept: Vec::new(), bytes: 0, bytes_max, clock: 0 }
    }

    /// Bytes of what is kept.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Can so many bytes be kept at all?
    pub(super) fn fits(&self, bytes: u64) -> bool {
        bytes <= self.bytes_max / 2
    }

    /// A registration that covers a range, if one is kept whose memory is intact. Tickets of those that are not intact any
    /// more come back to `ended`.
    pub(super) fn find(
        &mut self,
        start: u64,
        end: u64,
        is_intact: impl Fn(&W) -> bool,
        mut ended: impl FnMut(W),
    ) -> Option<Rc<R>> {
        // Those that begin at or before it, the nearest first.
        let mut at = self.kept.partition_point(|kept| kept.start <= start);
        while at > 0 {
            at -= 1;
            if self.kept[at].end < end {
                continue;
            }
            if !is_intact(&self.kept[at].ticket) {
                ended(self.remove(at).ticket);
                continue;
            }
            self.clock += 1;
            self.kept[at].used = self.clock;
            return Some(self.kept[at].region.clone());
        }
        None
    }

    /// Keeps a registration. What goes for it is what was used the longest ago, and is not used now.
    pub(super) fn keep(&mut self, start: u64, end: u64, region: Rc<R>, ticket: W, ended: &mut dyn FnMut(W)) {
        self.clock += 1;
        let at = self.kept.partition_point(|kept| kept.start <= start);
        self.bytes += end - start;
        self.kept.insert(at, Kept { start, end, region, ticket, used: self.clock });
        while self.bytes > self.bytes_max && self.drop_oldest(ended) {}
    }

    /// Is there a place for one more? What was used the longest ago goes for it.
    pub(super) fn make_place(&mut self, ended: &mut dyn FnMut(W)) -> bool {
        self.kept.len() < KEPT_MAX || self.drop_oldest(ended)
    }

    /// Everything goes that is not used. Was there anything?
    pub(super) fn clear(&mut self, ended: &mut dyn FnMut(W)) -> bool {
        let before = self.kept.len();
        while self.drop_oldest(ended) {}
        self.kept.len() < before
    }

    fn drop_oldest(&mut self, ended: &mut dyn FnMut(W)) -> bool {
        let unused = self.kept.iter().enumerate().filter(|(_, kept)| !kept.is_used());
        let Some((at, _)) = unused.min_by_key(|(_, kept)| kept.used) else { return false };
        ended(self.remove(at).ticket);
        true
    }

    fn remove(&mut self, at: usize) -> Kept<R, W> {
        let kept = self.kept.remove(at);
        self.bytes -= kept.end - kept.start;
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn keep(cache: &mut Cache<u32, u32>, start: u64, end: u64, number: u32) -> Vec<u32> {
        let mut gone = Vec::new();
        cache.keep(start, end, Rc::new(number), number, &mut |ticket| gone.push(ticket));
        gone
    }

    fn find(cache: &mut Cache<u32, u32>, start: u64, end: u64) -> Option<u32> {
        cache.find(start, end, |_| true, |_| panic!("all are intact")).map(|region| *region)
    }

    #[test]
    fn what_covers_a_range_is_found() {
        let mut cache = Cache::new(1000);
        keep(&mut cache, 100, 200, 1);
        keep(&mut cache, 150, 400, 2);
        assert_eq!(find(&mut cache, 100, 200), Some(1));
        assert_eq!(find(&mut cache, 120, 130), Some(1));
        assert_eq!(find(&mut cache, 150, 400), Some(2));
        assert_eq!(find(&mut cache, 120, 300), None);
        assert_eq!(find(&mut cache, 350, 401), None);
        assert_eq!(find(&mut cache, 0, 100), None);
    }

    #[test]
    fn the_oldest_that_nobody_uses_goes_first() {
        let mut cache = Cache::new(300);
        keep(&mut cache, 0, 100, 1);
        keep(&mut cache, 100, 200, 2);
        keep(&mut cache, 200, 300, 3);
        let used = cache.find(100, 200, |_| true, |_| {});
        assert_eq!(find(&mut cache, 0, 100), Some(1));
        assert_eq!(keep(&mut cache, 300, 400, 4), [3]);
        assert_eq!(keep(&mut cache, 400, 500, 5), [1]);
        // (More than there may be, since one is in use; that goes as soon as it is not.)
        assert_eq!(keep(&mut cache, 500, 700, 6), [4, 5]);
        assert_eq!(cache.bytes(), 300);
        drop(used);
        assert!(cache.clear(&mut |_| {}));
        assert_eq!((cache.bytes(), find(&mut cache, 100, 200)), (0, None));
    }

    #[test]
    fn memory_that_has_gone_is_not_found() {
        let mut cache = Cache::new(1000);
        keep(&mut cache, 0, 200, 1);
        keep(&mut cache, 100, 200, 2);
        let mut ended = Vec::new();
        assert_eq!(
            cache.find(120, 150, |ticket| *ticket != 2, |ticket| ended.push(ticket)),
            Some(Rc::new(1))
        );
        assert_eq!(ended, [2]);
        assert_eq!(cache.find(120, 150, |_| false, |ticket| ended.push(ticket)), None);
        assert_eq!((ended, cache.bytes()), (vec![2, 1], 0));
    }

    proptest! {
        /// Whatever is kept and found: sums are right, tickets come back once, and what is found covers what was asked for.
        #[test]
        fn nothing_is_lost(steps in prop::collection::vec((0u64..64, 1u64..16, any::<bool>()), 1..200)) {
            let mut cache = Cache::new(64);
            let mut tickets = BTreeSet::new();
            for (number, (start, len, keeps)) in steps.into_iter().enumerate() {
                let end = start + len;
                let found = cache.find(start, end, |_| true, |_| unreachable!());
                if let Some(found) = &found {
                    let (from, to): (u64, u64) = **found;
                    prop_assert!(from <= start && end <= to);
                }
                if found.is_none() && keeps && cache.fits(len) {
                    let has_place = cache.make_place(&mut |ticket| { tickets.remove(&ticket); });
                    prop_assert!(has_place);
                    tickets.insert(number);
                    cache.keep(start, end, Rc::new((start, end)), number, &mut |ticket| { tickets.remove(&ticket); });
                }
                let sum: u64 = cache.kept.iter().map(|kept| kept.end - kept.start).sum();
                prop_assert_eq!(sum, cache.bytes());
                prop_assert!(cache.bytes() <= 64);
                prop_assert_eq!(cache.kept.iter().map(|kept| kept.ticket).collect::<BTreeSet<_>>(), tickets.clone());
            }
        }
    }
}
