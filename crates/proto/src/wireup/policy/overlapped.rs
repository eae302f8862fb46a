//! As on demand, but the peer hears of it before the own queue pair is there: both make theirs at the same time. The two
//! requests that follow cross, and a crossed request is the reply.
use super::{Order, Rules, Trigger};

pub(super) struct Overlapped;

impl Rules for Overlapped {
    fn trigger(&self) -> Trigger {
        Trigger::FirstUse
    }

    fn order(&self) -> Order {
        Order::AnnounceFirst
    }
}
