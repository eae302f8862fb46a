//! Everybody is connected to everybody before the program goes on: to one peer after the other, in the order of ranks. Of a
//! pair, the higher rank asks.
use super::{Exchange, Rules, Trigger};

pub(super) struct StaticSerial(pub(super) Exchange);

impl Rules for StaticSerial {
    fn trigger(&self) -> Trigger {
        Trigger::StartInOrder
    }

    fn exchange(&self) -> Exchange {
        self.0
    }
}
