//! A device of one host that behaves as another does: what its commands cost, how many it does at a time, and which numbers
//! its queue pairs get. Costs are waits, so that what is measured with them is what a program would wait for.
use std::str::FromStr;
use sys::cpu;
use sys::node::{LANES_MAX, NodeSegment};

/// What is imitated; nothing, if all is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imitation {
    /// To make a queue pair and bring it to INIT.
    pub create_ns: u64,
    /// To bring it to RTR and RTS.
    pub ready_ns: u64,
    /// Commands that the device does at a time; 0: as many as there are.
    pub lanes: u32,
    /// After so many numbers one is left out; 0: never.
    pub gap: u32,
}

/// An imitation that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a list such as create=367us,ready=105us,lanes=8,gap=100 (lanes at most {LANES_MAX})")]
pub struct ImitationError(String);

impl FromStr for Imitation {
    type Err = ImitationError;

    fn from_str(text: &str) -> Result<Self, ImitationError> {
        let bad = || ImitationError(text.into());
        let mut imitation = Imitation::default();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(bad)?;
            match name {
                "create" => imitation.create_ns = time_ns(value).ok_or_else(bad)?,
                "ready" => imitation.ready_ns = time_ns(value).ok_or_else(bad)?,
                "lanes" => {
                    let lanes = value.parse().ok().filter(|lanes| (1..=LANES_MAX).contains(lanes));
                    imitation.lanes = lanes.ok_or_else(bad)?;
                }
                "gap" => imitation.gap = value.parse().ok().filter(|gap| *gap > 0).ok_or_else(bad)?,
                _ => return Err(bad()),
            }
        }
        Ok(imitation)
    }
}

/// A time with its unit, at most ten seconds.
fn time_ns(text: &str) -> Option<u64> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (number, unit) =
        units.into_iter().find_map(|(unit, ns)| text.strip_suffix(unit).map(|number| (number, ns)))?;
    let ns = number.parse::<f64>().ok()? * unit;
    (0.0..=1e10).contains(&ns).then_some(ns as u64)
}

impl Imitation {
    /// The number of a queue pair, where the device has counted so far.
    pub(crate) fn number(&self, counted: u32) -> u32 {
        counted + counted.checked_div(self.gap).unwrap_or(0)
    }

    /// Makes queue pairs, so many at a time: waits.
    pub(crate) fn create(&self, node: &NodeSegment, count: usize) {
        self.command(node, self.create_ns, count);
    }

    /// Connects some, so many at a time: waits.
    pub(crate) fn ready(&self, node: &NodeSegment, count: usize) {
        self.command(node, self.ready_ns, count);
    }

    fn command(&self, node: &NodeSegment, takes_ns: u64, count: usize) {
        if takes_ns == 0 || count == 0 {
            return;
        }
        let now_ns = cpu::now_ns();
        let queue = |_| match self.lanes {
            0 => now_ns + takes_ns,
            lanes => node.queue_command(lanes, now_ns, takes_ns),
        };
        cpu::sleep_until_ns((0..count).map(queue).max().unwrap_or(now_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imitations_are_read_and_nonsense_is_refused() {
        let all: Imitation = "create=367us,ready=0.105ms,lanes=8,gap=100".parse().unwrap();
        assert_eq!(all, Imitation { create_ns: 367_000, ready_ns: 105_000, lanes: 8, gap: 100 });
        assert_eq!("gap=7".parse(), Ok(Imitation { gap: 7, ..Imitation::default() }));
        for text in
            ["", "create", "create=5", "create=-1us", "create=1h", "ready=11s", "lanes=0", "gap=0", "x=1us"]
        {
            let error = text.parse::<Imitation>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("'{text}' is not a list")), "{error}");
        }
        assert!(format!("lanes={}", LANES_MAX + 1).parse::<Imitation>().is_err());
    }

    #[test]
    fn numbers_have_gaps() {
        let gaps = Imitation { gap: 3, ..Imitation::default() };
        assert_eq!([1, 2, 3, 4, 5, 6].map(|n| gaps.number(n)), [1, 2, 4, 5, 6, 8]);
        assert_eq!(Imitation::default().number(7), 7);
    }
}
