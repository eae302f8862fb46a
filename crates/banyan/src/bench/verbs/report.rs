//! The tables: steps of a connection, numbers of queue pairs, registering memory, and MPI beside perftest. As text and as
//! JSON.
use super::super::job::Group;
use super::super::machine;
use super::super::sample::number;
use super::super::table::Table;
use super::super::verdict::Verdict;
use super::numbers::Numbers;
use super::steps::{Steps, Times};
use serde_json::{Value, json};

const LABEL_WIDTH: usize = 36;
const CELL_WIDTH: usize = 12;
/// What MPI may cost at most, beside the bare device: latency, and bandwidth (0.9 of perftest's).
const LATENCY_MOST: f64 = 1.3;
const BANDWIDTH_MOST: f64 = 1.0 / 0.9;

/// Everything that was measured.
#[derive(Debug)]
pub struct Report {
    /// The device.
    pub device: String,
    /// What it takes for steps and memory.
    pub steps: Steps,
    /// What the first message of two ranks takes beyond a later one.
    pub connects: Times,
    /// How it numbers, or why that is not known.
    pub numbers: Result<Vec<Numbers>, String>,
    /// MPI beside perftest.
    pub table: Table,
    /// Rounds over both.
    pub rounds: usize,
    /// What else ran on the machine when it began: the load average of the last minute.
    pub load_before: f64,
}

impl Report {
    /// The tables for people.
    pub fn text(&self) -> String {
        let mut text = format!("{} on {}\n{}", self.device, machine::describe(), self.table.versions());
        if let Some(warning) = machine::busy_warning(self.load_before) {
            text += &format!("\n{warning}\n");
        }
        text += &format!("\n{}\n{}\n{}", self.steps_text(), self.numbers_text(), self.memory_text());
        text += &format!(
            "\nTwo ranks through the device, beside perftest. Median of {} interleaved runs [smallest..largest]\n\n{}",
            self.rounds,
            self.table.medians()
        );
        text += &format!("\n{}\n", self.table.ratios());
        text += &self.verdicts().iter().map(Verdict::line).collect::<String>();
        text
    }

    fn steps_text(&self) -> String {
        let mut text = line("Steps of a connection, us", ["median", "99 %", "times"]);
        for (name, times) in &self.steps.steps {
            text += &times_line(name, times);
        }
        text + &times_line("first message of two ranks, beyond", &self.connects)
    }

    fn numbers_text(&self) -> String {
        let mut text = line("Numbers of queue pairs", ["count", "first", "last", "ranges", "longest"]);
        match &self.numbers {
            Ok(all) => text.extend(all.iter().map(|numbers| line(numbers.who, numbers.cells()))),
            Err(why) => text += &format!("not known: {why}\n"),
        }
        text
    }

    fn memory_text(&self) -> String {
        let mut text = line("Memory, us", ["register", "99 %", "deregister", "99 %"]);
        for (bytes, on, off) in &self.steps.memory {
            let label = match bytes >> 20 {
                0 => format!("{} KiB", bytes >> 10),
                mib => format!("{mib} MiB"),
            };
            text += &line(&label, [on.median(), on.most(), off.median(), off.most()].map(cell));
        }
        text
    }

    /// The goals, for what both sides have.
    fn verdicts(&self) -> Vec<Verdict> {
        let verdict = |line: &super::Line| Verdict {
            what: line.row.label.clone(),
            value: self.table.own_ratio(line).map(|ratio| ratio.median),
            at_most: if line.row.group == Group::Latency { LATENCY_MOST } else { BANDWIDTH_MOST },
        };
        self.table.lines.iter().filter(|line| line.cells[1].runs() > 0).map(verdict).collect()
    }

    /// The figures for scripts.
    pub fn json(&self) -> Value {
        let step = |(name, times): &(&str, Times)| (name.to_string(), times.json());
        let memory = |(bytes, on, off): &(usize, Times, Times)| json!({ "bytes": bytes, "register": on.json(), "deregister": off.json() });
        json!({
            "device": self.device,
            "rounds": self.rounds,
            "processor": crate::info::processor(),
            "cores": machine::cores(),
            "load_before": self.load_before,
            "steps": Value::Object(self.steps.steps.iter().map(step).collect()),
            "first_message": self.connects.json(),
            "numbers": self.numbers.as_ref().ok().map(|all| all.iter().map(Numbers::json).collect::<Vec<_>>()),
            "memory": self.steps.memory.iter().map(memory).collect::<Vec<_>>(),
            "versions": self.table.versions_json(),
            "rows": self.table.rows_json(),
            "goals": self.verdicts().iter().map(Verdict::json).collect::<Vec<_>>(),
        })
    }
}

fn times_line(name: &str, times: &Times) -> String {
    line(name, [cell(times.median()), cell(times.most()), times.count().to_string()])
}

fn cell(us: Option<f64>) -> String {
    us.map_or("-".into(), number)
}

fn line<const N: usize>(label: &str, cells: [impl AsRef<str>; N]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{:>CELL_WIDTH$}", cell.as_ref())).collect();
    format!("{label:<LABEL_WIDTH$}{cells}\n")
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::Sample;
    use super::super::super::table::{Column, Side};
    use super::super::{Line, QUANTITIES, Wait};
    use super::*;

    fn report() -> Report {
        let sample = |value: Option<f64>| {
            let mut sample = Sample::default();
            sample.add(value);
            sample
        };
        let both = |own, theirs| vec![sample(Some(own)), sample(theirs)];
        let line = |at: usize, cells| Line { row: QUANTITIES[at].row(Wait::Polling), ranks: 2, cells };
        let column = |key, side| Column { key, side, version: Ok("1".into()) };
        let times = |us| Times::new(vec![us; 3]);
        Report {
            device: "rxe0 port 1".into(),
            steps: Steps {
                steps: vec![("RESET to INIT", times(7.25))],
                memory: vec![(4096, times(9.0), times(5.0)), (1 << 20, times(300.0), times(80.0))],
                numbers: vec![17, 18],
            },
            connects: times(900.0),
            numbers: Ok(vec![Numbers::new("one process", vec![17, 18])]),
            table: Table {
                columns: vec![column("banyan", Side::Own), column("perftest", Side::Peer)],
                lines: vec![
                    line(0, both(26.0, Some(20.0))),
                    line(3, both(40.0, Some(50.0))),
                    line(2, both(40.0, None)),
                ],
            },
            rounds: 1,
            load_before: 0.0,
        }
    }

    #[test]
    fn each_thing_has_its_line() {
        let text = report().text();
        let cells = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).expect(start);
            line[LABEL_WIDTH..].split_whitespace().map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(cells("RESET to INIT"), ["7.25", "7.25", "3"]);
        assert_eq!(cells("first message"), ["900", "900", "3"]);
        assert_eq!(cells("one process"), ["2", "0x11", "0x12", "1", "2"]);
        assert_eq!(cells("1 MiB"), ["300", "300", "80.0", "80.0"]);
    }

    #[test]
    fn goals_are_of_what_both_have() {
        let goals = report().verdicts();
        let words: Vec<&str> = goals.iter().map(Verdict::word).collect();
        // 26 of 20 is 1.3 times; 40 of 50 is too little.
        assert_eq!(words, ["met", "MISSED"]);
    }

    #[test]
    fn json_holds_steps_numbers_and_rows() {
        let json = report().json();
        assert_eq!(json["steps"]["RESET to INIT"]["p99_us"], json!(7.25));
        assert_eq!(json["numbers"][0]["ranges"], json!(1));
        assert_eq!(json["memory"][1]["deregister"]["median_us"], json!(80.0));
        assert_eq!(json["rows"][0]["key"], json!("latency_8_polling"));
        assert_eq!(json["rows"][0]["libraries"]["banyan"]["ratio"], json!(1.3));
    }
}
