//! A connection is made where a message needs one, and never before.
use super::{Facts, Order, Rules, Trigger};

pub(super) struct OnDemand;

impl Rules for OnDemand {
    fn trigger(&self) -> Trigger {
        Trigger::FirstUse
    }

    fn facts(&self) -> Facts {
        Facts::Messages
    }

    fn order(&self) -> Order {
        Order::CardFirst
    }
}
