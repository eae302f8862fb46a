//! Everybody is connected to everybody before the program goes on: all asks at once.
use super::{Exchange, Rules, Trigger};

pub(super) struct StaticParallel(pub(super) Exchange);

impl Rules for StaticParallel {
    fn trigger(&self) -> Trigger {
        Trigger::Start
    }

    fn exchange(&self) -> Exchange {
        self.0
    }
}
