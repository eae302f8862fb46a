//! A connection is made where a message needs one, and never before.
use super::{Rules, Trigger};

pub(super) struct OnDemand;

impl Rules for OnDemand {
    fn trigger(&self) -> Trigger {
        Trigger::FirstUse
    }
}
