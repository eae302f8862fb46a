//! When and in which order connections are made. The handshake is the same for all policies.
//!
//! A policy answers three questions: what *triggers* a handshake, by which *medium* the two sides learn each
//! other's facts, and in which *order* the steps go. The answers are enums, so that a new one shows every place that
//! has to know it. Not here: which connection is closed for another, and what is counted.
mod on_demand;

use on_demand::OnDemand;

/// A policy, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Nothing before the first need; then one step after the other: card, queue pair, request, connect.
    #[default]
    OnDemand,
}

impl Policy {
    pub(super) fn rules(self) -> &'static dyn Rules {
        match self {
            Policy::OnDemand => &OnDemand,
        }
    }
}

/// What a policy decides.
pub(super) trait Rules {
    fn trigger(&self) -> Trigger;
    fn facts(&self) -> Facts;
    fn order(&self) -> Order;
}

/// What begins a handshake of this side's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// The first need of the peer.
    FirstUse,
}

/// How a side learns the parameters of the other's queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Facts {
    /// By a request and its reply.
    Messages,
}

/// Which step comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The peer's card, then the queue pair: the card says which provider it has to be of.
    CardFirst,
}
