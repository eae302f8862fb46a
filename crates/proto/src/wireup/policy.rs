//! Policies: when and in which order connections are made. The handshake is the same for all policies.
//!
//! A policy answers three questions: what *triggers* a handshake, by which *medium* the two sides learn each
//! other's facts, and in which *order* the steps go. The answers are enums, so that a new one shows every place that
//! has to know it. Which policy a job gets where nobody says is decided in [`auto`]. All that is made later (a connection that was closed, a peer of another job) is made where it is
//! needed, whatever the policy was at the start. Not here: which connection is closed for another, and what is counted.
pub mod auto;
mod on_demand;
mod overlapped;
mod rank_by_rank;
mod static_parallel;
mod static_serial;

use on_demand::OnDemand;
use overlapped::Overlapped;
use rank_by_rank::RankByRank;
use static_parallel::StaticParallel;
use static_serial::StaticSerial;

/// A policy, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Nothing before the first need; then one step after the other: card, queue pair, request, connect.
    #[default]
    OnDemand,
    /// Nothing before the first need; then both sides make their queue pairs at the same time.
    Overlapped,
    /// Everybody with everybody at the start, one after the other in the order of ranks.
    StaticSerial(Exchange),
    /// Everybody with everybody at the start, all at once.
    StaticParallel(Exchange),
    /// Everybody with everybody at the start; queue pairs are made by one process of a node after the other, so that
    /// their numbers are in a row and few words tell them all.
    RankByRank,
}

/// How processes that connect at the start tell each other about their queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exchange {
    /// By the messages of a handshake for each pair.
    #[default]
    Messages,
    /// Each number under a key of its own on the board, and a fence behind each step, as MVAPICH2 did it.
    Published,
    /// All numbers of a process at once on the board, and one fence.
    Batched,
    /// The same, as ranges of numbers.
    Ranges,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 9] = [
        Policy::OnDemand,
        Policy::Overlapped,
        Policy::StaticSerial(Exchange::Messages),
        Policy::StaticSerial(Exchange::Published),
        Policy::StaticSerial(Exchange::Batched),
        Policy::StaticParallel(Exchange::Messages),
        Policy::StaticParallel(Exchange::Published),
        Policy::StaticParallel(Exchange::Batched),
        Policy::RankByRank,
    ];
    /// Their names, in the same order.
    pub const NAMES: [&str; 9] = [
        "on-demand",
        "overlapped",
        "static-serial",
        "static-serial:published",
        "static-serial:batched",
        "static-parallel",
        "static-parallel:published",
        "static-parallel:batched",
        "rank-by-rank",
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let at = Policy::ALL.iter().position(|policy| *policy == self);
        at.map_or("static", |at| Policy::NAMES[at])
    }

    /// Its place among all of them.
    pub fn number(self) -> u64 {
        Policy::ALL.iter().position(|policy| *policy == self).map_or(u64::MAX, |at| at as u64)
    }

    /// What begins handshakes.
    pub fn trigger(self) -> Trigger {
        self.rules().trigger()
    }

    /// How the two sides of a connection that is made at the start learn of each other.
    pub fn exchange(self) -> Exchange {
        self.rules().exchange()
    }

    pub(super) fn rules(self) -> &'static dyn Rules {
        match self {
            Policy::OnDemand => &OnDemand,
            Policy::Overlapped => &Overlapped,
            Policy::StaticSerial(Exchange::Messages) => &StaticSerial(Exchange::Messages),
            Policy::StaticSerial(Exchange::Published) => &StaticSerial(Exchange::Published),
            Policy::StaticSerial(_) => &StaticSerial(Exchange::Batched),
            Policy::StaticParallel(Exchange::Messages) => &StaticParallel(Exchange::Messages),
            Policy::StaticParallel(Exchange::Published) => &StaticParallel(Exchange::Published),
            Policy::StaticParallel(_) => &StaticParallel(Exchange::Batched),
            Policy::RankByRank => &RankByRank,
        }
    }
}

/// What a policy decides.
pub(super) trait Rules {
    fn trigger(&self) -> Trigger;
    fn exchange(&self) -> Exchange {
        Exchange::Messages
    }
    fn order(&self) -> Order {
        Order::CardFirst
    }
}

/// What begins handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The first need of a peer.
    FirstUse,
    /// The start of the process: one peer after the other, by rank.
    StartInOrder,
    /// The start of the process: all peers at once.
    Start,
    /// The start of the process: all peers at once, when the processes before it on its node have their queue pairs.
    StartByTurns,
}

/// Which step comes first where messages are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The peer's card, then the queue pair, then the request: the card says which provider it has to be of.
    CardFirst,
    /// The same, but the peer hears before the queue pair is made that there will be one, and makes its own.
    AnnounceFirst,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_policies() {
        for (policy, name) in Policy::ALL.into_iter().zip(Policy::NAMES) {
            assert_eq!(policy.name(), name);
            let exchange = name.split_once(':').map_or(policy.exchange(), |(_, exchange)| match exchange {
                "published" => Exchange::Published,
                "batched" => Exchange::Batched,
                other => panic!("{other}"),
            });
            assert_eq!(policy.exchange(), exchange);
        }
        assert_eq!(Policy::RankByRank.exchange(), Exchange::Ranges);
        assert_eq!(Policy::default().trigger(), Trigger::FirstUse);
    }
}
