//! Connections that peers of one node share (XRC): who needs a place of his own, and who finds one.
//!
//! The sending half of such a connection goes from a process to a node. All rows whose peers are there share it, and with it
//! the place within the budget. The first takes the place (its connection is *direct*), the others join it (*indirect*).
//! A row that leaves passes the place on while there are others: it is free when the last has left. A home of which every row
//! is being closed is on its way out: who comes then waits for a place like everybody, or the place would never get free.
//!
//! An attempt that nobody has answered cannot be closed, and neither can the home that it is in: a home with one counts as an
//! attempt for the reserve that is kept for answers, in the budget and in the device, which is asked before the first.
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The homes of rows, which are meant by index.
#[derive(Clone, Debug, Default)]
pub(super) struct Homes {
    homes: BTreeMap<u64, Home>,
    /// Where each row is that shares, and whether the device was asked for it.
    rows: BTreeMap<u32, (u64, bool)>,
    /// Rows with an attempt that nobody has answered, and where they had their place.
    asking: BTreeMap<u32, u64>,
    /// How many of them each home has.
    asks: BTreeMap<u64, u32>,
    /// Rows whose pair is on its way out, and where they were.
    out: Vec<(u32, u64)>,
    /// How many of them each home had, and how many places went with them: the driver may let go of them in any order, and the
    /// connection is there until the last.
    outs: BTreeMap<u64, (u32, u32)>,
}

#[derive(Clone, Debug, Default)]
struct Home {
    rows: BTreeSet<u32>,
    /// Those of them that have a queue pair.
    made: BTreeSet<u32>,
    /// Places that it has: one, or more if some had to wait while all others were being closed.
    places: u32,
}

impl Homes {
    /// Is there a row in that home that has a queue pair, and stays?
    pub(super) fn is_open(&self, home: u64, mut is_closing: impl FnMut(u32) -> bool) -> bool {
        self.homes.get(&home).is_some_and(|home| home.made.iter().any(|row| !is_closing(*row)))
    }

    /// Is a queue pair being made there? Who waits for that need not try for one of its own.
    pub(super) fn is_coming(&self, home: u64) -> bool {
        self.homes.get(&home).is_some_and(|home| home.made.len() < home.rows.len())
    }

    /// A row has its queue pair.
    pub(super) fn made(&mut self, row: u32) {
        if let Some((home, _)) = self.rows.get(&row) {
            self.homes.entry(*home).or_default().made.insert(row);
        }
    }

    /// A row enters a home, with a place of its own or without, and by a permit of the device's or without.
    pub(super) fn enter(&mut self, row: u32, home: u64, places: u32, permit: bool) {
        let known = self.homes.entry(home).or_default();
        known.rows.insert(row);
        known.places += places;
        self.rows.insert(row, (home, permit));
    }

    /// A row leaves: does a place go with it?
    pub(super) fn leave(&mut self, row: u32) -> bool {
        let Some((home, _)) = self.rows.remove(&row) else { return true };
        let Some(known) = self.homes.get_mut(&home) else { return true };
        known.rows.remove(&row);
        known.made.remove(&row);
        let goes = known.places > known.rows.len() as u32;
        known.places -= u32::from(goes);
        if known.rows.is_empty() {
            self.homes.remove(&home);
        }
        goes
    }

    /// Where a row is.
    pub(super) fn of(&self, row: u32) -> Option<u64> {
        self.rows.get(&row).map(|(home, _)| *home)
    }

    /// Did a row find all that it needs, so that the device has nothing to do with it?
    pub(super) fn has_joined(&self, row: u32) -> bool {
        self.rows.get(&row).is_some_and(|(_, permit)| !permit)
    }

    /// The rows of a home.
    pub(super) fn rows(&self, home: u64) -> impl Iterator<Item = u32> {
        self.homes.get(&home).into_iter().flat_map(|home| home.rows.iter().copied())
    }

    /// How many places so many rows have, if all of them go.
    pub(super) fn places(&self, rows: impl Iterator<Item = u32>) -> usize {
        let mut homes = BTreeSet::new();
        rows.filter(|row| self.of(*row).is_none_or(|home| homes.insert(home))).count()
    }

    /// Has it an attempt that nobody has answered, and that the device knows of?
    pub(super) fn asks(&self, home: u64) -> bool {
        let asks = |row: &u32| self.asking.contains_key(row);
        self.asks.contains_key(&home) && self.homes.get(&home).is_some_and(|home| home.made.iter().any(asks))
    }

    /// A row's attempt begins. Is it one more that holds a place?
    pub(super) fn begins_to_ask(&mut self, row: u32) -> bool {
        let Some(home) = self.of(row) else { return true };
        self.asking.insert(row, home);
        let count = self.asks.entry(home).or_default();
        *count += 1;
        *count == 1
    }

    /// A row's attempt was answered, or given up. Is it one less?
    pub(super) fn ends_asking(&mut self, row: u32) -> bool {
        let Some(home) = self.asking.remove(&row) else { return true };
        let count = self.asks.get_mut(&home).expect("it was counted");
        *count -= 1;
        let last = *count == 0;
        if last {
            self.asks.remove(&home);
        }
        last
    }

    /// A row's pair is on its way out of a home, with or without a place.
    pub(super) fn goes(&mut self, row: u32, home: u64, place: bool) {
        self.out.push((row, home));
        let (rows, places) = self.outs.entry(home).or_default();
        *rows += 1;
        *places += u32::from(place);
    }

    /// A place of a home is given back: are there still rows on their way out, which keep it until they are gone?
    pub(super) fn keeps(&mut self, home: u64) -> bool {
        let outs = self.outs.get_mut(&home).filter(|(rows, places)| places < rows);
        outs.map(|(_, places)| *places += 1).is_some()
    }

    /// A row's pair is gone: is a place free by that?
    pub(super) fn gone(&mut self, row: u32) -> bool {
        let Some(at) = self.out.iter().position(|(other, _)| *other == row) else { return true };
        let (_, home) = self.out.remove(at);
        let (rows, places) = self.outs.get_mut(&home).expect("it was counted");
        *rows -= 1;
        let free = *places > *rows;
        *places -= u32::from(free);
        if *rows == 0 {
            self.outs.remove(&home);
        }
        free
    }

    #[cfg(test)]
    pub(super) fn places_held(&self) -> u32 {
        self.homes.values().map(|home| home.places).sum()
    }

    #[cfg(test)]
    pub(super) fn rows_held(&self) -> usize {
        self.rows.len()
    }

    /// What attempts hold fewer places than there are of them.
    #[cfg(test)]
    pub(super) fn asking_together(&self) -> usize {
        self.asking.len() - self.asks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_home_gives_its_place_back() {
        let mut homes = Homes::default();
        homes.enter(1, 7, 1, true);
        homes.enter(2, 7, 0, false);
        homes.enter(3, 8, 1, true);
        assert!(!homes.is_open(7, |_| false) && homes.is_coming(7) && !homes.is_coming(9));
        homes.made(1);
        homes.made(2);
        assert!(!homes.is_coming(7));
        assert!(
            homes.is_open(7, |row| row == 1) && !homes.is_open(7, |_| true) && !homes.is_open(9, |_| false)
        );
        assert_eq!(homes.places([1, 2, 3, 4].into_iter()), 3);
        assert!(!homes.leave(1), "it is passed on");
        assert!(homes.leave(2) && homes.leave(3));
        assert!(homes.leave(4), "one that shares nothing has its own");
        assert_eq!((homes.places_held(), homes.rows_held()), (0, 0));
    }

    #[test]
    fn a_place_is_free_when_all_have_let_go_in_whatever_order() {
        let mut homes = Homes::default();
        homes.enter(1, 7, 1, true);
        homes.enter(2, 7, 0, false);
        for row in [1, 2] {
            let place = homes.leave(row);
            homes.goes(row, 7, place);
        }
        assert!(!homes.gone(2) && homes.gone(1));
        assert!(homes.gone(3), "one that shares nothing");
    }

    #[test]
    fn who_came_while_all_others_went_has_a_place_of_its_own() {
        let mut homes = Homes::default();
        homes.enter(1, 7, 1, true);
        homes.enter(2, 7, 1, true);
        assert!(homes.leave(1) && homes.leave(2));
    }

    #[test]
    fn a_home_asks_once_however_many_of_its_rows_do() {
        let mut homes = Homes::default();
        homes.enter(1, 7, 1, true);
        homes.enter(2, 7, 0, false);
        assert!(homes.begins_to_ask(1) && !homes.begins_to_ask(2) && !homes.asks(7));
        homes.made(2);
        assert!(homes.asks(7));
        assert!(homes.begins_to_ask(9));
        homes.leave(1);
        assert!(!homes.ends_asking(1) && homes.ends_asking(2) && !homes.asks(7));
        assert!(homes.ends_asking(9));
    }
}
