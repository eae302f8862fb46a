//! The choice of the policy that a job connects by, where that is left to Banyan (`--connect auto`).
//!
//! ```text
//! a pattern predicts nearly everybody, and there is room   rank by rank: what all will use costs least when all make it at once
//! a pattern predicts some                                  on demand; those are connected ahead of use besides
//! nothing is predicted                                       on demand: start-up follows what the program uses
//! on demand, queue pairs are dear, and cores are free       overlapped: both sides make theirs at the same time
//! ```
//! Everything is decided by what all processes of a job know, so that all decide alike. (Where hosts differ, some may overlap
//! what others do one after the other. That is the same handshake.) Not here: that a running program turns out to need everybody,
//! which the collective that does so says (`net`, `Endpoint::expect_everyone`).
use super::Policy;

/// A pattern that predicts this part of all peers, in hundredths, predicts nearly everybody. The rest costs less than that
/// many handshakes, each by messages of its own, would cost.
const NEARLY_PERCENT: u64 = 75;
/// Queue pairs that take so long are dear: a handshake in memory takes less.
const DEAR_NS: u64 = 50_000;

/// What a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// This policy.
    Fixed(Policy),
    /// Whichever suits the job.
    Auto,
}

impl Default for Asked {
    fn default() -> Self {
        Asked::Fixed(Policy::default())
    }
}

impl Asked {
    /// The names of all that can be asked for.
    pub const NAMES: [&str; Policy::NAMES.len() + 1] = {
        let mut names = ["auto"; Policy::NAMES.len() + 1];
        let (_, fixed) = names.split_at_mut(1);
        fixed.copy_from_slice(&Policy::NAMES);
        names
    };

    /// What the name at this place means.
    pub fn at(place: usize) -> Asked {
        place.checked_sub(1).and_then(|at| Policy::ALL.get(at)).map_or(Asked::Auto, |at| Asked::Fixed(*at))
    }
}

/// What all processes of a job know about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Processes.
    pub ranks: u32,
    /// Connections of each to everybody; peers may share one.
    pub connections: u32,
    /// Most connections of each, if there is a limit.
    pub budget: Option<u32>,
    /// The device of a node, if connections go through one that counts them.
    pub device: Option<Device>,
    /// How long it takes to make a queue pair, as far as that is known.
    pub create_ns: u64,
    /// Do processes have cores of their own?
    pub cores: Cores,
    /// What an earlier run predicts.
    pub forecast: Option<Forecast>,
}

/// A node's device, and what connecting everybody takes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Processes of the largest node.
    pub processes: u32,
    /// Queue pairs of each, with that for datagrams.
    pub each: u32,
    /// Queue pairs that the device has.
    pub max: u32,
    /// Those that it keeps for answers.
    pub kept: u32,
}

/// Does a process that makes a queue pair keep another from working?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// Each has one for itself.
    Own,
    /// There are more processes than cores.
    Shared,
}

/// What a pattern says of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Peers of a process, on average.
    pub peers: u32,
    /// Did it predict the run before badly?
    pub failed: bool,
}

/// Why everybody cannot be connected to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// Of places within the budget.
    #[error("takes {needed} connections of each process, and its budget is {budget} (--qp-budget)")]
    Budget {
        /// Peers of a process.
        needed: u32,
        /// Connections that it may have.
        budget: u32,
    },
    /// Of queue pairs.
    #[error(
        "takes {needed} queue pairs of a node, whose device has {max} and keeps {kept} of them for answers (--qp-max)"
    )]
    Device {
        /// For all processes of a node.
        needed: u64,
        /// Those of the device.
        max: u32,
        /// Those of them that are not for everybody.
        kept: u32,
    },
}

impl Facts {
    /// Is there no room for connections of everybody to everybody?
    pub fn shortage(&self) -> Option<Shortage> {
        let needed = self.connections;
        if let Some(budget) = self.budget.filter(|budget| *budget < needed) {
            return Some(Shortage::Budget { needed, budget });
        }
        let Device { processes, each, max, kept } = self.device?;
        let needed = u64::from(processes) * u64::from(each);
        (needed + u64::from(kept) > u64::from(max)).then_some(Shortage::Device { needed, max, kept })
    }

    fn predicts_nearly_everybody(&self, forecast: Forecast) -> bool {
        let others = u64::from(self.ranks.saturating_sub(1));
        !forecast.failed && u64::from(forecast.peers) * 100 >= others * NEARLY_PERCENT
    }
}

/// Why a job connects as it does. The numbers are those of the statistic `connect_reason`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Why {
    /// The user asked for it, or for nothing else.
    #[default]
    Asked,
    /// The user asked for everybody at the start, for whom there is no room.
    NoRoom,
    /// There is nobody else.
    Alone,
    /// Nothing is predicted.
    Unknown,
    /// Nothing is predicted, and queue pairs are dear.
    UnknownDear,
    /// Some peers are predicted.
    Predicted,
    /// Nearly everybody is.
    Everybody,
    /// Nearly everybody is, for whom the budget has no room.
    EverybodyOverBudget,
    /// Nearly everybody is, for whom the device has no room.
    EverybodyOverDevice,
}

impl Why {
    /// All of them, by their numbers.
    pub const ALL: [Why; 9] = [
        Why::Asked,
        Why::NoRoom,
        Why::Alone,
        Why::Unknown,
        Why::UnknownDear,
        Why::Predicted,
        Why::Everybody,
        Why::EverybodyOverBudget,
        Why::EverybodyOverDevice,
    ];

    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Why::Asked => "as asked for",
            Why::NoRoom => "there is no room for everybody, as was asked for",
            Why::Alone => "auto: there is nobody to connect to",
            Why::Unknown => "auto: no pattern is known, and start-up follows use",
            Why::UnknownDear => "auto: no pattern is known, and queue pairs take long to make",
            Why::Predicted => "auto: a pattern predicts some peers, who are connected ahead of use",
            Why::Everybody => "auto: a pattern predicts nearly everybody",
            Why::EverybodyOverBudget => {
                "auto: a pattern predicts nearly everybody, for whom the budget has no room"
            }
            Why::EverybodyOverDevice => {
                "auto: a pattern predicts nearly everybody, for whom the device has no room"
            }
        }
    }
}

/// A policy, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What it is.
    pub policy: Policy,
    /// For the statistics.
    pub why: Why,
}

/// What a job connects by.
pub fn choose(asked: Asked, facts: &Facts) -> Choice {
    match asked {
        Asked::Fixed(policy) => Choice { policy, why: Why::Asked },
        Asked::Auto => choose_freely(facts),
    }
}

fn choose_freely(facts: &Facts) -> Choice {
    let is_dear = facts.create_ns >= DEAR_NS && facts.cores == Cores::Own;
    let by_use = |why| Choice { policy: if is_dear { Policy::Overlapped } else { Policy::OnDemand }, why };
    if facts.ranks < 2 {
        return by_use(Why::Alone);
    }
    match (facts.forecast, facts.shortage()) {
        (None | Some(Forecast { peers: 0, .. }), _) => {
            by_use(if is_dear { Why::UnknownDear } else { Why::Unknown })
        }
        (Some(forecast), _) if !facts.predicts_nearly_everybody(forecast) => by_use(Why::Predicted),
        (Some(_), None) => Choice { policy: Policy::RankByRank, why: Why::Everybody },
        (Some(_), Some(Shortage::Budget { .. })) => by_use(Why::EverybodyOverBudget),
        (Some(_), Some(Shortage::Device { .. })) => by_use(Why::EverybodyOverDevice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 processes on 8 nodes, with a device that is large enough.
    fn facts() -> Facts {
        let device = Some(Device { processes: 8, each: 64, max: 131_072, kept: 16_384 });
        Facts {
            ranks: 64,
            connections: 63,
            budget: None,
            device,
            create_ns: 0,
            cores: Cores::Shared,
            forecast: None,
        }
    }

    fn predicted(peers: u32) -> Facts {
        Facts { forecast: Some(Forecast { peers, failed: false }), ..facts() }
    }

    fn auto(facts: Facts) -> (&'static str, Why) {
        let Choice { policy, why } = choose(Asked::Auto, &facts);
        (policy.name(), why)
    }

    #[test]
    fn what_is_asked_for_is_taken() {
        for policy in Policy::ALL {
            assert_eq!(choose(Asked::Fixed(policy), &predicted(63)), Choice { policy, why: Why::Asked });
        }
    }

    #[test]
    fn without_a_pattern_start_up_follows_use() {
        assert_eq!(auto(facts()), ("on-demand", Why::Unknown));
        assert_eq!(auto(predicted(0)), ("on-demand", Why::Unknown));
        assert_eq!(auto(Facts { ranks: 1, ..predicted(1) }), ("on-demand", Why::Alone));
    }

    #[test]
    fn dear_queue_pairs_are_made_by_both_sides_at_once_where_cores_are_free() {
        let dear = |facts: Facts| Facts { create_ns: 367_000, cores: Cores::Own, ..facts };
        assert_eq!(auto(dear(facts())), ("overlapped", Why::UnknownDear));
        assert_eq!(auto(dear(predicted(4))), ("overlapped", Why::Predicted));
        assert_eq!(auto(Facts { cores: Cores::Shared, ..dear(facts()) }), ("on-demand", Why::Unknown));
        assert_eq!(auto(Facts { create_ns: DEAR_NS - 1, ..dear(facts()) }), ("on-demand", Why::Unknown));
        assert_eq!(auto(dear(predicted(63))), ("rank-by-rank", Why::Everybody));
    }

    #[test]
    fn a_pattern_of_nearly_everybody_connects_all_at_the_start() {
        for (peers, expected) in [
            (1, ("on-demand", Why::Predicted)),
            (47, ("on-demand", Why::Predicted)),
            (48, ("rank-by-rank", Why::Everybody)),
            (63, ("rank-by-rank", Why::Everybody)),
        ] {
            assert_eq!(auto(predicted(peers)), expected, "{peers} of 63");
        }
        let failed = Some(Forecast { peers: 63, failed: true });
        assert_eq!(auto(Facts { forecast: failed, ..facts() }), ("on-demand", Why::Predicted));
    }

    #[test]
    fn everybody_must_have_room() {
        let everybody = predicted(63);
        assert_eq!(auto(Facts { budget: Some(63), ..everybody }), ("rank-by-rank", Why::Everybody));
        let scant = Facts { budget: Some(62), ..everybody };
        assert_eq!(auto(scant), ("on-demand", Why::EverybodyOverBudget));
        assert_eq!(scant.shortage(), Some(Shortage::Budget { needed: 63, budget: 62 }));
        let device =
            |max| Facts { device: Some(Device { processes: 8, each: 64, max, kept: max / 8 }), ..everybody };
        assert_eq!(auto(device(600)), ("rank-by-rank", Why::Everybody));
        assert_eq!(auto(device(580)), ("on-demand", Why::EverybodyOverDevice));
        assert_eq!(device(580).shortage(), Some(Shortage::Device { needed: 512, max: 580, kept: 72 }));
        assert_eq!(auto(Facts { device: None, ..everybody }), ("rank-by-rank", Why::Everybody));
    }

    #[test]
    fn names_are_auto_and_those_of_the_policies() {
        assert_eq!(Asked::at(0), Asked::Auto);
        for (place, name) in Asked::NAMES.into_iter().enumerate().skip(1) {
            assert!(matches!(Asked::at(place), Asked::Fixed(policy) if policy.name() == name), "{name}");
        }
    }

    #[test]
    fn every_reason_has_its_number_and_words_of_its_own() {
        for (number, why) in Why::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, number);
            assert!(Why::ALL[..number].iter().all(|other| other.words() != why.words()));
        }
    }
}
