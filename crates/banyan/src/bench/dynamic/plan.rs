//! What is measured: jobs, the rows of the table that each fills, and the goals.
use super::super::job::{Better, Group, Row, row};
use super::super::sample::Sample;
use super::options::Options;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// One process has others started, until a barrier among all of them is through.
    Spawn {
        /// How many.
        children: usize,
    },
    /// Two launches meet at a port, have a barrier, and disconnect.
    Meet {
        /// Processes of each.
        ranks: usize,
    },
}

/// Of the times of a run, those that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All.
    Every,
    /// The first one.
    First,
    /// All others.
    Later,
}

impl Part {
    /// The median of those.
    pub fn of(self, times: &[f64]) -> Option<f64> {
        let times = match self {
            Part::Every => times,
            Part::First => times.get(..1)?,
            Part::Later => times.get(1..)?,
        };
        let mut sample = Sample::default();
        times.iter().for_each(|&time| sample.add(Some(time)));
        sample.median()
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// As the table has it.
    pub row: Row,
    /// Which times it is about.
    pub part: Part,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What it does.
    pub work: Work,
    /// How often.
    pub times: usize,
    /// What it measures.
    pub rows: Vec<Measured>,
}

impl Job {
    /// The jobs that measure what was asked for.
    pub fn plan(options: &Options) -> Vec<Job> {
        let mut jobs = Vec::new();
        if options.groups.contains(&Group::Spawn) {
            jobs.extend(options.children.iter().map(|&children| Job::spawn(children, options.spawns)));
        }
        if options.groups.contains(&Group::Meet) {
            jobs.extend(options.ranks.iter().map(|&ranks| Job::meet(ranks, options.meetings)));
        }
        jobs
    }

    fn spawn(children: usize, times: usize) -> Job {
        let label = format!("spawn of {children}, ms");
        let row = row(&format!("spawn_{children}"), label, Group::Spawn, Better::Lower);
        Job { work: Work::Spawn { children }, times, rows: vec![Measured { row, part: Part::Every }] }
    }

    fn meet(ranks: usize, times: usize) -> Job {
        let measured = |(name, part): (&str, Part)| {
            let (key, label) =
                (format!("meet_{name}_{ranks}"), format!("{name} meeting, {ranks} + {ranks}, ms"));
            Measured { row: row(&key, label, Group::Meet, Better::Lower), part }
        };
        let rows = [("first", Part::First), ("later", Part::Later)].map(measured).into();
        Job { work: Work::Meet { ranks }, times, rows }
    }

    /// What the program calls the times that count.
    pub fn key(&self) -> &'static str {
        match self.work {
            Work::Spawn { .. } => "spawn_ms",
            Work::Meet { .. } => "connect_ms",
        }
    }

    /// Processes that take part.
    pub fn processes(&self) -> usize {
        match self.work {
            Work::Spawn { children } => 1 + children,
            Work::Meet { ranks } => 2 * ranks,
        }
    }

    /// What the progress line says.
    pub fn describe(&self) -> String {
        match self.work {
            Work::Spawn { children } => format!("spawn of {children}"),
            Work::Meet { ranks } => format!("meetings of {ranks} and {ranks}"),
        }
    }
}

/// Banyan's time as a multiple of the best peer's, at most, in every row.
pub const AT_MOST: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_and_later_ones_are_told_apart() {
        let times = [90.0, 3.0, 1.0, 2.0];
        let medians = [Part::Every, Part::First, Part::Later].map(|part| part.of(&times));
        assert_eq!(medians, [Some(2.5), Some(90.0), Some(2.0)]);
        assert_eq!([Part::Every, Part::First, Part::Later].map(|part| part.of(&[])), [None; 3]);
        assert_eq!(Part::Later.of(&times[..1]), None);
    }
}
