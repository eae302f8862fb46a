//! What the ranks and the launcher of the demo wrote down.
use proto::stats::Stat;
use serde_json::{Value, json};

/// What one rank saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFacts {
    /// Its rank.
    pub rank: usize,
    /// Its node.
    pub node: usize,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

/// One step of a tour, as a rank saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// What the rank checked.
    pub checked: String,
    /// Time it took here.
    pub micros: u64,
    /// Whom the rank is connected to at its end.
    pub peers: Vec<usize>,
}

impl RankFacts {
    /// One line that [`RankFacts::read_all`] reads.
    pub fn line(&self) -> String {
        let step =
            |s: &Step| json!({"name": s.name, "checked": s.checked, "micros": s.micros, "peers": s.peers});
        let steps: Vec<Value> = self.steps.iter().map(step).collect();
        json!({"rank": self.rank, "node": self.node, "steps": steps}).to_string()
    }

    /// What all ranks printed, in order of rank.
    pub fn read_all(text: &str) -> Result<Vec<Self>, String> {
        let read = |line: &str| {
            let json = serde_json::from_str(line).map_err(|e| format!("a rank printed '{line}': {e}"))?;
            Self::from_json(&json).ok_or_else(|| format!("a rank printed '{line}'"))
        };
        let mut ranks = text.lines().map(read).collect::<Result<Vec<Self>, String>>()?;
        ranks.sort_by_key(|facts| facts.rank);
        Ok(ranks)
    }

    fn from_json(json: &Value) -> Option<Self> {
        let steps = json["steps"].as_array()?.iter().map(Step::from_json).collect::<Option<_>>()?;
        Some(RankFacts { rank: number(&json["rank"])?, node: number(&json["node"])?, steps })
    }
}

impl Step {
    fn from_json(json: &Value) -> Option<Self> {
        Some(Step {
            name: json["name"].as_str()?.to_string(),
            checked: json["checked"].as_str()?.to_string(),
            micros: json["micros"].as_u64()?,
            peers: json["peers"].as_array()?.iter().map(number).collect::<Option<_>>()?,
        })
    }
}

/// What the launcher's statistics say.
#[derive(Clone, Debug)]
pub struct JobFacts(Value);

impl JobFacts {
    /// From the object that `--stats=json` prints.
    pub fn new(json: Value) -> Self {
        JobFacts(json)
    }

    /// The average of a counter over all ranks.
    pub fn average(&self, key: &str) -> Result<f64, String> {
        self.0[key]["avg"].as_f64().ok_or_else(|| format!("the statistics have no {key}"))
    }

    /// The launcher's milestones, in milliseconds since its start.
    pub fn milestones(&self) -> Vec<(&'static str, f64)> {
        let names = [
            ("all agents are there", "agents"),
            ("all ranks are started", "started"),
            ("all ranks have ended", "ended"),
            ("everything is cleaned up", "total"),
        ];
        names.into_iter().filter_map(|(text, key)| Some((text, self.0["launch_ms"][key].as_f64()?))).collect()
    }

    /// The phases of a rank's start-up with their milliseconds, in order of time.
    pub fn phases(&self) -> Vec<(&'static str, f64)> {
        let phases = Stat::ALL.iter().filter_map(|stat| stat.phase());
        phases.filter_map(|name| Some((name, self.0["init_ms"][name].as_f64()?))).collect()
    }
}

fn number(json: &Value) -> Option<usize> {
    json.as_u64().and_then(|number| usize::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_print_is_read_in_order_of_rank() {
        let step = Step { name: "ring".into(), checked: "a token".into(), micros: 12, peers: vec![1, 7] };
        let facts = |rank| RankFacts { rank, node: 1, steps: vec![step.clone()] };
        let text = format!("{}\n{}\n", facts(4).line(), facts(3).line());
        assert_eq!(RankFacts::read_all(&text).unwrap(), [facts(3), facts(4)]);
    }

    #[test]
    fn what_no_rank_prints_is_refused() {
        for text in ["hello", "{}", "{\"rank\": 1, \"node\": 0, \"steps\": [{}]}"] {
            assert!(RankFacts::read_all(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_missing_counter_is_named() {
        let facts = JobFacts::new(json!({"connections": {"avg": 2.5}}));
        assert_eq!(facts.average("connections"), Ok(2.5));
        assert!(facts.average("mapped_bytes").unwrap_err().contains("mapped_bytes"));
    }
}
