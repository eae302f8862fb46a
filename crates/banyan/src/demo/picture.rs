//! The demo's output as plain text. Pure: facts in, lines out.
use super::facts::{JobFacts, RankFacts};

/// One line per step: its number, what was checked, and how long the slowest rank took.
pub fn steps(ranks: &[RankFacts]) -> Vec<String> {
    let Some(first) = ranks.first() else { return Vec::new() };
    let line = |(at, step): (usize, &super::facts::Step)| {
        let slowest = ranks.iter().filter_map(|rank| Some(rank.steps.get(at)?.micros)).max().unwrap_or(0);
        format!("  {} {:<16} {:<58} {:>6} us", at + 1, step.name, step.checked, slowest)
    };
    first.steps.iter().enumerate().map(line).collect()
}

/// The matrix of ranks; a number is the step in which the pair was first connected.
pub fn matrix(ranks: &[RankFacts]) -> String {
    let nodes: Vec<u32> = ranks.iter().map(|rank| rank.node as u32).collect();
    let cell = |from: usize, to: usize| match (from == to, first_step(ranks, from, to)) {
        (true, _) => '\\',
        (_, Some(step)) => char::from_digit(step as u32 + 1, 36).unwrap_or('+'),
        (_, None) => '.',
    };
    let total = |from: usize| {
        let connected = (0..ranks.len()).filter(|&to| first_step(ranks, from, to).is_some()).count();
        format!("{connected} of {}", ranks.len() - 1)
    };
    launch::grid(&nodes, cell, total)
}

/// The step in which a pair was connected. Every step ends with both sides connected, but a rank that is
/// behind may see the next step's connections early: the later of the two views is the right one.
fn first_step(ranks: &[RankFacts], a: usize, b: usize) -> Option<usize> {
    let seen = |from: usize, to: usize| ranks[from].steps.iter().position(|step| step.peers.contains(&to));
    Some(seen(a, b)?.max(seen(b, a)?))
}

/// What the tour cost beside a job in which everyone talks to everyone.
pub fn cost(tour: &JobFacts, crowd: &JobFacts) -> String {
    let mut text = format!("    {:<28}{:>12}{:>14}\n", "", "the tour", "all to all");
    let rows = [
        ("connections", "connections", 1.0),
        ("handshakes", "handshakes", 1.0),
        ("KiB mapped", "mapped_bytes", 1024.0),
        ("KiB touched", "touched_bytes", 1024.0),
    ];
    for (label, key, unit) in rows {
        let value = |facts: &JobFacts| {
            facts.average(key).map_or("-".into(), |average| format!("{:.1}", average / unit))
        };
        text += &format!("    {label:<28}{:>12}{:>14}\n", value(tour), value(crowd));
    }
    text
}

/// The phases of a rank's start-up as bars, and the launcher's milestones.
pub fn phases(job: &JobFacts) -> String {
    const BAR: f64 = 40.0;
    let phases = job.phases();
    let longest = phases.iter().map(|(_, ms)| *ms).fold(f64::MIN_POSITIVE, f64::max);
    let mut text = String::new();
    for (name, ms) in &phases {
        let bar = "#".repeat((ms / longest * BAR).round() as usize);
        text += format!("    {:<26}{ms:>9.3} ms  {bar}", phase_label(name)).trim_end();
        text += "\n";
    }
    for (name, ms) in job.milestones() {
        text += &format!("    {name:<26}{ms:>9.3} ms\n");
    }
    text
}

fn phase_label(key: &str) -> String {
    match key {
        "load" => "from fork to init".into(),
        "pmi" => "init: ask the agent".into(),
        "device" => "init: open the device".into(),
        "fence" => "init: publish the card".into(),
        other => format!("init: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Step;
    use super::*;
    use serde_json::json;

    fn rank(rank: usize, node: usize, steps: &[&[usize]]) -> RankFacts {
        let step = |(at, peers): (usize, &&[usize])| Step {
            name: format!("step {at}"),
            checked: "fine".into(),
            micros: 10 + rank as u64,
            peers: peers.to_vec(),
        };
        RankFacts { rank, node, steps: steps.iter().enumerate().map(step).collect() }
    }

    #[test]
    fn the_matrix_shows_the_step_that_connected_a_pair() {
        let ranks = [rank(0, 0, &[&[1, 2], &[1, 2]]), rank(1, 0, &[&[0], &[0]]), rank(2, 1, &[&[], &[0]])];
        let text = matrix(&ranks);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "0  1    2",
                "node 0, rank  0   \\  1    2   2 of 2",
                "node 0, rank  1   1  \\    .   1 of 2",
                "",
                "node 1, rank  2   2  .    \\   1 of 2",
            ]
        );
    }

    #[test]
    fn a_step_takes_as_long_as_its_slowest_rank() {
        let lines = steps(&[rank(0, 0, &[&[]]), rank(7, 0, &[&[]])]);
        assert!(lines[0].ends_with("17 us"), "{lines:?}");
    }

    #[test]
    fn costs_stand_side_by_side() {
        let job = |n: f64| JobFacts::new(json!({"connections": {"avg": n}}));
        let text = cost(&job(3.5), &job(7.0));
        assert!(text.lines().nth(1).unwrap().ends_with("3.5           7.0"), "{text}");
    }

    #[test]
    fn the_longest_phase_has_the_longest_bar() {
        let text = phases(&JobFacts::new(
            json!({"init_ms": {"pmi": 1.0, "device": 0.5}, "launch_ms": {"total": 9.0}}),
        ));
        let bars: Vec<usize> = text.lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(bars, [40, 20, 0]);
    }
}
