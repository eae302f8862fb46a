//! Everybody is connected to everybody before the program goes on, and hardly anything is exchanged: the processes of a
//! node make their queue pairs in turn, so that their numbers come in a row, and tell ranges of numbers.
use super::{Exchange, Rules, Trigger};

pub(super) struct RankByRank;

impl Rules for RankByRank {
    fn trigger(&self) -> Trigger {
        Trigger::StartByTurns
    }

    fn exchange(&self) -> Exchange {
        Exchange::Ranges
    }
}
