//! A goal that a figure is held against.
use serde_json::{Value, json};

/// A goal and what became of it.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What is divided by what.
    pub what: String,
    /// The ratio, if it was measured.
    pub value: Option<f64>,
    /// How large it may be.
    pub at_most: f64,
}

impl Verdict {
    /// "met", "MISSED" or "not measured".
    pub fn word(&self) -> &'static str {
        match self.value {
            None => "not measured",
            Some(value) if value <= self.at_most => "met",
            Some(_) => "MISSED",
        }
    }

    /// For people.
    pub fn line(&self) -> String {
        let value = self.value.map_or("-".into(), ratio);
        format!("{:<13} {value:>5} (at most {})  {}\n", self.word(), ratio(self.at_most), self.what)
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        json!({"what": self.what, "ratio": self.value, "at_most": self.at_most, "verdict": self.word()})
    }
}

/// Two decimals, three for small ones.
pub fn ratio(value: f64) -> String {
    if value < 0.1 { format!("{value:.3}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_at_its_bound() {
        let word = |value| Verdict { what: String::new(), value, at_most: 0.1 }.word();
        assert_eq!((word(Some(0.1)), word(Some(0.11)), word(None)), ("met", "MISSED", "not measured"));
    }

    #[test]
    fn small_ratios_keep_their_digits() {
        assert_eq!((ratio(1.234), ratio(0.015)), ("1.23".into(), "0.015".into()));
    }
}
